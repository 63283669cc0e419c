/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The profile "strict": of each key what least can be relied on among the profiles named as
 * arguments, on stdout. What works under it works on all of these cards. The build makes it of
 * those in profiles/, so that it never differs from them.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "verbs/profile.h"

/* Where a word stands in the list of those from which the last one least can be relied on. */
static uint64_t rank(const struct profile_key *key, uint64_t value)
{
	uint64_t rank = 0;

	while (key->kind == PROFILE_WORD && key->words[rank].value != value)
		rank++;
	return key->kind == PROFILE_WORD ? rank : value;
}

static bool is_less(const struct profile_key *key, uint64_t value, uint64_t than)
{
	switch (key->strict) {
	case STRICT_LEAST:
		return value < than;
	case STRICT_LEAST_SET:
		return value && (!than || value < than);
	case STRICT_MOST:
		return rank(key, value) > rank(key, than);
	default:
		return false;
	}
}

static void print_value(const struct profile_key *key, uint64_t value)
{
	if (key->kind == PROFILE_WORD)
		printf("%s = %s", key->name, key->words[rank(key, value)].text);
	else
		printf(key->kind == PROFILE_BITS ? "%s = 0x%" PRIx64 : "%s = %" PRIu64, key->name,
		       value);
}

static void print_key(const struct profile *profiles, int count, unsigned int index)
{
	const struct profile_key *key = &profile_keys[index];
	const struct profile *from = &profiles[0];
	uint64_t value = profile_number(from, key);

	if (key->kind == PROFILE_TEXT ||
	    (key->strict == STRICT_DEFAULT && key->kind != PROFILE_BITS))
		return;
	for (int i = 1; i < count; i++) {
		uint64_t other = profile_number(&profiles[i], key);

		if (key->kind == PROFILE_BITS)
			value &= other;
		else if (is_less(key, other, value)) {
			value = other;
			from = &profiles[i];
		}
	}
	print_value(key, value);
	printf("   # %s\n", key->kind == PROFILE_BITS ? "what all have"
			    : *from->name	      ? from->name
						      : "urxe");
}

int main(int argc, char **argv)
{
	struct profile *profiles = calloc(argc, sizeof(*profiles));
	char *error = NULL;
	int status = 1, count = 1;

	if (!profiles)
		return 1;
	profile_default(&profiles[0]);
	while (count < argc && profile_read(&profiles[count], argv[count], &error))
		count++;
	if (count == argc) {
		printf("# The least of all cards. Made by verbs/profile_strict.c, when urxe is "
		       "built:\n"
		       "# behind each value is the card that it is of.\n"
		       "description = what works on all cards\n");
		for (unsigned int i = 0; i < profile_key_count; i++)
			print_key(profiles, count, i);
		status = 0;
	} else {
		fprintf(stderr, "%s\n", error ? error : "out of memory");
		free(error);
	}
	while (count-- > 0)
		profile_destroy(&profiles[count]);
	free(profiles);
	return status;
}
