/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/device_watch.h"

#include <errno.h>
#include <net/if.h>
#include <string.h>

#include "emu/hca.h"
#include "emu/objects/qp.h"
#include "emu/transport/migration.h"
#include "net/cause/cause.h"
#include "net/clock.h"
#include "net/log.h"
#include "verbs/device.h"
#include "verbs/event.h"
#include "verbs/port.h"

#define REFRESH_AGAIN 1000000 /* ns, when another thread was receiving */

static void tell(const struct port *port, enum ibv_event_type type)
{
	deliver_async(port->device, type, (void *)(intptr_t)port->number);
}

/* Why an event is told, or several that come of it. */
static void explain(struct port *port, enum cause cause)
{
	struct gid_entry netdev = {.netdev = "none"};

	port_netdev(port, &netdev);
	cause_report(cause, "%s: port %u, network device %s", port->device->ibv.name, port->number,
		     netdev.netdev);
}

/* --- the network device ----------------------------------------------------------- */

static bool netdev_is_gone(struct port *port)
{
	struct gid_entry netdev;
	char name[IF_NAMESIZE];

	return port_netdev(port, &netdev) == 0 && !if_indextoname(netdev.ifindex, name) &&
	       errno == ENXIO;
}

static void set_active(struct port *port, bool active)
{
	if (port->active == active)
		return;
	port->active = active;
	/* Of one that is gone there is more to say. */
	if (active || !netdev_is_gone(port))
		explain(port, active ? CAUSE_PORT_ACTIVE : CAUSE_PORT_DOWN);
	tell(port, active ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR);
	if (active)
		return;
	migration_on_port_error(port->device->hca, port->number, clock_now());
	event_deliver(&port->device->hca->events);
}

static bool all_gone(struct device *device)
{
	const struct port *port;

	for (unsigned int i = 1; (port = device_port(device, i)); i++) {
		if (!port->gone)
			return false;
	}
	return true;
}

static void check_gone(struct port *port)
{
	struct device *device = port->device;

	if (port->gone || !netdev_is_gone(port))
		return;
	port->gone = true;
	port->asked = false;
	explain(port, all_gone(device) ? CAUSE_NETDEVS_GONE : CAUSE_NETDEV_GONE);
	set_active(port, false);
	if (!all_gone(device))
		return;
	device_flush(device);
	tell(port, IBV_EVENT_DEVICE_FATAL);
}

/* --- addresses -------------------------------------------------------------------- */

/* GID 0 may be another network device's than before. */
static void follow_netdev(struct port *port)
{
	struct gid_entry before = {}, now = {};

	port_netdev(port, &before);
	if (!port_use_netdev(port))
		return;
	port_netdev(port, &now);
	if (!port->gone && now.ifindex == before.ifindex)
		return;
	port->gone = false;
	port->asked = true;
}

/* Returns whether an address could not be bound. */
static bool bind_all(struct port *port)
{
	struct link *link = port->device->link;
	struct gid_entry entry;
	bool unbound = false;

	for (unsigned int i = 0; gid_table_next(&port->gids, &i, &entry); i++)
		unbound |= link->ops->add_address(link, &entry.gid, entry.ifindex) != 0;
	return unbound;
}

/*
 * Path MTUs stay as they were asked for; a datagram is as long as the port lets it be. A port
 * without an address has none: often there will be another in a moment.
 */
static void follow_mtu(struct port *port)
{
	enum ibv_mtu mtu = hca_active_mtu(port->device->hca, port->number);
	struct gid_entry entry;
	unsigned int index = 0;

	if (port->mtu == mtu || !gid_table_next(&port->gids, &index, &entry))
		return;
	qp_follow_mtu(port->device->hca, port->number, mtu);
	port->mtu = mtu;
}

static void take_addresses(struct port *port)
{
	struct device_watch *watch = &port->device->watch;
	bool changed;

	/* What the node lacks now may come later. */
	gid_table_refresh(&port->gids, port->node, port_receive_on, port, &changed);
	watch->refresh |= changed || port->unbound;
	/* One that could not be bound may be now: an IPv6 address was tentative. */
	port->unbound = bind_all(port);
	follow_mtu(port);
	if (!changed)
		return;
	device_show(port->device);
	explain(port, CAUSE_GID_CHANGED);
	tell(port, IBV_EVENT_GID_CHANGE);
	follow_netdev(port);
}

/* With receive_lock, for the end of the process closes the link's descriptors under it. */
static void refresh_descriptors(struct device *device)
{
	if (!device->watch.refresh || pthread_spin_trylock(&device->hca->receive_lock) != 0)
		return;
	progress_refresh(device->client);
	device->watch.refresh = false;
	pthread_spin_unlock(&device->hca->receive_lock);
}

/* --- the socket ------------------------------------------------------------------- */

static void port_take_message(struct port *port, const struct nlmsghdr *message)
{
	const unsigned int running = IFF_UP | IFF_RUNNING;
	const struct ifinfomsg *info = message ? netlink_link(message) : NULL;
	struct gid_entry netdev;

	if (!message && !port->gone)
		port->asked = true;
	if (port->asked || !info || message->nlmsg_type != RTM_NEWLINK ||
	    port_netdev(port, &netdev) != 0)
		return;
	if (!port->gone && info->ifi_index == (int)netdev.ifindex)
		set_active(port, (info->ifi_flags & running) == running);
}

/*
 * The state of a port is that of the last message: what the kernel says when asked may be
 * newer, and a message that is older would then be a change back. Where it has to be asked, what it
 * says counts when all messages that have come before are read.
 */
static void take_message(void *context, const struct nlmsghdr *message)
{
	struct device *device = context;
	struct port *port;

	for (unsigned int i = 1; (port = device_port(device, i)); i++)
		port_take_message(port, message);
}

/* Whatever else the messages were about, what counts is what there is now. */
static void take_changes(struct device *device)
{
	struct port *port;

	for (unsigned int i = 1; (port = device_port(device, i)); i++) {
		check_gone(port);
		take_addresses(port);
		if (port->asked)
			port->runs = port_is_active(port);
	}
}

/* There is no message that is older. */
static void take_answers(struct device *device)
{
	struct port *port;

	for (unsigned int i = 1; (port = device_port(device, i)); i++) {
		if (port->asked)
			set_active(port, port->runs);
		port->asked = false;
	}
}

static bool watch_progress(void *context, uint64_t now)
{
	struct device *device = context;
	bool any;

	/* The device has failed then, too. */
	netlink_verify(&device->watch.socket);
	any = netlink_receive(&device->watch.socket, take_message, device);
	if (any)
		take_changes(device);
	else
		take_answers(device);
	refresh_descriptors(device);
	return any;
}

static uint64_t deadline(void *context)
{
	struct device *device = context;
	const struct port *port;

	for (unsigned int i = 1; (port = device_port(device, i)); i++) {
		if (port->asked)
			return 0; /* are there more messages? */
	}
	return device->watch.refresh ? clock_now() + REFRESH_AGAIN : TIME_NEVER;
}

static unsigned int descriptors(void *context, int *fds, unsigned int max)
{
	return progress_one_descriptor(((const struct device *)context)->watch.socket.fd, fds);
}

void device_watch_start(struct device *device, struct progress *progress)
{
	static const struct progress_ops ops = {
		.progress = watch_progress, .deadline = deadline, .descriptors = descriptors};
	struct device_watch *watch = &device->watch;
	struct port *port;
	int error;

	*watch = (struct device_watch){};
	/* Before the ports' states are looked at: what changes meanwhile is read later. */
	error = netlink_open(&watch->socket, RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR);
	for (unsigned int i = 1; (port = device_port(device, i)); i++) {
		port->active = port->runs = port_is_active(port);
		port->asked = true;
		port->mtu = hca_active_mtu(device->hca, i);
		port->gone = false;
		port->disabled = false;
		port->unbound = true;
	}
	if (!error)
		error = progress_attach(progress, &ops, device, &watch->client);
	if (!error)
		return;
	log_info("%s: the network devices can't be watched: %s", device->ibv.name, strerror(error));
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
