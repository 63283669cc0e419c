/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The congestion window: how many bytes may be in flight to a destination. This file is what
 * all algorithms have in common and how they are called; an algorithm is a file of its own
 * (emu/transport/cubic.c) and a struct cwnd_algorithm. Which queue pair gets the next bytes is
 * decided elsewhere (emu/transport/arbiter.h), and so is what counts as a loss
 * (emu/transport/recovery.h).
 *
 * RC has no window of its own, and what overflows on a UDP path is most often the receiver's
 * socket buffer, which all queue pairs share that send there: so there is one window a
 * destination. A packet counts with what it costs there, bytes and CWND_PACKET_OVERHEAD, and
 * a READ's responses count from the moment they are requested.
 *
 * Belongs to a destination (emu/transport/destination.h), under its lock.
 */
#ifndef URXE_EMU_CWND_H
#define URXE_EMU_CWND_H

#include <stdbool.h>
#include <stdint.h>

#include "net/wire/wire.h"

struct rtt;

/* What a packet costs a receiver's buffer beyond its bytes (832 bytes for a small one). */
#define CWND_PACKET_OVERHEAD 512

/* The unit of growth: the largest packet. */
#define CWND_SEGMENT (WIRE_PATH_MTU_MAX + CWND_PACKET_OVERHEAD)

/* RFC 9438, 4: what CUBIC remembers from one reduction to the next. */
struct cubic {
	double most;	/* W_max, bytes */
	double period;	/* K, seconds */
	double reno;	/* W_est, bytes: the window that Reno would have */
	uint64_t epoch; /* when growth began after the last reduction, ns */
	uint64_t grown; /* the latest growth, ns */
	bool epoch_began;
};

struct cwnd;

/* Why a window is to be reduced. */
enum cwnd_loss {
	CWND_LOST_ONE,	/* a packet alone: by chance, perhaps */
	CWND_LOST_MANY, /* packets in a row, or none is known to have arrived behind the first */
	CWND_MARKED	/* nothing was lost, but a queue on the path is getting long (RFC 3168) */
};

struct cwnd_algorithm {
	void (*init)(struct cwnd *cwnd);
	/* @bytes arrived while the window was in use: let it grow. */
	void (*on_acked)(struct cwnd *cwnd, uint64_t bytes, const struct rtt *rtt, uint64_t now);
	/* Reduce the window. */
	void (*on_lost)(struct cwnd *cwnd, bool marked);
};

extern const struct cwnd_algorithm cwnd_cubic;

/* What a reduction changes: the copy from before it undoes it. */
struct cwnd_size {
	uint64_t limit;	   /* bytes */
	uint64_t ssthresh; /* RFC 5681: below it the window doubles every round trip */
	union {
		struct cubic cubic;
	};
};

struct cwnd {
	const struct cwnd_algorithm *algorithm;
	struct cwnd_size size, before; /* before the last reduction */
	uint64_t in_flight;
	uint64_t most;	   /* that the limit grows to: CWND_MOST, or what the link has space for */
	uint64_t grows_at; /* not before then */
	uint64_t reduced_at;
	uint32_t reductions;
	enum cwnd_loss reduced_for;
	bool restored; /* the last reduction was spurious, and was undone */
};

void cwnd_init(struct cwnd *cwnd, const struct cwnd_algorithm *algorithm);
/* Never let the window be larger than @most bytes. */
void cwnd_bound(struct cwnd *cwnd, uint64_t most);

/*
 * Whether @bytes more may be in flight. With nothing in flight anything may, or it never would; and
 * what takes more than half of the window (a READ's responses) may when half of it is free, or
 * small packets would always go first.
 */
bool cwnd_may_send(const struct cwnd *cwnd, uint64_t bytes);

void cwnd_on_sent(struct cwnd *cwnd, uint64_t bytes);
void cwnd_on_acked(struct cwnd *cwnd, uint64_t bytes, const struct rtt *rtt, uint64_t now);
/* @bytes leave the window without an acknowledgement. */
void cwnd_on_discarded(struct cwnd *cwnd, uint64_t bytes);

/*
 * Reduce the window, once a round trip at the most: losses within a round trip are one event
 * (RFC 9002, 7.3.1). Single losses leave a path of little delay what keeps it full: there it is the
 * receiver's buffer that overflows, by many packets at once. Returns the number of the reduction
 * that this loss is part of, for cwnd_on_spurious(). 0: it was made for another loss, and stands
 * even if this one turns out to be spurious. (Queue pairs that take all they have in flight for
 * lost share a number: an answer to one of them shows that the peer was slow to all.)
 */
uint32_t cwnd_on_lost(struct cwnd *cwnd, enum cwnd_loss loss, const struct rtt *rtt, uint64_t now);

/* What was taken for lost in reduction @number had arrived: restore the window (RFC 9438, 4.9). */
void cwnd_on_spurious(struct cwnd *cwnd, uint32_t number);

/*
 * The shortest round trip is measured anew (rtt_measure_anew()): until @until the window is so
 * small that a queue on the path which it keeps full runs empty. Then it opens again by slow start.
 */
void cwnd_drain(struct cwnd *cwnd, uint64_t until);

/*
 * A queue pair goes back N, and has nothing in flight. Where a round trip is long, a whole window
 * sent at once would overflow the very queue that has lost some of it: so the window opens again by
 * slow start, as TCP's does after a timeout (RFC 5681, 3.1).
 */
void cwnd_on_restart(struct cwnd *cwnd, const struct rtt *rtt);

#endif
