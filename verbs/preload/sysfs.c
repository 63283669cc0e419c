/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where paths of our devices lead (verbs/preload/sysfs.h), and when the files there are written.
 * tree.lock protects the directory and is held while files are written, never across a call of
 * the application.
 */
#include "verbs/preload/sysfs.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "net/log.h"
#include "verbs/devices.h"
#include "verbs/preload/real.h"
#include "verbs/preload/sysfs_attributes.h"
#include "verbs/preload/sysfs_tree.h"
#include "verbs/registry.h"

#define PATH_SIZE SYSFS_PATH_SIZE /* ours are short; longer ones aren't ours */

static struct {
	pthread_once_t once;
	pthread_mutex_t lock;
	pid_t owner; /* a forked child makes its own */
	struct sysfs_tree files;
} tree = {.once = PTHREAD_ONCE_INIT, .lock = PTHREAD_MUTEX_INITIALIZER, .files.manifest = -1};

#define IBDEV "/sys/class/infiniband" /* has ibv_device.name, the other folders dev_name */

static const char *const folders[] = {
	"/sys/class/infiniband_verbs",
	IBDEV,
	"/dev/infiniband",
};

/* --- making the tree ------------------------------------------------------------- */

struct place {
	const char *folder, *name;
};

static void write_attribute(void *context, const char *name, const char *text)
{
	const struct place *place = context;
	char path[PATH_SIZE];

	snprintf(path, sizeof(path), "%s/%s/%s", place->folder, place->name, name);
	sysfs_tree_write(&tree.files, path, text);
}

static void make_link(const char *folder, const char *name, const char *target)
{
	char path[PATH_SIZE];

	if (snprintf(path, sizeof(path), "%s/%s", folder, name) < (int)sizeof(path))
		sysfs_tree_link(&tree.files, path, target);
}

static void link_netdev(struct port *port)
{
	char folder[PATH_SIZE], target[PATH_SIZE];
	struct gid_entry entry;

	if (port_netdev(port, &entry) != 0)
		return;
	snprintf(folder, sizeof(folder), IBDEV "/%s/device/net", port->device->ibv.name);
	snprintf(target, sizeof(target), "/sys/class/net/%s", entry.netdev);
	make_link(folder, entry.netdev, target);
}

static void make_device(struct device *device)
{
	struct place ibdev = {IBDEV, device->ibv.name};
	struct place uverbs = {"/sys/class/infiniband_verbs", device->ibv.dev_name};
	char ibdev_text[IBV_SYSFS_NAME_MAX + 1];
	struct port *port;

	sysfs_attributes(device, NULL, write_attribute, &ibdev);
	snprintf(ibdev_text, sizeof(ibdev_text), "%s\n", device->ibv.name);
	write_attribute(&uverbs, "ibdev", ibdev_text);
	write_attribute(&uverbs, "abi_version", "1\n");
	/* A character device that every user can open. */
	make_link("/dev/infiniband", device->ibv.dev_name, "/dev/null");
	for (unsigned int i = 1; (port = device_port(device, i)); i++)
		link_netdev(port);
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

/* --- forks and exit --------------------------------------------------------------- */

static void remove_own(void)
{
	if (tree.owner == getpid())
		sysfs_tree_remove(&tree.files);
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
		.at_exit = remove_own,
	};

	registry_add_hooks(&hooks);
}

/* --- finding paths -------------------------------------------------------------------- */

/* Returns whether there is a tree. Locked. */
static bool make_tree(void)
{
	const struct configuration *configuration = registry_configuration();
	struct device *devices;
	unsigned int count;

	if (tree.owner == getpid())
		return tree.files.base[0];
	sysfs_tree_forget(&tree.files);
	tree.owner = getpid();
	if (!sysfs_tree_make(&tree.files, configuration->runtime_directory) &&
	    !sysfs_tree_make(&tree.files, configuration->temporary_directory) &&
	    !sysfs_tree_make(&tree.files, "/tmp")) {
		log_warn("no directory for the sysfs files of the devices: %s", strerror(errno));
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

/* @path: in one of the folders, of which @rest is what follows it. */
static struct device *device_at(const char *path, const char *rest)
{
	struct device *devices;
	unsigned int count = devices_all(&devices);
	size_t length = strcspn(rest, "/");
	bool by_name = within(path, IBDEV);

	for (unsigned int i = 0; i < count; i++) {
		const struct ibv_device *ibv = &devices[i].ibv;
		const char *name = by_name ? ibv->name : ibv->dev_name;

		if (strlen(name) == length && memcmp(name, rest, length) == 0)
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
	/* ls -a asks for . and .. by the folder's name. */
	if (!*rest || strcmp(rest, ".") == 0 || strcmp(rest, "..") == 0)
		return devices_all(&devices) > 0;
	*device = device_at(path, rest);
	rest += strcspn(rest, "/");
	*attribute = rest + strspn(rest, "/");
	return *device;
}

const char *sysfs_redirect(const char *path, const void *caller)
{
	static _Thread_local char buffer[PATH_SIZE];
	struct device *device;
	const char *attribute;
	int error = errno, state;

	if (strlen(path) + sizeof(tree.files.base) >= sizeof(buffer) || inside_real ||
	    !sysfs_find(path, &device, &attribute) || real_contains(caller))
		return path;
	pthread_once(&tree.once, tree_add_hooks);
	/* Writing files is a cancellation point, and the lock is held. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	pthread_mutex_lock(&tree.lock);
	if (make_tree()) {
		snprintf(buffer, sizeof(buffer), "%s%s", tree.files.base, path);
		if (device && within(path, IBDEV)) {
			struct place place = {IBDEV, device->ibv.name};

			sysfs_attributes(device, attribute, write_attribute, &place);
		}
		path = buffer;
	}
	pthread_mutex_unlock(&tree.lock);
	pthread_setcancelstate(state, NULL);
	errno = error;
	return path;
}

void sysfs_restore(char *path)
{
	size_t length = strlen(tree.files.base);

	if (length && strncmp(path, tree.files.base, length) == 0)
		memmove(path, path + length, strlen(path + length) + 1);
}
