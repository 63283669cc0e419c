/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the tests of the core's objects share: an HCA that has limits, tables
 * and an event queue but no link, and a sink that counts what it is told.
 */
#ifndef URXE_TESTS_UNIT_CORE_H
#define URXE_TESTS_UNIT_CORE_H

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "emu/hca.h"
#include "emu/objects/pd.h"
#include "faults.h"
#include "net/spin.h"
#include "tests/destroy.h"
#include "tests/run_suite.h"
#include "verbs/host.h"

#define KEYS_FIRST 1
#define KEYS_LIMIT 5000

struct told {
	unsigned int completions, async;
	void *element; /* of the last one */
	enum ibv_event_type type;
};

static struct told told;
static struct hca core;
static struct observe_device core_shown;

static inline void told_completion(void *context, struct cq *cq)
{
	told.completions++;
	told.element = cq;
}

static inline void told_async(void *context, enum ibv_event_type type, void *element)
{
	told.async++;
	told.type = type;
	told.element = element;
}

static inline void core_setup(void)
{
	static const struct event_sink sink = {.completion = told_completion, .async = told_async};

	catch_faults();
	memset(&core, 0, sizeof(core));
	memset(&core_shown, 0, sizeof(core_shown));
	memset(&told, 0, sizeof(told));
	core.observed = &core_shown;
	core.counters = &core_shown.counters;
	core.limits = hca_limits_core;
	core.limits.device.max_pd = 4;
	core.limits.device.max_ah = 4;
	core.limits.device.max_cq = 4;
	core.limits.device.max_cqe = 1000;
	core.limits.device.max_srq = 4;
	core.limits.device.max_srq_wr = 1000;
	core.limits.device.max_srq_sge = 4;
	core.limits.device.phys_port_cnt = 1;
	core.host = &process_host;
	core.limits.max_cq_period = 1000;
	ck_assert_int_eq(table_init(&core.keys, core.host, KEYS_FIRST, KEYS_LIMIT), 0);
	ck_assert_int_eq(table_init(&core.cqs, core.host, 1, core.limits.device.max_cq + 1), 0);
	timer_heap_init(&core.timers);
	event_queue_init(&core.events, &sink);
	former_keys_init(&core.former_keys);
	ack_queue_init(&core.acks);
	spin_init(&core.receive_lock);
	spin_init(&core.run_lock);
	pthread_mutex_init(&core.destinations_lock, NULL);
	pthread_mutex_init(&core.xrc_lock, NULL);
}

static inline void core_teardown(void)
{
	pthread_mutex_destroy(&core.xrc_lock);
	pthread_mutex_destroy(&core.destinations_lock);
	pthread_spin_destroy(&core.run_lock);
	pthread_spin_destroy(&core.receive_lock);
	ack_queue_destroy(&core.acks);
	former_keys_destroy(&core.former_keys);
	event_queue_destroy(&core.events);
	timer_heap_destroy(&core.timers);
	table_destroy(&core.cqs);
	table_destroy(&core.keys);
}

static inline struct pd *core_pd(void)
{
	struct pd *pd;

	ck_assert_int_eq(pd_alloc(&core, &pd), 0);
	return pd;
}

/* Run @tests, a list that ends with NULL, each with the HCA set up. */
static inline int core_run(const char *name, const TTest *const *tests)
{
	Suite *suite = suite_create(name);
	TCase *tcase = tcase_create(name);

	tcase_set_timeout(tcase, 100);
	tcase_add_checked_fixture(tcase, core_setup, core_teardown);
	for (; *tests; tests++)
		tcase_add_test(tcase, *tests);
	suite_add_tcase(suite, tcase);
	return run_suite(suite);
}

#endif
