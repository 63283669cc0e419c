/* SPDX-License-Identifier: BSD-2-Clause */
/* Nothing here holds the table's lock across a system call. */
#include "net/wire/gid_table.h"

#include <errno.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/descriptor.h"
#include "net/log.h"
#include "net/netdev.h"
#include "net/syscalls.h"

#define MTU_DEFAULT 1500

/* --- Interfaces --------------------------------------------------------------- */

static bool is_ip(const struct ifaddrs *interface)
{
	return interface->ifa_addr && (interface->ifa_addr->sa_family == AF_INET ||
				       interface->ifa_addr->sa_family == AF_INET6);
}

/* An IPv4 address may have a label, "eth0:1", which getifaddrs() gives in place of the name. */
static size_t netdev_length(const char *name)
{
	return strcspn(name, ":");
}

/* Of its name or its label. */
static bool is_called(const struct ifaddrs *interface, const char *name)
{
	const size_t length = netdev_length(interface->ifa_name);

	return strcmp(interface->ifa_name, name) == 0 ||
	       (strlen(name) == length && strncmp(interface->ifa_name, name, length) == 0);
}

/* Returns 0, or an errno: without a free descriptor nothing is known of it. */
static int entry_set_netdev(struct gid_entry *entry, const char *name)
{
	const size_t length = netdev_length(name);
	struct ifreq answer;
	int error;

	memset(entry->netdev, 0, sizeof(entry->netdev));
	memcpy(entry->netdev, name,
	       length < sizeof(entry->netdev) ? length : sizeof(entry->netdev) - 1);
	error = netdev_index(entry->netdev, &entry->ifindex)
			?: netdev_ask(entry->netdev, SIOCGIFMTU, &answer);
	entry->mtu = error ? MTU_DEFAULT : (uint32_t)answer.ifr_mtu;
	if (!descriptor_is_exhaustion(error))
		return 0;
	entry->ifindex = 0;
	return error;
}

static bool has_address(const struct ifaddrs *interface, const union ibv_gid *gid)
{
	union ibv_gid address;

	if (!is_ip(interface))
		return false;
	gid_from_sockaddr(&address, interface->ifa_addr);
	return gid_equal(&address, gid);
}

/*
 * The interface that has @gid: by its address, best one that is up (one that is down keeps its IPv4
 * addresses), else the loopback interface, which answers for all of 127.0.0.0/8 and for AnyIP
 * routes. @scope: the only interface that may be it, or NULL.
 */
static const struct ifaddrs *interface_of(const struct ifaddrs *interfaces,
					  const union ibv_gid *gid, const char *scope)
{
	const struct ifaddrs *loopback = NULL, *down = NULL;

	for (const struct ifaddrs *i = interfaces; i; i = i->ifa_next) {
		bool up = i->ifa_flags & IFF_UP;

		if (scope && strcmp(i->ifa_name, scope) != 0)
			continue;
		if (up && (i->ifa_flags & IFF_LOOPBACK) && !loopback)
			loopback = i;
		if (!has_address(i, gid))
			continue;
		if (up)
			return i;
		if (!down)
			down = i;
	}
	return down ?: loopback;
}

/* Appends to @text, which is full from then on if it doesn't fit. */
static void append_address(char *text, size_t size, const struct ifaddrs *interface)
{
	char address[INET6_ADDRSTRLEN];
	size_t used = strlen(text);
	union ibv_gid gid;
	bool scoped;
	int length;

	gid_from_sockaddr(&gid, interface->ifa_addr);
	scoped = IN6_IS_ADDR_LINKLOCAL((const struct in6_addr *)&gid);
	length = snprintf(text + used, size - used, "%s%s%s%s", used ? ", " : "",
			  gid_to_text(&gid, address), scoped ? "%" : "",
			  scoped ? interface->ifa_name : "");
	if (length >= (int)(size - used))
		snprintf(text + used, size - used, "...");
}

void gid_local_text(char *text, size_t size)
{
	struct ifaddrs *interfaces;

	text[0] = '\0';
	if (getifaddrs(&interfaces) < 0)
		return;
	for (const struct ifaddrs *i = interfaces; i; i = i->ifa_next) {
		if (is_ip(i) && (i->ifa_flags & IFF_UP) && strlen(text) + sizeof("...") < size)
			append_address(text, size, i);
	}
	if (!*text)
		snprintf(text, size, "none on an interface that is up");
	freeifaddrs(interfaces);
}

unsigned int gid_interface(const union ibv_gid *gid)
{
	const struct ifaddrs *interface;
	struct ifaddrs *interfaces;
	unsigned int ifindex = 0;
	int error = ENODEV;

	if (getifaddrs(&interfaces) < 0)
		return 0;
	interface = interface_of(interfaces, gid, NULL);
	if (interface)
		ifindex = if_nametoindex(interface->ifa_name);
	if (interface && !ifindex)
		error = errno;
	freeifaddrs(interfaces);
	if (!ifindex)
		errno = error;
	return ifindex;
}

bool gid_is_on_interface(const union ibv_gid *gid, unsigned int ifindex)
{
	struct ifaddrs *interfaces;
	bool found = false;

	if (getifaddrs(&interfaces) < 0)
		return false;
	for (const struct ifaddrs *i = interfaces; i && !found; i = i->ifa_next)
		found = has_address(i, gid) && if_nametoindex(i->ifa_name) == ifindex;
	freeifaddrs(interfaces);
	return found;
}

/*
 * Whether @address, to which @fd is bound, is that of all hosts of a network. The kernel lets one
 * be bound, but connects to it only sockets that have asked for it (SO_BROADCAST).
 */
static bool is_broadcast(int fd, const struct sockaddr_storage *address, socklen_t length)
{
	const struct sockaddr_in *ipv4 = (const struct sockaddr_in *)address;

	if (address->ss_family != AF_INET)
		return false;
	return ipv4->sin_addr.s_addr == INADDR_BROADCAST ||
	       (connect(fd, (const struct sockaddr *)address, length) < 0 && errno == EACCES);
}

/* The kernel knows best whether an address is local: it lets us bind it. */
static int bind_probe(const union ibv_gid *gid, unsigned int ifindex)
{
	struct sockaddr_storage address;
	socklen_t length = gid_to_scoped_sockaddr(gid, 0, ifindex, &address);
	int fd = sys_socket(address.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int error = 0;

	if (fd < 0)
		return errno == EAFNOSUPPORT ? EADDRNOTAVAIL : errno;
	if (bind(fd, (struct sockaddr *)&address, length) < 0)
		error = errno;
	else if (is_broadcast(fd, &address, length))
		error = EADDRNOTAVAIL;
	close(fd);
	if (error == EADDRINUSE) /* all ports, of an address that is local */
		return 0;
	/* link-local, on no interface of ours, or on one that is gone */
	return error == EINVAL || error == ENODEV ? EADDRNOTAVAIL : error;
}

bool gid_is_local(const union ibv_gid *gid)
{
	/* Only these are bound on an interface, and to find that takes the list of all. */
	bool scoped = IN6_IS_ADDR_LINKLOCAL((const struct in6_addr *)gid);

	return bind_probe(gid, scoped ? gid_interface(gid) : 0) == 0;
}

static int entry_find_local(struct gid_entry *entry, const union ibv_gid *gid, const char *scope)
{
	const struct ifaddrs *interface;
	struct ifaddrs *interfaces;
	bool may_be_tentative;
	int error = 0;

	if (gid_is_unspecified(gid) || gid_is_multicast(gid))
		return EADDRNOTAVAIL;
	if (getifaddrs(&interfaces) < 0)
		return errno;

	*entry = (struct gid_entry){.gid = *gid, .mtu = MTU_DEFAULT};
	interface = interface_of(interfaces, gid, scope);
	if (interface)
		error = entry_set_netdev(entry, interface->ifa_name);
	may_be_tentative = interface && !gid_is_ipv4(gid) && has_address(interface, gid);
	freeifaddrs(interfaces);

	if (error)
		return error;
	if (scope && !interface)
		return EADDRNOTAVAIL;
	error = bind_probe(gid, entry->ifindex);
	/* It is local, though it can't be bound for a second or two. */
	return error == EADDRNOTAVAIL && may_be_tentative ? 0 : error;
}

/* --- The table ------------------------------------------------------------------ */

static bool is_empty(const struct gid_entry *entry)
{
	static const union ibv_gid none;

	return gid_equal(&entry->gid, &none);
}

static int find_locked(const struct gid_table *table, const union ibv_gid *gid)
{
	for (unsigned int i = 0; i < table->count; i++) {
		if (!is_empty(&table->entries[i]) && gid_equal(&table->entries[i].gid, gid))
			return i;
	}
	return -1;
}

/* With the lock. An index, or -ENOSPC. */
static int free_slot(struct gid_table *table)
{
	for (unsigned int i = 0; i < table->count; i++) {
		if (is_empty(&table->entries[i]))
			return i;
	}
	return table->count < GID_TABLE_ADDRESSES ? (int)table->count++ : -ENOSPC;
}

/* Returns 0, also when the table has the address already, or ENOSPC. */
static int append_entry(struct gid_table *table, const struct gid_entry *entry)
{
	int index;

	pthread_mutex_lock(&table->lock);
	index = find_locked(table, &entry->gid);
	if (index < 0) {
		index = free_slot(table);
		if (index >= 0)
			table->entries[index] = *entry;
	}
	pthread_mutex_unlock(&table->lock);
	return index < 0 ? -index : 0;
}

/*
 * Those of the interface @name; NULL: of all that are the loopback or aren't. Returns whether there
 * are any, in the table already or not. @error is the first one of all calls.
 */
static bool append_interfaces(struct gid_table *table, const struct ifaddrs *interfaces,
			      const char *name, bool loopback, int family, int *error)
{
	bool any = false;
	int failed;

	for (const struct ifaddrs *i = interfaces; i; i = i->ifa_next) {
		struct gid_entry entry = {};

		if (!is_ip(i) || i->ifa_addr->sa_family != family || !(i->ifa_flags & IFF_UP) ||
		    (name ? !is_called(i, name) : !(i->ifa_flags & IFF_LOOPBACK) != !loopback))
			continue;
		gid_from_sockaddr(&entry.gid, i->ifa_addr);
		any = true;
		failed = entry_set_netdev(&entry, i->ifa_name);
		*error = *error ?: failed;
		if (!failed)
			table->left_out += append_entry(table, &entry) != 0;
	}
	return any;
}

/* IPv4 before IPv6: what the first index names should be reachable from afar. */
static int append_all(struct gid_table *table)
{
	struct ifaddrs *interfaces;
	int error = 0;

	if (getifaddrs(&interfaces) < 0)
		return errno;
	append_interfaces(table, interfaces, NULL, false, AF_INET, &error);
	append_interfaces(table, interfaces, NULL, false, AF_INET6, &error);
	append_interfaces(table, interfaces, NULL, true, AF_INET, &error);
	append_interfaces(table, interfaces, NULL, true, AF_INET6, &error);
	freeifaddrs(interfaces);
	return error;
}

/* All addresses of the interface @name. */
static int append_interface(struct gid_table *table, const char *name)
{
	struct ifaddrs *interfaces;
	int error = 0;
	bool any;

	if (getifaddrs(&interfaces) < 0)
		return errno;
	any = append_interfaces(table, interfaces, name, false, AF_INET, &error);
	any |= append_interfaces(table, interfaces, name, false, AF_INET6, &error);
	freeifaddrs(interfaces);
	return any ? error : EADDRNOTAVAIL;
}

/* "fe80::1%eth0" names one of several interfaces that may have the address. */
static int append_scoped(struct gid_table *table, const char *text, const char *scope)
{
	struct gid_entry entry;
	union ibv_gid gid;
	int error = gid_from_text(&gid, text);

	if (error)
		return error;
	if (scope && gid_is_ipv4(&gid))
		return EINVAL;
	error = entry_find_local(&entry, &gid, scope);
	entry.named = true;
	return error ?: append_entry(table, &entry);
}

/* What addresses are listed by: an interface may have several names, and addresses a label. */
static const char *listed_name(const char *text, char name[IF_NAMESIZE])
{
	return strchr(text, ':') || !if_indextoname(if_nametoindex(text), name) ? text : name;
}

static int append_item(struct gid_table *table, char *text)
{
	char *scope = strchr(text, '%');
	char name[IF_NAMESIZE];
	unsigned int ifindex;
	int error;

	if (strcmp(text, "localhost") == 0)
		return append_scoped(table, "127.0.0.1", NULL);
	error = netdev_index(text, &ifindex);
	if (!error)
		return append_interface(table, listed_name(text, name));
	if (descriptor_is_exhaustion(error))
		return error;
	if (!scope)
		return append_scoped(table, text, NULL);
	*scope++ = '\0';
	return append_scoped(table, text, listed_name(scope, name));
}

/* Blanks surround an item. False: they are in it, as where they are to separate two. */
static bool trim(char **text)
{
	char *end;

	*text += strspn(*text, " \t");
	end = *text + strcspn(*text, " \t");
	if (end[strspn(end, " \t")])
		return false;
	*end = '\0';
	return true;
}

/* All that can be had. Returns the first error. */
static int append_list(struct gid_table *table, const char *node)
{
	char *list = strdup(node);
	char *text, *rest = list;
	int error = list ? 0 : ENOMEM;

	while ((text = strsep(&rest, ","))) {
		int failed = trim(&text) ? append_item(table, text) : EINVAL;

		error = error ? error : failed;
	}
	free(list);
	return error;
}

static int create_table(struct gid_table *table)
{
	table->count = table->left_out = 0;
	table->entries = calloc(GID_TABLE_LENGTH, sizeof(*table->entries));
	if (!table->entries)
		return ENOMEM;
	pthread_mutex_init(&table->lock, NULL);
	return 0;
}

static int fill(struct gid_table *table, const char *node)
{
	return node ? append_list(table, node) : append_all(table);
}

int gid_table_init(struct gid_table *table, const char *node)
{
	int error = create_table(table);

	if (error)
		return error;
	error = fill(table, node);
	if (table->left_out)
		log_warn("the GID table has space for %d addresses: %u more are left out. "
			 "Name those that are needed (urxe run --node)",
			 GID_TABLE_ADDRESSES, table->left_out);
	if (error)
		gid_table_destroy(table);
	return error;
}

void gid_table_destroy(struct gid_table *table)
{
	pthread_mutex_destroy(&table->lock);
	free(table->entries);
	table->entries = NULL;
	table->count = 0;
}

int gid_table_get(struct gid_table *table, unsigned int index, struct gid_entry *entry)
{
	int error = ENODATA;

	if (index >= GID_TABLE_LENGTH)
		return EINVAL;
	pthread_mutex_lock(&table->lock);
	if (index < table->count && !is_empty(&table->entries[index])) {
		*entry = table->entries[index];
		error = 0;
	}
	pthread_mutex_unlock(&table->lock);
	return error;
}

bool gid_table_next(struct gid_table *table, unsigned int *index, struct gid_entry *entry)
{
	while (*index < GID_TABLE_LENGTH && gid_table_get(table, *index, entry) != 0)
		++*index;
	return *index < GID_TABLE_LENGTH;
}

int gid_table_find(struct gid_table *table, const union ibv_gid *gid)
{
	int index;

	pthread_mutex_lock(&table->lock);
	index = find_locked(table, gid);
	pthread_mutex_unlock(&table->lock);
	return index;
}

bool gid_table_is_on(struct gid_table *table, unsigned int ifindex)
{
	bool any = false;

	pthread_mutex_lock(&table->lock);
	for (unsigned int i = 0; i < table->count; i++)
		any |= table->entries[i].ifindex == ifindex;
	pthread_mutex_unlock(&table->lock);
	return any;
}

int gid_table_add(struct gid_table *table, const union ibv_gid *gid, gid_usable *usable,
		  void *context)
{
	struct gid_entry entry;
	int error;

	if (gid_table_find(table, gid) >= 0)
		return 0;
	error = entry_find_local(&entry, gid, NULL);
	if (!error)
		error = usable(context, &entry);
	return error ?: append_entry(table, &entry);
}

/* --- Changes ---------------------------------------------------------------------- */

/* An address that an interface has, be it up or down, or that is local without one (127.0.0.2). */
static bool is_local(const struct ifaddrs *interfaces, const struct gid_entry *entry)
{
	for (const struct ifaddrs *i = interfaces; i; i = i->ifa_next) {
		if (has_address(i, &entry->gid))
			return true;
	}
	return bind_probe(&entry->gid, entry->ifindex) != EADDRNOTAVAIL;
}

/* The entry of a GID that the table has, as it is now. Returns whether the interface is another. */
static bool update_entry(struct gid_table *table, unsigned int index, const struct gid_entry *now)
{
	bool moved;

	pthread_mutex_lock(&table->lock);
	moved = table->entries[index].ifindex != now->ifindex;
	table->entries[index] = *now;
	pthread_mutex_unlock(&table->lock);
	return moved;
}

/* Where @entry is now: best where it was. */
static void follow_interface(struct gid_entry *entry, const struct ifaddrs *interfaces)
{
	const char *known = if_indextoname(entry->ifindex, entry->netdev);
	const struct ifaddrs *interface =
		known ? interface_of(interfaces, &entry->gid, known) : NULL;

	if (!interface)
		interface = interface_of(interfaces, &entry->gid, NULL);
	/* One that is no interface's may still be bound to (ip_nonlocal_bind), and stays. */
	if (interface && (!known || has_address(interface, &entry->gid)))
		entry_set_netdev(entry, interface->ifa_name);
}

/*
 * Entries that the node, which is @now, doesn't name: rdma_cm has added them, or the node's
 * interface has got another name. They go with their address. Returns whether any went or moved.
 */
static bool refresh_unnamed(struct gid_table *table, struct gid_table *now)
{
	struct gid_entry entry;
	struct ifaddrs *interfaces;
	bool changed = false, gone;

	if (getifaddrs(&interfaces) < 0)
		return false;
	for (unsigned int i = 0; gid_table_next(table, &i, &entry); i++) {
		if (gid_table_find(now, &entry.gid) >= 0)
			continue;
		gone = !is_local(interfaces, &entry);
		if (gone)
			entry = (struct gid_entry){};
		else
			follow_interface(&entry, interfaces);
		/* Without a free descriptor nothing is known of an interface. */
		if (gone || entry.ifindex)
			changed |= update_entry(table, i, &entry) || gone;
	}
	freeifaddrs(interfaces);
	return changed;
}

int gid_table_refresh(struct gid_table *table, const char *node, gid_usable *usable, void *context,
		      bool *result)
{
	struct gid_table now;
	struct gid_entry entry;
	bool changed;
	int error = create_table(&now);

	*result = false;
	if (error)
		return error;
	error = fill(&now, node);
	changed = refresh_unnamed(table, &now);
	for (unsigned int i = 0; gid_table_next(&now, &i, &entry); i++) {
		int index = gid_table_find(table, &entry.gid);

		/* Without a free descriptor nothing is known of an interface. */
		if (index >= 0)
			changed |= entry.ifindex && update_entry(table, index, &entry);
		else if (usable(context, &entry) == 0)
			changed |= append_entry(table, &entry) == 0;
	}
	gid_table_destroy(&now);
	*result = changed;
	return error;
}
