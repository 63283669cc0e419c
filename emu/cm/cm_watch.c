/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Peers on this machine that die without a word: killed by a signal, or by _exit(). Where a
 * kernel has the connections it sends the DREQ for them; here the ends that are left find it
 * out from net/share, which knows the processes that share addresses, and take it for the
 * message that the dead one would have sent. All established connections are looked at
 * together, now and then. A peer on another machine can't be looked at.
 */
#include <utlist.h>

#include "emu/cm/cm_internal.h"
#include "emu/hca.h"
#include "net/share/share.h"
#include "net/tuning.h"

void cm_watch_peer(struct cm_id *id, uint64_t now)
{
	struct cm *cm = id->cm;
	struct hca *hca = cm->hca;
	struct share *share = hca->link->share;

	if (!share)
		return;
	id->peer_process = share->ops->process(share, &id->path.destination, id->remote_id);
	if (!id->peer_process || atomic_load(&cm->watch_deadline) != TIME_NEVER)
		return;
	atomic_store(&cm->watch_deadline, now + CM_WATCH_INTERVAL);
	if (hca->deadline)
		hca->deadline(hca->deadline_context, now + CM_WATCH_INTERVAL);
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

static bool is_watched(const struct cm_id *id)
{
	return id->peer_process &&
	       (id->state == CM_STATE_ESTABLISHED || id->state == CM_STATE_DREQ_SENT);
}

/* @id may be gone then. */
static void say_for_dead(struct cm_id *id, uint64_t now)
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

	id->peer_process = 0;
	cm_dispatch(id->cm, &message, &frame, now);
}

void cm_watch_run(struct cm *cm, uint64_t now)
{
	struct share *share = cm->hca->link->share;
	const struct cm_id *living = NULL;
	struct cm_id *id, *next;

	DL_FOREACH_SAFE (cm->all, id, next) {
		if (is_watched(id) && !is_alive(share, id, &living))
			say_for_dead(id, now);
	}
	atomic_store(&cm->watch_deadline, living ? now + CM_WATCH_INTERVAL : TIME_NEVER);
}
