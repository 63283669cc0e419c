/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tree.lock protects the directory and is held while files are written, never
 * across a call of the application.
 */
#include "verbs/preload/sysfs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "net/log.h"
#include "verbs/devices.h"
#include "verbs/preload/real.h"
#include "verbs/preload/sysfs_attributes.h"
#include "verbs/registry.h"

#define PATH_SIZE 512 /* ours are short; longer ones aren't ours */

static struct {
	pthread_once_t once;
	pthread_mutex_t lock;
	pid_t owner; /* a forked child makes its own */
	int lock_file;
	char base[128];
} tree = {.once = PTHREAD_ONCE_INIT, .lock = PTHREAD_MUTEX_INITIALIZER, .lock_file = -1};

static const char *const folders[] = {
	"/sys/class/infiniband_verbs",
	"/sys/class/infiniband",
	"/dev/infiniband",
};

/* --- making the tree ------------------------------------------------------------- */

/* Make the directories that @path lies in. */
static void make_parents(char *path)
{
	for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		mkdir(path, 0700);
		*slash = '/';
	}
}

/* A reader sees the old text or the new one. */
static void write_file(char *path, const char *text)
{
	char fresh[PATH_SIZE + 8];
	ssize_t length = strlen(text);
	int fd;

	make_parents(path);
	snprintf(fresh, sizeof(fresh), "%s.new", path);
	fd = open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0400);
	if (fd < 0)
		return;
	if (write(fd, text, length) != length || rename(fresh, path))
		unlink(fresh);
	close(fd);
}

struct place {
	const char *folder;
	const struct device *device;
};

static void write_attribute(void *context, const char *name, const char *text)
{
	const struct place *place = context;
	char path[PATH_SIZE];

	snprintf(path, sizeof(path), "%s%s/%s/%s", tree.base, place->folder,
		 place->device->ibv.name, name);
	write_file(path, text);
}

static void make_link(const char *folder, const char *name, const char *target)
{
	char path[PATH_SIZE];

	snprintf(path, sizeof(path), "%s%s/%s", tree.base, folder, name);
	make_parents(path);
	if (symlink(target, path) && errno != EEXIST)
		log_debug("%s: %s", path, strerror(errno));
}

static void make_device(struct device *device)
{
	struct place place = {"/sys/class/infiniband", device};
	char folder[PATH_SIZE], target[PATH_SIZE];
	struct gid_entry entry;

	sysfs_attributes(device, NULL, write_attribute, &place);
	place.folder = "/sys/class/infiniband_verbs";
	write_attribute(&place, "ibdev", device->ibv.name);
	write_attribute(&place, "abi_version", "1\n");
	/* A character device that every user can open. */
	make_link("/dev/infiniband", device->ibv.dev_name, "/dev/null");
	if (device_netdev(device, &entry) == 0) {
		snprintf(folder, sizeof(folder), "/sys/class/infiniband/%s/device/net",
			 device->ibv.name);
		snprintf(target, sizeof(target), "/sys/class/net/%s", entry.netdev);
		make_link(folder, entry.netdev, target);
	}
}

/* In mode both the listing of a folder has the real devices, too. */
static void link_real(const char *folder)
{
	char target[PATH_SIZE];
	struct dirent *entry;
	DIR *directory;

	inside_real++; /* what the kernel has, not what we answer */
	directory = opendir(folder);
	inside_real--;
	if (!directory)
		return;
	while ((entry = readdir(directory))) {
		if (entry->d_name[0] == '.')
			continue;
		snprintf(target, sizeof(target), "%s/%s", folder, entry->d_name);
		make_link(folder, entry->d_name, target);
	}
	closedir(directory);
}

/* --- removing it, and what dead processes left ------------------------------------- */

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *ftw)
{
	return remove(path);
}

static void remove_tree(const char *base)
{
	nftw(base, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

static void remove_own(void)
{
	if (tree.owner == getpid() && tree.base[0])
		remove_tree(tree.base);
}

static void tree_before_fork(void)
{
	pthread_mutex_lock(&tree.lock);
}

static void tree_after_fork(void)
{
	pthread_mutex_unlock(&tree.lock);
}

static void tree_add_hooks(void)
{
	static struct registry_hooks hooks = {
		.order = FORK_OUTERMOST, /* the attributes ask devices */
		.before_fork = tree_before_fork,
		.after_fork_in_parent = tree_after_fork,
		.after_fork_in_child = tree_after_fork,
	};

	registry_add_hooks(&hooks);
	atexit(remove_own);
}

/* The process that made a tree holds a lock on it until it ends, however it ends. */
static int lock_tree(const char *base, int operation)
{
	char path[PATH_SIZE + sizeof("/lock")];
	int fd;

	snprintf(path, sizeof(path), "%s/lock", base);
	fd = open(path, O_RDWR | O_CLOEXEC | (operation & LOCK_NB ? 0 : O_CREAT), 0600);
	if (fd >= 0 && flock(fd, operation)) {
		close(fd);
		return -1;
	}
	return fd;
}

/* In a folder that other users can write to, only what no other user can have put there. */
static bool is_own_tree(const char *base)
{
	struct stat status;

	return lstat(base, &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == geteuid() &&
	       !(status.st_mode & (S_IWGRP | S_IWOTH));
}

static void remove_abandoned(const char *folder, const char *prefix)
{
	DIR *directory = opendir(folder);
	char base[PATH_SIZE];
	struct dirent *entry;

	if (!directory)
		return;
	while ((entry = readdir(directory))) {
		int fd;

		if (strncmp(entry->d_name, prefix, strlen(prefix)) != 0)
			continue;
		snprintf(base, sizeof(base), "%s/%s", folder, entry->d_name);
		if (!is_own_tree(base))
			continue;
		fd = lock_tree(base, LOCK_EX | LOCK_NB);
		if (fd < 0)
			continue;
		remove_tree(base);
		close(fd);
	}
	closedir(directory);
}

/* --- finding paths -------------------------------------------------------------------- */

static bool make_base(const char *folder)
{
	char prefix[32];

	if (!folder || folder[0] != '/' || strlen(folder) > 64)
		return false;
	snprintf(prefix, sizeof(prefix), "urxe-%u-", (unsigned int)getuid());
	remove_abandoned(folder, prefix);
	snprintf(tree.base, sizeof(tree.base), "%s/%sXXXXXX", folder, prefix);
	if (!mkdtemp(tree.base))
		return false;
	tree.lock_file = lock_tree(tree.base, LOCK_EX);
	return true;
}

/* Returns whether there is a tree. Locked. */
static bool make_tree(void)
{
	const struct configuration *configuration = registry_configuration();
	struct device *devices;
	unsigned int count;

	if (tree.owner == getpid())
		return tree.base[0];
	if (tree.lock_file >= 0)
		close(tree.lock_file);
	tree.lock_file = -1;
	tree.owner = getpid();
	if (!make_base(configuration->runtime_directory) &&
	    !make_base(configuration->temporary_directory) && !make_base("/tmp")) {
		log_warn("no directory for the sysfs files of the devices: %s", strerror(errno));
		tree.base[0] = '\0';
		return false;
	}
	count = devices_all(&devices);
	for (unsigned int i = 0; i < count; i++)
		make_device(&devices[i]);
	for (unsigned int i = 0; i < sizeof(folders) / sizeof(*folders); i++) {
		if (configuration->mode == MODE_BOTH)
			link_real(folders[i]);
	}
	return true;
}

/* What follows @folder in @path: "" for the folder itself, NULL when it isn't in there. */
static const char *within(const char *path, const char *folder)
{
	size_t length = strlen(folder);

	if (strncmp(path, folder, length) != 0 || (path[length] && path[length] != '/'))
		return NULL;
	return path + length + strspn(path + length, "/");
}

static struct device *device_at(const char *name, size_t length)
{
	struct device *devices;
	unsigned int count = devices_all(&devices);

	for (unsigned int i = 0; i < count; i++) {
		if (strlen(devices[i].ibv.name) == length &&
		    memcmp(devices[i].ibv.name, name, length) == 0)
			return &devices[i];
	}
	return NULL;
}

/* Is @path ours, and the device and the attribute that it names, if any? */
static bool sysfs_find(const char *path, struct device **device, const char **attribute)
{
	struct device *devices;
	const char *rest = NULL;

	*device = NULL;
	*attribute = NULL;
	for (unsigned int i = 0; i < sizeof(folders) / sizeof(*folders) && !rest; i++)
		rest = within(path, folders[i]);
	if (!rest)
		return false;
	if (!*rest)
		return devices_all(&devices) > 0;
	*device = device_at(rest, strcspn(rest, "/"));
	rest += strcspn(rest, "/");
	*attribute = rest + strspn(rest, "/");
	return *device;
}

const char *sysfs_redirect(const char *path, const void *caller)
{
	static _Thread_local char buffer[PATH_SIZE];
	struct device *device;
	const char *attribute;
	int error = errno;

	if (strlen(path) + sizeof(tree.base) >= sizeof(buffer) || inside_real ||
	    !sysfs_find(path, &device, &attribute) || real_contains(caller))
		return path;
	pthread_once(&tree.once, tree_add_hooks);
	pthread_mutex_lock(&tree.lock);
	if (make_tree()) {
		struct place place = {"/sys/class/infiniband", device};

		snprintf(buffer, sizeof(buffer), "%s%s", tree.base, path);
		if (device && within(path, place.folder))
			sysfs_attributes(device, attribute, write_attribute, &place);
		path = buffer;
	}
	pthread_mutex_unlock(&tree.lock);
	errno = error;
	return path;
}

void sysfs_restore(char *path)
{
	size_t length = strlen(tree.base);

	if (length && strncmp(path, tree.base, length) == 0)
		memmove(path, path + length, strlen(path + length) + 1);
}
