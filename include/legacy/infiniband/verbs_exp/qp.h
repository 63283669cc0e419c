/* SPDX-License-Identifier: BSD-2-Clause */
/* Included by verbs_exp.h: queue pairs, send requests, flows. */
#ifndef INFINIBAND_VERBS_EXP_QP_H
#define INFINIBAND_VERBS_EXP_QP_H

#include <infiniband/verbs_exp/common.h>
#include <infiniband/verbs_exp/qp_types.h>
#include <stddef.h>
#include <stdlib.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- queue pairs ----------------------------------------------------------- */

/* What of @attr no device of rdma-core's has, as an errno. */
static inline int verbs_exp_refuse_qp(const struct ibv_exp_qp_init_attr *attr)
{
	uint32_t mask = attr->comp_mask;
	uint32_t flags = mask & IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS ? attr->exp_create_flags : 0;

	if (flags & ~(uint32_t)IBV_EXP_QP_CREATE_MASK)
		return EINVAL;
	if (mask & IBV_EXP_QP_INIT_ATTR_MAX_INL_KLMS && !(flags & IBV_EXP_QP_CREATE_UMR))
		return EINVAL;
	if (flags || attr->qp_type == IBV_EXP_QPT_DC_INI)
		return ENOSYS;
	if (mask & IBV_EXP_QP_INIT_ATTR_QPG && attr->qpg.qpg_type != IBV_EXP_QPG_NONE)
		return ENOSYS;
	if (mask & IBV_EXP_QP_INIT_ATTR_ATOMICS_ARG && attr->max_atomic_arg > sizeof(uint64_t))
		return ENOSYS;
	return 0;
}

static inline struct ibv_qp *ibv_exp_create_qp(struct ibv_context *context,
					       struct ibv_exp_qp_init_attr *attr)
{
	struct ibv_qp_init_attr_ex init;
	struct ibv_qp *qp;
	int error;

	if (!verbs_exp_masked(__func__, attr->comp_mask, IBV_EXP_QP_INIT_ATTR_RESERVED))
		return NULL;
	error = verbs_exp_refuse_qp(attr);
	if (error)
		return (struct ibv_qp *)verbs_exp_null(error);
	memset(&init, 0, sizeof(init));
	memcpy(&init, attr, offsetof(struct ibv_exp_qp_init_attr, comp_mask));
	if (attr->comp_mask & IBV_EXP_QP_INIT_ATTR_PD) {
		init.comp_mask |= IBV_QP_INIT_ATTR_PD;
		init.pd = attr->pd;
	}
	if (attr->comp_mask & IBV_EXP_QP_INIT_ATTR_XRCD) {
		init.comp_mask |= IBV_QP_INIT_ATTR_XRCD;
		init.xrcd = attr->xrcd;
	}
	qp = ibv_create_qp_ex(context, &init);
	if (!qp)
		return (struct ibv_qp *)verbs_exp_null(errno);
	attr->cap = init.cap;
	if (attr->comp_mask & IBV_EXP_QP_INIT_ATTR_INL_RECV)
		attr->max_inl_recv = 0; /* granted */
	return qp;
}

static inline int ibv_exp_modify_qp(struct ibv_qp *qp, struct ibv_exp_qp_attr *attr, uint64_t mask)
{
	const uint64_t vendors = IBV_EXP_QP_GROUP_RSS | IBV_EXP_QP_DC_KEY;
	struct ibv_qp_attr standard;

	if (!verbs_exp_masked(__func__, attr->comp_mask, IBV_EXP_QP_ATTR_RESERVED) ||
	    (mask & ~vendors) >> IBV_EXP_START_FLAG_LOC)
		return EINVAL;
	if (mask & vendors)
		return ENOSYS;
	memset(&standard, 0, sizeof(standard));
	memcpy(&standard, attr, offsetof(struct ibv_exp_qp_attr, alt_timeout) + 1);
	return verbs_exp_error(ibv_modify_qp(qp, &standard, (int)mask));
}

/* The standard opcode, or -1. */
static inline int verbs_exp_opcode(enum ibv_exp_wr_opcode opcode)
{
	switch (opcode) {
	case IBV_EXP_WR_SEND_WITH_INV:
		return IBV_WR_SEND_WITH_INV;
	case IBV_EXP_WR_LOCAL_INV:
		return IBV_WR_LOCAL_INV;
	case IBV_EXP_WR_BIND_MW:
		return IBV_WR_BIND_MW;
	default:
		return (unsigned int)opcode <= IBV_EXP_WR_ATOMIC_FETCH_AND_ADD ? (int)opcode : -1;
	}
}

/* Returns 0 or what ibv_exp_post_send() is to return. */
static inline int verbs_exp_send_wr(struct ibv_send_wr *to, const struct ibv_exp_send_wr *from)
{
	const uint64_t flags = from->exp_send_flags;
	int opcode = verbs_exp_opcode(from->exp_opcode);

	if (!verbs_exp_masked("ibv_exp_post_send", from->comp_mask, IBV_EXP_SEND_WR_ATTR_RESERVED))
		return EINVAL;
	if (opcode < 0 || flags & ~((uint64_t)UINT32_MAX | IBV_EXP_SEND_IP_CSUM))
		return -ENOSYS;
	memset(to, 0, sizeof(*to));
	to->wr_id = from->wr_id;
	to->sg_list = from->sg_list;
	to->num_sge = from->num_sge;
	to->opcode = (enum ibv_wr_opcode)opcode;
	to->send_flags = (unsigned int)flags;
	if (flags & IBV_EXP_SEND_IP_CSUM)
		to->send_flags |= IBV_SEND_IP_CSUM;
	to->imm_data = from->ex.imm_data;
	memcpy(&to->wr, &from->wr, sizeof(from->wr));
	to->qp_type.xrc.remote_srqn = from->qp_type.xrc.remote_srqn;
	if (opcode == IBV_WR_BIND_MW) {
		unsigned int access;
		int error = verbs_exp_access(from->bind_mw.bind_info.exp_mw_access_flags, &access);

		if (error)
			return error;
		to->bind_mw.mw = from->bind_mw.mw;
		to->bind_mw.rkey = from->bind_mw.rkey;
		to->bind_mw.bind_info.mr = from->bind_mw.bind_info.mr;
		to->bind_mw.bind_info.addr = from->bind_mw.bind_info.addr;
		to->bind_mw.bind_info.length = from->bind_mw.bind_info.length;
		to->bind_mw.bind_info.mw_access_flags = access;
	}
	return 0;
}

static inline int ibv_exp_post_send(struct ibv_qp *qp, struct ibv_exp_send_wr *wr,
				    struct ibv_exp_send_wr **bad_wr)
{
	struct ibv_send_wr batch[16], *bad = batch;

	while (wr) {
		struct ibv_exp_send_wr *first = wr;
		int count = 0, refused = 0, error = 0;

		for (; wr && count < 16; wr = wr->next, count++) {
			refused = verbs_exp_send_wr(&batch[count], wr);
			if (refused)
				break;
			if (count)
				batch[count - 1].next = &batch[count];
		}
		if (count)
			error = ibv_post_send(qp, batch, &bad);
		if (error) {
			for (; bad > batch; bad--)
				first = first->next;
			*bad_wr = first;
			return error;
		}
		if (refused) {
			*bad_wr = wr;
			return refused;
		}
	}
	return 0;
}

/* --- flows ----------------------------------------------------------------- */

/* Today's attributes begin otherwise; the specifications behind them are the same. */
static inline struct ibv_exp_flow *ibv_exp_create_flow(struct ibv_qp *qp,
						       struct ibv_exp_flow_attr *attr)
{
	size_t specs = attr->size > sizeof(*attr) ? attr->size - sizeof(*attr) : 0;
	struct ibv_flow_attr *standard =
		(struct ibv_flow_attr *)calloc(1, sizeof(*standard) + specs);
	struct ibv_flow *flow;
	int error;

	if (!standard)
		return (struct ibv_exp_flow *)verbs_exp_null(ENOMEM);
	standard->type = (enum ibv_flow_attr_type)attr->type;
	standard->size = (uint16_t)(sizeof(*standard) + specs);
	standard->priority = attr->priority;
	standard->num_of_specs = attr->num_of_specs;
	standard->port = attr->port;
	standard->flags = attr->flags;
	memcpy(standard + 1, attr + 1, specs);
	flow = ibv_create_flow(qp, standard);
	error = errno;
	free(standard);
	return flow ? (struct ibv_exp_flow *)&flow->context
		    : (struct ibv_exp_flow *)verbs_exp_null(error);
}

static inline int ibv_exp_destroy_flow(struct ibv_exp_flow *flow)
{
	int error = ibv_destroy_flow(
		(struct ibv_flow *)((char *)flow - offsetof(struct ibv_flow, context)));

	return error == EOPNOTSUPP ? -ENOSYS : error;
}

#ifdef __cplusplus
}
#endif

#endif
