/* SPDX-License-Identifier: BSD-2-Clause */
/* Included by verbs_exp.h: devices, ports, memory. */
#ifndef INFINIBAND_VERBS_EXP_DEVICE_H
#define INFINIBAND_VERBS_EXP_DEVICE_H

#include <infiniband/verbs_exp/common.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- devices and ports ----------------------------------------------------- */

static inline uint64_t verbs_exp_capabilities(const struct ibv_device_attr_ex *device)
{
	unsigned int flags = device->orig_attr.device_cap_flags;
	uint64_t result = flags;

	if (flags & IBV_DEVICE_MEM_WINDOW)
		result |= IBV_EXP_DEVICE_MEM_WINDOW;
	if (flags & IBV_DEVICE_MEM_MGT_EXTENSIONS)
		result |= IBV_EXP_DEVICE_MEM_MGT_EXTENSIONS;
	if (flags & IBV_DEVICE_MEM_WINDOW_TYPE_2A)
		result |= IBV_EXP_DEVICE_MW_TYPE_2A;
	if (flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B)
		result |= IBV_EXP_DEVICE_MW_TYPE_2B;
	if (flags & IBV_DEVICE_MANAGED_FLOW_STEERING)
		result |= IBV_EXP_DEVICE_MANAGED_FLOW_STEERING;
	if (device->odp_caps.general_caps & IBV_ODP_SUPPORT)
		result |= IBV_EXP_DEVICE_ODP;
	return result;
}

static inline int ibv_exp_query_device(struct ibv_context *context,
				       struct ibv_exp_device_attr *attr)
{
	uint32_t wanted = attr->comp_mask, found = IBV_EXP_DEVICE_ATTR_EXP_CAP_FLAGS;
	struct ibv_device_attr_ex device;
	int error;

	if (!verbs_exp_masked(__func__, wanted, IBV_EXP_DEVICE_ATTR_RESERVED))
		return EINVAL;
	memset(&device, 0, sizeof(device));
	error = ibv_query_device_ex(context, NULL, &device);
	if (error)
		return verbs_exp_error(error);
	memset(attr, 0, sizeof(*attr));
	memcpy(attr, &device.orig_attr, offsetof(struct ibv_exp_device_attr, comp_mask));
	attr->exp_device_cap_flags = verbs_exp_capabilities(&device);
	if (device.completion_timestamp_mask) {
		found |= IBV_EXP_DEVICE_ATTR_WITH_TIMESTAMP_MASK;
		attr->timestamp_mask = device.completion_timestamp_mask;
	}
	if (device.hca_core_clock) {
		found |= IBV_EXP_DEVICE_ATTR_WITH_HCA_CORE_CLOCK;
		attr->hca_core_clock = device.hca_core_clock;
	}
	if (device.rss_caps.max_rwq_indirection_table_size) {
		found |= IBV_EXP_DEVICE_ATTR_RSS_TBL_SZ;
		attr->max_rss_tbl_sz = device.rss_caps.max_rwq_indirection_table_size;
	}
	if (device.odp_caps.general_caps & IBV_ODP_SUPPORT) {
		found |= IBV_EXP_DEVICE_ATTR_ODP;
		attr->odp_caps.general_odp_caps = IBV_EXP_ODP_SUPPORT;
		attr->odp_caps.per_transport_caps.rc_odp_caps =
			device.odp_caps.per_transport_caps.rc_odp_caps;
		attr->odp_caps.per_transport_caps.uc_odp_caps =
			device.odp_caps.per_transport_caps.uc_odp_caps;
		attr->odp_caps.per_transport_caps.ud_odp_caps =
			device.odp_caps.per_transport_caps.ud_odp_caps;
		attr->odp_caps.per_transport_caps.xrc_odp_caps = device.xrc_odp_caps;
	}
	attr->comp_mask = wanted & found;
	return 0;
}

static inline int ibv_exp_query_port(struct ibv_context *context, uint8_t port_num,
				     struct ibv_exp_port_attr *attr)
{
	uint32_t comp_mask = attr->comp_mask, mask1 = attr->mask1;
	int error;

	if (comp_mask &&
	    (!verbs_exp_masked(__func__, comp_mask, IBV_EXP_QUERY_PORT_ATTR_RESERVED) ||
	     mask1 & ~(uint32_t)IBV_EXP_QUERY_PORT_MASK)) {
		errno = EINVAL;
		return -EINVAL;
	}
	error = ibv_query_port(context, port_num, &attr->port_attr);
	attr->comp_mask = comp_mask;
	attr->mask1 = mask1;
	return error;
}

/* In @q_values, what is asked for; in values->comp_mask, what was answered. */
static inline int ibv_exp_query_values(struct ibv_context *context, int q_values,
				       struct ibv_exp_values *values)
{
	struct ibv_device_attr_ex device;
	struct ibv_values_ex now;
	uint64_t clock, kilohertz;
	int error;

	if (!verbs_exp_masked(__func__, (uint32_t)q_values, IBV_EXP_VALUES_RESERVED))
		return EINVAL;
	memset(values, 0, sizeof(*values));
	memset(&now, 0, sizeof(now));
	memset(&device, 0, sizeof(device));
	now.comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
	error = ibv_query_rt_values_ex(context, &now);
	if (!error && !(now.comp_mask & IBV_VALUES_MASK_RAW_CLOCK))
		error = ENOSYS;
	if (!error && q_values & IBV_EXP_VALUES_HW_CLOCK_NS)
		error = ibv_query_device_ex(context, NULL, &device);
	kilohertz = device.hca_core_clock;
	if (!error && q_values & IBV_EXP_VALUES_HW_CLOCK_NS && !kilohertz)
		error = ENOSYS;
	if (error) {
		errno = verbs_exp_error(error);
		return -errno;
	}
	clock = (uint64_t)now.raw_clock.tv_sec * 1000000000 + (uint64_t)now.raw_clock.tv_nsec;
	values->comp_mask = (uint32_t)q_values;
	if (q_values & IBV_EXP_VALUES_HW_CLOCK)
		values->hwclock = clock;
	if (q_values & IBV_EXP_VALUES_HW_CLOCK_NS)
		values->hwclock_ns =
			clock / kilohertz * 1000000 + clock % kilohertz * 1000000 / kilohertz;
	return 0;
}

/* --- memory ---------------------------------------------------------------- */

static inline struct ibv_mr *ibv_exp_reg_mr(struct ibv_exp_reg_mr_in *in)
{
	unsigned int access;
	struct ibv_mr *mr;
	int error;

	if (!verbs_exp_masked(__func__, in->comp_mask, IBV_EXP_REG_MR_RESERVED))
		return NULL;
	if (in->comp_mask & IBV_EXP_REG_MR_CREATE_FLAGS && in->create_flags)
		return (struct ibv_mr *)verbs_exp_null(
			in->create_flags & ~(uint32_t)IBV_EXP_REG_MR_CREATE_CONTIG ? EINVAL
										   : ENOSYS);
	error = verbs_exp_access(in->exp_access, &access);
	if (error)
		return (struct ibv_mr *)verbs_exp_null(error);
	mr = ibv_reg_mr(in->pd, in->addr, in->length, access);
	return mr ? mr : (struct ibv_mr *)verbs_exp_null(errno);
}

/* As ibv_rereg_mr(), whose errors are negative. */
static inline int ibv_exp_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr,
				   size_t length, uint64_t access,
				   struct ibv_exp_rereg_mr_attr *attr)
{
	unsigned int standard = 0;

	if (!verbs_exp_masked(__func__, attr ? attr->comp_mask : 0, IBV_EXP_REREG_MR_ATTR_RESERVED))
		return IBV_REREG_MR_ERR_INPUT;
	errno = flags & IBV_EXP_REREG_MR_KEEP_VALID ? ENOSYS : 0;
	if (!errno && flags & IBV_EXP_REREG_MR_CHANGE_ACCESS)
		errno = verbs_exp_access(access, &standard);
	if (errno)
		return IBV_REREG_MR_ERR_INPUT;
	return ibv_rereg_mr(mr, flags, pd, addr, length, (int)standard);
}

static inline int ibv_exp_prefetch_mr(struct ibv_mr *mr, struct ibv_exp_prefetch_attr *attr)
{
	const size_t most = (size_t)1 << 30; /* of what an SGE can say */
	size_t done = 0;

	if (!verbs_exp_masked(__func__, attr->comp_mask, IBV_EXP_PREFETCH_MR_RESERVED) ||
	    attr->flags & ~(uint32_t)IBV_EXP_PREFETCH_WRITE_ACCESS)
		return EINVAL;
	do {
		size_t length = attr->length - done < most ? attr->length - done : most;
		struct ibv_sge sge = {(uintptr_t)attr->addr + done, (uint32_t)length, mr->lkey};
		int error = ibv_advise_mr(mr->pd,
					  attr->flags ? IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE
						      : IBV_ADVISE_MR_ADVICE_PREFETCH,
					  IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1);

		if (error)
			return verbs_exp_error(error);
		done += length;
	} while (done < attr->length);
	return 0;
}

/* Of type 1. Type 2 is bound by IBV_EXP_WR_BIND_MW. */
static inline int ibv_exp_bind_mw(struct ibv_exp_mw_bind *mw_bind)
{
	struct ibv_mw_bind bind;
	unsigned int access;
	int error;

	if (!verbs_exp_masked(__func__, mw_bind->comp_mask, IBV_EXP_BIND_MW_RESERVED))
		return EINVAL;
	error = verbs_exp_access(mw_bind->bind_info.exp_mw_access_flags, &access);
	if (error)
		return error;
	memset(&bind, 0, sizeof(bind));
	bind.wr_id = mw_bind->wr_id;
	bind.send_flags = (unsigned int)mw_bind->exp_send_flags;
	bind.bind_info.mr = mw_bind->bind_info.mr;
	bind.bind_info.addr = mw_bind->bind_info.addr;
	bind.bind_info.length = mw_bind->bind_info.length;
	bind.bind_info.mw_access_flags = access;
	return verbs_exp_error(ibv_bind_mw(mw_bind->qp, mw_bind->mw, &bind));
}

#ifdef __cplusplus
}
#endif

#endif
