/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Access to memory of the application, which may have been unmapped, protected or
 * truncated since it was registered. On a NIC its pages would be pinned; here a fault of
 * our own access ends that access and nothing else. Called by links and by the core
 * wherever they touch payload, with any lock held: the caller goes on and reports an error.
 *
 * The process's handler of SIGSEGV and SIGBUS (verbs/preload/signals.h) passes each fault to
 * guard_catch(). Without a handler, as in a simulation, a fault is what it always was.
 * Each thread that comes here has these two signals unblocked once and for all.
 * State is a thread's own, but for the table of files, which the handler of any thread reads.
 * No locks.
 */
#ifndef URXE_NET_GUARD_H
#define URXE_NET_GUARD_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/uio.h>

/* The smallest page of all machines: what is in one page of this size goes away together. */
#define GUARD_PAGE 4096

/* What became of the memory, as siginfo says it. */
struct guard_fault {
	int signal, code;
	const void *address;
};

/* In words, to be read behind "the memory is". */
const char *guard_fault_text(const struct guard_fault *fault);

/*
 * Call @touch, which accesses @memory and neither takes locks nor allocates. False when
 * a fault in @memory ended it; @fault (or NULL) is then told which.
 */
bool guard_run(const struct iovec *memory, unsigned int count, void (*touch)(void *context),
	       void *context, struct guard_fault *fault);

/* memcpy(), between our memory and the application's. */
bool guard_copy(void *to, const void *from, size_t length, struct guard_fault *fault);

/*
 * Whether @length bytes can be read, or with @write written, now: a byte of each page is read,
 * or written as it is.
 */
bool guard_probe(const void *address, size_t length, bool write, struct guard_fault *fault);

/*
 * Memory of ours, for which this is too much at each access: @memory, whole pages, maps a file
 * that other processes may truncate. When a page of it is gone, all of it becomes zeros that no
 * process shares, and the access goes on. False: there are too many already.
 */
bool guard_file(void *memory, size_t length);
void guard_forget_file(void *memory);
/* In a forked child: of the parent's files none is ours, and where they were is other memory. */
void guard_after_fork_child(void);

/*
 * For the signal handler: when this thread was in guard_run() and the fault is at its memory,
 * end that with the signal mask @before, and don't return. True when it was at a guarded
 * file, and the thread may go on.
 */
bool guard_catch(int signal, const siginfo_t *info, const sigset_t *before);

#endif
