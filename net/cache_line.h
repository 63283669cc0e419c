/* SPDX-License-Identifier: BSD-2-Clause */
/* Cache lines: what is in one moves from CPU to CPU together. */
#ifndef URXE_NET_CACHE_LINE_H
#define URXE_NET_CACHE_LINE_H

#include <stddef.h>

#define CACHE_LINE 64 /* bytes, of x86 and of most ARM */

/* @bytes, rounded up to whole lines. */
static inline size_t cache_line_end(size_t bytes)
{
	return (bytes + CACHE_LINE - 1) & ~(size_t)(CACHE_LINE - 1);
}

#endif
