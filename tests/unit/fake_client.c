/* SPDX-License-Identifier: BSD-2-Clause */
#include "fake_client.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "net/link.h"

#define POLLS 50

struct progress *progress;

/* No thread finds that its CPU is wanted, whatever else runs here (verbs/poll_yield.h). */
int getrusage(__rusage_who_t who, struct rusage *usage)
{
	*usage = (struct rusage){};
	return 0;
}

unsigned int fake_descriptors(void *context, int *fds, unsigned int max)
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

const struct progress_ops fake_ops = {.progress = fake_progress,
				      .deadline = fake_deadline,
				      .descriptors = fake_descriptors,
				      .busy = fake_busy};

void fake_init(struct fake *fake, unsigned int fd_count)
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

void fake_destroy(struct fake *fake)
{
	unsigned int i;

	for (i = 0; i < FDS; i++)
		close(fake->fds[i]);
	sem_destroy(&fake->worked);
	pthread_mutex_destroy(&fake->lock);
}

void kick(struct fake *fake, unsigned int i)
{
	uint64_t one = 1;

	ck_assert_int_eq(write(fake->fds[i], &one, sizeof(one)), sizeof(one));
}

void wait_for_work(struct fake *fake)
{
	while (sem_wait(&fake->worked))
		ck_assert_int_eq(errno, EINTR);
}

bool works_soon(struct fake *fake)
{
	struct timespec end;

	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_nsec += 100000000;
	end.tv_sec += end.tv_nsec / 1000000000;
	end.tv_nsec %= 1000000000;
	return sem_timedwait(&fake->worked, &end) == 0;
}

struct progress_client *attach(struct fake *fake)
{
	struct progress_client *client;

	ck_assert_int_eq(progress_attach(progress, &fake_ops, fake, &client), 0);
	return client;
}

/* Polls that look as if they went on until @time. */
void poll_until(struct progress_client *client, uint64_t time)
{
	unsigned int i;

	for (i = 0; i < POLLS; i++)
		progress_poll(client, time, NULL);
}

void end_round(struct fake *fake)
{
	for (unsigned int i = 0; i < 2; i++) {
		kick(fake, 0);
		wait_for_work(fake);
	}
}

void setup(void)
{
	ck_assert_int_eq(progress_create(&progress), 0);
}

void teardown(void)
{
	progress_destroy(progress);
}
