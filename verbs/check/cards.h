/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The profiles of cards (verbs/profile.h) that the application is compared with, for what isn't
 * portable to them (verbs/check/portability.h). Read with the configuration, immutable afterwards.
 */
#ifndef URXE_VERBS_CHECK_CARDS_H
#define URXE_VERBS_CHECK_CARDS_H

#include "verbs/profile.h"

struct cards {
	struct profile *profiles;
	unsigned int count; /* 0: portability isn't checked */
};

extern struct cards cards;

/*
 * @names separated by '+', each as profile_read() has it; NULL: all that are installed but strict,
 * which is the least of the others. Returns NULL, or what is wrong with them; then there are none.
 */
const char *cards_read(const char *names);

#endif
