/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What /proc says of processes. Namespaces are of this one: net/observe shows them, net/control and
 * net/share tell by them whether another process is in the same. States are of others: of the
 * thread that has the roster locked (net/share/roster_lock.c), for net/observe/reader.c, and of a
 * thread of ours (verbs/progress.c). No cancellation points: callers may hold locks.
 */
#ifndef URXE_NET_PROCESS_H
#define URXE_NET_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

/* Inode of a namespace of this process, "net" or "pid"; 0, and errno: not known. */
uint64_t process_namespace(const char *name);

/*
 * The state of a process or thread as proc(5) has it, 'R' for instance; 0: it can't be known.
 * @pid_namespace (process_namespace()) is where it has the number @id: numbers of another namespace
 * than ours stand for other threads here.
 */
char process_state(uint32_t id, uint64_t pid_namespace);
/* By SIGSTOP and the like, or a debugger. */
bool process_is_stopped(char state);

#endif
