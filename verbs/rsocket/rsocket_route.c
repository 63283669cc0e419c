/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * SOL_RDMA, RDMA_ROUTE: path records, an array of struct ibv_path_data. Those that are set before
 * the connection is made are asked for instead of a route, by RDMA_OPTION_IB_PATH, which says what
 * of them a device heeds; those that are got are of the connection, once it has any.
 */
#include <errno.h>
#include <infiniband/sa.h>
#include <stdlib.h>
#include <string.h>

#include "net/cause/cause.h"
#include "verbs/rsocket/rsocket.h"

int rsocket_route_set(struct rsocket *rs, const void *value, socklen_t length)
{
	void *paths;

	if (rs->datagram)
		return ENOTSUP;
	if (!value)
		return EFAULT;
	if (rs->state > RSOCKET_BOUND || !length || length % sizeof(struct ibv_path_data))
		return EINVAL;
	paths = malloc(length);
	if (!paths)
		return refuse(ENOMEM, CAUSE_OUT_OF_MEMORY, "for the route of an rsocket");
	memcpy(paths, value, length);
	free(rs->route);
	rs->route = paths;
	rs->route_length = length;
	return 0;
}

static struct ibv_path_data path_data(const struct ibv_sa_path_rec *path)
{
	return (struct ibv_path_data){
		.flags = IBV_PATH_FLAG_GMP | IBV_PATH_FLAG_PRIMARY | IBV_PATH_FLAG_BIDIRECTIONAL,
		.path = {.dgid = path->dgid,
			 .sgid = path->sgid,
			 .dlid = path->dlid,
			 .slid = path->slid,
			 .flowlabel_hoplimit =
				 htobe32(be32toh(path->flow_label) << 8 | path->hop_limit),
			 .tclass = path->traffic_class,
			 .reversible_numpath = (path->reversible ? 0x80 : 0) | path->numb_path,
			 .pkey = path->pkey,
			 .qosclass_sl = htobe16(path->sl),
			 .mtu = path->mtu_selector << 6 | path->mtu,
			 .rate = path->rate_selector << 6 | path->rate,
			 .packetlifetime =
				 path->packet_life_time_selector << 6 | path->packet_life_time,
			 .preference = path->preference},
	};
}

int rsocket_route_get(const struct rsocket *rs, void *value, socklen_t *length)
{
	struct ibv_path_data *paths = value;
	const struct rdma_route *route;
	socklen_t used = 0;

	if (rs->datagram)
		return ENOTSUP;
	if (!value || !length)
		return EFAULT;
	if (*length < sizeof(*paths))
		return EINVAL;
	route = &rs->id->route;
	if (!route->num_paths && rs->route) {
		used = *length < rs->route_length ? *length : rs->route_length;
		memcpy(value, rs->route, used);
	}
	for (int i = 0; i < route->num_paths && used + sizeof(*paths) <= *length; i++) {
		paths[i] = path_data(&route->path_rec[i]);
		used += sizeof(*paths);
	}
	*length = used;
	return 0;
}

int rsocket_route_resolve(struct rsocket *rs)
{
	int result = rs->route ? rdma_set_option(rs->id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH,
						 rs->route, rs->route_length)
			       : rdma_resolve_route(rs->id, RSOCKET_RESOLVE_TIMEOUT);

	return result < 0 ? errno : 0;
}
