/* SPDX-License-Identifier: BSD-2-Clause */
/* Device memory and the null region: what may be had, copied, registered, accessed. */
#include <errno.h>
#include <pthread.h>

#include "core.h"
#include "emu/objects/dm.h"
#include "emu/objects/mr.h"
#include "emu/objects/mw.h"
#include "emu/objects/odp.h"
#include "emu/objects/qp.h"
#include "tests/must.h"

#define TOTAL 4096
#define CALLS 500000 /* one of the first 150000 failed where refused calls took memory */
#define ASKERS 3
#define ZERO_BASED IBV_ACCESS_ZERO_BASED
#define WRITE IBV_ACCESS_LOCAL_WRITE
#define ALL (WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

static struct pd *pd;
static struct qp qp;

static void begin(void)
{
	core.limits.max_dm_size = TOTAL;
	pd = core_pd();
	qp = (struct qp){.hca = &core, .pd = pd, .number = 100};
}

static void end(void)
{
	ck_assert_uint_eq(core.dm_size, 0);
	ck_assert_uint_eq(core.keys.count, 0);
	ck_assert_int_eq(pd_dealloc(pd), 0);
}

static struct dm *make_dm(size_t length, uint32_t log_alignment)
{
	struct dm *dm;

	ck_assert_int_eq(dm_alloc(&core, length, log_alignment, &dm), 0);
	return dm;
}

static int try_register(struct dm *dm, uint64_t offset, size_t length, int access)
{
	struct mr *mr;
	int error = dm_register(pd, dm, offset, length, access, &mr);

	if (!error)
		ck_assert_int_eq(mr_deregister(mr), 0);
	return error;
}

START_TEST(as_much_as_there_is)
{
	struct dm *dm, *second, *more;

	begin();
	ck_assert_int_eq(dm_alloc(&core, 0, 0, &dm), EINVAL);
	ck_assert_int_eq(dm_alloc(&core, TOTAL + 1, 0, &dm), EINVAL);
	ck_assert_int_eq(dm_alloc(&core, SIZE_MAX, 0, &dm), EINVAL);
	ck_assert_int_eq(dm_alloc(&core, 4, 13, &dm), EINVAL);
	ck_assert_int_eq(dm_alloc(&core, 4, UINT32_MAX, &dm), EINVAL);
	dm = make_dm(TOTAL - 100, 0);
	second = make_dm(100, 12);
	ck_assert_uint_eq((uintptr_t)dm->memory % 64, 0);
	ck_assert_uint_eq((uintptr_t)second->memory % 4096, 0);
	ck_assert_uint_ne(dm->ibv.handle, second->ibv.handle);
	ck_assert_int_eq(dm_alloc(&core, 1, 0, &more), ENOMEM);
	ck_assert_int_eq(dm_free(second), 0);
	ck_assert_int_eq(dm_alloc(&core, 101, 0, &more), ENOMEM);
	second = make_dm(99, 0);
	ck_assert_int_eq(dm_free(second), 0);
	ck_assert_int_eq(dm_free(dm), 0);
	end();
}
END_TEST

static _Atomic unsigned int asking;
static _Atomic bool stopping;

static void *ask_in_vain(void *unused)
{
	struct dm *dm;

	asking++;
	while (!stopping)
		must(dm_alloc(&core, TOTAL - 99, 0, &dm) == ENOMEM);
	return NULL;
}

/*
 * A call that is refused takes nothing meanwhile, or another thread's that fits could be refused.
 */
START_TEST(refusals_take_nothing)
{
	struct dm *dm, *second;
	pthread_t threads[ASKERS];

	begin();
	dm = make_dm(100, 0);
	for (int i = 0; i < ASKERS; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, ask_in_vain, NULL), 0);
	while (asking < ASKERS)
		sched_yield();
	for (int i = 0; i < CALLS; i++) {
		must(dm_alloc(&core, 100, 0, &second) == 0);
		must(dm_free(second) == 0);
	}
	stopping = true;
	for (int i = 0; i < ASKERS; i++)
		ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
	ck_assert_int_eq(dm_free(dm), 0);
	end();
}
END_TEST

START_TEST(copies)
{
	struct dm *dm;
	char bytes[100];

	begin();
	dm = make_dm(100, 3);
	memset(bytes, 1, sizeof(bytes));
	ck_assert_int_eq(dm_copy_from(bytes, dm, 0, 100), 0);
	for (size_t i = 0; i < sizeof(bytes); i++)
		ck_assert_int_eq(bytes[i], 0);
	ck_assert_int_eq(dm_copy_to(dm, 92, "the last", 8), 0);
	ck_assert_int_eq(dm_copy_from(bytes, dm, 96, 4), 0);
	ck_assert_mem_eq(bytes, "last", 4);
	ck_assert_int_eq(dm_copy_from(bytes, dm, 100, 0), 0);

	ck_assert_int_eq(dm_copy_to(dm, 93, bytes, 4), EINVAL);
	ck_assert_int_eq(dm_copy_to(dm, 92, bytes, 5), EINVAL);
	ck_assert_int_eq(dm_copy_to(dm, 96, bytes, 8), EFAULT);
	ck_assert_int_eq(dm_copy_to(dm, 104, bytes, 0), EFAULT);
	ck_assert_int_eq(dm_copy_to(dm, UINT64_MAX - 3, bytes, 4), EFAULT);
	ck_assert_int_eq(dm_copy_to(dm, 4, bytes, SIZE_MAX - 3), EFAULT);
	ck_assert_int_eq(dm_copy_from(bytes, dm, 2, 4), EINVAL);
	ck_assert_int_eq(dm_copy_from(bytes, dm, 96, 8), EFAULT);
	ck_assert_int_eq(dm_free(dm), 0);
	end();
}
END_TEST

START_TEST(registrations)
{
	struct dm *dm;
	struct mr *mr;

	begin();
	dm = make_dm(100, 0);
	ck_assert_int_eq(try_register(dm, 0, 100, ZERO_BASED), 0);
	ck_assert_int_eq(try_register(dm, 3, 97, ZERO_BASED | ALL), 0);
	ck_assert_int_eq(try_register(dm, 0, 0, ZERO_BASED), 0);
	ck_assert_int_eq(try_register(dm, 0, 101, ZERO_BASED), EINVAL);
	ck_assert_int_eq(try_register(dm, 1, 100, ZERO_BASED), EINVAL);
	ck_assert_int_eq(try_register(dm, UINT64_MAX, 2, ZERO_BASED), EINVAL);
	ck_assert_int_eq(try_register(dm, 0, 100, ALL), EINVAL);
	ck_assert_int_eq(try_register(dm, 0, 100, ZERO_BASED | IBV_ACCESS_REMOTE_WRITE), EINVAL);
	ck_assert_int_eq(try_register(dm, 0, 100, ZERO_BASED | IBV_ACCESS_MW_BIND), EINVAL);
	ck_assert_int_eq(try_register(dm, 0, 100, ZERO_BASED | IBV_ACCESS_ON_DEMAND), EINVAL);
	ck_assert_int_eq(try_register(dm, 0, 100, ZERO_BASED | 1 << 19), EINVAL);

	/* Of a registration that fails nothing is left. */
	core.limits.device.max_mr = 0;
	ck_assert_int_ne(try_register(dm, 0, 100, ZERO_BASED), 0);
	core.limits.device.max_mr = hca_limits_core.device.max_mr;
	ck_assert_int_eq(dm_free(dm), 0);

	dm = make_dm(100, 0);
	ck_assert_int_eq(dm_register(pd, dm, 0, 100, ZERO_BASED, &mr), 0);
	ck_assert_ptr_null(mr->ibv.addr);
	ck_assert_uint_eq(mr->ibv.length, 100);
	ck_assert_int_eq(dm_free(dm), EBUSY);
	for (int flags = 0; flags < 8; flags++)
		ck_assert_int_eq(mr_reregister(mr, flags, pd, &core, 8, 0), IBV_REREG_MR_ERR_INPUT);
	ck_assert_int_eq(mr_deregister(mr), 0);
	ck_assert_int_eq(dm_free(dm), 0);
	end();
}
END_TEST

/* Addresses count from the region's first byte. */
START_TEST(accesses)
{
	struct mr_pin pin;
	struct dm *dm;
	struct mr *mr;
	char bytes[4];

	begin();
	dm = make_dm(100, 0);
	ck_assert_int_eq(dm_register(pd, dm, 20, 40, ZERO_BASED | ALL, &mr), 0);
	ck_assert_int_eq(
		mr_pin_remote(qp.pd, &qp, mr->ibv.rkey, 36, 4, IBV_ACCESS_REMOTE_WRITE, &pin), 0);
	ck_assert_ptr_eq(pin.address, dm->memory + 56);
	ck_assert_int_eq(mr_write(&core, &pin, pin.address, "here", 4), 0);
	mr_unpin(&core, &pin);
	ck_assert_int_eq(dm_copy_from(bytes, dm, 56, 4), 0);
	ck_assert_mem_eq(bytes, "here", 4);
	ck_assert_int_eq(mr_pin(&core, pd, mr->ibv.lkey, 37, 4, 0, &pin), EACCES);
	ck_assert_int_eq(mr_pin(&core, pd, mr->ibv.lkey, (uintptr_t)dm->memory, 4, 0, &pin),
			 EACCES);
	ck_assert_int_eq(mr_deregister(mr), 0);
	ck_assert_int_eq(dm_free(dm), 0);
	end();
}
END_TEST

START_TEST(nothing_is_read_and_written)
{
	static const uint64_t addresses[] = {0, 4711, UINT64_MAX - 4096};
	const uint8_t zeros[4096] = {0};
	struct mr_pin pin;
	struct mr *mr;

	begin();
	ck_assert_int_eq(mr_alloc_null(pd, &mr), 0);
	ck_assert_ptr_null(mr->ibv.addr);
	ck_assert_uint_eq(mr->ibv.length, SIZE_MAX);
	for (size_t i = 0; i < sizeof(addresses) / sizeof(addresses[0]); i++) {
		struct ibv_sge sge = {addresses[i], 4096, mr->ibv.lkey};

		ck_assert_int_eq(mr_pin(&core, pd, mr->ibv.lkey, addresses[i], 4096, WRITE, &pin),
				 0);
		ck_assert_int_eq(mr_write(&core, &pin, pin.address, &core, 4096), 0);
		ck_assert_int_eq(mr_probe(&pin, pin.address, 4096), 0);
		ck_assert_mem_eq(pin.address, zeros, 4096);
		mr_unpin(&core, &pin);
		pin = (struct mr_pin){0};
		ck_assert_int_eq(sge_scatter(&core, pd, &sge, 1, 7, "dropped", 7, &pin), 0);
		mr_unpin(&core, &pin);
		ck_assert_mem_eq(pin.address, zeros, 4096);
		/* More than a packet carries is only checked. */
		ck_assert_int_eq(mr_pin(&core, pd, mr->ibv.lkey, 0, UINT32_MAX, WRITE, &pin), 0);
		mr_unpin(&core, &pin);
	}
	ck_assert_int_eq(mr_deregister(mr), 0);
	end();
}
END_TEST

/* ibv_alloc_null_mr(3): it is no remote key, no window's region, and stays what it is. */
START_TEST(nothing_else_can_be_done_with_it)
{
	struct mw_bind bind;
	struct mr_pin pin;
	struct mr *mr;
	struct mw *mw;

	begin();
	pthread_mutex_init(&core.mw_bind_lock, NULL);
	ck_assert_int_eq(mr_alloc_null(pd, &mr), 0);
	ck_assert_uint_eq(mr->ibv.rkey, 0);
	ck_assert_int_eq(mr_pin_remote(qp.pd, &qp, mr->ibv.lkey, 0, 1, 0, &pin), EACCES);
	ck_assert_int_eq(mr_pin_remote(qp.pd, &qp, mr->ibv.rkey, 0, 1, 0, &pin), EACCES);
	ck_assert_int_eq(mw_alloc(pd, IBV_MW_TYPE_1, &mw), 0);
	bind = (struct mw_bind){
		.window = key_number(mw->key.value),
		.region = mr->ibv.lkey,
		.length = 8,
		.access = IBV_ACCESS_REMOTE_READ,
	};
	ck_assert_int_eq(mw_bind(&qp, &bind), EINVAL);
	mw_dealloc(mw);
	ck_assert_int_eq(mr_reregister(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, WRITE),
			 IBV_REREG_MR_ERR_INPUT);
	ck_assert_int_eq(odp_advise(pd, IBV_ADVISE_MR_ADVICE_PREFETCH,
				    &(struct ibv_sge){0, 1, mr->ibv.lkey}, 1),
			 EINVAL);
	ck_assert_int_eq(mr_deregister(mr), 0);
	pthread_mutex_destroy(&core.mw_bind_lock);
	end();
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {as_much_as_there_is,
				      refusals_take_nothing,
				      copies,
				      registrations,
				      accesses,
				      nothing_is_read_and_written,
				      nothing_else_can_be_done_with_it,
				      NULL};

	return core_run("dm", tests);
}
