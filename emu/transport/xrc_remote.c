/* SPDX-License-Identifier: BSD-2-Clause */
#include "emu/transport/xrc_remote.h"

#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "emu/objects/qp.h"
#include "emu/objects/srq.h"
#include "emu/objects/xrcd.h"
#include "emu/transport/placement.h"
#include "net/observe/observe.h"
#include "net/share/share.h"
#include "net/tuning.h"

/*
 * What a message begins with: no packet, which has an opcode there. Another one for each layout of
 * struct xrc_message, as the processes may be of different builds.
 */
#define MESSAGE_MARK 0xfe

enum { XRC_ASK, XRC_ANSWER, XRC_GIVE_UP };

/* Between processes of one machine. The packet follows an XRC_ASK. */
struct xrc_message {
	uint8_t mark, kind;
	uint8_t fault;	/* the answer */
	uint8_t begins; /* not 0: the target has no message in progress */
	uint32_t qpn, srqn, sequence;
	uint32_t mtu, access, peer_qpn; /* as the target's QP has them */
	uint32_t injected;		/* the answer RESPONDER_FAULT_INJECTED: the status */
	struct descriptor_identity file;
};

struct xrc_delegate {
	UT_hash_handle hh; /* in hca->xrc_delegates, by qp.number: the one used last is the last */
	struct qp qp;	   /* its number is the target's */
	struct descriptor_identity file; /* of the domain of what it placed last */
	bool placed;			 /* anything yet */
	uint32_t sequence;		 /* of what it placed last, and how that went */
	enum responder_fault fault;
};

/* --- the target -------------------------------------------------------------------- */

/*
 * Handles tell the QPs of a process apart, and the HCA's seed, which is in key_byte, processes.
 * Knuth's multiplicative hash keeps the beginnings far from each other.
 */
void xrc_remote_init(struct xrc_remote *remote, const struct hca *hca, uint32_t handle)
{
	remote->sequence = (atomic_load(&hca->key_byte) + handle) * UINT32_C(2654435761);
}

void xrc_remote_reset(struct xrc_remote *remote)
{
	*remote = (struct xrc_remote){.sequence = remote->sequence};
}

bool xrc_may_be_elsewhere(const struct qp *qp)
{
	return !qp->delegate && qp->hca->link->share && xrc_domain_has_file(qp->xrc_domain);
}

static enum responder_fault ask_owner(struct qp *qp, const struct packet *packet, uint64_t now)
{
	struct xrc_remote *remote = &qp->xrc;
	struct share *share = qp->hca->link->share;
	uint32_t trailer = packet->pad + ICRC_LENGTH;
	uint32_t length = packet->op->headers_length + packet->payload_length + trailer;
	struct xrc_message *message;
	uint8_t *bytes;
	bool sent;

	if (length > WIRE_PACKET_MAX)
		return RESPONDER_FAULT_LENGTH;
	remote->asked_at = now;
	message = malloc(sizeof(*message) + length);
	if (!message)
		return RESPONDER_FAULT_WAIT; /* to be asked again, when there may be memory */
	*message = (struct xrc_message){
		.mark = MESSAGE_MARK,
		.kind = XRC_ASK,
		.begins = qp->responder.message.kind == MESSAGE_NONE,
		.qpn = qp->number,
		.srqn = qp->responder.message.srq_number,
		.sequence = remote->sequence,
		.mtu = qp->mtu,
		.access = qp->attr.qp_access_flags,
		.peer_qpn = qp->attr.dest_qp_num,
		.file = qp->xrc_domain->file,
	};
	bytes = mempcpy(message + 1, packet->headers, packet->op->headers_length);
	bytes = mempcpy(bytes, packet->payload, packet->payload_length);
	memset(bytes, 0, trailer); /* what was kept for a while has none */
	sent = share->ops->send_message(share, message->srqn, message, sizeof(*message) + length);
	free(message);
	remote->asked = sent;
	return sent ? RESPONDER_FAULT_WAIT : RESPONDER_FAULT_XRC;
}

enum responder_fault xrc_place_elsewhere(struct qp *qp, const struct packet *packet, uint64_t now)
{
	struct xrc_remote *remote = &qp->xrc;

	if (remote->asked && remote->psn == packet->psn) {
		if (remote->answered) {
			remote->asked = false;
			return remote->fault;
		}
		return elapsed(remote->asked_at, now) < XRC_ASK_AGAIN ? RESPONDER_FAULT_WAIT
								      : ask_owner(qp, packet, now);
	}
	remote->asked = true;
	remote->answered = false;
	remote->psn = packet->psn;
	remote->sequence++;
	return ask_owner(qp, packet, now);
}

void xrc_give_up_elsewhere(struct qp *qp)
{
	const struct message *in_progress = &qp->responder.message;
	struct xrc_message message = {.mark = MESSAGE_MARK, .kind = XRC_GIVE_UP};
	struct share *share = qp->hca->link->share;

	if (!qp->xrc_domain || !xrc_may_be_elsewhere(qp) || in_progress->has_receive)
		return;
	/* The first packet may have been placed though the answer hasn't come. */
	if (in_progress->kind == MESSAGE_NONE && !qp->xrc.asked)
		return;
	message.qpn = qp->number;
	message.srqn = in_progress->srq_number;
	message.file = qp->xrc_domain->file;
	share->ops->send_message(share, message.srqn, &message, sizeof(message));
}

/* Those from ELSEWHERE on are no faults, and an injected one has the status of an error. */
static bool is_answer(const struct xrc_message *message)
{
	if (message->fault == RESPONDER_FAULT_INJECTED)
		return message->injected > IBV_WC_SUCCESS &&
		       message->injected <= IBV_WC_TM_RNDV_INCOMPLETE;
	return message->fault < RESPONDER_FAULT_ELSEWHERE;
}

static void on_answer(struct hca *hca, const struct xrc_message *message)
{
	struct qp *qp = table_get(&hca->qps, message->qpn);

	if (!qp)
		return;
	pthread_mutex_lock(&qp->lock);
	if (qp->xrc.asked && qp->xrc.sequence == message->sequence && is_answer(message)) {
		qp->xrc.answered = true;
		qp->xrc.fault = message->fault;
		qp->responder.message.injected = message->injected;
	}
	pthread_mutex_unlock(&qp->lock);
	table_put(&hca->qps, message->qpn);
}

/* --- the owner ----------------------------------------------------------------------- */

static struct xrc_delegate *make_delegate(struct hca *hca, uint32_t qpn)
{
	struct xrc_delegate *delegate = calloc(1, sizeof(*delegate));
	struct qp *qp;

	if (!delegate)
		return NULL;
	qp = &delegate->qp;
	qp->observed = observe_claim(NULL, OBSERVE_QP, 0); /* the target's process shows it */
	if (!qp->observed || responder_init(&qp->responder, hca->limits.device.max_srq_sge) != 0) {
		observe_free(NULL, OBSERVE_QP, qp->observed);
		free(delegate);
		return NULL;
	}
	qp->hca = hca;
	qp->type = qp_type_find(IBV_QPT_XRC_RECV);
	qp->number = qpn;
	qp->handle = hca_next_handle(hca);
	qp->delegate = true;
	qp->state = IBV_QPS_RTR;
	pthread_mutex_init(&qp->lock, NULL);
	return delegate;
}

static void destroy_delegate(struct xrc_delegate *delegate)
{
	placement_finish_qp(&delegate->qp);
	responder_destroy(&delegate->qp.responder);
	pthread_mutex_destroy(&delegate->qp.lock);
	observe_free(NULL, OBSERVE_QP, delegate->qp.observed);
	free(delegate);
}

static bool is_of_domain(const struct srq *srq, const struct descriptor_identity *file)
{
	return xrc_domain_has_file(srq->xrcd->domain) &&
	       descriptor_same(&srq->xrcd->domain->file, file);
}

/* A delegate keeps neither the SRQ that its receive is from nor the domain: both may be gone. */
static void end_message(struct hca *hca, struct xrc_delegate *delegate)
{
	struct qp *qp = &delegate->qp;
	uint32_t number = qp->responder.message.srq_number;
	struct srq *srq = table_get(&hca->srqs, number);

	pthread_mutex_lock(&qp->lock);
	if (srq && is_of_domain(srq, &delegate->file)) {
		qp->xrc_domain = srq->xrcd->domain;
		responder_give_up(qp);
	}
	message_end(&qp->responder.message);
	responder_receive_end(qp);
	pthread_mutex_unlock(&qp->lock);
	if (srq)
		table_put(&hca->srqs, number);
}

/*
 * A process that was killed doesn't say that its target has gone, and when there are so many most
 * have: the one that was used longest ago is forgotten; one amid a message only if all are.
 */
static void forget_one(struct hca *hca)
{
	struct xrc_delegate *delegate = hca->xrc_delegates;

	while (delegate && delegate->qp.responder.message.kind != MESSAGE_NONE)
		delegate = delegate->hh.next;
	if (!delegate)
		delegate = hca->xrc_delegates;
	HASH_DEL(hca->xrc_delegates, delegate);
	end_message(hca, delegate);
	destroy_delegate(delegate);
}

static struct xrc_delegate *add_delegate(struct hca *hca, uint32_t qpn)
{
	struct xrc_delegate *delegate = make_delegate(hca, qpn);

	if (!delegate)
		return NULL;
	if (HASH_COUNT(hca->xrc_delegates) >= XRC_DELEGATES)
		forget_one(hca);
	HASH_ADD(hh, hca->xrc_delegates, qp.number, sizeof(qpn), delegate);
	if (!delegate->hh.tbl) {
		destroy_delegate(delegate);
		return NULL;
	}
	return delegate;
}

static struct xrc_delegate *get_delegate(struct hca *hca, uint32_t qpn)
{
	struct xrc_delegate *delegate;

	HASH_FIND(hh, hca->xrc_delegates, &qpn, sizeof(qpn), delegate);
	if (!delegate)
		return add_delegate(hca, qpn);
	if (delegate->hh.next) {
		HASH_DEL(hca->xrc_delegates, delegate);
		HASH_ADD(hh, hca->xrc_delegates, qp.number, sizeof(qpn), delegate);
	}
	return delegate;
}

void xrc_delegates_destroy(struct hca *hca)
{
	struct xrc_delegate *delegate, *next;

	HASH_ITER (hh, hca->xrc_delegates, delegate, next) {
		HASH_DEL(hca->xrc_delegates, delegate);
		destroy_delegate(delegate);
	}
}

static enum responder_fault place(struct xrc_delegate *delegate, const struct xrc_message *message,
				  struct srq *srq, const struct packet *packet, uint64_t now)
{
	struct qp *qp = &delegate->qp;
	enum responder_fault fault;

	pthread_mutex_lock(&qp->lock);
	qp->xrc_domain = srq->xrcd->domain;
	qp->mtu = message->mtu;
	qp->attr.qp_access_flags = message->access;
	qp->attr.dest_qp_num = message->peer_qpn;
	qp_set_time(qp, now);
	if (message->begins)
		responder_give_up(qp);
	fault = responder_place(qp, packet);
	responder_receive_end(qp);
	pthread_mutex_unlock(&qp->lock);
	return fault;
}

/* @injected: the status that a receive failed with for RESPONDER_FAULT_INJECTED. */
static enum responder_fault place_in(struct hca *hca, const struct xrc_message *message,
				     struct srq *srq, const struct packet *packet,
				     uint32_t *injected, uint64_t now)
{
	struct xrc_delegate *delegate;

	if (!is_of_domain(srq, &message->file))
		return RESPONDER_FAULT_XRC;
	delegate = get_delegate(hca, message->qpn);
	if (!delegate)
		return RESPONDER_FAULT_WAIT; /* to be asked again, when there may be memory */
	if (!delegate->placed || delegate->sequence != message->sequence) {
		delegate->file = message->file;
		delegate->fault = place(delegate, message, srq, packet, now);
		delegate->sequence = message->sequence;
		delegate->placed = true;
	}
	*injected = delegate->qp.responder.message.injected;
	return delegate->fault;
}

static void on_ask(struct hca *hca, const struct xrc_message *message, const uint8_t *bytes,
		   uint32_t length, uint64_t now)
{
	struct share *share = hca->link->share;
	struct xrc_message answer = *message;
	enum responder_fault fault = RESPONDER_FAULT_XRC;
	struct packet packet;
	struct srq *srq;

	if (packet_parse(&packet, bytes, length) != 0 || !packet.op->xrceth)
		return;
	srq = table_get(&hca->srqs, message->srqn);
	if (srq) {
		fault = place_in(hca, message, srq, &packet, &answer.injected, now);
		table_put(&hca->srqs, message->srqn);
	}
	if (fault == RESPONDER_FAULT_WAIT)
		return;
	answer.kind = XRC_ANSWER;
	answer.fault = fault;
	share->ops->send_message(share, message->qpn, &answer, sizeof(answer));
}

static void on_give_up(struct hca *hca, const struct xrc_message *message, uint64_t now)
{
	struct xrc_delegate *delegate;

	HASH_FIND(hh, hca->xrc_delegates, &message->qpn, sizeof(message->qpn), delegate);
	if (!delegate || !descriptor_same(&delegate->file, &message->file))
		return;
	qp_set_time(&delegate->qp, now);
	end_message(hca, delegate);
}

void xrc_on_message(struct hca *hca, const struct link_frame *frame, uint64_t now)
{
	struct xrc_message message;

	if (frame->length < sizeof(message))
		return;
	memcpy(&message, frame->data, sizeof(message));
	if (message.mark != MESSAGE_MARK)
		return;
	if (message.kind == XRC_ASK)
		on_ask(hca, &message, frame->data + sizeof(message),
		       frame->length - sizeof(message), now);
	else if (message.kind == XRC_ANSWER)
		on_answer(hca, &message);
	else if (message.kind == XRC_GIVE_UP)
		on_give_up(hca, &message, now);
}
