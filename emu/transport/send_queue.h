/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The send queue of a QP: a ring of send work requests, under the QP lock.
 *
 *      polled        done          next            posted
 *        |  reported  |  in flight  |  not yet sent  |
 *
 * The four marks are free-running counters. A slot is free again when a
 * completion at or behind it has been polled (IBA 10.8.5.1), which is why polled
 * is atomic: ibv_poll_cq advances it without the QP lock, under that of the send CQ.
 *
 * Filled by emu/objects/qp_post; the requester moves next, the completer done.
 */
#ifndef URXE_EMU_SEND_QUEUE_H
#define URXE_EMU_SEND_QUEUE_H

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

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

/*
 * A READ is asked for by several requests, each for @size responses from packet @from on. What the
 * window has space for changes while a long one is under way, and so does the size
 * (emu/transport/read_cut.h).
 */
struct read_cut {
	uint32_t from, size;
};

/*
 * Two lines of the CPU's cache, of which a SEND or an RDMA WRITE of RC or UC touches the first
 * alone. So the second has nothing that isn't written by what reads it, and isn't cleared.
 */
struct send_wqe {
	uint64_t wr_id;
	const struct request_kind *kind;
	union {
		struct ibv_sge *sge;  /* max_sge of them, in the ring */
		uint8_t *inline_data; /* with IBV_SEND_INLINE: max_inline bytes */
	};
	uint64_t remote_addr;
	uint32_t rkey;
	uint32_t length; /* of the message, bytes */
	union {
		__be32 imm_data;
		uint32_t invalidate_rkey; /* REQUEST_INVALIDATE */
	};
	/* Given when the first packet is built; kept for every retransmission. */
	uint32_t first_psn;
	uint32_t psn_count;   /* packets; for READ: response packets; 0: REQUEST_LOCAL */
	uint32_t packet_cost; /* what each counts in the congestion window */
	uint16_t cause;	      /* enum cause of @status, where it can't be found out later */
	uint8_t status;	      /* enum ibv_wc_status: a local error found before anything was sent */
	uint8_t flags;	      /* IBV_SEND_*, with SIGNALED set for sq_sig_all */
	uint8_t num_sge;
	bool started;
	uint8_t injected; /* the enum ibv_wc_status that it is to complete with, or 0:
			     emu/inject/request.h */
	bool is_late;	  /* @late is set */

	/* The second line. */
	uint64_t posted_at; /* if the HCA measures; ns */
	uint64_t late;	    /* by how much a fault has its completion come late; ns */
	union {
		struct {		      /* connected */
			uint32_t remote_srqn; /* XRC */
			/* READ: was asked for in other parts, too: any response may be a LAST. */
			bool read_in_parts;
			/* READ with one SGE: its memory, once a response has come early. */
			const uint8_t *memory;
			union {
				struct read_cut cuts[2]; /* READ: before cuts[1].from, and behind */
				struct {
					uint64_t compare_add, swap;
				};
				struct flush flush;
			};
		};
		struct { /* datagrams: the address handle, copied, and where in the peer */
			struct path path;
			uint32_t remote_qpn, remote_qkey;
		};
		struct mw_bind bind;
	};
};

#define SEND_WQE_SIZE 128

_Static_assert(sizeof(struct send_wqe) == SEND_WQE_SIZE, "two lines");
_Static_assert(offsetof(struct send_wqe, posted_at) == 64, "the first has what all touch");

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

/* An empty queue with the capacities of @cap, which are within the device's. 0 or ENOMEM. */
int send_queue_init(struct send_queue *queue, const struct ibv_qp_cap *cap);
/*
 * Have the queue refuse what the device of @hca can't do though there is room for it: SGEs of a
 * READ, operations, addresses of atomics.
 */
void send_queue_limit(struct send_queue *queue, const struct hca *hca);
void send_queue_destroy(struct send_queue *queue);
/* Empty, without completions: the QP moves to RESET. */
void send_queue_reset(struct send_queue *queue);

static inline struct send_wqe *send_queue_at(const struct send_queue *queue, uint32_t index)
{
	return &queue->ring[index & (queue->slots - 1)];
}

/* With the lock of the send CQ: a locked instruction isn't needed. */
static inline void send_queue_note_polled(struct send_queue *queue, uint32_t slots)
{
	uint32_t polled = atomic_load_explicit(&queue->polled, memory_order_relaxed);

	atomic_store_explicit(&queue->polled, polled + slots, memory_order_release);
}

/*
 * How many PSNs the request packet takes that packet @index of a started @wqe belongs to, from that
 * one on.
 */
static inline uint32_t send_wqe_request_rest(const struct send_wqe *wqe, uint32_t index)
{
	const struct read_cut *cut = &wqe->cuts[1];
	uint32_t end = wqe->psn_count, rest;

	if (wqe->kind->data != DATA_READ)
		return 1;
	if (index < cut->from) {
		end = cut->from;
		cut = &wqe->cuts[0];
	}
	rest = cut->size - (index - cut->from) % cut->size;
	return rest < end - index ? rest : end - index;
}

/* The index of the request that @psn belongs to, one of those that are under way. */
uint32_t send_queue_find(const struct send_queue *queue, uint32_t psn);

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
