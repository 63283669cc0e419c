/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What `urxe ctl` asks of a process that has devices open (verbs/control.h): what it does, to whom
 * it listens, and that neither forks nor an application that closes descriptors are in its way.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "net/control.h"
#include "net/process.h"
#include "net/syscalls.h"
#include "tests/must.h"
#include "tests/run_suite.h"
#include "tests/said.h"
#include "tests/sanitizers.h"
#include "tests/verbs/fixture.h"

#define PATIENCE 120 /* seconds, reached by a defect alone */

static int ask_process(pid_t pid, const char *question, struct control_reply *reply)
{
	*reply = (struct control_reply){};
	return control_ask(pid, process_namespace("pid"), question, PATIENCE, reply);
}

static int ask(const char *question, struct control_reply *reply)
{
	return ask_process(getpid(), question, reply);
}

static void obeys(const char *question)
{
	struct control_reply reply;
	int error = ask(question, &reply);

	ck_assert_msg(!error, "%s: %s", question, strerror(error));
	ck_assert_msg(reply.ok, "%s: %s", question, reply.text);
}

static void refuses(const char *question, const char *said)
{
	struct control_reply reply;

	ck_assert_int_eq(ask(question, &reply), 0);
	ck_assert_msg(!reply.ok && strstr(reply.text, said), "%s: %s", question, reply.text);
}

/* --- commands ---------------------------------------------------------------------------- */

/* What a call that is refused writes to stderr. */
static void refused_call(struct ibv_context *context, struct said *said)
{
	said_begin(said);
	ck_assert_ptr_null(ibv_create_cq(context, 0, NULL, NULL, 0));
	said_end(said);
}

START_TEST(explanations_go_on_and_off)
{
	struct ibv_context *context = fixture_open();
	static struct said said;

	for (int i = 0; i < 2; i++) {
		obeys("explain on");
		refused_call(context, &said);
		ck_assert_msg(strstr(said.text, "] 0x"), "on: %s", said.text);
		obeys("explain off");
		refused_call(context, &said);
		ck_assert_msg(!strstr(said.text, "] 0x"), "off: %s", said.text);
	}
	fixture_close(context);
}
END_TEST

START_TEST(the_log_has_a_level)
{
	struct ibv_context *context = fixture_open();
	static struct said said;

	refused_call(context, &said); /* the first error is told at another level */
	obeys("log info");
	refused_call(context, &said);
	ck_assert_msg(strstr(said.text, "] info: "), "info: %s", said.text);
	obeys("log error\n");
	refused_call(context, &said);
	ck_assert_str_eq(said.text, "");
	obeys("log warn");
	fixture_close(context);
}
END_TEST

static void shows_faults(const char *expected)
{
	struct control_reply reply;

	ck_assert_int_eq(ask("faults", &reply), 0);
	ck_assert(reply.ok);
	ck_assert_str_eq(reply.text, expected);
}

/* Calls of an open context, by a function and by an operation of it. */
START_TEST(calls_fail_from_now_on)
{
	struct ibv_port_attr port;
	struct pair pair;

	pair_open(&pair, IBV_QPT_RC, 0);
	shows_faults("");
	obeys("faults fail(ENOSPC)#2/ibv_query_port;fail(EIO)#1/ibv_post_send");
	ck_assert_int_eq(post_write(&pair, 1), EIO);
	ck_assert_int_eq(ibv_query_port(pair.context, 1, &port), 0);
	ck_assert_int_eq(ibv_query_port(pair.context, 1, &port), ENOSPC);
	ck_assert_int_eq(post_write(&pair, 2), 0);
	ck_assert_int_eq(wait_completion(pair.send_cq).status, IBV_WC_SUCCESS);
	shows_faults("fail(ENOSPC)#2/ibv_query_port: 1 of 2 calls\n"
		     "fail(EIO)#1/ibv_post_send: 1 of 2 calls\n");
	/* Instead: counts begin anew. */
	obeys("faults fail(EIO)#1/ibv_post_send");
	ck_assert_int_eq(post_write(&pair, 3), EIO);
	obeys("faults none");
	shows_faults("");
	ck_assert_int_eq(post_write(&pair, 4), 0);
	ck_assert_int_eq(wait_completion(pair.send_cq).status, IBV_WC_SUCCESS);
	pair_close(&pair);
}
END_TEST

START_TEST(packets_are_lost_from_now_on)
{
	struct control_reply reply;
	struct pair pair;

	pair_open(&pair, IBV_QPT_RC, 0);
	obeys("faults drop#1/RC_RDMA_WRITE");
	ck_assert_int_eq(post_write(&pair, 1), 0);
	ck_assert_int_eq(wait_completion(pair.send_cq).status, IBV_WC_SUCCESS);
	ck_assert_int_eq(ask("faults", &reply), 0);
	ck_assert_msg(strncmp(reply.text, "drop#1/RC_RDMA_WRITE: 1 of ", 27) == 0 &&
			      strstr(reply.text, " packets of urxe0\n"),
		      "%s", reply.text);
	obeys("faults none");
	pair_close(&pair);
}
END_TEST

/* Nothing else wakes the progress thread. */
START_TEST(what_is_due_happens_in_an_idle_process)
{
	struct ibv_context *context = fixture_open();
	struct pollfd fd = {.fd = context->async_fd, .events = POLLIN};
	struct ibv_async_event event;

	usleep(100 * 1000); /* by then it sleeps */
	obeys("faults event(LID_CHANGE)@1ms");
	ck_assert_int_eq(poll(&fd, 1, PATIENCE * 1000), 1);
	ck_assert_int_eq(ibv_get_async_event(context, &event), 0);
	ck_assert_int_eq(event.event_type, IBV_EVENT_LID_CHANGE);
	ibv_ack_async_event(&event);
	obeys("faults none");
	fixture_close(context);
}
END_TEST

START_TEST(what_it_does_not_know_is_refused)
{
	struct ibv_context *context = fixture_open();
	char longest[CONTROL_QUESTION + 1] = "";

	refuses("log", "log needs a level");
	refuses("log everything", "log needs a level");
	refuses("explain", "explain needs");
	refuses("explain maybe", "explain needs");
	obeys("faults drop=1%");
	refuses("faults drip=1%", "can't be read at \"drip=1%\": expected a fault");
	shows_faults("drop=1%: 0 of 0 packets of urxe0\n");
	obeys("faults none");
	refuses("nothing of that name", "no command nothing, but faults, log, explain");
	refuses("", "no command ");
	refuses("\xff\x01", "no command ");
	memset(longest, 'x', CONTROL_QUESTION - 1);
	refuses(longest, "no command xxx");
	longest[CONTROL_QUESTION - 1] = 'x';
	ck_assert_int_eq(ask(longest, &(struct control_reply){}), EMSGSIZE);
	fixture_close(context);
}
END_TEST

/* --- whom it hears ----------------------------------------------------------------------- */

START_TEST(listens_while_a_device_is_open)
{
	struct control_reply reply;

	ck_assert_int_eq(ask("log warn", &reply), ECONNREFUSED);
	for (int i = 0; i < 3; i++) {
		struct ibv_context *context = fixture_open(), *other = fixture_open();

		obeys("log warn");
		fixture_close(context);
		obeys("log warn");
		fixture_close(other);
		ck_assert_int_eq(ask("log warn", &reply), ECONNREFUSED);
	}
}
END_TEST

/* As another user, if we may become one. */
static void ask_as_other_user(pid_t pid, uint64_t pid_namespace, uid_t owner)
{
	const struct sockaddr_un any = {.sun_family = AF_UNIX};
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_DGRAM, 0), length;

	must(fd >= 0 && setuid(owner + 65534) == 0);
	must(bind(fd, (const struct sockaddr *)&any, sizeof(any.sun_family)) == 0);
	length = snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1,
			  "urxe-control-1-%u-%llu-%d", (unsigned int)owner,
			  (unsigned long long)pid_namespace, (int)pid);
	for (int i = 0; i < 40; i++)
		must(sendto(fd, "log error", 9, MSG_DONTWAIT, (const struct sockaddr *)&address,
			    offsetof(struct sockaddr_un, sun_path) + 1 + length) == 9 ||
		     errno == EAGAIN);
	_exit(0);
}

START_TEST(another_user_is_not_heard)
{
	struct ibv_context *context = fixture_open();
	uint64_t pid_namespace = process_namespace("pid");
	uid_t owner = geteuid();
	static struct said said;
	pid_t pid = getpid(), child;
	int status;

	if (owner != 0) {
		fixture_close(context);
		return; /* can't become another user */
	}
	refused_call(context, &said);
	obeys("log info");
	child = fork();
	must(child >= 0);
	if (child == 0)
		ask_as_other_user(pid, pid_namespace, owner);
	must(waitpid(child, &status, 0) == child);
	ck_assert_int_eq(status, 0);
	obeys("explain off"); /* behind the others in the queue */
	refused_call(context, &said);
	ck_assert_msg(strstr(said.text, "] info: "), "%s", said.text);
	obeys("log warn");
	fixture_close(context);
}
END_TEST

/* The child has a socket once it has a device, and the parent keeps its own. */
static int child_with_device(void)
{
	struct control_reply reply;
	struct ibv_context *context;
	int before = ask("log warn", &reply), during, after;

	must(ask_process(getppid(), "log warn", &reply) == 0 && reply.ok);
	if (!CHILD_ALLOCATES)
		return before == ECONNREFUSED ? 0 : 1;
	context = fixture_open();
	during = ask("log warn", &reply);
	fixture_close(context);
	after = ask("log warn", &reply);
	return before == ECONNREFUSED && during == 0 && after == ECONNREFUSED ? 0 : 1;
}

START_TEST(a_forked_child_is_another_process)
{
	struct ibv_context *context = fixture_open();
	pid_t child = fork();
	int status;

	must(child >= 0);
	if (child == 0)
		_exit(child_with_device());
	must(waitpid(child, &status, 0) == child);
	ck_assert_int_eq(status, 0);
	obeys("log warn");
	fixture_close(context);
}
END_TEST

START_TEST(the_killed_leave_nothing_behind)
{
	struct control_reply reply;
	int ends[2], status;
	char byte;
	pid_t child;

	must(pipe(ends) == 0);
	child = fork();
	must(child >= 0);
	if (child == 0) {
		fixture_open();
		must(write(ends[1], "x", 1) == 1);
		pause();
	}
	must(read(ends[0], &byte, 1) == 1);
	ck_assert_int_eq(ask_process(child, "log warn", &reply), 0);
	must(kill(child, SIGKILL) == 0 && waitpid(child, &status, 0) == child);
	ck_assert_int_eq(ask_process(child, "log warn", &reply), ECONNREFUSED);
	close(ends[0]);
	close(ends[1]);
}
END_TEST

/* --- descriptors ------------------------------------------------------------------------- */

/* The socket with our abstract name, or -1. */
static int find_socket(void)
{
	struct sockaddr_un address;

	for (int fd = 3; fd < 100; fd++) {
		socklen_t length = sizeof(address);

		if (getsockname(fd, (struct sockaddr *)&address, &length) == 0 &&
		    address.sun_family == AF_UNIX &&
		    memcmp(address.sun_path + 1, "urxe-control", 12) == 0)
			return fd;
	}
	return -1;
}

/*
 * Have @fd, our socket, be a pipe of the application's, which is readable. By number: TSan takes it
 * for a race that another thread uses the descriptor.
 */
static void take_number(int fd)
{
	int ends[2];

	must(pipe(ends) == 0);
	must(syscall(SYS_dup3, ends[0], fd, 0) == fd && write(ends[1], "x", 1) == 1);
	close(ends[0]);
	close(ends[1]);
}

/* There is another socket, in the end; and what has the number is as it was. */
static void check_taken(int fd)
{
	struct control_reply reply;
	char byte;

	while (ask("log warn", &reply) == ECONNREFUSED)
		usleep(1000);
	ck_assert(reply.ok);
	ck_assert_int_eq(sys_read(fd, &byte, 1), 1);
	sys_close(fd);
}

START_TEST(survives_being_closed)
{
	struct ibv_context *context = fixture_open();

	for (int i = 0; i < 3; i++) {
		int fd = find_socket();

		ck_assert_int_ge(fd, 0);
		take_number(fd);
		check_taken(fd);
	}
	fixture_close(context);
}
END_TEST

START_TEST(waits_for_its_name)
{
	struct ibv_context *context = fixture_open();
	struct control_reply reply;
	int fd = find_socket(), kept = dup(fd);

	must(fd >= 0 && kept >= 0);
	take_number(fd);
	/* The pipe wakes the thread, which finds that the name is still taken. */
	ck_assert_int_eq(control_ask(getpid(), process_namespace("pid"), "log warn", 1, &reply),
			 ETIMEDOUT);
	close(kept);
	check_taken(fd);
	fixture_close(context);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("control");
	TCase *tests = tcase_create("control");

	fixture_environment();
	tcase_set_timeout(tests, 300);
	tcase_add_test(tests, explanations_go_on_and_off);
	tcase_add_test(tests, the_log_has_a_level);
	tcase_add_test(tests, calls_fail_from_now_on);
	tcase_add_test(tests, packets_are_lost_from_now_on);
	tcase_add_test(tests, what_is_due_happens_in_an_idle_process);
	tcase_add_test(tests, what_it_does_not_know_is_refused);
	tcase_add_test(tests, listens_while_a_device_is_open);
	tcase_add_test(tests, another_user_is_not_heard);
	tcase_add_test(tests, a_forked_child_is_another_process);
	tcase_add_test(tests, the_killed_leave_nothing_behind);
	tcase_add_test(tests, survives_being_closed);
	tcase_add_test(tests, waits_for_its_name);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
