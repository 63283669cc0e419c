/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ATOMIC WRITE and FLUSH (Annex A19) on RC: values that are never torn, data that is there
 * when its FLUSH completes, and what is refused.
 */
#include <string.h>

#include "net/newer_verbs.h"
#include "scenario.h"

#define OPERATIONS                                                                                 \
	(IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ |              \
	 IBV_QP_EX_WITH_ATOMIC_WRITE | QP_EX_WITH_FLUSH)
#define ACCESS                                                                                     \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 ACCESS_FLUSH_GLOBAL)

static void open_with(struct pair *pair, int access)
{
	pair_open(pair, &(struct pair_options){.send_operations = OPERATIONS,
					       .memory = 1 << 20,
					       .access = access});
}

/* What ibv_wr_flush() of newer headers is. */
static void wr_flush(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t address, size_t length,
		     uint8_t type, uint8_t level)
{
	wr_flush_function *flush = (wr_flush_function *)((uint8_t *)qp + QP_EX_WR_FLUSH_OFFSET);

	(*flush)(qp, rkey, address, length, type, level);
}

/* --- ATOMIC WRITE ------------------------------------------------------------------ */

#define WORDS 8u
#define VALUES 100u /* of each word */

/* Any mixture of two of them is none. */
static uint64_t value_of(uint32_t i)
{
	return (uint64_t)~i << 32 | i;
}

/* By turns of the two ways to post one: a pointer to the value, or an SGE. */
static void post_value(struct pair *pair, uint32_t i)
{
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(pair->qp);
	uint64_t value = value_of(1 + i / WORDS), address = pair->remote.address + i % WORDS * 8;
	struct ibv_sge sge = pair_sge(pair, 4096 + i % 64 * 8, 8);
	struct ibv_send_wr wr = {.wr_id = i,
				 .opcode = IBV_WR_ATOMIC_WRITE,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .send_flags = IBV_SEND_SIGNALED,
				 .wr.rdma = {.remote_addr = address, .rkey = pair->remote.rkey}};

	if (i % 3 == 0) {
		memcpy(pair->memory + 4096 + i % 64 * 8, &value, 8);
		CHECK_EQUAL(pair_post(pair, &wr), 0);
		return;
	}
	ibv_wr_start(qp);
	qp->wr_id = i;
	qp->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_atomic_write(qp, pair->remote.rkey, address, &value);
	value = 0; /* it was taken */
	CHECK_EQUAL(ibv_wr_complete(qp), 0);
}

static void write_values(struct pair *pair)
{
	struct ibv_wc wc;

	for (uint32_t i = 0; i < WORDS * VALUES + 32; i++) {
		if (i >= 32) {
			pair_expect(pair, pair->send_cq, i - 32, &wc);
			CHECK_EQUAL(wc.opcode, IBV_WC_ATOMIC_WRITE);
		}
		if (i < WORDS * VALUES)
			post_value(pair, i);
	}
}

/* Each word only ever goes up, and is always whole. */
static void watch_values(struct pair *pair)
{
	uint64_t *words = (uint64_t *)pair->memory;
	uint32_t seen[WORDS] = {0};

	for (uint32_t i = 0; seen[WORDS - 1] < VALUES; i = (i + 1) % WORDS) {
		uint64_t value = __atomic_load_n(&words[i], __ATOMIC_ACQUIRE);

		if (!value)
			continue;
		CHECK(value == value_of(value));
		CHECK((uint32_t)value >= seen[i]);
		seen[i] = value;
	}
}

static void atomic_write(struct pair *pair)
{
	open_with(pair, ACCESS);
	pair_barrier(pair);
	if (pair->server)
		watch_values(pair);
	else
		write_values(pair);
	pair_barrier(pair);
	for (uint32_t i = 0; i < WORDS && pair->server; i++)
		CHECK(((uint64_t *)pair->memory)[i] == value_of(VALUES));
	pair_close(pair);
}

/* --- FLUSH -------------------------------------------------------------------------- */

#define DATA 65536u /* where the data goes, behind the word that announces it */
#define LENGTH 100001u
#define ROUNDS 6u

/*
 * Data, FLUSH and the word that announces it, at once: a peer that sees the word sees the data. And
 * what has been flushed is read back.
 */
static void write_and_flush(struct pair *pair, uint32_t round)
{
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(pair->qp);
	uint64_t announced = round, data = pair->remote.address + DATA;
	uint8_t *memory = pair->memory;
	bool region = round % 2;
	struct ibv_wc wc;

	pattern_fill(memory, LENGTH, round);
	ibv_wr_start(qp);
	qp->wr_flags = 0;
	ibv_wr_rdma_write(qp, pair->remote.rkey, data);
	ibv_wr_set_sge(qp, pair->mr->lkey, (uintptr_t)memory, LENGTH);
	qp->wr_flags = IBV_SEND_SIGNALED;
	qp->wr_id = 1;
	wr_flush(qp, pair->remote.rkey, region ? 1 : data, region ? SIZE_MAX : LENGTH, FLUSH_GLOBAL,
		 region ? FLUSH_MR : FLUSH_RANGE);
	qp->wr_id = 2;
	ibv_wr_atomic_write(qp, pair->remote.rkey, pair->remote.address, &announced);
	qp->wr_id = 3;
	ibv_wr_rdma_read(qp, pair->remote.rkey, data);
	ibv_wr_set_sge(qp, pair->mr->lkey, (uintptr_t)memory + 2 * LENGTH, LENGTH);
	CHECK_EQUAL(ibv_wr_complete(qp), 0);
	pair_expect(pair, pair->send_cq, 1, &wc);
	CHECK_EQUAL(wc.opcode, WC_FLUSH);
	pair_expect(pair, pair->send_cq, 2, &wc);
	CHECK_EQUAL(wc.opcode, IBV_WC_ATOMIC_WRITE);
	pair_expect(pair, pair->send_cq, 3, &wc);
	CHECK(pattern_matches(memory + 2 * LENGTH, LENGTH, round));
}

static void flush(struct pair *pair)
{
	open_with(pair, ACCESS);
	pair_barrier(pair);
	for (uint32_t round = 1; round <= ROUNDS; round++) {
		uint64_t *word = (uint64_t *)pair->memory;

		if (!pair->server) {
			write_and_flush(pair, round);
		} else {
			while (__atomic_load_n(word, __ATOMIC_ACQUIRE) != round)
				;
			CHECK(pattern_matches(pair->memory + DATA, LENGTH, round));
		}
		pair_barrier(pair);
	}
	pair_close(pair);
}

/* --- what is refused ------------------------------------------------------------------ */

struct refusal {
	int access; /* of the server's region and QP */
	uint32_t key_change;
	uint64_t offset;
	size_t length;
	uint8_t type;
	enum ibv_wc_status status;
};

static void refused(struct pair *pair, const struct refusal *refusal)
{
	struct ibv_qp_ex *qp;

	open_with(pair, refusal->access);
	pair_barrier(pair);
	if (!pair->server) {
		qp = ibv_qp_to_qp_ex(pair->qp);
		ibv_wr_start(qp);
		qp->wr_id = 1;
		qp->wr_flags = 0; /* an error is told all the same */
		wr_flush(qp, pair->remote.rkey ^ refusal->key_change,
			 pair->remote.address + refusal->offset, refusal->length, refusal->type,
			 FLUSH_RANGE);
		CHECK_EQUAL(ibv_wr_complete(qp), 0);
		pair_expect_status(pair, pair->send_cq, 1, refusal->status);
	} else {
		pair_expect_event(pair, IBV_EVENT_QP_ACCESS_ERR);
	}
	CHECK_EQUAL(pair_state(pair), IBV_QPS_ERR);
	pair_barrier(pair);
	pair_close(pair);
}

/* Ordinary memory has nothing that would survive a loss of power. */
static void flush_persistent(struct pair *pair)
{
	refused(pair, &(struct refusal){.access = ACCESS,
					.length = 64,
					.type = FLUSH_PERSISTENT | FLUSH_GLOBAL,
					.status = IBV_WC_REM_INV_REQ_ERR});
}

static void flush_not_allowed(struct pair *pair)
{
	refused(pair, &(struct refusal){.access = ACCESS & ~ACCESS_FLUSH_GLOBAL,
					.length = 64,
					.type = FLUSH_GLOBAL,
					.status = IBV_WC_REM_INV_REQ_ERR});
}

static void flush_bad_rkey(struct pair *pair)
{
	refused(pair, &(struct refusal){.access = ACCESS,
					.key_change = 1,
					.length = 64,
					.type = FLUSH_GLOBAL,
					.status = IBV_WC_REM_ACCESS_ERR});
}

static void flush_out_of_bounds(struct pair *pair)
{
	refused(pair, &(struct refusal){.access = ACCESS,
					.offset = (1 << 20) - 63,
					.length = 64,
					.type = FLUSH_GLOBAL,
					.status = IBV_WC_REM_ACCESS_ERR});
}

const struct scenario scenarios_flush[] = {
	{"atomic-write", atomic_write},
	{"flush", flush},
	{"flush-persistent", flush_persistent},
	{"flush-not-allowed", flush_not_allowed},
	{"flush-bad-rkey", flush_bad_rkey},
	{"flush-out-of-bounds", flush_out_of_bounds},
	{NULL, NULL},
};
