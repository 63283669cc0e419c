/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the kernel says of UDP sockets, and that it isn't asked where it knows nothing of them:
 * syscall() is this program's own, and answers as a kernel without udp_diag, or without a
 * descriptor.
 */
#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <linux/netlink.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "gid_of.h"
#include "kernel_calls.h"
#include "net/share/roster.h"
#include "net/udp/sock_diag.h"
#include "net/udp/udp.h"
#include "net/wire/gid.h"
#include "tests/must.h"
#include "tests/run_suite.h"

static bool kernel_lacks_udp_diag;
static bool has_netlink = true;
static int sockets; /* until one can't be had; 0: all can */

/* As inet_diag_handler_cmd() of the kernel, once modprobe has failed. */
static void answer_as_if_there_were_none(void *answer)
{
	struct nlmsghdr *header = answer;
	struct nlmsgerr *error = NLMSG_DATA(header);

	header->nlmsg_type = NLMSG_ERROR;
	header->nlmsg_len = NLMSG_LENGTH(sizeof(*error));
	error->error = -ENOENT;
}

static long answer_call(long number, const long arguments[6])
{
	long result;

	if (number == SYS_socket && sockets && --sockets == 0) {
		errno = EMFILE;
		return -1;
	}
	if (number == SYS_socket && !has_netlink && arguments[0] == AF_NETLINK) {
		errno = EAFNOSUPPORT;
		return -1;
	}
	result = kernel_call(number, arguments);
	if (kernel_lacks_udp_diag && number == SYS_recvfrom && result > 0)
		answer_as_if_there_were_none((void *)arguments[1]);
	return result;
}

/* A socket at 127.0.0.1, whose port is *@port then. */
static int open_socket(union ibv_gid *gid, uint16_t *port)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t length = sizeof(address);
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	must(fd >= 0 && bind(fd, (struct sockaddr *)&address, length) == 0);
	must(getsockname(fd, (struct sockaddr *)&address, &length) == 0);
	gid_from_sockaddr(gid, (struct sockaddr *)&address);
	*port = ntohs(address.sin_port);
	return fd;
}

START_TEST(a_socket_is_found_while_it_is_open)
{
	struct sock_diag_socket found;
	struct sock_diag *diag;
	union ibv_gid gid;
	uint16_t port;
	int fd;

	if (sock_diag_create(&diag) != 0) /* a kernel without: nothing to test */
		return;
	fd = open_socket(&gid, &port);
	ck_assert_int_eq(sock_diag_find(diag, &gid, port, NULL, 0, 0, &found), 0);
	ck_assert_uint_eq(found.uid, geteuid());
	ck_assert(!found.wildcard);
	close(fd);
	ck_assert_int_eq(sock_diag_find(diag, &gid, port, NULL, 0, 0, &found), ENOENT);
	ck_assert(sock_diag_verify(diag));
	sock_diag_destroy(diag);
}
END_TEST

START_TEST(a_kernel_without_udp_diag_is_not_asked)
{
	struct sock_diag *diag;

	kernel_lacks_udp_diag = true;
	ck_assert_int_ne(sock_diag_create(&diag), 0);
}
END_TEST

/* A link never does without for that: its senders wouldn't be looked at as long as it lives. */
START_TEST(without_a_descriptor_there_is_no_link)
{
	struct udp_options options = {.segmentation = true};
	struct sock_diag *diag;
	struct link *link;

	if (sock_diag_create(&diag) != 0) /* a kernel without: nothing to test */
		return;
	sock_diag_destroy(diag);
	sockets = _i;
	ck_assert_int_eq(sock_diag_create(&diag), EMFILE);
	sockets = _i;
	ck_assert_int_eq(udp_link_create(&options, &link), EMFILE);
	ck_assert_int_eq(udp_link_create(&options, &link), 0);
	link->ops->close(link);
}
END_TEST

/* As in a sandbox: nothing is known of a receiver, and all else goes on. */
START_TEST(without_it_nothing_is_known_of_a_receiver)
{
	const struct udp_options options = {.receive_buffer = 100000};
	const struct path path = {.source = gid_of("127.0.0.1"),
				  .destination = gid_of("127.0.0.1")};
	struct link_frame frame = {.source = path.source, .destination = path.destination};
	struct link_peer peer = {.state = LINK_PEER_QP};
	uint64_t read = 1;
	struct link *link;

	has_netlink = false;
	ck_assert_int_eq(udp_link_create(&options, &link), 0);
	ck_assert_uint_eq(link->ops->rcvbuf_space(link, &path, 0x11), UINT32_MAX);
	ck_assert_uint_eq(link->ops->unread(link, &path, 0x11, &read), 0);
	ck_assert_uint_eq(read, 0);
	ck_assert_int_eq(link->ops->sender(link, &frame), LINK_SENDER_UNKNOWN);
	link->ops->describe_peer(link, &path, 0x11, &peer);
	ck_assert_int_eq(peer.state, LINK_PEER_UNKNOWN);
	link->ops->close(link);
}
END_TEST

/* Nor without the socket by which processes that share the address hand packets on. */
START_TEST(without_a_descriptor_there_is_no_address)
{
	struct udp_options options = {.segmentation = true};
	union ibv_gid gid = gid_of("127.77.19.1");
	const struct roster *roster;
	struct link *link;
	int error, before = 0;

	ck_assert_int_eq(udp_link_create(&options, &link), 0);
	do {
		sockets = ++before;
		error = link->ops->add_address(link, &gid, 0);
		ck_assert(error == 0 || error == EMFILE);
	} while (error);
	sockets = 0;
	roster = udp_link_roster(link);
	ck_assert_ptr_nonnull(roster);
	ck_assert_uint_ne(roster_control_port(roster, roster_self(roster)), 0);
	link->ops->close(link);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("sock_diag");
	TCase *tests = tcase_create("sock_diag");

	tcase_add_test(tests, a_socket_is_found_while_it_is_open);
	tcase_add_test(tests, a_kernel_without_udp_diag_is_not_asked);
	tcase_add_loop_test(tests, without_a_descriptor_there_is_no_link, 1, 3);
	tcase_add_test(tests, without_it_nothing_is_known_of_a_receiver);
	tcase_add_test(tests, without_a_descriptor_there_is_no_address);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
