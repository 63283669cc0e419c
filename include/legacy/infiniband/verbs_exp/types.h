/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The structures and constants of the experimental verbs (ibv_exp_*), as programs of the
 * MLNX_OFED 2.x generation know them: names, values and layouts are theirs. What the calls make of
 * them is in ../verbs_exp.h. Queue pairs have theirs in qp_types.h.
 *
 * Features that extend a structure set a bit of its comp_mask. Flags of 64 bits have the standard
 * ones in their lower half. "reserved" stands where a standard structure has something of another
 * type.
 */
#ifndef INFINIBAND_VERBS_EXP_TYPES_H
#define INFINIBAND_VERBS_EXP_TYPES_H

#include <infiniband/verbs.h>

#ifdef __cplusplus
extern "C" {
#endif

enum ibv_exp_start_values {
	IBV_EXP_START_ENUM = 0x40,
	IBV_EXP_START_FLAG_LOC = 32,
	IBV_EXP_START_FLAG = 1ULL << IBV_EXP_START_FLAG_LOC,
};

#define IBV_EXP_IMPLICIT_MR_SIZE (~(size_t)0)

/* --- devices and ports ----------------------------------------------------- */

enum ibv_exp_atomic_cap {
	IBV_EXP_ATOMIC_NONE = IBV_ATOMIC_NONE,
	IBV_EXP_ATOMIC_HCA = IBV_ATOMIC_HCA,
	IBV_EXP_ATOMIC_GLOB = IBV_ATOMIC_GLOB,
	IBV_EXP_ATOMIC_HCA_REPLY_BE = IBV_EXP_START_ENUM,
};

enum ibv_exp_device_cap_flags {
	IBV_EXP_DEVICE_RESIZE_MAX_WR = IBV_DEVICE_RESIZE_MAX_WR,
	IBV_EXP_DEVICE_BAD_PKEY_CNTR = IBV_DEVICE_BAD_PKEY_CNTR,
	IBV_EXP_DEVICE_BAD_QKEY_CNTR = IBV_DEVICE_BAD_QKEY_CNTR,
	IBV_EXP_DEVICE_RAW_MULTI = IBV_DEVICE_RAW_MULTI,
	IBV_EXP_DEVICE_AUTO_PATH_MIG = IBV_DEVICE_AUTO_PATH_MIG,
	IBV_EXP_DEVICE_CHANGE_PHY_PORT = IBV_DEVICE_CHANGE_PHY_PORT,
	IBV_EXP_DEVICE_UD_AV_PORT_ENFORCE = IBV_DEVICE_UD_AV_PORT_ENFORCE,
	IBV_EXP_DEVICE_CURR_QP_STATE_MOD = IBV_DEVICE_CURR_QP_STATE_MOD,
	IBV_EXP_DEVICE_SHUTDOWN_PORT = IBV_DEVICE_SHUTDOWN_PORT,
	IBV_EXP_DEVICE_INIT_TYPE = IBV_DEVICE_INIT_TYPE,
	IBV_EXP_DEVICE_PORT_ACTIVE_EVENT = IBV_DEVICE_PORT_ACTIVE_EVENT,
	IBV_EXP_DEVICE_SYS_IMAGE_GUID = IBV_DEVICE_SYS_IMAGE_GUID,
	IBV_EXP_DEVICE_RC_RNR_NAK_GEN = IBV_DEVICE_RC_RNR_NAK_GEN,
	IBV_EXP_DEVICE_SRQ_RESIZE = IBV_DEVICE_SRQ_RESIZE,
	IBV_EXP_DEVICE_N_NOTIFY_CQ = IBV_DEVICE_N_NOTIFY_CQ,
	IBV_EXP_DEVICE_XRC = IBV_DEVICE_XRC,

	IBV_EXP_DEVICE_DC_TRANSPORT = IBV_EXP_START_FLAG << 0,
	IBV_EXP_DEVICE_QPG = IBV_EXP_START_FLAG << 1,
	IBV_EXP_DEVICE_UD_RSS = IBV_EXP_START_FLAG << 2,
	IBV_EXP_DEVICE_UD_TSS = IBV_EXP_START_FLAG << 3,
	IBV_EXP_DEVICE_EXT_ATOMICS = IBV_EXP_START_FLAG << 4,
	IBV_EXP_DEVICE_NOP = IBV_EXP_START_FLAG << 5,
	IBV_EXP_DEVICE_UMR = IBV_EXP_START_FLAG << 6,
	IBV_EXP_DEVICE_ODP = IBV_EXP_START_FLAG << 7,
	IBV_EXP_DEVICE_MEM_WINDOW = IBV_EXP_START_FLAG << 17,
	IBV_EXP_DEVICE_MEM_MGT_EXTENSIONS = IBV_EXP_START_FLAG << 21,
	IBV_EXP_DEVICE_MW_TYPE_2A = IBV_EXP_START_FLAG << 23,
	IBV_EXP_DEVICE_MW_TYPE_2B = IBV_EXP_START_FLAG << 24,
	IBV_EXP_DEVICE_CROSS_CHANNEL = IBV_EXP_START_FLAG << 28,
	IBV_EXP_DEVICE_MANAGED_FLOW_STEERING = IBV_EXP_START_FLAG << 29,
	IBV_EXP_DEVICE_MR_ALLOCATE = IBV_EXP_START_FLAG << 30,
	IBV_EXP_DEVICE_SHARED_MR = IBV_EXP_START_FLAG << 31,
};

enum ibv_exp_device_attr_comp_mask {
	IBV_EXP_DEVICE_ATTR_CALC_CAP = 1 << 0,
	IBV_EXP_DEVICE_ATTR_WITH_TIMESTAMP_MASK = 1 << 1,
	IBV_EXP_DEVICE_ATTR_WITH_HCA_CORE_CLOCK = 1 << 2,
	IBV_EXP_DEVICE_ATTR_EXP_CAP_FLAGS = 1 << 3,
	IBV_EXP_DEVICE_DC_RD_REQ = 1 << 4,
	IBV_EXP_DEVICE_DC_RD_RES = 1 << 5,
	IBV_EXP_DEVICE_ATTR_INLINE_RECV_SZ = 1 << 6,
	IBV_EXP_DEVICE_ATTR_RSS_TBL_SZ = 1 << 7,
	IBV_EXP_DEVICE_ATTR_EXT_ATOMIC_ARGS = 1 << 8,
	IBV_EXP_DEVICE_ATTR_UMR = 1 << 9,
	IBV_EXP_DEVICE_ATTR_ODP = 1 << 10,
	IBV_EXP_DEVICE_ATTR_MAX_DCT = 1 << 11,
	IBV_EXP_DEVICE_ATTR_RESERVED = 1 << 12,
};

struct ibv_exp_device_calc_cap {
	uint64_t data_types, data_sizes, int_ops, uint_ops, fp_ops;
};

struct ibv_exp_ext_atomics_params {
	uint64_t log_atomic_arg_sizes; /* a bit for each size */
	uint32_t max_fa_bit_boundary, log_max_atomic_inline;
};

struct ibv_exp_umr_caps {
	uint32_t max_klm_list_size, max_send_wqe_inline_klms;
	uint32_t max_umr_recursion_depth, max_umr_stride_dimension;
};

enum ibv_exp_odp_general_cap_bits {
	IBV_EXP_ODP_SUPPORT = 1 << 0,
};

enum ibv_exp_odp_transport_cap_bits {
	IBV_EXP_ODP_SUPPORT_SEND = 1 << 0,
	IBV_EXP_ODP_SUPPORT_RECV = 1 << 1,
	IBV_EXP_ODP_SUPPORT_WRITE = 1 << 2,
	IBV_EXP_ODP_SUPPORT_READ = 1 << 3,
	IBV_EXP_ODP_SUPPORT_ATOMIC = 1 << 4,
	IBV_EXP_ODP_SUPPORT_SRQ_RECV = 1 << 5,
};

struct ibv_exp_odp_caps {
	uint64_t general_odp_caps;
	struct {
		uint32_t rc_odp_caps, uc_odp_caps, ud_odp_caps, dc_odp_caps, xrc_odp_caps;
		uint32_t raw_eth_odp_caps;
	} per_transport_caps;
};

struct ibv_exp_device_attr {
	/* As struct ibv_device_attr. */
	char fw_ver[64];
	uint64_t node_guid, sys_image_guid, max_mr_size, page_size_cap;
	uint32_t vendor_id, vendor_part_id, hw_ver;
	int max_qp, max_qp_wr, reserved, max_sge, max_sge_rd, max_cq, max_cqe, max_mr, max_pd;
	int max_qp_rd_atom, max_ee_rd_atom, max_res_rd_atom, max_qp_init_rd_atom,
		max_ee_init_rd_atom;
	enum ibv_exp_atomic_cap exp_atomic_cap;
	int max_ee, max_rdd, max_mw, max_raw_ipv6_qp, max_raw_ethy_qp;
	int max_mcast_grp, max_mcast_qp_attach, max_total_mcast_qp_attach, max_ah;
	int max_fmr, max_map_per_fmr, max_srq, max_srq_wr, max_srq_sge;
	uint16_t max_pkeys;
	uint8_t local_ca_ack_delay, phys_port_cnt;
	/* In: what is wanted. Out: what is there. */
	uint32_t comp_mask;
	struct ibv_exp_device_calc_cap calc_cap;
	uint64_t timestamp_mask, hca_core_clock /* kHz */, exp_device_cap_flags;
	int max_dc_req_rd_atom, max_dc_res_rd_atom, inline_recv_sz;
	uint32_t max_rss_tbl_sz;
	struct ibv_exp_ext_atomics_params ext_atom;
	struct ibv_exp_umr_caps umr_caps;
	struct ibv_exp_odp_caps odp_caps;
	int max_dct;
};

enum {
	IBV_EXP_QUERY_PORT_STATE = 1 << 0,
	IBV_EXP_QUERY_PORT_MAX_MTU = 1 << 1,
	IBV_EXP_QUERY_PORT_ACTIVE_MTU = 1 << 2,
	IBV_EXP_QUERY_PORT_GID_TBL_LEN = 1 << 3,
	IBV_EXP_QUERY_PORT_CAP_FLAGS = 1 << 4,
	IBV_EXP_QUERY_PORT_MAX_MSG_SZ = 1 << 5,
	IBV_EXP_QUERY_PORT_BAD_PKEY_CNTR = 1 << 6,
	IBV_EXP_QUERY_PORT_QKEY_VIOL_CNTR = 1 << 7,
	IBV_EXP_QUERY_PORT_PKEY_TBL_LEN = 1 << 8,
	IBV_EXP_QUERY_PORT_LID = 1 << 9,
	IBV_EXP_QUERY_PORT_SM_LID = 1 << 10,
	IBV_EXP_QUERY_PORT_LMC = 1 << 11,
	IBV_EXP_QUERY_PORT_MAX_VL_NUM = 1 << 12,
	IBV_EXP_QUERY_PORT_SM_SL = 1 << 13,
	IBV_EXP_QUERY_PORT_SUBNET_TIMEOUT = 1 << 14,
	IBV_EXP_QUERY_PORT_INIT_TYPE_REPLY = 1 << 15,
	IBV_EXP_QUERY_PORT_ACTIVE_WIDTH = 1 << 16,
	IBV_EXP_QUERY_PORT_ACTIVE_SPEED = 1 << 17,
	IBV_EXP_QUERY_PORT_PHYS_STATE = 1 << 18,
	IBV_EXP_QUERY_PORT_LINK_LAYER = 1 << 19,
	IBV_EXP_QUERY_PORT_STD_MASK = (1 << 20) - 1,
	IBV_EXP_QUERY_PORT_MASK = IBV_EXP_QUERY_PORT_STD_MASK,
};

enum ibv_exp_query_port_attr_comp_mask {
	IBV_EXP_QUERY_PORT_ATTR_MASK1 = 1 << 0,
	IBV_EXP_QUERY_PORT_ATTR_RESERVED = 1 << 1,
	IBV_EXP_QUERY_PORT_ATTR_MASKS = IBV_EXP_QUERY_PORT_ATTR_RESERVED - 1,
};

struct ibv_exp_port_attr {
	union {
		struct {
			enum ibv_port_state state;
			enum ibv_mtu max_mtu, active_mtu;
			int gid_tbl_len;
			uint32_t port_cap_flags, max_msg_sz, bad_pkey_cntr, qkey_viol_cntr;
			uint16_t pkey_tbl_len, lid, sm_lid;
			uint8_t lmc, max_vl_num, sm_sl, subnet_timeout, init_type_reply;
			uint8_t active_width, active_speed, phys_state, link_layer, reserved;
		};
		struct ibv_port_attr port_attr;
	};
	uint32_t comp_mask;
	uint32_t mask1; /* IBV_EXP_QUERY_PORT_*: what is wanted */
};

enum ibv_exp_values_comp_mask {
	IBV_EXP_VALUES_HW_CLOCK_NS = 1 << 0,
	IBV_EXP_VALUES_HW_CLOCK = 1 << 1,
	IBV_EXP_VALUES_RESERVED = 1 << 2,
};

struct ibv_exp_values {
	uint32_t comp_mask;
	uint64_t hwclock_ns, hwclock;
};

/* --- memory ---------------------------------------------------------------- */

enum ibv_exp_access_flags {
	IBV_EXP_ACCESS_LOCAL_WRITE = IBV_ACCESS_LOCAL_WRITE,
	IBV_EXP_ACCESS_REMOTE_WRITE = IBV_ACCESS_REMOTE_WRITE,
	IBV_EXP_ACCESS_REMOTE_READ = IBV_ACCESS_REMOTE_READ,
	IBV_EXP_ACCESS_REMOTE_ATOMIC = IBV_ACCESS_REMOTE_ATOMIC,
	IBV_EXP_ACCESS_MW_BIND = IBV_ACCESS_MW_BIND,

	IBV_EXP_ACCESS_ALLOCATE_MR = IBV_EXP_START_FLAG << 5,
	IBV_EXP_ACCESS_SHARED_MR_USER_READ = IBV_EXP_START_FLAG << 6,
	IBV_EXP_ACCESS_SHARED_MR_USER_WRITE = IBV_EXP_START_FLAG << 7,
	IBV_EXP_ACCESS_SHARED_MR_GROUP_READ = IBV_EXP_START_FLAG << 8,
	IBV_EXP_ACCESS_SHARED_MR_GROUP_WRITE = IBV_EXP_START_FLAG << 9,
	IBV_EXP_ACCESS_SHARED_MR_OTHER_READ = IBV_EXP_START_FLAG << 10,
	IBV_EXP_ACCESS_SHARED_MR_OTHER_WRITE = IBV_EXP_START_FLAG << 11,
	IBV_EXP_ACCESS_NO_RDMA = IBV_EXP_START_FLAG << 12,
	IBV_EXP_ACCESS_MW_ZERO_BASED = IBV_EXP_START_FLAG << 13,
	IBV_EXP_ACCESS_ON_DEMAND = IBV_EXP_START_FLAG << 14,
	IBV_EXP_ACCESS_RELAXED = IBV_EXP_START_FLAG << 15,
	IBV_EXP_ACCESS_RESERVED = IBV_EXP_START_FLAG << 16,
};

enum ibv_exp_reg_mr_in_comp_mask {
	IBV_EXP_REG_MR_CREATE_FLAGS = 1 << 0,
	IBV_EXP_REG_MR_RESERVED = 1 << 1,
};

enum ibv_exp_reg_mr_create_flags {
	IBV_EXP_REG_MR_CREATE_CONTIG = 1 << 0,
};

struct ibv_exp_reg_mr_in {
	struct ibv_pd *pd;
	void *addr;
	size_t length;
	uint64_t exp_access;
	uint32_t comp_mask, create_flags;
};

enum ibv_exp_reg_shared_mr_comp_mask {
	IBV_EXP_REG_SHARED_MR_RESERVED = 1 << 0,
};

struct ibv_exp_reg_shared_mr_in {
	uint32_t mr_handle;
	struct ibv_pd *pd;
	void *addr;
	uint64_t exp_access;
	uint32_t comp_mask;
};

enum ibv_exp_rereg_mr_flags {
	IBV_EXP_REREG_MR_CHANGE_TRANSLATION = 1 << 0,
	IBV_EXP_REREG_MR_CHANGE_PD = 1 << 1,
	IBV_EXP_REREG_MR_CHANGE_ACCESS = 1 << 2,
	IBV_EXP_REREG_MR_KEEP_VALID = 1 << 3,
	IBV_EXP_REREG_MR_FLAGS_SUPPORTED = (1 << 4) - 1,
};

enum ibv_exp_rereg_mr_attr_mask {
	IBV_EXP_REREG_MR_ATTR_RESERVED = 1 << 0,
};

struct ibv_exp_rereg_mr_attr {
	uint32_t comp_mask;
};

enum ibv_exp_prefetch_attr_comp_mask {
	IBV_EXP_PREFETCH_MR_RESERVED = 1 << 0,
};

enum ibv_exp_prefetch_attr_flags {
	IBV_EXP_PREFETCH_WRITE_ACCESS = 1 << 0,
};

struct ibv_exp_prefetch_attr {
	uint32_t flags;
	void *addr;
	size_t length;
	uint32_t comp_mask;
};

struct ibv_exp_mw_bind_info {
	struct ibv_mr *mr;
	uint64_t addr, length, exp_mw_access_flags;
};

enum ibv_exp_bind_mw_comp_mask {
	IBV_EXP_BIND_MW_RESERVED = 1 << 0,
};

struct ibv_exp_mw_bind {
	struct ibv_qp *qp;
	struct ibv_mw *mw;
	uint64_t wr_id, exp_send_flags;
	struct ibv_exp_mw_bind_info bind_info;
	uint32_t comp_mask;
};

/* --- memory of many pieces (UMR) ------------------------------------------- */

enum ibv_exp_mr_create_flags {
	IBV_EXP_MR_SIGNATURE_EN = 1 << 0,
	IBV_EXP_MR_INDIRECT_KLMS = 1 << 1,
};

struct ibv_exp_mr_init_attr {
	uint32_t max_klm_list_size, create_flags;
	uint64_t exp_access_flags;
};

enum ibv_exp_create_mr_in_comp_mask {
	IBV_EXP_CREATE_MR_IN_RESERVED = 1 << 0,
};

struct ibv_exp_create_mr_in {
	struct ibv_pd *pd;
	struct ibv_exp_mr_init_attr attr;
	uint32_t comp_mask;
};

enum ibv_exp_mkey_attr_comp_mask {
	IBV_EXP_MKEY_ATTR_RESERVED = 1 << 0,
};

struct ibv_exp_mkey_attr {
	uint32_t max_klm_list_size, comp_mask;
};

enum ibv_exp_mkey_list_type {
	IBV_EXP_MKEY_LIST_TYPE_INDIRECT_MR,
};

enum ibv_exp_alloc_mkey_list_comp_mask {
	IBV_EXP_MKEY_LIST_CONTAINER_RESERVED = 1 << 0,
};

struct ibv_exp_mkey_list_container {
	uint32_t max_klm_list_size;
	struct ibv_context *context;
};

struct ibv_exp_mkey_list_container_attr {
	struct ibv_pd *pd;
	uint32_t mkey_list_type, max_klm_list_size, comp_mask;
};

enum ibv_exp_umr_wr_type {
	IBV_EXP_UMR_MR_LIST,
	IBV_EXP_UMR_REPEAT,
};

struct ibv_exp_mem_region {
	uint64_t base_addr;
	struct ibv_mr *mr;
	size_t length;
};

struct ibv_exp_mem_repeat_block {
	uint64_t base_addr;
	struct ibv_mr *mr;
	size_t *byte_count, *stride; /* for each dimension */
};

/* --- completion queues ----------------------------------------------------- */

enum ibv_exp_cq_create_flags {
	IBV_EXP_CQ_CREATE_CROSS_CHANNEL = 1 << 0,
	IBV_EXP_CQ_TIMESTAMP = 1 << 1,
	IBV_EXP_CQ_TIMESTAMP_TO_SYS_TIME = 1 << 2,
	IBV_EXP_CQ_CREATE_FLAGS_MASK = (1 << 3) - 1,
};

enum ibv_exp_cq_init_attr_mask {
	IBV_EXP_CQ_INIT_ATTR_FLAGS = 1 << 0,
	IBV_EXP_CQ_INIT_ATTR_RESERVED = 1 << 1,
};

struct ibv_exp_cq_init_attr {
	uint32_t comp_mask, flags;
};

enum ibv_exp_cq_attr_mask {
	IBV_EXP_CQ_MODERATION = 1 << 0,
	IBV_EXP_CQ_CAP_FLAGS = 1 << 1,
};

enum ibv_exp_cq_cap_flags {
	IBV_EXP_CQ_IGNORE_OVERRUN = 1 << 0,
	IBV_EXP_CQ_CAP_MASK = IBV_EXP_CQ_IGNORE_OVERRUN,
};

enum ibv_exp_cq_attr_comp_mask {
	IBV_EXP_CQ_ATTR_MODERATION = 1 << 0,
	IBV_EXP_CQ_ATTR_CQ_CAP_FLAGS = 1 << 1,
	IBV_EXP_CQ_ATTR_RESERVED = 1 << 2,
};

struct ibv_exp_cq_attr {
	uint32_t comp_mask;
	struct {
		uint16_t cq_count, cq_period /* us */;
	} moderation;
	uint32_t cq_cap_flags;
};

enum ibv_exp_wc_opcode {
	IBV_EXP_WC_SEND,
	IBV_EXP_WC_RDMA_WRITE,
	IBV_EXP_WC_RDMA_READ,
	IBV_EXP_WC_COMP_SWAP,
	IBV_EXP_WC_FETCH_ADD,
	IBV_EXP_WC_BIND_MW,
	IBV_EXP_WC_LOCAL_INV = 7,
	IBV_EXP_WC_MASKED_COMP_SWAP = 9,
	IBV_EXP_WC_MASKED_FETCH_ADD = 10,
	IBV_EXP_WC_RECV = 1 << 7,
	IBV_EXP_WC_RECV_RDMA_WITH_IMM,
	IBV_EXP_WC_UMR = 0x100,
};

enum ibv_exp_wc_flags {
	IBV_EXP_WC_GRH = IBV_WC_GRH,
	IBV_EXP_WC_WITH_IMM = IBV_WC_WITH_IMM,

	IBV_EXP_WC_WITH_INV = IBV_EXP_START_FLAG << 2,
	IBV_EXP_WC_WITH_SL = IBV_EXP_START_FLAG << 4,
	IBV_EXP_WC_WITH_SLID = IBV_EXP_START_FLAG << 5,
	IBV_EXP_WC_WITH_TIMESTAMP = IBV_EXP_START_FLAG << 6,
	IBV_EXP_WC_QP = IBV_EXP_START_FLAG << 7,
	IBV_EXP_WC_SRQ = IBV_EXP_START_FLAG << 8,
	IBV_EXP_WC_DCT = IBV_EXP_START_FLAG << 9,
};

struct ibv_exp_dct;

struct ibv_exp_wc {
	uint64_t wr_id;
	enum ibv_wc_status status;
	enum ibv_exp_wc_opcode exp_opcode;
	uint32_t vendor_err, byte_len, imm_data /* network byte order, or the rkey */;
	uint32_t qp_num, src_qp;
	int reserved;
	uint16_t pkey_index, slid;
	uint8_t sl, dlid_path_bits;
	uint64_t timestamp;
	/* Each is valid if its flag is set. */
	struct ibv_qp *qp;
	struct ibv_srq *srq;
	struct ibv_exp_dct *dct;
	uint64_t exp_wc_flags;
};

#ifdef __cplusplus
}
#endif

#endif
