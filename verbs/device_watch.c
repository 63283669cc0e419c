/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/device_watch.h"

#include <errno.h>
#include <net/if.h>
#include <string.h>

#include "emu/hca.h"
#include "net/clock.h"
#include "net/log.h"
#include "verbs/device.h"
#include "verbs/event.h"
#include "verbs/port.h"

#define PORT 1		      /* the only one */
#define REFRESH_AGAIN 1000000 /* ns, when another thread was receiving */

static void tell(struct device *device, enum ibv_event_type type)
{
	log_info("%s: %s", device->ibv.name, ibv_event_type_str(type));
	deliver_async(device, type, (void *)(intptr_t)PORT);
}

/* --- the network device ----------------------------------------------------------- */

static void set_active(struct device *device, bool active)
{
	if (device->watch.active == active)
		return;
	device->watch.active = active;
	tell(device, active ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR);
}

static void check_gone(struct device *device)
{
	struct gid_entry port;
	char name[IF_NAMESIZE];

	if (device->watch.gone || device_netdev(device, &port) != 0 ||
	    if_indextoname(port.ifindex, name) || errno != ENXIO)
		return;
	device->watch.gone = true;
	set_active(device, false);
	log_error("%s: network device %s is gone", device->ibv.name, port.netdev);
	device_flush(device);
	tell(device, IBV_EVENT_DEVICE_FATAL);
}

/* --- addresses -------------------------------------------------------------------- */

static int receive_on(void *context, const union ibv_gid *gid)
{
	struct link *link = context;

	return link->ops->add_address(link, gid);
}

/* GID 0 may be another network device's than before. */
static void follow_netdev(struct device *device)
{
	struct gid_entry before = {}, now = {};

	device_netdev(device, &before);
	if (!device_use_netdev(device))
		return;
	device_netdev(device, &now);
	if (!device->watch.gone && now.ifindex == before.ifindex)
		return;
	device->watch.gone = false;
	set_active(device, port_is_active(device));
}

static void take_addresses(struct device *device)
{
	struct device_watch *watch = &device->watch;
	struct gid_entry entry;
	bool changed;

	/* What the node lacks now may come later. */
	gid_table_refresh(&device->gids, device->node, receive_on, device->link, &changed);
	watch->refresh |= changed || watch->unbound;
	/* One that could not be bound may be now: an IPv6 address was tentative. */
	watch->unbound = false;
	for (unsigned int i = 0; gid_table_next(&device->gids, &i, &entry); i++)
		watch->unbound |= receive_on(device->link, &entry.gid) != 0;
	if (!changed)
		return;
	tell(device, IBV_EVENT_GID_CHANGE);
	follow_netdev(device);
}

/* With receive_lock, for the end of the process closes the link's descriptors under it. */
static void refresh_descriptors(struct device *device)
{
	if (!device->watch.refresh || pthread_mutex_trylock(&device->hca->receive_lock) != 0)
		return;
	progress_refresh(device->client);
	device->watch.refresh = false;
	pthread_mutex_unlock(&device->hca->receive_lock);
}

/* --- the socket ------------------------------------------------------------------- */

/*
 * The state of the port is that of the last message: what the kernel says when asked may be
 * newer, and a message that is older would then be a change back.
 */
static void take_message(void *context, const struct nlmsghdr *message)
{
	const unsigned int running = IFF_UP | IFF_RUNNING;
	const struct ifinfomsg *info = message ? netlink_link(message) : NULL;
	struct device *device = context;
	struct gid_entry port;

	if (!message && !device->watch.gone)
		set_active(device, port_is_active(device));
	if (!info || message->nlmsg_type != RTM_NEWLINK || device_netdev(device, &port) != 0)
		return;
	if (!device->watch.gone && info->ifi_index == (int)port.ifindex)
		set_active(device, (info->ifi_flags & running) == running);
}

/* Whatever else the messages were about, what counts is what there is now. */
static bool watch_progress(void *context, uint64_t now)
{
	struct device *device = context;
	bool any;

	/* The device has failed then, too. */
	netlink_verify(&device->watch.socket);
	any = netlink_receive(&device->watch.socket, take_message, device);
	if (any) {
		check_gone(device);
		take_addresses(device);
	}
	refresh_descriptors(device);
	return any;
}

static uint64_t deadline(void *context)
{
	const struct device *device = context;

	return device->watch.refresh ? clock_now() + REFRESH_AGAIN : TIME_NEVER;
}

static unsigned int descriptors(void *context, int *fds, unsigned int max)
{
	const struct device *device = context;

	if (max == 0 || device->watch.socket.fd < 0)
		return 0;
	fds[0] = device->watch.socket.fd;
	return 1;
}

void device_watch_start(struct device *device, struct progress *progress)
{
	static const struct progress_ops ops = {
		.progress = watch_progress, .deadline = deadline, .descriptors = descriptors};
	struct device_watch *watch = &device->watch;
	int error;

	*watch = (struct device_watch){
		.active = port_is_active(device),
		.unbound = true,
	};
	error = netlink_open(&watch->socket, RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR);
	if (!error)
		error = progress_attach(progress, &ops, device, &watch->client);
	if (!error)
		return;
	log_info("%s: the network device can't be watched: %s", device->ibv.name, strerror(error));
	netlink_close(&watch->socket);
}

void device_watch_stop(struct device *device)
{
	struct device_watch *watch = &device->watch;

	if (!watch->client)
		return;
	progress_detach(watch->client);
	watch->client = NULL;
	netlink_close(&watch->socket);
}

void device_watch_after_fork_child(struct device *device)
{
	netlink_close(&device->watch.socket);
	device->watch.client = NULL;
}
