/* SPDX-License-Identifier: BSD-2-Clause */
#include "urxe/installed.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include "urxe/command.h"

/* Not from /proc, which a small root, as a container's, may lack. */
const char *installed_program(void)
{
	static char *path;

	if (!path && !(path = realpath((const char *)getauxval(AT_EXECFN), NULL)))
		die("can't find this program's own file: %s", strerror(errno));
	return path;
}

char *installed_find(const char *const *places, const char *name)
{
	const char *program = installed_program();
	int folder = strrchr(program, '/') + 1 - program;
	char *path, *found = NULL;

	for (; !found && *places; places++) {
		if (asprintf(&path, "%.*s%s/%s", **places == '/' ? 0 : folder, program, *places,
			     name) < 0)
			die("out of memory");
		found = realpath(path, NULL);
		free(path);
	}
	return found;
}
