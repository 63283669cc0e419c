/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One of our devices (verbs/devices.h has them all). It lives as long as the process; the
 * HCA behind it exists while a context is open, and is shared by all contexts of the
 * process.
 *
 * device.lock protects what opening brings up. It is held across the binding of
 * sockets, never across a call into the real library. device.contexts_lock protects
 * the list of contexts; it is held while port events are put into their queues, and
 * nothing but those queues' locks is taken under it. The progress thread takes
 * that one alone for what it hears of the port (verbs/device_watch.h).
 */
#ifndef URXE_VERBS_DEVICE_H
#define URXE_VERBS_DEVICE_H

#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "net/wire/gid.h"
#include "verbs/device_watch.h"
#include "verbs/progress.h"

struct cm_event;
struct context;
struct event_sink;
struct hca;
struct link;

struct device {
	struct ibv_device ibv;
	/* Vendor libraries look at the private part of real devices behind it, and find zeros. */
	uint8_t verbs_device_tail[256];

	char *node;	 /* the addresses asked for, or NULL for those of the machine */
	bool unreadable; /* gids could not be filled */
	struct gid_table gids;
	__be64 guid;

	pthread_mutex_t lock;
	unsigned int opened;
	struct link *link;
	struct hca *hca;
	struct progress_client *client;
	struct device_watch watch;
	_Atomic bool
		failed; /* until it is closed by all contexts; IBV_EVENT_DEVICE_FATAL was raised */

	/*
	 * Takes the events of the connection manager, with the device as its context. Set by
	 * verbs/rdma before its first id on the device: without an id there are none.
	 */
	const struct cm_sink *connections;
	void (*removed)(struct device *device); /* set likewise: what ids are told when it fails */

	pthread_mutex_t contexts_lock;
	struct context *contexts; /* those that are told of the port's events; utlist */
	struct gid_entry port;	  /* the entry of GID 0, or what it was; likewise protected */
};

/* ibv_device._ops._dummy1 of our devices; never called. */
struct ibv_context *device_mark(struct ibv_device *device, int cmd_fd);

/*
 * A device named @name with the addresses @node (NULL: the machine's). Returns 0
 * or an errno of gid_table_init().
 */
int device_init(struct device *device, const char *name, const char *node);

/* One more and one less context; the HCA's events go to @sink. Returns 0 or an errno. */
int device_up(struct device *device, const struct event_sink *sink);
void device_down(struct device *device);

/* The device has failed, or its port is gone: all queue pairs become ERR, and flush. */
void device_flush(const struct device *device);

/* At the end of the process, from any thread: says what is still pending, and never waits. */
void device_flush_on_exit(struct device *device);

/*
 * Receive on the local address @gid, too, of an open device. Returns 0 or an errno
 * of link add_address.
 */
int device_add_address(struct device *device, const union ibv_gid *gid);

/* Keep the device's locks whole across a fork. */
void device_before_fork(struct device *device);
void device_after_fork(struct device *device);
/* In the child, before device_after_fork(): the HCA is the parent's. */
void device_after_fork_child(struct device *device);

/* The network device of the port, by GID 0 or what that was. Returns 0, or ENODATA for none. */
int device_netdev(struct device *device, struct gid_entry *entry);
/* The port's network device is from now on that of GID 0. False if there is none. */
bool device_use_netdev(struct device *device);

#endif
