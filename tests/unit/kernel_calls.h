/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the kernel answers to the calls that net/syscalls.h makes is the test's choice: a program
 * whose main file includes this has a syscall() of its own, which goes before libc's.
 */
#ifndef URXE_TESTS_KERNEL_CALLS_H
#define URXE_TESTS_KERNEL_CALLS_H

#include <dlfcn.h>
#include <stdarg.h>

/* The test's: what syscall() is to return, with errno as there. */
static long answer_call(long number, const long arguments[6]);

static long kernel_call(long number, const long arguments[6])
{
	long (*real)(long, ...) = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");

	return real(number, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4],
		    arguments[5]);
}

/* Of libc. It takes six arguments, however many were given. */
__attribute__((no_sanitize_address)) long syscall(long number, ...)
{
	long arguments[6];
	va_list list;

	va_start(list, number);
	for (unsigned int i = 0; i < 6; i++)
		arguments[i] = va_arg(list, long);
	va_end(list);
	return answer_call(number, arguments);
}

#endif
