/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The GID tables of an HCA's ports: port 1 has the first. A GID index is relative to its port, so
 * an address is found by (port, index), and a port by an address, which is of one port only.
 * The pointers don't change while the HCA is open, so there is no lock; the tables have their own.
 *
 * Kept by the verbs layer, which makes the tables, and by the core.
 */
#ifndef URXE_NET_PORT_GIDS_H
#define URXE_NET_PORT_GIDS_H

#include "net/wire/gid_table.h"

#define PORTS_MAX 2 /* as cards have them */

struct port_gids {
	struct gid_table *tables[PORTS_MAX]; /* NULL: there is no such port */
};

struct gid_place {
	uint8_t port_num;
	unsigned int index;
	struct gid_entry entry;
};

unsigned int port_gids_count(const struct port_gids *gids);

/* The table of the port @port_num, from 1 on; NULL: there is no such port. */
struct gid_table *port_gids_table(const struct port_gids *gids, unsigned int port_num);

/* Where @gid is. False: nowhere; @place is then an empty entry at the first index of port 1. */
bool port_gids_find(const struct port_gids *gids, const union ibv_gid *gid,
		    struct gid_place *place);

#endif
