/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/verbs/causes_calls.h"

#include "tests/verbs/fixture.h"

struct ibv_context *context;
struct ibv_pd *pd;
struct ibv_cq *cq;

void open_device(void)
{
	context = fixture_open();
	pd = ibv_alloc_pd(context);
	cq = ibv_create_cq(context, 16, NULL, NULL, 0);
	ck_assert_ptr_nonnull(pd);
	ck_assert_ptr_nonnull(cq);
}

struct ibv_qp *make_qp(enum ibv_qp_type type)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 2, .max_recv_sge = 2},
		.qp_type = type,
	};
	struct ibv_qp *qp = ibv_create_qp(pd, &attr);

	ck_assert_ptr_nonnull(qp);
	return qp;
}

struct ibv_qp *qp_in_reset(enum ibv_qp_type type)
{
	open_device();
	return make_qp(type);
}

struct ibv_qp *qp_in_init(enum ibv_qp_type type)
{
	struct ibv_qp *qp = qp_in_reset(type);

	ck_assert_int_eq(MODIFY(qp, INIT_MASK, INIT_ATTR), 0);
	return qp;
}

struct ibv_qp *qp_in_rts(enum ibv_qp_type type)
{
	struct ibv_qp *qp = qp_in_reset(type);

	connect_qp(qp, qp);
	return qp;
}

struct ibv_srq *make_srq(void)
{
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct ibv_srq *srq = ibv_create_srq(pd, &attr);

	ck_assert_ptr_nonnull(srq);
	return srq;
}

struct ibv_xrcd *open_domain(int fd, int oflags)
{
	struct ibv_xrcd_init_attr attr = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = fd,
		.oflags = oflags,
	};

	return ibv_open_xrcd(context, &attr);
}

struct ibv_qp *make_xrc_recv(struct ibv_xrcd *xrcd)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_XRC_RECV,
		.comp_mask = IBV_QP_INIT_ATTR_XRCD,
		.xrcd = xrcd,
	};
	struct ibv_qp *qp = ibv_create_qp_ex(context, &attr);

	ck_assert_ptr_nonnull(qp);
	return qp;
}
