/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Values of JSON, by jansson, for the commands that have --json. Keys and addresses are strings in
 * hexadecimal: JSON's numbers have 53 bits in most languages. Counters are numbers.
 */
#ifndef URXE_JSON_H
#define URXE_JSON_H

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>

/* Each byte of @text that isn't UTF-8 (net/utf8.h) becomes "?". */
json_t *text_json(const char *text);
json_t *hex_json(uint64_t number);
json_t *number_json(uint64_t number);

/* @json, which is used up, and a line end. NULL: there is no memory, and it ends with die(). */
void json_print(FILE *stream, json_t *json, size_t flags);

#endif
