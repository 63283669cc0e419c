/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * dlopen(), interposed: programs that load libibverbs or librdmacm by name
 * (NCCL, Python's ctypes) get this object instead.
 */
#ifndef URXE_VERBS_DLOPEN_H
#define URXE_VERBS_DLOPEN_H

typedef void *(*dlopen_function)(const char *file, int mode);

/* libc's, for verbs/preload/real.c: ours returns this object. */
dlopen_function real_dlopen(void);

#endif
