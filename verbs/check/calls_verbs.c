/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls of libibverbs about objects: verbs/check/calls.h says what a line is. */
#include "emu/objects/qp_state.h"
#include "emu/objects/qp_type.h"
#include "verbs/check/calls.h"

#define CONTEXT                                                                                    \
	{                                                                                          \
		OBJECT_CONTEXT, context                                                            \
	}
#define IN_PD                                                                                      \
	{                                                                                          \
		OBJECT_PD, pd                                                                      \
	}

/* A member of attributes that is there if a bit of comp_mask says so. */
#define IF(bit, member) (attr->comp_mask & (bit) ? attr->member : NULL)
/* Those of a queue pair that has the queue: otherwise the member may be anything. */
#define SENDS(member) (qp_type_has(attr->qp_type, QP_POST_SEND) ? attr->member : NULL)
#define RECEIVES(member) (qp_type_has(attr->qp_type, QP_POST_RECV) ? attr->member : NULL)

/* clang-format off */

/* --- devices and contexts ------------------------------------------------------ */
MAKES(struct ibv_context *, open_device, "ibv_open_device()", CONTEXT, (struct ibv_device *device), (device), {0})
MAKES(struct ibv_context *, import_device, "ibv_import_device()", CONTEXT, (int cmd_fd), (cmd_fd), {0})
CALL(int, query_device, "ibv_query_device()", (struct ibv_context *context, struct ibv_device_attr *attr), (context, attr), AN_ERRNO, CONTEXT)
CALL(int, query_device_ex, "ibv_query_device_ex()", (struct ibv_context *context, const struct ibv_query_device_ex_input *input, struct ibv_device_attr_ex *attr, size_t attr_size), (context, input, attr, attr_size), AN_ERRNO, CONTEXT)
CALL(int, query_port, "ibv_query_port()", (struct ibv_context *context, uint8_t port_num, struct _compat_ibv_port_attr *attr), (context, port_num, attr), AN_ERRNO, CONTEXT)
CALL(int, query_port_ex, "ibv_query_port()", (struct ibv_context *context, uint8_t port_num, struct ibv_port_attr *attr, size_t attr_size), (context, port_num, attr, attr_size), AN_ERRNO, CONTEXT)
CALL(int, query_rt_values, "ibv_query_rt_values_ex()", (struct ibv_context *context, struct ibv_values_ex *values), (context, values), AN_ERRNO, CONTEXT)
CALL(int, query_gid, "ibv_query_gid()", (struct ibv_context *context, uint8_t port_num, int index, union ibv_gid *gid), (context, port_num, index, gid), MINUS_ONE, CONTEXT)
CALL(int, query_gid_ex, "ibv_query_gid_ex()", (struct ibv_context *context, uint32_t port_num, uint32_t gid_index, struct ibv_gid_entry *entry, uint32_t flags, size_t entry_size), (context, port_num, gid_index, entry, flags, entry_size), AN_ERRNO, CONTEXT)
CALL(ssize_t, query_gid_table, "ibv_query_gid_table()", (struct ibv_context *context, struct ibv_gid_entry *entries, size_t max_entries, uint32_t flags, size_t entry_size), (context, entries, max_entries, flags, entry_size), -EINVAL, CONTEXT)
CALL(int, query_gid_type, "ibv_query_gid_type()", (struct ibv_context *context, uint8_t port_num, unsigned int index, int *type), (context, port_num, index, type), MINUS_ONE, CONTEXT)
CALL(int, query_port_speed, "ibv_query_port_speed()", (struct ibv_context *context, uint32_t port_num, uint64_t *speed), (context, port_num, speed), AN_ERRNO, CONTEXT)
CALL(int, query_pkey, "ibv_query_pkey()", (struct ibv_context *context, uint8_t port_num, int index, __be16 *pkey), (context, port_num, index, pkey), MINUS_ONE, CONTEXT)
CALL(int, get_pkey_index, "ibv_get_pkey_index()", (struct ibv_context *context, uint8_t port_num, __be16 pkey), (context, port_num, pkey), MINUS_ONE, CONTEXT)
CALL(int, resolve_eth_l2_from_gid, "ibv_resolve_eth_l2_from_gid()", (struct ibv_context *context, struct ibv_ah_attr *attr, uint8_t eth_mac[ETHERNET_LL_SIZE], uint16_t *vid), (context, attr, eth_mac, vid), AN_ERRNO, CONTEXT)

/* --- domains ------------------------------------------------------------------- */
MAKES_COMPARED(struct ibv_pd *, alloc_pd, "ibv_alloc_pd()", PD, (struct ibv_context *context), (context), CONTEXT)
MAKES(struct ibv_pd *, import_pd, "ibv_import_pd()", PD, (struct ibv_context *context, uint32_t pd_handle), (context, pd_handle), CONTEXT)
MAKES(struct ibv_td *, alloc_td, "ibv_alloc_td()", TD, (struct ibv_context *context, struct ibv_td_init_attr *attr), (context, attr), CONTEXT)
MAKES(struct ibv_pd *, alloc_parent_domain, "ibv_alloc_parent_domain()", PD, (struct ibv_context *context, struct ibv_parent_domain_init_attr *attr), (context, attr), CONTEXT, {OBJECT_PD, attr->pd}, {OBJECT_TD, attr->td})
MAKES_COMPARED(struct ibv_xrcd *, open_xrcd, "ibv_open_xrcd()", XRCD, (struct ibv_context *context, struct ibv_xrcd_init_attr *attr), (context, attr), CONTEXT)
DESTROYS(dealloc_pd, "ibv_dealloc_pd()", PD, (struct ibv_pd *pd), (pd), pd)
ENDS(unimport_pd, "ibv_unimport_pd()", PD, (struct ibv_pd *pd), (pd), pd)
DESTROYS(dealloc_td, "ibv_dealloc_td()", TD, (struct ibv_td *td), (td), td)
DESTROYS(close_xrcd, "ibv_close_xrcd()", XRCD, (struct ibv_xrcd *xrcd), (xrcd), xrcd)

/* --- memory -------------------------------------------------------------------- */
MAKES_COMPARED(struct ibv_mr *, reg_mr, "ibv_reg_mr()", MR, (struct ibv_pd *pd, void *addr, size_t length, int access), (pd, addr, length, access), IN_PD)
MAKES_COMPARED(struct ibv_mr *, reg_mr_iova, "ibv_reg_mr_iova()", MR, (struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access), (pd, addr, length, iova, access), IN_PD)
MAKES_COMPARED(struct ibv_mr *, reg_mr_iova2, "ibv_reg_mr_iova2()", MR, (struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned int access), (pd, addr, length, iova, access), IN_PD)
MAKES(struct ibv_mr *, reg_mr_ex, "ibv_reg_mr_ex()", MR, (struct ibv_pd *pd, const struct mr_init_attr *attr), (pd, attr), IN_PD, {OBJECT_BUF, IF(MR_EX_BUF, buf)})
MAKES(struct ibv_mr *, reg_buf_mr, "ibv_reg_buf_mr()", MR, (struct ibv_pd *pd, struct buf *buf, void *addr, size_t length, int access), (pd, buf, addr, length, access), IN_PD, {OBJECT_BUF, buf})
MAKES(struct ibv_mr *, reg_dmabuf_mr, "ibv_reg_dmabuf_mr()", MR, (struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd, int access), (pd, offset, length, iova, fd, access), IN_PD)
MAKES(struct ibv_mr *, reg_dm_mr, "ibv_reg_dm_mr()", MR, (struct ibv_pd *pd, struct ibv_dm *dm, uint64_t dm_offset, size_t length, unsigned int access), (pd, dm, dm_offset, length, access), IN_PD, {OBJECT_DM, dm})
MAKES(struct ibv_mr *, import_mr, "ibv_import_mr()", MR, (struct ibv_pd *pd, uint32_t mr_handle), (pd, mr_handle), IN_PD)
MAKES(struct ibv_mr *, alloc_null_mr, "ibv_alloc_null_mr()", MR, (struct ibv_pd *pd), (pd), IN_PD)
MAKES_COMPARED(struct ibv_mw *, alloc_mw, "ibv_alloc_mw()", MW, (struct ibv_pd *pd, enum ibv_mw_type type), (pd, type), IN_PD)
MAKES_COMPARED(struct ibv_dm *, alloc_dm, "ibv_alloc_dm()", DM, (struct ibv_context *context, struct ibv_alloc_dm_attr *attr), (context, attr), CONTEXT)
MAKES(struct ibv_dm *, import_dm, "ibv_import_dm()", DM, (struct ibv_context *context, uint32_t dm_handle), (context, dm_handle), CONTEXT)
CALL(int, bind_mw, "ibv_bind_mw()", (struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind), (qp, mw, bind), AN_ERRNO, {OBJECT_QP, qp}, {OBJECT_MW, mw}, {OBJECT_MR, bind->bind_info.mr})
CALL(int, advise_mr, "ibv_advise_mr()", (struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags, struct ibv_sge *sg_list, uint32_t num_sge), (pd, advice, flags, sg_list, num_sge), AN_ERRNO, IN_PD)
DESTROYS(dereg_mr, "ibv_dereg_mr()", MR, (struct ibv_mr *mr), (mr), mr)
ENDS(unimport_mr, "ibv_unimport_mr()", MR, (struct ibv_mr *mr), (mr), mr)
DESTROYS(dealloc_mw, "ibv_dealloc_mw()", MW, (struct ibv_mw *mw), (mw), mw)
CALL(int, export_buf_dmabuf_fd, "ibv_export_buf_dmabuf_fd()", (struct buf *buf), (buf), MINUS_ONE, {OBJECT_BUF, buf})
ENDS(free_buf, "ibv_free_buf()", BUF, (struct buf *buf), (buf), buf)
DESTROYS(free_dm, "ibv_free_dm()", DM, (struct ibv_dm *dm), (dm), dm)
ENDS(unimport_dm, "ibv_unimport_dm()", DM, (struct ibv_dm *dm), (dm), dm)

/* --- completion queues and channels ----------------------------------------------- */
MAKES(struct ibv_comp_channel *, create_comp_channel, "ibv_create_comp_channel()", CHANNEL, (struct ibv_context *context), (context), CONTEXT)
MAKES_COMPARED(struct ibv_cq *, create_cq, "ibv_create_cq()", CQ, (struct ibv_context *context, int cqe, void *cq_context, struct ibv_comp_channel *channel, int comp_vector), (context, cqe, cq_context, channel, comp_vector), CONTEXT, {OBJECT_CHANNEL, channel})
MAKES_COMPARED(struct ibv_cq_ex *, create_cq_ex, "ibv_create_cq_ex()", CQ, (struct ibv_context *context, struct ibv_cq_init_attr_ex *attr), (context, attr), CONTEXT, {OBJECT_CHANNEL, attr->channel}, {OBJECT_PD, IF(IBV_CQ_INIT_ATTR_MASK_PD, parent_domain)})
CALL_COMPARED(int, resize_cq, "ibv_resize_cq()", (struct ibv_cq *cq, int cqe), (cq, cqe), AN_ERRNO, {OBJECT_CQ, cq})
CALL(int, modify_cq, "ibv_modify_cq()", (struct ibv_cq *cq, struct ibv_modify_cq_attr *attr), (cq, attr), AN_ERRNO, {OBJECT_CQ, cq})
DESTROYS(destroy_comp_channel, "ibv_destroy_comp_channel()", CHANNEL, (struct ibv_comp_channel *channel), (channel), channel)
DESTROYS(destroy_cq, "ibv_destroy_cq()", CQ, (struct ibv_cq *cq), (cq), cq)

/* --- shared receive queues ------------------------------------------------------- */
MAKES_COMPARED(struct ibv_srq *, create_srq, "ibv_create_srq()", SRQ, (struct ibv_pd *pd, struct ibv_srq_init_attr *attr), (pd, attr), IN_PD)
MAKES_COMPARED(struct ibv_srq *, create_srq_ex, "ibv_create_srq_ex()", SRQ, (struct ibv_context *context, struct ibv_srq_init_attr_ex *attr), (context, attr), CONTEXT, {OBJECT_PD, IF(IBV_SRQ_INIT_ATTR_PD, pd)}, {OBJECT_XRCD, IF(IBV_SRQ_INIT_ATTR_XRCD, xrcd)}, {OBJECT_CQ, IF(IBV_SRQ_INIT_ATTR_CQ, cq)})
CALL(int, modify_srq, "ibv_modify_srq()", (struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask), (srq, attr, mask), AN_ERRNO, {OBJECT_SRQ, srq})
CALL(int, query_srq, "ibv_query_srq()", (struct ibv_srq *srq, struct ibv_srq_attr *attr), (srq, attr), AN_ERRNO, {OBJECT_SRQ, srq})
CALL(int, get_srq_num, "ibv_get_srq_num()", (struct ibv_srq *srq, uint32_t *number), (srq, number), AN_ERRNO, {OBJECT_SRQ, srq})
DESTROYS(destroy_srq, "ibv_destroy_srq()", SRQ, (struct ibv_srq *srq), (srq), srq)

/* --- queue pairs ----------------------------------------------------------------- */
MAKES_COMPARED(struct ibv_qp *, create_qp, "ibv_create_qp()", QP, (struct ibv_pd *pd, struct ibv_qp_init_attr *attr), (pd, attr), IN_PD, {OBJECT_CQ, SENDS(send_cq)}, {OBJECT_CQ, RECEIVES(recv_cq)}, {OBJECT_SRQ, RECEIVES(srq)})
MAKES_COMPARED(struct ibv_qp *, create_qp_ex, "ibv_create_qp_ex()", QP, (struct ibv_context *context, struct ibv_qp_init_attr_ex *attr), (context, attr), CONTEXT, {OBJECT_PD, IF(IBV_QP_INIT_ATTR_PD, pd)}, {OBJECT_XRCD, IF(IBV_QP_INIT_ATTR_XRCD, xrcd)}, {OBJECT_CQ, SENDS(send_cq)}, {OBJECT_CQ, RECEIVES(recv_cq)}, {OBJECT_SRQ, RECEIVES(srq)})
MAKES(struct ibv_qp *, open_qp, "ibv_open_qp()", QP, (struct ibv_context *context, struct ibv_qp_open_attr *attr), (context, attr), CONTEXT, {OBJECT_XRCD, IF(IBV_QP_OPEN_ATTR_XRCD, xrcd)})
CALL(struct ibv_qp_ex *, qp_to_qp_ex, "ibv_qp_to_qp_ex()", (struct ibv_qp *qp), (qp), A_NULL, {OBJECT_QP, qp})
CALL_COMPARED(int, modify_qp, "ibv_modify_qp()", (struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask), (qp, attr, mask), AN_ERRNO, {OBJECT_QP, qp})
CALL(int, query_qp, "ibv_query_qp()", (struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init_attr), (qp, attr, mask, init_attr), AN_ERRNO, {OBJECT_QP, qp})
CALL(int, query_qp_data_in_order, "ibv_query_qp_data_in_order()", (struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags), (qp, op, flags), 0, {OBJECT_QP, qp})
CALL_COMPARED(int, attach_mcast, "ibv_attach_mcast()", (struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid), (qp, gid, lid), AN_ERRNO, {OBJECT_QP, qp})
CALL(int, detach_mcast, "ibv_detach_mcast()", (struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid), (qp, gid, lid), AN_ERRNO, {OBJECT_QP, qp})
CALL(int, set_ece, "ibv_set_ece()", (struct ibv_qp *qp, struct ibv_ece *ece), (qp, ece), AN_ERRNO, {OBJECT_QP, qp})
CALL(int, query_ece, "ibv_query_ece()", (struct ibv_qp *qp, struct ibv_ece *ece), (qp, ece), AN_ERRNO, {OBJECT_QP, qp})
DESTROYS(destroy_qp, "ibv_destroy_qp()", QP, (struct ibv_qp *qp), (qp), qp)

/* --- address handles ------------------------------------------------------------- */
MAKES_COMPARED(struct ibv_ah *, create_ah, "ibv_create_ah()", AH, (struct ibv_pd *pd, struct ibv_ah_attr *attr), (pd, attr), IN_PD)
MAKES(struct ibv_ah *, create_ah_from_wc, "ibv_create_ah_from_wc()", AH, (struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh, uint8_t port_num), (pd, wc, grh, port_num), IN_PD)
CALL(int, init_ah_from_wc, "ibv_init_ah_from_wc()", (struct ibv_context *context, uint8_t port_num, struct ibv_wc *wc, struct ibv_grh *grh, struct ibv_ah_attr *attr), (context, port_num, wc, grh, attr), MINUS_ONE, CONTEXT)
DESTROYS(destroy_ah, "ibv_destroy_ah()", AH, (struct ibv_ah *ah), (ah), ah)

/* clang-format on */

/* It succeeds whatever is left. */
int checked_close_device(struct ibv_context *context)
{
	static const char call[] = "ibv_close_device()";
	int error;

	if (!check_is_on())
		return urxe_close_device(context);
	if (!check_destroy(call, OBJECT_CONTEXT, context))
		return EINVAL;
	check_unused(call, context);
	error = urxe_close_device(context);
	check_destroy_done(OBJECT_CONTEXT, context, error);
	return error;
}

/* The object is the handle. */
void *checked_alloc_buf(struct ibv_pd *pd, size_t size, struct buf **buf)
{
	const struct object_use uses[] = {IN_PD, {0}};
	void *address;

	if (!check_is_on())
		return urxe_alloc_buf(pd, size, buf);
	if (!check_uses("ibv_alloc_buf()", uses))
		return A_NULL;
	address = urxe_alloc_buf(pd, size, buf);
	if (address)
		object_made(OBJECT_BUF, *buf, uses);
	return address;
}

/* A region may change its domain. */
int checked_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length,
		     int access)
{
	struct ibv_pd *before = mr->pd, *now = flags & IBV_REREG_MR_CHANGE_PD ? pd : NULL;
	int result;

	if (check_is_on() && !CHECK_USES("ibv_rereg_mr()", {OBJECT_MR, mr}, {OBJECT_PD, now})) {
		errno = EINVAL;
		return IBV_REREG_MR_ERR_INPUT;
	}
	result = urxe_rereg_mr(mr, flags, pd, addr, length, access);
	if (result == 0 && now && check_is_on())
		object_move(mr, before, now);
	return result;
}
