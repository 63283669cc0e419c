/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What an application that has made these calls, and has got these events, knows of its rdma_cm id:
 * a model, with tables of what each call may return in each state and which events may come. For
 * random lists of calls (test_any_calls.c).
 */
#ifndef URXE_TESTS_ANY_CALLS_H
#define URXE_TESTS_ANY_CALLS_H

#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>

enum model_state {
	IDLE,
	BOUND,	   /* to an address of the device */
	BOUND_ANY, /* to any: it has no device */
	RESOLVING, /* the event hasn't been got yet, here and in what follows */
	RESOLVED,
	ROUTING,
	ROUTED,
	CONNECTING,
	RESPONDED, /* CONNECT_RESPONSE: it has no queue pair */
	REQUESTED, /* the id of a CONNECT_REQUEST */
	ACCEPTED,
	ESTABLISHED,
	DISCONNECTING,
	DISCONNECTED,
	TIMEWAIT_OVER,
	FAILED,	   /* REJECTED, CONNECT_ERROR, UNREACHABLE, or rejected by ourselves */
	SERVED,	   /* datagrams: the request was answered */
	LOOKED_UP, /* datagrams: ESTABLISHED of the one that asked */
	LISTENING,
	MODEL_STATES
};

enum model_family { MODEL_IPV4, MODEL_IPV6, MODEL_IB, MODEL_FAMILIES };

/* What an id is for: its port space, and of InfiniBand's one the type of queue pair. */
enum model_space { SPACE_TCP, SPACE_UDP, SPACE_IB, SPACE_XRC, MODEL_SPACES };

enum model_call {
	CALL_BIND,
	CALL_BIND_ANY,
	CALL_RESOLVE_ADDR,
	CALL_RESOLVE_ROUTE,
	CALL_CONNECT,
	CALL_LISTEN,
	CALL_ACCEPT,
	CALL_REJECT,
	CALL_ESTABLISH,
	CALL_NOTIFY,
	CALL_DISCONNECT,
	CALL_CREATE_QP,
	CALL_DESTROY_QP,
	CALL_REUSE_ADDRESS,
	CALL_FAMILY_ONLY,
	CALL_JOIN,
	CALL_LEAVE,
	CALL_USER_EVENT,
	CALL_MIGRATE,
	CALL_GET_REQUEST, /* of a synchronous id, that has one */
	CALL_SET_PATH,	  /* RDMA_OPTION_IB_PATH, instead of resolving the route */
	CALL_CREATE_SRQ,
	CALL_DESTROY_SRQ,
	MODEL_CALLS
};

struct model {
	enum model_state state;
	enum model_space space;
	enum model_family family;
	bool datagram, synchronous;
	bool has_qp, has_srq;
	bool broken;   /* the queue pair is in ERR, so that no connection comes of it */
	bool answered; /* it was established before CONNECT_RESPONSE was got */
	bool rejected; /* by ourselves while connecting: what had come before may be told yet */
	bool ends;     /* the disconnect was answered: TIMEWAIT_EXIT comes */
	unsigned int user_events; /* that are still to come */
	unsigned int groups, group_events;
	bool requests_have_qp; /* rdma_create_ep() has given what to make them of */
};

const char *model_state_name(enum model_state state);
const char *model_call_name(enum model_call call);

/* What of calls brings an id on; the others are tried as well. */
enum model_call model_next_call(const struct model *model, uint64_t random);

/*
 * @call has returned 0, or failed with @error: whether it may have, and what follows from it.
 */
bool model_take_result(struct model *model, enum model_call call, int error);
/* The application got an event. Returns whether it may have come. */
bool model_take_event(struct model *model, enum rdma_cm_event_type type, int status);
/* Whether an event has to come, whatever the peer's application does from now on. */
bool model_awaits(const struct model *model);

/* How often each event came in each state, to stderr. */
void model_print_coverage(void);

#endif
