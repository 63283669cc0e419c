/* SPDX-License-Identifier: BSD-2-Clause */
/* A child that does something beside the test, in step with it, and ends when that is over. */
#ifndef URXE_TESTS_OTHER_PROCESS_H
#define URXE_TESTS_OTHER_PROCESS_H

#include <sys/types.h>

struct other_process {
	pid_t pid;
	int to, from; /* pipes, of a byte for each step */
};

/*
 * Start it with @main, whose result is its exit status, and wait for the first byte that it writes
 * to @out. It is to end, with 0, at the end of @in.
 */
struct other_process other_process_start(int (*main)(int in, int out));
void other_process_end(const struct other_process *process);

#endif
