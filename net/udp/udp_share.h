/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sharing of the real link's addresses: net/share/share.h for its core, and for net/udp what
 * happens to sockets and frames. udp_share.c has how a socket enters an address's group,
 * udp_steer.c the program by which the kernel chooses one of the group, udp_forward.c the frames
 * that are handed on, udp_leave.c the end.
 *
 * Locks: the roster's for all that changes it, and for the program with its @plan. What isn't
 * atomic belongs to the one caller of the link's receive().
 */
#ifndef URXE_NET_UDP_SHARE_H
#define URXE_NET_UDP_SHARE_H

#include "net/descriptor.h"
#include "net/link.h"
#include "net/share/roster.h"
#include "net/share/slot.h"
#include "net/share/steer.h"
#include "net/wire/wire.h"

struct udp_address;
struct udp_link;

/* The place of an address's socket in its reuseport group. receive()'s, but for @taken. */
struct udp_reuseport {
	bool taken;
	bool signal;	  /* the indexes are to be checked */
	bool resteer;	  /* the program has to be written anew */
	int learned;	  /* the index, if it isn't what the roster says; or -1 */
	uint32_t round;	  /* the last one in which we learned it */
	uint64_t suspect; /* when a frame came that isn't ours, or 0 */
};

struct udp_share {
	struct share share;
	struct udp_link *link;
	struct roster *roster;	       /* or NULL: our addresses are ours alone */
	struct roster *parents_roster; /* in a forked child, which neither uses nor frees it */
	bool entered;		       /* the roster was asked for */
	struct lease unused; /* with the roster's lock: for comm ids; of 0 numbers: there is none */
	atomic_bool all_leased;	 /* without it */
	atomic_bool unsteered;	 /* the kernel refused the program; logged once */
	atomic_bool unreachable; /* members, by the loopback device; logged once */
	atomic_bool check_all;	 /* indexes and programs: the roster may be another than it was */
	int control_fd;
	struct descriptor_identity control_identity;
	uint32_t notifications; /* of forwarded datagrams that we have read */
	uint64_t looked;	/* when the control socket was read last */
	_Atomic uint64_t due;	/* when to repair, or TIME_NEVER */
	uint64_t repaired, pause;
	uint32_t round;		/* of signals, the last one of ours */
	struct steer_plan plan; /* of the program that is being written */
};

/* --- udp_share.c ------------------------------------------------------------------------ */

void udp_share_init(struct udp_link *link);
void udp_share_after_fork_child(struct udp_link *link);
/* Whether its descriptors are still ours (net/descriptor.h); those that aren't become -1. */
bool udp_share_verify_descriptors(struct udp_share *share);
/* Bind @fd, the receiving socket to be of @address, alone or in a group. 0 or an errno. */
int udp_share_bind(struct udp_link *link, struct udp_address *address, int fd,
		   unsigned int ifindex);
/* Which socket @qpn's packets to @gid go to, or 0 for no idea. */
uint64_t udp_share_cookie(const struct udp_link *link, const union ibv_gid *gid, uint32_t qpn);

/* --- udp_steer.c ------------------------------------------------------------------------ */

/* With the roster's lock: have the kernel choose a socket of @address by the link's @plan. */
void udp_share_attach(struct udp_link *link, const struct udp_address *address);
/* With the roster's lock: the same, by a plan made anew; of all addresses. */
void udp_share_steer(struct udp_link *link, const struct udp_address *address);
void udp_share_steer_all(struct udp_link *link);
/* The program for @address is to be written anew, in the next receive(). */
void udp_share_resteer(struct udp_link *link, struct udp_address *address);
/* Have all indexes checked and all programs written by the next repair. Any thread. */
void udp_share_check_all(struct udp_share *share);
/* @address can send now: have the member that gets our signal check whether it is us. */
void udp_share_verify(const struct udp_link *link, const struct udp_address *address);
/* What is due by now. */
void udp_share_repair(struct udp_link *link);
/* Give up the roster's lock, under which the link has changed what is its own. */
void udp_share_unlock(struct udp_share *share);

/*
 * The living member that @frame is for, by its number or the service that it requests, or 0.
 * A dead one's frames are the caller's to answer: at its control socket nothing would.
 */
uint32_t udp_share_owner(struct udp_share *share, const struct link_frame *frame);
/* A frame that may not be ours, @first of its datagram. Returns false if it is. */
bool udp_share_divert(struct udp_share *share, const struct link_frame *frame, bool first);

/* --- udp_leave.c ------------------------------------------------------------------------ */

/* Leave all addresses and the roster. */
void udp_share_leave(struct udp_link *link);
/* No packet comes to @fd any more, or will when it is bound. What has come can still be read. */
void udp_share_retire(int fd);
/* Give up the place at @address, where there was no traffic yet, and close the receiving socket. */
void udp_share_leave_group(struct udp_link *link, struct udp_address *address);
/* The process exits without having closed the link; waits at most 50 ms for the roster's lock. */
void udp_share_shutdown(struct share *base);

/* --- udp_forward.c ---------------------------------------------------------------------- */

/* 0 or an errno: nothing is handed on to us then, nor by us. */
int udp_open_control_socket(struct udp_share *share);
bool udp_forward(struct share *base, const struct link_frame *frame);
bool udp_send_message(struct share *base, uint32_t qpn, const void *data, uint32_t length);
/* Returns false when @frame was handed on too often, or can't be, or @member is dead. */
bool udp_forward_to(struct udp_share *share, const struct link_frame *frame, uint32_t member);
/* Have a descriptor of the member's become readable. Returns whether that was sent. */
bool udp_wake(struct udp_share *share, uint32_t member);
void udp_ask_to_steer(struct udp_share *share, uint32_t member, const union ibv_gid *gid);
/* Frames that other members handed on to us; and repairs that are due. */
unsigned int udp_share_receive(struct udp_link *link, struct link_frame *frames, unsigned int max,
			       uint64_t now);
/* Before we leave: a frame for a special QP goes to another member at its address. */
void udp_share_hand_on(struct udp_share *share, const struct link_frame *frame);
/*
 * As the last thing before we leave: what others handed on to us goes to other members. With our
 * control port withdrawn, or it might not end.
 */
void udp_share_hand_on_forwards(struct udp_link *link);

/* --- for every packet --------------------------------------------------------------------- */

/*
 * Whether packets to @a and to @b, each a BTH's dest_qp, may be one super-packet, which the
 * kernel gives to the socket that the first is for.
 */
static inline bool udp_share_same_owner(__be32 a, __be32 b)
{
	return ((a ^ b) & htobe32(QPN_MASK & ~(SLOT_QPNS - 1))) == 0;
}

/* Of the destination QP of @frame, which has at least a BTH. */
static inline uint32_t udp_share_slot(const struct link_frame *frame)
{
	return slot_of_qpn(be32toh(((const struct bth *)frame->data)->dest_qp) & QPN_MASK);
}

/* Whether @frame is ours; otherwise it was taken care of. */
static inline bool udp_share_passes(struct udp_share *share, const struct link_frame *frame,
				    bool first)
{
	struct roster *roster = share->roster;
	uint32_t owner;

	if (!roster || frame->length < sizeof(struct bth))
		return true;
	owner = roster_owner(roster, udp_share_slot(frame));
	if ((!owner || owner == roster_self(roster)) && frame->data[0] != STEER_MAGIC >> 24)
		return true;
	return !udp_share_divert(share, frame, first);
}

#endif
