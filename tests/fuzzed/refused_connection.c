/* SPDX-License-Identifier: BSD-2-Clause */
/* A connection is waited for, and not looked for whether it is refused: a hang. */
#include <arpa/inet.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdio.h>

static bool create_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr init = {
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
	};

	return rdma_create_qp(id, NULL, &init) == 0;
}

/* Of the channel, until one is of @type; accepts on the way what is asked for. */
static bool wait_for(struct rdma_event_channel *channel, enum rdma_cm_event_type type)
{
	struct rdma_conn_param param = {};
	enum rdma_cm_event_type got;
	struct rdma_cm_event *event;
	bool ok = true;

	do {
		if (rdma_get_cm_event(channel, &event) != 0)
			return false;
		got = event->event;
		if (got == RDMA_CM_EVENT_CONNECT_REQUEST)
			ok = create_qp(event->id) && rdma_accept(event->id, &param) == 0;
		rdma_ack_cm_event(event);
	} while (ok && got != type);
	return ok;
}

static bool connect_both(struct rdma_event_channel *channel, struct rdma_cm_id *listener,
			 struct rdma_cm_id *client)
{
	struct sockaddr_in address = {.sin_family = AF_INET};
	struct rdma_conn_param param = {.retry_count = 7};

	inet_pton(AF_INET, "127.0.0.2", &address.sin_addr);
	if (rdma_bind_addr(listener, (struct sockaddr *)&address) || rdma_listen(listener, 1))
		return false;
	address.sin_port = rdma_get_src_port(listener);
	return rdma_resolve_addr(client, NULL, (struct sockaddr *)&address, 1000) == 0 &&
	       wait_for(channel, RDMA_CM_EVENT_ADDR_RESOLVED) &&
	       rdma_resolve_route(client, 1000) == 0 &&
	       wait_for(channel, RDMA_CM_EVENT_ROUTE_RESOLVED) && create_qp(client) &&
	       rdma_connect(client, &param) == 0 && wait_for(channel, RDMA_CM_EVENT_ESTABLISHED);
}

int main(void)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *listener, *client;
	bool ok;

	/* The end of the process tidies up. */
	ok = channel && rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP) == 0 &&
	     rdma_create_id(channel, &client, NULL, RDMA_PS_TCP) == 0 &&
	     connect_both(channel, listener, client);
	return ok ? 0 : 1;
}
