/* SPDX-License-Identifier: BSD-2-Clause */
#include "stream.h"

#include <stdlib.h>

#include "emu/transport/destination.h"

void streams_create(struct streams *streams, unsigned int nodes, const struct sim_options *options,
		    uint64_t seed)
{
	*streams = (struct streams){0};
	world_create(&streams->world, nodes, options, seed);
	streams->memory = calloc(1, STREAM_MEMORY);
	streams->stall_at = calloc(nodes, sizeof(*streams->stall_at));
	streams->regions = calloc(nodes, sizeof(struct mr *));
	for (unsigned int i = 0; i < nodes; i++)
		streams->regions[i] = world_mr(&streams->world.nodes[i], streams->memory,
					       STREAM_MEMORY, world_connection.access);
}

void streams_destroy(struct streams *streams)
{
	for (unsigned int i = 0; i < streams->count; i++) {
		ck_assert_int_eq(qp_destroy(streams->streams[i].qp), 0);
		ck_assert_int_eq(qp_destroy(streams->streams[i].peer), 0);
	}
	for (unsigned int i = 0; i < streams->world.count; i++)
		ck_assert_int_eq(mr_deregister(streams->regions[i]), 0);
	world_destroy(&streams->world);
	free(streams->regions);
	free(streams->stall_at);
	free(streams->memory);
}

struct stream *stream_add(struct streams *streams, unsigned int from, unsigned int to,
			  enum ibv_wr_opcode opcode, uint32_t length, uint32_t depth,
			  const struct connection *connection)
{
	struct stream *stream = &streams->streams[streams->count++];
	struct qp_options options = {
		.type = IBV_QPT_RC,
		.cap = {.max_send_wr = depth, .max_send_sge = 1},
	};

	must(streams->count <= STREAMS_MAX);
	*stream = (struct stream){
		.from = &streams->world.nodes[from],
		.to = &streams->world.nodes[to],
		.opcode = opcode,
		.length = length,
		.depth = depth,
	};
	stream->qp = world_qp(stream->from, &options);
	stream->peer = world_qp(stream->to, &options);
	world_connect(stream->from, stream->qp, stream->to, stream->peer, connection);
	return stream;
}

/* --- stalls ---------------------------------------------------------------------- */

static uint64_t next_stall(struct streams *streams)
{
	uint64_t between = 2 * streams->stalls.between;

	return world_now(&streams->world) + 1 + sim_random(streams->world.sim) % between;
}

void streams_stall(struct streams *streams, const struct stalls *stalls)
{
	streams->stalls = *stalls;
	for (unsigned int i = 0; stalls->longest && i < streams->world.count; i++)
		streams->stall_at[i] = next_stall(streams);
}

static void begin_stalls(struct streams *streams)
{
	for (unsigned int i = 0; streams->stalls.longest && i < streams->world.count; i++) {
		struct node *node = &streams->world.nodes[i];
		uint64_t longest = streams->stalls.longest;

		if (world_is_stalled(node) || world_now(node->world) < streams->stall_at[i])
			continue;
		streams->stall_count++;
		world_stall(node, 1 + sim_random(streams->world.sim) % longest);
		streams->stall_at[i] =
			node->stalled_until + next_stall(streams) - world_now(&streams->world);
	}
}

/* --- requests ---------------------------------------------------------------------- */

static void stream_post_one(struct streams *streams, struct stream *stream)
{
	struct mr *local = streams->regions[stream->from - streams->world.nodes];
	struct mr *remote = streams->regions[stream->to - streams->world.nodes];
	struct ibv_sge sge = {
		.addr = (uintptr_t)streams->memory,
		.length = stream->length,
		.lkey = local->ibv.lkey,
	};
	struct ibv_send_wr wr = {
		.wr_id = stream - streams->streams,
		.opcode = stream->opcode,
		.send_flags = IBV_SEND_SIGNALED,
		.sg_list = &sge,
		.num_sge = 1,
		.wr.rdma = {.remote_addr = (uintptr_t)streams->memory, .rkey = remote->ibv.rkey},
	};

	must(world_post_send(stream->qp, &wr) == 0);
	stream->posted++;
}

void stream_post(struct streams *streams, struct stream *stream, unsigned int count)
{
	while (count--)
		stream_post_one(streams, stream);
}

static void stream_completed(struct streams *streams, const struct ibv_wc *wc)
{
	struct stream *stream = &streams->streams[wc->wr_id];
	uint64_t now = world_now(&streams->world), pause = now - stream->completed_at;

	stream->posted--;
	if (stream->completed_at && pause > stream->longest_pause)
		stream->longest_pause = pause;
	stream->completed_at = now;
	if (wc->status == IBV_WC_SUCCESS) {
		stream->bytes += stream->length;
	} else if (!stream->failed) {
		stream->failed = true;
		stream->wc = *wc;
	}
}

static void poll_and_post(struct streams *streams)
{
	struct ibv_wc wc;

	for (unsigned int i = 0; i < streams->world.count; i++) {
		if (world_is_stalled(&streams->world.nodes[i]))
			continue;
		while (world_poll(&streams->world.nodes[i], &wc))
			stream_completed(streams, &wc);
	}
	for (unsigned int i = 0; i < streams->count; i++) {
		struct stream *stream = &streams->streams[i];

		while (!stream->stopped && !stream->failed && stream->posted < stream->depth &&
		       !world_is_stalled(stream->from))
			stream_post_one(streams, stream);
	}
}

static unsigned int posted(const struct streams *streams)
{
	unsigned int sum = 0;

	for (unsigned int i = 0; i < streams->count; i++)
		sum += streams->streams[i].posted;
	return sum;
}

void streams_run(struct streams *streams, uint64_t time)
{
	uint64_t end = world_now(&streams->world) + time;

	do {
		poll_and_post(streams);
		begin_stalls(streams);
	} while (world_step(&streams->world) && world_now(&streams->world) < end);
	poll_and_post(streams);
}

bool streams_drain(struct streams *streams, uint64_t limit)
{
	uint64_t end = world_now(&streams->world) + limit;

	for (unsigned int i = 0; i < streams->count; i++)
		streams->streams[i].stopped = true;
	do {
		poll_and_post(streams);
		begin_stalls(streams);
	} while (posted(streams) && world_step(&streams->world) &&
		 world_now(&streams->world) < end);
	poll_and_post(streams);
	return posted(streams) == 0;
}

const struct cwnd *stream_cwnd(const struct stream *stream)
{
	return &stream->qp->recovery.destination->cwnd;
}
