/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Keys that were: what the last keys named that name nothing any more, and where in the application
 * they came to be and ended. Kept while explanations are on (net/cause/cause.h), for a key that
 * is used too late.
 *
 * Added to by mr and mw, looked up for reports of failures, with any of the core's locks held;
 * former_keys.lock is a leaf.
 */
#ifndef URXE_EMU_FORMER_KEYS_H
#define URXE_EMU_FORMER_KEYS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define FORMER_KEYS 64
#define FORMER_KEY_TEXT 320

struct key;

struct former_keys {
	pthread_mutex_t lock;
	struct former_key *ring; /* NULL until there is one */
	unsigned int next;
};

void former_keys_init(struct former_keys *former);
void former_keys_destroy(struct former_keys *former);

/* @key names nothing from now on. Its origin becomes this list's; it is freed in any case. */
void former_keys_add(struct former_keys *former, struct key *key);

/*
 * "a region of 8192 bytes at 0x7f0010, registered at app.c:112 (setup) and deregistered at
 * app.c:140 (cleanup)", of the last one that had the key @value. Returns false, and an empty
 * text, when none is known.
 */
bool former_keys_describe(struct former_keys *former, uint32_t value, char text[FORMER_KEY_TEXT]);

#endif
