/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The packets of one round of work. The iovs of a packet lie next to each other, since
 * link_packet.payload points at them; so a packet is only begun where the longest SGE list fits.
 */
#include "emu/transport/outbox.h"

#include <string.h>

#include "emu/hca.h"
#include "emu/inject/event.h"
#include "emu/objects/qp.h"
#include "net/guard.h"
#include "net/tuning.h"

_Static_assert(HCA_SGES_MAX <= OUTBOX_IOVS, "an empty outbox takes any packet");

void outbox_init(struct outbox *outbox, struct hca *hca, uint64_t now)
{
	outbox->hca = hca;
	outbox->now = now;
	outbox->packets = 0;
	outbox->iovs = 0;
	outbox->sends_much = false;
	outbox->pinned = NULL;
	outbox->probed = OUTBOX_NO_PAGE;
	outbox->train = (struct outbox_train){0};
}

struct outbox *outbox_get(struct hca *hca, uint64_t now)
{
	struct outbox *outbox = pool_get(&hca->outboxes, sizeof(*outbox));

	if (outbox)
		outbox_init(outbox, hca, now);
	return outbox;
}

void outbox_put(struct outbox *outbox)
{
	if (outbox->sends_much)
		atomic_fetch_sub_explicit(&outbox->hca->senders, 1, memory_order_relaxed);
	pool_put(&outbox->hca->outboxes, outbox);
}

/* Give up the iovs from @first on, and what they pin. */
static void outbox_unpin(struct outbox *outbox, unsigned int first)
{
	for (unsigned int i = first; i < outbox->iovs; i++) {
		if (outbox->pin[i].key)
			mr_unpin(outbox->hca, &outbox->pin[i]);
	}
	outbox->iovs = first;
	outbox->pinned = NULL;
}

static void count_sent(struct hca *hca, struct port_counters *port, unsigned int packets,
		       uint64_t bytes)
{
	COUNT(hca, sent_pkts, packets);
	COUNT(hca, sent_bytes, bytes);
	if (!port)
		return;
	COUNT_IN(port, sent_pkts, packets);
	COUNT_IN(port, sent_bytes, bytes);
}

static void outbox_send(struct outbox *outbox)
{
	struct link *link = outbox->hca->link;
	/* What is in an outbox is one QP's, and goes by one port. */
	struct port_counters *port =
		hca_port_counters(outbox->hca, &outbox->packet[0].path->source);
	uint64_t bytes = 0, deadline;
	unsigned int refused;

	for (unsigned int i = 0; i < outbox->packets; i++)
		bytes += link_packet_length(&outbox->packet[i]);
	refused = link_send(link, outbox->packet, outbox->packets, outbox->now);
	/* A link that delays packets (net/fault/fault.h) wants to be called again. */
	deadline = link->ops->deadline(link);
	if (deadline != TIME_NEVER)
		hca_wake_at(outbox->hca, deadline);
	count_sent(outbox->hca, port, outbox->packets - refused, bytes);
	if (refused)
		COUNT(outbox->hca, send_err, refused);
}

void outbox_flush(struct outbox *outbox)
{
	if (!outbox->packets)
		return;
	if (injects(outbox->hca))
		outbox->packets = inject_sent(outbox->hca, outbox->packet, outbox->packets);
	if (outbox->packets)
		outbox_send(outbox);
	outbox->packets = 0;
	outbox->probed = OUTBOX_NO_PAGE;
	outbox->train = (struct outbox_train){0};
	outbox_unpin(outbox, 0);
}

/* The last packet is complete now: it is of the GSO train, or begins one. */
static void count_last(struct outbox *outbox)
{
	struct outbox_train *train = &outbox->train;
	uint32_t length;

	if (train->counted == outbox->packets)
		return;
	train->counted = outbox->packets;
	length = link_packet_length(&outbox->packet[outbox->packets - 1]);
	train->bytes += length;
	if (!train->left || length > train->length) {
		train->left = link_train_packets(length);
		train->length = length;
	}
	train->left = length == train->length ? train->left - 1 : 0;
}

bool outbox_is_between_trains(struct outbox *outbox)
{
	count_last(outbox);
	return !outbox->train.left;
}

unsigned int outbox_train_left(struct outbox *outbox, uint32_t length)
{
	const struct outbox_train *train = &outbox->train;

	if (outbox_is_between_trains(outbox) || length > train->length)
		return link_train_packets(length);
	return length == train->length ? train->left : 1;
}

/* Most rounds end with their first flush, and needn't be counted. */
static void flush_and_go_on(struct outbox *outbox)
{
	if (!outbox->sends_much)
		atomic_fetch_add_explicit(&outbox->hca->senders, 1, memory_order_relaxed);
	outbox->sends_much = true;
	outbox_flush(outbox);
}

struct link_packet *outbox_packet(struct outbox *outbox, const struct path *path)
{
	bool enough = outbox_is_between_trains(outbox) &&
		      outbox->train.bytes + LINK_TRAIN_BYTES > SEND_BYTES;
	struct link_packet *packet;

	if (enough || outbox->packets == OUTBOX_PACKETS ||
	    outbox->iovs + HCA_SGES_MAX > OUTBOX_IOVS)
		flush_and_go_on(outbox);
	packet = &outbox->packet[outbox->packets++];
	packet->path = path;
	packet->payload = &outbox->iov[outbox->iovs];
	packet->payload_length = 0;
	packet->payload_count = 0;
	packet->trailer_length = ICRC_LENGTH;
	packet->corrupt_bit = 0;
	memset(packet->trailer, 0, sizeof(packet->trailer));
	return packet;
}

static void outbox_add_iov(struct outbox *outbox, struct link_packet *packet, const void *data,
			   uint32_t length, const struct mr_pin *pin)
{
	outbox->iov[outbox->iovs] = (struct iovec){.iov_base = (void *)data, .iov_len = length};
	if (pin)
		outbox->pin[outbox->iovs] = *pin;
	else
		outbox->pin[outbox->iovs].key = NULL;
	outbox->iovs++;
	packet->payload_count++;
	packet->payload_length += length;
}

/* IBA 9.2.2: the payload is padded to a multiple of four; the BTH says by how much. */
static void outbox_pad(struct link_packet *packet)
{
	uint32_t pad = pad_length(packet->payload_length);

	packet->trailer_length = pad + ICRC_LENGTH;
	packet->headers[offsetof(struct bth, flags)] |= pad << BTH_PAD_SHIFT;
}

/*
 * Whether memory of the region behind @pin is still there. The link would find out, too, but not
 * which work request names it. A page that was there isn't asked again in the same round. 0 or
 * what mr_probe() returns.
 */
static int outbox_probe(struct outbox *outbox, const struct mr_pin *pin, const uint8_t *address,
			uint32_t length)
{
	uintptr_t first = (uintptr_t)address / GUARD_PAGE;
	uintptr_t last = ((uintptr_t)address + length - 1) / GUARD_PAGE;
	int error;

	if (first == outbox->probed && last == outbox->probed)
		return 0;
	error = mr_probe(pin, address, length);
	if (!error)
		outbox->probed = last;
	return error;
}

/* The same of memory that nothing pins yet. */
static int outbox_pin(struct outbox *outbox, struct link_packet *packet, const struct pd *pd,
		      const struct qp *qp, uint32_t key, uint64_t va, uint32_t length)
{
	struct mr_pin pin;
	int error = qp ? mr_pin_remote(pd, qp, key, va, length, IBV_ACCESS_REMOTE_READ, &pin)
		       : mr_pin(outbox->hca, pd, key, va, length, 0, &pin);

	if (error)
		return error;
	error = outbox_probe(outbox, &pin, pin.address, length);
	if (error) {
		mr_unpin(outbox->hca, &pin);
		return error;
	}
	outbox->pinned = &outbox->pin[outbox->iovs];
	outbox_add_iov(outbox, packet, pin.address, length, &pin);
	return 0;
}

/*
 * Memory by its key: what the latest pin covers needs none of its own. @qp: the one
 * that was asked for it (READ), NULL for a local read.
 */
static inline int outbox_add_memory(struct outbox *outbox, struct link_packet *packet,
				    const struct pd *pd, const struct qp *qp, uint32_t key,
				    uint64_t va, uint32_t length)
{
	int access = qp ? IBV_ACCESS_REMOTE_READ : 0, error;
	uint8_t *address = NULL;

	if (outbox->pinned)
		address = mr_pinned(outbox->pinned, pd, qp, key, va, length, access);
	if (!address)
		return outbox_pin(outbox, packet, pd, qp, key, va, length);
	error = outbox_probe(outbox, outbox->pinned, address, length);
	if (!error)
		outbox_add_iov(outbox, packet, address, length, NULL);
	return error;
}

int outbox_remote(struct outbox *outbox, struct link_packet *packet, const struct pd *pd,
		  const struct qp *qp, uint32_t rkey, uint64_t va, uint32_t length)
{
	int error = outbox_add_memory(outbox, packet, pd, qp, rkey, va, length);

	if (error)
		outbox_withdraw(outbox);
	else
		outbox_pad(packet);
	return error;
}

int outbox_gather(struct outbox *outbox, struct link_packet *packet, const struct pd *pd,
		  const struct ibv_sge *sge, uint32_t count, uint64_t offset, uint32_t length)
{
	for (uint32_t i = 0; i < count && packet->payload_length < length; i++) {
		uint64_t va;
		uint32_t part = sge_part(&sge[i], &offset, length - packet->payload_length, &va);
		int error;

		if (!part)
			continue;
		error = outbox_add_memory(outbox, packet, pd, NULL, sge[i].lkey, va, part);
		if (error) {
			outbox_withdraw(outbox);
			return error;
		}
	}
	outbox_pad(packet);
	return 0;
}

void outbox_payload(struct outbox *outbox, struct link_packet *packet, const void *data,
		    uint32_t length)
{
	if (length)
		outbox_add_iov(outbox, packet, data, length, NULL);
	outbox_pad(packet);
}

void outbox_withdraw(struct outbox *outbox)
{
	const struct link_packet *packet = &outbox->packet[--outbox->packets];

	outbox_unpin(outbox, packet->payload - outbox->iov);
}
