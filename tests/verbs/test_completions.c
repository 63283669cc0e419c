/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completion queues through the ABI: when a completion was made, by the device's clock and the
 * wall clock; moderated events; and what else ibv_create_cq_ex() may be asked for.
 */
#include <check.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "net/cause/cause.h"
#include "tests/must.h"
#include "tests/run_suite.h"
#include "tests/verbs/fails.h"
#include "tests/verbs/fixture.h"

#define TIMESTAMPS                                                                                 \
	(IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)

static struct pair pair;

static uint64_t raw_clock(void)
{
	struct ibv_values_ex values = {.comp_mask = IBV_VALUES_MASK_RAW_CLOCK};

	ck_assert_int_eq(ibv_query_rt_values_ex(pair.context, &values), 0);
	ck_assert_uint_eq(values.comp_mask, IBV_VALUES_MASK_RAW_CLOCK);
	ck_assert_int_eq(values.raw_clock.tv_sec, 0);
	return values.raw_clock.tv_nsec;
}

static int64_t wall_clock(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static struct ibv_cq_ex *create_cq(struct ibv_cq_init_attr_ex attr)
{
	struct ibv_cq_ex *cq = ibv_create_cq_ex(pair.context, &attr);

	ck_assert_ptr_nonnull(cq);
	return cq;
}

/* The sender is exchanged for one that completes into @cq. */
static void send_into(struct ibv_cq_ex *cq)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = ibv_cq_ex_to_cq(cq),
		.recv_cq = ibv_cq_ex_to_cq(cq),
		.cap = {.max_send_wr = DEPTH,
			.max_recv_wr = 1,
			.max_send_sge = 1,
			.max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
	};

	ck_assert_int_eq(ibv_destroy_qp(pair.sender), 0);
	pair.sender = ibv_create_qp(pair.pd, &attr);
	ck_assert_ptr_nonnull(pair.sender);
	ck_assert_int_eq(ibv_modify_qp(pair.receiver,
				       &(struct ibv_qp_attr){.qp_state = IBV_QPS_RESET},
				       IBV_QP_STATE),
			 0);
	connect_qp(pair.sender, pair.receiver);
	connect_qp(pair.receiver, pair.sender);
}

static void close_with(struct ibv_cq_ex *cq)
{
	ck_assert_int_eq(ibv_destroy_qp(pair.sender), 0);
	ck_assert_int_eq(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
	ck_assert_int_eq(ibv_destroy_qp(pair.receiver), 0);
	ck_assert_int_eq(ibv_destroy_cq(pair.send_cq), 0);
	ck_assert_int_eq(ibv_destroy_cq(pair.recv_cq), 0);
	ck_assert_int_eq(ibv_destroy_comp_channel(pair.channel), 0);
	ck_assert_int_eq(ibv_dereg_mr(pair.mr), 0);
	ck_assert_int_eq(ibv_dealloc_pd(pair.pd), 0);
	fixture_close(pair.context);
}

/* --- clocks ------------------------------------------------------------------------ */

START_TEST(device_clock)
{
	struct ibv_values_ex values = {.comp_mask = IBV_VALUES_MASK_RAW_CLOCK << 1};
	struct ibv_device_attr_ex attr;
	uint64_t last;

	pair.context = fixture_open();
	ck_assert_int_eq(ibv_query_device_ex(pair.context, NULL, &attr), 0);
	ck_assert_uint_eq(attr.hca_core_clock, 1000000); /* kHz: nanoseconds */
	ck_assert_uint_eq(attr.completion_timestamp_mask, UINT64_MAX);
	last = raw_clock();
	for (int i = 0; i < 1000; i++) {
		uint64_t now = raw_clock();

		ck_assert_uint_ge(now, last);
		last = now;
	}
	ck_assert_int_eq(ibv_query_rt_values_ex(pair.context, &values), EINVAL);
	values.comp_mask = 0;
	ck_assert_int_eq(ibv_query_rt_values_ex(pair.context, &values), 0);
	fixture_close(pair.context);
}
END_TEST

/* A completion was made after its request was posted and before it was polled, by both clocks. */
START_TEST(timestamps)
{
	struct ibv_poll_cq_attr poll_attr = {};
	uint64_t last = 0, last_wall = 0;
	struct ibv_cq_ex *cq;

	pair_open(&pair, IBV_QPT_RC, 0);
	cq = create_cq((struct ibv_cq_init_attr_ex){
		.cqe = DEPTH, .wc_flags = IBV_WC_STANDARD_FLAGS | TIMESTAMPS});
	send_into(cq);
	for (uint64_t i = 0; i < 200; i++) {
		uint64_t before = raw_clock(), stamp, wall;
		int64_t wall_before = wall_clock();

		ck_assert_int_eq(post_write(&pair, i), 0);
		while (ibv_start_poll(cq, &poll_attr) == ENOENT)
			;
		ck_assert_uint_eq(cq->wr_id, i);
		ck_assert_int_eq(cq->status, IBV_WC_SUCCESS);
		stamp = ibv_wc_read_completion_ts(cq);
		wall = ibv_wc_read_completion_wallclock_ns(cq);
		ibv_end_poll(cq);
		ck_assert_uint_ge(stamp, before);
		ck_assert_uint_le(stamp, raw_clock());
		ck_assert_uint_ge(stamp, last);
		/* Which one is read first, and how they were compared, makes a difference. */
		ck_assert_int_ge(wall, wall_before - 100000);
		ck_assert_int_le(wall, wall_clock() + 100000);
		if (i)
			ck_assert_uint_eq(wall - last_wall, stamp - last);
		last = stamp;
		last_wall = wall;
	}
	close_with(cq);
}
END_TEST

/* --- causes --------------------------------------------------------------------------- */

/* A completion with an error says why: both ways of polling tell. */
START_TEST(vendor_errors)
{
	struct ibv_poll_cq_attr poll_attr = {};
	struct ibv_sge sge;
	struct ibv_send_wr *bad, wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE};
	struct ibv_cq_ex *cq;
	struct ibv_wc wc;

	pair_open(&pair, IBV_QPT_RC, 0);
	cq = create_cq(
		(struct ibv_cq_init_attr_ex){.cqe = DEPTH, .wc_flags = IBV_WC_STANDARD_FLAGS});
	send_into(cq);
	post_receive(&pair, 5);
	sge = send_sge(&pair, 8);
	wr.wr.rdma.remote_addr = sge.addr;
	wr.wr.rdma.rkey = pair.mr->rkey + 1;
	ck_assert_int_eq(ibv_post_send(pair.sender, &wr, &bad), 0);
	while (ibv_start_poll(cq, &poll_attr) == ENOENT)
		;
	ck_assert_int_eq(cq->status, IBV_WC_REM_ACCESS_ERR);
	ck_assert_uint_eq(ibv_wc_read_vendor_err(cq), CAUSE_NAK_REMOTE_ACCESS);
	ibv_end_poll(cq);
	wc = wait_completion(pair.recv_cq);
	ck_assert_uint_eq(wc.wr_id, 5);
	ck_assert_int_eq(wc.status, IBV_WC_WR_FLUSH_ERR);
	ck_assert_uint_eq(wc.vendor_err, CAUSE_RECEIVE_FLUSHED);
	close_with(cq);
}
END_TEST

/* --- attributes ----------------------------------------------------------------------- */

START_TEST(what_a_queue_can_tell)
{
	static const uint64_t lacking[] = {IBV_WC_EX_WITH_CVLAN, IBV_WC_EX_WITH_FLOW_TAG,
					   IBV_WC_EX_WITH_TM_INFO, UINT64_C(1) << 40};
	struct ibv_cq_init_attr_ex attr = {.cqe = 4};
	struct ibv_cq_ex *cq;

	pair.context = fixture_open();
	for (int i = 0; i < 4; i++) {
		attr.wc_flags = lacking[i];
		ck_fails_null(ibv_create_cq_ex(pair.context, &attr), EOPNOTSUPP);
	}
	attr.wc_flags = 0;
	attr.comp_vector = pair.context->num_comp_vectors;
	ck_fails_null(ibv_create_cq_ex(pair.context, &attr), EINVAL);
	attr.comp_vector--;
	attr.flags = 1 << 20;
	attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
	ck_fails_null(ibv_create_cq_ex(pair.context, &attr), EINVAL);
	attr.comp_mask = 0; /* so they aren't looked at */
	cq = create_cq(attr);
	ck_assert_ptr_null(cq->read_completion_ts);
	ck_assert_ptr_null(cq->read_byte_len);
	ck_assert_ptr_nonnull(cq->read_opcode);
	ck_assert_int_eq(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
	fixture_close(pair.context);
}
END_TEST

START_TEST(in_a_parent_domain)
{
	struct ibv_parent_domain_init_attr parent = {};
	struct ibv_cq_init_attr_ex attr = {.cqe = 4, .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD};
	struct ibv_pd *domain;
	struct ibv_cq_ex *cq;

	pair.context = fixture_open();
	parent.pd = ibv_alloc_pd(pair.context);
	domain = ibv_alloc_parent_domain(pair.context, &parent);
	ck_assert_ptr_nonnull(domain);
	ck_fails_null(ibv_create_cq_ex(pair.context, &attr), EINVAL);
	attr.parent_domain = parent.pd;
	ck_fails_null(ibv_create_cq_ex(pair.context, &attr), EINVAL);
	attr.parent_domain = domain;
	cq = create_cq(attr);
	ck_assert_int_eq(ibv_dealloc_pd(domain), EBUSY);
	ck_assert_int_eq(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
	ck_assert_int_eq(ibv_dealloc_pd(domain), 0);
	ck_assert_int_eq(ibv_dealloc_pd(parent.pd), 0);
	fixture_close(pair.context);
}
END_TEST

static void move_sender(enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = {.qp_state = state};

	ck_assert_int_eq(ibv_modify_qp(pair.sender, &attr, IBV_QP_STATE), 0);
}

/* A request that has completed, although its completion isn't polled. */
static void write_and_drain(uint64_t id)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct ibv_wc wc;

	ck_assert_int_eq(post_write(&pair, id), 0);
	move_sender(IBV_QPS_SQD);
	do {
		ck_assert_int_eq(ibv_poll_cq(pair.send_cq, 1, &wc), 0); /* makes progress */
		ck_assert_int_eq(ibv_query_qp(pair.sender, &attr, IBV_QP_STATE, &init), 0);
	} while (attr.sq_draining);
	ck_assert_int_eq(attr.qp_state, IBV_QPS_SQD);
	move_sender(IBV_QPS_RTS);
}

/* Nothing happens but that the application doesn't see the oldest. */
START_TEST(overrun_ignored)
{
	struct ibv_cq_ex *cq;
	struct ibv_wc wc;

	pair_open(&pair, IBV_QPT_RC, 0);
	cq = create_cq((struct ibv_cq_init_attr_ex){.cqe = 4,
						    .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
						    .flags = IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN |
							     IBV_CREATE_CQ_ATTR_SINGLE_THREADED});
	send_into(cq);
	for (uint64_t round = 0; round < 3; round++) {
		/* More than the queue has slots: those of what is lost are free. */
		for (uint64_t i = 0; i < 2 * DEPTH; i++)
			write_and_drain(i);
		for (uint64_t i = 2 * DEPTH - 4; i < 2 * DEPTH; i++) {
			wc = wait_completion(ibv_cq_ex_to_cq(cq));
			ck_assert_uint_eq(wc.wr_id, i);
			ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
		}
		ck_assert_int_eq(ibv_poll_cq(ibv_cq_ex_to_cq(cq), 1, &wc), 0);
	}
	ck_assert_int_eq(poll(&(struct pollfd){pair.context->async_fd, POLLIN, 0}, 1, 0), 0);
	close_with(cq);
}
END_TEST

/* --- moderation ------------------------------------------------------------------------- */

static int moderate(struct ibv_cq *cq, uint16_t count, uint16_t period)
{
	struct ibv_modify_cq_attr attr = {.attr_mask = IBV_CQ_ATTR_MODERATE,
					  .moderate = {.cq_count = count, .cq_period = period}};

	return ibv_modify_cq(cq, &attr);
}

START_TEST(moderation_has_limits)
{
	struct ibv_modify_cq_attr attr = {};
	struct ibv_device_attr_ex device;

	pair_open(&pair, IBV_QPT_RC, 0);
	ck_assert_int_eq(ibv_query_device_ex(pair.context, NULL, &device), 0);
	ck_assert_uint_eq(device.cq_mod_caps.max_cq_count, 65535);
	ck_assert_uint_eq(device.cq_mod_caps.max_cq_period, 4095);
	ck_assert_int_eq(moderate(pair.recv_cq, 65535, 4095), 0);
	ck_assert_int_eq(moderate(pair.recv_cq, 1, 4096), EINVAL);
	ck_assert_int_eq(moderate(pair.send_cq, 16, 10), 0); /* without a channel */
	ck_assert_int_eq(moderate(pair.recv_cq, 0, 0), 0);
	ck_assert_int_eq(ibv_modify_cq(pair.recv_cq, &attr), EINVAL);
	attr.attr_mask = IBV_CQ_ATTR_MODERATE << 1;
	ck_assert_int_eq(ibv_modify_cq(pair.recv_cq, &attr), EOPNOTSUPP);
	pair_close(&pair);
}
END_TEST

static bool event_waits(void)
{
	struct pollfd channel = {.fd = pair.channel->fd, .events = POLLIN};

	return poll(&channel, 1, 0) == 1;
}

/* Wait for it, and poll what there is. Returns how many messages have been received now. */
static unsigned int next_event(unsigned int received)
{
	struct ibv_wc wc;
	struct ibv_cq *cq;
	void *context;

	ck_assert_int_eq(ibv_get_cq_event(pair.channel, &cq, &context), 0);
	ck_assert_ptr_eq(cq, pair.recv_cq);
	ibv_ack_cq_events(cq, 1);
	while (ibv_poll_cq(cq, 1, &wc) == 1)
		ck_assert_uint_eq(wc.wr_id, received++);
	ck_assert_int_eq(ibv_req_notify_cq(pair.recv_cq, 0), 0);
	return received;
}

static void send_one(uint64_t id)
{
	struct ibv_send_wr wr =
				   {
					   .wr_id = id,
					   .opcode = IBV_WR_SEND,
					   .send_flags = IBV_SEND_SIGNALED,
				   },
			   *bad;

	post_receive(&pair, id);
	ck_assert_int_eq(ibv_post_send(pair.sender, &wr, &bad), 0);
	ck_assert_uint_eq(wait_completion(pair.send_cq).wr_id, id);
}

/*
 * An event stands for COUNT messages since the CQ was armed, or for the PERIOD. How long this
 * takes is not for the test to say, but it tells how many events there may be.
 */
START_TEST(events_are_few)
{
	enum { MESSAGES = 500, COUNT = 10, PERIOD = 4095 };
	unsigned int received = 0, sent = 0, events = 0;
	uint64_t start;

	pair_open(&pair, IBV_QPT_RC, 0);
	ck_assert_int_eq(moderate(pair.recv_cq, COUNT, PERIOD), 0);
	start = raw_clock();
	ck_assert_int_eq(ibv_req_notify_cq(pair.recv_cq, 0), 0);
	while (sent < MESSAGES) {
		send_one(sent++);
		if (sent - received < DEPTH && !event_waits())
			continue;
		received = next_event(received);
		events++;
	}
	ck_assert_uint_le(events, MESSAGES / COUNT + (raw_clock() - start) / (PERIOD * 1000) + 1);

	/* Fewer than COUNT: the time wakes the application, which sleeps. */
	while (received < sent)
		received = next_event(received);
	for (unsigned int i = 1; i < 4; i++) {
		for (unsigned int k = 0; k < i; k++)
			send_one(sent++);
		while (received < sent)
			received = next_event(received);
	}
	/*
	 * An event that waits isn't lost when the moderation ends, nor is a CQ busy that has one.
	 */
	send_one(sent++);
	ck_assert_int_eq(moderate(pair.recv_cq, 0, 0), 0);
	received = next_event(received);
	ck_assert_uint_eq(received, sent);
	ck_assert_int_eq(moderate(pair.recv_cq, COUNT, PERIOD), 0);
	send_one(sent++);
	pair_close(&pair);
}
END_TEST

static _Atomic pid_t destroying;

static void *destroy(void *cq)
{
	destroying = gettid();
	must(ibv_destroy_cq(cq) == 0);
	return NULL;
}

/* Whose period ends while ibv_destroy_cq() waits for the event before to be acknowledged. */
START_TEST(an_event_that_waits_ends_with_its_queue)
{
	enum { COUNT = 100, PERIOD = 4095 };
	pthread_t thread;
	struct ibv_cq *cq;
	void *context;

	pair_open(&pair, IBV_QPT_RC, 0);
	ck_assert_int_eq(moderate(pair.recv_cq, COUNT, PERIOD), 0);
	ck_assert_int_eq(ibv_req_notify_cq(pair.recv_cq, 0), 0);
	send_one(0);
	ck_assert_int_eq(ibv_get_cq_event(pair.channel, &cq, &context), 0);
	ck_assert_int_eq(ibv_req_notify_cq(pair.recv_cq, 0), 0);
	send_one(1);
	ck_assert_int_eq(ibv_destroy_qp(pair.sender), 0);
	ck_assert_int_eq(ibv_destroy_qp(pair.receiver), 0);
	ck_assert_int_eq(pthread_create(&thread, NULL, destroy, cq), 0);
	wait_until_asleep(&destroying);
	usleep(2 * PERIOD);
	ibv_ack_cq_events(cq, 1);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	ck_assert(!event_waits());
	ck_assert_int_eq(ibv_destroy_cq(pair.send_cq), 0);
	ck_assert_int_eq(ibv_destroy_comp_channel(pair.channel), 0);
	ck_assert_int_eq(ibv_dereg_mr(pair.mr), 0);
	ck_assert_int_eq(ibv_dealloc_pd(pair.pd), 0);
	fixture_close(pair.context);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("completions");
	TCase *tests = tcase_create("completions");

	fixture_environment();
	tcase_set_timeout(tests, 60);
	tcase_add_test(tests, device_clock);
	tcase_add_test(tests, timestamps);
	tcase_add_test(tests, vendor_errors);
	tcase_add_test(tests, what_a_queue_can_tell);
	tcase_add_test(tests, in_a_parent_domain);
	tcase_add_test(tests, overrun_ignored);
	tcase_add_test(tests, moderation_has_limits);
	tcase_add_test(tests, events_are_few);
	tcase_add_test(tests, an_event_that_waits_ends_with_its_queue);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
