/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory regions: what may be registered, the check behind every key, SGE lists against it. */
#include <errno.h>
#include <stdio.h>

#include "net/cause/cause.h"
#include "two_pages.h"

#define WRITE IBV_ACCESS_LOCAL_WRITE
#define SIZE 8192

static int try_register(void *addr, size_t length, uint64_t iova, int access)
{
	struct mr *mr;
	int error = mr_register(pd, addr, length, iova, access, &mr);

	if (!error)
		ck_assert_int_eq(mr_deregister(mr), 0);
	return error;
}

static int pin(const struct mr *mr, uint64_t va, uint64_t length, int access, uint8_t **address)
{
	struct mr_pin pinned;
	int error = mr_pin(&core, pd, mr->ibv.rkey, va, length, access, &pinned);

	if (error)
		return error;
	if (address)
		*address = pinned.address;
	mr_unpin(&core, &pinned);
	return 0;
}

START_TEST(access_bits)
{
	static const struct {
		int access, error;
	} cases[] = {
		{0, 0},
		{IBV_ACCESS_REMOTE_READ, 0},
		{IBV_ACCESS_REMOTE_WRITE, EINVAL},
		{IBV_ACCESS_REMOTE_ATOMIC, EINVAL},
		{IBV_ACCESS_REMOTE_WRITE | WRITE, 0},
		{IBV_ACCESS_REMOTE_ATOMIC | WRITE, 0},
		{IBV_ACCESS_MW_BIND, 0},
		{IBV_ACCESS_ZERO_BASED, 0},
		{IBV_ACCESS_HUGETLB, 0},
		{IBV_ACCESS_ON_DEMAND, 0},
		{IBV_ACCESS_ON_DEMAND | IBV_ACCESS_HUGETLB | WRITE, 0},
		{IBV_ACCESS_ON_DEMAND | IBV_ACCESS_REMOTE_WRITE, EINVAL},
		{0x100, 0},	     /* FLUSH_GLOBAL */
		{0x200, EOPNOTSUPP}, /* FLUSH_PERSISTENT: the memory of this machine is none */
		{0x300, EOPNOTSUPP},
		{0x400, EINVAL},
		{1 << 19, EINVAL},
		{IBV_ACCESS_RELAXED_ORDERING, 0},
		{1 << 29, 0},
		{1 << 30, EINVAL},
		{INT32_MIN, EINVAL},
	};

	begin();
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		ck_assert_msg(try_register(memory, 100, (uintptr_t)memory, cases[i].access) ==
				      cases[i].error,
			      "access %#x", cases[i].access);
	end();
}
END_TEST

START_TEST(ranges)
{
	uint64_t address;

	begin();
	address = (uintptr_t)memory;
	ck_assert_int_eq(try_register(memory, 0, address, 0), EINVAL);
	ck_assert_int_eq(try_register(memory + 5, 0, address + 5, 0), 0);
	ck_assert_int_eq(try_register(memory, -(size_t)address, address, 0), EINVAL);
	ck_assert_int_eq(try_register(memory, SIZE_MAX, address, 0), EINVAL);
	ck_assert_int_eq(try_register(memory, -(size_t)address, 0, IBV_ACCESS_ON_DEMAND), EINVAL);
	ck_assert_int_eq(try_register(memory + 5, 10, 16 * page + 5, 0), 0);
	ck_assert_int_eq(try_register(memory + 5, 10, 16 * page + 6, 0), EINVAL);
	ck_assert_int_eq(try_register(memory + 5, 10, 6, IBV_ACCESS_ZERO_BASED), 0);
	ck_assert_int_eq(try_register(memory, page + 1, -page, 0), EINVAL);
	core.limits.device.max_mr_size = 10;
	ck_assert_int_eq(try_register(memory, 10, address, 0), 0);
	ck_assert_int_eq(try_register(memory, 11, address, 0), EINVAL);
	end();
}
END_TEST

static bool resident(void *addr)
{
	unsigned char vector;

	ck_assert_int_eq(mincore(addr, page, &vector), 0);
	return vector & 1;
}

START_TEST(memory_has_to_be_there)
{
	static const char constant[] = "read-only";
	uint64_t address;

	begin();
	address = (uintptr_t)memory;
	ck_assert_int_eq(try_register(memory, 2 * page, address, WRITE), 0);
	/* Looking at it allocated nothing. */
	ck_assert(!resident(memory));

	ck_assert_int_eq(mprotect(memory + page, page, PROT_READ), 0);
	ck_assert_int_eq(try_register(memory, 2 * page, address, 0), 0);
	ck_assert_int_eq(try_register(memory, 2 * page, address, IBV_ACCESS_REMOTE_READ), 0);
	ck_assert_int_eq(try_register(memory, 2 * page, address, WRITE), EFAULT);
	ck_assert_int_eq(try_register(memory, 2 * page, address, IBV_ACCESS_MW_BIND), EFAULT);
	ck_assert_int_eq(try_register(memory, page, address, WRITE), 0);
	ck_assert_int_eq(try_register(memory, page + 1, address, WRITE), EFAULT);

	ck_assert_int_eq(mprotect(memory + page, page, PROT_NONE), 0);
	ck_assert_int_eq(try_register(memory, 2 * page, address, 0), EFAULT);
	ck_assert_int_eq(munmap(memory + page, page), 0);
	ck_assert_int_eq(try_register(memory, 2 * page, address, 0), EFAULT);
	ck_assert_int_eq(try_register(memory + page - 1, 2, address + page - 1, 0), EFAULT);
	ck_assert_int_eq(try_register(memory + page - 1, 1, address + page - 1, 0), 0);
	ck_assert_int_eq(munmap(memory, page), 0);
	ck_assert_int_eq(try_register(memory, 1, address, 0), EFAULT);
	ck_assert_int_eq(try_register(NULL, 1, 0, 0), EFAULT);

	ck_assert_int_eq(core.host->check_memory(constant, sizeof(constant), false), 0);
	ck_assert_int_eq(core.host->check_memory(constant, sizeof(constant), true), EFAULT);
	ck_assert_int_eq(pd_dealloc(pd), 0);
}
END_TEST

static struct {
	const void *addr;
	size_t length;
	bool write;
	int answer;
} asked;

static int answer_as_told(const void *addr, size_t length, bool write)
{
	asked.addr = addr;
	asked.length = length;
	asked.write = write;
	return asked.answer;
}

static size_t large_pages(void)
{
	return 65536;
}

/* A machine with pages of 64 KiB, and with no memory here that could be touched. */
START_TEST(the_host_knows_memory_and_pages)
{
	const struct hca_host host = {.page_size = large_pages, .check_memory = answer_as_told};
	void *elsewhere = (void *)0x123450000;

	core.host = &host;
	pd = core_pd();
	asked.answer = 0;
	ck_assert_int_eq(try_register(elsewhere, 100, 0x50000, WRITE), 0);
	ck_assert_ptr_eq(asked.addr, elsewhere);
	ck_assert_uint_eq(asked.length, 100);
	ck_assert(asked.write);
	ck_assert_int_eq(try_register(elsewhere, SIZE, 0x70000, 0), 0);
	ck_assert_uint_eq(asked.length, SIZE);
	ck_assert(!asked.write);

	/* On pages of 4 KiB this offset would agree. */
	ck_assert_int_eq(try_register(elsewhere, 100, 0x51000, WRITE), EINVAL);

	asked.answer = EFAULT;
	ck_assert_int_eq(try_register(elsewhere, 100, 0x50000, WRITE), EFAULT);
	ck_assert_uint_eq(pd->users.counts[USER_MR], 0);
	ck_assert_int_eq(pd_dealloc(pd), 0);
}
END_TEST

START_TEST(every_access_is_checked)
{
	struct mr_pin pinned;
	uint64_t address;
	struct mr *mr;
	struct pd *other;
	uint8_t *found;

	begin();
	other = core_pd();
	mr = make_mr(memory + 100, 1000, WRITE | IBV_ACCESS_REMOTE_READ);
	address = (uintptr_t)memory + 100;
	ck_assert_uint_eq(mr->ibv.lkey, mr->ibv.rkey);
	ck_assert_ptr_eq(mr->ibv.addr, memory + 100);
	ck_assert_uint_eq(mr->ibv.length, 1000);

	ck_assert_int_eq(pin(mr, address, 1000, 0, &found), 0);
	ck_assert_ptr_eq(found, memory + 100);
	ck_assert_int_eq(pin(mr, address + 999, 1, WRITE | IBV_ACCESS_REMOTE_READ, &found), 0);
	ck_assert_ptr_eq(found, memory + 1099);

	ck_assert_int_eq(pin(mr, address - 1, 1, 0, NULL), EACCES);
	ck_assert_int_eq(pin(mr, address, 1001, 0, NULL), EACCES);
	ck_assert_int_eq(pin(mr, address + 1000, 1, 0, NULL), EACCES);
	ck_assert_int_eq(pin(mr, address + 500, 501, 0, NULL), EACCES);
	ck_assert_int_eq(pin(mr, address + 1, UINT64_MAX, 0, NULL), EACCES);
	ck_assert_int_eq(pin(mr, UINT64_MAX, 2, 0, NULL), EACCES);
	ck_assert_int_eq(pin(mr, 0, 1, 0, NULL), EACCES);
	ck_assert_int_eq(pin(mr, address, 1, IBV_ACCESS_REMOTE_WRITE, NULL), EACCES);
	ck_assert_int_eq(pin(mr, address, 1, WRITE | IBV_ACCESS_REMOTE_WRITE, NULL), EACCES);

	ck_assert_int_eq(mr_pin(&core, other, mr->ibv.lkey, address, 1, 0, &pinned), EACCES);
	for (int bit = 0; bit < 32; bit++)
		ck_assert_int_eq(
			mr_pin(&core, pd, mr->ibv.lkey ^ 1u << bit, address, 1, 0, &pinned),
			EACCES);
	ck_assert_int_eq(mr_deregister(mr), 0);
	pd_dealloc(other);
	end();
}
END_TEST

START_TEST(regions_by_iova_and_zero_based)
{
	struct mr *mr;
	uint8_t *found;

	begin();
	ck_assert_int_eq(mr_register(pd, memory + 3, 50, 7 * page + 3, 0, &mr), 0);
	ck_assert_int_eq(pin(mr, 7 * page + 3 + 49, 1, 0, &found), 0);
	ck_assert_ptr_eq(found, memory + 3 + 49);
	ck_assert_int_eq(pin(mr, (uintptr_t)memory + 3, 1, 0, NULL), EACCES);
	ck_assert_int_eq(mr_deregister(mr), 0);

	mr = make_mr(memory + 3, 50, IBV_ACCESS_ZERO_BASED);
	ck_assert_int_eq(pin(mr, 0, 50, 0, &found), 0);
	ck_assert_ptr_eq(found, memory + 3);
	ck_assert_int_eq(pin(mr, 1, 50, 0, NULL), EACCES);
	ck_assert_int_eq(pin(mr, UINT64_MAX, 2, 0, NULL), EACCES);
	/* One that isn't any more has its address. */
	ck_assert_int_eq(mr_reregister(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0), 0);
	ck_assert_int_eq(pin(mr, 0, 50, 0, NULL), EACCES);
	ck_assert_int_eq(pin(mr, (uintptr_t)memory + 3, 50, 0, &found), 0);
	ck_assert_ptr_eq(found, memory + 3);
	ck_assert_int_eq(mr_deregister(mr), 0);
	end();
}
END_TEST

START_TEST(regions_are_found_and_counted)
{
	struct mr *first, *second;

	begin();
	first = make_mr(memory, 100, 0);
	second = make_mr(memory, 10, 0);
	ck_assert_ptr_eq(mr_find(&core, first->handle), first);
	ck_assert_ptr_eq(mr_find(&core, second->handle), second);
	ck_assert_ptr_null(mr_find(&core, second->handle + 1));
	ck_assert_uint_eq(core_shown.regions, 2);
	ck_assert_uint_eq(core_shown.region_bytes, 110);
	ck_assert_int_eq(mr_reregister(first, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, memory, 50, 0),
			 0);
	ck_assert_uint_eq(core_shown.region_bytes, 60);
	ck_assert_int_eq(mr_deregister(first), 0);
	ck_assert_uint_eq(core_shown.region_bytes, 10);
	ck_assert_int_eq(mr_deregister(second), 0);
	end();
}
END_TEST

START_TEST(keys_die_with_their_region)
{
	struct mr_pin pinned;
	uint32_t keys[3 * (KEYS_LIMIT - KEYS_FIRST)];
	uint32_t used = sizeof(keys) / sizeof(keys[0]);

	begin();
	for (uint32_t i = 0; i < used; i++) {
		struct mr *mr = make_mr(memory, SIZE, 0);

		keys[i] = mr->ibv.lkey;
		ck_assert_int_eq(mr_deregister(mr), 0);
	}
	/* Round the table three times: the same number never has the same key. */
	for (uint32_t i = 0; i < used / 3; i++) {
		ck_assert_uint_ne(keys[i], keys[i + used / 3]);
		ck_assert_uint_ne(keys[i], keys[i + used / 3 * 2]);
		ck_assert_int_eq(mr_pin(&core, pd, keys[i], (uintptr_t)memory, 1, 0, &pinned),
				 EACCES);
	}
	end();
}
END_TEST

START_TEST(reregistration)
{
	enum {
		TRANSLATION = IBV_REREG_MR_CHANGE_TRANSLATION,
		PD = IBV_REREG_MR_CHANGE_PD,
		ACCESS = IBV_REREG_MR_CHANGE_ACCESS,
	};
	struct mr_pin pinned;
	uint64_t address;
	struct pd *other;
	struct mr *mr;
	uint32_t key;

	begin();
	other = core_pd();
	mr = make_mr(memory, 100, 0);
	address = (uintptr_t)memory;
	key = mr->ibv.lkey;
	ck_assert_int_eq(mr_reregister(mr, 8, pd, NULL, 0, 0), IBV_REREG_MR_ERR_INPUT);
	ck_assert_int_eq(mr_reregister(mr, TRANSLATION, NULL, NULL, 5, 0), IBV_REREG_MR_ERR_INPUT);
	ck_assert_int_eq(mr_reregister(mr, TRANSLATION, NULL, memory, 0, 0),
			 IBV_REREG_MR_ERR_INPUT);
	ck_assert_int_eq(mr_reregister(mr, PD, NULL, NULL, 0, 0), IBV_REREG_MR_ERR_INPUT);
	ck_assert_int_eq(mr_reregister(mr, PD, other, NULL, 0, WRITE), IBV_REREG_MR_ERR_INPUT);
	ck_assert_int_eq(mr_reregister(mr, 0, NULL, NULL, 0, 0), IBV_REREG_MR_ERR_CMD);
	ck_assert_int_eq(mr_reregister(mr, ACCESS, NULL, NULL, 0, IBV_ACCESS_REMOTE_WRITE),
			 IBV_REREG_MR_ERR_CMD);
	ck_assert_int_eq(errno, EINVAL);
	ck_assert_int_eq(pin(mr, address, 100, 0, NULL), 0);

	/* Access alone: same key, same memory. */
	ck_assert_int_eq(pin(mr, address, 1, WRITE, NULL), EACCES);
	ck_assert_int_eq(mr_reregister(mr, ACCESS, NULL, NULL, 0, WRITE), 0);
	ck_assert_uint_eq(mr->ibv.lkey, key);
	ck_assert_int_eq(pin(mr, address, 100, WRITE, NULL), 0);

	ck_assert_int_eq(mr_reregister(mr, PD, other, NULL, 0, 0), 0);
	ck_assert_uint_eq(mr->ibv.lkey, key);
	ck_assert_uint_eq(pd->users.counts[USER_MR], 0);
	ck_assert_uint_eq(other->users.counts[USER_MR], 1);
	ck_assert_int_eq(pin(mr, address, 1, 0, NULL), EACCES);
	ck_assert_int_eq(mr_pin(&core, other, key, address, 1, WRITE, &pinned), 0);
	mr_unpin(&core, &pinned);

	ck_assert_int_eq(mr_reregister(mr, TRANSLATION | PD | ACCESS, pd, memory + 200, 50,
				       IBV_ACCESS_REMOTE_READ),
			 0);
	ck_assert_uint_ne(mr->ibv.lkey, key);
	ck_assert_uint_eq(mr->ibv.lkey, mr->ibv.rkey);
	ck_assert_ptr_eq(mr->ibv.addr, memory + 200);
	ck_assert_uint_eq(mr->ibv.length, 50);
	ck_assert_int_eq(pin(mr, address + 200, 50, IBV_ACCESS_REMOTE_READ, NULL), 0);
	ck_assert_int_eq(pin(mr, address, 1, 0, NULL), EACCES);
	ck_assert_int_eq(pin(mr, address + 200, 1, WRITE, NULL), EACCES);
	ck_assert_int_eq(mr_pin(&core, pd, key, address + 200, 1, 0, &pinned), EACCES);

	/* A region whose change failed is what it was. */
	ck_assert_int_eq(mr_reregister(mr, TRANSLATION, NULL, memory, 64 * page * page, 0),
			 IBV_REREG_MR_ERR_CMD);
	ck_assert_int_eq(errno, EFAULT);
	ck_assert_int_eq(pin(mr, address + 200, 50, IBV_ACCESS_REMOTE_READ, NULL), 0);

	/* The rights that it keeps count for its new memory. */
	ck_assert_int_eq(mr_reregister(mr, ACCESS, NULL, NULL, 0, WRITE), 0);
	ck_assert_int_eq(mprotect(memory + page, page, PROT_READ), 0);
	ck_assert_int_eq(mr_reregister(mr, TRANSLATION, NULL, memory, 2 * page, 0),
			 IBV_REREG_MR_ERR_CMD);
	ck_assert_int_eq(errno, EFAULT);
	ck_assert_int_eq(mr_deregister(mr), 0);
	pd_dealloc(other);
	end();
}
END_TEST

static uint32_t refcount(const struct mr *mr)
{
	return core.keys.chunks[0][key_number(mr->ibv.lkey)].refcount;
}

/* Access after access: at most one region is pinned, and none by an access that failed. */
START_TEST(one_pin_for_many_accesses)
{
	struct mr_pin pinned = {0};
	struct mr *first, *second;

	begin();
	first = make_mr(memory, 1000, WRITE);
	second = make_mr(memory + 1000, 1000, WRITE);
	for (uint32_t i = 0; i < 10; i++) {
		ck_assert_ptr_eq(mr_repin(&core, &pinned, pd, NULL, first->ibv.lkey,
					  (uintptr_t)memory + i, 8, WRITE),
				 memory + i);
		ck_assert_uint_eq(refcount(first), 1);
	}
	ck_assert_ptr_eq(mr_repin(&core, &pinned, pd, NULL, second->ibv.lkey,
				  (uintptr_t)memory + 1000, 8, WRITE),
			 memory + 1000);
	ck_assert_uint_eq(refcount(first), 0);
	ck_assert_uint_eq(refcount(second), 1);
	/* One byte too many. */
	ck_assert_ptr_null(mr_repin(&core, &pinned, pd, NULL, second->ibv.lkey,
				    (uintptr_t)memory + 1000, 1001, WRITE));
	ck_assert_ptr_null(pinned.key);
	ck_assert_uint_eq(refcount(second), 0);
	ck_assert_int_eq(mr_deregister(first), 0);
	ck_assert_int_eq(mr_deregister(second), 0);
	end();
}
END_TEST

START_TEST(lists_against_regions)
{
	struct ibv_sge sges[32];
	struct mr *mr, *readable;
	struct mr_pin pin = {0};
	uint8_t data[32];

	begin();
	for (int i = 0; i < 32; i++)
		data[i] = i + 1;
	mr = make_mr(memory, 1000, WRITE);
	readable = make_mr(memory, 1000, 0);
	/* Bytes 0, 10, 20 ...; each odd entry is empty and names nothing. */
	for (int i = 0; i < 32; i++)
		sges[i] = (struct ibv_sge){(uintptr_t)memory + i * 5, i % 2 ? 0 : 2,
					   i % 2 ? 12345 : mr->ibv.lkey};
	ck_assert_uint_eq(sge_total(sges, 32), 32);
	ck_assert_int_eq(sge_check(&core, pd, sges, 32, WRITE), 0);
	ck_assert_int_eq(sge_scatter(&core, pd, sges, 32, 0, data, 3, &pin), 0);
	ck_assert_int_eq(sge_scatter(&core, pd, sges, 32, 3, data + 3, 29, &pin), 0);
	for (int i = 0; i < 160; i++)
		ck_assert_uint_eq(memory[i], i % 10 < 2 ? i / 10 * 2 + i % 10 + 1 : 0);

	sges[30].lkey = readable->ibv.lkey;
	ck_assert_int_eq(sge_check(&core, pd, sges, 32, 0), 0);
	ck_assert_int_eq(sge_check(&core, pd, sges, 32, WRITE), EACCES);
	ck_assert_int_eq(sge_scatter(&core, pd, sges, 32, 30, data, 2, &pin), EACCES);
	ck_assert_int_eq(sge_scatter(&core, pd, sges, 32, 28, data, 2, &pin), 0);
	mr_unpin(&core, &pin);
	sges[0].length = 1001;
	ck_assert_int_eq(sge_check(&core, pd, sges, 1, 0), EACCES);
	sges[0] = sges[1] = sges[2] = (struct ibv_sge){.length = UINT32_MAX};
	ck_assert_uint_eq(sge_total(sges, 3), 3 * (uint64_t)UINT32_MAX);
	ck_assert_int_eq(mr_deregister(mr), 0);
	ck_assert_int_eq(mr_deregister(readable), 0);
	end();
}
END_TEST

static _Atomic bool stop;
static _Atomic uint32_t current_key;
static _Atomic unsigned int met;

static void *stress_access(void *unused)
{
	struct mr_pin pinned;

	while (!stop) {
		if (mr_pin(&core, pd, current_key, (uintptr_t)memory, 8, WRITE, &pinned))
			continue;
		((_Atomic uint64_t *)pinned.address)[0]++;
		met++;
		mr_unpin(&core, &pinned);
	}
	return NULL;
}

/* Memory may be unmapped as soon as its region is gone, whatever thread was accessing it. */
START_TEST(deregistration_waits_for_pins)
{
	pthread_t threads[2];
	struct mr *mr;

	begin();
	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, stress_access, NULL);
	for (int i = 0; i < 1000 || !met; i++) {
		ck_assert_int_eq(mprotect(memory, page, PROT_READ | PROT_WRITE), 0);
		mr = make_mr(memory, 100, WRITE);
		current_key = mr->ibv.lkey;
		sched_yield();
		if (i % 2)
			ck_assert_int_eq(mr_reregister(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL,
						       0, WRITE | IBV_ACCESS_REMOTE_READ),
					 0);
		ck_assert_int_eq(mr_deregister(mr), 0);
		ck_assert_int_eq(mprotect(memory, page, PROT_NONE), 0);
	}
	stop = true;
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	end();
}
END_TEST

/* What had a key is known for as long as there aren't too many since. */
START_TEST(a_former_key_is_explained)
{
	char text[FORMER_KEY_TEXT], expected[FORMER_KEY_TEXT];
	struct mr *mr;
	uint32_t key;

	begin();
	mr = make_mr(memory, SIZE, WRITE);
	key = mr->ibv.lkey;
	ck_assert_int_eq(mr_deregister(mr), 0);
	ck_assert(!former_keys_describe(&core.former_keys, key, text));
	cause_configure(true);
	mr = make_mr(memory, SIZE, WRITE);
	key = mr->ibv.lkey;
	ck_assert(!former_keys_describe(&core.former_keys, key, text));
	ck_assert_int_eq(mr_deregister(mr), 0);
	ck_assert(former_keys_describe(&core.former_keys, key, text));
	snprintf(expected, sizeof(expected), "a region of %d bytes at %p, registered at ", SIZE,
		 (void *)memory);
	ck_assert_msg(strncmp(text, expected, strlen(expected)) == 0, "%s", text);
	ck_assert_msg(strstr(text, ", deregistered at "), "%s", text);
	for (unsigned int i = 0; i < FORMER_KEYS - 1; i++)
		ck_assert_int_eq(try_register(memory, page, (uintptr_t)memory, WRITE), 0);
	ck_assert(former_keys_describe(&core.former_keys, key, text));
	ck_assert_int_eq(try_register(memory, page, (uintptr_t)memory, WRITE), 0);
	ck_assert(!former_keys_describe(&core.former_keys, key, text));
	ck_assert_str_eq(text, "");
	end();
}
END_TEST

START_TEST(a_new_translation_leaves_a_former_key)
{
	char text[FORMER_KEY_TEXT];
	struct mr *mr;
	uint32_t key;

	begin();
	cause_configure(true);
	mr = make_mr(memory, page, WRITE);
	key = mr->ibv.lkey;
	ck_assert_int_eq(mr_reregister(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0), 0);
	ck_assert(!former_keys_describe(&core.former_keys, key, text));
	ck_assert_int_eq(
		mr_reregister(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, memory, 2 * page, 0), 0);
	ck_assert(former_keys_describe(&core.former_keys, key, text));
	ck_assert(!former_keys_describe(&core.former_keys, mr->ibv.lkey, text));
	ck_assert_int_eq(mr_deregister(mr), 0);
	end();
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {access_bits,
				      ranges,
				      memory_has_to_be_there,
				      the_host_knows_memory_and_pages,
				      every_access_is_checked,
				      regions_by_iova_and_zero_based,
				      regions_are_found_and_counted,
				      keys_die_with_their_region,
				      reregistration,
				      one_pin_for_many_accesses,
				      lists_against_regions,
				      deregistration_waits_for_pins,
				      a_former_key_is_explained,
				      a_new_translation_leaves_a_former_key,
				      NULL};

	return core_run("mr", tests);
}
