/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Refused calls of libibverbs by subject, and the device and the objects that they are tried on.
 * Each row runs in a process of its own: one device, one protection domain, one completion queue.
 */
#ifndef URXE_TESTS_CAUSES_CALLS_H
#define URXE_TESTS_CAUSES_CALLS_H

#include "tests/verbs/causes.h"

#include <infiniband/verbs.h>

struct call_rows {
	const struct cause_row *rows;
	unsigned int count;
};

extern const struct call_rows calls_objects, calls_qp, calls_post, calls_queues;

extern struct ibv_context *context;
extern struct ibv_pd *pd;
extern struct ibv_cq *cq; /* of 16 entries */

void open_device(void);

/* In RESET: 4 work requests of 2 elements in each queue. */
struct ibv_qp *make_qp(enum ibv_qp_type type);
struct ibv_srq *make_srq(void);
struct ibv_qp *make_xrc_recv(struct ibv_xrcd *xrcd);
/* NULL with errno; @fd is -1 for a domain without a file. */
struct ibv_xrcd *open_domain(int fd, int oflags);

#define MODIFY(qp, mask, ...)                                                                      \
	ibv_modify_qp(qp, &(struct ibv_qp_attr){__VA_ARGS__}, IBV_QP_STATE | (mask))

#define INIT_MASK (IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)
#define INIT_ATTR .qp_state = IBV_QPS_INIT, .port_num = 1

/* On a device that they open. */
struct ibv_qp *qp_in_reset(enum ibv_qp_type type);
struct ibv_qp *qp_in_init(enum ibv_qp_type type);
/* Its peer is itself. */
struct ibv_qp *qp_in_rts(enum ibv_qp_type type);

#endif
