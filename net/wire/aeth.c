/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/clock.h"
#include "net/wire/wire.h"

/* IBA 9.7.5.2.8 (table 45), in units of 10 us. */
#define RNR_DELAY_UNIT (10 * NS_PER_US)

static const uint32_t rnr_delay[AETH_VALUE_MASK + 1] = {
	65536, 1,    2,	   3,	 4,    6,     8,     12,    16,	   24,	  32,
	48,    64,   96,   128,	 192,  256,   384,   512,   768,   1024,  1536,
	2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
};

uint64_t aeth_rnr_delay(uint8_t syndrome)
{
	return rnr_delay[syndrome & AETH_VALUE_MASK] * RNR_DELAY_UNIT;
}
