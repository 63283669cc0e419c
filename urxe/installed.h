/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where the files that belong to this program are: in the build tree, or where they are installed,
 * which may have been moved as a whole.
 */
#ifndef URXE_INSTALLED_H
#define URXE_INSTALLED_H

/* This program's file. */
const char *installed_program(void);

/*
 * The file @name in the first of @places that has it, up to the NULL; a place is a folder, absolute
 * or as seen from this program's. NULL: none has it. The caller frees the path.
 */
char *installed_find(const char *const *places, const char *name);

#endif
