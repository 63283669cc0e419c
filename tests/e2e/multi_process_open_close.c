/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Coming and going. "open-close": processes that open and close the device many
 * times, one after the other and all at once, or die with it open; nothing of
 * them remains. "stranger": another user's process finds the address taken, is
 * told so, and has it once the first user is gone, however that came about.
 */
#include <errno.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "multi_process.h"

#define OPENINGS 1000	 /* of all processes in turn; and as many at once */
#define OPENINGS_MOST 50 /* of one */
#define NOBODY 65534

/* With the device open, to be killed. */
_Noreturn static void stay_open(struct board *board, unsigned int id)
{
	struct member member;

	member_open(&member, board, id, 1, 16);
	member_create_qp(&member, IBV_QPT_RC, 1, 1);
	atomic_store(&member.self->done, true);
	for (;;)
		pause();
}

static void wait_until_open(struct board *board, unsigned int id)
{
	while (!atomic_load(&board->members[id].done)) {
		board_check_deadline(board);
		usleep(500);
	}
}

/* --- open and close ---------------------------------------------------------------- */

enum guest { GUEST_PASSES = 1, GUEST_STAYS };

static unsigned int openings(const struct board *board)
{
	unsigned int each = OPENINGS / board->count;

	return each < OPENINGS_MOST ? each : OPENINGS_MOST;
}

static void open_close_member(struct board *board, unsigned int id, uint32_t guest)
{
	if (guest == GUEST_STAYS)
		stay_open(board, id);
	for (unsigned int i = 0; i < openings(board); i++) {
		member_greet_self(board, id);
		atomic_fetch_add(&board->total, 1);
	}
}

/* All at once, while one stays; and then all die at once, or in turn. */
static void die_open(struct multi_process *processes, bool at_once)
{
	for (unsigned int i = 0; i < processes->board->count; i++) {
		multi_process_start(processes, i, GUEST_STAYS);
		if (!at_once) {
			wait_until_open(processes->board, i);
			kill(processes->pids[i], SIGKILL);
			multi_process_reap(processes, i, SIGKILL);
		}
	}
	for (unsigned int i = 0; i < processes->board->count && at_once; i++)
		wait_until_open(processes->board, i);
	for (unsigned int i = 0; i < processes->board->count && at_once; i++)
		kill(processes->pids[i], SIGKILL);
	for (unsigned int i = 0; i < processes->board->count && at_once; i++)
		multi_process_reap(processes, i, SIGKILL);
}

static void open_close_lead(struct multi_process *processes)
{
	struct board *board = processes->board;

	for (unsigned int i = 0; i < board->count; i++) {
		multi_process_start(processes, i, GUEST_PASSES);
		multi_process_reap(processes, i, 0);
	}
	for (unsigned int i = 0; i < board->count; i++)
		multi_process_start(processes, i, GUEST_PASSES);
	multi_process_reap_all(processes);
	CHECK_EQUAL(atomic_load(&board->total), 2 * openings(board) * board->count);
	for (unsigned int i = 0; i < board->rounds; i++) {
		die_open(processes, i & 1);
		multi_process_newcomer(processes);
	}
	printf("%u openings, %u deaths\n", 2 * openings(board) * board->count,
	       board->rounds * board->count);
}

const struct multi_process_kind multi_process_open_close = {"open-close", open_close_member,
							    open_close_lead};

/* --- stranger -------------------------------------------------------------------------- */

static pid_t fork_as(uid_t user, int error_fd)
{
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (pid)
		return pid;
	if (error_fd >= 0)
		dup2(error_fd, STDERR_FILENO);
	CHECK_EQUAL(setgroups(0, NULL), 0);
	CHECK_EQUAL(setgid(user), 0);
	CHECK_EQUAL(setuid(user), 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	return 0;
}

static void start_as(struct multi_process *processes, uid_t user)
{
	atomic_store(&processes->board->members[0].done, false);
	processes->pids[0] = fork_as(user, -1);
	if (processes->pids[0] == 0)
		stay_open(processes->board, 0);
	wait_until_open(processes->board, 0);
}

static void kill_started(struct multi_process *processes)
{
	kill(processes->pids[0], SIGKILL);
	multi_process_reap(processes, 0, SIGKILL);
}

static void greet_as(struct multi_process *processes, uid_t user)
{
	pid_t pid = fork_as(user, -1);
	int status;

	if (pid == 0) {
		member_greet_self(processes->board, 1);
		_exit(0);
	}
	CHECK_EQUAL(waitpid(pid, &status, 0), pid);
	CHECK_EQUAL(status, 0);
}

/* Twice, since the first refusal must leave nothing half open. */
static void try_in_vain(void)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);

	CHECK(devices && devices[0]);
	for (int i = 0; i < 2; i++) {
		errno = 0;
		if (ibv_open_device(devices[0]))
			_exit(2);
		if (errno != EADDRINUSE)
			_exit(3);
	}
	ibv_free_device_list(devices);
	_exit(0);
}

static void refuse(uid_t user)
{
	char story[4096] = "";
	int ends[2], status;
	size_t length = 0;
	ssize_t n;
	pid_t pid;

	CHECK_EQUAL(pipe(ends), 0);
	pid = fork_as(user, ends[1]);
	if (pid == 0)
		try_in_vain();
	close(ends[1]);
	while ((n = read(ends[0], story + length, sizeof(story) - 1 - length)) > 0)
		length += n;
	close(ends[0]);
	CHECK_EQUAL(waitpid(pid, &status, 0), pid);
	printf("user %d is told: %s", user, story);
	CHECK_EQUAL(status, 0);
	CHECK(strstr(story, "address") && strstr(story, "user"));
}

static void stranger_lead(struct multi_process *processes)
{
	static const uid_t users[2] = {0, NOBODY};

	if (getuid() != 0) {
		printf("SKIPPED: only root has other users' processes\n");
		return;
	}
	CHECK(processes->board->count >= 2);
	for (unsigned int i = 0; i < 2 * processes->board->rounds; i++) {
		uid_t user = users[i % 2], stranger = users[1 - i % 2];

		start_as(processes, user);
		refuse(stranger);
		greet_as(processes, user);
		kill_started(processes);
		greet_as(processes, stranger);
	}
}

const struct multi_process_kind multi_process_stranger = {"stranger", NULL, stranger_lead};
