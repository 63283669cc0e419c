/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * XRC domains and the numbers of their SRQs: the ABI around emu/objects/xrcd.h.
 */
#include <fcntl.h>
#include <stdio.h>

#include "emu/capacity.h"
#include "net/syscalls.h"
#include "verbs/context.h"

/*
 * The processes of a node that have a domain hold a read lock on a byte of its file, which no
 * data is at, one for each device; the kernel drops it when they die. The descriptor is our own,
 * since the application's may be shared with its parent, as the locks would be.
 */
static struct flock domain_lock(uint64_t guid)
{
	return (struct flock){
		.l_type = F_RDLCK,
		.l_whence = SEEK_SET,
		.l_start = INT64_C(1) << 62 | ((guid ^ guid >> 32) & INT32_MAX),
		.l_len = 1,
	};
}

/* Returns a descriptor with the lock, or -1: other processes aren't known then. */
static int lock_domain(int fd, uint64_t guid, bool *elsewhere)
{
	struct flock lock = domain_lock(guid), others = lock;
	char path[32];
	int own;

	*elsewhere = false;
	snprintf(path, sizeof(path), "/proc/thread-self/fd/%d", fd);
	own = descriptor_above_standard(sys_open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK));
	if (own < 0)
		return -1;
	/*
	 * First ours, then a look at others': of two that open it exclusively none wins at worst.
	 */
	others.l_type = F_WRLCK;
	if (fcntl(own, F_OFD_SETLK, &lock) != 0 || fcntl(own, F_OFD_GETLK, &others) != 0) {
		sys_close(own);
		return -1;
	}
	*elsewhere = others.l_type != F_UNLCK;
	return own;
}

/*
 * Of a child that was forked meanwhile the descriptor is, too: the lock would stay as long as that
 * one lives.
 */
static void unlock_domain(int own, uint64_t guid, const struct descriptor_identity *file)
{
	struct flock lock = domain_lock(guid);

	if (!descriptor_is(own, file))
		return;
	lock.l_type = F_UNLCK;
	fcntl(own, F_OFD_SETLK, &lock);
	sys_close(own);
}

static int open_shared(struct ibv_context *context, const struct ibv_xrcd_init_attr *attr,
		       struct xrcd **xrcd)
{
	struct hca *hca = to_hca(context);
	int oflags = attr->oflags, error, own;
	struct descriptor_identity file;
	bool elsewhere;

	if (fcntl(attr->fd, F_GETFD) < 0) /* EBADF */
		return refuse(errno, CAUSE_XRCD_FILE, "fd is %d", attr->fd);
	file = descriptor_identify(attr->fd);
	own = lock_domain(attr->fd, hca->node_guid, &elsewhere);
	if (elsewhere && oflags & O_EXCL)
		error = refuse(EINVAL, CAUSE_XRCD_EXISTS, "fd %d: it is open already", attr->fd);
	else
		error = xrcd_open(hca, &file, elsewhere ? oflags | O_CREAT : oflags, xrcd);
	if (!error)
		(*xrcd)->fd = own;
	else
		unlock_domain(own, hca->node_guid, &file);
	return error;
}

struct ibv_xrcd *urxe_open_xrcd(struct ibv_context *context, struct ibv_xrcd_init_attr *attr)
{
	const uint32_t needed = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
	struct xrcd *xrcd;
	int error =
		capacity_need(to_hca(context), IBV_DEVICE_XRC, "ibv_open_xrcd()", "IBV_DEVICE_XRC");

	if (error)
		return fail(error);
	if (attr->comp_mask >= IBV_XRCD_INIT_ATTR_RESERVED)
		return fail(refuse(EOPNOTSUPP, CAUSE_NOT_SUPPORTED,
				   "ibv_open_xrcd(): comp_mask 0x%x", attr->comp_mask));
	if ((attr->comp_mask & needed) != needed)
		return fail(
			refuse(EINVAL, CAUSE_XRCD_FIELDS, "comp_mask is 0x%x", attr->comp_mask));
	error = attr->fd == -1 ? xrcd_open(to_hca(context), NULL, attr->oflags, &xrcd)
			       : open_shared(context, attr, &xrcd);
	if (error)
		return fail(error);
	xrcd->ibv.context = context;
	context_get(context);
	return &xrcd->ibv;
}

int urxe_close_xrcd(struct ibv_xrcd *xrcd)
{
	const struct descriptor_identity file = to_xrcd(xrcd)->domain->file;
	struct ibv_context *context = xrcd->context;
	int own = to_xrcd(xrcd)->fd;
	int error = xrcd_close(to_xrcd(xrcd));

	if (error)
		return set_errno(error);
	unlock_domain(own, to_hca(context)->node_guid, &file);
	context_put(context);
	return 0;
}

int urxe_get_srq_num(struct ibv_srq *srq, uint32_t *number)
{
	if (!HANDLE_IS_GOOD(to_srq(srq)))
		return set_errno(REFUSE_HANDLE(ENOENT, "ibv_get_srq_num()", to_srq(srq)));
	if (!to_srq(srq)->xrcd)
		return set_errno(
			refuse(EINVAL, CAUSE_SRQ_TYPE, "ibv_get_srq_num(): srq_type is BASIC"));
	*number = to_srq(srq)->number;
	return 0;
}
