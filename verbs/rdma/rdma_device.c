/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The devices that ids are bound to. Each is opened once, when an id or
 * rdma_get_devices() first needs it, and stays open: its context, its default PD and
 * XRC domain are the same for all ids, and applications keep using them after the last
 * id is gone. rdma.lock protects the table.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "net/cause/cause.h"
#include "net/log.h"
#include "net/quarantine.h"
#include "verbs/context.h"
#include "verbs/devices.h"
#include "verbs/rdma/rdma.h"

struct opened {
	struct context *context; /* NULL: not yet */
	struct ibv_pd *pd;
	struct ibv_xrcd *xrcd; /* NULL: not needed yet */
};

static struct opened *table; /* as long as that of verbs/devices.c */

/* For the child of a fork: what is open is the parent's. */
void rdma_devices_after_fork_child(void)
{
	table = NULL;
}

static int open_device(struct device *device, struct opened *entry)
{
	static const struct cm_sink sink = {rdma_handle_event, rdma_handle_request};
	struct ibv_context *verbs;
	struct ibv_pd *pd;
	int error;

	__atomic_store_n(&device->connections, &sink, __ATOMIC_RELEASE);
	__atomic_store_n(&device->removed, rdma_watch_removed, __ATOMIC_RELEASE);
	verbs = urxe_open_device(&device->ibv);
	if (!verbs)
		return errno;
	rdma_watch_start();
	pd = urxe_alloc_pd(verbs);
	if (!pd) {
		error = errno;
		urxe_close_device(verbs);
		return error;
	}
	entry->context = to_context(verbs);
	entry->pd = pd;
	return 0;
}

/* Returns 0 or ENOMEM. */
static int make_table(void)
{
	struct device *devices;
	unsigned int count = devices_all(&devices);

	if (!table)
		table = calloc(count, sizeof(*table));
	return table ? 0 : refuse(ENOMEM, CAUSE_OUT_OF_MEMORY, "for the devices of rdma_cm");
}

bool rdma_device_has_failed(const struct device *device)
{
	struct device *devices;

	devices_all(&devices);
	return table && table[device - devices].context && device->hca->failed;
}

/* Have the table's @entry for @device open. Returns 0 or an errno. */
static int open_entry(struct device *device, struct opened *entry)
{
	if (rdma_device_has_failed(device))
		return refuse(ENODEV, CAUSE_CM_DEVICE_FAILED, "%s", device->ibv.name);
	return entry->context ? 0 : open_device(device, entry);
}

/* The table's entry for @device, open. Returns 0 or an errno. */
static int get_entry(struct device *device, struct opened **entry)
{
	struct device *devices;
	int error = make_table();

	if (error)
		return error;
	devices_all(&devices);
	*entry = &table[device - devices];
	return open_entry(device, *entry);
}

unsigned int rdma_open_devices(struct device **devices)
{
	unsigned int count = devices_all(devices);

	make_table();
	for (unsigned int i = 0; table && i < count; i++) {
		int error = open_entry(&(*devices)[i], &table[i]);

		if (error)
			log_info("%s can't be opened: errno %d", (*devices)[i].ibv.name, error);
	}
	return count;
}

bool rdma_any_device_opens(void)
{
	struct device *devices;
	unsigned int count;
	bool any = false;

	rdma_enter();
	count = rdma_open_devices(&devices);
	for (unsigned int i = 0; table && i < count; i++)
		any = any || table[i].context;
	rdma_leave();
	return any;
}

void rdma_devices_app_sleeping(void)
{
	struct device *devices;
	unsigned int count = devices_all(&devices);

	rdma_enter();
	for (unsigned int i = 0; table && i < count; i++) {
		if (table[i].context)
			progress_app_sleeping(devices[i].client);
	}
	rdma_leave();
}

/* The address may be gone when its network device is. */
static void note_port(struct rdma_id *id, const union ibv_gid *gid)
{
	struct gid_place place;

	if (port_gids_find(&id->device->gids, gid, &place))
		id->interface = place.entry.ifindex;
	id->ibv.port_num = place.port_num;
}

int rdma_id_use(struct rdma_id *id, struct device *device, const union ibv_gid *gid)
{
	struct opened *entry;
	int error = get_entry(device, &entry);

	if (error)
		return error;
	id->device = device;
	id->context = entry->context;
	id->ibv.verbs = &entry->context->verbs.context;
	id->ibv.pd = entry->pd;
	note_port(id, gid);
	return 0;
}

void rdma_id_detach(struct rdma_id *id)
{
	id->device = NULL;
	id->context = NULL;
	id->ibv.verbs = NULL;
	id->ibv.port_num = 0;
	id->ibv.pd = NULL;
	id->interface = 0;
}

struct ibv_xrcd *rdma_default_xrcd(const struct rdma_id *id)
{
	struct ibv_xrcd_init_attr attr = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = -1, /* the process's own */
		.oflags = O_CREAT,
	};
	struct ibv_xrcd *xrcd = NULL;
	struct opened *entry;
	int error;

	rdma_enter();
	error = get_entry(id->device, &entry);
	if (!error && !entry->xrcd)
		entry->xrcd = urxe_open_xrcd(&entry->context->verbs.context, &attr);
	if (!error)
		xrcd = entry->xrcd;
	rdma_leave();
	return error ? fail(error) : xrcd;
}

/* The device that has @gid already. */
static struct device *owner_of(const union ibv_gid *gid)
{
	struct device *devices;
	unsigned int count = devices_all(&devices);
	struct gid_place place;

	for (unsigned int i = 0; i < count; i++) {
		if (port_gids_find(&devices[i].gids, gid, &place))
			return &devices[i];
	}
	return NULL;
}

/* The port of @device that is @interface, or NULL. */
static struct port *port_on(struct device *device, unsigned int interface)
{
	struct gid_entry netdev;
	struct port *port;

	for (unsigned int i = 1; (port = device_port(device, i)); i++) {
		if (port_netdev(port, &netdev) == 0 && netdev.ifindex == interface)
			return port;
	}
	return NULL;
}

/*
 * The port that gets a local address which no port has: that of the address's interface, or the
 * first one.
 */
static struct port *successor_of(const union ibv_gid *gid)
{
	unsigned int interface = gid_interface(gid);
	struct port *port = NULL;
	struct device *devices;
	unsigned int count = devices_all(&devices);

	for (unsigned int i = 0; i < count && !port; i++)
		port = port_on(&devices[i], interface);
	return port || !count ? port : device_port(&devices[0], 1);
}

int rdma_id_attach(struct rdma_id *id, const union ibv_gid *gid)
{
	struct device *device = owner_of(gid);
	char text[INET6_ADDRSTRLEN];
	struct port *port;
	int error;

	if (device)
		return rdma_id_use(id, device, gid);
	port = successor_of(gid);
	if (!port)
		return ENODEV;
	error = rdma_id_use(id, port->device, gid);
	if (!error) {
		error = device_add_address(port, gid);
		if (error)
			refuse(error, CAUSE_CM_NOT_LOCAL, "%s: %s: %s", port->device->ibv.name,
			       gid_to_text(gid, text), strerror(error));
		/* ENOSPC says that there is no port left: rdma_claim_error(). */
		if (error == ENOSPC)
			error = EADDRNOTAVAIL;
	}
	if (error)
		rdma_id_detach(id);
	else
		note_port(id, gid);
	return error;
}

struct ibv_context **urxe_rdma_get_devices(int *result)
{
	struct ibv_context **list;
	struct device *devices;
	unsigned int count, opened = 0;

	rdma_enter();
	count = rdma_open_devices(&devices);
	list = calloc(count + 1, sizeof(*list));
	for (unsigned int i = 0; list && table && i < count; i++) {
		if (table[i].context)
			list[opened++] = &table[i].context->verbs.context;
	}
	rdma_leave();
	if (!list) {
		list = fail(refuse(ENOMEM, CAUSE_OUT_OF_MEMORY, "for a list of devices"));
	} else if (opened == 0) {
		free(list);
		list = fail(ENODEV);
	}
	if (result)
		*result = opened;
	return list;
}

void urxe_rdma_free_devices(struct ibv_context **list)
{
	quarantine_free(list, sizeof(*list));
}
