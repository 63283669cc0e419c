/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Asynchronous events that a fault asks for, with what the event says has happened: a queue pair
 * is in ERR, a port is down and nothing passes it, the device is gone. Called by inject_run()
 * with no lock but hca.receive_lock, and where packets pass the ports.
 */
#ifndef URXE_EMU_INJECT_EVENT_H
#define URXE_EMU_INJECT_EVENT_H

#include <infiniband/verbs.h>
#include <stdbool.h>

#include "net/link.h"

struct hca;

/*
 * Raise @type about the queue pair @qpn, or its CQ, SRQ or port; 0: about the first one that is
 * connected, or has an SRQ (as if @qpn has none), and about all ports. False: there is no such
 * object.
 */
bool inject_event(struct hca *hca, enum ibv_event_type type, uint32_t qpn, uint64_t now);

/* Likewise the port, or all, is down until @until. */
void inject_down(struct hca *hca, uint32_t qpn, uint64_t until, uint64_t now);
/* Those whose time is over are up again. Returns whether there were any. */
bool inject_up(struct hca *hca, uint64_t now);
bool inject_is_down(const struct hca *hca, unsigned int port_num);

/* All queue pairs are in ERR, and nothing passes any more. The verbs layer looks for it. */
void inject_remove(struct hca *hca, uint64_t now);
bool inject_is_removed(const struct hca *hca);

/* Leave out what passes ports that are down. Returns how many are left. */
unsigned int inject_sent(struct hca *hca, struct link_packet *packets, unsigned int count);
unsigned int inject_received(struct hca *hca, struct link_frame *frames, unsigned int count);

#endif
