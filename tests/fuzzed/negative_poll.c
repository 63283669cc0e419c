/* SPDX-License-Identifier: BSD-2-Clause */
/* What ibv_poll_cq() returns is a number of completions to it, though it is negative: a crash. */
#include "tests/fuzzed/loop.h"

static bool drain(struct loop *loop, unsigned int wanted)
{
	struct ibv_wc wc[4];
	unsigned int done = 0;

	while (done < wanted) {
		unsigned int count = ibv_poll_cq(loop->cq, 4, wc);

		for (unsigned int i = 0; i < count; i++) {
			if (wc[i].status != IBV_WC_SUCCESS)
				printf("completion %u: status %d\n", i, wc[i].status);
		}
		done += count;
		usleep(2000);
	}
	return true;
}

int main(void)
{
	struct loop loop;
	bool ok = loop_open(&loop) && loop_receive(&loop) == 0 && loop_send(&loop) == 0 &&
		  drain(&loop, 2);

	return loop_close(&loop) && ok ? 0 : 1;
}
