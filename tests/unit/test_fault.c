/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/fault/fault.h"

#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "net/capture.h"
#include "net/fault/fault_link.h"
#include "net/fault/injector.h"
#include "net/sim/sim.h"
#include "net/wire/icrc.h"
#include "net/wire/mad.h"
#include "tests/run_suite.h"

#define HEADERS 12
#define PAYLOAD 8
#define QPN 17

/* A faulty link @a and a sound link @b, on a network without latency. */
static struct sim *sim;
static struct link *a, *b;
static struct path there, back;

static union ibv_gid gid(uint8_t host)
{
	return (union ibv_gid){.raw = {[10] = 0xff, 0xff, 10, 0, 0, host}};
}

static struct link *node(uint8_t host, const char *faults)
{
	struct link *link = sim_link_create(sim);
	union ibv_gid g = gid(host);

	ck_assert_ptr_nonnull(link);
	if (faults)
		ck_assert_int_eq(fault_link_create(link, faults, &link, NULL), 0);
	ck_assert_int_eq(link->ops->add_address(link, &g, 0), 0);
	return link;
}

static void network(const char *faults)
{
	sim = sim_create(&(struct sim_options){0});
	ck_assert_ptr_nonnull(sim);
	a = node(1, faults);
	b = node(2, NULL);
	there = (struct path){gid(1), gid(2)};
	back = (struct path){gid(2), gid(1)};
}

static void finish(void)
{
	if (!sim)
		return;
	if (a != b)
		a->ops->close(a);
	sim_destroy(sim);
	sim = NULL;
}

static struct link_packet packet_make(const struct path *path, uint8_t opcode, uint32_t qpn,
				      const struct iovec *payload)
{
	struct bth bth = {.opcode = opcode, .pkey = 0xffff, .dest_qp = htobe32(qpn)};
	struct link_packet packet = {.path = path,
				     .payload = payload,
				     .payload_length = PAYLOAD,
				     .payload_count = 2,
				     .headers_length = HEADERS,
				     .trailer_length = ICRC_LENGTH};

	memcpy(packet.headers, &bth, sizeof(bth));
	return packet;
}

/* Send packets @first to @last as one batch; their payload dies with this function. */
static void send_batch(struct link *link, uint8_t opcode, uint32_t qpn, uint32_t first,
		       uint32_t last)
{
	enum { MAX = 200 };
	const struct path *path = link == a ? &there : &back;
	struct link_packet packets[MAX];
	struct iovec iov[MAX][2];
	uint8_t bytes[MAX][PAYLOAD] = {0};
	unsigned int i, count = last - first + 1;

	ck_assert_uint_le(count, MAX);
	for (i = 0; i < count; i++) {
		uint32_t number = first + i;

		memcpy(bytes[i], &number, sizeof(number));
		iov[i][0] = (struct iovec){bytes[i], 3};
		iov[i][1] = (struct iovec){bytes[i] + 3, PAYLOAD - 3};
		packets[i] = packet_make(path, opcode, qpn, iov[i]);
	}
	link->ops->send(link, packets, count, sim_now(sim));
	memset(bytes, 0xee, sizeof(bytes));
	memset(iov, 0xee, sizeof(iov));
}

static void send_numbers(struct link *link, uint32_t first, uint32_t last)
{
	send_batch(link, WIRE_RC | WIRE_SEND_ONLY, QPN, first, last);
}

/* What arrives at @link, as text: "1 2 3", a '!' behind a number whose ICRC is wrong. */
static const char *received(struct link *link, unsigned int max)
{
	static char text[2000];
	struct link_frame frames[200];
	unsigned int i, count;
	size_t at = 0;

	text[0] = '\0';
	while ((count = link->ops->receive(link, frames, max, sim_now(sim))) > 0) {
		ck_assert_uint_le(count, max);
		for (i = 0; i < count; i++) {
			uint32_t number;

			memcpy(&number, frames[i].data + HEADERS, sizeof(number));
			if (icrc_check(&frames[i]))
				at += snprintf(text + at, sizeof(text) - at, "%u ", number);
			else
				at += snprintf(text + at, sizeof(text) - at, "! ");
			ck_assert_uint_lt(at, sizeof(text));
		}
	}
	if (at)
		text[at - 1] = '\0';
	return text;
}

/* --- What is replaced ------------------------------------------------------------------ */

START_TEST(rules_follow_an_injector)
{
	struct injector injector;
	struct link *sound;

	network(NULL);
	injector_init(&injector);
	sound = a;
	ck_assert_int_eq(fault_link_follow(sound, &injector, &a), 0);
	send_numbers(a, 1, 3);
	ck_assert_str_eq(received(b, 10), "1 2 3");
	ck_assert_int_eq(injector_set(&injector, "fail#1", NULL), 0);
	send_numbers(a, 4, 6);
	ck_assert_str_eq(received(b, 10), "4 5 6");
	ck_assert_int_eq(injector_set(&injector, "drop#2;drop#1@rx;delay(1ms)#3", NULL), 0);
	send_numbers(a, 7, 9);
	send_numbers(b, 1, 3);
	ck_assert_str_eq(received(b, 10), "7");
	ck_assert_str_eq(received(a, 10), "2 3");
	/* It counts anew, and what was delayed still leaves. */
	ck_assert_int_eq(injector_set(&injector, "drop#2", NULL), 0);
	send_numbers(a, 10, 12);
	ck_assert_str_eq(received(b, 10), "10 12");
	sim_advance(sim, 1000000);
	ck_assert_str_eq(received(a, 10), "");
	ck_assert_str_eq(received(b, 10), "9");
	ck_assert_int_eq(injector_set(&injector, "", NULL), 0);
	send_numbers(a, 13, 15);
	ck_assert_str_eq(received(b, 10), "13 14 15");
	ck_assert_uint_eq(a->ops->deadline(a), TIME_NEVER);
	a->ops->close(a);
	a = b;
	injector_destroy(&injector);
}
END_TEST

/* --- Messages of the connection manager -------------------------------------------------- */

/* A MAD to QP 1, in two pieces; its last byte tells it from others. */
static void send_mad(struct link *link, uint8_t class, uint16_t attribute, uint32_t qpn,
		     uint8_t number)
{
	const struct path *path = link == a ? &there : &back;
	struct mad_header header = {.class = class, .attribute = htobe16(attribute)};
	struct deth deth = {.source_qp = htobe32(QPN_GSI)};
	uint8_t mad[MAD_LENGTH] = {};
	struct iovec iov[2] = {{mad, 7}, {mad + 7, MAD_LENGTH - 7}};
	struct link_packet packet = packet_make(path, WIRE_UD | WIRE_SEND_ONLY, qpn, iov);

	memcpy(mad, &header, sizeof(header));
	mad[MAD_LENGTH - 1] = number;
	memcpy(packet.headers + HEADERS, &deth, sizeof(deth));
	packet.headers_length = HEADERS + sizeof(deth);
	packet.payload_length = MAD_LENGTH;
	link->ops->send(link, &packet, 1, sim_now(sim));
}

/* The numbers of those that arrive at @link. */
static const char *received_mads(struct link *link)
{
	static char text[200];
	struct link_frame frames[10];
	unsigned int count = link->ops->receive(link, frames, 10, sim_now(sim));
	size_t at = 0;

	text[0] = '\0';
	for (unsigned int i = 0; i < count; i++)
		at += snprintf(text + at, sizeof(text) - at, "%u ",
			       frames[i].data[frames[i].length - ICRC_LENGTH - 1]);
	return text;
}

START_TEST(rules_choose_messages_of_the_connection_manager)
{
	network("drop#1/CM_REP;drop#1/CM_REQ@rx;drop=100%/CM_DRE>17");
	for (unsigned int i = 0; i < 2; i++) {
		struct link *link = i ? b : a;

		send_mad(link, MAD_CLASS_CM, CM_REQ, QPN_GSI, 1);
		send_mad(link, MAD_CLASS_CM, CM_REP, 17, 2); /* not to QP 1 */
		send_mad(link, MAD_CLASS_CM + 1, CM_REP, QPN_GSI, 3);
		send_mad(link, MAD_CLASS_CM, CM_REP, QPN_GSI, 4);
		send_mad(link, MAD_CLASS_CM, CM_REP, QPN_GSI, 5);
		send_mad(link, MAD_CLASS_CM, CM_REQ, QPN_GSI, 6);
	}
	ck_assert_str_eq(received_mads(b), "1 2 3 5 6 ");
	ck_assert_str_eq(received_mads(a), "2 3 4 5 6 ");
}
END_TEST

/* The first and the last that there are. */
START_TEST(rules_choose_one_message_alone)
{
	static const struct {
		const char *faults;
		uint16_t attribute;
	} cases[] = {{"drop#1/CM_REQ", CM_REQ}, {"drop#1/CM_APR", CM_APR}};

	network(cases[_i].faults);
	for (uint8_t number = 1; number <= 3; number++)
		send_mad(a, MAD_CLASS_CM, cases[_i].attribute, QPN_GSI, number);
	ck_assert_str_eq(received_mads(b), "2 3 ");
}
END_TEST

START_TEST(every_nth_packet_is_dropped)
{
	network("drop#3*");
	send_numbers(a, 1, 10);
	ck_assert_str_eq(received(b, 10), "1 2 4 5 7 8 10");
}
END_TEST

/* --- Sending ------------------------------------------------------------------------ */

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

/* --- Receiving ---------------------------------------------------------------------- */

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

/* --- Chance ------------------------------------------------------------------------- */

static char *lottery(const char *faults)
{
	char *text;

	network(faults);
	send_numbers(a, 1, 200);
	text = strdup(received(b, 200));
	finish();
	return text;
}

START_TEST(equal_seeds_give_equal_faults)
{
	char *first = lottery("seed=9;drop=10%;dup=10%;reorder=10%");
	char *again = lottery("drop=10%;dup=10%;reorder=0.1;seed=9");
	char *other = lottery("seed=10;drop=10%;dup=10%;reorder=10%");

	ck_assert_str_eq(first, again);
	ck_assert_str_ne(first, other);
	free(first);
	free(again);
	free(other);
}
END_TEST

START_TEST(rates_are_met)
{
	struct sim_statistics s;
	unsigned int i;

	network("drop=5%");
	for (i = 0; i < 10000; i += 100) {
		send_numbers(a, i, i + 99);
		received(b, 200);
	}
	sim_statistics(sim, &s);
	ck_assert_uint_gt(s.sent, 9400);
	ck_assert_uint_lt(s.sent, 9600);
}
END_TEST

/* --- Threads ------------------------------------------------------------------------ */

/* An inner link that counts. */
static struct counting_link {
	struct link link;
	_Atomic unsigned int sent, calls;
} counting;

static unsigned int counting_send(struct link *link, struct link_packet *packets,
				  unsigned int count, uint64_t now)
{
	unsigned int i;

	for (i = 0; i < count; i++)
		ck_assert_uint_eq(packets[i].payload_length, PAYLOAD);
	((struct counting_link *)link)->sent += count;
	((struct counting_link *)link)->calls++;
	return 0;
}

static unsigned int counting_receive(struct link *link, struct link_frame *frames, unsigned int max,
				     uint64_t now)
{
	return 0;
}

static uint64_t counting_deadline(struct link *link)
{
	return TIME_NEVER;
}

static void counting_close(struct link *link)
{
}

static const struct link_ops counting_ops = {.send = counting_send,
					     .receive = counting_receive,
					     .deadline = counting_deadline,
					     .close = counting_close};

#define THREADS 4
#define ROUNDS 500

static void *sender(void *argument)
{
	struct link *link = argument;
	uint8_t bytes[PAYLOAD] = {0};
	struct iovec iov[] = {{bytes, 4}, {bytes + 4, 4}};
	struct path path = {gid(1), gid(2)};
	unsigned int i;

	for (i = 0; i < ROUNDS; i++) {
		struct link_packet packets[2] = {
			packet_make(&path, WIRE_RC | WIRE_SEND_ONLY, QPN, iov),
			packet_make(&path, WIRE_RC | WIRE_SEND_ONLY, QPN, iov)};

		link->ops->send(link, packets, 2, i);
	}
	return NULL;
}

/* RFC 3168, 5: only what is capable of it, and nothing else becomes of it. */
START_TEST(capable_packets_are_marked)
{
	static const uint8_t capable = 0xb8 | ECN_ECT0;
	struct link_frame frame;

	network(_i ? "mark=100%@rx" : "mark=100%");
	for (unsigned int i = 0; i < 4; i++) {
		struct link *from = _i ? b : a, *to = _i ? a : b;
		struct path *path = _i ? &back : &there;

		path->traffic_class = i % 2 ? 0xb8 : capable;
		send_batch(from, WIRE_RC | WIRE_SEND_ONLY, QPN, i, i);
		ck_assert_uint_eq(to->ops->receive(to, &frame, 1, sim_now(sim)), 1);
		ck_assert(icrc_check(&frame));
		ck_assert_uint_eq(frame.traffic_class, i % 2 ? 0xb8 : 0xb8 | ECN_CE);
		ck_assert_uint_eq(path->traffic_class, i % 2 ? 0xb8 : capable);
	}
}
END_TEST

/* Also what is held back. */
START_TEST(delayed_packets_are_marked)
{
	struct link_frame frame;

	network("mark#2;delay(1ms)=100%");
	there.traffic_class = ECN_ECT0;
	send_numbers(a, 1, 3);
	sim_advance(sim, 1000000);
	ck_assert_uint_eq(a->ops->receive(a, &frame, 1, sim_now(sim)), 0);
	for (unsigned int i = 1; i <= 3; i++) {
		ck_assert_uint_eq(b->ops->receive(b, &frame, 1, sim_now(sim)), 1);
		ck_assert_uint_eq(frame.traffic_class, i == 2 ? ECN_CE : ECN_ECT0);
	}
}
END_TEST

/* As where the network loses a packet of a super-packet that was sent whole. */
START_TEST(what_is_lost_cuts_no_batch)
{
	uint8_t bytes[PAYLOAD] = {0};
	struct iovec iov[] = {{bytes, 4}, {bytes + 4, 4}};
	struct link_packet packets[8];
	struct path path = {gid(1), gid(2)};
	struct link *link;

	counting.link.ops = &counting_ops;
	counting.sent = counting.calls = 0;
	ck_assert_int_eq(fault_link_create(&counting.link, "drop#1;drop#4;drop#8", &link, NULL), 0);
	for (unsigned int i = 0; i < 8; i++)
		packets[i] = packet_make(&path, WIRE_RC | WIRE_SEND_ONLY, QPN, iov);
	link->ops->send(link, packets, 8, 0);
	ck_assert_uint_eq(counting.calls, 1);
	ck_assert_uint_eq(counting.sent, 5);
	link->ops->close(link);
}
END_TEST

START_TEST(threads_may_send_at_once)
{
	pthread_t threads[THREADS];
	struct link_frame frame;
	struct link *link;
	unsigned int i;

	counting.link.ops = &counting_ops;
	ck_assert_int_eq(fault_link_create(&counting.link,
					   "dup=100%;reorder=10%;delay(100ns)=10%;corrupt=10%",
					   &link, NULL),
			 0);
	for (i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, sender, link), 0);
	for (i = 0; i < ROUNDS; i++) {
		link->ops->receive(link, &frame, 1, i);
		link->ops->deadline(link);
	}
	for (i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	link->ops->close(link);
	ck_assert_uint_eq(counting.sent, 2 * 2 * THREADS * ROUNDS);
}
END_TEST

/* As two threads do that have both seen that there are others. */
START_TEST(rules_are_read_once)
{
	struct injector injector;

	network(NULL);
	injector_init(&injector);
	ck_assert_int_eq(fault_link_follow(a, &injector, &a), 0);
	ck_assert_int_eq(injector_set(&injector, "drop#1", NULL), 0);
	send_numbers(a, 1, 2);
	ck_assert_str_eq(received(b, 10), "2");
	fault_read_rules((struct fault_link *)a);
	send_numbers(a, 3, 4);
	ck_assert_str_eq(received(b, 10), "3 4");
	a->ops->close(a);
	a = b;
	injector_destroy(&injector);
}
END_TEST

/* A link whose filter has other rules when a packet was sent. */
static struct {
	struct link link;
	struct injector injector;
	struct link *filter;
} replacing = {.injector = INJECTOR_INITIALIZER};

static void ignore(void *context, const struct fault_clause *clause)
{
}

static unsigned int replacing_send(struct link *link, struct link_packet *packets,
				   unsigned int count, uint64_t now)
{
	for (unsigned int i = 0; i < count; i++)
		packets[i].captured = 1;
	ck_assert_int_eq(injector_set(&replacing.injector, "fail#1", NULL), 0);
	fault_link_for_each(replacing.filter, ignore, NULL); /* reads them */
	return 0;
}

START_TEST(replaced_rules_are_not_noted)
{
	static const struct link_ops ops = {.send = replacing_send, .close = counting_close};
	uint8_t bytes[PAYLOAD] = {0};
	struct iovec iov[] = {{bytes, 4}, {bytes + 4, 4}};
	struct path path = {gid(1), gid(2)};
	struct link_packet packet = packet_make(&path, WIRE_RC | WIRE_SEND_ONLY, QPN, iov);
	char name[] = "/tmp/urxe-fault-XXXXXX", notes[64];
	int fd = mkstemp(name);

	ck_assert_int_ge(fd, 0);
	close(fd);
	snprintf(notes, sizeof(notes), "%s.faults", name);
	replacing.link.ops = &ops;
	replacing.link.capture = capture_open(name);
	ck_assert_ptr_nonnull(replacing.link.capture);
	ck_assert_int_eq(injector_set(&replacing.injector, "corrupt#1", NULL), 0);
	ck_assert_int_eq(fault_link_follow(&replacing.link, &replacing.injector, &replacing.filter),
			 0);
	replacing.filter->ops->send(replacing.filter, &packet, 1, 0);
	ck_assert_int_ne(access(notes, F_OK), 0);
	replacing.filter->ops->close(replacing.filter);
	capture_close(replacing.link.capture);
	injector_destroy(&replacing.injector);
	unlink(name);
	unlink(notes);
}
END_TEST

START_TEST(rules_may_be_replaced_while_threads_send)
{
	static const char *const specifications[] = {"", "dup=50%;delay(100ns)=10%", "reorder=10%",
						     "corrupt=10%/CM_REQ/RC_SEND"};
	struct injector injector;
	pthread_t threads[THREADS];
	struct link_frame frame;
	struct link *link;

	injector_init(&injector);
	counting.link.ops = &counting_ops;
	counting.sent = 0;
	ck_assert_int_eq(fault_link_follow(&counting.link, &injector, &link), 0);
	for (unsigned int i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, sender, link), 0);
	for (unsigned int i = 0; i < 200; i++) {
		ck_assert_int_eq(injector_set(&injector, specifications[i % 4], NULL), 0);
		link->ops->receive(link, &frame, 1, i);
	}
	for (unsigned int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	link->ops->close(link);
	injector_destroy(&injector);
	/* What was held back left when the link was closed: nothing is lost. */
	ck_assert_uint_ge(counting.sent, 2 * THREADS * ROUNDS);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("fault");
	TCase *tests = tcase_create("fault");

	tcase_add_checked_fixture(tests, NULL, finish);
	tcase_add_test(tests, rules_follow_an_injector);
	tcase_add_test(tests, rules_choose_messages_of_the_connection_manager);
	tcase_add_loop_test(tests, rules_choose_one_message_alone, 0, 2);
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
	tcase_add_test(tests, frames_are_dropped_duplicated_and_corrupted);
	tcase_add_test(tests, a_small_array_loses_nothing);
	tcase_add_test(tests, what_is_dropped_leaves_space);
	tcase_add_test(tests, surplus_is_announced);
	tcase_add_test(tests, frames_are_delayed_and_reordered);
	tcase_add_test(tests, corrupted_frames_are_not_trusted);
	tcase_add_test(tests, messages_of_processes_pass);
	tcase_add_test(tests, equal_seeds_give_equal_faults);
	tcase_add_test(tests, rates_are_met);
	tcase_add_loop_test(tests, capable_packets_are_marked, 0, 2);
	tcase_add_test(tests, delayed_packets_are_marked);
	tcase_add_test(tests, what_is_lost_cuts_no_batch);
	tcase_add_test(tests, threads_may_send_at_once);
	tcase_add_test(tests, rules_are_read_once);
	tcase_add_test(tests, replaced_rules_are_not_noted);
	tcase_add_test(tests, rules_may_be_replaced_while_threads_send);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
