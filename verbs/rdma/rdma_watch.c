/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Changes of the network devices that ids are bound to, of which the kernel tells
 * on a netlink socket: another hardware address is ADDR_CHANGE, the end
 * of the network device DEVICE_REMOVAL (rdma_get_cm_event(3)).
 *
 * Started with the first device that an id needs, for as long as the process
 * lives. The progress thread reads the socket; rdma.lock protects the rest.
 */
#include <ifaddrs.h>
#include <netpacket/packet.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <uthash.h>

#include "emu/hca.h"
#include "net/cause/cause.h"
#include "net/log.h"
#include "verbs/device.h"
#include "verbs/devices.h"
#include "verbs/netlink.h"
#include "verbs/rdma/rdma.h"
#include "verbs/registry.h"

#define HARDWARE_ADDRESS_MAX 32 /* Linux: MAX_ADDR_LEN */

struct hardware_address {
	uint8_t length;
	uint8_t bytes[HARDWARE_ADDRESS_MAX];
};

struct interface {
	unsigned int index;
	struct hardware_address address;
	UT_hash_handle hh;
};

static struct watch {
	struct netlink_socket socket;
	_Atomic(struct progress_client *) client; /* NULL: nothing is watched */
	_Atomic bool removed;			  /* a device was, and its ids haven't been told */
	struct interface *interfaces;
} watch = {.socket.fd = -1};

/* --- ids, with rdma.lock held --------------------------------------------------------- */

static void tell_id(struct rdma_id *id, enum rdma_cm_event_type type)
{
	char text[RDMA_ADDRESS_TEXT];

	if (id->state == RDMA_STATE_REMOVED)
		return;
	if (type == RDMA_CM_EVENT_DEVICE_REMOVAL) {
		id->state = RDMA_STATE_REMOVED;
		rdma_channel_end(id);
		cause_report(CAUSE_CM_DEVICE_REMOVAL, "%s, the id of %s",
			     id->device ? id->device->ibv.name : "a device",
			     rdma_address_text(&id->ibv.route.addr.src_addr, text));
	} else {
		cause_report(CAUSE_CM_ADDR_CHANGE, "the id of %s",
			     rdma_address_text(&id->ibv.route.addr.src_addr, text));
	}
	rdma_event(id, type, 0);
}

static void tell_ids(unsigned int interface, enum rdma_cm_event_type type)
{
	for (struct rdma_id *id = rdma_ids(); id; id = id->next) {
		if (id->device && id->interface == interface)
			tell_id(id, type);
	}
}

static bool is_listening_on(const struct rdma_id *id, const struct device *device)
{
	bool any = false;

	for (unsigned int i = 0; i < id->listener_count; i++)
		any |= id->listeners[i] && id->listeners[i]->cm == device->hca->cm;
	return any;
}

static void tell_ids_of(const struct device *device)
{
	for (struct rdma_id *id = rdma_ids(); id; id = id->next) {
		if (id->device == device || is_listening_on(id, device))
			tell_id(id, RDMA_CM_EVENT_DEVICE_REMOVAL);
	}
}

static void tell_removed(void)
{
	struct device *devices;
	unsigned int count = devices_all(&devices);

	rdma_enter();
	for (unsigned int i = 0; i < count; i++) {
		if (rdma_device_has_failed(&devices[i]))
			tell_ids_of(&devices[i]);
	}
	rdma_leave();
}

/*
 * The device waits for its caller when it is closed, perhaps by a thread that has rdma.lock: so the
 * ids are told by our own client.
 */
void rdma_watch_removed(void)
{
	struct progress_client *client;

	/* In this order; rdma_watch_start() does it the other way round. */
	atomic_store(&watch.removed, true);
	client = watch.client;
	if (client)
		progress_deadline(client, 0);
}

void rdma_watch_changed(struct rdma_id *id)
{
	rdma_enter();
	tell_id(id, RDMA_CM_EVENT_ADDR_CHANGE);
	rdma_leave();
}

/* --- network devices ------------------------------------------------------------------ */

/* Returns whether it had another address before. */
static bool note_address(unsigned int index, const uint8_t *bytes, size_t length)
{
	struct hardware_address address = {.length = length};
	struct interface *interface;
	bool known, changed;

	if (length > sizeof(address.bytes))
		return false;
	memcpy(address.bytes, bytes, length);
	HASH_FIND(hh, watch.interfaces, &index, sizeof(index), interface);
	known = interface;
	if (!known) {
		interface = calloc(1, sizeof(*interface));
		if (!interface)
			return false;
		interface->index = index;
		HASH_ADD(hh, watch.interfaces, index, sizeof(index), interface);
		if (!interface->hh.tbl) {
			free(interface);
			return false;
		}
	}
	changed = known && memcmp(&interface->address, &address, sizeof(address)) != 0;
	interface->address = address;
	return changed;
}

static void remove_address(unsigned int index)
{
	struct interface *interface;

	HASH_FIND(hh, watch.interfaces, &index, sizeof(index), interface);
	if (!interface)
		return;
	HASH_DELETE(hh, watch.interfaces, interface);
	free(interface);
}

static void note_all(void)
{
	struct ifaddrs *interfaces;

	if (getifaddrs(&interfaces) < 0)
		return;
	for (const struct ifaddrs *i = interfaces; i; i = i->ifa_next) {
		const struct sockaddr_ll *address = (const struct sockaddr_ll *)i->ifa_addr;

		if (address && address->sll_family == AF_PACKET)
			note_address(address->sll_ifindex, address->sll_addr, address->sll_halen);
	}
	freeifaddrs(interfaces);
}

/* --- the socket ----------------------------------------------------------------------- */

static void link_changed(const struct nlmsghdr *message, const struct ifinfomsg *info)
{
	const struct rtattr *attribute = IFLA_RTA(info);
	int left = IFLA_PAYLOAD(message);

	for (; RTA_OK(attribute, left); attribute = RTA_NEXT(attribute, left)) {
		if (attribute->rta_type == IFLA_ADDRESS &&
		    note_address(info->ifi_index, RTA_DATA(attribute), RTA_PAYLOAD(attribute)))
			tell_ids(info->ifi_index, RDMA_CM_EVENT_ADDR_CHANGE);
	}
}

static void take_message(void *context, const struct nlmsghdr *message)
{
	const struct ifinfomsg *info = message ? netlink_link(message) : NULL;

	if (!info)
		return;
	rdma_enter();
	if (message->nlmsg_type == RTM_NEWLINK) {
		link_changed(message, info);
	} else {
		remove_address(info->ifi_index);
		tell_ids(info->ifi_index, RDMA_CM_EVENT_DEVICE_REMOVAL);
	}
	rdma_leave();
}

/* The application has closed the socket. */
static void watch_again(void)
{
	netlink_open(&watch.socket, RTMGRP_LINK);
	progress_refresh(watch.client);
}

static bool watch_progress(void *context, uint64_t now)
{
	bool any;

	if (!netlink_verify(&watch.socket))
		watch_again();
	any = netlink_receive(&watch.socket, take_message, NULL);
	if (!atomic_exchange(&watch.removed, false))
		return any;
	tell_removed();
	return true;
}

static unsigned int descriptors(void *context, int *fds, unsigned int max)
{
	return progress_one_descriptor(watch.socket.fd, fds);
}

void rdma_watch_start(void)
{
	static const struct progress_ops ops = {.progress = watch_progress,
						.descriptors = descriptors};
	struct progress_client *client;
	int error;

	if (watch.client)
		return;
	/* Without a socket, which watch_again() may get later, it still hears of devices. */
	error = netlink_open(&watch.socket, RTMGRP_LINK);
	if (error)
		log_info("network devices can't be watched: %s", strerror(error));
	else
		note_all();
	error = registry_attach(&ops, &watch, &client);
	if (!error) {
		watch.client = client;
		progress_deadline(client, 0);
		return;
	}
	log_info("devices can't be watched: %s", strerror(error));
	netlink_close(&watch.socket);
}

void rdma_watch_after_fork_child(void)
{
	netlink_close(&watch.socket);
	watch.client = NULL;
	watch.removed = false;
}
