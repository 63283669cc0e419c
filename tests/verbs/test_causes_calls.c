/* SPDX-License-Identifier: BSD-2-Clause */
/* Refused calls of libibverbs: every cause of net/cause/calls.def, and what is said of it. */
#include "tests/run_suite.h"
#include "tests/verbs/causes.h"
#include "tests/verbs/fixture.h"

static void lid_alone(void)
{
	struct ibv_context *context = fixture_open();
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_ah_attr attr = {.dlid = 42, .port_num = 1};

	ck_assert_ptr_null(ibv_create_ah(pd, &attr));
}

static const struct cause_row rows[] = {
	{CAUSE_PATH_NOT_GLOBAL, lid_alone, "is_global is 0, dlid 42"},
};

static const struct cause_table table = {
	.name = "causes of calls",
	.first = 0x4000,
	.last = 0x47ff,
	.rows = rows,
	.count = sizeof(rows) / sizeof(rows[0]),
	.alone = true,
};

int main(void)
{
	return run_suite(causes_suite(&table));
}
