/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Steering: the program by which the kernel chooses among the sockets that
 * share an address and port (SO_REUSEPORT). It is classic BPF, which takes no
 * privilege, sees the UDP payload, and returns the index of a socket in the
 * group: by the slot of the destination QP, or as a signal packet of ours asks.
 * An index that doesn't exist makes the kernel choose by a hash of the addresses.
 *
 * Called by net/share/roster_table.c and net/udp. No state, no locks.
 */
#ifndef URXE_NET_STEER_H
#define URXE_NET_STEER_H

#include <endian.h>
#include <linux/filter.h>
#include <linux/types.h>
#include <stdbool.h>
#include <stdint.h>

/* The slots @first to @last belong to the socket with @index. */
struct steer_range {
	uint16_t first, last, index;
};

/* Requests to the connection manager for the service id with these lower bits. */
struct steer_service {
	uint32_t id;
	uint16_t index;
};

/*
 * More ranges don't fit the kernel's limit for a program everywhere (20 KiB,
 * net.core.optmem_max before Linux 6.7). Packets for further slots go by the hash, requests for
 * further services to a member at random.
 */
#define STEER_RANGES_MAX 256
#define STEER_SERVICES_MAX 64
#define STEER_PROGRAM_MAX (6 * STEER_RANGES_MAX + 2 * STEER_SERVICES_MAX + 32)

/* Where a packet would begin with a BTH; the opcode is one of those left to manufacturers. */
#define STEER_MAGIC 0xff757278u

/* A signal: a packet for the socket that has @index in the group. */
struct steer_signal {
	__be32 magic;
	__be32 secret[2];
	__be32 index;
};

struct steer_plan {
	uint64_t secret;
	struct steer_range ranges[STEER_RANGES_MAX]; /* in ascending order */
	unsigned int range_count;
	struct steer_service services[STEER_SERVICES_MAX];
	unsigned int service_count;
	unsigned int first, sockets; /* for QP 1 otherwise: one of them, at random */
};

/* Write the program to @code, of STEER_PROGRAM_MAX. Returns its length. */
unsigned int steer_program(const struct steer_plan *plan, struct sock_filter *code);

/*
 * What a packet is addressed by, as the program reads it: for a process that gets a packet
 * for another one, which may have come before the program was written.
 */
struct steer_target {
	bool request;	     /* by the service id, else by the slot */
	uint16_t slot;	     /* 0: of none */
	bool by_sender;	     /* or by its sender's comm id: a REJ that has none of ours */
	uint64_t service_id; /* whole, other than in the program */
};

struct steer_target steer_target(const void *packet, uint32_t length);

/* Attach the program to the group that @fd belongs to, or detach any. 0 or an errno. */
int steer_attach(int fd, const struct sock_filter *code, unsigned int length);
int steer_detach(int fd);

static inline void steer_fill(struct steer_signal *signal, uint64_t secret, uint32_t index)
{
	*signal = (struct steer_signal){
		.magic = htobe32(STEER_MAGIC),
		.secret = {htobe32(secret >> 32), htobe32(secret)},
		.index = htobe32(index),
	};
}

#endif
