/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Endpoints, which are synchronous ids, and what they are made of: queue pairs,
 * shared receive queues.
 */
#include <infiniband/sa.h>
#include <pthread.h>
#include <rdma/rdma_verbs.h>
#include <stdlib.h>
#include <string.h>

#include "tests/run_suite.h"
#include "tests/verbs/fixture.h"
#include "tests/verbs/manager.h"

static const struct ibv_qp_init_attr queue_pair = {
	.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
	.qp_type = IBV_QPT_RC,
	.sq_sig_all = 1,
};

/* --- queue pairs, shared receive queues --------------------------------------- */

START_TEST(queue_pairs_refused)
{
	struct ibv_qp_init_attr attr = queue_pair;
	struct rdma_cm_id *id = open_id(NULL, RDMA_PS_TCP);

	ck_fails(rdma_create_qp(id, NULL, &attr), EINVAL); /* on which device? */
	rdma_destroy_id(id);

	id = open_bound_id(NULL, RDMA_PS_TCP);
	attr.cap.max_send_wr = 1 << 30;
	ck_fails(rdma_create_qp(id, NULL, &attr), EINVAL);
	ck_assert_ptr_null(id->qp);
	ck_assert_ptr_null(id->send_cq);
	attr = queue_pair;
	ck_assert_int_eq(rdma_create_qp(id, NULL, &attr), 0);
	ck_assert_ptr_eq(attr.send_cq, id->send_cq);
	ck_assert_ptr_eq(attr.recv_cq, id->recv_cq);
	attr = queue_pair;
	ck_fails(rdma_create_qp(id, NULL, &attr), EINVAL); /* it has one */
	rdma_destroy_ep(id);

	id = open_bound_id(NULL, RDMA_PS_TCP);
	ck_assert_int_eq(rdma_listen(id, 0), 0);
	attr = queue_pair;
	ck_fails(rdma_create_qp(id, NULL, &attr), EINVAL); /* its connections have them */
	ck_assert_ptr_null(id->qp);
	rdma_destroy_ep(id);
}
END_TEST

START_TEST(queue_pairs_with_what_is_given)
{
	struct ibv_qp_init_attr attr = queue_pair;
	struct rdma_cm_id *id = open_bound_id(NULL, RDMA_PS_TCP);
	struct ibv_pd *pd = ibv_alloc_pd(id->verbs);
	struct ibv_cq *cq = ibv_create_cq(id->verbs, 16, NULL, NULL, 0);

	attr.send_cq = cq;
	ck_assert_int_eq(rdma_create_qp(id, pd, &attr), 0);
	ck_assert_ptr_eq(id->pd, pd);
	ck_assert_ptr_eq(id->qp->pd, pd);
	ck_assert_ptr_eq(id->qp->send_cq, cq);
	ck_assert_ptr_null(id->send_cq);
	ck_assert_ptr_eq(id->qp->recv_cq, id->recv_cq);
	ck_assert_ptr_eq(id->recv_cq->channel, id->recv_cq_channel);
	ck_assert_int_eq(id->qp->state, IBV_QPS_INIT);
	rdma_destroy_qp(id);
	ck_assert_ptr_null(id->qp);
	ck_assert_ptr_null(id->recv_cq);
	rdma_destroy_id(id);
	ck_assert_int_eq(ibv_destroy_cq(cq), 0);
	ck_assert_int_eq(ibv_dealloc_pd(pd), 0);
}
END_TEST

START_TEST(datagram_queue_pairs_are_ready)
{
	struct ibv_qp_init_attr attr = queue_pair;
	struct rdma_cm_id *id = open_bound_id(NULL, RDMA_PS_UDP);
	struct ibv_pd *pd = ibv_alloc_pd(id->verbs);
	struct ibv_qp_attr state;

	ck_fails(rdma_create_qp(id, pd, &attr), EINVAL); /* RC, without what connects it */
	ck_assert_int_eq(ibv_dealloc_pd(pd), 0);
	attr = queue_pair;
	attr.qp_type = IBV_QPT_UD;
	ck_assert_int_eq(rdma_create_qp(id, NULL, &attr), 0);
	ck_assert_int_eq(ibv_query_qp(id->qp, &state, IBV_QP_STATE | IBV_QP_QKEY, &attr), 0);
	ck_assert_int_eq(state.qp_state, IBV_QPS_RTS);
	ck_assert_int_eq(state.qkey, RDMA_UDP_QKEY);
	rdma_destroy_ep(id);
}
END_TEST

START_TEST(shared_receive_queues)
{
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = 10, .max_sge = 1}}, bad = attr;
	struct ibv_qp_init_attr qp_attr = queue_pair;
	struct ibv_srq_init_attr_ex extended = {.attr = attr.attr};
	struct rdma_cm_id *id = open_id(NULL, RDMA_PS_TCP);
	struct ibv_pd *pd;

	ck_fails(rdma_create_srq(id, NULL, &attr), EINVAL);
	rdma_destroy_id(id);
	id = open_bound_id(NULL, RDMA_PS_TCP);
	ck_fails(rdma_create_srq_ex(id, &extended), EINVAL); /* of which type? */
	bad.attr.max_wr = 0;
	ck_fails(rdma_create_srq(id, NULL, &bad), EINVAL);
	ck_assert_int_eq(rdma_create_srq(id, NULL, &attr), 0);
	ck_assert_uint_ge(attr.attr.max_wr, 10);
	ck_assert_ptr_eq(id->srq->pd, id->pd);
	ck_fails(rdma_create_srq(id, NULL, &attr), EINVAL);
	ck_assert_int_eq(rdma_create_qp(id, NULL, &qp_attr), 0);
	ck_assert_ptr_eq(id->qp->srq, id->srq);
	rdma_destroy_ep(id);

	id = open_bound_id(NULL, RDMA_PS_TCP);
	pd = ibv_alloc_pd(id->verbs);
	ck_assert_int_eq(rdma_create_srq(id, pd, &attr), 0);
	rdma_destroy_ep(id);
	ck_assert_int_eq(ibv_dealloc_pd(pd), 0); /* it has taken the SRQ along */
}
END_TEST

/* --- connections of endpoints ------------------------------------------------ */

static struct rdma_addrinfo *look_up(int flags)
{
	struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP, .ai_flags = flags}, *info;

	ck_assert_int_eq(rdma_getaddrinfo((char *)fixture_address(), "7472", &hints, &info), 0);
	return info;
}

static void *serve(void *argument)
{
	struct rdma_cm_id *listening = argument, *id;

	ck_assert_int_eq(rdma_get_request(listening, &id), 0);
	ck_assert_int_eq(rdma_accept(id, NULL), 0);
	ck_assert_int_eq(id->event->event, RDMA_CM_EVENT_ESTABLISHED);
	return id;
}

static void *disconnect(void *id)
{
	ck_assert_int_eq(rdma_disconnect(id), 0);
	return NULL;
}

START_TEST(endpoints)
{
	struct ibv_qp_init_attr attr = queue_pair;
	struct ibv_qp_init_attr passive_attr = attr, last_attr = attr;
	struct rdma_addrinfo *here = look_up(RAI_PASSIVE), *there = look_up(0);
	struct rdma_cm_id *listening, *active, *passive;
	pthread_t thread;
	void *result;

	ck_assert_int_eq(rdma_create_ep(&listening, here, NULL, &passive_attr), 0);
	ck_fails(rdma_get_request(listening, &passive), EINVAL); /* not listening yet */
	ck_assert_int_eq(rdma_listen(listening, 1), 0);
	ck_assert_int_eq(pthread_create(&thread, NULL, serve, listening), 0);
	ck_assert_int_eq(rdma_create_ep(&active, there, NULL, &attr), 0);
	ck_assert_ptr_eq(attr.send_cq, active->send_cq);
	ck_assert_int_eq(rdma_connect(active, NULL), 0);
	ck_assert_int_eq(active->event->event, RDMA_CM_EVENT_ESTABLISHED);
	pthread_join(thread, &result);
	passive = result;
	send_one(active, passive);
	/* Each waits for the other. */
	ck_assert_int_eq(pthread_create(&thread, NULL, disconnect, passive), 0);
	ck_assert_int_eq(rdma_disconnect(active), 0);
	ck_assert_int_eq(active->event->event, RDMA_CM_EVENT_DISCONNECTED);
	pthread_join(thread, NULL);
	/* Once more: what is left to be told. */
	ck_assert_int_eq(rdma_disconnect(active), 0);
	ck_assert_int_eq(active->event->event, RDMA_CM_EVENT_TIMEWAIT_EXIT);
	rdma_destroy_ep(active);
	rdma_destroy_ep(passive);

	/* No id listens any more. */
	rdma_destroy_ep(listening);
	ck_assert_int_eq(rdma_create_ep(&active, there, NULL, &last_attr), 0);
	ck_fails(rdma_connect(active, NULL), ECONNREFUSED);
	ck_assert_int_eq(active->event->status, 8);
	rdma_destroy_ep(active);
	rdma_freeaddrinfo(here);
	rdma_freeaddrinfo(there);
}
END_TEST

static void *connect_and_fail(void *there)
{
	struct ibv_qp_init_attr attr = queue_pair;
	struct rdma_cm_id *active;

	ck_assert_int_eq(rdma_create_ep(&active, there, NULL, &attr), 0);
	ck_fails(rdma_connect(active, NULL), ECONNREFUSED);
	rdma_destroy_ep(active);
	return NULL;
}

/*
 * What a listener makes of requests has its protection domain. One that it can't make a queue pair
 * for is the event's, until the next call.
 */
START_TEST(requests_of_endpoints)
{
	struct rdma_addrinfo *here = look_up(RAI_PASSIVE), *there = look_up(0);
	struct ibv_qp_init_attr attr = queue_pair, large = queue_pair;
	struct rdma_cm_id *bound = open_bound_id(NULL, RDMA_PS_TCP), *listening, *passive;
	struct ibv_pd *pd = ibv_alloc_pd(bound->verbs);
	pthread_t thread;

	large.cap.max_send_wr = 1 << 30;
	ck_assert_int_eq(rdma_create_ep(&listening, here, pd, &attr), 0);
	ck_assert_ptr_eq(listening->pd, pd);
	ck_assert_int_eq(rdma_listen(listening, 1), 0);
	ck_assert_int_eq(pthread_create(&thread, NULL, connect_and_fail, there), 0);
	ck_assert_int_eq(rdma_get_request(listening, &passive), 0);
	ck_assert_ptr_eq(passive->qp->pd, pd);
	rdma_destroy_ep(passive);
	pthread_join(thread, NULL);
	rdma_destroy_ep(listening);

	ck_assert_int_eq(rdma_create_ep(&listening, here, pd, &large), 0);
	ck_assert_int_eq(rdma_listen(listening, 1), 0);
	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(pthread_create(&thread, NULL, connect_and_fail, there), 0);
		ck_fails(rdma_get_request(listening, &passive), EINVAL);
		rdma_destroy_ep(listening->event->id);
		pthread_join(thread, NULL);
	}
	rdma_destroy_ep(listening);
	ck_assert_int_eq(ibv_dealloc_pd(pd), 0);
	destroy(bound);
	rdma_freeaddrinfo(here);
	rdma_freeaddrinfo(there);
}
END_TEST

/* Errors come at once, whichever of its steps fails. */
START_TEST(endpoints_refused)
{
	struct rdma_addrinfo *here = look_up(RAI_PASSIVE), *there = look_up(0);
	struct ibv_qp_init_attr attr = queue_pair;
	struct rdma_cm_id *id, *other;

	attr.cap.max_send_wr = 1 << 30;
	ck_fails(rdma_create_ep(&id, there, NULL, &attr), EINVAL);
	there->ai_port_space = 0x7777;
	ck_fails(rdma_create_ep(&id, there, NULL, NULL), EINVAL);
	there->ai_port_space = RDMA_PS_TCP;
	there->ai_dst_len--;
	ck_fails(rdma_create_ep(&id, there, NULL, NULL), EINVAL);
	there->ai_dst_len++;
	here->ai_src_len = 0;
	ck_fails(rdma_create_ep(&id, here, NULL, NULL), EINVAL);
	here->ai_src_len = there->ai_dst_len;
	((struct sockaddr_in *)there->ai_dst_addr)->sin_family = AF_UNIX;
	ck_fails(rdma_create_ep(&id, there, NULL, NULL), EINVAL);
	ck_assert_int_eq(rdma_create_ep(&id, here, NULL, NULL), 0);
	ck_fails(rdma_create_ep(&other, here, NULL, NULL), EADDRINUSE);
	rdma_destroy_ep(id);
	rdma_freeaddrinfo(here);
	rdma_freeaddrinfo(there);
}
END_TEST

/* An address of no length isn't there (rdma_getaddrinfo(3)). */
START_TEST(endpoints_without_source)
{
	struct rdma_addrinfo *there = look_up(0);
	struct sockaddr nothing = {.sa_family = AF_UNIX};
	struct rdma_cm_id *id;

	there->ai_src_addr = &nothing;
	ck_assert_int_eq(rdma_create_ep(&id, there, NULL, NULL), 0);
	rdma_destroy_ep(id);
	there->ai_src_len = sizeof(nothing);
	ck_fails(rdma_create_ep(&id, there, NULL, NULL), EINVAL);
	there->ai_src_addr = NULL;
	rdma_freeaddrinfo(there);
}
END_TEST

/*
 * Nothing comes of a request that wasn't answered, nor of a connection whose end was told as
 * REJECTED: disconnecting doesn't wait for it.
 */
START_TEST(disconnecting_what_is_not_connected)
{
	const enum rdma_port_space ps = _i ? RDMA_PS_UDP : RDMA_PS_TCP;
	struct rdma_event_channel *channel = open_channel();
	struct rdma_cm_id *listener = open_id(NULL, ps), *passive, *active = open_id(channel, ps);
	struct rdma_conn_param param = {.qp_num = 0x1234};

	resolve(active, start_listening(listener, 0));
	ck_assert_int_eq(rdma_connect(active, &param), 0);
	ck_assert_int_eq(rdma_get_request(listener, &passive), 0);
	ck_assert_int_eq(rdma_disconnect(passive), 0);
	if (_i == 0) {
		/* The connection is made by halves, and the other half is refused. */
		ck_assert_int_eq(rdma_migrate_id(passive, channel), 0);
		param.qp_num++;
		ck_assert_int_eq(rdma_accept(passive, &param), 0);
		expect(channel, active, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
		ck_assert_int_eq(rdma_reject(active, NULL, 0), 0);
		while (!is_readable(channel))
			;
		ck_assert_int_eq(rdma_migrate_id(passive, NULL), 0);
		/* That is told first. */
		ck_fails(rdma_disconnect(passive), ECONNREFUSED);
		ck_assert_int_eq(passive->event->event, RDMA_CM_EVENT_REJECTED);
		ck_assert_int_eq(rdma_disconnect(passive), 0);
	}
	destroy(passive);
	destroy(active);
	destroy(listener);
	rdma_destroy_event_channel(channel);
}
END_TEST

/* An answer to a datagram request is all that there is of it: the call doesn't wait. */
START_TEST(datagram_requests)
{
	struct rdma_cm_id *listener = open_id(NULL, RDMA_PS_UDP), *passive, *active;
	struct rdma_event_channel *channel = open_channel();
	struct rdma_conn_param param = {.qp_num = 0x1234};
	struct rdma_cm_event *event;

	active = open_id(channel, RDMA_PS_UDP);
	resolve(active, start_listening(listener, 0));
	ck_assert_int_eq(rdma_connect(active, &param), 0);
	ck_assert_int_eq(rdma_get_request(listener, &passive), 0);
	ck_assert_int_eq(passive->event->event, RDMA_CM_EVENT_CONNECT_REQUEST);
	param.qp_num = 0x4321;
	ck_assert_int_eq(rdma_accept(passive, &param), 0);
	ck_assert_ptr_null(passive->event);
	event = next_event(channel, RDMA_CM_EVENT_ESTABLISHED, 0);
	ck_assert_int_eq(event->param.ud.qp_num, 0x4321);
	rdma_ack_cm_event(event);
	ck_fails(rdma_accept(passive, &param), EINVAL);
	destroy(passive);
	destroy(active);
	destroy(listener);
	rdma_destroy_event_channel(channel);
}
END_TEST

START_TEST(get_request_is_for_synchronous_listeners)
{
	struct rdma_event_channel *channel = open_channel();
	struct rdma_cm_id *listener = open_id(channel, RDMA_PS_TCP), *id;

	start_listening(listener, 7472);
	ck_fails(rdma_get_request(listener, &id), EINVAL);
	rdma_destroy_id(listener);
	rdma_destroy_event_channel(channel);
}
END_TEST

/* What rdma_create_ep() was told to send goes before what rdma_connect() is. */
static void *listen_to(void *argument)
{
	struct rdma_cm_id *listening = argument, *id;

	ck_assert_int_eq(rdma_get_request(listening, &id), 0);
	ck_assert_int_eq(memcmp(id->event->param.conn.private_data, "one, two", 9), 0);
	ck_assert_int_eq(rdma_reject(id, NULL, 0), 0);
	rdma_destroy_ep(id);
	return NULL;
}

START_TEST(connect_data_of_endpoints)
{
	struct rdma_conn_param param = {.private_data = ", two", .private_data_len = 6};
	struct rdma_addrinfo *here = look_up(RAI_PASSIVE), *there = look_up(0);
	struct ibv_qp_init_attr attr = queue_pair;
	struct rdma_cm_id *listening, *active;
	pthread_t thread;

	there->ai_connect = strdup("one");
	there->ai_connect_len = 3;
	ck_assert_int_eq(rdma_create_ep(&listening, here, NULL, NULL), 0);
	ck_assert_int_eq(rdma_listen(listening, 1), 0);
	ck_assert_int_eq(pthread_create(&thread, NULL, listen_to, listening), 0);
	ck_assert_int_eq(rdma_create_ep(&active, there, NULL, &attr), 0);
	ck_fails(rdma_connect(active, &param), ECONNREFUSED);
	pthread_join(thread, NULL);
	rdma_destroy_ep(active);
	rdma_destroy_ep(listening);
	rdma_freeaddrinfo(here);
	rdma_freeaddrinfo(there);
}
END_TEST

/* As much as the longest request has space for. */
START_TEST(connect_data_that_is_long)
{
	struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_UDP}, *there;
	struct rdma_cm_id *id;

	ck_assert_int_eq(rdma_getaddrinfo((char *)fixture_address(), "7472", &hints, &there), 0);
	there->ai_connect = calloc(1, 181);
	there->ai_connect_len = 181;
	ck_fails(rdma_create_ep(&id, there, NULL, NULL), EINVAL);
	there->ai_connect_len = 180;
	ck_assert_int_eq(rdma_create_ep(&id, there, NULL, NULL), 0);
	rdma_destroy_ep(id);
	rdma_freeaddrinfo(there);
}
END_TEST

/* --- routes ------------------------------------------------------------------- */

#define PRIMARY (IBV_PATH_FLAG_GMP | IBV_PATH_FLAG_PRIMARY | IBV_PATH_FLAG_BIDIRECTIONAL)

static void check_route(struct rdma_cm_id *id)
{
	const struct ibv_sa_path_rec *path = id->route.path_rec;

	ck_assert_int_eq(id->route.num_paths, 1);
	ck_assert_uint_eq(ntohl(path->flow_label), 0x54321);
	ck_assert_uint_eq(path->hop_limit, 7);
	ck_assert_uint_eq(path->traffic_class, 0x20);
	ck_assert_int_eq(path->mtu, IBV_MTU_512);
	ck_assert_uint_eq(path->packet_life_time, 13);
}

static const struct ibv_path_data route = {
	.flags = PRIMARY,
	.path = {.flowlabel_hoplimit = __BYTE_ORDER == __BIG_ENDIAN ? 0x05432107 : 0x07214305,
		 .tclass = 0x20,
		 .mtu = IBV_MTU_512,
		 .packetlifetime = 13},
};

/* What a path says is followed; what it leaves 0 follows from the addresses. */
START_TEST(routes_that_are_given)
{
	struct rdma_addrinfo *there = look_up(0);
	struct rdma_cm_id *id;

	there->ai_route = malloc(sizeof(route));
	memcpy(there->ai_route, &route, sizeof(route));
	there->ai_route_len = sizeof(route);
	ck_assert_int_eq(rdma_create_ep(&id, there, NULL, NULL), 0);
	ck_assert_int_eq(id->event->event, RDMA_CM_EVENT_ROUTE_RESOLVED);
	check_route(id);
	ck_assert_mem_eq(&id->route.path_rec->dgid, &id->route.addr.addr.ibaddr.dgid, 16);
	rdma_destroy_ep(id);
	there->ai_route_len--;
	ck_fails(rdma_create_ep(&id, there, NULL, NULL), EINVAL);
	rdma_freeaddrinfo(there);
}
END_TEST

static void refuse_path(struct rdma_cm_id *id, struct ibv_path_data path)
{
	ck_fails(rdma_set_option(id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, &path, sizeof(path)),
		 EINVAL);
}

/* And a part of another one. */
static void refuse_length(struct rdma_cm_id *id)
{
	struct ibv_path_data paths[2] = {route};

	ck_fails(rdma_set_option(id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, paths, sizeof(route) + 1),
		 EINVAL);
}

START_TEST(routes_refused)
{
	struct rdma_cm_id *id = open_id(NULL, RDMA_PS_TCP);
	struct ibv_path_data path = route;

	ck_assert_int_eq(rdma_resolve_addr(id, NULL, socket_address(NULL, 7472), 1000), 0);
	path.flags = IBV_PATH_FLAG_GMP | IBV_PATH_FLAG_ALTERNATE | IBV_PATH_FLAG_BIDIRECTIONAL;
	refuse_path(id, path);
	path = route;
	path.path.dgid.raw[15] = 1;
	refuse_path(id, path);
	path = route;
	path.path.sgid.raw[15] = 1;
	refuse_path(id, path);
	path = route;
	path.path.mtu = IBV_MTU_4096 + 1;
	refuse_path(id, path);
	path = route;
	path.path.packetlifetime = 31;
	refuse_path(id, path);
	refuse_length(id);
	/* That of the addresses can be had all the same. */
	ck_assert_int_eq(rdma_resolve_route(id, 1000), 0);
	rdma_destroy_id(id);

	/* The ends of what is possible. */
	id = open_id(NULL, RDMA_PS_TCP);
	ck_assert_int_eq(rdma_resolve_addr(id, NULL, socket_address(NULL, 7472), 1000), 0);
	path = route;
	path.path.mtu = IBV_MTU_4096; /* the loopback device has the largest that there is */
	path.path.packetlifetime = 30;
	ck_assert_int_eq(
		rdma_set_option(id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, &path, sizeof(path)), 0);
	ck_assert_int_eq(id->route.path_rec->mtu, IBV_MTU_4096);
	ck_assert_int_eq(id->route.path_rec->packet_life_time, 30);
	rdma_destroy_id(id);
}
END_TEST

static void *take_request(void *argument)
{
	struct rdma_cm_id *listening = argument, *id;
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;

	ck_assert_int_eq(rdma_get_request(listening, &id), 0);
	ck_assert_uint_eq(ntohl(id->route.path_rec->flow_label), 0x54321);
	ck_assert_uint_eq(id->route.path_rec->traffic_class, 0x20);
	ck_assert_int_eq(id->route.path_rec->mtu, IBV_MTU_512);
	ck_assert_int_eq(rdma_accept(id, NULL), 0);
	ck_assert_int_eq(ibv_query_qp(id->qp, &attr, IBV_QP_AV | IBV_QP_PATH_MTU, &init), 0);
	ck_assert_int_eq(attr.path_mtu, IBV_MTU_512);
	ck_assert_uint_eq(attr.ah_attr.grh.traffic_class, 0x20);
	return id;
}

/* The connection is by that route, on both sides. */
START_TEST(connections_by_given_routes)
{
	struct rdma_addrinfo *here = look_up(RAI_PASSIVE), *there = look_up(0);
	struct ibv_qp_init_attr attr = queue_pair, passive_attr = queue_pair, init;
	struct rdma_cm_id *listening, *active;
	struct ibv_qp_attr found;
	pthread_t thread;
	void *passive;

	there->ai_route = malloc(sizeof(route));
	memcpy(there->ai_route, &route, sizeof(route));
	there->ai_route_len = sizeof(route);
	ck_assert_int_eq(rdma_create_ep(&listening, here, NULL, &passive_attr), 0);
	ck_assert_int_eq(rdma_listen(listening, 1), 0);
	ck_assert_int_eq(pthread_create(&thread, NULL, take_request, listening), 0);
	ck_assert_int_eq(rdma_create_ep(&active, there, NULL, &attr), 0);
	ck_assert_int_eq(rdma_connect(active, NULL), 0);
	pthread_join(thread, &passive);
	ck_assert_int_eq(ibv_query_qp(active->qp, &found, IBV_QP_AV | IBV_QP_PATH_MTU, &init), 0);
	ck_assert_int_eq(found.path_mtu, IBV_MTU_512);
	ck_assert_uint_eq(found.ah_attr.grh.flow_label, 0x54321);
	ck_assert_uint_eq(found.ah_attr.grh.hop_limit, 7);
	send_one(active, passive);
	rdma_destroy_ep(active);
	rdma_destroy_ep(passive);
	rdma_destroy_ep(listening);
	rdma_freeaddrinfo(here);
	rdma_freeaddrinfo(there);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("endpoints");
	TCase *tests = tcase_create("endpoints");

	fixture_environment();
	tcase_set_timeout(tests, 60);
	tcase_add_test(tests, queue_pairs_refused);
	tcase_add_test(tests, queue_pairs_with_what_is_given);
	tcase_add_test(tests, datagram_queue_pairs_are_ready);
	tcase_add_test(tests, shared_receive_queues);
	tcase_add_test(tests, endpoints);
	tcase_add_test(tests, requests_of_endpoints);
	tcase_add_test(tests, endpoints_refused);
	tcase_add_test(tests, endpoints_without_source);
	tcase_add_loop_test(tests, disconnecting_what_is_not_connected, 0, 2);
	tcase_add_test(tests, datagram_requests);
	tcase_add_test(tests, get_request_is_for_synchronous_listeners);
	tcase_add_test(tests, connect_data_of_endpoints);
	tcase_add_test(tests, connect_data_that_is_long);
	tcase_add_test(tests, routes_that_are_given);
	tcase_add_test(tests, routes_refused);
	tcase_add_test(tests, connections_by_given_routes);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
