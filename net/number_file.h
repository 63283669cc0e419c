/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Files that hold one number, by which the administrator sets something: the kernel's parameters
 * in /proc/sys, /etc/rdma/rsocket. To read one is a cancellation point.
 */
#ifndef URXE_NET_NUMBER_FILE_H
#define URXE_NET_NUMBER_FILE_H

#include <stdint.h>
#include <stdio.h>

/* @otherwise: without the file, or a number in it. */
static inline uint32_t number_file_read(const char *path, uint32_t otherwise)
{
	FILE *file = fopen(path, "re");
	unsigned int value;

	if (!file)
		return otherwise;
	if (fscanf(file, "%u", &value) != 1)
		value = otherwise;
	fclose(file);
	return value;
}

#endif
