/* SPDX-License-Identifier: BSD-2-Clause */
/* A handler of faults as the verbs layer has it: each is for the guard, or ends the test. */
#ifndef URXE_TESTS_UNIT_FAULTS_H
#define URXE_TESTS_UNIT_FAULTS_H

#include <check.h>
#include <signal.h>
#include <stdlib.h>

#include "net/guard.h"

static inline void on_fault(int number, siginfo_t *info, void *context)
{
	if (!guard_catch(number, info, context))
		abort();
}

/* libc's own: a handler that TSan has in its hands mustn't jump. */
int __sigaction(int number, const struct sigaction *action, struct sigaction *old);

/* What the verbs layer does when a device is opened. */
static inline void catch_faults(void)
{
	struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};

	sigemptyset(&action.sa_mask);
	ck_assert_int_eq(__sigaction(SIGSEGV, &action, NULL), 0);
	ck_assert_int_eq(__sigaction(SIGBUS, &action, NULL), 0);
}

#endif
