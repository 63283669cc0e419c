/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The ceiling for bandwidth: a stream of datagrams between two processes, with
 * a window of 512 KiB so that none is lost. Prints MiB/s.
 *
 *   udp_stream [BYTES [SEGMENTS [MEBIBYTES]]]
 *
 * BYTES a datagram, SEGMENTS of them in one call (UDP_SEGMENT, UDP_GRO) if more
 * than one, MEBIBYTES in all.
 */
#include <netinet/udp.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "loopback.h"

#define WINDOW (512u << 10)

static uint8_t buffer[65536];

static void stream(int fd, size_t call, _Atomic uint64_t *received)
{
	for (uint64_t sent = 0;; sent += call) {
		while (sent - atomic_load(received) > WINDOW)
			;
		must(send(fd, buffer, call, 0), "send");
	}
}

int main(int argc, char **argv)
{
	size_t bytes = argc > 1 ? atoi(argv[1]) : 4096, segments = argc > 2 ? atoi(argv[2]) : 1;
	uint64_t total = (argc > 3 ? atoi(argv[3]) : 512) * 1048576ull, done = 0, start = 0;
	_Atomic uint64_t *received =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int fds[2], size = bytes, on = 1;
	pid_t child;

	socket_pair(fds);
	if (segments > 1) {
		must(setsockopt(fds[0], SOL_UDP, UDP_SEGMENT, &size, sizeof(size)), "UDP_SEGMENT");
		must(setsockopt(fds[1], SOL_UDP, UDP_GRO, &on, sizeof(on)), "UDP_GRO");
	}
	child = fork_partner();
	if (!child)
		stream(fds[0], bytes * segments, received);
	while (done < total) {
		ssize_t n = recv(fds[1], buffer, sizeof(buffer), MSG_DONTWAIT);

		if (n <= 0)
			continue;
		if (!start)
			start = now_ns();
		done += n;
		atomic_store(received, done);
	}
	printf("%.1f\n", done / 1048576.0 / ((now_ns() - start) / 1e9));
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	return 0;
}
