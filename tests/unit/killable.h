/* SPDX-License-Identifier: BSD-2-Clause */
/* Processes that have what their death has to free, and are killed. */
#ifndef URXE_TESTS_UNIT_KILLABLE_H
#define URXE_TESTS_UNIT_KILLABLE_H

#include <check.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

/* Returns when a process has done @begin, which can end it; it does nothing more. */
static inline pid_t killable_process(void (*begin)(const void *argument), const void *argument)
{
	int ready[2];
	pid_t pid;
	char byte;

	ck_assert_int_eq(pipe(ready), 0);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		begin(argument);
		if (write(ready[1], "", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(ready[1]);
	ck_assert_int_eq(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	return pid;
}

static inline void kill_and_wait(pid_t pid)
{
	int status;

	kill(pid, SIGKILL);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFSIGNALED(status));
}

#endif
