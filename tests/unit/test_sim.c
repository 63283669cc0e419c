/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/sim/sim.h"

#include <check.h>
#include <errno.h>

#include "net/wire/icrc.h"
#include "tests/run_suite.h"

#define LATENCY 1000
#define HEADERS 12
#define PAYLOAD 9
#define TRAILER 7 /* pad to 12, then the ICRC */
#define LENGTH (HEADERS + PAYLOAD + TRAILER)

static struct sim *sim;
static struct link *a, *b;
static struct path path;

static union ibv_gid gid(unsigned int host)
{
	union ibv_gid g = {.raw = {[10] = 0xff, 0xff, 10, 0, host >> 8, host}};

	return g;
}

static struct link *node(unsigned int host)
{
	struct link *link = sim_link_create(sim);
	union ibv_gid g = gid(host);

	ck_assert_ptr_nonnull(link);
	ck_assert_int_eq(link->ops->add_address(link, &g, 0), 0);
	return link;
}

static void network(const struct sim_options *options)
{
	sim = sim_create(options);
	ck_assert_ptr_nonnull(sim);
	a = node(1);
	b = node(2);
	path = (struct path){gid(1), gid(2), 0, 0x42, 63};
}

static void teardown(void)
{
	if (sim)
		sim_destroy(sim);
	sim = NULL;
}

/* Send one packet that carries @number in two pieces; the pieces are overwritten afterwards. */
static void send_number(struct link *link, const struct path *to, uint32_t number)
{
	struct bth bth = {.opcode = WIRE_RC | WIRE_SEND_ONLY,
			  .flags = 3 << BTH_PAD_SHIFT,
			  .pkey = htobe16(PKEY_DEFAULT),
			  .dest_qp = htobe32(17),
			  .psn = htobe32(number & PSN_MASK)};
	uint8_t bytes[PAYLOAD] = "....tail";
	struct iovec iov[] = {{bytes, 4}, {bytes + 4, PAYLOAD - 4}};
	struct link_packet packet = {.path = to,
				     .payload = iov,
				     .payload_length = PAYLOAD,
				     .payload_count = 2,
				     .headers_length = HEADERS,
				     .trailer_length = TRAILER};

	memcpy(bytes, &number, 4);
	memcpy(packet.headers, &bth, sizeof(bth));
	link->ops->send(link, &packet, 1, sim_now(sim));
	memset(bytes, 0xee, sizeof(bytes));
}

static unsigned int receive(struct link *link, struct link_frame *frames, unsigned int max)
{
	return link->ops->receive(link, frames, max, sim_now(sim));
}

static uint32_t number_of(const struct link_frame *frame)
{
	uint32_t number;

	ck_assert_uint_eq(frame->length, LENGTH);
	memcpy(&number, frame->data + HEADERS, sizeof(number));
	return number;
}

static struct sim_statistics statistics(void)
{
	struct sim_statistics s;

	sim_statistics(sim, &s);
	return s;
}

static void run_dry(void)
{
	while (sim_next(sim) != TIME_NEVER)
		sim_advance(sim, sim_next(sim));
}

START_TEST(a_packet_arrives_whole_and_on_time)
{
	struct link_frame frame;
	struct packet packet;

	network(&(struct sim_options){.latency = LATENCY});
	sim_advance(sim, 50);
	send_number(a, &path, 7);
	ck_assert_uint_eq(sim_next(sim), 50 + LATENCY);
	sim_advance(sim, 50 + LATENCY - 1);
	ck_assert_uint_eq(receive(b, &frame, 1), 0);
	ck_assert_uint_eq(b->ops->deadline(b), TIME_NEVER);

	sim_advance(sim, 50 + LATENCY);
	ck_assert_uint_eq(sim_next(sim), TIME_NEVER);
	ck_assert_uint_eq(b->ops->deadline(b), 50 + LATENCY);
	ck_assert_uint_eq(receive(a, &frame, 1), 0);
	ck_assert_uint_eq(receive(b, &frame, 1), 1);
	ck_assert_uint_eq(number_of(&frame), 7);
	ck_assert_mem_eq(frame.data + HEADERS + 4, "tail\0\0\0\0", 8);
	ck_assert_mem_eq(&frame.source, &path.source, sizeof(path.source));
	ck_assert_mem_eq(&frame.destination, &path.destination, sizeof(path.source));
	ck_assert_uint_eq(frame.traffic_class, 0x42);
	ck_assert_uint_eq(frame.hop_limit, 63);
	ck_assert_int_eq(frame.ip_id, 0);
	ck_assert(icrc_check(&frame));
	ck_assert_int_eq(packet_parse(&packet, frame.data, frame.length), 0);
	ck_assert_uint_eq(packet.payload_length, PAYLOAD);
	ck_assert_uint_eq(receive(b, &frame, 1), 0);
}
END_TEST

START_TEST(an_ip_identification_can_be_hidden)
{
	struct link_frame frames[8];
	unsigned int i, nonzero = 0;

	network(&(struct sim_options){.hide_ip_id = true});
	for (i = 0; i < 8; i++)
		send_number(a, &path, i);
	ck_assert_uint_eq(receive(b, frames, 8), 8);
	for (i = 0; i < 8; i++) {
		ck_assert_int_eq(frames[i].ip_id, IP_ID_UNKNOWN);
		ck_assert(icrc_check(&frames[i]));
		nonzero += frames[i].ip_id > 0;
	}
	ck_assert_uint_ge(nonzero, 7);
}
END_TEST

START_TEST(order_is_kept_under_jitter)
{
	struct link_frame frame;
	uint32_t next = 0;

	network(&(struct sim_options){.seed = 3, .latency = LATENCY, .jitter = 100 * LATENCY});
	while (next < 500) {
		send_number(a, &path, next++);
		sim_advance(sim, sim_now(sim) + 10);
	}
	run_dry();
	for (next = 0; receive(b, &frame, 1); next++)
		ck_assert_uint_eq(number_of(&frame), next);
	ck_assert_uint_eq(next, 500);
	ck_assert_uint_eq(statistics().reordered, 0);
}
END_TEST

START_TEST(frames_stay_until_the_next_receive)
{
	struct link_frame first[2], second[2];

	network(&(struct sim_options){0});
	send_number(a, &path, 1);
	send_number(a, &path, 2);
	send_number(a, &path, 3);
	ck_assert_uint_eq(receive(b, first, 2), 2);
	send_number(b, &(struct path){gid(2), gid(1)}, 4);
	sim_advance(sim, LATENCY);
	ck_assert_uint_eq(number_of(&first[0]), 1);
	ck_assert_uint_eq(number_of(&first[1]), 2);
	ck_assert_uint_eq(receive(b, second, 2), 1);
	ck_assert_uint_eq(number_of(&second[0]), 3);
}
END_TEST

START_TEST(addresses)
{
	union ibv_gid first = gid(1), more = gid(3);
	struct path to_more = {gid(1), gid(3)}, to_nobody = {gid(1), gid(4)};
	struct link_frame frame;

	network(&(struct sim_options){.latency = LATENCY});
	ck_assert_int_eq(b->ops->add_address(b, &first, 0), EADDRINUSE);
	ck_assert_int_eq(a->ops->add_address(a, &first, 0), 0);
	ck_assert_int_eq(b->ops->add_address(b, &more, 0), 0);
	send_number(a, &to_more, 5);
	send_number(a, &to_nobody, 6);
	run_dry();
	ck_assert_uint_eq(receive(b, &frame, 1), 1);
	ck_assert_uint_eq(number_of(&frame), 5);
	ck_assert_uint_eq(statistics().dropped, 1);
}
END_TEST

START_TEST(closing_a_link_frees_its_addresses)
{
	struct link_frame frame;

	network(&(struct sim_options){.latency = LATENCY});
	send_number(a, &path, 1);
	sim_advance(sim, LATENCY);
	send_number(a, &path, 2); /* one packet in the queue, one on its way */
	b->ops->close(b);
	send_number(a, &path, 3);
	run_dry();
	ck_assert_uint_eq(statistics().dropped, 2);
	b = node(2);
	send_number(a, &path, 4);
	run_dry();
	ck_assert_uint_eq(receive(b, &frame, 1), 1);
	ck_assert_uint_eq(number_of(&frame), 4);
}
END_TEST

START_TEST(a_partition_cuts_both_ways_and_heals)
{
	struct path back = {gid(2), gid(1)};
	struct link_frame frame;
	union ibv_gid second = gid(2);

	network(&(struct sim_options){.latency = LATENCY});
	send_number(a, &path, 1); /* in flight when the cut comes */
	sim_partition(sim, &second, true);
	send_number(a, &path, 2);
	send_number(b, &back, 3);
	run_dry();
	ck_assert_uint_eq(receive(a, &frame, 1), 0);
	ck_assert_uint_eq(receive(b, &frame, 1), 0);
	ck_assert_uint_eq(statistics().dropped, 3);
	sim_partition(sim, &second, false);
	send_number(a, &path, 4);
	send_number(b, &back, 5);
	run_dry();
	ck_assert_uint_eq(receive(a, &frame, 1), 1);
	ck_assert_uint_eq(number_of(&frame), 5);
	ck_assert_uint_eq(receive(b, &frame, 1), 1);
	ck_assert_uint_eq(number_of(&frame), 4);
}
END_TEST

START_TEST(bandwidth_spaces_packets)
{
	unsigned int i;

	network(&(struct sim_options){.latency = LATENCY, .bandwidth = LENGTH});
	for (i = 0; i < 3; i++)
		send_number(a, &path, i);
	for (i = 1; i <= 3; i++) {
		ck_assert_uint_eq(sim_next(sim), LATENCY + i * 1000);
		sim_advance(sim, sim_next(sim));
	}
	ck_assert_uint_eq(sim_next(sim), TIME_NEVER);
}
END_TEST

/* Those that find more than @mark_queue before them, themselves included; if they are capable. */
START_TEST(a_long_queue_marks)
{
	struct path capable, incapable;
	struct link_frame frames[4];

	network(&(struct sim_options){
		.latency = LATENCY, .bandwidth = LENGTH, .mark_queue = 2 * LENGTH});
	capable = incapable = path;
	capable.traffic_class = 0x40 | ECN_ECT0;
	incapable.traffic_class = 0x40;
	for (unsigned int i = 0; i < 4; i++)
		send_number(a, i == 3 ? &incapable : &capable, i);
	run_dry();
	ck_assert_uint_eq(receive(b, frames, 4), 4);
	ck_assert_uint_eq(frames[0].traffic_class, 0x40 | ECN_ECT0);
	ck_assert_uint_eq(frames[1].traffic_class, 0x40 | ECN_ECT0);
	ck_assert_uint_eq(frames[2].traffic_class, 0x40 | ECN_CE);
	ck_assert_uint_eq(frames[3].traffic_class, 0x40);
	ck_assert_uint_eq(statistics().marked, 1);
	ck_assert_uint_eq(statistics().longest_queue, 4 * LENGTH);
}
END_TEST

START_TEST(a_full_queue_drops)
{
	struct link_frame frames[4];
	unsigned int i;

	network(&(struct sim_options){.latency = LATENCY, .receive_queue = 2 * LENGTH + 1});
	ck_assert_uint_eq(a->ops->rcvbuf_space(a, &path, 0x11), 2 * LENGTH + 1);
	send_number(a, &path, 0);
	ck_assert_uint_eq(a->ops->rcvbuf_space(a, &path, 0x11), LENGTH + 1); /* on its way counts */
	sim_advance(sim, LATENCY);
	ck_assert_uint_eq(a->ops->rcvbuf_space(a, &path, 0x11), LENGTH + 1);
	for (i = 1; i < 4; i++)
		send_number(a, &path, i);
	ck_assert_uint_eq(a->ops->rcvbuf_space(a, &path, 0x11), 0);
	run_dry();
	ck_assert_uint_eq(statistics().overflowed, 2);
	ck_assert_uint_eq(receive(b, frames, 4), 2);
	ck_assert_uint_eq(number_of(&frames[1]), 1);
	ck_assert_uint_eq(a->ops->rcvbuf_space(a, &path, 0x11), 2 * LENGTH + 1);

	sim_configure(sim, &(struct sim_options){0});
	ck_assert_uint_eq(a->ops->rcvbuf_space(a, &path, 0x11), UINT32_MAX);
}
END_TEST

START_TEST(each_fault_happens_at_its_rate)
{
	static const struct sim_options options[] = {
		{.seed = 1, .drop = 0.1},
		{.seed = 2, .duplicate = 0.1},
		{.seed = 3, .reorder = 0.1, .latency = LATENCY},
		{.seed = 4, .corrupt = 0.1},
	};
	struct sim_statistics s;
	struct link_frame frame;
	uint64_t hits, bad = 0, disorder = 0;
	uint32_t i, highest = 0;

	network(&options[_i]);
	for (i = 1; i <= 5000; i++) {
		send_number(a, &path, i);
		sim_advance(sim, sim_now(sim) + 100);
	}
	run_dry();
	while (receive(b, &frame, 1)) {
		if (!icrc_check(&frame)) {
			bad++;
			continue;
		}
		if (number_of(&frame) < highest)
			disorder++;
		else
			highest = number_of(&frame);
	}
	s = statistics();
	ck_assert_uint_eq(s.sent, 5000);
	ck_assert_uint_eq(s.delivered, s.sent + s.duplicated - s.dropped);
	ck_assert_uint_eq(bad, s.corrupted);
	ck_assert_uint_eq(disorder, s.reordered);
	hits = (const uint64_t[]){s.dropped, s.duplicated, s.reordered, s.corrupted}[_i];
	ck_assert_uint_eq(hits, s.dropped + s.duplicated + s.reordered + s.corrupted);
	ck_assert_uint_gt(hits, 400);
	ck_assert_uint_lt(hits, 600);
}
END_TEST

/* A digest of what 50 nodes see when everything goes wrong. */
static uint64_t chaos(uint64_t seed)
{
	enum { NODES = 50 };
	struct link *nodes[NODES];
	struct link_frame frame;
	struct sim_statistics s;
	uint64_t digest = 0;
	unsigned int i, n;

	sim = sim_create(&(struct sim_options){.seed = seed,
					       .latency = LATENCY,
					       .jitter = LATENCY,
					       .drop = 0.05,
					       .duplicate = 0.05,
					       .reorder = 0.05,
					       .corrupt = 0.05,
					       .bandwidth = 100,
					       .receive_queue = 40 * LENGTH,
					       .hide_ip_id = true});
	for (i = 0; i < NODES; i++)
		nodes[i] = node(i);
	for (i = 0; i < 20000; i++) {
		unsigned int from = sim_random(sim) % NODES, to = sim_random(sim) % NODES;

		send_number(nodes[from], &(struct path){gid(from), gid(to)}, i);
		if (i % 4096 == 0)
			sim_advance(sim, sim_now(sim) + LATENCY);
	}
	while (sim_next(sim) != TIME_NEVER) {
		sim_advance(sim, sim_next(sim));
		for (n = 0; n < NODES; n += 2) /* the odd ones overflow */
			while (receive(nodes[n], &frame, 1))
				digest = digest * 31 + frame.data[HEADERS] + sim_now(sim) + n;
	}
	s = statistics();
	ck_assert_uint_eq(s.sent, 20000);
	ck_assert_uint_eq(s.sent + s.duplicated, s.delivered + s.dropped + s.overflowed);
	ck_assert(s.dropped && s.duplicated && s.reordered && s.corrupted && s.overflowed);
	sim_destroy(sim);
	sim = NULL;
	return digest;
}

START_TEST(equal_seeds_give_equal_runs)
{
	ck_assert_uint_eq(chaos(7), chaos(7));
	ck_assert_uint_ne(chaos(7), chaos(8));
}
END_TEST

START_TEST(time_never_goes_back)
{
	uint64_t last = 0;
	unsigned int i;

	network(&(struct sim_options){.seed = 5, .latency = 10, .jitter = 100000, .reorder = 0.5});
	for (i = 0; i < 2000; i++) {
		send_number(i & 1 ? a : b, i & 1 ? &path : &(struct path){gid(2), gid(1)}, i);
		if (i % 3 == 0)
			sim_advance(sim, sim_next(sim));
	}
	for (i = 0; sim_next(sim) != TIME_NEVER; i++) {
		ck_assert_uint_ge(sim_next(sim), last);
		last = sim_next(sim);
		sim_advance(sim, last);
	}
	ck_assert_uint_gt(i, 100);
	sim_advance(sim, 0);
	ck_assert_uint_eq(sim_now(sim), last);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("sim");
	TCase *tests = tcase_create("sim");

	tcase_add_checked_fixture(tests, NULL, teardown);
	tcase_add_test(tests, a_packet_arrives_whole_and_on_time);
	tcase_add_test(tests, an_ip_identification_can_be_hidden);
	tcase_add_test(tests, order_is_kept_under_jitter);
	tcase_add_test(tests, frames_stay_until_the_next_receive);
	tcase_add_test(tests, addresses);
	tcase_add_test(tests, closing_a_link_frees_its_addresses);
	tcase_add_test(tests, a_partition_cuts_both_ways_and_heals);
	tcase_add_test(tests, bandwidth_spaces_packets);
	tcase_add_test(tests, a_long_queue_marks);
	tcase_add_test(tests, a_full_queue_drops);
	tcase_add_loop_test(tests, each_fault_happens_at_its_rate, 0, 4);
	tcase_add_test(tests, equal_seeds_give_equal_runs);
	tcase_add_test(tests, time_never_goes_back);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
