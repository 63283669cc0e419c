/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connections of XRC: what their messages say of the QPs (tables 106 and 110, Annex A14), and what
 * the QPs get of it. Initiators connect, targets accept.
 */
#include "cm_peer.h"

#define INITIATOR 0x77
#define TARGET 0x99

static struct cm_peer_test t;

static void setup(void)
{
	cm_peer_create(&t);
}

static void teardown(void)
{
	cm_peer_destroy(&t);
}

static int mask_of(enum ibv_qp_state state, struct ibv_qp_attr *attr)
{
	int mask;

	attr->qp_state = state;
	ck_assert_int_eq(cm_qp_attr(t.id, attr, &mask), 0);
	return mask;
}

START_TEST(test_initiator)
{
	const struct cm_request request = {
		.path = {.source = t.peer.path.destination,
			 .destination = t.peer.path.source,
			 .hop_limit = 64},
		.service_id = CM_PEER_SERVICE,
		.qpn = INITIATOR,
		.qp_type = IBV_QPT_XRC_SEND,
		.responder_resources = 3,
		.initiator_depth = 4,
		.retry_count = 5,
		.rnr_retry_count = 6,
		.srq = 1,
		.mtu = IBV_MTU_1024,
		.packet_life_time = CM_PACKET_LIFE_TIME,
	};
	struct cm_message rep;
	struct ibv_qp_attr attr;
	int mask;

	ck_assert_int_eq(cm_id_create(t.cm, NULL, &t.id), 0);
	ck_assert_int_eq(cm_send_req(t.id, &request, cm_peer_now(&t)), 0);
	cm_peer_hear(&t, CM_REQ);
	ck_assert_uint_eq(t.heard.transport, CM_TRANSPORT_EXTENDED);
	ck_assert_uint_eq(t.heard.extended_transport, 1);
	ck_assert_uint_eq(t.heard.qpn, INITIATOR);
	ck_assert_uint_eq(t.heard.initiator_depth, 4);
	/* It responds to nothing. */
	ck_assert_uint_eq(t.heard.responder_resources, 0);
	ck_assert_uint_eq(t.heard.retry_count, 0);
	ck_assert_uint_eq(t.heard.rnr_retry_count, 0);
	ck_assert_uint_eq(t.heard.srq, 0);

	rep = cm_peer_message(&t, CM_REP);
	rep.qpn = 0;
	rep.eecn = TARGET;
	rep.srq = 1;
	cm_peer_say(&t, &rep);
	cm_peer_event(&t, CM_EVENT_REP_RECEIVED);
	ck_assert_uint_eq(t.id->terms.remote_qpn, TARGET);
	mask = mask_of(IBV_QPS_RTR, &attr);
	ck_assert_uint_eq(attr.dest_qp_num, TARGET);
	ck_assert_int_eq(mask, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				       IBV_QP_RQ_PSN);
	mask = mask_of(IBV_QPS_RTS, &attr);
	ck_assert_int_eq(mask, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
				       IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
	ck_assert_uint_eq(attr.sq_psn, rep.starting_psn);
	ck_assert_uint_eq(attr.max_rd_atomic, rep.responder_resources);
	ck_assert_uint_eq(attr.retry_cnt, 5);
	ck_assert_uint_eq(attr.rnr_retry, rep.rnr_retry_count);
	ck_assert_int_eq(cm_send_rtu(t.id, cm_peer_now(&t)), 0);
	cm_peer_hear(&t, CM_RTU);
	/* A DREQ names the target. */
	ck_assert_int_eq(cm_send_dreq(t.id, cm_peer_now(&t)), 0);
	cm_peer_hear(&t, CM_DREQ);
	ck_assert_uint_eq(t.heard.qpn, TARGET);
}
END_TEST

static struct cm_message initiators_req(void)
{
	struct cm_message req = cm_peer_req(&t);

	req.transport = CM_TRANSPORT_EXTENDED;
	req.extended_transport = 1;
	req.responder_resources = 0;
	req.initiator_depth = 4;
	return req;
}

static const struct cm_reply target = {
	.qpn = TARGET,
	.responder_resources = 2,
	.initiator_depth = 1,
	.rnr_retry_count = 4,
};

START_TEST(test_target)
{
	struct cm_message req = initiators_req(), dreq;
	struct ibv_qp_attr attr;
	int mask;

	cm_peer_listen(&t, false);
	cm_peer_say(&t, &req);
	cm_peer_event(&t, CM_EVENT_REQ_RECEIVED);
	ck_assert_int_eq(cm_req_qp_type(&t.last.message), IBV_QPT_XRC_RECV);
	mask = mask_of(IBV_QPS_RTR, &attr);
	ck_assert_uint_eq(attr.dest_qp_num, req.qpn);
	ck_assert_int_eq(mask, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				       IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				       IBV_QP_MIN_RNR_TIMER);
	ck_assert_uint_eq(attr.max_dest_rd_atomic, 4);
	mask = mask_of(IBV_QPS_RTS, &attr);
	ck_assert_int_eq(mask, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT);

	ck_assert_int_eq(cm_send_rep(t.id, &target, cm_peer_now(&t)), 0);
	cm_peer_hear(&t, CM_REP);
	ck_assert_uint_eq(t.heard.qpn, 0);
	ck_assert_uint_eq(t.heard.eecn, TARGET);
	ck_assert_uint_eq(t.heard.srq, 1);
	ck_assert_uint_eq(t.heard.responder_resources, 2);
	ck_assert_uint_eq(t.heard.initiator_depth, 0);
	ck_assert_uint_eq(t.heard.rnr_retry_count, 4);
	dreq = cm_peer_message(&t, CM_DREQ);
	ck_assert_uint_eq(dreq.qpn, TARGET);
	cm_peer_say(&t, &dreq);
	cm_peer_event(&t, CM_EVENT_DREQ_RECEIVED);
}
END_TEST

/* Its id is destroyed: the connection goes on, and ends when the initiator says so. */
START_TEST(test_target_without_id)
{
	struct cm_message req = initiators_req(), rtu, dreq;

	cm_peer_listen(&t, false);
	cm_peer_say(&t, &req);
	cm_peer_event(&t, CM_EVENT_REQ_RECEIVED);
	ck_assert_int_eq(cm_send_rep(t.id, &target, cm_peer_now(&t)), 0);
	cm_peer_hear(&t, CM_REP);
	rtu = cm_peer_message(&t, CM_RTU);
	dreq = cm_peer_message(&t, CM_DREQ);
	cm_peer_say(&t, &rtu);
	cm_peer_event(&t, CM_EVENT_RTU_RECEIVED);
	cm_id_destroy(t.id, cm_peer_now(&t));
	t.id = NULL;
	cm_peer_hear_nothing(&t, 100 * SECOND);
	cm_peer_say(&t, &dreq);
	cm_peer_hear(&t, CM_DREP);
	cm_peer_event(&t, -1);
}
END_TEST

/* Types that there are no QPs of. */
START_TEST(test_other_transports)
{
	struct cm_message req = initiators_req();

	req.extended_transport = 2;
	ck_assert_int_eq(cm_req_qp_type(&req), -1);
	req.transport = CM_TRANSPORT_RD;
	ck_assert_int_eq(cm_req_qp_type(&req), -1);
	req.transport = CM_TRANSPORT_RC;
	ck_assert_int_eq(cm_req_qp_type(&req), IBV_QPT_RC);
	req.transport = CM_TRANSPORT_UC;
	ck_assert_int_eq(cm_req_qp_type(&req), IBV_QPT_UC);
}
END_TEST

/* The QP of an initiator that the peer has forgotten is recognised, and that of a target. */
START_TEST(test_stale)
{
	struct cm_message req = initiators_req(), again = req;

	cm_peer_listen(&t, false);
	cm_peer_say(&t, &req);
	cm_peer_event(&t, CM_EVENT_REQ_RECEIVED);
	again.local_id++;
	cm_peer_say(&t, &again);
	cm_peer_hear(&t, CM_REJ);
	ck_assert_uint_eq(t.heard.reason, CM_REJECT_STALE);
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("cm_xrc");

	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_add_test(tcase, test_initiator);
	tcase_add_test(tcase, test_target);
	tcase_add_test(tcase, test_target_without_id);
	tcase_add_test(tcase, test_other_transports);
	tcase_add_test(tcase, test_stale);
	return world_main("cm_xrc", (TCase *[]){tcase, NULL});
}
