/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire_order.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "tests/must.h"
#include "tests/sanitizers.h"

#define BATCH 64

struct order_link {
	struct link link;
	struct link *inner;
};

/* A thread that sends adds to it, a thread that receives reads it. */
static _Atomic uint64_t wire;

static struct link *inner(struct link *link)
{
	return ((struct order_link *)link)->inner;
}

/* The payload is read here, before the addition; what the kernel gets is a copy. */
static unsigned int send_some(struct link *link, struct link_packet *packets, unsigned int count,
			      uint64_t now)
{
	struct iovec payloads[BATCH];
	uint8_t *copies = malloc(count * WIRE_PATH_MTU_MAX);
	unsigned int refused;

	must(copies);
	for (unsigned int i = 0; i < count; i++) {
		struct link_packet *packet = &packets[i];
		uint8_t *copy = copies + i * WIRE_PATH_MTU_MAX;

		payloads[i] = (struct iovec){copy, packet->payload_length};
		link_packet_payload(packet, copy);
		packet->payload = &payloads[i];
		packet->payload_count = packet->payload_length > 0;
	}
	atomic_fetch_add(&wire, 1);
	refused = inner(link)->ops->send(inner(link), packets, count, now);
	free(copies);
	return refused;
}

static unsigned int order_send(struct link *link, struct link_packet *packets, unsigned int count,
			       uint64_t now)
{
	unsigned int refused = 0;

	for (unsigned int i = 0; i < count; i += BATCH)
		refused += send_some(link, packets + i, count - i < BATCH ? count - i : BATCH, now);
	return refused;
}

static unsigned int order_receive(struct link *link, struct link_frame *frames, unsigned int max,
				  uint64_t now)
{
	unsigned int count = inner(link)->ops->receive(inner(link), frames, max, now);

	atomic_fetch_add(&wire, 0);
	return count;
}

static uint64_t order_deadline(struct link *link)
{
	return inner(link)->ops->deadline(inner(link));
}

static uint64_t order_prepare_sleep(struct link *link)
{
	return inner(link)->ops->prepare_sleep ? inner(link)->ops->prepare_sleep(inner(link))
					       : TIME_NEVER;
}

static uint32_t order_capacity(struct link *link, const struct path *path, uint32_t qpn)
{
	return inner(link)->ops->capacity ? inner(link)->ops->capacity(inner(link), path, qpn)
					  : UINT32_MAX;
}

static uint32_t order_rcvbuf_space(struct link *link, const struct path *path, uint32_t qpn)
{
	return inner(link)->ops->rcvbuf_space(inner(link), path, qpn);
}

static uint32_t order_unread(struct link *link, const struct path *path, uint32_t qpn,
			     uint64_t *read)
{
	return inner(link)->ops->unread(inner(link), path, qpn, read);
}

static uint32_t order_sndbuf_space(struct link *link, const union ibv_gid *source)
{
	return inner(link)->ops->sndbuf_space(inner(link), source);
}

static int order_add_address(struct link *link, const union ibv_gid *gid, unsigned int interface)
{
	return inner(link)->ops->add_address(inner(link), gid, interface);
}

static int order_join(struct link *link, const union ibv_gid *group, const union ibv_gid *source)
{
	return inner(link)->ops->join(inner(link), group, source);
}

static void order_leave(struct link *link, const union ibv_gid *group)
{
	inner(link)->ops->leave(inner(link), group);
}

static unsigned int order_descriptors(struct link *link, int *fds, unsigned int max)
{
	return inner(link)->ops->descriptors(inner(link), fds, max);
}

static void order_close(struct link *link)
{
	inner(link)->ops->close(inner(link));
	free(link);
}

static const struct link_ops order_ops = {
	.send = order_send,
	.receive = order_receive,
	.deadline = order_deadline,
	.prepare_sleep = order_prepare_sleep,
	.capacity = order_capacity,
	.rcvbuf_space = order_rcvbuf_space,
	.unread = order_unread,
	.sndbuf_space = order_sndbuf_space,
	.add_address = order_add_address,
	.join = order_join,
	.leave = order_leave,
	.descriptors = order_descriptors,
	.close = order_close,
};

struct link *wire_order(struct link *wrapped)
{
	struct order_link *link;

	if (!HAS_TSAN)
		return wrapped;
	link = calloc(1, sizeof(*link));
	must(link);
	link->link.ops = &order_ops;
	link->link.share = wrapped->share;
	link->inner = wrapped;
	return &link->link;
}
