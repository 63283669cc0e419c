/* SPDX-License-Identifier: BSD-2-Clause */
/* What a link knows of a peer on this machine that doesn't answer (net/udp/udp_peer.c). */
#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gid_of.h"
#include "killable.h"
#include "net/log.h"
#include "net/observe/observe.h"
#include "net/udp/udp_link.h"
#include "own_network.h"
#include "tests/cancelled.h"
#include "tests/run_suite.h"
#include "tests/said.h"
#include "wildcard_socket.h"

#define OURS "127.77.13.1"
#define THEIRS "127.77.13.2"
#define NO_PROCESSES "127.77.13.3"
#define ANOTHER_USER 65534
#define ELSEWHERE "192.0.2.1" /* RFC 5737 */

static struct link *open_link(const char *address, struct lease *lease)
{
	const struct udp_options options = {.receive_buffer = 100000};
	union ibv_gid gid = gid_of(address);
	struct link *link;

	ck_assert_int_eq(udp_link_create(&options, &link), 0);
	ck_assert_int_eq(link->ops->add_address(link, &gid, 0), 0);
	ck_assert_int_eq(link->share->ops->lease_qpns(link->share, lease), 0);
	return link;
}

static struct link_peer describe(struct link *link, const char *address, uint32_t qpn)
{
	const struct path path = {.source = gid_of(OURS), .destination = gid_of(address)};
	struct link_peer peer = {.state = LINK_PEER_QP};

	link->ops->describe_peer(link, &path, qpn, &peer);
	return peer;
}

/* A busy machine may have to wait until it may look again. */
static struct link_peer look(struct link *link, const char *address, uint32_t qpn)
{
	struct link_peer peer;

	while ((peer = describe(link, address, qpn)).state == LINK_PEER_UNKNOWN)
		usleep(1000);
	return peer;
}

/* The process of the peer: its link, and perhaps a QP with the first number of its lease. */
struct theirs {
	int qpn; /* a pipe, by which it tells the number */
	bool shows_qp;
};

static void show_qp(uint32_t qpn)
{
	struct observe *observe = observe_open(OBSERVE_DIRECTORY, NULL);
	struct observe_device *device = observe_claim(observe, OBSERVE_DEVICE, 0);
	struct observe_qp *qp = observe_claim(observe, OBSERVE_QP, observe_show(observe, device));

	qp->number = qpn;
	qp->peer_qpn = 0x42;
	qp->progress.state = IBV_QPS_ERR;
	qp->error_cause = 0x2107;
	memcpy(qp->local, gid_of(THEIRS).raw, sizeof(qp->local));
	memcpy(qp->peer, gid_of(OURS).raw, sizeof(qp->peer));
	observe_show(observe, qp);
}

static void live(const void *argument)
{
	const struct theirs *theirs = argument;
	struct lease lease;

	open_link(THEIRS, &lease);
	if (theirs->shows_qp)
		show_qp(lease.first);
	if (write(theirs->qpn, &lease.first, sizeof(lease.first)) != sizeof(lease.first))
		_exit(1);
}

static pid_t start(bool shows_qp, uint32_t *qpn)
{
	struct theirs theirs = {.shows_qp = shows_qp};
	int ends[2];
	pid_t pid;

	ck_assert_int_eq(pipe(ends), 0);
	theirs.qpn = ends[1];
	pid = killable_process(live, &theirs);
	ck_assert_int_eq(read(ends[0], qpn, sizeof(*qpn)), sizeof(*qpn));
	close(ends[0]);
	close(ends[1]);
	return pid;
}

START_TEST(addresses)
{
	struct lease lease;
	struct link *link = open_link(OURS, &lease);
	int wildcard;

	ck_assert_int_eq(describe(link, NO_PROCESSES, 0x42).state, LINK_PEER_NOT_THERE);
	ck_assert_int_eq(describe(link, ELSEWHERE, 0x42).state, LINK_PEER_UNKNOWN);
	/* A socket everywhere has the address, too, but isn't urxe's. */
	wildcard = wildcard_socket();
	ck_assert_int_eq(describe(link, NO_PROCESSES, 0x42).state, LINK_PEER_UNKNOWN);
	close(wildcard);
	link->ops->close(link);
}
END_TEST

/* Another program of the same user that speaks RoCE numbers its queue pairs as it likes. */
START_TEST(an_address_of_another_program)
{
	const struct sockaddr_in name = {.sin_family = AF_INET,
					 .sin_port = htons(ROCE_V2_UDP_PORT),
					 .sin_addr.s_addr = inet_addr(NO_PROCESSES)};
	struct lease lease;
	struct link *link = open_link(OURS, &lease);
	int program = socket(AF_INET, SOCK_DGRAM, 0);

	ck_assert_int_eq(bind(program, (const struct sockaddr *)&name, sizeof(name)), 0);
	ck_assert_int_eq(describe(link, NO_PROCESSES, 0x42).state, LINK_PEER_UNKNOWN);
	/* Not even a number that is one of ours. */
	ck_assert_int_eq(describe(link, NO_PROCESSES, lease.first).state, LINK_PEER_UNKNOWN);
	close(program);
	ck_assert_int_eq(describe(link, NO_PROCESSES, 0x42).state, LINK_PEER_NOT_THERE);
	link->ops->close(link);
}
END_TEST

START_TEST(a_process_without_the_queue_pair)
{
	struct lease lease;
	struct link *link = open_link(OURS, &lease);
	uint32_t qpn;
	pid_t pid = start(false, &qpn);

	ck_assert_int_eq(look(link, THEIRS, qpn).state, LINK_PEER_NO_QP);
	/* Our own address, and our own numbers. */
	ck_assert_int_eq(look(link, OURS, lease.first).state, LINK_PEER_NO_QP);
	kill_and_wait(pid);
	link->ops->close(link);
}
END_TEST

START_TEST(a_queue_pair)
{
	struct lease lease;
	struct link *link = open_link(OURS, &lease);
	const union ibv_gid ours = gid_of(OURS);
	struct link_peer peer;
	uint32_t qpn;
	pid_t pid = start(true, &qpn);

	peer = look(link, THEIRS, qpn);
	ck_assert_int_eq(peer.state, LINK_PEER_QP);
	ck_assert_int_eq(peer.pid, pid);
	ck_assert_ptr_nonnull(strstr(peer.command, "test_udp_peer"));
	ck_assert(!peer.stopped);
	ck_assert_int_eq(peer.qp_state, IBV_QPS_ERR);
	ck_assert_uint_eq(peer.peer_qpn, 0x42);
	ck_assert_uint_eq(peer.error, 0x2107);
	ck_assert(gid_equal(&peer.peer_gid, &ours));
	ck_assert_int_eq(look(link, THEIRS, qpn + 1).state, LINK_PEER_NO_QP);

	kill(pid, SIGSTOP);
	ck_assert_int_eq(waitpid(pid, NULL, WUNTRACED), pid);
	ck_assert(look(link, THEIRS, qpn).stopped);

	/* With its process goes its socket; one of another process keeps the address open. */
	kill_and_wait(pid);
	ck_assert_int_eq(look(link, THEIRS, qpn).state, LINK_PEER_NOT_THERE);
	pid = start(false, &(uint32_t){0});
	ck_assert_int_eq(look(link, THEIRS, qpn).state, LINK_PEER_ENDED);
	kill_and_wait(pid);
	link->ops->close(link);
}
END_TEST

/* So that a thousand queue pairs of one peer don't take seconds; but later again. */
START_TEST(not_too_often)
{
	struct lease lease;
	struct link *link = open_link(OURS, &lease);
	unsigned int known = 0;

	while (known < 1000 && describe(link, OURS, lease.first).state != LINK_PEER_UNKNOWN)
		known++;
	ck_assert_uint_gt(known, 0);
	ck_assert_uint_lt(known, 1000);
	ck_assert_int_eq(look(link, OURS, lease.first).state, LINK_PEER_NO_QP);
	link->ops->close(link);
}
END_TEST

/*
 * A queue pair's lock is held when the kernel refuses a packet and when its peer is described; the
 * link's is, for seconds, while an address is added, if another process has the roster locked.
 */
START_TEST(no_address_that_is_added_is_waited_for)
{
	struct lease lease;
	struct link *link = open_link(OURS, &lease);
	/* A broadcast without SO_BROADCAST: the kernel says EACCES. */
	const struct path path = {.source = gid_of(OURS), .destination = gid_of("255.255.255.255")};
	struct link_packet packet = {
		.path = &path, .headers_length = sizeof(struct bth), .trailer_length = ICRC_LENGTH};
	pthread_mutex_t *lock = &((struct udp_link *)link)->lock;
	struct link_peer peer;

	pthread_mutex_lock(lock);
	ck_assert_uint_eq(link->ops->send(link, &packet, 1, 77), 1);
	peer = describe(link, "255.255.255.255", 0x42);
	ck_assert_int_eq(peer.refused, EACCES);
	ck_assert_uint_eq(peer.refused_at, 77);
	ck_assert_int_eq(look(link, OURS, lease.first).state, LINK_PEER_NO_QP);
	pthread_mutex_unlock(lock);
	link->ops->close(link);
}
END_TEST

static void send_at(struct link *link, const char *to, uint64_t now)
{
	const struct path path = {.source = gid_of(OURS), .destination = gid_of(to)};
	struct link_packet packet = {
		.path = &path, .headers_length = sizeof(struct bth), .trailer_length = ICRC_LENGTH};

	ck_assert_uint_eq(link->ops->send(link, &packet, 1, now), 1);
}

/* Once for as long as nothing changes: each packet is retransmitted, and there may be many. */
START_TEST(refusals_are_reported)
{
	static struct said said;
	struct lease lease;
	struct link *link = open_link(OURS, &lease);

	log_set_level(LOG_INFO);
	said_begin(&said);
	for (uint64_t now = 0; now < 100 * NS_PER_S; now += NS_PER_S)
		send_at(link, "255.255.255.255", now);
	said_end(&said);
	ck_assert_uint_eq(said_count(&said, CAUSE_SEND_REFUSED), 1);
	ck_assert_ptr_nonnull(strstr(said.text, "IP packets of 44 bytes from " OURS
						" to 255.255.255.255: Permission denied"));
	said_begin(&said);
	send_at(link, "255.255.255.255", 200 * NS_PER_S);
	send_at(link, "fd77::1", 200 * NS_PER_S); /* no address of this socket */
	send_at(link, "255.255.255.255", 200 * NS_PER_S);
	said_end(&said);
	ck_assert_uint_eq(said_count(&said, CAUSE_SEND_REFUSED), 3);
	/* That the application has closed it is reported when it is found out. */
	close(((struct udp_link *)link)->addresses[0]->send_fd);
	said_begin(&said);
	send_at(link, "255.255.255.255", 200 * NS_PER_S);
	said_end(&said);
	ck_assert_uint_eq(said_count(&said, CAUSE_SEND_REFUSED), 0);
	link->ops->close(link);
}
END_TEST

struct question {
	struct link *link;
	struct path path;
};

static void ask(void *argument)
{
	const struct question *question = argument;
	struct link_peer peer;

	question->link->ops->describe_peer(question->link, &question->path, 0x42, &peer);
}

/* The completer asks, with locks held, in a thread that polls. */
START_TEST(without_being_cancelled)
{
	struct lease lease;
	struct link *link = open_link(OURS, &lease);
	const char *const addresses[] = {OURS, NO_PROCESSES, ELSEWHERE};

	for (int i = 0; i < 3; i++) {
		struct question question = {link, {.destination = gid_of(addresses[i])}};

		ck_assert(returns_cancelled(ask, &question));
	}
	link->ops->close(link);
}
END_TEST

static void live_as_another(const void *argument)
{
	struct lease lease;

	if (setuid(ANOTHER_USER) != 0)
		_exit(1);
	open_link(THEIRS, &lease);
}

/* Only root has other users' processes. */
START_TEST(another_user)
{
	struct lease lease;
	struct link *link = open_link(OURS, &lease);
	struct link_peer peer;
	pid_t pid;

	pid = killable_process(live_as_another, NULL);
	peer = describe(link, THEIRS, 0x1000);
	ck_assert_int_eq(peer.state, LINK_PEER_OTHER_USER);
	ck_assert_uint_eq(peer.uid, ANOTHER_USER);
	kill_and_wait(pid);
	link->ops->close(link);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("udp_peer");
	TCase *tests = tcase_create("udp_peer");

	tcase_set_timeout(tests, 100);
	tcase_add_test(tests, addresses);
	tcase_add_test(tests, an_address_of_another_program);
	tcase_add_test(tests, a_process_without_the_queue_pair);
	tcase_add_test(tests, a_queue_pair);
	tcase_add_test(tests, not_too_often);
	tcase_add_test(tests, no_address_that_is_added_is_waited_for);
	tcase_add_test(tests, refusals_are_reported);
	tcase_add_test(tests, without_being_cancelled);
	if (getuid() == 0)
		tcase_add_test(tests, another_user);
	own_network_enter(tests);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
