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
	_Atomic uint32_t imports; /* besides the first one */
	_Atomic bool unimported;  /* the first one has ended */
	_Atomic bool destroyed;
};

/* A name ends: an @import, or the first one. */
static inline void names_end(struct names *names, bool import)
{
	if (import)
		names->imports--;
	else
		names->unimported = true;
}

/* Whether the object has to be freed, now that a name of it has ended. */
static inline bool names_are_gone(const struct names *names)
{
	return names->destroyed && names->unimported && !names->imports;
}

#endif
