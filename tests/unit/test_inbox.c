/* SPDX-License-Identifier: BSD-2-Clause */
/* The file of an inbox: made whatever the process's limits are, and removed with its process. */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "killable.h"
#include "net/shm/inbox.h"
#include "tests/run_suite.h"

static char directory[SHM_PATH / 2];
static struct inbox inbox;

static void set_up(void)
{
	snprintf(directory, sizeof(directory), "/dev/shm/urxe-test-inbox-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(directory));
}

static void tear_down(void)
{
	inbox_destroy(&inbox);
	ck_assert_int_eq(rmdir(directory), 0);
}

/* Whether the ring that @sender numbered so is there; 0: its inbox. */
static bool is_there(uint64_t sender, uint32_t ring, struct stat *file)
{
	char path[SHM_PATH];

	shm_path(path, directory, sender, ring);
	return stat(path, file) == 0;
}

static void make_ring(uint64_t sender)
{
	char path[SHM_PATH];
	struct ring ring;

	shm_path(path, directory, sender, 1);
	ck_assert_int_eq(ring_create(&ring, path), 0);
	ring_close(&ring);
}

/* --- the sweep -------------------------------------------------------------------------------- */

static void make_inbox(const void *number)
{
	struct inbox killed;

	if (inbox_create(&killed, directory) != 0)
		_exit(1);
	make_ring(killed.number);
	if (write(*(const int *)number, &killed.number, sizeof(killed.number)) < 0)
		_exit(1);
}

START_TEST(what_dead_processes_left_is_removed)
{
	uint64_t number;
	struct stat file;
	int ends[2];
	pid_t pid;

	ck_assert_int_eq(pipe(ends), 0);
	pid = killable_process(make_inbox, &ends[1]);
	ck_assert_int_eq(read(ends[0], &number, sizeof(number)), sizeof(number));
	kill_and_wait(pid);
	ck_assert(is_there(number, 0, &file) && is_there(number, 1, &file));
	ck_assert_int_eq(inbox_create(&inbox, directory), 0);
	ck_assert(!is_there(number, 0, &file) && !is_there(number, 1, &file));
}
END_TEST

/* With one descriptor left the directory can be read, and no file in it opened. */
START_TEST(what_cant_be_looked_at_is_not_dead)
{
	struct rlimit limit, one;
	struct inbox second;
	struct stat file;
	int next;

	ck_assert_int_eq(inbox_create(&inbox, directory), 0);
	make_ring(inbox.number);
	next = dup(0);
	close(next);
	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	one = (struct rlimit){next + 1, limit.rlim_max};
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &one), 0);
	inbox_create(&second, directory);
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	inbox_destroy(&second);
	ck_assert(is_there(inbox.number, 0, &file) && is_there(inbox.number, 1, &file));
	inbox_offer(inbox.file, 1, inbox.number, 1); /* to be removed with it */
}
END_TEST

/* --- making it -------------------------------------------------------------------------------- */

START_TEST(the_umask_is_no_matter)
{
	const mode_t before = umask(0777);
	struct stat file;

	ck_assert_int_eq(inbox_create(&inbox, directory), 0);
	make_ring(inbox.number);
	umask(before);
	for (uint32_t ring = 0; ring < 2; ring++) {
		ck_assert(is_there(inbox.number, ring, &file));
		ck_assert_uint_eq(file.st_mode & 07777, 0600);
	}
	inbox_offer(inbox.file, 1, inbox.number, 1);
}
END_TEST

/* The kernel's signal would end the process. */
START_TEST(beyond_the_limit_of_file_sizes_there_is_none)
{
	struct rlimit limit;

	ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
	limit.rlim_cur = sizeof(struct inbox_file) - 1;
	ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
	ck_assert_int_eq(inbox_create(&inbox, directory), EFBIG);
	limit.rlim_cur++;
	ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
	ck_assert_int_eq(inbox_create(&inbox, directory), 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("inbox");
	TCase *tests = tcase_create("inbox");

	tcase_add_checked_fixture(tests, set_up, tear_down);
	tcase_add_test(tests, what_dead_processes_left_is_removed);
	tcase_add_test(tests, what_cant_be_looked_at_is_not_dead);
	tcase_add_test(tests, the_umask_is_no_matter);
	tcase_add_test(tests, beyond_the_limit_of_file_sizes_there_is_none);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
