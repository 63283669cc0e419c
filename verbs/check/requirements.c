/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/check/requirements.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "verbs/check/cards.h"
#include "verbs/check/report.h"
#include "verbs/registry.h"

/* --- what can be asked for --------------------------------------------------------------- */

enum compare {
	AT_MOST,     /* what the profile has */
	COUNTS,	     /* likewise, where that isn't 0 */
	HAS_BITS,    /* those of what is asked for */
	IS_NOT_ZERO, /* what the profile has, of which zero is none */
	IS_ZERO,     /* likewise, where zero is no exception */
};

/* Each is compared with a key of profiles (verbs/profile_keys.c). */
static const struct requirement {
	enum cause cause;
	enum compare compare;
	const char *key;
	const char *asked; /* what reports call it */
} requirements[] = {
	/* clang-format off */
	[ASK_SEND_WR] = {CAUSE_NOT_PORTABLE_QUEUE, AT_MOST, "max_qp_wr", "max_send_wr"},
	[ASK_RECV_WR] = {CAUSE_NOT_PORTABLE_QUEUE, AT_MOST, "max_qp_wr", "max_recv_wr"},
	[ASK_CQE] = {CAUSE_NOT_PORTABLE_QUEUE, AT_MOST, "max_cqe", "cqe"},
	[ASK_SRQ_WR] = {CAUSE_NOT_PORTABLE_QUEUE, AT_MOST, "max_srq_wr", "max_wr"},
	[ASK_SEND_SGE] = {CAUSE_NOT_PORTABLE_SGE, AT_MOST, "max_sge", "max_send_sge"},
	[ASK_RECV_SGE] = {CAUSE_NOT_PORTABLE_SGE, AT_MOST, "max_sge", "max_recv_sge"},
	[ASK_READ_SGE] = {CAUSE_NOT_PORTABLE_SGE, AT_MOST, "max_sge_rd", "num_sge of a READ"},
	[ASK_SRQ_SGE] = {CAUSE_NOT_PORTABLE_SGE, AT_MOST, "max_srq_sge", "max_sge"},
	[ASK_INLINE_DATA] = {CAUSE_NOT_PORTABLE_INLINE, AT_MOST, "max_inline_data", "max_inline_data"},
	[ASK_INITIATOR_DEPTH] = {CAUSE_NOT_PORTABLE_RD_ATOMIC, AT_MOST, "max_qp_init_rd_atom", "max_rd_atomic"},
	[ASK_RESPONDER_RESOURCES] = {CAUSE_NOT_PORTABLE_RD_ATOMIC, AT_MOST, "max_qp_rd_atom", "max_dest_rd_atomic"},
	[ASK_PDS] = {CAUSE_NOT_PORTABLE_COUNT, COUNTS, "max_pd", "the number of protection domains"},
	[ASK_KEYS] = {CAUSE_NOT_PORTABLE_COUNT, COUNTS, "max_mr", "the number of memory regions and windows"},
	[ASK_AHS] = {CAUSE_NOT_PORTABLE_COUNT, COUNTS, "max_ah", "the number of address handles"},
	[ASK_CQS] = {CAUSE_NOT_PORTABLE_COUNT, COUNTS, "max_cq", "the number of completion queues"},
	[ASK_SRQS] = {CAUSE_NOT_PORTABLE_COUNT, COUNTS, "max_srq", "the number of shared receive queues"},
	[ASK_QPS] = {CAUSE_NOT_PORTABLE_COUNT, COUNTS, "max_qp", "the number of queue pairs"},
	[ASK_REGION] = {CAUSE_NOT_PORTABLE_LENGTH, AT_MOST, "max_mr_size", "length"},
	[ASK_MESSAGE] = {CAUSE_NOT_PORTABLE_LENGTH, AT_MOST, "max_msg_sz", "length of a message"},
	[ASK_DEVICE_MEMORY] = {CAUSE_NOT_PORTABLE_LENGTH, AT_MOST, "max_dm_size", "length"},
	[ASK_ATOMICS] = {CAUSE_NOT_PORTABLE_ATOMICS, IS_NOT_ZERO, "atomic_cap", "atomic operations"},
	[ASK_SRQ] = {CAUSE_NOT_PORTABLE_SRQ, IS_NOT_ZERO, "max_srq", "shared receive queues"},
	[ASK_WINDOW_1] = {CAUSE_NOT_PORTABLE_WINDOW, HAS_BITS, "device_cap_flags", "memory windows"},
	[ASK_WINDOW_2] = {CAUSE_NOT_PORTABLE_WINDOW, HAS_BITS, "device_cap_flags", "memory windows of type 2"},
	[ASK_ON_DEMAND] = {CAUSE_NOT_PORTABLE_ODP, IS_ZERO, "odp", "on-demand paging"},
	[ASK_XRC] = {CAUSE_NOT_PORTABLE_XRC, HAS_BITS, "device_cap_flags", "XRC"},
	[ASK_MULTICAST] = {CAUSE_NOT_PORTABLE_MULTICAST, IS_NOT_ZERO, "max_mcast_grp", "multicast groups"},
	[ASK_QP_TYPE] = {CAUSE_NOT_PORTABLE_QP_TYPE, HAS_BITS, "qp_types", "this type of queue pair"},
	[ASK_FLUSH] = {CAUSE_NOT_PORTABLE_OPERATION, HAS_BITS, "device_cap_flags_ex", "FLUSH"},
	[ASK_WRITE_ATOMIC] = {CAUSE_NOT_PORTABLE_OPERATION, HAS_BITS, "device_cap_flags_ex", "ATOMIC WRITE"},
	[ASK_INVALIDATE] = {CAUSE_NOT_PORTABLE_OPERATION, IS_ZERO, "send_with_invalidate", "SEND with invalidate"},
	[ASK_RESIZE] = {CAUSE_NOT_PORTABLE_OPERATION, IS_ZERO, "resize_cq", "ibv_resize_cq()"},
	[ASK_CREATE_FLAGS] = {CAUSE_NOT_PORTABLE_OPERATION, HAS_BITS, "create_flags", "create_flags"},
	/* clang-format on */
};

#define REQUIREMENTS (sizeof(requirements) / sizeof(*requirements))

/* Of each the row of profile_keys. */
static unsigned int rows[REQUIREMENTS];

void requirements_prepare(void)
{
	for (unsigned int i = 0; i < REQUIREMENTS; i++) {
		while (strcmp(profile_keys[rows[i]].name, requirements[i].key) != 0)
			rows[i]++;
	}
}

/* --- comparing ----------------------------------------------------------------------------- */

static bool has(const struct profile *profile, const struct ask *ask, uint64_t *amount)
{
	unsigned int row = rows[ask->what];

	*amount = profile_number(profile, &profile_keys[row]);
	if (!profile->given[row])
		return true;
	switch (requirements[ask->what].compare) {
	case AT_MOST:
		return ask->amount <= *amount;
	case COUNTS:
		return !*amount || ask->amount <= *amount;
	case HAS_BITS:
		return !(ask->amount & ~*amount);
	case IS_NOT_ZERO:
		return *amount;
	case IS_ZERO:
		return !*amount;
	}
	return true;
}

static uint64_t amount_here(const struct ask *ask)
{
	return profile_number(registry_configuration()->profile, &profile_keys[rows[ask->what]]);
}

/* Of what the device says itself. */
static bool is_limit_here(const struct ask *ask)
{
	return requirements[ask->what].compare == AT_MOST && ask->what != ASK_INLINE_DATA &&
	       ask->amount == amount_here(ask);
}

static bool is_portable(const struct ask *ask)
{
	uint64_t amount;

	if (!ask->amount || is_limit_here(ask))
		return true;
	for (unsigned int i = 0; i < cards.count; i++) {
		if (!has(&cards.profiles[i], ask, &amount))
			return false;
	}
	return true;
}

/* "max_inline_data is 800 (here up to 1024); bnxt 96, irdma 101"; "XRC: not on bnxt, irdma". */
static void describe_ask(FILE *stream, const struct ask *ask)
{
	const struct requirement *requirement = &requirements[ask->what];
	bool counted = requirement->compare <= COUNTS;
	const char *before = counted ? "; " : ": not on ";
	uint64_t amount;

	fputs(requirement->asked, stream);
	if (counted)
		fprintf(stream, " is %" PRIu64 " (here up to %" PRIu64 ")", ask->amount,
			amount_here(ask));
	for (unsigned int i = 0; i < cards.count; i++) {
		if (has(&cards.profiles[i], ask, &amount))
			continue;
		fprintf(stream, "%s%s", before, cards.profiles[i].name);
		if (counted)
			fprintf(stream, " %" PRIu64, amount);
		before = ", ";
	}
}

/* Those of @asks that have the cause of the first, in one report. */
static void report_asks(const char *call, const struct ask *asks, unsigned int count)
{
	enum cause cause = requirements[asks->what].cause;
	char *text = NULL;
	size_t size;
	FILE *stream = open_memstream(&text, &size);

	if (!stream)
		return;
	for (unsigned int i = 0; i < count; i++) {
		if (requirements[asks[i].what].cause != cause || is_portable(&asks[i]))
			continue;
		fputs(i ? CAUSE_LINE : "", stream);
		describe_ask(stream, &asks[i]);
	}
	if (fclose(stream) == 0)
		check_report(cause, CHECK_NO_PLACES, "%s: %s", call, text);
	free(text);
}

void requirements_compare(const char *call, const struct ask *asks, unsigned int count)
{
	enum cause last = CAUSE_NONE;

	for (unsigned int i = 0; i < count; i++) {
		enum cause cause = requirements[asks[i].what].cause;

		if (cause != last && !is_portable(&asks[i])) {
			report_asks(call, &asks[i], count - i);
			last = cause;
		}
	}
}
