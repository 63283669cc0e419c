/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * urxe stat: what a program and its children have transferred, when it has ended. They measure
 * because URXE_STAT is set, to the name of this session, and leave their files for it. So the
 * program needs to do nothing at its end, and may be killed.
 */
#include "urxe/stat.h"

#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <utlist.h>

#include "urxe/command.h"
#include "urxe/json.h"
#include "urxe/launch.h"
#include "urxe/options.h"
#include "urxe/processes.h"

/* Files of processes that have ended are removed a minute later, so read them before. */
#define COLLECT_SECONDS 10

struct session {
	char name[OBSERVE_SESSION];
	struct observed *ended; /* those that have been read, and their files removed */
	unsigned int count;
	bool unknown; /* there may be others, which can't be read */
};

/* --- figures ----------------------------------------------------------------------- */

/* The upper end of the bucket in which the @part of all are reached, ns. */
static double percentile(const struct observe_latency *latency, double part)
{
	double longest = latency->longest, wanted = latency_messages(latency) * part;
	uint64_t sum = 0;

	for (unsigned int i = 0; i < OBSERVE_BUCKETS; i++) {
		sum += latency->bucket[i];
		if (sum >= wanted)
			return (double)(UINT64_C(2) << i) < longest ? (double)(UINT64_C(2) << i)
								    : longest;
	}
	return longest;
}

/* Of all devices that the process has or had. */
static struct observe_latency sum_latencies(const struct observed *process,
					    enum observe_class class)
{
	const struct observe_device *device = NULL;
	struct observe_latency sum = {};

	while ((device = observed_next(process, OBSERVE_DEVICE, device))) {
		const struct observe_latency *more = &device->latency[class];

		sum.bytes += more->bytes;
		sum.total += more->total;
		if (more->longest > sum.longest)
			sum.longest = more->longest;
		for (unsigned int i = 0; i < OBSERVE_BUCKETS; i++)
			sum.bucket[i] += more->bucket[i];
	}
	return sum;
}

static struct counters sum_counters(const struct observed *process)
{
	const struct observe_device *device = NULL;
	struct counters sum = {};

	while ((device = observed_next(process, OBSERVE_DEVICE, device))) {
#define X(name) sum.name += device->counters.name;
		COUNTERS(X)
#undef X
	}
	return sum;
}

/* --- text -------------------------------------------------------------------------- */

/* Of the counters what tells of a network that is slow, or lets nothing through. */
#define NETWORK_COUNTERS(X)                                                                        \
	X(send_err)                                                                                \
	X(icrc_errors)                                                                             \
	X(malformed_packets)                                                                       \
	X(dropped_packets)                                                                         \
	X(np_ecn_marked_roce_packets)                                                              \
	X(rp_cnp_handled)

static void print_nonzero(const char *name, uint64_t value)
{
	if (value)
		fprintf(stderr, "    %-26s %12" PRIu64 "\n", name, value);
}

static void print_histogram(const struct observe_latency *latency)
{
	uint64_t all = latency_messages(latency);
	unsigned int first = 0, last = OBSERVE_BUCKETS;
	char from[AMOUNT_TEXT];

	while (!latency->bucket[first])
		first++;
	while (!latency->bucket[last - 1])
		last--;
	for (unsigned int i = first; i < last; i++)
		fprintf(stderr, "      from %8s %12" PRIu64 "  %.*s\n",
			time_text((double)(UINT64_C(1) << i), from), (uint64_t)latency->bucket[i],
			(int)(40 * latency->bucket[i] / all),
			"########################################");
}

static void print_class(enum observe_class class, const struct observe_latency *latency)
{
	char mean[AMOUNT_TEXT], half[AMOUNT_TEXT], most[AMOUNT_TEXT], longest[AMOUNT_TEXT];
	uint64_t count = latency_messages(latency);

	fprintf(stderr,
		"    %-6s %12" PRIu64 " of %" PRIu64 " bytes; mean %s, 50%% within %s, 99%% within "
		"%s, longest %s\n",
		class_name(class), count, (uint64_t)latency->bytes,
		time_text((double)latency->total / count, mean),
		time_text(percentile(latency, 0.5), half),
		time_text(percentile(latency, 0.99), most), time_text(latency->longest, longest));
	print_histogram(latency);
}

static void print_latencies(const struct observed *process)
{
	const char *head = "  work requests, from being posted to their completion\n";

	for (enum observe_class class = 0; class < OBSERVE_CLASSES; class ++) {
		struct observe_latency latency = sum_latencies(process, class);

		if (!latency_messages(&latency))
			continue;
		fputs(head, stderr);
		head = "";
		print_class(class, &latency);
	}
}

static void print_process(const struct observed *process)
{
	struct observe_totals totals = process_totals(process);
	struct counters counters = sum_counters(process);
	const struct observe_traffic *traffic = &totals.traffic;
	const struct observe_losses *losses = &totals.losses;

	fprintf(stderr, "\nurxe stat: %u  %s%s\n", process->header.pid, process->header.command,
		process->state == OBSERVED_ENDED ? "" : " (goes on)");
	fprintf(stderr, "  sent     %12" PRIu64 " messages %16" PRIu64 " bytes\n",
		traffic->sent_messages, traffic->sent_bytes);
	fprintf(stderr, "  received %12" PRIu64 " messages %16" PRIu64 " bytes\n",
		traffic->received_messages, traffic->received_bytes);
	fprintf(stderr,
		"  packets  %12" PRIu64 " sent %12" PRIu64 " received %12" PRIu64 " sent again\n",
		(uint64_t)counters.sent_pkts, (uint64_t)counters.rcvd_pkts, losses->resent);
#define X(name) print_nonzero(#name, losses->name);
	OBSERVE_LOSSES(X)
#undef X
#define X(name) print_nonzero(#name, counters.name);
	NETWORK_COUNTERS(X)
#undef X
	print_latencies(process);
}

/* --- JSON -------------------------------------------------------------------------- */

static json_t *class_json(const struct observed *process, enum observe_class class)
{
	struct observe_latency latency = sum_latencies(process, class);
	json_t *histogram = json_array();

	for (unsigned int i = 0; i < OBSERVE_BUCKETS; i++) {
		if (latency.bucket[i])
			json_array_append_new(histogram,
					      json_pack("{s:I, s:I}", "from_ns", (json_int_t)1 << i,
							"count", (json_int_t)latency.bucket[i]));
	}
	return json_pack("{s:I, s:I, s:I, s:I, s:o}", "messages",
			 (json_int_t)latency_messages(&latency), "bytes", (json_int_t)latency.bytes,
			 "total_ns", (json_int_t)latency.total, "longest_ns",
			 (json_int_t)latency.longest, "histogram", histogram);
}

static json_t *summary_json(const struct observed *process)
{
	struct observe_totals totals = process_totals(process);
	json_t *json = process_json(process), *classes = json_object();

	for (enum observe_class class = 0; class < OBSERVE_CLASSES; class ++)
		json_object_set_new(classes, class_name(class), class_json(process, class));
	json_object_set_new(json, "requests", classes);
	json_object_set_new(json, "losses", losses_json(&totals.losses));
	return json;
}

/* --- processes --------------------------------------------------------------------- */

/*
 * Takes those that have ended, and their files with them. The others are left, or with @all
 * taken as they are.
 */
static void collect(struct session *session, bool all)
{
	const struct observed_options options = {
		.session = session->name, .ended = true, .all_namespaces = true};
	struct observed *processes, *process, *next;

	session->unknown |= !processes_try_read(&options, &processes);
	LL_FOREACH_SAFE (processes, process, next) {
		if (process->state != OBSERVED_ENDED && !all) {
			process->next = NULL;
			observed_free(process);
			continue;
		}
		if (process->state == OBSERVED_ENDED)
			unlink(process->path);
		LL_APPEND(session->ended, process);
		session->count++;
	}
}

static bool has_packets(const struct observed *process)
{
	struct counters counters = sum_counters(process);

	return counters.sent_pkts || counters.rcvd_pkts;
}

/*
 * A process that closes its devices and opens some again leaves a file each time, and many do so
 * just to look at them first. Where another file says more, or as little and later, such a one
 * isn't printed.
 */
static bool is_superseded(const struct session *session, const struct observed *process)
{
	const struct observed *other;
	bool later = false;

	if (has_packets(process))
		return false;
	LL_FOREACH (session->ended, other) {
		if (other->header.pid == process->header.pid && (later || has_packets(other)))
			return true;
		later |= other == process;
	}
	return false;
}

static void print_session(const struct session *session, bool json)
{
	const struct observed *process;
	json_t *list = json_array();

	LL_FOREACH (session->ended, process) {
		if (is_superseded(session, process))
			continue;
		if (json)
			json_array_append_new(list, summary_json(process));
		else
			print_process(process);
	}
	if (json)
		json_print(stderr, json_pack("{s:O}", "processes", list), JSON_INDENT(2));
	else if (!session->count && !session->unknown)
		fputs("urxe stat: no process had a device open, or could leave its figures\n",
		      stderr);
	json_decref(list);
}

/* --- the program ------------------------------------------------------------------- */

static volatile sig_atomic_t child;

/* The terminal's signals go to the program as well, which ends if it likes; others are for it. */
static void forward(int number, siginfo_t *info, void *context)
{
	if (info->si_code <= 0 && child > 0)
		kill(child, number);
}

static void handle_signals(void)
{
	static const int numbers[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};
	struct sigaction action = {.sa_sigaction = forward, .sa_flags = SA_SIGINFO | SA_RESTART};

	for (unsigned int i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		sigaction(numbers[i], &action, NULL);
}

static int wait_for_program(struct session *session)
{
	struct timespec period = {.tv_sec = COLLECT_SECONDS};
	sigset_t ends;
	int status;

	sigemptyset(&ends);
	sigaddset(&ends, SIGCHLD);
	while (waitpid(child, &status, WNOHANG) == 0) {
		if (sigtimedwait(&ends, NULL, &period) < 0 && errno == EAGAIN)
			collect(session, false);
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int stat_program(char **program, bool json)
{
	const struct sigaction usual = {.sa_handler = SIG_DFL};
	struct session session = {};
	struct sigaction given;
	sigset_t all, before, ends;
	const char *library;
	int status;

	session_name(session.name);
	if (setenv("URXE_STAT", session.name, 1) != 0)
		die("out of memory");
	/* Of a program that isn't started there is no summary. */
	library = launch_check(program[0]);
	/*
	 * Signals wait until they can be forwarded, SIGCHLD until sigtimedwait(). Ignored, as a
	 * parent may have left it, that wouldn't come, and the kernel would keep no status.
	 */
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &before);
	sigaction(SIGCHLD, &usual, &given);
	child = fork();
	if (child < 0)
		die("can't start a process: %s", strerror(errno));
	if (child == 0) {
		sigaction(SIGCHLD, &given, NULL);
		sigprocmask(SIG_SETMASK, &before, NULL);
		launch_checked(program, library);
	}
	handle_signals();
	ends = before;
	sigaddset(&ends, SIGCHLD);
	sigprocmask(SIG_SETMASK, &ends, NULL);
	status = wait_for_program(&session);
	collect(&session, true);
	print_session(&session, json);
	observed_free(session.ended);
	return status;
}

/* --- options ----------------------------------------------------------------------- */

enum { JSON = 0x1000 };

struct request {
	char **program;
	bool json;
};

static const struct argp_option options[] = {
	{"json", JSON, NULL, 0, "Print the summary as JSON"},
	{0},
};

static error_t parse(int key, char *argument, struct argp_state *state)
{
	struct request *request = state->input;

	switch (key) {
	case JSON:
		request->json = true;
		return 0;
	case ARGP_KEY_ARGS:
		request->program = state->argv + state->next;
		return 0;
	case ARGP_KEY_NO_ARGS:
		die("no program to run; see urxe stat --help");
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

int command_stat(int argc, char **argv)
{
	static const struct argp argp = {
		.options = options,
		.parser = parse,
		.args_doc = "[--] PROGRAM [ARGUMENT...]",
		.doc = "Run PROGRAM with the emulated RoCEv2 devices, and print on stderr at its "
		       "end what it has transferred, how long that took, and what was lost.",
		.children = program_options,
	};
	struct request request = {};

	if (argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &request))
		return EXIT_REFUSED;
	return stat_program(request.program, request.json);
}
