/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a program without RDMA gets: one TCP connection, as iperf3 drives it
 * (128 KiB a call, both sides sleeping when they must).
 *
 *   tcp_stream [MEBIBYTES]                        over loopback; prints MiB/s
 *   tcp_stream -l PORT                            receive from one sender, until it ends
 *   tcp_stream -t SECONDS [-w SECONDS] HOST PORT  send there, by CUBIC
 *
 * The sender prints the MiB/s that were acknowledged within -t SECONDS, after it has sent for
 * -w SECONDS to be past slow start, what was retransmitted from the start, and the
 * kernel's round-trip time in the end.
 */
#include <string.h>

#include "loopback.h"

#define CALL (128u << 10)

static uint8_t buffer[CALL];

static struct sockaddr_in address_of(const char *host, const char *port)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(port))};

	checked(inet_pton(AF_INET, host, &address.sin_addr) - 1, "HOST");
	return address;
}

static int connected(const struct sockaddr_in *address, const char *congestion)
{
	int fd = checked(socket(AF_INET, SOCK_STREAM, 0), "socket");

	if (congestion)
		checked(setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, congestion, strlen(congestion)),
			congestion);
	checked(connect(fd, (const struct sockaddr *)address, sizeof(*address)), "connect");
	return fd;
}

static struct tcp_info info_of(int fd)
{
	struct tcp_info info = {0};
	socklen_t length = sizeof(info);

	checked(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length), "TCP_INFO");
	return info;
}

static void send_until(int fd, uint64_t end)
{
	while (now_ns() < end)
		checked(send(fd, buffer, sizeof(buffer), 0), "send");
}

static void send_for(int fd, double warm_up, double seconds)
{
	uint64_t start = now_ns() + warm_up * 1e9, before, now;
	struct tcp_info info;

	send_until(fd, start);
	start = now_ns();
	before = info_of(fd).tcpi_bytes_acked;
	send_until(fd, start + seconds * 1e9);
	now = now_ns();
	info = info_of(fd);
	printf("%.1f MiB/s, %u segments retransmitted, round trip %.2f ms\n",
	       (info.tcpi_bytes_acked - before) / 1048576.0 / ((now - start) / 1e9),
	       info.tcpi_total_retrans, info.tcpi_rtt / 1e3);
}

static void receive_all(const char *port)
{
	struct sockaddr_in address = address_of("0.0.0.0", port);
	int listener = checked(socket(AF_INET, SOCK_STREAM, 0), "socket"), fd, on = 1;

	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	checked(bind(listener, (struct sockaddr *)&address, sizeof(address)), "bind");
	checked(listen(listener, 1), "listen");
	fd = checked(accept(listener, NULL, NULL), "accept");
	while (checked(recv(fd, buffer, sizeof(buffer), 0), "recv"))
		;
}

static void over_loopback(uint64_t total)
{
	uint64_t done = 0, start;
	struct sockaddr_in address;
	int listener = bound_socket(SOCK_STREAM, &address), fd;
	pid_t child;

	checked(listen(listener, 1), "listen");
	child = fork_partner();
	if (!child)
		send_until(connected(&address, NULL), UINT64_MAX); /* until it is killed */
	fd = checked(accept(listener, NULL, NULL), "accept");
	start = now_ns();
	while (done < total)
		done += checked(recv(fd, buffer, sizeof(buffer), 0), "recv");
	printf("%.1f\n", done / 1048576.0 / ((now_ns() - start) / 1e9));
	end_partner(child);
}

int main(int argc, char **argv)
{
	double seconds = 0, warm_up = 0;
	const char *port = NULL;
	int option;

	while ((option = getopt(argc, argv, "l:t:w:")) != -1) {
		if (option == 'l')
			port = optarg;
		else if (option == 't')
			seconds = atof(optarg);
		else if (option == 'w')
			warm_up = atof(optarg);
		else
			return 2;
	}
	if (port) {
		receive_all(port);
	} else if (argc - optind == 2) {
		struct sockaddr_in address = address_of(argv[optind], argv[optind + 1]);

		send_for(connected(&address, "cubic"), warm_up, seconds);
	} else {
		over_loopback((argc > optind ? atoi(argv[optind]) : 1024) * 1048576ull);
	}
	return 0;
}
