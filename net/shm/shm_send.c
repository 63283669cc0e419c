/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sending. The slot of a packet's destination QP tells the member that it is for
 * (net/share/slot.h), the member's entry in the roster its inbox; so a packet's way follows from
 * what was there before the queue pair was. A ring is made with the first packet to a member.
 *
 * What finds no space is copied to a list, and goes first when there is some: the application's
 * memory may change as soon as send() returns.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "net/capture.h"
#include "net/clock.h"
#include "net/fence.h"
#include "net/log.h"
#include "net/share/slot.h"
#include "net/shm/shm_link.h"
#include "net/tuning.h"
#include "net/wire/gid.h"
#include "net/wire/icrc.h"

/* --- peers ---------------------------------------------------------------------------------- */

static void drop_waiting(struct shm_link *link, struct shm_peer *peer)
{
	struct shm_waiting *waiting;

	if (peer->first)
		atomic_fetch_sub(&link->waiting, 1);
	while ((waiting = peer->first)) {
		peer->first = waiting->next;
		free(waiting);
	}
	peer->last = &peer->first;
	peer->waiting = 0;
}

/* Nothing is sent to it any more but by UDP. Its ring may never have been opened. */
static void peer_close(struct shm_link *link, struct shm_peer *peer, bool remove)
{
	char path[SHM_PATH];

	drop_waiting(link, peer);
	if (peer->ring.head && remove) {
		shm_path(path, link->inbox.directory, link->inbox.number, peer->ring_number);
		unlink(path);
	}
	peer->former += peer->ring.released;
	ring_close(&peer->ring);
	if (peer->inbox)
		inbox_close(peer->inbox);
	peer->inbox = NULL;
	peer->gids = 0;
}

static struct shm_peer *peer_create(struct shm_link *link, uint32_t member)
{
	struct shm_peer *peer;

	pthread_mutex_lock(&link->lock);
	peer = atomic_load(&link->peers[member]);
	if (!peer && (peer = ring_alloc(sizeof(*peer)))) {
		pthread_mutex_init(&peer->lock, NULL);
		peer->member = member;
		peer->last = &peer->first;
		atomic_store(&link->peers[member], peer);
	}
	pthread_mutex_unlock(&link->lock);
	return peer;
}

static const struct choice_rule stores_rule = STORES_RULE(RING_BYTES);

static int make_ring(struct shm_link *link, struct shm_peer *peer)
{
	char path[SHM_PATH];
	int error;

	peer->ring_number = atomic_fetch_add(&link->rings, 1) + 1;
	shm_path(path, link->inbox.directory, link->inbox.number, peer->ring_number);
	error = ring_create(&peer->ring, path);
	if (error)
		return error;
	choice_init(&peer->stores, &stores_rule);
	inbox_offer(peer->inbox, roster_self(link->roster), link->inbox.number, peer->ring_number);
	return 0;
}

/* The member has an inbox of another @number than we know: another process has its place. */
static void peer_open(struct shm_link *link, struct shm_peer *peer, uint64_t number)
{
	int error = ENOENT, state;

	/* Opening files is a cancellation point, and locks are held. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	peer_close(link, peer, true);
	peer->number = number;
	peer->inbox = inbox_open(link->inbox.directory, number);
	if (peer->inbox)
		error = make_ring(link, peer);
	pthread_setcancelstate(state, NULL);
	if (!error)
		return;
	log_info("no ring for another process, it is sent to by UDP: %s", strerror(error));
	peer_close(link, peer, false);
}

/* With its lock: whether it receives at @gid. */
static bool peer_has_gid(const struct shm_link *link, struct shm_peer *peer,
			 const union ibv_gid *gid)
{
	for (unsigned int i = 0; i < peer->gids; i++) {
		if (gid_equal(&peer->gid[i], gid))
			return true;
	}
	if (roster_index(link->roster, peer->member, gid) < 0)
		return false;
	if (peer->gids < PEER_GIDS)
		peer->gid[peer->gids++] = *gid;
	return true;
}

struct shm_peer *shm_peer_get(struct shm_link *link, const union ibv_gid *gid, uint32_t qpn)
{
	uint32_t member = link->roster ? roster_owner(link->roster, slot_of_qpn(qpn)) : 0;
	uint64_t number = member ? roster_inbox(link->roster, member) : 0;
	struct shm_peer *peer;

	if (!number)
		return NULL;
	peer = atomic_load_explicit(&link->peers[member], memory_order_acquire);
	if (!peer)
		peer = peer_create(link, member);
	if (!peer)
		return NULL;
	pthread_mutex_lock(&peer->lock);
	/* An address of another machine may have such a number, too. */
	if (peer->number != number && peer_has_gid(link, peer, gid))
		peer_open(link, peer, number);
	if (peer->inbox && peer_has_gid(link, peer, gid))
		return peer;
	pthread_mutex_unlock(&peer->lock);
	return NULL;
}

/* --- packets -------------------------------------------------------------------------------- */

/* The packets of one send() that go to one peer. */
struct ring_batch {
	struct shm_link *link;
	struct shm_peer *peer;
	struct ring_source from;
	struct icrc_flow flow;
	unsigned int lost;
	bool appended;
};

static bool computes_icrc(const struct ring_batch *batch)
{
	return batch->link->icrc || batch->link->link.capture;
}

/* The ICRC of the packet at @data. */
static void seal(struct ring_batch *batch, struct link_packet *packet, uint8_t *data,
		 uint32_t length)
{
	if (batch->flow.length != length)
		icrc_flow_init(&batch->flow, &batch->from.source, &batch->from.destination,
			       batch->from.source_port, length);
	icrc_seal_copy(packet, &batch->flow, 0, data);
}

/* @packet, of @length, has been copied to @to, which nothing but we can write to yet. */
static void finish_packet(struct ring_batch *batch, struct link_packet *packet, uint32_t length,
			  uint8_t *to)
{
	if (packet->corrupt_bit || computes_icrc(batch))
		seal(batch, packet, to, length);
	if (batch->link->link.capture)
		capture_sent(batch->link->link.capture, packet, batch->from.source_port, 0);
}

/* Before the reader can have what was captured. */
static void flush_capture(struct shm_link *link)
{
	if (link->link.capture)
		capture_flush(link->link.capture);
}

/* To @to, in the ring. Returns false when the memory of @packet, of @length, can't be read. */
static bool copy_to_ring(struct shm_peer *peer, const struct link_packet *packet, uint32_t length,
			 uint8_t *to)
{
	struct choice_block block;
	bool copied;

	if (packet->payload_length < SHM_NONTEMPORAL_LEAST)
		return link_packet_copy(packet, to);
	block = choice_begin(&peer->stores);
	copied = block.special ? link_packet_copy_nontemporal(packet, to)
			       : link_packet_copy(packet, to);
	if (copied)
		choice_end(&peer->stores, &block, length);
	return copied;
}

static uint32_t waiting_max(const struct link_packet *packet)
{
	uint8_t transport = ((const struct bth *)packet->headers)->opcode & WIRE_TRANSPORT_MASK;

	return transport == WIRE_RC || transport == WIRE_XRC ? SHM_WAITING_MAX : SHM_WAITING_PACED;
}

static void keep(struct ring_batch *batch, struct link_packet *packet, uint32_t length)
{
	struct shm_link *link = batch->link;
	struct shm_peer *peer = batch->peer;
	struct shm_waiting *waiting = NULL;

	if (peer->waiting + ring_cost(length) <= waiting_max(packet))
		waiting = malloc(sizeof(*waiting) + length);
	if (!waiting || !link_packet_copy(packet, waiting->data)) {
		free(waiting);
		batch->lost++;
		return;
	}
	finish_packet(batch, packet, length, waiting->data);
	waiting->next = NULL;
	waiting->from = batch->from;
	waiting->length = length;
	waiting->sealed = link->icrc || packet->corrupt_bit;
	if (!peer->first && atomic_fetch_add(&link->waiting, 1) == 0) {
		atomic_store(&link->retry_gap, SHM_RETRY_LEAST);
		atomic_store(&link->retry_at, clock_now() + SHM_RETRY_LEAST);
		atomic_store(&link->link.share->woken, true);
	}
	*peer->last = waiting;
	peer->last = &waiting->next;
	peer->waiting += ring_cost(length);
}

static void send_packet(struct ring_batch *batch, struct link_packet *packet)
{
	uint32_t length = link_packet_length(packet);
	struct ring *ring = &batch->peer->ring;
	uint8_t *to = NULL;

	batch->from.traffic_class = packet->path->traffic_class;
	batch->from.hop_limit = packet->path->hop_limit;
	if (length > RING_PACKET_MAX) {
		batch->lost++;
		return;
	}
	if (!batch->peer->first)
		to = ring_reserve(ring, &batch->from, length);
	if (!to) {
		keep(batch, packet, length);
		return;
	}
	if (!copy_to_ring(batch->peer, packet, length, to)) {
		batch->lost++;
		return;
	}
	finish_packet(batch, packet, length, to);
	ring_append(ring, &batch->from, length, batch->link->icrc || packet->corrupt_bit);
	batch->appended = true;
	if (ring_unpublished(ring) >= SHM_PUBLISH) {
		flush_capture(batch->link);
		ring_publish(ring);
	}
}

/* Returns whether anything could be sent. With the peer's lock. */
static bool send_first_waiting(struct shm_link *link, struct shm_peer *peer)
{
	bool any = false;

	while (peer->first) {
		struct shm_waiting *waiting = peer->first;
		uint8_t *to = ring_reserve(&peer->ring, &waiting->from, waiting->length);

		if (!to)
			return any;
		memcpy(to, waiting->data, waiting->length);
		ring_append(&peer->ring, &waiting->from, waiting->length, waiting->sealed);
		peer->waiting -= ring_cost(waiting->length);
		peer->first = waiting->next;
		free(waiting);
		any = true;
		if (!peer->first) {
			peer->last = &peer->first;
			atomic_fetch_sub(&link->waiting, 1);
		}
	}
	return any;
}

/* What the receiver hasn't opened, and isn't asked to any more, it won't read. */
static void check_offer(struct shm_link *link, struct shm_peer *peer)
{
	if (!inbox_is_offered(peer->inbox, roster_self(link->roster), link->inbox.number,
			      peer->ring_number) &&
	    ring_reader(&peer->ring) == RING_UNOPENED)
		peer->ring.broken = true;
}

/*
 * Publish what was appended, and have the receiver look, if it doesn't anyway. Either it sees the
 * packets after it said that it watches no more, or sleeps, or we see that it did.
 */
static void publish(struct shm_link *link, struct shm_peer *peer)
{
	enum ring_reader reader;
	uint32_t sleep;

	ring_publish(&peer->ring);
	fence_all();
	reader = ring_reader(&peer->ring);
	if (reader == RING_UNOPENED)
		check_offer(link, peer);
	if (reader != RING_WATCHED)
		inbox_ring_bell(peer->inbox, roster_self(link->roster));
	sleep = atomic_load_explicit(&peer->inbox->sleeping, memory_order_relaxed);
	if (sleep && udp_link_wake(link->udp, peer->member))
		atomic_compare_exchange_strong(&peer->inbox->sleeping, &sleep, 0);
}

/* The ring is broken: its reader is sent to by UDP from now on. */
static void give_up(struct shm_link *link, struct shm_peer *peer)
{
	log_info("another process doesn't read its ring, or has damaged it: it is sent to by UDP");
	peer_close(link, peer, true);
}

static unsigned int send_to_peer(struct shm_link *link, struct shm_peer *peer,
				 struct link_packet *packets, unsigned int count)
{
	const struct path *path = packets[0].path;
	struct ring_batch batch = {
		.link = link,
		.peer = peer,
		.from = {.source = path->source, .destination = path->destination},
	};

	batch.from.source_port = udp_link_source_port(link->udp, &path->source);
	if (peer->first)
		batch.appended = send_first_waiting(link, peer);
	for (unsigned int i = 0; i < count; i++)
		send_packet(&batch, &packets[i]);
	flush_capture(link);
	if (batch.appended)
		publish(link, peer);
	if (peer->ring.broken)
		give_up(link, peer);
	return batch.lost;
}

/* --- link_ops.send --------------------------------------------------------------------------- */

static uint32_t destination_qpn(const struct link_packet *packet)
{
	return be32toh(((const struct bth *)packet->headers)->dest_qp) & QPN_MASK;
}

/* Whether @packet goes to the same member by the same addresses as @first. */
static bool goes_with(const struct link_packet *first, const struct link_packet *packet)
{
	return slot_of_qpn(destination_qpn(first)) == slot_of_qpn(destination_qpn(packet)) &&
	       (packet->path == first->path ||
		(gid_equal(&packet->path->source, &first->path->source) &&
		 gid_equal(&packet->path->destination, &first->path->destination)));
}

static unsigned int send_run(struct shm_link *link, struct link_packet *packets, unsigned int count,
			     uint64_t now)
{
	struct shm_peer *peer =
		shm_peer_get(link, &packets[0].path->destination, destination_qpn(&packets[0]));
	unsigned int lost;

	if (!peer)
		return link->udp->ops->send(link->udp, packets, count, now);
	lost = send_to_peer(link, peer, packets, count);
	pthread_mutex_unlock(&peer->lock);
	return lost;
}

unsigned int shm_send(struct link *base, struct link_packet *packets, unsigned int count,
		      uint64_t now)
{
	struct shm_link *link = (struct shm_link *)base;
	unsigned int lost = 0, next;

	if (atomic_load_explicit(&base->lost, memory_order_relaxed))
		return count;
	for (unsigned int i = 0; i < count; i = next) {
		next = i + 1;
		while (next < count && goes_with(&packets[i], &packets[next]))
			next++;
		lost += send_run(link, packets + i, next - i, now);
	}
	return lost;
}

/* --- now and then ---------------------------------------------------------------------------- */

void shm_send_waiting(struct shm_link *link, uint64_t now)
{
	uint64_t gap = atomic_load(&link->retry_gap);
	bool any = false;

	for (uint32_t member = 1; member <= ROSTER_MEMBERS; member++) {
		struct shm_peer *peer = atomic_load(&link->peers[member]);

		if (!peer || pthread_mutex_trylock(&peer->lock) != 0)
			continue;
		if (peer->first && send_first_waiting(link, peer)) {
			publish(link, peer);
			any = true;
		}
		if (peer->ring.broken)
			give_up(link, peer);
		pthread_mutex_unlock(&peer->lock);
	}
	/* A receiver that is stopped is looked at more and more rarely. */
	gap = any ? SHM_RETRY_LEAST : gap * 2 < SHM_RETRY_MOST ? gap * 2 : SHM_RETRY_MOST;
	atomic_store(&link->retry_gap, gap);
	atomic_store(&link->retry_at, now + gap);
}

/* With its lock. */
static void peer_check(struct shm_link *link, struct shm_peer *peer)
{
	if (!peer->inbox)
		return;
	if (roster_inbox(link->roster, peer->member) != peer->number ||
	    !roster_is_alive(link->roster, peer->member)) {
		peer_close(link, peer, true);
		return;
	}
	ring_verify(&peer->ring);
	check_offer(link, peer);
	if (peer->ring.broken)
		give_up(link, peer);
}

void shm_peers_check(struct shm_link *link)
{
	for (uint32_t member = 1; member <= ROSTER_MEMBERS; member++) {
		struct shm_peer *peer = atomic_load(&link->peers[member]);

		if (!peer || pthread_mutex_trylock(&peer->lock) != 0)
			continue;
		peer_check(link, peer);
		pthread_mutex_unlock(&peer->lock);
	}
}

/* What the receivers haven't looked at stays theirs, as in a socket. */
void shm_peers_close(struct shm_link *link)
{
	for (uint32_t member = 1; member <= ROSTER_MEMBERS; member++) {
		struct shm_peer *peer = atomic_load(&link->peers[member]);

		if (!peer)
			continue;
		/* One that nothing was ever written to has no reader to remove its name. */
		peer_close(link, peer,
			   peer->ring.next == 0 ||
				   (peer->inbox && !roster_is_alive(link->roster, member)));
		pthread_mutex_destroy(&peer->lock);
		free(peer);
	}
}
