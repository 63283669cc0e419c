/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The application's calls as the checker sees them (URXE_CHECK): checked_NAME() has the arguments
 * and results of urxe_NAME() (verbs/ours.h, verbs/rdma/rdma.h), calls it, and looks at what was
 * asked before and at what came of it behind. Called by the hooks (verbs/hooks.h), whether the
 * checker is on or not, without locks. The calls are in the files of this folder by what they are
 * about: calls_*.c.
 */
#ifndef URXE_VERBS_CHECKED_H
#define URXE_VERBS_CHECKED_H

#include "verbs/hooks.h"
#include "verbs/mr_ex.h"
#include "verbs/ours.h"
#include "verbs/rdma/rdma.h"

#define CHECKED(name) __typeof__(urxe_##name) checked_##name

/* What a call goes to that no fault refuses (verbs/hooks.h). */
#define HOOKED(name) (__builtin_expect(hooks_on(), 0) ? checked_##name : urxe_##name)

/* --- libibverbs ------------------------------------------------------------- */

CHECKED(open_device);
CHECKED(close_device);
CHECKED(get_async_event);
CHECKED(query_device);
CHECKED(query_port);
CHECKED(query_gid);
CHECKED(query_gid_ex);
CHECKED(query_gid_table);
CHECKED(query_gid_type);
CHECKED(query_port_speed);
CHECKED(query_pkey);
CHECKED(get_pkey_index);
CHECKED(resolve_eth_l2_from_gid);
CHECKED(import_dm);
CHECKED(import_device);
CHECKED(import_pd);
CHECKED(unimport_dm);
CHECKED(unimport_pd);
CHECKED(unimport_mr);
CHECKED(create_comp_channel);
CHECKED(destroy_comp_channel);
CHECKED(get_cq_event);
CHECKED(ack_cq_events);
CHECKED(ack_async_event);
CHECKED(alloc_pd);
CHECKED(dealloc_pd);
CHECKED(reg_mr);
CHECKED(reg_mr_iova);
CHECKED(reg_mr_iova2);
CHECKED(rereg_mr);
CHECKED(dereg_mr);
CHECKED(reg_dmabuf_mr);
CHECKED(import_mr);
CHECKED(reg_mr_ex);
CHECKED(alloc_buf);
CHECKED(free_buf);
CHECKED(export_buf_dmabuf_fd);
CHECKED(reg_buf_mr);
CHECKED(create_cq);
CHECKED(resize_cq);
CHECKED(destroy_cq);
CHECKED(create_srq);
CHECKED(modify_srq);
CHECKED(query_srq);
CHECKED(destroy_srq);
CHECKED(create_qp);
CHECKED(qp_to_qp_ex);
CHECKED(modify_qp);
CHECKED(query_qp);
CHECKED(query_qp_data_in_order);
CHECKED(destroy_qp);
CHECKED(attach_mcast);
CHECKED(detach_mcast);
CHECKED(set_ece);
CHECKED(query_ece);
CHECKED(create_ah);
CHECKED(init_ah_from_wc);
CHECKED(create_ah_from_wc);
CHECKED(destroy_ah);
CHECKED(post_send);
CHECKED(post_recv);
CHECKED(post_srq_recv);
CHECKED(poll_cq);
CHECKED(req_notify_cq);
CHECKED(alloc_mw);
CHECKED(bind_mw);
CHECKED(dealloc_mw);
CHECKED(query_port_ex);
CHECKED(query_device_ex);
CHECKED(query_rt_values);
CHECKED(alloc_parent_domain);
CHECKED(alloc_td);
CHECKED(dealloc_td);
CHECKED(advise_mr);
CHECKED(alloc_null_mr);
CHECKED(alloc_dm);
CHECKED(free_dm);
CHECKED(reg_dm_mr);
CHECKED(create_cq_ex);
CHECKED(modify_cq);
CHECKED(create_qp_ex);
CHECKED(create_srq_ex);
CHECKED(open_xrcd);
CHECKED(close_xrcd);
CHECKED(get_srq_num);
CHECKED(open_qp);

/* post_requests() of what ibv_wr_complete() has built. */
int checked_post_built(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);

/* --- librdmacm -------------------------------------------------------------- */

CHECKED(rdma_accept);
CHECKED(rdma_ack_cm_event);
CHECKED(rdma_bind_addr);
CHECKED(rdma_connect);
CHECKED(rdma_create_ep);
CHECKED(rdma_create_event_channel);
CHECKED(rdma_create_id);
CHECKED(rdma_create_qp);
CHECKED(rdma_create_qp_ex);
CHECKED(rdma_create_srq);
CHECKED(rdma_create_srq_ex);
CHECKED(rdma_destroy_ep);
CHECKED(rdma_destroy_event_channel);
CHECKED(rdma_destroy_id);
CHECKED(rdma_destroy_qp);
CHECKED(rdma_destroy_srq);
CHECKED(rdma_disconnect);
CHECKED(rdma_free_devices);
CHECKED(rdma_freeaddrinfo);
CHECKED(rdma_get_cm_event);
CHECKED(rdma_get_devices);
CHECKED(rdma_get_request);
CHECKED(rdma_getaddrinfo);
CHECKED(rdma_join_multicast);
CHECKED(rdma_leave_multicast);
CHECKED(rdma_listen);
CHECKED(rdma_migrate_id);
CHECKED(rdma_notify);
CHECKED(rdma_reject);
CHECKED(rdma_resolve_addr);
CHECKED(rdma_resolve_route);
CHECKED(rdma_set_option);
CHECKED(rdma_join_multicast_ex);
CHECKED(rdma_establish);
CHECKED(rdma_init_qp_attr);
CHECKED(rdma_get_remote_ece);
CHECKED(rdma_reject_ece);
CHECKED(rdma_set_local_ece);
CHECKED(rdma_get_src_port);
CHECKED(rdma_get_dst_port);
CHECKED(rdma_query_addrinfo);
CHECKED(rdma_resolve_addrinfo);
CHECKED(rdma_write_cm_event);

#undef CHECKED

#endif
