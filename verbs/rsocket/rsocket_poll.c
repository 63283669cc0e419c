/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rpoll() and rselect(), on rsockets, other descriptors or both. A call polls for a moment, for a
 * wake-up costs more than most waits; then it sleeps on all descriptors that the rsockets have, on
 * the others, and on an eventfd by which threads that take an rsocket's completions wake it.
 */
#include "verbs/rsocket/rsocket_poll.h"

#include <errno.h>
#include <stdlib.h>
#include <utlist.h>

#include "net/cause/cause.h"
#include "net/clock.h"
#include "net/syscalls.h"
#include "verbs/rsocket/rsocket_calls.h"
#include "verbs/rsocket/rsocket_datagram.h"

/* With rs->lock. */
static short stream_events(struct rsocket *rs, short events)
{
	short ready = 0;

	switch (rs->state) {
	case RSOCKET_CONNECTED:
	case RSOCKET_DISCONNECTED:
		if (rsocket_can_receive(rs) || !rs->receives)
			ready |= POLLIN | POLLRDNORM;
		if (!rs->sends || rsocket_can_send(rs))
			ready |= POLLOUT | POLLWRNORM;
		if (!rs->receives)
			ready |= POLLRDHUP;
		ready &= events;
		/* Not before all was read: programs stop reading at POLLHUP. */
		if (rs->state == RSOCKET_DISCONNECTED && !rsocket_can_receive(rs))
			ready |= POLLHUP;
		if (rs->error)
			ready |= POLLERR;
		return ready;
	case RSOCKET_FAILED:
		return (events & (POLLIN | POLLOUT)) | POLLERR | POLLHUP;
	case RSOCKET_NEW:
	case RSOCKET_BOUND:
		return (events & POLLOUT) | POLLHUP; /* as TCP has it */
	default:
		return 0;
	}
}

/* Whether a request waits can only be asked of the channel. */
static short listener_events(const struct rsocket *rs, short events)
{
	struct pollfd fd = {.fd = rs->channel->fd, .events = POLLIN};

	if (!(events & (POLLIN | POLLRDNORM)) || sys_poll_look(&fd, 1) <= 0)
		return 0;
	return events & (POLLIN | POLLRDNORM);
}

short polling_look(struct polling *polling, nfds_t index)
{
	struct polled *polled = &polling->polled[index];
	const short events = polling->fds[index].events;
	struct rsocket *rs = polled->rs;
	short ready;

	pthread_mutex_lock(&rs->lock);
	if (rs->state == RSOCKET_LISTENING) {
		ready = rs->closed ? POLLNVAL : listener_events(rs, events);
	} else {
		rsocket_progress(rs);
		ready = rs->datagram ? rsocket_datagram_events(rs, events)
				     : stream_events(rs, events);
	}
	polled->seen = rs->changes;
	polled->news_in = rs->news_in;
	polled->news_out = rs->news_out;
	pthread_mutex_unlock(&rs->lock);
	return ready;
}

/*
 * A child finds its parent's closed. What was asked for is said as well, since select() of
 * librspreload looks for nothing else: the call that follows fails.
 */
static short inherited_events(short events)
{
	return POLLNVAL | (events & (POLLIN | POLLRDNORM | POLLOUT | POLLWRNORM));
}

/* What is ready of all; the others' by one call. Returns how many, or -1. */
static int look(struct polling *polling)
{
	nfds_t others = 0;
	int ready = 0, got;

	for (nfds_t i = 0; i < polling->count; i++) {
		struct pollfd *fd = &polling->fds[i];

		fd->revents = 0;
		if (polling->polled[i].rs) {
			fd->revents = polling_look(polling, i);
			ready += fd->revents != 0;
		} else if (polling->polled[i].inherited) {
			fd->revents = inherited_events(fd->events);
			ready++;
		} else if (fd->fd >= 0) {
			polling->owner[others] = i;
			polling->sleep[others++] =
				(struct pollfd){.fd = fd->fd, .events = fd->events};
		}
	}
	if (!others)
		return ready;
	got = sys_poll_look(polling->sleep, others);
	if (got < 0)
		return -1;
	for (nfds_t i = 0; i < others; i++)
		polling->fds[polling->owner[i]].revents = polling->sleep[i].revents;
	return ready + got;
}

/* --- sleeping -------------------------------------------------------------------------------- */

/*
 * Whether @rs is slept on for @events. A listener's channel stays readable as long as a request
 * waits, which is for those alone that ask for it.
 */
static bool is_slept_on(const struct rsocket *rs, short events)
{
	return rs->state != RSOCKET_LISTENING || events & (POLLIN | POLLRDNORM);
}

/*
 * Whether nothing happened while the application's descriptor @index was made to wake us. What is
 * to be slept on for it is added to the @used ones of polling->sleep.
 */
static bool begin_sleep(struct polling *polling, nfds_t index, nfds_t *used)
{
	struct polled *polled = &polling->polled[index];
	struct rsocket *rs = polled->rs;
	bool quiet;

	if (!rs) {
		polling->sleep[(*used)++] = polling->fds[index];
		return true;
	}
	pthread_mutex_lock(&rs->lock);
	polled->poller.wake = &polling->wake;
	DL_APPEND(rs->pollers, &polled->poller);
	polled->leads = !rs->waited_for && is_slept_on(rs, polling->fds[index].events);
	quiet = rs->changes == polled->seen;
	if (polled->leads) {
		rs->waited_for = true;
		quiet &= rsocket_arm(rs);
		polled->first = *used;
		polled->descriptors = rsocket_descriptors(rs, &polling->sleep[*used]);
		*used += polled->descriptors;
	}
	pthread_mutex_unlock(&rs->lock);
	return quiet;
}

/* Whether there is something to take. */
static bool is_signalled(const struct polling *polling, const struct polled *polled)
{
	for (nfds_t i = 0; i < polled->descriptors; i++) {
		if (polling->sleep[polled->first + i].revents)
			return true;
	}
	return false;
}

static void end_sleep(struct polling *polling, nfds_t index, bool silent)
{
	struct polled *polled = &polling->polled[index];
	struct rsocket *rs = polled->rs;

	if (!rs)
		return;
	pthread_mutex_lock(&rs->lock);
	DL_DELETE(rs->pollers, &polled->poller);
	if (polled->leads && silent)
		rsocket_probe(rs);
	if (polled->leads)
		rsocket_end_lead(rs, is_signalled(polling, polled));
	pthread_mutex_unlock(&rs->lock);
}

static void end_sleeps(void *argument)
{
	struct polling *polling = argument;

	while (polling->asleep)
		end_sleep(polling, --polling->asleep, polling->silent);
}

int polling_sleep(struct polling *polling, uint64_t deadline)
{
	int error = errno, ready = 0;
	const bool woken = rsocket_wake_open(&polling->wake);
	int most = rsocket_sleep_time(deadline, woken);
	nfds_t used = 0;
	bool quiet = true;

	polling->silent = false;
	while (polling->asleep < polling->count && quiet)
		quiet = begin_sleep(polling, polling->asleep++, &used);
	polling->sleep[used++] = (struct pollfd){.fd = polling->wake.fd, .events = POLLIN};
	pthread_cleanup_push(end_sleeps, polling);
	if (quiet)
		ready = poll(polling->sleep, used, most);
	if (ready < 0)
		error = errno; /* EINTR, perhaps */
	polling->silent = quiet && ready == 0;
	pthread_cleanup_pop(1);
	rsocket_wake_clear(&polling->wake);
	errno = error;
	return ready;
}

/* --- the calls ------------------------------------------------------------------------------- */

void polling_end(void *argument)
{
	struct polling *polling = argument;

	for (nfds_t i = 0; polling->polled && i < polling->count; i++) {
		if (polling->polled[i].rs)
			rsocket_put(polling->polled[i].rs);
	}
	rsocket_wake_close(&polling->wake);
	if (polling->count <= POLLING_FEW)
		return;
	free(polling->polled);
	free(polling->sleep);
	free(polling->owner);
}

/* 0 or ENOMEM. */
static int reserve(struct polling *polling)
{
	const nfds_t count = polling->count;

	if (count <= POLLING_FEW) {
		polling->polled = polling->few_polled;
		polling->sleep = polling->few_sleep;
		polling->owner = polling->few_owner;
		return 0;
	}
	polling->polled = calloc(count, sizeof(*polling->polled));
	polling->sleep = calloc(RSOCKET_DESCRIPTORS * count + 1, sizeof(*polling->sleep));
	polling->owner = calloc(count, sizeof(*polling->owner));
	return polling->polled && polling->sleep && polling->owner ? 0 : ENOMEM;
}

int polling_begin(struct polling *polling, struct pollfd *fds, nfds_t count)
{
	int error = errno;

	polling->fds = fds;
	polling->count = count;
	polling->wake.fd = -1;
	polling->asleep = 0;
	if (reserve(polling) != 0)
		return refuse(ENOMEM, CAUSE_OUT_OF_MEMORY, "to poll %lu descriptors", count);
	for (nfds_t i = 0; i < count; i++) {
		struct polled *polled = &polling->polled[i];

		polled->rs = rsocket_get(fds[i].fd);
		polled->inherited = !polled->rs && rsocket_is_inherited(fds[i].fd);
	}
	errno = error; /* of those that are none */
	return 0;
}

static int poll_all(struct polling *polling, uint64_t deadline)
{
	uint64_t spin = clock_now() + rsocket_polling_time();
	int ready;

	for (;;) {
		ready = look(polling);
		if (ready || clock_now() >= deadline)
			return ready;
		if (clock_now() < spin)
			continue;
		if (polling_sleep(polling, deadline) < 0)
			return -1;
	}
}

static int poll_for(struct pollfd *fds, nfds_t count, uint64_t deadline)
{
	struct polling polling;
	int error = polling_begin(&polling, fds, count), ready;

	pthread_cleanup_push(polling_end, &polling);
	ready = error ? rsocket_return(error) : poll_all(&polling, deadline);
	error = errno;
	pthread_cleanup_pop(1);
	errno = error;
	return ready;
}

int urxe_rpoll(struct pollfd *fds, nfds_t count, int timeout)
{
	return poll_for(fds, count, timeout < 0 ? TIME_NEVER : clock_now() + timeout * NS_PER_MS);
}

/* --- rselect --------------------------------------------------------------------------------- */

#define READING (POLLIN | POLLHUP | POLLERR)
#define WRITING (POLLOUT | POLLERR)

static short wanted(int fd, const fd_set *reading, const fd_set *writing, const fd_set *exceptional)
{
	return (reading && FD_ISSET(fd, reading) ? POLLIN : 0) |
	       (writing && FD_ISSET(fd, writing) ? POLLOUT : 0) |
	       (exceptional && FD_ISSET(fd, exceptional) ? POLLPRI : 0);
}

/* Returns how many bits are set, or -1 for a descriptor that isn't open. */
static int fill_sets(const struct pollfd *fds, nfds_t count, fd_set *reading, fd_set *writing,
		     fd_set *exceptional)
{
	const struct {
		fd_set *set;
		short asked, ready;
	} sets[] = {{reading, POLLIN, READING},
		    {writing, POLLOUT, WRITING},
		    {exceptional, POLLPRI, POLLPRI}};
	int bits = 0;

	for (nfds_t i = 0; i < count; i++) { /* a call that fails leaves the sets as they are */
		if (fds[i].revents & POLLNVAL)
			return -1;
	}
	for (unsigned int k = 0; k < sizeof(sets) / sizeof(*sets); k++) {
		if (sets[k].set)
			FD_ZERO(sets[k].set);
		for (nfds_t i = 0; sets[k].set && i < count; i++) {
			if (!(fds[i].events & sets[k].asked) || !(fds[i].revents & sets[k].ready))
				continue;
			FD_SET(fds[i].fd, sets[k].set);
			bits++;
		}
	}
	return bits;
}

int urxe_rselect(int count, fd_set *reading, fd_set *writing, fd_set *exceptional,
		 struct timeval *timeout)
{
	struct pollfd fds[FD_SETSIZE];
	nfds_t used = 0;
	int ready, bits;

	if (count < 0 || count > FD_SETSIZE ||
	    (timeout && (timeout->tv_sec < 0 || timeout->tv_usec < 0)))
		return rsocket_return(EINVAL);
	for (int fd = 0; fd < count; fd++) {
		short events = wanted(fd, reading, writing, exceptional);

		if (events)
			fds[used++] = (struct pollfd){.fd = fd, .events = events};
	}
	ready = poll_for(fds, used, rsocket_deadline(timeout));
	if (ready < 0)
		return -1;
	bits = fill_sets(fds, used, reading, writing, exceptional);
	return bits < 0 ? rsocket_return(EBADF) : bits;
}
