/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the files of the roster share: roster.c (the table, its members), roster_file.c (which
 * file it is, and the files that are needed no longer), roster_lock.c (locks on its bytes) and
 * roster_table.c (what members have: sockets, slots, claims).
 *
 * A member may be killed between any two stores. So an entry gets its member last and
 * loses it first, and all entries of a dead member are removed with it.
 */
#ifndef URXE_NET_ROSTER_INTERNAL_H
#define URXE_NET_ROSTER_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "net/descriptor.h"
#include "net/share/roster.h"
#include "net/share/slot.h"

#define ROSTER_VERSION 8 /* of the file */

#define SOCKETS 8192
#define CLAIMS 4096
#define CONNECTIONS 8192

struct place {
	_Atomic uint64_t gid[2];
};

static inline void place_set(struct place *place, const union ibv_gid *gid)
{
	uint64_t halves[2];

	memcpy(halves, gid, sizeof(halves));
	place->gid[0] = halves[0];
	place->gid[1] = halves[1];
}

static inline union ibv_gid place_get(const struct place *place)
{
	uint64_t halves[2] = {place->gid[0], place->gid[1]};
	union ibv_gid gid;

	memcpy(&gid, halves, sizeof(gid));
	return gid;
}

struct reuseport_socket {
	_Atomic uint32_t member; /* 0: the entry is free */
	_Atomic uint32_t index;	 /* in the kernel's group of sockets */
	_Atomic uint64_t cookie;
	struct place place;
};

struct claim {
	_Atomic uint32_t member;
	_Atomic uint64_t service_id;
	struct place place;
};

/* roster_connections.c alone reads and writes it. */
struct connection {
	_Atomic uint32_t member; /* or what it says there */
	_Atomic uint32_t told;	 /* how often the peer was told that it has ended */
	_Atomic uint32_t local_id, remote_id, remote_qpn;
	struct place local, remote;
};

struct member {
	_Atomic uint32_t here;
	_Atomic uint32_t primary_slot, slots; /* the first slot leased, and how many there are */
	_Atomic uint32_t control_port, notifications;
	uint32_t reserved;
	_Atomic uint64_t inbox; /* the number of its inbox (net/shm/inbox.h); 0: it has none */
	uint8_t pad[32];	/* to a cache line: @notifications is looked at all the time */
};

#define LOCK_TURNS 16

/*
 * The thread that has the lock, 0: none, or not known yet; when it got it or let go, in us; and the
 * PID namespace that has its number, 0: not known.
 */
struct roster_holder {
	uint32_t thread, since;
	uint64_t pid_namespace;
};

/* roster_lock.c alone reads and writes it, by system calls. */
struct roster_turns {
	uint32_t epoch; /* which byte of the file is the lock */
	uint32_t reserved;
	struct roster_holder holders[LOCK_TURNS];
};

struct roster_file {
	_Atomic uint64_t secret; /* 0: not set up yet */
	uint32_t version, size;
	_Atomic uint64_t repaired;
	struct roster_turns turns;
	_Atomic uint32_t cursor;		    /* the slot to lease next */
	_Atomic uint32_t sockets_used, claims_used; /* beyond, none ever was */
	_Atomic uint16_t owners[SLOTS];
	_Atomic uint16_t next[SLOTS];	       /* the number in the slot to begin with */
	struct member members[ROSTER_MEMBERS]; /* number 1 and on */
	struct reuseport_socket sockets[SOCKETS];
	struct claim claims[CLAIMS];
	_Atomic uint32_t connections_used;
	struct connection connections[CONNECTIONS];
};

/* Of a thread that waits for the lock: with a holder that doesn't let go. */
struct roster_patience {
	uint64_t look; /* when it is looked at next; 0: the wait begins */
	struct roster_holder holder;
	unsigned int looks; /* that found it asleep */
};

struct roster {
	pthread_mutex_t mutex;
	uint32_t turn;			 /* with the lock: which one it is */
	struct roster_patience patience; /* with the mutex: of those that only try */
	bool lost; /* with the mutex: what was in the file is gone, and that was logged */
	int fd;	   /* -1: the application has closed it, and other members take us for dead */
	struct descriptor_identity identity;
	struct roster_file *table;
	uint32_t self;
	/* With the lock: what is worked out for each member, too much for an application's stack.
	 */
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
/* A member's byte, which it doesn't lock: it is dead, and nobody gets its number. */
bool roster_share_byte(int fd, off_t byte);
void roster_unlock_byte(int fd, off_t byte);
/* Whether others have locked any of these members' bytes for themselves: those members live. */
bool roster_is_locked(int fd, uint32_t first, uint32_t last);
/* The lock of the whole roster, for its writers. Returns false when it isn't to be had. */
bool roster_lock_file(int fd, uint32_t *turn);
/* @patience is that of all tries: so one that is stopped is passed over by them, too. */
bool roster_trylock_file(int fd, uint32_t *turn, struct roster_patience *patience);
/* Returns false if we were passed over: other members have written since. */
bool roster_unlock_file(int fd, uint32_t turn);

/* --- roster_file.c ------------------------------------------------------------------------- */

/* Open the file at @path, or what stands for it, and lock it. 0 or an errno. */
int roster_open_file(const char *path, int *fd, uint32_t *turn);

/* --- roster_table.c ----------------------------------------------------------------------- */

/* Remove the members that are @gone and all their entries. Returns how many sockets they had. */
unsigned int roster_remove(struct roster *roster);

/* --- roster_connections.c ----------------------------------------------------------------- */

/* The connections of members that are @gone become orphans. With the lock. */
void roster_orphan_connections(struct roster *roster);

#endif
