/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the files that define public symbols share. The versions of the symbols
 * are in liburxe.map.
 */
#ifndef URXE_VERBS_EXPORT_H
#define URXE_VERBS_EXPORT_H

#define EXPORT __attribute__((visibility("default")))

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

#endif
