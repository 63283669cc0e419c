/* SPDX-License-Identifier: BSD-2-Clause */
#include "urxe/psn_list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/wire/wire.h"
#include "urxe/command.h"
#include "urxe/trace.h"

/* Ranges behind @at that begin in it, or where it ends, become part of it. */
static void psn_list_close(struct psn_list *list, unsigned int at)
{
	struct psn_range *range = &list->ranges[at];
	unsigned int next = at + 1;

	for (; next < list->count && list->ranges[next].first <= range->last + 1; next++) {
		if (list->ranges[next].last > range->last)
			range->last = list->ranges[next].last;
	}
	memmove(&list->ranges[at + 1], &list->ranges[next],
		(list->count - next) * sizeof(*list->ranges));
	list->count -= next - at - 1;
}

static void psn_list_add_range(struct psn_list *list, struct psn_range added)
{
	unsigned int at = list->count;

	/* Mostly the last one. */
	while (at > 0 && list->ranges[at - 1].first > added.first)
		at--;
	if (at > 0 && added.first <= list->ranges[at - 1].last + 1) {
		at--;
		if (added.last > list->ranges[at].last)
			list->ranges[at].last = added.last;
	} else {
		list->ranges = trace_grow(list->ranges, list->count, sizeof(*list->ranges));
		memmove(&list->ranges[at + 1], &list->ranges[at],
			(list->count++ - at) * sizeof(*list->ranges));
		list->ranges[at] = added;
	}
	psn_list_close(list, at);
}

void psn_list_add(struct psn_list *list, uint64_t psn)
{
	psn_list_add_range(list, (struct psn_range){psn, psn});
}

uint64_t psn_list_last(const struct psn_list *list)
{
	return list->ranges[list->count - 1].last;
}

void psn_list_join(struct psn_list *list, const struct psn_list *other)
{
	for (unsigned int i = 0; i < other->count; i++)
		psn_list_add_range(list, other->ranges[i]);
}

char *psn_list_span(const struct psn_list *list)
{
	struct psn_range span = {list->ranges[0].first, psn_list_last(list)};

	return psn_list_text(&(struct psn_list){&span, 1});
}

#define RANGES_SHOWN 6

char *psn_list_text(const struct psn_list *list)
{
	char *text = NULL;
	size_t size;
	FILE *stream = open_memstream(&text, &size);

	if (!stream)
		die("out of memory");
	for (unsigned int i = 0; i < list->count && i < RANGES_SHOWN; i++) {
		const struct psn_range *range = &list->ranges[i];

		fprintf(stream, "%s%llu", i ? ", " : "",
			(unsigned long long)(range->first & PSN_MASK));
		if (range->last > range->first)
			fprintf(stream, "..%llu", (unsigned long long)(range->last & PSN_MASK));
	}
	if (list->count > RANGES_SHOWN)
		fprintf(stream, " and %u more", list->count - RANGES_SHOWN);
	if (fclose(stream) != 0)
		die("out of memory");
	return text;
}
