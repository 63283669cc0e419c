/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/netlink.h"

#include <errno.h>
#include <stddef.h>
#include <sys/socket.h>
#include <unistd.h>

int netlink_open(uint32_t groups)
{
	const struct sockaddr_nl address = {.nl_family = AF_NETLINK, .nl_groups = groups};
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	int error;

	if (fd >= 0 && bind(fd, (const struct sockaddr *)&address, sizeof(address)) < 0) {
		error = errno;
		close(fd);
		errno = error;
		fd = -1;
	}
	return fd;
}

bool netlink_receive(int fd, void (*handle)(void *context, const struct nlmsghdr *message),
		     void *context)
{
	uint8_t buffer[16384] __attribute__((aligned(NLMSG_ALIGNTO)));
	bool any = false;
	ssize_t length;

	while ((length = recv(fd, buffer, sizeof(buffer), MSG_DONTWAIT)) > 0 ||
	       (length < 0 && errno == ENOBUFS)) {
		const struct nlmsghdr *message = (const struct nlmsghdr *)buffer;
		unsigned int left = length < 0 ? 0 : length;

		if (length < 0)
			handle(context, NULL);
		for (; NLMSG_OK(message, left); message = NLMSG_NEXT(message, left))
			handle(context, message);
		any = true;
	}
	return any;
}

const struct ifinfomsg *netlink_link(const struct nlmsghdr *message)
{
	const struct ifinfomsg *info = NLMSG_DATA(message);

	if (message->nlmsg_type != RTM_NEWLINK && message->nlmsg_type != RTM_DELLINK)
		return NULL;
	/* Messages of other families say what a network device is to a bridge. */
	if (message->nlmsg_len < NLMSG_LENGTH(sizeof(*info)) || info->ifi_family != AF_UNSPEC)
		return NULL;
	return info;
}
