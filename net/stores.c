/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/stores.h"

#include <string.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "net/cache_line.h"

#if defined(__SSE2__)

void stores_copy_nontemporal(uint8_t *to, const uint8_t *from, uint32_t length)
{
	uint32_t head = -(uintptr_t)to % CACHE_LINE;

	if (head > length)
		head = length;
	memcpy(to, from, head);
	to += head;
	from += head;
	length -= head;
	for (; length >= CACHE_LINE; to += CACHE_LINE, from += CACHE_LINE, length -= CACHE_LINE) {
		for (unsigned int i = 0; i < CACHE_LINE; i += sizeof(__m128i))
			_mm_stream_si128((__m128i *)(to + i),
					 _mm_loadu_si128((const __m128i *)(from + i)));
	}
	_mm_sfence();
	memcpy(to, from, length);
}

#else

void stores_copy_nontemporal(uint8_t *to, const uint8_t *from, uint32_t length)
{
	memcpy(to, from, length);
}

#endif
