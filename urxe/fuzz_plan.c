/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which faults a program can meet, by what it does without any: each of its calls refused, its
 * first and some later work requests completed with each status that fits, and so on.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "urxe/command.h"
#include "urxe/fuzz.h"

#define LENGTH(array) (sizeof(array) / sizeof(*(array)))

/* Of calls that are alike all are tried up to so many; else 1, 2, 4, 8, ..., and the last two. */
#define ALL_OF 16

static const char *const kind_names[FUZZ_KINDS] = {
	[FUZZ_CALLS] = "calls",	    [FUZZ_COMPLETIONS] = "completions",
	[FUZZ_EVENTS] = "events",   [FUZZ_CONNECTIONS] = "connections",
	[FUZZ_LINK] = "link",	    [FUZZ_TIMING] = "timing",
	[FUZZ_PACKETS] = "packets",
};

const char *fuzz_kind_name(enum fuzz_kind kind)
{
	return kind_names[kind];
}

/* --- what is asked for --------------------------------------------------------------------- */

/* Whether @name, or what it begins with if @begins, is in the list @only. */
static bool lists(const char *only, const char *name, bool begins)
{
	for (const char *word = only; *word; word += strspn(word, ",")) {
		size_t length = strcspn(word, ",");

		if (length && strncmp(word, name, length) == 0 && (begins || !name[length]))
			return true;
		word += length;
	}
	return false;
}

static bool wants_kind(const struct fuzz *fuzz, enum fuzz_kind kind)
{
	return !fuzz->only || lists(fuzz->only, kind_names[kind], false);
}

static bool wants_call(const struct fuzz *fuzz, enum fault_call call)
{
	return wants_kind(fuzz, FUZZ_CALLS) || lists(fuzz->only, fault_call_name(call), true);
}

static bool is_known(const char *word, size_t length)
{
	for (enum fuzz_kind kind = 0; kind < FUZZ_KINDS; kind++) {
		if (strlen(kind_names[kind]) == length &&
		    memcmp(kind_names[kind], word, length) == 0)
			return true;
	}
	for (enum fault_call call = 0; call < FAULT_CALLS; call++) {
		if (strncmp(fault_call_name(call), word, length) == 0)
			return true;
	}
	return false;
}

void fuzz_check_only(const struct fuzz *fuzz)
{
	const char *word = fuzz->only;

	while (word) {
		size_t length = strcspn(word, ",");

		if (!length)
			die("--only: there is an empty word in \"%s\"", fuzz->only);
		if (!is_known(word, length))
			die("--only: %.*s is neither calls, completions, events, connections, "
			    "link, timing nor packets, and no call begins so",
			    (int)length, word);
		word = word[length] ? word + length + 1 : NULL;
	}
}

/* --- places -------------------------------------------------------------------------------- */

static struct fuzz_place *add(struct fuzz *fuzz, enum fuzz_kind kind, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static struct fuzz_place *add(struct fuzz *fuzz, enum fuzz_kind kind, const char *format, ...)
{
	struct fuzz_place *place;
	va_list arguments;

	fuzz->places = reallocarray(fuzz->places, fuzz->place_count + 1, sizeof(*place));
	if (!fuzz->places)
		die("out of memory");
	place = &fuzz->places[fuzz->place_count++];
	*place = (struct fuzz_place){.kind = kind, .call = FAULT_CALLS};
	va_start(arguments, format);
	vsnprintf(place->fault, sizeof(place->fault), format, arguments);
	va_end(arguments);
	return place;
}

/* The number that is tried behind @number, of 1 to @count; 0: none. */
static uint32_t next_number(uint32_t number, uint32_t count)
{
	uint64_t next = 1; /* behind 2^31, too */

	if (number >= count)
		return 0;
	if (count <= ALL_OF || number + 1 >= count - 1)
		return number + 1;
	while (next <= number)
		next *= 2;
	return next < count - 1 ? next : count - 1;
}

/* --- calls --------------------------------------------------------------------------------- */

/* What begins with the name of @call: a specification that names it means them, too. */
static bool is_alike(enum fault_call call, enum fault_call other)
{
	const char *name = fault_call_name(call);

	return strncmp(fault_call_name(other), name, strlen(name)) == 0;
}

/* Whether places are planned for another call whose name is the beginning of its name. */
static bool is_included(const struct fuzz *fuzz, enum fault_call call)
{
	for (enum fault_call other = 0; other < FAULT_CALLS; other++) {
		if (other != call && is_alike(other, call) && wants_call(fuzz, other))
			return true;
	}
	return false;
}

uint32_t fuzz_calls_alike(const struct fuzz *fuzz, enum fault_call call)
{
	uint32_t count = 0;

	for (enum fault_call other = 0; other < FAULT_CALLS; other++)
		count += is_alike(call, other) ? call_counts_of(fuzz->counts, other) : 0;
	return count;
}

static void add_call(struct fuzz *fuzz, enum fault_call call, uint32_t number, const char *onward)
{
	struct fuzz_place *place =
		add(fuzz, FUZZ_CALLS, "fail(%s)#%u%s/%s", strerrorname_np(fault_call_error(call)),
		    number, onward, fault_call_name(call));

	place->call = call;
	place->number = number;
}

/* One of them, and all of them: some programs try again. */
static void plan_call(struct fuzz *fuzz, enum fault_call call)
{
	uint32_t count = fuzz_calls_alike(fuzz, call), number = 0, tried = 0;

	if (!count)
		return;
	while ((number = next_number(number, count))) {
		add_call(fuzz, call, number, "");
		tried++;
	}
	add_call(fuzz, call, 1, "+");
	if (tried < count)
		fuzz->left_out[fuzz->left_out_count++] = (struct fuzz_left_out){call, count, tried};
}

static void plan_calls(struct fuzz *fuzz)
{
	for (enum fault_call call = 0; call < FAULT_CALLS; call++) {
		/* It can't fail, and an event that stays unacknowledged is waited for. */
		if (call == FAULT_CALL_rdma_ack_cm_event || !wants_call(fuzz, call) ||
		    is_included(fuzz, call))
			continue;
		plan_call(fuzz, call);
	}
}

/* --- completions --------------------------------------------------------------------------- */

/* Of each the first; of the last one some more. */
static const struct {
	const char *work;
	enum observe_class class;
	const char *statuses[10];
} works[] = {
	{"SEND",
	 OBSERVE_SEND,
	 {"LOC_LEN_ERR", "LOC_QP_OP_ERR", "LOC_PROT_ERR", "WR_FLUSH_ERR", "REM_INV_REQ_ERR",
	  "REM_OP_ERR", "RNR_RETRY_EXC_ERR", "RETRY_EXC_ERR"}},
	{"RDMA_WRITE",
	 OBSERVE_WRITE,
	 {"LOC_LEN_ERR", "LOC_PROT_ERR", "WR_FLUSH_ERR", "REM_ACCESS_ERR", "REM_OP_ERR",
	  "RETRY_EXC_ERR"}},
	{"RDMA_READ",
	 OBSERVE_READ,
	 {"LOC_LEN_ERR", "LOC_PROT_ERR", "WR_FLUSH_ERR", "REM_ACCESS_ERR", "REM_OP_ERR",
	  "RETRY_EXC_ERR"}},
	{"ATOMIC",
	 OBSERVE_ATOMIC,
	 {"LOC_PROT_ERR", "WR_FLUSH_ERR", "REM_INV_REQ_ERR", "REM_ACCESS_ERR", "RETRY_EXC_ERR"}},
	/* How many receives complete isn't known. */
	{"RECV", OBSERVE_CLASSES, {"LOC_LEN_ERR", "LOC_PROT_ERR", "WR_FLUSH_ERR"}},
};

static uint32_t count_work(const struct fuzz *fuzz, enum observe_class class)
{
	uint64_t count = class < OBSERVE_CLASSES
				 ? fuzz->usage.messages[class]
				 : (uint64_t)fuzz_calls_alike(fuzz, FAULT_CALL_ibv_post_recv) +
					   fuzz_calls_alike(fuzz, FAULT_CALL_ibv_post_srq_recv);

	return count < UINT32_MAX ? count : UINT32_MAX;
}

static void plan_completions(struct fuzz *fuzz)
{
	for (unsigned int i = 0; i < LENGTH(works); i++) {
		const char *const *status = works[i].statuses;
		uint32_t count = count_work(fuzz, works[i].class), number = 1;

		if (!count)
			continue;
		for (; *status; status++)
			add(fuzz, FUZZ_COMPLETIONS, "complete(%s)#1/%s", *status, works[i].work);
		while ((number = next_number(number, count)))
			add(fuzz, FUZZ_COMPLETIONS, "complete(%s)#%u/%s", status[-1], number,
			    works[i].work);
	}
}

/* --- the rest ------------------------------------------------------------------------------ */

/* Faults of programs that make one of two calls. */
struct conditional {
	const char *fault;
	enum fault_call call, other;
	unsigned int seconds; /* that the library itself waits then, and some more; or 0 */
};

#define ALWAYS FAULT_CALLS, FAULT_CALLS
#define EITHER(one, other) FAULT_CALL_##one, FAULT_CALL_##other

/* When they happen is appended to these, and to those of the link. */
static const struct conditional events[] = {
	{"event(PORT_ERR)", ALWAYS},
	{"event(PORT_ACTIVE)", ALWAYS},
	{"event(LID_CHANGE)", ALWAYS},
	{"event(PKEY_CHANGE)", ALWAYS},
	{"event(GID_CHANGE)", ALWAYS},
	{"event(SM_CHANGE)", ALWAYS},
	{"event(CLIENT_REREGISTER)", ALWAYS},
	{"event(DEVICE_FATAL)", ALWAYS},
	{"event(CQ_ERR)", EITHER(ibv_create_cq, ibv_create_cq_ex)},
	{"event(QP_FATAL)", EITHER(ibv_create_qp, rdma_create_qp)},
	{"event(QP_REQ_ERR)", EITHER(ibv_create_qp, rdma_create_qp)},
	{"event(QP_ACCESS_ERR)", EITHER(ibv_create_qp, rdma_create_qp)},
	{"event(PATH_MIG_ERR)", EITHER(ibv_create_qp, rdma_create_qp)},
	{"event(SRQ_ERR)", EITHER(ibv_create_srq, rdma_create_srq)},
	{"event(SRQ_LIMIT_REACHED)", EITHER(ibv_create_srq, rdma_create_srq)},
};

static const struct conditional link_faults[] = {
	{"down(100ms)", ALWAYS},
	{"remove", ALWAYS},
};

static const struct conditional connections[] = {
	{"reject#1/CM_REP", EITHER(rdma_connect, rdma_connect)},
	{"drop#1/CM_REQ@tx", EITHER(rdma_connect, rdma_connect)},
	/* After 73 s it is UNREACHABLE. */
	{"drop#1+/CM_REQ@tx", EITHER(rdma_connect, rdma_connect), 100},
	{"drop#1/CM_REP@rx", EITHER(rdma_connect, rdma_connect)},
	{"reject#1/CM_REQ", EITHER(rdma_listen, rdma_listen)},
	{"drop#1/CM_REQ@rx", EITHER(rdma_listen, rdma_listen)},
	{"drop#1/CM_REP@tx", EITHER(rdma_listen, rdma_listen)},
	{"drop#1/CM_RTU@rx", EITHER(rdma_listen, rdma_listen)},
	{"drop#1/CM_DREQ@tx", EITHER(rdma_connect, rdma_listen)},
	{"drop#1/CM_DREQ@rx", EITHER(rdma_connect, rdma_listen)},
};

static const struct conditional timing[] = {
	{"late(20ms)#1", EITHER(ibv_create_cq, ibv_create_cq_ex)},
	{"late(1ms)=50%", EITHER(ibv_create_cq, ibv_create_cq_ex)},
	{"coalesce(4)=50%", EITHER(ibv_req_notify_cq, ibv_req_notify_cq)},
	{"spurious=50%", EITHER(ibv_req_notify_cq, ibv_req_notify_cq)},
};

static bool any_message(const struct fuzz_usage *usage)
{
	bool any = false;

	for (enum observe_class class = 0; class < OBSERVE_CLASSES; class ++)
		any |= usage->messages[class] > 0;
	return any;
}

static void plan_conditional(struct fuzz *fuzz, enum fuzz_kind kind,
			     const struct conditional *faults, unsigned int count, const char *when)
{
	for (unsigned int i = 0; i < count; i++) {
		if (faults[i].call == FAULT_CALLS || fuzz_calls_alike(fuzz, faults[i].call) ||
		    fuzz_calls_alike(fuzz, faults[i].other))
			add(fuzz, kind, "%s%s", faults[i].fault, when)->seconds = faults[i].seconds;
	}
}

static void plan_packets(struct fuzz *fuzz)
{
	for (unsigned int seed = 1; seed <= fuzz->seeds; seed++)
		add(fuzz, FUZZ_PACKETS, "seed=%u;drop=2%%;dup=1%%;reorder=2%%;corrupt=0.5%%", seed);
}

void fuzz_plan(struct fuzz *fuzz)
{
	const char *when = any_message(&fuzz->usage) ? "#1" : "@5ms";
	const struct {
		enum fuzz_kind kind;
		const struct conditional *faults;
		unsigned int count;
		const char *when;
	} others[] = {
		{FUZZ_EVENTS, events, LENGTH(events), when},
		{FUZZ_CONNECTIONS, connections, LENGTH(connections), ""},
		{FUZZ_LINK, link_faults, LENGTH(link_faults), when},
		{FUZZ_TIMING, timing, LENGTH(timing), ""},
	};

	plan_calls(fuzz);
	if (wants_kind(fuzz, FUZZ_COMPLETIONS))
		plan_completions(fuzz);
	for (unsigned int i = 0; i < LENGTH(others); i++) {
		if (wants_kind(fuzz, others[i].kind))
			plan_conditional(fuzz, others[i].kind, others[i].faults, others[i].count,
					 others[i].when);
	}
	if (wants_kind(fuzz, FUZZ_PACKETS))
		plan_packets(fuzz);
}
