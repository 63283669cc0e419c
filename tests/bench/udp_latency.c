/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The floor for latency: a ping-pong between two processes over connected UDP
 * sockets, both spinning, or with -b both sleeping in recv(). Prints the median
 * half round trip, in microseconds.
 *
 *   udp_latency [-b] [BYTES [ROUNDS]]
 */
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
		must(send(fd, buffer, bytes, 0), "send");
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
	uint64_t *times;
	pid_t child;
	int fds[2];

	while (getopt(argc, argv, "b") == 'b')
		receive_flags = 0;
	if (optind < argc)
		bytes = atoi(argv[optind]);
	if (optind + 1 < argc)
		rounds = atoi(argv[optind + 1]);
	times = calloc(rounds + WARM_UP, sizeof(*times));
	socket_pair(fds);
	child = fork_partner();
	if (!child)
		answer(fds[1], bytes);
	for (size_t i = 0; i < rounds + WARM_UP; i++) {
		uint64_t start = now_ns();

		must(send(fds[0], buffer, bytes, 0), "send");
		receive(fds[0]);
		times[i] = now_ns() - start;
	}
	end_partner(child);
	qsort(times + WARM_UP, rounds, sizeof(*times), ascending);
	printf("%.2f\n", times[WARM_UP + rounds / 2] / 2000.0);
	free(times);
	return 0;
}
