/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Nothing here asserts how long something takes. What must happen is waited for
 * without limit (the runner's timeout is the limit); what must not happen is
 * made to show itself by something ordered after it.
 */
#include "net/clock.h"
#include "net/syscalls.h"
#include "net/tuning.h"
#include "tests/progress_threads.h"
#include "tests/run_suite.h"
#include "tests/sanitizers.h"
#include "verbs/poll_yield.h"
#include "verbs/progress.h"

#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define HOUR_NS (3600 * (uint64_t)1000000000)
#define FDS 20
#define POLLS 50 /* more than enough to be taken for a poller */

/* A client that only counts: its descriptors are eventfds, its rounds read them. */
struct fake {
	int fds[FDS];
	_Atomic unsigned int fd_count;
	pthread_mutex_t lock; /* as the core's try-lock */
	pthread_t owner;      /* the thread of the test */
	_Atomic uint64_t deadline;
	_Atomic uint64_t fired;		 /* when a deadline was served */
	_Atomic unsigned int background; /* rounds of the background thread */
	sem_t worked;			 /* posted when it did something */
	_Atomic bool slow;
	_Atomic bool busy;  /* does something in every round */
	_Atomic bool blind; /* polls of the test find nothing */
	_Atomic bool in_progress;
	_Atomic unsigned int in_vain; /* rounds while another thread was in one */
	_Atomic unsigned int asked;   /* how often, whether a thread is in one */
	sigset_t signals;	      /* of the background thread; these with @lock */
	cpu_set_t cpus;
};

static struct progress *progress;

/* libc's, counted: how often the calling thread has given up its CPU. */
static _Thread_local unsigned int yields;
/* And looked whether it has lost it. */
static _Thread_local unsigned int looks;
/* Another thread gets the CPU whenever this one yields; else none does, whatever else runs here. */
static _Thread_local bool cpu_is_wanted;
static _Thread_local long switches;

int sched_yield(void)
{
	yields++;
	if (cpu_is_wanted)
		switches++;
	return syscall(SYS_sched_yield);
}

int getrusage(__rusage_who_t who, struct rusage *usage)
{
	looks++;
	*usage = (struct rusage){.ru_nivcsw = switches};
	return 0;
}

static unsigned int fake_descriptors(void *context, int *fds, unsigned int max)
{
	struct fake *fake = context;
	unsigned int i;

	for (i = 0; i < fake->fd_count && i < max; i++)
		fds[i] = fake->fds[i];
	return i;
}

static bool fake_progress(void *context, uint64_t now)
{
	struct fake *fake = context;
	bool background = !pthread_equal(pthread_self(), fake->owner), done = false;
	unsigned int i;
	uint64_t value;

	if (pthread_mutex_trylock(&fake->lock)) {
		fake->in_vain += background;
		return false;
	}
	fake->in_progress = true;
	for (i = 0; i < fake->fd_count && (background || !fake->blind); i++)
		done |= read(fake->fds[i], &value, sizeof(value)) == sizeof(value);
	if (fake->deadline <= now) {
		fake->deadline = TIME_NEVER;
		fake->fired = now;
		done = true;
	}
	done |= fake->busy;
	if (fake->slow)
		usleep(20000);
	if (background) {
		fake->background++;
		pthread_sigmask(SIG_BLOCK, NULL, &fake->signals);
		sched_getaffinity(0, sizeof(fake->cpus), &fake->cpus);
	}
	fake->in_progress = false;
	pthread_mutex_unlock(&fake->lock);
	if (background && done)
		sem_post(&fake->worked);
	return done;
}

static uint64_t fake_deadline(void *context)
{
	return ((struct fake *)context)->deadline;
}

static bool fake_busy(void *context)
{
	struct fake *fake = context;

	fake->asked++;
	if (pthread_mutex_trylock(&fake->lock))
		return true;
	pthread_mutex_unlock(&fake->lock);
	return false;
}

static const struct progress_ops fake_ops = {.progress = fake_progress,
					     .deadline = fake_deadline,
					     .descriptors = fake_descriptors,
					     .busy = fake_busy};

static void fake_init(struct fake *fake, unsigned int fd_count)
{
	unsigned int i;

	memset(fake, 0, sizeof(*fake));
	fake->deadline = TIME_NEVER;
	fake->owner = pthread_self();
	fake->fd_count = fd_count;
	pthread_mutex_init(&fake->lock, NULL);
	sem_init(&fake->worked, 0, 0);
	for (i = 0; i < FDS; i++)
		fake->fds[i] = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
}

static void fake_destroy(struct fake *fake)
{
	unsigned int i;

	for (i = 0; i < FDS; i++)
		close(fake->fds[i]);
	sem_destroy(&fake->worked);
	pthread_mutex_destroy(&fake->lock);
}

static void kick(struct fake *fake, unsigned int i)
{
	uint64_t one = 1;

	ck_assert_int_eq(write(fake->fds[i], &one, sizeof(one)), sizeof(one));
}

static void wait_for_work(struct fake *fake)
{
	while (sem_wait(&fake->worked))
		ck_assert_int_eq(errno, EINTR);
}

static bool works_soon(struct fake *fake)
{
	struct timespec end;

	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_nsec += 100000000;
	end.tv_sec += end.tv_nsec / 1000000000;
	end.tv_nsec %= 1000000000;
	return sem_timedwait(&fake->worked, &end) == 0;
}

static struct progress_client *attach(struct fake *fake)
{
	struct progress_client *client;

	ck_assert_int_eq(progress_attach(progress, &fake_ops, fake, &client), 0);
	return client;
}

/* Polls that look as if they went on until @time. */
static void poll_until(struct progress_client *client, uint64_t time)
{
	unsigned int i;

	for (i = 0; i < POLLS; i++)
		progress_poll(client, time, NULL);
}

static void setup(void)
{
	ck_assert_int_eq(progress_create(&progress), 0);
}

static void teardown(void)
{
	progress_destroy(progress);
}

START_TEST(the_thread_starts_with_the_first_client)
{
	struct fake fake, other;

	fake_init(&fake, 1);
	fake_init(&other, 1);
	ck_assert_uint_eq(progress_threads_now().count, 0);
	attach(&fake);
	attach(&other);
	kick(&fake, 0);
	kick(&other, 0);
	wait_for_work(&fake);
	wait_for_work(&other);
	ck_assert_uint_eq(progress_threads_now().count, 1);
	progress_destroy(progress);
	while (progress_threads_now().count) /* what is joined may take a moment to vanish */
		sched_yield();
	ck_assert(sigismember(&fake.signals, SIGINT) && sigismember(&fake.signals, SIGUSR1) &&
		  sigismember(&fake.signals, SIGALRM) && sigismember(&fake.signals, SIGPROF));
	ck_assert(!pthread_sigmask(SIG_BLOCK, NULL, &fake.signals) &&
		  !sigismember(&fake.signals, SIGINT));
	fake_destroy(&fake);
	fake_destroy(&other);
	setup();
}
END_TEST

START_TEST(what_arrives_is_served)
{
	struct progress_client *client;
	struct fake fake;
	unsigned int i;

	fake_init(&fake, FDS); /* more than are asked for at first */
	client = attach(&fake);
	for (i = 0; i < 5 * FDS; i++) {
		kick(&fake, i % FDS);
		wait_for_work(&fake);
	}
	progress_detach(client);
	fake_destroy(&fake);
}
END_TEST

START_TEST(an_idle_client_is_left_alone)
{
	struct progress_client *client, *other_client;
	struct fake fake, other;
	unsigned int before, i;

	fake_init(&fake, 1);
	fake_init(&other, 1);
	client = attach(&fake);
	other_client = attach(&other);
	kick(&fake, 0);
	wait_for_work(&fake);
	do { /* the thread looks a little longer, and then no more */
		before = fake.background;
		for (i = 0; i < 3; i++) {
			kick(&other, 0);
			wait_for_work(&other);
		}
	} while (fake.background != before);
	usleep(20000);
	for (i = 0; i < 3; i++) {
		kick(&other, 0);
		wait_for_work(&other);
	}
	ck_assert_uint_eq(fake.background, before);
	progress_detach(client);
	progress_detach(other_client);
	fake_destroy(&fake);
	fake_destroy(&other);
}
END_TEST

/* It has work in every round, so that the thread never sleeps. */
START_TEST(a_busy_client_starves_nobody)
{
	struct progress_client *client, *other_client;
	struct fake fake, other;

	fake_init(&fake, 1);
	fake_init(&other, 1);
	client = attach(&fake);
	other_client = attach(&other);
	fake.busy = true;
	kick(&fake, 0);
	wait_for_work(&fake);
	for (unsigned int i = 0; i < 20; i++) {
		kick(&other, 0);
		wait_for_work(&other);
		other.deadline = clock_now();
		progress_deadline(other_client, other.deadline);
		wait_for_work(&other);
	}
	progress_detach(client); /* and can be detached */
	progress_detach(other_client);
	fake_destroy(&fake);
	fake_destroy(&other);
}
END_TEST

START_TEST(new_descriptors_are_watched_after_refresh)
{
	struct progress_client *client;
	struct fake fake;

	fake_init(&fake, 1);
	client = attach(&fake);
	kick(&fake, 0);
	wait_for_work(&fake);
	fake.fd_count = 2;
	progress_refresh(client);
	kick(&fake, 1);
	wait_for_work(&fake);
	kick(&fake, 0);
	wait_for_work(&fake);
	progress_detach(client);
	fake_destroy(&fake);
}
END_TEST

static sem_t has_asked, may_go_on;
static _Thread_local bool is_overtaken;

static unsigned int overtaken_descriptors(void *context, int *fds, unsigned int max)
{
	unsigned int count = fake_descriptors(context, fds, max);

	if (is_overtaken) {
		sem_post(&has_asked);
		while (sem_wait(&may_go_on))
			;
	}
	return count;
}

static void *refresh_overtaken(void *client)
{
	is_overtaken = true;
	progress_refresh(client);
	return NULL;
}

START_TEST(new_descriptors_are_watched_after_an_older_refresh)
{
	const struct progress_ops ops = {.progress = fake_progress,
					 .descriptors = overtaken_descriptors};
	struct progress_client *client;
	pthread_t thread;
	struct fake fake;

	sem_init(&has_asked, 0, 0);
	sem_init(&may_go_on, 0, 0);
	fake_init(&fake, 1);
	ck_assert_int_eq(progress_attach(progress, &ops, &fake, &client), 0);
	ck_assert_int_eq(pthread_create(&thread, NULL, refresh_overtaken, client), 0);
	while (sem_wait(&has_asked))
		;
	fake.fd_count = 2;
	progress_refresh(client);
	sem_post(&may_go_on);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	kick(&fake, 1);
	wait_for_work(&fake);
	progress_detach(client);
	fake_destroy(&fake);
	sem_destroy(&has_asked);
	sem_destroy(&may_go_on);
}
END_TEST

START_TEST(deadlines_are_kept)
{
	struct progress_client *client;
	struct fake fake;
	uint64_t deadline;
	unsigned int i;

	fake_init(&fake, 1);
	client = attach(&fake);
	for (i = 0; i < 50; i++) {
		/* Without the wake-up the first of them would come up in an hour. */
		fake.deadline = deadline = clock_now() + HOUR_NS;
		progress_deadline(client, deadline);
		fake.deadline = deadline = clock_now() + 100000 * (i % 3);
		progress_deadline(client, deadline);
		wait_for_work(&fake);
		ck_assert_uint_ge(fake.fired, deadline);
	}
	progress_detach(client);
	fake_destroy(&fake);
}
END_TEST

/* The core brings up deadlines while the thread is asking for them. */
START_TEST(no_deadline_is_missed)
{
	struct progress_client *client;
	struct fake fake;
	unsigned int i;

	fake_init(&fake, 1);
	client = attach(&fake);
	for (i = 0; i < 3000; i++) {
		kick(&fake, 0);
		if (i & 1)
			wait_for_work(&fake);
		fake.deadline = 1;
		progress_deadline(client, 1);
		while (fake.deadline != TIME_NEVER)
			sched_yield();
	}
	progress_detach(client);
	fake_destroy(&fake);
}
END_TEST

START_TEST(the_thread_stays_off_while_polled)
{
	struct progress_client *client, *other_client;
	struct fake fake, other;
	unsigned int before, i;

	fake_init(&fake, 1);
	fake_init(&other, 1);
	client = attach(&fake);
	other_client = attach(&other);
	poll_until(client, clock_now() + HOUR_NS);
	/* A round for the other that begins now ends one that began before. */
	kick(&other, 0);
	wait_for_work(&other);
	kick(&other, 0);
	wait_for_work(&other);

	before = fake.background;
	for (i = 0; i < 300; i++) {
		kick(&fake, 0);
		usleep(100); /* time for a thread that watches */
		ck_assert(progress_poll(client, clock_now() + HOUR_NS, NULL));
	}
	ck_assert_uint_eq(fake.background, before);
	progress_detach(other_client);
	fake_destroy(&other);

	/* Polling stops: what arrives now is the thread's again. */
	progress_poll(client, 0, NULL);
	kick(&fake, 0);
	wait_for_work(&fake);
	kick(&fake, 0);
	wait_for_work(&fake);
	progress_detach(client);
	fake_destroy(&fake);
}
END_TEST

/* Each look takes the CPU from threads that may need it. */
START_TEST(the_thread_looks_ever_less_while_polled)
{
	struct progress_client *client;
	unsigned long before;
	uint64_t begun, elapsed;
	struct fake fake;

	fake_init(&fake, 1);
	client = attach(&fake);
	poll_until(client, clock_now() + HOUR_NS);
	before = progress_threads_now().sleeps;
	begun = clock_now();
	do {
		usleep(10000);
		elapsed = clock_now() - begun;
	} while (elapsed < 100 * PROGRESS_TICK_MOST);
	ck_assert_uint_lt(progress_threads_now().sleeps - before,
			  PROGRESS_TICK_SHARE * PROGRESS_TICK_MOST / PROGRESS_TICK +
				  elapsed / PROGRESS_TICK_MOST * 3 / 2);
	progress_detach(client);
	fake_destroy(&fake);
}
END_TEST

/* Polls that are believed, and were long ago. */
static void poll_until_asked(struct progress_client *client, struct fake *fake, unsigned int times)
{
	unsigned int before = fake->asked;

	while (fake->asked - before < times) {
		poll_until(client, 0);
		usleep(100);
	}
}

/* As one does that sends much. The thread would only find that another one receives. */
START_TEST(the_thread_stays_off_during_a_long_poll)
{
	struct progress_client *client;
	unsigned int before;
	struct fake fake;

	fake_init(&fake, 1);
	kick(&fake, 0);
	pthread_mutex_lock(&fake.lock); /* the poll */
	client = attach(&fake);
	poll_until_asked(client, &fake, 1);
	before = fake.in_vain;
	poll_until_asked(client, &fake, 5);
	ck_assert_uint_eq(fake.in_vain, before);
	pthread_mutex_unlock(&fake.lock);
	wait_for_work(&fake);
	progress_detach(client);
	fake_destroy(&fake);
}
END_TEST

/* Around a sleep: it would have to be woken for the next one. */
START_TEST(a_single_long_poll_is_no_polling)
{
	struct progress_client *client;
	struct fake fake;

	fake_init(&fake, 1);
	pthread_mutex_lock(&fake.lock);
	client = attach(&fake);
	progress_poll(client, 0, NULL);
	kick(&fake, 0);
	while (!fake.in_vain)
		usleep(100);
	ck_assert_uint_eq(fake.asked, 0);
	pthread_mutex_unlock(&fake.lock);
	wait_for_work(&fake);
	progress_detach(client);
	fake_destroy(&fake);
}
END_TEST

/* Something arrives when polls have ended for a while; then they go on, for an hour as it seems. */
static void neglect(struct progress_client *client, struct fake *fake)
{
	poll_until(client, clock_now());
	usleep(PROGRESS_NEGLECT / 1000); /* the thread likely looks later, once a tick */
	kick(fake, 0);
	wait_for_work(fake);
	poll_until(client, clock_now() + HOUR_NS);
	usleep(1000); /* likely no longer watched */
}

/* Whether the thread takes what arrives while the application waits for it. */
static bool is_served(struct progress_client *client, struct fake *fake)
{
	kick(fake, 0);
	progress_app_waits(client);
	return works_soon(fake);
}

/* The application polls, then waits for its memory to change. */
START_TEST(an_application_that_waits_is_served)
{
	struct progress_client *client;
	struct fake fake;

	fake_init(&fake, 1);
	client = attach(&fake);
	fake.blind = true;
	do
		neglect(client, &fake);
	while (!is_served(client, &fake));
	progress_detach(client);
	fake_destroy(&fake);
}
END_TEST

/* When it last worked. */
static cpu_set_t cpus_of_the_thread(struct fake *fake)
{
	cpu_set_t cpus;

	pthread_mutex_lock(&fake->lock);
	cpus = fake->cpus;
	pthread_mutex_unlock(&fake->lock);
	return cpus;
}

static void stay_on(int cpu)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	ck_assert_int_eq(sched_setaffinity(0, sizeof(one), &one), 0);
}

/* Where packets wake the thread on a CPU that another one spins on, it doesn't get that soon. */
START_TEST(the_thread_keeps_off_the_cpu_of_an_application_that_waits)
{
	struct progress_client *client;
	int cpu = sched_getcpu();
	struct fake fake;
	cpu_set_t all, now;

	sched_getaffinity(0, sizeof(all), &all);
	fake_init(&fake, 1);
	client = attach(&fake);
	stay_on(cpu);
	fake.blind = true;
	do {
		neglect(client, &fake);
		is_served(client, &fake);
		is_served(client, &fake); /* having slept since it knew */
		now = cpus_of_the_thread(&fake);
	} while (CPU_COUNT(&all) > 1 && CPU_ISSET(cpu, &now));
	do { /* until that is forgotten */
		progress_app_sleeping(client);
		kick(&fake, 0);
		wait_for_work(&fake);
		now = cpus_of_the_thread(&fake);
	} while (!CPU_EQUAL(&now, &all));
	progress_detach(client);
	fake_destroy(&fake);
}
END_TEST

/* It takes all that arrives itself: the thread would only be in its way. */
START_TEST(an_application_that_polls_for_all_is_left_alone)
{
	struct progress_client *client;
	struct fake fake;

	fake_init(&fake, 1);
	client = attach(&fake);
	poll_until(client, clock_now() + HOUR_NS);
	while (is_served(client, &fake)) /* by the thread that was still watching */
		poll_until(client, clock_now() + HOUR_NS);
	for (unsigned int i = 0; i < 3; i++)
		ck_assert(!is_served(client, &fake));
	progress_detach(client);
	fake_destroy(&fake);
}
END_TEST

/* Whether the thread takes what arrives now. */
static bool is_taken(struct fake *fake)
{
	kick(fake, 0);
	return works_soon(fake);
}

static void poll_half(struct progress_client *client, uint64_t time)
{
	for (unsigned int i = 0; i < PROGRESS_POLLS_BELIEVED / 2; i++)
		progress_poll(client, time, NULL);
}

/* It is served between its polls, and yet is believed to poll. */
START_TEST(polls_before_and_after_a_long_call_add_up)
{
	struct progress_client *client;
	struct fake fake;

	fake_init(&fake, 1);
	fake.blind = true;
	client = attach(&fake);
	do {
		usleep(10 * PROGRESS_SPIN / 1000); /* the thread doesn't spin any more */
		poll_half(client, clock_now() - PROGRESS_POLL_STOPPED);
		kick(&fake, 0);
		wait_for_work(&fake);
		poll_half(client, clock_now() + HOUR_NS);
	} while (is_taken(&fake)); /* where it was late, and forgot them */
	progress_detach(client);
	fake_destroy(&fake);
}
END_TEST

START_TEST(deadlines_are_kept_after_polling)
{
	struct progress_client *client;
	struct fake fake;

	fake_init(&fake, 1);
	client = attach(&fake);
	kick(&fake, 0);
	wait_for_work(&fake);
	poll_until(client, clock_now() + HOUR_NS);
	kick(&fake, 0);
	usleep(1000); /* likely no longer watched */
	fake.deadline = clock_now() + 2 * HOUR_NS;
	progress_deadline(client, fake.deadline);
	progress_poll(client, 0, NULL);
	fake.deadline = clock_now();
	progress_deadline(client, fake.deadline);
	wait_for_work(&fake);
	progress_detach(client);
	fake_destroy(&fake);
}
END_TEST

START_TEST(app_sleeping_ends_polling)
{
	struct progress_client *client;
	unsigned int i;
	struct fake fake;

	fake_init(&fake, 1);
	client = attach(&fake);
	for (i = 0; i < 100; i++) {
		/* Believed for an hour, were it not for progress_app_sleeping(). */
		poll_until(client, clock_now() + HOUR_NS);
		kick(&fake, 0);
		if (i & 1)
			usleep(200);
		progress_app_sleeping(client);
		progress_poll(client, clock_now() + HOUR_NS, NULL);
		while (sem_trywait(&fake.worked) == 0)
			;
		kick(&fake, 0);
		wait_for_work(&fake);
	}
	progress_detach(client);
	fake_destroy(&fake);
}
END_TEST

/* Its own ones, by their numbers: those between two that the test opens. */
START_TEST(the_thread_survives_the_loss_of_its_descriptors)
{
	char path[] = "/tmp/urxe-progress-XXXXXX";
	struct progress_client *client;
	struct fake fake, other;
	int first, last, file;

	teardown();
	fake_init(&fake, 1);
	first = dup(0);
	setup();
	last = dup(0);
	file = mkstemp(path);
	ck_assert(first > 0 && last > first + 1 && file >= 0);
	client = attach(&fake);
	kick(&fake, 0);
	wait_for_work(&fake);
	for (int fd = first + 1; fd < last; fd++)
		ck_assert_int_eq(dup2(file, fd), fd);
	fake_init(&other, 1);
	attach(&other);
	for (int i = 0; i < 20; i++) {
		fake.deadline = clock_now();
		progress_deadline(client, fake.deadline);
		wait_for_work(&fake);
		kick(&other, 0);
		wait_for_work(&other);
	}
	teardown();
	/* Nothing was written to the application's file, and its descriptors are open. */
	ck_assert_int_eq(lseek(file, 0, SEEK_END), 0);
	for (int fd = first + 1; fd < last; fd++)
		ck_assert_int_eq(close(fd), 0);
	unlink(path);
	fake_destroy(&fake);
	fake_destroy(&other);
	setup();
}
END_TEST

START_TEST(an_occasional_poll_is_no_polling)
{
	struct progress_client *client;
	unsigned int i;
	struct fake fake;

	fake_init(&fake, 1);
	client = attach(&fake);
	progress_poll(client, clock_now() + HOUR_NS, NULL);
	progress_poll(client, clock_now() + HOUR_NS, NULL);
	for (i = 0; i < 10; i++) {
		kick(&fake, 0);
		wait_for_work(&fake);
	}
	progress_detach(client);
	fake_destroy(&fake);
}
END_TEST

static bool nothing(void *context, uint64_t now)
{
	return false;
}

static bool something(void *context, uint64_t now)
{
	return true;
}

static uint64_t never(void *context)
{
	return TIME_NEVER;
}

static unsigned int no_descriptors(void *context, int *fds, unsigned int max)
{
	return 0;
}

/* What a thread that hasn't polled before is to do, and what came of it. */
struct polls {
	bool (*found)(void *, uint64_t);
	uint64_t apart, length;
	unsigned int yields;
};

/* Polls so far apart until one is later than @length. */
static void *poll_for(void *argument)
{
	struct polls *polls = argument;
	const struct progress_ops ops = {polls->found, never, no_descriptors};
	struct progress_client *client;
	uint64_t begin;

	ck_assert_int_eq(progress_attach(progress, &ops, NULL, &client), 0);
	begin = clock_now();
	for (uint64_t time = 0; time <= polls->length; time += polls->apart)
		ck_assert_int_eq(progress_poll(client, begin + time, NULL),
				 polls->found == something);
	progress_detach(client);
	polls->yields = yields;
	return NULL;
}

static unsigned int yields_of_polls(bool (*found)(void *, uint64_t), uint64_t apart,
				    uint64_t length)
{
	struct polls polls = {found, apart, length};
	pthread_t thread;

	ck_assert_int_eq(pthread_create(&thread, NULL, poll_for, &polls), 0);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	return polls.yields;
}

/* The times are the test's, so it doesn't matter how long it takes. */
START_TEST(polls_in_vain_yield)
{
	const uint64_t close = PROGRESS_POLL_GAP / 10, apart = PROGRESS_POLL_GAP / 3;
	const uint64_t late = POLL_YIELD_AFTER + close, few = POLL_YIELD_POLLS * apart;

	ck_assert_uint_eq(yields_of_polls(nothing, close, POLL_YIELD_AFTER), 0);
	ck_assert_uint_eq(yields_of_polls(nothing, close, late), 1);
	/* A slow machine's aren't as many in that time. */
	ck_assert_uint_eq(yields_of_polls(nothing, apart, few), 0);
	ck_assert_uint_eq(yields_of_polls(nothing, apart, few + apart), 1);
	/* Those that find something don't, nor do those that an application's work is between. */
	ck_assert_uint_eq(yields_of_polls(something, apart, 10 * late), 0);
	ck_assert_uint_eq(yields_of_polls(nothing, 2 * PROGRESS_POLL_GAP, 10 * late), 0);
}
END_TEST

/* Returns how long after it has returned from one yield this thread yields again, by its polls. */
static uint64_t poll_until_yield(struct progress_client *client)
{
	unsigned int before = yields;
	uint64_t begin = clock_now(), last;

	do {
		last = clock_now();
		progress_poll(client, last, NULL);
	} while (yields == before);
	return last - begin;
}

START_TEST(a_cpu_that_is_wanted_is_yielded_soon)
{
	const struct progress_ops ops = {nothing, never, no_descriptors};
	struct progress_client *client;

	ck_assert_int_eq(progress_attach(progress, &ops, NULL, &client), 0);
	cpu_is_wanted = true;
	/* It takes longer when this thread is kept from polling. */
	do
		poll_until_yield(client);
	while (poll_until_yield(client) >= POLL_YIELD_AFTER);
	cpu_is_wanted = false;
	progress_detach(client);
}
END_TEST

/* A queue that threads poll in vain, while another polls on a CPU that nothing else wants. */
struct awaited {
	struct progress_client *client;
	_Atomic uint32_t count, sleepers;
	_Atomic uint32_t filled_for; /* as many sleepers */
	bool stream; /* the one that polls on finds something in each poll, and so never yields */
	_Atomic bool kept, slept, stop;
};

static _Thread_local bool receives;

static bool what_comes(void *context, uint64_t now)
{
	return receives;
}

/* Polls until it is told to stop; has found something for the other threads when these sleep. */
static void *keep_polling(void *argument)
{
	struct awaited *queue = argument;
	unsigned int before = looks;

	receives = queue->stream;
	while (!queue->stop) {
		progress_poll(queue->client, clock_now(), NULL);
		queue->kept = looks > before;
		if (queue->sleepers < queue->filled_for || queue->count)
			continue;
		queue->slept = true;
		queue->count = 1;
		sys_futex_wake(&queue->count);
	}
	return NULL;
}

/* Polls @queue, and in turn with it an empty one if there are two @queues, until something comes.
 */
static void poll_queues(struct awaited *queue, unsigned int queues)
{
	const uint64_t until = clock_now() + 100 * POLL_SLEEP_MOST;
	_Atomic uint32_t empty = 0, sleepers = 0;
	const struct poll_queue polled[] = {{&queue->count, &queue->sleepers}, {&empty, &sleepers}};

	for (unsigned int i = 0; !queue->count && (queues == 1 || clock_now() < until); i++)
		progress_poll(queue->client, clock_now(), &polled[i % queues]);
}

static void *poll_one_queue(void *argument)
{
	cpu_is_wanted = true;
	poll_queues(argument, 1);
	return NULL;
}

/*
 * However little the threads get of the CPU, those whose CPU is wanted sleep at last, all at the
 * same time; one that polls two queues never does.
 */
START_TEST(threads_whose_cpu_is_wanted_sleep_while_another_polls)
{
	const struct progress_ops ops = {what_comes, never, no_descriptors};
	struct awaited queue = {.filled_for = 1, .stream = _i};
	pthread_t keeper, second;

	ck_assert_int_eq(progress_attach(progress, &ops, NULL, &queue.client), 0);
	ck_assert_int_eq(pthread_create(&keeper, NULL, keep_polling, &queue), 0);
	while (!queue.kept)
		sched_yield();
	cpu_is_wanted = true;
	poll_queues(&queue, 2);
	ck_assert(!queue.slept);
	poll_queues(&queue, 1);
	ck_assert(queue.slept);

	queue.filled_for = 2;
	queue.count = 0;
	ck_assert_int_eq(pthread_create(&second, NULL, poll_one_queue, &queue), 0);
	poll_queues(&queue, 1);
	ck_assert_int_eq(pthread_join(second, NULL), 0);
	ck_assert_uint_eq(queue.sleepers, 0);
	cpu_is_wanted = false;
	queue.stop = true;
	ck_assert_int_eq(pthread_join(keeper, NULL), 0);
	progress_detach(queue.client);
}
END_TEST

START_TEST(detach_waits_for_progress_and_ends_it)
{
	struct progress_client *client, *other_client;
	struct fake fake, other;
	unsigned int i, before;

	fake_init(&fake, 1);
	fake_init(&other, 1);
	other_client = attach(&other);
	for (i = 0; i < 5; i++) {
		client = attach(&fake);
		fake.slow = true;
		while (!fake.in_progress) {
			kick(&fake, 0);
			sched_yield();
		}
		progress_detach(client);
		ck_assert(!fake.in_progress);
		before = fake.background;
		kick(&fake, 0);
		kick(&other, 0);
		wait_for_work(&other);
		kick(&other, 0);
		wait_for_work(&other);
		ck_assert_uint_eq(fake.background, before);
		fake.slow = false;
	}
	progress_detach(other_client);
	fake_destroy(&fake);
	fake_destroy(&other);
}
END_TEST

static void *come_and_go(void *argument)
{
	struct progress_client *client;
	struct fake fake;
	unsigned int i;

	for (i = 0; i < 100; i++) {
		fake_init(&fake, 2);
		client = attach(&fake);
		kick(&fake, 0);
		wait_for_work(&fake);
		progress_refresh(client);
		fake.deadline = clock_now();
		progress_deadline(client, fake.deadline);
		wait_for_work(&fake);
		poll_until(client, clock_now());
		kick(&fake, 1);
		progress_app_sleeping(client);
		progress_detach(client);
		fake_destroy(&fake); /* its descriptors' numbers are used again for other files */
	}
	return NULL;
}

START_TEST(clients_come_and_go_in_many_threads)
{
	pthread_t threads[4];
	unsigned int i;

	for (i = 0; i < 4; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, come_and_go, NULL), 0);
	for (i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
}
END_TEST

/* In the child of a fork: every call must come back. Returns the exit status. */
static int child_uses(struct progress_client *client, struct fake *fake)
{
	struct progress_client *another;

	alarm(60);
	progress_after_fork_child(progress);
	progress_deadline(client, 1);
	progress_app_sleeping(client);
	poll_until(client, clock_now());
	progress_refresh(client);
	progress_detach(client);
	if (progress_attach(progress, &fake_ops, fake, &another) != ESTALE)
		return 1;
	progress_destroy(progress);
	return 0;
}

START_TEST(a_fork_leaves_the_parent_untouched)
{
	struct progress_client *client;
	struct fake fake;
	unsigned int i;
	int status;
	pid_t pid;

	fake_init(&fake, 1);
	client = attach(&fake);
	for (i = 0; i < 30; i++) {
		kick(&fake, 0); /* so that the thread is in the middle of something */
		pid = fork();
		ck_assert_int_ge(pid, 0);
		if (pid == 0) {
			fake.fd_count = 0; /* shared with the parent */
			_exit(child_uses(client, &fake));
		}
		ck_assert_int_eq(waitpid(pid, &status, 0), pid);
		ck_assert_int_eq(status, 0);
		wait_for_work(&fake);
	}
	progress_detach(client);
	fake_destroy(&fake);
}
END_TEST

START_TEST(a_child_makes_its_own)
{
	struct progress_client *client;
	struct fake fake;
	int status;
	pid_t pid;

	fake_init(&fake, 1);
	client = attach(&fake);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		alarm(60);
		fake_init(&fake, 1);
		setup();
		client = attach(&fake);
		kick(&fake, 0);
		wait_for_work(&fake);
		progress_detach(client);
		progress_destroy(progress);
		_exit(0);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	kick(&fake, 0);
	wait_for_work(&fake);
	progress_detach(client);
	fake_destroy(&fake);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("progress");
	TCase *tests = tcase_create("progress");

	tcase_set_timeout(tests, 60);
	tcase_add_checked_fixture(tests, setup, teardown);
	tcase_add_test(tests, the_thread_starts_with_the_first_client);
	tcase_add_test(tests, what_arrives_is_served);
	tcase_add_test(tests, an_idle_client_is_left_alone);
	tcase_add_test(tests, a_busy_client_starves_nobody);
	tcase_add_test(tests, new_descriptors_are_watched_after_refresh);
	tcase_add_test(tests, new_descriptors_are_watched_after_an_older_refresh);
	tcase_add_test(tests, deadlines_are_kept);
	tcase_add_test(tests, no_deadline_is_missed);
	tcase_add_test(tests, the_thread_stays_off_while_polled);
	tcase_add_test(tests, the_thread_looks_ever_less_while_polled);
	tcase_add_test(tests, the_thread_stays_off_during_a_long_poll);
	tcase_add_test(tests, a_single_long_poll_is_no_polling);
	tcase_add_test(tests, an_application_that_waits_is_served);
	tcase_add_test(tests, the_thread_keeps_off_the_cpu_of_an_application_that_waits);
	tcase_add_test(tests, an_application_that_polls_for_all_is_left_alone);
	tcase_add_test(tests, polls_before_and_after_a_long_call_add_up);
	tcase_add_test(tests, deadlines_are_kept_after_polling);
	tcase_add_test(tests, app_sleeping_ends_polling);
	tcase_add_test(tests, an_occasional_poll_is_no_polling);
	tcase_add_test(tests, the_thread_survives_the_loss_of_its_descriptors);
	tcase_add_test(tests, polls_in_vain_yield);
	tcase_add_test(tests, a_cpu_that_is_wanted_is_yielded_soon);
	tcase_add_loop_test(tests, threads_whose_cpu_is_wanted_sleep_while_another_polls, 0, 2);
	tcase_add_test(tests, detach_waits_for_progress_and_ends_it);
	tcase_add_test(tests, clients_come_and_go_in_many_threads);
	tcase_add_test(tests, a_fork_leaves_the_parent_untouched);
	if (CHILD_ALLOCATES)
		tcase_add_test(tests, a_child_makes_its_own);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
