/* SPDX-License-Identifier: BSD-2-Clause */
#include "urxe/json.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "net/utf8.h"
#include "urxe/command.h"

json_t *text_json(const char *text)
{
	char *copy = strdup(text);
	json_t *json;
	size_t length;

	if (!copy)
		return NULL;
	for (char *c = copy; *c; c += length ?: 1) {
		length = utf8_length(c);
		if (!length)
			*c = '?';
	}
	json = json_string(copy);
	free(copy);
	return json;
}

json_t *hex_json(uint64_t number)
{
	char text[20];

	snprintf(text, sizeof(text), "0x%" PRIx64, number);
	return json_string(text);
}

json_t *number_json(uint64_t number)
{
	return json_integer((json_int_t)number);
}

void json_print(FILE *stream, json_t *json, size_t flags)
{
	/* A stream that can't be written to knows it. */
	if (!json || (json_dumpf(json, stream, flags) != 0 && !ferror(stream)))
		die("out of memory");
	fputc('\n', stream);
	json_decref(json);
}
