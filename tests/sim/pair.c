/* SPDX-License-Identifier: BSD-2-Clause */
#include "pair.h"

#include <fcntl.h>
#include <stdlib.h>

static void make_target(struct pair *p, struct qp_options *qp)
{
	struct ibv_srq_attr attr = {.max_wr = PAIR_DEPTH, .max_sge = 4};

	ck_assert_int_eq(xrcd_open(p->b->hca, NULL, O_CREAT, &p->xrcd), 0);
	ck_assert_int_eq(srq_create_xrc(p->b->pd, p->xrcd, p->b->cq, &attr, &p->srq), 0);
	qp->type = IBV_QPT_XRC_RECV;
	qp->xrcd = p->xrcd;
}

void pair_create_apart(struct pair *p, enum ibv_qp_type type, const struct sim_options *options,
		       uint64_t seed)
{
	struct qp_options qp = {
		.type = type,
		.cap = {.max_send_wr = PAIR_DEPTH,
			.max_recv_wr = PAIR_DEPTH,
			.max_send_sge = 4,
			.max_recv_sge = 4,
			.max_inline_data = 256},
	};

	world_create(&p->world, 2, options, seed);
	p->a = &p->world.nodes[0];
	p->b = &p->world.nodes[1];
	p->xrcd = NULL;
	p->srq = NULL;
	p->qa = world_qp(p->a, &qp);
	if (type == IBV_QPT_XRC_SEND)
		make_target(p, &qp);
	p->qb = world_qp(p->b, &qp);
	p->ma = calloc(1, PAIR_MEMORY);
	p->mb = calloc(1, PAIR_MEMORY);
	p->ra = world_mr(p->a, p->ma, PAIR_MEMORY, world_connection.access);
	p->rb = world_mr(p->b, p->mb, PAIR_MEMORY, world_connection.access);
}

void pair_create(struct pair *p, enum ibv_qp_type type, const struct sim_options *options,
		 uint64_t seed, const struct connection *c)
{
	pair_create_apart(p, type, options, seed);
	world_connect(p->a, p->qa, p->b, p->qb, c ? c : &world_connection);
}

void pair_destroy(struct pair *p)
{
	ck_assert_int_eq(qp_destroy(p->qa), 0);
	ck_assert_int_eq(qp_destroy(p->qb), 0);
	if (p->srq)
		ck_assert_int_eq(srq_destroy(p->srq), 0);
	if (p->xrcd)
		ck_assert_int_eq(xrcd_close(p->xrcd), 0);
	ck_assert_int_eq(mr_deregister(p->ra), 0);
	ck_assert_int_eq(mr_deregister(p->rb), 0);
	world_destroy(&p->world);
	free(p->ma);
	free(p->mb);
}

struct ibv_send_wr *pair_wr(const struct pair *p, struct pair_wr *request,
			    enum ibv_wr_opcode opcode, uint32_t length, uint64_t id)
{
	*request = (struct pair_wr){
		.sge = {.addr = (uintptr_t)p->ma, .length = length, .lkey = p->ra->ibv.lkey},
		.wr = {.wr_id = id, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED},
	};
	request->wr.sg_list = &request->sge;
	request->wr.num_sge = length ? 1 : 0;
	request->wr.imm_data = htobe32(id);
	if (p->srq)
		request->wr.qp_type.xrc.remote_srqn = p->srq->number;
	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
		request->wr.wr.atomic.remote_addr = (uintptr_t)p->mb;
		request->wr.wr.atomic.rkey = p->rb->ibv.rkey;
		request->wr.wr.atomic.compare_add = 1;
	} else {
		request->wr.wr.rdma.remote_addr = (uintptr_t)p->mb;
		request->wr.wr.rdma.rkey = p->rb->ibv.rkey;
	}
	return &request->wr;
}

void pair_post(struct pair *p, enum ibv_wr_opcode opcode, uint32_t length, uint64_t id)
{
	struct pair_wr request;

	ck_assert_int_eq(world_post_send(p->qa, pair_wr(p, &request, opcode, length, id)), 0);
}

static void srq_receive(struct pair *p, uint32_t length, uint64_t id)
{
	struct ibv_sge sge = {(uintptr_t)p->mb, length, p->rb->ibv.lkey};
	struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = length ? 1 : 0};

	ck_assert_int_eq(srq_post(p->srq, &wr, NULL), 0);
}

void pair_receive(struct pair *p, uint32_t length, uint64_t id)
{
	if (p->srq) {
		srq_receive(p, length, id);
		return;
	}
	ck_assert_int_eq(world_post_recv(p->qb, p->mb, length, p->rb->ibv.lkey, id), 0);
}

void pair_fill(uint8_t *memory, uint32_t length, uint32_t seed)
{
	for (uint32_t i = 0; i < length; i++)
		memory[i] = seed * 37 + i + (i >> 8);
}

void pair_cut(struct pair *p, bool cut)
{
	sim_partition(p->world.sim, &p->b->gids.entries[0].gid, cut);
}
