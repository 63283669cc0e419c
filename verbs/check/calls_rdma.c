/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls of librdmacm: verbs/check/calls.h says what a line is. */
#include <rdma/rdma_cma.h>

#include "verbs/check/calls.h"
#include "verbs/check/report.h"

#define ID                                                                                         \
	{                                                                                          \
		OBJECT_CM_ID, id                                                                   \
	}

/* --- ids --------------------------------------------------------------------------- */

/* What an id has got by a call: the library made it, but the QP is the application's to destroy. */
static void join_id(struct rdma_cm_id *id)
{
	object_join(id->qp, id, false);
	object_join(id->srq, id, false);
	object_join(id->send_cq, id, true);
	object_join(id->recv_cq, id, true);
	object_join(id->send_cq_channel, id, true);
	object_join(id->recv_cq_channel, id, true);
}

/* A new one, on @channel or on none of the application's. */
static void made_id(struct rdma_cm_id *id, const struct rdma_event_channel *channel)
{
	const struct object_use owners[] = {{OBJECT_CM_CHANNEL, channel}, {0}};

	object_made(OBJECT_CM_ID, id, owners);
	join_id(id);
}

int checked_rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id,
			   void *context, enum rdma_port_space ps)
{
	int result;

	if (check_is_on() && !CHECK_USES("rdma_create_id()", {OBJECT_CM_CHANNEL, channel}))
		return MINUS_ONE;
	result = urxe_rdma_create_id(channel, id, context, ps);
	if (result == 0 && check_is_on())
		made_id(*id, channel);
	return result;
}

int checked_rdma_create_ep(struct rdma_cm_id **id, struct rdma_addrinfo *info, struct ibv_pd *pd,
			   struct ibv_qp_init_attr *attr)
{
	int result;

	if (check_is_on() &&
	    !CHECK_USES("rdma_create_ep()", {OBJECT_ADDRINFO, info}, {OBJECT_PD, pd}))
		return MINUS_ONE;
	result = urxe_rdma_create_ep(id, info, pd, attr);
	if (result == 0 && check_is_on())
		made_id(*id, NULL);
	return result;
}

int checked_rdma_get_request(struct rdma_cm_id *listen, struct rdma_cm_id **id)
{
	int result;

	if (check_is_on() && !CHECK_USES("rdma_get_request()", {OBJECT_CM_ID, listen}))
		return MINUS_ONE;
	result = urxe_rdma_get_request(listen, id);
	if (result == 0 && check_is_on())
		made_id(*id, NULL);
	return result;
}

int checked_rdma_destroy_id(struct rdma_cm_id *id)
{
	static const char call[] = "rdma_destroy_id()";
	int result;

	if (!check_is_on())
		return urxe_rdma_destroy_id(id);
	if (!check_destroy(call, OBJECT_CM_ID, id))
		return MINUS_ONE;
	check_unused(call, id);
	result = urxe_rdma_destroy_id(id);
	if (result == 0)
		object_destroyed(id);
	return result;
}

void checked_rdma_destroy_ep(struct rdma_cm_id *id)
{
	if (check_is_on() && !check_destroy("rdma_destroy_ep()", OBJECT_CM_ID, id))
		return;
	urxe_rdma_destroy_ep(id);
	if (check_is_on())
		object_destroyed(id);
}

int checked_rdma_migrate_id(struct rdma_cm_id *id, struct rdma_event_channel *channel)
{
	const struct rdma_event_channel *before;
	int result;

	if (!check_is_on())
		return urxe_rdma_migrate_id(id, channel);
	if (!CHECK_USES("rdma_migrate_id()", ID, {OBJECT_CM_CHANNEL, channel}))
		return MINUS_ONE;
	before = id->channel;
	result = urxe_rdma_migrate_id(id, channel);
	if (result == 0)
		object_move(id, before, channel);
	return result;
}

/* --- queue pairs and shared receive queues of ids --------------------------------------- */

/* A call by which @id gets what the library makes. */
#define GIVES_ID(name, parameters, arguments, ...)                                                 \
	int checked_##name parameters                                                              \
	{                                                                                          \
		int result;                                                                        \
                                                                                                   \
		if (check_is_on() && !CHECK_USES(#name "()", ID, ##__VA_ARGS__))                   \
			return MINUS_ONE;                                                          \
		result = urxe_##name arguments;                                                    \
		if (result == 0 && check_is_on())                                                  \
			join_id(id);                                                               \
		return result;                                                                     \
	}

/* clang-format off */
#define QUEUES_OF(attr) {OBJECT_CQ, attr->send_cq}, {OBJECT_CQ, attr->recv_cq}, {OBJECT_SRQ, attr->srq}

GIVES_ID(rdma_create_qp, (struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr), (id, pd, attr), {OBJECT_PD, pd}, QUEUES_OF(attr))
GIVES_ID(rdma_create_qp_ex, (struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *attr), (id, attr), QUEUES_OF(attr))
GIVES_ID(rdma_create_srq, (struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_srq_init_attr *attr), (id, pd, attr), {OBJECT_PD, pd})
GIVES_ID(rdma_create_srq_ex, (struct rdma_cm_id *id, struct ibv_srq_init_attr_ex *attr), (id, attr))
/* clang-format on */

/* Whether @id has one, of @kind. A destroyed one is found where the library destroys it. */
static bool has(const char *call, struct rdma_cm_id *id, const void *pointer, enum object_kind kind)
{
	if (!CHECK_USES(call, ID))
		return false;
	if (!pointer)
		check_report(CAUSE_OBJECT_DESTROYED_TWICE, CHECK_NO_PLACES,
			     "%s: the rdma_cm_id has no %s", call, object_kind_text(kind, 1));
	return pointer;
}

void checked_rdma_destroy_qp(struct rdma_cm_id *id)
{
	if (!check_is_on() || has("rdma_destroy_qp()", id, id->qp, OBJECT_QP))
		urxe_rdma_destroy_qp(id);
}

void checked_rdma_destroy_srq(struct rdma_cm_id *id)
{
	if (!check_is_on() || has("rdma_destroy_srq()", id, id->srq, OBJECT_SRQ))
		urxe_rdma_destroy_srq(id);
}

/* --- events ------------------------------------------------------------------------ */

struct rdma_event_channel *checked_rdma_create_event_channel(void)
{
	struct rdma_event_channel *channel = urxe_rdma_create_event_channel();

	return check_is_on() ? object_made(OBJECT_CM_CHANNEL, channel, NULL) : channel;
}

void checked_rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
	static const char call[] = "rdma_destroy_event_channel()";

	if (!check_is_on()) {
		urxe_rdma_destroy_event_channel(channel);
		return;
	}
	if (!check_destroy(call, OBJECT_CM_CHANNEL, channel))
		return;
	check_unused(call, channel);
	urxe_rdma_destroy_event_channel(channel);
	object_destroyed(channel);
}

/* Of a request it is the listener that waits for it, and the id is new. */
static void got_event(struct rdma_cm_event *event, const struct rdma_event_channel *channel)
{
	bool is_request = event->event == RDMA_CM_EVENT_CONNECT_REQUEST;
	const struct object_use owners[] = {
		{OBJECT_CM_ID, is_request ? event->listen_id : event->id}, {0}};

	if (is_request)
		made_id(event->id, channel);
	object_made(OBJECT_CM_EVENT, event, owners);
}

int checked_rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
	int result;

	if (check_is_on() && !CHECK_USES("rdma_get_cm_event()", {OBJECT_CM_CHANNEL, channel}))
		return MINUS_ONE;
	result = urxe_rdma_get_cm_event(channel, event);
	if (result == 0 && check_is_on())
		got_event(*event, channel);
	return result;
}

int checked_rdma_ack_cm_event(struct rdma_cm_event *event)
{
	if (!check_is_on())
		return urxe_rdma_ack_cm_event(event);
	if (!check_destroy_as("rdma_ack_cm_event()", OBJECT_CM_EVENT, event,
			      CAUSE_CM_EVENT_ACKED_TWICE))
		return MINUS_ONE;
	/* Before: its memory may be the next event's at once. */
	object_destroyed(event);
	return urxe_rdma_ack_cm_event(event);
}

/* --- addresses and devices ------------------------------------------------------------ */

int checked_rdma_getaddrinfo(const char *node, const char *service,
			     const struct rdma_addrinfo *hints, struct rdma_addrinfo **info)
{
	int result = urxe_rdma_getaddrinfo(node, service, hints, info);

	if (result == 0 && check_is_on())
		object_made(OBJECT_ADDRINFO, *info, NULL);
	return result;
}

int checked_rdma_query_addrinfo(struct rdma_cm_id *id, struct rdma_addrinfo **info)
{
	int result;

	if (check_is_on() && !CHECK_USES("rdma_query_addrinfo()", ID))
		return MINUS_ONE;
	result = urxe_rdma_query_addrinfo(id, info);
	if (result == 0 && check_is_on())
		object_made(OBJECT_ADDRINFO, *info, NULL);
	return result;
}

struct ibv_context **checked_rdma_get_devices(int *count)
{
	struct ibv_context **list = urxe_rdma_get_devices(count);

	return check_is_on() ? object_made(OBJECT_CM_DEVICES, list, NULL) : list;
}

/* clang-format off */
ENDS(rdma_freeaddrinfo, "rdma_freeaddrinfo()", ADDRINFO, (struct rdma_addrinfo *info), (info), info)
ENDS(rdma_free_devices, "rdma_free_devices()", CM_DEVICES, (struct ibv_context **list), (list), list)

/* --- the rest -------------------------------------------------------------------------- */

CALL(__be16, rdma_get_src_port, "rdma_get_src_port()", (struct rdma_cm_id *id), (id), 0, ID)
CALL(__be16, rdma_get_dst_port, "rdma_get_dst_port()", (struct rdma_cm_id *id), (id), 0, ID)

#define OF_ID(name, parameters, arguments) CALL(int, name, #name "()", parameters, arguments, MINUS_ONE, ID)
#define OF_ID_COMPARED(name, parameters, arguments) CALL_COMPARED(int, name, #name "()", parameters, arguments, MINUS_ONE, ID)

OF_ID_COMPARED(rdma_accept, (struct rdma_cm_id *id, struct rdma_conn_param *conn_param), (id, conn_param))
OF_ID(rdma_bind_addr, (struct rdma_cm_id *id, struct sockaddr *addr), (id, addr))
OF_ID_COMPARED(rdma_connect, (struct rdma_cm_id *id, struct rdma_conn_param *conn_param), (id, conn_param))
OF_ID(rdma_disconnect, (struct rdma_cm_id *id), (id))
OF_ID_COMPARED(rdma_join_multicast, (struct rdma_cm_id *id, struct sockaddr *addr, void *context), (id, addr, context))
OF_ID_COMPARED(rdma_join_multicast_ex, (struct rdma_cm_id *id, struct rdma_cm_join_mc_attr_ex *attr, void *context), (id, attr, context))
OF_ID(rdma_leave_multicast, (struct rdma_cm_id *id, struct sockaddr *addr), (id, addr))
OF_ID(rdma_listen, (struct rdma_cm_id *id, int backlog), (id, backlog))
OF_ID(rdma_notify, (struct rdma_cm_id *id, enum ibv_event_type event), (id, event))
OF_ID(rdma_reject, (struct rdma_cm_id *id, const void *private_data, uint8_t private_data_len), (id, private_data, private_data_len))
OF_ID(rdma_reject_ece, (struct rdma_cm_id *id, const void *private_data, uint8_t private_data_len), (id, private_data, private_data_len))
OF_ID(rdma_resolve_addr, (struct rdma_cm_id *id, struct sockaddr *src_addr, struct sockaddr *dst_addr, int timeout_ms), (id, src_addr, dst_addr, timeout_ms))
OF_ID(rdma_resolve_addrinfo, (struct rdma_cm_id *id, const char *node, const char *service, const struct rdma_addrinfo *hints), (id, node, service, hints))
OF_ID(rdma_resolve_route, (struct rdma_cm_id *id, int timeout_ms), (id, timeout_ms))
OF_ID(rdma_set_option, (struct rdma_cm_id *id, int level, int optname, void *optval, size_t optlen), (id, level, optname, optval, optlen))
OF_ID(rdma_establish, (struct rdma_cm_id *id), (id))
OF_ID(rdma_init_qp_attr, (struct rdma_cm_id *id, struct ibv_qp_attr *qp_attr, int *qp_attr_mask), (id, qp_attr, qp_attr_mask))
OF_ID(rdma_get_remote_ece, (struct rdma_cm_id *id, struct ibv_ece *ece), (id, ece))
OF_ID(rdma_set_local_ece, (struct rdma_cm_id *id, struct ibv_ece *ece), (id, ece))
OF_ID(rdma_write_cm_event, (struct rdma_cm_id *id, int event, int status, uint64_t argument), (id, event, status, argument))
/* clang-format on */
