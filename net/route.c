/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/route.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <string.h>

#include "net/syscalls.h"
#include "net/wire/gid.h"
#include "net/wire/wire.h"

static bool is_specified(const struct sockaddr_storage *address)
{
	union ibv_gid gid;

	if (!ip_sockaddr_length(address->ss_family))
		return false;
	gid_from_sockaddr(&gid, (const struct sockaddr *)address);
	return !gid_is_unspecified(&gid);
}

/* Of the route that @fd is connected by, or of a link further on that the kernel knows of. */
static uint32_t connected_mtu(int fd, int family)
{
	const bool ipv4 = family == AF_INET;
	socklen_t length = sizeof(int);
	int mtu;

	if (getsockopt(fd, ipv4 ? IPPROTO_IP : IPPROTO_IPV6, ipv4 ? IP_MTU : IPV6_MTU, &mtu,
		       &length) < 0)
		return UINT32_MAX;
	return mtu;
}

int route_ask(const struct sockaddr *destination, struct sockaddr_storage *source, uint32_t *mtu)
{
	int fd = sys_socket(destination->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0), error = 0;
	struct sockaddr_storage from = *source, to = {0};
	socklen_t length = ip_sockaddr_length(destination->sa_family);

	if (fd < 0)
		return errno;
	memcpy(&to, destination, length);
	/* connect() wants some port; binding must not collide with one. */
	((struct sockaddr_in *)&to)->sin_port = htons(ROCE_V2_UDP_PORT);
	((struct sockaddr_in *)&from)->sin_port = 0;
	if ((is_specified(&from) && bind(fd, (struct sockaddr *)&from, length) < 0) ||
	    sys_connect(fd, &to, length) < 0 ||
	    getsockname(fd, (struct sockaddr *)&from, &length) < 0)
		error = errno;
	else if (mtu)
		*mtu = connected_mtu(fd, destination->sa_family);
	sys_close(fd);
	if (!error)
		*source = from;
	return error;
}
