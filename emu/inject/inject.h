/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Faults inside the HCA, as they are asked for: what happens. When it does, the injector says
 * (net/fault/injector.h). Work requests fail (emu/inject/request.h), completions come late
 * (emu/inject/late.h), asynchronous events are raised, ports go down, the device is removed
 * (emu/inject/event.h); what completion queues and the connection manager ask for is here.
 *
 * Part of every HCA, whose machines come here only while injects() of emu/hca.h. Under the locks
 * of the objects that ask; the injector has its own, a leaf.
 */
#ifndef URXE_EMU_INJECT_H
#define URXE_EMU_INJECT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "net/wire/mad.h"
#include "net/wire/port_gids.h"

struct hca;
struct injector;
struct pending_event;
struct qp;

/* An armed CQ's event waits no longer than this for as many completions as coalesce(N) says; ns. */
#define INJECT_COALESCE_PERIOD 10000000

struct inject {
	_Atomic bool active;		 /* there has been a clause: what it has done goes on */
	struct injector *injector;	 /* the caller's, or NULL */
	const _Atomic uint32_t *actions; /* of its clauses, or */
	_Atomic uint32_t none;
	_Atomic bool removed;		   /* the device */
	_Atomic uint32_t down;		   /* the ports that are, a bit each */
	_Atomic uint64_t up_at[PORTS_MAX]; /* when they are up again, or TIME_NEVER */
	_Atomic uint64_t retry_at;	   /* TIME_NEVER: nothing is pending */
	struct pending_event *pending;	   /* of inject_run(); utlist */
};

void inject_init(struct inject *inject, struct injector *injector);
void inject_destroy(struct hca *hca);

/* Whether there are clauses. */
static inline bool inject_begins(const struct inject *inject)
{
	return atomic_load_explicit(inject->actions, memory_order_relaxed);
}

/* What is due: called by each round of progress, with no lock held but hca.receive_lock. */
bool inject_run(struct hca *hca, uint64_t now);
uint64_t inject_deadline(const struct inject *inject);

/* A work request of @qp has succeeded, of a kind of fault_works (net/fault/fault_words.h). */
void inject_message(struct qp *qp, unsigned int work);

/* For how many completions the event of a CQ waits; 0: it is raised at once. */
uint32_t inject_coalesce(struct hca *hca);
/* Whether a CQ that is being armed has an event without a completion. */
bool inject_spurious(struct hca *hca);
/* There may be no round to come soon, and something is due. */
void inject_wake(struct hca *hca);

/* Whether the answer to a REQ or SIDR_REQ is taken for lost, with all that would come. */
bool inject_unreachable(struct hca *hca);

/* With which reason a REQ or REP is rejected, or 0. */
enum cm_reject_reason inject_reject(struct hca *hca, enum cm_attribute message);

#endif
