/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The general service interface: QP 1, which every port has without its being
 * created (IBA 3.9.4, 13.5.1). It takes MADs from the link and gives those of the
 * connection manager to it; MADs of other classes are dropped, as a port
 * without agents for them does. Sending makes one UD packet of a MAD.
 *
 * Called by hca_progress() with hca.receive_lock held, and by emu/cm. No lock.
 */
#ifndef URXE_EMU_GSI_H
#define URXE_EMU_GSI_H

#include <stdint.h>

#include "net/link.h"

struct hca;

/*
 * A unicast packet to QP 1 whose ICRC was good. Checks P_Key, Q_Key and length (IBA 9.6.1.4,
 * 13.4.2).
 */
void gsi_receive(struct hca *hca, const struct packet *packet, const struct link_frame *frame,
		 uint64_t now);

/* The QP whose connection a packet to QP 1 ends (a DREQ), by its own account; 0: none's. */
uint32_t gsi_disconnects(const struct packet *packet);

/* Send the MAD_LENGTH bytes at @mad to QP 1 at the other end of @path. */
void gsi_send(struct hca *hca, const struct path *path, const uint8_t *mad, uint64_t now);

#endif
