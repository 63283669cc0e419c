/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Regions of dma-bufs. A NIC would be told by the exporter where the buffer is; here it is mapped
 * as any process may map it, if its exporter lets it. Caches aren't flushed
 * (DMA_BUF_IOCTL_SYNC): on x86 the devices that export buffers are coherent.
 */
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "net/log.h"
#include "verbs/context.h"
#include "verbs/preload/signals.h"

#define DMABUF_WRITES (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)
#define DMABUF_ACCESS (DMABUF_WRITES | IBV_ACCESS_REMOTE_READ)

struct dmabuf {
	void *mapping;
	size_t length;
};

static void dmabuf_unmap(void *backing)
{
	struct dmabuf *dmabuf = backing;

	munmap(dmabuf->mapping, dmabuf->length);
	free(dmabuf);
}

/* What the kernel checks before it asks the exporter. */
static int check_range(const struct hca *hca, uint64_t offset, size_t length, uint64_t iova)
{
	if ((offset ^ iova) & (hca->host->page_size() - 1))
		return EINVAL;
	return !length || offset + length < length || iova + length < length ? EINVAL : 0;
}

static int check_buffer(int fd, uint64_t end)
{
	struct statfs filesystem;
	off_t size;

	if (fstatfs(fd, &filesystem))
		return EBADF;
	if (filesystem.f_type != DMA_BUF_MAGIC)
		return EINVAL;
	size = lseek(fd, 0, SEEK_END);
	return size < 0 || (uint64_t)size < end ? EINVAL : 0;
}

/* @offset is a page's. EOPNOTSUPP: the exporter lets no process map it, or not with @access. */
static int dmabuf_map(int fd, uint64_t offset, size_t length, int access, struct dmabuf **result)
{
	int protection = PROT_READ | (access & DMABUF_WRITES ? PROT_WRITE : 0);
	struct dmabuf *dmabuf = malloc(sizeof(*dmabuf));

	if (!dmabuf)
		return ENOMEM;
	dmabuf->length = length;
	dmabuf->mapping = mmap(NULL, length, protection, MAP_SHARED, fd, offset);
	if (dmabuf->mapping == MAP_FAILED) {
		int error = errno;

		free(dmabuf);
		log_info("dma-buf %d can't be mapped: %s", fd, strerror(error));
		return error == ENOMEM ? ENOMEM : EOPNOTSUPP;
	}
	*result = dmabuf;
	return 0;
}

static int dmabuf_register(struct pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd,
			   int access, struct mr **mr)
{
	uint64_t inside = offset & (pd->hca->host->page_size() - 1);
	struct mr_init init = {
		.kind = KEY_REGION,
		.length = length,
		.iova = iova,
		.access = access,
		.release = dmabuf_unmap,
	};
	struct dmabuf *dmabuf;
	int error = access & ~DMABUF_ACCESS ? EINVAL : mr_check_access(access);

	if (!error)
		error = check_range(pd->hca, offset, length, iova);
	if (!error)
		error = check_buffer(fd, offset + length);
	if (!error)
		error = dmabuf_map(fd, offset - inside, length + inside, access, &dmabuf);
	if (error)
		return error;
	init.address = (uint8_t *)dmabuf->mapping + inside;
	init.backing = dmabuf;
	error = mr_create(pd, &init, mr);
	if (error)
		dmabuf_unmap(dmabuf);
	else
		(*mr)->ibv.addr = (void *)(uintptr_t)offset; /* as libibverbs has it */
	return error;
}

struct ibv_mr *urxe_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova,
				  int fd, int access)
{
	struct mr *mr;
	int error;

	if (!domain_is_good(pd))
		return fail(EINVAL);
	signals_install();
	error = dmabuf_register(to_pd(pd), offset, length, iova, fd, access & ~(int)ACCESS_OPTIONAL,
				&mr);
	return error ? fail(error) : mr_hand_out(mr, pd);
}
