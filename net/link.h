/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The link: what the transport core sends packets to and receives packets from.
 * net/udp is the real one, net/sim the one in virtual time, net/fault a filter
 * around either. The core (emu/) calls it; nothing above the core does, except
 * to create it and to wait on its descriptors.
 *
 * A packet to send is headers, an iovec into the application's memory, and a
 * trailer. Links take batches, seal each packet with its ICRC (which covers
 * the IP header, so only the link can) and have copied or sent everything when
 * send() returns. A received frame points into the link's buffers and stays
 * valid until the next receive() on the link.
 *
 * Threads: send() may be called by several threads at once. receive() is called
 * by one at a time (the caller's lock). Times are nanoseconds of one monotonic
 * clock that the caller chose.
 */
#ifndef URXE_NET_LINK_H
#define URXE_NET_LINK_H

#include <infiniband/verbs.h>
#include <sys/uio.h>

#include "net/wire.h"

#define TIME_NEVER UINT64_MAX

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
	uint8_t damage; /* for net/fault: 0, or 1 + the index of a bit to flip after sealing */
};

#define IP_ID_UNKNOWN (-1)

struct link_frame {
	const uint8_t *data; /* the UDP payload: BTH ... ICRC */
	uint32_t length;
	int32_t ip_id; /* IPv4: what the link believes the identification to be, or IP_ID_UNKNOWN */
	union ibv_gid source;
	union ibv_gid destination;
	uint16_t source_port;
	uint8_t traffic_class;
	uint8_t hop_limit;
};

struct link;

struct link_ops {
	/*
	 * Send @count packets in order. What the network refuses is lost, as on a
	 * wire; there is nothing to retry and nothing to report.
	 */
	void (*send)(struct link *link, struct link_packet *packets, unsigned int count,
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
	 * Bytes that @path can take before it drops, as far as this machine can
	 * know: what the receiver's queue has left on the same host, what our own
	 * has left before a slow network card, else UINT32_MAX. Paces UC and UD,
	 * which have no acknowledgements to pace them.
	 */
	uint32_t (*room)(struct link *link, const struct path *path);

	/*
	 * Begin to receive on @gid. Returns 0 or an errno: EADDRINUSE when somebody
	 * else owns :4791 there, EADDRNOTAVAIL when the address isn't local.
	 */
	int (*add_address)(struct link *link, const union ibv_gid *gid);

	/*
	 * Somebody wants to know the traffic class and the hop limit of what he
	 * receives (UD does): frames have them from now on. Costs a little per frame.
	 * May be NULL for a link whose frames always have them.
	 */
	void (*show_headers)(struct link *link);

	/* The descriptors to poll for reading. Returns how many there are. */
	unsigned int (*descriptors)(struct link *link, int *fds, unsigned int max);

	/*
	 * This is a forked child: let go of the descriptors, which are the parent's. What
	 * is sent from now on is lost. May be NULL for a link that has none.
	 */
	void (*forget)(struct link *link);

	void (*close)(struct link *link);
};

struct link {
	const struct link_ops *ops;
};

#endif
