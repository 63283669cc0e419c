/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory that isn't the application's own, pinned: on demand, of the device, of a dma-buf, none
 * at all. The receiver of a pair has it, the sender reaches in.
 */
#include <check.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "net/newer_verbs.h"
#include "tests/run_suite.h"
#include "tests/sanitizers.h"
#include "tests/verbs/fails.h"
#include "tests/verbs/fixture.h"
#include "tests/verbs/newer_regions.h"

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

/* Takes the lock that the receiving thread takes: TSan doesn't see an order that sockets make. */
static void precede_receiver(void)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	ck_assert_int_eq(ibv_query_qp(pair.receiver, &attr, IBV_QP_STATE, &init), 0);
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
	precede_receiver();
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
			    IBV_ODP_SUPPORT_ATOMIC | IBV_ODP_SUPPORT_SRQ_RECV | ODP_SUPPORT_FLUSH |
			    ODP_SUPPORT_ATOMIC_WRITE;
	struct ibv_device_attr_ex attr;

	pair_open(&pair, IBV_QPT_RC, 0);
	attr = query();
	ck_assert_uint_eq(attr.odp_caps.general_caps, IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT);
	ck_assert_uint_eq(attr.odp_caps.per_transport_caps.rc_odp_caps, rc);
	ck_assert_uint_eq(attr.odp_caps.per_transport_caps.uc_odp_caps,
			  send_recv | IBV_ODP_SUPPORT_WRITE);
	ck_assert_uint_eq(attr.odp_caps.per_transport_caps.ud_odp_caps,
			  send_recv | IBV_ODP_SUPPORT_SRQ_RECV);
	ck_assert_uint_eq(attr.xrc_odp_caps, rc);
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

	/* Sanitizers have shadows of addresses alone, and TSan a lock of its own in an atomic. */
	if (HAS_TSAN || (HAS_ASAN && addresses[_i / 3] >> 47))
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
	uint64_t number = 0x100;
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
	memcpy(pair.buffer, &number, sizeof(number));
	post(IBV_WR_ATOMIC_FETCH_AND_ADD, (struct ibv_sge){0, 8, null->lkey},
	     (uintptr_t)pair.buffer, pair.mr->rkey);
	expect(IBV_WC_SUCCESS);
	memcpy(&number, pair.buffer, sizeof(number));
	ck_assert_uint_eq(number, 0x105);
	/* Zeros they are still. */
	post(IBV_WR_RDMA_WRITE, (struct ibv_sge){0, 8, null->lkey}, (uintptr_t)pair.buffer,
	     pair.mr->rkey);
	expect(IBV_WC_SUCCESS);
	ck_assert_mem_eq(pair.buffer, "\0\0\0\0\0\0\0\0", 8);

	ck_fails(ibv_rereg_mr(null, IBV_REREG_MR_CHANGE_PD, pair.pd, NULL, 0, 0), EINVAL);
	post(IBV_WR_RDMA_WRITE, send_sge(&pair, 8), 0, null->lkey);
	expect(IBV_WC_REM_ACCESS_ERR);
	ck_assert_int_eq(ibv_dereg_mr(null), 0);
	pair_close(&pair);
}
END_TEST

/* --- of a dma-buf ----------------------------------------------------------------------------- */

/*
 * Few machines let a process have one. A memfd is mapped as one is, and this says of it what
 * the kernel says of a dma-buf; of all other files it says what the kernel does.
 */
static int stand_in = -1;

__attribute__((visibility("default"))) int fstatfs(int fd, struct statfs *buffer)
{
	int (*real)(int, struct statfs *) = dlsym(RTLD_NEXT, "fstatfs64");
	int result = real(fd, buffer);

	if (result == 0 && fd == stand_in)
		buffer->f_type = DMA_BUF_MAGIC;
	return result;
}

#define DMABUF_PAGES 4

static size_t page;
static uint8_t *contents;

static int open_dmabuf(void)
{
	page = sysconf(_SC_PAGESIZE);
	stand_in = memfd_create("dma-buf", 0);
	ck_assert_int_ge(stand_in, 0);
	ck_assert_int_eq(ftruncate(stand_in, DMABUF_PAGES * page), 0);
	contents = mmap(NULL, DMABUF_PAGES * page, PROT_READ | PROT_WRITE, MAP_SHARED, stand_in, 0);
	ck_assert_ptr_ne(contents, MAP_FAILED);
	return stand_in;
}

START_TEST(dmabuf)
{
	struct ibv_mr *mr;
	uint64_t iova;
	int fd;

	pair_open(&pair, IBV_QPT_RC, 0);
	fd = open_dmabuf();
	iova = 100 * page + 64;
	mr = ibv_reg_dmabuf_mr(pair.pd, page + 64, 2 * page, iova, fd, ACCESS);
	ck_assert_ptr_nonnull(mr);
	ck_assert_ptr_eq(mr->addr, (void *)(page + 64));
	ck_assert_uint_eq(mr->length, 2 * page);
	close(fd);
	check_remote(iova, mr->rkey);
	ck_assert_mem_eq(contents + page + 64, "of the sender", 14);
	memcpy(contents + 3 * page, "from here", 9);
	post(IBV_WR_RDMA_WRITE, (struct ibv_sge){iova + 2 * page - 64, 9, mr->lkey},
	     (uintptr_t)pair.buffer, pair.mr->rkey);
	expect(IBV_WC_SUCCESS);
	ck_assert_mem_eq(pair.buffer, "from here", 9);
	ck_fails(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0), EINVAL);
	ck_assert_int_eq(errno, EINVAL);
	post(IBV_WR_RDMA_READ, send_sge(&pair, 8), iova + 2 * page - 7, mr->rkey);
	expect(IBV_WC_REM_ACCESS_ERR);
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	pair_close(&pair);
}
END_TEST

static int try_dmabuf(uint64_t offset, size_t length, uint64_t iova, int fd, int access)
{
	struct ibv_mr *mr = ibv_reg_dmabuf_mr(pair.pd, offset, length, iova, fd, access);

	if (!mr)
		return errno;
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	return 0;
}

START_TEST(dmabuf_that_is_refused)
{
	const size_t all = DMABUF_PAGES * sysconf(_SC_PAGESIZE);
	char path[64];
	int fd, other;

	pair_open(&pair, IBV_QPT_RC, 0);
	fd = open_dmabuf();
	ck_assert_int_eq(try_dmabuf(0, all, 0, fd, ACCESS), 0);
	ck_assert_int_eq(try_dmabuf(0, all, 0, fd, ACCESS | IBV_ACCESS_RELAXED_ORDERING), 0);
	ck_assert_int_eq(try_dmabuf(0, 0, 0, fd, ACCESS), EINVAL);
	ck_assert_int_eq(try_dmabuf(1, all, 1, fd, ACCESS), EINVAL);
	ck_assert_int_eq(try_dmabuf(all, 1, 0, fd, ACCESS), EINVAL);
	ck_assert_int_eq(try_dmabuf(-page, 2 * page, 0, fd, ACCESS), EINVAL);
	ck_assert_int_eq(try_dmabuf(0, all, -page, fd, ACCESS), EINVAL);
	ck_assert_int_eq(try_dmabuf(8, 8, 16, fd, ACCESS), EINVAL);
	ck_assert_int_eq(try_dmabuf(0, 8, 0, fd, IBV_ACCESS_REMOTE_WRITE), EINVAL);
	ck_assert_int_eq(try_dmabuf(0, 8, 0, fd, ACCESS | IBV_ACCESS_MW_BIND), EINVAL);
	ck_assert_int_eq(try_dmabuf(0, 8, 0, fd, ACCESS | IBV_ACCESS_ZERO_BASED), EINVAL);
	ck_assert_int_eq(try_dmabuf(0, 8, 0, fd, ACCESS | IBV_ACCESS_ON_DEMAND), EINVAL);
	ck_assert_int_eq(try_dmabuf(0, 8, 0, -1, ACCESS), EBADF);
	other = memfd_create("ordinary", 0);
	ck_assert_int_eq(ftruncate(other, all), 0);
	ck_assert_int_eq(try_dmabuf(0, 8, 0, other, ACCESS), EINVAL);
	close(other);

	/* One that can't be mapped for writing. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	stand_in = open(path, O_RDONLY);
	ck_assert_int_ge(stand_in, 0);
	ck_assert_int_eq(try_dmabuf(0, 8, 0, stand_in, ACCESS), EOPNOTSUPP);
	ck_assert_int_eq(try_dmabuf(0, 8, 0, stand_in, IBV_ACCESS_REMOTE_READ), 0);
	close(stand_in);
	close(fd);
	pair_close(&pair);
}
END_TEST

/* --- by one structure -------------------------------------------------------------------- */

static struct ibv_mr *register_ex(struct mr_init_attr attr)
{
	return newer_reg_mr_ex(pair.pd, &attr);
}

static int try_ex(struct mr_init_attr attr)
{
	struct ibv_mr *mr = register_ex(attr);

	if (!mr)
		return errno;
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	return 0;
}

START_TEST(registered_by_a_structure)
{
	static uint64_t here[400];
	struct ibv_mr *mr;
	uint64_t iova;
	int fd;

	pair_open(&pair, IBV_QPT_RC, 0);
	fd = open_dmabuf();
	iova = 100 * page + ((uintptr_t)here & (page - 1));
	mr = register_ex((struct mr_init_attr){
		.comp_mask = MR_EX_ADDR, .addr = here, .length = sizeof(here), .access = ACCESS});
	ck_assert_ptr_nonnull(mr);
	check_remote((uintptr_t)here, mr->rkey);
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	mr = register_ex((struct mr_init_attr){.comp_mask = MR_EX_ADDR | MR_EX_IOVA,
					       .addr = here,
					       .iova = iova,
					       .length = sizeof(here),
					       .access = ACCESS});
	ck_assert_ptr_nonnull(mr);
	check_remote(iova, mr->rkey);
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	mr = register_ex((struct mr_init_attr){.comp_mask = MR_EX_FD | MR_EX_FD_OFFSET | MR_EX_IOVA,
					       .fd = fd,
					       .fd_offset = page,
					       .iova = 7 * page,
					       .length = page,
					       .access = ACCESS});
	ck_assert_ptr_nonnull(mr);
	check_remote(7 * page, mr->rkey);
	ck_assert_mem_eq(contents + page, "of the sender", 14);
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);

	ck_assert_int_eq(try_ex((struct mr_init_attr){
				 .comp_mask = MR_EX_FD | MR_EX_FD_OFFSET, .fd = fd, .length = 8}),
			 EINVAL);
	ck_assert_int_eq(try_ex((struct mr_init_attr){
				 .comp_mask = MR_EX_FD | MR_EX_IOVA, .fd = fd, .length = 8}),
			 EINVAL);
	ck_assert_int_eq(try_ex((struct mr_init_attr){.addr = here, .length = 8}), EINVAL);
	ck_assert_int_eq(
		try_ex((struct mr_init_attr){
			.comp_mask = MR_EX_ADDR | MR_EX_FD, .addr = here, .fd = fd, .length = 8}),
		EINVAL);
	ck_assert_int_eq(try_ex((struct mr_init_attr){.comp_mask = MR_EX_ADDR | MR_EX_FD_OFFSET,
						      .addr = here,
						      .length = 8}),
			 EINVAL);
	ck_assert_int_eq(try_ex((struct mr_init_attr){
				 .comp_mask = MR_EX_ADDR | MR_EX_DMAH, .addr = here, .length = 8}),
			 EOPNOTSUPP);
	ck_assert_int_eq(try_ex((struct mr_init_attr){.comp_mask = MR_EX_ADDR | UINT64_C(1) << 40,
						      .addr = here,
						      .length = 8}),
			 EOPNOTSUPP);
	close(fd);
	pair_close(&pair);
}
END_TEST

/* --- buffers ----------------------------------------------------------------------------- */

#define BUF_SIZE 5000

static int try_buf(struct buf *buf, void *addr, size_t length)
{
	struct ibv_mr *mr = newer_reg_buf_mr(pair.pd, buf, addr, length, ACCESS);

	if (!mr)
		return errno;
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	return 0;
}

static int try_buf_ex(struct buf *buf, uint64_t mask, void *addr)
{
	return try_ex((struct mr_init_attr){
		.comp_mask = mask | MR_EX_BUF, .buf = buf, .addr = addr, .length = 8});
}

START_TEST(buffers)
{
	const size_t page = sysconf(_SC_PAGESIZE);
	struct buf *buf = NULL;
	struct ibv_mr *mr;
	char *memory;

	pair_open(&pair, IBV_QPT_RC, 0);
	memory = newer_alloc_buf(pair.pd, BUF_SIZE, &buf);
	ck_assert_ptr_nonnull(memory);
	ck_assert_ptr_nonnull(buf);
	ck_assert_uint_eq((uintptr_t)memory & (page - 1), 0);
	memset(memory, 0, BUF_SIZE);
	mr = newer_reg_buf_mr(pair.pd, buf, memory, BUF_SIZE, ACCESS);
	ck_assert_ptr_nonnull(mr);
	ck_assert_ptr_eq(mr->addr, memory);
	ck_assert_uint_eq(mr->length, BUF_SIZE);
	check_remote((uintptr_t)memory, mr->rkey);
	ck_assert_mem_eq(memory, "of the sender", 14);
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);

	memset(memory, 0, BUF_SIZE);
	mr = register_ex((struct mr_init_attr){.comp_mask = MR_EX_BUF | MR_EX_ADDR | MR_EX_IOVA,
					       .buf = buf,
					       .addr = memory + 8,
					       .iova = 3 * page + 8,
					       .length = 4000,
					       .access = ACCESS});
	ck_assert_ptr_nonnull(mr);
	check_remote(3 * page + 8, mr->rkey);
	ck_assert_mem_eq(memory + 8, "of the sender", 14);
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	newer_free_buf(buf);
	pair_close(&pair);
}
END_TEST

START_TEST(buffers_are_of_a_domain_and_a_size)
{
	struct buf *buf, *other;
	struct ibv_pd *pd;
	char *memory;

	pair_open(&pair, IBV_QPT_RC, 0);
	memory = newer_alloc_buf(pair.pd, BUF_SIZE, &buf);
	ck_assert_int_eq(try_buf(buf, memory + BUF_SIZE - 8, 8), 0);
	ck_assert_int_eq(try_buf(buf, memory + BUF_SIZE - 8, 9), EINVAL);
	ck_assert_int_eq(try_buf(buf, memory - 1, 8), EINVAL);
	ck_assert_int_eq(try_buf(buf, memory, SIZE_MAX), EINVAL);
	ck_assert_int_eq(try_buf(buf, memory + 8, SIZE_MAX - 4), EINVAL);
	ck_assert_int_eq(try_buf_ex(buf, MR_EX_ADDR, memory), 0);
	ck_assert_int_eq(try_buf_ex(buf, 0, memory), EINVAL);
	ck_assert_int_eq(try_buf_ex(buf, MR_EX_ADDR | MR_EX_FD, memory), EINVAL);
	ck_assert_int_eq(try_buf_ex(buf, MR_EX_ADDR | MR_EX_FD_OFFSET, memory), EINVAL);
	ck_assert_int_eq(try_buf_ex(NULL, MR_EX_ADDR, memory), EINVAL);
	ck_fails(newer_export_buf_dmabuf_fd(buf), ENODATA);
	newer_free_buf(buf);

	pd = ibv_alloc_pd(pair.context);
	memory = newer_alloc_buf(pd, 8, &other);
	ck_assert_int_eq(try_buf(other, memory, 8), EINVAL);
	newer_free_buf(other);
	ck_assert_int_eq(ibv_dealloc_pd(pd), 0);
	if (!SANITIZED) /* whose allocator ends the program for it */
		ck_fails_null(newer_alloc_buf(pair.pd, SIZE_MAX / 2, &other), ENOMEM);
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
	tcase_add_test(tcase, dmabuf);
	tcase_add_test(tcase, dmabuf_that_is_refused);
	tcase_add_test(tcase, registered_by_a_structure);
	tcase_add_test(tcase, buffers);
	tcase_add_test(tcase, buffers_are_of_a_domain_and_a_size);
	suite_add_tcase(suite, tcase);
	return run_suite(suite);
}
