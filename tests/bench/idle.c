/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What an application costs that has a device open, a connection made and used,
 * and nothing to do: prints the share of a CPU, in percent, that the process
 * uses while its main thread sleeps.
 *
 *   idle [SECONDS]
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "rc.h"

#define MESSAGES 1000
#define IDLE_WAIT_US 50000 /* after work the progress thread may wait a moment for more */

static uint8_t memory[4096];

static uint64_t cpu_ns(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000000ull +
	       (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1000ull;
}

static void work(struct ibv_qp *qp, struct ibv_cq *cq, const struct ibv_mr *mr)
{
	struct ibv_sge sge = {(uintptr_t)memory, 8, mr->lkey};
	struct ibv_wc wc;

	for (int i = 0; i < MESSAGES; i++) {
		rc_post(qp, IBV_WR_RDMA_WRITE, i, &sge, (uintptr_t)memory + 64, mr->rkey);
		while (!rc_poll(cq, &wc, 1))
			;
	}
}

int main(int argc, char **argv)
{
	unsigned int seconds = argc > 1 ? atoi(argv[1]) : 3;
	struct rc_device device;
	struct ibv_qp *qps[2];
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	uint64_t cpu;

	rc_open(&device);
	cq = ibv_create_cq(device.context, 16, NULL, NULL, 0);
	CHECK(cq);
	mr = rc_register(&device, memory, sizeof(memory));
	for (int i = 0; i < 2; i++) {
		qps[i] = rc_create(&device, cq, cq, 16, 16);
		rc_init(qps[i]);
	}
	for (int i = 0; i < 2; i++)
		rc_connect(qps[i], &device.gid, qps[!i]->qp_num);
	work(qps[0], cq, mr);
	usleep(IDLE_WAIT_US);

	cpu = cpu_ns();
	sleep(seconds);
	printf("%.4f\n", (cpu_ns() - cpu) / (seconds * 1e9) * 100);

	for (int i = 0; i < 2; i++)
		CHECK(ibv_destroy_qp(qps[i]) == 0);
	CHECK(ibv_dereg_mr(mr) == 0);
	CHECK(ibv_destroy_cq(cq) == 0);
	rc_close(&device);
	return 0;
}
