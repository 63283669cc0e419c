/* SPDX-License-Identifier: BSD-2-Clause */
/* cmrej -s ADDR | -c ADDR : rdma_cm reject with private data, then a second connect that is
 * accepted with private data, one SEND, disconnect */
#include <arpa/inet.h>
#include <errno.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static struct rdma_event_channel *ch;
static struct rdma_cm_event *ev(void)
{
	struct rdma_cm_event *e;
	if (rdma_get_cm_event(ch, &e)) {
		perror("event");
		exit(1);
	}
	printf("event %s status %d private_data_len %d", rdma_event_str(e->event), e->status,
	       e->param.conn.private_data_len);
	if (e->param.conn.private_data_len) {
		printf(" [");
		const unsigned char *p = e->param.conn.private_data;
		for (int i = 0; i < 24 && i < e->param.conn.private_data_len; i++)
			printf("%02x", p[i]);
		printf("]");
	}
	printf(" resp_res %d init_depth %d flow %d retry %d rnr %d srq %d qpn %x\n",
	       e->param.conn.responder_resources, e->param.conn.initiator_depth,
	       e->param.conn.flow_control, e->param.conn.retry_count, e->param.conn.rnr_retry_count,
	       e->param.conn.srq, e->param.conn.qp_num);
	fflush(stdout);
	return e;
}
static void mkqp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr a = {
		.qp_type = IBV_QPT_RC, .cap = {4, 4, 1, 1, 0}, .sq_sig_all = 1};
	if (rdma_create_qp(id, NULL, &a)) {
		perror("create_qp");
		exit(1);
	}
}
int main(int c, char **v)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(7666)};
	if (c < 3)
		return 2;
	inet_pton(AF_INET, v[2], &a.sin_addr);
	ch = rdma_create_event_channel();
	struct rdma_cm_id *id;
	struct rdma_cm_event *e;
	static char buf[256];
	if (!strcmp(v[1], "-s")) {
		struct rdma_cm_id *l;
		rdma_create_id(ch, &l, NULL, RDMA_PS_TCP);
		if (rdma_bind_addr(l, (void *)&a) || rdma_listen(l, 4)) {
			perror("listen");
			return 1;
		}
		e = ev();
		if (rdma_reject(e->id, "no thanks", 9))
			perror("reject");
		id = e->id;
		rdma_ack_cm_event(e);
		rdma_destroy_id(id);
		e = ev();
		id = e->id;
		rdma_ack_cm_event(e);
		mkqp(id);
		struct ibv_mr *m = rdma_reg_msgs(id, buf, 256);
		rdma_post_recv(id, NULL, buf, 256, m);
		struct rdma_conn_param p = {.private_data = "welcome",
					    .private_data_len = 7,
					    .responder_resources = 3,
					    .initiator_depth = 2,
					    .rnr_retry_count = 5};
		if (rdma_accept(id, &p))
			perror("accept");
		while ((e = ev())->event != RDMA_CM_EVENT_DISCONNECTED)
			rdma_ack_cm_event(e);
		struct ibv_wc w;
		if (ibv_poll_cq(id->recv_cq, 1, &w) == 1)
			printf("recv status %d len %d [%s]\n", w.status, w.byte_len, buf);
		rdma_ack_cm_event(e);
		rdma_disconnect(id);
	} else
		for (int k = 0; k < 2; k++) {
			rdma_create_id(ch, &id, NULL, RDMA_PS_TCP);
			if (rdma_resolve_addr(id, NULL, (void *)&a, 2000))
				perror("resolve");
			rdma_ack_cm_event(ev());
			rdma_resolve_route(id, 2000);
			rdma_ack_cm_event(ev());
			mkqp(id);
			struct ibv_mr *m = rdma_reg_msgs(id, buf, 256);
			strcpy(buf, "payload");
			struct rdma_conn_param p = {.private_data = "hello server",
						    .private_data_len = 12,
						    .responder_resources = 4,
						    .initiator_depth = 5,
						    .retry_count = 6,
						    .rnr_retry_count = 7};
			if (rdma_connect(id, &p))
				perror("connect");
			e = ev();
			int est = e->event == RDMA_CM_EVENT_ESTABLISHED;
			rdma_ack_cm_event(e);
			if (est) {
				rdma_post_send(id, NULL, buf, 8, m, 0);
				struct ibv_wc w;
				while (!ibv_poll_cq(id->send_cq, 1, &w))
					;
				printf("send status %d\n", w.status);
				rdma_disconnect(id);
				while ((e = ev())->event != RDMA_CM_EVENT_DISCONNECTED)
					rdma_ack_cm_event(e);
				rdma_ack_cm_event(e);
				sleep(1);
			}
			rdma_dereg_mr(m);
			rdma_destroy_qp(id);
			rdma_destroy_id(id);
			sleep(1);
		}
	return 0;
}
