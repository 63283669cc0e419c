/* SPDX-License-Identifier: BSD-2-Clause */
/* Queue pairs: into any state with any attributes, and groups. */
#include <errno.h>

#include "calls.h"
#include "net/newer_verbs.h"

#define REMOTE (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

struct fuzz_qp *qp_of_number(struct world *world, uint32_t number)
{
	for (unsigned int i = 0; i < QPS; i++)
		if (world->qps[i].ibv && world->qps[i].ibv->qp_num == number)
			return &world->qps[i];
	return NULL;
}

/* --- create, destroy ------------------------------------------------------------------- */

/* Those that the type has, as far as they are offered. */
static uint64_t send_ops(enum ibv_qp_type type)
{
	const uint64_t ud = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
	const uint64_t uc = ud | IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
			    IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW;
	const uint64_t rc = uc | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
			    IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_SEND_WITH_INV |
			    IBV_QP_EX_WITH_ATOMIC_WRITE | QP_EX_WITH_FLUSH;

	return type == IBV_QPT_UD ? ud : type == IBV_QPT_UC ? uc : rc;
}

static void keep_qp(struct fuzz_qp *qp, const struct ibv_qp_init_attr_ex *attr)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr now;
	bool sends = attr->qp_type != IBV_QPT_XRC_RECV;
	bool receives = sends && attr->qp_type != IBV_QPT_XRC_SEND;

	must(ibv_query_qp(qp->ibv, &now, IBV_QP_CAP, &init) == 0);
	must(!sends || init.cap.max_send_wr >= attr->cap.max_send_wr);
	must(now.qp_state == IBV_QPS_RESET);
	qp->type = attr->qp_type;
	qp->pd = attr->comp_mask & IBV_QP_INIT_ATTR_PD ? attr->pd : NULL;
	qp->xrcd = attr->comp_mask & IBV_QP_INIT_ATTR_XRCD ? attr->xrcd : NULL;
	qp->send_cq = sends ? attr->send_cq : NULL;
	qp->recv_cq = receives ? attr->recv_cq : NULL;
	qp->srq = receives ? attr->srq : NULL;
	qp->cap = init.cap;
	qp->signal_all = attr->sq_sig_all;
	must(!qp->send_cq || qp->send_cq->context == qp->ibv->context);
	must(!qp->recv_cq || qp->recv_cq->context == qp->ibv->context);
	must(!qp->srq || qp->srq->context == qp->ibv->context);
	must(!qp->xrcd || qp->xrcd->context == qp->ibv->context);
}

void call_create_qp(struct world *world)
{
	static const enum ibv_qp_type types[] = {IBV_QPT_RC,	   IBV_QPT_UC,	      IBV_QPT_UD,
						 IBV_QPT_XRC_SEND, IBV_QPT_XRC_RECV,  IBV_QPT_RC,
						 IBV_QPT_RC,	   IBV_QPT_RAW_PACKET};
	struct fuzz_qp *qp = UNUSED(world, qps);
	uint8_t choice = input_u8(&world->input), caps = input_u8(&world->input);
	struct fuzz_pd *pd = PICK(world, pds);
	struct fuzz_cq *send_cq = PICK(world, cqs), *recv_cq = PICK(world, cqs);
	struct fuzz_srq *srq = choice & 8 ? PICK(world, srqs) : NULL;
	struct fuzz_xrcd *xrcd = PICK(world, xrcds);
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = types[choice & 7],
		.sq_sig_all = choice >> 4 & 1,
		.send_cq = send_cq ? send_cq->ibv : NULL,
		.recv_cq = recv_cq ? recv_cq->ibv : NULL,
		.srq = srq ? srq->ibv : NULL,
		.cap = {.max_send_wr = (caps & 7) ^ 4,
			.max_recv_wr = (caps >> 3 & 7) ^ 4,
			.max_send_sge = (caps >> 6) ^ 2,
			.max_recv_sge = (caps >> 6) ^ 2,
			.max_inline_data = choice & 128 ? 0 : 100},
		.pd = pd ? pd->ibv : NULL,
		.xrcd = xrcd ? xrcd->ibv : NULL,
	};

	if (!qp || !pd)
		return;
	attr.comp_mask =
		attr.qp_type == IBV_QPT_XRC_RECV ? IBV_QP_INIT_ATTR_XRCD : IBV_QP_INIT_ATTR_PD;
	if (choice & 32) {
		attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
		attr.send_ops_flags = choice & 64 ? UINT64_MAX : send_ops(attr.qp_type);
	}
	*qp = (struct fuzz_qp){.ibv = ibv_create_qp_ex(pd->ibv->context, &attr)};
	if (!qp->ibv)
		return;
	keep_qp(qp, &attr);
	qp->ex = choice & 32 && attr.qp_type != IBV_QPT_XRC_RECV ? ibv_qp_to_qp_ex(qp->ibv) : NULL;
	note_overruns(world);
}

static void destroy_qp(struct world *world, struct fuzz_qp *qp)
{
	call_ack_async_events(world);
	must_destroy(ibv_destroy_qp(qp->ibv), qp->groups, "ibv_destroy_qp()");
	if (qp->groups)
		return;
	forget_works(world, qp, NULL);
	*qp = (struct fuzz_qp){};
}

void call_destroy_qp(struct world *world)
{
	struct fuzz_qp *qp = PICK(world, qps);

	if (qp)
		destroy_qp(world, qp);
}

/* --- modify ------------------------------------------------------------------------------ */

/* ERR has one event of a queue pair that shares its receives, however that came there. */
static void note_events(struct fuzz_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	if (qp->state != IBV_QPS_ERR && attr->qp_state == IBV_QPS_ERR && (qp->srq || qp->xrcd))
		qp->last_wqe.least++;
	qp->last_wqe.most += qp->state == IBV_QPS_RESET;
	if (attr->qp_state == IBV_QPS_SQD && qp->state == IBV_QPS_SQD)
		return;
	qp->drains = attr->qp_state == IBV_QPS_SQD && mask & IBV_QP_EN_SQD_ASYNC_NOTIFY &&
		     attr->en_sqd_async_notify;
	qp->drained.most += qp->drains;
}

int modify(struct world *world, struct fuzz_qp *qp, struct ibv_qp *handle, struct ibv_qp_attr *attr,
	   int mask)
{
	int error = ibv_modify_qp(handle, attr, mask);

	must(error >= 0);
	if (error || !(mask & IBV_QP_STATE))
		return error;
	must(attr->qp_state != IBV_QPS_SQE && attr->qp_state <= IBV_QPS_ERR);
	note_events(qp, attr, mask);
	qp->recovered |= attr->qp_state == IBV_QPS_RTS || attr->qp_state == IBV_QPS_SQD;
	if (attr->qp_state == IBV_QPS_RESET) {
		forget_works(world, qp, NULL);
		qp->recovered = false;
		world->resets++;
	}
	qp->state = attr->qp_state;
	return 0;
}

bool qp_enter_error(struct world *world, struct fuzz_qp *qp)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	int error = modify(world, qp, qp->ibv, &attr, IBV_QP_STATE);

	must(error == 0 || qp->state == IBV_QPS_RESET);
	return error == 0;
}

static struct ibv_ah_attr path_to(struct world *world, struct fuzz_qp *peer)
{
	return (struct ibv_ah_attr){
		.is_global = 1,
		.port_num = 1,
		.grh = {.dgid = world->gids[peer->ibv->context == world->contexts[1]],
			.hop_limit = 1},
	};
}

/*
 * After a reset they are others, far from those that packets may still have: these would be taken
 * for the new connection's (IBA 9.7.1). Soon they go round.
 */
static uint32_t first_psn(const struct world *world)
{
	return (0xfffffe + (world->resets << 16)) & 0xffffff;
}

/* What a pair of queue pairs needs, with short timeouts. */
static struct ibv_qp_attr usual_attributes(struct world *world, struct fuzz_qp *peer)
{
	return (struct ibv_qp_attr){
		.path_mtu = IBV_MTU_256,
		.port_num = 1,
		.qkey = CALLS_QKEY,
		.qp_access_flags = REMOTE | ACCESS_FLUSH_GLOBAL,
		.dest_qp_num = peer->ibv->qp_num,
		.rq_psn = first_psn(world),
		.sq_psn = first_psn(world),
		.max_rd_atomic = 2,
		.max_dest_rd_atomic = 2,
		.min_rnr_timer = 1,
		.timeout = 8,
		.retry_cnt = 2,
		.rnr_retry = 7,
		.ah_attr = path_to(world, peer),
	};
}

/* Any state, any mask; most attributes are good ones. */
void call_modify_qp(struct world *world)
{
	struct fuzz_qp *qp = PICK(world, qps), *peer = PICK(world, qps);
	uint8_t state = input_u8(&world->input), value = input_u8(&world->input);
	uint16_t mask = input_u16(&world->input);
	uint8_t more = input_u8(&world->input);
	struct ibv_qp_attr attr;

	if (!qp)
		return;
	attr = usual_attributes(world, peer);
	attr.qp_state = state & 15;
	attr.cur_qp_state = state >> 4;
	attr.en_sqd_async_notify = value & 1;
	attr.path_mtu = value & 2 ? IBV_MTU_1024 : IBV_MTU_256;
	attr.timeout = value & 4 ? 0 : 8;
	attr.rnr_retry = value & 8 ? 1 : 7;
	attr.qp_access_flags = value & 16 ? 0 : REMOTE;
	attr.max_rd_atomic = attr.max_dest_rd_atomic = value >> 5 & 3;
	attr.port_num = (more & 0xc0) == 0xc0 ? 9 : 1;
	attr.pkey_index = (more & 0xe0) == 0xa0;
	attr.alt_ah_attr = attr.ah_attr;
	attr.alt_port_num = 1;
	attr.path_mig_state = more & 3;
	modify(world, qp, qp->ibv, &attr, mask | (more & 31) << 16);
}

static const int to_init[] = {
	[IBV_QPT_UD] = IBV_QP_QKEY,
	[IBV_QPT_RC] = IBV_QP_ACCESS_FLAGS,
	[IBV_QPT_UC] = IBV_QP_ACCESS_FLAGS,
	[IBV_QPT_XRC_SEND] = IBV_QP_ACCESS_FLAGS,
	[IBV_QPT_XRC_RECV] = IBV_QP_ACCESS_FLAGS,
};

#define TO_PEER (IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN)
#define RECEIVES (IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)
static const int to_rtr[] = {
	[IBV_QPT_UD] = 0,
	[IBV_QPT_RC] = TO_PEER | RECEIVES,
	[IBV_QPT_UC] = TO_PEER,
	[IBV_QPT_XRC_SEND] = TO_PEER,
	[IBV_QPT_XRC_RECV] = TO_PEER | RECEIVES,
};

#define SENDS (IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC)
static const int to_rts[] = {
	[IBV_QPT_UD] = 0,
	[IBV_QPT_RC] = SENDS,
	[IBV_QPT_UC] = 0,
	[IBV_QPT_XRC_SEND] = SENDS,
	[IBV_QPT_XRC_RECV] = IBV_QP_TIMEOUT,
};

static void reset(struct world *world, struct fuzz_qp *qp)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};

	must(modify(world, qp, qp->ibv, &attr, IBV_QP_STATE) == 0);
}

/* From RESET to RTS: this must succeed. */
static void connect_to(struct world *world, struct fuzz_qp *qp, struct fuzz_qp *peer)
{
	struct ibv_qp_attr attr = usual_attributes(world, peer);

	attr.qp_state = IBV_QPS_INIT;
	must(modify(world, qp, qp->ibv, &attr,
		    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | to_init[qp->type]) == 0);
	attr.qp_state = IBV_QPS_RTR;
	must(modify(world, qp, qp->ibv, &attr, IBV_QP_STATE | to_rtr[qp->type]) == 0);
	attr.qp_state = IBV_QPS_RTS;
	must(modify(world, qp, qp->ibv, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | to_rts[qp->type]) ==
	     0);
}

/* Both, to one another; perhaps it is the same one. */
void call_connect_qp(struct world *world)
{
	struct fuzz_qp *qp = PICK(world, qps), *peer = PICK(world, qps);

	if (!qp)
		return;
	reset(world, qp);
	reset(world, peer);
	connect_to(world, qp, peer);
	if (peer != qp)
		connect_to(world, peer, qp);
}

static bool query(struct fuzz_qp *qp, struct ibv_qp_attr *attr)
{
	struct ibv_qp_init_attr init;

	return ibv_query_qp(qp->ibv, attr, IBV_QP_STATE, &init) == 0;
}

void note_drained(struct fuzz_qp *qp)
{
	struct ibv_qp_attr now;

	must(query(qp, &now));
	if (!qp->drains || now.qp_state != IBV_QPS_SQD || now.sq_draining)
		return;
	qp->drained.least++;
	qp->drains = false;
}

/* To SQD, and when nothing is under way back from it. */
void call_drain(struct world *world)
{
	struct fuzz_qp *qp = PICK(world, qps);
	uint8_t choice = input_u8(&world->input);
	struct ibv_qp_attr attr = {}, now;
	int mask = IBV_QP_STATE, error;

	if (!qp)
		return;
	note_drained(qp);
	must(query(qp, &now));
	if (now.qp_state == IBV_QPS_RTS) {
		attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_SQD,
					    .en_sqd_async_notify = choice & 1};
		mask |= IBV_QP_EN_SQD_ASYNC_NOTIFY;
	} else if (now.qp_state == IBV_QPS_SQD && !now.sq_draining) {
		attr.qp_state = IBV_QPS_RTS;
	} else {
		return;
	}
	error = modify(world, qp, qp->ibv, &attr, mask);
	/* Its peer may have moved it meanwhile. */
	must(query(qp, &now));
	must(!error || now.qp_state > IBV_QPS_SQD);
}

void call_query_qp(struct world *world)
{
	struct fuzz_qp *qp = PICK(world, qps);
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	if (!qp)
		return;
	must(ibv_query_qp(qp->ibv, &attr, input_u16(&world->input), &init) == 0);
	/* An error moves it by itself, and nothing else. */
	must(attr.qp_state == qp->state ||
	     (qp->state >= IBV_QPS_RTR && attr.qp_state >= IBV_QPS_SQE));
	must(init.qp_type == qp->type && init.send_cq == qp->ibv->send_cq);
	must(init.cap.max_send_wr == qp->cap.max_send_wr);
}

/* Of the device's own vendor, another one's, or none's. */
void call_ece(struct world *world)
{
	struct fuzz_qp *qp = PICK(world, qps);
	uint8_t choice = input_u8(&world->input);
	struct ibv_ece ece;

	if (!qp)
		return;
	must(ibv_query_ece(qp->ibv, &ece) == 0);
	ece.vendor_id += choice & 3;
	ece.comp_mask = choice >> 7;
	must((ibv_set_ece(qp->ibv, &ece) == 0) == !ece.comp_mask);
	must(ibv_query_qp_data_in_order(qp->ibv, choice >> 2 & 15, 0) >= 0);
}

/* --- groups ---------------------------------------------------------------------------------- */

static union ibv_gid group(unsigned int index)
{
	return (union ibv_gid){.raw = {[10] = 0xff, 0xff, 224, 86, 0, index}};
}

/* NULL: there is no queue pair. */
static struct fuzz_qp *pick_with_group(struct world *world, unsigned int *index, union ibv_gid *gid)
{
	struct fuzz_qp *qp = PICK(world, qps);

	*index = input_u8(&world->input) % GROUPS;
	*gid = group(*index);
	return qp;
}

void call_attach_mcast(struct world *world)
{
	unsigned int index;
	union ibv_gid gid;
	struct fuzz_qp *qp = pick_with_group(world, &index, &gid);
	int error;

	if (!qp)
		return;
	error = ibv_attach_mcast(qp->ibv, &gid, 0);
	must((error == 0) == (qp->type == IBV_QPT_UD));
	if (error == 0)
		qp->groups |= 1 << index;
	must(ibv_attach_mcast(qp->ibv, &world->gids[0], 0) == EINVAL);
}

void call_detach_mcast(struct world *world)
{
	unsigned int index;
	union ibv_gid gid;
	struct fuzz_qp *qp = pick_with_group(world, &index, &gid);
	int error;

	if (!qp)
		return;
	error = ibv_detach_mcast(qp->ibv, &gid, 0);
	must((error == 0) == (qp->groups >> index & 1));
	qp->groups &= ~(1 << index);
}

bool qps_destroy(struct world *world)
{
	bool left = false;

	handles_close(world);
	for (unsigned int i = 0; i < QPS; i++) {
		struct fuzz_qp *qp = &world->qps[i];

		if (!qp->ibv)
			continue;
		destroy_qp(world, qp);
		for (unsigned int j = 0; qp->ibv && j < GROUPS; j++) {
			union ibv_gid gid = group(j);

			must((ibv_detach_mcast(qp->ibv, &gid, 0) == 0) == (qp->groups >> j & 1));
		}
		qp->groups = 0;
		left |= qp->ibv != NULL;
	}
	return left;
}
