/* SPDX-License-Identifier: BSD-2-Clause */
/* Ports of ids: which are chosen, and which ids, of this process and of others, may share one. */
#include <stdlib.h>
#include <unistd.h>

#include "tests/run_suite.h"
#include "tests/sanitizers.h"
#include "tests/verbs/fixture.h"
#include "tests/verbs/manager.h"

#define PORT 7471

static struct rdma_event_channel *channel;

static void setup(void)
{
	channel = open_channel();
}

static void teardown(void)
{
	rdma_destroy_event_channel(channel);
}

static struct rdma_cm_id *new_id(void)
{
	return open_id(channel, RDMA_PS_TCP);
}

/* --- of one process ---------------------------------------------------------- */

START_TEST(ports_are_chosen)
{
	struct rdma_cm_id *ids[64];

	for (int i = 0; i < 64; i++) {
		ids[i] = new_id();
		ck_assert_int_eq(rdma_bind_addr(ids[i], socket_address(NULL, 0)), 0);
		ck_assert_int_ge(ntohs(rdma_get_src_port(ids[i])), 1024);
		for (int j = 0; j < i; j++)
			ck_assert_int_ne(rdma_get_src_port(ids[i]), rdma_get_src_port(ids[j]));
	}
	for (int i = 0; i < 64; i++)
		destroy(ids[i]);
}
END_TEST

static void set_int(struct rdma_cm_id *id, int name, int value)
{
	ck_assert_int_eq(rdma_set_option(id, RDMA_OPTION_ID, name, &value, sizeof(value)), 0);
}

/* The first id binds to @first; what another on the same port gets for @second. */
struct sharing {
	const char *first, *second;
	int option; /* that both set to 1, or -1 */
	int error;
};

static const struct sharing sharings[] = {
	{NULL, NULL, -1, EADDRINUSE},
	{NULL, "0.0.0.0", -1, EADDRNOTAVAIL},
	{"0.0.0.0", NULL, -1, EADDRNOTAVAIL},
	{"0.0.0.0", "0.0.0.0", -1, EADDRNOTAVAIL},
	{NULL, "::", -1, EADDRNOTAVAIL},
	{"::", NULL, -1, EADDRNOTAVAIL},
	{"::", NULL, RDMA_OPTION_ID_AFONLY, 0},
	{"0.0.0.0", "::", RDMA_OPTION_ID_AFONLY, 0},
	{"::", "::", RDMA_OPTION_ID_AFONLY, EADDRNOTAVAIL},
	{NULL, NULL, RDMA_OPTION_ID_REUSEADDR, 0},
	{NULL, "0.0.0.0", RDMA_OPTION_ID_REUSEADDR, 0},
};

START_TEST(ports_are_shared_by_the_rules)
{
	const struct sharing *sharing = &sharings[_i];
	struct rdma_cm_id *first = new_id(), *second = new_id();

	if (sharing->option >= 0) {
		set_int(first, sharing->option, 1);
		set_int(second, sharing->option, 1);
	}
	ck_assert_int_eq(rdma_bind_addr(first, socket_address(sharing->first, PORT)), 0);
	if (sharing->error)
		ck_fails(rdma_bind_addr(second, socket_address(sharing->second, PORT)),
			 sharing->error);
	else
		ck_assert_int_eq(rdma_bind_addr(second, socket_address(sharing->second, PORT)), 0);

	/* Any id may have a freed port, and so is the same in another space. */
	destroy(first);
	if (sharing->error)
		ck_assert_int_eq(rdma_bind_addr(second, socket_address(sharing->second, PORT)), 0);
	first = open_id(channel, RDMA_PS_UDP);
	ck_assert_int_eq(rdma_bind_addr(first, socket_address(sharing->first, PORT)), 0);
	destroy(first);
	destroy(second);
}
END_TEST

START_TEST(shared_ports_have_one_listener)
{
	struct rdma_cm_id *first = new_id(), *second = new_id();
	int no = 0, yes = 1;

	set_int(first, RDMA_OPTION_ID_REUSEADDR, 1);
	set_int(second, RDMA_OPTION_ID_REUSEADDR, 1);
	ck_assert_int_eq(rdma_bind_addr(first, socket_address(NULL, PORT)), 0);
	ck_assert_int_eq(rdma_bind_addr(second, socket_address(NULL, PORT)), 0);
	ck_fails(rdma_set_option(first, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &no, sizeof(no)),
		 EINVAL);
	ck_fails(rdma_listen(second, 1), EADDRINUSE);
	destroy(first);
	ck_assert_int_eq(rdma_listen(second, 1), 0);
	ck_fails(rdma_set_option(second, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &yes,
				 sizeof(yes)),
		 EINVAL);
	first = new_id();
	set_int(first, RDMA_OPTION_ID_REUSEADDR, 1);
	ck_fails(rdma_bind_addr(first, socket_address(NULL, PORT)), EADDRINUSE);
	destroy(second);
	destroy(first);
}
END_TEST

START_TEST(listening_binds)
{
	struct rdma_cm_id *id = new_id();

	ck_assert_int_eq(rdma_listen(id, 0), 0);
	ck_assert_int_ne(rdma_get_src_port(id), 0);
	ck_assert_int_eq(id->route.addr.src_addr.sa_family, AF_INET);
	ck_assert_ptr_null(id->verbs);
	destroy(id);
}
END_TEST

/* --- of several -------------------------------------------------------------- */

/* In a forked process. 0 or an errno. */
static int bind_here(bool reuse)
{
	struct rdma_cm_id *id = open_id(open_channel(), RDMA_PS_TCP);

	set_int(id, RDMA_OPTION_ID_REUSEADDR, reuse);
	return rdma_bind_addr(id, socket_address(NULL, PORT)) ? errno : 0;
}

/* What binding to the port gives in another process: 0 or an errno. */
static int bind_elsewhere(bool reuse)
{
	pid_t pid = fork();

	if (pid == 0)
		_exit(bind_here(reuse));
	return exit_status(pid);
}

/* An id that can't listen any more keeps its port, from other processes, too. */
START_TEST(refused_to_listen)
{
	struct rdma_cm_id *id = new_id();

	ck_assert_int_eq(rdma_bind_addr(id, socket_address(NULL, PORT)), 0);
	ck_assert_int_eq(rdma_resolve_addr(id, NULL, socket_address(NULL, PORT + 1), 1000), 0);
	expect(channel, id, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	ck_fails(rdma_listen(id, 1), EINVAL);
	ck_assert_int_eq(bind_elsewhere(false), EADDRINUSE);
	destroy(id);
}
END_TEST

/* Ids that share a port may be of several processes, until one of them listens. */
START_TEST(shared_between_processes)
{
	struct rdma_cm_id *id = new_id();

	set_int(id, RDMA_OPTION_ID_REUSEADDR, 1);
	ck_assert_int_eq(rdma_bind_addr(id, socket_address(NULL, PORT)), 0);
	ck_assert_int_eq(bind_elsewhere(true), 0);
	ck_assert_int_eq(rdma_listen(id, 1), 0);
	ck_assert_int_eq(bind_elsewhere(false), EADDRINUSE);
	destroy(id);
	ck_assert_int_eq(bind_elsewhere(false), 0);
}
END_TEST

/* The same for resolving from there. */
static int resolve_here(void)
{
	struct rdma_cm_id *id = open_id(open_channel(), RDMA_PS_TCP);
	struct sockaddr *source = socket_address(NULL, PORT);

	return rdma_resolve_addr(id, source, socket_address(NULL, 1), 1000) ? errno : 0;
}

/* A source's port that is named, too, is one of the node's. */
START_TEST(source_ports_are_the_nodes)
{
	struct rdma_cm_id *id = new_id();
	pid_t pid;

	ck_assert_int_eq(
		rdma_resolve_addr(id, socket_address(NULL, PORT), socket_address(NULL, 1), 1000),
		0);
	expect(channel, id, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	ck_assert_int_eq(bind_elsewhere(false), EADDRINUSE);
	pid = fork();
	if (pid == 0)
		_exit(resolve_here());
	ck_assert_int_eq(exit_status(pid), EADDRINUSE);
	destroy(id);
	ck_assert_int_eq(bind_elsewhere(false), 0);
}
END_TEST

/* Also of a process that exits with its ids, and has left the address before it ends. */
START_TEST(ports_of_ended_processes_are_free)
{
	struct rdma_cm_id *id = new_id(), *other = new_id();
	pid_t pid;

	ck_assert_int_eq(rdma_bind_addr(id, socket_address(NULL, PORT + 1)), 0);
	pid = fork();
	if (pid == 0) {
		int error = bind_here(false);

		if (SANITIZED) /* LeakSanitizer would take the id for leaked */
			_exit(error);
		exit(error);
	}
	ck_assert_int_eq(exit_status(pid), 0);
	ck_assert_int_eq(rdma_bind_addr(other, socket_address(NULL, PORT)), 0);
	destroy(other);
	destroy(id);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("id_ports");
	TCase *tests = tcase_create("id_ports");

	fixture_environment();
	tcase_set_timeout(tests, 60);
	tcase_add_checked_fixture(tests, setup, teardown);
	tcase_add_test(tests, ports_are_chosen);
	tcase_add_loop_test(tests, ports_are_shared_by_the_rules, 0,
			    sizeof(sharings) / sizeof(sharings[0]));
	tcase_add_test(tests, shared_ports_have_one_listener);
	tcase_add_test(tests, listening_binds);
	if (CHILD_ALLOCATES) {
		tcase_add_test(tests, refused_to_listen);
		tcase_add_test(tests, shared_between_processes);
		tcase_add_test(tests, source_ports_are_the_nodes);
		tcase_add_test(tests, ports_of_ended_processes_are_free);
	}
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
