/* SPDX-License-Identifier: BSD-2-Clause */
/* A profile of a test's own, for a process that has made no verbs call yet. */
#ifndef URXE_TESTS_OWN_PROFILE_H
#define URXE_TESTS_OWN_PROFILE_H

#include <check.h>
#include <infiniband/verbs.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The environment is read at the first verbs call, which this makes. */
static inline void own_profile(const char *lines)
{
	char path[] = "/tmp/urxe-test-profile-XXXXXX";
	struct ibv_device **list;
	int fd = mkstemp(path), count;

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, lines, strlen(lines)), strlen(lines));
	close(fd);
	ck_assert_int_eq(setenv("URXE_PROFILE", path, 1), 0);
	list = ibv_get_device_list(&count);
	unlink(path);
	ck_assert_ptr_nonnull(list);
	ck_assert_int_eq(count, 1);
	ibv_free_device_list(list);
}

#endif
