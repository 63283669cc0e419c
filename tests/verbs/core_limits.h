/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Limits of the core that take too long to reach through the ABI, as a device has a million of
 * these objects: reached by a core of the test's own, which has few.
 */
#ifndef URXE_TESTS_CORE_LIMITS_H
#define URXE_TESTS_CORE_LIMITS_H

/* Ends with a call that is refused, and explained. */
void use_up_keys(void);

#endif
