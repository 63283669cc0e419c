/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The connection manager of an HCA: IBA chapter 12's protocol, as Linux speaks
 * it over QP 1. One struct cm_id is one side of a connection, a listener, or
 * one side of a service id resolution (SIDR). Sans-IO like the rest: messages
 * come from hca_progress(), time is handed in, events go out through a sink.
 *
 * Called by the verbs layer (verbs/rdma), by emu/cm/gsi (messages) and by hca_progress()
 * (deadlines). It knows nothing of rdma_cm's addresses and ports: those are
 * service ids and private data to it, which the verbs layer makes.
 *
 * cm.lock protects everything; it is taken inside each function below. Messages leave with it held,
 * as a QP's packets leave with the QP's: so they leave in order. It is never taken with a QP lock
 * held; under it that of a connection's QP is taken, and leaves. Events are delivered with it held,
 * too: so once cm_id_destroy() has returned none comes of that id. Leasing ids, and claiming and
 * releasing services, may wait for other processes (net/share/share.h): cm_id_create(),
 * cm_id_claim(), cm_id_listen() and cm_id_destroy() do that without cm.lock.
 */
#ifndef URXE_EMU_CM_H
#define URXE_EMU_CM_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>
#include <uthash.h>

#include "emu/cm/cm_message.h"
#include "emu/transport/timer.h"
#include "net/cm_text.h"
#include "net/link.h"

struct hca;
struct cm;

enum cm_event_type {
	CM_EVENT_REQ_RECEIVED, /* on a new id; event.listener is the one that matched */
	CM_EVENT_REQ_ERROR,    /* no answer came */
	CM_EVENT_REP_RECEIVED,
	CM_EVENT_REP_ERROR,
	CM_EVENT_RTU_RECEIVED,
	CM_EVENT_USER_ESTABLISHED, /* by cm_notify() */
	CM_EVENT_REJ_RECEIVED,
	CM_EVENT_MRA_RECEIVED,
	CM_EVENT_DREQ_RECEIVED,
	CM_EVENT_DREP_RECEIVED,
	CM_EVENT_DREQ_ERROR,
	CM_EVENT_TIMEWAIT_EXIT,
	CM_EVENT_LAP_RECEIVED,	    /* the QP has another alternate path */
	CM_EVENT_APR_RECEIVED,	    /* likewise, if its status is 0 */
	CM_EVENT_LAP_ERROR,	    /* no answer came */
	CM_EVENT_SIDR_REQ_RECEIVED, /* on a new id */
	CM_EVENT_SIDR_REP_RECEIVED,
	CM_EVENT_SIDR_REQ_ERROR,
	CM_EVENT_COUNT
};

struct cm_event {
	enum cm_event_type type;
	enum cm_state state; /* in which it found the id; of a new id its first one */
	struct cm_id *id;
	struct cm_id *listener; /* the two that make a new id, else NULL */
	void *listener_context;
	struct path path;	   /* back to the sender: source is ours */
	struct cm_message message; /* what caused it; zeros for the errors and for timewait */
};

/* What becomes of a new id. */
enum cm_verdict {
	CM_REQUEST_TAKEN,   /* it is the sink's from now on */
	CM_REQUEST_REFUSED, /* the request is rejected */
	CM_REQUEST_IGNORED, /* as if the request had been lost: the peer will send it again */
};

/*
 * Called by the thread in which an event arises, with cm.lock held, in the order of events. It may
 * call nothing of this header, and take only leaf locks; the state of the id moves when it returns.
 * Without a sink requests find no listener.
 */
struct cm_sink {
	void (*event)(void *context, const struct cm_event *event);
	enum cm_verdict (*request)(void *context, const struct cm_event *event); /* a new id */
	void *context;
};

/* Which inbound requests a listener takes, beyond the service id. */
struct cm_listen {
	uint64_t service_id;
	union ibv_gid gid; /* exactly this destination, or zeros: any of ... */
	bool ipv4, ipv6;   /* ... these families */
	bool datagram;	   /* SIDR_REQs rather than REQs */
};

#define CM_PACKET_LIFE_TIME 16 /* Linux: CMA_IBOE_PACKET_LIFETIME */

/* What the sender of a REQ decides; the rest is the CM's. */
struct cm_request {
	struct path path;
	const struct path *alternate; /* where the connection may migrate to, or NULL */
	uint64_t service_id;
	uint32_t qpn;
	enum ibv_qp_type qp_type; /* RC, UC or XRC_SEND */
	uint8_t responder_resources, initiator_depth;
	uint8_t retry_count, rnr_retry_count;
	uint8_t flow_control, srq;
	enum ibv_mtu mtu;
	uint8_t packet_life_time;    /* log2 of 4.096 us; gives the ACK timeout and the retries */
	uint32_t vendor_id, options; /* ECE */
	const void *private_data;
	uint8_t private_length;
};

struct cm_reply {
	uint32_t qpn;
	uint8_t responder_resources, initiator_depth;
	uint8_t rnr_retry_count;
	uint8_t flow_control, srq;
	uint32_t vendor_id, options;
	const void *private_data;
	uint8_t private_length;
};

struct cm_service_reply {
	enum cm_sidr_status status;
	uint32_t qpn, qkey;
	uint32_t vendor_id, options;
	const void *private_data;
	uint8_t private_length;
};

/* How a peer is recognised: by the comm id that it sent, or by its QP. */
struct cm_peer {
	union ibv_gid gid;
	uint64_t ca_guid;
	uint32_t number;   /* comm id, request id, or QP number */
	uint32_t datagram; /* SIDR: there is no CA GUID then */
};

/* What the QP's attributes follow from, as far as the exchange has settled it. */
struct cm_terms {
	enum ibv_qp_type qp_type;
	enum ibv_mtu mtu;
	uint32_t local_qpn, remote_qpn;
	uint32_t rq_psn, sq_psn;
	uint8_t responder_resources, initiator_depth;
	uint8_t retry_count, rnr_retry_count;
	uint8_t ack_timeout;
};

/* Where the connection may migrate to (IBA 17.2.8). */
struct cm_alternate {
	bool known;
	struct path path;
	uint8_t ack_timeout;
};

/* Members are the CM's; the sink may read them, for cm.lock is held then. */
struct cm_id {
	struct cm *cm;
	void *context;
	uint32_t local_id;   /* unique on this address (net/share/share.h) */
	uint32_t remote_id;  /* 0 until the peer has said it */
	enum cm_state state; /* by cm_set_state() */
	struct observe_connection *observed;
	bool passive;
	uint32_t peer_process; /* on this machine (net/share/share.h), or 0 */
	uint32_t record;       /* of a connection with another machine, there, or 0 */
	struct path path;      /* to the peer */
	struct cm_alternate alternate;
	bool lap_sent;		 /* and not answered yet */
	struct cm_alternate lap; /* what it asks for */
	uint16_t
		injected; /* the enum cm_reject_reason with which the REP is to be rejected, or 0 */
	struct cm_listen listen;
	struct cm_listen claim; /* among the processes on its address ... */
	bool claimed;		/* ... if there is one */
	struct cm_terms terms;

	uint64_t transaction; /* of the exchange in progress */
	uint64_t service_id;
	uint8_t mad[MAD_LENGTH]; /* sent last: copies are identical to the byte */
	struct timer timer;
	uint64_t deadline; /* of the message that waits for its answer, or of timewait */
	uint64_t interval; /* between copies ... */
	uint64_t wait;	   /* ... and what an MRA makes of it, for the message that waits */
	uint64_t asked;	   /* when the first copy was sent */
	uint8_t retries_left, max_retries;

	struct cm_peer peer_id, peer_qp;
	UT_hash_handle hh_id, hh_qp;		 /* by these two; .tbl is NULL when in neither */
	struct cm_id *prev, *next;		 /* all */
	struct cm_id *listen_prev, *listen_next; /* listeners */
	bool abandoned; /* destroyed: freed once its disconnect and timewait are over */
};

/* Part of every HCA: created and destroyed with it. */
int cm_create(struct hca *hca, const struct cm_sink *sink, uint64_t seed, struct cm **cm);
void cm_destroy(struct cm *cm);

/* Returns 0, ENOMEM. */
int cm_id_create(struct cm *cm, void *context, struct cm_id **id);

/*
 * Ends whatever is going on: a request unanswered is rejected, a connection is
 * disconnected (which goes on after the return).
 */
void cm_id_destroy(struct cm_id *id, uint64_t now);

/* For the next events. */
void cm_id_set_context(struct cm_id *id, void *context);

enum cm_state cm_id_state(struct cm_id *id);

/*
 * Let no other process on these addresses have the service, until @id is destroyed;
 * this one need not listen yet. 0; EADDRINUSE: another process has it on the same address;
 * EADDRNOTAVAIL: one of the two claims is for any address; ENOSPC.
 */
int cm_id_claim(struct cm_id *id, const struct cm_listen *listen);

/*
 * Claims the service, too, where that wasn't done. EADDRINUSE: another listener of
 * this HCA has the same service id and an overlapping address.
 */
int cm_id_listen(struct cm_id *id, const struct cm_listen *listen);

/*
 * The messages. EINVAL in a state that doesn't send it, or for private data
 * that is too long. They return when the message has left. librdmacm has no call for an MRA, which
 * the connection manager sends by itself, or for a LAP.
 */
int cm_send_req(struct cm_id *id, const struct cm_request *request, uint64_t now);
int cm_send_rep(struct cm_id *id, const struct cm_reply *reply, uint64_t now);
int cm_send_rtu(struct cm_id *id, uint64_t now);
int cm_send_rej(struct cm_id *id, enum cm_reject_reason reason, const void *private_data,
		uint8_t length, uint64_t now);
int cm_send_mra(struct cm_id *id, uint8_t service_timeout, uint64_t now);
int cm_send_dreq(struct cm_id *id, uint64_t now);
int cm_send_drep(struct cm_id *id, uint64_t now);
/*
 * Another alternate path for both QPs (IBA 12.8), to be armed once the peer agrees. EINVAL, too,
 * while it hasn't answered the one before.
 */
int cm_send_lap(struct cm_id *id, const struct path *path, uint8_t packet_life_time, uint64_t now);
int cm_send_sidr_req(struct cm_id *id, const struct path *path, uint64_t service_id,
		     const void *private_data, uint8_t length, uint64_t now);
int cm_send_sidr_rep(struct cm_id *id, const struct cm_service_reply *reply, uint64_t now);

/* Data arrived on the QP before the RTU (IBA 12.9.8.3.1). EISCONN, or EINVAL before the REP. */
int cm_notify(struct cm_id *id);

/*
 * The attributes that the QP of this connection needs to get into
 * @attr->qp_state (INIT, RTR, RTS), and their mask. EINVAL when the
 * exchange hasn't got so far.
 */
int cm_qp_attr(struct cm_id *id, struct ibv_qp_attr *attr, int *mask);

/* The type of QP that @req asks the passive side for; -1: one that there isn't. */
int cm_req_qp_type(const struct cm_message *req);

/* The ACK timeout of a path of @packet_life_time to a CA of @ca_ack_delay, as Linux rounds it. */
uint8_t cm_ack_timeout(uint8_t ca_ack_delay, uint8_t packet_life_time);

/* --- for hca and gsi ----------------------------------------------------------- */

/*
 * A message to QP 1. @frame is the packet it came in, which is forwarded when the
 * message is for another HCA on this address (net/share/share.h).
 */
void cm_receive(struct cm *cm, const struct cm_message *message, const struct link_frame *frame,
		uint64_t now);

/*
 * The process ends, and with it what retransmits and answers for us: end what is
 * going on, and say what ends it more than once. Takes cm.lock by hca_host.lock_at_exit.
 */
void cm_flush_on_exit(struct cm *cm, uint64_t now);

/* Retransmissions, timeouts and timewaits that are due. Returns whether there were any. */
bool cm_run(struct cm *cm, uint64_t now);
uint64_t cm_deadline(struct cm *cm);

#endif
