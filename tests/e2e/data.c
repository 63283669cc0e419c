/* SPDX-License-Identifier: BSD-2-Clause */
/* RC: every operation, every byte verified. The same under loss. */
#include <arpa/inet.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "scenario.h"

/* Around every path MTU, and long ones. */
static const uint32_t sizes[] = {0,    1,    2,	   3,	  4,	 7,	255,   256,    257,
				 511,  512,  513,  1023,  1024,	 1025,	2047,  2049,   4095,
				 4096, 4097, 8192, 10000, 12289, 65535, 65536, 100001, 262144};
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))
#define SLOT 262144u
#define HALF (SIZES * SLOT) /* of the memory: what is sent, then what is received */

static struct ibv_send_wr request(uint64_t wr_id, enum ibv_wr_opcode opcode, struct ibv_sge *sge,
				  int count)
{
	return (struct ibv_send_wr){.wr_id = wr_id,
				    .sg_list = sge,
				    .num_sge = count,
				    .opcode = opcode,
				    .send_flags = IBV_SEND_SIGNALED};
}

/* The slot in up to four pieces, uneven ones. */
static int pieces(struct pair *pair, size_t offset, uint32_t length, int want, struct ibv_sge *sge)
{
	int count = 0;

	while (length && count < want) {
		uint32_t piece = count == want - 1 ? length : length / 3 + 1;

		sge[count++] = pair_sge(pair, offset, piece);
		offset += piece;
		length -= piece;
	}
	return count;
}

/* Both sides send all sizes at the same time, every other one with an immediate. */
static void send_both_ways(struct pair *pair)
{
	struct ibv_sge sge[4];
	struct ibv_wc wc;

	for (size_t i = 0; i < SIZES; i++) {
		pair_receive(pair, i, HALF + i * SLOT, SLOT);
		pattern_fill(pair->memory + i * SLOT, sizes[i], i + 100 * pair->server);
	}
	pair_barrier(pair);
	for (size_t i = 0; i < SIZES; i++) {
		int count = pieces(pair, i * SLOT, sizes[i], 1 + i % 4, sge);
		struct ibv_send_wr wr = request(i, IBV_WR_SEND, sge, count);

		if (i % 2) {
			wr.opcode = IBV_WR_SEND_WITH_IMM;
			wr.imm_data = htonl(0xabcd0000 + i);
		}
		CHECK_EQUAL(pair_post(pair, &wr), 0);
	}
	for (size_t i = 0; i < SIZES; i++) {
		pair_expect(pair, pair->receive_cq, i, &wc);
		CHECK_EQUAL(wc.opcode, IBV_WC_RECV);
		CHECK_EQUAL(wc.byte_len, sizes[i]);
		CHECK_EQUAL(!!(wc.wc_flags & IBV_WC_WITH_IMM), i % 2);
		if (i % 2)
			CHECK_EQUAL(ntohl(wc.imm_data), 0xabcd0000 + i);
		CHECK(pattern_matches(pair->memory + HALF + i * SLOT, sizes[i],
				      i + 100 * !pair->server));
	}
	for (size_t i = 0; i < SIZES; i++) {
		pair_expect(pair, pair->send_cq, i, &wc);
		CHECK_EQUAL(wc.opcode, IBV_WC_SEND);
	}
	pair_barrier(pair);
	pair_expect_nothing(pair->send_cq);
	pair_expect_nothing(pair->receive_cq);
	pair_close(pair);
}

static void send_plain(struct pair *pair)
{
	pair_open(pair, &(struct pair_options){.memory = 2 * HALF});
	send_both_ways(pair);
}

static void send_srq(struct pair *pair)
{
	pair_open(pair, &(struct pair_options){.memory = 2 * HALF, .srq = true});
	send_both_ways(pair);
}

static void send_events(struct pair *pair)
{
	pair_open(pair, &(struct pair_options){.memory = 2 * HALF, .events = true});
	send_both_ways(pair);
}

/* The target sleeps in read(2) meanwhile, and its bytes in between stay as they were. */
static void write_slots(struct pair *pair)
{
	struct ibv_sge sge[4];
	struct ibv_wc wc;

	pair_open(pair, &(struct pair_options){.memory = 2 * HALF});
	memset(pair->memory + HALF, 0xee, HALF);
	pair_barrier(pair);
	for (size_t i = 0; i < SIZES && !pair->server; i++) {
		int count = pieces(pair, i * SLOT, sizes[i], 1 + i % 4, sge);
		struct ibv_send_wr wr = request(i, IBV_WR_RDMA_WRITE, sge, count);

		pattern_fill(pair->memory + i * SLOT, sizes[i], i);
		wr.wr.rdma.remote_addr = pair->remote.address + HALF + i * SLOT;
		wr.wr.rdma.rkey = pair->remote.rkey;
		CHECK_EQUAL(pair_post(pair, &wr), 0);
	}
	for (size_t i = 0; i < SIZES && !pair->server; i++) {
		pair_expect(pair, pair->send_cq, i, &wc);
		CHECK_EQUAL(wc.opcode, IBV_WC_RDMA_WRITE);
	}
	pair_barrier(pair);
	for (size_t i = 0; i < SIZES && pair->server; i++) {
		const uint8_t *slot = pair->memory + HALF + i * SLOT;

		CHECK(pattern_matches(slot, sizes[i], i));
		for (uint32_t k = sizes[i]; k < SLOT; k++)
			CHECK_EQUAL(slot[k], 0xee);
	}
	pair_close(pair);
}

static void write_imm(struct pair *pair)
{
	struct ibv_sge sge[4];
	struct ibv_wc wc;

	pair_open(pair, &(struct pair_options){.memory = 2 * HALF});
	for (size_t i = 0; i < SIZES; i++) {
		struct ibv_recv_wr wr = {.wr_id = i}, *bad;

		CHECK_EQUAL(ibv_post_recv(pair->qp, &wr, &bad), 0);
		pattern_fill(pair->memory + i * SLOT, sizes[i], i + 100 * pair->server);
	}
	pair_barrier(pair);
	for (size_t i = 0; i < SIZES; i++) {
		int count = pieces(pair, i * SLOT, sizes[i], 1 + i % 4, sge);
		struct ibv_send_wr wr = request(i, IBV_WR_RDMA_WRITE_WITH_IMM, sge, count);

		wr.imm_data = htonl(i);
		wr.wr.rdma.remote_addr = pair->remote.address + HALF + i * SLOT;
		wr.wr.rdma.rkey = pair->remote.rkey;
		CHECK_EQUAL(pair_post(pair, &wr), 0);
	}
	for (size_t i = 0; i < SIZES; i++) {
		pair_expect(pair, pair->receive_cq, i, &wc);
		CHECK_EQUAL(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
		CHECK_EQUAL(wc.byte_len, sizes[i]);
		CHECK_EQUAL(ntohl(wc.imm_data), i);
		CHECK(pattern_matches(pair->memory + HALF + i * SLOT, sizes[i],
				      i + 100 * !pair->server));
	}
	for (size_t i = 0; i < SIZES; i++)
		pair_expect(pair, pair->send_cq, i, &wc);
	pair_barrier(pair);
	pair_close(pair);
}

/* Both sides read from each other; neither does anything to be read from. */
static void read_slots(struct pair *pair)
{
	struct ibv_sge sge[4];
	struct ibv_wc wc;

	pair_open(pair, &(struct pair_options){.memory = 2 * HALF});
	for (size_t i = 0; i < SIZES; i++)
		pattern_fill(pair->memory + i * SLOT, sizes[i], i + 100 * pair->server);
	memset(pair->memory + HALF, 0xee, HALF);
	pair_barrier(pair);
	for (size_t i = 0; i < SIZES; i++) {
		int count = pieces(pair, HALF + i * SLOT, sizes[i], 1 + i % 4, sge);
		struct ibv_send_wr wr = request(i, IBV_WR_RDMA_READ, sge, count);

		wr.wr.rdma.remote_addr = pair->remote.address + i * SLOT;
		wr.wr.rdma.rkey = pair->remote.rkey;
		CHECK_EQUAL(pair_post(pair, &wr), 0);
	}
	for (size_t i = 0; i < SIZES; i++) {
		const uint8_t *slot = pair->memory + HALF + i * SLOT;

		pair_expect(pair, pair->send_cq, i, &wc);
		CHECK_EQUAL(wc.opcode, IBV_WC_RDMA_READ);
		CHECK_EQUAL(wc.byte_len, sizes[i]);
		CHECK(pattern_matches(slot, sizes[i], i + 100 * !pair->server));
		if (sizes[i] < SLOT)
			CHECK_EQUAL(slot[sizes[i]], 0xee);
	}
	pair_barrier(pair);
	pair_close(pair);
}

static void post_atomic(struct pair *pair, uint64_t i, enum ibv_wr_opcode opcode, uint64_t operand,
			uint64_t swap)
{
	struct ibv_sge sge = pair_sge(pair, 4096 + i % 64 * 8, 8);
	struct ibv_send_wr wr = request(i, opcode, &sge, 1);

	wr.wr.atomic.remote_addr = pair->remote.address + (opcode == IBV_WR_ATOMIC_CMP_AND_SWP) * 8;
	wr.wr.atomic.rkey = pair->remote.rkey;
	wr.wr.atomic.compare_add = operand;
	wr.wr.atomic.swap = swap;
	CHECK_EQUAL(pair_post(pair, &wr), 0);
}

static uint64_t atomic_result(struct pair *pair, uint64_t i)
{
	struct ibv_wc wc;
	uint64_t value;

	pair_expect(pair, pair->send_cq, i, &wc);
	CHECK_EQUAL(wc.opcode, i % 2 ? IBV_WC_COMP_SWAP : IBV_WC_FETCH_ADD);
	CHECK_EQUAL(wc.byte_len, 8);
	memcpy(&value, pair->memory + 4096 + i % 64 * 8, 8);
	return value;
}

/*
 * An addition and a swap in turn, 32 in flight: each must be executed once and
 * only once, which the running sum and the chain of swapped values show.
 */
static void atomics(struct pair *pair)
{
	const uint64_t count = 400, depth = 32, step = 0x100000001ull;
	uint64_t done = 0, *words;

	pair_open(pair, &(struct pair_options){0});
	words = (uint64_t *)pair->memory;
	pair_barrier(pair);
	for (uint64_t i = 0; i < count + depth; i++) {
		if (i >= depth) {
			uint64_t value = atomic_result(pair, done);

			CHECK_EQUAL(value, done % 2 ? done / 2 : done / 2 * step);
			done++;
		}
		if (i < count && i % 2)
			post_atomic(pair, i, IBV_WR_ATOMIC_CMP_AND_SWP, i / 2, i / 2 + 1);
		else if (i < count)
			post_atomic(pair, i, IBV_WR_ATOMIC_FETCH_AND_ADD, step, 0);
	}
	pair_barrier(pair);
	CHECK_EQUAL(words[0], count / 2 * step);
	CHECK_EQUAL(words[1], count / 2);

	/* One that doesn't compare leaves the word alone and returns it. */
	post_atomic(pair, 1, IBV_WR_ATOMIC_CMP_AND_SWP, 12345, 1);
	CHECK_EQUAL(atomic_result(pair, 1), count / 2);
	pair_barrier(pair);
	CHECK_EQUAL(words[1], count / 2);
	pair_close(pair);
}

#define REGION 65536u /* of the peer's memory that mixed() writes to and reads from */
#define MIXED 300
#define MIXED_DEPTH 32

struct mixed_read {
	uint8_t expected[16384];
	uint32_t length;
};

/* A WRITE of a random piece to a random place, here and in the model of the peer's memory. */
static void mixed_write(struct pair *pair, uint64_t i, uint64_t *random, uint8_t *model)
{
	uint32_t length = choose(random, 16384), offset = choose(random, REGION - length);
	size_t slot = 2 * REGION + i % MIXED_DEPTH * 16384;
	struct ibv_sge sge = pair_sge(pair, slot, length);
	struct ibv_send_wr wr = request(i, IBV_WR_RDMA_WRITE, &sge, 1);

	pattern_fill(pair->memory + slot, length, i);
	memcpy(model + offset, pair->memory + slot, length);
	wr.send_flags |= IBV_SEND_FENCE; /* READs before this must not see it */
	wr.wr.rdma.remote_addr = pair->remote.address + offset;
	wr.wr.rdma.rkey = pair->remote.rkey;
	CHECK_EQUAL(pair_post(pair, &wr), 0);
}

static void mixed_read(struct pair *pair, uint64_t i, uint64_t *random, const uint8_t *model,
		       struct mixed_read *read)
{
	uint32_t length = choose(random, 16384), offset = choose(random, REGION - length);
	struct ibv_sge sge = pair_sge(pair, 2 * REGION + i % MIXED_DEPTH * 16384, length);
	struct ibv_send_wr wr = request(i, IBV_WR_RDMA_READ, &sge, 1);

	read->length = length;
	memcpy(read->expected, model + offset, length);
	wr.wr.rdma.remote_addr = pair->remote.address + offset;
	wr.wr.rdma.rkey = pair->remote.rkey;
	CHECK_EQUAL(pair_post(pair, &wr), 0);
}

/* READs and WRITEs at random against a model, both sides at once; READs see what was written. */
static void mixed(struct pair *pair)
{
	static struct mixed_read reads[MIXED_DEPTH];
	static uint8_t model[REGION];
	uint64_t random = pair->server;
	bool is_read[MIXED_DEPTH];
	struct ibv_wc wc;

	pair_open(pair, &(struct pair_options){.memory = 2 * REGION + MIXED_DEPTH * 16384});
	pair_barrier(pair);
	for (uint64_t i = 0; i < MIXED + MIXED_DEPTH; i++) {
		uint64_t k = i % MIXED_DEPTH;

		if (i >= MIXED_DEPTH) {
			pair_expect(pair, pair->send_cq, i - MIXED_DEPTH, &wc);
			if (is_read[k])
				CHECK(!memcmp(reads[k].expected,
					      pair->memory + 2 * REGION + k * 16384,
					      reads[k].length));
		}
		if (i >= MIXED)
			continue;
		is_read[k] = choose(&random, 2);
		if (is_read[k])
			mixed_read(pair, i, &random, model, &reads[k]);
		else
			mixed_write(pair, i, &random, model);
	}
	pair_barrier(pair);
	pair_close(pair);
}

/* Nothing is a message too: with no SGE, and with one of length 0, whose keys aren't checked. */
static void zero_length(struct pair *pair)
{
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_SEND, IBV_WR_SEND_WITH_IMM,
						     IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM,
						     IBV_WR_RDMA_READ};
	struct ibv_sge nothing = {.addr = 0, .length = 0, .lkey = 0xdeadbeef};
	struct ibv_wc wc;

	pair_open(pair, &(struct pair_options){0});
	for (int i = 0; i < 6; i++)
		pair_receive(pair, i, 0, 16);
	pair_barrier(pair);
	for (int i = 0; i < 10; i++) {
		struct ibv_send_wr wr = request(i, opcodes[i / 2], &nothing, i % 2);

		wr.imm_data = htonl(i);
		if (wr.opcode >= IBV_WR_RDMA_READ || wr.opcode <= IBV_WR_RDMA_WRITE_WITH_IMM) {
			wr.wr.rdma.remote_addr = 12345;
			wr.wr.rdma.rkey = 0xdeadbeef;
		}
		CHECK_EQUAL(pair_post(pair, &wr), 0);
	}
	for (int i = 0; i < 6; i++) {
		pair_expect(pair, pair->receive_cq, i, &wc);
		CHECK_EQUAL(wc.byte_len, 0);
		CHECK_EQUAL(!!(wc.wc_flags & IBV_WC_WITH_IMM), i >= 2);
		if (i >= 2)
			CHECK_EQUAL(ntohl(wc.imm_data), i < 4 ? i : i + 2);
	}
	for (int i = 0; i < 10; i++)
		pair_expect(pair, pair->send_cq, i, &wc);
	pair_barrier(pair);
	pair_close(pair);
}

/* --- marked packets ----------------------------------------------------------------------- */

static unsigned long counter(struct pair *pair, const char *name)
{
	char path[PATH_MAX];
	unsigned long value;
	FILE *file;

	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/ports/1/hw_counters/%s",
		 ibv_get_device_name(pair->context->device), name);
	file = fopen(path, "r");
	CHECK(file);
	CHECK(fscanf(file, "%lu", &value) == 1);
	fclose(file);
	return value;
}

/*
 * Of the client's WRITEs many are marked on their way: the server says so, and the client hears it.
 */
static void congested(struct pair *pair)
{
	enum { WRITES = 200 };
	struct ibv_sge sge;
	struct ibv_wc wc;

	pair_open(pair, &(struct pair_options){.memory = 2 * SLOT});
	pair_barrier(pair);
	for (uint64_t i = 0; i < WRITES && !pair->server; i++) {
		struct ibv_send_wr wr = request(i, IBV_WR_RDMA_WRITE, &sge, 1);

		sge = pair_sge(pair, 0, 65536);
		wr.wr.rdma.remote_addr = pair->remote.address;
		wr.wr.rdma.rkey = pair->remote.rkey;
		CHECK_EQUAL(pair_post(pair, &wr), 0);
		pair_expect(pair, pair->send_cq, i, &wc);
	}
	pair_barrier(pair);
	if (pair->server) {
		unsigned long marked = counter(pair, "np_ecn_marked_roce_packets");
		unsigned long cnps = counter(pair, "np_cnp_sent");

		CHECK(cnps > 0);
		CHECK(marked >= cnps);
		CHECK_EQUAL(counter(pair, "rp_cnp_handled"), 0);
	} else {
		CHECK(counter(pair, "rp_cnp_handled") > 0);
		CHECK_EQUAL(counter(pair, "np_cnp_sent"), 0);
	}
	pair_barrier(pair);
	pair_close(pair);
}

const struct scenario scenarios_data[] = {
	{"send", send_plain},
	{"send-srq", send_srq},
	{"send-events", send_events},
	{"write", write_slots},
	{"write-imm", write_imm},
	{"read", read_slots},
	{"congested", congested},
	{"atomic", atomics},
	{"mixed", mixed},
	{"zero-length", zero_length},
	{NULL, NULL},
};
