/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whether memory is there: what pinning does for hardware when it registers a
 * region, asked of the kernel without allocating any memory; of each mapping one byte is read,
 * for a file may end before it does. Where the kernel can't be asked, for want of a descriptor
 * or of /proc, each page is tried instead, which allocates those that are to be written.
 * Called for the core by verbs/host.c, with the handler of verbs/preload/signals.h installed;
 * no state, no locks.
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
