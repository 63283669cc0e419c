/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Data through the ABI, between two queue pairs of one device: polling and
 * extended polling, ibv_wr_*, completion channels, asynchronous events.
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "net/newer_verbs.h"
#include "tests/run_suite.h"
#include "tests/sanitizers.h"
#include "tests/verbs/fixture.h"

static struct pair pair;

static bool readable(int fd)
{
	struct pollfd poll_fd = {.fd = fd, .events = POLLIN};

	return poll(&poll_fd, 1, 0) == 1;
}

static void make_nonblocking(int fd)
{
	ck_assert_int_eq(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK), 0);
}

static void post_send(uint64_t wr_id, unsigned int flags)
{
	struct ibv_sge sge = send_sge(&pair, 100);
	struct ibv_send_wr wr =
				   {
					   .wr_id = wr_id,
					   .sg_list = &sge,
					   .num_sge = 1,
					   .opcode = IBV_WR_SEND,
					   .send_flags = flags,
				   },
			   *bad;

	ck_assert_int_eq(ibv_post_send(pair.sender, &wr, &bad), 0);
}

START_TEST(send)
{
	struct ibv_wc wc;

	pair_open(&pair, IBV_QPT_RC, 0);
	memset(pair.buffer, 0x5a, 100);
	post_receive(&pair, 7);
	post_send(9, IBV_SEND_SIGNALED);
	wc = wait_completion(pair.recv_cq);
	ck_assert_uint_eq(wc.wr_id, 7);
	ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
	ck_assert_int_eq(wc.opcode, IBV_WC_RECV);
	ck_assert_uint_eq(wc.byte_len, 100);
	ck_assert_uint_eq(wc.qp_num, pair.receiver->qp_num);
	ck_assert_int_eq(memcmp(pair.buffer, pair.buffer + BUFFER_SIZE, 100), 0);
	wc = wait_completion(pair.send_cq);
	ck_assert_uint_eq(wc.wr_id, 9);
	ck_assert_int_eq(wc.opcode, IBV_WC_SEND);
	ck_assert_int_eq(ibv_poll_cq(pair.send_cq, 0, &wc), 0);
	pair_close(&pair);
}
END_TEST

#define RESETS 20

/* Both connections begin with the same PSN. */
START_TEST(reset_drops_what_is_under_way)
{
	struct ibv_wc wc;

	pair_open(&pair, IBV_QPT_RC, 0);
	for (int i = 0; i < RESETS; i++) {
		post_send(1, 0);
		pair_move(&pair, 1);
		post_receive(&pair, 7);
		ck_assert_int_eq(post_write(&pair, 2), 0);
		wc = wait_completion(pair.send_cq);
		ck_assert_uint_eq(wc.wr_id, 2);
		ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
		ck_assert_int_eq(ibv_poll_cq(pair.recv_cq, 1, &wc), 0);
		pair_move(&pair, 1);
	}
	pair_close(&pair);
}
END_TEST

/* Nothing is left of what the heap has, either. */
static void use_up_memory(struct rlimit *before)
{
	struct rlimit limit = {0};
	void *volatile used;

	ck_assert_int_eq(getrlimit(RLIMIT_AS, before), 0);
	limit.rlim_max = before->rlim_max;
	ck_assert_int_eq(setrlimit(RLIMIT_AS, &limit), 0);
	do
		used = malloc(4096);
	while (used);
}

/* What has been made works when there is no memory for anything else, from the first post on. */
START_TEST(send_without_memory)
{
	struct ibv_wc sent, received;
	struct rlimit before;

	if (SANITIZED)
		return;
	pair_open(&pair, IBV_QPT_RC, 0);
	post_receive(&pair, 7);
	use_up_memory(&before);
	post_send(8, IBV_SEND_SIGNALED);
	sent = wait_completion(pair.send_cq);
	received = wait_completion(pair.recv_cq);
	ck_assert_int_eq(setrlimit(RLIMIT_AS, &before), 0);
	ck_assert_int_eq(sent.status, IBV_WC_SUCCESS);
	ck_assert_int_eq(received.status, IBV_WC_SUCCESS);
	pair_close(&pair);
}
END_TEST

START_TEST(extended_polling)
{
	struct ibv_cq_init_attr_ex attr = {.cqe = 8, .wc_flags = IBV_WC_STANDARD_FLAGS};
	struct ibv_poll_cq_attr poll_attr = {};
	struct ibv_cq_ex *cq;
	int result;

	pair_open(&pair, IBV_QPT_RC, 0);
	ck_assert_int_eq(ibv_destroy_qp(pair.receiver), 0);
	cq = ibv_create_cq_ex(pair.context, &attr);
	ck_assert_ptr_nonnull(cq);
	pair.receiver = ibv_create_qp(pair.pd, &(struct ibv_qp_init_attr){
						       .send_cq = pair.send_cq,
						       .recv_cq = ibv_cq_ex_to_cq(cq),
						       .cap = {.max_send_wr = 4,
							       .max_recv_wr = 4,
							       .max_send_sge = 1,
							       .max_recv_sge = 1},
						       .qp_type = IBV_QPT_RC,
					       });
	ck_assert_ptr_nonnull(pair.receiver);
	connect_qp(pair.receiver, pair.sender);
	ck_assert_int_eq(ibv_modify_qp(pair.sender,
				       &(struct ibv_qp_attr){.qp_state = IBV_QPS_RESET},
				       IBV_QP_STATE),
			 0);
	connect_qp(pair.sender, pair.receiver);

	for (uint64_t i = 0; i < 3; i++)
		post_receive(&pair, i);
	for (int i = 0; i < 3; i++)
		post_send(0, IBV_SEND_SIGNALED);
	for (int i = 0; i < 3; i++)
		wait_completion(pair.send_cq);
	do {
		result = ibv_start_poll(cq, &poll_attr);
	} while (result == ENOENT);
	for (uint64_t i = 0; i < 3; i++) {
		ck_assert_int_eq(result, 0);
		ck_assert_uint_eq(cq->wr_id, i);
		ck_assert_int_eq(cq->status, IBV_WC_SUCCESS);
		ck_assert_int_eq(ibv_wc_read_opcode(cq), IBV_WC_RECV);
		ck_assert_uint_eq(ibv_wc_read_byte_len(cq), 100);
		ck_assert_uint_eq(ibv_wc_read_qp_num(cq), pair.receiver->qp_num);
		result = ibv_next_poll(cq);
	}
	ck_assert_int_eq(result, ENOENT);
	ibv_end_poll(cq);

	/* ibv_poll_cq() works on it as well. */
	post_receive(&pair, 3);
	post_send(0, 0);
	ck_assert_uint_eq(wait_completion(ibv_cq_ex_to_cq(cq)).wr_id, 3);
	ck_assert_int_eq(ibv_destroy_qp(pair.receiver), 0);
	ck_assert_int_eq(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
}
END_TEST

#define ALL_OPERATIONS                                                                             \
	(IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_WRITE |          \
	 IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ |                           \
	 IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD)

START_TEST(builders)
{
	struct ibv_qp_ex *qp;
	uint64_t *word = (uint64_t *)(pair.buffer + BUFFER_SIZE);
	struct ibv_wc wc;
	char text[] = "inline";

	pair_open(&pair, IBV_QPT_RC, ALL_OPERATIONS);
	qp = ibv_qp_to_qp_ex(pair.sender);
	ck_assert_ptr_nonnull(qp);
	post_receive(&pair, 1);
	*word = 40;

	ibv_wr_start(qp);
	qp->wr_id = 10;
	qp->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_atomic_fetch_add(qp, pair.mr->rkey, (uintptr_t)word, 2);
	ibv_wr_set_sge(qp, pair.mr->lkey, (uintptr_t)pair.buffer, 8);
	qp->wr_id = 11;
	ibv_wr_rdma_read(qp, pair.mr->rkey, (uintptr_t)word);
	ibv_wr_set_sge(qp, pair.mr->lkey, (uintptr_t)pair.buffer + 8, 8);
	qp->wr_id = 12;
	qp->wr_flags = IBV_SEND_SIGNALED | IBV_SEND_FENCE;
	ibv_wr_rdma_write(qp, pair.mr->rkey, (uintptr_t)word + 64);
	ibv_wr_set_inline_data(qp, text, sizeof(text));
	memset(text, 'x', sizeof(text)); /* it was copied */
	qp->wr_id = 13;
	ibv_wr_send_imm(qp, htobe32(99));
	ibv_wr_set_sge_list(qp, 0, NULL);
	ck_assert_int_eq(ibv_wr_complete(qp), 0);

	for (uint64_t i = 10; i <= 13; i++) {
		wc = wait_completion(pair.send_cq);
		ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
		ck_assert_uint_eq(wc.wr_id, i);
	}
	ck_assert_uint_eq(*(uint64_t *)pair.buffer, 40);
	ck_assert_uint_eq(*(uint64_t *)(pair.buffer + 8), 42);
	ck_assert_str_eq((char *)(word + 8), "inline");
	wc = wait_completion(pair.recv_cq);
	ck_assert_uint_eq(wc.imm_data, htobe32(99));
	ck_assert_uint_eq(wc.byte_len, 0);
	pair_close(&pair);
}
END_TEST

/* The last setter decides whether data is inline. As many SGEs as the queue pair takes. */
START_TEST(builders_change_their_mind)
{
	struct ibv_sge sges[2];
	struct ibv_qp_ex *qp;
	char text[] = "inline";

	pair_open(&pair, IBV_QPT_RC, ALL_OPERATIONS);
	qp = ibv_qp_to_qp_ex(pair.sender);
	for (int i = 0; i < 200; i++)
		pair.buffer[i] = i;
	sges[0] = sges[1] = send_sge(&pair, 100);
	sges[1].addr += 100;
	ibv_wr_start(qp);
	qp->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(qp, pair.mr->rkey, (uintptr_t)pair.buffer + BUFFER_SIZE);
	ibv_wr_set_inline_data(qp, text, sizeof(text));
	ibv_wr_set_sge_list(qp, 2, sges);
	ck_assert_int_eq(ibv_wr_complete(qp), 0);
	ck_assert_int_eq(wait_completion(pair.send_cq).status, IBV_WC_SUCCESS);
	ck_assert_mem_eq(pair.buffer + BUFFER_SIZE, pair.buffer, 200);
	pair_close(&pair);
}
END_TEST

/* Of the slot's request before it nothing is left. */
START_TEST(builders_set_no_inline_data)
{
	char text[] = "inline";
	const size_t lengths[] = {sizeof(text), 0};
	struct ibv_qp_ex *qp;

	pair_open(&pair, IBV_QPT_RC, ALL_OPERATIONS);
	qp = ibv_qp_to_qp_ex(pair.sender);
	qp->wr_flags = IBV_SEND_SIGNALED;
	for (int i = 0; i < 2; i++) {
		post_receive(&pair, 1);
		ibv_wr_start(qp);
		ibv_wr_send(qp);
		ibv_wr_set_inline_data(qp, text, lengths[i]);
		ck_assert_int_eq(ibv_wr_complete(qp), 0);
		ck_assert_int_eq(wait_completion(pair.send_cq).status, IBV_WC_SUCCESS);
		ck_assert_uint_eq(wait_completion(pair.recv_cq).byte_len, lengths[i]);
	}
	pair_close(&pair);
}
END_TEST

static void wr_flush(struct ibv_qp_ex *qp, size_t length, uint8_t type, uint8_t level)
{
	wr_flush_function *flush = (wr_flush_function *)((uint8_t *)qp + QP_EX_WR_FLUSH_OFFSET);

	qp->wr_id = 21;
	(*flush)(qp, pair.mr->rkey, (uintptr_t)pair.buffer + BUFFER_SIZE, length, type, level);
}

/* Of newer headers than ours, by the place that they have in the ABI. */
START_TEST(atomic_writes_and_flushes)
{
	uint64_t *word = (uint64_t *)(pair.buffer + BUFFER_SIZE), value = 0x1122334455667788;
	struct ibv_send_wr *bad, wr = {.opcode = WR_FLUSH};
	struct ibv_qp_ex *qp;
	struct ibv_wc wc;

	pair_open(&pair, IBV_QPT_RC,
		  ALL_OPERATIONS | IBV_QP_EX_WITH_ATOMIC_WRITE | QP_EX_WITH_FLUSH);
	qp = ibv_qp_to_qp_ex(pair.sender);
	*word = 0;
	ibv_wr_start(qp);
	qp->wr_flags = IBV_SEND_SIGNALED;
	qp->wr_id = 20;
	ibv_wr_atomic_write(qp, pair.mr->rkey, (uintptr_t)word, &value);
	value = 0; /* it was taken */
	wr_flush(qp, 8, FLUSH_GLOBAL, FLUSH_RANGE);
	wr_flush(qp, SIZE_MAX, FLUSH_GLOBAL, FLUSH_MR);
	ck_assert_int_eq(ibv_wr_complete(qp), 0);
	wc = wait_completion(pair.send_cq);
	ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
	ck_assert_int_eq(wc.opcode, IBV_WC_ATOMIC_WRITE);
	ck_assert_uint_eq(wc.wr_id, 20);
	for (int i = 0; i < 2; i++) {
		wc = wait_completion(pair.send_cq);
		ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
		ck_assert_int_eq(wc.opcode, WC_FLUSH);
		ck_assert_uint_eq(wc.wr_id, 21);
	}
	ck_assert_uint_eq(*word, 0x1122334455667788);

	/* No type, a type and a level that there aren't; data, which it hasn't. */
	static const uint8_t bad_flushes[][2] = {{0, 0}, {4, 0}, {1, 2}};

	for (size_t i = 0; i < sizeof(bad_flushes) / sizeof(*bad_flushes); i++) {
		ibv_wr_start(qp);
		wr_flush(qp, 8, bad_flushes[i][0], bad_flushes[i][1]);
		ck_assert_int_eq(ibv_wr_complete(qp), EINVAL);
	}
	ibv_wr_start(qp);
	wr_flush(qp, 8, FLUSH_GLOBAL, FLUSH_RANGE);
	ibv_wr_set_sge(qp, pair.mr->lkey, (uintptr_t)pair.buffer, 8);
	ck_assert_int_eq(ibv_wr_complete(qp), EINVAL);
	/* An ibv_send_wr can't say what is to be flushed. */
	ck_assert_int_eq(ibv_post_send(pair.sender, &wr, &bad), EINVAL);
	ck_assert_ptr_eq(bad, &wr);

	/* What this side lacks the peer may have; ours hasn't. */
	ibv_wr_start(qp);
	wr_flush(qp, 8, FLUSH_PERSISTENT, FLUSH_RANGE);
	ck_assert_int_eq(ibv_wr_complete(qp), 0);
	wc = wait_completion(pair.send_cq);
	ck_assert_int_eq(wc.status, IBV_WC_REM_INV_REQ_ERR);
	pair_close(&pair);
}
END_TEST

/* The value needs no room that the application asks for. */
START_TEST(atomic_write_without_inline_data)
{
	struct ibv_context *context = fixture_open();
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_cq *cq = ibv_create_cq(context, 4, NULL, NULL, 0);
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_RC,
		.send_cq = cq,
		.recv_cq = cq,
		.cap = {.max_send_wr = 4},
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = pd,
		.send_ops_flags = IBV_QP_EX_WITH_ATOMIC_WRITE,
	};
	struct ibv_qp *qp = ibv_create_qp_ex(context, &attr);
	static uint64_t target;
	uint64_t value = 76;
	struct ibv_mr *mr = ibv_reg_mr(pd, &target, sizeof(target),
				       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);

	ck_assert_ptr_nonnull(qp);
	ck_assert_uint_eq(attr.cap.max_inline_data, 8);
	connect_qp(qp, qp);
	ibv_wr_start(ibv_qp_to_qp_ex(qp));
	ibv_qp_to_qp_ex(qp)->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_atomic_write(ibv_qp_to_qp_ex(qp), mr->rkey, (uintptr_t)&target, &value);
	ck_assert_int_eq(ibv_wr_complete(ibv_qp_to_qp_ex(qp)), 0);
	ck_assert_int_eq(wait_completion(cq).status, IBV_WC_SUCCESS);
	ck_assert_uint_eq(target, 76);
	ck_assert_int_eq(ibv_destroy_qp(qp), 0);
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	ck_assert_int_eq(ibv_destroy_cq(cq), 0);
	ck_assert_int_eq(ibv_dealloc_pd(pd), 0);
	fixture_close(context);
}
END_TEST

static void build_write(struct ibv_qp_ex *qp)
{
	qp->wr_id = 1;
	qp->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(qp, pair.mr->rkey, (uintptr_t)pair.buffer + BUFFER_SIZE);
	ibv_wr_set_sge(qp, pair.mr->lkey, (uintptr_t)pair.buffer, 8);
}

START_TEST(builders_post_all_or_nothing)
{
	struct ibv_sge sges[3] = {};
	struct ibv_qp_init_attr init_attr;
	struct ibv_qp_attr attr;
	struct ibv_qp_ex *qp;
	static char large[65];

	pair_open(&pair, IBV_QPT_RC, ALL_OPERATIONS);
	qp = ibv_qp_to_qp_ex(pair.sender);

	ibv_wr_start(qp);
	build_write(qp);
	ibv_wr_abort(qp);

	ibv_wr_start(qp);
	ck_assert_int_eq(ibv_wr_complete(qp), 0);

	/* One too many for the queue. */
	ibv_wr_start(qp);
	for (int i = 0; i < 100000; i++)
		build_write(qp);
	ck_assert_int_eq(ibv_wr_complete(qp), ENOMEM);

	/* Too many SGEs in the second; too much inline data; a setter before any builder. */
	ibv_wr_start(qp);
	build_write(qp);
	build_write(qp);
	ibv_wr_set_sge_list(qp, 3, sges);
	ck_assert_int_eq(ibv_wr_complete(qp), EINVAL);
	ibv_wr_start(qp);
	build_write(qp);
	ibv_wr_set_inline_data(qp, large, sizeof(large));
	ck_assert_int_ne(ibv_wr_complete(qp), 0);
	ibv_wr_start(qp);
	ibv_wr_set_sge(qp, 0, 0, 0);
	ck_assert_int_eq(ibv_wr_complete(qp), EINVAL);

	/* Two where the queue has room for one. Slots come back when completions are polled. */
	ck_assert_int_eq(ibv_query_qp(pair.sender, &attr, IBV_QP_CAP, &init_attr), 0);
	for (uint32_t i = 1; i < init_attr.cap.max_send_wr; i++) {
		ibv_wr_start(qp);
		build_write(qp);
		ck_assert_int_eq(ibv_wr_complete(qp), 0);
	}
	ibv_wr_start(qp);
	build_write(qp);
	build_write(qp);
	ck_assert_int_eq(ibv_wr_complete(qp), ENOMEM);
	for (uint32_t i = 1; i < init_attr.cap.max_send_wr; i++)
		ck_assert_uint_eq(wait_completion(pair.send_cq).wr_id, 1);

	/* Nothing of all that was posted: the next completions are the next post's. */
	for (uint64_t i = 76; i <= 77; i++) {
		ibv_wr_start(qp);
		qp->wr_id = i;
		qp->wr_flags = IBV_SEND_SIGNALED;
		ibv_wr_rdma_write(qp, pair.mr->rkey, (uintptr_t)pair.buffer + BUFFER_SIZE);
		ibv_wr_set_sge(qp, pair.mr->lkey, (uintptr_t)pair.buffer, 8);
		ck_assert_int_eq(ibv_wr_complete(qp), 0);
		ck_assert_uint_eq(wait_completion(pair.send_cq).wr_id, i);
	}
	pair_close(&pair);
}
END_TEST

START_TEST(completion_channel)
{
	struct ibv_cq *cq = NULL;
	void *cq_context = NULL;
	struct ibv_wc wc;

	pair_open(&pair, IBV_QPT_RC, 0);
	make_nonblocking(pair.channel->fd);
	ck_assert_int_eq(ibv_get_cq_event(pair.channel, &cq, &cq_context), -1);
	ck_assert_int_eq(errno, EAGAIN);

	/* Not armed: no event. */
	post_receive(&pair, 1);
	post_send(1, 0);
	wait_completion(pair.recv_cq);
	ck_assert(!readable(pair.channel->fd));

	/* Armed: one event for two completions; it wakes a blocking reader. */
	ck_assert_int_eq(fcntl(pair.channel->fd, F_SETFL, 0), 0);
	ck_assert_int_eq(ibv_req_notify_cq(pair.recv_cq, 0), 0);
	post_receive(&pair, 2);
	post_receive(&pair, 3);
	post_send(2, 0);
	post_send(3, IBV_SEND_SIGNALED);
	ck_assert_int_eq(ibv_get_cq_event(pair.channel, &cq, &cq_context), 0);
	ck_assert_ptr_eq(cq, pair.recv_cq);
	ck_assert_ptr_eq(cq_context, &pair);
	wait_completion(pair.send_cq);
	ck_assert_uint_eq(wait_completion(pair.recv_cq).wr_id, 2);
	ck_assert_uint_eq(wait_completion(pair.recv_cq).wr_id, 3);
	ck_assert(!readable(pair.channel->fd));

	/* Armed for solicited completions only. */
	ck_assert_int_eq(ibv_req_notify_cq(pair.recv_cq, 1), 0);
	post_receive(&pair, 4);
	post_receive(&pair, 5);
	post_send(4, 0);
	wait_completion(pair.recv_cq);
	ck_assert(!readable(pair.channel->fd));
	post_send(5, IBV_SEND_SOLICITED);
	ck_assert_int_eq(ibv_get_cq_event(pair.channel, &cq, &cq_context), 0);
	wc = wait_completion(pair.recv_cq);
	ck_assert_uint_eq(wc.wr_id, 5);
	ibv_ack_cq_events(pair.recv_cq, 2);
	pair_close(&pair);
}
END_TEST

static void *destroy_cq(void *cq)
{
	ck_assert_int_eq(ibv_destroy_cq(cq), 0);
	return NULL;
}

/* ibv_destroy_cq() drops events that weren't taken, and waits for what was taken. */
START_TEST(destruction_waits_for_acknowledgements)
{
	struct ibv_cq *cq = NULL;
	void *cq_context;
	pthread_t thread;

	pair_open(&pair, IBV_QPT_RC, 0);
	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(ibv_req_notify_cq(pair.recv_cq, 0), 0);
		post_receive(&pair, i);
		post_send(i, 0);
		wait_completion(pair.recv_cq);
		while (!readable(pair.channel->fd))
			;
		if (i == 0)
			ck_assert_int_eq(ibv_get_cq_event(pair.channel, &cq, &cq_context), 0);
	}
	ck_assert(readable(pair.channel->fd));
	ck_assert_int_eq(ibv_destroy_qp(pair.sender), 0);
	ck_assert_int_eq(ibv_destroy_qp(pair.receiver), 0);
	ck_assert_int_eq(pthread_create(&thread, NULL, destroy_cq, pair.recv_cq), 0);
	/* The event that was queued goes first; then it waits for the one that was taken. */
	while (readable(pair.channel->fd))
		;
	usleep(20000);
	ck_assert_int_eq(pthread_tryjoin_np(thread, NULL), EBUSY);
	ck_assert_int_eq(ibv_destroy_comp_channel(pair.channel), EBUSY);
	ibv_ack_cq_events(cq, 1);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	ck_assert_int_eq(ibv_destroy_comp_channel(pair.channel), 0);
	ck_assert_int_eq(ibv_destroy_cq(pair.send_cq), 0);
	ck_assert_int_eq(ibv_dereg_mr(pair.mr), 0);
	ck_assert_int_eq(ibv_dealloc_pd(pair.pd), 0);
	fixture_close(pair.context);
}
END_TEST

START_TEST(asynchronous_events)
{
	struct ibv_async_event event;
	struct ibv_srq_init_attr srq_attr = {.attr = {.max_wr = 8, .max_sge = 1}};
	struct ibv_recv_wr wr = {}, *bad;
	struct ibv_srq *srq;
	struct ibv_qp *qp;
	struct ibv_qp_attr error = {.qp_state = IBV_QPS_ERR};

	pair_open(&pair, IBV_QPT_RC, 0);
	make_nonblocking(pair.context->async_fd);
	while (ibv_get_async_event(pair.context, &event) == 0)
		ibv_ack_async_event(&event); /* of connecting */
	ck_assert_int_eq(errno, EAGAIN);
	ck_assert(!readable(pair.context->async_fd));

	srq = ibv_create_srq(pair.pd, &srq_attr);
	ck_assert_ptr_nonnull(srq);
	qp = ibv_create_qp(pair.pd, &(struct ibv_qp_init_attr){
					    .send_cq = pair.send_cq,
					    .recv_cq = pair.recv_cq,
					    .srq = srq,
					    .cap = {.max_send_wr = 1, .max_send_sge = 1},
					    .qp_type = IBV_QPT_RC,
				    });
	ck_assert_ptr_nonnull(qp);
	connect_qp(qp, pair.sender);
	ck_assert_int_eq(ibv_modify_qp(pair.sender,
				       &(struct ibv_qp_attr){.qp_state = IBV_QPS_RESET},
				       IBV_QP_STATE),
			 0);
	connect_qp(pair.sender, qp);
	ck_assert_int_eq(ibv_post_srq_recv(srq, &wr, &bad), 0);
	ck_assert_int_eq(ibv_post_srq_recv(srq, &wr, &bad), 0);
	ck_assert_int_eq(ibv_modify_srq(srq, &(struct ibv_srq_attr){.srq_limit = 2}, IBV_SRQ_LIMIT),
			 0);
	ck_assert_int_eq(ibv_post_send(pair.sender, &(struct ibv_send_wr){.opcode = IBV_WR_SEND},
				       &(struct ibv_send_wr *){NULL}),
			 0);
	wait_completion(pair.recv_cq);
	while (!readable(pair.context->async_fd))
		;
	do {
		ck_assert_int_eq(ibv_get_async_event(pair.context, &event), 0);
		ibv_ack_async_event(&event);
	} while (event.event_type == IBV_EVENT_COMM_EST);
	ck_assert_int_eq(event.event_type, IBV_EVENT_SRQ_LIMIT_REACHED);
	ck_assert_ptr_eq(event.element.srq, srq);

	/* An event that isn't taken goes with its queue pair. */
	ck_assert_int_eq(ibv_modify_qp(qp, &error, IBV_QP_STATE), 0);
	while (!readable(pair.context->async_fd))
		; /* the background thread may deliver it, after one of its own */
	ck_assert_int_eq(ibv_destroy_qp(qp), 0);
	ck_assert(!readable(pair.context->async_fd));
	ck_assert_int_eq(ibv_destroy_srq(srq), 0);
	pair_close(&pair);
}
END_TEST

/* The child of a fork may let go of what it inherits, and the parent goes on untouched. */
START_TEST(fork_in_between)
{
	struct ibv_wc wc;
	int status;
	pid_t child;

	pair_open(&pair, IBV_QPT_RC, 0);
	child = fork();
	if (child == 0) {
		int found = ibv_poll_cq(pair.recv_cq, 1, &wc);

		pair_close(&pair);
		_exit(found);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	post_receive(&pair, 7);
	post_send(9, IBV_SEND_SIGNALED);
	ck_assert_uint_eq(wait_completion(pair.recv_cq).wr_id, 7);
	ck_assert_uint_eq(wait_completion(pair.send_cq).wr_id, 9);
	pair_close(&pair);
}
END_TEST

START_TEST(answer_to_a_datagram)
{
	struct ibv_ah_attr attr = {
		.is_global = 1, .port_num = 1, .grh = {.hop_limit = 7, .traffic_class = 8}};
	struct ibv_sge sge = {};
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1}, *bad;
	struct ibv_ah_attr back;
	struct ibv_grh *grh = (struct ibv_grh *)(pair.buffer + BUFFER_SIZE);
	struct ibv_ah *ah;
	struct ibv_wc wc;

	pair_open(&pair, IBV_QPT_UD, 0);
	ibv_query_gid(pair.context, 1, 0, &attr.grh.dgid);
	ah = ibv_create_ah(pair.pd, &attr);
	ck_assert_ptr_nonnull(ah);
	sge = send_sge(&pair, 16);
	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = pair.receiver->qp_num;
	wr.wr.ud.remote_qkey = 0x1ee7;
	post_receive(&pair, 1);
	ck_assert_int_eq(ibv_post_send(pair.sender, &wr, &bad), 0);
	wc = wait_completion(pair.recv_cq);
	ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
	ck_assert_uint_eq(wc.byte_len, 56);
	ck_assert_uint_eq(wc.src_qp, pair.sender->qp_num);
	ck_assert_uint_ne(wc.wc_flags & IBV_WC_GRH, 0);
	ck_assert_int_eq(ibv_destroy_ah(ah), 0);

	ck_assert_int_eq(ibv_init_ah_from_wc(pair.context, 1, &wc, grh, &back), 0);
	ck_assert_int_eq(back.is_global, 1);
	ck_assert_int_eq(back.grh.sgid_index, 0);
	ck_assert_int_eq(memcmp(&back.grh.dgid, &attr.grh.dgid, 16), 0);
	ck_assert_uint_eq(back.grh.traffic_class, 8);
	ck_assert_uint_eq(back.grh.hop_limit, 64); /* whatever the address handle says */
	ah = ibv_create_ah_from_wc(pair.pd, &wc, grh, 1);
	ck_assert_ptr_nonnull(ah);
	ck_assert_int_eq(ibv_destroy_ah(ah), 0);

	/* What lies before an IPv4 header may look like IPv6: the header's checksum decides. */
	grh->version_tclass_flow = htobe32(6u << 28);
	ck_assert_int_eq(ibv_init_ah_from_wc(pair.context, 1, &wc, grh, &back), 0);
	ck_assert_int_eq(memcmp(&back.grh.dgid, &attr.grh.dgid, 16), 0);
	ck_assert_uint_eq(back.grh.traffic_class, 8);
	pair.buffer[BUFFER_SIZE + 30] ^= 1; /* of the checksum */
	ck_assert_int_eq(ibv_init_ah_from_wc(pair.context, 1, &wc, grh, &back), -1);
	pair.buffer[BUFFER_SIZE + 30] ^= 1;
	grh->version_tclass_flow = 0;

	/* The destination must be an address of ours. */
	pair.buffer[BUFFER_SIZE + 39] ^= 1;
	ck_assert_int_eq(ibv_init_ah_from_wc(pair.context, 1, &wc, grh, &back), -1);
	pair_close(&pair);
}
END_TEST

START_TEST(wrong_q_keys_are_counted)
{
	struct pair pair;
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1};
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND}, *bad;
	struct ibv_port_attr port;

	pair_open(&pair, IBV_QPT_UD, 0);
	ck_assert_int_eq(ibv_query_port(pair.context, 1, &port), 0);
	ck_assert_uint_eq(port.qkey_viol_cntr, 0);
	ck_assert_uint_eq(port.bad_pkey_cntr, 0);
	ibv_query_gid(pair.context, 1, 0, &attr.grh.dgid);
	wr.wr.ud.ah = ibv_create_ah(pair.pd, &attr);
	ck_assert_ptr_nonnull(wr.wr.ud.ah);
	wr.wr.ud.remote_qpn = pair.receiver->qp_num;
	post_receive(&pair, 1);
	for (uint32_t qkey = 0x1ee5; qkey <= 0x1ee7; qkey++) {
		wr.wr.ud.remote_qkey = qkey;
		ck_assert_int_eq(ibv_post_send(pair.sender, &wr, &bad), 0);
	}
	ck_assert_int_eq(wait_completion(pair.recv_cq).status, IBV_WC_SUCCESS);
	ck_assert_int_eq(ibv_query_port(pair.context, 1, &port), 0);
	ck_assert_uint_eq(port.qkey_viol_cntr, 2);
	ck_assert_int_eq(ibv_destroy_ah(wr.wr.ud.ah), 0);
	pair_close(&pair);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("traffic");
	TCase *tests = tcase_create("traffic");

	fixture_environment();
	tcase_set_timeout(tests, 60);
	tcase_add_test(tests, send);
	tcase_add_test(tests, reset_drops_what_is_under_way);
	tcase_add_test(tests, send_without_memory);
	tcase_add_test(tests, extended_polling);
	tcase_add_test(tests, builders);
	tcase_add_test(tests, builders_change_their_mind);
	tcase_add_test(tests, builders_set_no_inline_data);
	tcase_add_test(tests, atomic_writes_and_flushes);
	tcase_add_test(tests, atomic_write_without_inline_data);
	tcase_add_test(tests, builders_post_all_or_nothing);
	tcase_add_test(tests, completion_channel);
	tcase_add_test(tests, destruction_waits_for_acknowledgements);
	tcase_add_test(tests, asynchronous_events);
	tcase_add_test(tests, fork_in_between);
	tcase_add_test(tests, answer_to_a_datagram);
	tcase_add_test(tests, wrong_q_keys_are_counted);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
