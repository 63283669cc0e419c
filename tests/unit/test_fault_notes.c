/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What captures of two faulty nodes on loopback say of the faults: which records there are, and
 * which lines in the file beside them. On loopback send() delivers before it returns, so nothing
 * here waits.
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <pcap/pcap.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gid_of.h"
#include "net/capture.h"
#include "net/fault/fault.h"
#include "net/fault/injector.h"
#include "net/udp/udp.h"
#include "net/wire/icrc.h"
#include "own_network.h"
#include "tests/cancelled.h"
#include "tests/run_suite.h"

#define ADDRESS_A "127.77.6.1"
#define ADDRESS_B "127.77.6.2"
#define PACKETS 8
#define HEADERS_BEFORE_BTH (14 + 20 + 8)
#define TEXT 2000

struct node {
	char pcap[64], faults[80];
	struct capture *capture;
	struct link *link;
	union ibv_gid gid;
};

static struct injector injector;

/* @faults: NULL: those that the injector has. */
static struct node node_open(const char *address, const char *faults)
{
	struct node node = {.gid = gid_of(address)};
	struct udp_options options = {.segmentation = true};
	struct link *udp;

	snprintf(node.pcap, sizeof(node.pcap), "/tmp/urxe-notes-%s-%d.pcap", address,
		 (int)getpid());
	snprintf(node.faults, sizeof(node.faults), "%s.faults", node.pcap);
	node.capture = options.capture = capture_open(node.pcap);
	ck_assert_ptr_nonnull(node.capture);
	ck_assert_int_eq(capture_open_faults(node.capture), 0);
	ck_assert_int_eq(udp_link_create(&options, &udp), 0);
	ck_assert_int_eq(faults ? fault_link_create(udp, faults, &node.link, NULL)
				: fault_link_follow(udp, &injector, &node.link),
			 0);
	ck_assert_int_eq(node.link->ops->add_address(node.link, &node.gid, 0), 0);
	return node;
}

static void node_close(struct node *node)
{
	node->link->ops->close(node->link);
	capture_close(node->capture);
	unlink(node->pcap);
	unlink(node->faults);
}

/* Packets 1 to PACKETS, which are their PSNs, one batch. */
static void send_packets(struct node *from, const struct node *to, uint64_t now)
{
	struct path path = {from->gid, to->gid};
	struct link_packet packets[PACKETS];

	for (unsigned int i = 0; i < PACKETS; i++) {
		packets[i] = (struct link_packet){.path = &path,
						  .headers_length = sizeof(struct bth),
						  .trailer_length = ICRC_LENGTH};
		memcpy(packets[i].headers,
		       &(struct bth){.opcode = WIRE_RC | WIRE_SEND_ONLY,
				     .pkey = htobe16(PKEY_DEFAULT),
				     .dest_qp = htobe32(0x11),
				     .psn = htobe32(i + 1)},
		       sizeof(struct bth));
	}
	from->link->ops->send(from->link, packets, PACKETS, now);
}

/* Whether each frame's ICRC is right is for the receiver; here only PSNs count. */
static void receive_packets(struct node *to, uint64_t now)
{
	struct link_frame frames[64];

	while (to->link->ops->receive(to->link, frames, 64, now))
		;
}

/* The records of a capture: "1 2 3", with an 'r' in front of those received. */
static const char *records_of(const struct node *node, uint64_t *times)
{
	static char text[TEXT];
	char error[PCAP_ERRBUF_SIZE];
	struct pcap_pkthdr *header;
	const uint8_t *bytes;
	pcap_t *pcap = pcap_open_offline_with_tstamp_precision(node->pcap,
							       PCAP_TSTAMP_PRECISION_NANO, error);
	size_t at = 0;

	ck_assert_msg(pcap != NULL, "%s", error);
	text[0] = '\0';
	while (pcap_next_ex(pcap, &header, &bytes) == 1) {
		*times++ = header->ts.tv_sec * 1000000000ull + header->ts.tv_usec;
		at += snprintf(text + at, sizeof(text) - at, "%s%s%u", at ? " " : "",
			       bytes[7] ? "r" : "", bytes[HEADERS_BEFORE_BTH + 11]);
	}
	pcap_close(pcap);
	return text;
}

/* Line @number of the file beside a capture: it has the time of a record, and @text. */
static void expect_note(const struct node *node, unsigned int number, uint64_t time,
			const char *text)
{
	FILE *file = fopen(node->faults, "r");
	char line[TEXT], expected[TEXT];

	ck_assert_ptr_nonnull(file);
	for (unsigned int i = 0; i <= number; i++)
		ck_assert_ptr_nonnull(fgets(line, sizeof(line), file));
	snprintf(expected, sizeof(expected), "%llu.%09llu %s\n",
		 (unsigned long long)(time / 1000000000), (unsigned long long)(time % 1000000000),
		 text);
	ck_assert_str_eq(line, expected);
	fclose(file);
}

static unsigned int notes_of(const struct node *node)
{
	FILE *file = fopen(node->faults, "r");
	unsigned int count = 0;
	char line[TEXT];

	ck_assert_ptr_nonnull(file);
	while (fgets(line, sizeof(line), file))
		count++;
	fclose(file);
	return count;
}

#define PACKET(psn) "RC_SEND_ONLY QP 0x11 PSN " #psn ": "

START_TEST(notes_of_the_sender)
{
	struct node from = node_open(ADDRESS_A,
				     "drop#2/RC_SEND;dup#3;corrupt#4;reorder#5;delay(1ms)#7"),
		    to = node_open(ADDRESS_B, "");
	uint64_t times[32], unused[32];

	send_packets(&from, &to, 1000);
	ck_assert_str_eq(records_of(&from, times), "1 2 3 3 4 6 5 8");
	send_packets(&from, &to, 2000000); /* what was delayed first */
	receive_packets(&to, 2000000);
	/* What the sender lost the network has lost: it isn't in the receiver's capture. */
	ck_assert_str_eq(records_of(&from, times), "1 2 3 3 4 6 5 8 7 1 2 3 4 5 6 7 8");
	ck_assert_str_eq(records_of(&to, unused),
			 "r1 r3 r3 r4 r6 r5 r8 r7 r1 r2 r3 r4 r5 r6 r7 r8");

	expect_note(&from, 0, times[1], "sent " PACKET(2) "dropped by drop#2/RC_SEND");
	expect_note(&from, 1, times[3], "sent " PACKET(3) "duplicated by dup#3");
	expect_note(&from, 2, times[4], "sent " PACKET(4) "corrupted by corrupt#4");
	expect_note(&from, 3, times[6], "sent " PACKET(5) "held back by reorder#5");
	expect_note(&from, 4, times[8], "sent " PACKET(7) "delayed by delay(1ms)#7");
	ck_assert_uint_eq(notes_of(&from), 5);
	ck_assert_uint_eq(notes_of(&to), 0);
	node_close(&from);
	node_close(&to);
}
END_TEST

START_TEST(notes_of_the_receiver)
{
	struct node from = node_open(ADDRESS_A, ""),
		    to = node_open(
			    ADDRESS_B,
			    "drop#2@rx;dup#3@rx;corrupt#4@rx;delay(1ms)#5@rx;dup#5@rx;drop#9@tx");
	uint64_t times[32];

	send_packets(&from, &to, 0);
	receive_packets(&to, 0);
	ck_assert_str_eq(records_of(&to, times), "r1 r2 r3 r4 r5 r6 r7 r8");
	expect_note(&to, 0, times[1], "received " PACKET(2) "dropped by drop#2@rx");
	expect_note(&to, 1, times[2], "received " PACKET(3) "duplicated by dup#3@rx");
	expect_note(&to, 2, times[3], "received " PACKET(4) "corrupted by corrupt#4@rx");
	expect_note(&to, 3, times[4],
		    "received " PACKET(5) "delayed by delay(1ms)#5@rx, duplicated by dup#5@rx");
	ck_assert_uint_eq(notes_of(&to), 4);
	ck_assert_uint_eq(notes_of(&from), 0);
	node_close(&from);
	node_close(&to);
}
END_TEST

/* A packet that several rules hit: dropped is all that counts. A dropped one is intact. */
START_TEST(dropped_is_dropped)
{
	struct node from = node_open(ADDRESS_A, "corrupt#1;drop=100%;delay(2ms)#1"),
		    to = node_open(ADDRESS_B, "");
	char error[PCAP_ERRBUF_SIZE];
	struct pcap_pkthdr *header;
	struct link_frame frame;
	const uint8_t *bytes;
	uint64_t times[32];
	pcap_t *pcap;

	send_packets(&from, &to, 0);
	ck_assert_str_eq(records_of(&from, times), "1 2 3 4 5 6 7 8");
	expect_note(&from, 0, times[0], "sent " PACKET(1) "dropped by drop=100%");
	ck_assert_uint_eq(notes_of(&from), PACKETS);

	pcap = pcap_open_offline(from.pcap, error);
	ck_assert_msg(pcap != NULL, "%s", error);
	ck_assert_int_eq(pcap_next_ex(pcap, &header, &bytes), 1);
	frame = (struct link_frame){.data = bytes + HEADERS_BEFORE_BTH,
				    .length = header->caplen - HEADERS_BEFORE_BTH,
				    .source = from.gid,
				    .destination = to.gid,
				    .source_port = bytes[34] << 8 | bytes[35]};
	ck_assert(icrc_check(&frame));
	pcap_close(pcap);
	node_close(&from);
	node_close(&to);
}
END_TEST

/* What is still held back then leaves without a word: its rule has no name any more. */
START_TEST(rules_are_replaced)
{
	struct node from, to = node_open(ADDRESS_B, "");
	uint64_t times[32];

	injector_init(&injector);
	ck_assert_int_eq(injector_set(&injector, "delay(1ms)#1;reorder#8", NULL), 0);
	from = node_open(ADDRESS_A, NULL);
	send_packets(&from, &to, 1000);
	ck_assert_int_eq(injector_set(&injector, "drop=0%;dup=0%", NULL), 0);
	send_packets(&from, &to, 2000000);
	ck_assert_str_eq(records_of(&from, times), "2 3 4 5 6 7 1 8 1 2 3 4 5 6 7 8");
	ck_assert_uint_eq(notes_of(&from), 0);
	node_close(&from);
	node_close(&to);
	injector_destroy(&injector);
}
END_TEST

/* An earlier run's notes are gone with its records. The first fault opens the file, if need be. */
START_TEST(a_later_run_begins_anew)
{
	struct node from = node_open(ADDRESS_A, "drop=100%"), to = node_open(ADDRESS_B, "");
	struct capture *later;

	send_packets(&from, &to, 0);
	ck_assert_uint_eq(notes_of(&from), PACKETS);
	from.link->ops->close(from.link);
	capture_close(from.capture);
	later = capture_open(from.pcap);
	ck_assert_ptr_nonnull(later);
	ck_assert_int_eq(access(from.faults, F_OK), -1);
	capture_fault(later, 0, "nothing that was captured");
	ck_assert_int_eq(access(from.faults, F_OK), -1);
	capture_fault(later, 1, "asked for by urxe ctl");
	capture_close(later);
	ck_assert_uint_eq(notes_of(&from), 1);
	unlink(from.pcap);
	unlink(from.faults);
	node_close(&to);
}
END_TEST

/* Beside a pipe, to Wireshark perhaps, there is nothing. */
START_TEST(a_pipe_has_no_notes)
{
	char path[64], notes[80];
	struct capture *capture;
	int reader;

	snprintf(path, sizeof(path), "/tmp/urxe-notes-%d.pipe", (int)getpid());
	snprintf(notes, sizeof(notes), "%s.faults", path);
	unlink(path); /* of a process that failed */
	ck_assert_int_eq(mkfifo(path, 0600), 0);
	reader = open(path, O_RDONLY | O_NONBLOCK);
	capture = capture_open(path);
	ck_assert_ptr_nonnull(capture);
	ck_assert_int_eq(capture_open_faults(capture), 0);
	capture_fault(capture, 1, "drop");
	ck_assert_int_eq(access(notes, F_OK), -1);
	capture_close(capture);
	close(reader);
	ck_assert_int_eq(unlink(path), 0);
}
END_TEST

static void note(void *capture)
{
	capture_fault(capture, 1, "drop");
}

/* With the first fault of rules that came later, by a thread that posts or polls. */
START_TEST(begins_without_being_cancelled)
{
	char path[64], notes[80];
	struct capture *capture;

	snprintf(path, sizeof(path), "/tmp/urxe-notes-%d.pcap", (int)getpid());
	snprintf(notes, sizeof(notes), "%s.faults", path);
	capture = capture_open(path);
	ck_assert_ptr_nonnull(capture);
	ck_assert(returns_cancelled(note, capture));
	capture_close(capture);
	ck_assert_int_eq(unlink(path), 0);
	ck_assert_int_eq(unlink(notes), 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("fault_notes");
	TCase *tests = tcase_create("fault_notes");

	tcase_set_timeout(tests, 60);
	tcase_add_test(tests, notes_of_the_sender);
	tcase_add_test(tests, notes_of_the_receiver);
	tcase_add_test(tests, dropped_is_dropped);
	tcase_add_test(tests, rules_are_replaced);
	tcase_add_test(tests, a_later_run_begins_anew);
	tcase_add_test(tests, a_pipe_has_no_notes);
	tcase_add_test(tests, begins_without_being_cancelled);
	own_network_enter(tests);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
