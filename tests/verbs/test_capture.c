/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The capture file of a process (URXE_PCAP) has the packets of all devices that it opens, one after
 * the other, too.
 */
#include <check.h>
#include <pcap/pcap.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/must.h"
#include "tests/run_suite.h"
#include "tests/verbs/fixture.h"

static char path[80];

/* Before a device is opened, when the environment is read. */
static void capture_here(void)
{
	snprintf(path, sizeof(path), "/tmp/urxe-test-capture-%d.pcap", getpid());
	must(setenv("URXE_PCAP", path, 1) == 0);
}

/* A device that is opened, writes, and is closed again. */
static void write_once(void)
{
	struct pair pair;

	pair_open(&pair, IBV_QPT_RC, 0);
	ck_assert_int_eq(post_write(&pair, 1), 0);
	ck_assert_int_eq(wait_completion(pair.send_cq).status, IBV_WC_SUCCESS);
	pair_close(&pair);
}

static unsigned int captured(void)
{
	char error[PCAP_ERRBUF_SIZE];
	pcap_t *pcap = pcap_open_offline(path, error);
	struct pcap_pkthdr *header;
	const uint8_t *bytes;
	unsigned int packets = 0;
	int status;

	ck_assert_msg(pcap != NULL, "%s", error);
	while ((status = pcap_next_ex(pcap, &header, &bytes)) == 1)
		packets++;
	ck_assert_int_eq(status, PCAP_ERROR_BREAK);
	pcap_close(pcap);
	return packets;
}

START_TEST(a_device_opened_again_goes_on_with_the_file)
{
	unsigned int once;

	capture_here();
	write_once();
	once = captured();
	ck_assert_uint_gt(once, 0);
	write_once();
	ck_assert_uint_gt(captured(), once);
	unlink(path);
}
END_TEST

/* As daemons do. */
START_TEST(a_file_that_was_closed_is_opened_again)
{
	capture_here();
	write_once();
	unlink(path);
	for (int fd = 3; fd < 100; fd++)
		close(fd);
	write_once();
	ck_assert_uint_gt(captured(), 0);
	unlink(path);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("verbs_capture");
	TCase *tests = tcase_create("capture");

	fixture_environment();
	tcase_add_test(tests, a_device_opened_again_goes_on_with_the_file);
	tcase_add_test(tests, a_file_that_was_closed_is_opened_again);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
