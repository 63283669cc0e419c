/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory windows end to end: what they let through, and how they are taken back (IBA 10.6.7).
 */
#include <stdlib.h>

#include "mw_owner.h"

#define LENGTH_OF(array) ((int)(sizeof(array) / sizeof((array)[0])))

/* The window doesn't let this through, and that is the end of the connection. */
static void check_refused(enum ibv_wr_opcode opcode, uint32_t rkey, uint64_t va, uint32_t length)
{
	uint8_t *before = malloc(PAIR_MEMORY);

	memcpy(before, p.mb, PAIR_MEMORY);
	memset(p.ma, 0x99, length);
	reach(opcode, rkey, va, length, 666);
	world_expect(p.a, 666, IBV_WC_REM_ACCESS_ERR);
	ck_assert_mem_eq(before, p.mb, PAIR_MEMORY);
	for (uint32_t i = 0; i < length; i++)
		must(p.ma[i] == 0x99);
	ck_assert_int_eq(p.qb->state, IBV_QPS_ERR);
	ck_assert_uint_eq(p.b->events[IBV_EVENT_QP_ACCESS_ERR], 1);
	free(before);
}

/* --- access --------------------------------------------------------------------------- */

/* @va is where the window's offset 0 is. */
static void check_everything(uint32_t rkey, uint64_t va, uint32_t offset)
{
	static const uint32_t lengths[] = {1, 8, 1024, 1025, 30000, 65536};
	uint64_t word, *remote = (uint64_t *)(p.mb + offset);
	uint8_t *target = p.mb + offset;

	for (int i = 0; i < LENGTH_OF(lengths); i++) {
		pair_fill(p.ma, lengths[i], i);
		reach(IBV_WR_RDMA_WRITE, rkey, va, lengths[i], 1);
		world_expect(p.a, 1, IBV_WC_SUCCESS);
		ck_assert_mem_eq(p.ma, target, lengths[i]);
		pair_receive(&p, 0, 2);
		pair_fill(p.ma, lengths[i], i + 1);
		reach(IBV_WR_RDMA_WRITE_WITH_IMM, rkey, va, lengths[i], 3);
		world_expect(p.a, 3, IBV_WC_SUCCESS);
		world_expect(p.b, 2, IBV_WC_SUCCESS);
		ck_assert_mem_eq(p.ma, target, lengths[i]);
		pair_fill(target, lengths[i], i + 2);
		reach(IBV_WR_RDMA_READ, rkey, va, lengths[i], 4);
		world_expect(p.a, 4, IBV_WC_SUCCESS);
		ck_assert_mem_eq(p.ma, target, lengths[i]);
	}
	*remote = 1;
	reach(IBV_WR_ATOMIC_CMP_AND_SWP, rkey, va, 8, 5);
	world_expect(p.a, 5, IBV_WC_SUCCESS);
	ck_assert_uint_eq(*remote, 77);
	reach(IBV_WR_ATOMIC_FETCH_AND_ADD, rkey, va, 8, 6);
	world_expect(p.a, 6, IBV_WC_SUCCESS);
	memcpy(&word, p.ma, 8);
	ck_assert_uint_eq(word, 77);
	ck_assert_uint_eq(*remote, 78);
}

START_TEST(everything_through_a_window)
{
	struct mw *mw;

	begin(IBV_QPT_RC, NULL, 1);
	mw = make_mw(_i);
	check_everything(bound(mw, 8192, 65536), (uintptr_t)p.mb + 8192, 8192);
	mw_dealloc(mw);
	end();
}
END_TEST

START_TEST(everything_through_a_zero_based_window)
{
	struct mw *mw;
	uint32_t rkey;

	begin(IBV_QPT_RC, NULL, 1);
	mw = make_mw(IBV_MW_TYPE_2);
	rkey = bound_for(mw, 4096, 65536 + 8, ALL_RIGHTS | IBV_ACCESS_ZERO_BASED);
	check_everything(rkey, 0, 4096);
	check_everything(rkey, 8, 4104);
	check_refused(IBV_WR_RDMA_READ, rkey, (uintptr_t)p.mb + 4096, 8);
	mw_dealloc(mw);
	end();
}
END_TEST

/* Bounds and rights are the window's: neither the region's nor those of its other keys. */
START_TEST(refused_by_a_window)
{
	static const struct {
		enum ibv_wr_opcode opcode;
		int access;
		int from, length; /* the window: 1024 bytes at 1024 */
	} cases[] = {
		{IBV_WR_RDMA_WRITE, ALL_RIGHTS, 1023, 8},
		{IBV_WR_RDMA_WRITE, ALL_RIGHTS, 2047, 2},
		{IBV_WR_RDMA_WRITE, ALL_RIGHTS, 1024, 3000},
		{IBV_WR_RDMA_READ, ALL_RIGHTS, 1024, 1025},
		{IBV_WR_RDMA_READ, ALL_RIGHTS, 0, 1},
		{IBV_WR_ATOMIC_FETCH_AND_ADD, ALL_RIGHTS, 2048, 8},
		{IBV_WR_RDMA_WRITE, ALL_RIGHTS & ~IBV_ACCESS_REMOTE_WRITE, 1024, 8},
		{IBV_WR_RDMA_READ, ALL_RIGHTS & ~IBV_ACCESS_REMOTE_READ, 1024, 8},
		{IBV_WR_ATOMIC_FETCH_AND_ADD, ALL_RIGHTS & ~IBV_ACCESS_REMOTE_ATOMIC, 1024, 8},
		{IBV_WR_ATOMIC_CMP_AND_SWP, ALL_RIGHTS & ~IBV_ACCESS_REMOTE_ATOMIC, 1024, 8},
		{IBV_WR_RDMA_READ, 0, 1024, 8},
	};

	for (int i = 0; i < LENGTH_OF(cases); i++) {
		struct mw *mw;
		uint32_t rkey;

		begin(IBV_QPT_RC, NULL, i);
		mw = make_mw(i % 2 ? IBV_MW_TYPE_1 : IBV_MW_TYPE_2);
		rkey = bound_for(mw, 1024, 1024, cases[i].access);
		check_refused(cases[i].opcode, rkey, (uintptr_t)p.mb + cases[i].from,
			      cases[i].length);
		mw_dealloc(mw);
		end();
	}
}
END_TEST

/* A window of type 2 is for the QP that bound it. */
START_TEST(refused_to_another_qp)
{
	struct qp_options options = {.type = IBV_QPT_RC, .cap = {.max_send_wr = 4}};
	struct qp *third, *fourth;
	struct mw *mw;
	uint32_t rkey;

	begin(IBV_QPT_RC, NULL, 1);
	third = world_qp(p.a, &options);
	fourth = world_qp(p.b, &options);
	world_connect(p.a, third, p.b, fourth, &world_connection);
	mw = make_mw(_i);
	rkey = ibv_inc_rkey(mw->ibv.rkey);
	post(fourth, bind_wr(mw, rkey, 0, 8, ALL_RIGHTS, 1));
	world_expect(p.b, 1, IBV_WC_SUCCESS);
	if (_i == IBV_MW_TYPE_2) {
		check_refused(IBV_WR_RDMA_WRITE, rkey, (uintptr_t)p.mb, 8);
	} else {
		reach(IBV_WR_RDMA_WRITE, rkey, (uintptr_t)p.mb, 8, 2);
		world_expect(p.a, 2, IBV_WC_SUCCESS);
	}
	ck_assert_int_eq(fourth->state, IBV_QPS_RTS);
	ck_assert_int_eq(qp_destroy(third), 0);
	ck_assert_int_eq(qp_destroy(fourth), 0);
	mw_dealloc(mw);
	end();
}
END_TEST

/* IBA 10.6.7: windows have no L_Key. */
START_TEST(no_local_key)
{
	struct mw *mw;
	struct ibv_sge sge;

	begin(IBV_QPT_RC, NULL, 1);
	mw = make_mw(IBV_MW_TYPE_1);
	sge = (struct ibv_sge){(uintptr_t)p.mb, 8, bound(mw, 0, 8)};
	post(p.qb, (struct ibv_send_wr){
			   .wr_id = 1, .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1});
	world_expect(p.b, 1, IBV_WC_LOC_PROT_ERR);
	mw_dealloc(mw);
	end();
}
END_TEST

/* --- taking it back --------------------------------------------------------------------- */

START_TEST(send_with_invalidate)
{
	static const uint32_t lengths[] = {0, 1, 1024, 5000};
	struct ibv_wc wc;
	struct mw *mw;
	uint32_t rkey = 0;

	begin(IBV_QPT_RC, NULL, 1);
	mw = make_mw(IBV_MW_TYPE_2);
	for (int i = 0; i < LENGTH_OF(lengths); i++) {
		rkey = bound(mw, 8192, 8);
		pair_receive(&p, 8192, 1);
		pair_fill(p.ma, lengths[i], i);
		/* What comes before it may still use the window. */
		reach(IBV_WR_RDMA_WRITE, rkey, (uintptr_t)p.mb + 8192, 8, 2);
		send_invalidating(rkey, lengths[i], 3);
		world_expect(p.a, 2, IBV_WC_SUCCESS);
		world_expect(p.a, 3, IBV_WC_SUCCESS);
		wc = world_completion(p.b, SECOND);
		ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
		ck_assert_int_eq(wc.opcode, IBV_WC_RECV);
		ck_assert_uint_eq(wc.wc_flags, IBV_WC_WITH_INV);
		ck_assert_uint_eq(wc.invalidated_rkey, rkey);
		ck_assert_uint_eq(wc.byte_len, lengths[i]);
		ck_assert_mem_eq(p.ma, p.mb, lengths[i]);
		ck_assert_uint_eq(region->windows, 0);
	}
	check_refused(IBV_WR_RDMA_READ, rkey, (uintptr_t)p.mb + 8192, 8);
	mw_dealloc(mw);
	end();
}
END_TEST

enum not_invalidatable { UNKNOWN, UNBOUND, TYPE_1, REGION, OTHER_QP, STALE, LAST_BAD = STALE };

static uint32_t bad_key(enum not_invalidatable which, struct mw *one, struct mw *two,
			struct qp *other)
{
	uint32_t rkey = ibv_inc_rkey(two->ibv.rkey);

	switch (which) {
	case UNKNOWN:
		return 0xabcdef00;
	case UNBOUND:
		return two->ibv.rkey;
	case TYPE_1:
		return bound(one, 0, 8);
	case REGION:
		return p.rb->ibv.rkey;
	case OTHER_QP:
		post(other, bind_wr(two, rkey, 0, 8, ALL_RIGHTS, 1));
		world_expect(p.b, 1, IBV_WC_SUCCESS);
		return rkey;
	case STALE:
		rkey = bound(two, 0, 8);
		ck_assert_int_eq(mw_invalidate(p.qb, rkey), 0);
		bound(two, 0, 8);
		return rkey;
	}
	return 0;
}

/* IBA 9.7.4: neither side may believe that it was taken back. */
START_TEST(send_with_a_key_that_cant_be_invalidated)
{
	struct qp_options options = {.type = IBV_QPT_RC, .cap = {.max_send_wr = 4}};
	struct mw *one, *two;
	struct qp *third, *fourth;
	struct ibv_wc wc;
	uint32_t rkey, bound_before;

	begin(IBV_QPT_RC, NULL, 1);
	third = world_qp(p.a, &options);
	fourth = world_qp(p.b, &options);
	world_connect(p.a, third, p.b, fourth, &world_connection);
	one = make_mw(IBV_MW_TYPE_1);
	two = make_mw(IBV_MW_TYPE_2);
	rkey = bad_key(_i, one, two, fourth);
	bound_before = region->windows;
	pair_receive(&p, 4096, 10);
	pair_receive(&p, 4096, 11);
	send_invalidating(rkey, 2000, 12);
	reach(IBV_WR_RDMA_WRITE, p.rb->ibv.rkey, (uintptr_t)p.mb, 8, 13);
	world_expect(p.a, 12, IBV_WC_REM_ACCESS_ERR);
	world_expect(p.a, 13, IBV_WC_WR_FLUSH_ERR);
	wc = world_completion(p.b, SECOND);
	ck_assert_uint_eq(wc.wr_id, 10);
	ck_assert_int_ne(wc.status, IBV_WC_SUCCESS);
	ck_assert_int_ne(wc.status, IBV_WC_WR_FLUSH_ERR);
	world_expect(p.b, 11, IBV_WC_WR_FLUSH_ERR);
	ck_assert_int_eq(p.qb->state, IBV_QPS_ERR);
	ck_assert_uint_eq(region->windows, bound_before);
	ck_assert_int_eq(fourth->state, IBV_QPS_RTS);
	ck_assert_int_eq(qp_destroy(third), 0);
	ck_assert_int_eq(qp_destroy(fourth), 0);
	mw_dealloc(one);
	mw_dealloc(two);
	end();
}
END_TEST

START_TEST(local_invalidate)
{
	struct mw *mw;
	uint32_t rkey;

	begin(IBV_QPT_RC, NULL, 1);
	mw = make_mw(IBV_MW_TYPE_2);
	rkey = bound(mw, 0, 8);
	reach(IBV_WR_RDMA_WRITE, rkey, (uintptr_t)p.mb, 8, 1);
	world_expect(p.a, 1, IBV_WC_SUCCESS);
	post(p.qb, invalidate_wr(rkey, 2));
	world_expect(p.b, 2, IBV_WC_SUCCESS);
	check_refused(IBV_WR_RDMA_WRITE, rkey, (uintptr_t)p.mb, 8);
	mw_dealloc(mw);
	end();
}
END_TEST

START_TEST(local_invalidate_of_what_cant_be)
{
	struct qp_options options = {.type = IBV_QPT_RC, .cap = {.max_send_wr = 4}};
	struct mw *one, *two;
	struct qp *other;
	uint32_t rkey;

	begin(IBV_QPT_RC, NULL, 1);
	other = world_qp(p.b, &options);
	world_modify_init(other, &world_connection);
	world_modify_rtr(other, p.b, p.a, 12345, &world_connection);
	world_modify_rts(other, &world_connection);
	one = make_mw(IBV_MW_TYPE_1);
	two = make_mw(IBV_MW_TYPE_2);
	rkey = bad_key(_i, one, two, other);
	post(p.qb, invalidate_wr(rkey, 1));
	post(p.qb, invalidate_wr(rkey, 2));
	world_expect(p.b, 1, IBV_WC_MW_BIND_ERR);
	world_expect(p.b, 2, IBV_WC_WR_FLUSH_ERR);
	ck_assert_int_eq(p.qb->state, IBV_QPS_ERR);
	ck_assert_int_eq(qp_destroy(other), 0);
	mw_dealloc(one);
	mw_dealloc(two);
	end();
}
END_TEST

/* A READ that is being answered ends where the window does. */
START_TEST(taken_back_during_a_read)
{
	struct mw *mw;
	uint32_t rkey;
	int ways = _i;

	begin(IBV_QPT_RC, NULL, 1);
	mw = make_mw(ways == 0 ? IBV_MW_TYPE_2 : IBV_MW_TYPE_1);
	rkey = bound(mw, 0, PAIR_MEMORY);
	reach(IBV_WR_RDMA_READ, rkey, (uintptr_t)p.mb, PAIR_MEMORY, 1);
	/* Until the first answers are under way. */
	while (p.a->hca->counters->rcvd_pkts < 70)
		ck_assert(world_step(&p.world));
	if (ways == 0)
		post(p.qb, invalidate_wr(rkey, 2));
	else if (ways == 1)
		post(p.qb, bind_wr(mw, ibv_inc_rkey(rkey), 0, 0, 0, 2));
	else
		mw_dealloc(mw);
	if (ways < 2)
		world_expect(p.b, 2, IBV_WC_SUCCESS);
	ck_assert_int_eq(mr_deregister(region), 0);
	world_expect(p.a, 1, IBV_WC_REM_ACCESS_ERR);
	ck_assert_int_eq(p.qb->state, IBV_QPS_ERR);
	if (ways < 2)
		mw_dealloc(mw);
	region = world_mr(p.b, p.mb, 1, 0);
	end();
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("mw");
	const int bad = LAST_BAD + 1, type_1 = IBV_MW_TYPE_1, types = IBV_MW_TYPE_2 + 1;

	tcase_add_loop_test(tcase, everything_through_a_window, type_1, types);
	tcase_add_test(tcase, everything_through_a_zero_based_window);
	tcase_add_test(tcase, refused_by_a_window);
	tcase_add_loop_test(tcase, refused_to_another_qp, type_1, types);
	tcase_add_test(tcase, no_local_key);
	tcase_add_test(tcase, send_with_invalidate);
	tcase_add_loop_test(tcase, send_with_a_key_that_cant_be_invalidated, 0, bad);
	tcase_add_test(tcase, local_invalidate);
	tcase_add_loop_test(tcase, local_invalidate_of_what_cant_be, 0, bad);
	tcase_add_loop_test(tcase, taken_back_during_a_read, 0, 3);
	return world_main("mw", (TCase *const[]){tcase, NULL});
}
