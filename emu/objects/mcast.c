/* SPDX-License-Identifier: BSD-2-Clause */
#include "emu/objects/mcast.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>
#include <utlist.h>

#include "emu/capacity.h"
#include "emu/objects/qp.h"
#include "emu/receive.h"
#include "net/cause/cause.h"
#include "net/qp_text.h"

struct mcast_member {
	struct qp *qp;
	struct mcast_member *prev, *next;
};

struct mcast_group {
	union ibv_gid gid;
	uint32_t joins, count;
	struct mcast_member *members; /* @count of them */
	UT_hash_handle hh;
};

void mcast_init(struct mcast *mcast)
{
	*mcast = (struct mcast){0};
	pthread_mutex_init(&mcast->lock, NULL);
	pthread_mutex_init(&mcast->members_lock, NULL);
}

/* --- groups, with one of the locks held ------------------------------------------------ */

static struct mcast_group *find_group(const struct mcast *mcast, const union ibv_gid *gid)
{
	struct mcast_group *group;

	HASH_FIND(hh, mcast->groups, gid, sizeof(*gid), group);
	return group;
}

static struct mcast_member *find_member(const struct mcast_group *group, const struct qp *qp)
{
	struct mcast_member *member;

	DL_SEARCH_SCALAR(group->members, member, qp, qp);
	return member;
}

static int add_group(struct hca *hca, const union ibv_gid *gid, struct mcast_group **added)
{
	struct mcast *mcast = &hca->mcast;
	struct mcast_group *group;

	if (!hca->limits.device.max_mcast_grp)
		return refuse(EOPNOTSUPP, CAUSE_NOT_SUPPORTED,
			      "multicast groups: max_mcast_grp is 0");
	if (HASH_COUNT(mcast->groups) >= (unsigned int)hca->limits.device.max_mcast_grp)
		return refuse(ENOMEM, CAUSE_LIMIT_REACHED, "multicast groups: %d (max_mcast_grp)",
			      hca->limits.device.max_mcast_grp);
	group = calloc(1, sizeof(*group));
	if (!group)
		return refuse(ENOMEM, CAUSE_OUT_OF_MEMORY, "for a multicast group");
	group->gid = *gid;
	pthread_mutex_lock(&mcast->members_lock);
	HASH_ADD(hh, mcast->groups, gid, sizeof(group->gid), group);
	pthread_mutex_unlock(&mcast->members_lock);
	if (!group->hh.tbl) {
		free(group);
		return refuse(ENOMEM, CAUSE_OUT_OF_MEMORY, "for a multicast group");
	}
	*added = group;
	return 0;
}

/* A group without members and joins. */
static void drop_group(struct hca *hca, struct mcast_group *group)
{
	struct mcast *mcast = &hca->mcast;

	if (group->joins || group->count)
		return;
	hca->link->ops->leave(hca->link, &group->gid);
	pthread_mutex_lock(&mcast->members_lock);
	HASH_DEL(mcast->groups, group);
	pthread_mutex_unlock(&mcast->members_lock);
	free(group);
}

/* Verbs have ENOMEM for whatever a machine runs out of. */
static int join_link(struct hca *hca, const union ibv_gid *gid, const union ibv_gid *source)
{
	int error = hca->link->ops->join(hca->link, gid, source);
	char group[INET6_ADDRSTRLEN], from[INET6_ADDRSTRLEN];

	if (error)
		cause_report(CAUSE_MCAST_JOIN, "group %s%s%s: %s", gid_to_text(gid, group),
			     source ? " on the interface of " : "",
			     source ? gid_to_text(source, from) : "", strerror(error));
	return error == EMFILE || error == ENFILE || error == ENOBUFS ? ENOMEM : error;
}

/* The group @gid, made if need be; what fails later drops it again. */
static int get_group(struct hca *hca, const union ibv_gid *gid, struct mcast_group **group)
{
	*group = find_group(&hca->mcast, gid);
	return *group ? 0 : add_group(hca, gid, group);
}

void mcast_destroy(struct hca *hca)
{
	struct mcast *mcast = &hca->mcast;
	struct mcast_group *group, *next;

	HASH_ITER (hh, mcast->groups, group, next) {
		group->joins = 0;
		drop_group(hca, group);
	}
	pthread_mutex_destroy(&mcast->members_lock);
	pthread_mutex_destroy(&mcast->lock);
}

/* --- joining --------------------------------------------------------------------- */

int mcast_join(struct hca *hca, const union ibv_gid *gid, const union ibv_gid *source)
{
	struct mcast_group *group;
	int error;

	pthread_mutex_lock(&hca->mcast.lock);
	error = get_group(hca, gid, &group);
	if (!error) {
		error = join_link(hca, gid, source);
		group->joins += !error;
		drop_group(hca, group);
	}
	pthread_mutex_unlock(&hca->mcast.lock);
	return error;
}

void mcast_leave(struct hca *hca, const union ibv_gid *gid)
{
	struct mcast_group *group;

	pthread_mutex_lock(&hca->mcast.lock);
	group = find_group(&hca->mcast, gid);
	if (group && group->joins) {
		group->joins--;
		drop_group(hca, group);
	}
	pthread_mutex_unlock(&hca->mcast.lock);
}

/* --- attaching ------------------------------------------------------------------- */

static int add_member(struct mcast_group *group, struct qp *qp)
{
	const struct ibv_device_attr *limits = &qp->hca->limits.device;
	struct mcast *mcast = &qp->hca->mcast;
	struct mcast_member *member;
	int error;

	if (group->count >= (uint32_t)limits->max_mcast_qp_attach ||
	    mcast->attached >= (uint32_t)limits->max_total_mcast_qp_attach)
		return refuse(
			ENOMEM, CAUSE_LIMIT_REACHED,
			"queue pairs attached to the group: %u (max_mcast_qp_attach is %d), to "
			"any: %u (max_total_mcast_qp_attach is %d)",
			group->count, limits->max_mcast_qp_attach, mcast->attached,
			limits->max_total_mcast_qp_attach);
	/* A joined group is received already, where it was joined, and nowhere else on purpose. */
	error = group->joins || group->count ? 0 : join_link(qp->hca, &group->gid, NULL);
	if (error)
		return error;
	member = calloc(1, sizeof(*member));
	if (!member)
		return refuse(ENOMEM, CAUSE_OUT_OF_MEMORY, "for a member of a multicast group");
	member->qp = qp;
	pthread_mutex_lock(&mcast->members_lock);
	DL_APPEND(group->members, member);
	pthread_mutex_unlock(&mcast->members_lock);
	group->count++;
	mcast->attached++;
	atomic_fetch_add(&qp->groups, 1);
	return 0;
}

int mcast_attach(struct qp *qp, const union ibv_gid *gid)
{
	struct mcast *mcast = &qp->hca->mcast;
	char address[INET6_ADDRSTRLEN];
	struct mcast_group *group;
	int error;

	if (qp->type->connected)
		return refuse(EINVAL, CAUSE_MCAST_NOT_UD, "ibv_attach_mcast(), QP 0x%x (%s)",
			      qp->number, qp_type_text(qp->type->ibv));
	if (!gid_is_multicast(gid))
		return refuse(EINVAL, CAUSE_MCAST_NO_GROUP, "ibv_attach_mcast(): %s",
			      gid_to_text(gid, address));
	error = capacity_alive(qp->hca, "ibv_attach_mcast()");
	if (error)
		return error;
	pthread_mutex_lock(&mcast->lock);
	error = get_group(qp->hca, gid, &group);
	if (!error && !find_member(group, qp)) {
		error = add_member(group, qp);
		drop_group(qp->hca, group);
	}
	pthread_mutex_unlock(&mcast->lock);
	return error;
}

static int refuse_detach(const struct qp *qp, const union ibv_gid *gid)
{
	char address[INET6_ADDRSTRLEN];

	return refuse(EINVAL, CAUSE_MCAST_NOT_ATTACHED,
		      "ibv_detach_mcast(), QP 0x%x (%s), group %s; it is attached to %u",
		      qp->number, qp_type_text(qp->type->ibv), gid_to_text(gid, address),
		      atomic_load(&qp->groups));
}

static int remove_member(struct mcast_group *group, struct qp *qp)
{
	struct mcast *mcast = &qp->hca->mcast;
	struct mcast_member *member = find_member(group, qp);

	if (!member)
		return refuse_detach(qp, &group->gid);
	pthread_mutex_lock(&mcast->members_lock);
	DL_DELETE(group->members, member);
	pthread_mutex_unlock(&mcast->members_lock);
	free(member);
	group->count--;
	mcast->attached--;
	atomic_fetch_sub(&qp->groups, 1);
	drop_group(qp->hca, group);
	return 0;
}

int mcast_detach(struct qp *qp, const union ibv_gid *gid)
{
	struct mcast *mcast = &qp->hca->mcast;
	struct mcast_group *group;
	int error;

	pthread_mutex_lock(&mcast->lock);
	group = find_group(mcast, gid);
	error = group ? remove_member(group, qp) : refuse_detach(qp, gid);
	pthread_mutex_unlock(&mcast->lock);
	return error;
}

/* --- packets --------------------------------------------------------------------- */

/* Processes that share an address share its QP numbers: address and number are one QP's. */
static bool is_sender(const struct qp *qp, const struct packet *packet,
		      const struct link_frame *frame)
{
	struct gid_place place;

	return packet->op->deth &&
	       (be32toh(packet_deth(packet)->source_qp) & QPN_MASK) == qp->number &&
	       port_gids_find(&qp->hca->gids, &frame->source, &place);
}

/*
 * Each QP makes its own checks (P_Key, Q_Key, a receive posted), and what one QP
 * can't take the other QPs still get. The sender's own QP is one of them, if attached
 * (IBA 10.5), as on Linux rxe, unless it was created to be left out.
 */
static void deliver(struct hca *hca, const struct packet *packet, const struct link_frame *frame,
		    uint64_t now)
{
	struct mcast_group *group = find_group(&hca->mcast, &frame->destination);
	struct mcast_member *member;

	if (!group || !group->members) {
		COUNT(hca, dropped_packets, 1);
		return;
	}
	DL_FOREACH (group->members, member) {
		if (member->qp->blocks_own_multicast && is_sender(member->qp, packet, frame))
			continue;
		qp_receive(member->qp, packet, frame, now);
	}
}

void mcast_receive(struct hca *hca, const struct packet *packet, const struct link_frame *frame,
		   uint64_t now)
{
	/* The multicast QP number and a multicast GID belong together (IBA 9.6.1). */
	if (packet->dest_qp != QPN_MULTICAST || !gid_is_multicast(&frame->destination)) {
		COUNT(hca, dropped_packets, 1);
		return;
	}
	pthread_mutex_lock(&hca->mcast.members_lock);
	deliver(hca, packet, frame, now);
	pthread_mutex_unlock(&hca->mcast.members_lock);
}
