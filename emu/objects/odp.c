/* SPDX-License-Identifier: BSD-2-Clause */
#include "emu/objects/odp.h"

#include <errno.h>
#include <stdbool.h>

#include "emu/hca.h"
#include "emu/newer_verbs.h"
#include "emu/objects/mr.h"
#include "emu/objects/pd.h"
#include "net/guard.h"

#define ODP_SEND_RECV (IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV)

const struct ibv_odp_caps odp_caps = {
	.general_caps = IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT,
	.per_transport_caps =
		{
			.rc_odp_caps = ODP_SEND_RECV | IBV_ODP_SUPPORT_WRITE |
				       IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_ATOMIC |
				       IBV_ODP_SUPPORT_SRQ_RECV | ODP_SUPPORT_FLUSH |
				       ODP_SUPPORT_ATOMIC_WRITE,
			.uc_odp_caps = ODP_SEND_RECV | IBV_ODP_SUPPORT_WRITE,
			.ud_odp_caps = ODP_SEND_RECV | IBV_ODP_SUPPORT_SRQ_RECV,
		},
};

static int check_key(const struct key *key, const struct pd *pd, const struct ibv_sge *sge,
		     bool write)
{
	if (key->value != sge->lkey)
		return ENOENT;
	if (key->kind != KEY_REGION || !(key->access & IBV_ACCESS_ON_DEMAND))
		return EINVAL;
	if (key->pd != pd || (write && !(key->access & IBV_ACCESS_LOCAL_WRITE)))
		return EPERM;
	return key_covers(key, sge->addr, sge->length) ? 0 : EFAULT;
}

/* The memory that @sge names, in *@address. */
static int find_memory(struct pd *pd, const struct ibv_sge *sge, bool write, uint8_t **address)
{
	struct table *keys = &pd->hca->keys;
	const struct key *key = table_get(keys, key_number(sge->lkey));
	int error;

	if (!key)
		return EFAULT;
	error = check_key(key, pd, sge, write);
	*address = key_address(key, sge->addr);
	table_put(keys, key_number(sge->lkey));
	return error;
}

static int advise_sge(struct pd *pd, enum ibv_advise_mr_advice advice, const struct ibv_sge *sge)
{
	bool write = advice == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE;
	uint8_t *address;
	int error = find_memory(pd, sge, write, &address);

	if (error || advice == IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT)
		return error;
	/* The region isn't kept meanwhile: paging in takes its time. */
	return guard_probe(address, sge->length, write, NULL) ? 0 : EFAULT;
}

int odp_advise(struct pd *pd, enum ibv_advise_mr_advice advice, const struct ibv_sge *sge,
	       uint32_t count)
{
	int error = 0;

	if (advice != IBV_ADVISE_MR_ADVICE_PREFETCH &&
	    advice != IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE &&
	    advice != IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT)
		return ENOTSUP;
	if (!count)
		return EINVAL;
	for (uint32_t i = 0; i < count && !error; i++)
		error = advise_sge(pd, advice, &sge[i]);
	return error;
}
