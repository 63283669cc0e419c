/* SPDX-License-Identifier: BSD-2-Clause */
#include "caller.h"

#include <stdlib.h>
#include <utlist.h>

static uint64_t now(const struct callers *c)
{
	return world_now(&c->world);
}

/* --- what an application does when it hears something ---------------------------------- */

static struct caller *caller_new(struct callers *c, struct node *node, struct cm_id *id)
{
	struct caller *caller = calloc(1, sizeof(*caller));

	must(caller);
	caller->callers = c;
	caller->node = node;
	caller->id = id;
	caller->local_id = id->local_id;
	caller->qpn = ++c->qpn;
	LL_PREPEND(c->head, caller);
	cm_id_set_context(id, caller);
	return caller;
}

static void accept_request(struct caller *caller)
{
	const struct cm_reply reply = {
		.qpn = caller->qpn,
		.responder_resources = REPLY_RESOURCES,
		.initiator_depth = REPLY_DEPTH,
		.rnr_retry_count = REPLY_RNR_RETRY,
		.private_data = "welcome",
		.private_length = sizeof("welcome"),
	};

	must(cm_send_rep(caller->id, &reply, now(caller->callers)) == 0);
}

static void answer_service(struct caller *caller)
{
	const struct cm_service_reply reply = {
		.status = CM_SIDR_SUCCESS,
		.qpn = caller->qpn,
		.qkey = SERVICE_QKEY,
		.private_data = "welcome",
		.private_length = sizeof("welcome"),
	};

	must(cm_send_sidr_rep(caller->id, &reply, now(caller->callers)) == 0);
}

static void answer_request(struct caller *caller, enum cm_event_type type)
{
	struct callers *c = caller->callers;

	switch (c->answer) {
	case ANSWER_ACCEPT:
		if (type == CM_EVENT_REQ_RECEIVED)
			accept_request(caller);
		else
			answer_service(caller);
		break;
	case ANSWER_REJECT:
		must(cm_send_rej(caller->id, CM_REJECT_CONSUMER, "no", 3, now(c)) == 0);
		break;
	case ANSWER_DESTROY:
		caller_destroy(caller);
		break;
	case ANSWER_NOTHING:
		break;
	}
}

static void note(struct caller *caller, const struct cm_event *event)
{
	must_msg(caller->count < CALLER_EVENTS, "too many events");
	caller->events[caller->count++] = event->type;
	caller->last = event->message;
	if (event->message.private_data[0])
		memcpy(caller->data, event->message.private_data, sizeof(caller->data));
	if (event->message.local_id)
		caller->peer = event->message.local_id;
}

static void on_connection(struct node *node, struct cm_event *event)
{
	struct callers *c = node->context;
	struct caller *caller = event->id->context;
	bool request =
		event->type == CM_EVENT_REQ_RECEIVED || event->type == CM_EVENT_SIDR_REQ_RECEIVED;

	must(request == (event->listener != NULL));
	if (request) {
		must(!caller && event->listener_context == c);
		caller = caller_new(c, node, event->id);
		caller->passive = true;
	}
	must(caller && caller->id == event->id);
	note(caller, event);
	if (request)
		answer_request(caller, event->type);
	else if (event->type == CM_EVENT_REP_RECEIVED && !c->no_rtu)
		must(cm_send_rtu(caller->id, now(c)) == 0);
	else if (event->type == CM_EVENT_DREQ_RECEIVED && !caller->silent)
		/* A DREP that crossed has ended it already, perhaps. */
		must(cm_send_drep(caller->id, now(c)) == 0 ||
		     cm_id_state(caller->id) == CM_STATE_TIMEWAIT);
}

/* --- for tests ----------------------------------------------------------------------------- */

void callers_create(struct callers *c, const struct sim_options *options, uint64_t seed)
{
	memset(c, 0, sizeof(*c));
	c->qpn = 100;
	world_create(&c->world, 2, options, seed);
	for (unsigned int i = 0; i < c->world.count; i++) {
		c->world.nodes[i].connection = on_connection;
		c->world.nodes[i].context = c;
	}
}

void callers_destroy(struct callers *c)
{
	struct caller *caller, *next;

	for (unsigned int i = 0; i < c->listener_count; i++) {
		if (c->listeners[i])
			cm_id_destroy(c->listeners[i], now(c));
	}
	LL_FOREACH_SAFE (c->head, caller, next) {
		caller_destroy(caller);
		free(caller);
	}
	world_destroy(&c->world);
}

static struct cm_id *listen_for(struct callers *c, unsigned int node,
				const struct cm_listen *listen)
{
	struct cm_id *id;

	must(cm_id_create(c->world.nodes[node].hca->cm, c, &id) == 0);
	must(cm_id_listen(id, listen) == 0);
	must(c->listener_count < sizeof(c->listeners) / sizeof(c->listeners[0]));
	c->listeners[c->listener_count++] = id;
	return id;
}

struct cm_id *callers_listen(struct callers *c, unsigned int node, uint64_t service)
{
	const struct cm_listen listen = {.service_id = service, .ipv4 = true, .ipv6 = true};

	return listen_for(c, node, &listen);
}

struct cm_id *callers_listen_datagram(struct callers *c, unsigned int node, uint64_t service)
{
	const struct cm_listen listen = {.service_id = service, .ipv4 = true, .datagram = true};

	return listen_for(c, node, &listen);
}

struct caller *caller_create(struct callers *c, unsigned int node)
{
	struct cm_id *id;

	must(cm_id_create(c->world.nodes[node].hca->cm, NULL, &id) == 0);
	return caller_new(c, &c->world.nodes[node], id);
}

struct cm_request caller_request(struct callers *c, unsigned int from, unsigned int to,
				 uint64_t service)
{
	return (struct cm_request){
		.path = {.source = c->world.nodes[from].gids.entries[0].gid,
			 .destination = c->world.nodes[to].gids.entries[0].gid,
			 .flow_label = 0x12345,
			 .hop_limit = 64},
		.service_id = service,
		.qp_type = IBV_QPT_RC,
		.responder_resources = REQUEST_RESOURCES,
		.initiator_depth = REQUEST_DEPTH,
		.retry_count = REQUEST_RETRY,
		.rnr_retry_count = REQUEST_RNR_RETRY,
		.mtu = IBV_MTU_1024,
		.packet_life_time = CM_PACKET_LIFE_TIME,
	};
}

struct caller *caller_connect(struct callers *c, unsigned int from, unsigned int to,
			      uint64_t service)
{
	struct cm_request request = caller_request(c, from, to, service);
	struct caller *caller = caller_create(c, from);

	request.qpn = caller->qpn;
	request.private_data = "please";
	request.private_length = sizeof("please");
	must(cm_send_req(caller->id, &request, now(c)) == 0);
	return caller;
}

struct caller *caller_resolve(struct callers *c, unsigned int from, unsigned int to,
			      uint64_t service)
{
	struct cm_request request = caller_request(c, from, to, service);
	struct caller *caller = caller_create(c, from);

	must(cm_send_sidr_req(caller->id, &request.path, service, "please", sizeof("please"),
			      now(c)) == 0);
	return caller;
}

struct caller *caller_peer(const struct caller *caller)
{
	struct caller *other;

	LL_FOREACH (caller->callers->head, other) {
		if (other->node == caller->node || other->passive == caller->passive)
			continue;
		if (other->passive ? other->peer == caller->local_id
				   : caller->peer == other->local_id)
			return other;
	}
	return NULL;
}

bool caller_heard(const struct caller *caller, int event)
{
	for (unsigned int i = 0; i < caller->count; i++) {
		if (caller->events[i] == event)
			return true;
	}
	return false;
}

void caller_expect(const struct caller *caller, const int *events)
{
	unsigned int i;

	for (i = 0; events[i] >= 0; i++)
		must_msg(i < caller->count && caller->events[i] == events[i],
			 "event %u is %d, not %d", i, i < caller->count ? caller->events[i] : -1,
			 events[i]);
	must_msg(i == caller->count, "%u events more", caller->count - i);
}

void caller_destroy(struct caller *caller)
{
	if (caller->id)
		cm_queue_destroy_id(&caller->node->cm_queue, caller->id, now(caller->callers));
	caller->id = NULL;
}
