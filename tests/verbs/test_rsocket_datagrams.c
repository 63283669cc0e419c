/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Datagram rsockets: connected or not, the first datagrams by UDP and the others by queue pairs.
 * None is lost as long as few are under way.
 */
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/must.h"
#include "tests/verbs/fixture.h"
#include "tests/verbs/rsockets.h"

static int one, other;
static struct sockaddr_in one_name, other_name;

static void setup(void)
{
	one = open_bound_datagrams(&one_name);
	other = open_bound_datagrams(&other_name);
}

static void teardown(void)
{
	ck_assert_int_eq(rclose(one), 0);
	ck_assert_int_eq(rclose(other), 0);
}

/* The first ones tell each of the other's queue pair. There are more than this has entries. */
START_TEST(back_and_forth)
{
	char text[32];

	for (int i = 0; i < 500; i++) {
		int length = snprintf(text, sizeof(text), "number %d", i);

		ck_assert_int_eq(send_to(one, &other_name, text, length), length);
		ck_assert_int_eq(receive_from(other, &one_name, text, sizeof(text)), length);
		ck_assert_int_eq(send_to(other, &one_name, text, length), length);
		memset(text, 0, sizeof(text));
		ck_assert_int_eq(receive_from(one, &other_name, text, sizeof(text)), length);
		ck_assert_int_eq(atoi(text + 7), i);
	}
}
END_TEST

START_TEST(connected)
{
	struct sockaddr_in third_name, name;
	socklen_t length = sizeof(name);
	int third = open_bound_datagrams(&third_name);
	char text[8];

	ck_fails(rsend(one, "a", 1, 0), EDESTADDRREQ);
	ck_assert_int_eq(rconnect(one, (struct sockaddr *)&other_name, length), 0);
	ck_assert_int_eq(rgetpeername(one, (struct sockaddr *)&name, &length), 0);
	ck_assert_int_eq(name.sin_port, other_name.sin_port);
	for (int i = 0; i < 10; i++) {
		ck_assert_int_eq(send_to(third, &one_name, "third", 5), 5); /* not its peer's */
		ck_assert_int_eq(rsend(one, "words", 5, 0), 5);
		ck_assert_int_eq(receive_from(other, &one_name, text, sizeof(text)), 5);
		ck_assert_int_eq(send_to(other, &one_name, "more", 4), 4);
		ck_assert_int_eq(rrecv(one, text, sizeof(text), 0), 4);
		ck_assert_mem_eq(text, "more", 4);
	}
	ck_assert_int_eq(rclose(third), 0);
}
END_TEST

START_TEST(sizes)
{
	static uint8_t data[3000], got[3000];
	/* As much as librdmacm's receives have space for. */
	static const size_t sizes[] = {0, 1, 64, 1000, 2040};

	for (int round = 0; round < 3; round++) {
		for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
			fill(data, sizes[i], i);
			ck_assert_int_eq(send_to(one, &other_name, data, sizes[i]), sizes[i]);
			ck_assert_int_eq(receive_from(other, &one_name, got, sizeof(got)),
					 sizes[i]);
			check_filled(got, sizes[i], i);
			ck_assert_int_eq(send_to(other, &one_name, data, 1), 1);
			ck_assert_int_eq(receive_from(one, &other_name, got, 1), 1);
		}
	}
	ck_fails(send_to(one, &other_name, data, sizeof(data)), EMSGSIZE);
}
END_TEST

static void cut_and_peek(int exchanges)
{
	struct iovec parts[2];
	struct sockaddr_storage source;
	char first[2], second[2];
	struct msghdr message = {.msg_iov = parts,
				 .msg_iovlen = 2,
				 .msg_name = &source,
				 .msg_namelen = sizeof(source)};

	parts[0] = (struct iovec){first, 2};
	parts[1] = (struct iovec){second, 2};
	/* The first ones come by UDP, the others from a queue pair. */
	for (int i = 0; i < exchanges; i++) {
		ck_assert_int_eq(send_to(one, &other_name, "a", 1), 1);
		ck_assert_int_eq(receive_from(other, &one_name, first, 1), 1);
		ck_assert_int_eq(send_to(other, &one_name, "b", 1), 1);
		ck_assert_int_eq(receive_from(one, &other_name, first, 1), 1);
	}
	ck_assert_int_eq(send_to(one, &other_name, "words", 5), 5);
	ck_assert_int_eq(rrecv(other, first, 1, MSG_PEEK), 1);
	ck_assert_int_eq(rrecvmsg(other, &message, 0), 4);
	ck_assert_int_eq(message.msg_flags, MSG_TRUNC);
	ck_assert_uint_eq(message.msg_namelen, sizeof(one_name));
	ck_assert_mem_eq(&source, &one_name, sizeof(one_name));
	ck_assert_mem_eq(first, "wo", 2);
	ck_assert_mem_eq(second, "rd", 2);
	ck_fails(rrecv(other, first, 1, MSG_DONTWAIT), EAGAIN);
}

START_TEST(cut_and_peeked)
{
	cut_and_peek(0);
	cut_and_peek(3);
}
END_TEST

/* MSG_TRUNC asks how long it was: the first one came by UDP, the other from a queue pair. */
START_TEST(cut_and_measured)
{
	char first[2];

	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(send_to(one, &other_name, "words", 5), 5);
		ck_assert_int_eq(rrecv(other, first, 2, MSG_PEEK | MSG_TRUNC), 5);
		ck_assert_int_eq(rrecv(other, first, 2, MSG_TRUNC), 5);
		ck_assert_mem_eq(first, "wo", 2);
		ck_fails(rrecv(other, first, 1, MSG_DONTWAIT), EAGAIN);
		ck_assert_int_eq(send_to(other, &one_name, "a", 1), 1);
		ck_assert_int_eq(rrecv(one, first, 2, 0), 1);
	}
}
END_TEST

static _Atomic pid_t receiver;

static void *receive_one(void *fd)
{
	char text[8];

	receiver = syscall(SYS_gettid);
	must(rrecv(*(int *)fd, text, sizeof(text), 0) == 5);
	return NULL;
}

/* Asleep, whichever way the datagram comes. */
START_TEST(waited_for)
{
	pthread_t thread;
	struct pollfd poll = {.fd = other, .events = POLLIN};

	ck_assert_int_eq(wait_for(other, POLLOUT), POLLOUT);
	ck_assert_int_eq(rpoll(&poll, 1, 10), 0);
	for (int i = 0; i < 5; i++) {
		receiver = 0;
		must(pthread_create(&thread, NULL, receive_one, &other) == 0);
		wait_until_asleep(&receiver);
		ck_assert_int_eq(send_to(one, &other_name, "words", 5), 5);
		must(pthread_join(thread, NULL) == 0);
		ck_assert_int_eq(send_to(other, &one_name, "words", 5), 5);
		ck_assert_int_eq(wait_for(one, POLLIN), POLLIN);
		receive_one(&one);
	}
	ck_assert_int_eq(rfcntl(other, F_SETFL, O_NONBLOCK), 0);
	ck_fails(rrecv(other, &poll, 1, 0), EAGAIN);
}
END_TEST

static struct sockaddr_in6 map(const struct sockaddr_in *name)
{
	struct sockaddr_in6 mapped = {.sin6_family = AF_INET6, .sin6_port = name->sin_port};

	mapped.sin6_addr.s6_addr[10] = mapped.sin6_addr.s6_addr[11] = 0xff;
	memcpy(mapped.sin6_addr.s6_addr + 12, &name->sin_addr, 4);
	return mapped;
}

static int open_mapped(struct sockaddr_in *name)
{
	struct sockaddr_in6 mapped;
	socklen_t length = sizeof(mapped);
	int fd = rsocket(AF_INET6, SOCK_DGRAM, 0);

	must(fd >= 0);
	*name = *(const struct sockaddr_in *)socket_address(NULL, 0);
	mapped = map(name);
	must(rbind(fd, (struct sockaddr *)&mapped, length) == 0);
	must(rgetsockname(fd, (struct sockaddr *)&mapped, &length) == 0);
	name->sin_port = mapped.sin6_port;
	return fd;
}

/* A socket of IPv6, for which addresses of IPv4 are mapped, talks with one of IPv4. */
START_TEST(of_both_versions)
{
	const struct sockaddr_in6 mapped = map(&one_name);
	struct sockaddr_in6 source;
	struct sockaddr_in name;
	int fd = open_mapped(&name);
	char text[8];

	ck_assert_int_eq(rconnect(one, (struct sockaddr *)&name, sizeof(name)), 0);
	for (int i = 0; i < 10; i++) {
		socklen_t length = sizeof(source);

		ck_assert_int_eq(rsend(one, "words", 5, 0), 5);
		ck_assert_int_eq(
			rrecvfrom(fd, text, sizeof(text), 0, (struct sockaddr *)&source, &length),
			5);
		ck_assert_uint_eq(length, sizeof(source));
		ck_assert_mem_eq(&source, &mapped, sizeof(source));
		ck_assert_int_eq(rsendto(fd, "more", 4, 0, (struct sockaddr *)&source, length), 4);
		ck_assert_int_eq(receive_from(one, &name, text, sizeof(text)), 4);
	}
	ck_assert_int_eq(rclose(fd), 0);
}
END_TEST

/* What others send to a connected socket isn't there for rpoll() either. */
START_TEST(polled_while_connected)
{
	struct pollfd poll = {.fd = one, .events = POLLIN};
	char text[8];

	for (int i = 0; i < 3; i++) {
		ck_assert_int_eq(send_to(other, &one_name, "words", 5), 5);
		ck_assert_int_eq(receive_from(one, &other_name, text, sizeof(text)), 5);
		ck_assert_int_eq(send_to(one, &other_name, "words", 5), 5);
		ck_assert_int_eq(receive_from(other, &one_name, text, sizeof(text)), 5);
	}
	ck_assert_int_eq(rconnect(one, (struct sockaddr *)&one_name, sizeof(one_name)), 0);
	ck_assert_int_eq(send_to(other, &one_name, "words", 5), 5);
	ck_assert_int_eq(rpoll(&poll, 1, 50), 0);
	ck_assert_int_eq(rsend(one, "more", 4, 0), 4);
	ck_assert_int_eq(wait_for(one, POLLIN), POLLIN);
	ck_assert_int_eq(rrecv(one, text, sizeof(text), 0), 4);
}
END_TEST

/* It keeps its port if that was its choice, as Linux has it. */
START_TEST(connected_no_more)
{
	const struct sockaddr_in none = {.sin_family = AF_UNSPEC};
	char text[8];

	ck_assert_int_eq(rclose(one), 0);
	one = rsocket(AF_INET, SOCK_DGRAM, 0);
	ck_assert_int_eq(rbind(one, (struct sockaddr *)&one_name, sizeof(one_name)), 0);
	ck_assert_int_eq(rconnect(one, (struct sockaddr *)&one_name, sizeof(one_name)), 0);
	ck_assert_int_eq(rconnect(one, (struct sockaddr *)&none, sizeof(none)), 0);
	ck_fails(rsend(one, "a", 1, 0), EDESTADDRREQ);
	ck_assert_int_eq(send_to(other, &one_name, "words", 5), 5);
	ck_assert_int_eq(receive_from(one, &other_name, text, sizeof(text)), 5);
}
END_TEST

static void exchange_from(int fd, const struct sockaddr_in *from)
{
	char text[8];

	/* The first by UDP, the others by queue pairs. */
	for (int i = 0; i < 5; i++) {
		ck_assert_int_eq(send_to(fd, &other_name, "words", 5), 5);
		ck_assert_int_eq(receive_from(other, from, text, sizeof(text)), 5);
		ck_assert_int_eq(send_to(other, from, "more", 4), 4);
		ck_assert_int_eq(receive_from(fd, &other_name, text, sizeof(text)), 4);
	}
}

/* What it sends tells the port, or the address, that it has then. */
START_TEST(connected_no_more_and_elsewhere)
{
	const struct sockaddr_in none = {.sin_family = AF_UNSPEC};
	struct sockaddr_in name;
	socklen_t length = sizeof(name);
	int fd = rsocket(AF_INET, SOCK_DGRAM, 0);
	char text[8];

	ck_assert_int_eq(rconnect(fd, (struct sockaddr *)&other_name, length), 0);
	ck_assert_int_eq(rgetsockname(fd, (struct sockaddr *)&name, &length), 0);
	exchange_from(fd, &name);
	ck_assert_int_eq(rconnect(fd, (struct sockaddr *)&none, length), 0);
	ck_assert_int_eq(rbind(fd, socket_address(NULL, 0), length), 0);
	ck_assert_int_eq(rgetsockname(fd, (struct sockaddr *)&name, &length), 0);
	exchange_from(fd, &name);
	ck_assert_int_eq(rconnect(fd, (struct sockaddr *)&other_name, length), 0);
	ck_assert_int_eq(rconnect(fd, (struct sockaddr *)&none, length), 0);
	ck_assert_int_eq(send_to(fd, &other_name, "words", 5), 5); /* which binds it */
	ck_assert_int_eq(rgetsockname(fd, (struct sockaddr *)&name, &length), 0);
	ck_assert_int_eq(receive_from(other, &name, text, sizeof(text)), 5);
	exchange_from(fd, &name);
	ck_assert_int_eq(rclose(fd), 0);
}
END_TEST

/* It needs no more than its family. */
START_TEST(short_address_of_none)
{
	const struct sockaddr none = {.sa_family = AF_UNSPEC};
	int fd = rsocket(AF_INET6, SOCK_DGRAM, 0);

	must(fd >= 0);
	ck_assert_int_eq(rconnect(fd, &none, sizeof(none)), 0);
	ck_assert_int_eq(rconnect(fd, &none, sizeof(none.sa_family)), 0);
	ck_fails(rconnect(fd, &none, 1), EINVAL);
	ck_fails(rconnect(fd, NULL, sizeof(none)), EFAULT);
	ck_assert_int_eq(rclose(fd), 0);
}
END_TEST

START_TEST(waited_for_in_vain)
{
	const struct timeval timeout = {.tv_usec = 20000};
	char byte;

	ck_assert_int_eq(rsetsockopt(one, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout)), 0);
	ck_fails(rrecv(one, &byte, 1, 0), EAGAIN);
	ck_assert_int_eq(send_to(other, &one_name, "a", 1), 1);
	ck_assert_int_eq(rrecv(one, &byte, 1, 0), 1);
	ck_fails(rrecv(one, &byte, 1, 0), EAGAIN);
}
END_TEST

/* An ICMP message says that the peer isn't there, once, by whichever call asks first. */
START_TEST(peer_is_not_there)
{
	struct pollfd poll = {.fd = one, .events = POLLIN};
	char byte;

	ck_assert_int_eq(rclose(other), 0);
	ck_assert_int_eq(rconnect(one, (struct sockaddr *)&other_name, sizeof(other_name)), 0);
	ck_assert_int_eq(rsend(one, "a", 1, 0), 1);
	ck_fails(rrecv(one, &byte, 1, 0), ECONNREFUSED);
	ck_fails(rrecv(one, &byte, 1, MSG_DONTWAIT), EAGAIN);
	ck_assert_int_eq(rsend(one, "a", 1, 0), 1);
	ck_assert_int_eq(rpoll(&poll, 1, PATIENCE), 1);
	ck_assert_int_eq(poll.revents, POLLERR);
	ck_assert_int_eq(get_int(one, SOL_SOCKET, SO_ERROR), ECONNREFUSED);
	ck_assert_int_eq(get_int(one, SOL_SOCKET, SO_ERROR), 0);
	ck_assert_int_eq(rpoll(&poll, 1, 0), 0);
	ck_assert_int_eq(rsend(one, "a", 1, 0), 1);
	ck_assert_int_eq(rpoll(&poll, 1, PATIENCE), 1);
	ck_fails(rsend(one, "a", 1, 0), ECONNREFUSED);
	other = open_bound_datagrams(&other_name);
}
END_TEST

/* By UDP and from a queue pair. */
START_TEST(of_many_parts)
{
	struct iovec parts[100];
	struct msghdr message = {.msg_name = &other_name,
				 .msg_namelen = sizeof(other_name),
				 .msg_iov = parts,
				 .msg_iovlen = 100};
	static uint8_t data[1 << 10], got[sizeof(data)];
	static char much[1 << 16];

	fill(data, sizeof(data), 3);
	for (int i = 0; i < 100; i++)
		parts[i] = (struct iovec){data + 10 * i, 10};
	for (int i = 0; i < 3; i++) {
		ck_assert_int_eq(rsendmsg(one, &message, 0), 1000);
		ck_assert_int_eq(receive_from(other, &one_name, got, sizeof(got)), 1000);
		check_filled(got, 1000, 3);
		ck_assert_int_eq(send_to(other, &one_name, "a", 1), 1);
		ck_assert_int_eq(receive_from(one, &other_name, got, 1), 1);
	}
	parts[50] = (struct iovec){much, sizeof(much)};
	ck_fails(rsendmsg(one, &message, 0), EMSGSIZE);
}
END_TEST

/* Where there are no bytes there may be no buffer. */
START_TEST(of_no_parts)
{
	for (int i = 0; i < 3; i++) {
		ck_assert_int_eq(send_to(one, &other_name, NULL, 0), 0);
		ck_assert_int_eq(receive_from(other, &one_name, NULL, 0), 0);
		ck_assert_int_eq(send_to(other, &one_name, "a", 1), 1);
		ck_assert_int_eq(receive_from(one, &other_name, NULL, 0), 0);
	}
}
END_TEST

/* It is of nobody, whose address isn't there either. */
START_TEST(end_has_no_source)
{
	struct sockaddr_in source;
	socklen_t length = sizeof(source);
	struct msghdr message = {.msg_name = &source, .msg_namelen = length, .msg_flags = -1};
	char byte;

	ck_fails(rshutdown(one, SHUT_RD), ENOTCONN);
	ck_assert_int_eq(rrecvfrom(one, &byte, 1, 0, (struct sockaddr *)&source, &length), 0);
	ck_assert_uint_eq(length, 0);
	ck_assert_int_eq(rrecvmsg(one, &message, 0), 0);
	ck_assert_uint_eq(message.msg_namelen, 0);
	ck_assert_int_eq(message.msg_flags, 0);
	ck_assert_int_eq(rconnect(other, (struct sockaddr *)&one_name, sizeof(one_name)), 0);
	ck_assert_int_eq(rshutdown(other, SHUT_RD), 0);
	length = sizeof(source);
	ck_assert_int_eq(rrecvfrom(other, &byte, 1, 0, (struct sockaddr *)&source, &length), 0);
	ck_assert_uint_eq(length, 0);
}
END_TEST

static void *receive_end(void *unused)
{
	char byte;

	receiver = syscall(SYS_gettid);
	must(rrecv(one, &byte, 1, 0) == 0);
	return NULL;
}

/* As programs end a thread that waits for datagrams; one that isn't connected is told so. */
START_TEST(shut_down)
{
	struct pollfd poll = {.fd = one, .events = POLLIN};
	pthread_t thread;

	receiver = 0;
	must(pthread_create(&thread, NULL, receive_end, NULL) == 0);
	wait_until_asleep(&receiver);
	ck_fails(rshutdown(one, SHUT_RDWR), ENOTCONN);
	must(pthread_join(thread, NULL) == 0);
	ck_assert_int_eq(rpoll(&poll, 1, 0), 1);
	ck_assert_int_eq(poll.revents, POLLIN);
	ck_fails(rshutdown(other, 3), EINVAL);
	ck_fails(rrecv(other, &poll, 1, MSG_DONTWAIT), EAGAIN);
}
END_TEST

/* Also when the peer's queue pair is known, and no datagram goes by UDP; what comes is received. */
START_TEST(shut_down_for_sending)
{
	char text[8];

	for (int i = 0; i < 3; i++) {
		ck_assert_int_eq(send_to(one, &other_name, "a", 1), 1);
		ck_assert_int_eq(receive_from(other, &one_name, text, sizeof(text)), 1);
	}
	ck_assert_int_eq(rconnect(one, (struct sockaddr *)&other_name, sizeof(other_name)), 0);
	ck_assert_int_eq(rshutdown(one, SHUT_WR), 0);
	ck_fails(rsend(one, "a", 1, 0), EPIPE);
	ck_assert_int_eq(send_to(other, &one_name, "words", 5), 5);
	ck_assert_int_eq(receive_from(one, &other_name, text, sizeof(text)), 5);
}
END_TEST

START_TEST(refused)
{
	struct sockaddr_in6 ipv6 = {.sin6_family = AF_INET6, .sin6_port = 5};
	struct iovec many[17] = {};
	char byte = 0;

	ck_fails(rlisten(one, 1), EOPNOTSUPP);
	ck_fails(raccept(one, NULL, NULL), EOPNOTSUPP);
	ck_fails(rsend(one, &byte, 1, MSG_OOB), EOPNOTSUPP);
	ck_fails(riomap(one, &byte, 1, 0, 0, -1), ENOTSUP);
	ck_fails((ssize_t)riowrite(one, &byte, 1, 0, 0), ENOTSUP);
	ck_fails(rsendto(one, &byte, 1, 0, (struct sockaddr *)&ipv6, sizeof(ipv6)), EAFNOSUPPORT);
	ck_fails(rsendto(one, &byte, 1, 0, (struct sockaddr *)&other_name, 8), EINVAL);
	ck_fails(rsendto(one, &byte, 1, 0, (struct sockaddr *)&ipv6, 8), EINVAL);
	ck_assert_int_eq(rconnect(one, (struct sockaddr *)&other_name, sizeof(other_name)), 0);
	ck_assert_int_eq(rwritev(one, many, 17), 0);
}
END_TEST

/* As to any UDP socket: a broadcast isn't allowed unless it is asked for. */
START_TEST(not_reached)
{
	struct sockaddr *broadcast = socket_address("127.255.255.255", 5);
	int fd = socket(AF_INET, SOCK_DGRAM, 0), unbound = rsocket(AF_INET, SOCK_DGRAM, 0);
	const socklen_t length = sizeof(struct sockaddr_in);

	must(fd >= 0 && unbound >= 0);
	ck_fails(sendto(fd, "a", 1, 0, broadcast, length), EACCES);
	ck_fails(rsendto(one, "a", 1, 0, broadcast, length), EACCES);
	ck_fails(rsendto(unbound, "a", 1, 0, broadcast, length), EACCES);
	ck_fails(rconnect(one, broadcast, length), EACCES);
	ck_fails(rsend(one, "a", 1, 0), EDESTADDRREQ);
	ck_assert_int_eq(send_to(one, &other_name, "a", 1), 1);
	ck_assert_int_eq(rclose(unbound), 0);
	close(fd);
}
END_TEST

int main(void)
{
	const TTest *const all[] = {
		back_and_forth,
		connected,
		sizes,
		cut_and_peeked,
		cut_and_measured,
		waited_for,
		of_both_versions,
		polled_while_connected,
		connected_no_more,
		connected_no_more_and_elsewhere,
		short_address_of_none,
		waited_for_in_vain,
		peer_is_not_there,
		of_many_parts,
		of_no_parts,
		end_has_no_source,
		shut_down,
		shut_down_for_sending,
		refused,
		not_reached,
	};

	return run_rsocket_tests("rsocket_datagrams", setup, teardown, all,
				 sizeof(all) / sizeof(*all));
}
