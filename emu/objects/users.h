/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What uses an object, by kind: it can't be destroyed while there is anything. Counted where the
 * users are made and destroyed; atomic, without a lock.
 */
#ifndef URXE_EMU_USERS_H
#define URXE_EMU_USERS_H

#include <stdatomic.h>
#include <stdint.h>

struct hca;

enum user { USER_MR, USER_MW, USER_QP, USER_SRQ, USER_AH, USER_PARENT_DOMAIN, USER_KINDS };

struct users {
	_Atomic uint32_t counts[USER_KINDS];
};

static inline void users_add(struct users *users, enum user kind, int n)
{
	atomic_fetch_add(&users->counts[kind], n);
}

/* 0, or EBUSY: @call, which is about @object of @hca, is refused, and what uses it is reported. */
int users_check(struct users *users, struct hca *hca, const void *object, const char *call);

#endif
