/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Places in the code of this process: what an address of code is in the source, by the debug
 * information of its object (libdw), if there is any.
 *
 * Called by net/cause/origin, in any thread, with or without locks held. libdw needs more stack
 * than an application's thread may have: it runs on a thread of its own, which is joined, with
 * data of its own each time, so there is no lock here. Nothing waits for the dynamic linker's
 * lock, either: another thread may hold it, in a library's constructor that waits for our locks.
 */
#ifndef URXE_NET_CAUSE_PLACE_H
#define URXE_NET_CAUSE_PLACE_H

#include <stdbool.h>
#include <stdint.h>

struct place {
	const char *object;   /* "libfoo.so.1", without its folder; the program's is its name */
	uintptr_t offset;     /* in it, as addr2line(1) wants it */
	bool is_ours;	      /* in liburxe */
	const char *function; /* or NULL */
	const char *file;     /* without its folder; or NULL: there is no debug information */
	int line;
};

/* Load libdw, where it is here. Once, before any places_visit(), and under no lock. */
void places_prepare(void);

/* Of a return address: its object alone, which takes no time; function and file are NULL. */
struct place place_find(uintptr_t frame);

/*
 * Call @visit for each of the return addresses at @frames, until it returns false; the strings
 * are valid until it returns. Calls of the inline functions of verbs' headers are at the place of
 * the caller.
 */
typedef bool (*place_visit)(void *argument, const struct place *place);
void places_visit(const uintptr_t *frames, unsigned int count, place_visit visit, void *argument);

/*
 * Whether a return address is in an inline function of verbs' headers that the compiler has made
 * one of the object's own, as it does without optimization: places_visit() leaves it out.
 */
bool place_is_inline(uintptr_t frame);

#endif
