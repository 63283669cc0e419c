/* SPDX-License-Identifier: BSD-2-Clause */
/* HCAs with two ports: a GID index is its port's, a QP has one port, and so do address handles. */
#include <stdlib.h>

#include "pair.h"

#define QKEY 0x11111111 /* what world_modify_init() sets */

static struct connection second_port(void)
{
	struct connection c = world_connection;

	c.port_num = 2;
	return c;
}

static struct ibv_ah_attr vector_to(const struct node *node, uint8_t port_num)
{
	return (struct ibv_ah_attr){
		.is_global = 1, .port_num = port_num, .grh = {.dgid = *world_gid(node, port_num)}};
}

START_TEST(paths)
{
	struct ibv_ah_attr attr;
	struct path path;
	struct pair p;

	pair_create_apart(&p, IBV_QPT_RC, NULL, 1);
	ck_assert_int_eq(p.a->hca->limits.device.phys_port_cnt, 2);
	for (uint8_t port_num = 1; port_num <= 2; port_num++) {
		attr = vector_to(p.b, port_num);
		ck_assert_int_eq(path_resolve(p.a->hca, &attr, &path), 0);
		ck_assert(gid_equal(&path.source, world_gid(p.a, port_num)));
		ck_assert(gid_equal(&path.destination, world_gid(p.b, port_num)));
	}
	attr.port_num = 3;
	ck_assert_int_eq(path_resolve(p.a->hca, &attr, &path), EINVAL);
	attr.port_num = 0;
	ck_assert_int_eq(path_resolve(p.a->hca, &attr, &path), EINVAL);
	/* Each port has its own indexes. */
	attr.port_num = 2;
	attr.grh.sgid_index = 1;
	ck_assert_int_eq(path_resolve(p.a->hca, &attr, &path), ENODATA);
	pair_destroy(&p);
}
END_TEST

/* What is counted for the device is the second port's, all of it. */
static void expect_second_alone(const struct node *node)
{
	const struct port_counters *ports = node->hca->port_counters;
	const struct counters *all = node->hca->counters;

	ck_assert_uint_eq(ports[0].sent_pkts | ports[0].sent_bytes, 0);
	ck_assert_uint_eq(ports[1].sent_pkts, all->sent_pkts);
	ck_assert_uint_eq(ports[1].sent_bytes, all->sent_bytes);
	ck_assert_uint_eq(ports[0].rcvd_pkts | ports[0].rcvd_bytes, 0);
	ck_assert_uint_eq(ports[1].rcvd_pkts, all->rcvd_pkts);
	ck_assert_uint_eq(ports[1].rcvd_bytes, all->rcvd_bytes);
	ck_assert_uint_gt(all->sent_pkts + all->rcvd_pkts, 0);
}

START_TEST(connection_on_the_second_port)
{
	const struct sim_options lossy = {.latency = 1000, .drop = 0.02};
	struct connection c = second_port();
	struct pair p;

	pair_create(&p, _i ? IBV_QPT_RC : IBV_QPT_UC, _i ? &lossy : NULL, 7, &c);
	ck_assert(gid_equal(&p.qa->path.source, world_gid(p.a, 2)));
	/* It doesn't need the other one. */
	sim_partition(p.world.sim, world_gid(p.b, 1), true);
	pair_fill(p.ma, 20000, 5);
	pair_post(&p, IBV_WR_RDMA_WRITE, 20000, 1);
	world_expect(p.a, 1, IBV_WC_SUCCESS);
	world_run(&p.world, MS);
	ck_assert_mem_eq(p.ma, p.mb, 20000);
	expect_second_alone(p.a);
	expect_second_alone(p.b);
	pair_destroy(&p);
}
END_TEST

START_TEST(modify)
{
	const int init = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
	const int rtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
			IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .path_mtu = IBV_MTU_1024};
	struct connection c = second_port();
	struct pair p;

	pair_create_apart(&p, IBV_QPT_RC, NULL, 1);
	ck_assert_int_eq(qp_modify(p.qa, &attr, init, 0), EINVAL);
	attr.port_num = 3;
	ck_assert_int_eq(qp_modify(p.qa, &attr, init, 0), EINVAL);
	attr.port_num = 1;
	ck_assert_int_eq(qp_modify(p.qa, &attr, init, 0), 0);
	attr.port_num = 2;
	ck_assert_int_eq(qp_modify(p.qa, &attr, IBV_QP_PORT, 0), 0);
	/* The path is of the QP's port. */
	attr.qp_state = IBV_QPS_RTR;
	attr.ah_attr = vector_to(p.b, 1);
	ck_assert_int_eq(qp_modify(p.qa, &attr, rtr, 0), EINVAL);
	attr.ah_attr = vector_to(p.b, 2);
	attr.max_dest_rd_atomic = 1;
	ck_assert_int_eq(qp_modify(p.qa, &attr, rtr, 0), 0);
	world_modify_rts(p.qa, &c);
	/* Drained, it may change its port, together with its path. */
	world_modify_state(p.qa, IBV_QPS_SQD);
	attr.port_num = 1;
	ck_assert_int_eq(qp_modify(p.qa, &attr, IBV_QP_PORT, 0), EINVAL);
	attr.ah_attr = vector_to(p.b, 2);
	ck_assert_int_eq(qp_modify(p.qa, &attr, IBV_QP_PORT | IBV_QP_AV, 0), EINVAL);
	attr.ah_attr = vector_to(p.b, 1);
	ck_assert_int_eq(qp_modify(p.qa, &attr, IBV_QP_AV, 0), EINVAL);
	ck_assert_int_eq(qp_modify(p.qa, &attr, IBV_QP_PORT | IBV_QP_AV, 0), 0);
	ck_assert(gid_equal(&p.qa->path.source, world_gid(p.a, 1)));
	pair_destroy(&p);
}
END_TEST

/* Both ends move to the other port, one after the other, and go on where they were. */
START_TEST(connection_changes_its_port)
{
	struct ibv_qp_attr attr = {.port_num = 2};
	struct pair p;

	pair_create(&p, IBV_QPT_RC, NULL, 1, NULL);
	pair_fill(p.ma, 5000, 1);
	pair_post(&p, IBV_WR_RDMA_WRITE, 5000, 1);
	world_expect(p.a, 1, IBV_WC_SUCCESS);
	world_modify_state(p.qa, IBV_QPS_SQD);
	world_modify_state(p.qb, IBV_QPS_SQD);
	attr.ah_attr = vector_to(p.b, 2);
	ck_assert_int_eq(qp_modify(p.qa, &attr, IBV_QP_PORT | IBV_QP_AV, world_now(&p.world)), 0);
	attr.ah_attr = vector_to(p.a, 2);
	ck_assert_int_eq(qp_modify(p.qb, &attr, IBV_QP_PORT | IBV_QP_AV, world_now(&p.world)), 0);
	world_modify_state(p.qa, IBV_QPS_RTS);
	world_modify_state(p.qb, IBV_QPS_RTS);
	sim_partition(p.world.sim, world_gid(p.b, 1), true);
	pair_fill(p.ma, 5000, 2);
	pair_post(&p, IBV_WR_RDMA_WRITE, 5000, 2);
	world_expect(p.a, 2, IBV_WC_SUCCESS);
	ck_assert_mem_eq(p.ma, p.mb, 5000);
	pair_destroy(&p);
}
END_TEST

static void arm_other_port(struct pair *p, struct qp *qp, const struct node *peer)
{
	struct ibv_qp_attr attr = {.path_mig_state = IBV_MIG_REARM,
				   .alt_port_num = 2,
				   .alt_timeout = 10,
				   .alt_ah_attr = vector_to(peer, 2)};

	ck_assert_int_eq(
		qp_modify(qp, &attr, IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE, world_now(&p->world)),
		0);
}

/* The first ports fail under way: the alternate path is that of the second ones. */
START_TEST(connection_migrates_to_the_other_port)
{
	struct connection c = world_connection;
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct pair p;

	c.timeout = 10;
	pair_create(&p, IBV_QPT_RC, NULL, 1, &c);
	arm_other_port(&p, p.qa, p.b);
	arm_other_port(&p, p.qb, p.a);
	pair_post(&p, IBV_WR_RDMA_WRITE, 8, 1);
	world_expect(p.a, 1, IBV_WC_SUCCESS);
	pair_post(&p, IBV_WR_RDMA_WRITE, 8, 2);
	world_expect(p.a, 2, IBV_WC_SUCCESS);
	sim_partition(p.world.sim, world_gid(p.b, 1), true);
	pair_fill(p.ma, 5000, 3);
	pair_post(&p, IBV_WR_RDMA_WRITE, 5000, 3);
	world_expect(p.a, 3, IBV_WC_SUCCESS);
	ck_assert_mem_eq(p.ma, p.mb, 5000);
	ck_assert_int_eq(p.a->events[IBV_EVENT_PATH_MIG], 1);
	ck_assert_int_eq(p.b->events[IBV_EVENT_PATH_MIG], 1);
	qp_query(p.qa, &attr, &init);
	ck_assert_int_eq(attr.port_num, 2);
	ck_assert_int_eq(attr.alt_port_num, 1);
	ck_assert(gid_equal(&p.qa->path.source, world_gid(p.a, 2)));
	pair_destroy(&p);
}
END_TEST

/* --- datagrams ----------------------------------------------------------------------------- */

static void send_datagram(struct pair *p, struct ah *ah, uint64_t id)
{
	struct pair_wr request;

	pair_wr(p, &request, IBV_WR_SEND, 100, id);
	request.wr.wr.ud.ah = &ah->ibv;
	request.wr.wr.ud.remote_qpn = p->qb->number;
	request.wr.wr.ud.remote_qkey = QKEY;
	ck_assert_int_eq(world_post_send(p->qa, &request.wr), 0);
}

START_TEST(datagrams)
{
	struct connection c = second_port();
	struct ibv_ah_attr attr;
	struct ah *first, *second;
	struct pair p;

	pair_create(&p, IBV_QPT_UD, NULL, 1, &c);
	pair_receive(&p, 200, 10);
	attr = vector_to(p.b, 2);
	ck_assert_int_eq(ah_create(p.a->pd, &attr, &second), 0);
	send_datagram(&p, second, 1);
	world_expect(p.a, 1, IBV_WC_SUCCESS);
	world_expect(p.b, 10, IBV_WC_SUCCESS);
	ah_destroy(second);

	/* To the other port's address: the QP isn't there. */
	pair_receive(&p, 200, 11);
	attr.grh.dgid = *world_gid(p.b, 1);
	ck_assert_int_eq(ah_create(p.a->pd, &attr, &second), 0);
	send_datagram(&p, second, 2);
	world_expect(p.a, 2, IBV_WC_SUCCESS);
	world_expect_none(p.b, MS);
	ah_destroy(second);

	/* By an address handle of the other port. */
	attr = vector_to(p.b, 1);
	ck_assert_int_eq(ah_create(p.a->pd, &attr, &first), 0);
	send_datagram(&p, first, 3);
	world_expect(p.a, 3, IBV_WC_LOC_QP_OP_ERR);
	ah_destroy(first);
	pair_destroy(&p);
}
END_TEST

int main(void)
{
	TCase *tests = tcase_create("ports");
	TCase *const tcases[] = {tests, NULL};

	tcase_add_test(tests, paths);
	tcase_add_loop_test(tests, connection_on_the_second_port, 0, 2);
	tcase_add_test(tests, modify);
	tcase_add_test(tests, connection_changes_its_port);
	tcase_add_test(tests, connection_migrates_to_the_other_port);
	tcase_add_test(tests, datagrams);
	return world_main("ports", tcases);
}
