/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connected sockets to destinations on this machine (net/udp/udp_connection.h), and super-packets
 * that are spliced (net/udp/udp_splice.h): what the kernel numbers them, and that all arrive as
 * they were, however late the receiver reads them.
 */
#include <errno.h>
#include <linux/net_tstamp.h>
#include <netinet/ip.h>
#include <netinet/ip_icmp.h>
#include <netinet/udp.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "net/log.h"
#include "net/spin.h"
#include "net/tuning.h"
#include "own_network.h"
#include "tests/cancelled.h"
#include "tests/run_suite.h"
#include "tests/said.h"
#include "tests/verbs/namespace.h"

#define NETWORK "127.77.3"
#include "udp_traffic.h"
#include "wildcard_socket.h"

#define TRAIN 15 /* packets of 4 KiB that one super-packet has */
#define TRAIN_BYTES (TRAIN * (sizeof(struct bth) + 4096 + ICRC_LENGTH))

static struct node from, to;
static struct traffic *traffic;
static const struct udp_options options = {.segmentation = true};

static struct udp_address *from_address(void)
{
	return udp_address_find((struct udp_link *)from.link, &from.gid);
}

static void set_up(void)
{
	from = node_open(ADDRESS_A, &options);
	to = node_open(ADDRESS_B, &options);
	traffic = traffic_new(&from, &to);
	traffic->path.traffic_class = UDP_TRAFFIC_CLASS;
	traffic->dest_qp = qpn_of(&to);
}

static void tear_down(void)
{
	node_close(&from);
	node_close(&to);
	free(traffic);
}

/*
 * Send enough, one packet a call. NULL: the kernel lacks what it takes, and nothing is to be
 * tested.
 */
static struct udp_connection *connect_both(void)
{
	struct udp_address *address = from_address();

	add_packet(traffic, 8);
	send_until_connected(&from, &to, traffic);
	traffic->count = 0;
	ck_assert_uint_eq(address->connection_count, 1);
	if (((struct udp_link *)from.link)->diag)
		ck_assert_int_eq(address->connections[0]->state, UDP_CONNECTED);
	return address->connections[0]->state == UDP_CONNECTED ? address->connections[0] : NULL;
}

/* A datagram: one packet, or a super-packet. */
struct kind {
	uint32_t length; /* of a packet's payload */
	unsigned int count;
};

static void add_kind(const struct kind *kind)
{
	for (unsigned int i = 0; i < kind->count; i++)
		add_packet(traffic, kind->length);
}

static void add_train(void)
{
	add_kind(&(struct kind){4096, TRAIN});
}

/* --- segmentation --------------------------------------------------------------------- */

static const struct kind copied[] = {{100, 20}, {4096, 1}, {200, 10}, {8, 2}, {8, 1}};
#define COPIED (sizeof(copied) / sizeof(copied[0]))

static void exchange_all(void)
{
	exchange(&from, &to, traffic, 64);
	traffic->count = 0;
}

static uint16_t segment_of(const struct kind *kind)
{
	return kind->count > 1 ? sizeof(struct bth) + kind->length + ICRC_LENGTH : 0;
}

/* What comes often is the socket's option, and all else arrives as it was, alone and in a batch. */
START_TEST(segmented_as_the_latest_were)
{
	struct udp_connection *connection = connect_both();

	for (unsigned int i = 0; i < COPIED; i++) {
		uint16_t segment = segment_of(&copied[i]);

		for (int times = 0; times < UDP_SEGMENT_AFTER; times++) {
			add_kind(&copied[i]);
			exchange_all();
		}
		if (connection)
			ck_assert_uint_eq(connection->segment.length, segment);
		for (unsigned int other = 0; other < COPIED; other++) {
			add_kind(&copied[other]);
			exchange_all();
		}
		for (unsigned int other = 0; other < COPIED; other++)
			add_kind(&copied[other]);
		exchange_all();
		if (connection)
			ck_assert_uint_eq(connection->segment.length, segment);
	}
}
END_TEST

/* --- identifications ----------------------------------------------------------------- */

static void have_sent_told(int fd, int flags)
{
	int size = 1 << 20; /* for what comes back, whole */

	ck_assert_int_eq(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size)), 0);
	ck_assert_int_eq(setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPING, &flags, sizeof(flags)), 0);
}

/* What the kernel numbered the last datagram that was sent through @fd. */
static uint16_t told_id(int fd)
{
	uint8_t sent[14 + sizeof(struct iphdr)];
	struct iovec vector = {sent, sizeof(sent)};
	struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1};

	ck_assert_int_eq(recvmsg(fd, &message, MSG_ERRQUEUE | MSG_DONTWAIT), sizeof(sent));
	return sent[18] << 8 | sent[19];
}

/* In all of them there is what the kernel numbered the first, and the next ones. */
static void expect_numbered(uint16_t id)
{
	struct link_frame frames[64];
	unsigned int seen = 0, got;

	while ((got = to.link->ops->receive(to.link, frames, 64, 0))) {
		for (unsigned int i = 0; i < got; i++, seen++) {
			expect_frame(traffic, seen, &frames[i]);
			ck_assert_uint_eq(frames[i].ip_id, (uint16_t)(id + seen));
		}
	}
	ck_assert_uint_eq(seen, traffic->count);
}

/* The packets of the last super-packet are shorter than the single one behind it. */
static const struct kind kinds[] = {{8, 1},    {100, 20},  {4096, TRAIN},
				    {4096, 1}, {2048, 24}, {4096, 1}};

START_TEST(numbered_as_the_kernel_does)
{
	struct udp_connection *connection = connect_both();

	for (unsigned int i = 0; connection && i < 2 * sizeof(kinds) / sizeof(kinds[0]); i++) {
		uint16_t expected = connection->next_id;

		add_kind(&kinds[i % (sizeof(kinds) / sizeof(kinds[0]))]);
		have_sent_told(connection->fd,
			       SOF_TIMESTAMPING_TX_SCHED | SOF_TIMESTAMPING_SOFTWARE);
		ck_assert_uint_eq(send_some(&from, traffic, 0, traffic->count), 0);
		have_sent_told(connection->fd, 0);
		ck_assert_uint_eq(told_id(connection->fd), expected);
		expect_numbered(expected);
		traffic->count = 0;
		if (i % 3 == 2) { /* as after a datagram that the kernel may have numbered */
			connection->next_id += 100;
			udp_connection_renumber(connection);
			ck_assert_uint_eq(connection->next_id, (uint16_t)(expected + 2));
		}
	}
}
END_TEST

/* Packets of one call: those to the other destination leave through another socket. */
START_TEST(destinations_are_not_mixed)
{
	struct node other = node_open(ADDRESS_C, &options);
	struct path path = {.source = from.gid, .destination = other.gid, .hop_limit = 64};
	struct udp_connection *connection = connect_both();
	uint16_t next_id = connection ? connection->next_id : 0;
	const uint32_t qpns[] = {qpn_of(&to), qpn_of(&other)};

	path.traffic_class = traffic->path.traffic_class;
	for (int i = 0; i < 6; i++) {
		bool elsewhere = i / 3 == _i;

		traffic->dest_qp = qpns[elsewhere];
		add_packet(traffic, 8 + 4 * i);
		if (elsewhere)
			traffic->packets[i].path = &path;
	}
	ck_assert_uint_eq(send_some(&from, traffic, 0, 6), 0);
	expect(&to, traffic, 3 * !_i, 3, 64);
	expect(&other, traffic, 3 * _i, 3, 64);
	if (connection) { /* the kernel has numbered three, and one that is to show the number */
		udp_connection_renumber(connection);
		ck_assert_uint_eq(connection->next_id, (uint16_t)(next_id + 4));
	}
	node_close(&other);
}
END_TEST

/* Where the peer isn't, though its address is this machine's there, too. */
START_TEST(another_network_namespace)
{
	struct udp_address *address = from_address();

	if (!namespace_enter())
		return;
	ip("link set lo up");
	add_packet(traffic, 8);
	send_until_connected(&from, &to, traffic);
	ck_assert_int_eq(address->connections[0]->state, UDP_REFUSED);
	send_some(&from, traffic, 0, 1);
	expect(&to, traffic, 0, 1, 64);
}
END_TEST

/* A socket everywhere, as Linux rxe's, doesn't say that a destination is here. */
START_TEST(a_socket_everywhere)
{
	int fd = wildcard_socket();

	traffic->path.destination = gid_of(ADDRESS_C);
	add_packet(traffic, 8);
	for (int i = 0; i < 2 * UDP_CONNECT_AFTER; i++)
		send_some(&from, traffic, 0, 1);
	ck_assert_int_eq(from_address()->connections[0]->state, UDP_REFUSED);
	close(fd);
}
END_TEST

/* What has left isn't sent again for the error of an earlier call. */
START_TEST(sent_once)
{
	connect_both();
	for (unsigned int i = 0; i < 2; i++) {
		add_packet(traffic, 100 + i);
		errno = ECONNREFUSED;
		ck_assert_uint_eq(send_some(&from, traffic, i, 1), 0);
	}
	expect(&to, traffic, 0, 2, 64);
}
END_TEST

/* What the network says of one datagram isn't the next one's. */
START_TEST(nobody_receives)
{
	struct udp_connection *connection = connect_both();

	add_train();
	add_packet(traffic, 8);
	for (int round = 0; connection && round < 3; round++) {
		node_close(&to);
		for (int i = 0; i < 5; i++) {
			ck_assert_uint_eq(send_some(&from, traffic, 0, traffic->count), 0);
			ck_assert_uint_eq(send_some(&from, traffic, TRAIN, 1), 0);
		}
		to = node_open(ADDRESS_B, &options);
		send_some(&from, traffic, 0, traffic->count);
		expect(&to, traffic, 0, traffic->count, 64);
		ck_assert_int_eq(connection->state, UDP_CONNECTED);
	}
}
END_TEST

/* As a firewall on the way answers what @from has sent to @to. */
static void refuse_latest(void)
{
	struct {
		struct icmphdr icmp;
		struct iphdr ip;
		struct udphdr udp;
	} refusal = {
		.icmp = {.type = ICMP_DEST_UNREACH, .code = ICMP_PKT_FILTERED},
		.ip = {.version = 4, .ihl = 5, .ttl = 64, .protocol = IPPROTO_UDP},
		.udp = {.uh_sport = htons(from_address()->source_port),
			.uh_dport = htons(ROCE_V2_UDP_PORT)},
	};
	const uint16_t *words = (const uint16_t *)&refusal;
	int fd = socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_ICMP);
	struct sockaddr_storage name;
	socklen_t length = gid_to_sockaddr(&from.gid, 0, &name);
	uint32_t sum = 0;

	memcpy(&refusal.ip.saddr, from.gid.raw + 12, 4);
	memcpy(&refusal.ip.daddr, to.gid.raw + 12, 4);
	for (unsigned int i = 0; i < sizeof(refusal) / 2; i++)
		sum += words[i];
	sum = (sum & 0xffff) + (sum >> 16);
	refusal.icmp.checksum = ~(sum + (sum >> 16));
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(sendto(fd, &refusal, sizeof(refusal), 0, (struct sockaddr *)&name, length),
			 sizeof(refusal));
	close(fd);
}

/* What a firewall has said of the latest, as those are told that ask about @to. */
static void expect_refusal(void)
{
	struct link_peer peer;

	from.link->ops->describe_peer(from.link, &traffic->path, traffic->dest_qp, &peer);
	ck_assert_int_eq(peer.refused, EHOSTUNREACH);
	((struct udp_link *)from.link)->refusal.error = 0;
}

/* For raw sockets, and to take addresses away. Returns false where that isn't allowed. */
static bool begin_in_own_namespace(void)
{
	if (!namespace_enter())
		return false;
	ip("link set lo up");
	tear_down();
	set_up();
	return true;
}

/* Nor is what a firewall says. */
START_TEST(a_firewall_refuses)
{
	struct udp_connection *connection;

	if (!begin_in_own_namespace())
		return;
	connection = connect_both();
	add_train();
	add_packet(traffic, 8);
	for (int round = 0; connection && round < 3; round++) {
		refuse_latest();
		ck_assert_uint_eq(send_some(&from, traffic, 0, traffic->count), 0);
		expect(&to, traffic, 0, traffic->count, 64);
		expect_refusal();
		refuse_latest();
		ck_assert_uint_eq(send_some(&from, traffic, TRAIN, 1), 0);
		expect(&to, traffic, TRAIN, 1, 64);
		expect_refusal();
		ck_assert_int_eq(connection->state, UDP_CONNECTED);
	}
}
END_TEST

/* The kernel says why of each datagram of a batch, though the connection ends with the first. */
START_TEST(no_way_is_left)
{
	static struct said said;
	struct udp_connection *connection;

	if (!begin_in_own_namespace())
		return;
	connection = connect_both();
	for (unsigned int i = 0; i < COPIED; i++)
		add_kind(&copied[i]);
	ip("address delete 127.0.0.1/8 dev lo");
	said_begin(&said);
	ck_assert_uint_eq(send_some(&from, traffic, 0, traffic->count), traffic->count);
	said_end(&said);
	ck_assert_uint_eq(said_count(&said, CAUSE_SEND_REFUSED), 1);
	ck_assert_ptr_nonnull(strstr(said.text, strerror(ENETUNREACH)));
	if (connection)
		ck_assert_int_eq(connection->state, UDP_REFUSED);
	ip("address add 127.0.0.1/8 dev lo");
	send_some(&from, traffic, 0, traffic->count);
	expect(&to, traffic, 0, traffic->count, 64);
}
END_TEST

/* --- splicing -------------------------------------------------------------------------- */

/* Each byte of a packet's payload follows from its PSN. */
static void stamp(uint32_t psn)
{
	for (int i = 0; i < TRAIN; i++) {
		struct link_packet *packet = &traffic->packets[i];

		((struct bth *)packet->headers)->psn = htobe32((psn + i) & PSN_MASK);
	}
	/* Packet i of a train begins at offset i * 7; they overlap, so all of one have one byte. */
	memset(memory, psn / TRAIN % 251, sizeof(memory));
}

static void send_train(uint32_t number)
{
	stamp(number * TRAIN);
	send_some(&from, traffic, 0, TRAIN);
}

/* All that is there is intact and in order. Returns how many packets were. */
static unsigned int receive_stamped(uint32_t *next)
{
	static uint8_t expected[4096];
	struct link_frame frames[64];
	unsigned int seen = 0, got;

	while ((got = to.link->ops->receive(to.link, frames, 64, 0))) {
		for (unsigned int i = 0; i < got; i++, seen++) {
			const struct bth *bth = (const struct bth *)frames[i].data;
			uint32_t psn = be32toh(bth->psn) & PSN_MASK;

			ck_assert(icrc_check(&frames[i]));
			ck_assert_uint_ge(psn, *next);
			memset(expected, psn / TRAIN % 251, sizeof(expected));
			ck_assert_mem_eq(frames[i].data + sizeof(*bth), expected, sizeof(expected));
			*next = psn + 1;
		}
	}
	return seen;
}

/* Since Linux 6.5 it must, where sockets are connected and pages have the size that is spliced. */
static bool splices(const struct udp_connection *connection)
{
	unsigned int major, minor;
	struct utsname name;
	bool can;

	ck_assert_int_eq(uname(&name), 0);
	ck_assert_int_eq(sscanf(name.release, "%u.%u", &major, &minor), 2);
	can = connection && sysconf(_SC_PAGESIZE) == 4096 &&
	      (major > 6 || (major == 6 && minor >= 5));
	if (can)
		ck_assert(connection->splice.blocks && !connection->splice.refused);
	return can;
}

/*
 * When the receiver reads all that is there: after each so many trains, beginning with the first.
 */
static const struct {
	unsigned int every, first;
	bool nontemporal; /* how they are written (net/stores.h) */
} reads[] = {
	{1, 0, false},
	{1, 0, true},
	{3, 2, false},
	{3, 2, true},
	{10, 9, false},
	/* It has more than the blocks when that is looked at, and goes on having it. */
	{75, 46, false},
	{1000, 999, true},
};

START_TEST(pages_are_read_before_they_are_written)
{
	const unsigned int trains = 20 * UDP_SPLICE_BLOCKS;
	struct udp_connection *connection = connect_both();
	unsigned int received = 0, spliced = 0;
	uint32_t next = 0;

	add_train();
	for (unsigned int i = 0; connection && i < trains; i++) {
		uint32_t before = connection->splice.next;

		connection->splice.stores.special = reads[_i].nontemporal;
		send_train(i);
		spliced += connection->splice.next - before;
		if (i % reads[_i].every == reads[_i].first)
			received += receive_stamped(&next);
	}
	received += receive_stamped(&next);
	if (!splices(connection))
		return;
	if (reads[_i].every == 1) { /* else the buffer is too small where there is no privilege */
		ck_assert_uint_eq(received, trains * TRAIN);
		ck_assert_uint_eq(spliced, trains);
	}
	ck_assert_uint_gt(received, 0);
	ck_assert_uint_gt(spliced, 0);
}
END_TEST

/* Trains of at least @bytes together, from number *@train on. Returns how many were spliced. */
static uint32_t stream(struct udp_connection *connection, uint32_t bytes, uint32_t *train)
{
	uint32_t before = connection->splice.next, next = *train * TRAIN;

	for (uint32_t sent = 0; sent < bytes; sent += TRAIN_BYTES) {
		send_train((*train)++);
		receive_stamped(&next);
	}
	return connection->splice.next - before;
}

START_TEST(splices_where_it_pays)
{
	struct udp_connection *connection = connect_both();
	uint32_t train = 0;

	if (!connection)
		return;
	add_train();
	stream(connection, TRAIN_BYTES, &train);
	if (!splices(connection))
		return;
	choose_splicing(&connection->splice, false);
	ck_assert_uint_eq(stream(connection, 2 * UDP_SPLICE_SPAN, &train), 0);
	/* A trial, whose spans end with the first train beyond them. */
	connection->splice.pays.moved = UDP_SPLICE_ROUND;
	connection->splice.span_bytes = 0;
	ck_assert_uint_gt(stream(connection, 2 * UDP_SPLICE_SPAN + UDP_SPLICE_TRIAL, &train),
			  UDP_SPLICE_TRIAL / TRAIN_BYTES);
	ck_assert_uint_lt(connection->splice.pays.moved, UDP_SPLICE_ROUND);
}
END_TEST

/* What the network says of an earlier datagram takes nothing from a super-packet. */
START_TEST(spliced_behind_one_that_nobody_received)
{
	struct udp_connection *connection = connect_both();

	add_packet(traffic, 8);
	node_close(&to);
	send_some(&from, traffic, 0, 1);
	to = node_open(ADDRESS_B, &options);
	traffic->dest_qp = qpn_of(&to);
	traffic->count = 0;
	add_train();
	send_some(&from, traffic, 0, TRAIN);
	expect(&to, traffic, 0, TRAIN, 64);
	splices(connection);
}
END_TEST

/* What the kernel has taken into the pipe alone isn't sent with what comes next. */
START_TEST(nothing_stays_in_the_pipe)
{
	struct udp_connection *connection = connect_both();

	add_train();
	send_some(&from, traffic, 0, TRAIN);
	expect(&to, traffic, 0, TRAIN, 64);
	if (!splices(connection))
		return;
	ck_assert_int_eq(shutdown(connection->fd, SHUT_WR), 0);
	ck_assert_uint_eq(send_some(&from, traffic, 0, TRAIN), TRAIN);
	ck_assert(connection->splice.refused);
	ck_assert_int_eq(connection->splice.pipe, -1);
	send_some(&from, traffic, 0, TRAIN);
	expect(&to, traffic, 0, TRAIN, 64);
}
END_TEST

/* What the socket's own settings aren't those of goes with its own, and so by copying. */
START_TEST(other_settings_are_kept)
{
	struct udp_connection *connection = connect_both();
	uint32_t spliced;

	add_train();
	send_some(&from, traffic, 0, TRAIN);
	expect(&to, traffic, 0, TRAIN, 64);
	if (!splices(connection))
		return;
	spliced = connection->splice.next;
	ck_assert_uint_gt(spliced, 0);
	traffic->path.traffic_class = 0x28;
	send_some(&from, traffic, 0, TRAIN);
	expect(&to, traffic, 0, TRAIN, 64);
	traffic->path.traffic_class = UDP_TRAFFIC_CLASS;
	traffic->path.hop_limit = 9;
	send_some(&from, traffic, 0, TRAIN);
	expect(&to, traffic, 0, TRAIN, 64);
	ck_assert_uint_eq(connection->splice.next, spliced);
}
END_TEST

/* A corked datagram is charged to the sender as one that a queueing discipline keeps. */
static void put_in_queue(const struct udp_connection *connection)
{
	ck_assert_int_eq(send(connection->fd, memory, 1, MSG_MORE), 1);
}

static bool has_place(struct udp_connection *connection)
{
	uint8_t *place;

	spin_lock(&connection->lock);
	place = udp_splice_place((struct udp_link *)from.link, from_address(), connection,
				 TRAIN_BYTES, traffic->dest_qp);
	pthread_spin_unlock(&connection->lock);
	return place;
}

/* Blocks aren't written again where the kernel may keep them on the way to the receiver. */
START_TEST(no_page_is_written_while_a_queue_has_it)
{
	struct udp_connection *connection = connect_both();
	uint32_t next = 0;

	add_train();
	for (unsigned int i = 0; connection && i < UDP_SPLICE_BLOCKS; i++) {
		send_train(i);
		ck_assert_uint_eq(receive_stamped(&next), TRAIN);
	}
	if (!splices(connection))
		return;
	put_in_queue(connection);
	ck_assert(!has_place(connection));
	ck_assert(connection->splice.refused);
}
END_TEST

static void send_traffic(void *argument)
{
	must(from.link->ops->send(from.link, traffic->packets, traffic->count, 0) == 0);
}

static void send_many(void *argument)
{
	for (int i = 0; i < UDP_CONNECT_AFTER; i++)
		send_traffic(argument);
}

/* Connecting, and opening the pipe, by a thread that posts. */
START_TEST(opens_without_being_cancelled)
{
	add_packet(traffic, 8);
	ck_assert(returns_cancelled(send_many, NULL));
	splice_from(&from);
	traffic->count = 0;
	add_train();
	ck_assert(returns_cancelled(send_traffic, NULL));
	splices(from_address()->connections[0]->state == UDP_CONNECTED
			? from_address()->connections[0]
			: NULL);
}
END_TEST

/* Another process has the address now: in time it gets a ring of its own. */
START_TEST(another_receiver)
{
	struct udp_connection *connection = connect_both();
	const unsigned int trains = UDP_SPLICE_OTHER / TRAIN_BYTES + 2;
	uint64_t cookie;
	uint32_t next = 0;

	add_train();
	send_train(0);
	receive_stamped(&next);
	if (!splices(connection) || !((struct udp_link *)to.link)->share.roster)
		return;
	cookie = connection->splice.cookie;
	node_close(&to);
	to = node_open(ADDRESS_B, &options);
	traffic->dest_qp = qpn_of(&to);
	traffic->count = 0;
	add_train();
	next = 0;
	for (unsigned int i = 0; i < trains; i++) {
		send_train(i);
		ck_assert_uint_eq(receive_stamped(&next), TRAIN);
		if (i == 0)
			ck_assert_uint_eq(connection->splice.cookie, cookie);
	}
	ck_assert(splices(connection));
	ck_assert_uint_ne(connection->splice.cookie, cookie);
}
END_TEST

/* --- several threads --------------------------------------------------------------------- */

#define THREADS 4
#define ROUNDS 200

static void *send_rounds(void *argument)
{
	struct traffic *own = argument;

	for (int i = 0; i < ROUNDS; i++)
		from.link->ops->send(from.link, own->packets, own->count, 0);
	return NULL;
}

/* Those that find the connection taken send beside it. What arrives is intact. */
START_TEST(several_threads)
{
	pthread_t threads[THREADS];
	struct traffic *own[THREADS];
	struct link_frame frames[64];
	unsigned int intact = 0, got, running = THREADS;

	connect_both();
	for (int i = 0; i < THREADS; i++) {
		own[i] = traffic_new(&from, &to);
		own[i]->dest_qp = traffic->dest_qp;
		for (int k = 0; k < (i % 2 ? TRAIN : 1); k++)
			add_packet(own[i], i % 2 ? 4096 : 8);
		ck_assert_int_eq(pthread_create(&threads[i], NULL, send_rounds, own[i]), 0);
	}
	while (running || got) {
		while (running && pthread_tryjoin_np(threads[running - 1], NULL) == 0)
			running--;
		got = to.link->ops->receive(to.link, frames, 64, 0);
		for (unsigned int i = 0; i < got; i++, intact++)
			ck_assert(icrc_check(&frames[i]));
	}
	ck_assert_uint_gt(intact, 0);
	for (int i = 0; i < THREADS; i++)
		free(own[i]);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("udp_connection");
	TCase *tests = tcase_create("udp_connection");

	fill_memory();
	log_set_level(LOG_INFO);
	tcase_set_timeout(tests, 120);
	tcase_add_checked_fixture(tests, set_up, tear_down);
	tcase_add_test(tests, segmented_as_the_latest_were);
	tcase_add_test(tests, numbered_as_the_kernel_does);
	tcase_add_loop_test(tests, destinations_are_not_mixed, 0, 2);
	tcase_add_test(tests, another_network_namespace);
	tcase_add_test(tests, a_socket_everywhere);
	tcase_add_test(tests, sent_once);
	tcase_add_test(tests, nobody_receives);
	tcase_add_test(tests, a_firewall_refuses);
	tcase_add_test(tests, no_way_is_left);
	tcase_add_loop_test(tests, pages_are_read_before_they_are_written, 0,
			    sizeof(reads) / sizeof(reads[0]));
	tcase_add_test(tests, splices_where_it_pays);
	tcase_add_test(tests, spliced_behind_one_that_nobody_received);
	tcase_add_test(tests, nothing_stays_in_the_pipe);
	tcase_add_test(tests, other_settings_are_kept);
	tcase_add_test(tests, no_page_is_written_while_a_queue_has_it);
	tcase_add_test(tests, opens_without_being_cancelled);
	tcase_add_test(tests, another_receiver);
	tcase_add_test(tests, several_threads);
	own_network_enter(tests);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
