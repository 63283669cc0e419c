/* SPDX-License-Identifier: BSD-2-Clause */
/* The bytes that a fuzz target was given, eaten from the front. Beyond the end there are zeros. */
#ifndef URXE_TESTS_FUZZ_INPUT_H
#define URXE_TESTS_FUZZ_INPUT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "tests/must.h" /* of what holds whatever the input is */

/* What libFuzzer calls, and standalone.c. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
	const uint8_t *data;
	size_t left;
};

static inline size_t input_bytes(struct input *input, void *to, size_t length)
{
	size_t taken = length < input->left ? length : input->left;

	memset(to, 0, length);
	if (taken)
		memcpy(to, input->data, taken);
	input->data += taken;
	input->left -= taken;
	return taken;
}

static inline uint8_t input_u8(struct input *input)
{
	uint8_t value;

	input_bytes(input, &value, 1);
	return value;
}

static inline uint16_t input_u16(struct input *input)
{
	uint8_t value[2];

	input_bytes(input, value, 2);
	return value[0] << 8 | value[1];
}

#endif
