/* SPDX-License-Identifier: BSD-2-Clause */
/* ibv_modify_qp and ibv_query_qp: attributes in, attributes out. */
#include "emu/capacity.h"
#include "emu/objects/pd.h"
#include "emu/objects/qp.h"
#include "emu/objects/qp_show.h"
#include "emu/objects/qp_state.h"
#include "emu/transport/destination.h"
#include "emu/transport/outbox.h"
#include "net/cause/cause.h"
#include "net/newer_verbs.h"
#include "net/qp_text.h"

#define QP_ACCESS_FLAGS                                                                            \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED |                   \
	 IBV_ACCESS_ON_DEMAND | IBV_ACCESS_HUGETLB | IBV_ACCESS_RELAXED_ORDERING |                 \
	 ACCESS_FLUSH_GLOBAL)

/* --- validation: nothing is modified unless all of it passes ---------------------- */

/* What was found, with the QP in front. */
#define REFUSE(error, cause, found, ...)                                                           \
	refuse(error, CAUSE_##cause, "ibv_modify_qp(), QP 0x%x (%s) in %s: " found, qp->number,    \
	       qp_type_text(qp->type->ibv), qp_state_text(qp->state), ##__VA_ARGS__)

/* Simple ranges: attribute, the greatest value it may have. */
#define RETURN_IF_ABOVE(bit, field, greatest)                                                      \
	do {                                                                                       \
		if ((mask & (bit)) && attr->field > (greatest))                                    \
			return REFUSE(EINVAL, QP_VALUE_RANGE, #field " is %u, at most %u",         \
				      attr->field, (unsigned int)(greatest));                      \
	} while (0)

/* The same of what the device says: its attribute. */
#define RETURN_IF_ABOVE_DEVICE(bit, field, limit)                                                  \
	do {                                                                                       \
		if ((mask & (bit)) && attr->field > qp->hca->limits.device.limit)                  \
			return REFUSE(EINVAL, QP_RD_ATOMIC_LIMIT,                                  \
				      #field " is %u, the device has %d (" #limit ")",             \
				      attr->field, qp->hca->limits.device.limit);                  \
	} while (0)

static int check_access(const struct qp *qp, unsigned int access)
{
	/* No region of this device is persistent. */
	if (access & ACCESS_FLUSH_PERSISTENT)
		return REFUSE(EOPNOTSUPP, NOT_SUPPORTED,
			      "qp_access_flags has FLUSH_PERSISTENT: no memory is persistent");
	if (access & ACCESS_FLUSH_GLOBAL && !capacity_has(qp->hca, DEVICE_FLUSH_GLOBAL))
		return REFUSE(EOPNOTSUPP, NOT_SUPPORTED,
			      "qp_access_flags has FLUSH_GLOBAL: the device has no FLUSH");
	if (access & ~QP_ACCESS_FLAGS)
		return REFUSE(EINVAL, QP_ACCESS_FLAGS, "qp_access_flags is 0x%x, unknown are 0x%x",
			      access, access & ~QP_ACCESS_FLAGS);
	return 0;
}

static int check_path_mtu(const struct qp *qp, unsigned int mtu)
{
	if (mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096)
		return 0;
	return REFUSE(EINVAL, QP_MTU_NO_ENUM,
		      "path_mtu is %u, which is no enum ibv_mtu: IBV_MTU_256 is 1, IBV_MTU_1024 is "
		      "3, IBV_MTU_4096 is 5",
		      mtu);
}

static int check_ranges(const struct qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	int error = 0;

	RETURN_IF_ABOVE(IBV_QP_PKEY_INDEX, pkey_index, 0);
	RETURN_IF_ABOVE(IBV_QP_TIMEOUT, timeout, 31);
	RETURN_IF_ABOVE(IBV_QP_ALT_PATH, alt_timeout, 31);
	RETURN_IF_ABOVE(IBV_QP_ALT_PATH, alt_pkey_index, 0);
	RETURN_IF_ABOVE(IBV_QP_RETRY_CNT, retry_cnt, 7);
	RETURN_IF_ABOVE(IBV_QP_RNR_RETRY, rnr_retry, 7);
	RETURN_IF_ABOVE(IBV_QP_MIN_RNR_TIMER, min_rnr_timer, 31);
	RETURN_IF_ABOVE_DEVICE(IBV_QP_MAX_QP_RD_ATOMIC, max_rd_atomic, max_qp_init_rd_atom);
	RETURN_IF_ABOVE_DEVICE(IBV_QP_MAX_DEST_RD_ATOMIC, max_dest_rd_atomic, max_qp_rd_atom);
	if ((mask & IBV_QP_PORT) && !port_gids_table(&qp->hca->gids, attr->port_num))
		return REFUSE(EINVAL, NO_PORT, "port_num is %u: ports are 1 to %u", attr->port_num,
			      port_gids_count(&qp->hca->gids));
	if ((mask & IBV_QP_ALT_PATH) && !capacity_has(qp->hca, IBV_DEVICE_AUTO_PATH_MIG))
		return REFUSE(EINVAL, NOT_SUPPORTED, "the device lacks IBV_DEVICE_AUTO_PATH_MIG");
	if (mask & IBV_QP_ACCESS_FLAGS)
		error = check_access(qp, attr->qp_access_flags);
	if (!error && mask & IBV_QP_PATH_MTU)
		error = check_path_mtu(qp, attr->path_mtu);
	/* IBA 10.2.5: a controlled Q_Key takes a privilege that user space doesn't have. */
	if (!error && (mask & IBV_QP_QKEY) && (attr->qkey & QKEY_CONTROLLED))
		error = REFUSE(EPERM, QP_QKEY_CONTROLLED, "qkey is 0x%08x", attr->qkey);
	return error;
}

static int refuse_transition(const struct qp *qp, int error, enum ibv_qp_state next, int mask)
{
	struct finding finding = {};

	qp_state_explain(qp->type->ibv, qp->state, next, mask, &finding);
	return refuse(error, finding.cause, "ibv_modify_qp(), QP 0x%x (%s), %s to %s: %s",
		      qp->number, qp_type_text(qp->type->ibv), qp_state_text(qp->state),
		      qp_state_text(next), finding.text);
}

/*
 * The work requests under way. During an RNR delay the cursor is in front of them again, but what
 * was sent of them counts.
 */
static uint32_t count_started(const struct send_queue *sq)
{
	uint32_t end = sq->done;

	while (end != sq->posted && send_queue_at(sq, end)->started)
		end++;
	return end - sq->done;
}

/* When the device is gone a QP may still be moved to RESET or ERR, so that it can be taken down. */
static int check_device(const struct qp *qp, enum ibv_qp_state next)
{
	if (next == IBV_QPS_RESET || next == IBV_QPS_ERR)
		return 0;
	return capacity_alive(qp->hca, "ibv_modify_qp()");
}

static int check_state(const struct qp *qp, const struct ibv_qp_attr *attr, int mask,
		       enum ibv_qp_state *next)
{
	/* IBA 11.2.5.2: only the states between which a QP can move by itself may be asserted. */
	bool may_assert = qp->state == IBV_QPS_RTR || qp->state == IBV_QPS_RTS ||
			  qp->state == IBV_QPS_SQD || qp->state == IBV_QPS_SQE;
	int error;

	if ((mask & IBV_QP_CUR_STATE) && (!may_assert || attr->cur_qp_state != qp->state))
		return REFUSE(EINVAL, QP_CURRENT_STATE, "cur_qp_state is %s%s",
			      qp_state_text(attr->cur_qp_state),
			      may_assert ? "" : "; only RTR, RTS, SQD and SQE can be given");
	*next = mask & IBV_QP_STATE ? attr->qp_state : qp->state;
	error = check_device(qp, *next);
	if (error)
		return error;
	if (*next > IBV_QPS_ERR)
		return REFUSE(EINVAL, QP_NO_TRANSITION, "qp_state is %u, which is no state", *next);
	/* IBA 10.3.1.5: requests that have begun end with the attributes they began with. */
	if (qp->draining && qp->state == IBV_QPS_SQD &&
	    (*next == IBV_QPS_RTS || *next == IBV_QPS_SQD))
		return REFUSE(EINVAL, QP_DRAINING, "work requests under way: %u",
			      count_started(&qp->sq));
	error = qp_state_check(qp->type->ibv, qp->state, *next, mask);
	if (error)
		return refuse_transition(qp, error, *next, mask);
	error = migration_check_state(qp, attr, mask);
	if (error)
		REFUSE(error, QP_MIGRATION_STATE,
		       "path_mig_state is %d (%s), an alternate path is %s", attr->path_mig_state,
		       qp_mig_state_text(attr->path_mig_state),
		       qp->migration.loaded ? "loaded" : "not loaded");
	return error;
}

/* A path MTU that the network device can't carry would lose every full packet. */
static int check_mtu(struct qp *qp, const struct path *path, enum ibv_mtu mtu)
{
	struct gid_place place;

	if (!port_gids_find(&qp->hca->gids, &path->source, &place))
		return REFUSE(EINVAL, PATH_NO_GID, "the source address is gone");
	if (mtu <= hca_mtu(place.entry.mtu))
		return 0;
	return REFUSE(EINVAL, QP_MTU_LINK,
		      "path_mtu %u needs a network device with an MTU of %u or more, %s has %u: "
		      "at most path_mtu %u",
		      mtu_bytes(mtu), mtu_bytes(mtu) + NETDEV_MTU_HEADERS, place.entry.netdev,
		      place.entry.mtu, mtu_bytes(hca_mtu(place.entry.mtu)));
}

/* The port of the path is the QP's (IBA 11.2.5.2): in SQD they change together. */
static int check_port(const struct qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	uint8_t port_num = mask & IBV_QP_PORT ? attr->port_num : qp->attr.port_num;

	if (mask & IBV_QP_AV && attr->ah_attr.port_num != port_num)
		return REFUSE(EINVAL, QP_PORT_DIFFERS,
			      "ah_attr.port_num is %u, the port of the queue pair %u",
			      attr->ah_attr.port_num, port_num);
	if (!(mask & IBV_QP_AV) && qp->state == IBV_QPS_SQD && port_num != qp->attr.port_num)
		return REFUSE(EINVAL, QP_PORT_DIFFERS,
			      "port_num is %u, the path (IBV_QP_AV) stays one of port %u", port_num,
			      qp->attr.port_num);
	return 0;
}

/* --- application --------------------------------------------------------------------- */

#define COPY(bit, field)                                                                           \
	do {                                                                                       \
		if (mask & (bit))                                                                  \
			qp->attr.field = attr->field;                                              \
	} while (0)

static void copy_attributes(struct qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	COPY(IBV_QP_ACCESS_FLAGS, qp_access_flags);
	COPY(IBV_QP_PKEY_INDEX, pkey_index);
	COPY(IBV_QP_PORT, port_num);
	COPY(IBV_QP_QKEY, qkey);
	COPY(IBV_QP_AV, ah_attr);
	COPY(IBV_QP_PATH_MTU, path_mtu);
	COPY(IBV_QP_TIMEOUT, timeout);
	COPY(IBV_QP_RETRY_CNT, retry_cnt);
	COPY(IBV_QP_RNR_RETRY, rnr_retry);
	COPY(IBV_QP_RQ_PSN, rq_psn);
	COPY(IBV_QP_MAX_QP_RD_ATOMIC, max_rd_atomic);
	COPY(IBV_QP_MIN_RNR_TIMER, min_rnr_timer);
	COPY(IBV_QP_SQ_PSN, sq_psn);
	COPY(IBV_QP_MAX_DEST_RD_ATOMIC, max_dest_rd_atomic);
	COPY(IBV_QP_DEST_QPN, dest_qp_num);
	COPY(IBV_QP_ALT_PATH, alt_ah_attr);
	COPY(IBV_QP_ALT_PATH, alt_pkey_index);
	COPY(IBV_QP_ALT_PATH, alt_port_num);
	COPY(IBV_QP_ALT_PATH, alt_timeout);
}

/* What is made before anything changes, as it needs memory or can fail otherwise. */
struct preparation {
	struct qp_path path, alternate; /* all zeros, unless @attr has them */
};

static void release(struct preparation *preparation)
{
	qp_path_release(&preparation->path);
	qp_path_release(&preparation->alternate);
}

static void bound_window(struct qp *qp, const struct qp_path *path, uint32_t qpn)
{
	struct link *link = qp->hca->link;

	if (link->ops->capacity)
		destination_bound(path->destination, link->ops->capacity(link, &path->path, qpn));
}

/* @qpn: the peer's. */
static int prepare_path(struct qp *qp, const struct ibv_ah_attr *attr, enum ibv_mtu mtu,
			uint32_t qpn, struct qp_path *path)
{
	int err = path_resolve(qp->hca, attr, &path->path);

	if (!err)
		err = check_mtu(qp, &path->path, mtu);
	if (err || !qp->type->reliable)
		return err;
	path->path.traffic_class = ecn_capable(path->path.traffic_class);
	err = destination_get(qp->hca, &path->path.destination, &path->destination);
	if (err)
		return REFUSE(err, OUT_OF_MEMORY, "for what is known of the destination");
	bound_window(qp, path, qpn);
	return 0;
}

static int prepare_paths(struct qp *qp, const struct ibv_qp_attr *attr, int mask,
			 struct preparation *preparation)
{
	enum ibv_mtu mtu = mask & IBV_QP_PATH_MTU ? attr->path_mtu : qp->attr.path_mtu;
	uint32_t qpn = mask & IBV_QP_DEST_QPN ? attr->dest_qp_num : qp->attr.dest_qp_num;
	int err = check_port(qp, attr, mask);

	if (!err && (mask & IBV_QP_AV))
		err = prepare_path(qp, &attr->ah_attr, mtu, qpn, &preparation->path);
	if (!err && (mask & IBV_QP_ALT_PATH)) {
		if (attr->alt_ah_attr.port_num != attr->alt_port_num)
			return REFUSE(EINVAL, QP_PORT_DIFFERS,
				      "alt_ah_attr.port_num is %u, alt_port_num %u",
				      attr->alt_ah_attr.port_num, attr->alt_port_num);
		err = prepare_path(qp, &attr->alt_ah_attr, mtu, qpn, &preparation->alternate);
	}
	return err;
}

static int prepare(struct qp *qp, const struct ibv_qp_attr *attr, int mask,
		   struct preparation *preparation)
{
	int err = prepare_paths(qp, attr, mask, preparation);

	if (!err && (mask & IBV_QP_MAX_DEST_RD_ATOMIC) &&
	    attr->max_dest_rd_atomic != qp->responder.response.capacity) {
		err = response_set_resources(&qp->responder.response, attr->max_dest_rd_atomic);
		if (err)
			REFUSE(err, OUT_OF_MEMORY, "for max_dest_rd_atomic %u",
			       attr->max_dest_rd_atomic);
	}
	if (err)
		release(preparation);
	return err;
}

static void qp_enter_state(struct qp *qp, enum ibv_qp_state next, const struct ibv_qp_attr *attr,
			   int mask)
{
	enum ibv_qp_state current = qp->state;
	struct requester *req = &qp->requester;

	qp->state = next;
	if (next == IBV_QPS_RTR && current == IBV_QPS_INIT)
		qp->responder.expected_psn = qp->attr.rq_psn & PSN_MASK;
	if (next == IBV_QPS_RTS && current == IBV_QPS_RTR) {
		req->psn = req->unacked = req->highest = qp->attr.sq_psn & PSN_MASK;
		recovery_begin(&qp->recovery, req->psn);
	}
	if (next == IBV_QPS_SQD && current == IBV_QPS_RTS) {
		qp->draining = true;
		qp->drain_notify = (mask & IBV_QP_EN_SQD_ASYNC_NOTIFY) && attr->en_sqd_async_notify;
		qp_check_drained(qp);
	}
}

static void take_paths(struct qp *qp, const struct preparation *preparation, int mask)
{
	if (mask & IBV_QP_AV) {
		qp->path = preparation->path.path;
		qp->source_port = (struct source_port){};
		if (preparation->path.destination)
			recovery_set_destination(qp, preparation->path.destination);
	}
	if (mask & IBV_QP_ALT_PATH)
		migration_load(qp, &preparation->alternate);
}

static int modify(struct qp *qp, const struct ibv_qp_attr *attr, int mask, uint64_t now)
{
	struct preparation preparation = {};
	enum ibv_qp_state next = qp->state;
	int err;

	err = check_state(qp, attr, mask, &next);
	if (!err)
		err = check_ranges(qp, attr, mask);
	if (!err)
		err = prepare(qp, attr, mask, &preparation);
	if (err)
		return err;

	if (next == IBV_QPS_RESET && (mask & IBV_QP_STATE)) {
		qp_reset(qp);
		return 0;
	}
	if (next == IBV_QPS_ERR) {
		qp_enter_error(qp);
		return 0;
	}
	copy_attributes(qp, attr, mask);
	if ((mask & IBV_QP_PORT) && !qp->type->connected)
		qp->mtu = mtu_bytes(hca_active_mtu(qp->hca, attr->port_num));
	if (mask & IBV_QP_PATH_MTU)
		qp->mtu = mtu_bytes(attr->path_mtu);
	take_paths(qp, &preparation, mask);
	if (mask & (IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY))
		recovery_reload(&qp->recovery, &qp->attr);
	if (mask & IBV_QP_PATH_MIG_STATE)
		migration_set_state(qp, attr->path_mig_state, now);
	if (mask & IBV_QP_STATE)
		qp_enter_state(qp, next, attr, mask);
	return 0;
}

/* Lately: before it was reset. */
static bool was_connected(struct qp *qp, uint64_t now)
{
	bool was;

	pthread_mutex_lock(&qp->lock);
	was = now < qp->former.until;
	pthread_mutex_unlock(&qp->lock);
	return was;
}

int qp_modify(struct qp *qp, const struct ibv_qp_attr *attr, int mask, uint64_t now)
{
	struct outbox *outbox;
	int err;

	mask &= ~qp->type->ignored; /* so that programs set an XRC QP up as one of RC */
	/*
	 * Hardware has acknowledged what it executed; here that may wait
	 * (emu/transport/ack_queue.h).
	 */
	if ((mask & IBV_QP_STATE) &&
	    (attr->qp_state == IBV_QPS_RESET || attr->qp_state == IBV_QPS_ERR))
		qp_drain(qp, now);
	/*
	 * In INIT hardware has dropped what came for the connection before; here it may wait in the
	 * link, and the next one may have its PSNs.
	 */
	if ((mask & IBV_QP_STATE) && attr->qp_state == IBV_QPS_RTR && was_connected(qp, now))
		hca_catch_up(qp->hca, now);
	pthread_mutex_lock(&qp->lock);
	qp_set_time(qp, now);
	err = modify(qp, attr, mask, now);
	if (!err)
		WATCH(qp->hca, qp_modified, qp);
	qp_show_attributes(qp);
	qp_show_progress(qp);
	pthread_mutex_unlock(&qp->lock);
	if (err)
		return err;
	/* Back in RTS there may be work, in SQD there may be nothing left to drain. */
	outbox = outbox_get(qp->hca, now);
	if (outbox) {
		qp_run(qp, outbox);
		outbox_put(outbox);
	} else {
		hca_schedule(qp->hca, qp);
	}
	hca_kick(qp->hca);
	return 0;
}

void qp_follow_mtu(struct hca *hca, unsigned int port_num, enum ibv_mtu mtu)
{
	struct qp *qp;

	for (uint32_t number = 0; (qp = table_get_next(&hca->qps, &number)); number++) {
		pthread_mutex_lock(&qp->lock);
		if (!qp->type->connected && qp->attr.port_num == port_num) {
			qp->mtu = mtu_bytes(mtu);
			qp_show_attributes(qp);
		}
		pthread_mutex_unlock(&qp->lock);
		table_put(&hca->qps, number);
	}
}

/* --- query ------------------------------------------------------------------------------ */

void qp_query(struct qp *qp, struct ibv_qp_attr *attr, struct ibv_qp_init_attr *init_attr)
{
	pthread_mutex_lock(&qp->lock);
	*attr = qp->attr;
	attr->qp_state = attr->cur_qp_state = qp->state;
	attr->sq_draining = qp->draining;
	attr->path_mig_state = qp->migration.state;
	attr->cap = qp->cap;
	if (qp->state == IBV_QPS_RTS || qp->state == IBV_QPS_SQD || qp->state == IBV_QPS_SQE)
		attr->sq_psn = qp->requester.psn;
	if (qp->state >= IBV_QPS_RTR)
		attr->rq_psn = qp->responder.expected_psn;
	pthread_mutex_unlock(&qp->lock);
	*init_attr = (struct ibv_qp_init_attr){
		.qp_context = qp->ibv.qp_context,
		.send_cq = (struct ibv_cq *)qp->send_cq,
		.recv_cq = (struct ibv_cq *)qp->recv_cq,
		.srq = (struct ibv_srq *)qp->srq,
		.cap = qp->cap,
		.qp_type = qp->type->ibv,
		.sq_sig_all = qp->signal_all,
	};
}
