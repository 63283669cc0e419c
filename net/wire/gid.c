/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/wire/gid.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

static const uint8_t ipv4_mapped[12] = {[10] = 0xff, [11] = 0xff};

bool gid_is_ipv4(const union ibv_gid *gid)
{
	return memcmp(gid->raw, ipv4_mapped, sizeof(ipv4_mapped)) == 0;
}

bool gid_is_multicast(const union ibv_gid *gid)
{
	if (gid_is_ipv4(gid))
		return (gid->raw[12] & 0xf0) == 0xe0;
	return gid->raw[0] == 0xff;
}

bool gid_is_loopback(const union ibv_gid *gid)
{
	if (gid_is_ipv4(gid))
		return gid->raw[12] == IN_LOOPBACKNET;
	return IN6_IS_ADDR_LOOPBACK((const struct in6_addr *)gid);
}

bool gid_is_unspecified(const union ibv_gid *gid)
{
	static const union ibv_gid none;
	const size_t skip = gid_is_ipv4(gid) ? sizeof(ipv4_mapped) : 0;

	return memcmp(gid->raw + skip, none.raw, sizeof(none.raw) - skip) == 0;
}

void gid_from_ipv4(union ibv_gid *gid, const struct in_addr *address)
{
	memcpy(gid->raw, ipv4_mapped, sizeof(ipv4_mapped));
	memcpy(gid->raw + sizeof(ipv4_mapped), address, sizeof(*address));
}

socklen_t ip_sockaddr_length(int family)
{
	switch (family) {
	case AF_INET:
		return sizeof(struct sockaddr_in);
	case AF_INET6:
		return sizeof(struct sockaddr_in6);
	default:
		return 0;
	}
}

socklen_t gid_to_sockaddr(const union ibv_gid *gid, uint16_t port, struct sockaddr_storage *address)
{
	struct sockaddr_in *in = (struct sockaddr_in *)address;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)address;

	if (gid_is_ipv4(gid)) {
		*in = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(port)};
		memcpy(&in->sin_addr, gid->raw + sizeof(ipv4_mapped), sizeof(in->sin_addr));
		return sizeof(*in);
	}
	*in6 = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = htons(port)};
	memcpy(&in6->sin6_addr, gid->raw, sizeof(in6->sin6_addr));
	return sizeof(*in6);
}

socklen_t gid_to_scoped_sockaddr(const union ibv_gid *gid, uint16_t port, unsigned int ifindex,
				 struct sockaddr_storage *address)
{
	socklen_t length = gid_to_sockaddr(gid, port, address);

	if (address->ss_family == AF_INET6)
		((struct sockaddr_in6 *)address)->sin6_scope_id = ifindex;
	return length;
}

void gid_from_sockaddr(union ibv_gid *gid, const struct sockaddr *address)
{
	if (address->sa_family == AF_INET)
		gid_from_ipv4(gid, &((const struct sockaddr_in *)address)->sin_addr);
	else
		memcpy(gid->raw, &((const struct sockaddr_in6 *)address)->sin6_addr,
		       sizeof(gid->raw));
}

const char *gid_to_text(const union ibv_gid *gid, char *text)
{
	if (gid_is_ipv4(gid))
		inet_ntop(AF_INET, gid->raw + sizeof(ipv4_mapped), text, INET6_ADDRSTRLEN);
	else
		inet_ntop(AF_INET6, gid->raw, text, INET6_ADDRSTRLEN);
	return text;
}

int gid_from_text(union ibv_gid *gid, const char *text)
{
	struct in_addr in;

	if (inet_pton(AF_INET, text, &in) == 1) {
		gid_from_ipv4(gid, &in);
		return 0;
	}
	return inet_pton(AF_INET6, text, gid->raw) == 1 ? 0 : EINVAL;
}
