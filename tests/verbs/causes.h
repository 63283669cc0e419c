/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Programs that provoke causes (net/cause/cause.h) on purpose, as tables: each row makes one
 * failure happen, in a process of its own, and what that process writes to stderr with
 * URXE_EXPLAIN=1 has to name the cause and to say what was found. Every cause of the table's range
 * of numbers has a row.
 *
 * They are linked with liburxe and nothing of rdma-core, as the other tests with fixture.h.
 */
#ifndef URXE_TESTS_CAUSES_H
#define URXE_TESTS_CAUSES_H

#include <check.h>
#include <stdbool.h>
#include <stdint.h>

enum cause {
#define CAUSE(number, name, ...) CAUSE_##name = (number),
#include "net/cause/catalogue.def"
#undef CAUSE
};

struct cause_row {
	enum cause cause;
	/* Makes it happen, and returns when it has: what is to be written has been written. */
	void (*provoke)(void);
	/*
	 * Part of what is said to have been found: in the paragraph of an error, the line of a
	 * notice.
	 */
	const char *says;
	enum cause never; /* what is not reported besides; 0: anything may be */
};

struct cause_table {
	const char *name;
	uint32_t first, last; /* the numbers that it is about */
	const struct cause_row *rows;
	unsigned int count;
	bool alone; /* no row provokes another report of these numbers, nor its own twice */
};

/* For a row whose report comes later than a call: returns when stderr has @text. */
void wait_until_said(const char *text);

/* The tests of @table, which stays the caller's; main() gives the suite to run_suite(). */
Suite *causes_suite(const struct cause_table *table);

#endif
