/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The interface that programs have beside the verbs (include/urxe.h), and the counters of devices
 * that it shows (verbs/counters.h).
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

_Static_assert(NAME_COUNT <= COUNTERS_MAX, "device_port_counters() has space for all");

struct values {
#define X(name) uint64_t name;
	COUNTERS(X)
#undef X
};

static void read_counters(struct hca *hca, struct values *values)
{
#define X(name) values->name = atomic_load_explicit(&hca->counters->name, memory_order_relaxed);
	COUNTERS(X)
#undef X
}

static void read_port_counters(struct port_counters *counters, struct values *values)
{
#define X(name) values->name = atomic_load_explicit(&counters->name, memory_order_relaxed);
	PORT_COUNTERS(X)
#undef X
}

static unsigned int list(const struct values *values, struct urxe_counter *counters,
			 unsigned int max)
{
	const uint64_t numbers[] = {
#define X(name) values->name,
		COUNTERS(X)
#undef X
	};

	for (unsigned int i = 0; i < max && i < NAME_COUNT; i++)
		counters[i] = (struct urxe_counter){.name = names[i], .value = numbers[i]};
	return NAME_COUNT;
}

/* @port: of what is counted by port, that of this one; NULL: of all. */
static unsigned int device_counters(struct device *device, const struct port *port,
				    struct urxe_counter *counters, unsigned int max)
{
	struct values values = {};

	pthread_mutex_lock(&device->lock);
	if (device->hca)
		read_counters(device->hca, &values);
	if (device->hca && port && port_gids_count(&device->gids) > 1)
		read_port_counters(&device->hca->port_counters[port->number - 1], &values);
	pthread_mutex_unlock(&device->lock);
	return list(&values, counters, max);
}

unsigned int device_port_counters(struct port *port, struct urxe_counter counters[COUNTERS_MAX])
{
	return device_counters(port->device, port, counters, COUNTERS_MAX);
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
	return device_counters(device, NULL, counters, max);
}
