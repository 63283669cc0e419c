/* SPDX-License-Identifier: BSD-2-Clause */
#include "node.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "net/clock.h"
#include "net/fault/fault.h"
#include "net/udp/udp.h"
#include "own_address.h"
#include "verbs/host.h"
#include "wire_order.h"

#define QKEY 0x1234

/* The object of an event is still there, however soon it will be destroyed. */
static void on_completion(void *context, struct cq *cq)
{
	struct node *node = context;

	must(cq->hca == node->hca);
	pthread_mutex_lock(&node->lock);
	node->completion_events++;
	pthread_cond_broadcast(&node->event);
	pthread_mutex_unlock(&node->lock);
}

static void on_async(void *context, enum ibv_event_type type, void *element)
{
	struct node *node = context;

	pthread_mutex_lock(&node->lock);
	node->async_events[type]++;
	pthread_mutex_unlock(&node->lock);
}

static void on_connection(void *context, struct cm_event *event)
{
	struct node *node = context;

	node->connection(node, event);
}

static void deadline_changed(void *context, uint64_t time)
{
	struct node *node = context;
	struct progress_client *client = __atomic_load_n(&node->client, __ATOMIC_ACQUIRE);

	if (client)
		progress_deadline(client, time);
}

static bool node_progress(void *context, uint64_t now)
{
	struct node *node = context;
	bool any = hca_progress(node->hca, now);

	cm_queue_deliver(&node->cm_queue);
	return any;
}

static uint64_t node_deadline(void *context)
{
	return hca_deadline(((struct node *)context)->hca);
}

static unsigned int node_descriptors(void *context, int *fds, unsigned int max)
{
	struct link *link = ((struct node *)context)->link;

	return link->ops->descriptors(link, fds, max);
}

void node_create_over(struct node *node, struct progress *progress, unsigned int index,
		      const char *faults, const struct shm_options *shm)
{
	static const struct progress_ops ops = {.progress = node_progress,
						.deadline = node_deadline,
						.descriptors = node_descriptors};
	const struct udp_options udp = {.segmentation = true};
	struct hca_options options = {
		.gids.tables = {&node->gids},
		.host = &process_host,
		.sink = {on_completion, on_async, node},
		.node_guid = 0x0200000000000001 + index,
		.deadline = deadline_changed,
		.deadline_context = node,
		.seed = index + 1,
	};
	struct progress_client *client;
	struct link *inner;
	char address[OWN_ADDRESS_LENGTH];

	*node = (struct node){0};
	pthread_mutex_init(&node->lock, NULL);
	pthread_cond_init(&node->event, NULL);
	own_address(address, index);
	must(gid_table_init(&node->gids, address) == 0);
	must(udp_link_create(&udp, &inner) == 0);
	if (shm)
		must(shm_link_create(inner, shm, &inner) == 0);
	node->link = inner;
	if (faults)
		must(fault_link_create(inner, faults, &node->link, NULL) == 0);
	node->link = wire_order(node->link);
	must(node->link->ops->add_address(node->link, &node->gids.entries[0].gid, 0) == 0);
	cm_queue_init(&node->cm_queue, on_connection, node);
	options.cm_sink = cm_queue_sink(&node->cm_queue);
	options.link = node->link;
	must(hca_create(&options, &node->hca) == 0);
	must(progress_attach(progress, &ops, node, &client) == 0);
	__atomic_store_n(&node->client, client, __ATOMIC_RELEASE);
	must(pd_alloc(node->hca, &node->pd) == 0);
	must(cq_create(node->hca, 65536, &node->cq) == 0);
}

void node_create(struct node *node, struct progress *progress, unsigned int index,
		 const char *faults)
{
	const char *link = getenv("URXE_LINK");
	const struct shm_options shm = {};

	node_create_over(node, progress, index, faults,
			 link && strcmp(link, "shm") == 0 ? &shm : NULL);
}

void node_destroy(struct node *node)
{
	struct progress_client *client = node->client;

	must(cq_destroy(node->cq) == 0);
	must(pd_dealloc(node->pd) == 0);
	__atomic_store_n(&node->client, NULL, __ATOMIC_RELEASE);
	progress_detach(client);
	hca_destroy(node->hca);
	cm_queue_destroy(&node->cm_queue);
	node->link->ops->close(node->link);
	gid_table_destroy(&node->gids);
	pthread_cond_destroy(&node->event);
	pthread_mutex_destroy(&node->lock);
}

int node_poll(struct node *node, struct cq *cq, struct completion *completions, int max)
{
	int count = cq_poll(cq, completions, max);

	if (count)
		return count;
	if (!progress_poll(node->client, clock_now(), NULL)) {
		sched_yield();
		return 0;
	}
	return cq_poll(cq, completions, max);
}

uint64_t node_completion_events(struct node *node)
{
	uint64_t events;

	pthread_mutex_lock(&node->lock);
	events = node->completion_events;
	pthread_mutex_unlock(&node->lock);
	return events;
}

uint64_t node_sleep(struct node *node, uint64_t seen)
{
	pthread_mutex_lock(&node->lock);
	while (node->completion_events == seen)
		pthread_cond_wait(&node->event, &node->lock);
	seen = node->completion_events;
	pthread_mutex_unlock(&node->lock);
	return seen;
}

struct qp *node_qp(struct node *node, enum ibv_qp_type type, struct cq *cq, struct srq *srq)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = &cq->ibv,
		.recv_cq = &cq->ibv,
		.srq = (struct ibv_srq *)srq,
		.cap = {.max_send_wr = 64,
			.max_recv_wr = 64,
			.max_send_sge = 2,
			.max_recv_sge = 2,
			.max_inline_data = 64},
		.qp_type = type,
	};
	struct qp *qp;

	must(qp_create(node->hca, node->pd, &attr, &qp) == 0);
	return qp;
}

struct mr *node_mr(struct node *node, void *memory, size_t length)
{
	struct mr *mr;

	must(mr_register(node->pd, memory, length, (uintptr_t)memory,
			 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
				 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND,
			 &mr) == 0);
	return mr;
}

static void modify(struct qp *qp, struct ibv_qp_attr *attr, int mask)
{
	must(qp_modify(qp, attr, mask | IBV_QP_STATE, clock_now()) == 0);
}

void node_connect(struct node *node, struct qp *qp, const struct node *peer, uint32_t peer_qpn,
		  uint32_t psn)
{
	struct ibv_qp_attr attr = {
		.port_num = 1,
		.qkey = QKEY,
		.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				   IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer_qpn,
		.rq_psn = psn,
		.sq_psn = psn,
		.max_rd_atomic = 4,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 1,
		.timeout = 14, /* 67 ms: what is lost is soon repeated, but a busy machine not given
				  up */
		.retry_cnt = 7,
		.rnr_retry = 7,
		.ah_attr = {.is_global = 1, .port_num = 1},
	};
	bool rc = qp->type->reliable, ud = !qp->type->connected;

	if (!ud)
		attr.ah_attr.grh.dgid = peer->gids.entries[0].gid;
	attr.qp_state = IBV_QPS_INIT;
	modify(qp, &attr,
	       IBV_QP_PKEY_INDEX | IBV_QP_PORT | (ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS));
	attr.qp_state = IBV_QPS_RTR;
	modify(qp, &attr,
	       (ud ? 0 : IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN) |
		       (rc ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0));
	attr.qp_state = IBV_QPS_RTS;
	modify(qp, &attr,
	       IBV_QP_SQ_PSN | (rc ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
						IBV_QP_MAX_QP_RD_ATOMIC
				   : 0));
}

int node_modify(struct qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = {.qp_state = state};

	return qp_modify(qp, &attr, IBV_QP_STATE, clock_now());
}

static uint8_t pattern(uint64_t seed, uint32_t i)
{
	return seed * 37 + i + (i >> 8);
}

void fill_pattern(uint8_t *memory, uint32_t length, uint64_t seed)
{
	for (uint32_t i = 0; i < length; i++)
		memory[i] = pattern(seed, i);
}

bool has_pattern(const uint8_t *memory, uint32_t length, uint64_t seed)
{
	for (uint32_t i = 0; i < length; i++)
		if (memory[i] != pattern(seed, i))
			return false;
	return true;
}
