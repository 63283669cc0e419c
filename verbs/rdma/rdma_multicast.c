/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Groups that an id has joined. There is no subnet administrator to ask on RoCE:
 * a group's GID is its IP address, joining is the kernel's membership on the
 * id's interface, and the event is there at once. The thread that gets the event
 * attaches the QP, as librdmacm does.
 *
 * A full member receives; an id that joins to send only has no membership, and its
 * QP isn't attached (rdma_join_multicast_ex(3)).
 */
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "net/cause/cause.h"
#include "net/log.h"
#include "verbs/context.h"
#include "verbs/rdma/rdma.h"

/* --- joining, with rdma.lock held ----------------------------------------------------- */

static struct hca *hca_of(const struct rdma_id *id)
{
	return id->context->hca;
}

static int check_join(const struct rdma_id *id, const union ibv_gid *gid)
{
	char text[INET6_ADDRSTRLEN];

	if (id->ibv.qp_type != IBV_QPT_UD)
		return refuse(EINVAL, CAUSE_CM_JOIN_TYPE,
			      "rdma_join_multicast(): an id of port space 0x%x", id->ibv.ps);
	if (!id->context ||
	    (id->state != RDMA_STATE_ADDRESS_BOUND && id->state != RDMA_STATE_ADDRESS_RESOLVED))
		return rdma_refuse_state(id, "rdma_join_multicast()",
					 "bound to an address of a device, or at ADDR_RESOLVED");
	if (!gid_is_multicast(gid))
		return refuse(EINVAL, CAUSE_CM_JOIN_GROUP, "rdma_join_multicast(): %s is no group",
			      gid_to_text(gid, text));
	/* A packet is of one family. */
	if (gid_is_ipv4(gid) == gid_is_ipv4(&id->ibv.route.addr.addr.ibaddr.sgid))
		return 0;
	return refuse(ENODEV, CAUSE_CM_JOIN_GROUP,
		      "rdma_join_multicast(): group %s, of an id bound to the other IP version",
		      gid_to_text(gid, text));
}

static int tell_joined(struct rdma_id *id, struct multicast_membership *membership)
{
	struct rdma_record *record = rdma_record_new(id, RDMA_CM_EVENT_MULTICAST_JOIN, 0);
	struct gid_place source;

	if (!record)
		return ENOMEM;
	port_gids_find(&id->device->gids, &id->ibv.route.addr.addr.ibaddr.sgid, &source);
	record->multicast = membership;
	record->event.param.ud = (struct rdma_ud_param){
		.private_data = membership->context,
		.ah_attr = {.is_global = 1,
			    .port_num = source.port_num,
			    .grh = {.dgid = membership->gid,
				    .sgid_index = source.index,
				    .hop_limit = HOP_LIMIT_DEFAULT,
				    .traffic_class = id->tos}},
		.qp_num = QPN_MULTICAST,
		.qkey = id->qkey,
	};
	return rdma_channel_append(record) ? 0 : ENOMEM;
}

static void leave_link(struct rdma_id *id, struct multicast_membership *membership)
{
	if (membership->joined)
		mcast_leave(hca_of(id), &membership->gid);
	membership->joined = false;
}

static int join_group(struct rdma_id *id, struct multicast_membership *membership)
{
	int error = check_join(id, &membership->gid);
	char text[INET6_ADDRSTRLEN];

	if (error)
		return error;
	if (!membership->send_only) {
		error = mcast_join(hca_of(id), &membership->gid,
				   &id->ibv.route.addr.addr.ibaddr.sgid);
		if (error)
			return refuse(error, CAUSE_CM_JOIN_LINK,
				      "rdma_join_multicast(): group %s: %s",
				      gid_to_text(&membership->gid, text), strerror(error));
		membership->joined = true;
		progress_refresh(id->device->client);
	}
	if (!id->qkey)
		id->qkey = RDMA_UDP_QKEY;
	error = tell_joined(id, membership);
	if (error)
		leave_link(id, membership);
	else
		log_info("rdma_cm: joined group %s%s", gid_to_text(&membership->gid, text),
			 membership->send_only ? " to send" : "");
	return error;
}

static int refuse_family(const char *call, const struct sockaddr *address)
{
	return refuse(EINVAL, CAUSE_CM_ADDRESS_FAMILY, "%s: the address family is %d", call,
		      address ? address->sa_family : AF_UNSPEC);
}

static int join(struct rdma_cm_id *ibv, const struct sockaddr *address, bool send_only,
		void *context)
{
	struct rdma_id *id = to_rdma_id(ibv);
	struct multicast_membership *membership;
	size_t length = rdma_sockaddr_length(address);
	bool synchronous;
	int error;

	if (length == 0)
		return rdma_fail(refuse_family("rdma_join_multicast()", address));
	membership = calloc(1, sizeof(*membership));
	if (!membership)
		return rdma_fail(refuse(ENOMEM, CAUSE_OUT_OF_MEMORY, "for a group's member"));
	memcpy(&membership->address, address, length);
	rdma_sockaddr_gid(address, &membership->gid);
	membership->send_only = send_only;
	membership->context = context;
	rdma_enter();
	synchronous = id->synchronous;
	error = join_group(id, membership);
	if (!error)
		DL_APPEND(id->memberships, membership);
	rdma_leave();
	if (!error)
		return rdma_complete(id, synchronous);
	free(membership);
	return rdma_fail(error);
}

int urxe_rdma_join_multicast(struct rdma_cm_id *id, struct sockaddr *address, void *context)
{
	return join(id, address, false, context);
}

static int refuse_mask(int error, const struct rdma_cm_join_mc_attr_ex *attr)
{
	return refuse(error, CAUSE_CM_JOIN_MASK,
		      "rdma_join_multicast_ex(): comp_mask 0x%x, join_flags %u", attr->comp_mask,
		      attr->join_flags);
}

int urxe_rdma_join_multicast_ex(struct rdma_cm_id *id, struct rdma_cm_join_mc_attr_ex *attr,
				void *context)
{
	const uint32_t needed = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS;

	if (attr->comp_mask >= RDMA_CM_JOIN_MC_ATTR_RESERVED)
		return rdma_fail(refuse_mask(ENOTSUP, attr));
	if (attr->comp_mask != needed || attr->join_flags >= RDMA_MC_JOIN_FLAG_RESERVED)
		return rdma_fail(refuse_mask(EINVAL, attr));
	return join(id, attr->addr, attr->join_flags == RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER,
		    context);
}

void rdma_multicast_attach(struct rdma_record *record)
{
	struct multicast_membership *membership = record->multicast;
	struct ibv_qp *qp = record->id->ibv.qp;
	char text[INET6_ADDRSTRLEN];
	int error = rdma_injected(FAULT_MULTICAST_ERROR);

	if (error) {
		record->event.event = RDMA_CM_EVENT_MULTICAST_ERROR;
		record->event.status = -error;
		return;
	}
	if (!qp || membership->send_only)
		return;
	error = urxe_attach_mcast(qp, &membership->gid, 0);
	membership->attached = !error;
	if (error) {
		cause_report(CAUSE_CM_MULTICAST_ERROR, "QP 0x%06x could not be attached to %s: %s",
			     qp->qp_num, gid_to_text(&membership->gid, text), strerror(error));
		record->event.event = RDMA_CM_EVENT_MULTICAST_ERROR;
		record->event.status = -error;
	}
}

/* --- leaving ------------------------------------------------------------------------- */

static struct multicast_membership *membership_find(const struct rdma_id *id,
						    const struct sockaddr *address)
{
	struct multicast_membership *membership;

	DL_FOREACH (id->memberships, membership) {
		if (memcmp(&membership->address, address, rdma_sockaddr_length(address)) == 0)
			return membership;
	}
	return NULL;
}

static void detach(struct rdma_id *id, struct multicast_membership *membership)
{
	if (membership->attached && id->ibv.qp)
		urxe_detach_mcast(id->ibv.qp, &membership->gid, 0);
	membership->attached = false;
}

/* Ack what a synchronous call left in ibv.event: the application will not. */
static void drop_event(struct rdma_id *id, const struct multicast_membership *membership)
{
	const struct rdma_record *record = (const struct rdma_record *)id->ibv.event;

	if (id->synchronous && record && record->multicast == membership)
		rdma_drop_event(id);
}

int urxe_rdma_leave_multicast(struct rdma_cm_id *ibv, struct sockaddr *address)
{
	struct rdma_id *id = to_rdma_id(ibv);
	struct multicast_membership *membership;
	char text[RDMA_ADDRESS_TEXT];

	if (rdma_sockaddr_length(address) == 0)
		return rdma_fail(refuse_family("rdma_leave_multicast()", address));
	rdma_enter();
	membership = membership_find(id, address);
	if (membership) {
		DL_DELETE(id->memberships, membership);
		rdma_channel_drop_membership(id, membership);
	}
	rdma_leave();
	if (!membership)
		return rdma_fail(refuse(EADDRNOTAVAIL, CAUSE_CM_NOT_JOINED,
					"rdma_leave_multicast() of %s",
					rdma_address_text(address, text)));
	drop_event(id, membership);
	rdma_enter();
	rdma_drain_membership_events(membership);
	detach(id, membership);
	leave_link(id, membership);
	rdma_leave();
	free(membership);
	return 0;
}

void rdma_multicast_detach(struct rdma_id *id)
{
	struct multicast_membership *membership;

	DL_FOREACH (id->memberships, membership)
		detach(id, membership);
}

void rdma_multicast_leave(struct rdma_id *id)
{
	struct multicast_membership *membership, *next;

	DL_FOREACH_SAFE (id->memberships, membership, next) {
		DL_DELETE(id->memberships, membership);
		detach(id, membership);
		leave_link(id, membership);
		free(membership);
	}
}

void rdma_multicast_after_fork_child(struct rdma_id *id)
{
	struct multicast_membership *membership;

	DL_FOREACH (id->memberships, membership)
		membership->joined = membership->attached = false;
}
