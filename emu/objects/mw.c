/* SPDX-License-Identifier: BSD-2-Clause */
#include "emu/objects/mw.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

#include "emu/capacity.h"
#include "emu/hca.h"
#include "emu/objects/pd.h"
#include "emu/objects/qp.h"
#include "emu/transport/placement.h"
#include "net/cause/cause.h"
#include "net/cause/origin.h"
#include "net/newer_verbs.h"
#include "net/quarantine.h"

/* What Linux takes for a window: its local rights mean nothing, as no L_Key names it. */
#define REMOTE_ACCESS                                                                              \
	(IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC |             \
	 ACCESS_FLUSH_GLOBAL)
#define WINDOW_ACCESS (REMOTE_ACCESS | IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND)

static int check_type(const struct hca *hca, enum ibv_mw_type type)
{
	if (type == IBV_MW_TYPE_1)
		return capacity_need(hca, IBV_DEVICE_MEM_WINDOW, "ibv_alloc_mw(), type 1",
				     "IBV_DEVICE_MEM_WINDOW");
	if (type == IBV_MW_TYPE_2)
		return capacity_need(hca,
				     IBV_DEVICE_MEM_WINDOW_TYPE_2A | IBV_DEVICE_MEM_WINDOW_TYPE_2B,
				     "ibv_alloc_mw(), type 2", "IBV_DEVICE_MEM_WINDOW_TYPE_2B");
	return refuse(EINVAL, CAUSE_MW_TYPE, "ibv_alloc_mw(): type is %d", type);
}

int mw_alloc(struct pd *pd, enum ibv_mw_type type, struct mw **result)
{
	struct hca *hca = pd->hca;
	uint32_t number;
	struct mw *mw;
	int error;

	error = check_type(hca, type);
	if (!error)
		error = capacity_take(hca, &hca->mw_count, hca->limits.device.max_mw,
				      "memory windows", "max_mw");
	if (error)
		return error;
	mw = calloc(1, sizeof(*mw));
	if (!mw) {
		capacity_put(&hca->mw_count);
		return refuse(ENOMEM, CAUSE_OUT_OF_MEMORY, "for a memory window");
	}
	error = table_reserve(&hca->keys, &number);
	if (error) {
		capacity_put(&hca->mw_count);
		free(mw);
		return mr_refuse_key(hca, error);
	}
	mw->hca = hca;
	mw->key.kind = KEY_WINDOW;
	mw->key.pd = pd;
	mw->key.value = key_value(number, atomic_fetch_add(&hca->key_byte, 1));
	mw->ibv.rkey = mw->key.value;
	mw->ibv.handle = mw->handle = hca_next_handle(hca);
	mw->ibv.type = type;
	mw->key.origin = origin_capture();
	users_add(&pd->users, USER_MW, 1);
	table_publish(&hca->keys, number, &mw->key);
	*result = mw;
	return 0;
}

static void unbind(struct mw *mw)
{
	if (mw->region)
		atomic_fetch_sub(&mw->region->windows, 1);
	mw->region = NULL;
	mw->key.valid = false;
	mw->key.bound_to = mw->key.bound_to_number = 0;
}

void mw_dealloc(struct mw *mw)
{
	struct hca *hca = mw->hca;

	placement_finish(hca);
	pthread_mutex_lock(&hca->mw_bind_lock);
	table_remove(&hca->keys, key_number(mw->key.value));
	unbind(mw);
	pthread_mutex_unlock(&hca->mw_bind_lock);
	former_keys_add(&hca->former_keys, &mw->key);
	users_add(&mw->key.pd->users, USER_MW, -1);
	capacity_put(&hca->mw_count);
	quarantine_free(mw, sizeof(*mw));
}

/*
 * The window with @number, or NULL. Under mw_bind_lock it stays: only
 * mw_dealloc() frees it, and only under that lock.
 */
static struct mw *find_window(struct hca *hca, uint32_t number)
{
	struct key *key = table_get(&hca->keys, number);
	struct mw *mw = NULL;

	if (!key)
		return NULL;
	if (key->kind == KEY_WINDOW)
		mw = mw_of_key(key);
	table_put(&hca->keys, number);
	return mw;
}

/*
 * The region to bind to, with a reference, or NULL: of the QP's protection domain, with the
 * right to be bound (C10-73), with LOCAL_WRITE where the window lets remote peers
 * write (C10-74), and all of the range inside it (C10-75).
 */
static struct mr *get_region(struct qp *qp, const struct mw_bind *bind)
{
	struct key *key = table_get(&qp->hca->keys, key_number(bind->region));
	bool writes = bind->access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC);

	if (!key)
		return NULL;
	if (key->kind == KEY_REGION && key->value == bind->region && key->pd == qp->pd &&
	    (key->access & IBV_ACCESS_MW_BIND) && !(key->access & IBV_ACCESS_ZERO_BASED) &&
	    (!writes || (key->access & IBV_ACCESS_LOCAL_WRITE)) &&
	    key_covers(key, bind->addr, bind->length))
		return mr_of_key(key);
	table_put(&qp->hca->keys, key_number(bind->region));
	return NULL;
}

bool mw_allows_access(const struct mw *mw, int access)
{
	int allowed = WINDOW_ACCESS;

	if (mw->ibv.type == IBV_MW_TYPE_2)
		allowed |= IBV_ACCESS_ZERO_BASED;
	return !(access & ~allowed);
}

static int check_window(const struct qp *qp, const struct mw *mw, const struct mw_bind *bind)
{
	if (mw->key.pd != qp->pd)
		return EINVAL; /* C10-72 */
	/* o10-37.2.40, and a window in use has to be invalidated first (10.6.7.2.2). */
	if (mw->ibv.type == IBV_MW_TYPE_2 && (bind->length == 0 || mw->key.valid))
		return EINVAL;
	return mw_allows_access(mw, bind->access) ? 0 : EINVAL;
}

/* With the key withdrawn: no thread reads it. */
static void set_key(struct qp *qp, struct mw *mw, struct mr *region, const struct mw_bind *bind)
{
	unbind(mw);
	mw->key.value = key_value(bind->window, bind->rkey);
	if (!region)
		return;
	mw->region = region;
	atomic_fetch_add(&region->windows, 1);
	mw->key.valid = true;
	if (mw->ibv.type == IBV_MW_TYPE_2) {
		mw->key.bound_to = qp->handle;
		mw->key.bound_to_number = qp->number;
	}
	mw->key.address = key_address(&region->key, bind->addr);
	mw->key.length = bind->length;
	mw->key.iova = bind->access & IBV_ACCESS_ZERO_BASED ? 0 : bind->addr;
	mw->key.access = (bind->access & (REMOTE_ACCESS | IBV_ACCESS_ZERO_BASED)) |
			 (region->key.access & IBV_ACCESS_ON_DEMAND);
}

static int bind_locked(struct qp *qp, const struct mw_bind *bind)
{
	struct table *keys = &qp->hca->keys;
	struct mw *mw = find_window(qp->hca, bind->window);
	struct mr *region = NULL;

	if (!mw || check_window(qp, mw, bind) != 0)
		return EINVAL;
	if (bind->length && !(region = get_region(qp, bind)))
		return EINVAL;
	placement_finish(qp->hca);
	table_withdraw(keys, bind->window);
	set_key(qp, mw, region, bind);
	table_publish(keys, bind->window, &mw->key);
	if (region)
		table_put(keys, key_number(bind->region));
	return 0;
}

int mw_bind(struct qp *qp, const struct mw_bind *bind)
{
	int error;

	pthread_mutex_lock(&qp->hca->mw_bind_lock);
	error = bind_locked(qp, bind);
	pthread_mutex_unlock(&qp->hca->mw_bind_lock);
	return error;
}

static int invalidate_locked(struct qp *qp, uint32_t rkey)
{
	struct table *keys = &qp->hca->keys;
	struct mw *mw = find_window(qp->hca, key_number(rkey));

	/*
	 * o10-37.2.26: neither plain regions nor windows of type 1, nor another QP's. No QP has the
	 * handle 0 that windows have which are of type 1, or not bound.
	 */
	if (!mw || mw->key.value != rkey || mw->key.bound_to != qp->handle || mw->key.pd != qp->pd)
		return EINVAL;
	placement_finish(qp->hca);
	table_withdraw(keys, key_number(rkey));
	unbind(mw);
	table_publish(keys, key_number(rkey), &mw->key);
	return 0;
}

int mw_invalidate(struct qp *qp, uint32_t rkey)
{
	int error;

	pthread_mutex_lock(&qp->hca->mw_bind_lock);
	error = invalidate_locked(qp, rkey);
	pthread_mutex_unlock(&qp->hca->mw_bind_lock);
	return error;
}
