/* SPDX-License-Identifier: BSD-2-Clause */
/* Faults of our own access to memory, with a handler that knows nothing but the guard. */
#include <check.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "net/guard.h"
#include "net/link.h"
#include "net/wire/icrc.h"
#include "tests/run_suite.h"

static size_t page;
static uint8_t *memory; /* two pages, the second of which is gone */
static sigjmp_buf not_ours;

static void on_signal(int number, siginfo_t *info, void *context)
{
	if (guard_catch(number, info, context))
		return;
	siglongjmp(not_ours, 1);
}

/* libc's own: a handler that TSan has in its hands mustn't jump. */
int __sigaction(int number, const struct sigaction *action, struct sigaction *old);

static void setup(void)
{
	struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO};

	sigemptyset(&action.sa_mask);
	ck_assert_int_eq(__sigaction(SIGSEGV, &action, NULL), 0);
	ck_assert_int_eq(__sigaction(SIGBUS, &action, NULL), 0);
	page = sysconf(_SC_PAGESIZE);
	memory = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(memory, MAP_FAILED);
	ck_assert_int_eq(munmap(memory + page, page), 0);
}

static void teardown(void)
{
	munmap(memory, page);
}

/* No address at all has no shadow. */
__attribute__((no_sanitize("address"), no_sanitize("thread"))) static void read_byte(void *address)
{
	(void)*(volatile uint8_t *)address;
}

/* However it lies: the last word is stored apart from the rest. */
START_TEST(copies_what_is_there)
{
	uint8_t bytes[100], read[100], expected[120] = {0};

	for (unsigned int i = 0; i < sizeof(bytes); i++)
		bytes[i] = i + 1;
	for (unsigned int length = 0; length <= sizeof(bytes); length++) {
		memset(memory, 0, sizeof(expected));
		memset(expected, 0, sizeof(expected));
		memcpy(expected + _i, bytes, length);
		ck_assert(guard_write(memory + _i, bytes, length, NULL));
		ck_assert_mem_eq(memory, expected, sizeof(expected));
		ck_assert(guard_read(read, memory + _i, length, NULL));
		ck_assert_mem_eq(read, bytes, length);
	}
}
END_TEST

/* Of what faults before its end a program that waits for that sees nothing. */
START_TEST(the_last_word_comes_last)
{
	static const uint8_t bytes[2048] = {[0 ... 2047] = 0x5a};
	uint8_t *two =
		mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	ck_assert_ptr_ne(two, MAP_FAILED);
	ck_assert_int_eq(mprotect(two, page, PROT_READ), 0);
	for (size_t before = 1; before <= 64; before++) {
		for (size_t length = before + 8; length <= sizeof(bytes); length += 8) {
			ck_assert(!guard_write(two + page - before, bytes, length, NULL));
			ck_assert_uint_ne(two[page - before + length - 1], 0x5a);
			memset(two + page, 0, sizeof(bytes));
		}
	}
	munmap(two, 2 * page);
}
END_TEST

START_TEST(a_fault_ends_the_copy_alone)
{
	uint8_t bytes[100] = {0};
	struct guard_fault fault;

	for (int i = 0; i < 2; i++) {
		ck_assert(!guard_write(memory + page - 50, bytes, sizeof(bytes), &fault));
		ck_assert_int_eq(fault.signal, SIGSEGV);
		ck_assert_str_eq(guard_fault_text(&fault), "not mapped any more");
		ck_assert(!guard_read(bytes, memory + page - 50, sizeof(bytes), NULL));
		ck_assert(guard_read(bytes, memory + page - 100, sizeof(bytes), NULL));
	}
}
END_TEST

#ifdef __LP64__
/* These are in no page table: x86 doesn't say where that was, arm64 not all of it. */
START_TEST(what_is_no_address_ends_the_access_too)
{
	static const uint64_t addresses[] = {UINT64_C(1) << 47, UINT64_C(1) << 62,
					     UINT64_C(0xab00000000001000),
					     UINT64_C(0xffff7fffffffffff)};
	struct guard_fault fault;

	for (size_t i = 0; i < sizeof(addresses) / sizeof(addresses[0]); i++) {
		ck_assert(!guard_probe((void *)addresses[i], 1, false, &fault));
#ifdef __x86_64__
		ck_assert_str_eq(guard_fault_text(&fault), "beyond all addresses");
#endif
		ck_assert(!guard_probe((void *)addresses[i], 1, true, NULL));
	}
}
END_TEST

/* Where our access can't be what faulted. */
START_TEST(what_is_no_address_elsewhere_is_not_ours)
{
	const struct iovec guarded = {memory, page};
	volatile bool caught = false;

	if (sigsetjmp(not_ours, 1))
		caught = true;
	else
		guard_run(&guarded, 1, read_byte, (void *)(UINT64_C(1) << 62), NULL);
	ck_assert(caught);
}
END_TEST
#endif

START_TEST(probes_each_page)
{
	struct guard_fault fault;

	ck_assert(guard_probe(memory, page, true, NULL));
	ck_assert(guard_probe(memory + page, 0, true, NULL));
	ck_assert(!guard_probe(memory, page + 1, false, &fault));
	ck_assert_ptr_eq(fault.address, memory + page);
	memory[page - 1] = 0xa5;
	ck_assert_int_eq(mprotect(memory, page, PROT_READ), 0);
	ck_assert(guard_probe(memory, page, false, NULL));
	ck_assert(!guard_probe(memory + page - 1, 1, true, &fault));
	ck_assert_str_eq(guard_fault_text(&fault), "protected");
	ck_assert_uint_eq(memory[page - 1], 0xa5);
}
END_TEST

/* As of a handler of the application's that has interrupted our access. */
START_TEST(a_fault_elsewhere_is_not_ours)
{
	const struct iovec guarded = {memory, page};
	volatile bool caught = false;

	if (sigsetjmp(not_ours, 1))
		caught = true;
	else
		guard_run(&guarded, 1, read_byte, memory + page, NULL);
	ck_assert(caught);
}
END_TEST

static void copy_and_touch(void *context)
{
	uint8_t byte;

	ck_assert(!guard_read(&byte, memory + page, 1, NULL));
	read_byte(context);
}

START_TEST(guards_nest)
{
	const struct iovec outer = {memory + page, page};

	ck_assert(!guard_run(&outer, 1, copy_and_touch, memory + page + 1, NULL));
}
END_TEST

static void sends_itself_a_signal(void *context)
{
	raise(SIGSEGV);
}

START_TEST(a_signal_that_was_sent_is_not_ours)
{
	const struct iovec guarded = {memory, page};
	volatile bool caught = false;

	if (sigsetjmp(not_ours, 1))
		caught = true;
	else
		guard_run(&guarded, 1, sends_itself_a_signal, NULL, NULL);
	ck_assert(caught);
}
END_TEST

START_TEST(a_file_that_is_gone_becomes_zeros)
{
	FILE *file = tmpfile();
	volatile uint8_t *shared;

	ck_assert_ptr_nonnull(file);
	ck_assert_int_eq(ftruncate(fileno(file), 3 * page), 0);
	shared = mmap(NULL, 3 * page, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
	ck_assert_ptr_ne((void *)shared, MAP_FAILED);
	ck_assert(guard_file((void *)shared, 3 * page));
	shared[0] = shared[2 * page] = 0x5a;
	ck_assert_int_eq(ftruncate(fileno(file), page), 0);
	ck_assert_uint_eq(shared[0], 0x5a);
	shared[2 * page] += 1;
	ck_assert_uint_eq(shared[2 * page], 1);
	ck_assert_uint_eq(shared[0], 0);
	guard_forget_file((void *)shared);
	munmap((void *)shared, 3 * page);
	fclose(file);
}
END_TEST

/* What happens to a packet whose memory goes behind the look that the core has taken at it. */
START_TEST(a_packet_without_its_memory_is_neither_copied_nor_sealed)
{
	static const struct path path = {.traffic_class = 0};
	struct iovec payload[] = {{memory, 100}, {memory + page - 50, 50}};
	struct link_packet packet = {
		.path = &path,
		.payload = payload,
		.payload_length = 150,
		.payload_count = 2,
		.headers_length = sizeof(struct bth),
		.trailer_length = 2 + ICRC_LENGTH,
	};
	uint8_t bytes[4096];

	ck_assert_ptr_eq(link_packet_copy(&packet, bytes), bytes + link_packet_length(&packet));
	ck_assert(icrc_seal(&packet, 1, 0));
	payload[1].iov_len++;
	packet.payload_length++;
	ck_assert_ptr_null(link_packet_copy(&packet, bytes));
	ck_assert(!icrc_seal(&packet, 1, 0));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("guard");
	TCase *tcase = tcase_create("guard");

	tcase_set_timeout(tcase, 100);
	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_add_loop_test(tcase, copies_what_is_there, 0, 16);
	tcase_add_test(tcase, the_last_word_comes_last);
	tcase_add_test(tcase, a_fault_ends_the_copy_alone);
#ifdef __LP64__
	tcase_add_test(tcase, what_is_no_address_ends_the_access_too);
	tcase_add_test(tcase, what_is_no_address_elsewhere_is_not_ours);
#endif
	tcase_add_test(tcase, probes_each_page);
	tcase_add_test(tcase, a_fault_elsewhere_is_not_ours);
	tcase_add_test(tcase, guards_nest);
	tcase_add_test(tcase, a_signal_that_was_sent_is_not_ours);
	tcase_add_test(tcase, a_file_that_is_gone_becomes_zeros);
	tcase_add_test(tcase, a_packet_without_its_memory_is_neither_copied_nor_sealed);
	suite_add_tcase(suite, tcase);
	return run_suite(suite);
}
