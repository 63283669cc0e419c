/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The protocol of a connected stream (verbs/rsocket/rsocket_wire.h): how bytes get from our send
 * buffer into the peer's receive buffer, and what of ours the peer may write to. All with rs->lock.
 *
 * Each data message takes a credit, so that it finds a receive: the peer counts those that its
 * application has read. Messages without data take none: a few receives more would be enough for
 * them, and RNR retries have no end. But only a few are under way at a time (rsocket_post.c).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "net/cause/cause.h"
#include "net/minmax.h"
#include "net/wire/wire.h"
#include "verbs/rsocket/rsocket.h"

/* Receives that were taken are posted again in batches: so there are as many more than credits. */
#define RECEIVES_AT_ONCE 16

/* 0 or an errno. */
static int make_buffer(struct rsocket *rs, struct ibv_mr **mr, void **buffer, size_t size,
		       int access)
{
	*buffer = calloc(1, size);
	if (!*buffer)
		return refuse(ENOMEM, CAUSE_OUT_OF_MEMORY, "for %zu bytes of an rsocket", size);
	*mr = ibv_reg_mr(rs->id->pd, *buffer, size, access);
	return *mr ? 0 : errno;
}

static void free_buffer(struct ibv_mr *mr, void *buffer)
{
	if (mr)
		ibv_dereg_mr(mr);
	free(buffer);
}

static int make_buffers(struct rsocket *rs)
{
	const int remote = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
	const struct rsocket_options *options = &rs->options;
	size_t targets = RSOCKET_TARGETS * sizeof(*rs->targets.list) +
			 options->iomap_size * sizeof(*rs->targets.mappings);
	int error;

	rs->in.size = options->receive_buffer;
	rs->out.size = rs->out.free = options->send_buffer;
	error = make_buffer(rs, &rs->in.mr, (void **)&rs->in.buffer, rs->in.size, remote);
	if (!error)
		error = make_buffer(rs, &rs->out.mr, (void **)&rs->out.buffer, rs->out.size,
				    IBV_ACCESS_LOCAL_WRITE);
	if (!error)
		error = make_buffer(rs, &rs->targets.mr, (void **)&rs->targets.list, targets,
				    remote);
	if (error)
		return error;
	rs->targets.mappings = (void *)(rs->targets.list + RSOCKET_TARGETS);
	rs->targets.known = calloc(options->iomap_size + 1, sizeof(*rs->targets.known));
	rs->in.lengths = calloc(options->rq_size + 1, sizeof(*rs->in.lengths));
	if (rs->targets.known && rs->in.lengths)
		return 0;
	return refuse(ENOMEM, CAUSE_OUT_OF_MEMORY, "for an rsocket");
}

/* Post @count receives at once. */
static int post_receives(struct rsocket *rs, uint32_t count)
{
	struct ibv_recv_wr wrs[RECEIVES_AT_ONCE], *bad;

	for (uint32_t i = 0; i < count; i++)
		wrs[i] = (struct ibv_recv_wr){.wr_id = RSOCKET_WR_RECEIVE, .next = &wrs[i + 1]};
	wrs[count - 1].next = NULL;
	return ibv_post_recv(rs->id->qp, wrs, &bad);
}

/* Queues are no longer than the device has them. */
static void fit_device(struct ibv_context *verbs, struct rsocket_options *options)
{
	struct ibv_device_attr device;
	uint32_t most;

	if (ibv_query_device(verbs, &device) != 0)
		return;
	/* One completion queue is for both. */
	most = min_u32(device.max_qp_wr, device.max_cqe / 2) - RECEIVES_AT_ONCE;
	options->sq_size = min_u32(options->sq_size, most);
	options->rq_size = min_u32(options->rq_size, most);
}

static int make_queues(struct rsocket *rs)
{
	struct rsocket_options *options = &rs->options;
	struct ibv_qp_init_attr attr = {
		.qp_context = rs,
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = options->sq_size,
			.max_recv_wr = options->rq_size + RECEIVES_AT_ONCE,
			.max_send_sge = 2,
			.max_recv_sge = 1,
			.max_inline_data = options->inline_size > sizeof(struct rsocket_mapping)
						   ? options->inline_size
						   : sizeof(struct rsocket_mapping)},
	};

	rs->completions = ibv_create_comp_channel(rs->id->verbs);
	if (!rs->completions)
		return errno;
	rs->cq =
		ibv_create_cq(rs->id->verbs, options->sq_size + options->rq_size + RECEIVES_AT_ONCE,
			      rs, rs->completions, 0);
	if (!rs->cq)
		return errno;
	attr.send_cq = attr.recv_cq = rs->cq;
	if (rdma_create_qp(rs->id, NULL, &attr) != 0)
		return errno;
	options->inline_size = attr.cap.max_inline_data;
	return fcntl(rs->completions->fd, F_SETFL, O_NONBLOCK) < 0 ? errno : 0;
}

int rsocket_stream_create(struct rsocket *rs)
{
	int error;

	fit_device(rs->id->verbs, &rs->options);
	/* With a queue as short as that of some devices no message could ever be sent. */
	if (!rsocket_post_has_entry(rs))
		return EINVAL;
	error = make_queues(rs);
	if (!error)
		error = make_buffers(rs);
	for (uint32_t left = rs->options.rq_size + RECEIVES_AT_ONCE, part; !error && left;
	     left -= part) {
		part = min_u32(left, RECEIVES_AT_ONCE);
		error = post_receives(rs, part);
	}
	return error;
}

void rsocket_stream_destroy(struct rsocket *rs)
{
	if (rs->id && rs->id->qp)
		rdma_destroy_qp(rs->id);
	rsocket_iomap_destroy(rs);
	free_buffer(rs->in.mr, rs->in.buffer);
	free_buffer(rs->out.mr, rs->out.buffer);
	free_buffer(rs->targets.mr, rs->targets.list);
	free(rs->targets.known);
	free(rs->in.lengths);
	rs->in = (struct rsocket_in){};
	rs->out = (struct rsocket_out){};
	rs->targets = (struct rsocket_targets){};
	if (rs->cq)
		ibv_destroy_cq(rs->cq);
	rs->cq = NULL;
	if (rs->completions)
		ibv_destroy_comp_channel(rs->completions);
	rs->completions = NULL;
}

/* --- hello ----------------------------------------------------------------------------------- */

static bool is_big_endian(void)
{
	return __BYTE_ORDER == __BIG_ENDIAN;
}

static struct rsocket_place place_to_network(const void *memory, uint32_t key, uint32_t length)
{
	return (struct rsocket_place){
		.addr = htobe64((uintptr_t)memory), .key = htobe32(key), .length = htobe32(length)};
}

/* The ring is granted in halves; the hello grants the first one. */
static uint32_t grant_size(const struct rsocket *rs)
{
	return rs->in.size / 2;
}

void rsocket_stream_hello(const struct rsocket *rs, struct rsocket_hello *hello)
{
	*hello = (struct rsocket_hello){
		.version = RSOCKET_VERSION,
		.flags = RSOCKET_IOMAP | (is_big_endian() ? RSOCKET_BIG_ENDIAN : 0),
		.credits = htobe16(rs->options.rq_size),
		.iomap_size = rsocket_iomap_scale(rs->options.iomap_size),
		.target = place_to_network(rs->targets.list, rs->targets.mr->rkey, RSOCKET_TARGETS),
		.buffer = place_to_network(rs->in.buffer, rs->in.mr->rkey, grant_size(rs)),
	};
}

int rsocket_stream_greet(struct rsocket *rs, const void *data, size_t length)
{
	struct rsocket_hello hello;

	if (length < sizeof(hello))
		return EPROTO;
	memcpy(&hello, data, sizeof(hello));
	if (hello.version != RSOCKET_VERSION || be32toh(hello.target.length) == 0)
		return EPROTO;
	rs->swapped = !!(hello.flags & RSOCKET_BIG_ENDIAN) != is_big_endian();
	rs->out.limit = be16toh(hello.credits);
	rs->out.target[0] = (struct rsocket_place){.addr = be64toh(hello.buffer.addr),
						   .key = be32toh(hello.buffer.key),
						   .length = be32toh(hello.buffer.length)};
	rs->out.next_granted = 1;
	rs->in.peer_target = be64toh(hello.target.addr);
	rs->in.peer_key = be32toh(hello.target.key);
	rs->in.peer_entries = be32toh(hello.target.length);
	rs->peer_mappings =
		hello.flags & RSOCKET_IOMAP ? rsocket_iomap_entries(hello.iomap_size) : 0;
	return 0;
}

/* --- granting -------------------------------------------------------------------------------- */

static struct rsocket_place place_for_peer(const struct rsocket *rs, const void *memory,
					   uint32_t key, uint32_t length)
{
	const struct rsocket_place place = {
		.addr = (uintptr_t)memory, .key = key, .length = length};

	return rs->swapped ? rsocket_place_swap(&place) : place;
}

/* Half of the ring that was read through: the peer has filled its entry, and may get it anew. */
static int grant(struct rsocket *rs)
{
	struct rsocket_in *in = &rs->in;
	uint16_t limit = in->sequence + rs->options.rq_size;
	__be32 message = rsocket_message(RSOCKET_CREDIT, limit);
	struct rsocket_place place;
	uint32_t offset;
	int error;

	if (in->free < grant_size(rs)) {
		error = rsocket_post_message(rs, message, 0, NULL, 0);
	} else {
		/* What is free begins behind what has been granted: the whole ring but @free. */
		offset = (in->offset + in->size - in->free) % in->size;
		place = place_for_peer(rs, in->buffer + offset, in->mr->rkey, grant_size(rs));
		error = rsocket_post_message(rs, message,
					     in->peer_target + in->next_grant * sizeof(place),
					     &place, sizeof(place));
		if (!error) {
			in->free -= grant_size(rs);
			in->next_grant = (in->next_grant + 1) % in->peer_entries;
		}
	}
	if (!error)
		in->grant_at = in->sequence + rs->options.rq_size / 2;
	return error;
}

/* What can't be granted now, since the send queue is full, is granted when something completes. */
static void grant_due(struct rsocket *rs)
{
	struct rsocket_in *in = &rs->in;

	if (rs->state != RSOCKET_CONNECTED || !rs->receives)
		return;
	while (in->free >= grant_size(rs) || (int16_t)(in->sequence - in->grant_at) >= 0) {
		if (grant(rs) != 0)
			return;
	}
}

/* 0: it isn't known. */
static uint32_t path_mtu(const struct rsocket *rs)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	if (ibv_query_qp(rs->id->qp, &attr, IBV_QP_PATH_MTU, &init) != 0)
		return 0;
	return mtu_bytes(attr.path_mtu);
}

void rsocket_stream_begin(struct rsocket *rs)
{
	rs->out.mtu = path_mtu(rs);
	rs->in.free = rs->in.size - grant_size(rs);
	rs->in.next_grant = 1 % rs->in.peer_entries;
	rs->in.grant_at = rs->options.rq_size / 2;
	rs->sends = rs->receives = true;
	rs->state = RSOCKET_CONNECTED;
	grant_due(rs);
}

void rsocket_stream_consume(struct rsocket *rs, uint32_t length)
{
	struct rsocket_in *in = &rs->in;

	in->available -= length;
	in->free += length;
	in->offset = (in->offset + length) % in->size;
	while (length) {
		uint32_t part = min_u32(in->lengths[in->first], length);

		in->lengths[in->first] -= part;
		length -= part;
		if (in->lengths[in->first])
			break;
		in->first = (in->first + 1) % (rs->options.rq_size + 1);
		in->sequence++;
	}
	grant_due(rs);
}

/* --- completions ----------------------------------------------------------------------------- */

static void disconnected(struct rsocket *rs, int error)
{
	if (rs->state != RSOCKET_CONNECTED && rs->state != RSOCKET_ACCEPTING)
		return;
	rs->state = RSOCKET_DISCONNECTED;
	rs->sends = rs->receives = false;
	if (error && !rs->error)
		rs->error = error;
}

static void end_in_order(struct rsocket *rs)
{
	rs->ended = true;
	disconnected(rs, 0);
}

/*
 * The peer has more receives and, if it has written some bytes, a new entry in our list. It writes
 * them in turn; of the others it may be writing one at this moment.
 */
static void take_credits(struct rsocket *rs, uint32_t limit, uint32_t written)
{
	struct rsocket_out *out = &rs->out;
	struct rsocket_place *target = &out->target[out->next_granted];

	out->limit = limit;
	if (!written)
		return;
	if (target->length || !rs->targets.list[out->next_granted].length) {
		disconnected(rs, EPROTO);
		return;
	}
	*target = rs->targets.list[out->next_granted];
	out->next_granted = (out->next_granted + 1) % RSOCKET_TARGETS;
}

static void take_mapping(struct rsocket *rs, uint32_t index)
{
	if (index < rs->options.iomap_size)
		rs->targets.known[index] = rs->targets.mappings[index];
}

static void take_control(struct rsocket *rs, uint32_t what)
{
	if (what == RSOCKET_SHUTDOWN) {
		rs->receives = false;
		rs->news_in++;
	}
	/* Two that cross: each side has ended its direction, and didn't know of the other's end. */
	if (what == RSOCKET_DISCONNECT || (what == RSOCKET_SHUTDOWN && rs->end_told))
		end_in_order(rs);
}

/* @length bytes have come, more than we have room for only from a peer that breaks the protocol. */
static void take_data(struct rsocket *rs, uint32_t length)
{
	struct rsocket_in *in = &rs->in;
	uint32_t next = (in->last + 1) % (rs->options.rq_size + 1);

	if (!length)
		return;
	if (next == in->first || length > in->size - in->available) {
		disconnected(rs, EPROTO);
		return;
	}
	in->lengths[in->last] = length;
	in->last = next;
	in->available += length;
	rs->news_in++;
}

static void take_message(struct rsocket *rs, uint32_t message, uint32_t written)
{
	uint32_t value = message & RSOCKET_MESSAGE_MASK;

	switch (message >> RSOCKET_MESSAGE_BITS) {
	case RSOCKET_DATA:
		take_data(rs, value);
		break;
	case RSOCKET_CREDIT:
		take_credits(rs, value, written);
		break;
	case RSOCKET_MAPPED:
		take_mapping(rs, value);
		break;
	case RSOCKET_CONTROL:
		take_control(rs, value);
		break;
	}
}

/*
 * The errno of a connection whose first request to fail did so with @status. The others are
 * flushed, which says nothing: 0.
 */
static int status_error(enum ibv_wc_status status)
{
	switch (status) {
	case IBV_WC_WR_FLUSH_ERR:
		return 0;
	case IBV_WC_RETRY_EXC_ERR:
		return ETIMEDOUT;
	default:
		return ECONNRESET;
	}
}

/*
 * The connection is broken. Flushed receives, or rdma_cm, may have told so before the request whose
 * failure says why: so @error counts although the state is DISCONNECTED.
 */
static void broken(struct rsocket *rs, int error)
{
	if (!rs->ended && !rs->error)
		rs->error = error;
	disconnected(rs, error);
}

static void complete(struct rsocket *rs, const struct ibv_wc *wc)
{
	if (wc->status != IBV_WC_SUCCESS)
		broken(rs, status_error(wc->status));
	if (wc->wr_id & RSOCKET_WR_RECEIVE) {
		if (wc->status != IBV_WC_SUCCESS)
			return;
		/* It has overtaken the RTU, or that was lost: the peer is ready all the same. */
		if (rs->state == RSOCKET_ACCEPTING)
			rsocket_stream_begin(rs);
		take_message(rs, be32toh(wc->imm_data), wc->byte_len);
		if (++rs->in.receives_taken == RECEIVES_AT_ONCE) {
			rs->in.receives_taken = 0;
			post_receives(rs, RECEIVES_AT_ONCE);
		}
	} else if (wc->wr_id & RSOCKET_WR_CONTROL) {
		rs->out.control_under_way--;
	} else if (!(wc->wr_id & RSOCKET_WR_FIRST_OF_TWO)) {
		rs->out.free += wc->wr_id & RSOCKET_WR_LENGTH;
		rs->out.data_under_way -= wc->wr_id & RSOCKET_WR_SECOND_OF_TWO ? 2 : 1;
	}
}

bool rsocket_stream_progress(struct rsocket *rs)
{
	struct ibv_wc wcs[16];
	bool any = false;
	int count;

	if (!rs->cq)
		return false;
	do {
		count = ibv_poll_cq(rs->cq, sizeof(wcs) / sizeof(*wcs), wcs);
		for (int i = 0; i < count; i++)
			complete(rs, &wcs[i]);
		any |= count > 0;
	} while (count == sizeof(wcs) / sizeof(*wcs));
	if (count < 0)
		disconnected(rs, EIO);
	if (any)
		grant_due(rs);
	return any;
}

bool rsocket_can_receive(const struct rsocket *rs)
{
	return rs->in.available > 0;
}

/* --- ending ---------------------------------------------------------------------------------- */

/* Say so, once there is room for it; nothing is said to a peer that has left. */
static void tell_end(struct rsocket *rs, enum rsocket_control what, uint64_t deadline)
{
	while (rs->state == RSOCKET_CONNECTED &&
	       rsocket_post_message(rs, rsocket_message(RSOCKET_CONTROL, what), 0, NULL, 0) ==
		       EAGAIN &&
	       rsocket_wait(rs, deadline) != ETIMEDOUT)
		;
}

void rsocket_stream_end(struct rsocket *rs, bool sends, bool receives, uint64_t deadline)
{
	const bool sent = rs->sends, open = rs->sends || rs->receives;

	if (sends)
		rs->sends = false;
	if (receives)
		rs->receives = false;
	if (open && !rs->sends && !rs->receives) {
		tell_end(rs, RSOCKET_DISCONNECT, deadline);
		end_in_order(rs);
	} else if (sent && !rs->sends) {
		tell_end(rs, RSOCKET_SHUTDOWN, deadline);
		rs->end_told = true;
		if (!rs->receives) /* the peer's came while ours waited for its turn */
			end_in_order(rs);
	}
}
