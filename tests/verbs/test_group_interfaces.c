/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * IPv6 groups, of one link's scope and wider, on a node with two network devices, in a network
 * namespace of its own: what is sent by either device's GID comes once.
 */
#include <check.h>
#include <poll.h>
#include <stdlib.h>

#include "tests/must.h"
#include "tests/run_suite.h"
#include "tests/verbs/fixture.h"
#include "tests/verbs/manager.h"
#include "tests/verbs/namespace.h"

#define FIRST "fd77::1"
#define SECOND "fd78::1"
#define MESSAGES 10
#define SPACE 100
#define QPN_MULTICAST 0xffffff

static const char *const addresses[] = {FIRST, SECOND};
static const char *const groups[] = {"ff02::77:1", "ff0e::77:1"};
static uint8_t memory[SPACE];

static void make_netdevs(void)
{
	ip("link set lo up");
	make_veth("urxe0", "urxe1");
	make_veth("urxe2", "urxe3");
	ip("addr add " FIRST "/64 dev urxe0 nodad");
	ip("addr add " SECOND "/64 dev urxe2 nodad");
}

static void receive(struct ibv_qp *qp, const struct ibv_mr *mr)
{
	struct ibv_sge sge = {(uintptr_t)memory, SPACE, mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	ck_assert_int_eq(ibv_post_recv(qp, &wr, &bad), 0);
}

static void post(struct ibv_qp *qp, struct ibv_ah *ah, uint32_t qkey, uint32_t number)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND_WITH_IMM,
				 .imm_data = htobe32(number),
				 .send_flags = IBV_SEND_SIGNALED,
				 .wr.ud = {ah, QPN_MULTICAST, qkey}},
			   *bad;

	ck_assert_int_eq(ibv_post_send(qp, &wr, &bad), 0);
}

/*
 * Takes a message or waits a little, and counts it by its number. A second copy comes before the
 * next message of its device, if not at once: those of the last two aren't waited for.
 */
static void count_one(struct ibv_cq *cq, unsigned int *counts)
{
	struct ibv_wc wc;
	int count = ibv_poll_cq(cq, 1, &wc);

	if (!count) {
		poll(NULL, 0, 1);
		return;
	}
	must(count == 1 && wc.status == IBV_WC_SUCCESS);
	if (wc.opcode & IBV_WC_RECV)
		counts[be32toh(wc.imm_data)]++;
}

static struct ibv_ah *address_of(struct ibv_pd *pd, const char *group, int gid_index)
{
	struct ibv_ah_attr attr = {
		.is_global = 1, .port_num = 1, .grh = {.sgid_index = gid_index, .hop_limit = 1}};
	struct ibv_ah *ah;

	ck_assert_int_eq(inet_pton(AF_INET6, group, &attr.grh.dgid), 1);
	ah = ibv_create_ah(pd, &attr);
	ck_assert_ptr_nonnull(ah);
	return ah;
}

/* ibv_attach_mcast() joins on all that the node has. */
START_TEST(attached)
{
	unsigned int counts[MESSAGES] = {0};
	union ibv_gid group;
	struct ibv_ah *ahs[2];
	static struct pair pair;

	pair_open(&pair, IBV_QPT_UD, 0);
	ck_assert_int_eq(inet_pton(AF_INET6, groups[_i], &group), 1);
	ck_assert_int_eq(ibv_attach_mcast(pair.receiver, &group, 0), 0);
	for (int i = 0; i < 2; i++)
		ahs[i] = address_of(pair.pd, groups[_i], i);
	post_receive(&pair, MESSAGES); /* for a second copy */
	for (int i = 0; i < MESSAGES; i++) {
		post_receive(&pair, i);
		post(pair.sender, ahs[i % 2], FIXTURE_QKEY, i);
		ck_assert_int_eq(wait_completion(pair.send_cq).status, IBV_WC_SUCCESS);
		while (!counts[i])
			count_one(pair.recv_cq, counts);
	}
	for (int i = 0; i < MESSAGES - 2; i++)
		ck_assert_uint_eq(counts[i], 1);
	ck_assert_int_eq(ibv_detach_mcast(pair.receiver, &group, 0), 0);
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(ibv_destroy_ah(ahs[i]), 0);
	pair_close(&pair);
}
END_TEST

/* An id with a QP, in the group on the device that it is bound to; and how to send there. */
struct member {
	struct rdma_cm_id *id;
	struct ibv_mr *mr;
	struct ibv_ah *ah;
	uint32_t qkey;
	unsigned int counts[MESSAGES];
};

static void join(struct rdma_event_channel *channel, struct member *member, int device, int group)
{
	struct ibv_qp_init_attr attr = {.cap = {.max_send_wr = MESSAGES,
						.max_recv_wr = 2 * MESSAGES,
						.max_send_sge = 1,
						.max_recv_sge = 1},
					.qp_type = IBV_QPT_UD};
	struct rdma_cm_id *id = open_id(channel, RDMA_PS_UDP);
	struct rdma_cm_event *event;

	ck_assert_int_eq(rdma_bind_addr(id, socket_address(addresses[device], 0)), 0);
	ck_assert_int_eq(rdma_create_qp(id, NULL, &attr), 0);
	ck_assert_int_eq(rdma_join_multicast(id, socket_address(groups[group], 0), NULL), 0);
	event = next_event(channel, RDMA_CM_EVENT_MULTICAST_JOIN, 0);
	member->ah = ibv_create_ah(id->pd, &event->param.ud.ah_attr);
	member->qkey = event->param.ud.qkey;
	ck_assert_int_eq(rdma_ack_cm_event(event), 0);
	member->mr = ibv_reg_mr(id->pd, memory, SPACE, IBV_ACCESS_LOCAL_WRITE);
	ck_assert(member->ah && member->mr);
	member->id = id;
	for (int i = 0; i < 2 * MESSAGES; i++)
		receive(id->qp, member->mr);
}

static void leave(struct member *member)
{
	ck_assert_int_eq(ibv_destroy_ah(member->ah), 0);
	ck_assert_int_eq(ibv_dereg_mr(member->mr), 0);
	destroy(member->id);
}

/* Whichever of the two joins first. */
START_TEST(joined)
{
	struct rdma_event_channel *channel = open_channel();
	struct member members[2] = {{0}};

	for (int i = 0; i < 2; i++)
		join(channel, &members[i], _i & 2 ? !i : i, _i & 1);
	for (int i = 0; i < MESSAGES; i++) {
		struct member *sender = &members[i % 2];

		post(sender->id->qp, sender->ah, sender->qkey, i);
		while (!sender->counts[i])
			count_one(sender->id->recv_cq, sender->counts);
	}
	for (int i = 0; i < MESSAGES - 2; i++)
		ck_assert_uint_eq(members[i % 2].counts[i], 1);
	for (int i = 0; i < 2; i++)
		leave(&members[i]);
	rdma_destroy_event_channel(channel);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("group_interfaces");
	TCase *tests = tcase_create("group_interfaces");

	if (!namespace_enter())
		return SKIPPED;
	setenv("URXE_NODE", FIRST "," SECOND, 1);
	tcase_set_timeout(tests, 200);
	tcase_add_unchecked_fixture(tests, make_netdevs, NULL);
	tcase_add_loop_test(tests, attached, 0, 2);
	tcase_add_loop_test(tests, joined, 0, 4);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
