/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The floor for latency: a ping-pong between two processes over connected UDP
 * sockets, both spinning, or with -b both sleeping in recv(); with -a each on a
 * CPU of its own, which makes the difference for sleepers: else the kernel may
 * run them in turn on one. Prints the median half round trip, in microseconds.
 *
 *   udp_latency [-a] [-b] [BYTES [ROUNDS]]
 */
#include <sched.h>

#include "loopback.h"

#define WARM_UP 1000

static uint8_t buffer[65536];
static int receive_flags = MSG_DONTWAIT;

static void receive(int fd)
{
	while (recv(fd, buffer, sizeof(buffer), receive_flags) < 0)
		;
}

/* Until it is killed. */
static void answer(int fd, size_t bytes)
{
	for (;;) {
		receive(fd);
		checked(send(fd, buffer, bytes, 0), "send");
	}
}

/* Bind this process to the @number-th of the CPUs that it may use. */
static void pin_to_cpu(int number)
{
	cpu_set_t usable, one;

	checked(sched_getaffinity(0, sizeof(usable), &usable), "sched_getaffinity");
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &usable) || number-- > 0)
			continue;
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		checked(sched_setaffinity(0, sizeof(one), &one), "sched_setaffinity");
		return;
	}
}

static int ascending(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	size_t bytes = 8, rounds = 20000;
	int fds[2], option, apart = 0;
	uint64_t *times;
	pid_t child;

	while ((option = getopt(argc, argv, "ab")) != -1) {
		apart |= option == 'a';
		if (option == 'b')
			receive_flags = 0;
	}
	if (optind < argc)
		bytes = atoi(argv[optind]);
	if (optind + 1 < argc)
		rounds = atoi(argv[optind + 1]);
	times = calloc(rounds + WARM_UP, sizeof(*times));
	socket_pair(fds);
	child = fork_partner();
	if (apart)
		pin_to_cpu(child ? 0 : 1);
	if (!child)
		answer(fds[1], bytes);
	for (size_t i = 0; i < rounds + WARM_UP; i++) {
		uint64_t start = now_ns();

		checked(send(fds[0], buffer, bytes, 0), "send");
		receive(fds[0]);
		times[i] = now_ns() - start;
	}
	end_partner(child);
	qsort(times + WARM_UP, rounds, sizeof(*times), ascending);
	printf("%.2f\n", times[WARM_UP + rounds / 2] / 2000.0);
	free(times);
	return 0;
}
