/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A ring in shared memory: what its writer puts into it its reader finds, in order and whole, also
 * where it wraps and when it was full; in one process and in two. And what another process writes
 * into it ends neither of them.
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gid_of.h"
#include "net/random.h"
#include "net/shm/ring.h"
#include "tests/run_suite.h"

static struct ring writer, reader;
static struct ring_source from;
static char path[64];

static void open_both(void)
{
	snprintf(path, sizeof(path), "/dev/shm/urxe-test-ring-%d", (int)getpid());
	from = (struct ring_source){gid_of("127.0.0.1"), gid_of("127.0.0.2"), 50000, 2, 64};
	ck_assert_int_eq(ring_create(&writer, path), 0);
	ck_assert_int_eq(ring_open(&reader, path), 0);
}

static void close_both(void)
{
	ring_close(&writer);
	ring_close(&reader);
	unlink(path);
}

/* An assertion of Check that holds costs microseconds. */
static void must(bool holds)
{
	if (!holds)
		ck_abort_msg("a packet isn't what was written");
}

static uint32_t length_of(uint64_t number)
{
	return 16 + number * 7919 % 4100;
}

static bool append(uint64_t number, uint32_t length)
{
	uint8_t *to = ring_reserve(&writer, &from, length);

	if (!to)
		return false;
	memset(to, number, length);
	ring_append(&writer, &from, length, number & 1);
	return true;
}

static bool put(uint64_t number, uint32_t length)
{
	if (!append(number, length))
		return false;
	ring_publish(&writer);
	return true;
}

static bool get_one(uint64_t number, uint32_t length, bool last)
{
	static uint8_t expected[RING_PACKET_MAX];
	struct ring_packet packet;

	if (!ring_receive(&reader, &packet))
		return false;
	memset(expected, number, length);
	must(packet.length == length && packet.sealed == (number & 1) && packet.last == last);
	must(memcmp(&packet.from.source, &from.source, sizeof(from.source)) == 0);
	must(memcmp(&packet.from.destination, &from.destination, sizeof(from.destination)) == 0);
	must(packet.from.source_port == from.source_port);
	must(packet.from.traffic_class == from.traffic_class);
	must(packet.from.hop_limit == from.hop_limit);
	must(memcmp(packet.data, expected, length) == 0);
	return true;
}

/* What was published alone. */
static bool get(uint64_t number, uint32_t length)
{
	return get_one(number, length, true);
}

START_TEST(wraps)
{
	for (uint64_t number = 0; number < 3000; number++) {
		must(!ring_has_more(&reader));
		must(put(number, length_of(number)));
		must(ring_has_more(&reader));
		must(get(number, length_of(number)));
		ring_release(&reader);
		must(ring_unread(&writer) == 0);
	}
	ck_assert_uint_gt(writer.next, 3 * RING_BYTES);
}
END_TEST

START_TEST(fills_and_empties)
{
	uint64_t put_count = 0, got = 0;

	for (int round = 0; round < 5; round++) {
		while (put(put_count, length_of(put_count)))
			put_count++;
		ck_assert(!writer.broken);
		ck_assert_uint_lt(ring_space(&writer), 8192);
		while (got < put_count - round)
			must(get(got, length_of(got))), got++;
		/* Nothing is written over before it is released. */
		ck_assert(!put(put_count, 4000));
		ring_release(&reader);
	}
	ck_assert(!reader.broken);
}
END_TEST

/* To the last line, which stays free: there is the word that says that no record follows. */
START_TEST(fills_to_the_brim)
{
	uint64_t count = 0;

	ck_assert(put(0, 40) && get(0, 40)); /* the only one with addresses */
	ring_release(&reader);
	while (put(count, 40))
		count++;
	ck_assert_uint_eq(count, RING_BYTES / CACHE_LINE - 1);
	for (uint64_t number = 0; number < count; number++)
		must(get(number, 40));
	ck_assert(!ring_has_more(&reader));
}
END_TEST

/* What was reserved is nothing until it is published. */
START_TEST(begins_anew)
{
	uint8_t *to = ring_reserve(&writer, &from, 4096);

	ck_assert_ptr_nonnull(to);
	memset(to, 0xff, 4096);
	ck_assert(!ring_has_more(&reader));
	ck_assert(put(1, 40));
	ck_assert(get(1, 40));
	ck_assert(!ring_has_more(&reader));
	/* The other way round: the first is built elsewhere than in the ring. */
	to = ring_reserve(&writer, &from, 40);
	ck_assert_ptr_nonnull(to);
	memset(to, 0xff, 40);
	ck_assert(put(2, 4096));
	ck_assert(get(2, 4096));
	ck_assert(put(3, 40));
	ck_assert(get(3, 40));
}
END_TEST

/* All at once, or none of them. */
START_TEST(publishes_together)
{
	for (uint64_t number = 0; number < 10; number++) {
		ck_assert(append(number, 40));
		ck_assert(!ring_has_more(&reader));
	}
	ck_assert_uint_ge(ring_unpublished(&writer), 400);
	ring_publish(&writer);
	ck_assert_uint_eq(ring_unpublished(&writer), 0);
	for (uint64_t number = 0; number < 10; number++)
		ck_assert(get_one(number, 40, number == 9));
	ck_assert(!ring_has_more(&reader));
}
END_TEST

/* Some of them are built elsewhere than in the ring, and which depends on those before. */
START_TEST(publishes_any_mix)
{
	static const uint32_t lengths[] = {20, 56, 57, 100, 121, 4096};
	const unsigned int kinds = sizeof(lengths) / sizeof(lengths[0]);

	/* One to four, each of any kind. */
	for (unsigned int mix = 0; mix < 4 * kinds * kinds * kinds * kinds; mix++) {
		unsigned int count = 1 + mix % 4;

		for (unsigned int i = 0, rest = mix / 4; i < count; i++, rest /= kinds)
			must(append(mix + i, lengths[rest % kinds]));
		must(!ring_has_more(&reader));
		ring_publish(&writer);
		for (unsigned int i = 0, rest = mix / 4; i < count; i++, rest /= kinds)
			must(get_one(mix + i, lengths[rest % kinds], i + 1 == count));
		must(!ring_has_more(&reader));
		ring_release(&reader);
	}
	ck_assert_uint_gt(writer.next, RING_BYTES);
}
END_TEST

START_TEST(refuses_what_is_too_long)
{
	ck_assert_ptr_null(ring_reserve(&writer, &from, RING_PACKET_MAX + 1));
	ck_assert_ptr_nonnull(ring_reserve(&writer, &from, RING_PACKET_MAX));
}
END_TEST

START_TEST(tells_addresses_when_they_change)
{
	const union ibv_gid others[] = {gid_of("127.0.0.3"), gid_of("fd00::1"),
					gid_of("127.0.0.3")};

	for (uint64_t number = 0; number < 30; number++) {
		from.source = others[number / 3 % 3];
		from.traffic_class = number;
		ck_assert(put(number, 40));
	}
	for (uint64_t number = 0; number < 30; number++) {
		from.source = others[number / 3 % 3];
		from.traffic_class = number;
		ck_assert(get(number, 40));
	}
}
END_TEST

#define MANY 20000

static void read_all(void)
{
	for (uint64_t number = 0; number < MANY;) {
		if (get(number, 24 + number % 300)) {
			number++;
			continue;
		}
		must(!reader.broken);
		ring_release(&reader);
		sched_yield();
	}
	_exit(0);
}

START_TEST(between_processes)
{
	pid_t pid = fork();
	int status;

	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		/* A child has no mapping of its parent's. */
		ck_assert_int_eq(ring_open(&reader, path), 0);
		read_all();
	}
	for (uint64_t number = 0; number < MANY; number++) {
		while (!put(number, 24 + number % 300)) {
			must(!writer.broken);
			sched_yield();
		}
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}
END_TEST

/* --- what isn't to be trusted ----------------------------------------------------------------- */

START_TEST(breaks_at_a_bad_word)
{
	static const uint32_t words[] = {1,	     0x7fffffff, 0xffffffff, 0x8000ffff,
					 0x80002001, 64,	 0x80010028};
	struct ring_packet packet;

	atomic_store(ring_word(&writer, 0), words[_i]);
	ck_assert(ring_has_more(&reader));
	ck_assert(!ring_receive(&reader, &packet));
	ck_assert(reader.broken);
	ck_assert(!ring_has_more(&reader));
}
END_TEST

/* Records without an end, which the writer has never seen released. */
START_TEST(breaks_at_more_than_there_is)
{
	struct ring_packet packet;

	for (uint64_t at = 0; at < RING_BYTES; at += CACHE_LINE)
		atomic_store(ring_word(&writer, at), 0x80000028);
	for (uint64_t at = 0; at < RING_BYTES; at += CACHE_LINE)
		must(ring_receive(&reader, &packet));
	ck_assert(!ring_receive(&reader, &packet));
	ck_assert(reader.broken);
}
END_TEST

START_TEST(breaks_at_a_bad_place)
{
	static const uint64_t places[] = {65, UINT64_MAX - 200, RING_BYTES, UINT64_C(1) << 40};

	ck_assert(put(0, 40));
	writer.released = 0;
	atomic_store(&reader.head->released, places[_i] + writer.next);
	ck_assert_uint_eq(ring_space(&writer), 0);
	ck_assert(writer.broken);
	while (put(1, 4096))
		must(writer.next < 2 * RING_BYTES);
}
END_TEST

/* Whatever is in it: no access beyond the mapping, and an end. */
START_TEST(survives_random_bytes)
{
	uint64_t random = _i + 1, total = 0;
	struct ring_packet packet;

	for (uint32_t i = 0; i < RING_BYTES / 8; i++)
		memcpy(writer.bytes + 8 * i, &(uint64_t){random_next(&random)}, 8);
	for (uint32_t i = 0; i < RING_BYTES / CACHE_LINE; i += 1 + _i % 3) {
		uint32_t word = random_next(&random) & 0xf0000fff;

		memcpy(writer.bytes + i * CACHE_LINE, &word, sizeof(word));
	}
	for (unsigned int i = 0; i < 100000 && ring_receive(&reader, &packet); i++) {
		must(packet.length <= RING_PACKET_MAX && packet.data >= reader.bytes);
		must(packet.data + packet.length <= reader.bytes + 2 * RING_BYTES);
		for (uint32_t k = 0; k < packet.length; k += 64)
			total += packet.data[k];
		if (i % 8 == 0)
			ring_release(&reader);
	}
	ck_assert_uint_ge(total, 0);
	/* And the other side's word, too. */
	atomic_store(&writer.head->released, random_next(&random));
	while (put(1, 4096) && writer.next < 4 * RING_BYTES)
		;
	ck_assert_uint_le(ring_space(&writer), RING_BYTES);
}
END_TEST

START_TEST(refuses_files_that_are_no_rings)
{
	struct ring ring = {};
	int fd;

	ck_assert_int_eq(ring_create(&ring, path), EEXIST);
	chmod(path, 0644);
	ck_assert_int_eq(ring_open(&ring, path), EPERM);
	unlink(path);
	ck_assert_int_eq(ring_open(&ring, path), ENOENT);
	fd = open(path, O_CREAT | O_RDWR, 0600);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(ftruncate(fd, 4096), 0);
	close(fd);
	ck_assert_int_eq(ring_open(&ring, path), EBADMSG);
	ck_assert_ptr_null(ring.head);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("ring");
	TCase *tcase = tcase_create("ring");

	tcase_add_checked_fixture(tcase, open_both, close_both);
	tcase_set_timeout(tcase, 120);
	tcase_add_test(tcase, wraps);
	tcase_add_test(tcase, fills_and_empties);
	tcase_add_test(tcase, fills_to_the_brim);
	tcase_add_test(tcase, begins_anew);
	tcase_add_test(tcase, publishes_together);
	tcase_add_test(tcase, publishes_any_mix);
	tcase_add_test(tcase, refuses_what_is_too_long);
	tcase_add_test(tcase, tells_addresses_when_they_change);
	tcase_add_test(tcase, between_processes);
	tcase_add_loop_test(tcase, breaks_at_a_bad_word, 0, 7);
	tcase_add_test(tcase, breaks_at_more_than_there_is);
	tcase_add_loop_test(tcase, breaks_at_a_bad_place, 0, 4);
	tcase_add_loop_test(tcase, survives_random_bytes, 0, 20);
	tcase_add_test(tcase, refuses_files_that_are_no_rings);
	suite_add_tcase(suite, tcase);
	return run_suite(suite);
}
