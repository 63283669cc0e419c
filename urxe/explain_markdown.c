/* SPDX-License-Identifier: BSD-2-Clause */
#include "urxe/explain.h"

#include <stdio.h>
#include <string.h>

#include "net/cause/cause.h"

/* Of a cause's number, the bits that say where it is found (net/cause/catalogue.def). */
#define AREA(cause) ((cause) >> 12)

static const char *const areas[] = {
	[1] = "Sending: the requester and completer",
	[2] = "Receiving: the responder",
	[3] = "Asynchronous events",
	[4] = "Calls of libibverbs",
	[5] = "Connections: rdma_cm",
	[6] = "Faults that were asked for",
	[7] = "Misuse of the interface",
};

static void print_head(void)
{
	puts("# Errors\n\n"
	     "Why an operation or a call failed. The number is `vendor_err` of a failed "
	     "completion, and\n"
	     "stands in what the library says on stderr; `urxe run --explain` has it say more, "
	     "and\n"
	     "`urxe explain NUMBER` prints what stands here. Numbers stay the same from version "
	     "to\n"
	     "version.\n\n"
	     "This file is written by `urxe explain --markdown`.");
}

static void print_items(const char *lines)
{
	while (*lines) {
		int length = strcspn(lines, "\n");

		printf("- %.*s\n", length, lines);
		lines += length + (lines[length] == '\n');
	}
}

static void print_entry(const struct cause_entry *entry)
{
	printf("\n### 0x%04x %s\n\n%s%s.\n\n", entry->cause, entry->name, entry->title,
	       entry->kind == CAUSE_NOTICE ? " (not an error by itself)" : "");
	printf("*What the application sees*: %s.\n\n%s\n\nUsual reasons:\n\n", entry->shows,
	       entry->meaning);
	print_items(entry->reasons);
	puts("\nWhat to look at:\n");
	print_items(entry->advice);
}

void explain_markdown(void)
{
	const struct cause_entry *entry;
	unsigned int area = 0;

	print_head();
	for (unsigned int i = 0; (entry = cause_at(i)); i++) {
		if (AREA(entry->cause) != area) {
			area = AREA(entry->cause);
			printf("\n## %s\n", areas[area]);
		}
		print_entry(entry);
	}
}
