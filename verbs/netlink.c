/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/netlink.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "net/syscalls.h"

/* --- news -------------------------------------------------------------------------- */

int netlink_open(struct netlink_socket *result, uint32_t groups)
{
	const struct sockaddr_nl address = {.nl_family = AF_NETLINK, .nl_groups = groups};
	int fd = sys_socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	int error;

	result->fd = -1;
	if (fd < 0)
		return errno;
	if (bind(fd, (const struct sockaddr *)&address, sizeof(address)) < 0) {
		error = errno;
		sys_close(fd);
		return error;
	}
	result->identity = descriptor_identify(fd);
	result->fd = fd;
	return 0;
}

void netlink_close(struct netlink_socket *socket)
{
	descriptor_close(socket->fd, &socket->identity);
	socket->fd = -1;
}

bool netlink_verify(struct netlink_socket *socket)
{
	return descriptor_verify(&socket->fd, &socket->identity);
}

bool netlink_receive(const struct netlink_socket *socket,
		     void (*handle)(void *context, const struct nlmsghdr *message), void *context)
{
	uint8_t buffer[16384] __attribute__((aligned(NLMSG_ALIGNTO)));
	bool any = false;
	ssize_t length;

	while ((length = sys_recv(socket->fd, buffer, sizeof(buffer), MSG_DONTWAIT)) > 0 ||
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

/* --- questions ---------------------------------------------------------------------- */

static void append(struct netlink_message *message, const void *data, size_t length)
{
	struct nlmsghdr *header = &message->header;

	memcpy((uint8_t *)message + NLMSG_ALIGN(header->nlmsg_len), data, length);
	header->nlmsg_len = NLMSG_ALIGN(header->nlmsg_len) + length;
}

void netlink_begin(struct netlink_message *message, uint16_t type, const void *body, size_t length)
{
	memset(message, 0, sizeof(*message));
	message->header = (struct nlmsghdr){
		.nlmsg_len = sizeof(message->header),
		.nlmsg_type = type,
		.nlmsg_flags = NLM_F_REQUEST,
	};
	append(message, body, length);
}

void netlink_put(struct netlink_message *message, uint16_t type, const void *data, size_t length)
{
	const struct rtattr attribute = {.rta_len = RTA_LENGTH(length), .rta_type = type};

	append(message, &attribute, sizeof(attribute));
	append(message, data, length);
}

const void *netlink_get(const struct netlink_message *message, size_t body, uint16_t type,
			size_t length)
{
	const struct nlmsghdr *header = &message->header;
	const struct rtattr *attribute =
		(const struct rtattr *)((const uint8_t *)NLMSG_DATA(header) + NLMSG_ALIGN(body));
	int left = (int)header->nlmsg_len - (int)NLMSG_SPACE(body);

	for (; RTA_OK(attribute, left); attribute = RTA_NEXT(attribute, left)) {
		if (attribute->rta_type == type && RTA_PAYLOAD(attribute) >= length)
			return RTA_DATA(attribute);
	}
	return NULL;
}

/* The kernel answers before send() returns. */
static int exchange(int fd, struct netlink_message *message)
{
	const struct nlmsgerr *answer = NLMSG_DATA(&message->header);
	ssize_t length;

	if (sys_send(fd, message, message->header.nlmsg_len, 0) < 0)
		return errno;
	length = sys_recv(fd, message, sizeof(*message), MSG_DONTWAIT);
	if (length < 0)
		return errno;
	if (length < (ssize_t)NLMSG_LENGTH(sizeof(*answer)) || message->header.nlmsg_len > length)
		return EPROTO;
	return message->header.nlmsg_type == NLMSG_ERROR ? -answer->error : 0;
}

int netlink_ask(struct netlink_message *message)
{
	struct netlink_socket socket;
	int error = netlink_open(&socket, 0);

	if (error)
		return error;
	error = exchange(socket.fd, message);
	netlink_close(&socket);
	return error;
}
