/* SPDX-License-Identifier: BSD-2-Clause */
#include "emu/objects/users.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "net/cause/cause.h"

static const char *const names[] = {
	[USER_MR] = "memory region",  [USER_MW] = "memory window",
	[USER_QP] = "queue pair",     [USER_SRQ] = "shared receive queue",
	[USER_AH] = "address handle", [USER_PARENT_DOMAIN] = "parent domain",
};

int users_check(struct users *users, const char *call)
{
	char text[160];
	size_t used = 0;

	for (unsigned int i = 0; i < USER_KINDS && used < sizeof(text); i++) {
		uint32_t count = atomic_load(&users->counts[i]);

		if (count)
			used += snprintf(text + used, sizeof(text) - used, "%s%" PRIu32 " %s%s",
					 used ? ", " : "", count, names[i], count > 1 ? "s" : "");
	}
	return used ? refuse(EBUSY, CAUSE_OBJECT_IN_USE, "%s: in use by %s", call, text) : 0;
}
