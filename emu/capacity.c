/* SPDX-License-Identifier: BSD-2-Clause */
#include "emu/capacity.h"

#include <errno.h>

#include "emu/newer_verbs.h"
#include "emu/objects/qp_type.h"
#include "net/cause/cause.h"
#include "net/wire/wire.h"

/* At least what Linux rxe offers (spec: rxe_param.h), and true: everything here is enforced. */
const struct hca_limits hca_limits_core = {
	.device =
		{
			.vendor_id = 0xffffff, /* no vendor, as rxe has it */
			.max_mr_size = UINT64_MAX,
			.page_size_cap = 0xfffff000,
			.max_qp = 1048560,
			.max_qp_wr = 1048576,
			.device_cap_flags =
				IBV_DEVICE_BAD_PKEY_CNTR | IBV_DEVICE_BAD_QKEY_CNTR |
				IBV_DEVICE_CHANGE_PHY_PORT | IBV_DEVICE_UD_AV_PORT_ENFORCE |
				IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_PORT_ACTIVE_EVENT |
				IBV_DEVICE_SYS_IMAGE_GUID | IBV_DEVICE_RC_RNR_NAK_GEN |
				IBV_DEVICE_SRQ_RESIZE | IBV_DEVICE_MEM_WINDOW |
				IBV_DEVICE_MEM_WINDOW_TYPE_2B | IBV_DEVICE_AUTO_PATH_MIG |
				IBV_DEVICE_XRC |
				/* Invalidations; fast registration isn't to be had through verbs.
				 */
				IBV_DEVICE_MEM_MGT_EXTENSIONS,
			.max_sge = 32,
			.max_sge_rd = 32,
			.max_cq = 1048576,
			.max_cqe = 4194303,
			.max_mr = 1048575,
			.max_mw = 1048575,
			.max_pd = 1048576,
			.max_qp_rd_atom = 128,
			.max_res_rd_atom = 258048,
			.max_qp_init_rd_atom = 128,
			.atomic_cap = IBV_ATOMIC_HCA,
			.max_mcast_grp = 8192,
			.max_mcast_qp_attach = 1024,
			.max_total_mcast_qp_attach = 8192 * 1024,
			.max_ah = 1048576,
			.max_srq = 917503,
			.max_srq_wr = 1048576,
			.max_srq_sge = 32,
			.max_pkeys = 1,
			.local_ca_ack_delay = 15,
		},
	.cap_flags_ex = DEVICE_FLUSH_GLOBAL | DEVICE_ATOMIC_WRITE,
	.qp_types = QP_RC | QP_UC | QP_UD | QP_XRC_SEND | QP_XRC_RECV,
	.completion_timestamp_mask = UINT64_MAX,
	.max_inline_data = 1024,
	.max_cq_period = 4095, /* as ConnectX */
	.max_cq_count = UINT16_MAX,
	.max_message = WIRE_MESSAGE_MAX,
	.max_dm_size = 1 << 20,
};

int capacity_take(_Atomic uint32_t *count, int limit, const char *objects, const char *attribute)
{
	if (!limit)
		return refuse(EOPNOTSUPP, CAUSE_NOT_SUPPORTED, "%s: %s is 0", objects, attribute);
	if (atomic_fetch_add(count, 1) < (uint32_t)limit)
		return 0;
	atomic_fetch_sub(count, 1);
	return refuse(ENOMEM, CAUSE_LIMIT_REACHED, "%s: %d (%s)", objects, limit, attribute);
}

int capacity_need(const struct hca *hca, uint64_t flag, const char *call, const char *what)
{
	if (capacity_has(hca, flag))
		return 0;
	return refuse(EOPNOTSUPP, CAUSE_NOT_SUPPORTED, "%s: the device lacks %s", call, what);
}

uint32_t capacity_lacking_operations(const struct hca *hca)
{
	const uint32_t atomics = 1 << IBV_WR_ATOMIC_CMP_AND_SWP | 1 << IBV_WR_ATOMIC_FETCH_AND_ADD;
	uint32_t lacking = 0;

	if (hca->limits.device.atomic_cap == IBV_ATOMIC_NONE)
		lacking |= atomics;
	if (!hca->limits.device.max_mw)
		lacking |= 1 << IBV_WR_BIND_MW;
	if (!capacity_has(hca, DEVICE_ATOMIC_WRITE))
		lacking |= 1 << IBV_WR_ATOMIC_WRITE;
	if (!capacity_has(hca, DEVICE_FLUSH_GLOBAL))
		lacking |= 1 << WR_FLUSH;
	if (hca->behaviour.send_with_invalidate == INVALIDATE_REFUSED)
		lacking |= 1 << IBV_WR_SEND_WITH_INV;
	return lacking;
}
