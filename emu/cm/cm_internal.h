/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the files of the connection manager share: cm (ids, messages out), cm_listen (listeners),
 * cm_timer (what is due), cm_peer (ids by their peer), cm_event (events to the sink), cm_exchange
 * (what the application sends), cm_receive (what the peer has sent), cm_sidr (service ids of
 * datagram QPs), cm_cause (why something fails), cm_alternate (alternate paths), cm_pending
 * (requests before their listener), cm_watch (peers that die), cm_qp (a QP's attributes). cm.lock
 * is held in all of these functions unless they say otherwise.
 */
#ifndef URXE_EMU_CM_INTERNAL_H
#define URXE_EMU_CM_INTERNAL_H

#include <errno.h>
#include <stdatomic.h>

#include "emu/cm/cm.h"
#include "emu/cm/cm_cause.h"
#include "emu/objects/table.h"

#define CM_TRANSACTION_AGENT (UINT64_C(1) << 32) /* any upper half will do */

#define CM_RESPONSE_TIMEOUT 20 /* 4.3 s; Linux: CMA_CM_RESPONSE_TIMEOUT */

struct cm {
	struct hca *hca;
	pthread_mutex_t lock;
	struct table ids; /* by the index in their comm id */
	struct cm_id *all;
	struct cm_id *listeners;
	struct cm_id *by_id, *by_qp; /* uthash: by the peer's comm id, and its QP */
	struct timer_heap timers;
	struct cm_pending *pending_requests; /* requests that have no listener yet */
	unsigned int pending_count;
	bool pending_expired; /* the one being dispatched has waited long enough */
	_Atomic uint64_t pending_deadline;
	_Atomic uint64_t watch_deadline; /* when to look whether peers live; TIME_NEVER: none */
	uint64_t random;

	struct cm_sink sink;
};

/* For tables: a set of states has a bit for each, and rows by message begin with REQ. */
#define STATE(name) (1u << CM_STATE_##name)
#define ON(message) [CM_##message - CM_REQ]

static inline bool cm_is_in(const struct cm_id *id, uint32_t states)
{
	return states >> id->state & 1;
}

/* --- cm.c --------------------------------------------------------------------------- */

/* A new id, in state IDLE. NULL without memory. */
struct cm_id *cm_id_new(struct cm *cm, void *context);

/* The id with @local_id, or NULL; and that with the index @index in the table of ids. */
struct cm_id *cm_id_find(struct cm *cm, uint32_t local_id);
struct cm_id *cm_id_at(struct cm *cm, uint32_t index);

/* Other processes see it, with what the exchange has settled so far. */
void cm_set_state(struct cm_id *id, enum cm_state state);

/* End what is going on: the peer gets a message, the sink no event. The id is freed, in the end. */
void cm_abandon(struct cm_id *id, uint64_t now);
/* Free @id, as if the request that made it had been lost: the peer will send it again. */
void cm_ignore(struct cm_id *id);
/* The application has heard of a request, and not answered it. */
bool cm_is_unanswered_request(const struct cm_id *id);
/* Free @id if it is abandoned and idle. */
void cm_reap(struct cm_id *id);

/* --- cm_listen.c ---------------------------------------------------------------------- */

/* The listener for a request to @service_id at @gid, or NULL. */
struct cm_id *cm_find_listener(struct cm *cm, uint64_t service_id, const union ibv_gid *gid,
			       bool datagram);
/* @id listens no more, if it does. */
void cm_stop_listening(struct cm_id *id);
/* End its claim, if there is one. Without cm.lock. */
void cm_disclaim(struct cm_id *id);

/* --- cm_timer.c ----------------------------------------------------------------------- */

/* IBA 12.7.1 and others: 4.096 us times two to the power of @exponent, as Linux rounds it; ns. */
uint64_t cm_duration(uint8_t exponent);

/* Have cm_run() look at @id at @time; TIME_NEVER: no more. */
void cm_set_deadline(struct cm_id *id, uint64_t time);

/* Take the answer to what @id has sent for lost: its exchange ends as after the last retry. */
void cm_give_up(struct cm_id *id, uint64_t now);

/* Nothing is left of the exchange. */
void cm_enter_idle(struct cm_id *id);
/* IBA 12.9.8.6: what is still on its way mustn't be taken for a new connection's. */
void cm_enter_timewait(struct cm_id *id, uint64_t now);

/* --- cm.c: messages out --------------------------------------------------------------- */

/* The beginning of @message, from @id to its peer. */
void cm_begin(const struct cm_id *id, struct cm_message *message, uint16_t attribute);

/* 0, or EINVAL when @attribute has less space. */
int cm_set_private(struct cm_message *message, const void *data, uint8_t length);

/* Send @message to the peer of @id, and keep it. */
void cm_post(struct cm_id *id, const struct cm_message *message, uint64_t now);
/* The same, again and again until something answers. */
void cm_post_waiting(struct cm_id *id, const struct cm_message *message, uint64_t now);
/* Send what was sent last once more. */
void cm_retransmit(struct cm_id *id, uint64_t now);

/* The beginning of an answer to @message where there is no id: each names the other side's. */
static inline struct cm_message cm_answer_to(const struct cm_message *message, uint16_t attribute)
{
	return (struct cm_message){
		.attribute = attribute,
		.transaction = message->transaction,
		.local_id = message->remote_id,
		.remote_id = message->local_id,
	};
}

/* Answer @frame without an id. */
void cm_answer(struct cm *cm, const struct link_frame *frame, const struct cm_message *message,
	       uint64_t now);

/* The way back to the sender of @frame. */
void cm_path_back(const struct link_frame *frame, struct path *path);

/* --- cm_exchange.c ------------------------------------------------------------------ */

/* Whether the state of @id allows @message. */
bool cm_may_send(const struct cm_id *id, enum cm_attribute message);

/* Each sends its message and moves the state, or returns EINVAL in a state that doesn't send it. */
int cm_mra(struct cm_id *id, uint8_t service_timeout, uint64_t now);
int cm_reject(struct cm_id *id, enum cm_reject_reason reason, const void *private_data,
	      uint8_t length, uint64_t now);
int cm_disconnect(struct cm_id *id, uint64_t now);
int cm_confirm_disconnect(struct cm_id *id, uint64_t now);
/* DREP without moving the state. */
void cm_retransmit_drep(struct cm_id *id, uint64_t transaction, uint64_t now);
/* RTU once more, whatever was sent since. */
void cm_retransmit_rtu(struct cm_id *id, uint64_t transaction, uint64_t now);

/* --- cm_alternate.c ------------------------------------------------------------------- */

/* A path of ours as REQ and LAP describe it. */
void cm_describe_path(const struct cm_id *id, const struct path *path, uint8_t packet_life_time,
		      struct cm_path *described);
/* Whether a REQ has an alternate path. */
bool cm_has_alternate(const struct cm_message *req);
/* The path that the peer describes, from here. False: it doesn't lead here, or can't carry @mtu. */
bool cm_take_alternate(struct cm *cm, const struct cm_path *described, enum ibv_mtu mtu,
		       struct cm_alternate *alternate);
/* The attributes that begin with alt_. */
void cm_alternate_attr(const struct cm *cm, const struct cm_alternate *alternate,
		       struct ibv_qp_attr *attr);

/* Ask the peer for another alternate path; EINVAL as cm_send_lap(). */
int cm_lap(struct cm_id *id, const struct path *path, uint8_t packet_life_time, uint64_t now);
/* The peer asks for one: load it if it is possible, raise the event, and answer with an APR. */
void cm_lap_received(struct cm_id *id, const struct cm_message *lap, const struct link_frame *frame,
		     uint64_t now);
/* The peer has answered @id's LAP: load the path, or forget it; and raise the event. */
void cm_apr_received(struct cm_id *id, const struct cm_message *apr, const struct link_frame *frame,
		     uint64_t now);
/* No APR comes to @id's LAP, if it has sent one: forget the path, and raise the event. */
void cm_lap_unanswered(struct cm_id *id, uint64_t now);
/* Send the APR to @lap, also where no id is. */
void cm_answer_lap(struct cm *cm, const struct cm_message *lap, const struct link_frame *frame,
		   enum cm_apr_status status, uint64_t now);

/* --- cm_receive.c ------------------------------------------------------------------- */

/*
 * @message, which came in @frame, to the id that it is for, by the table of states and messages;
 * or to another process that shares the address; or answered without an id. An id may be freed.
 */
void cm_dispatch(struct cm *cm, const struct cm_message *message, const struct link_frame *frame,
		 uint64_t now);

/* --- cm_pending.c --------------------------------------------------------------------- */

/* Keep a request that has no listener. Returns false when it is to be refused now. */
bool cm_pending_add(struct cm *cm, const struct cm_message *message, const struct link_frame *frame,
		    uint64_t now);
/* Its sender has given it up: @rej is for no id that there is. */
void cm_pending_withdraw(struct cm *cm, const struct cm_message *rej,
			 const struct link_frame *frame, uint64_t now);
/* A peer refuses @id's request at once: send it again soon. False: that has gone on long enough. */
bool cm_retry_after_reject(struct cm_id *id, uint64_t now);
/* There is another listener: look with the next round which of them are for it. */
void cm_pending_look(struct cm *cm);
void cm_pending_run(struct cm *cm, uint64_t now);
void cm_pending_free(struct cm *cm);

/* --- cm_watch.c ----------------------------------------------------------------------- */

/* There is an id: so look for what dead processes left, from now on. */
void cm_watch_begin(struct cm *cm);
/* @id has heard of its peer for the first time: know its process, if that is of this machine. */
void cm_watch_find_peer(struct cm_id *id);
/*
 * @id is established from now on: if its peer is a process of this machine, notice its death;
 * if not, see to it that the peer is told of ours. Until it ends.
 */
void cm_watch_peer(struct cm_id *id);
void cm_watch_end(struct cm_id *id);
void cm_watch_run(struct cm *cm, uint64_t now);

/* --- cm_sidr.c ---------------------------------------------------------------------- */

/* The sender of a SIDR_REQ, by which its duplicates are recognised. */
struct cm_peer cm_requester(const struct link_frame *frame, const struct cm_message *request);
void cm_sidr_request_received(struct cm *cm, const struct cm_message *message,
			      const struct link_frame *frame, uint64_t now);
void cm_sidr_reply_received(struct cm_id *id, const struct cm_message *reply,
			    const struct link_frame *frame, uint64_t now);
int cm_sidr_request(struct cm_id *id, const struct path *path, uint64_t service_id,
		    const void *private_data, uint8_t length, uint64_t now);
int cm_sidr_reply(struct cm_id *id, const struct cm_service_reply *reply, uint64_t now);

/* --- cm_qp.c ------------------------------------------------------------------------ */

/* What a REQ, and a REP of @id, says of the sender's QP; and what @rep, which @id gets, does. */
void cm_set_req_qp(struct cm_message *req, const struct cm_request *request);
void cm_set_rep_qp(const struct cm_id *id, struct cm_message *rep, const struct cm_reply *reply);
uint32_t cm_rep_qpn(const struct cm_id *id, const struct cm_message *rep);

/* --- cm_peer.c ---------------------------------------------------------------------- */

/* Each returns the id that @peer has, or NULL. */
struct cm_id *cm_peer_find_id(struct cm *cm, const struct cm_peer *peer);
struct cm_id *cm_peer_find_qp(struct cm *cm, const struct cm_peer *peer);
/* Let @id be found by @peer, by which none is yet. 0 or ENOMEM. */
int cm_peer_add_id(struct cm_id *id, const struct cm_peer *peer);
int cm_peer_add_qp(struct cm_id *id, const struct cm_peer *peer);
void cm_peer_remove_id(struct cm_id *id);
void cm_peer_remove_qp(struct cm_id *id);

/* --- cm_cause.c --------------------------------------------------------------------- */

/* A request came that no process here listens for. */
void cm_report_no_listener(const struct cm *cm, const struct cm_message *request,
			   const struct link_frame *frame);
/* Before the state of @id moves: the peer's @rej or SIDR_REP refuses what it sent. */
void cm_report_rejected(const struct cm_id *id, const struct cm_message *rej);
void cm_report_sidr_rejected(const struct cm_id *id, const struct cm_message *reply);
/* Likewise: @message is given up. */
void cm_report_unanswered(const struct cm_id *id, enum cause cause, const char *message,
			  uint64_t now);
/* At the first retransmission of @message: if no process has its address, on this machine. */
void cm_report_no_process(const struct cm_id *id, const char *message);
/* One side asks the other for @duration ns more. */
void cm_report_delay(const struct cm_id *id, enum cause cause, uint64_t duration);
/* The application refuses a request, or ends its id without an answer: @how. */
void cm_report_given_up(const struct cm_id *id, const char *how);
/* The peer's process ended without a DREQ or a REJ. */
void cm_report_death(const struct cm_id *id);

/* --- cm_event.c --------------------------------------------------------------------- */

/* Give the sink an event of @id, before its state moves. @message: what caused it, or NULL. */
void cm_raise(struct cm_id *id, enum cm_event_type type, const struct cm_message *message);

/* The same with a new id, and the listener that is to have it. @id may be gone then. */
void cm_raise_request(struct cm_id *id, enum cm_event_type type, const struct cm_message *message,
		      struct cm_id *listener, uint64_t now);

#endif
