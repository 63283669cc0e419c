/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Changes of the network devices that ids are bound to, of which the kernel tells
 * on a netlink socket: another hardware address is ADDR_CHANGE, the end
 * of the network device DEVICE_REMOVAL (rdma_get_cm_event(3)).
 *
 * Started with the first device that an id needs, for as long as the process
 * lives. The background thread reads the socket; rdma.lock protects the rest.
 */
#include <errno.h>
#include <ifaddrs.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <netpacket/packet.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uthash.h>

#include "net/log.h"
#include "verbs/device.h"
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
	int fd;
	struct progress_client *client;
	struct interface *interfaces;
} watch = {.fd = -1};

/* --- ids, with rdma.lock held --------------------------------------------------------- */

static bool is_on(const struct rdma_id *id, unsigned int interface)
{
	struct gid_entry entry;
	int index;

	if (!id->device)
		return false;
	index = gid_table_find(&id->device->gids, &id->ibv.route.addr.addr.ibaddr.sgid);
	return index >= 0 && gid_table_get(&id->device->gids, index, &entry) == 0 &&
	       entry.ifindex == interface;
}

static void tell_ids(unsigned int interface, enum rdma_cm_event_type type)
{
	for (struct rdma_id *id = rdma_ids(); id; id = id->next) {
		if (id->state == RDMA_STATE_REMOVED || !is_on(id, interface))
			continue;
		if (type == RDMA_CM_EVENT_DEVICE_REMOVAL) {
			id->state = RDMA_STATE_REMOVED;
			rdma_channel_set_phase(id, RDMA_PHASE_FAILED);
		}
		rdma_event(id, type, 0);
	}
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

static void take_message(const struct nlmsghdr *message)
{
	const struct ifinfomsg *info = NLMSG_DATA(message);

	/* Messages of other families say what a network device is to a bridge. */
	if (message->nlmsg_len < NLMSG_LENGTH(sizeof(*info)) || info->ifi_family != AF_UNSPEC)
		return;
	if (message->nlmsg_type == RTM_NEWLINK) {
		link_changed(message, info);
	} else if (message->nlmsg_type == RTM_DELLINK) {
		remove_address(info->ifi_index);
		tell_ids(info->ifi_index, RDMA_CM_EVENT_DEVICE_REMOVAL);
	}
}

static bool watch_progress(void *context, uint64_t now)
{
	uint8_t buffer[16384] __attribute__((aligned(NLMSG_ALIGNTO)));
	bool any = false;
	ssize_t length;

	while ((length = recv(watch.fd, buffer, sizeof(buffer), MSG_DONTWAIT)) > 0) {
		const struct nlmsghdr *message = (const struct nlmsghdr *)buffer;
		unsigned int left = length;

		rdma_enter();
		for (; NLMSG_OK(message, left); message = NLMSG_NEXT(message, left))
			take_message(message);
		rdma_leave();
		any = true;
	}
	return any;
}

static uint64_t deadline(void *context)
{
	return TIME_NEVER;
}

static unsigned int descriptors(void *context, int *fds, unsigned int max)
{
	if (max)
		fds[0] = watch.fd;
	return 1;
}

static int open_socket(void)
{
	const struct sockaddr_nl groups = {.nl_family = AF_NETLINK, .nl_groups = RTMGRP_LINK};
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);

	if (fd >= 0 && bind(fd, (const struct sockaddr *)&groups, sizeof(groups)) < 0) {
		close(fd);
		fd = -1;
	}
	return fd;
}

void rdma_watch_start(void)
{
	static const struct progress_ops ops = {
		.progress = watch_progress, .deadline = deadline, .descriptors = descriptors};
	struct progress *progress;
	struct capture *capture;

	if (watch.fd >= 0 || registry_acquire(&progress, &capture) != 0)
		return;
	watch.fd = open_socket();
	note_all();
	if (watch.fd >= 0 && progress_attach(progress, &ops, &watch, &watch.client) == 0)
		return;
	log_info("network devices can't be watched: %s", strerror(errno));
	if (watch.fd >= 0)
		close(watch.fd);
	watch.fd = -1;
	registry_release();
}

void rdma_watch_after_fork_child(void)
{
	if (watch.fd >= 0)
		close(watch.fd);
	watch.fd = -1;
}
