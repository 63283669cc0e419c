/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a real link has open: all of it is closed with the link and in a forked child, nothing stays
 * open where a step fails, and what the application has closed and opened anew is left alone.
 */
#include <errno.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "net/spin.h"
#include "net/udp/udp_holder.h"
#include "open_descriptors.h"
#include "own_network.h"
#include "tests/run_suite.h"

#define NETWORK "127.77.14"
#include "udp_traffic.h"

#define GROUP "239.77.14.1"
#define OTHER_GROUP "239.77.14.2"
#define TRAIN 15	       /* packets of 4 KiB that one super-packet has */
#define LATER (2 * UDP_VERIFY) /* when the link looks again whether its descriptors are its own */

static const struct udp_options options = {.segmentation = true};
static struct node from, to;
static struct traffic *traffic;

static struct udp_address *from_address(void)
{
	return udp_address_find((struct udp_link *)from.link, &from.gid);
}

static int join(const char *group)
{
	union ibv_gid gid = gid_of(group);

	return from.link->ops->join(from.link, &gid, NULL);
}

static void leave(const char *group)
{
	union ibv_gid gid = gid_of(group);

	from.link->ops->leave(from.link, &gid);
}

static void set_up(void)
{
	to = node_open(ADDRESS_B, &options);
}

static void tear_down(void)
{
	node_close(&to);
}

/* A link with all that one may have open: two addresses, a group, and a connection with pages. */
static void open_all(void)
{
	union ibv_gid second = gid_of(ADDRESS_C);

	from = node_open(ADDRESS_A, &options);
	ck_assert_int_eq(from.link->ops->add_address(from.link, &second, 0), 0);
	ck_assert_int_eq(join(GROUP), 0);
	traffic = traffic_new(&from, &to);
	traffic->path.traffic_class = UDP_TRAFFIC_CLASS;
	traffic->dest_qp = qpn_of(&to);
	for (int i = 0; i < TRAIN; i++)
		add_packet(traffic, 4096);
	send_until_connected(&from, &to, traffic);
	send_some(&from, traffic, 0, TRAIN);
	expect(&to, traffic, 0, TRAIN, 64);
}

static void close_all(void)
{
	node_close(&from);
	free(traffic);
}

START_TEST(nothing_left_open)
{
	unsigned int before = open_descriptors();
	int status;
	pid_t child;

	open_all();
	ck_assert_uint_gt(open_descriptors(), before + 8);
	child = fork();
	if (child == 0) {
		from.link->ops->after_fork_child(from.link);
		/* All but one, see udp_after_fork_child(). */
		_exit(open_descriptors() <= before + 1 ? EXIT_SUCCESS : EXIT_FAILURE);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
	close_all();
	ck_assert_uint_eq(open_descriptors(), before);
}
END_TEST

/* --- where a step fails ------------------------------------------------------------------- */

/* A socket at @address; *@port: where, or 0 for any port, which is written there. */
static int squat(const char *address, uint16_t *port)
{
	union ibv_gid gid = gid_of(address);
	struct sockaddr_storage name;
	socklen_t length = gid_to_sockaddr(&gid, *port, &name);
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	ck_assert_int_eq(bind(fd, (struct sockaddr *)&name, length), 0);
	ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&name, &length), 0);
	*port = ntohs(((struct sockaddr_in *)&name)->sin_port);
	return fd;
}

START_TEST(an_address_that_is_taken)
{
	union ibv_gid taken = gid_of(ADDRESS_C);
	uint16_t port = ROCE_V2_UDP_PORT;
	int squatter = squat(ADDRESS_C, &port);
	unsigned int before;

	from = node_open(ADDRESS_A, &options);
	before = open_descriptors();
	ck_assert_int_eq(from.link->ops->add_address(from.link, &taken, 0), EADDRINUSE);
	ck_assert_uint_eq(open_descriptors(), before);
	node_close(&from);
	close(squatter);
}
END_TEST

START_TEST(an_address_without_a_descriptor)
{
	union ibv_gid second = gid_of(ADDRESS_C);
	struct rlimit limit, less;

	from = node_open(ADDRESS_A, &options);
	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	less = (struct rlimit){dup(0), limit.rlim_max};
	close(less.rlim_cur);
	for (unsigned int more = 0; more < 2; more++) {
		unsigned int before = open_descriptors();

		ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &less), 0);
		ck_assert_int_eq(from.link->ops->add_address(from.link, &second, 0), EMFILE);
		ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
		ck_assert_uint_eq(open_descriptors(), before);
		less.rlim_cur++;
	}
	ck_assert_int_eq(from.link->ops->add_address(from.link, &second, 0), 0);
	node_close(&from);
}
END_TEST

START_TEST(a_group_that_is_none)
{
	unsigned int before;

	from = node_open(ADDRESS_A, &options);
	ck_assert_int_eq(join(GROUP), 0); /* with what all groups share */
	before = open_descriptors();
	ck_assert_int_eq(join(ADDRESS_C), EINVAL);
	ck_assert_uint_eq(open_descriptors(), before);
	node_close(&from);
}
END_TEST

/* Here because its port is another's. */
START_TEST(a_connection_that_cannot_be_made)
{
	uint16_t port = 0;
	int squatter = squat(ADDRESS_A, &port);
	unsigned int before;

	from = node_open(ADDRESS_A, &options);
	traffic = traffic_new(&from, &to);
	add_packet(traffic, 8);
	before = open_descriptors();
	from_address()->source_port = port;
	for (int i = 0; i < 2 * UDP_CONNECT_AFTER; i++)
		send_some(&from, traffic, 0, 1);
	ck_assert_int_eq(from_address()->connections[0]->state, UDP_REFUSED);
	ck_assert_uint_eq(open_descriptors(), before);
	close_all();
	close(squatter);
}
END_TEST

/* Who has the port, and what became of a peer, is looked up in files and by sockets. */
START_TEST(questions)
{
	uint16_t port = ROCE_V2_UDP_PORT;
	int squatter = squat(ADDRESS_C, &port);
	const struct path path = {.source = gid_of(ADDRESS_A),
				  .destination = gid_of("127.77.14.9")};
	const union ibv_gid taken = gid_of(ADDRESS_C);
	struct link_peer peer;
	unsigned int before;
	char text[256];

	from = node_open(ADDRESS_A, &options);
	before = open_descriptors();
	udp_holder_text(&taken, ROCE_V2_UDP_PORT, text, sizeof(text));
	ck_assert_ptr_nonnull(strstr(text, "the application itself"));
	from.link->ops->describe_peer(from.link, &path, 0x42, &peer);
	ck_assert_int_eq(peer.state, LINK_PEER_NOT_THERE);
	ck_assert_uint_eq(open_descriptors(), before);
	node_close(&from);
	close(squatter);
}
END_TEST

/*
 * One that doesn't know any more how the kernel numbers its packets isn't used, nor kept; and
 * after a while there is another.
 */
START_TEST(a_connection_that_is_given_up)
{
	struct udp_connection *connection;
	unsigned int before;

	open_all();
	connection = from_address()->connections[0];
	if (connection->state == UDP_CONNECTED) {
		before = open_descriptors();
		ck_assert_int_eq(shutdown(connection->fd, SHUT_WR), 0);
		spin_lock(&connection->lock);
		udp_connection_renumber(connection);
		udp_connection_put(connection);
		ck_assert_int_eq(connection->state, UDP_REFUSED);
		ck_assert_uint_eq(open_descriptors(), before - 1);
		for (int i = 0; i < 2 * UDP_CONNECT_AFTER; i++) {
			send_some(&from, traffic, 0, TRAIN);
			expect(&to, traffic, 0, TRAIN, 64);
		}
		ck_assert_int_eq(connection->state, UDP_CONNECTED);
		ck_assert_uint_eq(open_descriptors(), before);
	}
	close_all();
}
END_TEST

/* --- what the application closes -------------------------------------------------------------- */

/* A socket of the application's in the place of @fd, with a byte to read. Returns its peer. */
static int replace(int fd)
{
	int ends[2];

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, ends), 0);
	ck_assert_int_eq(dup2(ends[0], fd), fd);
	ck_assert_int_eq(write(ends[1], "", 1), 1);
	close(ends[0]);
	return ends[1];
}

/* It is open, nothing was written to it and nothing was read. */
static void expect_untouched(int fd, int peer)
{
	char byte;

	ck_assert_int_eq(recv(peer, &byte, 1, MSG_DONTWAIT), -1);
	ck_assert_int_eq(errno, EAGAIN);
	ck_assert_int_eq(recv(fd, &byte, 1, MSG_DONTWAIT), 1);
	close(fd);
	close(peer);
}

static void call_send(void)
{
	from.link->ops->send(from.link, traffic->packets, TRAIN, LATER);
	ck_assert(from.link->lost);
}

static void call_receive(void)
{
	struct link_frame frame;
	int fds[8];

	ck_assert_uint_eq(from.link->ops->receive(from.link, &frame, 1, LATER), 0);
	ck_assert(from.link->lost);
	ck_assert_uint_eq(from.link->ops->descriptors(from.link, fds, 8), 0);
}

static void call_join(void)
{
	join(OTHER_GROUP);
}

static void call_leave(void)
{
	leave(GROUP);
}

static void call_nothing(void)
{
}

/* What is called first. */
static void (*const calls[])(void) = {call_send, call_receive, call_join, call_leave, call_nothing};

/* Those that open_all() opens. Returns how many. */
static unsigned int opened(int *fds)
{
	bool before[DESCRIPTORS_MAX];
	unsigned int count = 0;

	for (int fd = 0; fd < DESCRIPTORS_MAX; fd++)
		before[fd] = fcntl(fd, F_GETFD) >= 0;
	open_all();
	for (int fd = 0; fd < DESCRIPTORS_MAX; fd++) {
		if (!before[fd] && fcntl(fd, F_GETFD) >= 0)
			fds[count++] = fd;
	}
	return count;
}

START_TEST(one_of_the_applications)
{
	int fds[DESCRIPTORS_MAX], peer;

	for (unsigned int i = 0; i < opened(fds); i++) {
		peer = replace(fds[i]);
		calls[_i]();
		close_all();
		expect_untouched(fds[i], peer);
	}
	close_all();
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("udp_descriptors");
	TCase *tests = tcase_create("udp_descriptors");

	fill_memory();
	tcase_set_timeout(tests, 60);
	tcase_add_checked_fixture(tests, set_up, tear_down);
	tcase_add_test(tests, nothing_left_open);
	tcase_add_test(tests, an_address_that_is_taken);
	tcase_add_test(tests, an_address_without_a_descriptor);
	tcase_add_test(tests, a_group_that_is_none);
	tcase_add_test(tests, a_connection_that_cannot_be_made);
	tcase_add_test(tests, questions);
	tcase_add_test(tests, a_connection_that_is_given_up);
	tcase_add_loop_test(tests, one_of_the_applications, 0, sizeof(calls) / sizeof(calls[0]));
	own_network_enter(tests);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
