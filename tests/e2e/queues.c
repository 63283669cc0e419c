/* SPDX-License-Identifier: BSD-2-Clause */
/* RC: what queues promise: limits, slots, events, and the ibv_wr_* calls. */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <time.h>

#include "scenario.h"

static void send_number(struct pair *pair, uint32_t i, unsigned int flags)
{
	struct ibv_sge sge = pair_sge(pair, 0, 8);
	struct ibv_send_wr wr = {.wr_id = i,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND_WITH_IMM,
				 .imm_data = htonl(i),
				 .send_flags = flags};

	CHECK_EQUAL(pair_post(pair, &wr), 0);
}

static void expect_number(struct pair *pair, uint32_t i)
{
	struct ibv_wc wc;

	pair_expect(pair, pair->receive_cq, i, &wc);
	CHECK_EQUAL(ntohl(wc.imm_data), i);
}

static bool readable(int fd)
{
	struct pollfd pollfd = {.fd = fd, .events = POLLIN};

	return poll(&pollfd, 1, 0) == 1;
}

/* The limit is an event when fewer receives remain, once until it is armed again. */
static void srq_limit(struct pair *pair)
{
	struct ibv_srq_attr attr = {.srq_limit = 4};
	struct ibv_wc wc;
	uint32_t next = 0;

	pair_open(pair, &(struct pair_options){.srq = true});
	for (uint32_t i = 0; i < 10; i++)
		pair_receive(pair, i, 0, 64);
	if (pair->server)
		CHECK_EQUAL(ibv_modify_srq(pair->srq, &attr, IBV_SRQ_LIMIT), 0);
	pair_barrier(pair);
	for (int round = 0; round < 2; round++) {
		/* 10 receives: 7 messages leave 3, which is below 4. */
		for (uint32_t i = 0; i < 7; i++, next++) {
			if (pair->server) {
				expect_number(pair, next);
			} else {
				send_number(pair, next, IBV_SEND_SIGNALED);
				pair_expect(pair, pair->send_cq, next, &wc);
			}
		}
		if (pair->server) {
			pair_expect_event(pair, IBV_EVENT_SRQ_LIMIT_REACHED);
			CHECK_EQUAL(ibv_query_srq(pair->srq, &attr), 0);
			CHECK_EQUAL(attr.srq_limit, 0);
			for (uint32_t i = 0; i < 7; i++)
				pair_receive(pair, next + 3 + i, 0, 64);
			attr.srq_limit = 4;
			CHECK_EQUAL(ibv_modify_srq(pair->srq, &attr, IBV_SRQ_LIMIT), 0);
		}
		pair_barrier(pair);
	}
	CHECK(!readable(pair->context->async_fd) || !pair->server);
	pair_close(pair);
}

/* A CQ armed for solicited completions sleeps through all others. */
static void solicited(struct pair *pair)
{
	struct ibv_cq *cq;
	void *context;

	pair_open(pair, &(struct pair_options){.events = true});
	for (uint32_t i = 0; i < 3; i++)
		pair_receive(pair, i, 0, 64);
	if (pair->server)
		CHECK_EQUAL(ibv_req_notify_cq(pair->receive_cq, 1), 0);
	pair_barrier(pair);
	if (!pair->server) {
		struct ibv_wc wc;

		send_number(pair, 0, IBV_SEND_SIGNALED);
		send_number(pair, 1, IBV_SEND_SIGNALED);
		pair_expect(pair, pair->send_cq, 0, &wc);
		pair_expect(pair, pair->send_cq, 1, &wc);
	}
	pair_barrier(pair); /* both have arrived, for they were acknowledged */
	if (pair->server)
		CHECK(!readable(pair->channel->fd));
	pair_barrier(pair);
	if (!pair->server) {
		send_number(pair, 2, IBV_SEND_SOLICITED);
	} else {
		CHECK_EQUAL(ibv_get_cq_event(pair->channel, &cq, &context), 0);
		CHECK(cq == pair->receive_cq);
		pair->channel_events[1]++;
		for (uint32_t i = 0; i < 3; i++)
			expect_number(pair, i);
	}
	pair_barrier(pair);
	pair_close(pair);
}

static uint64_t microseconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static uint32_t poll_all(struct pair *pair, uint32_t next)
{
	struct ibv_wc wc;

	for (; ibv_poll_cq(pair->receive_cq, 1, &wc) == 1; next++) {
		CHECK_EQUAL(wc.status, IBV_WC_SUCCESS);
		CHECK_EQUAL(wc.wr_id, next);
		CHECK_EQUAL(ntohl(wc.imm_data), next);
		pair_receive(pair, next + 16, 0, 64);
	}
	return next;
}

/*
 * Messages come one by one to a receiver that sleeps. An event stands for as many of them as the
 * CQ's moderation says, or for its period: that is how many there may be, whatever the machine is
 * busy with.
 */
static void moderation(struct pair *pair)
{
	enum { MESSAGES = 500, COUNT = 10, PERIOD = 4000 };
	struct ibv_modify_cq_attr attr = {
		.attr_mask = IBV_CQ_ATTR_MODERATE,
		.moderate = {.cq_count = COUNT, .cq_period = PERIOD},
	};
	uint64_t start = microseconds();
	uint32_t next = 0, events = 0;
	struct ibv_wc wc;
	struct ibv_cq *cq;
	void *context;

	pair_open(pair, &(struct pair_options){.events = true});
	for (uint32_t i = 0; i < 16; i++)
		pair_receive(pair, i, 0, 64);
	CHECK_EQUAL(ibv_modify_cq(pair->receive_cq, &attr), 0);
	pair_barrier(pair);
	for (; !pair->server && next < MESSAGES; next++) {
		send_number(pair, next, IBV_SEND_SIGNALED);
		pair_expect(pair, pair->send_cq, next, &wc);
	}
	while (pair->server && next < MESSAGES) {
		CHECK_EQUAL(ibv_req_notify_cq(pair->receive_cq, 0), 0);
		next = poll_all(pair, next);
		if (next == MESSAGES)
			break;
		CHECK_EQUAL(ibv_get_cq_event(pair->channel, &cq, &context), 0);
		pair->channel_events[1]++;
		events++;
		next = poll_all(pair, next);
	}
	CHECK(events <= MESSAGES / COUNT + (microseconds() - start) / PERIOD + 1);
	pair_barrier(pair);
	pair_close(pair);
}

static uint64_t raw_clock(struct pair *pair)
{
	struct ibv_values_ex values = {.comp_mask = IBV_VALUES_MASK_RAW_CLOCK};

	CHECK_EQUAL(ibv_query_rt_values_ex(pair->context, &values), 0);
	return values.raw_clock.tv_nsec;
}

struct timestamp {
	uint64_t device, wall;
};

/* When the next completion of @cq was made. */
static struct timestamp next_timestamp(struct ibv_cq *cq, uint64_t wr_id)
{
	struct ibv_cq_ex *extended = (struct ibv_cq_ex *)cq; /* as it was created */
	struct ibv_poll_cq_attr attr = {};
	struct timestamp timestamp;
	int error;

	for (int i = 0; (error = ibv_start_poll(extended, &attr)) == ENOENT; i++) {
		CHECK(i < 30000);
		if (i > 1000)
			poll(NULL, 0, 1);
	}
	CHECK_EQUAL(error, 0);
	CHECK_EQUAL(extended->status, IBV_WC_SUCCESS);
	CHECK_EQUAL(extended->wr_id, wr_id);
	timestamp.device = ibv_wc_read_completion_ts(extended);
	timestamp.wall = ibv_wc_read_completion_wallclock_ns(extended);
	ibv_end_poll(extended);
	return timestamp;
}

/*
 * Completions were made in their order, after their requests were posted, and by both clocks alike.
 */
static void timestamps(struct pair *pair)
{
	struct timestamp last = {0}, now;
	uint64_t before;

	pair_open(pair,
		  &(struct pair_options){
			  .receive_depth = 100,
			  .wc_flags = IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
				      IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK});
	for (uint32_t i = 0; i < 100; i++)
		pair_receive(pair, i, 0, 64);
	pair_barrier(pair);
	for (uint32_t i = 0; i < 100; i++) {
		before = last.device;
		if (!pair->server) {
			before = raw_clock(pair);
			send_number(pair, i, IBV_SEND_SIGNALED);
		}
		now = next_timestamp(pair->server ? pair->receive_cq : pair->send_cq, i);
		CHECK(now.device >= before);
		CHECK(now.device >= last.device);
		CHECK(now.device <= raw_clock(pair));
		CHECK(i == 0 || now.wall - last.wall == now.device - last.device);
		last = now;
	}
	pair_barrier(pair);
	pair_close(pair);
}

/* The receive CQ is too small for all that comes: the last completions are there, and no error. */
static void overrun_ignored(struct pair *pair)
{
	const uint32_t messages = 40;
	struct ibv_wc wc;
	uint32_t entries;

	pair_open(pair, &(struct pair_options){.receive_depth = 64, .receive_cqe = 8});
	entries = pair->receive_cq->cqe;
	CHECK(entries < messages);
	for (uint32_t round = 0; round < 2; round++) {
		for (uint32_t i = 0; pair->server && i < messages; i++)
			pair_receive(pair, i, 0, 64);
		pair_barrier(pair);
		for (uint32_t i = 0; !pair->server && i < messages; i++) {
			send_number(pair, i, IBV_SEND_SIGNALED);
			pair_expect(pair, pair->send_cq, i, &wc);
		}
		pair_barrier(pair); /* all have arrived, for they were acknowledged */
		for (uint32_t i = messages - entries; pair->server && i < messages; i++)
			expect_number(pair, i);
		pair_expect_nothing(pair->receive_cq);
	}
	CHECK(!readable(pair->context->async_fd));
	CHECK_EQUAL(pair_state(pair), IBV_QPS_RTS);
	pair_close(pair);
}

/* Unsignaled requests complete silently; their slots come free with the next signaled one. */
static void unsignaled(struct pair *pair)
{
	struct ibv_sge sge;
	struct ibv_wc wc;

	pair_open(pair, &(struct pair_options){.send_depth = 16});
	pair_barrier(pair);
	sge = pair_sge(pair, 0, 64);
	for (int round = 0; round < 50 && !pair->server; round++) {
		struct ibv_send_wr wr = {.sg_list = &sge,
					 .num_sge = 1,
					 .opcode = IBV_WR_RDMA_WRITE,
					 .wr.rdma = {pair->remote.address, pair->remote.rkey}};

		for (uint32_t i = 0; i < 16; i++) {
			wr.wr_id = i;
			wr.send_flags = i == 15 ? IBV_SEND_SIGNALED : 0;
			CHECK_EQUAL(pair_post(pair, &wr), 0);
		}
		pair_expect(pair, pair->send_cq, 15, &wc);
	}
	pair_expect_nothing(pair->send_cq);
	pair_barrier(pair);
	pair_close(pair);
}

/* No completion is polled: the queue must fill up, at the depth that was granted. */
static void queue_full(struct pair *pair)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct ibv_sge sge;
	struct ibv_wc wc;

	pair_open(pair, &(struct pair_options){.send_depth = 16, .signal_all = true});
	pair_barrier(pair);
	CHECK_EQUAL(ibv_query_qp(pair->qp, &attr, IBV_QP_CAP, &init), 0);
	CHECK(init.cap.max_send_wr >= 16);
	sge = pair_sge(pair, 0, 64);
	for (uint32_t i = 0; i <= 16 && !pair->server; i++) {
		struct ibv_send_wr wr = {.wr_id = i,
					 .sg_list = &sge,
					 .num_sge = 1,
					 .opcode = IBV_WR_RDMA_WRITE,
					 .wr.rdma = {pair->remote.address, pair->remote.rkey}};

		if (i == init.cap.max_send_wr)
			CHECK_EQUAL(pair_post(pair, &wr), ENOMEM);
		else if (i < 16)
			CHECK_EQUAL(pair_post(pair, &wr), 0);
	}
	for (uint32_t i = 0; i < 16 && !pair->server; i++)
		pair_expect(pair, pair->send_cq, i, &wc);
	pair_expect_nothing(pair->send_cq);
	pair_barrier(pair);
	pair_close(pair);
}

#define WR_OPERATIONS                                                                              \
	(IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_WRITE |          \
	 IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ |                           \
	 IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD)
#define FAR 65536u /* where in the server's memory the client writes */

/* One batch of everything; then one that is thrown away, and one that fails as a whole. */
static void wr_api_client(struct pair *pair)
{
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(pair->qp);
	struct ibv_data_buf buffers[2] = {{(void *)"inl", 3}, {(void *)"ined", 4}};
	struct ibv_sge sges[2] = {pair_sge(pair, 0, 1000), pair_sge(pair, 1000, 2000)};
	uint64_t far = pair->remote.address + FAR, value;
	struct ibv_wc wc;

	CHECK(qp);
	pattern_fill(pair->memory, 3000, 1);
	ibv_wr_start(qp);
	qp->wr_flags = IBV_SEND_SIGNALED;
	qp->wr_id = 0;
	ibv_wr_send(qp);
	ibv_wr_set_sge(qp, pair->mr->lkey, sges[0].addr, 1000);
	qp->wr_id = 1;
	ibv_wr_send_imm(qp, htonl(0x1234));
	ibv_wr_set_sge_list(qp, 2, sges);
	qp->wr_id = 2;
	ibv_wr_rdma_write(qp, pair->remote.rkey, far);
	ibv_wr_set_inline_data_list(qp, 2, buffers);
	qp->wr_id = 3;
	ibv_wr_rdma_write_imm(qp, pair->remote.rkey, far + 8, htonl(0x5678));
	ibv_wr_set_inline_data(qp, (void *)"12345678", 8);
	qp->wr_id = 4;
	ibv_wr_rdma_read(qp, pair->remote.rkey, far);
	ibv_wr_set_sge(qp, pair->mr->lkey, (uintptr_t)pair->memory + 8192, 16);
	qp->wr_id = 5;
	ibv_wr_atomic_fetch_add(qp, pair->remote.rkey, far + 16, 5);
	ibv_wr_set_sge(qp, pair->mr->lkey, (uintptr_t)pair->memory + 8208, 8);
	qp->wr_id = 6;
	ibv_wr_atomic_cmp_swp(qp, pair->remote.rkey, far + 16, 5, 77);
	ibv_wr_set_sge(qp, pair->mr->lkey, (uintptr_t)pair->memory + 8216, 8);
	CHECK_EQUAL(ibv_wr_complete(qp), 0);
	for (int i = 0; i < 7; i++)
		pair_expect(pair, pair->send_cq, i, &wc);
	CHECK(!memcmp(pair->memory + 8192, "inlined", 7));
	CHECK(!memcmp(pair->memory + 8200, "12345678", 8));
	memcpy(&value, pair->memory + 8208, 8);
	CHECK_EQUAL(value, 0);
	memcpy(&value, pair->memory + 8216, 8);
	CHECK_EQUAL(value, 5);

	ibv_wr_start(qp);
	qp->wr_id = 100;
	ibv_wr_send(qp);
	ibv_wr_set_sge(qp, pair->mr->lkey, sges[0].addr, 8);
	ibv_wr_abort(qp);

	/* One too many for the queue: none of them is posted. */
	ibv_wr_start(qp);
	for (uint32_t i = 0; i < 5000; i++) {
		qp->wr_id = 200 + i;
		ibv_wr_send(qp);
		ibv_wr_set_sge(qp, pair->mr->lkey, sges[0].addr, 8);
	}
	CHECK_EQUAL(ibv_wr_complete(qp), ENOMEM);
	pair_expect_nothing(pair->send_cq);
}

static void wr_api_server(struct pair *pair)
{
	struct ibv_wc wc;
	uint64_t value;

	pair_expect(pair, pair->receive_cq, 0, &wc);
	CHECK_EQUAL(wc.byte_len, 1000);
	CHECK(pattern_matches(pair->memory, 1000, 1));
	pair_expect(pair, pair->receive_cq, 1, &wc);
	CHECK_EQUAL(wc.byte_len, 3000);
	CHECK_EQUAL(ntohl(wc.imm_data), 0x1234);
	CHECK(pattern_matches(pair->memory + 4096, 3000, 1));
	pair_expect(pair, pair->receive_cq, 2, &wc);
	CHECK_EQUAL(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	CHECK_EQUAL(wc.byte_len, 8);
	CHECK_EQUAL(ntohl(wc.imm_data), 0x5678);
	pair_barrier(pair);
	memcpy(&value, pair->memory + FAR + 16, 8);
	CHECK_EQUAL(value, 77);
	pair_expect_nothing(pair->receive_cq);
}

static void wr_api(struct pair *pair)
{
	pair_open(pair, &(struct pair_options){.send_operations = WR_OPERATIONS, .max_inline = 64});
	for (uint32_t i = 0; i < 6; i++)
		pair_receive(pair, i, i * 4096, 4096);
	pair_barrier(pair);
	if (pair->server) {
		wr_api_server(pair);
	} else {
		wr_api_client(pair);
		pair_barrier(pair);
	}
	pair_barrier(pair);
	pair_close(pair);
}

const struct scenario scenarios_queue[] = {
	{"srq-limit", srq_limit},
	{"solicited", solicited},
	{"moderation", moderation},
	{"timestamps", timestamps},
	{"overrun-ignored", overrun_ignored},
	{"unsignaled", unsignaled},
	{"queue-full", queue_full},
	{"wr-api", wr_api},
	{NULL, NULL},
};
