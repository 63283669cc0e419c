/* SPDX-License-Identifier: BSD-2-Clause */
/* A second region is registered, and used whether or not that has succeeded: a crash. */
#include "tests/fuzzed/loop.h"

int main(void)
{
	static char more[LOOP_BYTES];
	struct loop loop;
	bool ok = loop_open(&loop);
	struct ibv_mr *mr;

	if (ok) {
		mr = ibv_reg_mr(loop.pd, more, sizeof(more), IBV_ACCESS_LOCAL_WRITE);
		printf("key %#x\n", mr->lkey);
		ok = ibv_dereg_mr(mr) == 0 && loop_exchange(&loop);
	}
	return loop_close(&loop) && ok ? 0 : 1;
}
