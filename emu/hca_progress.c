/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The HCA at work: which queue pairs are to run, when something is due, delayed ACKs, and the round
 * of progress in which all of it is done; and what is left of it when the process ends.
 */
#include "emu/hca.h"

#include <utlist.h>

#include "emu/objects/cq.h"
#include "emu/objects/qp.h"
#include "emu/receive.h"
#include "emu/transport/outbox.h"
#include "emu/transport/placement.h"
#include "net/share/share.h"
#include "net/spin.h"
#include "net/tuning.h"

/* How often the end of a process yields, so that another thread can finish its round. */
#define EXIT_YIELDS 1000

/*
 * In so many rounds all is received that waits anywhere. The thread that receives may have been
 * preempted for some milliseconds; in a forked child it isn't there.
 */
#define CATCH_UP_ROUNDS 100
#define CATCH_UP_YIELDS 100000

/*
 * At most so many deadlines before packets are received: one that is armed anew for a time in the
 * past would otherwise keep a round from ending.
 */
#define TIMERS_A_ROUND 4096

/* --- the run queue and the timers -------------------------------------------------- */

/* With run_lock. */
static void count_scheduled(struct hca *hca, int more)
{
	unsigned int count = atomic_load_explicit(&hca->run_count, memory_order_relaxed);

	atomic_store_explicit(&hca->run_count, count + more, memory_order_relaxed);
}

void hca_schedule(struct hca *hca, struct qp *qp)
{
	spin_lock(&hca->run_lock);
	if (!qp->scheduled) {
		qp->scheduled = true;
		DL_APPEND2(hca->run_head, qp, run_prev, run_next);
		count_scheduled(hca, 1);
	}
	pthread_spin_unlock(&hca->run_lock);
}

/* With run_lock. */
static void take_off(struct hca *hca, struct qp *qp)
{
	qp->scheduled = false;
	DL_DELETE2(hca->run_head, qp, run_prev, run_next);
	count_scheduled(hca, -1);
}

void hca_unschedule(struct hca *hca, struct qp *qp)
{
	spin_lock(&hca->run_lock);
	if (qp->scheduled)
		take_off(hca, qp);
	pthread_spin_unlock(&hca->run_lock);
}

/* The number of the first queued QP, taken off the queue, or 0. The QP itself may go meanwhile. */
static uint32_t next_scheduled(struct hca *hca)
{
	uint32_t number = 0;
	struct qp *qp;

	spin_lock(&hca->run_lock);
	qp = hca->run_head;
	if (qp) {
		take_off(hca, qp);
		number = qp->number;
	}
	pthread_spin_unlock(&hca->run_lock);
	return number;
}

static void run_number(struct hca *hca, uint32_t number, struct outbox *outbox)
{
	struct qp *qp = table_get(&hca->qps, number);

	if (!qp)
		return;
	qp_run(qp, outbox);
	table_put(&hca->qps, number);
}

static void run_cq_number(struct hca *hca, uint32_t number, uint64_t now)
{
	struct cq *cq = table_get(&hca->cqs, number);

	if (!cq)
		return;
	cq_run(cq, now);
	table_put(&hca->cqs, number);
}

/* A QP that schedules itself again is run by the next round, so that packets come in between. */
bool hca_run_due(struct hca *hca, uint64_t now)
{
	struct outbox *outbox = outbox_get(hca, now);
	unsigned int budget;
	uint32_t number;
	bool any = false;

	if (!outbox)
		return false; /* what is due remains so */
	for (budget = TIMERS_A_ROUND; budget && (number = timer_expire(&hca->timers, now)) != 0;
	     budget--) {
		if (number & TIMER_OF_CQ)
			run_cq_number(hca, number & ~TIMER_OF_CQ, now);
		else
			run_number(hca, number, outbox);
		any = true;
	}
	budget = atomic_load_explicit(&hca->run_count, memory_order_relaxed);
	for (; budget > 0 && (number = next_scheduled(hca)) != 0; budget--) {
		run_number(hca, number, outbox);
		any = true;
	}
	outbox_put(outbox);
	return any;
}

void hca_arm(struct hca *hca, struct timer *timer, uint64_t time)
{
	if (timer_arm(&hca->timers, timer, time))
		hca_wake_at(hca, time);
}

static bool has_scheduled(struct hca *hca)
{
	bool any;

	spin_lock(&hca->run_lock);
	any = hca->run_head != NULL;
	pthread_spin_unlock(&hca->run_lock);
	return any;
}

/*
 * The calling thread may have read the datagram that was to wake the progress thread (share.woken).
 * If it is the progress thread itself this does nothing: it is awake.
 */
static void pass_on_wakeup(struct hca *hca)
{
	struct share *share = hca->link->share;

	if (!share || !atomic_load_explicit(&share->woken, memory_order_relaxed))
		return;
	atomic_store(&share->woken, false);
	hca_wake_at(hca, 0);
}

void hca_kick(struct hca *hca)
{
	if (atomic_load_explicit(&hca->run_count, memory_order_relaxed) ||
	    deferred_retry_at(&hca->deferred) != TIME_NEVER)
		hca_wake_at(hca, 0);
	pass_on_wakeup(hca);
}

/* While another thread receives it isn't time to sleep. */
static uint64_t prepare_sleep(struct hca *hca)
{
	struct link *link = hca->link;
	uint64_t deadline;

	if (!link->ops->prepare_sleep)
		return TIME_NEVER;
	if (pthread_spin_trylock(&hca->receive_lock) != 0)
		return 0;
	deadline = link->ops->prepare_sleep(link);
	pthread_spin_unlock(&hca->receive_lock);
	return deadline;
}

/*
 * How long an ACK that waits since @since does so where nothing is received any more. An
 * application that has polled lately is about to answer, and may need this thread's CPU for it.
 */
static uint64_t ack_delay(const struct hca *hca, uint64_t since)
{
	uint64_t polled_at = atomic_load_explicit(&hca->polled_at, memory_order_relaxed);

	return (int64_t)(since - polled_at) < ACK_POLLED_LATELY ? ACK_DELAY_ANSWER : ACK_DELAY;
}

static uint64_t acks_deadline(struct hca *hca)
{
	uint64_t oldest = atomic_load(&hca->acks.oldest);

	return oldest == TIME_NEVER ? TIME_NEVER : oldest + ack_delay(hca, oldest);
}

uint64_t hca_deadline(struct hca *hca)
{
	uint64_t acks = acks_deadline(hca);
	uint64_t next = atomic_load(&hca->timers.next);

	if (has_scheduled(hca) || atomic_load_explicit(&hca->unread, memory_order_relaxed))
		return 0;
	next = earlier(next, hca->link->ops->deadline(hca->link));
	next = earlier(next, cm_deadline(hca->cm));
	next = earlier(next, deferred_retry_at(&hca->deferred));
	next = earlier(next, placement_deadline(hca));
	next = earlier(next, inject_deadline(&hca->inject));
	next = earlier(next, prepare_sleep(hca));
	return earlier(next, acks);
}

/* --- delayed ACKs ------------------------------------------------------ */

/* Between the two a thread has taken ACKs off the queue that haven't left: hca_request_acks(). */
static void begin_acknowledging(struct hca *hca)
{
	atomic_fetch_add(&hca->acknowledging, 1);
	atomic_store(&hca->acknowledger, pthread_self());
}

static void end_acknowledging(struct hca *hca)
{
	pthread_t self = pthread_self();

	atomic_compare_exchange_strong(&hca->acknowledger, &self, 0);
	atomic_fetch_sub(&hca->acknowledging, 1);
}

bool hca_send_acks(struct hca *hca, uint64_t now, uint64_t age)
{
	struct outbox *outbox = outbox_get(hca, now);
	bool any = false;
	uint32_t number;
	struct qp *qp;

	if (!outbox)
		return false;
	begin_acknowledging(hca);
	while ((number = ack_queue_take(&hca->acks, now - age)) != 0) {
		any = true;
		qp = table_get(&hca->qps, number);
		if (!qp)
			continue;
		qp_acknowledge(qp, outbox);
		table_put(&hca->qps, number);
	}
	end_acknowledging(hca);
	outbox_put(outbox);
	return any;
}

/* Without receive_lock: the thread that has it may never go on (hca_request_acks()). */
static void send_requested_acks(struct hca *hca, uint64_t now)
{
	hca_send_acks(hca, now, 0);
	atomic_store(&hca->acks_wanted, false);
}

/* --- the round ------------------------------------------------------------------------- */

bool hca_is_busy(struct hca *hca)
{
	if (atomic_load_explicit(&hca->senders, memory_order_relaxed) ||
	    pthread_spin_trylock(&hca->receive_lock) != 0)
		return true;
	pthread_spin_unlock(&hca->receive_lock);
	return false;
}

/*
 * When the next round is due though nothing arrives: an application's thread that received this may
 * do something else now, and the progress thread sleeps, for the packet that it would have been
 * woken by is read.
 */
static void plan_next_round(struct hca *hca)
{
	uint64_t due = earlier(acks_deadline(hca), deferred_retry_at(&hca->deferred));

	if (atomic_load_explicit(&hca->run_count, memory_order_relaxed) ||
	    atomic_load_explicit(&hca->unread, memory_order_relaxed))
		due = 0;
	if (due != TIME_NEVER)
		hca_wake_at(hca, due);
}

bool hca_progress(struct hca *hca, uint64_t now)
{
	uint64_t age;
	bool any;

	if (atomic_load_explicit(&hca->acks_wanted, memory_order_relaxed))
		send_requested_acks(hca, now);
	if (pthread_spin_trylock(&hca->receive_lock) != 0)
		return false;
	atomic_store_explicit(&hca->receiver, pthread_self(), memory_order_relaxed);
	any = receive_frames(hca, now);
	/* A QP that has ended a step (requester.c) goes on only after another look for packets. */
	if (!any)
		any = hca_run(hca, now);
	any |= cm_run(hca->cm, now);
	any |= placement_run(hca, now);
	if (injects(hca) || inject_begins(&hca->inject))
		any |= inject_run(hca, now);
	age = any ? ACK_DELAY_BUSY : ack_delay(hca, now);
	if (ack_queue_is_due(&hca->acks, now, age))
		any |= hca_send_acks(hca, now, age);
	if (any)
		plan_next_round(hca);
	pass_on_wakeup(hca);
	event_uncork(&hca->events);
	pthread_spin_unlock(&hca->receive_lock);
	event_deliver(&hca->events);
	return any;
}

static bool is_behind(struct hca *hca, uint64_t now)
{
	return atomic_load_explicit(&hca->all_read_at, memory_order_acquire) < now ||
	       deferred_retry_at(&hca->deferred) != TIME_NEVER;
}

void hca_catch_up(struct hca *hca, uint64_t now)
{
	int rounds = CATCH_UP_ROUNDS, yields = CATCH_UP_YIELDS;

	while (rounds && yields) {
		bool any = hca_progress(hca, now);

		if (!is_behind(hca, now))
			return;
		if (any) {
			rounds--;
		} else { /* another thread receives */
			hca->host->yield();
			yields--;
		}
	}
}

/* --- the end of the process --------------------------------------------------------------- */

/*
 * Whether a thread other than the caller is in a round. The caller may be a signal handler that has
 * interrupted a round of its own thread, which doesn't go on.
 */
static bool another_receives(struct hca *hca)
{
	if (pthread_spin_trylock(&hca->receive_lock) != 0)
		return atomic_load(&hca->receiver) != pthread_self();
	pthread_spin_unlock(&hca->receive_lock);
	return false;
}

/* Likewise, in hca_send_acks(). */
static bool another_acknowledges(struct hca *hca)
{
	bool interrupted = atomic_load(&hca->acknowledger) == pthread_self();

	return atomic_load(&hca->acknowledging) > interrupted;
}

bool hca_request_acks(struct hca *hca)
{
	/* Looked at first: the round of another thread may end with an ACK that waits. */
	bool pending = another_receives(hca);

	if (atomic_load(&hca->acks.oldest) != TIME_NEVER) {
		atomic_store(&hca->acks_wanted, true);
		hca_wake_at(hca, 0);
	}
	/* Looked at last: what was taken off the queue before this found none there. */
	return pending || atomic_load(&hca->acks_wanted) || another_acknowledges(hca);
}

/* The lock isn't given back: this process receives nothing any more. */
static void shutdown_link(struct hca *hca)
{
	for (int i = 0; i < EXIT_YIELDS; i++) {
		if (pthread_spin_trylock(&hca->receive_lock) == 0) {
			hca->link->share->ops->shutdown(hca->link->share);
			return;
		}
		hca->host->yield();
	}
}

static void acknowledge_on_exit(struct hca *hca, uint64_t now)
{
	struct outbox *outbox = outbox_get(hca, now);
	uint32_t number;
	struct qp *qp;

	while (outbox && (number = ack_queue_try_take(&hca->acks)) != 0) {
		qp = table_get(&hca->qps, number);
		if (!qp)
			continue;
		if (pthread_mutex_trylock(&qp->lock) == 0) {
			response_acknowledge(qp, outbox);
			outbox_flush(outbox);
			pthread_mutex_unlock(&qp->lock);
		}
		table_put(&hca->qps, number);
	}
	if (outbox)
		outbox_put(outbox);
}

void hca_flush_on_exit(struct hca *hca, uint64_t now)
{
	acknowledge_on_exit(hca, now);
	placement_finish(hca);
	cm_flush_on_exit(hca->cm, now);
	if (hca->link->share)
		shutdown_link(hca);
}
