/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Slots: which HCA has a QP number or a communication id. The upper 12 bits of each are a
 * slot, and the HCA is the one that leased it. The first slot, with the special
 * QPs, and the last, with the multicast QP, are never leased. Known to the links alone (net/share,
 * net/udp, net/shm): the core asks them by share.h. No state, no locks.
 */
#ifndef URXE_NET_SLOT_H
#define URXE_NET_SLOT_H

#include "net/share/share.h"

#define SLOTS 4096u
#define SLOT_QPN_BITS 12     /* of a QP number, below the slot */
#define SLOT_COMM_ID_BITS 20 /* of a communication id */

#define SLOT_QPNS (1u << SLOT_QPN_BITS)

_Static_assert(SHARE_QPN_BLOCK == SLOT_QPNS, "a slot's QP numbers");
_Static_assert(SHARE_COMM_IDS == 1u << SLOT_COMM_ID_BITS, "a slot's communication ids");

static inline uint32_t slot_of_qpn(uint32_t qpn)
{
	return qpn >> SLOT_QPN_BITS;
}

static inline uint32_t slot_of_comm_id(uint32_t comm_id)
{
	return comm_id >> SLOT_COMM_ID_BITS;
}

#endif
