/* SPDX-License-Identifier: BSD-2-Clause */
/* Captures, read back with libpcap: also while the file is still open. */
#include <check.h>
#include <errno.h>
#include <pcap/pcap.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gid_of.h"
#include "net/capture.h"
#include "tests/run_suite.h"

static char directory[] = "/tmp/urxe-capture-XXXXXX";
static char name[128], expanded[128];

static void setup(void)
{
	ck_assert_ptr_nonnull(mkdtemp(directory));
	snprintf(name, sizeof(name), "%s/a-%%p.pcap", directory);
	snprintf(expanded, sizeof(expanded), "%s/a-%d.pcap", directory, (int)getpid());
}

static void teardown(void)
{
	unlink(expanded);
	rmdir(directory);
}

/* Vector A: RC SEND_ONLY "RDMAtest" from 192.168.0.1 to 192.168.0.2, with known checksums. */
static const uint8_t vector[] = {0x02, 0x00, 192,  168,	 0,    2,    0x02, 0x00, 192,  168,  0,
				 1,    0x08, 0x00, 0x45, 0x00, 0x00, 0x34, 0x00, 0x00, 0x40, 0x00,
				 0x40, 0x11, 0xb9, 0x65, 0xc0, 0xa8, 0x00, 0x01, 0xc0, 0xa8, 0x00,
				 0x02, 0xc0, 0x00, 0x12, 0xb7, 0x00, 0x20, 0x00, 0x00, 0x04, 0x00,
				 0xff, 0xff, 0x00, 0x00, 0x00, 0x11, 0x80, 0x00, 0x00, 0x01, 'R',
				 'D',  'M',  'A',  't',	 'e',  's',  't',  0x3e, 0x55, 0xa7, 0xfe};
#define UDP_PAYLOAD (14 + 20 + 8)

static void send_vector(struct capture *capture, const struct path *path, uint16_t ip_id)
{
	struct iovec payload[] = {{(void *)(vector + UDP_PAYLOAD + 12), 3},
				  {(void *)(vector + UDP_PAYLOAD + 15), 100}};
	struct link_packet packet = {.path = path,
				     .payload = payload,
				     .payload_count = 2,
				     .payload_length = 8,
				     .headers_length = 12,
				     .trailer_length = 4};

	memcpy(packet.headers, vector + UDP_PAYLOAD, 12);
	memcpy(packet.trailer, vector + UDP_PAYLOAD + 20, 4);
	capture_sent(capture, &packet, 0xc000, ip_id);
}

static const uint8_t *next_record(pcap_t *pcap, uint32_t length)
{
	struct pcap_pkthdr *header;
	const uint8_t *bytes;

	ck_assert_int_eq(pcap_next_ex(pcap, &header, &bytes), 1);
	ck_assert_uint_eq(header->caplen, length);
	ck_assert_uint_eq(header->len, length);
	ck_assert_int_lt(header->ts.tv_usec, 1000000000);
	ck_assert_int_gt(header->ts.tv_sec, 0);
	return bytes;
}

START_TEST(sent_and_received)
{
	struct path path = {.source = gid_of("192.168.0.1"),
			    .destination = gid_of("192.168.0.2"),
			    .hop_limit = 64};
	struct link_frame frame = {.data = vector + UDP_PAYLOAD,
				   .length = sizeof(vector) - UDP_PAYLOAD,
				   .ip_id = 0x1234,
				   .source = path.destination,
				   .destination = path.source,
				   .source_port = 0xc001,
				   .traffic_class = 0xc2,
				   .hop_limit = 63};
	struct capture *capture = capture_open(name);
	char error[PCAP_ERRBUF_SIZE];
	const uint8_t *bytes;
	uint32_t sum = 0;
	pcap_t *pcap;

	ck_assert_ptr_nonnull(capture);
	send_vector(capture, &path, 0);
	capture_received(capture, &frame);
	frame.ip_id = IP_ID_UNKNOWN;
	capture_received(capture, &frame);

	/* Not closed yet: nothing may wait in a buffer. */
	pcap = pcap_open_offline_with_tstamp_precision(expanded, PCAP_TSTAMP_PRECISION_NANO, error);
	ck_assert_msg(pcap != NULL, "%s", error);
	ck_assert_int_eq(pcap_datalink(pcap), DLT_EN10MB);
	bytes = next_record(pcap, sizeof(vector));
	ck_assert_mem_eq(bytes, vector, sizeof(vector));

	bytes = next_record(pcap, sizeof(vector));
	ck_assert_uint_eq(bytes[15], 0xc2);
	ck_assert_uint_eq(bytes[18] << 8 | bytes[19], 0x1234);
	ck_assert_uint_eq(bytes[22], 63);
	for (unsigned int i = 14; i < 34; i += 2)
		sum += bytes[i] << 8 | bytes[i + 1];
	ck_assert_uint_eq((sum & 0xffff) + (sum >> 16), 0xffff);
	ck_assert_mem_eq(bytes + 26, vector + 30, 4);
	ck_assert_mem_eq(bytes + 30, vector + 26, 4);
	ck_assert_uint_eq(bytes[34] << 8 | bytes[35], 0xc001);
	ck_assert_mem_eq(bytes + UDP_PAYLOAD, vector + UDP_PAYLOAD, sizeof(vector) - UDP_PAYLOAD);

	bytes = next_record(pcap, sizeof(vector));
	ck_assert_uint_eq(bytes[18] << 8 | bytes[19], 0);
	pcap_close(pcap);
	capture_close(capture);
}
END_TEST

START_TEST(sent_ipv6)
{
	struct path path = {.source = gid_of("fe80::1"),
			    .destination = gid_of("fe80::2"),
			    .traffic_class = 0xb8,
			    .hop_limit = 7};
	struct capture *capture = capture_open(name);
	char error[PCAP_ERRBUF_SIZE];
	const uint8_t *bytes;
	pcap_t *pcap;

	ck_assert_ptr_nonnull(capture);
	send_vector(capture, &path, 99);
	capture_close(capture);

	pcap = pcap_open_offline(expanded, error);
	ck_assert_msg(pcap != NULL, "%s", error);
	bytes = next_record(pcap, sizeof(vector) + 20);
	ck_assert_mem_eq(bytes + 12, ((uint8_t[]){0x86, 0xdd, 0x6b, 0x80, 0, 0, 0, 0x20, 17, 7}),
			 10);
	ck_assert_mem_eq(bytes + 22, path.source.raw, 16);
	ck_assert_mem_eq(bytes + 38, path.destination.raw, 16);
	ck_assert_mem_eq(bytes + 54, vector + 34, sizeof(vector) - 34);
	pcap_close(pcap);
}
END_TEST

START_TEST(unwritable)
{
	errno = 0;
	ck_assert_ptr_null(capture_open("/nonexistent/directory/a.pcap"));
	ck_assert_int_eq(errno, ENOENT);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("capture");
	TCase *tests = tcase_create("capture");

	tcase_add_checked_fixture(tests, setup, teardown);
	tcase_add_test(tests, sent_and_received);
	tcase_add_test(tests, sent_ipv6);
	tcase_add_test(tests, unwritable);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
