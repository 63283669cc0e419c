/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Hundreds of nodes, each connected to every other, that all speak at once to
 * the same node, then to the next: receive queues overflow, and packets are lost
 * on the way too. Each says the same to each: a SEND, a WRITE, a READ and an
 * atomic. Checked: every completion, every byte, and that every atomic was
 * executed exactly once. (Random operations between fewer: test_many.c.)
 */
#include <stdlib.h>
#include <string.h>

#include "tests/sanitizers.h"
#include "world.h"

enum { NODES = SANITIZED ? 60 : 250, FEW_NODES = SANITIZED ? 20 : 50 };

enum { SENT = 100, WRITTEN = 700, READ = 600 };

/* What a node keeps for one of the others. */
struct cell {
	uint8_t source[WRITTEN]; /* what the other one is sent, written, and may read */
	uint8_t sent[SENT], written[WRITTEN], read[READ];
	uint64_t original; /* of the other one's counter */
	struct qp *qp;
	unsigned int sends, receives; /* completed */
};

enum step { STEP_SEND, STEP_WRITE, STEP_READ, STEP_ADD, STEPS };

struct mesh {
	struct world world;
	unsigned int count;
	struct cell *cells;  /* [node * count + other] */
	uint64_t *counters;  /* of the nodes */
	struct mr **regions; /* of the nodes: each covers all memory */
	uint64_t open;	     /* completions that are still to come */
};

static struct cell *cell(struct mesh *mesh, unsigned int node, unsigned int other)
{
	return &mesh->cells[(size_t)node * mesh->count + other];
}

static uint8_t pattern(unsigned int node, unsigned int other, unsigned int offset)
{
	return node * 31 + other * 17 + offset * 7 + (offset >> 8);
}

/* --- setting up ------------------------------------------------------------------- */

static void make_memory(struct mesh *mesh)
{
	size_t length = (size_t)mesh->count * mesh->count * sizeof(*mesh->cells);

	mesh->cells = calloc(1, length + mesh->count * sizeof(*mesh->counters));
	mesh->regions = calloc(mesh->count, sizeof(struct mr *));
	must(mesh->cells && mesh->regions);
	mesh->counters = (uint64_t *)((uint8_t *)mesh->cells + length);
	length += mesh->count * sizeof(*mesh->counters);
	for (unsigned int i = 0; i < mesh->count; i++)
		mesh->regions[i] = world_mr(&mesh->world.nodes[i], mesh->cells, length,
					    world_connection.access);
}

static void make_qp(struct mesh *mesh, unsigned int node, unsigned int other)
{
	struct qp_options options = {
		.type = IBV_QPT_RC,
		.cap = {.max_send_wr = STEPS,
			.max_recv_wr = 1,
			.max_send_sge = 1,
			.max_recv_sge = 1},
		.sq_sig_all = 1,
	};
	struct cell *c = cell(mesh, node, other);

	c->qp = world_qp(&mesh->world.nodes[node], &options);
	for (unsigned int i = 0; i < WRITTEN; i++)
		c->source[i] = pattern(node, other, i);
}

static void mesh_create(struct mesh *mesh, unsigned int nodes, uint64_t seed)
{
	static const struct sim_options network = {
		.latency = 2000,
		.jitter = 1000,
		.drop = 0.001,
		.bandwidth = 5000,
		.receive_queue = 24 << 10,
	};
	struct connection connection = world_connection;

	*mesh = (struct mesh){.count = nodes};
	world_create(&mesh->world, nodes, &network, seed);
	mesh->world.grain = 1000;
	connection.mtu = IBV_MTU_256;
	connection.rd_atomic = 1;
	make_memory(mesh);
	for (unsigned int a = 0; a < nodes; a++) {
		for (unsigned int b = 0; b < a; b++) {
			make_qp(mesh, a, b);
			make_qp(mesh, b, a);
			world_connect(&mesh->world.nodes[a], cell(mesh, a, b)->qp,
				      &mesh->world.nodes[b], cell(mesh, b, a)->qp, &connection);
		}
	}
}

static void mesh_destroy(struct mesh *mesh)
{
	for (unsigned int i = 0; i < mesh->count; i++) {
		struct hca *hca = mesh->world.nodes[i].hca;

		for (unsigned int k = 0; k < mesh->count; k++)
			must(k == i || qp_destroy(cell(mesh, i, k)->qp) == 0);
		must(mr_deregister(mesh->regions[i]) == 0);
		must(!hca->destinations && hca->timers.count == 0 && hca->run_count == 0);
	}
	world_destroy(&mesh->world);
	free(mesh->cells);
	free(mesh->regions);
}

/* --- traffic ------------------------------------------------------------------------- */

static void post(struct mesh *mesh, unsigned int node, unsigned int other)
{
	struct cell *here = cell(mesh, node, other), *there = cell(mesh, other, node);
	uint32_t lkey = mesh->regions[node]->ibv.lkey, rkey = mesh->regions[other]->ibv.rkey;
	struct ibv_sge sges[STEPS] = {
		[STEP_SEND] = {(uintptr_t)here->source, SENT, lkey},
		[STEP_WRITE] = {(uintptr_t)here->source, WRITTEN, lkey},
		[STEP_READ] = {(uintptr_t)here->read, READ, lkey},
		[STEP_ADD] = {(uintptr_t)&here->original, sizeof(here->original), lkey},
	};
	struct ibv_send_wr wrs[STEPS] = {
		[STEP_SEND] = {.opcode = IBV_WR_SEND},
		[STEP_WRITE] = {.opcode = IBV_WR_RDMA_WRITE},
		[STEP_READ] = {.opcode = IBV_WR_RDMA_READ},
		[STEP_ADD] = {.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD},
	};

	wrs[STEP_WRITE].wr.rdma.remote_addr = (uintptr_t)there->written;
	wrs[STEP_WRITE].wr.rdma.rkey = rkey;
	wrs[STEP_READ].wr.rdma.remote_addr = (uintptr_t)there->source;
	wrs[STEP_READ].wr.rdma.rkey = rkey;
	wrs[STEP_ADD].wr.atomic.remote_addr = (uintptr_t)&mesh->counters[other];
	wrs[STEP_ADD].wr.atomic.rkey = rkey;
	wrs[STEP_ADD].wr.atomic.compare_add = 1;
	for (unsigned int i = 0; i < STEPS; i++) {
		wrs[i].wr_id = other * STEPS + i;
		wrs[i].sg_list = &sges[i];
		wrs[i].num_sge = 1;
		wrs[i].next = i + 1 < STEPS ? &wrs[i + 1] : NULL;
	}
	must(world_post_send(here->qp, wrs) == 0);
	mesh->open += STEPS + 1;
}

static void post_all(struct mesh *mesh)
{
	for (unsigned int a = 0; a < mesh->count; a++)
		for (unsigned int b = 0; b < mesh->count; b++) {
			struct cell *c = cell(mesh, a, b);

			must(a == b || world_post_recv(c->qp, c->sent, SENT,
						       mesh->regions[a]->ibv.lkey, b) == 0);
		}
	for (unsigned int step = 1; step < mesh->count; step++)
		for (unsigned int a = 0; a < mesh->count; a++)
			if (step != a) /* all to the same one, but for itself */
				post(mesh, a, step);
	for (unsigned int a = 1; a < mesh->count; a++)
		post(mesh, a, 0);
}

static void complete(struct mesh *mesh, unsigned int node, const struct ibv_wc *wc)
{
	struct cell *c;

	must_msg(wc->status == IBV_WC_SUCCESS, "node %u: completion %llu has status %d", node,
		 (unsigned long long)wc->wr_id, wc->status);
	if (wc->opcode == IBV_WC_RECV) {
		c = cell(mesh, node, wc->wr_id);
		must(wc->byte_len == SENT);
		must(c->receives++ == 0);
	} else {
		c = cell(mesh, node, wc->wr_id / STEPS);
		must(wc->wr_id % STEPS == c->sends++);
	}
	must(wc->qp_num == c->qp->number);
	must(mesh->open-- > 0);
}

static void run(struct mesh *mesh)
{
	struct ibv_wc wc;

	while (mesh->open) {
		bool more = world_step(&mesh->world);

		for (unsigned int i = 0; i < mesh->count; i++)
			while (world_poll(&mesh->world.nodes[i], &wc))
				complete(mesh, i, &wc);
		must_msg(more || !mesh->open, "nothing moves any more");
		must_msg(world_now(&mesh->world) < 100 * SECOND, "too slow");
	}
}

/* --- what came of it -------------------------------------------------------------------- */

static void check_cell(struct mesh *mesh, unsigned int node, unsigned int other)
{
	const struct cell *here = cell(mesh, node, other), *there = cell(mesh, other, node);

	must(here->sends == STEPS && here->receives == 1);
	must(memcmp(here->sent, there->source, SENT) == 0);
	must(memcmp(here->written, there->source, WRITTEN) == 0);
	must(memcmp(here->read, there->source, READ) == 0);
	for (unsigned int i = 0; i < WRITTEN; i++)
		must(here->source[i] == pattern(node, other, i));
}

/* Each of the other nodes found another number in a node's counter. */
static void check_counter(struct mesh *mesh, unsigned int node)
{
	bool seen[NODES] = {false};

	must(mesh->counters[node] == mesh->count - 1);
	for (unsigned int i = 0; i < mesh->count; i++) {
		uint64_t original = cell(mesh, i, node)->original;

		if (i == node)
			continue;
		must(original < mesh->count - 1 && !seen[original]);
		seen[original] = true;
	}
}

static void check(struct mesh *mesh)
{
	for (unsigned int a = 0; a < mesh->count; a++) {
		check_counter(mesh, a);
		for (unsigned int b = 0; b < mesh->count; b++)
			if (a != b)
				check_cell(mesh, a, b);
	}
}

/* Returns when the last completion came. */
static uint64_t mesh_run(unsigned int nodes, uint64_t seed, struct sim_statistics *statistics)
{
	struct mesh mesh;
	uint64_t end;

	mesh_create(&mesh, nodes, seed);
	post_all(&mesh);
	run(&mesh);
	end = world_now(&mesh.world);
	check(&mesh);
	sim_statistics(mesh.world.sim, statistics);
	mesh_destroy(&mesh);
	return end;
}

START_TEST(hundreds)
{
	struct sim_statistics statistics;

	mesh_run(NODES, 1, &statistics);
	ck_assert_uint_gt(statistics.dropped, 0);
	ck_assert_uint_gt(statistics.overflowed, 0);
}
END_TEST

START_TEST(same_again)
{
	struct sim_statistics first, again;
	uint64_t end = mesh_run(FEW_NODES, 2, &first);

	ck_assert_uint_eq(mesh_run(FEW_NODES, 2, &again), end);
	ck_assert_mem_eq(&first, &again, sizeof(first));
}
END_TEST

int main(void)
{
	TCase *mesh = tcase_create("mesh");

	tcase_add_test(mesh, hundreds);
	tcase_add_test(mesh, same_again);
	return world_main("mesh", (TCase *const[]){mesh, NULL});
}
