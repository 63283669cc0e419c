/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What goes to the send queue of a stream: data, messages of their own and riowrite()'s data; and
 * how much of it there is room for. All with rs->lock.
 */
#include <errno.h>

#include "net/minmax.h"
#include "verbs/rsocket/rsocket.h"

#define CONTROL_MOST 4 /* entries of the send queue, for messages without data */

bool rsocket_post_has_entry(const struct rsocket *rs)
{
	return rs->out.data_under_way + CONTROL_MOST + 1 < rs->options.sq_size; /* one may be two */
}

/* What is free of the send buffer in one piece. */
static uint32_t contiguous(const struct rsocket_out *out)
{
	return min_u32(out->size - out->offset, out->free);
}

uint32_t rsocket_post_room(const struct rsocket *rs)
{
	const struct rsocket_out *out = &rs->out;

	if (out->sequence == out->limit || !rsocket_post_has_entry(rs))
		return 0;
	return min_u32(out->target[out->next_target].length, contiguous(out));
}

uint32_t rsocket_post_direct_room(const struct rsocket *rs)
{
	const struct rsocket_out *out = &rs->out;

	return out->data_under_way + CONTROL_MOST < rs->options.sq_size ? contiguous(out) : 0;
}

/* POLLOUT, and what a blocking call waits for: not for each byte that becomes free. */
bool rsocket_can_send(const struct rsocket *rs)
{
	const struct rsocket_out *out = &rs->out;
	uint32_t room = rsocket_post_room(rs);

	/* Messages of mappings go before data. */
	if (rs->iomap_pending && out->control_under_way == CONTROL_MOST)
		return false;
	return room && (room < out->free || room >= out->size / 64 || out->free == out->size);
}

static int post_write(struct rsocket *rs, struct ibv_send_wr *wr, const void *data, uint32_t length)
{
	struct ibv_sge sge = {.addr = data ? (uintptr_t)data
					   : (uintptr_t)rs->out.buffer + rs->out.offset,
			      .length = length,
			      .lkey = rs->out.mr->lkey};
	struct ibv_send_wr *bad;

	wr->sg_list = &sge;
	wr->num_sge = length ? 1 : 0;
	wr->send_flags |= data && length ? IBV_SEND_INLINE : 0;
	return ibv_post_send(rs->id->qp, wr, &bad);
}

/* What was posted occupies the send buffer until it completes, inline or not: so it is one ring. */
static void occupy(struct rsocket_out *out, uint32_t length)
{
	out->free -= length;
	out->offset += length;
	if (out->offset == out->size)
		out->offset = 0;
	out->data_under_way++;
}

/*
 * Whether the immediate data makes the last packet of a long message longer than those before it.
 * Linux takes a row of packets for one datagram (GSO) while none is longer: alone, such a packet
 * costs as much as all of them, while immediate data without data goes with them as the shortest.
 */
static bool last_packet_exceeds(const struct rsocket *rs, uint32_t length)
{
	const uint32_t mtu = rs->out.mtu;

	return mtu && length > 2 * mtu && (length - 1) % mtu >= mtu - sizeof(__be32);
}

int rsocket_post_data(struct rsocket *rs, const void *data, uint32_t length)
{
	struct rsocket_out *out = &rs->out;
	struct rsocket_place *target = &out->target[out->next_target];
	struct ibv_send_wr message = {
		.wr_id = length,
		.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
		.send_flags = IBV_SEND_SIGNALED,
		.imm_data = rsocket_message(RSOCKET_DATA, length),
		.wr.rdma = {.remote_addr = target->addr, .rkey = target->key},
	};
	struct ibv_send_wr write = {
		.wr_id = RSOCKET_WR_FIRST_OF_TWO,
		.next = &message,
		.opcode = IBV_WR_RDMA_WRITE,
		.wr.rdma = message.wr.rdma,
	};
	bool two = last_packet_exceeds(rs, length);
	int error;

	if (two)
		message.wr_id |= RSOCKET_WR_SECOND_OF_TWO;
	error = post_write(rs, two ? &write : &message, data, length);
	if (error)
		return error;
	occupy(out, length);
	out->data_under_way += two;
	out->sequence++;
	target->addr += length;
	target->length -= length;
	if (!target->length)
		out->next_target = (out->next_target + 1) % RSOCKET_TARGETS;
	return 0;
}

int rsocket_post_direct(struct rsocket *rs, uint32_t length, uint64_t remote, uint32_t key)
{
	struct ibv_send_wr wr = {
		.wr_id = length,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = {.remote_addr = remote, .rkey = key},
	};
	int error = post_write(rs, &wr, NULL, length);

	if (!error)
		occupy(&rs->out, length);
	return error;
}

int rsocket_post_message(struct rsocket *rs, __be32 message, uint64_t remote, const void *data,
			 uint32_t length)
{
	struct ibv_send_wr wr = {
		.wr_id = RSOCKET_WR_CONTROL,
		.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
		.send_flags = IBV_SEND_SIGNALED,
		.imm_data = message,
		.wr.rdma = {.remote_addr = remote, .rkey = length ? rs->in.peer_key : 0},
	};
	int error;

	if (rs->out.control_under_way == CONTROL_MOST)
		return EAGAIN;
	error = post_write(rs, &wr, data, length);
	if (!error)
		rs->out.control_under_way++;
	return error;
}
