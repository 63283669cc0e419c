/* SPDX-License-Identifier: BSD-2-Clause */
#include "emu/explain/denial.h"

#include "emu/explain/text.h"
#include "emu/hca.h"
#include "emu/objects/mr.h"
#include "emu/objects/pd.h"
#include "emu/objects/qp.h"
#include "net/guard.h"

/* In the order of the checks of emu/objects/mr_pin.c. */
enum denial {
	DENIED_UNKNOWN,
	DENIED_STALE,
	DENIED_PD,
	DENIED_KIND, /* a window's key where there must be a region's, or the null region's */
	DENIED_UNBOUND,
	DENIED_QP,
	DENIED_ACCESS,
	DENIED_BOUNDS,
	DENIED_GONE,
	DENIED_NOT_THERE,
	DENIED_RACED,
	DENIALS,
	ALLOWED = DENIALS
};

/* What can't be of a side is CAUSE_NONE. */
static const enum cause causes[KEY_SIDES][DENIALS] = {
	[KEY_OF_REQUEST] = {CAUSE_LOCAL_KEY_UNKNOWN, CAUSE_LOCAL_KEY_STALE,
			    CAUSE_LOCAL_KEY_OTHER_PD, CAUSE_LOCAL_KEY_OF_WINDOW, CAUSE_NONE,
			    CAUSE_NONE, CAUSE_LOCAL_NOT_WRITABLE, CAUSE_LOCAL_OUT_OF_BOUNDS,
			    CAUSE_LOCAL_MEMORY_GONE, CAUSE_LOCAL_MEMORY_NOT_THERE,
			    CAUSE_LOCAL_KEY_RACED},
	[KEY_OF_RECEIVE] = {CAUSE_RECEIVE_KEY_UNKNOWN, CAUSE_RECEIVE_KEY_STALE,
			    CAUSE_RECEIVE_KEY_OTHER_PD, CAUSE_RECEIVE_KEY_OF_WINDOW, CAUSE_NONE,
			    CAUSE_NONE, CAUSE_RECEIVE_NOT_WRITABLE, CAUSE_RECEIVE_OUT_OF_BOUNDS,
			    CAUSE_RECEIVE_MEMORY_GONE, CAUSE_RECEIVE_MEMORY_NOT_THERE,
			    CAUSE_RECEIVE_KEY_RACED},
	[KEY_OF_PEER] = {CAUSE_REMOTE_KEY_UNKNOWN, CAUSE_REMOTE_KEY_STALE,
			 CAUSE_REMOTE_KEY_OTHER_PD, CAUSE_REMOTE_KEY_OF_NULL_REGION,
			 CAUSE_REMOTE_WINDOW_UNBOUND, CAUSE_REMOTE_WINDOW_OTHER_QP,
			 CAUSE_REMOTE_NOT_ALLOWED, CAUSE_REMOTE_OUT_OF_BOUNDS,
			 CAUSE_REMOTE_MEMORY_GONE, CAUSE_REMOTE_MEMORY_NOT_THERE,
			 CAUSE_REMOTE_KEY_RACED},
};

static enum denial check(const struct key_use *use, const struct key *key, uint32_t value,
			 uint64_t va, uint64_t length)
{
	bool local = use->side != KEY_OF_PEER;

	if (!key)
		return DENIED_UNKNOWN;
	if (key->value != value)
		return DENIED_STALE;
	if (key->pd->handle != use->pd_handle)
		return DENIED_PD;
	if (local ? key->kind == KEY_WINDOW : key->kind == KEY_NULL)
		return DENIED_KIND;
	if (!key->valid)
		return DENIED_UNBOUND;
	if (key->bound_to && key->bound_to != use->qp->handle)
		return DENIED_QP;
	if ((key->access & use->access) != use->access)
		return DENIED_ACCESS;
	if (!use->whole && !key_covers(key, va, length))
		return DENIED_BOUNDS;
	return ALLOWED;
}

/* --- in words ------------------------------------------------------------------------- */

static void add_distance(struct text *text, const struct key *key, uint64_t va, uint64_t length)
{
	uint64_t end = key->iova + key->length;

	text_add(text, "that is a ");
	text_add_key(text, key);
	if (va < key->iova)
		text_add(text, "; the access begins %llu bytes before it",
			 (unsigned long long)(key->iova - va));
	else if (va > end)
		text_add(text, "; the access begins %llu bytes behind its end",
			 (unsigned long long)(va - end));
	else
		text_add(text, "; the access ends %llu bytes behind it",
			 (unsigned long long)(length - (end - va)));
}

static void add_access(struct text *text, const struct key_use *use, const struct key *key)
{
	text_add(text, "that is a ");
	text_add_key(text, key);
	text_add(text, " only: it lacks ");
	text_add_access(text, use->access & ~key->access);
}

/* What the key was, if that is known. */
static void add_former(struct text *text, struct hca *hca, uint32_t value)
{
	char former[FORMER_KEY_TEXT];

	if (former_keys_describe(&hca->former_keys, value, former))
		text_add(text, "; it was %s", former);
}

/* The QP that has bound the window. When that was destroyed, @qp may have its number. */
static void add_binder(struct text *text, const struct key *key, const struct qp *qp)
{
	bool earlier = key->bound_to_number == qp->number && key->bound_to != qp->handle;

	text_add(text, "%sQP 0x%x", earlier ? "an earlier " : "", key->bound_to_number);
}

static void add_denial(struct text *text, enum denial denial, const struct key_use *use,
		       const struct key *key, uint32_t value, uint64_t va, uint64_t length)
{
	switch (denial) {
	case DENIED_UNKNOWN:
		text_add(text, "nothing has that key");
		add_former(text, use->hca, value);
		break;
	case DENIED_STALE:
		text_add(text, "its number has the key 0x%x now, of a ", key->value);
		text_add_key(text, key);
		add_former(text, use->hca, value);
		break;
	case DENIED_PD:
		text_add(text, "that is a ");
		text_add_key(text, key);
		text_add(text, ", of protection domain %u; what uses it is of %u", key->pd->handle,
			 use->pd_handle);
		break;
	case DENIED_KIND:
		text_add(text, "that is a %s",
			 key->kind == KEY_WINDOW ? "memory window" : "null region");
		break;
	case DENIED_UNBOUND:
		text_add(text, "that is a memory window which is not bound");
		break;
	case DENIED_QP:
		text_add(text, "that is a ");
		text_add_key(text, key);
		text_add(text, ", of ");
		add_binder(text, key, use->qp);
		break;
	case DENIED_ACCESS:
		add_access(text, use, key);
		break;
	default:
		add_distance(text, key, va, length);
		break;
	}
}

static void add_range(struct text *text, const struct key_use *use, uint32_t key, uint64_t va,
		      uint64_t length)
{
	const char *name = use->side == KEY_OF_PEER ? "rkey" : "lkey";

	if (use->whole)
		text_add(text, "all of %s 0x%x: ", name, key);
	else
		text_add(text, "%llu bytes at 0x%llx with %s 0x%x: ", (unsigned long long)length,
			 (unsigned long long)va, name, key);
}

/* Whether there is a text to be made. */
static bool begin(struct finding *finding, enum cause cause)
{
	finding->cause = cause;
	return cause_wanted(cause);
}

/* --- keys and memory ---------------------------------------------------------------------- */

bool denial_of_key(const struct key_use *use, uint32_t value, uint64_t va, uint64_t length,
		   struct finding *finding)
{
	struct table *keys = &use->hca->keys;
	const struct key *key = table_get(keys, key_number(value));
	enum denial denial = check(use, key, value, va, length);
	struct text text = TEXT_OF(finding);

	if (denial != ALLOWED && begin(finding, causes[use->side][denial])) {
		add_range(&text, use, value, va, length);
		add_denial(&text, denial, use, key, value, va, length);
	}
	if (key)
		table_put(keys, key_number(value));
	return denial != ALLOWED;
}

/* @address: of the range in this process. */
static bool is_gone(const struct key_use *use, const struct key *key, const uint8_t *address,
		    uint64_t length, struct guard_fault *fault)
{
	/* What a remote atomic or WRITE, or a message, changes. */
	bool write = use->access &
		     (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC);

	return key->kind != KEY_NULL && length && !guard_probe(address, length, write, fault);
}

bool denial_of_memory(const struct key_use *use, uint32_t value, uint64_t va, uint64_t length,
		      struct finding *finding)
{
	struct table *keys = &use->hca->keys;
	const struct key *key = table_get(keys, key_number(value));
	struct text text = TEXT_OF(finding);
	struct guard_fault fault = {};
	bool gone, on_demand;

	if (!key)
		return false;
	gone = check(use, key, value, va, length) == ALLOWED &&
	       is_gone(use, key, key_address(key, va), length, &fault);
	on_demand = key->access & IBV_ACCESS_ON_DEMAND;
	if (gone && begin(finding, causes[use->side][on_demand ? DENIED_NOT_THERE : DENIED_GONE])) {
		add_range(&text, use, value, va, length);
		text_add(&text, "that is a ");
		text_add_key(&text, key);
		text_add(&text, "; the memory at %p is %s", fault.address,
			 guard_fault_text(&fault));
	}
	table_put(keys, key_number(value));
	return gone;
}

void denial_is_over(const struct key_use *use, struct finding *finding)
{
	finding_set(finding, causes[use->side][DENIED_RACED],
		    "the access was refused, and a moment later it would not have been");
}

bool denial_of_sges(const struct key_use *use, const struct ibv_sge *sge, uint32_t count,
		    uint64_t offset, uint64_t length, bool probe, struct finding *finding)
{
	for (uint32_t i = 0; i < count && length; i++) {
		uint64_t va;
		uint32_t part = sge_part(&sge[i], &offset, length, &va);

		if (!part)
			continue;
		if (denial_of_key(use, sge[i].lkey, va, part, finding) ||
		    (probe && denial_of_memory(use, sge[i].lkey, va, part, finding)))
			return true;
		length -= part;
	}
	return false;
}

/* --- windows --------------------------------------------------------------------------------- */

static bool is_type_2(const struct key *key)
{
	return key->kind == KEY_WINDOW && mw_of_key(key)->ibv.type == IBV_MW_TYPE_2;
}

/* What bind_locked() checks of the window (emu/objects/mw.c), in its order. */
static enum cause check_window(const struct qp *qp, const struct key *key,
			       const struct mw_bind *bind)
{
	if (!key || key->kind != KEY_WINDOW)
		return CAUSE_BIND_WINDOW_GONE;
	if (key->pd != qp->pd)
		return CAUSE_BIND_WINDOW_OTHER_PD;
	if (is_type_2(key) && bind->length == 0)
		return CAUSE_BIND_NOTHING;
	if (is_type_2(key) && key->valid)
		return CAUSE_BIND_WINDOW_IN_USE;
	return mw_allows_access(mw_of_key(key), bind->access) ? CAUSE_NONE : CAUSE_BIND_ACCESS;
}

static enum cause check_region(const struct qp *qp, const struct key *key,
			       const struct mw_bind *bind)
{
	if (!key || key->kind == KEY_WINDOW || key->value != bind->region)
		return CAUSE_BIND_REGION_GONE;
	if (key->pd != qp->pd)
		return CAUSE_BIND_REGION_OTHER_PD;
	if (!(key->access & IBV_ACCESS_MW_BIND))
		return CAUSE_BIND_REGION_FORBIDS;
	if (key->access & IBV_ACCESS_ZERO_BASED)
		return CAUSE_BIND_REGION_ZERO_BASED;
	if (!key_covers(key, bind->addr, bind->length))
		return CAUSE_BIND_OUT_OF_BOUNDS;
	return CAUSE_BIND_REGION_NOT_WRITABLE;
}

static void add_bind(struct text *text, const struct key *key, const struct mw_bind *bind)
{
	if (!key || key->kind != KEY_WINDOW) {
		text_add(text, "nothing has that number");
		return;
	}
	text_add(text, "the window of type %d ", is_type_2(key) ? 2 : 1);
	if (key->valid)
		text_add(text, "is bound as rkey 0x%x; ", key->value);
	text_add(text, "was to get ");
	text_add_access(text, bind->access);
}

static void find_window(struct qp *qp, const struct mw_bind *bind, struct finding *finding)
{
	struct table *keys = &qp->hca->keys;
	const struct key *key = table_get(keys, bind->window);
	enum cause cause = check_window(qp, key, bind);
	struct text text = TEXT_OF(finding);

	if (begin(finding, cause) && cause != CAUSE_NONE)
		add_bind(&text, key, bind);
	if (key)
		table_put(keys, bind->window);
}

static void find_region(struct qp *qp, const struct mw_bind *bind, struct finding *finding)
{
	struct table *keys = &qp->hca->keys;
	uint32_t number = key_number(bind->region);
	const struct key *key = table_get(keys, number);
	struct text text = TEXT_OF(finding);

	if (begin(finding, check_region(qp, key, bind))) {
		text_add(&text, "the window was to get ");
		text_add_access(&text, bind->access);
		text_add(&text, "; lkey 0x%x is of ", bind->region);
		if (key)
			text_add_key(&text, key);
		else
			text_add(&text, "nothing");
	}
	if (key)
		table_put(keys, number);
}

void denial_of_bind(struct qp *qp, const struct mw_bind *bind, struct finding *finding)
{
	find_window(qp, bind, finding);
	if (finding->cause == CAUSE_NONE)
		find_region(qp, bind, finding);
}

enum invalidation_denial {
	INVALIDATION_UNKNOWN,
	INVALIDATION_NOT_TYPE_2,
	INVALIDATION_STALE,
	INVALIDATION_UNBOUND,
	INVALIDATION_OTHER_QP,
	INVALIDATION_DENIALS
};

static const enum cause invalidation_causes[KEY_SIDES][INVALIDATION_DENIALS] = {
	[KEY_OF_REQUEST] = {CAUSE_INVALIDATE_UNKNOWN, CAUSE_INVALIDATE_NOT_TYPE_2,
			    CAUSE_INVALIDATE_STALE, CAUSE_INVALIDATE_UNBOUND,
			    CAUSE_INVALIDATE_OTHER_QP},
	[KEY_OF_PEER] = {CAUSE_REMOTE_INVALIDATE_UNKNOWN, CAUSE_REMOTE_INVALIDATE_NOT_TYPE_2,
			 CAUSE_REMOTE_INVALIDATE_STALE, CAUSE_REMOTE_INVALIDATE_UNBOUND,
			 CAUSE_REMOTE_INVALIDATE_OTHER_QP},
};

/* What mw_invalidate() checks (emu/objects/mw.c). */
static enum invalidation_denial check_invalidation(const struct key *key, uint32_t rkey)
{
	if (!key)
		return INVALIDATION_UNKNOWN;
	if (!is_type_2(key))
		return INVALIDATION_NOT_TYPE_2;
	if (key->value != rkey)
		return INVALIDATION_STALE;
	return !key->valid ? INVALIDATION_UNBOUND : INVALIDATION_OTHER_QP;
}

static void add_window(struct text *text, const struct key *key, const struct qp *qp)
{
	text_add(text, "its number has the key 0x%x, of a ", key->value);
	if (key->kind != KEY_WINDOW)
		text_add(text, "region");
	else
		text_add(text, "window of type %d", is_type_2(key) ? 2 : 1);
	if (key->kind == KEY_WINDOW && !key->valid) {
		text_add(text, " that is not bound");
	} else if (key->bound_to) {
		text_add(text, " that ");
		add_binder(text, key, qp);
		text_add(text, " has bound");
	}
}

void denial_of_invalidation(struct qp *qp, uint32_t rkey, enum key_side side,
			    struct finding *finding)
{
	struct table *keys = &qp->hca->keys;
	const struct key *key = table_get(keys, key_number(rkey));
	struct text text = TEXT_OF(finding);

	if (begin(finding, invalidation_causes[side][check_invalidation(key, rkey)])) {
		text_add(&text, "rkey 0x%x: ", rkey);
		if (key)
			add_window(&text, key, qp);
		else
			text_add(&text, "nothing has that key");
	}
	if (key)
		table_put(keys, key_number(rkey));
}
