/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The file of an inbox: made whatever the process's limits are, and removed with its process. Its
 * doorbell: whatever is written there.
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <ucontext.h>
#include <unistd.h>

#include "killable.h"
#include "net/guard.h"
#include "net/shm/inbox.h"
#include "tests/run_suite.h"

#define DEAD UINT64_C(0x1234) /* the number of an inbox that there isn't any more */
#define ANOTHER_USER 65534

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

/* What its writer has sent last is in a ring that a living process was told of, and opens later. */
START_TEST(what_a_dead_process_sent_is_kept_for_its_reader)
{
	struct inbox other;
	struct stat file;

	ck_assert_int_eq(inbox_create(&inbox, directory), 0);
	make_ring(DEAD);
	inbox_offer(inbox.file, 7, DEAD, 1);
	ck_assert_int_eq(inbox_create(&other, directory), 0);
	inbox_destroy(&other);
	ck_assert(is_there(DEAD, 1, &file));
	/* Which the reader has opened, or won't open: */
	inbox_end_offer(inbox.file, 7, 1);
	ck_assert_int_eq(inbox_create(&other, directory), 0);
	inbox_destroy(&other);
	ck_assert(!is_there(DEAD, 1, &file));
}
END_TEST

/*
 * A process that can't map the reader's inbox doesn't know: no space is left in net/guard's table.
 */
START_TEST(what_may_be_awaited_is_kept)
{
	static uint8_t mapped[1 << 16];
	unsigned int count = 0;
	struct inbox other;
	struct stat file;

	ck_assert_int_eq(inbox_create(&inbox, directory), 0);
	make_ring(DEAD);
	inbox_offer(inbox.file, 7, DEAD, 1);
	while (guard_file(mapped + count, 0))
		ck_assert_uint_lt(count++, sizeof(mapped));
	ck_assert_int_eq(inbox_create(&other, directory), ENOSPC);
	ck_assert(is_there(DEAD, 1, &file));
	while (count)
		guard_forget_file(mapped + --count);
}
END_TEST

static void await_a_ring(const void *unused)
{
	struct inbox killed;

	if (inbox_create(&killed, directory) != 0)
		_exit(1);
	make_ring(DEAD);
	inbox_offer(killed.file, 7, DEAD, 1);
}

START_TEST(what_two_dead_processes_had_is_removed)
{
	kill_and_wait(killable_process(await_a_ring, NULL));
	ck_assert_int_eq(inbox_create(&inbox, directory), 0);
	inbox_destroy(&inbox);
}
END_TEST

/* Nor is what a newer version has left ours to judge, or what is no inbox one. */
START_TEST(what_others_made_stays)
{
	char ours[SHM_PATH], newer[SHM_PATH];
	int fd;

	shm_path(ours, directory, 1, 0);
	fd = open(ours, O_CREAT | O_RDWR, 0600);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(ftruncate(fd, 64), 0);
	close(fd);
	ck_assert_ptr_null(inbox_open(directory, 1));
	snprintf(newer, sizeof(newer), "%s/urxe-shm-99-%u-%016llx-1", directory, geteuid(), 1ULL);
	ck_assert_int_eq(rename(ours, newer), 0);
	ck_assert_int_eq(inbox_create(&inbox, directory), 0);
	ck_assert_int_eq(unlink(newer), 0);
}
END_TEST

/* Only root can give a file to another user; a FIFO isn't ours to any. */
static void make_another_users(const char *path)
{
	int fd;

	if (getuid() != 0) {
		ck_assert_int_eq(mkfifo(path, 0600), 0);
		return;
	}
	fd = open(path, O_CREAT | O_RDWR, 0600);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(fchown(fd, ANOTHER_USER, -1), 0);
	close(fd);
}

/* It says nothing of a process of ours, and is removed by none. */
START_TEST(what_another_user_made_keeps_nothing)
{
	char theirs[SHM_PATH];
	struct stat file;

	shm_path(theirs, directory, 1, 0);
	make_another_users(theirs);
	make_ring(1);
	make_ring(DEAD);
	ck_assert_int_eq(inbox_create(&inbox, directory), 0);
	ck_assert(!is_there(1, 1, &file) && !is_there(DEAD, 1, &file));
	ck_assert_int_eq(unlink(theirs), 0);
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

/* --- the doorbell ----------------------------------------------------------------------------- */

static unsigned int ring_all(void)
{
	unsigned int rung = 0;

	while (inbox_next_rung(inbox.file))
		rung++;
	return rung;
}

START_TEST(members_ring_once_each)
{
	static const uint32_t members[] = {1, 63, 64, ROSTER_MEMBERS - 1, ROSTER_MEMBERS};

	ck_assert_int_eq(inbox_create(&inbox, directory), 0);
	for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
		inbox_ring_bell(inbox.file, members[i]);
		ck_assert_uint_eq(inbox_next_rung(inbox.file), members[i]);
		ck_assert_uint_eq(inbox_next_rung(inbox.file), 0);
		ck_assert(!inbox_is_rung(inbox.file));
	}
	for (uint32_t i = 0; i < INBOX_WORDS; i++)
		inbox.file->members[i] = UINT64_MAX;
	inbox.file->rung = 1;
	ck_assert_uint_eq(ring_all(), ROSTER_MEMBERS);
	for (uint32_t i = 0; i < INBOX_WORDS; i++)
		ck_assert_uint_eq(inbox.file->members[i], 0);
}
END_TEST

#ifdef __x86_64__

#define TRAP_FLAG 0x100
#define STEPS 100000

static volatile unsigned int steps;
static volatile bool stepping;

/* What is written behind each instruction: as by another process, in the worst order. */
static void write_between_instructions(int number, siginfo_t *info, void *context)
{
	greg_t *flags = &((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL];

	inbox.file->members[0] |= 1;
	inbox.file->members[INBOX_WORDS - 1] |= UINT64_C(1) << 63;
	inbox.file->rung = 1;
	if (++steps > STEPS)
		_exit(1);
	*flags = stepping ? *flags | TRAP_FLAG : *flags & ~TRAP_FLAG;
}

/* Another process can't keep the receiver at it. */
START_TEST(bits_that_are_no_members_end)
{
	struct sigaction action = {.sa_sigaction = write_between_instructions,
				   .sa_flags = SA_SIGINFO};

	ck_assert_int_eq(inbox_create(&inbox, directory), 0);
	ck_assert_int_eq(sigaction(SIGTRAP, &action, NULL), 0);
	stepping = true;
	raise(SIGTRAP);
	ck_assert_uint_eq(inbox_next_rung(inbox.file), 0);
	stepping = false;
	raise(SIGTRAP); /* or the next step */
	ck_assert_uint_gt(steps, INBOX_WORDS);
}
END_TEST

#endif

int main(void)
{
	Suite *suite = suite_create("inbox");
	TCase *tests = tcase_create("inbox");

	tcase_add_checked_fixture(tests, set_up, tear_down);
	tcase_add_test(tests, what_dead_processes_left_is_removed);
	tcase_add_test(tests, what_a_dead_process_sent_is_kept_for_its_reader);
	tcase_add_test(tests, what_may_be_awaited_is_kept);
	tcase_add_test(tests, what_two_dead_processes_had_is_removed);
	tcase_add_test(tests, what_others_made_stays);
	tcase_add_test(tests, what_another_user_made_keeps_nothing);
	tcase_add_test(tests, what_cant_be_looked_at_is_not_dead);
	tcase_add_test(tests, the_umask_is_no_matter);
	tcase_add_test(tests, beyond_the_limit_of_file_sizes_there_is_none);
	tcase_add_test(tests, members_ring_once_each);
#ifdef __x86_64__
	tcase_add_test(tests, bits_that_are_no_members_end);
#endif
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
