/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Service id resolution: a datagram QP asks for the QP number and the Q_Key of a
 * service id (IBA 12.11). One question, one answer, no state after it.
 */
#include "emu/cm/cm_internal.h"
#include "emu/hca.h"

#define SIDR_RETRIES 15

int cm_sidr_request(struct cm_id *id, const struct path *path, uint64_t service_id,
		    const void *private_data, uint8_t length, uint64_t now)
{
	struct cm_message request;
	int error;

	if (!cm_may_send(id, CM_SIDR_REQ))
		return EINVAL;
	id->transaction = 0;
	cm_begin(id, &request, CM_SIDR_REQ);
	error = cm_set_private(&request, private_data, length);
	if (error)
		return error;
	request.pkey = PKEY_DEFAULT;
	request.service_id = service_id;
	id->path = *path;
	id->service_id = service_id;
	id->interval = cm_duration(CM_RESPONSE_TIMEOUT);
	id->max_retries = SIDR_RETRIES;
	cm_set_state(id, CM_STATE_SIDR_REQ_SENT);
	cm_post_waiting(id, &request, now);
	return 0;
}

int cm_sidr_reply(struct cm_id *id, const struct cm_service_reply *reply, uint64_t now)
{
	struct cm_message message;
	int error;

	if (!cm_may_send(id, CM_SIDR_REP))
		return EINVAL;
	cm_begin(id, &message, CM_SIDR_REP);
	error = cm_set_private(&message, reply->private_data, reply->private_length);
	if (error)
		return error;
	message.local_id = id->remote_id; /* the request's */
	message.modifier = reply->options;
	message.vendor_id = reply->vendor_id;
	message.status = reply->status;
	message.service_id = id->service_id;
	message.qpn = reply->status == CM_SIDR_SUCCESS ? reply->qpn : 0;
	message.qkey = reply->qkey;
	cm_post(id, &message, now);
	cm_enter_idle(id);
	return 0;
}

static void answer_unsupported(struct cm *cm, const struct cm_message *request,
			       const struct link_frame *frame, uint64_t now)
{
	const struct cm_message reply = {
		.attribute = CM_SIDR_REP,
		.transaction = request->transaction,
		.local_id = request->local_id,
		.status = CM_SIDR_UNSUPPORTED,
		.service_id = request->service_id,
	};

	cm_answer(cm, frame, &reply, now);
}

struct cm_peer cm_requester(const struct link_frame *frame, const struct cm_message *request)
{
	return (struct cm_peer){
		.gid = frame->source,
		.number = request->local_id,
		.datagram = true,
	};
}

void cm_sidr_request_received(struct cm *cm, const struct cm_message *request,
			      const struct link_frame *frame, uint64_t now)
{
	struct cm_peer peer = cm_requester(frame, request);
	struct cm_id *listener, *id;

	listener = cm_find_listener(cm, request->service_id, &frame->destination, true);
	if (!listener) {
		if (cm_pending_add(cm, request, frame, now))
			return;
		cm_report_no_listener(cm, request, frame);
		answer_unsupported(cm, request, frame, now);
		return;
	}
	/* Without memory it is as if the request had been lost. */
	id = cm_id_new(cm, NULL);
	if (!id)
		return;
	id->passive = true;
	id->remote_id = request->local_id;
	id->transaction = request->transaction;
	id->service_id = request->service_id;
	cm_path_back(frame, &id->path);
	cm_set_state(id, CM_STATE_SIDR_REQ_RECEIVED);
	if (cm_peer_add_id(id, &peer) != 0)
		cm_ignore(id);
	else
		cm_raise_request(id, CM_EVENT_SIDR_REQ_RECEIVED, request, listener, now);
}

void cm_sidr_reply_received(struct cm_id *id, const struct cm_message *reply,
			    const struct link_frame *frame, uint64_t now)
{
	if (injects(id->cm->hca) && inject_unreachable(id->cm->hca)) {
		cm_give_up(id, now);
		return;
	}
	if (reply->status == CM_SIDR_UNSUPPORTED && cm_retry_after_reject(id, now))
		return;
	cm_report_sidr_rejected(id, reply);
	cm_raise(id, CM_EVENT_SIDR_REP_RECEIVED, reply);
	cm_enter_idle(id);
}
