/* SPDX-License-Identifier: BSD-2-Clause */
/* The roster: its table in memory, its lock, its members. */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "net/guard.h"
#include "net/log.h"
#include "net/share/roster_internal.h"
#include "net/shared_file.h"

/* --- locks -------------------------------------------------------------------------- */

bool roster_is_alive(const struct roster *roster, uint32_t member)
{
	return member == roster->self || roster_is_locked(roster->fd, member, member);
}

bool roster_verify(struct roster *roster)
{
	return descriptor_verify(&roster->fd, &roster->identity);
}

int roster_lock(struct roster *roster)
{
	if (!roster_verify(roster) || roster->fd < 0)
		return EBADF;
	pthread_mutex_lock(&roster->mutex);
	if (!roster->table->secret && !roster->lost) {
		log_warn("the roster's file was truncated; addresses are no longer shared");
		roster->lost = true;
	}
	if (roster_lock_file(roster->fd, &roster->locker))
		return 0;
	pthread_mutex_unlock(&roster->mutex);
	return EBUSY;
}

bool roster_trylock(struct roster *roster)
{
	if (!roster_verify(roster) || roster->fd < 0)
		return false;
	if (pthread_mutex_trylock(&roster->mutex) != 0)
		return false;
	if (roster_trylock_file(roster->fd, &roster->locker, &roster->wait))
		return true;
	pthread_mutex_unlock(&roster->mutex);
	return false;
}

bool roster_unlock(struct roster *roster)
{
	bool ours = roster_unlock_file(roster->fd, &roster->locker);

	pthread_mutex_unlock(&roster->mutex);
	return ours;
}

/* --- members --------------------------------------------------------------------------------- */

/*
 * Their bytes stay ours until their entries are gone, even if we are stopped in between: until then
 * no other process gets their numbers. Other members may remove them, too.
 */
unsigned int roster_reap(struct roster *roster)
{
	bool *gone = roster->gone;
	unsigned int deaths = 0, sockets = 0;

	for (uint32_t member = 1; member <= ROSTER_MEMBERS; member++) {
		gone[member] = member_of(roster, member)->here && member != roster->self &&
			       roster_share_byte(roster->fd, member);
		deaths += gone[member];
	}
	if (deaths)
		sockets = roster_remove(roster);
	for (uint32_t member = 1; member <= ROSTER_MEMBERS; member++) {
		if (gone[member])
			roster_unlock_byte(roster->fd, member);
	}
	return sockets;
}

/* Take a free member number. Its byte in the file is locked from then on. */
static int join(struct roster *roster)
{
	if (getrandom(&roster->token, sizeof(roster->token), 0) != sizeof(roster->token))
		return EIO;
	roster_reap(roster);
	for (uint32_t number = 1; number <= ROSTER_MEMBERS; number++) {
		struct member *member = member_of(roster, number);

		if (member->here || !roster_lock_byte(roster->fd, number))
			continue;
		member->primary_slot = member->slots = member->control_port = 0;
		member->inbox = 0;
		member->token = roster->token;
		roster->self = number;
		member->here = 1;
		return 0;
	}
	return ENOSPC;
}

static void resign(struct roster *roster)
{
	memset(roster->gone, 0, sizeof(roster->gone));
	roster->gone[roster->self] = true;
	roster_remove(roster);
}

const char *roster_error_text(int error)
{
	switch (error) {
	case EPERM:
		return "it belongs to another user, or others may use it";
	case EBADMSG:
		return "its contents are damaged; end the programs that use it";
	case EBUSY:
		return "a process has it locked that does not go on";
	default:
		return strerror(error);
	}
}

uint32_t roster_self(const struct roster *roster)
{
	return roster->self;
}

uint64_t roster_secret(const struct roster *roster)
{
	return roster->table->secret;
}

/* --- control ports -------------------------------------------------------------------------- */

void roster_set_control_port(struct roster *roster, uint16_t port)
{
	member_of(roster, roster->self)->control_port = port;
}

uint16_t roster_control_port(const struct roster *roster, uint32_t member)
{
	return member_of(roster, member)->control_port;
}

uint64_t roster_token(const struct roster *roster, uint32_t member)
{
	return member_of(roster, member)->token;
}

uint64_t roster_own_token(const struct roster *roster)
{
	return roster->token;
}

void roster_notify(struct roster *roster, uint32_t member)
{
	atomic_fetch_add(&member_of(roster, member)->notifications, 1);
}

uint32_t roster_notifications(const struct roster *roster)
{
	return atomic_load_explicit(&member_of(roster, roster->self)->notifications,
				    memory_order_relaxed);
}

void roster_set_inbox(struct roster *roster, uint64_t number)
{
	member_of(roster, roster->self)->inbox = number;
}

uint64_t roster_inbox(const struct roster *roster, uint32_t member)
{
	return atomic_load_explicit(&member_of(roster, member)->inbox, memory_order_relaxed);
}

void roster_set_repaired(struct roster *roster, uint64_t time)
{
	roster->table->repaired = time;
}

uint64_t roster_repaired(const struct roster *roster)
{
	return roster->table->repaired;
}

/* --- the file -------------------------------------------------------------------------------- */

static int map_table(struct roster *roster)
{
	int error = shared_file_reserve(roster->fd, 0, sizeof(struct roster_file));
	void *memory;

	if (error)
		return error;
	memory = mmap(NULL, sizeof(struct roster_file), PROT_READ | PROT_WRITE, MAP_SHARED,
		      roster->fd, 0);
	if (memory == MAP_FAILED)
		return errno;
	roster->table = memory;
	return guard_file(memory, sizeof(struct roster_file)) ? 0 : ENOMEM;
}

/* Every number in it is one that a member may have written. With the lock, under which they are. */
static bool is_sound(const struct roster_file *table)
{
	bool sound = table->secret && table->version == ROSTER_VERSION &&
		     table->size == sizeof(*table) && table->cursor >= 1 &&
		     table->cursor < SLOTS - 1 && table->sockets_used <= SOCKETS &&
		     table->claims_used <= CLAIMS;

	for (uint32_t slot = 0; slot < SLOTS && sound; slot++)
		sound = table->owners[slot] <= ROSTER_MEMBERS && table->next[slot] < SLOT_QPNS;
	for (uint32_t i = 0; i < ROSTER_MEMBERS && sound; i++)
		sound = table->members[i].here <= 1 && table->members[i].primary_slot < SLOTS &&
			table->members[i].slots < SLOTS &&
			table->members[i].control_port <= UINT16_MAX;
	for (uint32_t i = 0; i < SOCKETS && sound; i++)
		sound = (table->sockets[i].member & ~ENTRY_BUSY) <= ROSTER_MEMBERS &&
			table->sockets[i].index < SOCKETS;
	for (uint32_t port = 0; port < PORTS && sound; port++)
		sound = table->ports[port] <= ROSTER_MEMBERS;
	for (uint32_t i = 0; i < CLAIMS && sound; i++)
		sound = (table->claims[i].member & ~ENTRY_BUSY) <= ROSTER_MEMBERS;
	return sound;
}

int roster_set_up(struct roster_file *table)
{
	uint64_t random[2];

	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		return EIO;
	table->version = ROSTER_VERSION;
	table->size = sizeof(*table);
	table->cursor = 1 + random[1] % (SLOTS - 2);
	for (uint32_t slot = 0; slot < SLOTS; slot++)
		table->next[slot] = (random[1] >> 32) * (slot + 1) % SLOT_QPNS;
	table->secret = random[0] | 1;
	return 0;
}

/* --- opening and closing --------------------------------------------------------------- */

/* With the file locked, which is why a sweep leaves it alone. */
static int roster_enter(struct roster *roster)
{
	int error = map_table(roster);

	if (!error && !is_sound(roster->table))
		error = roster_discard_file(roster->fd);
	if (!error)
		error = join(roster);
	/* After fallocate and mmap, which may change one of the times. */
	futimens(roster->fd, NULL);
	return error;
}

static void unmap_table(struct roster *roster)
{
	guard_forget_file(roster->table);
	munmap(roster->table, sizeof(*roster->table));
}

/* Closing the file lets go of all locks, and the number with it. */
static void roster_free(struct roster *roster)
{
	if (roster->table)
		unmap_table(roster);
	close(roster->fd);
	pthread_mutex_destroy(&roster->mutex);
	free(roster);
}

/* 0 or an errno, ESTALE if the file is another one by now. */
static int open_once(const char *path, struct roster **result)
{
	struct roster *roster = calloc(1, sizeof(*roster));
	int error;

	if (!roster)
		return ENOMEM;
	error = roster_open_file(path, &roster->fd, &roster->locker);
	if (error) {
		free(roster);
		return error;
	}
	roster->identity = descriptor_identify(roster->fd);
	pthread_mutex_init(&roster->mutex, NULL);
	error = roster_enter(roster);
	/* We have nothing yet that others could have stored over, had they passed us over. */
	roster_unlock_file(roster->fd, &roster->locker);
	if (error) {
		roster_free(roster);
		return error;
	}
	*result = roster;
	return 0;
}

int roster_open(const char *path, struct roster **result)
{
	char usual[ROSTER_PATH_SIZE];
	int error = path ? 0 : roster_usual_path(usual);

	if (error)
		return error;
	do
		error = open_once(path ? path : usual, result);
	while (error == ESTALE);
	return error;
}

void roster_close(struct roster *roster)
{
	/*
	 * Without the lock we leave our entries; other members will find us dead. If we are passed
	 * over, indexes may be wrong, and the members that have them check them.
	 */
	if (roster_lock(roster) == 0) {
		resign(roster);
		roster_unlock(roster);
	}
	roster_free(roster);
}

void roster_after_fork_child(struct roster *roster)
{
	unmap_table(roster);
	descriptor_close(roster->fd, &roster->identity);
	roster->fd = -1;
	roster->table = NULL;
}
