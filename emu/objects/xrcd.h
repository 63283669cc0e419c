/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * XRC domains (IBA Annex A14, ibv_open_xrcd(3)): an XRC_RECV QP delivers to the XRC SRQs of its
 * domain, each of which has a number that requests name it by. A domain that was opened with a
 * file is known by that file: opening the file again gives the same domain. Each opening has its
 * own handle, a struct xrcd, and closes it alone.
 *
 * Called by the verbs layer, and by the queue pairs that keep a domain. hca.xrc_lock protects the
 * list of domains and their counts. Use counts of handles are atomic.
 */
#ifndef URXE_EMU_XRCD_H
#define URXE_EMU_XRCD_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "emu/objects/users.h"
#include "net/descriptor.h"

struct hca;
struct origin;

struct xrc_domain {
	struct xrc_domain *prev, *next; /* utlist, of those that files name */
	struct descriptor_identity file;
	uint32_t handles, queue_pairs; /* it goes with the last of them */
};

struct xrcd {
	struct ibv_xrcd ibv;
	struct hca *hca;
	struct xrc_domain *domain;
	int fd;		       /* what the verbs layer keeps with it: its lock of the file, or -1 */
	struct origin *origin; /* where it was made: net/cause/origin.h */
	struct users users;
};

/*
 * The domain of @file, or a private one (NULL). @oflags: O_CREAT makes it if need be, with
 * O_EXCL it mustn't be there yet. Returns 0, EAGAIN (it isn't there), EINVAL (it is), ENOMEM.
 */
int xrcd_open(struct hca *hca, const struct descriptor_identity *file, int oflags,
	      struct xrcd **xrcd);
int xrcd_close(struct xrcd *xrcd); /* 0 or EBUSY */

/* Private domains have none. */
static inline bool xrc_domain_has_file(const struct xrc_domain *domain)
{
	return domain->file.inode != 0;
}

/* A queue pair keeps its domain, by whichever handles the application has of either. */
void xrc_domain_get(struct hca *hca, struct xrc_domain *domain);
void xrc_domain_put(struct hca *hca, struct xrc_domain *domain);

#endif
