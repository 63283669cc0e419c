/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/netdev.h"

#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "net/syscalls.h"

int netdev_ioctl(unsigned long request, void *argument)
{
	int fd = sys_socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), error;

	if (fd < 0)
		return errno;
	error = ioctl(fd, request, argument) < 0 ? errno : 0;
	sys_close(fd);
	return error;
}

int netdev_ask(const char *name, unsigned long request, struct ifreq *answer)
{
	memset(answer, 0, sizeof(*answer));
	memcpy(answer->ifr_name, name, strnlen(name, IF_NAMESIZE - 1));
	return netdev_ioctl(request, answer);
}

int netdev_index(const char *name, unsigned int *ifindex)
{
	struct ifreq answer;
	int error = strlen(name) < IF_NAMESIZE ? netdev_ask(name, SIOCGIFINDEX, &answer) : ENODEV;

	*ifindex = error ? 0 : answer.ifr_ifindex;
	return error;
}
