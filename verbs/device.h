/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One of our devices (verbs/devices.h has them all). It lives as long as the process; the
 * HCA behind it exists while a context is open, and is shared by all contexts of the
 * process.
 *
 * device.lock protects what opening brings up. It is held across the binding of
 * sockets, never across a call into the real library. device.contexts_lock protects
 * the lists of contexts and channels; it is held while port events are put into their queues, and
 * nothing but those queues' locks is taken under it. The progress thread takes
 * that one alone for what it hears of the ports (verbs/device_watch.h).
 */
#ifndef URXE_VERBS_DEVICE_H
#define URXE_VERBS_DEVICE_H

#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "net/wire/port_gids.h"
#include "verbs/device_watch.h"
#include "verbs/port.h"
#include "verbs/progress.h"

struct context;
struct event_sink;
struct hca;
struct link;

struct device {
	struct ibv_device ibv;
	/* Vendor libraries look at the private part of real devices behind it, and find zeros. */
	uint8_t verbs_device_tail[256];

	struct port ports[PORTS_MAX];
	struct port_gids gids; /* those of the ports that it has */
	__be64 guid;

	pthread_mutex_t lock;
	_Atomic pid_t ending; /* the thread that has it and ends the process (verbs/device_end.c) */
	unsigned int opened;  /* contexts, closed ones as long as something names them */
	struct link *link;
	struct hca *hca;
	struct progress_client *client;
	_Atomic unsigned int waiting; /* threads in ibv_get_cq_event() */
	struct device_watch watch;

	/*
	 * Takes the events of the connection manager, with the device as its context. Set by
	 * verbs/rdma before its first id on the device: without an id there are none.
	 */
	const struct cm_sink *connections;
	void (*removed)(void); /* set likewise: its ids are to be told that it has failed */

	pthread_mutex_t contexts_lock;
	struct context *contexts; /* closed ones, too, as long as something names them; utlist */
	struct channel *channels; /* of completions, which are told when it fails; utlist */
};

/* ibv_device._ops._dummy1 of our devices; never called. */
struct ibv_context *device_mark(struct ibv_device *device, int cmd_fd);

/* A device named @name, whose files are @dev_name, and which has no port yet. */
void device_init(struct device *device, const char *name, const char *dev_name);

/*
 * The next port, with the addresses @node (NULL: the machine's). Returns 0, an errno of
 * gid_table_init(), EEXIST for an address that another port has, E2BIG beyond PORTS_MAX.
 */
int device_add_port(struct device *device, const char *node);

/* The port number @port_num, from 1 on; NULL: there is no such port. */
struct port *device_port(struct device *device, unsigned int port_num);

/*
 * For the progress thread, which the lock's holder may wait for: whether it is open, and stays so
 * until device_unlock(). False also while it is being opened or closed.
 */
bool device_try_lock(struct device *device);
void device_unlock(struct device *device);

/* One more and one less context; the HCA's events go to @sink. Returns 0 or an errno. */
int device_up(struct device *device, const struct event_sink *sink);
void device_down(struct device *device);

/* Let other processes see its addresses, which have changed. */
void device_show(struct device *device);

/* The device has failed, or its ports are gone: all queue pairs become ERR, and flush. */
void device_flush(const struct device *device);

/*
 * Make progress in the calling thread, which has nothing else to do, while @waits(@context), for
 * @most ns, and as long as no other thread takes its CPU away. Returns how long it did, ns.
 */
uint64_t device_poll_while(struct device *device, bool (*waits)(const void *context),
			   const void *context, uint64_t most);

/* At the end of the process, from any thread: says what is still pending, and doesn't wait long. */
void device_flush_on_exit(struct device *device);

/*
 * The process ends, and not by exit(): the progress thread, or one that polls, acknowledges what
 * was received, which is waited for, but not for long. Safe in signal handlers: another thread, or
 * this one where the signal has interrupted it, may be anywhere.
 */
void device_end(struct device *device);

/*
 * Receive on the local address @gid, too, on @port of an open device. Returns 0 or an errno
 * of link add_address.
 */
int device_add_address(struct port *port, const union ibv_gid *gid);

/* Keep the device's locks whole across a fork. */
void device_before_fork(struct device *device);
void device_after_fork(struct device *device);
/* In the child, before device_after_fork(): the HCA is the parent's. */
void device_after_fork_child(struct device *device);

#endif
