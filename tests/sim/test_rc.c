/* SPDX-License-Identifier: BSD-2-Clause */
/* RC between two nodes in virtual time: every operation, clean and through a bad network. */
#include <check.h>
#include <stdlib.h>

#include "world.h"

#define SIZE (1 << 20)

struct pair {
	struct world world;
	struct node *a, *b;
	struct qp *qa, *qb;
	uint8_t *ma, *mb;
	struct mr *ra, *rb;
};

static void pair_create(struct pair *p, const struct sim_options *options, uint64_t seed,
			const struct connection *c)
{
	struct qp_options qp = {
		.type = IBV_QPT_RC,
		.cap = {.max_send_wr = 64, .max_recv_wr = 64, .max_send_sge = 4, .max_recv_sge = 4},
	};

	world_create(&p->world, 2, options, seed);
	p->a = &p->world.nodes[0];
	p->b = &p->world.nodes[1];
	p->qa = world_qp(p->a, &qp);
	p->qb = world_qp(p->b, &qp);
	world_connect(p->a, p->qa, p->b, p->qb, c ? c : &world_connection);
	p->ma = calloc(1, SIZE);
	p->mb = calloc(1, SIZE);
	p->ra = world_mr(p->a, p->ma, SIZE, world_connection.access);
	p->rb = world_mr(p->b, p->mb, SIZE, world_connection.access);
}

static void pair_destroy(struct pair *p)
{
	ck_assert_int_eq(qp_destroy(p->qa), 0);
	ck_assert_int_eq(qp_destroy(p->qb), 0);
	ck_assert_int_eq(mr_deregister(p->ra), 0);
	ck_assert_int_eq(mr_deregister(p->rb), 0);
	world_destroy(&p->world);
	free(p->ma);
	free(p->mb);
}

static void fill(uint8_t *memory, uint32_t length, uint32_t seed)
{
	for (uint32_t i = 0; i < length; i++)
		memory[i] = seed * 37 + i + (i >> 8);
}

static int post(struct pair *p, enum ibv_wr_opcode opcode, uint32_t length, uint64_t id)
{
	struct ibv_sge sge = {.addr = (uintptr_t)p->ma, .length = length, .lkey = p->ra->ibv.lkey};
	struct ibv_send_wr wr = {
		.wr_id = id,
		.opcode = opcode,
		.sg_list = &sge,
		.num_sge = length ? 1 : 0,
		.send_flags = IBV_SEND_SIGNALED,
		.imm_data = 0x12345678,
	};

	wr.wr.rdma.remote_addr = (uintptr_t)p->mb;
	wr.wr.rdma.rkey = p->rb->ibv.rkey;
	return world_post_send(p->qa, &wr);
}

static const uint32_t sizes[] = {0, 1, 3, 4, 1023, 1024, 1025, 4096, 65536, 100001, SIZE};

static void transfer(struct pair *p, enum ibv_wr_opcode opcode, uint32_t length, uint64_t id)
{
	bool receives = opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM ||
			opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
	bool read = opcode == IBV_WR_RDMA_READ;
	struct ibv_wc wc;

	fill(read ? p->mb : p->ma, length, id);
	memset(read ? p->ma : p->mb, 0, length);
	if (receives)
		ck_assert_int_eq(world_post_recv(p->qb, p->mb, SIZE, p->rb->ibv.lkey, id + 1000),
				 0);
	ck_assert_int_eq(post(p, opcode, length, id), 0);
	wc = world_completion(p->a, 100 * SECOND);
	ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
	ck_assert_uint_eq(wc.wr_id, id);
	if (receives) {
		wc = world_completion(p->b, 100 * SECOND);
		ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
		ck_assert_uint_eq(wc.wr_id, id + 1000);
		ck_assert_uint_eq(wc.byte_len, length);
		if (opcode != IBV_WR_SEND)
			ck_assert_uint_eq(wc.imm_data, 0x12345678);
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

START_TEST(clean)
{
	struct pair p;

	pair_create(&p, NULL, 1, NULL);
	transfer_all(&p);
	pair_destroy(&p);
}
END_TEST

START_TEST(lossy)
{
	struct sim_options options = {
		.latency = 1000,
		.jitter = 2000,
		.drop = 0.01,
		.duplicate = 0.01,
		.reorder = 0.01,
		.corrupt = 0.005,
		.hide_ip_id = true,
	};
	struct pair p;

	pair_create(&p, &options, _i, NULL);
	transfer_all(&p);
	pair_destroy(&p);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("rc");
	TCase *tcase = tcase_create("rc");
	SRunner *runner;
	int failed;

	tcase_set_timeout(tcase, 300);
	tcase_add_test(tcase, clean);
	tcase_add_loop_test(tcase, lossy, 1, 9);
	suite_add_tcase(suite, tcase);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed != 0;
}
