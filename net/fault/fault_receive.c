/* SPDX-License-Identifier: BSD-2-Clause */
/* Receiving through the fault filter: frames are judged and filtered in place. */
#include "net/fault/fault_link.h"

#include <utlist.h>

#include "net/wire/icrc.h"

static void frame_flow(struct flow *flow, const struct fault_link *fault,
		       const struct link_frame *frame)
{
	const uint32_t headers = sizeof(struct bth) + sizeof(struct deth);

	fault_flow(flow, &frame->source, &frame->destination, frame->data, frame->length);
	if (fault->rules.by_message && frame->length > headers)
		flow->message =
			fault_cm_message(flow, frame->data + headers, frame->length - headers);
}

static void note_received(const struct fault_link *fault, const struct link_frame *frame,
			  const struct verdict *verdict)
{
	struct bth bth;

	if (!fault->link.capture)
		return;
	bth = bth_of(frame->data, frame->length);
	fault_note(fault, RECEIVED, frame->captured, &bth, verdict->hits | verdict->duplicates);
}

static struct held *frame_copy(struct fault_link *fault, const struct link_frame *frame,
			       const struct flow *flow, const struct verdict *verdict)
{
	struct held *held = held_get(&fault->spare, frame->length);

	if (!held)
		return NULL;
	memcpy(held->bytes, frame->data, frame->length);
	held->flow = *flow;
	held->frame = *frame;
	held->frame.data = held->bytes;
	held->frame.shared = false;
	if (verdict->corrupt && frame->length) {
		uint64_t random = verdict->random;
		uint32_t bit = icrc_covered_bit(&random, frame->length);

		held->bytes[bit / 8] ^= 1u << bit % 8;
		held->frame.trusted = false;
	}
	return held;
}

/* The caller's array while frames are filtered in place: [0, kept) is done, [next, ...) to come. */
struct filter {
	struct fault_link *fault;
	struct link_frame *frames;
	unsigned int kept, next;
	uint64_t now;
	struct held *surplus; /* copies that find no place before @next */
};

static void filter_keep(struct filter *filter, struct held *held)
{
	if (!held)
		return;
	if (filter->kept == filter->next) {
		DL_APPEND(filter->surplus, held);
		return;
	}
	filter->frames[filter->kept++] = held->frame;
	DL_APPEND(filter->fault->lent, held);
}

/* @copies of @frame, of which each comes later. */
static void delay_frame(struct filter *filter, const struct link_frame *frame,
			const struct flow *flow, const struct verdict *verdict, unsigned int copies)
{
	for (; copies; copies--) {
		struct held *copy = frame_copy(filter->fault, frame, flow, verdict);

		if (copy)
			lane_delay(&filter->fault->lanes[RECEIVED], copy,
				   filter->now + verdict->delay);
	}
}

static void filter_frame(struct filter *filter)
{
	struct link_frame frame = filter->frames[filter->next++];
	struct lane *lane = &filter->fault->lanes[RECEIVED];
	struct held *passed, *copy;
	struct verdict verdict;
	unsigned int copies;
	struct flow flow;

	if (frame.message) { /* of another process of this machine: on no wire */
		filter->frames[filter->kept++] = frame;
		return;
	}
	frame_flow(&flow, filter->fault, &frame);
	verdict = fault_rules_judge(&filter->fault->rules, RECEIVED, &flow);
	copies = 1 + verdict.duplicate;
	note_received(filter->fault, &frame, &verdict);
	if (verdict.drop)
		return;
	if (verdict.mark)
		frame.traffic_class = ecn_mark(frame.traffic_class);
	if (verdict.delay) {
		delay_frame(filter, &frame, &flow, &verdict, copies);
		return;
	}
	passed = lane_find_swapped(lane, &flow);
	if (passed) {
		DL_DELETE(lane->swapped, passed);
	} else if (verdict.reorder) {
		copies--;
		copy = frame_copy(filter->fault, &frame, &flow, &verdict);
		if (copy)
			lane_swap(lane, copy, filter->now);
	}
	if (copies && !verdict.corrupt) {
		filter->frames[filter->kept++] = frame;
		copies--;
	}
	for (; copies; copies--)
		filter_keep(filter, frame_copy(filter->fault, &frame, &flow, &verdict));
	filter_keep(filter, passed);
}

/* Filter @count frames in an array for @max. Returns how many are there now. */
static unsigned int filter_frames(struct fault_link *fault, struct link_frame *frames,
				  unsigned int count, unsigned int max, uint64_t now)
{
	struct filter filter = {.fault = fault, .frames = frames, .now = now};
	struct held *held, *next;

	while (filter.next < count)
		filter_frame(&filter);
	filter.next = max;
	DL_FOREACH_SAFE (filter.surplus, held, next) {
		DL_DELETE(filter.surplus, held);
		if (filter.kept < max)
			filter_keep(&filter, held);
		else
			lane_delay(&fault->lanes[RECEIVED], held, now);
	}
	return filter.kept;
}

static unsigned int inner_receive(struct fault_link *fault, struct link_frame *frames,
				  unsigned int max, uint64_t now)
{
	unsigned int count = fault->inner->ops->receive(fault->inner, frames, max, now);

	/* Fewer may be left of them than the caller has space for. */
	fault->link.more = fault->inner->more || count == max;
	fault_note_loss(fault);
	return count;
}

unsigned int fault_link_receive(struct link *link, struct link_frame *frames, unsigned int max,
				uint64_t now)
{
	struct fault_link *fault = (struct fault_link *)link;
	unsigned int late = 0, count = 0;
	struct held *due = NULL, *held;

	if (fault_is_idle(fault))
		return inner_receive(fault, frames, max, now);
	pthread_mutex_lock(&fault->lock);
	held_put_all(&fault->spare, &fault->lent);
	lane_take_due(&fault->lanes[SENT], now, &due, UINT32_MAX);
	lane_take_due(&fault->lanes[RECEIVED], now, &fault->lent, max);
	pthread_mutex_unlock(&fault->lock);

	fault_send_held(fault, &due, now);
	DL_FOREACH (fault->lent, held)
		frames[late++] = held->frame;
	if (late == max)
		return late;

	count = inner_receive(fault, frames + late, max - late, now);
	pthread_mutex_lock(&fault->lock);
	if (fault->rules.any[RECEIVED] || fault->lanes[RECEIVED].swapped)
		count = filter_frames(fault, frames + late, count, max - late, now);
	pthread_mutex_unlock(&fault->lock);
	return late + count;
}
