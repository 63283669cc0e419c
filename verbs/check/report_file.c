/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/check/report_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "net/file_limit.h"
#include "net/log.h"
#include "net/syscalls.h"

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

/* @create: O_CREAT or 0 */
static int open_file(const char *path, int create)
{
	char *name = expand(path);
	int fd = -1;

	if (name)
		fd = syscall(SYS_openat, AT_FDCWD, name, O_WRONLY | create | O_APPEND | O_CLOEXEC,
			     FILE_MODE);
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
	int fd = open_file(path, 0);

	if (fd < 0)
		return errno == ENOENT && has_writable_folder(path);
	syscall(SYS_close, fd);
	return true;
}

void report_file_append(const char *path, const char *line, size_t length)
{
	int fd = open_file(path, O_CREAT);

	if (fd < 0 || file_limit_write(fd, line, length) != (ssize_t)length)
		log_error("URXE_CHECK: %s: %s", path, strerror(errno));
	if (fd >= 0)
		syscall(SYS_close, fd);
}

/* Of the UTF-8 character that @text begins with; 0: it begins with none. */
static size_t character_length(const char *text)
{
	static const uint32_t least[] = {UINT32_MAX, 0, 0x80, 0x800, 0x10000};
	const unsigned char *c = (const unsigned char *)text;
	size_t length = *c < 0x80   ? 1
			: *c < 0xc0 ? 0
			: *c < 0xe0 ? 2
			: *c < 0xf0 ? 3
			: *c < 0xf8 ? 4
				    : 0;
	uint32_t code = *c & (0xff >> length);

	for (size_t i = 1; i < length; i++) {
		if ((c[i] & 0xc0) != 0x80)
			return 0;
		code = code << 6 | (c[i] & 0x3f);
	}
	/* Half of a pair of UTF-16's is none. */
	return code < least[length] || code > 0x10ffff || code >> 11 == 0xd800 >> 11 ? 0 : length;
}

void json_write_string(FILE *stream, const char *text)
{
	size_t length;

	fputc('"', stream);
	for (const char *c = text; *c; c += length ?: 1) {
		length = character_length(c);
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
