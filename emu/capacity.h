/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the device has of everything: how many objects there may be, whether it has a capability at
 * all, and how large a queue becomes that was asked for. Called by what creates objects. The
 * counts are atomic; the rest of what it looks at is constant.
 */
#ifndef URXE_EMU_CAPACITY_H
#define URXE_EMU_CAPACITY_H

#include "emu/hca.h"

/* EIO: the device is gone, and has nothing for @what any more. */
int capacity_alive(const struct hca *hca, const char *what);

/*
 * One more of @objects, of which the device has @limit, as its attribute @attribute says. ENOMEM:
 * there are as many; EOPNOTSUPP: it has none at all; EIO. Given back by capacity_put().
 */
int capacity_take(const struct hca *hca, _Atomic uint32_t *count, int limit, const char *objects,
		  const char *attribute);

static inline void capacity_put(_Atomic uint32_t *count)
{
	atomic_fetch_sub(count, 1);
}

/* Whether the device has @flag (IBV_DEVICE_*, or one beyond those). */
static inline bool capacity_has(const struct hca *hca, uint64_t flag)
{
	return (hca->limits.device.device_cap_flags | hca->limits.cap_flags_ex) & flag;
}

/* EOPNOTSUPP: it lacks @what, which @call is about. */
int capacity_need(const struct hca *hca, uint64_t flag, const char *call, const char *what);

/* The bits 1 << IBV_WR_* of the operations that the device doesn't take. */
uint32_t capacity_lacking_operations(const struct hca *hca);

/* How many entries a queue gets that was asked for @asked, of at most @most; 0 stays 0. */
uint32_t capacity_round(enum rounding rounding, uint32_t asked, uint32_t most);

static inline uint64_t power_of_two(uint64_t least)
{
	uint64_t power = 1;

	while (power < least)
		power <<= 1;
	return power;
}

/* What an entry of a send queue with @cap takes of @card's memory. */
uint64_t capacity_entry_bytes(const struct hca_behaviour *card, const struct ibv_qp_cap *cap);

/*
 * @cap, which is within the limits, becomes what is granted. EINVAL: its send queue would take more
 * memory than the device has for one.
 */
int capacity_grant(const struct hca *hca, struct ibv_qp_cap *cap);

#endif
