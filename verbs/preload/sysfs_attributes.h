/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The attributes of /sys/class/infiniband/DEV and their texts, as a kernel
 * writes them. Called by verbs/preload/sysfs.c with tree.lock; takes the locks of the device.
 */
#ifndef URXE_VERBS_SYSFS_ATTRIBUTES_H
#define URXE_VERBS_SYSFS_ATTRIBUTES_H

struct device;

/*
 * Call @write with the path below the device's directory and the present text of
 * the attribute @name, or of all attributes when @name is NULL.
 */
void sysfs_attributes(struct device *device, const char *name,
		      void (*write)(void *context, const char *name, const char *text),
		      void *context);

#endif
