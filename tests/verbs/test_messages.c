/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the log says of an address or a port that can't be had: which process has it, or
 * which addresses there are.
 */
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/run_suite.h"
#include "tests/sanitizers.h"
#include "tests/verbs/manager.h"
#include "tests/verbs/namespace.h"
#include "tests/verbs/other_process.h"

#define NODE "127.86.0.1"
#define PORT 7471
#define ROCE_PORT 4791

/* --- stderr -------------------------------------------------------------------------- */

static int saved = -1, caught = -1;

static void catch_stderr(void)
{
	saved = dup(STDERR_FILENO);
	caught = memfd_create("stderr", 0);
	ck_assert_int_ge(saved, 0);
	ck_assert_int_eq(dup2(caught, STDERR_FILENO), STDERR_FILENO);
}

/* What was said since then has each of @words, a list that ends with NULL, and one line. */
static void expect_line(const char *const *words)
{
	static char text[4096];
	ssize_t length = pread(caught, text, sizeof(text) - 1, 0);

	ck_assert_int_eq(dup2(saved, STDERR_FILENO), STDERR_FILENO);
	close(saved);
	close(caught);
	ck_assert_int_gt(length, 0);
	text[length] = '\0';
	for (; *words; words++)
		ck_assert_msg(strstr(text, *words), "no \"%s\" in: %s", *words, text);
	ck_assert_ptr_eq(strchr(text, '\n'), text + length - 1);
}

#define expect_said(...) expect_line((const char *const[]){__VA_ARGS__, NULL})

static void setup(void)
{
	ip("link set lo up");
	if (system("ip link show urxe0 >/dev/null 2>&1") == 0)
		ip("link del urxe0"); /* a test that failed has left it */
}

/* --- the device ---------------------------------------------------------------------- */

static void expect_open_fails(int error)
{
	int count = 0;
	struct ibv_device **list = ibv_get_device_list(&count);

	ck_assert_int_eq(count, 1);
	errno = 0;
	ck_assert_ptr_null(ibv_open_device(list[0]));
	ck_assert_int_eq(errno, error);
	ibv_free_device_list(list);
}

static int take_port(const char *address)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	ck_assert_int_eq(bind(fd, socket_address(address, ROCE_PORT), sizeof(struct sockaddr_in)),
			 0);
	return fd;
}

START_TEST(process_has_the_port)
{
	int fd = take_port(NODE);
	char process[32];

	snprintf(process, sizeof(process), "process %d (", getpid());
	catch_stderr();
	expect_open_fails(EADDRINUSE);
	expect_said(NODE, process, "UDP port 4791", "the application itself");
	close(fd);
}
END_TEST

START_TEST(process_has_the_port_everywhere)
{
	int fd = take_port("0.0.0.0");
	char process[32];

	snprintf(process, sizeof(process), "process %d (", getpid());
	catch_stderr();
	expect_open_fails(EADDRINUSE);
	expect_said(NODE, process, "UDP port 4791", "on all addresses");
	close(fd);
}
END_TEST

/* What follows where the holder isn't known. */
static const char *rxe_is_named(void)
{
	return access("/sys/module/rdma_rxe", F_OK) == 0 ? "addresses: rdma_rxe" : "addresses (";
}

static int have_the_port_everywhere(int in, int out)
{
	char byte;

	take_port("0.0.0.0");
	return write(out, "", 1) == 1 && read(in, &byte, 1) == 0 ? 0 : 1;
}

/* Whose processes we may not look into. */
START_TEST(another_user_has_the_port_everywhere)
{
	struct other_process process = other_process_start(have_the_port_everywhere);

	if (seteuid(65534) == 0) { /* not in a user namespace */
		catch_stderr();
		expect_open_fails(EADDRINUSE);
		expect_said(NODE, "a process of user 0", "on all addresses", rxe_is_named());
	}
	other_process_end(&process);
	ck_assert_int_eq(seteuid(0), 0);
	prctl(PR_SET_DUMPABLE, 1); /* or LeakSanitizer can't look into this process any more */
}
END_TEST

/* A tunnel has its socket in the kernel, as rdma_rxe has. */
START_TEST(kernel_has_the_port)
{
	ip("link add urxe0 type vxlan id 1 dstport %d", ROCE_PORT);
	ip("link set urxe0 up");
	catch_stderr();
	expect_open_fails(EADDRINUSE);
	expect_said(NODE, "the kernel", "on all addresses", rxe_is_named());
	ip("link del urxe0");
}
END_TEST

START_TEST(no_such_address)
{
	int count = -1;

	setenv("URXE_NODE", "203.0.113.77", 1);
	ip("addr add 10.86.0.1/32 dev lo");
	catch_stderr();
	ibv_free_device_list(ibv_get_device_list(&count));
	ck_assert_int_eq(count, 0);
	expect_said("203.0.113.77", "127.0.0.1, ", "10.86.0.1");
	ip("addr del 10.86.0.1/32 dev lo");
}
END_TEST

/* It was never up, as in a namespace that was just made: then it has no address. */
START_TEST(loopback_device_is_down)
{
	struct ibv_device **list;
	struct ibv_context *context;

	setenv("URXE_NODE", "10.86.0.1", 1);
	make_veth("urxe1", "urxe2");
	ip("addr add 10.86.0.1/24 dev urxe1");
	ip("link set lo down");
	ip("addr flush dev lo");
	catch_stderr();
	list = ibv_get_device_list(NULL);
	context = ibv_open_device(list[0]);
	expect_said("hand packets on: the loopback device is down, or has no 127.0.0.1");
	ck_assert_ptr_nonnull(context);
	ibv_close_device(context);
	ibv_free_device_list(list);
	ip("addr add 127.0.0.1/8 dev lo");
	ip("link del urxe1");
}
END_TEST

/* --- ports of rdma_cm ------------------------------------------------------------------ */

static int hold_port(int in, int out)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *id;
	char byte;

	if (rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) != 0 ||
	    rdma_bind_addr(id, socket_address(NODE, PORT)) != 0 || write(out, "", 1) != 1)
		return 1;
	return read(in, &byte, 1) == 0 ? 0 : 1;
}

static void expect_bind_fails(struct rdma_cm_id *id, const char *address, int error,
			      const char *process)
{
	catch_stderr();
	ck_fails(rdma_bind_addr(id, socket_address(address, PORT)), error);
	expect_said(process, "port 7471");
}

/* One address in a process: the first error alone is a warning. */
START_TEST(process_listens)
{
	struct other_process other = other_process_start(hold_port);
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;
	char process[32];

	snprintf(process, sizeof(process), "process %d (", other.pid);
	channel = open_channel();
	id = open_id(channel, RDMA_PS_TCP);
	expect_bind_fails(id, _i ? "0.0.0.0" : NODE, _i ? EADDRNOTAVAIL : EADDRINUSE, process);
	ck_assert_int_eq(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
	other_process_end(&other);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("messages");
	TCase *tests = tcase_create("messages");

	if (!namespace_enter())
		return SKIPPED;
	setenv("URXE_NODE", NODE, 1);
	tcase_set_timeout(tests, 60);
	tcase_add_checked_fixture(tests, setup, NULL);
	tcase_add_test(tests, process_has_the_port);
	tcase_add_test(tests, process_has_the_port_everywhere);
	tcase_add_test(tests, another_user_has_the_port_everywhere);
	if (system("ip link add urxe0 type vxlan id 1 dstport 9 2>/dev/null && ip link del urxe0"))
		puts("kernel_has_the_port is left out: no tunnels in this kernel");
	else
		tcase_add_test(tests, kernel_has_the_port);
	tcase_add_test(tests, no_such_address);
	tcase_add_test(tests, loopback_device_is_down);
	if (CHILD_ALLOCATES)
		tcase_add_loop_test(tests, process_listens, 0, 2);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
