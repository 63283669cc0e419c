/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The ceiling for bandwidth: a stream of datagrams between two processes, with
 * a window so that none is lost. Prints MiB/s, or with -p millions of datagrams
 * a second.
 *
 *   udp_stream [-p] [BYTES [SEGMENTS [MEBIBYTES]]]
 *
 * BYTES a datagram, SEGMENTS of them in one call (UDP_SEGMENT, UDP_GRO) if more
 * than one, MEBIBYTES in all.
 */
#include <netinet/udp.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>

#include "loopback.h"

#define WINDOW (512u << 10)
/* What a receive buffer is charged for one call at most, beyond twice its bytes. */
#define CALL_OVERHEAD 1024

static uint8_t buffer[65536];

/* Bytes under way that neither fill the receive buffer nor leave the receiver without work. */
static uint64_t window(int receiver, size_t call)
{
	int size = 0;
	socklen_t length = sizeof(size);
	uint64_t calls, most;

	checked(getsockopt(receiver, SOL_SOCKET, SO_RCVBUF, &size, &length), "SO_RCVBUF");
	calls = size / (2 * call + CALL_OVERHEAD);
	most = (calls ? calls : 1) * call;
	return most < WINDOW ? most : WINDOW;
}

static void stream(int fd, size_t call, uint64_t window, _Atomic uint64_t *received)
{
	for (uint64_t sent = 0;; sent += call) {
		while (sent - atomic_load(received) + call > window)
			;
		checked(send(fd, buffer, call, 0), "send");
	}
}

static double receive_all(int fd, uint64_t total, _Atomic uint64_t *received)
{
	uint64_t done = 0, start = 0;

	while (done < total) {
		ssize_t n = recv(fd, buffer, sizeof(buffer), MSG_DONTWAIT);

		if (n <= 0)
			continue;
		if (!start)
			start = now_ns();
		done += n;
		atomic_store(received, done);
	}
	return done / ((now_ns() - start) / 1e9);
}

int main(int argc, char **argv)
{
	_Atomic uint64_t *received =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int words[3] = {4096, 1, 512}, fds[2], on = 1;
	bool packets = false;
	size_t call;
	double rate;
	pid_t child;

	while (getopt(argc, argv, "p") == 'p')
		packets = true;
	for (int i = 0; i < 3 && optind + i < argc; i++)
		words[i] = atoi(argv[optind + i]);
	call = (size_t)words[0] * words[1];
	udp_pair(fds);
	if (words[1] > 1) {
		checked(setsockopt(fds[0], SOL_UDP, UDP_SEGMENT, &words[0], sizeof(words[0])),
			"UDP_SEGMENT");
		checked(setsockopt(fds[1], SOL_UDP, UDP_GRO, &on, sizeof(on)), "UDP_GRO");
	}
	child = fork_partner();
	if (!child)
		stream(fds[0], call, window(fds[1], call), received);
	rate = receive_all(fds[1], words[2] * 1048576ull, received);
	end_partner(child);
	printf("%.3f\n", packets ? rate / words[0] / 1e6 : rate / 1048576);
	return 0;
}
