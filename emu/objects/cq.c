/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completion queues: emu/objects/cq.h has the roles and the lock.
 */
#include "emu/objects/cq.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "emu/capacity.h"
#include "emu/explain/event.h"
#include "emu/hca.h"
#include "emu/inject/inject.h"
#include "emu/objects/qp.h"
#include "emu/transport/placement.h"
#include "net/cause/cause.h"
#include "net/cause/origin.h"
#include "net/observe/observe.h"
#include "net/quarantine.h"
#include "net/spin.h"

#define CQ_RING_INITIAL 64

/* The entry @offset behind the head; @offset <= size. */
static struct completion *cq_at(struct cq *cq, uint32_t offset)
{
	uint32_t index = cq->head + offset;

	return &cq->ring[index < cq->size ? index : index - cq->size];
}

static uint32_t cq_held(const struct cq *cq)
{
	return cq->count + cq->withheld;
}

/* Another ring, of up to @entries, with what there is. Memory that isn't used isn't touched. */
static int cq_allocate(struct cq *cq, uint32_t entries)
{
	struct completion *ring = reallocarray(NULL, entries, sizeof(*ring));
	uint32_t held = cq_held(cq);

	if (!ring)
		return refuse(ENOMEM, CAUSE_OUT_OF_MEMORY, "for a completion queue of %u entries",
			      entries);
	for (uint32_t i = 0; i < held; i++)
		ring[i] = *cq_at(cq, i);
	free(cq->ring);
	cq->ring = ring;
	cq->allocated = entries;
	cq->size = entries < CQ_RING_INITIAL ? entries : CQ_RING_INITIAL;
	if (cq->size < held)
		cq->size = held;
	cq->head = 0;
	return 0;
}

static int cq_check_size(const struct hca *hca, uint32_t entries, const char *call)
{
	if (entries && entries <= (uint32_t)hca->limits.device.max_cqe)
		return 0;
	return refuse(EINVAL, CAUSE_CQ_SIZE, "%s: cqe is %d, the device has 1 to %d (max_cqe)",
		      call, (int)entries, hca->limits.device.max_cqe);
}

static int cq_show(struct hca *hca, struct cq *cq)
{
	cq->observed = observe_claim(hca->observe, OBSERVE_CQ, hca->observed->head.id);
	return cq->observed ? 0 : refuse(ENOMEM, CAUSE_OUT_OF_MEMORY, "for a completion queue");
}

int cq_create(struct hca *hca, uint32_t entries, struct cq **result)
{
	struct cq *cq;
	int error = cq_check_size(hca, entries, "ibv_create_cq()");

	if (error)
		return error;
	error = capacity_take(hca, &hca->cq_count, hca->limits.device.max_cq, "completion queues",
			      "max_cq");
	if (error)
		return error;
	entries = capacity_round(hca->behaviour.round_cqe, entries, hca->limits.device.max_cqe);
	cq = calloc(1, sizeof(*cq));
	if (!cq) {
		error = refuse(ENOMEM, CAUSE_OUT_OF_MEMORY, "for a completion queue");
		goto put_capacity;
	}
	error = cq_allocate(cq, entries);
	if (error)
		goto free_cq;
	error = cq_show(hca, cq);
	if (error)
		goto free_ring;
	cq->hca = hca;
	cq->origin = origin_capture();
	cq->capacity = entries;
	cq->event.type = EVENT_COMPLETION;
	cq->event.element = cq;
	cq->event.embedded = true;
	cq->ibv.cqe = entries;
	cq->ibv.handle = cq->handle = hca_next_handle(hca);
	cq->observed->number = cq->handle;
	cq->observed->capacity = entries;
	observe_show(hca->observe, cq->observed);
	spin_init(&cq->lock);
	WATCH(hca, cq_created, cq);
	*result = cq;
	return 0;

free_ring:
	free(cq->ring);
free_cq:
	free(cq);
put_capacity:
	capacity_put(&hca->cq_count);
	return error;
}

int cq_check_unused(struct cq *cq)
{
	return users_check(&cq->users, cq->hca, cq, "ibv_destroy_cq()");
}

void cq_silence(struct cq *cq)
{
	struct timer *timer = &cq->moderation.timer;

	if (!timer->number)
		return;
	table_remove(&cq->hca->cqs, timer->number & ~TIMER_OF_CQ);
	timer_cancel(&cq->hca->timers, timer);
	timer->number = 0;
}

int cq_destroy(struct cq *cq)
{
	int error = cq_check_unused(cq);

	if (error)
		return error;
	cq_silence(cq);
	WATCH(cq->hca, cq_destroyed, cq);
	event_drop(&cq->hca->events, cq);
	capacity_put(&cq->hca->cq_count);
	pthread_spin_destroy(&cq->lock);
	observe_free(cq->hca->observe, OBSERVE_CQ, cq->observed);
	free(cq->ring);
	origin_free(cq->origin);
	quarantine_free(cq, sizeof(*cq));
	return 0;
}

int cq_resize(struct cq *cq, uint32_t entries)
{
	int error = capacity_alive(cq->hca, "ibv_resize_cq()");

	if (error)
		return error;
	if (cq->hca->behaviour.no_cq_resize)
		return refuse(EOPNOTSUPP, CAUSE_NOT_SUPPORTED, "ibv_resize_cq()");
	error = cq_check_size(cq->hca, entries, "ibv_resize_cq()");
	if (error)
		return error;
	entries = capacity_round(cq->hca->behaviour.round_cqe, entries,
				 cq->hca->limits.device.max_cqe);
	spin_lock(&cq->lock);
	if (entries < cq_held(cq))
		error = refuse(EINVAL, CAUSE_CQ_RESIZE, "cqe is %u, the queue holds %u completions",
			       entries, cq_held(cq));
	else if (entries > cq->allocated)
		error = cq_allocate(cq, entries);
	if (!error) {
		cq->capacity = entries;
		cq->ibv.cqe = entries;
		cq->observed->capacity = entries;
	}
	pthread_spin_unlock(&cq->lock);
	return error;
}

/* The ring is full, and is used further: a part that goes round its end is moved there. */
static void cq_grow(struct cq *cq)
{
	uint32_t size = 2 * cq->size < cq->allocated ? 2 * cq->size : cq->allocated;
	uint32_t to_end = cq->size - cq->head;

	if (cq->head) {
		memmove(&cq->ring[size - to_end], &cq->ring[cq->head], to_end * sizeof(*cq->ring));
		cq->head = size - to_end;
	}
	cq->size = size;
}

static void cq_overrun(struct cq *cq, const struct completion *completion)
{
	cq->overrun = true;
	cq->observed->overrun = true;
	cq->overrun_by = completion->wc.qp_num;
	explain_cq_overrun(cq, cq->overrun_by);
	event_raise(&cq->hca->events, IBV_EVENT_CQ_ERR, cq);
}

/* --- the event --------------------------------------------------------------------- */

static void cq_raise(struct cq *cq)
{
	cq->armed = CQ_IDLE;
	cq->observed->armed = CQ_IDLE;
	cq->observed->events++;
	cq->moderation.waiting = cq->moderation.coalesced = 0;
	event_raise_completion(&cq->hca->events, &cq->event);
}

/* False: there is no memory for it, or it has come up already. Then the event doesn't wait. */
static bool cq_start_timer(struct cq *cq)
{
	struct cq_moderation *moderation = &cq->moderation;

	hca_arm(cq->hca, &moderation->timer, moderation->due);
	return atomic_load(&moderation->timer.time);
}

/* Another completion, made at @now: whether the event waits for more. */
static bool cq_waits(struct cq *cq, uint64_t now)
{
	struct cq_moderation *moderation = &cq->moderation;
	bool coalesces = moderation->coalesced;

	if (++moderation->waiting == (coalesces ? moderation->coalesced : moderation->count))
		return false;
	if (moderation->waiting > 1)
		return now < moderation->due;
	moderation->due = now + (coalesces ? INJECT_COALESCE_PERIOD : moderation->period);
	return cq_start_timer(cq);
}

/* A CQ gets its number with its first moderation: those without cost nothing. */
static int cq_reserve_number(struct cq *cq)
{
	uint32_t number;
	int error;

	if (cq->moderation.timer.number)
		return 0;
	error = table_reserve(&cq->hca->cqs, &number);
	if (error)
		return error;
	cq->moderation.timer.number = number | TIMER_OF_CQ;
	table_publish(&cq->hca->cqs, number, cq);
	return 0;
}

/* With the first completion that the event would be raised for. */
static void cq_coalesce(struct cq *cq)
{
	uint32_t count = cq->moderation.waiting ? 0 : inject_coalesce(cq->hca);

	if (count && cq_reserve_number(cq) == 0)
		cq->moderation.coalesced = count;
}

/* IBA 11.4.2.2: an error counts as solicited. */
static void cq_notify(struct cq *cq, const struct completion *completion)
{
	bool solicited = completion->solicited || completion->wc.status != IBV_WC_SUCCESS;

	if (cq->armed == CQ_IDLE || (cq->armed == CQ_ARMED_SOLICITED && !solicited))
		return;
	if (injects(cq->hca))
		cq_coalesce(cq);
	if (!(cq->moderation.period || cq->moderation.coalesced) ||
	    !cq_waits(cq, completion->timestamp))
		cq_raise(cq);
}

int cq_moderate(struct cq *cq, uint16_t count, uint16_t period)
{
	int error;

	if (!cq->hca->limits.max_cq_period && !cq->hca->limits.max_cq_count)
		return refuse(EOPNOTSUPP, CAUSE_NOT_SUPPORTED,
			      "ibv_modify_cq(): the device has no moderation");
	if (count > cq->hca->limits.max_cq_count)
		return refuse(EINVAL, CAUSE_CQ_MODERATION, "cq_count is %u, at most %u", count,
			      cq->hca->limits.max_cq_count);
	if (period > cq->hca->limits.max_cq_period)
		return refuse(EINVAL, CAUSE_CQ_MODERATION, "cq_period is %u us, at most %u", period,
			      cq->hca->limits.max_cq_period);
	spin_lock(&cq->lock);
	error = period ? cq_reserve_number(cq) : 0;
	if (error)
		refuse(error, CAUSE_OUT_OF_MEMORY, "for the timer of a completion queue");
	if (!error) {
		cq->moderation.count = count;
		cq->moderation.period = (uint64_t)period * 1000;
		if (cq->moderation.waiting)
			cq_raise(cq);
	}
	pthread_spin_unlock(&cq->lock);
	return error;
}

/* --- completions that are withheld --------------------------------------------------- */

/* What the completion says is in place. */
static void cq_place(const struct completion *completion, struct hca *hca)
{
	if (!completion->qp)
		placement_finish(hca);
	else if (completion->wc.opcode & IBV_WC_RECV)
		placement_finish_qp(completion->qp);
	else
		placement_finish_local(completion->qp);
}

/* All that change it hold the lock, which threads take that find something in it. */
static void cq_set_count(struct cq *cq, uint32_t count)
{
	atomic_store_explicit(&cq->count, count, memory_order_relaxed);
}

/* The oldest of those that are withheld, or a new one, can be polled now. */
static void cq_add(struct cq *cq, const struct completion *completion)
{
	cq_set_count(cq, cq->count + 1);
	if (cq->count == 1 && cq->sleepers)
		cq->hca->host->wake(&cq->count);
	cq_notify(cq, completion);
}

static void cq_deliver(struct cq *cq)
{
	while (cq->withheld) {
		const struct completion *completion = cq_at(cq, cq->count);

		cq_place(completion, cq->hca);
		cq->withheld--;
		cq_add(cq, completion);
	}
	cq->observed->entries = cq->count;
}

/* The newest one, and those that come before they are delivered together. */
static void cq_withhold(struct cq *cq, uint64_t now)
{
	if (cq->withheld++)
		return;
	cq->deliver_at = now + 1 + placement_random(cq->hca, PLACEMENT_COMPLETION_DELAY);
	if (cq_reserve_number(cq) != 0) {
		cq_deliver(cq);
		return;
	}
	hca_arm(cq->hca, &cq->moderation.timer, cq->deliver_at);
	if (!atomic_load(&cq->moderation.timer.time))
		cq_deliver(cq);
}

void cq_run(struct cq *cq, uint64_t now)
{
	struct cq_moderation *moderation = &cq->moderation;

	spin_lock(&cq->lock);
	if (cq->withheld && now >= cq->deliver_at)
		cq_deliver(cq);
	else if (cq->withheld)
		hca_arm(cq->hca, &moderation->timer, cq->deliver_at);
	/* The timer is lazy: it comes up for an event that was raised long ago, and is put back. */
	if (moderation->waiting && (now >= moderation->due || !cq_start_timer(cq)))
		cq_raise(cq);
	pthread_spin_unlock(&cq->lock);
}

/* --- in and out --------------------------------------------------------------------- */

/* Threads may push completions of several QPs in another order than they were given the time. */
static void cq_set_timestamp(struct cq *cq, struct completion *completion)
{
	if (completion->timestamp < cq->latest)
		completion->timestamp = cq->latest;
	cq->latest = completion->timestamp;
}

/* Its send slots are free. The QP can't be gone: it takes its completions with it. */
static void cq_remove_oldest(struct cq *cq)
{
	const struct completion *oldest = cq_at(cq, 0);

	WATCH(cq->hca, polled, cq, oldest);
	if (oldest->qp && oldest->send_slots)
		send_queue_note_polled(&oldest->qp->sq, oldest->send_slots);
	cq->head = cq_at(cq, 1) - cq->ring;
	cq_set_count(cq, cq->count - 1);
}

static int cq_push_locked(struct cq *cq, const struct completion *completion)
{
	struct completion *entry;

	if (cq->overrun)
		return ENOSPC;
	if (cq_held(cq) >= cq->capacity) {
		cq_deliver(cq);
		if (!cq->ignores_overrun) {
			cq_overrun(cq, completion);
			return ENOSPC;
		}
		cq_remove_oldest(cq);
	}
	if (cq_held(cq) == cq->size)
		cq_grow(cq);
	entry = cq_at(cq, cq_held(cq));
	*entry = *completion;
	if (cq->timestamped)
		cq_set_timestamp(cq, entry);
	cq->observed->completions++;
	if (cq->hca->placement) {
		cq_withhold(cq, completion->timestamp);
		return 0;
	}
	cq_add(cq, entry);
	cq->observed->entries = cq->count;
	return 0;
}

int cq_push(struct cq *cq, const struct completion *completion)
{
	int error;

	spin_lock(&cq->lock);
	error = cq_push_locked(cq, completion);
	pthread_spin_unlock(&cq->lock);
	return error;
}

int cq_poll(struct cq *cq, struct completion *completions, int max)
{
	int taken = 0;

	if (cq_is_empty(cq))
		return 0;
	spin_lock(&cq->lock);
	while (taken < max && cq->count) {
		completions[taken++] = *cq_at(cq, 0);
		cq_remove_oldest(cq);
	}
	cq->observed->entries = cq->count;
	pthread_spin_unlock(&cq->lock);
	return taken;
}

void cq_arm(struct cq *cq, bool solicited_only)
{
	enum cq_armed wanted = solicited_only ? CQ_ARMED_SOLICITED : CQ_ARMED_NEXT;

	spin_lock(&cq->lock);
	if (cq->armed < wanted)
		cq->observed->armed = cq->armed = wanted;
	/* As if a completion had been polled before its event came. */
	if (injects(cq->hca) && inject_spurious(cq->hca)) {
		cq_raise(cq);
		inject_wake(cq->hca);
	}
	pthread_spin_unlock(&cq->lock);
}

void cq_fail(struct cq *cq)
{
	spin_lock(&cq->lock);
	cq->overrun = true;
	cq->observed->overrun = true;
	event_raise(&cq->hca->events, IBV_EVENT_CQ_ERR, cq);
	pthread_spin_unlock(&cq->lock);
}

void cq_purge(struct cq *cq, const struct qp *qp)
{
	uint32_t kept = 0, withheld = 0;

	spin_lock(&cq->lock);
	for (uint32_t i = 0; i < cq_held(cq); i++) {
		const struct completion *completion = cq_at(cq, i);

		if (completion->qp == qp)
			continue;
		if (kept < i)
			*cq_at(cq, kept) = *completion;
		kept++;
		withheld += i >= cq->count;
	}
	cq_set_count(cq, kept - withheld);
	cq->withheld = withheld;
	cq->observed->entries = cq->count;
	pthread_spin_unlock(&cq->lock);
}
