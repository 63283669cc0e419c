/* SPDX-License-Identifier: BSD-2-Clause */
/* A queue that is full is taken for one that won't stay so, and nothing is polled: a hang. */
#include "tests/fuzzed/loop.h"

int main(void)
{
	struct loop loop;
	struct ibv_wc wc;
	bool ok = loop_open(&loop) && loop_receive(&loop) == 0;

	if (ok) {
		int error;

		while ((error = loop_send(&loop)) == ENOMEM)
			usleep(1000);
		for (int i = 0; !error && ok && i < 2; i++)
			ok = loop_wait(&loop, &wc) && wc.status == IBV_WC_SUCCESS;
		ok &= !error;
	}
	return loop_close(&loop) && ok ? 0 : 1;
}
