/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connections with peers on other machines, so that their end can be told to the peer when the
 * process dies without a DREQ. All functions may be called without the roster's lock: an entry
 * is taken and given up by compare-and-swap.
 *
 * When its member is removed, a connection becomes an orphan, and stays one until a member at
 * the same address has told the peer often enough; or until all entries are in use.
 */
#include "net/share/roster_internal.h"

#define ORPHANED (ROSTER_MEMBERS + 1)

/* Messages get lost, and there is no process left to notice and retransmit them. */
#define TELL_TIMES 3

static struct connection *connections_end(const struct roster *roster)
{
	struct roster_file *table = roster->table;

	return table->connections + read_bound(&table->connections_used, CONNECTIONS);
}

static struct connection *take_entry(struct roster *roster, uint32_t from)
{
	struct roster_file *table = roster->table;

	for (uint32_t i = 0; i < CONNECTIONS; i++) {
		if (!entry_take(&table->connections[i].member, from, roster->self))
			continue;
		raise_mark(&table->connections_used, i + 1);
		return &table->connections[i];
	}
	return NULL;
}

uint32_t roster_add_connection(struct roster *roster, const struct share_connection *connection)
{
	struct connection *entry = take_entry(roster, 0);

	if (!entry)
		entry = take_entry(roster, ORPHANED);
	if (!entry)
		return 0;
	entry->told = 0;
	entry->local_id = connection->local_id;
	entry->remote_id = connection->remote_id;
	entry->remote_qpn = connection->remote_qpn;
	shared_gid_set(&entry->local, &connection->local);
	shared_gid_set(&entry->remote, &connection->remote);
	entry->member = roster->self;
	return entry + 1 - roster->table->connections;
}

void roster_remove_connection(struct roster *roster, uint32_t number)
{
	uint32_t self = roster->self;

	if (number && number <= CONNECTIONS)
		atomic_compare_exchange_strong(&roster->table->connections[number - 1].member,
					       &self, 0);
}

/* What a member was filling in, or was about to tell, ends with it. */
void roster_orphan_connections(struct roster *roster)
{
	for (struct connection *entry = roster->table->connections; entry < connections_end(roster);
	     entry++) {
		uint32_t member = entry->member;

		if (roster->gone[entry_holder(member)])
			atomic_compare_exchange_strong(&entry->member, &member,
						       member & ENTRY_BUSY ? 0 : ORPHANED);
	}
}

/*
 * An entry of a member that is dead, but not removed yet: the number stays its own until the entry
 * is ours. With the mutex, as another thread of ours may share the byte, too, and give it up.
 */
static bool take_of_dead(struct roster *roster, struct connection *entry, uint32_t member)
{
	bool taken = false;

	if (!roster_verify(roster) || pthread_mutex_trylock(&roster->mutex) != 0)
		return false;
	if (roster_share_byte(roster->fd, member)) {
		taken = entry_take(&entry->member, member, roster->self);
		roster_unlock_byte(roster->fd, member);
	}
	pthread_mutex_unlock(&roster->mutex);
	return taken;
}

static bool take_orphan(struct roster *roster, struct connection *entry, uint32_t member)
{
	return member == ORPHANED ? entry_take(&entry->member, member, roster->self)
				  : take_of_dead(roster, entry, member);
}

/* Those of a living member mostly stand together: @living saves system calls. */
static bool is_orphan(const struct roster *roster, uint32_t member, uint32_t *living)
{
	if (member == ORPHANED)
		return true;
	if (!member || member > ROSTER_MEMBERS || member == *living || member == roster->self)
		return false;
	if (!roster_is_alive(roster, member))
		return true;
	*living = member;
	return false;
}

static bool is_at_our_address(const struct roster *roster, const struct connection *entry)
{
	union ibv_gid local = shared_gid_get(&entry->local);

	return roster_index(roster, roster->self, &local) >= 0;
}

/*
 * Only one that is taken is read: when its peer has been told often enough, the entry is free, and
 * may soon be that of a connection that lives.
 */
bool roster_next_orphan(struct roster *roster, uint32_t *number, struct share_connection *result)
{
	uint32_t living = 0;

	for (struct connection *entry = roster->table->connections + *number;
	     *number < CONNECTIONS && entry < connections_end(roster); entry++) {
		uint32_t member = entry->member;
		bool ours;

		++*number;
		if (!is_orphan(roster, member, &living) || !is_at_our_address(roster, entry) ||
		    !take_orphan(roster, entry, member))
			continue;
		*result = (struct share_connection){
			.local_id = entry->local_id,
			.remote_id = entry->remote_id,
			.remote_qpn = entry->remote_qpn,
			.local = shared_gid_get(&entry->local),
			.remote = shared_gid_get(&entry->remote),
		};
		/* It may have become another one before we took it. */
		ours = is_at_our_address(roster, entry);
		entry->member = ours && ++entry->told >= TELL_TIMES ? 0 : ORPHANED;
		if (ours)
			return true;
	}
	return false;
}
