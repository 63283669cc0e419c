/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/preload/real.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "verbs/preload/dlopen.h"

_Thread_local unsigned int inside_real;

static const char *const names[] = {[REAL_VERBS] = "libibverbs.so.1", [REAL_CM] = "librdmacm.so.1"};

/* What a cache holds when the search found nothing. */
static const char absent;

static void *symbol(void *handle, const char *name, const char *version)
{
	return version ? dlvsym(handle, name, version) : dlsym(handle, name);
}

/*
 * RTLD_NEXT doesn't see a library that a plugin loaded RTLD_LOCAL, nor one that isn't
 * loaded yet: then it is loaded by name. With the real dlopen(): ours would return
 * liburxe itself.
 */
static void *load(enum real_library library)
{
	static _Atomic(void *) handles[2];
	void *handle = atomic_load(&handles[library]);
	int state;

	if (handle)
		return handle == &absent ? NULL : handle;
	/*
	 * Constructors read files, which is a cancellation point, with the dynamic linker's lock.
	 */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	handle = real_dlopen()(names[library], RTLD_NOW | RTLD_LOCAL);
	pthread_setcancelstate(state, NULL);
	atomic_store(&handles[library], handle ? handle : (void *)&absent);
	return handle;
}

static void *search(enum real_library library, const char *name, const char *version)
{
	void *found = symbol(RTLD_NEXT, name, version);
	void *handle;

	if (found)
		return found;
	handle = load(library);
	return handle ? symbol(handle, name, version) : NULL;
}

void *real_find(void **cache, enum real_library library, const char *name, const char *version)
{
	void *found = __atomic_load_n(cache, __ATOMIC_ACQUIRE);

	if (!found) {
		found = search(library, name, version);
		__atomic_store_n(cache, found ? found : (void *)&absent, __ATOMIC_RELEASE);
	}
	return found == &absent ? NULL : found;
}

void *real_next(void **cache, const char *name)
{
	void *found = __atomic_load_n(cache, __ATOMIC_ACQUIRE);

	if (!found) {
		found = dlsym(RTLD_NEXT, name);
		__atomic_store_n(cache, found, __ATOMIC_RELEASE);
	}
	return found;
}

bool real_is_named(const char *file)
{
	const char *base = strrchr(file, '/');

	base = base ? base + 1 : file;
	return strncmp(base, "libibverbs.so", 13) == 0 || strncmp(base, "librdmacm.so", 12) == 0;
}

bool real_contains(const void *address)
{
	Dl_info info;

	return dladdr(address, &info) && info.dli_fname && real_is_named(info.dli_fname);
}
