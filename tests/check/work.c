/* SPDX-License-Identifier: BSD-2-Clause */
/* The memory of work requests, queues that can't work out, and errors that are passed over. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/check/case.h"

static struct rig rig;

/* Sends from the first half of the buffer, receives in the second. */
#define HALF (CASE_BUFFER / 2)
#define LENGTH 256

static struct ibv_sge part(uint32_t offset)
{
	return (struct ibv_sge){(uintptr_t)rig.buffer + offset, LENGTH, rig.mr->lkey};
}

static void post_receive(uint64_t id)
{
	struct ibv_sge sge = part(HALF);
	struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1}, *bad;

	must(ibv_post_recv(rig.qp, &wr, &bad) == 0);
}

static struct ibv_send_wr send_wr(uint64_t id, unsigned int flags, struct ibv_sge *sge)
{
	return (struct ibv_send_wr){.wr_id = id,
				    .sg_list = sge,
				    .num_sge = 1,
				    .opcode = IBV_WR_SEND,
				    .send_flags = flags};
}

static int try_send(uint64_t id, unsigned int flags)
{
	struct ibv_sge sge = part(0);
	struct ibv_send_wr wr = send_wr(id, flags, &sge), *bad;

	return ibv_post_send(rig.qp, &wr, &bad);
}

static void post_send(uint64_t id, unsigned int flags)
{
	must(try_send(id, flags) == 0);
}

static struct ibv_wc poll_one(void)
{
	struct ibv_wc wc;

	while (ibv_poll_cq(rig.cq, 1, &wc) == 0)
		;
	return wc;
}

static void poll_good(unsigned int count)
{
	while (count--)
		must(poll_one().status == IBV_WC_SUCCESS);
}

static void open_connected(void)
{
	rig_open(&rig);
	rig_connect(&rig);
}

/* The device's own memory, written to by itself: from the first half to the second. */
static void post_write(unsigned int round, unsigned int flags)
{
	struct ibv_sge sge = {(uintptr_t)rig.buffer, HALF, rig.mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_RDMA_WRITE,
				 .send_flags = flags,
				 .wr.rdma = {(uintptr_t)rig.buffer + HALF, rig.mr->rkey}},
			   *bad;

	memset(rig.buffer, round, HALF);
	must(ibv_post_send(rig.qp, &wr, &bad) == 0);
}

static void open_writable(void)
{
	rig_open(&rig);
	must(ibv_dereg_mr(rig.mr) == 0);
	rig.mr = ibv_reg_mr(rig.pd, rig.buffer, CASE_BUFFER,
			    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	must(rig.mr);
	rig.access = IBV_ACCESS_REMOTE_WRITE;
	rig_connect(&rig);
}

/* --- buffers of sends --------------------------------------------------------------------- */

static void change_posted_send(void)
{
	open_connected();
	post_receive(1);
	post_send(7, IBV_SEND_SIGNALED);
	rig.buffer[LENGTH - 1]++;
	poll_good(2);
	rig_close(&rig);
}

/* It is the device's until a later one completes. */
static void change_unsignaled_send(void)
{
	open_connected();
	post_receive(1);
	post_receive(2);
	post_send(7, 0);
	poll_good(1);
	rig.buffer[0]++;
	post_send(8, IBV_SEND_SIGNALED);
	poll_good(2);
	rig_close(&rig);
}

static void change_completed_send(void)
{
	open_connected();
	for (unsigned int i = 0; i < 3; i++) {
		post_receive(1);
		post_send(7, IBV_SEND_SIGNALED);
		poll_good(2);
		memset(rig.buffer, i, LENGTH);
	}
	rig_close(&rig);
}

/* It was copied. */
static void change_inline_send(void)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE},
			   *bad;

	open_connected();
	sge = part(0);
	sge.length = 8;
	post_receive(1);
	must(ibv_post_send(rig.qp, &wr, &bad) == 0);
	rig.buffer[0]++;
	poll_good(2);
	rig_close(&rig);
}

/* By the device: what a READ, or a message, brings is no change of the program's. */
static void receive_into_posted_send(void)
{
	struct ibv_sge sge;
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	open_connected();
	sge = part(LENGTH / 2);
	for (unsigned int i = 0; i < LENGTH; i++)
		rig.buffer[i] = i;
	must(ibv_post_recv(rig.qp, &wr, &bad) == 0);
	post_send(7, IBV_SEND_SIGNALED);
	poll_good(2);
	rig_close(&rig);
}

#define TIMES 100000

static atomic_bool sent_all;

/* The device writes to what is sent, at any time: between the bytes that a checksum is made of. */
static void *write_all_the_time(void *unused)
{
	for (unsigned int round = 0; !atomic_load(&sent_all); round++) {
		post_write(round, IBV_SEND_SIGNALED);
		poll_good(1);
	}
	return NULL;
}

static void send_while_written_to(void)
{
	static struct rig other; /* the writes hold the first one's lock */
	struct ibv_sge sge = {(uintptr_t)rig.buffer + HALF, HALF};
	struct ibv_send_wr wr = send_wr(7, IBV_SEND_SIGNALED, &sge), *bad;
	struct ibv_sge receive_sge = {(uintptr_t)other.buffer, HALF};
	struct ibv_recv_wr receive = {.sg_list = &receive_sge, .num_sge = 1}, *bad_receive;
	pthread_t thread;
	struct ibv_mr *mr;

	open_writable();
	rig_open(&other);
	rig_connect(&other);
	mr = ibv_reg_mr(other.pd, rig.buffer, CASE_BUFFER, 0);
	must(mr);
	sge.lkey = mr->lkey;
	receive_sge.lkey = other.mr->lkey;
	must(pthread_create(&thread, NULL, write_all_the_time, NULL) == 0);
	for (unsigned int i = 0; i < TIMES; i++) {
		struct ibv_wc wc[2];
		int count = 0;

		must(ibv_post_recv(other.qp, &receive, &bad_receive) == 0);
		must(ibv_post_send(other.qp, &wr, &bad) == 0);
		while (count < 2)
			count += ibv_poll_cq(other.cq, 2 - count, wc + count);
	}
	atomic_store(&sent_all, true);
	must(pthread_join(thread, NULL) == 0);
	must(ibv_dereg_mr(mr) == 0);
	rig_close(&other);
	rig_close(&rig);
}

static void change_send_of_builder(void)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_SEND,
	};
	struct ibv_qp_ex *ex;

	rig_open(&rig);
	must(ibv_destroy_qp(rig.qp) == 0);
	attr.pd = rig.pd;
	attr.send_cq = attr.recv_cq = rig.cq;
	rig.qp = ibv_create_qp_ex(rig.context, &attr);
	must(rig.qp);
	rig_connect(&rig);
	post_receive(1);
	ex = ibv_qp_to_qp_ex(rig.qp);
	ibv_wr_start(ex);
	ex->wr_id = 9;
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send(ex);
	ibv_wr_set_sge(ex, rig.mr->lkey, (uintptr_t)rig.buffer, LENGTH);
	must(ibv_wr_complete(ex) == 0);
	rig.buffer[1]++;
	poll_good(2);
	rig_close(&rig);
}

/* --- buffers of receives ------------------------------------------------------------------- */

static void write_to_posted_receive(void)
{
	open_connected();
	post_receive(5);
	rig.buffer[HALF] = 1;
	post_send(7, IBV_SEND_SIGNALED);
	poll_good(2);
	rig_close(&rig);
}

static void write_to_shared_receive(void)
{
	struct ibv_srq_init_attr shared = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct ibv_qp_init_attr attr = {
		.cap = {.max_send_wr = 4, .max_send_sge = 1},
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_recv_wr wr = {.wr_id = 5, .num_sge = 1}, *bad;
	struct ibv_sge sge;

	rig_open(&rig);
	must(ibv_destroy_qp(rig.qp) == 0);
	attr.send_cq = attr.recv_cq = rig.cq;
	attr.srq = ibv_create_srq(rig.pd, &shared);
	must(attr.srq);
	rig.qp = ibv_create_qp(rig.pd, &attr);
	must(rig.qp);
	rig_connect(&rig);
	sge = part(HALF);
	wr.sg_list = &sge;
	must(ibv_post_srq_recv(attr.srq, &wr, &bad) == 0);
	rig.buffer[HALF] = 1;
	post_send(7, IBV_SEND_SIGNALED);
	poll_good(2);
	must(ibv_destroy_qp(rig.qp) == 0);
	must(ibv_destroy_srq(attr.srq) == 0);
	must(ibv_destroy_cq(rig.cq) == 0);
	must(ibv_destroy_comp_channel(rig.channel) == 0);
	must(ibv_dereg_mr(rig.mr) == 0);
	must(ibv_dealloc_pd(rig.pd) == 0);
	must(ibv_close_device(rig.context) == 0);
}

/*
 * All receives are of the same memory, as ibv_rc_pingpong has it, and what is read is written to.
 */
static void write_to_completed_receive(void)
{
	open_connected();
	for (unsigned int i = 0; i < 4; i++)
		post_receive(i);
	for (unsigned int i = 0; i < 4; i++) {
		memset(rig.buffer, 17 + i, LENGTH);
		post_send(7, IBV_SEND_SIGNALED);
		poll_good(2);
		must(rig.buffer[HALF] == 17 + i);
	}
	memset(rig.buffer, 0, sizeof(rig.buffer));
	rig_close(&rig);
}

#define FORGOTTEN 20000 /* writes, of which the checker remembers 16384 */

/* By the device, but so long ago that it isn't known any more. */
static void fill_what_was_written_to(void)
{
	struct ibv_sge sge = {(uintptr_t)rig.buffer, LENGTH, 0};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE}, *bad;

	open_writable();
	post_receive(5);
	post_write(1, IBV_SEND_SIGNALED);
	poll_good(1);
	sge.lkey = rig.mr->lkey;
	wr.send_flags = IBV_SEND_SIGNALED;
	wr.wr.rdma.remote_addr = (uintptr_t)rig.buffer + LENGTH;
	wr.wr.rdma.rkey = rig.mr->rkey;
	for (unsigned int i = 0; i < FORGOTTEN; i++) {
		must(ibv_post_send(rig.qp, &wr, &bad) == 0);
		poll_good(1);
	}
	post_send(7, IBV_SEND_SIGNALED);
	poll_good(2);
	rig_close(&rig);
}

/* --- regions and memory that go ------------------------------------------------------------ */

static void deregister_under_receive(void)
{
	open_connected();
	post_receive(5);
	must(ibv_dereg_mr(rig.mr) == 0);
	rig.mr = ibv_reg_mr(rig.pd, rig.buffer, CASE_BUFFER, 0);
	must(rig.mr);
	rig_close(&rig);
}

/*
 * The receive isn't posted any more: a message has begun to fill it, whose second packet is lost.
 */
static void deregister_under_message(void)
{
	struct ibv_sge from, to;
	struct ibv_recv_wr receive = {.wr_id = 5, .sg_list = &to, .num_sge = 1}, *bad_receive;
	struct ibv_send_wr send, *bad;
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct ibv_wc wc;
	uint32_t before;

	must(setenv("URXE_FAULTS", "drop#2+/RC_SEND", 1) == 0);
	open_connected();
	from = (struct ibv_sge){(uintptr_t)rig.buffer, HALF, rig.mr->lkey};
	to = (struct ibv_sge){(uintptr_t)rig.buffer + HALF, HALF, rig.mr->lkey};
	send = send_wr(7, 0, &from);
	must(ibv_query_qp(rig.qp, &attr, IBV_QP_RQ_PSN, &init) == 0);
	before = attr.rq_psn;
	must(ibv_post_recv(rig.qp, &receive, &bad_receive) == 0);
	must(ibv_post_send(rig.qp, &send, &bad) == 0);
	do { /* until the first one has come */
		must(ibv_poll_cq(rig.cq, 1, &wc) == 0);
		must(ibv_query_qp(rig.qp, &attr, IBV_QP_RQ_PSN, &init) == 0);
	} while (attr.rq_psn == before);
	must(ibv_dereg_mr(rig.mr) == 0);
	rig.mr = ibv_reg_mr(rig.pd, rig.buffer, CASE_BUFFER, 0);
	must(rig.mr);
	rig_close(&rig);
}

static void reregister_under_receive(void)
{
	open_connected();
	post_receive(5);
	must(ibv_rereg_mr(rig.mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, rig.buffer, HALF, 0) == 0);
	rig_close(&rig);
}

/* They are done, though they weren't polled. */
static void deregister_under_flushed(void)
{
	struct ibv_qp_attr error = {.qp_state = IBV_QPS_ERR};

	open_connected();
	post_receive(5);
	must(ibv_modify_qp(rig.qp, &error, IBV_QP_STATE) == 0);
	must(ibv_dereg_mr(rig.mr) == 0);
	rig.mr = ibv_reg_mr(rig.pd, rig.buffer, CASE_BUFFER, 0);
	must(rig.mr);
	rig_close(&rig);
}

/* Of a shared queue that nothing takes from any more. */
static void deregister_behind_last_qp(void)
{
	struct ibv_srq_init_attr shared = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct ibv_recv_wr wr = {.wr_id = 5, .num_sge = 1}, *bad;
	struct ibv_srq *srq;
	struct ibv_sge sge;

	rig_open(&rig);
	srq = ibv_create_srq(rig.pd, &shared);
	must(srq);
	sge = part(HALF);
	wr.sg_list = &sge;
	must(ibv_post_srq_recv(srq, &wr, &bad) == 0);
	must(ibv_dereg_mr(rig.mr) == 0);
	must(ibv_destroy_srq(srq) == 0);
	rig.mr = ibv_reg_mr(rig.pd, rig.buffer, CASE_BUFFER, 0);
	must(rig.mr);
	rig_close(&rig);
}

/* Another device has a region with the same key. */
static void deregister_others_region(void)
{
	struct ibv_device **list;
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	char devices[64];

	snprintf(devices, sizeof(devices), "one=%s;other=127.86%s", case_address(),
		 strchr(strchr(case_address(), '.') + 1, '.'));
	must(unsetenv("URXE_NODE") == 0 && setenv("URXE_DEVICES", devices, 1) == 0);
	open_connected();
	list = ibv_get_device_list(NULL);
	must(list && list[1]);
	context = ibv_open_device(list[1]);
	must(context);
	ibv_free_device_list(list);
	pd = ibv_alloc_pd(context);
	must(pd);
	post_receive(5);
	mr = ibv_reg_mr(pd, rig.buffer, CASE_BUFFER, 0);
	must(mr);
	while (mr->lkey != rig.mr->lkey)
		must(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, rig.buffer,
				  CASE_BUFFER, 0) == 0);
	must(ibv_dereg_mr(mr) == 0);
	must(ibv_dealloc_pd(pd) == 0);
	must(ibv_close_device(context) == 0);
	rig_close(&rig);
}

/* A send from memory of its own, which goes before or after its completion is polled. */
static void send_from_mapping(bool unmap_first)
{
	const int access = PROT_READ | PROT_WRITE;
	struct ibv_send_wr wr = {.num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;
	uint8_t *memory = mmap(NULL, CASE_BUFFER, access, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_sge sge = {(uintptr_t)memory, LENGTH};
	struct ibv_mr *mr;

	must(memory != MAP_FAILED);
	open_connected();
	mr = ibv_reg_mr(rig.pd, memory, CASE_BUFFER, 0);
	must(mr);
	sge.lkey = mr->lkey;
	wr.sg_list = &sge;
	post_receive(1);
	must(ibv_post_send(rig.qp, &wr, &bad) == 0);
	if (unmap_first)
		must(munmap(memory, CASE_BUFFER) == 0);
	poll_one();
	poll_one();
	must(ibv_dereg_mr(mr) == 0);
	if (!unmap_first)
		must(munmap(memory, CASE_BUFFER) == 0);
	rig_close(&rig);
}

static void unmap_under_send(void)
{
	send_from_mapping(true);
}

static void unmap_after_send(void)
{
	send_from_mapping(false);
}

/* --- queues ----------------------------------------------------------------------------------- */

static void fill_with_unsignaled(void)
{
	open_connected();
	for (unsigned int i = 0; i < CASE_DEPTH; i++)
		post_receive(i);
	for (unsigned int i = 0; i < CASE_DEPTH; i++)
		post_send(i, 0);
	poll_good(CASE_DEPTH);
	must(try_send(0, IBV_SEND_SIGNALED) == ENOMEM);
	rig_close(&rig);
}

/* All are signaled, though none says so. */
static void fill_with_all_signaled(void)
{
	rig.sq_sig_all = 1;
	open_connected();
	for (unsigned int i = 0; i < CASE_DEPTH; i++)
		post_receive(i);
	for (unsigned int i = 0; i < CASE_DEPTH; i++)
		post_send(i, 0);
	must(try_send(0, 0) == ENOMEM);
	poll_good(2 * CASE_DEPTH);
	rig_close(&rig);
}

static void signal_the_last(void)
{
	open_connected();
	for (unsigned int n = 0; n < 2; n++) {
		for (unsigned int i = 0; i < CASE_DEPTH; i++)
			post_receive(i);
		for (unsigned int i = 1; i <= CASE_DEPTH; i++)
			post_send(i, i == CASE_DEPTH ? IBV_SEND_SIGNALED : 0);
		poll_good(CASE_DEPTH + 1);
	}
	rig_close(&rig);
}

/* In one call: the first one, unsignaled, isn't done before the second one is posted. */
static void post_two(void)
{
	struct ibv_sge sge = part(0);
	struct ibv_send_wr second = send_wr(2, IBV_SEND_SIGNALED, &sge);
	struct ibv_send_wr first = send_wr(1, 0, &sge), *bad;

	first.next = &second;
	must(ibv_post_send(rig.qp, &first, &bad) == 0);
}

/* The CQ has room for both queues. */
static void resize_and_post(int cqe, unsigned int receives)
{
	rig_open(&rig);
	must(ibv_resize_cq(rig.cq, cqe) == 0);
	rig_connect(&rig);
	for (unsigned int i = 0; i < receives; i++)
		post_receive(i);
	post_two();
	poll_good(3);
	rig_close(&rig);
}

static void post_more_than_cqe(void)
{
	resize_and_post(5, 4);
}

static void receive_more_than_cqe(void)
{
	rig_open(&rig);
	must(ibv_resize_cq(rig.cq, 2) == 0);
	rig_connect(&rig);
	for (unsigned int i = 0; i < 3; i++)
		post_receive(i);
	rig_close(&rig);
}

static void post_cqe(void)
{
	resize_and_post(6, 4);
}

static void wait_for_completion_event(void)
{
	struct ibv_cq *cq;
	void *context;

	must(ibv_get_cq_event(rig.channel, &cq, &context) == 0);
	ibv_ack_cq_events(cq, 1);
}

static void modify_to(enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = {.qp_state = state, .port_num = 1};
	int mask = IBV_QP_STATE;

	if (state == IBV_QPS_INIT)
		mask |= IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
	must(ibv_modify_qp(rig.qp, &attr, mask) == 0);
}

/* Unsignaled ones that are done when the queue pair is reset take no entries, before and after. */
static void reset_after_unsignaled(void)
{
	open_writable();
	for (unsigned int i = 1; i < CASE_DEPTH; i++)
		post_write(0, 0);
	must(ibv_req_notify_cq(rig.cq, 0) == 0);
	post_write(0, IBV_SEND_SIGNALED);
	wait_for_completion_event();
	modify_to(IBV_QPS_RESET);
	rig_connect(&rig);
	for (unsigned int i = 0; i < CASE_DEPTH; i++)
		post_receive(i);
	for (unsigned int i = 0; i < CASE_DEPTH; i++)
		post_send(i, IBV_SEND_SIGNALED);
	poll_good(2 * CASE_DEPTH);
	rig_close(&rig);
}

static void modify_datagrams_to(enum ibv_qp_state state, int mask)
{
	struct ibv_qp_attr attr = {.qp_state = state, .port_num = 1};

	must(ibv_modify_qp(rig.qp, &attr, mask | IBV_QP_STATE) == 0);
}

static void send_in_init(void)
{
	rig_open(&rig);
	modify_to(IBV_QPS_INIT);
	must(try_send(3, IBV_SEND_SIGNALED) == EINVAL);
	rig_close(&rig);
}

static void receive_in_reset(void)
{
	struct ibv_recv_wr wr = {.wr_id = 3}, *bad;

	rig_open(&rig);
	must(ibv_post_recv(rig.qp, &wr, &bad) == EINVAL);
	rig_close(&rig);
}

static void receive_in_init(void)
{
	rig_open(&rig);
	modify_to(IBV_QPS_INIT);
	post_receive(1);
	rig_close(&rig);
}

/* A card's profile takes it. */
static void send_early_on_card(void)
{
	must(setenv("URXE_PROFILE", "cx5", 1) == 0);
	rig_open(&rig);
	modify_to(IBV_QPS_INIT);
	post_send(3, IBV_SEND_SIGNALED);
	rig_close(&rig);
}

static void receive_early_on_card(void)
{
	must(setenv("URXE_PROFILE", "cx5", 1) == 0);
	rig_open(&rig);
	post_receive(3);
	rig_close(&rig);
}

/* --- errors --------------------------------------------------------------------------------- */

/* The queue pair is in ERR, and its completion with an error polled. */
static void fail_one(void)
{
	struct ibv_sge sge = {(uintptr_t)rig.buffer, LENGTH, 0x12345678};
	struct ibv_send_wr wr = {.wr_id = 5, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND},
			   *bad;

	must(ibv_post_send(rig.qp, &wr, &bad) == 0);
	must(poll_one().status == IBV_WC_LOC_PROT_ERR);
}

static void go_on_after_error(void)
{
	open_connected();
	fail_one();
	for (unsigned int i = 0; i < 3; i++) {
		post_send(i, IBV_SEND_SIGNALED);
		must(poll_one().status == IBV_WC_WR_FLUSH_ERR);
	}
	rig_close(&rig);
}

/* Its sends are flushed, in SQE; and receives are posted as before. */
static void receive_after_error(void)
{
	struct ibv_qp_init_attr attr = {
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_UD,
	};
	struct ibv_sge sge = {.length = 1};
	struct ibv_send_wr wr = send_wr(5, IBV_SEND_SIGNALED, &sge), *bad;
	struct ibv_ah_attr ah_attr = {.is_global = 1, .port_num = 1, .grh = {.hop_limit = 1}};
	struct ibv_wc wc;

	rig_open(&rig);
	must(ibv_destroy_qp(rig.qp) == 0);
	attr.send_cq = attr.recv_cq = rig.cq;
	rig.qp = ibv_create_qp(rig.pd, &attr);
	must(rig.qp);
	modify_datagrams_to(IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
	modify_datagrams_to(IBV_QPS_RTR, 0);
	modify_datagrams_to(IBV_QPS_RTS, IBV_QP_SQ_PSN);
	must(ibv_query_gid(rig.context, 1, 0, &ah_attr.grh.dgid) == 0);
	wr.wr.ud.ah = ibv_create_ah(rig.pd, &ah_attr);
	must(wr.wr.ud.ah);
	must(ibv_post_send(rig.qp, &wr, &bad) == 0);
	must(poll_one().status == IBV_WC_LOC_PROT_ERR);
	for (unsigned int i = 0; i < 4; i++) {
		post_receive(i);
		must(ibv_poll_cq(rig.cq, 1, &wc) == 0);
	}
	must(ibv_destroy_ah(wr.wr.ud.ah) == 0);
	rig_close(&rig);
}

static void begin_anew_after_error(void)
{
	open_connected();
	fail_one();
	modify_to(IBV_QPS_RESET);
	rig_connect(&rig);
	for (unsigned int i = 0; i < 3; i++) {
		post_receive(i);
		post_send(i, IBV_SEND_SIGNALED);
		poll_good(2);
	}
	rig_close(&rig);
}

/* One in each queue, behind all that is flushed. */
static void post_markers_after_error(void)
{
	open_connected();
	fail_one();
	must(ibv_poll_cq(rig.cq, 1, &(struct ibv_wc){}) == 0);
	post_send(8, IBV_SEND_SIGNALED);
	post_receive(9);
	must(poll_one().status == IBV_WC_WR_FLUSH_ERR);
	must(poll_one().status == IBV_WC_WR_FLUSH_ERR);
	rig_close(&rig);
}

/* What it had done before it looked. */
static void post_behind_error(void)
{
	struct ibv_wc wc;

	open_connected();
	fail_one();
	post_receive(1);
	post_receive(2);
	while (ibv_poll_cq(rig.cq, 1, &wc) == 0)
		;
	rig_close(&rig);
}

/* --- no receive ----------------------------------------------------------------------------- */

static void send_without_receive(void)
{
	rig_open(&rig);
	rig_connect_retrying(&rig, 0);
	post_send(7, IBV_SEND_SIGNALED);
	must(poll_one().status == IBV_WC_RNR_RETRY_EXC_ERR);
	rig_close(&rig);
}

static void send_with_receive(void)
{
	rig_open(&rig);
	rig_connect_retrying(&rig, 0);
	post_receive(1);
	post_send(7, IBV_SEND_SIGNALED);
	poll_good(2);
	rig_close(&rig);
}

/* --- unusual order (URXE_CHECK=order) ------------------------------------------------------- */

static bool is_written(unsigned int round)
{
	const uint8_t *second = rig.buffer + HALF;

	return second[0] == round && memcmp(second, second + 1, HALF - 1) == 0;
}

#define ROUNDS 100

/* With the last byte of a message the rest of it isn't there: this ends when that is seen. */
static void poll_last_byte(void)
{
	volatile uint8_t *last = &rig.buffer[CASE_BUFFER - 1];
	unsigned int round;
	bool found = false;

	open_writable();
	for (round = 1; round < ROUNDS && !found; round++) {
		post_write(round, IBV_SEND_SIGNALED);
		while (*last != round)
			;
		found = !is_written(round);
		poll_good(1);
	}
	must(found);
	rig_close(&rig);
}

static void wait_for_completion(void)
{
	open_writable();
	for (unsigned int round = 1; round < ROUNDS; round++) {
		post_write(round, 0);
		post_receive(round);
		post_send(round, IBV_SEND_SIGNALED);
		poll_good(2);
		must(memcmp(rig.buffer, rig.buffer + HALF, LENGTH) == 0);
		must(rig.buffer[CASE_BUFFER - 1] == round);
	}
	rig_close(&rig);
}

static const struct check_case cases[] = {
	BAD(SEND_BUFFER_CHANGED, change_posted_send, .said = "SEND, wr_id 7, 256 bytes"),
	BAD(SEND_BUFFER_CHANGED, change_unsignaled_send, .said = "SEND, wr_id 7"),
	BAD(SEND_BUFFER_CHANGED, change_send_of_builder, .said = "wr_id 9"),
	GOOD(SEND_BUFFER_CHANGED, change_completed_send),
	GOOD(SEND_BUFFER_CHANGED, change_inline_send),
	GOOD(SEND_BUFFER_CHANGED, receive_into_posted_send),
	GOOD(SEND_BUFFER_CHANGED, send_while_written_to),
	BAD(RECEIVE_BUFFER_CHANGED, write_to_posted_receive, .said = "receive, wr_id 5"),
	BAD(RECEIVE_BUFFER_CHANGED, write_to_shared_receive, .said = "a shared receive queue"),
	GOOD(RECEIVE_BUFFER_CHANGED, write_to_completed_receive),
	GOOD(RECEIVE_BUFFER_CHANGED, fill_what_was_written_to),
	BAD(REGION_ENDED_UNDER_WORK, deregister_under_receive, .said = "0 sends and 1 receives"),
	BAD(REGION_ENDED_UNDER_WORK, deregister_under_message, .said = "1 sends and 1 receives"),
	BAD(REGION_ENDED_UNDER_WORK, reregister_under_receive),
	GOOD(REGION_ENDED_UNDER_WORK, deregister_under_flushed),
	GOOD(REGION_ENDED_UNDER_WORK, deregister_others_region),
	GOOD(REGION_ENDED_UNDER_WORK, deregister_behind_last_qp),
	BAD(MEMORY_GONE_UNDER_WORK, unmap_under_send),
	GOOD(MEMORY_GONE_UNDER_WORK, unmap_after_send),
	BAD(SEND_QUEUE_NEVER_EMPTIES, fill_with_unsignaled, .said = "the queue takes 16"),
	GOOD(SEND_QUEUE_NEVER_EMPTIES, signal_the_last),
	GOOD(SEND_QUEUE_NEVER_EMPTIES, fill_with_all_signaled),
	BAD(CQ_TOO_SMALL, post_more_than_cqe,
	    .said = "2 sends (1 of them unsignaled) and 4 receives"),
	BAD(CQ_TOO_SMALL, receive_more_than_cqe,
	    .said = "0 sends (0 of them unsignaled) and 3 receives"),
	GOOD(CQ_TOO_SMALL, post_cqe),
	GOOD(CQ_TOO_SMALL, reset_after_unsignaled),
	BAD(POST_IN_WRONG_STATE, send_in_init, .said = "is in INIT"),
	BAD(POST_IN_WRONG_STATE, receive_in_reset, .said = "is in RESET"),
	BAD(POST_IN_WRONG_STATE, send_early_on_card, .said = "is in INIT"),
	BAD(POST_IN_WRONG_STATE, receive_early_on_card, .said = "is in RESET"),
	GOOD(POST_IN_WRONG_STATE, receive_in_init),
	BAD(ERROR_IGNORED, go_on_after_error, .said = "wr_id 5 completed with status 4"),
	GOOD(ERROR_IGNORED, receive_after_error),
	GOOD(ERROR_IGNORED, begin_anew_after_error),
	GOOD(ERROR_IGNORED, post_behind_error),
	GOOD(ERROR_IGNORED, post_markers_after_error),
	BAD(SENDS_MET_NO_RECEIVE, send_without_receive, .said = "1 times"),
	GOOD(SENDS_MET_NO_RECEIVE, send_with_receive),
	GOOD(NONE, poll_last_byte, .options = "order"),
	GOOD(NONE, wait_for_completion, .options = "order"),
};

const struct check_table work_cases = CHECK_TABLE(cases, 0x7101, 0x711f);
