/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The link of shared memory: packets to numbers that a link has leased go through a ring, all
 * others by UDP, what finds no space waits, and both ways get their turn.
 */
#include <check.h>
#include <pcap/pcap.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gid_of.h"
#include "lost_memory.h"
#include "net/capture.h"
#include "net/clock.h"
#include "net/fault/fault.h"
#include "net/tuning.h"
#include "open_descriptors.h"
#include "own_network.h"
#include "shm_nodes.h"
#include "tests/run_suite.h"

static void write_past_caches(const struct node *node, bool nontemporal)
{
	struct shm_link *link = (struct shm_link *)node->link;

	for (uint32_t member = 0; member <= ROSTER_MEMBERS; member++) {
		if (link->peers[member])
			link->peers[member]->stores.special = nontemporal;
	}
}

/* Whichever way it is written (net/stores.h). */
START_TEST(delivers_by_memory)
{
	struct link_frame frame;

	for (uint32_t psn = 0; psn < 3000; psn++) {
		write_past_caches(&a, psn % 3 == 0);
		ck_assert_uint_eq(send_one(&a, &b, psn), 0);
		wait_for_frame(&b, &frame);
		ck_assert(frame.shared && frame.trusted);
		check_frame(&frame, &a, &b, psn);
		ck_assert_int_eq(b.link->ops->sender(b.link, &frame), LINK_SENDER_NODE);
	}
	/* The ring has no name any more. */
	ck_assert_uint_eq(count_files(), 2);
}
END_TEST

/* But soon after the ring was empty only what was published together, not what is behind it. */
START_TEST(reads_all_there_is)
{
	struct link_frame frames[4];
	struct sent sent[2];
	struct link_packet packets[2];
	uint64_t now;

	ck_assert_uint_eq(send_one(&a, &b, 0), 0);
	wait_for_frame(&b, frames);
	now = clock_now();
	ck_assert_uint_eq(b.link->ops->receive(b.link, frames, 4, now), 0);
	send_one(&a, &b, 1);
	send_one(&a, &b, 2);
	ck_assert_uint_eq(b.link->ops->receive(b.link, frames, 4, now + SHM_JUST_EMPTY - 1), 1);
	check_frame(frames, &a, &b, 1);
	ck_assert_uint_eq(b.link->ops->receive(b.link, frames, 4, now + SHM_JUST_EMPTY - 1), 1);
	check_frame(frames, &a, &b, 2);

	ck_assert_uint_eq(b.link->ops->receive(b.link, frames, 4, now), 0);
	send_one(&a, &b, 3);
	send_one(&a, &b, 4);
	ck_assert_uint_eq(b.link->ops->receive(b.link, frames, 4, now + SHM_JUST_EMPTY), 2);

	ck_assert_uint_eq(b.link->ops->receive(b.link, frames, 4, now), 0);
	for (unsigned int i = 0; i < 2; i++) {
		make(&sent[i], &a, &b, 5);
		packets[i] = sent[i].packet;
	}
	ck_assert_uint_eq(a.link->ops->send(a.link, packets, 2, now), 0);
	ck_assert_uint_eq(b.link->ops->receive(b.link, frames, 4, now), 2);
}
END_TEST

START_TEST(delivers_to_itself)
{
	struct link_frame frame;

	ck_assert_uint_eq(send_one(&a, &a, 7), 0);
	wait_for_frame(&a, &frame);
	ck_assert(frame.shared);
	check_frame(&frame, &a, &a, 7);
}
END_TEST

START_TEST(delivers_by_udp_without_an_inbox)
{
	struct node udp = node_open(ADDRESS_C, false, false);
	struct link_frame frame;

	ck_assert_uint_eq(send_one(&a, &udp, 1), 0);
	wait_for_frame(&udp, &frame);
	ck_assert(!frame.shared);
	ck_assert(icrc_check(&frame));
	check_frame(&frame, &a, &udp, 1);
	ck_assert_uint_eq(send_one(&udp, &a, 2), 0);
	wait_for_frame(&a, &frame);
	ck_assert(!frame.shared);
	check_frame(&frame, &udp, &a, 2);
	node_close(&udp);
}
END_TEST

/* A number says nothing of another machine's address. */
START_TEST(asks_for_the_address)
{
	struct node elsewhere = b;
	struct path path;

	elsewhere.gid = gid_of(NET "200");
	path = path_to(&a, &elsewhere);
	ck_assert_uint_eq(a.link->ops->capacity(a.link, &path, b.lease.start), UINT32_MAX);
	ck_assert_uint_eq(count_files(), 2); /* no ring */
	path = path_to(&a, &b);
	ck_assert_uint_eq(a.link->ops->capacity(a.link, &path, b.lease.start), SHM_CAPACITY);
	ck_assert_uint_eq(a.link->ops->capacity(a.link, &path, QPN_GSI), UINT32_MAX);
	path = path_to(&a, &elsewhere);
	ck_assert_uint_eq(a.link->ops->capacity(a.link, &path, b.lease.start), UINT32_MAX);
	/* A ring that nothing was ever sent by goes with its writer. */
	ck_assert_uint_eq(count_files(), 3);
	node_close(&a);
	ck_assert_uint_eq(count_files(), 1);
}
END_TEST

START_TEST(seals_if_asked_to)
{
	struct node always = node_open(ADDRESS_C, true, true);
	struct link_frame frame;

	ck_assert_uint_eq(send_one(&always, &b, 1), 0);
	wait_for_frame(&b, &frame);
	ck_assert(frame.shared && !frame.trusted);
	ck_assert(icrc_check(&frame));
	node_close(&always);
	ck_assert_int_eq(b.link->ops->sender(b.link, &frame), LINK_SENDER_NODE);
}
END_TEST

/* Until packets wait for space. Returns how many have been sent. */
static uint32_t fill_ring(void)
{
	uint32_t sent = 0;

	while (!shm_of(&a)->waiting)
		ck_assert_uint_eq(send_one(&a, &b, sent++), 0);
	return sent;
}

/* The first @count that have been sent. */
static void receive_filling(uint32_t count)
{
	struct link_frame frame;

	for (uint32_t psn = 0; psn < count; psn++) {
		wait_for_frame(&b, &frame);
		check_frame(&frame, &a, &b, psn);
		ck_assert_uint_eq(receive(&a, &frame, 1), 0); /* sends what waits */
	}
}

/* net/fault/fault has it corrupted: as on a wire, it is noticed. Also where it waits for space. */
START_TEST(corrupts)
{
	uint32_t before = _i ? fill_ring() : 0;
	struct link_frame frame;
	struct sent sent;

	make(&sent, &a, &b, before);
	sent.packet.corrupt_bit = 1 + 8 * offsetof(struct bth, psn);
	ck_assert_uint_eq(a.link->ops->send(a.link, &sent.packet, 1, clock_now()), 0);
	receive_filling(before);
	wait_for_frame(&b, &frame);
	ck_assert(!frame.trusted);
	ck_assert(!icrc_check(&frame));
}
END_TEST

/* What net/fault/fault has held back is a copy, and still of this node. */
START_TEST(delays)
{
	struct link_frame frame;

	ck_assert_int_eq(fault_link_create(b.link, "delay(1us)#1@rx", &b.link, NULL), 0);
	ck_assert_uint_eq(send_one(&a, &b, 1), 0);
	wait_for_frame(&b, &frame);
	ck_assert(!frame.shared && frame.trusted);
	check_frame(&frame, &a, &b, 1);
	frame.source_port = 0; /* of no socket */
	ck_assert_int_eq(b.link->ops->sender(b.link, &frame), LINK_SENDER_NODE);
}
END_TEST

/* Longer than any packet, and than what a ring takes: it would wait for ever. */
START_TEST(refuses_what_is_too_long)
{
	static uint8_t bytes[RING_PACKET_MAX];
	struct sent sent;

	make(&sent, &a, &b, 1);
	sent.vector = (struct iovec){bytes, sizeof(bytes)};
	sent.packet.payload_length = sizeof(bytes);
	ck_assert_uint_eq(a.link->ops->send(a.link, &sent.packet, 1, clock_now()), 1);
	ck_assert_uint_eq(shm_of(&a)->waiting, 0);
}
END_TEST

/* It costs its packet, whether there is space in the ring or not, and none behind it. */
START_TEST(memory_that_is_gone)
{
	uint32_t before = _i ? fill_ring() : 0;
	struct link_frame frame;
	struct sent sent;

	make(&sent, &a, &b, before);
	sent.vector.iov_base = lost_memory(PAYLOAD);
	ck_assert_uint_eq(a.link->ops->send(a.link, &sent.packet, 1, clock_now()), 1);
	ck_assert_uint_eq(send_one(&a, &b, before), 0);
	receive_filling(before + 1);
	ck_assert_uint_eq(receive(&b, &frame, 1), 0);
}
END_TEST

#define HEADERS_BEFORE_BTH (14 + 20 + 8)

/* The next record is packet @psn from @from to @to, with the ICRC that it would have on a wire. */
static void check_record(pcap_t *pcap, const struct node *from, const struct node *to, uint32_t psn)
{
	struct pcap_pkthdr *header;
	const uint8_t *bytes;
	struct link_frame frame;

	ck_assert_int_eq(pcap_next_ex(pcap, &header, &bytes), 1);
	frame = (struct link_frame){
		.data = bytes + HEADERS_BEFORE_BTH,
		.length = header->caplen - HEADERS_BEFORE_BTH,
		.source = from->gid,
		.destination = to->gid,
		.source_port = bytes[34] << 8 | bytes[35],
		.hop_limit = bytes[22],
	};
	check_frame(&frame, from, to, psn);
	ck_assert(icrc_check(&frame));
}

/* What it sends, and what a node sends to it that captures nothing itself. */
START_TEST(is_captured)
{
	char path[64], error[PCAP_ERRBUF_SIZE];
	struct link_frame frame;
	struct node node;
	pcap_t *pcap;

	snprintf(path, sizeof(path), "/tmp/urxe-shm-%d.pcap", (int)getpid());
	capture = capture_open(path);
	ck_assert_ptr_nonnull(capture);
	node = node_open(ADDRESS_C, true, false);
	ck_assert_uint_eq(send_one(&node, &b, 1), 0);
	wait_for_frame(&b, &frame);
	ck_assert(frame.shared);
	ck_assert_uint_eq(send_one(&b, &node, 2), 0);
	wait_for_frame(&node, &frame);
	ck_assert(frame.shared);
	check_frame(&frame, &b, &node, 2);
	node_close(&node);
	capture_close(capture);

	pcap = pcap_open_offline(path, error);
	ck_assert_msg(pcap != NULL, "%s", error);
	check_record(pcap, &node, &b, 1);
	check_record(pcap, &b, &node, 2);
	pcap_close(pcap);
	ck_assert_int_eq(unlink(path), 0);
}
END_TEST

START_TEST(waits_for_space)
{
	struct path path = path_to(&a, &b);
	struct link_frame frames[64];
	uint64_t read;
	uint32_t psn = 0;
	bool told = false;
	uint64_t end = clock_now() + DEADLINE;

	for (uint32_t i = 0; i < MANY; i++) {
		/*
		 * A thread that knows of nothing to wait for is told once that there is something.
		 */
		ck_assert_uint_eq(a.link->share->woken, !told && shm_of(&a)->waiting);
		told |= atomic_exchange(&a.link->share->woken, false);
		if (send_one(&a, &b, i))
			ck_abort_msg("packet %u was lost", i);
	}
	ck_assert(told);
	ck_assert_uint_eq(a.link->ops->rcvbuf_space(a.link, &path, b.lease.start), 0);
	ck_assert_uint_gt(a.link->ops->unread(a.link, &path, b.lease.start, &read),
			  MANY * PAYLOAD / 2);
	ck_assert_uint_lt(a.link->ops->deadline(a.link), TIME_NEVER);
	while (psn < MANY) {
		unsigned int count = receive(&b, frames, 64);

		ck_assert_uint_lt(clock_now(), end);
		for (unsigned int i = 0; i < count; i++, psn++)
			check_frame(&frames[i], &a, &b, psn);
		/* It sends what waits. */
		ck_assert_uint_eq(receive(&a, frames, 64), 0);
	}
	receive(&b, frames, 64);
	ck_assert_uint_eq(a.link->ops->unread(a.link, &path, b.lease.start, &read), 0);
	ck_assert_uint_gt(a.link->ops->rcvbuf_space(a.link, &path, b.lease.start), 0);
	ck_assert_uint_eq(a.link->ops->deadline(a.link), TIME_NEVER);
}
END_TEST

/* Packets of one call, by the same addresses: each as it was sent, to the member that it is for. */
START_TEST(members_of_an_address_get_their_own)
{
	const uint32_t lengths[] = {PAYLOAD, PAYLOAD / 2, PAYLOAD};
	struct node from = node_open(ADDRESS_C, true, true), c = node_open(ADDRESS_B, true, false);
	const struct node *const to[] = {&b, &b, &c};
	struct link_packet packets[3];
	struct link_frame frame;
	struct sent sent[3];

	for (uint32_t i = 0; i < 3; i++) {
		make(&sent[i], &from, to[i], i);
		sent[i].path.traffic_class = 0x62;
		packets[i] = sent[i].packet;
		packets[i].payload_length = lengths[i];
	}
	ck_assert_uint_eq(from.link->ops->send(from.link, packets, 3, clock_now()), 0);
	for (uint32_t i = 0; i < 3; i++) {
		wait_for_frame(to[i], &frame);
		ck_assert(frame.shared && icrc_check(&frame));
		ck_assert_uint_eq(psn_of(&frame), i);
		ck_assert_uint_eq(frame.length, sizeof(struct bth) + lengths[i] + ICRC_LENGTH);
		ck_assert_uint_eq(frame.traffic_class, 0x62);
	}
	node_close(&c);
	node_close(&from);
}
END_TEST

/* A quarter of what is left of the part of a ring that senders are paced by. */
START_TEST(is_as_full_as_what_is_unread)
{
	struct path path = path_to(&a, &b);
	uint32_t space = SHM_PACED / 4, unread = 0;
	uint64_t read;

	for (uint32_t i = 0; space; i++) {
		space = a.link->ops->rcvbuf_space(a.link, &path, b.lease.start);
		unread = a.link->ops->unread(a.link, &path, b.lease.start, &read);
		ck_assert_uint_eq(space, unread > SHM_PACED ? 0 : (SHM_PACED - unread) / 4);
		ck_assert_uint_ge(unread, i * PAYLOAD);
		ck_assert_uint_eq(read, 0);
		ck_assert_uint_eq(send_one(&a, &b, i), 0);
	}
	ck_assert_uint_eq(shm_of(&a)->waiting, 0);
}
END_TEST

/* What fits behind something longer that waits doesn't overtake it. */
START_TEST(waits_in_order)
{
	struct link_frame frames[64];
	uint32_t psn = 0, sent = 0;
	struct sent small;

	while (!shm_of(&a)->waiting)
		ck_assert_uint_eq(send_one(&a, &b, sent++), 0);
	make(&small, &a, &b, sent++);
	small.packet.payload_length = small.packet.payload_count = 0;
	ck_assert_uint_eq(a.link->ops->send(a.link, &small.packet, 1, clock_now()), 0);
	for (uint64_t end = clock_now() + DEADLINE; psn < sent; receive(&a, frames, 64)) {
		unsigned int count = receive(&b, frames, 64);

		ck_assert_uint_lt(clock_now(), end);
		for (unsigned int i = 0; i < count; i++)
			ck_assert_uint_eq(psn_of(&frames[i]), psn++);
	}
}
END_TEST

/* What waits when its sender is closed goes where there is space by then, as from a socket. */
START_TEST(closing_sends_what_waits)
{
	struct link_frame frame;
	uint32_t sent = 0;

	while (!shm_of(&a)->waiting)
		ck_assert_uint_eq(send_one(&a, &b, sent++), 0);
	for (uint32_t psn = 0; psn < sent; psn++) {
		if (psn == sent - 1) {
			ck_assert_uint_eq(receive(&b, &frame, 1), 0);
			node_close(&a);
		}
		wait_for_frame(&b, &frame);
		ck_assert_uint_eq(psn_of(&frame), psn);
	}
}
END_TEST

/*
 * A receiver that never reads costs so much memory and no more: less of it where nothing is
 * acknowledged. Each is UC's or UD's turn, or RC's.
 */
static const struct {
	uint8_t transport;
	uint32_t most; /* bytes */
} bounds[] = {
	{WIRE_RC, SHM_WAITING_MAX},
	{WIRE_XRC, SHM_WAITING_MAX},
	{WIRE_UC, SHM_WAITING_PACED},
	{WIRE_UD, SHM_WAITING_PACED},
};

START_TEST(bounds_what_waits)
{
	const uint32_t most = bounds[_i].most + RING_BYTES;
	uint32_t sent_bytes = 0;

	while (sent_bytes <= most) {
		struct sent sent;

		make(&sent, &a, &b, sent_bytes);
		((struct bth *)sent.packet.headers)->opcode = bounds[_i].transport | WIRE_SEND_ONLY;
		if (a.link->ops->send(a.link, &sent.packet, 1, clock_now()))
			break;
		sent_bytes += PAYLOAD;
	}
	ck_assert_uint_le(sent_bytes, most);
	ck_assert_uint_gt(sent_bytes, most / 4 * 3);
}
END_TEST

/* Waits @timeout, ms. */
static bool is_readable(const struct node *node, int timeout)
{
	struct pollfd polled[8];
	int fds[8];
	unsigned int count = node->link->ops->descriptors(node->link, fds, 8);

	for (unsigned int i = 0; i < count; i++)
		polled[i] = (struct pollfd){fds[i], POLLIN, 0};
	return poll(polled, count, timeout) > 0;
}

START_TEST(wakes_a_receiver_that_sleeps)
{
	struct link_frame frame;

	/* While it polls no descriptor says anything. */
	ck_assert_uint_eq(send_one(&a, &b, 1), 0);
	ck_assert(!is_readable(&b, 0));
	ck_assert_uint_eq(b.link->ops->prepare_sleep(b.link), 0);
	wait_for_frame(&b, &frame);
	ck_assert_uint_eq(receive(&b, &frame, 1), 0);

	ck_assert_uint_gt(b.link->ops->prepare_sleep(b.link), 0);
	ck_assert_uint_eq(send_one(&a, &b, 2), 0);
	ck_assert(is_readable(&b, 0));
	wait_for_frame(&b, &frame);
	check_frame(&frame, &a, &b, 2);
	ck_assert_uint_eq(receive(&b, &frame, 1), 0);
	ck_assert(!is_readable(&b, 0));
	/* Another thread may be the one that sleeps. */
	ck_assert(b.link->share->woken);
}
END_TEST

/* --- by both ways ----------------------------------------------------------------------------- */

#define BATCH 8

/* The clock stands but for what a test says, so that nothing is due that it doesn't say. */
static unsigned int receive_at(uint64_t now, unsigned int *by_udp)
{
	struct link_frame frames[BATCH];
	unsigned int count = b.link->ops->receive(b.link, frames, BATCH, now);

	*by_udp = 0;
	for (unsigned int i = 0; i < count; i++)
		*by_udp += !frames[i].shared;
	return count;
}

/* UDP has been looked at now, and the ring has more than any call here takes. Returns now. */
static uint64_t begin_flood(void)
{
	uint64_t now = clock_now() + SHM_CHECK / 2;
	unsigned int by_udp;

	shm_of(&b)->checked_at = now;
	receive_at(now, &by_udp);
	for (uint32_t i = 0; i < 1000; i++)
		ck_assert_uint_eq(send_one(&a, &b, i), 0);
	return now;
}

static void send_by_udp(const struct node *udp, unsigned int count)
{
	for (uint32_t i = 0; i < count; i++)
		ck_assert_uint_eq(send_one(udp, &b, i), 0);
	ck_assert(is_readable(&b, 10000));
}

/* When UDP is due it has its share, and so have they. */
START_TEST(rings_leave_udp_its_turn)
{
	struct node udp = node_open(ADDRESS_C, false, false);
	uint64_t now = begin_flood();
	unsigned int by_udp;

	send_by_udp(&udp, 2 * BATCH);
	ck_assert_uint_eq(receive_at(now, &by_udp), BATCH);
	ck_assert_uint_eq(by_udp, 0);
	now += SHM_UDP_RARELY;
	ck_assert_uint_eq(receive_at(now, &by_udp), BATCH);
	ck_assert(by_udp > 0 && by_udp <= BATCH / 2);
	ck_assert_uint_eq(receive_at(now, &by_udp), BATCH);
	ck_assert_uint_eq(by_udp, 0);
	/* Where there was something lately it is likelier that there is more. */
	now += SHM_UDP_OFTEN;
	ck_assert(is_readable(&b, 10000));
	ck_assert_uint_eq(receive_at(now, &by_udp), BATCH);
	ck_assert(by_udp > 0 && by_udp <= BATCH / 2);
	node_close(&udp);
}
END_TEST

/* A call that leaves UDP out says what the one before has left there. */
START_TEST(rings_hide_nothing_that_udp_has)
{
	struct node udp = node_open(ADDRESS_C, false, false);
	uint64_t now = begin_flood();
	unsigned int by_udp;

	send_by_udp(&udp, 4 * BATCH);
	do
		ck_assert_uint_eq(receive_at(now += SHM_UDP_RARELY, &by_udp), BATCH);
	while (by_udp && by_udp < BATCH / 2);
	ck_assert_uint_eq(by_udp, BATCH / 2);
	ck_assert_uint_eq(receive_at(now, &by_udp), BATCH);
	ck_assert_uint_eq(by_udp, 0);
	ck_assert(b.link->more);
	node_close(&udp);
}
END_TEST

/* As when it has handed on a datagram. */
START_TEST(rings_leave_udp_what_another_member_tells_of)
{
	struct node udp = node_open(ADDRESS_C, false, false);
	uint64_t now = begin_flood();
	unsigned int by_udp;

	send_by_udp(&udp, 1);
	shm_of(&b)->notifications--;
	ck_assert_uint_eq(receive_at(now, &by_udp), BATCH);
	ck_assert_uint_eq(by_udp, 1);
	node_close(&udp);
}
END_TEST

/* What a call that took its share of UDP left there is told of. */
START_TEST(udp_has_more_than_its_share)
{
	struct node udp = node_open(ADDRESS_C, false, false);
	uint64_t now, end = clock_now() + DEADLINE;
	unsigned int by_udp;

	ck_assert_uint_eq(send_one(&a, &b, 0), 0);
	now = clock_now() + SHM_CHECK / 2;
	receive_at(now, &by_udp);
	send_by_udp(&udp, 2 * BATCH);
	for (unsigned int seen = 0; seen < 2 * BATCH; seen += by_udp) {
		ck_assert_uint_lt(clock_now(), end);
		receive_at(now += SHM_UDP_RARELY, &by_udp);
		ck_assert(by_udp < BATCH / 2 || b.link->more);
	}
	node_close(&udp);
}
END_TEST

/* Whether UDP is due, or asked as rings had nothing lately. */
START_TEST(udp_overtakes_nothing)
{
	struct node udp = node_open(ADDRESS_C, false, false);
	uint64_t now = clock_now() + SHM_CHECK / 2;
	struct link_frame frames[BATCH];
	unsigned int by_udp;

	shm_of(&b)->checked_at = now;
	ck_assert_uint_eq(send_one(&a, &b, 0), 0);
	ck_assert_uint_eq(receive_at(now, &by_udp), 1);
	if (_i)
		now += SHM_UDP_RARELY;
	else
		shm_of(&b)->slept = true;
	ck_assert_uint_eq(send_one(&a, &b, 1), 0);
	send_by_udp(&udp, 1);
	ck_assert_uint_eq(b.link->ops->receive(b.link, frames, BATCH, now), 2);
	check_frame(&frames[0], &a, &b, 1);
	ck_assert(frames[0].shared);
	check_frame(&frames[1], &udp, &b, 0);
	node_close(&udp);
}
END_TEST

/* Where the application has closed its sockets nothing goes by memory either. */
START_TEST(rings_are_lost_with_the_sockets)
{
	uint64_t now = clock_now() + SHM_UDP_RARELY;
	struct link_frame frame;

	atomic_store(&shm_of(&b)->udp->lost, true);
	b.link->ops->receive(b.link, &frame, 1, now);
	ck_assert(b.link->lost);
	ck_assert_uint_eq(send_one(&b, &a, 1), 1);
	ck_assert_uint_eq(receive(&a, &frame, 1), 0);
	b.link->more = true;
	ck_assert_uint_eq(send_one(&a, &b, 2), 0);
	ck_assert_uint_eq(receive(&b, &frame, 1), 0);
	ck_assert(!b.link->more);
}
END_TEST

/* With it goes a ring that it hasn't opened. */
START_TEST(a_process_that_exits_leaves_no_files)
{
	ck_assert_uint_eq(send_one(&a, &b, 1), 0);
	ck_assert_uint_eq(count_files(), 3);
	b.link->ops->at_exit(b.link);
	ck_assert_uint_eq(count_files(), 1);
}
END_TEST

/* A forked child doesn't either, or it would keep the files of its parent when that is dead. */
START_TEST(leaves_nothing_open)
{
	unsigned int before = open_descriptors();
	struct node node = node_open(ADDRESS_C, true, false);
	struct link_frame frame;
	int status;
	pid_t child;

	ck_assert_uint_eq(send_one(&node, &b, 1), 0);
	wait_for_frame(&b, &frame);
	ck_assert_uint_eq(send_one(&b, &node, 2), 0);
	wait_for_frame(&node, &frame);
	child = fork();
	if (child == 0) {
		node.link->ops->after_fork_child(node.link);
		/* All but one, see udp_after_fork_child(). */
		_exit(open_descriptors() <= before + 1 ? EXIT_SUCCESS : EXIT_FAILURE);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
	node_close(&node);
	ck_assert_uint_eq(open_descriptors(), before);
}
END_TEST

#define CROWD (WATCHED_MAX + 8)

/* More rings than are watched: each of them has its turn, by its bell alone. */
START_TEST(serves_many)
{
	struct node nodes[CROWD];
	bool seen[CROWD] = {};
	struct link_frame frame;
	char address[32];

	shm_of(&b)->check = UINT64_MAX;
	for (unsigned int i = 0; i < CROWD; i++) {
		snprintf(address, sizeof(address), NET "%u", 10 + i);
		nodes[i] = node_open(address, true, false);
	}
	for (unsigned int round = 0; round < 4; round++) {
		memset(seen, 0, sizeof(seen));
		for (unsigned int i = 0; i < CROWD; i++)
			ck_assert_uint_eq(send_one(&nodes[i], &b, i), 0);
		for (unsigned int i = 0; i < CROWD; i++) {
			wait_for_frame(&b, &frame);
			ck_assert_uint_lt(psn_of(&frame), CROWD);
			ck_assert(!seen[psn_of(&frame)]);
			seen[psn_of(&frame)] = true;
		}
	}
	for (unsigned int i = 0; i < CROWD; i++)
		node_close(&nodes[i]);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("shm");
	TCase *tcase = tcase_create("shm");

	tcase_add_checked_fixture(tcase, set_up, tear_down);
	tcase_set_timeout(tcase, 120);
	tcase_add_test(tcase, delivers_by_memory);
	tcase_add_test(tcase, reads_all_there_is);
	tcase_add_test(tcase, delivers_to_itself);
	tcase_add_test(tcase, delivers_by_udp_without_an_inbox);
	tcase_add_test(tcase, asks_for_the_address);
	tcase_add_test(tcase, seals_if_asked_to);
	tcase_add_loop_test(tcase, corrupts, 0, 2);
	tcase_add_test(tcase, delays);
	tcase_add_test(tcase, refuses_what_is_too_long);
	tcase_add_loop_test(tcase, memory_that_is_gone, 0, 2);
	tcase_add_test(tcase, is_captured);
	tcase_add_test(tcase, waits_for_space);
	tcase_add_test(tcase, members_of_an_address_get_their_own);
	tcase_add_test(tcase, is_as_full_as_what_is_unread);
	tcase_add_test(tcase, waits_in_order);
	tcase_add_test(tcase, closing_sends_what_waits);
	tcase_add_loop_test(tcase, bounds_what_waits, 0, sizeof(bounds) / sizeof(bounds[0]));
	tcase_add_test(tcase, wakes_a_receiver_that_sleeps);
	tcase_add_test(tcase, rings_leave_udp_its_turn);
	tcase_add_test(tcase, rings_hide_nothing_that_udp_has);
	tcase_add_test(tcase, rings_leave_udp_what_another_member_tells_of);
	tcase_add_test(tcase, udp_has_more_than_its_share);
	tcase_add_loop_test(tcase, udp_overtakes_nothing, 0, 2);
	tcase_add_test(tcase, rings_are_lost_with_the_sockets);
	tcase_add_test(tcase, a_process_that_exits_leaves_no_files);
	tcase_add_test(tcase, leaves_nothing_open);
	tcase_add_test(tcase, serves_many);
	own_network_enter(tcase);
	suite_add_tcase(suite, tcase);
	return run_suite(suite);
}
