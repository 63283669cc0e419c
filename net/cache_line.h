/* SPDX-License-Identifier: BSD-2-Clause */
/* What is in one of them moves from CPU to CPU together: bytes, of x86 and of most ARM. */
#ifndef URXE_NET_CACHE_LINE_H
#define URXE_NET_CACHE_LINE_H

#include <stddef.h>

#define CACHE_LINE 64

/* @bytes, up to the end of the last line that they take. */
static inline size_t cache_line_end(size_t bytes)
{
	return (bytes + CACHE_LINE - 1) & ~(size_t)(CACHE_LINE - 1);
}

#endif
