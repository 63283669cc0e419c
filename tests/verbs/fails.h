/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls that have to fail, with an errno. For the tests of the verbs layer. */
#ifndef URXE_TESTS_FAILS_H
#define URXE_TESTS_FAILS_H

#include <check.h>
#include <errno.h>

/* @call returns -1 and leaves @error in errno. */
#define ck_fails(call, error)                                                                      \
	do {                                                                                       \
		errno = 0;                                                                         \
		ck_assert_int_eq(call, -1);                                                        \
		ck_assert_int_eq(errno, error);                                                    \
	} while (0)

/* @call returns NULL and leaves @error in errno. */
#define ck_fails_null(call, error)                                                                 \
	do {                                                                                       \
		errno = 0;                                                                         \
		ck_assert_ptr_null(call);                                                          \
		ck_assert_int_eq(errno, error);                                                    \
	} while (0)

#endif
