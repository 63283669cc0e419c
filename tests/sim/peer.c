/* SPDX-License-Identifier: BSD-2-Clause */
#include "peer.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <stdlib.h>

#include "net/newer_verbs.h"
#include "net/wire/icrc.h"

void peer_connect(struct peer *peer, const struct connection *c)
{
	world_modify_init(peer->qp, c);
	world_modify_rtr_to(peer->qp, &peer->path.source, PEER_QPN, c);
	world_modify_rts(peer->qp, c);
}

void peer_create_srq(struct peer *peer, enum ibv_qp_type type, const struct connection *c,
		     uint32_t entries)
{
	struct qp_options options = {
		.type = type,
		.cap = {.max_send_wr = 128,
			.max_recv_wr = 64,
			.max_send_sge = 4,
			.max_recv_sge = 4},
	};
	struct ibv_srq_attr attr = {.max_wr = entries, .max_sge = 4};
	struct in_addr address = {.s_addr = htonl(0x0a00ff01)};
	union ibv_gid gid;

	*peer = (struct peer){.psn = c->psn};
	world_create(&peer->world, 1, NULL, 1);
	peer->node = &peer->world.nodes[0];
	if (type == IBV_QPT_XRC_RECV) {
		ck_assert_int_eq(xrcd_open(peer->node->hca, NULL, O_CREAT, &peer->xrcd), 0);
		options.xrcd = peer->xrcd;
		ck_assert_int_eq(srq_create_xrc(peer->node->pd, peer->xrcd, peer->node->cq, &attr,
						&peer->srq),
				 0);
	} else if (entries) {
		ck_assert_int_eq(srq_create(peer->node->pd, &attr, &peer->srq), 0);
		options.srq = peer->srq;
	}
	peer->qp = world_qp(peer->node, &options);
	peer->memory = calloc(1, PEER_MEMORY);
	peer->mr = world_mr(peer->node, peer->memory, PEER_MEMORY, world_connection.access);
	peer->link = sim_link_create(peer->world.sim);
	gid_from_ipv4(&gid, &address);
	ck_assert_int_eq(peer->link->ops->add_address(peer->link, &gid, 0), 0);
	peer->path = (struct path){
		.source = gid, .destination = peer->node->gids.entries[0].gid, .hop_limit = 64};
	peer_connect(peer, c);
}

void peer_create(struct peer *peer, enum ibv_qp_type type, const struct connection *c)
{
	peer_create_srq(peer, type, c ? c : &world_connection, 0);
}

void peer_destroy(struct peer *peer)
{
	ck_assert_int_eq(qp_destroy(peer->qp), 0);
	if (peer->srq)
		ck_assert_int_eq(srq_destroy(peer->srq), 0);
	if (peer->xrcd)
		ck_assert_int_eq(xrcd_close(peer->xrcd), 0);
	ck_assert_int_eq(mr_deregister(peer->mr), 0);
	peer->link->ops->close(peer->link);
	world_destroy(&peer->world);
	free(peer->memory);
}

static void put_headers(uint8_t *headers, const struct opcode *op, const struct peer_packet *p)
{
	if (op->xrceth)
		*(struct xrceth *)(headers + op->xrceth) = (struct xrceth){.srq = htobe32(p->srqn)};
	if (op->deth)
		*(struct deth *)(headers + op->deth) =
			(struct deth){.qkey = htobe32(p->qkey), .source_qp = htobe32(p->source_qp)};
	if (op->feth)
		((struct feth *)(headers + op->feth))->selectivity_placement = htobe32(p->feth);
	if (op->reth)
		*(struct reth *)(headers + op->reth) =
			(struct reth){.va = htobe64(p->va),
				      .rkey = htobe32(p->rkey),
				      .length = htobe32(p->dma_length)};
	if (op->atomiceth)
		*(struct atomiceth *)(headers + op->atomiceth) =
			(struct atomiceth){.va = htobe64(p->va),
					   .rkey = htobe32(p->rkey),
					   .swap_or_add = htobe64(p->swap_or_add),
					   .compare = htobe64(p->compare)};
	if (op->immdt)
		((struct immdt *)(headers + op->immdt))->data = htobe32(p->immediate);
	if (op->ieth)
		((struct ieth *)(headers + op->ieth))->rkey = htobe32(p->invalidate);
	if (op->aeth)
		((struct aeth *)(headers + op->aeth))->syndrome_msn =
			htobe32((uint32_t)p->syndrome << 24 | p->msn);
	if (op->atomicacketh)
		((struct atomicacketh *)(headers + op->atomicacketh))->original =
			htobe64(p->original);
}

void peer_send(struct peer *peer, const struct peer_packet *p)
{
	const struct opcode *op = opcode_find(p->opcode);
	struct peer_packet named = *p;
	uint32_t pad = (p->unpadded ? 0 : pad_length(p->length)) + p->padding;
	uint8_t data[2 * WIRE_PATH_MTU_MAX];
	struct iovec iov = {.iov_base = data, .iov_len = p->length};
	struct link_packet packet = {
		.path = p->path ? p->path : &peer->path,
		.payload = &iov,
		.payload_length = p->length,
		.payload_count = 1,
		.headers_length = op ? op->headers_length : sizeof(struct bth),
		.trailer_length = pad + ICRC_LENGTH,
		.corrupt_bit = p->bad_icrc ? 1 + 8 * 8 : 0,
	};
	struct bth *bth = (struct bth *)packet.headers;

	if (!p->srqn && peer->srq)
		named.srqn = peer->srq->number;
	*bth = (struct bth){
		.opcode = p->opcode,
		.flags = (p->solicited ? BTH_SOLICITED : 0) | (p->migrated ? BTH_MIGREQ : 0) |
			 pad << BTH_PAD_SHIFT | p->version,
		.pkey = htobe16(p->pkey ? p->pkey : PKEY_DEFAULT),
		.dest_qp = htobe32(p->qpn ? p->qpn : peer->qp->number),
		.psn = htobe32(p->psn | (p->no_ack_request ? 0 : BTH_ACK_REQUEST)),
	};
	if (op)
		put_headers(packet.headers, op, &named);
	for (uint32_t i = 0; i < p->length; i++)
		data[i] = p->payload ? ((const uint8_t *)p->payload)[i] : i;
	peer->link->ops->send(peer->link, &packet, 1, world_now(&peer->world));
}

bool peer_wait(struct peer *peer, struct packet *packet, uint64_t limit)
{
	uint64_t end = world_now(&peer->world) + limit;
	struct link_frame frame;
	uint64_t before;

	while (!peer->link->ops->receive(peer->link, &frame, 1, world_now(&peer->world))) {
		if (world_now(&peer->world) >= end)
			return false;
		before = world_now(&peer->world);
		world_run(&peer->world, limit / 100);
		sim_advance(peer->world.sim, before + limit / 100);
	}
	ck_assert(icrc_check(&frame));
	ck_assert_uint_le(frame.length, sizeof(peer->bytes));
	memcpy(peer->bytes, frame.data, frame.length);
	peer->traffic_class = frame.traffic_class;
	peer->from = frame.source;
	peer->to = frame.destination;
	ck_assert_int_eq(packet_parse(packet, peer->bytes, frame.length), 0);
	ck_assert(packet->dest_qp == PEER_QPN || packet->dest_qp == QPN_GSI);
	return true;
}

struct packet peer_see(struct peer *peer)
{
	struct packet packet;

	ck_assert_msg(peer_wait(peer, &packet, 10000), "the QP sent nothing");
	return packet;
}

void peer_see_none(struct peer *peer, uint64_t limit)
{
	struct packet packet;

	if (peer_wait(peer, &packet, limit))
		ck_abort_msg("the QP sent %s with PSN %x", packet.op->name, packet.psn);
}

struct packet peer_see_op(struct peer *peer, const char *name)
{
	struct packet packet = peer_see(peer);

	ck_assert_str_eq(packet.op->name, name);
	return packet;
}

void peer_see_ack(struct peer *peer, uint32_t psn, uint8_t syndrome)
{
	struct packet packet = peer_see(peer);

	ck_assert_uint_eq(packet.opcode, peer->qp->type->transport | WIRE_ACKNOWLEDGE);
	ck_assert_uint_eq(packet_syndrome(&packet), syndrome);
	ck_assert_uint_eq(packet.psn, psn & PSN_MASK);
}

void peer_post(struct peer *peer, enum ibv_wr_opcode opcode, uint32_t length, uint64_t id)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)peer->memory, .length = length, .lkey = peer->mr->ibv.lkey};
	struct ibv_send_wr wr = {
		.wr_id = id,
		.opcode = opcode,
		.sg_list = &sge,
		.num_sge = length ? 1 : 0,
		.send_flags = IBV_SEND_SIGNALED,
	};

	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
		wr.wr.atomic.remote_addr = 0x1000;
		wr.wr.atomic.rkey = 0x42;
	} else {
		wr.wr.rdma.remote_addr = 0x1000;
		wr.wr.rdma.rkey = 0x42;
	}
	ck_assert_int_eq(world_post_send(peer->qp, &wr), 0);
}

void peer_flush(struct peer *peer, uint8_t selectivity, uint32_t length, uint64_t id)
{
	struct flush_wr flush = {
		.wr = {.wr_id = id,
		       .opcode = WR_FLUSH,
		       .send_flags = IBV_SEND_SIGNALED,
		       .wr.rdma = {.remote_addr = 0x1000, .rkey = 0x42}},
		.flush = {.length = length, .placement = FLUSH_GLOBAL, .selectivity = selectivity},
	};

	ck_assert_int_eq(world_post_flush(peer->qp, &flush), 0);
}

void peer_receive(struct peer *peer, uint32_t length, uint64_t id)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)peer->memory, .length = length, .lkey = peer->mr->ibv.lkey};
	struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = length ? 1 : 0}, *bad;
	const struct ibv_recv_wr *srq_bad;

	if (peer->srq)
		ck_assert_int_eq(srq_post(peer->srq, &wr, &srq_bad), 0);
	else
		ck_assert_int_eq(qp_post_recv(peer->qp, &wr, &bad), 0);
}

/* --- the peer of a requester ------------------------------------------------------------ */

void peer_respond(struct peer *peer, uint8_t operation, uint32_t psn, uint8_t syndrome,
		  uint32_t length)
{
	struct peer_packet p = {.opcode = WIRE_RC | operation,
				.psn = psn & PSN_MASK,
				.no_ack_request = true,
				.syndrome = syndrome,
				.length = length};

	peer_send(peer, &p);
}

void peer_acknowledge(struct peer *peer, uint32_t psn, uint8_t syndrome)
{
	peer_respond(peer, WIRE_ACKNOWLEDGE, psn, syndrome, 0);
}

void peer_see_requests(struct peer *peer, uint32_t psn, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		ck_assert_uint_eq(peer_see(peer).psn, (psn + i) & PSN_MASK);
}

void peer_expect_failure(struct peer *peer, uint64_t first, uint64_t count,
			 enum ibv_wc_status status)
{
	world_expect(peer->node, first, status);
	for (uint64_t i = first + 1; i < count; i++)
		world_expect(peer->node, i, IBV_WC_WR_FLUSH_ERR);
	for (uint64_t i = 100; i < 103; i++)
		world_expect(peer->node, i, IBV_WC_WR_FLUSH_ERR);
	ck_assert_int_eq(peer->qp->state, IBV_QPS_ERR);
	/* IBA 10.3.1.7: what is posted now is flushed too. */
	peer_post(peer, IBV_WR_SEND, 8, 50);
	world_expect(peer->node, 50, IBV_WC_WR_FLUSH_ERR);
	peer_receive(peer, 8, 51);
	world_expect(peer->node, 51, IBV_WC_WR_FLUSH_ERR);
	world_expect_none(peer->node, SECOND);
}

void peer_create_requester(struct peer *peer, const struct connection *c)
{
	peer_create(peer, IBV_QPT_RC, c);
	for (uint64_t i = 100; i < 103; i++)
		peer_receive(peer, 100, i);
}
