/* SPDX-License-Identifier: BSD-2-Clause */
/* Numbers and masks in words, for what is said of a failure (net/cause/cause.h). No state. */
#ifndef URXE_NET_WORDS_H
#define URXE_NET_WORDS_H

#include <stdint.h>

/* One of @count @words, which may have gaps; "unknown" for a number that means nothing. */
const char *word_text(const char *const *words, unsigned int count, unsigned int number);

struct bit_name {
	uint64_t bit;
	const char *name;
};

#define BITS_TEXT 320

/*
 * "A | B", bits without a name as a number: "A | 0x200"; "0" for none. What doesn't fit is left
 * out. Returns @text.
 */
const char *bits_text(const struct bit_name *names, unsigned int count, uint64_t bits,
		      char text[BITS_TEXT]);

#endif
