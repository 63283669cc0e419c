/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * UC and UD: what arrives is whole, right and in order; everything arrives
 * unless packets are lost on purpose (-l).
 */
#include <arpa/inet.h>
#include <poll.h>
#include <string.h>

#include "scenario.h"

#define MESSAGES 60
#define SLOT 16384u
#define GRH 40

static uint32_t size_of(struct pair *pair, uint32_t i)
{
	uint32_t mtu = 128u << pair->options.mtu;

	return pair->options.type == IBV_QPT_UD ? i * 97 % (mtu + 1) : i * 397 % SLOT;
}

static void send_all(struct pair *pair)
{
	struct ibv_wc wc;

	for (uint32_t i = 0; i < MESSAGES; i++) {
		struct ibv_sge sge = pair_sge(pair, i * SLOT, size_of(pair, i));
		struct ibv_send_wr wr = {.wr_id = i,
					 .sg_list = &sge,
					 .num_sge = 1,
					 .opcode = IBV_WR_SEND_WITH_IMM,
					 .imm_data = htonl(i),
					 .send_flags = IBV_SEND_SIGNALED};

		pattern_fill(pair->memory + i * SLOT, sge.length, i);
		CHECK_EQUAL(pair_post(pair, &wr), 0);
	}
	for (uint32_t i = 0; i < MESSAGES; i++) {
		pair_expect(pair, pair->send_cq, i, &wc);
		CHECK_EQUAL(wc.opcode, IBV_WC_SEND);
	}
}

/* A message that was received: receive @slot of the memory. Returns its number. */
static uint32_t check_message(struct pair *pair, const struct ibv_wc *wc, uint32_t slot)
{
	uint32_t grh = pair->options.type == IBV_QPT_UD ? GRH : 0, number = ntohl(wc->imm_data);

	CHECK_EQUAL(wc->status, IBV_WC_SUCCESS);
	CHECK_EQUAL(wc->wr_id, slot);
	CHECK(wc->wc_flags & IBV_WC_WITH_IMM);
	CHECK(number < MESSAGES);
	CHECK_EQUAL(wc->byte_len, size_of(pair, number) + grh);
	CHECK(pattern_matches(pair->memory + slot * (SLOT + GRH) + grh, size_of(pair, number),
			      number));
	if (grh) {
		CHECK(wc->wc_flags & IBV_WC_GRH);
		CHECK_EQUAL(wc->src_qp, pair->remote.qpn);
	}
	return number;
}

/* Whether one more has come; once everything was sent, give it a moment only. */
static bool receive_one(struct pair *pair, bool all_sent, struct ibv_wc *wc)
{
	for (int moment = 0; moment < 500; moment++) {
		if (ibv_poll_cq(pair->receive_cq, 1, wc) == 1)
			return true;
		if (all_sent)
			poll(NULL, 0, 1);
		else
			return false;
	}
	return false;
}

static void receive_all(struct pair *pair)
{
	struct pollfd pollfd = {.fd = pair->socket, .events = POLLIN};
	uint32_t received = 0, next = 0;
	bool all_sent = false;
	struct ibv_wc wc;

	while (received < MESSAGES) {
		if (receive_one(pair, all_sent, &wc)) {
			uint32_t number = check_message(pair, &wc, received++);

			/* Duplicates and late packets may be messages of their own here. */
			CHECK(pair->lossy || number == next);
			next = number + 1;
		} else if (all_sent) {
			break;
		} else {
			all_sent = poll(&pollfd, 1, 0) == 1;
		}
	}
	if (!pair->lossy)
		CHECK_EQUAL(received, MESSAGES);
	CHECK(received > MESSAGES / 10);
}

static void send_messages(struct pair *pair, enum ibv_qp_type type)
{
	pair_open(pair,
		  &(struct pair_options){.type = type, .memory = (MESSAGES + 4) * (SLOT + GRH)});
	for (uint32_t i = 0; i < MESSAGES && pair->server; i++)
		pair_receive(pair, i, i * (SLOT + GRH), SLOT + GRH);
	pair_barrier(pair);
	if (pair->server)
		receive_all(pair);
	else
		send_all(pair);
	pair_barrier(pair);
	pair_close(pair);
}

static void uc_send(struct pair *pair)
{
	send_messages(pair, IBV_QPT_UC);
}

static void ud_send(struct pair *pair)
{
	send_messages(pair, IBV_QPT_UD);
}

/* A byte of the target is what it was, or what was written. */
static void uc_write(struct pair *pair)
{
	struct ibv_wc wc;

	pair_open(pair, &(struct pair_options){.type = IBV_QPT_UC, .memory = MESSAGES * SLOT});
	pair_barrier(pair);
	for (uint32_t i = 0; i < MESSAGES; i++)
		pattern_fill(pair->memory + i * SLOT, pair->server ? 0 : size_of(pair, i), i);
	pair_barrier(pair);
	for (uint32_t i = 0; i < MESSAGES && !pair->server; i++) {
		struct ibv_sge sge = pair_sge(pair, i * SLOT, size_of(pair, i));
		struct ibv_send_wr wr = {.wr_id = i,
					 .sg_list = &sge,
					 .num_sge = 1,
					 .opcode = IBV_WR_RDMA_WRITE,
					 .send_flags = IBV_SEND_SIGNALED};

		wr.wr.rdma.remote_addr = pair->remote.address + i * SLOT;
		wr.wr.rdma.rkey = pair->remote.rkey;
		CHECK_EQUAL(pair_post(pair, &wr), 0);
	}
	for (uint32_t i = 0; i < MESSAGES && !pair->server; i++)
		pair_expect(pair, pair->send_cq, i, &wc);
	pair_barrier(pair);
	poll(NULL, 0, 500); /* for what is under way: nothing tells its arrival */
	for (uint32_t i = 0; i < MESSAGES && pair->server; i++) {
		static uint8_t expected[SLOT];
		const uint8_t *slot = pair->memory + i * SLOT;

		if (!pair->lossy)
			CHECK(pattern_matches(slot, size_of(pair, i), i));
		pattern_fill(expected, size_of(pair, i), i);
		for (uint32_t k = 0; k < SLOT; k++)
			CHECK(slot[k] == 0 || (k < size_of(pair, i) && slot[k] == expected[k]));
	}
	pair_barrier(pair);
	pair_close(pair);
}

const struct scenario scenarios_datagram[] = {
	{"uc-send", uc_send},
	{"uc-write", uc_write},
	{"ud-send", ud_send},
	{NULL, NULL},
};
