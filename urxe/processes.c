/* SPDX-License-Identifier: BSD-2-Clause */
#include "urxe/processes.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "net/cause/words.h"
#include "net/clock.h"
#include "net/observe/observe.h"
#include "net/verbs_text.h"
#include "net/wire/gid.h"
#include "urxe/command.h"

#define LENGTH(array) (sizeof(array) / sizeof(*(array)))
static const union ibv_gid any_gid;

/* --- reading ----------------------------------------------------------------------- */

static void warn(void *context, const char *path, const char *why)
{
	fprintf(stderr, "urxe: %s is left out: %s\n", path, why);
}

/* Returns errno. */
static int read_processes(const struct observed_options *given, struct observed **processes)
{
	static bool warned;
	struct observed_options options = *given;

	if (!warned)
		options.left_out = warn;
	warned = true;
	return observed_read(&options, processes);
}

struct observed *processes_read(const struct observed_options *options)
{
	struct observed *processes;
	int error = read_processes(options, &processes);

	if (error)
		die(OBSERVE_DIRECTORY ": %s", strerror(error));
	return processes;
}

bool processes_try_read(const struct observed_options *options, struct observed **processes)
{
	static bool warned;
	int error = read_processes(options, processes);

	if (error && !warned)
		fprintf(stderr,
			"urxe: " OBSERVE_DIRECTORY ": %s: what is transferred isn't known\n",
			strerror(error));
	warned |= error != 0;
	return !error;
}

const char *absence_text(pid_t pid, char text[ABSENCE_TEXT])
{
	int error = kill(pid, 0) == 0 ? 0 : errno;
	const char *why = "has no device of urxe's open";
	struct stat folder;
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d", pid);
	if (error == EPERM || (stat(path, &folder) == 0 && folder.st_uid != geteuid()))
		why = "is another user's";
	if (error == ESRCH)
		snprintf(text, ABSENCE_TEXT, "there is no process %d", pid);
	else
		snprintf(text, ABSENCE_TEXT, "process %d %s", pid, why);
	return text;
}

/* --- sums -------------------------------------------------------------------------- */

static void add(struct observe_totals *sum, const struct observe_totals *more)
{
	sum->traffic.sent_messages += more->traffic.sent_messages;
	sum->traffic.sent_bytes += more->traffic.sent_bytes;
	sum->traffic.received_messages += more->traffic.received_messages;
	sum->traffic.received_bytes += more->traffic.received_bytes;
#define X(name) sum->losses.name += more->losses.name;
	OBSERVE_LOSSES(X)
#undef X
}

void session_name(char name[OBSERVE_SESSION])
{
	snprintf(name, OBSERVE_SESSION, "%d-%" PRIx64, (int)getpid(), clock_now());
}

uint64_t latency_messages(const struct observe_latency *latency)
{
	uint64_t sum = 0;

	for (unsigned int i = 0; i < OBSERVE_BUCKETS; i++)
		sum += latency->bucket[i];
	return sum;
}

struct observe_totals process_totals(const struct observed *process)
{
	const struct observe_device *device = NULL;
	const struct observe_qp *qp = NULL;
	struct observe_totals sum = {};

	while ((device = observed_next(process, OBSERVE_DEVICE, device)))
		add(&sum, &device->destroyed);
	while ((qp = observed_next(process, OBSERVE_QP, qp)))
		add(&sum, &qp->done);
	return sum;
}

/* Of marks that were read at different moments. */
static uint32_t distance(uint32_t from, uint32_t to)
{
	return (int32_t)(to - from) > 0 ? to - from : 0;
}

uint32_t qp_outstanding(const struct observe_qp *qp)
{
	return distance(qp->progress.done, qp->progress.posted);
}

uint32_t qp_sent(const struct observe_qp *qp)
{
	return distance(qp->progress.done, qp->progress.sent);
}

/* --- names ------------------------------------------------------------------------- */

#define X(name, word) word,

const char *recovery_name(unsigned int state)
{
	static const char *const names[] = {OBSERVE_RECOVERY(X)};

	return word_text(names, LENGTH(names), state);
}

const char *armed_name(unsigned int armed)
{
	static const char *const names[] = {OBSERVE_ARMED(X)};

	return word_text(names, LENGTH(names), armed);
}

#undef X

const char *wc_status_name(unsigned int status)
{
	const struct verbs_text *text = wc_status_text(status);

	return text ? text->constant : "unknown";
}

const char *class_name(enum observe_class class)
{
	static const char *const names[] = {
		[OBSERVE_SEND] = "SEND",     [OBSERVE_WRITE] = "WRITE", [OBSERVE_READ] = "READ",
		[OBSERVE_ATOMIC] = "ATOMIC", [OBSERVE_OTHER] = "other",
	};

	return word_text(names, LENGTH(names), class);
}

/* --- text -------------------------------------------------------------------------- */

const char *address_text(const uint8_t bytes[16], char text[ADDRESS_TEXT])
{
	union ibv_gid gid;

	memcpy(&gid, bytes, sizeof(gid));
	*text = '\0';
	return gid_equal(&gid, &any_gid) ? text : gid_to_text(&gid, text);
}

/* Three digits that count. */
static const char *scaled(double value, const char *const *units, unsigned int count,
			  char text[AMOUNT_TEXT])
{
	unsigned int unit = 0;

	for (; value >= 999.5 && unit + 1 < count; unit++)
		value /= 1000;
	snprintf(text, AMOUNT_TEXT, "%.*f%s",
		 unit == 0 || value >= 99.95 ? 0
		 : value >= 9.995	     ? 1
					     : 2,
		 value, units[unit]);
	return text;
}

const char *amount_text(double amount, char text[AMOUNT_TEXT])
{
	static const char *const units[] = {"", "k", "M", "G", "T", "P", "E"};

	return scaled(amount, units, LENGTH(units), text);
}

const char *time_text(double nanoseconds, char text[AMOUNT_TEXT])
{
	static const char *const units[] = {" ns", " us", " ms", " s"};

	return scaled(nanoseconds, units, LENGTH(units), text);
}

const char *ago_text(uint64_t time, char text[AMOUNT_TEXT])
{
	uint64_t now = clock_now();

	return time > now ? "?" : time_text(now - time, text);
}
