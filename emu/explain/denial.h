/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Why memory could not be used by its key, or a window not bound or invalidated. The data path
 * finds out that it can't, and nothing else; here, once something has failed, the key is looked up
 * again and what is wrong with it described. Another thread may have changed it meanwhile: then
 * that is what is said.
 *
 * Called by emu/explain/requester and responder, with the QP's lock held.
 */
#ifndef URXE_EMU_EXPLAIN_DENIAL_H
#define URXE_EMU_EXPLAIN_DENIAL_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "emu/objects/mw.h"
#include "net/cause/cause.h"

struct hca;
struct qp;

/* Whose key it is: each side has causes of its own. */
enum key_side {
	KEY_OF_REQUEST, /* an L_Key of a send work request */
	KEY_OF_RECEIVE, /* an L_Key of a receive */
	KEY_OF_PEER,	/* an R_Key that a peer has sent */
	KEY_SIDES
};

struct key_use {
	struct hca *hca;
	uint32_t pd_handle; /* of the user's protection domain, which may be gone by now; 0: none */
	const struct qp *qp; /* that the peer's packet came to; NULL for an L_Key */
	enum key_side side;
	int access; /* that is needed, IBV_ACCESS_* */
	bool whole; /* all that the key names, and no address */
};

/* Whether @key, or that range of it, is refused. Then @finding has why. */
bool denial_of_key(const struct key_use *use, uint32_t key, uint64_t va, uint64_t length,
		   struct finding *finding);
/* Whether the key is fine, but the memory in that range isn't there. */
bool denial_of_memory(const struct key_use *use, uint32_t key, uint64_t va, uint64_t length,
		      struct finding *finding);
/* Neither is found any more: that another thread has changed the key meanwhile is the cause. */
void denial_is_over(const struct key_use *use, struct finding *finding);

/* The same for @length bytes from @offset on of a list. With @probe, memory is looked at, too. */
bool denial_of_sges(const struct key_use *use, const struct ibv_sge *sge, uint32_t count,
		    uint64_t offset, uint64_t length, bool probe, struct finding *finding);

/* Why mw_bind() refused. */
void denial_of_bind(struct qp *qp, const struct mw_bind *bind, struct finding *finding);
/* Why mw_invalidate() did: for a request of @qp, or a peer's SEND. */
void denial_of_invalidation(struct qp *qp, uint32_t rkey, enum key_side side,
			    struct finding *finding);

#endif
