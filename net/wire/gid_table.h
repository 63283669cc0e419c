/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The GID table of a port: which addresses this node has. Built from the
 * machine's interfaces or from a list given by the user; read by the verbs
 * layer (query_gid, sysfs) and by the core (source addresses, "is this packet
 * for us"). An entry keeps its index until its address is gone; then the slot is
 * empty, and free for a new address. @lock protects count and entries.
 */
#ifndef URXE_NET_GID_TABLE_H
#define URXE_NET_GID_TABLE_H

#include <infiniband/verbs.h>
#include <net/if.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "net/wire/gid.h"

#define GID_TABLE_LENGTH 1024 /* as rxe: RXE_PORT_GID_TBL_LEN */
/* So many can an address vector name: ibv_global_route.sgid_index has eight bits. */
#define GID_TABLE_ADDRESSES 256

struct gid_entry {
	union ibv_gid gid;
	unsigned int ifindex;
	char netdev[IF_NAMESIZE];
	uint32_t mtu; /* of the network device */
	bool named;   /* by the user; not found on an interface that was, or on any */
};

struct gid_table {
	pthread_mutex_t lock;
	unsigned int count;	   /* slots used until now; behind them all are empty */
	unsigned int left_out;	   /* addresses of interfaces, for want of a slot */
	struct gid_entry *entries; /* GID_TABLE_LENGTH of them, touched as used; empty: zeros */
};

/*
 * Fill @table. @node: comma-separated addresses ("127.0.0.2,fd00::2,fe80::2%eth0"),
 * names of interfaces, which stand for all their addresses, and "localhost"; or NULL
 * for the addresses of all interfaces that are up, real ones before loopback.
 * Returns 0 or an errno: EINVAL for something that is none of these, EADDRNOTAVAIL
 * for an address that no local interface has (all of 127.0.0.0/8 is local), or not that
 * interface, and for an interface that has none; ENOSPC for more than GID_TABLE_ADDRESSES.
 * Of interfaces, what is beyond these is left out, with a warning.
 */
int gid_table_init(struct gid_table *table, const char *node);
void gid_table_destroy(struct gid_table *table);

/* Copy entry @index. Returns 0, ENODATA for an empty slot, EINVAL beyond the table. */
int gid_table_get(struct gid_table *table, unsigned int index, struct gid_entry *entry);

/* Copy the first entry from *@index on, which becomes its index. False if there is none. */
bool gid_table_next(struct gid_table *table, unsigned int *index, struct gid_entry *entry);

/* The index of @gid, or -1. */
int gid_table_find(struct gid_table *table, const union ibv_gid *gid);

/* Whether an address of the table is on the interface @ifindex. */
bool gid_table_is_on(struct gid_table *table, unsigned int ifindex);

/* Whether an address that was found can be had: 0 or an errno. */
typedef int gid_usable(void *context, const struct gid_entry *entry);

/*
 * Append a local address (rdma_bind_addr() to one the table lacks). Returns 0, also when the table
 * has it; EADDRNOTAVAIL if packets can't be sent from it and to it by others; ENOSPC; or what
 * @usable does.
 */
int gid_table_add(struct gid_table *table, const union ibv_gid *gid, gid_usable *usable,
		  void *context);

/*
 * What the machine has now: entries whose address is gone are removed, the others get
 * their interface and MTU anew, and addresses that @node names (as for gid_table_init())
 * are added if @usable returns 0. By one thread at a time. *@changed: GIDs came, went or
 * moved to another interface. Returns what gid_table_init() would.
 */
int gid_table_refresh(struct gid_table *table, const char *node, gid_usable *usable, void *context,
		      bool *changed);

/* The interface that has @gid (link-local IPv6 addresses need it to be bound), or 0 and errno. */
unsigned int gid_interface(const union ibv_gid *gid);

/* Whether the machine has it: sockets can be bound to it. */
bool gid_is_local(const union ibv_gid *gid);

/* Whether the interface has it. */
bool gid_is_on_interface(const union ibv_gid *gid, unsigned int ifindex);

/* The addresses of the interfaces that are up, for messages: "10.0.0.1, fe80::1%eth0, ...". */
void gid_local_text(char *text, size_t size);

#endif
