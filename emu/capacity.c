/* SPDX-License-Identifier: BSD-2-Clause */
#include "emu/capacity.h"

#include <errno.h>
#include <inttypes.h>

#include "emu/objects/qp_type.h"
#include "net/cause/cause.h"
#include "net/newer_verbs.h"
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
				/* Invalidations; there is no verb for fast registration. */
				IBV_DEVICE_MEM_MGT_EXTENSIONS,
			.max_sge = HCA_SGES_MAX,
			.max_sge_rd = HCA_SGES_MAX,
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
			.max_srq_sge = HCA_SGES_MAX,
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

int capacity_alive(const struct hca *hca, const char *what)
{
	if (!atomic_load_explicit(&hca->failed, memory_order_relaxed))
		return 0;
	return refuse(EIO, CAUSE_DEVICE_FAILED, "%s", what);
}

int capacity_take(const struct hca *hca, _Atomic uint32_t *count, int limit, const char *objects,
		  const char *attribute)
{
	int error = capacity_alive(hca, objects);
	uint32_t used = atomic_load(count);

	if (error)
		return error;
	if (!limit)
		return refuse(EOPNOTSUPP, CAUSE_NOT_SUPPORTED, "%s: %s is 0", objects, attribute);
	do {
		if (used >= (uint32_t)limit)
			return refuse(ENOMEM, CAUSE_LIMIT_REACHED, "%s: %d (%s)", objects, limit,
				      attribute);
	} while (!atomic_compare_exchange_weak(count, &used, used + 1));
	return 0;
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

/* --- queues ---------------------------------------------------------------------------- */

#define SGE_BYTES 16
#define INLINE_HEADER 4

static uint64_t multiple(uint64_t least, uint32_t of)
{
	return (least + of - 1) / of * of;
}

uint32_t capacity_round(enum rounding rounding, uint32_t asked, uint32_t most)
{
	uint32_t spare = rounding == ROUND_POWER_OF_TWO_LESS_1;
	uint64_t granted;

	if (rounding == ROUND_NONE || !asked)
		return asked;
	granted = power_of_two((uint64_t)asked + spare) - spare;
	return granted < most ? granted : most;
}

uint64_t capacity_entry_bytes(const struct hca_behaviour *card, const struct ibv_qp_cap *cap)
{
	uint64_t sges = (uint64_t)cap->max_send_sge * SGE_BYTES;
	uint64_t data =
		cap->max_inline_data
			? multiple(INLINE_HEADER + (uint64_t)cap->max_inline_data, SGE_BYTES)
			: 0;
	uint64_t bytes = card->sq_wqe_header + (data > sges ? data : sges);

	return card->sq_wqe_unit ? multiple(bytes, card->sq_wqe_unit) : bytes;
}

static int grant_send_queue(const struct hca *hca, struct ibv_qp_cap *cap, uint64_t entry)
{
	const struct hca_behaviour *card = &hca->behaviour;
	uint32_t most = hca->limits.device.max_qp_wr;
	uint64_t all = entry * cap->max_send_wr;
	/* It is the memory that is rounded, and holds more entries then. */
	bool rounds_memory = card->sq_wqe_unit && card->round_max_wr == ROUND_POWER_OF_TWO;

	if (card->sq_wqe_bytes && entry > card->sq_wqe_bytes)
		return refuse(EINVAL, CAUSE_CARD_SEND_QUEUE_BYTES,
			      "an entry with %u SGEs or %u bytes inline takes %" PRIu64
			      " bytes, the card has %u (sq_wqe_bytes)",
			      cap->max_send_sge, cap->max_inline_data, entry, card->sq_wqe_bytes);
	if (rounds_memory)
		all = power_of_two(all);
	if (card->sq_bytes && all > card->sq_bytes)
		return refuse(EINVAL, CAUSE_CARD_SEND_QUEUE_BYTES,
			      "%u work requests with %u SGEs or %u bytes inline take %" PRIu64
			      " bytes, the card has %u (sq_bytes)",
			      cap->max_send_wr, cap->max_send_sge, cap->max_inline_data, all,
			      card->sq_bytes);
	if (rounds_memory && entry)
		cap->max_send_wr = all / entry < most ? all / entry : most;
	else
		cap->max_send_wr = capacity_round(card->round_max_wr, cap->max_send_wr, most);
	return 0;
}

static uint32_t inline_granted(const struct hca *hca, const struct ibv_qp_cap *cap, uint64_t entry)
{
	const struct hca_behaviour *card = &hca->behaviour;
	uint64_t space = 0;

	if (card->round_max_inline_data == INLINE_OF_SGES)
		space = (uint64_t)cap->max_send_sge * SGE_BYTES; /* which programs rely on */
	else if (card->round_max_inline_data == INLINE_OF_WQE &&
		 entry > card->sq_wqe_header + INLINE_HEADER)
		space = entry - card->sq_wqe_header - INLINE_HEADER;
	if (space > hca->limits.max_inline_data)
		space = hca->limits.max_inline_data;
	return space > cap->max_inline_data ? space : cap->max_inline_data;
}

int capacity_grant(const struct hca *hca, struct ibv_qp_cap *cap)
{
	uint64_t entry = capacity_entry_bytes(&hca->behaviour, cap);
	int error = cap->max_send_wr ? grant_send_queue(hca, cap, entry) : 0;

	if (error)
		return error;
	cap->max_recv_wr = capacity_round(hca->behaviour.round_max_wr, cap->max_recv_wr,
					  hca->limits.device.max_qp_wr);
	cap->max_inline_data = inline_granted(hca, cap, entry);
	return 0;
}
