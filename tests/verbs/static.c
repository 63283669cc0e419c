/* SPDX-License-Identifier: BSD-2-Clause */
/* A program that no library can be preloaded into. */
#include <stdio.h>

int main(void)
{
	puts("it ran");
	return 0;
}
