/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ibv_resolve_eth_l2_from_gid(): what a NIC's driver would put into the Ethernet header. Our
 * packets get theirs from the kernel, whose knowledge this tells.
 */
#include <arpa/inet.h>
#include <linux/if_vlan.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <string.h>
#include <time.h>

#include "net/clock.h"
#include "net/netdev.h"
#include "net/syscalls.h"
#include "net/wire/gid.h"
#include "verbs/context.h"
#include "verbs/neighbour.h"

#define NO_VLAN 0xffff
#define ANSWER_TIMEOUT UINT64_C(3000000000) /* ns, for the kernel to ask three times */

_Static_assert(ETHERNET_LL_SIZE == HARDWARE_ADDRESS_LENGTH, "one of IBA's, one of Linux's");

/* RFC 1112, RFC 2464. */
static void multicast_address(const union ibv_gid *group, uint8_t mac[ETHERNET_LL_SIZE])
{
	if (gid_is_ipv4(group)) {
		memcpy(mac, (const uint8_t[]){0x01, 0x00, 0x5e}, 3);
		memcpy(mac + 3, group->raw + 13, 3);
		mac[3] &= 0x7f;
	} else {
		mac[0] = mac[1] = 0x33;
		memcpy(mac + 2, group->raw + 12, 4);
	}
}

/* Of one of the machine's interfaces; zeros of the loopback interface. */
static int own_address(unsigned int interface, uint8_t mac[ETHERNET_LL_SIZE])
{
	char name[IF_NAMESIZE];
	struct ifreq answer;
	int error;

	if (!if_indextoname(interface, name))
		return errno;
	error = netdev_ask(name, SIOCGIFHWADDR, &answer);
	if (!error)
		memcpy(mac, answer.ifr_hwaddr.sa_data, ETHERNET_LL_SIZE);
	return error;
}

static uint16_t vlan_of(unsigned int interface)
{
	struct vlan_ioctl_args request = {.cmd = GET_VLAN_VID_CMD};

	_Static_assert(sizeof(request.device1) >= IF_NAMESIZE, "room for a name");
	if (!if_indextoname(interface, request.device1) || netdev_ioctl(SIOCGIFVLAN, &request) != 0)
		return NO_VLAN;
	return request.u.VID;
}

/* Waits for the kernel to find it. */
static int neighbours_address(const struct neighbour *neighbour, const struct sockaddr *source,
			      const struct sockaddr *destination, uint8_t mac[ETHERNET_LL_SIZE])
{
	const struct timespec pause = {.tv_nsec = NS_PER_MS};
	uint64_t until = clock_now() + ANSWER_TIMEOUT;
	unsigned int state;

	if (neighbour_has_none(neighbour->interface)) {
		memset(mac, 0, ETHERNET_LL_SIZE);
		return 0;
	}
	if (neighbour_state(neighbour, mac) & NEIGHBOUR_VALID)
		return 0;
	neighbour_provoke(source, destination);
	do {
		state = neighbour_state(neighbour, mac);
		if (state & NEIGHBOUR_VALID)
			return 0;
		sys_nanosleep(&pause);
	} while (state != NUD_FAILED && clock_now() < until);
	return EHOSTUNREACH;
}

static int unicast_address(const struct ibv_gid_entry *from, const union ibv_gid *to,
			   unsigned int *interface, uint8_t mac[ETHERNET_LL_SIZE])
{
	struct sockaddr_storage source, destination;
	char one[INET6_ADDRSTRLEN], other[INET6_ADDRSTRLEN];
	struct neighbour neighbour;
	int error;

	gid_to_sockaddr(&from->gid, 0, &source);
	gid_to_sockaddr(to, 0, &destination);
	if (destination.ss_family != source.ss_family)
		return refuse(EINVAL, CAUSE_PATH_FAMILIES, "from %s to %s",
			      gid_to_text(&from->gid, one), gid_to_text(to, other));
	if (IN6_IS_ADDR_LINKLOCAL((const struct in6_addr *)to->raw)) {
		((struct sockaddr_in6 *)&destination)->sin6_scope_id = from->ndev_ifindex;
		((struct sockaddr_in6 *)&source)->sin6_scope_id = from->ndev_ifindex;
	}
	error = neighbour_find((struct sockaddr *)&source, (struct sockaddr *)&destination,
			       &neighbour);
	if (error == ENOENT)
		return own_address(from->ndev_ifindex, mac);
	if (error)
		return error;
	*interface = neighbour.interface;
	return neighbours_address(&neighbour, (struct sockaddr *)&source,
				  (struct sockaddr *)&destination, mac);
}

static int resolve_unicast(const struct ibv_gid_entry *from, const union ibv_gid *to,
			   unsigned int *interface, uint8_t mac[ETHERNET_LL_SIZE])
{
	char one[INET6_ADDRSTRLEN], other[INET6_ADDRSTRLEN];
	int error = unicast_address(from, to, interface, mac);

	if (error && error != EINVAL)
		cause_report(CAUSE_PATH_NO_NEIGHBOUR, "from %s to %s: %s",
			     gid_to_text(&from->gid, one), gid_to_text(to, other), strerror(error));
	return error;
}

int urxe_resolve_eth_l2_from_gid(struct ibv_context *context, struct ibv_ah_attr *attr,
				 uint8_t eth_mac[ETHERNET_LL_SIZE], uint16_t *vid)
{
	struct ibv_gid_entry source;
	unsigned int interface;
	int error = urxe_query_gid_ex(context, attr->port_num, attr->grh.sgid_index, &source, 0,
				      sizeof(source));

	if (error)
		return error;
	interface = source.ndev_ifindex;
	if (gid_is_multicast(&attr->grh.dgid))
		multicast_address(&attr->grh.dgid, eth_mac);
	else
		error = resolve_unicast(&source, &attr->grh.dgid, &interface, eth_mac);
	if (!error && vid)
		*vid = vlan_of(interface);
	return error;
}
