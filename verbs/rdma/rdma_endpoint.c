/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Endpoints: what is made of the answer of rdma_getaddrinfo(), a synchronous
 * id with all that a connection needs. Everything here is built of the calls
 * that an application could make itself; rdma.lock is theirs to take.
 */
#include <stdlib.h>
#include <string.h>

#include "net/cause/cause.h"
#include "verbs/rdma/rdma.h"

#define RESOLVE_TIMEOUT_MS 2000

/* 0, or -1 with EINVAL for an address that isn't as long as its family's are. */
static int check_length(const struct sockaddr *address, socklen_t length)
{
	if (address && length == rdma_sockaddr_length(address))
		return 0;
	return rdma_fail(refuse(EINVAL, CAUSE_CM_ARGUMENT,
				"rdma_create_ep(): an address of family %d with length %u",
				address ? address->sa_family : AF_UNSPEC, length));
}

/* Remember what rdma_get_request() gives each new id. */
static int prepare_passive(struct rdma_id *id, struct rdma_addrinfo *info, struct ibv_pd *pd,
			   const struct ibv_qp_init_attr *attr)
{
	if (check_length(info->ai_src_addr, info->ai_src_len) != 0 ||
	    urxe_rdma_bind_addr(&id->ibv, info->ai_src_addr) != 0)
		return -1;
	if (pd)
		id->ibv.pd = pd;
	if (!attr)
		return 0;
	id->request_qp = malloc(sizeof(*attr));
	if (!id->request_qp)
		return rdma_fail(refuse(ENOMEM, CAUSE_OUT_OF_MEMORY, "for an endpoint"));
	*id->request_qp = *attr;
	id->request_qp->qp_type = info->ai_qp_type;
	return 0;
}

/* By the paths that the caller has, if any. */
static int resolve_route(struct rdma_id *id, const struct rdma_addrinfo *info)
{
	if (!info->ai_route_len)
		return urxe_rdma_resolve_route(&id->ibv, RESOLVE_TIMEOUT_MS);
	if (urxe_rdma_set_option(&id->ibv, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, info->ai_route,
				 info->ai_route_len) != 0)
		return -1;
	return rdma_complete(id, true); /* rdma_create_ep() makes no other */
}

static int prepare_active(struct rdma_id *id, struct rdma_addrinfo *info, struct ibv_pd *pd,
			  struct ibv_qp_init_attr *attr)
{
	struct sockaddr *source = info->ai_src_len ? info->ai_src_addr : NULL;

	if ((source && check_length(source, info->ai_src_len) != 0) ||
	    check_length(info->ai_dst_addr, info->ai_dst_len) != 0 ||
	    urxe_rdma_resolve_addr(&id->ibv, source, info->ai_dst_addr, RESOLVE_TIMEOUT_MS) != 0 ||
	    resolve_route(id, info) != 0)
		return -1;
	if (info->ai_connect_len) {
		if (info->ai_connect_len > RDMA_PRIVATE_SIDR_REQ)
			return rdma_fail(
				refuse(EINVAL, CAUSE_CM_PRIVATE_DATA,
				       "rdma_create_ep(): ai_connect_len is %zu, of at most %d",
				       (size_t)info->ai_connect_len, RDMA_PRIVATE_SIDR_REQ));
		id->connect_data = malloc(info->ai_connect_len);
		if (!id->connect_data)
			return rdma_fail(refuse(ENOMEM, CAUSE_OUT_OF_MEMORY, "for an endpoint"));
		memcpy(id->connect_data, info->ai_connect, info->ai_connect_len);
		id->connect_length = info->ai_connect_len;
	}
	if (!attr)
		return 0;
	attr->qp_type = info->ai_qp_type;
	return urxe_rdma_create_qp(&id->ibv, pd, attr);
}

static int prepare(struct rdma_id *id, struct rdma_addrinfo *info, struct ibv_pd *pd,
		   struct ibv_qp_init_attr *attr)
{
	return info->ai_flags & RAI_PASSIVE ? prepare_passive(id, info, pd, attr)
					    : prepare_active(id, info, pd, attr);
}

/* A thread may be cancelled while it waits for the id's events: the application hasn't the id. */
static void destroy_unknown(void *id)
{
	urxe_rdma_destroy_ep(id);
}

int urxe_rdma_create_ep(struct rdma_cm_id **result, struct rdma_addrinfo *info, struct ibv_pd *pd,
			struct ibv_qp_init_attr *attr)
{
	struct rdma_id *id;
	int error, failed;

	rdma_enter();
	error = rdma_id_new(NULL, NULL, info->ai_port_space, info->ai_qp_type, &id);
	rdma_leave();
	if (error)
		return rdma_fail(error);
	pthread_cleanup_push(destroy_unknown, &id->ibv);
	failed = prepare(id, info, pd, attr);
	pthread_cleanup_pop(0);
	if (failed) {
		error = errno;
		urxe_rdma_destroy_ep(&id->ibv);
		return rdma_fail(error);
	}
	*result = &id->ibv;
	return 0;
}

void urxe_rdma_destroy_ep(struct rdma_cm_id *id)
{
	if (id->qp)
		urxe_rdma_destroy_qp(id);
	if (id->srq)
		urxe_rdma_destroy_srq(id);
	urxe_rdma_destroy_id(id);
}

/* The id of a new connection, made as complete as its listener says. */
static int adopt_request(struct rdma_id *listen, struct rdma_cm_event *event)
{
	struct ibv_qp_init_attr attr;

	if (event->status)
		return rdma_fail(event->status < 0 ? -event->status : event->status);
	if (event->event != RDMA_CM_EVENT_CONNECT_REQUEST)
		return rdma_fail(refuse(EINVAL, CAUSE_CM_ARGUMENT,
					"rdma_get_request(): the event is %d, not CONNECT_REQUEST",
					event->event));
	if (!listen->request_qp)
		return 0;
	attr = *listen->request_qp;
	return urxe_rdma_create_qp(event->id, listen->ibv.pd, &attr);
}

int urxe_rdma_get_request(struct rdma_cm_id *listen, struct rdma_cm_id **id)
{
	struct rdma_cm_event *event;
	int error;

	if (!to_rdma_id(listen)->synchronous)
		return rdma_fail(refuse(EINVAL, CAUSE_CM_ARGUMENT,
					"rdma_get_request(): the id has an event channel"));
	if (to_rdma_id(listen)->state != RDMA_STATE_LISTEN)
		return rdma_fail(rdma_refuse_state_unlocked(to_rdma_id(listen),
							    "rdma_get_request()", "listening"));
	rdma_drop_event(to_rdma_id(listen));
	if (urxe_rdma_get_cm_event(listen->channel, &event) != 0)
		return -1;
	if (adopt_request(to_rdma_id(listen), event) != 0) {
		error = errno;
		listen->event = event; /* until the next call, as with every synchronous one */
		return rdma_fail(error);
	}
	*id = event->id;
	(*id)->event = event;
	return 0;
}
