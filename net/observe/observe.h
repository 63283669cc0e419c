/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The file in which this process shows what it has (net/observe/record.h). Made by the verbs
 * layer with the first open device; the core claims a record in it for each of its objects.
 *
 * Where there is no file (no /dev/shm, or no space there), or no more space in it, records are
 * ordinary memory, and all is as it would be with one: only that no other process sees them.
 *
 * Any thread may call at any time; observe.lock is a leaf. A record belongs to its object, whose
 * lock protects it.
 */
#ifndef URXE_NET_OBSERVE_H
#define URXE_NET_OBSERVE_H

#include <stdbool.h>
#include <stdint.h>

#include "net/observe/record.h"

struct observe;

#define OBSERVE_DIRECTORY "/dev/shm"

/*
 * @session: OBSERVE_SESSION, or NULL. Files of processes that ended a while ago are removed on the
 * way. NULL without memory; without a file it works all the same.
 */
struct observe *observe_open(const char *directory, const char *session);
/* All records have been freed. */
void observe_close(struct observe *observe);

/* Whether other processes see anything. */
bool observe_is_shared(const struct observe *observe);

/*
 * Zeros for an object of @device (an id, or 0: it is the device), which readers see once
 * observe_show() was called. With @observe NULL it is ordinary memory. NULL: there is none.
 */
void *observe_claim(struct observe *observe, enum observe_kind kind, uint32_t device);
/* Returns the record's id. */
uint32_t observe_show(struct observe *observe, void *record);
/* Whether @record is in the file. */
bool observe_is_seen(const struct observe *observe, const void *record);
/* NULL is ignored. */
void observe_free(struct observe *observe, enum observe_kind kind, void *record);

/*
 * The process ends, and other threads may still be at work: remove the file. If a `urxe stat` is
 * to read it, or peers of connected QPs may look what became of us, it stays as that of a killed
 * process does: for OBSERVE_KEPT seconds, and until another process comes.
 */
#define OBSERVE_KEPT 60
void observe_at_exit(struct observe *observe);

/*
 * In the child of a fork, before anything else there: the file is the parent's. What a thread of
 * the child would still write goes to memory of its own, and the lock stays the parent's alone.
 */
void observe_after_fork_child(struct observe *observe);

#endif
