/* SPDX-License-Identifier: BSD-2-Clause */
/* The progress threads of this process, as the kernel tells of them; for tests alone. */
#ifndef URXE_TESTS_PROGRESS_THREADS_H
#define URXE_TESTS_PROGRESS_THREADS_H

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/must.h"

struct progress_threads {
	unsigned int count;
	bool asleep;	      /* the last one found */
	unsigned long sleeps; /* how often that one has gone to sleep */
};

/* A line of @file that @format finds a value in; else *@value stays as it is. */
static inline void progress_threads_read(FILE *file, const char *format, void *value)
{
	char line[256];

	while (fgets(line, sizeof(line), file) && sscanf(line, format, value) != 1)
		;
}

/* By name: sanitizers have threads, too. */
static inline struct progress_threads progress_threads_now(void)
{
	struct progress_threads threads = {};
	DIR *tasks = opendir("/proc/self/task");
	char path[300], name[16], state = 0;
	struct dirent *entry;
	FILE *file;

	must(tasks);
	while ((entry = readdir(tasks))) {
		snprintf(path, sizeof(path), "/proc/self/task/%s/status", entry->d_name);
		file = fopen(path, "r");
		if (!file)
			continue;
		if (fscanf(file, "Name: %15s\n", name) == 1 && strcmp(name, "urxe") == 0) {
			threads.count++;
			progress_threads_read(file, "State: %c", &state);
			threads.asleep = state == 'S';
			progress_threads_read(file, "voluntary_ctxt_switches: %lu",
					      &threads.sleeps);
		}
		fclose(file);
	}
	closedir(tasks);
	return threads;
}

/*
 * Until the process's progress thread, the only one, has slept for 20 ms without waking up. It may
 * not have run yet, and gives itself its name.
 */
static inline void progress_threads_wait_until_idle(void)
{
	struct progress_threads now = progress_threads_now();
	unsigned long sleeps;

	do {
		sleeps = now.sleeps;
		usleep(20000);
		now = progress_threads_now();
	} while (now.count != 1 || !now.asleep || now.sleeps != sleeps);
}

#endif
