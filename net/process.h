/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What /proc says of other processes. Called by net/share/roster_lock.c, of the thread that has the
 * roster locked, and by net/observe/reader.c. No cancellation points: callers may hold locks.
 */
#ifndef URXE_NET_PROCESS_H
#define URXE_NET_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

/*
 * The state of a process or thread as proc(5) has it, 'R' for instance; 0: it can't be known.
 * @pid_namespace (observe_namespace()) is where it has the number @id: numbers of another namespace
 * than ours stand for other threads here.
 */
char process_state(uint32_t id, uint64_t pid_namespace);
/* By SIGSTOP and the like, or a debugger. */
bool process_is_stopped(char state);

#endif
