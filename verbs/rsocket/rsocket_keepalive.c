/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * SO_KEEPALIVE: a message without data now and then, so that a peer that is gone is noticed by the
 * retries of the queue pair. One thread for all rsockets that ask for it, as long as there are any.
 *
 * keepalive.lock protects the list, when each is due and how often; rs->lock may be held when it is
 * taken.
 */
#include <time.h>
#include <utlist.h>

#include "net/clock.h"
#include "verbs/rsocket/rsocket.h"
#include "verbs/thread.h"

static struct {
	pthread_mutex_t lock;
	struct rsocket *sockets; /* utlist */
	bool running;
} keepalive = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* With keepalive.lock. One that is due, for which the next time is set, referenced; or NULL. */
static struct rsocket *next_due(uint64_t now)
{
	struct rsocket *rs;

	DL_FOREACH (keepalive.sockets, rs) {
		if (rs->keepalive_at > now)
			continue;
		rs->keepalive_at = now + rs->keepalive_interval;
		rs->users++;
		return rs;
	}
	return NULL;
}

static void send_keepalive(struct rsocket *rs)
{
	pthread_mutex_lock(&rs->lock);
	rsocket_progress(rs);
	if (rs->state == RSOCKET_CONNECTED)
		rsocket_post_message(rs, rsocket_message(RSOCKET_CONTROL, RSOCKET_KEEPALIVE), 0,
				     NULL, 0);
	pthread_mutex_unlock(&rs->lock);
}

static void *keepalive_main(void *unused)
{
	const struct timespec second = {.tv_sec = 1};
	struct rsocket *rs;

	pthread_mutex_lock(&keepalive.lock);
	while (keepalive.sockets) {
		rs = next_due(clock_now());
		pthread_mutex_unlock(&keepalive.lock);
		if (rs) {
			send_keepalive(rs);
			rsocket_put(rs);
		} else {
			nanosleep(&second, NULL);
		}
		pthread_mutex_lock(&keepalive.lock);
	}
	keepalive.running = false;
	pthread_mutex_unlock(&keepalive.lock);
	return NULL;
}

/* With keepalive.lock. */
static void start_thread(void)
{
	if (!keepalive.running)
		keepalive.running = thread_start(NULL, keepalive_main, NULL) == 0;
}

void rsocket_keepalive_start(struct rsocket *rs)
{
	if (rs->closed) /* it would stay in the list when it is freed */
		return;
	pthread_mutex_lock(&keepalive.lock);
	if (!rs->keepalive_at) {
		DL_APPEND(keepalive.sockets, rs);
		start_thread();
	}
	rs->keepalive_interval = (uint64_t)rs->options.keepalive_time * NS_PER_S;
	rs->keepalive_at = clock_now() + rs->keepalive_interval;
	pthread_mutex_unlock(&keepalive.lock);
}

void rsocket_keepalive_stop(struct rsocket *rs)
{
	pthread_mutex_lock(&keepalive.lock);
	if (rs->keepalive_at)
		DL_DELETE(keepalive.sockets, rs);
	rs->keepalive_at = 0;
	pthread_mutex_unlock(&keepalive.lock);
}

void rsocket_keepalive_before_fork(void)
{
	pthread_mutex_lock(&keepalive.lock);
}

void rsocket_keepalive_after_fork(bool child)
{
	if (child) {
		keepalive.sockets = NULL;
		keepalive.running = false;
	}
	pthread_mutex_unlock(&keepalive.lock);
}
