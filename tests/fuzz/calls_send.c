/* SPDX-License-Identifier: BSD-2-Clause */
/* Sends: lists of them, right and wrong, and how many of a list must be accepted. */
#include <arpa/inet.h>
#include <errno.h>

#include "calls.h"
#include "net/newer_verbs.h"

enum { IS_SENT = 1, IS_READ = 2, IS_ATOMIC = 4, HAS_NO_DATA = 8, IS_EXACT = 16, NEEDS_KEY = 32 };
enum { IS_BUILT = 64 }; /* alone: ibv_post_send() doesn't take it */

#define BIT_OF(type) (1u << (type))
#define BIT(type) BIT_OF(IBV_QPT_##type)
#define RC (BIT(RC) | BIT(XRC_SEND))

/* IBA 11.4.1.1: which transport has which operation, and what becomes of its data. */
static const struct operation {
	enum ibv_wr_opcode opcode;
	unsigned int types;
	unsigned int data;
} operations[] = {
	{IBV_WR_SEND, RC | BIT(UC) | BIT(UD), IS_SENT},
	{IBV_WR_RDMA_WRITE, RC | BIT(UC), IS_SENT | NEEDS_KEY},
	{IBV_WR_SEND_WITH_IMM, RC | BIT(UC) | BIT(UD), IS_SENT},
	{IBV_WR_RDMA_READ, RC, IS_READ | NEEDS_KEY},
	{IBV_WR_RDMA_WRITE_WITH_IMM, RC | BIT(UC), IS_SENT | NEEDS_KEY},
	{IBV_WR_ATOMIC_CMP_AND_SWP, RC, IS_ATOMIC | NEEDS_KEY},
	{IBV_WR_ATOMIC_FETCH_AND_ADD, RC, IS_ATOMIC | NEEDS_KEY},
	{IBV_WR_SEND_WITH_INV, RC, IS_SENT},
	{IBV_WR_LOCAL_INV, RC | BIT(UC), HAS_NO_DATA},
	{IBV_WR_BIND_MW, RC | BIT(UC), HAS_NO_DATA},
	{IBV_WR_ATOMIC_WRITE, RC, IS_SENT | IS_EXACT | NEEDS_KEY},
	{IBV_WR_TSO, 0, 0},
	{14 /* FLUSH, which is for ibv_wr_flush() alone */, 0, 0},
	{200, 0, 0},
	{WR_FLUSH, RC, HAS_NO_DATA | NEEDS_KEY | IS_BUILT},
};

struct staged {
	struct ibv_send_wr wr;
	struct ibv_sge sges[SGES_MAX];
	const struct operation *operation;
	struct fuzz_mw *mw;
	unsigned int bound; /* 1 << index of the region */
	uint32_t index;	    /* of its work */
	uint64_t total;
	struct naming local; /* of the L_Key, which inline data hasn't */
	struct naming window;
	bool is_built;
	uint8_t placement, selectivity; /* of a FLUSH, whose length is @total */
};

static uint32_t pick_length(struct world *world, uint8_t choice)
{
	return (choice & 15) == 15 ? 0x80000008 : lengths[(choice & 15) % LENGTHS];
}

static uint32_t pick_rkey(struct world *world, struct naming *naming)
{
	uint8_t choice = input_u8(&world->input);
	struct fuzz_mw *mw = &world->mws[choice % MWS];
	struct fuzz_mr *mr = &world->mrs[choice % MRS];

	*naming = (struct naming){};
	if ((choice & 0xf0) == 0xe0)
		return pick_dead_key(world, choice & 0xf);
	if (choice & 0x40) {
		*naming = mw->naming;
		return mw->ibv ? mw->ibv->rkey : choice;
	}
	if (choice >= 0xf0 || !mr->ibv)
		return choice;
	*naming = mr->naming;
	return mr->ibv->rkey;
}

static void stage_data(struct world *world, struct staged *staged, uint8_t choice)
{
	uint32_t length = pick_length(world, choice);
	unsigned int count = choice >> 4 & 3 ? choice >> 4 & 3 : 1;
	bool reads = staged->operation->data & (IS_READ | IS_ATOMIC);
	struct work *work = &world->works[staged->index];
	uint64_t addr;
	uint32_t lkey;

	if ((choice & 0xc0) == 0xc0)
		count = choice & 1 ? 0 : SGES_MAX;
	if (count == 3) /* one in three is enough of these */
		count = 1;
	work->source = input_u8(&world->input) * 64;
	lkey = pick_lkey(world, &staged->local);
	if (staged->wr.send_flags & IBV_SEND_INLINE)
		staged->local = (struct naming){};
	if (reads)
		addr = place_of(staged->index, staged->local, &length);
	else
		addr = address_of(arena.source + work->source, staged->local);
	work->length = count ? length : 0;
	staged->total = work->length;
	cut(staged->sges, count, addr, length, lkey);
	staged->wr.sg_list = staged->sges;
	staged->wr.num_sge = count;
}

/* Of the device of @qp: another one's keys may be anything there. */
static void stage_bind(struct world *world, struct staged *staged, const struct fuzz_qp *qp)
{
	struct fuzz_mr *mr = PICK(world, mrs);
	uint8_t choice = input_u8(&world->input);

	staged->mw = PICK(world, mws);
	if (staged->mw && staged->mw->ibv->context != qp->ibv->context)
		staged->mw = NULL;
	if (mr && mr->ibv->context != qp->ibv->context)
		mr = NULL;
	if (!staged->mw)
		return;
	if (mr)
		staged->window = mr->naming;
	staged->bound = mr ? 1u << (mr - world->mrs) : 0;
	staged->wr.bind_mw.mw = staged->mw->ibv;
	staged->wr.bind_mw.rkey = ibv_inc_rkey(staged->mw->ibv->rkey);
	staged->wr.bind_mw.bind_info = (struct ibv_mw_bind_info){
		.mr = mr ? mr->ibv : NULL,
		.addr = address_of(&arena, staged->window),
		.length = choice & 2 ? 0 : sizeof(arena),
		.mw_access_flags = choice & 4 ? IBV_ACCESS_REMOTE_READ
					      : IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE,
	};
	if (!(choice & 8))
		return;
	staged->wr.bind_mw.bind_info.mw_access_flags |= IBV_ACCESS_ZERO_BASED;
	staged->window.shift = -(uint64_t)(uintptr_t)&arena;
}

/* Device memory has no place for more than a little. */
static uint64_t remote_address(const struct staged *staged, const struct work *work,
			       struct naming naming)
{
	uint32_t length = staged->total;

	if (staged->operation->data & (IS_READ | IS_BUILT))
		return address_of(arena.source + work->source, naming);
	if (staged->total > PLACE_SIZE)
		return address_of(arena.slots[staged->index], naming);
	return place_of(staged->index, naming, &length);
}

static void stage_remote(struct world *world, struct staged *staged)
{
	struct work *work = &world->works[staged->index];
	struct naming naming;
	uint32_t rkey = pick_rkey(world, &naming);

	work->rkey = rkey;
	if (staged->operation->data & IS_ATOMIC) {
		staged->wr.wr.atomic.rkey = rkey;
		atomic_stage(&staged->wr, work->source);
		staged->wr.wr.atomic.remote_addr += naming.shift + (rkey == 0xf1 ? 3 : 0);
	} else {
		staged->wr.wr.rdma.rkey = rkey;
		staged->wr.wr.rdma.remote_addr = remote_address(staged, work, naming);
	}
	if (work->opcode == IBV_WR_SEND_WITH_INV || work->opcode == IBV_WR_LOCAL_INV)
		staged->wr.invalidate_rkey = rkey;
	/* UC isn't told; and a request of no byte needs no key (IBA 9.7.4.1.5). */
	work->must_fail = staged->operation->data & NEEDS_KEY && staged->total > 0 &&
			  BIT_OF(work->qp->type) & RC && key_is_dead(world, rkey);
}

static void stage_address(struct world *world, struct staged *staged, const struct fuzz_qp *qp)
{
	struct fuzz_ah *ah = PICK(world, ahs);
	uint8_t choice = input_u8(&world->input);
	struct fuzz_qp *peer = &world->qps[choice % QPS];
	struct fuzz_srq *srq = &world->srqs[(choice >> 2) % SRQS];

	if (qp->type == IBV_QPT_UD) {
		staged->wr.wr.ud.ah = ah && choice < 0xf0 ? ah->ibv : NULL;
		staged->wr.wr.ud.remote_qpn = choice & 0x40 ? 0xffffff
					      : peer->ibv   ? peer->ibv->qp_num
							    : choice;
		staged->wr.wr.ud.remote_qkey = choice & 0x80 ? choice : CALLS_QKEY;
	} else if (qp->type == IBV_QPT_XRC_SEND && staged->wr.opcode != IBV_WR_BIND_MW) {
		staged->wr.qp_type.xrc.remote_srqn = srq->ibv ? srq->number : choice;
	}
}

static void stage_flush(struct world *world, struct staged *staged)
{
	uint8_t choice = input_u8(&world->input);

	staged->placement = choice & 7 ? choice & 7 : FLUSH_GLOBAL;
	staged->selectivity = choice >> 3 & 3;
	staged->total = lengths[(choice >> 5) % LENGTHS];
}

static void stage(struct world *world, struct staged *staged, const struct fuzz_qp *qp)
{
	uint8_t op = input_u8(&world->input), flags = input_u8(&world->input);
	uint8_t choice = input_u8(&world->input);
	const struct operation *operation = &operations[op % COUNT_OF(operations)];
	struct work *work;

	*staged = (struct staged){.operation = operation, .index = world->work_count};
	work = new_work(world, qp, NULL);
	work->is_send = true;
	work->opcode = operation->opcode;
	work->qpn = qp->ibv->qp_num;
	work->device = qp->ibv->context == world->contexts[1];
	/* FENCE to INLINE; that IP_CSUM is refused is enough once in a while. */
	staged->wr.send_flags = flags & 15;
	if ((flags & 0xf0) == 0xf0)
		staged->wr.send_flags |= IBV_SEND_IP_CSUM;
	work->signaled = qp->signal_all || flags & IBV_SEND_SIGNALED;
	staged->wr.wr_id = staged->index;
	staged->wr.opcode = operation->opcode;
	staged->wr.imm_data = htonl(staged->index);
	if (!(operation->data & HAS_NO_DATA) || (choice & 0xc0) == 0xc0)
		stage_data(world, staged, choice);
	if (operation->data & IS_BUILT)
		stage_flush(world, staged);
	if (operation->opcode == IBV_WR_BIND_MW)
		stage_bind(world, staged, qp);
	else if (qp->type != IBV_QPT_UD)
		stage_remote(world, staged);
	stage_address(world, staged, qp);
}

static bool sges_allowed(const struct staged *staged, const struct fuzz_qp *qp)
{
	unsigned int data = staged->operation->data, sges = staged->wr.num_sge;
	unsigned int max = qp->cap.max_send_sge;

	if (staged->wr.send_flags & IBV_SEND_INLINE) {
		if (!(data & IS_SENT) || staged->total > qp->cap.max_inline_data)
			return false;
		max = max ? max : 1; /* its data isn't of an SGE */
	}
	return sges <= max && !(data & HAS_NO_DATA && sges) &&
	       !(data & IS_ATOMIC && staged->total < 8) && !(data & IS_EXACT && staged->total != 8);
}

/* If there is space for it. */
static bool send_allowed(const struct staged *staged, const struct fuzz_qp *qp)
{
	if (qp->state < IBV_QPS_RTS || !(staged->operation->types & BIT_OF(qp->type)))
		return false;
	if (staged->operation->data & IS_BUILT &&
	    (!staged->is_built || staged->placement > (FLUSH_GLOBAL | FLUSH_PERSISTENT) ||
	     staged->selectivity > FLUSH_MR))
		return false;
	if (staged->wr.send_flags & IBV_SEND_IP_CSUM)
		return false;
	if (qp->type == IBV_QPT_UD && !staged->wr.wr.ud.ah)
		return false;
	if (staged->wr.opcode == IBV_WR_BIND_MW && !staged->mw)
		return false;
	return sges_allowed(staged, qp);
}

/* How many of the list must be accepted. */
static unsigned int count_allowed(const struct world *world, const struct staged *list,
				  unsigned int count, const struct fuzz_qp *qp, bool *full)
{
	unsigned int space = qp->cap.max_send_wr - count_out(world, qp, true), i;

	for (i = 0; i < count && send_allowed(&list[i], qp); i++)
		if (i == space)
			break;
	*full = i < count && send_allowed(&list[i], qp);
	return i;
}

static void accept_sends(struct world *world, const struct staged *list, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++) {
		world->works[list[i].index].state = WORK_OUT;
		if (!list[i].mw)
			continue;
		list[i].mw->bound |= list[i].bound;
		list[i].mw->naming = list[i].window;
		key_begins(world, list[i].wr.bind_mw.rkey);
	}
	note_overruns(world);
}

void call_post_send(struct world *world)
{
	struct fuzz_qp *qp = PICK(world, qps);
	unsigned int count = 1 + input_u8(&world->input) % LIST_MAX, accepted;
	struct staged list[LIST_MAX];
	struct ibv_send_wr *bad = NULL;
	bool full;
	int error;

	if (!qp || !has_space(world))
		return;
	for (unsigned int i = 0; i < count; i++) {
		stage(world, &list[i], qp);
		if (i)
			list[i - 1].wr.next = &list[i].wr;
	}
	accepted = count_allowed(world, list, count, qp, &full);
	/* Completions may come at once, in another thread; they aren't polled before. */
	error = ibv_post_send(qp->ibv, &list[0].wr, &bad);
	must_msg((error == 0) == (accepted == count), "ibv_post_send() is %d, %u of %u are good",
		 error, accepted, count);
	must(!error || bad == &list[accepted].wr);
	must(!full || error == ENOMEM);
	accept_sends(world, list, accepted);
}

/* --- ibv_wr_*() ---------------------------------------------------------------------------- */

static void build_flush(struct ibv_qp_ex *ex, const struct staged *staged)
{
	const struct ibv_send_wr *wr = &staged->wr;
	wr_flush_function *flush = (wr_flush_function *)((uint8_t *)ex + QP_EX_WR_FLUSH_OFFSET);

	(*flush)(ex, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr, staged->total, staged->placement,
		 staged->selectivity);
}

static void build_operation(struct ibv_qp_ex *ex, const struct staged *staged)
{
	const struct ibv_send_wr *wr = &staged->wr;

	if (staged->operation->data & IS_BUILT) {
		build_flush(ex, staged);
		return;
	}
	switch (wr->opcode) {
	case IBV_WR_SEND_WITH_IMM:
		ibv_wr_send_imm(ex, wr->imm_data);
		break;
	case IBV_WR_SEND_WITH_INV:
		ibv_wr_send_inv(ex, wr->invalidate_rkey);
		break;
	case IBV_WR_RDMA_WRITE:
		ibv_wr_rdma_write(ex, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr);
		break;
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		ibv_wr_rdma_write_imm(ex, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr, wr->imm_data);
		break;
	case IBV_WR_RDMA_READ:
		ibv_wr_rdma_read(ex, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr);
		break;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		ibv_wr_atomic_cmp_swp(ex, wr->wr.atomic.rkey, wr->wr.atomic.remote_addr,
				      wr->wr.atomic.compare_add, wr->wr.atomic.swap);
		break;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		ibv_wr_atomic_fetch_add(ex, wr->wr.atomic.rkey, wr->wr.atomic.remote_addr, 1);
		break;
	case IBV_WR_ATOMIC_WRITE:
		ibv_wr_atomic_write(ex, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr,
				    (void *)(uintptr_t)wr->sg_list[0].addr);
		break;
	case IBV_WR_LOCAL_INV:
		ibv_wr_local_inv(ex, wr->invalidate_rkey);
		break;
	case IBV_WR_BIND_MW:
		ibv_wr_bind_mw(ex, wr->bind_mw.mw, wr->bind_mw.rkey, &wr->bind_mw.bind_info);
		break;
	default:
		ibv_wr_send(ex);
	}
}

/* One piece has a call of its own. */
static void build_data(struct ibv_qp_ex *ex, const struct ibv_send_wr *wr)
{
	const bool alone = wr->num_sge == 1 && wr->wr_id % 2;
	const struct ibv_sge *sge = wr->sg_list;
	struct ibv_data_buf buffers[SGES_MAX];

	for (int i = 0; i < wr->num_sge; i++)
		buffers[i] = (struct ibv_data_buf){.addr = (void *)(uintptr_t)sge[i].addr,
						   .length = sge[i].length};
	if (wr->send_flags & IBV_SEND_INLINE && alone)
		ibv_wr_set_inline_data(ex, buffers[0].addr, buffers[0].length);
	else if (wr->send_flags & IBV_SEND_INLINE)
		ibv_wr_set_inline_data_list(ex, wr->num_sge, buffers);
	else if (alone)
		ibv_wr_set_sge(ex, sge->lkey, sge->addr, sge->length);
	else
		ibv_wr_set_sge_list(ex, wr->num_sge, sge);
}

static void build(struct ibv_qp_ex *ex, const struct staged *staged)
{
	const struct ibv_send_wr *wr = &staged->wr;

	ex->wr_id = wr->wr_id;
	ex->wr_flags = wr->send_flags & ~(unsigned int)IBV_SEND_INLINE;
	build_operation(ex, staged);
	if (ex->qp_base.qp_type == IBV_QPT_UD)
		ibv_wr_set_ud_addr(ex, wr->wr.ud.ah, wr->wr.ud.remote_qpn, wr->wr.ud.remote_qkey);
	if (ex->qp_base.qp_type == IBV_QPT_XRC_SEND)
		ibv_wr_set_xrc_srqn(ex, wr->qp_type.xrc.remote_srqn);
	if (wr->opcode != IBV_WR_ATOMIC_WRITE) /* its data is there */
		build_data(ex, wr);
}

/* What a builder that was asked for has a call of: others aren't there. */
static bool can_build(const struct fuzz_qp *qp, struct staged *staged)
{
	staged->is_built = true;
	if (staged->wr.opcode == IBV_WR_ATOMIC_WRITE) {
		/* It takes 8 bytes at once. */
		if (staged->total != 8 || staged->wr.num_sge != 1)
			return false;
		staged->sges[0].addr -= staged->local.shift;
		staged->local = (struct naming){};
		staged->wr.send_flags |= IBV_SEND_INLINE;
	}
	/* Inline data may be in any number of pieces. */
	if (staged->wr.send_flags & IBV_SEND_INLINE && staged->wr.num_sge > 1)
		return false;
	return staged->operation->types & BIT_OF(qp->type);
}

/* All or none; or given up. */
void call_wr(struct world *world)
{
	struct fuzz_qp *qp = PICK(world, qps);
	uint8_t choice = input_u8(&world->input);
	unsigned int staged_count = (choice & 0x7f) % (LIST_MAX + 1), count = 0, allowed;
	struct staged list[LIST_MAX];
	bool full;
	int error;

	if (!qp || !qp->ex || !has_space(world))
		return;
	ibv_wr_start(qp->ex);
	for (unsigned int i = 0; i < staged_count; i++) {
		stage(world, &list[count], qp);
		if (!can_build(qp, &list[count]))
			continue;
		build(qp->ex, &list[count++]);
	}
	if (choice & 0x80) {
		ibv_wr_abort(qp->ex);
		return;
	}
	allowed = count_allowed(world, list, count, qp, &full);
	error = ibv_wr_complete(qp->ex);
	must_msg((error == 0) == (allowed == count), "ibv_wr_complete() is %d, %u of %u are good",
		 error, allowed, count);
	if (error == 0)
		accept_sends(world, list, count);
}

/* --- ibv_bind_mw() ------------------------------------------------------------------------- */

void call_bind_mw(struct world *world)
{
	struct fuzz_qp *qp = PICK(world, qps);
	uint8_t flags = input_u8(&world->input);
	struct staged staged = {.index = world->work_count};
	struct ibv_mw_bind bind;
	struct work *work;
	bool full;

	if (!qp || !has_space(world))
		return;
	stage_bind(world, &staged, qp);
	if (!staged.mw)
		return;
	full = count_out(world, qp, true) >= qp->cap.max_send_wr;
	work = new_work(world, qp, NULL);
	work->is_send = true;
	work->signaled = qp->signal_all || flags & IBV_SEND_SIGNALED;
	work->opcode = IBV_WR_BIND_MW;
	bind = (struct ibv_mw_bind){.wr_id = staged.index,
				    .send_flags = flags & IBV_SEND_SIGNALED,
				    .bind_info = staged.wr.bind_mw.bind_info};
	if (ibv_bind_mw(qp->ibv, staged.mw->ibv, &bind) != 0)
		return;
	must(!full && qp->state >= IBV_QPS_RTS && staged.mw->ibv->type == IBV_MW_TYPE_1);
	accept_sends(world, &staged, 1);
}
