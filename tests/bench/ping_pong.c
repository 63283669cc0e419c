/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The floor for latency: a ping-pong between two processes over connected UDP
 * sockets, or with -t over a TCP connection; both spinning, or with -b both
 * sleeping in recv(); with -a each on a CPU of its own, which makes the difference
 * for sleepers: else the kernel may run them in turn on one. Prints the median half
 * round trip, in microseconds.
 *
 *   ping_pong [-t] [-a] [-b] [BYTES [ROUNDS]]
 *
 * BYTES: 1 MiB at the most.
 */
#include "loopback.h"

#define WARM_UP 1000

static uint8_t buffer[1 << 20];
static int receive_flags = MSG_DONTWAIT;

/* A stream may give a message in parts. */
static void receive(int fd, size_t bytes)
{
	while (bytes) {
		ssize_t n = recv(fd, buffer, bytes, receive_flags);

		if (n > 0)
			bytes -= n;
	}
}

/* Until it is killed. */
static void answer(int fd, size_t bytes)
{
	for (;;) {
		receive(fd, bytes);
		checked(send(fd, buffer, bytes, 0), "send");
	}
}

int main(int argc, char **argv)
{
	size_t bytes = 8, rounds = 20000;
	int fds[2], option, apart = 0, tcp = 0;
	uint64_t *times;
	pid_t child;

	while ((option = getopt(argc, argv, "abt")) != -1) {
		apart |= option == 'a';
		tcp |= option == 't';
		if (option == 'b')
			receive_flags = 0;
	}
	if (optind < argc)
		bytes = atoi(argv[optind]);
	if (optind + 1 < argc)
		rounds = atoi(argv[optind + 1]);
	if (bytes > sizeof(buffer)) {
		fprintf(stderr, "ping_pong: 1 MiB at the most\n");
		return 2;
	}
	times = calloc(rounds + WARM_UP, sizeof(*times));
	if (tcp)
		tcp_pair(fds);
	else
		udp_pair(fds);
	child = fork_partner();
	if (apart)
		pin_to_cpu(child ? 0 : 1);
	if (!child)
		answer(fds[1], bytes);
	for (size_t i = 0; i < rounds + WARM_UP; i++) {
		uint64_t start = now_ns();

		checked(send(fds[0], buffer, bytes, 0), "send");
		receive(fds[0], bytes);
		times[i] = now_ns() - start;
	}
	end_partner(child);
	qsort(times + WARM_UP, rounds, sizeof(*times), ascending);
	printf("%.2f\n", times[WARM_UP + rounds / 2] / 2000.0);
	free(times);
	return 0;
}
