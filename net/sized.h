/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Unsigned integers of 1, 2, 4 or 8 bytes in this machine's byte order: members of a struct that
 * a table names by offset and size.
 */
#ifndef URXE_NET_SIZED_H
#define URXE_NET_SIZED_H

#include <stddef.h>
#include <stdint.h>

static inline uint64_t sized_get(const void *member, size_t size)
{
	switch (size) {
	case 1:
		return *(const uint8_t *)member;
	case 2:
		return *(const uint16_t *)member;
	case 4:
		return *(const uint32_t *)member;
	default:
		return *(const uint64_t *)member;
	}
}

static inline void sized_put(void *member, size_t size, uint64_t value)
{
	switch (size) {
	case 1:
		*(uint8_t *)member = value;
		break;
	case 2:
		*(uint16_t *)member = value;
		break;
	case 4:
		*(uint32_t *)member = value;
		break;
	default:
		*(uint64_t *)member = value;
	}
}

#endif
