/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * That the structures are those of old: it compiles, as C and as C++. Sizes and offsets are of
 * x86-64, and of whatever else has 64-bit pointers.
 */
#include <infiniband/verbs.h>
#include <rdma/rdma_verbs.h> /* whose inline calls are converted, too */

#ifdef __cplusplus
#define SAME(a, b) static_assert((a) == (b), #a " == " #b)
#else
#define SAME(a, b) _Static_assert((a) == (b), #a " == " #b)
#endif
#define AT(type, member, offset) SAME(offsetof(struct type, member), offset)
#define PREFIX(legacy, standard, member)                                                           \
	SAME(offsetof(struct legacy, member), offsetof(struct standard, member))

#ifdef __LP64__
SAME(sizeof(struct ibv_exp_device_attr), 384);
AT(ibv_exp_device_attr, exp_atomic_cap, 164);
AT(ibv_exp_device_attr, comp_mask, 228);
AT(ibv_exp_device_attr, calc_cap, 232);
AT(ibv_exp_device_attr, timestamp_mask, 272);
AT(ibv_exp_device_attr, hca_core_clock, 280);
AT(ibv_exp_device_attr, exp_device_cap_flags, 288);
AT(ibv_exp_device_attr, max_dc_req_rd_atom, 296);
AT(ibv_exp_device_attr, inline_recv_sz, 304);
AT(ibv_exp_device_attr, ext_atom, 312);
AT(ibv_exp_device_attr, umr_caps, 328);
AT(ibv_exp_device_attr, odp_caps, 344);
AT(ibv_exp_device_attr, max_dct, 376);

SAME(sizeof(struct ibv_exp_qp_init_attr), 112);
AT(ibv_exp_qp_init_attr, cap, 32);
AT(ibv_exp_qp_init_attr, comp_mask, 60);
AT(ibv_exp_qp_init_attr, pd, 64);
AT(ibv_exp_qp_init_attr, xrcd, 72);
AT(ibv_exp_qp_init_attr, exp_create_flags, 80);
AT(ibv_exp_qp_init_attr, qpg, 88);
AT(ibv_exp_qp_init_attr, max_atomic_arg, 104);
AT(ibv_exp_qp_init_attr, max_inl_send_klms, 108);

SAME(sizeof(struct ibv_exp_send_wr), 288);
AT(ibv_exp_send_wr, exp_opcode, 28);
AT(ibv_exp_send_wr, ex, 36);
AT(ibv_exp_send_wr, wr, 40);
AT(ibv_exp_send_wr, xrc_remote_srq_num, 72);
AT(ibv_exp_send_wr, task, 80);
AT(ibv_exp_send_wr, op, 112);
AT(ibv_exp_send_wr, dc, 128);
AT(ibv_exp_send_wr, bind_mw, 152);
AT(ibv_exp_send_wr, exp_send_flags, 200);
AT(ibv_exp_send_wr, comp_mask, 208);
AT(ibv_exp_send_wr, ext_op, 216);

SAME(sizeof(struct ibv_exp_wc), 88);
AT(ibv_exp_wc, exp_opcode, 12);
AT(ibv_exp_wc, imm_data, 24);
AT(ibv_exp_wc, pkey_index, 40);
AT(ibv_exp_wc, dlid_path_bits, 45);
AT(ibv_exp_wc, timestamp, 48);
AT(ibv_exp_wc, qp, 56);
AT(ibv_exp_wc, exp_wc_flags, 80);

SAME(sizeof(struct ibv_exp_dct_init_attr), 72);
AT(ibv_exp_dct_init_attr, access_flags, 36);
AT(ibv_exp_dct_init_attr, inline_size, 56);
SAME(sizeof(struct ibv_exp_dct_attr), 72);
AT(ibv_exp_dct_attr, key_violations, 32);
AT(ibv_exp_dct_attr, srq, 40);
SAME(sizeof(struct ibv_exp_dct), 48 + sizeof(pthread_mutex_t) + sizeof(pthread_cond_t));
SAME(sizeof(struct ibv_exp_task), 40);
#endif

/* What is copied as a whole from or to a structure of today. */
PREFIX(ibv_exp_device_attr, ibv_device_attr, node_guid);
PREFIX(ibv_exp_device_attr, ibv_device_attr, max_sge);
PREFIX(ibv_exp_device_attr, ibv_device_attr, max_srq_sge);
PREFIX(ibv_exp_device_attr, ibv_device_attr, phys_port_cnt);
SAME(offsetof(struct ibv_exp_device_attr, exp_atomic_cap),
     offsetof(struct ibv_device_attr, atomic_cap));
PREFIX(ibv_exp_qp_init_attr, ibv_qp_init_attr_ex, srq);
PREFIX(ibv_exp_qp_init_attr, ibv_qp_init_attr_ex, cap);
PREFIX(ibv_exp_qp_init_attr, ibv_qp_init_attr_ex, sq_sig_all);
PREFIX(ibv_exp_qp_init_attr, ibv_qp_init_attr_ex, comp_mask);
PREFIX(ibv_exp_qp_attr, ibv_qp_attr, ah_attr);
PREFIX(ibv_exp_qp_attr, ibv_qp_attr, pkey_index);
PREFIX(ibv_exp_qp_attr, ibv_qp_attr, alt_timeout);
PREFIX(ibv_exp_port_attr, ibv_port_attr, lid);
PREFIX(ibv_exp_port_attr, ibv_port_attr, link_layer);
SAME(sizeof(((struct ibv_exp_send_wr *)0)->wr), sizeof(((struct ibv_send_wr *)0)->wr));
SAME(offsetof(struct ibv_exp_flow, handle),
     offsetof(struct ibv_flow, handle) - offsetof(struct ibv_flow, context));

/* Members that today's structures don't have. */
SAME(sizeof(((struct ibv_srq *)0)->xrc_srq_num), sizeof(uint32_t));
SAME(sizeof(((struct ibv_send_wr *)0)->xrc_remote_srq_num), sizeof(uint32_t));
SAME(sizeof(((struct ibv_async_event *)0)->element.xrc_qp_num), sizeof(uint32_t));
SAME(sizeof(((struct ibv_qp_init_attr *)0)->xrc_domain), sizeof(void *));

#ifndef SECOND
const void *second(void);
#endif

int main(void)
{
#ifndef SECOND
	return second() != &verbs_exp_timestamp_cqs;
#endif
}
