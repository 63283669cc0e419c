/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The progress thread and when it acts. All its work is done in one place,
 * serve_clients(), which libev runs before it sleeps; the callbacks of
 * descriptors only mark their client as ready. Sleeping is without timeout:
 * deadlines go through a timerfd, because libev's own timers are as coarse as
 * epoll's milliseconds.
 *
 * A client is in one of three states:
 *   idle         its descriptors are watched and its deadlines planned;
 *   spinning     it had work a moment ago, and more is likely: the thread doesn't sleep
 *                but calls progress() again and again. It leaves out those during which the
 *                application polls, and looks at nothing but the time of the last poll;
 *   app_polling  the application polls and leaves the thread nothing to do: neither
 *                descriptors nor deadlines concern it. It looks once a tick whether
 *                polling goes on.
 * An application that waits for its memory to change, having polled for its own
 * completion before, keeps its client spinning; one that does nothing but poll makes
 * it app_polling; one that does nothing at all, idle.
 *
 * progress.lock protects the loop, its watchers and the list of clients. The
 * thread holds it whenever it runs, but for the sleep itself (libev's release
 * callback) and for the clients' callbacks; a client whose callback runs is
 * pinned by its @running. The _Atomic members are read and written without it.
 */
#include "verbs/progress.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>
#include <utlist.h>

#include "net/clock.h"
#include "net/log.h"
#include "net/tuning.h"
#include "verbs/libev.h"

#define NS_PER_S 1000000000u

struct progress_client {
	struct progress *progress;
	const struct progress_ops *ops;
	void *context;

	/*
	 * When the progress thread will call progress() next, at the latest; 0: soon
	 * anyway. Any thread may lower it, only the progress thread raises it.
	 */
	_Atomic uint64_t planned;
	_Atomic uint64_t last_poll;
	_Atomic unsigned int polls; /* since it slept, up to PROGRESS_POLLS_BELIEVED */
	_Atomic bool app_polling;

	uint64_t spin_until;
	uint64_t unwatched_until; /* not watched for another reason than polling */
	unsigned int idle_polls;
	bool ready;   /* a descriptor was readable */
	bool running; /* the thread is in a callback of this client */
	bool leaving; /* progress_detach() waits for it */
	int epoll;    /* of the client's descriptors */
	struct ev_io readable;
	struct progress_client *prev, *next;
};

struct progress {
	pthread_mutex_t lock;
	pthread_cond_t progress_ended;
	pid_t pid;
	bool started, stopping;
	pthread_t thread;
	struct ev_loop *loop;
	struct ev_async wakeup;
	struct ev_prepare before_sleep;
	struct ev_io timer;
	int timer_fd;
	uint64_t timer_time;	      /* when the timer fires, or TIME_NEVER */
	uint64_t spin;		      /* how long a client spins */
	uint64_t cpu_contended_until; /* clients don't spin: other threads need this CPU */
	struct progress_client *clients;
	struct progress_client *departed; /* detached; for the thread to free */
};

/* --- Talking to the thread ------------------------------------------------------- */

/* The lock of a forked copy may be taken for ever, and its wake-ups would reach the parent. */
static bool forked(const struct progress *progress)
{
	return getpid() != progress->pid;
}

static void wake(struct progress *progress)
{
	int state;

	if (forked(progress))
		return;
	/* What libev writes with is a cancellation point, and the caller may hold locks. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	libev()->ev_async_send(progress->loop, &progress->wakeup);
	pthread_setcancelstate(state, NULL);
}

/* Returns whether @time is earlier than what was planned. */
static bool plan_earlier(struct progress_client *client, uint64_t time)
{
	/*
	 * An addition of nothing instead of a load, as the other half of
	 * make_progress(): either this sees the TIME_NEVER stored there, or deadline(),
	 * called after that, sees what the caller stored before this.
	 */
	uint64_t planned = atomic_fetch_add(&client->planned, 0);

	while (time < planned)
		if (atomic_compare_exchange_weak(&client->planned, &planned, time))
			return true;
	return false;
}

void progress_deadline(struct progress_client *client, uint64_t deadline)
{
	if (plan_earlier(client, deadline))
		wake(client->progress);
}

static void note(struct progress_client *client, uint64_t now)
{
	uint64_t last = atomic_load_explicit(&client->last_poll, memory_order_relaxed);

	if (now - last > PROGRESS_POLL_GRAIN)
		atomic_store_explicit(&client->last_poll, now, memory_order_relaxed);
}

void progress_posted(struct progress_client *client, uint64_t now)
{
	note(client, now);
}

bool progress_poll(struct progress_client *client, uint64_t now)
{
	unsigned int polls = atomic_load_explicit(&client->polls, memory_order_relaxed);

	if (polls < PROGRESS_POLLS_BELIEVED)
		atomic_store_explicit(&client->polls, polls + 1, memory_order_relaxed);
	note(client, now);
	return client->ops->progress(client->context, now);
}

void progress_app_sleeping(struct progress_client *client)
{
	/* In this order; stop_watching() does it the other way round. */
	atomic_store(&client->polls, 0);
	if (atomic_load(&client->app_polling))
		wake(client->progress);
}

/* Did an application thread poll less than @gap ago? It may have noted a time later than @now. */
static bool polled(struct progress_client *client, uint64_t now, int64_t gap)
{
	return atomic_load(&client->polls) >= PROGRESS_POLLS_BELIEVED &&
	       (int64_t)(now - atomic_load(&client->last_poll)) < gap;
}

/* The same; if not, the next poll is a first one again. */
static bool polling(struct progress_client *client, uint64_t now)
{
	if (polled(client, now, PROGRESS_POLL_STOPPED))
		return true;
	atomic_store(&client->polls, 0);
	return false;
}

/* --- The thread: making progress ------------------------------------------------------ */

static void stop_watching(struct progress_client *client)
{
	libev()->ev_io_stop(client->progress->loop, &client->readable);
	atomic_store(&client->planned, 0);
	atomic_store(&client->app_polling, true);
}

static void resume_watching(struct progress_client *client)
{
	atomic_store(&client->app_polling, false);
	libev()->ev_io_start(client->progress->loop, &client->readable);
	client->idle_polls = 0;
	client->ready = true;
}

static bool spinning(const struct progress_client *client, uint64_t now)
{
	return now < client->spin_until && now >= client->progress->cpu_contended_until;
}

/* Plan the next progress() of a client that won't spin any more. Returns when. */
static uint64_t plan(struct progress_client *client, uint64_t now, bool done)
{
	uint64_t deadline;

	/* A thread that brings up a deadline which deadline() doesn't see yet must wake this one.
	 */
	atomic_exchange(&client->planned, TIME_NEVER);
	deadline = client->ops->deadline(client->context);
	if (!done && deadline <= now)
		deadline = now + PROGRESS_RETRY;
	plan_earlier(client, deadline);
	return deadline;
}

static void make_progress(struct progress_client *client, uint64_t now)
{
	struct progress *progress = client->progress;
	bool was_ready = client->ready, done;

	client->ready = false;
	client->running = true;
	atomic_store(&client->planned, 0);
	pthread_mutex_unlock(&progress->lock);

	done = client->ops->progress(client->context, now);
	/* A deadline alone doesn't promise more work. */
	if (done && now >= progress->cpu_contended_until && (was_ready || spinning(client, now)))
		client->spin_until = now + progress->spin;
	if (!spinning(client, now))
		plan(client, now, done);

	pthread_mutex_lock(&progress->lock);
	client->running = false;
	client->idle_polls = was_ready && !done ? client->idle_polls + 1 : 0;
	if (client->leaving)
		pthread_cond_broadcast(&progress->progress_ended);
}

/* Leave the client to its application. Returns whether it is left. */
static bool leave_alone(struct progress_client *client, uint64_t now)
{
	stop_watching(client);
	if (polling(client, now))
		return true;
	resume_watching(client); /* progress_app_sleeping() came in between */
	return false;
}

/* Do what there is to do for @client. Returns when to look at it again. */
static uint64_t serve(struct progress_client *client, uint64_t now)
{
	if (client->leaving)
		return TIME_NEVER;
	if (spinning(client, now) && polled(client, now, PROGRESS_POLL_GAP))
		return now;
	if (atomic_load(&client->app_polling)) {
		if (now < client->unwatched_until || polling(client, now))
			return now + PROGRESS_TICK;
		resume_watching(client);
	}
	if (!spinning(client, now)) {
		if (!client->ready && atomic_load(&client->planned) > now)
			return atomic_load(&client->planned);
		if (polling(client, now) && leave_alone(client, now))
			return now + PROGRESS_TICK;
	}
	make_progress(client, now);
	if (client->idle_polls >= PROGRESS_IDLE_POLLS && !client->leaving) {
		stop_watching(client);
		client->unwatched_until = now + PROGRESS_TICK;
		return client->unwatched_until;
	}
	return atomic_load(&client->planned);
}

/* A timer that fires too early costs a look; setting it costs a system call. */
static void set_timer(struct progress *progress, uint64_t time)
{
	struct itimerspec spec = {
		.it_value = {time / NS_PER_S, time % NS_PER_S + (time == 0)},
	};

	if (time >= progress->timer_time)
		return;
	progress->timer_time = time;
	if (timerfd_settime(progress->timer_fd, TFD_TIMER_ABSTIME, &spec, NULL))
		log_error("timerfd_settime: %s", strerror(errno));
}

static void free_clients(struct progress_client **list)
{
	struct progress_client *client, *next;

	DL_FOREACH_SAFE (*list, client, next) {
		close(client->epoll);
		free(client);
	}
	*list = NULL;
}

/* Serve each once. Returns when the first wants to be served again. */
static uint64_t serve_once(struct progress *progress)
{
	struct progress_client *client;
	uint64_t next = TIME_NEVER;

	DL_FOREACH (progress->clients, client) {
		uint64_t time = serve(client, clock_now());

		next = time < next ? time : next;
	}
	return next;
}

/*
 * Another thread may want the lock, or the CPU. A thread that gets the CPU of one that
 * yields keeps it for milliseconds, while a thread that sleeps gets it back as soon as
 * there is work: so when a yield took long, the clients stop spinning.
 */
static void pause_briefly(struct progress *progress, uint64_t now)
{
	uint64_t again;

	pthread_mutex_unlock(&progress->lock);
	sched_yield();
	again = clock_now();
	pthread_mutex_lock(&progress->lock);
	if (again - now > PROGRESS_YIELD_LOST)
		progress->cpu_contended_until = again + PROGRESS_CPU_CONTENDED;
}

static void serve_clients(struct ev_loop *loop, struct ev_prepare *watcher, int events)
{
	struct progress *progress = libev()->ev_userdata(loop);
	uint64_t next, now, end = clock_now() + PROGRESS_SLICE;

	free_clients(&progress->departed);
	for (;;) {
		next = serve_once(progress);
		now = clock_now();
		if (next > now || now > end || progress->stopping)
			break;
		pause_briefly(progress, now);
	}
	if (next > now)
		set_timer(progress, next);
	else
		libev()->ev_async_send(loop, &progress->wakeup); /* not to sleep, only to look */
}

static void client_readable(struct ev_loop *loop, struct ev_io *watcher, int events)
{
	struct progress_client *client = watcher->data;

	client->ready = true;
}

static void timer_fired(struct ev_loop *loop, struct ev_io *watcher, int events)
{
	struct progress *progress = libev()->ev_userdata(loop);
	uint64_t count;

	if (read(progress->timer_fd, &count, sizeof(count)) == sizeof(count))
		progress->timer_time = TIME_NEVER;
}

static void woken(struct ev_loop *loop, struct ev_async *watcher, int events)
{
	struct progress *progress = libev()->ev_userdata(loop);

	if (progress->stopping)
		libev()->ev_break(loop, EVBREAK_ALL);
}

static void loop_release(struct ev_loop *loop)
{
	struct progress *progress = libev()->ev_userdata(loop);

	pthread_mutex_unlock(&progress->lock);
}

static void loop_acquire(struct ev_loop *loop)
{
	struct progress *progress = libev()->ev_userdata(loop);

	pthread_mutex_lock(&progress->lock);
}

/* Of this thread: where there is but one, spinning would keep the application from working. */
static unsigned int usable_cpus(void)
{
	cpu_set_t set;

	return sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 2;
}

static void *thread_main(void *argument)
{
	struct progress *progress = argument;

	pthread_setname_np(pthread_self(), "urxe");
	pthread_mutex_lock(&progress->lock);
	progress->spin = usable_cpus() > 1 ? PROGRESS_SPIN : 0;
	if (!progress->stopping)
		libev()->ev_run(progress->loop, 0);
	pthread_mutex_unlock(&progress->lock);
	return NULL;
}

/*
 * Signals are the application's: its handlers must find its own threads. A fault is the
 * thread's that makes it, and would end the process if it were blocked (net/guard.h).
 */
static int start_thread(struct progress *progress)
{
	sigset_t blocked, before;
	int status;

	sigfillset(&blocked);
	sigdelset(&blocked, SIGSEGV);
	sigdelset(&blocked, SIGBUS);
	pthread_sigmask(SIG_SETMASK, &blocked, &before);
	status = pthread_create(&progress->thread, NULL, thread_main, progress);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	progress->started = status == 0;
	return status;
}

/* --- Creating and destroying ------------------------------------------------------- */

int progress_create(struct progress **result)
{
	struct progress *progress = calloc(1, sizeof(*progress));
	int status;

	if (!progress)
		return ENOMEM;
	progress->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (progress->timer_fd < 0) {
		status = errno;
		goto no_timer;
	}
	if (!libev()) {
		status = ELIBACC;
		goto no_loop;
	}
	/* The environment variable that libev reads is for the application's loops. */
	progress->loop = libev()->ev_loop_new(EVFLAG_AUTO | EVFLAG_NOENV);
	if (!progress->loop) {
		status = ENOMEM;
		goto no_loop;
	}
	pthread_mutex_init(&progress->lock, NULL);
	pthread_cond_init(&progress->progress_ended, NULL);
	progress->pid = getpid();
	progress->timer_time = TIME_NEVER;
	libev()->ev_set_userdata(progress->loop, progress);
	libev()->ev_set_loop_release_cb(progress->loop, loop_release, loop_acquire);
	ev_async_init(&progress->wakeup, woken);
	libev()->ev_async_start(progress->loop, &progress->wakeup);
	ev_prepare_init(&progress->before_sleep, serve_clients);
	libev()->ev_prepare_start(progress->loop, &progress->before_sleep);
	ev_io_init(&progress->timer, timer_fired, progress->timer_fd, EV_READ);
	libev()->ev_io_start(progress->loop, &progress->timer);
	*result = progress;
	return 0;

no_loop:
	close(progress->timer_fd);
no_timer:
	free(progress);
	return status;
}

void progress_destroy(struct progress *progress)
{
	if (forked(progress))
		return;
	if (progress->started) {
		pthread_mutex_lock(&progress->lock);
		progress->stopping = true;
		pthread_mutex_unlock(&progress->lock);
		wake(progress);
		pthread_join(progress->thread, NULL);
	}
	free_clients(&progress->departed);
	free_clients(&progress->clients);
	libev()->ev_loop_destroy(progress->loop);
	close(progress->timer_fd);
	pthread_cond_destroy(&progress->progress_ended);
	pthread_mutex_destroy(&progress->lock);
	free(progress);
}

/* --- Clients ------------------------------------------------------------------------ */

/*
 * Add the client's descriptors to its epoll. A client has one of its own because
 * libev forgets a descriptor only when it stumbles over it again, and by then the
 * client may have closed it and the number may stand for another file.
 */
static int watch_descriptors(struct progress_client *client)
{
	unsigned int i, count, max = 8;
	int *fds = NULL, *more, status = 0;

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

	for (i = 0; i < count && !status; i++) {
		struct epoll_event event = {.events = EPOLLIN};

		if (epoll_ctl(client->epoll, EPOLL_CTL_ADD, fds[i], &event) && errno != EEXIST)
			status = errno;
	}
	free(fds);
	return status;
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
	client->epoll = epoll_create1(EPOLL_CLOEXEC);
	status = client->epoll < 0 ? errno : watch_descriptors(client);
	if (status)
		goto fail;
	ev_io_init(&client->readable, client_readable, client->epoll, EV_READ);
	client->readable.data = client;

	pthread_mutex_lock(&progress->lock);
	status = progress->started ? 0 : start_thread(progress);
	if (status == 0) {
		DL_APPEND(progress->clients, client);
		resume_watching(client);
	}
	pthread_mutex_unlock(&progress->lock);
	if (status)
		goto fail;
	*result = client;
	wake(progress);
	return 0;
fail:
	if (client->epoll >= 0)
		close(client->epoll);
	free(client);
	return status;
}

void progress_detach(struct progress_client *client)
{
	struct progress *progress = client->progress;

	if (forked(progress))
		return;
	pthread_mutex_lock(&progress->lock);
	client->leaving = true;
	while (client->running)
		pthread_cond_wait(&progress->progress_ended, &progress->lock);
	stop_watching(client);
	DL_DELETE(progress->clients, client);
	DL_APPEND(progress->departed, client);
	pthread_mutex_unlock(&progress->lock);
	wake(progress);
}

/* The client's epoll wakes the thread if a new descriptor is readable already. */
void progress_refresh(struct progress_client *client)
{
	int status;

	if (forked(client->progress))
		return;
	status = watch_descriptors(client);
	if (status)
		log_error("can't watch new descriptors: %s", strerror(status));
}
