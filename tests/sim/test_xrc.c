/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * XRC (IBA Annex A14): every operation under loss, and at the target what a
 * request makes of the SRQ that it names, packet by packet.
 */
#include <fcntl.h>
#include <stdlib.h>

#include "emu/transport/outbox.h"
#include "pair.h"
#include "peer.h"
#include "tests/said.h"

#define XRC(operation) .opcode = WIRE_XRC | (operation)
#define BAD_KEY 0xdead0001
#define NO_SUCH_SRQ 0x123456
#define LATENCY 1000 /* of world_create()'s default network */

/* --- both ends ------------------------------------------------------------------------ */

static const uint32_t sizes[] = {0, 1, 3, 1023, 1024, 1025, 4097, 65536, 100001};

static bool takes_receive(enum ibv_wr_opcode opcode)
{
	return opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM ||
	       opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

static void transfer(struct pair *p, enum ibv_wr_opcode opcode, uint32_t length, uint64_t id)
{
	bool read = opcode == IBV_WR_RDMA_READ;
	struct ibv_wc wc;

	pair_fill(read ? p->mb : p->ma, length, id);
	memset(read ? p->ma : p->mb, 0, length);
	if (takes_receive(opcode))
		pair_receive(p, PAIR_MEMORY, id + 1000);
	pair_post(p, opcode, length, id);
	world_expect(p->a, id, IBV_WC_SUCCESS);
	if (takes_receive(opcode)) {
		wc = world_completion(p->b, 100 * SECOND);
		ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
		ck_assert_uint_eq(wc.wr_id, id + 1000);
		ck_assert_uint_eq(wc.byte_len, length);
		ck_assert_uint_eq(wc.qp_num, p->qb->number);
		if (opcode != IBV_WR_SEND)
			ck_assert_uint_eq(be32toh(wc.imm_data), id);
	}
	ck_assert_mem_eq(p->ma, p->mb, length);
}

static void add(struct pair *p, uint64_t id)
{
	uint64_t before = *(uint64_t *)p->mb;

	pair_post(p, IBV_WR_ATOMIC_FETCH_AND_ADD, 8, id);
	world_expect(p->a, id, IBV_WC_SUCCESS);
	ck_assert_uint_eq(*(uint64_t *)p->ma, before);
	ck_assert_uint_eq(*(uint64_t *)p->mb, before + 1);
}

START_TEST(every_operation)
{
	static const struct sim_options networks[] = {
		{.latency = 1000},
		{.latency = 1000, .jitter = 5000, .drop = 0.03, .duplicate = 0.01, .reorder = 0.01},
	};
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_SEND, IBV_WR_SEND_WITH_IMM,
						     IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM,
						     IBV_WR_RDMA_READ};
	struct pair p;
	uint64_t id = 1;

	pair_create(&p, IBV_QPT_XRC_SEND, &networks[_i > 0], _i + 1, NULL);
	for (size_t o = 0; o < sizeof(opcodes) / sizeof(opcodes[0]); o++)
		for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++)
			transfer(&p, opcodes[o], sizes[s], id++);
	for (int i = 0; i < 20; i++)
		add(&p, id++);
	ck_assert_uint_eq(p.b->hca->counters->retransmitted_pkts, 0);
	ck_assert_int_eq(p.a->hca->counters->retransmitted_pkts > 0, _i > 0);
	pair_destroy(&p);
}
END_TEST

/*
 * One QP, two SRQs with a completion queue each: each gets its own, in the order of the requests.
 */
START_TEST(two_queues_under_loss)
{
	enum { MESSAGES = 200, DEPTH = 16, LENGTH = 3000 };
	static const struct sim_options bad = {
		.latency = 1000, .jitter = 5000, .drop = 0.02, .duplicate = 0.01, .reorder = 0.01};
	struct ibv_srq_attr attr = {.max_wr = MESSAGES, .max_sge = 1};
	uint32_t posted = 0, completed = 0, seen[2] = {0};
	struct pair_wr request;
	struct srq *srqs[2];
	struct cq *cqs[2];
	struct pair p;

	pair_create(&p, IBV_QPT_XRC_SEND, &bad, _i, NULL);
	for (int q = 0; q < 2; q++) {
		ck_assert_int_eq(cq_create(p.b->hca, MESSAGES, &cqs[q]), 0);
		ck_assert_int_eq(srq_create_xrc(p.b->pd, p.xrcd, cqs[q], &attr, &srqs[q]), 0);
		for (uint64_t i = 0; i < MESSAGES / 2; i++) {
			struct ibv_sge sge = {(uintptr_t)p.mb + q * PAIR_MEMORY / 2, LENGTH,
					      p.rb->ibv.lkey};
			struct ibv_recv_wr wr = {.wr_id = i, .sg_list = &sge, .num_sge = 1};

			ck_assert_int_eq(srq_post(srqs[q], &wr, NULL), 0);
		}
	}
	while (completed < MESSAGES) {
		for (; posted < MESSAGES && posted - completed < DEPTH; posted++) {
			pair_wr(&p, &request, IBV_WR_SEND_WITH_IMM, LENGTH, posted);
			request.wr.qp_type.xrc.remote_srqn = srqs[posted % 2]->number;
			ck_assert_int_eq(world_post_send(p.qa, &request.wr), 0);
		}
		world_expect(p.a, completed++, IBV_WC_SUCCESS);
	}
	for (int q = 0; q < 2; q++) {
		struct completion completion;

		while (cq_poll(cqs[q], &completion, 1) == 1) {
			ck_assert_int_eq(completion.wc.status, IBV_WC_SUCCESS);
			ck_assert_uint_eq(completion.wc.wr_id, seen[q]);
			ck_assert_uint_eq(be32toh(completion.wc.imm_data), 2 * seen[q] + q);
			ck_assert_uint_eq(completion.wc.qp_num, p.qb->number);
			seen[q]++;
		}
		ck_assert_uint_eq(seen[q], MESSAGES / 2);
		ck_assert_int_eq(srq_destroy(srqs[q]), 0);
		ck_assert_int_eq(cq_destroy(cqs[q]), 0);
	}
	pair_destroy(&p);
}
END_TEST

/* An empty SRQ holds up what is for it, and nothing is lost. */
START_TEST(receiver_not_ready)
{
	struct pair p;

	pair_create(&p, IBV_QPT_XRC_SEND, NULL, 1, NULL);
	pair_post(&p, IBV_WR_SEND, 100, 1);
	world_expect_none(p.a, 10 * MS);
	ck_assert_uint_gt(p.b->hca->counters->send_rnr_err, 0);
	pair_receive(&p, 100, 2);
	world_expect(p.a, 1, IBV_WC_SUCCESS);
	world_expect(p.b, 2, IBV_WC_SUCCESS);
	pair_destroy(&p);
}
END_TEST

/* --- the target, packet by packet ------------------------------------------------------- */

static void target_create(struct peer *peer, uint64_t receives)
{
	peer_create_srq(peer, IBV_QPT_XRC_RECV, &world_connection, 16);
	for (uint64_t i = 0; i < receives; i++)
		peer_receive(peer, 3000, i);
}

static void send_next(struct peer *peer, struct peer_packet packet)
{
	packet.psn = peer->psn++ & PSN_MASK;
	packet.va += (uintptr_t)peer->memory;
	if (!packet.rkey)
		packet.rkey = peer->mr->ibv.rkey;
	peer_send(peer, &packet);
	world_run(&peer->world, 10000);
}

static void expect_error(struct peer *peer, enum ibv_event_type event)
{
	world_run(&peer->world, MS);
	ck_assert_int_eq(peer->qp->state, IBV_QPS_ERR);
	ck_assert_uint_eq(peer->node->events[event], 1);
	ck_assert_uint_eq(peer->node->events[IBV_EVENT_QP_LAST_WQE_REACHED], 1);
}

/* No such SRQ; a basic one has no number, and a QP's number is no SRQ's. */
START_TEST(unknown_queue)
{
	struct peer peer;
	const uint8_t operations[] = {WIRE_SEND_ONLY, WIRE_WRITE_ONLY, WIRE_READ_REQUEST,
				      WIRE_FETCH_ADD};
	struct peer_packet packet = {XRC(operations[_i / 2]), .srqn = NO_SUCH_SRQ};

	target_create(&peer, 1);
	if (_i % 2)
		packet.srqn = peer.qp->number;
	send_next(&peer, packet);
	peer_see_ack(&peer, FIRST_PSN, AETH_NAK_INVALID_REQUEST);
	expect_error(&peer, IBV_EVENT_QP_ACCESS_ERR);
	world_expect_none(peer.node, MS); /* the receive stays in its SRQ */
	peer_destroy(&peer);
}
END_TEST

/* No other queue pair takes its receives. */
START_TEST(queue_for_others)
{
	static const enum ibv_qp_type types[] = {IBV_QPT_RC, IBV_QPT_UD};
	struct ibv_qp_init_attr attr = {.qp_type = types[_i]};
	struct peer peer;
	struct qp *qp;

	target_create(&peer, 0);
	attr.send_cq = attr.recv_cq = &peer.node->cq->ibv;
	attr.srq = (struct ibv_srq *)peer.srq;
	ck_assert_int_eq(qp_create(peer.node->hca, peer.node->pd, &attr, &qp), EINVAL);
	peer_destroy(&peer);
}
END_TEST

START_TEST(queue_of_another_domain)
{
	struct ibv_srq_attr attr = {.max_wr = 1, .max_sge = 1};
	struct xrcd *xrcd;
	struct srq *srq;
	struct peer peer;

	target_create(&peer, 1);
	ck_assert_int_eq(xrcd_open(peer.node->hca, NULL, O_CREAT, &xrcd), 0);
	ck_assert_int_eq(srq_create_xrc(peer.node->pd, xrcd, peer.node->cq, &attr, &srq), 0);
	send_next(&peer, (struct peer_packet){XRC(WIRE_SEND_ONLY), .srqn = srq->number});
	peer_see_ack(&peer, FIRST_PSN, AETH_NAK_INVALID_REQUEST);
	expect_error(&peer, IBV_EVENT_QP_ACCESS_ERR);
	ck_assert_int_eq(xrcd_close(xrcd), EBUSY);
	ck_assert_int_eq(srq_destroy(srq), 0);
	ck_assert_int_eq(xrcd_close(xrcd), 0);
	peer_destroy(&peer);
}
END_TEST

/* R_Keys are those of the SRQ's protection domain (A14), whatever the request does. */
START_TEST(key_of_another_domain)
{
	const uint8_t operations[] = {WIRE_WRITE_ONLY, WIRE_READ_REQUEST, WIRE_FETCH_ADD};
	struct ibv_srq_attr attr = {.max_wr = 1, .max_sge = 1};
	struct peer_packet packet = {XRC(operations[_i]), .dma_length = 8};
	struct peer peer;
	struct srq *srq;
	struct pd *pd;

	packet.length = operations[_i] == WIRE_WRITE_ONLY ? 8 : 0;
	target_create(&peer, 0);
	send_next(&peer, packet);
	peer_see(&peer);
	ck_assert_int_eq(peer.qp->state, IBV_QPS_RTS);
	ck_assert_int_eq(pd_alloc(peer.node->hca, &pd), 0);
	ck_assert_int_eq(srq_create_xrc(pd, peer.xrcd, peer.node->cq, &attr, &srq), 0);
	packet.srqn = srq->number;
	send_next(&peer, packet);
	peer_see_ack(&peer, FIRST_PSN + 1, AETH_NAK_REMOTE_ACCESS);
	expect_error(&peer, IBV_EVENT_QP_ACCESS_ERR);
	ck_assert_int_eq(srq_destroy(srq), 0);
	ck_assert_int_eq(pd_dealloc(pd), 0);
	peer_destroy(&peer);
}
END_TEST

/* All packets of a message name one SRQ. */
START_TEST(queue_changes_within_message)
{
	struct ibv_srq_attr attr = {.max_wr = 1, .max_sge = 1};
	struct peer peer;
	struct srq *srq;

	target_create(&peer, 1);
	ck_assert_int_eq(srq_create_xrc(peer.node->pd, peer.xrcd, peer.node->cq, &attr, &srq), 0);
	send_next(&peer, (struct peer_packet){XRC(WIRE_SEND_FIRST), .length = PEER_MTU});
	peer_see_ack(&peer, FIRST_PSN, AETH_ACK_UNLIMITED);
	send_next(&peer,
		  (struct peer_packet){XRC(WIRE_SEND_LAST), .length = 4, .srqn = srq->number});
	peer_see_ack(&peer, FIRST_PSN + 1, AETH_NAK_INVALID_REQUEST);
	world_expect(peer.node, 0, IBV_WC_REM_INV_REQ_ERR);
	ck_assert_int_eq(peer.qp->state, IBV_QPS_ERR);
	ck_assert_int_eq(srq_destroy(srq), 0);
	peer_destroy(&peer);
}
END_TEST

/* The SRQ goes in the middle of a message, with the receive that the message had taken. */
START_TEST(queue_goes_within_message)
{
	struct peer peer;
	uint32_t number;

	target_create(&peer, 1);
	number = peer.srq->number;
	send_next(&peer, (struct peer_packet){XRC(WIRE_SEND_FIRST), .length = PEER_MTU});
	peer_see_ack(&peer, FIRST_PSN, AETH_ACK_UNLIMITED);
	ck_assert_int_eq(srq_destroy(peer.srq), 0);
	peer.srq = NULL;
	send_next(&peer, (struct peer_packet){XRC(WIRE_SEND_LAST), .length = 4, .srqn = number});
	peer_see_ack(&peer, FIRST_PSN + 1, AETH_NAK_INVALID_REQUEST);
	expect_error(&peer, IBV_EVENT_QP_ACCESS_ERR);
	world_expect_none(peer.node, MS);
	peer_destroy(&peer);
}
END_TEST

/* A READ is being answered when its memory gets another domain, and its own goes with the SRQ. */
START_TEST(domain_goes_within_answer)
{
	const uint32_t length = 16 * OUTBOX_PACKETS * PEER_MTU; /* more than is sent at once */
	uint8_t *memory = calloc(1, length);
	struct ibv_srq_attr attr = {.max_wr = 1, .max_sge = 1};
	struct peer_packet packet = {XRC(WIRE_READ_REQUEST), .psn = FIRST_PSN,
				     .va = (uintptr_t)memory, .dma_length = length};
	static struct said said;
	char domains[64];
	struct peer peer;
	struct srq *srq;
	struct pd *pd;
	struct mr *mr;

	target_create(&peer, 0);
	ck_assert_int_eq(pd_alloc(peer.node->hca, &pd), 0);
	ck_assert_int_eq(srq_create_xrc(pd, peer.xrcd, peer.node->cq, &attr, &srq), 0);
	ck_assert_int_eq(
		mr_register(pd, memory, length, (uintptr_t)memory, world_connection.access, &mr),
		0);
	packet.srqn = srq->number;
	packet.rkey = mr->ibv.rkey;
	peer_send(&peer, &packet);
	sim_advance(peer.world.sim, world_now(&peer.world) + LATENCY);
	hca_progress(peer.node->hca, world_now(&peer.world));
	ck_assert_int_eq(peer.qp->state, IBV_QPS_RTS);
	ck_assert_int_eq(mr_reregister(mr, IBV_REREG_MR_CHANGE_PD, peer.node->pd, NULL, 0, 0), 0);
	ck_assert_int_eq(srq_destroy(srq), 0);
	snprintf(domains, sizeof(domains), "protection domain %u; what uses it is of %u",
		 peer.node->pd->handle, pd->handle);
	ck_assert_int_eq(pd_dealloc(pd), 0);
	cause_configure(true);
	said_begin(&said);
	expect_error(&peer, IBV_EVENT_QP_ACCESS_ERR);
	said_end(&said);
	ck_assert_ptr_nonnull(strstr(said.text, domains));
	ck_assert_uint_lt(peer.node->hca->counters->sent_pkts, length / PEER_MTU);
	ck_assert_int_eq(mr_deregister(mr), 0);
	free(memory);
	peer_destroy(&peer);
}
END_TEST

/* A receive that a message in progress had taken comes back; those in the SRQ stay there. */
START_TEST(error_flushes_what_was_taken)
{
	struct peer peer;

	target_create(&peer, 3);
	send_next(&peer, (struct peer_packet){XRC(WIRE_SEND_FIRST), .length = PEER_MTU});
	world_modify_state(peer.qp, IBV_QPS_ERR);
	world_expect(peer.node, 0, IBV_WC_WR_FLUSH_ERR);
	world_expect_none(peer.node, MS);
	ck_assert_uint_eq(peer.node->events[IBV_EVENT_QP_LAST_WQE_REACHED], 1);
	ck_assert_uint_eq(peer.srq->queue.count, 2);
	peer_destroy(&peer);
}
END_TEST

START_TEST(receive_too_short)
{
	struct peer peer;

	target_create(&peer, 0);
	peer_receive(&peer, 3, 7);
	send_next(&peer, (struct peer_packet){XRC(WIRE_SEND_ONLY), .length = 4});
	peer_see_ack(&peer, FIRST_PSN, AETH_NAK_INVALID_REQUEST);
	world_expect(peer.node, 7, IBV_WC_LOC_LEN_ERR);
	ck_assert_int_eq(peer.qp->state, IBV_QPS_ERR);
	peer_destroy(&peer);
}
END_TEST

/* Its limit and its end are the SRQ's own, as with RC. */
START_TEST(limit_of_the_queue)
{
	struct ibv_srq_attr attr = {.srq_limit = 2};
	struct peer peer;

	target_create(&peer, 2);
	ck_assert_int_eq(srq_modify(peer.srq, &attr, IBV_SRQ_LIMIT), 0);
	send_next(&peer, (struct peer_packet){XRC(WIRE_SEND_ONLY), .length = 4});
	world_expect(peer.node, 0, IBV_WC_SUCCESS);
	ck_assert_uint_eq(peer.node->events[IBV_EVENT_SRQ_LIMIT_REACHED], 1);
	peer_destroy(&peer);
}
END_TEST

/* Completions are the SRQ's: they stay when the QP that they came by goes. */
START_TEST(completions_outlive_the_queue_pair)
{
	struct qp_options options = {.type = IBV_QPT_XRC_RECV};
	struct peer peer;
	uint32_t number;

	target_create(&peer, 1);
	send_next(&peer, (struct peer_packet){XRC(WIRE_SEND_ONLY), .length = 4});
	peer_see_ack(&peer, FIRST_PSN, AETH_ACK_UNLIMITED);
	number = peer.qp->number;
	ck_assert_int_eq(qp_destroy(peer.qp), 0);
	ck_assert_uint_eq(world_completion(peer.node, MS).qp_num, number);
	options.xrcd = peer.xrcd;
	peer.qp = world_qp(peer.node, &options);
	peer_destroy(&peer);
}
END_TEST

/* IBA 9.6.1.1.3: what the other half of a QP would take is dropped. */
START_TEST(wrong_half)
{
	struct peer_packet ack = {XRC(WIRE_ACKNOWLEDGE), .syndrome = 0x1f};
	struct peer_packet rc = {RC(WIRE_SEND_ONLY), .length = 4};
	struct peer_packet request = {XRC(WIRE_SEND_ONLY), .length = 4, .srqn = NO_SUCH_SRQ};
	struct peer peer;

	if (_i) {
		peer_create(&peer, IBV_QPT_XRC_SEND, NULL);
		send_next(&peer, request);
	} else {
		target_create(&peer, 1);
		send_next(&peer, ack);
	}
	send_next(&peer, rc);
	peer_see_none(&peer, MS);
	world_expect_none(peer.node, MS);
	ck_assert_int_eq(peer.qp->state, IBV_QPS_RTS);
	ck_assert_uint_eq(peer.node->hca->counters->dropped_packets, 2);
	peer_destroy(&peer);
}
END_TEST

/* IBA 9.7.4.1.2 holds for XRC, too. */
START_TEST(reserved_opcode)
{
	struct peer peer;

	target_create(&peer, 1);
	send_next(&peer, (struct peer_packet){XRC(0x1f)});
	peer_see_ack(&peer, FIRST_PSN, AETH_NAK_INVALID_REQUEST);
	ck_assert_int_eq(peer.qp->state, IBV_QPS_ERR);
	peer_destroy(&peer);
}
END_TEST

/* What the requester sends names the SRQ in every packet. */
START_TEST(every_packet_names_the_queue)
{
	static const char *const names[] = {"XRC_SEND_FIRST", "XRC_SEND_MIDDLE",
					    "XRC_SEND_LAST_IMM"};
	struct ibv_sge sge;
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND_WITH_IMM, .sg_list = &sge, .num_sge = 1};
	struct packet packet;
	struct peer peer;

	peer_create(&peer, IBV_QPT_XRC_SEND, NULL);
	sge = (struct ibv_sge){(uintptr_t)peer.memory, 2 * PEER_MTU + 1, peer.mr->ibv.lkey};
	wr.qp_type.xrc.remote_srqn = 0xff000000 | NO_SUCH_SRQ; /* of which the wire has 24 bits */
	ck_assert_int_eq(world_post_send(peer.qp, &wr), 0);
	for (int i = 0; i < 3; i++) {
		packet = peer_see_op(&peer, names[i]);
		ck_assert_uint_eq(packet_xrc_srq(&packet), NO_SUCH_SRQ);
		ck_assert_uint_eq(packet.headers[packet.op->xrceth], 0);
	}
	peer_destroy(&peer);
}
END_TEST

int main(void)
{
	TCase *ends = tcase_create("ends"), *target = tcase_create("target");
	TCase *const tcases[] = {ends, target, NULL};

	tcase_add_loop_test(ends, every_operation, 0, 4);
	tcase_add_loop_test(ends, two_queues_under_loss, 0, 6);
	tcase_add_test(ends, receiver_not_ready);
	tcase_add_loop_test(target, unknown_queue, 0, 8);
	tcase_add_test(target, queue_of_another_domain);
	tcase_add_loop_test(target, queue_for_others, 0, 2);
	tcase_add_loop_test(target, key_of_another_domain, 0, 3);
	tcase_add_test(target, queue_changes_within_message);
	tcase_add_test(target, queue_goes_within_message);
	tcase_add_test(target, domain_goes_within_answer);
	tcase_add_test(target, error_flushes_what_was_taken);
	tcase_add_test(target, receive_too_short);
	tcase_add_test(target, limit_of_the_queue);
	tcase_add_test(target, completions_outlive_the_queue_pair);
	tcase_add_loop_test(target, wrong_half, 0, 2);
	tcase_add_test(target, reserved_opcode);
	tcase_add_test(target, every_packet_names_the_queue);
	return world_main("xrc", tcases);
}
