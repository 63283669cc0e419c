/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/cause/words.h"

#include <inttypes.h>
#include <stdio.h>

const char *word_text(const char *const *words, unsigned int count, unsigned int number)
{
	return number < count && words[number] ? words[number] : "unknown";
}

const char *bits_text(const struct bit_name *names, unsigned int count, uint64_t bits,
		      char text[BITS_TEXT])
{
	unsigned int used = 0;

	for (unsigned int i = 0; i < count && used < BITS_TEXT; i++) {
		if (!(bits & names[i].bit))
			continue;
		used += snprintf(text + used, BITS_TEXT - used, "%s%s", used ? " | " : "",
				 names[i].name);
		bits &= ~names[i].bit;
	}
	if ((bits || !used) && used < BITS_TEXT)
		snprintf(text + used, BITS_TEXT - used, bits ? "%s0x%" PRIx64 : "%s0",
			 used ? " | " : "", bits);
	return text;
}
