/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The send queue of a QP: a ring of send work requests, under the QP lock.
 *
 *      polled        done          next            posted
 *        |  reported  |  in flight  |  not yet sent  |
 *
 * The four marks are free-running counters. A slot is free again when a
 * completion at or behind it has been polled (verbs.md 5), which is why polled
 * is atomic: ibv_poll_cq advances it without the QP lock.
 */
#ifndef URXE_EMU_SEND_QUEUE_H
#define URXE_EMU_SEND_QUEUE_H

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "emu/objects/mw.h"
#include "emu/transport/request_kind.h"
#include "net/cause/cause.h"
#include "net/link.h"

struct hca;
struct pd;

/* What a FLUSH asks for, Annex A19. */
struct flush {
	uint64_t length; /* of a range, in bytes */
	uint8_t placement, selectivity;
};

/* A work request with WR_FLUSH, for which ibv_send_wr has no fields; address and key are wr's. */
struct flush_wr {
	struct ibv_send_wr wr;
	struct flush flush;
};

struct send_wqe {
	uint64_t wr_id;
	uint64_t posted_at; /* if the HCA measures; ns */
	uint64_t late;	    /* by how much a fault has its completion come late; ns */
	const struct request_kind *kind;
	unsigned int flags;	   /* IBV_SEND_*, with SIGNALED set for sq_sig_all */
	enum ibv_wc_status status; /* a local error found before anything was sent */
	uint32_t cause;		   /* enum cause of such an error, where it can't be told later */
	uint32_t length;	   /* of the message, bytes */
	uint32_t num_sge;
	__be32 imm_data;
	uint32_t invalidate_rkey;
	uint64_t remote_addr;
	uint32_t rkey;
	uint64_t compare_add, swap;
	uint32_t remote_srqn; /* XRC */

	union {
		struct { /* datagrams: the address handle, copied, and where in the peer */
			struct path path;
			uint32_t remote_qpn, remote_qkey;
		};
		struct mw_bind bind;
		struct flush flush;
	};

	/* Given when the first packet is built; kept for every retransmission. */
	bool started;
	uint8_t injected; /* the enum ibv_wc_status that it is to complete with, or 0:
			     emu/inject/request.h */
	uint32_t first_psn;
	uint32_t psn_count;   /* packets; for READ: response packets; 0 for what stays here */
	uint32_t packet_cost; /* what each counts in the congestion window */
	uint32_t read_chunk;  /* READ: response packets asked for by one request packet */

	struct ibv_sge *sge;  /* max_sge of them, in the ring */
	uint8_t *inline_data; /* max_inline of them; NULL when the queue has no inline data */
};

struct send_queue {
	struct send_wqe *ring;
	struct ibv_sge *sges;
	uint8_t *inline_data;
	uint32_t capacity; /* what the application was granted */
	uint32_t slots;	   /* of the ring: a power of two */
	uint32_t max_sge, max_inline;
	uint32_t max_sge_read; /* of a READ */
	uint32_t lacking;      /* bits 1 << IBV_WR_*: operations that the device doesn't take */
	uint32_t misalignment; /* bits of an atomic's address that are refused */
	bool invalidate_fails; /* a SEND with invalidate is taken, and fails */
	uint32_t posted, next, done;
	_Atomic uint32_t polled;
	uint32_t unreported; /* slots completed without a completion since the last one */
};

int send_queue_init(struct send_queue *queue, const struct ibv_qp_cap *cap);
/* What the device takes less of than the queue has room for. */
void send_queue_limit(struct send_queue *queue, const struct hca *hca);
void send_queue_destroy(struct send_queue *queue);
void send_queue_reset(struct send_queue *queue);

static inline struct send_wqe *send_queue_at(const struct send_queue *queue, uint32_t index)
{
	return &queue->ring[index & (queue->slots - 1)];
}

/*
 * Check @wr against the QP type and the queue's limits and append it. 0, or
 * ENOMEM (full), EINVAL (SGEs, inline, an opcode the transport lacks, AH
 * missing), EOPNOTSUPP (opcodes this device lacks). @pd and @port_num are the QP's: an AH of
 * another one, like a message that is too long, is an error of the completion.
 */
int send_queue_push(struct send_queue *queue, const struct qp_type *type, bool signal_all,
		    const struct pd *pd, uint8_t port_num, const struct ibv_send_wr *wr);
/* What send_queue_push() refuses @wr for, as it returns it, to @finding (or NULL). */
int send_queue_check(const struct send_queue *queue, const struct qp_type *type,
		     const struct ibv_send_wr *wr, struct finding *finding);

#endif
