/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * peer SCENARIO [--dev NAME] [--gid INDEX] [--port PORT] [--mtu BYTES] [--connect HOST]
 *
 * One of two processes that show on the wire what no stock tool does: all kinds of operations, and
 * all kinds of errors. With --connect it is the requester ("B" in golden.sh), without it the
 * responder ("A"), to be started first. golden.sh runs it between two rxes for the captures,
 * tests/wire/golden.py under urxe for the same packets, and scripts/interop between the two; all
 * that it prints is looked at there.
 */
#include <arpa/inet.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "peer_scenario.h"

static const struct scenario *find(const char *name)
{
	static const struct scenario *const tables[] = {scenarios_messages, scenarios_memory,
							scenarios_errors};

	for (size_t i = 0; i < COUNT(tables); i++) {
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

/* Returns whether that was understood, and the name of a scenario is left. */
static bool read_options(int argc, char **argv, struct pair_place *place)
{
	static const struct option options[] = {
		{"dev", required_argument, NULL, 'd'},	   {"gid", required_argument, NULL, 'g'},
		{"port", required_argument, NULL, 'p'},	   {"mtu", required_argument, NULL, 'm'},
		{"connect", required_argument, NULL, 'c'}, {},
	};
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (option == 'd')
			place->device = optarg;
		else if (option == 'g')
			place->gid_index = atoi(optarg);
		else if (option == 'p')
			place->port = optarg;
		else if (option == 'm')
			place->mtu = mtu_code(atoi(optarg));
		else if (option == 'c')
			place->host = optarg;
		else
			return false;
	}
	return optind + 1 == argc;
}

static void print_endpoints(const char *name, const struct pair *pair)
{
	const struct pair_endpoint *local = &pair->local, *remote = &pair->remote;
	char gid[INET6_ADDRSTRLEN];

	printf("scenario %s: me qpn %06x psn %06x rkey %08x addr %llx; ", name, local->qpn,
	       local->psn, local->rkey, (unsigned long long)local->address);
	printf("peer qpn %06x psn %06x rkey %08x addr %llx gid %s\n", remote->qpn, remote->psn,
	       remote->rkey, (unsigned long long)remote->address,
	       inet_ntop(AF_INET6, &remote->gid, gid, sizeof(gid)));
}

int main(int argc, char **argv)
{
	/* The index is that of rxe's IPv4 address. */
	struct pair_place place = {.gid_index = 1, .mtu = IBV_MTU_1024, .port = "18600"};
	bool understood = read_options(argc, argv, &place);
	const struct scenario *scenario = understood ? find(argv[optind]) : NULL;
	struct pair pair;

	if (!scenario) {
		fprintf(stderr, "usage: peer SCENARIO [--dev NAME] [--gid INDEX] [--port PORT] "
				"[--mtu BYTES] [--connect HOST]\n");
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	pair_open(&pair, &place, &scenario->options);
	print_endpoints(scenario->name, &pair);
	pair_barrier(&pair);
	if (place.host)
		scenario->requester(&pair);
	else
		scenario->responder(&pair);
	pair_barrier(&pair);
	printf("done\n");
	return 0;
}
