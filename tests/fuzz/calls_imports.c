/* SPDX-License-Identifier: BSD-2-Clause */
/* Imports of regions: other names, which outlive the region and their protection domain. */
#include <errno.h>

#include "calls.h"

/* Of a parent domain it would be a user, of a protection domain it isn't. */
void call_import_mr(struct world *world)
{
	struct fuzz_import *import = UNUSED(world, imports);
	struct fuzz_mr *mr = PICK(world, mrs);
	struct fuzz_pd *pd = PICK(world, pds);

	if (!import || !mr || !pd || pd->parent)
		return;
	import->ibv = ibv_import_mr(pd->ibv, mr->ibv->handle);
	/* By another device's handle it is another region, or none. */
	if (pd->ibv->context == mr->ibv->context)
		must(import->ibv ? import->ibv->lkey == mr->ibv->lkey : world->has_null);
	if (!import->ibv) {
		must(errno == ENOENT);
		return;
	}
	must(ibv_rereg_mr(import->ibv, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0) ==
	     IBV_REREG_MR_ERR_INPUT);
}

void unimport_mr(struct world *world, struct fuzz_import *import)
{
	ibv_unimport_mr(import->ibv);
	*import = (struct fuzz_import){};
}

void call_unimport_mr(struct world *world)
{
	struct fuzz_import *import = PICK(world, imports);

	if (import)
		unimport_mr(world, import);
}
