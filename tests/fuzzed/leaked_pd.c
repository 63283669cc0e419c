/* SPDX-License-Identifier: BSD-2-Clause */
/* Where its region can't be registered, the second PD stays: a leak. */
#include "tests/fuzzed/loop.h"

static bool use_another_domain(struct loop *loop)
{
	struct ibv_pd *pd = ibv_alloc_pd(loop->context);
	struct ibv_mr *mr;
	bool ok;

	if (!pd)
		return false;
	mr = ibv_reg_mr(pd, loop->buffer, sizeof(loop->buffer), IBV_ACCESS_LOCAL_WRITE);
	if (!mr)
		return false;
	ok = ibv_dereg_mr(mr) == 0;
	return ibv_dealloc_pd(pd) == 0 && ok;
}

int main(void)
{
	struct loop loop;
	bool ok = loop_open(&loop) && use_another_domain(&loop) && loop_exchange(&loop);

	return loop_close(&loop) && ok ? 0 : 1;
}
