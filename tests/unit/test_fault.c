/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The fault filter (net/fault/fault.h): its rules, which may be replaced, what they choose, and how
 * often; and threads that send through it at once. What becomes of packets: test_fault_send, of
 * frames: test_fault_receive.
 */
#include "net/fault/fault.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "fault_network.h"
#include "net/capture.h"
#include "net/fault/fault_link.h"
#include "net/fault/injector.h"
#include "net/log.h"
#include "net/wire/mad.h"
#include "tests/run_suite.h"
#include "tests/said.h"

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

/* --- Marks ---------------------------------------------------------------------------- */

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

START_TEST(replaced_rules_say_how_often_they_hit)
{
	static struct said said;
	struct injector injector = INJECTOR_INITIALIZER;

	log_set_level(LOG_INFO);
	network(NULL);
	ck_assert_int_eq(injector_set(&injector, "drop#1", NULL), 0);
	ck_assert_int_eq(fault_link_follow(a, &injector, &a), 0);
	send_numbers(a, 1, 3);
	ck_assert_int_eq(injector_set(&injector, "", NULL), 0);
	said_begin(&said);
	send_numbers(a, 4, 4);
	said_end(&said);
	ck_assert_ptr_nonnull(strstr(said.text, "fault drop#1: 1 of 3 packets\n"));
	injector_destroy(&injector);
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
	tcase_add_test(tests, equal_seeds_give_equal_faults);
	tcase_add_test(tests, rates_are_met);
	tcase_add_loop_test(tests, capable_packets_are_marked, 0, 2);
	tcase_add_test(tests, delayed_packets_are_marked);
	tcase_add_test(tests, what_is_lost_cuts_no_batch);
	tcase_add_test(tests, threads_may_send_at_once);
	tcase_add_test(tests, rules_are_read_once);
	tcase_add_test(tests, replaced_rules_are_not_noted);
	tcase_add_test(tests, replaced_rules_say_how_often_they_hit);
	tcase_add_test(tests, rules_may_be_replaced_while_threads_send);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
