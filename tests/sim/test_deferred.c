/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Frames for a queue pair that another thread has locked (emu/deferred.h). That thread is the
 * test: it holds qp.lock while the world goes on.
 */
#include <fcntl.h>
#include <unistd.h>

#include "cm_peer.h"
#include "net/tuning.h"
#include "pair.h"

struct locked {
	struct pair pair;
	struct qp *qa, *qb; /* a second connection between the same nodes */
};

static void locked_create(struct locked *l, const struct connection *c)
{
	struct qp_options options = {.type = IBV_QPT_RC,
				     .cap = {.max_send_wr = PAIR_DEPTH, .max_send_sge = 1}};

	pair_create(&l->pair, IBV_QPT_RC, NULL, 1, NULL);
	l->qa = world_qp(l->pair.a, &options);
	l->qb = world_qp(l->pair.b, &options);
	world_connect(l->pair.a, l->qa, l->pair.b, l->qb, c);
}

static void locked_destroy(struct locked *l)
{
	ck_assert_int_eq(qp_destroy(l->qa), 0);
	ck_assert_int_eq(qp_destroy(l->qb), 0);
	pair_destroy(&l->pair);
}

static void write_on(struct locked *l, struct qp *qp, uint64_t id)
{
	struct pair_wr request;

	pair_wr(&l->pair, &request, IBV_WR_RDMA_WRITE, 4096, id);
	ck_assert_int_eq(world_post_send(qp, &request.wr), 0);
}

START_TEST(others_receive)
{
	struct locked l;

	locked_create(&l, &world_connection);
	pthread_mutex_lock(&l.pair.qb->lock);
	write_on(&l, l.pair.qa, 1);
	write_on(&l, l.qa, 2);
	world_expect(l.pair.a, 2, IBV_WC_SUCCESS);
	pthread_mutex_unlock(&l.pair.qb->lock);
	world_expect(l.pair.a, 1, IBV_WC_SUCCESS);
	ck_assert_uint_eq(l.pair.a->hca->counters->retransmitted_pkts, 0);
	locked_destroy(&l);
}
END_TEST

/* One part while it is locked, the other when it isn't any more, but nothing was retried yet. */
START_TEST(order_is_kept)
{
	struct pair p;

	pair_create(&p, IBV_QPT_RC, NULL, 1, NULL);
	pthread_mutex_lock(&p.qb->lock);
	for (unsigned int i = 0; i < 4; i++)
		pair_post(&p, IBV_WR_RDMA_WRITE, 8, i);
	world_run(&p.world, MS / 100);
	pthread_mutex_unlock(&p.qb->lock);
	for (unsigned int i = 4; i < 8; i++)
		pair_post(&p, IBV_WR_RDMA_WRITE, 8, i);
	for (unsigned int i = 0; i < 8; i++)
		world_expect(p.a, i, IBV_WC_SUCCESS);
	ck_assert_uint_eq(p.b->hca->counters->out_of_seq_request, 0);
	ck_assert_uint_eq(p.a->hca->counters->retransmitted_pkts, 0);
	pair_destroy(&p);
}
END_TEST

/* The other direction of an XRC pair: an initiator of b, and a's target with a receive. */
struct reverse {
	struct xrcd *xrcd;
	struct srq *srq;
	struct qp *initiator, *target;
};

static void reverse_create(struct reverse *reverse, struct node *from, struct node *to)
{
	struct ibv_srq_attr attr = {.max_wr = 1, .max_sge = 1};
	struct qp_options options = {.type = IBV_QPT_XRC_SEND, .cap = {.max_send_wr = 1}};
	struct ibv_recv_wr receive = {.wr_id = 3};

	ck_assert_int_eq(xrcd_open(to->hca, NULL, O_CREAT, &reverse->xrcd), 0);
	ck_assert_int_eq(srq_create_xrc(to->pd, reverse->xrcd, to->cq, &attr, &reverse->srq), 0);
	ck_assert_int_eq(srq_post(reverse->srq, &receive, NULL), 0);
	reverse->initiator = world_qp(from, &options);
	options = (struct qp_options){.type = IBV_QPT_XRC_RECV, .xrcd = reverse->xrcd};
	reverse->target = world_qp(to, &options);
	world_connect(from, reverse->initiator, to, reverse->target, &world_connection);
}

static void reverse_destroy(struct reverse *reverse)
{
	ck_assert_int_eq(qp_destroy(reverse->initiator), 0);
	ck_assert_int_eq(qp_destroy(reverse->target), 0);
	ck_assert_int_eq(srq_destroy(reverse->srq), 0);
	ck_assert_int_eq(xrcd_close(reverse->xrcd), 0);
}

/* a's thread is still within ibv_post_send() when both the ACK and b's answer have come. */
START_TEST(answer_follows_ack)
{
	struct reverse reverse;
	struct pair p;

	pair_create(&p, IBV_QPT_XRC_SEND, NULL, 1, NULL);
	reverse_create(&reverse, p.b, p.a);
	pair_receive(&p, 8, 1);
	pair_post(&p, IBV_WR_SEND, 8, 2);
	pthread_mutex_lock(&p.qa->lock);
	world_run(&p.world, MS / 100);
	world_expect(p.b, 1, IBV_WC_SUCCESS);
	ck_assert_int_eq(world_post_send(reverse.initiator,
					 &(struct ibv_send_wr){
						 .opcode = IBV_WR_SEND,
						 .qp_type.xrc.remote_srqn = reverse.srq->number,
					 }),
			 0);
	world_expect_none(p.a, MS / 100);
	pthread_mutex_unlock(&p.qa->lock);
	world_expect(p.a, 2, IBV_WC_SUCCESS);
	world_expect(p.a, 3, IBV_WC_SUCCESS);
	ck_assert_uint_eq(p.a->hca->deferred.initiators, 0);
	reverse_destroy(&reverse);
	pair_destroy(&p);
}
END_TEST

/* Connected, by its word, to the node's UD QP: the connection manager doesn't look at it. */
static void connect_qp_of(struct cm_peer_test *t)
{
	const struct cm_reply reply = {.qpn = t->peer.qp->number};
	struct cm_message rtu;

	cm_peer_passive(t, CM_STATE_REQ_RECEIVED);
	ck_assert_int_eq(cm_send_rep(t->id, &reply, cm_peer_now(t)), 0);
	cm_peer_hear(t, CM_REP);
	rtu = cm_peer_message(t, CM_RTU);
	cm_peer_say(t, &rtu);
	cm_peer_event(t, CM_EVENT_RTU_RECEIVED);
}

static void send_to_qp(struct cm_peer_test *t)
{
	peer_send(&t->peer, &(struct peer_packet){.opcode = WIRE_UD | WIRE_SEND_ONLY,
						  .qkey = 0x11111111,
						  .source_qp = PEER_QPN,
						  .length = 8});
}

/* The peer sends a message and disconnects: that it has is told when the message has completed. */
START_TEST(disconnection_follows)
{
	struct cm_message dreq;
	struct cm_peer_test t;

	cm_peer_create(&t);
	connect_qp_of(&t);
	dreq = cm_peer_message(&t, CM_DREQ);
	peer_receive(&t.peer, 64, 1);
	pthread_mutex_lock(&t.peer.qp->lock);
	send_to_qp(&t);
	cm_peer_say(&t, &dreq);
	cm_peer_event(&t, -1);
	pthread_mutex_unlock(&t.peer.qp->lock);
	world_expect(t.peer.node, 1, IBV_WC_SUCCESS);
	world_run(&t.peer.world, MS);
	cm_peer_event(&t, CM_EVENT_DREQ_RECEIVED);
	ck_assert_uint_eq(deferred_retry_at(&t.peer.node->hca->deferred), TIME_NEVER);
	cm_peer_destroy(&t);
}
END_TEST

/* The QP is gone when its frames are looked at again: they are dropped as those that come late. */
START_TEST(destroyed_meanwhile)
{
	struct connection once = world_connection;
	struct locked l;

	once.retry_cnt = 0;
	locked_create(&l, &once);
	pthread_mutex_lock(&l.qb->lock);
	write_on(&l, l.qa, 1);
	world_run(&l.pair.world, MS / 100);
	ck_assert(deferred_has(&l.pair.b->hca->deferred, l.qb->number));
	pthread_mutex_unlock(&l.qb->lock);
	ck_assert_int_eq(qp_destroy(l.qb), 0);
	world_expect(l.pair.a, 1, IBV_WC_RETRY_EXC_ERR);
	ck_assert_uint_gt(l.pair.b->hca->counters->dropped_packets, 0);
	ck_assert_uint_eq(deferred_retry_at(&l.pair.b->hca->deferred), TIME_NEVER);
	ck_assert_int_eq(qp_destroy(l.qa), 0);
	pair_destroy(&l.pair);
}
END_TEST

/* More than this is lost, as by a full socket, unless the receiving thread can make room. */
START_TEST(bounded)
{
	uint8_t data[1024] = {};
	const struct link_frame frame = {.data = data, .length = sizeof(data)};
	const unsigned int most = DEFERRED_BYTES / (sizeof(struct deferred_frame) + sizeof(data));
	struct deferred deferred;

	deferred_init(&deferred);
	for (unsigned int i = 0; i < most; i++)
		ck_assert(deferred_add(&deferred, 1, &frame, 0));
	ck_assert(!deferred_has_room(&deferred, 1, sizeof(data)));
	ck_assert(!deferred_add(&deferred, 1, &frame, 0));
	ck_assert(deferred_add(&deferred, 2, &frame, 0));
	deferred_destroy(&deferred);
}
END_TEST

struct holder {
	struct qp *qp;
	pthread_barrier_t locked;
};

/* As a thread that lost the CPU for a while. */
static void *hold(void *argument)
{
	struct holder *holder = argument;

	pthread_mutex_lock(&holder->qp->lock);
	pthread_barrier_wait(&holder->locked);
	usleep(300 * 1000);
	pthread_mutex_unlock(&holder->qp->lock);
	return NULL;
}

/* What nothing sends again is waited for. */
START_TEST(unreliable_is_not_lost)
{
	struct holder holder;
	pthread_t thread;
	struct pair p;

	pair_create(&p, IBV_QPT_UC, NULL, 1, NULL);
	holder.qp = p.qb;
	pthread_barrier_init(&holder.locked, NULL, 2);
	ck_assert_int_eq(pthread_create(&thread, NULL, hold, &holder), 0);
	pthread_barrier_wait(&holder.locked);
	for (unsigned int i = 0; i < 2 * DEFERRED_BYTES / PAIR_MEMORY; i++) {
		pair_post(&p, IBV_WR_RDMA_WRITE, PAIR_MEMORY, i);
		world_expect(p.a, i, IBV_WC_SUCCESS);
	}
	world_run(&p.world, MS); /* ends when the lock is free */
	pthread_join(thread, NULL);
	world_run(&p.world, MS);
	ck_assert_uint_eq(p.b->hca->counters->dropped_packets, 0);
	ck_assert_uint_eq(p.b->hca->counters->out_of_seq_request, 0);
	ck_assert_uint_eq(deferred_retry_at(&p.b->hca->deferred), TIME_NEVER);
	pthread_barrier_destroy(&holder.locked);
	pair_destroy(&p);
}
END_TEST

static void note_deadline(void *context, uint64_t time)
{
	*(uint64_t *)context = time;
}

/* The progress thread is told when to look again: what would have woken it has been read. */
START_TEST(retries_are_planned)
{
	uint64_t planned = 0;
	struct pair p;

	pair_create(&p, IBV_QPT_UC, NULL, 1, NULL);
	p.b->hca->deadline = note_deadline;
	p.b->hca->deadline_context = &planned;
	pair_fill(p.ma, 8, 1);
	pair_post(&p, IBV_WR_RDMA_WRITE, 8, 0);
	sim_advance(p.world.sim, sim_next(p.world.sim));
	pthread_mutex_lock(&p.qb->lock);
	ck_assert(hca_progress(p.b->hca, world_now(&p.world)));
	pthread_mutex_unlock(&p.qb->lock);
	ck_assert_uint_eq(planned, world_now(&p.world) + DEFERRED_RETRY);
	sim_advance(p.world.sim, planned);
	planned = 0;
	ck_assert(hca_progress(p.b->hca, world_now(&p.world)));
	ck_assert_mem_eq(p.mb, p.ma, 8);
	ck_assert_uint_eq(planned, 0);
	pair_destroy(&p);
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("deferred");

	tcase_add_test(tcase, others_receive);
	tcase_add_test(tcase, order_is_kept);
	tcase_add_test(tcase, answer_follows_ack);
	tcase_add_test(tcase, disconnection_follows);
	tcase_add_test(tcase, destroyed_meanwhile);
	tcase_add_test(tcase, bounded);
	tcase_add_test(tcase, unreliable_is_not_lost);
	tcase_add_test(tcase, retries_are_planned);
	return world_main("deferred", (TCase *[]){tcase, NULL});
}
