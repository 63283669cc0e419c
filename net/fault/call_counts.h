/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How often processes make each call that a fault can refuse: a file that `urxe fuzz` makes, the
 * processes of the program that it runs write (URXE_CALLS), and it reads. It is mapped by all of
 * them, so nothing is lost however a process ends.
 *
 * A process counts in a slot of its own. A forked child goes on from its parent's numbers, as the
 * counts of its faults do. Any thread counts, without a lock; a reader may see two counts of two
 * moments. The file is the user's, and no process truncates it.
 */
#ifndef URXE_NET_FAULT_CALL_COUNTS_H
#define URXE_NET_FAULT_CALL_COUNTS_H

#include <stdatomic.h>
#include <stdint.h>

#include "net/fault/calls.h"

#define CALL_COUNTS_PROCESSES 64 /* those beyond aren't counted */

struct call_counts {
	_Atomic uint32_t pid;  /* 0: the slot is free */
	_Atomic uint32_t last; /* 1 + enum fault_call of the latest call; 0: none yet */
	_Atomic uint32_t count[FAULT_CALLS];
};

struct call_counts_file {
	uint32_t magic;
	uint32_t calls; /* FAULT_CALLS: a library of another version doesn't count */
	struct call_counts process[CALL_COUNTS_PROCESSES];
};

/* --- a process that counts --------------------------------------------------------------- */

struct call_counter {
	struct call_counts_file *file;
	struct call_counts *counts; /* of this process; NULL: it doesn't count */
};

/* A slot in the file at @path, for this process. Returns 0 or an errno. */
int call_counter_open(struct call_counter *counter, const char *path);
/* In a forked child: a slot of its own, if there is one left. */
void call_counter_fork(struct call_counter *counter);

static inline void call_counter_add(struct call_counter *counter, enum fault_call call)
{
	struct call_counts *counts = counter->counts;

	if (!counts)
		return;
	atomic_store_explicit(&counts->last, call + 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&counts->count[call], 1, memory_order_relaxed);
}

/* --- urxe fuzz --------------------------------------------------------------------------- */

/* A file without counts at @path. NULL with errno. */
struct call_counts_file *call_counts_create(const char *path);
void call_counts_clear(struct call_counts_file *file);
void call_counts_unmap(struct call_counts_file *file);

/* The most that a process made of @call. */
uint32_t call_counts_of(const struct call_counts_file *file, enum fault_call call);
/* The latest call of the first process that made any, or FAULT_CALLS. */
enum fault_call call_counts_last(const struct call_counts_file *file);

#endif
