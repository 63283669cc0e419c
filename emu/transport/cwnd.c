/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Bytes in flight to one destination: emu/transport/cwnd.h has the reasons and the lock.
 */
#include "emu/transport/cwnd.h"

#include <errno.h>
#include <stdlib.h>
#include <utlist.h>

#include "emu/hca.h"
#include "emu/objects/qp.h"
#include "net/tuning.h"

#define CWND_PACKET (WIRE_PATH_MTU_MAX + CWND_PACKET_OVERHEAD)

/* A few packets fit everywhere, and fewer than this couldn't show a loss by what follows it. */
#define CWND_MIN (8 * CWND_PACKET)
#define CWND_INITIAL (64 * 1024)
/*
 * Several times the socket buffer that an unprivileged receiver gets, for those
 * that have more; beyond it loopback and LANs gain nothing, and one loss costs
 * as much again on the wire (IBA 9.7.5.1.2: go back N).
 */
#define CWND_MAX (2 * 1024 * 1024)

/* Longer than a round trip in a LAN, shorter than any ACK timeout worth its name. */
#define CWND_ROUND UINT64_C(1000000)

static struct cwnd *cwnd_make(struct hca *hca, const union ibv_gid *destination)
{
	struct cwnd *cwnd = calloc(1, sizeof(*cwnd));

	if (!cwnd)
		return NULL;
	cwnd->destination = *destination;
	cwnd->hca = hca;
	cwnd->limit = CWND_INITIAL;
	cwnd->threshold = CWND_MAX;
	cwnd->last_loss = TIME_NEVER;
	pthread_mutex_init(&cwnd->lock, NULL);
	HASH_ADD(hh, hca->cwnds, destination, sizeof(cwnd->destination), cwnd);
	return cwnd;
}

int cwnd_get(struct hca *hca, const union ibv_gid *destination, struct cwnd **cwnd)
{
	struct cwnd *found;

	pthread_mutex_lock(&hca->cwnds_lock);
	HASH_FIND(hh, hca->cwnds, destination, sizeof(*destination), found);
	if (!found)
		found = cwnd_make(hca, destination);
	if (found)
		found->users++;
	pthread_mutex_unlock(&hca->cwnds_lock);
	*cwnd = found;
	return found ? 0 : ENOMEM;
}

void cwnd_put(struct cwnd *cwnd)
{
	struct hca *hca = cwnd->hca;
	bool last;

	pthread_mutex_lock(&hca->cwnds_lock);
	last = --cwnd->users == 0;
	if (last)
		HASH_DEL(hca->cwnds, cwnd);
	pthread_mutex_unlock(&hca->cwnds_lock);
	if (!last)
		return;
	pthread_mutex_destroy(&cwnd->lock);
	free(cwnd);
}

/* A QP that found too little space this often goes before those that need less. */
#define CWND_STARVING 8

static bool cwnd_starving(const struct qp *qp)
{
	return qp->requester.skipped >= CWND_STARVING;
}

static void cwnd_wait(struct cwnd *cwnd, struct qp *qp)
{
	if (qp->requester.waiting)
		return;
	qp->requester.waiting = true;
	cwnd->waiting++;
	if (cwnd_starving(qp))
		DL_PREPEND2(cwnd->waiting_head, qp, requester.waiting_prev, requester.waiting_next);
	else
		DL_APPEND2(cwnd->waiting_head, qp, requester.waiting_prev, requester.waiting_next);
}

static void cwnd_remove_waiting(struct cwnd *cwnd, struct qp *qp)
{
	qp->requester.waiting = false;
	cwnd->waiting--;
	DL_DELETE2(cwnd->waiting_head, qp, requester.waiting_prev, requester.waiting_next);
}

/*
 * With nothing in flight anything fits, or it never would; and what is of the
 * window's own size (a READ's responses) fits a half-empty one, or small
 * packets would always be before it.
 */
static bool cwnd_has_space(const struct cwnd *cwnd, uint64_t cost)
{
	uint64_t half = cwnd->limit / 2;

	return !cwnd->in_flight || cwnd->in_flight + cost <= cwnd->limit ||
	       (cost > half && cwnd->in_flight <= half);
}

/*
 * While others wait, a QP that has its share already waits too: whoever gets an
 * acknowledgement is run at once, and would keep the window to itself.
 */
static uint64_t cwnd_share(const struct cwnd *cwnd)
{
	return cwnd->limit / (cwnd->waiting + 1);
}

static bool cwnd_fits(const struct cwnd *cwnd, const struct qp *qp, uint64_t cost)
{
	if (!cwnd_has_space(cwnd, cost))
		return false;
	if (!cwnd->waiting || !cwnd->in_flight)
		return true;
	/* Let the window drain until the one who needs most space has it. */
	if (cwnd_starving(cwnd->waiting_head) && !cwnd_starving(qp))
		return false;
	return qp->requester.in_flight < cwnd_share(cwnd);
}

static uint64_t most(uint64_t limit, uint64_t used, uint64_t cost)
{
	return used + cost < limit ? (limit - used) / cost : 1;
}

/* How many of @count packets. */
static uint32_t cwnd_fit(const struct cwnd *cwnd, const struct qp *qp, uint64_t cost,
			 uint32_t count)
{
	uint64_t fit, fair;

	if (!cwnd_fits(cwnd, qp, cost))
		return 0;
	fit = most(cwnd->limit, cwnd->in_flight, cost);
	/* What the QP has in flight will be released: it pays to wait for more space. */
	if (fit < count && qp->requester.in_flight && fit * cost < cwnd->limit / CWND_MIN_BURST)
		return 0;
	if (fit > count)
		fit = count;
	fair = cwnd->waiting ? most(cwnd_share(cwnd), qp->requester.in_flight, cost) : fit;
	return fit < fair ? fit : fair;
}

uint32_t cwnd_take(struct cwnd *cwnd, struct qp *qp, uint64_t cost, uint32_t count)
{
	uint32_t fit;

	pthread_mutex_lock(&cwnd->lock);
	fit = cwnd_fit(cwnd, qp, cost, count);
	if (!fit && !cwnd_has_space(cwnd, cost) && !cwnd_starving(qp))
		qp->requester.skipped++;
	if (!fit)
		cwnd_wait(cwnd, qp);
	else if (qp->requester.waiting)
		cwnd_remove_waiting(cwnd, qp);
	if (fit) {
		qp->requester.skipped = 0;
		cwnd->in_flight += fit * cost;
	}
	pthread_mutex_unlock(&cwnd->lock);
	return fit;
}

uint64_t cwnd_limit(struct cwnd *cwnd)
{
	uint64_t limit;

	pthread_mutex_lock(&cwnd->lock);
	limit = cwnd->limit;
	pthread_mutex_unlock(&cwnd->lock);
	return limit;
}

/* RFC 5681, 3.1; RFC 7661: a window that isn't used says nothing about its size. */
static void cwnd_grow(struct cwnd *cwnd, uint64_t cost)
{
	if (cwnd->in_flight < cwnd->limit / 2)
		return;
	if (cwnd->limit < cwnd->threshold)
		cwnd->limit += cost;
	else
		cwnd->limit += cost * CWND_PACKET / cwnd->limit;
	if (cwnd->limit > CWND_MAX)
		cwnd->limit = CWND_MAX;
}

/*
 * As many QPs as there are packets that fit, since each may send one. A QP need
 * not: so when nothing is in flight, and no release will follow, all of them.
 */
static void cwnd_wake(struct cwnd *cwnd)
{
	uint64_t space = 0;

	if (cwnd->in_flight < cwnd->limit)
		space = cwnd->limit - cwnd->in_flight;
	while (cwnd->waiting_head) {
		struct qp *qp = cwnd->waiting_head;

		if (cwnd->in_flight && space < CWND_PACKET)
			return;
		space = space > CWND_PACKET ? space - CWND_PACKET : 0;
		cwnd_remove_waiting(cwnd, qp);
		hca_schedule(cwnd->hca, qp);
	}
}

void cwnd_release(struct cwnd *cwnd, uint64_t cost, bool acknowledged)
{
	if (!cost)
		return;
	pthread_mutex_lock(&cwnd->lock);
	if (acknowledged)
		cwnd_grow(cwnd, cost);
	cwnd->in_flight -= cost < cwnd->in_flight ? cost : cwnd->in_flight;
	cwnd_wake(cwnd);
	pthread_mutex_unlock(&cwnd->lock);
}

void cwnd_loss(struct cwnd *cwnd, uint64_t now)
{
	pthread_mutex_lock(&cwnd->lock);
	if (cwnd->last_loss == TIME_NEVER || now - cwnd->last_loss >= CWND_ROUND) {
		cwnd->last_loss = now;
		cwnd->limit /= 2;
		if (cwnd->limit < CWND_MIN)
			cwnd->limit = CWND_MIN;
		cwnd->threshold = cwnd->limit;
	}
	pthread_mutex_unlock(&cwnd->lock);
}

void cwnd_stop_waiting(struct cwnd *cwnd, struct qp *qp)
{
	pthread_mutex_lock(&cwnd->lock);
	qp->requester.skipped = 0;
	if (qp->requester.waiting)
		cwnd_remove_waiting(cwnd, qp);
	pthread_mutex_unlock(&cwnd->lock);
}
