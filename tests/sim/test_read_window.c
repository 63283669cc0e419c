/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How much a READ has in flight: what the window of the path says, while it is under way, too. The
 * path is one whose queue drops what doesn't fit, on the way of the responses.
 */
#include "emu/transport/destination.h"
#include "stream.h"

#define LONG (32 << 20) /* bytes of a message that takes many windows */

/* --- one long message ------------------------------------------------------------------------ */

static uint8_t memory[LONG];

/* How long a message takes over a fresh connection, ns. */
static uint64_t time_of(const struct sim_options *options, enum ibv_wr_opcode opcode,
			uint8_t rd_atomic)
{
	struct connection connection = world_connection;
	struct qp_options qp_options = {.type = IBV_QPT_RC,
					.cap = {.max_send_wr = 1, .max_send_sge = 1}};
	struct world world;
	struct node *a, *b;
	struct qp *qp, *peer;
	struct mr *from, *to;
	uint64_t began, time;

	world_create(&world, 2, options, 3);
	a = &world.nodes[0];
	b = &world.nodes[1];
	from = world_mr(a, memory, LONG, connection.access);
	to = world_mr(b, memory, LONG, connection.access);
	qp = world_qp(a, &qp_options);
	peer = world_qp(b, &qp_options);
	connection.mtu = IBV_MTU_4096;
	connection.rd_atomic = rd_atomic;
	connection.timeout = 16;
	world_connect(a, qp, b, peer, &connection);

	struct ibv_sge sge = {(uintptr_t)memory, LONG, from->ibv.lkey};
	struct ibv_send_wr wr = {.opcode = opcode,
				 .send_flags = IBV_SEND_SIGNALED,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .wr.rdma = {(uintptr_t)memory, to->ibv.rkey}};

	began = world_now(&world);
	must(world_post_send(qp, &wr) == 0);
	world_expect(a, 0, IBV_WC_SUCCESS);
	time = world_now(&world) - began;
	qp_destroy(qp);
	qp_destroy(peer);
	mr_deregister(from);
	mr_deregister(to);
	world_destroy(&world);
	return time;
}

/* The window grows while the message is under way, and what is asked for at once with it. */
START_TEST(long_read_grows)
{
	static const uint8_t rd_atomic[] = {1, 2, 8, 16};
	struct sim_options options = {.latency = 10 * MS, .bandwidth = 125};
	uint64_t write = time_of(&options, IBV_WR_RDMA_WRITE, 1);
	uint64_t read = time_of(&options, IBV_WR_RDMA_READ, rd_atomic[_i]);

	ck_assert_uint_lt(read, (rd_atomic[_i] < 8 ? 3 : 2) * write);
}
END_TEST

/* --- a queue that is shorter than the window ------------------------------------------------- */

/* Responses that are lost by overflow are a reason to ask for less. */
START_TEST(overflow_reduces)
{
	static const struct {
		uint8_t rd_atomic;
		uint32_t depth, queue;
	} cases[] = {{1, 16, 200000}, {1, 1, 200000},  {8, 16, 200000},
		     {1, 16, 400000}, {8, 16, 400000}, {1, 16, 800000}};
	struct sim_options options = {
		.latency = 10000, .bandwidth = 1250, .send_queue = cases[_i].queue};
	struct connection connection = world_connection;
	struct sim_statistics before, after;
	struct streams streams;
	struct stream *stream;
	uint64_t bytes;

	streams_create(&streams, 2, &options, 7);
	streams.world.grain = 1000;
	connection.mtu = IBV_MTU_4096;
	connection.rd_atomic = cases[_i].rd_atomic;
	connection.timeout = 16;
	stream =
		stream_add(&streams, 0, 1, IBV_WR_RDMA_READ, 1 << 20, cases[_i].depth, &connection);
	streams_run(&streams, 100 * MS);
	sim_statistics(streams.world.sim, &before);
	bytes = stream->bytes;
	streams_run(&streams, 200 * MS);
	sim_statistics(streams.world.sim, &after);
	bytes = stream->bytes - bytes;
	ck_assert(!stream->failed);
	/* Half of what the link carries in the time, and few of a hundred are lost. */
	ck_assert_uint_gt(bytes, 200000 * (uint64_t)options.bandwidth / 2);
	ck_assert_uint_lt((after.overflowed - before.overflowed) * 4096, bytes / 30);
	streams_destroy(&streams);
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("read_window");

	tcase_add_loop_test(tcase, long_read_grows, 0, 4);
	tcase_add_loop_test(tcase, overflow_reduces, 0, 6);
	return world_main("read_window", (TCase *const[]){tcase, NULL});
}
