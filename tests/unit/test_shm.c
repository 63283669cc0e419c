/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The link of shared memory: links in one process, and one whose process ends. Packets to numbers
 * that a link has leased go through a ring, all others by UDP; what finds no space waits; what ends
 * leaves no files behind.
 */
#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "gid_of.h"
#include "killable.h"
#include "net/clock.h"
#include "net/random.h"
#include "net/share/share.h"
#include "net/shm/shm_link.h"
#include "net/tuning.h"
#include "net/udp/udp.h"
#include "net/wire/icrc.h"
#include "tests/run_suite.h"

#define ADDRESS_A "127.77.9.1"
#define ADDRESS_B "127.77.9.2"
#define DEADLINE UINT64_C(20000000000)

struct node {
	struct link *link;
	union ibv_gid gid;
	struct lease lease;
};

static char directory[64];
static struct node a, b;
static volatile unsigned int intact; /* frames: to find out, all of each was read */

static struct node node_open(const char *address, bool shared_memory, bool icrc)
{
	const struct udp_options udp_options = {.segmentation = true};
	const struct shm_options options = {.icrc = icrc, .directory = directory};
	struct node node = {.gid = gid_of(address)};
	struct link *udp;

	ck_assert_int_eq(udp_link_create(&udp_options, &udp), 0);
	node.link = udp;
	udp->ops->receive_ttl(udp);
	if (shared_memory)
		ck_assert_int_eq(shm_link_create(udp, &options, &node.link), 0);
	ck_assert_int_eq(node.link->ops->add_address(node.link, &node.gid), 0);
	ck_assert_int_eq(node.link->share->ops->lease_qpns(node.link->share, &node.lease), 0);
	return node;
}

static void node_close(struct node *node)
{
	node->link->ops->close(node->link);
	node->link = NULL;
}

static void remove_files(void)
{
	DIR *files = opendir(directory);
	struct dirent *entry;

	while ((entry = readdir(files)))
		unlinkat(dirfd(files), entry->d_name, 0);
	closedir(files);
}

static unsigned int count_files(void)
{
	DIR *files = opendir(directory);
	struct dirent *entry;
	unsigned int count = 0;

	while ((entry = readdir(files)))
		count += entry->d_name[0] != '.';
	closedir(files);
	return count;
}

static void set_up(void)
{
	snprintf(directory, sizeof(directory), "/dev/shm/urxe-test-shm-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(directory));
	a = node_open(ADDRESS_A, true, false);
	b = node_open(ADDRESS_B, true, false);
}

static void tear_down(void)
{
	if (a.link)
		node_close(&a);
	if (b.link)
		node_close(&b);
	ck_assert_uint_eq(count_files(), 0);
	ck_assert_int_eq(rmdir(directory), 0);
}

/* --- packets -------------------------------------------------------------------------------- */

#define PAYLOAD 1024

static uint8_t payload[PAYLOAD];

struct sent {
	struct path path;
	struct iovec vector;
	struct link_packet packet;
};

static void make(struct sent *sent, const struct node *from, const struct node *to, uint32_t psn)
{
	struct bth bth = {.opcode = WIRE_RC | WIRE_SEND_ONLY,
			  .pkey = htobe16(PKEY_DEFAULT),
			  .dest_qp = htobe32(to->lease.start),
			  .psn = htobe32(psn)};

	memset(payload, psn, sizeof(payload));
	*sent = (struct sent){
		.path = {.source = from->gid, .destination = to->gid, .hop_limit = 64},
		.vector = {payload, sizeof(payload)},
		.packet = {.payload_length = sizeof(payload),
			   .payload_count = 1,
			   .headers_length = sizeof(bth),
			   .trailer_length = ICRC_LENGTH},
	};
	sent->packet.path = &sent->path;
	sent->packet.payload = &sent->vector;
	memcpy(sent->packet.headers, &bth, sizeof(bth));
}

static unsigned int send_one(const struct node *from, const struct node *to, uint32_t psn)
{
	struct sent sent;

	make(&sent, from, to, psn);
	return from->link->ops->send(from->link, &sent.packet, 1, clock_now());
}

static unsigned int receive(const struct node *node, struct link_frame *frames, unsigned int max)
{
	return node->link->ops->receive(node->link, frames, max, clock_now());
}

static void wait_for_frame(const struct node *node, struct link_frame *frame)
{
	uint64_t end = clock_now() + DEADLINE;

	while (receive(node, frame, 1) == 0)
		ck_assert_uint_lt(clock_now(), end);
}

static uint32_t psn_of(const struct link_frame *frame)
{
	return be32toh(((const struct bth *)frame->data)->psn);
}

static void check_frame(const struct link_frame *frame, const struct node *from,
			const struct node *to, uint32_t psn)
{
	static uint8_t expected[PAYLOAD];

	memset(expected, psn, sizeof(expected));
	if (frame->length != sizeof(struct bth) + PAYLOAD + ICRC_LENGTH || psn_of(frame) != psn ||
	    memcmp(frame->data + sizeof(struct bth), expected, PAYLOAD) != 0 ||
	    memcmp(&frame->source, &from->gid, sizeof(from->gid)) != 0 ||
	    memcmp(&frame->destination, &to->gid, sizeof(to->gid)) != 0 || frame->hop_limit != 64)
		ck_abort_msg("frame %u isn't what was sent", psn);
}

static struct shm_link *shm_of(const struct node *node)
{
	return (struct shm_link *)node->link;
}

static struct path path_to(const struct node *from, const struct node *to)
{
	return (struct path){.source = from->gid, .destination = to->gid};
}

/* --- tests ---------------------------------------------------------------------------------- */

static void write_past_caches(const struct node *node, bool nontemporal)
{
	struct shm_link *link = (struct shm_link *)node->link;

	for (uint32_t member = 0; member <= ROSTER_MEMBERS; member++) {
		if (link->peers[member])
			link->peers[member]->stores.nontemporal = nontemporal;
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
	struct node udp = node_open("127.77.9.3", false, false);
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

	elsewhere.gid = gid_of("127.77.9.200");
	path = path_to(&a, &elsewhere);
	ck_assert_uint_eq(a.link->ops->capacity(a.link, &path, b.lease.start), UINT32_MAX);
	ck_assert_uint_eq(count_files(), 2); /* no ring */
	path = path_to(&a, &b);
	ck_assert_uint_eq(a.link->ops->capacity(a.link, &path, b.lease.start), SHM_CAPACITY);
	ck_assert_uint_eq(a.link->ops->capacity(a.link, &path, QPN_GSI), UINT32_MAX);
	path = path_to(&a, &elsewhere);
	ck_assert_uint_eq(a.link->ops->capacity(a.link, &path, b.lease.start), UINT32_MAX);
}
END_TEST

START_TEST(seals_if_asked_to)
{
	struct node always = node_open("127.77.9.3", true, true);
	struct link_frame frame;

	ck_assert_uint_eq(send_one(&always, &b, 1), 0);
	wait_for_frame(&b, &frame);
	ck_assert(frame.shared && !frame.trusted);
	ck_assert(icrc_check(&frame));
	node_close(&always);
	ck_assert_int_eq(b.link->ops->sender(b.link, &frame), LINK_SENDER_NODE);
}
END_TEST

/* net/fault/fault has it corrupted: as on a wire, it is noticed. */
START_TEST(corrupts)
{
	struct link_frame frame;
	struct sent sent;

	make(&sent, &a, &b, 1);
	sent.packet.corrupt_bit = 1 + 8 * offsetof(struct bth, psn);
	ck_assert_uint_eq(a.link->ops->send(a.link, &sent.packet, 1, clock_now()), 0);
	wait_for_frame(&b, &frame);
	ck_assert(!frame.trusted);
	ck_assert(!icrc_check(&frame));
}
END_TEST

#define MANY 5000 /* several rings' worth */

START_TEST(waits_for_space)
{
	struct path path = path_to(&a, &b);
	struct link_frame frames[64];
	uint64_t read;
	uint32_t psn = 0;
	bool told = false;
	uint64_t end = clock_now() + DEADLINE;

	for (uint32_t i = 0; i < MANY; i++) {
		/* A thread that knows of nothing to wait for is told once that there is something.
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
	struct node udp = node_open("127.77.9.3", false, false);
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
	struct node udp = node_open("127.77.9.3", false, false);
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
	struct node udp = node_open("127.77.9.3", false, false);
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
	struct node udp = node_open("127.77.9.3", false, false);
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

#define CROWD (WATCHED_MAX + 8)

/* More rings than are watched: each of them has its turn. */
START_TEST(serves_many)
{
	struct node nodes[CROWD];
	bool seen[CROWD] = {};
	struct link_frame frame;
	char address[32];

	for (unsigned int i = 0; i < CROWD; i++) {
		snprintf(address, sizeof(address), "127.77.10.%u", i + 1);
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

/* --- processes that end ----------------------------------------------------------------------- */

static struct lease *child_lease; /* shared with the child */

static void open_child(const void *address)
{
	struct node child;

	a.link->ops->after_fork_child(a.link);
	b.link->ops->after_fork_child(b.link);
	child = node_open(address, true, false);
	ck_assert_uint_eq(send_one(&child, &b, 1), 0);
	*child_lease = child.lease;
}

static void wait_until_checked(void)
{
	struct shm_link *link = (struct shm_link *)b.link;
	struct link_frame frame;

	link->checked_at = 0;
	ck_assert_uint_eq(receive(&b, &frame, 1), 0);
}

START_TEST(lets_go_of_the_dead)
{
	struct node dead = {.gid = gid_of("127.77.9.3")};
	uint64_t read;
	struct path path;
	struct link_frame frame;
	pid_t pid;

	child_lease = mmap(NULL, sizeof(*child_lease), PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid = killable_process(open_child, "127.77.9.3");
	dead.lease = *child_lease;
	path = path_to(&b, &dead);
	ck_assert_uint_eq(b.link->ops->capacity(b.link, &path, dead.lease.start), SHM_CAPACITY);
	ck_assert_uint_eq(send_one(&b, &dead, 1), 0);
	ck_assert_uint_gt(b.link->ops->unread(b.link, &path, dead.lease.start, &read), 0);
	kill_and_wait(pid);

	/*
	 * What it sent before is there, also as long as a frame is used that came along with the
	 * look at which members live; what it doesn't read isn't unread for ever.
	 */
	((struct shm_link *)b.link)->checked_at = 0;
	wait_for_frame(&b, &frame);
	check_frame(&frame, &dead, &b, 1);
	ck_assert_uint_eq(b.link->ops->unread(b.link, &path, dead.lease.start, &read), 0);
	wait_until_checked();
	ck_assert_uint_eq(((struct shm_link *)b.link)->watched_count, 0);
	ck_assert_uint_eq(b.link->ops->capacity(b.link, &path, dead.lease.start), UINT32_MAX);
	/* Its inbox is left, until another one is made. */
	ck_assert_uint_eq(count_files(), 3);
	node_close(&a);
	a = node_open(ADDRESS_A, true, false);
	ck_assert_uint_eq(count_files(), 2);
	munmap(child_lease, sizeof(*child_lease));
}
END_TEST

/* Another link in its place gets a new ring, at both ends. */
START_TEST(begins_anew_with_another)
{
	struct link_frame frame;

	for (uint32_t round = 0; round < 5; round++) {
		ck_assert_uint_eq(send_one(&a, &b, round), 0);
		wait_for_frame(&b, &frame);
		ck_assert(frame.shared);
		check_frame(&frame, &a, &b, round);
		ck_assert_uint_eq(send_one(&b, &a, round), 0);
		wait_for_frame(&a, &frame);
		ck_assert(frame.shared);
		node_close(&a);
		a = node_open(ADDRESS_A, true, false);
	}
}
END_TEST

/* --- what isn't to be trusted ----------------------------------------------------------------- */

#define OFTEN UINT64_C(1000000) /* ns: how often links look after one another here */

/* Receive on both, use all of each frame, and see whether @psn came to @to as it was sent. */
static bool receive_at_both(const struct node *from, const struct node *to, uint32_t psn,
			    bool *shared)
{
	struct link_frame frames[64];
	unsigned int count = receive(from, frames, 64);
	bool found = false;

	for (unsigned int i = 0; i < count; i++)
		intact += icrc_check(&frames[i]);
	count = receive(to, frames, 64);
	for (unsigned int i = 0; i < count; i++) {
		intact += icrc_check(&frames[i]);
		if (frames[i].length != sizeof(struct bth) + PAYLOAD + ICRC_LENGTH ||
		    psn_of(&frames[i]) != psn)
			continue;
		*shared = frames[i].shared;
		found = true;
	}
	return found;
}

/* What is sent again and again, as RC does it, comes in the end. Returns whether by memory. */
static bool repeat_until_received(const struct node *from, const struct node *to, uint32_t psn)
{
	uint64_t end = clock_now() + DEADLINE;
	bool shared = false;

	do {
		ck_assert_msg(clock_now() < end, "packet %u doesn't come", psn);
		send_one(from, to, psn);
		from->link->ops->prepare_sleep(from->link);
		to->link->ops->prepare_sleep(to->link);
	} while (!receive_at_both(from, to, psn, &shared));
	return shared;
}

static void look_often(void)
{
	shm_of(&a)->check = shm_of(&b)->check = OFTEN;
}

/* Some words, a stretch or all of it: random, zero or all ones. */
static void write_garbage(void *memory, size_t size, uint64_t *random)
{
	size_t words = size / 8, first = random_next(random) % words, count;
	uint64_t kind = random_next(random) % 4;

	count = 1 + random_next(random) % (random_next(random) % 2 ? 4 : words - first);
	for (size_t i = first; i < first + count && i < words; i++)
		((uint64_t *)memory)[i] = kind == 0   ? 0
					  : kind == 1 ? UINT64_MAX
						      : random_next(random);
}

/* In what the other one has written for @node, or all may write: into the same memory. */
static void write_garbage_for(const struct node *node, uint64_t *random)
{
	struct shm_link *link = shm_of(node);
	struct ring *ring = link->watched_count ? &link->watched[0]->ring : NULL;

	if (!ring || random_next(random) % 3 == 0)
		write_garbage(link->inbox.file, sizeof(*link->inbox.file), random);
	else if (random_next(random) % 2)
		write_garbage(ring->head, sizeof(*ring->head), random);
	else
		write_garbage(ring->bytes, RING_BYTES, random);
}

START_TEST(survives_garbage)
{
	uint64_t random = _i + 1;

	look_often();
	for (uint32_t i = 0; i < 40; i++) {
		repeat_until_received(&a, &b, 2 * i);
		repeat_until_received(&b, &a, 2 * i + 1);
		write_garbage_for(random_next(&random) % 2 ? &a : &b, &random);
		/* All by UDP now, perhaps: to the next inbox it is memory again. */
		if (i % 8 == 7) {
			node_close(&a);
			a = node_open(ADDRESS_A, true, false);
			look_often();
		}
	}
	node_close(&a);
	node_close(&b);
	remove_files(); /* of rings that their names don't lead to any more */
}
END_TEST

/* The same memory once more: what is written there stays when the link has let go of it. */
static void *map_again(void *memory, size_t size)
{
	void *again = mremap(memory, 0, size, MREMAP_MAYMOVE);

	ck_assert_ptr_ne(again, MAP_FAILED);
	return again;
}

struct writer {
	void *inbox, *ring;
	uint64_t random;
	_Atomic bool over;
};

static void *write_all_the_time(void *argument)
{
	struct writer *writer = argument;

	while (!atomic_load(&writer->over)) {
		if (random_next(&writer->random) % 4 == 0)
			write_garbage(writer->inbox, sizeof(struct inbox_file), &writer->random);
		else
			write_garbage(writer->ring, RING_BYTES + (1 << 16), &writer->random);
	}
	return NULL;
}

/* What was looked at may be another thing when it is looked at again. */
START_TEST(survives_garbage_meanwhile)
{
	struct writer writer = {.random = _i + 1};
	struct link_frame frame;
	pthread_t thread;

	look_often();
	for (unsigned int round = 0; round < 8; round++) {
		ck_assert_uint_eq(send_one(&a, &b, 1), 0);
		wait_for_frame(&b, &frame);
		ck_assert(frame.shared);
		writer.inbox = map_again(shm_of(&b)->inbox.file, sizeof(struct inbox_file));
		writer.ring = map_again(shm_of(&b)->watched[0]->ring.head, RING_BYTES + (1 << 16));
		atomic_store(&writer.over, false);
		ck_assert_int_eq(pthread_create(&thread, NULL, write_all_the_time, &writer), 0);
		for (uint32_t psn = 0; psn < 200; psn++) {
			bool shared;

			send_one(&a, &b, psn);
			receive_at_both(&a, &b, psn, &shared);
		}
		atomic_store(&writer.over, true);
		pthread_join(thread, NULL);
		repeat_until_received(&a, &b, 1000);
		repeat_until_received(&b, &a, 1001);
		munmap(writer.inbox, sizeof(struct inbox_file));
		munmap(writer.ring, RING_BYTES + (1 << 16));
		node_close(&a);
		node_close(&b);
		a = node_open(ADDRESS_A, true, false);
		b = node_open(ADDRESS_B, true, false);
		look_often();
	}
	node_close(&a);
	node_close(&b);
	remove_files();
}
END_TEST

/* Bells and offers are hints: those that lie close no ring that is read. */
START_TEST(keeps_rings_though_bells_lie)
{
	uint64_t random = 1;

	ck_assert(repeat_until_received(&a, &b, 0));
	look_often();
	for (uint32_t psn = 1; psn < 100; psn++) {
		struct inbox_file *file = shm_of(&b)->inbox.file;

		for (unsigned int i = 0; i < INBOX_WORDS; i++)
			file->members[i] = random_next(&random);
		file->rung = random_next(&random);
		file->sleeping = random_next(&random);
		write_garbage(file->entries, sizeof(file->entries), &random);
		ck_assert(repeat_until_received(&a, &b, psn));
		ck_assert(repeat_until_received(&b, &a, psn));
	}
	memset(shm_of(&b)->inbox.file->entries, 0, sizeof(shm_of(&b)->inbox.file->entries));
}
END_TEST

/* The bell, and what says where it is: then the receiver looks by itself. */
START_TEST(finds_what_no_bell_tells)
{
	struct inbox_file *file = shm_of(&b)->inbox.file;
	struct link_frame frame;

	look_often();
	ck_assert_uint_eq(send_one(&a, &b, 1), 0);
	file->rung = 0;
	memset(file->members, 0, sizeof(file->members));
	wait_for_frame(&b, &frame);
	ck_assert(frame.shared);
	check_frame(&frame, &a, &b, 1);
}
END_TEST

/* Nothing is left where the receiver is to read on: the writer sees that. */
START_TEST(gives_up_a_ring_without_its_records)
{
	look_often();
	ck_assert(repeat_until_received(&a, &b, 1));
	ck_assert_uint_eq(send_one(&a, &b, 2), 0);
	memset(shm_of(&b)->watched[0]->ring.bytes, 0, RING_BYTES);
	ck_assert(!repeat_until_received(&a, &b, 3));
}
END_TEST

/* An offer that is lost, and one that can't be taken: the ring is given up. */
START_TEST(gives_up_a_ring_that_is_not_opened)
{
	struct rlimit limit, none;
	int next = dup(0);

	look_often();
	ck_assert_uint_eq(send_one(&a, &b, 1), 0);
	memset(shm_of(&b)->inbox.file->entries, 0, sizeof(shm_of(&b)->inbox.file->entries));
	ck_assert(!repeat_until_received(&a, &b, 2));

	close(next);
	ck_assert_uint_eq(send_one(&b, &a, 1), 0);
	next = dup(0);
	close(next);
	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	none = (struct rlimit){next, limit.rlim_max};
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
	ck_assert(!repeat_until_received(&b, &a, 2));
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
}
END_TEST

/* Its contents are zeros that no process shares then (net/guard.h), as after a truncation. */
START_TEST(does_without_a_damaged_inbox)
{
	look_often();
	ck_assert(repeat_until_received(&a, &b, 1));
	memset(shm_of(&b)->inbox.file, 0, sizeof(struct inbox_file));
	for (uint64_t end = clock_now() + DEADLINE; repeat_until_received(&a, &b, 2);)
		ck_assert_uint_lt(clock_now(), end);
	ck_assert(!repeat_until_received(&a, &b, 3));
}
END_TEST

START_TEST(gives_up_a_damaged_ring)
{
	struct shm_link *link = (struct shm_link *)b.link;
	struct link_frame frame;

	ck_assert_uint_eq(send_one(&a, &b, 1), 0);
	wait_for_frame(&b, &frame);
	ck_assert_uint_eq(link->watched_count, 1);
	memset(link->watched[0]->ring.bytes, 0x5a, RING_BYTES);
	receive(&b, &frame, 1);
	receive(&b, &frame, 1);
	ck_assert_uint_eq(link->watched_count, 0);
	/* The other side, by what its reader says. */
	ck_assert_uint_eq(send_one(&b, &a, 1), 0);
	wait_for_frame(&a, &frame);
	link = (struct shm_link *)a.link;
	atomic_store(&link->watched[0]->ring.head->released, UINT64_MAX / 2);
	for (uint32_t i = 0; i < MANY; i++)
		send_one(&b, &a, i);
	ck_assert_uint_eq(
		b.link->ops->capacity(b.link, &(struct path){.destination = a.gid}, a.lease.start),
		UINT32_MAX);
}
END_TEST

START_TEST(does_without_shared_memory)
{
	char before[64];
	struct node node;
	struct link_frame frame;

	memcpy(before, directory, sizeof(before));
	snprintf(directory, sizeof(directory), "/dev/shm/urxe-test-nowhere");
	node = node_open("127.77.9.3", true, false);
	memcpy(directory, before, sizeof(before));
	ck_assert_uint_eq(send_one(&node, &b, 1), 0);
	wait_for_frame(&b, &frame);
	ck_assert(!frame.shared);
	ck_assert_uint_eq(send_one(&b, &node, 2), 0);
	wait_for_frame(&node, &frame);
	check_frame(&frame, &b, &node, 2);
	node_close(&node);
}
END_TEST

/* It can't be told to wake up: packets that it may sleep for come by its sockets. */
START_TEST(does_without_a_control_socket)
{
	const struct udp_options udp_options = {};
	const struct shm_options options = {.directory = directory};
	struct node node = {.gid = gid_of("127.77.9.3")};
	struct rlimit limit, two;
	struct link_frame frame;
	struct link *udp;
	int next;

	ck_assert_int_eq(udp_link_create(&udp_options, &udp), 0);
	ck_assert_int_eq(shm_link_create(udp, &options, &node.link), 0);
	udp->ops->receive_ttl(udp);
	next = dup(0);
	close(next);
	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	two = (struct rlimit){next + 2, limit.rlim_max}; /* a socket and the roster */
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &two), 0);
	ck_assert_int_eq(node.link->ops->add_address(node.link, &node.gid), EMFILE);
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	ck_assert_int_eq(node.link->ops->add_address(node.link, &node.gid), 0);
	ck_assert_int_eq(node.link->share->ops->lease_qpns(node.link->share, &node.lease), 0);
	ck_assert_uint_eq(count_files(), 2);
	ck_assert_uint_eq(send_one(&b, &node, 1), 0);
	wait_for_frame(&node, &frame);
	ck_assert(!frame.shared);
	check_frame(&frame, &b, &node, 1);
	node_close(&node);
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
	tcase_add_test(tcase, corrupts);
	tcase_add_test(tcase, waits_for_space);
	tcase_add_test(tcase, waits_in_order);
	tcase_add_loop_test(tcase, bounds_what_waits, 0, sizeof(bounds) / sizeof(bounds[0]));
	tcase_add_test(tcase, wakes_a_receiver_that_sleeps);
	tcase_add_test(tcase, rings_leave_udp_its_turn);
	tcase_add_test(tcase, rings_hide_nothing_that_udp_has);
	tcase_add_test(tcase, rings_leave_udp_what_another_member_tells_of);
	tcase_add_test(tcase, udp_has_more_than_its_share);
	tcase_add_test(tcase, serves_many);
	tcase_add_test(tcase, lets_go_of_the_dead);
	tcase_add_test(tcase, begins_anew_with_another);
	tcase_add_loop_test(tcase, survives_garbage, 0, 10);
	tcase_add_loop_test(tcase, survives_garbage_meanwhile, 0, 3);
	tcase_add_test(tcase, keeps_rings_though_bells_lie);
	tcase_add_test(tcase, finds_what_no_bell_tells);
	tcase_add_test(tcase, gives_up_a_ring_without_its_records);
	tcase_add_test(tcase, gives_up_a_ring_that_is_not_opened);
	tcase_add_test(tcase, does_without_a_damaged_inbox);
	tcase_add_test(tcase, gives_up_a_damaged_ring);
	tcase_add_test(tcase, does_without_shared_memory);
	tcase_add_test(tcase, does_without_a_control_socket);
	suite_add_tcase(suite, tcase);
	return run_suite(suite);
}
