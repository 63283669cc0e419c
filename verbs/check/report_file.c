/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/check/report_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "net/file_limit.h"
#include "net/log.h"
#include "net/syscalls.h"
#include "net/utf8.h"

#define FILE_MODE 0666 /* less the umask */

char *report_file_path(const char *name)
{
	char *folder, *path;

	if (*name == '/')
		return strdup(name);
	folder = getcwd(NULL, 0);
	if (!folder || asprintf(&path, "%s/%s", folder, name) < 0)
		path = NULL;
	free(folder);
	return path;
}

/* With the process's id for "%p". NULL without memory. */
static char *expand(const char *path)
{
	const char *place = strstr(path, "%p");
	char *expanded;

	if (!place)
		return strdup(path);
	if (asprintf(&expanded, "%.*s%d%s", (int)(place - path), path, (int)getpid(), place + 2) <
	    0)
		return NULL;
	return expanded;
}

static int open_file(const char *path, bool create)
{
	const int flags = O_WRONLY | O_APPEND | O_CLOEXEC;
	char *name = expand(path);
	int fd = -1;

	if (name)
		fd = create ? sys_create(name, flags, FILE_MODE) : sys_open(name, flags);
	free(name);
	return fd;
}

/* Whether a file can be made in the folder of @path. */
static bool has_writable_folder(const char *path)
{
	/* With its slash: that of "/file" is "/". */
	char *folder = strndup(path, strrchr(path, '/') + 1 - path);
	bool writable = folder && syscall(SYS_faccessat, AT_FDCWD, folder, W_OK | X_OK) == 0;

	free(folder);
	return writable;
}

bool report_file_is_writable(const char *path)
{
	int fd = open_file(path, false);

	if (fd < 0)
		return errno == ENOENT && has_writable_folder(path);
	sys_close(fd);
	return true;
}

void report_file_append(const char *path, const char *line, size_t length)
{
	int fd = open_file(path, true);

	if (fd < 0 || file_limit_write(fd, line, length) != (ssize_t)length)
		log_error("URXE_CHECK: %s: %s", path, strerror(errno));
	if (fd >= 0)
		sys_close(fd);
}

void json_write_string(FILE *stream, const char *text)
{
	size_t length;

	fputc('"', stream);
	for (const char *c = text; *c; c += length ?: 1) {
		length = utf8_length(c);
		if (!length)
			fputc('?', stream);
		else if (*c == '"' || *c == '\\')
			fprintf(stream, "\\%c", *c);
		else if ((unsigned char)*c < ' ')
			fprintf(stream, "\\u%04x", *c);
		else
			fwrite(c, 1, length, stream);
	}
	fputc('"', stream);
}
