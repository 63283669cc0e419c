/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Objects but for regions and queue pairs. A call that fails says why, and changes nothing that is
 * known here.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "calls.h"

/* Whether any of world.@array has @object as its @field. */
#define USED_BY(world, array, field, object)                                                       \
	({                                                                                         \
		bool used = false;                                                                 \
                                                                                                   \
		for (size_t i_ = 0; i_ < COUNT_OF((world)->array); i_++)                           \
			used |= (world)->array[i_].ibv && (world)->array[i_].field == (object);    \
		used;                                                                              \
	})

/* Each destroys what it is given, if that isn't in use. */

static void destroy_pd(struct world *world, struct fuzz_pd *pd)
{
	bool busy = USED_BY(world, mrs, pd, pd->ibv) || USED_BY(world, mws, pd, pd->ibv) ||
		    USED_BY(world, ahs, pd, pd->ibv) || USED_BY(world, srqs, pd, pd->ibv) ||
		    USED_BY(world, qps, pd, pd->ibv) || USED_BY(world, pds, parent, pd->ibv);

	must_destroy(ibv_dealloc_pd(pd->ibv), busy, "ibv_dealloc_pd()");
	if (!busy)
		*pd = (struct fuzz_pd){};
}

static void dealloc_td(struct world *world, struct fuzz_td *td)
{
	bool busy = USED_BY(world, pds, td, td->ibv);

	must_destroy(ibv_dealloc_td(td->ibv), busy, "ibv_dealloc_td()");
	if (!busy)
		*td = (struct fuzz_td){};
}

static void dealloc_mw(struct world *world, struct fuzz_mw *mw)
{
	const struct ibv_context *context = mw->ibv->context;
	const uint32_t rkey = mw->ibv->rkey;

	must_destroy(ibv_dealloc_mw(mw->ibv), false, "ibv_dealloc_mw()");
	*mw = (struct fuzz_mw){};
	key_ends(world, rkey, context);
}

static void destroy_ah(struct world *world, struct fuzz_ah *ah)
{
	must_destroy(ibv_destroy_ah(ah->ibv), false, "ibv_destroy_ah()");
	*ah = (struct fuzz_ah){};
}

static void close_xrcd(struct world *world, struct fuzz_xrcd *xrcd)
{
	bool busy = USED_BY(world, srqs, xrcd, xrcd->ibv) || USED_BY(world, qps, xrcd, xrcd->ibv) ||
		    USED_BY(world, handles, xrcd, xrcd->ibv);

	must_destroy(ibv_close_xrcd(xrcd->ibv), busy, "ibv_close_xrcd()");
	if (!busy)
		*xrcd = (struct fuzz_xrcd){};
}

static void destroy_channel(struct world *world, struct fuzz_channel *channel)
{
	bool busy = USED_BY(world, cqs, channel, channel->ibv);

	must_destroy(ibv_destroy_comp_channel(channel->ibv), busy, "ibv_destroy_comp_channel()");
	if (!busy)
		*channel = (struct fuzz_channel){};
}

/* It waits until its events are acknowledged. */
static void destroy_cq(struct world *world, struct fuzz_cq *cq)
{
	bool busy = USED_BY(world, srqs, cq, cq->ibv) || USED_BY(world, qps, send_cq, cq->ibv) ||
		    USED_BY(world, qps, recv_cq, cq->ibv);

	acknowledge_cq(cq);
	call_ack_async_events(world);
	must_destroy(ibv_destroy_cq(cq->ibv), busy, "ibv_destroy_cq()");
	if (busy)
		return;
	for (uint32_t i = 0; i < world->work_count; i++)
		if (world->works[i].state == WORK_ORPHAN && world->works[i].cq == cq->ibv)
			world->works[i].state = WORK_GONE;
	*cq = (struct fuzz_cq){};
}

static void destroy_srq(struct world *world, struct fuzz_srq *srq)
{
	bool busy = USED_BY(world, qps, srq, srq->ibv);

	call_ack_async_events(world);
	must_destroy(ibv_destroy_srq(srq->ibv), busy, "ibv_destroy_srq()");
	if (busy)
		return;
	forget_works(world, NULL, srq);
	*srq = (struct fuzz_srq){};
}

bool objects_destroy(struct world *world)
{
	bool left = false;

#define EACH(array, function)                                                                      \
	for (size_t i_ = 0; i_ < COUNT_OF(world->array); i_++) {                                   \
		if (world->array[i_].ibv)                                                          \
			function(world, &world->array[i_]);                                        \
		left |= world->array[i_].ibv != NULL;                                              \
	}
	EACH(pds, destroy_pd);
	EACH(xrcds, close_xrcd);
	EACH(channels, destroy_channel);
	EACH(cqs, destroy_cq);
	EACH(tds, dealloc_td);
	EACH(dms, free_dm);
	EACH(mrs, dereg_mr);
	EACH(srqs, destroy_srq);
	EACH(mws, dealloc_mw);
	EACH(ahs, destroy_ah);
	EACH(imports, unimport_mr);
#undef EACH
	return left;
}

#define DESTROYS(call, type, array, function)                                                      \
	void call(struct world *world)                                                             \
	{                                                                                          \
		struct type *object = PICK(world, array);                                          \
                                                                                                   \
		if (object)                                                                        \
			function(world, object);                                                   \
	}
DESTROYS(call_dealloc_pd, fuzz_pd, pds, destroy_pd)
DESTROYS(call_dealloc_td, fuzz_td, tds, dealloc_td)
DESTROYS(call_dealloc_mw, fuzz_mw, mws, dealloc_mw)
DESTROYS(call_destroy_ah, fuzz_ah, ahs, destroy_ah)
DESTROYS(call_close_xrcd, fuzz_xrcd, xrcds, close_xrcd)
DESTROYS(call_destroy_channel, fuzz_channel, channels, destroy_channel)
DESTROYS(call_destroy_cq, fuzz_cq, cqs, destroy_cq)
DESTROYS(call_destroy_srq, fuzz_srq, srqs, destroy_srq)

/* --- what makes them ------------------------------------------------------------------ */

struct ibv_context *pick_context(struct world *world)
{
	return world->contexts[input_u8(&world->input) & 1];
}

void call_alloc_pd(struct world *world)
{
	struct fuzz_pd *pd = UNUSED(world, pds);
	struct ibv_context *context = pick_context(world);

	if (pd)
		must(pd->ibv = ibv_alloc_pd(context));
}

void call_alloc_parent_domain(struct world *world)
{
	struct fuzz_pd *domain = UNUSED(world, pds), *pd = PICK(world, pds);
	struct ibv_parent_domain_init_attr attr = {.pd = pd ? pd->ibv : NULL};

	if (!domain || !pd)
		return;
	domain->ibv = ibv_alloc_parent_domain(pd->ibv->context, &attr);
	must((domain->ibv != NULL) == !pd->parent);
	domain->parent = domain->ibv ? pd->ibv : NULL;
}

void call_alloc_td(struct world *world)
{
	struct fuzz_td *td = UNUSED(world, tds);
	struct ibv_context *context = pick_context(world);
	struct ibv_td_init_attr attr = {.comp_mask = input_u8(&world->input) == 1};

	if (!td)
		return;
	td->ibv = ibv_alloc_td(context, &attr);
	must((td->ibv != NULL) == !attr.comp_mask);
}

/* A parent domain that has a thread domain. */
void call_alloc_threads_domain(struct world *world)
{
	struct fuzz_pd *domain = UNUSED(world, pds), *pd = PICK(world, pds);
	struct fuzz_td *td = PICK(world, tds);
	struct ibv_parent_domain_init_attr attr = {.pd = pd ? pd->ibv : NULL,
						   .td = td ? td->ibv : NULL};

	if (!domain || !pd)
		return;
	domain->ibv = ibv_alloc_parent_domain(pd->ibv->context, &attr);
	must((domain->ibv != NULL) == !pd->parent);
	if (!domain->ibv)
		return;
	domain->parent = pd->ibv;
	domain->td = attr.td;
}

void call_alloc_mw(struct world *world)
{
	struct fuzz_mw *mw = UNUSED(world, mws);
	struct fuzz_pd *pd = PICK(world, pds);
	uint8_t type = input_u8(&world->input) & 3;

	if (!mw || !pd)
		return;
	mw->ibv = ibv_alloc_mw(pd->ibv, type);
	mw->pd = pd->ibv;
	must((mw->ibv != NULL) == (type == IBV_MW_TYPE_1 || type == IBV_MW_TYPE_2));
	/* Bound it has another one. */
	if (mw->ibv)
		key_ends(world, mw->ibv->rkey, mw->ibv->context);
}

void call_create_ah(struct world *world)
{
	struct fuzz_ah *ah = UNUSED(world, ahs);
	struct fuzz_pd *pd = PICK(world, pds);
	uint8_t choice = input_u8(&world->input);
	struct ibv_ah_attr attr = {
		.is_global = (choice & 0x70) != 0x10,
		.port_num = (choice & 0x70) == 0x20 ? 2 : 1,
		.grh = {.dgid = world->gids[choice & 1],
			.sgid_index = (choice & 0x70) == 0x30 ? 77 : 0,
			.hop_limit = 1},
	};

	if (!ah || !pd)
		return;
	if (choice & 2)
		attr.grh.dgid =
			(union ibv_gid){.raw = {[10] = 0xff, 0xff, 224, 86, 0, choice >> 2 & 1}};
	ah->ibv = ibv_create_ah(pd->ibv, &attr);
	ah->pd = pd->ibv;
	must(ah->ibv || errno);
}

void call_open_xrcd(struct world *world)
{
	struct fuzz_xrcd *xrcd = UNUSED(world, xrcds);
	struct ibv_context *context = pick_context(world);
	uint8_t choice = input_u8(&world->input);
	struct ibv_xrcd_init_attr attr = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = choice & 16 ? -2 : -1,
		.oflags = choice & 32 ? 0 : O_CREAT,
	};

	if (xrcd)
		xrcd->ibv = ibv_open_xrcd(context, &attr);
}

void call_create_channel(struct world *world)
{
	struct fuzz_channel *channel = UNUSED(world, channels);
	struct ibv_context *context = pick_context(world);

	if (!channel)
		return;
	channel->ibv = ibv_create_comp_channel(context);
	must(channel->ibv);
	must(fcntl(channel->ibv->fd, F_SETFL, O_NONBLOCK) == 0);
}

static int pick_cqe(struct world *world)
{
	static const int sizes[] = {300, 1, 3, 8, 20, 64, 0, -1, 1 << 30, 128};

	return sizes[input_u8(&world->input) % COUNT_OF(sizes)];
}

static struct ibv_cq *create_extended(struct ibv_context *context, int cqe, struct fuzz_cq *cq)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = cqe,
		.cq_context = cq,
		.channel = cq->channel,
		.wc_flags = IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP,
	};

	cq->ex = ibv_create_cq_ex(context, &attr);
	return cq->ex ? ibv_cq_ex_to_cq(cq->ex) : NULL;
}

void call_create_cq(struct world *world)
{
	struct fuzz_cq *cq = UNUSED(world, cqs);
	struct ibv_context *context = pick_context(world);
	uint8_t choice = input_u8(&world->input);
	int cqe = pick_cqe(world);
	struct fuzz_channel *channel = choice & 1 ? PICK(world, channels) : NULL;

	if (!cq)
		return;
	cq->channel = channel ? channel->ibv : NULL;
	if (choice & 2)
		cq->ibv = create_extended(context, cqe, cq);
	else
		cq->ibv = ibv_create_cq(context, cqe, cq, cq->channel, choice >> 4 == 15 ? -1 : 0);
	must(!cq->ibv || (cqe > 0 && cq->ibv->cqe >= cqe));
	must(!cq->ibv || !channel || channel->ibv->context == context);
	if (!cq->ibv)
		*cq = (struct fuzz_cq){};
}

void call_resize_cq(struct world *world)
{
	struct fuzz_cq *cq = PICK(world, cqs);
	int cqe = pick_cqe(world);

	if (!cq)
		return;
	if (ibv_resize_cq(cq->ibv, cqe) == 0)
		must(cqe > 0 && cq->ibv->cqe >= cqe);
	note_overruns(world);
}

void call_modify_cq(struct world *world)
{
	struct fuzz_cq *cq = PICK(world, cqs);
	uint8_t choice = input_u8(&world->input);
	struct ibv_modify_cq_attr attr = {
		.attr_mask = choice & 0x30 ? IBV_CQ_ATTR_MODERATE : choice >> 6,
		.moderate = {.cq_count = choice & 3, .cq_period = (choice >> 2 & 3) * 50},
	};

	if (cq)
		must(ibv_modify_cq(cq->ibv, &attr) >= 0);
}

/* --- shared receive queues ---------------------------------------------------------------- */

static void create_xrc_srq(struct world *world, struct fuzz_srq *srq, struct ibv_pd *pd,
			   struct ibv_srq_attr srq_attr)
{
	struct fuzz_xrcd *xrcd = PICK(world, xrcds);
	struct fuzz_cq *cq = PICK(world, cqs);
	struct ibv_srq_init_attr_ex attr = {
		.attr = srq_attr,
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC,
		.pd = pd,
		.xrcd = xrcd ? xrcd->ibv : NULL,
		.cq = cq ? cq->ibv : NULL,
	};

	srq->ibv = ibv_create_srq_ex(pd->context, &attr);
	if (!srq->ibv)
		return;
	must(xrcd && cq && ibv_get_srq_num(srq->ibv, &srq->number) == 0);
	must(pd->context == xrcd->ibv->context && pd->context == cq->ibv->context);
	srq->xrcd = attr.xrcd;
	srq->cq = attr.cq;
}

void call_create_srq(struct world *world)
{
	struct fuzz_srq *srq = UNUSED(world, srqs);
	struct fuzz_pd *pd = PICK(world, pds);
	uint8_t choice = input_u8(&world->input);
	struct ibv_srq_init_attr init = {
		.attr = {.max_wr = choice & 7, .max_sge = choice >> 3 & 3},
	};
	struct ibv_srq_attr attr;

	if (!srq || !pd)
		return;
	if (choice & 0x80)
		create_xrc_srq(world, srq, pd->ibv, init.attr);
	else
		srq->ibv = ibv_create_srq(pd->ibv, &init);
	if (!srq->ibv) {
		*srq = (struct fuzz_srq){};
		return;
	}
	srq->pd = pd->ibv;
	must(ibv_query_srq(srq->ibv, &attr) == 0);
	must(attr.max_wr >= init.attr.max_wr && attr.max_sge >= (choice >> 3 & 3u));
	srq->max_wr = attr.max_wr;
	srq->max_sge = attr.max_sge;
}

void call_modify_srq(struct world *world)
{
	struct fuzz_srq *srq = PICK(world, srqs);
	uint8_t choice = input_u8(&world->input);
	struct ibv_srq_attr attr = {.max_wr = choice >> 2 & 7, .srq_limit = choice >> 5}, now;
	int mask = choice & 3;

	if (!srq || ibv_modify_srq(srq->ibv, &attr, mask) != 0)
		return;
	must(ibv_query_srq(srq->ibv, &now) == 0);
	must(!(mask & IBV_SRQ_MAX_WR) || (attr.max_wr && now.max_wr >= attr.max_wr));
	srq->max_wr = now.max_wr;
	if (!(mask & IBV_SRQ_LIMIT))
		return;
	srq->limit = attr.srq_limit;
	srq->limit_since = world->work_count;
	srq->limit_reached.most += attr.srq_limit != 0;
}

/* --- all at once ---------------------------------------------------------------------------- */

/* On one of the devices, as if the input had chosen each call and what is usual. */
void objects_make(struct world *world)
{
	const uint8_t side = input_u8(&world->input) & 1;
	const struct fuzz_pd *unused = UNUSED(world, pds);
	const uint8_t pd = unused ? unused - world->pds : 0;
	struct input input = world->input;
	const uint8_t choices[] = {
		side, /* PD */
		side, /* channel */
		side, 0,
		0,    side,
		0,    0, /* CQs */
		pd,   0,
		0,	    /* region */
		side, 0,    /* XRC domain */
		pd,   side, /* address handle */
		pd,   IBV_MW_TYPE_2,
	};

	world->input = (struct input){.data = choices, .left = sizeof(choices)};
	call_alloc_pd(world);
	call_create_channel(world);
	call_create_cq(world);
	call_create_cq(world);
	call_reg_mr(world);
	call_open_xrcd(world);
	call_create_ah(world);
	call_alloc_mw(world);
	world->input = input;
}
