/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which seeds a random test runs: its own, or those of URXE_TEST_SEEDS=FIRST-LAST in the
 * environment, by which a failure is repeated, or more are tried by hand. In main() or in a test.
 */
#ifndef URXE_TESTS_SEEDS_H
#define URXE_TESTS_SEEDS_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

struct seeds {
	int first, last;
};

/*
 * Returns whether the environment has any, which replace @seeds; ends the program if it has junk.
 */
static inline bool seeds_read(struct seeds *seeds)
{
	const char *given = getenv("URXE_TEST_SEEDS");

	if (given && sscanf(given, "%d-%d", &seeds->first, &seeds->last) != 2)
		exit(EXIT_FAILURE);
	return given;
}

#endif
