/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The application's calls as the checker sees them (URXE_CHECK): checked_NAME() has the arguments
 * and results of urxe_NAME() (verbs/ours.h, verbs/rdma/rdma.h), calls it, and looks at what was
 * asked before and at what came of it behind. A call of which there is nothing to check is the verb
 * itself. Called by the hooks (verbs/hooks.h), whether the checker is on or not; without locks.
 */
#ifndef URXE_VERBS_CHECKED_H
#define URXE_VERBS_CHECKED_H

/* --- libibverbs ------------------------------------------------------------- */

#define checked_open_device urxe_open_device
#define checked_close_device urxe_close_device
#define checked_get_async_event urxe_get_async_event
#define checked_query_device urxe_query_device
#define checked_query_port urxe_query_port
#define checked_query_gid urxe_query_gid
#define checked_query_pkey urxe_query_pkey
#define checked_get_pkey_index urxe_get_pkey_index
#define checked_resolve_eth_l2_from_gid urxe_resolve_eth_l2_from_gid
#define checked_import_dm urxe_import_dm
#define checked_import_pd urxe_import_pd
#define checked_unimport_dm urxe_unimport_dm
#define checked_unimport_pd urxe_unimport_pd
#define checked_unimport_mr urxe_unimport_mr
#define checked_create_comp_channel urxe_create_comp_channel
#define checked_destroy_comp_channel urxe_destroy_comp_channel
#define checked_get_cq_event urxe_get_cq_event
#define checked_alloc_pd urxe_alloc_pd
#define checked_dealloc_pd urxe_dealloc_pd
#define checked_reg_mr urxe_reg_mr
#define checked_reg_mr_iova urxe_reg_mr_iova
#define checked_reg_mr_iova2 urxe_reg_mr_iova2
#define checked_rereg_mr urxe_rereg_mr
#define checked_dereg_mr urxe_dereg_mr
#define checked_reg_dmabuf_mr urxe_reg_dmabuf_mr
#define checked_import_mr urxe_import_mr
#define checked_create_cq urxe_create_cq
#define checked_resize_cq urxe_resize_cq
#define checked_destroy_cq urxe_destroy_cq
#define checked_create_srq urxe_create_srq
#define checked_modify_srq urxe_modify_srq
#define checked_query_srq urxe_query_srq
#define checked_destroy_srq urxe_destroy_srq
#define checked_create_qp urxe_create_qp
#define checked_qp_to_qp_ex urxe_qp_to_qp_ex
#define checked_modify_qp urxe_modify_qp
#define checked_query_qp urxe_query_qp
#define checked_query_qp_data_in_order urxe_query_qp_data_in_order
#define checked_destroy_qp urxe_destroy_qp
#define checked_attach_mcast urxe_attach_mcast
#define checked_detach_mcast urxe_detach_mcast
#define checked_set_ece urxe_set_ece
#define checked_query_ece urxe_query_ece
#define checked_create_ah urxe_create_ah
#define checked_init_ah_from_wc urxe_init_ah_from_wc
#define checked_create_ah_from_wc urxe_create_ah_from_wc
#define checked_destroy_ah urxe_destroy_ah
#define checked_post_send urxe_post_send
#define checked_post_recv urxe_post_recv
#define checked_post_srq_recv urxe_post_srq_recv
#define checked_poll_cq urxe_poll_cq
#define checked_req_notify_cq urxe_req_notify_cq
#define checked_alloc_mw urxe_alloc_mw
#define checked_bind_mw urxe_bind_mw
#define checked_dealloc_mw urxe_dealloc_mw
#define checked_query_port_ex urxe_query_port_ex
#define checked_query_device_ex urxe_query_device_ex
#define checked_query_rt_values urxe_query_rt_values
#define checked_alloc_parent_domain urxe_alloc_parent_domain
#define checked_alloc_td urxe_alloc_td
#define checked_dealloc_td urxe_dealloc_td
#define checked_advise_mr urxe_advise_mr
#define checked_alloc_null_mr urxe_alloc_null_mr
#define checked_alloc_dm urxe_alloc_dm
#define checked_free_dm urxe_free_dm
#define checked_reg_dm_mr urxe_reg_dm_mr
#define checked_create_cq_ex urxe_create_cq_ex
#define checked_modify_cq urxe_modify_cq
#define checked_create_qp_ex urxe_create_qp_ex
#define checked_create_srq_ex urxe_create_srq_ex
#define checked_open_xrcd urxe_open_xrcd
#define checked_close_xrcd urxe_close_xrcd
#define checked_get_srq_num urxe_get_srq_num
#define checked_open_qp urxe_open_qp

/* --- librdmacm -------------------------------------------------------------- */

#define checked_rdma_accept urxe_rdma_accept
#define checked_rdma_ack_cm_event urxe_rdma_ack_cm_event
#define checked_rdma_bind_addr urxe_rdma_bind_addr
#define checked_rdma_connect urxe_rdma_connect
#define checked_rdma_create_ep urxe_rdma_create_ep
#define checked_rdma_create_event_channel urxe_rdma_create_event_channel
#define checked_rdma_create_id urxe_rdma_create_id
#define checked_rdma_create_qp urxe_rdma_create_qp
#define checked_rdma_create_qp_ex urxe_rdma_create_qp_ex
#define checked_rdma_create_srq urxe_rdma_create_srq
#define checked_rdma_create_srq_ex urxe_rdma_create_srq_ex
#define checked_rdma_destroy_ep urxe_rdma_destroy_ep
#define checked_rdma_destroy_event_channel urxe_rdma_destroy_event_channel
#define checked_rdma_destroy_id urxe_rdma_destroy_id
#define checked_rdma_destroy_qp urxe_rdma_destroy_qp
#define checked_rdma_destroy_srq urxe_rdma_destroy_srq
#define checked_rdma_disconnect urxe_rdma_disconnect
#define checked_rdma_free_devices urxe_rdma_free_devices
#define checked_rdma_freeaddrinfo urxe_rdma_freeaddrinfo
#define checked_rdma_get_cm_event urxe_rdma_get_cm_event
#define checked_rdma_get_devices urxe_rdma_get_devices
#define checked_rdma_get_request urxe_rdma_get_request
#define checked_rdma_getaddrinfo urxe_rdma_getaddrinfo
#define checked_rdma_join_multicast urxe_rdma_join_multicast
#define checked_rdma_leave_multicast urxe_rdma_leave_multicast
#define checked_rdma_listen urxe_rdma_listen
#define checked_rdma_migrate_id urxe_rdma_migrate_id
#define checked_rdma_notify urxe_rdma_notify
#define checked_rdma_reject urxe_rdma_reject
#define checked_rdma_resolve_addr urxe_rdma_resolve_addr
#define checked_rdma_resolve_route urxe_rdma_resolve_route
#define checked_rdma_set_option urxe_rdma_set_option
#define checked_rdma_join_multicast_ex urxe_rdma_join_multicast_ex
#define checked_rdma_establish urxe_rdma_establish
#define checked_rdma_init_qp_attr urxe_rdma_init_qp_attr
#define checked_rdma_get_remote_ece urxe_rdma_get_remote_ece
#define checked_rdma_reject_ece urxe_rdma_reject_ece
#define checked_rdma_set_local_ece urxe_rdma_set_local_ece
#define checked_rdma_get_src_port urxe_rdma_get_src_port
#define checked_rdma_get_dst_port urxe_rdma_get_dst_port
#define checked_rdma_query_addrinfo urxe_rdma_query_addrinfo
#define checked_rdma_resolve_addrinfo urxe_rdma_resolve_addrinfo
#define checked_rdma_write_cm_event urxe_rdma_write_cm_event

#endif
