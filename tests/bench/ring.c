/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The limit of shared memory: two processes, each spinning on a CPU of its own, and a ring of
 * slots from one to the other. Prints the MiB/s of a stream, which is copied from a source into
 * the ring and out of it to a sink; with -p millions of slots a second; with -l the median half
 * round trip of a ping-pong over two rings, in microseconds.
 *
 *   ring [-l | -p] [BYTES [SLOTS [MEBIBYTES]]]
 *
 * BYTES in a slot, SLOTS (a power of two) in a ring, MEBIBYTES in all. 128 slots of 4 KiB, as much
 * as a second-level cache has, are as fast as more of them; 16 are a sixth slower.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>

#include "loopback.h"

#define CACHE_LINE 64
#define ROUNDS 200000
#define WARM_UP 1000

/* Is full when it has the number of its turn: so a small message costs a single cache line. */
struct slot {
	_Atomic uint64_t turn;
	uint8_t bytes[];
};

/* Both sides keep their own count of slots; the reader tells the writer its one. */
struct ring {
	uint64_t bytes, stride, count;
	_Alignas(CACHE_LINE) _Atomic uint64_t taken;
	_Alignas(CACHE_LINE) uint8_t slots[];
};

/* Source and sink: as much as a message of perftest has, which the cache of a core doesn't hold. */
static uint8_t buffer[1 << 20];

static struct ring *make_ring(uint64_t bytes, uint64_t count)
{
	uint64_t stride = (sizeof(struct slot) + bytes + CACHE_LINE - 1) & -CACHE_LINE;
	size_t size = sizeof(struct ring) + stride * count;
	struct ring *ring = mmap(NULL, size, PROT_READ | PROT_WRITE,
				 MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	checked(ring == MAP_FAILED ? -1 : 0, "mmap");
	ring->bytes = bytes;
	ring->stride = stride;
	ring->count = count;
	return ring;
}

static struct slot *slot_at(struct ring *ring, uint64_t turn)
{
	return (struct slot *)(ring->slots + (turn & (ring->count - 1)) * ring->stride);
}

/* Where the data of the @turn-th slot comes from, or goes to. */
static uint8_t *place(const struct ring *ring, uint64_t turn)
{
	return buffer + turn * ring->bytes % (sizeof(buffer) - sizeof(buffer) % ring->bytes);
}

/* @taken: what was seen of the ring's one. */
static void put(struct ring *ring, uint64_t turn, uint64_t *taken)
{
	struct slot *slot = slot_at(ring, turn);

	while (turn - *taken == ring->count)
		*taken = atomic_load_explicit(&ring->taken, memory_order_acquire);
	memcpy(slot->bytes, place(ring, turn), ring->bytes);
	atomic_store_explicit(&slot->turn, turn + 1, memory_order_release);
}

static void take(struct ring *ring, uint64_t turn)
{
	struct slot *slot = slot_at(ring, turn);

	while (atomic_load_explicit(&slot->turn, memory_order_acquire) != turn + 1)
		;
	memcpy(place(ring, turn), slot->bytes, ring->bytes);
	atomic_store_explicit(&ring->taken, turn + 1, memory_order_release);
}

/* Until it is killed. */
static void stream(struct ring *ring)
{
	uint64_t taken = 0;

	for (uint64_t turn = 0;; turn++)
		put(ring, turn, &taken);
}

/* Slots a second. */
static double take_all(struct ring *ring, uint64_t slots)
{
	uint64_t warm_up = slots / 8, start = 0;

	for (uint64_t turn = 0; turn < warm_up + slots; turn++) {
		if (turn == warm_up)
			start = now_ns();
		take(ring, turn);
	}
	return slots / ((now_ns() - start) / 1e9);
}

/* Until it is killed. */
static void answer(struct ring *in, struct ring *out)
{
	uint64_t taken = 0;

	for (uint64_t turn = 0;; turn++) {
		take(in, turn);
		put(out, turn, &taken);
	}
}

/* The median of the round trips, in microseconds. */
static double round_trip(struct ring *out, struct ring *in)
{
	static uint64_t times[WARM_UP + ROUNDS];
	uint64_t taken = 0;

	for (uint64_t turn = 0; turn < WARM_UP + ROUNDS; turn++) {
		uint64_t start = now_ns();

		put(out, turn, &taken);
		take(in, turn);
		times[turn] = now_ns() - start;
	}
	qsort(times + WARM_UP, ROUNDS, sizeof(*times), ascending);
	return times[WARM_UP + ROUNDS / 2] / 1e3;
}

int main(int argc, char **argv)
{
	bool latency = false, slots = false;
	int words[3] = {4096, 128, 2048}, option;
	struct ring *there, *back;
	double result;
	pid_t child;

	while ((option = getopt(argc, argv, "lp")) != -1) {
		latency |= option == 'l';
		slots |= option == 'p';
	}
	for (int i = 0; i < 3 && optind + i < argc; i++)
		words[i] = atoi(argv[optind + i]);
	there = make_ring(words[0], words[1]);
	back = make_ring(words[0], words[1]);
	child = fork_partner();
	pin_to_cpu(child ? 0 : 1);
	memset(buffer, child ? 1 : 2, sizeof(buffer)); /* pages of its own, not the one of zeros */
	if (!child && latency)
		answer(there, back);
	if (!child)
		stream(there);
	if (latency)
		result = round_trip(there, back) / 2;
	else
		result = take_all(there, (words[2] * 1048576ull + words[0] - 1) / words[0]);
	end_partner(child);
	if (latency)
		printf("%.3f\n", result);
	else
		printf("%.3f\n", slots ? result / 1e6 : result * words[0] / 1048576);
	return 0;
}
