/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whether memory is there: what pinning does for hardware when it registers a
 * region, asked of the kernel without touching the memory or allocating any.
 * Called for the core by verbs/host.c; no state, no locks.
 */
#ifndef URXE_VERBS_MEMORY_H
#define URXE_VERBS_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

/*
 * 0 when every byte of @length at @addr is mapped and can be read (and, with
 * @write, written), else EFAULT.
 */
int memory_check(const void *addr, size_t length, bool write);

#endif
