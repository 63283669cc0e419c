/* SPDX-License-Identifier: BSD-2-Clause */
/* For the fuzz targets: packets that get as far as their ICRC says, whatever they are. */
#ifndef URXE_TESTS_FUZZ_SEAL_H
#define URXE_TESTS_FUZZ_SEAL_H

#include <string.h>

#include "net/wire/icrc.h"

/* Put the ICRC behind the @length bytes, for a packet that comes as @frame does. */
static inline void seal_bytes(uint8_t *bytes, uint32_t length, const struct link_frame *frame,
			      uint16_t ip_id)
{
	struct path path = {.source = frame->source, .destination = frame->destination};
	struct link_packet packet = {.path = &path, .trailer_length = ICRC_LENGTH};
	struct iovec payload;

	packet.headers_length = length < WIRE_HEADERS_MAX ? length : WIRE_HEADERS_MAX;
	memcpy(packet.headers, bytes, packet.headers_length);
	payload = (struct iovec){bytes + packet.headers_length, length - packet.headers_length};
	packet.payload = &payload;
	packet.payload_count = 1;
	packet.payload_length = payload.iov_len;
	icrc_seal(&packet, frame->source_port, ip_id);
	memcpy(bytes + length, packet.trailer, ICRC_LENGTH);
}

#endif
