/* SPDX-License-Identifier: BSD-2-Clause */
#include "emu/receive.h"

#include "emu/cm/gsi.h"
#include "emu/explain/responder.h"
#include "emu/inject/event.h"
#include "emu/objects/qp.h"
#include "emu/objects/qp_show.h"
#include "emu/transport/completer.h"
#include "net/cache_line.h"
#include "net/tuning.h"
#include "net/wire/icrc.h"

/* --- one packet -------------------------------------------------------------------------- */

/* IBA 9.6.1, first what the frame alone shows. */
static bool check_frame(struct hca *hca, struct link_frame *frame, struct packet *packet,
			uint64_t now)
{
	if (frame->message) {
		xrc_on_message(hca, frame, now);
		return false;
	}
	if (packet_parse(packet, frame->data, frame->length) != 0) {
		COUNT(hca, malformed_packets, 1);
		return false;
	}
	if (frame->shared)
		packet_keep_headers(packet);
	if (!frame->trusted && !icrc_check_flow(frame, &hca->icrc_flows)) {
		COUNT(hca, icrc_errors, 1);
		explain_ignored(NULL, CAUSE_DROPPED_ICRC, packet, frame);
		return false;
	}
	return true;
}

/* IBA 9.6.1.5; and the port, where any user can send from the peer's address. */
static bool is_from_peer(struct qp *qp, const struct packet *packet, const struct link_frame *frame)
{
	if (!frame_came_on(frame, &qp->path))
		return migration_accepts(qp, packet, frame);
	return source_port_allows(qp, &qp->source_port, frame);
}

/*
 * Not a datagram of the other port, nor of another device: numbers of queue pairs are the
 * machine's, so that one which was sent to any of its addresses may come here. A multicast's port
 * is known by where it came in.
 */
static bool is_on_port(const struct qp *qp, const struct link_frame *frame)
{
	struct gid_table *gids = port_gids_table(&qp->hca->gids, qp->attr.port_num);

	if (!gid_is_multicast(&frame->destination))
		return gid_table_find(gids, &frame->destination) >= 0;
	return !frame->interface || qp->hca->limits.device.phys_port_cnt == 1 ||
	       gid_table_is_on(gids, frame->interface);
}

/* The rest of stage A, which the QP has to be known for. CAUSE_NONE, or why it is dropped. */
static enum cause check_packet(struct qp *qp, const struct packet *packet,
			       const struct link_frame *frame)
{
	bool cnp = packet->opcode == WIRE_OPCODE_CNP;
	unsigned int needed = packet->op->flags & OPCODE_RESPONSE ? QP_FINISH_SEND : QP_RECEIVE;

	if (cnp)
		needed = QP_FINISH_SEND | QP_RECEIVE; /* a responder, too, sends data: to READs */
	if (cnp ? !qp->type->reliable
		: (packet->opcode & WIRE_TRANSPORT_MASK) != qp->type->transport)
		return CAUSE_DROPPED_TRANSPORT; /* IBA 9.6.1.1.3 */
	if (!(qp_abilities(qp) & needed))
		return CAUSE_DROPPED_STATE; /* IBA 9.6.1.2 */
	if (qp->type->connected ? !is_from_peer(qp, packet, frame) : !is_on_port(qp, frame))
		return CAUSE_DROPPED_PATH;
	if (!pkey_match(packet->pkey, PKEY_DEFAULT)) {
		COUNT(qp->hca, bad_pkey, 1);
		return CAUSE_DROPPED_PKEY; /* IBA 9.6.1.3 */
	}
	return CAUSE_NONE;
}

static void qp_receive_packet(struct qp *qp, const struct packet *packet,
			      const struct link_frame *frame, uint64_t now)
{
	enum cause cause = check_packet(qp, packet, frame);

	if (cause != CAUSE_NONE) {
		explain_ignored(qp, cause, packet, frame);
		COUNT(qp->hca, dropped_packets, 1);
		return;
	}
	if (qp->migration.loaded)
		migration_on_packet(qp, packet, frame, now);
	if (qp->type->reliable && ecn_is_marked(frame->traffic_class))
		ecn_on_marked(qp, packet, now);
	if (packet->opcode == WIRE_OPCODE_CNP)
		ecn_on_cnp(qp, now);
	else if (packet->op->flags & OPCODE_RESPONSE)
		completer_receive(qp, packet, now);
	else
		responder_receive(qp, packet, frame, now);
}

/* Whether @qp's latest packet is to be received again, when another process is ready. */
static bool has_to_wait(struct qp *qp)
{
	bool waits = qp->xrc.waits;

	if (waits)
		qp->xrc.waits = false;
	return waits;
}

static void qp_receive_end(struct qp *qp, uint64_t now)
{
	completer_receive_end(qp, now);
	responder_receive_end(qp);
	qp_check_drained(qp);
	qp_show_progress(qp);
	pthread_mutex_unlock(&qp->lock);
}

void qp_receive(struct qp *qp, const struct packet *packet, const struct link_frame *frame,
		uint64_t now)
{
	pthread_mutex_lock(&qp->lock);
	qp_set_time(qp, now);
	qp_receive_packet(qp, packet, frame, now);
	qp_receive_end(qp, now);
}

/* --- frames of the link ------------------------------------------------------------------ */

/* The QP of the last frame stays referenced and locked until a frame for another one comes. */
struct receiver {
	struct hca *hca;
	struct qp *qp; /* or NULL */
	uint32_t number;
};

static void receiver_end(struct receiver *receiver, uint64_t now)
{
	if (!receiver->qp)
		return;
	qp_receive_end(receiver->qp, now);
	table_put(&receiver->hca->qps, receiver->number);
	receiver->qp = NULL;
}

/* The QP with @number, locked. NULL: there is none, or another thread has it locked (@busy). */
static struct qp *try_qp(struct hca *hca, uint32_t number, bool *busy)
{
	struct qp *qp = table_get(&hca->qps, number);

	*busy = qp && pthread_mutex_trylock(&qp->lock) != 0;
	if (*busy)
		table_put(&hca->qps, number);
	return *busy ? NULL : qp;
}

static bool is_mad(const struct deferred_frame *deferred)
{
	const struct bth *bth = (const struct bth *)deferred->frame.data;

	return (be32toh(bth->dest_qp) & QPN_MASK) == QPN_GSI;
}

/* The first of @frames is a MAD: alone, as it may not be received with a QP locked. */
static const struct deferred_frame *deliver_mad(struct hca *hca,
						const struct deferred_frame *frames, uint64_t now)
{
	const struct link_frame *frame = &frames->frame;
	struct packet packet;

	if (packet_parse(&packet, frame->data, frame->length) == 0)
		gsi_receive(hca, &packet, frame, now);
	return frames->next;
}

/* Up to a MAD: the QP is gone. */
static const struct deferred_frame *drop_packets(struct hca *hca,
						 const struct deferred_frame *frames)
{
	for (; frames && !is_mad(frames); frames = frames->next)
		COUNT(hca, dropped_packets, 1);
	return frames;
}

/*
 * What was deferred, if its QP is free now, up to what has to wait for another process, or a MAD.
 * They were checked before.
 */
static const struct deferred_frame *deliver_deferred(void *context, uint32_t number,
						     const struct deferred_frame *frames,
						     uint64_t now)
{
	struct hca *hca = context;
	const struct deferred_frame *deferred;
	struct packet packet;
	struct qp *qp;
	bool busy;

	if (is_mad(frames))
		return deliver_mad(hca, frames, now);
	busy = deferred_precedes(&hca->deferred, &frames->frame);
	qp = busy ? NULL : try_qp(hca, number, &busy);
	if (busy)
		return frames;
	if (!qp)
		return drop_packets(hca, frames);
	qp_set_time(qp, now);
	for (deferred = frames; deferred && !is_mad(deferred); deferred = deferred->next) {
		/* In shared memory its sender may change it between the check and the copy. */
		if (packet_parse(&packet, deferred->frame.data, deferred->frame.length) != 0) {
			COUNT(hca, malformed_packets, 1);
			continue;
		}
		qp_receive_packet(qp, &packet, &deferred->frame, now);
		if (has_to_wait(qp))
			break;
	}
	qp_receive_end(qp, now);
	table_put(&hca->qps, number);
	return deferred;
}

/* Wait until no other thread has the QP locked. Returns false for a QP whose peer retransmits. */
static bool wait_for_qp(struct hca *hca, uint32_t number)
{
	struct qp *qp = table_get(&hca->qps, number);
	bool reliable = qp && qp->type->reliable;

	if (qp && !reliable) {
		pthread_mutex_lock(&qp->lock);
		pthread_mutex_unlock(&qp->lock);
	}
	if (qp)
		table_put(&hca->qps, number);
	return !reliable;
}

/*
 * For UC and UD, where what is lost stays lost: rather than drop the frame, the receiving thread
 * waits for the QP, as the sender does for our socket's buffer (emu/transport/pacing.h).
 */
static void make_room(struct hca *hca, uint32_t number, uint32_t length, uint64_t now)
{
	while (!deferred_has_room(&hca->deferred, number, length) && wait_for_qp(hca, number))
		deferred_retry(&hca->deferred, deliver_deferred, hca, now);
}

/* Returns whether @frame may be delivered now: the QP that it is for is there, and locked. */
static bool receiver_begin(struct receiver *receiver, const struct packet *packet,
			   const struct link_frame *frame, uint64_t now)
{
	uint32_t number = packet->dest_qp;
	struct hca *hca = receiver->hca;
	bool busy;

	make_room(hca, number, frame->length, now);
	busy = deferred_has(&hca->deferred, number) || deferred_precedes(&hca->deferred, frame);
	receiver->number = number;
	if (!busy)
		receiver->qp = try_qp(hca, number, &busy);
	if (receiver->qp) {
		qp_set_time(receiver->qp, now);
		return true;
	}
	if (!busy)
		explain_ignored(NULL, CAUSE_DROPPED_NO_QP, packet, frame);
	if (!busy || !deferred_add(&hca->deferred, number, frame, now))
		COUNT(hca, dropped_packets, 1);
	return false;
}

/*
 * That the peer of a QP has gone is told behind what came from it before: applications count on
 * that having completed.
 */
static void receive_mad(struct hca *hca, const struct packet *packet,
			const struct link_frame *frame, uint64_t now)
{
	uint32_t number = 0;

	if (deferred_retry_at(&hca->deferred) != TIME_NEVER)
		number = gsi_disconnects(packet);
	if (!number || !deferred_has(&hca->deferred, number) ||
	    !deferred_add(&hca->deferred, number, frame, now))
		gsi_receive(hca, packet, frame, now);
}

static void receive_packet(struct receiver *receiver, const struct packet *packet,
			   const struct link_frame *frame, uint64_t now)
{
	struct hca *hca = receiver->hca;

	/* Multicast and QP 1 find their QPs themselves, and no QP has their numbers. */
	if (receiver->number != packet->dest_qp)
		receiver_end(receiver, now);
	if (packet->dest_qp == QPN_MULTICAST || gid_is_multicast(&frame->destination)) {
		mcast_receive(hca, packet, frame, now);
		return;
	}
	if (packet->dest_qp == QPN_GSI) {
		receive_mad(hca, packet, frame, now);
		return;
	}
	if (!receiver->qp && !receiver_begin(receiver, packet, frame, now))
		return;
	qp_receive_packet(receiver->qp, packet, frame, now);
	if (has_to_wait(receiver->qp)) {
		receiver_end(receiver, now);
		if (!deferred_add(&hca->deferred, receiver->number, frame, now))
			COUNT(hca, dropped_packets, 1);
	}
}

/* Its headers are there already, as they were checked. */
static void prefetch_payload(const struct link_frame *frame)
{
	if (!frame->shared || frame->length < SHM_PREFETCH_LEAST)
		return;
	for (unsigned int i = 1; i <= SHM_PREFETCH_LINES; i++)
		__builtin_prefetch(frame->data + i * CACHE_LINE);
}

static void receive_kind(struct receiver *receiver, const struct packet *packets,
			 const struct link_frame *frames, const bool *good, unsigned int count,
			 unsigned int kind, uint64_t now)
{
	for (unsigned int i = 0; i < count; i++) {
		if (!good[i] || (packets[i].op->flags & OPCODE_RESPONSE) != kind)
			continue;
		if (i + 1 < count)
			prefetch_payload(&frames[i + 1]);
		receive_packet(receiver, &packets[i], &frames[i], now);
	}
}

/*
 * Checked first, outside of the QP's lock, and delivered while they are in the CPU's cache.
 * Responses go first: the ACK piggybacked on a message is behind it, but an application
 * that polls for that message may count on what it answers having completed.
 */
static void receive_burst(struct hca *hca, struct link_frame *frames, unsigned int count,
			  uint64_t now)
{
	struct receiver receiver = {.hca = hca};
	struct packet *packets = hca->parsed;
	bool good[RECEIVE_BURST];

	for (unsigned int i = 0; i < count; i++)
		good[i] = check_frame(hca, &frames[i], &packets[i], now);
	receive_kind(&receiver, packets, frames, good, count, OPCODE_RESPONSE, now);
	receive_kind(&receiver, packets, frames, good, count, 0, now);
	receiver_end(&receiver, now);
}

static void count_by_port(struct hca *hca, const struct link_frame *frame)
{
	struct port_counters *port = hca_port_counters(hca, &frame->destination);

	/* Multicasts come by an interface, which may be that of both. */
	for (unsigned int i = 1; !port && frame->interface && i <= port_gids_count(&hca->gids);
	     i++) {
		if (gid_table_is_on(port_gids_table(&hca->gids, i), frame->interface))
			port = &hca->port_counters[i - 1];
	}
	if (!port)
		return;
	COUNT_ALONE_IN(port, rcvd_pkts, 1);
	COUNT_ALONE_IN(port, rcvd_bytes, frame->length);
}

/* Returns how many bytes they have. */
static uint64_t count_received(struct hca *hca, const struct link_frame *frames, unsigned int count)
{
	uint64_t bytes = 0;

	for (unsigned int i = 0; i < count; i++)
		bytes += frames[i].length;
	COUNT_ALONE(hca, rcvd_pkts, count);
	COUNT_ALONE(hca, rcvd_bytes, bytes);
	for (unsigned int i = 0; hca->limits.device.phys_port_cnt > 1 && i < count; i++)
		count_by_port(hca, &frames[i]);
	return bytes;
}

/* How many of @count frames to check at a time. The payload of a trusted one isn't read for it. */
static unsigned int burst_of(const struct link_frame *frames, unsigned int count)
{
	unsigned int burst = 0;
	uint32_t bytes = 0;

	for (; burst < count && burst < RECEIVE_BURST && bytes < RECEIVE_BURST_BYTES; burst++)
		bytes += frames[burst].trusted ? 0 : frames[burst].length;
	return burst;
}

/* Returns how many bytes it was. */
static uint64_t receive_batch(struct hca *hca, struct link_frame *frames, unsigned int count,
			      uint64_t now)
{
	uint64_t bytes;

	if (injects(hca))
		count = inject_received(hca, frames, count);
	bytes = count_received(hca, frames, count);
	for (unsigned int i = 0, burst; i < count; i += burst) {
		burst = burst_of(frames + i, count - i);
		receive_burst(hca, frames + i, burst, now);
		if (hca->urgent)
			hca_run(hca, now);
		hca->urgent = false;
	}
	return bytes;
}

static bool receive_deferred(struct hca *hca, uint64_t now)
{
	bool any;

	if (deferred_retry_at(&hca->deferred) == TIME_NEVER)
		return false;
	event_cork(&hca->events);
	any = deferred_retry(&hca->deferred, deliver_deferred, hca, now);
	hca_run(hca, now);
	return any;
}

bool receive_frames(struct hca *hca, uint64_t now)
{
	bool any = receive_deferred(hca, now), all_read = false;
	uint64_t bytes = 0;

	for (int round = 0; !all_read && round < RECEIVE_ROUNDS && bytes < RECEIVE_ENOUGH;
	     round++) {
		unsigned int count = link_receive(hca->link, hca->frames, RECEIVE_BATCH, now);

		if (count) {
			event_cork(&hca->events);
			bytes += receive_batch(hca, hca->frames, count, now);
			hca_run(hca, now);
		}
		any |= count > 0;
		all_read = count < RECEIVE_BATCH && !hca->link->more;
	}
	if (all_read)
		atomic_store_explicit(&hca->all_read_at, now, memory_order_release);
	atomic_store_explicit(&hca->unread, !all_read, memory_order_relaxed);
	return any;
}
