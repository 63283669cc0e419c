/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a receive of UD says of the network header of its packet: in its first 40 bytes, the GRH
 * (Annex A17.4.3), and in the service level of its completion.
 *
 * Called by the responder (emu/transport/responder.c), with the QP's lock held.
 */
#ifndef URXE_EMU_GRH_H
#define URXE_EMU_GRH_H

#include "emu/hca.h"
#include "net/link.h"
#include "net/wire/wire.h"

struct grh {
	uint8_t bytes[GRH_LENGTH]; /* an IPv6 header in all of them, one of IPv4 in the last 20 */
	uint32_t untouched;	   /* of them, the first: they stay as the application had them */
	uint8_t service_level;	   /* of the completion */
};

/* The GRH of @frame, as the device with the behaviour of @hca shows it. */
void grh_fill(struct grh *grh, const struct hca *hca, const struct link_frame *frame);

#endif
