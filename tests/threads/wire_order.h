/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * For TSan: a filter around a link by which it sees that what is received was
 * sent before. It knows nothing of packets that go through the kernel, so to it
 * the memory of a peer in the same process is accessed without order.
 */
#ifndef URXE_TESTS_THREADS_WIRE_ORDER_H
#define URXE_TESTS_THREADS_WIRE_ORDER_H

#include "net/link.h"

/* Wrap @inner, which then belongs to the wrapper. Without TSan: @inner itself. */
struct link *wire_order(struct link *inner);

#endif
