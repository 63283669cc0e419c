/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packet capture (URXE_PCAP): every packet that a link sends or receives goes
 * to a pcap file, one record a packet, with the Ethernet, IP and UDP headers
 * that it has or would have on a wire. Opened by the verbs layer, called by the links.
 * Thread-safe: one lock.
 *
 * Sockets show no Ethernet addresses. Those of the capture are 02:00 and the end of the IP
 * address for the process that captures, 02:01 and so on for its peer: so a file of both ends
 * tells packets sent from packets received.
 *
 * What a fault (net/fault/fault) did to a packet is one line in a text file beside the capture:
 * pcap has no place for it.
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
/* Whether the application hasn't closed the file, as daemons do. */
bool capture_is_open(const struct capture *capture);
/* In a forked child, which uses it no more: what wasn't written yet is the parent's to write. */
void capture_after_fork_child(struct capture *capture);

/*
 * Have a file for what faults do (net/fault/fault_notes.h), which processes share as they do the
 * capture. 0 or an errno. Else the first capture_fault() opens it; a capture that is a pipe has
 * none.
 */
int capture_open_faults(struct capture *capture);

/*
 * What was captured goes to the file. Called by a link for all that it captured at once: before it
 * sends that, or hands it to the core. Then of two processes that write one file the sender's
 * record comes first.
 */
void capture_flush(struct capture *capture);

/* A packet after icrc_seal(). The time of its record goes to packet->captured. */
void capture_sent(struct capture *capture, struct link_packet *packet, uint16_t source_port,
		  uint16_t ip_id);
/* A frame before its ICRC is checked. The time of its record goes to frame->captured. */
void capture_received(struct capture *capture, struct link_frame *frame);

/* Say of the packet whose record is of the time @captured what a fault did to it. */
void capture_fault(struct capture *capture, uint64_t captured, const char *text);

#endif
