/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/verbs/any_calls.h"

#include <errno.h>
#include <stdio.h>

#include "tests/verbs/newer_manager.h"

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

const char *model_state_name(enum model_state state)
{
	static const char *const names[MODEL_STATES] = {
		"IDLE",	    "BOUND",	   "BOUND_ANY",	    "RESOLVING",    "RESOLVED",
		"ROUTING",  "ROUTED",	   "CONNECTING",    "RESPONDED",    "REQUESTED",
		"ACCEPTED", "ESTABLISHED", "DISCONNECTING", "DISCONNECTED", "TIMEWAIT_OVER",
		"FAILED",   "SERVED",	   "LOOKED_UP",	    "LISTENING",
	};

	return names[state];
}

const char *model_call_name(enum model_call call)
{
	static const char *const names[MODEL_CALLS] = {
		"bind",	      "bind_any",   "resolve_addr", "resolve_route", "connect",
		"listen",     "accept",	    "reject",	    "establish",     "notify",
		"disconnect", "create_qp",  "destroy_qp",   "reuse_address", "family_only",
		"join",	      "leave",	    "user_event",   "migrate",	     "get_request",
		"set_path",   "create_srq", "destroy_srq",
	};

	return names[call];
}

/* --- results of calls ------------------------------------------------------------------- */

/*
 * Of states; 0 is allowed in @works, EINVAL in @refused. What the peer does decides where both are.
 */
#define IN(state) (1u << (state))
#define ALL (IN(MODEL_STATES) - 1)
#define UNBOUND IN(IDLE)
#define WITHOUT_DEVICE (IN(IDLE) | IN(BOUND_ANY))
/* There is something of the connection manager. */
#define CONNECTED_ONCE                                                                             \
	(IN(CONNECTING) | IN(RESPONDED) | IN(REQUESTED) | IN(ACCEPTED) | IN(ESTABLISHED) |         \
	 IN(DISCONNECTING) | IN(DISCONNECTED) | IN(TIMEWAIT_OVER) | IN(FAILED) | IN(SERVED) |      \
	 IN(LOOKED_UP))

static const struct {
	uint32_t works, refused;
} results[MODEL_CALLS] = {
	[CALL_BIND] = {UNBOUND, ALL & ~UNBOUND},
	[CALL_BIND_ANY] = {UNBOUND, ALL & ~UNBOUND},
	[CALL_RESOLVE_ADDR] = {WITHOUT_DEVICE | IN(BOUND), ALL & ~(WITHOUT_DEVICE | IN(BOUND))},
	[CALL_RESOLVE_ROUTE] = {IN(RESOLVED), ALL & ~IN(RESOLVED)},
	[CALL_CONNECT] = {IN(ROUTED), ALL & ~IN(ROUTED)},
	[CALL_LISTEN] = {WITHOUT_DEVICE | IN(BOUND), ALL & ~(WITHOUT_DEVICE | IN(BOUND))},
	[CALL_ACCEPT] = {IN(REQUESTED), ALL},
	[CALL_REJECT] = {IN(REQUESTED) | IN(ACCEPTED) | IN(RESPONDED), ALL},
	[CALL_ESTABLISH] = {IN(RESPONDED) | IN(CONNECTING), ALL},
	[CALL_NOTIFY] = {IN(ACCEPTED), ALL},
	/* Listening at an address of a device it succeeds, at any address it does not. */
	[CALL_DISCONNECT] = {CONNECTED_ONCE | IN(LISTENING), ALL & ~CONNECTED_ONCE},
	[CALL_CREATE_QP] = {ALL & ~WITHOUT_DEVICE, WITHOUT_DEVICE | CONNECTED_ONCE | IN(LISTENING)},
	[CALL_DESTROY_QP] = {ALL, 0},
	[CALL_REUSE_ADDRESS] = {ALL & ~IN(LISTENING), IN(LISTENING)},
	[CALL_FAMILY_ONLY] = {WITHOUT_DEVICE | IN(BOUND), ALL & ~(WITHOUT_DEVICE | IN(BOUND))},
	[CALL_JOIN] = {IN(BOUND) | IN(RESOLVING) | IN(RESOLVED), ALL & ~(IN(BOUND) | IN(RESOLVED))},
	[CALL_LEAVE] = {ALL, 0},
	[CALL_USER_EVENT] = {ALL, 0},
	[CALL_MIGRATE] = {ALL, 0},
	[CALL_GET_REQUEST] = {IN(LISTENING), ALL & ~IN(LISTENING)},
	[CALL_SET_PATH] = {IN(RESOLVED), ALL & ~IN(RESOLVED)},
	[CALL_CREATE_SRQ] = {ALL & ~WITHOUT_DEVICE, WITHOUT_DEVICE | IN(LISTENING)},
	[CALL_DESTROY_SRQ] = {ALL, 0},
};

static bool may_return(const struct model *model, enum model_call call, int error)
{
	const bool works = results[call].works & IN(model->state);

	if (call == CALL_CREATE_QP && model->has_qp)
		return error == EINVAL;
	if (call == CALL_CREATE_SRQ && model->has_srq)
		return error == EINVAL;
	if (call == CALL_ESTABLISH && model->has_qp)
		return error == EINVAL;
	if (call == CALL_JOIN && !model->datagram)
		return error == EINVAL;
	if (call == CALL_GET_REQUEST && !model->synchronous)
		return error == EINVAL;
	/* The peer has given up: a queue pair isn't moved to INIT any more. */
	if (call == CALL_GET_REQUEST && model->requests_have_qp && error == EINVAL)
		return true;
	/* The groups are of IPv4. */
	if (call == CALL_JOIN && model->family == MODEL_IPV6 && works)
		return error == ENODEV || (error == EINVAL && model->state == RESOLVING);
	if (call == CALL_LEAVE && !model->groups)
		return error == EADDRNOTAVAIL;
	if (call == CALL_NOTIFY && error == EISCONN)
		return model->state == ACCEPTED || model->state == ESTABLISHED;
	return error ? error == EINVAL && results[call].refused & IN(model->state) : works;
}

/* Where a call that has worked leads to. */
static const struct {
	enum model_call call;
	enum model_state from, to;
} moves[] = {
	{CALL_BIND, IDLE, BOUND},
	{CALL_BIND_ANY, IDLE, BOUND_ANY},
	{CALL_RESOLVE_ADDR, IDLE, RESOLVING},
	{CALL_RESOLVE_ADDR, BOUND, RESOLVING},
	{CALL_RESOLVE_ADDR, BOUND_ANY, RESOLVING},
	{CALL_LISTEN, IDLE, LISTENING},
	{CALL_LISTEN, BOUND, LISTENING},
	{CALL_LISTEN, BOUND_ANY, LISTENING},
	{CALL_RESOLVE_ROUTE, RESOLVED, ROUTING},
	{CALL_SET_PATH, RESOLVED, ROUTING},
	{CALL_CONNECT, ROUTED, CONNECTING},
	{CALL_ACCEPT, REQUESTED, ACCEPTED},
	{CALL_ESTABLISH, RESPONDED, ESTABLISHED},
	{CALL_DISCONNECT, ESTABLISHED, DISCONNECTING},
	{CALL_REJECT, REQUESTED, FAILED},
};

static void move(struct model *model, enum model_call call)
{
	for (unsigned int i = 0; i < LENGTH(moves); i++) {
		if (moves[i].call == call && moves[i].from == model->state) {
			model->state = moves[i].to;
			break;
		}
	}
}

static void take_success(struct model *model, enum model_call call)
{
	const enum model_state before = model->state;

	if (!model->datagram || call != CALL_DISCONNECT)
		move(model, call);
	switch (call) {
	case CALL_ACCEPT:
		if (model->datagram)
			model->state = SERVED;
		break;
	case CALL_ESTABLISH:
		model->answered = before == CONNECTING;
		break;
	case CALL_REJECT:
		if (before != REQUESTED)
			model->rejected = true;
		break;
	case CALL_DISCONNECT:
		model->broken |= model->has_qp;
		model->ends = before == DISCONNECTED;
		break;
	case CALL_CREATE_QP:
		model->has_qp = true;
		model->broken = false;
		break;
	case CALL_DESTROY_QP:
		model->has_qp = false;
		break;
	case CALL_CREATE_SRQ:
		model->has_srq = true;
		break;
	case CALL_DESTROY_SRQ:
		model->has_srq = false;
		break;
	case CALL_JOIN:
		model->groups++;
		model->group_events++;
		break;
	case CALL_LEAVE: /* events that weren't got are dropped, those of the first group first */
		model->groups--;
		if (model->group_events > model->groups)
			model->group_events = model->groups;
		break;
	case CALL_USER_EVENT:
		model->user_events++;
		break;
	default:
		break;
	}
}

bool model_take_result(struct model *model, enum model_call call, int error)
{
	if (!may_return(model, call, error))
		return false;
	if (!error)
		take_success(model, call);
	else if (call == CALL_ACCEPT && model->state == REQUESTED && model->has_qp)
		model->broken = true; /* on its way to RTS, perhaps */
	return true;
}

/* --- events ------------------------------------------------------------------------------ */

static const struct {
	enum rdma_cm_event_type type;
	enum model_state from, to;
} transitions[] = {
	{RDMA_CM_EVENT_ADDR_RESOLVED, RESOLVING, RESOLVED},
	{RDMA_CM_EVENT_ROUTE_RESOLVED, ROUTING, ROUTED},
	{RDMA_CM_EVENT_CONNECT_RESPONSE, CONNECTING, RESPONDED},
	{RDMA_CM_EVENT_ESTABLISHED, CONNECTING, ESTABLISHED},
	{RDMA_CM_EVENT_REJECTED, CONNECTING, FAILED},
	{RDMA_CM_EVENT_CONNECT_ERROR, CONNECTING, FAILED},
	{RDMA_CM_EVENT_REJECTED, RESPONDED, FAILED},
	{RDMA_CM_EVENT_ESTABLISHED, ACCEPTED, ESTABLISHED},
	{RDMA_CM_EVENT_REJECTED, ACCEPTED, FAILED},
	{RDMA_CM_EVENT_DISCONNECTED, ACCEPTED, DISCONNECTED},
	{RDMA_CM_EVENT_DISCONNECTED, ESTABLISHED, DISCONNECTED},
	{RDMA_CM_EVENT_DISCONNECTED, DISCONNECTING, DISCONNECTED},
	/* One side has sent its RTU, or was told by rdma_notify(), and the other one gives up. */
	{RDMA_CM_EVENT_REJECTED, ESTABLISHED, FAILED},
	{RDMA_CM_EVENT_REJECTED, DISCONNECTING, FAILED},
	{RDMA_CM_EVENT_TIMEWAIT_EXIT, DISCONNECTED, TIMEWAIT_OVER},
};

static _Atomic unsigned int taken[LENGTH(transitions)];

void model_print_coverage(void)
{
	for (unsigned int i = 0; i < LENGTH(transitions); i++)
		fprintf(stderr, "%6u %s at %s\n", taken[i], rdma_event_str(transitions[i].type),
			model_state_name(transitions[i].from));
}

static bool take_datagram_event(struct model *model, enum rdma_cm_event_type type, int status)
{
	if (type == RDMA_CM_EVENT_MULTICAST_JOIN && status == 0 && model->group_events) {
		model->group_events--;
		return true;
	}
	if (model->state != CONNECTING)
		return false;
	if (type == RDMA_CM_EVENT_UNREACHABLE && (status == 1 || status == 2)) {
		model->state = FAILED; /* IBA table 121: no such service, or rejected */
		return true;
	}
	if (type != RDMA_CM_EVENT_ESTABLISHED || status != 0)
		return false;
	model->state = LOOKED_UP;
	return true;
}

static bool fits(const struct model *model, enum rdma_cm_event_type type, int status)
{
	switch (type) {
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
		return status == 0 && !model->has_qp;
	case RDMA_CM_EVENT_ESTABLISHED:
		return status == 0 &&
		       (model->state != CONNECTING || (model->has_qp && !model->broken));
	case RDMA_CM_EVENT_CONNECT_ERROR:
		return status < 0 && model->has_qp;
	case RDMA_CM_EVENT_REJECTED:
		return status > 0;
	default:
		return status == 0;
	}
}

bool model_take_event(struct model *model, enum rdma_cm_event_type type, int status)
{
	if (type == NEWER_EVENT_USER) {
		if (!model->user_events)
			return false;
		model->user_events--;
		return true;
	}
	if (model->datagram && type != RDMA_CM_EVENT_ADDR_RESOLVED &&
	    type != RDMA_CM_EVENT_ROUTE_RESOLVED)
		return take_datagram_event(model, type, status);
	for (unsigned int i = 0; i < LENGTH(transitions); i++) {
		if (transitions[i].type != type || transitions[i].from != model->state)
			continue;
		if (!fits(model, type, status))
			return false;
		taken[i]++;
		model->state = transitions[i].to;
		if (model->state == RESPONDED && model->answered)
			model->state = ESTABLISHED;
		return true;
	}
	return false;
}

bool model_awaits(const struct model *model)
{
	if (model->user_events || model->group_events)
		return true;
	if (model->rejected)
		return false;
	switch (model->state) {
	case RESOLVING:
	case ROUTING:
	case CONNECTING:
	case ACCEPTED:
	case DISCONNECTING:
		return true;
	case DISCONNECTED:
		return model->ends;
	default:
		return false;
	}
}

/* --- what to try --------------------------------------------------------------------------- */

enum model_call model_next_call(const struct model *model, uint64_t random)
{
	static const enum model_call onwards[MODEL_STATES][4] = {
		[IDLE] = {CALL_RESOLVE_ADDR, CALL_BIND, CALL_RESOLVE_ADDR, CALL_BIND_ANY},
		[BOUND] = {CALL_LISTEN, CALL_LISTEN, CALL_RESOLVE_ADDR, CALL_CREATE_QP},
		[BOUND_ANY] = {CALL_LISTEN, CALL_LISTEN, CALL_RESOLVE_ADDR, CALL_BIND},
		[RESOLVING] = {CALL_CREATE_QP, CALL_JOIN, CALL_USER_EVENT, CALL_CREATE_SRQ},
		[RESOLVED] = {CALL_RESOLVE_ROUTE, CALL_CREATE_QP, CALL_JOIN, CALL_SET_PATH},
		[ROUTING] = {CALL_CREATE_QP, CALL_CREATE_QP, CALL_MIGRATE, CALL_CREATE_SRQ},
		[ROUTED] = {CALL_CONNECT, CALL_CREATE_QP, CALL_CONNECT, CALL_CREATE_SRQ},
		[CONNECTING] = {CALL_MIGRATE, CALL_USER_EVENT, CALL_NOTIFY, CALL_CREATE_SRQ},
		[RESPONDED] = {CALL_ESTABLISH, CALL_ESTABLISH, CALL_REJECT, CALL_ESTABLISH},
		[REQUESTED] = {CALL_ACCEPT, CALL_CREATE_QP, CALL_ACCEPT, CALL_CREATE_SRQ},
		[ACCEPTED] = {CALL_NOTIFY, CALL_USER_EVENT, CALL_MIGRATE, CALL_DESTROY_SRQ},
		[ESTABLISHED] = {CALL_DISCONNECT, CALL_NOTIFY, CALL_NOTIFY, CALL_DESTROY_SRQ},
		[DISCONNECTING] = {CALL_DISCONNECT, CALL_DESTROY_QP, CALL_MIGRATE,
				   CALL_DESTROY_SRQ},
		[DISCONNECTED] = {CALL_DISCONNECT, CALL_DESTROY_QP, CALL_MIGRATE, CALL_DESTROY_SRQ},
		[TIMEWAIT_OVER] = {CALL_DISCONNECT, CALL_CONNECT, CALL_ACCEPT, CALL_SET_PATH},
		[FAILED] = {CALL_CONNECT, CALL_DISCONNECT, CALL_RESOLVE_ADDR, CALL_CONNECT},
		[SERVED] = {CALL_REJECT, CALL_ACCEPT, CALL_DISCONNECT, CALL_CREATE_SRQ},
		[LOOKED_UP] = {CALL_DISCONNECT, CALL_CONNECT, CALL_JOIN, CALL_DESTROY_SRQ},
		[LISTENING] = {CALL_USER_EVENT, CALL_MIGRATE, CALL_GET_REQUEST, CALL_GET_REQUEST},
	};

	if (random % 8 == 0)
		return (random >> 8) % MODEL_CALLS;
	return onwards[model->state][(random >> 8) % 4];
}
