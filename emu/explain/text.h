/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Queue pairs, work requests, packets and memory in words, for reports of failures
 * (net/cause/cause.h). Called by the rest of emu/explain, on the failure path alone, with the
 * locks held that protect what is described. What doesn't fit is cut off.
 */
#ifndef URXE_EMU_EXPLAIN_TEXT_H
#define URXE_EMU_EXPLAIN_TEXT_H

#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "net/cause/cause.h"

struct key;
struct packet;
struct qp;
struct send_wqe;

struct text {
	char *bytes;
	size_t size, length;
};

/* More of what was found. */
#define TEXT_OF(finding)                                                                           \
	((struct text){.bytes = (finding)->text,                                                   \
		       .size = FINDING_TEXT,                                                       \
		       .length = strlen((finding)->text)})

void text_add(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* "10.0.0.1" */
void text_add_gid(struct text *text, const union ibv_gid *gid);
/* "LOCAL_WRITE, REMOTE_READ", or "no access flags" */
void text_add_access(struct text *text, int access);
/*
 * "region of 8192 bytes at 0x7f0010, registered at app.c:112 (main) with LOCAL_WRITE", as far as
 * that is known; the caller has a reference.
 */
void text_add_key(struct text *text, const struct key *key);
/* "QP 0x11 (RC, created at app.c:57 (main)), connected from 10.0.0.1 to 10.0.0.2 QP 0x12" */
void text_add_qp(struct text *text, const struct qp *qp);
/* "wr_id 7, RDMA_WRITE of 64 bytes from 0x7f00 (lkey 0x100) to 0x7f80 (rkey 0x200), PSN 5" */
void text_add_wqe(struct text *text, const struct qp *qp, const struct send_wqe *wqe);
/* "RC_RDMA_WRITE_ONLY, PSN 5, 64 bytes at 0x7f80 with rkey 0x200" */
void text_add_packet(struct text *text, const struct packet *packet);

/* "67.1 ms": of nanoseconds */
void text_add_time(struct text *text, uint64_t time);

#endif
