/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The link: what the transport core sends packets to and receives packets from.
 * net/udp/udp is the real one, net/sim/sim the one in virtual time, net/shm/shm one around
 * net/udp/udp for peers that share memory, net/fault/fault a filter around any. The core (emu/)
 * calls it; nothing above the core does, except to create it and to wait on its descriptors.
 *
 * A packet to send is headers, an iovec into the application's memory, and a
 * trailer. Links take batches, seal each packet with its ICRC (which covers
 * the IP header, so only the link can) and have copied or sent everything when
 * send() returns. A packet whose payload can't be read any more is lost. A received frame points
 * into the link's buffers and stays valid until the next receive() on the link.
 *
 * Threads: send() may be called by several threads at once. receive() is called
 * by one at a time (the caller's lock). Times are nanoseconds of one monotonic
 * clock that the caller chose.
 */
#ifndef URXE_NET_LINK_H
#define URXE_NET_LINK_H

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "net/clock.h"
#include "net/wire/wire.h"

#define HOP_LIMIT_DEFAULT 64 /* as Linux has it for RoCE v2 */
#define FLOW_LABEL_MASK 0xfffff

/*
 * How packets get from here to one peer: an address vector, resolved. Addresses
 * are GIDs everywhere: IPv4 is ::ffff:a.b.c.d (Annex A17.3.2).
 */
struct path {
	union ibv_gid source;
	union ibv_gid destination;
	uint32_t flow_label;
	uint8_t traffic_class; /* the IP ToS byte or traffic class, DSCP and ECN */
	uint8_t hop_limit;
};

struct link_packet {
	const struct path *path;
	const struct iovec *payload;
	uint32_t payload_length;
	uint16_t payload_count;
	uint16_t headers_length;
	uint8_t headers[WIRE_HEADERS_MAX];
	uint8_t trailer[8]; /* pad (zeros), then the ICRC, which the link fills in */
	uint8_t trailer_length;
	uint8_t corrupt_bit; /* for net/fault/fault: 0, or 1 + the bit to flip after sealing */
	uint64_t captured;   /* the time of its record in link.capture; set by that alone */
};

static inline uint32_t link_packet_length(const struct link_packet *packet)
{
	return packet->headers_length + packet->payload_length + packet->trailer_length;
}

/*
 * Copy the payload, or all of the packet, to @to, linear. Returns its end, or NULL when the
 * payload's memory can't be read any more (net/guard.h).
 */
uint8_t *link_packet_payload(const struct link_packet *packet, uint8_t *to);
uint8_t *link_packet_copy(const struct link_packet *packet, uint8_t *to);
/* The same with the payload past the caches (net/stores.h). */
uint8_t *link_packet_copy_nontemporal(const struct link_packet *packet, uint8_t *to);

/*
 * Neighbours on one path and of one length, the last of which may be shorter, are
 * best sent in one call: the link may make so many, or so many bytes, a GSO train.
 * 64: UDP_MAX_SEGMENTS before Linux 6.9. The largest datagram that IPv4 and IPv6
 * both have.
 */
#define LINK_TRAIN_PACKETS 64
#define LINK_TRAIN_BYTES (65535 - 40 - 8)

/* How many packets of @length that are at the most; 0 of those that no datagram takes. */
static inline unsigned int link_train_packets(uint32_t length)
{
	uint32_t most = LINK_TRAIN_BYTES / length;

	return most < LINK_TRAIN_PACKETS ? most : LINK_TRAIN_PACKETS;
}

#define IP_ID_UNKNOWN (-1)

struct link_frame {
	const uint8_t *data; /* the UDP payload: BTH ... ICRC */
	uint32_t length;
	/*
	 * IPv4: the place in its super-packet, from 0, which is the identification of a sender that
	 * begins each at 0, or IP_ID_UNKNOWN; after icrc_check() the identification itself.
	 */
	int32_t ip_id;
	union ibv_gid source;
	union ibv_gid destination;
	uint16_t source_port;
	uint8_t traffic_class;
	uint8_t hop_limit;
	uint8_t forwards;    /* how often it was handed on before it came here */
	uint32_t interface;  /* of a multicast: that it came in by; 0: unknown */
	uint32_t flow_label; /* of IPv6 alone */
	uint64_t captured;   /* the time of its record in link.capture; 0: it has none */
	bool message; /* of another HCA of this machine (share_ops.send_message): no packet */
	bool shared;  /* its sender may still write to @data: look at each part once */
	bool trusted; /* it came through memory, and has no ICRC */
};

struct capture;
struct link;
struct share;

/* What is known of the process that sent a frame. */
enum link_sender {
	LINK_SENDER_UNKNOWN, /* no node on this machine has the address, or it can't be known */
	LINK_SENDER_NODE,    /* a process of the user whose node has the address */
	LINK_SENDER_FOREIGN, /* a process of another user */
	LINK_SENDER_GONE,    /* the socket that it was sent from isn't there any more */
};

/* What is known of the process and the queue pair that packets are sent to. */
enum link_peer_state {
	LINK_PEER_UNKNOWN,    /* the address isn't one of this machine, or it can't be known */
	LINK_PEER_NOT_THERE,  /* no process has the address open */
	LINK_PEER_OTHER_USER, /* a process of the user @uid has */
	LINK_PEER_ENDED,      /* the process that the QP number was given to has ended */
	LINK_PEER_NO_QP,      /* the process @pid lives, and shows no such QP */
	LINK_PEER_QP,	      /* it does, as the rest says */
};

#define LINK_PEER_COMMAND 64

struct link_peer {
	enum link_peer_state state;
	uid_t uid;
	pid_t pid; /* 0: not known */
	bool stopped;
	char command[LINK_PEER_COMMAND]; /* "": not known */
	enum ibv_qp_state qp_state;
	union ibv_gid peer_gid; /* whom it is connected with; zeros: not yet */
	uint32_t peer_qpn;
	uint32_t error; /* enum cause of its last completion with an error; 0: none */
	/*
	 * Why the kernel last refused to send a packet to its address (EMSGSIZE: the MTU of the
	 * path), 0: it didn't, as far as is known; and when.
	 */
	int refused;
	uint64_t refused_at;
};

struct link_ops {
	/*
	 * Send @count packets in order. What the network refuses is lost, as on a
	 * wire, and nothing is to be retried. Returns how many packets that were. What
	 * @packets holds afterwards is of no use.
	 */
	unsigned int (*send)(struct link *link, struct link_packet *packets, unsigned int count,
			     uint64_t now);

	/* Up to @max frames that have arrived, without waiting. Returns how many. */
	unsigned int (*receive)(struct link *link, struct link_frame *frames, unsigned int max,
				uint64_t now);

	/*
	 * When receive() or send() wants to be called although no descriptor is
	 * readable (delayed packets), or TIME_NEVER.
	 */
	uint64_t (*deadline)(struct link *link);

	/*
	 * The progress thread is about to sleep on the descriptors: from now on what arrives makes
	 * one of them readable, until receive() has read it (share.woken). Returns when receive()
	 * wants to be called at the latest, 0: something has arrived. By the caller of receive().
	 * May be NULL for a link whose descriptors show all that arrives.
	 */
	uint64_t (*prepare_sleep)(struct link *link);

	/*
	 * Bytes that may be under way to the receiver of @qpn at the end of @path before they are
	 * a burden: RC's window stays below. UINT32_MAX: there is no such bound. May be NULL for a
	 * link without one.
	 */
	uint32_t (*capacity)(struct link *link, const struct path *path, uint32_t qpn);

	/*
	 * Bytes that the receiver of @qpn at the end of @path has space for before it drops;
	 * UINT32_MAX when it isn't on this machine or isn't known. Paces UC and UD, which have
	 * no acknowledgements to pace them (emu/transport/pacing.h), and so does the next.
	 */
	uint32_t (*rcvbuf_space)(struct link *link, const struct path *path, uint32_t qpn);

	/*
	 * Bytes that wait for the receiver of @qpn at the end of @path to read them; 0 when it
	 * isn't on this machine or isn't known. Tells a process that doesn't get the CPU, or is
	 * stopped, from one that lost packets (emu/transport/recovery.h). They may be of other QPs.
	 * *@read: bytes that it was seen to read, counted from any beginning. When that has grown
	 * by what is returned, all has been read that was sent before.
	 */
	uint32_t (*unread)(struct link *link, const struct path *path, uint32_t qpn,
			   uint64_t *read);

	/*
	 * What became of the receiver of @qpn at the end of @path: for messages, slow. A link that
	 * is asked too often answers LINK_PEER_UNKNOWN. May be NULL for one that knows nothing.
	 */
	void (*describe_peer)(struct link *link, const struct path *path, uint32_t qpn,
			      struct link_peer *peer);

	/*
	 * Bytes that the send buffer of our address @source has space for: it fills where the
	 * network card is slower than we are. UINT32_MAX: that isn't known. May be NULL for a link
	 * that never drops there.
	 */
	uint32_t (*sndbuf_space)(struct link *link, const union ibv_gid *source);

	/*
	 * Begin to receive on @gid, which is on @interface (0: it isn't known), or go on there if
	 * it was elsewhere before. Returns 0 or an errno: EADDRINUSE when a process has :4791
	 * there that can't share it with us, EADDRNOTAVAIL when the address isn't local.
	 */
	int (*add_address)(struct link *link, const union ibv_gid *gid, unsigned int interface);

	/*
	 * Begin to receive what is sent to the multicast @group, where @source (one of
	 * the link's addresses) is, or wherever the link has an address of the group's
	 * family when it is NULL. Again for more places. What this link sends to the
	 * group comes back to it. Returns 0 or an errno: ENODEV when there is no such
	 * place, and what sockets run out of.
	 */
	int (*join)(struct link *link, const union ibv_gid *group, const union ibv_gid *source);

	/* Receive nothing for @group any more, wherever it was joined. */
	void (*leave)(struct link *link, const union ibv_gid *group);

	/*
	 * A UD QP shows its receives the hop limit and the flow label of what they receive: frames
	 * have all of a GRH from now on. Costs a little per frame. May be NULL for a link whose
	 * frames always have it.
	 */
	void (*receive_grh)(struct link *link);

	/*
	 * Which process a frame came from whose source address is one of this machine. Two system
	 * calls. May be NULL for a link that can't be sent to by other users.
	 */
	enum link_sender (*sender)(struct link *link, const struct link_frame *frame);

	/* The descriptors to poll for reading. Returns how many there are. */
	unsigned int (*descriptors)(struct link *link, int *fds, unsigned int max);

	/*
	 * Write a packet to the capture as if it were sent: net/fault/fault drops it, as a network
	 * does behind the card. May be NULL for a link that has no capture.
	 */
	void (*capture)(struct link *link, struct link_packet *packet);

	/*
	 * This is a forked child: let go of the descriptors, which are the parent's. What
	 * is sent from now on is lost. May be NULL for a link that has none.
	 */
	void (*after_fork_child)(struct link *link);

	/*
	 * The process ends: remove the files by which others would find it. By _exit() perhaps in a
	 * signal handler. May be NULL for a link that has none.
	 */
	void (*at_exit)(struct link *link);

	void (*close)(struct link *link);
};

struct link {
	const struct link_ops *ops;
	struct share *share;	 /* net/share/share.h; NULL: the addresses are the link's alone */
	struct capture *capture; /* net/capture.h, or NULL */
	/*
	 * Set by receive(): more frames may have arrived, though it returned fewer than it was
	 * asked for. Read by the caller of receive() alone.
	 */
	bool more;
	/*
	 * The application has closed descriptors of the link (net/descriptor.h). Nothing is sent or
	 * received any more, and there is nothing to wait on.
	 */
	_Atomic bool lost;
};

/* --- for the core ---------------------------------------------------------------------------- */

#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>

/*
 * TSan sees neither what goes through the kernel nor that two mappings are the same memory: where a
 * packet has come from a thread of this process, all that it did before has happened before.
 */
extern char link_order;
#define LINK_ORDER_SENT() __tsan_release(&link_order)
#define LINK_ORDER_RECEIVED() __tsan_acquire(&link_order)
#else
#define LINK_ORDER_SENT() ((void)0)
#define LINK_ORDER_RECEIVED() ((void)0)
#endif

static inline void link_receive_grh(struct link *link)
{
	if (link->ops->receive_grh)
		link->ops->receive_grh(link);
}

/* link_ops.send() and .receive() */
static inline unsigned int link_send(struct link *link, struct link_packet *packets,
				     unsigned int count, uint64_t now)
{
	LINK_ORDER_SENT();
	return link->ops->send(link, packets, count, now);
}

static inline unsigned int link_receive(struct link *link, struct link_frame *frames,
					unsigned int max, uint64_t now)
{
	unsigned int count = link->ops->receive(link, frames, max, now);

	if (count)
		LINK_ORDER_RECEIVED();
	return count;
}

#endif
