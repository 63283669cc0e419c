/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Names of the files of net/observe/record.h, what is in one, and which are removed. For observe.c,
 * reader.c and tests.
 */
#ifndef URXE_NET_OBSERVE_FILE_H
#define URXE_NET_OBSERVE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/observe/record.h"

/* "urxe-process-VERSION-USER-PID-TIME" */
#define OBSERVE_PATH 128
bool observe_name(char name[OBSERVE_PATH]);
/* Whether @name is one, of a process of our user; which version it is of. */
bool observe_is_name(const char *name, int *version);

/* CLOCK_REALTIME, ns. */
uint64_t observe_wall_clock(void);

/*
 * Mark files of processes that have ended, and remove those that were marked OBSERVE_KEPT seconds
 * ago.
 */
void observe_sweep(const char *directory);

/* Records of @kind in a block, and their length. 0: there is no such kind. */
unsigned int observe_block_records(unsigned int kind);
size_t observe_record_size(unsigned int kind);

#endif
