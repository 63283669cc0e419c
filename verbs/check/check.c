/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/check/check.h"

#include <pthread.h>

#include "net/cause/origin.h"
#include "net/log.h"
#include "net/quarantine.h"
#include "verbs/check/report.h"
#include "verbs/check/requirements.h"
#include "verbs/check/work.h"
#include "verbs/host.h"
#include "verbs/registry.h"

static struct check_options options; /* written before there is any object */

bool check_is_on(void)
{
	return options.on;
}

/* The thread that watches waiters reports with their locks held. */
static void check_before_fork(void)
{
	work_before_fork();
	objects_enter();
	reports_before_fork();
	quarantine_before_fork();
}

static void check_after_fork(void)
{
	quarantine_after_fork();
	reports_after_fork();
	objects_leave();
	work_after_fork();
}

static void check_after_fork_in_child(void)
{
	quarantine_after_fork();
	reports_after_fork_child();
	objects_inherit();
	objects_leave();
	work_after_fork_child();
}

bool check_can_take(pthread_mutex_t *lock)
{
	if (!process_host.lock_at_exit(lock))
		return false;
	pthread_mutex_unlock(lock);
	return true;
}

static void check_at_exit(void)
{
	if (!objects_can_enter() || !work_can_lock() || !reports_can_lock()) {
		log_warn("URXE_CHECK: what is left isn't reported: the process exits in the middle "
			 "of a call, by a signal's handler");
		return;
	}
	if (!options.no_leaks)
		check_leaks();
	work_at_exit();
	check_summarize();
	if (options.exit_status && check_reported())
		registry_exit_with(options.exit_status);
}

static void start(void)
{
	static struct registry_hooks reports_forks = {
		.order = FORK_OUTERMOST,
		.before_fork = check_forks,
	};
	static struct registry_hooks hooks = {
		.order = FORK_LEAF,
		.before_fork = check_before_fork,
		.after_fork_in_parent = check_after_fork,
		.after_fork_in_child = check_after_fork_in_child,
		.at_exit = check_at_exit,
	};

	options = registry_configuration()->check;
	if (options.on && !quarantine_enable(object_forget)) {
		log_error("out of memory: there is no checker");
		options.on = false;
	}
	if (!options.on)
		return;
	origin_prepare();
	requirements_prepare();
	registry_add_hooks(&reports_forks);
	registry_add_hooks(&hooks);
}

void check_start(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, start);
}
