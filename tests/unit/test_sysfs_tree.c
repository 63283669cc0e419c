/* SPDX-License-Identifier: BSD-2-Clause */
/* The private directory with the files of sysfs: why it can't be made. */
#include "verbs/preload/sysfs_tree.h"

#include <check.h>
#include <errno.h>
#include <sys/stat.h>

#include "tests/run_suite.h"

/* A folder in which not even root can make a directory. */
#define UNWRITABLE "/sys"

/* What is undone afterwards doesn't change the errno that the user is told. */
START_TEST(errors_are_those_of_mkdir)
{
	struct sysfs_tree tree = {.manifest = -1};
	int error;

	ck_assert_int_eq(mkdir(UNWRITABLE "/urxe", 0700), -1);
	error = errno;
	errno = 0;
	ck_assert(!sysfs_tree_make(&tree, UNWRITABLE));
	ck_assert_int_eq(errno, error);
	ck_assert_str_eq(tree.base, "");
}
END_TEST

START_TEST(bad_folders)
{
	static const char *const folders[] = {NULL, "", "relative"};
	struct sysfs_tree tree = {.manifest = -1};

	for (unsigned int i = 0; i < sizeof(folders) / sizeof(*folders); i++) {
		errno = 0;
		ck_assert(!sysfs_tree_make(&tree, folders[i]));
		ck_assert_int_eq(errno, EINVAL);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("sysfs_tree");
	TCase *tests = tcase_create("sysfs_tree");

	tcase_add_test(tests, errors_are_those_of_mkdir);
	tcase_add_test(tests, bad_folders);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
