/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Extended polling hands out one completion at a time: it lies in the CQ's
 * extra from start_poll() or next_poll() to the next of them. One thread polls
 * at a time: extra.poll_lock is held from a successful start_poll() to
 * end_poll(), unless the application promised to do that itself.
 */
#include "verbs/cq_ex.h"

#include "verbs/context.h"

static struct cq_extra *cq_extra_of(struct ibv_cq_ex *ex)
{
	return ((struct cq *)ex)->verbs;
}

static const struct ibv_wc *current_wc(struct ibv_cq_ex *ex)
{
	return &cq_extra_of(ex)->current.wc;
}

static int show(struct ibv_cq_ex *ex, int count)
{
	if (count < 1)
		return ENOENT;
	ex->status = current_wc(ex)->status;
	ex->wr_id = current_wc(ex)->wr_id;
	return 0;
}

static void unlock(struct cq_extra *extra)
{
	if (!extra->single_threaded)
		pthread_mutex_unlock(&extra->poll_lock);
}

static int start_poll(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr)
{
	struct cq_extra *extra = cq_extra_of(ex);
	int result;

	if (attr->comp_mask)
		return EINVAL;
	if (context_is_inherited(ex->context))
		return ENOENT;
	if (!extra->single_threaded)
		pthread_mutex_lock(&extra->poll_lock);
	result = show(ex, cq_take((struct cq *)ex, &extra->current, 1));
	if (result)
		unlock(extra);
	return result;
}

static int next_poll(struct ibv_cq_ex *ex)
{
	return show(ex, cq_poll((struct cq *)ex, &cq_extra_of(ex)->current, 1));
}

static void end_poll(struct ibv_cq_ex *ex)
{
	unlock(cq_extra_of(ex));
}

/* --- fields of the current completion ----------------------------------------- */

#define READER(type, name, field)                                                                  \
	static type read_##name(struct ibv_cq_ex *ex)                                              \
	{                                                                                          \
		return current_wc(ex)->field;                                                      \
	}

READER(enum ibv_wc_opcode, opcode, opcode)
READER(uint32_t, vendor_err, vendor_err)
READER(uint32_t, byte_len, byte_len)
READER(__be32, imm_data, imm_data)
READER(uint32_t, qp_num, qp_num)
READER(uint32_t, src_qp, src_qp)
READER(unsigned int, wc_flags, wc_flags)
READER(uint32_t, slid, slid)
READER(uint8_t, sl, sl)
READER(uint8_t, dlid_path_bits, dlid_path_bits)

void cq_ex_init(struct cq *cq, uint64_t wc_flags)
{
	struct ibv_cq_ex *ex = &cq->ex;

	ex->start_poll = start_poll;
	ex->next_poll = next_poll;
	ex->end_poll = end_poll;
	ex->read_opcode = read_opcode;
	ex->read_vendor_err = read_vendor_err;
	ex->read_wc_flags = read_wc_flags;
#define OFFER(flag, name)                                                                          \
	if (wc_flags & (flag))                                                                     \
	ex->read_##name = read_##name
	OFFER(IBV_WC_EX_WITH_BYTE_LEN, byte_len);
	OFFER(IBV_WC_EX_WITH_IMM, imm_data);
	OFFER(IBV_WC_EX_WITH_QP_NUM, qp_num);
	OFFER(IBV_WC_EX_WITH_SRC_QP, src_qp);
	OFFER(IBV_WC_EX_WITH_SLID, slid);
	OFFER(IBV_WC_EX_WITH_SL, sl);
	OFFER(IBV_WC_EX_WITH_DLID_PATH_BITS, dlid_path_bits);
#undef OFFER
}
