/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sending through the fault filter: a verdict on each packet of a batch makes its plan, under the
 * lock; the plans are carried out without it.
 */
#include "net/fault/fault_link.h"

#include <string.h>
#include <utlist.h>

#include "net/wire/icrc.h"
#include "net/wire/mad.h"

/*
 * Packets judged under one hold of the lock: no super-packet is cut. Their plans are on an
 * application's stack.
 */
#define CHUNK LINK_TRAIN_PACKETS

static void packet_flow(struct flow *flow, const struct fault_link *fault,
			const struct link_packet *packet)
{
	uint8_t mad[MAD_LENGTH];

	fault_flow(flow, &packet->path->source, &packet->path->destination, packet->headers,
		   packet->headers_length);
	if (fault->rules.by_message && flow->qpn == QPN_GSI &&
	    packet->payload_length == MAD_LENGTH && link_packet_payload(packet, mad))
		flow->message = fault_cm_message(flow, mad, sizeof(mad));
}

/* Not when the rules have been replaced since the packet was judged. */
static void note_sent(struct fault_link *fault, uint64_t captured, const struct bth *bth,
		      const struct rule_hits *hits)
{
	pthread_mutex_lock(&fault->lock);
	if (hits->generation == fault->generation)
		fault_note(fault, SENT, captured, bth, hits->rules);
	pthread_mutex_unlock(&fault->lock);
}

/* What becomes of one packet of a batch. */
struct plan {
	uint8_t copies; /* that leave now */
	uint8_t corrupt_bit;
	bool mark, lost;
	uint64_t hits, duplicates; /* as in the verdict */
	struct held *after;	   /* a list: what was held back until this one passed */
};

static struct held *packet_copy(struct fault_link *fault, const struct link_packet *packet,
				const struct flow *flow, const struct plan *plan)
{
	struct held *held = held_get(&fault->spare, packet->payload_length);
	uint8_t *end;
	uint32_t length;

	if (!held)
		return NULL;
	end = link_packet_payload(packet, held->bytes);
	if (!end) {
		held_put(&fault->spare, held);
		return NULL;
	}
	length = end - held->bytes;
	held->flow = *flow;
	held->path = *packet->path;
	if (plan->mark)
		held->path.traffic_class = ecn_mark(held->path.traffic_class);
	held->payload = (struct iovec){held->bytes, length};
	held->packet = *packet;
	held->packet.path = &held->path;
	held->packet.payload = &held->payload;
	held->packet.payload_count = length > 0;
	held->packet.corrupt_bit = plan->corrupt_bit;
	held->hits = (struct rule_hits){plan->hits, fault->generation};
	return held;
}

static uint8_t pick_corrupt_bit(const struct link_packet *packet, const struct verdict *verdict)
{
	uint32_t length = packet->headers_length;
	uint64_t random = verdict->random;

	if (!verdict->corrupt)
		return packet->corrupt_bit;
	/* link_packet.corrupt_bit reaches 255 bits. */
	return 1 + icrc_covered_bit(&random, length < 31 ? length : 31);
}

/* All that are planned. */
static void hold_copies(struct fault_link *fault, const struct link_packet *packet,
			const struct flow *flow, struct plan *plan, uint64_t due)
{
	for (; plan->copies; plan->copies--) {
		struct held *copy = packet_copy(fault, packet, flow, plan);

		if (copy)
			lane_delay(&fault->lanes[SENT], copy, due);
		plan->hits |= plan->duplicates;
	}
}

static struct plan plan_packet(struct fault_link *fault, const struct link_packet *packet,
			       uint64_t now)
{
	struct lane *lane = &fault->lanes[SENT];
	struct verdict verdict;
	struct held *copy, *passed;
	struct plan plan;
	struct flow flow;

	packet_flow(&flow, fault, packet);
	verdict = fault_rules_judge(&fault->rules, SENT, &flow);
	plan = (struct plan){
		.copies = 1 + verdict.duplicate,
		.corrupt_bit = pick_corrupt_bit(packet, &verdict),
		.mark = verdict.mark,
		.hits = verdict.hits,
		.duplicates = verdict.duplicates,
	};
	if (verdict.drop)
		return (struct plan){.lost = true, .hits = verdict.hits};
	if (verdict.delay) {
		hold_copies(fault, packet, &flow, &plan, now + verdict.delay);
		return plan;
	}
	passed = lane_find_swapped(lane, &flow);
	if (passed) {
		DL_DELETE(lane->swapped, passed);
		DL_APPEND(plan.after, passed);
	} else if (verdict.reorder) {
		plan.copies--;
		copy = packet_copy(fault, packet, &flow, &plan);
		if (copy)
			lane_swap(lane, copy, now);
		plan.hits |= plan.duplicates;
	}
	return plan;
}

static unsigned int inner_send(struct fault_link *fault, struct link_packet *packets,
			       unsigned int count, uint64_t now)
{
	count = count ? fault->inner->ops->send(fault->inner, packets, count, now) : 0;
	fault_note_loss(fault);
	return count;
}

/* Returns whether it was refused. */
static bool send_noted(struct fault_link *fault, struct link_packet *packet,
		       const struct rule_hits *hits, uint64_t now)
{
	/* As it was: what is to be corrupted is corrupted in place. */
	const struct bth bth = bth_of(packet->headers, packet->headers_length);
	bool refused;

	packet->captured = 0;
	refused = inner_send(fault, packet, 1, now) > 0;
	if (fault->link.capture)
		note_sent(fault, packet->captured, &bth, hits);
	return refused;
}

static void capture_lost(struct fault_link *fault, const struct link_packet *packet,
			 const struct rule_hits *hits)
{
	const struct bth bth = bth_of(packet->headers, packet->headers_length);
	struct link_packet copy = *packet;

	if (!fault->link.capture || !fault->inner->ops->capture)
		return;
	copy.captured = 0;
	fault->inner->ops->capture(fault->inner, &copy);
	note_sent(fault, copy.captured, &bth, hits);
}

void fault_send_held(struct fault_link *fault, struct held **list, uint64_t now)
{
	struct held *held;

	if (!*list)
		return;
	DL_FOREACH (*list, held)
		send_noted(fault, &held->packet, &held->hits, now);
	pthread_mutex_lock(&fault->lock);
	held_put_all(&fault->spare, list);
	pthread_mutex_unlock(&fault->lock);
}

/*
 * By the rules of @generation. The link may seal in place and flip the bit there: every copy is
 * sent from its own. Returns whether one of them was refused.
 */
static bool send_planned(struct fault_link *fault, const struct link_packet *packet,
			 struct plan *plan, uint32_t generation, uint64_t now)
{
	struct rule_hits hits = {plan->hits, generation};
	struct path path = *packet->path;
	struct link_packet copy;
	bool refused = false;

	if (plan->mark)
		path.traffic_class = ecn_mark(path.traffic_class);
	for (; plan->copies; plan->copies--) {
		copy = *packet;
		copy.path = &path;
		copy.corrupt_bit = plan->corrupt_bit;
		refused |= send_noted(fault, &copy, &hits, now);
		hits.rules |= plan->duplicates;
	}
	if (plan->lost)
		capture_lost(fault, packet, &hits);
	fault_send_held(fault, &plan->after, now);
	return refused;
}

static unsigned int send_chunk(struct fault_link *fault, struct link_packet *packets,
			       unsigned int count, uint64_t now)
{
	struct plan plans[CHUNK];
	struct held *due = NULL;
	unsigned int i, first = 0, refused = 0;
	uint32_t generation;

	pthread_mutex_lock(&fault->lock);
	generation = fault->generation;
	lane_take_due(&fault->lanes[SENT], now, &due, UINT32_MAX);
	for (i = 0; i < count; i++)
		plans[i] = plan_packet(fault, &packets[i], now);
	pthread_mutex_unlock(&fault->lock);

	fault_send_held(fault, &due, now);
	for (i = 0; i < count; i++) {
		if (plans[i].copies == 1 && plans[i].corrupt_bit == packets[i].corrupt_bit &&
		    !plans[i].mark && !plans[i].after)
			continue;
		/*
		 * Those before and behind it leave as one super-packet all the same, as where the
		 * network loses it. Not when capturing, for the order there.
		 */
		if (plans[i].lost && !fault->link.capture) {
			memmove(&packets[first + 1], &packets[first],
				(i - first) * sizeof(packets[0]));
			first++;
			continue;
		}
		refused += inner_send(fault, packets + first, i - first, now);
		refused += send_planned(fault, &packets[i], &plans[i], generation, now);
		first = i + 1;
	}
	return refused + inner_send(fault, packets + first, count - first, now);
}

unsigned int fault_link_send(struct link *link, struct link_packet *packets, unsigned int count,
			     uint64_t now)
{
	struct fault_link *fault = (struct fault_link *)link;
	unsigned int i, n, refused = 0;

	if (fault_is_idle(fault))
		return inner_send(fault, packets, count, now);
	for (i = 0; i < count; i += n) {
		n = count - i < CHUNK ? count - i : CHUNK;
		refused += send_chunk(fault, packets + i, n, now);
	}
	return refused;
}
