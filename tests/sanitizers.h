/* SPDX-License-Identifier: BSD-2-Clause */
/* Which sanitizer is watching, as gcc and clang say it. */
#ifndef URXE_TESTS_SANITIZERS_H
#define URXE_TESTS_SANITIZERS_H

#ifndef __has_feature
#define __has_feature(feature) 0
#endif

/* It allows a child of several threads no threads of its own. */
#if defined(__SANITIZE_THREAD__) || __has_feature(thread_sanitizer)
#define HAS_TSAN 1
#else
#define HAS_TSAN 0
#endif

#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
#define HAS_ASAN 1
#else
#define HAS_ASAN 0
#endif

#define SANITIZED (HAS_TSAN || HAS_ASAN)

/*
 * Whether a forked child may allocate memory and make threads: a thread of its parent's may have
 * held a lock of a sanitizer's allocator, which has no handlers for forks.
 */
#define CHILD_ALLOCATES (!SANITIZED)

#endif
