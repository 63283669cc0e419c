/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An XRC domain that two processes share by a file: requests come to the XRC_RECV QP of this
 * process, the target, and some of them name an SRQ of the other one, the owner.
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/run_suite.h"
#include "tests/verbs/fixture.h"

#define MESSAGES 40
#define LENGTH 3000 /* three packets */

/* What one process has. */
struct program {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_xrcd *xrcd;
	struct ibv_srq *srq;
	uint8_t buffer[MESSAGES * LENGTH];
};

/* What the owner tells of itself, once it is ready. */
struct told {
	uint32_t srqn, rkey;
	uint64_t addr;
};

static int file = -1;
static struct program program;

static struct ibv_xrcd *open_domain(struct ibv_context *context, int oflags)
{
	struct ibv_xrcd_init_attr attr = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = file,
		.oflags = oflags,
	};

	return ibv_open_xrcd(context, &attr);
}

static void receive(uint64_t id, uint32_t length)
{
	struct ibv_sge sge = {(uintptr_t)program.buffer + id % MESSAGES * LENGTH, length,
			      program.mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1}, *bad;

	ck_assert_int_eq(ibv_post_srq_recv(program.srq, &wr, &bad), 0);
}

static void start(int oflags)
{
	struct ibv_srq_init_attr_ex attr = {
		.attr = {.max_wr = MESSAGES, .max_sge = 1},
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC,
	};

	program.context = fixture_open();
	program.pd = attr.pd = ibv_alloc_pd(program.context);
	program.cq = attr.cq = ibv_create_cq(program.context, 4 * MESSAGES, NULL, NULL, 0);
	program.mr = ibv_reg_mr(program.pd, program.buffer, sizeof(program.buffer),
				IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
					IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
	program.xrcd = attr.xrcd = open_domain(program.context, oflags);
	ck_assert_ptr_nonnull(program.xrcd);
	program.srq = ibv_create_srq_ex(program.context, &attr);
	ck_assert_ptr_nonnull(program.srq);
}

static void stop(void)
{
	ck_assert_int_eq(ibv_destroy_srq(program.srq), 0);
	ck_assert_int_eq(ibv_close_xrcd(program.xrcd), 0);
	ck_assert_int_eq(ibv_dereg_mr(program.mr), 0);
	ck_assert_int_eq(ibv_destroy_cq(program.cq), 0);
	ck_assert_int_eq(ibv_dealloc_pd(program.pd), 0);
	fixture_close(program.context);
}

static void open_file(void)
{
	char name[] = "/tmp/urxe-xrc-XXXXXX";

	file = mkstemp(name);
	ck_assert_int_ge(file, 0);
	unlink(name);
}

/* --- the owner ------------------------------------------------------------------------ */

/* The messages that are ours, in order, each with its contents; @qpn is the target's. */
static void expect_messages(uint32_t qpn)
{
	for (uint64_t i = 0; i < MESSAGES; i += 2) {
		struct ibv_wc wc = wait_completion(program.cq);

		ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
		ck_assert_uint_eq(wc.wr_id, i / 2);
		ck_assert_uint_eq(be32toh(wc.imm_data), i);
		ck_assert_uint_eq(wc.byte_len, LENGTH);
		ck_assert_uint_eq(wc.qp_num, qpn);
		for (int j = 0; j < LENGTH; j++)
			ck_assert_uint_eq(program.buffer[i / 2 * LENGTH + j], (uint8_t)(i + j));
	}
}

/* In a process of its own: says what it has, hears the target's QP number, does @work, ends. */
struct owner {
	pid_t pid;
	int to, from;
	struct told told;
};

static void own(int in, int out, void (*work)(uint32_t qpn))
{
	struct told told;
	uint32_t qpn;

	start(O_CREAT);
	for (uint64_t i = 0; i < MESSAGES / 2; i++)
		receive(i, LENGTH);
	ck_assert_int_eq(ibv_get_srq_num(program.srq, &told.srqn), 0);
	told.rkey = program.mr->rkey;
	told.addr = (uintptr_t)program.buffer;
	ck_assert_int_eq(write(out, &told, sizeof(told)), sizeof(told));
	ck_assert_int_eq(read(in, &qpn, sizeof(qpn)), sizeof(qpn));
	work(qpn);
	/* Until the target has seen the last acknowledgement. */
	ck_assert_int_eq(read(in, &qpn, sizeof(qpn)), 0);
	stop();
}

static struct owner owner_start(void (*work)(uint32_t qpn))
{
	struct owner owner;
	int to[2], from[2];

	ck_assert_int_eq(pipe2(to, O_CLOEXEC), 0);
	ck_assert_int_eq(pipe2(from, O_CLOEXEC), 0);
	owner.pid = fork();
	if (owner.pid == 0) {
		close(to[1]);
		own(to[0], from[1], work);
		_exit(0);
	}
	close(to[0]);
	close(from[1]);
	owner.to = to[1];
	owner.from = from[0];
	ck_assert_int_eq(read(owner.from, &owner.told, sizeof(owner.told)), sizeof(owner.told));
	return owner;
}

static void owner_end(struct owner *owner, int expected)
{
	int status;

	close(owner->to);
	close(owner->from);
	ck_assert_int_eq(waitpid(owner->pid, &status, 0), owner->pid);
	ck_assert_int_eq(status, expected);
}

/* --- the target, and the requester, which is here, too ---------------------------------- */

static struct ibv_qp *target, *initiator;

static void connect_pair(void)
{
	struct ibv_qp_init_attr_ex receives = {.qp_type = IBV_QPT_XRC_RECV,
					       .comp_mask = IBV_QP_INIT_ATTR_XRCD,
					       .xrcd = program.xrcd};
	struct ibv_qp_init_attr_ex sends = {
		.qp_type = IBV_QPT_XRC_SEND,
		.send_cq = program.cq,
		.cap = {.max_send_wr = MESSAGES, .max_send_sge = 1},
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = program.pd,
	};

	target = ibv_create_qp_ex(program.context, &receives);
	initiator = ibv_create_qp_ex(program.context, &sends);
	ck_assert(target && initiator);
	connect_qp(target, initiator);
	connect_qp(initiator, target);
}

static void disconnect_pair(void)
{
	ck_assert_int_eq(ibv_destroy_qp(initiator), 0);
	ck_assert_int_eq(ibv_destroy_qp(target), 0);
}

static void post(enum ibv_wr_opcode opcode, uint32_t srqn, uint64_t addr, uint32_t rkey,
		 uint64_t id)
{
	struct ibv_sge sge = {(uintptr_t)program.buffer + id * LENGTH, LENGTH, program.mr->lkey};
	struct ibv_send_wr wr =
				   {
					   .wr_id = id,
					   .sg_list = &sge,
					   .num_sge = 1,
					   .opcode = opcode,
					   .imm_data = htobe32(id),
					   .send_flags = IBV_SEND_SIGNALED,
					   .wr.rdma = {addr, rkey},
					   .qp_type.xrc.remote_srqn = srqn,
				   },
			   *bad;

	ck_assert_int_eq(ibv_post_send(initiator, &wr, &bad), 0);
}

/* Even messages are the owner's, odd ones our own. */
static void send_messages(const struct told *told, bool write)
{
	unsigned int sent = 0, received = 0;
	uint32_t own_srqn;

	ck_assert_int_eq(ibv_get_srq_num(program.srq, &own_srqn), 0);
	for (uint64_t i = 0; i < MESSAGES; i++)
		for (int j = 0; j < LENGTH; j++)
			program.buffer[i * LENGTH + j] = i + j;
	for (uint64_t i = 1; i < MESSAGES; i += 2)
		receive(i, 1); /* a WRITE with immediate data puts nothing there */
	for (uint64_t i = 0; i < MESSAGES; i++) {
		if (i % 2)
			post(IBV_WR_RDMA_WRITE_WITH_IMM, own_srqn,
			     (uintptr_t)program.buffer + i * LENGTH, program.mr->rkey, i);
		else
			post(write ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_SEND_WITH_IMM, told->srqn,
			     told->addr + i / 2 * LENGTH, told->rkey, i);
	}
	while (sent < MESSAGES || received < MESSAGES / 2) {
		struct ibv_wc wc = wait_completion(program.cq);

		ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
		if (wc.qp_num == initiator->qp_num)
			ck_assert_uint_eq(wc.wr_id, sent++);
		else
			ck_assert_uint_eq(wc.wr_id, 2 * received++ + 1);
	}
}

/* @_i: SENDs, or WRITEs to the owner's memory. */
START_TEST(messages)
{
	struct owner owner;

	open_file();
	owner = owner_start(expect_messages);
	start(0); /* it is there: the owner has it */
	connect_pair();
	ck_assert_int_eq(write(owner.to, &target->qp_num, sizeof(target->qp_num)),
			 sizeof(target->qp_num));
	send_messages(&owner.told, _i);
	owner_end(&owner, 0);
	disconnect_pair();
	stop();
	close(file);
}
END_TEST

static void expect_nothing(uint32_t qpn)
{
}

static void expect_failure(uint32_t srqn, uint64_t addr, uint32_t rkey, enum ibv_wr_opcode opcode,
			   enum ibv_wc_status status)
{
	struct ibv_wc wc;

	connect_pair();
	post(opcode, srqn, addr, rkey, 1);
	wc = wait_completion(program.cq);
	ck_assert_uint_eq(wc.wr_id, 1);
	ck_assert_int_eq(wc.status, status);
	disconnect_pair();
}

/* The owner's checks are the target's answers; READs are for one's own process alone. */
START_TEST(failures)
{
	struct owner owner;
	uint32_t none;

	open_file();
	owner = owner_start(expect_nothing);
	start(O_CREAT);
	none = (owner.told.srqn & ~0xfffu) | 0xfff;
	ck_assert_uint_ne(none, owner.told.srqn);
	expect_failure(none, 0, 0, IBV_WR_SEND, IBV_WC_REM_INV_REQ_ERR);
	expect_failure(owner.told.srqn, owner.told.addr, owner.told.rkey ^ 0x5a, IBV_WR_RDMA_WRITE,
		       IBV_WC_REM_ACCESS_ERR);
	expect_failure(owner.told.srqn, owner.told.addr, owner.told.rkey, IBV_WR_RDMA_READ,
		       IBV_WC_REM_OP_ERR);
	/* A dead process has no SRQ. */
	ck_assert_int_eq(kill(owner.pid, SIGKILL), 0);
	owner_end(&owner, SIGKILL);
	expect_failure(owner.told.srqn, 0, 0, IBV_WR_SEND, IBV_WC_REM_INV_REQ_ERR);
	stop();
	close(file);
}
END_TEST

/* Existence is the node's (ibv_open_xrcd(3)). */
START_TEST(existence)
{
	struct ibv_context *context;
	struct ibv_xrcd *xrcd;
	struct owner owner;

	open_file();
	owner = owner_start(expect_nothing);
	context = fixture_open();
	errno = 0;
	ck_assert_ptr_null(open_domain(context, O_CREAT | O_EXCL));
	ck_assert_int_eq(errno, EINVAL);
	xrcd = open_domain(context, 0);
	ck_assert_ptr_nonnull(xrcd);
	ck_assert_int_eq(ibv_close_xrcd(xrcd), 0);
	/* It goes with the process that has it. */
	ck_assert_int_eq(kill(owner.pid, SIGKILL), 0);
	owner_end(&owner, SIGKILL);
	ck_assert_ptr_null(open_domain(context, 0));
	ck_assert_int_eq(errno, EAGAIN);
	xrcd = open_domain(context, O_CREAT | O_EXCL);
	ck_assert_ptr_nonnull(xrcd);
	ck_assert_int_eq(ibv_close_xrcd(xrcd), 0);
	fixture_close(context);
	close(file);
}
END_TEST

/* A forked child has the parent's descriptors, and none of its domains. */
START_TEST(existence_beside_a_child)
{
	struct ibv_context *context = fixture_open();
	struct ibv_xrcd *xrcd;
	pid_t pid;

	open_file();
	xrcd = open_domain(context, O_CREAT | O_EXCL);
	ck_assert_ptr_nonnull(xrcd);
	pid = fork();
	if (pid == 0) {
		pause();
		_exit(0);
	}
	ck_assert_int_gt(pid, 0);
	ck_assert_int_eq(ibv_close_xrcd(xrcd), 0);
	xrcd = open_domain(context, O_CREAT | O_EXCL);
	ck_assert_ptr_nonnull(xrcd);
	ck_assert_int_eq(ibv_close_xrcd(xrcd), 0);
	ck_assert_int_eq(kill(pid, SIGKILL), 0);
	ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
	fixture_close(context);
	close(file);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("xrc_shared");
	TCase *tests = tcase_create("xrc_shared");

	fixture_environment();
	tcase_set_timeout(tests, 200);
	tcase_add_loop_test(tests, messages, 0, 2);
	tcase_add_test(tests, failures);
	tcase_add_test(tests, existence);
	tcase_add_test(tests, existence_beside_a_child);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
