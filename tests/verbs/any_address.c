/* SPDX-License-Identifier: BSD-2-Clause */
/* Addresses of ids: of IP, and of InfiniBand, which are a GID and a service. */
#include <endian.h>
#include <infiniband/ib.h>
#include <stdio.h>
#include <string.h>

#include "tests/verbs/any_worker.h"
#include "tests/verbs/fixture.h"
#include "tests/verbs/manager.h"

static uint64_t first_service(enum model_space space)
{
	if (space == SPACE_TCP)
		return RDMA_IB_IP_PS_TCP;
	return space == SPACE_UDP ? RDMA_IB_IP_PS_UDP : RDMA_IB_PS_IB;
}

/* Good until the thread's next but three, as those of socket_address(). */
static struct sockaddr *ib_address(const struct model *model, const char *gid, uint16_t port)
{
	static _Thread_local struct sockaddr_ib ring[4];
	static _Thread_local unsigned int next;
	struct sockaddr_ib *ib = &ring[next++ % 4];

	*ib = (struct sockaddr_ib){
		.sib_family = AF_IB,
		.sib_pkey = htons(0xffff),
		.sib_sid = htobe64(first_service(model->space) + port),
		.sib_sid_mask = htobe64(port ? UINT64_MAX : RDMA_IB_IP_PS_MASK),
	};
	inet_pton(AF_INET6, gid, &ib->sib_addr);
	return (struct sockaddr *)ib;
}

struct sockaddr *model_address(const struct model *model, uint16_t port)
{
	char gid[INET6_ADDRSTRLEN];

	if (model->family != MODEL_IB)
		return socket_address(model->family == MODEL_IPV6 ? "::1" : NULL, port);
	snprintf(gid, sizeof(gid), "::ffff:%s", fixture_address());
	return ib_address(model, gid, port);
}

struct sockaddr *model_any_address(const struct model *model)
{
	if (model->family == MODEL_IB)
		return ib_address(model, "::", 0);
	return socket_address(model->family == MODEL_IPV6 ? "::" : "0.0.0.0", 0);
}

static enum ibv_qp_type qp_type(enum model_space space, bool passive)
{
	if (space == SPACE_XRC)
		return passive ? IBV_QPT_XRC_RECV : IBV_QPT_XRC_SEND;
	return space == SPACE_UDP ? IBV_QPT_UD : IBV_QPT_RC;
}

struct rdma_addrinfo *model_look_up(const struct model *model, bool passive, uint16_t port)
{
	static const enum rdma_port_space spaces[] = {RDMA_PS_TCP, RDMA_PS_UDP, RDMA_PS_IB,
						      RDMA_PS_IB};
	struct rdma_addrinfo hints = {
		.ai_flags = RAI_NUMERICHOST | (passive ? RAI_PASSIVE : 0),
		.ai_port_space = spaces[model->space],
		.ai_qp_type = qp_type(model->space, passive),
	};
	struct rdma_addrinfo *info;
	char service[8];

	if (model->family == MODEL_IB) {
		hints.ai_flags |= RAI_FAMILY;
		hints.ai_family = AF_IB;
	}
	snprintf(service, sizeof(service), "%u", port);
	return rdma_getaddrinfo(model->family == MODEL_IPV6 ? "::1" : (char *)fixture_address(),
				service, &hints, &info) == 0
		       ? info
		       : NULL;
}
