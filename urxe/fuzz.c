/* SPDX-License-Identifier: BSD-2-Clause */
#include "urxe/fuzz.h"

#include <argp.h>
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utlist.h>

#include "urxe/command.h"
#include "urxe/launch.h"
#include "urxe/options.h"
#include "urxe/processes.h"

#define FIRST_TIMEOUT 60   /* seconds, of the run without faults, at least */
#define LEAST_TIMEOUT 10   /* of the others, unless it is given */
#define TIMES_THE_FIRST 10 /* likewise */
#define HANGS_ENOUGH 3	   /* of places that are alike */
#define TAIL_BYTES 4096	   /* of output that is shown */
#define MOST_SEEDS 1000000

/* --- files ------------------------------------------------------------------------------- */

static void remove_file(const struct fuzz *fuzz, const char *name)
{
	char *path;

	if (asprintf(&path, "%s/%s", fuzz->directory, name) < 0)
		die("out of memory");
	unlink(path);
	free(path);
}

/* What a run writes goes there, beside what may be there already. */
static void make_output(struct fuzz *fuzz)
{
	struct stat folder;

	if ((mkdir(fuzz->output, 0700) != 0 && errno != EEXIST) ||
	    !(fuzz->outputs = realpath(fuzz->output, NULL)) || stat(fuzz->outputs, &folder) != 0)
		die("%s: %s", fuzz->output, strerror(errno));
	if (!S_ISDIR(folder.st_mode))
		errno = ENOTDIR;
	else if (access(fuzz->outputs, W_OK | X_OK) == 0)
		return;
	die("%s: %s", fuzz->output, strerror(errno));
}

static void make_directory(struct fuzz *fuzz)
{
	char *counts;
	int error;

	if (fuzz->output)
		make_output(fuzz);
	if (asprintf(&fuzz->directory, "%s/urxe-fuzz-XXXXXX", fuzz_variable("TMPDIR") ?: "/tmp") <
	    0)
		die("out of memory");
	if (!mkdtemp(fuzz->directory))
		die("%s: %s", fuzz->directory, strerror(errno));
	if (!fuzz->output)
		fuzz->outputs = fuzz->directory;
	if (asprintf(&counts, "%s/counts", fuzz->directory) < 0)
		die("out of memory");
	fuzz->counts = call_counts_create(counts);
	if (!fuzz->counts) {
		error = errno;
		rmdir(fuzz->directory);
		die("%s: %s", counts, strerror(error));
	}
	free(counts);
}

static void remove_files(struct fuzz *fuzz)
{
	for (unsigned int i = 0; i < fuzz->place_count && !fuzz->output; i++)
		fuzz_run_free(&fuzz->places[i].run);
	call_counts_unmap(fuzz->counts);
	remove_file(fuzz, "counts");
	rmdir(fuzz->directory);
}

/* The end of what a run wrote. */
static void show_output(const struct fuzz_run *run)
{
	FILE *file = fopen(run->output, "re");
	char text[TAIL_BYTES];
	size_t length;

	if (!file)
		return;
	if (fseek(file, -(long)sizeof(text), SEEK_END) != 0)
		rewind(file);
	length = fread(text, 1, sizeof(text), file);
	fwrite(text, 1, length, stderr);
	fclose(file);
}

/* --- without faults ---------------------------------------------------------------------- */

/* Of all its processes, which have ended. Where they can't be read no completions are planned. */
static void count_messages(struct fuzz *fuzz, const char *session)
{
	const struct observed_options options = {
		.session = session, .ended = true, .all_namespaces = true};
	const struct observe_device *device = NULL;
	struct observed *processes, *process;

	processes_try_read(&options, &processes);
	LL_FOREACH (processes, process) {
		while ((device = observed_next(process, OBSERVE_DEVICE, device))) {
			for (enum observe_class class = 0; class < OBSERVE_CLASSES; class ++)
				fuzz->usage.messages[class] +=
					latency_messages(&device->latency[class]);
		}
		unlink(process->path);
	}
	observed_free(processes);
}

/* It would end an option of URXE_CHECK. */
static void refuse_comma(struct fuzz *fuzz)
{
	if (!fuzz->check || !strchr(fuzz->directory, ','))
		return;
	remove_files(fuzz);
	die("%s: the path has a comma in it", fuzz->directory);
}

/* Say why a run without faults is no start for others. */
static _Noreturn void refuse_start(const struct fuzz *fuzz, const struct fuzz_run *run)
{
	int number = fuzz_crash_signal(run->status);

	if (fuzz->interrupted)
		exit(128 + fuzz->interrupted);
	if (fuzz->unwritable)
		exit(EXIT_REFUSED);
	if (run->hung)
		die("the program doesn't end without any fault, within %.0f s; see --timeout",
		    run->seconds);
	if (number)
		die("the program crashes without any fault: %s", strsignal(number));
	if (run->status)
		die("the program fails without any fault: exit status %d",
		    WEXITSTATUS(run->status));
	if (run->last == FAULT_CALLS)
		die("the program makes no call of verbs");
	die("the peer crashes without any fault");
}

static bool is_good_start(const struct fuzz_run *run)
{
	return !run->hung && !run->status && run->last < FAULT_CALLS &&
	       !(run->peer_ended && fuzz_crash_signal(run->peer_status));
}

static void run_without_faults(struct fuzz *fuzz)
{
	char session[OBSERVE_SESSION];
	struct fuzz_run run;

	session_name(session);
	fuzz->usage.peer_ends = true;
	run = fuzz_run(fuzz, &(struct fuzz_how){.session = session,
						.checked = true,
						.seconds = fmax(fuzz->timeout, FIRST_TIMEOUT)});
	count_messages(fuzz, session);
	fuzz->usage.peer_ends = run.peer_ended;
	fuzz->usage.seconds = run.seconds;
	fuzz_check_first(fuzz);
	if (is_good_start(&run)) {
		fuzz_run_free(&run);
		return;
	}
	show_output(&run);
	fuzz_run_free(&run);
	remove_files(fuzz);
	refuse_start(fuzz, &run);
}

/* A program in which nothing was tried isn't one in which nothing was found. */
static void refuse_no_places(struct fuzz *fuzz)
{
	if (fuzz->place_count)
		return;
	remove_files(fuzz);
	die("the program does nothing that could fail, of what is asked for: see --only and "
	    "--seeds");
}

/* --- with one fault each ----------------------------------------------------------------- */

static enum fuzz_outcome judge(const struct fuzz *fuzz, struct fuzz_place *place)
{
	struct fuzz_run *run = &place->run;
	enum fuzz_outcome reported = fuzz_check(fuzz, run);

	if (fuzz->unwritable)
		return FUZZ_UNTRIED;
	if (run->hung)
		return fuzz->interrupted ? FUZZ_UNTRIED : FUZZ_HANG;
	if (fuzz_crash_signal(run->status))
		return FUZZ_CRASH;
	if (run->peer_ended && fuzz_crash_signal(run->peer_status))
		return FUZZ_PEER_CRASH;
	if (reported)
		return reported;
	if (place->call < FAULT_CALLS && fuzz_calls_alike(fuzz, place->call) < place->number)
		return FUZZ_UNREACHED;
	return WEXITSTATUS(run->status) ? FUZZ_REPORTED : FUZZ_WENT_ON;
}

/* Each takes the whole timeout, and more of the same won't tell more. */
static bool hangs_enough(const struct fuzz *fuzz, const struct fuzz_place *place)
{
	unsigned int hangs = 0;

	for (const struct fuzz_place *before = fuzz->places; before < place; before++)
		hangs += before->kind == place->kind && before->call == place->call &&
			 before->outcome == FUZZ_HANG;
	return hangs >= HANGS_ENOUGH;
}

/* What takes longer hangs. */
static double timeout_of(const struct fuzz *fuzz, const struct fuzz_place *place)
{
	if (fuzz->timeout)
		return fuzz->timeout;
	return fmax(fuzz->usage.seconds * TIMES_THE_FIRST, fmax(place->seconds, LEAST_TIMEOUT));
}

static void try_all(struct fuzz *fuzz)
{
	for (unsigned int i = 0; i < fuzz->place_count && !fuzz_has_stopped(fuzz); i++) {
		struct fuzz_place *place = &fuzz->places[i];

		if (!fuzz->keep_going && hangs_enough(fuzz, place))
			continue;
		fuzz_show_progress(fuzz, place);
		place->run =
			fuzz_run(fuzz, &(struct fuzz_how){.fault = place->fault,
							  .checked = fuzz_is_checked(fuzz, place),
							  .seconds = timeout_of(fuzz, place)});
		place->outcome = judge(fuzz, place);
		if (!fuzz_is_finding(place->outcome))
			fuzz_run_free(&place->run);
	}
	fuzz_end_progress();
}

/* --- the command ------------------------------------------------------------------------- */

enum { TIMEOUT = 0x1000, PEER, PEER_NODE, SEEDS, ONLY, JSON, KEEP_GOING, OUTPUT, NO_CHECK };

static const struct argp_option options[] = {
	{"timeout", TIMEOUT, "SECONDS", 0,
	 "A run that takes longer hangs; default: ten times what it takes without faults, and 10 "
	 "at least, or 100 where each REQ of rdma_cm is lost"},
	{"peer", PEER, "COMMAND", 0,
	 "A shell command that is started before each run, with devices and without faults"},
	{"peer-node", PEER_NODE, "ADDRESSES", 0, "The node of the peer; default 127.0.0.1"},
	{"seeds", SEEDS, "NUMBER", 0, "How often packets are lost at random; default 10"},
	{"only", ONLY, "LIST", 0,
	 "Only these faults: calls, completions, events, connections, link, timing, packets; or "
	 "calls by their name or its beginning"},
	{"json", JSON, NULL, 0, "Print what became of each place as JSON"},
	{"keep-going", KEEP_GOING, NULL, 0,
	 "Try all places, even when three that are alike have hung"},
	{"output", OUTPUT, "FOLDER", 0,
	 "Keep there what the program wrote in each run that is a "
	 "finding"},
	{"no-check", NO_CHECK, NULL, 0, "Find crashes and hangs alone, without the checker"},
	{0},
};

#define GIVEN_LEAST 0.001 /* seconds, with --timeout */
#define GIVEN_MOST 1000000

static error_t parse(int key, char *argument, struct argp_state *state)
{
	struct fuzz *fuzz = state->input;

	switch (key) {
	case TIMEOUT:
		fuzz->timeout = option_decimal("--timeout", argument, GIVEN_LEAST, GIVEN_MOST);
		return 0;
	case PEER:
		fuzz->peer = option_value("--peer", argument);
		return 0;
	case PEER_NODE:
		fuzz->peer_node = option_value("--peer-node", argument);
		return 0;
	case SEEDS:
		fuzz->seeds = option_number("--seeds", argument, 0, MOST_SEEDS);
		return 0;
	case ONLY:
		fuzz->only = argument;
		fuzz_check_only(fuzz);
		return 0;
	case JSON:
		fuzz->json = true;
		return 0;
	case KEEP_GOING:
		fuzz->keep_going = true;
		return 0;
	case NO_CHECK:
		fuzz->unchecked = true;
		return 0;
	case OUTPUT:
		fuzz->output = option_value("--output", argument);
		return 0;
	case ARGP_KEY_ARGS:
		fuzz->program = state->argv + state->next;
		return 0;
	case ARGP_KEY_NO_ARGS:
		die("no program to run; see urxe fuzz --help");
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* Both nodes are possible, and the program is one that gets the devices. */
static void check_programs(struct fuzz *fuzz)
{
	fuzz->faults = fuzz_variable("URXE_FAULTS");
	fuzz->node = fuzz_variable("URXE_NODE");
	fuzz->devices = fuzz_variable("URXE_DEVICES");
	if (!fuzz->node && !fuzz->devices)
		fuzz->node = "127.0.0.2";
	if (fuzz->peer) {
		fuzz_set_variable("URXE_NODE", fuzz->peer_node);
		fuzz_set_variable("URXE_DEVICES", NULL);
		launch_check("sh");
	}
	fuzz_set_variable("URXE_NODE", fuzz->node);
	fuzz_set_variable("URXE_DEVICES", fuzz->devices);
	fuzz->library = launch_check(fuzz->program[0]);
}

int command_fuzz(int argc, char **argv)
{
	static const struct argp argp = {
		.options = options,
		.parser = parse,
		.args_doc = "[--] PROGRAM [ARGUMENT...]",
		.doc = "Run PROGRAM again and again with one fault each, and list those with which "
		       "it crashes, hangs or leaks.",
		.children = device_options,
	};
	static struct fuzz fuzz = {.seeds = 10, .peer_node = "127.0.0.1"};
	unsigned int findings;

	if (argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &fuzz))
		return EXIT_REFUSED;
	check_programs(&fuzz);
	make_directory(&fuzz);
	fuzz.check = fuzz_check_option(&fuzz);
	refuse_comma(&fuzz);
	fuzz_run_begin();
	run_without_faults(&fuzz);
	fuzz_plan(&fuzz);
	refuse_no_places(&fuzz);
	try_all(&fuzz);
	/* Whether anything reads what was found or not, the session's files are removed. */
	signal(SIGPIPE, SIG_IGN);
	if (fuzz.json)
		fuzz_print_json(&fuzz);
	else
		fuzz_print_text(&fuzz);
	findings = fuzz_count_findings(&fuzz);
	remove_files(&fuzz);
	if (fuzz.interrupted)
		return 128 + fuzz.interrupted;
	if (fuzz.unwritable)
		return EXIT_REFUSED;
	return findings ? EXIT_FAILURE : EXIT_SUCCESS;
}
