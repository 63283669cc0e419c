/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The fault filter. Every packet is shown to every rule of its direction; the
 * rules that hit make up its verdict, which is then carried out: on link_packets
 * when sending, on frames when receiving. What must outlive the call (delayed,
 * held back, duplicated beyond the caller's array) is copied. Each fault is noted beside the
 * capture, where there is one: a packet that is dropped when sent is captured for that alone.
 *
 * Called like any link. The lock protects the rules and the lanes; it is not
 * held while the inner link sends or receives. @lent belongs to receive(), which
 * is called by one thread at a time. As long as there has been no rule the filter is idle: packets
 * go to the inner link and back without the lock.
 */
#include "net/fault/fault.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <utlist.h>

#include "net/capture.h"
#include "net/fault/fault_lane.h"
#include "net/fault/fault_rules.h"
#include "net/fault/injector.h"
#include "net/wire/icrc.h"
#include "net/wire/mad.h"

/* Packets judged under one hold of the lock. Their plans are on an application's stack. */
#define CHUNK 32

#define NOTE_LENGTH 400

struct fault_link {
	struct link link;
	struct link *inner;
	struct injector *injector;   /* whose specification the rules are of; NULL: they stay */
	_Atomic uint32_t generation; /* that it had when they were read */
	_Atomic bool filters;	     /* there is or was a rule */
	pthread_mutex_t lock;
	struct lane lanes[2];
	struct held *lent; /* copies given out by the last receive() */
	struct fault_rules rules;
};

static void note_loss(struct fault_link *fault)
{
	if (atomic_load_explicit(&fault->inner->lost, memory_order_relaxed))
		atomic_store(&fault->link.lost, true);
}

/* --- Packets of either kind -------------------------------------------------- */

/* The message of the connection manager that a UD packet to QP 1 is, or 0: IBA 13.5.3, 12.6. */
static uint16_t cm_message(const struct flow *flow, const uint8_t *mad, uint32_t length)
{
	struct mad_header header;

	if (flow->qpn != QPN_GSI || length < MAD_LENGTH)
		return 0;
	memcpy(&header, mad, sizeof(header));
	return header.class == MAD_CLASS_CM ? be16toh(header.attribute) : 0;
}

static struct flow flow_of(const union ibv_gid *source, const union ibv_gid *destination,
			   const uint8_t *data, uint32_t length)
{
	struct flow flow = {*source, *destination, OPCODE_UNKNOWN};
	struct bth bth;

	if (length < sizeof(bth))
		return flow;
	memcpy(&bth, data, sizeof(bth));
	flow.opcode = bth.opcode;
	flow.qpn = be32toh(bth.dest_qp) & QPN_MASK;
	return flow;
}

static struct flow packet_flow(const struct fault_link *fault, const struct link_packet *packet)
{
	struct flow flow = flow_of(&packet->path->source, &packet->path->destination,
				   packet->headers, packet->headers_length);
	uint8_t mad[MAD_LENGTH];

	if (fault->rules.by_message && flow.qpn == QPN_GSI &&
	    packet->payload_length == MAD_LENGTH && link_packet_payload(packet, mad))
		flow.message = cm_message(&flow, mad, sizeof(mad));
	return flow;
}

static struct flow frame_flow(const struct fault_link *fault, const struct link_frame *frame)
{
	const uint32_t headers = sizeof(struct bth) + sizeof(struct deth);
	struct flow flow = flow_of(&frame->source, &frame->destination, frame->data, frame->length);

	if (fault->rules.by_message && frame->length > headers)
		flow.message = cm_message(&flow, frame->data + headers, frame->length - headers);
	return flow;
}

/* --- Rules that are replaced -------------------------------------------------------------- */

/* Without memory the rules stay as they are, until the next packet. */
static void read_rules(struct fault_link *fault)
{
	struct fault_rules rules;
	uint32_t generation;

	pthread_mutex_lock(&fault->lock);
	if (injector_read_rules(fault->injector, &rules, &generation) == 0) {
		fault_rules_report(&fault->rules);
		fault_rules_destroy(&fault->rules);
		fault->rules = rules;
		lane_forget_hits(&fault->lanes[SENT]);
		if (rules.any)
			atomic_store_explicit(&fault->filters, true, memory_order_relaxed);
		atomic_store_explicit(&fault->generation, generation, memory_order_relaxed);
	}
	pthread_mutex_unlock(&fault->lock);
}

static inline bool is_idle(struct fault_link *fault)
{
	if (fault->injector &&
	    atomic_load_explicit(&fault->injector->generation, memory_order_relaxed) !=
		    atomic_load_explicit(&fault->generation, memory_order_relaxed))
		read_rules(fault);
	return !atomic_load_explicit(&fault->filters, memory_order_relaxed);
}

/* --- Notes beside the capture ---------------------------------------------------------- */

static struct bth bth_of(const uint8_t *data, uint32_t length)
{
	struct bth bth = {};

	memcpy(&bth, data, length < sizeof(bth) ? length : sizeof(bth));
	return bth;
}

/* The rules @hits hit the packet that was captured at @captured. The lock is held. */
static void note(const struct fault_link *fault, enum direction direction, uint64_t captured,
		 const struct bth *bth, uint64_t hits)
{
	const struct opcode *op = opcode_find(bth->opcode);
	char text[NOTE_LENGTH];
	int at;

	if (!hits || !captured)
		return;
	at = snprintf(text, sizeof(text),
		      "%s %s QP 0x%x PSN %u: ", direction == SENT ? "sent" : "received",
		      op ? op->name : "packet", be32toh(bth->dest_qp) & QPN_MASK,
		      be32toh(bth->psn) & PSN_MASK);
	fault_rules_describe(&fault->rules, hits, text + at, sizeof(text) - at);
	capture_fault(fault->link.capture, captured, text);
}

static void note_sent(struct fault_link *fault, uint64_t captured, const struct bth *bth,
		      uint64_t hits)
{
	pthread_mutex_lock(&fault->lock);
	note(fault, SENT, captured, bth, hits);
	pthread_mutex_unlock(&fault->lock);
}

static void note_received(const struct fault_link *fault, const struct link_frame *frame,
			  const struct verdict *verdict)
{
	struct bth bth;

	if (!fault->link.capture)
		return;
	bth = bth_of(frame->data, frame->length);
	note(fault, RECEIVED, frame->captured, &bth, verdict->hits | verdict->duplicates);
}

/* --- Sending --------------------------------------------------------------------------- */

/* What becomes of one packet of a batch. */
struct plan {
	uint8_t copies; /* that leave now */
	uint8_t corrupt_bit;
	bool mark, lost;
	uint64_t hits, duplicates; /* as in the verdict */
	struct held *after;	   /* was held back until this one passed */
};

static struct held *packet_copy(const struct link_packet *packet, const struct flow *flow,
				const struct plan *plan)
{
	struct held *held = malloc(sizeof(*held) + packet->payload_length);
	uint8_t *end;
	uint32_t length;

	if (!held)
		return NULL;
	end = link_packet_payload(packet, held->bytes);
	if (!end) {
		free(held);
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
	held->hits = plan->hits;
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

static struct plan plan_packet(struct fault_link *fault, const struct link_packet *packet,
			       uint64_t now)
{
	struct lane *lane = &fault->lanes[SENT];
	struct flow flow = packet_flow(fault, packet);
	struct verdict verdict = fault_rules_judge(&fault->rules, SENT, &flow);
	struct plan plan = {.copies = 1 + verdict.duplicate,
			    .corrupt_bit = pick_corrupt_bit(packet, &verdict),
			    .mark = verdict.mark,
			    .hits = verdict.hits,
			    .duplicates = verdict.duplicates};
	struct held *copy;

	if (verdict.drop)
		return (struct plan){.lost = true, .hits = verdict.hits};
	if (verdict.delay) {
		for (; plan.copies; plan.copies--) {
			copy = packet_copy(packet, &flow, &plan);
			if (copy)
				lane_delay(lane, copy, now + verdict.delay);
			plan.hits |= plan.duplicates;
		}
		return plan;
	}
	plan.after = lane_find_swapped(lane, &flow);
	if (plan.after) {
		DL_DELETE(lane->swapped, plan.after);
	} else if (verdict.reorder) {
		plan.copies--;
		copy = packet_copy(packet, &flow, &plan);
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
	note_loss(fault);
	return count;
}

/* Returns whether it was refused. */
static bool send_noted(struct fault_link *fault, struct link_packet *packet, uint64_t hits,
		       uint64_t now)
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

static void capture_lost(struct fault_link *fault, const struct link_packet *packet, uint64_t hits)
{
	const struct bth bth = bth_of(packet->headers, packet->headers_length);
	struct link_packet copy = *packet;

	if (!fault->link.capture || !fault->inner->ops->capture)
		return;
	copy.captured = 0;
	fault->inner->ops->capture(fault->inner, &copy);
	note_sent(fault, copy.captured, &bth, hits);
}

static void send_held(struct fault_link *fault, struct held **list, uint64_t now)
{
	struct held *held;

	DL_FOREACH (*list, held)
		send_noted(fault, &held->packet, held->hits, now);
	held_free(list);
}

/*
 * The link may seal in place and flip the bit there: every copy is sent from its own.
 * Returns whether one of them was refused.
 */
static bool send_planned(struct fault_link *fault, const struct link_packet *packet,
			 struct plan *plan, uint64_t now)
{
	struct path path = *packet->path;
	struct link_packet copy;
	bool refused = false;

	if (plan->mark)
		path.traffic_class = ecn_mark(path.traffic_class);
	for (; plan->copies; plan->copies--) {
		copy = *packet;
		copy.path = &path;
		copy.corrupt_bit = plan->corrupt_bit;
		refused |= send_noted(fault, &copy, plan->hits, now);
		plan->hits |= plan->duplicates;
	}
	if (plan->lost)
		capture_lost(fault, packet, plan->hits);
	if (plan->after) {
		send_noted(fault, &plan->after->packet, plan->after->hits, now);
		free(plan->after);
	}
	return refused;
}

static unsigned int send_chunk(struct fault_link *fault, struct link_packet *packets,
			       unsigned int count, uint64_t now)
{
	struct plan plans[CHUNK];
	struct held *due = NULL;
	unsigned int i, first = 0, refused = 0;

	pthread_mutex_lock(&fault->lock);
	lane_take_due(&fault->lanes[SENT], now, &due, UINT32_MAX);
	for (i = 0; i < count; i++)
		plans[i] = plan_packet(fault, &packets[i], now);
	pthread_mutex_unlock(&fault->lock);

	send_held(fault, &due, now);
	for (i = 0; i < count; i++) {
		if (plans[i].copies == 1 && plans[i].corrupt_bit == packets[i].corrupt_bit &&
		    !plans[i].mark && !plans[i].after)
			continue;
		refused += inner_send(fault, packets + first, i - first, now);
		refused += send_planned(fault, &packets[i], &plans[i], now);
		first = i + 1;
	}
	return refused + inner_send(fault, packets + first, count - first, now);
}

static unsigned int fault_link_send(struct link *link, struct link_packet *packets,
				    unsigned int count, uint64_t now)
{
	struct fault_link *fault = (struct fault_link *)link;
	unsigned int i, n, refused = 0;

	if (is_idle(fault))
		return inner_send(fault, packets, count, now);
	for (i = 0; i < count; i += n) {
		n = count - i < CHUNK ? count - i : CHUNK;
		refused += send_chunk(fault, packets + i, n, now);
	}
	return refused;
}

/* --- Receiving ------------------------------------------------------------------------- */

static struct held *frame_copy(const struct link_frame *frame, const struct flow *flow,
			       const struct verdict *verdict)
{
	struct held *held = malloc(sizeof(*held) + frame->length);

	if (!held)
		return NULL;
	memcpy(held->bytes, frame->data, frame->length);
	held->flow = *flow;
	held->frame = *frame;
	held->frame.data = held->bytes;
	if (verdict->corrupt && frame->length) {
		uint64_t random = verdict->random;
		uint32_t bit = icrc_covered_bit(&random, frame->length);

		held->bytes[bit / 8] ^= 1u << bit % 8;
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

static void filter_frame(struct filter *filter)
{
	struct link_frame frame = filter->frames[filter->next++];
	struct lane *lane = &filter->fault->lanes[RECEIVED];
	struct flow flow = frame_flow(filter->fault, &frame);
	struct verdict verdict = fault_rules_judge(&filter->fault->rules, RECEIVED, &flow);
	unsigned int copies = 1 + verdict.duplicate;
	struct held *passed, *copy;

	note_received(filter->fault, &frame, &verdict);
	if (verdict.drop)
		return;
	if (verdict.mark)
		frame.traffic_class = ecn_mark(frame.traffic_class);
	if (verdict.delay) {
		for (; copies; copies--) {
			copy = frame_copy(&frame, &flow, &verdict);
			if (copy)
				lane_delay(lane, copy, filter->now + verdict.delay);
		}
		return;
	}
	passed = lane_find_swapped(lane, &flow);
	if (passed) {
		DL_DELETE(lane->swapped, passed);
	} else if (verdict.reorder) {
		copies--;
		copy = frame_copy(&frame, &flow, &verdict);
		if (copy)
			lane_swap(lane, copy, filter->now);
	}
	if (copies && !verdict.corrupt) {
		filter->frames[filter->kept++] = frame;
		copies--;
	}
	for (; copies; copies--)
		filter_keep(filter, frame_copy(&frame, &flow, &verdict));
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

static unsigned int fault_link_receive(struct link *link, struct link_frame *frames,
				       unsigned int max, uint64_t now)
{
	struct fault_link *fault = (struct fault_link *)link;
	unsigned int late = 0, count = 0;
	struct held *due = NULL, *held;

	if (is_idle(fault)) {
		count = fault->inner->ops->receive(fault->inner, frames, max, now);
		note_loss(fault);
		return count;
	}
	held_free(&fault->lent);
	pthread_mutex_lock(&fault->lock);
	lane_take_due(&fault->lanes[SENT], now, &due, UINT32_MAX);
	lane_take_due(&fault->lanes[RECEIVED], now, &fault->lent, max);
	pthread_mutex_unlock(&fault->lock);

	send_held(fault, &due, now);
	DL_FOREACH (fault->lent, held)
		frames[late++] = held->frame;
	if (late == max)
		return late;

	count = fault->inner->ops->receive(fault->inner, frames + late, max - late, now);
	note_loss(fault);
	pthread_mutex_lock(&fault->lock);
	count = filter_frames(fault, frames + late, count, max - late, now);
	pthread_mutex_unlock(&fault->lock);
	return late + count;
}

/* --- The rest of a link ------------------------------------------------------------- */

static uint64_t fault_link_deadline(struct link *link)
{
	struct fault_link *fault = (struct fault_link *)link;
	uint64_t deadline = fault->inner->ops->deadline(fault->inner);
	unsigned int i;

	if (is_idle(fault))
		return deadline;
	pthread_mutex_lock(&fault->lock);
	for (i = 0; i < 2; i++) {
		uint64_t lane = lane_deadline(&fault->lanes[i]);

		deadline = lane < deadline ? lane : deadline;
	}
	pthread_mutex_unlock(&fault->lock);
	return deadline;
}

static uint32_t fault_link_rcvbuf_space(struct link *link, const struct path *path, uint32_t qpn)
{
	struct link *inner = ((struct fault_link *)link)->inner;

	return inner->ops->rcvbuf_space(inner, path, qpn);
}

static uint32_t fault_link_unread(struct link *link, const struct path *path, uint32_t qpn)
{
	struct link *inner = ((struct fault_link *)link)->inner;

	return inner->ops->unread(inner, path, qpn);
}

static void fault_link_describe_peer(struct link *link, const struct path *path, uint32_t qpn,
				     struct link_peer *peer)
{
	struct link *inner = ((struct fault_link *)link)->inner;

	if (inner->ops->describe_peer)
		inner->ops->describe_peer(inner, path, qpn, peer);
}

static uint32_t fault_link_sndbuf_space(struct link *link, const union ibv_gid *source)
{
	struct link *inner = ((struct fault_link *)link)->inner;

	return inner->ops->sndbuf_space ? inner->ops->sndbuf_space(inner, source) : UINT32_MAX;
}

static int fault_link_add_address(struct link *link, const union ibv_gid *gid)
{
	struct link *inner = ((struct fault_link *)link)->inner;

	return inner->ops->add_address(inner, gid);
}

static int fault_link_join(struct link *link, const union ibv_gid *group,
			   const union ibv_gid *source)
{
	struct link *inner = ((struct fault_link *)link)->inner;

	return inner->ops->join(inner, group, source);
}

static void fault_link_leave(struct link *link, const union ibv_gid *group)
{
	struct link *inner = ((struct fault_link *)link)->inner;

	inner->ops->leave(inner, group);
}

static void fault_link_receive_ttl(struct link *link)
{
	struct link *inner = ((struct fault_link *)link)->inner;

	if (inner->ops->receive_ttl)
		inner->ops->receive_ttl(inner);
}

static enum link_sender fault_link_sender(struct link *link, const struct link_frame *frame)
{
	struct link *inner = ((struct fault_link *)link)->inner;

	return inner->ops->sender ? inner->ops->sender(inner, frame) : LINK_SENDER_UNKNOWN;
}

static unsigned int fault_link_descriptors(struct link *link, int *fds, unsigned int max)
{
	struct link *inner = ((struct fault_link *)link)->inner;

	return inner->ops->descriptors(inner, fds, max);
}

static void fault_free(struct fault_link *fault)
{
	pthread_mutex_destroy(&fault->lock);
	fault_rules_destroy(&fault->rules);
	free(fault);
}

static void fault_link_after_fork_child(struct link *link)
{
	struct link *inner = ((struct fault_link *)link)->inner;

	if (inner->ops->after_fork_child)
		inner->ops->after_fork_child(inner);
}

/* What is held back still leaves: a wire doesn't forget packets when their sender exits. */
static void fault_link_close(struct link *link)
{
	struct fault_link *fault = (struct fault_link *)link;

	send_held(fault, &fault->lanes[SENT].delayed, 0);
	send_held(fault, &fault->lanes[SENT].swapped, 0);
	held_free(&fault->lanes[RECEIVED].delayed);
	held_free(&fault->lanes[RECEIVED].swapped);
	held_free(&fault->lent);
	fault_rules_report(&fault->rules);
	fault->inner->ops->close(fault->inner);
	fault_free(fault);
}

static const struct link_ops fault_link_ops = {
	.send = fault_link_send,
	.receive = fault_link_receive,
	.deadline = fault_link_deadline,
	.rcvbuf_space = fault_link_rcvbuf_space,
	.unread = fault_link_unread,
	.describe_peer = fault_link_describe_peer,
	.sndbuf_space = fault_link_sndbuf_space,
	.add_address = fault_link_add_address,
	.join = fault_link_join,
	.leave = fault_link_leave,
	.receive_ttl = fault_link_receive_ttl,
	.sender = fault_link_sender,
	.descriptors = fault_link_descriptors,
	.after_fork_child = fault_link_after_fork_child,
	.close = fault_link_close,
};

static struct fault_link *make(struct link *inner)
{
	struct fault_link *fault = calloc(1, sizeof(*fault));

	if (!fault)
		return NULL;
	pthread_mutex_init(&fault->lock, NULL);
	fault->link.ops = &fault_link_ops;
	/* Forwarded frames pass no wire, on which something could happen to them. */
	fault->link.share = inner->share;
	fault->link.capture = inner->capture;
	fault->inner = inner;
	return fault;
}

int fault_link_create(struct link *inner, const char *specification, struct link **link,
		      struct fault_error *error)
{
	struct fault_link *fault = make(inner);
	int status;

	if (!fault)
		return ENOMEM;
	status = fault_rules_read(&fault->rules, specification, error);
	if (status) {
		fault_free(fault);
		return status;
	}
	fault->filters = true;
	*link = &fault->link;
	return 0;
}

int fault_link_follow(struct link *inner, struct injector *injector, struct link **link)
{
	struct fault_link *fault = make(inner);

	if (!fault)
		return ENOMEM;
	fault->injector = injector;
	read_rules(fault);
	*link = &fault->link;
	return 0;
}

void fault_link_for_each(struct link *link,
			 void (*show)(void *context, const struct fault_clause *clause),
			 void *context)
{
	struct fault_link *fault = (struct fault_link *)link;

	is_idle(fault); /* reads what has been replaced since the last packet */
	pthread_mutex_lock(&fault->lock);
	for (unsigned int i = 0; i < fault->rules.clauses.count; i++) {
		if (fault_clause_subject(&fault->rules.clauses.list[i]) == SUBJECT_PACKET)
			show(context, &fault->rules.clauses.list[i]);
	}
	pthread_mutex_unlock(&fault->lock);
}

void fault_link_report(struct link *link)
{
	struct fault_link *fault = (struct fault_link *)link;

	if (pthread_mutex_trylock(&fault->lock) != 0)
		return;
	fault_rules_report(&fault->rules);
	pthread_mutex_unlock(&fault->lock);
}
