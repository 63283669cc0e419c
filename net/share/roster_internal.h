/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the files of the roster share: roster.c (the table, its members), roster_file.c (which
 * file it is, and the files that are needed no longer), roster_lock.c (locks on its bytes),
 * roster_table.c (what members have: sockets, slots, claims) and roster_connections.c.
 *
 * A member may be killed between any two stores. So an entry gets its member last and
 * loses it first, and all entries of a dead member are removed with it.
 *
 * Or it is stopped there, and passed over: when it goes on, it finishes what it was about to store
 * beside others that have the lock. So the lock keeps members out of each other's way, but what
 * one has doesn't depend on it:
 * - An entry is taken and given up by compare-and-swap with its member's number, which no other
 *   process has: its member locks the byte of that number.
 * - The entries of a dead member are removed by those that share the lock on its byte, which proves
 *   that it is dead: the number is no other member's as long as one of them goes on.
 * - A claim that is made is looked at once more: another member may have made the same meanwhile.
 * - A file is set up before it has a name.
 * Reuseport indexes and programs may be wrong afterwards. They are checked then (udp_steer.c), and
 * a packet that goes astray for them is handed on.
 */
#ifndef URXE_NET_ROSTER_INTERNAL_H
#define URXE_NET_ROSTER_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "net/descriptor.h"
#include "net/share/roster.h"
#include "net/share/slot.h"

#define ROSTER_VERSION 10 /* of the file */

#define SOCKETS 8192
#define CLAIMS 4096
#define CONNECTIONS 8192
#define PORTS (UINT16_MAX + 1)

/* A GID that others may read while it is written: then they get half of each. */
struct shared_gid {
	_Atomic uint64_t halves[2];
};

static inline void shared_gid_set(struct shared_gid *shared, const union ibv_gid *gid)
{
	uint64_t halves[2];

	memcpy(halves, gid, sizeof(halves));
	shared->halves[0] = halves[0];
	shared->halves[1] = halves[1];
}

static inline union ibv_gid shared_gid_get(const struct shared_gid *shared)
{
	uint64_t halves[2] = {shared->halves[0], shared->halves[1]};
	union ibv_gid gid;

	memcpy(&gid, halves, sizeof(gid));
	return gid;
}

/*
 * Entries of arrays begin with the number of the member that has them; 0: it is free. Where an
 * entry is only looked at, what can't be a member's number counts as 0.
 */
#define ENTRY_BUSY 0x80000000u /* with the number: the member fills it in */

struct reuseport_socket {
	_Atomic uint32_t member;
	_Atomic uint32_t index; /* in the kernel's group of sockets */
	_Atomic uint64_t cookie;
	struct shared_gid gid;
};

struct claim {
	_Atomic uint32_t member;
	_Atomic uint64_t service_id;
	struct shared_gid gid;
};

/* roster_connections.c alone reads and writes it. */
struct connection {
	_Atomic uint32_t member; /* or what it says there */
	_Atomic uint32_t told;	 /* how often the peer was told that it has ended */
	_Atomic uint32_t local_id, remote_id, remote_qpn;
	struct shared_gid local, remote;
};

struct member {
	_Atomic uint32_t here;
	_Atomic uint32_t primary_slot, slots; /* the first slot leased, and how many there are */
	_Atomic uint32_t control_port, notifications;
	uint32_t reserved;
	_Atomic uint64_t inbox; /* the number of its inbox (net/shm/inbox.h); 0: it has none */
	_Atomic uint64_t token; /* stored before the port that it goes to */
	uint8_t pad[24];	/* to a cache line: @notifications is looked at all the time */
};

#define LOCK_BYTES 16 /* of the file, one after the other the lock of the whole roster */

/*
 * The thread that has the lock, 0: none, or not known yet; when it got it or let go, in us; and the
 * PID namespace that has its number, 0: not known.
 */
struct roster_holder {
	uint32_t thread, since;
	uint64_t pid_namespace;
};

/* roster_lock.c alone reads and writes it, by system calls. */
struct roster_lock_state {
	uint32_t epoch; /* grows when a holder is passed over: which byte is the lock */
	uint32_t reserved;
	struct roster_holder holders[LOCK_BYTES]; /* one for each byte */
};

struct roster_file {
	_Atomic uint64_t secret; /* 0: not set up yet */
	uint32_t version, size;
	_Atomic uint64_t repaired;
	struct roster_lock_state lock;
	_Atomic uint32_t cursor;		    /* the slot to lease next */
	_Atomic uint32_t sockets_used, claims_used; /* beyond, none ever was */
	_Atomic uint16_t owners[SLOTS];
	_Atomic uint16_t next[SLOTS];	       /* the number in the slot to begin with */
	struct member members[ROSTER_MEMBERS]; /* number 1 and on */
	struct reuseport_socket sockets[SOCKETS];
	struct claim claims[CLAIMS];
	_Atomic uint32_t connections_used;
	struct connection connections[CONNECTIONS];
	_Atomic uint16_t ports[PORTS]; /* the members whose connections begin there */
};

/* Of the process that locks a file: its PID namespace is the same all its life. */
struct roster_locker {
	uint32_t epoch;		/* with the lock: in which it was taken */
	uint64_t pid_namespace; /* ours, looked up with the first lock; 0: not yet */
};

/* Of a thread that waits for the lock, while its holder doesn't let go. */
struct roster_wait {
	uint64_t look; /* when it is looked at next; 0: the wait begins */
	struct roster_holder holder;
	unsigned int looks;  /* that found it asleep */
	unsigned int passes; /* tries to pass it over */
};

struct roster {
	pthread_mutex_t mutex;
	struct roster_locker locker;
	struct roster_wait wait; /* with the mutex: of those that only try */
	bool lost; /* with the mutex: what was in the file is gone, and that was logged */
	int fd;	   /* -1: the application has closed it, and other members take us for dead */
	struct descriptor_identity identity;
	struct roster_file *table;
	uint32_t self;
	uint64_t token; /* ours: in the file it is another member's, once we are taken for dead */
	/* With the lock: worked out for each member; too much for an application's stack. */
	int32_t index_of[ROSTER_MEMBERS + 1]; /* -1: no socket at the GID that is planned for */
	bool gone[ROSTER_MEMBERS + 1];	      /* to be removed; never the first, which is none */
};

static inline struct member *member_of(const struct roster *roster, uint32_t member)
{
	return &roster->table->members[member - 1];
}

/*
 * What is read from the file is another process's: any number that is to be an index or a
 * bound is read by these functions, which give one within the tables whatever the file has.
 */
static inline uint32_t read_bound(const _Atomic uint32_t *bound, uint32_t max)
{
	uint32_t value = *bound;

	return value < max ? value : max;
}

/* A member's number; 0, none, for what can't be one. */
static inline uint32_t read_member(const _Atomic uint32_t *member)
{
	uint32_t value = *member;

	return value <= ROSTER_MEMBERS ? value : 0;
}

static inline uint32_t read_owner(const struct roster_file *table, uint32_t slot)
{
	uint32_t value = table->owners[slot];

	return value <= ROSTER_MEMBERS ? value : 0;
}

/* Take the entry, if it has @from there. Its member is stored when it is filled in. */
static inline bool entry_take(_Atomic uint32_t *member, uint32_t from, uint32_t self)
{
	return *member == from && atomic_compare_exchange_strong(member, &from, ENTRY_BUSY | self);
}

/* Whose an entry is or is to be that has @member; 0 for what can't be a member's. */
static inline uint32_t entry_holder(uint32_t member)
{
	uint32_t holder = member & ~ENTRY_BUSY;

	return holder <= ROSTER_MEMBERS ? holder : 0;
}

/* Entries up to @count are in use by now. */
static inline void raise_mark(_Atomic uint32_t *mark, uint32_t count)
{
	uint32_t used = *mark;

	while (used < count && !atomic_compare_exchange_weak(mark, &used, count))
		;
}

/* Entries of an array come and go anywhere in it, below a mark that only rises. */
static inline struct reuseport_socket *sockets_end(const struct roster *roster)
{
	return roster->table->sockets + read_bound(&roster->table->sockets_used, SOCKETS);
}

static inline struct claim *claims_end(const struct roster *roster)
{
	return roster->table->claims + read_bound(&roster->table->claims_used, CLAIMS);
}

/* --- roster_lock.c: locks on bytes of the file, which the kernel drops with the process ------ */

/* A byte that no other open file has locked. It is unlocked when the file is closed. */
bool roster_lock_byte(int fd, off_t byte);
/* A member's byte, which it doesn't lock: it is dead, and no process gets its number. */
bool roster_share_byte(int fd, off_t byte);
void roster_unlock_byte(int fd, off_t byte);
/* Whether others have locked any of these members' bytes for themselves: those members live. */
bool roster_is_locked(int fd, uint32_t first, uint32_t last);
/* The lock of the whole roster, for its writers. Returns false when it isn't to be had. */
bool roster_lock_file(int fd, struct roster_locker *locker);
/* @wait is that of all tries: so one that is stopped is passed over by them, too. */
bool roster_trylock_file(int fd, struct roster_locker *locker, struct roster_wait *wait);
/* Returns false if we were passed over: other members have written since. */
bool roster_unlock_file(int fd, const struct roster_locker *locker);

/* --- roster_file.c ------------------------------------------------------------------------- */

/* Open the file at @path, or what stands for it, and lock it. 0 or an errno, ESTALE: try again. */
int roster_open_file(const char *path, int *fd, struct roster_locker *locker);
/*
 * The file is damaged, and we have it locked. ESTALE: it had no members, and its name is free now.
 * Or another errno.
 */
int roster_discard_file(int fd);

/* --- roster.c ------------------------------------------------------------------------------ */

/* In memory that is all zeros. 0 or an errno. */
int roster_set_up(struct roster_file *table);

/* --- roster_table.c ----------------------------------------------------------------------- */

/* Remove the members that are @gone and all their entries. Returns how many sockets they had. */
unsigned int roster_remove(struct roster *roster);

/* --- roster_connections.c ----------------------------------------------------------------- */

/* The connections of members that are @gone become orphans. With the lock. */
void roster_orphan_connections(struct roster *roster);

#endif
