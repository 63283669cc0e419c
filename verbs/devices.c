/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/devices.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/cause/cause.h"
#include "net/log.h"
#include "verbs/hooks.h"
#include "verbs/profile.h"
#include "verbs/registry.h"

#define DEFAULT_DEVICE "urxe0"
#define ADDRESSES_TEXT 256 /* as many of the machine's addresses as a message names */

static struct {
	pthread_once_t once;
	struct device *devices;
	unsigned int count;
	bool failed; /* the configuration or a device, and this was logged */
} table = {.once = PTHREAD_ONCE_INIT};

/* --- making them ------------------------------------------------------------ */

/* Why @name has no port with the addresses @node: what device_add_port() said. */
static void tell_port_error(const char *name, const char *node, int error)
{
	char local[ADDRESSES_TEXT];

	switch (error) {
	case EINVAL:
		cause_error(CAUSE_NODE_ADDRESSES,
			    "device %s: \"%s\" is not a list of IP addresses or interfaces; there "
			    "are no devices",
			    name, node ? node : "");
		break;
	case E2BIG:
		cause_error(CAUSE_NODE_PORTS,
			    "device %s: a device has %d ports at most, and \"%s\" is one more; "
			    "there are no devices",
			    name, PORTS_MAX, node);
		break;
	case EEXIST:
		cause_error(CAUSE_NODE_ADDRESS_TWICE,
			    "device %s: its other port has an address of \"%s\", too; there are "
			    "no devices",
			    name, node);
		break;
	case EADDRNOTAVAIL:
		gid_local_text(local, sizeof(local));
		cause_error(CAUSE_NODE_NOT_LOCAL,
			    "device %s: address %s: %s; there are no devices; this machine has %s",
			    name, node, strerror(error), local);
		break;
	default:
		cause_error(CAUSE_NODE_UNKNOWN, "device %s: %s%s: %s; there are no devices", name,
			    node ? "address " : "this machine's addresses", node ? node : "",
			    strerror(error));
	}
}

static bool add_port(struct device *device, const char *node)
{
	int error = device_add_port(device, node);

	if (error)
		tell_port_error(device->ibv.name, node, error);
	return !error;
}

/*
 * The next device's: as the kernel names them, for PSM3 counts the files of /dev/infiniband that
 * are named so. In mode both they may be those of real devices.
 */
static void choose_dev_name(char dev_name[IBV_SYSFS_NAME_MAX], const char *name)
{
	if (registry_configuration()->mode == MODE_BOTH)
		snprintf(dev_name, IBV_SYSFS_NAME_MAX, "%s", name);
	else
		snprintf(dev_name, IBV_SYSFS_NAME_MAX, "uverbs%u", table.count);
}

/* @node: addresses of the first port, '/' and those of the second, cut up in place; or NULL. */
static bool add_device(const char *name, char *node)
{
	struct device *device = &table.devices[table.count];
	char dev_name[IBV_SYSFS_NAME_MAX], *addresses;

	choose_dev_name(dev_name, name);
	device_init(device, name, dev_name);
	do {
		addresses = strsep(&node, "/");
		if (!add_port(device, addresses))
			return false;
	} while (node);
	table.count++;
	return true;
}

static bool name_is_good(const char *name)
{
	if (!*name || strlen(name) >= IBV_SYSFS_NAME_MAX)
		return false;
	for (unsigned int i = 0; i < table.count; i++) {
		if (strcmp(table.devices[i].ibv.name, name) == 0)
			return false;
	}
	return name[strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				 "0123456789_-")] == '\0';
}

static bool not_a_device(const char *item, const char *expected)
{
	cause_error(CAUSE_DEVICES_LIST, "URXE_DEVICES=%s is not %s; there are no devices", item,
		    expected);
	return false;
}

/* "name=addresses;name=addresses", which is cut up in place. */
static bool add_listed_devices(char *list)
{
	char *rest = NULL;

	for (char *item = strtok_r(list, ";", &rest); item; item = strtok_r(NULL, ";", &rest)) {
		char *addresses = strchr(item, '=');

		if (!addresses)
			return not_a_device(item, "of the form name=address[,address][/address]");
		*addresses++ = '\0';
		if (!name_is_good(item))
			return not_a_device(item, "a device name of its own");
		if (!add_device(item, addresses))
			return false;
	}
	return true;
}

static bool make_devices(void)
{
	const struct configuration *configuration = registry_configuration();
	const char *value = configuration->devices ? configuration->devices : configuration->node;
	unsigned int capacity = 1;
	char *list;
	bool good;

	for (const char *c = value; c && *c; c++)
		capacity += *c == ';';
	table.devices = calloc(capacity, sizeof(*table.devices));
	list = value ? strdup(value) : NULL;
	if (!table.devices || (value && !list)) {
		log_error("out of memory; there are no devices");
		return false;
	}
	good = configuration->devices ? add_listed_devices(list) : add_device(DEFAULT_DEVICE, list);
	free(list);
	return good;
}

/* --- fork and exit ----------------------------------------------------------- */

static void devices_before_fork(void)
{
	for (unsigned int i = 0; i < table.count; i++)
		device_before_fork(&table.devices[i]);
}

static void devices_after_fork_in_parent(void)
{
	for (unsigned int i = 0; i < table.count; i++)
		device_after_fork(&table.devices[i]);
}

static void devices_after_fork_in_child(void)
{
	for (unsigned int i = 0; i < table.count; i++) {
		device_after_fork_child(&table.devices[i]);
		device_after_fork(&table.devices[i]);
	}
}

/*
 * A program may end without destroying its QPs and ids. What it received last may not have been
 * acknowledged yet, and its peer would repeat it in vain; and a peer that only waits would never
 * learn that the connection is gone.
 */
static void devices_flush_on_exit(void)
{
	if (registry_is_copied())
		return;
	for (unsigned int i = 0; i < table.count; i++)
		device_flush_on_exit(&table.devices[i]);
}

static void devices_end(void)
{
	for (unsigned int i = 0; i < table.count; i++)
		device_end(&table.devices[i]);
}

static struct registry_hooks hooks = {
	.order = FORK_DEVICES,
	.before_fork = devices_before_fork,
	.after_fork_in_parent = devices_after_fork_in_parent,
	.after_fork_in_child = devices_after_fork_in_child,
	.at_exit = devices_flush_on_exit,
	.at_immediate_exit = devices_end,
};

/* --- finding them ------------------------------------------------------------ */

static void make_table(void)
{
	const struct configuration *configuration = registry_configuration();

	if (configuration->unknown)
		log_warn("urxe knows no variable %s", configuration->unknown);
	if (configuration->profile && configuration->profile->lowered)
		log_info("profile %s asks for more than urxe has: %s", configuration->profile->name,
			 configuration->profile->lowered);
	table.count = 0; /* a fork may have interrupted another thread in here */
	if (configuration->error) {
		cause_error(CAUSE_CONFIGURATION, "%s; there are no devices", configuration->error);
		table.failed = true;
	} else if (configuration->mode != MODE_HW) {
		table.failed = !make_devices();
	}
	if (table.failed)
		table.count = 0;
	hooks_configure();
	registry_add_hooks(&hooks);
}

/* Reading files and asking for addresses are cancellation points, and it is done once. */
static void devices_make(void)
{
	int state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	make_table();
	pthread_setcancelstate(state, NULL);
}

unsigned int devices_all(struct device **devices)
{
	pthread_once(&table.once, devices_make);
	*devices = table.devices;
	return table.count;
}

bool devices_failed(void)
{
	pthread_once(&table.once, devices_make);
	return table.failed;
}

struct device *devices_find(const char *name)
{
	struct device *devices;
	unsigned int count = devices_all(&devices);

	for (unsigned int i = 0; i < count; i++) {
		if (strcmp(devices[i].ibv.name, name) == 0)
			return &devices[i];
	}
	return NULL;
}
