/* SPDX-License-Identifier: BSD-2-Clause */
/* RC between two nodes in virtual time: every operation, clean and through a bad network. */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "pair.h"
#include "stress.h"
#include "tests/sanitizers.h"

/* Around packet boundaries of every path MTU, and of a READ's parts. */
static const uint32_t sizes[] = {0,    1,    3,	   4,	 255,	257,   511,    1023,   1024,
				 1025, 2049, 4095, 4097, 65535, 65536, 100001, 131072, PAIR_MEMORY};

static void transfer(struct pair *p, enum ibv_wr_opcode opcode, uint32_t length, uint64_t id)
{
	bool receives = opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM ||
			opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
	bool read = opcode == IBV_WR_RDMA_READ;
	struct ibv_wc wc;

	pair_fill(read ? p->mb : p->ma, length, id);
	memset(read ? p->ma : p->mb, 0, length);
	if (receives)
		pair_receive(p, PAIR_MEMORY, id + 1000);
	pair_post(p, opcode, length, id);
	wc = world_completion(p->a, 100 * SECOND);
	ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
	ck_assert_uint_eq(wc.wr_id, id);
	ck_assert_uint_eq(wc.byte_len, length);
	if (receives) {
		wc = world_completion(p->b, 100 * SECOND);
		ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
		ck_assert_uint_eq(wc.wr_id, id + 1000);
		ck_assert_uint_eq(wc.byte_len, length);
		ck_assert_int_eq(wc.opcode, opcode == IBV_WR_RDMA_WRITE_WITH_IMM
						    ? IBV_WC_RECV_RDMA_WITH_IMM
						    : IBV_WC_RECV);
		ck_assert_uint_eq(wc.wc_flags, opcode == IBV_WR_SEND ? 0 : IBV_WC_WITH_IMM);
		if (opcode != IBV_WR_SEND)
			ck_assert_uint_eq(be32toh(wc.imm_data), id);
	}
	ck_assert_mem_eq(p->ma, p->mb, length);
}

static const enum ibv_wr_opcode opcodes[] = {
	IBV_WR_SEND,	  IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM,
	IBV_WR_RDMA_READ,
};

static void transfer_all(struct pair *p)
{
	uint64_t id = 1;

	for (size_t o = 0; o < sizeof(opcodes) / sizeof(opcodes[0]); o++)
		for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++)
			transfer(p, opcodes[o], sizes[s], id++);
}

/* Every path MTU, with PSNs that wrap in the middle of a message. */
START_TEST(every_mtu)
{
	struct connection c = world_connection;
	struct pair p;

	c.mtu = _i;
	pair_create(&p, IBV_QPT_RC, NULL, 1, &c);
	transfer_all(&p);
	ck_assert_uint_eq(p.a->hca->counters->retransmitted_pkts, 0);
	ck_assert_uint_eq(p.a->hca->counters->timeouts, 0);
	ck_assert_uint_eq(p.b->hca->counters->duplicate_request, 0);
	pair_destroy(&p);
}
END_TEST

static const struct sim_options bad_network = {
	.latency = 1000,
	.jitter = 2000,
	.drop = 0.01,
	.duplicate = 0.01,
	.reorder = 0.01,
	.corrupt = 0.005,
	.hide_ip_id = true,
};

static void check_faults(struct sim *sim)
{
	struct sim_statistics statistics;

	sim_statistics(sim, &statistics);
	ck_assert_uint_gt(statistics.dropped, 0);
	ck_assert_uint_gt(statistics.duplicated, 0);
	ck_assert_uint_gt(statistics.reordered, 0);
	ck_assert_uint_gt(statistics.corrupted, 0);
}

START_TEST(large_through_faults)
{
	struct pair p;

	pair_create(&p, IBV_QPT_RC, &bad_network, _i, NULL);
	transfer_all(&p);
	check_faults(p.world.sim);
	ck_assert_uint_gt(p.a->hca->counters->retransmitted_pkts, 0);
	ck_assert_uint_gt(p.b->hca->counters->duplicate_request, 0);
	ck_assert_uint_gt(p.b->hca->counters->icrc_errors, 0);
	pair_destroy(&p);
}
END_TEST

/* IBA 11.4.1.1: inline data is taken when the request is posted; its L_Key doesn't matter. */
START_TEST(inline_data)
{
	struct pair_wr request;
	struct pair p;

	pair_create(&p, IBV_QPT_RC, &bad_network, 5, NULL);
	for (uint32_t i = 0; i < 20; i++) {
		uint8_t sent[256];

		pair_fill(sent, 256, i);
		memcpy(p.ma, sent, 256);
		pair_wr(&p, &request, IBV_WR_RDMA_WRITE, 256, i);
		request.sge.lkey = 0xbad;
		request.wr.send_flags |= IBV_SEND_INLINE;
		ck_assert_int_eq(world_post_send(p.qa, &request.wr), 0);
		memset(p.ma, 0, 256);
		world_expect(p.a, i, IBV_WC_SUCCESS);
		ck_assert_mem_eq(p.mb, sent, 256);
	}
	pair_destroy(&p);
}
END_TEST

/* IBA 10.8.5.1: an unsignaled request gives its slot back when a later completion is polled. */
START_TEST(unsignaled)
{
	struct pair_wr request;
	struct ibv_wc wc;
	struct pair p;

	pair_create(&p, IBV_QPT_RC, NULL, 1, NULL);
	for (uint64_t i = 0; i < PAIR_DEPTH - 1; i++) {
		pair_wr(&p, &request, IBV_WR_RDMA_WRITE, 8, i)->send_flags = 0;
		ck_assert_int_eq(world_post_send(p.qa, &request.wr), 0);
	}
	world_expect_none(p.a, SECOND);
	pair_post(&p, IBV_WR_RDMA_WRITE, 8, PAIR_DEPTH - 1);
	world_run(&p.world, SECOND);
	ck_assert_int_eq(world_post_send(p.qa, pair_wr(&p, &request, IBV_WR_SEND, 8, 0)), ENOMEM);
	wc = world_completion(p.a, SECOND);
	ck_assert_uint_eq(wc.wr_id, PAIR_DEPTH - 1);
	for (uint64_t i = 0; i < PAIR_DEPTH; i++)
		pair_post(&p, IBV_WR_RDMA_WRITE, 8, i);
	for (uint64_t i = 0; i < PAIR_DEPTH; i++)
		world_expect(p.a, i, IBV_WC_SUCCESS);
	pair_destroy(&p);
}
END_TEST

/* A list is posted up to the request that is refused (ibv_post_send(3)). */
START_TEST(post_list)
{
	struct pair_wr requests[3];
	struct ibv_send_wr *bad;
	struct pair p;

	pair_create(&p, IBV_QPT_RC, NULL, 1, NULL);
	for (uint64_t i = 0; i < 3; i++) {
		pair_wr(&p, &requests[i], IBV_WR_RDMA_WRITE, 8, i);
		requests[i].wr.next = i < 2 ? &requests[i + 1].wr : NULL;
	}
	requests[1].wr.num_sge = 5; /* of 4 */
	ck_assert_int_eq(qp_post_send(p.qa, &requests[0].wr, &bad, true, LAZY_TIME(0)), EINVAL);
	ck_assert_ptr_eq(bad, &requests[1].wr);
	world_expect_none(p.a, SECOND);
	ck_assert_int_eq(
		qp_post_send(p.qa, &requests[0].wr, &bad, false, LAZY_TIME(world_now(&p.world))),
		EINVAL);
	ck_assert_ptr_eq(bad, &requests[1].wr);
	world_expect(p.a, 0, IBV_WC_SUCCESS);
	world_expect_none(p.a, SECOND);
	pair_destroy(&p);
}
END_TEST

static void stress(const struct sim_options *network, const struct stress_options *options,
		   unsigned int connections, uint64_t seed, bool faults)
{
	struct sim_statistics statistics;
	struct world world;
	struct stress stress;

	world_create(&world, 2, network, seed);
	stress_create(&stress, &world, options);
	for (unsigned int i = 0; i < connections; i++)
		stress_connect(&stress, &world.nodes[0], &world.nodes[1]);
	stress_run(&stress, 1000 * SECOND);
	sim_statistics(world.sim, &statistics);
	ck_assert_int_eq(faults, statistics.dropped + statistics.duplicated + statistics.reordered +
						 statistics.corrupted >
					 0);
	stress_destroy(&stress);
	world_destroy(&world);
}

/* Small messages, many seeds: the number of the iteration is the seed. */
START_TEST(random_traffic)
{
	static const struct stress_options options = {
		.operations = 60, .max_length = 3000, .late = 0.3, .random_connection = true};
	struct sim_options network = {
		.latency = 500 + 500 * (_i % 5),
		.jitter = 1000 * (_i % 3),
		.drop = 0.02,
		.duplicate = 0.02,
		.reorder = 0.03,
		.corrupt = 0.01,
		.hide_ip_id = _i % 2,
	};

	stress(&network, &options, 1 + _i % 3, _i, true);
}
END_TEST

/* Without faults nothing is ever sent twice, but for receives that come late. */
START_TEST(calm)
{
	static const struct stress_options options = {
		.operations = 60, .max_length = 20000, .random_connection = true};
	struct sim_options network = {.latency = 1000, .jitter = 1000 * (_i % 2)};

	stress(&network, &options, 1 + _i % 4, _i, false);
}
END_TEST

/* A receiver whose queue overflows is a network that loses whatever comes too fast. */
START_TEST(narrow)
{
	static const struct stress_options options = {
		.operations = 60, .max_length = 60000, .late = 0.1, .random_connection = true};
	struct sim_options network = {.latency = 20000, .bandwidth = 1000, .receive_queue = 30000};

	stress(&network, &options, 1 + _i % 4, _i, false);
}
END_TEST

/* One page of memory, again and again, for messages longer than a machine wants to hold. */
static void *repeat_memory(size_t length, uint8_t **once, size_t piece)
{
	int fd = memfd_create("repeat", 0);
	uint8_t *memory = mmap(NULL, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	ck_assert_int_eq(ftruncate(fd, piece), 0);
	ck_assert_ptr_ne(memory, MAP_FAILED);
	for (size_t at = 0; at < length; at += piece)
		ck_assert_ptr_ne(mmap(memory + at, piece, PROT_READ | PROT_WRITE,
				      MAP_SHARED | MAP_FIXED, fd, 0),
				 MAP_FAILED);
	close(fd);
	*once = memory;
	return memory;
}

/* IBA 9.7.7: the longest message has 2^31 bytes; one byte more is an error of the request. */
START_TEST(longest)
{
	enum { PIECE = 1 << 20 };
	static const enum ibv_wr_opcode tested[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
						    IBV_WR_SEND};
	struct connection c = world_connection;
	size_t length = 0x80000000u;
	uint8_t *local, *remote, *from, *to;
	struct mr *mr_local, *mr_remote;
	struct pair_wr request;
	struct pair p;

	c.mtu = IBV_MTU_4096;
	pair_create(&p, IBV_QPT_RC, NULL, 1, &c);
	repeat_memory(length, &local, PIECE);
	repeat_memory(length, &remote, PIECE);
	mr_local = world_mr(p.a, local, length, IBV_ACCESS_LOCAL_WRITE);
	mr_remote = world_mr(p.b, remote, length, world_connection.access);
	from = tested[_i] == IBV_WR_RDMA_READ ? remote : local;
	to = tested[_i] == IBV_WR_RDMA_READ ? local : remote;
	pair_fill(from, PIECE, 9);
	if (tested[_i] == IBV_WR_SEND)
		ck_assert_int_eq(world_post_recv(p.qb, remote, length, mr_remote->ibv.lkey, 7), 0);
	pair_wr(&p, &request, tested[_i], 1, 1);
	request.sge = (struct ibv_sge){
		.addr = (uintptr_t)local, .length = length, .lkey = mr_local->ibv.lkey};
	request.wr.wr.rdma.remote_addr = (uintptr_t)remote;
	request.wr.wr.rdma.rkey = mr_remote->ibv.rkey;
	ck_assert_int_eq(world_post_send(p.qa, &request.wr), 0);
	world_expect(p.a, 1, IBV_WC_SUCCESS);
	ck_assert_mem_eq(to, from, PIECE);
	if (tested[_i] == IBV_WR_SEND)
		ck_assert_uint_eq(world_completion(p.b, SECOND).byte_len, length);
	else
		ck_assert_uint_eq(p.qb->responder.expected_psn, (c.psn + length / 4096) & PSN_MASK);

	request.sge.length++;
	ck_assert_int_eq(world_post_send(p.qa, &request.wr), 0);
	world_expect(p.a, 1, IBV_WC_LOC_LEN_ERR);
	ck_assert_int_eq(p.qa->state, IBV_QPS_ERR);
	mr_deregister(mr_local);
	mr_deregister(mr_remote);
	munmap(local, length);
	munmap(remote, length);
	pair_destroy(&p);
}
END_TEST

/*
 * A sanitizer finds what it can find in a part of the seeds, which take it long,
 * and would keep several times the longest message as shadow.
 */
enum { SEEDS = SANITIZED ? 200 : 2000 };

int main(void)
{
	TCase *single = tcase_create("single"), *many = tcase_create("many");

	tcase_add_loop_test(single, every_mtu, IBV_MTU_256, IBV_MTU_4096 + 1);
	tcase_add_loop_test(single, large_through_faults, 1, 9);
	tcase_add_test(single, inline_data);
	tcase_add_test(single, unsignaled);
	tcase_add_test(single, post_list);
	if (!SANITIZED)
		tcase_add_loop_test(single, longest, 0, 3);
	tcase_add_loop_test(many, random_traffic, 1, SEEDS + 1);
	tcase_add_loop_test(many, calm, 1, SEEDS / 10 + 1);
	tcase_add_loop_test(many, narrow, 1, SEEDS / 20 + 1);
	return world_main("rc", (TCase *const[]){single, many, NULL});
}
