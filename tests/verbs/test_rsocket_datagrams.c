/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Datagram rsockets: connected or not, the first datagrams by UDP and the others by queue pairs.
 * None is lost as long as few are under way.
 */
#include <fcntl.h>
#include <rdma/rdma_verbs.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/must.h"
#include "tests/verbs/fixture.h"
#include "tests/verbs/rsockets.h"

static int one, other;
static struct sockaddr_in one_name, other_name;

static int open_datagrams(struct sockaddr_in *name)
{
	socklen_t length = sizeof(*name);
	uint16_t port;
	int fd = open_bound(SOCK_DGRAM, &port);

	must(rgetsockname(fd, (struct sockaddr *)name, &length) == 0);
	return fd;
}

static void setup(void)
{
	one = open_datagrams(&one_name);
	other = open_datagrams(&other_name);
}

static void teardown(void)
{
	ck_assert_int_eq(rclose(one), 0);
	ck_assert_int_eq(rclose(other), 0);
}

static ssize_t send_to(int fd, const struct sockaddr_in *to, const void *data, size_t length)
{
	return rsendto(fd, data, length, 0, (const struct sockaddr *)to, sizeof(*to));
}

/* The next datagram of @fd, which has to be of @from. */
static ssize_t receive_from(int fd, const struct sockaddr_in *from, void *data, size_t length)
{
	struct sockaddr_in source = {};
	socklen_t source_length = sizeof(source);
	ssize_t received =
		rrecvfrom(fd, data, length, 0, (struct sockaddr *)&source, &source_length);

	must(source_length == sizeof(source));
	must(source.sin_port == from->sin_port);
	must(source.sin_addr.s_addr == from->sin_addr.s_addr);
	return received;
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
	int third = open_datagrams(&third_name);
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
	other = open_datagrams(&other_name);
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

/* --- as librdmacm has it, byte by byte ------------------------------------------------------- */

#define UDP_HEADER 16 /* over UDP, of IPv4 */
#define UD_HEADER 8   /* over a UD QP, likewise */
#define GRH 40

/* A UDP socket, which stands for a datagram rsocket of librdmacm. */
static int open_udp(const char *address, struct sockaddr_in *name)
{
	socklen_t length = sizeof(*name);
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	must(fd >= 0);
	must(bind(fd, socket_address(address, 0), length) == 0);
	must(getsockname(fd, (struct sockaddr *)name, &length) == 0);
	return fd;
}

static void udp_header(uint8_t *header, uint8_t kind, uint32_t qpn,
		       const struct sockaddr_in *source)
{
	qpn = htobe32(qpn);
	memset(header, 0x55, 4);
	header[4] = 4;
	header[5] = kind;
	header[6] = UDP_HEADER;
	header[7] = 0;
	memcpy(header + 8, &qpn, 4);
	memcpy(header + 12, &source->sin_addr, 4);
}

static void ud_header(uint8_t *header, const struct sockaddr_in *source)
{
	header[0] = 4;
	header[1] = UD_HEADER;
	memcpy(header + 2, &source->sin_port, 2);
	memcpy(header + 4, &source->sin_addr, 4);
}

/* What comes by UDP from @from has its queue pair and its own address, not the receiver's. */
static uint32_t told_qpn(int fd, const struct sockaddr_in *from, uint8_t kind, const char *data)
{
	uint8_t got[64], expected[UDP_HEADER];
	ssize_t length = recv(fd, got, sizeof(got), 0);
	uint32_t qpn;

	must(length == (ssize_t)(UDP_HEADER + strlen(data)));
	qpn = got[9] << 16 | got[10] << 8 | got[11];
	must(qpn != 0);
	udp_header(expected, kind, qpn, from);
	ck_assert_mem_eq(got, expected, sizeof(expected));
	ck_assert_mem_eq(got + UDP_HEADER, data, strlen(data));
	return qpn;
}

START_TEST(header_of_udp)
{
	struct sockaddr_in name;
	int fd = open_udp("127.0.0.1", &name);
	uint8_t header[UDP_HEADER + 4];
	char text[8];
	uint32_t qpn;

	ck_assert_int_eq(send_to(one, &name, "words", 5), 5);
	qpn = told_qpn(fd, &one_name, 0, "words");
	/* What isn't of an rsocket, or has no such header, is dropped. */
	for (int i = 0; i < 2; i++) {
		udp_header(header, 0, 0x123456, &name);
		header[i ? 6 : 0] = sizeof(header) + 1; /* the length, or of the tag */
		must(sendto(fd, header, sizeof(header), 0, (struct sockaddr *)&one_name,
			    sizeof(one_name)) == sizeof(header));
	}
	/* Data is answered by what only tells the number, when it is looked at. */
	udp_header(header, 0, 0x123456, &name);
	memcpy(header + UDP_HEADER, "more", 4);
	must(sendto(fd, header, sizeof(header), 0, (struct sockaddr *)&one_name,
		    sizeof(one_name)) == sizeof(header));
	ck_assert_int_eq(receive_from(one, &name, text, sizeof(text)), 4);
	ck_assert_mem_eq(text, "more", 4);
	ck_assert_uint_eq(told_qpn(fd, &one_name, 7, ""), qpn);
	close(fd);
}
END_TEST

/* As Linux has it: that is told before what came until then. */
START_TEST(peer_has_gone)
{
	struct pollfd poll = {.fd = one};
	struct sockaddr_in name;
	int fd = open_udp(NULL, &name);
	uint8_t header[UDP_HEADER + 1] = {};
	char byte;

	ck_assert_int_eq(rconnect(one, (struct sockaddr *)&name, sizeof(name)), 0);
	udp_header(header, 0, 0, &name); /* without a queue pair */
	must(sendto(fd, header, sizeof(header), 0, (struct sockaddr *)&one_name,
		    sizeof(one_name)) == sizeof(header));
	ck_assert_int_eq(wait_for(one, POLLIN), POLLIN);
	close(fd);
	ck_assert_int_eq(rsend(one, "a", 1, 0), 1);
	ck_assert_int_eq(rpoll(&poll, 1, PATIENCE), 1);
	ck_assert_int_eq(poll.revents, POLLERR);
	ck_fails(rrecv(one, &byte, 1, 0), ECONNREFUSED);
	ck_assert_int_eq(rrecv(one, &byte, 1, 0), 1);
}
END_TEST

/* From a peer that stands for an rsocket with the queue pair @qpn; @one looks at it. */
static void tell_qpn(int fd, const struct sockaddr_in *name, uint32_t qpn)
{
	struct pollfd polled = {.fd = one, .events = POLLOUT};
	uint8_t header[UDP_HEADER];

	udp_header(header, 7, qpn, name);
	must(sendto(fd, header, sizeof(header), 0, (struct sockaddr *)&one_name,
		    sizeof(one_name)) == sizeof(header));
	must(rpoll(&polled, 1, 0) == 1);
}

/* Whether what @one sends to the UDP socket @fd comes there, and not to a queue pair. */
static bool goes_by_udp(int fd, const struct sockaddr_in *name)
{
	uint8_t got[64];

	must(send_to(one, name, "words", 5) == 5);
	return recv(fd, got, sizeof(got), MSG_DONTWAIT) == UDP_HEADER + 5;
}

#define STRANGERS 1100 /* more than addresses are remembered */

/* Any host may say that it has queue pairs, at as many ports as it likes: the last ones count. */
START_TEST(many_peers)
{
	struct sockaddr_in name, spoken_to, stranger;
	int fd = open_udp(NULL, &name), busy = open_udp(NULL, &spoken_to);

	tell_qpn(fd, &name, 0x123456);
	tell_qpn(busy, &spoken_to, 0x123456);
	ck_assert(!goes_by_udp(fd, &name));
	ck_assert(!goes_by_udp(busy, &spoken_to));
	for (int i = 0; i < STRANGERS; i++) {
		int other_peer = open_udp(NULL, &stranger);

		tell_qpn(other_peer, &stranger, 0x123456);
		if (i == STRANGERS / 2)
			ck_assert(!goes_by_udp(busy, &spoken_to));
		close(other_peer);
	}
	ck_assert(!goes_by_udp(busy, &spoken_to));
	ck_assert(goes_by_udp(fd, &name));
	tell_qpn(fd, &name, 0x123456);
	ck_assert(!goes_by_udp(fd, &name));
	close(fd);
	close(busy);
}
END_TEST

/* However many others it sends to, a connected socket remembers its peer. */
START_TEST(peer_among_many)
{
	struct sockaddr_in stranger = other_name;
	char text[8];

	ck_assert_int_eq(rconnect(one, (struct sockaddr *)&other_name, sizeof(other_name)), 0);
	for (int i = 0; i < STRANGERS; i++) {
		stranger.sin_port = htons(1 + i);
		ck_assert_int_eq(send_to(one, &stranger, "a", 1), 1);
	}
	for (int i = 0; i < 3; i++) {
		ck_assert_int_eq(rsend(one, "words", 5, 0), 5);
		ck_assert_int_eq(receive_from(other, &one_name, text, sizeof(text)), 5);
		ck_assert_int_eq(send_to(other, &one_name, "more", 4), 4);
		ck_assert_int_eq(rrecv(one, text, sizeof(text), 0), 4);
	}
}
END_TEST

/* The way to a peer is looked for when it is sent to: of these calls the third one fails. */
START_TEST(peers_that_only_send)
{
	struct sockaddr_in silent, name;
	int fd = open_udp(NULL, &silent), answered = open_udp(NULL, &name);

	setenv("URXE_FAULTS", "fail(ENOMEM)#3+/rdma_create_id", 1);
	one = open_datagrams(&one_name);
	tell_qpn(fd, &silent, 0x123456);
	tell_qpn(answered, &name, 0x123456);
	ck_assert(!goes_by_udp(answered, &name));
	/* None is found to this one: by UDP, then. */
	ck_assert(goes_by_udp(fd, &silent));
	ck_assert_int_eq(rclose(one), 0);
	close(fd);
	close(answered);
}
END_TEST

#define ROUND 40   /* datagrams that a socket has space for */
#define ROUNDS 100 /* far more than that in all */
#define LONG 1000

/* Those by UDP that aren't read are lost once there are as many as in a socket of the kernel's. */
START_TEST(unread)
{
	uint8_t datagram[UDP_HEADER + LONG] = {}, got[LONG];
	struct pollfd polled = {.fd = one, .events = POLLOUT};
	struct sockaddr_in name;
	int fd = open_udp("127.0.0.1", &name), space, kept = 0;
	socklen_t length = sizeof(space);
	uint32_t number, last = 0;

	ck_assert_int_eq(rgetsockopt(one, SOL_SOCKET, SO_RCVBUF, &space, &length), 0);
	udp_header(datagram, 0, 0, &name);
	for (number = 0; number < ROUND * ROUNDS; number++) {
		memcpy(datagram + UDP_HEADER, &number, sizeof(number));
		must(sendto(fd, datagram, sizeof(datagram), 0, (struct sockaddr *)&one_name,
			    sizeof(one_name)) == sizeof(datagram));
		if (number % ROUND == ROUND - 1)
			ck_assert_int_eq(rpoll(&polled, 1, 0), 1);
	}
	for (; rrecv(one, got, sizeof(got), MSG_DONTWAIT) == LONG; kept++)
		memcpy(&last, got, sizeof(last));
	ck_assert_int_ge(kept, ROUND);
	ck_assert_int_le(kept, 2 * space / LONG);
	/* The first ones, and then those that find space again. */
	ck_assert_uint_eq(last, kept - 1);
	must(sendto(fd, datagram, sizeof(datagram), 0, (struct sockaddr *)&one_name,
		    sizeof(one_name)) == sizeof(datagram));
	ck_assert_int_eq(receive_from(one, &name, got, sizeof(got)), LONG);
	close(fd);
}
END_TEST

static struct ibv_ah *to_itself(struct rdma_cm_id *id)
{
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1, .grh.hop_limit = 64};
	struct ibv_ah *ah;

	must(ibv_query_gid(id->verbs, 1, 0, &attr.grh.dgid) == 0);
	ah = ibv_create_ah(id->pd, &attr);
	must(ah);
	return ah;
}

/* Datagrams between @one and a queue pair of ours that belongs to the UDP socket @fd. */
static void exchange(int fd, const struct sockaddr_in *name, struct rdma_cm_id *id, uint32_t qpn)
{
	uint8_t buffer[GRH + 64], header[UDP_HEADER];
	struct ibv_mr *mr = rdma_reg_msgs(id, buffer, sizeof(buffer));
	struct ibv_ah *ah = to_itself(id);
	struct ibv_wc wc;
	int count;

	must(mr);
	must(rdma_post_recv(id, NULL, buffer, sizeof(buffer), mr) == 0);
	udp_header(header, 7, id->qp->qp_num, name);
	must(sendto(fd, header, sizeof(header), 0, (struct sockaddr *)&one_name,
		    sizeof(one_name)) == sizeof(header));
	do {
		ck_assert_int_eq(send_to(one, name, "words", 5), 5);
		count = ibv_poll_cq(id->recv_cq, 1, &wc);
	} while (count == 0);
	must(count == 1 && wc.status == IBV_WC_SUCCESS);
	ck_assert_uint_eq(wc.byte_len, GRH + UD_HEADER + 5);
	ck_assert_uint_eq(wc.src_qp, qpn);
	ud_header(header, &one_name);
	ck_assert_mem_eq(buffer + GRH, header, UD_HEADER);
	ck_assert_mem_eq(buffer + GRH + UD_HEADER, "words", 5);

	ud_header(buffer, name);
	memcpy(buffer + UD_HEADER, "more", 4);
	must(rdma_post_ud_send(id, NULL, buffer, UD_HEADER + 4, mr, IBV_SEND_SIGNALED, ah, qpn) ==
	     0);
	ck_assert_int_eq(receive_from(one, name, header, sizeof(header)), 4);
	ck_assert_mem_eq(header, "more", 4);
	must(rdma_get_send_comp(id, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
	ibv_destroy_ah(ah);
	rdma_dereg_mr(mr);
}

START_TEST(from_queue_pair_to_queue_pair)
{
	struct rdma_event_channel *channel = open_channel();
	struct rdma_cm_id *id = open_bound_id(channel, RDMA_PS_UDP);
	struct sockaddr_in name;
	int fd = open_udp(NULL, &name);

	create_qp(id);
	ck_assert_int_eq(send_to(one, &name, "words", 5), 5);
	exchange(fd, &name, id, told_qpn(fd, &one_name, 0, "words"));
	destroy(id);
	rdma_destroy_event_channel(channel);
	close(fd);
}
END_TEST

/* It comes from no rsocket, and ends none. */
START_TEST(longer_than_sent)
{
	static uint8_t buffer[3000], got[3000];
	struct rdma_event_channel *channel = open_channel();
	struct rdma_cm_id *id = open_bound_id(channel, RDMA_PS_UDP);
	struct sockaddr_in name;
	struct ibv_mr *mr;
	struct ibv_ah *ah;
	struct ibv_wc wc;
	uint32_t qpn;
	int fd = open_udp(NULL, &name);

	create_qp(id);
	mr = rdma_reg_msgs(id, buffer, sizeof(buffer));
	ah = to_itself(id);
	ck_assert_int_eq(send_to(one, &name, "words", 5), 5);
	qpn = told_qpn(fd, &one_name, 0, "words");
	ud_header(buffer, &name);
	/* Dropped: one whose header would be longer than it is, and one from an address of IPv6. */
	for (int i = 0; i < 2; i++) {
		buffer[0] = i ? 6 : 4;
		buffer[1] = i ? 24 : 200;
		must(rdma_post_ud_send(id, NULL, buffer, 24 + 4, mr, IBV_SEND_SIGNALED, ah, qpn) ==
		     0);
		must(rdma_get_send_comp(id, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
	}
	ud_header(buffer, &name);
	for (int i = 0; i < 2; i++) {
		must(rdma_post_ud_send(id, NULL, buffer, sizeof(buffer), mr, IBV_SEND_SIGNALED, ah,
				       qpn) == 0);
		must(rdma_get_send_comp(id, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
		ck_assert_int_eq(receive_from(one, &name, got, sizeof(got)),
				 sizeof(buffer) - UD_HEADER);
	}
	ibv_destroy_ah(ah);
	rdma_dereg_mr(mr);
	destroy(id);
	rdma_destroy_event_channel(channel);
	close(fd);
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
		header_of_udp,
		peer_has_gone,
		many_peers,
		peer_among_many,
		unread,
		from_queue_pair_to_queue_pair,
		longer_than_sent,
		refused,
		not_reached,
	};
	/* What the environment says has to be there before the first socket is. */
	const TTest *const faulty[] = {peers_that_only_send};
	int failed = run_rsocket_tests("rsocket_datagrams", setup, teardown, all,
				       sizeof(all) / sizeof(*all));

	return failed | run_rsocket_tests("rsocket_datagrams", NULL, NULL, faulty, 1);
}
