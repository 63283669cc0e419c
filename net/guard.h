/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Access to memory of the application, which may have been unmapped, protected or
 * truncated since it was registered. On a NIC its pages would be pinned; here a fault of
 * our own access ends that access and nothing else. Called by links and by the core
 * wherever they touch payload, with any lock held: the caller goes on and reports an error.
 *
 * The process's handler of SIGSEGV and SIGBUS (verbs/preload/signals.h) passes each fault to
 * guard_catch(). Without a handler, as in a simulation, a fault is what it always was.
 * A fault while its signal is blocked ends the process all the same, and threads that block all
 * signals are common: so each thread that uses the library has these two unblocked, when it first
 * calls it (guard_thread()), and from then on (verbs/preload/signals.h).
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

/* Whether this thread has SIGSEGV and SIGBUS unblocked. */
extern _Thread_local bool guard_has_thread __attribute__((tls_model("initial-exec")));
void guard_unblock(void);

/*
 * This thread may touch memory that is guarded: where calls of the application come in. Files are
 * touched outside of guard_run(), so it comes before all else.
 */
static inline void guard_thread(void)
{
	if (__builtin_expect(!guard_has_thread, 0))
		guard_unblock();
}

/* In words, to be read behind "the memory is". */
const char *guard_fault_text(const struct guard_fault *fault);

/*
 * Call @touch, which accesses @memory and neither takes locks nor allocates. False when
 * a fault in @memory ended it; *@fault, if not NULL, then says which.
 */
bool guard_run(const struct iovec *memory, unsigned int count, void (*touch)(void *context),
	       void *context, struct guard_fault *fault);

/*
 * memcpy() to memory of the application. What it writes is seen behind all that was written before;
 * and the last word of it, which a program may wait for to change, at once and behind the rest.
 */
bool guard_write(void *to, const void *from, size_t length, struct guard_fault *fault);
/* memcpy() from memory of the application. What is read later is no older. */
bool guard_read(void *to, const void *from, size_t length, struct guard_fault *fault);

/*
 * Whether @length bytes can be read, or with @write written, now: a byte of each page is read,
 * or written as it is.
 */
bool guard_probe(const void *address, size_t length, bool write, struct guard_fault *fault);

/*
 * Memory of ours, where guard_run() at each access would cost too much: @memory, whole pages, maps
 * a file that other processes may truncate. When a page of it is gone, all of it becomes zeros that
 * no process shares, and the access goes on. False: there are too many already.
 */
bool guard_file(void *memory, size_t length);
void guard_forget_file(void *memory);
/*
 * In a forked child: of the parent's files none is ours, and where they were is other memory. Its
 * signals are the application's.
 */
void guard_after_fork_child(void);

/*
 * For the signal handler, which gave it @context. True when this thread was in guard_run() and the
 * fault is at its memory, or when it was at a guarded file: the handler is to return, and the
 * thread goes on behind guard_run(), or where it was.
 */
bool guard_catch(int signal, const siginfo_t *info, void *context);

#endif
