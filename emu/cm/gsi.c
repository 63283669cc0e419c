/* SPDX-License-Identifier: BSD-2-Clause */
/* QP 1: emu/cm/gsi.h. */
#include "emu/cm/gsi.h"

#include <string.h>

#include "emu/cm/cm.h"
#include "emu/hca.h"
#include "emu/transport/outbox.h"

/* What @packet, with MAD_LENGTH bytes of payload, says. Returns whether it can be understood. */
static bool decode(struct cm_message *message, const struct packet *packet)
{
	uint8_t mad[MAD_LENGTH];

	memcpy(mad, packet->payload, sizeof(mad)); /* its sender may still write there */
	return cm_message_decode(message, mad) == 0;
}

void gsi_receive(struct hca *hca, const struct packet *packet, const struct link_frame *frame,
		 uint64_t now)
{
	struct cm_message message;

	if (packet->opcode != (WIRE_UD | WIRE_SEND_ONLY) || packet->payload_length != MAD_LENGTH ||
	    packet->pad != 0) {
		COUNT(hca, dropped_packets, 1);
		return;
	}
	if (!pkey_match(packet->pkey, PKEY_DEFAULT)) {
		COUNT(hca, bad_pkey, 1);
		return;
	}
	if (be32toh(packet_deth(packet)->qkey) != QKEY_GSI) {
		COUNT(hca, bad_qkey, 1);
		return;
	}
	if (decode(&message, packet))
		cm_receive(hca->cm, &message, frame, now);
}

uint32_t gsi_disconnects(const struct packet *packet)
{
	struct cm_message message;

	if (packet->payload_length != MAD_LENGTH || !decode(&message, packet) ||
	    message.attribute != CM_DREQ)
		return 0;
	return message.qpn;
}

void gsi_send(struct hca *hca, const struct path *path, const uint8_t *mad, uint64_t now)
{
	uint32_t psn = atomic_fetch_add_explicit(&hca->gsi_psn, 1, memory_order_relaxed);
	const struct opcode *op = opcode_find(WIRE_UD | WIRE_SEND_ONLY);
	struct link_packet *packet;
	struct outbox *outbox = outbox_get(hca, now);

	if (!outbox)
		return; /* lost, as on the wire */
	packet = outbox_packet(outbox, path);
	/* The request for an acknowledgement means nothing here; rxe sets it. */
	bth_fill((struct bth *)packet->headers, WIRE_UD | WIRE_SEND_ONLY, 0, QPN_GSI,
		 BTH_ACK_REQUEST | (psn & PSN_MASK));
	*(struct deth *)(packet->headers + op->deth) =
		(struct deth){.qkey = htobe32(QKEY_GSI), .source_qp = htobe32(QPN_GSI)};
	packet->headers_length = op->headers_length;
	outbox_payload(outbox, packet, mad, MAD_LENGTH);
	outbox_flush(outbox);
	outbox_put(outbox);
}
