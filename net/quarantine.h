/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where objects that the application has destroyed lie until they are freed: while the checker is
 * on they stay readable, and their addresses aren't used again, so that a call that is given one
 * can be refused (verbs/check/objects.h). Otherwise they are freed at once.
 *
 * Called by the core and the verbs layer where they free what the application has a pointer to.
 * quarantine.lock, a leaf, protects what waits.
 */
#ifndef URXE_NET_QUARANTINE_H
#define URXE_NET_QUARANTINE_H

#include <stdbool.h>
#include <stddef.h>

/* What waits is at most this; the oldest is freed first. */
#define QUARANTINE_OBJECTS 32768
#define QUARANTINE_BYTES (64u << 20)

/*
 * On for good, before there are objects. @leaves is told of each that is about to be freed, by
 * the pointer that the application has, and called without the lock. False: there is no memory for
 * it.
 */
bool quarantine_enable(void (*leaves)(const void *known));

/* Instead of free(). */
void quarantine_free(void *object, size_t size);
/* The same of what the application knows by another pointer, into it. */
void quarantine_free_as(void *object, size_t size, const void *known);

/* A fork must not find the lock taken. */
void quarantine_before_fork(void);
void quarantine_after_fork(void);

#endif
