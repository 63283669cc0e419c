/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/verbs/gone.h"

#include <check.h>
#include <glob.h>
#include <poll.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/sanitizers.h"

struct pair pair;
struct gone gone;
size_t page;

void by_munmap(void)
{
	ck_assert_int_eq(munmap(gone.address, page), 0);
}

void by_mprotect(void)
{
	ck_assert_int_eq(mprotect(gone.address, page, PROT_NONE), 0);
}

void by_mprotect_readable(void)
{
	ck_assert_int_eq(mprotect(gone.address, page, PROT_READ), 0);
}

void by_ftruncate(void)
{
	ck_assert_int_eq(ftruncate(gone.file, 0), 0);
}

/*
 * Where no other mapping comes to lie when this one is gone, though threads allocate: far from
 * where the kernel puts them. TSan allows less of the address space than the others,
 * and puts a mapping elsewhere that is asked for beyond.
 */
#define FAR_AWAY ((void *)(HAS_TSAN ? UINT64_C(1) << 38 : UINT64_C(1) << 45))

void gone_open(void)
{
	page = sysconf(_SC_PAGESIZE);
	gone.file = memfd_create("gone", 0);
	ck_assert_int_ge(gone.file, 0);
	ck_assert_int_eq(ftruncate(gone.file, page), 0);
	gone.address = mmap(FAR_AWAY, page, PROT_READ | PROT_WRITE, MAP_SHARED, gone.file, 0);
	ck_assert_ptr_eq(gone.address, FAR_AWAY);
	gone.mr = ibv_reg_mr(pair.pd, gone.address, page,
			     ACCESS | (gone.on_demand ? IBV_ACCESS_ON_DEMAND : 0));
	ck_assert_ptr_nonnull(gone.mr);
}

void gone_close(void)
{
	ck_assert_int_eq(ibv_dereg_mr(gone.mr), 0);
	munmap(gone.address, page);
	close(gone.file);
}

struct ibv_sge gone_sge(uint32_t length)
{
	return (struct ibv_sge){(uintptr_t)gone.address, length, gone.mr->lkey};
}

void post(enum ibv_wr_opcode opcode, struct ibv_sge sge, const struct ibv_mr *remote)
{
	struct ibv_send_wr wr =
				   {
					   .sg_list = &sge,
					   .num_sge = 1,
					   .opcode = opcode,
					   .send_flags = IBV_SEND_SIGNALED,
				   },
			   *bad;

	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = (uintptr_t)remote->addr;
		wr.wr.atomic.rkey = remote->rkey;
		wr.wr.atomic.compare_add = 1;
	} else if (remote) {
		wr.wr.rdma.remote_addr = (uintptr_t)remote->addr;
		wr.wr.rdma.rkey = remote->rkey;
	}
	ck_assert_int_eq(ibv_post_send(pair.sender, &wr, &bad), 0);
}

void post_gone_receive(uint32_t length)
{
	struct ibv_sge sge = gone_sge(length);
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	ck_assert_int_eq(ibv_post_recv(pair.receiver, &wr, &bad), 0);
}

const struct use uses[USES] = {
	{IBV_WR_SEND, SOURCE, true},
	{IBV_WR_RDMA_WRITE, SOURCE, true},
	{IBV_WR_RDMA_READ, SINK},
	{IBV_WR_ATOMIC_FETCH_AND_ADD, SINK},
	{IBV_WR_RDMA_WRITE, REMOTE},
	{IBV_WR_RDMA_READ, REMOTE, true},
	{IBV_WR_ATOMIC_FETCH_AND_ADD, REMOTE},
	{IBV_WR_SEND, RECEIVE},
};

void expect_event(enum ibv_event_type type)
{
	struct pollfd readable = {.fd = pair.context->async_fd, .events = POLLIN};
	struct ibv_async_event event;

	ck_assert_int_eq(poll(&readable, 1, 30000), 1);
	ck_assert_int_eq(ibv_get_async_event(pair.context, &event), 0);
	ck_assert_int_eq(event.event_type, type);
	ck_assert_ptr_eq(event.element.qp, pair.receiver);
	ibv_ack_async_event(&event);
}

static void expect_errors(const struct use *use)
{
	bool local = use->side == SOURCE || use->side == SINK;
	/* On demand, it is an access like one beyond the region. */
	bool access = use->side == REMOTE && gone.on_demand;

	ck_assert_int_eq(wait_completion(pair.send_cq).status, local	? IBV_WC_LOC_PROT_ERR
							       : access ? IBV_WC_REM_ACCESS_ERR
									: IBV_WC_REM_OP_ERR);
	if (use->side == REMOTE)
		expect_event(access ? IBV_EVENT_QP_ACCESS_ERR : IBV_EVENT_QP_FATAL);
	if (use->side == RECEIVE)
		ck_assert_int_eq(wait_completion(pair.recv_cq).status, IBV_WC_LOC_PROT_ERR);
}

void try_use(const struct use *use, void (*go)(void), uint32_t length)
{
	bool atomic = use->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
	struct ibv_sge sge;

	if (atomic)
		length = 8;
	pair_open(&pair, IBV_QPT_RC, 0);
	gone_open();
	sge = use->side == SOURCE || use->side == SINK ? gone_sge(length) : send_sge(&pair, length);
	if (use->side == RECEIVE)
		post_gone_receive(length);
	else
		post_receive(&pair, 0);
	go();
	post(use->opcode, sge,
	     use->opcode == IBV_WR_SEND ? NULL
	     : use->side == REMOTE	? gone.mr
					: pair.mr);
	expect_errors(use);
	gone_close();
	pair_close(&pair);
}

void use_gone_memory(void)
{
	try_use(&uses[1], by_munmap, 3000);
	try_use(&uses[4], by_mprotect, 3000);
}

void truncate_ours(void)
{
	char pattern[64];
	glob_t found;

	snprintf(pattern, sizeof(pattern), "/dev/shm/urxe-process-*-%d-*", (int)getpid());
	ck_assert_int_eq(glob(pattern, 0, NULL, &found), 0);
	ck_assert_uint_eq(found.gl_pathc, 1);
	ck_assert_int_eq(truncate(found.gl_pathv[0], 0), 0);
	globfree(&found);
}
