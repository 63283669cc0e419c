/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The roster's lock, with members that are stopped or killed while they have it: they keep no other
 * member waiting for long, and when they go on they don't harm what others have by then.
 */
#include <check.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "net/process.h"
#include "roster_members.h"
#include "tests/run_suite.h"

/* --- where members are stopped --------------------------------------------------------- */

/* What happens when the lock of @byte was asked for: after so many @calls. */
static struct {
	off_t byte;
	unsigned int calls;
	void (*act)(void);
} hook;

static void (*in_getrandom)(void); /* the next time */

int fcntl(int fd, int command, ...)
{
	struct flock *lock;
	va_list arguments;
	int result;

	va_start(arguments, command);
	lock = va_arg(arguments, struct flock *);
	va_end(arguments);
	result = syscall(SYS_fcntl, fd, command, lock);
	if ((command == F_OFD_GETLK || command == F_OFD_SETLK) && hook.calls &&
	    lock->l_start == hook.byte && --hook.calls == 0)
		hook.act();
	return result;
}

ssize_t getrandom(void *buffer, size_t length, unsigned int flags)
{
	void (*act)(void) = in_getrandom;

	in_getrandom = NULL;
	if (act)
		act();
	return syscall(SYS_getrandom, buffer, length, flags);
}

static unsigned int stats;

int stat(const char *file, struct stat *result)
{
	stats++;
	return fstatat(AT_FDCWD, file, result, 0);
}

static void stop(void)
{
	raise(SIGSTOP);
}

static void wait_until_stopped(pid_t pid)
{
	int status;

	ck_assert_int_eq(waitpid(pid, &status, WUNTRACED), pid);
	ck_assert(WIFSTOPPED(status));
}

static void go_on(pid_t pid)
{
	ck_assert_int_eq(kill(pid, SIGCONT), 0);
	wait_for_success(pid);
}

/* --- the lock ------------------------------------------------------------------------- */

static pid_t stopped_with_the_lock(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		struct roster *roster = join();

		if (roster_lock(roster))
			_exit(1);
		raise(SIGSTOP);
		roster_unlock(roster);
		if (roster_lock(roster))
			_exit(2);
		roster_unlock(roster);
		roster_close(roster);
		_exit(0);
	}
	wait_until_stopped(pid);
	return pid;
}

/* More of them than the lock has bytes would be too many. */
START_TEST(stopped_members_keep_no_member_waiting)
{
	struct roster *a = join(), *b;
	pid_t pids[8];

	for (unsigned int i = 0; i < 8; i++) {
		pids[i] = stopped_with_the_lock();
		lease(a, i ? 1u << (i - 1) : 1);
		b = join();
		ck_assert_int_eq(roster_lock(a), 0);
		ck_assert(!roster_trylock(b));
		roster_unlock(a);
		ck_assert(roster_trylock(b));
		roster_unlock(b);
		roster_close(b);
	}
	for (unsigned int i = 0; i < 8; i++)
		go_on(pids[i]);
	ck_assert(roster_trylock(a));
	roster_unlock(a);
	roster_close(a);
}
END_TEST

static off_t lock_byte(const struct roster *roster, uint32_t epochs_ahead)
{
	return ROSTER_MEMBERS + 1 + (roster->table->lock.epoch + epochs_ahead) % LOCK_BYTES;
}

/* One that was stopped so long ago that its byte is the next one again. */
START_TEST(one_that_stays_stopped_keeps_none_waiting_later)
{
	struct roster *a = join();
	pid_t first = stopped_with_the_lock(), second;
	off_t byte = lock_byte(a, 0);

	lease(a, 1);
	a->table->lock.epoch += LOCK_BYTES - 2;
	ck_assert_int_eq(lock_byte(a, 1), byte);
	second = stopped_with_the_lock();
	ck_assert_int_eq(roster_lock(a), 0);
	ck_assert(roster_unlock(a));
	go_on(first);
	go_on(second);
	roster_close(a);
}
END_TEST

/* A member that stops when it has locked the byte of the next epoch, to pass over the holder. */
static void pass_over_and_stop(const int ready[2], const int go[2])
{
	struct roster *roster = join();
	char byte;

	if (write(ready[1], "r", 1) != 1 || read(go[0], &byte, 1) != 1)
		_exit(1);
	hook.byte = lock_byte(roster, 1);
	hook.calls = 1;
	hook.act = stop;
	_exit(roster_lock(roster));
}

START_TEST(one_that_is_stopped_while_it_passes_over_keeps_none_waiting)
{
	struct roster *a = join();
	int ready[2], go[2];
	pid_t holder, passing;
	char byte;

	ck_assert_int_eq(pipe(ready), 0);
	ck_assert_int_eq(pipe(go), 0);
	passing = fork();
	if (passing == 0)
		pass_over_and_stop(ready, go);
	ck_assert_int_eq(read(ready[0], &byte, 1), 1);
	holder = stopped_with_the_lock();
	ck_assert_int_eq(write(go[1], "g", 1), 1);
	wait_until_stopped(passing);
	ck_assert_int_eq(roster_lock(a), 0);
	ck_assert(roster_unlock(a));
	go_on(holder);
	go_on(passing);
	roster_close(a);
}
END_TEST

static void begin_with_all_of_the_file(const void *unused)
{
	struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	int fd = open(path, O_RDWR | O_CLOEXEC);

	if (fd < 0 || fcntl(fd, F_OFD_SETLK, &all) < 0)
		_exit(1);
}

/* It was about to remove the file, which had no member. */
START_TEST(one_that_stands_still_while_it_sweeps_keeps_none_out)
{
	struct stat before, now;
	struct roster *a;
	pid_t pid;

	roster_close(join());
	ck_assert_int_eq(lstat(path, &before), 0);
	pid = killable_process(begin_with_all_of_the_file, NULL);
	a = join();
	ck_assert_int_eq(lstat(path, &now), 0);
	ck_assert_uint_ne(now.st_ino, before.st_ino);
	kill_and_wait(pid);
	roster_close(a);
}
END_TEST

/* To look up the PID namespace takes longer than all else that the lock does. */
START_TEST(only_the_first_lock_looks_up_the_namespace)
{
	struct roster *roster = join();
	unsigned int before = stats;

	for (unsigned int i = 0; i < 3; i++) {
		ck_assert_int_eq(roster_lock(roster), 0);
		ck_assert(roster_unlock(roster));
		ck_assert(roster_trylock(roster));
		ck_assert(roster_unlock(roster));
	}
	ck_assert_uint_eq(stats, before);
	roster_close(roster);
}
END_TEST

/* For longer than a member waits for one that sleeps while it has the lock. */
START_TEST(a_member_that_stood_still_waits_on)
{
	int joined[2], locked[2];
	struct roster *a = join();
	pid_t pid;
	char byte;

	ck_assert_int_eq(pipe(joined), 0);
	ck_assert_int_eq(pipe(locked), 0);
	pid = fork();
	if (pid == 0) {
		struct roster *b = join();

		if (write(joined[1], "j", 1) != 1 || read(locked[0], &byte, 1) != 1)
			_exit(1);
		_exit(roster_lock(b));
	}
	ck_assert_int_eq(read(joined[0], &byte, 1), 1);
	ck_assert_int_eq(roster_lock(a), 0);
	ck_assert_int_eq(write(locked[1], "l", 1), 1);
	usleep(100000);
	ck_assert_int_eq(kill(pid, SIGSTOP), 0);
	sleep(6);
	ck_assert_int_eq(kill(pid, SIGCONT), 0);
	usleep(100000);
	roster_unlock(a);
	wait_for_success(pid);
	roster_close(a);
}
END_TEST

/* A member that only tries, as receiving does, goes on waiting from one try to the next. */
START_TEST(those_that_only_try_pass_over_it)
{
	struct roster *a = join();
	pid_t pid = stopped_with_the_lock();

	while (!roster_trylock(a))
		usleep(10000);
	roster_unlock(a);
	go_on(pid);
	roster_close(a);
}
END_TEST

static void begin_with_the_lock(const void *unused)
{
	if (roster_lock(join()))
		_exit(1);
}

/* It may be frozen, which can't be seen. */
START_TEST(one_that_sleeps_is_passed_over)
{
	pid_t pid = killable_process(begin_with_the_lock, NULL);
	struct roster *a = join();

	ck_assert_int_eq(roster_lock(a), 0);
	ck_assert(roster_unlock(a));
	kill_and_wait(pid);
	roster_close(a);
}
END_TEST

/* Numbers of another PID namespace are those of other threads here. */
START_TEST(a_holder_is_of_its_pid_namespace)
{
	uint64_t ours = process_namespace("pid");
	struct roster *a = join();
	pid_t pid = stopped_with_the_lock();
	const struct roster_lock_state *lock = &a->table->lock;
	const struct roster_holder *holder = &lock->holders[lock->epoch % LOCK_BYTES];

	ck_assert_uint_ne(ours, 0);
	ck_assert_uint_eq(holder->thread, pid);
	ck_assert_uint_eq(holder->pid_namespace, ours);
	ck_assert_int_eq(process_state(pid, ours), 'T');
	ck_assert_int_eq(process_state(pid, ours + 1), 0);
	ck_assert_int_eq(process_state(pid, 0), 0);
	ck_assert_int_eq(process_state(gettid(), ours), 'R');
	go_on(pid);
	roster_close(a);
}
END_TEST

/* --- what goes on beside the lock -------------------------------------------------------- */

static int ready[2], go[2];

/* A member that removes the dead when it may, and stops when it has found that @byte's is. */
static void remove_the_dead(off_t byte)
{
	struct roster *roster = join();
	char text;

	if (write(ready[1], "r", 1) != 1 || read(go[0], &text, 1) != 1 || roster_lock(roster))
		_exit(1);
	hook.byte = byte;
	hook.calls = 1;
	hook.act = stop;
	roster_reap(roster);
	/* It was passed over. */
	_exit(roster_unlock(roster));
}

START_TEST(the_dead_are_removed_from_nobody_else)
{
	union ibv_gid gid = gid_of("10.0.0.1");
	struct share_connection live = connection_at("10.0.0.1", 7);
	struct roster *a = join(), *b;
	pid_t dead = member_process(&gid, 1), remover;
	uint32_t number = roster_neighbour(a, &gid), slot;
	char text;

	ck_assert_int_eq(pipe(ready), 0);
	ck_assert_int_eq(pipe(go), 0);
	remover = fork();
	if (remover == 0)
		remove_the_dead(number);
	ck_assert_int_eq(read(ready[0], &text, 1), 1);
	kill_and_wait(dead);
	ck_assert_int_eq(write(go[1], "g", 1), 1);
	wait_until_stopped(remover);

	/* It is dead to others, too, and they needn't wait. */
	ck_assert(!roster_is_alive(a, number));
	ck_assert_uint_eq(reap(a), 1);
	b = join();
	join_group(b, &gid);
	slot = lease(b, 1);
	ck_assert_int_eq(claim(b, &gid, 7), 0);
	ck_assert_uint_ne(roster_add_connection(b, &live), 0);
	go_on(remover);
	ck_assert_int_eq(roster_index(a, roster_self(b), &gid), 0);
	ck_assert_uint_eq(roster_owner(a, slot), roster_self(b));
	ck_assert_uint_eq(roster_claimant(a, &gid, 7), roster_self(b));
	ck_assert_uint_eq(member_of(a, roster_self(b))->here, 1);
	join_group(a, &gid);
	ck_assert_uint_eq(orphans(a, 7), 0);
	roster_close(b);
	roster_close(a);
}
END_TEST

static struct roster *teller, *newcomer;

static void begin_with_a_connection(const void *argument)
{
	const union ibv_gid *gid = argument;
	struct share_connection connection = connection_at("10.0.0.1", 100);
	struct roster *roster = join();

	join_group(roster, gid);
	roster_add_connection(roster, &connection);
}

/* Its entry is that of a connection that lives, by then. */
static void end_the_orphan(void)
{
	struct share_connection live = connection_at("10.0.0.1", 7);

	reap(teller);
	for (unsigned int i = 0; i < 3; i++)
		ck_assert_uint_eq(orphans(teller, 100), 1);
	newcomer = join();
	ck_assert_uint_eq(roster_add_connection(newcomer, &live), 1);
}

/* While the member looks whether the connection's is dead, or when it has found it so. */
START_TEST(a_live_connection_is_no_orphan)
{
	union ibv_gid gid = gid_of("10.0.0.1");
	struct share_connection orphan;
	struct roster *a = join();
	pid_t dead = killable_process(begin_with_a_connection, &gid);
	uint32_t number = 0;

	teller = join();
	hook.byte = roster_neighbour(a, &gid);
	join_group(a, &gid);
	join_group(teller, &gid);
	kill_and_wait(dead);
	hook.act = end_the_orphan;
	hook.calls = _i;
	ck_assert(!roster_next_orphan(a, &number, &orphan));
	ck_assert_uint_eq(hook.calls, 0);
	roster_close(newcomer);
	roster_close(teller);
	roster_close(a);
}
END_TEST

static unsigned int file_count(void)
{
	DIR *files = opendir(directory);
	unsigned int count = 0;
	struct dirent *file;

	while ((file = readdir(files)))
		count += file->d_name[0] != '.';
	closedir(files);
	return count;
}

/* Whether the process that does so goes on, or is killed. */
START_TEST(a_file_is_set_up_by_one)
{
	uint64_t secret;
	struct roster *a;
	uint32_t slot;
	pid_t pid;

	ck_assert_int_eq(pipe(go), 0);
	pid = fork();
	if (pid == 0) {
		in_getrandom = stop;
		a = join();
		_exit(read(go[0], &secret, sizeof(secret)) != sizeof(secret) ||
		      secret != roster_secret(a));
	}
	wait_until_stopped(pid);
	a = join();
	secret = roster_secret(a);
	slot = lease(a, 1);
	if (_i) {
		kill_and_wait(pid);
	} else {
		ck_assert_int_eq(write(go[1], &secret, sizeof(secret)), sizeof(secret));
		go_on(pid);
	}
	ck_assert_uint_eq(roster_secret(a), secret);
	ck_assert_uint_eq(roster_owner(a, slot), roster_self(a));
	ck_assert_uint_eq(file_count(), 1);
	roster_close(a);
}
END_TEST

static void fill_in_entries(const void *unused)
{
	struct roster *roster = join();
	struct roster_file *table = roster->table;

	if (!entry_take(&table->sockets[0].member, 0, roster->self) ||
	    !entry_take(&table->claims[0].member, 0, roster->self) ||
	    !entry_take(&table->connections[0].member, 0, roster->self))
		_exit(1);
	table->sockets_used = table->claims_used = table->connections_used = 1;
}

START_TEST(entries_that_are_filled_in_go_with_their_member)
{
	union ibv_gid none = {{0}}, gid = gid_of("10.0.0.1");
	struct share_connection connection = connection_at("10.0.0.1", 7);
	pid_t pid = killable_process(fill_in_entries, NULL);
	struct roster *a = join();

	ck_assert_uint_eq(roster_sockets(a, &none), 0);
	ck_assert_uint_eq(roster_claimant(a, &none, 0), 0);
	join_group(a, &gid);
	ck_assert_int_eq(claim(a, &gid, 7), 0);
	ck_assert_uint_eq(roster_add_connection(a, &connection), 2);
	kill_and_wait(pid);
	ck_assert_uint_eq(reap(a), 0);
	ck_assert_uint_eq(a->table->sockets[0].member, 0);
	ck_assert_uint_eq(a->table->claims[0].member, 0);
	ck_assert_uint_eq(roster_add_connection(a, &connection), 1);
	ck_assert_int_eq(roster_index(a, roster_self(a), &gid), 0);
	ck_assert_uint_eq(roster_claimant(a, &gid, 7), roster_self(a));
	roster_close(a);
}
END_TEST

#define ROUNDS 100000

static _Atomic unsigned int claimants, collisions;

/* Like one that was passed over: without the lock. */
static void *come_and_go(void *argument)
{
	struct roster *roster = argument;
	union ibv_gid shared = gid_of("10.0.0.1"), own = gid_of("10.1.0.0");

	own.raw[15] = roster_self(roster);
	for (unsigned int i = 0; i < ROUNDS; i++) {
		if (roster_claim(roster, &shared, 7) == 0) {
			collisions += claimants++ != 0;
			claimants--;
			roster_release(roster, &shared, 7);
		}
		roster_join_group(roster, &own, i + 1);
		collisions += roster_cookie(roster, roster_self(roster), &own) != i + 1;
		roster_leave_group(roster, &own);
	}
	return NULL;
}

START_TEST(what_members_have_doesnt_depend_on_the_lock)
{
	struct roster *a = join(), *b = join();
	pthread_t thread;

	ck_assert_int_eq(pthread_create(&thread, NULL, come_and_go, a), 0);
	come_and_go(b);
	pthread_join(thread, NULL);
	ck_assert_uint_eq(collisions, 0);
	ck_assert_uint_eq(roster_sockets(a, &(union ibv_gid){{0}}), 0);
	roster_close(b);
	roster_close(a);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("roster_lock");
	TCase *tests = tcase_create("roster_lock");

	tcase_set_timeout(tests, 100);
	tcase_add_checked_fixture(tests, setup, teardown);
	tcase_add_test(tests, stopped_members_keep_no_member_waiting);
	tcase_add_test(tests, one_that_stays_stopped_keeps_none_waiting_later);
	tcase_add_test(tests, one_that_is_stopped_while_it_passes_over_keeps_none_waiting);
	tcase_add_test(tests, one_that_stands_still_while_it_sweeps_keeps_none_out);
	tcase_add_test(tests, only_the_first_lock_looks_up_the_namespace);
	tcase_add_test(tests, a_member_that_stood_still_waits_on);
	tcase_add_test(tests, those_that_only_try_pass_over_it);
	tcase_add_test(tests, one_that_sleeps_is_passed_over);
	tcase_add_test(tests, a_holder_is_of_its_pid_namespace);
	tcase_add_test(tests, the_dead_are_removed_from_nobody_else);
	tcase_add_loop_test(tests, a_live_connection_is_no_orphan, 1, 3);
	tcase_add_loop_test(tests, a_file_is_set_up_by_one, 0, 2);
	tcase_add_test(tests, entries_that_are_filled_in_go_with_their_member);
	tcase_add_test(tests, what_members_have_doesnt_depend_on_the_lock);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
