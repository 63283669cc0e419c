/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the programs of this folder that use verbs share: a device, RC queue
 * pairs, and connecting them. Plain libibverbs; whatever fails is said on stderr
 * and ends the process.
 */
#ifndef URXE_TESTS_BENCH_RC_H
#define URXE_TESTS_BENCH_RC_H

#include <infiniband/verbs.h>
#include <stdint.h>

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition))                                                                  \
			rc_fail(__FILE__, __LINE__, #condition);                                   \
	} while (0)

_Noreturn void rc_fail(const char *file, int line, const char *what);

struct rc_device {
	struct ibv_context *context;
	struct ibv_pd *pd;
	union ibv_gid gid;
};

/* Everything about an end of a connection that the other one checked know. */
struct rc_end {
	union ibv_gid gid;
	uint32_t qpn, rkey;
	uint64_t address;
};

void rc_open(struct rc_device *device);
void rc_close(struct rc_device *device);

/* In RESET, with an SGE a request, every send signaled. */
struct ibv_qp *rc_create(struct rc_device *device, struct ibv_cq *send_cq, struct ibv_cq *recv_cq,
			 uint32_t send_depth, uint32_t receive_depth);
/* To INIT, where receives can be posted. */
void rc_init(struct ibv_qp *qp);
/* From INIT to RTS. */
void rc_connect(struct ibv_qp *qp, const union ibv_gid *gid, uint32_t qpn);

struct ibv_mr *rc_register(struct rc_device *device, void *memory, size_t length);

/* Posts one request of one SGE; @remote is for READ and WRITE. */
void rc_post(struct ibv_qp *qp, enum ibv_wr_opcode opcode, uint64_t wr_id,
	     const struct ibv_sge *sge, uint64_t remote, uint32_t rkey);

/* Successful completions, up to @max; 0 when there are none yet. */
int rc_poll(struct ibv_cq *cq, struct ibv_wc *wc, int max);

uint64_t rc_now(void); /* ns */

#endif
