/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Refused calls of libibverbs: every cause of net/cause/calls.def, and what is said of it. In a
 * network namespace, whose loopback device has the MTU of an Ethernet.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/run_suite.h"
#include "tests/verbs/causes_calls.h"
#include "tests/verbs/namespace.h"

#define ROWS_MAX 256

static const struct call_rows *const subjects[] = {&calls_objects, &calls_qp, &calls_post,
						   &calls_queues};

int main(void)
{
	static struct cause_row rows[ROWS_MAX];
	static struct cause_table table = {
		.name = "causes of calls",
		.first = 0x4000,
		.last = 0x47ff,
		.rows = rows,
		.alone = true,
	};

	for (unsigned int i = 0; i < sizeof(subjects) / sizeof(subjects[0]); i++) {
		if (table.count + subjects[i]->count > ROWS_MAX)
			return EXIT_FAILURE;
		memcpy(&rows[table.count], subjects[i]->rows, subjects[i]->count * sizeof(*rows));
		table.count += subjects[i]->count;
	}
	if (!namespace_enter())
		return SKIPPED;
	if (system("ip link set lo up mtu 1500") != 0)
		return EXIT_FAILURE;
	return run_suite(causes_suite(&table));
}
