/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A process of this machine sends a message of the connection manager and is killed before the
 * other one, which is stopped, has read it. A third one has opened a device meanwhile, by which all
 * that says whose the message was is forgotten. The other one hears of the death nevertheless.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/must.h"
#include "tests/run_suite.h"
#include "tests/verbs/fixture.h"
#include "tests/verbs/manager.h"

#define PORT 7471
#define PATIENCE 120	   /* seconds, for a process on a busy machine */
#define REJECT_CONSUMER 28 /* IBA 12.6.7.2: what a kernel says for an application that has died */

static const struct rdma_conn_param parameters = {.retry_count = 7, .rnr_retry_count = 7};

/* --- processes that do one step after the other ------------------------------------------ */

struct process {
	pid_t pid;
	int told, order; /* pipes: that it has done a step, and that it is to go on */
};

static struct process parent; /* of a process that was started; the pid isn't used */

static void tell(const struct process *process)
{
	must(write(process->order, "", 1) == 1);
}

/* Fails if the process has ended. */
static void await(const struct process *process)
{
	char byte;

	must(read(process->told, &byte, 1) == 1);
}

static struct process start(const char *address, void (*run)(void))
{
	int up[2], down[2];
	pid_t pid;

	must(pipe(up) == 0 && pipe(down) == 0);
	pid = fork();
	must(pid >= 0);
	if (pid == 0) {
		close(up[0]);
		close(down[1]);
		parent = (struct process){.told = down[0], .order = up[1]};
		signal(SIGALRM, SIG_DFL); /* Check would kill the test, which could say nothing */
		alarm(PATIENCE);
		setenv("URXE_NODE", address, 1);
		run();
		_exit(0);
	}
	close(up[1]);
	close(down[0]);
	return (struct process){.pid = pid, .told = up[0], .order = down[1]};
}

/* @signal: that it ends by, or 0. */
static void await_end(struct process *process, int signal)
{
	int status;

	must(waitpid(process->pid, &status, 0) == process->pid);
	ck_assert_int_eq(status, signal);
	close(process->told);
	close(process->order);
}

static void stop(const struct process *process)
{
	int status;

	must(kill(process->pid, SIGSTOP) == 0);
	must(waitpid(process->pid, &status, WUNTRACED) == process->pid && WIFSTOPPED(status));
}

static void let_run(const struct process *process)
{
	must(kill(process->pid, SIGCONT) == 0);
}

/* --- what they do -------------------------------------------------------------------------- */

/* Of the client; the listener has fixture_address(). */
static char client_address[32], another_address[32];

static void open_a_device(void)
{
	fixture_open();
	tell(&parent);
	pause();
}

static struct rdma_cm_id *take_request(struct rdma_event_channel *channel)
{
	struct rdma_cm_event *event = next_event(channel, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	struct rdma_cm_id *id = event->id;

	ck_assert_int_eq(rdma_ack_cm_event(event), 0);
	return id;
}

static struct rdma_event_channel *open_listener(void)
{
	struct rdma_event_channel *channel = open_channel();

	start_listening(open_id(channel, RDMA_PS_TCP), PORT);
	tell(&parent);
	return channel;
}

static struct rdma_cm_id *open_client(void)
{
	struct rdma_cm_id *id = open_id(open_channel(), RDMA_PS_TCP);

	resolve(id, PORT);
	create_qp(id);
	return id;
}

static void connect_to_listener(struct rdma_cm_id *id)
{
	struct rdma_conn_param parameter = parameters;

	ck_assert_int_eq(rdma_connect(id, &parameter), 0);
}

static void accept_and_die(void)
{
	struct rdma_conn_param parameter = parameters;
	struct rdma_cm_id *id = take_request(open_listener());

	create_qp(id);
	tell(&parent);
	await(&parent);
	ck_assert_int_eq(rdma_accept(id, &parameter), 0);
	raise(SIGKILL);
}

static void be_accepted(void)
{
	struct rdma_cm_id *id = open_client();

	connect_to_listener(id);
	tell(&parent);
	expect(id->channel, id, RDMA_CM_EVENT_ESTABLISHED, 0);
	expect(id->channel, id, RDMA_CM_EVENT_DISCONNECTED, 0);
}

static void connect_and_die(void)
{
	struct rdma_cm_id *id = open_client();

	tell(&parent);
	await(&parent);
	connect_to_listener(id);
	raise(SIGKILL);
}

/* An application isn't told before it answers: if the death is noticed before, that fails. */
static void be_requested(void)
{
	struct rdma_conn_param parameter = parameters;
	struct rdma_event_channel *channel = open_listener();
	struct rdma_cm_id *id = take_request(channel);

	if (try_create_qp(id) && rdma_accept(id, &parameter) == 0)
		expect(channel, id, RDMA_CM_EVENT_REJECTED, REJECT_CONSUMER);
}

/* --------------------------------------------------------------------------------------------- */

/* @dying sends its message, which @stopped reads when nothing is left of @dying. */
static void die_unread(struct process *dying, struct process *stopped, const char *third_address)
{
	struct process third;

	stop(stopped);
	tell(dying);
	await_end(dying, SIGKILL);
	third = start(third_address, open_a_device);
	await(&third);
	let_run(stopped);
	await_end(stopped, 0);
	must(kill(third.pid, SIGKILL) == 0);
	await_end(&third, SIGKILL);
}

/* The third process has the dead one's address, or another. */
START_TEST(reply_of_the_dead)
{
	struct process server = start(fixture_address(), accept_and_die), client;

	await(&server);
	client = start(client_address, be_accepted);
	await(&client);
	await(&server);
	die_unread(&server, &client, _i ? fixture_address() : another_address);
}
END_TEST

START_TEST(request_of_the_dead)
{
	struct process server = start(fixture_address(), be_requested), client;

	await(&server);
	client = start(client_address, connect_and_die);
	await(&client);
	die_unread(&client, &server, _i ? client_address : another_address);
}
END_TEST

int main(void)
{
	unsigned int high = getpid() >> 8 & 0xff, low = getpid() & 0xff;
	Suite *suite = suite_create("dead_peers");
	TCase *tests = tcase_create("dead_peers");

	fixture_environment();
	snprintf(client_address, sizeof(client_address), "127.87.%u.%u", high, low);
	snprintf(another_address, sizeof(another_address), "127.88.%u.%u", high, low);
	tcase_set_timeout(tests, 2 * PATIENCE);
	tcase_add_loop_test(tests, reply_of_the_dead, 0, 2);
	tcase_add_loop_test(tests, request_of_the_dead, 0, 2);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
