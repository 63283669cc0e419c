/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a process shows of its devices: a file in /dev/shm for each process that has any open,
 * which `urxe ps`, `urxe top` and `urxe stat` read, and a requester whose peer on this machine
 * doesn't answer. net/observe/observe.h writes it, net/observe/reader.h reads it.
 *
 *      0        struct observe_header: whose it is, and what is in each block
 *      +        block 0: records of one kind, one behind the other
 *      +        block 1 ...
 *
 * The file is as long as the blocks in use, each of OBSERVE_BLOCK bytes. A record is claimed when
 * its object is made and freed when that is destroyed; `id` is 0 while it is free. It isn't a
 * copy for readers alone: counters are counted in it, as they would be in the object.
 *
 * Each record is written by the threads that have its object's lock, with plain stores to cache
 * lines that no other object's record shares, and no lock or barrier is there for readers.
 * What changes with each batch of work is together in one line (struct observe_qp_progress) and
 * written once a batch. So what a reader sees may be torn between two lines: numbers that belong
 * together may be of two moments. It is never older than the last batch, and stays when the
 * process is stopped or killed.
 *
 * The process has a lock on the file's first byte (OFD), which the kernel drops with it.
 *
 * The layout is this version's alone, and OBSERVE_VERSION is to be counted up with each change: a
 * reader leaves files of another version alone. A reader believes nothing else of it: any bytes
 * may be in the file.
 */
#ifndef URXE_NET_OBSERVE_RECORD_H
#define URXE_NET_OBSERVE_RECORD_H

#include <stdatomic.h>
#include <stdint.h>

#include "net/cache_line.h"
#include "net/observe/counters.h"

#define OBSERVE_VERSION 2

#define OBSERVE_BLOCK 16384
#define OBSERVE_BLOCKS 1024 /* objects beyond have their records in memory of the process */

enum observe_kind {
	OBSERVE_NONE,
	OBSERVE_DEVICE,
	OBSERVE_QP,
	OBSERVE_CQ,
	OBSERVE_SRQ,
	OBSERVE_REGION,
	OBSERVE_CONNECTION,
	OBSERVE_KINDS
};

#define OBSERVE_COMMAND 256
#define OBSERVE_SESSION 32

struct observe_header {
	char magic[8];
	uint32_t version;
	uint32_t pid; /* in the PID namespace below */
	uint64_t pid_namespace, net_namespace;
	uint64_t started; /* when the file was made: CLOCK_REALTIME, ns */
	char command[OBSERVE_COMMAND];
	char session[OBSERVE_SESSION]; /* URXE_STAT: of the `urxe stat` it belongs to, or "" */
	/* When another process found that this one has ended, CLOCK_REALTIME in ns; 0: not yet. */
	uint64_t ended;
	_Atomic uint32_t blocks;		  /* in use */
	_Atomic uint32_t left_out[OBSERVE_KINDS]; /* objects that have no record here */
	uint8_t kind[OBSERVE_BLOCKS];		  /* enum observe_kind of each block */
};

#define OBSERVE_MAGIC "urxe\x01obs"
#define OBSERVE_HEADER 4096
_Static_assert(sizeof(struct observe_header) <= OBSERVE_HEADER, "the header has space");

/* First in each record. */
struct observe_head {
	_Atomic uint32_t id; /* of the object in the process, 0: the record is free */
	uint32_t device;     /* the id of the device that it belongs to */
};

/* Which way data goes: a READ is received by its requester and sent by its responder. */
struct observe_traffic {
	uint64_t sent_messages, sent_bytes;
	uint64_t received_messages, received_bytes;
};

/* Why packets were retransmitted, and what became of those that weren't as they should be. */
#define OBSERVE_LOSSES(X)                                                                          \
	X(resent)	      /* packets */                                                        \
	X(timeouts)	      /* of the local ACK timer: requests that no answer came to */        \
	X(sequence_naks)      /* received */                                                       \
	X(missed_responses)   /* that were passed over by a later one */                           \
	X(probes)	      /* packets that ask whether anything was lost */                     \
	X(rnr_naks)	      /* received: the peer has no receive posted */                       \
	X(sequence_naks_sent) /* packets of the peer are missing */                                \
	X(rnr_naks_sent)      /* no receive is posted here */                                      \
	X(duplicates)	      /* requests received again */                                        \
	X(packets_kept)	      /* that came before one of the peer's that is missing */

struct observe_losses {
#define X(name) uint64_t name;
	OBSERVE_LOSSES(X)
#undef X
};

struct observe_totals {
	struct observe_traffic traffic;
	struct observe_losses losses;
};

/* --- devices ------------------------------------------------------------------------------ */

#define OBSERVE_NAME 64
#define OBSERVE_GIDS 16

/* Work requests whose latencies are looked at together. */
enum observe_class {
	OBSERVE_SEND,
	OBSERVE_WRITE,
	OBSERVE_READ,
	OBSERVE_ATOMIC,
	OBSERVE_OTHER, /* FLUSH, memory windows */
	OBSERVE_CLASSES
};

/* Bucket n has the latencies from 2^n ns on; those beyond the last one are in it, too. */
#define OBSERVE_BUCKETS 40

struct observe_latency {
	_Atomic uint64_t bytes;
	_Atomic uint64_t total, longest; /* ns */
	_Atomic uint64_t bucket[OBSERVE_BUCKETS];
};

struct observe_device {
	struct observe_head head;
	uint32_t open;	   /* 0: it was closed, and its figures are kept for `urxe stat` */
	uint32_t measures; /* latencies, because of URXE_STAT */
	char name[OBSERVE_NAME];
	uint64_t guid;		       /* in the network's byte order */
	uint8_t gid[OBSERVE_GIDS][16]; /* zeros: none */

	_Alignas(CACHE_LINE) struct counters counters;
	_Alignas(CACHE_LINE) struct observe_totals
		destroyed;			/* of its queue pairs that are no more */
	_Atomic uint64_t regions, region_bytes; /* registered now */

	_Alignas(CACHE_LINE) struct observe_latency latency[OBSERVE_CLASSES];
};

/* --- queue pairs -------------------------------------------------------------------------- */

/* enum recovery_state of the core, by its names, and what each is called. */
#define OBSERVE_RECOVERY(X)                                                                        \
	X(RECOVERY_SENDING, "sending")                                                             \
	X(RECOVERY_RETRANSMIT, "retransmitting a lost packet")                                     \
	X(RECOVERY_NEXT_PROBE, "probing with the next packet")                                     \
	X(RECOVERY_HEAD_PROBE, "probing with the oldest packet")                                   \
	X(RECOVERY_SECOND_PROBE, "second probe")                                                   \
	X(RECOVERY_RNR_WAIT, "waiting, receiver not ready")                                        \
	X(RECOVERY_FAILED, "failed")

/* Written at the end of each batch of posts or packets, under qp.lock: one cache line. */
struct observe_qp_progress {
	uint64_t changed;	      /* when: CLOCK_MONOTONIC, ns */
	uint32_t posted, sent, done;  /* work requests in all, each mark at or behind the next */
	uint32_t receives;	      /* posted, and not taken yet */
	uint32_t psn, unacked;	      /* to be sent next; the oldest without acknowledgement */
	uint32_t expected_psn;	      /* of the peer's next packet */
	uint32_t in_flight;	      /* bytes that count in the congestion window */
	uint32_t rd_atomic;	      /* READs and atomics without their response */
	uint8_t state;		      /* enum ibv_qp_state */
	uint8_t recovery;	      /* enum recovery_state */
	uint8_t retries, rnr_retries; /* left */
};

struct observe_qp {
	struct observe_head head;
	uint32_t number;
	uint8_t type; /* enum ibv_qp_type */
	uint8_t port;
	uint8_t timeout, retry_count, rnr_retry, min_rnr_timer;
	uint16_t mtu;
	uint32_t max_send_wr, max_recv_wr;
	uint32_t send_cq, recv_cq, srq; /* their numbers, or 0 */
	uint32_t peer_qpn;
	uint8_t local[16], peer[16]; /* GIDs; zeros: none yet, or a datagram QP */

	_Alignas(CACHE_LINE) struct observe_qp_progress progress;
	_Alignas(CACHE_LINE) struct observe_totals done;
	/* The last error that isn't a flush: ibv_wc's status and vendor_err, when, how many. */
	uint32_t error_status, error_cause;
	uint64_t error_at; /* CLOCK_MONOTONIC, ns */
	uint64_t errors;
};

/* --- the other objects -------------------------------------------------------------------- */

/* enum cq_armed of the core, likewise. */
#define OBSERVE_ARMED(X)                                                                           \
	X(CQ_IDLE, "no")                                                                           \
	X(CQ_ARMED_SOLICITED, "solicited")                                                         \
	X(CQ_ARMED_NEXT, "next")

/* Written under cq.lock. */
struct observe_cq {
	struct observe_head head;
	uint32_t number;
	uint32_t capacity;
	uint32_t entries; /* not polled yet */
	uint32_t armed;	  /* enum cq_armed */
	uint32_t overrun;
	_Alignas(8) uint64_t completions, events;
};

/* Written under srq.lock. */
struct observe_srq {
	struct observe_head head;
	uint32_t number; /* its handle */
	uint32_t capacity;
	uint32_t entries; /* posted, and not taken yet */
	uint32_t limit;
};

struct observe_region {
	struct observe_head head;
	uint32_t key; /* L_Key, and R_Key but of the null region */
	uint32_t access;
	uint64_t address, length;
};

/* A connection of the connection manager, or a listener. Written under cm.lock. */
struct observe_connection {
	struct observe_head head;
	uint32_t state; /* enum cm_state */
	uint32_t qpn, peer_qpn;
	uint32_t datagram; /* SIDR */
	uint64_t service_id;
	uint8_t local[16], peer[16]; /* zeros, of a listener: any */
};

/* A record is this long in its block, its own length rounded up to cache lines. */
#define OBSERVE_SIZE(type) ((sizeof(struct type) + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE)

#endif
