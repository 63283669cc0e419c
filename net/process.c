/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/process.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "net/syscalls.h"

uint64_t process_namespace(const char *name)
{
	struct stat file;
	char path[64];

	snprintf(path, sizeof(path), "/proc/thread-self/ns/%s", name);
	return stat(path, &file) == 0 ? file.st_ino : 0;
}

char process_state(uint32_t id, uint64_t pid_namespace)
{
	char path[32], text[128] = "", *end;
	int fd;

	if (!pid_namespace || pid_namespace != process_namespace("pid"))
		return 0;
	snprintf(path, sizeof(path), "/proc/%u/stat", (unsigned int)id);
	fd = sys_open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	if (sys_read(fd, text, sizeof(text) - 1) < 0)
		text[0] = '\0';
	sys_close(fd);
	/* "PID (NAME) STATE ...", and a name may have parentheses. */
	end = strrchr(text, ')');
	return end && end[1] ? end[2] : 0;
}

bool process_is_stopped(char state)
{
	return state == 'T' || state == 't';
}
