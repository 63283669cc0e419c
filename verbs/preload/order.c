/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program that names libibverbs or librdmacm before liburxe when it is linked never calls us: it
 * gets its functions from the first library that has them. So this is said when we are loaded, the
 * one thing that is said before a program lists devices. The dynamic linker calls it.
 */
#include <dlfcn.h>

#include "net/log.h"
#include "verbs/preload/real.h"
#include "verbs/registry.h"

/* A function of each library, as the program would find it. */
static const char *const functions[] = {"ibv_get_device_list", "rdma_create_event_channel"};

static __attribute__((constructor)) void warn_of_link_order(void)
{
	for (unsigned int i = 0; i < sizeof(functions) / sizeof(*functions); i++) {
		const void *found = dlsym(RTLD_DEFAULT, functions[i]);

		if (!found || !real_contains(found) || registry_mode() == MODE_HW)
			continue;
		log_warn("this program has %s from the real library, not from liburxe: link it "
			 "with -lurxe before -libverbs and -lrdmacm (pkg-config --libs urxe)",
			 functions[i]);
		return;
	}
}
