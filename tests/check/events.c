/* SPDX-License-Identifier: BSD-2-Clause */
/* Events that are acknowledged too often, not at all, or as they should be. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/check/case.h"

#define RESOLVE_TIMEOUT 2000 /* ms */

static struct rig rig;

/* --- of completion queues ----------------------------------------------------------------- */

/* One event, got and not acknowledged. */
static void get_cq_event(void)
{
	struct ibv_cq *cq;
	void *context;

	must(ibv_req_notify_cq(rig.cq, 0) == 0);
	rig_complete_one(&rig);
	must(ibv_get_cq_event(rig.channel, &cq, &context) == 0);
}

static void ack_completions_not_events(void)
{
	rig_open(&rig);
	get_cq_event();
	ibv_ack_cq_events(rig.cq, 5);
	rig_close(&rig);
}

static void ack_many_at_once(void)
{
	rig_open(&rig);
	for (unsigned int i = 0; i < 5; i++)
		get_cq_event();
	ibv_ack_cq_events(rig.cq, 3);
	ibv_ack_cq_events(rig.cq, 2);
	rig_close(&rig);
}

static void destroy_without_ack(void)
{
	rig_open(&rig);
	get_cq_event();
	rig_close(&rig);
}

/* What is in use stays, and its events. */
static void ack_after_busy(void)
{
	rig_open(&rig);
	get_cq_event();
	must(ibv_destroy_cq(rig.cq) == EBUSY);
	ibv_ack_cq_events(rig.cq, 1);
	rig_close(&rig);
}

static void *ack_soon(void *unused)
{
	usleep(50000);
	ibv_ack_cq_events(rig.cq, 1);
	return NULL;
}

static void destroy_while_acked(void)
{
	pthread_t thread;

	rig_open(&rig);
	get_cq_event();
	must(pthread_create(&thread, NULL, ack_soon, NULL) == 0);
	rig_close(&rig);
	must(pthread_join(thread, NULL) == 0);
}

static void exit_without_ack(void)
{
	rig_open(&rig);
	get_cq_event();
	exit(0);
}

static void exit_after_ack(void)
{
	rig_open(&rig);
	get_cq_event();
	ibv_ack_cq_events(rig.cq, 1);
	exit(0);
}

/* --- asynchronous ones --------------------------------------------------------------------- */

/* A QP that has one, of which @event is told. */
static struct ibv_qp *get_async_event(struct ibv_srq **srq, struct ibv_async_event *event)
{
	struct ibv_srq_init_attr srq_attr = {.attr = {.max_wr = 1, .max_sge = 1}};
	struct ibv_qp_init_attr attr = {
		.send_cq = rig.cq,
		.recv_cq = rig.cq,
		.cap = {.max_send_wr = 1, .max_send_sge = 1},
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp_attr state = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	struct ibv_qp *qp;

	*srq = attr.srq = ibv_create_srq(rig.pd, &srq_attr);
	must(*srq);
	qp = ibv_create_qp(rig.pd, &attr);
	must(qp);
	must(ibv_modify_qp(qp, &state,
			   IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) ==
	     0);
	state.qp_state = IBV_QPS_ERR;
	must(ibv_modify_qp(qp, &state, IBV_QP_STATE) == 0);
	must(ibv_get_async_event(rig.context, event) == 0);
	must(event->event_type == IBV_EVENT_QP_LAST_WQE_REACHED && event->element.qp == qp);
	return qp;
}

static void handle_async_event(unsigned int acks)
{
	struct ibv_async_event event;
	struct ibv_srq *srq;
	struct ibv_qp *qp;

	rig_open(&rig);
	qp = get_async_event(&srq, &event);
	while (acks--)
		ibv_ack_async_event(&event);
	must(ibv_destroy_qp(qp) == 0);
	must(ibv_destroy_srq(srq) == 0);
	rig_close(&rig);
}

static void ack_async_twice(void)
{
	handle_async_event(2);
}

static void ack_async_never(void)
{
	handle_async_event(0);
}

static void ack_async_once(void)
{
	handle_async_event(1);
}

/* --- of rdma_cm ------------------------------------------------------------------------------ */

static struct rdma_event_channel *channel;

static struct rdma_cm_id *make_id(void)
{
	struct rdma_cm_id *id;

	if (!channel)
		channel = rdma_create_event_channel();
	must(channel);
	must(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0);
	return id;
}

static struct rdma_cm_event *get_cm_event(struct rdma_cm_id *id)
{
	struct sockaddr_in address = {.sin_family = AF_INET};
	struct rdma_cm_event *event;

	must(inet_pton(AF_INET, case_address(), &address.sin_addr) == 1);
	must(rdma_resolve_addr(id, NULL, (struct sockaddr *)&address, RESOLVE_TIMEOUT) == 0);
	must(rdma_get_cm_event(channel, &event) == 0);
	must(event->event == RDMA_CM_EVENT_ADDR_RESOLVED);
	return event;
}

static void close_id(struct rdma_cm_id *id)
{
	must(rdma_destroy_id(id) == 0);
	rdma_destroy_event_channel(channel);
}

static void ack_cm_event_twice(void)
{
	struct rdma_cm_id *id = make_id();
	struct rdma_cm_event *event = get_cm_event(id);

	must(rdma_ack_cm_event(event) == 0);
	must(rdma_ack_cm_event(event) == -1 && errno == EINVAL);
	close_id(id);
}

static void ack_cm_event_once(void)
{
	struct rdma_cm_id *id = make_id();

	must(rdma_ack_cm_event(get_cm_event(id)) == 0);
	close_id(id);
}

static void destroy_id_without_ack(void)
{
	struct rdma_cm_id *id = make_id();

	get_cm_event(id);
	close_id(id);
}

/* What would have waited for ever says so once: the program can't have meant to do it twice. */
static void ack_after_destroying_id(void)
{
	struct rdma_cm_id *id = make_id();
	struct rdma_cm_event *event = get_cm_event(id);

	must(rdma_destroy_id(id) == 0);
	must(rdma_ack_cm_event(event) == -1 && errno == EINVAL);
	rdma_destroy_event_channel(channel);
}

static void exit_with_cm_event(void)
{
	get_cm_event(make_id());
	exit(0);
}

/* --- ids ------------------------------------------------------------------------------------- */

static void use_destroyed_id(void)
{
	struct rdma_cm_id *id = make_id(), *other = make_id();

	must(rdma_destroy_id(id) == 0);
	must(rdma_listen(id, 1) == -1 && errno == EINVAL);
	must(rdma_get_src_port(id) == 0);
	close_id(other);
}

static void destroy_id_twice(void)
{
	struct rdma_cm_id *id = make_id(), *other = make_id();

	must(rdma_destroy_id(id) == 0);
	must(rdma_destroy_id(id) == -1 && errno == EINVAL);
	close_id(other);
}

static void destroy_channel_in_use(void)
{
	struct rdma_cm_id *id = make_id();

	rdma_destroy_event_channel(channel);
	must(rdma_destroy_id(id) == 0);
}

static struct rdma_cm_id *make_qp_of_id(void)
{
	struct ibv_qp_init_attr attr = {.cap = {.max_send_wr = 1, .max_recv_wr = 1},
					.qp_type = IBV_QPT_RC};
	struct rdma_cm_id *id = make_id();

	must(rdma_ack_cm_event(get_cm_event(id)) == 0);
	must(rdma_create_qp(id, NULL, &attr) == 0);
	return id;
}

/* With its queues, which come with it. */
static void destroy_qp_of_id(void)
{
	struct rdma_cm_id *id = make_qp_of_id();

	rdma_destroy_qp(id);
	close_id(id);
}

static void destroy_id_before_qp(void)
{
	struct rdma_cm_id *id = make_qp_of_id();
	struct ibv_qp *qp = id->qp;

	must(rdma_destroy_id(id) == 0);
	must(ibv_destroy_qp(qp) == 0);
	rdma_destroy_event_channel(channel);
}

static void destroy_qp_of_id_twice(void)
{
	struct rdma_cm_id *id = make_qp_of_id();

	must(ibv_destroy_qp(id->qp) == 0);
	rdma_destroy_qp(id);
	rdma_destroy_qp(id);
	close_id(id);
}

static void leak_ids(void)
{
	make_id();
	make_id();
}

static void get_addresses(struct rdma_addrinfo **info)
{
	struct rdma_addrinfo hints = {.ai_flags = RAI_NUMERICHOST | RAI_PASSIVE,
				      .ai_port_space = RDMA_PS_TCP};

	must(rdma_getaddrinfo(case_address(), "0", &hints, info) == 0);
}

static void free_addresses_twice(void)
{
	struct rdma_addrinfo *info;

	get_addresses(&info);
	rdma_freeaddrinfo(info);
	rdma_freeaddrinfo(info);
}

static void make_endpoint(void)
{
	struct ibv_qp_init_attr attr = {.cap = {.max_send_wr = 1, .max_recv_wr = 1},
					.qp_type = IBV_QPT_RC};
	struct rdma_addrinfo *info;
	struct rdma_cm_id *id;

	get_addresses(&info);
	must(rdma_create_ep(&id, info, NULL, &attr) == 0);
	rdma_freeaddrinfo(info);
	rdma_destroy_ep(id);
}

static const struct check_case cases[] = {
	BAD(EVENTS_ACKED_TOO_OFTEN, ack_completions_not_events, .said = "5 events"),
	BAD(EVENTS_ACKED_TOO_OFTEN, ack_async_twice, .said = "QP 0x"),
	GOOD(EVENTS_ACKED_TOO_OFTEN, ack_many_at_once),
	GOOD(EVENTS_ACKED_TOO_OFTEN, ack_async_once),
	BAD(CM_EVENT_ACKED_TWICE, ack_cm_event_twice, .said = "ADDR_RESOLVED"),
	GOOD(CM_EVENT_ACKED_TWICE, ack_cm_event_once),
	BAD(EVENTS_NOT_ACKED, destroy_without_ack, .said = "got at events.c:"),
	BAD(EVENTS_NOT_ACKED, ack_async_never),
	BAD(EVENTS_NOT_ACKED, destroy_id_without_ack, .said = "ADDR_RESOLVED"),
	BAD(EVENTS_NOT_ACKED, ack_after_destroying_id),
	GOOD(EVENTS_NOT_ACKED, destroy_while_acked),
	GOOD(EVENTS_NOT_ACKED, ack_after_busy),
	BAD(EVENTS_LEFT, exit_without_ack, .also = CAUSE_OBJECT_LEAKED),
	BAD(EVENTS_LEFT, exit_with_cm_event, .also = CAUSE_OBJECT_LEAKED, .said = "ADDR_RESOLVED"),
	GOOD(EVENTS_LEFT, exit_after_ack, .options = "no-leaks"),
	BAD(OBJECT_USED_DESTROYED, use_destroyed_id),
	BAD(OBJECT_DESTROYED_TWICE, destroy_id_twice),
	BAD(OBJECT_DESTROYED_TWICE, destroy_qp_of_id_twice),
	BAD(OBJECT_DESTROYED_TWICE, free_addresses_twice),
	GOOD(OBJECT_DESTROYED_TWICE, destroy_qp_of_id),
	GOOD(OBJECT_DESTROYED_TWICE, make_endpoint),
	BAD(OBJECT_DESTROYED_IN_USE, destroy_channel_in_use),
	BAD(OBJECT_DESTROYED_IN_USE, destroy_id_before_qp),
	BAD(OBJECT_LEAKED, leak_ids, .said = "rdma_cm_id"),
};

const struct check_table event_cases = CHECK_TABLE(cases, 0x7010, 0x701f);
