/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * XRC domains: emu/objects/xrcd.h.
 */
#include "emu/objects/xrcd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <utlist.h>

#include "emu/capacity.h"
#include "emu/hca.h"
#include "net/cause/cause.h"
#include "net/cause/origin.h"
#include "net/quarantine.h"

static struct xrc_domain *find_domain(struct hca *hca, const struct descriptor_identity *file)
{
	struct xrc_domain *domain;

	DL_FOREACH (hca->xrc_domains, domain) {
		if (descriptor_same(&domain->file, file))
			return domain;
	}
	return NULL;
}

static int create_domain(struct hca *hca, const struct descriptor_identity *file,
			 struct xrc_domain **result)
{
	struct xrc_domain *domain = calloc(1, sizeof(*domain));

	if (!domain)
		return refuse(ENOMEM, CAUSE_OUT_OF_MEMORY, "for an XRC domain");
	if (file) {
		domain->file = *file;
		DL_APPEND(hca->xrc_domains, domain);
	}
	*result = domain;
	return 0;
}

static int get_domain(struct hca *hca, const struct descriptor_identity *file, int oflags,
		      struct xrc_domain **domain)
{
	int error = 0;

	*domain = file ? find_domain(hca, file) : NULL;
	if (!*domain && oflags & O_CREAT)
		error = create_domain(hca, file, domain);
	else if (!*domain)
		error = refuse(EAGAIN, CAUSE_XRCD_ABSENT, "oflags is 0x%x", oflags);
	else if (oflags & O_EXCL)
		error = refuse(EINVAL, CAUSE_XRCD_EXISTS, "%u opened it in this process",
			       (*domain)->handles);
	if (!error)
		(*domain)->handles++;
	return error;
}

/* No list has a private domain. */
static void free_unused(struct hca *hca, struct xrc_domain *domain)
{
	if (domain->handles || domain->queue_pairs)
		return;
	if (domain->prev)
		DL_DELETE(hca->xrc_domains, domain);
	free(domain);
}

void xrc_domain_get(struct hca *hca, struct xrc_domain *domain)
{
	pthread_mutex_lock(&hca->xrc_lock);
	domain->queue_pairs++;
	pthread_mutex_unlock(&hca->xrc_lock);
}

void xrc_domain_put(struct hca *hca, struct xrc_domain *domain)
{
	pthread_mutex_lock(&hca->xrc_lock);
	domain->queue_pairs--;
	free_unused(hca, domain);
	pthread_mutex_unlock(&hca->xrc_lock);
}

int xrcd_open(struct hca *hca, const struct descriptor_identity *file, int oflags,
	      struct xrcd **result)
{
	int error = capacity_alive(hca, "ibv_open_xrcd()");
	struct xrcd *xrcd;

	if (error)
		return error;
	xrcd = calloc(1, sizeof(*xrcd));
	if (!xrcd)
		return refuse(ENOMEM, CAUSE_OUT_OF_MEMORY, "for an XRC domain");
	pthread_mutex_lock(&hca->xrc_lock);
	error = get_domain(hca, file, oflags, &xrcd->domain);
	pthread_mutex_unlock(&hca->xrc_lock);
	if (error) {
		free(xrcd);
		return error;
	}
	xrcd->hca = hca;
	xrcd->fd = -1;
	xrcd->origin = origin_capture();
	*result = xrcd;
	return 0;
}

int xrcd_close(struct xrcd *xrcd)
{
	struct hca *hca = xrcd->hca;
	int error = users_check(&xrcd->users, hca, xrcd, "ibv_close_xrcd()");

	if (error)
		return error;
	pthread_mutex_lock(&hca->xrc_lock);
	xrcd->domain->handles--;
	free_unused(hca, xrcd->domain);
	pthread_mutex_unlock(&hca->xrc_lock);
	origin_free(xrcd->origin);
	quarantine_free(xrcd, sizeof(*xrcd));
	return 0;
}
