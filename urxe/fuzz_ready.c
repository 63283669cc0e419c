/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whether a peer listens: a process of its group has a TCP socket that the kernel says is
 * listening, or shows a listener of the connection manager (net/observe).
 */
#include <ctype.h>
#include <dirent.h>
#include <stdlib.h>
#include <unistd.h>
#include <utlist.h>

#include "net/cm_text.h"
#include "net/observe/reader.h"
#include "urxe/fuzz.h"

/* --- rdma_cm ------------------------------------------------------------------------------ */

static bool has_listener(const struct observed *process)
{
	const struct observe_connection *connection = NULL;

	while ((connection = observed_next(process, OBSERVE_CONNECTION, connection))) {
		if (connection->state == CM_STATE_LISTEN)
			return true;
	}
	return false;
}

static bool listens_by_cm(pid_t group)
{
	const struct observed_options options = {};
	struct observed *processes, *process;
	bool found = false;

	if (observed_read(&options, &processes) != 0)
		return false;
	LL_FOREACH (processes, process)
		found |= getpgid(process->header.pid) == group && has_listener(process);
	observed_free(processes);
	return found;
}

/* --- TCP ---------------------------------------------------------------------------------- */

/* Whether @table (proc(5): /proc/net/tcp) has the socket @inode as one that listens. */
static bool lists_listener(const char *table, unsigned long inode)
{
	FILE *file = fopen(table, "re");
	char line[512];
	bool found = false;

	while (file && !found && fgets(line, sizeof(line), file)) {
		unsigned long socket;
		unsigned int state;

		found = sscanf(line,
			       "%*d: %*[0-9A-F]:%*x %*[0-9A-F]:%*x %x %*x:%*x %*x:%*x %*x %*u %*d "
			       "%lu",
			       &state, &socket) == 2 &&
			state == 0x0a && socket == inode;
	}
	if (file)
		fclose(file);
	return found;
}

static bool is_listener(unsigned long inode)
{
	return lists_listener("/proc/net/tcp", inode) || lists_listener("/proc/net/tcp6", inode);
}

static bool has_listening_socket(pid_t pid)
{
	char path[64], target[64];
	struct dirent *entry;
	bool found = false;
	DIR *folder;

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	folder = opendir(path);
	while (folder && !found && (entry = readdir(folder))) {
		ssize_t length =
			readlinkat(dirfd(folder), entry->d_name, target, sizeof(target) - 1);
		unsigned long inode;

		target[length < 0 ? 0 : length] = '\0';
		found = sscanf(target, "socket:[%lu]", &inode) == 1 && is_listener(inode);
	}
	if (folder)
		closedir(folder);
	return found;
}

static bool listens_by_tcp(pid_t group)
{
	DIR *folder = opendir("/proc");
	struct dirent *entry;
	bool found = false;

	while (folder && !found && (entry = readdir(folder))) {
		pid_t pid = isdigit((unsigned char)*entry->d_name) ? atoi(entry->d_name) : 0;

		found = pid && getpgid(pid) == group && has_listening_socket(pid);
	}
	if (folder)
		closedir(folder);
	return found;
}

bool fuzz_is_listening(pid_t group)
{
	return listens_by_tcp(group) || listens_by_cm(group);
}
