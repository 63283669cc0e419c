/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls that a fault refuses, one row a call: the rows of tests/verbs/test_refused.c. Each makes
 * its call once, with what it needs before, and leaves nothing behind unless the call was to
 * destroy it and failed: then the row's next call is about the same object.
 */
#ifndef URXE_TESTS_REFUSED_H
#define URXE_TESTS_REFUSED_H

#include <check.h>
#include <errno.h>

#include "net/fault/calls.h"
#include "tests/verbs/fixture.h"

struct refused_row {
	/* 0 or the errno that it fails with; what it returns is as the function's manual has it. */
	int (*make)(void);
	int usual; /* what comes of it without a fault */
};

/* By enum fault_call; only those of each library are there. */
extern const struct refused_row refused_verbs[FAULT_CALLS], refused_manager[FAULT_CALLS];

/* Open while the rows are made. */
extern struct pair refused_pair;

void refused_verbs_setup(void);
void refused_manager_setup(void);

/* How functions say that they failed. */

static inline int by_errno(int result)
{
	ck_assert_int_ge(result, 0);
	if (result)
		ck_assert_int_eq(errno, result);
	return result;
}

static inline int by_minus_one(int result)
{
	ck_assert_int_ge(result, -1);
	return result == -1 ? errno : 0;
}

static inline int by_null(const void *result)
{
	return result ? 0 : errno;
}

#endif
