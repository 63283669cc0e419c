/* SPDX-License-Identifier: BSD-2-Clause */
#include "cm_peer.h"

static void on_connection(struct node *node, struct cm_event *event)
{
	struct cm_peer_test *t = node->context;

	must(t->count < CM_PEER_EVENTS);
	t->events[t->count++] = event->type;
	t->last = *event;
	if (event->listener)
		t->id = event->id;
}

void cm_peer_create(struct cm_peer_test *t)
{
	memset(t, 0, sizeof(*t));
	peer_create(&t->peer, IBV_QPT_UD, NULL);
	t->cm = t->peer.node->hca->cm;
	t->peer.node->connection = on_connection;
	t->peer.node->context = t;
}

void cm_peer_destroy(struct cm_peer_test *t)
{
	if (t->id)
		cm_id_destroy(t->id, cm_peer_now(t));
	if (t->listener)
		cm_id_destroy(t->listener, cm_peer_now(t));
	peer_destroy(&t->peer);
}

uint64_t cm_peer_now(const struct cm_peer_test *t)
{
	return world_now(&t->peer.world);
}

void cm_peer_listen(struct cm_peer_test *t, bool datagram)
{
	const struct cm_listen listen = {
		.service_id = CM_PEER_SERVICE, .ipv4 = true, .datagram = datagram};

	ck_assert_int_eq(cm_id_create(t->cm, NULL, &t->listener), 0);
	ck_assert_int_eq(cm_id_listen(t->listener, &listen), 0);
}

struct cm_message cm_peer_req(const struct cm_peer_test *t)
{
	return (struct cm_message){
		.attribute = CM_REQ,
		.transaction = 0x0123456789abcdef,
		.local_id = CM_PEER_ID,
		.service_id = CM_PEER_SERVICE,
		.ca_guid = CM_PEER_GUID,
		.qpn = PEER_QPN,
		.responder_resources = 5,
		.initiator_depth = 6,
		.remote_response_timeout = 20,
		.local_response_timeout = 20,
		.starting_psn = 0x111111,
		.retry_count = 7,
		.rnr_retry_count = 3,
		.pkey = PKEY_DEFAULT,
		.mtu = IBV_MTU_1024,
		.max_retries = 15,
		.path = {{
			.local_lid = 0xffff,
			.remote_lid = 0xffff,
			.local_gid = t->peer.path.source,
			.remote_gid = t->peer.path.destination,
			.flow_label = 0x54321,
			.traffic_class = 0x20,
			.hop_limit = 64,
			.ack_timeout = 17,
		}},
		.private_length = 4,
		.private_data = "abc",
	};
}

struct cm_message cm_peer_message(const struct cm_peer_test *t, uint16_t attribute)
{
	struct cm_message message = {
		.attribute = attribute,
		.transaction = t->heard.transaction,
		.local_id = CM_PEER_ID,
		.remote_id = t->id ? t->id->local_id : 0,
	};

	if (attribute == CM_REP) {
		message.qpn = PEER_QPN;
		message.ca_guid = CM_PEER_GUID;
		message.starting_psn = 0x222222;
		message.responder_resources = 2;
		message.initiator_depth = 1;
		message.ack_delay = 15;
		message.rnr_retry_count = 4;
	}
	if (attribute == CM_DREQ && t->id)
		message.qpn = t->id->terms.local_qpn;
	return message;
}

void cm_peer_post(struct cm_peer_test *t, const struct cm_message *message)
{
	uint8_t mad[MAD_LENGTH];
	const struct peer_packet packet = {
		.opcode = WIRE_UD | WIRE_SEND_ONLY,
		.qpn = QPN_GSI,
		.qkey = QKEY_GSI,
		.source_qp = QPN_GSI,
		.length = MAD_LENGTH,
		.payload = mad,
	};

	cm_message_encode(message, mad);
	peer_send(&t->peer, &packet);
}

void cm_peer_say(struct cm_peer_test *t, const struct cm_message *message)
{
	cm_peer_post(t, message);
	world_run(&t->peer.world, 2000);
}

static void take(struct cm_peer_test *t, const struct packet *packet)
{
	ck_assert_uint_eq(packet->dest_qp, QPN_GSI);
	ck_assert_str_eq(packet->op->name, "UD_SEND_ONLY");
	ck_assert_uint_eq(packet->payload_length, MAD_LENGTH);
	ck_assert_uint_eq(be32toh(packet_deth(packet)->qkey), QKEY_GSI);
	ck_assert_uint_eq(be32toh(packet_deth(packet)->source_qp), QPN_GSI);
	memcpy(t->mad, packet->payload, MAD_LENGTH);
	ck_assert_int_eq(cm_message_decode(&t->heard, t->mad), 0);
}

uint64_t cm_peer_await(struct cm_peer_test *t, uint16_t attribute, uint64_t limit)
{
	struct packet packet;

	ck_assert_msg(peer_wait(&t->peer, &packet, limit), "no %s", cm_attribute_name(attribute));
	take(t, &packet);
	ck_assert_str_eq(cm_attribute_name(t->heard.attribute), cm_attribute_name(attribute));
	return cm_peer_now(t);
}

const struct cm_message *cm_peer_hear(struct cm_peer_test *t, uint16_t attribute)
{
	/* Refusing a request that has no listener takes the longest (emu/cm/cm_pending.c). */
	cm_peer_await(t, attribute, 25000000);
	return &t->heard;
}

void cm_peer_hear_nothing(struct cm_peer_test *t, uint64_t limit)
{
	struct packet packet;

	if (!peer_wait(&t->peer, &packet, limit))
		return;
	take(t, &packet);
	ck_abort_msg("the node said %s", cm_attribute_name(t->heard.attribute));
}

void cm_peer_event(struct cm_peer_test *t, int event)
{
	if (event < 0) {
		ck_assert_msg(t->count == 0, "an event of type %d", t->events[0]);
		return;
	}
	ck_assert_uint_eq(t->count, 1);
	ck_assert_int_eq(t->events[0], event);
	t->count = 0;
}

/* --- on the way to a state ------------------------------------------------------------------- */

static void connect_to_test(struct cm_peer_test *t)
{
	const struct cm_request request = {
		.path = {.source = t->peer.path.destination,
			 .destination = t->peer.path.source,
			 .flow_label = 0x12345,
			 .hop_limit = 64},
		.service_id = CM_PEER_SERVICE,
		.qpn = 0x77,
		.qp_type = IBV_QPT_RC,
		.responder_resources = 3,
		.initiator_depth = 4,
		.retry_count = 5,
		.rnr_retry_count = 6,
		.mtu = IBV_MTU_1024,
		.packet_life_time = CM_PACKET_LIFE_TIME,
		.private_data = "hello",
		.private_length = 6,
	};

	ck_assert_int_eq(cm_id_create(t->cm, NULL, &t->id), 0);
	ck_assert_int_eq(cm_send_req(t->id, &request, cm_peer_now(t)), 0);
	cm_peer_hear(t, CM_REQ);
}

static void say(struct cm_peer_test *t, uint16_t attribute, int event)
{
	struct cm_message message = cm_peer_message(t, attribute);

	if (attribute == CM_MRA) {
		message.answered =
			t->id->state == CM_STATE_REP_SENT ? CM_ANSWERED_REP : CM_ANSWERED_REQ;
		message.service_timeout = 20;
	}
	cm_peer_say(t, &message);
	cm_peer_event(t, event);
}

static void disconnect(struct cm_peer_test *t, enum cm_state state)
{
	if (state == CM_STATE_DREQ_RECEIVED) {
		say(t, CM_DREQ, CM_EVENT_DREQ_RECEIVED);
		return;
	}
	ck_assert_int_eq(cm_send_dreq(t->id, cm_peer_now(t)), 0);
	cm_peer_hear(t, CM_DREQ);
	if (state == CM_STATE_TIMEWAIT)
		say(t, CM_DREP, CM_EVENT_DREP_RECEIVED);
}

void cm_peer_active(struct cm_peer_test *t, enum cm_state state)
{
	connect_to_test(t);
	if (state == CM_STATE_REQ_SENT)
		return;
	if (state == CM_STATE_MRA_REQ_RECEIVED) {
		say(t, CM_MRA, CM_EVENT_MRA_RECEIVED);
		return;
	}
	say(t, CM_REP, CM_EVENT_REP_RECEIVED);
	if (state == CM_STATE_REP_RECEIVED)
		return;
	if (state == CM_STATE_MRA_REP_SENT) {
		ck_assert_int_eq(cm_send_mra(t->id, 24, cm_peer_now(t)), 0);
		cm_peer_hear(t, CM_MRA);
		return;
	}
	ck_assert_int_eq(cm_send_rtu(t->id, cm_peer_now(t)), 0);
	cm_peer_hear(t, CM_RTU);
	if (state != CM_STATE_ESTABLISHED)
		disconnect(t, state);
}

void cm_peer_passive(struct cm_peer_test *t, enum cm_state state)
{
	const struct cm_reply reply = {
		.qpn = 0x78, .responder_resources = 1, .private_data = "hi", .private_length = 3};
	struct cm_message req = cm_peer_req(t);

	if (!t->listener)
		cm_peer_listen(t, false);
	cm_peer_say(t, &req);
	cm_peer_event(t, CM_EVENT_REQ_RECEIVED);
	if (state == CM_STATE_REQ_RECEIVED)
		return;
	if (state == CM_STATE_MRA_REQ_SENT) {
		ck_assert_int_eq(cm_send_mra(t->id, 24, cm_peer_now(t)), 0);
		cm_peer_hear(t, CM_MRA);
		return;
	}
	ck_assert_int_eq(cm_send_rep(t->id, &reply, cm_peer_now(t)), 0);
	cm_peer_hear(t, CM_REP);
	if (state == CM_STATE_REP_SENT)
		return;
	if (state == CM_STATE_MRA_REP_RECEIVED) {
		say(t, CM_MRA, CM_EVENT_MRA_RECEIVED);
		return;
	}
	say(t, CM_RTU, CM_EVENT_RTU_RECEIVED);
	if (state != CM_STATE_ESTABLISHED)
		disconnect(t, state);
}
