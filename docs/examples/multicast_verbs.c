/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Multicast: the connection manager joins the group, libibverbs does the rest.
 *
 * A UD queue pair sends datagrams to an address handle. A program that joins a group gets, with the
 * event, what such a handle is made from.
 *
 *   cc multicast_verbs.c -o multicast_verbs -lrdmacm -libverbs
 *
 *   ./multicast_verbs receive 239.1.2.3 [ADDRESS]       several may receive
 *   ./multicast_verbs send 239.1.2.3 [ADDRESS]
 *
 * ADDRESS is one of this node's; without it, routing decides.
 */
#include <arpa/inet.h>
#include <netdb.h>
#include <rdma/rdma_cma.h>

#include "example.h"

#define MESSAGES 10
#define SIZE 256
#define GRH 40 /* of each datagram's buffer, the first bytes are for the global routing header */

struct member {
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_ah *ah; /* the group's */
	uint32_t remote_qpn, remote_qkey;
	char buffers[MESSAGES][GRH + SIZE];
};

/* What an id was asked for has an event for its answer. Failures are events of other types. */
static struct rdma_cm_event *wait_for_event(struct member *member, enum rdma_cm_event_type wanted)
{
	struct rdma_cm_event *event;

	CHECK(rdma_get_cm_event(member->channel, &event) == 0);
	if (event->event != wanted)
		fprintf(stderr, "%s, status %d\n", rdma_event_str(event->event), event->status);
	CHECK(event->event == wanted);
	return event;
}

static void look_up(const char *name, struct sockaddr_storage *address)
{
	struct addrinfo *info;

	CHECK(getaddrinfo(name, NULL, NULL, &info) == 0);
	memcpy(address, info->ai_addr, info->ai_addrlen);
	freeaddrinfo(info);
}

/* Find the device from which the group is reached: then the id has one. */
static void resolve(struct member *member, struct sockaddr *local, struct sockaddr *group)
{
	CHECK(member->channel = rdma_create_event_channel());
	CHECK(rdma_create_id(member->channel, &member->id, NULL, RDMA_PS_UDP) == 0);
	CHECK(rdma_resolve_addr(member->id, local, group, 2000) == 0);
	rdma_ack_cm_event(wait_for_event(member, RDMA_CM_EVENT_ADDR_RESOLVED));
}

static void create(struct member *member)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_UD,
		.cap = {.max_send_wr = MESSAGES,
			.max_recv_wr = MESSAGES,
			.max_send_sge = 1,
			.max_recv_sge = 1},
		.sq_sig_all = 1,
	};

	CHECK(member->pd = ibv_alloc_pd(member->id->verbs));
	CHECK(member->cq = ibv_create_cq(member->id->verbs, 2 * MESSAGES, NULL, NULL, 0));
	CHECK(member->mr = ibv_reg_mr(member->pd, member->buffers, sizeof(member->buffers),
				      IBV_ACCESS_LOCAL_WRITE));
	init.send_cq = init.recv_cq = member->cq;
	CHECK(rdma_create_qp(member->id, member->pd, &init) == 0); /* ready to send at once */
}

static void join(struct member *member, struct sockaddr *group)
{
	struct rdma_cm_event *event;
	char text[INET6_ADDRSTRLEN];

	CHECK(rdma_join_multicast(member->id, group, NULL) == 0);
	event = wait_for_event(member, RDMA_CM_EVENT_MULTICAST_JOIN);
	member->remote_qpn = event->param.ud.qp_num; /* 0xffffff: all in the group */
	member->remote_qkey = event->param.ud.qkey;  /* which they must have, too */
	CHECK(member->ah = ibv_create_ah(member->pd, &event->param.ud.ah_attr));
	inet_ntop(AF_INET6, event->param.ud.ah_attr.grh.dgid.raw, text, sizeof(text));
	printf("joined %s\n", text);
	rdma_ack_cm_event(event); /* and @event is no more */
}

static void post_receives(struct member *member)
{
	for (int i = 0; i < MESSAGES; i++) {
		struct ibv_sge sge = {(uintptr_t)member->buffers[i], GRH + SIZE, member->mr->lkey};
		struct ibv_recv_wr wr = {.wr_id = i, .sg_list = &sge, .num_sge = 1}, *bad;

		CHECK(ibv_post_recv(member->id->qp, &wr, &bad) == 0);
	}
}

static struct ibv_wc wait_for_completion(struct member *member)
{
	struct ibv_wc wc;
	int count;

	while ((count = ibv_poll_cq(member->cq, 1, &wc)) == 0)
		;
	CHECK(count == 1);
	CHECK(wc.status == IBV_WC_SUCCESS);
	return wc;
}

static void receive_all(struct member *member)
{
	for (int i = 0; i < MESSAGES; i++) {
		struct ibv_wc wc = wait_for_completion(member);

		printf("%d bytes from QP %#x: %s\n", wc.byte_len - GRH, wc.src_qp,
		       member->buffers[wc.wr_id] + GRH);
	}
}

static void send_all(struct member *member)
{
	for (int i = 0; i < MESSAGES; i++) {
		char *text = member->buffers[i] + GRH;
		int length = snprintf(text, SIZE, "multicast %d", i) + 1;
		struct ibv_sge sge = {(uintptr_t)text, length, member->mr->lkey};
		struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND},
				   *bad;

		wr.wr.ud.ah = member->ah;
		wr.wr.ud.remote_qpn = member->remote_qpn;
		wr.wr.ud.remote_qkey = member->remote_qkey;
		CHECK(ibv_post_send(member->id->qp, &wr, &bad) == 0);
		/* It is sent, which doesn't say that it arrives: datagrams aren't acknowledged. */
		wait_for_completion(member);
	}
	printf("sent %d\n", MESSAGES);
}

static void leave(struct member *member, struct sockaddr *group)
{
	CHECK(rdma_leave_multicast(member->id, group) == 0);
	CHECK(ibv_destroy_ah(member->ah) == 0);
	rdma_destroy_qp(member->id);
	CHECK(ibv_dereg_mr(member->mr) == 0);
	CHECK(ibv_destroy_cq(member->cq) == 0);
	CHECK(ibv_dealloc_pd(member->pd) == 0);
	CHECK(rdma_destroy_id(member->id) == 0);
	rdma_destroy_event_channel(member->channel);
}

int main(int argc, char **argv)
{
	static struct member member;
	struct sockaddr_storage group, local;
	int sends = argc > 1 && strcmp(argv[1], "send") == 0;

	if (argc < 3 || argc > 4 || (!sends && strcmp(argv[1], "receive") != 0)) {
		fprintf(stderr, "usage: multicast_verbs send|receive GROUP [ADDRESS]\n");
		return 2;
	}
	look_up(argv[2], &group);
	if (argc > 3)
		look_up(argv[3], &local);
	resolve(&member, argc > 3 ? (struct sockaddr *)&local : NULL, (struct sockaddr *)&group);
	create(&member);
	if (!sends)
		post_receives(&member); /* what finds none is lost */
	join(&member, (struct sockaddr *)&group);
	if (sends)
		send_all(&member);
	else
		receive_all(&member);
	leave(&member, (struct sockaddr *)&group);
	return 0;
}
