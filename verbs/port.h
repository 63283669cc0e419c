/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A port of a device: its addresses, and the network device that they are on, which is asked when
 * something asks for the port's attributes. For ibv_query_port() and sysfs, which have to agree.
 *
 * device.contexts_lock protects @netdev; what is behind it is the progress thread's
 * (verbs/device_watch.h).
 */
#ifndef URXE_VERBS_PORT_H
#define URXE_VERBS_PORT_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>

#include "net/wire/gid_table.h"

struct device;

struct port {
	struct device *device;
	uint8_t number; /* from 1 on */
	char *node;	/* the addresses asked for, or NULL for those of the machine */
	struct gid_table gids;
	struct gid_entry netdev; /* the entry of GID 0, or what it was */
	bool active;		 /* what contexts know */
	enum ibv_mtu mtu;	 /* what queue pairs know (qp_follow_mtu()) */
	bool gone;		 /* the network device is */
	bool asked;		 /* whether it runs, of which messages that wait may be older */
	bool runs;		 /* what the answer was */
	_Atomic bool disabled;	 /* a fault asks for it to be down (emu/inject/event.h) */
	bool unbound;		 /* an address may be that could not be bound yet */
};

/*
 * Port @number of @device with the addresses @node (NULL: the machine's). Returns 0
 * or an errno of gid_table_init().
 */
int port_init(struct port *port, struct device *device, uint8_t number, const char *node);
void port_destroy(struct port *port);

/* The network device, by GID 0 or what that was. Returns 0, or ENODATA for none. */
int port_netdev(struct port *port, struct gid_entry *entry);
/* It is from now on that of GID 0. False if there is none. */
bool port_use_netdev(struct port *port);

/*
 * Everything but max_msg_sz. Returns 0, or the errno of what kept us from asking, such as EMFILE;
 * @attr has what could be learned.
 */
int port_query(struct port *port, struct ibv_port_attr *attr);

/* For an address that @context, a port, would get: EEXIST if another port has it. */
gid_usable port_address_free;
/*
 * The same, and received on from now on, or an errno of link_ops.add_address. The device is open.
 */
gid_usable port_receive_on;

/* Whether the network device is up and has a carrier. */
bool port_is_active(struct port *port);

/* What width and speed come to, in units of 100 Mbit/s. */
uint64_t port_rate(const struct ibv_port_attr *attr);
/* Both as sysfs says them: "100 Gb/sec (4X EDR)". */
void port_rate_text(const struct ibv_port_attr *attr, char *text, size_t size);

#endif
