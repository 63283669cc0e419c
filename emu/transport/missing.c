/* SPDX-License-Identifier: BSD-2-Clause */
#include "emu/transport/missing.h"

#include "emu/objects/qp.h"
#include "net/tuning.h"

void missing_clear(struct missing *missing)
{
	reorder_clear(&missing->kept);
	missing->any = missing->nak_came = missing->wanted = false;
}

void missing_destroy(struct missing *missing)
{
	missing_clear(missing);
	reorder_destroy(&missing->kept);
}

/* --- what came ------------------------------------------------------------------------------ */

void missing_note(struct qp *qp, uint32_t end)
{
	struct missing *missing = &qp->missing;
	uint32_t unacked = qp->requester.unacked;

	if (!missing->any) {
		missing->any = true;
		missing->again = missing->whole = false;
		missing->asked_end = missing->round_end = missing->round_mark = unacked;
		missing->seen = end;
	}
	if (psn_distance(end, missing->seen) > 0)
		missing->seen = end;
}

/* Whether the responder sent @nak after @kept, whichever came first. */
static bool is_later_nak(const struct packet *nak, const struct packet *kept)
{
	int32_t distance = psn_distance(nak->psn, kept->psn);

	return distance > 0 || (distance == 0 && !aeth_is_refusal(packet_syndrome(kept)));
}

void missing_keep_nak(struct qp *qp, const struct packet *nak)
{
	struct missing *missing = &qp->missing;

	missing_note(qp, nak->psn);
	if (missing->nak_came && !is_later_nak(nak, &missing->nak))
		return;
	missing->nak_came = true;
	missing->nak = *nak;
	packet_keep_headers(&missing->nak);
}

bool missing_wants(const struct qp *qp, const struct packet *packet)
{
	/* Else it will be asked for again anyway. */
	return psn_distance(packet->psn, recovery_sent_end(qp)) < 0 &&
	       !reorder_has(&qp->missing.kept, packet->psn);
}

bool missing_keep(struct qp *qp, const struct packet *packet, bool placed)
{
	return reorder_keep(&qp->missing.kept, &qp->hca->packets, packet, placed,
			    qp->requester.unacked);
}

const struct packet *missing_take(struct qp *qp)
{
	return reorder_take(&qp->missing.kept, qp->requester.unacked);
}

/* --- what is placed before its turn ----------------------------------------------------------- */

/* Of a READ, all whose responses but the last have a payload of the path MTU. */
struct read_memory {
	uintptr_t begin, end;
};

/* False: that isn't one piece. */
static bool read_memory(struct qp *qp, struct send_wqe *wqe, struct read_memory *memory)
{
	const struct ibv_sge *sge = wqe->sge;

	if (!wqe->memory && wqe->num_sge == 1)
		wqe->memory = mr_repin(qp->hca, &qp->requester.response_pin, qp->pd, NULL,
				       sge->lkey, sge->addr, wqe->length, IBV_ACCESS_LOCAL_WRITE);
	if (!wqe->memory)
		return false;
	memory->begin = (uintptr_t)wqe->memory;
	memory->end = memory->begin + wqe->length;
	return true;
}

static bool is_placed(const struct qp *qp, uint32_t psn)
{
	return psn_distance(psn, qp->requester.unacked) < 0 ||
	       reorder_is_placed(&qp->missing.kept, psn);
}

/* Whether responses to a request may yet write to memory that a response to a later one goes to. */
enum overlap {
	OVERLAP_NONE,	 /* none may */
	OVERLAP_COVERED, /* nor may those of earlier ones: it covers all, and is in place */
	OVERLAP_PENDING, /* some may, or it can't be known */
};

static enum overlap read_overlap(struct qp *qp, struct send_wqe *wqe,
				 const struct read_memory *place)
{
	struct read_memory memory;
	uint64_t offset, rest;

	if (!read_memory(qp, wqe, &memory))
		return OVERLAP_PENDING;
	if (memory.end <= place->begin || place->end <= memory.begin)
		return OVERLAP_NONE;
	offset = place->begin > memory.begin ? place->begin - memory.begin : 0;
	rest = (place->end < memory.end ? place->end : memory.end) - memory.begin;
	for (uint64_t i = offset / qp->mtu; i * qp->mtu < rest; i++)
		if (!is_placed(qp, psn_add(wqe->first_psn, i)))
			return OVERLAP_PENDING;
	return memory.begin <= place->begin && place->end <= memory.end ? OVERLAP_COVERED
									: OVERLAP_NONE;
}

static enum overlap request_overlap(struct qp *qp, uint32_t index, const struct read_memory *place)
{
	struct send_wqe *wqe = send_queue_at(&qp->sq, index);

	if (wqe->kind->data == DATA_ORIGINAL)
		return OVERLAP_PENDING;
	return wqe->kind->data == DATA_READ && wqe->length ? read_overlap(qp, wqe, place)
							   : OVERLAP_NONE;
}

bool missing_may_place(struct qp *qp, uint32_t index, const struct packet *packet)
{
	struct send_wqe *wqe = send_queue_at(&qp->sq, index);
	uint64_t offset = (uint64_t)psn_distance(packet->psn, wqe->first_psn) * qp->mtu;
	enum overlap overlap = OVERLAP_NONE;
	struct read_memory place;

	if (index == qp->sq.done)
		return true;
	if (index - qp->sq.done > MISSING_EARLY_REQUESTS || !read_memory(qp, wqe, &place))
		return false;
	place.begin += offset;
	place.end = place.begin + packet->payload_length;
	while (index != qp->sq.done && overlap == OVERLAP_NONE)
		overlap = request_overlap(qp, --index, &place);
	return overlap != OVERLAP_PENDING;
}

/* --- what is missing -------------------------------------------------------------------------- */

static uint32_t lower(uint32_t a, uint32_t b)
{
	return psn_distance(a, b) < 0 ? a : b;
}

static uint32_t higher(uint32_t a, uint32_t b)
{
	return psn_distance(a, b) > 0 ? a : b;
}

/*
 * How many responses of @wqe to ask for from @psn on, the first one that is missing, and before
 * @end. @in_order (missing_is_due()): up to the last of the request that is missing; 0 while more
 * of its responses may still come.
 */
static uint32_t range_length(const struct missing *missing, const struct send_wqe *wqe,
			     uint32_t psn, uint32_t end, bool in_order)
{
	uint32_t rest = send_wqe_request_rest(wqe, psn_distance(psn, wqe->first_psn));
	uint32_t count = 1;

	if (missing->whole)
		return rest;
	if (!in_order) {
		while (count < rest && psn_add(psn, count) != end &&
		       !reorder_has(&missing->kept, psn_add(psn, count)))
			count++;
		return count;
	}
	if (psn_distance(psn_add(psn, rest), missing->seen) > 0)
		return 0; /* the others are still to come */
	while (reorder_has(&missing->kept, psn_add(psn, rest - 1)))
		rest--;
	return rest;
}

/*
 * The first range of responses from @from on and before @end that is to be asked for; none behind
 * the requester's cursor, which asks for them when it gets there. False: there is none before
 * @range->psn.
 */
static bool find_missing(const struct qp *qp, uint32_t from, uint32_t end, bool in_order,
			 struct missing_range *range)
{
	const struct missing *missing = &qp->missing;

	*range = (struct missing_range){.psn = higher(from, qp->requester.unacked)};
	end = lower(end, qp->requester.psn);
	for (uint32_t i = send_queue_find(&qp->sq, range->psn); psn_distance(range->psn, end) < 0;
	     i++) {
		const struct send_wqe *wqe = send_queue_at(&qp->sq, i);
		uint32_t wqe_end = lower(psn_add(wqe->first_psn, wqe->psn_count), end);

		if (wqe->kind->flags & REQUEST_LOCAL)
			continue;
		while (wqe->kind->response && psn_distance(range->psn, wqe_end) < 0) {
			if (!reorder_has(&missing->kept, range->psn)) {
				range->count =
					range_length(missing, wqe, range->psn, wqe_end, in_order);
				return range->count != 0;
			}
			range->psn = psn_add(range->psn, 1);
		}
		range->psn = wqe_end;
	}
	return false;
}

/* --- asking ---------------------------------------------------------------------------------- */

bool missing_is_due(struct qp *qp, bool in_order)
{
	struct missing *missing = &qp->missing;
	uint32_t unacked = qp->requester.unacked;
	struct missing_range range;

	missing->asked_end = higher(missing->asked_end, unacked);
	if (psn_distance(missing->round_end, unacked) <= 0) {
		missing->round_end = missing->asked_end;
		missing->round_mark = qp->requester.highest;
	}
	missing->whole = false;
	missing->again = missing->round_end != unacked &&
			 psn_distance(missing->seen, missing->round_mark) > 0;
	if (missing->again || find_missing(qp, missing->asked_end, missing->seen, in_order, &range))
		return true;
	missing->asked_end = range.psn; /* not to look there for each response */
	return false;
}

bool missing_oldest_is_due(const struct qp *qp)
{
	return qp->missing.again || qp->missing.asked_end == qp->requester.unacked;
}

uint32_t missing_run(const struct qp *qp)
{
	struct missing_range range;

	return find_missing(qp, qp->missing.asked_end, qp->missing.seen, false, &range)
		       ? range.count
		       : 0;
}

void missing_ask_all(struct missing *missing, bool whole)
{
	missing->again = true;
	missing->whole = whole;
	missing->round_end = missing->asked_end;
}

/* All before @end has been asked for. */
static void end_asking(struct qp *qp, uint32_t end)
{
	struct missing *missing = &qp->missing;

	missing->asked_end = higher(missing->asked_end, lower(end, qp->requester.psn));
	/* Otherwise there are some that were asked for before, and have yet to come. */
	if (missing->again || missing->round_end == qp->requester.unacked) {
		missing->round_end = missing->asked_end;
		missing->round_mark = qp->requester.highest;
	}
	missing->wanted = missing->again = missing->whole = false;
}

bool missing_ask(struct qp *qp, bool in_order, struct missing_range *range)
{
	struct missing *missing = &qp->missing;
	uint32_t from = psn_add(range->psn, range->count);

	if (missing->any) {
		if (missing->again && find_missing(qp, from, missing->round_end, in_order, range))
			return true;
		if (find_missing(qp, higher(from, missing->asked_end), missing->seen, in_order,
				 range))
			return true;
	}
	end_asking(qp, range->psn);
	return false;
}
