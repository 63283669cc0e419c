/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Objects by number: emu/objects/table.h has their users and the lock.
 *
 * A get counts itself in and then looks for the object; a removal takes the
 * object away and then looks for references. Both are sequentially consistent, so
 * at least one of the two sees the other.
 */
#include "emu/objects/table.h"

#include <errno.h>
#include <stdlib.h>

/* Stands in a slot that is reserved: its number is taken, its object can't be found. */
static const char reserved;

int table_init(struct table *table, const struct hca_host *host, uint32_t first, uint32_t limit)
{
	size_t chunks = ((size_t)limit + TABLE_CHUNK - 1) / TABLE_CHUNK;

	*table = (struct table){.host = host, .limit = limit};
	table->chunks = calloc(chunks, sizeof(*table->chunks));
	if (!table->chunks)
		return ENOMEM;
	pthread_mutex_init(&table->lock, NULL);
	if (first == limit || table_add_range(table, first, limit - first, first) == 0)
		return 0;
	table_destroy(table);
	return ENOMEM;
}

int table_add_range(struct table *table, uint32_t first, uint32_t count, uint32_t start)
{
	struct table_range *ranges;

	pthread_mutex_lock(&table->lock);
	ranges = realloc(table->ranges, (table->range_count + 1) * sizeof(*ranges));
	if (ranges) {
		ranges[table->range_count] = (struct table_range){first, count};
		table->ranges = ranges;
		table->current = table->range_count++;
		table->cursor = start;
		table->capacity += count;
	}
	pthread_mutex_unlock(&table->lock);
	return ranges ? 0 : ENOMEM;
}

void table_destroy(struct table *table)
{
	size_t chunks = ((size_t)table->limit + TABLE_CHUNK - 1) / TABLE_CHUNK;

	for (size_t i = 0; i < chunks; i++)
		free(atomic_load_explicit(&table->chunks[i], memory_order_relaxed));
	free(table->chunks);
	free(table->ranges);
	pthread_mutex_destroy(&table->lock);
}

/* NULL when no number of it was ever used. */
static struct table_slot *table_chunk(struct table *table, uint32_t number)
{
	return atomic_load_explicit(&table->chunks[number >> TABLE_CHUNK_BITS],
				    memory_order_acquire);
}

/* Likewise. */
static struct table_slot *table_slot(struct table *table, uint32_t number)
{
	struct table_slot *chunk = table_chunk(table, number);

	return chunk ? &chunk[number & (TABLE_CHUNK - 1)] : NULL;
}

/* Of a number that is in use. */
static struct table_slot *used_slot(struct table *table, uint32_t number)
{
	return &table_chunk(table, number)[number & (TABLE_CHUNK - 1)];
}

static struct table_slot *table_slot_make(struct table *table, uint32_t number)
{
	struct table_slot *slot = table_slot(table, number);
	struct table_slot *chunk;

	if (slot)
		return slot;
	chunk = calloc(TABLE_CHUNK, sizeof(*chunk));
	if (!chunk)
		return NULL;
	atomic_store_explicit(&table->chunks[number >> TABLE_CHUNK_BITS], chunk,
			      memory_order_release);
	return &chunk[number & (TABLE_CHUNK - 1)];
}

static uint32_t next_number(struct table *table)
{
	const struct table_range *range = &table->ranges[table->current];

	if (table->cursor < range->first || table->cursor - range->first >= range->count) {
		table->current = (table->current + 1) % table->range_count;
		table->cursor = table->ranges[table->current].first;
	}
	return table->cursor++;
}

static int table_reserve_locked(struct table *table, uint32_t *number)
{
	struct table_slot *slot;

	if (table->count == table->capacity)
		return ENOMEM;
	for (;;) {
		*number = next_number(table);
		slot = table_slot_make(table, *number);
		if (!slot)
			return ENOMEM;
		if (!atomic_load_explicit(&slot->object, memory_order_relaxed))
			break;
	}
	atomic_store(&slot->object, (void *)&reserved);
	table->count++;
	return 0;
}

bool table_is_full(struct table *table, uint32_t *capacity)
{
	bool full;

	pthread_mutex_lock(&table->lock);
	full = table->count == table->capacity;
	*capacity = table->capacity;
	pthread_mutex_unlock(&table->lock);
	return full;
}

int table_reserve(struct table *table, uint32_t *number)
{
	int error;

	pthread_mutex_lock(&table->lock);
	error = table_reserve_locked(table, number);
	pthread_mutex_unlock(&table->lock);
	return error;
}

void table_publish(struct table *table, uint32_t number, void *object)
{
	atomic_store(&used_slot(table, number)->object, object);
}

int table_add(struct table *table, uint32_t number, void *object)
{
	struct table_slot *slot;

	pthread_mutex_lock(&table->lock);
	slot = table_slot_make(table, number);
	table->count += slot != NULL;
	pthread_mutex_unlock(&table->lock);
	if (!slot)
		return ENOMEM;
	atomic_store(&slot->object, object);
	return 0;
}

void table_withdraw(struct table *table, uint32_t number)
{
	struct table_slot *slot = used_slot(table, number);

	atomic_store(&slot->object, (void *)&reserved);
	while (atomic_load(&slot->refcount))
		table->host->yield();
}

void table_remove(struct table *table, uint32_t number)
{
	table_withdraw(table, number);
	pthread_mutex_lock(&table->lock);
	atomic_store(&used_slot(table, number)->object, NULL);
	table->count--;
	pthread_mutex_unlock(&table->lock);
}

void *table_get(struct table *table, uint32_t number)
{
	struct table_slot *slot;
	void *object;

	if (number >= table->limit)
		return NULL;
	slot = table_slot(table, number);
	if (!slot)
		return NULL;
	atomic_fetch_add(&slot->refcount, 1);
	object = atomic_load(&slot->object);
	if (object && object != &reserved)
		return object;
	atomic_fetch_sub(&slot->refcount, 1);
	return NULL;
}

void *table_get_next(struct table *table, uint32_t *number)
{
	while (*number < table->limit) {
		void *object;

		if (!table_slot(table, *number)) {
			*number = (*number | (TABLE_CHUNK - 1)) + 1;
			continue;
		}
		object = table_get(table, *number);
		if (object)
			return object;
		++*number;
	}
	return NULL;
}

void table_put(struct table *table, uint32_t number)
{
	atomic_fetch_sub(&used_slot(table, number)->refcount, 1);
}
