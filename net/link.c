/* SPDX-License-Identifier: BSD-2-Clause */
/* Linear packets: for links that cannot send the caller's iovs, or not now. */
#include "net/link.h"

#include <string.h>

uint8_t *link_packet_payload(const struct link_packet *packet, uint8_t *to)
{
	uint32_t left = packet->payload_length;

	for (unsigned int i = 0; i < packet->payload_count && left; i++) {
		const struct iovec *iov = &packet->payload[i];
		uint32_t part = iov->iov_len < left ? iov->iov_len : left;

		if (part)
			to = mempcpy(to, iov->iov_base, part);
		left -= part;
	}
	return to;
}

uint8_t *link_packet_copy(const struct link_packet *packet, uint8_t *to)
{
	to = mempcpy(to, packet->headers, packet->headers_length);
	to = link_packet_payload(packet, to);
	return mempcpy(to, packet->trailer, packet->trailer_length);
}
