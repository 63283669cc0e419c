/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/verbs/other_process.h"

#include <check.h>
#include <sys/wait.h>
#include <unistd.h>

struct other_process other_process_start(int (*main)(int in, int out))
{
	struct other_process process;
	int to[2], from[2];
	char byte;

	ck_assert_int_eq(pipe(to), 0);
	ck_assert_int_eq(pipe(from), 0);
	process = (struct other_process){fork(), to[1], from[0]};
	ck_assert_int_ge(process.pid, 0);
	if (process.pid == 0) {
		close(to[1]);
		_exit(main(to[0], from[1]));
	}
	close(to[0]);
	close(from[1]);
	ck_assert_int_eq(read(from[0], &byte, 1), 1);
	return process;
}

void other_process_end(const struct other_process *process)
{
	int status;

	close(process->to);
	ck_assert_int_eq(waitpid(process->pid, &status, 0), process->pid);
	ck_assert_int_eq(status, 0);
	close(process->from);
}
