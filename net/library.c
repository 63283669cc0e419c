/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/library.h"

#include <dlfcn.h>
#include <stddef.h>

bool library_load(const struct library *library, void **addresses)
{
	const char *const *file = library->files;
	void *handle = NULL;

	while (!handle && *file)
		handle = dlopen(*file++, RTLD_NOW | RTLD_LOCAL);
	if (!handle)
		return false;
	for (unsigned int i = 0; library->functions[i]; i++) {
		addresses[i] = dlsym(handle, library->functions[i]);
		if (!addresses[i])
			return false;
	}
	return true;
}
