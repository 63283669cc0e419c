/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The real link on loopback: what one end sends the other receives, byte for byte, in order and
 * with a valid ICRC, however the kernel batched it; its addresses, and what it knows of sockets and
 * their buffers. How it sends and receives: test_udp_send, test_udp_receive.
 */
#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <pcap/pcap.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "net/log.h"
#include "net/udp/udp.h"
#include "net/udp/udp_link.h"
#include "own_network.h"
#include "tests/run_suite.h"

#define NETWORK "127.77.1"
#include "udp_traffic.h"
#include "wildcard_socket.h"

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
	if (sock_diag_create(&diag) != 0) /* no NETLINK_SOCK_DIAG here: nothing to test */
		return;
	backlog = backlog_create(diag);
	ck_assert_ptr_nonnull(backlog);
	to = node_open(address, &options);
	from = _i ? to : node_open(ADDRESS_A, &options);
	traffic = traffic_new(&from, &to);
	unused = traffic->path;
	unused.destination = gid_of(_i ? "2001:db8:dead::77" : NETWORK ".99");

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

static bool is_root; /* outside of the test's network, where an ordinary user isn't */

/* A socket at @address and any port, as the user @uid; its port is written to @port. */
static int foreign_socket(const char *address, uid_t uid, uint16_t *port)
{
	struct sockaddr_in name = {.sin_family = AF_INET};
	socklen_t length = sizeof(name);
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	inet_pton(AF_INET, address, &name.sin_addr);
	/*
	 * The user of a socket is that of its inode (fchown(2) needs the privilege of a real one).
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

	if (is_root) {
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
	is_root = geteuid() == 0;
	tcase_set_timeout(tests, 60);
	tcase_add_loop_test(tests, exchange_mixture, 0, sizeof(exchanges) / sizeof(exchanges[0]));
	tcase_add_test(tests, several_addresses);
	tcase_add_loop_test(tests, corruption_is_seen, 0, 2);
	tcase_add_test(tests, addresses);
	tcase_add_test(tests, descriptors_become_readable);
	tcase_add_test(tests, space_of_a_sender);
	tcase_add_loop_test(tests, space_of_a_receiver, 0, 2);
	tcase_add_test(tests, senders);
	tcase_add_test(tests, captured);
	own_network_enter(tests);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
