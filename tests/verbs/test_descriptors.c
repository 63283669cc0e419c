/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Descriptors run out, at each place where one is opened: some call says so by an errno, or
 * nothing is noticed at all; what was made is destroyed; and then everything works. And
 * applications close descriptors that aren't theirs: they are told that the device is gone, what
 * they open in place of it stays as it is, and the device can be opened again.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "net/tuning.h"
#include "tests/must.h"
#include "tests/progress_threads.h"
#include "tests/run_suite.h"
#include "tests/said.h"
#include "tests/sanitizers.h"
#include "tests/verbs/fixture.h"
#include "tests/verbs/manager.h"
#include "tests/verbs/newer_rsocket.h"
#include "tests/verbs/rsockets.h"
#include "tests/verbs/scenario.h"

#define CHILD_PATIENCE 600 /* seconds, for one child on a busy machine */
#define MOST 200	   /* descriptors of a scenario */
#define SPARE 20	   /* descriptors for groups */

/* --- too few --------------------------------------------------------------------------- */

static int (*const scenarios[])(void) = {scenario_verbs, scenario_manager, scenario_sockets};

static void set_limit(rlim_t limit)
{
	struct rlimit rlimit;

	must(getrlimit(RLIMIT_NOFILE, &rlimit) == 0);
	rlimit.rlim_cur = limit;
	must(setrlimit(RLIMIT_NOFILE, &rlimit) == 0);
}

/* With @count descriptors left. Returns the scenario's error. */
static int run_child(int (*scenario)(void), int count)
{
	int next = dup(0), error, again;
	struct rlimit before;

	alarm(CHILD_PATIENCE);
	must(next > 0 && close(next) == 0 && getrlimit(RLIMIT_NOFILE, &before) == 0);
	set_limit(next + count);
	error = scenario();
	set_limit(before.rlim_cur);
	again = scenario();
	/* The devices are listed once. */
	must_msg(again == 0 || (error && again == ENODEV), "afterwards: %s", strerror(again));
	return error;
}

/* No device to be listed; attaching to a group has ENOMEM for whatever runs out. */
static bool is_expected(int error)
{
	return error == 0 || error == EMFILE || error == ENODEV || error == ENOMEM;
}

START_TEST(too_few_are_an_error)
{
	int status, count = -1;
	pid_t pid;

	do {
		pid = fork();
		must(pid >= 0);
		if (pid == 0)
			_exit(run_child(scenarios[_i], count + 1));
		must(waitpid(pid, &status, 0) == pid);
		count++;
		ck_assert_msg(WIFEXITED(status), "scenario %d with %d left: status %#x", _i, count,
			      status);
		ck_assert_msg(is_expected(WEXITSTATUS(status)), "scenario %d with %d left: %s", _i,
			      count, strerror(WEXITSTATUS(status)));
	} while (WEXITSTATUS(status) && count < MOST);
	ck_assert_int_eq(WEXITSTATUS(status), 0);
	ck_assert_int_gt(count, 5);
}
END_TEST

static int next_descriptor(void)
{
	int next = dup(0);

	must(next > 0 && close(next) == 0);
	return next;
}

/* As poll(2) needs none. */
START_TEST(rpoll_needs_no_descriptor)
{
	struct pollfd fd = {.events = POLLIN};
	struct rlimit before;
	int client;

	must(getrlimit(RLIMIT_NOFILE, &before) == 0);
	open_streams(&client, &fd.fd);
	settle(client, fd.fd);
	set_limit(next_descriptor());
	ck_assert_int_eq(rpoll(&fd, 1, 100), 0);
	send_all(client, "", 1);
	ck_assert_int_eq(rpoll(&fd, 1, PATIENCE), 1);
	ck_assert_int_eq(fd.revents, POLLIN);
	set_limit(before.rlim_cur);
	ck_assert_int_eq(rclose(client), 0);
	ck_assert_int_eq(rclose(fd.fd), 0);
}
END_TEST

/* As epoll_wait(2) needs none. */
START_TEST(repoll_wait_needs_no_descriptor)
{
	struct epoll_event event = {.events = EPOLLIN};
	int client, server, epoll = newer_repoll_create(0);
	struct rlimit before;

	must(getrlimit(RLIMIT_NOFILE, &before) == 0);
	ck_assert_int_ge(epoll, 0);
	open_streams(&client, &server);
	settle(client, server);
	set_limit(next_descriptor());
	ck_fails(newer_repoll_create(0), EMFILE);
	ck_assert_int_eq(newer_repoll_ctl(epoll, EPOLL_CTL_ADD, server, &event), 0);
	ck_assert_int_eq(newer_repoll_wait(epoll, &event, 1, 100), 0);
	send_all(client, "", 1);
	ck_assert_int_eq(newer_repoll_wait(epoll, &event, 1, PATIENCE), 1);
	ck_assert_uint_eq(event.events, EPOLLIN);
	set_limit(before.rlim_cur);
	ck_assert_int_eq(rclose(epoll), 0);
	ck_assert_int_eq(rclose(client), 0);
	ck_assert_int_eq(rclose(server), 0);
}
END_TEST

/* Whichever of those that it needs can't be had. */
START_TEST(what_cant_be_opened_leaves_none)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	int next = next_descriptor(), refused = 0;
	struct ibv_context *context = NULL;
	struct rlimit before;

	must(list && getrlimit(RLIMIT_NOFILE, &before) == 0);
	for (int count = 0; !context && count < MOST; count++) {
		set_limit(next + count);
		context = ibv_open_device(list[0]);
		set_limit(before.rlim_cur);
		if (context)
			break;
		ck_assert_int_eq(next_descriptor(), next);
		refused++;
	}
	ck_assert_ptr_nonnull(context);
	ck_assert_int_gt(refused, 1);
	fixture_close(context);
	ibv_free_device_list(list);
}
END_TEST

/* To one group after the other. Returns the error that ends it. */
static int attach_all(struct ibv_qp *qp, union ibv_gid *group, int *attached)
{
	int error = 0;

	for (*attached = 0; !error && *attached < MOST; *attached += !error) {
		group->raw[15] = *attached;
		error = ibv_attach_mcast(qp, group, 0);
	}
	return error;
}

/* ENODEV would say that the node has no interface for the group. */
START_TEST(groups_take_descriptors_until_there_is_none)
{
	union ibv_gid group = {.raw = {[10] = 0xff, 0xff, 239, 77, 15}};
	static struct pair pair;
	struct rlimit before;
	int attached, next;

	pair_open(&pair, IBV_QPT_UD, 0);
	must(getrlimit(RLIMIT_NOFILE, &before) == 0);
	next = dup(0);
	must(next > 0 && close(next) == 0);
	set_limit(next + SPARE);
	for (int round = 0; round < 2; round++) {
		ck_assert_int_eq(attach_all(pair.receiver, &group, &attached), ENOMEM);
		ck_assert_int_gt(attached, 0);
		ck_assert_int_eq(ibv_attach_mcast(pair.receiver, &group, 0), ENOMEM);
		while (attached--) {
			group.raw[15] = attached;
			ck_assert_int_eq(ibv_detach_mcast(pair.receiver, &group, 0), 0);
		}
	}
	set_limit(before.rlim_cur);
	pair_close(&pair);
}
END_TEST

/* --- without stdio ---------------------------------------------------------------------- */

/* What a daemon without stdio opens there, or prints, is none of the library's. */
START_TEST(none_is_stdin_stdout_or_stderr)
{
	struct ibv_comp_channel *channel;
	int saved[3], client, server, taken = 0;
	struct pair pair;

	for (int fd = 0; fd < 3; fd++) {
		saved[fd] = fcntl(fd, F_DUPFD_CLOEXEC, 3);
		must(saved[fd] >= 3 && close(fd) == 0);
	}
	pair_open(&pair, IBV_QPT_RC, 0);
	channel = ibv_create_comp_channel(pair.context);
	must(channel);
	for (int i = 0; i < 2 * UDP_CONNECT_AFTER; i++) {
		must(post_write(&pair, 1) == 0);
		must(wait_completion(pair.send_cq).status == IBV_WC_SUCCESS);
	}
	open_streams(&client, &server);
	for (int fd = 0; fd < 3; fd++) {
		taken |= (fcntl(fd, F_GETFD) >= 0) << fd;
		must(dup2(saved[fd], fd) == fd && close(saved[fd]) == 0);
	}
	ck_assert_int_eq(taken, 0);
	ck_assert_int_eq(rclose(client), 0);
	ck_assert_int_eq(rclose(server), 0);
	ck_assert_int_eq(ibv_destroy_comp_channel(channel), 0);
	pair_close(&pair);
}
END_TEST

/* --- closed ---------------------------------------------------------------------------- */

enum instead { NOTHING, FILES, SOCKETS, INSTEADS };

/* An application's own, in place of all of the library's: whatever is done to them shows. */
struct taken {
	int first, last; /* open, and the library's between them */
	int file, socket;
	enum instead instead;
	char path[32];
};

static void begin_taking(struct taken *taken)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t length = sizeof(address);
	const char byte = 'x';

	strcpy(taken->path, "/tmp/urxe-taken-XXXXXX");
	taken->file = mkstemp(taken->path);
	taken->socket = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
	must(taken->file >= 0 && taken->socket >= 0);
	must(bind(taken->socket, (struct sockaddr *)&address, length) == 0);
	must(getsockname(taken->socket, (struct sockaddr *)&address, &length) == 0);
	must(connect(taken->socket, (struct sockaddr *)&address, length) == 0);
	must(send(taken->socket, &byte, 1, 0) == 1);
	taken->first = dup(0);
	must(taken->first > taken->socket);
}

/*
 * A number behind all that are open; what was closed has left some free between them: these, too.
 */
static int open_last(void)
{
	int fd, highest = MOST;

	while (fcntl(highest, F_GETFD) < 0)
		highest--;
	do
		fd = dup(0);
	while (fd < highest);
	return fd;
}

/*
 * While the device is idle: a thread that has looked less than UDP_VERIFY ago takes what it saw
 * for the library's still (net/tuning.h). From the last one down: the loss of its wake-up, which
 * was opened first, wakes the progress thread, and it gives the rest but PROGRESS_CLOSING.
 *
 * By number: TSan takes a close() while another thread uses the descriptor for a race.
 */
static void take(struct taken *taken, enum instead instead)
{
	progress_threads_wait_until_idle();
	taken->instead = instead;
	taken->last = open_last();
	must(taken->last > taken->first + 5);
	for (int fd = taken->last - 1; fd > taken->first; fd--) {
		if (instead == NOTHING)
			must(syscall(SYS_close, fd) == 0);
		else
			must(syscall(SYS_dup3, instead == FILES ? taken->file : taken->socket, fd,
				     0) == fd);
	}
}

/* Nothing was written to them, read from them, and they are still open. */
static void end_taking(struct taken *taken)
{
	char byte;

	for (int fd = taken->first + 1; fd < taken->last && taken->instead != NOTHING; fd++)
		must_msg(syscall(SYS_close, fd) == 0, "%d was closed", fd);
	must(lseek(taken->file, 0, SEEK_END) == 0);
	must(recv(taken->socket, &byte, 1, 0) == 1 && byte == 'x');
	must(recv(taken->socket, &byte, 1, 0) < 0);
	close(taken->first);
	close(taken->last);
	close(taken->file);
	close(taken->socket);
	unlink(taken->path);
}

static _Atomic pid_t waiting; /* the thread that waits for an event */

static void *wait_for_async_event(void *context)
{
	static struct ibv_async_event event;

	waiting = gettid();
	must(ibv_get_async_event(context, &event) == 0);
	ibv_ack_async_event(&event);
	return &event;
}

static void post_until_flushed(struct pair *pair)
{
	struct ibv_wc wc;

	do {
		post_write(pair, 1);
		while (ibv_poll_cq(pair->send_cq, 1, &wc) == 0)
			;
	} while (wc.status == IBV_WC_SUCCESS);
	must(wc.status == IBV_WC_WR_FLUSH_ERR);
}

/* A domain of a file of its own, by which the library keeps a descriptor. */
static struct ibv_xrcd *open_domain(struct ibv_context *context)
{
	struct ibv_xrcd_init_attr attr = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = memfd_create("domain", 0),
		.oflags = O_CREAT,
	};
	struct ibv_xrcd *xrcd;

	must(attr.fd >= 0);
	xrcd = ibv_open_xrcd(context, &attr);
	must(xrcd);
	return xrcd;
}

/* The application goes on with its device, or waits for events only. */
static void lose_descriptors(enum instead instead, bool posts)
{
	struct ibv_async_event *event;
	struct ibv_device **list;
	static struct said said;
	struct ibv_xrcd *xrcd;
	struct taken taken;
	struct pair pair;
	pthread_t thread;
	void *result;

	/*
	 * Not URXE_EXPLAIN: TSan would hold the files that libdw opens for those that were closed.
	 */
	setenv("URXE_LOG", "info", 1);
	said_begin(&said);
	begin_taking(&taken);
	pair_open(&pair, IBV_QPT_RC, 0);
	xrcd = open_domain(pair.context);
	must(post_write(&pair, 1) == 0);
	must(wait_completion(pair.send_cq).status == IBV_WC_SUCCESS);
	must(pthread_create(&thread, NULL, wait_for_async_event, pair.context) == 0);
	wait_until_asleep(&waiting);
	take(&taken, instead);
	if (posts)
		post_until_flushed(&pair);
	must(pthread_join(thread, &result) == 0);
	event = result;
	must(event->event_type == IBV_EVENT_DEVICE_FATAL);

	/* It is gone until nothing has it open. */
	must(list = ibv_get_device_list(NULL));
	errno = 0;
	must(!ibv_open_device(list[0]) && errno == EIO);
	ibv_free_device_list(list);
	must(ibv_close_xrcd(xrcd) == 0);
	pair_close(&pair);
	end_taking(&taken);
	must(scenario_verbs() == 0);
	said_end(&said);
	must(said_count(&said, CAUSE_DESCRIPTORS_CLOSED) == 1);
}

START_TEST(a_device_without_its_descriptors_is_gone)
{
	lose_descriptors(_i % INSTEADS, _i >= INSTEADS);
}
END_TEST

static void *wait_for_cm_event(void *channel)
{
	struct rdma_cm_event *event;

	waiting = gettid();
	must(rdma_get_cm_event(channel, &event) == 0);
	must(event->event == RDMA_CM_EVENT_DEVICE_REMOVAL);
	must(rdma_ack_cm_event(event) == 0);
	return NULL;
}

START_TEST(a_listener_learns_that_its_device_is_gone)
{
	struct rdma_event_channel *channel;
	struct rdma_cm_id *listener;
	struct taken taken;
	pthread_t thread;

	begin_taking(&taken);
	channel = open_channel();
	listener = open_bound_id(channel, RDMA_PS_TCP);
	must(rdma_listen(listener, 1) == 0);
	must(pthread_create(&thread, NULL, wait_for_cm_event, channel) == 0);
	wait_until_asleep(&waiting);
	take(&taken, _i);
	must(pthread_join(thread, NULL) == 0);
	must(rdma_destroy_id(listener) == 0);
	rdma_destroy_event_channel(channel);
	end_taking(&taken);
}
END_TEST

static void *receive_one(void *server)
{
	char byte;

	waiting = gettid();
	receive_all(*(int *)server, &byte, 1);
	return NULL;
}

/* A thread has slept on descriptors of it that only closing uses again. */
START_TEST(rsockets_are_closed_without_their_descriptors)
{
	struct taken taken;
	pthread_t thread;
	int client, server;

	begin_taking(&taken);
	open_streams(&client, &server);
	must(pthread_create(&thread, NULL, receive_one, &server) == 0);
	wait_until_asleep(&waiting);
	send_all(client, "a", 1);
	must(pthread_join(thread, NULL) == 0);
	take(&taken, _i);
	must(rclose(client) == 0);
	must(rclose(server) == 0);
	end_taking(&taken);
}
END_TEST

/* --- daemon() -------------------------------------------------------------------------- */

/* The parent's thread that receives isn't in the daemon. */
static void run_daemon(int report)
{
	struct rdma_event_channel *channel = open_channel();
	struct rdma_cm_id *listener = open_bound_id(channel, RDMA_PS_TCP);
	struct pollfd poll_fd = {.fd = channel->fd, .events = POLLIN};
	struct rdma_cm_event *event;
	int error;

	must(rdma_listen(listener, 1) == 0);
	must(daemon(1, 1) == 0);
	alarm(CHILD_PATIENCE);
	must(poll(&poll_fd, 1, -1) == 1);
	errno = 0;
	error = rdma_get_cm_event(channel, &event) == 0 ? 0 : errno;
	must(write(report, &error, sizeof(error)) == sizeof(error));
	_exit(0);
}

START_TEST(a_daemon_that_has_listened_before_is_told)
{
	int ends[2], error = 0, status;
	pid_t pid;

	must(pipe(ends) == 0);
	pid = fork();
	must(pid >= 0);
	if (pid == 0)
		run_daemon(ends[1]);
	close(ends[1]);
	must(waitpid(pid, &status, 0) == pid && status == 0);
	must(read(ends[0], &error, sizeof(error)) == sizeof(error));
	ck_assert_int_ne(error, 0);
	close(ends[0]);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("descriptors");
	TCase *tests = tcase_create("descriptors");

	fixture_environment();
	tcase_set_timeout(tests, 2 * CHILD_PATIENCE);
	tcase_add_loop_test(tests, too_few_are_an_error, 0, sizeof(scenarios) / sizeof(*scenarios));
	tcase_add_test(tests, rpoll_needs_no_descriptor);
	tcase_add_test(tests, repoll_wait_needs_no_descriptor);
	tcase_add_test(tests, what_cant_be_opened_leaves_none);
	tcase_add_test(tests, groups_take_descriptors_until_there_is_none);
	tcase_add_test(tests, none_is_stdin_stdout_or_stderr);
	tcase_add_loop_test(tests, a_device_without_its_descriptors_is_gone, 0, 2 * INSTEADS);
	tcase_add_loop_test(tests, a_listener_learns_that_its_device_is_gone, 0, INSTEADS);
	tcase_add_loop_test(tests, rsockets_are_closed_without_their_descriptors, 0, INSTEADS);
	if (CHILD_ALLOCATES)
		tcase_add_test(tests, a_daemon_that_has_listened_before_is_told);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
