/* SPDX-License-Identifier: BSD-2-Clause */
#include "emu/objects/access.h"

#include <infiniband/verbs.h>
#include <stdio.h>

#include "net/newer_verbs.h"

static const struct {
	unsigned int bit;
	const char *name;
} names[] = {
	{IBV_ACCESS_LOCAL_WRITE, "LOCAL_WRITE"},
	{IBV_ACCESS_REMOTE_WRITE, "REMOTE_WRITE"},
	{IBV_ACCESS_REMOTE_READ, "REMOTE_READ"},
	{IBV_ACCESS_REMOTE_ATOMIC, "REMOTE_ATOMIC"},
	{IBV_ACCESS_MW_BIND, "MW_BIND"},
	{IBV_ACCESS_ZERO_BASED, "ZERO_BASED"},
	{IBV_ACCESS_ON_DEMAND, "ON_DEMAND"},
	{IBV_ACCESS_HUGETLB, "HUGETLB"},
	{ACCESS_FLUSH_GLOBAL, "FLUSH_GLOBAL"},
	{ACCESS_FLUSH_PERSISTENT, "FLUSH_PERSISTENT"},
	{IBV_ACCESS_RELAXED_ORDERING, "RELAXED_ORDERING"},
};

const char *access_text(unsigned int access, char text[ACCESS_TEXT])
{
	size_t used = 0;

	snprintf(text, ACCESS_TEXT, "no access flags");
	for (unsigned int i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (!(access & names[i].bit))
			continue;
		used += snprintf(text + used, ACCESS_TEXT - used, "%s%s", used ? ", " : "",
				 names[i].name);
		access &= ~names[i].bit;
	}
	if (access)
		snprintf(text + used, ACCESS_TEXT - used, "%s0x%x", used ? ", " : "", access);
	return text;
}
