/* SPDX-License-Identifier: BSD-2-Clause */
/* The check of a key, and access to the memory that it names while it is pinned. */
#include "emu/objects/mr.h"

#include <errno.h>

#include "emu/hca.h"
#include "emu/objects/qp.h"
#include "net/guard.h"

/* @qp: the one that got the packet which names the key, or NULL for a local access. */
static bool allows(const struct key *key, const struct pd *pd, const struct qp *qp, uint32_t value,
		   int access)
{
	if (key->value != value || key->pd != pd || !key->valid)
		return false;
	/* IBA 10.6.7: a window is a remote key, and one of type 2 is one QP's. */
	if (key->kind == KEY_WINDOW && (!qp || (key->bound_to && key->bound_to != qp->handle)))
		return false;
	if (key->kind == KEY_NULL && qp)
		return false;
	return (key->access & access) == access;
}

static bool permits(const struct key *key, const struct pd *pd, const struct qp *qp, uint32_t value,
		    uint64_t va, uint64_t length, int access)
{
	return allows(key, pd, qp, value, access) && key_covers(key, va, length);
}

static int pin_key(struct hca *hca, const struct pd *pd, const struct qp *qp, uint32_t value,
		   uint64_t va, uint64_t length, int access, struct mr_pin *pin)
{
	uint32_t number = key_number(value);
	const struct key *key = table_get(&hca->keys, number);

	if (!key)
		return EACCES;
	if (!permits(key, pd, qp, value, va, length, access)) {
		table_put(&hca->keys, number);
		return EACCES;
	}
	*pin = (struct mr_pin){key_address(key, va), number, key};
	return 0;
}

int mr_pin(struct hca *hca, const struct pd *pd, uint32_t lkey, uint64_t va, uint64_t length,
	   int access, struct mr_pin *pin)
{
	return pin_key(hca, pd, NULL, lkey, va, length, access, pin);
}

bool mr_allows(struct hca *hca, const struct pd *pd, const struct qp *qp, uint32_t value,
	       int access)
{
	const struct key *key = table_get(&hca->keys, key_number(value));
	bool allowed;

	if (!key)
		return false;
	allowed = allows(key, pd, qp, value, access);
	table_put(&hca->keys, key_number(value));
	return allowed;
}

int mr_pin_remote(const struct pd *pd, const struct qp *qp, uint32_t rkey, uint64_t va,
		  uint64_t length, int access, struct mr_pin *pin)
{
	return pin_key(qp->hca, pd, qp, rkey, va, length, access, pin);
}

uint8_t *mr_pinned(const struct mr_pin *pin, const struct pd *pd, const struct qp *qp, uint32_t key,
		   uint64_t va, uint64_t length, int access)
{
	return permits(pin->key, pd, qp, key, va, length, access) ? key_address(pin->key, va)
								  : NULL;
}

void mr_unpin(struct hca *hca, const struct mr_pin *pin)
{
	table_put(&hca->keys, pin->number);
}

uint8_t *mr_repin(struct hca *hca, struct mr_pin *pin, const struct pd *pd, const struct qp *qp,
		  uint32_t key, uint64_t va, uint64_t length, int access)
{
	uint8_t *address = NULL;

	if (pin->key)
		address = mr_pinned(pin, pd, qp, key, va, length, access);
	if (address)
		return address;
	if (pin->key)
		mr_unpin(hca, pin);
	if (pin_key(hca, pd, qp, key, va, length, access, pin) != 0)
		*pin = (struct mr_pin){0};
	return pin->address;
}

void mr_unpin_kept(struct hca *hca, struct mr_pin *pin)
{
	if (pin->key)
		mr_unpin(hca, pin);
	*pin = (struct mr_pin){0};
}

/* --- memory that is gone ----------------------------------------------------------- */

int mr_fault(const struct mr_pin *pin)
{
	return pin->key->access & IBV_ACCESS_ON_DEMAND ? EACCES : EFAULT;
}

int mr_write(struct hca *hca, const struct mr_pin *pin, uint8_t *to, const void *from,
	     uint32_t length)
{
	bool copied;

	if (pin->key->kind == KEY_NULL)
		return 0;
	WATCH(hca, written, to, length);
	copied = guard_write(to, from, length, NULL);
	WATCH(hca, written, to, length);
	return copied ? 0 : mr_fault(pin);
}

int mr_probe(const struct mr_pin *pin, const uint8_t *from, uint32_t length)
{
	return guard_probe(from, length, false, NULL) ? 0 : mr_fault(pin);
}

/* --- scatter/gather lists -------------------------------------------------------- */

int sge_check(struct hca *hca, const struct pd *pd, const struct ibv_sge *sge, uint32_t count,
	      int access)
{
	struct mr_pin pin;

	for (uint32_t i = 0; i < count; i++) {
		int error;

		if (!sge[i].length)
			continue;
		error = mr_pin(hca, pd, sge[i].lkey, sge[i].addr, sge[i].length, access, &pin);
		if (error)
			return error;
		mr_unpin(hca, &pin);
	}
	return 0;
}

int sge_scatter(struct hca *hca, const struct pd *pd, const struct ibv_sge *sge, uint32_t count,
		uint64_t offset, const void *data, uint32_t length, struct mr_pin *pin)
{
	const uint8_t *from = data;

	for (uint32_t i = 0; i < count && length; i++) {
		uint64_t va;
		uint32_t part = sge_part(&sge[i], &offset, length, &va);
		uint8_t *to;
		int error;

		if (!part)
			continue;
		to = mr_repin(hca, pin, pd, NULL, sge[i].lkey, va, part, IBV_ACCESS_LOCAL_WRITE);
		if (!to)
			return EACCES;
		error = mr_write(hca, pin, to, from, part);
		if (error)
			return error;
		from += part;
		length -= part;
	}
	return 0;
}
