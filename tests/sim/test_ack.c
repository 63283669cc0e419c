/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * When an acknowledgement is sent (emu/transport/ack_queue.h): with the message that goes
 * back, else when nothing more arrives, and always by the deadline that the HCA
 * names. The peer is the test, one round of the HCA at a time.
 */
#include <pthread.h>
#include <stdlib.h>

#include "emu/receive.h"
#include "emu/transport/outbox.h"
#include "net/spin.h"
#include "net/tuning.h"
#include "peer.h"

#define LATENCY 1000 /* of world_create()'s default network */

static const struct peer_packet write_only = {.opcode = WIRE_RC | WIRE_WRITE_ONLY};

static uint64_t now(struct peer *peer)
{
	return world_now(&peer->world);
}

/* Of @length bytes each. */
static void send_stream(struct peer *peer, unsigned int count, uint32_t length)
{
	struct peer_packet packet = write_only;

	packet.length = packet.dma_length = length;
	packet.va = (uintptr_t)peer->memory;
	packet.rkey = peer->mr->ibv.rkey;
	for (unsigned int i = 0; i < count; i++) {
		packet.psn = peer->psn++ & PSN_MASK;
		peer_send(peer, &packet);
	}
	sim_advance(peer->world.sim, now(peer) + LATENCY);
}

static void send_writes(struct peer *peer, unsigned int count)
{
	send_stream(peer, count, 0);
}

/* Another QP number: the HCA has something to receive, and this QP hasn't. */
static void send_noise(struct peer *peer)
{
	struct peer_packet packet = write_only;

	packet.qpn = peer->qp->number + 1;
	peer_send(peer, &packet);
	sim_advance(peer->world.sim, now(peer) + LATENCY);
}

static bool progress(struct peer *peer)
{
	return hca_progress(peer->node->hca, now(peer));
}

static unsigned int sent(struct peer *peer)
{
	return peer->node->hca->counters->sent_pkts;
}

static uint64_t due(struct peer *peer)
{
	return hca_deadline(peer->node->hca);
}

static void advance_to(struct peer *peer, uint64_t time)
{
	sim_advance(peer->world.sim, time);
}

START_TEST(an_ack_waits_until_its_deadline)
{
	struct peer peer;
	uint64_t arrival;

	peer_create(&peer, IBV_QPT_RC, NULL);
	send_writes(&peer, 3);
	arrival = now(&peer);
	ck_assert(progress(&peer));
	ck_assert(!progress(&peer));
	ck_assert_uint_eq(sent(&peer), 0);
	ck_assert_uint_eq(due(&peer), arrival + ACK_DELAY);
	advance_to(&peer, arrival + ACK_DELAY - 1);
	ck_assert(!progress(&peer));
	advance_to(&peer, arrival + ACK_DELAY);
	ck_assert(progress(&peer));
	ck_assert_uint_eq(sent(&peer), 1);
	peer_see_ack(&peer, peer.psn - 1, 0x1f);
	peer_see_none(&peer, 1000000);
	peer_destroy(&peer);
}
END_TEST

static void note_deadline(void *context, uint64_t time)
{
	*(uint64_t *)context = time;
}

/* The thread that would send it otherwise is told: it may sleep for long. */
START_TEST(an_ack_that_waits_is_planned)
{
	uint64_t planned = 0;
	struct peer peer;

	peer_create(&peer, IBV_QPT_RC, NULL);
	peer.node->hca->deadline = note_deadline;
	peer.node->hca->deadline_context = &planned;
	ck_assert(!progress(&peer));
	ck_assert_uint_eq(planned, 0);
	send_writes(&peer, 1);
	ck_assert(progress(&peer));
	ck_assert_uint_eq(sent(&peer), 0);
	ck_assert_uint_eq(planned, now(&peer) + ACK_DELAY);
	advance_to(&peer, planned);
	planned = 0;
	ck_assert(progress(&peer));
	ck_assert_uint_eq(sent(&peer), 1);
	ck_assert_uint_eq(planned, 0);
	peer_destroy(&peer);
}
END_TEST

/*
 * So is more that this round leaves to the next: answers to READs. Nothing arrives that would wake
 * the thread, for the peer waits for them.
 */
START_TEST(answers_that_are_left_are_planned)
{
	struct connection many = world_connection;
	struct peer_packet read = {RC(WIRE_READ_REQUEST), .dma_length = PEER_MEMORY};
	uint64_t planned = TIME_NEVER;
	struct peer peer;

	many.rd_atomic = 16;
	peer_create(&peer, IBV_QPT_RC, &many);
	peer.node->hca->deadline = note_deadline;
	peer.node->hca->deadline_context = &planned;
	read.va = (uintptr_t)peer.memory;
	read.rkey = peer.mr->ibv.rkey;
	for (unsigned int i = 0; i < many.rd_atomic; i++) {
		read.psn = (peer.psn + i * PEER_MEMORY / PEER_MTU) & PSN_MASK;
		peer_send(&peer, &read);
	}
	advance_to(&peer, now(&peer) + LATENCY);
	ck_assert(progress(&peer));
	ck_assert_uint_lt(sent(&peer), many.rd_atomic * PEER_MEMORY / PEER_MTU);
	ck_assert_uint_le(planned, now(&peer));
	while (planned != TIME_NEVER) {
		planned = TIME_NEVER;
		ck_assert(progress(&peer));
	}
	ck_assert_uint_eq(sent(&peer), many.rd_atomic * PEER_MEMORY / PEER_MTU);
	peer_destroy(&peer);
}
END_TEST

/* Packets, too: the link may have taken them from where they would wake it. */
START_TEST(packets_that_are_left_are_planned)
{
	uint64_t planned = TIME_NEVER;
	unsigned int rounds = 0;
	struct peer peer;

	peer_create(&peer, IBV_QPT_UC, NULL);
	peer.node->hca->deadline = note_deadline;
	peer.node->hca->deadline_context = &planned;
	for (unsigned int i = 0; i < 20 * RECEIVE_BATCH; i++)
		send_noise(&peer);
	for (; progress(&peer); rounds++) {
		bool all = peer.node->hca->counters->rcvd_pkts == 20 * RECEIVE_BATCH;

		ck_assert(all || (planned <= now(&peer) && due(&peer) <= now(&peer)));
		planned = TIME_NEVER;
	}
	ck_assert_uint_gt(rounds, 1);
	ck_assert_uint_eq(due(&peer), TIME_NEVER);
	ck_assert_uint_eq(planned, TIME_NEVER);
	peer_destroy(&peer);
}
END_TEST

static uint64_t at_once(struct link *link)
{
	return 0;
}

/* A link that is due already comes before the ACK, however early its deadline is. */
START_TEST(an_ack_hides_no_earlier_deadline)
{
	struct link_ops ops;
	struct peer peer;

	peer_create(&peer, IBV_QPT_RC, NULL);
	send_writes(&peer, 1);
	ck_assert(progress(&peer));
	ck_assert_uint_gt(due(&peer), now(&peer));
	ops = *peer.node->link->ops;
	ops.deadline = at_once;
	peer.node->link->ops = &ops;
	ck_assert_uint_eq(due(&peer), 0);
	peer.node->link->ops = peer.link->ops;
	peer_destroy(&peer);
}
END_TEST

START_TEST(an_ack_rides_behind_the_answer)
{
	struct peer peer;

	peer_create(&peer, IBV_QPT_RC, NULL);
	send_writes(&peer, 1);
	ck_assert(progress(&peer));
	peer_post(&peer, IBV_WR_SEND, 8, 0);
	ck_assert_uint_eq(sent(&peer), 2);
	peer_see_op(&peer, "RC_SEND_ONLY");
	peer_see_ack(&peer, peer.psn - 1, 0x1f);
	peer_see_none(&peer, QUICK_ACK_AFTER);
	ck_assert_uint_eq(peer.node->hca->acks.oldest, TIME_NEVER);
	peer_destroy(&peer);
}
END_TEST

START_TEST(a_poll_that_finds_nothing_sends_it)
{
	struct peer peer;

	peer_create(&peer, IBV_QPT_RC, NULL);
	send_writes(&peer, 1);
	ck_assert(progress(&peer));
	hca_acknowledge(peer.node->hca, now(&peer) + ACK_DELAY_POLLED - 1);
	ck_assert_uint_eq(sent(&peer), 0);
	hca_acknowledge(peer.node->hca, now(&peer) + ACK_DELAY_POLLED);
	ck_assert_uint_eq(sent(&peer), 1);
	peer_see_ack(&peer, peer.psn - 1, 0x1f);
	peer_destroy(&peer);
}
END_TEST

static const struct link_ops *inner;
static struct hca *ending;
static bool waits, handler_waits;

static void *end_process(void *unused)
{
	waits = hca_request_acks(ending);
	return NULL;
}

static unsigned int look_and_send(struct link *link, struct link_packet *packets,
				  unsigned int count, uint64_t now)
{
	pthread_t thread;

	ck_assert_int_eq(pthread_create(&thread, NULL, end_process, NULL), 0);
	pthread_join(thread, NULL);
	handler_waits = hca_request_acks(ending);
	return inner->send(link, packets, count, now);
}

/*
 * Off the queue, but not on the wire: another thread that ends the process waits for it. A signal
 * handler that has interrupted this one would wait in vain.
 */
START_TEST(the_end_of_the_process_waits_for_it)
{
	static struct link_ops ops;
	struct peer peer;
	struct link *link;

	peer_create(&peer, IBV_QPT_RC, NULL);
	ending = peer.node->hca;
	link = ending->link;
	send_writes(&peer, 1);
	ck_assert(progress(&peer));
	inner = link->ops;
	ops = *inner;
	ops.send = look_and_send;
	link->ops = &ops;
	hca_acknowledge(ending, now(&peer) + ACK_DELAY_POLLED);
	link->ops = inner;
	ck_assert_uint_eq(sent(&peer), 1);
	ck_assert(waits && !handler_waits);
	end_process(NULL);
	ck_assert(!waits);
	peer_see_ack(&peer, peer.psn - 1, 0x1f);
	peer_destroy(&peer);
}
END_TEST

/* Packets for other QPs hold the ACK up for a while, but not for ever. */
START_TEST(what_others_receive_holds_it_up_no_longer)
{
	struct peer peer;
	uint64_t arrival;

	peer_create(&peer, IBV_QPT_RC, NULL);
	send_writes(&peer, 1);
	arrival = now(&peer);
	ck_assert(progress(&peer));
	for (;;) {
		send_noise(&peer);
		ck_assert(progress(&peer));
		if (now(&peer) >= arrival + ACK_DELAY_BUSY)
			break;
		ck_assert_uint_eq(sent(&peer), 0);
	}
	ck_assert_uint_eq(sent(&peer), 1);
	peer_see_ack(&peer, peer.psn - 1, 0x1f);
	peer_destroy(&peer);
}
END_TEST

static const struct {
	uint32_t length, packets; /* of so many bytes each are acknowledged at once */
} streams[] = {{0, ACK_PACKETS}, {1024, ACK_PACKETS}, {4096, ACK_BYTES / 4096}};

/* The first ACK of many packets that are processed together covers them all, at once. */
START_TEST(a_stream_is_acknowledged_at_once)
{
	const uint32_t length = streams[_i].length, packets = streams[_i].packets;
	struct connection c = world_connection;
	struct peer peer;

	c.mtu = IBV_MTU_4096;
	peer_create(&peer, IBV_QPT_RC, &c);
	send_stream(&peer, packets - 1, length);
	ck_assert(progress(&peer));
	ck_assert_uint_eq(sent(&peer), 0);
	send_stream(&peer, 1, length);
	ck_assert(progress(&peer));
	ck_assert_uint_eq(sent(&peer), 1);
	peer_see_ack(&peer, peer.psn - 1, 0x1f);
	/* And counts from there again. */
	send_stream(&peer, packets - 1, length);
	ck_assert(progress(&peer));
	ck_assert_uint_eq(sent(&peer), 1);
	peer_see_ack(&peer, peer.psn - 1, 0x1f);
	peer_see_none(&peer, QUICK_ACK_AFTER);
	peer_destroy(&peer);
}
END_TEST

START_TEST(what_is_wrong_or_repeated_is_told_at_once)
{
	struct peer peer;

	peer_create(&peer, IBV_QPT_RC, NULL);
	send_writes(&peer, 2);
	ck_assert(progress(&peer));
	peer.psn -= 2;
	send_writes(&peer, 1); /* again */
	ck_assert(progress(&peer));
	ck_assert_uint_eq(sent(&peer), 1);
	peer_see_ack(&peer, peer.psn, 0x1f);
	peer.psn += 2;
	send_writes(&peer, 1); /* beyond a gap */
	ck_assert(progress(&peer));
	ck_assert_uint_eq(sent(&peer), 2);
	peer_see_ack(&peer, peer.psn - 2, 0x60);
	peer_see_none(&peer, QUICK_ACK_AFTER);
	ck_assert_uint_eq(peer.node->hca->acks.oldest, TIME_NEVER);
	peer_destroy(&peer);
}
END_TEST

/* A READ's answer says it all; one that waits isn't sent behind it. */
START_TEST(a_response_takes_its_place)
{
	struct peer_packet read = {.opcode = WIRE_RC | WIRE_READ_REQUEST};
	struct peer peer;

	peer_create(&peer, IBV_QPT_RC, NULL);
	send_writes(&peer, 1);
	ck_assert(progress(&peer));
	read.psn = peer.psn++ & PSN_MASK;
	peer_send(&peer, &read);
	peer_see_op(&peer, "RC_RDMA_READ_RESPONSE_ONLY");
	peer_see_none(&peer, QUICK_ACK_AFTER);
	ck_assert_uint_eq(peer.node->hca->acks.oldest, TIME_NEVER);
	/* The next one waits on its own. */
	send_writes(&peer, 1);
	ck_assert(progress(&peer));
	ck_assert_uint_ne(peer.node->hca->acks.oldest, TIME_NEVER);
	peer_see_ack(&peer, peer.psn - 1, 0x1f);
	peer_destroy(&peer);
}
END_TEST

/* It never sends what the ACK could go with; its process may not poll, and sleep. */
START_TEST(a_target_of_xrc_waits_for_no_answer)
{
	static const struct peer_packet requests[] = {
		{.opcode = WIRE_XRC | WIRE_SEND_ONLY},
		{.opcode = WIRE_XRC | WIRE_WRITE_ONLY},
		{.opcode = WIRE_XRC | WIRE_WRITE_ONLY_IMM},
	};
	struct peer_packet request = requests[_i];
	struct peer peer;

	peer_create_srq(&peer, IBV_QPT_XRC_RECV, &world_connection, 4);
	for (unsigned int i = 0; i < 3; i++) {
		peer_receive(&peer, 8, i);
		request.psn = peer.psn++ & PSN_MASK;
		peer_send(&peer, &request);
		advance_to(&peer, now(&peer) + LATENCY);
		ck_assert(progress(&peer));
		ck_assert_uint_eq(sent(&peer), i + 1);
		ck_assert_uint_eq(peer.node->hca->acks.oldest, TIME_NEVER);
		peer_see_ack(&peer, request.psn, 0x1f);
	}
	peer_see_none(&peer, QUICK_ACK_AFTER);
	peer_destroy(&peer);
}
END_TEST

/* The HCA makes no progress for long: the next ACKs don't wait for an answer. */
START_TEST(waiting_in_vain_is_learnt_from)
{
	struct peer peer;

	peer_create(&peer, IBV_QPT_RC, NULL);
	for (unsigned int round = 0; round < 2; round++) {
		send_writes(&peer, 1);
		ck_assert(progress(&peer));
		advance_to(&peer, now(&peer) + QUICK_ACK_AFTER + 1);
		ck_assert_uint_eq(sent(&peer), round * (QUICK_ACKS + 1));
		ck_assert(progress(&peer));
		peer_see_ack(&peer, peer.psn - 1, 0x1f);
		for (unsigned int i = 0; i < QUICK_ACKS; i++) {
			send_writes(&peer, 1);
			ck_assert(progress(&peer));
			ck_assert_uint_eq(sent(&peer), round * (QUICK_ACKS + 1) + i + 2);
			peer_see_ack(&peer, peer.psn - 1, 0x1f);
		}
	}
	peer_destroy(&peer);
}
END_TEST

/* Its CPU may be the thread's that has received the request. */
START_TEST(an_application_that_polls_is_waited_for)
{
	struct peer peer;

	peer_create(&peer, IBV_QPT_RC, NULL);
	hca_acknowledge(peer.node->hca, now(&peer));
	send_writes(&peer, 1);
	ck_assert(progress(&peer));
	ck_assert_uint_eq(due(&peer), now(&peer) + ACK_DELAY_ANSWER);
	advance_to(&peer, now(&peer) + ACK_DELAY_ANSWER - 1);
	ck_assert(!progress(&peer));
	ck_assert_uint_eq(sent(&peer), 0);
	advance_to(&peer, now(&peer) + 1);
	ck_assert(progress(&peer));
	ck_assert_uint_eq(sent(&peer), 1);
	peer_see_ack(&peer, peer.psn - 1, 0x1f);
	peer_destroy(&peer);
}
END_TEST

/* An ACK goes alone, as one has waited in vain; then, @later, a message goes back. */
static void answer_quick_ack(struct peer *peer, uint64_t later)
{
	peer_create(peer, IBV_QPT_RC, NULL);
	peer->qp->responder.response.quick_acks = QUICK_ACKS;
	send_writes(peer, 1);
	ck_assert(progress(peer));
	ck_assert_uint_eq(sent(peer), 1);
	peer_see_ack(peer, peer->psn - 1, 0x1f);
	advance_to(peer, now(peer) + later);
	peer_post(peer, IBV_WR_SEND, 8, 0);
	peer_see_op(peer, "RC_SEND_ONLY");
}

/* One that was late once would else answer behind an ACK that its peer has ceased to poll for. */
START_TEST(an_answer_has_acks_wait_again)
{
	struct peer peer;

	answer_quick_ack(&peer, 0);
	send_writes(&peer, 1);
	ck_assert(progress(&peer));
	ck_assert_uint_eq(sent(&peer), 2);
	peer_post(&peer, IBV_WR_SEND, 8, 0);
	peer_see_op(&peer, "RC_SEND_ONLY");
	peer_see_ack(&peer, peer.psn - 1, 0x1f);
	peer_destroy(&peer);
}
END_TEST

START_TEST(a_late_answer_leaves_acks_quick)
{
	struct peer peer;

	answer_quick_ack(&peer, QUICK_ACK_AFTER);
	send_writes(&peer, 1);
	ck_assert(progress(&peer));
	ck_assert_uint_eq(sent(&peer), 3);
	peer_see_ack(&peer, peer.psn - 1, 0x1f);
	peer_destroy(&peer);
}
END_TEST

/* When the process ends, all ACKs that wait are sent, but none of a QP that is locked. */
START_TEST(the_end_of_the_process_sends_them)
{
	struct peer peer;

	peer_create(&peer, IBV_QPT_RC, NULL);
	send_writes(&peer, 1);
	ck_assert(progress(&peer));
	hca_flush_on_exit(peer.node->hca, now(&peer));
	ck_assert_uint_eq(sent(&peer), 1);
	peer_see_ack(&peer, peer.psn - 1, 0x1f);

	send_writes(&peer, 1);
	ck_assert(progress(&peer));
	pthread_mutex_lock(&peer.qp->lock);
	hca_flush_on_exit(peer.node->hca, now(&peer));
	pthread_mutex_unlock(&peer.qp->lock);
	spin_lock(&peer.node->hca->acks.lock);
	hca_flush_on_exit(peer.node->hca, now(&peer));
	pthread_spin_unlock(&peer.node->hca->acks.lock);
	ck_assert_uint_eq(sent(&peer), 1);
	peer_destroy(&peer);
}
END_TEST

/* So does what comes before a connection ends. */
START_TEST(a_reset_drains_it)
{
	struct peer peer;

	peer_create(&peer, IBV_QPT_RC, NULL);
	send_writes(&peer, 1);
	ck_assert(progress(&peer));
	world_modify_state(peer.qp, _i ? IBV_QPS_ERR : IBV_QPS_RESET);
	ck_assert_uint_eq(sent(&peer), 1);
	peer_see_ack(&peer, peer.psn - 1, 0x1f);
	ck_assert_uint_eq(peer.node->hca->acks.oldest, TIME_NEVER);
	peer_destroy(&peer);
}
END_TEST

/* What the HCA has got executed, but no QP run: as an application thread may find it. */
static void receive_only(struct peer *peer)
{
	struct link *link = peer->node->hca->link;
	struct link_frame frames[8];
	unsigned int count;

	sim_advance(peer->world.sim, now(peer) + LATENCY);
	count = link->ops->receive(link, frames, 8, now(peer));
	ck_assert_uint_gt(count, 0);
	for (unsigned int i = 0; i < count; i++) {
		struct packet packet;

		ck_assert_int_eq(packet_parse(&packet, frames[i].data, frames[i].length), 0);
		qp_receive(peer->qp, &packet, &frames[i], now(peer));
	}
}

/* The application that gets an answer counts on its request having completed. */
START_TEST(an_answer_overtakes_no_ack)
{
	struct peer_packet request = write_only;
	struct peer peer;

	peer_create(&peer, IBV_QPT_RC, NULL);
	peer.qp->responder.response.quick_acks = 1;
	request.psn = peer.psn++ & PSN_MASK;
	peer_send(&peer, &request);
	receive_only(&peer);
	peer_post(&peer, IBV_WR_SEND, 8, 0);
	ck_assert_uint_eq(sent(&peer), 2);
	peer_see_op(&peer, "RC_SEND_ONLY");
	peer_see_ack(&peer, peer.psn - 1, 0x1f);
	peer_see_none(&peer, QUICK_ACK_AFTER);
	peer_destroy(&peer);
}
END_TEST

/* IBA 9.7.5.1.4: and an ACK overtakes no response, be it one that is given again. */
START_TEST(an_ack_overtakes_no_response)
{
	struct peer_packet read = {.opcode = WIRE_RC | WIRE_READ_REQUEST};
	struct peer_packet request = write_only;
	struct peer peer;

	peer_create(&peer, IBV_QPT_RC, NULL);
	for (int i = 0; i < 2 * _i; i++) {
		read.psn = peer.psn++ & PSN_MASK;
		peer_send(&peer, &read);
		peer_see_op(&peer, "RC_RDMA_READ_RESPONSE_ONLY");
	}
	read.psn = FIRST_PSN;
	peer.psn += !_i;
	peer_send(&peer, &read);
	request.psn = peer.psn++ & PSN_MASK;
	peer_send(&peer, &request);
	receive_only(&peer);
	peer_post(&peer, IBV_WR_SEND, 8, 0);
	ck_assert_uint_eq(sent(&peer), 2 * _i + 1);
	peer_see_op(&peer, "RC_SEND_ONLY");
	peer_see_op(&peer, "RC_RDMA_READ_RESPONSE_ONLY");
	peer_see_ack(&peer, peer.psn - 1, 0x1f);
	peer_destroy(&peer);
}
END_TEST

/* The ACK that came behind an answer is looked at before it. */
START_TEST(a_send_completes_before_its_answer)
{
	struct peer_packet answer = {.opcode = WIRE_RC | WIRE_SEND_ONLY, .length = 8};
	struct peer_packet ack = {.opcode = WIRE_RC | WIRE_ACKNOWLEDGE, .syndrome = 0x1f, .msn = 1};
	struct peer peer;

	peer_create(&peer, IBV_QPT_RC, NULL);
	peer_receive(&peer, 8, 1);
	ack.psn = peer.qp->requester.psn;
	peer_post(&peer, IBV_WR_SEND, 8, 2);
	peer_see_op(&peer, "RC_SEND_ONLY");
	answer.psn = peer.psn++ & PSN_MASK;
	peer_send(&peer, &answer);
	peer_send(&peer, &ack);
	world_expect(peer.node, 2, IBV_WC_SUCCESS);
	world_expect(peer.node, 1, IBV_WC_SUCCESS);
	peer_destroy(&peer);
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("ack");

	tcase_add_test(tcase, an_ack_waits_until_its_deadline);
	tcase_add_test(tcase, an_ack_that_waits_is_planned);
	tcase_add_test(tcase, answers_that_are_left_are_planned);
	tcase_add_test(tcase, packets_that_are_left_are_planned);
	tcase_add_test(tcase, an_ack_hides_no_earlier_deadline);
	tcase_add_test(tcase, an_ack_rides_behind_the_answer);
	tcase_add_test(tcase, a_poll_that_finds_nothing_sends_it);
	tcase_add_test(tcase, the_end_of_the_process_waits_for_it);
	tcase_add_test(tcase, what_others_receive_holds_it_up_no_longer);
	tcase_add_loop_test(tcase, a_stream_is_acknowledged_at_once, 0,
			    sizeof(streams) / sizeof(*streams));
	tcase_add_test(tcase, what_is_wrong_or_repeated_is_told_at_once);
	tcase_add_test(tcase, a_response_takes_its_place);
	tcase_add_loop_test(tcase, a_target_of_xrc_waits_for_no_answer, 0, 3);
	tcase_add_test(tcase, waiting_in_vain_is_learnt_from);
	tcase_add_test(tcase, an_application_that_polls_is_waited_for);
	tcase_add_test(tcase, an_answer_has_acks_wait_again);
	tcase_add_test(tcase, a_late_answer_leaves_acks_quick);
	tcase_add_test(tcase, the_end_of_the_process_sends_them);
	tcase_add_test(tcase, an_answer_overtakes_no_ack);
	tcase_add_loop_test(tcase, an_ack_overtakes_no_response, 0, 2);
	tcase_add_test(tcase, a_send_completes_before_its_answer);
	tcase_add_loop_test(tcase, a_reset_drains_it, 0, 2);
	return world_main("ack", (TCase *const[]){tcase, NULL});
}
