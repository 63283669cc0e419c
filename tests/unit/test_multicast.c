/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Groups of the real link, on loopback: a link in a group gets what is sent to
 * it, the sender too, with the group as its destination and a valid ICRC. On
 * loopback send() delivers before it returns, so nothing here waits.
 */
#include <check.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gid_of.h"
#include "net/udp/udp.h"
#include "net/udp/udp_link.h"
#include "net/wire/icrc.h"
#include "open_descriptors.h"
#include "own_network.h"
#include "tests/run_suite.h"

#define ADDRESS_A "127.77.5.1"
#define ADDRESS_B "127.77.5.2"
#define ADDRESS_C "127.77.5.3"
#define GROUP "239.77.5.1"
#define OTHER_GROUP "239.77.5.2"
#define PACKETS 40

struct node {
	struct link *link;
	union ibv_gid gid;
};

static struct node node_open(const char *address, bool segmentation)
{
	const struct udp_options options = {.segmentation = segmentation};
	struct node node = {.gid = gid_of(address)};

	ck_assert_int_eq(udp_link_create(&options, &node.link), 0);
	ck_assert_int_eq(node.link->ops->add_address(node.link, &node.gid, 0), 0);
	return node;
}

static void node_close(struct node *node)
{
	node->link->ops->close(node->link);
}

static int join(struct node *node, const char *group, bool here)
{
	union ibv_gid gid = gid_of(group);

	return node->link->ops->join(node->link, &gid, here ? &node->gid : NULL);
}

static void leave(struct node *node, const char *group)
{
	union ibv_gid gid = gid_of(group);

	node->link->ops->leave(node->link, &gid);
}

static uint8_t hop_limit = 5;

/* @count packets of one length, which the kernel may take as one; numbered by their PSNs. */
static void send_to(struct node *node, const char *destination, unsigned int count)
{
	static uint8_t bytes[256];
	struct iovec vector = {bytes, 100};
	struct path path = {
		.source = node->gid, .destination = gid_of(destination), .hop_limit = hop_limit};
	struct link_packet packets[PACKETS];

	for (unsigned int i = 0; i < count; i++) {
		packets[i] = (struct link_packet){.path = &path,
						  .payload = &vector,
						  .payload_length = 100,
						  .payload_count = 1,
						  .headers_length = sizeof(struct bth),
						  .trailer_length = ICRC_LENGTH};
		memcpy(packets[i].headers,
		       &(struct bth){.opcode = WIRE_RC | WIRE_SEND_ONLY,
				     .pkey = htobe16(PKEY_DEFAULT),
				     .dest_qp = htobe32(QPN_MULTICAST),
				     .psn = htobe32(i)},
		       sizeof(struct bth));
	}
	node->link->ops->send(node->link, packets, count, 0);
}

/* All that has arrived came from @from to @group, @count packets in order. */
static void expect(struct node *node, struct node *from, const char *group, unsigned int count)
{
	union ibv_gid destination = gid_of(group);
	struct link_frame frames[7];
	unsigned int seen = 0, got;

	while ((got = node->link->ops->receive(node->link, frames, 7, 0))) {
		for (unsigned int i = 0; i < got; i++) {
			const struct bth *bth = (const struct bth *)frames[i].data;

			ck_assert_uint_eq(be32toh(bth->psn), seen++);
			ck_assert(icrc_check(&frames[i]));
			ck_assert(gid_equal(&frames[i].source, &from->gid));
			ck_assert(gid_equal(&frames[i].destination, &destination));
			ck_assert_uint_eq(frames[i].hop_limit, hop_limit);
		}
	}
	ck_assert_uint_eq(seen, count);
}

START_TEST(members)
{
	bool segmentation = _i & 1, here = _i & 2;
	struct node a = node_open(ADDRESS_A, segmentation);
	struct node b = node_open(ADDRESS_B, segmentation);
	struct node c = node_open(ADDRESS_C, segmentation);

	ck_assert_int_eq(join(&a, GROUP, here), 0);
	ck_assert_int_eq(join(&b, GROUP, here), 0);
	ck_assert_int_eq(join(&b, GROUP, here), 0); /* no second copy */
	ck_assert_int_eq(join(&b, OTHER_GROUP, here), 0);
	for (int round = 0; round < 3; round++) {
		send_to(&a, GROUP, PACKETS);
		expect(&a, &a, GROUP, PACKETS);
		expect(&b, &a, GROUP, PACKETS);
	}
	send_to(&c, OTHER_GROUP, 3); /* it needn't be a member */
	expect(&b, &c, OTHER_GROUP, 3);
	expect(&a, &c, OTHER_GROUP, 0);
	expect(&c, &c, OTHER_GROUP, 0);

	leave(&b, GROUP);
	leave(&b, GROUP); /* in vain */
	send_to(&a, GROUP, 2);
	expect(&a, &a, GROUP, 2);
	expect(&b, &a, GROUP, 0);
	ck_assert_int_eq(join(&b, GROUP, here), 0);
	send_to(&a, GROUP, 2);
	expect(&b, &a, GROUP, 2);
	node_close(&a);
	node_close(&b);
	node_close(&c);
}
END_TEST

/* What comes for the groups and what comes for the address is read by turns. */
START_TEST(no_starvation)
{
	struct node a = node_open(ADDRESS_A, false), b = node_open(ADDRESS_B, false);
	union ibv_gid group = gid_of(GROUP);
	struct link_frame frame;
	unsigned int polls = 0;

	ck_assert_int_eq(join(&b, GROUP, true), 0);
	send_to(&a, GROUP, 1);
	do {
		send_to(&a, ADDRESS_B, 1);
		ck_assert_uint_lt(polls++, 40);
		ck_assert_uint_eq(b.link->ops->receive(b.link, &frame, 1, 0), 1);
	} while (!gid_equal(&frame.destination, &group));
	node_close(&a);
	node_close(&b);
}
END_TEST

/*
 * Neither by the interface that a connected socket's route has, nor in pages that one member has
 * read.
 */
START_TEST(groups_are_not_connected_to)
{
	struct node a = node_open(ADDRESS_A, true);
	const struct udp_address *address = udp_address_find((struct udp_link *)a.link, &a.gid);

	ck_assert_int_eq(join(&a, GROUP, true), 0);
	for (int i = 0; i < 2 * UDP_CONNECT_AFTER; i++) {
		send_to(&a, GROUP, 1);
		expect(&a, &a, GROUP, 1);
	}
	ck_assert_uint_eq(address->connection_count, 1);
	ck_assert_int_eq(address->connections[0]->state, UDP_REFUSED);
	node_close(&a);
}
END_TEST

/* The kernel's own for groups would be 1. */
START_TEST(the_sockets_own_hop_limit)
{
	struct node a = node_open(ADDRESS_A, true);

	hop_limit = HOP_LIMIT_DEFAULT;
	ck_assert_int_eq(join(&a, GROUP, true), 0);
	send_to(&a, GROUP, 2);
	expect(&a, &a, GROUP, 2);
	node_close(&a);
}
END_TEST

/* A thread that sleeps on the descriptors wakes up. */
START_TEST(descriptors)
{
	struct node a = node_open(ADDRESS_A, true), b = node_open(ADDRESS_B, true);
	struct pollfd pollfds[4];
	int fds[4], before = b.link->ops->descriptors(b.link, fds, 4), count;

	ck_assert_int_eq(join(&b, GROUP, true), 0);
	count = b.link->ops->descriptors(b.link, fds, 4);
	ck_assert_int_eq(count, before + 1);
	for (int i = 0; i < count; i++)
		pollfds[i] = (struct pollfd){.fd = fds[i], .events = POLLIN};
	ck_assert_int_eq(poll(pollfds, count, 0), 0);
	send_to(&a, GROUP, 1);
	ck_assert_int_eq(poll(pollfds, count, 0), 1);
	expect(&b, &a, GROUP, 1);
	ck_assert_int_eq(poll(pollfds, count, 0), 0);
	node_close(&a);
	node_close(&b);
}
END_TEST

START_TEST(no_place)
{
	struct node a = node_open(ADDRESS_A, true), elsewhere = {.gid = gid_of("::1")};
	union ibv_gid group = gid_of("ff05::7");

	/* A group of the other family, of which there is no address. */
	ck_assert_int_eq(a.link->ops->join(a.link, &group, NULL), ENODEV);
	ck_assert_int_eq(a.link->ops->join(a.link, &group, &a.gid), ENODEV);
	group = gid_of(GROUP);
	ck_assert_int_eq(a.link->ops->join(a.link, &group, &elsewhere.gid), ENODEV);
	ck_assert_int_eq(join(&a, GROUP, true), 0);
	node_close(&a);
}
END_TEST

static unsigned int join_many(struct node *node)
{
	unsigned int without;

	ck_assert_int_eq(join(node, GROUP, true), 0); /* with what all groups share */
	without = open_descriptors();
	for (int i = 0; i < 50; i++) {
		char group[20];

		snprintf(group, sizeof(group), "239.77.6.%d", i);
		ck_assert_int_eq(join(node, group, i % 2), 0);
	}
	return open_descriptors() - without;
}

/* Closing with groups joined closes their sockets, and so does letting go of them in a child. */
START_TEST(nothing_left_open)
{
	unsigned int before = open_descriptors();
	struct node a = node_open(ADDRESS_A, true);
	int status;
	pid_t child;

	ck_assert_uint_eq(join_many(&a), 50);
	child = fork();
	if (child == 0) {
		a.link->ops->after_fork_child(a.link);
		/* All but one, see udp_after_fork_child(). */
		_exit(open_descriptors() <= before + 1 ? EXIT_SUCCESS : EXIT_FAILURE);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
	node_close(&a);
	ck_assert_uint_eq(open_descriptors(), before);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("multicast");
	TCase *tcase = tcase_create("multicast");

	tcase_add_loop_test(tcase, members, 0, 4);
	tcase_add_test(tcase, no_starvation);
	tcase_add_test(tcase, groups_are_not_connected_to);
	tcase_add_test(tcase, the_sockets_own_hop_limit);
	tcase_add_test(tcase, descriptors);
	tcase_add_test(tcase, no_place);
	tcase_add_test(tcase, nothing_left_open);
	own_network_enter(tcase);
	suite_add_tcase(suite, tcase);
	return run_suite(suite);
}
