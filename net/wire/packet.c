/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * From bytes of the network to a packet. Called by the core for every frame
 * that arrives; everything behind it may rely on the headers being there.
 */
#include "net/wire/wire.h"

int packet_parse(struct packet *packet, const uint8_t *data, size_t length)
{
	const struct bth *bth = (const struct bth *)data;
	const struct opcode *op;
	uint32_t dest, psn;
	uint8_t pad;

	if (length < sizeof(*bth) + ICRC_LENGTH)
		return -1;
	if (bth->flags & BTH_TVER_MASK) /* IBA 9.6.1.1 */
		return -1;

	op = opcode_find(bth->opcode);
	if (!op)
		return -1;

	pad = (bth->flags & BTH_PAD_MASK) >> BTH_PAD_SHIFT;
	if (length < (size_t)op->headers_length + pad + ICRC_LENGTH)
		return -1;

	dest = be32toh(bth->dest_qp);
	if ((dest & QPN_MASK) == 0) /* QP 0 is the subnet manager's; RoCE has none */
		return -1;

	psn = be32toh(bth->psn);
	*packet = (struct packet){
		.op = op,
		.headers = data,
		.payload = data + op->headers_length,
		.payload_length = length - op->headers_length - pad - ICRC_LENGTH,
		.dest_qp = dest & QPN_MASK,
		.psn = psn & PSN_MASK,
		.pkey = be16toh(bth->pkey),
		.opcode = bth->opcode,
		.pad = pad,
		.solicited = bth->flags & BTH_SOLICITED,
		.ack_request = psn & BTH_ACK_REQUEST,
	};
	return 0;
}
