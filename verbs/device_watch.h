/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What becomes of an open device's ports while it is open: the kernel tells of the
 * network devices and of addresses on a netlink socket, and contexts are told by
 * events. The network device goes down and up: PORT_ERR and PORT_ACTIVE. Addresses
 * come and go: GID_CHANGE, with the GID table as it is then. The network device is gone:
 * PORT_ERR, for the other port goes on; with the last one DEVICE_FATAL, and all queue pairs
 * in ERR. If one with an address of the port comes later, the port is that one, and active again.
 *
 * device_watch_start() and _stop() are called with device.lock held, when the HCA is
 * there; the progress thread does the rest, without that lock.
 */
#ifndef URXE_VERBS_DEVICE_WATCH_H
#define URXE_VERBS_DEVICE_WATCH_H

#include <stdbool.h>

#include "verbs/netlink.h"

struct device;
struct progress;
struct progress_client;

struct device_watch {
	struct netlink_socket socket; /* closed: nothing is watched */
	struct progress_client *client;
	/* Of the progress thread. */
	bool refresh; /* the link may have new descriptors */
};

/* A device that can't be watched works all the same. */
void device_watch_start(struct device *device, struct progress *progress);
void device_watch_stop(struct device *device);
/* The socket is the parent's. */
void device_watch_after_fork_child(struct device *device);

#endif
