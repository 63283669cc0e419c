/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How the real link sends (net/udp/udp_send.c): which packets become one super-packet, with which
 * identifications, and what becomes of those that can't be sent.
 */
#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kernel_calls.h"
#include "lost_memory.h"
#include "net/log.h"
#include "own_network.h"
#include "tests/run_suite.h"

#define NETWORK "127.77.16"
#include "udp_traffic.h"

/* The identifications tell whether the kernel segmented: all 0 without, 0, 1, 2, ... with. */
START_TEST(identifications)
{
	bool segmentation = _i & 1, gro = _i & 2;
	struct node from =
		node_open(ADDRESS_A, &(struct udp_options){.segmentation = segmentation});
	struct node to = node_open(ADDRESS_B, &(struct udp_options){.segmentation = gro});
	struct traffic *traffic = traffic_new(&from, &to);
	struct link_frame frames[1];

	for (unsigned int i = 0; i < 20; i++)
		add_packet(traffic, 100);
	send_some(&from, traffic, 0, 20);
	for (int i = 0; i < 20; i++) {
		ck_assert_uint_eq(receive_patiently(&to, frames, 1), 1);
		if (gro)
			ck_assert_int_eq(frames[0].ip_id, segmentation ? i : 0);
		ck_assert(icrc_check(&frames[0]));
		ck_assert_int_eq(frames[0].ip_id, segmentation ? i : 0);
	}
	node_close(&from);
	node_close(&to);
	free(traffic);
}
END_TEST

/* Packets of one call to different receivers: no super-packet may mix them. */
START_TEST(paths_are_not_mixed)
{
	struct udp_options options = {.segmentation = true};
	struct node from = node_open(ADDRESS_A, &options), to = node_open(ADDRESS_B, &options);
	struct node third = node_open(ADDRESS_C, &options);
	struct traffic *traffic = traffic_new(&from, &to);
	struct path other = {.source = from.gid,
			     .destination = third.gid,
			     .traffic_class = 0x20,
			     .hop_limit = 9};
	struct path marked = traffic->path;
	struct link_frame frames[64];
	unsigned int seen = 0, got;

	if (_i)
		marked.traffic_class = 3;
	else
		marked.hop_limit = 3;
	for (unsigned int i = 0; i < 30; i++) {
		add_packet(traffic, 256);
		traffic->packets[i].path = i % 3 == 1	? &other
					   : i % 3 == 2 ? &marked
							: &traffic->path;
	}
	send_some(&from, traffic, 0, 30);
	while ((got = third.link->ops->receive(third.link, frames, 64, 0))) {
		for (unsigned int i = 0; i < got; i++)
			expect_frame(traffic, 3 * seen++ + 1, &frames[i]);
	}
	ck_assert_uint_eq(seen, 10);
	seen = 0;
	while ((got = to.link->ops->receive(to.link, frames, 64, 0))) {
		for (unsigned int i = 0; i < got; i++, seen++)
			expect_frame(traffic, seen / 2 * 3 + (seen & 1 ? 2 : 0), &frames[i]);
	}
	ck_assert_uint_eq(seen, 20);
	node_close(&from);
	node_close(&to);
	node_close(&third);
	free(traffic);
}
END_TEST

static atomic_bool changing;

/* The application's counters, which go on while a peer reads them. */
static void *count_in_memory(void *unused)
{
	(void)unused;
	for (uint8_t n = 0; atomic_load(&changing); n++) {
		for (size_t i = 0; i < sizeof(memory); i += 64)
			__atomic_store_n(&memory[i], n, __ATOMIC_RELAXED);
	}
	return NULL;
}

/* The ICRC is that of what was sent: memory that changes meanwhile costs no packet. */
START_TEST(memory_that_changes)
{
	struct udp_options options = {.segmentation = _i};
	struct node from = node_open(ADDRESS_A, &options), to = node_open(ADDRESS_B, &options);
	struct traffic *traffic = traffic_new(&from, &to);
	struct link_frame frames[64];
	pthread_t thread;

	for (unsigned int i = 0; i < 12; i++)
		add_packet(traffic, i < 11 ? 4096 : 300);
	atomic_store(&changing, true);
	ck_assert_int_eq(pthread_create(&thread, NULL, count_in_memory, NULL), 0);
	for (unsigned int round = 0; round < 1000; round++) {
		unsigned int seen = 0, got;

		ck_assert_uint_eq(send_some(&from, traffic, 0, 12), 0);
		while ((got = to.link->ops->receive(to.link, frames, 64, 0))) {
			for (unsigned int i = 0; i < got; i++)
				ck_assert(icrc_check(&frames[i]));
			seen += got;
		}
		ck_assert_uint_eq(seen, 12);
	}
	atomic_store(&changing, false);
	pthread_join(thread, NULL);
	node_close(&from);
	node_close(&to);
	free(traffic);
}
END_TEST

/* It costs what was to leave with it, and nothing else. */
START_TEST(memory_that_is_gone)
{
	struct udp_options options = {.segmentation = _i};
	struct node from = node_open(ADDRESS_A, &options), to = node_open(ADDRESS_B, &options);
	struct traffic *traffic = traffic_new(&from, &to);

	for (unsigned int i = 0; i < 9; i++)
		add_packet(traffic, i < 6 ? 100 * (6 - i) : 64);
	traffic->vectors[4][0].iov_base = lost_memory(sizeof(memory));
	ck_assert_uint_eq(send_some(&from, traffic, 4, 5), 1 + _i);
	expect(&to, traffic, 5 + _i, 4 - _i, 64);
	node_close(&from);
	node_close(&to);
	free(traffic);
}
END_TEST

/* What can't be sent vanishes, and what comes behind it doesn't. */
START_TEST(refused_packets)
{
	struct udp_options options = {.segmentation = _i};
	struct node from = node_open(ADDRESS_A, &options), to = node_open(ADDRESS_B, &options);
	struct traffic *traffic = traffic_new(&from, &to);
	struct path foreign = {.source = to.gid, .destination = to.gid, .hop_limit = 64};
	struct path unused = {
		.source = from.gid, .destination = gid_of(NETWORK ".99"), .hop_limit = 64};
	/* A broadcast without SO_BROADCAST: the kernel says EACCES. */
	struct path refused = {
		.source = from.gid, .destination = gid_of("255.255.255.255"), .hop_limit = 64};

	for (unsigned int i = 0; i < 12; i++)
		add_packet(traffic, 64);
	for (unsigned int i = 0; i < 3; i++) {
		traffic->packets[i].path = &foreign;
		traffic->packets[3 + i].path = &unused;
		traffic->packets[6 + i].path = &refused;
	}
	ck_assert_uint_eq(send_some(&from, traffic, 0, 12), 6);
	expect(&to, traffic, 9, 3, 64);
	ck_assert_uint_eq(send_some(&from, traffic, 9, 3), 0);
	expect(&to, traffic, 9, 3, 64);
	node_close(&from);
	node_close(&to);
	free(traffic);
}
END_TEST

/*
 * A kernel that refuses segmentation (here because of SO_NO_CHECK) gets packets
 * one by one, with the ICRCs of unsegmented packets, and isn't asked again.
 */
START_TEST(segmentation_refused)
{
	struct udp_options options = {.segmentation = true};
	struct node from = node_open(ADDRESS_A, &options), to = node_open(ADDRESS_B, &options);
	struct udp_address *address = ((struct udp_link *)from.link)->addresses[0];
	struct traffic *traffic = traffic_new(&from, &to);
	struct link_frame frames[64];
	unsigned int seen = 0, got;
	int on = 1;

	traffic->path.traffic_class = 0x28;
	for (unsigned int i = 0; i < 40; i++)
		add_packet(traffic, 200);
	ck_assert_int_eq(setsockopt(address->send_fd, SOL_SOCKET, SO_NO_CHECK, &on, sizeof(on)), 0);
	ck_assert(address->segmentation);
	for (unsigned int round = 0; round < 2; round++) {
		send_some(&from, traffic, 20 * round, 20);
		ck_assert(!address->segmentation);
		while ((got = to.link->ops->receive(to.link, frames, 64, 0))) {
			for (unsigned int i = 0; i < got; i++) {
				expect_frame(traffic, seen++, &frames[i]);
				ck_assert_int_eq(frames[i].ip_id, 0);
			}
		}
	}
	ck_assert_uint_eq(seen, 40);
	node_close(&from);
	node_close(&to);
	free(traffic);
}
END_TEST

static unsigned int refusals; /* of the next super-packets */
static int refusal_of_many;   /* errno of sendmmsg(), or 0 */

static long answer_call(long number, const long arguments[6])
{
	if (number == SYS_sendmsg && refusals && ((struct msghdr *)arguments[1])->msg_controllen) {
		refusals--;
		errno = EINVAL;
		return -1;
	}
	if (number == SYS_sendmmsg && refusal_of_many) {
		errno = refusal_of_many;
		return -1;
	}
	return kernel_call(number, arguments);
}

/* A blackhole, say, that is gone when the first packet is tried alone: nothing against the rest. */
START_TEST(no_way_for_a_moment)
{
	struct udp_options options = {.segmentation = true};
	struct node from = node_open(ADDRESS_A, &options), to = node_open(ADDRESS_B, &options);
	struct udp_address *address = ((struct udp_link *)from.link)->addresses[0];
	struct traffic *traffic = traffic_new(&from, &to);

	traffic->path.traffic_class = UDP_TRAFFIC_CLASS;
	for (unsigned int count = 2, first = 0; count <= 20; first += count, count++) {
		for (unsigned int i = 0; i < count; i++)
			add_packet(traffic, i + 1 < count ? 200 : 100);
		refusals = 1;
		ck_assert_uint_eq(send_some(&from, traffic, first, count), 0);
		ck_assert_uint_eq(refusals, 0);
		ck_assert(address->segmentation);
		expect(&to, traffic, first, count, 64);
	}
	node_close(&from);
	node_close(&to);
	free(traffic);
}
END_TEST

/* Some sandboxes know sendmsg() alone. */
START_TEST(no_call_for_many)
{
	struct udp_options options = {.segmentation = true};
	struct node from = node_open(ADDRESS_A, &options), to = node_open(ADDRESS_B, &options);
	struct traffic *traffic = traffic_new(&from, &to);

	for (unsigned int i = 0; i < 20; i++)
		add_packet(traffic, i % 3 ? 200 : 100);
	refusal_of_many = _i ? ENOSYS : EPERM;
	ck_assert_uint_eq(send_some(&from, traffic, 0, 20), 0);
	refusal_of_many = 0;
	expect(&to, traffic, 0, 20, 64);
	node_close(&from);
	node_close(&to);
	free(traffic);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("udp_send");
	TCase *tests = tcase_create("udp_send");

	fill_memory();
	log_set_level(LOG_INFO);
	tcase_set_timeout(tests, 60);
	tcase_add_loop_test(tests, identifications, 0, 4);
	tcase_add_loop_test(tests, paths_are_not_mixed, 0, 2);
	tcase_add_loop_test(tests, memory_that_changes, 0, 2);
	tcase_add_loop_test(tests, memory_that_is_gone, 0, 2);
	tcase_add_loop_test(tests, refused_packets, 0, 2);
	tcase_add_test(tests, segmentation_refused);
	tcase_add_test(tests, no_way_for_a_moment);
	tcase_add_loop_test(tests, no_call_for_many, 0, 2);
	own_network_enter(tests);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
