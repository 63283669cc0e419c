/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What no stock tool shows: every byte verified, every error completion, the
 * order of flushes. One of two processes:
 *
 *   scenario [-m MTU] [-l] NAME PORT          the server
 *   scenario [-m MTU] [-l] NAME PORT HOST     the client
 *
 * -l: packets are lost on the way (matters for UC and UD, where messages are
 * lost with them). Prints "NAME: ok".
 */
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "scenario.h"

static int serve(const char *port)
{
	struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons(atoi(port))};
	int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1, connection;

	CHECK(listener >= 0);
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	CHECK_EQUAL(bind(listener, (struct sockaddr *)&any, sizeof(any)), 0);
	CHECK_EQUAL(listen(listener, 1), 0);
	connection = accept(listener, NULL, NULL);
	CHECK(connection >= 0);
	close(listener);
	return connection;
}

static int dial(const char *host, const char *port)
{
	struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *address;
	int connection = socket(AF_INET, SOCK_STREAM, 0);

	CHECK(connection >= 0);
	CHECK_EQUAL(getaddrinfo(host, port, &hints, &address), 0);
	CHECK_EQUAL(connect(connection, address->ai_addr, address->ai_addrlen), 0);
	freeaddrinfo(address);
	return connection;
}

static const struct scenario *find(const char *name)
{
	static const struct scenario *const tables[] = {
		scenarios_data,	  scenarios_datagram,  scenarios_error,	    scenarios_flush,
		scenarios_queue,  scenarios_multicast, scenarios_migration, scenarios_exp,
		scenarios_memory, scenarios_ofa};

	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
		for (const struct scenario *s = tables[i]; s->name; s++) {
			if (strcmp(s->name, name) == 0)
				return s;
		}
	}
	return NULL;
}

static enum ibv_mtu mtu_code(int bytes)
{
	int code = IBV_MTU_256;

	while (code < IBV_MTU_4096 && 128 << code < bytes)
		code++;
	return code;
}

int main(int argc, char **argv)
{
	struct pair pair = {.mtu = IBV_MTU_1024};
	const struct scenario *scenario;
	int option, on = 1;

	while ((option = getopt(argc, argv, "m:l")) != -1) {
		if (option == 'm')
			pair.mtu = mtu_code(atoi(optarg));
		else if (option == 'l')
			pair.lossy = true;
		else
			return 2;
	}
	argc -= optind;
	argv += optind;
	scenario = argc >= 2 ? find(argv[0]) : NULL;
	if (!scenario) {
		fprintf(stderr, "usage: scenario [-m MTU] [-l] NAME PORT [HOST]\n");
		return 2;
	}
	pair.server = argc == 2;
	pair.socket = pair.server ? serve(argv[1]) : dial(argv[2], argv[1]);
	setsockopt(pair.socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	scenario->run(&pair);
	printf("%s: ok\n", scenario->name);
	return 0;
}
