/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Receiving: from rings and from UDP. A ring is opened when its bell is rung for the first time,
 * and watched from then on: looked at by each call, while its writer rings no bell. Of more rings
 * than are watched the one that had nothing for longest goes back to its bell.
 *
 * Polling makes few system calls while there are rings: UDP is looked at in intervals, and when
 * another member has forwarded a datagram. Then it is asked before the rings, which may have more
 * than a call returns for as long as others write to them; connections, multicasts and other
 * machines can't wait for that. At once, behind the rings, it is looked at only where it had
 * something a moment ago and rings hadn't, and after a sleep.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <utlist.h>

#include "net/capture.h"
#include "net/fence.h"
#include "net/log.h"
#include "net/shm/shm_link.h"
#include "net/spin.h"
#include "net/tuning.h"
#include "net/wire/icrc.h"

/* --- readers -------------------------------------------------------------------------------- */

static void unwatch(struct shm_link *link, unsigned int index)
{
	struct shm_reader *reader = link->watched[index];

	link->watched[index] = link->watched[--link->watched_count];
	reader->watched = false;
	ring_set_reader(&reader->ring, RING_OPEN);
	fence_all();
	if (ring_has_more(&reader->ring))
		inbox_ring_bell(link->inbox.file, reader->member);
}

/* In place of the one that had nothing for longest. */
static void watch(struct shm_link *link, struct shm_reader *reader)
{
	unsigned int oldest = 0;

	if (reader->watched)
		return;
	for (unsigned int i = 1; i < link->watched_count; i++) {
		if (link->watched[i]->found_at < link->watched[oldest]->found_at)
			oldest = i;
	}
	if (link->watched_count == WATCHED_MAX)
		unwatch(link, oldest);
	reader->watched = true;
	link->watched[link->watched_count++] = reader;
	ring_set_reader(&reader->ring, RING_WATCHED);
}

/* Its writer sees that, if it lives, and sends by UDP from then on. */
static void reader_close(struct shm_link *link, struct shm_reader *reader)
{
	for (unsigned int i = 0; i < link->watched_count; i++) {
		if (link->watched[i] == reader) {
			link->watched[i] = link->watched[--link->watched_count];
			break;
		}
	}
	LL_DELETE(link->readers[reader->member], reader);
	ring_set_reader(&reader->ring, RING_CLOSED);
	ring_close(&reader->ring);
	free(reader);
}

/* NULL: the ring isn't there, or can't be. */
static struct shm_reader *reader_open(struct shm_link *link, uint32_t member, uint64_t sender,
				      uint32_t ring_number)
{
	struct shm_reader *reader, *others = link->readers[member];
	char path[SHM_PATH];
	unsigned int count;
	int error = ENOMEM;

	LL_COUNT(others, reader, count);
	if (count >= RINGS_OF_MEMBER)
		return NULL;
	shm_path(path, link->inbox.directory, sender, ring_number);
	reader = ring_alloc(sizeof(*reader));
	if (reader)
		error = ring_open(&reader->ring, path);
	if (error) {
		log_debug("%s: %s", path, strerror(error));
		free(reader);
		return NULL;
	}
	unlink(path);
	reader->member = member;
	reader->sender = sender;
	LL_PREPEND(link->readers[member], reader);
	return reader;
}

static bool has_ended(const struct shm_link *link, const struct shm_reader *reader)
{
	return roster_inbox(link->roster, reader->member) != reader->sender ||
	       !roster_is_alive(link->roster, reader->member);
}

/* What processes wrote before they ended is read first. */
static void close_ended(struct shm_link *link, uint32_t member)
{
	struct shm_reader *reader, *next;

	LL_FOREACH_SAFE (link->readers[member], reader, next) {
		bool ended = has_ended(link, reader);

		fence_reads(); /* or it wrote and ended between the two looks */
		if (ended && !ring_has_more(&reader->ring))
			reader_close(link, reader);
	}
}

/* One that we can't open is sent to us by UDP: its writer sees that the offer has ended. */
static void open_offered(struct shm_link *link, uint32_t member)
{
	struct shm_reader *reader;
	uint64_t sender;
	uint32_t ring_number;
	int state;

	if (!inbox_next_offer(link->inbox.file, member, &sender, &ring_number))
		return;
	close_ended(link, member);
	/* Opening files is a cancellation point, and locks are held. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	reader = reader_open(link, member, sender, ring_number);
	pthread_setcancelstate(state, NULL);
	if (reader)
		watch(link, reader);
	inbox_end_offer(link->inbox.file, member, ring_number);
}

/* Look at what @member has for us. */
static void look_at_member(struct shm_link *link, uint32_t member)
{
	struct shm_reader *reader;

	open_offered(link, member);
	LL_FOREACH (link->readers[member], reader) {
		if (ring_has_more(&reader->ring))
			watch(link, reader);
	}
}

static void take_bells(struct shm_link *link)
{
	uint32_t member;

	/* Those that ring again meanwhile have their turn in the next round. */
	for (unsigned int i = 0; i < WATCHED_MAX && (member = inbox_next_rung(link->inbox.file));
	     i++)
		look_at_member(link, member);
}

/* All of them, as if each had rung. */
static void readers_check(struct shm_link *link)
{
	for (uint32_t member = 1; member <= ROSTER_MEMBERS; member++) {
		look_at_member(link, member);
		close_ended(link, member);
	}
}

void shm_readers_close(struct shm_link *link)
{
	for (uint32_t member = 1; member <= ROSTER_MEMBERS; member++) {
		while (link->readers[member])
			reader_close(link, link->readers[member]);
	}
}

/* --- frames --------------------------------------------------------------------------------- */

/* The ICRC for the capture, which the sender hasn't computed. The record is ours by now. */
static void complete(const struct link_frame *frame)
{
	struct icrc_flow flow;

	if (frame->length < sizeof(struct bth) + ICRC_LENGTH)
		return;
	icrc_flow_init(&flow, &frame->source, &frame->destination, frame->source_port,
		       frame->length);
	icrc_seal_bytes(&flow, 0, (uint8_t *)frame->data, frame->length);
}

static void fill_frame(struct shm_link *link, struct link_frame *frame,
		       const struct ring_packet *packet)
{
	*frame = (struct link_frame){
		.data = packet->data,
		.length = packet->length,
		.source = packet->from.source,
		.destination = packet->from.destination,
		.source_port = packet->from.source_port,
		.traffic_class = packet->from.traffic_class,
		.hop_limit = packet->from.hop_limit,
		.shared = true,
		.trusted = !packet->sealed,
	};
	if (!link->link.capture)
		return;
	if (frame->trusted)
		complete(frame);
	capture_received(link->link.capture, frame);
}

/*
 * As much as stays in the cache until it is delivered: the writer gets the space back soon. Where
 * we waited for a record there are most likely none but those that were published with it. To look
 * behind them takes as long as the line takes to come from the writer's CPU, which wrote a zero
 * there, and what arrived would wait for that.
 */
static unsigned int read_ring(struct shm_link *link, struct shm_reader *reader,
			      struct link_frame *frames, unsigned int max, uint64_t now)
{
	struct ring *ring = &reader->ring;
	bool waited = now - reader->empty_at < SHM_JUST_EMPTY;
	struct ring_packet packet;
	unsigned int count = 0;

	while (count < max && ring->next - ring->released < SHM_READ_MOST &&
	       ring_receive(ring, &packet)) {
		fill_frame(link, &frames[count++], &packet);
		if (packet.last && waited)
			break;
	}
	reader->empty_at = 0;
	return count;
}

static unsigned int read_rings(struct shm_link *link, struct link_frame *frames, unsigned int max,
			       uint64_t now)
{
	unsigned int count = 0, got;

	link->first++;
	for (unsigned int i = 0; i < link->watched_count && count < max; i++) {
		struct shm_reader *reader = link->watched[(link->first + i) % link->watched_count];

		if (!ring_has_more(&reader->ring)) {
			ring_look_ahead(&reader->ring);
			reader->empty_at = now;
			continue;
		}
		got = read_ring(link, reader, frames + count, max - count, now);
		if (got)
			reader->found_at = link->found_at = now;
		count += got;
	}
	return count;
}

/* The rest of a poll takes much longer than a look: a poll in vain looks more than once. */
static unsigned int read_rings_soon(struct shm_link *link, struct link_frame *frames,
				    unsigned int max, uint64_t now)
{
	unsigned int count = read_rings(link, frames, max, now);

	for (unsigned int looks = 0; !count && looks < SHM_LOOKS; looks += link->watched_count) {
		if (!link->watched_count)
			break;
		spin_pause();
		count = read_rings(link, frames, max, now);
	}
	return count;
}

/* What the last call returned is used no more. A broken ring is read no more. */
static void release_rings(struct shm_link *link)
{
	for (unsigned int i = 0; i < link->watched_count;) {
		struct shm_reader *reader = link->watched[i];

		ring_release(&reader->ring);
		if (!reader->ring.broken) {
			i++;
			continue;
		}
		log_warn("another process has damaged a ring: what it wrote there is lost");
		reader_close(link, reader);
	}
}

/* --- UDP ------------------------------------------------------------------------------------ */

static bool udp_had_something_lately(const struct shm_link *link, uint64_t now)
{
	return elapsed(link->udp_found_at, now) < SHM_UDP_RECENT;
}

/* Whether UDP is to be asked first. Now and then it is, however much the rings have. */
static bool udp_is_due(const struct shm_link *link, uint64_t now)
{
	uint64_t interval = udp_had_something_lately(link, now) ? SHM_UDP_OFTEN : SHM_UDP_RARELY;

	return elapsed(link->udp_at, now) >= interval ||
	       roster_notifications(link->roster) != link->notifications;
}

/* Whether UDP is worth asking behind the rings, which had something or not (@found). */
static bool udp_is_likely(const struct shm_link *link, bool found, uint64_t now)
{
	if (!link->watched_count || link->slept)
		return true;
	return !found && link->udp_found_at > link->found_at && udp_had_something_lately(link, now);
}

static unsigned int receive_udp(struct shm_link *link, struct link_frame *frames, unsigned int max,
				uint64_t now)
{
	unsigned int count;

	link->slept = false;
	link->udp_at = now;
	if (link->roster)
		link->notifications = roster_notifications(link->roster);
	count = link->udp->ops->receive(link->udp, frames, max, now);
	link->link.more = link->udp->more || count == max;
	if (count)
		link->udp_found_at = now;
	if (atomic_load_explicit(&link->udp->lost, memory_order_relaxed))
		atomic_store(&link->link.lost, true);
	return count;
}

/*
 * At most @share frames by UDP, and before them what is in rings by now, as far as it is found and
 * there is room: a datagram, a DREQ say, isn't to overtake what its sender wrote to a ring before.
 */
static unsigned int receive_udp_behind_rings(struct shm_link *link, struct link_frame *frames,
					     unsigned int share, unsigned int max, uint64_t now)
{
	unsigned int by_udp = receive_udp(link, frames, share, now), by_rings;

	if (!by_udp)
		return 0;
	memmove(frames + max - by_udp, frames, by_udp * sizeof(*frames));
	by_rings = read_rings(link, frames, max - by_udp, now);
	memmove(frames + by_rings, frames + max - by_udp, by_udp * sizeof(*frames));
	return by_rings + by_udp;
}

/* --- link_ops ------------------------------------------------------------------------------- */

/* It was truncated, or written over: all others are told to send by UDP. */
static void inbox_check(struct shm_link *link)
{
	if (link->inbox.file->size == sizeof(*link->inbox.file) ||
	    !roster_inbox(link->roster, roster_self(link->roster)))
		return;
	log_warn("another process has damaged our inbox in shared memory: it is used no more");
	roster_set_inbox(link->roster, 0);
}

static void check_members(struct shm_link *link, uint64_t now)
{
	link->checked_at = now;
	inbox_check(link);
	readers_check(link);
	shm_peers_check(link);
}

unsigned int shm_receive(struct link *base, struct link_frame *frames, unsigned int max,
			 uint64_t now)
{
	struct shm_link *link = (struct shm_link *)base;
	unsigned int count = 0;
	bool due;

	if (!link->roster)
		return receive_udp(link, frames, max, now);
	if (atomic_load_explicit(&base->lost, memory_order_relaxed)) {
		base->more = false;
		return 0;
	}
	release_rings(link);
	/* What closes rings comes before frames are read from them. */
	if (now - link->checked_at >= link->check)
		check_members(link, now);
	if (inbox_is_rung(link->inbox.file))
		take_bells(link);
	/*
	 * Once a call, for what it returned before is used no more; and the rings have their share.
	 */
	due = udp_is_due(link, now);
	if (due)
		count = receive_udp_behind_rings(link, frames, (max + 1) / 2, max, now);
	if (!count)
		count = read_rings_soon(link, frames, max, now);
	if (atomic_load_explicit(&link->waiting, memory_order_relaxed) &&
	    now >= atomic_load_explicit(&link->retry_at, memory_order_relaxed))
		shm_send_waiting(link, now);
	/* UDP, unless it was asked before the rings: it has more if it was the last to have any. */
	if (!due && count < max && udp_is_likely(link, count, now))
		count += receive_udp_behind_rings(link, frames + count, max - count, max - count,
						  now);
	if (count && base->capture)
		capture_flush(base->capture);
	return count;
}

static bool has_more(const struct shm_link *link)
{
	for (unsigned int i = 0; i < link->watched_count; i++) {
		if (ring_has_more(&link->watched[i]->ring))
			return true;
	}
	return inbox_is_rung(link->inbox.file);
}

/* Other members are looked after while we sleep, too. */
uint64_t shm_prepare_sleep(struct link *base)
{
	struct shm_link *link = (struct shm_link *)base;

	link->slept = true;
	if (!link->roster)
		return TIME_NEVER;
	link->sleeps += 2;
	atomic_store(&link->inbox.file->sleeping, link->sleeps);
	fence_all();
	if (has_more(link))
		return 0;
	return link->checked_at + link->check;
}
