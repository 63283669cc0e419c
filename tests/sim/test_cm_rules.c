/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The rest of the connection manager's rules: what QP 1 takes, listeners, slow
 * applications, lost RTUs, what is said when the process ends.
 */
#include "cm_peer.h"
#include "emu/cm/gsi.h"
#include "net/share/share.h"

static struct cm_peer_test t;

static void setup(void)
{
	cm_peer_create(&t);
}

static void teardown(void)
{
	cm_peer_destroy(&t);
}

/* --- QP 1 ------------------------------------------------------------------------------- */

static uint64_t counted(_Atomic uint64_t *counter)
{
	return atomic_load(counter);
}

/* IBA 9.6.1.4 and 13.4.2; a good one in between, that the test knows what it says. */
START_TEST(test_qp1_checks)
{
	struct counters *counters = t.peer.node->hca->counters;
	struct cm_message req = cm_peer_req(&t);
	uint8_t mad[MAD_LENGTH + 4] = {0};
	struct peer_packet good = {
		.opcode = WIRE_UD | WIRE_SEND_ONLY,
		.qpn = QPN_GSI,
		.qkey = QKEY_GSI,
		.source_qp = QPN_GSI,
		.length = MAD_LENGTH,
		.payload = mad,
	};
	struct {
		struct peer_packet packet;
		_Atomic uint64_t *counter;
	} bad[] = {
		{good, &counters->bad_qkey},	    {good, &counters->bad_pkey},
		{good, &counters->dropped_packets}, {good, &counters->dropped_packets},
		{good, &counters->dropped_packets}, {good, &counters->dropped_packets},
	};

	bad[0].packet.qkey = 0x80010001;
	bad[1].packet.pkey = 0x7ffe;
	bad[2].packet.length = MAD_LENGTH - 4;
	bad[3].packet.length = MAD_LENGTH + 4;
	bad[4].packet.length = MAD_LENGTH - 1;
	bad[5].packet.opcode = WIRE_UD | WIRE_SEND_ONLY_IMM;
	cm_message_encode(&req, mad);
	for (unsigned int i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		uint64_t before = counted(bad[i].counter);

		peer_send(&t.peer, &bad[i].packet);
		world_run(&t.peer.world, 2000);
		ck_assert_uint_eq(counted(bad[i].counter), before + 1);
		cm_peer_hear_nothing(&t, 10000);
	}
	/* MADs of another class are dropped. */
	mad[1] = 3;
	peer_send(&t.peer, &good);
	cm_peer_hear_nothing(&t, 10000);
	mad[1] = MAD_CLASS_CM;
	peer_send(&t.peer, &good);
	cm_peer_hear(&t, CM_REJ);
	/* The PSN of QP 1 goes on. */
	peer_send(&t.peer, &good);
	cm_peer_hear(&t, CM_REJ);
	ck_assert_uint_eq(atomic_load(&t.peer.node->hca->gsi_psn), 2);
}
END_TEST

/* --- which state allows what --------------------------------------------------------------- */

START_TEST(test_wrong_state)
{
	const struct cm_reply reply = {.qpn = 1};
	const struct cm_service_reply service = {.qpn = 1};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT};
	uint64_t now = cm_peer_now(&t);
	int mask;

	ck_assert_int_eq(cm_id_create(t.cm, NULL, &t.id), 0);
	ck_assert_int_eq(cm_send_rep(t.id, &reply, now), EINVAL);
	ck_assert_int_eq(cm_send_rtu(t.id, now), EINVAL);
	ck_assert_int_eq(cm_send_rej(t.id, CM_REJECT_CONSUMER, NULL, 0, now), EINVAL);
	ck_assert_int_eq(cm_send_mra(t.id, 1, now), EINVAL);
	ck_assert_int_eq(cm_send_dreq(t.id, now), EINVAL);
	ck_assert_int_eq(cm_send_drep(t.id, now), EINVAL);
	ck_assert_int_eq(cm_send_sidr_rep(t.id, &service, now), EINVAL);
	ck_assert_int_eq(cm_notify(t.id), EINVAL);
	ck_assert_int_eq(cm_qp_attr(t.id, &attr, &mask), EINVAL);
	cm_id_destroy(t.id, now);

	cm_peer_active(&t, CM_STATE_REQ_SENT);
	ck_assert_int_eq(cm_qp_attr(t.id, &attr, &mask), 0);
	attr.qp_state = IBV_QPS_RTR;
	ck_assert_int_eq(cm_qp_attr(t.id, &attr, &mask), EINVAL);
	attr.qp_state = IBV_QPS_ERR;
	ck_assert_int_eq(cm_qp_attr(t.id, &attr, &mask), EINVAL);
	ck_assert_int_eq(cm_send_req(t.id, &(struct cm_request){0}, now), EINVAL);
	ck_assert_int_eq(cm_send_sidr_req(t.id, &t.peer.path, 1, NULL, 0, now), EINVAL);
	ck_assert_int_eq(cm_id_listen(t.id, &(struct cm_listen){.service_id = 1}), EINVAL);
	ck_assert_int_eq(cm_notify(t.id), EINVAL);
}
END_TEST

START_TEST(test_private_data_too_long)
{
	static const uint8_t data[CM_PRIVATE_MAX];
	struct cm_request request = {.private_data = data, .private_length = 93};
	struct cm_reply reply = {.private_data = data, .private_length = 197};
	struct cm_service_reply service = {.private_data = data, .private_length = 137};
	struct cm_message question = {
		.attribute = CM_SIDR_REQ, .local_id = 9, .service_id = CM_PEER_SERVICE};
	uint64_t now = cm_peer_now(&t);

	ck_assert_int_eq(cm_id_create(t.cm, NULL, &t.id), 0);
	ck_assert_int_eq(cm_send_req(t.id, &request, now), EINVAL);
	ck_assert_int_eq(cm_send_sidr_req(t.id, &t.peer.path, 1, data, 217, now), EINVAL);
	ck_assert_int_eq(cm_id_state(t.id), CM_STATE_IDLE);
	cm_id_destroy(t.id, now);

	cm_peer_passive(&t, CM_STATE_REQ_RECEIVED);
	ck_assert_int_eq(cm_send_rep(t.id, &reply, now), EINVAL);
	reply.private_length = 196;
	ck_assert_int_eq(cm_send_rep(t.id, &reply, now), 0);
	cm_id_destroy(t.id, now);
	cm_id_destroy(t.listener, now);

	cm_peer_listen(&t, true);
	cm_peer_hear(&t, CM_REP);
	cm_peer_hear(&t, CM_REJ);
	cm_peer_say(&t, &question);
	cm_peer_event(&t, CM_EVENT_SIDR_REQ_RECEIVED);
	ck_assert_int_eq(cm_send_sidr_rep(t.id, &service, now), EINVAL);
	service.private_length = 136;
	ck_assert_int_eq(cm_send_sidr_rep(t.id, &service, now), 0);
	cm_peer_hear(&t, CM_SIDR_REP);
}
END_TEST

/* --- listeners ------------------------------------------------------------------------------ */

START_TEST(test_listeners)
{
	const union ibv_gid here = t.peer.path.destination, there = t.peer.path.source;
	const struct {
		struct cm_listen first, second;
		int error;
	} cases[] = {
		{{.service_id = 1, .ipv4 = true}, {.service_id = 2, .ipv4 = true}, 0},
		{{.service_id = 1, .ipv4 = true}, {.service_id = 1, .ipv6 = true}, 0},
		{{.service_id = 1, .ipv4 = true}, {.service_id = 1, .ipv4 = true}, EADDRINUSE},
		{{.service_id = 1, .ipv4 = true, .ipv6 = true},
		 {.service_id = 1, .ipv6 = true},
		 EADDRINUSE},
		{{.service_id = 1, .gid = here}, {.service_id = 1, .gid = there}, 0},
		{{.service_id = 1, .gid = here}, {.service_id = 1, .gid = here}, EADDRINUSE},
		{{.service_id = 1, .gid = here}, {.service_id = 1, .ipv4 = true}, EADDRINUSE},
		{{.service_id = 1, .ipv4 = true}, {.service_id = 1, .gid = here}, EADDRINUSE},
		{{.service_id = 1, .gid = here}, {.service_id = 1, .ipv6 = true}, 0},
		{{.service_id = 1, .ipv6 = true}, {.service_id = 1, .gid = here}, 0},
	};

	for (unsigned int i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct cm_id *first, *second;

		ck_assert_int_eq(cm_id_create(t.cm, NULL, &first), 0);
		ck_assert_int_eq(cm_id_create(t.cm, NULL, &second), 0);
		ck_assert_int_eq(cm_id_listen(first, &cases[i].first), 0);
		ck_assert_int_eq(cm_id_listen(first, &cases[i].second), EINVAL);
		ck_assert_int_eq(cm_id_listen(second, &cases[i].second), cases[i].error);
		/* What a dead listener had is free. */
		cm_id_destroy(first, cm_peer_now(&t));
		if (cases[i].error)
			ck_assert_int_eq(cm_id_listen(second, &cases[i].second), 0);
		cm_id_destroy(second, cm_peer_now(&t));
	}
}
END_TEST

START_TEST(test_listener_addresses)
{
	const struct {
		struct cm_listen listen;
		bool taken;
	} cases[] = {
		{{.ipv4 = true}, true},
		{{.ipv6 = true}, false},
		{{.gid = t.peer.path.destination}, true},
		{{.gid = t.peer.path.source}, false},
		{{.ipv4 = true, .datagram = true}, false},
	};
	struct cm_message req = cm_peer_req(&t);

	for (unsigned int i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct cm_listen listen = cases[i].listen;

		listen.service_id = CM_PEER_SERVICE;
		ck_assert_int_eq(cm_id_create(t.cm, NULL, &t.listener), 0);
		ck_assert_int_eq(cm_id_listen(t.listener, &listen), 0);
		req.local_id++;
		req.qpn++;
		cm_peer_say(&t, &req);
		cm_peer_event(&t, cases[i].taken ? CM_EVENT_REQ_RECEIVED : -1);
		if (cases[i].taken) {
			ck_assert_ptr_eq(t.last.listener, t.listener);
			cm_id_destroy(t.id, cm_peer_now(&t));
			t.id = NULL;
		}
		cm_peer_hear(&t, CM_REJ);
		ck_assert_int_eq(t.heard.reason, cases[i].taken ? CM_REJECT_CONSUMER
								: CM_REJECT_INVALID_SERVICE_ID);
		cm_id_destroy(t.listener, cm_peer_now(&t));
		t.listener = NULL;
	}
}
END_TEST

static void destroy_listener(struct node *node, struct cm_event *event)
{
	t.count++;
	cm_queue_destroy_id(&node->cm_queue, event->id, cm_peer_now(&t));
	cm_queue_destroy_id(&node->cm_queue, event->listener, cm_peer_now(&t));
	t.listener = NULL;
}

/* From within the first of three requests' events, which also destroys its own id. */
START_TEST(test_listener_goes)
{
	struct cm_message req = cm_peer_req(&t);

	cm_peer_listen(&t, false);
	t.peer.node->connection = destroy_listener;
	for (unsigned int i = 0; i < 3; i++) {
		req.local_id = 1 + i;
		req.qpn = 100 + i;
		cm_peer_post(&t, &req);
	}
	for (unsigned int i = 0; i < 3; i++) {
		cm_peer_hear(&t, CM_REJ);
		ck_assert_int_eq(t.heard.reason, CM_REJECT_CONSUMER);
		ck_assert_uint_eq(t.heard.remote_id, 1 + i);
	}
	ck_assert_uint_eq(t.count, 1);
	req.local_id = 9;
	cm_peer_say(&t, &req);
	cm_peer_hear(&t, CM_REJ);
	ck_assert_int_eq(t.heard.reason, CM_REJECT_INVALID_SERVICE_ID);
}
END_TEST

/* For one that comes early another listener's beginning is no reason to be refused sooner. */
START_TEST(test_listener_of_others)
{
	struct cm_message req = cm_peer_req(&t), other = req;
	uint64_t start = cm_peer_now(&t);

	other.service_id++;
	other.local_id++;
	other.qpn++;
	cm_peer_say(&t, &other);
	cm_peer_say(&t, &req);
	cm_peer_listen(&t, false);
	world_run(&t.peer.world, MS);
	cm_peer_event(&t, CM_EVENT_REQ_RECEIVED);
	ck_assert_uint_ge(cm_peer_await(&t, CM_REJ, SECOND) - start, 20 * MS);
	ck_assert_uint_eq(t.heard.remote_id, other.local_id);
	ck_assert_int_eq(t.heard.reason, CM_REJECT_INVALID_SERVICE_ID);
}
END_TEST

/* A peer that has given up meanwhile isn't connected to; others can't give up for it. */
START_TEST(test_given_up_without_listener)
{
	static const uint8_t guid[8] = {0x02, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77};
	struct cm_message req = cm_peer_req(&t), rej = cm_peer_message(&t, CM_REJ);

	rej.answered = CM_ANSWERED_OTHER;
	rej.reason = CM_REJECT_TIMEOUT;
	rej.info_length = sizeof(guid);
	memcpy(rej.info, guid, sizeof(guid));
	cm_peer_say(&t, &req);
	req.local_id++;
	req.qpn++;
	cm_peer_say(&t, &req);
	cm_peer_say(&t, &rej);
	rej.local_id = req.local_id;
	t.peer.path.source.raw[15] ^= 1;
	cm_peer_say(&t, &rej);
	t.peer.path.source.raw[15] ^= 1;
	cm_peer_listen(&t, false);
	world_run(&t.peer.world, MS);
	cm_peer_event(&t, CM_EVENT_REQ_RECEIVED);
	ck_assert_uint_eq(t.id->remote_id, req.local_id);
	cm_peer_hear_nothing(&t, SECOND);
}
END_TEST

/* No more of them are kept than so many. */
START_TEST(test_too_many_without_listener)
{
	struct cm_message req = cm_peer_req(&t);

	for (unsigned int i = 0; i <= 256; i++) {
		req.local_id++;
		req.qpn++;
		cm_peer_post(&t, &req);
	}
	cm_peer_await(&t, CM_REJ, MS);
	ck_assert_uint_eq(t.heard.remote_id, req.local_id);
	cm_peer_hear_nothing(&t, 10 * MS);
}
END_TEST

/* Ask a peer that doesn't listen. Returns its answer. */
static struct cm_message ask_non_listener(void)
{
	struct cm_message rej;

	cm_peer_active(&t, CM_STATE_REQ_SENT);
	rej = cm_peer_message(&t, CM_REJ);
	rej.local_id = 0;
	rej.reason = CM_REJECT_INVALID_SERVICE_ID;
	return rej;
}

/* A peer that refuses at once may be about to listen: it is asked again for a moment. */
START_TEST(test_retry_after_reject)
{
	const struct cm_message rej = ask_non_listener();

	for (unsigned int i = 0; i < 5; i++) {
		cm_peer_say(&t, &rej);
		cm_peer_event(&t, -1);
		cm_peer_hear(&t, CM_REQ);
	}
	world_run(&t.peer.world, 20000000);
	cm_peer_say(&t, &rej);
	cm_peer_event(&t, CM_EVENT_REJ_RECEIVED);
	ck_assert_int_eq(cm_id_state(t.id), CM_STATE_IDLE);
}
END_TEST

/* Those that were refused too early don't count as copies: a peer that is silent then gets all. */
START_TEST(test_silence_after_reject)
{
	const struct cm_message rej = ask_non_listener();

	for (unsigned int i = 0; i < 5; i++) {
		cm_peer_say(&t, &rej);
		cm_peer_hear(&t, CM_REQ);
	}
	for (unsigned int i = 0; i < 15; i++)
		cm_peer_await(&t, CM_REQ, 10 * SECOND);
	cm_peer_await(&t, CM_REJ, 10 * SECOND);
	cm_peer_event(&t, CM_EVENT_REQ_ERROR);
}
END_TEST

/* --- slowness ------------------------------------------------------------------------------- */

/* An MRA stops the copies for as long as it says; then each of them waits as long. */
START_TEST(test_wait_for_slow_peer)
{
	struct cm_message mra;
	uint64_t start;

	if (_i)
		cm_peer_passive(&t, CM_STATE_REP_SENT);
	else
		cm_peer_active(&t, CM_STATE_REQ_SENT);
	mra = cm_peer_message(&t, CM_MRA);
	mra.service_timeout = 23;
	/* Not to what we wait for. */
	mra.answered = _i ? CM_ANSWERED_REQ : CM_ANSWERED_REP;
	cm_peer_say(&t, &mra);
	cm_peer_event(&t, -1);
	mra.answered = _i ? CM_ANSWERED_REP : CM_ANSWERED_REQ;
	cm_peer_say(&t, &mra);
	cm_peer_event(&t, CM_EVENT_MRA_RECEIVED);
	ck_assert_int_eq(cm_id_state(t.id),
			 _i ? CM_STATE_MRA_REP_RECEIVED : CM_STATE_MRA_REQ_RECEIVED);
	start = cm_peer_now(&t);
	cm_peer_say(&t, &mra);
	cm_peer_event(&t, -1);
	/* 32.8 s and the ACK timeout of 512 ms. */
	cm_peer_hear_nothing(&t, 33200 * MS);
	ck_assert_uint_le(cm_peer_await(&t, _i ? CM_REP : CM_REQ, SECOND) - start, 33400 * MS);
	cm_peer_say(&t, &mra);
	cm_peer_event(&t, -1);
	cm_peer_hear_nothing(&t, 33200 * MS);
	cm_peer_await(&t, _i ? CM_REP : CM_REQ, SECOND);
	mra = cm_peer_message(&t, _i ? CM_RTU : CM_REP);
	cm_peer_say(&t, &mra);
	cm_peer_event(&t, _i ? CM_EVENT_RTU_RECEIVED : CM_EVENT_REP_RECEIVED);
}
END_TEST

/* Which message it is that the application takes its time to answer. */
START_TEST(test_slow_application)
{
	if (_i)
		cm_peer_passive(&t, CM_STATE_MRA_REQ_SENT);
	else
		cm_peer_active(&t, CM_STATE_MRA_REP_SENT);
	ck_assert_int_eq(t.heard.answered, _i ? CM_ANSWERED_REQ : CM_ANSWERED_REP);
}
END_TEST

/* --- the RTU that doesn't come ---------------------------------------------------------------- */

START_TEST(test_notify)
{
	struct cm_message rtu;

	cm_peer_passive(&t, _i ? CM_STATE_MRA_REP_RECEIVED : CM_STATE_REP_SENT);
	ck_assert_int_eq(cm_notify(t.id), 0);
	ck_assert_int_eq(cm_id_state(t.id), CM_STATE_ESTABLISHED);
	cm_queue_deliver(&t.peer.node->cm_queue);
	cm_peer_event(&t, CM_EVENT_USER_ESTABLISHED);
	ck_assert_int_eq(cm_notify(t.id), EISCONN);
	rtu = cm_peer_message(&t, CM_RTU);
	cm_peer_say(&t, &rtu);
	cm_peer_event(&t, -1);
	cm_peer_hear_nothing(&t, 100 * SECOND);
}
END_TEST

/* --- what isn't known ----------------------------------------------------------------------- */

START_TEST(test_unknown)
{
	static const struct {
		uint16_t attribute, answer;
	} cases[] = {
		{CM_MRA, 0},	    {CM_REJ, 0},  {CM_REP, 0},	    {CM_RTU, 0},
		{CM_DREQ, CM_DREP}, {CM_DREP, 0}, {CM_SIDR_REP, 0}, {CM_SIDR_REQ, CM_SIDR_REP},
		{CM_LAP, CM_APR},   {CM_APR, 0},  {CM_REQ, CM_REJ},
	};

	for (unsigned int i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct cm_message message = cm_peer_message(&t, cases[i].attribute);

		message.remote_id = cases[i].attribute == CM_REQ ? 0 : 0x1234;
		message.transaction = 0x99;
		message.path[0].remote_gid = t.peer.path.destination;
		cm_peer_say(&t, &message);
		if (!cases[i].answer) {
			cm_peer_hear_nothing(&t, 10000);
			continue;
		}
		cm_peer_hear(&t, cases[i].answer);
		ck_assert_uint_eq(t.heard.transaction, 0x99);
		if (cases[i].answer != CM_SIDR_REP) {
			ck_assert_uint_eq(t.heard.remote_id, CM_PEER_ID);
			ck_assert_uint_eq(t.heard.local_id, message.remote_id);
		}
	}
	cm_peer_event(&t, -1);
}
END_TEST

/* The comm id of another lease isn't this connection's, though it ends with the same bits. */
START_TEST(test_another_lease)
{
	struct cm_message dreq;

	cm_peer_active(&t, CM_STATE_ESTABLISHED);
	dreq = cm_peer_message(&t, CM_DREQ);
	dreq.remote_id += SHARE_COMM_IDS;
	cm_peer_say(&t, &dreq);
	cm_peer_hear(&t, CM_DREP);
	cm_peer_event(&t, -1);
	ck_assert_int_eq(cm_id_state(t.id), CM_STATE_ESTABLISHED);
}
END_TEST

START_TEST(test_unreliable_connection)
{
	struct cm_message req = cm_peer_req(&t);
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR};
	int mask;

	cm_peer_listen(&t, false);
	req.transport = CM_TRANSPORT_UC;
	cm_peer_say(&t, &req);
	cm_peer_event(&t, CM_EVENT_REQ_RECEIVED);
	ck_assert_int_eq(cm_qp_attr(t.id, &attr, &mask), 0);
	ck_assert_int_eq(mask, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				       IBV_QP_RQ_PSN);
	attr.qp_state = IBV_QPS_RTS;
	ck_assert_int_eq(cm_qp_attr(t.id, &attr, &mask), 0);
	ck_assert_int_eq(mask, IBV_QP_STATE | IBV_QP_SQ_PSN);
	ck_assert_uint_eq(attr.sq_psn, req.starting_psn);
}
END_TEST

/* No READs of the peer's need no right to them; an ACK timeout of 0 would be without end. */
START_TEST(test_little_is_asked_for)
{
	struct cm_message req = cm_peer_req(&t);
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT};
	int mask;

	cm_peer_listen(&t, false);
	req.initiator_depth = 0;
	req.path[0].ack_timeout = 0;
	cm_peer_say(&t, &req);
	cm_peer_event(&t, CM_EVENT_REQ_RECEIVED);
	ck_assert_int_eq(cm_qp_attr(t.id, &attr, &mask), 0);
	ck_assert_uint_eq(attr.qp_access_flags, IBV_ACCESS_REMOTE_WRITE);
	attr.qp_state = IBV_QPS_RTS;
	ck_assert_int_eq(cm_qp_attr(t.id, &attr, &mask), 0);
	ck_assert_int_eq(attr.timeout, 1);
}
END_TEST

/* The time of an ACK is the way's, and what the peer's CA takes, which its REP says. */
START_TEST(test_slow_ca)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS};
	struct cm_message rep;
	int mask;

	cm_peer_active(&t, CM_STATE_REQ_SENT);
	rep = cm_peer_message(&t, CM_REP);
	rep.ack_delay = 20;
	cm_peer_say(&t, &rep);
	cm_peer_event(&t, CM_EVENT_REP_RECEIVED);
	ck_assert_int_eq(cm_qp_attr(t.id, &attr, &mask), 0);
	ck_assert_int_eq(attr.timeout, 20);
}
END_TEST

/* A service that is refused has no QP (IBA 12.11). */
START_TEST(test_refused_service)
{
	const struct cm_service_reply reply = {.status = CM_SIDR_REJECTED, .qpn = 5};
	const struct cm_message question = {
		.attribute = CM_SIDR_REQ, .local_id = 9, .service_id = CM_PEER_SERVICE};

	cm_peer_listen(&t, true);
	cm_peer_say(&t, &question);
	cm_peer_event(&t, CM_EVENT_SIDR_REQ_RECEIVED);
	ck_assert_int_eq(cm_send_sidr_rep(t.id, &reply, cm_peer_now(&t)), 0);
	cm_peer_hear(&t, CM_SIDR_REP);
	ck_assert_int_eq(t.heard.status, CM_SIDR_REJECTED);
	ck_assert_uint_eq(t.heard.qpn, 0);
}
END_TEST

/* Linux's arithmetic, by its own examples. */
START_TEST(test_ack_timeout)
{
	ck_assert_int_eq(cm_ack_timeout(15, 16), 17);
	ck_assert_int_eq(cm_ack_timeout(16, 16), 18);
	ck_assert_int_eq(cm_ack_timeout(15, 18), 19);
	ck_assert_int_eq(cm_ack_timeout(20, 16), 20);
	ck_assert_int_eq(cm_ack_timeout(18, 16), 19);
	ck_assert_int_eq(cm_ack_timeout(31, 31), 31);
	ck_assert_int_eq(cm_ack_timeout(0, 0), 2);
}
END_TEST

/* --- the process ends ------------------------------------------------------------------ */

/* A message that no timer will repeat, since the process ends, is sent three times. */
static const struct {
	enum cm_state state;
	bool active;
	uint16_t attribute;
	uint16_t reason;
	unsigned int copies;
} exit_messages[] = {
	{CM_STATE_REQ_SENT, true, CM_REJ, CM_REJECT_TIMEOUT, 1},
	{CM_STATE_REQ_RECEIVED, false, CM_REJ, CM_REJECT_CONSUMER, 1},
	{CM_STATE_REP_SENT, false, CM_REJ, CM_REJECT_CONSUMER, 1},
	{CM_STATE_ESTABLISHED, true, CM_DREQ, 0, 3},
	{CM_STATE_ESTABLISHED, false, CM_DREQ, 0, 3},
	{CM_STATE_DREQ_SENT, false, CM_DREQ, 0, 2},
	{CM_STATE_DREQ_RECEIVED, true, CM_DREP, 0, 3},
};

START_TEST(test_flush_on_exit)
{
	if (exit_messages[_i].active)
		cm_peer_active(&t, exit_messages[_i].state);
	else
		cm_peer_passive(&t, exit_messages[_i].state);
	hca_flush_on_exit(t.peer.node->hca, cm_peer_now(&t));
	for (unsigned int i = 0; i < exit_messages[_i].copies; i++) {
		cm_peer_hear(&t, exit_messages[_i].attribute);
		ck_assert_uint_eq(t.heard.reason, exit_messages[_i].reason);
	}
	cm_peer_hear_nothing(&t, 10000);
}
END_TEST

static bool lock_is_lost(pthread_mutex_t *lock)
{
	return false;
}

/* The thread that has the connection manager's lock is gone: the process ends without a DREQ. */
START_TEST(flush_gives_up_on_a_lost_lock)
{
	struct hca_host host = world_host;

	host.lock_at_exit = lock_is_lost;
	cm_peer_active(&t, CM_STATE_ESTABLISHED);
	t.peer.node->hca->host = &host;
	hca_flush_on_exit(t.peer.node->hca, cm_peer_now(&t));
	t.peer.node->hca->host = &world_host;
	cm_peer_hear_nothing(&t, 10000);
}
END_TEST

int main(void)
{
	const int words = sizeof(exit_messages) / sizeof(exit_messages[0]);
	TCase *tcase = tcase_create("cm_rules");

	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_add_test(tcase, test_qp1_checks);
	tcase_add_test(tcase, test_wrong_state);
	tcase_add_test(tcase, test_private_data_too_long);
	tcase_add_test(tcase, test_listeners);
	tcase_add_test(tcase, test_listener_addresses);
	tcase_add_test(tcase, test_listener_goes);
	tcase_add_test(tcase, test_listener_of_others);
	tcase_add_test(tcase, test_given_up_without_listener);
	tcase_add_test(tcase, test_too_many_without_listener);
	tcase_add_test(tcase, test_retry_after_reject);
	tcase_add_test(tcase, test_silence_after_reject);
	tcase_add_loop_test(tcase, test_wait_for_slow_peer, 0, 2);
	tcase_add_loop_test(tcase, test_slow_application, 0, 2);
	tcase_add_loop_test(tcase, test_notify, 0, 2);
	tcase_add_test(tcase, test_unknown);
	tcase_add_test(tcase, test_another_lease);
	tcase_add_test(tcase, test_unreliable_connection);
	tcase_add_test(tcase, test_little_is_asked_for);
	tcase_add_test(tcase, test_slow_ca);
	tcase_add_test(tcase, test_refused_service);
	tcase_add_test(tcase, test_ack_timeout);
	tcase_add_loop_test(tcase, test_flush_on_exit, 0, words);
	tcase_add_test(tcase, flush_gives_up_on_a_lost_lock);
	return world_main("cm_rules", (TCase *[]){tcase, NULL});
}
