/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Peers on this machine that die without a DREQ: killed by a signal, or by _exit(). Where a
 * kernel has the connections it sends the DREQ for them, or the REJ if they aren't made yet; here
 * the ends that are left find it out from net/share, which knows the processes that share
 * addresses, and take it for the message that the dead one would have sent. All connections whose
 * peer has been heard of are looked at together, now and then.
 *
 * A peer on another machine can't see it. It gets its DREQ from any other process at the dead
 * one's address that has an id, if need be one that is started later: net/share keeps these
 * connections for the process that had them.
 */
#include <utlist.h>

#include "emu/cm/cm_internal.h"
#include "emu/cm/gsi.h"
#include "emu/hca.h"
#include "net/log.h"
#include "net/share/share.h"
#include "net/tuning.h"

void cm_watch_begin(struct cm *cm)
{
	struct hca *hca = cm->hca;

	if (!hca->link->share || atomic_load(&cm->watch_deadline) != TIME_NEVER)
		return;
	atomic_store(&cm->watch_deadline, 0);
	hca_wake_at(hca, 0);
}

static uint32_t record(struct share *share, const struct cm_id *id)
{
	const struct share_connection connection = {
		.local = id->path.source,
		.remote = id->path.destination,
		.local_id = id->local_id,
		.remote_id = id->remote_id,
		.remote_qpn = id->terms.remote_qpn,
	};

	return share->ops->record(share, &connection);
}

/* The peer has died before its message was read, and the roster has forgotten it. */
static bool has_ended(const struct cm_id *id)
{
	struct link *link = id->cm->hca->link;
	struct link_peer peer;

	if (!link->ops->describe_peer)
		return false;
	link->ops->describe_peer(link, &id->path, id->terms.remote_qpn, &peer);
	return peer.state == LINK_PEER_ENDED || peer.state == LINK_PEER_NOT_THERE;
}

/*
 * When its message comes, and not when the connection is made: a process that has died meanwhile
 * is soon unknown. Taken for one of another machine its end would never be noticed.
 */
void cm_watch_find_peer(struct cm_id *id)
{
	struct share *share = id->cm->hca->link->share;

	if (!share)
		return;
	id->peer_process = share->ops->process(share, &id->path.destination, id->remote_id);
	if (!id->peer_process && has_ended(id))
		id->peer_process = SHARE_ENDED;
}

void cm_watch_peer(struct cm_id *id)
{
	struct share *share = id->cm->hca->link->share;

	if (share && !id->peer_process && !id->record)
		id->record = record(share, id);
}

void cm_watch_end(struct cm_id *id)
{
	struct share *share = id->cm->hca->link->share;

	if (id->record && share)
		share->ops->forget(share, id->record);
	id->record = 0;
}

/* Of many connections with one process, most stand together: that is one system call. */
static bool is_alive(struct share *share, const struct cm_id *id, const struct cm_id **living)
{
	if (*living && (*living)->peer_process == id->peer_process &&
	    (*living)->remote_id / SHARE_COMM_IDS == id->remote_id / SHARE_COMM_IDS)
		return true;
	if (!share->ops->is_alive(share, id->peer_process, id->remote_id))
		return false;
	*living = id;
	return true;
}

static bool is_connected(const struct cm_id *id)
{
	return id->state == CM_STATE_ESTABLISHED || id->state == CM_STATE_DREQ_SENT;
}

/* The peer has asked for a connection, which hasn't been made yet. */
static bool is_requested(const struct cm_id *id)
{
	switch (id->state) {
	case CM_STATE_REQ_RECEIVED:
	case CM_STATE_MRA_REQ_SENT:
	case CM_STATE_REP_SENT:
	case CM_STATE_MRA_REP_RECEIVED:
		return true;
	default:
		return false;
	}
}

static bool is_watched(const struct cm_id *id)
{
	return id->peer_process && (is_connected(id) || is_requested(id));
}

/* A kernel rejects for it: what it hasn't heard of yet for a timeout, else for its application. */
static void reject_for_dead(struct cm_id *id)
{
	const bool replied =
		id->state == CM_STATE_REP_SENT || id->state == CM_STATE_MRA_REP_RECEIVED;
	const struct cm_message rej = {
		.attribute = CM_REJ,
		.transaction = id->transaction,
		.local_id = id->remote_id,
		.remote_id = id->local_id,
		.answered = replied ? CM_ANSWERED_REP : CM_ANSWERED_OTHER,
		.reason = replied ? CM_REJECT_CONSUMER : CM_REJECT_TIMEOUT,
		.private_length = cm_private_length(CM_REJ),
	};

	cm_raise(id, CM_EVENT_REJ_RECEIVED, &rej);
	cm_enter_idle(id);
	cm_reap(id);
}

static void disconnect_for_dead(struct cm_id *id, uint64_t now)
{
	const struct cm_message message = {
		.attribute = id->state == CM_STATE_ESTABLISHED ? CM_DREQ : CM_DREP,
		.transaction = id->transaction,
		.local_id = id->remote_id,
		.remote_id = id->local_id,
		.qpn = id->terms.local_qpn,
	};
	const struct link_frame frame = {
		.source = id->path.destination,
		.destination = id->path.source,
	};

	cm_dispatch(id->cm, &message, &frame, now);
}

/* The peer of @id has died: what it would have said is taken as said. @id may be freed by that. */
static void say_for_dead(struct cm_id *id, uint64_t now)
{
	id->peer_process = 0;
	if (id->state != CM_STATE_DREQ_SENT)
		cm_report_death(id);
	if (is_connected(id))
		disconnect_for_dead(id, now);
	else
		reject_for_dead(id);
}

/*
 * Send the DREQ of a process of ours that has died. The peer's DREP comes to a comm id that nothing
 * has any more, so it isn't known whether it was heard.
 */
static void end_orphan(struct hca *hca, const struct share_connection *orphan, uint64_t now)
{
	const struct path path = {
		.source = orphan->local,
		.destination = orphan->remote,
		.hop_limit = HOP_LIMIT_DEFAULT,
	};
	const struct cm_message message = {
		.attribute = CM_DREQ,
		.transaction = CM_TRANSACTION_AGENT | orphan->local_id,
		.local_id = orphan->local_id,
		.remote_id = orphan->remote_id,
		.qpn = orphan->remote_qpn,
	};
	uint8_t mad[MAD_LENGTH];

	log_debug("cm %08x: its process is dead: send DREQ", orphan->local_id);
	cm_message_encode(&message, mad);
	gsi_send(hca, &path, mad, now);
}

void cm_watch_run(struct cm *cm, uint64_t now)
{
	struct share_connection orphan;
	uint32_t number = 0;
	struct share *share = cm->hca->link->share;
	const struct cm_id *living = NULL;
	struct cm_id *id, *next;

	DL_FOREACH_SAFE (cm->all, id, next) {
		if (is_watched(id) && !is_alive(share, id, &living))
			say_for_dead(id, now);
	}
	while (share && share->ops->orphan(share, &number, &orphan))
		end_orphan(cm->hca, &orphan, now);
	atomic_store(&cm->watch_deadline, share && cm->all ? now + CM_WATCH_INTERVAL : TIME_NEVER);
}
