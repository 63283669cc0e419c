/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the checker finds (URXE_CHECK), and what it is silent about. With the name of a case as an
 * argument this is that case's program; without, it runs itself for each of them, several at a
 * time, and looks at the status and at what was written to stderr: of a bad one its cause, and no
 * other; of a good one nothing. Each cause of the tables has cases of both kinds.
 */
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/check/case.h"

#define AT_ONCE 4
#define REPORTED 77
#define PATIENCE 120 /* s, for a case on a busy machine */
#define SAID 65536

extern char **environ;

static const struct check_table *const tables[] = {&object_cases, &event_cases, &exit_cases,
						   &work_cases,	  &wait_cases,	&portability_cases};

#define TABLES (sizeof(tables) / sizeof(tables[0]))

static const struct entry {
	enum cause cause;
	const char *name;
	enum cause_kind kind;
} catalogue[] = {
#define CAUSE(number, name, kind, ...) {CAUSE_##name, #name, CAUSE_##kind},
#include "net/cause/catalogue.def"
#undef CAUSE
};

#define ENTRIES (sizeof(catalogue) / sizeof(catalogue[0]))

static const struct entry *find_cause(enum cause cause)
{
	static const struct entry none = {CAUSE_NONE, "NONE", CAUSE_MISUSE};

	for (unsigned int i = 0; i < ENTRIES; i++) {
		if (catalogue[i].cause == cause)
			return &catalogue[i];
	}
	return &none;
}

static const char *cause_name(enum cause cause)
{
	return find_cause(cause)->name;
}

/* --- a case's process ------------------------------------------------------------------ */

static char address[32];

const char *case_address(void)
{
	return address;
}

static int run_case(const char *name)
{
	snprintf(address, sizeof(address), "127.85.%u.%u", getpid() >> 8 & 0xff, getpid() & 0xff);
	setenv("URXE_NODE", address, 1);
	alarm(PATIENCE);
	for (unsigned int t = 0; t < TABLES; t++) {
		for (unsigned int i = 0; i < tables[t]->count; i++) {
			if (strcmp(tables[t]->cases[i].name, name) == 0) {
				tables[t]->cases[i].run();
				return EXIT_SUCCESS;
			}
		}
	}
	fprintf(stderr, "there is no case %s\n", name);
	return EXIT_FAILURE;
}

/* --- running them ----------------------------------------------------------------------- */

struct run {
	const struct check_case *what;
	pid_t pid;  /* 0: none */
	FILE *said; /* its stderr */
};

static struct run start(const struct check_case *what)
{
	struct run run = {.what = what, .said = tmpfile()};
	char *arguments[] = {(char *)"/proc/self/exe", (char *)what->name, NULL};
	posix_spawn_file_actions_t actions;
	char options[256];

	must(run.said);
	snprintf(options, sizeof(options), "1,exit=%d%s%s", REPORTED, what->options ? "," : "",
		 what->options ? what->options : "");
	setenv("URXE_CHECK", options, 1);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, fileno(run.said), STDERR_FILENO);
	must(posix_spawn(&run.pid, arguments[0], &actions, NULL, arguments, environ) == 0);
	posix_spawn_file_actions_destroy(&actions);
	return run;
}

static bool is_of(enum cause cause, const char *report)
{
	return strtoul(report, NULL, 16) == cause;
}

/* Whether a report is of another cause than the case's. */
static bool says_other(const struct check_case *what, const char *said)
{
	static const char begins[] = "check: 0x";

	while ((said = strstr(said, begins))) {
		said += strlen(begins);
		if (!is_of(what->cause, said) && !is_of(what->also, said))
			return true;
	}
	return false;
}

static const char *judge(const struct check_case *what, int status, const char *said)
{
	const char *name = cause_name(what->cause);
	/* What is only a notice doesn't make a program a bad one. */
	int bad = find_cause(what->cause)->kind == CAUSE_NOTICE ? EXIT_SUCCESS : REPORTED;

	if (!WIFEXITED(status))
		return "was killed";
	if (!what->bad)
		return WEXITSTATUS(status) != 0 ? "failed"
		       : strstr(said, "check:") ? "has a report, and nothing bad in it"
						: NULL;
	if (says_other(what, said))
		return "has a report of another cause";
	if (!strstr(said, name))
		return "has no report";
	if (what->said && !strstr(said, what->said))
		return "has a report that doesn't say what it should";
	return WEXITSTATUS(status) == bad ? NULL : "has another status";
}

/* Whether it was as it should be. */
static bool finish(struct run *run)
{
	static char said[SAID];
	const char *wrong;
	int status;
	size_t length;

	must(waitpid(run->pid, &status, 0) == run->pid);
	run->pid = 0;
	rewind(run->said);
	length = fread(said, 1, sizeof(said) - 1, run->said);
	said[length] = '\0';
	fclose(run->said);
	wrong = judge(run->what, status, said);
	if (wrong)
		printf("%s (%s, %s) %s; status 0x%x; it said:\n%s\n", run->what->name,
		       run->what->bad ? "bad" : "good", cause_name(run->what->cause), wrong, status,
		       said);
	return !wrong;
}

static unsigned int run_all(void)
{
	struct run running[AT_ONCE] = {0};
	unsigned int next = 0, failed = 0;

	for (unsigned int t = 0; t < TABLES; t++) {
		for (unsigned int i = 0; i < tables[t]->count; i++) {
			struct run *run = &running[next++ % AT_ONCE];

			failed += run->pid && !finish(run);
			*run = start(&tables[t]->cases[i]);
		}
	}
	for (unsigned int i = 0; i < AT_ONCE; i++)
		failed += running[i].pid && !finish(&running[i]);
	return failed;
}

/* --- completeness ------------------------------------------------------------------------ */

static bool has_case(enum cause cause, bool bad)
{
	for (unsigned int t = 0; t < TABLES; t++) {
		for (unsigned int i = 0; i < tables[t]->count; i++) {
			if (tables[t]->cases[i].cause == cause && tables[t]->cases[i].bad == bad)
				return true;
		}
	}
	return false;
}

static unsigned int find_missing(void)
{
	unsigned int missing = 0;

	for (unsigned int t = 0; t < TABLES; t++) {
		for (unsigned int i = 0; i < ENTRIES; i++) {
			enum cause cause = catalogue[i].cause;

			if (cause < tables[t]->first || cause > tables[t]->last ||
			    (has_case(cause, true) && has_case(cause, false)))
				continue;
			printf("0x%04x %s has no %s case\n", cause, catalogue[i].name,
			       has_case(cause, true) ? "good" : "bad");
			missing++;
		}
	}
	return missing;
}

int main(int argc, char **argv)
{
	unsigned int wrong;

	if (argc == 2)
		return run_case(argv[1]);
	wrong = find_missing() + run_all();
	return wrong ? EXIT_FAILURE : EXIT_SUCCESS;
}
