/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A ring of receive work requests: the receive queue of a QP (under the QP
 * lock), or what an SRQ is made of (under the SRQ lock). Filled by emu/objects/qp_post and
 * srq, emptied by emu/transport/message for the message that comes.
 */
#ifndef URXE_EMU_RECEIVE_QUEUE_H
#define URXE_EMU_RECEIVE_QUEUE_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

struct receive_wqe {
	uint64_t wr_id;
	uint32_t num_sge;
	uint32_t length;     /* sum of the SGEs */
	struct ibv_sge *sge; /* max_sge of them, in the ring */
};

struct receive_queue {
	struct receive_wqe *ring;
	struct ibv_sge *sges;
	uint32_t capacity, max_sge;
	uint32_t head, count;
};

/* @capacity 0 is a queue that is always full. Memory is touched as it is used. */
int receive_queue_init(struct receive_queue *queue, uint32_t capacity, uint32_t max_sge);
void receive_queue_destroy(struct receive_queue *queue);
void receive_queue_clear(struct receive_queue *queue);
/* For ibv_modify_srq: keeps the entries, of which there are no more than @capacity. */
int receive_queue_resize(struct receive_queue *queue, uint32_t capacity);

/* 0, EINVAL (too many SGEs), ENOMEM (full). */
int receive_queue_push(struct receive_queue *queue, const struct ibv_recv_wr *wr);
/* What receive_queue_push() refuses @wr for, as it returns it, is reported of @call. */
int receive_queue_refuse(const struct receive_queue *queue, const struct ibv_recv_wr *wr,
			 const char *call);

/*
 * Take the oldest entry: copies it to *@wqe, its SGEs to @sges (max_sge of them)
 * where wqe->sge then points. Returns false when the queue is empty.
 */
bool receive_queue_pop(struct receive_queue *queue, struct receive_wqe *wqe, struct ibv_sge *sges);

#endif
