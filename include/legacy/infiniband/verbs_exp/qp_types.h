/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Structures and constants of the experimental verbs: what belongs to queue pairs, flows and DC
 * targets.
 */
#ifndef INFINIBAND_VERBS_EXP_QP_TYPES_H
#define INFINIBAND_VERBS_EXP_QP_TYPES_H

#include <infiniband/verbs_exp/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define IBV_EXP_QPT_DC_INI ((enum ibv_qp_type)32)

/* --- creating and modifying ------------------------------------------------ */

enum ibv_exp_qp_init_attr_comp_mask {
	IBV_EXP_QP_INIT_ATTR_PD = 1 << 0,
	IBV_EXP_QP_INIT_ATTR_XRCD = 1 << 1,
	IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS = 1 << 2,
	IBV_EXP_QP_INIT_ATTR_INL_RECV = 1 << 3,
	IBV_EXP_QP_INIT_ATTR_QPG = 1 << 4,
	IBV_EXP_QP_INIT_ATTR_ATOMICS_ARG = 1 << 5,
	IBV_EXP_QP_INIT_ATTR_MAX_INL_KLMS = 1 << 6,
	IBV_EXP_QP_INIT_ATTR_RESERVED = 1 << 7,
};

enum ibv_exp_qpg_type {
	IBV_EXP_QPG_NONE = 0,
	IBV_EXP_QPG_PARENT = 1 << 0,
	IBV_EXP_QPG_CHILD_RX = 1 << 1,
	IBV_EXP_QPG_CHILD_TX = 1 << 2,
};

struct ibv_exp_qpg_init_attrib {
	uint32_t tss_child_count, rss_child_count;
};

struct ibv_exp_qpg {
	uint32_t qpg_type;
	union {
		struct ibv_qp *qpg_parent;
		struct ibv_exp_qpg_init_attrib parent_attrib;
	};
};

enum ibv_exp_qp_create_flags {
	IBV_EXP_QP_CREATE_CROSS_CHANNEL = 1 << 2,
	IBV_EXP_QP_CREATE_MANAGED_SEND = 1 << 3,
	IBV_EXP_QP_CREATE_MANAGED_RECV = 1 << 4,
	IBV_EXP_QP_CREATE_IGNORE_SQ_OVERFLOW = 1 << 6,
	IBV_EXP_QP_CREATE_IGNORE_RQ_OVERFLOW = 1 << 7,
	IBV_EXP_QP_CREATE_ATOMIC_BE_REPLY = 1 << 8,
	IBV_EXP_QP_CREATE_UMR = 1 << 9,
	IBV_EXP_QP_CREATE_MASK = 0x3dc,
};

struct ibv_exp_qp_init_attr {
	/* As struct ibv_qp_init_attr. */
	void *qp_context;
	struct ibv_cq *send_cq, *recv_cq;
	struct ibv_srq *srq;
	struct ibv_qp_cap cap;
	enum ibv_qp_type qp_type;
	int sq_sig_all;
	uint32_t comp_mask;
	struct ibv_pd *pd;
	struct ibv_xrcd *xrcd;
	uint32_t exp_create_flags, max_inl_recv;
	struct ibv_exp_qpg qpg;
	uint32_t max_atomic_arg, max_inl_send_klms;
};

enum ibv_exp_qp_attr_mask {
	IBV_EXP_QP_STATE = IBV_QP_STATE,
	IBV_EXP_QP_CUR_STATE = IBV_QP_CUR_STATE,
	IBV_EXP_QP_EN_SQD_ASYNC_NOTIFY = IBV_QP_EN_SQD_ASYNC_NOTIFY,
	IBV_EXP_QP_ACCESS_FLAGS = IBV_QP_ACCESS_FLAGS,
	IBV_EXP_QP_PKEY_INDEX = IBV_QP_PKEY_INDEX,
	IBV_EXP_QP_PORT = IBV_QP_PORT,
	IBV_EXP_QP_QKEY = IBV_QP_QKEY,
	IBV_EXP_QP_AV = IBV_QP_AV,
	IBV_EXP_QP_PATH_MTU = IBV_QP_PATH_MTU,
	IBV_EXP_QP_TIMEOUT = IBV_QP_TIMEOUT,
	IBV_EXP_QP_RETRY_CNT = IBV_QP_RETRY_CNT,
	IBV_EXP_QP_RNR_RETRY = IBV_QP_RNR_RETRY,
	IBV_EXP_QP_RQ_PSN = IBV_QP_RQ_PSN,
	IBV_EXP_QP_MAX_QP_RD_ATOMIC = IBV_QP_MAX_QP_RD_ATOMIC,
	IBV_EXP_QP_ALT_PATH = IBV_QP_ALT_PATH,
	IBV_EXP_QP_MIN_RNR_TIMER = IBV_QP_MIN_RNR_TIMER,
	IBV_EXP_QP_SQ_PSN = IBV_QP_SQ_PSN,
	IBV_EXP_QP_MAX_DEST_RD_ATOMIC = IBV_QP_MAX_DEST_RD_ATOMIC,
	IBV_EXP_QP_PATH_MIG_STATE = IBV_QP_PATH_MIG_STATE,
	IBV_EXP_QP_CAP = IBV_QP_CAP,
	IBV_EXP_QP_DEST_QPN = IBV_QP_DEST_QPN,

	IBV_EXP_QP_GROUP_RSS = IBV_EXP_START_FLAG << 21,
	IBV_EXP_QP_DC_KEY = IBV_EXP_START_FLAG << 22,
};

enum ibv_exp_qp_attr_comp_mask {
	IBV_EXP_QP_ATTR_RESERVED = 1 << 0,
};

struct ibv_exp_qp_attr {
	/* As struct ibv_qp_attr. */
	enum ibv_qp_state qp_state, cur_qp_state;
	enum ibv_mtu path_mtu;
	enum ibv_mig_state path_mig_state;
	uint32_t qkey, rq_psn, sq_psn, dest_qp_num;
	int qp_access_flags;
	struct ibv_qp_cap cap;
	struct ibv_ah_attr ah_attr, alt_ah_attr;
	uint16_t pkey_index, alt_pkey_index;
	uint8_t en_sqd_async_notify, sq_draining, max_rd_atomic, max_dest_rd_atomic;
	uint8_t min_rnr_timer, port_num, timeout, retry_cnt, rnr_retry, alt_port_num, alt_timeout;
	uint64_t dct_key;
	uint32_t comp_mask;
};

/* --- work requests --------------------------------------------------------- */

enum ibv_exp_wr_opcode {
	IBV_EXP_WR_RDMA_WRITE = IBV_WR_RDMA_WRITE,
	IBV_EXP_WR_RDMA_WRITE_WITH_IMM = IBV_WR_RDMA_WRITE_WITH_IMM,
	IBV_EXP_WR_SEND = IBV_WR_SEND,
	IBV_EXP_WR_SEND_WITH_IMM = IBV_WR_SEND_WITH_IMM,
	IBV_EXP_WR_RDMA_READ = IBV_WR_RDMA_READ,
	IBV_EXP_WR_ATOMIC_CMP_AND_SWP = IBV_WR_ATOMIC_CMP_AND_SWP,
	IBV_EXP_WR_ATOMIC_FETCH_AND_ADD = IBV_WR_ATOMIC_FETCH_AND_ADD,

	IBV_EXP_WR_SEND_WITH_INV = IBV_EXP_START_ENUM + 8,
	IBV_EXP_WR_LOCAL_INV = IBV_EXP_START_ENUM + 10,
	IBV_EXP_WR_BIND_MW = IBV_EXP_START_ENUM + 14,
	IBV_EXP_WR_SEND_ENABLE = IBV_EXP_START_ENUM + 0x20,
	IBV_EXP_WR_RECV_ENABLE,
	IBV_EXP_WR_CQE_WAIT,
	IBV_EXP_WR_EXT_MASKED_ATOMIC_CMP_AND_SWP,
	IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD,
	IBV_EXP_WR_NOP,
	IBV_EXP_WR_UMR_FILL,
	IBV_EXP_WR_UMR_INVALIDATE,
};

enum ibv_exp_send_flags {
	IBV_EXP_SEND_FENCE = IBV_SEND_FENCE,
	IBV_EXP_SEND_SIGNALED = IBV_SEND_SIGNALED,
	IBV_EXP_SEND_SOLICITED = IBV_SEND_SOLICITED,
	IBV_EXP_SEND_INLINE = IBV_SEND_INLINE,

	IBV_EXP_SEND_IP_CSUM = IBV_EXP_START_FLAG << 0,
	IBV_EXP_SEND_WITH_CALC = IBV_EXP_START_FLAG << 1,
	IBV_EXP_SEND_WAIT_EN_LAST = IBV_EXP_START_FLAG << 2,
	IBV_EXP_SEND_EXT_ATOMIC_INLINE = IBV_EXP_START_FLAG << 3,
};

enum ibv_exp_calc_op {
	IBV_EXP_CALC_OP_ADD,
	IBV_EXP_CALC_OP_MAXLOC,
	IBV_EXP_CALC_OP_BAND,
	IBV_EXP_CALC_OP_BXOR,
	IBV_EXP_CALC_OP_BOR,
	IBV_EXP_CALC_OP_NUMBER,
};

enum ibv_exp_calc_data_type {
	IBV_EXP_CALC_DATA_TYPE_INT,
	IBV_EXP_CALC_DATA_TYPE_UINT,
	IBV_EXP_CALC_DATA_TYPE_FLOAT,
	IBV_EXP_CALC_DATA_TYPE_NUMBER,
};

enum ibv_exp_calc_data_size {
	IBV_EXP_CALC_DATA_SIZE_64_BIT,
	IBV_EXP_CALC_DATA_SIZE_NUMBER,
};

struct ibv_exp_cmp_swap {
	uint64_t compare_mask, compare_val, swap_val, swap_mask;
};

struct ibv_exp_fetch_add {
	uint64_t add_val, field_boundary;
};

enum ibv_exp_send_wr_comp_mask {
	IBV_EXP_SEND_WR_ATTR_RESERVED = 1 << 0,
};

struct ibv_exp_send_wr {
	uint64_t wr_id;
	struct ibv_exp_send_wr *next;
	struct ibv_sge *sg_list;
	int num_sge;
	enum ibv_exp_wr_opcode exp_opcode;
	int reserved;
	union {
		uint32_t imm_data; /* network byte order */
		uint32_t invalidate_rkey;
	} ex;
	union {
		struct {
			uint64_t remote_addr;
			uint32_t rkey;
		} rdma;
		struct {
			uint64_t remote_addr, compare_add, swap;
			uint32_t rkey;
		} atomic;
		struct {
			struct ibv_ah *ah;
			uint32_t remote_qpn, remote_qkey;
		} ud;
	} wr;
	union {
		union {
			struct {
				uint32_t remote_srqn;
			} xrc;
		} qp_type;
		uint32_t xrc_remote_srq_num;
	};
	union {
		struct {
			uint64_t remote_addr;
			uint32_t rkey;
		} rdma;
		struct {
			uint64_t remote_addr, compare_add, swap;
			uint32_t rkey;
		} atomic;
		struct {
			struct ibv_cq *cq;
			int32_t cq_count;
		} cqe_wait;
		struct {
			struct ibv_qp *qp;
			int32_t wqe_count;
		} wqe_enable;
	} task;
	union {
		struct {
			enum ibv_exp_calc_op calc_op;
			enum ibv_exp_calc_data_type data_type;
			enum ibv_exp_calc_data_size data_size;
		} calc;
	} op;
	struct {
		struct ibv_ah *ah;
		uint64_t dct_access_key;
		uint32_t dct_number;
	} dc;
	struct {
		struct ibv_mw *mw;
		uint32_t rkey;
		struct ibv_exp_mw_bind_info bind_info;
	} bind_mw;
	uint64_t exp_send_flags;
	uint32_t comp_mask;
	union {
		struct {
			uint32_t umr_type;
			struct ibv_exp_mkey_list_container *memory_objects;
			uint64_t exp_access;
			struct ibv_mr *modified_mr;
			uint64_t base_addr;
			uint32_t num_mrs;
			union {
				struct ibv_exp_mem_region *mem_reg_list;
				struct {
					struct ibv_exp_mem_repeat_block *mem_repeat_block_list;
					size_t *repeat_count;
					uint32_t stride_dim;
				} rb;
			} mem_list;
		} umr;
		struct {
			uint32_t log_arg_sz;
			uint64_t remote_addr;
			uint32_t rkey;
			union {
				struct {
					union {
						struct ibv_exp_cmp_swap cmp_swap;
						struct ibv_exp_fetch_add fetch_add;
					} op;
				} inline_data;
			} wr_data;
		} masked_atomics;
	} ext_op;
};

enum ibv_exp_task_type {
	IBV_EXP_TASK_SEND,
	IBV_EXP_TASK_RECV,
};

enum ibv_exp_task_comp_mask {
	IBV_EXP_TASK_RESERVED = 1 << 0,
};

struct ibv_exp_task {
	enum ibv_exp_task_type task_type;
	struct {
		struct ibv_qp *qp;
		union {
			struct ibv_exp_send_wr *send_wr;
			struct ibv_recv_wr *recv_wr;
		};
	} item;
	struct ibv_exp_task *next;
	uint32_t comp_mask;
};

enum ibv_exp_func_name {
	IBV_EXP_POST_SEND_FUNC,
	IBV_EXP_POLL_CQ_FUNC,
	IBV_POST_SEND_FUNC,
	IBV_POLL_CQ_FUNC,
	IBV_POST_RECV_FUNC,
};

/* --- flows ----------------------------------------------------------------- */

enum ibv_exp_flow_flags {
	IBV_EXP_FLOW_ATTR_FLAGS_ALLOW_LOOP_BACK = 1,
};

enum ibv_exp_flow_attr_type {
	IBV_EXP_FLOW_ATTR_NORMAL,
	IBV_EXP_FLOW_ATTR_ALL_DEFAULT,
	IBV_EXP_FLOW_ATTR_MC_DEFAULT,
	IBV_EXP_FLOW_ATTR_SNIFFER,
};

enum ibv_exp_flow_spec_type {
	IBV_EXP_FLOW_SPEC_ETH = 0x20,
	IBV_EXP_FLOW_SPEC_IB = 0x21,
	IBV_EXP_FLOW_SPEC_IPV4 = 0x30,
	IBV_EXP_FLOW_SPEC_TCP = 0x40,
	IBV_EXP_FLOW_SPEC_UDP = 0x41,
};

struct ibv_exp_flow_eth_filter {
	uint8_t dst_mac[6], src_mac[6];
	uint16_t ether_type, vlan_tag;
};

struct ibv_exp_flow_spec_eth {
	enum ibv_exp_flow_spec_type type;
	uint16_t size;
	struct ibv_exp_flow_eth_filter val, mask;
};

struct ibv_exp_flow_ib_filter {
	uint32_t qpn;
	uint8_t dst_gid[16];
};

struct ibv_exp_flow_spec_ib {
	enum ibv_exp_flow_spec_type type;
	uint16_t size;
	struct ibv_exp_flow_ib_filter val, mask;
};

struct ibv_exp_flow_ipv4_filter {
	uint32_t src_ip, dst_ip;
};

struct ibv_exp_flow_spec_ipv4 {
	enum ibv_exp_flow_spec_type type;
	uint16_t size;
	struct ibv_exp_flow_ipv4_filter val, mask;
};

struct ibv_exp_flow_tcp_udp_filter {
	uint16_t dst_port, src_port;
};

struct ibv_exp_flow_spec_tcp_udp {
	enum ibv_exp_flow_spec_type type;
	uint16_t size;
	struct ibv_exp_flow_tcp_udp_filter val, mask;
};

struct ibv_exp_flow_spec {
	union {
		struct {
			enum ibv_exp_flow_spec_type type;
			uint16_t size;
		} hdr;
		struct ibv_exp_flow_spec_ib ib;
		struct ibv_exp_flow_spec_eth eth;
		struct ibv_exp_flow_spec_ipv4 ipv4;
		struct ibv_exp_flow_spec_tcp_udp tcp_udp;
	};
};

/* The specifications follow in memory. */
struct ibv_exp_flow_attr {
	enum ibv_exp_flow_attr_type type;
	uint16_t size, priority;
	uint8_t num_of_specs, port;
	uint32_t flags;
	uint64_t reserved;
};

/* What struct ibv_flow has behind its comp_mask. */
struct ibv_exp_flow {
	struct ibv_context *context;
	uint32_t handle;
};

/* --- dynamically connected transport --------------------------------------- */

enum {
	IBV_EXP_DCT_STATE_ACTIVE,
	IBV_EXP_DCT_STATE_DRAINING,
	IBV_EXP_DCT_STATE_DRAINED,
};

enum ibv_exp_dct_init_attr_comp_mask {
	IBV_EXP_DCT_INIT_ATTR_RESERVED = 1 << 0,
};

struct ibv_exp_dct_init_attr {
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	uint64_t dc_key;
	uint8_t port;
	uint32_t access_flags;
	uint8_t min_rnr_timer, tclass;
	uint32_t flow_label;
	enum ibv_mtu mtu;
	uint8_t pkey_index, gid_index, hop_limit;
	uint32_t inline_size, create_flags, comp_mask;
};

enum ibv_exp_dct_attr_comp_mask {
	IBV_EXP_DCT_ATTR_RESERVED = 1 << 0,
};

struct ibv_exp_dct_attr {
	uint64_t dc_key;
	uint8_t port;
	uint32_t access_flags;
	uint8_t min_rnr_timer, tclass;
	uint32_t flow_label;
	enum ibv_mtu mtu;
	uint8_t pkey_index, gid_index, hop_limit;
	uint32_t key_violations;
	uint8_t state;
	struct ibv_srq *srq;
	struct ibv_cq *cq;
	struct ibv_pd *pd;
	uint32_t comp_mask;
};

struct ibv_exp_dct {
	struct ibv_context *context;
	uint32_t handle, dct_num;
	struct ibv_pd *pd;
	struct ibv_srq *srq;
	struct ibv_cq *cq;
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	uint32_t events_completed;
};

enum ibv_exp_arm_attr_comp_mask {
	IBV_EXP_ARM_ATTR_RESERVED = 1 << 0,
};

struct ibv_exp_arm_attr {
	uint32_t comp_mask;
};

#ifdef __cplusplus
}
#endif

#endif
