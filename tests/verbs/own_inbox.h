/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * This process's inbox (net/shm/inbox.h), while it has no peers, whose inboxes it would map, too:
 * for tests that use its memory or its name.
 */
#ifndef URXE_TESTS_VERBS_OWN_INBOX_H
#define URXE_TESTS_VERBS_OWN_INBOX_H

#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/must.h"

/* Where the file is mapped, which had no name yet then; or NULL. */
static inline void *mapping_of(ino_t file)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	void *address, *found = NULL;
	unsigned long inode;
	char line[256];

	must(maps);
	while (!found && fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%p-%*x %*s %*s %*s %lu", &address, &inode) == 2 && inode == file)
			found = address;
	}
	fclose(maps);
	return found;
}

/* Its address, and its @name; or NULL and "": its link has none. */
static inline void *own_inbox(char name[PATH_MAX])
{
	const char *link = getenv("URXE_LINK");
	glob_t found = {};
	struct stat file;
	void *address = NULL;

	*name = '\0';
	glob("/dev/shm/urxe-shm-*-0", 0, NULL, &found);
	for (size_t i = 0; i < found.gl_pathc && !address; i++) {
		if (stat(found.gl_pathv[i], &file) == 0 && (address = mapping_of(file.st_ino)))
			strcpy(name, found.gl_pathv[i]);
	}
	globfree(&found);
	must(address || !link || strcmp(link, "shm") != 0);
	return address;
}

#endif
