/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two places of each of two misuses, in a program whose compiler has made functions of the inline
 * ones of verbs' headers: options.py has the checker tell them apart.
 */
#include <infiniband/verbs.h>

#include "tests/must.h"

static char memory[64];

static void post_first(struct ibv_qp *qp)
{
	struct ibv_send_wr wr = {.wr_id = 1, .opcode = IBV_WR_SEND}, *bad;

	must(ibv_post_send(qp, &wr, &bad) != 0);
}

static void post_second(struct ibv_qp *qp)
{
	struct ibv_send_wr wr = {.wr_id = 2, .opcode = IBV_WR_SEND}, *bad;

	must(ibv_post_send(qp, &wr, &bad) != 0);
}

/* What isn't known when it is compiled leads to another function than constant flags. */
static void leak_first(struct ibv_pd *pd, int access)
{
	must(ibv_reg_mr(pd, memory, sizeof(memory), access));
}

static void leak_second(struct ibv_pd *pd, int access)
{
	must(ibv_reg_mr(pd, memory, sizeof(memory), access));
}

int main(int argc, char **argv)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = list ? ibv_open_device(list[0]) : NULL;
	struct ibv_pd *pd = context ? ibv_alloc_pd(context) : NULL;
	struct ibv_cq *cq = context ? ibv_create_cq(context, 2, NULL, NULL, 0) : NULL;
	struct ibv_qp_init_attr attr = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC};
	struct ibv_qp *qp = pd ? ibv_create_qp(pd, &attr) : NULL;

	must(qp);
	post_first(qp);
	post_second(qp);
	leak_first(pd, argc - 1);
	leak_second(pd, argc - 1);
	must(ibv_destroy_qp(qp) == 0 && ibv_destroy_cq(cq) == 0);
	ibv_free_device_list(list);
	return 0;
}
