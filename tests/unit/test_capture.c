/* SPDX-License-Identifier: BSD-2-Clause */
/* Captures, read back with libpcap: also while the file is still open. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <pcap/pcap.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gid_of.h"
#include "net/capture.h"
#include "net/log.h"
#include "tests/must.h"
#include "tests/run_suite.h"
#include "tests/said.h"

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
static const uint8_t vector[] = {0x02, 0x01, 192,  168,	 0,    2,    0x02, 0x00, 192,  168,  0,
				 1,    0x08, 0x00, 0x45, 0x00, 0x00, 0x34, 0x00, 0x00, 0x40, 0x00,
				 0x40, 0x11, 0xb9, 0x65, 0xc0, 0xa8, 0x00, 0x01, 0xc0, 0xa8, 0x00,
				 0x02, 0xc0, 0x00, 0x12, 0xb7, 0x00, 0x20, 0x00, 0x00, 0x04, 0x00,
				 0xff, 0xff, 0x00, 0x00, 0x00, 0x11, 0x80, 0x00, 0x00, 0x01, 'R',
				 'D',  'M',  'A',  't',	 'e',  's',  't',  0x3e, 0x55, 0xa7, 0xfe};
#define UDP_PAYLOAD (14 + 20 + 8)

static struct path vector_path(void)
{
	return (struct path){.source = gid_of("192.168.0.1"),
			     .destination = gid_of("192.168.0.2"),
			     .hop_limit = 64};
}

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

/* The file has @count records of the vector, and ends. */
static void expect_vectors(unsigned int count)
{
	char error[PCAP_ERRBUF_SIZE];
	pcap_t *pcap = pcap_open_offline(expanded, error);
	struct pcap_pkthdr *header;
	const uint8_t *bytes;

	ck_assert_msg(pcap != NULL, "%s", error);
	while (count--)
		next_record(pcap, sizeof(vector));
	ck_assert_int_eq(pcap_next_ex(pcap, &header, &bytes), PCAP_ERROR_BREAK);
	pcap_close(pcap);
}

START_TEST(sent_and_received)
{
	struct path path = vector_path();
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
	capture_flush(capture);

	/* Not closed yet. */
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

START_TEST(ipv6)
{
	struct path path = {.source = gid_of("fe80::1"),
			    .destination = gid_of("fe80::2"),
			    .traffic_class = 0xb8,
			    .hop_limit = 7};
	struct link_frame frame = {.data = vector + UDP_PAYLOAD,
				   .length = sizeof(vector) - UDP_PAYLOAD,
				   .ip_id = IP_ID_UNKNOWN,
				   .source = path.destination,
				   .destination = path.source,
				   .flow_label = 0x12345,
				   .traffic_class = 0xc2,
				   .hop_limit = 63};
	struct capture *capture = capture_open(name);
	char error[PCAP_ERRBUF_SIZE];
	const uint8_t *bytes;
	pcap_t *pcap;

	ck_assert_ptr_nonnull(capture);
	send_vector(capture, &path, 99);
	path.hop_limit = 0; /* links have one for that */
	send_vector(capture, &path, 99);
	capture_received(capture, &frame);
	capture_close(capture);

	pcap = pcap_open_offline(expanded, error);
	ck_assert_msg(pcap != NULL, "%s", error);
	bytes = next_record(pcap, sizeof(vector) + 20);
	ck_assert_mem_eq(bytes + 12, ((uint8_t[]){0x86, 0xdd, 0x6b, 0x80, 0, 0, 0, 0x20, 17, 7}),
			 10);
	ck_assert_mem_eq(bytes + 22, path.source.raw, 16);
	ck_assert_mem_eq(bytes + 38, path.destination.raw, 16);
	ck_assert_mem_eq(bytes + 54, vector + 34, sizeof(vector) - 34);
	bytes = next_record(pcap, sizeof(vector) + 20);
	ck_assert_uint_eq(bytes[21], 64);
	bytes = next_record(pcap, sizeof(vector) + 20);
	ck_assert_mem_eq(bytes + 14, ((uint8_t[]){0x6c, 0x21, 0x23, 0x45}), 4);
	pcap_close(pcap);
}
END_TEST

#define RECORDS 2000
#define LARGE 9000 /* more than a stream's usual buffer */
#define AT_ONCE 80 /* more than the capture's buffer takes */

static void send_many(struct capture *capture, uint8_t byte)
{
	static uint8_t bytes[LARGE];
	struct link_frame frame = {.data = bytes,
				   .source = gid_of("192.168.0.1"),
				   .destination = gid_of("192.168.0.2")};

	memset(bytes, byte, sizeof(bytes));
	for (unsigned int i = 0; i < RECORDS; i++) {
		frame.length = 1 + i * 37 % LARGE;
		capture_received(capture, &frame);
		if (i % AT_ONCE == AT_ONCE - 1)
			capture_flush(capture);
	}
}

/* Each one's records are whole, and all are there; a later run begins anew. */
START_TEST(processes_share_a_file)
{
	unsigned int counts[4] = {0};
	struct capture *capture;
	char error[PCAP_ERRBUF_SIZE];
	struct pcap_pkthdr *header;
	const uint8_t *bytes;
	pid_t pids[3];
	pcap_t *pcap;
	int status;

	capture = capture_open(name);
	ck_assert_ptr_nonnull(capture);
	for (uint8_t i = 0; i < 3; i++) {
		pids[i] = fork();
		if (pids[i] == 0) {
			capture = capture_open(expanded);
			if (!capture)
				_exit(1);
			send_many(capture, i + 1);
			_exit(0); /* without closing, as a process does that is killed */
		}
	}
	send_many(capture, 0);
	for (int i = 0; i < 3; i++) {
		ck_assert_int_eq(waitpid(pids[i], &status, 0), pids[i]);
		ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	}
	capture_close(capture);

	pcap = pcap_open_offline(expanded, error);
	ck_assert_msg(pcap != NULL, "%s", error);
	while ((status = pcap_next_ex(pcap, &header, &bytes)) == 1) {
		const uint8_t *payload = bytes + UDP_PAYLOAD;
		uint32_t length = header->caplen - UDP_PAYLOAD;

		ck_assert_uint_gt(header->caplen, UDP_PAYLOAD);
		ck_assert_uint_lt(payload[0], 4);
		ck_assert_uint_eq(length, 1 + counts[payload[0]]++ * 37 % LARGE);
		for (uint32_t i = 1; i < length; i++) {
			if (payload[i] != payload[0])
				ck_abort_msg("records are mixed");
		}
	}
	ck_assert_int_eq(status, PCAP_ERROR_BREAK);
	pcap_close(pcap);
	for (int i = 0; i < 4; i++)
		ck_assert_uint_eq(counts[i], RECORDS);

	capture_close(capture_open(expanded));
	expect_vectors(0);
}
END_TEST

/* exit() writes what streams hold: in a forked child that would be the parent's records again. */
START_TEST(forked_child)
{
	struct path path = vector_path();
	struct capture *capture = capture_open(name);
	pid_t pid;
	int status;

	ck_assert_ptr_nonnull(capture);
	send_vector(capture, &path, 0);
	pid = fork();
	if (pid == 0) {
		capture_after_fork_child(capture);
		fflush(NULL);
		_exit(0);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	capture_close(capture);
	expect_vectors(1);
}
END_TEST

/* As on some file systems of the network. */
static bool without_locks;

int flock(int fd, int operation)
{
	if (!without_locks)
		return syscall(SYS_flock, fd, operation);
	errno = ENOLCK;
	return -1;
}

/*
 * It has its header, and nothing of an earlier run; nor of a process that still runs, which can't
 * be known.
 */
START_TEST(file_system_without_locks)
{
	static struct said said;
	struct path path = vector_path();
	struct capture *capture;

	without_locks = true;
	said_begin(&said);
	capture = capture_open(name);
	said_end(&said);
	ck_assert_str_eq(said.text, "");
	ck_assert_ptr_nonnull(capture);
	send_vector(capture, &path, 0);
	capture_close(capture);
	said_begin(&said);
	capture = capture_open(name);
	said_end(&said);
	ck_assert_ptr_nonnull(strstr(said.text, "the file system has no locks (%p in its name"));
	ck_assert_ptr_nonnull(capture);
	send_vector(capture, &path, 0);
	capture_close(capture);
	without_locks = false;
	expect_vectors(1);
}
END_TEST

START_TEST(unwritable)
{
	errno = 0;
	ck_assert_ptr_null(capture_open("/nonexistent/directory/a.pcap"));
	ck_assert_int_eq(errno, ENOENT);
	ck_assert_ptr_null(capture_open("/dev/full"));
	ck_assert_int_eq(errno, ENOSPC);
}
END_TEST

/* What is written before can be read. */
START_TEST(ends_where_there_is_no_space)
{
	const struct rlimit limit = {.rlim_cur = 200, .rlim_max = RLIM_INFINITY};
	struct rlimit before;
	struct link_frame frame = {.data = vector + UDP_PAYLOAD,
				   .length = sizeof(vector) - UDP_PAYLOAD,
				   .source = gid_of("192.168.0.2"),
				   .destination = gid_of("192.168.0.1")};
	struct capture *capture = capture_open(name);
	char error[PCAP_ERRBUF_SIZE];
	pcap_t *pcap;

	ck_assert_ptr_nonnull(capture);
	/* Check's assertions write a file, too. */
	must(getrlimit(RLIMIT_FSIZE, &before) == 0 && setrlimit(RLIMIT_FSIZE, &limit) == 0);
	for (unsigned int i = 0; i < 4; i++) {
		capture_received(capture, &frame);
		must((frame.captured != 0) == (i <= 2));
		capture_flush(capture);
	}
	capture_close(capture);
	must(setrlimit(RLIMIT_FSIZE, &before) == 0);
	pcap = pcap_open_offline(expanded, error);
	ck_assert_msg(pcap != NULL, "%s", error);
	next_record(pcap, sizeof(vector));
	next_record(pcap, sizeof(vector));
	pcap_close(pcap);
}
END_TEST

/* The application has closed the file, and what it opened next has the number. */
START_TEST(a_file_of_the_application_is_left_alone)
{
	struct path path = vector_path();
	int next = dup(STDIN_FILENO), ends[2];
	struct capture *capture;
	char byte;

	close(next);
	capture = capture_open(name);
	ck_assert_ptr_nonnull(capture);
	ck_assert_int_eq(pipe2(ends, O_NONBLOCK), 0);
	ck_assert_int_eq(dup2(ends[1], next), next);
	close(ends[1]);
	send_vector(capture, &path, 0);
	capture_flush(capture);
	capture_close(capture);
	ck_assert_int_eq(read(ends[0], &byte, 1), -1);
	ck_assert_int_eq(errno, EAGAIN); /* nothing was written, and it is open */
	ck_assert_int_eq(close(next), 0);
	close(ends[0]);
}
END_TEST

static void ignore_alarm(int number)
{
}

/* The process that writes the file's header is waited for, though signals come meanwhile. */
START_TEST(waits_for_the_header)
{
	const struct sigaction action = {.sa_handler = ignore_alarm}; /* without SA_RESTART */
	const struct itimerval often = {{.tv_usec = 10000}, {.tv_usec = 10000}};
	int file = open(expanded, O_WRONLY | O_CREAT | O_CLOEXEC, 0600), ends[2], status;
	struct pollfd opened;
	pid_t pid;

	ck_assert_int_eq(flock(file, LOCK_EX), 0);
	ck_assert_int_eq(pipe(ends), 0);
	pid = fork();
	if (pid == 0) {
		close(file);
		sigaction(SIGALRM, &action, NULL);
		setitimer(ITIMER_REAL, &often, NULL);
		if (capture_open(expanded) && write(ends[1], "", 1) == 1)
			pause();
		_exit(1);
	}
	opened = (struct pollfd){.fd = ends[0], .events = POLLIN};
	ck_assert_int_eq(poll(&opened, 1, 100), 0);
	ck_assert_int_eq(flock(file, LOCK_UN), 0);
	ck_assert_int_eq(poll(&opened, 1, 50000), 1);
	ck_assert_int_ne(flock(file, LOCK_EX | LOCK_NB), 0);
	ck_assert_int_eq(kill(pid, SIGKILL), 0);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	close(ends[0]);
	close(ends[1]);
	close(file);
}
END_TEST

/* A process without stderr goes on writing its log there. */
START_TEST(a_closed_stderr_is_not_the_capture)
{
	struct path path = vector_path();
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		struct capture *capture;

		close(STDERR_FILENO);
		capture = capture_open(expanded);
		if (!capture)
			_exit(1);
		log_error("this is no packet");
		send_vector(capture, &path, 0);
		capture_close(capture);
		_exit(0);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	expect_vectors(1);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("capture");
	TCase *tests = tcase_create("capture");

	tcase_set_timeout(tests, 60);
	tcase_add_checked_fixture(tests, setup, teardown);
	tcase_add_test(tests, sent_and_received);
	tcase_add_test(tests, ipv6);
	tcase_add_test(tests, processes_share_a_file);
	tcase_add_test(tests, forked_child);
	tcase_add_test(tests, file_system_without_locks);
	tcase_add_test(tests, unwritable);
	tcase_add_test(tests, ends_where_there_is_no_space);
	tcase_add_test(tests, a_file_of_the_application_is_left_alone);
	tcase_add_test(tests, waits_for_the_header);
	tcase_add_test(tests, a_closed_stderr_is_not_the_capture);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
