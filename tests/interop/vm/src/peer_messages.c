/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages that end in a receive: of all lengths, with immediates, as datagrams, after losses. */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "peer_scenario.h"

#define SLOT 8192 /* bytes of the memory for each receive, where nothing else is said */

/* --- both sides ----------------------------------------------------------------------------- */

/* Each has a place of its own. Then the requester may begin. */
static void post_receives(struct pair *pair, int count, uint32_t size)
{
	for (int i = 0; i < count; i++)
		pair_receive(pair, i, i * size, size);
	pair_barrier(pair);
}

static void take_messages(struct pair *pair, int count, double seconds)
{
	for (int i = 0; i < count; i++)
		pair_wait(pair, "recv", seconds);
}

/* Each has the pattern of its number. */
static void take_patterns(struct pair *pair, int count, uint32_t size, double seconds)
{
	for (int i = 0; i < count; i++) {
		struct ibv_wc wc = pair_wait(pair, "recv", seconds);

		pattern_check(pair, i * size, wc.byte_len, i);
	}
}

static void send_pattern(struct pair *pair, int i, uint32_t length)
{
	pattern_fill(pair, 0, length, i);
	pair_post_plain(pair, i, IBV_WR_SEND, 0, length);
	pair_wait(pair, "send", 10);
}

/* The pattern of its number, and the number at the end of its immediate. */
static struct pair_request numbered(struct pair *pair, int i, enum ibv_wr_opcode opcode,
				    uint32_t length, uint32_t immediate)
{
	struct pair_request request = pair_request(pair, i, opcode, 0, length);

	request.wr.imm_data = htonl(immediate + i);
	pattern_fill(pair, 0, length, i);
	return request;
}

/* --- SENDs of all lengths ------------------------------------------------------------------- */

static const uint32_t sizes[] = {0, 1, 2, 3, 4, 5, 7, 1023, 1024, 1025, 2048, 2049};

static void sizes_responder(struct pair *pair)
{
	post_receives(pair, COUNT(sizes), SLOT);
	take_patterns(pair, COUNT(sizes), SLOT, 10);
}

static void sizes_requester(struct pair *pair)
{
	pair_barrier(pair);
	for (size_t i = 0; i < COUNT(sizes); i++)
		send_pattern(pair, i, sizes[i]);
}

/* Of three packets each. */
static void three_responder(struct pair *pair)
{
	post_receives(pair, 3, SLOT);
	take_patterns(pair, 3, SLOT, 10);
}

static void three_requester(struct pair *pair)
{
	pair_barrier(pair);
	for (int i = 0; i < 3; i++)
		send_pattern(pair, i, 3000);
}

/* With --mtu 256 it takes 157 packets, which shows where an ACK is asked for in between. */
#define LONG_SEED 1

static void long_responder(struct pair *pair)
{
	struct ibv_wc wc;

	post_receives(pair, 1, 65536);
	wc = pair_wait(pair, "recv", 20);
	pattern_check(pair, 0, wc.byte_len, LONG_SEED);
}

static void long_requester(struct pair *pair)
{
	pair_barrier(pair);
	pattern_fill(pair, 0, 40000, LONG_SEED);
	pair_post_plain(pair, 0, IBV_WR_SEND, 0, 40000);
	pair_wait(pair, "send", 20);
}

/* --- immediates ------------------------------------------------------------------------------- */

static const uint32_t send_lengths[] = {0, 100, 3000, 101};
#define SOLICITED 1 /* which of them */

static void send_imm_responder(struct pair *pair)
{
	post_receives(pair, COUNT(send_lengths), SLOT);
	take_messages(pair, COUNT(send_lengths), 10);
}

static void send_imm_requester(struct pair *pair)
{
	pair_barrier(pair);
	for (size_t i = 0; i < COUNT(send_lengths); i++) {
		struct pair_request request =
			numbered(pair, i, IBV_WR_SEND_WITH_IMM, send_lengths[i], 0xcafe0000);

		if (i == SOLICITED)
			request.wr.send_flags |= IBV_SEND_SOLICITED;
		pair_post(pair, &request, 1);
		pair_wait(pair, "send", 10);
	}
}

static const uint32_t write_lengths[] = {0, 100, 3000};

static void write_imm_responder(struct pair *pair)
{
	post_receives(pair, COUNT(write_lengths), 0);
	take_messages(pair, COUNT(write_lengths), 10);
	pattern_check(pair, TARGET, write_lengths[2], 2);
}

static void write_imm_requester(struct pair *pair)
{
	pair_barrier(pair);
	for (size_t i = 0; i < COUNT(write_lengths); i++) {
		struct pair_request request =
			numbered(pair, i, IBV_WR_RDMA_WRITE_WITH_IMM, write_lengths[i], 0xbeef0000);

		pair_post(pair, &request, 1);
		pair_wait(pair, "write", 10);
	}
}

static const struct {
	enum ibv_wr_opcode opcode;
	uint32_t length;
} uc_messages[] = {
	{IBV_WR_SEND_WITH_IMM, 50},	  {IBV_WR_SEND_WITH_IMM, 3000},
	{IBV_WR_RDMA_WRITE_WITH_IMM, 50}, {IBV_WR_RDMA_WRITE_WITH_IMM, 3000},
	{IBV_WR_RDMA_WRITE_WITH_IMM, 0},
};

static void uc_imm_responder(struct pair *pair)
{
	post_receives(pair, COUNT(uc_messages), SLOT);
	take_messages(pair, COUNT(uc_messages), 5);
}

static void uc_imm_requester(struct pair *pair)
{
	pair_barrier(pair);
	for (size_t i = 0; i < COUNT(uc_messages); i++) {
		struct pair_request request =
			numbered(pair, i, uc_messages[i].opcode, uc_messages[i].length, 0xabcd0000);

		pair_post(pair, &request, 1);
		pair_wait(pair, "send", 5);
	}
}

/* --- datagrams -------------------------------------------------------------------------------- */

static const uint32_t datagram_lengths[] = {0, 100, 1000, 1024, 33};
#define DATAGRAMS COUNT(datagram_lengths)
#define DROPPED (DATAGRAMS - 1) /* by the responder: its Q_Key is wrong */

/* The header that a datagram came with, in the first 40 bytes of its receive. */
static void print_grh(struct pair *pair, struct ibv_wc *wc)
{
	struct ibv_grh *grh = (struct ibv_grh *)(pair->memory + wc->wr_id * SLOT);
	char gid[INET6_ADDRSTRLEN];
	struct ibv_ah_attr ah = {};
	int result;

	printf("GRH area:");
	for (size_t i = 0; i < sizeof(*grh); i++)
		printf(" %02x", ((uint8_t *)grh)[i]);
	printf("\n");
	result = ibv_init_ah_from_wc(pair->context, 1, wc, grh, &ah);
	inet_ntop(AF_INET6, &ah.grh.dgid, gid, sizeof(gid));
	printf("init_ah_from_wc rc %d: dgid %s sgid_index %d hop %d tclass %x flow %x dlid %x "
	       "sl %d\n",
	       result, gid, ah.grh.sgid_index, ah.grh.hop_limit, ah.grh.traffic_class,
	       ah.grh.flow_label, ah.dlid, ah.sl);
}

static void ud_responder(struct pair *pair)
{
	/* So that bytes of the 40 that aren't written are seen. */
	memset(pair->memory, 0xee, DATAGRAMS * SLOT);
	for (size_t i = 0; i < DATAGRAMS; i++)
		pair_receive(pair, i, i * SLOT, 4096);
	pair_barrier(pair);
	for (size_t i = 0; i < DROPPED; i++) {
		struct ibv_wc wc = pair_wait(pair, "recv", 5);

		if (wc.status == NO_COMPLETION)
			break;
		print_grh(pair, &wc);
	}
	/* The last one has left its sender: here it is seen, and dropped. */
	pair_barrier(pair);
	usleep(200000);
	CHECK(ibv_poll_cq(pair->cq, 1, &(struct ibv_wc){}) == 0);
}

static void ud_requester(struct pair *pair)
{
	pair_barrier(pair);
	for (size_t i = 0; i < DATAGRAMS; i++) {
		struct pair_request request =
			numbered(pair, i, i % 2 ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND,
				 datagram_lengths[i], 0x5a5a0000);

		if (i == DROPPED)
			request.wr.wr.ud.remote_qkey = 0x222;
		pair_post(pair, &request, 1);
		pair_wait(pair, i == DROPPED ? "send (wrong qkey: receiver must drop)" : "send", 5);
	}
	pair_barrier(pair);
}

/* --- what is lost on the way, by iptables or URXE_FAULTS -------------------------------------- */

#define LOST_SLOT 4096
#define LOST_MESSAGES 12 /* all in flight at once */
#define LOST_ACKS 6	 /* of one message at a time */

static void lost_responder(struct pair *pair)
{
	post_receives(pair, LOST_MESSAGES, LOST_SLOT);
	take_patterns(pair, LOST_MESSAGES, LOST_SLOT, 20);
}

static void lost_requester(struct pair *pair)
{
	pair_barrier(pair);
	for (int i = 0; i < LOST_MESSAGES; i++) {
		pattern_fill(pair, i * LOST_SLOT, 2500, i);
		pair_post_plain(pair, i, IBV_WR_SEND, i * LOST_SLOT, 2500);
	}
	for (int i = 0; i < LOST_MESSAGES; i++)
		pair_wait(pair, "send", 20);
}

static void lost_acks_responder(struct pair *pair)
{
	post_receives(pair, LOST_ACKS, LOST_SLOT);
	take_messages(pair, LOST_ACKS, 20);
}

static void lost_acks_requester(struct pair *pair)
{
	pair_barrier(pair);
	for (int i = 0; i < LOST_ACKS; i++) {
		pair_post_plain(pair, i, IBV_WR_SEND, 0, 300);
		pair_wait(pair, "send", 20);
	}
}

/* --- the table -------------------------------------------------------------------------------- */

#define MARKED_PATH .traffic_class = 0x2a, .hop_limit = 17, .flow_label = 0x12345

const struct scenario scenarios_messages[] = {
	{"send_sizes", {}, sizes_responder, sizes_requester},
	{"long_send", {}, long_responder, long_requester},
	{"psn_wrap", {.psn = 0xfffffe}, three_responder, three_requester},
	{"tclass", {MARKED_PATH}, three_responder, three_requester},
	{"tclass6", {MARKED_PATH}, three_responder, three_requester},
	{"send_imm", {}, send_imm_responder, send_imm_requester},
	{"write_imm", {}, write_imm_responder, write_imm_requester},
	{"uc_imm", {.type = IBV_QPT_UC}, uc_imm_responder, uc_imm_requester},
	{"ud_imm", {.type = IBV_QPT_UD}, ud_responder, ud_requester},
	{"ud_imm6", {.type = IBV_QPT_UD}, ud_responder, ud_requester},
	{"drop_req", {LOSSY}, lost_responder, lost_requester},
	{"drop_ack", {LOSSY}, lost_acks_responder, lost_acks_requester},
	{},
};
