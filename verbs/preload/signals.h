/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * SIGSEGV and SIGBUS: a fault of our own access to registered memory, or to a file that we share
 * with other processes, is ours (net/guard.h), every other signal the application's. Called when
 * the first device is opened, before such a file is mapped.
 *
 * Our handler stands in front of the application's and has its mask and its flags, so that
 * the kernel does with them what it would do without us. A handler that the application
 * installs or asks for by the C library's functions is kept behind ours; one that it installs
 * by the system call alone is in front, and then nothing is guarded.
 *
 * Threads that use the library have both signals unblocked (guard_thread()), and what they ask the
 * C library to block later leaves them so: an application may block all signals around its calls. A
 * thread that doesn't use it blocks what it likes, and so does one that asks the kernel itself.
 * What is blocked only for the time of a call, as by ppoll(), is no matter, nor is sigwait(), which
 * gets what is sent while it waits.
 */
#ifndef URXE_VERBS_SIGNALS_H
#define URXE_VERBS_SIGNALS_H

/* Once; again it does nothing. Any thread may call this. */
void signals_install(void);
/* In the child of a fork: another thread may have had the lock, and files are the parent's. */
void signals_after_fork_child(void);

#endif
