/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The files in which processes show what they have: records come and go, of processes that are
 * stopped, killed or forked; and a reader that is given any bytes. In a directory of its own.
 */
#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utlist.h>

#include "faults.h"
#include "killable.h"
#include "net/observe/file.h"
#include "net/observe/observe.h"
#include "net/observe/reader.h"
#include "net/process.h"
#include "tests/cancelled.h"
#include "tests/must.h"
#include "tests/run_suite.h"

static char directory[32];
static unsigned int left_out;
static char reason[64]; /* why the last one was */

static void setup(void)
{
	strcpy(directory, "/tmp/urxe-observe-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(directory));
	left_out = 0;
}

static unsigned int files(void)
{
	DIR *folder = opendir(directory);
	unsigned int count = 0;
	struct dirent *file;

	while ((file = readdir(folder)))
		count += file->d_name[0] != '.';
	closedir(folder);
	return count;
}

static void teardown(void)
{
	DIR *folder = opendir(directory);
	struct dirent *file;

	while ((file = readdir(folder)))
		unlinkat(dirfd(folder), file->d_name, 0);
	closedir(folder);
	ck_assert_int_eq(rmdir(directory), 0);
}

static struct observe *open_shared(void)
{
	struct observe *observe = observe_open(directory, NULL);

	ck_assert(observe_is_shared(observe));
	return observe;
}

static void count_left_out(void *context, const char *path, const char *why)
{
	left_out++;
	snprintf(reason, sizeof(reason), "%s", why);
}

static struct observed *read_all(void)
{
	const struct observed_options options = {
		.directory = directory, .ended = true, .left_out = count_left_out};
	struct observed *processes;

	ck_assert_int_eq(observed_read(&options, &processes), 0);
	return processes;
}

/* There is one, and no more. */
static struct observed *read_one(void)
{
	struct observed *process = read_all();

	ck_assert_ptr_nonnull(process);
	ck_assert_ptr_null(process->next);
	return process;
}

static unsigned int count(const struct observed *process, enum observe_kind kind)
{
	unsigned int found = 0;

	for (const void *record = NULL; (record = observed_next(process, kind, record));) {
		must((uintptr_t)record % CACHE_LINE == 0);
		found++;
	}
	return found;
}

static unsigned int count_all(enum observe_kind kind)
{
	struct observed *process = read_one();
	unsigned int found = count(process, kind);

	observed_free(process);
	return found;
}

static struct observe_qp *show_qp(struct observe *observe, uint32_t number)
{
	struct observe_qp *qp = observe_claim(observe, OBSERVE_QP, 1);

	ck_assert_ptr_nonnull(qp);
	qp->number = number;
	observe_show(observe, qp);
	return qp;
}

/* --- what there is --------------------------------------------------------------------------- */

START_TEST(shows_the_process)
{
	struct observe *observe = open_shared();
	struct observe_device *device = observe_claim(observe, OBSERVE_DEVICE, 0);
	struct observed *process;

	strcpy(device->name, "urxe0");
	observe_show(observe, device);
	process = read_one();
	ck_assert_uint_eq(process->header.pid, getpid());
	ck_assert_int_eq(process->state, OBSERVED_RUNNING);
	ck_assert_ptr_nonnull(strstr(process->header.command, "test_observe"));
	ck_assert_str_eq(observed_device(process, device->head.id)->name, "urxe0");
	ck_assert_ptr_null(observed_device(process, device->head.id + 1));
	observed_free(process);
	observe_free(observe, OBSERVE_DEVICE, device);
	observe_close(observe);
	ck_assert_uint_eq(files(), 0);
}
END_TEST

/* Far more than a block has; every third one goes, and its record is used again. */
START_TEST(records_come_and_go)
{
	enum { MANY = 1000 };
	struct observe *observe = open_shared();
	struct observe_qp *qps[MANY];
	struct observed *process;
	const struct observe_qp *qp = NULL;
	uint32_t blocks;
	uint64_t sum = 0;

	for (int i = 0; i < MANY; i++)
		qps[i] = show_qp(observe, i);
	process = read_one();
	blocks = process->header.blocks;
	ck_assert_uint_eq(count(process, OBSERVE_QP), MANY);
	ck_assert_uint_eq(count(process, OBSERVE_CQ), 0);
	while ((qp = observed_next(process, OBSERVE_QP, qp)))
		sum += qp->number;
	ck_assert_uint_eq(sum, MANY * (MANY - 1) / 2);
	observed_free(process);

	for (int i = 0; i < MANY; i += 3)
		observe_free(observe, OBSERVE_QP, qps[i]);
	ck_assert_uint_eq(count_all(OBSERVE_QP), MANY - (MANY + 2) / 3);
	for (int i = 0; i < MANY; i += 3) {
		qps[i] = observe_claim(observe, OBSERVE_QP, 1);
		ck_assert_uint_eq(qps[i]->number, 0); /* nothing of the one before */
	}
	/* Not shown yet. */
	ck_assert_uint_eq(count_all(OBSERVE_QP), MANY - (MANY + 2) / 3);
	for (int i = 0; i < MANY; i += 3)
		observe_show(observe, qps[i]);
	process = read_one();
	ck_assert_uint_eq(count(process, OBSERVE_QP), MANY);
	ck_assert_uint_eq(process->header.blocks, blocks);
	observed_free(process);
	for (int i = 0; i < MANY; i++)
		observe_free(observe, OBSERVE_QP, qps[i]);
	ck_assert_uint_eq(count_all(OBSERVE_QP), 0);
	observe_close(observe);
}
END_TEST

/* Beyond what the file can have, objects are counted only. */
START_TEST(the_file_has_an_end)
{
	enum { MANY = OBSERVE_BLOCKS * (OBSERVE_BLOCK / OBSERVE_SIZE(observe_region)) + 100 };
	struct observe *observe = open_shared();
	struct observe_region **regions = calloc(MANY, sizeof(*regions));
	struct observed *process;

	for (int i = 0; i < MANY; i++) {
		regions[i] = observe_claim(observe, OBSERVE_REGION, 1);
		ck_assert_ptr_nonnull(regions[i]);
		observe_show(observe, regions[i]);
	}
	process = read_one();
	ck_assert_uint_eq(count(process, OBSERVE_REGION), MANY - 100);
	ck_assert_uint_eq(process->header.left_out[OBSERVE_REGION], 100);
	observed_free(process);
	for (int i = 0; i < MANY; i++)
		observe_free(observe, OBSERVE_REGION, regions[i]);
	process = read_one();
	ck_assert_uint_eq(process->header.left_out[OBSERVE_REGION], 0);
	observed_free(process);
	observe_close(observe);
	free(regions);
}
END_TEST

/* Bytes of the process that can be written, and are the file's whose name has @directory. */
static size_t writable(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	unsigned long first, end;
	char line[512], may[8];
	size_t bytes = 0;

	ck_assert_ptr_nonnull(maps);
	while (fgets(line, sizeof(line), maps)) {
		if (strstr(line, directory) &&
		    sscanf(line, "%lx-%lx %7s", &first, &end, may) == 3 && may[1] == 'w')
			bytes += end - first;
	}
	fclose(maps);
	return bytes;
}

/* Valgrind reads all that a program could write, and a word beyond the file's end is a SIGBUS. */
START_TEST(nothing_beyond_the_end_can_be_written)
{
	const size_t page = sysconf(_SC_PAGESIZE);
	struct observe *observe = open_shared();

	ck_assert_uint_eq(writable(), (OBSERVE_HEADER + page - 1) / page * page);
	for (unsigned int i = 0; i < 2 * observe_block_records(OBSERVE_QP); i++)
		ck_assert_ptr_nonnull(observe_claim(observe, OBSERVE_QP, 0));
	ck_assert_uint_eq(writable(),
			  (OBSERVE_HEADER + 2 * OBSERVE_BLOCK + page - 1) / page * page);
	observe_close(observe);
}
END_TEST

START_TEST(no_file_is_needed)
{
	struct observe *observe = observe_open("/nonexistent", NULL);
	struct observe_qp *qp;

	ck_assert_ptr_nonnull(observe);
	ck_assert(!observe_is_shared(observe));
	qp = show_qp(observe, 1);
	observe_at_exit(observe);
	observe_free(observe, OBSERVE_QP, qp);
	observe_close(observe);
	/* Nor an object. */
	qp = show_qp(NULL, 1);
	ck_assert_uint_eq((uintptr_t)qp % 64, 0);
	observe_free(NULL, OBSERVE_QP, qp);
	observe_free(NULL, OBSERVE_QP, NULL);
}
END_TEST

/* --- other processes -------------------------------------------------------------------------- */

/* In a process that is to be killed. */
static void show(const void *session)
{
	show_qp(observe_open(directory, session), 0x111)->peer_qpn = 1;
}

static void claim_a_block(void *argument)
{
	for (unsigned int i = 0; i < OBSERVE_BLOCK / 64; i++)
		observe_claim(argument, OBSERVE_CONNECTION, 0);
}

/* A connection's record is claimed by a thread that polls, with locks held. */
START_TEST(grows_without_being_cancelled)
{
	struct observe *observe = open_shared();

	ck_assert(returns_cancelled(claim_a_block, observe));
	observe_close(observe);
}
END_TEST

static void truncate_file(void)
{
	struct observed *process = read_all();

	ck_assert_int_eq(truncate(process->path, 0), 0);
	observed_free(process);
}

/* Figures are wrong then, and nothing else: the process goes on, and doesn't end by SIGBUS. */
START_TEST(is_truncated)
{
	struct observe *observe;
	struct observe_qp *qp;

	catch_faults();
	observe = open_shared();
	qp = observe_claim(observe, OBSERVE_QP, 0);
	ck_assert(observe_is_seen(observe, qp));
	observe_show(observe, qp);
	truncate_file();
	qp->number = 0x42;
	ck_assert_uint_eq(qp->number, 0x42);
	observe_free(observe, OBSERVE_QP, qp);
	for (unsigned int i = 0; i <= OBSERVE_BLOCK / 64; i++)
		ck_assert_ptr_nonnull(observe_claim(observe, OBSERVE_CQ, 0));
	observe_close(observe);
}
END_TEST

static void *sweep_always(void *done)
{
	while (!atomic_load((atomic_bool *)done))
		observe_sweep(directory);
	return NULL;
}

/* Though another process looks which files are to be removed. */
START_TEST(a_sweep_revives_none)
{
	pid_t pid = killable_process(show, NULL);
	atomic_bool done = false;
	pthread_t thread;

	kill_and_wait(pid);
	ck_assert_int_eq(pthread_create(&thread, NULL, sweep_always, &done), 0);
	for (int i = 0; i < 500; i++) {
		struct observed *process = read_one();

		ck_assert_int_eq(process->state, OBSERVED_ENDED);
		observed_free(process);
	}
	atomic_store(&done, true);
	pthread_join(thread, NULL);
}
END_TEST

START_TEST(tells_what_became_of_a_process)
{
	pid_t pid = killable_process(show, NULL);
	struct observed *process = read_one();

	ck_assert_uint_eq(process->header.pid, pid);
	ck_assert_int_eq(process->state, OBSERVED_RUNNING);
	observed_free(process);

	kill(pid, SIGSTOP);
	ck_assert_int_eq(waitpid(pid, NULL, WUNTRACED), pid);
	process = read_one();
	ck_assert_int_eq(process->state, OBSERVED_STOPPED);
	ck_assert_uint_eq(count(process, OBSERVE_QP), 1);
	observed_free(process);

	kill_and_wait(pid);
	process = read_one();
	ck_assert_int_eq(process->state, OBSERVED_ENDED);
	ck_assert_uint_eq(count(process, OBSERVE_QP), 1);
	observed_free(process);
}
END_TEST

/* As if it had been marked @seconds ago. */
static void set_ended(uint64_t seconds)
{
	struct observed *process = read_one();
	uint64_t time = observe_wall_clock() - seconds * 1000000000;
	int fd = open(process->path, O_RDWR);

	ck_assert_int_eq(pwrite(fd, &time, sizeof(time), offsetof(struct observe_header, ended)),
			 sizeof(time));
	close(fd);
	observed_free(process);
}

START_TEST(what_ended_is_swept)
{
	struct observed *process;
	pid_t pid = killable_process(show, NULL);

	observe_sweep(directory);
	kill_and_wait(pid);
	process = read_one();
	ck_assert_uint_eq(process->header.ended, 0);
	observed_free(process);
	observe_sweep(directory);
	process = read_one();
	ck_assert_uint_gt(process->header.ended, 0);
	observed_free(process);
	set_ended(OBSERVE_KEPT - 10);
	observe_sweep(directory);
	ck_assert_uint_eq(files(), 1);
	set_ended(OBSERVE_KEPT + 10);
	observe_sweep(directory);
	ck_assert_uint_eq(files(), 0);
}
END_TEST

/* Of which a process that may write no files doesn't die, but leaves it to others. */
START_TEST(a_limit_leaves_what_ended)
{
	struct observed *process;
	struct rlimit usual, none;

	kill_and_wait(killable_process(show, NULL));
	ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &usual), 0);
	none = (struct rlimit){0, usual.rlim_max};
	/* Check notes each assertion in a file. */
	must(setrlimit(RLIMIT_FSIZE, &none) == 0);
	observe_sweep(directory);
	must(setrlimit(RLIMIT_FSIZE, &usual) == 0);
	process = read_one();
	ck_assert_uint_eq(process->header.ended, 0);
	observed_free(process);
}
END_TEST

/* However long ago its file was marked: a process that has the lock lives. */
START_TEST(what_lives_is_kept)
{
	struct observe *observe = open_shared();

	set_ended(2 * OBSERVE_KEPT);
	observe_sweep(directory);
	ck_assert_uint_eq(files(), 1);
	observe_close(observe);
}
END_TEST

START_TEST(exit_keeps_what_is_asked_for)
{
	struct observe *observe = open_shared();
	struct observe_qp *qp = show_qp(observe, 1);

	qp->peer_qpn = 2;
	qp->progress.state = IBV_QPS_RTS;
	observe_at_exit(observe);
	ck_assert_uint_eq(files(), 1);
	qp->progress.state = IBV_QPS_RESET;
	observe_at_exit(observe);
	ck_assert_uint_eq(files(), 0);
	observe_free(observe, OBSERVE_QP, qp);
	observe_close(observe);

	observe = observe_open(directory, "session");
	observe_at_exit(observe);
	observe_close(observe);
	ck_assert_uint_eq(files(), 1);
}
END_TEST

START_TEST(a_session_is_read_alone)
{
	struct observed_options options = {
		.directory = directory, .ended = true, .session = "session"};
	struct observe *observe = open_shared();
	pid_t pid = killable_process(show, "session");
	struct observed *process;

	ck_assert_int_eq(observed_read(&options, &process), 0);
	ck_assert_uint_eq(process->header.pid, pid);
	ck_assert_ptr_null(process->next);
	observed_free(process);
	kill_and_wait(pid);
	options.ended = false;
	ck_assert_int_eq(observed_read(&options, &process), 0);
	ck_assert_ptr_null(process);
	observe_close(observe);
}
END_TEST

/* The child's file is another one, and what it writes to the parent's records isn't seen. */
START_TEST(a_child_has_its_own)
{
	struct observe *observe = open_shared();
	struct observe_qp *qp = show_qp(observe, 0x222);
	struct observed *process;
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		observe_after_fork_child(observe);
		qp->number = 0x333;
		observe_free(observe, OBSERVE_QP, qp);
		observe = observe_open(directory, NULL);
		show_qp(observe, 0x444);
		observe_close(observe);
		_exit(0);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	process = read_one();
	ck_assert_int_eq(process->state, OBSERVED_RUNNING);
	ck_assert_uint_eq(count(process, OBSERVE_QP), 1);
	ck_assert_uint_eq(
		((const struct observe_qp *)observed_next(process, OBSERVE_QP, NULL))->number,
		0x222);
	observed_free(process);
	observe_free(observe, OBSERVE_QP, qp);
	observe_close(observe);
}
END_TEST

/* --- one queue pair --------------------------------------------------------------------------- */

/* Nothing else has it. */
static const union ibv_gid gid = {.raw = {0xfd, 'o', 'b', 's', 'e', 'r', 'v', 'e'}};

static uint32_t qpn; /* no other process of the machine has it at that GID */

/* One that isn't connected is found by the addresses of its device. */
static void show_to_all(const void *state)
{
	struct observe *observe = observe_open(OBSERVE_DIRECTORY, NULL);
	struct observe_device *device = observe_claim(observe, OBSERVE_DEVICE, 0);
	struct observe_qp *qp;

	memcpy(device->gid[1], gid.raw, sizeof(gid));
	qp = observe_claim(observe, OBSERVE_QP, observe_show(observe, device));
	qp->number = qpn;
	qp->progress.state = *(const uint8_t *)state;
	observe_show(observe, qp);
}

START_TEST(a_queue_pair_is_found)
{
	const uint8_t state = IBV_QPS_INIT;
	struct observed_qp found;
	union ibv_gid other = gid;
	pid_t pid;

	qpn = getpid();
	pid = killable_process(show_to_all, &state);
	ck_assert(observe_find_qp(&gid, qpn, &found));
	ck_assert_int_eq(found.pid, pid);
	ck_assert_int_eq(found.process, OBSERVED_RUNNING);
	ck_assert_int_eq(found.qp.progress.state, IBV_QPS_INIT);
	ck_assert_ptr_nonnull(strstr(found.command, "test_observe"));
	ck_assert(!observe_find_qp(&gid, qpn + 1, &found));
	other.raw[15] = 1;
	ck_assert(!observe_find_qp(&other, qpn, &found));

	kill_and_wait(pid);
	ck_assert(observe_find_qp(&gid, qpn, &found));
	ck_assert_int_eq(found.process, OBSERVED_ENDED);
}
END_TEST

/* Of those that have had its number, whatever order their files are found in. */
START_TEST(the_one_that_lives_is_found)
{
	const uint8_t state = IBV_QPS_INIT;
	struct observed_qp found;
	pid_t pids[3];

	qpn = getpid();
	for (int i = 0; i < 3; i++)
		pids[i] = killable_process(show_to_all, &state);
	kill_and_wait(pids[0]);
	kill_and_wait(pids[2]);
	ck_assert(observe_find_qp(&gid, qpn, &found));
	ck_assert_int_eq(found.process, OBSERVED_RUNNING);
	ck_assert_int_eq(found.pid, pids[1]);
	kill_and_wait(pids[1]);
}
END_TEST

/* --- files that aren't as they should be ------------------------------------------------------ */

static void write_file(const void *bytes, size_t length, mode_t mode)
{
	char name[OBSERVE_PATH], path[sizeof(directory) + OBSERVE_PATH];
	int fd;

	ck_assert(observe_name(name));
	snprintf(path, sizeof(path), "%s/%s", directory, name);
	fd = open(path, O_CREAT | O_EXCL | O_WRONLY, 0600);
	ck_assert_int_eq(write(fd, bytes, length), length);
	ck_assert_int_eq(fchmod(fd, mode), 0);
	close(fd);
}

static struct observe_header header_of(uint32_t version, uint32_t blocks)
{
	struct observe_header header = {
		.version = version,
		.net_namespace = process_namespace("net"),
		.blocks = blocks,
	};

	memcpy(header.magic, OBSERVE_MAGIC, sizeof(header.magic));
	memset(header.kind, OBSERVE_QP, sizeof(header.kind));
	memset(header.command, 'x', sizeof(header.command));
	header.command[0] = '\033';
	header.command[1] = 0x7f;
	return header;
}

START_TEST(other_versions_are_left_alone)
{
	struct observe_header header = header_of(OBSERVE_VERSION + 1, 0);
	struct observe *observe;

	write_file(&header, sizeof(header), 0600);
	ck_assert_ptr_null(read_all());
	ck_assert_uint_eq(left_out, 1);
	ck_assert_ptr_nonnull(strstr(reason, "version"));
	observe = open_shared();
	observe_close(observe);
	ck_assert_uint_eq(files(), 1);
}
END_TEST

/* The directory takes the last one. */
START_TEST(descriptors_that_lack_are_told)
{
	struct observe *observe = open_shared();
	int next = dup(STDIN_FILENO);
	struct rlimit before, limit;

	close(next);
	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
	limit = before;
	limit.rlim_cur = next + 1;
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	ck_assert_ptr_null(read_all());
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
	ck_assert_uint_eq(left_out, 1);
	ck_assert_str_eq(reason, strerror(EMFILE));
	observe_close(observe);
}
END_TEST

START_TEST(hostile_files_are_read)
{
	static uint8_t bytes[OBSERVE_HEADER + 3 * OBSERVE_BLOCK];
	struct observe_header header = header_of(OBSERVE_VERSION, OBSERVE_BLOCKS);
	struct observed *processes, *process;
	unsigned int read = 0;

	write_file(bytes, 10, 0600);		/* too short */
	write_file(bytes, sizeof(bytes), 0600); /* nothing in it */
	memset(bytes, 0xff, sizeof(bytes));
	memcpy(bytes, &header, sizeof(header));
	write_file(bytes, sizeof(bytes), 0600);	    /* fewer blocks than it says */
	write_file(bytes, sizeof(header), 0600);    /* none at all */
	write_file(bytes, sizeof(bytes) - 1, 0600); /* part of one */
	header.blocks = UINT32_MAX;
	memcpy(bytes, &header, sizeof(header));
	write_file(bytes, sizeof(bytes), 0600);
	write_file(bytes, sizeof(bytes), 0644); /* others may have written it, as it seems */

	processes = read_all();
	ck_assert_uint_eq(left_out, 3);
	LL_FOREACH (processes, process) {
		ck_assert_int_eq(process->state, OBSERVED_ENDED);
		ck_assert_int_eq(strncmp(process->header.command, "??x", 3), 0);
		ck_assert_uint_eq(strlen(process->header.command), OBSERVE_COMMAND - 1);
		ck_assert_uint_eq(count(process, OBSERVE_QP),
				  process->block_count * observe_block_records(OBSERVE_QP));
		ck_assert_uint_eq(count(process, OBSERVE_CQ), 0);
		read++;
	}
	ck_assert_uint_eq(read, 3);
	observed_free(processes);
}
END_TEST

/* Neither a link, nor what isn't a file. */
START_TEST(names_alone_are_not_trusted)
{
	char name[OBSERVE_PATH], path[sizeof(directory) + OBSERVE_PATH];

	ck_assert(observe_name(name));
	snprintf(path, sizeof(path), "%s/%s", directory, name);
	ck_assert_int_eq(symlink("/etc/passwd", path), 0);
	ck_assert(observe_name(name));
	snprintf(path, sizeof(path), "%s/%s", directory, name);
	ck_assert_int_eq(mkfifo(path, 0600), 0);
	ck_assert_ptr_null(read_all());
	ck_assert_uint_eq(left_out, 0);
	observe_sweep(directory);
	ck_assert_uint_eq(files(), 2);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("observe");
	TCase *tests = tcase_create("observe");

	tcase_set_timeout(tests, 100);
	tcase_add_checked_fixture(tests, setup, teardown);
	tcase_add_test(tests, shows_the_process);
	tcase_add_test(tests, records_come_and_go);
	tcase_add_test(tests, the_file_has_an_end);
	tcase_add_test(tests, nothing_beyond_the_end_can_be_written);
	tcase_add_test(tests, no_file_is_needed);
	tcase_add_test(tests, grows_without_being_cancelled);
	tcase_add_test(tests, is_truncated);
	tcase_add_test(tests, tells_what_became_of_a_process);
	tcase_add_test(tests, a_sweep_revives_none);
	tcase_add_test(tests, what_ended_is_swept);
	tcase_add_test(tests, a_limit_leaves_what_ended);
	tcase_add_test(tests, what_lives_is_kept);
	tcase_add_test(tests, exit_keeps_what_is_asked_for);
	tcase_add_test(tests, a_session_is_read_alone);
	tcase_add_test(tests, a_child_has_its_own);
	tcase_add_test(tests, a_queue_pair_is_found);
	tcase_add_test(tests, the_one_that_lives_is_found);
	tcase_add_test(tests, other_versions_are_left_alone);
	tcase_add_test(tests, descriptors_that_lack_are_told);
	tcase_add_test(tests, hostile_files_are_read);
	tcase_add_test(tests, names_alone_are_not_trusted);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
