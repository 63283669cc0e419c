/* SPDX-License-Identifier: BSD-2-Clause */
#include "peer_pair.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define QKEY 0x11111111
#define PORT_NUM 1
#define MAX_RD_ATOMIC 8
#define RESPONDER_PSN 0x0d0e0f
#define REQUESTER_PSN 0x0a1b2c
#define PAUSE_US 500	  /* between polls */
#define DIAL_ATTEMPTS 100 /* for a responder that is only about to listen */
#define DIAL_PAUSE_US 100000

void check(bool good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "%s (errno %d %s)\n", what, errno, strerror(errno));
	exit(1);
}

/* --- the TCP connection -------------------------------------------------------------------- */

static int serve(const char *port)
{
	struct sockaddr_in6 any = {.sin6_family = AF_INET6, .sin6_port = htons(atoi(port))};
	int listener = socket(AF_INET6, SOCK_STREAM, 0), on = 1, connection;

	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	CHECK(bind(listener, (struct sockaddr *)&any, sizeof(any)) == 0);
	CHECK(listen(listener, 1) == 0);
	connection = accept(listener, NULL, NULL);
	close(listener);
	return connection;
}

static int dial(const char *host, const char *port)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *address;

	CHECK(getaddrinfo(host, port, &hints, &address) == 0);
	for (int i = 0; i < DIAL_ATTEMPTS; i++) {
		int connection = socket(address->ai_family, SOCK_STREAM, 0);

		if (connect(connection, address->ai_addr, address->ai_addrlen) == 0)
			return connection;
		close(connection);
		usleep(DIAL_PAUSE_US);
	}
	return -1;
}

/* @length bytes from each side to the other, few enough for the socket to take them at once. */
static void exchange(int socket, const void *mine, void *theirs, size_t length)
{
	size_t done = 0;

	CHECK(write(socket, mine, length) == (ssize_t)length);
	while (done < length) {
		ssize_t n = read(socket, (char *)theirs + done, length - done);

		check(n > 0, "nothing more from the peer");
		done += n;
	}
}

void pair_exchange(struct pair *pair)
{
	exchange(pair->socket, &pair->local, &pair->remote, sizeof(pair->local));
}

void pair_barrier(struct pair *pair)
{
	char here = 'b', there;

	exchange(pair->socket, &here, &there, 1);
}

void pair_stand_by(struct pair *pair)
{
	pair_barrier(pair);
	pair_barrier(pair);
}

/* --- objects ---------------------------------------------------------------------------------- */

static void default_options(struct pair *pair)
{
	struct pair_options *o = &pair->options;

	if (!o->type)
		o->type = IBV_QPT_RC;
	if (!o->access)
		o->access = EVERY_ACCESS;
	if (!o->qp_access)
		o->qp_access = o->access & ~IBV_ACCESS_MW_BIND; /* which only regions have */
	if (!o->psn)
		o->psn = pair->place->host ? REQUESTER_PSN : RESPONDER_PSN;
	if (!o->timeout)
		o->timeout = 18;
	if (!o->retry_count)
		o->retry_count = 7;
	if (!o->rnr_retry)
		o->rnr_retry = 7;
	if (!o->min_rnr_timer)
		o->min_rnr_timer = 12;
	if (!o->hop_limit)
		o->hop_limit = 64;
}

static void open_device(struct pair *pair)
{
	struct ibv_device **devices = ibv_get_device_list(NULL), **device = devices;
	const char *name = pair->place->device;

	while (devices && *device && name && strcmp(ibv_get_device_name(*device), name) != 0)
		device++;
	CHECK(devices && *device);
	pair->context = ibv_open_device(*device);
	CHECK(pair->context);
	ibv_free_device_list(devices);
}

static void create_qp(struct pair *pair)
{
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = pair->cq,
		.recv_cq = pair->cq,
		.qp_type = pair->options.type,
		.cap = {.max_send_wr = 64, .max_recv_wr = 64, .max_send_sge = 4, .max_recv_sge = 4},
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = pair->pd,
	};

	if (pair->options.send_operations) {
		attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
		attr.send_ops_flags = pair->options.send_operations;
	}
	pair->qp = ibv_create_qp_ex(pair->context, &attr);
	CHECK(pair->qp);
}

static void create_objects(struct pair *pair)
{
	open_device(pair);
	pair->pd = ibv_alloc_pd(pair->context);
	CHECK(pair->pd);
	pair->memory = aligned_alloc(4096, REGION_SIZE);
	CHECK(pair->memory);
	memset(pair->memory, 0, REGION_SIZE);
	pair->mr = ibv_reg_mr(pair->pd, pair->memory, REGION_SIZE, pair->options.access);
	CHECK(pair->mr);
	pair->cq = ibv_create_cq(pair->context, 256, NULL, NULL, 0);
	CHECK(pair->cq);
	create_qp(pair);
}

/* --- the queue pair's states ------------------------------------------------------------------ */

static void to_init(struct pair *pair)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = PORT_NUM,
		.qkey = QKEY,
		.qp_access_flags = pair->options.qp_access,
	};
	int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;

	mask |= pair->options.type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS;
	CHECK(ibv_modify_qp(pair->qp, &attr, mask) == 0);
}

static void to_rtr(struct pair *pair)
{
	const struct pair_options *o = &pair->options;
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = pair->place->mtu,
		.dest_qp_num = pair->remote.qpn,
		.rq_psn = pair->remote.psn,
		.max_dest_rd_atomic = MAX_RD_ATOMIC,
		.min_rnr_timer = o->min_rnr_timer,
		.ah_attr = {.is_global = 1,
			    .port_num = PORT_NUM,
			    .grh = {.dgid = pair->remote.gid,
				    .sgid_index = pair->place->gid_index,
				    .hop_limit = o->hop_limit,
				    .traffic_class = o->traffic_class,
				    .flow_label = o->flow_label}},
	};
	int mask = IBV_QP_STATE;

	if (o->type != IBV_QPT_UD)
		mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (o->type == IBV_QPT_RC)
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	CHECK(ibv_modify_qp(pair->qp, &attr, mask) == 0);
	if (o->type == IBV_QPT_UD) {
		pair->ah = ibv_create_ah(pair->pd, &attr.ah_attr);
		CHECK(pair->ah);
	}
}

static void to_rts(struct pair *pair)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.sq_psn = pair->local.psn,
		.timeout = pair->options.timeout,
		.retry_cnt = pair->options.retry_count,
		.rnr_retry = pair->options.rnr_retry,
		.max_rd_atomic = MAX_RD_ATOMIC,
	};
	int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;

	if (pair->options.type == IBV_QPT_RC)
		mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			IBV_QP_MAX_QP_RD_ATOMIC;
	CHECK(ibv_modify_qp(pair->qp, &attr, mask) == 0);
}

void pair_open(struct pair *pair, const struct pair_place *place,
	       const struct pair_options *options)
{
	int on = 1;

	*pair = (struct pair){.place = place, .options = *options};
	default_options(pair);
	pair->socket = place->host ? dial(place->host, place->port) : serve(place->port);
	CHECK(pair->socket >= 0);
	setsockopt(pair->socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	create_objects(pair);
	pair->local = (struct pair_endpoint){
		.qpn = pair->qp->qp_num,
		.psn = pair->options.psn,
		.rkey = pair->mr->rkey,
		.address = (uintptr_t)pair->memory,
	};
	CHECK(ibv_query_gid(pair->context, PORT_NUM, place->gid_index, &pair->local.gid) == 0);
	pair_exchange(pair);
	to_init(pair);
	to_rtr(pair);
	to_rts(pair);
}

/* --- posting ---------------------------------------------------------------------------------- */

static struct ibv_sge memory_sge(struct pair *pair, size_t offset, uint32_t length)
{
	return (struct ibv_sge){
		.addr = (uintptr_t)pair->memory + offset, .length = length, .lkey = pair->mr->lkey};
}

void pair_receive(struct pair *pair, uint64_t wr_id, size_t offset, uint32_t length)
{
	struct ibv_sge sge = memory_sge(pair, offset, length);
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = length > 0}, *bad;

	CHECK(ibv_post_recv(pair->qp, &wr, &bad) == 0);
}

struct pair_request pair_request(struct pair *pair, uint64_t wr_id, enum ibv_wr_opcode opcode,
				 size_t offset, uint32_t length)
{
	struct pair_request request = {
		.wr = {.wr_id = wr_id,
		       .num_sge = length > 0,
		       .opcode = opcode,
		       .send_flags = IBV_SEND_SIGNALED},
		.sge = memory_sge(pair, offset, length),
	};

	if (pair->options.type == IBV_QPT_UD) {
		request.wr.wr.ud.ah = pair->ah;
		request.wr.wr.ud.remote_qpn = pair->remote.qpn;
		request.wr.wr.ud.remote_qkey = QKEY;
	} else {
		request.wr.wr.rdma.remote_addr = pair->remote.address + TARGET;
		request.wr.wr.rdma.rkey = pair->remote.rkey;
	}
	return request;
}

struct pair_request pair_atomic(struct pair *pair, uint64_t wr_id, enum ibv_wr_opcode opcode,
				uint64_t compare_add, uint64_t swap)
{
	struct pair_request request = pair_request(pair, wr_id, opcode, 0, 8);

	request.wr.wr.atomic.remote_addr = pair->remote.address + TARGET;
	request.wr.wr.atomic.rkey = pair->remote.rkey;
	request.wr.wr.atomic.compare_add = compare_add;
	request.wr.wr.atomic.swap = swap;
	return request;
}

int pair_post(struct pair *pair, struct pair_request *requests, int count)
{
	struct ibv_send_wr *bad;
	int result;

	for (int i = 0; i < count; i++) {
		requests[i].wr.sg_list = &requests[i].sge;
		requests[i].wr.next = i + 1 < count ? &requests[i + 1].wr : NULL;
	}
	result = ibv_post_send(pair->qp, &requests[0].wr, &bad);
	if (result)
		printf("post_send: %d\n", result);
	return result;
}

void pair_post_plain(struct pair *pair, uint64_t wr_id, enum ibv_wr_opcode opcode, size_t offset,
		     uint32_t length)
{
	struct pair_request request = pair_request(pair, wr_id, opcode, offset, length);

	pair_post(pair, &request, 1);
}

/* --- completions ------------------------------------------------------------------------------ */

void print_completion(const char *what, const struct ibv_wc *wc)
{
	printf("%s wr_id=%d status=%d(%s) opcode=%d len=%u flags=%x", what, (int)wc->wr_id,
	       wc->status, ibv_wc_status_str(wc->status), wc->opcode, wc->byte_len, wc->wc_flags);
	if (wc->wc_flags & IBV_WC_WITH_IMM)
		printf(" imm=%08x", ntohl(wc->imm_data));
	if (wc->wc_flags & IBV_WC_WITH_INV)
		printf(" inv_rkey=%08x", wc->invalidated_rkey);
	printf(" vendor_err=%x qp=%x src_qp=%x slid=%x sl=%d pkey_index=%d\n", wc->vendor_err,
	       wc->qp_num, wc->src_qp, wc->slid, wc->sl, wc->pkey_index);
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + time.tv_nsec * 1e-9;
}

struct ibv_wc pair_wait(struct pair *pair, const char *what, double seconds)
{
	double start = now();
	struct ibv_wc wc;
	int n;

	while ((n = ibv_poll_cq(pair->cq, 1, &wc)) == 0) {
		if (now() - start > seconds) {
			printf("%s NO COMPLETION in %.1f s\n", what, seconds);
			return (struct ibv_wc){.status = NO_COMPLETION};
		}
		usleep(PAUSE_US);
	}
	CHECK(n == 1);
	print_completion(what, &wc);
	return wc;
}

void pair_print_state(struct pair *pair)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	if (ibv_query_qp(pair->qp, &attr, IBV_QP_STATE, &init) == 0)
		printf("qp state now %d\n", attr.qp_state);
}

/* --- patterns --------------------------------------------------------------------------------- */

static uint8_t pattern_at(uint32_t i, int seed)
{
	return seed * 37 + i;
}

void pattern_fill(struct pair *pair, size_t offset, uint32_t length, int seed)
{
	for (uint32_t i = 0; i < length; i++)
		pair->memory[offset + i] = pattern_at(i, seed);
}

void pattern_check(struct pair *pair, size_t offset, uint32_t length, int seed)
{
	bool good = true;

	for (uint32_t i = 0; i < length; i++)
		good = good && pair->memory[offset + i] == pattern_at(i, seed);
	printf("data %s\n", good ? "ok" : "BAD");
}
