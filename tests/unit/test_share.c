/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Links that share an address: every packet comes to the link that leased its QP number,
 * exactly once, whatever the other links do meanwhile: they come and go, die, are stopped, have
 * wrong indexes, and strangers send signals.
 */
#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "gid_of.h"
#include "killable.h"
#include "net/share/roster_internal.h"
#include "net/udp/udp_link.h"
#include "own_network.h"
#include "share_nodes.h"
#include "tests/run_suite.h"

#define SHARED "127.77.9.1"
#define OTHER "127.77.9.2"
#define MEMBERS 8
#define PACKETS 32

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

/* --- where packets go ---------------------------------------------------------------------- */

START_TEST(each_gets_its_own)
{
	struct node nodes[MEMBERS], from = node_open(OTHER);

	for (unsigned int i = 0; i < MEMBERS; i++) {
		nodes[i] = node_open(SHARED);
		ck_assert_uint_eq(nodes_check_each(&from, nodes, i + 1), 0);
	}
	/* From one to another of them, and to oneself. */
	for (unsigned int i = 0; i < MEMBERS; i++)
		ck_assert_uint_eq(nodes_check_each(&nodes[i], nodes, MEMBERS), 0);

	/* The first, the last and one between go. */
	for (unsigned int i = 0; i < 3; i++) {
		node_close(&nodes[i * (MEMBERS - 1) / 2]);
		nodes_expect_repair(&from, nodes, MEMBERS);
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

	nodes_drain(nodes, 2);
	/* 0 0 1 1 0 0 ... */
	for (unsigned int i = 0; i < PACKETS; i++)
		make_packet(&packets[i], &path, nodes[i / 2 % 2].qpn + i % 2, i);
	from.link->ops->send(from.link, packets, PACKETS, 0);
	for (unsigned int i = 0; i < PACKETS; i++) {
		ck_assert_int_eq(node_receive(&nodes[i / 2 % 2], &frame), i);
		ck_assert_uint_eq(frame.forwards, 0);
		ck_assert_int_eq(frame.ip_id, i % 2); /* two by two in one */
	}
	for (unsigned int i = 0; i < 2; i++) {
		ck_assert_int_eq(node_receive(&nodes[i], &frame), -1);
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

	nodes_drain(nodes, 2);
	while (roster_owner(((struct udp_link *)from.link)->share.roster, free_slot))
		free_slot++;
	for (unsigned int i = 0; i < 4; i++) {
		uint32_t qpn = i < 3 ? qpns[i] : free_slot << SLOT_QPN_BITS;
		struct link_frame frame;
		int first, second;

		node_send(&from, &nodes[0], qpn, i);
		first = node_receive(&nodes[0], &frame);
		second = node_receive(&nodes[1], &frame);
		ck_assert_int_eq(first < 0 ? second : first, i);
		ck_assert_int_eq(first < 0 ? first : second, -1);
		ck_assert(!node_forward(&nodes[0], &frame));
	}
	node_close(&nodes[0]);
	node_close(&nodes[1]);
	node_close(&from);
}
END_TEST

/* --- deaths ------------------------------------------------------------------------------- */

/* With one of the addresses open. */
static void begin(const void *argument)
{
	const struct inherited *inherited = argument;

	inherited_close(inherited);
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
	nodes_check_each(from, nodes + 1, living - 1);
	for (unsigned int i = 0; i < dead; i++)
		kill_and_wait(pids[i * 3 % dead == i * 3 || dead % 3 ? i * 3 % dead : i]);
	nodes_check_each(from, nodes + 1, living - 1);
	nodes_expect_repair(from, nodes + 1, living - 1);
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
	ck_assert_uint_eq(nodes_check_each(&from, &node, 1), 0);
	kill_and_wait(pid);
	nodes_expect_repair(&from, &node, 1);
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

/* Whatever program is in place and whatever the roster says of indexes, it ends well; again. */
START_TEST(wrong_indexes_are_repaired)
{
	struct node nodes[MEMBERS], from = node_open(OTHER);

	for (unsigned int i = 0; i < MEMBERS; i++)
		nodes[i] = node_open(SHARED);
	for (unsigned int round = 0; round < 2; round++) {
		mix_up(&nodes[_i], _i, (_i + 3) % MEMBERS);
		nodes_expect_repair(&from, nodes, MEMBERS);
	}
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
	nodes_expect_repair(&from, nodes, MEMBERS);
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

	nodes_drain(nodes, 2);
	for (unsigned int i = 0; i < sizeof(indexes) / sizeof(*indexes); i++, signal.round--) {
		steer_fill(&signal.steer, roster_secret(roster), indexes[i]);
		ck_assert_int_eq(sendto(link->addresses[0]->send_fd, &signal, sizeof(signal), 0,
					(struct sockaddr *)&to, length),
				 sizeof(signal));
		nodes_drain(nodes, 2);
		for (unsigned int k = 0; k < 2; k++)
			ck_assert_int_lt(roster_index(roster, roster_self(node_roster(&nodes[k])),
						      &nodes[k].gid),
					 2);
	}
	nodes[2] = node_open(SHARED);
	for (unsigned int i = 0; i < 3; i++)
		node_close(&nodes[i]);
}
END_TEST

/* It has the others look, without a packet that goes astray. */
START_TEST(one_that_was_passed_over_has_indexes_checked)
{
	struct node nodes[MEMBERS];
	struct roster *roster;

	for (unsigned int i = 0; i < MEMBERS; i++)
		nodes[i] = node_open(SHARED);
	nodes_drain(nodes, MEMBERS);
	mix_up(&nodes[1], 1, 4);
	roster = node_roster(&nodes[0]);
	ck_assert_int_eq(roster_lock(roster), 0);
	roster->table->lock.epoch++;
	udp_share_unlock((struct udp_share *)node_share(&nodes[0]));
	nodes_drain(nodes, MEMBERS);
	for (unsigned int i = 0; i < MEMBERS; i++)
		ck_assert_int_eq(
			roster_index(roster, roster_self(node_roster(&nodes[i])), &nodes[i].gid),
			i);
	for (unsigned int i = 0; i < MEMBERS; i++)
		node_close(&nodes[i]);
}
END_TEST

/* It is in no group that it has no use for. */
START_TEST(an_address_that_fails_is_left)
{
	struct node nodes[] = {node_open(SHARED), node_open(OTHER)};
	struct rlimit limit, less;
	int fd = dup(0);

	close(fd);
	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	less = (struct rlimit){fd + 1, limit.rlim_max}; /* for the receiving socket */
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &less), 0);
	ck_assert_int_eq(nodes[1].link->ops->add_address(nodes[1].link, &nodes[0].gid, 0), EMFILE);
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	ck_assert_uint_eq(roster_sockets(node_roster(&nodes[0]), &nodes[0].gid), 1);
	ck_assert_uint_eq(nodes_check_each(&nodes[1], &nodes[0], 1), 0);
	node_close(&nodes[0]);
	node_close(&nodes[1]);
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

	nodes_drain(nodes, 2);
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

struct datagram {
	uint8_t bytes[400];
	ssize_t length;
};

/* Which @to gets when its port is a stranger's, as that of one that was killed may be. */
static struct datagram steal(const struct node *from, const struct node *to)
{
	uint16_t port = roster_control_port(node_roster(to), roster_self(node_roster(to)));
	struct sockaddr_in address = on_loopback(0);
	const struct bth bth = {.dest_qp = htobe32(QPN_GSI)};
	const struct link_frame frame = {.data = (const uint8_t *)&bth, .length = sizeof(bth)};
	socklen_t length = sizeof(address);
	struct datagram stolen;
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, length), 0);
	ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&address, &length), 0);
	roster_set_control_port(node_roster(to), ntohs(address.sin_port));
	ck_assert(udp_forward_to((struct udp_share *)node_share(from), &frame,
				 roster_self(node_roster(to))));
	roster_set_control_port(node_roster(to), port);
	stolen.length = recv(fd, stolen.bytes, sizeof(stolen.bytes), MSG_DONTWAIT);
	ck_assert_int_gt(stolen.length, (ssize_t)sizeof(bth));
	close(fd);
	return stolen;
}

static bool takes(struct node *node, const struct datagram *datagram)
{
	uint32_t member = roster_self(node_roster(node));
	struct sockaddr_in to = on_loopback(roster_control_port(node_roster(node), member));
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	struct link_frame frame;

	ck_assert_int_eq(sendto(fd, datagram->bytes, datagram->length, 0, (struct sockaddr *)&to,
				sizeof(to)),
			 datagram->length);
	close(fd);
	roster_notify(node_roster(node), member);
	return node->link->ops->receive(node->link, &frame, 1, 0) == 1;
}

/* With it nothing can be forged, neither for a control socket nor for the program. */
START_TEST(what_is_sent_to_a_member_counts_there_alone)
{
	struct node nodes[] = {node_open(SHARED), node_open(SHARED), node_open(SHARED)};
	struct datagram stolen;
	struct steer_signal signal;

	nodes_drain(nodes, 3);
	stolen = steal(&nodes[0], &nodes[1]);
	steer_fill(&signal, roster_secret(node_roster(&nodes[0])), 0);
	ck_assert_ptr_null(
		memmem(stolen.bytes, stolen.length, signal.secret, sizeof(signal.secret)));
	ck_assert(takes(&nodes[1], &stolen));
	ck_assert(!takes(&nodes[0], &stolen));
	ck_assert(!takes(&nodes[2], &stolen));
	/* Nor is one completed by what the one before it has left in the receiver's memory. */
	for (stolen.length = 1; stolen.length < 8; stolen.length++)
		ck_assert(!takes(&nodes[1], &stolen));
	for (unsigned int i = 0; i < 3; i++)
		node_close(&nodes[i]);
}
END_TEST

#define FLOOD 200 /* datagrams: a socket has space for them */

/* What strangers send to a control socket, faster than it is read, keeps no thread there. */
START_TEST(a_flood_of_strangers_datagrams_ends)
{
	struct node node = node_open(SHARED);
	const struct udp_share *share = (struct udp_share *)node_share(&node);
	const struct sockaddr_in to =
		on_loopback(roster_control_port(share->roster, roster_self(share->roster)));
	int fd = socket(AF_INET, SOCK_DGRAM, 0), calls;
	struct link_frame frame;
	char byte;

	nodes_drain(&node, 1);
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

/* --- links that leave ------------------------------------------------------------------------ */

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
			node_send(stream->from, stream->to, stream->to->qpn, stream->sent++);
	}
	return NULL;
}

static void receive_stream(struct node *node, struct stream *stream)
{
	struct link_frame frame;

	for (int i = 0; i < UNREAD_MOST && node_receive(node, &frame) >= 0; i++)
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
	struct sock_diag *diag;
	struct backlog *backlog = sock_diag_create(&diag) == 0 ? backlog_create(diag) : NULL;
	struct link_frame frame;

	for (unsigned int i = 0; i < MEMBERS; i++)
		nodes[i] = node_open(SHARED);
	if (!backlog ||
	    backlog_rcvbuf_space(backlog, &(struct backlog_socket){&path.destination}) ==
		    BACKLOG_UNKNOWN)
		return; /* a kernel without UDP_DIAG: nothing to test */
	backlog_destroy(backlog);
	sock_diag_destroy(diag);
	nodes_drain(nodes, MEMBERS);
	for (unsigned int i = 0; i < MEMBERS; i++) {
		before[i] = from.link->ops->rcvbuf_space(from.link, &path, nodes[i].qpn);
		ck_assert_uint_lt(before[i], 200000);
	}
	for (uint32_t psn = 0; psn < 10; psn++)
		node_send(&from, &nodes[3], nodes[3].qpn, psn);
	for (unsigned int i = 0; i < MEMBERS; i++) {
		uint32_t space = from.link->ops->rcvbuf_space(from.link, &path, nodes[i].qpn);

		if (i == 3)
			ck_assert_uint_lt(space, before[i]);
		else
			ck_assert_uint_eq(space, before[i]);
	}
	while (node_receive(&nodes[3], &frame) >= 0)
		;
	for (unsigned int i = 0; i < MEMBERS; i++) {
		ck_assert_uint_eq(from.link->ops->rcvbuf_space(from.link, &path, nodes[i].qpn),
				  before[i]);
		node_close(&nodes[i]);
	}
	node_close(&from);
}
END_TEST

#define LATE 300000 /* us: many times as long as an idle machine takes to run a new process */

/* As one that is spawned has, until exec() closes it. */
START_TEST(waits_for_a_child_that_has_its_socket)
{
	struct node node = node_open(SHARED);
	pid_t child = fork();
	int status;

	ck_assert_int_ge(child, 0);
	if (child == 0) {
		usleep(LATE);
		_exit(0);
	}
	node_close(&node);
	node = node_open(SHARED);
	node_close(&node);
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
}
END_TEST

START_TEST(leases_grow)
{
	struct node node = node_open(SHARED);
	uint32_t total = SLOT_QPNS;
	struct lease lease;

	for (int i = 0; i < 5; i++) {
		ck_assert_int_eq(node_share(&node)->ops->lease_qpns(node_share(&node), &lease), 0);
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

	own_network_enter(tests);
	tcase_set_timeout(tests, 100);
	tcase_add_test(tests, each_gets_its_own);
	tcase_add_test(tests, super_packets_dont_mix_receivers);
	tcase_add_test(tests, packets_without_an_owner_come_to_one_link);
	tcase_add_loop_test(tests, deaths_are_repaired, 0, 6);
	tcase_add_test(tests, a_process_that_is_stopped_while_it_enters_keeps_none_out);
	tcase_add_loop_test(tests, wrong_indexes_are_repaired, 0, MEMBERS);
	tcase_add_test(tests, no_time_keeps_them_from_repair);
	tcase_add_test(tests, signals_to_no_socket_are_ignored);
	tcase_add_test(tests, one_that_was_passed_over_has_indexes_checked);
	tcase_add_test(tests, an_address_that_fails_is_left);
	tcase_add_test(tests, strangers_signals_are_packets);
	tcase_add_test(tests, what_is_sent_to_a_member_counts_there_alone);
	tcase_add_test(tests, a_flood_of_strangers_datagrams_ends);
	tcase_add_test(tests, nothing_is_lost_while_others_leave);
	tcase_add_test(tests, space_is_the_receivers);
	tcase_add_test(tests, waits_for_a_child_that_has_its_socket);
	tcase_add_test(tests, leases_grow);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
