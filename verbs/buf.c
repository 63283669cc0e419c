/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/buf.h"

#include <stdlib.h>
#include <unistd.h>

#include "net/cause/cause.h"
#include "net/quarantine.h"
#include "verbs/context.h"
#include "verbs/domain.h"

void *urxe_alloc_buf(struct ibv_pd *pd, size_t size, struct buf **result)
{
	struct buf *buf;
	void *address;

	if (!domain_is_good(pd))
		return fail(domain_refuse(EINVAL, "ibv_alloc_buf()", pd));
	buf = malloc(sizeof(*buf));
	if (!buf || posix_memalign(&address, sysconf(_SC_PAGESIZE), size)) {
		free(buf);
		return fail(refuse(ENOMEM, CAUSE_OUT_OF_MEMORY, "for a buffer of %zu bytes", size));
	}
	*buf = (struct buf){pd->context, pd, address, size};
	context_get(buf->context);
	*result = buf;
	return address;
}

void urxe_free_buf(struct buf *buf)
{
	struct ibv_context *context = buf->context;

	free(buf->address);
	quarantine_free(buf, sizeof(*buf));
	context_put(context);
}

/* There is no dma-buf behind it. */
int urxe_export_buf_dmabuf_fd(struct buf *buf)
{
	errno = refuse(ENODATA, CAUSE_BUF_MEMORY,
		       "ibv_export_buf_dmabuf_fd(): %zu bytes of memory at %p", buf->size,
		       buf->address);
	return -1;
}

int buf_check(const struct buf *buf, const struct ibv_pd *pd, const void *address, size_t length)
{
	size_t offset;

	if (!buf || buf->context != pd->context || buf->pd != pd)
		return refuse(EINVAL, CAUSE_BUF_PD,
			      "ibv_reg_buf_mr() or ibv_reg_mr_ex(): buf is %p, pd %p", buf, pd);
	offset = (uintptr_t)address - (uintptr_t)buf->address;
	if (offset <= buf->size && length <= buf->size - offset)
		return 0;
	return refuse(EINVAL, CAUSE_BUF_RANGE,
		      "ibv_reg_buf_mr() or ibv_reg_mr_ex(): %zu bytes at %p, of a buffer of %zu "
		      "bytes at %p",
		      length, address, buf->size, buf->address);
}
