/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reads what the file beside a capture says of faults (net/fault/fault_notes.h): each line names a
 * record by its time.
 */
#include <stdlib.h>
#include <string.h>

#include "net/clock.h"
#include "urxe/trace.h"

struct fault {
	uint64_t time;
	char *text;
};

static int compare_times(const void *a, const void *b)
{
	const struct fault *one = a, *other = b;

	return one->time < other->time ? -1 : one->time > other->time;
}

/* "TIME DIRECTION OPCODE QP ... PSN ...: TEXT" */
static bool read_fault(const char *line, struct fault *fault)
{
	unsigned long long seconds, nanoseconds;
	const char *text = strstr(line, ": ");

	if (!text || sscanf(line, "%llu.%9llu ", &seconds, &nanoseconds) != 2)
		return false;
	fault->time = seconds * NS_PER_S + nanoseconds;
	fault->text = trace_text("%.*s", (int)strcspn(text + 2, "\n"), text + 2);
	return true;
}

void trace_faults_read(struct trace *trace, const char *path, size_t first)
{
	char *name = trace_text("%s.faults", path), *line = NULL;
	FILE *file = fopen(name, "re");
	struct fault *faults = NULL;
	size_t count = 0, size = 0;

	free(name);
	if (!file)
		return;
	while (getline(&line, &size, file) > 0) {
		faults = trace_grow(faults, count, sizeof(*faults));
		count += read_fault(line, &faults[count]);
	}
	free(line);
	fclose(file);
	if (count)
		qsort(faults, count, sizeof(*faults), compare_times);
	for (size_t i = first; count && i < trace->record_count; i++) {
		struct fault key = {.time = trace->records[i].time};
		struct fault *found = bsearch(&key, faults, count, sizeof(*faults), compare_times);

		if (found)
			trace->records[i].fault = found->text;
	}
}
