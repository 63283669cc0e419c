/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * For tests of net/udp: links on loopback, and packets of known content that one sends and another
 * receives. On loopback send() delivers before it returns, so nothing here waits.
 */
#ifndef URXE_TESTS_UDP_TRAFFIC_H
#define URXE_TESTS_UDP_TRAFFIC_H

#include <check.h>
#include <poll.h>
#include <stdlib.h>

#include "gid_of.h"
#include "net/tuning.h"
#include "net/udp/udp.h"
#include "net/udp/udp_link.h"
#include "net/wire/icrc.h"

/* NETWORK is the test's own: tests run at the same time. */
#define ADDRESS_A NETWORK ".1"
#define ADDRESS_B NETWORK ".2"
#define ADDRESS_C NETWORK ".3"
#define PACKETS_MAX 512

struct node {
	struct link *link;
	union ibv_gid gid;
};

static uint8_t memory[1 << 16];

static inline void fill_memory(void)
{
	for (size_t i = 0; i < sizeof(memory); i++)
		memory[i] = i * 31 + (i >> 8);
}

static inline bool have_ipv6(void)
{
	struct gid_table table;

	if (gid_table_init(&table, "::1") != 0)
		return false;
	gid_table_destroy(&table);
	return true;
}

static inline struct node node_open(const char *address, const struct udp_options *options)
{
	struct node node = {.gid = gid_of(address)};

	ck_assert_int_eq(udp_link_create(options, &node.link), 0);
	node.link->ops->receive_grh(node.link);
	ck_assert_int_eq(node.link->ops->add_address(node.link, &node.gid, 0), 0);
	return node;
}

static inline void node_close(struct node *node)
{
	node->link->ops->close(node->link);
}

/* --- Packets of known content -------------------------------------------------- */

struct traffic {
	struct path path;
	uint32_t dest_qp;
	unsigned int count;
	struct link_packet packets[PACKETS_MAX];
	struct iovec vectors[PACKETS_MAX][4];
	uint8_t whole[PACKETS_MAX][WIRE_PACKET_MAX]; /* without the ICRC */
};

/* A packet of @length bytes of payload in up to four pieces, numbered by its PSN. */
static inline void add_packet(struct traffic *traffic, uint32_t length)
{
	unsigned int index = traffic->count++;
	struct link_packet *packet = &traffic->packets[index];
	struct iovec *vectors = traffic->vectors[index];
	uint32_t pieces = index % 5, pad = pad_length(length), offset = index * 7;
	uint8_t *whole = traffic->whole[index];

	ck_assert_uint_lt(index, PACKETS_MAX);
	*packet = (struct link_packet){.path = &traffic->path,
				       .payload = vectors,
				       .payload_length = length,
				       .headers_length = sizeof(struct bth),
				       .trailer_length = pad + ICRC_LENGTH};
	memcpy(packet->headers,
	       &(struct bth){.opcode = WIRE_RC | WIRE_SEND_ONLY,
			     .flags = pad << BTH_PAD_SHIFT,
			     .pkey = htobe16(PKEY_DEFAULT),
			     .dest_qp = htobe32(traffic->dest_qp),
			     .psn = htobe32(index)},
	       sizeof(struct bth));

	for (uint32_t i = 0, left = length; left; i++) {
		uint32_t part = i + 1 < pieces ? left / 3 : left;

		vectors[i] = (struct iovec){memory + offset + length - left, part};
		packet->payload_count = i + 1;
		left -= part;
		if (i == 3)
			ck_assert_uint_eq(left, 0);
	}
	memcpy(whole, packet->headers, sizeof(struct bth));
	memcpy(whole + sizeof(struct bth), memory + offset, length);
	memset(whole + sizeof(struct bth) + length, 0, pad);
}

/* Returns how many were refused. */
static inline unsigned int send_some(struct node *node, struct traffic *traffic, unsigned int first,
				     unsigned int count)
{
	return node->link->ops->send(node->link, traffic->packets + first, count, 0);
}

static inline void expect_frame(const struct traffic *traffic, unsigned int index,
				struct link_frame *frame)
{
	const struct link_packet *packet = &traffic->packets[index];

	ck_assert_uint_eq(frame->length, link_packet_length(packet));
	ck_assert_mem_eq(frame->data, traffic->whole[index], frame->length - ICRC_LENGTH);
	ck_assert(icrc_check(frame));
	ck_assert(gid_equal(&frame->source, &packet->path->source));
	ck_assert(gid_equal(&frame->destination, &packet->path->destination));
	ck_assert_uint_ge(frame->source_port, ROCE_V2_SOURCE_PORT_MIN);
	ck_assert_uint_eq(frame->traffic_class, packet->path->traffic_class);
	ck_assert_uint_eq(frame->hop_limit, packet->path->hop_limit ? packet->path->hop_limit : 64);
}

/* Where a CPU is busy, send() may leave it to a thread of the kernel's (ksoftirqd) to deliver. */
static inline unsigned int receive_patiently(struct node *node, struct link_frame *frames,
					     unsigned int max)
{
	unsigned int got;

	for (unsigned int ms = 0; ms < 30000; ms++) {
		got = node->link->ops->receive(node->link, frames, max, 0);
		if (got)
			return got;
		poll(NULL, 0, 1);
	}
	return 0;
}

/* Packets @first and on, in order, and nothing behind them. */
static inline void expect(struct node *node, const struct traffic *traffic, unsigned int first,
			  unsigned int count, unsigned int max)
{
	struct link_frame frames[64];
	unsigned int got;

	for (unsigned int seen = 0; seen < count; seen += got) {
		got = receive_patiently(node, frames, max);
		ck_assert_uint_ne(got, 0);
		ck_assert_uint_le(got, max);
		ck_assert_uint_le(seen + got, count);
		for (unsigned int i = 0; i < got; i++)
			expect_frame(traffic, first + seen + i, &frames[i]);
	}
	ck_assert_uint_eq(node->link->ops->receive(node->link, frames, max, 0), 0);
}

/* Small enough for a receive buffer of the usual default. */
#define BURST_BYTES 50000

static inline void exchange(struct node *from, struct node *to, struct traffic *traffic,
			    unsigned int max)
{
	unsigned int first = 0;

	while (first < traffic->count) {
		uint32_t bytes = 0;
		unsigned int count = 0;

		while (first + count < traffic->count && bytes < BURST_BYTES && count < 100)
			bytes += link_packet_length(&traffic->packets[first + count++]);
		send_some(from, traffic, first, count);
		expect(to, traffic, first, count, max);
		first += count;
	}
}

static inline struct traffic *traffic_new(const struct node *from, const struct node *to)
{
	struct traffic *traffic = calloc(1, sizeof(*traffic));

	ck_assert_ptr_nonnull(traffic);
	traffic->path = (struct path){.source = from->gid, .destination = to->gid, .hop_limit = 64};
	traffic->dest_qp = 0x11;
	return traffic;
}

/* --- Connections ---------------------------------------------------------------- */

/* Where super-packets are spliced to: a QP number of the receiver's. */
static inline uint32_t qpn_of(struct node *node)
{
	struct share *share = node->link->share;
	struct lease lease = {.start = 0x11};

	if (share && ((struct udp_link *)node->link)->share.roster)
		ck_assert_int_eq(share->ops->lease_qpns(share, &lease), 0);
	return lease.start;
}

/* For a round, whichever way is faster here. */
static inline void choose_splicing(struct udp_splice *splice, bool special)
{
	splice->pays.special = special;
	splice->pays.moved = 0;
	splice->span_bytes = 0;
}

/* What can be spliced is. */
static inline void splice_from(struct node *node)
{
	struct udp_address *address = udp_address_find((struct udp_link *)node->link, &node->gid);

	for (unsigned int i = 0; i < address->connection_count; i++)
		choose_splicing(&address->connections[i]->splice, true);
}

/* Send the first packet of @traffic so often that its destination is connected to if it can be. */
static inline void send_until_connected(struct node *from, struct node *to, struct traffic *traffic)
{
	for (int i = 0; i < UDP_CONNECT_AFTER; i++) {
		send_some(from, traffic, 0, 1);
		expect(to, traffic, 0, 1, 64);
	}
	splice_from(from);
}

#endif
