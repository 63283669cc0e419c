/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The fault filter. Every packet is shown to every rule of its direction; the
 * rules that hit make up its verdict, which is then carried out: on link_packets
 * when sending, on frames when receiving. What must outlive the call (delayed,
 * held back, duplicated beyond the caller's array) is copied. Each fault is noted beside the
 * capture, where there is one: a packet that is dropped when sent is captured for that alone.
 *
 * Called like any link. As long as there has been no rule the filter is idle: packets go to the
 * inner link and back without the lock (net/fault/fault_link.h).
 */
#include "net/fault/fault.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "net/capture.h"
#include "net/fault/fault_link.h"
#include "net/wire/mad.h"

#define NOTE_LENGTH 400

/* --- Packets of either kind -------------------------------------------------- */

/* The message of the connection manager that a UD packet to QP 1 is, or 0: IBA 13.5.3, 12.6. */
uint16_t fault_cm_message(const struct flow *flow, const uint8_t *mad, uint32_t length)
{
	struct mad_header header;

	if (flow->qpn != QPN_GSI || length < MAD_LENGTH)
		return 0;
	memcpy(&header, mad, sizeof(header));
	return header.class == MAD_CLASS_CM ? be16toh(header.attribute) : 0;
}

void fault_flow(struct flow *flow, const union ibv_gid *source, const union ibv_gid *destination,
		const uint8_t *data, uint32_t length)
{
	struct bth bth;

	*flow = (struct flow){*source, *destination, OPCODE_UNKNOWN};
	if (length < sizeof(bth))
		return;
	memcpy(&bth, data, sizeof(bth));
	flow->opcode = bth.opcode;
	flow->qpn = be32toh(bth.dest_qp) & QPN_MASK;
}

/* --- Rules that are replaced -------------------------------------------------------------- */

/*
 * Another thread may have read them meanwhile: once more, and they would count anew. Without memory
 * the rules stay as they are, until the next packet.
 */
void fault_read_rules(struct fault_link *fault)
{
	struct fault_rules rules;
	uint32_t generation;

	pthread_mutex_lock(&fault->lock);
	if (!fault_rules_are_current(fault) &&
	    injector_read_rules(fault->injector, &rules, &generation) == 0) {
		fault_rules_report(&fault->rules);
		fault_rules_destroy(&fault->rules);
		fault->rules = rules;
		if (rules.any[SENT] || rules.any[RECEIVED])
			atomic_store_explicit(&fault->filters, true, memory_order_relaxed);
		atomic_store_explicit(&fault->generation, generation, memory_order_release);
	}
	pthread_mutex_unlock(&fault->lock);
}

/* --- Notes beside the capture ---------------------------------------------------------- */

void fault_note(const struct fault_link *fault, enum direction direction, uint64_t captured,
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

/* --- The rest of a link ------------------------------------------------------------- */

static uint64_t fault_link_deadline(struct link *link)
{
	struct fault_link *fault = (struct fault_link *)link;
	uint64_t deadline = fault->inner->ops->deadline(fault->inner);

	if (fault_is_idle(fault))
		return deadline;
	pthread_mutex_lock(&fault->lock);
	for (unsigned int i = 0; i < 2; i++)
		deadline = earlier(deadline, lane_deadline(&fault->lanes[i]));
	pthread_mutex_unlock(&fault->lock);
	return deadline;
}

static uint64_t fault_link_prepare_sleep(struct link *link)
{
	struct link *inner = ((struct fault_link *)link)->inner;

	return inner->ops->prepare_sleep ? inner->ops->prepare_sleep(inner) : TIME_NEVER;
}

static uint32_t fault_link_capacity(struct link *link, const struct path *path, uint32_t qpn)
{
	struct link *inner = ((struct fault_link *)link)->inner;

	return inner->ops->capacity ? inner->ops->capacity(inner, path, qpn) : UINT32_MAX;
}

static uint32_t fault_link_rcvbuf_space(struct link *link, const struct path *path, uint32_t qpn)
{
	struct link *inner = ((struct fault_link *)link)->inner;

	return inner->ops->rcvbuf_space(inner, path, qpn);
}

static uint32_t fault_link_unread(struct link *link, const struct path *path, uint32_t qpn,
				  uint64_t *read)
{
	struct link *inner = ((struct fault_link *)link)->inner;

	return inner->ops->unread(inner, path, qpn, read);
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

static int fault_link_add_address(struct link *link, const union ibv_gid *gid,
				  unsigned int interface)
{
	struct link *inner = ((struct fault_link *)link)->inner;

	return inner->ops->add_address(inner, gid, interface);
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

static void fault_link_receive_grh(struct link *link)
{
	link_receive_grh(((struct fault_link *)link)->inner);
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

static void fault_link_at_exit(struct link *link)
{
	struct link *inner = ((struct fault_link *)link)->inner;

	if (inner->ops->at_exit)
		inner->ops->at_exit(inner);
}

/* What is held back still leaves: a wire doesn't forget packets when their sender exits. */
static void fault_link_close(struct link *link)
{
	struct fault_link *fault = (struct fault_link *)link;

	fault_send_held(fault, &fault->lanes[SENT].delayed, 0);
	fault_send_held(fault, &fault->lanes[SENT].swapped, 0);
	held_free(&fault->lanes[RECEIVED].delayed);
	held_free(&fault->lanes[RECEIVED].swapped);
	held_free(&fault->lent);
	held_free(&fault->spare);
	fault_rules_report(&fault->rules);
	fault->inner->ops->close(fault->inner);
	fault_free(fault);
}

static const struct link_ops fault_link_ops = {
	.send = fault_link_send,
	.receive = fault_link_receive,
	.deadline = fault_link_deadline,
	.prepare_sleep = fault_link_prepare_sleep,
	.capacity = fault_link_capacity,
	.rcvbuf_space = fault_link_rcvbuf_space,
	.unread = fault_link_unread,
	.describe_peer = fault_link_describe_peer,
	.sndbuf_space = fault_link_sndbuf_space,
	.add_address = fault_link_add_address,
	.join = fault_link_join,
	.leave = fault_link_leave,
	.receive_grh = fault_link_receive_grh,
	.sender = fault_link_sender,
	.descriptors = fault_link_descriptors,
	.after_fork_child = fault_link_after_fork_child,
	.at_exit = fault_link_at_exit,
	.close = fault_link_close,
};

static struct fault_link *make(struct link *inner)
{
	struct fault_link *fault = calloc(1, sizeof(*fault));

	if (!fault)
		return NULL;
	pthread_mutex_init(&fault->lock, NULL);
	fault->link.ops = &fault_link_ops;
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
	fault_read_rules(fault);
	*link = &fault->link;
	return 0;
}

void fault_link_for_each(struct link *link,
			 void (*show)(void *context, const struct fault_clause *clause),
			 void *context)
{
	struct fault_link *fault = (struct fault_link *)link;

	fault_is_idle(fault); /* reads what has been replaced since the last packet */
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
