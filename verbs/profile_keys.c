/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The keys of profiles: name, place, what the core has at most, what can be relied on less.
 */
#include <stddef.h>

#include "net/wire/gid_table.h"
#include "net/wire/wire.h"
#include "verbs/profile.h"

#define WORDS(...) ((const struct profile_word[]){__VA_ARGS__, {}})
#define NO_YES WORDS({"no", 0}, {"yes", 1})
/* Where the field says that something is lacking. */
#define HAS WORDS({"yes", 0}, {"no", 1})

#define FIELD(field) offsetof(struct profile, field), sizeof(((struct profile *)0)->field)

/* A number, of which the core has any or at most so many. */
#define NUMBER(name, field, most, strict)                                                          \
	{                                                                                          \
		name, PROFILE_NUMBER, FIELD(field), most, NULL, strict                             \
	}
#define BITS(name, field, all)                                                                     \
	{                                                                                          \
		name, PROFILE_BITS, FIELD(field), all, NULL, STRICT_DEFAULT                        \
	}
#define WORD(name, field, words)                                                                   \
	{                                                                                          \
		name, PROFILE_WORD, FIELD(field), 0, words, STRICT_MOST                            \
	}
#define TEXT(name, field)                                                                          \
	{                                                                                          \
		name, PROFILE_TEXT, FIELD(field), 0, NULL, STRICT_DEFAULT                          \
	}

/*
 * An attribute of the device: what the core itself says is all it has (CORE), or only memory ends
 * it (ANY), or it is nothing but an answer (SAYS).
 */
#define CORE(name, core, strict) NUMBER(#name, limits.device.name, core, strict)
#define ANY(name, strict) NUMBER(#name, limits.device.name, INT32_MAX, strict)
#define SAYS(name, type_most) NUMBER(#name, limits.device.name, type_most, STRICT_DEFAULT)

#define LEAST STRICT_LEAST

const struct profile_key profile_keys[] = {
	/* clang-format off */
	TEXT("description", description),

	/* struct ibv_device_attr, in its order */
	TEXT("fw_ver", fw_ver),
	NUMBER("max_mr_size", limits.device.max_mr_size, UINT64_MAX, LEAST),
	BITS("page_size_cap", limits.device.page_size_cap, UINT64_MAX),
	SAYS(vendor_id, UINT32_MAX),
	SAYS(vendor_part_id, UINT32_MAX),
	SAYS(hw_ver, UINT32_MAX),
	CORE(max_qp, 0xffffec, LEAST),
	CORE(max_qp_wr, 1 << 24, LEAST),
	BITS("device_cap_flags", limits.device.device_cap_flags, 0),
	CORE(max_sge, HCA_SGES_MAX, LEAST),
	CORE(max_sge_rd, HCA_SGES_MAX, LEAST),
	CORE(max_cq, 1 << 24, LEAST),
	ANY(max_cqe, LEAST),
	CORE(max_mr, 0xffffff, LEAST),
	ANY(max_pd, LEAST),
	CORE(max_qp_rd_atom, 128, LEAST),
	SAYS(max_ee_rd_atom, INT32_MAX),
	SAYS(max_res_rd_atom, INT32_MAX),
	CORE(max_qp_init_rd_atom, 128, LEAST),
	SAYS(max_ee_init_rd_atom, INT32_MAX),
	WORD("atomic_cap", limits.device.atomic_cap, WORDS({"hca", IBV_ATOMIC_HCA}, {"none", IBV_ATOMIC_NONE})),
	SAYS(max_ee, INT32_MAX),
	SAYS(max_rdd, INT32_MAX),
	CORE(max_mw, 0xffffff, LEAST),
	SAYS(max_raw_ipv6_qp, INT32_MAX),
	SAYS(max_raw_ethy_qp, INT32_MAX),
	ANY(max_mcast_grp, LEAST),
	ANY(max_mcast_qp_attach, LEAST),
	ANY(max_total_mcast_qp_attach, LEAST),
	ANY(max_ah, LEAST),
	SAYS(max_fmr, INT32_MAX),
	SAYS(max_map_per_fmr, INT32_MAX),
	ANY(max_srq, LEAST),
	CORE(max_srq_wr, 1 << 24, LEAST),
	CORE(max_srq_sge, HCA_SGES_MAX, LEAST),
	SAYS(max_pkeys, UINT16_MAX),
	SAYS(local_ca_ack_delay, 31),

	/* struct ibv_device_attr_ex, ibv_context, ibv_qp_cap */
	BITS("device_cap_flags_ex", limits.cap_flags_ex, 0),
	WORD("odp", limits.no_odp, HAS),
	BITS("completion_timestamp_mask", limits.completion_timestamp_mask, UINT64_MAX),
	NUMBER("max_dm_size", limits.max_dm_size, 0, LEAST),
	NUMBER("max_cq_count", limits.max_cq_count, UINT16_MAX, LEAST),
	NUMBER("max_cq_period", limits.max_cq_period, UINT16_MAX, LEAST),
	NUMBER("num_comp_vectors", num_comp_vectors, INT32_MAX, STRICT_LEAST_SET),
	NUMBER("max_inline_data", limits.max_inline_data, 0, LEAST),
	BITS("create_flags", create_flags, 0),
	BITS("qp_types", limits.qp_types, 0),

	/* struct ibv_port_attr */
	NUMBER("max_msg_sz", limits.max_message, WIRE_MESSAGE_MAX, LEAST),
	{"active_width", PROFILE_WORD, FIELD(port.active_width), 0,
	 WORDS({"1X", 1}, {"2X", 16}, {"4X", 2}, {"8X", 4}, {"12X", 8}), STRICT_DEFAULT},
	{"active_speed", PROFILE_WORD, FIELD(port.active_speed), 0,
	 WORDS({"SDR", 1}, {"DDR", 2}, {"QDR", 4}, {"FDR10", 8}, {"FDR", 16}, {"EDR", 32}, {"HDR", 64}, {"NDR", 128}),
	 STRICT_DEFAULT},
	NUMBER("max_vl_num", port.max_vl_num, UINT8_MAX, STRICT_DEFAULT),
	NUMBER("subnet_timeout", port.subnet_timeout, 31, STRICT_DEFAULT),
	NUMBER("lid", port.lid, UINT16_MAX, STRICT_MOST),
	BITS("port_cap_flags", port.port_cap_flags, UINT32_MAX),
	NUMBER("gid_tbl_len", port.gid_tbl_len, GID_TABLE_LENGTH, LEAST),

	/* struct hca_behaviour */
	WORD("retry_cnt_7", behaviour.retry_cnt_7_infinite, WORDS({"infinite", 1}, {"finite", 0})),
	{"ack_timeout_factor", PROFILE_HUNDREDTHS, FIELD(behaviour.ack_timeout_hundredths), 10000, NULL, STRICT_DEFAULT},
	NUMBER("ack_timeout_least", behaviour.ack_timeout_least, 31, STRICT_DEFAULT),
	{"out_of_order", PROFILE_WORD, FIELD(behaviour.drops_out_of_order), 0,
	 WORDS({"kept", 0}, {"dropped", 1}), STRICT_DEFAULT},
	WORD("round_max_wr", behaviour.round_max_wr,
	     WORDS({"power_of_two", ROUND_POWER_OF_TWO}, {"power_of_two_less_1", ROUND_POWER_OF_TWO_LESS_1}, {"none", ROUND_NONE})),
	WORD("round_cqe", behaviour.round_cqe,
	     WORDS({"power_of_two", ROUND_POWER_OF_TWO}, {"power_of_two_less_1", ROUND_POWER_OF_TWO_LESS_1}, {"none", ROUND_NONE})),
	WORD("round_max_srq_wr", behaviour.round_max_srq_wr,
	     WORDS({"power_of_two", ROUND_POWER_OF_TWO}, {"power_of_two_less_1", ROUND_POWER_OF_TWO_LESS_1}, {"none", ROUND_NONE})),
	WORD("round_max_inline_data", behaviour.round_max_inline_data,
	     WORDS({"wqe", INLINE_OF_WQE}, {"sges", INLINE_OF_SGES}, {"none", INLINE_AS_ASKED})),
	NUMBER("sq_wqe_header", behaviour.sq_wqe_header, 4096, STRICT_MOST),
	NUMBER("sq_wqe_unit", behaviour.sq_wqe_unit, 4096, STRICT_MOST),
	NUMBER("sq_wqe_bytes", behaviour.sq_wqe_bytes, UINT32_MAX, STRICT_LEAST_SET),
	NUMBER("sq_bytes", behaviour.sq_bytes, UINT32_MAX, STRICT_LEAST_SET),
	WORD("post_send_before_rts", behaviour.post_send_before_rts,
	     WORDS({"held", EARLY_POST_HELD}, {"dropped", EARLY_POST_DROPPED}, {"error", EARLY_POST_REFUSED})),
	WORD("post_recv_in_reset", behaviour.post_recv_in_reset,
	     WORDS({"held", EARLY_POST_HELD}, {"dropped", EARLY_POST_DROPPED}, {"error", EARLY_POST_REFUSED})),
	WORD("check_ah_pd", behaviour.ah_of_any_pd, WORDS({"no", 1}, {"yes", 0})),
	WORD("zero_length_checks_rkey", behaviour.zero_length_checks_rkey, NO_YES),
	WORD("atomic_alignment", behaviour.atomic_alignment_at_post, WORDS({"nak", 0}, {"refused_at_post", 1})),
	WORD("send_with_invalidate", behaviour.send_with_invalidate,
	     WORDS({"works", INVALIDATE_WORKS}, {"refused_at_post", INVALIDATE_REFUSED}, {"fails", INVALIDATE_FAILS})),
	WORD("resize_cq", behaviour.no_cq_resize, HAS),
	WORD("grh_ipv4_first_20_bytes", behaviour.grh_ipv4_first_20_bytes,
	     WORDS({"zero", GRH_ZERO}, {"untouched", GRH_UNTOUCHED}, {"filled", GRH_FILLED})),
	WORD("wc_sl", behaviour.wc_sl_unset, WORDS({"ip_version", 0}, {"none", 1})),
	/* clang-format on */
};

const unsigned int profile_key_count = sizeof(profile_keys) / sizeof(*profile_keys);

_Static_assert(sizeof(profile_keys) / sizeof(*profile_keys) <= PROFILE_KEYS_MAX,
	       "profile.given has one for each");
