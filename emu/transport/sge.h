/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Scatter/gather lists against memory regions. Called by requester, responder
 * and completer with the QP lock held.
 */
#ifndef URXE_EMU_SGE_H
#define URXE_EMU_SGE_H

#include <infiniband/verbs.h>
#include <stdint.h>

struct hca;
struct mr_pin;
struct pd;

/* Whether every SGE of non-zero length passes the check of mr.h for @access. 0 or EACCES. */
int sge_check(struct hca *hca, const struct pd *pd, const struct ibv_sge *sge, uint32_t count,
	      int access);

/*
 * Copy @length bytes to byte @offset of the list. The list is known to be long
 * enough. 0, or EACCES if a part fails its check (nothing is said of how much
 * was written then).
 */
int sge_scatter(struct hca *hca, const struct pd *pd, const struct ibv_sge *sge, uint32_t count,
		uint64_t offset, const void *data, uint32_t length);

/* The same for packet after packet: the last part stays pinned, and the next tries it first. */
int sge_scatter_pinned(struct hca *hca, const struct pd *pd, const struct ibv_sge *sge,
		       uint32_t count, uint64_t offset, const void *data, uint32_t length,
		       struct mr_pin *pin);

/* Sum of the lengths: up to 2^32 - 1 each, so 64 bits. */
uint64_t sge_total(const struct ibv_sge *sge, uint32_t count);

#endif
