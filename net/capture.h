/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packet capture (URXE_PCAP): every packet that a link sends or receives goes
 * to a pcap file, one record a packet, with the Ethernet, IP and UDP headers
 * that it has or would have on a wire. Called by links. Thread-safe: one lock.
 */
#ifndef URXE_NET_CAPTURE_H
#define URXE_NET_CAPTURE_H

#include "net/link.h"

struct capture;

/* Whether libpcap, which is loaded for it, is here; if not, dlerror() says why. */
bool capture_is_possible(void);

/*
 * @name: the file; "%p" in it becomes the process id. What an earlier run left in it is
 * replaced; processes that capture to it at the same time write one file. Returns NULL with
 * errno set.
 */
struct capture *capture_open(const char *name);
void capture_close(struct capture *capture);

/* A packet after icrc_seal(). */
void capture_sent(struct capture *capture, const struct link_packet *packet, uint16_t source_port,
		  uint16_t ip_id);
/* A frame before its ICRC is checked. */
void capture_received(struct capture *capture, const struct link_frame *frame);

#endif
