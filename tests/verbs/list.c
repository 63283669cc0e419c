/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Print what a program finds: the devices, and with -o whether each opens. Linked
 * with the real libibverbs; run under the preload.
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <string.h>

/* A few calls whose objects are the real library's when the device is. */
static void use(struct ibv_device *device)
{
	struct ibv_context *context = ibv_open_device(device);
	struct ibv_device_attr attr = {};
	struct ibv_pd *pd;
	int error;

	if (!context) {
		printf(" open: %s\n", strerror(errno));
		return;
	}
	error = ibv_query_device(context, &attr);
	pd = ibv_alloc_pd(context);
	printf(" open query_device=%d alloc_pd=%s", error, pd ? "yes" : "no");
	if (pd)
		printf(" dealloc_pd=%d", ibv_dealloc_pd(pd));
	printf(" close=%d\n", ibv_close_device(context));
}

int main(int argc, char **argv)
{
	int count = -1;
	struct ibv_device **list = ibv_get_device_list(&count);

	if (!list) {
		printf("no list: %s\n", strerror(errno));
		return 1;
	}
	printf("%d devices\n", count);
	for (int i = 0; i < count; i++) {
		printf("%s", ibv_get_device_name(list[i]));
		if (argc > 1)
			use(list[i]);
		else
			printf(" %016llx\n",
			       (unsigned long long)be64toh(ibv_get_device_guid(list[i])));
	}
	ibv_free_device_list(list);
	return 0;
}
