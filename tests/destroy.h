/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What has one name alone (emu/objects/names.h) ends in one call: for tests of the core, where the
 * verbs layer has two.
 */
#ifndef URXE_TESTS_DESTROY_H
#define URXE_TESTS_DESTROY_H

#include "emu/objects/dm.h"
#include "emu/objects/mr.h"
#include "emu/objects/pd.h"

static inline int pd_dealloc(struct pd *pd)
{
	int error = pd_destroy(pd);

	if (!error)
		pd_put(pd);
	return error;
}

static inline int mr_deregister(struct mr *mr)
{
	int error = mr_destroy(mr);

	if (!error)
		mr_put(mr);
	return error;
}

static inline int dm_free(struct dm *dm)
{
	int error = dm_destroy(dm);

	if (!error)
		dm_put(dm);
	return error;
}

#endif
