/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory windows: what a bind and an invalidation demand, and what a bound window lets through. */
#include <errno.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core.h"
#include "emu/objects/mr.h"
#include "emu/objects/mw.h"
#include "emu/objects/qp.h"
#include "net/newer_verbs.h"
#include "tests/run_suite.h"

#define REMOTE_READ IBV_ACCESS_REMOTE_READ
#define REMOTE_WRITE IBV_ACCESS_REMOTE_WRITE
#define REMOTE_ATOMIC IBV_ACCESS_REMOTE_ATOMIC
#define BINDABLE (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND)
#define LENGTH 1000

static struct pd *pd, *other_pd;
static struct qp qp, other_qp, foreign_qp; /* the last one of other_pd */
static uint8_t *memory;			   /* one page, the region in it */
static uint64_t va;
static size_t page;
static struct mr *mr;

static struct mr *make_mr(struct pd *of, void *addr, int access)
{
	struct mr *made;

	ck_assert_int_eq(mr_register(of, addr, LENGTH, (uintptr_t)addr, access, &made), 0);
	return made;
}

static struct mw *make_mw(enum ibv_mw_type type)
{
	struct mw *mw;

	ck_assert_int_eq(mw_alloc(pd, type, &mw), 0);
	return mw;
}

static void begin(void)
{
	page = sysconf(_SC_PAGESIZE);
	pthread_mutex_init(&core.mw_bind_lock, NULL);
	pd = core_pd();
	other_pd = core_pd();
	qp = (struct qp){.hca = &core, .pd = pd, .number = 100, .handle = 100};
	other_qp = (struct qp){.hca = &core, .pd = pd, .number = 101, .handle = 101};
	foreign_qp = (struct qp){.hca = &core, .pd = other_pd, .number = 102, .handle = 102};
	memory = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(memory, MAP_FAILED);
	va = (uintptr_t)memory;
	mr = make_mr(pd, memory, BINDABLE);
}

static void end(void)
{
	ck_assert_int_eq(mr_deregister(mr), 0);
	ck_assert_int_eq(pd_dealloc(pd), 0);
	ck_assert_int_eq(pd_dealloc(other_pd), 0);
	ck_assert_uint_eq(core.keys.count, 0);
	ck_assert_uint_eq(core.mr_count, 0);
	ck_assert_uint_eq(core.mw_count, 0);
	munmap(memory, page);
	pthread_mutex_destroy(&core.mw_bind_lock);
}

/* The next key of @mw, to a part of the region. */
static struct mw_bind bind_to(const struct mw *mw, uint64_t offset, uint64_t length, int access)
{
	return (struct mw_bind){
		.window = key_number(mw->key.value),
		.rkey = ibv_inc_rkey(mw->key.value),
		.region = length ? mr->ibv.lkey : 0,
		.addr = length ? va + offset : 0,
		.length = length,
		.access = access,
	};
}

/* Returns the new key, or 0 when it was refused. */
static uint32_t bind_part(struct qp *by, const struct mw *mw, uint64_t offset, uint64_t length,
			  int access)
{
	struct mw_bind request = bind_to(mw, offset, length, access);

	return mw_bind(by, &request) == 0 ? request.rkey : 0;
}

static int reach(const struct qp *by, uint32_t rkey, uint64_t at, uint64_t length, int access,
		 uint8_t **address)
{
	struct mr_pin pin;
	int error = mr_pin_remote(by->pd, by, rkey, at, length, access, &pin);

	if (error)
		return error;
	if (address)
		*address = pin.address;
	mr_unpin(&core, &pin);
	return 0;
}

#define ck_reaches(by, rkey, at, length, access)                                                   \
	ck_assert_int_eq(reach(by, rkey, at, length, access, NULL), 0)
#define ck_refused(by, rkey, at, length, access)                                                   \
	ck_assert_int_eq(reach(by, rkey, at, length, access, NULL), EACCES)

START_TEST(allocated_unbound)
{
	struct mw *one, *two;

	begin();
	ck_assert_int_eq(mw_alloc(pd, 0, &one), EINVAL);
	ck_assert_int_eq(mw_alloc(pd, 3, &one), EINVAL);
	ck_assert_uint_eq(pd->users.counts[USER_MW], 0);
	one = make_mw(IBV_MW_TYPE_1);
	two = make_mw(IBV_MW_TYPE_2);
	ck_assert_int_eq(one->ibv.type, IBV_MW_TYPE_1);
	ck_assert_int_eq(two->ibv.type, IBV_MW_TYPE_2);
	ck_assert_uint_ne(one->ibv.rkey >> 8, two->ibv.rkey >> 8);
	ck_assert_uint_ne(one->ibv.rkey >> 8, mr->ibv.rkey >> 8);
	ck_assert_int_eq(pd_dealloc(pd), EBUSY);
	ck_refused(&qp, one->ibv.rkey, 0, 1, 0);
	ck_refused(&qp, two->ibv.rkey, 0, 1, 0);
	ck_assert_int_eq(mw_invalidate(&qp, two->ibv.rkey), EINVAL);
	mw_dealloc(one);
	mw_dealloc(two);
	end();
}
END_TEST

/* Windows and regions share the keys. */
START_TEST(no_keys_left)
{
	static struct mw *windows[KEYS_LIMIT];
	struct mw *more;
	struct mr *region;
	int count = 0;

	begin();
	while (mw_alloc(pd, IBV_MW_TYPE_1, &windows[count]) == 0)
		count++;
	ck_assert_int_eq(count, KEYS_LIMIT - KEYS_FIRST - 1);
	ck_assert_int_eq(mw_alloc(pd, IBV_MW_TYPE_1, &more), ENOMEM);
	ck_assert_int_eq(mr_register(pd, memory, LENGTH, va, 0, &region), ENOMEM);
	ck_assert_uint_eq(pd->users.counts[USER_MW], count);
	while (count--)
		mw_dealloc(windows[count]);
	end();
}
END_TEST

START_TEST(type_1_is_bound_again_and_again)
{
	struct mw *mw;
	uint32_t first, second;
	uint8_t *found;

	begin();
	mw = make_mw(IBV_MW_TYPE_1);
	first = bind_part(&qp, mw, 100, 50, REMOTE_READ);
	ck_assert_uint_ne(first, 0);
	ck_assert_uint_ne(first, mw->ibv.rkey);
	ck_assert_int_eq(reach(&qp, first, va + 100, 50, REMOTE_READ, &found), 0);
	ck_assert_ptr_eq(found, memory + 100);
	/* Any QP of the protection domain may use it. */
	ck_reaches(&other_qp, first, va + 100, 50, REMOTE_READ);
	ck_refused(&foreign_qp, first, va + 100, 50, REMOTE_READ);

	second = bind_part(&other_qp, mw, 200, 10, REMOTE_WRITE);
	ck_assert_uint_ne(second, 0);
	ck_assert_uint_ne(first, second);
	ck_refused(&qp, first, va + 100, 1, 0);
	ck_refused(&qp, first, va + 200, 1, 0);
	ck_refused(&qp, second, va + 100, 1, 0);
	ck_reaches(&qp, second, va + 200, 10, REMOTE_WRITE);
	ck_assert_uint_eq(mr->windows, 1);

	/* o10-37.2.26: neither peer nor LOCAL_INV take it back, length 0 does. */
	ck_assert_int_eq(mw_invalidate(&qp, second), EINVAL);
	ck_reaches(&qp, second, va + 200, 10, REMOTE_WRITE);
	ck_assert_uint_ne(bind_part(&qp, mw, 0, 0, 0), 0);
	ck_assert_uint_eq(mr->windows, 0);
	ck_refused(&qp, second, va + 200, 1, 0);
	ck_refused(&qp, mw->key.value, va + 200, 1, 0);
	ck_refused(&qp, mw->key.value, 0, 0, 0);
	ck_assert_uint_ne(bind_part(&qp, mw, 0, 0, 0), 0);
	first = bind_part(&qp, mw, 0, LENGTH, REMOTE_ATOMIC);
	ck_reaches(&qp, first, va, LENGTH, REMOTE_ATOMIC);
	mw_dealloc(mw);
	end();
}
END_TEST

START_TEST(type_2_is_invalidated_first)
{
	struct mw *mw;
	uint32_t rkey;

	begin();
	mw = make_mw(IBV_MW_TYPE_2);
	ck_assert_uint_eq(bind_part(&qp, mw, 0, 0, 0), 0); /* o10-37.2.40 */
	rkey = bind_part(&qp, mw, 100, 50, REMOTE_READ);
	ck_assert_uint_ne(rkey, 0);
	ck_reaches(&qp, rkey, va + 100, 50, REMOTE_READ);
	/* It is the binding QP's alone. */
	ck_refused(&other_qp, rkey, va + 100, 50, REMOTE_READ);
	ck_refused(&foreign_qp, rkey, va + 100, 50, REMOTE_READ);

	ck_assert_uint_eq(bind_part(&qp, mw, 0, 10, REMOTE_READ), 0);
	ck_assert_uint_eq(bind_part(&other_qp, mw, 0, 10, REMOTE_READ), 0);
	ck_assert_uint_eq(bind_part(&qp, mw, 0, 0, 0), 0);
	ck_reaches(&qp, rkey, va + 100, 50, REMOTE_READ);
	ck_assert_uint_eq(mr->windows, 1);

	ck_assert_int_eq(mw_invalidate(&other_qp, rkey), EINVAL);
	ck_assert_int_eq(mw_invalidate(&foreign_qp, rkey), EINVAL);
	/* Nor is it one's that got the number of the binding QP in another domain. */
	foreign_qp.number = qp.number;
	foreign_qp.handle = qp.handle;
	ck_assert_int_eq(mw_invalidate(&foreign_qp, rkey), EINVAL);
	for (int bit = 0; bit < 32; bit++)
		ck_assert_int_eq(mw_invalidate(&qp, rkey ^ 1u << bit), EINVAL);
	ck_reaches(&qp, rkey, va + 100, 50, REMOTE_READ);
	ck_assert_int_eq(mw_invalidate(&qp, rkey), 0);
	ck_assert_uint_eq(mr->windows, 0);
	ck_refused(&qp, rkey, va + 100, 1, 0);
	ck_assert_int_eq(mw_invalidate(&qp, rkey), EINVAL);

	/* Free, it may be bound by any QP. */
	rkey = bind_part(&other_qp, mw, 0, 10, REMOTE_READ);
	ck_reaches(&other_qp, rkey, va, 10, REMOTE_READ);
	ck_refused(&qp, rkey, va, 10, REMOTE_READ);
	mw_dealloc(mw);
	end();
}
END_TEST

START_TEST(regions_are_not_invalidated)
{
	begin();
	ck_assert_int_eq(mw_invalidate(&qp, mr->ibv.rkey), EINVAL);
	ck_assert_int_eq(mw_invalidate(&qp, 0), EINVAL);
	ck_assert_int_eq(mw_invalidate(&qp, UINT32_MAX), EINVAL);
	ck_reaches(&qp, mr->ibv.rkey, va, LENGTH, 0);
	end();
}
END_TEST

/* Every reason for MW_BIND_ERR (IBA 10.6.7); the window is afterwards what it was. */
struct refusal {
	const char *what;
	struct mw_bind bind;
	struct qp *by;
};

static void check_refusals(struct mw *mw, const struct refusal *refusals, size_t count)
{
	uint32_t before = mw->key.value;

	for (size_t i = 0; i < count; i++) {
		ck_assert_msg(mw_bind(refusals[i].by, &refusals[i].bind) == EINVAL, "%s",
			      refusals[i].what);
		ck_assert_uint_eq(mw->key.value, before);
		ck_assert_uint_eq(mr->windows, mw->key.valid);
	}
}

#define ALTERED(field, to)                                                                         \
	({                                                                                         \
		struct mw_bind altered = good;                                                     \
		altered.field = to;                                                                \
		altered;                                                                           \
	})

START_TEST(refused_binds)
{
	enum ibv_mw_type type = _i;
	struct mr *unbindable, *unwritable, *foreign, *zero_based;
	struct mw *mw, *gone;
	struct mw_bind good;
	uint32_t rkey;

	begin();
	unbindable = make_mr(pd, memory, IBV_ACCESS_LOCAL_WRITE);
	unwritable = make_mr(pd, memory, IBV_ACCESS_MW_BIND);
	foreign = make_mr(other_pd, memory, BINDABLE);
	zero_based = make_mr(pd, memory, BINDABLE | IBV_ACCESS_ZERO_BASED);
	mw = make_mw(type);
	gone = make_mw(type);
	good = bind_to(mw, 10, 20, REMOTE_READ);
	struct refusal refusals[] = {
		{"no such window", ALTERED(window, key_number(mr->ibv.rkey)), &qp},
		{"not a number", ALTERED(window, UINT32_MAX), &qp},
		{"a window that is gone", bind_to(gone, 10, 20, REMOTE_READ), &qp},
		{"domain of the QP", good, &foreign_qp},
		{"domain of the window", ALTERED(region, foreign->ibv.lkey), &foreign_qp},
		{"no region", ALTERED(region, 0), &qp},
		{"no such region", ALTERED(region, mr->ibv.lkey ^ 1), &qp},
		{"a window is no region", ALTERED(region, mw->key.value), &qp},
		{"domain of the region", ALTERED(region, foreign->ibv.lkey), &qp},
		{"region without MW_BIND", ALTERED(region, unbindable->ibv.lkey), &qp},
		{"before the region", ALTERED(addr, va - 1), &qp},
		{"behind the region", ALTERED(addr, va + LENGTH - 19), &qp},
		{"far behind", ALTERED(addr, va + 2 * LENGTH), &qp},
		{"longer than the region", ALTERED(length, LENGTH + 1), &qp},
		{"longer than the rest", ALTERED(length, LENGTH - 9), &qp},
		{"wraps around", ALTERED(length, -va), &qp},
		{"as long as can be", ALTERED(length, UINT64_MAX), &qp},
		{"rights that a window hasn't", ALTERED(access, IBV_ACCESS_ON_DEMAND), &qp},
		{"persistence", ALTERED(access, ACCESS_FLUSH_PERSISTENT), &qp},
	};
	size_t count = sizeof(refusals) / sizeof(refusals[0]);

	mw_dealloc(gone);
	check_refusals(mw, refusals, count);
	good.region = zero_based->ibv.lkey;
	good.addr = 10;
	ck_assert_int_eq(mw_bind(&qp, &good), EINVAL);
	good.addr = va + 10;
	/* What may only be read isn't written through a window. */
	good.region = unwritable->ibv.lkey;
	for (int access = 0; access < 8; access++) {
		static const int rights[] = {REMOTE_WRITE, REMOTE_ATOMIC, REMOTE_READ};
		struct mw_bind by_rights = good;
		struct mw *tried = make_mw(type);

		by_rights.window = key_number(tried->key.value);
		by_rights.rkey = ibv_inc_rkey(tried->key.value);
		by_rights.access = 0;
		for (int i = 0; i < 3; i++)
			by_rights.access |= access & 1 << i ? rights[i] : 0;
		ck_assert_int_eq(mw_bind(&qp, &by_rights), access & 3 ? EINVAL : 0);
		mw_dealloc(tried);
	}
	/* Bound, it is left alone by all that is refused. */
	rkey = bind_part(&qp, mw, 10, 20, REMOTE_READ);
	ck_assert_uint_ne(rkey, 0);
	for (size_t i = 0; i < count; i++)
		if (key_number(refusals[i].bind.rkey) == key_number(rkey))
			refusals[i].bind.rkey = ibv_inc_rkey(rkey);
	check_refusals(mw, refusals, count);
	ck_reaches(&qp, rkey, va + 10, 20, REMOTE_READ);
	mw_dealloc(mw);
	ck_assert_int_eq(mr_deregister(unbindable), 0);
	ck_assert_int_eq(mr_deregister(unwritable), 0);
	ck_assert_int_eq(mr_deregister(foreign), 0);
	ck_assert_int_eq(mr_deregister(zero_based), 0);
	end();
}
END_TEST

/* As mlx5 and rxe take it: the rest of the key is the window's own number. */
START_TEST(low_bits_of_the_key_count)
{
	struct mw_bind bind;
	uint32_t number, key;
	struct mw *mw;

	begin();
	mw = make_mw(IBV_MW_TYPE_2);
	number = key_number(mw->key.value);
	bind = bind_to(mw, 10, 20, REMOTE_READ);
	bind.rkey = mr->ibv.rkey + 0x12345678;
	ck_assert_int_eq(mw_bind(&qp, &bind), 0);
	key = number << 8 | (bind.rkey & 0xff);
	ck_reaches(&qp, key, va + 10, 20, REMOTE_READ);
	ck_assert_int_eq(mw_invalidate(&qp, bind.rkey), EINVAL);
	ck_assert_int_eq(mw_invalidate(&qp, key), 0);
	mw_dealloc(mw);
	end();
}
END_TEST

/* They are no rights of a remote peer, which gets what the rest says. */
START_TEST(local_rights_mean_nothing)
{
	enum ibv_mw_type type = _i;
	struct mw_bind bind;
	struct mw *mw;

	begin();
	mw = make_mw(type);
	bind = bind_to(mw, 10, 20, REMOTE_READ | IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	ck_assert_int_eq(mw_bind(&qp, &bind), 0);
	ck_reaches(&qp, bind.rkey, va + 10, 20, REMOTE_READ);
	ck_refused(&qp, bind.rkey, va + 10, 20, REMOTE_WRITE);
	ck_refused(&qp, bind.rkey, va + 10, 20, IBV_ACCESS_LOCAL_WRITE);
	mw_dealloc(mw);
	end();
}
END_TEST

START_TEST(zero_based)
{
	struct mw *one, *two;
	uint8_t *found;
	uint32_t rkey;

	begin();
	one = make_mw(IBV_MW_TYPE_1);
	two = make_mw(IBV_MW_TYPE_2);
	ck_assert_uint_eq(bind_part(&qp, one, 8, 16, REMOTE_READ | IBV_ACCESS_ZERO_BASED), 0);
	rkey = bind_part(&qp, two, 8, 16, REMOTE_READ | IBV_ACCESS_ZERO_BASED);
	ck_assert_uint_ne(rkey, 0);
	ck_assert_int_eq(reach(&qp, rkey, 0, 16, REMOTE_READ, &found), 0);
	ck_assert_ptr_eq(found, memory + 8);
	ck_assert_int_eq(reach(&qp, rkey, 15, 1, REMOTE_READ, &found), 0);
	ck_assert_ptr_eq(found, memory + 23);
	ck_refused(&qp, rkey, 16, 1, 0);
	ck_refused(&qp, rkey, 0, 17, 0);
	ck_refused(&qp, rkey, UINT64_MAX, 2, 0);
	ck_refused(&qp, rkey, va + 8, 1, 0);
	mw_dealloc(one);
	mw_dealloc(two);
	end();
}
END_TEST

/* Of a region named by an iova the window takes its addresses from there. */
START_TEST(windows_of_an_iova)
{
	struct mw *mw;
	struct mr *far;
	struct mw_bind request;
	uint8_t *found;

	begin();
	ck_assert_int_eq(mr_register(pd, memory, LENGTH, 16 * page, BINDABLE, &far), 0);
	mw = make_mw(IBV_MW_TYPE_2);
	request = bind_to(mw, 0, 10, REMOTE_WRITE);
	request.region = far->ibv.lkey;
	ck_assert_int_eq(mw_bind(&qp, &request), EINVAL);
	request.addr = 16 * page + 90;
	ck_assert_int_eq(mw_bind(&qp, &request), 0);
	ck_assert_int_eq(reach(&qp, request.rkey, 16 * page + 91, 9, REMOTE_WRITE, &found), 0);
	ck_assert_ptr_eq(found, memory + 91);
	ck_refused(&qp, request.rkey, va + 90, 1, 0);
	mw_dealloc(mw);
	ck_assert_int_eq(mr_deregister(far), 0);
	end();
}
END_TEST

START_TEST(every_access_is_checked)
{
	static const int rights[] = {REMOTE_READ, REMOTE_WRITE, REMOTE_ATOMIC};
	struct mr_pin pin;
	struct mw *mw;

	begin();
	mw = make_mw(IBV_MW_TYPE_1);
	/* The window's own rights count: the region has none of them. */
	for (int given = 0; given < 8; given++) {
		int access = (given & 1 ? REMOTE_READ : 0) | (given & 2 ? REMOTE_WRITE : 0) |
			     (given & 4 ? REMOTE_ATOMIC : 0);
		uint32_t rkey = bind_part(&qp, mw, 8, 64, access);

		ck_assert_uint_ne(rkey, 0);
		for (int i = 0; i < 3; i++)
			ck_assert_int_eq(reach(&qp, rkey, va + 8, 64, rights[i], NULL),
					 given & 1 << i ? 0 : EACCES);
		ck_refused(&qp, rkey, va + 7, 1, 0);
		ck_refused(&qp, rkey, va + 8, 65, 0);
		ck_refused(&qp, rkey, va + 72, 1, 0);
		ck_refused(&qp, rkey, va + 9, UINT64_MAX, 0);
		ck_reaches(&qp, rkey, va + 71, 1, 0);
		/* It is a remote key only: IBA 10.6.7. */
		ck_assert_int_eq(mr_pin(&core, pd, rkey, va + 8, 1, 0, &pin), EACCES);
	}
	mw_dealloc(mw);
	end();
}
END_TEST

START_TEST(regions_are_busy_while_bound)
{
	struct mw *mw, *second;
	struct mr *elsewhere;
	struct mw_bind request;
	uint32_t key, rkey;

	begin();
	key = mr->ibv.lkey;
	elsewhere = make_mr(pd, memory, BINDABLE);
	mw = make_mw(IBV_MW_TYPE_1);
	second = make_mw(IBV_MW_TYPE_2);
	rkey = bind_part(&qp, mw, 0, 10, REMOTE_READ);
	ck_assert_uint_ne(bind_part(&qp, second, 0, 10, REMOTE_READ), 0);
	ck_assert_uint_eq(mr->windows, 2);
	ck_assert_int_eq(mr_deregister(mr), EBUSY);
	for (int flags = 1; flags < 8; flags++) {
		errno = 0;
		ck_assert_int_eq(mr_reregister(mr, flags, pd, memory, LENGTH,
					       flags & IBV_REREG_MR_CHANGE_ACCESS ? BINDABLE : 0),
				 IBV_REREG_MR_ERR_CMD);
		ck_assert_int_eq(errno, EBUSY);
	}
	ck_assert_uint_eq(mr->ibv.lkey, key);
	ck_reaches(&qp, key, va, LENGTH, 0);
	ck_reaches(&qp, rkey, va, 10, REMOTE_READ);

	/* A window that moves on leaves its region. */
	request = bind_to(mw, 0, 10, REMOTE_READ);
	request.region = elsewhere->ibv.lkey;
	ck_assert_int_eq(mw_bind(&qp, &request), 0);
	ck_assert_uint_eq(mr->windows, 1);
	ck_assert_uint_eq(elsewhere->windows, 1);
	ck_assert_int_eq(mr_deregister(elsewhere), EBUSY);
	ck_assert_int_eq(mr_deregister(mr), EBUSY);
	/* Deallocating a bound window takes it back. */
	mw_dealloc(second);
	ck_assert_uint_eq(mr->windows, 0);
	mw_dealloc(mw);
	ck_refused(&qp, request.rkey, va, 1, 0);
	ck_assert_int_eq(mr_deregister(elsewhere), 0);
	end();
}
END_TEST

/* --- with threads ----------------------------------------------------------------- */

#define REACHERS 2

static _Atomic bool stop;
static _Atomic uint32_t current_key;
static _Atomic unsigned int met;

static void *keep_writing(void *arg)
{
	struct qp by = {.hca = &core, .pd = pd, .number = 100, .handle = 100};
	struct mr_pin pin;

	while (!stop) {
		if (mr_pin_remote(by.pd, &by, current_key, va + 64, 8, REMOTE_WRITE, &pin))
			continue;
		for (int i = 0; i < 10; i++) /* let it be taken back now */
			sched_yield();
		atomic_fetch_add((_Atomic uint64_t *)pin.address, 1);
		met++;
		mr_unpin(&core, &pin);
	}
	return NULL;
}

/* Deregistering doesn't take the region from its users only to find that it is busy. */
static void *keep_deregistering(void *arg)
{
	while (!stop) {
		if (mr_deregister(mr) != EBUSY)
			abort();
		met++;
	}
	return NULL;
}

START_TEST(busy_regions_stay_usable)
{
	pthread_t thread;
	struct mw *mw;

	begin();
	mw = make_mw(IBV_MW_TYPE_1);
	ck_assert_uint_ne(bind_part(&qp, mw, 0, 10, REMOTE_READ), 0);
	pthread_create(&thread, NULL, keep_deregistering, NULL);
	for (int i = 0; i < 200000 || met < 10000; i++)
		if (reach(&qp, mr->ibv.rkey, va, LENGTH, 0, NULL) != 0)
			ck_abort_msg("refused in round %d", i);
	stop = true;
	pthread_join(thread, NULL);
	mw_dealloc(mw);
	end();
}
END_TEST

/*
 * Once a window is taken back, whichever way, its memory may go: no thread is in
 * it any more. It is really taken away here.
 */
START_TEST(taking_back_waits_for_pins)
{
	static const enum ibv_mw_type types[] = {IBV_MW_TYPE_1, IBV_MW_TYPE_2, IBV_MW_TYPE_1};
	pthread_t threads[REACHERS];
	struct mw *windows[3];

	begin();
	ck_assert_int_eq(mr_deregister(mr), 0);
	for (int i = 0; i < 2; i++)
		windows[i] = make_mw(types[i]);
	for (int i = 0; i < REACHERS; i++)
		pthread_create(&threads[i], NULL, keep_writing, NULL);
	for (int i = 0; i < 300 || met < 100; i++) {
		int way = i % 3;

		ck_assert_int_eq(mprotect(memory, page, PROT_READ | PROT_WRITE), 0);
		mr = make_mr(pd, memory, BINDABLE);
		if (way == 2)
			windows[2] = make_mw(types[2]);
		current_key = bind_part(&qp, windows[way], 64, 8, REMOTE_WRITE);
		if (!current_key)
			ck_abort_msg("round %d", i);
		sched_yield();
		if (way == 0)
			bind_part(&qp, windows[0], 0, 0, 0);
		else if (way == 1 && mw_invalidate(&qp, current_key) != 0)
			ck_abort_msg("not invalidated in round %d", i);
		else if (way == 2)
			mw_dealloc(windows[2]);
		if (mr_deregister(mr) != 0)
			ck_abort_msg("still bound in round %d", i);
		if (mprotect(memory, page, PROT_NONE) != 0)
			ck_abort();
	}
	stop = true;
	for (int i = 0; i < REACHERS; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < 2; i++)
		mw_dealloc(windows[i]);
	ck_assert_int_eq(mprotect(memory, page, PROT_READ | PROT_WRITE), 0);
	mr = make_mr(pd, memory, BINDABLE);
	end();
}
END_TEST

/* One window of each type that every thread binds, takes back and uses, on QPs of their own. */
static struct mw *contested[2];
static uint32_t contested_numbers[2];
static _Atomic unsigned int bound;

static void *contend(void *arg)
{
	struct qp by = {.hca = &core, .pd = pd, .handle = 200 + (uintptr_t)arg};

	for (uint32_t i = 0; i < 20000; i++) {
		uint32_t number = contested_numbers[i % 2],
			 key = number << MR_KEY_BITS | (i / 2 & 0xff);
		struct mw_bind request = {
			.window = number,
			.rkey = key,
			.region = mr->ibv.lkey,
			.addr = va + 64,
			.length = 8,
			.access = REMOTE_WRITE,
		};

		if (mw_bind(&by, &request) == 0)
			bound++;
		reach(&by, key, va + 64, 8, REMOTE_WRITE, NULL);
		mw_invalidate(&by, key);
	}
	return NULL;
}

/* The region is being withdrawn: it is bound before the reference to it goes. */
static void bind_meanwhile(void)
{
	atomic_fetch_add(&mr->windows, 1);
	table_put(&core.keys, key_number(mr->key.value));
}

/* So it can't be found out before that whether a window is bound to it. */
START_TEST(bound_meanwhile)
{
	static const struct hca_host host = {.yield = bind_meanwhile};
	const struct hca_host *before = core.keys.host;

	begin();
	core.keys.host = &host;
	for (int i = 0; i < 2; i++) {
		ck_assert_ptr_nonnull(table_get(&core.keys, key_number(mr->key.value)));
		if (i) {
			ck_assert_int_eq(mr_reregister(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL,
						       0, IBV_ACCESS_LOCAL_WRITE),
					 IBV_REREG_MR_ERR_CMD);
			ck_assert_int_eq(errno, EBUSY);
		} else {
			ck_assert_int_eq(mr_deregister(mr), EBUSY);
		}
		ck_assert_int_eq(mr->key.access, BINDABLE);
		ck_assert_uint_eq(atomic_fetch_sub(&mr->windows, 1), 1);
	}
	core.keys.host = before;
	end();
}
END_TEST

START_TEST(contested_windows)
{
	pthread_t threads[4];

	begin();
	contested[0] = make_mw(IBV_MW_TYPE_1);
	contested[1] = make_mw(IBV_MW_TYPE_2);
	for (int i = 0; i < 2; i++)
		contested_numbers[i] = key_number(contested[i]->ibv.rkey);
	for (uintptr_t i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, contend, (void *)i);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	ck_assert_uint_gt(bound, 40000); /* every bind of type 1, and some of type 2 */
	ck_assert_uint_eq(mr->windows, contested[0]->key.valid + contested[1]->key.valid);
	mw_dealloc(contested[0]);
	mw_dealloc(contested[1]);
	ck_assert_uint_eq(mr->windows, 0);
	end();
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("mw");
	TCase *tcase = tcase_create("mw");

	tcase_set_timeout(tcase, 100);
	tcase_add_checked_fixture(tcase, core_setup, core_teardown);
	tcase_add_test(tcase, allocated_unbound);
	tcase_add_test(tcase, no_keys_left);
	tcase_add_test(tcase, type_1_is_bound_again_and_again);
	tcase_add_test(tcase, type_2_is_invalidated_first);
	tcase_add_test(tcase, regions_are_not_invalidated);
	tcase_add_loop_test(tcase, refused_binds, IBV_MW_TYPE_1, IBV_MW_TYPE_2 + 1);
	tcase_add_test(tcase, low_bits_of_the_key_count);
	tcase_add_loop_test(tcase, local_rights_mean_nothing, IBV_MW_TYPE_1, IBV_MW_TYPE_2 + 1);
	tcase_add_test(tcase, zero_based);
	tcase_add_test(tcase, windows_of_an_iova);
	tcase_add_test(tcase, every_access_is_checked);
	tcase_add_test(tcase, regions_are_busy_while_bound);
	tcase_add_test(tcase, busy_regions_stay_usable);
	tcase_add_test(tcase, taking_back_waits_for_pins);
	tcase_add_test(tcase, bound_meanwhile);
	tcase_add_test(tcase, contested_windows);
	suite_add_tcase(suite, tcase);
	return run_suite(suite);
}
