/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What stands behind an ibv_pd: a protection domain, or another name of one, which is a parent
 * domain or an import (verbs/pd.c). For the verbs that create and destroy what is in a domain. The
 * counts are atomic; no locks.
 */
#ifndef URXE_VERBS_DOMAIN_H
#define URXE_VERBS_DOMAIN_H

#include <infiniband/verbs.h>
#include <stdbool.h>

struct pd;

/*
 * HANDLE_IS_GOOD() and REFUSE_HANDLE() (verbs/context.h) for a domain, which mustn't have been
 * deallocated by another name of it either.
 */
bool domain_is_good(struct ibv_pd *pd);
int domain_refuse(int error, const char *call, struct ibv_pd *pd);

/* A parent domain of @context, and neither a PD nor NULL. */
bool domain_is_parent(struct ibv_pd *pd, const struct ibv_context *context);

/* The protection domain itself. */
struct pd *to_pd(struct ibv_pd *pd);

/*
 * An object was created in a domain, or destroyed that was: the core counts them for the
 * protection domain, these for a parent domain that the application named instead.
 */
void domain_get(struct ibv_pd *pd);
void domain_put(struct ibv_pd *pd);

#endif
