/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Listeners of the connection manager: which of them a request is for, and the claim of its service
 * among the processes that share the address (net/share/share.h).
 */
#include <utlist.h>

#include "emu/cm/cm_internal.h"
#include "emu/hca.h"
#include "net/share/share.h"
#include "net/wire/gid.h"

static const union ibv_gid any_gid;

static bool gid_is_any(const union ibv_gid *gid)
{
	return gid_equal(gid, &any_gid);
}

static bool listens_at(const struct cm_listen *listen, const union ibv_gid *gid)
{
	if (!gid_is_any(&listen->gid))
		return gid_equal(&listen->gid, gid);
	return gid_is_ipv4(gid) ? listen->ipv4 : listen->ipv6;
}

static bool overlap(const struct cm_listen *a, const struct cm_listen *b)
{
	if (a->service_id != b->service_id)
		return false;
	if (!gid_is_any(&a->gid))
		return listens_at(b, &a->gid);
	if (!gid_is_any(&b->gid))
		return listens_at(a, &b->gid);
	return (a->ipv4 && b->ipv4) || (a->ipv6 && b->ipv6);
}

struct cm_id *cm_find_listener(struct cm *cm, uint64_t service_id, const union ibv_gid *gid,
			       bool datagram)
{
	struct cm_id *id;

	if (!cm->sink.request)
		return NULL;
	DL_FOREACH2 (cm->listeners, id, listen_next) {
		if (id->listen.service_id == service_id && id->listen.datagram == datagram &&
		    listens_at(&id->listen, gid))
			return id;
	}
	return NULL;
}

static int listen_locked(struct cm_id *id, const struct cm_listen *listen)
{
	struct cm *cm = id->cm;
	struct cm_id *other;

	if (id->state != CM_STATE_IDLE)
		return EINVAL;
	DL_FOREACH2 (cm->listeners, other, listen_next) {
		if (overlap(&other->listen, listen))
			return EADDRINUSE;
	}
	id->listen = *listen;
	cm_set_state(id, CM_STATE_LISTEN);
	DL_APPEND2(cm->listeners, id, listen_prev, listen_next);
	cm_pending_look(cm);
	return 0;
}

/*
 * The addresses for which the service is claimed among the processes that share
 * them: the listener's, or the unspecified ones of its families. Returns how many.
 */
static unsigned int claimed_gids(const struct cm_listen *listen, union ibv_gid gids[2])
{
	static const union ibv_gid any_ipv4 = {.raw = {[10] = 0xff, [11] = 0xff}};
	unsigned int count = 0;

	if (!gid_is_any(&listen->gid)) {
		gids[0] = listen->gid;
		return 1;
	}
	if (listen->ipv4)
		gids[count++] = any_ipv4;
	if (listen->ipv6)
		gids[count++] = any_gid;
	return count;
}

static void release_service(struct share *share, const struct cm_listen *listen)
{
	union ibv_gid gids[2];
	unsigned int count = claimed_gids(listen, gids);

	for (unsigned int i = 0; i < count && share; i++)
		share->ops->release(share, &gids[i], listen->service_id);
}

static int claim_service(struct share *share, const struct cm_listen *listen)
{
	union ibv_gid gids[2];
	unsigned int count = claimed_gids(listen, gids), done;
	int error = 0;

	if (!share)
		return 0;
	for (done = 0; done < count && !error; done++)
		error = share->ops->claim(share, &gids[done], listen->service_id);
	if (error && done == 2)
		share->ops->release(share, &gids[0], listen->service_id);
	return error;
}

/* Claiming may wait for another process that claims, so cm.lock isn't held. */
int cm_id_claim(struct cm_id *id, const struct cm_listen *listen)
{
	int error = id->claimed ? 0 : claim_service(id->cm->hca->link->share, listen);

	if (error)
		return error;
	id->claim = *listen;
	id->claimed = true;
	return 0;
}

void cm_disclaim(struct cm_id *id)
{
	if (id->claimed)
		release_service(id->cm->hca->link->share, &id->claim);
	id->claimed = false;
}

int cm_id_listen(struct cm_id *id, const struct cm_listen *listen)
{
	bool claimed = id->claimed;
	int error = cm_id_claim(id, listen);

	if (error)
		return error;
	pthread_mutex_lock(&id->cm->lock);
	error = listen_locked(id, listen);
	pthread_mutex_unlock(&id->cm->lock);
	if (error && !claimed)
		cm_disclaim(id);
	return error;
}

void cm_stop_listening(struct cm_id *id)
{
	if (id->state != CM_STATE_LISTEN)
		return;
	DL_DELETE2(id->cm->listeners, id, listen_prev, listen_next);
	cm_set_state(id, CM_STATE_IDLE);
}
