/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Buffers of ibv_alloc_buf(3), which came with IBVERBS_1.17: memory of the process, to be
 * registered in the protection domain that it was allocated for. Called by
 * verbs/preload/dispatch_other.c, and for regions by verbs/mr_ex.c. A buffer is immutable; no
 * locks.
 */
#ifndef URXE_VERBS_BUF_H
#define URXE_VERBS_BUF_H

#include <infiniband/verbs.h>

/*
 * Behind the application's handle. The context comes first, by which the handle is known as one of
 * ours: those of the real library begin with the buffer's address, of whose page the beginning is
 * then read.
 */
struct buf {
	struct ibv_context *context;
	struct ibv_pd *pd;
	char *address;
	size_t size;
};

void *urxe_alloc_buf(struct ibv_pd *pd, size_t size, struct buf **buf);
void urxe_free_buf(struct buf *buf);
int urxe_export_buf_dmabuf_fd(struct buf *buf);
/* 0 if @length bytes at @address are some of @buf's, and @pd its protection domain; EINVAL. */
int buf_check(const struct buf *buf, const struct ibv_pd *pd, const void *address, size_t length);

#endif
