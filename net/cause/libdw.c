/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/cause/libdw.h"

#include <stddef.h>

#include "net/library.h"

static const char *const files[] = {"libdw.so.1", NULL};

#define NAME(name) #name,
static const char *const functions[] = {LIBDW_FUNCTIONS(NAME) NULL};

static const struct library library = {files, functions};

bool libdw_load(struct libdw *libdw)
{
	return library_load(&library, (void **)libdw);
}
