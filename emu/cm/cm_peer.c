/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ids by their peer: by the comm id that the peer gave itself, which shows a
 * duplicate (IBA 12.9.8.1), and by the peer's QP, which shows a connection that
 * the peer has forgotten (12.9.8.3.1). Two emulated nodes may have the same GUID,
 * so the peer's address counts as well.
 */
#include <uthash.h>

#include "emu/cm/cm_internal.h"

_Static_assert(sizeof(struct cm_peer) == 32, "a key must have no gaps");

struct cm_id *cm_peer_find_id(struct cm *cm, const struct cm_peer *peer)
{
	struct cm_id *id;

	HASH_FIND(hh_id, cm->by_id, peer, sizeof(*peer), id);
	return id;
}

struct cm_id *cm_peer_find_qp(struct cm *cm, const struct cm_peer *peer)
{
	struct cm_id *id;

	HASH_FIND(hh_qp, cm->by_qp, peer, sizeof(*peer), id);
	return id;
}

int cm_peer_add_id(struct cm_id *id, const struct cm_peer *peer)
{
	id->peer_id = *peer;
	HASH_ADD(hh_id, id->cm->by_id, peer_id, sizeof(id->peer_id), id);
	return id->hh_id.tbl ? 0 : ENOMEM;
}

int cm_peer_add_qp(struct cm_id *id, const struct cm_peer *peer)
{
	id->peer_qp = *peer;
	HASH_ADD(hh_qp, id->cm->by_qp, peer_qp, sizeof(id->peer_qp), id);
	return id->hh_qp.tbl ? 0 : ENOMEM;
}

void cm_peer_remove_id(struct cm_id *id)
{
	if (!id->hh_id.tbl)
		return;
	HASH_DELETE(hh_id, id->cm->by_id, id);
	id->hh_id.tbl = NULL;
}

void cm_peer_remove_qp(struct cm_id *id)
{
	if (!id->hh_qp.tbl)
		return;
	HASH_DELETE(hh_qp, id->cm->by_qp, id);
	id->hh_qp.tbl = NULL;
}
