/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * urxe's own interface, beside the verbs: for programs that know that they may
 * run on it. Link with -lurxe, or look the functions up with dlsym().
 */
#ifndef URXE_H
#define URXE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define URXE_VERSION_MAJOR 0
#define URXE_VERSION_MINOR 1
#define URXE_VERSION_PATCH 0

/* The version of the library in use, "0.1.0". */
const char *urxe_version(void);

struct urxe_counter {
	const char *name; /* static */
	uint64_t value;
};

/*
 * What the device named @device ("urxe0") has counted since it was opened by
 * this process. Fills up to @max of @counters and returns how many counters
 * there are; or -1 with errno ENODEV when there is no such device. All are zero
 * while the device is not open.
 */
int urxe_counters(const char *device, struct urxe_counter *counters, unsigned int max);

#ifdef __cplusplus
}
#endif

#endif
