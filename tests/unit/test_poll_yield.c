/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Polling threads that give up their CPU (verbs/poll_yield.h). The times are the test's, or nothing
 * depends on how long something takes.
 */
#include "net/clock.h"
#include "net/link.h"
#include "net/spin.h"
#include "net/syscalls.h"
#include "net/tuning.h"
#include "tests/run_suite.h"
#include "verbs/poll_yield.h"
#include "verbs/progress.h"

#include <check.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

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

static void setup(void)
{
	ck_assert_int_eq(progress_create(&progress), 0);
}

static void teardown(void)
{
	progress_destroy(progress);
}

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
	pthread_spinlock_t lock;
	_Atomic uint32_t count;
	uint32_t sleepers;
	struct poll_turns turns;
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
		spin_lock(&queue->lock);
		if (queue->sleepers >= queue->filled_for && !queue->count) {
			queue->slept = true;
			queue->count = 1;
			sys_futex_wake(&queue->count);
		}
		pthread_spin_unlock(&queue->lock);
	}
	return NULL;
}

/*
 * Polls @queue, and in turn with it an empty one if there are two @queues, until something comes.
 */
static void poll_queues(struct awaited *queue, unsigned int queues)
{
	const uint64_t until = clock_now() + 100 * POLL_SLEEP_MOST;
	_Atomic uint32_t empty = 0;
	uint32_t sleepers = 0;
	struct poll_turns turns = {};
	const struct poll_queue polled[] = {
		{&queue->count, &queue->sleepers, &queue->lock, &queue->turns},
		{&empty, &sleepers, &queue->lock, &turns}};

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

	spin_init(&queue.lock);
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

/* What a thread polls for as long as it takes to yield, and whether it did. */
struct turn {
	struct progress_client *client;
	struct poll_queue queue;
	uint64_t later; /* than now */
	bool yielded;
};

/* Amid this thread's next poll another one has a turn. */
static _Thread_local bool wants_another;

static void *take_turn(void *argument)
{
	const uint64_t close = PROGRESS_POLL_GAP / 10;
	struct turn *turn = argument;
	/* After a yield that took long the next one comes late. */
	uint64_t begin = clock_now() + 2 * PROGRESS_CPU_CONTENDED + turn->later;
	unsigned int before = yields;

	for (uint64_t time = 0; time <= POLL_YIELD_AFTER + close; time += close)
		progress_poll(turn->client, begin + time, &turn->queue);
	turn->yielded = yields > before;
	return NULL;
}

/* By this thread, or @another. */
static bool turn_yields(struct turn *turn, bool another)
{
	pthread_t thread;

	if (another) {
		ck_assert_int_eq(pthread_create(&thread, NULL, take_turn, turn), 0);
		ck_assert_int_eq(pthread_join(thread, NULL), 0);
	} else {
		take_turn(turn);
	}
	return turn->yielded;
}

static bool beside(void *context, uint64_t now)
{
	if (wants_another) {
		wants_another = false;
		turn_yields(context, true);
	}
	return false;
}

START_TEST(threads_that_take_turns_keep_the_cpu)
{
	const struct progress_ops ops = {beside, never, no_descriptors};
	struct awaited queue = {};
	struct turn turn = {
		.queue = {&queue.count, &queue.sleepers, &queue.lock, &queue.turns},
	};
	unsigned int i;

	spin_init(&queue.lock);
	ck_assert_int_eq(progress_attach(progress, &ops, &turn, &turn.client), 0);
	for (i = 0; i < 3 * POLL_TURNS; i++)
		ck_assert_int_eq(turn_yields(&turn, i % 2), i < POLL_TURNS);
	/* The one that had the last turn goes on alone. */
	turn.later = POLL_TURNS_FOR;
	ck_assert(turn_yields(&turn, (i - 1) % 2));
	turn.later = 0;
	for (i = 0; i < 2 * POLL_TURNS; i++)
		turn_yields(&turn, i % 2);
	ck_assert(!turn_yields(&turn, i % 2));
	/* Two that poll at once have no lock. */
	wants_another = true;
	turn_yields(&turn, false);
	ck_assert(turn_yields(&turn, false));
	ck_assert_uint_eq(queue.turns.polling, 0);
	progress_detach(turn.client);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("poll_yield");
	TCase *tests = tcase_create("poll_yield");

	tcase_set_timeout(tests, 60);
	tcase_add_checked_fixture(tests, setup, teardown);
	tcase_add_test(tests, polls_in_vain_yield);
	tcase_add_test(tests, a_cpu_that_is_wanted_is_yielded_soon);
	tcase_add_loop_test(tests, threads_whose_cpu_is_wanted_sleep_while_another_polls, 0, 2);
	tcase_add_test(tests, threads_that_take_turns_keep_the_cpu);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
