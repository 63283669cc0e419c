/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The table of work requests against the opcode table of the wire: what one says the other keeps.
 */
#include <check.h>

#include "emu/transport/request_kind.h"
#include "net/newer_verbs.h"
#include "net/wire/wire.h"
#include "tests/run_suite.h"

#define OPCODES 32 /* more than verbs.h has */
#define LAST_TYPE 0xff

/* The next supported type after @type, or NULL: from -1 on, all. */
static const struct qp_type *next_type(int *type)
{
	const struct qp_type *found = NULL;

	while (!found && ++*type <= LAST_TYPE)
		found = qp_type_find(*type);
	return found;
}

START_TEST(opcodes_that_exist)
{
	const unsigned int lacking = 1 << IBV_WR_TSO | 1 << IBV_WR_DRIVER1;

	ck_assert_ptr_null(request_kind_find(-1));
	for (unsigned int i = 0; i < OPCODES; i++) {
		const struct request_kind *kind = request_kind_find(i);

		/* 12 and 13 were never given out. */
		ck_assert_msg((kind != NULL) == (i < 12 || i == 14 || i == 15), "opcode %u", i);
		if (!kind)
			continue;
		ck_assert_msg((kind->types == 0) == (lacking >> i & 1), "%s", kind->name);
		if (!kind->types)
			ck_assert_uint_eq(kind->send_ops_flag, 0);
		for (unsigned int j = 0; j < i; j++)
			if (request_kind_find(j))
				ck_assert_str_ne(request_kind_find(j)->name, kind->name);
	}
}
END_TEST

static const struct opcode *check_packet(const struct request_kind *kind,
					 const struct qp_type *type, uint8_t operation,
					 int position)
{
	const struct opcode *op = opcode_find(type->transport | operation);

	ck_assert_msg(op != NULL, "%s lacks operation %#x", kind->name, operation);
	ck_assert_msg(op->flags & OPCODE_REQUEST, "%s", op->name);
	ck_assert_msg((op->flags & (OPCODE_FIRST | OPCODE_LAST)) == position, "%s as part of %s",
		      op->name, kind->name);
	return op;
}

/* Whether a request may be several packets. */
static bool is_divisible(const struct request_kind *kind, const struct qp_type *type)
{
	return kind->data == DATA_SENT && type->connected && !(kind->flags & REQUEST_EXACT);
}

/* What the last packet of a request has, and nothing but that. */
static void check_last(const struct request_kind *kind, const struct opcode *op)
{
	bool immediate = strstr(kind->name, "WITH_IMM");

	ck_assert_msg(!op->ieth == !(kind->flags & REQUEST_INVALIDATE), "%s", op->name);
	ck_assert_msg(!op->immdt == !immediate, "%s", op->name);
	ck_assert_msg((op->payload != PAYLOAD_NONE) == (kind->data == DATA_SENT), "%s", op->name);
	ck_assert_msg((op->payload == PAYLOAD_ATOMIC) == !!(kind->flags & REQUEST_EXACT), "%s",
		      op->name);
	ck_assert_msg(!op->feth == !(kind->flags & REQUEST_FLUSH), "%s", op->name);
}

START_TEST(packets_exist_and_carry_what_is_needed)
{
	for (unsigned int i = 0; i < OPCODES; i++) {
		const struct request_kind *kind = request_kind_find(i);
		const struct qp_type *type;

		if (!kind)
			continue;
		for (int t = -1; (type = next_type(&t));) {
			const struct opcode *op;

			if (!qp_type_in(kind->types, type) || kind->flags & REQUEST_LOCAL)
				continue;
			op = check_packet(kind, type, kind->only, OPCODE_FIRST | OPCODE_LAST);
			check_last(kind, op);
			/* IBA 9.3.3 and 9.3.4: remote memory is named where a message begins. */
			ck_assert_int_eq(op->reth || op->atomiceth,
					 !!(kind->flags & REQUEST_REMOTE));
			ck_assert_int_eq(op->deth != 0, !type->connected);
			if (!is_divisible(kind, type))
				continue;
			op = check_packet(kind, type, kind->first, OPCODE_FIRST);
			ck_assert_int_eq(op->reth != 0, !!(kind->flags & REQUEST_REMOTE));
			check_packet(kind, type, kind->middle, 0);
			check_last(kind, check_packet(kind, type, kind->last, OPCODE_LAST));
		}
	}
}
END_TEST

START_TEST(responses_exist)
{
	for (unsigned int i = 0; i < OPCODES; i++) {
		const struct request_kind *kind = request_kind_find(i);
		unsigned int answers = 0;

		if (!kind)
			continue;
		for (unsigned int opcode = 0; opcode < 256; opcode++) {
			const struct opcode *op = opcode_find(opcode);

			if (op && op->flags & OPCODE_RESPONSE && op->flags & kind->response)
				answers++;
		}
		ck_assert_msg(!answers == !kind->response, "%s", kind->name);
		/* Annex A19: FLUSH and ATOMIC WRITE are answered as a READ of nothing is. */
		ck_assert_msg(!kind->response ==
				      (kind->data != DATA_READ && kind->data != DATA_ORIGINAL &&
				       !(kind->flags & (REQUEST_FLUSH | REQUEST_EXACT))),
			      "%s", kind->name);
		/* A response needs a transport that has responses. */
		if (kind->response)
			ck_assert_uint_eq(kind->types, QP_RC | QP_XRC_SEND);
	}
}
END_TEST

START_TEST(local_requests_have_no_packets)
{
	for (unsigned int i = 0; i < OPCODES; i++) {
		const struct request_kind *kind = request_kind_find(i);
		bool local = i == IBV_WR_LOCAL_INV || i == IBV_WR_BIND_MW;

		if (!kind || !kind->types)
			continue;
		ck_assert_int_eq(!!(kind->flags & REQUEST_LOCAL), local);
		if (local) {
			ck_assert(!kind->first && !kind->middle && !kind->last && !kind->only);
			ck_assert_int_eq(kind->data, DATA_NONE);
			ck_assert_uint_eq(kind->response, 0);
		}
	}
}
END_TEST

/* The other way round: no request of the opcode table is without a work request that sends it. */
START_TEST(every_request_packet_is_sent)
{
	bool sent[256] = {false};

	for (unsigned int i = 0; i < OPCODES; i++) {
		const struct request_kind *kind = request_kind_find(i);
		const struct qp_type *type;

		for (int t = -1; kind && (type = next_type(&t));) {
			if (!qp_type_in(kind->types, type) || kind->flags & REQUEST_LOCAL)
				continue;
			sent[type->transport | kind->only] = true;
			if (!is_divisible(kind, type))
				continue;
			sent[type->transport | kind->first] = true;
			sent[type->transport | kind->middle] = true;
			sent[type->transport | kind->last] = true;
		}
	}
	for (unsigned int opcode = 0; opcode < 256; opcode++) {
		const struct opcode *op = opcode_find(opcode);

		ck_assert_msg(sent[opcode] == (op && op->flags & OPCODE_REQUEST), "opcode %#x",
			      opcode);
	}
}
END_TEST

/* IBA table 38 and 11.4.1.1, as verbs.h names the operations. */
START_TEST(operations_by_type)
{
	const uint64_t ud = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
	const uint64_t uc = ud | IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
			    IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV;
	const uint64_t rc = uc | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
			    IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_SEND_WITH_INV |
			    IBV_QP_EX_WITH_ATOMIC_WRITE | QP_EX_WITH_FLUSH;

	ck_assert_uint_eq(request_kind_send_ops(qp_type_find(IBV_QPT_UD), 0), ud);
	ck_assert_uint_eq(request_kind_send_ops(qp_type_find(IBV_QPT_UC), 0), uc);
	ck_assert_uint_eq(request_kind_send_ops(qp_type_find(IBV_QPT_RC), 0), rc);
	ck_assert_uint_eq(request_kind_send_ops(qp_type_find(IBV_QPT_XRC_SEND), 0), rc);
	ck_assert_uint_eq(request_kind_send_ops(qp_type_find(IBV_QPT_XRC_RECV), 0), 0);
}
END_TEST

START_TEST(completions)
{
	static const enum ibv_wc_opcode expected[] = {
		[IBV_WR_RDMA_WRITE] = IBV_WC_RDMA_WRITE,
		[IBV_WR_RDMA_WRITE_WITH_IMM] = IBV_WC_RDMA_WRITE,
		[IBV_WR_SEND] = IBV_WC_SEND,
		[IBV_WR_SEND_WITH_IMM] = IBV_WC_SEND,
		[IBV_WR_RDMA_READ] = IBV_WC_RDMA_READ,
		[IBV_WR_ATOMIC_CMP_AND_SWP] = IBV_WC_COMP_SWAP,
		[IBV_WR_ATOMIC_FETCH_AND_ADD] = IBV_WC_FETCH_ADD,
		[IBV_WR_LOCAL_INV] = IBV_WC_LOCAL_INV,
		[IBV_WR_BIND_MW] = IBV_WC_BIND_MW,
		[IBV_WR_SEND_WITH_INV] = IBV_WC_SEND,
	};

	for (unsigned int i = 0; i < sizeof(expected) / sizeof(expected[0]); i++)
		ck_assert_int_eq(request_kind_find(i)->completion, expected[i]);
	ck_assert_int_eq(request_kind_find(WR_FLUSH)->completion, WC_FLUSH);
	ck_assert_int_eq(request_kind_find(IBV_WR_ATOMIC_WRITE)->completion, IBV_WC_ATOMIC_WRITE);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("request_kind");
	TCase *tests = tcase_create("request_kind");

	tcase_add_test(tests, opcodes_that_exist);
	tcase_add_test(tests, packets_exist_and_carry_what_is_needed);
	tcase_add_test(tests, responses_exist);
	tcase_add_test(tests, local_requests_have_no_packets);
	tcase_add_test(tests, every_request_packet_is_sent);
	tcase_add_test(tests, operations_by_type);
	tcase_add_test(tests, completions);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
