/* SPDX-License-Identifier: BSD-2-Clause */
/* What the library writes to stderr meanwhile: reports of failures (net/cause/cause.h), the log. */
#ifndef URXE_TESTS_SAID_H
#define URXE_TESTS_SAID_H

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "net/cause/cause.h"
#include "tests/must.h"

struct said {
	FILE *file;
	int before;
	char text[65536];
};

static inline void said_begin(struct said *said)
{
	said->file = tmpfile();
	said->before = dup(STDERR_FILENO);
	must(said->file && said->before >= 0);
	must(dup2(fileno(said->file), STDERR_FILENO) == STDERR_FILENO);
}

static inline void said_end(struct said *said)
{
	size_t length;

	must(dup2(said->before, STDERR_FILENO) == STDERR_FILENO);
	close(said->before);
	rewind(said->file);
	length = fread(said->text, 1, sizeof(said->text) - 1, said->file);
	said->text[length] = '\0';
	fclose(said->file);
}

/*
 * How often @cause was reported: as a paragraph ("urxe[1] 0x...") or a line ("urxe[1] info:
 * 0x...").
 */
static inline unsigned int said_count(const struct said *said, enum cause cause)
{
	static const char *const begins[] = {"] 0x%04x ", "] info: 0x%04x ", "] warn: 0x%04x "};
	unsigned int count = 0;

	for (unsigned int i = 0; i < sizeof(begins) / sizeof(begins[0]); i++) {
		const char *at = said->text;
		char begin[32];

		snprintf(begin, sizeof(begin), begins[i], cause);
		while ((at = strstr(at, begin))) {
			at += strlen(begin);
			count++;
		}
	}
	return count;
}

#endif
