/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What would not get the devices. ld.so ignores a preload that it can't use, mostly without a word,
 * and the program then runs on other devices than it was meant to. What a program starts itself
 * isn't looked at.
 */
#ifndef URXE_PROGRAM_H
#define URXE_PROGRAM_H

/* Dies when @name isn't found, or ld.so would not preload @library into its process. */
void program_check(const char *name, const char *library);

/* What a script names to be run by, for the caller to free; NULL: @name is none. */
char *program_interpreter(const char *name);

#endif
