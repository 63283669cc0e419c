/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What is said of requests that are refused and of connections that fail (net/cause/cause.h): by
 * each side for itself. cm.lock is held, by the thread that receives or by one that calls.
 */
#include <inttypes.h>
#include <stdio.h>

#include "emu/cm/cm_internal.h"
#include "emu/hca.h"
#include "net/clock.h"
#include "net/share/share.h"
#include "net/wire/gid.h"

#define SERVICES_MAX 8	  /* as many as a report names */
#define SERVICES_TEXT 256 /* of them together */

/* --- services -------------------------------------------------------------------------- */

static unsigned int own_services(const struct cm *cm, uint64_t services[SERVICES_MAX])
{
	unsigned int count = 0;

	for (const struct cm_id *id = cm->listeners; id && count < SERVICES_MAX;
	     id = id->listen_next)
		services[count++] = id->listen.service_id;
	return count;
}

/* What is listened for at @gid, if that is an address of this machine that we know of. */
static const char *services_text(const struct cm *cm, const union ibv_gid *gid,
				 char text[SERVICES_TEXT])
{
	const struct share *share = cm->hca->link->share;
	char service[CM_SERVICE_TEXT];
	uint64_t services[SERVICES_MAX];
	unsigned int count;
	size_t used = 0;

	if (share)
		count = share->ops->services(cm->hca->link->share, gid, services, SERVICES_MAX);
	else
		count = own_services(cm, services);
	text[0] = '\0';
	for (unsigned int i = 0; i < count; i++)
		used += snprintf(text + used, SERVICES_TEXT - used, "%s%s", used ? ", " : "",
				 cm_service_text(services[i], service));
	return text;
}

/* --- requests that are refused here ------------------------------------------------------- */

void cm_report_no_listener(const struct cm *cm, const struct cm_message *request,
			   const struct link_frame *frame)
{
	char from[INET6_ADDRSTRLEN], to[INET6_ADDRSTRLEN], service[CM_SERVICE_TEXT];
	char others[SERVICES_TEXT];

	if (!cause_wanted(CAUSE_CM_NO_LISTENER))
		return;
	services_text(cm, &frame->destination, others);
	cause_report(CAUSE_CM_NO_LISTENER, "%s of %s for %s of %s; there listens %s",
		     cm_attribute_name(request->attribute), gid_to_text(&frame->source, from),
		     cm_service_text(request->service_id, service),
		     gid_to_text(&frame->destination, to), *others ? others : "nothing");
}

void cm_report_refused(enum cause cause, const struct cm_message *request,
		       const union ibv_gid *source, const char *found)
{
	char from[INET6_ADDRSTRLEN], service[CM_SERVICE_TEXT] = "this host";

	if (request->service_id) /* not of a REP */
		cm_service_text(request->service_id, service);
	cause_report(cause, "%s of %s for %s: %s", cm_attribute_name(request->attribute),
		     gid_to_text(source, from), service, found);
}

/* --- what the peer refuses ------------------------------------------------------------------ */

/* IBA 12.6.7.2, table 109. */
static const char *const reasons[] = {
	[CM_REJECT_NO_QP] = "no QP available",
	[CM_REJECT_NO_EEC] = "no EEC available",
	[CM_REJECT_NO_RESOURCES] = "no resources available",
	[CM_REJECT_TIMEOUT] = "timeout",
	[CM_REJECT_UNSUPPORTED] = "unsupported request",
	[CM_REJECT_INVALID_COMM_ID] = "invalid communication ID",
	[CM_REJECT_INVALID_COMM_INSTANCE] = "invalid communication instance",
	[CM_REJECT_INVALID_SERVICE_ID] = "invalid service ID",
	[CM_REJECT_INVALID_TRANSPORT] = "invalid transport service type",
	[CM_REJECT_STALE] = "stale connection",
	[CM_REJECT_NO_RDC] = "RDC does not exist",
	[CM_REJECT_INVALID_GID] = "primary remote port GID rejected",
	[CM_REJECT_INVALID_LID] = "primary remote port LID rejected",
	[CM_REJECT_INVALID_SL] = "invalid primary SL",
	[CM_REJECT_INVALID_TRAFFIC_CLASS] = "invalid primary traffic class",
	[CM_REJECT_INVALID_HOP_LIMIT] = "invalid primary hop limit",
	[CM_REJECT_INVALID_PACKET_RATE] = "invalid primary packet rate",
	[CM_REJECT_INVALID_ALTERNATE_GID] = "alternate remote port GID rejected",
	[CM_REJECT_INVALID_ALTERNATE_LID] = "alternate remote port LID rejected",
	[CM_REJECT_INVALID_ALTERNATE_SL] = "invalid alternate SL",
	[CM_REJECT_INVALID_ALTERNATE_TRAFFIC_CLASS] = "invalid alternate traffic class",
	[CM_REJECT_INVALID_ALTERNATE_HOP_LIMIT] = "invalid alternate hop limit",
	[CM_REJECT_INVALID_ALTERNATE_PACKET_RATE] = "invalid alternate packet rate",
	[CM_REJECT_CM_REDIRECT] = "port and CM redirection",
	[CM_REJECT_PORT_REDIRECT] = "port redirection",
	[CM_REJECT_INVALID_MTU] = "invalid path MTU",
	[CM_REJECT_INSUFFICIENT_RESOURCES] = "insufficient responder resources",
	[CM_REJECT_CONSUMER] = "consumer reject",
	[CM_REJECT_RNR_RETRY_COUNT] = "RNR retry count reject",
	[CM_REJECT_DUPLICATE_COMM_ID] = "duplicate local communication ID",
	[CM_REJECT_INVALID_CLASS_VERSION] = "invalid class version",
	[CM_REJECT_INVALID_FLOW_LABEL] = "invalid flow label",
	[CM_REJECT_INVALID_ALTERNATE_FLOW_LABEL] = "invalid alternate flow label",
	[CM_REJECT_VENDOR_OPTION] = "vendor option not supported",
};

static const char *reason_text(unsigned int reason)
{
	const char *text = NULL;

	if (reason < sizeof(reasons) / sizeof(reasons[0]))
		text = reasons[reason];
	return text ? text : "reserved";
}

static enum cause cause_of_reason(unsigned int reason)
{
	switch (reason) {
	case CM_REJECT_INVALID_SERVICE_ID:
		return CAUSE_CM_REJECTED_SERVICE;
	case CM_REJECT_CONSUMER:
		return CAUSE_CM_REJECTED_CONSUMER;
	case CM_REJECT_STALE:
		return CAUSE_CM_REJECTED_STALE;
	case CM_REJECT_TIMEOUT:
		return CAUSE_CM_REJECTED_TIMEOUT;
	default:
		return CAUSE_CM_REJECTED;
	}
}

/* What a REJ is about: our message that it answers, or the peer's own. */
static const char *rejected_message(const struct cm_id *id)
{
	switch (id->state) {
	case CM_STATE_ESTABLISHED:
	case CM_STATE_DREQ_SENT:
		return "a connection";
	default:
		return id->passive && !cm_is_unanswered_request(id) ? "REP" : "REQ";
	}
}

static void report_rejected(const struct cm_id *id, enum cause cause, const char *message,
			    unsigned int reason, const char *text)
{
	char peer[INET6_ADDRSTRLEN], service[CM_SERVICE_TEXT], others[SERVICES_TEXT] = "";

	if (!cause_wanted(cause))
		return;
	if (cause == CAUSE_CM_REJECTED_SERVICE)
		services_text(id->cm, &id->path.destination, others);
	cause_report(cause, "%s for %s, %s by %s with reason %u, %s%s%s", message,
		     cm_service_text(id->service_id, service),
		     cause == CAUSE_CM_REQ_WITHDRAWN ? "given up" : "refused",
		     gid_to_text(&id->path.destination, peer), reason, text,
		     *others ? "; there listens " : "", others);
}

void cm_report_rejected(const struct cm_id *id, const struct cm_message *rej)
{
	if (id->abandoned)
		return;
	report_rejected(id,
			cm_is_unanswered_request(id) ? CAUSE_CM_REQ_WITHDRAWN
						     : cause_of_reason(rej->reason),
			rejected_message(id), rej->reason, reason_text(rej->reason));
}

/* IBA 12.11.2.1: the statuses of a SIDR_REP. */
void cm_report_sidr_rejected(const struct cm_id *id, const struct cm_message *reply)
{
	static const char *const statuses[] = {
		[CM_SIDR_UNSUPPORTED] = "service ID not supported",
		[CM_SIDR_REJECTED] = "rejected by the service provider",
		[CM_SIDR_NO_QP] = "no QP available",
		[CM_SIDR_REDIRECT] = "redirection",
		[CM_SIDR_UNSUPPORTED_VERSION] = "unsupported version",
	};
	const bool known = reply->status < sizeof(statuses) / sizeof(statuses[0]);
	enum cause cause = CAUSE_CM_REJECTED;

	if (id->abandoned || reply->status == CM_SIDR_SUCCESS)
		return;
	if (reply->status == CM_SIDR_UNSUPPORTED)
		cause = CAUSE_CM_REJECTED_SERVICE;
	else if (reply->status == CM_SIDR_REJECTED)
		cause = CAUSE_CM_REJECTED_CONSUMER;
	report_rejected(id, cause, "SIDR_REQ", reply->status,
			known ? statuses[reply->status] : "reserved");
}

/* --- what stays without an answer ------------------------------------------------------------ */

void cm_report_unanswered(const struct cm_id *id, enum cause cause, const char *message,
			  uint64_t now)
{
	char peer[INET6_ADDRSTRLEN], service[CM_SERVICE_TEXT];
	bool delayed =
		id->state == CM_STATE_MRA_REQ_RECEIVED || id->state == CM_STATE_MRA_REP_RECEIVED;

	if (id->abandoned)
		return;
	cause_report(cause, "%s for %s to %s was sent %d times in %" PRIu64 " ms%s", message,
		     cm_service_text(id->service_id, service),
		     gid_to_text(&id->path.destination, peer),
		     id->max_retries + 1 - id->retries_left, (now - id->asked) / NS_PER_MS,
		     delayed ? "; the peer asked for more time meanwhile (MRA)" : "");
}

void cm_report_no_process(const struct cm_id *id, const char *message)
{
	char peer[INET6_ADDRSTRLEN], service[CM_SERVICE_TEXT], found[FOUND_TEXT];
	struct link *link = id->cm->hca->link;
	struct link_peer there = {};

	if (id->abandoned || !link->ops->describe_peer)
		return;
	link->ops->describe_peer(link, &id->path, QPN_GSI, &there);
	if (there.state != LINK_PEER_NOT_THERE)
		return;
	snprintf(found, sizeof(found),
		 "%s for %s to %s: nothing has UDP port %u of that address; it is sent again for "
		 "%" PRIu64 " s more",
		 message, cm_service_text(id->service_id, service),
		 gid_to_text(&id->path.destination, peer), ROCE_V2_UDP_PORT,
		 (id->retries_left + 1) * id->wait / NS_PER_S);
	cause_warn_text(CAUSE_CM_NO_PROCESS, found);
}

void cm_report_delay(const struct cm_id *id, enum cause cause, uint64_t duration)
{
	char peer[INET6_ADDRSTRLEN], service[CM_SERVICE_TEXT];

	if (!id->abandoned)
		cause_report(cause, "connection for %s with %s: up to %" PRIu64 " ms more",
			     cm_service_text(id->service_id, service),
			     gid_to_text(&id->path.destination, peer), duration / NS_PER_MS);
}

void cm_report_given_up(const struct cm_id *id, const char *how)
{
	char peer[INET6_ADDRSTRLEN], service[CM_SERVICE_TEXT];

	cause_report(CAUSE_CM_REJECT_SENT, "request of %s for %s: %s",
		     gid_to_text(&id->path.destination, peer),
		     cm_service_text(id->service_id, service), how);
}

void cm_report_death(const struct cm_id *id)
{
	char peer[INET6_ADDRSTRLEN], service[CM_SERVICE_TEXT];

	if (!id->abandoned)
		cause_report(CAUSE_CM_PEER_DIED, "connection for %s with %s",
			     cm_service_text(id->service_id, service),
			     gid_to_text(&id->path.destination, peer));
}
