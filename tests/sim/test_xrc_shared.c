/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An XRC domain that two processes of a node share: requests of node a come to the XRC_RECV QP
 * of b, and every other names an SRQ of c, on a bad network, with messages between b and c lost,
 * repeated and late.
 */
#include <fcntl.h>
#include <stdlib.h>

#include "emu/transport/placement.h"
#include "emu/transport/xrc_remote.h"
#include "net/share/share.h"
#include "net/tuning.h"
#include "pair.h"
#include "tests/said.h"

#define MESSAGES 100
#define LENGTH 2500 /* three packets */
#define QUEUE 64

/* What one process has told the other and that one has yet to receive. */
struct told {
	struct hca *to;
	uint8_t data[WIRE_PACKET_MAX + 256];
	uint32_t length;
};

struct process {
	struct share share; /* the first member */
	struct shared *shared;
	struct node *node, *other;
};

struct shared {
	struct world world;
	struct process processes[2]; /* b and c */
	struct told queue[QUEUE];
	unsigned int head, count, lost_per_cent;
	unsigned int random;
	bool owner_is_dead;
	struct xrcd *xrcds[2];
	struct srq *srqs[2];
	struct mr *mrs[3];
	uint8_t *memory[3];
	struct qp *initiator, *target;
};

static unsigned int next_random(struct shared *shared)
{
	shared->random = shared->random * 1103515245 + 12345;
	return shared->random >> 16 & 0x7fff;
}

static void enqueue(struct shared *shared, struct hca *to, const void *data, uint32_t length)
{
	struct told *told = &shared->queue[(shared->head + shared->count) % QUEUE];

	if (shared->count == QUEUE || next_random(shared) % 100 < shared->lost_per_cent)
		return;
	ck_assert_uint_le(length, sizeof(told->data));
	shared->count++;
	told->to = to;
	told->length = length;
	memcpy(told->data, data, length);
}

static bool send_message(struct share *share, uint32_t qpn, const void *data, uint32_t length)
{
	struct process *process = (struct process *)share;
	struct shared *shared = process->shared;

	if (shared->owner_is_dead)
		return false;
	enqueue(shared, process->other->hca, data, length);
	if (next_random(shared) % 100 < shared->lost_per_cent)
		enqueue(shared, process->other->hca, data, length);
	return true;
}

static const struct share_ops ops = {.send_message = send_message};

static void receive_told(struct shared *shared)
{
	while (shared->count) {
		struct told *told = &shared->queue[shared->head];
		struct link_frame frame = {
			.data = told->data, .length = told->length, .message = true};

		shared->head = (shared->head + 1) % QUEUE;
		shared->count--;
		xrc_on_message(told->to, &frame, world_now(&shared->world));
	}
}

static void make_process(struct shared *shared, unsigned int index)
{
	static const struct descriptor_identity file = {1, 2};
	struct ibv_srq_attr attr = {.max_wr = MESSAGES, .max_sge = 1};
	struct node *nodes = shared->world.nodes;
	struct process *process = &shared->processes[index];

	*process = (struct process){
		.share.ops = &ops,
		.shared = shared,
		.node = &nodes[1 + index],
		.other = &nodes[2 - index],
	};
	process->node->link->share = &process->share;
	ck_assert_int_eq(xrcd_open(process->node->hca, &file, O_CREAT, &shared->xrcds[index]), 0);
	ck_assert_int_eq(srq_create_xrc(process->node->pd, shared->xrcds[index], process->node->cq,
					&attr, &shared->srqs[index]),
			 0);
}

static void join_qps(struct shared *shared)
{
	struct node *nodes = shared->world.nodes;

	world_connect(&nodes[0], shared->initiator, &nodes[1], shared->target, &world_connection);
}

static void reset_qps(struct shared *shared)
{
	world_modify_state(shared->initiator, IBV_QPS_RESET);
	world_modify_state(shared->target, IBV_QPS_RESET);
}

static void connect_qps(struct shared *shared)
{
	struct qp_options sends = {.type = IBV_QPT_XRC_SEND,
				   .cap = {.max_send_wr = MESSAGES, .max_send_sge = 1}};
	struct qp_options receives = {.type = IBV_QPT_XRC_RECV, .xrcd = shared->xrcds[0]};
	struct node *nodes = shared->world.nodes;

	shared->initiator = world_qp(&nodes[0], &sends);
	shared->target = world_qp(&nodes[1], &receives);
	join_qps(shared);
}

static void destroy_qps(struct shared *shared)
{
	ck_assert_int_eq(qp_destroy(shared->initiator), 0);
	ck_assert_int_eq(qp_destroy(shared->target), 0);
}

static void shared_create(struct shared *shared, const struct sim_options *options, uint64_t seed)
{
	*shared = (struct shared){.random = seed};
	world_create(&shared->world, 3, options, seed);
	for (unsigned int i = 0; i < 3; i++) {
		shared->memory[i] = calloc(MESSAGES, LENGTH);
		shared->mrs[i] = world_mr(&shared->world.nodes[i], shared->memory[i],
					  MESSAGES * LENGTH, world_connection.access);
	}
	make_process(shared, 0);
	make_process(shared, 1);
	connect_qps(shared);
}

static void shared_destroy(struct shared *shared)
{
	destroy_qps(shared);
	for (unsigned int i = 0; i < 2; i++) {
		ck_assert_int_eq(srq_destroy(shared->srqs[i]), 0);
		ck_assert_int_eq(xrcd_close(shared->xrcds[i]), 0);
		shared->processes[i].node->link->share = NULL;
	}
	for (unsigned int i = 0; i < 3; i++)
		ck_assert_int_eq(mr_deregister(shared->mrs[i]), 0);
	world_destroy(&shared->world);
	for (unsigned int i = 0; i < 3; i++)
		free(shared->memory[i]);
}

static void post_receive(struct shared *shared, unsigned int index, uint64_t id)
{
	struct ibv_sge sge = {(uintptr_t)shared->memory[1 + index] + id * LENGTH, LENGTH,
			      shared->mrs[1 + index]->ibv.lkey};
	struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1};

	ck_assert_int_eq(srq_post(shared->srqs[index], &wr, NULL), 0);
}

static void post_length(struct shared *shared, enum ibv_wr_opcode opcode, unsigned int index,
			uint64_t id, uint32_t length)
{
	struct ibv_sge sge = {(uintptr_t)shared->memory[0] + id * LENGTH, length,
			      shared->mrs[0]->ibv.lkey};
	struct ibv_send_wr wr = {
		.wr_id = id,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = opcode,
		.imm_data = htobe32(id),
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = {(uintptr_t)shared->memory[1 + index], shared->mrs[1 + index]->ibv.rkey},
		.qp_type.xrc.remote_srqn = shared->srqs[index]->number,
	};

	ck_assert_int_eq(world_post_send(shared->initiator, &wr), 0);
}

static void post_send(struct shared *shared, enum ibv_wr_opcode opcode, unsigned int index,
		      uint64_t id)
{
	post_length(shared, opcode, index, id, LENGTH);
}

/* The next completion of @node, with the processes talking meanwhile. */
static struct ibv_wc completion(struct shared *shared, struct node *node)
{
	uint64_t end = world_now(&shared->world) + 100 * SECOND;
	struct ibv_wc wc;

	while (world_poll(node, &wc) == 0) {
		must_msg(world_now(&shared->world) < end, "no completion");
		world_step(&shared->world);
		receive_told(shared);
	}
	return wc;
}

static const struct sim_options bad_network = {
	.latency = 1000, .jitter = 5000, .drop = 0.02, .duplicate = 0.01, .reorder = 0.01};

START_TEST(messages)
{
	struct shared shared;

	shared_create(&shared, _i ? &bad_network : NULL, _i + 1);
	shared.lost_per_cent = _i ? 20 : 0;
	for (uint64_t i = 0; i < MESSAGES; i++) {
		pair_fill(shared.memory[0] + i * LENGTH, LENGTH, i);
		post_receive(&shared, i % 2, i);
		post_send(&shared, IBV_WR_SEND_WITH_IMM, i % 2, i);
	}
	for (uint64_t i = 0; i < MESSAGES; i++) {
		struct ibv_wc wc = completion(&shared, &shared.world.nodes[0]);

		ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
		ck_assert_uint_eq(wc.wr_id, i);
		/* Acknowledged only when placed. */
		ck_assert_int_eq(world_poll(shared.processes[i % 2].node, &wc), 1);
		ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
		ck_assert_uint_eq(wc.wr_id, i);
		ck_assert_uint_eq(be32toh(wc.imm_data), i);
		ck_assert_uint_eq(wc.byte_len, LENGTH);
		ck_assert_uint_eq(wc.qp_num, shared.target->number);
		ck_assert_uint_eq(wc.src_qp, shared.initiator->number);
		ck_assert_mem_eq(shared.memory[1 + i % 2] + i * LENGTH,
				 shared.memory[0] + i * LENGTH, LENGTH);
	}
	shared_destroy(&shared);
}
END_TEST

static void step(struct shared *shared, int count)
{
	for (int i = 0; i < count; i++) {
		world_step(&shared->world);
		receive_told(shared);
	}
}

/* The owner's receive with wr_id 7 has been taken by a message that goes on. */
static void begin_message(struct shared *shared)
{
	shared_create(shared, NULL, 1);
	post_receive(shared, 1, 7);
	post_send(shared, IBV_WR_SEND, 1, 0);
	while (!shared->target->xrc.answered)
		step(shared, 1);
}

/* The owner's receive that a message had taken comes back when the target fails, or goes. */
START_TEST(target_goes_amid_a_message)
{
	struct shared shared;
	struct ibv_wc wc;

	begin_message(&shared);
	if (_i == 0) {
		world_modify_state(shared.target, IBV_QPS_ERR);
	} else if (_i == 1) {
		world_modify_state(shared.target, IBV_QPS_RESET);
	} else {
		destroy_qps(&shared);
		connect_qps(&shared);
	}
	step(&shared, 100);
	ck_assert_int_eq(world_poll(&shared.world.nodes[2], &wc), 1);
	ck_assert_int_eq(wc.status, IBV_WC_WR_FLUSH_ERR);
	ck_assert_uint_eq(wc.wr_id, 7);
	shared_destroy(&shared);
}
END_TEST

/* It stays taken, though, when what goes is a target of another domain. */
START_TEST(target_of_another_domain_goes)
{
	struct shared shared;
	struct told *told;
	struct ibv_wc wc;

	begin_message(&shared);
	shared.count = 0;
	world_modify_state(shared.target, IBV_QPS_ERR);
	ck_assert_uint_eq(shared.count, 1);
	told = &shared.queue[shared.head];
	told->data[told->length - 1] ^= 1; /* the end of which file the domain is of */
	receive_told(&shared);
	ck_assert_int_eq(world_poll(&shared.world.nodes[2], &wc), 0);
	shared_destroy(&shared);
}
END_TEST

/*
 * More targets, one after the other, than are known; some go amid a message, and nothing says so.
 */
START_TEST(targets_come_and_go)
{
	struct shared shared;

	shared_create(&shared, NULL, 1);
	for (unsigned int i = 0; i < XRC_DELEGATES + 100; i++) {
		post_receive(&shared, 1, 0);
		post_send(&shared, IBV_WR_SEND, 1, 0);
		if (i % 8 == 0) {
			step(&shared, 10);
		} else {
			ck_assert_int_eq(completion(&shared, &shared.world.nodes[0]).status,
					 IBV_WC_SUCCESS);
			ck_assert_int_eq(completion(&shared, &shared.world.nodes[2]).status,
					 IBV_WC_SUCCESS);
		}
		destroy_qps(&shared);
		shared.count = 0;
		connect_qps(&shared);
	}
	shared_destroy(&shared);
}
END_TEST

/* One that is amid a message stays known while others can be forgotten, which come after it. */
START_TEST(known_amid_a_message)
{
	struct qp *initiator, *target;
	struct shared shared;
	struct ibv_wc wc;

	begin_message(&shared);
	reset_qps(&shared);
	shared.count = 0;
	initiator = shared.initiator;
	target = shared.target;
	for (unsigned int i = 0; i < XRC_DELEGATES; i++) {
		connect_qps(&shared);
		post_receive(&shared, 1, 0);
		post_send(&shared, IBV_WR_SEND, 1, 0);
		ck_assert_int_eq(completion(&shared, &shared.world.nodes[0]).status,
				 IBV_WC_SUCCESS);
		wc = completion(&shared, &shared.world.nodes[2]);
		ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
		ck_assert_uint_eq(wc.wr_id, 0);
		destroy_qps(&shared);
	}
	shared.initiator = initiator;
	shared.target = target;
	shared_destroy(&shared);
}
END_TEST

/* Nor does anything that one has written, which is placed late, wait for it to be known again. */
START_TEST(written_by_one_that_is_forgotten)
{
	struct shared shared;

	shared_create(&shared, NULL, 1);
	ck_assert_int_eq(placement_enable(shared.world.nodes[2].hca, 1), 0);
	world_stall(&shared.world.nodes[2], TIME_NEVER); /* so that no time comes */
	pair_fill(shared.memory[0], LENGTH, 1);
	post_send(&shared, IBV_WR_RDMA_WRITE, 1, 0);
	ck_assert_int_eq(completion(&shared, &shared.world.nodes[0]).status, IBV_WC_SUCCESS);
	ck_assert_mem_ne(shared.memory[2], shared.memory[0], LENGTH);
	for (unsigned int i = 0; i < XRC_DELEGATES; i++) {
		destroy_qps(&shared);
		connect_qps(&shared);
		post_receive(&shared, 1, 1);
		post_send(&shared, IBV_WR_SEND, 1, 1);
		ck_assert_int_eq(completion(&shared, &shared.world.nodes[0]).status,
				 IBV_WC_SUCCESS);
	}
	ck_assert_mem_eq(shared.memory[2], shared.memory[0], LENGTH);
	shared_destroy(&shared);
}
END_TEST

/* An empty SRQ of the owner holds the message up, and a receive lets it go on. */
START_TEST(receiver_not_ready)
{
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_SEND, IBV_WR_RDMA_WRITE_WITH_IMM};
	struct shared shared;

	shared_create(&shared, NULL, 1);
	post_send(&shared, opcodes[_i], 1, 0);
	step(&shared, 100);
	ck_assert_uint_gt(shared.world.nodes[1].hca->counters->send_rnr_err, 0);
	post_receive(&shared, 1, 0);
	ck_assert_int_eq(completion(&shared, &shared.world.nodes[0]).status, IBV_WC_SUCCESS);
	ck_assert_int_eq(completion(&shared, &shared.world.nodes[2]).status, IBV_WC_SUCCESS);
	shared_destroy(&shared);
}
END_TEST

/* A CQ of the owner's that overran is its SRQs': the target may be used again with another. */
START_TEST(another_queue_after_an_overrun)
{
	struct ibv_srq_attr attr = {.max_wr = 1, .max_sge = 1};
	struct shared shared;
	struct node *nodes;
	struct srq *full;
	struct cq *cq;

	shared_create(&shared, NULL, 1);
	nodes = shared.world.nodes;
	ck_assert_int_eq(cq_resize(nodes[2].cq, 1), 0);
	for (uint64_t i = 0; i < 2; i++) {
		post_receive(&shared, 1, i);
		post_send(&shared, IBV_WR_SEND, 1, i);
		ck_assert_int_eq(completion(&shared, &nodes[0]).status,
				 i ? IBV_WC_REM_OP_ERR : IBV_WC_SUCCESS);
	}
	reset_qps(&shared);
	join_qps(&shared);
	full = shared.srqs[1];
	ck_assert_int_eq(cq_create(nodes[2].hca, 1, &cq), 0);
	ck_assert_int_eq(srq_create_xrc(nodes[2].pd, shared.xrcds[1], cq, &attr, &shared.srqs[1]),
			 0);
	post_receive(&shared, 1, 0);
	post_send(&shared, IBV_WR_SEND, 1, 0);
	ck_assert_int_eq(completion(&shared, &nodes[0]).status, IBV_WC_SUCCESS);
	ck_assert_uint_eq(cq->count, 1);
	ck_assert_int_eq(srq_destroy(shared.srqs[1]), 0);
	ck_assert_int_eq(cq_destroy(cq), 0);
	shared.srqs[1] = full;
	shared_destroy(&shared);
}
END_TEST

/* It ended amid a message, and the owner wasn't told: the next one begins anew. */
START_TEST(begun_anew)
{
	static const enum ibv_wr_opcode ended[] = {IBV_WR_RDMA_WRITE, IBV_WR_SEND};
	struct shared shared;
	struct node *nodes;
	struct ibv_wc wc;

	shared_create(&shared, NULL, 1);
	nodes = shared.world.nodes;
	for (int i = 0; i <= _i; i++)
		post_receive(&shared, 1, i);
	post_send(&shared, ended[_i], 1, 0);
	while (!shared.target->xrc.answered)
		step(&shared, 1);
	reset_qps(&shared);
	shared.count = 0;
	join_qps(&shared);
	post_send(&shared, IBV_WR_SEND, 1, 1);
	ck_assert_int_eq(completion(&shared, &nodes[0]).status, IBV_WC_SUCCESS);
	for (int i = 0; i <= _i; i++) {
		ck_assert_int_eq(world_poll(&nodes[2], &wc), 1);
		ck_assert_uint_eq(wc.wr_id, i);
		ck_assert_int_eq(wc.status, i == _i ? IBV_WC_SUCCESS : IBV_WC_WR_FLUSH_ERR);
	}
	shared_destroy(&shared);
}
END_TEST

/* What the target's connection is goes for what the owner places. */
START_TEST(another_mtu)
{
	static const enum ibv_mtu mtus[] = {IBV_MTU_1024, IBV_MTU_512, IBV_MTU_2048};
	struct connection c = world_connection;
	struct shared shared;
	struct node *nodes;

	shared_create(&shared, NULL, 1);
	nodes = shared.world.nodes;
	for (uint64_t i = 0; i < 3; i++) {
		reset_qps(&shared);
		c.mtu = mtus[i];
		world_connect(&nodes[0], shared.initiator, &nodes[1], shared.target, &c);
		post_receive(&shared, 1, i);
		post_send(&shared, IBV_WR_SEND, 1, i);
		ck_assert_int_eq(completion(&shared, &nodes[0]).status, IBV_WC_SUCCESS);
		ck_assert_int_eq(completion(&shared, &nodes[2]).status, IBV_WC_SUCCESS);
	}
	shared_destroy(&shared);
}
END_TEST

/* The owner's SRQs are those of the target's domain alone. */
START_TEST(queue_of_another_domain)
{
	static const struct descriptor_identity file = {3, 4};
	struct ibv_srq_attr attr = {.max_wr = 1, .max_sge = 1};
	struct shared shared;
	struct node *owner;
	struct xrcd *other;
	struct srq *srq;

	shared_create(&shared, NULL, 1);
	owner = &shared.world.nodes[2];
	srq = shared.srqs[1];
	ck_assert_int_eq(xrcd_open(owner->hca, &file, O_CREAT, &other), 0);
	ck_assert_int_eq(srq_create_xrc(owner->pd, other, owner->cq, &attr, &shared.srqs[1]), 0);
	post_receive(&shared, 1, 0);
	post_send(&shared, IBV_WR_SEND, 1, 0);
	ck_assert_int_eq(completion(&shared, &shared.world.nodes[0]).status,
			 IBV_WC_REM_INV_REQ_ERR);
	world_expect_none(owner, MS);
	ck_assert_int_eq(srq_destroy(shared.srqs[1]), 0);
	ck_assert_int_eq(xrcd_close(other), 0);
	shared.srqs[1] = srq;
	shared_destroy(&shared);
}
END_TEST

/* A delegate that has placed nothing yet takes no number for that of what it placed last. */
START_TEST(any_number_is_first)
{
	struct shared shared;
	struct ibv_wc wc;

	shared_create(&shared, NULL, 1);
	shared.target->xrc.sequence = UINT32_MAX;
	post_receive(&shared, 1, 0);
	post_length(&shared, IBV_WR_SEND, 1, 0, 8);
	ck_assert_int_eq(completion(&shared, &shared.world.nodes[0]).status, IBV_WC_SUCCESS);
	ck_assert_int_eq(world_poll(&shared.world.nodes[2], &wc), 1);
	ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
	shared_destroy(&shared);
}
END_TEST

/* Late, the answer to one packet isn't that to the next one. */
START_TEST(answered_late)
{
	struct told answer;
	struct shared shared;

	shared_create(&shared, NULL, 1);
	post_receive(&shared, 1, 0);
	post_length(&shared, IBV_WR_SEND, 1, 0, 8);
	while (!shared.target->xrc.answered)
		step(&shared, 1);
	answer = shared.queue[(shared.head + QUEUE - 1) % QUEUE];
	ck_assert_ptr_eq(answer.to, shared.processes[0].node->hca);
	ck_assert_int_eq(completion(&shared, &shared.world.nodes[0]).status, IBV_WC_SUCCESS);
	post_length(&shared, IBV_WR_SEND, 1, 1, 8);
	while (!shared.target->xrc.asked)
		world_step(&shared.world);
	shared.queue[shared.head] = answer;
	shared.count = 1;
	receive_told(&shared);
	ck_assert(!shared.target->xrc.answered);
	shared_destroy(&shared);
}
END_TEST

/* What is no fault is no answer: such a process, of the same user, writes nonsense. */
START_TEST(answered_with_nonsense)
{
	static const uint8_t faults[] = {RESPONDER_FAULT_ELSEWHERE, RESPONDER_FAULT_WAIT,
					 RESPONDER_FAULT_INJECTED}; /* with success */
	struct shared shared;
	struct told *told;

	shared_create(&shared, NULL, 1);
	post_receive(&shared, 1, 0);
	post_length(&shared, IBV_WR_SEND, 1, 0, 8);
	while (!shared.target->xrc.asked)
		world_step(&shared.world);
	told = &shared.queue[shared.head];
	told->to = shared.processes[0].node->hca;
	told->data[1] = 1; /* XRC_ANSWER, with this fault */
	told->data[2] = faults[_i];
	receive_told(&shared);
	ck_assert(!shared.target->xrc.answered);
	ck_assert_int_eq(completion(&shared, &shared.world.nodes[0]).status, IBV_WC_SUCCESS);
	shared_destroy(&shared);
}
END_TEST

/*
 * A receive of the owner's that is to fail: the initiator sees what it would see of the target's.
 */
START_TEST(injected)
{
	static const struct {
		const char *fault;
		enum ibv_wc_status status;
	} rows[] = {
		{"complete(LOC_LEN_ERR)#1/RECV", IBV_WC_REM_INV_REQ_ERR},
		{"complete(LOC_ACCESS_ERR)#1/RECV", IBV_WC_REM_ACCESS_ERR},
		{"complete(LOC_PROT_ERR)#1/RECV", IBV_WC_REM_OP_ERR},
		{"complete(WR_FLUSH_ERR)#1/RECV", IBV_WC_RETRY_EXC_ERR},
	};
	const unsigned int owner = _i % 2;
	struct shared shared;

	shared_create(&shared, NULL, 1);
	world_inject(shared.processes[owner].node, rows[_i / 2].fault);
	post_receive(&shared, owner, 0);
	post_length(&shared, IBV_WR_SEND, owner, 0, 8);
	ck_assert_int_eq(completion(&shared, &shared.world.nodes[0]).status, rows[_i / 2].status);
	shared_destroy(&shared);
}
END_TEST

/* What the owner refuses the target refuses: a key, a READ, all when the owner is dead. */
START_TEST(refused)
{
	static const struct {
		enum ibv_wr_opcode opcode;
		bool dead, gone;
		enum ibv_wc_status status;
		enum cause target, owner; /* what they say of it */
	} rows[] = {
		{IBV_WR_RDMA_WRITE, false, true, IBV_WC_REM_ACCESS_ERR, CAUSE_XRC_REFUSED_ELSEWHERE,
		 CAUSE_REMOTE_OUT_OF_BOUNDS},
		{IBV_WR_RDMA_WRITE_WITH_IMM, false, true, IBV_WC_REM_ACCESS_ERR,
		 CAUSE_XRC_REFUSED_ELSEWHERE, CAUSE_REMOTE_OUT_OF_BOUNDS},
		{IBV_WR_RDMA_READ, false, false, IBV_WC_REM_OP_ERR, CAUSE_XRC_DATA_ELSEWHERE},
		{IBV_WR_SEND, true, false, IBV_WC_REM_INV_REQ_ERR, CAUSE_XRC_NO_SRQ},
	};
	const bool immediate = rows[_i].opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
	static struct said said;
	struct shared shared;

	cause_configure(true);
	said_begin(&said);
	shared_create(&shared, NULL, 1);
	post_receive(&shared, 1, 0);
	shared.owner_is_dead = rows[_i].dead;
	if (rows[_i].gone) {
		ck_assert_int_eq(mr_deregister(shared.mrs[2]), 0);
		shared.mrs[2] = world_mr(&shared.world.nodes[2], shared.memory[2], 1,
					 world_connection.access);
	}
	/* In one packet, which takes the receive. */
	post_length(&shared, rows[_i].opcode, 1, 0, immediate ? 8 : LENGTH);
	ck_assert_int_eq(completion(&shared, &shared.world.nodes[0]).status, rows[_i].status);
	ck_assert_int_eq(shared.target->state, IBV_QPS_ERR);
	/* To complete it, which is all that it was for. */
	if (immediate)
		ck_assert_int_eq(completion(&shared, &shared.world.nodes[2]).status,
				 IBV_WC_WR_FLUSH_ERR);
	shared_destroy(&shared);
	said_end(&said);
	ck_assert_uint_eq(said_count(&said, rows[_i].target), 1);
	ck_assert_uint_eq(said_count(&said, rows[_i].owner), rows[_i].owner != CAUSE_NONE);
}
END_TEST

/* --- whatever may be asked of either --------------------------------------------------------- */

static const struct {
	enum ibv_wr_opcode opcode;
	bool receives, responds;
} kinds[] = {
	{IBV_WR_SEND, true},
	{IBV_WR_SEND_WITH_IMM, true},
	{IBV_WR_RDMA_WRITE},
	{IBV_WR_RDMA_WRITE_WITH_IMM, true},
	{IBV_WR_RDMA_READ, .responds = true},
	{IBV_WR_ATOMIC_FETCH_AND_ADD, .responds = true},
};

struct posted {
	unsigned int kind, index;
	uint32_t length;
};

/* At the place of its number, everywhere. What is answered with data isn't placed elsewhere. */
static void post_any(struct shared *shared, const struct posted *posted, uint64_t id)
{
	unsigned int to = 1 + posted->index;
	uint64_t local = (uintptr_t)shared->memory[0] + id * LENGTH;
	uint64_t remote = (uintptr_t)shared->memory[to] + id * LENGTH;
	struct ibv_sge sge = {local, posted->length, shared->mrs[0]->ibv.lkey};
	struct ibv_send_wr wr = {
		.wr_id = id,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = kinds[posted->kind].opcode,
		.imm_data = htobe32(id),
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = {remote, shared->mrs[to]->ibv.rkey},
		.qp_type.xrc.remote_srqn = shared->srqs[posted->index]->number,
	};

	if (wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		remote = (remote + 7) & ~UINT64_C(7);
		wr.wr.atomic = (__typeof__(wr.wr.atomic)){remote, 5, 0, shared->mrs[to]->ibv.rkey};
		*(uint64_t *)(uintptr_t)remote = id + 1;
	} else {
		pair_fill(shared->memory[kinds[posted->kind].responds ? to : 0] + id * LENGTH,
			  posted->length, id);
	}
	ck_assert_int_eq(world_post_send(shared->initiator, &wr), 0);
}

static void check_any(struct shared *shared, const struct posted *posted, uint64_t id)
{
	uint8_t *local = shared->memory[0] + id * LENGTH;
	uint8_t *remote = shared->memory[1 + posted->index] + id * LENGTH;
	uint64_t original;

	if (kinds[posted->kind].opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		memcpy(&original, local, sizeof(original));
		must(original == id + 1);
		remote = (uint8_t *)(((uintptr_t)remote + 7) & ~(uintptr_t)7);
		must(*(uint64_t *)remote == id + 6);
	} else {
		must(memcmp(local, remote, posted->length) == 0);
	}
}

/* One of the two processes has completed it already. */
static void expect_receive(struct shared *shared, const struct posted *posted, uint64_t id)
{
	enum ibv_wr_opcode opcode = kinds[posted->kind].opcode;
	struct ibv_wc wc;

	must(world_poll(shared->processes[posted->index].node, &wc) == 1);
	must_msg(wc.status == IBV_WC_SUCCESS && wc.wr_id == id, "receive %u with status %d, not %u",
		 (unsigned int)wc.wr_id, wc.status, (unsigned int)id);
	must(wc.byte_len == posted->length);
	must(opcode == IBV_WR_SEND || be32toh(wc.imm_data) == id);
}

/*
 * Receives come late now and then: what is for an empty queue waits, and with it what is behind it,
 * for the other queue, too.
 */
START_TEST(whatever_is_asked)
{
	static struct posted posted[MESSAGES];
	uint64_t sent = 0, received = 0, done = 0, end;
	struct shared shared;
	struct ibv_wc wc;

	shared_create(&shared, _i % 3 ? &bad_network : NULL, _i + 1);
	shared.lost_per_cent = _i % 2 ? 20 : 0;
	end = world_now(&shared.world) + 1000 * SECOND;
	while (done < MESSAGES) {
		for (; sent < MESSAGES && sent < done + 8; sent++) {
			struct posted *next = &posted[sent];

			next->kind = next_random(&shared) % (sizeof(kinds) / sizeof(kinds[0]));
			next->index = kinds[next->kind].responds ? 0 : next_random(&shared) % 2;
			next->length = kinds[next->kind].opcode == IBV_WR_ATOMIC_FETCH_AND_ADD
					       ? 8
					       : next_random(&shared) % (LENGTH + 1);
			post_any(&shared, next, sent);
		}
		for (; received < sent && next_random(&shared) % 8; received++)
			if (kinds[posted[received].kind].receives)
				post_receive(&shared, posted[received].index, received);
		must_msg(world_now(&shared.world) < end, "%u are done", (unsigned int)done);
		step(&shared, 1);
		while (world_poll(&shared.world.nodes[0], &wc)) {
			must_msg(wc.status == IBV_WC_SUCCESS && wc.wr_id == done,
				 "send %u with status %d", (unsigned int)wc.wr_id, wc.status);
			if (kinds[posted[done].kind].receives)
				expect_receive(&shared, &posted[done], done);
			check_any(&shared, &posted[done], done);
			done++;
		}
	}
	for (unsigned int i = 0; i < 2; i++)
		must(world_poll(shared.processes[i].node, &wc) == 0);
	ck_assert_int_eq(shared.target->state, IBV_QPS_RTS);
	shared_destroy(&shared);
}
END_TEST

int main(void)
{
	TCase *tests = tcase_create("shared");
	TCase *const tcases[] = {tests, NULL};

	tcase_add_loop_test(tests, messages, 0, 6);
	tcase_add_loop_test(tests, target_goes_amid_a_message, 0, 3);
	tcase_add_test(tests, target_of_another_domain_goes);
	tcase_add_test(tests, targets_come_and_go);
	tcase_add_test(tests, known_amid_a_message);
	tcase_add_test(tests, written_by_one_that_is_forgotten);
	tcase_add_loop_test(tests, receiver_not_ready, 0, 2);
	tcase_add_test(tests, another_queue_after_an_overrun);
	tcase_add_loop_test(tests, begun_anew, 0, 2);
	tcase_add_test(tests, another_mtu);
	tcase_add_test(tests, queue_of_another_domain);
	tcase_add_test(tests, any_number_is_first);
	tcase_add_test(tests, answered_late);
	tcase_add_loop_test(tests, answered_with_nonsense, 0, 3);
	tcase_add_loop_test(tests, injected, 0, 8);
	tcase_add_loop_test(tests, refused, 0, 4);
	tcase_add_loop_test(tests, whatever_is_asked, 0, 60);
	return world_main("xrc_shared", tcases);
}
