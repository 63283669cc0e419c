/* SPDX-License-Identifier: BSD-2-Clause */
/* Regions that are paged on demand: what may be registered, accessed, prefetched. */
#include <errno.h>
#include <pthread.h>

#include "emu/objects/mw.h"
#include "emu/objects/odp.h"
#include "emu/objects/qp.h"
#include "two_pages.h"

#define ON_DEMAND IBV_ACCESS_ON_DEMAND
#define WRITE IBV_ACCESS_LOCAL_WRITE
#define PREFETCH IBV_ADVISE_MR_ADVICE_PREFETCH
#define PREFETCH_WRITE IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE
#define PREFETCH_NO_FAULT IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT

static bool resident(const uint8_t *address)
{
	unsigned char vector;

	ck_assert_int_eq(mincore((void *)address, page, &vector), 0);
	return vector & 1;
}

/* A pin, and what writing through it says. */
static int write_to(const struct mr *mr, uint64_t va, const void *data, uint32_t length)
{
	struct mr_pin pin;
	int error;

	ck_assert_int_eq(mr_pin(&core, pd, mr->ibv.lkey, va, length, WRITE, &pin), 0);
	error = mr_write(&core, &pin, pin.address, data, length);
	mr_unpin(&core, &pin);
	return error;
}

static int probe(const struct mr *mr, uint64_t va, uint32_t length)
{
	struct mr_pin pin;
	int error;

	ck_assert_int_eq(mr_pin(&core, pd, mr->ibv.lkey, va, length, 0, &pin), 0);
	error = mr_probe(&pin, pin.address, length);
	mr_unpin(&core, &pin);
	return error;
}

START_TEST(memory_may_come_and_go)
{
	uint64_t address;
	struct mr *mr;

	begin();
	address = (uintptr_t)memory;
	ck_assert_int_eq(mprotect(memory, 2 * page, PROT_NONE), 0);
	mr = make_mr(memory, 2 * page, ON_DEMAND | WRITE);
	ck_assert_int_eq(write_to(mr, address, "here", 4), EACCES);
	ck_assert_int_eq(probe(mr, address, 4), EACCES);
	ck_assert_int_eq(mprotect(memory, page, PROT_READ | PROT_WRITE), 0);
	ck_assert_int_eq(write_to(mr, address, "here", 4), 0);
	ck_assert_mem_eq(memory, "here", 4);
	ck_assert_int_eq(probe(mr, address, page), 0);
	ck_assert_int_eq(probe(mr, address + page - 1, 2), EACCES);
	ck_assert_int_eq(mprotect(memory, page, PROT_READ), 0);
	ck_assert_int_eq(probe(mr, address, page), 0);
	ck_assert_int_eq(write_to(mr, address, "gone", 4), EACCES);
	ck_assert_mem_eq(memory, "here", 4);
	ck_assert_int_eq(mr_deregister(mr), 0);

	/* Others are checked when they are registered, and it is a failure if they go. */
	ck_assert_int_eq(mr_register(pd, memory, 2 * page, address, WRITE, &mr), EFAULT);
	ck_assert_int_eq(mprotect(memory, 2 * page, PROT_READ | PROT_WRITE), 0);
	mr = make_mr(memory, 2 * page, WRITE);
	ck_assert_int_eq(mprotect(memory, page, PROT_NONE), 0);
	ck_assert_int_eq(write_to(mr, address, "gone", 4), EFAULT);
	ck_assert_int_eq(mr_deregister(mr), 0);
	end();
}
END_TEST

/* The implicit region: whatever the process has, it has. */
START_TEST(the_whole_address_space)
{
	uint64_t address;
	struct mr *mr;

	begin();
	address = (uintptr_t)memory;
	ck_assert_int_eq(mr_register(pd, NULL, SIZE_MAX, 0, WRITE, &mr), EFAULT);
	ck_assert_int_eq(mr_register(pd, NULL, SIZE_MAX, page, ON_DEMAND, &mr), EINVAL);
	ck_assert_int_eq(mr_register(pd, NULL, SIZE_MAX, 0, ON_DEMAND | IBV_ACCESS_HUGETLB, &mr),
			 EINVAL);
	mr = make_mr(NULL, SIZE_MAX, ON_DEMAND | WRITE);
	ck_assert_ptr_null(mr->ibv.addr);
	ck_assert_uint_eq(mr->ibv.length, SIZE_MAX);
	ck_assert_int_eq(write_to(mr, address + page - 2, "here", 4), 0);
	ck_assert_mem_eq(memory + page - 2, "here", 4);
	ck_assert_int_eq(probe(mr, (uintptr_t)&pd, sizeof(pd)), 0);
	ck_assert_int_eq(probe(mr, 0, 1), EACCES);
	ck_assert_int_eq(munmap(memory + page, page), 0);
	ck_assert_int_eq(write_to(mr, address + page - 2, "gone", 4), EACCES);
	ck_assert_int_eq(probe(mr, address, page), 0);
	ck_assert_int_eq(mr_deregister(mr), 0);
	end();
}
END_TEST

START_TEST(windows_on_demand)
{
	struct qp qp = {.hca = &core, .number = 100};
	struct mw_bind bind;
	struct mr_pin pin;
	struct mr *mr;
	struct mw *mw;

	begin();
	pthread_mutex_init(&core.mw_bind_lock, NULL);
	qp.pd = pd;
	mr = make_mr(NULL, SIZE_MAX, ON_DEMAND | WRITE | IBV_ACCESS_MW_BIND);
	ck_assert_int_eq(mw_alloc(pd, IBV_MW_TYPE_2, &mw), 0);
	bind = (struct mw_bind){
		.window = key_number(mw->key.value),
		.region = mr->ibv.lkey,
		.addr = (uintptr_t)memory,
		.length = 2 * page,
		.access = IBV_ACCESS_REMOTE_WRITE,
	};
	ck_assert_int_eq(mw_bind(&qp, &bind), 0);
	ck_assert_int_eq(munmap(memory + page, page), 0);
	ck_assert_int_eq(mr_pin_remote(qp.pd, &qp, mw->key.value, bind.addr, 2 * page,
				       IBV_ACCESS_REMOTE_WRITE, &pin),
			 0);
	ck_assert_int_eq(mr_write(&core, &pin, pin.address, "here", 4), 0);
	ck_assert_int_eq(mr_write(&core, &pin, pin.address + page, "gone", 4), EACCES);
	mr_unpin(&core, &pin);
	mw_dealloc(mw);
	ck_assert_int_eq(mr_deregister(mr), 0);
	pthread_mutex_destroy(&core.mw_bind_lock);
	end();
}
END_TEST

START_TEST(becomes_on_demand)
{
	struct mr *mr;

	begin();
	mr = make_mr(memory, 2 * page, WRITE);
	ck_assert_int_eq(mprotect(memory, page, PROT_NONE), 0);
	ck_assert_int_eq(
		mr_reregister(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, WRITE | ON_DEMAND), 0);
	ck_assert_int_eq(write_to(mr, (uintptr_t)memory, "gone", 4), EACCES);
	ck_assert_int_eq(mr_reregister(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, WRITE),
			 IBV_REREG_MR_ERR_CMD);
	ck_assert_int_eq(errno, EFAULT);
	ck_assert_int_eq(mprotect(memory, page, PROT_READ | PROT_WRITE), 0);
	ck_assert_int_eq(mr_reregister(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, WRITE), 0);
	ck_assert_int_eq(write_to(mr, (uintptr_t)memory, "here", 4), 0);
	ck_assert_int_eq(mr_deregister(mr), 0);
	end();
}
END_TEST

static int advise(const struct mr *mr, uint64_t addr, uint32_t length,
		  enum ibv_advise_mr_advice advice)
{
	struct ibv_sge sge = {addr, length, mr->ibv.lkey};

	return odp_advise(pd, advice, &sge, 1);
}

START_TEST(prefetched)
{
	struct ibv_sge both[2];
	struct mr *mr, *all;

	begin();
	mr = make_mr(memory, 2 * page, ON_DEMAND | WRITE);
	all = make_mr(NULL, SIZE_MAX, ON_DEMAND);
	ck_assert_int_eq(advise(mr, (uintptr_t)memory, 2 * page, PREFETCH_NO_FAULT), 0);
	ck_assert(!resident(memory));
	ck_assert_int_eq(advise(mr, (uintptr_t)memory, 1, PREFETCH_WRITE), 0);
	ck_assert(resident(memory));
	ck_assert(!resident(memory + page));
	ck_assert_int_eq(mprotect(memory + page, page, PROT_READ), 0);
	ck_assert_int_eq(advise(mr, (uintptr_t)memory, 2 * page, PREFETCH), 0);
	ck_assert(resident(memory + page));
	ck_assert_int_eq(advise(mr, (uintptr_t)memory, 2 * page, PREFETCH_WRITE), EFAULT);
	for (int i = 0; i < 2; i++)
		both[i] = (struct ibv_sge){(uintptr_t)memory + i * page, page, all->ibv.lkey};
	ck_assert_int_eq(odp_advise(pd, PREFETCH, both, 2), 0);
	ck_assert_int_eq(munmap(memory + page, page), 0);
	ck_assert_int_eq(odp_advise(pd, PREFETCH, both, 2), EFAULT);
	ck_assert_int_eq(odp_advise(pd, PREFETCH_NO_FAULT, both, 2), 0);
	ck_assert_int_eq(odp_advise(pd, PREFETCH, both, 1), 0);
	both[0].addr += page;
	both[1].addr -= page;
	ck_assert_int_eq(odp_advise(pd, PREFETCH, both, 2), EFAULT);
	ck_assert_int_eq(mr_deregister(mr), 0);
	ck_assert_int_eq(mr_deregister(all), 0);
	end();
}
END_TEST

/* ibv_advise_mr(3), ERRORS. */
START_TEST(advice_that_is_refused)
{
	struct pd *other;
	uint64_t address;
	struct ibv_sge sge;
	struct mr *mr, *ordinary, *readable;
	struct mw *mw;

	begin();
	other = core_pd();
	address = (uintptr_t)memory;
	mr = make_mr(memory, 2 * page, ON_DEMAND | WRITE);
	readable = make_mr(memory, 2 * page, ON_DEMAND);
	ordinary = make_mr(memory, 2 * page, WRITE);
	ck_assert_int_eq(mw_alloc(pd, IBV_MW_TYPE_1, &mw), 0);
	sge = (struct ibv_sge){address, page, mr->ibv.lkey};

	ck_assert_int_eq(odp_advise(pd, PREFETCH_NO_FAULT + 1, &sge, 1), ENOTSUP);
	ck_assert_int_eq(odp_advise(pd, PREFETCH, &sge, 0), EINVAL);
	ck_assert_int_eq(odp_advise(other, PREFETCH, &sge, 1), EPERM);
	ck_assert_int_eq(advise(readable, address, 1, PREFETCH_WRITE), EPERM);
	ck_assert_int_eq(advise(ordinary, address, 1, PREFETCH), EINVAL);
	ck_assert_int_eq(advise(mr, address - 1, 2, PREFETCH), EFAULT);
	ck_assert_int_eq(advise(mr, address + 1, 2 * page, PREFETCH), EFAULT);
	ck_assert_int_eq(advise(mr, address + 1, 2 * page, PREFETCH_NO_FAULT), EFAULT);
	ck_assert_int_eq(advise(mr, address + 1, 2 * page - 1, PREFETCH), 0);
	sge.lkey = mw->ibv.rkey;
	ck_assert_int_eq(odp_advise(pd, PREFETCH, &sge, 1), EINVAL);
	sge.lkey = mr->ibv.lkey ^ 1;
	ck_assert_int_eq(odp_advise(pd, PREFETCH, &sge, 1), ENOENT);
	sge.lkey = key_value(KEYS_LIMIT - 1, 0);
	ck_assert_int_eq(odp_advise(pd, PREFETCH, &sge, 1), EFAULT);
	mw_dealloc(mw);
	ck_assert_int_eq(mr_deregister(mr), 0);
	ck_assert_int_eq(mr_deregister(readable), 0);
	ck_assert_int_eq(mr_deregister(ordinary), 0);
	ck_assert_int_eq(pd_dealloc(other), 0);
	end();
}
END_TEST

START_TEST(devices_without)
{
	struct mr *mr;

	begin();
	mr = make_mr(memory, page, ON_DEMAND);
	core.limits.no_odp = true;
	ck_assert_int_eq(advise(mr, (uintptr_t)memory, 1, PREFETCH), EOPNOTSUPP);
	ck_assert_int_eq(mr_deregister(mr), 0);
	ck_assert_int_eq(mr_register(pd, memory, page, (uintptr_t)memory, ON_DEMAND, &mr),
			 EOPNOTSUPP);
	ck_assert_int_eq(mr_register(pd, NULL, SIZE_MAX, 0, ON_DEMAND, &mr), EOPNOTSUPP);
	end();
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {memory_may_come_and_go,
				      the_whole_address_space,
				      windows_on_demand,
				      becomes_on_demand,
				      prefetched,
				      advice_that_is_refused,
				      devices_without,
				      NULL};

	return core_run("odp", tests);
}
