/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sleeping until something happens to an rsocket. Several threads may wait for one: a sender, a
 * receiver, some in rpoll(). One of them sleeps on the descriptors for all, since an event can be
 * taken but once; when it has looked it wakes the others, each of which knows what it waits for.
 * A thread that polls takes completions but no events of theirs: so the one that sleeps is woken by
 * these.
 */
#include <errno.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <time.h>
#include <utlist.h>

#include "net/clock.h"
#include "net/syscalls.h"
#include "verbs/rsocket/rsocket.h"
#include "verbs/rsocket/rsocket_datagram.h"

/* --- being woken ----------------------------------------------------------------------------- */

bool rsocket_wake_open(struct rsocket_wake *wake)
{
	descriptor_verify(&wake->fd, &wake->identity);
	if (wake->fd >= 0)
		return true;
	wake->fd = descriptor_above_standard(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
	if (wake->fd >= 0)
		wake->identity = descriptor_identify(wake->fd);
	return wake->fd >= 0;
}

void rsocket_wake_up(const struct rsocket_wake *wake)
{
	const uint64_t one = 1;

	if (descriptor_is(wake->fd, &wake->identity) && sys_write(wake->fd, &one, sizeof(one)) < 0)
		return; /* its count is at the maximum, so it is readable anyway */
}

void rsocket_wake_clear(const struct rsocket_wake *wake)
{
	uint64_t value;

	if (descriptor_is(wake->fd, &wake->identity) &&
	    sys_read(wake->fd, &value, sizeof(value)) < 0)
		return; /* its count is 0: another thread has cleared it, or none has raised it */
}

void rsocket_wake_close(struct rsocket_wake *wake)
{
	descriptor_close(descriptor_take(&wake->fd), &wake->identity);
}

/* With rs->lock: something has happened; wake the threads that wait for another one to look. */
static void note_change(struct rsocket *rs)
{
	struct rsocket_poller *poller;

	rs->changes++;
	pthread_cond_broadcast(&rs->changed);
	DL_FOREACH (rs->pollers, poller)
		rsocket_wake_up(poller->wake);
}

void rsocket_interrupt(struct rsocket *rs)
{
	rs->news_in++;
	rs->news_out++;
	note_change(rs);
	rsocket_wake_up(&rs->wake);
}

void rsocket_note_accepted(struct rsocket *rs)
{
	rs->news_in++;
	note_change(rs);
}

/* --- looking --------------------------------------------------------------------------------- */

/* How often a connection's channel is asked for events by threads that don't sleep on it, ns. */
#define MANAGER_ASKED_EVERY NS_PER_MS

/*
 * Only an event of rdma_cm says that the peer's process has ended. Threads that sleep are woken by
 * it; those that never do ask for it now and then.
 */
static bool manager_has_events(struct rsocket *rs)
{
	struct pollfd fd = {.events = POLLIN};
	uint64_t now;

	if (rs->datagram || rs->state != RSOCKET_CONNECTED)
		return rsocket_is_opening(rs);
	now = clock_now();
	if (now - rs->manager_asked_at < MANAGER_ASKED_EVERY)
		return false;
	rs->manager_asked_at = now;
	fd.fd = rs->channel->fd;
	return sys_poll_look(&fd, 1) > 0;
}

/*
 * Looking in vain leaves EAGAIN in errno, which a call that succeeds mustn't: rstream takes it for
 * the result of an rrecv() that returned 0, and tries again for ever.
 */
bool rsocket_progress(struct rsocket *rs)
{
	enum rsocket_state state = rs->state;
	const int before = errno;
	bool any = rs->datagram ? rsocket_datagram_progress(rs) : rsocket_stream_progress(rs);

	if (!any && manager_has_events(rs))
		rsocket_manager_events(rs);
	if (rs->state != state)
		rsocket_interrupt(rs); /* the one that sleeps isn't woken by what was taken here */
	else if (any)
		note_change(rs);
	any |= rs->state != state;
	errno = before;
	return any;
}

unsigned int rsocket_descriptors(const struct rsocket *rs, struct pollfd *fds)
{
	unsigned int count = 0;

	if (rs->datagram)
		return rsocket_datagram_descriptors(rs, fds);
	fds[count++] = (struct pollfd){.fd = rs->channel->fd, .events = POLLIN};
	if (rs->completions)
		fds[count++] = (struct pollfd){.fd = rs->completions->fd, .events = POLLIN};
	return count;
}

void rsocket_take_events(struct ibv_comp_channel *completions, struct ibv_cq *cq)
{
	unsigned int count = 0;
	struct ibv_cq *same;
	void *context;

	while (completions && ibv_get_cq_event(completions, &same, &context) == 0)
		count++;
	if (count)
		ibv_ack_cq_events(cq, count);
}

void rsocket_take_all(struct rsocket *rs)
{
	const int before = errno;

	if (rs->datagram) {
		rsocket_datagram_drain_events(rs);
	} else {
		rsocket_take_events(rs->completions, rs->cq);
		rsocket_manager_events(rs);
	}
	errno = before;
	rsocket_progress(rs);
	note_change(rs);
}

void rsocket_end_lead(struct rsocket *rs, bool takes)
{
	rs->waited_for = false;
	if (takes)
		rsocket_take_all(rs);
	else
		note_change(rs);
}

bool rsocket_arm(struct rsocket *rs)
{
	if (rs->datagram)
		rsocket_datagram_arm(rs);
	else if (rs->cq)
		ibv_req_notify_cq(rs->cq, 0);
	return !rsocket_progress(rs); /* what came before it was armed */
}

void rsocket_probe(struct rsocket *rs)
{
	const uint64_t now = clock_now(), interval = rsocket_wake_up_interval() * NS_PER_MS;

	if (rs->state != RSOCKET_CONNECTED || rs->out.data_under_way || rs->out.control_under_way ||
	    now - rs->probed_at < interval)
		return;
	rs->probed_at = now;
	rsocket_post_message(rs, rsocket_message(RSOCKET_CONTROL, RSOCKET_KEEPALIVE), 0, NULL, 0);
}

#define UNWOKEN_MOST 10 /* ms */

int rsocket_sleep_time(uint64_t deadline, bool woken)
{
	uint64_t now = clock_now(), left = deadline > now ? deadline - now : 0;
	uint64_t ms = (left + NS_PER_MS - 1) / NS_PER_MS;
	uint32_t most = rsocket_wake_up_interval();

	if (!woken && most > UNWOKEN_MOST)
		most = UNWOKEN_MOST;
	return ms < most ? (int)ms : (int)most;
}

/* The faults of a thread interrupt nothing that waits. */
static bool is_fault(int signal)
{
	return signal == SIGSEGV || signal == SIGBUS || signal == SIGFPE || signal == SIGILL ||
	       signal == SIGTRAP;
}

static bool is_restarting(int signal)
{
	struct sigaction action;

	if (is_fault(signal) || sigaction(signal, NULL, &action) < 0)
		return true;
	return action.sa_handler == SIG_DFL || action.sa_handler == SIG_IGN ||
	       action.sa_flags & SA_RESTART;
}

int rsocket_sleep_error(int error)
{
	if (error != EINTR)
		return error;
	for (int signal = 1; signal < NSIG; signal++) {
		if (!is_restarting(signal))
			return EINTR;
	}
	return 0;
}

/* Longer than so many seconds is for ever. */
uint64_t rsocket_deadline(const struct timeval *timeout)
{
	if (!timeout || timeout->tv_sec > INT32_MAX || timeout->tv_usec > INT32_MAX)
		return TIME_NEVER;
	return clock_now() + timeout->tv_sec * NS_PER_S + timeout->tv_usec * NS_PER_US;
}

static int wait_for_other(struct rsocket *rs, uint64_t deadline)
{
	struct timespec until = clock_timespec(deadline);

	if (deadline == TIME_NEVER)
		return pthread_cond_wait(&rs->changed, &rs->lock);
	return pthread_cond_timedwait(&rs->changed, &rs->lock, &until);
}

static void sleep_cancelled(void *argument)
{
	struct rsocket *rs = argument;

	pthread_mutex_lock(&rs->lock);
	rsocket_end_lead(rs, false);
}

/* Without rs->lock. Returns how many are ready, or -errno. */
static int sleep_on(struct rsocket *rs, struct pollfd *fds, unsigned int count, int most)
{
	int ready;

	pthread_cleanup_push(sleep_cancelled, rs);
	ready = poll(fds, count, most);
	if (ready < 0)
		ready = -errno;
	pthread_cleanup_pop(0);
	return ready;
}

/* The one that sleeps for all. */
static int sleep_for_all(struct rsocket *rs, uint64_t deadline)
{
	struct pollfd fds[RSOCKET_DESCRIPTORS + 1];
	unsigned int count = rsocket_descriptors(rs, fds);
	const int before = errno;
	const bool woken = rsocket_wake_open(&rs->wake);
	int ready, error = 0;

	fds[count++] = (struct pollfd){.fd = rs->wake.fd, .events = POLLIN};
	pthread_mutex_unlock(&rs->lock);
	ready = sleep_on(rs, fds, count, rsocket_sleep_time(deadline, woken));
	if (ready < 0) /* with a timeout no call of a socket is restarted */
		error = deadline == TIME_NEVER ? rsocket_sleep_error(-ready) : -ready;
	pthread_mutex_lock(&rs->lock);
	rs->waited_for = false;
	if (ready == 0)
		rsocket_probe(rs);
	if (ready == 0 && clock_now() >= deadline)
		error = ETIMEDOUT;
	if (fds[count - 1].revents)
		rsocket_wake_clear(&rs->wake);
	rsocket_take_all(rs);
	errno = before;
	return error;
}

static int sleep_until(struct rsocket *rs, uint64_t deadline)
{
	if (rs->waited_for)
		return wait_for_other(rs, deadline);
	rs->waited_for = true;
	if (rsocket_arm(rs))
		return sleep_for_all(rs, deadline);
	rs->waited_for = false;
	return 0;
}

/*
 * Returns, too, when another thread has taken what the caller may be waiting for, while the lock
 * was free.
 */
int rsocket_wait(struct rsocket *rs, uint64_t deadline)
{
	uint64_t until = clock_now() + rsocket_polling_time();
	const uint32_t seen = rs->changes;
	int error;

	while (clock_now() < until) {
		if (rsocket_progress(rs) || rs->changes != seen)
			return 0;
		pthread_mutex_unlock(&rs->lock);
		pthread_mutex_lock(&rs->lock);
	}
	if (rs->changes != seen)
		return 0;
	pthread_cleanup_push(rsocket_cleanup_unlock, &rs->lock);
	error = sleep_until(rs, deadline);
	pthread_cleanup_pop(0);
	return error;
}
