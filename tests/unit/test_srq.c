/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared receive queues and the ring below them: limits, order, resizing, the limit event. */
#include <errno.h>

#include "core.h"
#include "emu/objects/srq.h"

static struct srq *make_srq(struct pd *pd, uint32_t max_wr)
{
	struct ibv_srq_attr attr = {.max_wr = max_wr, .max_sge = 2};
	struct srq *srq;

	ck_assert_int_eq(srq_create(pd, &attr, &srq), 0);
	return srq;
}

static int post(struct srq *srq, uint64_t wr_id)
{
	struct ibv_sge sges[2] = {{.addr = wr_id, .length = 100, .lkey = 7},
				  {.addr = wr_id + 100, .length = 11, .lkey = 8}};
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = sges, .num_sge = 2};
	const struct ibv_recv_wr *bad;

	return srq_post(srq, &wr, &bad);
}

static void expect_pop(struct srq *srq, uint64_t wr_id)
{
	struct receive_wqe wqe;
	struct ibv_sge sges[2];

	ck_assert(srq_pop(srq, &wqe, sges));
	ck_assert_uint_eq(wqe.wr_id, wr_id);
	ck_assert_uint_eq(wqe.num_sge, 2);
	ck_assert_uint_eq(wqe.length, 111);
	ck_assert_ptr_eq(wqe.sge, sges);
	ck_assert_uint_eq(sges[0].addr, wr_id);
	ck_assert_uint_eq(sges[1].addr, wr_id + 100);
	ck_assert_uint_eq(sges[1].lkey, 8);
}

START_TEST(create_checks_the_limits)
{
	static const struct ibv_srq_attr bad[] = {
		{.max_wr = 0, .max_sge = 1}, {.max_wr = 1001, .max_sge = 1}, {1, 5, 0}};
	struct ibv_srq_attr attr = {.max_wr = 1};
	struct pd *pd = core_pd();
	struct srq *srq;

	for (int i = 0; i < 3; i++) {
		attr = bad[i];
		ck_assert_int_eq(srq_create(pd, &attr, &srq), EINVAL);
	}
	ck_assert_uint_eq(core.srq_count, 0);
	srq = make_srq(pd, 1000);
	ck_assert_int_eq(srq_destroy(srq), 0);
	srq = make_srq(pd, 4);
	srq_query(srq, &attr);
	ck_assert_uint_eq(attr.max_wr, 4);
	ck_assert_uint_eq(attr.max_sge, 2);
	ck_assert_uint_eq(attr.srq_limit, 0);
	ck_assert_int_eq(pd_dealloc(pd), EBUSY);
	users_add(&srq->users, USER_QP, 1);
	ck_assert_int_eq(srq_destroy(srq), EBUSY);
	users_add(&srq->users, USER_QP, -1);
	ck_assert_int_eq(srq_destroy(srq), 0);
	ck_assert_int_eq(pd_dealloc(pd), 0);
}
END_TEST

START_TEST(entries_come_in_order)
{
	struct pd *pd = core_pd();
	struct srq *srq = make_srq(pd, 3);
	struct receive_wqe wqe;
	struct ibv_sge sges[2];

	ck_assert(!srq_pop(srq, &wqe, sges));
	for (uint64_t i = 0; i < 20; i++) {
		ck_assert_int_eq(post(srq, 2 * i), 0);
		ck_assert_int_eq(post(srq, 2 * i + 1), 0);
		expect_pop(srq, 2 * i);
		expect_pop(srq, 2 * i + 1);
	}
	for (uint64_t i = 0; i < 3; i++)
		ck_assert_int_eq(post(srq, i), 0);
	ck_assert_int_eq(post(srq, 3), ENOMEM);
	ck_assert_int_eq(srq_destroy(srq), 0);
	pd_dealloc(pd);
}
END_TEST

START_TEST(the_first_bad_request_is_named)
{
	struct ibv_sge sges[3] = {{.length = UINT32_MAX}, {.length = UINT32_MAX}};
	struct ibv_recv_wr negative = {.num_sge = -1};
	struct ibv_recv_wr many = {.sg_list = sges, .num_sge = 3, .next = &negative};
	struct ibv_recv_wr good = {.sg_list = sges, .num_sge = 2, .next = &many};
	const struct ibv_recv_wr *bad = NULL;
	struct pd *pd = core_pd();
	struct srq *srq = make_srq(pd, 3);
	struct receive_wqe wqe;

	ck_assert_int_eq(srq_post(srq, &good, &bad), EINVAL);
	ck_assert_ptr_eq(bad, &many);
	ck_assert_int_eq(srq_post(srq, &negative, &bad), EINVAL);
	ck_assert_ptr_eq(bad, &negative);
	ck_assert(srq_pop(srq, &wqe, sges));
	ck_assert_uint_eq(wqe.length, UINT32_MAX);
	ck_assert(!srq_pop(srq, &wqe, sges));
	ck_assert_int_eq(srq_destroy(srq), 0);
	pd_dealloc(pd);
}
END_TEST

START_TEST(the_limit_fires_once)
{
	struct ibv_srq_attr attr = {.srq_limit = 2};
	struct pd *pd = core_pd();
	struct srq *srq = make_srq(pd, 4);

	for (uint64_t i = 0; i < 4; i++)
		post(srq, i);
	ck_assert_int_eq(srq_modify(srq, &attr, IBV_SRQ_LIMIT), 0);
	expect_pop(srq, 0);
	expect_pop(srq, 1);
	event_deliver(&core.events);
	ck_assert_uint_eq(told.async, 0);
	expect_pop(srq, 2);
	expect_pop(srq, 3);
	event_deliver(&core.events);
	ck_assert_uint_eq(told.async, 1);
	ck_assert_int_eq(told.type, IBV_EVENT_SRQ_LIMIT_REACHED);
	ck_assert_ptr_eq(told.element, srq);
	srq_query(srq, &attr);
	ck_assert_uint_eq(attr.srq_limit, 0);

	/* Armed when below already: at the next entry taken. */
	attr.srq_limit = 4;
	ck_assert_int_eq(srq_modify(srq, &attr, IBV_SRQ_LIMIT), 0);
	post(srq, 4);
	event_deliver(&core.events);
	ck_assert_uint_eq(told.async, 1);
	expect_pop(srq, 4);
	event_deliver(&core.events);
	ck_assert_uint_eq(told.async, 2);

	/* An event that waits dies with its queue. */
	attr.srq_limit = 1;
	ck_assert_int_eq(srq_modify(srq, &attr, IBV_SRQ_LIMIT), 0);
	post(srq, 5);
	expect_pop(srq, 5);
	ck_assert_int_eq(srq_destroy(srq), 0);
	event_deliver(&core.events);
	ck_assert_uint_eq(told.async, 2);
	pd_dealloc(pd);
}
END_TEST

START_TEST(modify_resizes_or_changes_nothing)
{
	struct ibv_srq_attr attr = {.max_wr = 8, .srq_limit = 2};
	struct pd *pd = core_pd();
	struct srq *srq = make_srq(pd, 4);

	post(srq, 100);
	expect_pop(srq, 100);
	for (uint64_t i = 0; i < 4; i++)
		post(srq, i);
	ck_assert_int_eq(srq_modify(srq, &attr, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT), 0);
	for (uint64_t i = 4; i < 8; i++)
		ck_assert_int_eq(post(srq, i), 0);
	ck_assert_int_eq(post(srq, 8), ENOMEM);

	attr = (struct ibv_srq_attr){.max_wr = 7, .srq_limit = 9};
	ck_assert_int_eq(srq_modify(srq, &attr, IBV_SRQ_MAX_WR), EINVAL);
	ck_assert_int_eq(srq_modify(srq, &attr, IBV_SRQ_LIMIT), EINVAL);
	ck_assert_int_eq(srq_modify(srq, &attr, 4), EINVAL);
	ck_assert_int_eq(srq_modify(srq, &attr, 0), 0);
	attr.max_wr = 8;
	ck_assert_int_eq(srq_modify(srq, &attr, IBV_SRQ_MAX_WR), 0);
	attr.max_wr = 1001;
	ck_assert_int_eq(srq_modify(srq, &attr, IBV_SRQ_MAX_WR), EINVAL);
	srq_query(srq, &attr);
	ck_assert_uint_eq(attr.max_wr, 8);
	ck_assert_uint_eq(attr.srq_limit, 2);

	for (uint64_t i = 0; i < 8; i++)
		expect_pop(srq, i);
	attr.srq_limit = 3;
	ck_assert_int_eq(srq_modify(srq, &attr, IBV_SRQ_LIMIT), 0);
	attr.max_wr = 2;
	ck_assert_int_eq(srq_modify(srq, &attr, IBV_SRQ_MAX_WR), EINVAL);
	attr.max_wr = 3;
	ck_assert_int_eq(srq_modify(srq, &attr, IBV_SRQ_MAX_WR), 0);
	ck_assert_int_eq(srq_destroy(srq), 0);
	pd_dealloc(pd);
}
END_TEST

START_TEST(a_queue_of_nothing_is_full)
{
	struct ibv_recv_wr wr = {0};
	struct receive_queue queue;
	struct receive_wqe wqe;

	ck_assert_int_eq(receive_queue_init(&queue, 0, 0), 0);
	ck_assert_int_eq(receive_queue_push(&queue, &wr), ENOMEM);
	ck_assert(!receive_queue_pop(&queue, &wqe, NULL));
	receive_queue_destroy(&queue);
	ck_assert_int_eq(receive_queue_init(&queue, 1, 0), 0);
	ck_assert_int_eq(receive_queue_push(&queue, &wr), 0);
	ck_assert(receive_queue_pop(&queue, &wqe, NULL));
	receive_queue_destroy(&queue);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {create_checks_the_limits,
				      entries_come_in_order,
				      the_first_bad_request_is_named,
				      the_limit_fires_once,
				      modify_resizes_or_changes_nothing,
				      a_queue_of_nothing_is_full,
				      NULL};

	return core_run("srq", tests);
}
