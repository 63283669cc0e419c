/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The verbs on our own objects: each has the name, the arguments and the
 * conventions of its man page, with urxe_ for ibv_. The application's calls come
 * from verbs/preload and by the operations of our contexts, by way of the checker
 * while hooks are on (verbs/hooks.h); verbs/rdma calls them for itself. Any thread, that holds no
 * lock but rdma.lock.
 */
#ifndef URXE_VERBS_OURS_H
#define URXE_VERBS_OURS_H

#include <infiniband/verbs.h>

struct context;

/* query.c */
int urxe_query_device(struct ibv_context *context, struct ibv_device_attr *attr);
int urxe_query_device_ex(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
			 struct ibv_device_attr_ex *attr, size_t attr_size);
int urxe_query_port(struct ibv_context *context, uint8_t port_num,
		    struct _compat_ibv_port_attr *attr);
int urxe_query_port_ex(struct ibv_context *context, uint8_t port_num, struct ibv_port_attr *attr,
		       size_t attr_size);
int urxe_query_port_speed(struct ibv_context *context, uint32_t port_num, uint64_t *port_speed);
int urxe_query_rt_values(struct ibv_context *context, struct ibv_values_ex *values);
int urxe_query_gid(struct ibv_context *context, uint8_t port_num, int index, union ibv_gid *gid);
int urxe_query_gid_ex(struct ibv_context *context, uint32_t port_num, uint32_t gid_index,
		      struct ibv_gid_entry *entry, uint32_t flags, size_t entry_size);
ssize_t urxe_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries,
			     size_t max_entries, uint32_t flags, size_t entry_size);
int urxe_query_gid_type(struct ibv_context *context, uint8_t port_num, unsigned int index,
			int *type);
int urxe_query_pkey(struct ibv_context *context, uint8_t port_num, int index, __be16 *pkey);
int urxe_get_pkey_index(struct ibv_context *context, uint8_t port_num, __be16 pkey);

/* context.c */
struct ibv_context *urxe_open_device(struct ibv_device *device);
struct ibv_context *urxe_import_device(int cmd_fd);
int urxe_close_device(struct ibv_context *context);

/* channel.c, event.c */
struct ibv_comp_channel *urxe_create_comp_channel(struct ibv_context *context);
int urxe_destroy_comp_channel(struct ibv_comp_channel *channel);
int urxe_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context);
void urxe_ack_cq_events(struct ibv_cq *cq, unsigned int count);
int urxe_get_async_event(struct ibv_context *context, struct ibv_async_event *event);
void urxe_ack_async_event(struct ibv_async_event *event);

/* pd.c */
struct ibv_pd *urxe_alloc_pd(struct ibv_context *context);
int urxe_dealloc_pd(struct ibv_pd *pd);
struct ibv_pd *urxe_import_pd(struct ibv_context *context, uint32_t pd_handle);
void urxe_unimport_pd(struct ibv_pd *pd);
struct ibv_td *urxe_alloc_td(struct ibv_context *context, struct ibv_td_init_attr *attr);
int urxe_dealloc_td(struct ibv_td *td);
struct ibv_pd *urxe_alloc_parent_domain(struct ibv_context *context,
					struct ibv_parent_domain_init_attr *attr);

/* mr.c */
struct ibv_mr *urxe_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access);
struct ibv_mr *urxe_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				int access);
struct ibv_mr *urxe_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				 unsigned int access);
int urxe_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length,
		  int access);
int urxe_dereg_mr(struct ibv_mr *mr);
struct ibv_mr *urxe_import_mr(struct ibv_pd *pd, uint32_t mr_handle);
void urxe_unimport_mr(struct ibv_mr *mr);
int urxe_advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
		   struct ibv_sge *sg_list, uint32_t num_sge);
struct ibv_mr *urxe_alloc_null_mr(struct ibv_pd *pd);
struct ibv_mw *urxe_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type);
int urxe_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind);
int urxe_dealloc_mw(struct ibv_mw *mw);

/* dm.c */
struct ibv_dm *urxe_alloc_dm(struct ibv_context *context, struct ibv_alloc_dm_attr *attr);
int urxe_free_dm(struct ibv_dm *dm);
struct ibv_dm *urxe_import_dm(struct ibv_context *context, uint32_t dm_handle);
void urxe_unimport_dm(struct ibv_dm *dm);
struct ibv_mr *urxe_reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *dm, uint64_t dm_offset,
			      size_t length, unsigned int access);

/* dmabuf.c */
struct ibv_mr *urxe_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova,
				  int fd, int access);

/* cq.c, cq_ex.c */
struct ibv_cq *urxe_create_cq(struct ibv_context *context, int cqe, void *cq_context,
			      struct ibv_comp_channel *channel, int comp_vector);
struct ibv_cq_ex *urxe_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr);
int urxe_resize_cq(struct ibv_cq *cq, int cqe);
int urxe_modify_cq(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr);
int urxe_destroy_cq(struct ibv_cq *cq);
int urxe_poll_cq(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc);
int urxe_req_notify_cq(struct ibv_cq *cq, int solicited_only);

/* srq.c */
struct ibv_srq *urxe_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr);
struct ibv_srq *urxe_create_srq_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr);
int urxe_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask);
int urxe_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr);
int urxe_destroy_srq(struct ibv_srq *srq);
int urxe_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

/* xrcd.c, open_qp.c */
struct ibv_xrcd *urxe_open_xrcd(struct ibv_context *context, struct ibv_xrcd_init_attr *attr);
int urxe_close_xrcd(struct ibv_xrcd *xrcd);
int urxe_get_srq_num(struct ibv_srq *srq, uint32_t *number);
struct ibv_qp *urxe_open_qp(struct ibv_context *context, struct ibv_qp_open_attr *attr);

/* qp.c, qp_ex.c */
struct ibv_qp *urxe_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
struct ibv_qp *urxe_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr);
struct ibv_qp_ex *urxe_qp_to_qp_ex(struct ibv_qp *qp);
int urxe_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
int urxe_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
		  struct ibv_qp_init_attr *init_attr);
int urxe_query_ece(struct ibv_qp *qp, struct ibv_ece *ece);
int urxe_set_ece(struct ibv_qp *qp, struct ibv_ece *ece);
int urxe_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags);
int urxe_destroy_qp(struct ibv_qp *qp);
int urxe_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid);
int urxe_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid);
int urxe_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int urxe_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

/* eth_l2.c */
int urxe_resolve_eth_l2_from_gid(struct ibv_context *context, struct ibv_ah_attr *attr,
				 uint8_t eth_mac[ETHERNET_LL_SIZE], uint16_t *vid);

/* ah.c */
struct ibv_ah *urxe_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr);
int urxe_init_ah_from_wc(struct ibv_context *context, uint8_t port_num, struct ibv_wc *wc,
			 struct ibv_grh *grh, struct ibv_ah_attr *attr);
struct ibv_ah *urxe_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh,
				      uint8_t port_num);
int urxe_destroy_ah(struct ibv_ah *ah);

#endif
