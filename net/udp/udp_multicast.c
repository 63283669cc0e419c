/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Multicast groups of the real link: a socket on :4791 for each, with a
 * membership on each interface where the group was joined, so that the kernel
 * speaks IGMP and MLD. A group of one link's scope (ff02::/16) has a socket for
 * each of these interfaces, as the kernel binds it to one. The sockets of all
 * processes and users of the machine get a copy of every packet, the sender's own
 * among them: IP's multicast loopback is RoCE's.
 *
 * link->lock serializes joining and leaving. multicast.lock keeps a socket from being
 * closed while it is read; it is never held across a system call that may take long.
 */
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uthash.h>

#include "net/log.h"
#include "net/syscalls.h"
#include "net/udp/udp_link.h"
#include "net/wire/gid.h"
#include "net/wire/gid_table.h"

struct group_key {
	union ibv_gid gid;
	uint64_t interface; /* 0: any. Without padding behind it, which would be hashed */
};

_Static_assert(sizeof(struct group_key) == sizeof(union ibv_gid) + sizeof(uint64_t), "no padding");

struct udp_group {
	struct group_key key;
	struct udp_address address; /* the group's GID and the socket; nothing is sent from it */
	unsigned int *interfaces;   /* where it was joined; under multicast.lock */
	unsigned int interface_count;
	bool everywhere; /* joined without a source */
	UT_hash_handle hh;
};

/* --- Life ------------------------------------------------------------------------ */

void udp_multicast_init(struct udp_link *link)
{
	pthread_mutex_init(&link->multicast.lock, NULL);
	link->multicast.epoll_fd = -1;
}

/* The application may have closed it, and left the group before that was seen. */
static void group_close(struct udp_group *group)
{
	descriptor_close(group->address.receive_fd, &group->address.receive_identity);
	free(group->interfaces);
	free(group);
}

void udp_multicast_destroy(struct udp_link *link)
{
	struct udp_group *group, *next;

	HASH_ITER (hh, link->multicast.groups, group, next) {
		HASH_DEL(link->multicast.groups, group);
		group_close(group);
	}
	if (link->multicast.epoll_fd >= 0)
		close(link->multicast.epoll_fd);
	pthread_mutex_destroy(&link->multicast.lock);
}

/* As udp_after_fork_child(): no lock, and nothing is freed. */
void udp_multicast_after_fork_child(struct udp_link *link)
{
	struct udp_group *group, *next;

	HASH_ITER (hh, link->multicast.groups, group, next)
		descriptor_close(group->address.receive_fd, &group->address.receive_identity);
	link->multicast.parents_groups = link->multicast.groups;
	link->multicast.groups = NULL;
	link->multicast.count = 0;
	descriptor_close(link->multicast.epoll_fd, &link->multicast.epoll_identity);
	link->multicast.epoll_fd = -1;
}

bool udp_multicast_verify(struct udp_link *link)
{
	struct udp_multicast *multicast = &link->multicast;
	struct udp_group *group, *next;
	bool intact = descriptor_verify(&multicast->epoll_fd, &multicast->epoll_identity);

	pthread_mutex_lock(&multicast->lock);
	HASH_ITER (hh, multicast->groups, group, next)
		intact &= descriptor_verify(&group->address.receive_fd,
					    &group->address.receive_identity);
	pthread_mutex_unlock(&multicast->lock);
	return intact;
}

/* --- Joining and leaving ----------------------------------------------------------- */

static int open_epoll(struct udp_multicast *multicast)
{
	int fd;

	if (multicast->epoll_fd >= 0)
		return 0;
	fd = sys_epoll_create(EPOLL_CLOEXEC);
	if (fd < 0)
		return errno;
	multicast->epoll_identity = descriptor_identify(fd);
	__atomic_store_n(&multicast->epoll_fd, fd, __ATOMIC_RELEASE);
	return 0;
}

/*
 * Sockets of other processes and users may be bound there, too. Packets that came by an
 * interface where only they joined the group aren't for this socket; of IPv6 the kernel gives
 * them to it all the same: udp_group_is_on().
 */
static int bind_group(int fd, const union ibv_gid *gid, unsigned int interface)
{
	int on = 1, off = 0;

	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0)
		return errno;
	if (gid_is_ipv4(gid))
		setsockopt(fd, IPPROTO_IP, IP_MULTICAST_ALL, &off, sizeof(off));
	return udp_bind(fd, gid, interface, ROCE_V2_UDP_PORT);
}

static int receive_interface(const struct udp_group *group)
{
	bool ipv4 = gid_is_ipv4(&group->address.gid);
	int on = 1;

	return setsockopt(group->address.receive_fd, ipv4 ? IPPROTO_IP : IPPROTO_IPV6,
			  ipv4 ? IP_PKTINFO : IPV6_RECVPKTINFO, &on, sizeof(on)) < 0
		       ? errno
		       : 0;
}

static int group_open(const struct udp_link *link, const struct group_key *key,
		      struct udp_group **opened)
{
	const union ibv_gid *gid = &key->gid;
	struct udp_group *group = calloc(1, sizeof(*group));
	int error;

	if (!group)
		return ENOMEM;
	group->key = *key;
	group->address.gid = *gid;
	group->address.group = group;
	group->address.send_fd = -1;
	error = udp_receiver_open(link, gid, &group->address.receive_fd);
	if (error) {
		free(group);
		return error;
	}
	group->address.receive_identity = descriptor_identify(group->address.receive_fd);
	error = bind_group(group->address.receive_fd, gid, key->interface);
	if (!error)
		error = udp_address_receive_grh(&group->address); /* datagrams show them */
	if (!error)
		error = receive_interface(group);
	if (error) {
		group_close(group);
		return error;
	}
	*opened = group;
	return 0;
}

/* Returns 0 also for an interface where it is a member already. */
static int add_membership(const struct udp_group *group, unsigned int interface)
{
	const union ibv_gid *gid = &group->address.gid;
	int fd = group->address.receive_fd, result;

	if (gid_is_ipv4(gid)) {
		struct ip_mreqn request = {.imr_ifindex = interface};

		memcpy(&request.imr_multiaddr, gid->raw + 12, sizeof(request.imr_multiaddr));
		result = setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &request, sizeof(request));
	} else {
		struct ipv6_mreq request = {.ipv6mr_interface = interface};

		memcpy(&request.ipv6mr_multiaddr, gid->raw, sizeof(request.ipv6mr_multiaddr));
		result = setsockopt(fd, IPPROTO_IPV6, IPV6_ADD_MEMBERSHIP, &request,
				    sizeof(request));
	}
	return result < 0 && errno != EADDRINUSE ? errno : 0;
}

bool udp_group_is_on(const struct udp_group *group, unsigned int interface)
{
	for (unsigned int i = 0; i < group->interface_count; i++) {
		if (group->interfaces[i] == interface)
			return true;
	}
	return false;
}

/* It is a member there: what comes from now on is heard. */
static int note_interface(struct udp_multicast *multicast, struct udp_group *group,
			  unsigned int interface)
{
	unsigned int *interfaces = group->interfaces, count = group->interface_count;

	pthread_mutex_lock(&multicast->lock);
	if (!udp_group_is_on(group, interface)) {
		interfaces = realloc(interfaces, (count + 1) * sizeof(*interfaces));
		if (interfaces) {
			interfaces[count] = interface;
			group->interfaces = interfaces;
			group->interface_count++;
		}
	}
	pthread_mutex_unlock(&multicast->lock);
	return interfaces ? 0 : ENOMEM;
}

static bool fits(const union ibv_gid *gid, const union ibv_gid *source)
{
	return gid_is_ipv4(gid) == gid_is_ipv4(source);
}

/* Let receive() find it. */
static int publish(struct udp_multicast *multicast, struct udp_group *group)
{
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = group};
	int error = 0;

	pthread_mutex_lock(&multicast->lock);
	HASH_ADD(hh, multicast->groups, key, sizeof(group->key), group);
	if (!group->hh.tbl)
		error = ENOMEM;
	else if (sys_epoll_ctl(multicast->epoll_fd, EPOLL_CTL_ADD, group->address.receive_fd,
			       &event))
		error = errno;
	if (!error)
		atomic_fetch_add(&multicast->count, 1);
	else if (group->hh.tbl)
		HASH_DEL(multicast->groups, group);
	pthread_mutex_unlock(&multicast->lock);
	return error;
}

static struct udp_group *group_find(struct udp_link *link, const struct group_key *key)
{
	struct udp_group *group;

	HASH_FIND(hh, link->multicast.groups, key, sizeof(*key), group);
	return group;
}

/* RFC 4291, 2.7: interface-local or link-local. Such an address is bound on one interface. */
static bool is_of_one_link(const union ibv_gid *gid)
{
	const struct in6_addr *address = (const struct in6_addr *)gid;

	return IN6_IS_ADDR_MC_NODELOCAL(address) || IN6_IS_ADDR_MC_LINKLOCAL(address);
}

/* @everywhere: also on the interfaces of addresses that come later. */
static int join_on(struct udp_link *link, const union ibv_gid *gid, unsigned int interface,
		   bool everywhere)
{
	const struct group_key key = {*gid, is_of_one_link(gid) ? interface : 0};
	struct udp_group *group = group_find(link, &key);
	bool made = !group;
	int error = 0;

	if (made)
		error = open_epoll(&link->multicast);
	if (made && !error)
		error = group_open(link, &key, &group);
	if (error)
		return error;
	error = add_membership(group, interface);
	if (!error)
		error = note_interface(&link->multicast, group, interface);
	if (!error && made)
		error = publish(&link->multicast, group);
	if (!error)
		group->everywhere |= everywhere;
	else if (made)
		group_close(group);
	return error;
}

/* Where @source is. */
static int join_at(struct udp_link *link, const union ibv_gid *gid, const union ibv_gid *source,
		   bool everywhere)
{
	unsigned int interface = gid_interface(source);

	return interface ? join_on(link, gid, interface, everywhere) : errno;
}

/* One interface is enough: a device that is down now, or can't do multicast, is left out. */
static int join_everywhere(struct udp_link *link, const union ibv_gid *gid)
{
	int last = ENODEV;
	bool joined = false;

	for (unsigned int i = 0; i < link->count; i++) {
		const union ibv_gid *source = &link->addresses[i]->gid;
		int error;

		if (!fits(gid, source))
			continue;
		error = join_at(link, gid, source, true);
		joined |= !error;
		last = error ? error : last;
	}
	return joined ? 0 : last;
}

static int join_locked(struct udp_link *link, const union ibv_gid *gid, const union ibv_gid *source)
{
	if (!source)
		return join_everywhere(link, gid);
	return fits(gid, source) ? join_at(link, gid, source, false) : ENODEV;
}

int udp_join(struct link *base, const union ibv_gid *group, const union ibv_gid *source)
{
	struct udp_link *link = (struct udp_link *)base;
	char text[INET6_ADDRSTRLEN];
	int error, state;

	/* Asking for interfaces and closing sockets are cancellation points, with locks held. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	pthread_mutex_lock(&link->lock);
	error = join_locked(link, group, source);
	pthread_mutex_unlock(&link->lock);
	pthread_setcancelstate(state, NULL);
	if (error)
		log_info("can't join group %s: %s", gid_to_text(group, text), strerror(error));
	return error;
}

void udp_leave(struct link *base, const union ibv_gid *gid)
{
	struct udp_link *link = (struct udp_link *)base;
	struct udp_multicast *multicast = &link->multicast;
	struct udp_group *group, *next;
	int state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	pthread_mutex_lock(&link->lock);
	HASH_ITER (hh, multicast->groups, group, next) {
		if (!gid_equal(&group->key.gid, gid))
			continue;
		pthread_mutex_lock(&multicast->lock);
		HASH_DEL(multicast->groups, group);
		atomic_fetch_sub(&multicast->count, 1);
		sys_epoll_ctl(multicast->epoll_fd, EPOLL_CTL_DEL, group->address.receive_fd, NULL);
		pthread_mutex_unlock(&multicast->lock);
		group_close(group);
	}
	pthread_mutex_unlock(&link->lock);
	pthread_setcancelstate(state, NULL);
}

void udp_multicast_extend(struct udp_link *link, const union ibv_gid *gid)
{
	unsigned int interface = link->multicast.groups ? gid_interface(gid) : 0;
	const int absent = errno;
	struct udp_group *group, *next;

	HASH_ITER (hh, link->multicast.groups, group, next) {
		int error;

		if (!group->everywhere || !fits(&group->address.gid, gid))
			continue;
		error = interface ? join_on(link, &group->address.gid, interface, true) : absent;
		if (error)
			log_info("a multicast group isn't joined by a new address: %s",
				 strerror(error));
	}
}

/* --- Sending ----------------------------------------------------------------------- */

/* IPv4 goes by the source address without being told. */
void udp_multicast_from(int fd, const union ibv_gid *source)
{
	int interface;

	if (gid_is_ipv4(source))
		return;
	interface = gid_interface(source);
	setsockopt(fd, IPPROTO_IPV6, IPV6_MULTICAST_IF, &interface, sizeof(interface));
}

/* --- Receiving --------------------------------------------------------------------- */

unsigned int udp_multicast_descriptors(const struct udp_link *link, int *fds, unsigned int max)
{
	int fd = __atomic_load_n(&link->multicast.epoll_fd, __ATOMIC_ACQUIRE);

	if (fd < 0 || max == 0)
		return 0;
	fds[0] = fd;
	return 1;
}

/*
 * The group of an @event, or NULL. The application may have closed the epoll's descriptor and
 * opened another with its number, whose events are about something else.
 */
static struct udp_group *group_of_event(const struct udp_multicast *multicast,
					const struct epoll_event *event)
{
	struct udp_group *group, *next;

	HASH_ITER (hh, multicast->groups, group, next) {
		if (group == event->data.ptr)
			return group;
	}
	return NULL;
}

/* While other packets come the groups are asked every FAIR_ROUNDS. */
unsigned int udp_multicast_receive(struct udp_link *link, struct link_frame *frames,
				   unsigned int max, bool idle)
{
	struct udp_multicast *multicast = &link->multicast;
	struct epoll_event event;
	unsigned int count = 0;

	if (!idle && ++multicast->rounds < FAIR_ROUNDS)
		return 0;
	multicast->rounds = 0;
	pthread_mutex_lock(&multicast->lock);
	if (udp_ready(descriptor_number(&multicast->epoll_fd), &event)) {
		const struct udp_group *group = group_of_event(multicast, &event);

		if (group)
			count = udp_receive_from(link, &group->address, frames, max);
	}
	pthread_mutex_unlock(&multicast->lock);
	return count;
}
