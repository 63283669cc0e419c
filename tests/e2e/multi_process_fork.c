/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A process with an open device and traffic forks. Member 0 is the parent, its
 * traffic is in a thread; member 1 is a process of its own; member 2 is one child
 * after another, which opens the device itself, has traffic with both, and ends
 * in its own way. Parent and sibling go on untouched: multi_process_traffic.c fails
 * otherwise. And tools are run meanwhile, by all means that libc has.
 */
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "multi_process.h"

#define PARENT 0
#define SIBLING 1
#define CHILD 2

extern char **environ;

static void *parent_traffic(void *board)
{
	multi_process_traffic(board, PARENT, 1);
	return NULL;
}

static uint32_t turns(const struct board *board, unsigned int a, unsigned int b)
{
	return atomic_load(&board->members[a].links[b].turns);
}

/* A few more turns between all members up to @last, both ways. */
static void wait_for_traffic(struct board *board, unsigned int last)
{
	static const uint32_t enough = 5;

	for (unsigned int a = 0; a <= last; a++) {
		for (unsigned int b = 0; b <= last; b++) {
			uint32_t before = turns(board, a, b);

			while (turns(board, a, b) - before < enough) {
				board_check_deadline(board);
				usleep(1000);
			}
		}
	}
}

static void check_status(int status, int signal)
{
	CHECK_EQUAL(WIFSIGNALED(status) ? WTERMSIG(status) : 0, signal);
	CHECK(signal || (WIFEXITED(status) && WEXITSTATUS(status) == 0));
}

/* --- children that are members ----------------------------------------------------------- */

static pid_t fork_child(struct board *board, uint32_t incarnation)
{
	pid_t pid;

	atomic_store(&board->members[CHILD].order, ORDER_RUN);
	pid = fork();
	CHECK(pid >= 0);
	if (pid)
		return pid;
	multi_process_traffic(board, CHILD, incarnation);
	_exit(0);
}

static void one_child(struct board *board, uint32_t incarnation)
{
	static const enum order endings[] = {ORDER_EXIT, ORDER_LEAVE, ORDER_RUN};
	enum order ending = endings[incarnation % 3];
	pid_t pid = fork_child(board, incarnation);
	int status;

	while (atomic_load(&board->members[CHILD].incarnation) != incarnation) {
		CHECK_EQUAL(waitpid(pid, &status, WNOHANG), 0);
		board_check_deadline(board);
		usleep(1000);
	}
	wait_for_traffic(board, CHILD);
	atomic_store(&board->members[CHILD].doomed, incarnation);
	atomic_store(&board->members[CHILD].order, ending);
	if (ending == ORDER_RUN)
		kill(pid, SIGKILL);
	CHECK_EQUAL(waitpid(pid, &status, 0), pid);
	check_status(status, ending == ORDER_RUN ? SIGKILL : 0);
}

/* --- children that are something else ---------------------------------------------------- */

static void by_exec(char *const words[])
{
	pid_t pid = fork();
	int status;

	CHECK(pid >= 0);
	if (pid == 0) {
		execvp(words[0], words);
		_exit(127);
	}
	CHECK_EQUAL(waitpid(pid, &status, 0), pid);
	check_status(status, 0);
}

static void by_spawn(char *const words[])
{
	pid_t pid;
	int status;

	CHECK_EQUAL(posix_spawnp(&pid, words[0], NULL, NULL, words, environ), 0);
	CHECK_EQUAL(waitpid(pid, &status, 0), pid);
	check_status(status, 0);
}

/* A child that never uses the device, and stays while other children come and go. */
static pid_t idle_child(void)
{
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (pid == 0)
		pause();
	return pid;
}

static void run_tools(void)
{
	static char *const tool[] = {"ibv_devinfo", "-l", NULL};
	static char *const newcomer[] = {"/proc/self/exe", "newcomer", NULL};

	by_exec(tool);
	by_exec(newcomer);
	by_spawn(tool);
	by_spawn(newcomer);
	check_status(system("ibv_devinfo -l >/dev/null"), 0);
}

/* --- roles ---------------------------------------------------------------------------------- */

static void parent(struct board *board)
{
	pthread_t thread;
	pid_t idle;
	int status;

	CHECK_EQUAL(ibv_fork_init(), 0);
	CHECK_EQUAL(pthread_create(&thread, NULL, parent_traffic, board), 0);
	wait_for_traffic(board, SIBLING);
	CHECK_EQUAL(ibv_fork_init(), 0);
	idle = idle_child();
	for (uint32_t i = 1; i <= board->rounds; i++) {
		one_child(board, i);
		run_tools();
		wait_for_traffic(board, SIBLING);
	}
	kill(idle, SIGKILL);
	CHECK_EQUAL(waitpid(idle, &status, 0), idle);
	CHECK_EQUAL(ibv_fork_init(), 0);
	atomic_store(&board->members[CHILD].done, true);
	pthread_join(thread, NULL);
}

static void fork_member(struct board *board, unsigned int id, uint32_t incarnation)
{
	if (id == PARENT)
		parent(board);
	else
		multi_process_traffic(board, id, incarnation);
}

static void fork_lead(struct multi_process *processes)
{
	struct board *board = processes->board;

	CHECK(board->count == CHILD + 1);
	multi_process_start(processes, PARENT, 1);
	multi_process_start(processes, SIBLING, 1);
	while (!atomic_load(&board->members[CHILD].done)) {
		multi_process_watch(processes);
		usleep(1000);
	}
	multi_process_quiet(processes);
	multi_process_newcomer(processes);
	printf("%u children, %u failures, %llu turns\n", board->rounds,
	       atomic_load(&board->failures), (unsigned long long)atomic_load(&board->total));
}

const struct multi_process_kind multi_process_fork = {"fork", fork_member, fork_lead};
