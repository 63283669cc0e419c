/* SPDX-License-Identifier: BSD-2-Clause */
#include "emu/transport/receive_queue.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "emu/objects/mr.h"
#include "net/cause/cause.h"

int receive_queue_init(struct receive_queue *queue, uint32_t capacity, uint32_t max_sge)
{
	*queue = (struct receive_queue){.capacity = capacity, .max_sge = max_sge};
	if (!capacity)
		return 0;
	queue->ring = calloc(capacity, sizeof(*queue->ring));
	/* At least one, since calloc() may return NULL for nothing. */
	queue->sges = calloc((size_t)capacity * max_sge + 1, sizeof(*queue->sges));
	if (queue->ring && queue->sges)
		return 0;
	receive_queue_destroy(queue);
	return ENOMEM;
}

void receive_queue_destroy(struct receive_queue *queue)
{
	free(queue->ring);
	free(queue->sges);
	*queue = (struct receive_queue){0};
}

void receive_queue_clear(struct receive_queue *queue)
{
	queue->head = queue->count = 0;
}

/* The entry @offset behind the head; @offset <= capacity. */
static uint32_t receive_queue_index(const struct receive_queue *queue, uint32_t offset)
{
	uint64_t index = (uint64_t)queue->head + offset;

	return index < queue->capacity ? index : index - queue->capacity;
}

static struct receive_wqe *receive_queue_at(struct receive_queue *queue, uint32_t offset)
{
	uint32_t index = receive_queue_index(queue, offset);
	struct receive_wqe *wqe = &queue->ring[index];

	wqe->sge = queue->sges + (size_t)index * queue->max_sge;
	return wqe;
}

static void receive_wqe_copy(struct receive_wqe *to, const struct receive_wqe *from)
{
	struct ibv_sge *sge = to->sge;

	*to = *from;
	to->sge = sge;
	if (from->num_sge)
		memcpy(sge, from->sge, from->num_sge * sizeof(*sge));
}

int receive_queue_resize(struct receive_queue *queue, uint32_t capacity)
{
	struct receive_queue resized;
	int error;

	error = receive_queue_init(&resized, capacity, queue->max_sge);
	if (error)
		return error;
	for (uint32_t i = 0; i < queue->count; i++)
		receive_wqe_copy(receive_queue_at(&resized, i), receive_queue_at(queue, i));
	free(queue->ring);
	free(queue->sges);
	/* max_sge stays, which QPs that are made with an SRQ read without its lock. */
	queue->ring = resized.ring;
	queue->sges = resized.sges;
	queue->capacity = capacity;
	queue->head = 0;
	return 0;
}

int receive_queue_push(struct receive_queue *queue, const struct ibv_recv_wr *wr)
{
	struct receive_wqe *wqe;
	uint64_t total;

	if (!sge_list_fits(wr->sg_list, wr->num_sge, queue->max_sge))
		return EINVAL;
	if (queue->count == queue->capacity)
		return ENOMEM;
	wqe = receive_queue_at(queue, queue->count);
	wqe->wr_id = wr->wr_id;
	wqe->num_sge = wr->num_sge;
	if (wqe->num_sge)
		memcpy(wqe->sge, wr->sg_list, wqe->num_sge * sizeof(*wqe->sge));
	/* No message is as long as what the clamping cuts off (IBA 9.7.7). */
	total = sge_total(wqe->sge, wqe->num_sge);
	wqe->length = total < UINT32_MAX ? total : UINT32_MAX;
	queue->count++;
	return 0;
}

int receive_queue_refuse(const struct receive_queue *queue, const struct ibv_recv_wr *wr,
			 const char *call)
{
	if (!sge_list_fits(wr->sg_list, wr->num_sge, queue->max_sge))
		return refuse(EINVAL, CAUSE_POST_SGES,
			      "%s, wr_id %" PRIu64 ": num_sge is %d%s, the queue takes %u", call,
			      wr->wr_id, wr->num_sge, sge_list_missing(wr->sg_list, wr->num_sge),
			      queue->max_sge);
	return refuse(ENOMEM, CAUSE_RECEIVE_QUEUE_FULL,
		      "%s, wr_id %" PRIu64 ": %u receives are posted, the queue takes %u", call,
		      wr->wr_id, queue->count, queue->capacity);
}

bool receive_queue_pop(struct receive_queue *queue, struct receive_wqe *wqe, struct ibv_sge *sges)
{
	if (!queue->count)
		return false;
	wqe->sge = sges;
	receive_wqe_copy(wqe, receive_queue_at(queue, 0));
	queue->head = receive_queue_index(queue, 1);
	queue->count--;
	return true;
}
