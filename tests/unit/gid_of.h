/* SPDX-License-Identifier: BSD-2-Clause */
/* The GID of an address, for tests that write theirs as text. */
#ifndef URXE_TESTS_UNIT_GID_OF_H
#define URXE_TESTS_UNIT_GID_OF_H

#include <check.h>

#include "net/wire/gid.h"

static inline union ibv_gid gid_of(const char *text)
{
	union ibv_gid gid;

	ck_assert_int_eq(gid_from_text(&gid, text), 0);
	return gid;
}

#endif
