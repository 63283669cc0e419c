/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The sockets of the real link's addresses: their options, buffers and ports.
 *
 * Two sockets an address. The receiving one, on :4791, is never connected: a
 * connected socket would take all packets of one peer. The sending one isn't
 * either: only an unconnected socket with path MTU discovery on sends IPv4
 * packets with a known identification, 0, which the ICRC covers. It has a port
 * of its own in the range of RoCE's entropy ports, and is never read. Destinations on this
 * machine have connected ones beside it (udp_connection.h).
 */
#include "net/udp/udp_link.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/log.h"
#include "net/syscalls.h"

#ifndef UDP_NO_CHECK6_RX
#define UDP_NO_CHECK6_RX 102
#endif
#ifndef IPV6_AUTOFLOWLABEL
#define IPV6_AUTOFLOWLABEL 70
#endif

#define RECEIVE_BUFFER (32u << 20) /* unless it is given; more than a window ever needs */
#define SEND_BUFFER (4 << 20)
#define SOURCE_PORTS (ROCE_V2_SOURCE_PORT_MAX - ROCE_V2_SOURCE_PORT_MIN + 1)

struct option {
	int level, name, value;
	bool required;
};

static const struct option receive_options_ipv4[] = {
	{IPPROTO_IP, IP_RECVTOS, 1, true},
	{},
};

static const struct option receive_options_ipv6[] = {
	{IPPROTO_IPV6, IPV6_V6ONLY, 1, true},
	/* Linux rxe sends checksum 0 over IPv6 too; the ICRC protects the packet. */
	{IPPROTO_UDP, UDP_NO_CHECK6_RX, 1, false},
	{IPPROTO_IPV6, IPV6_RECVTCLASS, 1, true},
	{},
};

static const struct option receive_grh_ipv4[] = {
	{IPPROTO_IP, IP_RECVTTL, 1, true},
	{},
};

static const struct option receive_grh_ipv6[] = {
	{IPPROTO_IPV6, IPV6_RECVHOPLIMIT, 1, true},
	{IPPROTO_IPV6, IPV6_FLOWINFO, 1, false},
	{},
};

/* Without IP_PMTUDISC_DO the identification would be unpredictable. */
static const struct option send_options_ipv4[] = {
	{IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO, true},
	{IPPROTO_IP, IP_TTL, HOP_LIMIT_DEFAULT, false},
	{IPPROTO_IP, IP_TOS, UDP_TRAFFIC_CLASS, true},
	{IPPROTO_IP, IP_MULTICAST_TTL, HOP_LIMIT_DEFAULT, false},
	{},
};

static const struct option send_options_ipv6[] = {
	{IPPROTO_IPV6, IPV6_V6ONLY, 1, true},
	{IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DO, true},
	/* As Linux rxe sends it; the entropy is in the source port (Annex A17.3.1). */
	{IPPROTO_IPV6, IPV6_AUTOFLOWLABEL, 0, false},
	{IPPROTO_IPV6, IPV6_UNICAST_HOPS, HOP_LIMIT_DEFAULT, false},
	{IPPROTO_IPV6, IPV6_TCLASS, UDP_TRAFFIC_CLASS, true},
	{IPPROTO_IPV6, IPV6_MULTICAST_HOPS, HOP_LIMIT_DEFAULT, false},
	{},
};

static int set_options(int fd, const struct option *option)
{
	for (; option->name; option++) {
		if (setsockopt(fd, option->level, option->name, &option->value,
			       sizeof(option->value)) < 0 &&
		    option->required)
			return errno;
	}
	return 0;
}

/* Beyond the system's limit with privilege, else up to it. */
static void set_buffer(int fd, int force_name, int name, int size)
{
	if (setsockopt(fd, SOL_SOCKET, force_name, &size, sizeof(size)) < 0)
		setsockopt(fd, SOL_SOCKET, name, &size, sizeof(size));
}

int udp_bind(int fd, const union ibv_gid *gid, unsigned int ifindex, uint16_t port)
{
	struct sockaddr_storage address;
	socklen_t length = gid_to_scoped_sockaddr(gid, port, ifindex, &address);

	return bind(fd, (struct sockaddr *)&address, length) < 0 ? errno : 0;
}

int udp_bind_free_port(int fd, in_addr_t ipv4, uint16_t *port)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(ipv4)};
	socklen_t length = sizeof(address);

	if (bind(fd, (struct sockaddr *)&address, length) < 0 ||
	    getsockname(fd, (struct sockaddr *)&address, &length) < 0)
		return errno;
	*port = ntohs(address.sin_port);
	return 0;
}

static int open_socket(const union ibv_gid *gid, const struct option *options, int *fd)
{
	int error;

	*fd = sys_socket(gid_is_ipv4(gid) ? AF_INET : AF_INET6,
			 SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_UDP);
	if (*fd < 0)
		return errno == EAFNOSUPPORT ? EADDRNOTAVAIL : errno;
	error = set_options(*fd, options);
	if (error) {
		sys_close(*fd);
		*fd = -1;
	}
	return error;
}

int udp_address_receive_grh(const struct udp_address *address)
{
	return set_options(address->receive_fd,
			   gid_is_ipv4(&address->gid) ? receive_grh_ipv4 : receive_grh_ipv6);
}

int udp_receiver_open(const struct udp_link *link, const union ibv_gid *gid, int *fd)
{
	int size = link->receive_buffer ? link->receive_buffer : RECEIVE_BUFFER;
	int on = 1;
	int error = open_socket(gid, gid_is_ipv4(gid) ? receive_options_ipv4 : receive_options_ipv6,
				fd);

	if (error)
		return error;
	set_buffer(*fd, SO_RCVBUFFORCE, SO_RCVBUF, size);
	if (link->segmentation && setsockopt(*fd, IPPROTO_UDP, UDP_GRO, &on, sizeof(on)) < 0)
		log_info("the kernel has no UDP_GRO: receiving packets one by one");
	return 0;
}

int udp_address_open_receiver(struct udp_link *link, struct udp_address *address)
{
	int fd;
	int error = udp_receiver_open(link, &address->gid, &fd);

	if (error)
		return error;
	address->receive_identity = descriptor_identify(fd);
	error = udp_share_bind(link, address, fd, address->interface);
	if (error)
		sys_close(fd);
	return error;
}

/*
 * An ordinary user can't name another interface while a socket has one (Linux 5.7), which it
 * hasn't after it was disconnected. All else stays: address, port, group, where it is polled.
 */
static int move_socket(int fd, int interface)
{
	const struct sockaddr none = {.sa_family = AF_UNSPEC};

	if (sys_connect(fd, &none, sizeof(none)) < 0)
		return errno;
	return setsockopt(fd, SOL_SOCKET, SO_BINDTOIFINDEX, &interface, sizeof(interface)) < 0
		       ? errno
		       : 0;
}

int udp_address_rebind(struct udp_address *address, unsigned int interface)
{
	int error = move_socket(descriptor_number(&address->receive_fd), interface);

	if (!error)
		error = move_socket(descriptor_number(&address->send_fd), interface);
	if (!error)
		__atomic_store_n(&address->interface, interface, __ATOMIC_RELAXED);
	return error;
}

/* Where to begin to look for a free port: differs between addresses and processes. */
static unsigned int first_source_port(const union ibv_gid *gid)
{
	uint32_t hash = getpid();

	for (unsigned int i = 0; i < sizeof(gid->raw); i++)
		hash = (hash ^ gid->raw[i]) * 16777619u; /* FNV-1a */
	return (hash >> 16 ^ hash) % SOURCE_PORTS;
}

static int bind_source_port(int fd, struct udp_address *address)
{
	unsigned int first = first_source_port(&address->gid);
	int error = EADDRINUSE;

	for (unsigned int i = 0; i < SOURCE_PORTS && error == EADDRINUSE; i++) {
		address->source_port = ROCE_V2_SOURCE_PORT_MIN + (first + i) % SOURCE_PORTS;
		error = udp_bind(fd, &address->gid, address->interface, address->source_port);
	}
	return error;
}

static int open_unbound_sender(const union ibv_gid *gid, int *fd)
{
	int smallest = 0;
	int error = open_socket(gid, gid_is_ipv4(gid) ? send_options_ipv4 : send_options_ipv6, fd);

	if (error)
		return error;
	set_buffer(*fd, SO_SNDBUFFORCE, SO_SNDBUF, SEND_BUFFER);
	setsockopt(*fd, SOL_SOCKET, SO_RCVBUF, &smallest, sizeof(smallest)); /* never read */
	return 0;
}

/*
 * From now on sockets that have this option before they are bound share the port: connections do,
 * other processes don't.
 */
static int share_port(int fd)
{
	int on = 1;

	return setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)) < 0 ? errno : 0;
}

int udp_sender_open(const struct udp_address *address, int *fd)
{
	int error = open_unbound_sender(&address->gid, fd);

	if (error)
		return error;
	error = share_port(*fd);
	if (!error)
		error = udp_bind(*fd, &address->gid, 0, address->source_port);
	if (error)
		sys_close(*fd);
	return error;
}

int udp_address_open_sender(struct udp_address *address)
{
	int fd, error = open_unbound_sender(&address->gid, &fd);

	if (error)
		return error;
	udp_multicast_from(fd, &address->gid);
	error = bind_source_port(fd, address);
	if (!error)
		error = share_port(fd);
	if (error) {
		sys_close(fd);
		return error;
	}
	address->send_fd = fd;
	address->send_identity = descriptor_identify(fd);
	return 0;
}
