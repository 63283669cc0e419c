/* SPDX-License-Identifier: BSD-2-Clause */
/* The message about a QP that can't be created has its number: a crash. */
#include "tests/fuzzed/loop.h"

static struct ibv_qp *create(const struct loop *loop)
{
	struct ibv_qp *qp = loop_qp(loop);

	if (!qp || qp->state != IBV_QPS_RESET)
		fprintf(stderr, "QP %u can't be used: %s\n", qp->qp_num, strerror(errno));
	return qp;
}

int main(void)
{
	struct loop loop;
	bool ok = loop_open(&loop);
	struct ibv_qp *third = ok ? create(&loop) : NULL;

	ok = third && loop_exchange(&loop);
	if (third)
		ok &= ibv_destroy_qp(third) == 0;
	return loop_close(&loop) && ok ? 0 : 1;
}
