/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Multicast with librdmacm throughout: the same as multicast_verbs.c in half the lines.
 *
 * An id without an event channel is synchronous: each call returns when it is done, and id->event
 * is what it led to. rdma_create_qp() makes the completion queues, and <rdma/rdma_verbs.h> has
 * calls for what is usual.
 *
 *   cc multicast_rdma.c -o multicast_rdma -lrdmacm -libverbs
 *
 *   ./multicast_rdma receive 239.1.2.3 [ADDRESS]
 *   ./multicast_rdma send 239.1.2.3 [ADDRESS]
 */
#include <netdb.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#include "example.h"

#define MESSAGES 10
#define SIZE 256
#define GRH 40 /* before each message that is received */

static char buffers[MESSAGES][GRH + SIZE];

static struct rdma_addrinfo *look_up(char *name)
{
	struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_UDP, .ai_flags = RAI_PASSIVE}, *info;

	CHECK(rdma_getaddrinfo(name, NULL, &hints, &info) == 0);
	return info;
}

/* With RAI_PASSIVE, the address that was looked up is the "source" of the result. */
static struct rdma_cm_id *create(char *group, char *local)
{
	struct rdma_addrinfo *to = look_up(group), *from = local ? look_up(local) : NULL;
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_UD,
		.cap = {.max_send_wr = MESSAGES,
			.max_recv_wr = MESSAGES,
			.max_send_sge = 1,
			.max_recv_sge = 1},
		.sq_sig_all = 1,
	};
	struct rdma_cm_id *id;

	CHECK(rdma_create_id(NULL, &id, NULL, RDMA_PS_UDP) == 0);
	CHECK(rdma_resolve_addr(id, from ? from->ai_src_addr : NULL, to->ai_src_addr, 2000) == 0);
	CHECK(rdma_create_qp(id, NULL, &init) == 0);
	if (from)
		rdma_freeaddrinfo(from);
	rdma_freeaddrinfo(to);
	return id;
}

static void receive_all(struct rdma_cm_id *id)
{
	struct ibv_wc wc;

	for (int i = 0; i < MESSAGES; i++) {
		CHECK(rdma_get_recv_comp(id, &wc) == 1); /* sleeps until there is one */
		CHECK(wc.status == IBV_WC_SUCCESS);
		printf("%d bytes: %s\n", wc.byte_len - GRH, (char *)(uintptr_t)wc.wr_id + GRH);
	}
}

static void send_all(struct rdma_cm_id *id, struct ibv_mr *mr)
{
	struct rdma_ud_param *group = &id->event->param.ud; /* of the event of the join */
	struct ibv_ah *ah;
	struct ibv_wc wc;

	CHECK(ah = ibv_create_ah(id->pd, &group->ah_attr));
	for (int i = 0; i < MESSAGES; i++) {
		int length = snprintf(buffers[i], SIZE, "multicast %d", i) + 1;

		CHECK(rdma_post_ud_send(id, NULL, buffers[i], length, mr, 0, ah, group->qp_num) ==
		      0);
		CHECK(rdma_get_send_comp(id, &wc) == 1);
		CHECK(wc.status == IBV_WC_SUCCESS);
	}
	printf("sent %d\n", MESSAGES);
	CHECK(ibv_destroy_ah(ah) == 0);
}

int main(int argc, char **argv)
{
	int sends = argc > 1 && strcmp(argv[1], "send") == 0;
	struct rdma_addrinfo *group;
	struct rdma_cm_id *id;
	struct ibv_mr *mr;

	if (argc < 3 || argc > 4 || (!sends && strcmp(argv[1], "receive") != 0)) {
		fprintf(stderr, "usage: multicast_rdma send|receive GROUP [ADDRESS]\n");
		return 2;
	}
	id = create(argv[2], argc > 3 ? argv[3] : NULL);
	CHECK(mr = rdma_reg_msgs(id, buffers, sizeof(buffers)));
	/* The first argument behind id comes back as wr_id. */
	for (int i = 0; i < MESSAGES && !sends; i++)
		CHECK(rdma_post_recv(id, buffers[i], buffers[i], sizeof(buffers[i]), mr) == 0);

	group = look_up(argv[2]);
	CHECK(rdma_join_multicast(id, group->ai_src_addr, NULL) == 0);
	if (sends)
		send_all(id, mr);
	else
		receive_all(id);

	CHECK(rdma_leave_multicast(id, group->ai_src_addr) == 0);
	rdma_freeaddrinfo(group);
	rdma_destroy_qp(id);
	CHECK(rdma_dereg_mr(mr) == 0);
	CHECK(rdma_destroy_id(id) == 0);
	return 0;
}
