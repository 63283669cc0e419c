/* SPDX-License-Identifier: BSD-2-Clause */
/* Completions with an error don't count, and success is waited for: a hang. */
#include "tests/fuzzed/loop.h"

int main(void)
{
	struct loop loop;
	struct ibv_wc wc;
	bool ok = loop_open(&loop) && loop_receive(&loop) == 0 && loop_send(&loop) == 0;

	for (int done = 0; ok && done < 2;) {
		ok = loop_wait(&loop, &wc);
		if (ok && wc.status == IBV_WC_SUCCESS)
			done++;
	}
	return loop_close(&loop) && ok ? 0 : 1;
}
