/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Forks with registered memory. Before Linux 5.12 a page that was registered with a device, and is
 * written to after a fork, is copied: the device goes on with the old one, unless ibv_fork_init()
 * has kept the child from having it.
 */
#include <stdatomic.h>
#include <unistd.h>

#include "verbs/check/check.h"
#include "verbs/check/report.h"
#include "verbs/registry.h"

static atomic_bool is_prepared; /* or the application knows that it needn't be */

struct regions {
	unsigned int count;
	struct object *first; /* referenced */
};

static void count_region(void *argument, struct object *object)
{
	struct regions *regions = argument;

	if (object->kind != OBJECT_MR)
		return;
	regions->count++;
	if (!regions->first)
		regions->first = object_reference(object);
}

static void report_regions(enum cause cause, const char *call)
{
	struct regions regions = {};

	objects_visit(count_region, &regions);
	if (regions.count)
		check_report(cause, CHECK_PLACES({"registered", regions.first->made}),
			     "%s: %u %s, such as %s", call, regions.count,
			     object_kind_text(OBJECT_MR, regions.count), regions.first->name);
	object_put(regions.first);
}

void check_fork_init(void)
{
	check_start();
	if (check_is_on() && !atomic_exchange(&is_prepared, true))
		report_regions(CAUSE_FORK_INIT_LATE, "ibv_fork_init()");
}

void check_fork_asked(void)
{
	atomic_store(&is_prepared, true);
}

void check_forks(void)
{
	if (!atomic_load(&is_prepared) && !registry_configuration()->fork_safe)
		report_regions(CAUSE_FORK_WITHOUT_INIT, "fork()");
}

void check_inherited(const char *call)
{
	if (check_is_on())
		check_report(CAUSE_OBJECT_OF_PARENT, CHECK_NO_PLACES, "%s, process %d", call,
			     (int)getpid());
}
