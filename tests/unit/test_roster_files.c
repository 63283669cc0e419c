/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The file of the roster: which one is opened, what is survived that any process of the user may
 * write to it, and which files without members are removed.
 */
#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "faults.h"
#include "gid_of.h"
#include "killable.h"
#include "roster_members.h"
#include "tests/must.h"
#include "tests/run_suite.h"

/* --- which file it is ------------------------------------------------------------------ */

static bool exists(const char *file)
{
	struct stat status;

	return lstat(file, &status) == 0;
}

static void expect_at(const char *file)
{
	struct roster *a = join(), *b = join();
	struct stat status;

	ck_assert_uint_eq(roster_secret(a), roster_secret(b));
	ck_assert_int_eq(lstat(file, &status), 0);
	ck_assert_int_eq(status.st_size, sizeof(struct roster_file));
	roster_close(a);
	roster_close(b);
}

/* They are left alone, and sharing goes on in another file; if there may be one. */
START_TEST(unsafe_files_are_passed_over)
{
	char target[100], names[4][100];
	struct roster *roster;
	struct stat status;

	for (int i = 0; i < 4; i++)
		snprintf(names[i], sizeof(names[i]), i ? "%s.%d" : "%s", path, i);
	snprintf(target, sizeof(target), "%s-target", path);
	ck_assert_int_eq(symlink(target, names[0]), 0);
	expect_at(names[1]);
	ck_assert_int_eq(lstat(target, &status), -1);
	ck_assert_int_eq(unlink(names[1]), 0);
	close(open(names[1], O_CREAT | O_WRONLY, 0600));
	ck_assert_int_eq(chmod(names[1], 0644), 0);
	expect_at(names[2]);
	if (getuid() == 0) {
		ck_assert_int_eq(truncate(names[2], 0), 0);
		ck_assert_int_eq(chown(names[2], 65534, 65534), 0);
		expect_at(names[3]);
	}
	/* One that is in use is used, though there is a name before it by now. */
	unlink(names[0]);
	expect_at(names[getuid() == 0 ? 3 : 2]);

	for (int i = 0; i < 4; i++) {
		unlink(names[i]);
		ck_assert_int_eq(symlink(target, names[i]), 0);
	}
	ck_assert_int_eq(roster_open(path, &roster), ELOOP);
	unlink(names[2]);
	ck_assert_int_eq(mkdir(names[2], 0700), 0);
	ck_assert_int_eq(roster_open(path, &roster), ELOOP);
	ck_assert_int_eq(rmdir(names[2]), 0);
	expect_at(names[2]);
}
END_TEST

static int refusal; /* errno of the next openat(), or 0 */

/* Of libc, by which net/shared_file.c opens files that have a name. */
int openat(int folder, const char *name, int flags, ...)
{
	int error = refusal;

	if (!error)
		return syscall(SYS_openat, folder, name, flags, 0);
	refusal = 0;
	errno = error;
	return -1;
}

/* That it can't be opened just now says nothing of the file: no other one is made for that. */
START_TEST(nothing_left_to_open_it_with)
{
	static const int errors[] = {EMFILE, ENFILE, ENOMEM};
	struct roster *member = join(), *roster;
	char other[100];

	snprintf(other, sizeof(other), "%s.1", path);
	refusal = errors[_i];
	ck_assert_int_eq(roster_open(path, &roster), errors[_i]);
	ck_assert(!exists(other));
	expect_at(path);
	roster_close(member);
}
END_TEST

/* The members that there are keep it, and new ones join them; a later one begins anew. */
START_TEST(a_file_removed_under_members_is_shared_on)
{
	union ibv_gid gid = gid_of("10.0.0.1");
	pid_t member = member_process(&gid, 2);
	struct roster *a, *b, *c;
	uint64_t secret;

	ck_assert_int_eq(unlink(path), 0);
	a = join();
	b = join();
	secret = roster_secret(a);
	ck_assert_uint_eq(roster_secret(b), secret);
	ck_assert_uint_ne(roster_self(a), roster_self(b));
	ck_assert_uint_eq(roster_sockets(a, &gid), 1);
	lease(a, 1);
	ck_assert(!exists(path));
	kill_and_wait(member);
	ck_assert_uint_eq(reap(b), 1);
	c = join();
	ck_assert_uint_eq(roster_secret(c), secret);
	roster_close(a);
	roster_close(b);
	roster_close(c);
	c = join();
	ck_assert_uint_ne(roster_secret(c), secret);
	ck_assert(exists(path));
	roster_close(c);
}
END_TEST

/* --- hostile contents ------------------------------------------------------------------ */

static void overwrite(size_t offset, size_t length, unsigned int seed)
{
	uint8_t *bytes = malloc(length);
	int fd = open(path, O_WRONLY);

	srandom(seed);
	for (size_t i = 0; i < length; i++)
		bytes[i] = seed ? random() : 0xff;
	ck_assert_int_eq(pwrite(fd, bytes, length, offset), length);
	close(fd);
	free(bytes);
}

/*
 * Random bytes for all of the file, or for all but what tells its version. As long as it has a
 * member it isn't touched; then it is begun anew.
 */
START_TEST(files_with_random_contents_are_refused)
{
	size_t from = _i % 2 ? offsetof(struct roster_file, repaired) : 0;
	struct roster *member = join(), *roster;

	overwrite(from, sizeof(struct roster_file) - from, _i / 2);
	ck_assert_int_eq(roster_open(path, &roster), EBADMSG);
	roster_close(member);
	roster = join();
	lease(roster, 1);
	ck_assert_uint_eq(roster_sockets(roster, &(union ibv_gid){{0}}), 0);
	roster_close(roster);
}
END_TEST

#define NUMBER(field, last)                                                                        \
	{                                                                                          \
		offsetof(struct roster_file, field), sizeof(((struct roster_file *)0)->field),     \
			last                                                                       \
	}

static const struct number {
	size_t offset, size;
	uint32_t most;
} numbers[] = {
	NUMBER(version, ROSTER_VERSION),
	NUMBER(size, sizeof(struct roster_file)),
	NUMBER(cursor, SLOTS - 2),
	NUMBER(sockets_used, SOCKETS),
	NUMBER(claims_used, CLAIMS),
	NUMBER(owners[SLOTS - 1], ROSTER_MEMBERS),
	NUMBER(next[SLOTS - 1], SLOT_QPNS - 1),
	NUMBER(members[ROSTER_MEMBERS - 1].here, 1),
	NUMBER(members[ROSTER_MEMBERS - 1].primary_slot, SLOTS - 1),
	NUMBER(members[ROSTER_MEMBERS - 1].slots, SLOTS - 1),
	NUMBER(members[ROSTER_MEMBERS - 1].control_port, UINT16_MAX),
	NUMBER(sockets[SOCKETS - 1].member, ENTRY_BUSY | ROSTER_MEMBERS),
	NUMBER(sockets[SOCKETS - 1].index, SOCKETS - 1),
	NUMBER(claims[CLAIMS - 1].member, ENTRY_BUSY | ROSTER_MEMBERS),
	NUMBER(ports[PORTS - 1], ROSTER_MEMBERS),
};

static void overwrite_number(const struct number *number, uint32_t value)
{
	const uint16_t half = value;
	int fd = open(path, O_WRONLY);

	ck_assert_int_eq(pwrite(fd, number->size == sizeof(half) ? (void *)&half : &value,
				number->size, number->offset),
			 number->size);
	close(fd);
}

/* One that no member can have written is enough. */
START_TEST(numbers_out_of_bounds_are_refused)
{
	struct roster *member = join(), *roster;

	overwrite_number(&numbers[_i], numbers[_i].most);
	roster_close(join());
	overwrite_number(&numbers[_i], numbers[_i].most + 1);
	ck_assert_int_eq(roster_open(path, &roster), EBADMSG);
	roster_close(member);
}
END_TEST

/* What is missing of it is as in a new one, unless it has members. */
START_TEST(truncated_files_are_made_whole)
{
	static const size_t sizes[] = {0, 1, 16, 4096, sizeof(struct roster_file) - 1};
	struct roster *member, *roster;

	for (unsigned int i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		roster = join();
		lease(roster, 1);
		roster_close(roster);
		ck_assert_int_eq(truncate(path, sizes[i]), 0);
		roster = join();
		lease(roster, 1);
		roster_close(roster);
	}
	catch_faults();
	member = join();
	ck_assert_int_eq(truncate(path, 0), 0);
	ck_assert_int_eq(roster_open(path, &roster), EBADMSG);
	roster_close(member);
	roster_close(join());
}
END_TEST

static void use_everything(struct roster *roster, const union ibv_gid *gid)
{
	static struct steer_plan plan;
	struct lease lease;

	if (roster_lock(roster))
		return;
	roster_join_group(roster, gid, 1);
	roster_set_index(roster, gid, 3);
	roster_lease(roster, &lease);
	roster_claim(roster, gid, 7);
	roster_plan(roster, gid, &plan);
	roster_leave_group(roster, gid);
	roster_release(roster, gid, 7);
	roster_reap(roster);
	roster_unlock(roster);
	for (uint32_t slot = 0; slot < SLOTS; slot++)
		ck_assert_uint_le(roster_owner(roster, slot), ROSTER_MEMBERS);
	ck_assert_uint_le(roster_sockets(roster, gid), SOCKETS);
	ck_assert_uint_le(roster_neighbour(roster, gid), ROSTER_MEMBERS);
	ck_assert_uint_le(roster_claimant(roster, gid, 7), ROSTER_MEMBERS);
	ck_assert_uint_lt(roster_primary_slot(roster, roster_self(roster)), SLOTS);
}

/* The contents change under a member: it may be wrong, but it neither crashes nor hangs. */
START_TEST(contents_that_change_are_survived)
{
	union ibv_gid gid = gid_of("10.0.0.1");
	struct roster *roster = join();

	use_everything(roster, &gid);
	for (unsigned int seed = 0; seed < 4; seed++) {
		overwrite(0, sizeof(struct roster_file), seed);
		use_everything(roster, &gid);
	}
	roster_close(roster);
}
END_TEST

/* Or the file is truncated: then the member is alone. */
START_TEST(a_file_truncated_under_a_member_is_survived)
{
	union ibv_gid gid = gid_of("10.0.0.1");
	struct roster *roster = join();

	catch_faults();
	use_everything(roster, &gid);
	ck_assert_int_eq(truncate(path, _i * 4096), 0);
	use_everything(roster, &gid);
	ck_assert_uint_eq(roster_secret(roster), 0);
	roster_close(roster);
	roster = join();
	use_everything(roster, &gid);
	roster_close(roster);
}
END_TEST

/* --- sweeping ---------------------------------------------------------------------------- */

#define NOT_LONG 1800
#define LONG 7200

static void set_age(const char *file, time_t opened, time_t deserted)
{
	time_t now = time(NULL);
	struct timespec times[] = {{.tv_sec = now - deserted}, {.tv_sec = now - opened}};

	ck_assert_int_eq(utimensat(AT_FDCWD, file, times, AT_SYMLINK_NOFOLLOW), 0);
}

/* Since when a sweep has known @file deserted, or 0. */
static time_t deserted(const char *file)
{
	struct stat status;

	ck_assert_int_eq(lstat(file, &status), 0);
	return status.st_atim.tv_sec > status.st_mtim.tv_sec ||
			       (status.st_atim.tv_sec == status.st_mtim.tv_sec &&
				status.st_atim.tv_nsec > status.st_mtim.tv_nsec)
		       ? status.st_atim.tv_sec
		       : 0;
}

/* As a process in a new namespace does. */
static void sweep(void)
{
	char file[sizeof(path)];

	name_path(file, ROSTER_VERSION, geteuid(), "99");
	roster_close(join_at(file));
	ck_assert_int_eq(unlink(file), 0);
}

static const struct {
	int newer;
	unsigned int user;
	const char *net;
	mode_t mode;
	time_t opened, deserted;
	bool goes;
} files[] = {
	{0, 0, "5", 0600, LONG + 1, LONG, true},    {-1, 0, "5", 0600, LONG + 1, LONG, true},
	{1, 0, "5", 0600, LONG + 1, LONG, false},   {0, 1, "5", 0600, LONG + 1, LONG, false},
	{0, 0, "5-5", 0600, LONG + 1, LONG, true},  {0, 0, "x", 0600, LONG + 1, LONG, false},
	{0, 0, "5-x", 0600, LONG + 1, LONG, false}, {0, 0, "5-5-5", 0600, LONG + 1, LONG, false},
	{0, 0, "5", 0640, LONG + 1, LONG, false},   {0, 0, "5", 0600, LONG, LONG, false},
	{0, 0, "5", 0600, LONG, LONG + 1, false},   {0, 0, "5", 0600, LONG, NOT_LONG, false},
};

START_TEST(what_was_deserted_for_long_is_swept)
{
	char file[sizeof(path)];

	name_path(file, ROSTER_VERSION + files[_i].newer, geteuid() + files[_i].user,
		  files[_i].net);
	roster_close(join_at(file));
	ck_assert_int_eq(chmod(file, files[_i].mode), 0);
	set_age(file, files[_i].opened, files[_i].deserted);
	sweep();
	ck_assert_int_eq(exists(file), !files[_i].goes);
}
END_TEST

/* However young they are; but not of a namespace with members, nor without a cookie. */
START_TEST(a_former_namespace_s_file_is_swept)
{
	static const char *const nets[] = {"5", "5-1", "5-2", "5-3", "6-1"};
	char file[sizeof(path)];
	struct roster *member = NULL;

	for (unsigned int i = 0; i < 5; i++) {
		name_path(file, ROSTER_VERSION, geteuid(), nets[i]);
		if (i == 2)
			member = join_at(file);
		else
			roster_close(join_at(file));
	}
	name_path(file, ROSTER_VERSION, geteuid(), "5-4");
	roster_close(join_at(file));
	ck_assert(exists(file));
	for (unsigned int i = 0; i < 5; i++) {
		name_path(file, ROSTER_VERSION, geteuid(), nets[i]);
		ck_assert_int_eq(exists(file), i != 1 && i != 3);
	}
	roster_close(member);
}
END_TEST

START_TEST(links_are_not_swept)
{
	char target[sizeof(path)];

	name_path(target, ROSTER_VERSION + 1, geteuid(), "5");
	roster_close(join_at(target));
	set_age(target, LONG + 1, LONG);
	ck_assert_int_eq(symlink(target, path), 0);
	set_age(path, LONG + 1, LONG);
	sweep();
	ck_assert(exists(path));
	ck_assert(exists(target));
}
END_TEST

/* The hour begins when a sweep finds the file without members, and never while it has one. */
START_TEST(a_file_with_a_member_is_not_swept)
{
	union ibv_gid gid = gid_of("10.0.0.1");
	pid_t member = member_process(&gid, 1);
	time_t before = time(NULL);

	ck_assert_int_eq(deserted(path), 0);
	set_age(path, LONG + 1, LONG);
	sweep();
	ck_assert(exists(path));
	set_age(path, LONG, LONG);
	sweep();
	ck_assert_int_eq(deserted(path), 0);
	kill_and_wait(member);
	sweep();
	ck_assert_int_ge(deserted(path), before);
	sweep();
	ck_assert(exists(path));
	set_age(path, LONG + 1, LONG);
	roster_close(join());
	ck_assert_int_eq(deserted(path), 0);
	set_age(path, 1 - LONG, -LONG); /* the clock was put back */
	roster_close(join());
	ck_assert_int_eq(deserted(path), 0);
	sweep();
	ck_assert(exists(path));
	set_age(path, LONG + 1, LONG);
	sweep();
	ck_assert(!exists(path));
}
END_TEST

/* The file exists but is empty: the process that sets it up sweeps, with the file locked. */
START_TEST(a_sweep_leaves_its_own_file)
{
	struct roster *a, *b;

	close(open(path, O_CREAT | O_WRONLY, 0600));
	set_age(path, LONG + 1, LONG);
	a = join();
	ck_assert(exists(path));
	b = join();
	ck_assert_uint_eq(roster_secret(a), roster_secret(b));
	roster_close(a);
	roster_close(b);
}
END_TEST

START_TEST(opening_an_old_file_sweeps_nothing)
{
	char file[sizeof(path)];

	roster_close(join());
	name_path(file, ROSTER_VERSION, geteuid(), "5");
	roster_close(join_at(file));
	set_age(file, LONG + 1, LONG);
	roster_close(join());
	ck_assert(exists(file));
}
END_TEST

static bool has_open(pid_t pid, const char *file)
{
	char folder[32], target[PATH_MAX];
	struct dirent *entry;
	bool found = false;
	DIR *fds;

	snprintf(folder, sizeof(folder), "/proc/%d/fd", pid);
	fds = opendir(folder);
	ck_assert_ptr_nonnull(fds);
	while (!found && (entry = readdir(fds))) {
		ssize_t length = readlinkat(dirfd(fds), entry->d_name, target, sizeof(target) - 1);

		if (length < 0)
			continue;
		target[length] = 0;
		found = strcmp(target, file) == 0;
	}
	closedir(fds);
	return found;
}

/* The child waits for the lock of a file that is removed then: both must meet in another file. */
START_TEST(a_file_swept_while_it_is_opened_is_opened_anew)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	struct roster *a;
	int fd, go[2], ready[2];
	uint64_t secret;
	char byte;
	pid_t pid;

	roster_close(join());
	ck_assert_int_eq(pipe(go), 0);
	ck_assert_int_eq(pipe(ready), 0);
	pid = fork();
	if (pid == 0) {
		if (read(go[0], &byte, 1) != 1)
			_exit(1);
		secret = roster_secret(join());
		if (write(ready[1], &secret, sizeof(secret)) != sizeof(secret))
			_exit(1);
		for (;;)
			pause();
	}
	fd = open(path, O_RDWR | O_CLOEXEC);
	ck_assert_int_eq(fcntl(fd, F_OFD_SETLK, &lock), 0);
	ck_assert_int_eq(write(go[1], "g", 1), 1);
	while (!has_open(pid, path))
		usleep(1000);
	ck_assert_int_eq(unlink(path), 0);
	close(fd);
	ck_assert_int_eq(read(ready[0], &secret, sizeof(secret)), sizeof(secret));
	ck_assert(exists(path));
	a = join();
	ck_assert_uint_eq(roster_secret(a), secret);
	ck_assert_uint_ne(roster_self(a), 1);
	kill_and_wait(pid);
	roster_close(a);
}
END_TEST

struct network {
	uint64_t number;	     /* of a network namespace, in /proc */
	char path[ROSTER_PATH_SIZE]; /* of its roster */
};

/* Of a namespace that is gone when it returns, or soon after. False if it isn't permitted. */
static bool enter_network(struct network *network)
{
	int result[2], status;
	struct stat file;
	ssize_t length;
	pid_t pid;

	ck_assert_int_eq(pipe(result), 0);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		if (unshare(CLONE_NEWNET) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0)
			_exit(0);
		if (stat("/proc/thread-self/ns/net", &file) != 0 ||
		    roster_usual_path(network->path) != 0)
			_exit(1);
		network->number = file.st_ino;
		_exit(write(result[1], network, sizeof(*network)) != sizeof(*network));
	}
	close(result[1]);
	length = read(result[0], network, sizeof(*network));
	close(result[0]);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	return length == sizeof(*network);
}

/* In a folder without anything, of another user namespace where it takes that. */
static void look_without_proc(const char *folder)
{
	char usual[ROSTER_PATH_SIZE] = "";

	if (chroot(folder) != 0 && (unshare(CLONE_NEWUSER) != 0 || chroot(folder) != 0))
		_exit(0);
	must(roster_usual_path(usual) == ENOENT);
	must_msg(strcmp(usual, "/proc/thread-self/ns/net") == 0, "%s", usual);
	_exit(0);
}

/* What the log says of it is what is missing. */
START_TEST(the_name_takes_proc)
{
	char folder[] = "/tmp/urxe-empty-XXXXXX";
	int status;
	pid_t pid;

	ck_assert_ptr_nonnull(mkdtemp(folder));
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid == 0)
		look_without_proc(folder);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(rmdir(folder), 0);
	ck_assert_int_eq(status, 0);
}
END_TEST

static bool namespaces_have_cookies(void)
{
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	uint64_t cookie;
	socklen_t size = sizeof(cookie);
	bool have = getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &size) == 0;

	close(fd);
	return have;
}

#define NETWORKS 1000 /* that are remembered: another process may have taken the number of any */

static const struct network *of_the_same_number(const struct network *networks,
						const struct network *later)
{
	for (unsigned int i = 0; i < NETWORKS; i++) {
		if (&networks[i] != later && networks[i].number == later->number)
			return &networks[i];
	}
	return NULL;
}

/* Their connections would be ended by the members of another network, for the dead. */
START_TEST(a_later_namespace_has_another_file)
{
	static struct network networks[NETWORKS];
	const struct network *first;
	struct network *later;
	unsigned int count = 0;

	if (!namespaces_have_cookies() || !enter_network(&networks[count++])) {
		puts("no network namespaces that have cookies");
		return;
	}
	do {
		later = &networks[count++ % NETWORKS];
		ck_assert(enter_network(later));
		first = of_the_same_number(networks, later);
	} while (!first);
	ck_assert_str_ne(later->path, first->path);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("roster_files");
	TCase *tests = tcase_create("roster_files");

	tcase_set_timeout(tests, 100);
	tcase_add_checked_fixture(tests, setup, teardown);
	tcase_add_test(tests, unsafe_files_are_passed_over);
	tcase_add_loop_test(tests, nothing_left_to_open_it_with, 0, 3);
	tcase_add_test(tests, a_file_removed_under_members_is_shared_on);
	tcase_add_loop_test(tests, files_with_random_contents_are_refused, 0, 8);
	tcase_add_loop_test(tests, numbers_out_of_bounds_are_refused, 0,
			    sizeof(numbers) / sizeof(numbers[0]));
	tcase_add_test(tests, truncated_files_are_made_whole);
	tcase_add_test(tests, contents_that_change_are_survived);
	tcase_add_loop_test(tests, a_file_truncated_under_a_member_is_survived, 0, 4);
	tcase_add_loop_test(tests, what_was_deserted_for_long_is_swept, 0,
			    sizeof(files) / sizeof(files[0]));
	tcase_add_test(tests, a_former_namespace_s_file_is_swept);
	tcase_add_test(tests, links_are_not_swept);
	tcase_add_test(tests, a_file_with_a_member_is_not_swept);
	tcase_add_test(tests, a_sweep_leaves_its_own_file);
	tcase_add_test(tests, opening_an_old_file_sweeps_nothing);
	tcase_add_test(tests, a_file_swept_while_it_is_opened_is_opened_anew);
	tcase_add_test(tests, a_later_namespace_has_another_file);
	tcase_add_test(tests, the_name_takes_proc);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
