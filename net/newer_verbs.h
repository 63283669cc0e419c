/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What verbs.h defines in newer versions of rdma-core than the one that urxe is built with,
 * by value: the ABI is theirs, whatever the headers. The names lack IBV_, so that the real
 * ones don't clash with them.
 */
#ifndef URXE_NET_NEWER_VERBS_H
#define URXE_NET_NEWER_VERBS_H

#include <infiniband/verbs.h>
#include <stddef.h>

/* --- RDMA FLUSH, Annex A19 ---------------------------------------------------------- */

#define ACCESS_FLUSH_GLOBAL (1 << 8)
#define ACCESS_FLUSH_PERSISTENT (1 << 9)
#define WR_FLUSH ((enum ibv_wr_opcode)14)
#define WC_FLUSH ((enum ibv_wc_opcode)8)
#define QP_EX_WITH_FLUSH (UINT64_C(1) << 11)

/* enum ibv_placement_type: what has to be true of the data when the FLUSH completes. */
enum { FLUSH_GLOBAL = 1 << 0, FLUSH_PERSISTENT = 1 << 1 };

/* enum ibv_selectivity_level: the data of an address range, or of a whole region. */
enum { FLUSH_RANGE, FLUSH_MR };

/* ibv_qp_ex.wr_flush lies behind what older headers know of the structure. */
typedef void (*wr_flush_function)(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr,
				  size_t length, uint8_t type, uint8_t level);
#define QP_EX_WR_FLUSH_OFFSET                                                                      \
	(offsetof(struct ibv_qp_ex, wr_atomic_write) + sizeof(wr_flush_function))

/* --- on-demand paging: enum ibv_odp_transport_cap_bits --------------------------------- */

#define ODP_SUPPORT_FLUSH (1 << 6)
#define ODP_SUPPORT_ATOMIC_WRITE (1 << 7)

/* --- struct ibv_port_attr: where active_speed_ex is ------------------------------------- */

#define PORT_ATTR_ACTIVE_SPEED_EX 52

/* --- enum ibv_event_type: of a port, and of real devices alone ---------------------------- */

#define EVENT_DEVICE_SPEED_CHANGE 20

/* --- device_cap_flags_ex --------------------------------------------------------------- */

#define DEVICE_FLUSH_GLOBAL (UINT64_C(1) << 38)
#define DEVICE_ATOMIC_WRITE (UINT64_C(1) << 40)

#endif
