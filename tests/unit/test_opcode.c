/* SPDX-License-Identifier: BSD-2-Clause */
/* The opcode table against header lengths known from elsewhere, and packet_parse() on bad bytes. */
#include <check.h>

#include "net/wire/wire.h"
#include "tests/run_suite.h"

static const struct {
	uint8_t opcode;
	const char *name;
	uint8_t headers_length;
	uint8_t payload;
} expected[] = {
	{0x00, "RC_SEND_FIRST", 12, PAYLOAD_FULL},
	{0x01, "RC_SEND_MIDDLE", 12, PAYLOAD_FULL},
	{0x02, "RC_SEND_LAST", 12, PAYLOAD_SOME},
	{0x03, "RC_SEND_LAST_IMM", 16, PAYLOAD_SOME},
	{0x04, "RC_SEND_ONLY", 12, PAYLOAD_UPTO},
	{0x05, "RC_SEND_ONLY_IMM", 16, PAYLOAD_UPTO},
	{0x06, "RC_RDMA_WRITE_FIRST", 28, PAYLOAD_FULL},
	{0x07, "RC_RDMA_WRITE_MIDDLE", 12, PAYLOAD_FULL},
	{0x08, "RC_RDMA_WRITE_LAST", 12, PAYLOAD_SOME},
	{0x09, "RC_RDMA_WRITE_LAST_IMM", 16, PAYLOAD_SOME},
	{0x0a, "RC_RDMA_WRITE_ONLY", 28, PAYLOAD_UPTO},
	{0x0b, "RC_RDMA_WRITE_ONLY_IMM", 32, PAYLOAD_UPTO},
	{0x0c, "RC_RDMA_READ_REQUEST", 28, PAYLOAD_NONE},
	{0x0d, "RC_RDMA_READ_RESPONSE_FIRST", 16, PAYLOAD_FULL},
	{0x0e, "RC_RDMA_READ_RESPONSE_MIDDLE", 12, PAYLOAD_FULL},
	{0x0f, "RC_RDMA_READ_RESPONSE_LAST", 16, PAYLOAD_SOME},
	{0x10, "RC_RDMA_READ_RESPONSE_ONLY", 16, PAYLOAD_UPTO},
	{0x11, "RC_ACKNOWLEDGE", 16, PAYLOAD_NONE},
	{0x12, "RC_ATOMIC_ACKNOWLEDGE", 24, PAYLOAD_NONE},
	{0x13, "RC_COMPARE_SWAP", 40, PAYLOAD_NONE},
	{0x14, "RC_FETCH_ADD", 40, PAYLOAD_NONE},
	{0x16, "RC_SEND_LAST_INVALIDATE", 16, PAYLOAD_SOME},
	{0x17, "RC_SEND_ONLY_INVALIDATE", 16, PAYLOAD_UPTO},
	{0x1c, "RC_FLUSH", 32, PAYLOAD_NONE},
	{0x1d, "RC_ATOMIC_WRITE", 28, PAYLOAD_ATOMIC},
	{0x20, "UC_SEND_FIRST", 12, PAYLOAD_FULL},
	{0x21, "UC_SEND_MIDDLE", 12, PAYLOAD_FULL},
	{0x22, "UC_SEND_LAST", 12, PAYLOAD_SOME},
	{0x23, "UC_SEND_LAST_IMM", 16, PAYLOAD_SOME},
	{0x24, "UC_SEND_ONLY", 12, PAYLOAD_UPTO},
	{0x25, "UC_SEND_ONLY_IMM", 16, PAYLOAD_UPTO},
	{0x26, "UC_RDMA_WRITE_FIRST", 28, PAYLOAD_FULL},
	{0x27, "UC_RDMA_WRITE_MIDDLE", 12, PAYLOAD_FULL},
	{0x28, "UC_RDMA_WRITE_LAST", 12, PAYLOAD_SOME},
	{0x29, "UC_RDMA_WRITE_LAST_IMM", 16, PAYLOAD_SOME},
	{0x2a, "UC_RDMA_WRITE_ONLY", 28, PAYLOAD_UPTO},
	{0x2b, "UC_RDMA_WRITE_ONLY_IMM", 32, PAYLOAD_UPTO},
	{0x64, "UD_SEND_ONLY", 20, PAYLOAD_UPTO},
	{0x65, "UD_SEND_ONLY_IMM", 24, PAYLOAD_UPTO},
	{0x81, "CNP", 28, PAYLOAD_NONE},
	{0xa0, "XRC_SEND_FIRST", 16, PAYLOAD_FULL},
	{0xa1, "XRC_SEND_MIDDLE", 16, PAYLOAD_FULL},
	{0xa2, "XRC_SEND_LAST", 16, PAYLOAD_SOME},
	{0xa3, "XRC_SEND_LAST_IMM", 20, PAYLOAD_SOME},
	{0xa4, "XRC_SEND_ONLY", 16, PAYLOAD_UPTO},
	{0xa5, "XRC_SEND_ONLY_IMM", 20, PAYLOAD_UPTO},
	{0xa6, "XRC_RDMA_WRITE_FIRST", 32, PAYLOAD_FULL},
	{0xa7, "XRC_RDMA_WRITE_MIDDLE", 16, PAYLOAD_FULL},
	{0xa8, "XRC_RDMA_WRITE_LAST", 16, PAYLOAD_SOME},
	{0xa9, "XRC_RDMA_WRITE_LAST_IMM", 20, PAYLOAD_SOME},
	{0xaa, "XRC_RDMA_WRITE_ONLY", 32, PAYLOAD_UPTO},
	{0xab, "XRC_RDMA_WRITE_ONLY_IMM", 36, PAYLOAD_UPTO},
	{0xac, "XRC_RDMA_READ_REQUEST", 32, PAYLOAD_NONE},
	{0xad, "XRC_RDMA_READ_RESPONSE_FIRST", 16, PAYLOAD_FULL},
	{0xae, "XRC_RDMA_READ_RESPONSE_MIDDLE", 12, PAYLOAD_FULL},
	{0xaf, "XRC_RDMA_READ_RESPONSE_LAST", 16, PAYLOAD_SOME},
	{0xb0, "XRC_RDMA_READ_RESPONSE_ONLY", 16, PAYLOAD_UPTO},
	{0xb1, "XRC_ACKNOWLEDGE", 16, PAYLOAD_NONE},
	{0xb2, "XRC_ATOMIC_ACKNOWLEDGE", 24, PAYLOAD_NONE},
	{0xb3, "XRC_COMPARE_SWAP", 44, PAYLOAD_NONE},
	{0xb4, "XRC_FETCH_ADD", 44, PAYLOAD_NONE},
	{0xb6, "XRC_SEND_LAST_INVALIDATE", 20, PAYLOAD_SOME},
	{0xb7, "XRC_SEND_ONLY_INVALIDATE", 20, PAYLOAD_UPTO},
	{0xbc, "XRC_FLUSH", 36, PAYLOAD_NONE},
	{0xbd, "XRC_ATOMIC_WRITE", 32, PAYLOAD_ATOMIC},
};

START_TEST(table_has_these_rows_and_no_others)
{
	unsigned int found = 0;

	for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
		const struct opcode *op = opcode_find(expected[i].opcode);

		ck_assert_ptr_nonnull(op);
		ck_assert_str_eq(op->name, expected[i].name);
		ck_assert_uint_eq(op->headers_length, expected[i].headers_length);
		ck_assert_uint_eq(op->payload, expected[i].payload);
	}
	for (unsigned int opcode = 0; opcode < 256; opcode++)
		found += opcode_find(opcode) != NULL;
	ck_assert_uint_eq(found, sizeof(expected) / sizeof(expected[0]));
}
END_TEST

/* IBA Annex A14: behind the BTH of every request of XRC, and nowhere else. */
START_TEST(xrceth_in_requests_of_xrc)
{
	for (unsigned int opcode = 0; opcode < 256; opcode++) {
		const struct opcode *op = opcode_find(opcode);
		bool xrc = (opcode & WIRE_TRANSPORT_MASK) == WIRE_XRC;

		if (op)
			ck_assert_msg(op->xrceth == (xrc && op->flags & OPCODE_REQUEST
							     ? sizeof(struct bth)
							     : 0),
				      "%s", op->name);
	}
}
END_TEST

START_TEST(flags_agree_with_headers)
{
	for (unsigned int opcode = 0; opcode < 256; opcode++) {
		const struct opcode *op = opcode_find(opcode);

		if (!op || opcode == WIRE_OPCODE_CNP)
			continue;
		ck_assert(!(op->flags & OPCODE_REQUEST) != !(op->flags & OPCODE_RESPONSE));
		ck_assert(!(op->flags & OPCODE_IMMEDIATE) == !op->immdt);
		ck_assert(!(op->flags & OPCODE_INVALIDATE) == !op->ieth);
		if (op->flags & OPCODE_WRITE)
			ck_assert(!(op->flags & OPCODE_FIRST) == !op->reth);
		/* Only packets in the middle are always full. */
		ck_assert((op->payload == PAYLOAD_FULL) == !(op->flags & OPCODE_LAST));
		/* RESPONSE_FIRST, LAST and ONLY have an AETH; MIDDLE has none. */
		if (op->flags & OPCODE_RESPONSE)
			ck_assert((op->aeth != 0) ==
				  ((op->flags & (OPCODE_FIRST | OPCODE_LAST)) != 0));
	}
}
END_TEST

/* Computed without urxe. */
START_TEST(parse_xrc)
{
	static const uint8_t bytes[] = {0xa5, 0x00, 0xff, 0xff, 0x00, 0x00, 0x00, 0x11, 0x80, 0x00,
					0x00, 0x01, 0x00, 0x00, 0x00, 0x05, 0x00, 0x00, 0x00, 0x01,
					'd',  'a',  't',  'a',	0x61, 0x27, 0xd7, 0xdd};
	struct packet p;

	ck_assert_int_eq(packet_parse(&p, bytes, sizeof(bytes)), 0);
	ck_assert_str_eq(p.op->name, "XRC_SEND_ONLY_IMM");
	ck_assert_uint_eq(packet_xrc_srq(&p), 5);
	ck_assert_uint_eq(be32toh(packet_immediate(&p)), 1);
	ck_assert_uint_eq(p.payload_length, 4);
	ck_assert_mem_eq(p.payload, "data", 4);
}
END_TEST

static const uint8_t write_only_imm[] = {
	/* BTH: SE, pad 3, dest 0x11, AckReq, PSN 0xb */
	0x0b, 0xb0, 0xff, 0xff, 0x00, 0x00, 0x00, 0x11, 0x80, 0x00, 0x00, 0x0b,
	/* RETH */
	0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0xaa, 0xbb, 0xcc, 0xdd, 0x00, 0x00, 0x00,
	0x05,
	/* ImmDt, payload, pad, ICRC */
	0x00, 0x00, 0x00, 0x07, 'h', 'e', 'l', 'l', 'o', 0, 0, 0, 0, 0, 0, 0};

START_TEST(parse_fields)
{
	struct packet p;

	ck_assert_int_eq(packet_parse(&p, write_only_imm, sizeof(write_only_imm)), 0);
	ck_assert_uint_eq(p.opcode, 0x0b);
	ck_assert_uint_eq(p.dest_qp, 0x11);
	ck_assert_uint_eq(p.psn, 0xb);
	ck_assert_uint_eq(p.pkey, 0xffff);
	ck_assert_uint_eq(p.pad, 3);
	ck_assert(p.solicited);
	ck_assert(p.ack_request);
	ck_assert_uint_eq(be64toh(packet_reth(&p)->va), 0x1122334455667788);
	ck_assert_uint_eq(be32toh(packet_reth(&p)->rkey), 0xaabbccdd);
	ck_assert_uint_eq(be32toh(packet_immediate(&p)), 7);
	ck_assert_uint_eq(p.payload_length, 5);
	ck_assert_mem_eq(p.payload, "hello", 5);
}
END_TEST

/* Of Annex A19, S in the vectors of test_icrc.c with other bits of the FETH. */
START_TEST(parse_flush)
{
	static const uint8_t flush[] = {/* BTH */
					0x1c, 0x00, 0xff, 0xff, 0x00, 0x00, 0x00, 0x11, 0x80, 0x00,
					0x00, 0x0c,
					/* FETH: reserved bits set, selectivity 1, placement 3 */
					0xff, 0xff, 0xff, 0xd3,
					/* RETH, ICRC */
					0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x30, 0x00, 0x00, 0x00,
					0x01, 0x04, 0x00, 0x00, 0x00, 0x40, 0, 0, 0, 0};
	struct packet p;

	ck_assert_int_eq(packet_parse(&p, flush, sizeof(flush)), 0);
	ck_assert_str_eq(p.op->name, "RC_FLUSH");
	ck_assert_uint_eq(packet_flush_selectivity(&p), FETH_SELECTIVITY_MR);
	ck_assert_uint_eq(packet_flush_placement(&p),
			  FETH_PLACEMENT_GLOBAL | FETH_PLACEMENT_PERSISTENT);
	ck_assert_uint_eq(be64toh(packet_reth(&p)->va), 0x3000);
	ck_assert_uint_eq(be32toh(packet_reth(&p)->rkey), 0x104);
	ck_assert_uint_eq(be32toh(packet_reth(&p)->length), 0x40);
	ck_assert_uint_eq(p.payload_length, 0);
	for (size_t length = 0; length < sizeof(flush); length++)
		ck_assert_int_eq(packet_parse(&p, flush, length), -1);
}
END_TEST

START_TEST(parse_refuses)
{
	uint8_t bytes[sizeof(write_only_imm)];
	struct packet p;

	/* Without payload, 3 bytes of pad would still have to be there. */
	for (size_t length = 0; length < 32 + 3 + 4; length++)
		ck_assert_int_eq(packet_parse(&p, write_only_imm, length), -1);
	ck_assert_int_eq(packet_parse(&p, write_only_imm, 32 + 3 + 4), 0);
	ck_assert_uint_eq(p.payload_length, 0);

	for (uint8_t version = 1; version < 16; version++) {
		memcpy(bytes, write_only_imm, sizeof(bytes));
		bytes[1] |= version;
		ck_assert_int_eq(packet_parse(&p, bytes, sizeof(bytes)), -1);
	}

	memcpy(bytes, write_only_imm, sizeof(bytes));
	bytes[0] = WIRE_UC | 0x15;
	ck_assert_int_eq(packet_parse(&p, bytes, sizeof(bytes)), -1);

	/* QP 0, also with a reserved bit set. */
	memcpy(bytes, write_only_imm, sizeof(bytes));
	bytes[7] = 0;
	ck_assert_int_eq(packet_parse(&p, bytes, sizeof(bytes)), -1);
	bytes[4] = 0x40;
	ck_assert_int_eq(packet_parse(&p, bytes, sizeof(bytes)), -1);
}
END_TEST

/* What the responder of an RC or XRC queue pair has to refuse by a NAK: all but these opcodes. */
START_TEST(parse_keeps_reserved_opcodes)
{
	const uint8_t transport = _i ? WIRE_XRC : WIRE_RC;
	uint8_t bytes[sizeof(write_only_imm)];
	unsigned int reserved = 0;
	struct packet p;

	memcpy(bytes, write_only_imm, sizeof(bytes));
	for (unsigned int opcode = transport; opcode <= (transport | WIRE_OPERATION_MASK);
	     opcode++) {
		bytes[0] = opcode;
		if (opcode_find(opcode))
			continue;
		ck_assert_int_eq(packet_parse(&p, bytes, sizeof(bytes)), 0);
		ck_assert_uint_eq(p.op->flags, OPCODE_REQUEST | OPCODE_RESERVED);
		ck_assert_uint_eq(p.psn, 0xb);
		reserved++;
	}
	ck_assert_uint_eq(reserved, 7);
}
END_TEST

START_TEST(parse_ignores_reserved_bits)
{
	uint8_t bytes[sizeof(write_only_imm)];
	struct packet p;

	memcpy(bytes, write_only_imm, sizeof(bytes));
	bytes[4] = 0xff;
	bytes[8] = 0x7f;
	ck_assert_int_eq(packet_parse(&p, bytes, sizeof(bytes)), 0);
	ck_assert_uint_eq(p.dest_qp, 0x11);
	ck_assert_uint_eq(p.psn, 0xb);
	ck_assert(!p.ack_request);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("opcode");
	TCase *tests = tcase_create("opcode");

	tcase_add_test(tests, table_has_these_rows_and_no_others);
	tcase_add_test(tests, xrceth_in_requests_of_xrc);
	tcase_add_test(tests, flags_agree_with_headers);
	tcase_add_test(tests, parse_fields);
	tcase_add_test(tests, parse_xrc);
	tcase_add_test(tests, parse_flush);
	tcase_add_test(tests, parse_refuses);
	tcase_add_loop_test(tests, parse_keeps_reserved_opcodes, 0, 2);
	tcase_add_test(tests, parse_ignores_reserved_bits);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
