/* SPDX-License-Identifier: BSD-2-Clause */
/* Processes as JSON: urxe/processes.h. */
#include "net/cause/cause.h"
#include "net/clock.h"
#include "net/cm_text.h"
#include "net/qp_text.h"
#include "urxe/command.h"
#include "urxe/json.h"
#include "urxe/processes.h"

/* null: none */
static json_t *address_json(const uint8_t gid[16])
{
	char text[ADDRESS_TEXT];

	return *address_text(gid, text) ? json_string(text) : json_null();
}

static json_t *traffic_json(const struct observe_traffic *traffic)
{
	return json_pack("{s:o, s:o, s:o, s:o}", "sent_messages",
			 number_json(traffic->sent_messages), "sent_bytes",
			 number_json(traffic->sent_bytes), "received_messages",
			 number_json(traffic->received_messages), "received_bytes",
			 number_json(traffic->received_bytes));
}

json_t *losses_json(const struct observe_losses *losses)
{
	json_t *json = json_object();

#define X(name) json_object_set_new(json, #name, number_json(losses->name));
	OBSERVE_LOSSES(X)
#undef X
	return json;
}

static json_t *device_json(const void *record)
{
	const struct observe_device *device = record;
	json_t *addresses = json_array(), *counters = json_object();

	for (unsigned int i = 0; i < OBSERVE_GIDS; i++) {
		char text[ADDRESS_TEXT];

		if (*address_text(device->gid[i], text))
			json_array_append_new(addresses, json_string(text));
	}
#define X(name) json_object_set_new(counters, #name, number_json(device->counters.name));
	COUNTERS(X)
#undef X
	return json_pack("{s:o, s:b, s:o, s:o, s:o, s:o}", "name", text_json(device->name), "open",
			 device->open, "addresses", addresses, "regions",
			 number_json(device->regions), "region_bytes",
			 number_json(device->region_bytes), "counters", counters);
}

/* As ago_text(); null: it is yet to come. */
static json_t *ago_json(uint64_t time)
{
	uint64_t now = clock_now();

	return time > now ? json_null() : number_json(now - time);
}

/* null: there was none. */
static json_t *error_json(const struct observe_qp *qp)
{
	const struct cause_entry *cause = cause_find(qp->error_cause);

	if (!qp->errors)
		return json_null();
	return json_pack("{s:o, s:s, s:o, s:s?, s:o}", "count", number_json(qp->errors), "status",
			 wc_status_name(qp->error_status), "cause", hex_json(qp->error_cause),
			 "cause_name", cause ? cause->name : NULL, "ago_ns",
			 ago_json(qp->error_at));
}

static json_t *qp_json(const void *record)
{
	const struct observe_qp *qp = record;
	const struct observe_qp_progress *progress = &qp->progress;
	json_t *json =
		json_pack("{s:i, s:s, s:s, s:i, s:i, s:o, s:o, s:i}", "qpn", qp->number, "type",
			  qp_type_text(qp->type), "state", qp_state_text(progress->state), "port",
			  qp->port, "mtu", qp->mtu, "local", address_json(qp->local), "peer",
			  address_json(qp->peer), "peer_qpn", qp->peer_qpn);

	json_object_set_new(json, "send_queue",
			    json_pack("{s:I, s:I, s:I}", "capacity", (json_int_t)qp->max_send_wr,
				      "outstanding", (json_int_t)qp_outstanding(qp), "sent",
				      (json_int_t)qp_sent(qp)));
	json_object_set_new(json, "receive_queue",
			    json_pack("{s:I, s:I}", "capacity", (json_int_t)qp->max_recv_wr,
				      "outstanding", (json_int_t)progress->receives));
	json_object_set_new(
		json, "requester",
		json_pack("{s:s, s:i, s:i, s:I, s:I, s:i, s:i, s:i, s:i}", "state",
			  recovery_name(progress->recovery), "psn", progress->psn, "unacked_psn",
			  progress->unacked, "bytes_in_flight", (json_int_t)progress->in_flight,
			  "rd_atomic", (json_int_t)progress->rd_atomic, "retries_left",
			  progress->retries, "retry_count", qp->retry_count, "rnr_retries_left",
			  progress->rnr_retries, "rnr_retry", qp->rnr_retry));
	json_object_set_new(json, "timeout", json_integer(qp->timeout));
	json_object_set_new(json, "min_rnr_timer", json_integer(qp->min_rnr_timer));
	json_object_set_new(json, "expected_psn", json_integer(progress->expected_psn));
	json_object_set_new(json, "send_cq", json_integer(qp->send_cq));
	json_object_set_new(json, "receive_cq", json_integer(qp->recv_cq));
	json_object_set_new(json, "srq", qp->srq ? json_integer(qp->srq) : json_null());
	json_object_set_new(json, "idle_ns", ago_json(progress->changed));
	json_object_set_new(json, "traffic", traffic_json(&qp->done.traffic));
	json_object_set_new(json, "losses", losses_json(&qp->done.losses));
	json_object_set_new(json, "last_error", error_json(qp));
	return json;
}

static json_t *cq_json(const void *record)
{
	const struct observe_cq *cq = record;

	return json_pack("{s:I, s:I, s:I, s:s, s:b, s:o, s:o}", "cqn", (json_int_t)cq->number,
			 "capacity", (json_int_t)cq->capacity, "completions_waiting",
			 (json_int_t)cq->entries, "armed", armed_name(cq->armed), "overrun",
			 cq->overrun != 0, "completions", number_json(cq->completions), "events",
			 number_json(cq->events));
}

static json_t *srq_json(const void *record)
{
	const struct observe_srq *srq = record;
	return json_pack("{s:I, s:I, s:I, s:I}", "number", (json_int_t)srq->number, "capacity",
			 (json_int_t)srq->capacity, "outstanding", (json_int_t)srq->entries,
			 "limit", (json_int_t)srq->limit);
}

static json_t *region_json(const void *record)
{
	const struct observe_region *region = record;
	return json_pack("{s:o, s:o, s:o, s:o}", "key", hex_json(region->key), "address",
			 hex_json(region->address), "length", number_json(region->length), "access",
			 hex_json(region->access));
}

static json_t *connection_json(const void *record)
{
	const struct observe_connection *connection = record;
	char service[CM_SERVICE_TEXT];

	return json_pack("{s:s, s:o, s:s, s:o, s:o, s:i, s:i, s:b}", "state",
			 cm_state_text(connection->state), "service_id",
			 hex_json(connection->service_id), "service",
			 cm_service_text(connection->service_id, service), "local",
			 address_json(connection->local), "peer", address_json(connection->peer),
			 "qpn", connection->qpn, "peer_qpn", connection->peer_qpn, "datagram",
			 connection->datagram != 0);
}

/* --- lists ------------------------------------------------------------------------- */

typedef json_t *make_json(const void *record);

static const struct {
	const char *name;
	enum observe_kind kind;
	make_json *make;
} lists[] = {
	{"devices", OBSERVE_DEVICE, device_json},
	{"qps", OBSERVE_QP, qp_json},
	{"cqs", OBSERVE_CQ, cq_json},
	{"srqs", OBSERVE_SRQ, srq_json},
	{"regions", OBSERVE_REGION, region_json},
	{"connections", OBSERVE_CONNECTION, connection_json},
};

/* The device of an object, by its name. */
static void add_device(const struct observed *process, const struct observe_head *head,
		       json_t *json)
{
	const struct observe_device *device = observed_device(process, head->device);

	if (device)
		json_object_set_new(json, "device", text_json(device->name));
}

static json_t *list_json(const struct observed *process, enum observe_kind kind, make_json *make)
{
	const struct observe_head *record = NULL;
	json_t *list = json_array();

	while ((record = observed_next(process, kind, record))) {
		json_t *json = make(record);

		if (kind != OBSERVE_DEVICE)
			add_device(process, record, json);
		json_array_append_new(list, json);
	}
	return list;
}

json_t *process_json(const struct observed *process)
{
	const struct observe_header *header = &process->header;
	struct observe_totals totals = process_totals(process);
	json_t *left_out = json_object();
	json_t *json = json_pack("{s:I, s:o, s:s, s:f, s:o}", "pid", (json_int_t)header->pid,
				 "command", text_json(header->command), "state",
				 observed_state_name(process->state), "started",
				 header->started / 1e9, "traffic", traffic_json(&totals.traffic));

	for (unsigned int i = 0; i < sizeof(lists) / sizeof(*lists); i++) {
		json_object_set_new(json, lists[i].name,
				    list_json(process, lists[i].kind, lists[i].make));
		json_object_set_new(left_out, lists[i].name,
				    number_json(header->left_out[lists[i].kind]));
	}
	json_object_set_new(json, "left_out", left_out);
	return json;
}
