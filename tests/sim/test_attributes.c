/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The attributes of a queue pair: the greatest values, what a refusal leaves behind, what a change
 * means for the next request, what ibv_query_qp() shows, and what ends with RESET.
 */
#include <errno.h>
#include <stddef.h>

#include "net/newer_verbs.h"
#include "net/sized.h"
#include "pair.h"
#include "peer.h"

#define LENGTH(array) ((int)(sizeof(array) / sizeof((array)[0])))

#define INIT_TO_RTR                                                                                \
	(IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |            \
	 IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)

/* What goes to RTR again. */
static void create_in_init(struct peer *peer)
{
	peer_create(peer, IBV_QPT_RC, NULL);
	world_modify_state(peer->qp, IBV_QPS_RESET);
	world_modify_init(peer->qp, &world_connection);
}

/* --- the greatest values ----------------------------------------------------------------- */

struct limit {
	int mask; /* of an attribute */
	size_t offset, size;
	uint64_t greatest;
};

#define FIELD(type, name) offsetof(struct type, name), sizeof(((struct type *)0)->name)

static const struct limit attributes[] = {
	{IBV_QP_PKEY_INDEX, FIELD(ibv_qp_attr, pkey_index), 0},
	{IBV_QP_TIMEOUT, FIELD(ibv_qp_attr, timeout), 31},
	{IBV_QP_RETRY_CNT, FIELD(ibv_qp_attr, retry_cnt), 7},
	{IBV_QP_RNR_RETRY, FIELD(ibv_qp_attr, rnr_retry), 7},
	{IBV_QP_MIN_RNR_TIMER, FIELD(ibv_qp_attr, min_rnr_timer), 31},
	{IBV_QP_MAX_QP_RD_ATOMIC, FIELD(ibv_qp_attr, max_rd_atomic), 128},
	{IBV_QP_MAX_DEST_RD_ATOMIC, FIELD(ibv_qp_attr, max_dest_rd_atomic), 128},
};

/* In SQD nearly all of them can be changed. Those of the alternate path: test_migration. */
START_TEST(modified)
{
	const struct limit *limit = &attributes[_i];
	struct ibv_qp_attr attr = {}, after;
	uint8_t *field = (uint8_t *)&attr + limit->offset;
	struct peer peer;

	peer_create(&peer, IBV_QPT_RC, NULL);
	world_modify_state(peer.qp, IBV_QPS_SQD);
	sized_put(field, limit->size, limit->greatest);
	ck_assert_int_eq(world_modify(peer.qp, &attr, limit->mask), 0);
	sized_put(field, limit->size, limit->greatest + 1);
	ck_assert_int_eq(world_modify(peer.qp, &attr, limit->mask), EINVAL);
	after = world_query(peer.qp);
	ck_assert_uint_eq(sized_get((uint8_t *)&after + limit->offset, limit->size),
			  limit->greatest);
	peer_destroy(&peer);
}
END_TEST

static const struct limit capacities[] = {
	{0, FIELD(ibv_qp_cap, max_send_wr), 16},     {0, FIELD(ibv_qp_cap, max_recv_wr), 16},
	{0, FIELD(ibv_qp_cap, max_send_sge), 4},     {0, FIELD(ibv_qp_cap, max_recv_sge), 4},
	{0, FIELD(ibv_qp_cap, max_inline_data), 64},
};

START_TEST(created)
{
	const struct limit *limit = &capacities[_i];
	struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC};
	uint8_t *field = (uint8_t *)&attr.cap + limit->offset;
	struct world world;
	struct hca *hca;
	struct qp *qp;

	world_create(&world, 1, NULL, 1);
	hca = world.nodes[0].hca;
	hca->limits.device.max_qp_wr = 16;
	hca->limits.device.max_sge = 4;
	hca->limits.max_inline_data = 64;
	attr.send_cq = attr.recv_cq = &world.nodes[0].cq->ibv;
	sized_put(field, limit->size, limit->greatest + 1);
	ck_assert_int_eq(qp_create(hca, world.nodes[0].pd, &attr, &qp), EINVAL);
	sized_put(field, limit->size, limit->greatest);
	ck_assert_int_eq(qp_create(hca, world.nodes[0].pd, &attr, &qp), 0);
	ck_assert_uint_eq(hca->qp_count, 1);
	ck_assert_int_eq(qp_destroy(qp), 0);
	ck_assert_uint_eq(hca->qp_count, 0);
	world_destroy(&world);
}
END_TEST

/* The path is good, the alternate one isn't: what was prepared for the first is given up. */
START_TEST(refused_with_its_path)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR,
				   .path_mtu = IBV_MTU_1024,
				   .ah_attr = {.is_global = 1, .port_num = 1},
				   .alt_ah_attr = {.is_global = 1, .port_num = 1},
				   .alt_port_num = 2};
	struct peer peer;

	create_in_init(&peer);
	attr.ah_attr.grh.dgid = attr.alt_ah_attr.grh.dgid = peer.path.source;
	ck_assert_ptr_null(peer.node->hca->destinations);
	ck_assert_int_eq(world_modify(peer.qp, &attr, INIT_TO_RTR | IBV_QP_ALT_PATH), EINVAL);
	ck_assert_ptr_null(peer.node->hca->destinations);
	peer_destroy(&peer);
}
END_TEST

static const unsigned int no_mtus[] = {0, IBV_MTU_4096 + 1, 1024};

START_TEST(path_mtu_of_no_enum)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR,
				   .path_mtu = no_mtus[_i],
				   .ah_attr = {.is_global = 1, .port_num = 1}};
	struct peer peer;

	create_in_init(&peer);
	attr.ah_attr.grh.dgid = peer.path.source;
	ck_assert_int_eq(world_modify(peer.qp, &attr, INIT_TO_RTR), EINVAL);
	attr.path_mtu = IBV_MTU_256;
	ck_assert_int_eq(world_modify(peer.qp, &attr, INIT_TO_RTR), 0);
	peer_destroy(&peer);
}
END_TEST

/* IBA 11.2.5.2: of SQD it may be asserted, too, and has to be right. */
START_TEST(current_state)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS, .cur_qp_state = IBV_QPS_RTS};
	struct peer peer;

	peer_create(&peer, IBV_QPT_RC, NULL);
	world_modify_state(peer.qp, IBV_QPS_SQD);
	ck_assert_int_eq(world_query(peer.qp).cur_qp_state, IBV_QPS_SQD);
	ck_assert_int_eq(world_modify(peer.qp, &attr, IBV_QP_STATE | IBV_QP_CUR_STATE), EINVAL);
	attr.cur_qp_state = IBV_QPS_SQD;
	ck_assert_int_eq(world_modify(peer.qp, &attr, IBV_QP_STATE | IBV_QP_CUR_STATE), 0);
	peer_destroy(&peer);
}
END_TEST

/* Annex A19: not by a device that has no FLUSH, nor where no memory is persistent. */
START_TEST(flush_rights)
{
	const struct ibv_qp_attr global = {.qp_access_flags = ACCESS_FLUSH_GLOBAL};
	const struct ibv_qp_attr persistent = {.qp_access_flags = ACCESS_FLUSH_PERSISTENT};
	struct peer peer;

	peer_create(&peer, IBV_QPT_RC, NULL);
	ck_assert_int_eq(world_modify(peer.qp, &global, IBV_QP_ACCESS_FLAGS), 0);
	ck_assert_int_eq(world_modify(peer.qp, &persistent, IBV_QP_ACCESS_FLAGS), EOPNOTSUPP);
	peer.node->hca->limits.cap_flags_ex &= ~DEVICE_FLUSH_GLOBAL;
	ck_assert_int_eq(world_modify(peer.qp, &global, IBV_QP_ACCESS_FLAGS), EOPNOTSUPP);
	peer_destroy(&peer);
}
END_TEST

/* The path MTU of a connection is agreed on: the MTU of the port is that of datagrams alone. */
START_TEST(port_mtu)
{
	static const enum ibv_qp_type types[] = {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD};
	bool datagrams = types[_i] == IBV_QPT_UD;
	struct peer peer;

	peer_create(&peer, types[_i], NULL);
	ck_assert_uint_eq(peer.qp->mtu, datagrams ? 4096 : PEER_MTU);
	qp_follow_mtu(peer.node->hca, 2, IBV_MTU_512);
	ck_assert_uint_eq(peer.qp->mtu, datagrams ? 4096 : PEER_MTU);
	qp_follow_mtu(peer.node->hca, 1, IBV_MTU_512);
	ck_assert_uint_eq(peer.qp->mtu, datagrams ? 512 : PEER_MTU);
	peer_destroy(&peer);
}
END_TEST

/* A QP of a device that is gone can be taken down, and nothing else. */
START_TEST(without_device)
{
	const struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	struct peer peer;

	peer_create(&peer, IBV_QPT_RC, NULL);
	peer.node->hca->failed = true;
	world_modify_state(peer.qp, IBV_QPS_ERR);
	world_modify_state(peer.qp, IBV_QPS_RESET);
	ck_assert_int_eq(
		world_modify(peer.qp, &init,
			     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
		EIO);
	peer_destroy(&peer);
}
END_TEST

/* --- what counts at once ------------------------------------------------------------------ */

/* The retries of the next request are those that are set. */
START_TEST(fewer_retries)
{
	const struct ibv_qp_attr none = {.rnr_retry = 0};
	struct connection c = world_connection;
	struct peer peer;

	c.rnr_retry = 6;
	peer_create(&peer, IBV_QPT_RC, &c);
	world_modify_state(peer.qp, IBV_QPS_SQD);
	ck_assert_int_eq(world_modify(peer.qp, &none, IBV_QP_RNR_RETRY), 0);
	world_modify_state(peer.qp, IBV_QPS_RTS);
	peer_post(&peer, IBV_WR_SEND, 8, 0);
	peer_see_requests(&peer, FIRST_PSN, 1);
	peer_acknowledge(&peer, FIRST_PSN, AETH_RNR_NAK);
	world_expect(peer.node, 0, IBV_WC_RNR_RETRY_EXC_ERR);
	peer_destroy(&peer);
}
END_TEST

/* What the mask leaves out isn't looked at. */
START_TEST(drained_without_event)
{
	const struct ibv_qp_attr attr = {.qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1};
	struct peer peer;

	peer_create(&peer, IBV_QPT_RC, NULL);
	ck_assert_int_eq(world_modify(peer.qp, &attr, IBV_QP_STATE), 0);
	world_run(&peer.world, MS);
	ck_assert(!world_query(peer.qp).sq_draining);
	ck_assert_uint_eq(peer.node->events[IBV_EVENT_SQ_DRAINED], 0);
	peer_destroy(&peer);
}
END_TEST

/* --- PSNs -------------------------------------------------------------------------------- */

/* Those that are next, from the state on in which they are used. */
START_TEST(psns)
{
	const uint32_t given = FIRST_PSN, next = psn_add(FIRST_PSN, 1);
	struct peer_packet write = {RC(WIRE_WRITE_ONLY), .psn = given};
	struct peer peer;

	create_in_init(&peer);
	world_modify_rtr_to(peer.qp, &peer.path.source, PEER_QPN, &world_connection);
	peer_send(&peer, &write);
	peer_see_ack(&peer, given, AETH_ACK_UNLIMITED);
	ck_assert_uint_eq(world_query(peer.qp).rq_psn, next);
	world_modify_rts(peer.qp, &world_connection);
	ck_assert_uint_eq(world_query(peer.qp).sq_psn, given);
	peer_post(&peer, IBV_WR_RDMA_WRITE, 8, 0);
	ck_assert_uint_eq(world_query(peer.qp).sq_psn, next);
	world_modify_state(peer.qp, IBV_QPS_SQD);
	ck_assert_uint_eq(world_query(peer.qp).sq_psn, next);
	ck_assert_uint_eq(world_query(peer.qp).rq_psn, next);
	peer_destroy(&peer);
}
END_TEST

/* What is above the 24 bits of a PSN is left out. */
START_TEST(psns_of_24_bits)
{
	struct connection c = world_connection;
	struct peer peer;

	c.psn |= ~PSN_MASK;
	peer_create(&peer, IBV_QPT_RC, &c);
	ck_assert_uint_eq(world_query(peer.qp).rq_psn, FIRST_PSN);
	ck_assert_uint_eq(world_query(peer.qp).sq_psn, FIRST_PSN);
	peer_destroy(&peer);
}
END_TEST

/* --- RESET ------------------------------------------------------------------------------- */

/* A send queue that was to be drained isn't any more. */
START_TEST(reset_while_draining)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1};
	struct peer peer;

	peer_create(&peer, IBV_QPT_RC, NULL);
	peer_post(&peer, IBV_WR_RDMA_WRITE, 8, 0);
	ck_assert_int_eq(world_modify(peer.qp, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY),
			 0);
	ck_assert(world_query(peer.qp).sq_draining);
	world_modify_state(peer.qp, IBV_QPS_RESET);
	ck_assert(!world_query(peer.qp).sq_draining);
	peer_destroy(&peer);
}
END_TEST

/* So that a stale packet or key of one device, or of an earlier run, hits nothing of another's. */
START_TEST(numbers_by_seeds)
{
	uint32_t key;
	struct pair p;

	pair_create(&p, IBV_QPT_RC, NULL, 1, NULL);
	ck_assert_uint_ne(p.qa->number, p.qb->number);
	key = p.ra->ibv.rkey;
	pair_destroy(&p);
	pair_create(&p, IBV_QPT_RC, NULL, UINT64_C(1) << 32, NULL);
	ck_assert_uint_ne(p.ra->ibv.rkey, key);
	pair_destroy(&p);
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("attributes");

	tcase_add_loop_test(tcase, modified, 0, LENGTH(attributes));
	tcase_add_loop_test(tcase, created, 0, LENGTH(capacities));
	tcase_add_test(tcase, refused_with_its_path);
	tcase_add_loop_test(tcase, path_mtu_of_no_enum, 0, LENGTH(no_mtus));
	tcase_add_test(tcase, numbers_by_seeds);
	tcase_add_test(tcase, current_state);
	tcase_add_test(tcase, flush_rights);
	tcase_add_loop_test(tcase, port_mtu, 0, 3);
	tcase_add_test(tcase, without_device);
	tcase_add_test(tcase, fewer_retries);
	tcase_add_test(tcase, drained_without_event);
	tcase_add_test(tcase, psns);
	tcase_add_test(tcase, psns_of_24_bits);
	tcase_add_test(tcase, reset_while_draining);
	return world_main("attributes", (TCase *const[]){tcase, NULL});
}
