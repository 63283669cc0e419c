/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The link of shared memory: a link around the UDP link. What is sent to a queue pair of a process
 * of our user on this machine that has such a link, too, goes through a ring in memory
 * (net/shm/ring.h), byte for byte as it would have gone by UDP, but for the ICRC; all else goes by
 * UDP, multicasts and QP 1 included. Which way a packet goes follows from the roster and is the
 * same for all packets of a queue pair.
 *
 * Nothing is lost on that way to a process that reads. What finds no space in the ring waits in
 * memory of the sender (net/shm/shm_send.c), which is the exception: RC keeps its window below what
 * a ring has space for (link_ops.capacity), UC and UD are paced (link_ops.rcvbuf_space). What they
 * send to a process that is stopped is lost when the ring is full, as in a socket.
 *
 * How a receiver that sleeps is woken. One thread of a process sleeps on the descriptors, the
 * progress thread; any may receive.
 * - The sender writes a record, fences, then looks at what the receiver has said: whether it
 *   watches the ring (else it rings the bell and fences again), then whether it sleeps. The
 *   receiver says that it sleeps, fences, then looks at the rings that it watches and at the bell.
 *   So one of them sees what the other has written. The same holds for a ring that is watched no
 *   more, and for a bell that is taken: the sender finds it rung, or the receiver the record.
 * - A sender first wakes, by a datagram to the control socket, and then clears the number of the
 *   sleep that it saw, if it still stands there. So one that is killed in between, or whose
 *   datagram the kernel refuses, leaves the next one to wake; and one that is slow takes no later
 *   sleep's wake-up away.
 * - The datagram may be read by a thread that polls now and then, before the progress thread has
 *   got the CPU: the kernel then lets that sleep on, with its number cleared. So the thread that
 *   has read it wakes the progress thread (share.woken).
 * - Whatever else goes wrong, as a number that is cleared by a process that is none of ours, costs
 *   a second (SHM_CHECK): for longer a receiver with an inbox doesn't sleep.
 *
 * Called by the verbs layer to create it, by the core through link.h.
 */
#ifndef URXE_NET_SHM_SHM_H
#define URXE_NET_SHM_SHM_H

#include "net/link.h"

struct shm_options {
	bool icrc;	       /* compute the ICRC of all packets, and have them checked */
	const char *directory; /* of the files; NULL: /dev/shm */
	uint64_t check;	       /* how often to look after the other processes; 0: SHM_CHECK */
};

/* @udp: a UDP link, which is closed with the new one. Returns 0 or ENOMEM. */
int shm_link_create(struct link *udp, const struct shm_options *options, struct link **link);

#endif
