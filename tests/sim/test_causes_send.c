/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every cause of a send completion (net/cause/requester.def), but those of retries: provoked, and
 * what is said of it.
 */
#include "causes.h"

#include "emu/explain/denial.h"
#include "net/newer_verbs.h"

#define BAD_KEY 0xdead0001
#define REMOTE                                                                                     \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE |               \
	 IBV_ACCESS_REMOTE_ATOMIC)
#define BINDABLE (REMOTE | IBV_ACCESS_MW_BIND)

static void send_with(uint32_t lkey)
{
	causes_post(p.qa, IBV_WR_SEND, (uintptr_t)p.ma, 8, lkey);
}

/* --- memory ---------------------------------------------------------------------------------- */

static void flushed(void)
{
	causes_pair(IBV_QPT_RC, NULL);
	pair_cut(&p, true);
	send_with(p.ra->ibv.lkey);
	world_modify_state(p.qa, IBV_QPS_ERR);
}

static void key_unknown(void)
{
	causes_pair(IBV_QPT_RC, NULL);
	send_with(BAD_KEY);
}

static void key_of_the_past(void)
{
	struct mr *mr;
	uint32_t lkey;

	causes_pair(IBV_QPT_RC, NULL);
	mr = world_mr(p.a, p.ma, 64, 0);
	lkey = mr->ibv.lkey;
	ck_assert_int_eq(mr_deregister(mr), 0);
	send_with(lkey);
}

static void key_stale(void)
{
	struct mr *mr;
	uint32_t lkey;

	causes_pair(IBV_QPT_RC, NULL);
	mr = causes_mr(p.a->pd, p.ma, 64, 0);
	lkey = mr->ibv.lkey;
	ck_assert_int_eq(mr_reregister(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, p.ma, 128, 0), 0);
	send_with(lkey);
}

static void key_other_pd(void)
{
	causes_pair(IBV_QPT_RC, NULL);
	send_with(causes_mr(causes_pd(p.a), p.ma, 64, 0)->ibv.lkey);
}

static void null_key_other_pd(void)
{
	struct pd *usual;
	struct mr *mr;

	causes_pair(IBV_QPT_RC, NULL);
	usual = p.a->pd;
	p.a->pd = causes_pd(p.a);
	mr = causes_null_mr(p.a);
	p.a->pd = usual;
	send_with(mr->ibv.lkey);
}

/* Of three elements the last one is bad. */
static void key_unknown_behind_others(void)
{
	struct ibv_sge sges[3];
	struct ibv_send_wr wr = {.wr_id = 7, .opcode = IBV_WR_SEND, .sg_list = sges, .num_sge = 3};

	causes_pair(IBV_QPT_RC, NULL);
	for (unsigned int i = 0; i < 3; i++)
		sges[i] = (struct ibv_sge){(uintptr_t)p.ma, 8, i < 2 ? p.ra->ibv.lkey : BAD_KEY};
	ck_assert_int_eq(world_post_send(p.qa, &wr), 0);
}

static void key_of_window(void)
{
	causes_pair(IBV_QPT_RC, NULL);
	send_with(causes_mw(p.a->pd, IBV_MW_TYPE_1)->ibv.rkey);
}

static void not_writable(void)
{
	causes_pair(IBV_QPT_RC, NULL);
	causes_post(p.qa, IBV_WR_RDMA_READ, (uintptr_t)p.ma, 8,
		    causes_mr(p.a->pd, p.ma, 64, IBV_ACCESS_REMOTE_READ)->ibv.lkey);
}

static void out_of_bounds(void)
{
	causes_pair(IBV_QPT_RC, NULL);
	causes_post(p.qa, IBV_WR_RDMA_WRITE, (uintptr_t)p.ma + PAIR_MEMORY - 3, 4000,
		    p.ra->ibv.lkey);
}

static void use_gone(int access, bool returns)
{
	struct mr *mr;

	causes_pair(IBV_QPT_RC, NULL);
	mr = causes_gone(p.a->pd, access, returns);
	causes_post(p.qa, IBV_WR_SEND, (uintptr_t)mr->ibv.addr, 8, mr->ibv.lkey);
}

static void memory_gone(void)
{
	use_gone(0, false);
}

static void memory_not_there(void)
{
	use_gone(IBV_ACCESS_ON_DEMAND, false);
}

static void key_raced(void)
{
	use_gone(0, true);
}

/* --- requests that can't be sent ----------------------------------------------------------- */

static void message_too_long(void)
{
	causes_pair(IBV_QPT_RC, NULL);
	causes_post(p.qa, IBV_WR_SEND, (uintptr_t)p.ma, 0x80000001, p.ra->ibv.lkey);
}

static struct ibv_ah_attr to_b(uint8_t port_num)
{
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = port_num};

	attr.grh.dgid = *world_gid(p.b, port_num);
	return attr;
}

static void post_datagram(struct pd *pd, uint8_t port_num, uint32_t length)
{
	struct ibv_ah_attr attr = to_b(port_num);
	struct ibv_sge sge = {(uintptr_t)p.ma, length, p.ra->ibv.lkey};
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_SEND,
		.sg_list = &sge,
		.num_sge = 1,
		.wr.ud = {.remote_qpn = p.qb->number, .remote_qkey = 0x11111111},
	};
	struct ah *ah;

	ck_assert_int_eq(ah_create(pd, &attr, &ah), 0);
	wr.wr.ud.ah = &ah->ibv;
	ck_assert_int_eq(world_post_send(p.qa, &wr), 0);
	ah_destroy(ah);
}

static void datagram_too_long(void)
{
	causes_pair(IBV_QPT_UD, NULL);
	post_datagram(p.a->pd, 1, p.qa->mtu + 1);
}

static void flush_too_long(void)
{
	causes_peer(IBV_QPT_RC, NULL);
	peer_flush(&peer, FLUSH_RANGE, 0x80000001, 7);
}

static void no_rd_atomic(void)
{
	struct connection c = world_connection;

	c.rd_atomic = 0;
	causes_pair(IBV_QPT_RC, &c);
	pair_post(&p, IBV_WR_RDMA_READ, 8, 7);
}

static void ah_other_pd(void)
{
	causes_pair(IBV_QPT_UD, NULL);
	post_datagram(causes_pd(p.a), 1, 8);
}

static void ah_other_port(void)
{
	causes_pair(IBV_QPT_UD, NULL);
	post_datagram(p.a->pd, 2, 8);
}

/* --- windows: of b ---------------------------------------------------------------------------- */

static void post_b(struct ibv_send_wr wr)
{
	wr.wr_id = 7;
	wr.send_flags |= IBV_SEND_SIGNALED;
	ck_assert_int_eq(world_post_send(p.qb, &wr), 0);
}

static struct ibv_send_wr bind_to(struct mw *mw, struct mr *mr, uint32_t length, int access)
{
	return (struct ibv_send_wr){
		.opcode = IBV_WR_BIND_MW,
		.bind_mw = {.mw = &mw->ibv,
			    .rkey = ibv_inc_rkey(mw->ibv.rkey),
			    .bind_info = {.mr = mr ? &mr->ibv : NULL,
					  .addr = (uintptr_t)p.mb,
					  .length = length,
					  .mw_access_flags = access}},
	};
}

static void bind_other(enum ibv_mw_type type, int region_access, uint32_t length, int access)
{
	struct mr *mr;

	causes_pair(IBV_QPT_RC, NULL);
	mr = causes_mr(p.b->pd, p.mb, 64, region_access);
	post_b(bind_to(causes_mw(p.b->pd, type), mr, length, access));
}

/* The bind waits for a READ, and the window is gone then. */
static void bind_window_gone(void)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr;
	struct mw *mw;

	causes_pair(IBV_QPT_RC, NULL);
	sge = (struct ibv_sge){(uintptr_t)p.mb, 8, p.rb->ibv.lkey};
	post_b((struct ibv_send_wr){.opcode = IBV_WR_RDMA_READ,
				    .sg_list = &sge,
				    .num_sge = 1,
				    .wr.rdma = {(uintptr_t)p.ma, p.ra->ibv.rkey}});
	ck_assert_int_eq(mw_alloc(p.b->pd, IBV_MW_TYPE_2, &mw), 0);
	wr = bind_to(mw, p.rb, 8, 0);
	wr.send_flags = IBV_SEND_FENCE;
	post_b(wr);
	mw_dealloc(mw);
}

static void bind_window_other_pd(void)
{
	causes_pair(IBV_QPT_RC, NULL);
	post_b(bind_to(causes_mw(causes_pd(p.b), IBV_MW_TYPE_2),
		       causes_mr(p.b->pd, p.mb, 64, BINDABLE), 8, 0));
}

static struct mw *bound(struct qp *qp, enum ibv_mw_type type)
{
	struct mw *mw = causes_mw(p.b->pd, type);
	struct ibv_send_wr wr = bind_to(mw, causes_mr(p.b->pd, p.mb, 64, BINDABLE), 8, 0);

	ck_assert_int_eq(world_post_send(qp, &wr), 0);
	mw->ibv.rkey = wr.bind_mw.rkey; /* the application's to keep */
	return mw;
}

static void bind_window_in_use(void)
{
	struct mw *mw;

	causes_pair(IBV_QPT_RC, NULL);
	mw = bound(p.qb, IBV_MW_TYPE_2);
	post_b(bind_to(mw, mw->region, 8, 0));
}

static void bind_nothing(void)
{
	bind_other(IBV_MW_TYPE_2, BINDABLE, 0, 0);
}

static void bind_access(void)
{
	bind_other(IBV_MW_TYPE_1, BINDABLE, 8, IBV_ACCESS_ZERO_BASED);
}

static void bind_region_gone(void)
{
	causes_pair(IBV_QPT_RC, NULL);
	post_b(bind_to(causes_mw(p.b->pd, IBV_MW_TYPE_2), NULL, 8, 0));
}

static void bind_region_other_pd(void)
{
	causes_pair(IBV_QPT_RC, NULL);
	post_b(bind_to(causes_mw(p.b->pd, IBV_MW_TYPE_2),
		       causes_mr(causes_pd(p.b), p.mb, 64, BINDABLE), 8, 0));
}

static void bind_region_forbids(void)
{
	bind_other(IBV_MW_TYPE_2, REMOTE, 8, 0);
}

static void bind_region_zero_based(void)
{
	bind_other(IBV_MW_TYPE_2, BINDABLE | IBV_ACCESS_ZERO_BASED, 8, 0);
}

static void bind_region_not_writable(void)
{
	bind_other(IBV_MW_TYPE_2, IBV_ACCESS_MW_BIND, 8, IBV_ACCESS_REMOTE_WRITE);
}

static void bind_out_of_bounds(void)
{
	bind_other(IBV_MW_TYPE_2, BINDABLE, 65, IBV_ACCESS_REMOTE_READ);
}

static void invalidate(uint32_t rkey)
{
	post_b((struct ibv_send_wr){.opcode = IBV_WR_LOCAL_INV, .invalidate_rkey = rkey});
}

static void invalidate_unknown(void)
{
	causes_pair(IBV_QPT_RC, NULL);
	invalidate(BAD_KEY);
}

static void invalidate_not_type_2(void)
{
	causes_pair(IBV_QPT_RC, NULL);
	invalidate(p.rb->ibv.rkey);
}

static void invalidate_stale(void)
{
	struct mw *mw;

	causes_pair(IBV_QPT_RC, NULL);
	mw = bound(p.qb, IBV_MW_TYPE_2);
	invalidate(ibv_inc_rkey(mw->ibv.rkey));
}

static void invalidate_unbound(void)
{
	causes_pair(IBV_QPT_RC, NULL);
	invalidate(causes_mw(p.b->pd, IBV_MW_TYPE_2)->ibv.rkey);
}

static void invalidate_other_qp(void)
{
	struct qp *other;

	causes_pair(IBV_QPT_RC, NULL);
	other = causes_qp(p.b);
	world_connect(p.a, causes_qp(p.a), p.b, other, &world_connection);
	invalidate(bound(other, IBV_MW_TYPE_2)->ibv.rkey);
}

/* --- what the peer says --------------------------------------------------------------------- */

static void nak_invalid_request(void)
{
	causes_pair(IBV_QPT_RC, NULL);
	pair_receive(&p, 8, 0);
	pair_post(&p, IBV_WR_SEND, 9, 7);
}

static void nak_remote_access(void)
{
	causes_pair(IBV_QPT_RC, NULL);
	causes_reach(IBV_WR_RDMA_READ, (uintptr_t)p.mb, 8, BAD_KEY);
}

static void nak_remote_operation(void)
{
	causes_pair(IBV_QPT_RC, NULL);
	ck_assert_int_eq(world_post_recv(p.qb, p.mb, 8, BAD_KEY, 0), 0);
	pair_post(&p, IBV_WR_SEND, 8, 7);
}

static void rnr_exceeded(void)
{
	struct connection c = world_connection;

	c.rnr_retry = 2;
	causes_pair(IBV_QPT_RC, &c);
	pair_post(&p, IBV_WR_SEND, 8, 7);
}

static void answer(uint8_t operation, uint8_t syndrome, uint32_t length)
{
	const struct peer_packet packet = {RC(operation), .psn = FIRST_PSN, .no_ack_request = true,
					   .syndrome = syndrome, .length = length};

	peer_send(&peer, &packet);
}

static void answer_read(uint8_t operation, uint8_t syndrome, uint32_t length)
{
	causes_peer(IBV_QPT_RC, NULL);
	peer_post(&peer, IBV_WR_RDMA_READ, 100, 7);
	peer_see(&peer);
	answer(operation, syndrome, length);
}

static void response_opcode(void)
{
	answer_read(WIRE_ATOMIC_ACKNOWLEDGE, AETH_ACK_UNLIMITED, 0);
}

static void response_syndrome(void)
{
	answer_read(WIRE_READ_RESPONSE_ONLY, AETH_NAK_INVALID_REQUEST, 100);
}

static void response_place(void)
{
	answer_read(WIRE_READ_RESPONSE_FIRST, AETH_ACK_UNLIMITED, PEER_MTU);
}

static void response_length(void)
{
	answer_read(WIRE_READ_RESPONSE_ONLY, AETH_ACK_UNLIMITED, 96);
}

/* ------------------------------------------------------------------------------------------ */

#define A(status, name) .a = {IBV_WC_##status, CAUSE_##name}
#define B(status, name) .b = {IBV_WC_##status, CAUSE_##name}
/* Of a completion at a; at b. */
#define AT_A(name, provoke, status, found)                                                         \
	{                                                                                          \
		CAUSE_##name, provoke, found, A(status, name)                                      \
	}
#define AT_B(name, provoke, status, found)                                                         \
	{                                                                                          \
		CAUSE_##name, provoke, found, B(status, name)                                      \
	}

/* clang-format off */
static const struct cause_row rows[] = {
	AT_A(FLUSHED, flushed, WR_FLUSH_ERR, "1 work requests of the send queue"),

	AT_A(LOCAL_KEY_UNKNOWN, key_unknown, LOC_PROT_ERR, "with lkey 0xdead0001: nothing has that key"),
	AT_A(LOCAL_KEY_UNKNOWN, key_of_the_past, LOC_PROT_ERR, ": nothing has that key; it was a region of 64 bytes at 0x"),
	AT_A(LOCAL_KEY_STALE, key_stale, LOC_PROT_ERR, "now, of a region of 128 bytes at 0x"),
	AT_A(LOCAL_KEY_OTHER_PD, key_other_pd, LOC_PROT_ERR, ", of protection domain "),
	AT_A(LOCAL_KEY_OTHER_PD, null_key_other_pd, LOC_PROT_ERR, "that is a null region, of protection domain "),
	AT_A(LOCAL_KEY_UNKNOWN, key_unknown_behind_others, LOC_PROT_ERR, " and 2 more\n"),
	AT_A(LOCAL_KEY_OF_WINDOW, key_of_window, LOC_PROT_ERR, "that is a memory window"),
	AT_A(LOCAL_NOT_WRITABLE, not_writable, LOC_PROT_ERR, "with REMOTE_READ only: it lacks LOCAL_WRITE"),
	AT_A(LOCAL_OUT_OF_BOUNDS, out_of_bounds, LOC_PROT_ERR, "the access ends 3997 bytes behind it"),
	AT_A(LOCAL_MEMORY_GONE, memory_gone, LOC_PROT_ERR, "; the memory at 0x"),
	AT_A(LOCAL_MEMORY_NOT_THERE, memory_not_there, LOC_PROT_ERR, "with ON_DEMAND; the memory at 0x"),
	AT_A(LOCAL_KEY_RACED, key_raced, LOC_PROT_ERR, "a moment later"),

	AT_A(MESSAGE_TOO_LONG, message_too_long, LOC_LEN_ERR, "SEND of 2147483649 bytes from 0x"),
	AT_A(MESSAGE_TOO_LONG, message_too_long, LOC_LEN_ERR, "has 2147483649 bytes, and 2147483648 are the most"),
	AT_A(DATAGRAM_TOO_LONG, datagram_too_long, LOC_LEN_ERR, "bytes, and the MTU of the port is "),
	AT_A(DATAGRAM_TOO_LONG, datagram_too_long, LOC_LEN_ERR, " to 10.0.0.2 QP 0x"),
	AT_A(FLUSH_TOO_LONG, flush_too_long, LOC_LEN_ERR, "2147483649 bytes, and 2147483648 are the most"),
	AT_A(NO_RD_ATOMIC, no_rd_atomic, LOC_QP_OP_ERR, "with max_rd_atomic 0"),
	AT_A(AH_OTHER_PD, ah_other_pd, LOC_QP_OP_ERR, "isn't of protection domain "),
	AT_A(AH_OTHER_PORT, ah_other_port, LOC_QP_OP_ERR, "isn't for port 1"),

	AT_B(BIND_WINDOW_GONE, bind_window_gone, MW_BIND_ERR, "\n    nothing has that number\n"),
	AT_B(BIND_WINDOW_OTHER_PD, bind_window_other_pd, MW_BIND_ERR, "the window of type 2"),
	AT_B(BIND_WINDOW_IN_USE, bind_window_in_use, MW_BIND_ERR, "the window of type 2 is bound as rkey 0x"),
	AT_B(BIND_NOTHING, bind_nothing, MW_BIND_ERR, "to 0 bytes at 0x"),
	AT_B(BIND_ACCESS, bind_access, MW_BIND_ERR, "the window of type 1 was to get ZERO_BASED"),
	AT_B(BIND_REGION_GONE, bind_region_gone, MW_BIND_ERR, "lkey 0x0 is of nothing"),
	AT_B(BIND_REGION_OTHER_PD, bind_region_other_pd, MW_BIND_ERR, "is of region of 64 bytes"),
	AT_B(BIND_REGION_FORBIDS, bind_region_forbids, MW_BIND_ERR, "REMOTE_ATOMIC"),
	AT_B(BIND_REGION_ZERO_BASED, bind_region_zero_based, MW_BIND_ERR, "region of 64 bytes at 0x0"),
	AT_B(BIND_REGION_NOT_WRITABLE, bind_region_not_writable, MW_BIND_ERR, "was to get REMOTE_WRITE; lkey 0x"),
	AT_B(BIND_OUT_OF_BOUNDS, bind_out_of_bounds, MW_BIND_ERR, "to 65 bytes at 0x"),
	AT_B(INVALIDATE_UNKNOWN, invalidate_unknown, MW_BIND_ERR, "rkey 0xdead0001: nothing has that key"),
	AT_B(INVALIDATE_NOT_TYPE_2, invalidate_not_type_2, MW_BIND_ERR, "of a region"),
	AT_B(INVALIDATE_STALE, invalidate_stale, MW_BIND_ERR, "of a window of type 2 that QP 0x"),
	AT_B(INVALIDATE_UNBOUND, invalidate_unbound, MW_BIND_ERR, "that is not bound"),
	AT_B(INVALIDATE_OTHER_QP, invalidate_other_qp, MW_BIND_ERR, "has bound"),

	{CAUSE_NAK_INVALID_REQUEST, nak_invalid_request, "NAK of PSN 16777200, syndrome 0x61",
	 A(REM_INV_REQ_ERR, NAK_INVALID_REQUEST), B(LOC_LEN_ERR, RECEIVE_TOO_SHORT)},
	AT_A(NAK_REMOTE_ACCESS, nak_remote_access, REM_ACCESS_ERR, "wr_id 7, RDMA_READ of 8 bytes into 0x"),
	{CAUSE_NAK_REMOTE_OPERATION, nak_remote_operation, "SEND of 8 bytes from 0x",
	 A(REM_OP_ERR, NAK_REMOTE_OPERATION), B(LOC_PROT_ERR, RECEIVE_KEY_UNKNOWN)},
	AT_A(RNR_EXCEEDED, rnr_exceeded, RNR_RETRY_EXC_ERR, "asked to wait for a receive 3 times"),

	AT_A(RESPONSE_OPCODE, response_opcode, BAD_RESP_ERR, "RC_ATOMIC_ACKNOWLEDGE, PSN 16777200, came for it"),
	AT_A(RESPONSE_SYNDROME, response_syndrome, BAD_RESP_ERR, "with syndrome 0x61"),
	AT_A(RESPONSE_PLACE, response_place, BAD_RESP_ERR, "is packet 1 of 1"),
	AT_A(RESPONSE_LENGTH, response_length, LOC_LEN_ERR, "has 96 bytes: packet 1 of 1"),
};
/* clang-format on */

static const struct cause_table table = {
	.name = "causes_send",
	.first = 0x1000,
	.last = 0x15ff,
	.rows = rows,
	.count = sizeof(rows) / sizeof(rows[0]),
};

int main(void)
{
	return causes_main(&table);
}
