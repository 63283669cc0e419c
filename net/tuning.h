/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tuning: every constant that was chosen by measuring, with the reason for its
 * value. What the specification or the wire format fixes isn't here. How to
 * measure again: docs/performance.md.
 */
#ifndef URXE_NET_TUNING_H
#define URXE_NET_TUNING_H

#endif
