/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The real link on loopback: what one end sends the other receives, byte for
 * byte, in order and with a valid ICRC, however the kernel batched it.
 */
#include <arpa/inet.h>
#include <check.h>
#include <dlfcn.h>
#include <errno.h>
#include <linux/in6.h>
#include <pcap/pcap.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "net/log.h"
#include "net/udp/udp.h"
#include "net/udp/udp_link.h"
#include "tests/run_suite.h"

#define NETWORK "127.77.1"
#include "udp_traffic.h"
#include "wildcard_socket.h"

/* Which options of linux/in6.h are left once netinet/in.h was read depends on the versions. */
#ifndef IPV6_FLOWLABEL_MGR
#define IPV6_FLOWLABEL_MGR 32
#define IPV6_FLOWINFO_SEND 33
#endif

/* --- Tests ------------------------------------------------------------------------- */

/* Runs of one length, with a shorter one behind, alternating, growing, empty. */
static void add_mixture(struct traffic *traffic)
{
	for (unsigned int i = 0; i < 15; i++)
		add_packet(traffic, 4096);
	add_packet(traffic, 1);
	for (unsigned int i = 0; i < 70; i++)
		add_packet(traffic, 8);
	for (unsigned int i = 0; i < 10; i++)
		add_packet(traffic, i % 2 ? 1024 : 1020);
	for (unsigned int i = 0; i < 40; i++)
		add_packet(traffic, i * 3);
	for (unsigned int i = 40; i > 0; i--)
		add_packet(traffic, i * 3);
	for (unsigned int i = 0; i < 5; i++)
		add_packet(traffic, 0);
	add_packet(traffic, 4096);
	for (unsigned int i = 0; i < 20; i++)
		add_packet(traffic, 2048);
	/* Of middling length, with a few among them that aren't. */
	for (unsigned int i = 0; i < 130; i++)
		add_packet(traffic, i % 29 ? 1024 : i % 3 ? 1500 : 99);
}

static const struct {
	bool send_segmentation, receive_segmentation, ipv6;
	uint8_t traffic_class, hop_limit;
	unsigned int max;
} exchanges[] = {
	{true, true, false, 0, 64, 64},	  {true, true, false, 0, 64, 1},
	{true, true, false, 0xb8, 7, 7},  {true, false, false, 0x01, 255, 64},
	{false, true, false, 0, 0, 64},	  {false, false, false, 0xff, 64, 5},
	{true, true, true, 0, 64, 64},	  {true, false, true, 0xb8, 3, 16},
	{false, false, true, 0x02, 0, 3},
};

START_TEST(exchange_mixture)
{
	const struct udp_options from_options = {.segmentation = exchanges[_i].send_segmentation};
	const struct udp_options to_options = {.segmentation = exchanges[_i].receive_segmentation};
	bool ipv6 = exchanges[_i].ipv6;
	struct traffic *traffic;
	struct node from, to;

	if (ipv6 && !have_ipv6())
		return;
	to = node_open(ipv6 ? "::1" : ADDRESS_B, &to_options);
	from = ipv6 ? to : node_open(ADDRESS_A, &from_options);
	traffic = traffic_new(&from, &to);
	traffic->path.traffic_class = exchanges[_i].traffic_class;
	traffic->path.hop_limit = exchanges[_i].hop_limit;
	add_mixture(traffic);
	exchange(&from, &to, traffic, exchanges[_i].max);

	if (!ipv6)
		node_close(&from);
	node_close(&to);
	free(traffic);
}
END_TEST

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

/* One link with several addresses hears them all, and says from where to where. */
START_TEST(several_addresses)
{
	struct udp_options options = {.segmentation = true};
	struct node from = node_open(ADDRESS_A, &options), to = node_open(ADDRESS_B, &options);
	struct node third = {.link = to.link, .gid = gid_of(ADDRESS_C)};
	struct traffic *one = traffic_new(&from, &to), *two = traffic_new(&from, &third);
	const unsigned int count = 300;
	unsigned int seen_one = 0, seen_two = 0, got;
	struct link_frame frames[2];

	ck_assert_int_eq(to.link->ops->add_address(to.link, &third.gid, 0), 0);
	for (unsigned int i = 0; i < count; i++) {
		add_packet(one, 100);
		add_packet(two, 100);
	}
	for (unsigned int i = 0; i < count; i++) {
		send_some(&from, one, i, 1);
		send_some(&from, two, i, 1);
	}
	while ((got = to.link->ops->receive(to.link, frames, 2, 0))) {
		for (unsigned int i = 0; i < got; i++) {
			if (gid_equal(&frames[i].destination, &to.gid))
				expect_frame(one, seen_one++, &frames[i]);
			else
				expect_frame(two, seen_two++, &frames[i]);
		}
		/* Neither starves while the other has packets. */
		ck_assert_int_le(abs((int)seen_one - (int)seen_two), 70);
	}
	ck_assert_uint_eq(seen_one, count);
	ck_assert_uint_eq(seen_two, count);

	/* And back, from an address that isn't the link's first. */
	free(one);
	one = traffic_new(&third, &from);
	add_mixture(one);
	exchange(&third, &from, one, 64);
	node_close(&from);
	node_close(&to);
	free(one);
	free(two);
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

START_TEST(corruption_is_seen)
{
	struct udp_options options = {.segmentation = _i};
	struct node from = node_open(ADDRESS_A, &options), to = node_open(ADDRESS_B, &options);
	struct traffic *traffic = traffic_new(&from, &to);
	struct link_frame frames[1];

	for (unsigned int i = 0; i < 10; i++)
		add_packet(traffic, 64);
	traffic->packets[4].corrupt_bit = 1 + 8 * 10;
	send_some(&from, traffic, 0, 10);
	for (unsigned int i = 0; i < 10; i++) {
		ck_assert_uint_eq(receive_patiently(&to, frames, 1), 1);
		ck_assert_int_eq(icrc_check(&frames[0]), i != 4);
	}
	node_close(&from);
	node_close(&to);
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

/* What can't be sent vanishes, and what comes behind it doesn't. */
START_TEST(refused_packets)
{
	struct udp_options options = {.segmentation = _i};
	struct node from = node_open(ADDRESS_A, &options), to = node_open(ADDRESS_B, &options);
	struct traffic *traffic = traffic_new(&from, &to);
	struct path foreign = {.source = to.gid, .destination = to.gid, .hop_limit = 64};
	struct path unused = {
		.source = from.gid, .destination = gid_of("127.77.1.99"), .hop_limit = 64};
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

/* libc's, by which net/syscalls.h calls the kernel. */
long syscall(long number, ...)
{
	long (*real)(long, ...) = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
	long arguments[6];
	va_list list;

	va_start(list, number);
	for (unsigned int i = 0; i < 6; i++)
		arguments[i] = va_arg(list, long);
	va_end(list);
	if (number == SYS_sendmsg && refusals && ((struct msghdr *)arguments[1])->msg_controllen) {
		refusals--;
		errno = EINVAL;
		return -1;
	}
	return real(number, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4],
		    arguments[5]);
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

START_TEST(addresses)
{
	struct udp_options options = {.segmentation = true};
	struct node node = node_open(ADDRESS_A, &options);
	struct sockaddr_storage address;
	union ibv_gid taken = gid_of(ADDRESS_B), foreign = gid_of("203.0.113.77");
	socklen_t length = gid_to_sockaddr(&taken, ROCE_V2_UDP_PORT, &address);
	int fds[4], squatter = socket(AF_INET, SOCK_DGRAM, 0);

	ck_assert_int_eq(bind(squatter, (struct sockaddr *)&address, length), 0);

	ck_assert_int_eq(node.link->ops->add_address(node.link, &node.gid, 0), 0);
	ck_assert_int_eq(node.link->ops->add_address(node.link, &taken, 0), EADDRINUSE);
	ck_assert_int_eq(node.link->ops->add_address(node.link, &foreign, 0), EADDRNOTAVAIL);
	ck_assert_uint_eq(node.link->ops->descriptors(node.link, fds, 0), 0);
	ck_assert_uint_eq(node.link->ops->descriptors(node.link, fds, 1), 1);
	close(squatter);
	/* Failures left nothing behind, and a closed link gives its address back. */
	ck_assert_int_eq(node.link->ops->add_address(node.link, &taken, 0), 0);
	ck_assert(node.link->ops->deadline(node.link) == TIME_NEVER);
	node_close(&node);
}
END_TEST

static bool readable(struct node *node)
{
	struct pollfd polled[8];
	int fds[8];
	unsigned int count = node->link->ops->descriptors(node->link, fds, 8);

	ck_assert_uint_gt(count, 0);
	for (unsigned int i = 0; i < count; i++)
		polled[i] = (struct pollfd){.fd = fds[i], .events = POLLIN};
	return poll(polled, count, 0) > 0;
}

/* With one address and with several. */
START_TEST(descriptors_become_readable)
{
	struct udp_options options = {.segmentation = true};
	struct node from = node_open(ADDRESS_A, &options), to = node_open(ADDRESS_B, &options);
	struct traffic *traffic = traffic_new(&from, &to);
	union ibv_gid third = gid_of(ADDRESS_C);

	add_packet(traffic, 8);
	for (unsigned int i = 0; i < 2; i++) {
		ck_assert(!readable(&to));
		send_some(&from, traffic, 0, 1);
		ck_assert(readable(&to));
		expect(&to, traffic, 0, 1, 64);
		ck_assert(!readable(&to));
		if (i == 0)
			ck_assert_int_eq(to.link->ops->add_address(to.link, &third, 0), 0);
	}
	node_close(&from);
	node_close(&to);
	free(traffic);
}
END_TEST

/* What waits in the send buffer takes its space: a corked datagram, as one that a queue keeps. */
START_TEST(space_of_a_sender)
{
	struct udp_options options = {.segmentation = true};
	struct node from = node_open(ADDRESS_A, &options);
	struct udp_address *address = udp_address_find((struct udp_link *)from.link, &from.gid);
	uint32_t before = from.link->ops->sndbuf_space(from.link, &from.gid);
	struct sockaddr_storage name;
	union ibv_gid other = gid_of(ADDRESS_B);
	socklen_t length = gid_to_sockaddr(&other, ROCE_V2_UDP_PORT, &name);

	ck_assert_int_eq(
		sendto(address->send_fd, memory, 20000, MSG_MORE, (struct sockaddr *)&name, length),
		20000);
	ck_assert_uint_le(from.link->ops->sndbuf_space(from.link, &from.gid),
			  before - 20000 / BACKLOG_CHARGE);
	node_close(&from);
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

static uint32_t space(struct node *node, const struct path *path)
{
	return node->link->ops->rcvbuf_space(node->link, path, 0x11);
}

/*
 * The space shrinks with what waits, down to nothing, and comes back; and a
 * sender that stays within it loses nothing.
 */
START_TEST(space_of_a_receiver)
{
	const char *address = _i ? "::1" : ADDRESS_B;
	struct udp_options options = {.segmentation = true, .receive_buffer = 100000};
	struct sock_diag *diag;
	struct backlog *backlog;
	struct traffic *traffic;
	struct link_frame frames[64];
	struct node from, to;
	const struct backlog_socket socket = {&to.gid};
	struct path unused;
	uint32_t before, last, unread;
	uint64_t read_before, read;
	unsigned int sent = 0, seen = 0, got;

	if (_i && !have_ipv6())
		return;
	diag = sock_diag_create();
	if (!diag) /* no NETLINK_SOCK_DIAG here: nothing to test */
		return;
	backlog = backlog_create(diag);
	ck_assert_ptr_nonnull(backlog);
	to = node_open(address, &options);
	from = _i ? to : node_open(ADDRESS_A, &options);
	traffic = traffic_new(&from, &to);
	unused = traffic->path;
	unused.destination = gid_of(_i ? "2001:db8:dead::77" : "127.77.1.99");

	/* At an address without a receiver our own send buffer is all that is known. */
	ck_assert_uint_eq(space(&from, &unused), UINT32_MAX);
	ck_assert_uint_eq(
		backlog_rcvbuf_space(backlog, &(struct backlog_socket){&unused.destination}),
		BACKLOG_UNKNOWN);
	if (!_i) { /* nor with one that isn't urxe's */
		int wildcard = wildcard_socket();

		ck_assert_uint_eq(space(&from, &unused), UINT32_MAX);
		close(wildcard);
	}
	ck_assert_uint_gt(from.link->ops->sndbuf_space(from.link, &from.gid), 10000);
	ck_assert_uint_lt(from.link->ops->sndbuf_space(from.link, &from.gid), UINT32_MAX);
	ck_assert_uint_eq(from.link->ops->sndbuf_space(from.link, &unused.destination), UINT32_MAX);

	before = last = backlog_rcvbuf_space(backlog, &socket);
	if (before == BACKLOG_UNKNOWN) { /* a kernel without UDP_DIAG: nothing to test */
		backlog_destroy(backlog);
		sock_diag_destroy(diag);
		node_close(&to);
		if (!_i)
			node_close(&from);
		free(traffic);
		return;
	}
	ck_assert_uint_eq(space(&from, &traffic->path), before);
	ck_assert_uint_gt(before, 10000);
	add_packet(traffic, 4096);
	while (last >= link_packet_length(&traffic->packets[0])) {
		uint32_t now;

		send_some(&from, traffic, 0, 1);
		sent++;
		now = space(&from, &traffic->path);
		ck_assert_uint_lt(now, last);
		last = now;
	}
	ck_assert_uint_gt(sent, 5);
	unread = backlog_unread(backlog, &socket, &read_before);
	ck_assert_uint_gt(unread, 0);
	while ((got = to.link->ops->receive(to.link, frames, 64, 0)))
		seen += got;
	ck_assert_uint_eq(seen, sent);
	ck_assert_uint_eq(space(&from, &traffic->path), before);
	ck_assert_uint_lt(backlog_unread(backlog, &socket, &read), unread);
	ck_assert_uint_gt(read, read_before);
	backlog_destroy(backlog);
	sock_diag_destroy(diag);
	node_close(&to);
	if (!_i)
		node_close(&from);
	free(traffic);
}
END_TEST

/* --- whose packets they are ------------------------------------------------------ */

/* A socket at @address and any port, as the user @uid; its port is written to @port. */
static int foreign_socket(const char *address, uid_t uid, uint16_t *port)
{
	struct sockaddr_in name = {.sin_family = AF_INET};
	socklen_t length = sizeof(name);
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	inet_pton(AF_INET, address, &name.sin_addr);
	/* The user of a socket is that of its inode (fchown(2) needs the privilege of a real one).
	 */
	if (fd < 0 || fchown(fd, uid, -1) || bind(fd, (struct sockaddr *)&name, sizeof(name)) ||
	    getsockname(fd, (struct sockaddr *)&name, &length))
		return -1;
	*port = ntohs(name.sin_port);
	return fd;
}

START_TEST(senders)
{
	struct udp_options options = {.segmentation = true};
	struct node from = node_open(ADDRESS_A, &options), to = node_open(ADDRESS_B, &options);
	struct traffic *traffic = traffic_new(&from, &to);
	struct link_frame frame;
	enum link_sender sender;
	int fd, wildcard;

	add_packet(traffic, 100);
	send_some(&from, traffic, 0, 1);
	ck_assert_uint_eq(receive_patiently(&to, &frame, 1), 1);
	sender = to.link->ops->sender(to.link, &frame);
	if (sender == LINK_SENDER_UNKNOWN && !((struct udp_link *)to.link)->diag)
		return; /* no NETLINK_SOCK_DIAG here: nothing to test */
	ck_assert_int_eq(sender, LINK_SENDER_NODE);

	fd = foreign_socket(ADDRESS_A, geteuid(), &frame.source_port);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(to.link->ops->sender(to.link, &frame), LINK_SENDER_NODE);
	close(fd);
	ck_assert_int_eq(to.link->ops->sender(to.link, &frame), LINK_SENDER_GONE);

	if (geteuid() == 0) {
		fd = foreign_socket(ADDRESS_A, 65534, &frame.source_port);
		ck_assert_int_ge(fd, 0);
		ck_assert_int_eq(to.link->ops->sender(to.link, &frame), LINK_SENDER_FOREIGN);
		close(fd);
		/* One without an address may send as any. */
		fd = foreign_socket("0.0.0.0", 65534, &frame.source_port);
		ck_assert_int_ge(fd, 0);
		ck_assert_int_eq(to.link->ops->sender(to.link, &frame), LINK_SENDER_FOREIGN);
		close(fd);
	}
	frame.source = gid_of(ADDRESS_C); /* where no node is */
	ck_assert_int_eq(to.link->ops->sender(to.link, &frame), LINK_SENDER_UNKNOWN);
	wildcard = wildcard_socket(); /* nor is that one there */
	fd = foreign_socket(ADDRESS_C, geteuid(), &frame.source_port);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(to.link->ops->sender(to.link, &frame), LINK_SENDER_UNKNOWN);
	close(fd);
	close(wildcard);
	frame.source = gid_of("192.0.2.1");
	ck_assert_int_eq(to.link->ops->sender(to.link, &frame), LINK_SENDER_UNKNOWN);
	node_close(&from);
	node_close(&to);
	free(traffic);
}
END_TEST

/* Each packet is in the capture twice, sent and received, one record a segment. */
START_TEST(captured)
{
	char name[] = "/tmp/urxe-udp-XXXXXX", error[PCAP_ERRBUF_SIZE];
	int fd = mkstemp(name);
	struct capture *capture = capture_open(name);
	struct udp_options options = {.segmentation = true, .capture = capture};
	struct node from = node_open(ADDRESS_A, &options), to = node_open(ADDRESS_B, &options);
	struct traffic *traffic = traffic_new(&from, &to);
	struct pcap_pkthdr *header;
	const uint8_t *bytes;
	struct stat before, status;
	uint8_t sent[10][256];
	pcap_t *pcap;

	ck_assert_int_ge(fd, 0);
	ck_assert_ptr_nonnull(capture);
	for (unsigned int i = 0; i < 10; i++)
		add_packet(traffic, 101);
	send_some(&from, traffic, 0, 10);
	expect(&to, traffic, 0, 10, 64);
	/* And one that wasn't sent, which is in the file at once. */
	ck_assert_int_eq(fstat(fd, &before), 0);
	from.link->ops->capture(from.link, &traffic->packets[0]);
	ck_assert_int_eq(fstat(fd, &status), 0);
	ck_assert_int_eq(status.st_size - before.st_size, 16 + 14 + 28 + 12 + 101 + 3 + 4);
	node_close(&from);
	node_close(&to);
	capture_close(capture);

	pcap = pcap_open_offline(name, error);
	ck_assert_msg(pcap != NULL, "%s", error);
	for (unsigned int i = 0; i < 20; i++) {
		ck_assert_int_eq(pcap_next_ex(pcap, &header, &bytes), 1);
		ck_assert_uint_eq(header->caplen, 14 + 28 + 12 + 101 + 3 + 4);
		ck_assert_uint_eq(bytes[18] << 8 | bytes[19], i % 10);
		if (i < 10)
			memcpy(sent[i], bytes, header->caplen);
		else
			ck_assert_mem_eq(bytes + 12, sent[i - 10] + 12, header->caplen - 12);
		/* Which end it is of is in the source's Ethernet address. */
		ck_assert_uint_eq(bytes[7], i < 10 ? 0 : 1);
		ck_assert_uint_eq(bytes[1], i < 10 ? 1 : 0);
	}
	ck_assert_int_eq(pcap_next_ex(pcap, &header, &bytes), 1);
	ck_assert_mem_eq(bytes, sent[0], header->caplen);
	ck_assert_int_ne(pcap_next_ex(pcap, &header, &bytes), 1);
	pcap_close(pcap);
	close(fd);
	unlink(name);
	free(traffic);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("udp");
	TCase *tests = tcase_create("udp");

	fill_memory();
	log_set_level(LOG_INFO);
	tcase_set_timeout(tests, 60);
	tcase_add_loop_test(tests, exchange_mixture, 0, sizeof(exchanges) / sizeof(exchanges[0]));
	tcase_add_loop_test(tests, identifications, 0, 4);
	tcase_add_loop_test(tests, frames_stay_valid, 0, 2);
	tcase_add_test(tests, long_and_short_datagrams);
	tcase_add_test(tests, more_than_there_is_space_for);
	tcase_add_test(tests, several_addresses);
	tcase_add_loop_test(tests, paths_are_not_mixed, 0, 2);
	tcase_add_loop_test(tests, corruption_is_seen, 0, 2);
	tcase_add_loop_test(tests, memory_that_changes, 0, 2);
	tcase_add_loop_test(tests, refused_packets, 0, 2);
	tcase_add_test(tests, segmentation_refused);
	tcase_add_test(tests, no_way_for_a_moment);
	tcase_add_test(tests, addresses);
	tcase_add_test(tests, descriptors_become_readable);
	tcase_add_test(tests, space_of_a_sender);
	tcase_add_test(tests, what_a_grh_shows_when_asked_for);
	tcase_add_test(tests, flow_labels);
	tcase_add_loop_test(tests, space_of_a_receiver, 0, 2);
	tcase_add_test(tests, senders);
	tcase_add_test(tests, captured);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
