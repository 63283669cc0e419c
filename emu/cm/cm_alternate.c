/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The alternate path of a connection (IBA 12.8, 17.2.8): what a REQ says of it, and LAP and APR,
 * by which the peers agree on another one later. rdma_cm has no calls for it, and neither have its
 * applications: so the connection manager loads it into the connection's QP itself.
 */
#include "emu/cm/cm_internal.h"
#include "emu/hca.h"
#include "emu/objects/pd.h"
#include "emu/objects/qp.h"

#define LID_PERMISSIVE 0xffff

/* --- paths, in messages and here ------------------------------------------------------- */

void cm_describe_path(const struct cm_id *id, const struct path *path, uint8_t packet_life_time,
		      struct cm_path *described)
{
	bool routed = path->hop_limit > 1;

	*described = (struct cm_path){
		.local_lid = routed ? LID_PERMISSIVE : 0,
		.remote_lid = routed ? LID_PERMISSIVE : 0,
		.local_gid = path->source,
		.remote_gid = path->destination,
		.flow_label = path->flow_label,
		.traffic_class = path->traffic_class,
		.hop_limit = path->hop_limit,
		.subnet_local = !routed,
		.ack_timeout = cm_ack_timeout(id->cm->hca->limits.device.local_ca_ack_delay,
					      packet_life_time),
	};
}

bool cm_has_alternate(const struct cm_message *req)
{
	static const union ibv_gid none;

	return !gid_equal(&req->path[1].local_gid, &none);
}

bool cm_take_alternate(struct cm *cm, const struct cm_path *described, enum ibv_mtu mtu,
		       struct cm_alternate *alternate)
{
	struct gid_place place;

	if (!port_gids_find(&cm->hca->gids, &described->remote_gid, &place) ||
	    gid_is_ipv4(&described->remote_gid) != gid_is_ipv4(&described->local_gid) ||
	    mtu > hca_mtu(place.entry.mtu))
		return false;
	*alternate = (struct cm_alternate){
		.known = true,
		.path = {.source = described->remote_gid,
			 .destination = described->local_gid,
			 .flow_label = described->flow_label,
			 .traffic_class = described->traffic_class,
			 .hop_limit = HOP_LIMIT_DEFAULT},
		.ack_timeout = described->ack_timeout ? described->ack_timeout : 1,
	};
	return true;
}

void cm_alternate_attr(const struct cm *cm, const struct cm_alternate *alternate,
		       struct ibv_qp_attr *attr)
{
	attr->alt_ah_attr = path_ah_attr(&alternate->path, &cm->hca->gids);
	attr->alt_pkey_index = 0;
	attr->alt_port_num = attr->alt_ah_attr.port_num;
	attr->alt_timeout = alternate->ack_timeout;
}

/* --- loading it ---------------------------------------------------------------------------- */

/* Into the QP, which is to be armed. */
static enum cm_apr_status load(const struct cm_id *id, const struct cm_alternate *alternate,
			       struct qp *qp, uint64_t now)
{
	struct ibv_qp_attr attr = {.path_mig_state = IBV_MIG_REARM}, current;
	struct ibv_qp_init_attr init;

	qp_query(qp, &current, &init);
	if (!qp->type->connected || current.dest_qp_num != id->terms.remote_qpn)
		return CM_APR_UNSUPPORTED;
	cm_alternate_attr(id->cm, alternate, &attr);
	return qp_modify(qp, &attr, IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE, now) == 0
		       ? CM_APR_SUCCESS
		       : CM_APR_REJECTED;
}

static enum cm_apr_status load_alternate(const struct cm_id *id,
					 const struct cm_alternate *alternate, uint64_t now)
{
	struct table *qps = &id->cm->hca->qps;
	struct qp *qp = table_get(qps, id->terms.local_qpn);
	enum cm_apr_status status;

	if (!qp)
		return CM_APR_UNSUPPORTED;
	status = load(id, alternate, qp, now);
	table_put(qps, id->terms.local_qpn);
	return status;
}

/* --- LAP ------------------------------------------------------------------------------- */

int cm_lap(struct cm_id *id, const struct path *path, uint8_t packet_life_time, uint64_t now)
{
	struct cm_message lap;

	if (!cm_may_send(id, CM_LAP) || id->lap_sent)
		return EINVAL;
	id->transaction = 0;
	cm_begin(id, &lap, CM_LAP);
	lap.qpn = id->terms.remote_qpn;
	lap.remote_response_timeout = CM_RESPONSE_TIMEOUT;
	cm_describe_path(id, path, packet_life_time, &lap.path[1]);
	id->lap = (struct cm_alternate){
		.known = true, .path = *path, .ack_timeout = lap.path[1].ack_timeout};
	id->lap_sent = true;
	cm_post_waiting(id, &lap, now);
	return 0;
}

static enum cm_apr_status judge_lap(struct cm_id *id, const struct cm_message *lap, uint64_t now)
{
	struct cm_alternate alternate;
	enum cm_apr_status status;

	if (lap->qpn != id->terms.local_qpn)
		return CM_APR_INVALID_QPN;
	if (gid_equal(&lap->path[1].remote_gid, &id->path.source) &&
	    gid_equal(&lap->path[1].local_gid, &id->path.destination))
		return CM_APR_IS_CURRENT;
	if (!cm_take_alternate(id->cm, &lap->path[1], id->terms.mtu, &alternate))
		return CM_APR_INVALID_GID;
	status = load_alternate(id, &alternate, now);
	if (status == CM_APR_SUCCESS)
		id->alternate = alternate;
	return status;
}

/* Any user of a machine can send from its addresses: a path is taken from the peer's alone. */
static bool is_from_peer(const struct cm_id *id, const struct link_frame *frame)
{
	struct link *link = id->cm->hca->link;

	return gid_equal(&frame->source, &id->path.destination) &&
	       !(link->ops->sender && link->ops->sender(link, frame) == LINK_SENDER_FOREIGN);
}

/* A duplicate, whose APR was lost, loads the path once more. */
void cm_lap_received(struct cm_id *id, const struct cm_message *lap, const struct link_frame *frame,
		     uint64_t now)
{
	enum cm_apr_status status;

	if (!is_from_peer(id, frame))
		return;
	status = judge_lap(id, lap, now);
	if (status == CM_APR_SUCCESS)
		cm_raise(id, CM_EVENT_LAP_RECEIVED, lap);
	cm_answer_lap(id->cm, lap, frame, status, now);
}

void cm_answer_lap(struct cm *cm, const struct cm_message *lap, const struct link_frame *frame,
		   enum cm_apr_status status, uint64_t now)
{
	struct cm_message apr = cm_answer_to(lap, CM_APR);

	apr.status = status;
	cm_answer(cm, frame, &apr, now);
}

/* --- APR ------------------------------------------------------------------------------- */

static void end_lap(struct cm_id *id)
{
	id->lap_sent = false;
	cm_set_deadline(id, TIME_NEVER);
}

void cm_apr_received(struct cm_id *id, const struct cm_message *apr, const struct link_frame *frame,
		     uint64_t now)
{
	if (!id->lap_sent || !is_from_peer(id, frame))
		return;
	end_lap(id);
	if (apr->status == CM_APR_SUCCESS) {
		id->alternate = id->lap;
		load_alternate(id, &id->alternate, now);
	}
	cm_raise(id, CM_EVENT_APR_RECEIVED, apr);
}

void cm_lap_unanswered(struct cm_id *id, uint64_t now)
{
	if (!id->lap_sent)
		return;
	end_lap(id);
	cm_raise(id, CM_EVENT_LAP_ERROR, NULL);
}
