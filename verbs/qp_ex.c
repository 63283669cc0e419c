/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Work requests are staged here, one per builder call, from ibv_wr_start() to
 * ibv_wr_complete(), which posts all of them or none. builder.lock is held
 * between the two: threads that build on one QP take turns (ibv_wr_post(3)).
 *
 * The first problem of a batch is remembered and returned by ibv_wr_complete();
 * the calls after it are ignored.
 */
#include "verbs/qp_ex.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "emu/capacity.h"
#include "emu/transport/request_kind.h"
#include "net/newer_verbs.h"
#include "net/wire/wire.h"
#include "verbs/check/checked.h"
#include "verbs/context.h"
#include "verbs/inherited.h"

#define FIRST_CAPACITY 16

struct builder {
	pthread_mutex_t lock;
	struct flush_wr *wr;  /* of which all but FLUSHes use only the ibv_send_wr */
	struct ibv_sge *sges; /* max_sge for each of wr */
	uint8_t *inline_data; /* max_inline for each of wr */
	uint32_t count, capacity;
	uint32_t max_wr, max_sge, max_inline;
	int error;
};

static struct builder *builder_of(struct ibv_qp_ex *ex)
{
	return ((struct qp_extra *)((struct qp *)ex)->verbs)->builder;
}

/* The first problem of a batch, which ibv_wr_complete() will return. */
#define BUILDER_FAIL(ex, failure, cause, format, ...)                                              \
	do {                                                                                       \
		struct builder *failing = builder_of(ex);                                          \
                                                                                                   \
		if (!failing->error)                                                               \
			failing->error = refuse(failure, CAUSE_##cause,                            \
						"ibv_wr_*(), QP 0x%x, "                            \
						"wr_id %" PRIu64 ": " format,                      \
						(ex)->qp_base.qp_num, (ex)->wr_id, ##__VA_ARGS__); \
	} while (0)

/* --- staging -------------------------------------------------------------------- */

static int resize(void *pointer, size_t count, size_t size)
{
	void **memory = pointer;
	void *larger = size ? reallocarray(*memory, count, size) : *memory;

	if (size && !larger)
		return ENOMEM;
	*memory = larger;
	return 0;
}

static void reserve(struct ibv_qp_ex *ex)
{
	struct builder *builder = builder_of(ex);
	uint32_t capacity = builder->capacity ? 2 * builder->capacity : FIRST_CAPACITY;

	if (builder->error || builder->count < builder->capacity)
		return;
	if (builder->count >= builder->max_wr) {
		BUILDER_FAIL(ex, ENOMEM, SEND_QUEUE_FULL,
			     "%u work requests since ibv_wr_start(); max_send_wr is %u",
			     builder->count, builder->max_wr);
		return;
	}
	if (resize(&builder->wr, capacity, sizeof(*builder->wr)) ||
	    resize(&builder->sges, capacity, builder->max_sge * sizeof(*builder->sges)) ||
	    resize(&builder->inline_data, capacity, builder->max_inline))
		BUILDER_FAIL(ex, ENOMEM, OUT_OF_MEMORY, "for %u work requests", capacity);
	else
		builder->capacity = capacity;
}

/* A new work request, or NULL when the batch has failed already. */
static struct ibv_send_wr *builder_append(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode)
{
	struct builder *builder = builder_of(ex);
	struct ibv_send_wr *wr;

	reserve(ex);
	if (builder->error)
		return NULL;
	wr = &builder->wr[builder->count++].wr;
	*wr = (struct ibv_send_wr){
		.wr_id = ex->wr_id,
		.opcode = opcode,
		.send_flags = ex->wr_flags & ~(unsigned int)IBV_SEND_INLINE,
	};
	return wr;
}

/* The one that the setters are about. */
static struct ibv_send_wr *current(struct ibv_qp_ex *ex)
{
	struct builder *builder = builder_of(ex);

	if (builder->error)
		return NULL;
	if (builder->count == 0) {
		BUILDER_FAIL(ex, EINVAL, POST_NO_OPERATION, "no operation since ibv_wr_start()");
		return NULL;
	}
	return &builder->wr[builder->count - 1].wr;
}

/* --- operations ------------------------------------------------------------------ */

static void wr_send(struct ibv_qp_ex *ex)
{
	builder_append(ex, IBV_WR_SEND);
}

static void wr_send_imm(struct ibv_qp_ex *ex, __be32 imm_data)
{
	struct ibv_send_wr *wr = builder_append(ex, IBV_WR_SEND_WITH_IMM);

	if (wr)
		wr->imm_data = imm_data;
}

static void wr_send_inv(struct ibv_qp_ex *ex, uint32_t invalidate_rkey)
{
	struct ibv_send_wr *wr = builder_append(ex, IBV_WR_SEND_WITH_INV);

	if (wr)
		wr->invalidate_rkey = invalidate_rkey;
}

static struct ibv_send_wr *append_rdma(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode,
				       uint32_t rkey, uint64_t remote_addr)
{
	struct ibv_send_wr *wr = builder_append(ex, opcode);

	if (wr) {
		wr->wr.rdma.rkey = rkey;
		wr->wr.rdma.remote_addr = remote_addr;
	}
	return wr;
}

static void wr_rdma_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr)
{
	append_rdma(ex, IBV_WR_RDMA_WRITE, rkey, remote_addr);
}

static void wr_rdma_write_imm(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr,
			      __be32 imm_data)
{
	struct ibv_send_wr *wr = append_rdma(ex, IBV_WR_RDMA_WRITE_WITH_IMM, rkey, remote_addr);

	if (wr)
		wr->imm_data = imm_data;
}

static void wr_rdma_read(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr)
{
	append_rdma(ex, IBV_WR_RDMA_READ, rkey, remote_addr);
}

static void append_atomic(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode, uint32_t rkey,
			  uint64_t remote_addr, uint64_t compare_add, uint64_t swap)
{
	struct ibv_send_wr *wr = builder_append(ex, opcode);

	if (!wr)
		return;
	wr->wr.atomic.rkey = rkey;
	wr->wr.atomic.remote_addr = remote_addr;
	wr->wr.atomic.compare_add = compare_add;
	wr->wr.atomic.swap = swap;
}

static void wr_atomic_cmp_swp(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr,
			      uint64_t compare, uint64_t swap)
{
	append_atomic(ex, IBV_WR_ATOMIC_CMP_AND_SWP, rkey, remote_addr, compare, swap);
}

static void wr_atomic_fetch_add(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr,
				uint64_t add)
{
	append_atomic(ex, IBV_WR_ATOMIC_FETCH_AND_ADD, rkey, remote_addr, add, 0);
}

static void wr_local_inv(struct ibv_qp_ex *ex, uint32_t invalidate_rkey)
{
	struct ibv_send_wr *wr = builder_append(ex, IBV_WR_LOCAL_INV);

	if (wr)
		wr->invalidate_rkey = invalidate_rkey;
}

static void wr_bind_mw(struct ibv_qp_ex *ex, struct ibv_mw *mw, uint32_t rkey,
		       const struct ibv_mw_bind_info *bind_info)
{
	struct ibv_send_wr *wr = builder_append(ex, IBV_WR_BIND_MW);

	if (!wr)
		return;
	wr->bind_mw.mw = mw;
	wr->bind_mw.rkey = rkey;
	wr->bind_mw.bind_info = *bind_info;
}

/* --- setters ---------------------------------------------------------------------- */

static void wr_set_ud_addr(struct ibv_qp_ex *ex, struct ibv_ah *ah, uint32_t remote_qpn,
			   uint32_t remote_qkey)
{
	struct ibv_send_wr *wr = current(ex);

	if (!wr)
		return;
	wr->wr.ud.ah = ah;
	wr->wr.ud.remote_qpn = remote_qpn;
	wr->wr.ud.remote_qkey = remote_qkey;
}

static void wr_set_xrc_srqn(struct ibv_qp_ex *ex, uint32_t remote_srqn)
{
	struct ibv_send_wr *wr = current(ex);

	if (wr)
		wr->qp_type.xrc.remote_srqn = remote_srqn;
}

/* Where the SGEs of work request @index lie: fixed only once the batch is complete. */
static struct ibv_sge *sges_of(struct builder *builder, uint32_t index)
{
	return builder->sges + (size_t)index * builder->max_sge;
}

static uint8_t *inline_data_of(struct builder *builder, uint32_t index)
{
	return builder->inline_data + (size_t)index * builder->max_inline;
}

static void wr_set_sge_list(struct ibv_qp_ex *ex, size_t num_sge, const struct ibv_sge *sg_list)
{
	struct builder *builder = builder_of(ex);
	struct ibv_send_wr *wr = current(ex);

	if (!wr)
		return;
	if (num_sge > builder->max_sge || (num_sge && !sg_list)) {
		BUILDER_FAIL(ex, EINVAL, POST_SGES, "num_sge is %zu%s, the queue pair takes %u",
			     num_sge, sge_list_missing(sg_list, num_sge), builder->max_sge);
		return;
	}
	if (num_sge)
		memcpy(sges_of(builder, builder->count - 1), sg_list, num_sge * sizeof(*sg_list));
	wr->num_sge = num_sge;
	wr->send_flags &= ~(unsigned int)IBV_SEND_INLINE;
}

static void wr_set_sge(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t addr, uint32_t length)
{
	const struct ibv_sge sge = {.addr = addr, .length = length, .lkey = lkey};

	wr_set_sge_list(ex, 1, &sge);
}

/* The data is copied now, so that the caller may reuse its buffers at once. */
static void wr_set_inline_data_list(struct ibv_qp_ex *ex, size_t num_buf,
				    const struct ibv_data_buf *buf_list)
{
	struct builder *builder = builder_of(ex);
	struct ibv_send_wr *wr = current(ex);
	uint8_t *data;
	size_t length = 0;

	if (!wr)
		return;
	data = inline_data_of(builder, builder->count - 1);
	for (size_t i = 0; i < num_buf; i++) {
		if (buf_list[i].length > builder->max_inline - length) {
			BUILDER_FAIL(ex, EINVAL, POST_INLINE,
				     "%zu bytes inline and more, the queue pair takes %u",
				     length + buf_list[i].length, builder->max_inline);
			return;
		}
		if (buf_list[i].length)
			memcpy(data + length, buf_list[i].addr, buf_list[i].length);
		length += buf_list[i].length;
	}
	wr->num_sge = length ? 1 : 0;
	wr->send_flags |= IBV_SEND_INLINE;
	if (length)
		sges_of(builder, builder->count - 1)->length = length;
}

static void wr_set_inline_data(struct ibv_qp_ex *ex, void *addr, size_t length)
{
	const struct ibv_data_buf buffer = {.addr = addr, .length = length};

	wr_set_inline_data_list(ex, 1, &buffer);
}

/* --- Annex A19 ------------------------------------------------------------------------ */

/* The data is taken now, as inline data is. */
static void wr_atomic_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr,
			    const void *atomic_wr)
{
	const struct ibv_data_buf value = {.addr = (void *)atomic_wr, .length = ATOMIC_LENGTH};

	append_rdma(ex, IBV_WR_ATOMIC_WRITE, rkey, remote_addr);
	wr_set_inline_data_list(ex, 1, &value);
}

static void wr_flush(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr, size_t length,
		     uint8_t type, uint8_t level)
{
	struct ibv_send_wr *wr = append_rdma(ex, WR_FLUSH, rkey, remote_addr);

	if (!wr)
		return;
	if (!type || type & ~(FLUSH_GLOBAL | FLUSH_PERSISTENT) || level > FLUSH_MR) {
		BUILDER_FAIL(ex, EINVAL, POST_FLUSH, "type is 0x%x, level is %u", type, level);
		return;
	}
	((struct flush_wr *)wr)->flush = (struct flush){
		/* A whole region has no length. */
		.length = level == FLUSH_MR ? 0 : length,
		.placement = type,
		.selectivity = level,
	};
}

/* --- start, complete, abort ---------------------------------------------------------- */

static void wr_start(struct ibv_qp_ex *ex)
{
	struct builder *builder = builder_of(ex);

	if (context_is_inherited(ex->qp_base.context)) {
		report_inherited("ibv_wr_start()");
		builder->error = EOPNOTSUPP;
		return;
	}
	pthread_mutex_lock(&builder->lock);
	builder->count = 0;
	builder->error = 0;
}

static void link_up(struct builder *builder)
{
	for (uint32_t i = 0; i < builder->count; i++) {
		struct ibv_send_wr *wr = &builder->wr[i].wr;

		wr->next = i + 1 < builder->count ? &builder->wr[i + 1].wr : NULL;
		wr->sg_list = sges_of(builder, i);
		if ((wr->send_flags & IBV_SEND_INLINE) && wr->num_sge)
			wr->sg_list->addr = (uintptr_t)inline_data_of(builder, i);
	}
}

static int post_built(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	if (unlikely(hooks_on()))
		return checked_post_built(qp, wr, bad);
	return post_requests(qp, wr, bad, true);
}

static int wr_complete(struct ibv_qp_ex *ex)
{
	struct builder *builder = builder_of(ex);
	struct qp *qp = (struct qp *)ex;
	struct ibv_send_wr *bad;
	int error = builder->error;

	if (context_is_inherited(ex->qp_base.context))
		return EOPNOTSUPP;
	if (!error)
		error = hook_refusal(FAULT_CALL_ibv_wr_complete);
	if (!error && builder->count) {
		link_up(builder);
		error = post_built(&ex->qp_base, &builder->wr->wr, &bad);
	}
	pthread_mutex_unlock(&builder->lock);
	deliver(qp->hca);
	return error;
}

static void wr_abort(struct ibv_qp_ex *ex)
{
	if (!context_is_inherited(ex->qp_base.context))
		pthread_mutex_unlock(&builder_of(ex)->lock);
}

/* --- creation ------------------------------------------------------------------------- */

bool qp_ex_supports(const struct hca *hca, enum ibv_qp_type type, uint64_t send_ops_flags)
{
	const struct qp_type *known = qp_type_find(type);
	uint32_t lacking = capacity_lacking_operations(hca);

	return known && !(send_ops_flags & ~request_kind_send_ops(known, lacking));
}

int qp_ex_init(struct qp *qp, uint64_t send_ops_flags)
{
	struct builder *builder = calloc(1, sizeof(*builder));
	struct ibv_qp_ex *ex = &qp->ex;

	if (!builder)
		return ENOMEM;
	pthread_mutex_init(&builder->lock, NULL);
	builder->max_wr = qp->cap.max_send_wr;
	builder->max_inline = qp->cap.max_inline_data;
	/* Inline data is one SGE, on a queue that may have none. */
	builder->max_sge = qp->cap.max_send_sge ? qp->cap.max_send_sge : 1;
	((struct qp_extra *)qp->verbs)->builder = builder;

	ex->comp_mask = 0;
	ex->wr_start = wr_start;
	ex->wr_complete = wr_complete;
	ex->wr_abort = wr_abort;
	ex->wr_set_ud_addr = wr_set_ud_addr;
	ex->wr_set_xrc_srqn = wr_set_xrc_srqn;
	ex->wr_set_sge = wr_set_sge;
	ex->wr_set_sge_list = wr_set_sge_list;
	ex->wr_set_inline_data = wr_set_inline_data;
	ex->wr_set_inline_data_list = wr_set_inline_data_list;
#define OFFER(flag, name)                                                                          \
	if (send_ops_flags & IBV_QP_EX_WITH_##flag)                                                \
	ex->name = name
	OFFER(SEND, wr_send);
	OFFER(SEND_WITH_IMM, wr_send_imm);
	OFFER(SEND_WITH_INV, wr_send_inv);
	OFFER(LOCAL_INV, wr_local_inv);
	OFFER(BIND_MW, wr_bind_mw);
	OFFER(RDMA_WRITE, wr_rdma_write);
	OFFER(RDMA_WRITE_WITH_IMM, wr_rdma_write_imm);
	OFFER(RDMA_READ, wr_rdma_read);
	OFFER(ATOMIC_CMP_AND_SWP, wr_atomic_cmp_swp);
	OFFER(ATOMIC_FETCH_AND_ADD, wr_atomic_fetch_add);
	OFFER(ATOMIC_WRITE, wr_atomic_write);
#undef OFFER
	if (send_ops_flags & QP_EX_WITH_FLUSH)
		*(wr_flush_function *)(qp->newest + QP_EX_WR_FLUSH_OFFSET) = wr_flush;
	return 0;
}

void qp_ex_destroy(struct builder *builder)
{
	if (!builder)
		return;
	pthread_mutex_destroy(&builder->lock);
	free(builder->wr);
	free(builder->sges);
	free(builder->inline_data);
	free(builder);
}
