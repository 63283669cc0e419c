/* SPDX-License-Identifier: BSD-2-Clause */
/* The same in C++. */
#define SECOND
#include "layout.c"
