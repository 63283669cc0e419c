/* SPDX-License-Identifier: BSD-2-Clause */
/* The connection manager without loss: each exchange, its messages, states and events. */
#include <stdlib.h>

#include "caller.h"
#include "net/newer_verbs.h"

/* Both to ESTABLISHED, with private data both ways. */
START_TEST(test_connect)
{
	struct callers c;
	struct caller *a, *b;

	callers_create(&c, NULL, 1);
	callers_listen(&c, 1, SERVICE);
	a = caller_connect(&c, 0, 1, SERVICE);
	world_run(&c.world, SECOND);
	b = caller_peer(a);
	ck_assert(b);
	ck_assert_int_eq(cm_id_state(a->id), CM_STATE_ESTABLISHED);
	ck_assert_int_eq(cm_id_state(b->id), CM_STATE_ESTABLISHED);
	caller_expect(a, (int[]){CM_EVENT_REP_RECEIVED, -1});
	caller_expect(b, (int[]){CM_EVENT_REQ_RECEIVED, CM_EVENT_RTU_RECEIVED, -1});
	ck_assert_str_eq((char *)b->data, "please");
	ck_assert_str_eq((char *)a->data, "welcome");
	callers_destroy(&c);
}
END_TEST

/*
 * What each side's QP gets is what the other side's has: IBA 12.7 and Linux's ib_cm_init_qp_attr.
 */
START_TEST(test_attributes)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT}, b = a;
	struct caller *active, *passive;
	struct callers c;
	int mask;

	callers_create(&c, NULL, 2);
	callers_listen(&c, 1, SERVICE);
	active = caller_connect(&c, 0, 1, SERVICE);
	world_run(&c.world, SECOND);
	passive = caller_peer(active);
	ck_assert(passive);

	ck_assert_int_eq(cm_qp_attr(active->id, &a, &mask), 0);
	ck_assert_int_eq(mask,
			 IBV_QP_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | IBV_QP_PORT);
	ck_assert_int_eq(a.qp_access_flags, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
						    IBV_ACCESS_REMOTE_ATOMIC | ACCESS_FLUSH_GLOBAL);
	a.qp_state = b.qp_state = IBV_QPS_RTR;
	ck_assert_int_eq(cm_qp_attr(active->id, &a, &mask), 0);
	ck_assert_int_eq(cm_qp_attr(passive->id, &b, &mask), 0);
	ck_assert_int_eq(mask, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				       IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				       IBV_QP_MIN_RNR_TIMER);
	ck_assert_uint_eq(a.dest_qp_num, passive->qpn);
	ck_assert_uint_eq(b.dest_qp_num, active->qpn);
	ck_assert_int_eq(a.path_mtu, IBV_MTU_1024);
	ck_assert_int_eq(b.path_mtu, IBV_MTU_1024);
	ck_assert_int_eq(a.max_dest_rd_atomic, REPLY_DEPTH);
	ck_assert_int_eq(b.max_dest_rd_atomic, REPLY_RESOURCES);
	ck_assert(gid_equal(&a.ah_attr.grh.dgid, &c.world.nodes[1].gids.entries[0].gid));
	ck_assert(gid_equal(&b.ah_attr.grh.dgid, &c.world.nodes[0].gids.entries[0].gid));
	a.qp_state = b.qp_state = IBV_QPS_RTS;
	ck_assert_int_eq(cm_qp_attr(active->id, &a, &mask), 0);
	ck_assert_int_eq(cm_qp_attr(passive->id, &b, &mask), 0);
	ck_assert_int_eq(mask, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
				       IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
	ck_assert_uint_eq(a.sq_psn, b.rq_psn);
	ck_assert_uint_eq(b.sq_psn, a.rq_psn);
	ck_assert_int_eq(a.max_rd_atomic, REPLY_RESOURCES);
	ck_assert_int_eq(b.max_rd_atomic, REPLY_DEPTH);
	ck_assert_int_eq(a.retry_cnt, REQUEST_RETRY);
	ck_assert_int_eq(b.retry_cnt, REQUEST_RETRY);
	ck_assert_int_eq(a.rnr_retry, REPLY_RNR_RETRY);
	ck_assert_int_eq(b.rnr_retry, REQUEST_RNR_RETRY);
	/* Life time 16 and an ACK delay of 15, in Linux's arithmetic. */
	ck_assert_int_eq(a.timeout, 17);
	ck_assert_int_eq(b.timeout, 17);
	callers_destroy(&c);
}
END_TEST

/* What ibv_modify_qp() would refuse isn't among the attributes of a card. */
START_TEST(test_attributes_without_flush)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT};
	struct caller *active;
	struct callers c;
	int mask;

	callers_create(&c, NULL, 4);
	c.world.nodes[0].hca->limits.cap_flags_ex &= ~DEVICE_FLUSH_GLOBAL;
	callers_listen(&c, 1, SERVICE);
	active = caller_connect(&c, 0, 1, SERVICE);
	ck_assert_int_eq(cm_qp_attr(active->id, &attr, &mask), 0);
	ck_assert_int_eq(attr.qp_access_flags, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
						       IBV_ACCESS_REMOTE_ATOMIC);
	callers_destroy(&c);
}
END_TEST

START_TEST(test_disconnect)
{
	struct callers c;
	struct caller *a, *b;

	callers_create(&c, NULL, 3);
	callers_listen(&c, 1, SERVICE);
	a = caller_connect(&c, 0, 1, SERVICE);
	world_run(&c.world, SECOND);
	b = caller_peer(a);
	/* Either side may begin. */
	a = _i ? b : a;
	b = caller_peer(a);
	a->count = b->count = 0;
	ck_assert_int_eq(cm_send_drep(a->id, world_now(&c.world)), EINVAL);
	ck_assert_int_eq(cm_send_dreq(a->id, world_now(&c.world)), 0);
	ck_assert_int_eq(cm_send_dreq(a->id, world_now(&c.world)), EINVAL);
	world_run(&c.world, MS);
	ck_assert_int_eq(cm_id_state(a->id), CM_STATE_TIMEWAIT);
	ck_assert_int_eq(cm_id_state(b->id), CM_STATE_TIMEWAIT);
	caller_expect(a, (int[]){CM_EVENT_DREP_RECEIVED, -1});
	caller_expect(b, (int[]){CM_EVENT_DREQ_RECEIVED, -1});
	/* The ACK timeout of 17: 512 ms. */
	world_run(&c.world, 510 * MS);
	ck_assert_int_eq(cm_id_state(a->id), CM_STATE_TIMEWAIT);
	world_run(&c.world, 2 * MS);
	ck_assert_int_eq(cm_id_state(a->id), CM_STATE_IDLE);
	ck_assert_int_eq(cm_id_state(b->id), CM_STATE_IDLE);
	caller_expect(a, (int[]){CM_EVENT_DREP_RECEIVED, CM_EVENT_TIMEWAIT_EXIT, -1});
	caller_expect(b, (int[]){CM_EVENT_DREQ_RECEIVED, CM_EVENT_TIMEWAIT_EXIT, -1});
	callers_destroy(&c);
}
END_TEST

/* Requests that come a moment before their listener aren't refused. */
START_TEST(test_pending_request)
{
	struct callers c;
	struct caller *a, *b;

	callers_create(&c, NULL, 5);
	a = caller_connect(&c, 0, 1, SERVICE);
	b = caller_resolve(&c, 0, 1, SERVICE + 1);
	world_run(&c.world, 10 * MS);
	caller_expect(a, (int[]){-1});
	callers_listen(&c, 1, SERVICE);
	callers_listen_datagram(&c, 1, SERVICE + 1);
	world_run(&c.world, MS);
	ck_assert_int_eq(cm_id_state(a->id), CM_STATE_ESTABLISHED);
	caller_expect(b, (int[]){CM_EVENT_SIDR_REP_RECEIVED, -1});
	ck_assert_int_eq(b->last.status, CM_SIDR_SUCCESS);
	/* Later than that, they are. */
	a = caller_connect(&c, 0, 1, SERVICE + 2);
	world_run(&c.world, 30 * MS);
	callers_listen(&c, 1, SERVICE + 2);
	world_run(&c.world, SECOND);
	caller_expect(a, (int[]){CM_EVENT_REJ_RECEIVED, -1});
	callers_destroy(&c);
}
END_TEST

START_TEST(test_no_listener)
{
	struct callers c;
	struct caller *a;

	callers_create(&c, NULL, 4);
	callers_listen(&c, 1, SERVICE);
	a = caller_connect(&c, 0, 1, SERVICE + 1);
	world_run(&c.world, SECOND);
	caller_expect(a, (int[]){CM_EVENT_REJ_RECEIVED, -1});
	ck_assert_int_eq(a->last.reason, CM_REJECT_INVALID_SERVICE_ID);
	ck_assert_int_eq(a->last.answered, CM_ANSWERED_REQ);
	ck_assert_uint_eq(a->last.local_id, 0);
	ck_assert_int_eq(cm_id_state(a->id), CM_STATE_IDLE);
	callers_destroy(&c);
}
END_TEST

START_TEST(test_consumer_reject)
{
	struct callers c;
	struct caller *a;

	callers_create(&c, NULL, 5);
	c.answer = ANSWER_REJECT;
	callers_listen(&c, 1, SERVICE);
	a = caller_connect(&c, 0, 1, SERVICE);
	world_run(&c.world, SECOND);
	caller_expect(a, (int[]){CM_EVENT_REJ_RECEIVED, -1});
	ck_assert_int_eq(a->last.reason, CM_REJECT_CONSUMER);
	ck_assert_str_eq((char *)a->data, "no");
	ck_assert_int_eq(a->last.private_length, 148);
	ck_assert_int_eq(cm_id_state(a->id), CM_STATE_IDLE);
	callers_destroy(&c);
}
END_TEST

START_TEST(test_resolve_service)
{
	struct callers c;
	struct caller *a;

	callers_create(&c, NULL, 6);
	callers_listen_datagram(&c, 1, SERVICE);
	a = caller_resolve(&c, 0, 1, SERVICE);
	world_run(&c.world, SECOND);
	caller_expect(a, (int[]){CM_EVENT_SIDR_REP_RECEIVED, -1});
	ck_assert_int_eq(a->last.status, CM_SIDR_SUCCESS);
	ck_assert_uint_eq(a->last.qpn, caller_peer(a)->qpn);
	ck_assert_uint_eq(a->last.qkey, SERVICE_QKEY);
	ck_assert_uint_eq(a->last.service_id, SERVICE);
	ck_assert_str_eq((char *)a->data, "welcome");
	ck_assert_str_eq((char *)caller_peer(a)->data, "please");
	ck_assert_int_eq(cm_id_state(a->id), CM_STATE_IDLE);
	ck_assert_int_eq(cm_id_state(caller_peer(a)->id), CM_STATE_IDLE);

	a = caller_resolve(&c, 0, 1, SERVICE + 1);
	world_run(&c.world, SECOND);
	caller_expect(a, (int[]){CM_EVENT_SIDR_REP_RECEIVED, -1});
	ck_assert_int_eq(a->last.status, CM_SIDR_UNSUPPORTED);
	/* Only a datagram listener answers, and only to datagrams. */
	a = caller_connect(&c, 0, 1, SERVICE);
	world_run(&c.world, SECOND);
	ck_assert_int_eq(a->last.reason, CM_REJECT_INVALID_SERVICE_ID);
	callers_destroy(&c);
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("cm");

	tcase_add_test(tcase, test_connect);
	tcase_add_test(tcase, test_attributes);
	tcase_add_test(tcase, test_attributes_without_flush);
	tcase_add_loop_test(tcase, test_disconnect, 0, 2);
	tcase_add_test(tcase, test_pending_request);
	tcase_add_test(tcase, test_no_listener);
	tcase_add_test(tcase, test_consumer_reject);
	tcase_add_test(tcase, test_resolve_service);
	return world_main("cm", (TCase *[]){tcase, NULL});
}
