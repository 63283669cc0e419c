/* SPDX-License-Identifier: BSD-2-Clause */
/* What other processes see of devices and queue pairs: net/observe/record.h. */
#include "pair.h"

static const struct observe_traffic *traffic(const struct qp *qp)
{
	return &qp->observed->done.traffic;
}

static void expect_traffic(const struct observe_traffic *traffic, uint64_t sent_messages,
			   uint64_t sent_bytes, uint64_t received_messages, uint64_t received_bytes)
{
	ck_assert_uint_eq(traffic->sent_messages, sent_messages);
	ck_assert_uint_eq(traffic->sent_bytes, sent_bytes);
	ck_assert_uint_eq(traffic->received_messages, received_messages);
	ck_assert_uint_eq(traffic->received_bytes, received_bytes);
}

/* Data counts at both ends the way it goes. */
START_TEST(traffic_is_counted)
{
	struct pair p;

	pair_create(&p, IBV_QPT_RC, NULL, 1, &world_connection);
	pair_receive(&p, 200, 10);
	pair_post(&p, IBV_WR_SEND, 100, 1);
	pair_post(&p, IBV_WR_RDMA_WRITE, 2000, 2);
	pair_post(&p, IBV_WR_RDMA_READ, 3000, 3);
	pair_post(&p, IBV_WR_ATOMIC_FETCH_AND_ADD, 8, 4);
	for (uint64_t id = 1; id <= 4; id++)
		world_expect(p.a, id, IBV_WC_SUCCESS);
	world_expect(p.b, 10, IBV_WC_SUCCESS);
	expect_traffic(traffic(p.qa), 2, 2100, 2, 3008);
	expect_traffic(traffic(p.qb), 2, 3008, 2, 2100);
	ck_assert_uint_eq(p.a->hca->counters->rdma_sends, 4);
	ck_assert_uint_eq(p.b->hca->counters->rdma_recvs, 1);
	pair_destroy(&p);
}
END_TEST

START_TEST(writes_without_acknowledgement)
{
	struct observe_totals before, after;
	struct pair p;

	pair_create(&p, IBV_QPT_UC, NULL, 1, &world_connection);
	before = p.qb->observed->done;
	pair_post(&p, IBV_WR_RDMA_WRITE, 5000, 1);
	world_expect(p.a, 1, IBV_WC_SUCCESS);
	world_run(&p.world, SECOND);
	after = p.qb->observed->done;
	ck_assert_uint_eq(after.traffic.received_messages, before.traffic.received_messages + 1);
	ck_assert_uint_eq(after.traffic.received_bytes, before.traffic.received_bytes + 5000);
	expect_traffic(traffic(p.qa), 1, 5000, 0, 0);
	pair_destroy(&p);
}
END_TEST

/* Of datagrams without their header. */
START_TEST(datagrams)
{
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1};
	struct pair_wr request;
	struct pair p;
	struct ah *ah;

	pair_create(&p, IBV_QPT_UD, NULL, 1, &world_connection);
	attr.grh.dgid = *world_gid(p.b, 1);
	ck_assert_int_eq(ah_create(p.a->pd, &attr, &ah), 0);
	pair_receive(&p, 140, 10);
	pair_wr(&p, &request, IBV_WR_SEND, 100, 1)->wr.ud.ah = &ah->ibv;
	request.wr.wr.ud.remote_qpn = p.qb->number;
	request.wr.wr.ud.remote_qkey = 0x11111111; /* what world_modify_init() sets */
	ck_assert_int_eq(world_post_send(p.qa, &request.wr), 0);
	world_expect(p.a, 1, IBV_WC_SUCCESS);
	world_expect(p.b, 10, IBV_WC_SUCCESS);
	expect_traffic(traffic(p.qa), 1, 100, 0, 0);
	expect_traffic(traffic(p.qb), 0, 0, 1, 100);
	ah_destroy(ah);
	pair_destroy(&p);
}
END_TEST

/* What is under way when the peer doesn't answer, and when it does again. */
START_TEST(queues_are_current)
{
	const struct observe_qp_progress *progress;
	const struct observe_losses *losses;
	uint32_t psn;
	struct pair p;

	pair_create(&p, IBV_QPT_RC, NULL, 1, &world_connection);
	progress = &p.qa->observed->progress;
	losses = &p.qa->observed->done.losses;
	psn = progress->psn;
	ck_assert_uint_eq(progress->state, IBV_QPS_RTS);
	ck_assert_uint_eq(p.qa->observed->peer_qpn, p.qb->number);
	ck_assert_mem_eq(p.qa->observed->peer, world_gid(p.b, 1), sizeof(p.qa->observed->peer));

	pair_cut(&p, true);
	for (uint64_t id = 1; id <= 3; id++)
		pair_post(&p, IBV_WR_RDMA_WRITE, 1000, id);
	ck_assert_uint_eq(progress->posted, 3);
	ck_assert_uint_eq(progress->sent, 3);
	ck_assert_uint_eq(progress->done, 0);
	ck_assert_uint_gt(progress->in_flight, 3000);
	ck_assert_uint_eq(progress->psn, (psn + 3) & PSN_MASK);
	ck_assert_uint_eq(progress->unacked, psn);
	while (losses->timeouts < 2)
		ck_assert(world_step(&p.world));
	ck_assert_uint_gt(losses->resent, 0);
	ck_assert_uint_gt(losses->probes, 0);
	ck_assert_uint_eq(progress->retries, world_connection.retry_cnt - 2);

	pair_cut(&p, false);
	for (uint64_t id = 1; id <= 3; id++)
		world_expect(p.a, id, IBV_WC_SUCCESS);
	ck_assert_uint_eq(progress->done, 3);
	ck_assert_uint_eq(progress->in_flight, 0);
	ck_assert_uint_eq(progress->unacked, progress->psn);
	ck_assert_uint_eq(progress->retries, world_connection.retry_cnt);
	pair_destroy(&p);
}
END_TEST

START_TEST(receives_that_are_missing)
{
	struct pair p;

	pair_create(&p, IBV_QPT_RC, NULL, 1, &world_connection);
	pair_post(&p, IBV_WR_SEND, 10, 1);
	while (!p.qa->observed->done.losses.rnr_naks)
		ck_assert(world_step(&p.world));
	ck_assert_uint_gt(p.qb->observed->done.losses.rnr_naks_sent, 0);
	pair_receive(&p, 100, 10);
	pair_receive(&p, 100, 11);
	ck_assert_uint_eq(p.qb->observed->progress.receives, 2);
	world_expect(p.a, 1, IBV_WC_SUCCESS);
	world_expect(p.b, 10, IBV_WC_SUCCESS);
	ck_assert_uint_eq(p.qb->observed->progress.receives, 1);
	pair_destroy(&p);
}
END_TEST

START_TEST(errors_are_remembered)
{
	struct ibv_wc wc;
	struct pair p;

	pair_create(&p, IBV_QPT_RC, NULL, 1, &world_connection);
	pair_cut(&p, true);
	pair_post(&p, IBV_WR_RDMA_WRITE, 10, 1);
	pair_post(&p, IBV_WR_RDMA_WRITE, 10, 2);
	wc = world_completion(p.a, 1000 * SECOND);
	ck_assert_int_eq(wc.status, IBV_WC_RETRY_EXC_ERR);
	world_expect(p.a, 2, IBV_WC_WR_FLUSH_ERR);
	ck_assert_uint_eq(p.qa->observed->progress.state, IBV_QPS_ERR);
	ck_assert_uint_eq(p.qa->observed->errors, 1);
	ck_assert_uint_eq(p.qa->observed->error_status, IBV_WC_RETRY_EXC_ERR);
	ck_assert_uint_eq(p.qa->observed->error_cause, wc.vendor_err);
	expect_traffic(traffic(p.qa), 0, 0, 0, 0);
	pair_destroy(&p);
}
END_TEST

/* What a queue pair did is the device's when it is gone. */
START_TEST(what_is_destroyed_stays_counted)
{
	const struct qp_options options = {.type = IBV_QPT_RC,
					   .cap = {.max_send_wr = 4, .max_send_sge = 1}};
	const struct observe_traffic *destroyed;
	struct pair_wr request;
	struct qp *qa, *qb;
	struct pair p;

	pair_create(&p, IBV_QPT_RC, NULL, 1, &world_connection);
	qa = world_qp(p.a, &options);
	qb = world_qp(p.b, &options);
	world_connect(p.a, qa, p.b, qb, &world_connection);
	ck_assert_int_eq(world_post_send(qa, pair_wr(&p, &request, IBV_WR_RDMA_WRITE, 1234, 1)), 0);
	world_expect(p.a, 1, IBV_WC_SUCCESS);
	destroyed = &p.a->hca->observed->destroyed.traffic;
	expect_traffic(destroyed, 0, 0, 0, 0);
	ck_assert_int_eq(qp_destroy(qa), 0);
	ck_assert_int_eq(qp_destroy(qb), 0);
	expect_traffic(destroyed, 1, 1234, 0, 0);
	expect_traffic(&p.b->hca->observed->destroyed.traffic, 0, 0, 1, 1234);
	pair_destroy(&p);
}
END_TEST

/* Both ways through a network of a microsecond, and what the receiver needs to be ready. */
START_TEST(latencies_are_measured)
{
	const struct observe_latency *latency;
	uint64_t messages = 0;
	struct pair p;

	pair_create(&p, IBV_QPT_RC, NULL, 1, &world_connection);
	latency = &p.a->hca->observed->latency[OBSERVE_WRITE];
	pair_post(&p, IBV_WR_RDMA_WRITE, 10, 1);
	world_expect(p.a, 1, IBV_WC_SUCCESS);
	ck_assert_uint_eq(latency->total, 0);
	p.a->hca->measures = true;
	for (uint64_t id = 2; id <= 5; id++)
		pair_post(&p, IBV_WR_RDMA_WRITE, 10, id);
	for (uint64_t id = 2; id <= 5; id++)
		world_expect(p.a, id, IBV_WC_SUCCESS);
	for (unsigned int i = 0; i < OBSERVE_BUCKETS; i++) {
		messages += latency->bucket[i];
		ck_assert(!latency->bucket[i] || latency->longest >> i);
	}
	ck_assert_uint_eq(messages, 4);
	ck_assert_uint_eq(latency->bytes, 40);
	ck_assert_uint_ge(latency->longest, 2000);
	ck_assert_uint_ge(latency->total, 4 * 2000);
	ck_assert_uint_le(latency->total, 4 * latency->longest);
	pair_destroy(&p);
}
END_TEST

int main(void)
{
	TCase *show = tcase_create("show");

	tcase_add_test(show, traffic_is_counted);
	tcase_add_test(show, writes_without_acknowledgement);
	tcase_add_test(show, datagrams);
	tcase_add_test(show, queues_are_current);
	tcase_add_test(show, receives_that_are_missing);
	tcase_add_test(show, errors_are_remembered);
	tcase_add_test(show, what_is_destroyed_stays_counted);
	tcase_add_test(show, latencies_are_measured);
	return world_main("show", (TCase *[]){show, NULL});
}
