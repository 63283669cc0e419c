/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every cause that a responder finds (net/cause/responder.def): provoked, and what both sides say
 * of it.
 */
#include <fcntl.h>

#include "causes.h"
#include "emu/objects/mw.h"
#include "net/newer_verbs.h"

#define BAD_KEY 0xdead0001
#define REMOTE                                                                                     \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE |               \
	 IBV_ACCESS_REMOTE_ATOMIC)
#define BINDABLE (REMOTE | IBV_ACCESS_MW_BIND)

static void receive_flushed(void)
{
	causes_pair(IBV_QPT_RC, NULL);
	pair_receive(&p, 8, 5);
	world_modify_state(p.qb, IBV_QPS_ERR);
}

static void no_receive(void)
{
	causes_pair(IBV_QPT_RC, NULL);
	pair_post(&p, IBV_WR_SEND, 8, 7);
	world_run(&p.world, MS);
	pair_receive(&p, 8, 5);
	world_expect(p.a, 7, IBV_WC_SUCCESS);
}

static void no_receive_of_srq(void)
{
	struct ibv_srq_attr attr = {.max_wr = 1, .max_sge = 1};
	struct qp_options options = {.type = IBV_QPT_RC};
	struct qp *usual;

	causes_pair(IBV_QPT_RC, NULL);
	usual = p.qb;
	ck_assert_int_eq(srq_create(p.b->pd, &attr, &options.srq), 0);
	p.qb = world_qp(p.b, &options);
	world_modify_state(p.qa, IBV_QPS_RESET);
	world_connect(p.a, p.qa, p.b, p.qb, &world_connection);
	pair_post(&p, IBV_WR_SEND, 8, 7);
	world_run(&p.world, MS);
	world_modify_state(p.qa, IBV_QPS_RESET);
	ck_assert_int_eq(qp_destroy(p.qb), 0);
	ck_assert_int_eq(srq_destroy(options.srq), 0);
	p.qb = usual;
}

/* --- memory that the peer names ------------------------------------------------------ */

static void write_to(uint32_t rkey)
{
	causes_reach(IBV_WR_RDMA_WRITE, (uintptr_t)p.mb, 8, rkey);
}

static void key_unknown(void)
{
	causes_pair(IBV_QPT_RC, NULL);
	write_to(BAD_KEY);
}

static void key_stale(void)
{
	struct mr *mr;
	uint32_t rkey;

	causes_pair(IBV_QPT_RC, NULL);
	mr = causes_mr(p.b->pd, p.mb, 64, REMOTE);
	rkey = mr->ibv.rkey;
	ck_assert_int_eq(mr_reregister(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, p.mb, 128, 0), 0);
	write_to(rkey);
}

static void key_other_pd(void)
{
	causes_pair(IBV_QPT_RC, NULL);
	write_to(causes_mr(causes_pd(p.b), p.mb, 64, REMOTE)->ibv.rkey);
}

static void key_of_null_region(void)
{
	causes_pair(IBV_QPT_RC, NULL);
	write_to(causes_null_mr(p.b)->ibv.lkey);
}

static void window_unbound(void)
{
	causes_pair(IBV_QPT_RC, NULL);
	write_to(causes_mw(p.b->pd, IBV_MW_TYPE_1)->ibv.rkey);
}

static struct mw *bound(struct qp *qp, enum ibv_mw_type type)
{
	struct mr *mr = causes_mr(p.b->pd, p.mb, 64, BINDABLE);
	struct mw *mw = causes_mw(p.b->pd, type);
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_BIND_MW,
		.bind_mw = {.mw = &mw->ibv,
			    .rkey = ibv_inc_rkey(mw->ibv.rkey),
			    .bind_info = {.mr = &mr->ibv,
					  .addr = (uintptr_t)p.mb,
					  .length = 8,
					  .mw_access_flags = IBV_ACCESS_REMOTE_WRITE}},
	};

	ck_assert_int_eq(world_post_send(qp, &wr), 0);
	mw->ibv.rkey = wr.bind_mw.rkey; /* the application's to keep */
	return mw;
}

/* A window that another QP of b has bound. */
static struct mw *bound_by_other(void)
{
	struct qp *other = causes_qp(p.b);

	world_connect(p.a, causes_qp(p.a), p.b, other, &world_connection);
	return bound(other, IBV_MW_TYPE_2);
}

static void window_other_qp(void)
{
	causes_pair(IBV_QPT_RC, NULL);
	write_to(bound_by_other()->ibv.rkey);
}

static void not_allowed(void)
{
	causes_pair(IBV_QPT_RC, NULL);
	write_to(causes_mr(p.b->pd, p.mb, 64, IBV_ACCESS_LOCAL_WRITE)->ibv.rkey);
}

/* The QP may use the window: what is wrong is the place. */
static void out_of_bounds_of_window(void)
{
	causes_pair(IBV_QPT_RC, NULL);
	causes_reach(IBV_WR_RDMA_WRITE, (uintptr_t)p.mb, 9, bound(p.qb, IBV_MW_TYPE_2)->ibv.rkey);
}

static void atomic_key_unknown(void)
{
	causes_pair(IBV_QPT_RC, NULL);
	causes_reach(IBV_WR_ATOMIC_FETCH_AND_ADD, (uintptr_t)p.mb, 8, BAD_KEY);
}

static void out_of_bounds(void)
{
	causes_pair(IBV_QPT_RC, NULL);
	causes_reach(IBV_WR_RDMA_READ, (uintptr_t)p.mb - 16, 8, p.rb->ibv.rkey);
}

static void write_to_gone(int access, bool returns)
{
	struct mr *mr;

	causes_pair(IBV_QPT_RC, NULL);
	mr = causes_gone(p.b->pd, access, returns);
	causes_reach(IBV_WR_RDMA_WRITE, (uintptr_t)mr->ibv.addr, 8, mr->ibv.rkey);
}

static void memory_gone(void)
{
	write_to_gone(REMOTE, false);
}

static void memory_not_there(void)
{
	write_to_gone(REMOTE | IBV_ACCESS_ON_DEMAND, false);
}

static void key_raced(void)
{
	write_to_gone(REMOTE | IBV_ACCESS_ON_DEMAND, true);
}

/* Its memory is looked at when the answer is made. */
static void gone_under_a_read(void)
{
	struct mr *mr;

	causes_pair(IBV_QPT_RC, NULL);
	mr = causes_gone(p.b->pd, REMOTE, false);
	causes_reach(IBV_WR_RDMA_READ, (uintptr_t)mr->ibv.addr, 8, mr->ibv.rkey);
}

/* --- the memory of receives ---------------------------------------------------------- */

static void receive_and_send(void *memory, uint32_t length, uint32_t lkey)
{
	ck_assert_int_eq(world_post_recv(p.qb, memory, length, lkey, 5), 0);
	pair_post(&p, IBV_WR_SEND, 8, 7);
}

static void receive_key_unknown(void)
{
	causes_pair(IBV_QPT_RC, NULL);
	receive_and_send(p.mb, 8, BAD_KEY);
}

static void receive_key_stale(void)
{
	struct mr *mr;
	uint32_t lkey;

	causes_pair(IBV_QPT_RC, NULL);
	mr = causes_mr(p.b->pd, p.mb, 64, REMOTE);
	lkey = mr->ibv.lkey;
	ck_assert_int_eq(mr_reregister(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, p.mb, 128, 0), 0);
	receive_and_send(p.mb, 8, lkey);
}

static void receive_key_other_pd(void)
{
	causes_pair(IBV_QPT_RC, NULL);
	receive_and_send(p.mb, 8, causes_mr(causes_pd(p.b), p.mb, 64, REMOTE)->ibv.lkey);
}

static void receive_key_of_window(void)
{
	causes_pair(IBV_QPT_RC, NULL);
	receive_and_send(p.mb, 8, causes_mw(p.b->pd, IBV_MW_TYPE_2)->ibv.rkey);
}

static void receive_not_writable(void)
{
	causes_pair(IBV_QPT_RC, NULL);
	receive_and_send(p.mb, 8, causes_mr(p.b->pd, p.mb, 64, 0)->ibv.lkey);
}

static void receive_out_of_bounds(void)
{
	causes_pair(IBV_QPT_RC, NULL);
	receive_and_send(p.mb + PAIR_MEMORY + 4, 8, p.rb->ibv.lkey);
}

static void receive_to_gone(int access, bool returns)
{
	struct mr *mr;

	causes_pair(IBV_QPT_RC, NULL);
	mr = causes_gone(p.b->pd, access, returns);
	receive_and_send(mr->ibv.addr, 8, mr->ibv.lkey);
}

static void receive_memory_gone(void)
{
	receive_to_gone(REMOTE, false);
}

static void receive_memory_not_there(void)
{
	receive_to_gone(REMOTE | IBV_ACCESS_ON_DEMAND, false);
}

static void receive_key_raced(void)
{
	receive_to_gone(REMOTE, true);
}

static void receive_too_short(void)
{
	causes_pair(IBV_QPT_RC, NULL);
	receive_and_send(p.mb, 7, p.rb->ibv.lkey);
}

static void post_datagram(uint32_t qkey)
{
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1};
	struct pair_wr request;
	struct ah *ah;

	attr.grh.dgid = *world_gid(p.b, 1);
	ck_assert_int_eq(ah_create(p.a->pd, &attr, &ah), 0);
	pair_wr(&p, &request, IBV_WR_SEND, 8, 7);
	request.wr.wr.ud.ah = &ah->ibv;
	request.wr.wr.ud.remote_qpn = p.qb->number;
	request.wr.wr.ud.remote_qkey = qkey;
	ck_assert_int_eq(world_post_send(p.qa, &request.wr), 0);
	ah_destroy(ah);
}

static void receive_too_short_for_grh(void)
{
	causes_pair(IBV_QPT_UD, NULL);
	pair_receive(&p, 47, 5);
	post_datagram(0x11111111);
}

/* --- requests that are not valid ----------------------------------------------------- */

static void request_of(const struct connection *c, struct peer_packet packet)
{
	causes_peer(IBV_QPT_RC, c);
	causes_request(&packet);
}

static void opcode_sequence(void)
{
	request_of(NULL, (struct peer_packet){RC(WIRE_SEND_LAST), .length = 4});
}

static void opcode_sequence_of(uint8_t first, uint8_t second)
{
	const struct peer_packet begin = {RC(first), .length = 1024, .dma_length = 2048};
	const struct peer_packet wrong = {RC(second), .length = 4};

	causes_peer(IBV_QPT_RC, NULL);
	ck_assert_int_eq(world_post_recv(peer.qp, peer.memory, 2048, peer.mr->ibv.lkey, 5), 0);
	causes_request(&begin);
	causes_request(&wrong);
}

static void opcode_sequence_of_send(void)
{
	opcode_sequence_of(WIRE_SEND_FIRST, WIRE_WRITE_LAST);
}

static void opcode_sequence_of_write(void)
{
	opcode_sequence_of(WIRE_WRITE_FIRST, WIRE_SEND_LAST);
}

static void opcode_reserved(void)
{
	request_of(NULL, (struct peer_packet){.opcode = 0x15, .length = 8});
}

static void qp_access(void)
{
	struct connection c = world_connection;

	c.access = IBV_ACCESS_REMOTE_READ;
	causes_pair(IBV_QPT_RC, &c);
	write_to(p.rb->ibv.rkey);
}

static void no_atomics(void)
{
	causes_pair(IBV_QPT_RC, NULL);
	p.b->hca->limits.device.atomic_cap = IBV_ATOMIC_NONE;
	causes_reach(IBV_WR_ATOMIC_FETCH_AND_ADD, (uintptr_t)p.mb, 8, p.rb->ibv.rkey);
}

static void flush_type(void)
{
	request_of(NULL, (struct peer_packet){RC(WIRE_FLUSH), .feth = 4, .dma_length = 4});
}

static void flush_persistent(void)
{
	request_of(NULL, (struct peer_packet){RC(WIRE_FLUSH), .feth = 2, .dma_length = 4});
}

static void no_rd_resources(void)
{
	struct connection c = world_connection;

	c.rd_atomic = 0;
	request_of(&c, (struct peer_packet){RC(WIRE_READ_REQUEST), .dma_length = 4});
}

/* Together: none is answered before the next one comes. */
static void too_many_rd_atomic(void)
{
	struct peer_packet read = {RC(WIRE_READ_REQUEST), .dma_length = 4};
	struct connection c = world_connection;

	c.rd_atomic = 1;
	causes_peer(IBV_QPT_RC, &c);
	read.va = (uintptr_t)peer.memory;
	read.rkey = peer.mr->ibv.rkey;
	for (uint32_t i = 0; i < 2; i++) {
		read.psn = psn_add(peer.psn, i);
		peer_send(&peer, &read);
	}
}

static void path_mtu_differs(void)
{
	request_of(NULL, (struct peer_packet){RC(WIRE_WRITE_FIRST), .length = PEER_MTU / 2,
					      .dma_length = 2 * PEER_MTU});
}

static void payload_length(void)
{
	request_of(NULL, (struct peer_packet){RC(WIRE_READ_REQUEST), .length = 4, .dma_length = 4});
}

static void first_with_padding(void)
{
	request_of(NULL, (struct peer_packet){RC(WIRE_WRITE_FIRST), .length = PEER_MTU,
					      .padding = 1, .dma_length = 2 * PEER_MTU});
}

static void long_atomic_write(void)
{
	request_of(NULL, (struct peer_packet){RC(WIRE_ATOMIC_WRITE), .length = PEER_MTU + 8,
					      .dma_length = 8});
}

static void request_too_long(void)
{
	request_of(NULL, (struct peer_packet){RC(WIRE_READ_REQUEST), .dma_length = 0x80000001});
}

static void length_differs(void)
{
	request_of(NULL, (struct peer_packet){RC(WIRE_WRITE_ONLY), .length = 4, .dma_length = 8});
}

static void atomic_unaligned(void)
{
	causes_pair(IBV_QPT_RC, NULL);
	causes_reach(IBV_WR_ATOMIC_FETCH_AND_ADD, (uintptr_t)p.mb + 4, 8, p.rb->ibv.rkey);
}

static void atomic_memory_unaligned(void)
{
	struct mr *mr;

	causes_pair(IBV_QPT_RC, NULL);
	mr = causes_mr(p.b->pd, p.mb + 4, 64, REMOTE | IBV_ACCESS_ZERO_BASED);
	causes_reach(IBV_WR_ATOMIC_FETCH_AND_ADD, 8, 8, mr->ibv.rkey);
}

/* --- SENDs with invalidate ----------------------------------------------------------- */

static void send_invalidating(uint32_t rkey)
{
	struct pair_wr request;

	pair_receive(&p, 8, 5);
	pair_wr(&p, &request, IBV_WR_SEND_WITH_INV, 8, 7)->invalidate_rkey = rkey;
	ck_assert_int_eq(world_post_send(p.qa, &request.wr), 0);
}

static void invalidate_unknown(void)
{
	causes_pair(IBV_QPT_RC, NULL);
	send_invalidating(BAD_KEY);
}

static void invalidate_not_type_2(void)
{
	causes_pair(IBV_QPT_RC, NULL);
	send_invalidating(bound(p.qb, IBV_MW_TYPE_1)->key.value);
}

static void invalidate_stale(void)
{
	causes_pair(IBV_QPT_RC, NULL);
	send_invalidating(ibv_inc_rkey(bound(p.qb, IBV_MW_TYPE_2)->ibv.rkey));
}

static void invalidate_unbound(void)
{
	causes_pair(IBV_QPT_RC, NULL);
	send_invalidating(causes_mw(p.b->pd, IBV_MW_TYPE_2)->ibv.rkey);
}

static void invalidate_other_qp(void)
{
	causes_pair(IBV_QPT_RC, NULL);
	send_invalidating(bound_by_other()->ibv.rkey);
}

/* --- XRC ----------------------------------------------------------------------------- */

static void xrc_request(uint8_t operation, uint32_t srqn)
{
	const struct peer_packet packet = {.opcode = WIRE_XRC | operation,
					   .srqn = srqn,
					   .length = operation == WIRE_SEND_FIRST ? PEER_MTU : 4};

	causes_request(&packet);
}

static void xrc_no_srq(void)
{
	causes_peer(IBV_QPT_XRC_RECV, NULL);
	xrc_request(WIRE_SEND_ONLY, 0x123456);
}

/* A queue of another domain, for as long as the scenario needs it. */
static void xrc_name_other(uint8_t first, uint8_t second, bool same_domain)
{
	struct ibv_srq_attr attr = {.max_wr = 4, .max_sge = 1};
	struct xrcd *xrcd;
	struct srq *srq;

	causes_peer(IBV_QPT_XRC_RECV, NULL);
	peer_receive(&peer, 2000, 5);
	ck_assert_int_eq(xrcd_open(peer.node->hca, NULL, O_CREAT, &xrcd), 0);
	ck_assert_int_eq(srq_create_xrc(peer.node->pd, same_domain ? peer.xrcd : xrcd,
					peer.node->cq, &attr, &srq),
			 0);
	if (first)
		xrc_request(first - 1, 0);
	xrc_request(second, srq->number);
	ck_assert_int_eq(srq_destroy(srq), 0);
	ck_assert_int_eq(xrcd_close(xrcd), 0);
}

static void xrc_other_domain(void)
{
	xrc_name_other(0, WIRE_SEND_ONLY, false);
}

static void xrc_other_srq(void)
{
	xrc_name_other(WIRE_SEND_FIRST + 1, WIRE_SEND_LAST, true);
}

/* --- unreliable ---------------------------------------------------------------------- */

static void unreliable_dropped(void)
{
	causes_pair(IBV_QPT_UC, NULL);
	write_to(BAD_KEY);
}

static void datagram_qkey(void)
{
	causes_pair(IBV_QPT_UD, NULL);
	post_datagram(0x22222222);
}

static void unreliable_no_receive(void)
{
	causes_pair(IBV_QPT_UD, NULL);
	post_datagram(0x11111111);
}

/* -------------------------------------------------------------------------------------- */

#define A(status, name) .a = {IBV_WC_##status, CAUSE_##name}
#define B(status, name) .b = {IBV_WC_##status, CAUSE_##name}
#define INVALID A(REM_INV_REQ_ERR, NAK_INVALID_REQUEST)
#define ACCESS A(REM_ACCESS_ERR, NAK_REMOTE_ACCESS)
#define OPERATION A(REM_OP_ERR, NAK_REMOTE_OPERATION)
#define ROW(name, provoke, ...)                                                                    \
	{                                                                                          \
		CAUSE_##name, provoke, __VA_ARGS__                                                 \
	}
#define RECEIVE(name, provoke, found) ROW(name, provoke, found, OPERATION, B(LOC_PROT_ERR, name))

/* clang-format off */
static const struct cause_row rows[] = {
	ROW(RECEIVE_FLUSHED, receive_flushed, "1 receives", B(WR_FLUSH_ERR, RECEIVE_FLUSHED)),
	ROW(NO_RECEIVE, no_receive, "put off RC_SEND_ONLY, PSN 16777200"),
	ROW(NO_RECEIVE, no_receive, ": the receive queue is empty; put off"),
	ROW(NO_RECEIVE, no_receive_of_srq, ": the SRQ is empty; put off"),

	ROW(REMOTE_KEY_UNKNOWN, key_unknown, "8 bytes at 0x", ACCESS),
	ROW(REMOTE_KEY_UNKNOWN, key_unknown, "refused RC_RDMA_WRITE_ONLY, PSN 16777200, 8 bytes at 0x", ACCESS),
	ROW(REMOTE_KEY_UNKNOWN, atomic_key_unknown, "refused RC_FETCH_ADD, PSN 16777200, 8 bytes at 0x", ACCESS),
	ROW(REMOTE_KEY_STALE, key_stale, "now, of a region of 128 bytes at 0x", ACCESS),
	ROW(REMOTE_KEY_OTHER_PD, key_other_pd, ", of protection domain ", ACCESS),
	ROW(REMOTE_KEY_OF_NULL_REGION, key_of_null_region, "that is a null region", ACCESS),
	ROW(REMOTE_WINDOW_UNBOUND, window_unbound, "which is not bound", ACCESS),
	ROW(REMOTE_WINDOW_OTHER_QP, window_other_qp, "with REMOTE_WRITE, of QP 0x", ACCESS),
	ROW(REMOTE_NOT_ALLOWED, not_allowed, "with LOCAL_WRITE only: it lacks REMOTE_WRITE", ACCESS),
	ROW(REMOTE_OUT_OF_BOUNDS, out_of_bounds_of_window, ": that is a window of 8 bytes at 0x", ACCESS),
	ROW(REMOTE_OUT_OF_BOUNDS, out_of_bounds_of_window, "the access ends 1 bytes behind it", ACCESS),
	ROW(REMOTE_OUT_OF_BOUNDS, out_of_bounds, "the access begins 16 bytes before it", ACCESS),
	ROW(REMOTE_MEMORY_GONE, memory_gone, "; the memory at 0x", OPERATION),
	ROW(REMOTE_MEMORY_NOT_THERE, memory_not_there, "ON_DEMAND; the memory at 0x", ACCESS),
	ROW(REMOTE_KEY_RACED, key_raced, "a moment later", ACCESS),
	ROW(REMOTE_MEMORY_GONE, gone_under_a_read, "while a READ of 8 bytes at 0x", OPERATION),

	RECEIVE(RECEIVE_KEY_UNKNOWN, receive_key_unknown, "payload of 8 bytes, receive wr_id 5 of 8 bytes\n"),
	RECEIVE(RECEIVE_KEY_STALE, receive_key_stale, "now, of a region of 128 bytes"),
	RECEIVE(RECEIVE_KEY_OTHER_PD, receive_key_other_pd, ", of protection domain "),
	RECEIVE(RECEIVE_KEY_OF_WINDOW, receive_key_of_window, "that is a memory window"),
	RECEIVE(RECEIVE_NOT_WRITABLE, receive_not_writable, "with no access flags only: it lacks LOCAL_WRITE"),
	RECEIVE(RECEIVE_OUT_OF_BOUNDS, receive_out_of_bounds, "begins 4 bytes behind its end"),
	RECEIVE(RECEIVE_MEMORY_GONE, receive_memory_gone, "; the memory at 0x"),
	RECEIVE(RECEIVE_MEMORY_NOT_THERE, receive_memory_not_there, "ON_DEMAND; the memory at 0x"),
	RECEIVE(RECEIVE_KEY_RACED, receive_key_raced, "a moment later"),
	ROW(RECEIVE_TOO_SHORT, receive_too_short, "the receive has 7 bytes, the message at least 8", INVALID, B(LOC_LEN_ERR, RECEIVE_TOO_SHORT)),
	ROW(RECEIVE_TOO_SHORT_FOR_GRH, receive_too_short_for_grh, "the receive has 47 bytes, the message 8 and 40 of GRH", B(LOC_LEN_ERR, RECEIVE_TOO_SHORT_FOR_GRH)),

	ROW(OPCODE_SEQUENCE, opcode_sequence, "no message is in progress\n    refused RC_SEND_LAST, PSN 16777200, payload of 4 bytes\n"),
	ROW(OPCODE_RESERVED, opcode_reserved, "opcode 0x15"),
	ROW(OPCODE_SEQUENCE, opcode_sequence_of_send, "a SEND is in progress, of which 1024 bytes have come"),
	ROW(OPCODE_SEQUENCE, opcode_sequence_of_write, "a WRITE is in progress, of which 1024 bytes have come"),
	ROW(QP_ACCESS, no_atomics, "the device has no atomics (atomic_cap)", INVALID),
	ROW(QP_ACCESS, qp_access, "it needs REMOTE_WRITE; qp_access_flags has REMOTE_READ", INVALID),
	ROW(FLUSH_TYPE, flush_type, "placement type 0x4, selectivity 0"),
	ROW(FLUSH_PERSISTENT, flush_persistent, "it needs FLUSH_PERSISTENT"),
	ROW(NO_RD_RESOURCES, no_rd_resources, "max_dest_rd_atomic is 0"),
	ROW(TOO_MANY_RD_ATOMIC, too_many_rd_atomic, "max_dest_rd_atomic is 1"),
	ROW(PATH_MTU_DIFFERS, path_mtu_differs, "a payload of 512 bytes and 0 of padding; the path MTU here is 1024"),
	ROW(PAYLOAD_LENGTH, payload_length, "a payload of 4 bytes"),
	ROW(PAYLOAD_LENGTH, first_with_padding, "a payload of 1024 bytes and 1 of padding; the path MTU here is 1024"),
	ROW(PAYLOAD_LENGTH, long_atomic_write, "a payload of 1032 bytes and 0 of padding"),
	ROW(REQUEST_TOO_LONG, request_too_long, "2147483649 bytes"),
	ROW(LENGTH_DIFFERS, length_differs, "its RETH says 8 bytes, and there are 4 with this packet"),
	ROW(ATOMIC_UNALIGNED, atomic_unaligned, "is 4 bytes beyond one", INVALID),
	ROW(ATOMIC_MEMORY_UNALIGNED, atomic_memory_unaligned, "has at 0x8", INVALID),

	ROW(REMOTE_INVALIDATE_UNKNOWN, invalidate_unknown, "invalidating rkey 0xdead0001", ACCESS, B(LOC_ACCESS_ERR, REMOTE_INVALIDATE_UNKNOWN)),
	ROW(REMOTE_INVALIDATE_NOT_TYPE_2, invalidate_not_type_2, "of a window of type 1", ACCESS, B(LOC_ACCESS_ERR, REMOTE_INVALIDATE_NOT_TYPE_2)),
	ROW(REMOTE_INVALIDATE_STALE, invalidate_stale, "its number has the key 0x", ACCESS, B(LOC_ACCESS_ERR, REMOTE_INVALIDATE_STALE)),
	ROW(REMOTE_INVALIDATE_UNBOUND, invalidate_unbound, "that is not bound", ACCESS, B(LOC_ACCESS_ERR, REMOTE_INVALIDATE_UNBOUND)),
	ROW(REMOTE_INVALIDATE_OTHER_QP, invalidate_other_qp, "has bound", ACCESS, B(LOC_ACCESS_ERR, REMOTE_INVALIDATE_OTHER_QP)),

	ROW(XRC_NO_SRQ, xrc_no_srq, "no XRC SRQ has the number 0x123456"),
	ROW(XRC_NO_SRQ, xrc_no_srq, ", for SRQ 0x123456\n"),
	ROW(XRC_OTHER_DOMAIN, xrc_other_domain, "is of another domain than the QP"),
	ROW(XRC_OTHER_SRQ, xrc_other_srq, "the message in progress is for SRQ 0x", A(REM_INV_REQ_ERR, XRC_OTHER_SRQ)),

	ROW(UNRELIABLE_DROPPED, unreliable_dropped, ": nothing has that key (0x2101 the R_Key names no memory region or window)"),
	ROW(DATAGRAM_QKEY, datagram_qkey, "its Q_Key is 0x22222222, the queue pair's 0x11111111"),
	ROW(UNRELIABLE_NO_RECEIVE, unreliable_no_receive, "the receive queue is empty"),
};
/* clang-format on */

static const enum cause elsewhere[] = {CAUSE_XRC_DATA_ELSEWHERE, /* test_xrc_shared */
				       CAUSE_XRC_REFUSED_ELSEWHERE, CAUSE_NONE};

static const struct cause_table table = {
	.name = "causes_receive",
	.first = 0x2000,
	.last = 0x26ff,
	.rows = rows,
	.count = sizeof(rows) / sizeof(rows[0]),
	.elsewhere = elsewhere,
};

int main(void)
{
	return causes_main(&table);
}
