/* SPDX-License-Identifier: BSD-2-Clause */
#include "urxe/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "urxe/command.h"
#include "urxe/faults.h"
#include "urxe/installed.h"
#include "urxe/program.h"

#define LIBRARY "liburxe.so.0"

static const char *find_library(void)
{
	static const char *const places[] = {"../verbs", "../" URXE_LIBDIR_RELATIVE, URXE_LIBDIR,
					     NULL};
	const char *library = installed_find(places, LIBRARY);

	if (!library)
		die(LIBRARY " is neither beside %s nor in %s", installed_program(), URXE_LIBDIR);
	return library;
}

static void preload(const char *library, const char *others)
{
	char *list;

	if (asprintf(&list, "%s%s%s", library, others && *others ? ":" : "", others ?: "") < 0 ||
	    setenv("LD_PRELOAD", list, 1) != 0)
		die("out of memory");
	free(list);
}

/* The command that lists the devices; what it says is read from the result. */
static int start_listing(const char *library, pid_t *child)
{
	const char *explain = getenv("URXE_EXPLAIN");
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) != 0 || (*child = fork()) < 0)
		die("can't start a process: %s", strerror(errno));
	if (*child == 0) {
		dup2(ends[1], STDOUT_FILENO);
		dup2(ends[1], STDERR_FILENO);
		preload(library, NULL);
		if (explain && strcmp(explain, "1") == 0)
			unsetenv("URXE_EXPLAIN"); /* a line, not a paragraph */
		execl(installed_program(), "urxe", "list-devices", NULL);
		_exit(EXIT_REFUSED);
	}
	close(ends[1]);
	return ends[0];
}

/* Is the line about devices that can't be had, or about a library that ld.so can't load? */
static bool is_objection(const char *line)
{
	return strncmp(line, "ERROR: ld.so:", 13) == 0 || strstr(line, "there are no devices");
}

/*
 * A process of our own asks for the devices: what the library says against them, or ld.so
 * against the library, is known before the program starts.
 */
static void check_devices(const char *library)
{
	char *line = NULL, *objection = NULL, *reason;
	size_t size = 0;
	pid_t child;
	FILE *said;

	if (strpbrk(library, ": "))
		die("%s: ld.so can't preload a file with a space or a colon in its path; move or "
		    "install it",
		    library);
	if (!(said = fdopen(start_listing(library, &child), "r")))
		die("out of memory");
	while (getline(&line, &size, said) > 0) {
		if (!objection && is_objection(line))
			objection = strdup(line);
	}
	fclose(said);
	free(line);
	waitpid(child, NULL, 0);
	if (!objection)
		return;
	objection[strcspn(objection, "\n")] = '\0';
	reason = strstr(objection, "error: ");
	die("%s", reason ? reason + strlen("error: ") : objection);
}

/* Returns the library. */
static const char *prepare(void)
{
	const char *library = find_library();

	faults_check(getenv("URXE_FAULTS"), "URXE_FAULTS");
	check_devices(library);
	return library;
}

const char *launch_check(const char *program)
{
	const char *library = prepare();

	program_check(program, library);
	return library;
}

void launch_checked(char **argv, const char *library)
{
	const char *interpreter;
	int error;

	preload(library, getenv("LD_PRELOAD"));
	execvp(argv[0], argv);
	error = errno;
	/* The program itself was there when it was checked. */
	interpreter = error == ENOENT ? program_interpreter(argv[0]) : NULL;
	if (interpreter)
		fprintf(stderr, "urxe: %s: its interpreter \"%s\" can't be found\n", argv[0],
			interpreter);
	else
		fprintf(stderr, "urxe: %s: %s\n", argv[0], strerror(error));
	exit(error == ENOENT ? 127 : 126); /* as shells have it */
}

void launch(char **argv)
{
	launch_checked(argv, launch_check(argv[0]));
}

void launch_command(const char *name)
{
	const char *library = prepare();

	preload(library, getenv("LD_PRELOAD"));
	execl(installed_program(), "urxe", name, NULL);
	die("%s: %s", installed_program(), strerror(errno));
}
