/* SPDX-License-Identifier: BSD-2-Clause */
/* How many descriptors this process has open. Allocates nothing, for forked children count, too. */
#ifndef URXE_TESTS_UNIT_OPEN_DESCRIPTORS_H
#define URXE_TESTS_UNIT_OPEN_DESCRIPTORS_H

#include <fcntl.h>

#define DESCRIPTORS_MAX 1024

static inline unsigned int open_descriptors(void)
{
	unsigned int count = 0;

	for (int fd = 0; fd < DESCRIPTORS_MAX; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

#endif
