/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What loss recovery is for, seen from outside: how fast streams are on paths of every length,
 * that nothing is sent again which wasn't lost, that a silent peer holds up no other QP, that
 * connections share, and how soon what was lost is there. Packet by packet: test_retry.
 */
#include <math.h>

#include "emu/transport/destination.h"
#include "net/random.h"
#include "net/tuning.h"
#include "stream.h"
#include "tests/sanitizers.h"

#define US UINT64_C(1000)
#define MTU 4096
#define MESSAGE 65536
#define DEEP 1024 /* requests of 64 KiB: as much as the largest window */

static const uint64_t round_trips[] = {100 * US, 1 * MS, 20 * MS};
static const enum ibv_wr_opcode opcodes[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ};

#define PATHS 6 /* each round trip with each opcode */

static uint64_t path_round_trip(int i)
{
	return round_trips[i % 3];
}

static enum ibv_wr_opcode path_opcode(int i)
{
	return opcodes[i / 3 % 2];
}

static struct connection patient(void)
{
	struct connection c = world_connection;

	c.mtu = IBV_MTU_4096;
	c.timeout = 18; /* a second: NAKs and probes must do */
	c.rd_atomic = 128;
	return c;
}

static uint64_t between(uint64_t *random, uint64_t least, uint64_t most)
{
	return least + random_below(random, most - least + 1);
}

static uint64_t resent(const struct stream *stream)
{
	return stream->from->hca->counters->retransmitted_pkts;
}

static uint64_t timeouts(const struct stream *stream)
{
	return stream->from->hca->counters->timeouts;
}

static uint64_t probe_timeout(const struct stream *stream)
{
	return stream->qp->recovery.destination->probe_timeout;
}

static struct stream *path_stream(struct streams *streams, int path,
				  const struct sim_options *network, uint64_t seed)
{
	struct connection c = patient();

	streams_create(streams, 2, network, seed);
	streams->world.grain = path_round_trip(path) / 100;
	return stream_add(streams, 0, 1, path_opcode(path), MESSAGE, DEEP, &c);
}

/* --- goodput ------------------------------------------------------------------------ */

/* Bytes a microsecond that arrive in @time, once @warm_up is over. */
static double goodput(struct streams *streams, struct stream *stream, uint64_t warm_up,
		      uint64_t time)
{
	uint64_t before, start;

	if (warm_up)
		streams_run(streams, warm_up);
	before = stream->bytes;
	start = world_now(&streams->world);
	streams_run(streams, time);
	return (stream->bytes - before) / ((world_now(&streams->world) - start) / 1e3);
}

/* What is left of the bandwidth when each packet has its headers. */
static double path_rate(const struct sim_options *network)
{
	return network->bandwidth * MTU / (MTU + 20.0);
}

/* All of the bandwidth, whatever the round trip, and nothing is sent twice. */
START_TEST(a_clean_path_is_filled)
{
	uint64_t round_trip = path_round_trip(_i);
	struct sim_options network = {.latency = round_trip / 2, .bandwidth = 250};
	struct streams streams;
	struct stream *stream;
	double rate;

	stream = path_stream(&streams, _i, &network, 1);
	rate = goodput(&streams, stream, 20 * round_trip, 50 * MS + 20 * round_trip);
	ck_assert_double_ge(rate, 0.95 * path_rate(&network));
	ck_assert_uint_eq(resent(stream), 0);
	ck_assert_uint_eq(stream_cwnd(stream)->reductions, 0);
	streams_destroy(&streams);
}
END_TEST

/* What Reno gets where one packet in 1 / @loss is lost (RFC 9438, 5.2), bytes a microsecond. */
static double reno_rate(double loss, uint64_t round_trip)
{
	return sqrt(1.5 / loss) * MTU / (round_trip / 1e3);
}

/*
 * One packet in a thousand is lost, or comes up to a round trip too late, which can't always be
 * told from that, either way: what TCP makes of such a path.
 */
START_TEST(a_lossy_path_carries_what_tcp_makes_of_it)
{
	enum { SEEDS = SANITIZED ? 3 : 40 };
	uint64_t round_trip = path_round_trip(_i);
	const double rate = 0.001;
	struct sim_options network = {.latency = round_trip / 2, .bandwidth = 250};
	double wanted = fmin(path_rate(&network), reno_rate(rate, round_trip)), mean = 0;

	*(_i < PATHS ? &network.drop : &network.reorder) = rate;
	for (int seed = 0; seed < SEEDS; seed++) {
		struct streams streams;
		struct stream *stream;
		double got;

		stream = path_stream(&streams, _i, &network, seed);
		got = goodput(&streams, stream, 50 * round_trip, 100 * MS + 200 * round_trip);
		must_msg(got > 0.4 * wanted, "seed %d: %f MB/s, wanted %f", seed, got, wanted);
		must_msg(timeouts(stream) == 0, "seed %d: a timeout", seed);
		mean += got / SEEDS;
		streams_destroy(&streams);
	}
	ck_assert_msg(mean >= (_i < PATHS ? 0.8 : 0.7) * wanted, "%f MB/s, wanted %f", mean,
		      wanted);
}
END_TEST

/* What is late is sent again, once, but the window isn't smaller for it. */
START_TEST(a_path_that_reorders_is_filled)
{
	enum { SEEDS = SANITIZED ? 2 : 10 };
	uint64_t round_trip = path_round_trip(_i);
	struct sim_options network = {.latency = round_trip / 2,
				      .bandwidth = 250,
				      .reorder = 0.01,
				      .lateness = round_trip / 2};

	for (int seed = 0; seed < SEEDS; seed++) {
		struct streams streams;
		struct stream *stream;
		double got;

		stream = path_stream(&streams, _i, &network, seed);
		got = goodput(&streams, stream, 50 * round_trip, 100 * MS + 50 * round_trip);
		must_msg(got >= 0.7 * path_rate(&network), "seed %d: %f MB/s", seed, got);
		streams_destroy(&streams);
	}
}
END_TEST

/* Slow start goes on to where the queue of the link overflows, and up to that again afterwards. */
START_TEST(an_overflow_where_packets_are_late)
{
	enum { SEEDS = SANITIZED ? 1 : 4 };
	uint64_t round_trip = 20 * MS;
	struct sim_options network = {.latency = round_trip / 2,
				      .bandwidth = 125,
				      .send_queue = 1 << 20,
				      .reorder = 0.01,
				      .lateness = round_trip / 2};
	struct connection c = patient();

	c.mtu = IBV_MTU_1024;
	for (int seed = 0; seed < SEEDS; seed++) {
		struct streams streams;
		struct stream *stream;
		double got;

		streams_create(&streams, 2, &network, seed);
		streams.world.grain = round_trip / 100;
		stream = stream_add(&streams, 0, 1, opcodes[_i], MESSAGE, DEEP, &c);
		got = goodput(&streams, stream, SECOND, SECOND);
		must_msg(got >= 0.25 * path_rate(&network), "seed %d: %f MB/s", seed, got);
		streams_destroy(&streams);
	}
}
END_TEST

/* A window leaves in small parts, and what waits to leave is little of it: RFC 9002, 7.7. */
START_TEST(a_long_path_is_paced)
{
	struct sim_options network = {.latency = 10 * MS};
	struct connection c = patient();
	struct sim_statistics statistics;
	struct streams streams;
	struct stream *stream;
	uint64_t limit;

	streams_create(&streams, 2, &network, 1);
	streams.world.grain = 200 * US;
	stream = stream_add(&streams, 0, 1, opcodes[_i], MESSAGE, DEEP, &c);
	streams_run(&streams, 200 * MS);
	limit = stream_cwnd(stream)->size.limit;
	ck_assert_uint_ge(limit, CWND_LAN);
	/* From now on a wire that is ten times as fast as the window needs. */
	network.bandwidth = 10 * limit / (20 * MS / US);
	sim_configure(streams.world.sim, &network);
	streams_run(&streams, 40 * MS);
	sim_statistics(streams.world.sim, &statistics);
	ck_assert_uint_gt(statistics.longest_queue, 0);
	ck_assert_uint_le(statistics.longest_queue, limit / 4);
	ck_assert_uint_ge(stream_cwnd(stream)->in_flight, limit / 2);
	streams_destroy(&streams);
}
END_TEST

/*
 * Between machines side by side of a hundred packets one is lost: each costs a packet, and sending
 * goes on. The requester knows which responses it has, and of requests only the first that is
 * missing.
 */
START_TEST(a_short_lossy_path_stays_fast)
{
	enum { SEEDS = SANITIZED ? 1 : 5 };
	struct sim_options network = {.latency = 25 * US, .bandwidth = 2000, .drop = 0.01};
	struct connection c = patient();
	double mean = 0;

	for (int seed = 0; seed < SEEDS; seed++) {
		struct streams streams;
		struct stream *stream;

		streams_create(&streams, 2, &network, seed);
		streams.world.grain = US;
		stream = stream_add(&streams, 0, 1, opcodes[_i], MESSAGE, DEEP, &c);
		mean += goodput(&streams, stream, 10 * MS, 20 * MS) / SEEDS;
		must_msg(timeouts(stream) == 0, "seed %d: a timeout", seed);
		streams_destroy(&streams);
	}
	ck_assert_double_ge(mean,
			    (opcodes[_i] == IBV_WR_RDMA_READ ? 0.9 : 0.75) * path_rate(&network));
}
END_TEST

/* A socket buffer that overflows when its process doesn't run: the stream goes on behind it. */
START_TEST(a_small_receive_queue)
{
	enum { SEEDS = SANITIZED ? 2 : 20 };
	struct sim_options network = {
		.latency = 50 * US, .bandwidth = 250, .receive_queue = 208 * 1024};
	struct stalls stalls = {.longest = 4 * MS, .between = 40 * MS};
	struct connection c = patient();
	uint64_t overflowed = 0;
	double mean = 0;

	for (int seed = 0; seed < SEEDS; seed++) {
		struct sim_statistics statistics;
		struct streams streams;
		struct stream *stream;

		streams_create(&streams, 2, &network, seed);
		streams.world.grain = US;
		stream = stream_add(&streams, 0, 1, opcodes[_i], MESSAGE, DEEP, &c);
		streams_stall(&streams, &stalls);
		mean += goodput(&streams, stream, 20 * MS, 150 * MS) / SEEDS;
		must_msg(timeouts(stream) == 0, "seed %d: a timeout", seed);
		sim_statistics(streams.world.sim, &statistics);
		overflowed += statistics.overflowed;
		streams_destroy(&streams);
	}
	ck_assert_uint_gt(overflowed, 0);
	ck_assert_double_ge(mean, 0.8 * path_rate(&network));
}
END_TEST

/* --- nothing was lost ------------------------------------------------------------------ */

struct stalling {
	struct streams streams;
	struct stream *stream;
};

/* A path and a stream at random, which has run for a while; from now on the nodes stall. */
static void stalling_create(struct stalling *s, uint64_t seed, uint64_t longest)
{
	static const uint32_t lengths[] = {16384, 65536, 262144, 1048576};
	struct stalls stalls = {.longest = longest, .between = 2 * longest};
	struct connection c = patient();
	uint64_t random = seed;
	enum ibv_wr_opcode opcode = opcodes[random_below(&random, 2)];
	struct sim_options network = {
		.latency = between(&random, 10, 100) * (US << random_below(&random, 8)) / 2,
		.bandwidth = between(&random, 10, 60),
	};
	uint32_t length = MESSAGE;

	/* There must be new data for a probe; of READs only so many may be outstanding. */
	if (opcode == IBV_WR_RDMA_WRITE)
		length = lengths[random_below(&random, 4)];
	streams_create(&s->streams, 2, &network, seed);
	s->streams.world.grain = network.latency / 50;
	s->stream = stream_add(&s->streams, 0, 1, opcode, length, (16 << 20) / length, &c);
	streams_run(&s->streams, 20 * network.latency);
	streams_stall(&s->streams, &stalls);
}

/*
 * Each node doesn't run now and then, for shorter than the time after which a packet is sent
 * twice: what shows that nothing is missing is new.
 */
START_TEST(what_was_not_lost_is_not_sent_again)
{
	enum { SEEDS = SANITIZED ? 12 : 100 };

	for (int seed = _i * SEEDS; seed < (_i + 1) * SEEDS; seed++) {
		struct stalling s;

		stalling_create(&s, seed, 2 * RETRANSMIT_TIMEOUT_LEAST);
		streams_run(&s.streams, 300 * MS);
		must_msg(resent(s.stream) == 0, "seed %d: %llu packets sent again", seed,
			 (unsigned long long)resent(s.stream));
		must_msg(stream_cwnd(s.stream)->reductions == 0, "seed %d: reduced", seed);
		must_msg(!s.stream->failed, "seed %d: failed", seed);
		streams_destroy(&s.streams);
	}
}
END_TEST

/* Of a longer one the NAK may have been lost: then probes retransmit packets, a few on average. */
START_TEST(long_stalls_do_not_reduce_the_window)
{
	enum { SEEDS = SANITIZED ? 25 : 50 };
	uint64_t again = 0, most = 0, limit;

	for (int seed = _i * SEEDS; seed < (_i + 1) * SEEDS; seed++) {
		struct stalling s;

		stalling_create(&s, seed, 100 * MS);
		limit = stream_cwnd(s.stream)->size.limit;
		streams_run(&s.streams, 500 * MS);
		must_msg(stream_cwnd(s.stream)->size.limit >= limit, "seed %d: reduced", seed);
		must_msg(!s.stream->failed, "seed %d: failed", seed);
		again += resent(s.stream);
		most += PROBE_COUNT * s.streams.stall_count;
		streams_destroy(&s.streams);
	}
	ck_assert_uint_le(again, most);
}
END_TEST

/* --- silent peers ------------------------------------------------------------------------ */

/*
 * Some QPs' peers say nothing any more: another QP to the same address goes on after one probe
 * timeout, and has all of the path.
 */
START_TEST(a_silent_qp_holds_up_no_other)
{
	enum { SEEDS = SANITIZED ? 4 : 20 };

	for (int seed = _i * SEEDS; seed < (_i + 1) * SEEDS; seed++) {
		uint64_t random = seed, round_trip = between(&random, 1, 100) * 100 * US, most;
		struct sim_options network = {.latency = round_trip / 2, .bandwidth = 50};
		struct connection c = patient();
		struct streams streams;
		struct stream *live;
		double rate;

		streams_create(&streams, 2, &network, seed);
		streams.world.grain = network.latency / 50;
		live = stream_add(&streams, 0, 1, opcodes[seed % 2], MESSAGE, DEEP, &c);
		for (uint64_t i = between(&random, 1, 5); i > 0; i--)
			stream_add(&streams, 0, 1, IBV_WR_RDMA_WRITE, MESSAGE, 64, &c);
		streams_run(&streams, 50 * MS + 20 * round_trip);
		for (unsigned int i = 1; i < streams.count; i++)
			world_modify_state(streams.streams[i].peer, IBV_QPS_ERR);
		most = probe_timeout(live) + 2 * live->qp->recovery.destination->rtt.smoothed;
		live->longest_pause = 0;
		streams_run(&streams, 2 * most);
		must_msg(live->longest_pause <= most, "seed %d: a pause of %llu, not %llu ns", seed,
			 (unsigned long long)live->longest_pause, (unsigned long long)most);
		rate = goodput(&streams, live, 0, 50 * MS + 10 * round_trip);
		must_msg(rate >= 0.9 * path_rate(&network), "seed %d: %f MB/s", seed, rate);
		must_msg(!streams.streams[1].failed, "seed %d: not silent, but failed", seed);
		streams_destroy(&streams);
	}
}
END_TEST

/* A stopped process: streams to another address notice nothing. */
START_TEST(a_stopped_node_holds_up_no_other)
{
	struct sim_options network = {.latency = 500 * US, .bandwidth = 100};
	struct connection c = patient();
	struct streams streams;
	struct stream *live;
	double rate;

	streams_create(&streams, 3, &network, _i);
	streams.world.grain = network.latency / 50;
	live = stream_add(&streams, 0, 1, opcodes[_i], MESSAGE, DEEP, &c);
	stream_add(&streams, 0, 2, IBV_WR_RDMA_WRITE, MESSAGE, DEEP, &c);
	streams_run(&streams, 100 * MS);
	world_stall(&streams.world.nodes[2], TIME_NEVER);
	/* What was on the sender's wire goes first. */
	rate = goodput(&streams, live, 50 * MS, 200 * MS);
	ck_assert_double_ge(rate, 0.95 * path_rate(&network));
	streams_destroy(&streams);
}
END_TEST

/*
 * One stream, of a QP whose timeout and retry count are at random, has run for some milliseconds.
 * @receive_queue: 0, or that of a receiver of this machine. Returns how long the QP retries at
 * the least.
 */
static uint64_t stream_before_stop(struct streams *streams, uint64_t *random,
				   uint32_t receive_queue, int seed)
{
	struct sim_options network = {.latency = between(random, 1, 200) * US,
				      .bandwidth = 10,
				      .receive_queue = receive_queue};
	struct connection c = patient();

	c.retry_cnt = between(random, 0, 7);
	c.timeout = between(random, 13, 17);
	streams_create(streams, 2, &network, seed);
	streams->world.grain = network.latency / 5;
	stream_add(streams, 0, 1, opcodes[seed % 2], 4096, 8, &c);
	streams_run(streams, between(random, 1, 10) * MS);
	return (1 + c.retry_cnt) * (UINT64_C(4096) << c.timeout);
}

/*
 * The QP's own timeout and retry count say when a peer is taken for dead (IBA 9.7.6.1.3: T to 4 T
 * each), whatever was probed meanwhile.
 */
START_TEST(a_stopped_peer_fails_in_the_qps_time)
{
	enum { SEEDS = SANITIZED ? 6 : 50 };

	for (int seed = _i * SEEDS; seed < (_i + 1) * SEEDS; seed++) {
		uint64_t random = seed, stopped;
		struct streams streams;
		uint64_t least = stream_before_stop(&streams, &random, 0, seed);
		struct stream *stream = &streams.streams[0];

		/* One that comes back in time hasn't failed. */
		world_stall(stream->to, between(&random, 0, least * 9 / 10));
		while (world_is_stalled(stream->to))
			streams_run(&streams, MS);
		streams_run(&streams, 20 * MS);
		must_msg(!stream->failed, "seed %d: failed while the peer stalled", seed);
		world_stall(stream->to, TIME_NEVER);
		stopped = world_now(&streams.world);
		streams_run(&streams, 4 * least + MS);
		must_msg(stream->failed, "seed %d: no error in time", seed);
		must_msg(stream->wc.status == IBV_WC_RETRY_EXC_ERR, "seed %d: status %d", seed,
			 stream->wc.status);
		/* The last answer may have been there for as long as a request takes. */
		must_msg(stream->completed_at + 5 * MS >= stopped + least,
			 "seed %d: an error after %llu ns, not %llu", seed,
			 (unsigned long long)(stream->completed_at - stopped),
			 (unsigned long long)least);
		streams_destroy(&streams);
	}
}
END_TEST

/*
 * A process of this machine that is stopped in a debugger, or doesn't get the CPU, is waited for:
 * hardware would have answered for it. When nothing waits for it any more, it isn't.
 */
START_TEST(a_stopped_process_is_waited_for)
{
	enum { SEEDS = SANITIZED ? 6 : 50 };

	for (int seed = _i * SEEDS; seed < (_i + 1) * SEEDS; seed++) {
		static const struct sim_options elsewhere = {.latency = 100 * US};
		uint64_t random = seed;
		struct streams streams;
		uint64_t least = stream_before_stop(&streams, &random, 1 << 20, seed);
		struct stream *stream = &streams.streams[0];

		world_stall(stream->to, 100 * least);
		while (world_is_stalled(stream->to))
			streams_run(&streams, least);
		streams_run(&streams, 20 * MS);
		must_msg(!stream->failed, "seed %d: failed while the peer was stopped", seed);
		world_stall(stream->to, TIME_NEVER);
		sim_configure(streams.world.sim, &elsewhere);
		streams_run(&streams, 4 * least + MS);
		must_msg(stream->failed, "seed %d: no error in time", seed);
		streams_destroy(&streams);
	}
}
END_TEST

/* Packets that wait may be those of other QPs: one that isn't answered fails all the same. */
START_TEST(a_silent_qp_of_a_busy_process_fails)
{
	enum { SEEDS = SANITIZED ? 3 : 10 };

	for (int seed = _i * SEEDS; seed < (_i + 1) * SEEDS; seed++) {
		uint64_t random = seed;
		struct sim_options network = {.latency = between(&random, 1, 100) * US,
					      .bandwidth = 20,
					      .receive_queue = 1 << 20};
		struct connection c = patient();
		struct streams streams;

		c.retry_cnt = between(&random, 0, 3);
		c.timeout = between(&random, 11, 13);
		streams_create(&streams, 2, &network, seed);
		streams.world.grain = network.latency / 5;
		stream_add(&streams, 0, 1, opcodes[seed % 2], MESSAGE, DEEP, &c);
		stream_add(&streams, 0, 1, opcodes[seed % 2], MESSAGE, DEEP, &c);
		streams_run(&streams, 10 * MS);
		world_modify_state(streams.streams[1].peer, IBV_QPS_ERR);
		streams_run(&streams, SECOND);
		must_msg(!streams.streams[0].failed, "seed %d: the live one failed", seed);
		must_msg(streams.streams[1].failed, "seed %d: no error", seed);
		streams_destroy(&streams);
	}
}
END_TEST

/* --- shares ---------------------------------------------------------------------------- */

/* Connections to one address, whatever the length of their messages and the order they came in. */
START_TEST(connections_share_fairly)
{
	static const uint32_t lengths[] = {4096, 16384, 65536, 1048576};
	enum { SEEDS = SANITIZED ? 4 : 20 };

	for (int seed = _i * SEEDS; seed < (_i + 1) * SEEDS; seed++) {
		uint64_t random = seed;
		struct sim_options network = {.latency = between(&random, 1, 50) * 20 * US,
					      .bandwidth = 100,
					      .drop = seed % 2 ? 0.001 : 0};
		int64_t least = INT64_MAX, most = 0;
		struct connection c = patient();
		uint32_t start[STREAMS_MAX];
		struct streams streams;

		streams_create(&streams, 2, &network, seed);
		streams.world.grain = network.latency / 50;
		for (uint64_t i = between(&random, 2, 4); i > 0; i--) {
			uint32_t length = lengths[random_below(&random, 4)];

			stream_add(&streams, 0, 1, IBV_WR_RDMA_WRITE, length, (8 << 20) / length,
				   &c);
			streams_run(&streams, between(&random, 1, 20) * MS);
		}
		streams_run(&streams, 100 * MS);
		for (unsigned int i = 0; i < streams.count; i++)
			start[i] = streams.streams[i].qp->requester.unacked;
		streams_run(&streams, SECOND);
		for (unsigned int i = 0; i < streams.count; i++) {
			const struct qp *qp = streams.streams[i].qp;
			int64_t bytes =
				psn_distance(qp->requester.unacked, start[i]) * (int64_t)qp->mtu;

			least = bytes < least ? bytes : least;
			most = bytes > most ? bytes : most;
		}
		/* Which of them loses a packet is chance. */
		must_msg(least >= (network.drop > 0 ? 0.7 : 0.8) * most,
			 "seed %d: %lld bytes and %lld", seed, (long long)least, (long long)most);
		streams_destroy(&streams);
	}
}
END_TEST

/* --- what was lost ------------------------------------------------------------------------- */

/*
 * The path is cut for a while, anywhere in a few messages: what is lost may be their tail, the
 * last acknowledgement, a NAK, what was sent again, the first probe, or all of it. The second
 * probe is answered, and never does it take the timeout of the QP.
 */
START_TEST(short_cuts_cost_a_few_probes)
{
	enum { SEEDS = SANITIZED ? 62 : 500 };

	for (int seed = _i * SEEDS; seed < (_i + 1) * SEEDS; seed++) {
		uint64_t random = seed, round_trip, retransmit, start;
		struct sim_options network = {.bandwidth = 50};
		struct connection c = patient();
		const union ibv_gid *peer;
		struct streams streams;
		struct stream *stream;

		round_trip = between(&random, 1, 4) * (20 * US << seed % 9);
		network.latency = round_trip / 2;
		streams_create(&streams, 2, &network, seed);
		stream = stream_add(&streams, 0, 1, opcodes[seed / 9 % 2], 16384, 16, &c);
		peer = &stream->to->gids.entries[0].gid;
		for (int i = 0; i < 5; i++) {
			stream_post(&streams, stream, 1);
			must(streams_drain(&streams, SECOND));
		}
		retransmit = probe_timeout(stream);
		if (retransmit < RETRANSMIT_TIMEOUT_LEAST)
			retransmit = RETRANSMIT_TIMEOUT_LEAST;
		start = world_now(&streams.world);
		stream_post(&streams, stream, between(&random, 1, 8));
		world_run(&streams.world, between(&random, 0, 3 * round_trip / 2));
		sim_partition(streams.world.sim, peer, true);
		world_run(&streams.world, between(&random, 0, round_trip));
		sim_partition(streams.world.sim, peer, false);
		/* The tail after one, the oldest after two more, and what was behind it. */
		must_msg(streams_drain(&streams, 3 * retransmit + 4 * round_trip + 10 * MS),
			 "seed %d: not done after %llu ns", seed,
			 (unsigned long long)(world_now(&streams.world) - start));
		must_msg(!stream->failed && timeouts(stream) == 0, "seed %d: a timeout", seed);
		streams_destroy(&streams);
	}
}
END_TEST

/*
 * One small message at a time: nothing follows what is lost, and no NAK tells of it. A probe that
 * was answered late must not make the next one later, and that the one after it.
 */
START_TEST(a_loss_costs_as_much_as_the_one_before)
{
	enum { SEEDS = SANITIZED ? 2 : 10, LIMIT = 10 };

	for (int seed = _i * SEEDS; seed < (_i + 1) * SEEDS; seed++) {
		struct sim_options network = {.latency = (20 << seed % 3) * US, .drop = 0.02};
		struct connection c = patient();
		struct streams streams;
		struct stream *stream;
		uint64_t messages;

		streams_create(&streams, 2, &network, seed);
		stream = stream_add(&streams, 0, 1, IBV_WR_RDMA_WRITE, 8, 1, &c);
		streams_run(&streams, LIMIT * SECOND);
		messages = stream->bytes / 8;
		/*
		 * The application looks at its CQ when the next timer is due. Four of a hundred
		 * messages wait for a probe, and hardly any for a second.
		 */
		must_msg(messages > LIMIT * SECOND / PROBE_TIMEOUT_LEAST,
			 "seed %d: only %llu messages", seed, (unsigned long long)messages);
		must_msg(!stream->failed, "seed %d: failed", seed);
		streams_destroy(&streams);
	}
}
END_TEST

int main(void)
{
	TCase *rates = tcase_create("goodput"), *stalls = tcase_create("stalls"),
	      *silence = tcase_create("silence"), *shares = tcase_create("shares"),
	      *cuts = tcase_create("cuts"), *patience = tcase_create("long_stalls");

	tcase_add_loop_test(rates, a_clean_path_is_filled, 0, PATHS);
	tcase_add_loop_test(rates, a_long_path_is_paced, 0, 2);
	tcase_add_loop_test(rates, a_lossy_path_carries_what_tcp_makes_of_it, 0, 2 * PATHS);
	tcase_add_loop_test(rates, a_path_that_reorders_is_filled, 0, PATHS);
	tcase_add_loop_test(rates, an_overflow_where_packets_are_late, 0, 2);
	tcase_add_loop_test(rates, a_small_receive_queue, 0, 2);
	tcase_add_loop_test(rates, a_short_lossy_path_stays_fast, 0, 2);
	tcase_add_loop_test(stalls, what_was_not_lost_is_not_sent_again, 0, 8);
	tcase_add_loop_test(patience, long_stalls_do_not_reduce_the_window, 0, 4);
	tcase_add_loop_test(silence, a_silent_qp_holds_up_no_other, 0, 3);
	tcase_add_loop_test(silence, a_stopped_node_holds_up_no_other, 0, 2);
	tcase_add_loop_test(silence, a_stopped_peer_fails_in_the_qps_time, 0, 2);
	tcase_add_loop_test(silence, a_stopped_process_is_waited_for, 0, 2);
	tcase_add_loop_test(silence, a_silent_qp_of_a_busy_process_fails, 0, 2);
	tcase_add_loop_test(shares, connections_share_fairly, 0, 2);
	tcase_add_loop_test(cuts, short_cuts_cost_a_few_probes, 0, 4);
	tcase_add_loop_test(cuts, a_loss_costs_as_much_as_the_one_before, 0, 2);
	return world_main("recovery",
			  (TCase *const[]){rates, stalls, patience, silence, shares, cuts, NULL});
}
