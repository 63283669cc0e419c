/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Bytes in flight to one destination: emu/transport/window.h has the reasons and the lock.
 */
#include "emu/transport/window.h"

#include <errno.h>
#include <stdlib.h>
#include <utlist.h>

#include "emu/hca.h"
#include "emu/objects/qp.h"
#include "net/tuning.h"

#define WINDOW_PACKET (WIRE_PATH_MTU_MAX + WINDOW_PACKET_OVERHEAD)

/* A few packets fit everywhere, and fewer than this couldn't show a loss by what follows it. */
#define WINDOW_LEAST (8 * WINDOW_PACKET)
#define WINDOW_INITIAL (64 * 1024)
/*
 * Several times the socket buffer that an unprivileged receiver gets, for those
 * that have more; beyond it loopback and LANs gain nothing, and one loss costs
 * as much again on the wire (IBA 9.7.5.1.2: go back N).
 */
#define WINDOW_MOST (2 * 1024 * 1024)

/* Longer than a round trip in a LAN, shorter than any ACK timeout worth its name. */
#define WINDOW_ROUND UINT64_C(1000000)

static struct window *window_make(struct hca *hca, const union ibv_gid *destination)
{
	struct window *window = calloc(1, sizeof(*window));

	if (!window)
		return NULL;
	window->destination = *destination;
	window->hca = hca;
	window->limit = WINDOW_INITIAL;
	window->threshold = WINDOW_MOST;
	window->last_loss = TIME_NEVER;
	pthread_mutex_init(&window->lock, NULL);
	HASH_ADD(hh, hca->windows, destination, sizeof(window->destination), window);
	return window;
}

int window_get(struct hca *hca, const union ibv_gid *destination, struct window **window)
{
	struct window *found;

	pthread_mutex_lock(&hca->windows_lock);
	HASH_FIND(hh, hca->windows, destination, sizeof(*destination), found);
	if (!found)
		found = window_make(hca, destination);
	if (found)
		found->users++;
	pthread_mutex_unlock(&hca->windows_lock);
	*window = found;
	return found ? 0 : ENOMEM;
}

void window_put(struct window *window)
{
	struct hca *hca = window->hca;
	bool last;

	pthread_mutex_lock(&hca->windows_lock);
	last = --window->users == 0;
	if (last)
		HASH_DEL(hca->windows, window);
	pthread_mutex_unlock(&hca->windows_lock);
	if (!last)
		return;
	pthread_mutex_destroy(&window->lock);
	free(window);
}

/* A QP that found too little room this often goes before those that need less. */
#define WINDOW_PATIENCE 8

static bool window_impatient(const struct qp *qp)
{
	return qp->requester.passed >= WINDOW_PATIENCE;
}

static void window_wait(struct window *window, struct qp *qp)
{
	if (qp->requester.waiting)
		return;
	qp->requester.waiting = true;
	window->waiting++;
	if (window_impatient(qp))
		DL_PREPEND2(window->waiting_head, qp, requester.waiting_prev,
			    requester.waiting_next);
	else
		DL_APPEND2(window->waiting_head, qp, requester.waiting_prev,
			   requester.waiting_next);
}

static void window_wait_no_more(struct window *window, struct qp *qp)
{
	qp->requester.waiting = false;
	window->waiting--;
	DL_DELETE2(window->waiting_head, qp, requester.waiting_prev, requester.waiting_next);
}

/*
 * With nothing in flight anything fits, or it never would; and what is of the
 * window's own size (a READ's responses) fits a half-empty one, or small
 * packets would always be before it.
 */
static bool window_has_room(const struct window *window, uint64_t cost)
{
	uint64_t half = window->limit / 2;

	return !window->in_flight || window->in_flight + cost <= window->limit ||
	       (cost > half && window->in_flight <= half);
}

/*
 * While others wait, a QP that has its share already waits too: whoever gets an
 * acknowledgement is run at once, and would keep the window to itself.
 */
static uint64_t window_share(const struct window *window)
{
	return window->limit / (window->waiting + 1);
}

static bool window_fits(const struct window *window, const struct qp *qp, uint64_t cost)
{
	if (!window_has_room(window, cost))
		return false;
	if (!window->waiting || !window->in_flight)
		return true;
	/* Let the window drain until the one who needs most room has it. */
	if (window_impatient(window->waiting_head) && !window_impatient(qp))
		return false;
	return qp->requester.in_flight < window_share(window);
}

static uint64_t most(uint64_t limit, uint64_t used, uint64_t cost)
{
	return used + cost < limit ? (limit - used) / cost : 1;
}

/* How many of @count packets. */
static uint32_t window_fit(const struct window *window, const struct qp *qp, uint64_t cost,
			   uint32_t count)
{
	uint64_t fit, fair;

	if (!window_fits(window, qp, cost))
		return 0;
	fit = most(window->limit, window->in_flight, cost);
	/* What the QP has in flight will be released: it pays to wait for more room. */
	if (fit < count && qp->requester.in_flight && fit * cost < window->limit / WINDOW_SLIVER)
		return 0;
	if (fit > count)
		fit = count;
	fair = window->waiting ? most(window_share(window), qp->requester.in_flight, cost) : fit;
	return fit < fair ? fit : fair;
}

uint32_t window_take(struct window *window, struct qp *qp, uint64_t cost, uint32_t count)
{
	uint32_t fit;

	pthread_mutex_lock(&window->lock);
	fit = window_fit(window, qp, cost, count);
	if (!fit && !window_has_room(window, cost) && !window_impatient(qp))
		qp->requester.passed++;
	if (!fit)
		window_wait(window, qp);
	else if (qp->requester.waiting)
		window_wait_no_more(window, qp);
	if (fit) {
		qp->requester.passed = 0;
		window->in_flight += fit * cost;
	}
	pthread_mutex_unlock(&window->lock);
	return fit;
}

uint64_t window_limit(struct window *window)
{
	uint64_t limit;

	pthread_mutex_lock(&window->lock);
	limit = window->limit;
	pthread_mutex_unlock(&window->lock);
	return limit;
}

/* RFC 5681, 3.1; RFC 7661: a window that isn't used says nothing about its size. */
static void window_grow(struct window *window, uint64_t cost)
{
	if (window->in_flight < window->limit / 2)
		return;
	if (window->limit < window->threshold)
		window->limit += cost;
	else
		window->limit += cost * WINDOW_PACKET / window->limit;
	if (window->limit > WINDOW_MOST)
		window->limit = WINDOW_MOST;
}

/*
 * As many QPs as there are packets that fit, since each may send one. A QP need
 * not: so when nothing is in flight, and no release will follow, all of them.
 */
static void window_wake(struct window *window)
{
	uint64_t room = 0;

	if (window->in_flight < window->limit)
		room = window->limit - window->in_flight;
	while (window->waiting_head) {
		struct qp *qp = window->waiting_head;

		if (window->in_flight && room < WINDOW_PACKET)
			return;
		room = room > WINDOW_PACKET ? room - WINDOW_PACKET : 0;
		window_wait_no_more(window, qp);
		hca_schedule(window->hca, qp);
	}
}

void window_release(struct window *window, uint64_t cost, bool acknowledged)
{
	if (!cost)
		return;
	pthread_mutex_lock(&window->lock);
	if (acknowledged)
		window_grow(window, cost);
	window->in_flight -= cost < window->in_flight ? cost : window->in_flight;
	window_wake(window);
	pthread_mutex_unlock(&window->lock);
}

void window_loss(struct window *window, uint64_t now)
{
	pthread_mutex_lock(&window->lock);
	if (window->last_loss == TIME_NEVER || now - window->last_loss >= WINDOW_ROUND) {
		window->last_loss = now;
		window->limit /= 2;
		if (window->limit < WINDOW_LEAST)
			window->limit = WINDOW_LEAST;
		window->threshold = window->limit;
	}
	pthread_mutex_unlock(&window->lock);
}

void window_forget(struct window *window, struct qp *qp)
{
	pthread_mutex_lock(&window->lock);
	qp->requester.passed = 0;
	if (qp->requester.waiting)
		window_wait_no_more(window, qp);
	pthread_mutex_unlock(&window->lock);
}
