/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of QP types, and that the tables which depend on it agree. */
#include <check.h>

#include "emu/objects/qp_state.h"
#include "emu/objects/qp_type.h"
#include "net/wire/wire.h"
#include "tests/run_suite.h"

#define LAST_TYPE 0xff /* IBV_QPT_DRIVER */

START_TEST(types_that_exist)
{
	for (int i = -1; i <= LAST_TYPE + 1; i++) {
		const struct qp_type *type = qp_type_find(i);
		bool exists = i == IBV_QPT_RC || i == IBV_QPT_UC || i == IBV_QPT_UD ||
			      i == IBV_QPT_XRC_SEND || i == IBV_QPT_XRC_RECV;

		ck_assert_msg((type != NULL) == exists, "type %d", i);
		if (type)
			ck_assert_int_eq(type->ibv, i);
	}
}
END_TEST

/* IBA 9.1 and 10.2.9; 10.3.1.6: only what isn't reliable knows SQE. */
START_TEST(what_they_promise)
{
	const struct qp_type *rc = qp_type_find(IBV_QPT_RC), *uc = qp_type_find(IBV_QPT_UC),
			     *ud = qp_type_find(IBV_QPT_UD);

	ck_assert(rc->reliable && rc->connected && rc->srq);
	ck_assert(!uc->reliable && uc->connected && !uc->srq);
	ck_assert(!ud->reliable && !ud->connected && ud->srq);
	ck_assert(!rc->xrcd && !uc->xrcd && !ud->xrcd);
	ck_assert_int_eq(rc->state_on_error, IBV_QPS_ERR);
	ck_assert_int_eq(uc->state_on_error, IBV_QPS_SQE);
	ck_assert_int_eq(ud->state_on_error, IBV_QPS_SQE);
}
END_TEST

/* Annex A14: reliable as RC is, and each with one of its halves. */
START_TEST(halves_of_xrc)
{
	const struct qp_type *send = qp_type_find(IBV_QPT_XRC_SEND),
			     *receive = qp_type_find(IBV_QPT_XRC_RECV),
			     *rc = qp_type_find(IBV_QPT_RC);

	ck_assert(send->reliable && send->connected && !send->srq && !send->xrcd);
	ck_assert(receive->reliable && receive->connected && !receive->srq && receive->xrcd);
	ck_assert_int_eq(send->state_on_error, IBV_QPS_ERR);
	ck_assert_int_eq(receive->state_on_error, IBV_QPS_ERR);
	ck_assert_uint_eq(send->abilities & receive->abilities, 0);
	ck_assert_uint_eq(send->abilities, QP_POST_SEND | QP_SEND | QP_FINISH_SEND | QP_FLUSH_SEND);
	ck_assert_uint_eq(receive->abilities, QP_RECEIVE);
	ck_assert_int_eq(send->ignored, IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	ck_assert_int_eq(receive->ignored,
			 IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY);
	ck_assert_int_eq(rc->ignored, 0);
	for (int state = 0; state <= IBV_QPS_UNKNOWN; state++)
		ck_assert_uint_eq(qp_state_abilities(state) & ~rc->abilities, 0);
}
END_TEST

START_TEST(each_is_in_its_own_set)
{
	const unsigned int sets[] = {QP_RC, QP_UC, QP_UD, QP_XRC_SEND, QP_XRC_RECV};
	const enum ibv_qp_type types[] = {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD, IBV_QPT_XRC_SEND,
					  IBV_QPT_XRC_RECV};

	for (int i = 0; i < 5; i++) {
		for (int j = 0; j < 5; j++)
			ck_assert_int_eq(qp_type_in(sets[i], qp_type_find(types[j])), i == j);
	}
}
END_TEST

/* Every type of the wire's opcode table, and no type without opcodes. */
START_TEST(transports_have_opcodes)
{
	unsigned int found = 0, known = 0;

	for (int i = 0; i <= LAST_TYPE; i++) {
		const struct qp_type *type = qp_type_find(i);

		if (!type)
			continue;
		found |= 1u << (type->transport >> 5);
		ck_assert_ptr_nonnull(opcode_find(type->transport | WIRE_SEND_ONLY));
		/* Only what is acknowledged has acknowledgements, only datagrams have a DETH. */
		ck_assert(type->reliable == !!opcode_find(type->transport | WIRE_ACKNOWLEDGE));
		ck_assert(type->connected == !opcode_find(type->transport | WIRE_SEND_ONLY)->deth);
	}
	for (unsigned int opcode = 0; opcode < 256; opcode++) {
		const struct opcode *op = opcode_find(opcode);

		if (op && op->flags & OPCODE_REQUEST)
			known |= 1u << (opcode >> 5);
	}
	ck_assert_uint_eq(found, known);
}
END_TEST

START_TEST(all_can_be_reset)
{
	for (int i = 0; i <= LAST_TYPE; i++)
		ck_assert_msg((qp_state_check(i, IBV_QPS_RESET, IBV_QPS_RESET, 0) == 0) ==
				      (qp_type_find(i) != NULL),
			      "type %d", i);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("qp_type");
	TCase *tests = tcase_create("qp_type");

	tcase_add_test(tests, types_that_exist);
	tcase_add_test(tests, what_they_promise);
	tcase_add_test(tests, halves_of_xrc);
	tcase_add_test(tests, each_is_in_its_own_set);
	tcase_add_test(tests, transports_have_opcodes);
	tcase_add_test(tests, all_can_be_reset);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
