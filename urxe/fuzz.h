/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * urxe fuzz: a program is run again and again with one fault each. What its files share:
 *
 *   fuzz.c         options; one run after the other
 *   fuzz_plan.c    which faults there can be, by what the program does without any
 *   fuzz_run.c     one run: the peer, the program, and how that ended
 *   fuzz_ready.c   whether the peer listens
 *   fuzz_check.c   what the checker reported
 *   fuzz_report.c  what was found, as text and as JSON
 *
 * One thread, no locks.
 */
#ifndef URXE_FUZZ_H
#define URXE_FUZZ_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "net/fault/call_counts.h"
#include "net/observe/record.h"

/* The names that --only has for them are in fuzz_plan.c. */
enum fuzz_kind {
	FUZZ_CALLS,
	FUZZ_COMPLETIONS,
	FUZZ_EVENTS,
	FUZZ_CONNECTIONS,
	FUZZ_LINK,
	FUZZ_TIMING,
	FUZZ_PACKETS,
	FUZZ_KINDS
};

enum fuzz_outcome {
	FUZZ_UNTRIED,
	/* As it should be: */
	FUZZ_REPORTED,	/* the program ended with an exit status other than 0 */
	FUZZ_WENT_ON,	/* with 0 */
	FUZZ_UNREACHED, /* it didn't make the call this time */
	/* Findings: */
	FUZZ_CRASH,
	FUZZ_HANG,
	FUZZ_PEER_CRASH,
	FUZZ_LEAK,
	FUZZ_MISUSE, /* something else that the checker reports */
	FUZZ_OUTCOMES
};

/* What is known from a run without faults. */
struct fuzz_usage {
	uint64_t messages[OBSERVE_CLASSES]; /* work requests that completed */
	double seconds;
	bool peer_ends; /* by itself, when the program has ended */
};

/* How a run ended. */
struct fuzz_run {
	int status;	 /* of wait(2); unless it hung */
	int peer_status; /* likewise; 0 of a peer that went on */
	bool hung, peer_ended;
	double seconds;
	enum fault_call last; /* that the program made, or FAULT_CALLS */
	char *output;	      /* a file with what it wrote, or NULL */
	char *report;	      /* of the checker, or NULL */
};

#define FUZZ_TEXT 96

/* A place for a fault, and what came of it. */
struct fuzz_place {
	char fault[FUZZ_TEXT]; /* a specification */
	enum fuzz_kind kind;
	enum fault_call call; /* of FUZZ_CALLS; else FAULT_CALLS */
	uint32_t number;      /* which call it is */
	unsigned int seconds; /* that it may take unless fuzz.timeout says so, or 0 */
	enum fuzz_outcome outcome;
	struct fuzz_run run;
};

/* Places that aren't tried, as there are many alike. */
struct fuzz_left_out {
	enum fault_call call;
	uint32_t calls, tried;
};

struct fuzz {
	/* What was asked for. */
	char **program;
	const char *peer;
	const char *node, *peer_node;
	const char *devices; /* URXE_DEVICES, which the program has instead of a node, or NULL */
	const char *faults;  /* that all runs have, or NULL */
	const char *only;
	const char *output;
	double timeout; /* seconds; 0: by what the first run took */
	unsigned int seeds;
	bool json, keep_going, unchecked;

	const char *library;
	char *directory; /* a temporary one, of files that are the session's own */
	char *outputs;	 /* the folder of those that runs write: @output, or @directory */
	struct call_counts_file *counts;
	char *check; /* URXE_CHECK, or NULL */
	json_t *known_reports;
	unsigned int runs; /* how many names of output files are used */
	int interrupted;   /* by this signal; 0 */
	bool unwritable;   /* the last run wasn't one: it could write nowhere */

	struct fuzz_usage usage;
	struct fuzz_place *places;
	unsigned int place_count;
	struct fuzz_left_out left_out[FAULT_CALLS];
	unsigned int left_out_count;
};

/* Places may be left that weren't tried. */
static inline bool fuzz_has_stopped(const struct fuzz *fuzz)
{
	return fuzz->interrupted || fuzz->unwritable;
}

static inline bool fuzz_is_finding(enum fuzz_outcome outcome)
{
	return outcome >= FUZZ_CRASH;
}

/* --- fuzz_plan.c ------------------------------------------------------------------------- */

/* Fill in the places by fuzz.usage and the counts of the run without faults, which was the last. */
void fuzz_plan(struct fuzz *fuzz);
/* As --only names it. */
const char *fuzz_kind_name(enum fuzz_kind kind);
/* Dies if fuzz.only names what there isn't. */
void fuzz_check_only(const struct fuzz *fuzz);
/* How often the last run made @call, or one that a specification which names it means, too. */
uint32_t fuzz_calls_alike(const struct fuzz *fuzz, enum fault_call call);

/* --- fuzz_run.c -------------------------------------------------------------------------- */

/* NULL: the variable isn't set, or is empty, which is the same. */
const char *fuzz_variable(const char *name);
/* Set a variable of the environment; with NULL remove it. */
void fuzz_set_variable(const char *name, const char *value);
/* Signals are taken from here on; children's children become ours. */
void fuzz_run_begin(void);
struct fuzz_how {
	const char *fault, *session; /* or NULL; URXE_STAT */
	bool checked;		     /* by fuzz.check */
	double seconds;		     /* at most */
};

/* The specification of a run: what all runs have, and @fault, or NULL. The caller frees it. */
char *fuzz_join_faults(const struct fuzz *fuzz, const char *fault);
/* Run the program; nothing that it started is left behind. Sets fuzz.interrupted. */
struct fuzz_run fuzz_run(struct fuzz *fuzz, const struct fuzz_how *how);
void fuzz_run_free(struct fuzz_run *run);
/* The signal that it crashed with, directly or as a shell tells it; 0: it didn't. */
int fuzz_crash_signal(int status);

/* --- fuzz_ready.c ------------------------------------------------------------------------ */

/* Whether a process of @group listens, by TCP or by rdma_cm. */
bool fuzz_is_listening(pid_t group);

/* --- fuzz_check.c ------------------------------------------------------------------------ */

/* URXE_CHECK of all runs, or NULL. */
char *fuzz_check_option(const struct fuzz *fuzz);
/* Whether the checker looks at the program with the fault of @place. */
bool fuzz_is_checked(const struct fuzz *fuzz, const struct fuzz_place *place);
/* Remember what is reported without faults, in the run that was the last. */
void fuzz_check_first(struct fuzz *fuzz);
/* FUZZ_LEAK or FUZZ_MISUSE, with fuzz_run.report, or FUZZ_UNTRIED: nothing new was reported. */
enum fuzz_outcome fuzz_check(const struct fuzz *fuzz, struct fuzz_run *run);

/* --- fuzz_report.c ----------------------------------------------------------------------- */

/* A line on stderr, rewritten on a terminal. @place is about to be tried. */
void fuzz_show_progress(const struct fuzz *fuzz, const struct fuzz_place *place);
void fuzz_end_progress(void);
void fuzz_print_text(const struct fuzz *fuzz);
void fuzz_print_json(const struct fuzz *fuzz);
unsigned int fuzz_count_findings(const struct fuzz *fuzz);

#endif
