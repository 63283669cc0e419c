/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Objects by number, in constant time, without a lock on the data path. A slot
 * carries a reference count, and slots are never freed before the table: so a
 * lookup may race with a removal, and a reference keeps the object from being
 * freed. Removal waits for the references, which are kept only briefly and
 * never while waiting for anything.
 *
 * Used for QPs by QP number, XRC SRQs by theirs, for memory regions and windows by key, for CQs
 * that have a timer, and for the connection manager's ids by the index in their comm id. Adding and
 * removing take the table's lock; getting takes none.
 */
#ifndef URXE_EMU_TABLE_H
#define URXE_EMU_TABLE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "emu/host.h"

#define TABLE_CHUNK_BITS 10
#define TABLE_CHUNK (1u << TABLE_CHUNK_BITS)

struct table_slot {
	_Atomic uint32_t refcount;
	_Atomic(void *) object;
};

struct table_range {
	uint32_t first, count;
};

struct table {
	pthread_mutex_t lock;
	const struct hca_host *host;
	uint32_t limit;		    /* above all numbers */
	struct table_range *ranges; /* of numbers to hand out */
	uint32_t range_count;
	/* Numbers are handed out in a circle through all ranges, so that none is reused early. */
	uint32_t current, cursor;	      /* the range we are in, and the next number */
	uint32_t count, capacity;	      /* numbers in use, and in the ranges */
	_Atomic(struct table_slot *) *chunks; /* allocated when a number in them is first used */
};

/* Numbers @first to @limit - 1; none to begin with if they are equal. Returns 0 or ENOMEM. */
int table_init(struct table *table, const struct hca_host *host, uint32_t first, uint32_t limit);
/* More numbers, below the limit, to be handed out from @start on. Returns 0 or ENOMEM. */
int table_add_range(struct table *table, uint32_t first, uint32_t count, uint32_t start);
/* Every object must have been removed. */
void table_destroy(struct table *table);

/*
 * Give a number to an object and return it in *@number. The object can't be
 * found before table_publish(), so that it may be set up with its number.
 * Returns 0 or ENOMEM when all numbers are taken.
 */
int table_reserve(struct table *table, uint32_t *number);
void table_publish(struct table *table, uint32_t number, void *object);

/* Whether all numbers are taken; *@capacity: how many that is. */
bool table_is_full(struct table *table, uint32_t *capacity);

/* Publish @object under @number, which another table has reserved. Returns 0 or ENOMEM. */
int table_add(struct table *table, uint32_t number, void *object);

/* Unpublish @number and wait for its references. It stays reserved: it can be published again. */
void table_withdraw(struct table *table, uint32_t number);
/* Withdraw @number (if it was published) and free it. */
void table_remove(struct table *table, uint32_t number);

/* The object with @number, with a reference, or NULL. Each success is paired with a table_put(). */
void *table_get(struct table *table, uint32_t number);
/* The first one with *@number or a greater one, which is put there. NULL behind the last. */
void *table_get_next(struct table *table, uint32_t *number);
void table_put(struct table *table, uint32_t number);

#endif
