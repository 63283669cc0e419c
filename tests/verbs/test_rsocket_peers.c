/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a datagram rsocket and its peers say of each other, byte by byte as librdmacm has it: here
 * they are UDP sockets and queue pairs of the test.
 */
#include <rdma/rdma_verbs.h>
#include <string.h>
#include <unistd.h>

#include "tests/must.h"
#include "tests/verbs/fixture.h"
#include "tests/verbs/rsockets.h"

#define UDP_HEADER 16 /* over UDP, of IPv4 */
#define UD_HEADER 8   /* over a UD QP, likewise */
#define GRH 40

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
	one = open_bound_datagrams(&one_name);
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

int main(void)
{
	const TTest *const all[] = {
		header_of_udp,	  peer_has_gone, many_peers,
		peer_among_many,  unread,	 from_queue_pair_to_queue_pair,
		longer_than_sent,
	};
	/* What the environment says has to be there before the first socket is. */
	const TTest *const faulty[] = {peers_that_only_send};
	int failed = run_rsocket_tests("rsocket_peers", setup, teardown, all,
				       sizeof(all) / sizeof(*all));

	return failed | run_rsocket_tests("rsocket_peers", NULL, NULL, faulty, 1);
}
