/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/preload/signals.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "net/guard.h"
#include "verbs/preload/export.h"
#include "verbs/preload/real.h"

typedef void (*handler)(int);

static const int faults[] = {SIGSEGV, SIGBUS};
#define FAULTS (sizeof(faults) / sizeof(faults[0]))

/*
 * The lock is taken by signal handlers too: with all signals blocked, so that none
 * interrupts a thread that holds it.
 */
static struct {
	pthread_mutex_t lock;
	bool installed;
	struct sigaction application[FAULTS]; /* what it would have without us */
} signals = {.lock = PTHREAD_MUTEX_INITIALIZER};

static struct sigaction *application_action(int number)
{
	return &signals.application[number == faults[1]];
}

static int real_sigmask(int how, const sigset_t *set, sigset_t *old)
{
	static void *cache;
	int (*real)(int, const sigset_t *, sigset_t *) = real_next(&cache, "pthread_sigmask");

	return real(how, set, old);
}

/* SIGSEGV and SIGBUS are blocked, too: kill() can send them, and on_signal() takes this lock. */
static void signals_lock(sigset_t *before)
{
	sigset_t all;

	sigfillset(&all);
	real_sigmask(SIG_SETMASK, &all, before);
	pthread_mutex_lock(&signals.lock);
}

static void signals_unlock(const sigset_t *before)
{
	pthread_mutex_unlock(&signals.lock);
	real_sigmask(SIG_SETMASK, before, NULL);
}

static int real_sigaction(int number, const struct sigaction *action, struct sigaction *old)
{
	static void *cache;
	int (*real)(int, const struct sigaction *, struct sigaction *) =
		real_next(&cache, "sigaction");

	return real(number, action, old);
}

/* --- the handler ------------------------------------------------------------------------- */

/* What the application has for @number now; what it wanted to have once, it has no more. */
static struct sigaction take_action(int number)
{
	struct sigaction *action = application_action(number), taken;
	sigset_t before;

	signals_lock(&before);
	taken = *action;
	if (taken.sa_flags & SA_RESETHAND && taken.sa_handler != SIG_IGN)
		action->sa_handler = SIG_DFL;
	signals_unlock(&before);
	return taken;
}

/* The access that faulted is made again and ends the process; what was sent is sent again. */
static void default_action(int number, siginfo_t *info)
{
	const struct sigaction action = {.sa_handler = SIG_DFL};

	real_sigaction(number, &action, NULL);
	if (info->si_code <= 0)
		syscall(SYS_rt_tgsigqueueinfo, getpid(), gettid(), number, info);
}

static void on_signal(int number, siginfo_t *info, void *context)
{
	struct sigaction action;
	int error = errno;

	if (guard_catch(number, info, context)) {
		errno = error;
		return;
	}
	action = take_action(number);
	/* The kernel doesn't let a fault be ignored. */
	if (action.sa_handler == SIG_IGN && info->si_code <= 0)
		return;
	errno = error;
	if (action.sa_handler == SIG_IGN || action.sa_handler == SIG_DFL)
		default_action(number, info);
	else
		action.sa_sigaction(number, info, context);
}

/* Our handler, to be called as the application's would be. */
static int set_handler(int number, const struct sigaction *application)
{
	struct sigaction action = *application;

	if (application->sa_handler == SIG_DFL || application->sa_handler == SIG_IGN) {
		sigemptyset(&action.sa_mask);
		action.sa_flags = SA_ONSTACK | SA_RESTART;
	}
	action.sa_flags = (action.sa_flags & ~SA_RESETHAND) | SA_SIGINFO;
	action.sa_sigaction = on_signal;
	return real_sigaction(number, &action, NULL);
}

/* --- installing ----------------------------------------------------------------------------- */

static void install(void)
{
	sigset_t before;

	signals_lock(&before);
	for (unsigned int i = 0; i < FAULTS; i++) {
		real_sigaction(faults[i], NULL, &signals.application[i]);
		set_handler(faults[i], &signals.application[i]);
	}
	signals.installed = true;
	signals_unlock(&before);
}

void signals_install(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, install);
}

void signals_after_fork_child(void)
{
	pthread_mutex_init(&signals.lock, NULL);
	guard_after_fork_child();
}

/* --- the C library's functions: actions ----------------------------------------------------- */

/* TSan of gcc calls sigaction() before it can run code that it watches: it has libc's. */
#ifndef __SANITIZE_THREAD__

static bool is_fault(int number)
{
	return number == SIGSEGV || number == SIGBUS;
}

static int change_fault(int number, const struct sigaction *action, struct sigaction *old)
{
	struct sigaction *application = application_action(number);
	int status = 0;
	sigset_t before;

	signals_lock(&before);
	if (!signals.installed) {
		status = real_sigaction(number, action, old);
	} else {
		if (old)
			*old = *application;
		if (action)
			status = set_handler(number, action);
		if (action && status == 0)
			*application = *action;
	}
	signals_unlock(&before);
	return status;
}

static int change_action(int number, const struct sigaction *action, struct sigaction *old)
{
	struct sigaction next, last;
	int status;

	if (!is_fault(number))
		return real_sigaction(number, action, old);
	/* Pointers of the application are followed where a fault finds nothing locked. */
	if (action)
		next = *action;
	status = change_fault(number, action ? &next : NULL, &last);
	if (old && status == 0)
		*old = last;
	return status;
}

EXPORT int sigaction(int number, const struct sigaction *action, struct sigaction *old)
{
	return change_action(number, action, old);
}

EXPORT int __sigaction(int number, const struct sigaction *action, struct sigaction *old);
EXPORT int __sigaction(int number, const struct sigaction *action, struct sigaction *old)
{
	return change_action(number, action, old);
}

static handler change_handler(int number, handler next, int flags)
{
	struct sigaction action = {.sa_handler = next, .sa_flags = flags}, old;

	sigemptyset(&action.sa_mask);
	if (flags & SA_RESTART)
		sigaddset(&action.sa_mask, number);
	return change_action(number, &action, &old) == 0 ? old.sa_handler : SIG_ERR;
}

/* The C library's call themselves, and not sigaction() where we could see it. */
#define SIGNAL_CALL(name, flags)                                                                   \
	EXPORT handler name(int number, handler next);                                             \
	EXPORT handler name(int number, handler next)                                              \
	{                                                                                          \
		static void *cache;                                                                \
		handler (*real)(int, handler) = real_next(&cache, #name);                          \
                                                                                                   \
		if (likely(!is_fault(number)) || next == SIG_ERR)                                  \
			return real(number, next);                                                 \
		return change_handler(number, next, flags);                                        \
	}

/* clang-format off */
SIGNAL_CALL(signal, SA_RESTART)
SIGNAL_CALL(bsd_signal, SA_RESTART)
SIGNAL_CALL(ssignal, SA_RESTART)
SIGNAL_CALL(sysv_signal, SA_RESETHAND | SA_NODEFER)
SIGNAL_CALL(__sysv_signal, SA_RESETHAND | SA_NODEFER)
/* clang-format on */

static handler current_handler(int number)
{
	struct sigaction now;

	return change_action(number, NULL, &now) == 0 ? now.sa_handler : SIG_ERR;
}

EXPORT handler sigset(int number, handler next)
{
	static void *cache;
	handler (*real)(int, handler) = real_next(&cache, "sigset"), last;
	bool holds = next == SIG_HOLD;
	sigset_t set, before;

	if (likely(!is_fault(number)))
		return real(number, next);
	last = holds ? current_handler(number) : change_handler(number, next, 0);
	sigemptyset(&set);
	sigaddset(&set, number);
	if (last != SIG_ERR)
		pthread_sigmask(holds ? SIG_BLOCK : SIG_UNBLOCK, &set, &before);
	return last != SIG_ERR && sigismember(&before, number) ? SIG_HOLD : last;
}

/* --- the C library's functions: masks ------------------------------------------------------- */

static bool has_fault(const sigset_t *set)
{
	return sigismember(set, SIGSEGV) == 1 || sigismember(set, SIGBUS) == 1;
}

/*
 * A thread that uses the library blocks the two as little as SIGKILL: they are left out of @set,
 * and @old says so. What the kernel blocks while a handler of theirs runs stays blocked. There is
 * no note of what the application believes to have blocked, which siglongjmp(), the end of a
 * handler and the child of a vfork() would make wrong.
 */
static int change_mask(int how, const sigset_t *set, sigset_t *old)
{
	sigset_t blocked, next;

	if (likely(!guard_has_thread) || !set || how == SIG_UNBLOCK || !has_fault(set))
		return real_sigmask(how, set, old);
	sigemptyset(&blocked);
	if (how == SIG_SETMASK)
		real_sigmask(SIG_BLOCK, NULL, &blocked);
	next = *set;
	for (unsigned int i = 0; i < FAULTS; i++) {
		if (!sigismember(&blocked, faults[i]))
			sigdelset(&next, faults[i]);
	}
	return real_sigmask(how, &next, old);
}

EXPORT int pthread_sigmask(int how, const sigset_t *set, sigset_t *old)
{
	return change_mask(how, set, old);
}

EXPORT int sigprocmask(int how, const sigset_t *set, sigset_t *old)
{
	int error = change_mask(how, set, old);

	if (error)
		errno = error;
	return error ? -1 : 0;
}

#endif
