/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A pair for tests of memory windows: b owns the memory and the windows, a
 * reaches in. Requests of both; those of a window's owner are posted to qb.
 */
#ifndef URXE_TESTS_SIM_MW_OWNER_H
#define URXE_TESTS_SIM_MW_OWNER_H

#include "emu/objects/mw.h"
#include "pair.h"

#define ALL_RIGHTS (IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)
#define BINDABLE (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND)

static struct pair p;
static struct mr *region; /* all of b's memory, with no remote rights of its own */

static inline void begin(enum ibv_qp_type type, const struct sim_options *options, uint64_t seed)
{
	pair_create(&p, type, options, seed, NULL);
	region = world_mr(p.b, p.mb, PAIR_MEMORY, BINDABLE);
}

static inline void end(void)
{
	ck_assert_int_eq(mr_deregister(region), 0);
	pair_destroy(&p);
}

static inline struct mw *make_mw(enum ibv_mw_type type)
{
	struct mw *mw;

	ck_assert_int_eq(mw_alloc(p.b->pd, type, &mw), 0);
	return mw;
}

/* --- requests of the owner ---------------------------------------------------------- */

static inline struct ibv_send_wr bind_wr(struct mw *mw, uint32_t rkey, uint32_t offset,
					 uint32_t length, int access, uint64_t id)
{
	return (struct ibv_send_wr){
		.wr_id = id,
		.opcode = IBV_WR_BIND_MW,
		.send_flags = IBV_SEND_SIGNALED,
		.bind_mw = {.mw = &mw->ibv,
			    .rkey = rkey,
			    .bind_info = {.mr = length ? &region->ibv : NULL,
					  .addr = length ? (uintptr_t)p.mb + offset : 0,
					  .length = length,
					  .mw_access_flags = access}},
	};
}

static inline struct ibv_send_wr invalidate_wr(uint32_t rkey, uint64_t id)
{
	return (struct ibv_send_wr){
		.wr_id = id,
		.opcode = IBV_WR_LOCAL_INV,
		.send_flags = IBV_SEND_SIGNALED,
		.invalidate_rkey = rkey,
	};
}

static inline void post(struct qp *qp, struct ibv_send_wr wr)
{
	ck_assert_int_eq(world_post_send(qp, &wr), 0);
}

/* Bind the next key of @mw, by qb. */
static inline uint32_t bound_for(struct mw *mw, uint32_t offset, uint32_t length, int access)
{
	uint32_t rkey = ibv_inc_rkey(mw->key.value);
	struct ibv_wc wc;

	post(p.qb, bind_wr(mw, rkey, offset, length, access, 1000));
	ck_assert_int_eq(world_poll(p.b, &wc), 1);
	ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
	ck_assert_int_eq(wc.opcode, IBV_WC_BIND_MW);
	ck_assert_uint_eq(wc.wr_id, 1000);
	ck_assert_uint_eq(wc.byte_len, 0);
	ck_assert_uint_eq(wc.qp_num, p.qb->number);
	return rkey;
}

static inline uint32_t bound(struct mw *mw, uint32_t offset, uint32_t length)
{
	return bound_for(mw, offset, length, ALL_RIGHTS);
}

/* The other way round: from b's second half to a. */
static inline void owner_posts(enum ibv_wr_opcode opcode, uint32_t length, unsigned int flags,
			       uint64_t id)
{
	struct ibv_sge sge = {(uintptr_t)p.mb + PAIR_MEMORY / 2, length, p.rb->ibv.lkey};
	struct ibv_send_wr wr = {
		.wr_id = id,
		.opcode = opcode,
		.sg_list = &sge,
		.num_sge = length ? 1 : 0,
		.send_flags = IBV_SEND_SIGNALED | flags,
		.wr.rdma = {(uintptr_t)p.ma + PAIR_MEMORY / 2, p.ra->ibv.rkey},
	};

	post(p.qb, wr);
}

static inline void user_receives(uint64_t id)
{
	ck_assert_int_eq(world_post_recv(p.qa, p.ma, 4096, p.ra->ibv.lkey, id), 0);
}

/* --- requests of the user ------------------------------------------------------------ */

static inline void reach(enum ibv_wr_opcode opcode, uint32_t rkey, uint64_t va, uint32_t length,
			 uint64_t id)
{
	struct pair_wr request;

	pair_wr(&p, &request, opcode, length, id);
	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
		request.wr.wr.atomic.remote_addr = va;
		request.wr.wr.atomic.rkey = rkey;
		request.wr.wr.atomic.swap = 77;
	} else {
		request.wr.wr.rdma.remote_addr = va;
		request.wr.wr.rdma.rkey = rkey;
	}
	ck_assert_int_eq(world_post_send(p.qa, &request.wr), 0);
}

static inline void send_invalidating(uint32_t rkey, uint32_t length, uint64_t id)
{
	struct pair_wr request;

	pair_wr(&p, &request, IBV_WR_SEND_WITH_INV, length, id)->invalidate_rkey = rkey;
	ck_assert_int_eq(world_post_send(p.qa, &request.wr), 0);
}

#endif
