/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Links that share an address: every packet comes to the link that leased its QP number,
 * exactly once, whatever the other links do meanwhile. On loopback send() delivers before it
 * returns, and forwarding does too: nothing here waits for time.
 */
#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "gid_of.h"
#include "killable.h"
#include "net/share/roster_internal.h"
#include "net/udp/udp_link.h"
#include "net/wire/icrc.h"
#include "net/wire/mad.h"
#include "tests/run_suite.h"

#define SHARED "127.77.9.1"
#define OTHER "127.77.9.2"
#define MEMBERS 8
#define PACKETS 32
#define PATIENCE 1000 /* polls of all links */

struct node {
	struct link *link;
	union ibv_gid gid;
	uint32_t qpn; /* one of those leased */
};

static bool stops_when_bound;

/* A process is stopped as soon as its receiving socket is bound. */
int bind(int fd, const struct sockaddr *address, socklen_t length)
{
	const struct sockaddr_in *ipv4 = (const struct sockaddr_in *)address;
	int result = syscall(SYS_bind, fd, address, length), shares = 0;
	socklen_t size = sizeof(shares);

	if (!stops_when_bound || ipv4->sin_port != htons(ROCE_V2_UDP_PORT))
		return result;
	getsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &shares, &size);
	if (shares)
		raise(SIGSTOP);
	return result;
}

static struct share *share_of(const struct node *node)
{
	return node->link->share;
}

static struct roster *roster_of(const struct node *node)
{
	return ((struct udp_link *)node->link)->share.roster;
}

static bool forward(const struct node *node, const struct link_frame *frame)
{
	return share_of(node)->ops->forward(share_of(node), frame);
}

static int claim(const struct node *node, const union ibv_gid *gid, uint64_t service_id)
{
	return share_of(node)->ops->claim(share_of(node), gid, service_id);
}

static struct node node_open(const char *address)
{
	const struct udp_options options = {.segmentation = true, .receive_buffer = 100000};
	struct node node = {.gid = gid_of(address)};
	struct lease lease;

	ck_assert_int_eq(udp_link_create(&options, &node.link), 0);
	ck_assert_int_eq(node.link->ops->add_address(node.link, &node.gid), 0);
	ck_assert_int_eq(share_of(&node)->ops->lease_qpns(share_of(&node), &lease), 0);
	ck_assert_uint_eq(lease.count, SLOT_QPNS);
	node.qpn = lease.start;
	return node;
}

static void node_close(struct node *node)
{
	node->link->ops->close(node->link);
	node->link = NULL;
}

static void make_packet(struct link_packet *packet, const struct path *path, uint32_t qpn,
			uint32_t psn)
{
	static const uint8_t bytes[64] = {1, 2, 3};
	static const struct iovec vector = {(void *)bytes, sizeof(bytes)};

	*packet = (struct link_packet){.path = path,
				       .payload = &vector,
				       .payload_length = sizeof(bytes),
				       .payload_count = 1,
				       .headers_length = sizeof(struct bth),
				       .trailer_length = ICRC_LENGTH};
	memcpy(packet->headers,
	       &(struct bth){.opcode = WIRE_RC | WIRE_SEND_ONLY,
			     .pkey = htobe16(PKEY_DEFAULT),
			     .dest_qp = htobe32(qpn),
			     .psn = htobe32(psn)},
	       sizeof(struct bth));
}

static void send_one(struct node *from, const struct node *to, uint32_t qpn, uint32_t psn)
{
	struct path path = {.source = from->gid, .destination = to->gid, .traffic_class = 8};
	struct link_packet packet;

	make_packet(&packet, &path, qpn, psn);
	from->link->ops->send(from->link, &packet, 1, 0);
}

static uint32_t psn_of(const struct link_frame *frame)
{
	return be32toh(((const struct bth *)frame->data)->psn) & PSN_MASK;
}

/* What comes to @node next: its PSN, or -1 for nothing. It must be whole. */
static int receive_one(struct node *node, struct link_frame *frame)
{
	if (node->link->ops->receive(node->link, frame, 1, 0) == 0)
		return -1;
	ck_assert_uint_eq(frame->length, sizeof(struct bth) + 64 + ICRC_LENGTH);
	ck_assert(icrc_check(frame));
	return psn_of(frame);
}

/* Members that come send each other signals; these are out of the way then. */
static void drain(struct node *nodes, unsigned int count)
{
	struct link_frame frame;

	for (int polls = 0; polls < 40; polls++) {
		for (unsigned int i = 0; i < count; i++)
			ck_assert_int_eq(receive_one(&nodes[i], &frame), -1);
	}
}

/*
 * All poll until the frame has come to its owner, and some more for what else there
 * may be. Returns how often it was handed on.
 */
static unsigned int expect(struct node *nodes, unsigned int count, unsigned int owner, uint32_t psn)
{
	unsigned int forwards = 0;
	bool arrived = false;

	for (int polls = 0, rest = 40; polls < PATIENCE && rest; polls++, rest -= arrived) {
		for (unsigned int i = 0; i < count; i++) {
			struct link_frame frame;
			int got = nodes[i].link ? receive_one(&nodes[i], &frame) : -1;

			if (got < 0)
				continue;
			ck_assert_uint_eq(i, owner);
			ck_assert_uint_eq(got, psn);
			ck_assert(!arrived);
			arrived = true;
			forwards = frame.forwards;
		}
	}
	ck_assert_msg(arrived, "nothing came to %u", owner);
	return forwards;
}

static unsigned int check_each(struct node *from, struct node *nodes, unsigned int count)
{
	static uint32_t psn;
	unsigned int forwards = 0;

	for (unsigned int i = 0; i < count; i++) {
		if (!nodes[i].link)
			continue;
		send_one(from, &nodes[i], nodes[i].qpn, ++psn);
		forwards += expect(nodes, count, i, psn);
	}
	return forwards;
}

/* Nothing is lost, and in the end nothing is handed on any more. */
static void expect_repair(struct node *from, struct node *nodes, unsigned int count)
{
	int tries = PATIENCE;

	while (check_each(from, nodes, count) && --tries)
		usleep(1000); /* trouble isn't looked at more often */
	ck_assert_msg(tries, "frames are still handed on");
}

/* --- where packets go ---------------------------------------------------------------------- */

START_TEST(each_gets_its_own)
{
	struct node nodes[MEMBERS], from = node_open(OTHER);

	for (unsigned int i = 0; i < MEMBERS; i++) {
		nodes[i] = node_open(SHARED);
		ck_assert_uint_eq(check_each(&from, nodes, i + 1), 0);
	}
	/* From one to another of them, and to oneself. */
	for (unsigned int i = 0; i < MEMBERS; i++)
		ck_assert_uint_eq(check_each(&nodes[i], nodes, MEMBERS), 0);

	/* The first, the last and one between go. */
	for (unsigned int i = 0; i < 3; i++) {
		node_close(&nodes[i * (MEMBERS - 1) / 2]);
		expect_repair(&from, nodes, MEMBERS);
	}
	for (unsigned int i = 0; i < MEMBERS; i++) {
		if (nodes[i].link)
			node_close(&nodes[i]);
	}
	node_close(&from);
}
END_TEST

START_TEST(super_packets_dont_mix_receivers)
{
	struct node nodes[2] = {node_open(SHARED), node_open(SHARED)}, from = node_open(OTHER);
	struct path path = {.source = from.gid, .destination = nodes[0].gid};
	struct link_packet packets[PACKETS];
	struct link_frame frame;

	drain(nodes, 2);
	/* 0 0 1 1 0 0 ... */
	for (unsigned int i = 0; i < PACKETS; i++)
		make_packet(&packets[i], &path, nodes[i / 2 % 2].qpn + i % 2, i);
	from.link->ops->send(from.link, packets, PACKETS, 0);
	for (unsigned int i = 0; i < PACKETS; i++) {
		ck_assert_int_eq(receive_one(&nodes[i / 2 % 2], &frame), i);
		ck_assert_uint_eq(frame.forwards, 0);
		ck_assert_int_eq(frame.ip_id, i % 2); /* two by two in one */
	}
	for (unsigned int i = 0; i < 2; i++) {
		ck_assert_int_eq(receive_one(&nodes[i], &frame), -1);
		node_close(&nodes[i]);
	}
	node_close(&from);
}
END_TEST

START_TEST(packets_without_an_owner_come_to_one_link)
{
	struct node nodes[2] = {node_open(SHARED), node_open(SHARED)}, from = node_open(OTHER);
	static const uint32_t qpns[] = {1, 0x123, QPN_MULTICAST};
	uint32_t free_slot = 1;

	drain(nodes, 2);
	while (roster_owner(((struct udp_link *)from.link)->share.roster, free_slot))
		free_slot++;
	for (unsigned int i = 0; i < 4; i++) {
		uint32_t qpn = i < 3 ? qpns[i] : free_slot << SLOT_QPN_BITS;
		struct link_frame frame;
		int first, second;

		send_one(&from, &nodes[0], qpn, i);
		first = receive_one(&nodes[0], &frame);
		second = receive_one(&nodes[1], &frame);
		ck_assert_int_eq(first < 0 ? second : first, i);
		ck_assert_int_eq(first < 0 ? first : second, -1);
		ck_assert(!forward(&nodes[0], &frame));
	}
	node_close(&nodes[0]);
	node_close(&nodes[1]);
	node_close(&from);
}
END_TEST

/* --- deaths ------------------------------------------------------------------------------- */

struct inherited {
	const struct node *nodes;
	unsigned int count;
};

/* With one of the addresses open. */
static void begin(const void *argument)
{
	const struct inherited *inherited = argument;

	for (unsigned int i = 0; i < inherited->count; i++)
		inherited->nodes[i].link->ops->after_fork_child(inherited->nodes[i].link);
	node_open(SHARED);
}

/*
 * Dead members are between living ones, in several orders. Nothing is lost on the way from
 * the first packet on, and after a while nothing is handed on any more.
 */
START_TEST(deaths_are_repaired)
{
	static const char *const orders[] = {"dl", "ddll", "ldld", "ddldll", "dldldldl", "lddll"};
	const char *order = orders[_i];
	struct node nodes[MEMBERS];
	struct node *from = &nodes[0];
	pid_t pids[MEMBERS];
	unsigned int living = 1, dead = 0;

	nodes[0] = node_open(OTHER);
	for (; *order; order++) {
		if (*order == 'l')
			nodes[living++] = node_open(SHARED);
		else
			pids[dead++] = killable_process(begin, &(struct inherited){nodes, living});
	}
	check_each(from, nodes + 1, living - 1);
	for (unsigned int i = 0; i < dead; i++)
		kill_and_wait(pids[i * 3 % dead == i * 3 || dead % 3 ? i * 3 % dead : i]);
	check_each(from, nodes + 1, living - 1);
	expect_repair(from, nodes + 1, living - 1);
	for (unsigned int i = 0; i < living; i++)
		node_close(&nodes[i]);
}
END_TEST

/* With the roster locked, which others pass over. */
START_TEST(a_process_that_is_stopped_while_it_enters_keeps_none_out)
{
	struct node from = node_open(OTHER), node;
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		stops_when_bound = true;
		begin(&(struct inherited){&from, 1});
	}
	ck_assert_int_eq(waitpid(pid, &status, WUNTRACED), pid);
	ck_assert(WIFSTOPPED(status));
	node = node_open(SHARED);
	ck_assert_uint_eq(check_each(&from, &node, 1), 0);
	kill_and_wait(pid);
	expect_repair(&from, &node, 1);
	node_close(&node);
	node_close(&from);
}
END_TEST

/* One program for all, and another index for @node than its own. */
static void mix_up(const struct node *node, unsigned int steered_to, unsigned int index)
{
	struct udp_link *link = (struct udp_link *)node->link;
	struct sock_filter code[STEER_PROGRAM_MAX];
	struct steer_plan plan = {
		.ranges = {{1, SLOTS - 2, steered_to}}, .range_count = 1, .sockets = 1};
	struct roster *roster = link->share.roster;
	unsigned int length;

	plan.secret = roster_secret(roster);
	length = steer_program(&plan, code);
	ck_assert_int_eq(steer_attach(link->addresses[0]->receive_fd, code, length), 0);
	ck_assert_int_eq(roster_lock(roster), 0);
	roster_set_index(roster, &node->gid, index);
	roster_unlock(roster);
}

/* Whatever program is in place and whatever the roster says of indexes, it ends well. */
START_TEST(wrong_indexes_are_repaired)
{
	struct node nodes[MEMBERS], from = node_open(OTHER);

	for (unsigned int i = 0; i < MEMBERS; i++)
		nodes[i] = node_open(SHARED);
	mix_up(&nodes[_i], _i, (_i + 3) % MEMBERS);
	expect_repair(&from, nodes, MEMBERS);
	for (unsigned int i = 0; i < MEMBERS; i++)
		node_close(&nodes[i]);
	node_close(&from);
}
END_TEST

/* Also when the roster says that they were checked at a time that is to come. */
START_TEST(no_time_keeps_them_from_repair)
{
	struct node nodes[MEMBERS], from = node_open(OTHER);

	for (unsigned int i = 0; i < MEMBERS; i++)
		nodes[i] = node_open(SHARED);
	roster_set_repaired(((struct udp_link *)nodes[0].link)->share.roster, UINT64_MAX / 2);
	mix_up(&nodes[1], 1, 4);
	expect_repair(&from, nodes, MEMBERS);
	for (unsigned int i = 0; i < MEMBERS; i++)
		node_close(&nodes[i]);
	node_close(&from);
}
END_TEST

/*
 * A signal says that a socket has an index which there isn't: the sender knows the secret, but no
 * more of the group. The roster is one that members go on to join.
 */
START_TEST(signals_to_no_socket_are_ignored)
{
	static const uint32_t indexes[] = {2, SOCKETS - 1, SOCKETS, INT32_MAX, UINT32_MAX};
	struct node nodes[3] = {node_open(SHARED), node_open(SHARED)};
	const struct udp_link *link = (struct udp_link *)nodes[0].link;
	struct roster *roster = link->share.roster;
	struct {
		struct steer_signal steer;
		uint32_t kind, round;
	} signal = {.kind = 1, .round = UINT32_MAX};
	struct sockaddr_storage to;
	socklen_t length = gid_to_sockaddr(&nodes[0].gid, ROCE_V2_UDP_PORT, &to);

	drain(nodes, 2);
	for (unsigned int i = 0; i < sizeof(indexes) / sizeof(*indexes); i++, signal.round--) {
		steer_fill(&signal.steer, roster_secret(roster), indexes[i]);
		ck_assert_int_eq(sendto(link->addresses[0]->send_fd, &signal, sizeof(signal), 0,
					(struct sockaddr *)&to, length),
				 sizeof(signal));
		drain(nodes, 2);
		for (unsigned int k = 0; k < 2; k++)
			ck_assert_int_lt(roster_index(roster, roster_self(roster_of(&nodes[k])),
						      &nodes[k].gid),
					 2);
	}
	nodes[2] = node_open(SHARED);
	for (unsigned int i = 0; i < 3; i++)
		node_close(&nodes[i]);
}
END_TEST

/* --- strangers ------------------------------------------------------------------------ */

START_TEST(strangers_signals_are_packets)
{
	struct node nodes[2] = {node_open(SHARED), node_open(SHARED)};
	struct udp_link *links[2] = {(struct udp_link *)nodes[0].link,
				     (struct udp_link *)nodes[1].link};
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	struct sockaddr_storage address;
	socklen_t length = gid_to_sockaddr(&nodes[0].gid, ROCE_V2_UDP_PORT, &address);
	struct {
		struct steer_signal signal;
		uint8_t rest[100];
	} packet = {};
	struct link_frame frame;
	unsigned int got = 0;
	uint64_t token;

	drain(nodes, 2);
	/* To the group without the secret: a frame like any other, for the core to drop. */
	steer_fill(&packet.signal, roster_secret(links[0]->share.roster) ^ 1, 1);
	sendto(fd, &packet, sizeof(packet), 0, (struct sockaddr *)&address, length);
	for (unsigned int i = 0; i < 2; i++)
		got += nodes[i].link->ops->receive(nodes[i].link, &frame, 1, 0);
	ck_assert_uint_eq(got, 1);

	/* At a control socket: nothing. Cut short with the token: nothing either. */
	((struct sockaddr_in *)&address)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	((struct sockaddr_in *)&address)->sin_port = htons(
		roster_control_port(links[0]->share.roster, roster_self(links[0]->share.roster)));
	sendto(fd, &packet, sizeof(packet), 0, (struct sockaddr *)&address, length);
	token = roster_own_token(links[0]->share.roster);
	memcpy(&packet, &token, sizeof(token));
	for (unsigned int size = 0; size <= sizeof(packet.signal); size++)
		sendto(fd, &packet, size, 0, (struct sockaddr *)&address, length);
	roster_notify(links[1]->share.roster, roster_self(links[0]->share.roster));
	for (int polls = 0; polls < 40; polls++)
		ck_assert_uint_eq(nodes[0].link->ops->receive(nodes[0].link, &frame, 1, 0), 0);
	close(fd);
	node_close(&nodes[0]);
	node_close(&nodes[1]);
}
END_TEST

static struct sockaddr_in on_loopback(uint16_t port)
{
	return (struct sockaddr_in){
		.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
}

struct datagram {
	uint8_t bytes[400];
	ssize_t length;
};

/* Which @to gets when its port is a stranger's, as that of one that was killed may be. */
static struct datagram steal(const struct node *from, const struct node *to)
{
	uint16_t port = roster_control_port(roster_of(to), roster_self(roster_of(to)));
	struct sockaddr_in address = on_loopback(0);
	const struct bth bth = {.dest_qp = htobe32(QPN_GSI)};
	const struct link_frame frame = {.data = (const uint8_t *)&bth, .length = sizeof(bth)};
	socklen_t length = sizeof(address);
	struct datagram stolen;
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, length), 0);
	ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&address, &length), 0);
	roster_set_control_port(roster_of(to), ntohs(address.sin_port));
	ck_assert(udp_forward_to((struct udp_share *)share_of(from), &frame,
				 roster_self(roster_of(to))));
	roster_set_control_port(roster_of(to), port);
	stolen.length = recv(fd, stolen.bytes, sizeof(stolen.bytes), MSG_DONTWAIT);
	ck_assert_int_gt(stolen.length, (ssize_t)sizeof(bth));
	close(fd);
	return stolen;
}

static bool takes(struct node *node, const struct datagram *datagram)
{
	uint32_t member = roster_self(roster_of(node));
	struct sockaddr_in to = on_loopback(roster_control_port(roster_of(node), member));
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	struct link_frame frame;

	ck_assert_int_eq(sendto(fd, datagram->bytes, datagram->length, 0, (struct sockaddr *)&to,
				sizeof(to)),
			 datagram->length);
	close(fd);
	roster_notify(roster_of(node), member);
	return node->link->ops->receive(node->link, &frame, 1, 0) == 1;
}

/* With it nothing can be forged, neither for a control socket nor for the program. */
START_TEST(what_is_sent_to_a_member_counts_there_alone)
{
	struct node nodes[] = {node_open(SHARED), node_open(SHARED), node_open(SHARED)};
	struct datagram stolen;
	struct steer_signal signal;

	drain(nodes, 3);
	stolen = steal(&nodes[0], &nodes[1]);
	steer_fill(&signal, roster_secret(roster_of(&nodes[0])), 0);
	ck_assert_ptr_null(
		memmem(stolen.bytes, stolen.length, signal.secret, sizeof(signal.secret)));
	ck_assert(takes(&nodes[1], &stolen));
	ck_assert(!takes(&nodes[0], &stolen));
	ck_assert(!takes(&nodes[2], &stolen));
	for (unsigned int i = 0; i < 3; i++)
		node_close(&nodes[i]);
}
END_TEST

#define FLOOD 200 /* datagrams: a socket has space for them */

/* What strangers send to a control socket, faster than it is read, keeps no thread there. */
START_TEST(a_flood_of_strangers_datagrams_ends)
{
	struct node node = node_open(SHARED);
	const struct udp_share *share = (struct udp_share *)share_of(&node);
	const struct sockaddr_in to =
		on_loopback(roster_control_port(share->roster, roster_self(share->roster)));
	int fd = socket(AF_INET, SOCK_DGRAM, 0), calls;
	struct link_frame frame;
	char byte;

	drain(&node, 1);
	for (int i = 0; i < FLOOD; i++)
		sendto(fd, "", 1, 0, (const struct sockaddr *)&to, sizeof(to));
	for (calls = 0; recv(share->control_fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0; calls++) {
		roster_notify(share->roster, roster_self(share->roster));
		ck_assert_uint_eq(node.link->ops->receive(node.link, &frame, 1, 0), 0);
	}
	ck_assert_int_gt(calls, 1);
	close(fd);
	node_close(&node);
}
END_TEST

static bool readable(struct node *node)
{
	struct pollfd polled[4];
	int fds[4], count = node->link->ops->descriptors(node->link, fds, 4);

	for (int i = 0; i < count; i++)
		polled[i] = (struct pollfd){.fd = fds[i], .events = POLLIN};
	return poll(polled, count, 0) > 0;
}

/* A frame of another member is handed on as it was received, one of our own isn't. */
START_TEST(frames_are_forwarded_by_qpn)
{
	struct node nodes[2] = {node_open(SHARED), node_open(SHARED)}, from = node_open(OTHER);
	struct link_frame frame, again;

	drain(nodes, 2);
	send_one(&from, &nodes[0], nodes[0].qpn, 7);
	ck_assert_int_eq(receive_one(&nodes[0], &frame), 7);
	ck_assert(!forward(&nodes[0], &frame));
	ck_assert(!readable(&nodes[1]));
	((struct bth *)frame.data)->dest_qp = htobe32(nodes[1].qpn);
	ck_assert(forward(&nodes[0], &frame));
	ck_assert(readable(&nodes[1]));
	ck_assert_uint_eq(nodes[1].link->ops->receive(nodes[1].link, &again, 1, 0), 1);
	ck_assert(!readable(&nodes[1]));
	ck_assert_uint_eq(again.length, frame.length);
	ck_assert_mem_eq(again.data, frame.data, frame.length);
	ck_assert(gid_equal(&again.source, &from.gid));
	ck_assert(gid_equal(&again.destination, &nodes[0].gid));
	ck_assert_uint_eq(again.source_port, frame.source_port);
	ck_assert_uint_eq(again.traffic_class, frame.traffic_class);
	ck_assert_uint_eq(again.hop_limit, frame.hop_limit);
	ck_assert_int_eq(again.ip_id, frame.ip_id);
	ck_assert_uint_eq(again.forwards, 1);
	frame.forwards = 3;
	ck_assert(!forward(&nodes[0], &frame));
	node_close(&nodes[0]);
	node_close(&nodes[1]);
	node_close(&from);
}
END_TEST

/* It is ours to answer then: nothing takes care of it. */
START_TEST(what_cant_be_forwarded_is_not)
{
	struct node nodes[2] = {node_open(SHARED), node_open(SHARED)};
	struct udp_share *owner = (struct udp_share *)share_of(&nodes[1]);
	struct udp_share *ours = (struct udp_share *)share_of(&nodes[0]);
	const struct bth bth = {.dest_qp = htobe32(nodes[1].qpn)};
	const struct link_frame frame = {
		.data = (const uint8_t *)&bth, .length = sizeof(bth), .destination = nodes[0].gid};
	uint16_t port = roster_control_port(owner->roster, roster_self(owner->roster));
	int fd = ours->control_fd;

	ck_assert(forward(&nodes[0], &frame));
	roster_set_control_port(owner->roster, 0);
	ck_assert(!forward(&nodes[0], &frame));
	roster_set_control_port(owner->roster, port);
	ours->control_fd = -1;
	ck_assert(!forward(&nodes[0], &frame));
	ours->control_fd = fd;
	node_close(&nodes[0]);
	node_close(&nodes[1]);
}
END_TEST

#define MAD_OFFSET (sizeof(struct bth) + sizeof(struct deth))

/* A message of the connection manager with @number (of 4 or 8 bytes) at @offset. */
static struct link_frame make_mad(uint8_t *bytes, const union ibv_gid *to, uint16_t attribute,
				  unsigned int offset, uint64_t number, unsigned int length)
{
	const struct bth bth = {.opcode = WIRE_UD | WIRE_SEND_ONLY, .dest_qp = htobe32(QPN_GSI)};
	const __be64 value = htobe64(number << (64 - 8 * length));

	memset(bytes, 0, MAD_OFFSET + MAD_LENGTH + ICRC_LENGTH);
	memcpy(bytes, &bth, sizeof(bth));
	bytes[MAD_OFFSET + 17] = attribute;
	memcpy(bytes + MAD_OFFSET + 24 + offset, &value, length);
	return (struct link_frame){.data = bytes,
				   .length = MAD_OFFSET + MAD_LENGTH + ICRC_LENGTH,
				   .source = *to,
				   .destination = *to};
}

static bool receives(struct node *node, const struct link_frame *frame)
{
	struct link_frame got;

	if (node->link->ops->receive(node->link, &got, 1, 0) != 1)
		return false;
	ck_assert_uint_eq(got.length, frame->length);
	ck_assert_mem_eq(got.data, frame->data, frame->length);
	return true;
}

START_TEST(mads_are_forwarded_by_comm_id)
{
	static const struct {
		uint16_t attribute;
		unsigned int offset;
	} cases[] = {{0x13, 4} /* REP */, {0x15, 4} /* DREQ */, {0x18, 0} /* SIDR_REP */};
	struct node nodes[2] = {node_open(SHARED), node_open(SHARED)};
	uint8_t bytes[MAD_OFFSET + MAD_LENGTH + ICRC_LENGTH];
	uint32_t first[2];

	drain(nodes, 2);
	for (unsigned int i = 0; i < 2; i++) {
		first[i] = share_of(&nodes[i])->ops->lease_comm_ids(share_of(&nodes[i]));
		ck_assert_uint_ne(first[i], 0);
		ck_assert_uint_eq(first[i] % SHARE_COMM_IDS, 0);
		ck_assert_uint_eq(share_of(&nodes[i])->ops->lease_comm_ids(share_of(&nodes[i])),
				  first[i]);
	}
	ck_assert_uint_ne(first[0], first[1]);
	for (unsigned int i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		uint32_t last = first[1] + SHARE_COMM_IDS - 1;
		struct link_frame frame = make_mad(bytes, &nodes[0].gid, cases[i].attribute,
						   cases[i].offset, last, 4);

		ck_assert(forward(&nodes[0], &frame));
		ck_assert(receives(&nodes[1], &frame));
		ck_assert(!forward(&nodes[1], &frame));
		frame = make_mad(bytes, &nodes[0].gid, cases[i].attribute, cases[i].offset,
				 first[0], 4);
		ck_assert(!forward(&nodes[0], &frame));
		ck_assert(forward(&nodes[1], &frame));
		ck_assert(receives(&nodes[0], &frame));
	}
	node_close(&nodes[0]);
	node_close(&nodes[1]);
}
END_TEST

struct dead_member {
	const struct inherited inherited;
	int leased; /* where the first of its comm ids is written to */
};

static void begin_with_comm_ids(const void *argument)
{
	const struct dead_member *member = argument;
	uint32_t first;
	struct node node;

	for (unsigned int i = 0; i < member->inherited.count; i++)
		member->inherited.nodes[i].link->ops->after_fork_child(
			member->inherited.nodes[i].link);
	node = node_open(SHARED);
	first = share_of(&node)->ops->lease_comm_ids(share_of(&node));
	if (write(member->leased, &first, sizeof(first)) != sizeof(first))
		_exit(1);
}

/* There is none to forward it to: the member that got it answers, and the roster is repaired. */
START_TEST(mads_for_a_dead_member_are_ours)
{
	static const struct {
		uint16_t attribute;
		unsigned int offset;
	} cases[] = {{0x13, 4} /* REP */, {0x15, 4} /* DREQ */, {0x16, 4} /* DREP */};
	struct node node = node_open(SHARED), other = node_open(OTHER);
	union ibv_gid elsewhere = gid_of("10.99.99.99");
	struct node nodes[2];
	struct roster *roster = ((struct udp_link *)node.link)->share.roster;
	uint8_t bytes[MAD_OFFSET + MAD_LENGTH + ICRC_LENGTH];
	struct link_frame frame;
	uint32_t first, process = 0;
	int leased[2];
	pid_t pid;

	ck_assert_int_eq(pipe(leased), 0);
	nodes[0] = node;
	nodes[1] = other;
	pid = killable_process(begin_with_comm_ids, &(struct dead_member){{nodes, 2}, leased[1]});
	ck_assert_int_eq(read(leased[0], &first, sizeof(first)), sizeof(first));
	for (int dead = 0; dead < 2; dead++) {
		for (unsigned int i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
			frame = make_mad(bytes, &node.gid, cases[i].attribute, cases[i].offset,
					 first + 5, 4);
			ck_assert_int_eq(forward(&node, &frame), !dead);
		}
		if (!dead)
			process = share_of(&node)->ops->process(share_of(&node), &node.gid, first);
		ck_assert_uint_ne(process, 0);
		ck_assert_int_eq(share_of(&node)->ops->is_alive(share_of(&node), process, first),
				 !dead);
		if (!dead)
			kill_and_wait(pid);
	}
	for (int polls = 0; polls < PATIENCE && roster_owner(roster, slot_of_comm_id(first));
	     polls++) {
		usleep(1000);
		node.link->ops->receive(node.link, &frame, 1, 0);
	}
	ck_assert_uint_eq(roster_owner(roster, slot_of_comm_id(first)), 0);
	ck_assert(!share_of(&node)->ops->is_alive(share_of(&node), process, first));
	/* Of no process, of our own, and at an address that isn't this machine's. */
	ck_assert_uint_eq(share_of(&node)->ops->process(share_of(&node), &node.gid, first), 0);
	first = share_of(&node)->ops->lease_comm_ids(share_of(&node));
	process = share_of(&node)->ops->process(share_of(&node), &node.gid, first);
	ck_assert_uint_eq(process, roster_self(roster));
	ck_assert(share_of(&node)->ops->is_alive(share_of(&node), process, first));
	ck_assert_uint_eq(share_of(&other)->ops->process(share_of(&other), &elsewhere, first), 0);
	ck_assert_uint_ne(share_of(&other)->ops->process(share_of(&other), &node.gid, first), 0);
	node_close(&other);
	node_close(&node);
}
END_TEST

/* Its port may be another user's by now, whom the frame is none of. */
START_TEST(frames_for_a_dead_member_go_nowhere)
{
	struct node nodes[2] = {node_open(SHARED), node_open(OTHER)};
	struct roster *roster = roster_of(&nodes[0]);
	int leased[2], fd = socket(AF_INET, SOCK_DGRAM, 0);
	struct sockaddr_in port;
	struct link_frame frame;
	uint32_t first, slot;
	char byte;
	pid_t pid;

	ck_assert_int_eq(pipe(leased), 0);
	pid = killable_process(begin_with_comm_ids, &(struct dead_member){{nodes, 2}, leased[1]});
	ck_assert_int_eq(read(leased[0], &first, sizeof(first)), sizeof(first));
	slot = slot_of_comm_id(first);
	port = on_loopback(roster_control_port(roster, roster_owner(roster, slot)));
	kill_and_wait(pid);
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&port, sizeof(port)), 0);
	send_one(&nodes[1], &nodes[0], slot << SLOT_QPN_BITS, 7);
	nodes[0].link->ops->receive(nodes[0].link, &frame, 1, 0);
	ck_assert_int_lt(recv(fd, &byte, 1, MSG_DONTWAIT), 0);
	close(fd);
	node_close(&nodes[0]);
	node_close(&nodes[1]);
}
END_TEST

static void begin_with_all_turns(const void *argument)
{
	struct flock lock = {
		.l_type = F_WRLCK,
		.l_whence = SEEK_SET,
		.l_start = ROSTER_MEMBERS + 1,
		.l_len = LOCK_TURNS,
	};
	const struct inherited *inherited = argument;
	struct roster *roster;

	for (unsigned int i = 0; i < inherited->count; i++)
		inherited->nodes[i].link->ops->after_fork_child(inherited->nodes[i].link);
	if (roster_open(NULL, &roster) || fcntl(roster->fd, F_OFD_SETLK, &lock) < 0)
		_exit(1);
}

/* Although the roster's lock isn't to be had, nor its holder passed over. */
START_TEST(a_claim_can_always_be_released)
{
	union ibv_gid any = gid_of("0.0.0.0");
	struct node a = node_open(SHARED), b = node_open(SHARED);
	struct node nodes[2] = {a, b};
	uint8_t bytes[MAD_OFFSET + MAD_LENGTH + ICRC_LENGTH];
	struct link_frame frame = make_mad(bytes, &a.gid, 0x10 /* REQ */, 8, 99, 8);
	pid_t pid;

	drain(&b, 1);
	ck_assert_int_eq(claim(&a, &any, 99), 0);
	ck_assert(forward(&b, &frame));
	pid = killable_process(begin_with_all_turns, &(struct inherited){nodes, 2});
	ck_assert_int_eq(claim(&a, &any, 98), EBUSY);
	share_of(&a)->ops->release(share_of(&a), &any, 99);
	ck_assert(!forward(&b, &frame));
	kill_and_wait(pid);
	ck_assert_int_eq(claim(&b, &b.gid, 99), 0);
	node_close(&b);
	node_close(&a);
}
END_TEST

START_TEST(requests_are_forwarded_to_the_claimant)
{
	static const uint16_t attributes[] = {0x10 /* REQ */, 0x17 /* SIDR_REQ */};
	union ibv_gid any = gid_of("0.0.0.0");
	struct node a = node_open(SHARED), b = node_open(SHARED);
	uint8_t bytes[MAD_OFFSET + MAD_LENGTH + ICRC_LENGTH];
	struct link_frame frame = make_mad(bytes, &a.gid, attributes[_i], 8, 99, 8);

	drain(&b, 1);
	ck_assert(!forward(&b, &frame));
	ck_assert_int_eq(claim(&a, &any, 99), 0);
	ck_assert(forward(&b, &frame));
	ck_assert(receives(&a, &frame));
	ck_assert(!forward(&a, &frame));
	ck_assert_int_eq(claim(&b, &b.gid, 99), EADDRNOTAVAIL);
	share_of(&a)->ops->release(share_of(&a), &any, 99);
	ck_assert(!forward(&b, &frame));
	ck_assert_int_eq(claim(&b, &b.gid, 99), 0);
	ck_assert(forward(&a, &frame));
	ck_assert(receives(&b, &frame));
	node_close(&b);
	ck_assert(!forward(&a, &frame));
	node_close(&a);
}
END_TEST

/* --- links that leave ------------------------------------------------------------------------ */

/* A link that leaves may not have read yet what it was handed, for another or for a special QP. */
START_TEST(what_a_leaving_link_was_handed_goes_on)
{
	struct node nodes[] = {node_open(SHARED), node_open(SHARED), node_open(SHARED)};
	struct udp_share *from = (struct udp_share *)share_of(&nodes[1]);
	const struct udp_share *leaving = (struct udp_share *)share_of(&nodes[0]);
	const uint32_t qpns[] = {QPN_GSI, nodes[2].qpn};
	uint8_t bytes[MAD_OFFSET + MAD_LENGTH + ICRC_LENGTH];
	struct link_frame frame =
		make_mad(bytes, &nodes[0].gid, CM_DREQ, CM_REMOTE_ID, 0, sizeof(uint32_t));
	bool first, second;

	drain(nodes, 3);
	((struct bth *)bytes)->dest_qp = htobe32(qpns[_i]);
	ck_assert(udp_forward_to(from, &frame, roster_self(leaving->roster)));
	node_close(&nodes[0]);
	first = receives(&nodes[1], &frame);
	second = receives(&nodes[2], &frame);
	ck_assert(first != second);
	ck_assert(second || qpns[_i] == QPN_GSI);
	node_close(&nodes[1]);
	node_close(&nodes[2]);
}
END_TEST

/* A super-packet for a special QP, unread, or of which some packets have been received. */
START_TEST(super_packets_are_handed_on_whole)
{
	const int received = _i * 8;
	struct node leaving = node_open(SHARED), from = node_open(OTHER), node;
	struct path path = {.source = from.gid, .destination = leaving.gid};
	struct link_packet packets[PACKETS];
	struct link_frame frame;

	for (int i = 0; i < PACKETS; i++)
		make_packet(&packets[i], &path, QPN_GSI, i);
	ck_assert_uint_eq(from.link->ops->send(from.link, packets, PACKETS, 0), 0);
	node = node_open(SHARED);
	for (int i = 0; i < received; i++)
		ck_assert_int_eq(receive_one(&leaving, &frame), i);
	node_close(&leaving);
	for (int i = received; i < PACKETS; i++)
		ck_assert_int_eq(receive_one(&node, &frame), i);
	ck_assert_int_eq(receive_one(&node, &frame), -1);
	node_close(&node);
	node_close(&from);
}
END_TEST

#define LEAVES 200
#define UNREAD_MOST 32 /* packets; fewer than a socket holds */

struct stream {
	struct node *from;
	const struct node *to;
	uint32_t sent, received;
	bool over;
};

static void *send_stream(void *argument)
{
	struct stream *stream = argument;

	while (!__atomic_load_n(&stream->over, __ATOMIC_ACQUIRE)) {
		uint32_t received = __atomic_load_n(&stream->received, __ATOMIC_ACQUIRE);

		if (stream->sent - received < UNREAD_MOST)
			send_one(stream->from, stream->to, stream->to->qpn, stream->sent++);
	}
	return NULL;
}

static void receive_stream(struct node *node, struct stream *stream)
{
	struct link_frame frame;

	for (int i = 0; i < UNREAD_MOST && receive_one(node, &frame) >= 0; i++)
		__atomic_fetch_add(&stream->received, 1, __ATOMIC_RELEASE);
}

/* All packets to one link arrive while one whose socket the kernel finds first comes and goes. */
START_TEST(nothing_is_lost_while_others_leave)
{
	struct node node = node_open(SHARED), from = node_open(OTHER);
	struct stream stream = {.from = &from, .to = &node};
	pthread_t sender;

	ck_assert_int_eq(pthread_create(&sender, NULL, send_stream, &stream), 0);
	for (int i = 0; i < LEAVES; i++) {
		struct node other = node_open(SHARED);

		receive_stream(&node, &stream);
		node_close(&other);
		receive_stream(&node, &stream);
	}
	__atomic_store_n(&stream.over, true, __ATOMIC_RELEASE);
	pthread_join(sender, NULL);
	for (int polls = 0; polls < PATIENCE; polls++)
		receive_stream(&node, &stream);
	ck_assert_uint_eq(stream.received, stream.sent);
	node_close(&node);
	node_close(&from);
}
END_TEST

/* Space is that of the socket which the QP's packets go to. */
START_TEST(space_is_the_receivers)
{
	struct node nodes[MEMBERS], from = node_open(OTHER);
	struct path path = {.source = from.gid, .destination = gid_of(SHARED)};
	uint32_t before[MEMBERS];
	struct sock_diag *diag = sock_diag_create();
	struct backlog *backlog = diag ? backlog_create(diag) : NULL;
	struct link_frame frame;

	for (unsigned int i = 0; i < MEMBERS; i++)
		nodes[i] = node_open(SHARED);
	if (!backlog || backlog_rcvbuf_space(backlog, &path.destination, 0) == BACKLOG_UNKNOWN)
		return; /* a kernel without UDP_DIAG: nothing to test */
	backlog_destroy(backlog);
	sock_diag_destroy(diag);
	drain(nodes, MEMBERS);
	for (unsigned int i = 0; i < MEMBERS; i++) {
		before[i] = from.link->ops->rcvbuf_space(from.link, &path, nodes[i].qpn);
		ck_assert_uint_lt(before[i], 200000);
	}
	for (uint32_t psn = 0; psn < 10; psn++)
		send_one(&from, &nodes[3], nodes[3].qpn, psn);
	for (unsigned int i = 0; i < MEMBERS; i++) {
		uint32_t space = from.link->ops->rcvbuf_space(from.link, &path, nodes[i].qpn);

		if (i == 3)
			ck_assert_uint_lt(space, before[i]);
		else
			ck_assert_uint_eq(space, before[i]);
	}
	while (receive_one(&nodes[3], &frame) >= 0)
		;
	for (unsigned int i = 0; i < MEMBERS; i++) {
		ck_assert_uint_eq(from.link->ops->rcvbuf_space(from.link, &path, nodes[i].qpn),
				  before[i]);
		node_close(&nodes[i]);
	}
	node_close(&from);
}
END_TEST

START_TEST(leases_grow)
{
	struct node node = node_open(SHARED);
	uint32_t total = SLOT_QPNS;
	struct lease lease;

	for (int i = 0; i < 5; i++) {
		ck_assert_int_eq(share_of(&node)->ops->lease_qpns(share_of(&node), &lease), 0);
		ck_assert_uint_eq(lease.count, total);
		total += lease.count;
	}
	node_close(&node);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("share");
	TCase *tests = tcase_create("share");

	tcase_set_timeout(tests, 100);
	tcase_add_test(tests, each_gets_its_own);
	tcase_add_test(tests, super_packets_dont_mix_receivers);
	tcase_add_test(tests, packets_without_an_owner_come_to_one_link);
	tcase_add_loop_test(tests, deaths_are_repaired, 0, 6);
	tcase_add_test(tests, a_process_that_is_stopped_while_it_enters_keeps_none_out);
	tcase_add_loop_test(tests, wrong_indexes_are_repaired, 0, MEMBERS);
	tcase_add_test(tests, no_time_keeps_them_from_repair);
	tcase_add_test(tests, signals_to_no_socket_are_ignored);
	tcase_add_test(tests, strangers_signals_are_packets);
	tcase_add_test(tests, what_is_sent_to_a_member_counts_there_alone);
	tcase_add_test(tests, a_flood_of_strangers_datagrams_ends);
	tcase_add_test(tests, frames_are_forwarded_by_qpn);
	tcase_add_test(tests, what_cant_be_forwarded_is_not);
	tcase_add_test(tests, mads_are_forwarded_by_comm_id);
	tcase_add_test(tests, mads_for_a_dead_member_are_ours);
	tcase_add_test(tests, frames_for_a_dead_member_go_nowhere);
	tcase_add_test(tests, a_claim_can_always_be_released);
	tcase_add_loop_test(tests, requests_are_forwarded_to_the_claimant, 0, 2);
	tcase_add_loop_test(tests, what_a_leaving_link_was_handed_goes_on, 0, 2);
	tcase_add_loop_test(tests, super_packets_are_handed_on_whole, 0, 2);
	tcase_add_test(tests, nothing_is_lost_while_others_leave);
	tcase_add_test(tests, space_is_the_receivers);
	tcase_add_test(tests, leases_grow);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
