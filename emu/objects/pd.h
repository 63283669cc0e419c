/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Protection domains and address handles. Like every object of the core that an
 * application holds, they begin with the ABI structure that it sees; the verbs
 * layer fills that in. Use counts are atomic; there is no lock.
 */
#ifndef URXE_EMU_PD_H
#define URXE_EMU_PD_H

#include <infiniband/verbs.h>

#include "emu/objects/names.h"
#include "emu/objects/users.h"
#include "net/link.h"

struct hca;
struct origin;
struct port_gids;

struct pd {
	struct ibv_pd ibv;
	uint32_t handle; /* as it was made: that of the ABI structure is the application's */
	struct hca *hca;
	struct origin *origin; /* where it was made: net/cause/origin.h */
	struct users users;
	struct names names;
	struct pd *prev, *next; /* utlist, hca.pds */
};

struct ah {
	struct ibv_ah ibv;
	uint32_t handle; /* likewise */
	struct pd *pd;
	uint8_t port_num;
	struct origin *origin; /* where it was made: net/cause/origin.h */
	struct path path;
};

int pd_alloc(struct hca *hca, struct pd **pd);
/* 0; EBUSY; ENOENT: it was destroyed by another name of it. */
int pd_destroy(struct pd *pd);
/* A name of it ends, and with the last one its memory. */
void pd_put(struct pd *pd);
/* 0 for NULL, which no protection domain has. */
static inline uint32_t pd_handle(const struct pd *pd)
{
	return pd ? pd->handle : 0;
}

/* The one with @handle, or NULL. */
struct pd *pd_find(struct hca *hca, uint32_t handle);

/* EINVAL: port, missing GRH (RoCE has no other addressing); ENODATA: empty GID slot. */
int ah_create(struct pd *pd, const struct ibv_ah_attr *attr, struct ah **ah);
void ah_destroy(struct ah *ah);

/* Resolve an address vector to a path. The errors of ah_create(). */
int path_resolve(struct hca *hca, const struct ibv_ah_attr *attr, struct path *path);

/* The address vector that path_resolve() makes such a path of. @gids: those of the HCA. */
struct ibv_ah_attr path_ah_attr(const struct path *path, const struct port_gids *gids);

#endif
