/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/neighbour.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <string.h>
#include <sys/socket.h>

#include "net/netdev.h"
#include "net/syscalls.h"
#include "net/wire/gid.h"
#include "net/wire/wire.h"
#include "verbs/netlink.h"

static size_t address_length(int family)
{
	return family == AF_INET ? sizeof(struct in_addr) : sizeof(struct in6_addr);
}

static const void *address_of(const struct sockaddr *address)
{
	return address->sa_family == AF_INET
		       ? (const void *)&((const struct sockaddr_in *)address)->sin_addr
		       : (const void *)&((const struct sockaddr_in6 *)address)->sin6_addr;
}

static void set_next_hop(struct neighbour *neighbour, int family, const void *address)
{
	neighbour->family = family;
	memcpy(neighbour->address, address, address_length(family));
}

int neighbour_find(const struct sockaddr *source, const struct sockaddr *destination,
		   struct neighbour *neighbour)
{
	const int family = destination->sa_family;
	const uint32_t scope =
		family == AF_INET6 ? ((const struct sockaddr_in6 *)destination)->sin6_scope_id : 0;
	const size_t length = address_length(family);
	const struct rtmsg question = {
		.rtm_family = family, .rtm_dst_len = 8 * length, .rtm_src_len = 8 * length};
	/* As our packets, which rules may be about (ip-rule(8)). */
	const uint16_t port = htons(ROCE_V2_UDP_PORT);
	const uint8_t protocol = IPPROTO_UDP;
	const struct rtmsg *answer;
	const struct rtvia *via;
	const uint32_t *interface;
	const void *gateway;
	struct netlink_message message;
	int error;

	netlink_begin(&message, RTM_GETROUTE, &question, sizeof(question));
	netlink_put(&message, RTA_DST, address_of(destination), length);
	netlink_put(&message, RTA_SRC, address_of(source), length);
	netlink_put(&message, RTA_IP_PROTO, &protocol, sizeof(protocol));
	netlink_put(&message, RTA_DPORT, &port, sizeof(port));
	if (scope)
		netlink_put(&message, RTA_OIF, &scope, sizeof(scope));
	error = netlink_ask(&message);
	if (error)
		return error;
	answer = NLMSG_DATA(&message.header);
	interface = netlink_get(&message, sizeof(*answer), RTA_OIF, sizeof(*interface));
	if (answer->rtm_type != RTN_UNICAST || !interface)
		return ENOENT;
	/* Linux: lwtunnel, as SRv6 and MPLS. */
	if (netlink_get(&message, sizeof(*answer), RTA_ENCAP_TYPE, sizeof(uint16_t)))
		return EOPNOTSUPP;
	neighbour->interface = *interface;
	gateway = netlink_get(&message, sizeof(*answer), RTA_GATEWAY, length);
	via = netlink_get(&message, sizeof(*answer), RTA_VIA,
			  sizeof(*via) + sizeof(struct in6_addr));
	if (via) /* IPv4 by a gateway of IPv6 */
		set_next_hop(neighbour, via->rtvia_family, via->rtvia_addr);
	else
		set_next_hop(neighbour, family, gateway ? gateway : address_of(destination));
	return 0;
}

bool neighbour_has_none(unsigned int interface)
{
	char name[IF_NAMESIZE];
	struct ifreq answer;

	return !if_indextoname(interface, name) || netdev_ask(name, SIOCGIFFLAGS, &answer) != 0 ||
	       (answer.ifr_flags & (IFF_LOOPBACK | IFF_NOARP));
}

unsigned int neighbour_state(const struct neighbour *neighbour,
			     uint8_t hardware[HARDWARE_ADDRESS_LENGTH])
{
	const struct ndmsg question = {.ndm_family = neighbour->family,
				       .ndm_ifindex = (int)neighbour->interface};
	struct netlink_message message;
	const void *found = NULL;
	int error;

	netlink_begin(&message, RTM_GETNEIGH, &question, sizeof(question));
	netlink_put(&message, NDA_DST, neighbour->address, address_length(neighbour->family));
	error = netlink_ask(&message);
	if (!error)
		found = netlink_get(&message, sizeof(question), NDA_LLADDR,
				    HARDWARE_ADDRESS_LENGTH);
	if (hardware)
		memset(hardware, 0, HARDWARE_ADDRESS_LENGTH);
	if (hardware && found)
		memcpy(hardware, found, HARDWARE_ADDRESS_LENGTH);
	if (error)
		return error == ENOENT ? NUD_NONE : NUD_NOARP;
	return ((const struct ndmsg *)NLMSG_DATA(&message.header))->ndm_state;
}

/*
 * A datagram that the host drops: to RoCE's port, for that is what firewalls have to let through.
 * A BTH for QP 0, which isn't there with RoCE; for where a packet is shorter than its BTH, rxe of
 * Linux 6.1 uses memory that it hasn't set, and that host's kernel panics.
 */
void neighbour_provoke(const struct sockaddr *source, const struct sockaddr *destination)
{
	const int family = destination->sa_family;
	const socklen_t length = ip_sockaddr_length(family);
	const struct bth dropped = {};
	struct sockaddr_storage from = {}, to = {};
	int fd = sys_socket(family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return;
	memcpy(&from, source, length);
	memcpy(&to, destination, length);
	((struct sockaddr_in *)&from)->sin_port = 0;
	((struct sockaddr_in *)&to)->sin_port = htons(ROCE_V2_UDP_PORT);
	if (bind(fd, (struct sockaddr *)&from, length) == 0)
		sys_sendto(fd, &dropped, sizeof(dropped), 0, &to, length);
	sys_close(fd);
}
