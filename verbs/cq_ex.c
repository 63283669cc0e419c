/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Extended polling hands out one completion at a time: it lies in the CQ's
 * extra from start_poll() or next_poll() to the next of them. One thread polls
 * at a time: extra.poll_lock is held from a successful start_poll() to
 * end_poll(), unless the application promised to do that itself.
 */
#include "verbs/cq_ex.h"

#include <time.h>

#include "net/clock.h"
#include "verbs/context.h"
#include "verbs/inherited.h"

#define WALL_CLOCK_PRECISION 5000 /* ns */
#define WALL_CLOCK_TRIES 1000	  /* for the first sample; any later one may be left out */

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

/*
 * How far the wall clock is ahead of the device's. False when another thread had the CPU in
 * between. The two run alike until an administrator sets the wall clock, so a difference is one of
 * a sample, not of theirs, unless it is large: and durations are the same by either clock.
 */
static bool sample_wall_clock(struct cq_extra *extra)
{
	uint64_t before = clock_now(), after;
	struct timespec wall;
	int64_t offset;

	clock_gettime(CLOCK_REALTIME, &wall);
	after = clock_now();
	if (after - before > WALL_CLOCK_PRECISION)
		return false;
	offset = wall.tv_sec * NS_PER_S + wall.tv_nsec - (int64_t)(before + after) / 2;
	if (llabs(offset - extra->wall_offset) > 10 * WALL_CLOCK_PRECISION)
		extra->wall_offset = offset;
	return true;
}

static int start_poll(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr)
{
	struct cq_extra *extra = cq_extra_of(ex);
	int result;

	if (attr->comp_mask)
		return refuse(EINVAL, CAUSE_BITS_UNKNOWN, "ibv_start_poll(): comp_mask is 0x%x",
			      attr->comp_mask);
	if (context_is_inherited(ex->context))
		return ENOENT;
	result = hook_refusal(FAULT_CALL_ibv_start_poll);
	if (result)
		return result;
	if (!extra->single_threaded)
		pthread_mutex_lock(&extra->poll_lock);
	result = show(ex, cq_take((struct cq *)ex, &extra->current, 1));
	if (result)
		unlock(extra);
	else if (ex->read_completion_wallclock_ns)
		sample_wall_clock(extra);
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

/* The device's clock is the monotonic one, in nanoseconds (verbs/query.c). */
static uint64_t read_completion_ts(struct ibv_cq_ex *ex)
{
	return cq_extra_of(ex)->current.timestamp;
}

static uint64_t read_completion_wallclock_ns(struct ibv_cq_ex *ex)
{
	const struct cq_extra *extra = cq_extra_of(ex);

	return extra->current.timestamp + extra->wall_offset;
}

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
	OFFER(IBV_WC_EX_WITH_COMPLETION_TIMESTAMP, completion_ts);
	OFFER(IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK, completion_wallclock_ns);
#undef OFFER
	cq->timestamped = wc_flags & CQ_EX_TIMESTAMPS;
	if (wc_flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)
		for (int i = 0; i < WALL_CLOCK_TRIES && !sample_wall_clock(cq->verbs); i++)
			;
}
