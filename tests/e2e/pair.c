/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "net/newer_verbs.h"
#include "pair.h"

#define WAIT_SECONDS 50 /* below the harness's deadline, so that the story is ours to tell */

_Noreturn void pair_fail(const char *file, int line, const char *format, ...)
{
	va_list arguments;

	fflush(stdout);
	fprintf(stderr, "%s:%d: ", file, line);
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fprintf(stderr, " (errno %d)\n", errno);
	exit(1);
}

static uint64_t seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec;
}

/* Inlined, it makes gcc 12 take one member of the peer's endpoint for all there is to send. */
__attribute__((noinline)) void pair_exchange(struct pair *pair, const void *mine, void *theirs,
					     size_t length)
{
	size_t done = 0;

	CHECK_EQUAL(write(pair->socket, mine, length), length);
	while (done < length) {
		ssize_t n = read(pair->socket, (char *)theirs + done, length - done);

		if (n <= 0)
			pair_fail(__FILE__, __LINE__, "the peer is gone");
		done += n;
	}
}

uint64_t pair_exchange_number(struct pair *pair, uint64_t mine)
{
	uint64_t theirs;

	mine = htobe64(mine);
	pair_exchange(pair, &mine, &theirs, sizeof(mine));
	return be64toh(theirs);
}

struct pair_endpoint pair_endpoint_swap(const struct pair_endpoint *endpoint)
{
	return (struct pair_endpoint){
		.gid = endpoint->gid,
		.qpn = htonl(endpoint->qpn),
		.psn = htonl(endpoint->psn),
		.rkey = htobe64(endpoint->rkey),
		.address = htobe64(endpoint->address),
		.length = htobe64(endpoint->length),
	};
}

static void exchange_endpoints(struct pair *pair)
{
	struct pair_endpoint mine = pair_endpoint_swap(&pair->local), theirs;

	pair_exchange(pair, &mine, &theirs, sizeof(mine));
	pair->remote = pair_endpoint_swap(&theirs);
}

void pair_barrier(struct pair *pair)
{
	char here = 'b', there = 0;

	pair_exchange(pair, &here, &there, 1);
	CHECK_EQUAL(there, 'b');
}

static void default_options(struct pair *pair, const struct pair_options *options)
{
	struct pair_options *o = &pair->options;

	*o = *options;
	if (!o->type)
		o->type = IBV_QPT_RC;
	if (!o->mtu)
		o->mtu = pair->mtu;
	if (!o->send_depth)
		o->send_depth = 64;
	if (!o->receive_depth)
		o->receive_depth = 64;
	if (!o->max_sge)
		o->max_sge = 4;
	if (!o->memory)
		o->memory = 1 << 20;
	if (!o->access)
		o->access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			    IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	if (!o->min_rnr_timer)
		o->min_rnr_timer = 12; /* 0.64 ms */
	if (!o->rnr_retry)
		o->rnr_retry = 7;
}

static void create_qp(struct pair *pair)
{
	const struct pair_options *o = &pair->options;
	struct ibv_qp_init_attr_ex init = {
		.send_cq = pair->send_cq,
		.recv_cq = pair->receive_cq,
		.srq = pair->srq,
		.cap =
			{
				.max_send_wr = o->send_depth,
				.max_recv_wr = o->receive_depth,
				.max_send_sge = o->max_sge,
				.max_recv_sge = o->max_sge,
				.max_inline_data = o->max_inline,
			},
		.qp_type = o->type,
		.sq_sig_all = o->signal_all,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = pair->pd,
	};

	if (o->send_operations) {
		init.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
		init.send_ops_flags = o->send_operations;
	}
	pair->qp = ibv_create_qp_ex(pair->context, &init);
	CHECK(pair->qp);
}

static struct ibv_cq *create_cq(struct pair *pair, uint32_t entries, uint32_t flags)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = entries,
		.channel = pair->channel,
		.wc_flags = pair->options.wc_flags,
		.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
		.flags = flags,
	};
	struct ibv_cq_ex *extended;
	struct ibv_cq *cq;

	if (attr.wc_flags || flags) {
		extended = ibv_create_cq_ex(pair->context, &attr);
		cq = extended ? ibv_cq_ex_to_cq(extended) : NULL;
	} else {
		cq = ibv_create_cq(pair->context, entries, NULL, pair->channel, 0);
	}
	CHECK(cq);
	return cq;
}

static void create_objects(struct pair *pair)
{
	const struct pair_options *o = &pair->options;
	struct ibv_srq_init_attr srq = {
		.attr = {.max_wr = o->receive_depth, .max_sge = o->max_sge}};

	pair->pd = ibv_alloc_pd(pair->context);
	CHECK(pair->pd);
	pair->region_pd = o->foreign_pd ? ibv_alloc_pd(pair->context) : pair->pd;
	CHECK(pair->region_pd);
	if (o->events) {
		pair->channel = ibv_create_comp_channel(pair->context);
		CHECK(pair->channel);
	}
	pair->send_cq = create_cq(pair, o->send_depth, 0);
	pair->receive_cq =
		o->receive_cqe ? create_cq(pair, o->receive_cqe, IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN)
			       : create_cq(pair, o->receive_depth, 0);
	if (o->srq) {
		pair->srq = ibv_create_srq(pair->pd, &srq);
		CHECK(pair->srq);
	}
	/* Page-aligned, with a page of slack: out of bounds of the region, but mapped. */
	pair->memory = aligned_alloc(4096, (o->memory + 8191) & ~4095ull);
	CHECK(pair->memory);
	memset(pair->memory, 0, o->memory);
	pair->mr = ibv_reg_mr(pair->region_pd, pair->memory, o->memory, o->access);
	CHECK(pair->mr);
	create_qp(pair);
}

static void to_init(struct pair *pair)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 0x11111111};
	int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;

	if (pair->options.type == IBV_QPT_UD) {
		mask |= IBV_QP_QKEY;
	} else {
		mask |= IBV_QP_ACCESS_FLAGS;
		attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
		if (pair->options.type == IBV_QPT_RC)
			attr.qp_access_flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
						(pair->options.access & ACCESS_FLUSH_GLOBAL);
	}
	CHECK_EQUAL(ibv_modify_qp(pair->qp, &attr, mask), 0);
}

static void to_rtr(struct pair *pair)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = pair->options.mtu,
		.dest_qp_num = pair->remote.qpn,
		.rq_psn = pair->remote.psn,
		.max_dest_rd_atomic = 8,
		.min_rnr_timer = pair->options.min_rnr_timer,
		.ah_attr = {.is_global = 1,
			    .port_num = 1,
			    .grh = {.dgid = pair->remote.gid, .hop_limit = 64}},
	};
	int mask = IBV_QP_STATE;

	if (pair->options.type != IBV_QPT_UD)
		mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (pair->options.type == IBV_QPT_RC)
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	CHECK_EQUAL(ibv_modify_qp(pair->qp, &attr, mask), 0);
	if (pair->options.type == IBV_QPT_UD) {
		pair->ah = ibv_create_ah(pair->pd, &attr.ah_attr);
		CHECK(pair->ah);
	}
}

static void to_rts(struct pair *pair)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.sq_psn = pair->local.psn,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = pair->options.rnr_retry,
		.max_rd_atomic = 8,
	};
	int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;

	if (pair->options.type == IBV_QPT_RC)
		mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			IBV_QP_MAX_QP_RD_ATOMIC;
	CHECK_EQUAL(ibv_modify_qp(pair->qp, &attr, mask), 0);
}

void pair_open(struct pair *pair, const struct pair_options *options)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);

	default_options(pair, options);
	CHECK(devices && devices[0]);
	pair->context = ibv_open_device(devices[0]);
	CHECK(pair->context);
	ibv_free_device_list(devices);

	create_objects(pair);
	pair->local = (struct pair_endpoint){
		.qpn = pair->qp->qp_num,
		/* Close to the end: the numbers wrap while the scenario runs. */
		.psn = pair->server ? 0xfffff0 : 0xffffa0,
		.rkey = pair->mr->rkey,
		.address = (uintptr_t)pair->memory,
		.length = pair->options.memory,
	};
	CHECK_EQUAL(ibv_query_gid(pair->context, 1, 0, &pair->local.gid), 0);
	exchange_endpoints(pair);
	to_init(pair);
	to_rtr(pair);
	to_rts(pair);
	pair_barrier(pair);
}

void pair_close(struct pair *pair)
{
	ibv_ack_cq_events(pair->send_cq, pair->channel_events[0]);
	ibv_ack_cq_events(pair->receive_cq, pair->channel_events[1]);
	if (pair->ah)
		CHECK_EQUAL(ibv_destroy_ah(pair->ah), 0);
	CHECK_EQUAL(ibv_destroy_qp(pair->qp), 0);
	if (pair->srq)
		CHECK_EQUAL(ibv_destroy_srq(pair->srq), 0);
	CHECK_EQUAL(ibv_destroy_cq(pair->send_cq), 0);
	CHECK_EQUAL(ibv_destroy_cq(pair->receive_cq), 0);
	if (pair->channel)
		CHECK_EQUAL(ibv_destroy_comp_channel(pair->channel), 0);
	CHECK_EQUAL(ibv_dereg_mr(pair->mr), 0);
	if (pair->region_pd != pair->pd)
		CHECK_EQUAL(ibv_dealloc_pd(pair->region_pd), 0);
	CHECK_EQUAL(ibv_dealloc_pd(pair->pd), 0);
	CHECK_EQUAL(ibv_close_device(pair->context), 0);
	free(pair->memory);
	close(pair->socket);
}

static int wait_event(struct pair *pair, struct ibv_cq *cq, struct ibv_wc *wc)
{
	struct pollfd pollfd = {.fd = pair->channel->fd, .events = POLLIN};
	struct ibv_cq *event_cq;
	void *context;
	int n;

	CHECK_EQUAL(ibv_req_notify_cq(cq, 0), 0);
	n = ibv_poll_cq(cq, 1, wc);
	if (n)
		return n;
	if (poll(&pollfd, 1, WAIT_SECONDS * 1000) != 1)
		pair_fail(__FILE__, __LINE__, "no completion event");
	CHECK_EQUAL(ibv_get_cq_event(pair->channel, &event_cq, &context), 0);
	pair->channel_events[event_cq == pair->receive_cq]++;
	return ibv_poll_cq(cq, 1, wc);
}

void pair_wait(struct pair *pair, struct ibv_cq *cq, struct ibv_wc *wc)
{
	uint64_t start = seconds();
	int n = ibv_poll_cq(cq, 1, wc);

	while (!n) {
		if (seconds() - start > WAIT_SECONDS)
			pair_fail(__FILE__, __LINE__, "no completion on the %s CQ",
				  cq == pair->send_cq ? "send" : "receive");
		n = pair->channel ? wait_event(pair, cq, wc) : ibv_poll_cq(cq, 1, wc);
	}
	CHECK_EQUAL(n, 1);
	CHECK_EQUAL(wc->qp_num, pair->qp->qp_num);
}

void pair_expect_status(struct pair *pair, struct ibv_cq *cq, uint64_t wr_id,
			enum ibv_wc_status status)
{
	struct ibv_wc wc;

	pair_wait(pair, cq, &wc);
	if (wc.wr_id != wr_id || wc.status != status)
		pair_fail(__FILE__, __LINE__, "%s completion of %llu: %s; expected %llu: %s",
			  cq == pair->send_cq ? "send" : "receive", (unsigned long long)wc.wr_id,
			  ibv_wc_status_str(wc.status), (unsigned long long)wr_id,
			  ibv_wc_status_str(status));
}

void pair_expect(struct pair *pair, struct ibv_cq *cq, uint64_t wr_id, struct ibv_wc *wc)
{
	pair_wait(pair, cq, wc);
	if (wc->wr_id != wr_id || wc->status != IBV_WC_SUCCESS)
		pair_fail(__FILE__, __LINE__, "%s completion of %llu: %s; expected %llu: success",
			  cq == pair->send_cq ? "send" : "receive", (unsigned long long)wc->wr_id,
			  ibv_wc_status_str(wc->status), (unsigned long long)wr_id);
}

void pair_expect_nothing(struct ibv_cq *cq)
{
	struct ibv_wc wc;

	CHECK_EQUAL(ibv_poll_cq(cq, 1, &wc), 0);
}

struct ibv_sge pair_sge(struct pair *pair, size_t offset, uint32_t length)
{
	return (struct ibv_sge){
		.addr = (uintptr_t)pair->memory + offset, .length = length, .lkey = pair->mr->lkey};
}

void pair_receive(struct pair *pair, uint64_t wr_id, size_t offset, uint32_t length)
{
	struct ibv_sge sge = pair_sge(pair, offset, length);
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1}, *bad;

	if (pair->srq)
		CHECK_EQUAL(ibv_post_srq_recv(pair->srq, &wr, &bad), 0);
	else
		CHECK_EQUAL(ibv_post_recv(pair->qp, &wr, &bad), 0);
}

int pair_post(struct pair *pair, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	if (pair->options.type == IBV_QPT_UD) {
		wr->wr.ud.ah = pair->ah;
		wr->wr.ud.remote_qpn = pair->remote.qpn;
		wr->wr.ud.remote_qkey = 0x11111111;
	}
	return ibv_post_send(pair->qp, wr, &bad);
}

enum ibv_qp_state pair_state(struct pair *pair)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	CHECK_EQUAL(ibv_query_qp(pair->qp, &attr, IBV_QP_STATE, &init), 0);
	return attr.qp_state;
}

void pair_expect_event(struct pair *pair, enum ibv_event_type type)
{
	struct pollfd pollfd = {.fd = pair->context->async_fd, .events = POLLIN};
	struct ibv_async_event event;

	/* COMM_EST may come at any time before the first completion is polled. */
	do {
		if (poll(&pollfd, 1, WAIT_SECONDS * 1000) != 1)
			pair_fail(__FILE__, __LINE__, "no async event; expected: %s",
				  ibv_event_type_str(type));
		CHECK_EQUAL(ibv_get_async_event(pair->context, &event), 0);
		ibv_ack_async_event(&event);
	} while (event.event_type == IBV_EVENT_COMM_EST && type != IBV_EVENT_COMM_EST);
	if (event.event_type != type)
		pair_fail(__FILE__, __LINE__, "async event: %s; expected: %s",
			  ibv_event_type_str(event.event_type), ibv_event_type_str(type));
}

static uint64_t mix(uint64_t x)
{
	/* The finalizer of splitmix64. */
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

static uint8_t pattern_at(size_t offset, uint64_t seed)
{
	return mix(seed * 0x9e3779b97f4a7c15ull + offset / 8) >> offset % 8 * 8;
}

void pattern_fill(uint8_t *data, size_t length, uint64_t seed)
{
	for (size_t i = 0; i < length; i++)
		data[i] = pattern_at(i, seed);
}

bool pattern_matches(const uint8_t *data, size_t length, uint64_t seed)
{
	for (size_t i = 0; i < length; i++) {
		if (data[i] != pattern_at(i, seed)) {
			fprintf(stderr, "byte %zu of %zu is %02x, not %02x\n", i, length, data[i],
				pattern_at(i, seed));
			return false;
		}
	}
	return true;
}

uint32_t choose(uint64_t *state, uint32_t limit)
{
	*state += 0x9e3779b97f4a7c15ull;
	return mix(*state) % limit;
}
