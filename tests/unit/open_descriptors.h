/* SPDX-License-Identifier: BSD-2-Clause */
/* How many descriptors this process has open. */
#ifndef URXE_TESTS_UNIT_OPEN_DESCRIPTORS_H
#define URXE_TESTS_UNIT_OPEN_DESCRIPTORS_H

#include <dirent.h>

static inline unsigned int open_descriptors(void)
{
	DIR *directory = opendir("/proc/self/fd");
	unsigned int count = 0;

	while (readdir(directory))
		count++;
	closedir(directory);
	return count;
}

#endif
