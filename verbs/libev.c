/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/libev.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>

#include "net/log.h"

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)
#define SONAME "libev.so." TEXT(EV_VERSION_MAJOR)

static struct libev functions;
static const struct libev *loaded;

/* Never unloaded: a thread of ours may be in it until the process ends. */
static void load(void)
{
	static const struct {
		const char *name;
		size_t offset;
	} entries[] = {
#define X(name) {#name, offsetof(struct libev, name)},
		LIBEV_FUNCTIONS(X)
#undef X
	};
	void *library = dlopen(SONAME, RTLD_NOW | RTLD_LOCAL);

	if (!library) {
		log_error("%s", dlerror());
		return;
	}
	for (size_t i = 0; i < sizeof(entries) / sizeof(*entries); i++) {
		void *found = dlsym(library, entries[i].name);

		if (!found) {
			log_error("%s has no %s", SONAME, entries[i].name);
			return;
		}
		*(void **)((char *)&functions + entries[i].offset) = found;
	}
	loaded = &functions;
}

const struct libev *libev(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, load);
	return loaded;
}
