/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Many processes of one node, each a program like any other:
 *
 *   multi_process [-n MEMBERS] [-r ROUNDS] [-s SEED] [-a NODE;NODE...] [-l] [-v] KIND
 *
 * starts them, watches them and prints "KIND: ok". With -a, the members are
 * processes of these nodes in turn (each a list of addresses); without, all are
 * where this process is, on one address. -l: packets are lost or come twice on the
 * way, and with them datagrams.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "multi_process.h"

#define DEADLINE_SECONDS 110 /* below the harness's, so that the story is ours to tell */

static const struct multi_process_kind *const kinds[] = {
	&multi_process_all_to_all, &multi_process_chaos, &multi_process_fork,
	&multi_process_stranger, &multi_process_open_close};

static const struct multi_process_kind *find(const char *name)
{
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		if (strcmp(kinds[i]->name, name) == 0)
			return kinds[i];
	fprintf(stderr, "there is no kind of run called %s\n", name);
	exit(2);
}

/* --- the board --------------------------------------------------------------------- */

static struct board *map_board(int fd)
{
	struct board *board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	CHECK(board != MAP_FAILED);
	return board;
}

static void make_board(struct multi_process *processes, unsigned int count, unsigned int rounds)
{
	pthread_barrierattr_t shared;
	struct timespec now;

	CHECK(count >= 1 && count <= MULTI_PROCESS_MAX);
	processes->board_fd = memfd_create("board", 0);
	CHECK(processes->board_fd >= 0);
	CHECK_EQUAL(ftruncate(processes->board_fd, sizeof(struct board)), 0);
	processes->board = map_board(processes->board_fd);
	processes->board->count = count;
	processes->board->rounds = rounds;
	processes->board->one_address = processes->node_count == 0;
	clock_gettime(CLOCK_MONOTONIC, &now);
	processes->board->deadline = now.tv_sec + DEADLINE_SECONDS;
	pthread_barrierattr_init(&shared);
	pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
	CHECK_EQUAL(pthread_barrier_init(&processes->board->barrier, &shared, count), 0);
}

/* --- processes --------------------------------------------------------------------- */

static pid_t execute(struct multi_process *processes, unsigned int id, char *const words[])
{
	pid_t parent = getpid(), pid = fork();

	CHECK(pid >= 0);
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	if (processes->node_count)
		setenv("URXE_NODE", processes->nodes[id % processes->node_count], 1);
	execv("/proc/self/exe", words);
	_exit(127);
}

void multi_process_start(struct multi_process *processes, unsigned int id, uint32_t incarnation)
{
	char fd[16], number[16], count[16];
	char *words[] = {"multi_process", "member", (char *)processes->kind, fd, number,
			 count,		  NULL};

	CHECK(!processes->pids[id]);
	snprintf(fd, sizeof(fd), "%d", processes->board_fd);
	snprintf(number, sizeof(number), "%u", id);
	snprintf(count, sizeof(count), "%u", incarnation);
	atomic_store(&processes->board->members[id].order, ORDER_RUN);
	atomic_store(&processes->board->members[id].done, false);
	processes->pids[id] = execute(processes, id, words);
}

static void check_end(int status, const char *who, unsigned int id, int signal)
{
	int killed = WIFSIGNALED(status) ? WTERMSIG(status) : 0;

	if (killed != signal || (!killed && WEXITSTATUS(status)))
		pair_fail(__FILE__, __LINE__, "%s %u: signal %d, exit %d", who, id, killed,
			  WIFEXITED(status) ? WEXITSTATUS(status) : 0);
}

void multi_process_reap(struct multi_process *processes, unsigned int id, int signal)
{
	int status;

	while (waitpid(processes->pids[id], &status, WNOHANG) == 0) {
		board_check_deadline(processes->board);
		usleep(1000);
	}
	processes->pids[id] = 0;
	check_end(status, "member", id, signal);
}

void multi_process_reap_all(struct multi_process *processes)
{
	unsigned int running = 0;

	for (unsigned int i = 0; i < processes->board->count; i++)
		running += processes->pids[i] != 0;
	while (running) {
		int status;
		pid_t pid = waitpid(-1, &status, WNOHANG);

		board_check_deadline(processes->board);
		if (pid <= 0)
			usleep(1000);
		for (unsigned int i = 0; pid > 0 && i < processes->board->count; i++) {
			if (processes->pids[i] != pid)
				continue;
			processes->pids[i] = 0;
			check_end(status, "member", i, 0);
			running--;
		}
	}
}

void multi_process_watch(struct multi_process *processes)
{
	int status;

	board_check_deadline(processes->board);
	for (unsigned int i = 0; i < processes->board->count; i++) {
		if (processes->pids[i] && waitpid(processes->pids[i], &status, WNOHANG) > 0)
			pair_fail(__FILE__, __LINE__, "member %u ended: status %#x", i, status);
	}
}

void multi_process_newcomer(struct multi_process *processes)
{
	char *words[] = {"multi_process", "newcomer", NULL};
	pid_t pid = execute(processes, 0, words);
	int status;

	CHECK_EQUAL(waitpid(pid, &status, 0), pid);
	check_end(status, "newcomer", 0, 0);
}

/* No member outlives a leader that fails. */
static struct multi_process *the_processes;

static void end_all(void)
{
	for (unsigned int i = 0; i < MULTI_PROCESS_MAX; i++)
		if (the_processes->pids[i])
			kill(the_processes->pids[i], SIGKILL);
}

/* --- to begin with ------------------------------------------------------------------ */

static int be_member(char **words)
{
	struct board *board = map_board(atoi(words[1]));

	find(words[0])->member(board, atoi(words[2]), atoi(words[3]));
	return 0;
}

static int be_newcomer(void)
{
	static struct board board = {.count = 1, .deadline = UINT64_MAX};

	member_greet_self(&board, 0);
	return 0;
}

static void cut_nodes(struct multi_process *processes, char *list)
{
	char *rest = NULL;

	processes->nodes = calloc(strlen(list) + 1, sizeof(*processes->nodes));
	CHECK(processes->nodes);
	for (char *node = strtok_r(list, ";", &rest); node; node = strtok_r(NULL, ";", &rest))
		processes->nodes[processes->node_count++] = node;
}

int main(int argc, char **argv)
{
	static struct multi_process processes = {.seed = 1};
	unsigned int count = 4, rounds = 1;
	bool lossy = false;
	int option;

	if (argc == 6 && strcmp(argv[1], "member") == 0)
		return be_member(argv + 2);
	if (argc == 2 && strcmp(argv[1], "newcomer") == 0)
		return be_newcomer();
	while ((option = getopt(argc, argv, "n:r:s:a:lv")) != -1) {
		if (option == 'n')
			count = atoi(optarg);
		else if (option == 'r')
			rounds = atoi(optarg);
		else if (option == 's')
			processes.seed = strtoull(optarg, NULL, 0);
		else if (option == 'a')
			cut_nodes(&processes, optarg);
		else if (option == 'l')
			lossy = true;
		else if (option == 'v')
			processes.verbose = true;
		else
			return 2;
	}
	if (argc != optind + 1) {
		fprintf(stderr,
			"usage: multi_process [-n MEMBERS] [-r ROUNDS] [-s SEED] [-a NODE;NODE...] "
			"[-l] [-v] KIND\n");
		return 2;
	}
	processes.kind = argv[optind];
	make_board(&processes, count, rounds);
	processes.board->lossy = lossy;
	the_processes = &processes;
	atexit(end_all);
	find(processes.kind)->lead(&processes);
	printf("%s: ok\n", processes.kind);
	return 0;
}
