/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which of two ways to move bytes is the faster one: a plain way, and one that is worth its trouble
 * on some machines only. Which machines those are can't be told from outside: it depends on what
 * CPUs share, how their instructions copy and what a system call costs, and in a virtual machine it
 * changes without a notice. So both ways are tried from time to time, and compared by the shortest
 * time that a block took, for that one wasn't interrupted.
 *
 * Called by the links that have such a choice, with the lock of the connection or ring that it
 * belongs to.
 */
#ifndef URXE_NET_CHOICE_H
#define URXE_NET_CHOICE_H

#include <stdbool.h>
#include <stdint.h>

struct choice_rule {
	uint64_t first; /* bytes until the special way is tried first; at most a round */
	uint64_t round; /* bytes until the way that isn't taken is tried again */
	uint64_t trial; /* bytes of either way that are compared */
	/* By way: bytes of a trial before that, until what the other way left behind is gone. */
	uint64_t settling[2];
	/* The special way is taken if the plain one takes more than so many percent of its time. */
	unsigned int percent;
};

struct choice {
	const struct choice_rule *rule;
	bool special;	   /* the way that is taken */
	uint64_t moved;	   /* bytes since the latest decision */
	uint64_t least[2]; /* by way, the shortest time for a MiB, ns; 0: none */
};

/* What is moved one way. */
struct choice_block {
	bool special;
	uint64_t begun; /* ns; 0: its time isn't taken */
};

/* The plain way, until both are compared. @rule stays the caller's. */
void choice_init(struct choice *choice, const struct choice_rule *rule);
/* A block is to be moved: which way? */
struct choice_block choice_begin(const struct choice *choice);
/* It has been, all of its @length bytes. */
void choice_end(struct choice *choice, const struct choice_block *block, uint32_t length);
/* The same, in @time ns, which are of no importance unless @block's time is taken. */
void choice_end_after(struct choice *choice, const struct choice_block *block, uint32_t length,
		      uint64_t time);

#endif
