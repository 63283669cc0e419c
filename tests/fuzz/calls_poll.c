/* SPDX-License-Identifier: BSD-2-Clause */
/* Completions, each checked against the work requests that are outstanding. */
#include <arpa/inet.h>
#include <errno.h>

#include "calls.h"
#include "net/newer_verbs.h"

#define POLL_MAX 4

/* --- what a completion must be ----------------------------------------------------- */

/* A request of RC has done what it was for; of UC it isn't known whether it arrived. */
static void check_executed(struct world *world, struct work *work, uint32_t index)
{
	const bool writes = work->opcode == IBV_WR_RDMA_WRITE ||
			    work->opcode == IBV_WR_ATOMIC_WRITE ||
			    work->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
	const uint8_t *data;

	must(!work->must_fail);
	if (work->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
	    work->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		atomic_check(world, index);
	if (work->opcode != IBV_WR_RDMA_READ && (!writes || work->qp->type == IBV_QPT_UC))
		return;
	data = arrived_data(world, index, work->length);
	must_msg(memcmp(data, arena.source + work->source, work->length) == 0 ||
			 (world->has_null && is_zero(data, work->length)),
		 "request %u, %d of %u bytes, succeeds without its data", index, work->opcode,
		 work->length);
}

/*
 * In the order of the queue: those before it are done, succeeded without a completion, or lost it.
 */
static void check_order(struct world *world, const struct work *work, const struct ibv_wc *wc,
			bool may_be_lost)
{
	/* What it has succeeded behind has succeeded. */
	const bool tells = work->is_send && wc->status == IBV_WC_SUCCESS &&
			   (work->qp->type == IBV_QPT_RC || work->qp->type == IBV_QPT_XRC_SEND);

	for (struct work *other = world->works; other != work; other++) {
		if (other->state != WORK_OUT || other->qp != work->qp || other->srq != work->srq ||
		    other->is_send != work->is_send)
			continue;
		must(may_be_lost || (work->is_send && !other->signaled));
		if (tells)
			check_executed(world, other, other - world->works);
		other->state = WORK_DONE;
	}
}

static void check_flushed(const struct fuzz_qp *qp, bool is_send)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	must(ibv_query_qp(qp->ibv, &attr, IBV_QP_STATE, &init) == 0);
	must(attr.qp_state == IBV_QPS_ERR ||
	     (is_send && (attr.qp_state == IBV_QPS_SQE || qp->recovered)));
}

static void check_sent(struct world *world, struct work *work, uint32_t index,
		       const struct ibv_wc *wc)
{
	static const enum ibv_wc_opcode opcodes[] = {
		[IBV_WR_SEND] = IBV_WC_SEND,
		[IBV_WR_SEND_WITH_IMM] = IBV_WC_SEND,
		[IBV_WR_SEND_WITH_INV] = IBV_WC_SEND,
		[IBV_WR_RDMA_WRITE] = IBV_WC_RDMA_WRITE,
		[IBV_WR_RDMA_WRITE_WITH_IMM] = IBV_WC_RDMA_WRITE,
		[IBV_WR_RDMA_READ] = IBV_WC_RDMA_READ,
		[IBV_WR_ATOMIC_CMP_AND_SWP] = IBV_WC_COMP_SWAP,
		[IBV_WR_ATOMIC_FETCH_AND_ADD] = IBV_WC_FETCH_ADD,
		[IBV_WR_LOCAL_INV] = IBV_WC_LOCAL_INV,
		[IBV_WR_BIND_MW] = IBV_WC_BIND_MW,
		[IBV_WR_ATOMIC_WRITE] = IBV_WC_ATOMIC_WRITE,
		[WR_FLUSH] = WC_FLUSH,
	};

	must(work->signaled);
	must(wc->opcode == opcodes[work->opcode]);
	if (work->opcode == IBV_WR_LOCAL_INV)
		key_ends(world, work->rkey, work->qp->ibv->context);
	check_executed(world, work, index);
}

/* Who has sent a datagram, and from where. */
static void check_origin(const struct world *world, const struct fuzz_qp *qp,
			 const struct work *sent, struct ibv_wc wc, const uint8_t *headers)
{
	struct ibv_ah_attr attr;
	struct ibv_ah *ah;
	struct ibv_grh grh;

	memcpy(&grh, headers, sizeof(grh));
	must(wc.wc_flags & IBV_WC_GRH && wc.src_qp == sent->qpn);
	must(ibv_init_ah_from_wc(qp->ibv->context, 1, &wc, &grh, &attr) == 0);
	must(memcmp(&attr.grh.dgid, &world->gids[sent->device], sizeof(attr.grh.dgid)) == 0);
	ah = ibv_create_ah_from_wc(qp->pd, &wc, &grh, 1);
	must(ah && ibv_destroy_ah(ah) == 0);
}

/* What it says of its sender, who put the index of the request there. */
static const struct work *check_immediate(struct world *world, const struct ibv_wc *wc,
					  uint32_t length)
{
	uint32_t index = ntohl(wc->imm_data);
	struct work *sent = &world->works[index];

	must(index < world->work_count && sent->is_send && sent->state != WORK_NONE);
	must(sent->opcode == IBV_WR_SEND_WITH_IMM || sent->opcode == IBV_WR_RDMA_WRITE_WITH_IMM);
	must(sent->length == length);
	must(sent->qp->type == IBV_QPT_UD || !sent->delivered);
	sent->delivered = true;
	return sent;
}

/* @sent, or NULL: what it was sent by. */
static void check_content(const struct world *world, const struct work *sent, const uint8_t *data,
			  uint32_t length)
{
	uint32_t from;

	if (world->has_null && is_zero(data, length))
		return;
	must(arena_find(data, length, &from));
	must(!sent || length < 4 || from == sent->source);
}

static void check_received(struct world *world, const struct work *work, uint32_t index,
			   const struct ibv_wc *wc)
{
	const uint8_t *data = arrived_data(world, index, wc->byte_len);
	struct fuzz_qp *qp = qp_of_number(world, wc->qp_num);
	/* It is NULL where completions stay behind their QP's end. */
	uint32_t headers = qp && qp->type == IBV_QPT_UD ? 40 : 0;
	const struct work *sent = NULL;

	must(wc->opcode == IBV_WC_RECV || wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM);
	must(wc->byte_len >= headers);
	if (wc->wc_flags & IBV_WC_WITH_INV && qp)
		key_ends(world, wc->invalidated_rkey, qp->ibv->context);
	if (wc->wc_flags & IBV_WC_WITH_IMM)
		sent = check_immediate(world, wc, wc->byte_len - headers);
	if (sent && headers)
		check_origin(world, qp, sent, *wc, data);
	if (wc->opcode != IBV_WC_RECV)
		return;
	must(wc->byte_len <= work->length);
	check_content(world, sent, data + headers, wc->byte_len - headers);
}

/*
 * The limit of an SRQ is reached when one is taken, and less than the limit are left: of those that
 * were posted after it was set one was, and what isn't known to be taken is too little already.
 */
static void note_limit(struct world *world, const struct work *work)
{
	struct fuzz_srq *srq = &world->srqs[work->srq - world->srqs];

	if (!srq->limit || work - world->works < srq->limit_since ||
	    count_out_srq(world, srq) > srq->limit)
		return;
	srq->limit = 0;
	srq->limit_reached.least++;
}

static void check_completion(struct world *world, struct fuzz_cq *cq, const struct ibv_wc *wc)
{
	struct work *work = &world->works[wc->wr_id];
	struct fuzz_qp *qp = qp_of_number(world, wc->qp_num);

	must(wc->wr_id < world->work_count);
	must_msg(work->state == WORK_OUT || work->state == WORK_ORPHAN,
		 "request %u completes in state %d", (unsigned int)wc->wr_id, work->state);
	if (work->qp) {
		must(qp == work->qp);
		must(cq->ibv == (work->is_send ? qp->send_cq : qp->recv_cq));
		check_order(world, work, wc, cq->overruns);
	} else if (!work->srq->xrcd && work->state != WORK_ORPHAN) {
		must(qp && qp->srq == work->srq->ibv && cq->ibv == qp->recv_cq);
	}
	if (work->srq && work->state == WORK_OUT)
		note_limit(world, work);
	work->state = WORK_DONE;
	if (cq->armed && cq->was_empty) {
		cq->armed = false;
		cq->due++;
	}
	if (wc->status == IBV_WC_SUCCESS && work->is_send)
		check_sent(world, work, wc->wr_id, wc);
	else if (wc->status == IBV_WC_SUCCESS)
		check_received(world, work, wc->wr_id, wc);
	else if (wc->status == IBV_WC_WR_FLUSH_ERR && work->qp)
		check_flushed(work->qp, work->is_send);
}

/* --- polling ------------------------------------------------------------------------ */

static struct ibv_wc read_extended(struct ibv_cq_ex *cq)
{
	struct ibv_wc wc = {
		.wr_id = cq->wr_id,
		.status = cq->status,
		.qp_num = ibv_wc_read_qp_num(cq),
		.vendor_err = ibv_wc_read_vendor_err(cq),
	};

	if (wc.status != IBV_WC_SUCCESS)
		return wc;
	wc.opcode = ibv_wc_read_opcode(cq);
	wc.byte_len = ibv_wc_read_byte_len(cq);
	wc.wc_flags = ibv_wc_read_wc_flags(cq);
	wc.imm_data = ibv_wc_read_imm_data(cq);
	wc.src_qp = ibv_wc_read_src_qp(cq);
	wc.slid = ibv_wc_read_slid(cq);
	wc.sl = ibv_wc_read_sl(cq);
	wc.dlid_path_bits = ibv_wc_read_dlid_path_bits(cq);
	return wc;
}

/* Some are left in the batch, sometimes. */
static unsigned int poll_extended(struct world *world, struct fuzz_cq *cq, unsigned int max)
{
	struct ibv_cq_ex *ex = cq->ex;
	struct ibv_wc wcs[POLL_MAX];
	struct ibv_poll_cq_attr attr = {};
	unsigned int count = 0;
	int result = ibv_start_poll(ex, &attr);

	must(result == 0 || result == ENOENT);
	if (result)
		return 0;
	do {
		must(ibv_wc_read_completion_ts(ex) >= cq->last_time);
		cq->last_time = ibv_wc_read_completion_ts(ex);
		wcs[count++] = read_extended(ex);
		result = count < max ? ibv_next_poll(ex) : ENOENT;
	} while (result == 0);
	must(result == ENOENT);
	ibv_end_poll(ex);
	for (unsigned int i = 0; i < count; i++)
		check_completion(world, cq, &wcs[i]);
	return count;
}

static unsigned int poll_plain(struct world *world, struct fuzz_cq *cq, unsigned int max)
{
	struct ibv_wc wcs[POLL_MAX];
	int count = ibv_poll_cq(cq->ibv, max, wcs);

	must(count >= 0 && (unsigned int)count <= max);
	for (int i = 0; i < count; i++)
		check_completion(world, cq, &wcs[i]);
	return count;
}

static unsigned int poll_some(struct world *world, struct fuzz_cq *cq, unsigned int max)
{
	struct ibv_wc none;
	unsigned int count;

	if (!max) {
		must(ibv_poll_cq(cq->ibv, 0, &none) == 0);
		return 0;
	}
	count = cq->ex ? poll_extended(world, cq, max) : poll_plain(world, cq, max);
	cq->was_empty |= count == 0;
	return count;
}

void call_poll_cq(struct world *world)
{
	struct fuzz_cq *cq = PICK(world, cqs);

	if (cq)
		poll_some(world, cq, input_u8(&world->input) % (POLL_MAX + 1));
}

unsigned int poll_all(struct world *world)
{
	unsigned int count = 0;

	for (unsigned int i = 0; i < CQS; i++)
		if (world->cqs[i].ibv)
			count += poll_some(world, &world->cqs[i], POLL_MAX);
	return count;
}

static bool waits_for_sends(const struct world *world)
{
	for (unsigned int i = 0; i < QPS; i++)
		if (world->qps[i].ibv && count_signaled(world, &world->qps[i]))
			return true;
	return false;
}

/* Until nothing comes any more for a while, which isn't the same as that nothing will. */
void call_poll_all(struct world *world)
{
	double since = seconds();

	do {
		if (poll_all(world))
			since = seconds();
	} while (waits_for_sends(world) && seconds() < since + 0.003);
}

/* --- how many there may be ------------------------------------------------------------ */

/* A receive of an SRQ may complete at any queue pair's that has it. */
static bool may_complete_in(const struct world *world, const struct work *work,
			    const struct ibv_cq *cq)
{
	if (work->state == WORK_ORPHAN)
		return work->cq == cq;
	if (work->state != WORK_OUT)
		return false;
	if (work->qp)
		return cq == (work->is_send ? work->qp->send_cq : work->qp->recv_cq);
	if (work->srq->xrcd)
		return cq == work->srq->cq;
	for (unsigned int i = 0; i < QPS; i++)
		if (world->qps[i].ibv && world->qps[i].srq == work->srq->ibv &&
		    world->qps[i].recv_cq == cq)
			return true;
	return false;
}

void note_overruns(struct world *world)
{
	for (unsigned int i = 0; i < CQS; i++) {
		struct fuzz_cq *cq = &world->cqs[i];
		int count = 0;

		if (!cq->ibv || cq->overruns)
			continue;
		for (uint32_t j = 0; j < world->work_count; j++)
			count += may_complete_in(world, &world->works[j], cq->ibv);
		cq->overruns = count > cq->ibv->cqe;
	}
}
