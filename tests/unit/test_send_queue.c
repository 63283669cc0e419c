/* SPDX-License-Identifier: BSD-2-Clause */
/* What may be posted to a send queue, what is kept of it, and when the queue is full. */
#include <errno.h>

#include "core.h"
#include "emu/transport/send_queue.h"
#include "net/newer_verbs.h"

#define PORT 1

static struct send_queue queue;
static struct pd *pd;

static const struct ibv_qp_cap cap = {.max_send_wr = 5, .max_send_sge = 3, .max_inline_data = 16};

static void begin(const struct ibv_qp_cap *with)
{
	pd = core_pd();
	ck_assert_int_eq(send_queue_init(&queue, with), 0);
}

static void end(void)
{
	send_queue_destroy(&queue);
	ck_assert_int_eq(pd_dealloc(pd), 0);
}

static int push(enum ibv_qp_type type, const struct ibv_send_wr *wr)
{
	return send_queue_push(&queue, qp_type_find(type), false, pd, PORT, wr);
}

static struct send_wqe *last(void)
{
	return send_queue_at(&queue, queue.posted - 1);
}

/* Rows: the opcode; columns: RC, UC, UD. 0, EINVAL (!) or EOPNOTSUPP (-). */
START_TEST(opcodes_by_type)
{
	static const char *const expected[] = {
		[IBV_WR_RDMA_WRITE] = "00!",
		[IBV_WR_RDMA_WRITE_WITH_IMM] = "00!",
		[IBV_WR_SEND] = "000",
		[IBV_WR_SEND_WITH_IMM] = "000",
		[IBV_WR_RDMA_READ] = "0!!",
		[IBV_WR_ATOMIC_CMP_AND_SWP] = "0!!",
		[IBV_WR_ATOMIC_FETCH_AND_ADD] = "0!!",
		[IBV_WR_LOCAL_INV] = "00!",
		[IBV_WR_BIND_MW] = "00!",
		[IBV_WR_SEND_WITH_INV] = "0!!",
		[IBV_WR_TSO] = "---",
		[IBV_WR_DRIVER1] = "---",
		[12] = "!!!",
		[13] = "!!!",
		[WR_FLUSH] = "0!!",
		[IBV_WR_ATOMIC_WRITE] = "0!!",
		[16] = "!!!",
	};
	static const enum ibv_qp_type types[] = {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD};
	struct ah ah = {0};
	struct ibv_mw mw = {0};
	struct ibv_sge sge = {.length = 8};

	begin(&cap);
	ah.pd = pd;
	for (int opcode = 0; opcode <= 16; opcode++) {
		for (int i = 0; i < 3; i++) {
			struct flush_wr flush = {.flush = {.length = 8}};
			struct ibv_send_wr *wr = &flush.wr;
			char want = expected[opcode][i];

			*wr = (struct ibv_send_wr){.opcode = opcode, .sg_list = &sge, .num_sge = 1};
			if (types[i] == IBV_QPT_UD)
				wr->wr.ud.ah = &ah.ibv;
			if (opcode == IBV_WR_BIND_MW)
				wr->bind_mw.mw = &mw;
			if (opcode == IBV_WR_BIND_MW || opcode == IBV_WR_LOCAL_INV ||
			    opcode == WR_FLUSH)
				wr->num_sge = 0;
			send_queue_reset(&queue);
			ck_assert_msg(push(types[i], wr) == (want == '0'   ? 0
							     : want == '!' ? EINVAL
									   : EOPNOTSUPP),
				      "opcode %d, column %d", opcode, i);
			ck_assert_uint_eq(queue.posted, want == '0');
		}
	}
	ck_assert_int_eq(push(IBV_QPT_RC, &(struct ibv_send_wr){.opcode = -1}), EINVAL);
	end();
}
END_TEST

/* Annex A19: an ATOMIC WRITE has eight bytes; a FLUSH says what it is about, and has no data. */
START_TEST(atomic_writes_and_flushes)
{
	struct ibv_sge sges[2] = {{.length = 3}, {.length = 5}};
	struct ibv_send_wr write = {.opcode = IBV_WR_ATOMIC_WRITE,
				    .sg_list = sges,
				    .num_sge = 2,
				    .wr.rdma = {.remote_addr = 0x1003, .rkey = 42}};
	struct flush_wr flush = {
		.wr = {.opcode = WR_FLUSH, .wr.rdma = {.remote_addr = 0x2001, .rkey = 43}},
		.flush = {.length = 0x80000000, .placement = FLUSH_GLOBAL, .selectivity = FLUSH_MR},
	};
	uint64_t value = 0x1122334455667788;

	begin(&cap);
	ck_assert_int_eq(push(IBV_QPT_RC, &write), 0);
	ck_assert_uint_eq(last()->length, 8);
	/* Where it goes to is for the responder to judge. */
	ck_assert_uint_eq(last()->remote_addr, 0x1003);
	ck_assert_uint_eq(last()->rkey, 42);
	for (uint32_t length = 0; length < 10; length++) {
		sges[1].length = length;
		ck_assert_int_eq(push(IBV_QPT_RC, &write), length == 5 ? 0 : EINVAL);
	}
	write.send_flags = IBV_SEND_INLINE;
	sges[0] = (struct ibv_sge){.addr = (uintptr_t)&value, .length = 8};
	write.num_sge = 1;
	ck_assert_int_eq(push(IBV_QPT_RC, &write), 0);
	ck_assert_mem_eq(last()->inline_data, &value, 8);

	ck_assert_int_eq(push(IBV_QPT_RC, &flush.wr), 0);
	ck_assert_uint_eq(last()->length, 0);
	ck_assert_uint_eq(last()->remote_addr, 0x2001);
	ck_assert_uint_eq(last()->rkey, 43);
	ck_assert_uint_eq(last()->flush.length, 0x80000000);
	ck_assert_uint_eq(last()->flush.placement, FLUSH_GLOBAL);
	ck_assert_uint_eq(last()->flush.selectivity, FLUSH_MR);
	ck_assert_int_eq(last()->status, IBV_WC_SUCCESS);
	flush.flush.length++;
	ck_assert_int_eq(push(IBV_QPT_RC, &flush.wr), 0);
	ck_assert_int_eq(last()->status, IBV_WC_LOC_LEN_ERR);
	flush.wr.sg_list = sges;
	flush.wr.num_sge = 1;
	ck_assert_int_eq(push(IBV_QPT_RC, &flush.wr), EINVAL);
	end();
}
END_TEST

START_TEST(full_until_completions_are_polled)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND};

	begin(&cap);
	ck_assert_uint_eq(queue.slots, 8);
	for (uint64_t i = 0; i < 1000; i++) {
		wr.wr_id = i;
		if (i >= 5) {
			ck_assert_int_eq(push(IBV_QPT_RC, &wr), ENOMEM);
			queue.polled++;
		}
		ck_assert_int_eq(push(IBV_QPT_RC, &wr), 0);
		for (uint64_t j = i < 4 ? 0 : i - 4; j <= i; j++)
			ck_assert_uint_eq(send_queue_at(&queue, j)->wr_id, j);
	}
	/* The counters run over. */
	queue.posted = UINT32_MAX;
	queue.polled = UINT32_MAX - 4;
	ck_assert_int_eq(push(IBV_QPT_RC, &wr), 0);
	ck_assert_uint_eq(queue.posted, 0);
	ck_assert_int_eq(push(IBV_QPT_RC, &wr), ENOMEM);
	send_queue_reset(&queue);
	ck_assert_int_eq(push(IBV_QPT_RC, &wr), 0);
	end();

	begin(&(struct ibv_qp_cap){0});
	ck_assert_int_eq(push(IBV_QPT_RC, &wr), ENOMEM);
	end();
}
END_TEST

START_TEST(lists_are_copied_and_limited)
{
	struct ibv_sge sges[4] = {{1, 10, 100}, {2, 0, 200}, {3, 30, 300}, {4, 40, 400}};
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
				 .sg_list = sges,
				 .num_sge = 3,
				 .imm_data = htobe32(7),
				 .send_flags = IBV_SEND_FENCE,
				 .wr.rdma = {.remote_addr = 0x1234567890, .rkey = 99}};

	begin(&cap);
	ck_assert_int_eq(send_queue_push(&queue, qp_type_find(IBV_QPT_RC), true, pd, PORT, &wr), 0);
	ck_assert_int_eq(last()->flags, IBV_SEND_FENCE | IBV_SEND_SIGNALED);
	ck_assert_uint_eq(last()->length, 40);
	ck_assert_uint_eq(last()->num_sge, 3);
	ck_assert_int_eq(memcmp(last()->sge, sges, 3 * sizeof(*sges)), 0);
	ck_assert_uint_eq(last()->imm_data, htobe32(7));
	ck_assert_uint_eq(last()->remote_addr, 0x1234567890);
	ck_assert_uint_eq(last()->rkey, 99);
	ck_assert(!last()->started);
	ck_assert_int_eq(last()->status, IBV_WC_SUCCESS);

	wr.num_sge = 4;
	ck_assert_int_eq(push(IBV_QPT_RC, &wr), EINVAL);
	wr.num_sge = -1;
	ck_assert_int_eq(push(IBV_QPT_RC, &wr), EINVAL);
	wr.num_sge = 1;
	wr.send_flags = IBV_SEND_IP_CSUM;
	ck_assert_int_eq(push(IBV_QPT_RC, &wr), EINVAL);
	ck_assert_uint_eq(queue.posted, 1);
	end();
}
END_TEST

START_TEST(messages_up_to_2_gib)
{
	struct ibv_sge sges[3] = {{.length = 0x7fffffff}, {.length = 1}, {.length = UINT32_MAX}};
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .sg_list = sges, .num_sge = 2};

	begin(&cap);
	ck_assert_int_eq(push(IBV_QPT_RC, &wr), 0);
	ck_assert_int_eq(last()->status, IBV_WC_SUCCESS);
	ck_assert_uint_eq(last()->length, WIRE_MESSAGE_MAX);
	sges[1].length = 2;
	ck_assert_int_eq(push(IBV_QPT_RC, &wr), 0);
	ck_assert_int_eq(last()->status, IBV_WC_LOC_LEN_ERR);
	/* A sum beyond 32 bits is not a short message. */
	sges[0].length = sges[1].length = UINT32_MAX;
	wr.num_sge = 3;
	ck_assert_int_eq(push(IBV_QPT_RC, &wr), 0);
	ck_assert_int_eq(last()->status, IBV_WC_LOC_LEN_ERR);
	end();
}
END_TEST

START_TEST(inline_data_is_taken_at_once)
{
	char first[] = "inline", second[] = "0123456789";
	struct ibv_sge sges[3] = {{(uintptr_t)first, 6, 0}, {0, 0, 0}, {(uintptr_t)second, 10, 0}};
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND,
				 .sg_list = sges,
				 .num_sge = 3,
				 .send_flags = IBV_SEND_INLINE};
	struct send_wqe *wqe;

	begin(&cap);
	ck_assert_int_eq(push(IBV_QPT_RC, &wr), 0);
	wqe = last();
	memset(first, 0, sizeof(first));
	ck_assert_int_eq(push(IBV_QPT_RC, &wr), 0);
	memset(second, 0, sizeof(second));
	ck_assert_uint_eq(wqe->length, 16);
	ck_assert_uint_eq(wqe->num_sge, 0);
	ck_assert_int_eq(memcmp(wqe->inline_data, "inline0123456789", 16), 0);

	sges[1].length = 1;
	ck_assert_int_eq(push(IBV_QPT_RC, &wr), EINVAL);
	wr.num_sge = 1;
	for (int opcode = IBV_WR_RDMA_READ; opcode <= IBV_WR_ATOMIC_FETCH_AND_ADD; opcode++) {
		wr.opcode = opcode;
		ck_assert_int_eq(push(IBV_QPT_RC, &wr), EINVAL);
	}
	end();

	/* Nothing fits a queue without inline data. */
	begin(&(struct ibv_qp_cap){.max_send_wr = 1, .max_send_sge = 1});
	wr.opcode = IBV_WR_SEND;
	ck_assert_int_eq(push(IBV_QPT_RC, &wr), EINVAL);
	sges[0].length = 0;
	ck_assert_int_eq(push(IBV_QPT_RC, &wr), 0);
	ck_assert_uint_eq(last()->length, 0);
	end();
}
END_TEST

START_TEST(atomics_need_eight_bytes)
{
	struct ibv_sge sge = {.length = 7};
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_ATOMIC_CMP_AND_SWP,
		.sg_list = &sge,
		.num_sge = 1,
		.wr.atomic = {.remote_addr = 0x1001, /* the responder's to refuse */
			      .compare_add = 3,
			      .swap = 4,
			      .rkey = 5}};

	begin(&cap);
	ck_assert_int_eq(push(IBV_QPT_RC, &wr), EINVAL);
	sge.length = 100;
	ck_assert_int_eq(push(IBV_QPT_RC, &wr), 0);
	ck_assert_uint_eq(last()->length, 8);
	ck_assert_uint_eq(last()->remote_addr, 0x1001);
	ck_assert_uint_eq(last()->compare_add, 3);
	ck_assert_uint_eq(last()->swap, 4);
	ck_assert_uint_eq(last()->rkey, 5);
	end();
}
END_TEST

START_TEST(datagrams_keep_their_address)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND,
				 .wr.ud = {.remote_qpn = 0xff000011, .remote_qkey = 0x80000001}};
	struct ah *ah = calloc(1, sizeof(*ah));
	struct pd *other;

	begin(&cap);
	other = core_pd();
	ck_assert_int_eq(push(IBV_QPT_UD, &wr), EINVAL);
	ah->pd = pd;
	ah->port_num = PORT;
	ah->path.hop_limit = 17;
	wr.wr.ud.ah = &ah->ibv;
	ck_assert_int_eq(push(IBV_QPT_UD, &wr), 0);
	ck_assert_int_eq(last()->status, IBV_WC_SUCCESS);
	ck_assert_uint_eq(last()->remote_qpn, 0x11);
	ck_assert_uint_eq(last()->remote_qkey, 0x80000001);
	ah->pd = other;
	ck_assert_int_eq(push(IBV_QPT_UD, &wr), 0);
	ck_assert_int_eq(last()->status, IBV_WC_LOC_QP_OP_ERR);
	ah->pd = pd;
	ah->port_num = PORT + 1;
	ck_assert_int_eq(push(IBV_QPT_UD, &wr), 0);
	ck_assert_int_eq(last()->status, IBV_WC_LOC_QP_OP_ERR);
	free(ah);
	ck_assert_uint_eq(last()->path.hop_limit, 17);
	pd_dealloc(other);
	end();
}
END_TEST

START_TEST(invalidation_carries_its_key)
{
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_SEND_WITH_INV, IBV_WR_LOCAL_INV};
	struct ibv_send_wr wr = {.invalidate_rkey = 0xabc};

	begin(&cap);
	for (int i = 0; i < 2; i++) {
		wr.opcode = opcodes[i];
		ck_assert_int_eq(push(IBV_QPT_RC, &wr), 0);
		ck_assert_uint_eq(last()->invalidate_rkey, 0xabc);
		ck_assert_int_eq(!!(last()->kind->flags & REQUEST_LOCAL), i);
	}
	end();
}
END_TEST

/* All of it is copied: the window may be gone when its turn comes. */
START_TEST(binds_are_copied)
{
	struct ibv_mw mw = {.rkey = 0x1234567};
	struct ibv_mr mr = {.lkey = 0x89abcde, .rkey = 1};
	struct ibv_sge sge = {.length = 1};
	struct ibv_send_wr wr = {.opcode = IBV_WR_BIND_MW,
				 .bind_mw = {.mw = &mw,
					     .rkey = 0x1234568,
					     .bind_info = {&mr, 0x1000, 1ull << 40, 7}}};

	begin(&cap);
	ck_assert_int_eq(push(IBV_QPT_UC, &wr), 0);
	ck_assert(last()->kind->flags & REQUEST_LOCAL);
	ck_assert_uint_eq(last()->length, 0);
	ck_assert_uint_eq(last()->bind.window, 0x12345);
	ck_assert_uint_eq(last()->bind.rkey, 0x1234568);
	ck_assert_uint_eq(last()->bind.region, 0x89abcde);
	ck_assert_uint_eq(last()->bind.addr, 0x1000);
	ck_assert_uint_eq(last()->bind.length, 1ull << 40);
	ck_assert_int_eq(last()->bind.access, 7);
	wr.bind_mw.bind_info.mr = NULL;
	ck_assert_int_eq(push(IBV_QPT_RC, &wr), 0);
	ck_assert_uint_eq(last()->bind.region, 0);

	/* It has no data. */
	wr.sg_list = &sge;
	wr.num_sge = 1;
	ck_assert_int_eq(push(IBV_QPT_RC, &wr), EINVAL);
	wr.num_sge = 0;
	wr.send_flags = IBV_SEND_INLINE;
	ck_assert_int_eq(push(IBV_QPT_RC, &wr), EINVAL);
	wr.send_flags = 0;
	wr.bind_mw.mw = NULL;
	ck_assert_int_eq(push(IBV_QPT_RC, &wr), EINVAL);
	end();
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {opcodes_by_type,
				      full_until_completions_are_polled,
				      lists_are_copied_and_limited,
				      messages_up_to_2_gib,
				      inline_data_is_taken_at_once,
				      atomics_need_eight_bytes,
				      atomic_writes_and_flushes,
				      datagrams_keep_their_address,
				      invalidation_carries_its_key,
				      binds_are_copied,
				      NULL};

	return core_run("send_queue", tests);
}
