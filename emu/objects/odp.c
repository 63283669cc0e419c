/* SPDX-License-Identifier: BSD-2-Clause */
#include "emu/objects/odp.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>

#include "emu/hca.h"
#include "emu/objects/access.h"
#include "emu/objects/mr.h"
#include "emu/objects/pd.h"
#include "net/cause/cause.h"
#include "net/guard.h"
#include "net/newer_verbs.h"

#define ODP_SEND_RECV (IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV)
#define ODP_RELIABLE                                                                               \
	(ODP_SEND_RECV | IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_ATOMIC |   \
	 IBV_ODP_SUPPORT_SRQ_RECV | ODP_SUPPORT_FLUSH | ODP_SUPPORT_ATOMIC_WRITE)

const struct ibv_odp_caps odp_caps = {
	.general_caps = IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT,
	.per_transport_caps =
		{
			.rc_odp_caps = ODP_RELIABLE,
			.uc_odp_caps = ODP_SEND_RECV | IBV_ODP_SUPPORT_WRITE,
			.ud_odp_caps = ODP_SEND_RECV | IBV_ODP_SUPPORT_SRQ_RECV,
		},
};
const uint32_t odp_xrc_caps = ODP_RELIABLE;

static int check_key(const struct key *key, const struct pd *pd, const struct ibv_sge *sge,
		     bool write)
{
	char text[ACCESS_TEXT];

	if (key->value != sge->lkey)
		return refuse(ENOENT, CAUSE_ADVICE_KEY,
			      "lkey 0x%x was that of a region that is gone", sge->lkey);
	if (key->kind != KEY_REGION)
		return refuse(EINVAL, CAUSE_ADVICE_KEY,
			      "lkey 0x%x is a memory window's or the null "
			      "region's",
			      sge->lkey);
	if (!(key->access & IBV_ACCESS_ON_DEMAND))
		return refuse(EINVAL, CAUSE_ADVICE_KEY, "region 0x%x has %s, without ON_DEMAND",
			      sge->lkey, access_text(key->access, text));
	if (key->pd != pd)
		return refuse(EPERM, CAUSE_ADVICE_RIGHTS,
			      "region 0x%x is in another protection domain", sge->lkey);
	if (write && !(key->access & IBV_ACCESS_LOCAL_WRITE))
		return refuse(EPERM, CAUSE_ADVICE_RIGHTS,
			      "PREFETCH_WRITE of region 0x%x, which has %s, without LOCAL_WRITE",
			      sge->lkey, access_text(key->access, text));
	if (!key_covers(key, sge->addr, sge->length))
		return refuse(EFAULT, CAUSE_ADVICE_RANGE,
			      "%u bytes at 0x%" PRIx64 "; region 0x%x has %" PRIu64
			      " bytes at 0x%" PRIx64,
			      sge->length, sge->addr, sge->lkey, key->length, key->iova);
	return 0;
}

/* The memory that @sge names, in *@address. */
static int find_memory(struct pd *pd, const struct ibv_sge *sge, bool write, uint8_t **address)
{
	struct table *keys = &pd->hca->keys;
	const struct key *key = table_get(keys, key_number(sge->lkey));
	int error;

	if (!key)
		return refuse(EFAULT, CAUSE_ADVICE_KEY, "there is no region with lkey 0x%x",
			      sge->lkey);
	error = check_key(key, pd, sge, write);
	*address = key_address(key, sge->addr);
	table_put(keys, key_number(sge->lkey));
	return error;
}

static int advise_sge(struct pd *pd, enum ibv_advise_mr_advice advice, const struct ibv_sge *sge)
{
	bool write = advice == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE;
	struct guard_fault fault;
	uint8_t *address = NULL;
	int error = find_memory(pd, sge, write, &address);

	if (error || advice == IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT)
		return error;
	/* The region isn't kept meanwhile: paging in takes its time. */
	if (guard_probe(address, sge->length, write, &fault))
		return 0;
	return refuse(EFAULT, CAUSE_ADVICE_NOT_MAPPED,
		      "%u bytes at 0x%" PRIx64 " of region 0x%x: the memory at %p is %s",
		      sge->length, sge->addr, sge->lkey, fault.address, guard_fault_text(&fault));
}

int odp_advise(struct pd *pd, enum ibv_advise_mr_advice advice, const struct ibv_sge *sge,
	       uint32_t count)
{
	int error = 0;

	if (pd->hca->limits.no_odp)
		return refuse(EOPNOTSUPP, CAUSE_NOT_SUPPORTED,
			      "ibv_advise_mr(): the device has no regions on demand");
	if (advice != IBV_ADVISE_MR_ADVICE_PREFETCH &&
	    advice != IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE &&
	    advice != IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT)
		return refuse(ENOTSUP, CAUSE_ADVICE_UNKNOWN, "ibv_advise_mr(): advice is %d",
			      advice);
	if (!count)
		return refuse(EINVAL, CAUSE_ADVICE_EMPTY, "ibv_advise_mr(): num_sge is 0");
	for (uint32_t i = 0; i < count && !error; i++)
		error = advise_sge(pd, advice, &sge[i]);
	return error;
}
