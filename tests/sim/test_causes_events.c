/* SPDX-License-Identifier: BSD-2-Clause */
/* Every cause of an asynchronous event (net/cause/events.def): provoked, and what is said of it. */
#include "causes.h"

static void comm_est(void)
{
	struct connection c = world_connection;

	causes_pair(IBV_QPT_RC, NULL);
	world_modify_state(p.qb, IBV_QPS_RESET);
	world_modify_init(p.qb, &c);
	world_modify_rtr(p.qb, p.b, p.a, p.qa->number, &c);
	pair_post(&p, IBV_WR_RDMA_WRITE, 8, 7);
}

static void sq_drained(void)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1};

	causes_pair(IBV_QPT_RC, NULL);
	ck_assert_int_eq(qp_modify(p.qa, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY,
				   world_now(&p.world)),
			 0);
}

static void last_wqe_reached(void)
{
	causes_peer(IBV_QPT_XRC_RECV, NULL);
	world_modify_state(peer.qp, IBV_QPS_ERR);
}

static void srq_limit(void)
{
	struct ibv_srq_attr attr = {.srq_limit = 1};

	causes_pair(IBV_QPT_XRC_SEND, NULL);
	pair_receive(&p, 8, 5);
	ck_assert_int_eq(srq_modify(p.srq, &attr, IBV_SRQ_LIMIT), 0);
	pair_post(&p, IBV_WR_SEND, 8, 7);
}

#define ALTERNATE 1 /* the index of the second address */

/* A write on the peer's path, or one from @source to the second address, which asks to migrate. */
static void migrating_request(const char *source)
{
	struct peer_packet packet = {RC(WIRE_WRITE_ONLY), .length = 8, .dma_length = 8};
	struct path path = peer.path;

	if (source) {
		gid_from_text(&path.source, source);
		path.destination = peer.node->gids.entries[ALTERNATE].gid;
		packet.path = &path;
		packet.migrated = true;
	}
	causes_request(&packet);
}

static void arm(void)
{
	struct ibv_qp_attr attr = {.path_mig_state = IBV_MIG_REARM, .alt_port_num = 1};
	union ibv_gid gid;

	causes_peer(IBV_QPT_RC, NULL);
	world_add_address(peer.node, 1);
	gid_from_text(&gid, "10.1.255.1");
	attr.alt_ah_attr = (struct ibv_ah_attr){.is_global = 1, .port_num = 1};
	attr.alt_ah_attr.grh.dgid = gid;
	attr.alt_ah_attr.grh.sgid_index = ALTERNATE;
	ck_assert_int_eq(peer.link->ops->add_address(peer.link, &gid, 0), 0);
	gid_from_text(&gid, "10.2.255.1");
	ck_assert_int_eq(peer.link->ops->add_address(peer.link, &gid, 0), 0);
	ck_assert_int_eq(qp_modify(peer.qp, &attr, IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE,
				   world_now(&peer.world)),
			 0);
	migrating_request(NULL);
}

static void path_migrated(void)
{
	arm();
	migrating_request("10.1.255.1");
}

static void path_mig_err(void)
{
	arm();
	migrating_request("10.2.255.1");
}

static void cq_overrun(void)
{
	causes_pair(IBV_QPT_RC, NULL);
	ck_assert_int_eq(cq_resize(p.a->cq, 2), 0);
	for (uint64_t i = 0; i < 3; i++)
		pair_post(&p, IBV_WR_RDMA_WRITE, 8, 7);
	world_run(&p.world, MS);
	ck_assert_uint_eq(p.a->events[IBV_EVENT_CQ_ERR], 1);
	ck_assert_uint_eq(p.a->events[IBV_EVENT_QP_FATAL], 1);
}

static void cq_in_error(void)
{
	struct qp *mine, *other;

	cq_overrun();
	mine = causes_qp(p.a);
	other = causes_qp(p.b);
	world_connect(p.a, mine, p.b, other, &world_connection);
	causes_post(mine, IBV_WR_RDMA_WRITE, (uintptr_t)p.ma, 8, p.ra->ibv.lkey);
	world_run(&p.world, MS);
	ck_assert_uint_eq(p.a->events[IBV_EVENT_QP_FATAL], 2);
}

static void cq_in_error_by_a_fault(void)
{
	causes_pair(IBV_QPT_RC, NULL);
	world_inject(p.a, "event(CQ_ERR)@1ms");
	world_run(&p.world, 2 * MS);
	pair_post(&p, IBV_WR_RDMA_WRITE, 8, 7);
	world_run(&p.world, MS);
	ck_assert_uint_eq(p.a->events[IBV_EVENT_QP_FATAL], 1);
}

/* ------------------------------------------------------------------------------------------ */

#define ROW(name, provoke, ...)                                                                    \
	{                                                                                          \
		CAUSE_##name, provoke, __VA_ARGS__                                                 \
	}

/* clang-format off */
static const struct cause_row rows[] = {
	ROW(COMM_EST, comm_est, "it is in RTR"),
	ROW(SQ_DRAINED, sq_drained, "it is in SQD"),
	ROW(LAST_WQE_REACHED, last_wqe_reached, "it is in ERR"),
	ROW(SRQ_LIMIT, srq_limit, "0 receives are posted, and the limit was 1"),
	ROW(PATH_MIGRATED, path_migrated, "connected from 10.1.0.1 to 10.1.255.1"),
	ROW(PATH_MIG_ERR, path_mig_err, "a packet came from 10.2.255.1 to 10.1.0.1; the alternate path is from 10.1.0.1 to 10.1.255.1, and path_mig_state is ARMED"),
	ROW(CQ_OVERRUN, cq_overrun, "of 2 entries: all are taken, and QP 0x"),
	ROW(CQ_IN_ERROR, cq_in_error, "of 2 entries was overrun by QP 0x"),
	ROW(CQ_IN_ERROR, cq_in_error_by_a_fault, "of 4096 entries is in the error state, as a fault has asked for"),
};
/* clang-format on */

static const enum cause elsewhere[] = {
	CAUSE_PORT_ACTIVE,  CAUSE_PORT_DOWN, /* verbs/test_port_events */
	CAUSE_NETDEV_GONE,  CAUSE_GID_CHANGED,
	CAUSE_NETDEVS_GONE, CAUSE_DESCRIPTORS_CLOSED, /* verbs/test_descriptors */
	CAUSE_NONE};

static const struct cause_table table = {
	.name = "causes_events",
	.first = 0x3000,
	.last = 0x3fff,
	.rows = rows,
	.count = sizeof(rows) / sizeof(rows[0]),
	.elsewhere = elsewhere,
};

int main(void)
{
	return causes_main(&table);
}
