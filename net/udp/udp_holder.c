/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/udp/udp_holder.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "net/wire/gid.h"

#define COMM_LENGTH 32 /* of /proc/PID/comm, at most 15 characters of which are the name's */

struct holder {
	bool everywhere; /* bound to all addresses */
	unsigned int uid;
	uint64_t inode;
};

/* --- the socket --------------------------------------------------------------------- */

/* An address as /proc/net/udp has it: words of 32 bits in the order of bytes of this machine. */
static void gid_from_words(union ibv_gid *gid, const uint32_t words[4], bool ipv4)
{
	struct in_addr address = {words[0]};

	if (ipv4)
		gid_from_ipv4(gid, &address);
	else
		memcpy(gid->raw, words, sizeof(gid->raw));
}

/* One line of /proc/net/udp or udp6. */
static bool parse(const char *line, bool ipv4, union ibv_gid *gid, uint16_t *port,
		  struct holder *holder)
{
	uint32_t words[4] = {};
	unsigned int number;
	const char *rest = strchr(line, ':');
	int used = 0;

	if (!rest)
		return false;
	rest += 1 + strspn(rest + 1, " ");
	for (int i = 0; i < (ipv4 ? 1 : 4); i++, rest += 8) {
		if (sscanf(rest, "%8" SCNx32, &words[i]) != 1)
			return false;
	}
	if (sscanf(rest, ":%4x %*[0-9A-F]:%*x %*x %*x:%*x %*x:%*x %*x %u %*u %" SCNu64 "%n",
		   &number, &holder->uid, &holder->inode, &used) != 3)
		return false;
	gid_from_words(gid, words, ipv4);
	holder->everywhere = gid_is_unspecified(gid);
	*port = number;
	return true;
}

static bool find_in(const char *path, bool ipv4, const union ibv_gid *wanted, uint16_t port,
		    struct holder *holder)
{
	FILE *file = fopen(path, "re");
	struct holder other;
	union ibv_gid gid;
	bool found = false;
	uint16_t number;
	char line[256];

	while (file && !found && fgets(line, sizeof(line), file)) {
		if (!parse(line, ipv4, &gid, &number, &other) || number != port)
			continue;
		found = other.everywhere || gid_equal(&gid, wanted);
		if (found)
			*holder = other;
	}
	if (file)
		fclose(file);
	return found;
}

static bool find_holder(const union ibv_gid *gid, uint16_t port, struct holder *holder)
{
	if (gid_is_ipv4(gid) && find_in("/proc/net/udp", true, gid, port, holder))
		return true;
	/* A socket of IPv6 may have the port for both. */
	return find_in("/proc/net/udp6", false, gid, port, holder);
}

/* --- the process -------------------------------------------------------------------- */

static bool has_socket(const char *pid, const char *socket)
{
	char path[64], link[64];
	struct dirent *entry;
	bool found = false;
	ssize_t length;
	DIR *folder;

	snprintf(path, sizeof(path), "/proc/%.16s/fd", pid);
	folder = opendir(path);
	while (folder && !found && (entry = readdir(folder))) {
		length = readlinkat(dirfd(folder), entry->d_name, link, sizeof(link) - 1);
		link[length < 0 ? 0 : length] = '\0';
		found = strcmp(link, socket) == 0;
	}
	if (folder)
		closedir(folder);
	return found;
}

static pid_t owner_of(uint64_t inode)
{
	char socket[64];
	struct dirent *entry;
	DIR *folder = opendir("/proc");
	pid_t pid = 0;

	snprintf(socket, sizeof(socket), "socket:[%" PRIu64 "]", inode);
	while (folder && !pid && (entry = readdir(folder))) {
		if (atoi(entry->d_name) > 0 && has_socket(entry->d_name, socket))
			pid = atoi(entry->d_name);
	}
	if (folder)
		closedir(folder);
	return pid;
}

pid_t udp_holder_pid(const union ibv_gid *gid, uint16_t port)
{
	struct holder holder;

	return find_holder(gid, port, &holder) ? owner_of(holder.inode) : 0;
}

void udp_process_text(pid_t pid, char *text, size_t size)
{
	char path[64], name[COMM_LENGTH] = "?";
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
	file = fopen(path, "re");
	if (file && fgets(name, sizeof(name), file))
		name[strcspn(name, "\n")] = '\0';
	if (file)
		fclose(file);
	snprintf(text, size, "process %d (%s)", (int)pid, name);
}

/*
 * Linux rxe has a socket on all addresses as long as its module is loaded, even without a
 * device. In a small root, as a container's, nothing says whether it is.
 */
static const char *rxe_text(void)
{
	if (access("/sys/module/rdma_rxe", F_OK) == 0)
		return ": rdma_rxe, which is loaded (modprobe -r rdma_rxe)";
	if (access("/sys/module", F_OK) == 0)
		return "";
	return ": most likely a loaded rdma_rxe (modprobe -r rdma_rxe)";
}

/* A socket that no process has which we may look into. */
static void unknown_text(const struct holder *holder, uint16_t port, char *text, size_t size)
{
	if (holder->everywhere)
		snprintf(text, size,
			 "the kernel, or a process of user %u, has UDP port %u on all addresses%s",
			 holder->uid, port, rxe_text());
	else
		snprintf(text, size, "a process of user %u has UDP port %u", holder->uid, port);
}

void udp_holder_text(const union ibv_gid *gid, uint16_t port, char *text, size_t size)
{
	struct holder holder;
	char process[64];
	pid_t pid;

	if (!find_holder(gid, port, &holder)) {
		snprintf(text, size, "another process has UDP port %u", port);
		return;
	}
	pid = owner_of(holder.inode);
	if (!pid) {
		unknown_text(&holder, port, text, size);
		return;
	}
	udp_process_text(pid, process, sizeof(process));
	snprintf(text, size, "%s of user %u has UDP port %u%s%s", process, holder.uid, port,
		 holder.everywhere ? " on all addresses" : "",
		 pid == getpid() ? ": the application itself" : "");
}
