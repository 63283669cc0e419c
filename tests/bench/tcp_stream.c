/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a program without RDMA gets: one TCP connection over loopback, as iperf3
 * drives it (128 KiB a call, both sides sleeping when they checked). Prints MiB/s.
 *
 *   tcp_stream [MEBIBYTES]
 */
#include "loopback.h"

#define CALL (128u << 10)

static uint8_t buffer[CALL];

/* Until it is killed. */
static void stream(const struct sockaddr_in *address)
{
	int fd = checked(socket(AF_INET, SOCK_STREAM, 0), "socket");

	checked(connect(fd, (const struct sockaddr *)address, sizeof(*address)), "connect");
	for (;;)
		checked(send(fd, buffer, sizeof(buffer), 0), "send");
}

int main(int argc, char **argv)
{
	uint64_t total = (argc > 1 ? atoi(argv[1]) : 1024) * 1048576ull, done = 0, start;
	struct sockaddr_in address;
	int listener = bound_socket(SOCK_STREAM, &address), fd;
	pid_t child;

	checked(listen(listener, 1), "listen");
	child = fork_partner();
	if (!child)
		stream(&address);
	fd = checked(accept(listener, NULL, NULL), "accept");
	start = now_ns();
	while (done < total)
		done += checked(recv(fd, buffer, sizeof(buffer), 0), "recv");
	printf("%.1f\n", done / 1048576.0 / ((now_ns() - start) / 1e9));
	end_partner(child);
	return 0;
}
