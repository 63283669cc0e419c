/* SPDX-License-Identifier: BSD-2-Clause */
#include "emu/transport/pacing.h"

#include <stdbool.h>
#include <string.h>

#include "emu/hca.h"
#include "emu/transport/outbox.h"
#include "net/share/share.h"
#include "net/tuning.h"
#include "net/wire/gid.h"

/* In place of a block: not a receiver, but the send buffer of our own address. */
#define OWN_SEND_BUFFER UINT32_MAX

enum pacing_verdict {
	VERDICT_SEND,
	VERDICT_WAIT,
	VERDICT_ASK,	   /* the link */
	VERDICT_ELSEWHERE, /* the receiver isn't known */
};

void pacing_init(struct pacing *pacing)
{
	*pacing = (struct pacing){};
	pthread_mutex_init(&pacing->lock, NULL);
	for (unsigned int i = 0; i < PACING_ROWS * PACING_COLUMNS; i++)
		pacing->receivers[i / PACING_COLUMNS][i % PACING_COLUMNS].patience =
			PACING_PATIENCE;
}

void pacing_destroy(struct pacing *pacing)
{
	pthread_mutex_destroy(&pacing->lock);
}

/* --- the table ------------------------------------------------------------------ */

static uint32_t row_of(const union ibv_gid *gid, uint32_t block)
{
	uint64_t low, high;

	memcpy(&high, gid->raw, sizeof(high));
	memcpy(&low, gid->raw + 8, sizeof(low));
	/* Fibonacci hashing: the upper bits of the product depend on all below them. */
	return (high ^ low ^ block) * UINT64_C(0x9e3779b97f4a7c15) >> (64 - PACING_ROW_BITS);
}

/*
 * The one that is known, or a new one in place of that which was last used longest ago. It begins
 * with the patience that one had left: more stopped receivers than a row has columns wouldn't be
 * remembered, and each would be waited for again and again.
 */
static struct pacing_receiver *receiver_get(struct pacing *pacing, const union ibv_gid *gid,
					    uint32_t block, uint64_t now)
{
	struct pacing_receiver *row = pacing->receivers[row_of(gid, block)], *oldest = row;

	for (struct pacing_receiver *r = row; r < row + PACING_COLUMNS; r++) {
		if (r->block == block && gid_equal(&r->gid, gid)) {
			r->used_at = now;
			return r;
		}
		if (r->used_at < oldest->used_at)
			oldest = r;
	}
	*oldest = (struct pacing_receiver){
		.gid = *gid, .block = block, .patience = oldest->patience, .used_at = now};
	return oldest;
}

/* --- a receiver ----------------------------------------------------------------- */

static enum pacing_verdict receiver_take(struct pacing_receiver *receiver, uint32_t cost,
					 uint64_t now)
{
	static const enum pacing_verdict verdicts[] = {
		[PACING_READING] = VERDICT_SEND,
		[PACING_FULL] = VERDICT_WAIT,
		[PACING_STOPPED] = VERDICT_SEND,
		[PACING_ELSEWHERE] = VERDICT_ELSEWHERE,
	};

	if (receiver->space >= cost) {
		receiver->space -= cost;
		return VERDICT_SEND;
	}
	return now >= receiver->ask_at ? VERDICT_ASK : verdicts[receiver->state];
}

/* What it takes gives it back the patience that waiting for it used up. */
static void receiver_took(struct pacing_receiver *receiver)
{
	uint64_t earned = (uint64_t)receiver->space * PACING_PATIENCE_PER_BYTE;

	/* Our own network card is waited for however slow it is. */
	if (receiver->block == OWN_SEND_BUFFER)
		earned = PACING_PATIENCE;
	receiver->patience += earned;
	if (receiver->patience > PACING_PATIENCE)
		receiver->patience = PACING_PATIENCE;
}

/* The state that follows from @receiver's new space, a packet of @cost being the next. */
static enum pacing_state receiver_next(struct pacing_receiver *receiver, uint32_t cost)
{
	bool was_stopped = receiver->state == PACING_STOPPED;

	if (receiver->space >= cost) {
		receiver_took(receiver);
		return was_stopped && receiver->patience < PACING_PATIENCE_AGAIN ? PACING_STOPPED
										 : PACING_READING;
	}
	if (was_stopped || receiver->patience < PACING_INTERVAL)
		return PACING_STOPPED;
	receiver->patience -= PACING_INTERVAL;
	return PACING_FULL;
}

/* The link says that there are @space bytes, UINT32_MAX: that it doesn't know. */
static void receiver_set_space(struct pacing_receiver *receiver, uint32_t space, uint32_t cost,
			       uint64_t now)
{
	static const uint64_t intervals[] = {
		[PACING_READING] = 0,
		[PACING_FULL] = PACING_INTERVAL,
		[PACING_STOPPED] = PACING_RECHECK,
		[PACING_ELSEWHERE] = PACING_RECHECK,
	};

	if (now < receiver->ask_at) /* another thread has asked meanwhile */
		return;
	if (space == UINT32_MAX) {
		receiver->space = 0;
		receiver->state = PACING_ELSEWHERE;
	} else {
		receiver->space = space / 2; /* others send there, too */
		receiver->state = receiver_next(receiver, cost);
	}
	receiver->ask_at = now + intervals[receiver->state];
}

/* --- pacing ---------------------------------------------------------------------- */

/* In which a packet has to find space: that of the receiver at the end of its path, or our own. */
struct pacing_buffer {
	const struct path *path;
	uint32_t qpn;
	const union ibv_gid *gid;
	uint32_t block;
};

static uint32_t buffer_space(struct link *link, const struct pacing_buffer *buffer)
{
	if (buffer->block != OWN_SEND_BUFFER)
		return link->ops->rcvbuf_space(link, buffer->path, buffer->qpn);
	return link->ops->sndbuf_space ? link->ops->sndbuf_space(link, buffer->gid) : UINT32_MAX;
}

/* Returns no VERDICT_ASK. @again: when the link is asked again. */
static enum pacing_verdict buffer_take(struct outbox *outbox, const struct pacing_buffer *buffer,
				       uint32_t cost, uint64_t *again)
{
	struct pacing *pacing = &outbox->hca->pacing;
	struct pacing_receiver *receiver;
	enum pacing_verdict verdict;
	uint32_t space;

	pthread_mutex_lock(&pacing->lock);
	receiver = receiver_get(pacing, buffer->gid, buffer->block, outbox->now);
	verdict = receiver_take(receiver, cost, outbox->now);
	*again = receiver->ask_at;
	pthread_mutex_unlock(&pacing->lock);
	if (verdict != VERDICT_ASK)
		return verdict;

	/* System calls, and so without the lock. */
	outbox_flush(outbox);
	space = buffer_space(outbox->hca->link, buffer);

	pthread_mutex_lock(&pacing->lock);
	receiver = receiver_get(pacing, buffer->gid, buffer->block, outbox->now);
	receiver_set_space(receiver, space, cost, outbox->now);
	verdict = receiver_take(receiver, cost, outbox->now);
	*again = receiver->ask_at;
	pthread_mutex_unlock(&pacing->lock);
	return verdict;
}

uint64_t pacing_take(struct outbox *outbox, const struct path *path, uint32_t qpn, uint32_t cost)
{
	const struct pacing_buffer receiver = {path, qpn, &path->destination, share_qpn_block(qpn)};
	const struct pacing_buffer send_buffer = {path, qpn, &path->source, OWN_SEND_BUFFER};
	enum pacing_verdict verdict = VERDICT_ELSEWHERE;
	uint64_t again;

	if (!gid_is_multicast(&path->destination))
		verdict = buffer_take(outbox, &receiver, cost, &again);
	if (verdict == VERDICT_ELSEWHERE)
		verdict = buffer_take(outbox, &send_buffer, cost, &again);
	return verdict == VERDICT_WAIT ? again : 0;
}
