/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The private directory with the files of sysfs: made by one process, and removed by it at
 * its end or, if it was killed, by a later process of its user. What was made in it is listed
 * in a file, the manifest, before it is made: nothing but that is ever removed, and no
 * symbolic link is followed for it. So a directory that happens to have such a name stays.
 *
 * Called by sysfs.c, whose lock protects it. Paths begin with '/' and are below the base.
 */
#ifndef URXE_VERBS_SYSFS_TREE_H
#define URXE_VERBS_SYSFS_TREE_H

#include <stdbool.h>

#include "net/descriptor.h"

#define SYSFS_PATH_SIZE 512

struct sysfs_tree {
	char base[128]; /* "": there is no tree */
	/* Locked until the process ends. Its identity tells whether the number is still its. */
	int manifest;
	struct descriptor_identity identity; /* the manifest's */
};

/* Make one in @folder, and remove those there of dead processes. Returns false with errno. */
bool sysfs_tree_make(struct sysfs_tree *tree, const char *folder);
/* A reader sees the old text or the new one. */
void sysfs_tree_write(const struct sysfs_tree *tree, const char *path, const char *text);
void sysfs_tree_link(const struct sysfs_tree *tree, const char *path, const char *target);
void sysfs_tree_remove(struct sysfs_tree *tree);
/* In a forked child, or for a new attempt: the tree is another process's, or none. */
void sysfs_tree_forget(struct sysfs_tree *tree);

#endif
