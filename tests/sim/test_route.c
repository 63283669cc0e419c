/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Paths that take another time than they did: another route, or a queue that a stream holds full.
 */
#include "emu/transport/destination.h"
#include "net/tuning.h"
#include "stream.h"

static const struct sim_options path = {.bandwidth = 25}; /* bytes a microsecond */

/* Bytes of a stream that arrive within @time. */
static uint64_t bytes_in(struct streams *streams, uint64_t time)
{
	uint64_t before = streams->streams[0].bytes;

	streams_run(streams, time);
	ck_assert(!streams->streams[0].failed);
	return streams->streams[0].bytes - before;
}

static void begin(struct streams *streams, uint64_t latency)
{
	struct connection connection = world_connection;
	struct sim_options options = path;

	options.latency = latency;
	streams_create(streams, 2, &options, 5);
	streams->world.grain = 1000;
	connection.mtu = IBV_MTU_4096;
	connection.timeout = 18;
	stream_add(streams, 0, 1, IBV_WR_RDMA_WRITE, 1 << 20, 32, &connection);
}

/* A window of CWND_LAN doesn't fill it, and grows when that isn't taken for a queue any more. */
START_TEST(a_longer_route_is_filled)
{
	struct sim_options options = path;
	struct streams streams;

	begin(&streams, _i ? 5 * MS : MS / 2);
	streams_run(&streams, 5 * SECOND);
	options.latency = 100 * MS;
	sim_configure(streams.world.sim, &options);
	streams_run(&streams, 3 * RTT_LEAST_PERIOD / 2);
	ck_assert_uint_gt(bytes_in(&streams, 5 * SECOND),
			  5000000 * 8 / 10 * (uint64_t)path.bandwidth);
	streams_destroy(&streams);
}
END_TEST

/* However long: what the stream itself has queued isn't taken for a longer route. */
START_TEST(a_queue_is_no_longer_route)
{
	struct streams streams;
	const struct cwnd *cwnd;

	begin(&streams, 100 * MS);
	streams_run(&streams, 3 * SECOND);
	cwnd = stream_cwnd(&streams.streams[0]);
	ck_assert_uint_gt(bytes_in(&streams, 6 * RTT_LEAST_PERIOD),
			  6 * RTT_LEAST_PERIOD / 1000 * 9 / 10 * path.bandwidth);
	/* The path holds 200 ms, the queue as much, and the headers aren't counted there. */
	ck_assert_uint_lt(cwnd->size.limit, 3 * 200000 * (uint64_t)path.bandwidth);
	streams_destroy(&streams);
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("route");

	tcase_add_loop_test(tcase, a_longer_route_is_filled, 0, 2);
	tcase_add_test(tcase, a_queue_is_no_longer_route);
	return world_main("route", (TCase *const[]){tcase, NULL});
}
