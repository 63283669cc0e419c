/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/verbs/core_limits.h"

#include <check.h>
#include <errno.h>
#include <string.h>

#include "emu/hca.h"
#include "emu/objects/mw.h"
#include "emu/objects/pd.h"
#include "net/cause/cause.h"
#include "verbs/host.h"

#define KEYS 99

static struct hca core;

static struct pd *make_core(void)
{
	struct pd *pd;

	cause_configure(true);
	core.limits = hca_limits_core;
	core.limits.device.max_pd = 1;
	core.host = &process_host;
	pthread_mutex_init(&core.objects_lock, NULL);
	ck_assert_int_eq(table_init(&core.keys, core.host, 1, KEYS + 1), 0);
	ck_assert_int_eq(pd_alloc(&core, &pd), 0);
	return pd;
}

void use_up_keys(void)
{
	struct pd *pd = make_core();
	struct mw *mw;

	for (int i = 0; i < KEYS; i++)
		ck_assert_int_eq(mw_alloc(pd, IBV_MW_TYPE_1, &mw), 0);
	ck_assert_int_eq(mw_alloc(pd, IBV_MW_TYPE_1, &mw), ENOMEM);
}
