/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which process has a UDP port that can't be bound, from /proc: for messages, and slow.
 * Called by any thread; no locks.
 */
#ifndef URXE_NET_UDP_HOLDER_H
#define URXE_NET_UDP_HOLDER_H

#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* The process with a socket at @gid and @port, or 0: none, the kernel, or another user's. */
pid_t udp_holder_pid(const union ibv_gid *gid, uint16_t port);

/* "process 1234 (rping)" of a process that lives. */
void udp_process_text(pid_t pid, char *text, size_t size);

/* What has the port, as a sentence without its end: "process 1234 (rping) has UDP port 4791". */
void udp_holder_text(const union ibv_gid *gid, uint16_t port, char *text, size_t size);

#endif
