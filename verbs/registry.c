/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/registry.h"

#include <ctype.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "net/fault/fault.h"
#include "net/log.h"
#include "net/udp/udp.h"
#include "verbs/device.h"
#include "verbs/event.h"
#include "verbs/rdma/rdma.h"

#define DEFAULT_DEVICE "urxe0"

static struct registry {
	pthread_once_t once;
	struct configuration configuration;
	struct device *devices;
	unsigned int device_count;

	pthread_mutex_t lock;
	unsigned int users; /* open devices */
	struct progress *progress;
	struct capture *capture;
} registry = {.once = PTHREAD_ONCE_INIT, .lock = PTHREAD_MUTEX_INITIALIZER};

/* --- the environment ------------------------------------------------------- */

static const char *variable(const char *name)
{
	const char *value = getenv(name);

	return value && *value ? value : NULL;
}

/* The application may change its environment later. */
static const char *copy(const char *name)
{
	const char *value = variable(name);

	return value ? strdup(value) : NULL;
}

static int parse_mode(const char *value, enum mode *mode)
{
	static const char *const names[] = {
		[MODE_EMU] = "emu", [MODE_HW] = "hw", [MODE_BOTH] = "both"};

	*mode = MODE_EMU;
	if (!value)
		return 0;
	for (unsigned int i = 0; i < sizeof(names) / sizeof(*names); i++) {
		if (strcmp(value, names[i]) == 0) {
			*mode = i;
			return 0;
		}
	}
	return EINVAL;
}

static int parse_size(const char *value, unsigned int *size)
{
	char *end;
	unsigned long long number, unit;

	*size = 0;
	if (!value)
		return 0;
	errno = 0;
	number = strtoull(value, &end, 10);
	unit = *end == 'K' || *end == 'k' ? 1 << 10 : *end == 'M' || *end == 'm' ? 1 << 20 : 1;
	end += unit > 1;
	if (!isdigit((unsigned char)*value) || errno || *end || number == 0 ||
	    number > INT32_MAX / unit)
		return EINVAL;
	*size = number * unit;
	return 0;
}

static int parse_switch(const char *value, bool *on)
{
	*on = value && strcmp(value, "1") == 0;
	return !value || *on || strcmp(value, "0") == 0 ? 0 : EINVAL;
}

/* Nothing is opened yet, but a specification that can't be read is found now. */
static int check_faults(const char *specification, const char **error)
{
	const struct udp_options options = {0};
	struct link *inner, *link;
	int result = udp_link_create(&options, &inner);

	if (result)
		return result;
	result = fault_link_create(inner, specification, &link, error);
	if (result)
		inner->ops->close(inner);
	else
		link->ops->close(link);
	return result;
}

static bool refuse(const char *name, const char *value, const char *expected)
{
	log_error("%s=%s is not %s; there are no devices", name, value, expected);
	return false;
}

static bool read_environment(struct configuration *configuration)
{
	const char *value = variable("URXE_LOG");
	const char *error = NULL;
	enum log_level level;
	bool unsegmented;

	if (value) {
		if (log_parse_level(value, &level))
			return refuse("URXE_LOG", value, "error, warn, info or debug");
		log_set_level(level);
	}
	value = variable("URXE_MODE");
	if (parse_mode(value, &configuration->mode))
		return refuse("URXE_MODE", value, "emu, hw or both");
	value = variable("URXE_RCVBUF");
	if (parse_size(value, &configuration->receive_buffer))
		return refuse("URXE_RCVBUF", value, "a number of bytes, such as 4M");
	value = variable("URXE_NO_GSO");
	if (parse_switch(value, &unsegmented))
		return refuse("URXE_NO_GSO", value, "0 or 1");
	configuration->segmentation = !unsegmented;
	configuration->pcap = copy("URXE_PCAP");
	configuration->faults = copy("URXE_FAULTS");
	if (configuration->faults && check_faults(configuration->faults, &error)) {
		log_error("URXE_FAULTS can't be read at \"%s\"; there are no devices",
			  error ? error : configuration->faults);
		return false;
	}
	if (variable("URXE_NODE") && variable("URXE_DEVICES"))
		return refuse("URXE_DEVICES", variable("URXE_DEVICES"),
			      "possible together with URXE_NODE");
	return true;
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

/* "name=addresses;name=addresses", which is cut up in place. */
static bool add_listed_devices(char *list)
{
	char *rest = NULL;

	for (char *item = strtok_r(list, ";", &rest); item; item = strtok_r(NULL, ";", &rest)) {
		char *addresses = strchr(item, '=');

		if (!addresses)
			return refuse("URXE_DEVICES", item, "of the form name=address[,address]");
		*addresses++ = '\0';
		if (!name_is_good(item))
			return refuse("URXE_DEVICES", item, "a device name of its own");
		if (!add_device(item, addresses))
			return false;
	}
	return true;
}

static bool make_devices(void)
{
	const char *value = variable("URXE_DEVICES");
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
	good = list ? add_listed_devices(list) : add_device(DEFAULT_DEVICE, variable("URXE_NODE"));
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
	struct configuration *configuration = &registry.configuration;

	configuration->bad = !read_environment(configuration);
	if (!configuration->bad && configuration->mode != MODE_HW)
		configuration->bad = !make_devices();
	if (configuration->bad)
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

const struct configuration *registry_configuration(void)
{
	pthread_once(&registry.once, start);
	return &registry.configuration;
}

enum mode registry_mode(void)
{
	enum mode mode;

	parse_mode(variable("URXE_MODE"), &mode);
	return mode;
}

unsigned int registry_devices(struct device **devices)
{
	registry_configuration();
	*devices = registry.devices;
	return registry.device_count;
}

struct device *registry_device(const char *name)
{
	registry_configuration();
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
