/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Many processes of one node, each a program like any other:
 *
 *   crowd [-n MEMBERS] [-r ROUNDS] [-s SEED] [-a NODE;NODE...] [-l] [-v] KIND
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

#include "crowd.h"

#define DEADLINE_SECONDS 110 /* below the harness's, so that the story is ours to tell */

static const struct crowd_kind *const kinds[] = {&crowd_all_to_all, &crowd_chaos, &crowd_fork,
						 &crowd_stranger, &crowd_doors};

static const struct crowd_kind *find(const char *name)
{
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		if (strcmp(kinds[i]->name, name) == 0)
			return kinds[i];
	fprintf(stderr, "there is no kind of crowd called %s\n", name);
	exit(2);
}

/* --- the board --------------------------------------------------------------------- */

static struct board *map_board(int fd)
{
	struct board *board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	CHECK(board != MAP_FAILED);
	return board;
}

static void make_board(struct crowd *crowd, unsigned int count, unsigned int rounds)
{
	pthread_barrierattr_t shared;
	struct timespec now;

	CHECK(count >= 1 && count <= CROWD_MAX);
	crowd->board_fd = memfd_create("board", 0);
	CHECK(crowd->board_fd >= 0);
	CHECK_EQUAL(ftruncate(crowd->board_fd, sizeof(struct board)), 0);
	crowd->board = map_board(crowd->board_fd);
	crowd->board->count = count;
	crowd->board->rounds = rounds;
	crowd->board->one_address = crowd->node_count == 0;
	clock_gettime(CLOCK_MONOTONIC, &now);
	crowd->board->deadline = now.tv_sec + DEADLINE_SECONDS;
	pthread_barrierattr_init(&shared);
	pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
	CHECK_EQUAL(pthread_barrier_init(&crowd->board->barrier, &shared, count), 0);
}

/* --- processes --------------------------------------------------------------------- */

static pid_t execute(struct crowd *crowd, unsigned int id, char *const words[])
{
	pid_t parent = getpid(), pid = fork();

	CHECK(pid >= 0);
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	if (crowd->node_count)
		setenv("URXE_NODE", crowd->nodes[id % crowd->node_count], 1);
	execv("/proc/self/exe", words);
	_exit(127);
}

void crowd_start(struct crowd *crowd, unsigned int id, uint32_t incarnation)
{
	char fd[16], number[16], count[16];
	char *words[] = {"crowd", "member", (char *)crowd->kind, fd, number, count, NULL};

	CHECK(!crowd->pids[id]);
	snprintf(fd, sizeof(fd), "%d", crowd->board_fd);
	snprintf(number, sizeof(number), "%u", id);
	snprintf(count, sizeof(count), "%u", incarnation);
	atomic_store(&crowd->board->members[id].order, ORDER_RUN);
	atomic_store(&crowd->board->members[id].done, false);
	crowd->pids[id] = execute(crowd, id, words);
}

static void check_end(int status, const char *who, unsigned int id, int signal)
{
	int killed = WIFSIGNALED(status) ? WTERMSIG(status) : 0;

	if (killed != signal || (!killed && WEXITSTATUS(status)))
		pair_fail(__FILE__, __LINE__, "%s %u: signal %d, exit %d", who, id, killed,
			  WIFEXITED(status) ? WEXITSTATUS(status) : 0);
}

void crowd_reap(struct crowd *crowd, unsigned int id, int signal)
{
	int status;

	while (waitpid(crowd->pids[id], &status, WNOHANG) == 0) {
		board_check_deadline(crowd->board);
		usleep(1000);
	}
	crowd->pids[id] = 0;
	check_end(status, "member", id, signal);
}

void crowd_reap_all(struct crowd *crowd)
{
	unsigned int running = 0;

	for (unsigned int i = 0; i < crowd->board->count; i++)
		running += crowd->pids[i] != 0;
	while (running) {
		int status;
		pid_t pid = waitpid(-1, &status, WNOHANG);

		board_check_deadline(crowd->board);
		if (pid <= 0)
			usleep(1000);
		for (unsigned int i = 0; pid > 0 && i < crowd->board->count; i++) {
			if (crowd->pids[i] != pid)
				continue;
			crowd->pids[i] = 0;
			check_end(status, "member", i, 0);
			running--;
		}
	}
}

void crowd_watch(struct crowd *crowd)
{
	int status;

	board_check_deadline(crowd->board);
	for (unsigned int i = 0; i < crowd->board->count; i++) {
		if (crowd->pids[i] && waitpid(crowd->pids[i], &status, WNOHANG) > 0)
			pair_fail(__FILE__, __LINE__, "member %u ended: status %#x", i, status);
	}
}

void crowd_newcomer(struct crowd *crowd)
{
	char *words[] = {"crowd", "newcomer", NULL};
	pid_t pid = execute(crowd, 0, words);
	int status;

	CHECK_EQUAL(waitpid(pid, &status, 0), pid);
	check_end(status, "newcomer", 0, 0);
}

/* Nobody is left behind when the leader fails. */
static struct crowd *the_crowd;

static void end_all(void)
{
	for (unsigned int i = 0; i < CROWD_MAX; i++)
		if (the_crowd->pids[i])
			kill(the_crowd->pids[i], SIGKILL);
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

static void cut_nodes(struct crowd *crowd, char *list)
{
	char *rest = NULL;

	crowd->nodes = calloc(strlen(list) + 1, sizeof(*crowd->nodes));
	CHECK(crowd->nodes);
	for (char *node = strtok_r(list, ";", &rest); node; node = strtok_r(NULL, ";", &rest))
		crowd->nodes[crowd->node_count++] = node;
}

int main(int argc, char **argv)
{
	static struct crowd crowd = {.seed = 1};
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
			crowd.seed = strtoull(optarg, NULL, 0);
		else if (option == 'a')
			cut_nodes(&crowd, optarg);
		else if (option == 'l')
			lossy = true;
		else if (option == 'v')
			crowd.verbose = true;
		else
			return 2;
	}
	if (argc != optind + 1) {
		fprintf(stderr, "usage: crowd [-n MEMBERS] [-r ROUNDS] [-s SEED] [-a NODE;NODE...] "
				"[-l] [-v] KIND\n");
		return 2;
	}
	crowd.kind = argv[optind];
	make_board(&crowd, count, rounds);
	crowd.board->lossy = lossy;
	the_crowd = &crowd;
	atexit(end_all);
	find(crowd.kind)->lead(&crowd);
	printf("%s: ok\n", crowd.kind);
	return 0;
}
