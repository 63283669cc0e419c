/* SPDX-License-Identifier: BSD-2-Clause */
/* Two links for tests of the fault filter, packets that have numbers, and which of them arrive. */
#ifndef URXE_TESTS_UNIT_FAULT_NETWORK_H
#define URXE_TESTS_UNIT_FAULT_NETWORK_H

#include <check.h>
#include <stdio.h>

#include "net/fault/fault.h"
#include "net/sim/sim.h"
#include "net/wire/icrc.h"

#define HEADERS 12
#define PAYLOAD 8
#define QPN 17

/* A faulty link @a and a sound link @b, on a network without latency. */
static struct sim *sim;
static struct link *a, *b;
static struct path there, back;

static inline union ibv_gid gid(uint8_t host)
{
	return (union ibv_gid){.raw = {[10] = 0xff, 0xff, 10, 0, 0, host}};
}

static inline struct link *node(uint8_t host, const char *faults)
{
	struct link *link = sim_link_create(sim);
	union ibv_gid g = gid(host);

	ck_assert_ptr_nonnull(link);
	if (faults)
		ck_assert_int_eq(fault_link_create(link, faults, &link, NULL), 0);
	ck_assert_int_eq(link->ops->add_address(link, &g, 0), 0);
	return link;
}

static inline void network(const char *faults)
{
	sim = sim_create(&(struct sim_options){0});
	ck_assert_ptr_nonnull(sim);
	a = node(1, faults);
	b = node(2, NULL);
	there = (struct path){gid(1), gid(2)};
	back = (struct path){gid(2), gid(1)};
}

static inline void finish(void)
{
	if (!sim)
		return;
	if (a != b)
		a->ops->close(a);
	sim_destroy(sim);
	sim = NULL;
}

static inline struct link_packet packet_make(const struct path *path, uint8_t opcode, uint32_t qpn,
					     const struct iovec *payload)
{
	struct bth bth = {.opcode = opcode, .pkey = 0xffff, .dest_qp = htobe32(qpn)};
	struct link_packet packet = {.path = path,
				     .payload = payload,
				     .payload_length = PAYLOAD,
				     .payload_count = 2,
				     .headers_length = HEADERS,
				     .trailer_length = ICRC_LENGTH};

	memcpy(packet.headers, &bth, sizeof(bth));
	return packet;
}

/* Send packets @first to @last as one batch; their payload dies with this function. */
static inline void send_batch(struct link *link, uint8_t opcode, uint32_t qpn, uint32_t first,
			      uint32_t last)
{
	enum { MAX = 200 };
	const struct path *path = link == a ? &there : &back;
	struct link_packet packets[MAX];
	struct iovec iov[MAX][2];
	uint8_t bytes[MAX][PAYLOAD] = {0};
	unsigned int i, count = last - first + 1;

	ck_assert_uint_le(count, MAX);
	for (i = 0; i < count; i++) {
		uint32_t number = first + i;

		memcpy(bytes[i], &number, sizeof(number));
		iov[i][0] = (struct iovec){bytes[i], 3};
		iov[i][1] = (struct iovec){bytes[i] + 3, PAYLOAD - 3};
		packets[i] = packet_make(path, opcode, qpn, iov[i]);
	}
	link->ops->send(link, packets, count, sim_now(sim));
	memset(bytes, 0xee, sizeof(bytes));
	memset(iov, 0xee, sizeof(iov));
}

static inline void send_numbers(struct link *link, uint32_t first, uint32_t last)
{
	send_batch(link, WIRE_RC | WIRE_SEND_ONLY, QPN, first, last);
}

/* What arrives at @link, as text: "1 2 3", a '!' behind a number whose ICRC is wrong. */
static inline const char *received(struct link *link, unsigned int max)
{
	static char text[2000];
	struct link_frame frames[200];
	unsigned int i, count;
	size_t at = 0;

	text[0] = '\0';
	while ((count = link->ops->receive(link, frames, max, sim_now(sim))) > 0) {
		ck_assert_uint_le(count, max);
		for (i = 0; i < count; i++) {
			uint32_t number;

			memcpy(&number, frames[i].data + HEADERS, sizeof(number));
			if (icrc_check(&frames[i]))
				at += snprintf(text + at, sizeof(text) - at, "%u ", number);
			else
				at += snprintf(text + at, sizeof(text) - at, "! ");
			ck_assert_uint_lt(at, sizeof(text));
		}
	}
	if (at)
		text[at - 1] = '\0';
	return text;
}

#endif
