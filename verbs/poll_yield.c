/* SPDX-License-Identifier: BSD-2-Clause */
/* When a polling thread gives up its CPU: verbs/poll_yield.h. */
#include "verbs/poll_yield.h"

#include <errno.h>
#include <sched.h>
#include <sys/resource.h>

#include "net/clock.h"
#include "net/spin.h"
#include "net/syscalls.h"
#include "net/tuning.h"

/* Of a thread, not of a client: while one thread's polls make progress, another's don't. */
static _Thread_local struct {
	/* Polls in a row that found nothing: from when on they count, ns, and how many. */
	uint64_t since;
	unsigned int polls;

	/* The latest look_at_cpu(): when, ns; times_switched(); whether that had grown. */
	uint64_t looked_at;
	long switches;
	bool cpu_wanted;

	/* The latest poll: when, ns; of which queue, and since when of no other. */
	uint64_t polled_at;
	const _Atomic uint32_t *queue;
	uint64_t queue_since;
} this_thread;

/*
 * How often the kernel has taken the CPU from this thread. It counts a sched_yield() only where
 * another thread ran then, and never sleeping.
 */
static long times_switched(void)
{
	struct rusage usage;

	return getrusage(RUSAGE_THREAD, &usage) == 0 ? usage.ru_nivcsw : 0;
}

static void begin_anew(uint64_t now)
{
	this_thread.since = now;
	this_thread.polls = 0;
}

/* --- the thread that keeps polling --------------------------------------------------- */

static bool is_keeper(const struct poll_keeper *keeper)
{
	return atomic_load_explicit(&keeper->thread, memory_order_relaxed) == &this_thread;
}

static void keeper_polled(struct poll_keeper *keeper, uint64_t now)
{
	uint64_t before = atomic_load_explicit(&keeper->polled_at, memory_order_relaxed);

	if (now - before > PROGRESS_POLL_GRAIN)
		atomic_store_explicit(&keeper->polled_at, now, memory_order_relaxed);
}

static bool another_keeps_polling(const struct poll_keeper *keeper, uint64_t now)
{
	const void *thread = atomic_load_explicit(&keeper->thread, memory_order_relaxed);
	uint64_t at = atomic_load_explicit(&keeper->polled_at, memory_order_relaxed);

	return thread && thread != &this_thread && (int64_t)(now - at) < POLL_KEEPER_STOPPED;
}

/*
 * The calling thread becomes the keeper if there is none, or if no other thread wants its CPU and
 * one wants that of the keeper.
 */
static void choose_keeper(struct poll_keeper *keeper, uint64_t now)
{
	bool better = !this_thread.cpu_wanted &&
		      atomic_load_explicit(&keeper->cpu_wanted, memory_order_relaxed);

	if (!is_keeper(keeper)) {
		if (another_keeps_polling(keeper, now) && !better)
			return;
		atomic_store_explicit(&keeper->polled_at, now, memory_order_relaxed);
		atomic_store_explicit(&keeper->thread, &this_thread, memory_order_relaxed);
	}
	atomic_store_explicit(&keeper->cpu_wanted, this_thread.cpu_wanted, memory_order_relaxed);
}

/* Whether this thread has lost its CPU since it last looked. */
static void look_at_cpu(struct poll_keeper *keeper, uint64_t now)
{
	long switches = times_switched();

	this_thread.cpu_wanted = switches != this_thread.switches;
	this_thread.switches = switches;
	this_thread.looked_at = now;
	choose_keeper(keeper, now);
}

/* --- taking turns ------------------------------------------------------------------------ */

static void next_turn(struct poll_turns *turns, uint64_t now)
{
	uint64_t before = atomic_exchange_explicit(&turns->since, now, memory_order_relaxed);

	if ((int64_t)(now - before) > POLL_TURNS_FOR)
		atomic_store_explicit(&turns->count, 0, memory_order_relaxed);
	if (atomic_exchange_explicit(&turns->thread, &this_thread, memory_order_relaxed))
		atomic_fetch_add_explicit(&turns->count, 1, memory_order_relaxed);
}

bool poll_begin(const struct poll_queue *queue, uint64_t now)
{
	struct poll_turns *turns;

	if (!queue)
		return false;
	turns = queue->turns;
	if (atomic_load_explicit(&turns->thread, memory_order_relaxed) != &this_thread)
		next_turn(turns, now);
	if (!atomic_load_explicit(&turns->count, memory_order_relaxed))
		return false;
	if (atomic_fetch_add_explicit(&turns->polling, 1, memory_order_relaxed))
		atomic_store_explicit(&turns->count, 0, memory_order_relaxed);
	return true;
}

void poll_end(const struct poll_queue *queue, bool counted)
{
	if (counted)
		atomic_fetch_sub_explicit(&queue->turns->polling, 1, memory_order_relaxed);
}

static bool takes_turns(const struct poll_queue *queue, uint64_t now)
{
	return queue &&
	       atomic_load_explicit(&queue->turns->count, memory_order_relaxed) >= POLL_TURNS &&
	       (int64_t)(now - atomic_load_explicit(&queue->turns->since, memory_order_relaxed)) <
		       POLL_TURNS_FOR;
}

/* --- giving up the CPU ------------------------------------------------------------------ */

/*
 * If other threads want this CPU, one of them may be the peer's, or the one of ours that is
 * receiving: let them have it. A thread that keeps it for long is neither: then don't yield for a
 * while.
 */
static void yield_to_others(struct poll_keeper *keeper)
{
	uint64_t before = clock_now(), after;

	sched_yield();
	after = clock_now();
	begin_anew(after);
	if (after - before > POLL_YIELD_LOST)
		this_thread.since += PROGRESS_CPU_CONTENDED;
	look_at_cpu(keeper, after);
}

static void add_sleepers(const struct poll_queue *queue, int n)
{
	spin_lock(queue->lock);
	*queue->sleepers += n;
	pthread_spin_unlock(queue->lock);
}

/*
 * The thread that keeps polling finds what comes for this one. If nothing does for a while, this
 * thread looks for itself, and whether its CPU is wanted still.
 */
static void sleep_on(struct poll_keeper *keeper, const struct poll_queue *queue)
{
	const struct timespec most = {.tv_nsec = POLL_SLEEP_MOST};
	bool in_vain;

	/* In this order: the kernel sees what was added, and what will be is added knowing this. */
	add_sleepers(queue, 1);
	in_vain = sys_futex_wait((const void *)queue->count, 0, &most) != 0 && errno == ETIMEDOUT;
	add_sleepers(queue, -1);
	if (in_vain) {
		yield_to_others(keeper);
	} else {
		this_thread.looked_at = clock_now(); /* one that sleeps can't lose its CPU */
		begin_anew(this_thread.looked_at);
	}
	this_thread.polled_at = this_thread.looked_at;
}

/*
 * Whether this thread has polled nothing but @queue for a while, and does so in a loop. One that
 * has just been woken may have posted something in between.
 */
static bool polls_only(const struct poll_queue *queue, uint64_t now)
{
	bool in_loop = (int64_t)(now - this_thread.polled_at) < PROGRESS_POLL_STOPPED;

	this_thread.polled_at = now;
	if (!queue)
		return false;
	if (queue->count != this_thread.queue) {
		this_thread.queue = queue->count;
		this_thread.queue_since = now;
	}
	return in_loop && (int64_t)(now - this_thread.queue_since) > POLL_YIELD_AFTER;
}

bool poll_sleep(struct poll_keeper *keeper, const struct poll_queue *queue, uint64_t now)
{
	if (!polls_only(queue, now) || !this_thread.cpu_wanted ||
	    !another_keeps_polling(keeper, now) || takes_turns(queue, now))
		return false;
	sleep_on(keeper, queue);
	return true;
}

/*
 * Whether this thread has polled for long enough without finding anything. Not by the time alone:
 * where system calls are slow, messages take longer, too.
 */
static bool is_long_enough(uint64_t now)
{
	int64_t passed = now - this_thread.since;

	if (this_thread.cpu_wanted)
		return passed > POLL_YIELD_AFTER_WANTED;
	return passed > POLL_YIELD_AFTER && this_thread.polls > POLL_YIELD_POLLS;
}

void poll_yield(struct poll_keeper *keeper, const struct poll_queue *queue, uint64_t now,
		bool begins)
{
	if (is_keeper(keeper))
		keeper_polled(keeper, now);
	if ((int64_t)(now - this_thread.looked_at) > POLL_LOOK_AFTER)
		look_at_cpu(keeper, now);
	if (!begins) {
		this_thread.polls++;
		if (is_long_enough(now) && !takes_turns(queue, now))
			yield_to_others(keeper);
	} else if ((int64_t)(now - this_thread.since) > PROGRESS_POLL_GRAIN) {
		begin_anew(now);
	}
}
