/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Device lists: ours, the real library's, or both, as URXE_MODE says. A list of
 * ours keeps the real one behind it, to free it with it. A library may free a list that
 * its caller got (librdmacm does), and lists of the real library come here to be freed
 * too: ours are known by their place in the chain of lists.
 *
 * lists.lock protects the chain; nothing is called with it held.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "net/cause/cause.h"
#include "net/quarantine.h"
#include "verbs/check/check.h"
#include "verbs/context.h"
#include "verbs/devices.h"
#include "verbs/preload/export.h"
#include "verbs/preload/real.h"
#include "verbs/registry.h"

struct list {
	struct list *next;
	struct ibv_device **real;
	struct ibv_device *devices[];
};

static void lists_add_hooks(void);

static struct {
	pthread_once_t once;
	pthread_mutex_t lock;
	struct list *first;
	bool explained; /* why there is no hardware */
} lists = {.once = PTHREAD_ONCE_INIT, .lock = PTHREAD_MUTEX_INITIALIZER};

static void lists_enter(void)
{
	pthread_once(&lists.once, lists_add_hooks);
	pthread_mutex_lock(&lists.lock);
}

static void lists_leave(void)
{
	pthread_mutex_unlock(&lists.lock);
}

/* The child may free the lists that its parent got. */
static void lists_add_hooks(void)
{
	static struct registry_hooks hooks = {
		.order = FORK_LEAF,
		.before_fork = lists_enter,
		.after_fork_in_parent = lists_leave,
		.after_fork_in_child = lists_leave,
	};

	registry_add_hooks(&hooks);
}

/*
 * The real list, or NULL with errno. What the real library calls while it makes
 * one must not come back to us: it wants its own devices.
 */
static struct ibv_device **real_list(int *count)
{
	static void *cache;
	struct ibv_device **(*get)(int *) =
		real_find(&cache, REAL_VERBS, "ibv_get_device_list", "IBVERBS_1.1");
	struct ibv_device **real;

	*count = 0;
	if (!get) {
		errno = ENOENT;
		return NULL;
	}
	inside_real++;
	real = get(count);
	inside_real--;
	return real;
}

static void free_real_list(struct ibv_device **real)
{
	static void *cache;
	void (*release)(struct ibv_device **);

	if (!real) /* nor does the real library have to be loaded */
		return;
	release = real_find(&cache, REAL_VERBS, "ibv_free_device_list", "IBVERBS_1.1");
	if (release)
		release(real);
}

/* A program that asked for hardware shall know why it has none. */
static void explain_no_hardware(int error)
{
	if (__atomic_exchange_n(&lists.explained, true, __ATOMIC_RELAXED))
		return;
	cause_error(CAUSE_NO_HARDWARE, "URXE_MODE=hw: no RDMA hardware: %s",
		    error == ENOENT ? "no libibverbs.so.1 on this host"
		    : error	    ? strerror(error)
				    : "libibverbs lists no devices");
}

static struct list *make_list(int *count)
{
	enum mode mode = registry_mode();
	struct ibv_device **real = NULL;
	struct device *own;
	unsigned int own_count = devices_all(&own);
	int real_count = 0;
	struct list *list;

	if (mode != MODE_EMU && !devices_failed()) {
		errno = 0;
		real = real_list(&real_count);
		if (real_count == 0 && mode == MODE_HW)
			explain_no_hardware(real ? 0 : errno);
	}
	list = calloc(1, sizeof(*list) + (own_count + real_count + 1) * sizeof(*list->devices));
	if (!list) {
		free_real_list(real);
		return fail(refuse(ENOMEM, CAUSE_OUT_OF_MEMORY, "for a list of devices"));
	}
	list->real = real;
	for (unsigned int i = 0; i < own_count; i++)
		list->devices[i] = &own[i].ibv;
	for (int i = 0; i < real_count; i++)
		list->devices[own_count + i] = real[i];
	*count = own_count + real_count;
	return list;
}

EXPORT struct ibv_device **ibv_get_device_list(int *num_devices)
{
	struct list *list;
	int count = 0;

	if (inside_real)
		return real_list(num_devices ? num_devices : &count);
	list = make_list(&count);
	if (num_devices)
		*num_devices = count;
	if (!list)
		return NULL;
	lists_enter();
	LL_PREPEND(lists.first, list);
	lists_leave();
	/* The real library may have failed on the way: that is no error of ours. */
	errno = 0;
	return check_is_on() ? object_made(OBJECT_DEVICE_LIST, list->devices, NULL) : list->devices;
}

EXPORT void ibv_free_device_list(struct ibv_device **devices)
{
	struct list *list;

	if (check_is_on() && !check_destroy("ibv_free_device_list()", OBJECT_DEVICE_LIST, devices))
		return;
	lists_enter();
	LL_FOREACH (lists.first, list) {
		if (list->devices == devices)
			break;
	}
	if (list)
		LL_DELETE(lists.first, list);
	lists_leave();

	if (check_is_on())
		object_destroyed(devices);
	free_real_list(list ? list->real : devices);
	quarantine_free_as(list, sizeof(*list), devices);
}
