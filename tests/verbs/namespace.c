/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/verbs/namespace.h"

#include <check.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

bool write_file(const char *path, const char *text)
{
	FILE *file = fopen(path, "w");

	if (!file)
		return false;
	fputs(text, file);
	return fclose(file) == 0;
}

static bool enter(void)
{
	char users[32], groups[32];

	if (unshare(CLONE_NEWNET) == 0)
		return true;
	snprintf(users, sizeof(users), "0 %u 1", getuid());
	snprintf(groups, sizeof(groups), "0 %u 1", getgid());
	return unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0 &&
	       write_file("/proc/self/uid_map", users) &&
	       write_file("/proc/self/setgroups", "deny") &&
	       write_file("/proc/self/gid_map", groups);
}

bool namespace_enter(void)
{
	bool entered = enter();

	if (!entered)
		puts("no permission to make a network namespace");
	return entered;
}

void ip(const char *format, ...)
{
	char command[160] = "ip ";
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(command + 3, sizeof(command) - 3, format, arguments);
	va_end(arguments);
	ck_assert_msg(system(command) == 0, "%s", command);
}

void wait_until_running(const char *name)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq request = {};

	ck_assert_int_ge(fd, 0);
	strcpy(request.ifr_name, name);
	while (!(request.ifr_flags & IFF_RUNNING)) {
		ck_assert_int_eq(ioctl(fd, SIOCGIFFLAGS, &request), 0);
		poll(NULL, 0, 1);
	}
	close(fd);
}

void wait_until_local(const char *address)
{
	char command[96];

	snprintf(command, sizeof(command), "ip route get %s | grep -q ^local", address);
	while (system(command) != 0)
		poll(NULL, 0, 1);
}

/* Link-local addresses would come and go with the link. */
void make_veth(const char *name, const char *peer)
{
	ip("link add %s type veth peer name %s", name, peer);
	ip("link set %s addrgenmode none", name);
	ip("link set %s addrgenmode none", peer);
	ip("link set %s up", peer);
	ip("link set %s up", name);
	wait_until_running(name);
}
