/* SPDX-License-Identifier: BSD-2-Clause */
#include "world.h"
#include "net/fault/injector.h"
#include "net/newer_verbs.h"
#include "tests/run_suite.h"

#include <arpa/inet.h>
#include <stdlib.h>

#define SECOND_PORT_SUBNET 128 /* 10.128.x.y */

const struct connection world_connection = {
	.mtu = IBV_MTU_1024,
	.timeout = 14,
	.retry_cnt = 7,
	.rnr_retry = 7,
	.min_rnr_timer = 12,
	.rd_atomic = 8,
	.access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
		  IBV_ACCESS_REMOTE_ATOMIC | ACCESS_FLUSH_GLOBAL,
	.psn = 0xfffff0, /* wraps soon */
	.port_num = 1,
};

static void on_completion(void *context, struct cq *cq)
{
	((struct node *)context)->completion_events++;
}

static void on_async(void *context, enum ibv_event_type type, void *element)
{
	struct node *node = context;

	node->events[type]++;
	node->elements[type] = element;
}

static void on_connection(void *context, struct cm_event *event)
{
	struct node *node = context;

	if (node->connection)
		node->connection(node, event);
}

/* The table is filled by hand, since these addresses belong to no interface. */
static void add_address(struct node *node, struct gid_table *gids, unsigned int subnet)
{
	unsigned int index = node - node->world->nodes;
	struct in_addr address = {.s_addr = htonl(0x0a000001 + (subnet << 16) + index)};
	struct gid_entry *entry = &gids->entries[gids->count++];

	gid_from_ipv4(&entry->gid, &address);
	entry->mtu = 65536;
	ck_assert_int_eq(node->link->ops->add_address(node->link, &entry->gid, 0), 0);
}

void world_add_address(struct node *node, unsigned int subnet)
{
	add_address(node, &node->gids, subnet);
}

static void make_port(struct node *node, struct gid_table *gids, unsigned int subnet)
{
	pthread_mutex_init(&gids->lock, NULL);
	gids->entries = calloc(GID_TABLE_LENGTH, sizeof(*gids->entries));
	add_address(node, gids, subnet);
}

/* One thread has all HCAs: none can wait for another. */
static void world_yield(void)
{
	ck_abort_msg("an HCA waits for another thread");
}

static size_t world_page_size(void)
{
	return 4096;
}

/* All memory is there: what the machine under the simulation has mapped changes no run. */
static int world_check_memory(const void *addr, size_t length, bool write)
{
	return 0;
}

static bool world_lock_at_exit(pthread_mutex_t *lock)
{
	return pthread_mutex_trylock(lock) == 0;
}

const struct hca_host world_host = {
	.yield = world_yield,
	.page_size = world_page_size,
	.check_memory = world_check_memory,
	.lock_at_exit = world_lock_at_exit,
};

static void node_create(struct world *world, struct node *node, unsigned int index, uint64_t seed)
{
	struct hca_options options = {.seed = seed * 7919 + index};

	node->world = world;
	node->link = sim_link_create(world->sim);
	make_port(node, &node->gids, 0);
	make_port(node, &node->second_gids, SECOND_PORT_SUBNET);
	options.link = node->link;
	node->injector = malloc(sizeof(*node->injector));
	injector_init(node->injector);
	options.injector = node->injector;
	options.gids = (struct port_gids){{&node->gids, &node->second_gids}};
	options.host = &world_host;
	options.node_guid = 0x0200000000000001 + index;
	cm_queue_init(&node->cm_queue, on_connection, node);
	options.cm_sink = cm_queue_sink(&node->cm_queue);
	options.sink = (struct event_sink){on_completion, on_async, node};
	ck_assert_int_eq(hca_create(&options, &node->hca), 0);
	ck_assert_int_eq(pd_alloc(node->hca, &node->pd), 0);
	ck_assert_int_eq(cq_create(node->hca, 4096, &node->cq), 0);
}

void world_create(struct world *world, unsigned int nodes, const struct sim_options *options,
		  uint64_t seed)
{
	struct sim_options clean = {.latency = 1000};

	if (options)
		clean = *options;
	clean.seed = seed;
	world->sim = sim_create(&clean);
	world->count = nodes;
	world->grain = 0;
	world->nodes = calloc(nodes, sizeof(*world->nodes));
	for (unsigned int i = 0; i < nodes; i++)
		node_create(world, &world->nodes[i], i, seed);
}

void world_destroy(struct world *world)
{
	for (unsigned int i = 0; i < world->count; i++) {
		struct node *node = &world->nodes[i];

		ck_assert_int_eq(cq_destroy(node->cq), 0);
		ck_assert_int_eq(pd_dealloc(node->pd), 0);
		hca_destroy(node->hca);
		injector_destroy(node->injector);
		free(node->injector);
		cm_queue_destroy(&node->cm_queue);
		node->link->ops->close(node->link);
		free(node->gids.entries);
		free(node->second_gids.entries);
	}
	free(world->nodes);
	sim_destroy(world->sim);
}

uint64_t world_now(const struct world *world)
{
	return sim_now(world->sim);
}

void world_inject(struct node *node, const char *specification)
{
	ck_assert_int_eq(injector_set(node->injector, specification, NULL), 0);
	hca_progress(node->hca, world_now(node->world));
}

void world_stall(struct node *node, uint64_t time)
{
	node->stalled_until = time == TIME_NEVER ? TIME_NEVER : world_now(node->world) + time;
}

bool world_is_stalled(const struct node *node)
{
	return node->stalled_until > world_now(node->world);
}

/* Until nothing more happens at this time. */
static void run_until_idle(struct world *world)
{
	bool any;

	do {
		any = false;
		for (unsigned int i = 0; i < world->count; i++) {
			if (!world_is_stalled(&world->nodes[i]))
				any |= hca_progress(world->nodes[i].hca, sim_now(world->sim));
			cm_queue_deliver(&world->nodes[i].cm_queue);
		}
	} while (any);
}

static uint64_t next_event(struct world *world)
{
	uint64_t next = sim_next(world->sim);

	for (unsigned int i = 0; i < world->count; i++) {
		uint64_t deadline = hca_deadline(world->nodes[i].hca);

		if (deadline != TIME_NEVER && deadline < world->nodes[i].stalled_until)
			deadline = world->nodes[i].stalled_until;
		if (deadline < next)
			next = deadline;
	}
	return next;
}

/* To the next event; false when there is none. */
static bool advance(struct world *world)
{
	uint64_t next = next_event(world);

	if (next == TIME_NEVER)
		return false;
	if (next < sim_now(world->sim) + world->grain)
		next = sim_now(world->sim) + world->grain;
	sim_advance(world->sim, next);
	return true;
}

bool world_step(struct world *world)
{
	run_until_idle(world);
	return advance(world);
}

void world_run(struct world *world, uint64_t limit)
{
	uint64_t end = sim_now(world->sim) + limit;

	for (;;) {
		uint64_t next;

		run_until_idle(world);
		next = next_event(world);
		if (next == TIME_NEVER)
			return;
		if (next > end)
			break;
		sim_advance(world->sim, next);
	}
	sim_advance(world->sim, end);
}

struct qp *world_qp(struct node *node, const struct qp_options *options)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = &node->cq->ibv,
		.recv_cq = &node->cq->ibv,
		.srq = (struct ibv_srq *)options->srq,
		.cap = options->cap,
		.qp_type = options->type,
		.sq_sig_all = options->sq_sig_all,
	};
	struct qp *qp;

	if (options->xrcd)
		ck_assert_int_eq(qp_create_xrc_recv(options->xrcd, &attr, &qp), 0);
	else
		ck_assert_int_eq(qp_create(node->hca, node->pd, &attr, &qp), 0);
	return qp;
}

const union ibv_gid *world_gid(const struct node *node, uint8_t port_num)
{
	return &node->hca->gids.tables[port_num - 1]->entries[0].gid;
}

struct node *world_node(const struct qp *qp)
{
	return qp->hca->events.sink.context;
}

void world_modify_init(struct qp *qp, const struct connection *c)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = c->port_num,
		.qkey = 0x11111111,
		.qp_access_flags = c->access,
	};
	int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
		   (qp->type->connected ? IBV_QP_ACCESS_FLAGS : IBV_QP_QKEY);

	ck_assert_int_eq(qp_modify(qp, &attr, mask, world_now(world_node(qp)->world)), 0);
}

void world_modify_rtr_to(struct qp *qp, const union ibv_gid *gid, uint32_t peer_qpn,
			 const struct connection *c)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = c->mtu,
		.dest_qp_num = peer_qpn,
		.rq_psn = c->psn,
		.max_dest_rd_atomic = c->rd_atomic,
		.min_rnr_timer = c->min_rnr_timer,
		.ah_attr = {.is_global = 1, .port_num = c->port_num, .grh = {.hop_limit = 64}},
	};
	int mask = IBV_QP_STATE;

	attr.ah_attr.grh.dgid = *gid;
	if (qp->type->connected)
		mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (qp->type->reliable && qp->type->abilities & QP_RECEIVE)
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	ck_assert_int_eq(qp_modify(qp, &attr, mask, world_now(world_node(qp)->world)), 0);
}

void world_modify_rtr(struct qp *qp, struct node *node, struct node *peer, uint32_t peer_qpn,
		      const struct connection *c)
{
	world_modify_rtr_to(qp, world_gid(peer, c->port_num), peer_qpn, c);
}

void world_modify_rts(struct qp *qp, const struct connection *c)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.sq_psn = c->psn,
		.timeout = c->timeout,
		.retry_cnt = c->retry_cnt,
		.rnr_retry = c->rnr_retry,
		.max_rd_atomic = c->rd_atomic,
	};
	int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;

	if (qp->type->reliable)
		mask |= IBV_QP_TIMEOUT;
	if (qp->type->reliable && qp->type->abilities & QP_SEND)
		mask |= IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
	ck_assert_int_eq(qp_modify(qp, &attr, mask, world_now(world_node(qp)->world)), 0);
}

int world_modify(struct qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	return qp_modify(qp, attr, mask, world_now(world_node(qp)->world));
}

struct ibv_qp_attr world_query(struct qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	qp_query(qp, &attr, &init);
	return attr;
}

void world_modify_state(struct qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = {.qp_state = state};

	ck_assert_int_eq(world_modify(qp, &attr, IBV_QP_STATE), 0);
}

void world_connect(struct node *a, struct qp *qa, struct node *b, struct qp *qb,
		   const struct connection *c)
{
	world_modify_init(qa, c);
	world_modify_init(qb, c);
	world_modify_rtr(qa, a, b, qb->number, c);
	world_modify_rtr(qb, b, a, qa->number, c);
	world_modify_rts(qa, c);
	world_modify_rts(qb, c);
}

struct mr *world_mr(struct node *node, void *memory, size_t length, int access)
{
	struct mr *mr;

	ck_assert_int_eq(mr_register(node->pd, memory, length, (uintptr_t)memory, access, &mr), 0);
	return mr;
}

int world_poll(struct node *node, struct ibv_wc *wc)
{
	struct completion completion;
	int n = cq_poll(node->cq, &completion, 1);

	if (n)
		*wc = completion.wc;
	return n;
}

struct ibv_wc world_completion(struct node *node, uint64_t limit)
{
	uint64_t end = world_now(node->world) + limit;
	struct ibv_wc wc;

	run_until_idle(node->world);
	while (world_poll(node, &wc) == 0) {
		must_msg(advance(node->world) && world_now(node->world) <= end,
			 "no completion by %llu ns", (unsigned long long)world_now(node->world));
		run_until_idle(node->world);
	}
	return wc;
}

void world_expect(struct node *node, uint64_t wr_id, enum ibv_wc_status status)
{
	struct ibv_wc wc = world_completion(node, 1000 * SECOND);

	must_msg(wc.wr_id == wr_id && wc.status == status,
		 "completion of %llu with status %d, not of %llu with %d",
		 (unsigned long long)wc.wr_id, wc.status, (unsigned long long)wr_id, status);
}

void world_expect_none(struct node *node, uint64_t limit)
{
	struct ibv_wc wc;

	world_run(node->world, limit);
	must_msg(world_poll(node, &wc) == 0, "completion of %llu with status %d",
		 (unsigned long long)wc.wr_id, wc.status);
}

int world_post_send(struct qp *qp, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	return qp_post_send(qp, wr, &bad, false, LAZY_TIME(world_now(world_node(qp)->world)));
}

int world_post_flush(struct qp *qp, struct flush_wr *flush)
{
	struct ibv_send_wr *bad;

	return qp_post_send(qp, &flush->wr, &bad, true,
			    LAZY_TIME(world_now(world_node(qp)->world)));
}

int world_post_recv(struct qp *qp, void *memory, uint32_t length, uint32_t lkey, uint64_t wr_id)
{
	struct ibv_sge sge = {.addr = (uintptr_t)memory, .length = length, .lkey = lkey};
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = length ? 1 : 0}, *bad;

	return qp_post_recv(qp, &wr, &bad);
}

/*
 * All in one process, unless CK_FORK says otherwise: a world leaves nothing behind, and a process
 * for each test takes longer than most tests, above all with a sanitizer.
 */
int world_main(const char *name, TCase *const *tcases)
{
	Suite *suite = suite_create(name);

	setenv("CK_FORK", "no", 0);
	for (; *tcases; tcases++) {
		tcase_set_timeout(*tcases, 600);
		suite_add_tcase(suite, *tcases);
	}
	return run_suite(suite);
}
