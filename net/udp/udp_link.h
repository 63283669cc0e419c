/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the files of net/udp have in common.
 *
 * Locks: @lock covers adding an address, joining and leaving groups, and nothing
 * else: to add an address may take seconds, when another process has the roster locked.
 * @multicast.lock, below it, keeps a group while it is read. @peers_lock, a leaf, covers what
 * udp_peer.c tells of peers: those that take it may have a queue pair's lock. The array of
 * addresses is append-only and published by @count, so send() and receive() read it without a lock;
 * @receive belongs to the one caller of receive(). A connection has a lock of its own
 * (net/udp/udp_connection.h), which is never waited for.
 */
#ifndef URXE_NET_UDP_LINK_H
#define URXE_NET_UDP_LINK_H

#include <pthread.h>
#include <sys/epoll.h>

#include "net/descriptor.h"
#include "net/pool.h"
#include "net/tuning.h"
#include "net/udp/backlog.h"
#include "net/udp/sock_diag.h"
#include "net/udp/udp.h"
#include "net/udp/udp_connection.h"
#include "net/udp/udp_share.h"
#include "net/wire/gid_table.h"

/*
 * The TOS or traffic class of sockets: RC's. Packets with another one carry it in a control
 * message.
 */
#define UDP_TRAFFIC_CLASS ECN_ECT0

/*
 * Received datagrams lie one behind the other in an arena. Large enough for a few
 * super-packets, small enough to stay in a core's cache.
 */
#define RECEIVE_DATAGRAMS 4	 /* at the most with one call */
#define RECEIVE_SPACE (1u << 16) /* what one of them may fill */
#define RECEIVE_ARENA (RECEIVE_DATAGRAMS * RECEIVE_SPACE)

/* Linux: uapi/linux/in6.h, which the C library's <netinet/in.h> excludes. */
#ifndef IPV6_FLOWINFO
#define IPV6_FLOWINFO 11
#endif

/* Receives from the socket that delivered last before the other sockets are asked again. */
#define FAIR_ROUNDS 16

struct udp_group;

struct udp_address {
	union ibv_gid gid;
	unsigned int interface;	       /* of a link-local one, else 0: udp_address_interface() */
	unsigned int netdev;	       /* where it was seen last; 0: nowhere yet */
	const struct udp_group *group; /* whose it is, or NULL */
	int receive_fd;
	int send_fd;
	struct descriptor_identity receive_identity, send_identity;
	uint16_t source_port;
	atomic_bool segmentation; /* until the kernel refuses it */
	struct udp_reuseport reuseport;
	atomic_uint connection_count; /* stored when the connection is there */
	struct udp_connection *connections[UDP_CONNECTIONS];
};

/* The rest of a super-packet that is being split into frames. */
struct udp_split {
	struct link_frame frame; /* what is the same of all: copied, so that nothing writes to it */
	const uint8_t *data;	 /* of the next one */
	uint32_t left;		 /* bytes */
	uint32_t segment_length;
	uint16_t index; /* of the next one */
	bool begun;	/* frames were cut off */
};

struct udp_receive {
	uint8_t *arena;
	uint32_t used; /* bytes of the arena that the last frames lie in */
	/* What was read: from @next on, something of it is left. */
	struct udp_split splits[RECEIVE_DATAGRAMS];
	unsigned int next, count;
	unsigned int recent; /* the address that delivered last, asked first */
	unsigned int rounds; /* since the other addresses were asked */
	unsigned int streak; /* calls in a row that found something */
};

struct udp_multicast {
	pthread_mutex_t lock;
	struct udp_group *groups;	  /* uthash, by GID and, of one link's scope, interface */
	struct udp_group *parents_groups; /* in a forked child, as udp_link.parents_backlog */
	atomic_uint count;		  /* of groups; read without the lock */
	int epoll_fd;			  /* their sockets; -1 until there are any */
	struct descriptor_identity epoll_identity;
	unsigned int rounds; /* since they were asked; receive()'s */
};

struct udp_link {
	struct link link;
	unsigned int receive_buffer;
	bool segmentation;
	atomic_bool receives_grh;
	struct sock_diag *diag;	 /* or NULL */
	struct backlog *backlog; /* or NULL */
	/* In a forked child those of its parent, which it neither uses nor frees. */
	struct sock_diag *parents_diag;
	struct backlog *parents_backlog;
	int epoll_fd; /* all receiving sockets, once there are two */
	struct descriptor_identity epoll_identity;
	_Atomic uint64_t verified; /* when the descriptors were last seen to be ours */
	struct pool batches;	   /* of sending threads: udp_send.c */
	_Atomic uint64_t refused;  /* packets that the kernel didn't take */

	pthread_mutex_t peers_lock;
	struct {
		uint64_t at;	    /* when the rest was reckoned */
		unsigned int count; /* in the second of @at */
		uint64_t spent;	    /* ns, of which time forgives LOOK_SHARE */
	} looks;		    /* at the queue pairs of other processes: udp_peer.c */
	struct {
		union ibv_gid destination;
		int error;
		uint64_t at;
	} refusal; /* the last one, for udp_peer.c */

	pthread_mutex_t lock;
	atomic_uint count; /* stored when the address is there */
	struct udp_address *addresses[GID_TABLE_LENGTH];

	struct udp_receive receive;
	struct udp_multicast multicast;
	struct udp_share share;
};

static inline unsigned int udp_address_count(const struct udp_link *link)
{
	return atomic_load_explicit(&link->count, memory_order_acquire);
}

/* Which it is on, while another thread may rebind it. */
static inline unsigned int udp_address_interface(const struct udp_address *address)
{
	return __atomic_load_n(&address->interface, __ATOMIC_RELAXED);
}

/* The address that @gid is, or NULL. udp.c */
struct udp_address *udp_address_find(struct udp_link *link, const union ibv_gid *gid);

/*
 * udp_socket.c. A socket to receive on, not yet bound, and what binds one; for @address its
 * receiving socket, bound to :4791 with the other processes of the node (net/share), and that
 * packets come with all that a GRH shows of them. Return 0 or an errno.
 */
int udp_receiver_open(const struct udp_link *link, const union ibv_gid *gid, int *fd);
int udp_bind(int fd, const union ibv_gid *gid, unsigned int ifindex, uint16_t port);
/* To @ipv4, in the CPU's byte order, and a port of the kernel's choice. 0 or an errno. */
int udp_bind_free_port(int fd, in_addr_t ipv4, uint16_t *port);
int udp_address_open_receiver(struct udp_link *link, struct udp_address *address);
int udp_address_receive_grh(const struct udp_address *address);

/*
 * udp_socket.c. The sending socket of @address, on a free port that becomes its source port; and
 * another socket with that port, for a connection. Return 0 or an errno.
 */
int udp_address_open_sender(struct udp_address *address);
/* A link-local address is on @interface now. Returns 0 or an errno. */
int udp_address_rebind(struct udp_address *address, unsigned int interface);
int udp_sender_open(const struct udp_address *address, int *fd);

/* Look at all descriptors; link.lost if one isn't ours any more. udp.c */
void udp_verify(struct udp_link *link, uint64_t now);
bool udp_multicast_verify(struct udp_link *link);

/* Before descriptors are used: whether they are ours, as of a moment ago. */
static inline bool udp_is_intact(struct udp_link *link, uint64_t now)
{
	uint64_t verified = atomic_load_explicit(&link->verified, memory_order_relaxed);

	if ((int64_t)(now - verified) >= UDP_VERIFY)
		udp_verify(link, now);
	return !atomic_load_explicit(&link->link.lost, memory_order_relaxed);
}

unsigned int udp_send(struct link *base, struct link_packet *packets, unsigned int count,
		      uint64_t now);
void udp_capture(struct link *base, struct link_packet *packet);
unsigned int udp_receive(struct link *base, struct link_frame *frames, unsigned int max,
			 uint64_t now);
/* What has arrived on the socket of @address. */
unsigned int udp_receive_from(struct udp_link *link, const struct udp_address *address,
			      struct link_frame *frames, unsigned int max);
/* What is left of the super-packets that were read last. */
unsigned int udp_receive_rest(struct udp_link *link, struct link_frame *frames, unsigned int max);
/* The next of the sockets in @epoll_fd that has something. False: none has. */
bool udp_ready(int epoll_fd, struct epoll_event *event);

/* udp_peer.c */
void udp_describe_peer(struct link *base, const struct path *path, uint32_t qpn,
		       struct link_peer *peer);

/* udp_multicast.c */
void udp_multicast_init(struct udp_link *link);
void udp_multicast_destroy(struct udp_link *link);
void udp_multicast_after_fork_child(struct udp_link *link);
int udp_join(struct link *base, const union ibv_gid *group, const union ibv_gid *source);
void udp_leave(struct link *base, const union ibv_gid *group);
/*
 * @gid was added, or is on another interface now: groups that were joined everywhere are joined
 * there, too. @link->lock is held.
 */
void udp_multicast_extend(struct udp_link *link, const union ibv_gid *gid);
/* Multicasts from the socket @fd leave by the interface that has @source. */
void udp_multicast_from(int fd, const union ibv_gid *source);
unsigned int udp_multicast_descriptors(const struct udp_link *link, int *fds, unsigned int max);
/* Whether @group was joined on @interface, where a datagram came in. With multicast.lock. */
bool udp_group_is_on(const struct udp_group *group, unsigned int interface);

static inline bool udp_has_groups(const struct udp_link *link)
{
	return atomic_load_explicit(&link->multicast.count, memory_order_relaxed) > 0;
}

/*
 * What has arrived for the groups that there are, when it is their turn. @idle: nothing else has
 * arrived.
 */
unsigned int udp_multicast_receive(struct udp_link *link, struct link_frame *frames,
				   unsigned int max, bool idle);

#endif
