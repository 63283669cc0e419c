/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The real libibverbs and librdmacm: their functions, found when they are first
 * needed, and never loaded by a process that needs none.
 *
 * Any thread may call this; the caches are written once with the same value.
 */
#ifndef URXE_VERBS_REAL_H
#define URXE_VERBS_REAL_H

#include <stdbool.h>

enum real_library { REAL_VERBS, REAL_CM };

/*
 * The real @name with symbol version @version (NULL: its default version), or
 * NULL when this host has none. @cache is the caller's, a static.
 */
void *real_find(void **cache, enum real_library library, const char *name, const char *version);

/* The next definition of @name behind ours, for functions of libc. */
void *real_next(void **cache, const char *name);

/*
 * Not 0 while this thread is inside the real library on our behalf: what that
 * calls, it wants answered by itself (ibv_get_device_list from rdma_create_id).
 */
extern _Thread_local unsigned int inside_real;

/* Whether @file, with its folder or without, is named as libibverbs or librdmacm is. */
bool real_is_named(const char *file);
/* Whether @address lies in the real libibverbs or librdmacm. */
bool real_contains(const void *address);

#endif
