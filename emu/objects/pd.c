/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Protection domains, address handles, and paths out of address vectors:
 * emu/objects/pd.h.
 */
#include "emu/objects/pd.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "emu/capacity.h"
#include "emu/hca.h"
#include "net/cause/cause.h"
#include "net/cause/origin.h"
#include "net/quarantine.h"

#define GIDS_TEXT 200

int pd_alloc(struct hca *hca, struct pd **pd)
{
	struct pd *made;
	int error;

	error = capacity_take(hca, &hca->pd_count, hca->limits.device.max_pd, "protection domains",
			      "max_pd");
	if (error)
		return error;
	made = calloc(1, sizeof(*made));
	if (!made) {
		capacity_put(&hca->pd_count);
		return refuse(ENOMEM, CAUSE_OUT_OF_MEMORY, "for a protection domain");
	}
	made->hca = hca;
	made->origin = origin_capture();
	made->ibv.handle = made->handle = hca_next_handle(hca);
	pthread_mutex_lock(&hca->objects_lock);
	DL_APPEND(hca->pds, made);
	pthread_mutex_unlock(&hca->objects_lock);
	*pd = made;
	return 0;
}

int pd_destroy(struct pd *pd)
{
	struct hca *hca = pd->hca;
	int error;

	if (pd->names.destroyed)
		return refuse(ENOENT, CAUSE_HANDLE_CHANGED,
			      "ibv_dealloc_pd(): another import of it was deallocated already");
	error = users_check(&pd->users, hca, pd, "ibv_dealloc_pd()");
	if (error)
		return error;
	pthread_mutex_lock(&hca->objects_lock);
	DL_DELETE(hca->pds, pd);
	pthread_mutex_unlock(&hca->objects_lock);
	names_destroy(&pd->names);
	capacity_put(&hca->pd_count);
	return 0;
}

void pd_put(struct pd *pd)
{
	if (!names_end(&pd->names))
		return;
	origin_free(pd->origin);
	quarantine_free(pd, sizeof(*pd));
}

struct pd *pd_find(struct hca *hca, uint32_t handle)
{
	struct pd *pd;

	pthread_mutex_lock(&hca->objects_lock);
	DL_SEARCH_SCALAR(hca->pds, pd, handle, handle);
	pthread_mutex_unlock(&hca->objects_lock);
	return pd;
}

/* "0 10.0.0.1, 1 fe80::1": the GIDs of a table, as far as there is room. Returns @text. */
static const char *list_gids(struct gid_table *gids, char *text, size_t size)
{
	char address[INET6_ADDRSTRLEN];
	struct gid_entry entry;
	size_t used = 0;

	text[0] = '\0';
	for (unsigned int i = 0; used < size && gid_table_next(gids, &i, &entry); i++)
		used += snprintf(text + used, size - used, "%s%u %s", used ? ", " : "", i,
				 gid_to_text(&entry.gid, address));
	return text;
}

static int refuse_gid_index(struct gid_table *gids, const struct ibv_ah_attr *attr, int error)
{
	char text[GIDS_TEXT];

	return refuse(error, CAUSE_PATH_NO_GID, "sgid_index is %u: port %u has the GIDs %s",
		      attr->grh.sgid_index, attr->port_num, list_gids(gids, text, sizeof(text)));
}

static int refuse_families(struct gid_table *gids, const struct ibv_ah_attr *attr,
			   const union ibv_gid *source)
{
	char from[INET6_ADDRSTRLEN], to[INET6_ADDRSTRLEN], text[GIDS_TEXT];

	return refuse(EINVAL, CAUSE_PATH_FAMILIES,
		      "from %s (sgid_index %u) to %s (dgid); port %u has the GIDs %s",
		      gid_to_text(source, from), attr->grh.sgid_index,
		      gid_to_text(&attr->grh.dgid, to), attr->port_num,
		      list_gids(gids, text, sizeof(text)));
}

/* As Linux, which looks for the next hop when it is given a path (ib_resolve_eth_dmac()). */
static int check_route(const struct hca *hca, const struct ibv_ah_attr *attr,
		       const struct gid_entry *source)
{
	char from[INET6_ADDRSTRLEN], to[INET6_ADDRSTRLEN];
	int error = hca->host->check_route ? hca->host->check_route(source, &attr->grh.dgid) : 0;

	if (!error)
		return 0;
	return refuse(error, CAUSE_PATH_NO_NEIGHBOUR, "from %s (sgid_index %u) to %s (dgid): %s",
		      gid_to_text(&source->gid, from), attr->grh.sgid_index,
		      gid_to_text(&attr->grh.dgid, to), strerror(error));
}

int path_resolve(struct hca *hca, const struct ibv_ah_attr *attr, struct path *path)
{
	const struct ibv_global_route *grh = &attr->grh;
	bool multicast = gid_is_multicast(&grh->dgid);
	struct gid_table *gids = port_gids_table(&hca->gids, attr->port_num);
	struct gid_entry source;
	int error;

	if (!gids)
		return refuse(EINVAL, CAUSE_NO_PORT, "ah_attr.port_num is %u: ports are 1 to %u",
			      attr->port_num, port_gids_count(&hca->gids));
	if (!attr->is_global)
		return refuse(EINVAL, CAUSE_PATH_NOT_GLOBAL,
			      "ah_attr.is_global is 0, dlid %u: RoCE needs is_global = 1 (a GRH); "
			      "of a tool it is an option: -g 0",
			      attr->dlid);
	error = gid_table_get(gids, grh->sgid_index, &source);
	if (error)
		return refuse_gid_index(gids, attr, error);
	/* One IP packet has one family (a multicast GID may name a group of either). */
	if (!multicast && gid_is_ipv4(&source.gid) != gid_is_ipv4(&grh->dgid))
		return refuse_families(gids, attr, &source.gid);
	error = multicast ? 0 : check_route(hca, attr, &source);
	if (error)
		return error;
	*path = (struct path){
		.source = source.gid,
		.destination = grh->dgid,
		.flow_label = grh->flow_label & FLOW_LABEL_MASK,
		.traffic_class = grh->traffic_class,
		/* Linux takes the route's for unicast, whatever the address vector says. */
		.hop_limit = multicast ? grh->hop_limit : HOP_LIMIT_DEFAULT,
	};
	return 0;
}

struct ibv_ah_attr path_ah_attr(const struct path *path, const struct port_gids *gids)
{
	struct gid_place source;

	port_gids_find(gids, &path->source, &source);
	return (struct ibv_ah_attr){
		.is_global = 1,
		.port_num = source.port_num,
		.grh = {.dgid = path->destination,
			.flow_label = path->flow_label,
			.sgid_index = source.index,
			.hop_limit = path->hop_limit,
			.traffic_class = path->traffic_class},
	};
}

int ah_create(struct pd *pd, const struct ibv_ah_attr *attr, struct ah **ah)
{
	struct hca *hca = pd->hca;
	struct path path;
	struct ah *made;
	int error;

	error = path_resolve(hca, attr, &path);
	if (!error)
		error = capacity_take(hca, &hca->ah_count, hca->limits.device.max_ah,
				      "address handles", "max_ah");
	if (error)
		return error;
	made = calloc(1, sizeof(*made));
	if (!made) {
		capacity_put(&hca->ah_count);
		return refuse(ENOMEM, CAUSE_OUT_OF_MEMORY, "for an address handle");
	}
	made->pd = pd;
	made->port_num = attr->port_num;
	made->path = path;
	made->origin = origin_capture();
	made->ibv.handle = made->handle = hca_next_handle(hca);
	users_add(&pd->users, USER_AH, 1);
	*ah = made;
	return 0;
}

void ah_destroy(struct ah *ah)
{
	capacity_put(&ah->pd->hca->ah_count);
	origin_free(ah->origin);
	users_add(&ah->pd->users, USER_AH, -1);
	quarantine_free(ah, sizeof(*ah));
}
