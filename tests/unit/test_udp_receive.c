/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How the real link receives (net/udp/udp_receive.c): super-packets become frames, which stay where
 * they are until the next call, and say how they came.
 */
#include <check.h>
#include <linux/in6.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/log.h"
#include "own_network.h"
#include "tests/run_suite.h"

#define NETWORK "127.77.17"
#include "udp_traffic.h"

/* Which options of linux/in6.h are left once netinet/in.h was read depends on the versions. */
#ifndef IPV6_FLOWLABEL_MGR
#define IPV6_FLOWLABEL_MGR 32
#define IPV6_FLOWINFO_SEND 33
#endif

/* Frames of one call stay as they are until the next one, also over several datagrams. */
START_TEST(frames_stay_valid)
{
	struct udp_options options = {.segmentation = _i};
	struct node from = node_open(ADDRESS_A, &options), to = node_open(ADDRESS_B, &options);
	struct traffic *traffic = traffic_new(&from, &to);
	struct link_frame frames[64];
	unsigned int most = 0;

	for (unsigned int i = 0; i < 60; i++)
		add_packet(traffic, 64 + i % 3);
	for (unsigned int round = 0; round < 6; round++) {
		unsigned int seen = 0;

		send_some(&from, traffic, 0, 60);
		while (seen < 60) {
			unsigned int got = to.link->ops->receive(to.link, frames, 64, 0);

			ck_assert_uint_gt(got, 0);
			most = got > most ? got : most;
			for (unsigned int i = 0; i < got; i++)
				expect_frame(traffic, seen++, &frames[i]);
		}
	}
	ck_assert_uint_gt(most, 10); /* several datagrams in one call, or the test shows nothing */
	node_close(&from);
	node_close(&to);
	free(traffic);
}
END_TEST

/*
 * In a stream several datagrams are read at once, each into space of its own: what is short is
 * moved towards the one before, which may leave it hardly any room.
 */
START_TEST(long_and_short_datagrams)
{
	struct udp_options options = {.segmentation = true};
	struct node from = node_open(ADDRESS_A, &options), to = node_open(ADDRESS_B, &options);
	const unsigned int full = link_train_packets(sizeof(struct bth) + 4096 + ICRC_LENGTH);
	struct link_frame frames[64];

	for (uint32_t round = 0; round < 64; round++) {
		struct traffic *traffic = traffic_new(&from, &to);
		unsigned int seen = 0;

		for (unsigned int i = 0; i < full; i++)
			add_packet(traffic, 4096);
		add_packet(traffic, 4 + 64 * round % 4096);
		add_packet(traffic, 4096);
		add_packet(traffic, 4096);
		add_packet(traffic, 8);
		send_some(&from, traffic, 0, traffic->count);
		while (seen < traffic->count) {
			unsigned int got = to.link->ops->receive(to.link, frames, 64, 0);

			ck_assert_uint_gt(got, 0);
			for (unsigned int i = 0; i < got; i++)
				expect_frame(traffic, seen++, &frames[i]);
			/* All of it, once the stream is one. */
			ck_assert(round < 3 || seen == traffic->count);
		}
		free(traffic);
	}
	node_close(&from);
	node_close(&to);
}
END_TEST

/* Where there is no space for all that has arrived the link says so. */
START_TEST(more_than_there_is_space_for)
{
	struct udp_options options = {.segmentation = true};
	struct node from = node_open(ADDRESS_A, &options), to = node_open(ADDRESS_B, &options);
	const unsigned int full = link_train_packets(sizeof(struct bth) + 4096 + ICRC_LENGTH);
	struct traffic *traffic = traffic_new(&from, &to);
	unsigned int seen = 0, got;
	struct link_frame frames[128];

	for (unsigned int i = 0; i < 5 * full; i++)
		add_packet(traffic, 4096);
	/* A stream begins; then there is one datagram more than are read at once. */
	for (; seen < 3; seen++) {
		send_some(&from, traffic, seen, 1);
		ck_assert_uint_eq(receive_patiently(&to, frames, 128), 1);
		ck_assert(!to.link->more);
	}
	send_some(&from, traffic, seen, traffic->count - seen);
	for (unsigned int call = 0; call < 2; call++) {
		got = to.link->ops->receive(to.link, frames, 128, 0);
		for (unsigned int i = 0; i < got; i++)
			expect_frame(traffic, seen++, &frames[i]);
		ck_assert_int_eq(to.link->more, call == 0);
	}
	ck_assert_uint_eq(seen, traffic->count);
	node_close(&from);
	node_close(&to);
	free(traffic);
}
END_TEST

/* Frames say with which hop limit and traffic class they came from then on, by any address. */
START_TEST(what_a_grh_shows_when_asked_for)
{
	struct udp_options options = {.segmentation = true};
	struct node from = node_open(ADDRESS_A, &options), to = {.gid = gid_of(ADDRESS_B)};
	struct node later = {.gid = gid_of(ADDRESS_C)};
	struct traffic *traffic[2];

	ck_assert_int_eq(udp_link_create(&options, &to.link), 0);
	ck_assert_int_eq(to.link->ops->add_address(to.link, &to.gid, 0), 0);
	to.link->ops->receive_grh(to.link);
	ck_assert_int_eq(to.link->ops->add_address(to.link, &later.gid, 0), 0);
	traffic[0] = traffic_new(&from, &to);
	traffic[1] = traffic_new(&from, &later);
	for (int i = 0; i < 2; i++) {
		traffic[i]->path.hop_limit = 7;
		traffic[i]->path.traffic_class = 0x68;
		add_packet(traffic[i], 8);
		send_some(&from, traffic[i], 0, 1);
		expect(&to, traffic[i], 0, 1, 64);
		free(traffic[i]);
	}
	node_close(&from);
	node_close(&to);
}
END_TEST

#define LABEL 0x12345

/* Of another sender than ours: a NIC has the flow label that it is given. */
static int open_labelled(void)
{
	const struct in6_flowlabel_req request = {.flr_dst = IN6ADDR_LOOPBACK_INIT,
						  .flr_label = htonl(LABEL),
						  .flr_action = IPV6_FL_A_GET,
						  .flr_share = IPV6_FL_S_ANY,
						  .flr_flags = IPV6_FL_F_CREATE};
	int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0), on = 1, off = 0;

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(
		setsockopt(fd, IPPROTO_IPV6, IPV6_FLOWLABEL_MGR, &request, sizeof(request)), 0);
	ck_assert_int_eq(setsockopt(fd, IPPROTO_IPV6, IPV6_FLOWINFO_SEND, &on, sizeof(on)), 0);
	/* Of its own the kernel would give each flow one. */
	ck_assert_int_eq(setsockopt(fd, IPPROTO_IPV6, IPV6_AUTOFLOWLABEL, &off, sizeof(off)), 0);
	return fd;
}

/* Frames have it beside the traffic class, whichever of them is 0. */
START_TEST(flow_labels)
{
	static const struct {
		uint32_t label;
		int traffic_class;
	} flows[] = {{LABEL, 0xb9}, {LABEL, 0}, {0, 0xb9}, {0, 0}};
	struct udp_options options = {.segmentation = true};
	uint8_t datagram[100] = {};
	struct node to;
	int fd;

	if (!have_ipv6())
		return;
	to = node_open("::1", &options);
	/* Other tests may have that address, too. */
	((struct bth *)datagram)->dest_qp = htobe32(qpn_of(&to));
	fd = open_labelled();
	for (unsigned int i = 0; i < sizeof(flows) / sizeof(flows[0]); i++) {
		const struct sockaddr_in6 name = {.sin6_family = AF_INET6,
						  .sin6_port = htons(ROCE_V2_UDP_PORT),
						  .sin6_flowinfo = htonl(flows[i].label),
						  .sin6_addr = IN6ADDR_LOOPBACK_INIT};
		struct link_frame frame;

		ck_assert_int_eq(setsockopt(fd, IPPROTO_IPV6, IPV6_TCLASS, &flows[i].traffic_class,
					    sizeof(int)),
				 0);
		ck_assert_int_eq(sendto(fd, datagram, sizeof(datagram), 0,
					(const struct sockaddr *)&name, sizeof(name)),
				 sizeof(datagram));
		ck_assert_uint_eq(receive_patiently(&to, &frame, 1), 1);
		ck_assert_uint_eq(frame.flow_label, flows[i].label);
		ck_assert_uint_eq(frame.traffic_class, flows[i].traffic_class);
	}
	close(fd);
	node_close(&to);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("udp_receive");
	TCase *tests = tcase_create("udp_receive");

	fill_memory();
	log_set_level(LOG_INFO);
	tcase_set_timeout(tests, 60);
	tcase_add_loop_test(tests, frames_stay_valid, 0, 2);
	tcase_add_test(tests, long_and_short_datagrams);
	tcase_add_test(tests, more_than_there_is_space_for);
	tcase_add_test(tests, what_a_grh_shows_when_asked_for);
	tcase_add_test(tests, flow_labels);
	own_network_enter(tests);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
