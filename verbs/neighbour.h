/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Hosts on a link, as the kernel knows them: which one packets to an address go to, and its
 * hardware address. The kernel finds that by ARP or ND when something is sent there. For
 * verbs/rdma/rdma_neighbour.c, which waits for it, and verbs/eth_l2.c, which wants to have it. Any
 * thread; no locks.
 */
#ifndef URXE_VERBS_NEIGHBOUR_H
#define URXE_VERBS_NEIGHBOUR_H

#include <linux/neighbour.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

#define HARDWARE_ADDRESS_LENGTH 6 /* Ethernet's */

struct neighbour {
	unsigned int interface; /* to which it is connected */
	int family;
	uint8_t address[sizeof(struct in6_addr)];
};

/* Linux: NUD_VALID. A neighbour that is there, or was a moment ago. */
#define NEIGHBOUR_VALID                                                                            \
	(NUD_PERMANENT | NUD_NOARP | NUD_REACHABLE | NUD_PROBE | NUD_STALE | NUD_DELAY)

/*
 * The neighbour for packets from @source to @destination. Returns 0, or ENOENT if there is none
 * as the destination is this machine, EOPNOTSUPP if they are sent inside of others, whose
 * destination isn't known, or an errno such as ENETUNREACH.
 */
int neighbour_find(const struct sockaddr *source, const struct sockaddr *destination,
		   struct neighbour *neighbour);

/* Whether hosts on @interface have no hardware addresses, or none that has to be asked for. */
bool neighbour_has_none(unsigned int interface);

/*
 * NUD_...: NUD_NONE when nothing was asked yet; NUD_NOARP when the kernel can't tell. @hardware
 * (or NULL) gets the hardware address, if it is known; else zeros.
 */
unsigned int neighbour_state(const struct neighbour *neighbour,
			     uint8_t hardware[HARDWARE_ADDRESS_LENGTH]);

/* Have the kernel ask for the neighbour that packets from @source to @destination go to. */
void neighbour_provoke(const struct sockaddr *source, const struct sockaddr *destination);

#endif
