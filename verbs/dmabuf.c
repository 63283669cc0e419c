/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Regions of dma-bufs. A NIC would be told by the exporter where the buffer is; here it is mapped
 * as any process may map it, if its exporter lets it. Caches aren't flushed
 * (DMA_BUF_IOCTL_SYNC): on x86 the devices that export buffers are coherent.
 */
#include <inttypes.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "emu/objects/access.h"
#include "net/cause/cause.h"
#include "verbs/context.h"
#include "verbs/domain.h"

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

static int check_access(const struct hca *hca, int access)
{
	char text[ACCESS_TEXT];

	if (!(access & ~DMABUF_ACCESS))
		return mr_check_access(hca, access);
	return refuse(EINVAL, CAUSE_DMABUF_ACCESS, "ibv_reg_dmabuf_mr(): access is %s",
		      access_text(access, text));
}

/* What the kernel checks before it asks the exporter. */
static int check_range(const struct hca *hca, uint64_t offset, size_t length, uint64_t iova)
{
	uint64_t mask = hca->host->page_size() - 1;

	if ((offset ^ iova) & mask)
		return refuse(EINVAL, CAUSE_MR_IOVA,
			      "offset %" PRIu64 " of the dma-buf is at byte %" PRIu64
			      " of its page, iova 0x%" PRIx64 " at byte %" PRIu64,
			      offset, offset & mask, iova, iova & mask);
	if (length && offset + length >= length && iova + length >= length)
		return 0;
	return refuse(EINVAL, CAUSE_DMABUF_RANGE,
		      "%zu bytes at offset %" PRIu64 " of the dma-buf, iova 0x%" PRIx64, length,
		      offset, iova);
}

static int check_buffer(int fd, uint64_t end)
{
	struct statfs filesystem;
	off_t size;

	if (fstatfs(fd, &filesystem))
		return refuse(EBADF, CAUSE_DMABUF_NONE, "ibv_reg_dmabuf_mr(): fd is %d: %s", fd,
			      strerror(errno));
	if (filesystem.f_type != DMA_BUF_MAGIC)
		return refuse(EINVAL, CAUSE_DMABUF_OTHER,
			      "ibv_reg_dmabuf_mr(): fd is %d, a file of the file system 0x%lx", fd,
			      (unsigned long)filesystem.f_type);
	size = lseek(fd, 0, SEEK_END);
	if (size >= 0 && (uint64_t)size >= end)
		return 0;
	return refuse(EINVAL, CAUSE_DMABUF_RANGE,
		      "up to byte %" PRIu64 " of a dma-buf that has %lld bytes", end,
		      (long long)size);
}

/* @offset is a page's. EOPNOTSUPP: the exporter lets no process map it, or not with @access. */
static int dmabuf_map(int fd, uint64_t offset, size_t length, int access, struct dmabuf **result)
{
	int protection = PROT_READ | (access & DMABUF_WRITES ? PROT_WRITE : 0);
	struct dmabuf *dmabuf = malloc(sizeof(*dmabuf));

	if (!dmabuf)
		return refuse(ENOMEM, CAUSE_OUT_OF_MEMORY, "for a memory region");
	dmabuf->length = length;
	dmabuf->mapping = mmap(NULL, length, protection, MAP_SHARED, fd, offset);
	if (dmabuf->mapping == MAP_FAILED) {
		int error = errno;

		free(dmabuf);
		return refuse(error == ENOMEM ? ENOMEM : EOPNOTSUPP, CAUSE_DMABUF_MAPPING,
			      "mmap() of %zu bytes of dma-buf %d for %s: %s", length, fd,
			      protection & PROT_WRITE ? "reading and writing" : "reading",
			      strerror(error));
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
	struct dmabuf *dmabuf = NULL;
	int error = check_access(pd->hca, access);

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
		return fail(domain_refuse(EINVAL, "ibv_reg_dmabuf_mr()", pd));
	error = dmabuf_register(to_pd(pd), offset, length, iova, fd, access & ~(int)ACCESS_OPTIONAL,
				&mr);
	return error ? fail(error) : mr_hand_out(mr, pd);
}
