/* SPDX-License-Identifier: BSD-2-Clause */
/* Linear packets: what links send is a copy. */
#include "net/link.h"

#include <string.h>

#include "net/fence.h"
#include "net/guard.h"
#include "net/stores.h"

#if defined(__SANITIZE_THREAD__)
char link_order;
#endif

struct payload_copy {
	const struct link_packet *packet;
	uint8_t *to; /* its end, when all is copied */
	bool nontemporal;
};

static uint8_t *copy_part(const struct payload_copy *copy, uint8_t *to, const void *from,
			  uint32_t length)
{
	if (!copy->nontemporal)
		return mempcpy(to, from, length);
	stores_copy_nontemporal(to, from, length);
	return to + length;
}

static void copy_payload(void *context)
{
	struct payload_copy *copy = context;
	const struct link_packet *packet = copy->packet;
	uint32_t left = packet->payload_length;
	uint8_t *to = copy->to;

	for (unsigned int i = 0; i < packet->payload_count && left; i++) {
		const struct iovec *iov = &packet->payload[i];
		uint32_t part = iov->iov_len < left ? iov->iov_len : left;

		if (part)
			to = copy_part(copy, to, iov->iov_base, part);
		left -= part;
	}
	copy->to = to;
}

static uint8_t *write_payload(const struct link_packet *packet, uint8_t *to, bool nontemporal)
{
	struct payload_copy copy = {packet, to, nontemporal};
	uint32_t length = packet->payload_length;

	if (!length)
		return to;
	/* Most of them. */
	if (packet->payload_count == 1 && !nontemporal)
		return guard_read(to, packet->payload->iov_base, length, NULL) ? to + length : NULL;
	if (!guard_run(packet->payload, packet->payload_count, copy_payload, &copy, NULL))
		return NULL;
	fence_reads();
	return copy.to;
}

static uint8_t *write_packet(const struct link_packet *packet, uint8_t *to, bool nontemporal)
{
	to = mempcpy(to, packet->headers, packet->headers_length);
	to = write_payload(packet, to, nontemporal);
	if (!to)
		return NULL;
	return mempcpy(to, packet->trailer, packet->trailer_length);
}

uint8_t *link_packet_payload(const struct link_packet *packet, uint8_t *to)
{
	return write_payload(packet, to, false);
}

uint8_t *link_packet_copy(const struct link_packet *packet, uint8_t *to)
{
	return write_packet(packet, to, false);
}

uint8_t *link_packet_copy_nontemporal(const struct link_packet *packet, uint8_t *to)
{
	return write_packet(packet, to, true);
}
