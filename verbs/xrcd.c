/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * XRC domains and the numbers of their SRQs: the ABI around emu/objects/xrcd.h.
 */
#include <sys/stat.h>

#include "verbs/context.h"

struct ibv_xrcd *urxe_open_xrcd(struct ibv_context *context, struct ibv_xrcd_init_attr *attr)
{
	const uint32_t needed = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
	struct xrc_file file;
	struct xrcd *xrcd;
	struct stat st;
	int error;

	if (attr->comp_mask >= IBV_XRCD_INIT_ATTR_RESERVED)
		return fail(EOPNOTSUPP);
	if ((attr->comp_mask & needed) != needed)
		return fail(EINVAL);
	/* EBADF */
	if (attr->fd != -1 && fstat(attr->fd, &st) != 0)
		return fail(errno);
	if (attr->fd != -1)
		file = (struct xrc_file){st.st_dev, st.st_ino};
	error = xrcd_open(to_hca(context), attr->fd == -1 ? NULL : &file, attr->oflags, &xrcd);
	if (error)
		return fail(error);
	xrcd->ibv.context = context;
	context_get(context);
	return &xrcd->ibv;
}

int urxe_close_xrcd(struct ibv_xrcd *xrcd)
{
	struct ibv_context *context = xrcd->context;
	int error = xrcd_close(to_xrcd(xrcd));

	if (!error)
		context_put(context);
	return set_errno(error);
}

int urxe_get_srq_num(struct ibv_srq *srq, uint32_t *number)
{
	if (!HANDLE_IS_GOOD(to_srq(srq)))
		return set_errno(ENOENT);
	if (!to_srq(srq)->xrcd)
		return set_errno(EINVAL);
	*number = to_srq(srq)->number;
	return 0;
}
