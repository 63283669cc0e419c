/* SPDX-License-Identifier: BSD-2-Clause */
#include "emu/objects/former_keys.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "emu/objects/mr.h"
#include "net/cause/cause.h"
#include "net/cause/origin.h"

struct former_key {
	uint32_t value; /* 0: none */
	enum key_kind kind;
	uint64_t address, length;
	struct origin *made, *ended;
};

void former_keys_init(struct former_keys *former)
{
	*former = (struct former_keys){.lock = PTHREAD_MUTEX_INITIALIZER};
}

static void free_origins(const struct former_key *key)
{
	origin_free(key->made);
	origin_free(key->ended);
}

void former_keys_destroy(struct former_keys *former)
{
	for (unsigned int i = 0; former->ring && i < FORMER_KEYS; i++)
		free_origins(&former->ring[i]);
	free(former->ring);
	pthread_mutex_destroy(&former->lock);
}

static void add_former_key(struct former_keys *former, const struct former_key *key)
{
	struct former_key *place;

	if (!former->ring)
		former->ring = calloc(FORMER_KEYS, sizeof(*former->ring));
	if (!former->ring) {
		free_origins(key);
		return;
	}
	place = &former->ring[former->next++ % FORMER_KEYS];
	free_origins(place);
	*place = *key;
}

void former_keys_add(struct former_keys *former, struct key *key)
{
	struct origin *made = key->origin;
	struct former_key ended;

	key->origin = NULL;
	if (!cause_explaining()) {
		origin_free(made);
		return;
	}
	ended = (struct former_key){
		.value = key->value,
		.kind = key->kind,
		.address = (uintptr_t)key->address,
		.length = key->length,
		.made = made,
		.ended = origin_capture(),
	};
	pthread_mutex_lock(&former->lock);
	add_former_key(former, &ended);
	pthread_mutex_unlock(&former->lock);
}

/* The newest one, or NULL. */
static const struct former_key *find_former_key(const struct former_keys *former, uint32_t value)
{
	/* No key is 0, but entries without one are. */
	for (unsigned int i = 1; value && former->ring && i <= FORMER_KEYS; i++) {
		const struct former_key *key = &former->ring[(former->next - i) % FORMER_KEYS];

		if (key->value == value)
			return key;
	}
	return NULL;
}

static void describe_former_key(const struct former_key *key, char text[FORMER_KEY_TEXT])
{
	bool window = key->kind == KEY_WINDOW;
	char made[ORIGIN_TEXT], ended[ORIGIN_TEXT];
	size_t length;

	if (window)
		length = snprintf(text, FORMER_KEY_TEXT, "a memory window");
	else
		length = snprintf(text, FORMER_KEY_TEXT,
				  "a region of %" PRIu64 " bytes at 0x%" PRIx64, key->length,
				  key->address);
	snprintf(text + length, FORMER_KEY_TEXT - length, "%s%s",
		 origin_phrase(key->made, window ? ", allocated at " : ", registered at ", made),
		 origin_phrase(key->ended, window ? ", deallocated at " : ", deregistered at ",
			       ended));
}

bool former_keys_describe(struct former_keys *former, uint32_t value, char text[FORMER_KEY_TEXT])
{
	const struct former_key *key;

	text[0] = '\0';
	if (!cause_explaining())
		return false;
	pthread_mutex_lock(&former->lock);
	key = find_former_key(former, value);
	if (key)
		describe_former_key(key, text);
	pthread_mutex_unlock(&former->lock);
	return key != NULL;
}
