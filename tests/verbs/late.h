/* SPDX-License-Identifier: BSD-2-Clause */
/* Two libraries, one linked before liburxe and one behind it: what their destructors call. */
#ifndef URXE_TESTS_LATE_H
#define URXE_TESTS_LATE_H

void late_before(void (*function)(void));
void late_behind(void (*function)(void));

#endif
