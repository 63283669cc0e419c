/* SPDX-License-Identifier: BSD-2-Clause */
/* What is in one of them moves from CPU to CPU together: bytes, of x86 and of most ARM. */
#ifndef URXE_NET_CACHE_LINE_H
#define URXE_NET_CACHE_LINE_H

#define CACHE_LINE 64

#endif
