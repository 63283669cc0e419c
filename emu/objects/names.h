/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The names of an object in the application: the one that it was made with, and imports
 * (ibv_import_pd(3), ibv_import_mr(3), ibv_import_dm(3)). It can be destroyed by any of them, and
 * its memory stays for the others until they end as well. Atomic, no lock: the application sees to
 * it that a name isn't used while another thread destroys the object.
 */
#ifndef URXE_EMU_NAMES_H
#define URXE_EMU_NAMES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct names {
	/*
	 * Beyond the two of a new object, which is all zeros: its first name's, and its own until
	 * it is destroyed.
	 */
	_Atomic int32_t references;
	_Atomic bool destroyed;
};

static inline void names_add(struct names *names)
{
	names->references++;
}

/* A name ends. Returns whether the object has to be freed: of threads that end one each, to one. */
static inline bool names_end(struct names *names)
{
	return atomic_fetch_sub(&names->references, 1) == -1;
}

/* By one of its names, which is still there: it isn't the last reference that goes. */
static inline void names_destroy(struct names *names)
{
	names->destroyed = true;
	names_end(names);
}

#endif
