/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Profiles as the tests read them: by themselves, without any of verbs/profile.c. The folder is
 * that of URXE_TEST_PROFILES.
 */
#ifndef URXE_TESTS_PROFILE_FILE_H
#define URXE_TESTS_PROFILE_FILE_H

#include <stdbool.h>
#include <stdint.h>

#define PROFILE_FILES 32

/* The names of all, and how many; what fails ends the test. */
unsigned int profile_names(char names[PROFILE_FILES][64]);

/* Have this process read the profile @name: before its first verbs call. */
void use_profile(const char *name);

/* What the file says of @key, or NULL; as number, which it must be. Valid until the next call. */
const char *profile_text(const char *name, const char *key);
uint64_t profile_value(const char *name, const char *key);

/* Calls @each for every line. */
void profile_lines(const char *name, void (*each)(const char *key, const char *value));

#endif
