/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Path migration: both nodes have a second address, the alternate path. Messages go to and fro,
 * every byte verified, while the path changes under them.
 */
#include <string.h>

#include "scenario.h"

#define LENGTH 20000u
#define ALTERNATE 1 /* the index of the second address */

static void load(struct pair *pair)
{
	union ibv_gid gid, peer;
	struct ibv_qp_attr attr = {
		.path_mig_state = IBV_MIG_REARM,
		.alt_port_num = 1,
		.alt_timeout = 14,
		.alt_ah_attr = {.is_global = 1, .port_num = 1, .grh = {.sgid_index = ALTERNATE}},
	};

	CHECK_EQUAL(ibv_query_gid(pair->context, 1, ALTERNATE, &gid), 0);
	pair_exchange(pair, &gid, &peer, sizeof(gid));
	attr.alt_ah_attr.grh.dgid = peer;
	CHECK_EQUAL(ibv_modify_qp(pair->qp, &attr, IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE), 0);
	pair_barrier(pair);
}

static void set_state(struct pair *pair, enum ibv_mig_state state)
{
	struct ibv_qp_attr attr = {.path_mig_state = state};

	CHECK_EQUAL(ibv_modify_qp(pair->qp, &attr, IBV_QP_PATH_MIG_STATE), 0);
}

/* The state, and the index of the address that the path begins at. */
static void expect_path(struct pair *pair, enum ibv_mig_state state, int index)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	CHECK_EQUAL(ibv_query_qp(pair->qp, &attr, IBV_QP_PATH_MIG_STATE | IBV_QP_AV, &init), 0);
	CHECK_EQUAL(attr.path_mig_state, state);
	CHECK_EQUAL(attr.ah_attr.grh.sgid_index, index);
}

static void send_one(struct pair *pair, uint64_t id)
{
	struct ibv_sge sge = pair_sge(pair, 0, LENGTH);
	struct ibv_send_wr wr = {.wr_id = id,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED};
	struct ibv_wc wc;

	pattern_fill(pair->memory, LENGTH, 2 * id + pair->server);
	CHECK_EQUAL(pair_post(pair, &wr), 0);
	pair_expect(pair, pair->send_cq, id, &wc);
}

static void receive_one(struct pair *pair, uint64_t id)
{
	struct ibv_wc wc;

	pair_expect(pair, pair->receive_cq, id, &wc);
	CHECK_EQUAL(wc.byte_len, LENGTH);
	CHECK(pattern_matches(pair->memory + LENGTH, LENGTH, 2 * id + !pair->server));
}

/* One message there and one back, @count times from number *@next on. */
static void ping_pong(struct pair *pair, uint64_t *next, unsigned int count)
{
	pair_receive(pair, *next, LENGTH, LENGTH);
	pair_barrier(pair);
	for (uint64_t end = *next + count; *next < end; ++*next) {
		if (!pair->server)
			send_one(pair, *next);
		receive_one(pair, *next);
		if (*next + 1 < end)
			pair_receive(pair, *next + 1, LENGTH, LENGTH);
		if (pair->server)
			send_one(pair, *next);
	}
	pair_barrier(pair);
}

/* The case has the first path die under it. */
static void fail_over(struct pair *pair)
{
	uint64_t next = 0;

	pair_open(pair, &(struct pair_options){.memory = 2 * LENGTH});
	load(pair);
	ping_pong(pair, &next, 100);
	pair_expect_event(pair, IBV_EVENT_PATH_MIG);
	expect_path(pair, IBV_MIG_MIGRATED, ALTERNATE);
	pair_barrier(pair);
	pair_close(pair);
}

/* There and back again, by one side and then by the other. */
static void on_demand(struct pair *pair)
{
	uint64_t next = 0;

	pair_open(pair, &(struct pair_options){.memory = 2 * LENGTH});
	load(pair);
	for (int server = 0; server < 2; server++) {
		ping_pong(pair, &next, 10);
		expect_path(pair, IBV_MIG_ARMED, server ? ALTERNATE : 0);
		pair_barrier(pair);
		if (pair->server == server)
			set_state(pair, IBV_MIG_MIGRATED);
		ping_pong(pair, &next, 10);
		pair_expect_event(pair, IBV_EVENT_PATH_MIG);
		expect_path(pair, IBV_MIG_MIGRATED, server ? 0 : ALTERNATE);
		pair_barrier(pair);
		set_state(pair, IBV_MIG_REARM);
		pair_barrier(pair);
	}
	pair_close(pair);
}

const struct scenario scenarios_migration[] = {
	{"migrate-dead-path", fail_over},
	{"migrate-on-demand", on_demand},
	{NULL, NULL},
};
