/* SPDX-License-Identifier: BSD-2-Clause */
/* UD (IBA 9.8.3, Annex A17.4.3): one packet, one key, forty bytes of header. */
#include <arpa/inet.h>
#include <netinet/ip.h>
#include <stdlib.h>

#include "net/tuning.h"
#include "pair.h"
#include "peer.h"

#define QKEY 0x11111111 /* what world_modify_init() sets */
#define BAD_KEY 0xdead0001

struct datagrams {
	struct pair pair;
	struct ah *ah;
};

static void create(struct datagrams *d)
{
	struct ibv_ah_attr attr = {
		.is_global = 1,
		.port_num = 1,
		.grh = {.hop_limit = 33, .traffic_class = 0x68},
	};

	pair_create(&d->pair, IBV_QPT_UD, NULL, 1, NULL);
	attr.grh.dgid = d->pair.b->gids.entries[0].gid;
	ck_assert_int_eq(ah_create(d->pair.a->pd, &attr, &d->ah), 0);
}

static void destroy(struct datagrams *d)
{
	ah_destroy(d->ah);
	pair_destroy(&d->pair);
}

static struct ibv_send_wr *datagram(struct datagrams *d, struct pair_wr *request, uint32_t length,
				    uint64_t id)
{
	pair_wr(&d->pair, request, IBV_WR_SEND, length, id);
	request->wr.wr.ud.ah = &d->ah->ibv;
	request->wr.wr.ud.remote_qpn = d->pair.qb->number;
	request->wr.wr.ud.remote_qkey = QKEY;
	return &request->wr;
}

static void post(struct datagrams *d, uint32_t length, uint64_t id)
{
	struct pair_wr request;

	ck_assert_int_eq(world_post_send(d->pair.qa, datagram(d, &request, length, id)), 0);
}

/* The sender never knows; at the receiver nothing has happened. */
static void expect_lost(struct datagrams *d, uint64_t id)
{
	world_expect(d->pair.a, id, IBV_WC_SUCCESS);
	world_expect_none(d->pair.b, MS);
	ck_assert_int_eq(d->pair.qb->state, IBV_QPS_RTS);
}

static uint16_t checksum(const uint8_t *header)
{
	uint32_t sum = 0;

	for (int i = 0; i < 20; i += 2)
		sum += header[i] << 8 | header[i + 1];
	sum = (sum & 0xffff) + (sum >> 16);
	return sum + (sum >> 16);
}

/* IBA A17.4.5.2: over IPv4, twenty bytes of nothing and then the IP header as it came. */
START_TEST(header)
{
	uint32_t length = _i;
	struct pair_wr request;
	struct datagrams d;
	struct iphdr ip;
	struct ibv_wc wc;

	create(&d);
	memset(d.pair.mb, 0xee, 8192);
	pair_fill(d.pair.ma, length, 3);
	pair_receive(&d.pair, 40 + length, 7);
	datagram(&d, &request, length, 1)->opcode = IBV_WR_SEND_WITH_IMM;
	request.wr.imm_data = htobe32(0x01020304);
	ck_assert_int_eq(world_post_send(d.pair.qa, &request.wr), 0);
	world_expect(d.pair.a, 1, IBV_WC_SUCCESS);
	wc = world_completion(d.pair.b, SECOND);
	ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
	ck_assert_int_eq(wc.opcode, IBV_WC_RECV);
	ck_assert_uint_eq(wc.wr_id, 7);
	ck_assert_uint_eq(wc.byte_len, 40 + length);
	ck_assert_uint_eq(wc.wc_flags, IBV_WC_GRH | IBV_WC_WITH_IMM);
	ck_assert_uint_eq(be32toh(wc.imm_data), 0x01020304);
	ck_assert_uint_eq(wc.src_qp, d.pair.qa->number);
	ck_assert_uint_eq(wc.qp_num, d.pair.qb->number);
	for (int i = 0; i < 20; i++)
		ck_assert_uint_eq(d.pair.mb[i], 0);
	memcpy(&ip, d.pair.mb + 20, sizeof(ip));
	ck_assert_uint_eq(ip.version, 4);
	ck_assert_uint_eq(ip.ihl, 5);
	ck_assert_uint_eq(ip.tos, 0x68);
	/* UDP, BTH, DETH, ImmDt, payload, pad, ICRC. */
	ck_assert_uint_eq(ntohs(ip.tot_len), 20 + 8 + 12 + 8 + 4 + length + pad_length(length) + 4);
	ck_assert_uint_eq(ntohs(ip.frag_off), 0x4000);
	ck_assert_uint_eq(ip.ttl, 64); /* the route's, as Linux has it */
	ck_assert_uint_eq(ip.protocol, IPPROTO_UDP);
	ck_assert_uint_eq(ntohl(ip.saddr), 0x0a000001);
	ck_assert_uint_eq(ntohl(ip.daddr), 0x0a000002);
	ck_assert_uint_eq(checksum(d.pair.mb + 20), 0xffff);
	ck_assert_mem_eq(d.pair.mb + 40, d.pair.ma, length);
	ck_assert_uint_eq(d.pair.mb[40 + length], 0xee);
	ck_assert_uint_eq(d.pair.b->events[IBV_EVENT_COMM_EST], 0);
	destroy(&d);
}
END_TEST

START_TEST(header_scattered)
{
	struct ibv_sge sge[3];
	struct ibv_recv_wr wr = {.sg_list = sge, .num_sge = 3}, *bad;
	struct datagrams d;

	create(&d);
	pair_fill(d.pair.ma, 100, 3);
	sge[0] = (struct ibv_sge){(uintptr_t)d.pair.mb + 1000, 30, d.pair.rb->ibv.lkey};
	sge[1] = (struct ibv_sge){(uintptr_t)d.pair.mb + 2000, 20, d.pair.rb->ibv.lkey};
	sge[2] = (struct ibv_sge){(uintptr_t)d.pair.mb + 3000, 100, d.pair.rb->ibv.lkey};
	ck_assert_int_eq(qp_post_recv(d.pair.qb, &wr, &bad), 0);
	post(&d, 100, 1);
	ck_assert_uint_eq(world_completion(d.pair.b, SECOND).byte_len, 140);
	ck_assert_uint_eq(d.pair.mb[1020], 0x45);
	ck_assert_mem_eq(d.pair.mb + 2010, d.pair.ma, 10);
	ck_assert_mem_eq(d.pair.mb + 3000, d.pair.ma + 10, 90);
	destroy(&d);
}
END_TEST

/* --- what is lost in silence ---------------------------------------------------------- */

START_TEST(lost)
{
	struct pair_wr request;
	struct datagrams d;

	create(&d);
	if (_i != 0) /* 0: no receive */
		pair_receive(&d.pair, 200, 5);
	datagram(&d, &request, 8, 1);
	if (_i == 1)
		request.wr.wr.ud.remote_qkey++;
	if (_i == 2)
		request.wr.wr.ud.remote_qpn ^= 0x800;
	if (_i == 3)
		pair_cut(&d.pair, true);
	ck_assert_int_eq(world_post_send(d.pair.qa, &request.wr), 0);
	expect_lost(&d, 1);
	ck_assert_uint_eq(d.pair.b->hca->counters->bad_qkey, _i == 1);
	pair_cut(&d.pair, false);
	if (_i == 0)
		pair_receive(&d.pair, 200, 5);
	post(&d, 8, 2);
	world_expect(d.pair.b, 5, IBV_WC_SUCCESS);
	destroy(&d);
}
END_TEST

START_TEST(lost_by_packet)
{
	struct peer_packet good = {.opcode = WIRE_UD | WIRE_SEND_ONLY,
				   .length = 8,
				   .qkey = QKEY,
				   .source_qp = PEER_QPN};
	struct peer_packet bad = good;
	struct peer peer;

	peer_create(&peer, IBV_QPT_UD, NULL);
	peer_receive(&peer, 100, 0);
	if (_i == 0)
		bad.opcode = WIRE_UC | WIRE_SEND_ONLY;
	if (_i == 1)
		bad.pkey = 0x8001;
	if (_i == 2)
		bad.opcode = WIRE_UD | WIRE_SEND_FIRST;
	if (_i == 3)
		bad.bad_icrc = true;
	if (_i == 4) {
		bad.unpadded = true;
		bad.length = 7;
	}
	peer_send(&peer, &bad);
	world_expect_none(peer.node, MS);
	ck_assert_uint_eq(peer.node->hca->counters->bad_pkey, _i == 1);
	/* PSNs don't matter, IBA 9.8.3; nor does where it is from, or what is reserved. */
	good.psn = 12345;
	good.source_qp |= 0xff000000;
	peer_send(&peer, &good);
	ck_assert_uint_eq(world_completion(peer.node, SECOND).src_qp, PEER_QPN);
	peer_see_none(&peer, MS);
	peer_destroy(&peer);
}
END_TEST

/* IBA 11.6.3.2: COMM_EST is of connected QPs. */
START_TEST(established)
{
	struct datagrams d;

	create(&d);
	world_modify_state(d.pair.qb, IBV_QPS_RESET);
	world_modify_init(d.pair.qb, &world_connection);
	world_modify_rtr(d.pair.qb, d.pair.b, d.pair.a, 0, &world_connection);
	pair_receive(&d.pair, 200, 5);
	post(&d, 8, 1);
	world_expect(d.pair.b, 5, IBV_WC_SUCCESS);
	ck_assert_uint_eq(d.pair.b->events[IBV_EVENT_COMM_EST], 0);
	world_expect(d.pair.a, 1, IBV_WC_SUCCESS);
	destroy(&d);
}
END_TEST

/* IBA 10.2.5: the high bit in a request stands for the QP's own Q_Key, which can't be set so. */
START_TEST(controlled_qkey)
{
	struct ibv_qp_attr attr = {.qkey = QKEY | 0x80000000};
	struct pair_wr request;
	struct datagrams d;

	create(&d);
	pair_receive(&d.pair, 200, 5);
	datagram(&d, &request, 8, 1)->wr.ud.remote_qkey = 0x80000000;
	ck_assert_int_eq(world_post_send(d.pair.qa, &request.wr), 0);
	world_expect(d.pair.b, 5, IBV_WC_SUCCESS);
	ck_assert_int_eq(qp_modify(d.pair.qa, &attr, IBV_QP_QKEY, 0), EPERM);
	attr.qkey = 0x22222222;
	ck_assert_int_eq(qp_modify(d.pair.qa, &attr, IBV_QP_QKEY, 0), 0);
	world_expect(d.pair.a, 1, IBV_WC_SUCCESS);
	pair_receive(&d.pair, 200, 6);
	request.wr.wr_id = 2;
	ck_assert_int_eq(world_post_send(d.pair.qa, &request.wr), 0);
	expect_lost(&d, 2);
	destroy(&d);
}
END_TEST

/* --- errors ------------------------------------------------------------------------------ */

/* As NICs do: longer than the port's MTU, or another domain's address handle; IBA 10.3.1.6. */
START_TEST(send_error)
{
	static const enum ibv_wc_status status[] = {IBV_WC_LOC_LEN_ERR, IBV_WC_LOC_QP_OP_ERR,
						    IBV_WC_LOC_PROT_ERR};
	struct pair_wr request;
	struct datagrams d;
	struct pd *pd;

	create(&d);
	ck_assert_int_eq(pd_alloc(d.pair.a->hca, &pd), 0);
	pair_receive(&d.pair, 8000, 5);
	datagram(&d, &request, _i == 0 ? 4097 : 8, 1);
	if (_i == 1)
		d.ah->pd = pd;
	if (_i == 2)
		request.sge.lkey = BAD_KEY;
	ck_assert_int_eq(world_post_send(d.pair.qa, &request.wr), 0);
	d.ah->pd = d.pair.a->pd;
	world_expect(d.pair.a, 1, status[_i]);
	ck_assert_int_eq(d.pair.qa->state, IBV_QPS_SQE);
	post(&d, 8, 2);
	world_expect(d.pair.a, 2, IBV_WC_WR_FLUSH_ERR);
	world_expect_none(d.pair.b, MS);
	world_modify_state(d.pair.qa, IBV_QPS_RTS);
	post(&d, 4096, 3);
	world_expect(d.pair.a, 3, IBV_WC_SUCCESS);
	world_expect(d.pair.b, 5, IBV_WC_SUCCESS);
	pd_dealloc(pd);
	destroy(&d);
}
END_TEST

/* What is posted in SQD is held, wrong as it may be (IBA 10.3.1.5). */
START_TEST(send_error_in_sqd)
{
	struct pair_wr request;
	struct datagrams d;
	struct pd *pd;

	create(&d);
	ck_assert_int_eq(pd_alloc(d.pair.a->hca, &pd), 0);
	world_modify_state(d.pair.qa, IBV_QPS_SQD);
	datagram(&d, &request, 8, 1);
	d.ah->pd = pd;
	ck_assert_int_eq(world_post_send(d.pair.qa, &request.wr), 0);
	d.ah->pd = d.pair.a->pd;
	world_expect_none(d.pair.a, MS);
	ck_assert_int_eq(d.pair.qa->state, IBV_QPS_SQD);
	world_modify_state(d.pair.qa, IBV_QPS_RTS);
	world_expect(d.pair.a, 1, IBV_WC_LOC_QP_OP_ERR);
	ck_assert_int_eq(d.pair.qa->state, IBV_QPS_SQE);
	pd_dealloc(pd);
	destroy(&d);
}
END_TEST

START_TEST(not_posted)
{
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_RDMA_WRITE,
						     IBV_WR_RDMA_WRITE_WITH_IMM,
						     IBV_WR_RDMA_READ,
						     IBV_WR_ATOMIC_CMP_AND_SWP,
						     IBV_WR_ATOMIC_FETCH_AND_ADD,
						     IBV_WR_SEND_WITH_INV,
						     IBV_WR_SEND};
	struct pair_wr request;
	struct datagrams d;

	create(&d);
	datagram(&d, &request, 8, 1)->opcode = opcodes[_i];
	if (opcodes[_i] == IBV_WR_SEND)
		request.wr.wr.ud.ah = NULL;
	ck_assert_int_eq(world_post_send(d.pair.qa, &request.wr), EINVAL);
	world_expect_none(d.pair.a, MS);
	ck_assert_int_eq(d.pair.qa->state, IBV_QPS_RTS);
	destroy(&d);
}
END_TEST

/* As NICs do: no room for header and payload; or a bad key. */
START_TEST(bad_receive)
{
	struct datagrams d;

	create(&d);
	ck_assert_int_eq(world_post_recv(d.pair.qb, d.pair.mb, _i ? 100 : 47,
					 _i ? BAD_KEY : d.pair.rb->ibv.lkey, 5),
			 0);
	pair_receive(&d.pair, 200, 6);
	post(&d, 8, 1);
	world_expect(d.pair.a, 1, IBV_WC_SUCCESS);
	world_expect(d.pair.b, 5, _i ? IBV_WC_LOC_PROT_ERR : IBV_WC_LOC_LEN_ERR);
	world_expect(d.pair.b, 6, IBV_WC_WR_FLUSH_ERR);
	ck_assert_int_eq(d.pair.qb->state, IBV_QPS_ERR);
	destroy(&d);
}
END_TEST

/* A fast sender doesn't overrun a slow receiver on the same machine: UD is paced. */
START_TEST(paced)
{
	static const struct sim_options network = {
		.latency = 1000, .bandwidth = 1000, .receive_queue = 50000};
	struct sim_statistics statistics;
	struct datagrams d;

	create(&d);
	sim_configure(d.pair.world.sim, &network);
	for (uint64_t i = 0; i < PAIR_DEPTH; i++)
		pair_receive(&d.pair, 5000, i);
	for (uint64_t i = 0; i < PAIR_DEPTH; i++)
		post(&d, 4096, i);
	for (uint64_t i = 0; i < PAIR_DEPTH; i++)
		world_expect(d.pair.a, i, IBV_WC_SUCCESS);
	for (uint64_t i = 0; i < PAIR_DEPTH; i++)
		world_expect(d.pair.b, i, IBV_WC_SUCCESS);
	sim_statistics(d.pair.world.sim, &statistics);
	ck_assert_uint_eq(statistics.overflowed, 0);
	destroy(&d);
}
END_TEST

/* --- two receivers, one of which is stopped for a while ----------------------------------- */

enum { SENDER, READER, STOPPED, NODES };
#define ROUNDS 1000 /* a datagram to each receiver */

struct fan {
	struct world world;
	struct qp *qps[NODES];
	struct mr *regions[NODES];
	struct ah *ahs[NODES];
	uint8_t memory[5000];
	unsigned int received[NODES];
};

static void fan_create(struct fan *fan)
{
	static const struct sim_options network = {.latency = 1000, .receive_queue = 100000};
	struct qp_options options = {.type = IBV_QPT_UD,
				     .cap = {.max_send_wr = 64,
					     .max_recv_wr = 2 * ROUNDS,
					     .max_send_sge = 1,
					     .max_recv_sge = 1}};
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1, .grh = {.hop_limit = 64}};

	world_create(&fan->world, NODES, &network, 1);
	for (int i = 0; i < NODES; i++) {
		struct node *node = &fan->world.nodes[i];

		fan->qps[i] = world_qp(node, &options);
		fan->regions[i] =
			world_mr(node, fan->memory, sizeof(fan->memory), IBV_ACCESS_LOCAL_WRITE);
		world_modify_init(fan->qps[i], &world_connection);
		world_modify_rtr(fan->qps[i], node, node, 0, &world_connection);
		world_modify_rts(fan->qps[i], &world_connection);
		attr.grh.dgid = node->gids.entries[0].gid;
		ck_assert_int_eq(ah_create(fan->world.nodes[SENDER].pd, &attr, &fan->ahs[i]), 0);
		for (int k = 0; k < 2 * ROUNDS && i != SENDER; k++)
			ck_assert_int_eq(world_post_recv(fan->qps[i], fan->memory,
							 sizeof(fan->memory),
							 fan->regions[i]->ibv.lkey, k),
					 0);
	}
}

static void fan_destroy(struct fan *fan)
{
	for (int i = 0; i < NODES; i++) {
		ah_destroy(fan->ahs[i]);
		ck_assert_int_eq(qp_destroy(fan->qps[i]), 0);
		ck_assert_int_eq(mr_deregister(fan->regions[i]), 0);
	}
	world_destroy(&fan->world);
}

static void fan_post(struct fan *fan, int to, uint64_t id)
{
	struct ibv_sge sge = {(uintptr_t)fan->memory, 4096, fan->regions[SENDER]->ibv.lkey};
	struct ibv_send_wr wr = {.wr_id = id,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED,
				 .wr.ud = {.ah = &fan->ahs[to]->ibv,
					   .remote_qpn = fan->qps[to]->number,
					   .remote_qkey = QKEY}};

	ck_assert_int_eq(world_post_send(fan->qps[SENDER], &wr), 0);
}

/* Send to both in turn, then let everything arrive that can. Returns how long sending took. */
static uint64_t fan_run(struct fan *fan)
{
	uint64_t began = world_now(&fan->world), took;
	struct ibv_wc wc;

	for (unsigned int i = 0; i < ROUNDS; i++) {
		fan_post(fan, STOPPED, 0);
		fan_post(fan, READER, 1);
		world_expect(&fan->world.nodes[SENDER], 0, IBV_WC_SUCCESS);
		world_expect(&fan->world.nodes[SENDER], 1, IBV_WC_SUCCESS);
	}
	took = world_now(&fan->world) - began;
	world_run(&fan->world, 10 * MS);
	for (int i = READER; i < NODES; i++) {
		for (fan->received[i] = 0; world_poll(&fan->world.nodes[i], &wc);)
			fan->received[i]++;
	}
	return took;
}

/*
 * What is for the stopped receiver is lost, and the other one gets all of its own, soon. When the
 * first one reads again it gets what its socket had space for, and from then on everything.
 */
START_TEST(stopped_receiver_holds_up_no_other)
{
	struct fan *fan = calloc(1, sizeof(*fan));
	struct ibv_wc wc;

	fan_create(fan);
	world_stall(&fan->world.nodes[STOPPED], TIME_NEVER);
	ck_assert_uint_le(fan_run(fan), PACING_PATIENCE + 30 * MS);
	ck_assert_uint_eq(fan->received[STOPPED], 0);
	ck_assert_uint_eq(fan->received[READER], ROUNDS);

	world_stall(&fan->world.nodes[STOPPED], 0);
	world_run(&fan->world, 10 * MS);
	ck_assert_int_eq(world_poll(&fan->world.nodes[STOPPED], &wc), 1);
	fan_run(fan);
	ck_assert_uint_ge(fan->received[STOPPED], ROUNDS);
	ck_assert_uint_lt(fan->received[STOPPED], ROUNDS + ROUNDS / 4);
	ck_assert_uint_eq(fan->received[READER], ROUNDS);
	fan_destroy(fan);
	free(fan);
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("ud");

	tcase_add_loop_test(tcase, header, 0, 6);
	tcase_add_loop_test(tcase, header, 4095, 4097);
	tcase_add_test(tcase, header_scattered);
	tcase_add_loop_test(tcase, lost, 0, 4);
	tcase_add_loop_test(tcase, lost_by_packet, 0, 5);
	tcase_add_test(tcase, established);
	tcase_add_test(tcase, controlled_qkey);
	tcase_add_loop_test(tcase, send_error, 0, 3);
	tcase_add_test(tcase, send_error_in_sqd);
	tcase_add_loop_test(tcase, not_posted, 0, 7);
	tcase_add_loop_test(tcase, bad_receive, 0, 2);
	tcase_add_test(tcase, paced);
	tcase_add_test(tcase, stopped_receiver_holds_up_no_other);
	return world_main("ud", (TCase *const[]){tcase, NULL});
}
