/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program that isn't linked with libibverbs but loads it, as NCCL does: by
 * several names, and its functions with their versions. Run under the preload;
 * prints the first device's name.
 *
 * Built without optimisation too: the wrapper of dlopen() has to be a jump.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <infiniband/verbs.h>

static int complain(const char *what)
{
	const char *why = dlerror();

	fprintf(stderr, "%s: %s\n", what, why ? why : "?");
	return 1;
}

static int load(const char *file)
{
	struct ibv_device **(*list)(int *);
	void (*release)(struct ibv_device **);
	struct ibv_device **devices;
	const char *(*name)(struct ibv_device *);
	void *handle = dlopen(file, RTLD_NOW);
	int count = 0;

	if (!handle)
		return complain(file);
	list = (struct ibv_device * *(*)(int *))
		dlvsym(handle, "ibv_get_device_list", "IBVERBS_1.1");
	release = (void (*)(struct ibv_device **))dlvsym(handle, "ibv_free_device_list",
							 "IBVERBS_1.1");
	name = (const char *(*)(struct ibv_device *))dlvsym(handle, "ibv_get_device_name",
							    "IBVERBS_1.1");
	if (!list || !release || !name)
		return complain(file);
	if (!dlvsym(handle, "ibv_reg_mr_iova2", "IBVERBS_1.8") ||
	    !dlvsym(handle, "ibv_reg_dmabuf_mr", "IBVERBS_1.12") ||
	    !dlvsym(handle, "ibv_query_ece", "IBVERBS_1.10") ||
	    !dlvsym(handle, "ibv_create_comp_channel", "IBVERBS_1.0"))
		return complain(file);
	/* As on the real library: it has this version only at 1.0. */
	if (dlvsym(handle, "ibv_create_comp_channel", "IBVERBS_1.1"))
		return complain("ibv_create_comp_channel@IBVERBS_1.1");
	devices = list(&count);
	if (!devices || count != 1)
		return complain("ibv_get_device_list");
	printf("%s %s\n", file, name(devices[0]));
	release(devices);
	return dlclose(handle);
}

int main(int argc, char **argv)
{
	void *handle;

	for (int i = 1; i < argc; i++) {
		if (load(argv[i]))
			return 1;
	}
	/* Another name goes through; one that doesn't exist fails; NULL is the program. */
	handle = dlopen("libc.so.6", RTLD_NOW);
	if (!handle || !dlsym(handle, "printf"))
		return complain("libc.so.6");
	if (dlopen("libibverbs-not.so.7", RTLD_NOW))
		return complain("libibverbs-not.so.7");
	if (!dlopen(NULL, RTLD_NOW))
		return complain("NULL");
	handle = dlopen("librdmacm.so.1", RTLD_NOW);
	if (!handle || !dlvsym(handle, "rdma_resolve_addr", "RDMACM_1.0") ||
	    !dlvsym(handle, "rdma_establish", "RDMACM_1.2"))
		return complain("librdmacm.so.1");
	/* This plugin lies where only the program's own RUNPATH leads. */
	if (!dlopen("liburxe-test-plugin.so", RTLD_NOW))
		return complain("liburxe-test-plugin.so");
	return 0;
}
