/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Signals during the calls that wait: those of verbs, rdma_cm and rsockets are restarted behind a
 * handler with SA_RESTART, as the read() of the real libraries is, and EINTR behind one without;
 * and a thread can be cancelled in them, after which others can make the same calls.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "tests/run_suite.h"
#include "tests/sanitizers.h"
#include "tests/verbs/fixture.h"
#include "tests/verbs/manager.h"
#include "tests/verbs/newer_rsocket.h"
#include "tests/verbs/rsockets.h"

static struct pair pair;
static struct rdma_event_channel *channel;
static struct rdma_cm_id *id;
static struct ibv_srq *srq;
static struct ibv_qp *shared; /* its receives are of @srq */
static int listener, stream, peer, datagram, connecting, accepted, epoll;
static uint16_t listener_port, datagram_port;
static bool filled; /* what @stream can send without waiting */

/* --- the calls, and what ends them ------------------------------------------------- */

static int wait_cq_event(void)
{
	struct ibv_cq *cq;
	void *context;
	int result = ibv_get_cq_event(pair.channel, &cq, &context);

	if (result == 0)
		ibv_ack_cq_events(cq, 1);
	return result;
}

static void raise_cq_event(void)
{
	struct ibv_sge sge = send_sge(&pair, 8);
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1}, *bad;

	ck_assert_int_eq(ibv_req_notify_cq(pair.recv_cq, 0), 0);
	post_receive(&pair, 1);
	ck_assert_int_eq(ibv_post_send(pair.sender, &wr, &bad), 0);
}

static int wait_async_event(void)
{
	struct ibv_async_event event;
	int result = ibv_get_async_event(pair.context, &event);

	if (result == 0)
		ibv_ack_async_event(&event);
	return result;
}

static void raise_async_event(void)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	ck_assert_int_eq(ibv_modify_qp(shared, &attr, IBV_QP_STATE), 0);
}

static int wait_cm_event(void)
{
	struct rdma_cm_event *event;
	int result = rdma_get_cm_event(channel, &event);

	if (result == 0)
		rdma_ack_cm_event(event);
	return result;
}

static void raise_cm_event(void)
{
	ck_assert_int_eq(rdma_resolve_addr(id, NULL, socket_address(NULL, 7), 1000), 0);
}

static int wait_byte(void)
{
	char byte;

	return rrecv(stream, &byte, 1, 0) == 1 ? 0 : -1;
}

static int wait_poll(void)
{
	struct pollfd polls[] = {{.fd = stream, .events = POLLIN},
				 {.fd = listener, .events = POLLIN},
				 {.fd = datagram, .events = POLLIN}};

	return rpoll(polls, 3, -1) == 1 ? 0 : -1;
}

static int wait_epoll(void)
{
	struct epoll_event event;

	return newer_repoll_wait(epoll, &event, 1, -1) == 1 ? 0 : -1;
}

static void raise_byte(void)
{
	send_all(peer, "a", 1);
}

static int wait_room(void)
{
	static const char bytes[4096];

	while (!filled)
		filled = rsend(stream, bytes, sizeof(bytes), MSG_DONTWAIT) < 0;
	return rsend(stream, bytes, 1, 0) == 1 ? 0 : -1;
}

static void raise_room(void)
{
	char bytes[4096];

	while (rrecv(peer, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
		;
}

static int wait_datagram(void)
{
	char byte;

	return rrecv(datagram, &byte, 1, 0) == 1 ? 0 : -1;
}

static void raise_datagram(void)
{
	const struct sockaddr *to = socket_address(NULL, datagram_port);
	int from = rsocket(to->sa_family, SOCK_DGRAM, 0);

	ck_assert_int_eq(rsendto(from, "a", 1, 0, to, address_length(to)), 1);
	ck_assert_int_eq(rclose(from), 0);
}

static int wait_accept(void)
{
	accepted = raccept(listener, NULL, NULL);
	return accepted < 0 ? -1 : 0;
}

/* What doesn't block is carried on by rpoll(), until the request waits or another thread has it. */
static void raise_accept(void)
{
	const struct sockaddr *to = socket_address(NULL, listener_port);
	struct pollfd polls[] = {{.fd = listener, .events = POLLIN},
				 {.fd = connecting, .events = POLLOUT}};

	ck_assert_int_eq(rfcntl(connecting, F_SETFL, O_NONBLOCK), 0);
	ck_fails(rconnect(connecting, to, address_length(to)), EINPROGRESS);
	ck_assert_int_ge(rpoll(polls, 2, PATIENCE), 1);
}

static int wait_connect(void)
{
	const struct sockaddr *to = socket_address(NULL, listener_port);

	return rconnect(connecting, to, address_length(to)) == 0 || errno == EISCONN ? 0 : -1;
}

static void raise_connect(void)
{
	ck_assert_int_eq(wait_accept(), 0);
}

static const struct {
	const char *name;
	int (*wait)(void);
	void (*raise)(void);
	bool by_poll;	    /* it sleeps there */
	bool not_restarted; /* as poll(): signal(7) */
} calls[] = {
	{"ibv_get_cq_event", wait_cq_event, raise_cq_event},
	{"ibv_get_async_event", wait_async_event, raise_async_event},
	{"rdma_get_cm_event", wait_cm_event, raise_cm_event},
	{"rrecv", wait_byte, raise_byte, .by_poll = true},
	{"rpoll", wait_poll, raise_byte, .by_poll = true, .not_restarted = true},
	{"repoll_wait", wait_epoll, raise_byte, .by_poll = true, .not_restarted = true},
	{"rsend", wait_room, raise_room, .by_poll = true},
	{"rrecv, datagram", wait_datagram, raise_datagram, .by_poll = true},
	{"raccept", wait_accept, raise_accept, .by_poll = true},
	{"rconnect", wait_connect, raise_connect, .by_poll = true},
};

#define CALLS (sizeof(calls) / sizeof(*calls))

/* --- the thread that waits ----------------------------------------------------------- */

struct waiter {
	int (*wait)(void);
	int result, error;
	_Atomic pid_t tid;
	_Atomic bool done;
	pthread_t thread;
};

static _Atomic unsigned int handled;

static void handler(int signal)
{
	handled++;
}

static void handle_signals(int flags)
{
	struct sigaction action = {.sa_handler = handler, .sa_flags = flags};

	ck_assert_int_eq(sigaction(SIGUSR1, &action, NULL), 0);
	handled = 0;
}

static void *waiter_run(void *argument)
{
	struct waiter *waiter = argument;

	waiter->tid = gettid();
	waiter->result = waiter->wait();
	waiter->error = errno;
	waiter->done = true;
	return NULL;
}

static void waiter_start(struct waiter *waiter, int (*wait)(void))
{
	*waiter = (struct waiter){.wait = wait};
	ck_assert_int_eq(pthread_create(&waiter->thread, NULL, waiter_run, waiter), 0);
	wait_until_asleep(&waiter->tid);
}

/* --- the tests ------------------------------------------------------------------------ */

static void open_rsockets(void)
{
	struct epoll_event event = {.events = EPOLLIN};

	open_streams(&stream, &peer);
	listener = open_listener(&listener_port);
	connecting = rsocket(socket_address(NULL, 0)->sa_family, SOCK_STREAM, 0);
	datagram = open_bound(SOCK_DGRAM, &datagram_port);
	epoll = newer_repoll_create(EPOLL_CLOEXEC);
	ck_assert_int_eq(newer_repoll_ctl(epoll, EPOLL_CTL_ADD, stream, &event), 0);
	ck_assert_int_eq(newer_repoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event), 0);
	ck_assert_int_eq(newer_repoll_ctl(epoll, EPOLL_CTL_ADD, datagram, &event), 0);
	accepted = -1;
	filled = false;
}

/* Those who were cancelled have nothing of it left: its descriptor is closed. */
static void close_rsocket(int socket)
{
	ck_assert_int_eq(rclose(socket), 0);
	ck_fails(fcntl(socket, F_GETFD), EBADF);
}

static void close_rsockets(void)
{
	close_rsocket(stream);
	close_rsocket(peer);
	close_rsocket(listener);
	close_rsocket(datagram);
	close_rsocket(connecting);
	close_rsocket(epoll);
	if (accepted >= 0)
		close_rsocket(accepted);
}

static void setup(void)
{
	struct ibv_srq_init_attr srq_attr = {.attr = {.max_wr = 1, .max_sge = 1}};
	struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC, .cap = {.max_send_wr = 1}};

	pair_open(&pair, IBV_QPT_RC, 0);
	channel = open_channel();
	id = open_id(channel, RDMA_PS_TCP);
	srq = ibv_create_srq(pair.pd, &srq_attr);
	ck_assert_ptr_nonnull(srq);
	attr.srq = srq;
	attr.send_cq = attr.recv_cq = pair.send_cq;
	shared = ibv_create_qp(pair.pd, &attr);
	ck_assert_ptr_nonnull(shared);
	connect_qp(shared, shared);
	open_rsockets();
}

static void teardown(void)
{
	destroy(id);
	rdma_destroy_event_channel(channel);
	ck_assert_int_eq(ibv_destroy_qp(shared), 0);
	ck_assert_int_eq(ibv_destroy_srq(srq), 0);
	pair_close(&pair);
	close_rsockets();
}

/* Those of the process that runs the tests: rsockets are only restarted if all ask for it. */
static void forget_handlers(void)
{
	static const int handled_by_check[] = {SIGALRM, SIGINT, SIGTERM};

	for (size_t i = 0; i < sizeof(handled_by_check) / sizeof(*handled_by_check); i++)
		ck_assert(signal(handled_by_check[i], SIG_DFL) != SIG_ERR);
}

START_TEST(restarted)
{
	struct waiter waiter;

	if (calls[_i].not_restarted)
		return;
	forget_handlers();
	handle_signals(SA_RESTART);
	waiter_start(&waiter, calls[_i].wait);
	for (unsigned int i = 1; i <= 3; i++) {
		ck_assert_int_eq(pthread_kill(waiter.thread, SIGUSR1), 0);
		while (handled < i && !waiter.done)
			usleep(1000);
	}
	calls[_i].raise();
	ck_assert_int_eq(pthread_join(waiter.thread, NULL), 0);
	ck_assert_msg(waiter.result == 0, "%s: errno %d", calls[_i].name, waiter.error);
}
END_TEST

/* Signals until it fails: one may come just before it sleeps. */
static void expect_interrupted(struct waiter *waiter)
{
	while (!waiter->done) {
		pthread_kill(waiter->thread, SIGUSR1);
		usleep(1000);
	}
	ck_assert_int_eq(pthread_join(waiter->thread, NULL), 0);
	ck_assert_int_eq(waiter->result, -1);
	ck_assert_int_eq(waiter->error, EINTR);
}

/* As sockets have it (signal(7)). */
START_TEST(not_restarted_with_timeout)
{
	const struct timeval timeout = {.tv_sec = PATIENCE / 1000};
	struct waiter waiter;

	ck_assert_int_eq(rsetsockopt(datagram, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout)),
			 0);
	forget_handlers();
	handle_signals(SA_RESTART);
	waiter_start(&waiter, wait_datagram);
	expect_interrupted(&waiter);
}
END_TEST

START_TEST(interrupted)
{
	struct waiter waiter;

	handle_signals(0);
	waiter_start(&waiter, calls[_i].wait);
	expect_interrupted(&waiter);
	/* What comes afterwards isn't lost. */
	calls[_i].raise();
	ck_assert_int_eq(calls[_i].wait(), 0);
}
END_TEST

START_TEST(cancelled)
{
	struct waiter waiter;
	void *result;

	/* TSan doesn't see what the cleanup handlers of a thread that ends in poll() unlock. */
	if (HAS_TSAN && calls[_i].by_poll)
		return;
	waiter_start(&waiter, calls[_i].wait);
	ck_assert_int_eq(pthread_cancel(waiter.thread), 0);
	ck_assert_int_eq(pthread_join(waiter.thread, &result), 0);
	ck_assert_ptr_eq(result, PTHREAD_CANCELED);
	calls[_i].raise();
	ck_assert_int_eq(calls[_i].wait(), 0);
}
END_TEST

/* Two events at once are for two threads. */
START_TEST(both_are_woken)
{
	struct waiter waiters[2];
	struct rdma_cm_id *other = open_id(channel, RDMA_PS_TCP);

	for (int i = 0; i < 2; i++)
		waiter_start(&waiters[i], wait_cm_event);
	raise_cm_event();
	ck_assert_int_eq(rdma_resolve_addr(other, NULL, socket_address(NULL, 7), 1000), 0);
	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(pthread_join(waiters[i].thread, NULL), 0);
		ck_assert_int_eq(waiters[i].result, 0);
	}
	destroy(other);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("signals");
	TCase *tests = tcase_create("signals");

	fixture_environment();
	tcase_set_timeout(tests, 60);
	tcase_add_checked_fixture(tests, setup, teardown);
	tcase_add_loop_test(tests, restarted, 0, CALLS);
	tcase_add_test(tests, not_restarted_with_timeout);
	tcase_add_loop_test(tests, interrupted, 0, CALLS);
	/* ASan of gcc 12 takes the stack of a cancelled thread for one that is in use. */
	if (!HAS_ASAN)
		tcase_add_loop_test(tests, cancelled, 0, CALLS);
	tcase_add_test(tests, both_are_woken);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
