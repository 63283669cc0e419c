/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The ring of send work requests, and what is checked when one is posted:
 * emu/transport/send_queue.h has the marks and the lock.
 */
#include "emu/transport/send_queue.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "emu/capacity.h"
#include "emu/hca.h"
#include "emu/objects/mr.h"
#include "emu/objects/pd.h"
#include "net/cause/cause.h"
#include "net/wire/wire.h"

int send_queue_init(struct send_queue *queue, const struct ibv_qp_cap *cap)
{
	*queue = (struct send_queue){
		.capacity = cap->max_send_wr,
		.slots = power_of_two(cap->max_send_wr),
		.max_sge = cap->max_send_sge,
		.max_sge_read = cap->max_send_sge,
		.max_inline = cap->max_inline_data,
	};
	/* Large memory stays untouched until it is used. */
	queue->ring = aligned_alloc(SEND_WQE_SIZE, queue->slots * sizeof(*queue->ring));
	queue->sges = calloc((size_t)queue->slots * queue->max_sge + 1, sizeof(*queue->sges));
	queue->inline_data = calloc((size_t)queue->slots * queue->max_inline + 1, 1);
	if (queue->ring && queue->sges && queue->inline_data)
		return 0;
	send_queue_destroy(queue);
	return ENOMEM;
}

void send_queue_limit(struct send_queue *queue, const struct hca *hca)
{
	if (queue->max_sge_read > (uint32_t)hca->limits.device.max_sge_rd)
		queue->max_sge_read = hca->limits.device.max_sge_rd;
	queue->lacking = capacity_lacking_operations(hca);
	if (hca->behaviour.atomic_alignment_at_post)
		queue->misalignment = ATOMIC_LENGTH - 1;
	queue->invalidate_fails = hca->behaviour.send_with_invalidate == INVALIDATE_FAILS;
}

void send_queue_destroy(struct send_queue *queue)
{
	free(queue->ring);
	free(queue->sges);
	free(queue->inline_data);
	queue->ring = NULL;
	queue->sges = NULL;
	queue->inline_data = NULL;
}

void send_queue_reset(struct send_queue *queue)
{
	queue->posted = 0;
	queue->next = 0;
	queue->done = 0;
	queue->unreported = 0;
	atomic_store(&queue->polled, 0);
}

/* A check failed: why is described only if there is a @finding, and posting has none. */
#define FOUND(error, cause, ...)                                                                   \
	((finding ? finding_set(finding, CAUSE_##cause, __VA_ARGS__) : (void)0), (error))

static inline int check_opcode(const struct send_queue *queue, const struct request_kind *kind,
			       const struct qp_type *type, const struct ibv_send_wr *wr,
			       struct finding *finding)
{
	if (!kind)
		return FOUND(EINVAL, POST_OPCODE_UNKNOWN, "opcode is %u", wr->opcode);
	if (!kind->types)
		return FOUND(EOPNOTSUPP, POST_OPCODE_UNKNOWN, "opcode is IBV_WR_%s", kind->name);
	if (!qp_type_in(kind->types, type))
		return FOUND(EINVAL, POST_OPCODE_TYPE, "opcode is IBV_WR_%s", kind->name);
	if (queue->lacking & 1u << wr->opcode)
		return FOUND(EINVAL, POST_OPCODE_UNKNOWN, "opcode is IBV_WR_%s", kind->name);
	/* The device doesn't compute IP checksums, and its capabilities say so. */
	if (wr->send_flags & IBV_SEND_IP_CSUM)
		return FOUND(EINVAL, POST_CHECKSUM, "send_flags is 0x%x", wr->send_flags);
	if (!type->connected && !wr->wr.ud.ah)
		return FOUND(EINVAL, OBJECT_MISSING, "wr.ud.ah is NULL");
	if (kind->flags & REQUEST_BIND && !wr->bind_mw.mw)
		return FOUND(EINVAL, OBJECT_MISSING, "bind_mw.mw is NULL");
	return 0;
}

/* Inline data needs no entry of its own, so that a queue without any takes it. */
static uint32_t max_sge(const struct send_queue *queue, const struct ibv_send_wr *wr)
{
	return wr->send_flags & IBV_SEND_INLINE && !queue->max_sge ? 1 : queue->max_sge;
}

static inline int check_sges(const struct send_queue *queue, const struct request_kind *kind,
			     const struct ibv_send_wr *wr, uint64_t total, struct finding *finding)
{
	if (wr->send_flags & IBV_SEND_INLINE) {
		if (kind->data != DATA_SENT)
			return FOUND(EINVAL, POST_INLINE, "IBV_WR_%s sends no data", kind->name);
		if (total > queue->max_inline)
			return FOUND(EINVAL, POST_INLINE,
				     "%" PRIu64 " bytes inline, the queue pair takes %u", total,
				     queue->max_inline);
	}
	if (kind->data == DATA_ORIGINAL && total < ATOMIC_LENGTH)
		return FOUND(EINVAL, POST_ATOMIC_LENGTH, "IBV_WR_%s with %" PRIu64 " bytes",
			     kind->name, total);
	if (kind->data == DATA_ORIGINAL && wr->wr.atomic.remote_addr & queue->misalignment)
		return FOUND(EINVAL, CARD_ATOMIC_ALIGNMENT, "IBV_WR_%s at 0x%" PRIx64, kind->name,
			     wr->wr.atomic.remote_addr);
	if (kind->data == DATA_READ && (uint32_t)wr->num_sge > queue->max_sge_read)
		return FOUND(EINVAL, POST_SGES, "num_sge is %d, a READ has at most %u (max_sge_rd)",
			     wr->num_sge, queue->max_sge_read);
	if (kind->flags & REQUEST_EXACT && total != ATOMIC_LENGTH)
		return FOUND(EINVAL, POST_ATOMIC_LENGTH, "IBV_WR_%s with %" PRIu64 " bytes",
			     kind->name, total);
	return 0;
}

/* Those of the queue whose slots only the completion of a later one frees (IBA 10.8.5.1). */
static uint32_t count_unsignaled(const struct send_queue *queue)
{
	uint32_t count = 0;

	for (uint32_t i = atomic_load(&queue->polled); i != queue->posted; i++)
		count += !(send_queue_at(queue, i)->flags & IBV_SEND_SIGNALED);
	return count;
}

/* Inlined, so that posting, which has no finding, has no code for one in its way. */
static inline __attribute__((always_inline)) int check_work_request(const struct send_queue *queue,
								    const struct qp_type *type,
								    const struct ibv_send_wr *wr,
								    uint64_t *total,
								    struct finding *finding)
{
	const struct request_kind *kind = request_kind_find(wr->opcode);
	int error = check_opcode(queue, kind, type, wr, finding);

	if (error)
		return error;
	if (!sge_list_fits(wr->sg_list, wr->num_sge, max_sge(queue, wr)))
		return FOUND(EINVAL, POST_SGES, "num_sge is %d%s, the queue pair takes %u",
			     wr->num_sge, sge_list_missing(wr->sg_list, wr->num_sge),
			     max_sge(queue, wr));
	if (kind->data == DATA_NONE && wr->num_sge)
		return FOUND(EINVAL, POST_SGES, "IBV_WR_%s has no data, num_sge is %d", kind->name,
			     wr->num_sge);
	*total = sge_total(wr->sg_list, wr->num_sge);
	error = check_sges(queue, kind, wr, *total, finding);
	if (error)
		return error;
	if (queue->posted - atomic_load(&queue->polled) >= queue->capacity)
		return FOUND(ENOMEM, SEND_QUEUE_FULL,
			     "%u work requests wait for their completions to be polled, %u of them "
			     "unsignaled; max_send_wr is %u",
			     queue->posted - atomic_load(&queue->polled), count_unsignaled(queue),
			     queue->capacity);
	return 0;
}

int send_queue_check(const struct send_queue *queue, const struct qp_type *type,
		     const struct ibv_send_wr *wr, struct finding *finding)
{
	uint64_t total;

	return check_work_request(queue, type, wr, &total, finding);
}

static void copy_inline(struct send_wqe *wqe, const struct ibv_send_wr *wr)
{
	uint8_t *to = wqe->inline_data;

	for (int i = 0; i < wr->num_sge; i++) {
		if (!wr->sg_list[i].length)
			continue;
		memcpy(to, (const void *)(uintptr_t)wr->sg_list[i].addr, wr->sg_list[i].length);
		to += wr->sg_list[i].length;
	}
}

static void copy_sges(struct send_wqe *wqe, const struct ibv_send_wr *wr)
{
	for (int i = 0; i < wr->num_sge; i++)
		wqe->sge[i] = wr->sg_list[i];
}

/* verbs.h keeps the remote address of atomics elsewhere in its union. */
static void copy_atomic(struct send_wqe *wqe, const struct ibv_send_wr *wr)
{
	wqe->remote_addr = wr->wr.atomic.remote_addr;
	wqe->rkey = wr->wr.atomic.rkey;
	wqe->compare_add = wr->wr.atomic.compare_add;
	wqe->swap = wr->wr.atomic.swap;
	wqe->length = ATOMIC_LENGTH;
}

static void copy_invalidate(const struct send_queue *queue, struct send_wqe *wqe,
			    const struct ibv_send_wr *wr)
{
	wqe->invalidate_rkey = wr->invalidate_rkey;
	if (queue->invalidate_fails && !(wqe->kind->flags & REQUEST_LOCAL)) {
		wqe->status = IBV_WC_LOC_QP_OP_ERR;
		wqe->cause = CAUSE_CARD_INVALIDATE_FAILS;
	}
}

static void copy_bind(struct send_wqe *wqe, const struct ibv_send_wr *wr)
{
	const struct ibv_mw_bind_info *info = &wr->bind_mw.bind_info;

	wqe->bind = (struct mw_bind){
		.window = key_number(wr->bind_mw.mw->rkey),
		.rkey = wr->bind_mw.rkey,
		.region = info->mr ? info->mr->lkey : 0,
		.addr = info->addr,
		.length = info->length,
		.access = info->mw_access_flags,
	};
}

static void copy_flush(struct send_wqe *wqe, const struct ibv_send_wr *wr, uint32_t max_message)
{
	wqe->flush = ((const struct flush_wr *)wr)->flush;
	if (wqe->flush.length > max_message)
		wqe->status = IBV_WC_LOC_LEN_ERR;
}

static void copy_datagram(struct send_wqe *wqe, const struct pd *pd, uint8_t port_num,
			  const struct ibv_send_wr *wr)
{
	const struct ah *ah = (const struct ah *)wr->wr.ud.ah;

	/* IBA 11.6.2: an address handle of another PD or port is a local QP error. */
	bool other_pd = ah->pd != pd && !pd->hca->behaviour.ah_of_any_pd;

	if (other_pd || ah->port_num != port_num) {
		wqe->status = IBV_WC_LOC_QP_OP_ERR;
		wqe->cause = other_pd ? CAUSE_AH_OTHER_PD : CAUSE_AH_OTHER_PORT;
	}
	wqe->path = ah->path;
	wqe->remote_qpn = wr->wr.ud.remote_qpn & QPN_MASK;
	wqe->remote_qkey = wr->wr.ud.remote_qkey;
}

/* What simple requests don't have. */
static void copy_rest(const struct send_queue *queue, struct send_wqe *wqe,
		      const struct qp_type *type, const struct pd *pd, uint8_t port_num,
		      const struct ibv_send_wr *wr)
{
	const struct request_kind *kind = wqe->kind;

	if (kind->data == DATA_ORIGINAL)
		copy_atomic(wqe, wr);
	if (kind->flags & REQUEST_INVALIDATE)
		copy_invalidate(queue, wqe, wr);
	if (!type->connected)
		copy_datagram(wqe, pd, port_num, wr);
	if (kind->flags & REQUEST_BIND)
		copy_bind(wqe, wr);
	else if (type->transport == WIRE_XRC)
		wqe->remote_srqn = wr->qp_type.xrc.remote_srqn & QPN_MASK;
	if (kind->flags & REQUEST_FLUSH)
		copy_flush(wqe, wr, pd->hca->limits.max_message);
}

/* A SEND or an RDMA WRITE of RC or UC, of which only the lengths remain to be checked. */
static inline bool is_simple(const struct send_queue *queue, const struct request_kind *kind,
			     const struct qp_type *type, const struct ibv_send_wr *wr)
{
	return kind && kind->flags & REQUEST_SIMPLE && type->connected &&
	       type->transport != WIRE_XRC && qp_type_in(kind->types, type) &&
	       !(queue->lacking & 1u << wr->opcode) && !(wr->send_flags & IBV_SEND_IP_CSUM);
}

/* Whether it may be posted; if not, check_work_request() says why. */
static inline bool check_simple(const struct send_queue *queue, const struct ibv_send_wr *wr,
				uint64_t *total)
{
	if (queue->posted - atomic_load(&queue->polled) >= queue->capacity ||
	    !sge_list_fits(wr->sg_list, wr->num_sge, max_sge(queue, wr)))
		return false;
	*total = sge_total(wr->sg_list, wr->num_sge);
	return !(wr->send_flags & IBV_SEND_INLINE) || *total <= queue->max_inline;
}

int send_queue_push(struct send_queue *queue, const struct qp_type *type, bool signal_all,
		    const struct pd *pd, uint8_t port_num, const struct ibv_send_wr *wr)
{
	const struct request_kind *kind = request_kind_find(wr->opcode);
	bool simple = is_simple(queue, kind, type, wr);
	uint32_t index = queue->posted & (queue->slots - 1);
	bool with_inline = wr->send_flags & IBV_SEND_INLINE, too_long;
	struct send_wqe *wqe = &queue->ring[index];
	uint64_t total;

	if (!simple || !check_simple(queue, wr, &total)) {
		int error = check_work_request(queue, type, wr, &total, NULL);

		if (error)
			return error;
	}
	too_long = total > pd->hca->limits.max_message;
	wqe->wr_id = wr->wr_id;
	wqe->kind = kind;
	wqe->remote_addr = wr->wr.rdma.remote_addr;
	wqe->rkey = wr->wr.rdma.rkey;
	wqe->length = too_long ? 0 : total;
	wqe->imm_data = wr->imm_data;
	wqe->first_psn = wqe->psn_count = wqe->packet_cost = 0;
	wqe->cause = CAUSE_NONE;
	wqe->status = too_long ? IBV_WC_LOC_LEN_ERR : IBV_WC_SUCCESS;
	wqe->flags = wr->send_flags | (signal_all ? IBV_SEND_SIGNALED : 0);
	wqe->num_sge = with_inline ? 0 : wr->num_sge;
	wqe->started = false;
	wqe->injected = 0;
	wqe->is_late = false;
	if (with_inline) {
		wqe->inline_data = queue->inline_data + (size_t)index * queue->max_inline;
		copy_inline(wqe, wr);
	} else {
		wqe->sge = queue->sges + (size_t)index * queue->max_sge;
		copy_sges(wqe, wr);
	}
	if (!simple)
		copy_rest(queue, wqe, type, pd, port_num, wr);
	queue->posted++;
	return 0;
}

/*
 * The first PSNs of work requests ascend. One that sends no packet has that of the one behind it,
 * which is the one found.
 */
uint32_t send_queue_find(const struct send_queue *queue, uint32_t psn)
{
	uint32_t low = 0, high = queue->posted - queue->done;

	while (high - low > 1) {
		uint32_t middle = low + (high - low) / 2;
		const struct send_wqe *wqe = send_queue_at(queue, queue->done + middle);

		if (wqe->started && psn_distance(wqe->first_psn, psn) <= 0)
			low = middle;
		else
			high = middle;
	}
	return queue->done + low;
}
