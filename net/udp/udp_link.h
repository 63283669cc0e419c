/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What udp.c, udp_send.c, udp_receive.c, udp_multicast.c, udp_share.c and
 * udp_forward.c share.
 *
 * Locks: @lock covers adding an address, joining and leaving groups, and nothing
 * else; @multicast.lock, below it, keeps a group while it is read. The array of addresses
 * is append-only and published by @count, so send() and receive() read it
 * without a lock; @receive belongs to the one caller of receive().
 */
#ifndef URXE_NET_UDP_LINK_H
#define URXE_NET_UDP_LINK_H

#include <pthread.h>
#include <sys/epoll.h>

#include "net/share/roster.h"
#include "net/tuning.h"
#include "net/udp/backlog.h"
#include "net/udp/udp.h"
#include "net/wire/gid.h"

/*
 * Received datagrams lie one behind the other in an arena. Large enough for a few
 * super-packets, small enough to stay in a core's cache.
 */
#define RECEIVE_ARENA (4u << 16)
#define RECEIVE_SPACE (1u << 16) /* what one recvmsg() may fill */

/* Receives from the socket that delivered last before the other sockets are asked again. */
#define FAIR_ROUNDS 16

/* Our place among those who share the address. receive()'s, but for @taken. */
struct udp_reuseport {
	bool taken;
	bool signal;	  /* the indexes are to be checked */
	bool resteer;	  /* the program has to be written anew */
	int learned;	  /* the index, if it isn't what the roster says; or -1 */
	uint32_t round;	  /* the last one in which we learned it */
	uint64_t suspect; /* when a frame came that isn't ours, or 0 */
};

struct udp_address {
	union ibv_gid gid;
	int receive_fd;
	int send_fd;
	uint16_t source_port;
	bool segmentation; /* until the kernel refuses it */
	struct udp_reuseport reuseport;
};

/* The rest of a super-packet that is being split into frames. */
struct udp_split {
	struct link_frame frame; /* the next one; data and length to be cut */
	uint32_t left;
	uint32_t segment_length;
	bool begun; /* frames were cut off */
};

struct udp_receive {
	uint8_t *arena;
	uint32_t used; /* bytes of the arena that the last frames lie in */
	struct udp_split split;
	unsigned int recent; /* the address that delivered last, asked first */
	unsigned int rounds; /* since the others were asked */
	unsigned int streak; /* calls in a row that found something */
};

struct udp_group;

struct udp_multicast {
	pthread_mutex_t lock;
	struct udp_group *groups; /* uthash, by GID */
	unsigned int count;	  /* of groups; read without the lock */
	int epoll_fd;		  /* their sockets; -1 until there are any */
	unsigned int rounds;	  /* since they were asked; receive()'s */
};

struct udp_share {
	struct roster *roster; /* or NULL: our addresses are ours alone */
	bool entered;	       /* the roster was asked for */
	bool all_leased;       /* without it */
	bool unsteered;	       /* the kernel didn't take the program, as was said */
	int control_fd;
	uint32_t notifications; /* forwarded datagrams of which we have seen the end */
	unsigned int rounds;
	uint64_t due; /* when to repair; read by anybody */
	uint64_t repaired, pause;
	uint32_t round; /* of signals, the last one of ours */
};

/* Where a sending thread puts packets together. Who finds none sends them from where they are. */
#define UDP_BOUNCE_BUFFERS 4
#define UDP_BOUNCE_SIZE (LINK_TRAIN_PACKETS * SEND_BOUNCE_MAX)

struct udp_bounce {
	bool taken;
	uint8_t *bytes;
};

struct udp_link {
	struct link link;
	struct capture *capture;
	unsigned int receive_buffer;
	bool segmentation;
	bool receives_tos_ttl;
	struct backlog *backlog; /* or NULL */
	int epoll_fd;		 /* all receiving sockets, once there are two */
	struct udp_bounce bounces[UDP_BOUNCE_BUFFERS];
	uint64_t refused; /* packets that the kernel didn't take */

	pthread_mutex_t lock;
	unsigned int count;
	struct udp_address *addresses[GID_TABLE_LENGTH];

	struct udp_receive receive;
	struct udp_multicast multicast;
	struct udp_share share;
};

static inline unsigned int udp_address_count(const struct udp_link *link)
{
	return __atomic_load_n(&link->count, __ATOMIC_ACQUIRE);
}

/* The address that @gid is, or NULL. udp.c */
struct udp_address *udp_address_find(struct udp_link *link, const union ibv_gid *gid);

/* udp.c: a socket to receive on, not yet bound; and what binds it. Return 0 or an errno. */
int udp_receiver_open(const struct udp_link *link, const union ibv_gid *gid, int *fd);
int udp_bind(int fd, const union ibv_gid *gid, unsigned int ifindex, uint16_t port);
int udp_address_receive_tos_ttl(const struct udp_address *address);

unsigned int udp_send(struct link *base, struct link_packet *packets, unsigned int count,
		      uint64_t now);
unsigned int udp_receive(struct link *base, struct link_frame *frames, unsigned int max,
			 uint64_t now);
/* What has arrived on the socket of @address. */
unsigned int udp_receive_from(struct udp_link *link, const struct udp_address *address,
			      struct link_frame *frames, unsigned int max);
/* The next of the sockets in @epoll_fd that has something. False: none has. */
bool udp_ready(int epoll_fd, struct epoll_event *event);

/* udp_multicast.c */
void udp_multicast_init(struct udp_link *link);
void udp_multicast_destroy(struct udp_link *link);
void udp_multicast_after_fork_child(struct udp_link *link);
int udp_join(struct link *base, const union ibv_gid *group, const union ibv_gid *source);
void udp_leave(struct link *base, const union ibv_gid *group);
/* @gid was added: groups that were joined everywhere are joined there, too. @link->lock is held. */
void udp_multicast_extend(struct udp_link *link, const union ibv_gid *gid);
/* Multicasts from the socket @fd leave by the interface that has @source. */
void udp_multicast_from(int fd, const union ibv_gid *source);
unsigned int udp_multicast_descriptors(const struct udp_link *link, int *fds, unsigned int max);
/* What has arrived for the groups, when it is their turn. @idle: nothing else has arrived. */
unsigned int udp_multicast_receive(struct udp_link *link, struct link_frame *frames,
				   unsigned int max, bool idle);

/* udp_share.c */
void udp_share_init(struct udp_link *link);
void udp_share_leave(struct udp_link *link);
void udp_share_after_fork_child(struct udp_link *link);
/* Bind @fd, the receiving socket to be of @address, alone or among others. 0 or an errno. */
int udp_share_bind(struct udp_link *link, struct udp_address *address, int fd,
		   unsigned int ifindex);
/* @address can send now: have somebody check whether all are where they seem to be. */
void udp_share_verify(const struct udp_link *link, const struct udp_address *address);
/* Give up the place at @address, where there was no traffic yet, and close the receiving socket. */
void udp_share_leave_group(struct udp_link *link, struct udp_address *address);
/* The program for @address is to be written anew, in the next receive(). */
void udp_share_resteer(struct udp_link *link, struct udp_address *address);
/* What is due by now. */
void udp_share_repair(struct udp_link *link);
/* A frame that may not be ours, @first of its datagram. Returns false if it is. */
bool udp_share_divert(struct udp_link *link, const struct link_frame *frame, bool first);
/* Which socket @qpn's packets to @gid go to, or 0 for no idea. */
uint64_t udp_share_cookie(const struct udp_link *link, const union ibv_gid *gid, uint32_t qpn);
int udp_lease(struct link *base, uint32_t *first, uint32_t *count, uint32_t *start);
uint32_t udp_slot(struct link *base);
int udp_claim(struct link *base, const union ibv_gid *gid, uint64_t service_id);
void udp_release(struct link *base, const union ibv_gid *gid, uint64_t service_id);
uint32_t udp_owner_of(struct link *base, const union ibv_gid *gid, uint64_t service_id);
void udp_shutdown(struct link *base);

/* udp_forward.c */
void udp_open_control_socket(struct udp_share *share);
/* Whether @data begins as only members know to. */
bool udp_is_secret(const struct udp_share *share, const void *data, uint32_t length);
bool udp_forward(struct link *base, const struct link_frame *frame, uint32_t slot);
void udp_forward_to(const struct udp_share *share, const struct link_frame *frame, uint32_t member);
void udp_ask_to_steer(const struct udp_share *share, uint32_t member, const union ibv_gid *gid);
/* Frames that others handed on to us; and repairs that are due. */
unsigned int udp_share_receive(struct udp_link *link, struct link_frame *frames, unsigned int max);

static inline uint32_t udp_share_slot(const struct link_frame *frame)
{
	return frame->data[5] << 4 | frame->data[6] >> 4; /* the BTH's destination QP */
}

/* Whether @frame is ours; otherwise it was taken care of. */
static inline bool udp_share_passes(struct udp_link *link, const struct link_frame *frame,
				    bool first)
{
	struct roster *roster = link->share.roster;
	uint32_t owner;

	if (!roster || frame->length < sizeof(struct bth))
		return true;
	owner = roster_owner(roster, udp_share_slot(frame));
	if ((!owner || owner == roster_self(roster)) && frame->data[0] != STEER_MAGIC >> 24)
		return true;
	return !udp_share_divert(link, frame, first);
}

#endif
