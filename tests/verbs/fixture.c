/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/verbs/fixture.h"
#include "net/newer_verbs.h"
#include "tests/verbs/namespace.h"

#include <check.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char address[32];

void fixture_environment(void)
{
	unsigned int pid = getpid();

	snprintf(address, sizeof(address), "127.86.%u.%u", pid >> 8 & 0xff, pid & 0xff);
	setenv("URXE_NODE", address, 1);
}

static bool has_loopback(void)
{
	const struct sockaddr_in6 loopback = {.sin6_family = AF_INET6,
					      .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	int fd = socket(AF_INET6, SOCK_DGRAM, 0);
	bool has = bind(fd, (const struct sockaddr *)&loopback, sizeof(loopback)) == 0;

	close(fd);
	return has;
}

bool fixture_environment_both(void)
{
	char node[64];

	fixture_environment();
	if (!namespace_enter())
		return false;
	ip("link set lo up");
	if (!has_loopback())
		return false;
	snprintf(node, sizeof(node), "%s,::1", address);
	setenv("URXE_NODE", node, 1);
	return true;
}

const char *fixture_address(void)
{
	return address;
}

int exit_status(pid_t child)
{
	int status;

	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert(WIFEXITED(status));
	return WEXITSTATUS(status);
}

struct rlimit allow_no_descriptors(void)
{
	struct rlimit before, limit;
	int next = dup(0);

	ck_assert_int_gt(next, 0);
	close(next);
	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
	limit = before;
	limit.rlim_cur = next;
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	return before;
}

void wait_until_asleep(const _Atomic pid_t *tid)
{
	char path[64], state = 0;
	FILE *file;

	while (!*tid)
		usleep(1000);
	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", *tid);
	while (state != 'S') {
		usleep(1000);
		file = fopen(path, "r");
		ck_assert_ptr_nonnull(file);
		ck_assert_int_eq(fscanf(file, "%*d (%*[^)]) %c", &state), 1);
		fclose(file);
	}
}

struct ibv_context *fixture_open(void)
{
	int count = 0;
	struct ibv_device **list = ibv_get_device_list(&count);
	struct ibv_context *context;

	ck_assert_ptr_nonnull(list);
	ck_assert_int_eq(count, 1);
	context = ibv_open_device(list[0]);
	ck_assert_ptr_nonnull(context);
	ibv_free_device_list(list);
	return context;
}

void fixture_close(struct ibv_context *context)
{
	ck_assert_int_eq(ibv_close_device(context), 0);
}

void connect_qp_on(struct ibv_qp *qp, struct ibv_qp *peer, uint8_t port_num, unsigned int gid_index)
{
	const int ud = qp->qp_type == IBV_QPT_UD;
	const int sends = qp->qp_type == IBV_QPT_RC || qp->qp_type == IBV_QPT_XRC_SEND;
	const int receives = qp->qp_type == IBV_QPT_RC || qp->qp_type == IBV_QPT_XRC_RECV;
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = port_num,
		.qkey = FIXTURE_QKEY,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
				   IBV_ACCESS_REMOTE_ATOMIC | ACCESS_FLUSH_GLOBAL,
	};
	int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;

	ck_assert_int_eq(ibv_modify_qp(qp, &attr, mask | (ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS)),
			 0);
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer->qp_num,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 12,
		.ah_attr = {.is_global = 1,
			    .port_num = port_num,
			    .grh = {.sgid_index = gid_index, .hop_limit = 64}},
	};
	ck_assert_int_eq(ibv_query_gid(qp->context, port_num, gid_index, &attr.ah_attr.grh.dgid),
			 0);
	mask = IBV_QP_STATE;
	if (!ud)
		mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (receives)
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	ck_assert_int_eq(ibv_modify_qp(qp, &attr, mask), 0);
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTS,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.max_rd_atomic = 4,
	};
	mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
	if (sends || receives)
		mask |= IBV_QP_TIMEOUT;
	if (sends)
		mask |= IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
	ck_assert_int_eq(ibv_modify_qp(qp, &attr, mask), 0);
	ck_assert_int_eq(qp->state, IBV_QPS_RTS);
}

void connect_qp_by(struct ibv_qp *qp, struct ibv_qp *peer, unsigned int gid_index)
{
	connect_qp_on(qp, peer, 1, gid_index);
}

void connect_qp(struct ibv_qp *qp, struct ibv_qp *peer)
{
	connect_qp_by(qp, peer, 0);
}

static struct ibv_qp *create_qp(struct pair *pair, enum ibv_qp_type type, uint64_t flags)
{
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = pair->send_cq,
		.recv_cq = pair->recv_cq,
		.cap = {.max_send_wr = DEPTH,
			.max_recv_wr = DEPTH,
			.max_send_sge = 2,
			.max_recv_sge = 2,
			.max_inline_data = 64},
		.qp_type = type,
		.comp_mask = IBV_QP_INIT_ATTR_PD | (flags ? IBV_QP_INIT_ATTR_SEND_OPS_FLAGS : 0),
		.pd = pair->pd,
		.send_ops_flags = flags,
	};
	struct ibv_qp *qp = ibv_create_qp_ex(pair->context, &attr);

	ck_assert_ptr_nonnull(qp);
	return qp;
}

void pair_open(struct pair *pair, enum ibv_qp_type type, uint64_t send_ops_flags)
{
	pair->context = fixture_open();
	pair->pd = ibv_alloc_pd(pair->context);
	ck_assert_ptr_nonnull(pair->pd);
	pair->mr = ibv_reg_mr(pair->pd, pair->buffer, sizeof(pair->buffer),
			      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				      IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
				      ACCESS_FLUSH_GLOBAL);
	ck_assert_ptr_nonnull(pair->mr);
	pair->channel = ibv_create_comp_channel(pair->context);
	ck_assert_ptr_nonnull(pair->channel);
	pair->send_cq = ibv_create_cq(pair->context, 2 * DEPTH, pair, NULL, 0);
	pair->recv_cq = ibv_create_cq(pair->context, 2 * DEPTH, pair, pair->channel, 0);
	ck_assert_ptr_nonnull(pair->send_cq);
	ck_assert_ptr_nonnull(pair->recv_cq);
	pair->sender = create_qp(pair, type, send_ops_flags);
	pair->receiver = create_qp(pair, type, 0);
	connect_qp(pair->sender, pair->receiver);
	connect_qp(pair->receiver, pair->sender);
}

void pair_move(struct pair *pair, uint8_t port_num)
{
	struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};

	ck_assert_int_eq(ibv_modify_qp(pair->sender, &reset, IBV_QP_STATE), 0);
	ck_assert_int_eq(ibv_modify_qp(pair->receiver, &reset, IBV_QP_STATE), 0);
	connect_qp_on(pair->sender, pair->receiver, port_num, 0);
	connect_qp_on(pair->receiver, pair->sender, port_num, 0);
}

void pair_close(struct pair *pair)
{
	ck_assert_int_eq(ibv_destroy_qp(pair->sender), 0);
	ck_assert_int_eq(ibv_destroy_qp(pair->receiver), 0);
	ck_assert_int_eq(ibv_destroy_cq(pair->send_cq), 0);
	ck_assert_int_eq(ibv_destroy_cq(pair->recv_cq), 0);
	ck_assert_int_eq(ibv_destroy_comp_channel(pair->channel), 0);
	ck_assert_int_eq(ibv_dereg_mr(pair->mr), 0);
	ck_assert_int_eq(ibv_dealloc_pd(pair->pd), 0);
	fixture_close(pair->context);
}

void post_receive(struct pair *pair, uint64_t wr_id)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)pair->buffer + BUFFER_SIZE,
		.length = BUFFER_SIZE,
		.lkey = pair->mr->lkey,
	};
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1}, *bad;

	ck_assert_int_eq(ibv_post_recv(pair->receiver, &wr, &bad), 0);
}

struct ibv_wc wait_completion(struct ibv_cq *cq)
{
	struct ibv_wc wc;
	int count;

	do {
		count = ibv_poll_cq(cq, 1, &wc);
	} while (count == 0);
	ck_assert_int_eq(count, 1);
	return wc;
}

struct ibv_sge send_sge(struct pair *pair, uint32_t length)
{
	return (struct ibv_sge){(uintptr_t)pair->buffer, length, pair->mr->lkey};
}

int post_write(struct pair *pair, uint64_t wr_id)
{
	struct ibv_sge sge = send_sge(pair, 64);
	struct ibv_send_wr wr = {
		.wr_id = wr_id,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = {.remote_addr = (uintptr_t)pair->buffer + BUFFER_SIZE,
			    .rkey = pair->mr->rkey},
	};
	struct ibv_send_wr *bad;

	return ibv_post_send(pair->sender, &wr, &bad);
}

const char *file_content(const char *path)
{
	static char text[256];
	FILE *file = fopen(path, "r");
	size_t length;

	ck_assert_msg(file != NULL, "%s: %s", path, strerror(errno));
	length = fread(text, 1, sizeof(text) - 1, file);
	fclose(file);
	text[length] = '\0';
	return text;
}
