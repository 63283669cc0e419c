/* SPDX-License-Identifier: BSD-2-Clause */
/* Included by verbs_exp.h: what its parts share. */
#ifndef INFINIBAND_VERBS_EXP_COMMON_H
#define INFINIBAND_VERBS_EXP_COMMON_H

#include <errno.h>
#include <infiniband/verbs_exp/types.h>
#include <stdio.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

static inline int verbs_exp_masked(const char *call, uint32_t comp_mask, uint32_t reserved)
{
	if (comp_mask < reserved)
		return 1;
	fprintf(stderr, "%s: invalid comp_mask 0x%x, valid are 0x%x\n", call, comp_mask,
		reserved - 1);
	errno = EINVAL;
	return 0;
}

/* Programs of that time look for ENOSYS where rdma-core says EOPNOTSUPP. */
static inline int verbs_exp_error(int error)
{
	return error == EOPNOTSUPP ? ENOSYS : error;
}

static inline void *verbs_exp_null(int error)
{
	errno = verbs_exp_error(error);
	return NULL;
}

/* Today's access flags. Returns an errno. */
static inline int verbs_exp_access(uint64_t access, unsigned int *standard)
{
	uint64_t others =
		IBV_EXP_ACCESS_MW_ZERO_BASED | IBV_EXP_ACCESS_ON_DEMAND | IBV_EXP_ACCESS_RELAXED;

	if (access >= (uint64_t)IBV_EXP_ACCESS_RESERVED)
		return EINVAL;
	if (access >> IBV_EXP_START_FLAG_LOC & ~(others >> IBV_EXP_START_FLAG_LOC))
		return ENOSYS;
	*standard = (unsigned int)access;
	if (access & IBV_EXP_ACCESS_MW_ZERO_BASED)
		*standard |= IBV_ACCESS_ZERO_BASED;
	if (access & IBV_EXP_ACCESS_ON_DEMAND)
		*standard |= IBV_ACCESS_ON_DEMAND;
	if (access & IBV_EXP_ACCESS_RELAXED)
		*standard |= IBV_ACCESS_RELAXED_ORDERING;
	return 0;
}

#ifdef __cplusplus
}
#endif

#endif
