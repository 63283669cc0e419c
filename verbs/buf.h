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
 * What the application's handle points to. The context comes first, and tells whose handle it is,
 * as with any object. One of the real library begins with the address of its buffer instead, which
 * is looked at as if it were a context: that reads no more than the buffer's first page.
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
/* 0 if @length bytes at @address are within @buf, and @pd is its protection domain; else EINVAL. */
int buf_check(const struct buf *buf, const struct ibv_pd *pd, const void *address, size_t length);

#endif
