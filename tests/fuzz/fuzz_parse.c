/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Raw bytes through packet_parse() and icrc_check(), as the first thing that
 * happens to whatever arrives on the port. The first byte says over what it came.
 */
#include "input.h"
#include "net/wire/icrc.h"
#include "net/wire/wire.h"
#include "seal.h"

enum { OVER_IPV6 = 1 << 0, ID_UNKNOWN = 1 << 1, SEAL = 1 << 2 };

static void check_headers(const struct packet *packet, const uint8_t *data, size_t length)
{
	const struct opcode *op = packet->op;
	uint64_t sum = 0;

	must(packet->headers == data);
	must(packet->payload == data + op->headers_length);
	must(op->headers_length + packet->payload_length + packet->pad + ICRC_LENGTH == length);
	must(packet->dest_qp != 0 && packet->dest_qp <= QPN_MASK && packet->psn <= PSN_MASK);
	if (op->deth)
		sum += packet_deth(packet)->qkey;
	if (op->reth)
		sum += packet_reth(packet)->va;
	if (op->atomiceth)
		sum += packet_atomiceth(packet)->compare;
	if (op->aeth)
		sum += packet_syndrome(packet) + packet_msn(packet);
	if (op->atomicacketh)
		sum += packet_atomicacketh(packet)->original;
	if (op->immdt)
		sum += packet_immediate(packet);
	if (op->ieth)
		sum += packet_invalidate_rkey(packet);
	for (uint32_t i = 0; i < packet->payload_length; i++)
		sum += packet->payload[i];
	__asm__ volatile("" : : "r"(sum));
}

static void make_gid(union ibv_gid *gid, bool ipv6, uint8_t last)
{
	memset(gid, 0, sizeof(*gid));
	if (ipv6)
		gid->raw[0] = 0xfd;
	else
		gid->raw[10] = gid->raw[11] = 0xff;
	gid->raw[15] = last;
}

/* A packet that is sealed is intact, and its identification is found; one bit later it isn't. */
static void check_seal(struct link_frame *frame, uint16_t ip_id)
{
	uint32_t covered = frame->length - ICRC_LENGTH, position;
	uint8_t *copy = malloc(frame->length);
	struct link_frame sealed = *frame;

	must(copy);
	memcpy(copy, frame->data, covered);
	seal_bytes(copy, covered, frame, ip_id);

	sealed.data = copy;
	must(icrc_check(&sealed));
	must(frame->source.raw[0] || sealed.ip_id == ip_id);
	/* Byte 4 isn't covered, IBA 7.8.1. With the identification given, nothing else fits. */
	position = ip_id % frame->length;
	sealed.ip_id = ip_id;
	copy[position] ^= 0x10;
	must(position == offsetof(struct bth, dest_qp) || !icrc_check(&sealed) ||
	     sealed.ip_id != ip_id);
	free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input input = {data, size};
	uint8_t flags = input_u8(&input);
	uint16_t ip_id = input_u16(&input);
	struct link_frame frame = {
		.data = input.data,
		.length = input.left,
		.ip_id = flags & ID_UNKNOWN ? IP_ID_UNKNOWN : ip_id,
		.source_port = 0xc000 | ip_id,
	};
	struct packet packet;

	make_gid(&frame.source, flags & OVER_IPV6, 1);
	make_gid(&frame.destination, flags & OVER_IPV6, 2);
	if (packet_parse(&packet, frame.data, frame.length) == 0)
		check_headers(&packet, frame.data, frame.length);
	icrc_check(&frame);
	if (flags & SEAL && frame.length >= sizeof(struct bth) + ICRC_LENGTH)
		check_seal(&frame, ip_id);
	return 0;
}
