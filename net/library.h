/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Libraries that few processes need, loaded when one does: what they depend on would be in every
 * program that runs with urxe. The application can't see what they define (RTLD_LOCAL), so that it
 * takes the place of nothing of the same name. They stay loaded.
 *
 * Any thread may call this, with any lock held. No locks but the dynamic linker's.
 */
#ifndef URXE_NET_LIBRARY_H
#define URXE_NET_LIBRARY_H

#include <stdbool.h>

/* Both lists end with NULL. */
struct library {
	const char *const *files;     /* its names on different systems: the first that is there */
	const char *const *functions; /* what is wanted of it */
};

/*
 * Put the addresses of the functions, in their order, to @addresses. Returns false when the library
 * isn't here or lacks one of them; dlerror() says why.
 */
bool library_load(const struct library *library, void **addresses);

#endif
