/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What members of the roster have: sockets, slots, claims and ports, and the plan that follows from
 * them.
 */
#include <errno.h>
#include <string.h>

#include "net/share/roster_internal.h"
#include "net/wire/gid.h"

/*
 * Each lease of a slot begins so many numbers after the one before. Most processes create
 * fewer QPs: then no number comes back before the cursor went around 16 times.
 */
#define NUMBERS_A_LEASE 256

static bool shared_gid_is(const struct shared_gid *shared, const union ibv_gid *gid)
{
	uint64_t halves[2];

	memcpy(halves, gid, sizeof(halves));
	return shared->halves[0] == halves[0] && shared->halves[1] == halves[1];
}

/* --- sockets --------------------------------------------------------------------------- */

static struct reuseport_socket *find_socket(const struct roster *roster, uint32_t member,
					    const union ibv_gid *gid)
{
	for (struct reuseport_socket *socket = roster->table->sockets; socket < sockets_end(roster);
	     socket++) {
		if (read_member(&socket->member) == member && shared_gid_is(&socket->gid, gid))
			return socket;
	}
	return NULL;
}

static struct reuseport_socket *last_socket(const struct roster *roster, const union ibv_gid *gid)
{
	struct reuseport_socket *last = NULL;

	for (struct reuseport_socket *socket = roster->table->sockets; socket < sockets_end(roster);
	     socket++) {
		if (read_member(&socket->member) && shared_gid_is(&socket->gid, gid) &&
		    (!last || socket->index > last->index))
			last = socket;
	}
	return last;
}

/* One of @member, which is ourselves or dead. */
static void remove_socket(struct roster *roster, struct reuseport_socket *socket, uint32_t member)
{
	union ibv_gid gid = shared_gid_get(&socket->gid);
	struct reuseport_socket *last = last_socket(roster, &gid);

	if (last && last != socket)
		last->index = socket->index;
	atomic_compare_exchange_strong(&socket->member, &member, 0);
}

unsigned int roster_sockets(const struct roster *roster, const union ibv_gid *gid)
{
	unsigned int count = 0;

	for (struct reuseport_socket *socket = roster->table->sockets; socket < sockets_end(roster);
	     socket++)
		count += read_member(&socket->member) && shared_gid_is(&socket->gid, gid);
	return count;
}

int roster_join_group(struct roster *roster, const union ibv_gid *gid, uint64_t cookie)
{
	struct roster_file *table = roster->table;
	struct reuseport_socket *socket;

	for (socket = table->sockets; socket < table->sockets + SOCKETS; socket++) {
		if (entry_take(&socket->member, 0, roster->self))
			break;
	}
	if (socket == table->sockets + SOCKETS)
		return ENOSPC;
	raise_mark(&table->sockets_used, socket + 1 - table->sockets);
	socket->index = roster_sockets(roster, gid);
	socket->cookie = cookie;
	shared_gid_set(&socket->gid, gid);
	socket->member = roster->self;
	return 0;
}

void roster_leave_group(struct roster *roster, const union ibv_gid *gid)
{
	struct reuseport_socket *socket = find_socket(roster, roster->self, gid);

	if (socket)
		remove_socket(roster, socket, roster->self);
}

int roster_index(const struct roster *roster, uint32_t member, const union ibv_gid *gid)
{
	struct reuseport_socket *socket = find_socket(roster, member, gid);

	return socket ? (int)socket->index : -1;
}

void roster_set_index(struct roster *roster, const union ibv_gid *gid, unsigned int index)
{
	struct reuseport_socket *ours = find_socket(roster, roster->self, gid);

	/* Sockets have left since it was learned, or what said so isn't a member. */
	if (!ours || index >= roster_sockets(roster, gid))
		return;
	for (struct reuseport_socket *socket = roster->table->sockets; socket < sockets_end(roster);
	     socket++) {
		if (read_member(&socket->member) && socket->index == index &&
		    shared_gid_is(&socket->gid, gid))
			socket->index = ours->index;
	}
	ours->index = index;
}

uint64_t roster_cookie(const struct roster *roster, uint32_t member, const union ibv_gid *gid)
{
	struct reuseport_socket *socket = find_socket(roster, member, gid);

	return socket ? socket->cookie : 0;
}

uint32_t roster_next_neighbour(const struct roster *roster, const union ibv_gid *gid,
			       uint32_t *place)
{
	struct reuseport_socket *sockets = roster->table->sockets;

	while (sockets + *place < sockets_end(roster)) {
		struct reuseport_socket *socket = &sockets[(*place)++];
		uint32_t member = read_member(&socket->member);

		if (member && member != roster->self && shared_gid_is(&socket->gid, gid))
			return member;
	}
	return 0;
}

uint32_t roster_neighbour(const struct roster *roster, const union ibv_gid *gid)
{
	uint32_t place = 0;

	return roster_next_neighbour(roster, gid, &place);
}

/* --- slots ------------------------------------------------------------------------------- */

static uint32_t next_slot(uint32_t slot)
{
	return slot + 1 < SLOTS - 1 ? slot + 1 : 1;
}

/* The first slot of @count free ones in a row, once around from @cursor; 0: none. */
static uint32_t find_slots(const struct roster_file *table, uint32_t cursor, uint32_t count)
{
	uint32_t slot = cursor, row = 0;

	if (slot < 1 || slot >= SLOTS - 1)
		slot = 1;

	for (uint32_t i = 0; i < SLOTS; i++) {
		row = table->owners[slot] ? 0 : row + 1;
		if (row == count)
			return slot + 1 - count;
		if (next_slot(slot) == 1)
			row = 0;
		slot = next_slot(slot);
	}
	return 0;
}

/* Become the owner of @count slots. Returns false if a member has one. */
static bool take_slots(struct roster *roster, uint32_t first, uint32_t count)
{
	_Atomic uint16_t *owners = roster->table->owners + first;
	uint32_t taken;

	for (taken = 0; taken < count; taken++) {
		uint16_t none = 0;

		if (!atomic_compare_exchange_strong(&owners[taken], &none, roster->self))
			break;
	}
	for (uint32_t i = 0; i < taken && taken < count; i++)
		owners[i] = 0;
	return taken == count;
}

/*
 * The cursor goes on first: though we be killed now, no number is leased twice in this round. And
 * never back, though we were stopped before that and others have leased since.
 */
static uint32_t lease_slots(struct roster *roster, uint32_t count)
{
	struct roster_file *table = roster->table;
	uint32_t cursor = table->cursor, slot;

	while ((slot = find_slots(table, cursor, count))) {
		if (atomic_compare_exchange_strong(&table->cursor, &cursor,
						   next_slot(slot + count - 1)) &&
		    take_slots(roster, slot, count))
			return slot;
		cursor = table->cursor;
	}
	return 0;
}

int roster_lease(struct roster *roster, struct lease *lease)
{
	struct member *self = member_of(roster, roster->self);
	struct roster_file *table = roster->table;
	uint32_t slots = self->slots ? self->slots : 1, slot;
	bool reaped = false;

	while (!(slot = lease_slots(roster, slots))) {
		if (slots > 1) {
			slots /= 2;
		} else if (reaped) {
			return ENOSPC;
		} else {
			roster_reap(roster);
			reaped = true;
		}
	}
	lease->first = slot << SLOT_QPN_BITS;
	lease->count = slots << SLOT_QPN_BITS;
	lease->start = lease->first + table->next[slot] % SLOT_QPNS;
	for (uint32_t i = slot; i < slot + slots; i++)
		table->next[i] = (table->next[i] + NUMBERS_A_LEASE) % SLOT_QPNS;
	if (!self->primary_slot)
		self->primary_slot = slot;
	self->slots += slots;
	return 0;
}

uint32_t roster_owner(const struct roster *roster, uint32_t slot)
{
	return slot < SLOTS ? read_owner(roster->table, slot) : 0;
}

uint32_t roster_primary_slot(const struct roster *roster, uint32_t member)
{
	uint32_t slot = member_of(roster, member)->primary_slot;

	return slot < SLOTS ? slot : 0;
}

/* --- claims ------------------------------------------------------------------------------- */

/* An unspecified address stands for all of its family at which the member has a socket. */
static bool covers(const struct roster *roster, const struct claim *claim, const union ibv_gid *gid)
{
	union ibv_gid where = shared_gid_get(&claim->gid);

	if (!gid_is_unspecified(&where))
		return gid_equal(&where, gid);
	return gid_is_ipv4(&where) == gid_is_ipv4(gid) &&
	       find_socket(roster, read_member(&claim->member), gid);
}

/*
 * Whether another member claims the service at @gid: 0, or the errno that Linux's rdma_cm has for
 * a port in use, by whether that is at this very address (cma_check_port()).
 */
static int check_taken(const struct roster *roster, const union ibv_gid *gid, uint64_t service_id)
{
	for (struct claim *claim = roster->table->claims; claim < claims_end(roster); claim++) {
		uint32_t member = read_member(&claim->member);
		union ibv_gid where = shared_gid_get(&claim->gid);

		if (member && member != roster->self && claim->service_id == service_id &&
		    covers(roster, claim, gid))
			return gid_is_unspecified(&where) ? EADDRNOTAVAIL : EADDRINUSE;
	}
	return 0;
}

/* The same for where a claim of ours at @gid would be. */
static int check_taken_anywhere(const struct roster *roster, const union ibv_gid *gid,
				uint64_t service_id)
{
	if (!gid_is_unspecified(gid))
		return check_taken(roster, gid, service_id);
	for (struct reuseport_socket *socket = roster->table->sockets; socket < sockets_end(roster);
	     socket++) {
		union ibv_gid ours = shared_gid_get(&socket->gid);

		if (read_member(&socket->member) == roster->self &&
		    gid_is_ipv4(&ours) == gid_is_ipv4(gid) &&
		    check_taken(roster, &ours, service_id))
			return EADDRNOTAVAIL;
	}
	return 0;
}

static struct claim *take_claim(struct roster *roster)
{
	struct roster_file *table = roster->table;

	for (struct claim *claim = table->claims; claim < table->claims + CLAIMS; claim++) {
		if (!entry_take(&claim->member, 0, roster->self))
			continue;
		raise_mark(&table->claims_used, claim + 1 - table->claims);
		return claim;
	}
	return NULL;
}

int roster_claim(struct roster *roster, const union ibv_gid *gid, uint64_t service_id)
{
	int error = check_taken_anywhere(roster, gid, service_id);
	struct claim *claim;

	if (error)
		return error;
	claim = take_claim(roster);
	if (!claim)
		return ENOSPC;
	claim->service_id = service_id;
	shared_gid_set(&claim->gid, gid);
	claim->member = roster->self;
	/* Another member may have claimed it just now: if we are passed over, or it was. */
	error = check_taken_anywhere(roster, gid, service_id);
	if (error)
		claim->member = 0;
	return error;
}

void roster_release(struct roster *roster, const union ibv_gid *gid, uint64_t service_id)
{
	for (struct claim *claim = roster->table->claims; claim < claims_end(roster); claim++) {
		if (claim->member == roster->self && claim->service_id == service_id &&
		    shared_gid_is(&claim->gid, gid)) {
			claim->member = 0;
			return;
		}
	}
}

unsigned int roster_services(const struct roster *roster, const union ibv_gid *gid,
			     uint64_t *services, unsigned int max)
{
	unsigned int count = 0;

	for (struct claim *claim = roster->table->claims; claim < claims_end(roster); claim++) {
		if (count < max && read_member(&claim->member) && covers(roster, claim, gid))
			services[count++] = claim->service_id;
	}
	return count;
}

uint32_t roster_claimant(const struct roster *roster, const union ibv_gid *gid, uint64_t service_id)
{
	for (struct claim *claim = roster->table->claims; claim < claims_end(roster); claim++) {
		uint32_t member = read_member(&claim->member);

		if (member && claim->service_id == service_id && covers(roster, claim, gid))
			return member;
	}
	return 0;
}

/* --- ports ---------------------------------------------------------------------------------- */

bool roster_take_port(struct roster *roster, uint16_t port)
{
	uint16_t owner = 0;

	return atomic_compare_exchange_strong(&roster->table->ports[port], &owner, roster->self) ||
	       owner == roster->self;
}

void roster_release_port(struct roster *roster, uint16_t port)
{
	uint16_t self = roster->self;

	atomic_compare_exchange_strong(&roster->table->ports[port], &self, 0);
}

/* --- the plan ------------------------------------------------------------------------------ */

static void plan_slots(const struct roster *roster, struct steer_plan *plan)
{
	const struct roster_file *table = roster->table;
	int32_t before = -1;

	for (uint32_t slot = 1; slot < SLOTS; slot++) {
		int32_t index = roster->index_of[read_owner(table, slot)];

		if (index >= 0 && index == before)
			plan->ranges[plan->range_count - 1].last = slot;
		else if (index >= 0 && plan->range_count == STEER_RANGES_MAX)
			break;
		else if (index >= 0)
			plan->ranges[plan->range_count++] = (struct steer_range){slot, slot, index};
		before = index;
	}
}

static void plan_services(const struct roster *roster, const union ibv_gid *gid,
			  struct steer_plan *plan)
{
	for (struct claim *claim = roster->table->claims; claim < claims_end(roster); claim++) {
		int32_t index = roster->index_of[read_member(&claim->member)];

		if (index < 0 || !covers(roster, claim, gid))
			continue;
		if (plan->service_count == STEER_SERVICES_MAX)
			break;
		plan->services[plan->service_count++] =
			(struct steer_service){claim->service_id, index};
	}
}

void roster_plan(struct roster *roster, const union ibv_gid *gid, struct steer_plan *plan)
{
	memset(roster->index_of, -1, sizeof(roster->index_of));
	for (struct reuseport_socket *socket = roster->table->sockets; socket < sockets_end(roster);
	     socket++) {
		uint32_t member = read_member(&socket->member);

		if (member && shared_gid_is(&socket->gid, gid))
			roster->index_of[member] = socket->index;
	}
	plan->secret = roster->table->secret;
	plan->range_count = plan->service_count = 0;
	plan_slots(roster, plan);
	plan_services(roster, gid, plan);
	plan->first = 0;
	plan->sockets = roster_sockets(roster, gid);
}

/* --- the end of members ---------------------------------------------------------------- */

/* From the last index of a group on: so the sockets that stay move but once. */
static unsigned int remove_sockets(struct roster *roster)
{
	unsigned int count = 0;

	for (;;) {
		struct reuseport_socket *last = NULL;
		uint32_t owner = 0;

		for (struct reuseport_socket *socket = roster->table->sockets;
		     socket < sockets_end(roster); socket++) {
			uint32_t member = read_member(&socket->member);

			if (!roster->gone[member] || (last && socket->index <= last->index))
				continue;
			last = socket;
			owner = member;
		}
		if (!last)
			return count;
		remove_socket(roster, last, owner);
		count++;
	}
}

/* What one that is gone has, or was filling in. */
static void free_entry(const struct roster *roster, _Atomic uint32_t *entry)
{
	uint32_t member = *entry;

	if (roster->gone[entry_holder(member)])
		atomic_compare_exchange_strong(entry, &member, 0);
}

/* The same of an array that has members' numbers alone. */
static void free_numbers(const struct roster *roster, _Atomic uint16_t *owners, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		uint16_t owner = owners[i];

		if (owner <= ROSTER_MEMBERS && roster->gone[owner])
			atomic_compare_exchange_strong(&owners[i], &owner, 0);
	}
}

unsigned int roster_remove(struct roster *roster)
{
	struct roster_file *table = roster->table;
	unsigned int sockets = remove_sockets(roster);

	for (struct reuseport_socket *socket = table->sockets; socket < sockets_end(roster);
	     socket++)
		free_entry(roster, &socket->member);
	free_numbers(roster, table->owners, SLOTS);
	free_numbers(roster, table->ports, PORTS);
	for (struct claim *claim = table->claims; claim < claims_end(roster); claim++)
		free_entry(roster, &claim->member);
	roster_orphan_connections(roster);
	for (uint32_t member = 1; member <= ROSTER_MEMBERS; member++) {
		if (!roster->gone[member])
			continue;
		member_of(roster, member)->control_port = 0;
		member_of(roster, member)->here = 0;
	}
	return sockets;
}
