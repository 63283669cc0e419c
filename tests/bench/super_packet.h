/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Frames of a packet socket with PACKET_VNET_HDR: an Ethernet frame or, where the offload
 * header says so, a super-packet (GSO) that stands for several TCP segments or UDP
 * datagrams with the same headers. For delay_bridge, which loses some of them and marks others.
 */
#ifndef URXE_TESTS_BENCH_SUPER_PACKET_H
#define URXE_TESTS_BENCH_SUPER_PACKET_H

#include <linux/virtio_net.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#define FRAME_MAX (65536 + 64) /* the largest super-packet and its Ethernet header */

struct frame {
	STAILQ_ENTRY(frame) next; /* in a direction of the bridge, as is: */
	uint64_t due;		  /* ns of CLOCK_REALTIME, as the kernel's timestamps */
	uint32_t length;
	struct virtio_net_hdr offload;
	uint8_t data[];
};

/* Where the headers of a frame begin, and how many packets it stands for. */
struct layout {
	bool ip; /* or ARP, say, and nothing below matters but that it is one packet */
	bool ipv4, tcp;
	uint32_t network, transport, payload; /* the latter two of super-packets only */
	uint32_t packets;
};

struct layout frame_layout(const struct frame *frame);

/* A new frame of the @count packets of @whole, a super-packet, from @first on. */
struct frame *frame_carve(const struct frame *whole, uint32_t first, uint32_t count);

/* Sets CE. False if the sender doesn't understand it: then the frame stays as it is. */
bool frame_mark(struct frame *frame);

#endif
