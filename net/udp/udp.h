/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The real link: RoCEv2 over UDP sockets. One receiving socket on :4791 and one
 * sending socket on an entropy port (Annex A17.3.1) for each address of the
 * node. Called by the verbs layer to create it, by the core through link.h.
 */
#ifndef URXE_NET_UDP_H
#define URXE_NET_UDP_H

#include "net/capture.h"
#include "net/link.h"

struct udp_options {
	struct capture *capture;     /* or NULL */
	unsigned int receive_buffer; /* SO_RCVBUF in bytes; 0: 32 MiB */
	bool segmentation;	     /* use UDP_SEGMENT and UDP_GRO where the kernel has them */
};

/* Returns 0 and *@link, or an errno. No address is bound yet: link add_address does that. */
int udp_link_create(const struct udp_options *options, struct link **link);

/*
 * For a link around this one (net/shm): the roster, NULL without one or before the first address;
 * the port that packets from @gid leave from; and a datagram that makes a descriptor of another
 * member readable, with nothing in it (share.woken). Returns whether that was sent.
 */
struct roster *udp_link_roster(const struct link *link);
uint16_t udp_link_source_port(struct link *link, const union ibv_gid *gid);
bool udp_link_wake(struct link *link, uint32_t member);

#endif
