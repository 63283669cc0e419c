/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The progress thread and when it acts. It serves its clients until they want nothing more,
 * and sleeps in ppoll() on what they wait for: their descriptors, the nearest of their deadlines,
 * a call that wakes it (verbs/wakeup.h). No event library: those that there are end the process
 * when a descriptor of theirs is closed or an allocation fails, and applications do both.
 *
 * A client is in one of three states:
 *   idle         its descriptors are watched and its deadlines planned;
 *   spinning     it had work a moment ago, and more is likely: the thread doesn't sleep
 *                but calls progress() again and again. It leaves out those during which the
 *                application polls, and looks at nothing but the time of the last poll;
 *   app_polling  the application polls and leaves the thread nothing to do: neither
 *                descriptors nor deadlines concern it. It looks once a tick whether
 *                polling goes on, more seldom the longer it has.
 * An application that waits for its memory to change, having polled for its own
 * completion before, keeps its client spinning; one that does nothing but poll makes
 * it app_polling; one that does nothing at all, idle.
 *
 * Where the CPUs are contended nothing spins: then an application that waits for its memory would
 * be taken for one that polls, and its packets would wait for the next tick. A client where that
 * has been seen is *neglected* for a while (PROGRESS_NEGLECT_FOR): whenever its application may
 * have begun to wait (progress_app_waits(), verbs/progress_arm.c), the thread watches the
 * descriptors at once, and keeps off the application's CPU. Not while it polls: a thread that is
 * woken by each packet takes the CPU from the application that is to answer it.
 *
 * progress.lock protects the list of clients and what it hasn't _Atomic members for. The thread
 * holds it whenever it runs, but for the sleep itself and for the clients' callbacks; a client is
 * pinned by its @running while a callback of it runs, and by its @polled while the thread sleeps
 * on its descriptors.
 */
#include "verbs/progress_internal.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>
#include <utlist.h>

#include "net/cause/cause.h"
#include "net/log.h"
#include "net/process.h"
#include "net/tuning.h"
#include "verbs/poll_yield.h"
#include "verbs/thread.h"

/* How often the end of a process tries to get the lock. */
#define RELEASE_TRIES 1000

/* --- Talking to the thread ------------------------------------------------------- */

/* In a forked child the lock may be taken for ever, and a wake-up would reach the parent. */
static bool forked(const struct progress *progress)
{
	return getpid() != progress->pid;
}

static void wake(struct progress *progress)
{
	if (!forked(progress))
		wakeup_wake(&progress->wakeup);
}

void progress_deadline(struct progress_client *client, uint64_t deadline)
{
	if (progress_plan_earlier(client, deadline))
		wake(client->progress);
}

static void note_poll(struct progress_client *client, uint64_t now)
{
	uint64_t last = atomic_load_explicit(&client->last_poll, memory_order_relaxed);

	/* Unless it was noted ahead by a post. */
	if (now + PROGRESS_POST - last > PROGRESS_POST + PROGRESS_POLL_GRAIN)
		atomic_store_explicit(&client->last_poll, now, memory_order_relaxed);
}

void progress_posted(struct progress_client *client, uint64_t now)
{
	note_poll(client, now + PROGRESS_POST);
}

static bool poll_client(struct progress_client *client, uint64_t now,
			const struct poll_queue *queue)
{
	unsigned int polls = atomic_load_explicit(&client->polls, memory_order_relaxed);
	uint64_t last = atomic_load_explicit(&client->last_poll, memory_order_relaxed);
	bool done;

	if (poll_sleep(&client->keeper, queue, now))
		return true;
	if (polls < PROGRESS_POLLS_BELIEVED)
		atomic_store_explicit(&client->polls, polls + 1, memory_order_relaxed);
	note_poll(client, now);
	done = client->ops->progress(client->context, now);
	poll_yield(&client->keeper, queue, now, done || (int64_t)(now - last) > PROGRESS_POLL_GAP);
	return done;
}

bool progress_poll(struct progress_client *client, uint64_t now, const struct poll_queue *queue)
{
	bool counted = poll_begin(queue, now);
	bool done = poll_client(client, now, queue);

	poll_end(queue, counted);
	return done;
}

bool progress_polled_since(const struct progress_client *client, uint64_t time)
{
	uint64_t last = atomic_load_explicit(&client->last_poll, memory_order_relaxed);

	return (int64_t)(last - time) >= 0;
}

bool progress_may_spin(const struct progress_client *client)
{
	return client->progress->spin > 0;
}

void progress_app_sleeping(struct progress_client *client)
{
	/* In this order; stop_watching() (verbs/progress_serve.c) does it the other way round. */
	atomic_store(&client->polls, 0);
	if (atomic_load(&client->app_polling))
		wake(client->progress);
}

bool progress_is_runnable(const struct progress_client *client)
{
	const struct progress *progress = client->progress;
	pid_t tid = atomic_load(&progress->tid);

	if (forked(progress))
		return false;
	return !tid || process_state(tid, process_namespace("pid")) == 'R';
}

void progress_app_waits(struct progress_client *client)
{
	if (!progress_is_neglected_now(client) || forked(client->progress))
		return;
	atomic_store(&client->waits_on, sched_getcpu());
	atomic_store(&client->app_waits, true);
	atomic_store(&client->polls, 0); /* before, so that the thread finds no polling */
	if (progress_arm(client))
		return;
	progress_app_sleeping(client);
	/* If the kernel has woken the progress thread on this CPU, it can run now. */
	sched_yield();
}

/* --- The thread: its life ------------------------------------------------------------- */

static void *thread_main(void *argument)
{
	struct progress *progress = argument;

	atomic_store(&progress->tid, gettid());
	pthread_setname_np(pthread_self(), "urxe");
	prctl(PR_SET_TIMERSLACK, 1); /* else ppoll() is late by 50 us */
	pthread_mutex_lock(&progress->lock);
	while (!progress->stopping) {
		wakeup_begin_round(&progress->wakeup);
		progress_sleep_until(progress, progress_serve(progress));
	}
	pthread_mutex_unlock(&progress->lock);
	return NULL;
}

static int start_thread(struct progress *progress)
{
	int status = thread_start(&progress->thread, thread_main, progress);

	progress->started = status == 0;
	if (status)
		refuse(status, CAUSE_OUT_OF_MEMORY, "for the progress thread and its stack: %s",
		       strerror(status));
	return status;
}

/* --- Creating and destroying ------------------------------------------------------- */

int progress_create(struct progress **result)
{
	struct progress *progress = calloc(1, sizeof(*progress));
	int status;

	if (!progress)
		return ENOMEM;
	status = wakeup_open(&progress->wakeup);
	if (status) {
		free(progress);
		return status;
	}
	pthread_mutex_init(&progress->lock, NULL);
	pthread_cond_init(&progress->unpinned, NULL);
	progress->pid = getpid();
	/* Where there is but one CPU, spinning would keep the application from working. */
	progress->spin = thread_cpus_count() > 1 ? PROGRESS_SPIN : 0;
	progress->cpus = THREAD_CPUS_INIT;
	progress->armed_set = -1;
	*result = progress;
	return 0;
}

static void free_client(struct progress_client *client)
{
	free(client->fds);
	free(client);
}

void progress_destroy(struct progress *progress)
{
	struct progress_client *client, *next;

	if (forked(progress))
		return;
	if (progress->started) {
		pthread_mutex_lock(&progress->lock);
		progress->stopping = true;
		pthread_mutex_unlock(&progress->lock);
		wake(progress);
		pthread_join(progress->thread, NULL);
	}
	DL_FOREACH_SAFE (progress->clients, client, next)
		free_client(client);
	progress_arming_close(progress);
	wakeup_close(&progress->wakeup);
	free(progress->poll);
	free(progress->polled);
	pthread_cond_destroy(&progress->unpinned);
	pthread_mutex_destroy(&progress->lock);
	free(progress);
}

/* The pipe would not hang up in the parent as long as a child has it (verbs/wakeup.h). */
void progress_after_fork_child(struct progress *progress)
{
	progress_arming_close(progress);
	wakeup_close(&progress->wakeup);
}

/* --- Clients ------------------------------------------------------------------------ */

/* Returns 0, or ENOMEM with what was watched before. */
static int watch_descriptors(struct progress_client *client)
{
	uint64_t refresh = atomic_fetch_add(&client->refreshes, 1);
	unsigned int count, max = 8;
	int *fds = NULL, *more;

	do {
		max *= 2;
		more = realloc(fds, max * sizeof(*fds));
		if (!more) {
			free(fds);
			return ENOMEM;
		}
		fds = more;
		count = client->ops->descriptors(client->context, fds, max);
	} while (count >= max);

	pthread_mutex_lock(&client->progress->lock);
	/* Of threads that ask at a time, the last to begin has what was opened by all. */
	if (refresh >= client->refresh) {
		int *former = client->fds;

		client->refresh = refresh;
		client->fds = fds;
		client->fd_count = client->released ? 0 : count;
		client->progress->armed_set_stale = true;
		fds = former;
	}
	pthread_mutex_unlock(&client->progress->lock);
	free(fds);
	return 0;
}

int progress_attach(struct progress *progress, const struct progress_ops *ops, void *context,
		    struct progress_client **result)
{
	struct progress_client *client;
	int status;

	if (forked(progress))
		return ESTALE;
	client = calloc(1, sizeof(*client));
	if (!client)
		return ENOMEM;
	client->progress = progress;
	client->ops = ops;
	client->context = context;
	client->waits_on = CPU_NONE;
	status = watch_descriptors(client);
	if (status) {
		free_client(client);
		return status;
	}

	pthread_mutex_lock(&progress->lock);
	status = progress->started ? 0 : start_thread(progress);
	if (status == 0) {
		DL_APPEND(progress->clients, client);
		progress_resume_watching(client);
	}
	pthread_mutex_unlock(&progress->lock);
	if (status) {
		free_client(client);
		return status;
	}
	*result = client;
	wake(progress);
	return 0;
}

void progress_detach(struct progress_client *client)
{
	struct progress *progress = client->progress;

	if (forked(progress))
		return;
	pthread_mutex_lock(&progress->lock);
	client->leaving = true;
	wake(progress); /* a socket that is slept on doesn't close */
	while (client->running || client->polled)
		pthread_cond_wait(&progress->unpinned, &progress->lock);
	DL_DELETE(progress->clients, client);
	progress->armed_set_stale = true;
	pthread_mutex_unlock(&progress->lock);
	free_client(client);
}

void progress_refresh(struct progress_client *client)
{
	int status;

	if (forked(client->progress))
		return;
	status = watch_descriptors(client);
	if (status)
		log_error("can't watch new descriptors: %s", strerror(status));
	else
		wake(client->progress);
}

void progress_release_descriptors(struct progress_client *client)
{
	struct progress *progress = client->progress;

	for (int i = 0; i < RELEASE_TRIES && !forked(progress); i++) {
		if (pthread_mutex_trylock(&progress->lock) == 0) {
			client->released = true;
			client->fd_count = 0;
			progress->armed_set_stale = true;
			pthread_mutex_unlock(&progress->lock);
			return;
		}
		sched_yield();
	}
}
