/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What udp.c, udp_send.c and udp_receive.c share.
 *
 * Locks: @lock covers adding an address and nothing else. The array of addresses
 * is append-only and published by @count, so send() and receive() read it
 * without a lock; @receive belongs to the one caller of receive().
 */
#ifndef URXE_NET_UDP_LINK_H
#define URXE_NET_UDP_LINK_H

#include <pthread.h>

#include "net/backlog.h"
#include "net/gid.h"
#include "net/udp.h"

/* The hop limit of sockets; packets with another one carry it in a control message. */
#define UDP_HOP_LIMIT 64

/* The largest datagram that IPv4 and IPv6 both have. */
#define UDP_DATAGRAM_MAX (65535 - 40 - 8)

/*
 * Received datagrams lie one behind the other in an arena. Large enough for a few
 * super-packets, small enough to stay in a core's cache.
 */
#define RECEIVE_ARENA (4u << 16)
#define RECEIVE_SPACE (1u << 16) /* what one recvmsg() may fill */

struct udp_address {
	union ibv_gid gid;
	int receive_fd;
	int send_fd;
	uint16_t source_port;
	bool segmentation; /* until the kernel refuses it */
};

/* The rest of a super-packet that is being split into frames. */
struct udp_split {
	struct link_frame frame; /* the next one; data and length to be cut */
	uint32_t left;
	uint32_t segment_length;
};

struct udp_receive {
	uint8_t *arena;
	uint32_t used; /* bytes of the arena that the last frames lie in */
	struct udp_split split;
	unsigned int hot;    /* the address that delivered last, asked first */
	unsigned int rounds; /* since the others were asked */
	unsigned int streak; /* calls in a row that found something */
};

struct udp_link {
	struct link link;
	struct capture *capture;
	unsigned int receive_buffer;
	bool segmentation;
	bool headers_shown;
	struct backlog *backlog; /* or NULL */
	int epoll_fd;		 /* all receiving sockets, once there are two */
	uint64_t refused;	 /* packets that the kernel didn't take */

	pthread_mutex_t lock;
	unsigned int count;
	struct udp_address *addresses[GID_TABLE_LENGTH];

	struct udp_receive receive;
};

static inline unsigned int udp_address_count(const struct udp_link *link)
{
	return __atomic_load_n(&link->count, __ATOMIC_ACQUIRE);
}

/* The address that @gid is, or NULL. udp.c */
struct udp_address *udp_address_find(struct udp_link *link, const union ibv_gid *gid);

void udp_send(struct link *base, struct link_packet *packets, unsigned int count, uint64_t now);
unsigned int udp_receive(struct link *base, struct link_frame *frames, unsigned int max,
			 uint64_t now);

#endif
