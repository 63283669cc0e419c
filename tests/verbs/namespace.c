/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/verbs/namespace.h"

#include <check.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

bool write_file(const char *path, const char *text)
{
	FILE *file = fopen(path, "w");

	if (!file)
		return false;
	fputs(text, file);
	return fclose(file) == 0;
}

static bool enter(void)
{
	char users[32], groups[32];

	if (unshare(CLONE_NEWNET) == 0)
		return true;
	snprintf(users, sizeof(users), "0 %u 1", getuid());
	snprintf(groups, sizeof(groups), "0 %u 1", getgid());
	return unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0 &&
	       write_file("/proc/self/uid_map", users) &&
	       write_file("/proc/self/setgroups", "deny") &&
	       write_file("/proc/self/gid_map", groups);
}

bool namespace_enter(void)
{
	bool entered = enter();

	if (!entered)
		puts("no permission to make a network namespace");
	return entered;
}

void ip(const char *format, ...)
{
	char command[160] = "ip ";
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(command + 3, sizeof(command) - 3, format, arguments);
	va_end(arguments);
	ck_assert_msg(system(command) == 0, "%s", command);
}
