/* SPDX-License-Identifier: BSD-2-Clause */
#include "urxe/processes.h"

#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <utlist.h>

#include "net/wire/gid.h"
#include "urxe/command.h"

#define LENGTH(array) (sizeof(array) / sizeof(*(array)))
static const union ibv_gid any_gid;

#define NAME(names, index) ((index) < LENGTH(names) && (names)[index] ? (names)[index] : "?")

/* --- reading ----------------------------------------------------------------------- */

static void warn(void *context, const char *path, const char *why)
{
	fprintf(stderr, "urxe: %s is left out: %s\n", path, why);
}

struct observed *processes_read(const struct observed_options *given)
{
	static bool warned;
	struct observed_options options = *given;
	struct observed *processes;
	int error;

	if (!warned)
		options.left_out = warn;
	warned = true;
	error = observed_read(&options, &processes);
	if (error)
		die("/dev/shm: %s", strerror(error));
	return processes;
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

const char *qp_type_name(unsigned int type)
{
	static const char *const names[] = {
		[IBV_QPT_RC] = "RC",
		[IBV_QPT_UC] = "UC",
		[IBV_QPT_UD] = "UD",
		[IBV_QPT_XRC_SEND] = "XRC_SEND",
		[IBV_QPT_XRC_RECV] = "XRC_RECV",
	};

	return NAME(names, type);
}

const char *qp_state_name(unsigned int state)
{
	static const char *const names[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};

	return NAME(names, state);
}

/* enum recovery_state, which is the core's: emu/transport/recovery.h. */
const char *recovery_name(unsigned int state)
{
	static const char *const names[] = {
		"sending",	"probing with the next packet", "probing with the oldest packet",
		"second probe", "waiting, receiver not ready",	"failed"};

	return NAME(names, state);
}

/* enum cm_state: emu/cm/cm.h. */
const char *connection_state_name(unsigned int state)
{
	static const char *const names[] = {
		"IDLE",		 "LISTEN",	     "REQ_SENT",      "REQ_RECEIVED",
		"MRA_REQ_SENT",	 "MRA_REQ_RECEIVED", "REP_SENT",      "REP_RECEIVED",
		"MRA_REP_SENT",	 "MRA_REP_RECEIVED", "ESTABLISHED",   "DREQ_SENT",
		"DREQ_RECEIVED", "TIMEWAIT",	     "SIDR_REQ_SENT", "SIDR_REQ_RECEIVED",
	};

	return NAME(names, state);
}

const char *class_name(enum observe_class class)
{
	static const char *const names[] = {
		[OBSERVE_SEND] = "SEND",     [OBSERVE_WRITE] = "WRITE", [OBSERVE_READ] = "READ",
		[OBSERVE_ATOMIC] = "ATOMIC", [OBSERVE_OTHER] = "other",
	};

	return NAME(names, class);
}

/* --- text -------------------------------------------------------------------------- */

const char *address_text(const uint8_t bytes[16], char text[ADDRESS_TEXT])
{
	union ibv_gid gid;

	memcpy(&gid, bytes, sizeof(gid));
	*text = '\0';
	return gid_equal(&gid, &any_gid) ? text : gid_to_text(&gid, text);
}

/* As Linux makes them: 1, a port space, a port number. */
const char *service_text(uint64_t service_id, char text[ADDRESS_TEXT])
{
	static const struct {
		unsigned int space;
		const char *name;
	} spaces[] = {{0x0102, "ipoib"}, {0x0106, "tcp"}, {0x0111, "udp"}, {0x013f, "ib"}};

	for (unsigned int i = 0; i < LENGTH(spaces); i++) {
		if (service_id >> 16 == spaces[i].space) {
			snprintf(text, ADDRESS_TEXT, "%s port %u", spaces[i].name,
				 (unsigned int)(service_id & 0xffff));
			return text;
		}
	}
	snprintf(text, ADDRESS_TEXT, "service 0x%" PRIx64, service_id);
	return text;
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
