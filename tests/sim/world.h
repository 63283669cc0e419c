/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A world for simulator tests: HCAs on one simulated network, virtual time, and
 * what a test needs of the verbs layer (objects, connecting, polling).
 */
#ifndef URXE_TESTS_SIM_WORLD_H
#define URXE_TESTS_SIM_WORLD_H

#include <check.h>

#include "emu/hca.h"
#include "emu/objects/cq.h"
#include "emu/objects/mr.h"
#include "emu/objects/pd.h"
#include "emu/objects/qp.h"
#include "emu/objects/srq.h"
#include "emu/objects/xrcd.h"
#include "net/sim/sim.h"
#include "tests/cm_queue.h"
#include "tests/destroy.h"
#include "tests/must.h"

#define MS UINT64_C(1000000)
#define SECOND (1000 * MS)

struct injector;
struct world;

/* A node with one HCA, one PD and one CQ; QPs and MRs are made by the test. */
struct node {
	struct world *world;
	struct link *link;
	struct gid_table gids, second_gids; /* of ports 1 and 2, one address each */
	struct injector *injector;	    /* no faults, until world_inject() */
	struct hca *hca;
	struct pd *pd;
	struct cq *cq;
	unsigned int events[32]; /* async events, by type */
	void *elements[32];	 /* what the last one of each was about */
	unsigned int completion_events;
	struct cm_queue cm_queue;
	void (*connection)(struct node *node, struct cm_event *event); /* may be NULL */
	void *context;						       /* the test's */
	uint64_t stalled_until; /* its process isn't scheduled before */
};

struct world {
	struct sim *sim;
	struct node *nodes;
	unsigned int count;
	uint64_t grain; /* the clock moves on by at least this: 0, or more for the sake of speed */
};

/* @options NULL: a clean network with 1 us latency and @seed. */
void world_create(struct world *world, unsigned int nodes, const struct sim_options *options,
		  uint64_t seed);
void world_destroy(struct world *world);
uint64_t world_now(const struct world *world);

/*
 * Let everything happen that is due; then move the clock to the next event. False: nothing is left.
 */
bool world_step(struct world *world);
/* Let @limit ns pass, no more; less when nothing is left to happen. */
void world_run(struct world *world, uint64_t limit);

/*
 * For @time ns, or with TIME_NEVER for good, nothing runs on @node: packets wait in its receive
 * queue, deadlines pass. The test mustn't post to it meanwhile.
 */
void world_stall(struct node *node, uint64_t time);
bool world_is_stalled(const struct node *node);

/* The faults of @node from now on; of packets there are none. */
void world_inject(struct node *node, const char *specification);

struct qp_options {
	enum ibv_qp_type type;
	struct ibv_qp_cap cap;
	struct srq *srq;
	struct xrcd *xrcd; /* XRC_RECV */
	int sq_sig_all;
};

struct qp *world_qp(struct node *node, const struct qp_options *options);

/* Attributes as connect applies them; tests change what they are about. */
struct connection {
	enum ibv_mtu mtu;
	uint8_t timeout, retry_cnt, rnr_retry, min_rnr_timer, rd_atomic;
	int access;
	uint32_t psn;
	uint8_t port_num; /* of both ends */
};
extern const struct connection world_connection;

/* The machine that all nodes run on: one thread, pages of 4 KiB, no memory that isn't there. */
extern const struct hca_host world_host;

void world_modify_init(struct qp *qp, const struct connection *c);
void world_modify_rtr(struct qp *qp, struct node *node, struct node *peer, uint32_t peer_qpn,
		      const struct connection *c);
/* The same, to a peer that needn't be a node. */
void world_modify_rtr_to(struct qp *qp, const union ibv_gid *gid, uint32_t peer_qpn,
			 const struct connection *c);
void world_modify_rts(struct qp *qp, const struct connection *c);
void world_modify_state(struct qp *qp, enum ibv_qp_state state);
/* 0 or an errno. */
int world_modify(struct qp *qp, const struct ibv_qp_attr *attr, int mask);
struct ibv_qp_attr world_query(struct qp *qp);
/* Both to RTS, each the other's peer. */
void world_connect(struct node *a, struct qp *qa, struct node *b, struct qp *qb,
		   const struct connection *c);

/* One more address of @node, 10.@subnet.x.y, at the next index of its first port's GID table. */
void world_add_address(struct node *node, unsigned int subnet);

/* The address of the port @port_num of @node. */
const union ibv_gid *world_gid(const struct node *node, uint8_t port_num);

/* The node that @qp was made on. */
struct node *world_node(const struct qp *qp);

struct mr *world_mr(struct node *node, void *memory, size_t length, int access);

/* Poll one completion, running the world until it comes; fails the test after @limit ns without. */
struct ibv_wc world_completion(struct node *node, uint64_t limit);
/* As ibv_poll_cq: 0 or 1, runs nothing. */
int world_poll(struct node *node, struct ibv_wc *wc);

/* The next completion must be this one. */
void world_expect(struct node *node, uint64_t wr_id, enum ibv_wc_status status);
/* Let @limit ns pass: nothing may complete. */
void world_expect_none(struct node *node, uint64_t limit);

int world_post_send(struct qp *qp, struct ibv_send_wr *wr);
/* The same of a list that has FLUSHes: each of its requests is in a struct flush_wr. */
int world_post_flush(struct qp *qp, struct flush_wr *flush);
int world_post_recv(struct qp *qp, void *memory, uint32_t length, uint32_t lkey, uint64_t wr_id);

/* What main() of a test does: run @tcases, NULL at the end. */
int world_main(const char *name, TCase *const *tcases);

#endif
