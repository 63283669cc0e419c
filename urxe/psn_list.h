/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The PSNs of a row of urxe trace, or of those of its packets that have something in common, as
 * ranges: ascending, and no two that touch. They are counted on beyond 24 bits
 * (struct transmission), so that none wraps, and shown as they were on the wire. As the rest of
 * urxe trace these functions free nothing, and end the program without memory.
 */
#ifndef URXE_PSN_LIST_H
#define URXE_PSN_LIST_H

#include <stdint.h>

struct psn_list {
	struct psn_range {
		uint64_t first, last;
	} * ranges;
	unsigned int count;
};

void psn_list_add(struct psn_list *list, uint64_t psn);
/* All of @other too. */
void psn_list_join(struct psn_list *list, const struct psn_list *other);

/* Of a list that isn't empty. */
uint64_t psn_list_last(const struct psn_list *list);

/* "5..8, 11", shortened if there are many ranges. */
char *psn_list_text(const struct psn_list *list);
/* From the first to the last of a list that isn't empty, whatever is missing in between. */
char *psn_list_span(const struct psn_list *list);

#endif
