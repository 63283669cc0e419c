/* SPDX-License-Identifier: BSD-2-Clause */
#include "emu/objects/users.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>

#include "emu/objects/mr.h"
#include "emu/objects/qp.h"
#include "net/cause/cause.h"
#include "net/cause/origin.h"

static const char *const names[] = {
	[USER_MR] = "memory region",  [USER_MW] = "memory window",
	[USER_QP] = "queue pair",     [USER_SRQ] = "shared receive queue",
	[USER_AH] = "address handle", [USER_PARENT_DOMAIN] = "parent domain",
};

static bool qp_uses(const struct qp *qp, const void *object)
{
	return qp->pd == object || qp->send_cq == object || qp->recv_cq == object ||
	       qp->srq == object || qp->xrcd == object;
}

/* Where one of them was made: a queue pair, or a key of a protection domain. Else "". */
static const char *describe_one(struct hca *hca, const void *object, char phrase[ORIGIN_TEXT])
{
	const struct key *key;
	const struct qp *qp;

	phrase[0] = '\0';
	for (uint32_t i = 0; !*phrase && (qp = table_get_next(&hca->qps, &i)); i++) {
		if (qp_uses(qp, object))
			origin_phrase(qp->origin, CAUSE_LINE "a queue pair was created at ",
				      phrase);
		table_put(&hca->qps, i);
	}
	for (uint32_t i = 0; !*phrase && (key = table_get_next(&hca->keys, &i)); i++) {
		if (key->pd == object)
			origin_phrase(key->origin,
				      key->kind == KEY_WINDOW
					      ? CAUSE_LINE "a memory window was allocated at "
					      : CAUSE_LINE "a memory region was registered at ",
				      phrase);
		table_put(&hca->keys, i);
	}
	return phrase;
}

int users_check(struct users *users, struct hca *hca, const void *object, const char *call)
{
	char text[160], phrase[ORIGIN_TEXT];
	size_t used = 0;

	for (unsigned int i = 0; i < USER_KINDS && used < sizeof(text); i++) {
		uint32_t count = atomic_load(&users->counts[i]);

		if (count)
			used += snprintf(text + used, sizeof(text) - used, "%s%" PRIu32 " %s%s",
					 used ? ", " : "", count, names[i], count > 1 ? "s" : "");
	}
	if (!used)
		return 0;
	return refuse(EBUSY, CAUSE_OBJECT_IN_USE, "%s: in use by %s%s", call, text,
		      cause_explaining() ? describe_one(hca, object, phrase) : "");
}
