/* SPDX-License-Identifier: BSD-2-Clause */
/* The connection manager towards a peer that does everything wrong that it can: cm_peer.h. */
#include "cm_peer.h"

static struct cm_peer_test t;

static void setup(void)
{
	cm_peer_create(&t);
}

static void teardown(void)
{
	cm_peer_destroy(&t);
}

static const struct {
	bool passive;
	enum cm_state state;
} states[] = {
	{false, CM_STATE_REQ_SENT},	 {false, CM_STATE_MRA_REQ_RECEIVED},
	{false, CM_STATE_REP_RECEIVED},	 {false, CM_STATE_MRA_REP_SENT},
	{false, CM_STATE_ESTABLISHED},	 {false, CM_STATE_DREQ_SENT},
	{false, CM_STATE_DREQ_RECEIVED}, {false, CM_STATE_TIMEWAIT},
	{true, CM_STATE_REQ_RECEIVED},	 {true, CM_STATE_MRA_REQ_SENT},
	{true, CM_STATE_REP_SENT},	 {true, CM_STATE_MRA_REP_RECEIVED},
	{true, CM_STATE_ESTABLISHED},	 {true, CM_STATE_DREQ_SENT},
	{true, CM_STATE_DREQ_RECEIVED},	 {true, CM_STATE_TIMEWAIT},
};
#define STATES ((int)(sizeof(states) / sizeof(states[0])))

static void enter(int i)
{
	if (states[i].passive)
		cm_peer_passive(&t, states[i].state);
	else
		cm_peer_active(&t, states[i].state);
	ck_assert_int_eq(cm_id_state(t.id), states[i].state);
}

/* --- what is sent ----------------------------------------------------------------------- */

/* As Linux fills them in (IBA 12.7 leaves much of it to the sender). */
START_TEST(test_req)
{
	const struct cm_message *req = &t.heard;

	cm_peer_active(&t, CM_STATE_REQ_SENT);
	ck_assert_uint_eq(req->local_id, t.id->local_id);
	ck_assert_uint_eq((uint32_t)req->transaction, t.id->local_id);
	ck_assert_uint_eq(req->modifier, 0);
	ck_assert_uint_eq(req->vendor_id, 0);
	ck_assert_uint_eq(req->service_id, CM_PEER_SERVICE);
	ck_assert_uint_eq(req->ca_guid, t.peer.node->hca->node_guid);
	ck_assert_uint_eq(req->qkey, 0);
	ck_assert_uint_eq(req->qpn, 0x77);
	ck_assert_uint_eq(req->responder_resources, 3);
	ck_assert_uint_eq(req->initiator_depth, 4);
	ck_assert_uint_eq(req->remote_response_timeout, 20);
	ck_assert_uint_eq(req->local_response_timeout, 20);
	ck_assert_uint_eq(req->transport, CM_TRANSPORT_RC);
	ck_assert_uint_eq(req->retry_count, 5);
	ck_assert_uint_eq(req->rnr_retry_count, 6);
	ck_assert_uint_eq(req->pkey, 0xffff);
	ck_assert_uint_eq(req->mtu, IBV_MTU_1024);
	ck_assert_uint_eq(req->max_retries, 15);
	ck_assert_uint_eq(req->path[0].local_lid, 0xffff);
	ck_assert_uint_eq(req->path[0].remote_lid, 0xffff);
	ck_assert(gid_equal(&req->path[0].local_gid, &t.peer.path.destination));
	ck_assert(gid_equal(&req->path[0].remote_gid, &t.peer.path.source));
	ck_assert_uint_eq(req->path[0].flow_label, 0x12345);
	ck_assert_uint_eq(req->path[0].hop_limit, 64);
	ck_assert_uint_eq(req->path[0].subnet_local, 0);
	ck_assert_uint_eq(req->path[0].ack_timeout, 17);
	ck_assert_mem_eq(&req->path[1], &(struct cm_path){0}, sizeof(struct cm_path));
	ck_assert_str_eq((char *)req->private_data, "hello");
}
END_TEST

START_TEST(test_answers)
{
	struct cm_message req = cm_peer_req(&t), message;

	cm_peer_passive(&t, CM_STATE_DREQ_SENT);
	ck_assert_uint_eq((uint32_t)t.heard.transaction, t.id->local_id);
	ck_assert_uint_eq(t.heard.qpn, PEER_QPN);
	message = cm_peer_message(&t, CM_DREP);
	cm_id_destroy(t.id, cm_peer_now(&t));
	cm_peer_say(&t, &message);
	world_run(&t.peer.world, SECOND);

	cm_peer_passive(&t, CM_STATE_REP_SENT);
	ck_assert_uint_eq(t.heard.transaction, req.transaction);
	ck_assert_uint_eq(t.heard.local_id, t.id->local_id);
	ck_assert_uint_eq(t.heard.remote_id, CM_PEER_ID);
	ck_assert_uint_eq(t.heard.qpn, 0x78);
	ck_assert_uint_eq(t.heard.ack_delay, 15);
	ck_assert_uint_eq(t.heard.ca_guid, t.peer.node->hca->node_guid);
	ck_assert_uint_eq(t.heard.starting_psn, t.id->terms.rq_psn);
	ck_assert_uint_eq(t.id->path.traffic_class, 0x20);
	ck_assert_uint_eq(t.id->path.flow_label, 0x54321);
}
END_TEST

/* 4.6 s apart, all the same to the byte; 15 copies; then the REJ of IBA 12.9, and an error. */
START_TEST(test_silent_peer)
{
	uint8_t first[MAD_LENGTH];
	uint64_t start, time;

	cm_peer_active(&t, CM_STATE_REQ_SENT);
	start = cm_peer_now(&t);
	memcpy(first, t.mad, sizeof(first));
	for (unsigned int i = 1; i <= 15; i++) {
		time = cm_peer_await(&t, CM_REQ, 10 * SECOND) - start;
		ck_assert_mem_eq(t.mad, first, sizeof(first));
		ck_assert_uint_ge(time, i * 4608 * MS);
		ck_assert_uint_le(time, i * 4608 * MS + 100 * MS);
		cm_peer_event(&t, -1);
	}
	time = cm_peer_await(&t, CM_REJ, 10 * SECOND) - start;
	ck_assert_uint_ge(time, 16 * 4608 * MS);
	ck_assert_int_eq(t.heard.reason, CM_REJECT_TIMEOUT);
	ck_assert_uint_eq(t.heard.info_length, 8);
	cm_peer_event(&t, CM_EVENT_REQ_ERROR);
	ck_assert_int_eq(cm_id_state(t.id), CM_STATE_IDLE);
	cm_peer_hear_nothing(&t, 1000 * SECOND);
}
END_TEST

/* The REP goes by what the REQ said: its timeout and its number of copies. */
START_TEST(test_silent_after_reply)
{
	uint64_t start, time = 0;

	cm_peer_passive(&t, CM_STATE_REP_SENT);
	start = cm_peer_now(&t);
	for (unsigned int i = 1; i <= 15; i++)
		time = cm_peer_await(&t, CM_REP, 10 * SECOND) - start;
	ck_assert_uint_ge(time, 15 * 4096 * MS);
	ck_assert_uint_le(time, 15 * 4096 * MS + 100 * MS);
	cm_peer_await(&t, CM_REJ, 10 * SECOND);
	ck_assert_int_eq(t.heard.reason, CM_REJECT_TIMEOUT);
	ck_assert_uint_eq(t.heard.remote_id, CM_PEER_ID);
	cm_peer_event(&t, CM_EVENT_REP_ERROR);
	cm_peer_hear_nothing(&t, 1000 * SECOND);
}
END_TEST

/* The timeout and the retries are those of the REQ, which needn't be Linux's. */
START_TEST(test_silent_after_short_timeout)
{
	const struct cm_reply reply = {.qpn = 0x78};
	struct cm_message req = cm_peer_req(&t);
	uint64_t start, time;

	req.local_response_timeout = 12;
	req.max_retries = 2;
	cm_peer_listen(&t, false);
	cm_peer_say(&t, &req);
	cm_peer_event(&t, CM_EVENT_REQ_RECEIVED);
	start = cm_peer_now(&t);
	ck_assert_int_eq(cm_send_rep(t.id, &reply, start), 0);
	for (unsigned int i = 0; i <= 2; i++)
		time = cm_peer_await(&t, CM_REP, 20 * MS) - start;
	ck_assert_uint_ge(time, 2 * 16 * MS);
	cm_peer_await(&t, CM_REJ, 20 * MS);
	cm_peer_event(&t, CM_EVENT_REP_ERROR);
}
END_TEST

START_TEST(test_silent_after_disconnect)
{
	cm_peer_active(&t, CM_STATE_DREQ_SENT);
	for (unsigned int i = 1; i <= 15; i++)
		cm_peer_await(&t, CM_DREQ, 10 * SECOND);
	cm_peer_event(&t, -1);
	/* Then 512 ms of timewait. */
	world_run(&t.peer.world, 4608 * MS);
	cm_peer_event(&t, CM_EVENT_DREQ_ERROR);
	world_run(&t.peer.world, SECOND);
	cm_peer_event(&t, CM_EVENT_TIMEWAIT_EXIT);
	cm_peer_hear_nothing(&t, 1000 * SECOND);
}
END_TEST

/* As Linux asks for a service: 4.1 s apart, sixteen in all, and no REJ at the end. */
START_TEST(test_silent_service)
{
	uint64_t start = cm_peer_now(&t), time = 0;
	const struct path path = {.source = t.peer.path.destination,
				  .destination = t.peer.path.source,
				  .hop_limit = 64};

	ck_assert_int_eq(cm_id_create(t.cm, NULL, &t.id), 0);
	ck_assert_int_eq(cm_send_sidr_req(t.id, &path, CM_PEER_SERVICE, "who", 4, start), 0);
	for (unsigned int i = 0; i <= 15; i++)
		time = cm_peer_await(&t, CM_SIDR_REQ, 10 * SECOND) - start;
	ck_assert_uint_ge(time, 15 * 4096 * MS);
	ck_assert_uint_le(time, 15 * 4096 * MS + 100 * MS);
	ck_assert_uint_eq(t.heard.local_id, t.id->local_id);
	ck_assert_uint_eq((uint32_t)t.heard.transaction, t.id->local_id);
	ck_assert_uint_eq(t.heard.pkey, 0xffff);
	ck_assert_uint_eq(t.heard.service_id, CM_PEER_SERVICE);
	ck_assert_str_eq((char *)t.heard.private_data, "who");
	cm_peer_hear_nothing(&t, 1000 * SECOND);
	cm_peer_event(&t, CM_EVENT_SIDR_REQ_ERROR);
}
END_TEST

/* The answer is the question's: its transaction, its number, its service. */
START_TEST(test_service)
{
	const struct cm_service_reply reply = {.qpn = 0x78, .qkey = 0x1234567};
	const struct cm_message question = {.attribute = CM_SIDR_REQ,
					    .transaction = 0x0123456789abcdef,
					    .local_id = CM_PEER_ID,
					    .service_id = CM_PEER_SERVICE};

	cm_peer_listen(&t, true);
	for (unsigned int copy = 0; copy < 2; copy++)
		cm_peer_say(&t, &question);
	cm_peer_event(&t, CM_EVENT_SIDR_REQ_RECEIVED);
	cm_peer_hear_nothing(&t, SECOND);
	ck_assert_int_eq(cm_send_sidr_rep(t.id, &reply, cm_peer_now(&t)), 0);
	cm_peer_hear(&t, CM_SIDR_REP);
	ck_assert_uint_eq(t.heard.transaction, question.transaction);
	ck_assert_uint_eq(t.heard.local_id, CM_PEER_ID);
	ck_assert_uint_eq(t.heard.service_id, CM_PEER_SERVICE);
	ck_assert_int_eq(t.heard.status, CM_SIDR_SUCCESS);
	ck_assert_uint_eq(t.heard.qpn, 0x78);
	ck_assert_uint_eq(t.heard.qkey, 0x1234567);
}
END_TEST

/* Timewait is the ACK timeout, with what the peer's CA takes: 2^(20-8) ms. */
START_TEST(test_timewait)
{
	struct cm_message message;

	cm_peer_active(&t, CM_STATE_REQ_SENT);
	message = cm_peer_message(&t, CM_REP);
	message.ack_delay = 20;
	cm_peer_say(&t, &message);
	cm_peer_event(&t, CM_EVENT_REP_RECEIVED);
	ck_assert_int_eq(cm_send_rtu(t.id, cm_peer_now(&t)), 0);
	cm_peer_hear(&t, CM_RTU);
	ck_assert_int_eq(cm_send_dreq(t.id, cm_peer_now(&t)), 0);
	cm_peer_hear(&t, CM_DREQ);
	message = cm_peer_message(&t, CM_DREP);
	cm_peer_say(&t, &message);
	cm_peer_event(&t, CM_EVENT_DREP_RECEIVED);
	world_run(&t.peer.world, 4090 * MS);
	cm_peer_event(&t, -1);
	world_run(&t.peer.world, 10 * MS);
	cm_peer_event(&t, CM_EVENT_TIMEWAIT_EXIT);
	ck_assert_int_eq(cm_id_state(t.id), CM_STATE_IDLE);
}
END_TEST

/* An id that waits for its application sends nothing of its own accord. */
START_TEST(test_quiet)
{
	static const bool quiet[CM_STATE_COUNT] = {
		[CM_STATE_REQ_RECEIVED] = true, [CM_STATE_MRA_REQ_SENT] = true,
		[CM_STATE_REP_RECEIVED] = true, [CM_STATE_MRA_REP_SENT] = true,
		[CM_STATE_ESTABLISHED] = true,	[CM_STATE_DREQ_RECEIVED] = true,
	};

	if (!quiet[states[_i].state])
		return;
	enter(_i);
	cm_peer_hear_nothing(&t, 1000 * SECOND);
	cm_peer_event(&t, -1);
	ck_assert_int_eq(cm_id_state(t.id), states[_i].state);
}
END_TEST

/* Nothing of an exchange that has failed is in the way of the next one. */
START_TEST(test_another_try)
{
	struct cm_request request = {
		.path = {.source = t.peer.path.destination,
			 .destination = t.peer.path.source,
			 .hop_limit = 64},
		.service_id = 7,
		.packet_life_time = CM_PACKET_LIFE_TIME,
	};
	struct cm_message message;

	cm_peer_active(&t, CM_STATE_REP_RECEIVED);
	ck_assert_int_eq(cm_send_rej(t.id, CM_REJECT_CONSUMER, NULL, 0, cm_peer_now(&t)), 0);
	cm_peer_hear(&t, CM_REJ);
	/* The peer believes that there is a connection. */
	message = cm_peer_message(&t, CM_DREQ);
	cm_peer_say(&t, &message);
	cm_peer_hear(&t, CM_DREP);
	ck_assert_int_eq(cm_send_req(t.id, &request, cm_peer_now(&t)), 0);
	cm_peer_hear(&t, CM_REQ);
	ck_assert_uint_eq(t.heard.service_id, 7);
	message = cm_peer_message(&t, CM_REP);
	message.local_id++;
	cm_peer_say(&t, &message);
	cm_peer_event(&t, CM_EVENT_REP_RECEIVED);
}
END_TEST

/* --- duplicates --------------------------------------------------------------------------- */

/* IBA 12.9.8.3.1 and Linux: what another copy of the REQ does in each state of the passive side. */
START_TEST(test_duplicate_req)
{
	static const uint16_t answers[CM_STATE_COUNT] = {
		[CM_STATE_REQ_RECEIVED] = CM_MRA,
		[CM_STATE_MRA_REQ_SENT] = CM_MRA,
		[CM_STATE_TIMEWAIT] = CM_REJ,
	};
	struct cm_message req = cm_peer_req(&t);
	uint16_t answer;

	if (!states[_i].passive)
		return;
	enter(_i);
	answer = answers[states[_i].state];
	for (unsigned int copy = 0; copy < 3; copy++) {
		cm_peer_say(&t, &req);
		cm_peer_event(&t, -1);
		if (!answer) {
			cm_peer_hear_nothing(&t, 10000);
			continue;
		}
		cm_peer_hear(&t, answer);
		ck_assert_uint_eq(t.heard.remote_id, CM_PEER_ID);
		if (answer == CM_REJ)
			ck_assert_int_eq(t.heard.reason, CM_REJECT_STALE);
	}
}
END_TEST

/* A lost RTU, or MRA, is sent again: the same bytes. */
START_TEST(test_duplicate_rep)
{
	static const uint16_t answers[CM_STATE_COUNT] = {
		[CM_STATE_REP_RECEIVED] = CM_MRA,
		[CM_STATE_MRA_REP_SENT] = CM_MRA,
		[CM_STATE_ESTABLISHED] = CM_RTU,
	};
	uint16_t answer = states[_i].passive ? 0 : answers[states[_i].state];
	uint8_t first[MAD_LENGTH];
	struct cm_message rep;

	if (states[_i].state == CM_STATE_REQ_SENT || states[_i].state == CM_STATE_MRA_REQ_RECEIVED)
		return;
	enter(_i);
	memcpy(first, t.mad, sizeof(first));
	rep = cm_peer_message(&t, CM_REP);
	for (unsigned int copy = 0; copy < 3; copy++) {
		cm_peer_say(&t, &rep);
		cm_peer_event(&t, -1);
		if (!answer) {
			cm_peer_hear_nothing(&t, 10000);
			continue;
		}
		cm_peer_hear(&t, answer);
		if (states[_i].state != CM_STATE_REP_RECEIVED)
			ck_assert_mem_eq(t.mad, first, sizeof(first));
	}
	/* A REP that fits no id of the node is dropped. */
	rep.local_id++;
	cm_peer_say(&t, &rep);
	cm_peer_hear_nothing(&t, 10000);
}
END_TEST

START_TEST(test_dreq)
{
	static const struct {
		int event;
		uint16_t answer;
	} outcome[CM_STATE_COUNT] = {
		[CM_STATE_REP_SENT] = {CM_EVENT_DREQ_RECEIVED},
		[CM_STATE_MRA_REP_RECEIVED] = {CM_EVENT_DREQ_RECEIVED},
		[CM_STATE_ESTABLISHED] = {CM_EVENT_DREQ_RECEIVED},
		[CM_STATE_DREQ_SENT] = {CM_EVENT_DREQ_RECEIVED},
		[CM_STATE_TIMEWAIT] = {.answer = CM_DREP},
	};
	enum cm_state state = states[_i].state;
	struct cm_message dreq;

	enter(_i);
	dreq = cm_peer_message(&t, CM_DREQ);
	/* IBA 12.9.8.3: it must name the QP. */
	dreq.qpn++;
	cm_peer_say(&t, &dreq);
	cm_peer_event(&t, -1);
	cm_peer_hear_nothing(&t, 10000);
	dreq.qpn--;
	dreq.transaction = 0x77;
	cm_peer_say(&t, &dreq);
	cm_peer_event(&t, outcome[state].event ? outcome[state].event : -1);
	if (outcome[state].event) {
		cm_peer_hear_nothing(&t, 100 * SECOND);
		ck_assert_int_eq(cm_id_state(t.id), CM_STATE_DREQ_RECEIVED);
		ck_assert_int_eq(cm_send_drep(t.id, cm_peer_now(&t)), 0);
		ck_assert_int_eq(cm_id_state(t.id), CM_STATE_TIMEWAIT);
	}
	if (!outcome[state].event && !outcome[state].answer) {
		ck_assert_int_eq(cm_id_state(t.id), state);
		cm_peer_hear_nothing(&t, 10000);
		return;
	}
	cm_peer_hear(&t, CM_DREP);
	ck_assert_uint_eq(t.heard.transaction, 0x77);
	ck_assert_uint_eq(t.heard.local_id, t.id->local_id);
	ck_assert_uint_eq(t.heard.remote_id, CM_PEER_ID);
}
END_TEST

/* IBA 12.9.7: only what is connected can be disconnected; before that it is rejected. */
START_TEST(test_sending_dreq)
{
	bool connected = states[_i].state == CM_STATE_ESTABLISHED;

	enter(_i);
	ck_assert_int_eq(cm_send_dreq(t.id, cm_peer_now(&t)), connected ? 0 : EINVAL);
	ck_assert_int_eq(cm_id_state(t.id), connected ? CM_STATE_DREQ_SENT : states[_i].state);
}
END_TEST

/* Both sides have said so: a DREP is the answer, and the end, whether or not we have sent ours. */
START_TEST(test_disconnected_by_both)
{
	struct cm_message message;

	cm_peer_active(&t, CM_STATE_DREQ_SENT);
	message = cm_peer_message(&t, CM_DREQ);
	cm_peer_say(&t, &message);
	cm_peer_event(&t, CM_EVENT_DREQ_RECEIVED);
	message = cm_peer_message(&t, CM_DREP);
	cm_peer_say(&t, &message);
	cm_peer_event(&t, CM_EVENT_DREP_RECEIVED);
	ck_assert_int_eq(cm_id_state(t.id), CM_STATE_TIMEWAIT);
}
END_TEST

/* --- what doesn't fit ----------------------------------------------------------------------- */

/* What only some states wait for; in the others it is late, or nonsense. */
static const struct {
	uint16_t attribute;
	enum cm_answered answered;
	uint32_t taken; /* the states that wait for it */
} awaited[] = {
	{CM_MRA, CM_ANSWERED_REQ, 1u << CM_STATE_REQ_SENT},
	{CM_MRA, CM_ANSWERED_REP, 1u << CM_STATE_REP_SENT},
	{CM_MRA, CM_ANSWERED_OTHER, 0},
	{CM_RTU, 0, 1u << CM_STATE_REP_SENT | 1u << CM_STATE_MRA_REP_RECEIVED},
	{CM_DREP, 0, 1u << CM_STATE_DREQ_SENT | 1u << CM_STATE_DREQ_RECEIVED},
	{CM_APR, 0, 0},
	{CM_SIDR_REP, 0, 0},
};
#define AWAITED (sizeof(awaited) / sizeof(awaited[0]))

static void expect_no_effect(const struct cm_message *message)
{
	enum cm_state state = cm_id_state(t.id);

	cm_peer_say(&t, message);
	cm_peer_event(&t, -1);
	cm_peer_hear_nothing(&t, 10000);
	ck_assert_int_eq(cm_id_state(t.id), state);
}

START_TEST(test_not_awaited)
{
	struct cm_message message;

	enter(_i);
	for (unsigned int i = 0; i < AWAITED; i++) {
		message = cm_peer_message(&t, awaited[i].attribute);
		message.answered = awaited[i].answered;
		if (message.attribute == CM_SIDR_REP)
			message.local_id = t.id->local_id;
		if (!(awaited[i].taken >> states[_i].state & 1))
			expect_no_effect(&message);
	}
}
END_TEST

/* The comm id of another connection of the peer's: nothing but a DREQ is even answered. */
START_TEST(test_another_sender)
{
	static const uint16_t attributes[] = {CM_MRA, CM_REJ, CM_REP, CM_RTU, CM_DREP, CM_APR};
	struct cm_message message;

	enter(_i);
	if (!t.id->remote_id)
		return;
	for (unsigned int i = 0; i < sizeof(attributes) / sizeof(attributes[0]); i++) {
		message = cm_peer_message(&t, attributes[i]);
		message.local_id++;
		message.answered = states[_i].passive ? CM_ANSWERED_REP : CM_ANSWERED_REQ;
		message.reason = attributes[i] == CM_REJ ? CM_REJECT_CONSUMER : 0;
		expect_no_effect(&message);
	}
	message = cm_peer_message(&t, CM_DREQ);
	message.local_id++;
	cm_peer_say(&t, &message);
	cm_peer_hear(&t, CM_DREP);
	ck_assert_uint_eq(t.heard.remote_id, message.local_id);
	cm_peer_event(&t, -1);
	ck_assert_int_eq(cm_id_state(t.id), states[_i].state);
}
END_TEST

/* --- rejects -------------------------------------------------------------------------------- */

/* Where a REJ leaves each state, by reason. */
START_TEST(test_rejected)
{
	static const struct {
		bool heard;
		enum cm_state state, stale;
	} outcome[CM_STATE_COUNT] = {
		[CM_STATE_REQ_SENT] = {true, CM_STATE_IDLE, CM_STATE_TIMEWAIT},
		[CM_STATE_MRA_REQ_RECEIVED] = {true, CM_STATE_IDLE, CM_STATE_TIMEWAIT},
		[CM_STATE_REQ_RECEIVED] = {true, CM_STATE_IDLE, CM_STATE_TIMEWAIT},
		[CM_STATE_MRA_REQ_SENT] = {true, CM_STATE_IDLE, CM_STATE_TIMEWAIT},
		[CM_STATE_REP_SENT] = {true, CM_STATE_IDLE, CM_STATE_TIMEWAIT},
		[CM_STATE_MRA_REP_RECEIVED] = {true, CM_STATE_IDLE, CM_STATE_TIMEWAIT},
		[CM_STATE_REP_RECEIVED] = {true, CM_STATE_TIMEWAIT, CM_STATE_TIMEWAIT},
		[CM_STATE_MRA_REP_SENT] = {true, CM_STATE_TIMEWAIT, CM_STATE_TIMEWAIT},
		[CM_STATE_ESTABLISHED] = {true, CM_STATE_TIMEWAIT, CM_STATE_TIMEWAIT},
		[CM_STATE_DREQ_SENT] = {true, CM_STATE_TIMEWAIT, CM_STATE_TIMEWAIT},
		[CM_STATE_DREQ_RECEIVED] = {false, CM_STATE_DREQ_RECEIVED, CM_STATE_DREQ_RECEIVED},
		[CM_STATE_TIMEWAIT] = {false, CM_STATE_TIMEWAIT, CM_STATE_TIMEWAIT},
	};
	enum cm_state state = states[_i % STATES].state;
	bool stale = _i >= STATES;
	struct cm_message rej;

	enter(_i % STATES);
	rej = cm_peer_message(&t, CM_REJ);
	rej.reason = stale ? CM_REJECT_STALE : CM_REJECT_CONSUMER;
	rej.answered = CM_ANSWERED_OTHER;
	memcpy(rej.private_data, "go", 3);
	rej.private_length = 3;
	cm_peer_say(&t, &rej);
	cm_peer_event(&t, outcome[state].heard ? CM_EVENT_REJ_RECEIVED : -1);
	ck_assert_int_eq(cm_id_state(t.id), stale ? outcome[state].stale : outcome[state].state);
	if (outcome[state].heard) {
		ck_assert_int_eq(t.last.message.reason, rej.reason);
		ck_assert_str_eq((char *)t.last.message.private_data, "go");
	}
	cm_peer_hear_nothing(&t, 10 * SECOND);
}
END_TEST

/* A peer that gives up before it knows the node's comm id names its own, and its GUID. */
START_TEST(test_rejected_by_guid)
{
	const uint8_t guid[8] = {0x02, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77};
	struct cm_message rej;

	cm_peer_passive(&t, CM_STATE_REP_SENT);
	rej = cm_peer_message(&t, CM_REJ);
	rej.remote_id = 0;
	rej.reason = CM_REJECT_TIMEOUT;
	rej.answered = CM_ANSWERED_OTHER;
	rej.info_length = 8;
	cm_peer_say(&t, &rej);
	cm_peer_event(&t, -1);
	memcpy(rej.info, guid, sizeof(guid));
	rej.reason = CM_REJECT_CONSUMER; /* which says nothing there */
	cm_peer_say(&t, &rej);
	cm_peer_event(&t, -1);
	rej.reason = CM_REJECT_TIMEOUT;
	cm_peer_say(&t, &rej);
	cm_peer_event(&t, CM_EVENT_REJ_RECEIVED);
	ck_assert_int_eq(cm_id_state(t.id), CM_STATE_IDLE);
}
END_TEST

/* What each state allows to reject, and what the REJ says. */
START_TEST(test_rejecting)
{
	static const struct {
		bool allowed;
		enum cm_answered answered;
		enum cm_state state;
	} outcome[CM_STATE_COUNT] = {
		[CM_STATE_REQ_SENT] = {true, CM_ANSWERED_OTHER, CM_STATE_IDLE},
		[CM_STATE_MRA_REQ_RECEIVED] = {true, CM_ANSWERED_OTHER, CM_STATE_IDLE},
		[CM_STATE_REQ_RECEIVED] = {true, CM_ANSWERED_REQ, CM_STATE_IDLE},
		[CM_STATE_MRA_REQ_SENT] = {true, CM_ANSWERED_REQ, CM_STATE_IDLE},
		[CM_STATE_REP_RECEIVED] = {true, CM_ANSWERED_REP, CM_STATE_IDLE},
		[CM_STATE_MRA_REP_SENT] = {true, CM_ANSWERED_REP, CM_STATE_IDLE},
		[CM_STATE_REP_SENT] = {true, CM_ANSWERED_OTHER, CM_STATE_TIMEWAIT},
		[CM_STATE_MRA_REP_RECEIVED] = {true, CM_ANSWERED_OTHER, CM_STATE_TIMEWAIT},
	};
	enum cm_state state = states[_i].state;
	int error;

	enter(_i);
	ck_assert_int_eq(cm_send_rej(t.id, CM_REJECT_CONSUMER, t.mad, 149, cm_peer_now(&t)),
			 EINVAL);
	error = cm_send_rej(t.id, CM_REJECT_CONSUMER, "no", 3, cm_peer_now(&t));
	ck_assert_int_eq(error, outcome[state].allowed ? 0 : EINVAL);
	if (error) {
		ck_assert_int_eq(cm_id_state(t.id), state);
		return;
	}
	cm_peer_hear(&t, CM_REJ);
	ck_assert_int_eq(t.heard.reason, CM_REJECT_CONSUMER);
	ck_assert_int_eq(t.heard.answered, outcome[state].answered);
	ck_assert_str_eq((char *)t.heard.private_data, "no");
	ck_assert_uint_eq(t.heard.info_length, 0);
	ck_assert_int_eq(cm_id_state(t.id), outcome[state].state);
}
END_TEST

START_TEST(test_not_our_gid)
{
	struct cm_message req = cm_peer_req(&t);

	cm_peer_listen(&t, false);
	req.path[0].remote_gid.raw[15]++;
	cm_peer_say(&t, &req);
	cm_peer_hear(&t, CM_REJ);
	ck_assert_int_eq(t.heard.reason, CM_REJECT_INVALID_GID);
	ck_assert_uint_eq(t.heard.info_length, 16);
	ck_assert_mem_eq(t.heard.info, &t.peer.node->gids.entries[0].gid, 16);
	cm_peer_event(&t, -1);
}
END_TEST

/* What no QP here could be modified to isn't left to the application, whose accept would fail. */
START_TEST(test_path_mtu)
{
	static const uint8_t refused[] = {0, IBV_MTU_2048, IBV_MTU_4096, 6, 15};
	struct cm_message req = cm_peer_req(&t);

	t.peer.node->gids.entries[0].mtu = 1500;
	cm_peer_listen(&t, false);
	for (unsigned int i = 0; i < sizeof(refused); i++) {
		req.mtu = refused[i];
		req.local_id++;
		cm_peer_say(&t, &req);
		cm_peer_hear(&t, CM_REJ);
		ck_assert_int_eq(t.heard.reason, CM_REJECT_INVALID_MTU);
		ck_assert_int_eq(t.heard.answered, CM_ANSWERED_REQ);
		ck_assert_uint_eq(t.heard.remote_id, req.local_id);
		cm_peer_event(&t, -1);
	}
	req.mtu = IBV_MTU_1024;
	req.local_id++;
	cm_peer_say(&t, &req);
	cm_peer_event(&t, CM_EVENT_REQ_RECEIVED);
	ck_assert_int_eq(t.id->terms.mtu, IBV_MTU_1024);
}
END_TEST

/* Without a listener it is that which the peer hears of. */
START_TEST(test_path_mtu_without_listener)
{
	struct cm_message req = cm_peer_req(&t);

	t.peer.node->gids.entries[0].mtu = 1500;
	req.mtu = IBV_MTU_4096;
	cm_peer_say(&t, &req);
	cm_peer_await(&t, CM_REJ, SECOND);
	ck_assert_int_eq(t.heard.reason, CM_REJECT_INVALID_SERVICE_ID);
}
END_TEST

/* IBA 12.9.8.3.1: the peer has forgotten the connection of this QP, which is disconnected. */
START_TEST(test_stale_connection)
{
	struct cm_message req = cm_peer_req(&t);

	cm_peer_passive(&t, CM_STATE_ESTABLISHED);
	req.local_id++;
	cm_peer_say(&t, &req);
	cm_peer_hear(&t, CM_REJ);
	ck_assert_int_eq(t.heard.reason, CM_REJECT_STALE);
	ck_assert_uint_eq(t.heard.remote_id, req.local_id);
	cm_peer_hear(&t, CM_DREQ);
	ck_assert_uint_eq(t.heard.qpn, PEER_QPN);
	ck_assert_int_eq(cm_id_state(t.id), CM_STATE_DREQ_SENT);
	/* In timewait the QP is free again. */
	req = cm_peer_message(&t, CM_DREP);
	cm_peer_say(&t, &req);
	cm_peer_event(&t, CM_EVENT_DREP_RECEIVED);
	cm_id_destroy(t.id, cm_peer_now(&t));
	req = cm_peer_req(&t);
	req.local_id += 2;
	cm_peer_say(&t, &req);
	cm_peer_event(&t, CM_EVENT_REQ_RECEIVED);
}
END_TEST

/* Also when nothing listens any more: the old connection is what has to end first. */
START_TEST(test_stale_without_listener)
{
	struct cm_message req = cm_peer_req(&t);

	cm_peer_passive(&t, CM_STATE_ESTABLISHED);
	cm_id_destroy(t.listener, cm_peer_now(&t));
	t.listener = NULL;
	req.local_id++;
	cm_peer_say(&t, &req);
	cm_peer_await(&t, CM_REJ, MS);
	ck_assert_int_eq(t.heard.reason, CM_REJECT_STALE);
	cm_peer_hear(&t, CM_DREQ);
}
END_TEST

/* So it is by a REP; one whose comm id is that of another connection is dropped (12.9.8.1). */
START_TEST(test_stale_reply)
{
	struct cm_message rep;
	struct cm_id *old;

	cm_peer_active(&t, CM_STATE_ESTABLISHED);
	old = t.id;
	cm_peer_active(&t, CM_STATE_REQ_SENT);
	rep = cm_peer_message(&t, CM_REP);
	cm_peer_say(&t, &rep);
	cm_peer_event(&t, -1);
	cm_peer_hear_nothing(&t, 10000);
	rep.local_id++;
	cm_peer_say(&t, &rep);
	cm_peer_event(&t, -1);
	cm_peer_hear(&t, CM_REJ);
	ck_assert_int_eq(t.heard.reason, CM_REJECT_STALE);
	ck_assert_int_eq(t.heard.answered, CM_ANSWERED_REP);
	ck_assert_uint_eq(t.heard.remote_id, rep.local_id);
	cm_peer_hear(&t, CM_DREQ);
	ck_assert_int_eq(cm_id_state(old), CM_STATE_DREQ_SENT);
	ck_assert_int_eq(cm_id_state(t.id), CM_STATE_REQ_SENT);
}
END_TEST

/* --- destroying ----------------------------------------------------------------------------- */

START_TEST(test_destroy)
{
	static const struct {
		uint16_t message;
		enum cm_reject_reason reason;
	} outcome[CM_STATE_COUNT] = {
		[CM_STATE_REQ_SENT] = {CM_REJ, CM_REJECT_TIMEOUT},
		[CM_STATE_MRA_REQ_RECEIVED] = {CM_REJ, CM_REJECT_TIMEOUT},
		[CM_STATE_REQ_RECEIVED] = {CM_REJ, CM_REJECT_CONSUMER},
		[CM_STATE_MRA_REQ_SENT] = {CM_REJ, CM_REJECT_CONSUMER},
		[CM_STATE_REP_SENT] = {CM_REJ, CM_REJECT_CONSUMER},
		[CM_STATE_MRA_REP_RECEIVED] = {CM_REJ, CM_REJECT_CONSUMER},
		[CM_STATE_REP_RECEIVED] = {CM_REJ, CM_REJECT_CONSUMER},
		[CM_STATE_MRA_REP_SENT] = {CM_REJ, CM_REJECT_CONSUMER},
		[CM_STATE_ESTABLISHED] = {CM_DREQ},
		[CM_STATE_DREQ_SENT] = {0},
		[CM_STATE_DREQ_RECEIVED] = {CM_DREP},
		[CM_STATE_TIMEWAIT] = {0},
	};
	uint16_t message = outcome[states[_i].state].message;

	enter(_i);
	cm_id_destroy(t.id, cm_peer_now(&t));
	t.id = NULL;
	if (message) {
		cm_peer_hear(&t, message);
		ck_assert_int_eq(t.heard.reason, outcome[states[_i].state].reason);
	} else {
		cm_peer_hear_nothing(&t, SECOND);
	}
	world_run(&t.peer.world, 1000 * SECOND);
	cm_peer_event(&t, -1);
	ck_assert(cm_deadline(t.cm) == TIME_NEVER);
}
END_TEST

/* Without the id, the disconnect goes on until the peer has heard of it. */
START_TEST(test_disconnect_goes_on)
{
	struct cm_message message;
	uint32_t local_id;

	cm_peer_active(&t, CM_STATE_ESTABLISHED);
	local_id = t.id->local_id;
	cm_id_destroy(t.id, cm_peer_now(&t));
	t.id = NULL;
	cm_peer_hear(&t, CM_DREQ);
	cm_peer_await(&t, CM_DREQ, 5 * SECOND);
	message = cm_peer_message(&t, _i ? CM_DREP : CM_REJ);
	if (_i == 2) {
		message = cm_peer_message(&t, CM_DREP);
		message.attribute = CM_DREQ;
		message.qpn = 0x77;
	}
	message.remote_id = local_id;
	cm_peer_say(&t, &message);
	if (_i == 2)
		cm_peer_hear(&t, CM_DREP);
	cm_peer_hear_nothing(&t, 1000 * SECOND);
	ck_assert(cm_deadline(t.cm) == TIME_NEVER);
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("cm_wire");

	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_add_test(tcase, test_req);
	tcase_add_test(tcase, test_answers);
	tcase_add_test(tcase, test_silent_peer);
	tcase_add_test(tcase, test_silent_after_reply);
	tcase_add_test(tcase, test_silent_after_short_timeout);
	tcase_add_test(tcase, test_silent_after_disconnect);
	tcase_add_test(tcase, test_silent_service);
	tcase_add_test(tcase, test_service);
	tcase_add_test(tcase, test_timewait);
	tcase_add_loop_test(tcase, test_quiet, 0, STATES);
	tcase_add_test(tcase, test_another_try);
	tcase_add_loop_test(tcase, test_duplicate_req, 0, STATES);
	tcase_add_loop_test(tcase, test_duplicate_rep, 0, STATES);
	tcase_add_loop_test(tcase, test_dreq, 0, STATES);
	tcase_add_loop_test(tcase, test_sending_dreq, 0, STATES);
	tcase_add_test(tcase, test_disconnected_by_both);
	tcase_add_loop_test(tcase, test_not_awaited, 0, STATES);
	tcase_add_loop_test(tcase, test_another_sender, 0, STATES);
	tcase_add_loop_test(tcase, test_rejected, 0, 2 * STATES);
	tcase_add_test(tcase, test_rejected_by_guid);
	tcase_add_loop_test(tcase, test_rejecting, 0, STATES);
	tcase_add_test(tcase, test_not_our_gid);
	tcase_add_test(tcase, test_path_mtu);
	tcase_add_test(tcase, test_path_mtu_without_listener);
	tcase_add_test(tcase, test_stale_connection);
	tcase_add_test(tcase, test_stale_without_listener);
	tcase_add_test(tcase, test_stale_reply);
	tcase_add_loop_test(tcase, test_destroy, 0, STATES);
	tcase_add_loop_test(tcase, test_disconnect_goes_on, 0, 3);
	return world_main("cm_wire", (TCase *[]){tcase, NULL});
}
