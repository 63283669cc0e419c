/* SPDX-License-Identifier: BSD-2-Clause */
/* Addresses that no other test has at the same time. */
#ifndef URXE_TESTS_THREADS_OWN_ADDRESS_H
#define URXE_TESTS_THREADS_OWN_ADDRESS_H

#include <stdio.h>
#include <unistd.h>

#define OWN_ADDRESS_LENGTH 16

/* "127.a.b.c", made of the process id: the @index-th of this process and of no other. */
static inline void own_address(char text[OWN_ADDRESS_LENGTH], unsigned int index)
{
	unsigned int pid = getpid();

	snprintf(text, OWN_ADDRESS_LENGTH, "127.%u.%u.%u", (96 + index * 8 + (pid >> 16 & 7)) & 255,
		 pid >> 8 & 255, pid & 255);
}

#endif
