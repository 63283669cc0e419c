/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>

#include "tests/verbs/newer_regions.h"
#include "tests/verbs/refused.h"

/* The functions themselves: the macros choose between two. */
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_MW_BIND)

#define IOVA ((uintptr_t)pair->buffer)

static struct pair *const pair = &refused_pair;
static struct ibv_srq *srq, *xrc_srq;
static struct ibv_xrcd *xrcd;
static struct ibv_qp *datagram, *xrc_qp, *idle;
static struct ibv_mw *window;
static struct ibv_mr *bindable;
static union ibv_gid group;

static struct ibv_qp *make_qp(enum ibv_qp_type type)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = pair->send_cq,
		.recv_cq = pair->recv_cq,
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = type,
	};

	return ibv_create_qp(pair->pd, &attr);
}

static struct ibv_srq *make_xrc_srq(void)
{
	struct ibv_srq_init_attr_ex attr = {
		.attr = {.max_wr = 4, .max_sge = 1},
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_XRCD |
			     IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_PD,
		.srq_type = IBV_SRQT_XRC,
		.pd = pair->pd,
		.xrcd = xrcd,
		.cq = pair->recv_cq,
	};

	return ibv_create_srq_ex(pair->context, &attr);
}

static struct ibv_qp *make_qp_ex(enum ibv_qp_type type)
{
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = pair->send_cq,
		.recv_cq = pair->recv_cq,
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = type,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = pair->pd,
		.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE,
	};

	if (type == IBV_QPT_XRC_RECV) {
		attr.comp_mask = IBV_QP_INIT_ATTR_XRCD;
		attr.xrcd = xrcd;
	}
	return ibv_create_qp_ex(pair->context, &attr);
}

static struct ibv_xrcd *make_xrcd(void)
{
	struct ibv_xrcd_init_attr attr = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = -1,
		.oflags = O_CREAT,
	};

	return ibv_open_xrcd(pair->context, &attr);
}

static void never_wait(int fd)
{
	ck_assert_int_eq(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK), 0);
}

void refused_verbs_setup(void)
{
	struct ibv_srq_init_attr attr = {.attr = {4, 1}};

	pair_open(pair, IBV_QPT_RC, IBV_QP_EX_WITH_RDMA_WRITE);
	never_wait(pair->context->async_fd);
	never_wait(pair->channel->fd);
	ck_assert_ptr_nonnull(srq = ibv_create_srq(pair->pd, &attr));
	ck_assert_ptr_nonnull(xrcd = make_xrcd());
	ck_assert_ptr_nonnull(xrc_srq = make_xrc_srq());
	ck_assert_ptr_nonnull(xrc_qp = make_qp_ex(IBV_QPT_XRC_RECV));
	ck_assert_ptr_nonnull(datagram = make_qp(IBV_QPT_UD));
	ck_assert_ptr_nonnull(idle = make_qp(IBV_QPT_RC));
	ck_assert_ptr_nonnull(window = ibv_alloc_mw(pair->pd, IBV_MW_TYPE_1));
	ck_assert_ptr_nonnull(bindable = ibv_reg_mr(pair->pd, pair->buffer, 64, ACCESS));
	ck_assert_int_eq(inet_pton(AF_INET6, "::ffff:239.86.1.2", &group), 1);
}

/* One that makes an object and destroys it, and one that destroys what the other one makes. */
#define MADE(name, type, creation, destruction)                                                    \
	static int make_##name(void)                                                               \
	{                                                                                          \
		type *object = creation;                                                           \
		int result = by_null(object);                                                      \
                                                                                                   \
		if (object)                                                                        \
			ck_assert_int_eq(destruction(object), 0);                                  \
		return result;                                                                     \
	}
#define DESTROYED(name, type, creation, destruction)                                               \
	static int make_##name(void)                                                               \
	{                                                                                          \
		static type *object;                                                               \
		int result;                                                                        \
                                                                                                   \
		if (!object)                                                                       \
			ck_assert_ptr_nonnull(object = creation);                                  \
		result = by_errno(destruction(object));                                            \
		object = result ? object : NULL;                                                   \
		return result;                                                                     \
	}
#define CALL(name, result)                                                                         \
	static int make_##name(void)                                                               \
	{                                                                                          \
		return result;                                                                     \
	}

/* --- devices and contexts --------------------------------------------------------------- */

MADE(ibv_open_device, struct ibv_context, ibv_open_device(pair->context->device), ibv_close_device)
DESTROYED(ibv_close_device, struct ibv_context, ibv_open_device(pair->context->device),
	  ibv_close_device)
CALL(ibv_get_async_event,
     by_minus_one(ibv_get_async_event(pair->context, &(struct ibv_async_event){})))
CALL(ibv_query_device, by_errno(ibv_query_device(pair->context, &(struct ibv_device_attr){})))
CALL(ibv_query_port, by_errno(ibv_query_port(pair->context, 1, &(struct ibv_port_attr){})))
CALL(ibv_query_gid, by_minus_one(ibv_query_gid(pair->context, 1, 0, &(union ibv_gid){})))
CALL(ibv_query_pkey, by_minus_one(ibv_query_pkey(pair->context, 1, 0, &(__be16){0})))
CALL(ibv_get_pkey_index, by_minus_one(ibv_get_pkey_index(pair->context, 1, htobe16(0xffff))))
CALL(ibv_query_device_ex,
     by_errno(ibv_query_device_ex(pair->context, NULL, &(struct ibv_device_attr_ex){})))
CALL(ibv_query_rt_values,
     by_errno(ibv_query_rt_values_ex(pair->context,
				     &(struct ibv_values_ex){IBV_VALUES_MASK_RAW_CLOCK})))

static struct ibv_ah_attr own_path(void)
{
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1};

	ck_assert_int_eq(ibv_query_gid(pair->context, 1, 0, &attr.grh.dgid), 0);
	return attr;
}

static int make_ibv_resolve_eth_l2_from_gid(void)
{
	struct ibv_ah_attr attr = own_path();
	uint8_t mac[ETHERNET_LL_SIZE];
	uint16_t vlan;

	return by_errno(ibv_resolve_eth_l2_from_gid(pair->context, &attr, mac, &vlan));
}

/* --- domains, memory ---------------------------------------------------------------------- */

static int unimport_pd(struct ibv_pd *pd)
{
	ibv_unimport_pd(pd);
	return 0;
}

static int unimport_mr(struct ibv_mr *mr)
{
	ibv_unimport_mr(mr);
	return 0;
}

static int unimport_dm(struct ibv_dm *dm)
{
	ibv_unimport_dm(dm);
	return 0;
}

static struct ibv_dm *make_dm(void)
{
	return ibv_alloc_dm(pair->context, &(struct ibv_alloc_dm_attr){.length = 64});
}

static struct ibv_td *make_td(void)
{
	return ibv_alloc_td(pair->context, &(struct ibv_td_init_attr){});
}

static struct ibv_pd *make_parent(void)
{
	return ibv_alloc_parent_domain(pair->context,
				       &(struct ibv_parent_domain_init_attr){.pd = pair->pd});
}

MADE(ibv_import_pd, struct ibv_pd, ibv_import_pd(pair->context, pair->pd->handle), unimport_pd)
MADE(ibv_alloc_pd, struct ibv_pd, ibv_alloc_pd(pair->context), ibv_dealloc_pd)
DESTROYED(ibv_dealloc_pd, struct ibv_pd, ibv_alloc_pd(pair->context), ibv_dealloc_pd)
MADE(ibv_alloc_parent_domain, struct ibv_pd, make_parent(), ibv_dealloc_pd)
MADE(ibv_alloc_td, struct ibv_td, make_td(), ibv_dealloc_td)
DESTROYED(ibv_dealloc_td, struct ibv_td, make_td(), ibv_dealloc_td)

static struct mr_init_attr by_address = {
	.comp_mask = MR_EX_ADDR, .addr = refused_pair.buffer, .length = 64, .access = ACCESS};

MADE(ibv_reg_mr, struct ibv_mr, ibv_reg_mr(pair->pd, pair->buffer, 64, ACCESS), ibv_dereg_mr)
MADE(ibv_reg_mr_iova, struct ibv_mr, ibv_reg_mr_iova(pair->pd, pair->buffer, 64, IOVA, ACCESS),
     ibv_dereg_mr)
MADE(ibv_reg_mr_iova2, struct ibv_mr, ibv_reg_mr_iova2(pair->pd, pair->buffer, 64, IOVA, ACCESS),
     ibv_dereg_mr)
MADE(ibv_reg_dmabuf_mr, struct ibv_mr, ibv_reg_dmabuf_mr(pair->pd, 0, 64, 0, -1, ACCESS),
     ibv_dereg_mr)
MADE(ibv_reg_mr_ex, struct ibv_mr, newer_reg_mr_ex(pair->pd, &by_address), ibv_dereg_mr)
DESTROYED(ibv_dereg_mr, struct ibv_mr, ibv_reg_mr(pair->pd, pair->buffer, 64, ACCESS), ibv_dereg_mr)
MADE(ibv_import_mr, struct ibv_mr, ibv_import_mr(pair->pd, pair->mr->handle), unimport_mr)
MADE(ibv_alloc_null_mr, struct ibv_mr, ibv_alloc_null_mr(pair->pd), ibv_dereg_mr)
MADE(ibv_alloc_dm, struct ibv_dm, make_dm(), ibv_free_dm)
DESTROYED(ibv_free_dm, struct ibv_dm, make_dm(), ibv_free_dm)

static int make_ibv_rereg_mr(void)
{
	int result = ibv_rereg_mr(pair->mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, ACCESS);

	/* The region is as it was. */
	ck_assert(result == 0 || result == IBV_REREG_MR_ERR_INPUT);
	return result ? errno : 0;
}

static int make_ibv_alloc_buf(void)
{
	struct buf *buf;
	void *memory = newer_alloc_buf(pair->pd, 64, &buf);

	if (memory)
		newer_free_buf(buf);
	return by_null(memory);
}

static int make_ibv_reg_buf_mr(void)
{
	struct buf *buf;
	void *memory = newer_alloc_buf(pair->pd, 64, &buf);
	struct ibv_mr *mr;
	int result;

	ck_assert_ptr_nonnull(memory);
	mr = newer_reg_buf_mr(pair->pd, buf, memory, 64, ACCESS);
	result = by_null(mr);
	if (mr)
		ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	newer_free_buf(buf);
	return result;
}

static int make_ibv_reg_dm_mr(void)
{
	struct ibv_dm *dm = make_dm();
	struct ibv_mr *mr;
	int result;

	ck_assert_ptr_nonnull(dm);
	mr = ibv_reg_dm_mr(pair->pd, dm, 0, 64, IBV_ACCESS_ZERO_BASED);
	result = by_null(mr);
	if (mr)
		ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	ck_assert_int_eq(ibv_free_dm(dm), 0);
	return result;
}

static int make_ibv_import_dm(void)
{
	struct ibv_dm *dm = make_dm(), *imported;
	int result;

	ck_assert_ptr_nonnull(dm);
	imported = ibv_import_dm(pair->context, dm->handle);
	result = by_null(imported);
	if (imported)
		unimport_dm(imported);
	ck_assert_int_eq(ibv_free_dm(dm), 0);
	return result;
}

static int make_ibv_advise_mr(void)
{
	struct ibv_sge sge = {(uintptr_t)pair->buffer, 64, pair->mr->lkey};

	return by_errno(ibv_advise_mr(pair->pd, IBV_ADVISE_MR_ADVICE_PREFETCH,
				      IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1));
}

MADE(ibv_alloc_mw, struct ibv_mw, ibv_alloc_mw(pair->pd, IBV_MW_TYPE_2), ibv_dealloc_mw)
DESTROYED(ibv_dealloc_mw, struct ibv_mw, ibv_alloc_mw(pair->pd, IBV_MW_TYPE_2), ibv_dealloc_mw)

static int make_ibv_bind_mw(void)
{
	struct ibv_mw_bind bind = {
		.send_flags = IBV_SEND_SIGNALED,
		.bind_info = {bindable, (uintptr_t)pair->buffer, 64, IBV_ACCESS_REMOTE_WRITE},
	};
	uint32_t before = window->rkey;
	int result = by_errno(ibv_bind_mw(pair->sender, window, &bind));

	if (result)
		ck_assert_uint_eq(window->rkey, before);
	else
		ck_assert_int_eq(wait_completion(pair->send_cq).status, IBV_WC_SUCCESS);
	return result;
}

/* --- completion queues ---------------------------------------------------------------------- */

static struct ibv_cq *make_cq(void)
{
	return ibv_create_cq(pair->context, 4, NULL, NULL, 0);
}

static int destroy_cq_ex(struct ibv_cq_ex *cq)
{
	return ibv_destroy_cq(ibv_cq_ex_to_cq(cq));
}

MADE(ibv_create_comp_channel, struct ibv_comp_channel, ibv_create_comp_channel(pair->context),
     ibv_destroy_comp_channel)
DESTROYED(ibv_destroy_comp_channel, struct ibv_comp_channel, ibv_create_comp_channel(pair->context),
	  ibv_destroy_comp_channel)
CALL(ibv_get_cq_event,
     by_minus_one(ibv_get_cq_event(pair->channel, &(struct ibv_cq *){NULL}, &(void *){NULL})))
MADE(ibv_create_cq, struct ibv_cq, make_cq(), ibv_destroy_cq)
MADE(ibv_create_cq_ex, struct ibv_cq_ex,
     ibv_create_cq_ex(pair->context, &(struct ibv_cq_init_attr_ex){.cqe = 4}), destroy_cq_ex)
DESTROYED(ibv_destroy_cq, struct ibv_cq, make_cq(), ibv_destroy_cq)
CALL(ibv_resize_cq, by_errno(ibv_resize_cq(pair->send_cq, 3 * DEPTH)))
CALL(ibv_modify_cq, by_errno(ibv_modify_cq(pair->send_cq, &(struct ibv_modify_cq_attr){
								  .attr_mask = IBV_CQ_ATTR_MODERATE,
								  .moderate = {1, 0}})))
CALL(ibv_req_notify_cq, by_errno(ibv_req_notify_cq(pair->recv_cq, 0)))

static int make_ibv_poll_cq(void)
{
	struct ibv_wc wc;
	int result = ibv_poll_cq(pair->send_cq, 1, &wc);

	ck_assert_int_le(result, 0);
	return result ? errno : 0;
}

static int make_ibv_start_poll(void)
{
	static struct ibv_cq_ex *cq;

	if (!cq)
		cq = ibv_create_cq_ex(pair->context, &(struct ibv_cq_init_attr_ex){.cqe = 4});
	ck_assert_ptr_nonnull(cq);
	return ibv_start_poll(cq, &(struct ibv_poll_cq_attr){});
}

/* --- shared receive queues -------------------------------------------------------------------- */

static struct ibv_srq *make_srq(void)
{
	return ibv_create_srq(pair->pd, &(struct ibv_srq_init_attr){.attr = {4, 1}});
}

MADE(ibv_create_srq, struct ibv_srq, make_srq(), ibv_destroy_srq)
MADE(ibv_create_srq_ex, struct ibv_srq, make_xrc_srq(), ibv_destroy_srq)
DESTROYED(ibv_destroy_srq, struct ibv_srq, make_srq(), ibv_destroy_srq)
CALL(ibv_modify_srq,
     by_errno(ibv_modify_srq(srq, &(struct ibv_srq_attr){.srq_limit = 1}, IBV_SRQ_LIMIT)))
CALL(ibv_query_srq, by_errno(ibv_query_srq(srq, &(struct ibv_srq_attr){})))
CALL(ibv_get_srq_num, by_errno(ibv_get_srq_num(xrc_srq, &(uint32_t){0})))

static int make_ibv_post_srq_recv(void)
{
	struct ibv_recv_wr wr = {}, *bad = NULL;
	int result = by_errno(ibv_post_srq_recv(srq, &wr, &bad));

	ck_assert_ptr_eq(bad, result ? &wr : NULL);
	return result;
}

/* --- queue pairs ---------------------------------------------------------------------------- */

MADE(ibv_create_qp, struct ibv_qp, make_qp(IBV_QPT_RC), ibv_destroy_qp)
MADE(ibv_create_qp_ex, struct ibv_qp, make_qp_ex(IBV_QPT_RC), ibv_destroy_qp)
DESTROYED(ibv_destroy_qp, struct ibv_qp, make_qp(IBV_QPT_UD), ibv_destroy_qp)
CALL(ibv_modify_qp,
     by_errno(ibv_modify_qp(idle, &(struct ibv_qp_attr){.qp_state = IBV_QPS_RESET}, IBV_QP_STATE)))
CALL(ibv_query_qp, by_errno(ibv_query_qp(idle, &(struct ibv_qp_attr){}, IBV_QP_STATE,
					 &(struct ibv_qp_init_attr){})))
CALL(ibv_qp_to_qp_ex, by_null(ibv_qp_to_qp_ex(pair->sender)))
CALL(ibv_set_ece, by_errno(ibv_set_ece(idle, &(struct ibv_ece){})))
CALL(ibv_query_ece, by_errno(ibv_query_ece(idle, &(struct ibv_ece){})))
MADE(ibv_open_xrcd, struct ibv_xrcd, make_xrcd(), ibv_close_xrcd)
DESTROYED(ibv_close_xrcd, struct ibv_xrcd, make_xrcd(), ibv_close_xrcd)

static struct ibv_qp *open_xrc_qp(void)
{
	return ibv_open_qp(pair->context,
			   &(struct ibv_qp_open_attr){
				   .comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD |
						IBV_QP_OPEN_ATTR_TYPE,
				   .qp_num = xrc_qp->qp_num,
				   .xrcd = xrcd,
				   .qp_type = IBV_QPT_XRC_RECV,
			   });
}

MADE(ibv_open_qp, struct ibv_qp, open_xrc_qp(), ibv_destroy_qp)

/* It is in order or it isn't: refused, it isn't. */
static int make_ibv_query_qp_data_in_order(void)
{
	errno = 0;
	ck_assert_int_ge(ibv_query_qp_data_in_order(pair->sender, IBV_WR_RDMA_WRITE, 0), 0);
	return errno;
}

static int make_ibv_attach_mcast(void)
{
	int result = by_errno(ibv_attach_mcast(datagram, &group, 0));

	if (!result)
		ck_assert_int_eq(ibv_detach_mcast(datagram, &group, 0), 0);
	return result;
}

static int make_ibv_detach_mcast(void)
{
	static bool attached;
	int result;

	if (!attached)
		ck_assert_int_eq(ibv_attach_mcast(datagram, &group, 0), 0);
	result = by_errno(ibv_detach_mcast(datagram, &group, 0));
	attached = result;
	return result;
}

/* What is refused is not posted: of two work requests neither completes. */
static int make_ibv_post_send(void)
{
	struct ibv_sge sge = send_sge(pair, 64);
	struct ibv_send_wr wr[2] = {{
		.wr_id = 1,
		.next = &wr[1],
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = {(uintptr_t)pair->buffer + BUFFER_SIZE, pair->mr->rkey},
	}};
	struct ibv_send_wr *bad = NULL;
	int result;

	wr[1] = wr[0];
	wr[1].next = NULL;
	wr[1].wr_id = 2;
	result = by_errno(ibv_post_send(pair->sender, wr, &bad));
	ck_assert_ptr_eq(bad, result ? wr : NULL);
	if (!result) {
		ck_assert_uint_eq(wait_completion(pair->send_cq).wr_id, 1);
		ck_assert_uint_eq(wait_completion(pair->send_cq).wr_id, 2);
	}
	return result;
}

static int make_ibv_post_recv(void)
{
	struct ibv_recv_wr wr[2] = {{.wr_id = 1, .next = &wr[1]}, {.wr_id = 2}}, *bad = NULL;
	int result = by_errno(ibv_post_recv(pair->receiver, wr, &bad));

	ck_assert_ptr_eq(bad, result ? wr : NULL);
	return result;
}

static int make_ibv_wr_complete(void)
{
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(pair->sender);
	int result;

	ibv_wr_start(ex);
	ex->wr_id = 3;
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(ex, pair->mr->rkey, (uintptr_t)pair->buffer + BUFFER_SIZE);
	ibv_wr_set_sge(ex, pair->mr->lkey, (uintptr_t)pair->buffer, 64);
	result = ibv_wr_complete(ex);
	ck_assert_int_ge(result, 0);
	if (!result)
		ck_assert_uint_eq(wait_completion(pair->send_cq).wr_id, 3);
	return result;
}

/* --- address handles -------------------------------------------------------------------------- */

static struct ibv_ah *make_ah(void)
{
	struct ibv_ah_attr attr = own_path();

	return ibv_create_ah(pair->pd, &attr);
}

/* The GRH of a packet that came from here. */
static struct ibv_grh own_grh(void)
{
	struct ibv_grh grh = {.version_tclass_flow = htobe32(6u << 28)};

	ck_assert_int_eq(ibv_query_gid(pair->context, 1, 0, &grh.dgid), 0);
	grh.sgid = grh.dgid;
	return grh;
}

static struct ibv_ah *make_ah_from_wc(void)
{
	struct ibv_wc wc = {.wc_flags = IBV_WC_GRH};
	struct ibv_grh grh = own_grh();

	return ibv_create_ah_from_wc(pair->pd, &wc, &grh, 1);
}

static int make_ibv_init_ah_from_wc(void)
{
	struct ibv_wc wc = {.wc_flags = IBV_WC_GRH};
	struct ibv_grh grh = own_grh();
	struct ibv_ah_attr attr;

	return by_minus_one(ibv_init_ah_from_wc(pair->context, 1, &wc, &grh, &attr));
}

MADE(ibv_create_ah, struct ibv_ah, make_ah(), ibv_destroy_ah)
MADE(ibv_create_ah_from_wc, struct ibv_ah, make_ah_from_wc(), ibv_destroy_ah)
DESTROYED(ibv_destroy_ah, struct ibv_ah, make_ah(), ibv_destroy_ah)

/* --- the table ------------------------------------------------------------------------------ */

#define ROW(name) [FAULT_CALL_##name] = {make_##name, 0}
#define ROW_OF(name, usual) [FAULT_CALL_##name] = {make_##name, usual}

/* clang-format off */
const struct refused_row refused_verbs[FAULT_CALLS] = {
	ROW(ibv_open_device), ROW(ibv_close_device), ROW_OF(ibv_get_async_event, EAGAIN),
	ROW(ibv_query_device), ROW(ibv_query_port), ROW(ibv_query_gid), ROW(ibv_query_pkey),
	ROW(ibv_get_pkey_index), ROW(ibv_resolve_eth_l2_from_gid),
	ROW(ibv_import_dm), ROW(ibv_import_pd), ROW(ibv_import_mr),
	ROW(ibv_create_comp_channel), ROW(ibv_destroy_comp_channel), ROW_OF(ibv_get_cq_event, EAGAIN),
	ROW(ibv_alloc_pd), ROW(ibv_dealloc_pd),
	ROW(ibv_reg_mr), ROW(ibv_reg_mr_iova), ROW(ibv_reg_mr_iova2), ROW(ibv_rereg_mr), ROW(ibv_dereg_mr),
	ROW_OF(ibv_reg_dmabuf_mr, EINVAL), ROW(ibv_reg_mr_ex), ROW(ibv_alloc_buf), ROW(ibv_reg_buf_mr),
	ROW(ibv_create_cq), ROW(ibv_resize_cq), ROW(ibv_destroy_cq),
	ROW(ibv_create_srq), ROW(ibv_modify_srq), ROW(ibv_query_srq), ROW(ibv_destroy_srq),
	ROW(ibv_create_qp), ROW(ibv_modify_qp), ROW(ibv_query_qp), ROW(ibv_qp_to_qp_ex),
	ROW(ibv_query_qp_data_in_order), ROW(ibv_destroy_qp),
	ROW(ibv_attach_mcast), ROW(ibv_detach_mcast), ROW(ibv_set_ece), ROW(ibv_query_ece),
	ROW(ibv_create_ah), ROW(ibv_init_ah_from_wc), ROW(ibv_create_ah_from_wc), ROW(ibv_destroy_ah),
	ROW(ibv_post_send), ROW(ibv_post_recv), ROW(ibv_post_srq_recv), ROW(ibv_poll_cq), ROW(ibv_req_notify_cq),
	ROW(ibv_wr_complete), ROW_OF(ibv_start_poll, ENOENT),
	ROW(ibv_alloc_mw), ROW(ibv_bind_mw), ROW(ibv_dealloc_mw),
	ROW(ibv_query_device_ex), ROW(ibv_query_rt_values),
	ROW(ibv_alloc_parent_domain), ROW(ibv_alloc_td), ROW(ibv_dealloc_td),
	ROW_OF(ibv_advise_mr, EINVAL), ROW(ibv_alloc_null_mr), ROW(ibv_alloc_dm), ROW(ibv_free_dm), ROW(ibv_reg_dm_mr),
	ROW(ibv_create_cq_ex), ROW(ibv_modify_cq), ROW(ibv_create_qp_ex), ROW(ibv_create_srq_ex),
	ROW(ibv_open_xrcd), ROW(ibv_close_xrcd), ROW(ibv_get_srq_num), ROW(ibv_open_qp),
};
/* clang-format on */
