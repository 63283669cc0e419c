/* SPDX-License-Identifier: BSD-2-Clause */
/* What the fault filter does to frames that are received (net/fault/fault_receive.c). */
#include "fault_network.h"
#include "tests/run_suite.h"

START_TEST(frames_are_dropped_duplicated_and_corrupted)
{
	network("drop#2@rx;dup#3@rx;dup#5@rx;corrupt#6@rx");
	send_numbers(b, 1, 7);
	/* The copy of 3 takes the place of 2; that of 5 waits for the end of the batch. */
	ck_assert_str_eq(received(a, 10), "1 3 3 4 5 ! 7 5");
	send_numbers(a, 1, 3);
	ck_assert_str_eq(received(b, 10), "1 2 3");
}
END_TEST

START_TEST(a_small_array_loses_nothing)
{
	network("dup=100%@rx");
	send_numbers(b, 1, 3);
	ck_assert_str_eq(received(a, 1), "1 1 2 2 3 3");
}
END_TEST

START_TEST(what_is_dropped_leaves_space)
{
	struct link_frame frames[2];

	network("drop#1@rx");
	send_numbers(b, 1, 3);
	ck_assert_uint_eq(a->ops->receive(a, frames, 2, 0), 1);
	ck_assert(a->more);
	ck_assert_uint_eq(a->ops->receive(a, frames, 2, 0), 1);
	ck_assert(!a->more);
}
END_TEST

START_TEST(surplus_is_announced)
{
	struct link_frame frame;

	network("dup#1@rx");
	send_numbers(b, 1, 1);
	ck_assert_uint_eq(a->ops->receive(a, &frame, 1, 0), 1);
	ck_assert_uint_eq(a->ops->deadline(a), 0);
	ck_assert_uint_eq(a->ops->receive(a, &frame, 1, 0), 1);
	ck_assert_uint_eq(a->ops->deadline(a), TIME_NEVER);
	ck_assert_uint_eq(a->ops->receive(a, &frame, 1, 0), 0);
}
END_TEST

START_TEST(frames_are_delayed_and_reordered)
{
	network("delay(1ms)#1@rx;reorder#3@rx;reorder#6@rx");
	send_numbers(b, 1, 5);
	ck_assert_str_eq(received(a, 10), "2 4 3 5");
	ck_assert_uint_eq(a->ops->deadline(a), 1000000);
	send_numbers(b, 6, 6);
	ck_assert_str_eq(received(a, 10), "");
	sim_advance(sim, 1000000);
	ck_assert_str_eq(received(a, 10), "1 6");
	ck_assert_uint_eq(a->ops->deadline(a), TIME_NEVER);
}
END_TEST

/* An inner link whose every frame is the same. */
static struct giving_link {
	struct link link;
	struct link_frame frame;
} giving;

static unsigned int giving_receive(struct link *link, struct link_frame *frames, unsigned int max,
				   uint64_t now)
{
	frames[0] = ((struct giving_link *)link)->frame;
	return 1;
}

static void giving_close(struct link *link)
{
}

static struct link *filter_of(const struct link_frame *frame, const char *faults)
{
	static const struct link_ops ops = {.receive = giving_receive, .close = giving_close};
	struct link *link;

	giving = (struct giving_link){.link = {.ops = &ops}, .frame = *frame};
	ck_assert_int_eq(fault_link_create(&giving.link, faults, &link, NULL), 0);
	return link;
}

/* By shared memory there is no ICRC: what is corrupted is to be looked at all the same. */
START_TEST(corrupted_frames_are_not_trusted)
{
	static const uint8_t bytes[HEADERS + PAYLOAD + ICRC_LENGTH];
	const struct link_frame sent = {
		.data = bytes, .length = sizeof(bytes), .trusted = true, .shared = true};
	struct link *link = filter_of(&sent, "corrupt#1@rx");
	struct link_frame frame;

	ck_assert_uint_eq(link->ops->receive(link, &frame, 1, 0), 1);
	ck_assert(!frame.trusted);
	ck_assert_mem_ne(frame.data, bytes, sizeof(bytes));
	ck_assert_uint_eq(link->ops->receive(link, &frame, 1, 0), 1);
	ck_assert(frame.trusted);
	link->ops->close(link);
}
END_TEST

/* Which it is differs from frame to frame. */
START_TEST(any_covered_bit_is_corrupted)
{
	static const uint8_t bytes[HEADERS + PAYLOAD + ICRC_LENGTH];
	const struct link_frame sent = {.data = bytes, .length = sizeof(bytes)};
	struct link *link = filter_of(&sent, "corrupt=100%@rx");
	uint8_t corrupted[sizeof(bytes)] = {};
	struct link_frame frame;

	for (unsigned int i = 0; i < 100 * 8 * sizeof(bytes); i++) {
		ck_assert_uint_eq(link->ops->receive(link, &frame, 1, 0), 1);
		for (unsigned int k = 0; k < sizeof(bytes); k++)
			corrupted[k] |= frame.data[k];
	}
	for (unsigned int k = 0; k < sizeof(bytes); k++)
		ck_assert_uint_eq(corrupted[k], k == 4 /* the BTH's reserved byte */ ? 0 : 0xff);
	link->ops->close(link);
}
END_TEST

/* What processes of this machine tell each other is on no wire. */
START_TEST(messages_of_processes_pass)
{
	struct link *link = filter_of(&(struct link_frame){.message = true}, "drop=100%@rx");
	struct link_frame frame;

	ck_assert_uint_eq(link->ops->receive(link, &frame, 1, 0), 1);
	ck_assert(frame.message);
	link->ops->close(link);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("fault_receive");
	TCase *tests = tcase_create("fault_receive");

	tcase_add_checked_fixture(tests, NULL, finish);
	tcase_add_test(tests, frames_are_dropped_duplicated_and_corrupted);
	tcase_add_test(tests, a_small_array_loses_nothing);
	tcase_add_test(tests, what_is_dropped_leaves_space);
	tcase_add_test(tests, surplus_is_announced);
	tcase_add_test(tests, frames_are_delayed_and_reordered);
	tcase_add_test(tests, corrupted_frames_are_not_trusted);
	tcase_add_test(tests, any_covered_bit_is_corrupted);
	tcase_add_test(tests, messages_of_processes_pass);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
