/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sharing an address, as processes share a NIC: many HCAs receive at one IP address and
 * UDP port. Each leases numbers that no other HCA there has, for its QPs and for
 * communication ids; it claims the services that it listens for; and a frame that it
 * receives for another HCA it forwards to that one. Which HCA has a number only links
 * know (net/share/slot.h).
 *
 * Called by the core: emu/hca.c for QP numbers, emu/hca_progress.c at the end of the process,
 * emu/cm for communication ids and services, emu/transport/xrc_remote.c to reach the process that
 * has an SRQ; emu/transport/pacing.c tells HCAs apart by their blocks of QP numbers. verbs/rdma
 * asks which process listens. A link whose addresses can be shared has one (link.share); with
 * another link all numbers and services are the HCA's own. net/udp/udp_share is that of net/udp.
 *
 * Any thread may call at any time. lease, claim and release may wait for other processes that do
 * the same, some milliseconds at worst; forward waits for nothing.
 */
#ifndef URXE_NET_SHARE_H
#define URXE_NET_SHARE_H

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct link_frame;
struct share;

/* QP numbers that are ours until the link is closed. */
struct lease {
	uint32_t first, count;
	uint32_t start; /* to be used from here on: the numbers before it were in use last */
};

#define SHARE_COMM_IDS (1u << 20) /* in a lease of them */
#define SHARE_ENDED UINT32_MAX	  /* the number of a process that never is alive */

/* QP numbers are leased in blocks of so many, from a multiple of it on; each is one HCA's. */
#define SHARE_QPN_BLOCK 4096u

static inline uint32_t share_qpn_block(uint32_t qpn)
{
	return qpn / SHARE_QPN_BLOCK;
}

/* Seen from its end on this machine. */
struct share_connection {
	union ibv_gid local, remote;
	uint32_t local_id, remote_id; /* communication ids */
	uint32_t remote_qpn;
};

struct share_ops {
	/* More QP numbers. Returns 0, or ENOSPC when all are leased. */
	int (*lease_qpns)(struct share *share, struct lease *lease);

	/*
	 * The first of SHARE_COMM_IDS communication ids, a multiple of their number and the
	 * same at each call. 0 if none are to be had.
	 */
	uint32_t (*lease_comm_ids)(struct share *share);

	/*
	 * Be the one HCA that answers for a service id at @gid, where an unspecified address
	 * (:: or ::ffff:0.0.0.0) stands for all that the link has of its family. Returns 0,
	 * EADDRINUSE when another HCA answers for it, EADDRNOTAVAIL when one of the two does so at
	 * an unspecified address, ENOSPC.
	 */
	int (*claim)(struct share *share, const union ibv_gid *gid, uint64_t service_id);
	void (*release)(struct share *share, const union ibv_gid *gid, uint64_t service_id);
	/* The process whose HCA answers for it at our address @gid, or 0: for messages, slow. */
	pid_t (*claimant)(struct share *share, const union ibv_gid *gid, uint64_t service_id);

	/* The services that any HCA answers for at @gid, @max at most. Returns how many. */
	unsigned int (*services)(struct share *share, const union ibv_gid *gid, uint64_t *services,
				 unsigned int max);

	/*
	 * Be the one HCA of the machine whose connections begin at this port, whatever the address;
	 * false: another one is. Waits for nothing.
	 */
	bool (*take_port)(struct share *share, uint16_t port);
	void (*release_port)(struct share *share, uint16_t port);

	/*
	 * Hand @frame on to the HCA that leased the number by which it is addressed (its QP
	 * number, or in an answer to QP 1 the communication id), or that claimed the service
	 * that it requests. Like sending, this may fail silently. Returns false when there is
	 * no such HCA or its process is dead, when it is this one, and when @frame was handed
	 * on too often, or can't be.
	 */
	bool (*forward)(struct share *share, const struct link_frame *frame);

	/*
	 * Send @data to the HCA that leased the QP number @qpn, which receives it as a frame that
	 * is marked as a message (link_frame.message). It may be lost, like a packet. Returns false
	 * when there is no such HCA or its process is dead, and when it is this one.
	 */
	bool (*send_message)(struct share *share, uint32_t qpn, const void *data, uint32_t length);

	/*
	 * A number for the process of this machine that has @comm_id at @gid, one of the
	 * machine's addresses, ours too, or 0: there is none that shares addresses with us.
	 */
	uint32_t (*process)(struct share *share, const union ibv_gid *gid, uint32_t comm_id);
	/* Whether it still lives and has @comm_id. A system call. */
	bool (*is_alive)(struct share *share, uint32_t process, uint32_t comm_id);

	/*
	 * Connections with peers on other machines, whom another process of ours is to tell when
	 * this one is killed. record returns a number for forget, or 0. orphan returns the next
	 * connection, from *@number on (0: the first), of a dead process at one of our
	 * addresses; each a few times. False: there is none.
	 */
	uint32_t (*record)(struct share *share, const struct share_connection *connection);
	void (*forget)(struct share *share, uint32_t number);
	bool (*orphan)(struct share *share, uint32_t *number, struct share_connection *orphan);

	/*
	 * The process ends and receives no more: leave the addresses to the other HCAs. Waits
	 * for little.
	 */
	void (*shutdown)(struct share *share);
};

struct share {
	const struct share_ops *ops;
	/*
	 * The thread that sleeps on the descriptors has to be woken, unless the caller is that one.
	 * receive() has read what another process sent to wake it (link_ops.prepare_sleep); or
	 * send() keeps packets that the link wants to send later (link_ops.deadline), of which that
	 * thread knows nothing. The caller of receive() or send() clears this and wakes the thread.
	 */
	_Atomic bool woken;
};

#endif
