/* SPDX-License-Identifier: BSD-2-Clause */
#include "calls.h"

#include <errno.h>
#include <time.h>

#define PASSES_MAX 5

struct arena arena;

bool arena_find(const uint8_t *data, uint32_t length, uint32_t *from)
{
	/* The words of the source are multiples of its inverse: fuzz_calls.c. */
	uint32_t word, index;

	*from = 0;
	if (length < sizeof(word))
		return true;
	memcpy(&word, data, sizeof(word));
	index = word * SOURCE_INVERSE;
	if (index >= SOURCE_SIZE / sizeof(word))
		return false;
	*from = index * sizeof(word);
	return length <= SOURCE_SIZE - *from && memcmp(data, arena.source + *from, length) == 0;
}

bool is_zero(const uint8_t *data, size_t length)
{
	for (size_t i = 0; i < length; i++)
		if (data[i])
			return false;
	return true;
}

/* @ibv is the first field of all. */
static bool is_used(const void *object)
{
	return *(void *const *)object;
}

void *pick_used(struct input *input, void *objects, size_t size, size_t count)
{
	uint8_t choice = input_u8(input);

	for (size_t i = 0; i < count; i++) {
		uint8_t *object = (uint8_t *)objects + (choice + i) % count * size;

		if (is_used(object))
			return object;
	}
	return NULL;
}

void *find_unused(void *objects, size_t size, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (!is_used((uint8_t *)objects + i * size))
			return (uint8_t *)objects + i * size;
	return NULL;
}

void must_destroy(int result, bool busy, const char *call)
{
	must_msg(result == (busy ? EBUSY : 0), "%s is %d, in use: %d", call, result, busy);
}

/* --- the end ---------------------------------------------------------------------- */

double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec + now.tv_nsec * 1e-9;
}

static bool may_lose(struct world *world, const struct fuzz_qp *qp)
{
	struct fuzz_cq *send = find_cq(world, qp->send_cq), *recv = find_cq(world, qp->recv_cq);

	return (qp->send_cq && send->overruns) || (qp->recv_cq && recv->overruns);
}

/* In ERR all that was posted completes. */
static void drain(struct world *world, struct fuzz_qp *qp)
{
	double deadline = seconds() + WAIT_SECONDS;

	if (!qp_enter_error(world, qp) || may_lose(world, qp))
		return;
	/* Of the others it can't be told whether they succeeded before. */
	while (count_signaled(world, qp) || count_out(world, qp, false)) {
		poll_all(world);
		must_msg(seconds() < deadline, "QP 0x%x: %u sends, %u receives don't complete",
			 qp->ibv->qp_num, count_signaled(world, qp), count_out(world, qp, false));
	}
}

static void refill_drained(struct world *world, struct fuzz_qp *qp)
{
	if (!qp_enter_error(world, qp) || may_lose(world, qp))
		return;
	refill(world, qp);
	drain(world, qp);
}

static void drain_all(struct world *world)
{
	for (unsigned int i = 0; i < QPS; i++)
		if (world->qps[i].ibv)
			drain(world, &world->qps[i]);
	for (unsigned int i = 0; i < QPS; i++)
		if (world->qps[i].ibv)
			refill_drained(world, &world->qps[i]);
	call_poll_all(world);
}

static void close_devices(struct world *world)
{
	for (unsigned int i = 0; i < DEVICES; i++)
		must(ibv_close_device(world->contexts[i]) == 0);
}

/* Objects may outlive their context, here. */
void world_end(struct world *world)
{
	unsigned int passes = 0;
	bool left;

	if (world->end & END_DRAINED)
		drain_all(world);
	await_cq_events(world);
	await_async_events(world);
	for (unsigned int i = 0; i < CQS; i++)
		if (world->cqs[i].ibv)
			acknowledge_cq(&world->cqs[i]);
	call_ack_async_events(world);
	if (world->end & END_CLOSED_FIRST)
		close_devices(world);
	do {
		left = objects_destroy(world);
		left |= qps_destroy(world);
		must(++passes < PASSES_MAX);
	} while (left);
	atomics_end(world);
	if (!(world->end & END_CLOSED_FIRST))
		close_devices(world);
}
