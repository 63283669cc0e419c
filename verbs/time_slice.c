/* SPDX-License-Identifier: BSD-2-Clause */
/* Newer C libraries declare struct sched_attr in <sched.h>, too, which isn't included here. */
#include "verbs/time_slice.h"

#include <linux/sched/types.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "net/tuning.h"

void time_slice_shorten(void)
{
	struct sched_attr attr = {.size = sizeof(attr)};

	if (syscall(SYS_sched_getattr, 0, &attr, sizeof(attr), 0) != 0)
		return;
	attr.sched_runtime = PROGRESS_TIME_SLICE;
	syscall(SYS_sched_setattr, 0, &attr, 0);
}
