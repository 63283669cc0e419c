/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/preload/sysfs_tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "net/file_limit.h"
#include "net/log.h"

/*
 * One path a line, a directory before what is in it. The first line says that it is ours:
 * other programs have files of that name, too.
 */
#define MANIFEST "/manifest"
#define MANIFEST_TITLE "urxe sysfs files\n"
#define MANIFEST_MAX (1 << 20)

#define BASE_SIZE sizeof(((struct sysfs_tree *)0)->base)
#define FULL_SIZE (BASE_SIZE + SYSFS_PATH_SIZE)

/* --- making ----------------------------------------------------------------------------- */

static void full_path(const struct sysfs_tree *tree, const char *path, char full[FULL_SIZE])
{
	snprintf(full, FULL_SIZE, "%s%s", tree->base, path);
}

/* Opened anew: the number of a descriptor that is kept may be the application's by now. */
static bool list_in_manifest(const struct sysfs_tree *tree, const char *path)
{
	char full[FULL_SIZE], line[SYSFS_PATH_SIZE + 1];
	int length = snprintf(line, sizeof(line), "%s\n", path), fd;
	bool good;

	full_path(tree, MANIFEST, full);
	fd = open(full, O_WRONLY | O_APPEND | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return false;
	good = file_limit_write(fd, line, length) == length;
	close(fd);
	return good;
}

static bool exists(const char *full)
{
	struct stat status;

	return lstat(full, &status) == 0;
}

/* Make the directories that @path lies in. */
static void make_parents(const struct sysfs_tree *tree, const char *path)
{
	char part[SYSFS_PATH_SIZE], full[FULL_SIZE];

	for (const char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		snprintf(part, sizeof(part), "%.*s", (int)(slash - path), path);
		full_path(tree, part, full);
		if (!exists(full) && list_in_manifest(tree, part))
			mkdir(full, 0700);
	}
}

static bool has_text(const char *full, const char *text, ssize_t length)
{
	char present[1024];
	int fd = open(full, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	bool same;

	if (fd < 0)
		return false;
	same = read(fd, present, sizeof(present)) == length && memcmp(present, text, length) == 0;
	close(fd);
	return same;
}

void sysfs_tree_write(const struct sysfs_tree *tree, const char *path, const char *text)
{
	char full[FULL_SIZE], fresh[FULL_SIZE + 8];
	ssize_t length = strlen(text);
	int fd;

	full_path(tree, path, full);
	if (!exists(full)) {
		make_parents(tree, path);
		if (!list_in_manifest(tree, path))
			return;
	} else if (has_text(full, text, length)) { /* cp wants to open the file that it has seen */
		return;
	}
	snprintf(fresh, sizeof(fresh), "%s.new", full);
	fd = open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0400);
	if (fd < 0)
		return;
	if (file_limit_write(fd, text, length) != length || rename(fresh, full))
		unlink(fresh);
	close(fd);
}

void sysfs_tree_link(const struct sysfs_tree *tree, const char *path, const char *target)
{
	char full[FULL_SIZE];

	full_path(tree, path, full);
	if (exists(full))
		return;
	make_parents(tree, path);
	if (!list_in_manifest(tree, path) || symlink(target, full))
		log_debug("%s: %s", full, strerror(errno));
}

/* --- removing --------------------------------------------------------------------------- */

/* The directory that @path lies in, by no symbolic link; @leaf is the rest. Or -1. */
static int open_parent(int base, char *path, const char **leaf)
{
	int fd = openat(base, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	char *name = path + 1, *slash;

	for (; fd >= 0 && (slash = strchr(name, '/')); name = slash + 1) {
		int parent = fd;

		*slash = '\0';
		fd = openat(parent, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		close(parent);
	}
	*leaf = name;
	return fd;
}

static bool is_within(const char *path)
{
	size_t length = strlen(path);

	return path[0] == '/' && length + sizeof(".new") < SYSFS_PATH_SIZE &&
	       !strstr(path, "/../") && !(length >= 3 && strcmp(path + length - 3, "/..") == 0);
}

/*
 * A file, a link or an empty directory; and what a process that was killed was about to rename.
 * False: there is no descriptor or no memory for it.
 */
static bool remove_path(int base, char *path)
{
	char fresh[SYSFS_PATH_SIZE];
	const char *leaf;
	int fd;

	if (!is_within(path))
		return true;
	fd = open_parent(base, path, &leaf);
	if (fd < 0)
		return errno != EMFILE && errno != ENFILE && errno != ENOMEM;
	snprintf(fresh, sizeof(fresh), "%s.new", leaf);
	unlinkat(fd, fresh, 0);
	if (unlinkat(fd, leaf, 0) && errno == EISDIR)
		unlinkat(fd, leaf, AT_REMOVEDIR);
	close(fd);
	return true;
}

/* The text of the manifest, to be freed, or NULL if it isn't one of ours. */
static char *read_manifest(int fd)
{
	struct stat status;
	char *text;

	if (fstat(fd, &status) < 0 || !S_ISREG(status.st_mode) || status.st_uid != geteuid() ||
	    status.st_size > MANIFEST_MAX)
		return NULL;
	text = calloc(1, status.st_size + 1);
	if (text && pread(fd, text, status.st_size, 0) == status.st_size &&
	    strncmp(text, MANIFEST_TITLE, strlen(MANIFEST_TITLE)) == 0)
		return text;
	free(text);
	return NULL;
}

/*
 * From the last line to the first: so a directory is empty when its turn comes. False: not all of
 * it could be tried.
 */
static bool remove_listed(int base, char *text)
{
	char *end = text + strlen(text);
	bool all = true;

	while (all && end > text + strlen(MANIFEST_TITLE)) {
		char *line = end - 1;

		*line = '\0';
		while (line > text && line[-1] != '\n')
			line--;
		end = line;
		all = remove_path(base, line);
	}
	return all;
}

/* With @manifest locked, the file in @base. */
static void remove_tree(int parent, const char *name, int base, int manifest)
{
	char *text = read_manifest(manifest);
	bool all = text && remove_listed(base, text);

	free(text);
	if (!all)
		return; /* the next process has the manifest still */
	unlinkat(base, &MANIFEST[1], 0);
	unlinkat(parent, name, AT_REMOVEDIR); /* unless there is something that isn't ours */
}

/* In a folder that other users can write to, only what no other user can have put there. */
static bool is_own(int base)
{
	struct stat status;

	return fstat(base, &status) == 0 && status.st_uid == geteuid() &&
	       !(status.st_mode & (S_IWGRP | S_IWOTH));
}

/* @name may be a tree. The process that made one has its manifest locked until it ends. */
static void remove_abandoned(int parent, const char *name)
{
	int base = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), manifest;

	if (base < 0)
		return;
	manifest = is_own(base) ? openat(base, &MANIFEST[1],
					 O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
				: -1;
	if (manifest >= 0 && flock(manifest, LOCK_EX | LOCK_NB) == 0)
		remove_tree(parent, name, base, manifest);
	if (manifest >= 0)
		close(manifest);
	close(base);
}

static void sweep(const char *folder, const char *prefix)
{
	DIR *directory = opendir(folder);
	struct dirent *entry;

	while (directory && (entry = readdir(directory))) {
		if (strncmp(entry->d_name, prefix, strlen(prefix)) == 0)
			remove_abandoned(dirfd(directory), entry->d_name);
	}
	if (directory)
		closedir(directory);
}

/* --- the whole of it -------------------------------------------------------------------- */

/* Locked before the title is in it: another process that finds it empty leaves it alone. */
static bool make_manifest(struct sysfs_tree *tree)
{
	char full[FULL_SIZE];
	int fd;

	full_path(tree, MANIFEST, full);
	fd = open(full, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return false;
	if (flock(fd, LOCK_EX) || file_limit_write(fd, MANIFEST_TITLE, strlen(MANIFEST_TITLE)) !=
					  (ssize_t)strlen(MANIFEST_TITLE)) {
		close(fd);
		unlink(full);
		return false;
	}
	tree->manifest = fd;
	tree->identity = descriptor_identify(fd);
	return true;
}

bool sysfs_tree_make(struct sysfs_tree *tree, const char *folder)
{
	char prefix[32];
	int error;

	if (!folder || folder[0] != '/' || strlen(folder) > 64) {
		errno = EINVAL;
		return false;
	}
	snprintf(prefix, sizeof(prefix), "urxe-%u-", (unsigned int)geteuid());
	sweep(folder, prefix);
	snprintf(tree->base, sizeof(tree->base), "%s/%sXXXXXX", folder, prefix);
	if (mkdtemp(tree->base) && make_manifest(tree))
		return true;
	error = errno;
	rmdir(tree->base);
	tree->base[0] = '\0';
	errno = error;
	return false;
}

void sysfs_tree_forget(struct sysfs_tree *tree)
{
	descriptor_close(tree->manifest, &tree->identity);
	*tree = (struct sysfs_tree){.manifest = -1};
}

void sysfs_tree_remove(struct sysfs_tree *tree)
{
	char full[FULL_SIZE];
	int base, manifest;

	if (!tree->base[0])
		return;
	base = open(tree->base, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	full_path(tree, MANIFEST, full);
	manifest = open(full, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (base >= 0 && manifest >= 0 && is_own(base))
		remove_tree(AT_FDCWD, tree->base, base, manifest);
	if (manifest >= 0)
		close(manifest);
	if (base >= 0)
		close(base);
}
