/* SPDX-License-Identifier: BSD-2-Clause */
#include "urxe/program.h"

#include <elf.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "urxe/command.h"

#define SCRIPTS 5	/* interpreted by one another, as deep as Linux goes */
#define SCRIPT_LINE 256 /* what Linux reads of the first line: BINPRM_BUF_SIZE */

/* Until class and machine are known, the part of an ELF header that all classes share is used. */
struct image {
	int descriptor;
	Elf64_Ehdr header; /* zeros where the file is shorter or can't be read */
};

static void open_image(struct image *image, const char *path)
{
	memset(image, 0, sizeof(*image));
	image->descriptor = open(path, O_RDONLY | O_CLOEXEC);
	if (image->descriptor >= 0 &&
	    pread(image->descriptor, &image->header, sizeof(image->header), 0) < 0)
		memset(&image->header, 0, sizeof(image->header));
}

static void close_image(struct image *image)
{
	if (image->descriptor >= 0)
		close(image->descriptor);
}

static bool is_elf(const struct image *image)
{
	return memcmp(image->header.e_ident, ELFMAG, SELFMAG) == 0;
}

static bool same_machine(const Elf64_Ehdr *one, const Elf64_Ehdr *other)
{
	return one->e_ident[EI_CLASS] == other->e_ident[EI_CLASS] &&
	       one->e_ident[EI_DATA] == other->e_ident[EI_DATA] &&
	       one->e_machine == other->e_machine;
}

/* @image has our class and byte order. */
static bool find_segment(const struct image *image, uint32_t type, Elf64_Phdr *segment)
{
	for (unsigned int i = 0; i < image->header.e_phnum; i++) {
		off_t offset = image->header.e_phoff + (off_t)i * image->header.e_phentsize;

		if (pread(image->descriptor, segment, sizeof(*segment), offset) ==
			    sizeof(*segment) &&
		    segment->p_type == type)
			return true;
	}
	return false;
}

/* As libraries do, and programs don't. */
static bool has_soname(const struct image *image)
{
	Elf64_Phdr segment;
	Elf64_Dyn entry = {.d_tag = DT_NULL};
	off_t offset;

	if (!find_segment(image, PT_DYNAMIC, &segment))
		return false;
	offset = segment.p_offset;
	while (pread(image->descriptor, &entry, sizeof(entry), offset) == sizeof(entry) &&
	       entry.d_tag != DT_NULL && entry.d_tag != DT_SONAME)
		offset += sizeof(entry);
	return entry.d_tag == DT_SONAME;
}

/*
 * A dynamic program names its interpreter, which is ld.so; or ld.so itself is what is run, a
 * library that is given the program.
 */
static bool is_static(const struct image *image)
{
	Elf64_Phdr segment;

	return !find_segment(image, PT_INTERP, &segment) && !has_soname(image);
}

/*
 * Would the kernel give a process of it privileges that its user doesn't have?
 * Then ld.so preloads only what an administrator has installed for such programs.
 */
static bool gains_privileges(const char *path)
{
	struct stat status;

	if (stat(path, &status) != 0)
		return false;
	return (status.st_mode & S_ISUID && status.st_uid != geteuid()) ||
	       (status.st_mode & S_ISGID && status.st_gid != getegid()) ||
	       (getuid() != 0 && getxattr(path, "security.capability", NULL, 0) > 0);
}

static bool is_program(const char *path)
{
	struct stat status;

	return stat(path, &status) == 0 && S_ISREG(status.st_mode) && access(path, X_OK) == 0;
}

/* As execvp(3) finds it; NULL: there is none. The caller frees it. */
static char *find_program(const char *name)
{
	const char *folder = getenv("PATH") ?: "/bin:/usr/bin";
	char *path;

	if (strchr(name, '/'))
		return is_program(name) ? strdup(name) : NULL;
	for (int length; folder && *name; folder = folder[length] ? folder + length + 1 : NULL) {
		length = strcspn(folder, ":");

		if (asprintf(&path, "%.*s%s%s", length, folder, length ? "/" : "", name) < 0)
			die("out of memory");
		if (is_program(path))
			return path;
		free(path);
	}
	return NULL;
}

/* The interpreter of a script: what follows "#!". False: @path is no script. */
static bool read_interpreter(const char *path, char interpreter[SCRIPT_LINE])
{
	char line[SCRIPT_LINE] = "", *start, *end;
	int descriptor = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t length = descriptor < 0 ? -1 : read(descriptor, line, sizeof(line) - 1);

	if (descriptor >= 0)
		close(descriptor);
	if (length < 2 || memcmp(line, "#!", 2) != 0)
		return false;
	start = line + 2 + strspn(line + 2, " \t");
	end = start + strcspn(start, " \t\n");
	*end = '\0';
	strcpy(interpreter, start);
	return true;
}

char *program_interpreter(const char *name)
{
	char *program = find_program(name), interpreter[SCRIPT_LINE];
	bool is_script = program && read_interpreter(program, interpreter);

	free(program);
	return is_script ? strdup(interpreter) : NULL;
}

/* @subject is what the user knows the file @path by. */
static void check_image(const struct image *image, const char *path, const char *subject,
			const char *library)
{
	struct image ours;

	open_image(&ours, library);
	close_image(&ours);
	if (image->header.e_ident[EI_CLASS] == ELFCLASS32 &&
	    ours.header.e_ident[EI_CLASS] != ELFCLASS32)
		die("%s is a 32-bit program: it can't use %s", subject, library);
	if (!same_machine(&image->header, &ours.header))
		die("%s is a program for another machine: it can't use %s", subject, library);
	if (is_static(image))
		die("%s is a static program: it can't use %s", subject, library);
	if (gains_privileges(path))
		die("%s is setuid, setgid or has file capabilities: ld.so preloads nothing for it",
		    subject);
}

void program_check(const char *name, const char *library)
{
	char *program = find_program(name), *subject, interpreter[SCRIPT_LINE];
	const char *loaded = program; /* the file that the kernel loads */
	struct image image;
	int depth = SCRIPTS;

	if (!program)
		die("%s: %s", given(name),
		    strchr(name, '/') && access(name, F_OK) == 0 ? "it isn't an executable file"
								 : "no such program");
	while (depth-- > 0 && read_interpreter(loaded, interpreter))
		loaded = interpreter;
	if (asprintf(&subject, loaded == program ? "%s" : "%s, a script for %s,", program, loaded) <
	    0)
		die("out of memory");
	open_image(&image, loaded);
	if (is_elf(&image))
		check_image(&image, loaded, subject, library);
	close_image(&image);
	free(subject);
	free(program);
}
