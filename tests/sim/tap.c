/* SPDX-License-Identifier: BSD-2-Clause */
#include "tap.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "net/tuning.h"
#include "net/wire/gid.h"
#include "net/wire/icrc.h"

/* More than there are between the oldest packet and the newest. */
#define PSNS (1 << 14)

/* A request packet that was sent, or a packet of the responses that a READ asks for. */
struct sent {
	uint32_t psn, request; /* @request: the PSN of the READ */
	uint32_t psn_count;    /* of all of a request */
	uint8_t opcode;
	bool there;
	uint64_t digest;
	uint64_t va;
	uint32_t rkey, length;
};

/* A request packet that arrived. */
struct arrival {
	uint32_t psn;
	bool there, responds; /* READ, atomic, ...: by a response of its own */
	bool answered;
};

/* The packets of the responses to one READ request, repeated or not. */
struct range {
	uint32_t first, count;
};

#define RANGES 256
#define NO_PSN UINT32_MAX
#define INTERRUPTED 16

struct conversation {
	struct qp *qp;
	struct conversation *next;

	/* As the requester. */
	struct sent *sent; /* PSNS of them */
	uint32_t next_psn;
	const struct opcode *open; /* the latest packet of a message in progress */
	uint32_t oldest;
	unsigned int attempts;

	/* As the responder. */
	struct arrival *arrivals; /* likewise */
	uint32_t arrived;	  /* all before it did */
	uint32_t answered;	  /* all before it is */
	uint32_t acked;		  /* one beyond the latest that was acknowledged */
	bool nak_sent;
	uint32_t nak_psn;
	struct range ranges[RANGES];
	unsigned int range_count;
	uint32_t next_response;		   /* of the READ that is being answered, or NO_PSN */
	uint32_t interrupted[INTERRUPTED]; /* likewise, of others */
	unsigned int interruptions;
};

struct tap {
	struct link link; /* the HCA's */
	struct link *inner;
	struct node *node;
	struct tap_options options;
	struct conversation *conversations;
	struct tap_statistics statistics;
	uint64_t burst_until;
};

static struct tap *tap_of(struct link *link)
{
	return (struct tap *)link;
}

static uint64_t digest_of(const uint8_t *bytes, uint32_t length)
{
	uint64_t hash = 14695981039346656037u;

	for (; length >= 8; bytes += 8, length -= 8) {
		uint64_t word;

		memcpy(&word, bytes, 8);
		hash = (hash ^ word) * 1099511628211u;
		hash ^= hash >> 29;
	}
	for (; length; length--)
		hash = (hash ^ *bytes++) * 1099511628211u;
	return hash;
}

static struct sent *sent_at(struct conversation *c, uint32_t psn)
{
	return &c->sent[psn % PSNS];
}

static struct arrival *arrival_at(struct conversation *c, uint32_t psn)
{
	return &c->arrivals[psn % PSNS];
}

static bool responds(const struct opcode *op)
{
	return op->flags & (OPCODE_READ | OPCODE_ATOMIC | OPCODE_FLUSH | OPCODE_ATOMIC_WRITE);
}

/* How many PSNs the request packet @p takes: 9.7.3. */
static uint32_t psns_of(const struct conversation *c, const struct packet *p)
{
	uint32_t length;

	if (!(p->op->flags & OPCODE_READ))
		return 1;
	length = be32toh(packet_reth(p)->length);
	return length == 0 ? 1 : (length + c->qp->mtu - 1) / c->qp->mtu;
}

/* --- requests ----------------------------------------------------------------------- */

static void check_sequence(struct conversation *c, const struct packet *p)
{
	unsigned int kind = p->op->flags & (OPCODE_SEND | OPCODE_WRITE);

	if (c->open && !(p->op->flags & OPCODE_FIRST)) {
		must_msg(kind && kind == (c->open->flags & (OPCODE_SEND | OPCODE_WRITE)),
			 "PSN %x: %s in a message of %s", p->psn, p->op->name, c->open->name);
	} else {
		must_msg(!c->open, "PSN %x: %s in the middle of a message", p->psn, p->op->name);
		must_msg(!kind || p->op->flags & OPCODE_FIRST, "PSN %x: %s begins no message",
			 p->psn, p->op->name);
	}
	c->open = kind && !(p->op->flags & OPCODE_LAST) ? p->op : NULL;
}

static void note_sent(struct conversation *c, const struct packet *p, uint64_t digest)
{
	uint32_t count = psns_of(c, p);

	must(psn_distance(psn_add(p->psn, count), c->oldest) < PSNS);
	for (uint32_t i = 0; i < count; i++) {
		struct sent *sent = sent_at(c, psn_add(p->psn, i));

		*sent = (struct sent){
			.psn = psn_add(p->psn, i),
			.request = p->psn,
			.psn_count = count,
			.opcode = p->opcode,
			.there = true,
			.digest = digest,
		};
		if (!(p->op->flags & OPCODE_READ))
			continue;
		sent->va = be64toh(packet_reth(p)->va) + (uint64_t)i * c->qp->mtu;
		sent->rkey = be32toh(packet_reth(p)->rkey);
		sent->length = be32toh(packet_reth(p)->length) - i * c->qp->mtu;
	}
	c->next_psn = psn_add(p->psn, count);
}

/* A part of one request that was sent: its responder knows it by its PSNs. */
static void check_read_again(struct conversation *c, const struct packet *p,
			     const struct sent *sent)
{
	const struct reth *reth = packet_reth(p);
	uint32_t length = be32toh(reth->length), into = psn_distance(p->psn, sent->request);

	must_msg(be64toh(reth->va) == sent->va && be32toh(reth->rkey) == sent->rkey,
		 "READ at PSN %x: not the memory it asked for before", p->psn);
	must_msg(length <= sent->length && into + psns_of(c, p) <= sent->psn_count,
		 "READ at PSN %x: %u bytes, of which there were %u", p->psn, length, sent->length);
	must_msg(length == sent->length || length % c->qp->mtu == 0,
		 "READ at PSN %x: %u bytes, no whole packets", p->psn, length);
}

static void on_request_sent(struct tap *tap, struct conversation *c, const struct packet *p,
			    uint64_t digest)
{
	uint32_t oldest = c->qp->requester.unacked;
	const struct sent *sent = sent_at(c, p->psn);

	tap->statistics.requests++;
	if (c->oldest != oldest) {
		c->oldest = oldest;
		c->attempts = 0;
	}
	c->attempts += p->psn == oldest;
	if (p->psn == c->next_psn) {
		check_sequence(c, p);
		note_sent(c, p, digest);
		return;
	}
	tap->statistics.repeated++;
	must_msg(psn_distance(p->psn, c->next_psn) < 0, "PSN %x is sent, behind %x", p->psn,
		 c->next_psn);
	must_msg(psn_distance(p->psn, oldest) >= 0, "PSN %x is sent again, %x is unacknowledged",
		 p->psn, oldest);
	must(sent->there && sent->psn == p->psn);
	must_msg(sent->opcode == p->opcode, "PSN %x: %s again, as opcode %x before", p->psn,
		 p->op->name, sent->opcode);
	if (p->op->flags & OPCODE_READ)
		check_read_again(c, p, sent);
	else
		must_msg(sent->digest == digest, "PSN %x isn't what it was before", p->psn);
}

/* --- what arrives ----------------------------------------------------------------------- */

static void note_range(struct conversation *c, const struct packet *p)
{
	c->ranges[c->range_count++ % RANGES] =
		(struct range){.first = p->psn, .count = psns_of(c, p)};
}

static void on_request_arrived(struct conversation *c, const struct packet *p, uint64_t now)
{
	uint32_t count = psns_of(c, p);

	if (c->nak_sent && p->psn == c->nak_psn)
		c->nak_sent = false;
	if (p->op->flags & OPCODE_READ)
		note_range(c, p);
	if (psn_distance(p->psn, c->arrived) < 0)
		return;
	/* As the HCA does, which receives it next. */
	qp_set_time(c->qp, now);
	if (p->psn != c->arrived && qp_may_be_stale(c->qp, p->psn, c->qp->former.received))
		return;
	/* Of what is executed once at most nothing is kept. */
	if (p->psn != c->arrived && responds(p->op) && !(p->op->flags & OPCODE_READ))
		return;
	must(psn_distance(psn_add(p->psn, count), c->arrived) < PSNS);
	for (uint32_t i = 0; i < count; i++) {
		struct arrival *arrival = arrival_at(c, psn_add(p->psn, i));

		*arrival = (struct arrival){
			.psn = psn_add(p->psn, i), .there = true, .responds = responds(p->op)};
	}
	while (arrival_at(c, c->arrived)->there && arrival_at(c, c->arrived)->psn == c->arrived)
		c->arrived = psn_add(c->arrived, 1);
}

/* --- responses --------------------------------------------------------------------------- */

/* All before @psn that is answered by a response has been. */
static void check_answered_before(struct conversation *c, uint32_t psn, const char *what)
{
	while (psn_distance(c->answered, psn) < 0) {
		const struct arrival *arrival = arrival_at(c, c->answered);

		must_msg(!arrival->responds || arrival->answered,
			 "%s of PSN %x, but %x isn't answered", what, psn, c->answered);
		c->answered = psn_add(c->answered, 1);
	}
}

static void check_arrived(const struct conversation *c, uint32_t psn, const char *what)
{
	must_msg(psn_distance(psn, c->arrived) < 0, "%s of PSN %x, which hasn't arrived: %x", what,
		 psn, c->arrived);
}

static void on_acked(struct conversation *c, const struct packet *p)
{
	check_arrived(c, p->psn, "ACK");
	check_answered_before(c, psn_add(p->psn, 1), "ACK");
	must_msg(psn_distance(p->psn, c->acked) >= -1, "ACK of PSN %x behind one of %x", p->psn,
		 c->acked - 1);
	c->acked = psn_add(p->psn, 1);
}

static void on_sequence_nak(struct tap *tap, struct conversation *c, const struct packet *p)
{
	must_msg(p->psn == c->qp->responder.expected_psn, "NAK of PSN %x, %x is expected", p->psn,
		 c->qp->responder.expected_psn);
	must_msg(!tap->options.keeps || p->psn == c->arrived,
		 "NAK of PSN %x, which has arrived: %x hasn't", p->psn, c->arrived);
	must_msg(!c->nak_sent, "NAK of PSN %x, and %x was reported before", p->psn, c->nak_psn);
	check_answered_before(c, p->psn, "NAK");
	tap->statistics.naks++;
	c->nak_sent = true;
	c->nak_psn = p->psn;
}

static void on_bare_sent(struct tap *tap, struct conversation *c, const struct packet *p)
{
	uint8_t syndrome = packet_syndrome(p);

	if (syndrome == AETH_NAK_PSN_SEQUENCE) {
		on_sequence_nak(tap, c, p);
	} else if ((syndrome & AETH_TYPE_MASK) == AETH_RNR_NAK) {
		must(!tap->options.keeps);
		must(p->psn == c->qp->responder.expected_psn);
		check_arrived(c, p->psn, "RNR NAK");
	} else {
		must_msg((syndrome & AETH_TYPE_MASK) == AETH_ACK, "syndrome %x", syndrome);
		on_acked(c, p);
		tap->statistics.acks++;
	}
}

/* A READ request that arrived, repeated or not, begins at @psn; or ends there. */
static bool was_asked_for(const struct conversation *c, uint32_t psn, bool begins)
{
	unsigned int count = c->range_count < RANGES ? c->range_count : RANGES;

	for (unsigned int i = 1; i <= count; i++) {
		const struct range *range = &c->ranges[(c->range_count - i) % RANGES];

		if (psn == (begins ? range->first : psn_add(range->first, range->count - 1)))
			return true;
	}
	return false;
}

/* Whether @psn is next of an answer in progress. */
static bool goes_on(struct conversation *c, uint32_t psn)
{
	if (psn == c->next_response)
		return true;
	for (unsigned int i = 0; i < INTERRUPTED; i++) {
		if (c->interrupted[i] != psn)
			continue;
		c->interrupted[i] = NO_PSN;
		return true;
	}
	return false;
}

/*
 * They follow each other, unless a request asks for a part again: then an answer goes on behind
 * that. The part begins with a MIDDLE or a LAST, as Linux rxe has it; an answer to two requests
 * that overlap may be one.
 */
static void on_read_response_sent(struct conversation *c, const struct packet *p)
{
	bool first = p->op->flags & OPCODE_FIRST, last = p->op->flags & OPCODE_LAST;

	must_msg((!first && goes_on(c, p->psn)) || was_asked_for(c, p->psn, true),
		 "%s at PSN %x is out of order", p->op->name, p->psn);
	must_msg(!last || was_asked_for(c, p->psn, false), "%s at PSN %x, where no READ ends",
		 p->op->name, p->psn);
	must(last || p->payload_length == c->qp->mtu);
	if (p->psn != c->next_response && c->next_response != NO_PSN)
		c->interrupted[c->interruptions++ % INTERRUPTED] = c->next_response;
	c->next_response = last ? NO_PSN : psn_add(p->psn, 1);
}

static void on_response_sent(struct tap *tap, struct conversation *c, const struct packet *p)
{
	struct arrival *arrival = arrival_at(c, p->psn);

	if (p->op->flags & OPCODE_ACK) {
		on_bare_sent(tap, c, p);
		return;
	}
	tap->statistics.responses++;
	check_arrived(c, p->psn, p->op->name);
	must_msg(arrival->psn == p->psn && arrival->responds,
		 "%s of PSN %x, which isn't answered so", p->op->name, p->psn);
	check_answered_before(c, p->psn, p->op->name);
	arrival->answered = true;
	/* FLUSH and ATOMIC WRITE have the response of an empty READ. */
	if (p->op->flags & OPCODE_READ && p->payload_length)
		on_read_response_sent(c, p);
	if (psn_distance(p->psn, c->acked) >= 0)
		c->acked = psn_add(p->psn, 1);
}

/* --- the link ------------------------------------------------------------------------------ */

static struct conversation *find_by_peer(struct tap *tap, const union ibv_gid *gid, uint32_t qpn)
{
	struct conversation *c;

	LL_FOREACH (tap->conversations, c) {
		if (c->qp->attr.dest_qp_num == qpn && gid_equal(&c->qp->path.destination, gid))
			return c;
	}
	return NULL;
}

static struct conversation *find_by_number(struct tap *tap, uint32_t qpn)
{
	struct conversation *c;

	LL_FOREACH (tap->conversations, c) {
		if (c->qp->number == qpn)
			return c;
	}
	return NULL;
}

static void look_at_sent(struct tap *tap, const struct link_packet *packet)
{
	uint8_t bytes[WIRE_PACKET_MAX];
	struct conversation *c;
	struct packet p;
	struct bth *bth = (struct bth *)bytes;

	must(link_packet_copy(packet, bytes));
	must(packet_parse(&p, bytes, link_packet_length(packet)) == 0);
	c = find_by_peer(tap, &packet->path->destination, p.dest_qp);
	if (!c || p.opcode == WIRE_OPCODE_CNP)
		return;
	/* AckReq may differ, and the ICRC isn't there yet. */
	bth->psn &= ~htobe32(BTH_ACK_REQUEST);
	if (p.op->flags & OPCODE_REQUEST)
		on_request_sent(tap, c, &p,
				digest_of(bytes, link_packet_length(packet) - ICRC_LENGTH));
	else
		on_response_sent(tap, c, &p);
}

static bool is_lost(struct tap *tap, uint64_t now)
{
	struct sim *sim = tap->node->world->sim;

	if (tap->options.burst <= 0)
		return false;
	if (now >= tap->burst_until && sim_random(sim) % 1000000 < tap->options.burst * 1000000)
		tap->burst_until = now + 1 + sim_random(sim) % tap->options.burst_time;
	tap->statistics.lost += now < tap->burst_until;
	return now < tap->burst_until;
}

static unsigned int tap_send(struct link *link, struct link_packet *packets, unsigned int count,
			     uint64_t now)
{
	struct tap *tap = tap_of(link);
	unsigned int refused = 0;

	for (unsigned int i = 0; i < count; i++) {
		look_at_sent(tap, &packets[i]);
		if (!is_lost(tap, now))
			refused += tap->inner->ops->send(tap->inner, &packets[i], 1, now);
	}
	return refused;
}

static unsigned int tap_receive(struct link *link, struct link_frame *frames, unsigned int max,
				uint64_t now)
{
	const unsigned int burst = RECEIVE_BURST_BYTES / WIRE_PACKET_MAX;
	struct tap *tap = tap_of(link);
	unsigned int count;

	/* Not more than are answered together: what is seen here has arrived there. */
	if (max > burst)
		max = burst;
	count = tap->inner->ops->receive(tap->inner, frames, max, now);
	for (unsigned int i = 0; i < count; i++) {
		struct link_frame frame = frames[i];
		struct conversation *c;
		struct packet p;

		if (!icrc_check(&frame) || packet_parse(&p, frame.data, frame.length) != 0)
			continue;
		c = find_by_number(tap, p.dest_qp);
		if (c && p.op->flags & OPCODE_REQUEST)
			on_request_arrived(c, &p, now);
	}
	return count;
}

static uint64_t tap_deadline(struct link *link)
{
	return tap_of(link)->inner->ops->deadline(tap_of(link)->inner);
}

static uint32_t tap_rcvbuf_space(struct link *link, const struct path *path, uint32_t qpn)
{
	return tap_of(link)->inner->ops->rcvbuf_space(tap_of(link)->inner, path, qpn);
}

static uint32_t tap_unread(struct link *link, const struct path *path, uint32_t qpn, uint64_t *read)
{
	return tap_of(link)->inner->ops->unread(tap_of(link)->inner, path, qpn, read);
}

static const struct link_ops tap_ops = {
	.send = tap_send,
	.receive = tap_receive,
	.deadline = tap_deadline,
	.rcvbuf_space = tap_rcvbuf_space,
	.unread = tap_unread,
};

/* --- making one ----------------------------------------------------------------------------- */

struct tap *tap_create(struct node *node, const struct tap_options *options)
{
	struct tap *tap = calloc(1, sizeof(*tap));

	tap->link.ops = &tap_ops;
	tap->inner = node->link;
	tap->node = node;
	tap->options = *options;
	node->hca->link = &tap->link;
	return tap;
}

void tap_destroy(struct tap *tap)
{
	struct conversation *c, *next;

	LL_FOREACH_SAFE (tap->conversations, c, next) {
		free(c->sent);
		free(c->arrivals);
		free(c);
	}
	tap->node->hca->link = tap->inner;
	free(tap);
}

void tap_connected(struct tap *tap, struct qp *qp)
{
	struct conversation *c = find_by_number(tap, qp->number);
	struct sent *sent;
	struct arrival *arrivals;

	if (!c) {
		c = calloc(1, sizeof(*c));
		c->sent = calloc(PSNS, sizeof(*c->sent));
		c->arrivals = calloc(PSNS, sizeof(*c->arrivals));
		LL_PREPEND(tap->conversations, c);
	}
	sent = c->sent;
	arrivals = c->arrivals;
	memset(sent, 0, PSNS * sizeof(*sent));
	memset(arrivals, 0, PSNS * sizeof(*arrivals));
	*c = (struct conversation){
		.qp = qp,
		.next = c->next,
		.sent = sent,
		.arrivals = arrivals,
		.next_psn = qp->requester.psn,
		.oldest = qp->requester.unacked,
		.arrived = qp->responder.expected_psn,
		.answered = qp->responder.expected_psn,
		.acked = qp->responder.expected_psn,
		.next_response = NO_PSN,
	};
	for (unsigned int i = 0; i < INTERRUPTED; i++)
		c->interrupted[i] = NO_PSN;
}

unsigned int tap_attempts(struct tap *tap, const struct qp *qp)
{
	return find_by_number(tap, qp->number)->attempts;
}

const struct tap_statistics *tap_statistics(const struct tap *tap)
{
	return &tap->statistics;
}
