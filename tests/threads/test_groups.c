/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * QPs that come, attach to groups, receive, detach and go, in several threads,
 * while other threads send to the groups all the time: a QP gets whole messages of its
 * own groups only, and each of them does get some.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "net/clock.h"
#include "net/random.h"
#include "node.h"
#include "tests/run_suite.h"

#define MEMBERS 3
#define GROUPS 3
#define ROUNDS 500 /* of each member, each with a new QP */
#define RECEIVES 8
#define QKEY 0x1234 /* what node_connect() sets */
#define LENGTH 200
#define BUFFER (LENGTH + GRH_LENGTH)

struct nodes {
	struct progress *progress;
	struct node from, to;
	struct ah *ahs[GROUPS];
	_Atomic bool over;
};

struct member {
	struct nodes *nodes;
	pthread_t thread;
	unsigned int index;
	struct cq *cq;
	struct mr *mr;
	uint8_t memory[RECEIVES * BUFFER];
};

/* No other process's, either. */
static union ibv_gid group_gid(unsigned int number)
{
	unsigned int pid = getpid();
	union ibv_gid gid = {.raw = {[10] = 0xff, 0xff, 239, pid >> 8 & 255, pid & 255, number}};

	return gid;
}

/* --- senders ------------------------------------------------------------------------ */

/* A message begins with the number of its group. */
static void *send_always(void *argument)
{
	static uint8_t messages[GROUPS][LENGTH];
	struct nodes *nodes = argument;
	struct qp *qp = node_qp(&nodes->from, IBV_QPT_UD, nodes->from.cq, NULL);
	struct mr *mr = node_mr(&nodes->from, messages, sizeof(messages));
	struct completion completions[8];

	node_connect(&nodes->from, qp, NULL, 0, 0);
	for (unsigned int i = 0; i < GROUPS; i++)
		fill_pattern(messages[i], LENGTH, i);
	for (unsigned int i = 0; !atomic_load(&nodes->over); i++) {
		struct ibv_sge sge = {(uintptr_t)messages[i % GROUPS], LENGTH, mr->ibv.lkey};
		struct ibv_send_wr *bad, wr = {
						 .sg_list = &sge,
						 .num_sge = 1,
						 .opcode = IBV_WR_SEND_WITH_IMM,
						 .imm_data = htobe32(i % GROUPS),
						 .send_flags = IBV_SEND_SIGNALED,
					 };
		int error;

		wr.wr.ud.ah = &nodes->ahs[i % GROUPS]->ibv;
		wr.wr.ud.remote_qpn = QPN_MULTICAST;
		wr.wr.ud.remote_qkey = QKEY;
		error = qp_post_send(qp, &wr, &bad, false, LAZY_TIME(clock_now()));
		must(error == 0 || error == ENOMEM);
		node_poll(&nodes->from, nodes->from.cq, completions, 8);
	}
	must(qp_destroy(qp) == 0);
	must(mr_deregister(mr) == 0);
	return NULL;
}

/* --- members ------------------------------------------------------------------------- */

static void check_message(const struct member *member, const struct ibv_wc *wc, unsigned int group)
{
	must(wc->status == IBV_WC_SUCCESS);
	must(wc->byte_len == BUFFER);
	must(be32toh(wc->imm_data) == group);
	must(has_pattern(member->memory + wc->wr_id * BUFFER + GRH_LENGTH, LENGTH, group));
}

/* With a QP of its own in @group, until enough has come. */
static void be_member(struct member *member, unsigned int group)
{
	struct node *node = &member->nodes->to;
	struct qp *qp = node_qp(node, IBV_QPT_UD, member->cq, NULL);
	union ibv_gid gid = group_gid(group);
	struct completion completions[RECEIVES];
	int received = 0;

	node_connect(node, qp, NULL, 0, 0);
	for (uint64_t i = 0; i < RECEIVES; i++) {
		struct ibv_sge sge = {(uintptr_t)member->memory + i * BUFFER, BUFFER,
				      member->mr->ibv.lkey};
		struct ibv_recv_wr *bad, wr = {.wr_id = i, .sg_list = &sge, .num_sge = 1};

		must(qp_post_recv(qp, &wr, &bad) == 0);
	}
	must(mcast_attach(qp, &gid) == 0);
	progress_refresh(node->client);
	while (received < RECEIVES / 2) {
		int count = node_poll(node, member->cq, completions, RECEIVES);

		for (int i = 0; i < count; i++)
			check_message(member, &completions[i].wc, group);
		received += count;
	}
	must(qp_destroy(qp) == EBUSY);
	must(mcast_detach(qp, &gid) == 0);
	must(qp_destroy(qp) == 0);
	while (node_poll(node, member->cq, completions, RECEIVES))
		;
}

static void *come_and_go(void *argument)
{
	struct member *member = argument;

	for (unsigned int i = 0; i < ROUNDS; i++)
		be_member(member, (member->index + i) % GROUPS);
	return NULL;
}

static void nodes_create(struct nodes *nodes)
{
	must(progress_create(&nodes->progress) == 0);
	node_create(&nodes->from, nodes->progress, 0, NULL);
	node_create(&nodes->to, nodes->progress, 1, NULL);
	atomic_store(&nodes->over, false);
	for (unsigned int i = 0; i < GROUPS; i++) {
		struct ibv_ah_attr attr = {
			.is_global = 1, .port_num = 1, .grh = {.dgid = group_gid(i)}};

		must(ah_create(nodes->from.pd, &attr, &nodes->ahs[i]) == 0);
	}
}

static void nodes_destroy(struct nodes *nodes)
{
	for (unsigned int i = 0; i < GROUPS; i++)
		ah_destroy(nodes->ahs[i]);
	node_destroy(&nodes->from);
	node_destroy(&nodes->to);
	progress_destroy(nodes->progress);
}

START_TEST(members_come_and_go)
{
	struct member *members = calloc(MEMBERS, sizeof(*members));
	struct nodes nodes;
	pthread_t sender;

	nodes_create(&nodes);
	must(pthread_create(&sender, NULL, send_always, &nodes) == 0);
	for (unsigned int i = 0; i < MEMBERS; i++) {
		struct member *member = &members[i];

		member->nodes = &nodes;
		member->index = i;
		must(cq_create(nodes.to.hca, RECEIVES, &member->cq) == 0);
		member->mr = node_mr(&nodes.to, member->memory, sizeof(member->memory));
		must(pthread_create(&member->thread, NULL, come_and_go, member) == 0);
	}
	for (unsigned int i = 0; i < MEMBERS; i++) {
		pthread_join(members[i].thread, NULL);
		must(cq_destroy(members[i].cq) == 0);
		must(mr_deregister(members[i].mr) == 0);
	}
	atomic_store(&nodes.over, true);
	pthread_join(sender, NULL);
	nodes_destroy(&nodes);
	free(members);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("groups");
	TCase *tcase = tcase_create("groups");

	tcase_set_timeout(tcase, 300);
	tcase_add_test(tcase, members_come_and_go);
	suite_add_tcase(suite, tcase);
	return run_suite(suite);
}
