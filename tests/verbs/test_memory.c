/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory that isn't the application's own, pinned: on demand, of the device, none at all. The
 * receiver of a pair has it, the sender reaches in.
 */
#include <check.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/run_suite.h"
#include "tests/sanitizers.h"
#include "tests/verbs/fixture.h"

#define ACCESS                                                                                     \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC)

static struct pair pair;

static struct ibv_device_attr_ex query(void)
{
	struct ibv_device_attr_ex attr;

	ck_assert_int_eq(ibv_query_device_ex(pair.context, NULL, &attr), 0);
	return attr;
}

static void post(enum ibv_wr_opcode opcode, struct ibv_sge sge, uint64_t remote, uint32_t rkey)
{
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED,
	};
	struct ibv_send_wr *bad;

	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = remote;
		wr.wr.atomic.rkey = rkey;
		wr.wr.atomic.compare_add = 5;
	} else {
		wr.wr.rdma.remote_addr = remote;
		wr.wr.rdma.rkey = rkey;
	}
	ck_assert_int_eq(ibv_post_send(pair.sender, &wr, &bad), 0);
}

static void expect(enum ibv_wc_status status)
{
	ck_assert_int_eq(wait_completion(pair.send_cq).status, status);
}

/* WRITE, READ and an atomic at @remote, which must be eight-byte aligned. */
static void check_remote(uint64_t remote, uint32_t rkey)
{
	uint64_t word;

	memset(pair.buffer, 0, sizeof(pair.buffer));
	memcpy(pair.buffer, "of the sender", 13);
	post(IBV_WR_RDMA_WRITE, send_sge(&pair, 3000), remote, rkey);
	expect(IBV_WC_SUCCESS);
	post(IBV_WR_ATOMIC_FETCH_AND_ADD, send_sge(&pair, 8), remote + 16, rkey);
	expect(IBV_WC_SUCCESS);
	memcpy(&word, pair.buffer, 8);
	ck_assert_uint_eq(word, 0);
	memset(pair.buffer, 0xff, 3000);
	post(IBV_WR_RDMA_READ, send_sge(&pair, 3000), remote, rkey);
	expect(IBV_WC_SUCCESS);
	ck_assert_mem_eq(pair.buffer, "of the sender", 14);
	memcpy(&word, pair.buffer + 16, 8);
	ck_assert_uint_eq(word, 5);
}

/* --- on demand -------------------------------------------------------------------------- */

START_TEST(on_demand_is_promised)
{
	const uint32_t send_recv = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV;
	const uint32_t rc = send_recv | IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ |
			    IBV_ODP_SUPPORT_ATOMIC | IBV_ODP_SUPPORT_SRQ_RECV;
	struct ibv_device_attr_ex attr;

	pair_open(&pair, IBV_QPT_RC, 0);
	attr = query();
	ck_assert_uint_eq(attr.odp_caps.general_caps, IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT);
	ck_assert_uint_eq(attr.odp_caps.per_transport_caps.rc_odp_caps & rc, rc);
	ck_assert_uint_eq(attr.odp_caps.per_transport_caps.uc_odp_caps,
			  send_recv | IBV_ODP_SUPPORT_WRITE);
	ck_assert_uint_eq(attr.odp_caps.per_transport_caps.ud_odp_caps,
			  send_recv | IBV_ODP_SUPPORT_SRQ_RECV);
	pair_close(&pair);
}
END_TEST

START_TEST(all_the_process_has)
{
	static uint64_t here[400];
	struct ibv_mr *mr;
	struct ibv_sge sge;

	pair_open(&pair, IBV_QPT_RC, 0);
	ck_assert_ptr_null(ibv_reg_mr(pair.pd, NULL, SIZE_MAX, ACCESS));
	ck_assert_int_eq(errno, EFAULT);
	mr = ibv_reg_mr(pair.pd, NULL, SIZE_MAX, ACCESS | IBV_ACCESS_ON_DEMAND);
	ck_assert_ptr_nonnull(mr);
	check_remote((uintptr_t)here, mr->rkey);
	ck_assert_mem_eq(here, "of the sender", 13);
	sge = (struct ibv_sge){(uintptr_t) "a constant", 10, mr->lkey};
	post(IBV_WR_RDMA_WRITE, sge, (uintptr_t)here, mr->rkey);
	expect(IBV_WC_SUCCESS);
	ck_assert_mem_eq(here, "a constant", 10);
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	pair_close(&pair);
}
END_TEST

/* None of these is memory, and the process goes on. */
START_TEST(addresses_that_a_peer_makes_up)
{
	static const uint64_t addresses[] = {0, 4096, UINT64_C(1) << 47, UINT64_C(1) << 62,
					     UINT64_C(0xffffffff80000000)};
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
						     IBV_WR_ATOMIC_FETCH_AND_ADD};
	struct ibv_mr *mr;

	/* TSan has shadows of addresses alone, and a lock of its own in an atomic access. */
	if (HAS_TSAN)
		return;
	pair_open(&pair, IBV_QPT_RC, 0);
	mr = ibv_reg_mr(pair.pd, NULL, SIZE_MAX, ACCESS | IBV_ACCESS_ON_DEMAND);
	ck_assert_ptr_nonnull(mr);
	post(opcodes[_i % 3], send_sge(&pair, 8), addresses[_i / 3], mr->rkey);
	expect(IBV_WC_REM_ACCESS_ERR);
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	pair_close(&pair);
}
END_TEST

START_TEST(advice)
{
	size_t page = sysconf(_SC_PAGESIZE);
	uint8_t *memory =
		mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	unsigned char vector[2];
	struct ibv_sge sge;
	struct ibv_mr *mr;

	ck_assert_ptr_ne(memory, MAP_FAILED);
	pair_open(&pair, IBV_QPT_RC, 0);
	mr = ibv_reg_mr(pair.pd, memory, 2 * page, ACCESS | IBV_ACCESS_ON_DEMAND);
	ck_assert_ptr_nonnull(mr);
	sge = (struct ibv_sge){(uintptr_t)memory + page, 1, mr->lkey};
	ck_assert_int_eq(ibv_advise_mr(pair.pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
				       IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1),
			 0);
	ck_assert_int_eq(mincore(memory, 2 * page, vector), 0);
	ck_assert_uint_eq(vector[0] & 1, 0);
	ck_assert_uint_eq(vector[1] & 1, 1);
	ck_assert_int_eq(ibv_advise_mr(pair.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1), 0);
	ck_assert_int_eq(ibv_advise_mr(pair.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 2, &sge, 1), EINVAL);
	ck_assert_int_eq(errno, EINVAL);
	ck_assert_int_eq(ibv_advise_mr(pair.pd, 17, 0, &sge, 1), ENOTSUP);
	sge.length = page + 1;
	ck_assert_int_eq(ibv_advise_mr(pair.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1), EFAULT);
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	pair_close(&pair);
	munmap(memory, 2 * page);
}
END_TEST

/* --- of the device ------------------------------------------------------------------------- */

static struct ibv_dm *alloc_dm(size_t length)
{
	struct ibv_alloc_dm_attr attr = {.length = length};
	struct ibv_dm *dm = ibv_alloc_dm(pair.context, &attr);

	ck_assert_ptr_nonnull(dm);
	return dm;
}

START_TEST(device_memory)
{
	uint64_t words[3];
	struct ibv_dm *dm;
	struct ibv_mr *mr;

	pair_open(&pair, IBV_QPT_RC, 0);
	dm = alloc_dm(8192);
	ck_assert_ptr_eq(dm->context, pair.context);
	mr = ibv_reg_dm_mr(pair.pd, dm, 4096, 4096, ACCESS | IBV_ACCESS_ZERO_BASED);
	ck_assert_ptr_nonnull(mr);
	ck_assert_ptr_eq(mr->pd, pair.pd);
	check_remote(0, mr->rkey);
	ck_assert_int_eq(ibv_memcpy_from_dm(words, dm, 4096, sizeof(words)), 0);
	ck_assert_mem_eq(words, "of the sender", 14);
	ck_assert_uint_eq(words[2], 5);
	ck_assert_int_eq(ibv_memcpy_from_dm(words, dm, 0, sizeof(words)), 0);
	ck_assert_uint_eq(words[0], 0);

	/* As a source, and as a sink. */
	ck_assert_int_eq(ibv_memcpy_to_dm(dm, 8000, "and back", 8), 0);
	post(IBV_WR_RDMA_WRITE, (struct ibv_sge){8000 - 4096, 8, mr->lkey}, (uintptr_t)pair.buffer,
	     pair.mr->rkey);
	expect(IBV_WC_SUCCESS);
	ck_assert_mem_eq(pair.buffer, "and back", 8);
	memcpy(pair.buffer, "once more", 9);
	post(IBV_WR_RDMA_READ, (struct ibv_sge){100, 9, mr->lkey}, (uintptr_t)pair.buffer,
	     pair.mr->rkey);
	expect(IBV_WC_SUCCESS);
	ck_assert_int_eq(ibv_memcpy_from_dm(words, dm, 4196, 12), 0);
	ck_assert_mem_eq(words, "once more", 10);

	ck_assert_int_eq(ibv_free_dm(dm), EBUSY);
	ck_assert_int_eq(errno, EBUSY);
	post(IBV_WR_RDMA_READ, send_sge(&pair, 8), 4089, mr->rkey);
	expect(IBV_WC_REM_ACCESS_ERR);
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	ck_assert_int_eq(ibv_free_dm(dm), 0);
	pair_close(&pair);
}
END_TEST

START_TEST(device_memory_that_is_refused)
{
	struct ibv_alloc_dm_attr attr = {.length = 64};
	struct ibv_dm *dm, *all;
	struct ibv_mr *mr;
	char bytes[8];

	pair_open(&pair, IBV_QPT_RC, 0);
	ck_assert_uint_gt(query().max_dm_size, 0);
	dm = alloc_dm(100);
	attr.comp_mask = 1;
	ck_assert_ptr_null(ibv_alloc_dm(pair.context, &attr));
	ck_assert_int_eq(errno, EINVAL);
	attr = (struct ibv_alloc_dm_attr){.length = query().max_dm_size + 1};
	ck_assert_ptr_null(ibv_alloc_dm(pair.context, &attr));
	ck_assert_int_eq(errno, EINVAL);
	attr.length--;
	ck_assert_ptr_null(ibv_alloc_dm(pair.context, &attr));
	ck_assert_int_eq(errno, ENOMEM);
	ck_assert_int_eq(ibv_memcpy_to_dm(dm, 1, bytes, 4), EINVAL);
	ck_assert_int_eq(ibv_memcpy_from_dm(bytes, dm, 100, 4), EFAULT);
	ck_assert_ptr_null(ibv_reg_dm_mr(pair.pd, dm, 0, 100, ACCESS));
	ck_assert_int_eq(errno, EINVAL);
	mr = ibv_reg_dm_mr(pair.pd, dm, 0, 100, ACCESS | IBV_ACCESS_ZERO_BASED);
	ck_assert_ptr_nonnull(mr);
	ck_assert_int_eq(
		ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_ZERO_BASED),
		IBV_REREG_MR_ERR_INPUT);
	ck_assert_int_eq(errno, EINVAL);
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	dm->handle++;
	ck_assert_int_eq(ibv_free_dm(dm), ENOENT);
	dm->handle--;
	ck_assert_int_eq(ibv_free_dm(dm), 0);
	all = alloc_dm(query().max_dm_size);
	ck_assert_int_eq(ibv_free_dm(all), 0);
	pair_close(&pair);
}
END_TEST

/* The kernel's descriptor is the child's, too, and Python's multiprocessing counts on it. */
START_TEST(device_memory_of_a_forked_child)
{
	struct ibv_alloc_dm_attr attr = {.length = 64};
	struct ibv_dm *dm;
	char bytes[8];
	int status;
	pid_t child;

	pair_open(&pair, IBV_QPT_RC, 0);
	child = fork();
	ck_assert_int_ge(child, 0);
	if (!child) {
		dm = query().max_dm_size ? ibv_alloc_dm(pair.context, &attr) : NULL;
		if (!dm || ibv_memcpy_to_dm(dm, 8, "the dog", 8) ||
		    ibv_memcpy_from_dm(bytes, dm, 8, 8) || strcmp(bytes, "the dog") != 0)
			_exit(1);
		_exit(ibv_free_dm(dm) == 0 ? 0 : 2);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
	pair_close(&pair);
}
END_TEST

/* --- none at all ---------------------------------------------------------------------------- */

/* The sender sends 4000 bytes of its buffer to a receive of these two. */
static void receive_sent(struct ibv_sge first, struct ibv_sge second)
{
	struct ibv_sge sges[] = {first, second};
	struct ibv_recv_wr wr = {.sg_list = sges, .num_sge = 2}, *bad;
	struct ibv_wc wc;

	ck_assert_int_eq(ibv_post_recv(pair.receiver, &wr, &bad), 0);
	post(IBV_WR_SEND, send_sge(&pair, 4000), 0, 0);
	expect(IBV_WC_SUCCESS);
	wc = wait_completion(pair.recv_cq);
	ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
	ck_assert_uint_eq(wc.byte_len, 4000);
}

START_TEST(null_region)
{
	struct ibv_mr *null;
	struct ibv_sge part;

	pair_open(&pair, IBV_QPT_RC, 0);
	null = ibv_alloc_null_mr(pair.pd);
	ck_assert_ptr_nonnull(null);
	ck_assert_ptr_eq(null->context, pair.context);
	ck_assert_uint_eq(null->length, SIZE_MAX);
	memset(pair.buffer, 7, sizeof(pair.buffer));
	post(IBV_WR_RDMA_WRITE, (struct ibv_sge){12345, 3000, null->lkey}, (uintptr_t)pair.buffer,
	     pair.mr->rkey);
	expect(IBV_WC_SUCCESS);
	for (int i = 0; i < 3001; i++)
		ck_assert_uint_eq(pair.buffer[i], i < 3000 ? 0 : 7);

	/* What is wanted of a message, without the rest. */
	memcpy(pair.buffer, "Iron ore", 8);
	part = (struct ibv_sge){(uintptr_t)pair.buffer + BUFFER_SIZE, 4, pair.mr->lkey};
	receive_sent(part, (struct ibv_sge){1000, 8000, null->lkey});
	ck_assert_mem_eq(pair.buffer + BUFFER_SIZE, "Iron\7\7\7\7", 8);
	part.length = 3996;
	receive_sent((struct ibv_sge){0, 4, null->lkey}, part);
	ck_assert_mem_eq(pair.buffer + BUFFER_SIZE, " ore\0\0\0\0", 8);

	post(IBV_WR_RDMA_READ, (struct ibv_sge){0, 4000, null->lkey}, (uintptr_t)pair.buffer,
	     pair.mr->rkey);
	expect(IBV_WC_SUCCESS);
	post(IBV_WR_ATOMIC_FETCH_AND_ADD, (struct ibv_sge){0, 8, null->lkey},
	     (uintptr_t)pair.buffer, pair.mr->rkey);
	expect(IBV_WC_SUCCESS);
	ck_assert_uint_eq(pair.buffer[0], 'I' + 5);
	/* Zeros they are still. */
	post(IBV_WR_RDMA_WRITE, (struct ibv_sge){0, 8, null->lkey}, (uintptr_t)pair.buffer,
	     pair.mr->rkey);
	expect(IBV_WC_SUCCESS);
	ck_assert_mem_eq(pair.buffer, "\0\0\0\0\0\0\0\0", 8);

	ck_assert_int_eq(ibv_rereg_mr(null, IBV_REREG_MR_CHANGE_PD, pair.pd, NULL, 0, 0),
			 IBV_REREG_MR_ERR_INPUT);
	post(IBV_WR_RDMA_WRITE, send_sge(&pair, 8), 0, null->lkey);
	expect(IBV_WC_REM_ACCESS_ERR);
	ck_assert_int_eq(ibv_dereg_mr(null), 0);
	pair_close(&pair);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("memory");
	TCase *tcase = tcase_create("memory");

	fixture_environment();
	tcase_set_timeout(tcase, 300);
	tcase_add_test(tcase, on_demand_is_promised);
	tcase_add_test(tcase, all_the_process_has);
	tcase_add_loop_test(tcase, addresses_that_a_peer_makes_up, 0, 15);
	tcase_add_test(tcase, advice);
	tcase_add_test(tcase, device_memory);
	tcase_add_test(tcase, device_memory_that_is_refused);
	tcase_add_test(tcase, device_memory_of_a_forked_child);
	tcase_add_test(tcase, null_region);
	suite_add_tcase(suite, tcase);
	return run_suite(suite);
}
