/* SPDX-License-Identifier: BSD-2-Clause */
/* Whether the message could be posted isn't looked at, and its completion is waited for: a hang. */
#include "tests/fuzzed/loop.h"

int main(void)
{
	struct loop loop;
	struct ibv_wc wc;
	bool ok = loop_open(&loop);

	if (ok) {
		loop_receive(&loop);
		loop_send(&loop);
		for (int i = 0; ok && i < 2; i++)
			ok = loop_wait(&loop, &wc) && wc.status == IBV_WC_SUCCESS;
	}
	return loop_close(&loop) && ok ? 0 : 1;
}
