/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/registry.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "net/log.h"
#include "verbs/device.h"
#include "verbs/event.h"
#include "verbs/rdma/rdma.h"

#define DEFAULT_DEVICE "urxe0"

static struct registry {
	pthread_once_t configuration_once;
	struct configuration configuration;

	pthread_once_t devices_once;
	struct device *devices;
	unsigned int device_count;
	bool failed; /* the configuration or a device, and this was logged */

	pthread_mutex_t lock;
	unsigned int users; /* open devices */
	struct progress *progress;
	struct capture *capture;
} registry = {
	.configuration_once = PTHREAD_ONCE_INIT,
	.devices_once = PTHREAD_ONCE_INIT,
	.lock = PTHREAD_MUTEX_INITIALIZER,
};

/* --- configuration ---------------------------------------------------------- */

static void read_configuration(void)
{
	configuration_read(&registry.configuration);
	log_set_level(registry.configuration.log_level);
}

const struct configuration *registry_configuration(void)
{
	pthread_once(&registry.configuration_once, read_configuration);
	return &registry.configuration;
}

/* --- devices --------------------------------------------------------------- */

static bool add_device(const char *name, const char *node)
{
	int error = device_init(&registry.devices[registry.device_count], name, node);

	if (error == EINVAL) {
		log_error("device %s: \"%s\" is not a list of IP addresses; there are no devices",
			  name, node ? node : "");
		return false;
	}
	if (error) {
		log_error("device %s: %s%s: %s; there are no devices", name,
			  node ? "address " : "this machine's addresses", node ? node : "",
			  strerror(error));
		return false;
	}
	registry.device_count++;
	return true;
}

static bool name_is_good(const char *name)
{
	if (!*name || strlen(name) >= IBV_SYSFS_NAME_MAX)
		return false;
	for (unsigned int i = 0; i < registry.device_count; i++) {
		if (strcmp(registry.devices[i].ibv.name, name) == 0)
			return false;
	}
	return name[strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				 "0123456789_-")] == '\0';
}

static bool refuse(const char *item, const char *expected)
{
	log_error("URXE_DEVICES=%s is not %s; there are no devices", item, expected);
	return false;
}

/* "name=addresses;name=addresses", which is cut up in place. */
static bool add_listed_devices(char *list)
{
	char *rest = NULL;

	for (char *item = strtok_r(list, ";", &rest); item; item = strtok_r(NULL, ";", &rest)) {
		char *addresses = strchr(item, '=');

		if (!addresses)
			return refuse(item, "of the form name=address[,address]");
		*addresses++ = '\0';
		if (!name_is_good(item))
			return refuse(item, "a device name of its own");
		if (!add_device(item, addresses))
			return false;
	}
	return true;
}

static bool make_devices(void)
{
	const char *value = registry.configuration.devices;
	unsigned int capacity = 1;
	char *list;
	bool good;

	for (const char *c = value; c && *c; c++)
		capacity += *c == ';';
	registry.devices = calloc(capacity, sizeof(*registry.devices));
	list = value ? strdup(value) : NULL;
	if (!registry.devices || (value && !list)) {
		log_error("out of memory; there are no devices");
		return false;
	}
	good = list ? add_listed_devices(list)
		    : add_device(DEFAULT_DEVICE, registry.configuration.node);
	free(list);
	return good;
}

/* A fork finds nothing half open: what isn't in its place couldn't be let go of by the child. */
static void before_fork(void)
{
	rdma_before_fork();
	for (unsigned int i = 0; i < registry.device_count; i++)
		pthread_mutex_lock(&registry.devices[i].lock);
	pthread_mutex_lock(&registry.lock);
	event_before_fork();
}

static void after_fork(void)
{
	event_after_fork();
	pthread_mutex_unlock(&registry.lock);
	for (unsigned int i = 0; i < registry.device_count; i++)
		pthread_mutex_unlock(&registry.devices[i].lock);
}

static void after_fork_in_parent(void)
{
	after_fork();
	rdma_after_fork();
}

/*
 * The child of a fork starts with nothing open: the sockets, the QPs and the
 * thread are the parent's.
 */
static void after_fork_in_child(void)
{
	registry.users = 0;
	registry.progress = NULL;
	registry.capture = NULL;
	for (unsigned int i = 0; i < registry.device_count; i++)
		device_after_fork_child(&registry.devices[i]);
	after_fork();
	rdma_after_fork_child();
}

static void start(void)
{
	const struct configuration *configuration = registry_configuration();

	registry.device_count = 0; /* a fork may have interrupted another thread in here */
	if (configuration->error) {
		log_error("%s; there are no devices", configuration->error);
		registry.failed = true;
	} else if (configuration->mode != MODE_HW) {
		registry.failed = !make_devices();
	}
	if (registry.failed)
		registry.device_count = 0;
	pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

/*
 * A program may leave without a word to its QPs and connections. What it received
 * last may not have been acknowledged yet, and its peer would repeat it in vain;
 * and a peer that only waits would never learn that the connection is gone.
 */
static __attribute__((destructor)) void leave(void)
{
	for (unsigned int i = 0; i < registry.device_count; i++)
		device_flush_on_exit(&registry.devices[i]);
}

static void start_once(void)
{
	pthread_once(&registry.devices_once, start);
}

bool registry_failed(void)
{
	start_once();
	return registry.failed;
}

unsigned int registry_devices(struct device **devices)
{
	start_once();
	*devices = registry.devices;
	return registry.device_count;
}

struct device *registry_device(const char *name)
{
	start_once();
	for (unsigned int i = 0; i < registry.device_count; i++) {
		if (strcmp(registry.devices[i].ibv.name, name) == 0)
			return &registry.devices[i];
	}
	return NULL;
}

/* --- what open devices share ------------------------------------------------ */

static int start_shared(void)
{
	const char *pcap = registry.configuration.pcap;
	int error;

	if (pcap) {
		registry.capture = capture_open(pcap);
		if (!registry.capture) {
			error = errno ? errno : EIO;
			log_error("URXE_PCAP=%s: %s", pcap, strerror(error));
			return error;
		}
	}
	error = progress_create(&registry.progress);
	if (error && registry.capture) {
		capture_close(registry.capture);
		registry.capture = NULL;
	}
	return error;
}

int registry_acquire(struct progress **progress, struct capture **capture)
{
	int error = 0;

	pthread_mutex_lock(&registry.lock);
	if (registry.users == 0)
		error = start_shared();
	if (!error) {
		registry.users++;
		*progress = registry.progress;
		*capture = registry.capture;
	}
	pthread_mutex_unlock(&registry.lock);
	return error;
}

void registry_release(void)
{
	pthread_mutex_lock(&registry.lock);
	if (--registry.users == 0) {
		progress_destroy(registry.progress);
		registry.progress = NULL;
		if (registry.capture)
			capture_close(registry.capture);
		registry.capture = NULL;
	}
	pthread_mutex_unlock(&registry.lock);
}
