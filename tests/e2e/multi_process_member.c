/* SPDX-License-Identifier: BSD-2-Clause */
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "multi_process.h"

#define NAP_MILLISECONDS 1

void board_check_deadline(const struct board *board)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	if ((uint64_t)now.tv_sec > board->deadline)
		pair_fail(__FILE__, __LINE__, "process %d isn't done in time", getpid());
}

static void find_gids(struct member *member)
{
	static const union ibv_gid none;
	bool found[FAMILIES] = {false};
	union ibv_gid gid;

	for (int i = 0; ibv_query_gid(member->context, 1, i, &gid) == 0; i++) {
		enum family family = FAMILY_IPV6;

		if (memcmp(&gid, &none, sizeof(gid)) == 0)
			break;
		if (memcmp(gid.raw, "\0\0\0\0\0\0\0\0\0\0\xff\xff", 12) == 0)
			family = FAMILY_IPV4;
		if (found[family])
			continue;
		found[family] = true;
		member->gid_index[family] = i;
		member->self->gids[family] = gid;
		member->self->has[family] = true;
	}
	CHECK(found[FAMILY_IPV4] || found[FAMILY_IPV6]);
}

void member_open(struct member *member, struct board *board, unsigned int id, uint32_t incarnation,
		 unsigned int cq_depth)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);

	*member = (struct member){
		.board = board,
		.self = &board->members[id],
		.id = id,
		.incarnation = incarnation,
		.sleeps = id & 1,
	};
	CHECK(devices && devices[0]);
	member->context = ibv_open_device(devices[0]);
	CHECK(member->context);
	ibv_free_device_list(devices);
	member->pd = ibv_alloc_pd(member->context);
	CHECK(member->pd);
	if (member->sleeps) {
		member->channel = ibv_create_comp_channel(member->context);
		CHECK(member->channel);
	}
	member->cq = ibv_create_cq(member->context, cq_depth, NULL, member->channel, 0);
	CHECK(member->cq);
	find_gids(member);
}

void member_close(struct member *member)
{
	ibv_ack_cq_events(member->cq, member->events);
	CHECK_EQUAL(ibv_destroy_cq(member->cq), 0);
	if (member->channel)
		CHECK_EQUAL(ibv_destroy_comp_channel(member->channel), 0);
	CHECK_EQUAL(ibv_dealloc_pd(member->pd), 0);
	CHECK_EQUAL(ibv_close_device(member->context), 0);
}

/* A number that was ever used isn't used again so soon that old packets could find it. */
static void claim_number(struct board *board, uint32_t qpn)
{
	uint8_t bit = 1 << qpn % 8;

	if (board->one_address && (atomic_fetch_or(&board->qpns[qpn / 8], bit) & bit))
		pair_fail(__FILE__, __LINE__, "QP number %#x was used before", qpn);
}

struct ibv_qp *member_create_qp(struct member *member, enum ibv_qp_type type, uint32_t send_depth,
				uint32_t receive_depth)
{
	struct ibv_qp_init_attr init = {
		.send_cq = member->cq,
		.recv_cq = member->cq,
		.cap = {.max_send_wr = send_depth,
			.max_recv_wr = receive_depth,
			.max_send_sge = 1,
			.max_recv_sge = 1},
		.qp_type = type,
		.sq_sig_all = 1,
	};
	struct ibv_qp *qp = ibv_create_qp(member->pd, &init);

	CHECK(qp);
	claim_number(member->board, qp->qp_num);
	return qp;
}

void member_init_qp(struct member *member, struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qkey = MULTI_PROCESS_QKEY,
		.qp_access_flags =
			IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
	};
	int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;

	mask |= qp->qp_type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS;
	CHECK_EQUAL(ibv_modify_qp(qp, &attr, mask), 0);
	if (qp->qp_type != IBV_QPT_UD)
		return;
	attr.qp_state = IBV_QPS_RTR;
	CHECK_EQUAL(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
	attr.qp_state = IBV_QPS_RTS;
	CHECK_EQUAL(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
}

static struct ibv_ah_attr path_to(struct member *member, enum family family,
				  const union ibv_gid *gid)
{
	return (struct ibv_ah_attr){
		.is_global = 1,
		.port_num = 1,
		.grh = {.dgid = *gid, .sgid_index = member->gid_index[family], .hop_limit = 64},
	};
}

/* All begin with the same PSN, so that a packet in the wrong place has a good chance to fit. */
void member_connect(struct member *member, struct ibv_qp *qp, enum family family,
		    const union ibv_gid *gid, uint32_t qpn)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = qpn,
		.max_dest_rd_atomic = 4,
		.max_rd_atomic = 4,
		.min_rnr_timer = 12, /* 0.64 ms */
		/* 67 ms; 0.54 s where so many share the CPUs that each waits long for its turn. */
		.timeout = member->board->count > 16 ? 17 : 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.ah_attr = path_to(member, family, gid),
	};

	CHECK_EQUAL(ibv_modify_qp(qp, &attr,
				  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
					  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
					  IBV_QP_MIN_RNR_TIMER),
		    0);
	attr.qp_state = IBV_QPS_RTS;
	CHECK_EQUAL(ibv_modify_qp(qp, &attr,
				  IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
					  IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC),
		    0);
}

struct ibv_ah *member_create_ah(struct member *member, enum family family, const union ibv_gid *gid)
{
	struct ibv_ah_attr attr = path_to(member, family, gid);
	struct ibv_ah *ah = ibv_create_ah(member->pd, &attr);

	CHECK(ah);
	return ah;
}

static void doze(struct member *member)
{
	struct pollfd pollfd = {.fd = member->channel->fd, .events = POLLIN};
	struct ibv_cq *cq;
	void *context;

	if (poll(&pollfd, 1, NAP_MILLISECONDS) != 1)
		return;
	CHECK_EQUAL(ibv_get_cq_event(member->channel, &cq, &context), 0);
	CHECK(cq == member->cq);
	member->events++;
}

int member_poll(struct member *member, struct ibv_wc *wc, int max)
{
	int n = ibv_poll_cq(member->cq, max, wc);

	if (n == 0 && member->sleeps) {
		CHECK_EQUAL(ibv_req_notify_cq(member->cq, 0), 0);
		n = ibv_poll_cq(member->cq, max, wc);
		if (n == 0)
			doze(member);
	} else if (n == 0) {
		usleep(NAP_MILLISECONDS * 1000 / 4);
	}
	CHECK(n >= 0);
	if (n == 0)
		board_check_deadline(member->board);
	return n;
}

enum family member_family(const struct board *board, unsigned int a, unsigned int b)
{
	bool both[FAMILIES];

	for (int i = 0; i < FAMILIES; i++)
		both[i] = board->members[a].has[i] && board->members[b].has[i];
	if (both[FAMILY_IPV4] && both[FAMILY_IPV6])
		return (a + b) & 1 ? FAMILY_IPV6 : FAMILY_IPV4;
	return both[FAMILY_IPV4] ? FAMILY_IPV4 : both[FAMILY_IPV6] ? FAMILY_IPV6 : FAMILIES;
}

void member_greet_self(struct board *board, unsigned int id)
{
	uint64_t words[2] = {0, 0x0123456789abcdef};
	struct ibv_sge from, to;
	struct ibv_send_wr *bad_send, send = {.sg_list = &from, .num_sge = 1};
	struct ibv_recv_wr *bad_receive, receive = {.sg_list = &to, .num_sge = 1};
	struct member member;
	enum family family;
	struct ibv_mr *mr;
	struct ibv_qp *qp;
	struct ibv_wc wc;

	member_open(&member, board, id, 1, 16);
	mr = ibv_reg_mr(member.pd, words, sizeof(words), IBV_ACCESS_LOCAL_WRITE);
	CHECK(mr);
	to = (struct ibv_sge){(uintptr_t)&words[0], 8, mr->lkey};
	from = (struct ibv_sge){(uintptr_t)&words[1], 8, mr->lkey};
	send.opcode = IBV_WR_SEND;
	qp = member_create_qp(&member, IBV_QPT_RC, 1, 1);
	family = member_family(board, id, id);
	member_init_qp(&member, qp);
	member_connect(&member, qp, family, &member.self->gids[family], qp->qp_num);
	CHECK_EQUAL(ibv_post_recv(qp, &receive, &bad_receive), 0);
	CHECK_EQUAL(ibv_post_send(qp, &send, &bad_send), 0);
	for (int completed = 0; completed < 2;) {
		if (!member_poll(&member, &wc, 1))
			continue;
		CHECK_EQUAL(wc.status, IBV_WC_SUCCESS);
		completed++;
	}
	CHECK_EQUAL(words[0], words[1]);
	CHECK_EQUAL(ibv_destroy_qp(qp), 0);
	CHECK_EQUAL(ibv_dereg_mr(mr), 0);
	member_close(&member);
}
