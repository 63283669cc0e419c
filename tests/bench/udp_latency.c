/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The floor for latency: a ping-pong between two processes over connected UDP
 * sockets, both spinning. Prints the median half round trip, in microseconds.
 *
 *   udp_latency [BYTES [ROUNDS]]
 */
#include <sys/wait.h>

#include "loopback.h"

#define WARM_UP 1000

static uint8_t buffer[65536];

static void receive(int fd)
{
	while (recv(fd, buffer, sizeof(buffer), MSG_DONTWAIT) < 0)
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
	size_t bytes = argc > 1 ? atoi(argv[1]) : 8, rounds = argc > 2 ? atoi(argv[2]) : 20000;
	uint64_t *times = calloc(rounds + WARM_UP, sizeof(*times));
	int fds[2];
	pid_t child;

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
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	qsort(times + WARM_UP, rounds, sizeof(*times), ascending);
	printf("%.2f\n", times[WARM_UP + rounds / 2] / 2000.0);
	free(times);
	return 0;
}
