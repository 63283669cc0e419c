/* SPDX-License-Identifier: BSD-2-Clause */
/* What the fault filter does to packets that are sent (net/fault/fault_send.c). */
#include "fault_network.h"
#include "net/fault/fault_link.h"
#include "tests/run_suite.h"

START_TEST(nothing_happens_without_rules)
{
	network("");
	send_numbers(a, 1, 5);
	ck_assert_str_eq(received(b, 10), "1 2 3 4 5");
	ck_assert_uint_eq(a->ops->deadline(a), TIME_NEVER);
	ck_assert_uint_eq(a->ops->rcvbuf_space(a, &there, 0x11), UINT32_MAX);
}
END_TEST

START_TEST(the_nth_packet_is_dropped_once)
{
	network("drop#3;drop#5");
	send_numbers(a, 1, 4);
	send_numbers(a, 5, 9);
	ck_assert_str_eq(received(b, 10), "1 2 4 6 7 8 9");
	send_numbers(b, 1, 3);
	ck_assert_str_eq(received(a, 10), "1 2 3");
}
END_TEST

START_TEST(all_packets_from_the_nth_on_are_dropped)
{
	network("drop#3+");
	send_numbers(a, 1, 4);
	send_numbers(a, 5, 9);
	ck_assert_str_eq(received(b, 10), "1 2");
	send_numbers(b, 1, 3);
	ck_assert_str_eq(received(a, 10), "1 2 3");
}
END_TEST

START_TEST(every_nth_packet_is_dropped)
{
	network("drop#3*");
	send_numbers(a, 1, 10);
	ck_assert_str_eq(received(b, 10), "1 2 4 5 7 8 10");
}
END_TEST

/* From it or to it, and no others. */
START_TEST(rules_choose_addresses)
{
	static const struct {
		const char *faults, *to_b, *to_a;
	} cases[] = {
		{"drop#2[10.0.0.1]", "1 3", "1 2 3"},
		{"drop#2[10.0.0.2]", "1 3", "1 2 3"},
		{"drop#2+[10.0.0.2]@rx", "1 2 3", "1"},
		{"drop=100%[10.0.0.3];drop=100%[10.0.0.3]@rx", "1 2 3", "1 2 3"},
	};

	network(cases[_i].faults);
	send_numbers(a, 1, 3);
	ck_assert_str_eq(received(b, 10), cases[_i].to_b);
	send_numbers(b, 1, 3);
	ck_assert_str_eq(received(a, 10), cases[_i].to_a);
}
END_TEST

START_TEST(rules_choose_opcode_and_qp)
{
	network("drop#2/RC_RDMA_WRITE>18");
	send_batch(a, WIRE_RC | WIRE_WRITE_FIRST, 18, 1, 1);
	send_batch(a, WIRE_RC | WIRE_WRITE_LAST, 17, 2, 2);
	send_batch(a, WIRE_UC | WIRE_WRITE_LAST, 18, 3, 3);
	send_batch(a, WIRE_RC | WIRE_SEND_LAST, 18, 4, 4);
	send_batch(a, WIRE_RC | WIRE_WRITE_LAST, 18, 5, 5);
	send_batch(a, WIRE_RC | WIRE_WRITE_LAST, 18, 6, 6);
	ck_assert_str_eq(received(b, 10), "1 2 3 4 6");
}
END_TEST

START_TEST(duplicates_follow_their_originals)
{
	network("dup#2,dup#3");
	send_numbers(a, 1, 4);
	ck_assert_str_eq(received(b, 10), "1 2 2 3 3 4");
}
END_TEST

START_TEST(corruption_hurts_the_wire_and_not_the_payload)
{
	uint8_t bytes[PAYLOAD] = {1}, before[PAYLOAD];
	struct iovec iov[] = {{bytes, 4}, {bytes + 4, 4}};
	struct link_packet packet, packet_before;
	unsigned int i;

	network("corrupt=100%/RC");
	memcpy(before, bytes, sizeof(bytes));
	packet = packet_make(&there, WIRE_RC | WIRE_SEND_ONLY, QPN, iov);
	if (_i) /* more bits than link_packet.corrupt_bit has numbers for */
		packet.headers_length = sizeof(packet.headers);
	packet_before = packet;
	for (i = 0; i < 2000; i++) {
		a->ops->send(a, &packet, 1, 0);
		ck_assert_str_eq(received(b, 1), "!");
		ck_assert_mem_eq(bytes, before, sizeof(bytes));
		ck_assert_mem_eq(packet.headers, packet_before.headers, HEADERS);
		ck_assert_uint_eq(packet.corrupt_bit, 0);
	}
	send_batch(a, WIRE_UC | WIRE_SEND_ONLY, QPN, 2, 2);
	ck_assert_str_eq(received(b, 1), "2");
}
END_TEST

START_TEST(delayed_packets_leave_with_the_next_call)
{
	network("delay(1ms)#1;delay(5us)#3;delay(1ms)#4;dup#4");
	send_numbers(a, 1, 5);
	ck_assert_str_eq(received(b, 10), "2 5");
	ck_assert_uint_eq(a->ops->deadline(a), 5000);
	sim_advance(sim, 4999);
	ck_assert_str_eq(received(a, 10), "");
	ck_assert_str_eq(received(b, 10), "");
	sim_advance(sim, 5000);
	ck_assert_str_eq(received(a, 10), "");
	ck_assert_str_eq(received(b, 10), "3");
	ck_assert_uint_eq(a->ops->deadline(a), 1000000);
	sim_advance(sim, 2000000);
	send_numbers(a, 6, 6);
	ck_assert_str_eq(received(b, 10), "1 4 4 6");
	ck_assert_uint_eq(a->ops->deadline(a), TIME_NEVER);
}
END_TEST

/* Each clause that hits adds its own. */
START_TEST(delays_add_up)
{
	network("delay(1ms)#1;delay(5us)#1");
	send_numbers(a, 1, 1);
	ck_assert_uint_eq(a->ops->deadline(a), 1005000);
}
END_TEST

static unsigned int count_held(const struct held *list)
{
	unsigned int count = 0;

	for (; list; list = list->next)
		count++;
	return count;
}

/* A stream of delayed packets takes no memory but at its beginning. */
START_TEST(memory_of_held_packets_is_used_again)
{
	const struct fault_link *fault;

	network("delay(1ms)=100%;delay(1ms)=100%@rx");
	fault = (const struct fault_link *)a;
	for (unsigned int i = 1; i <= 5; i++) {
		send_numbers(a, 1, 3);
		ck_assert_ptr_null(fault->spare);
		sim_advance(sim, i * 4000000);
		ck_assert_str_eq(received(a, 10), "");
		ck_assert_uint_eq(count_held(fault->spare), 3);
		ck_assert_str_eq(received(b, 10), "1 2 3");
		send_numbers(b, 4, 6);
		ck_assert_str_eq(received(a, 10), "");
		ck_assert_ptr_null(fault->spare);
		sim_advance(sim, i * 4000000 + 2000000);
		ck_assert_str_eq(received(a, 10), "4 5 6");
		ck_assert_uint_eq(count_held(fault->spare), 3);
	}
}
END_TEST

START_TEST(a_packet_is_held_until_one_passes)
{
	network("reorder#1;reorder#4;reorder#5;reorder#7");
	send_numbers(a, 1, 1);
	ck_assert_str_eq(received(b, 10), "");
	send_batch(a, WIRE_RC | WIRE_SEND_ONLY, QPN + 1, 2, 2); /* another flow */
	ck_assert_str_eq(received(b, 10), "2");
	send_numbers(a, 3, 6);
	ck_assert_str_eq(received(b, 10), "3 1 5 4 6");
	send_numbers(a, 7, 7);
	ck_assert_str_eq(received(b, 10), "");
	ck_assert_uint_gt(a->ops->deadline(a), sim_now(sim));
	sim_advance(sim, a->ops->deadline(a));
	ck_assert_str_eq(received(a, 10), "");
	ck_assert_str_eq(received(b, 10), "7");
	ck_assert_uint_eq(a->ops->deadline(a), TIME_NEVER);
}
END_TEST

START_TEST(closing_sends_what_is_held)
{
	network("delay(1s)#1;reorder#2;delay(1s)=100%@rx");
	send_numbers(a, 1, 2);
	send_numbers(b, 3, 3);
	ck_assert_str_eq(received(a, 10), "");
	a->ops->close(a);
	ck_assert_str_eq(received(b, 10), "1 2");
	a = node(1, NULL);
}
END_TEST

START_TEST(batches_larger_than_a_chunk_stay_in_order)
{
	struct link_frame frames[200];
	uint32_t i, number;

	network("drop#65;dup#129");
	send_numbers(a, 1, 200);
	ck_assert_uint_eq(b->ops->receive(b, frames, 200, 0), 200);
	for (i = 0; i < 200; i++) {
		memcpy(&number, frames[i].data + HEADERS, sizeof(number));
		ck_assert_uint_eq(number, i < 64 ? i + 1 : i < 128 ? i + 2 : i + 1);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("fault_send");
	TCase *tests = tcase_create("fault_send");

	tcase_add_checked_fixture(tests, NULL, finish);
	tcase_add_test(tests, every_nth_packet_is_dropped);
	tcase_add_test(tests, nothing_happens_without_rules);
	tcase_add_test(tests, the_nth_packet_is_dropped_once);
	tcase_add_test(tests, rules_choose_opcode_and_qp);
	tcase_add_test(tests, all_packets_from_the_nth_on_are_dropped);
	tcase_add_loop_test(tests, rules_choose_addresses, 0, 4);
	tcase_add_test(tests, duplicates_follow_their_originals);
	tcase_add_loop_test(tests, corruption_hurts_the_wire_and_not_the_payload, 0, 2);
	tcase_add_test(tests, delayed_packets_leave_with_the_next_call);
	tcase_add_test(tests, delays_add_up);
	tcase_add_test(tests, memory_of_held_packets_is_used_again);
	tcase_add_test(tests, a_packet_is_held_until_one_passes);
	tcase_add_test(tests, closing_sends_what_is_held);
	tcase_add_test(tests, batches_larger_than_a_chunk_stay_in_order);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
