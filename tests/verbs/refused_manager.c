/* SPDX-License-Identifier: BSD-2-Clause */
#include <fcntl.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#include "tests/verbs/manager.h"
#include "tests/verbs/newer_manager.h"
#include "tests/verbs/refused.h"

static struct rdma_event_channel *channel, *quiet;
static struct rdma_cm_id *id, *listener, *resolved, *datagram;
static uint16_t port;

void refused_manager_setup(void)
{
	channel = open_channel();
	quiet = open_channel();
	ck_assert_int_eq(fcntl(quiet->fd, F_SETFL, O_NONBLOCK), 0);
	id = open_bound_id(channel, RDMA_PS_TCP);
	listener = open_id(channel, RDMA_PS_TCP);
	port = start_listening(listener, 0);
	resolved = open_id(channel, RDMA_PS_TCP);
	resolve(resolved, port);
	datagram = open_bound_id(channel, RDMA_PS_UDP);
}

#define CALL(name, result)                                                                         \
	static int make_##name(void)                                                               \
	{                                                                                          \
		return result;                                                                     \
	}

/* --- channels and events ------------------------------------------------------------------ */

static int make_rdma_create_event_channel(void)
{
	struct rdma_event_channel *made = rdma_create_event_channel();
	int result = by_null(made);

	if (made)
		rdma_destroy_event_channel(made);
	return result;
}

CALL(rdma_get_cm_event, by_minus_one(rdma_get_cm_event(quiet, &(struct rdma_cm_event *){NULL})))

static int make_rdma_ack_cm_event(void)
{
	static struct rdma_cm_event *event;
	struct rdma_cm_id *asking = open_id(channel, RDMA_PS_TCP);
	int result;

	if (!event) {
		ck_assert_int_eq(rdma_resolve_addr(asking, NULL, socket_address(NULL, port), 2000),
				 0);
		event = next_event(channel, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	}
	result = by_minus_one(rdma_ack_cm_event(event));
	event = result ? event : NULL;
	return result;
}

CALL(rdma_write_cm_event, by_minus_one(newer_write_cm_event(id, NEWER_EVENT_USER, 0, 0)))

/* --- ids ------------------------------------------------------------------------------------- */

static int make_rdma_create_id(void)
{
	struct rdma_cm_id *made = NULL;
	int result = by_minus_one(rdma_create_id(channel, &made, NULL, RDMA_PS_TCP));

	if (!result)
		ck_assert_int_eq(rdma_destroy_id(made), 0);
	return result;
}

static int make_rdma_destroy_id(void)
{
	static struct rdma_cm_id *made;
	int result;

	if (!made)
		made = open_id(channel, RDMA_PS_TCP);
	result = by_minus_one(rdma_destroy_id(made));
	made = result ? made : NULL;
	return result;
}

/* One of a fresh id, which is destroyed. */
#define FRESH(name, call)                                                                          \
	static int make_##name(void)                                                               \
	{                                                                                          \
		struct rdma_cm_id *fresh = open_id(channel, RDMA_PS_TCP);                          \
		int result = by_minus_one(call);                                                   \
                                                                                                   \
		ck_assert_int_eq(rdma_destroy_id(fresh), 0);                                       \
		return result;                                                                     \
	}

FRESH(rdma_bind_addr, rdma_bind_addr(fresh, socket_address(NULL, 0)))
FRESH(rdma_resolve_addr, rdma_resolve_addr(fresh, NULL, socket_address(NULL, port), 2000))
FRESH(rdma_migrate_id, rdma_migrate_id(fresh, quiet))
FRESH(rdma_set_option, rdma_set_option(fresh, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &(uint8_t){8}, 1))
FRESH(rdma_resolve_addrinfo, newer_resolve_addrinfo(fresh, fixture_address(), "7471", NULL))
/* Of ids that aren't there yet. */
FRESH(rdma_resolve_route, rdma_resolve_route(fresh, 2000))
FRESH(rdma_connect, rdma_connect(fresh, &(struct rdma_conn_param){}))
FRESH(rdma_accept, rdma_accept(fresh, &(struct rdma_conn_param){}))
FRESH(rdma_reject, rdma_reject(fresh, NULL, 0))
FRESH(rdma_reject_ece, rdma_reject_ece(fresh, NULL, 0))
FRESH(rdma_disconnect, rdma_disconnect(fresh))
FRESH(rdma_notify, rdma_notify(fresh, IBV_EVENT_COMM_EST))
FRESH(rdma_establish, rdma_establish(fresh))
FRESH(rdma_get_request, rdma_get_request(fresh, &(struct rdma_cm_id *){NULL}))
FRESH(rdma_query_addrinfo, newer_query_addrinfo(fresh, &(struct rdma_addrinfo *){NULL}))

static int make_rdma_listen(void)
{
	struct rdma_cm_id *bound = open_bound_id(channel, RDMA_PS_TCP);
	int result = by_minus_one(rdma_listen(bound, 1));

	ck_assert_int_eq(rdma_destroy_id(bound), 0);
	return result;
}

CALL(rdma_init_qp_attr,
     by_minus_one(rdma_init_qp_attr(resolved, &(struct ibv_qp_attr){.qp_state = IBV_QPS_INIT},
				    &(int){0})))
CALL(rdma_get_remote_ece, by_minus_one(rdma_get_remote_ece(resolved, &(struct ibv_ece){})))
CALL(rdma_set_local_ece, by_minus_one(rdma_set_local_ece(resolved, &(struct ibv_ece){})))

/* --- queues --------------------------------------------------------------------------------- */

static const struct ibv_qp_cap cap = {1, 1, 1, 1, 0};

static int made_qp(int result)
{
	if (!result)
		rdma_destroy_qp(resolved);
	return result;
}

static int made_srq(int result)
{
	if (!result)
		rdma_destroy_srq(resolved);
	return result;
}

CALL(rdma_create_qp,
     made_qp(by_minus_one(rdma_create_qp(
	     resolved, NULL, &(struct ibv_qp_init_attr){.cap = cap, .qp_type = IBV_QPT_RC}))))
CALL(rdma_create_qp_ex,
     made_qp(by_minus_one(rdma_create_qp_ex(resolved, &(struct ibv_qp_init_attr_ex){
							      .cap = cap, .qp_type = IBV_QPT_RC}))))
CALL(rdma_create_srq,
     made_srq(by_minus_one(rdma_create_srq(resolved, NULL,
					   &(struct ibv_srq_init_attr){.attr = {4, 1}}))))
CALL(rdma_create_srq_ex,
     made_srq(by_minus_one(rdma_create_srq_ex(
	     resolved,
	     &(struct ibv_srq_init_attr_ex){.attr = {4, 1}, .comp_mask = IBV_SRQ_INIT_ATTR_TYPE}))))

static int make_rdma_create_ep(void)
{
	struct rdma_addrinfo hints = {.ai_flags = RAI_PASSIVE, .ai_port_space = RDMA_PS_TCP};
	struct rdma_addrinfo *info;
	struct rdma_cm_id *made = NULL;
	int result;

	ck_assert_int_eq(rdma_getaddrinfo(fixture_address(), NULL, &hints, &info), 0);
	result = by_minus_one(rdma_create_ep(&made, info, NULL, NULL));
	if (!result)
		rdma_destroy_ep(made);
	rdma_freeaddrinfo(info);
	return result;
}

/* --- addresses, devices, groups -------------------------------------------------------------- */

static int make_rdma_getaddrinfo(void)
{
	struct rdma_addrinfo *info = NULL;
	int result = by_minus_one(rdma_getaddrinfo(fixture_address(), "7471", NULL, &info));

	if (!result)
		rdma_freeaddrinfo(info);
	return result;
}

static int make_rdma_get_devices(void)
{
	int count = 77;
	struct ibv_context **list = rdma_get_devices(&count);
	int result = by_null(list);

	ck_assert_int_eq(count, result ? 0 : 1);
	if (list)
		rdma_free_devices(list);
	return result;
}

static int joined(int result)
{
	struct sockaddr *group = socket_address("239.86.1.3", 0);

	if (!result) {
		expect(channel, datagram, RDMA_CM_EVENT_MULTICAST_JOIN, 0);
		ck_assert_int_eq(rdma_leave_multicast(datagram, group), 0);
	}
	return result;
}

CALL(rdma_join_multicast,
     joined(by_minus_one(rdma_join_multicast(datagram, socket_address("239.86.1.3", 0), NULL))))
CALL(rdma_join_multicast_ex,
     joined(by_minus_one(rdma_join_multicast_ex(
	     datagram,
	     &(struct rdma_cm_join_mc_attr_ex){.comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS |
							    RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS,
					       .join_flags = RDMA_MC_JOIN_FLAG_FULLMEMBER,
					       .addr = socket_address("239.86.1.3", 0)},
	     NULL))))

static int make_rdma_leave_multicast(void)
{
	static bool member;
	struct sockaddr *group = socket_address("239.86.1.4", 0);
	int result;

	if (!member) {
		ck_assert_int_eq(rdma_join_multicast(datagram, group, NULL), 0);
		expect(channel, datagram, RDMA_CM_EVENT_MULTICAST_JOIN, 0);
	}
	result = by_minus_one(rdma_leave_multicast(datagram, group));
	member = result;
	return result;
}

/* --- the table ------------------------------------------------------------------------------ */

#define ROW(name) [FAULT_CALL_##name] = {make_##name, 0}
#define ROW_OF(name, usual) [FAULT_CALL_##name] = {make_##name, usual}

/* clang-format off */
const struct refused_row refused_manager[FAULT_CALLS] = {
	ROW(rdma_create_event_channel), ROW_OF(rdma_get_cm_event, EAGAIN), ROW(rdma_ack_cm_event),
	ROW(rdma_write_cm_event),
	ROW(rdma_create_id), ROW(rdma_destroy_id), ROW(rdma_bind_addr), ROW(rdma_listen), ROW(rdma_resolve_addr),
	ROW(rdma_migrate_id), ROW(rdma_set_option), ROW(rdma_resolve_addrinfo), ROW_OF(rdma_query_addrinfo, EINVAL),
	ROW_OF(rdma_resolve_route, EINVAL), ROW_OF(rdma_connect, EINVAL), ROW_OF(rdma_accept, EINVAL),
	ROW_OF(rdma_reject, EINVAL), ROW_OF(rdma_reject_ece, EINVAL), ROW_OF(rdma_disconnect, EINVAL),
	ROW_OF(rdma_notify, EINVAL), ROW_OF(rdma_establish, EINVAL), ROW_OF(rdma_get_request, EINVAL),
	ROW(rdma_init_qp_attr), ROW(rdma_get_remote_ece), ROW_OF(rdma_set_local_ece, EINVAL),
	ROW(rdma_create_qp), ROW(rdma_create_qp_ex), ROW(rdma_create_srq), ROW(rdma_create_srq_ex), ROW(rdma_create_ep),
	ROW(rdma_getaddrinfo), ROW(rdma_get_devices),
	ROW(rdma_join_multicast), ROW(rdma_join_multicast_ex), ROW(rdma_leave_multicast),
};
/* clang-format on */
