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

/* By which @name, a program that was found, says that it is run; NULL: it is no script. The caller
 * frees it. */
char *program_interpreter(const char *name);

#endif
