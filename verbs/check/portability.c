/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/check/portability.h"

#include <inttypes.h>
#include <stdio.h>

#include "emu/capacity.h"
#include "emu/objects/mr.h"
#include "net/newer_verbs.h"
#include "verbs/check/cards.h"
#include "verbs/check/report.h"
#include "verbs/check/requirements.h"
#include "verbs/context.h"

/* --- objects ------------------------------------------------------------------------------ */

static uint32_t table_count(struct table *table)
{
	uint32_t count;

	pthread_mutex_lock(&table->lock);
	count = table->count;
	pthread_mutex_unlock(&table->lock);
	return count;
}

struct ibv_pd *compared_alloc_pd(struct ibv_context *context)
{
	struct ibv_pd *pd = urxe_alloc_pd(context);

	if (cards.count && pd)
		COMPARE("ibv_alloc_pd()", {ASK_PDS, to_hca(context)->pd_count});
	return pd;
}

static struct ibv_mr *compare_mr(const char *call, struct ibv_mr *mr, unsigned int access)
{
	/* SIZE_MAX: all that there is, on demand. */
	if (cards.count && mr)
		COMPARE(call, {ASK_KEYS, table_count(&to_hca(mr->context)->keys)},
			{ASK_REGION, mr->length == SIZE_MAX ? 0 : mr->length},
			{ASK_ON_DEMAND, access & IBV_ACCESS_ON_DEMAND});
	return mr;
}

struct ibv_mr *compared_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	return compare_mr("ibv_reg_mr()", urxe_reg_mr(pd, addr, length, access), access);
}

struct ibv_mr *compared_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				    int access)
{
	return compare_mr("ibv_reg_mr_iova()", urxe_reg_mr_iova(pd, addr, length, iova, access),
			  access);
}

struct ibv_mr *compared_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				     unsigned int access)
{
	return compare_mr("ibv_reg_mr()", urxe_reg_mr_iova2(pd, addr, length, iova, access),
			  access);
}

struct ibv_mw *compared_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
	struct ibv_mw *mw = urxe_alloc_mw(pd, type);

	if (cards.count && mw)
		COMPARE("ibv_alloc_mw()",
			{ASK_WINDOW_1, type == IBV_MW_TYPE_1 ? IBV_DEVICE_MEM_WINDOW : 0},
			{ASK_WINDOW_2, type == IBV_MW_TYPE_2 ? IBV_DEVICE_MEM_WINDOW_TYPE_2B : 0});
	return mw;
}

struct ibv_dm *compared_alloc_dm(struct ibv_context *context, struct ibv_alloc_dm_attr *attr)
{
	struct ibv_dm *dm = urxe_alloc_dm(context, attr);

	if (cards.count && dm)
		COMPARE("ibv_alloc_dm()", {ASK_DEVICE_MEMORY, attr->length});
	return dm;
}

struct ibv_ah *compared_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	struct ibv_ah *ah = urxe_create_ah(pd, attr);

	if (cards.count && ah)
		COMPARE("ibv_create_ah()", {ASK_AHS, to_hca(pd->context)->ah_count});
	return ah;
}

struct ibv_xrcd *compared_open_xrcd(struct ibv_context *context, struct ibv_xrcd_init_attr *attr)
{
	struct ibv_xrcd *xrcd = urxe_open_xrcd(context, attr);

	if (cards.count && xrcd)
		COMPARE("ibv_open_xrcd()", {ASK_XRC, IBV_DEVICE_XRC});
	return xrcd;
}

/* --- queues ------------------------------------------------------------------------------- */

struct ibv_cq *compared_create_cq(struct ibv_context *context, int cqe, void *cq_context,
				  struct ibv_comp_channel *channel, int comp_vector)
{
	struct ibv_cq *cq = urxe_create_cq(context, cqe, cq_context, channel, comp_vector);

	if (cards.count && cq)
		COMPARE("ibv_create_cq()", {ASK_CQE, cqe}, {ASK_CQS, to_hca(context)->cq_count});
	return cq;
}

struct ibv_cq_ex *compared_create_cq_ex(struct ibv_context *context,
					struct ibv_cq_init_attr_ex *attr)
{
	struct ibv_cq_ex *cq = urxe_create_cq_ex(context, attr);

	if (cards.count && cq)
		COMPARE("ibv_create_cq_ex()", {ASK_CQE, attr->cqe},
			{ASK_CQS, to_hca(context)->cq_count});
	return cq;
}

int compared_resize_cq(struct ibv_cq *cq, int cqe)
{
	int error = urxe_resize_cq(cq, cqe);

	if (cards.count && error == 0)
		COMPARE("ibv_resize_cq()", {ASK_CQE, cqe}, {ASK_RESIZE, 1});
	return error;
}

static void compare_srq(const char *call, struct ibv_context *context,
			const struct ibv_srq_attr *asked)
{
	COMPARE(call, {ASK_SRQ_WR, asked->max_wr}, {ASK_SRQ_SGE, asked->max_sge},
		{ASK_SRQS, to_hca(context)->srq_count}, {ASK_SRQ, 1});
}

struct ibv_srq *compared_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	const struct ibv_srq_attr asked = attr->attr;
	struct ibv_srq *srq = urxe_create_srq(pd, attr);

	if (cards.count && srq)
		compare_srq("ibv_create_srq()", pd->context, &asked);
	return srq;
}

struct ibv_srq *compared_create_srq_ex(struct ibv_context *context,
				       struct ibv_srq_init_attr_ex *attr)
{
	const struct ibv_srq_attr asked = attr->attr;
	struct ibv_srq *srq = urxe_create_srq_ex(context, attr);

	if (cards.count && srq)
		compare_srq("ibv_create_srq_ex()", context, &asked);
	return srq;
}

/* --- the memory of send queues --------------------------------------------------------------- */

/* Each capacity by itself may be had, and not all of them together. */
static void compare_send_queue(const char *call, const struct ibv_qp_cap *asked)
{
	char text[512];
	int length = 0;

	for (unsigned int i = 0; i < cards.count && length < (int)sizeof(text); i++) {
		const struct hca_behaviour *card = &cards.profiles[i].behaviour;
		uint64_t entry = capacity_entry_bytes(card, asked);

		if (card->sq_bytes && power_of_two(entry * asked->max_send_wr) > card->sq_bytes)
			length += snprintf(
				text + length, sizeof(text) - length,
				"%s%s: entries of %" PRIu64 " bytes, of %" PRIu32 " in all",
				length ? ", " : "", cards.profiles[i].name, entry, card->sq_bytes);
	}
	if (length)
		check_report(CAUSE_NOT_PORTABLE_QUEUE, CHECK_NO_PLACES,
			     "%s: max_send_wr is %" PRIu32 "; %s", call, asked->max_send_wr, text);
}

/* --- queue pairs ---------------------------------------------------------------------------- */

static void compare_qp(const char *call, struct ibv_context *context, enum ibv_qp_type type,
		       const struct ibv_qp_cap *asked)
{
	COMPARE(call, {ASK_SEND_WR, asked->max_send_wr}, {ASK_RECV_WR, asked->max_recv_wr},
		{ASK_SEND_SGE, asked->max_send_sge}, {ASK_RECV_SGE, asked->max_recv_sge},
		{ASK_QP_TYPE, UINT64_C(1) << type}, {ASK_INLINE_DATA, asked->max_inline_data},
		{ASK_QPS, table_count(&to_hca(context)->qps)});
	compare_send_queue(call, asked);
}

static void compare_qp_ex(const char *call, const struct ibv_qp_init_attr_ex *attr)
{
	uint64_t flags =
		attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS ? attr->send_ops_flags : 0;

	COMPARE(call,
		{ASK_ATOMICS,
		 flags & (IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD)},
		{ASK_FLUSH, flags & QP_EX_WITH_FLUSH ? DEVICE_FLUSH_GLOBAL : 0},
		{ASK_WRITE_ATOMIC, flags & IBV_QP_EX_WITH_ATOMIC_WRITE ? DEVICE_ATOMIC_WRITE : 0},
		{ASK_INVALIDATE, flags & IBV_QP_EX_WITH_SEND_WITH_INV},
		{ASK_CREATE_FLAGS,
		 attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS ? attr->create_flags : 0});
}

struct ibv_qp *compared_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	const struct ibv_qp_cap asked = attr->cap;
	struct ibv_qp *qp = urxe_create_qp(pd, attr);

	if (cards.count && qp)
		compare_qp("ibv_create_qp()", pd->context, attr->qp_type, &asked);
	return qp;
}

struct ibv_qp *compared_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
	const struct ibv_qp_cap asked = attr->cap;
	struct ibv_qp *qp = urxe_create_qp_ex(context, attr);

	if (cards.count && qp) {
		compare_qp("ibv_create_qp_ex()", context, attr->qp_type, &asked);
		compare_qp_ex("ibv_create_qp_ex()", attr);
	}
	return qp;
}

int compared_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	int error = urxe_modify_qp(qp, attr, mask);

	if (cards.count && error == 0)
		COMPARE("ibv_modify_qp()",
			{ASK_INITIATOR_DEPTH,
			 mask & IBV_QP_MAX_QP_RD_ATOMIC ? attr->max_rd_atomic : 0},
			{ASK_RESPONDER_RESOURCES,
			 mask & IBV_QP_MAX_DEST_RD_ATOMIC ? attr->max_dest_rd_atomic : 0});
	return error;
}

/* --- connections and groups ------------------------------------------------------------------- */

static void compare_param(const char *call, const struct rdma_conn_param *param)
{
	COMPARE(call,
		{ASK_INITIATOR_DEPTH,
		 param->initiator_depth == RDMA_MAX_INIT_DEPTH ? 0 : param->initiator_depth},
		{ASK_RESPONDER_RESOURCES,
		 param->responder_resources == RDMA_MAX_RESP_RES ? 0 : param->responder_resources});
}

int compared_rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	int result = urxe_rdma_connect(id, param);

	if (cards.count && result == 0 && param)
		compare_param("rdma_connect()", param);
	return result;
}

int compared_rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	int result = urxe_rdma_accept(id, param);

	if (cards.count && result == 0 && param)
		compare_param("rdma_accept()", param);
	return result;
}

int compared_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	int error = urxe_attach_mcast(qp, gid, lid);

	if (cards.count && error == 0)
		COMPARE("ibv_attach_mcast()", {ASK_MULTICAST, 1});
	return error;
}

int compared_rdma_join_multicast(struct rdma_cm_id *id, struct sockaddr *address, void *context)
{
	int result = urxe_rdma_join_multicast(id, address, context);

	if (cards.count && result == 0)
		COMPARE("rdma_join_multicast()", {ASK_MULTICAST, 1});
	return result;
}

int compared_rdma_join_multicast_ex(struct rdma_cm_id *id, struct rdma_cm_join_mc_attr_ex *attr,
				    void *context)
{
	int result = urxe_rdma_join_multicast_ex(id, attr, context);

	if (cards.count && result == 0)
		COMPARE("rdma_join_multicast_ex()", {ASK_MULTICAST, 1});
	return result;
}

/* --- work requests -------------------------------------------------------------------------- */

static void compare_request(const char *call, const struct ibv_send_wr *wr)
{
	bool reads = wr->opcode == IBV_WR_RDMA_READ;

	COMPARE(call, {ASK_READ_SGE, reads ? wr->num_sge : 0},
		{ASK_MESSAGE, sge_total(wr->sg_list, wr->num_sge)},
		{ASK_ATOMICS, wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
				      wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD},
		{ASK_FLUSH, wr->opcode == WR_FLUSH ? DEVICE_FLUSH_GLOBAL : 0},
		{ASK_WRITE_ATOMIC, wr->opcode == IBV_WR_ATOMIC_WRITE ? DEVICE_ATOMIC_WRITE : 0},
		{ASK_INVALIDATE, wr->opcode == IBV_WR_SEND_WITH_INV});
}

/* Those before @end, which were posted. */
static void compare_requests(const char *call, const struct ibv_send_wr *wr,
			     const struct ibv_send_wr *end)
{
	for (; cards.count && wr != end; wr = wr->next)
		compare_request(call, wr);
}

int compared_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct ibv_send_wr *end = NULL;
	int error = urxe_post_send(qp, wr, &end);

	if (error)
		TELL_BAD(bad, end);
	compare_requests("ibv_post_send()", wr, end);
	return error;
}

/* All of them are posted, or none. */
int compared_post_built(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	int error = post_requests(qp, wr, bad, true);

	compare_requests("ibv_wr_complete()", wr, error ? wr : NULL);
	return error;
}
