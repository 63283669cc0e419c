/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/port.h"

#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emu/hca.h"
#include "net/netdev.h"
#include "net/wire/wire.h"
#include "verbs/device.h"
#include "verbs/profile.h"
#include "verbs/registry.h"

#ifndef IBV_QPF_GRH_REQUIRED
#define IBV_QPF_GRH_REQUIRED 1 /* ibv_port_attr.flags: RoCE has no other addressing */
#endif

/* --- life ----------------------------------------------------------------------------- */

int port_init(struct port *port, struct device *device, uint8_t number, const char *node)
{
	int error = gid_table_init(&port->gids, node);

	if (error)
		return error;
	port->node = node ? strdup(node) : NULL;
	if (node && !port->node) {
		gid_table_destroy(&port->gids);
		return ENOMEM;
	}
	port->device = device;
	port->number = number;
	gid_table_get(&port->gids, 0, &port->netdev);
	return 0;
}

void port_destroy(struct port *port)
{
	gid_table_destroy(&port->gids);
	free(port->node);
}

int port_netdev(struct port *port, struct gid_entry *entry)
{
	pthread_mutex_lock(&port->device->contexts_lock);
	*entry = port->netdev;
	pthread_mutex_unlock(&port->device->contexts_lock);
	/* It may have got another name, and another one this. One that is gone keeps its own. */
	if_indextoname(entry->ifindex, entry->netdev);
	return entry->ifindex ? 0 : ENODATA;
}

bool port_use_netdev(struct port *port)
{
	struct gid_entry entry;

	if (gid_table_get(&port->gids, 0, &entry) != 0)
		return false;
	pthread_mutex_lock(&port->device->contexts_lock);
	port->netdev = entry;
	pthread_mutex_unlock(&port->device->contexts_lock);
	return true;
}

int port_address_free(void *context, const struct gid_entry *entry)
{
	const struct port *port = context;
	struct gid_place place;

	return port_gids_find(&port->device->gids, &entry->gid, &place) ? EEXIST : 0;
}

int port_receive_on(void *context, const struct gid_entry *entry)
{
	const struct port *port = context;
	struct link *link = port->device->link;

	return port_address_free(context, entry)
		       ?: link->ops->add_address(link, &entry->gid, entry->ifindex);
}

/* --- attributes ----------------------------------------------------------------------- */

enum physical_state { PHYSICAL_POLLING = 2, PHYSICAL_DISABLED = 3, PHYSICAL_LINK_UP = 5 };
enum width { WIDTH_1X = 1, WIDTH_4X = 2, WIDTH_2X = 16 };
enum speed { SDR = 1, DDR = 2, FDR10 = 8, EDR = 32, HDR = 64, NDR = 128 };

/* Width and speed by Mbit/s, as the kernel has them for Ethernet (Linux: ib_get_eth_speed()). */
static const struct rate {
	int mbps; /* up to */
	uint8_t width, speed;
} rates[] = {
	{1000, WIDTH_1X, SDR},	 {10000, WIDTH_1X, FDR10}, {20000, WIDTH_4X, DDR},
	{25000, WIDTH_1X, EDR},	 {40000, WIDTH_4X, FDR10}, {50000, WIDTH_2X, EDR},
	{100000, WIDTH_4X, EDR}, {200000, WIDTH_4X, HDR},  {INT32_MAX, WIDTH_4X, NDR},
};

#define SPEED_LOOPBACK 100000 /* Mbit/s; what memory gives is no less */
#define SPEED_UNKNOWN 10000   /* virtual network devices say nothing */

/* 0 or the errno of what kept us from asking; without the file there is nothing to be learned. */
static int read_speed(const char *netdev, int *speed)
{
	char path[64 + IF_NAMESIZE];
	FILE *file;

	snprintf(path, sizeof(path), "/sys/class/net/%s/speed", netdev);
	file = fopen(path, "re");
	if (!file)
		return errno == ENOENT || errno == EACCES ? 0 : errno;
	if (fscanf(file, "%d", speed) != 1 || *speed <= 0)
		*speed = SPEED_UNKNOWN;
	fclose(file);
	return 0;
}

static int netdev_speed(const char *netdev, short flags, int *speed)
{
	int error, state;

	*speed = flags & IFF_LOOPBACK ? SPEED_LOOPBACK : SPEED_UNKNOWN;
	if (flags & IFF_LOOPBACK)
		return 0;
	/* Reading files is a cancellation point, and this one would stay open. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	error = read_speed(netdev, speed);
	pthread_setcancelstate(state, NULL);
	return error;
}

/* 0, also of a device that is gone, or the errno of what kept us from asking. */
static int netdev_query(const char *netdev, short *flags, uint32_t *mtu)
{
	struct ifreq answer;
	int error = netdev_ask(netdev, SIOCGIFFLAGS, &answer);

	if (!error) {
		*flags = answer.ifr_flags;
		error = netdev_ask(netdev, SIOCGIFMTU, &answer);
	}
	if (!error)
		*mtu = answer.ifr_mtu;
	return error == ENODEV ? 0 : error;
}

static bool runs(short flags)
{
	return (flags & IFF_UP) && (flags & IFF_RUNNING);
}

bool port_is_active(struct port *port)
{
	struct gid_entry entry = {};
	short flags = 0;

	port_netdev(port, &entry);
	/* Without a descriptor to ask it isn't known to be down. */
	return netdev_query(entry.netdev, &flags, &entry.mtu) != 0 || runs(flags);
}

int port_query(struct port *port, struct ibv_port_attr *attr)
{
	const struct profile_port *card = &registry_configuration()->profile->port;
	const struct rate *rate = rates;
	struct gid_entry entry = {};
	int error, unknown, speed;
	short flags = 0;

	memset(attr, 0, sizeof(*attr));
	port_netdev(port, &entry);
	error = netdev_query(entry.netdev, &flags, &entry.mtu);
	unknown = netdev_speed(entry.netdev, flags, &speed);
	while (rate->mbps < speed)
		rate++;

	if (runs(flags) && !port->disabled) {
		attr->state = IBV_PORT_ACTIVE;
		attr->phys_state = PHYSICAL_LINK_UP;
	} else {
		attr->state = IBV_PORT_DOWN;
		attr->phys_state = flags & IFF_UP ? PHYSICAL_POLLING : PHYSICAL_DISABLED;
	}
	attr->max_mtu = IBV_MTU_4096;
	attr->active_mtu = hca_mtu(entry.mtu);
	attr->gid_tbl_len = card->gid_tbl_len;
	attr->port_cap_flags = card->port_cap_flags;
	attr->max_msg_sz = WIRE_MESSAGE_MAX;
	attr->pkey_tbl_len = 1;
	attr->lid = card->lid;
	attr->max_vl_num = card->max_vl_num;
	attr->subnet_timeout = card->subnet_timeout;
	attr->active_width = card->active_width ? card->active_width : rate->width;
	attr->active_speed = card->active_speed ? card->active_speed : rate->speed;
	attr->link_layer = IBV_LINK_LAYER_ETHERNET;
	attr->flags = IBV_QPF_GRH_REQUIRED;
	return error ? error : unknown;
}

/* By the bits of ibv_port_attr: of a lane, in units of 100 Mbit/s, and how many there are. */
static const struct {
	unsigned int rate;
	const char *name;
} lane_speeds[] = {{25, "SDR"},	 {50, "DDR"},  {100, "QDR"}, {100, "FDR10"},
		   {140, "FDR"}, {250, "EDR"}, {500, "HDR"}, {1000, "NDR"}};
static const unsigned int lane_counts[] = {1, 4, 8, 12, 2};

uint64_t port_rate(const struct ibv_port_attr *attr)
{
	return (uint64_t)lane_speeds[__builtin_ctz(attr->active_speed)].rate *
	       lane_counts[__builtin_ctz(attr->active_width)];
}

void port_rate_text(const struct ibv_port_attr *attr, char *text, size_t size)
{
	snprintf(text, size, "%g Gb/sec (%uX %s)", port_rate(attr) / 10.0,
		 lane_counts[__builtin_ctz(attr->active_width)],
		 lane_speeds[__builtin_ctz(attr->active_speed)].name);
}
