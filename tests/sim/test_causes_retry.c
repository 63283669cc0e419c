/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every cause of retries that are used up (net/cause/requester.def): provoked, and what is said of
 * it and of the peer.
 */
#include <errno.h>

#include "causes.h"

static struct connection few_retries(void)
{
	struct connection c = world_connection;

	c.retry_cnt = 1;
	c.timeout = 10;
	return c;
}

static void peer_silent(void)
{
	const struct connection c = few_retries();

	causes_pair(IBV_QPT_RC, &c);
	pair_cut(&p, true);
	pair_post(&p, IBV_WR_SEND, 8, 7);
}

static void peer_silent_for_seconds(void)
{
	struct connection c = few_retries();

	c.timeout = 20;
	causes_pair(IBV_QPT_RC, &c);
	pair_cut(&p, true);
	pair_post(&p, IBV_WR_SEND, 8, 7);
}

static void peer_silent_to_inline(void)
{
	const struct connection c = few_retries();
	struct pair_wr request;

	causes_pair(IBV_QPT_RC, &c);
	pair_cut(&p, true);
	pair_wr(&p, &request, IBV_WR_SEND, 8, 7)->send_flags |= IBV_SEND_INLINE;
	ck_assert_int_eq(world_post_send(p.qa, &request.wr), 0);
}

static void peer_silent_to_packets(void)
{
	const struct connection c = few_retries();

	causes_pair(IBV_QPT_RC, &c);
	pair_cut(&p, true);
	pair_post(&p, IBV_WR_RDMA_WRITE, 2 * p.qa->mtu, 7);
}

/* The times are the card's. */
static void peer_silent_to_card(void)
{
	const struct connection c = few_retries();

	causes_pair(IBV_QPT_RC, &c);
	p.a->hca->behaviour = (struct hca_behaviour){
		.ack_timeout_hundredths = 166,
		.ack_timeout_least = 16,
	};
	pair_cut(&p, true);
	pair_post(&p, IBV_WR_SEND, 8, 7);
}

static void send_with_psn(uint32_t psn)
{
	struct connection c = few_retries();

	causes_pair(IBV_QPT_RC, &c);
	world_modify_state(p.qa, IBV_QPS_RESET);
	world_modify_init(p.qa, &c);
	world_modify_rtr(p.qa, p.a, p.b, p.qb->number, &c);
	c.psn = psn;
	world_modify_rts(p.qa, &c);
	pair_post(&p, IBV_WR_SEND, 8, 7);
}

/* Its answer is a NAK, and nothing to what is sent again. */
static void peer_expects_lower_psn(void)
{
	send_with_psn(FIRST_PSN + 1000);
}

/* It takes all for duplicates, and acknowledges what it had last. */
static void peer_expects_higher_psn(void)
{
	send_with_psn(FIRST_PSN - 1000);
}

static void answer(uint8_t operation, uint8_t syndrome)
{
	const struct peer_packet packet = {RC(operation), .psn = FIRST_PSN, .no_ack_request = true,
					   .syndrome = syndrome};

	peer_send(&peer, &packet);
}

static void packets_lost(void)
{
	const struct connection c = few_retries();

	causes_peer(IBV_QPT_RC, &c);
	peer_post(&peer, IBV_WR_SEND, 8, 7);
	for (int i = 0; i < 2; i++) {
		peer_see(&peer);
		answer(WIRE_ACKNOWLEDGE, AETH_NAK_PSN_SEQUENCE);
	}
}

static void responses_lost(void)
{
	const struct peer_packet packet = {RC(WIRE_ACKNOWLEDGE), .psn = FIRST_PSN + 1,
					   .no_ack_request = true, .syndrome = AETH_ACK_UNLIMITED};
	struct connection c = few_retries();

	c.retry_cnt = 0;
	causes_peer(IBV_QPT_RC, &c);
	peer_post(&peer, IBV_WR_RDMA_READ, 8, 7);
	peer_post(&peer, IBV_WR_SEND, 8, 8);
	peer_see(&peer);
	peer_see(&peer);
	peer_send(&peer, &packet);
}

/* --- what the link knows of the peer ------------------------------------------------------ */

static struct link_peer told;
static struct link_ops ops;

static void tell_peer(struct link *link, const struct path *path, uint32_t qpn,
		      struct link_peer *peer)
{
	ck_assert(gid_equal(&path->destination, world_gid(p.b, 1)));
	ck_assert_uint_eq(qpn, p.qb->number);
	*peer = told;
}

/* One process has it for a while. */
static uint32_t tell_unread(struct link *link, const struct path *path, uint32_t qpn,
			    uint64_t *read)
{
	*read = 0;
	return 1000;
}

static void silent_with(const struct link_peer *peer, bool unread)
{
	const struct connection c = few_retries();

	causes_pair(IBV_QPT_RC, &c);
	told = *peer;
	ops = *p.a->link->ops;
	ops.describe_peer = tell_peer;
	if (unread)
		ops.unread = tell_unread;
	p.a->link->ops = &ops;
	pair_cut(&p, true);
	pair_post(&p, IBV_WR_SEND, 8, 7);
}

static void peer_not_there(void)
{
	silent_with(&(struct link_peer){.state = LINK_PEER_NOT_THERE}, false);
}

static void peer_ended(void)
{
	silent_with(&(struct link_peer){.state = LINK_PEER_ENDED}, false);
}

static void peer_other_user(void)
{
	silent_with(&(struct link_peer){.state = LINK_PEER_OTHER_USER, .uid = 1234}, false);
}

static void peer_refused(uint64_t at)
{
	silent_with(&(struct link_peer){.refused = ENETUNREACH, .refused_at = at}, false);
}

static void peer_refused_since(void)
{
	peer_refused(MS);
}

/* A refusal from before it fell silent isn't why. */
static void peer_refused_before(void)
{
	peer_refused(-MS);
}

static void peer_no_qp(void)
{
	silent_with(&(struct link_peer){.state = LINK_PEER_NO_QP, .pid = 4711, .command = "server"},
		    false);
}

static void peer_qp_not_ready(void)
{
	silent_with(&(struct link_peer){.state = LINK_PEER_QP,
					.pid = 4711,
					.qp_state = IBV_QPS_ERR,
					.error = 0x2107},
		    false);
}

static void peer_qp_in_init(void)
{
	silent_with(&(struct link_peer){.state = LINK_PEER_QP, .qp_state = IBV_QPS_INIT}, false);
}

static void peer_qp_of_another(void)
{
	struct link_peer peer = {.state = LINK_PEER_QP, .qp_state = IBV_QPS_RTS, .peer_qpn = 0x99};

	gid_from_text(&peer.peer_gid, "10.9.9.9");
	silent_with(&peer, false);
}

/* Its QP is connected with the number of a's. */
static void peer_connected(void)
{
	silent_with(&(struct link_peer){.state = LINK_PEER_QP, .qp_state = IBV_QPS_RTR}, false);
	told.peer_qpn = p.qa->number;
	told.peer_gid = *world_gid(p.a, 1);
}

static void peer_qp_of_another_number(void)
{
	peer_connected();
	told.peer_qpn++;
}

static void peer_qp_of_another_address(void)
{
	peer_connected();
	gid_from_text(&told.peer_gid, "10.9.9.9");
}

static void peer_not_reading(void)
{
	silent_with(&(struct link_peer){.state = LINK_PEER_QP,
					.pid = 4711,
					.stopped = true,
					.qp_state = IBV_QPS_RTS},
		    true);
	world_run(&p.world, SECOND);
	ck_assert_int_eq(p.qa->state, IBV_QPS_RTS);
}

/* ------------------------------------------------------------------------------------------ */

#define AT_A(name, provoke, found)                                                                 \
	{                                                                                          \
		CAUSE_##name, provoke, found, .a = { IBV_WC_RETRY_EXC_ERR, CAUSE_##name }          \
	}

/* clang-format off */
static const struct cause_row rows[] = {
	AT_A(PEER_SILENT, peer_silent, "; retry_cnt is 1, timeout 10: 4.1 ms or more each"),
	AT_A(PEER_SILENT, peer_silent_for_seconds, "timeout 20: 4.2 s or more each"),
	AT_A(PEER_SILENT, peer_silent_to_inline, "SEND of 8 bytes (inline), PSN 16777200\n"),
	AT_A(PEER_SILENT, peer_silent_to_packets, ", PSN 16777200 to 16777201\n"),
	AT_A(PEER_SILENT, peer_silent_to_card, "; retry_cnt is 1, timeout 10: 445.6 ms or more each"),
	AT_A(PEER_NOT_THERE, peer_not_there, "nothing has UDP port 4791 of that address; nothing acknowledged for "),
	AT_A(PEER_ENDED, peer_ended, "no process has QP numbers like 0x"),
	AT_A(PEER_OTHER_USER, peer_other_user, "user 1234 has UDP port 4791"),
	AT_A(PEER_NO_QP, peer_no_qp, "process 4711 (server) has that number's block, and no such QP; "),
	AT_A(PEER_QP_NOT_READY, peer_qp_not_ready, " in ERR; the cause of its last error is 0x2107; "),
	AT_A(PEER_SILENT, peer_refused_since, "    the kernel refused to send to that address: Network is unreachable; nothing "),
	AT_A(PEER_SILENT, peer_refused_before, "\n    nothing acknowledged for "),
	AT_A(PEER_QP_NOT_READY, peer_qp_in_init, "\n    a process has QP 0x"),
	AT_A(PEER_QP_OF_ANOTHER, peer_qp_of_another, " in RTS, connected with 10.9.9.9 QP 0x99; "),
	AT_A(PEER_QP_OF_ANOTHER, peer_qp_of_another_number, " in RTR, connected with 10.0.0.1 QP 0x"),
	AT_A(PEER_QP_OF_ANOTHER, peer_qp_of_another_address, " in RTR, connected with 10.9.9.9 QP 0x"),
	AT_A(PEER_SILENT, peer_connected, " in RTR; nothing acknowledged for "),
	{CAUSE_PEER_NOT_READING, peer_not_reading, "process 4711, which is stopped, has QP 0x"},
	AT_A(PEER_OTHER_PSN, peer_expects_lower_psn, "it expects PSN 16777200, and the first one sent is 984; nothing "),
	AT_A(PEER_OTHER_PSN, peer_expects_higher_psn, "it expects PSN 16777200, and the first one sent is 16776200; nothing "),
	AT_A(PACKETS_LOST, packets_lost, "; retry_cnt is 1\n"),
	AT_A(RESPONSES_LOST, responses_lost, "RDMA_READ"),
};
/* clang-format on */

static const enum cause elsewhere[] = {CAUSE_SEND_REFUSED, /* unit/test_udp_peer */
				       CAUSE_NONE};

static const struct cause_table table = {
	.name = "causes_retry",
	.first = 0x1600,
	.last = 0x1fff,
	.rows = rows,
	.count = sizeof(rows) / sizeof(rows[0]),
	.elsewhere = elsewhere,
};

int main(void)
{
	return causes_main(&table);
}
