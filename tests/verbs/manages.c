/* SPDX-License-Identifier: BSD-2-Clause */
/* Print what a program of rdma_cm finds. Linked with the real librdmacm; run under the preload. */
#include <errno.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <string.h>

static int fail(const char *call)
{
	printf("%s: %s\n", call, strerror(errno));
	return 0;
}

int main(void)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *id;

	if (!channel)
		return fail("rdma_create_event_channel");
	if (rdma_create_id(channel, &id, NULL, RDMA_PS_TCP))
		return fail("rdma_create_id");
	rdma_destroy_id(id);
	rdma_destroy_event_channel(channel);
	puts("done");
	return 0;
}
