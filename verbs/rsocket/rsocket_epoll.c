/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * repoll_create() and repoll_wait(). A call looks at all rsockets of the instance, and asks the
 * kernel's epoll what the other descriptors have; it sleeps as rpoll() does, with the kernel's
 * epoll as one of its descriptors.
 */
#include "verbs/rsocket/rsocket_epoll.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <utlist.h>

#include "net/cause/cause.h"
#include "net/clock.h"
#include "net/syscalls.h"
#include "verbs/rsocket/rsocket_calls.h"
#include "verbs/rsocket/rsocket_poll.h"

/* One call. */
struct waiter {
	struct rsocket_epoll *epoll;
	struct epoll_event *events; /* the application's */
	int most;
	uint64_t version; /* of the list that it has; 0: it has none */
	nfds_t count;
	struct rsocket_interest **interests;
	struct pollfd *fds; /* of each of them, and the kernel's epoll */
	struct polling polling;
	struct rsocket_poller poller;
	bool asleep; /* @poller is in epoll->waiters */
};

/* --- the list of interests ------------------------------------------------------------------- */

static void drop_list(struct waiter *waiter)
{
	polling_end(&waiter->polling);
	waiter->polling.count = 0;
	free(waiter->interests);
	free(waiter->fds);
	waiter->interests = NULL;
	waiter->fds = NULL;
	waiter->version = 0;
}

/* With epoll->lock. 0 or ENOMEM. */
static int take_list(struct waiter *waiter)
{
	const struct rsocket_epoll *epoll = waiter->epoll;
	struct rsocket_interest *interest;
	nfds_t i = 0;

	waiter->version = epoll->version;
	waiter->count = epoll->count;
	waiter->interests = calloc(epoll->count + 1, sizeof(struct rsocket_interest *));
	waiter->fds = calloc(epoll->count + 1, sizeof(*waiter->fds));
	if (!waiter->interests || !waiter->fds)
		return refuse(ENOMEM, CAUSE_OUT_OF_MEMORY, "to poll %lu descriptors", epoll->count);
	DL_FOREACH (epoll->interests, interest) {
		waiter->fds[i].fd = interest->rs->fd;
		waiter->interests[i++] = interest;
	}
	waiter->fds[i] = (struct pollfd){.fd = epoll->fd, .events = POLLIN};
	return polling_begin(&waiter->polling, waiter->fds, i + 1);
}

/* --- what is ready, all with epoll->lock ----------------------------------------------------- */

#define READABLE (EPOLLIN | EPOLLRDNORM | EPOLLPRI | EPOLLRDHUP)
#define WRITABLE (EPOLLOUT | EPOLLWRNORM)

/*
 * Whether EPOLLET tells of what is ready: something wasn't when it told last, or more has arrived
 * since, or a call found no room since.
 */
static bool is_news(const struct rsocket_interest *interest, const struct polled *polled,
		    uint32_t ready)
{
	uint32_t known = interest->told;

	if (interest->news_in != polled->news_in)
		known &= ~READABLE;
	if (interest->news_out != polled->news_out)
		known &= ~WRITABLE;
	return ready & ~known;
}

static void note_told(struct rsocket_interest *interest, const struct polled *polled,
		      uint32_t ready)
{
	interest->spent = interest->event.events & EPOLLONESHOT;
	interest->told = ready;
	interest->news_in = polled->news_in;
	interest->news_out = polled->news_out;
}

/* What is told of an rsocket; 0: nothing. */
static uint32_t look_at(struct waiter *waiter, nfds_t index)
{
	struct rsocket_interest *interest = waiter->interests[index];
	const struct polled *polled = &waiter->polling.polled[index];
	struct pollfd *fd = &waiter->fds[index];
	uint32_t ready;

	fd->events = interest->spent ? 0 : (short)interest->event.events;
	if (!polled->rs) /* another thread is closing it */
		return 0;
	ready = (uint16_t)polling_look(&waiter->polling, index);
	if (interest->spent)
		return 0;
	if (ready && (!(interest->event.events & EPOLLET) || is_news(interest, polled, ready))) {
		note_told(interest, polled, ready);
		return ready;
	}
	interest->told &= ready;
	fd->events &= ~interest->told; /* no sleep ends for that */
	return 0;
}

/* Returns how many events there are with the @used ones. */
static int collect_rsockets(struct waiter *waiter, int used)
{
	struct rsocket_epoll *epoll = waiter->epoll;
	const nfds_t first = epoll->turn;

	for (nfds_t k = 0; k < waiter->count; k++) {
		nfds_t index = (first + k) % waiter->count;
		uint32_t ready;

		if (used == waiter->most) {
			epoll->turn = index;
			break;
		}
		ready = look_at(waiter, index);
		if (!ready)
			continue;
		waiter->events[used].events = ready;
		waiter->events[used++].data = waiter->interests[index]->event.data;
	}
	return used;
}

/* Likewise, or -1. */
static int collect_others(struct waiter *waiter, int used)
{
	int got;

	if (used == waiter->most)
		return used;
	got = sys_epoll_look(waiter->epoll->fd, waiter->events + used, waiter->most - used);
	if (got < 0)
		return used ? used : -1;
	return used + got;
}

static int collect(struct waiter *waiter)
{
	struct rsocket_epoll *epoll = waiter->epoll;
	int used = 0;

	epoll->kernel_first = !epoll->kernel_first;
	if (epoll->kernel_first)
		used = collect_others(waiter, 0);
	if (used >= 0)
		used = collect_rsockets(waiter, used);
	return epoll->kernel_first ? used : collect_others(waiter, used);
}

/* --- waiting --------------------------------------------------------------------------------- */

static int look(struct waiter *waiter)
{
	struct rsocket_epoll *epoll = waiter->epoll;
	int ready, error = 0;

	pthread_mutex_lock(&epoll->lock);
	while (waiter->version && waiter->version != epoll->version) {
		pthread_mutex_unlock(&epoll->lock);
		drop_list(waiter); /* an rsocket may end with it */
		pthread_mutex_lock(&epoll->lock);
	}
	if (epoll->closed)
		error = EBADF;
	else if (!waiter->version)
		error = take_list(waiter);
	ready = error ? rsocket_return(error) : collect(waiter);
	pthread_mutex_unlock(&epoll->lock);
	return ready;
}

/* Whether the list is what it was when it was looked at. A change of it ends the sleep. */
static bool begin_sleep(struct waiter *waiter)
{
	struct rsocket_epoll *epoll = waiter->epoll;
	const int before = errno;

	pthread_mutex_lock(&epoll->lock);
	waiter->asleep = waiter->version == epoll->version;
	if (waiter->asleep) {
		rsocket_wake_open(&waiter->polling.wake);
		waiter->poller.wake = &waiter->polling.wake;
		DL_APPEND(epoll->waiters, &waiter->poller);
	}
	pthread_mutex_unlock(&epoll->lock);
	errno = before;
	return waiter->asleep;
}

static void end_sleep(struct waiter *waiter)
{
	if (!waiter->asleep)
		return;
	pthread_mutex_lock(&waiter->epoll->lock);
	DL_DELETE(waiter->epoll->waiters, &waiter->poller);
	pthread_mutex_unlock(&waiter->epoll->lock);
	waiter->asleep = false;
}

static int wait_until(struct waiter *waiter, uint64_t deadline)
{
	uint64_t spin = clock_now() + rsocket_polling_time();
	int ready;

	for (;;) {
		ready = look(waiter);
		if (ready || clock_now() >= deadline)
			return ready;
		if (clock_now() < spin || !begin_sleep(waiter))
			continue;
		ready = polling_sleep(&waiter->polling, deadline);
		end_sleep(waiter);
		if (ready < 0)
			return -1;
	}
}

static void wait_end(void *argument)
{
	struct waiter *waiter = argument;
	const int error = errno;

	end_sleep(waiter);
	drop_list(waiter);
	rsocket_epoll_put(waiter->epoll);
	errno = error;
}

/* The kernel takes no more at a time. */
#define EVENTS_MOST ((int)(INT_MAX / sizeof(struct epoll_event)))

int urxe_repoll_wait(int epfd, struct epoll_event *events, int most, int timeout)
{
	const uint64_t deadline = timeout < 0 ? TIME_NEVER : clock_now() + timeout * NS_PER_MS;
	struct waiter waiter = {.events = events, .most = most, .polling.wake.fd = -1};
	const int before = errno;
	int ready;

	if (most <= 0 || most > EVENTS_MOST)
		return rsocket_return(EINVAL);
	waiter.epoll = rsocket_epoll_get(epfd);
	if (!waiter.epoll)
		return -1;
	errno = before;
	pthread_cleanup_push(wait_end, &waiter);
	ready = wait_until(&waiter, deadline);
	pthread_cleanup_pop(1);
	return ready;
}

int urxe_repoll_create(int flags)
{
	int fd = sys_epoll_create(flags), error;
	struct rsocket_epoll *epoll;

	if (fd < 0)
		return -1;
	rsocket_epoll_forget_closed();
	epoll = rsocket_epoll_get(fd);
	if (!epoll) {
		error = errno;
		sys_close(fd);
		return rsocket_return(error);
	}
	rsocket_epoll_put(epoll);
	return fd;
}
