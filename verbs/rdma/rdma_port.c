/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ports, by Linux's rules: a port of a port space has owners, and whether one
 * more may have it depends on their addresses, families and options (rdma_bind_addr(3),
 * rdma_set_option(3)). rdma.lock protects the table.
 */
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <uthash.h>
#include <utlist.h>

#include "net/cause/cause.h"
#include "net/number_file.h"
#include "net/share/share.h"
#include "verbs/device.h"
#include "verbs/rdma/rdma.h"

#define PORT_UNPRIVILEGED 1024 /* Linux: PROT_SOCK */

struct rdma_port {
	uint32_t key; /* the low bits of the service id: port space and port */
	bool leased;  /* counted in leases.count */
	struct rdma_id *owners;
	UT_hash_handle hh;
};

static struct rdma_port *ports;

/*
 * Ports that the system chooses are leased from those that share our addresses, so that no peer
 * sees the same one of two processes. The roster has them without their port space.
 */
static struct {
	struct share *share; /* of any device of ours: all have one roster; NULL: not known yet */
	uint8_t count[UINT16_MAX + 1]; /* port spaces in which we have it */
} leases;

static struct share *find_share(void)
{
	struct device *devices;
	unsigned int count = rdma_open_devices(&devices);

	for (unsigned int i = 0; i < count && !leases.share; i++) {
		if (devices[i].link)
			leases.share = devices[i].link->share;
	}
	return leases.share;
}

/* False: another process has it. */
static bool lease(uint16_t number)
{
	struct share *share = leases.share ? leases.share : find_share();

	return !share || share->ops->take_port(share, number);
}

static void end_lease(uint16_t number)
{
	if (leases.share && !leases.count[number])
		leases.share->ops->release_port(leases.share, number);
}

void rdma_port_after_fork_child(void)
{
	leases.share = NULL;
}

/* In the space that the source address of @id is in. */
static uint32_t key_of(const struct rdma_id *id, uint16_t number)
{
	return (rdma_service_id(id, &id->ibv.route.addr.src_addr) & RDMA_IB_IP_PS_MASK) | number;
}

static struct rdma_port *port_find(const struct rdma_id *id, uint16_t number)
{
	uint32_t key = key_of(id, number);
	struct rdma_port *port;

	HASH_FIND(hh, ports, &key, sizeof(key), port);
	return port;
}

/* One that no id has; NULL without memory. */
static struct rdma_port *port_new(const struct rdma_id *id, uint16_t number)
{
	struct rdma_port *port = calloc(1, sizeof(*port));

	if (!port)
		return NULL;
	port->key = key_of(id, number);
	HASH_ADD(hh, ports, key, sizeof(port->key), port);
	if (port->hh.tbl)
		return port;
	free(port);
	return NULL;
}

static int own(struct rdma_id *id, uint16_t number)
{
	struct rdma_port *port = port_find(id, number) ?: port_new(id, number);

	if (!port)
		return refuse(ENOMEM, CAUSE_OUT_OF_MEMORY, "for a port");
	DL_APPEND2(port->owners, id, port_prev, port_next);
	id->port = port;
	rdma_sockaddr_set_port(&id->ibv.route.addr.src_addr, number);
	return 0;
}

void rdma_port_release(struct rdma_id *id)
{
	struct rdma_port *port = id->port;
	uint16_t number;

	if (!port)
		return;
	DL_DELETE2(port->owners, id, port_prev, port_next);
	id->port = NULL;
	if (port->owners)
		return;
	number = port->key;
	if (port->leased) {
		leases.count[number]--;
		end_lease(number);
	}
	HASH_DELETE(hh, ports, port);
	free(port);
}

static bool same_address(const struct sockaddr *a, const struct sockaddr *b)
{
	union ibv_gid left, right;

	rdma_sockaddr_gid(a, &left);
	rdma_sockaddr_gid(b, &right);
	return gid_equal(&left, &right);
}

static int refuse_port(int error, const struct rdma_id *id, const struct rdma_id *owner)
{
	char wanted[RDMA_ADDRESS_TEXT], had[RDMA_ADDRESS_TEXT];

	return refuse(error, CAUSE_CM_PORT_IN_USE, "%s: another id of this process has %s%s%s",
		      rdma_address_text(&id->ibv.route.addr.src_addr, wanted),
		      rdma_address_text(&owner->ibv.route.addr.src_addr, had),
		      owner->state == RDMA_STATE_LISTEN ? ", and listens" : "",
		      id->reuse_address && owner->reuse_address ? ""
								: ", without REUSEADDR of both");
}

/*
 * Whether @id can have @port beside its owners: 0, or EADDRINUSE of the same address, EADDRNOTAVAIL
 * where one of the two is any address. @shared: it may share the port with those that allow it, as
 * it does, and don't listen.
 */
static int check_owners(const struct rdma_port *port, const struct rdma_id *id, bool shared)
{
	const struct sockaddr *address = &id->ibv.route.addr.src_addr;

	for (const struct rdma_id *owner = port->owners; owner; owner = owner->port_next) {
		const struct sockaddr *other = &owner->ibv.route.addr.src_addr;

		if (owner == id)
			continue;
		if (shared && owner->reuse_address && owner->state != RDMA_STATE_LISTEN)
			continue;
		if (id->address_family_only && owner->address_family_only &&
		    address->sa_family != other->sa_family)
			continue;
		if (rdma_sockaddr_is_any(address) || rdma_sockaddr_is_any(other))
			return refuse_port(EADDRNOTAVAIL, id, owner);
		if (same_address(address, other))
			return refuse_port(EADDRINUSE, id, owner);
	}
	return 0;
}

int rdma_port_check_listen(const struct rdma_id *id)
{
	return id->port && id->reuse_address ? check_owners(id->port, id, false) : 0;
}

bool rdma_port_ipv6_only(void)
{
	return number_file_read("/proc/sys/net/ipv6/bindv6only", 0);
}

static void ephemeral_range(unsigned int *low, unsigned int *high)
{
	FILE *file = fopen("/proc/sys/net/ipv4/ip_local_port_range", "re");

	if (!file || fscanf(file, "%u %u", low, high) != 2 || *low == 0 || *low > *high ||
	    *high > UINT16_MAX) {
		*low = 32768;
		*high = 60999;
	}
	if (file)
		fclose(file);
}

/* Whether the connection that @id is about to make differs from that of every owner. */
static bool unique(const struct rdma_port *port, const struct rdma_id *id)
{
	const struct rdma_addr *address = &id->ibv.route.addr;

	for (const struct rdma_id *owner = port->owners; owner; owner = owner->port_next) {
		const struct rdma_addr *other = &owner->ibv.route.addr;

		if (rdma_sockaddr_is_any(&other->dst_addr))
			return false;
		if (rdma_sockaddr_port(&address->dst_addr) ==
			    rdma_sockaddr_port(&other->dst_addr) &&
		    same_address(&address->dst_addr, &other->dst_addr) &&
		    (rdma_sockaddr_is_any(&address->src_addr) ||
		     rdma_sockaddr_is_any(&other->src_addr) ||
		     same_address(&address->src_addr, &other->src_addr)))
			return false;
	}
	return true;
}

static int own_leased(struct rdma_id *id, uint16_t number)
{
	int error = own(id, number);

	if (error) {
		end_lease(number);
	} else if (!id->port->leased) {
		id->port->leased = true;
		leases.count[number]++;
	}
	return error;
}

struct range {
	unsigned int low, high;
};

/*
 * From a random place on, so that a port isn't used again at once. EADDRNOTAVAIL: no port of
 * @range is free, of those that are @leased.
 */
static int bind_within(struct rdma_id *id, const struct range *range, bool leased)
{
	unsigned int count = range->high - range->low + 1, start = 0;

	if (getrandom(&start, sizeof(start), GRND_NONBLOCK) != sizeof(start))
		start = (uintptr_t)id >> 4;
	for (unsigned int i = 0; i < count; i++) {
		uint16_t number = range->low + (start + i) % count;
		const struct rdma_port *port = port_find(id, number);

		if (port && !unique(port, id))
			continue;
		if (!leased)
			return own(id, number);
		if (lease(number))
			return own_leased(id, number);
	}
	return EADDRNOTAVAIL;
}

/* Where other processes have all ports one is shared, as connections tell themselves apart. */
static int bind_any(struct rdma_id *id)
{
	static struct range range;
	int error;

	if (range.high == 0)
		ephemeral_range(&range.low, &range.high);
	error = bind_within(id, &range, true);
	if (error == EADDRNOTAVAIL)
		error = bind_within(id, &range, false);
	if (error == EADDRNOTAVAIL)
		refuse(error, CAUSE_CM_PORT_IN_USE, "all ports from %u to %u are bound", range.low,
		       range.high);
	return error;
}

static bool is_privileged(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3] = {};

	return syscall(SYS_capget, &header, sets) == 0 &&
	       sets[CAP_TO_INDEX(CAP_NET_BIND_SERVICE)].effective &
		       CAP_TO_MASK(CAP_NET_BIND_SERVICE);
}

/* As for TCP (Linux: cma_use_port()). 0 or EACCES. */
static int check_privilege(uint16_t number)
{
	if (number >= PORT_UNPRIVILEGED || is_privileged())
		return 0;
	return refuse(EACCES, CAUSE_CM_PORT_PRIVILEGED,
		      "port %u, without the capability CAP_NET_BIND_SERVICE", number);
}

int rdma_port_bind(struct rdma_id *id)
{
	uint16_t number = rdma_sockaddr_port(&id->ibv.route.addr.src_addr);
	const struct rdma_port *port;
	int error;

	if (number == 0)
		return bind_any(id);
	error = check_privilege(number);
	port = port_find(id, number);
	if (!error && port)
		error = check_owners(port, id, id->reuse_address);
	return error ? error : own(id, number);
}
