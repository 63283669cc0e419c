/* SPDX-License-Identifier: BSD-2-Clause */
/* Two devices of one process, whose queue pairs have numbers of one space: each is its own. */
#include <check.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/must.h"
#include "tests/run_suite.h"
#include "tests/verbs/fixture.h"

enum { ROUNDS = 20, WRONG = 1, RIGHT = 2, LENGTH = 64 };

static struct device {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	union ibv_gid gid;
	uint8_t memory[LENGTH];
} devices[2];

static void move(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = FIXTURE_QKEY, .sq_psn = 1};

	must(ibv_modify_qp(qp, &attr,
			   IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY) == 0);
	attr.qp_state = IBV_QPS_RTR;
	must(ibv_modify_qp(qp, &attr, IBV_QP_STATE) == 0);
	attr.qp_state = IBV_QPS_RTS;
	must(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN) == 0);
}

static void open_one(struct device *device, struct ibv_device *ibv)
{
	struct ibv_qp_init_attr init = {
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_UD,
		.sq_sig_all = 1,
	};

	must(device->context = ibv_open_device(ibv));
	must(device->pd = ibv_alloc_pd(device->context));
	must(device->cq = ibv_create_cq(device->context, 8, NULL, NULL, 0));
	must(device->mr = ibv_reg_mr(device->pd, device->memory, LENGTH, IBV_ACCESS_LOCAL_WRITE));
	init.send_cq = init.recv_cq = device->cq;
	must(device->qp = ibv_create_qp(device->pd, &init));
	must(ibv_query_gid(device->context, 1, 0, &device->gid) == 0);
	move(device->qp);
}

static void close_one(struct device *device)
{
	must(ibv_destroy_qp(device->qp) == 0);
	must(ibv_dereg_mr(device->mr) == 0);
	must(ibv_destroy_cq(device->cq) == 0);
	must(ibv_dealloc_pd(device->pd) == 0);
	must(ibv_close_device(device->context) == 0);
}

static struct ibv_ah *address_of(struct device *from, const struct device *to)
{
	struct ibv_ah_attr attr = {
		.is_global = 1, .port_num = 1, .grh = {.dgid = to->gid, .hop_limit = 1}};

	return ibv_create_ah(from->pd, &attr);
}

static void send_to(struct device *from, struct ibv_ah *ah, const struct ibv_qp *to, uint32_t imm)
{
	struct ibv_send_wr *bad,
		wr = {
			.opcode = IBV_WR_SEND_WITH_IMM,
			.imm_data = imm,
			.wr.ud = {.ah = ah, .remote_qpn = to->qp_num, .remote_qkey = FIXTURE_QKEY},
		};

	must(ibv_post_send(from->qp, &wr, &bad) == 0);
	must(wait_completion(from->cq).status == IBV_WC_SUCCESS);
}

static void receive(struct device *device)
{
	struct ibv_sge sge = {(uintptr_t)device->memory, LENGTH, device->mr->lkey};
	struct ibv_recv_wr *bad, wr = {.sg_list = &sge, .num_sge = 1};

	must(ibv_post_recv(device->qp, &wr, &bad) == 0);
}

/* A datagram to a device isn't for the queue pair of another one that has the number. */
START_TEST(numbers_of_another_device)
{
	struct device *one = &devices[0], *two = &devices[1];
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_ah *wrong, *right;

	open_one(one, list[0]);
	open_one(two, list[1]);
	ibv_free_device_list(list);
	must(wrong = address_of(one, one));
	must(right = address_of(one, two));
	receive(two);
	for (int i = 0; i < ROUNDS; i++) {
		receive(two);
		send_to(one, wrong, two->qp, WRONG);
		send_to(one, right, two->qp, RIGHT);
		ck_assert_uint_eq(wait_completion(two->cq).imm_data, RIGHT);
	}
	must(ibv_destroy_ah(wrong) == 0);
	must(ibv_destroy_ah(right) == 0);
	close_one(one);
	close_one(two);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("devices");
	TCase *tests = tcase_create("devices");
	unsigned int high = getpid() >> 8 & 0xff, low = getpid() & 0xff;
	char text[64];

	snprintf(text, sizeof(text), "one=127.86.%u.%u;two=127.87.%u.%u", high, low, high, low);
	setenv("URXE_DEVICES", text, 1);
	tcase_add_test(tests, numbers_of_another_device);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
