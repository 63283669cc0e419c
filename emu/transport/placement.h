/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Payload that is placed late and in another order than it came, and completions that are
 * delivered late and in batches: whatever the specification leaves open, to find programs that
 * count on more (URXE_CHECK=order). In which order the bytes of an RDMA WRITE or of a READ's
 * response get into memory, and when, is undefined until a completion says that they are there
 * (IBA 9.5, o9-20): that of a later SEND or WRITE with immediate at the responder, that of the READ
 * or a later request at the requester. Here they are kept in pieces of whole cache lines, each of
 * which is placed at a random time; at the latest when
 *
 *   a completion of their QP is delivered that says so     (emu/objects/cq.c)
 *   a READ, atomic, ATOMIC WRITE or FLUSH is executed, of any QP (emu/transport/rd_atomic.c)
 *   a fenced request starts, which may send what was read  (emu/transport/requester.c)
 *   a key ends or changes, the QP is reset, or the delegate of another process's QP is freed
 *                                                          (emu/transport/xrc_remote.c)
 *   another payload comes for the same place, so that the later one is what stays
 *
 * An HCA has none of it without placement_enable(): then all that it costs is a look at
 * hca.placement.
 *
 * placement.lock is a leaf: the QP's and the CQ's may be held. No key stays pinned between two
 * calls.
 */
#ifndef URXE_EMU_PLACEMENT_H
#define URXE_EMU_PLACEMENT_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

struct hca;
struct pd;
struct qp;

/* ns: no piece and no completion waits longer. */
#define PLACEMENT_DELAY 1000000
#define PLACEMENT_COMPLETION_DELAY 200000

/* Memory that a packet for @qp goes to; the key is found again when it is placed. */
struct placement_target {
	const struct qp *qp;
	const struct pd *pd;
	uint32_t key;
	uint64_t va;
	bool remote; /* the peer names it by an R_Key; else a work request of ours by an L_Key */
};

/* Before any packet comes. The same @seed makes the same of the same packets. 0 or ENOMEM. */
int placement_enable(struct hca *hca, uint64_t seed);
void placement_disable(struct hca *hca);

/* Keep a copy of @data. 0, EACCES or EFAULT, as mr_pin() and mr_write() would say. */
int placement_keep(const struct placement_target *target, const void *data, uint32_t length);

/* The same as sge_scatter(). Nothing is pinned. */
int placement_scatter(const struct qp *qp, const struct pd *pd, const struct ibv_sge *sge,
		      uint32_t count, uint64_t offset, const void *data, uint32_t length);

/* All that is kept is in place when it returns. Nothing to do where it isn't enabled. */
void placement_finish(struct hca *hca);
/* What is kept for @qp; and that alone which goes to buffers of its own work requests. */
void placement_finish_qp(const struct qp *qp);
void placement_finish_local(const struct qp *qp);

/* Place what is due. Returns whether there was any. */
bool placement_run(struct hca *hca, uint64_t now);
/* When something is due, or TIME_NEVER. */
uint64_t placement_deadline(struct hca *hca);

/* A number below @bound. */
uint64_t placement_random(struct hca *hca, uint64_t bound);

#endif
