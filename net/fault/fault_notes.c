/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/fault/fault_notes.h"

#include <stdio.h>
#include <stdlib.h>

#include "net/clock.h"
#include "net/descriptor.h"
#include "net/file_limit.h"
#include "net/syscalls.h"

#define LINE_MAX_LENGTH 512

struct fault_notes {
	int fd;
	struct descriptor_identity identity;
};

/* To be freed; NULL without memory. */
static char *notes_path(const char *path)
{
	char *text;

	return asprintf(&text, "%s.faults", path) < 0 ? NULL : text;
}

struct fault_notes *fault_notes_open(const char *path)
{
	struct fault_notes *notes = malloc(sizeof(*notes));
	char *name = notes_path(path);

	if (!notes || !name)
		goto fail;
	notes->fd =
		descriptor_above_standard(sys_create(name, O_WRONLY | O_APPEND | O_CLOEXEC, 0666));
	if (notes->fd < 0)
		goto fail;
	notes->identity = descriptor_identify(notes->fd);
	free(name);
	return notes;
fail:
	free(name);
	free(notes);
	return NULL;
}

void fault_notes_close(struct fault_notes *notes)
{
	descriptor_close(notes->fd, &notes->identity);
	free(notes);
}

void fault_notes_remove(const char *path)
{
	char *name = notes_path(path);

	if (name)
		unlink(name);
	free(name);
}

void fault_notes_write(struct fault_notes *notes, uint64_t time, const char *text)
{
	char line[LINE_MAX_LENGTH];
	int length = snprintf(line, sizeof(line) - 1, "%llu.%09llu %s",
			      (unsigned long long)(time / NS_PER_S),
			      (unsigned long long)(time % NS_PER_S), text);

	if ((size_t)length >= sizeof(line) - 1)
		length = sizeof(line) - 2;
	line[length++] = '\n';
	/* The application may have closed it, and the number be another file's. */
	if (descriptor_is(notes->fd, &notes->identity))
		file_limit_write(notes->fd, line, length);
}
