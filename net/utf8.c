/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/utf8.h"

#include <stdint.h>

size_t utf8_length(const char *text)
{
	/* By length: what is less has a shorter one. */
	static const uint32_t least[] = {UINT32_MAX, 0, 0x80, 0x800, 0x10000};
	const unsigned char *c = (const unsigned char *)text;
	size_t length = *c < 0x80   ? 1
			: *c < 0xc0 ? 0
			: *c < 0xe0 ? 2
			: *c < 0xf0 ? 3
			: *c < 0xf8 ? 4
				    : 0;
	uint32_t code = *c & (0xff >> length);

	for (size_t i = 1; i < length; i++) {
		if ((c[i] & 0xc0) != 0x80)
			return 0;
		code = code << 6 | (c[i] & 0x3f);
	}
	/* Half of a pair of UTF-16's is none. */
	return code < least[length] || code > 0x10ffff || code >> 11 == 0xd800 >> 11 ? 0 : length;
}
