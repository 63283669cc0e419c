/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * In place of the real librdmacm, on hosts whose kernel has no rdma_cm: says which of its
 * functions are called.
 */
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT struct rdma_event_channel *rdma_create_event_channel(void)
{
	static struct rdma_event_channel channel = {.fd = -1};

	puts("real: rdma_create_event_channel");
	return &channel;
}

EXPORT void rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
	puts("real: rdma_destroy_event_channel");
}

EXPORT int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **result,
			  void *context, enum rdma_port_space ps)
{
	static struct rdma_cm_id id;

	puts("real: rdma_create_id");
	*result = &id;
	return 0;
}

EXPORT int rdma_destroy_id(struct rdma_cm_id *id)
{
	puts("real: rdma_destroy_id");
	return 0;
}
