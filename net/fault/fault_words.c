/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/fault/fault_words.h"

#include <infiniband/verbs.h>
#include <string.h>

#include "net/fault/calls.h"
#include "net/newer_verbs.h"
#include "net/verbs_text.h"
#include "net/wire/mad.h"
#include "net/wire/wire.h"

#define COUNT(names) (sizeof(names) / sizeof(*(names)))
#define ERRNO_MAX 134

static const char *const cm_events[] = {
	[FAULT_ADDR_ERROR] = "ADDR_ERROR",   [FAULT_ROUTE_ERROR] = "ROUTE_ERROR",
	[FAULT_UNREACHABLE] = "UNREACHABLE", [FAULT_MULTICAST_ERROR] = "MULTICAST_ERROR",
	[FAULT_ADDR_CHANGE] = "ADDR_CHANGE",
};

static const char *const reasons[] = {
#define REASON(name) [CM_REJECT_##name] = #name
	REASON(NO_QP),
	REASON(NO_RESOURCES),
	REASON(TIMEOUT),
	REASON(UNSUPPORTED),
	REASON(INVALID_COMM_ID),
	REASON(INVALID_SERVICE_ID),
	REASON(INVALID_TRANSPORT),
	REASON(STALE),
	REASON(INVALID_GID),
	REASON(INVALID_ALTERNATE_GID),
	REASON(INVALID_MTU),
	REASON(CONSUMER),
	REASON(DUPLICATE_COMM_ID),
	REASON(VENDOR_OPTION),
};

static const char *const messages[] = {
#define MESSAGE(name) [name] = #name
	MESSAGE(CM_REQ),      MESSAGE(CM_MRA),	MESSAGE(CM_REJ),  MESSAGE(CM_REP),
	MESSAGE(CM_RTU),      MESSAGE(CM_DREQ), MESSAGE(CM_DREP), MESSAGE(CM_SIDR_REQ),
	MESSAGE(CM_SIDR_REP), MESSAGE(CM_LAP),	MESSAGE(CM_APR),
};

static const char *const works[] = {
#define WORK(name) [IBV_WR_##name] = #name
	WORK(RDMA_WRITE),	    WORK(RDMA_WRITE_WITH_IMM), WORK(SEND),
	WORK(SEND_WITH_IMM),	    WORK(RDMA_READ),	       WORK(ATOMIC_CMP_AND_SWP),
	WORK(ATOMIC_FETCH_AND_ADD), WORK(LOCAL_INV),	       WORK(BIND_MW),
	WORK(SEND_WITH_INV),	    WORK(ATOMIC_WRITE),	       [WR_FLUSH] = "FLUSH",
	[FAULT_WORK_RECV] = "RECV",
};

static const char *errno_name(unsigned int number)
{
	return number ? strerrorname_np(number) : NULL;
}

static const char *status_name(unsigned int number)
{
	const struct verbs_text *status = wc_status_text(number);

	return status && number != IBV_WC_SUCCESS ? status->constant + strlen(WC_STATUS_PREFIX)
						  : NULL;
}

/* Of work queues beside those of QPs, and later ones, there are none. */
static const char *event_name(unsigned int number)
{
	const struct verbs_text *event = event_type_text(number);

	return event && number < IBV_EVENT_WQ_FATAL ? event->constant + strlen(EVENT_TYPE_PREFIX)
						    : NULL;
}

static const char *cm_event_name(unsigned int number)
{
	return cm_events[number];
}

static const char *reason_name(unsigned int number)
{
	return reasons[number];
}

static const char *packet_name(unsigned int number)
{
	const struct opcode *opcode;

	if (number >= FAULT_PACKET_CM(0))
		return messages[number - FAULT_PACKET_CM(0)];
	opcode = opcode_find(number);
	return opcode ? opcode->name : NULL;
}

static const char *call_name(unsigned int number)
{
	return fault_call_name(number);
}

static const char *request_name(unsigned int number)
{
	return number == CM_REQ || number == CM_REP ? messages[number] : NULL;
}

static const char *work_name(unsigned int number)
{
	return works[number];
}

const struct fault_words fault_errnos = {ERRNO_MAX, errno_name};
const struct fault_words fault_statuses = {VERBS_TEXTS, status_name};
const struct fault_words fault_events = {VERBS_TEXTS, event_name};
const struct fault_words fault_cm_events = {COUNT(cm_events), cm_event_name};
const struct fault_words fault_reasons = {COUNT(reasons), reason_name};
const struct fault_words fault_packets = {FAULT_PACKET_CM(COUNT(messages)), packet_name};
const struct fault_words fault_call_names = {FAULT_CALLS, call_name};
const struct fault_words fault_requests = {COUNT(messages), request_name};
const struct fault_words fault_works = {COUNT(works), work_name};

_Static_assert(FAULT_PACKET_CM(COUNT(messages)) <= FAULT_WORDS_MAX, "of struct fault_set");
_Static_assert(FAULT_CALLS <= FAULT_WORDS_MAX, "of struct fault_set");

bool fault_words_find(const struct fault_words *words, const char *text, size_t length,
		      unsigned int *number)
{
	for (unsigned int i = 0; i < words->count; i++) {
		const char *name = words->name(i);

		if (name && strlen(name) == length && memcmp(name, text, length) == 0) {
			*number = i;
			return true;
		}
	}
	return false;
}

bool fault_words_match(const struct fault_words *words, const char *text, size_t length,
		       struct fault_set *set)
{
	bool found = false;

	for (unsigned int i = 0; i < words->count; i++) {
		const char *name = words->name(i);

		if (name && strncmp(name, text, length) == 0) {
			set->bits[i / 64] |= UINT64_C(1) << i % 64;
			found = true;
		}
	}
	return found;
}
