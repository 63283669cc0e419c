/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Faults of the device (urxe-faults(7)): asynchronous events, a link that is down, the device
 * removed, completion events that come late or for nothing, requests for connections rejected.
 */
#include <stdio.h>
#include <stdlib.h>

#include "caller.h"
#include "emu/inject/event.h"
#include "net/fault/fault_words.h"
#include "net/log.h"
#include "pair.h"
#include "tests/said.h"

static struct pair p;

/* --- asynchronous events ------------------------------------------------------------------ */

enum element { OF_QP, OF_CQ, OF_SRQ, OF_PORT, OF_DEVICE };

static const struct {
	enum ibv_event_type type;
	enum element element;
	bool fails; /* the queue pair is in ERR then */
} events[] = {
	{IBV_EVENT_CQ_ERR, OF_CQ},
	{IBV_EVENT_QP_FATAL, OF_QP, true},
	{IBV_EVENT_QP_REQ_ERR, OF_QP, true},
	{IBV_EVENT_QP_ACCESS_ERR, OF_QP, true},
	{IBV_EVENT_COMM_EST, OF_QP},
	{IBV_EVENT_SQ_DRAINED, OF_QP},
	{IBV_EVENT_PATH_MIG, OF_QP},
	{IBV_EVENT_PATH_MIG_ERR, OF_QP},
	{IBV_EVENT_DEVICE_FATAL, OF_DEVICE, true},
	{IBV_EVENT_PORT_ACTIVE, OF_PORT},
	{IBV_EVENT_PORT_ERR, OF_PORT},
	{IBV_EVENT_LID_CHANGE, OF_PORT},
	{IBV_EVENT_PKEY_CHANGE, OF_PORT},
	{IBV_EVENT_SM_CHANGE, OF_PORT},
	{IBV_EVENT_SRQ_ERR, OF_SRQ, true},
	{IBV_EVENT_SRQ_LIMIT_REACHED, OF_SRQ},
	{IBV_EVENT_QP_LAST_WQE_REACHED, OF_QP},
	{IBV_EVENT_CLIENT_REREGISTER, OF_PORT},
	{IBV_EVENT_GID_CHANGE, OF_PORT},
};

#define EVENTS (sizeof(events) / sizeof(events[0]))

START_TEST(all_events_are_here)
{
	unsigned int named = 0;

	for (unsigned int i = 0; i < fault_events.count; i++)
		named += fault_events.name(i) != NULL;
	ck_assert_uint_eq(named, EVENTS);
}
END_TEST

/* Each says by which clause, to those who ask for it. */
START_TEST(told)
{
	static const struct {
		const char *fault, *found;
		enum cause cause;
		bool of_b;
	} rows[] = {
		{"event(LID_CHANGE)#1", "IBV_EVENT_LID_CHANGE\n", CAUSE_INJECTED_EVENT},
		{"down(1ms)#1", "down(1ms)#1\n", CAUSE_INJECTED_EVENT},
		{"complete(LOC_LEN_ERR)#1/SEND", ": complete(LOC_LEN_ERR)#1/SEND, wr_id 7, QP 0x",
		 CAUSE_INJECTED_COMPLETION},
		{"complete(LOC_LEN_ERR)#1/RECV", ": complete(LOC_LEN_ERR)#1/RECV, wr_id 5, QP 0x",
		 CAUSE_INJECTED_RECEIVE, true},
	};
	static struct said said;

	log_set_level(LOG_INFO);
	pair_create(&p, IBV_QPT_RC, NULL, 1, NULL);
	world_inject(rows[_i].of_b ? p.b : p.a, rows[_i].fault);
	said_begin(&said);
	pair_receive(&p, 8, 5);
	pair_post(&p, IBV_WR_SEND, 8, 7);
	world_run(&p.world, MS);
	said_end(&said);
	ck_assert_uint_eq(said_count(&said, rows[_i].cause), 1);
	ck_assert_msg(strstr(said.text, rows[_i].found), "%s", said.text);
	pair_destroy(&p);
}
END_TEST

static void inject(struct node *node, const char *format, enum ibv_event_type type)
{
	char text[128];

	snprintf(text, sizeof(text), format, fault_events.name(type), p.qa->number);
	world_inject(node, text);
}

/* In the place of a's QP one that has an SRQ, on port 2. */
static struct srq *use_srq(void)
{
	struct connection c = world_connection;
	struct ibv_srq_attr attr = {.max_wr = 16, .max_sge = 1};
	struct qp_options qp = {.type = IBV_QPT_RC, .cap = {.max_send_wr = 64, .max_send_sge = 4}};

	c.port_num = 2;
	pair_create_apart(&p, IBV_QPT_RC, NULL, 1);
	ck_assert_int_eq(srq_create(p.a->pd, &attr, &qp.srq), 0);
	ck_assert_int_eq(qp_destroy(p.qa), 0);
	p.qa = world_qp(p.a, &qp);
	world_connect(p.a, p.qa, p.b, p.qb, &c);
	return qp.srq;
}

static void *element(enum element kind, struct srq *srq, unsigned int port_num)
{
	return kind == OF_QP	   ? (void *)p.qa
	       : kind == OF_CQ	   ? (void *)p.a->cq
	       : kind == OF_SRQ	   ? (void *)srq
	       : kind == OF_DEVICE ? (void *)1
				   : (void *)(uintptr_t)port_num;
}

static void destroy(struct srq *srq)
{
	if (srq) {
		ck_assert_int_eq(qp_destroy(p.qa), 0);
		p.qa = world_qp(p.a, &(struct qp_options){.type = IBV_QPT_RC});
		ck_assert_int_eq(srq_destroy(srq), 0);
	}
	pair_destroy(&p);
}

static void expect_event(unsigned int i, struct srq *srq, unsigned int count)
{
	enum ibv_event_type type = events[i].type;

	must_msg(p.a->events[type] == count, "%s: %u events, not %u", fault_events.name(type),
		 p.a->events[type], count);
	must_msg(p.a->elements[type] == element(events[i].element, srq, 2),
		 "%s: about something else", fault_events.name(type));
	ck_assert_int_eq(p.qa->state == IBV_QPS_ERR, events[i].fails);
}

START_TEST(at_a_time)
{
	struct srq *srq = use_srq();

	inject(p.a, "event(%s)@5ms", events[_i].type);
	world_run(&p.world, 4 * MS);
	ck_assert_uint_eq(p.a->events[events[_i].type], 0);
	world_run(&p.world, 2 * MS);
	/* Of ports, about each. */
	expect_event(_i, srq, events[_i].element == OF_PORT ? 2 : 1);
	world_run(&p.world, 20 * MS);
	expect_event(_i, srq, events[_i].element == OF_PORT ? 2 : 1);
	destroy(srq);
}
END_TEST

START_TEST(after_messages)
{
	struct srq *srq = use_srq();

	inject(p.a, "event(%s)#3/RDMA_WRITE>%u", events[_i].type);
	for (unsigned int i = 1; i <= 3; i++) {
		ck_assert_uint_eq(p.a->events[events[_i].type], 0);
		pair_post(&p, IBV_WR_RDMA_READ, 8, i);
		world_expect(p.a, i, IBV_WC_SUCCESS);
		pair_post(&p, IBV_WR_RDMA_WRITE, 8, i);
		world_expect(p.a, i, IBV_WC_SUCCESS);
		world_run(&p.world, MS);
	}
	expect_event(_i, srq, 1);
	destroy(srq);
}
END_TEST

/* As one is that ibv_destroy_qp() is about to free. */
START_TEST(of_a_queue_pair_in_reset)
{
	struct srq *srq = use_srq();

	inject(p.a, "event(%s)@5ms>%u", events[_i].type);
	world_modify_state(p.qa, IBV_QPS_RESET);
	world_run(&p.world, 10 * MS);
	if (events[_i].element == OF_QP)
		ck_assert_uint_eq(p.a->events[events[_i].type], 0);
	destroy(srq);
}
END_TEST

/* There is no such object yet: the first one that there is has the event. */
START_TEST(before_the_object)
{
	enum ibv_event_type type = _i ? IBV_EVENT_CQ_ERR : IBV_EVENT_QP_FATAL;

	pair_create_apart(&p, IBV_QPT_RC, NULL, 1);
	inject(p.a, "event(%s)@1ms", type);
	world_run(&p.world, 10 * MS);
	ck_assert_uint_eq(p.a->events[type], 0);
	world_connect(p.a, p.qa, p.b, p.qb, &world_connection);
	world_run(&p.world, 2 * MS);
	ck_assert_uint_eq(p.a->events[type], 1);
	ck_assert_int_eq(p.qa->state, _i ? IBV_QPS_RTS : IBV_QPS_ERR);
	pair_destroy(&p);
}
END_TEST

/* A queue pair of @node's that has no SRQ, connected to itself. */
static struct qp *another_qp(struct node *node)
{
	struct qp_options options = {.type = IBV_QPT_RC, .cap = {.max_send_wr = 4}};
	struct qp *qp = world_qp(node, &options);

	world_modify_init(qp, &world_connection);
	world_modify_rtr(qp, node, node, qp->number, &world_connection);
	world_modify_rts(qp, &world_connection);
	return qp;
}

/* One that is named and isn't there has no event, nor has another one in its place. */
START_TEST(of_no_queue_pair)
{
	static const char *const faults[] = {"event(QP_FATAL)@1ms>1234567",
					     "event(CQ_ERR)@1ms>1234567"};

	pair_create(&p, IBV_QPT_RC, NULL, 1, NULL);
	world_inject(p.a, faults[_i]);
	world_run(&p.world, 10 * MS);
	ck_assert_uint_eq(p.a->events[IBV_EVENT_QP_FATAL], 0);
	ck_assert_uint_eq(p.a->events[IBV_EVENT_CQ_ERR], 0);
	ck_assert_int_eq(p.qa->state, IBV_QPS_RTS);
	pair_destroy(&p);
}
END_TEST

/* One that is named has its event, connected or not; and its CQ has one if it is connected. */
START_TEST(of_the_one_that_is_named)
{
	static const struct {
		enum ibv_event_type type;
		bool connected, its_own;
	} rows[] = {
		{IBV_EVENT_COMM_EST, false, true},
		{IBV_EVENT_COMM_EST, true, true},
		{IBV_EVENT_CQ_ERR, false, false},
		{IBV_EVENT_CQ_ERR, true, true},
	};
	bool of_cq = rows[_i].type == IBV_EVENT_CQ_ERR;
	struct cq *usual, *own;
	char text[128];
	struct qp *qp;

	pair_create(&p, IBV_QPT_RC, NULL, 1, NULL);
	usual = p.a->cq;
	ck_assert_int_eq(cq_create(p.a->hca, 4, &own), 0);
	p.a->cq = own;
	qp = rows[_i].connected ? another_qp(p.a)
				: world_qp(p.a, &(struct qp_options){.type = IBV_QPT_RC});
	p.a->cq = usual;
	if (!rows[_i].connected)
		world_modify_init(qp, &world_connection);
	snprintf(text, sizeof(text), "event(%s)@1ms>%u", fault_events.name(rows[_i].type),
		 qp->number);
	world_inject(p.a, text);
	world_run(&p.world, 2 * MS);
	ck_assert_uint_eq(p.a->events[rows[_i].type], 1);
	ck_assert_ptr_eq(p.a->elements[rows[_i].type],
			 of_cq ? (void *)(rows[_i].its_own ? own : usual) : (void *)qp);
	ck_assert_int_eq(qp_destroy(qp), 0);
	ck_assert_int_eq(cq_destroy(own), 0);
	pair_destroy(&p);
}
END_TEST

/* One that is named and has no SRQ stands for any that has. */
START_TEST(of_a_queue_pair_without_srq)
{
	struct srq *srq = use_srq();
	struct qp *other = another_qp(p.a);
	char text[128];

	snprintf(text, sizeof(text), "event(SRQ_LIMIT_REACHED)@1ms>%u", other->number);
	world_inject(p.a, text);
	world_run(&p.world, 2 * MS);
	ck_assert_uint_eq(p.a->events[IBV_EVENT_SRQ_LIMIT_REACHED], 1);
	ck_assert_ptr_eq(p.a->elements[IBV_EVENT_SRQ_LIMIT_REACHED], srq);
	ck_assert_int_eq(qp_destroy(other), 0);
	destroy(srq);
}
END_TEST

/* No queue pair has one. */
START_TEST(srq_of_no_queue_pair)
{
	pair_create(&p, IBV_QPT_RC, NULL, 1, NULL);
	inject(p.a, "event(%s)@1ms", IBV_EVENT_SRQ_ERR);
	world_run(&p.world, 10 * MS);
	ck_assert_uint_eq(p.a->events[IBV_EVENT_SRQ_ERR], 0);
	ck_assert_int_eq(p.qa->state, IBV_QPS_RTS);
	pair_destroy(&p);
}
END_TEST

/* Nor has a target of XRC a CQ to speak of. */
START_TEST(cq_of_no_queue_pair)
{
	pair_create(&p, IBV_QPT_XRC_SEND, NULL, 1, NULL);
	inject(p.b, "event(%s)@1ms", IBV_EVENT_CQ_ERR);
	world_run(&p.world, 10 * MS);
	ck_assert_uint_eq(p.b->events[IBV_EVENT_CQ_ERR], 0);
	pair_destroy(&p);
}
END_TEST

/* IBA 10.2.9.3: those that take their receives from it fail, and no others. */
START_TEST(srq_in_error)
{
	struct srq *srq = use_srq();
	struct qp *other = another_qp(p.a);

	inject(p.a, "event(%s)@1ms", IBV_EVENT_SRQ_ERR);
	world_run(&p.world, 2 * MS);
	ck_assert_int_eq(p.qa->state, IBV_QPS_ERR);
	ck_assert_int_eq(other->state, IBV_QPS_RTS);
	ck_assert_int_eq(qp_destroy(other), 0);
	destroy(srq);
}
END_TEST

/* What isn't in use yet isn't in error. */
START_TEST(fatal_and_reset)
{
	struct qp *other;

	pair_create(&p, IBV_QPT_RC, NULL, 1, NULL);
	other = world_qp(p.a, &(struct qp_options){.type = IBV_QPT_RC});
	inject(p.a, "event(%s)@1ms", IBV_EVENT_DEVICE_FATAL);
	world_run(&p.world, 2 * MS);
	ck_assert_int_eq(p.qa->state, IBV_QPS_ERR);
	ck_assert_int_eq(other->state, IBV_QPS_RESET);
	ck_assert_int_eq(qp_destroy(other), 0);
	pair_destroy(&p);
}
END_TEST

/* What is under way is flushed; the peer's requests are not answered any more. */
START_TEST(fatal)
{
	pair_create(&p, IBV_QPT_RC, NULL, 1, NULL);
	pair_cut(&p, true);
	pair_post(&p, IBV_WR_RDMA_WRITE, 8, 1);
	inject(p.a, "event(%s)@1ms", _i ? IBV_EVENT_DEVICE_FATAL : IBV_EVENT_QP_FATAL);
	world_expect(p.a, 1, IBV_WC_WR_FLUSH_ERR);
	ck_assert_int_eq(p.qa->state, IBV_QPS_ERR);
	pair_destroy(&p);
}
END_TEST

/* The completions are as new as the event, however long the queue pair had nothing to do. */
START_TEST(completions_of_an_event)
{
	static const char *const faults[] = {"event(DEVICE_FATAL)@5ms", "remove@5ms",
					     "event(QP_FATAL)@5ms"};
	struct completion completion;

	pair_create(&p, IBV_QPT_RC, NULL, 1, NULL);
	pair_receive(&p, 8, 1);
	world_inject(p.b, faults[_i]);
	world_run(&p.world, 6 * MS);
	ck_assert_int_eq(cq_poll(p.b->cq, &completion, 1), 1);
	ck_assert_int_eq(completion.wc.status, IBV_WC_WR_FLUSH_ERR);
	ck_assert_uint_ge(completion.timestamp, 5 * MS);
	pair_destroy(&p);
}
END_TEST

/* IBA 10.2.3.3: a CQ in error takes no completions, and its QPs fail with the next. */
START_TEST(cq_in_error)
{
	pair_create(&p, IBV_QPT_RC, NULL, 1, NULL);
	inject(p.a, "event(%s)@1ms", IBV_EVENT_CQ_ERR);
	world_run(&p.world, 2 * MS);
	ck_assert_int_eq(p.qa->state, IBV_QPS_RTS);
	pair_post(&p, IBV_WR_RDMA_WRITE, 8, 1);
	world_expect_none(p.a, MS);
	ck_assert_int_eq(p.qa->state, IBV_QPS_ERR);
	ck_assert_uint_eq(p.a->events[IBV_EVENT_QP_FATAL], 1);
	pair_destroy(&p);
}
END_TEST

/* --- the link ----------------------------------------------------------------------------- */

/* RC has its retries for it: some hundred ms (world_connection). */
START_TEST(down_and_up)
{
	pair_create(&p, IBV_QPT_RC, NULL, 1, NULL);
	world_inject(p.a, "down(100ms)@1ms");
	world_run(&p.world, 2 * MS);
	ck_assert_uint_eq(p.a->events[IBV_EVENT_PORT_ERR], 2);
	ck_assert(inject_is_down(p.a->hca, 1) && inject_is_down(p.a->hca, 2));
	pair_fill(p.ma, 5000, 3);
	pair_post(&p, IBV_WR_RDMA_WRITE, 5000, 1);
	world_expect_none(p.a, 90 * MS);
	ck_assert_uint_eq(p.a->events[IBV_EVENT_PORT_ACTIVE], 0);
	world_expect(p.a, 1, IBV_WC_SUCCESS);
	ck_assert_uint_eq(p.a->events[IBV_EVENT_PORT_ACTIVE], 2);
	ck_assert_uint_ge(world_now(&p.world), 101 * MS);
	ck_assert_int_eq(memcmp(p.ma, p.mb, 5000), 0);
	pair_destroy(&p);
}
END_TEST

/* Nothing is received, either; and it lasts. */
START_TEST(down_for_the_peer)
{
	pair_create(&p, IBV_QPT_RC, NULL, 1, NULL);
	world_inject(p.b, "down(60s)@1ms");
	world_run(&p.world, 2 * MS);
	pair_post(&p, IBV_WR_RDMA_WRITE, 8, 1);
	world_expect(p.a, 1, IBV_WC_RETRY_EXC_ERR);
	ck_assert_uint_eq(p.b->events[IBV_EVENT_PORT_ACTIVE], 0);
	world_run(&p.world, 61 * SECOND);
	ck_assert_uint_eq(p.b->events[IBV_EVENT_PORT_ACTIVE], 2);
	pair_destroy(&p);
}
END_TEST

/* One that is down already goes down no more, but for longer. */
START_TEST(down_and_down)
{
	pair_create(&p, IBV_QPT_RC, NULL, 1, NULL);
	world_inject(p.a, "down(5ms)@1ms;down(10ms)@3ms");
	world_run(&p.world, 12 * MS);
	ck_assert_uint_eq(p.a->events[IBV_EVENT_PORT_ERR], 2);
	ck_assert_uint_eq(p.a->events[IBV_EVENT_PORT_ACTIVE], 0);
	world_run(&p.world, 2 * MS);
	ck_assert_uint_eq(p.a->events[IBV_EVENT_PORT_ACTIVE], 2);
	pair_destroy(&p);
}
END_TEST

/* A port of a device that is gone doesn't come back. */
START_TEST(down_and_fatal)
{
	pair_create(&p, IBV_QPT_RC, NULL, 1, NULL);
	world_inject(p.a, "down(5ms)@1ms;event(DEVICE_FATAL)@3ms");
	world_run(&p.world, SECOND);
	ck_assert_uint_eq(p.a->events[IBV_EVENT_DEVICE_FATAL], 1);
	ck_assert_uint_eq(p.a->events[IBV_EVENT_PORT_ACTIVE], 0);
	ck_assert(inject_is_down(p.a->hca, 1) && inject_is_down(p.a->hca, 2));
	pair_destroy(&p);
}
END_TEST

/* The port of a queue pair alone: the other one's go on, also with what comes at once for both. */
START_TEST(one_port_down)
{
	struct qp_options options = {
		.type = IBV_QPT_RC,
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
	};
	struct connection c = world_connection;
	struct ibv_send_wr wr = {.wr_id = 3, .opcode = IBV_WR_SEND};
	struct qp *sender, *receiver;

	c.port_num = 2;
	pair_create(&p, IBV_QPT_RC, NULL, 1, &c);
	world_inject(p.b, "down(10ms)#1");
	pair_receive(&p, 0, 1);
	pair_post(&p, IBV_WR_SEND, 0, 1);
	world_expect(p.b, 1, IBV_WC_SUCCESS);
	ck_assert(inject_is_down(p.b->hca, 2) && !inject_is_down(p.b->hca, 1));

	sender = world_qp(p.a, &options);
	receiver = world_qp(p.b, &options);
	world_connect(p.a, sender, p.b, receiver, &world_connection);
	pair_receive(&p, 0, 2);
	ck_assert_int_eq(world_post_recv(receiver, p.mb, 8, p.rb->ibv.lkey, 3), 0);
	pair_post(&p, IBV_WR_SEND, 0, 2);
	ck_assert_int_eq(world_post_send(sender, &wr), 0);
	world_expect(p.b, 3, IBV_WC_SUCCESS);
	ck_assert_uint_lt(world_now(&p.world), MS);
	world_expect(p.a, 1, IBV_WC_SUCCESS);
	world_expect(p.b, 2, IBV_WC_SUCCESS);
	world_expect(p.a, 2, IBV_WC_SUCCESS);
	ck_assert_int_eq(qp_destroy(sender), 0);
	ck_assert_int_eq(qp_destroy(receiver), 0);
	pair_destroy(&p);
}
END_TEST

START_TEST(removed)
{
	pair_create(&p, IBV_QPT_RC, NULL, 1, NULL);
	world_inject(p.b, "remove#2");
	pair_receive(&p, 0, 1);
	pair_receive(&p, 0, 2);
	pair_receive(&p, 0, 3);
	for (unsigned int i = 1; i <= 3; i++)
		pair_post(&p, IBV_WR_SEND, 0, i);
	world_expect(p.b, 1, IBV_WC_SUCCESS);
	world_expect(p.b, 2, IBV_WC_SUCCESS);
	world_run(&p.world, MS);
	ck_assert(inject_is_removed(p.b->hca));
	ck_assert_int_eq(p.qb->state, IBV_QPS_ERR);
	world_run(&p.world, 60 * SECOND);
	ck_assert_int_eq(p.qa->state, IBV_QPS_ERR);
	pair_destroy(&p);
}
END_TEST

/* --- completion events -------------------------------------------------------------------- */

static void write_some(unsigned int count)
{
	for (unsigned int i = 1; i <= count; i++) {
		pair_post(&p, IBV_WR_RDMA_WRITE, 8, i);
		world_expect(p.a, i, IBV_WC_SUCCESS);
	}
}

START_TEST(coalesced)
{
	pair_create(&p, IBV_QPT_RC, NULL, 1, NULL);
	world_inject(p.a, "coalesce(4)");
	for (unsigned int i = 1; i <= 2; i++) {
		cq_arm(p.a->cq, false);
		write_some(3);
		ck_assert_uint_eq(p.a->completion_events, 2 * i - 2);
		write_some(1);
		ck_assert_uint_eq(p.a->completion_events, 2 * i - 1);
		/* No more than three come: it doesn't wait for ever. */
		cq_arm(p.a->cq, false);
		write_some(3);
		ck_assert_uint_eq(p.a->completion_events, 2 * i - 1);
		world_run(&p.world, 11 * MS);
		ck_assert_uint_eq(p.a->completion_events, 2 * i);
	}
	pair_destroy(&p);
}
END_TEST

START_TEST(coalesced_once)
{
	pair_create(&p, IBV_QPT_RC, NULL, 1, NULL);
	world_inject(p.a, "coalesce(2)#2");
	cq_arm(p.a->cq, false);
	write_some(1);
	ck_assert_uint_eq(p.a->completion_events, 1);
	cq_arm(p.a->cq, false);
	write_some(1);
	ck_assert_uint_eq(p.a->completion_events, 1);
	write_some(1);
	ck_assert_uint_eq(p.a->completion_events, 2);
	cq_arm(p.a->cq, false);
	write_some(1);
	ck_assert_uint_eq(p.a->completion_events, 3);
	pair_destroy(&p);
}
END_TEST

START_TEST(spurious)
{
	pair_create(&p, IBV_QPT_RC, NULL, 1, NULL);
	world_inject(p.a, "spurious#2");
	for (unsigned int i = 1; i <= 3; i++) {
		cq_arm(p.a->cq, false);
		world_run(&p.world, MS);
		ck_assert_uint_eq(p.a->completion_events, i >= 2);
	}
	write_some(1); /* the second arming is used up, the third is for this */
	ck_assert_uint_eq(p.a->completion_events, 2);
	pair_destroy(&p);
}
END_TEST

/* --- connections -------------------------------------------------------------------------- */

static struct callers callers;

START_TEST(request_rejected)
{
	struct caller *first, *second;

	callers_create(&callers, NULL, 1);
	callers_listen(&callers, 1, SERVICE);
	world_inject(&callers.world.nodes[1], "reject(NO_RESOURCES)#1/CM_REQ");
	first = caller_connect(&callers, 0, 1, SERVICE);
	world_run(&callers.world, SECOND);
	caller_expect(first, (int[]){CM_EVENT_REJ_RECEIVED, -1});
	ck_assert_uint_eq(first->last.reason, CM_REJECT_NO_RESOURCES);
	second = caller_connect(&callers, 0, 1, SERVICE);
	world_run(&callers.world, SECOND);
	ck_assert(caller_heard(second, CM_EVENT_REP_RECEIVED));
	callers_destroy(&callers);
}
END_TEST

START_TEST(reply_rejected)
{
	struct caller *caller;

	callers_create(&callers, NULL, 1);
	callers_listen(&callers, 1, SERVICE);
	callers.no_rtu = true;
	world_inject(&callers.world.nodes[0], "reject#1/CM_REP");
	caller = caller_connect(&callers, 0, 1, SERVICE);
	world_run(&callers.world, SECOND);
	ck_assert(caller_heard(caller, CM_EVENT_REP_RECEIVED));
	ck_assert_int_eq(cm_send_rtu(caller->id, world_now(&callers.world)), ECONNREFUSED);
	world_run(&callers.world, SECOND);
	ck_assert(caller_heard(caller_peer(caller), CM_EVENT_REJ_RECEIVED));
	ck_assert_uint_eq(caller_peer(caller)->last.reason, CM_REJECT_CONSUMER);
	callers_destroy(&callers);
}
END_TEST

int main(void)
{
	TCase *async = tcase_create("async"), *link = tcase_create("link");
	TCase *completion = tcase_create("completion"), *cm = tcase_create("cm");

	tcase_add_test(async, all_events_are_here);
	tcase_add_loop_test(async, told, 0, 4);
	tcase_add_loop_test(async, at_a_time, 0, EVENTS);
	tcase_add_loop_test(async, after_messages, 0, EVENTS);
	tcase_add_loop_test(async, of_a_queue_pair_in_reset, 0, EVENTS);
	tcase_add_loop_test(async, before_the_object, 0, 2);
	tcase_add_loop_test(async, of_no_queue_pair, 0, 2);
	tcase_add_loop_test(async, of_the_one_that_is_named, 0, 4);
	tcase_add_test(async, srq_of_no_queue_pair);
	tcase_add_test(async, of_a_queue_pair_without_srq);
	tcase_add_test(async, cq_of_no_queue_pair);
	tcase_add_test(async, srq_in_error);
	tcase_add_test(async, fatal_and_reset);
	tcase_add_loop_test(async, fatal, 0, 2);
	tcase_add_loop_test(async, completions_of_an_event, 0, 3);
	tcase_add_test(async, cq_in_error);
	tcase_add_test(link, down_and_up);
	tcase_add_test(link, down_for_the_peer);
	tcase_add_test(link, down_and_down);
	tcase_add_test(link, down_and_fatal);
	tcase_add_test(link, one_port_down);
	tcase_add_test(link, removed);
	tcase_add_test(completion, coalesced);
	tcase_add_test(completion, coalesced_once);
	tcase_add_test(completion, spurious);
	tcase_add_test(cm, request_rejected);
	tcase_add_test(cm, reply_rejected);
	return world_main("inject_events", (TCase *const[]){async, link, completion, cm, NULL});
}
