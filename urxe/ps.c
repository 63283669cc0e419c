/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * urxe ps: the processes that have devices open, and what they have there.
 */
#include <argp.h>
#include <inttypes.h>
#include <stdlib.h>
#include <utlist.h>

#include "net/cause/cause.h"
#include "net/cm_text.h"
#include "net/qp_text.h"
#include "urxe/command.h"
#include "urxe/json.h"
#include "urxe/options.h"
#include "urxe/processes.h"

struct request {
	struct observed_options options;
	bool json, verbose;
	unsigned int pid_count;
	unsigned int pids[256];
};

/* --- queue pairs ------------------------------------------------------------------- */

static void print_losses(const struct observe_losses *losses)
{
	static const struct {
		size_t offset;
		const char *what;
	} parts[] = {
		{offsetof(struct observe_losses, resent), "packets sent again"},
		{offsetof(struct observe_losses, timeouts), "timeouts"},
		{offsetof(struct observe_losses, sequence_naks), "sequence NAKs"},
		{offsetof(struct observe_losses, missed_responses), "responses missed"},
		{offsetof(struct observe_losses, probes), "probes"},
		{offsetof(struct observe_losses, rnr_naks), "RNR NAKs"},
		{offsetof(struct observe_losses, sequence_naks_sent), "sequence NAKs sent"},
		{offsetof(struct observe_losses, rnr_naks_sent), "RNR NAKs sent"},
		{offsetof(struct observe_losses, duplicates), "duplicates received"},
		{offsetof(struct observe_losses, packets_kept), "packets kept"},
	};
	bool any = false;

	for (unsigned int i = 0; i < sizeof(parts) / sizeof(*parts); i++) {
		uint64_t count = *(const uint64_t *)((const char *)losses + parts[i].offset);

		if (!count)
			continue;
		printf("%s%s: %" PRIu64, any ? ", " : "          ", parts[i].what, count);
		any = true;
	}
	if (any)
		putchar('\n');
}

static void print_error(const struct observe_qp *qp)
{
	const struct cause_entry *cause = cause_find(qp->error_cause);
	char ago[AMOUNT_TEXT];

	printf("          errors: %" PRIu64 ", the last one %s ago: %s", qp->errors,
	       ago_text(qp->error_at, ago), wc_status_name(qp->error_status));
	if (cause)
		printf(", cause 0x%04x: %s", qp->error_cause, cause->title);
	putchar('\n');
}

static void print_sequence(const struct observe_qp *qp)
{
	const struct observe_qp_progress *progress = &qp->progress;
	char idle[AMOUNT_TEXT];

	printf("          PSN 0x%06x, unacknowledged from 0x%06x, expects 0x%06x; %u READs and "
	       "atomics outstanding\n",
	       progress->psn, progress->unacked, progress->expected_psn, progress->rd_atomic);
	printf("          %s; retries left %u of %u, RNR retries %u of %u, timeout %u; MTU %u; "
	       "idle for %s\n",
	       recovery_name(progress->recovery), progress->retries, qp->retry_count,
	       progress->rnr_retries, qp->rnr_retry, qp->timeout, qp->mtu,
	       ago_text(progress->changed, idle));
}

static void print_peer(const struct observe_qp *qp, char *text, size_t size)
{
	char address[ADDRESS_TEXT];

	if (*address_text(qp->peer, address))
		snprintf(text, size, "%s QP 0x%06x", address, qp->peer_qpn);
	else
		snprintf(text, size, "-");
}

static void print_qp(const struct observe_qp *qp, bool verbose)
{
	const struct observe_traffic *traffic = &qp->done.traffic;
	char peer[ADDRESS_TEXT + 16], flight[AMOUNT_TEXT], send[32], receive[32];
	char sent[AMOUNT_TEXT], sent_bytes[AMOUNT_TEXT];
	char received[AMOUNT_TEXT], received_bytes[AMOUNT_TEXT];

	print_peer(qp, peer, sizeof(peer));
	snprintf(send, sizeof(send), "%u/%u", qp_outstanding(qp), qp->max_send_wr);
	snprintf(receive, sizeof(receive), "%u/%u", qp->progress.receives, qp->max_recv_wr);
	printf("  QP 0x%06x %-8s %-5s to %-28s send %-11s receive %-11s in flight %sB, sent %s "
	       "(%sB), received %s (%sB)\n",
	       qp->number, qp_type_text(qp->type), qp_state_text(qp->progress.state), peer, send,
	       receive, amount_text(qp->progress.in_flight, flight),
	       amount_text(traffic->sent_messages, sent),
	       amount_text(traffic->sent_bytes, sent_bytes),
	       amount_text(traffic->received_messages, received),
	       amount_text(traffic->received_bytes, received_bytes));
	if (verbose)
		print_sequence(qp);
	print_losses(&qp->done.losses);
	if (qp->errors)
		print_error(qp);
}

/* --- other objects ----------------------------------------------------------------- */

static void print_cq(const struct observe_cq *cq)
{
	char completions[AMOUNT_TEXT], events[AMOUNT_TEXT];

	printf("  CQ %-8u completions %u/%u, %s in all, %s events%s%s\n", cq->number, cq->entries,
	       cq->capacity, amount_text(cq->completions, completions),
	       amount_text(cq->events, events), cq->armed ? ", armed" : "",
	       cq->overrun ? ", OVERRUN" : "");
}

static void print_srq(const struct observe_srq *srq)
{
	printf("  SRQ %-7u receive %u/%u, limit %u\n", srq->number, srq->entries, srq->capacity,
	       srq->limit);
}

static void print_region(const struct observe_region *region)
{
	printf("  MR 0x%08x %" PRIu64 " bytes at 0x%" PRIx64 ", access 0x%x\n", region->key,
	       region->length, region->address, region->access);
}

static void print_connection(const struct observe_connection *connection)
{
	char local[ADDRESS_TEXT], peer[ADDRESS_TEXT], service[CM_SERVICE_TEXT];
	bool listens = connection->state == CM_STATE_LISTEN;

	address_text(connection->local, local);
	cm_service_text(connection->service_id, service);
	if (listens)
		printf("  listener at %s, %s%s\n", *local ? local : "any address", service,
		       connection->datagram ? ", datagrams" : "");
	else
		printf("  connection %s %s to %s, %s, QP 0x%06x to 0x%06x\n",
		       cm_state_text(connection->state), local,
		       address_text(connection->peer, peer), service, connection->qpn,
		       connection->peer_qpn);
}

/* --- processes --------------------------------------------------------------------- */

static void print_devices(const struct observed *process)
{
	const struct observe_device *device = NULL;
	char text[ADDRESS_TEXT];

	while ((device = observed_next(process, OBSERVE_DEVICE, device))) {
		printf("  %s", device->name);
		for (unsigned int i = 0; i < OBSERVE_GIDS; i++) {
			if (*address_text(device->gid[i], text))
				printf(" %s", text);
		}
		printf("  regions: %" PRIu64 ", %sB%s\n", (uint64_t)device->regions,
		       amount_text(device->region_bytes, text), device->open ? "" : ", closed");
	}
}

static void print_left_out(const struct observed *process)
{
	static const char *const names[] = {
		[OBSERVE_DEVICE] = "devices", [OBSERVE_QP] = "QPs",
		[OBSERVE_CQ] = "CQs",	      [OBSERVE_SRQ] = "SRQs",
		[OBSERVE_REGION] = "regions", [OBSERVE_CONNECTION] = "connections",
	};

	for (unsigned int kind = OBSERVE_DEVICE; kind < OBSERVE_KINDS; kind++) {
		if (process->header.left_out[kind])
			printf("  and %u more %s\n", process->header.left_out[kind], names[kind]);
	}
}

#define FOR_EACH(process, kind, type, record)                                                      \
	for (const struct type *record = NULL; (record = observed_next(process, kind, record));)

static void print_process(const struct observed *process, bool verbose)
{
	printf("%u  %s%s%s\n", process->header.pid, process->header.command,
	       process->state == OBSERVED_RUNNING ? "" : "  ",
	       process->state == OBSERVED_RUNNING ? "" : observed_state_name(process->state));
	print_devices(process);
	FOR_EACH(process, OBSERVE_QP, observe_qp, qp)
	print_qp(qp, verbose);
	FOR_EACH(process, OBSERVE_CQ, observe_cq, cq)
	print_cq(cq);
	FOR_EACH(process, OBSERVE_SRQ, observe_srq, srq)
	print_srq(srq);
	FOR_EACH(process, OBSERVE_CONNECTION, observe_connection, connection)
	{
		if (verbose || connection->state)
			print_connection(connection);
	}
	if (verbose) {
		FOR_EACH(process, OBSERVE_REGION, observe_region, region)
		print_region(region);
	}
	print_left_out(process);
}

static bool is_asked_for(const struct request *request, const struct observed *process)
{
	for (unsigned int i = 0; i < request->pid_count; i++) {
		if (request->pids[i] == process->header.pid)
			return true;
	}
	return request->pid_count == 0;
}

static bool is_there(const struct observed *processes, uint32_t pid)
{
	const struct observed *process;

	LL_FOREACH (processes, process) {
		if (process->header.pid == pid)
			return true;
	}
	return false;
}

/* Returns whether all that were named are there. */
static bool tell_of_missing(const struct request *request, const struct observed *processes)
{
	char text[ABSENCE_TEXT];
	bool all = true;

	for (unsigned int i = 0; i < request->pid_count; i++) {
		if (is_there(processes, request->pids[i]))
			continue;
		fprintf(stderr, "urxe: %s\n", absence_text(request->pids[i], text));
		all = false;
	}
	return all;
}

static void print_all(const struct request *request, const struct observed *processes)
{
	json_t *list = json_array();
	const struct observed *process;

	LL_FOREACH (processes, process) {
		if (!is_asked_for(request, process))
			continue;
		if (request->json)
			json_array_append_new(list, process_json(process));
		else
			print_process(process, request->verbose);
	}
	if (request->json)
		json_print(stdout, json_pack("{s:O}", "processes", list), JSON_INDENT(2));
	json_decref(list);
}

/* --- options ----------------------------------------------------------------------- */

enum { JSON = 0x100 };

static const struct argp_option options[] = {
	{"all", 'a', NULL, 0, "Those of other network namespaces, too"},
	{"ended", 'e', NULL, 0, "Those that were killed or ended with connected QPs lately, too"},
	{"json", JSON, NULL, 0, "Print JSON"},
	{"verbose", 'v', NULL, 0, "Sequence numbers, retries, and each memory region"},
	{0},
};

static void add_pid(struct request *request, const char *text)
{
	if (request->pid_count == sizeof(request->pids) / sizeof(*request->pids))
		die("too many process ids");
	request->pids[request->pid_count++] = option_pid(text);
}

static error_t parse(int key, char *argument, struct argp_state *state)
{
	struct request *request = state->input;

	switch (key) {
	case 'a':
		request->options.all_namespaces = true;
		return 0;
	case 'e':
		request->options.ended = true;
		return 0;
	case 'v':
		request->verbose = true;
		return 0;
	case JSON:
		request->json = true;
		return 0;
	case ARGP_KEY_ARG:
		add_pid(request, argument);
		request->options.all_namespaces = true;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

int command_ps(int argc, char **argv)
{
	static const struct argp argp = {
		.options = options,
		.parser = parse,
		.args_doc = "[PID...]",
		.children = plain_options,
		.doc = "List the processes of this user that have emulated devices open, with "
		       "their queue pairs, completion queues, regions and connections.",
	};
	struct request request = {};
	struct observed *processes;
	bool all;

	if (argp_parse(&argp, argc, argv, 0, NULL, &request))
		return EXIT_REFUSED;
	processes = processes_read(&request.options);
	print_all(&request, processes);
	all = tell_of_missing(&request, processes);
	observed_free(processes);
	return all ? EXIT_SUCCESS : EXIT_FAILURE;
}
