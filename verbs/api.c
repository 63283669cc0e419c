/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * include/urxe.h.
 */
#include "include/urxe.h"

#include <errno.h>
#include <pthread.h>

#include "emu/hca.h"
#include "verbs/counters.h"
#include "verbs/devices.h"
#include "verbs/preload/export.h"

static const char *const names[] = {
#define X(name) #name,
	COUNTERS(X)
#undef X
};

#define NAME_COUNT (sizeof(names) / sizeof(*names))

unsigned int device_counters(struct device *device, struct urxe_counter *counters, unsigned int max)
{
	uint64_t values[NAME_COUNT] = {};
	unsigned int i = 0;

	pthread_mutex_lock(&device->lock);
	if (device->hca) {
#define X(name)                                                                                    \
	values[i++] = atomic_load_explicit(&device->hca->counters.name, memory_order_relaxed);
		COUNTERS(X)
#undef X
	}
	pthread_mutex_unlock(&device->lock);
	for (i = 0; i < max && i < NAME_COUNT; i++)
		counters[i] = (struct urxe_counter){.name = names[i], .value = values[i]};
	return NAME_COUNT;
}

EXPORT const char *urxe_version(void)
{
	return URXE_VERSION;
}

EXPORT int urxe_counters(const char *name, struct urxe_counter *counters, unsigned int max)
{
	struct device *device = devices_find(name);

	if (!device) {
		errno = ENODEV;
		return -1;
	}
	return device_counters(device, counters, max);
}
