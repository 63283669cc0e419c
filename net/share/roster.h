/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The roster: a list of the links (each an HCA of some process) that share the addresses
 * of this machine. It is a file in shared memory, one for each user and network namespace.
 * A link that enters is a member; the file has the slots that it leases (net/share/slot.h),
 * its reuseport index at each address that it receives on, the services that it claims, and the
 * ports that its connections begin at.
 *
 * Each member holds a lock on a byte of the file, which the kernel releases when the
 * process dies: the next process that enters, or repairs, removes dead members, so that
 * no process need be left to clean up. Slots are leased in a circle whose cursor stays in
 * the file: no number comes back before all other numbers were used. A file without
 * members is removed in the end, when another one is created.
 *
 * The file may be changed by any process of the user while it is mapped. So its contents
 * aren't trusted: they are looked through when the file is opened, and whatever they are
 * later, these functions stay within the tables.
 *
 * Called by net/udp (udp_share.c and its neighbours, udp_peer.c) and by net/shm, whose inboxes
 * are found by it. Writers hold the roster's lock: a mutex, for the threads of this process, and a
 * byte of the file, for the processes. The data path reads without a lock: an entry may just have
 * passed to another member, and a frame that goes to the wrong member for that is handed on or
 * dropped.
 */
#ifndef URXE_NET_ROSTER_H
#define URXE_NET_ROSTER_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "net/share/share.h"
#include "net/share/steer.h"

#define ROSTER_MEMBERS 1024
#define ROSTER_PATH_SIZE 80

struct roster;

/*
 * Become a member of the roster at @path, or of the usual one (NULL). Returns 0 or
 * an errno: what opening gave, EPERM for a file that isn't safely ours, EBADMSG for one
 * whose contents no member can have written, ENOSPC, EBUSY when the lock is not to be had.
 */
int roster_open(const char *path, struct roster **roster);
/* What such an error says of the file, for the log. */
const char *roster_error_text(int error);
/*
 * The usual one: users and network namespaces share no sockets. 0 or an errno; @path is then what
 * that is about, if it is about a file.
 */
int roster_usual_path(char path[ROSTER_PATH_SIZE]);
/* Leave it, with all that we have in it. */
void roster_close(struct roster *roster);
/* In a forked child: the membership is the parent's. */
void roster_after_fork_child(struct roster *roster);

/* Whether the file's descriptor still is ours (net/descriptor.h). If not, it is locked no more. */
bool roster_verify(struct roster *roster);

/*
 * A process that is stopped while it has the lock is passed over. EBUSY: that can't be done, for
 * too many were. EBADF: the application has closed the file.
 */
int roster_lock(struct roster *roster);
bool roster_trylock(struct roster *roster);
/*
 * Returns false if this process was stopped for long while it had the lock: other members have
 * written it meanwhile. What members have is right all the same, but indexes may be wrong.
 */
bool roster_unlock(struct roster *roster);

/* --- with the lock held --------------------------------------------------------------- */

/*
 * Remove the members that are dead. Returns how many sockets they had: those of a process that has
 * exited may have had none any more, but claims and slots.
 */
unsigned int roster_reap(struct roster *roster);

/*
 * Join the reuseport group of @gid as the last one, as the kernel appends a socket to its group.
 * @cookie is the socket's. Returns 0, or ENOSPC.
 */
int roster_join_group(struct roster *roster, const union ibv_gid *gid, uint64_t cookie);
/* Leave it again. The last one takes the free index, as the kernel does it with sockets. */
void roster_leave_group(struct roster *roster, const union ibv_gid *gid);
/*
 * Our socket turned out to have @index: the member listed with it gets the one listed as ours.
 * Nothing is done with an index that there isn't in the group.
 */
void roster_set_index(struct roster *roster, const union ibv_gid *gid, unsigned int index);

/*
 * Lease slots: as many as we have already, if so many are free in a row. Returns 0 and
 * their QP numbers, to be used from @lease->start on, which is another one each time that
 * the slot is leased. Or ENOSPC.
 */
int roster_lease(struct roster *roster, struct lease *lease);

/*
 * EADDRINUSE: another member at the address has it. EADDRNOTAVAIL: likewise, where either address
 * is unspecified. ENOSPC.
 */
int roster_claim(struct roster *roster, const union ibv_gid *gid, uint64_t service_id);
/* The lock isn't needed: only we change our own claims. */
void roster_release(struct roster *roster, const union ibv_gid *gid, uint64_t service_id);

/* Which socket in @gid's group is to get which packets. */
void roster_plan(struct roster *roster, const union ibv_gid *gid, struct steer_plan *plan);

/* --- without the lock ----------------------------------------------------------------------- */

/* The number of sockets at @gid; the index of @member's, or -1. */
unsigned int roster_sockets(const struct roster *roster, const union ibv_gid *gid);
int roster_index(const struct roster *roster, uint32_t member, const union ibv_gid *gid);

/* The member that leases @slot, or 0. */
uint32_t roster_owner(const struct roster *roster, uint32_t slot);
/* Whether the member's process still has its part of the file locked. A system call. */
bool roster_is_alive(const struct roster *roster, uint32_t member);
/* Our own number as a member. */
uint32_t roster_self(const struct roster *roster);
/* A slot of @member, the same each time, or 0. */
uint32_t roster_primary_slot(const struct roster *roster, uint32_t member);
/* The cookie of @member's socket at @gid, or 0. */
uint64_t roster_cookie(const struct roster *roster, uint32_t member, const union ibv_gid *gid);
/* Another member with a socket at @gid, or 0. */
uint32_t roster_neighbour(const struct roster *roster, const union ibv_gid *gid);
/* All of them, one at each call; *@place is 0 at the first. 0: there is no other one. */
uint32_t roster_next_neighbour(const struct roster *roster, const union ibv_gid *gid,
			       uint32_t *place);
/*
 * The ports that members' connections begin at: each is one member's. False: it is another's, dead
 * perhaps and not removed yet.
 */
bool roster_take_port(struct roster *roster, uint16_t port);
void roster_release_port(struct roster *roster, uint16_t port);

/* The member that claims @service_id at our address @gid, or 0. */
uint32_t roster_claimant(const struct roster *roster, const union ibv_gid *gid,
			 uint64_t service_id);

/* Those that any member claims at @gid, @max at most. Returns how many. */
unsigned int roster_services(const struct roster *roster, const union ibv_gid *gid,
			     uint64_t *services, unsigned int max);

/*
 * A member's control socket: the loopback UDP port where it takes forwarded datagrams
 * (net/udp/udp_forward.c). The sender notifies the member of each, by a count in the
 * roster, so that the member needn't read an empty socket at each poll.
 *
 * They are known as a member's by the receiver's token, a random number that it gets when it
 * becomes a member. The port of a member that was killed is free for any user, who may get what is
 * sent there before the roster is repaired: the token of a dead member, which is worth nothing. So
 * that it can't be that of a living one a sender asks for the token first, then for the port.
 */
void roster_set_control_port(struct roster *roster, uint16_t port);
uint16_t roster_control_port(const struct roster *roster, uint32_t member);
uint64_t roster_token(const struct roster *roster, uint32_t member);
uint64_t roster_own_token(const struct roster *roster);
void roster_notify(struct roster *roster, uint32_t member);
uint32_t roster_notifications(const struct roster *roster); /* to us, so far */

/*
 * The number of a member's inbox in shared memory (net/shm/inbox.h), 0: it has none. A member has
 * it before it leases slots, so that what is sent to a slot always goes the same way.
 */
void roster_set_inbox(struct roster *roster, uint64_t number);
uint64_t roster_inbox(const struct roster *roster, uint32_t member);

/*
 * Connections whose peers are to be told when our process dies. add returns a number for
 * remove, or 0: there are too many.
 */
uint32_t roster_add_connection(struct roster *roster, const struct share_connection *connection);
void roster_remove_connection(struct roster *roster, uint32_t number);
/*
 * The next connection, from *@number on (0: the first), of a dead member at one of our
 * addresses, whose peer is to be told. False: there is none.
 */
bool roster_next_orphan(struct roster *roster, uint32_t *number, struct share_connection *orphan);

/* When a member last had all indexes checked. The time is the callers'. */
void roster_set_repaired(struct roster *roster, uint64_t time);
uint64_t roster_repaired(const struct roster *roster);

/*
 * A random number that only members know. It may only be sent where no other user can receive: to
 * port 4791 of an address at which we do.
 */
uint64_t roster_secret(const struct roster *roster);

#endif
