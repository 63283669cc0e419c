/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/quarantine.h"

#include <pthread.h>
#include <stdlib.h>

struct waiting {
	void *object; /* NULL: none */
	size_t size;
	const void *known;
};

static struct {
	pthread_mutex_t lock;
	struct waiting *ring; /* QUARANTINE_OBJECTS; NULL: off */
	unsigned int first, count;
	size_t bytes;
	void (*leaves)(const void *known);
} quarantine = {.lock = PTHREAD_MUTEX_INITIALIZER};

bool quarantine_enable(void (*leaves)(const void *known))
{
	quarantine.leaves = leaves;
	quarantine.ring = calloc(QUARANTINE_OBJECTS, sizeof(*quarantine.ring));
	return quarantine.ring;
}

/* If what waits is too much with @size more. */
static struct waiting take_oldest(size_t size)
{
	struct waiting oldest = {};

	pthread_mutex_lock(&quarantine.lock);
	if (quarantine.count && (quarantine.count == QUARANTINE_OBJECTS ||
				 quarantine.bytes + size > QUARANTINE_BYTES)) {
		oldest = quarantine.ring[quarantine.first];
		quarantine.first = (quarantine.first + 1) % QUARANTINE_OBJECTS;
		quarantine.count--;
		quarantine.bytes -= oldest.size;
	}
	pthread_mutex_unlock(&quarantine.lock);
	return oldest;
}

static void make_room(size_t size)
{
	for (;;) {
		struct waiting oldest = take_oldest(size);

		if (!oldest.object)
			return;
		quarantine.leaves(oldest.known);
		free(oldest.object);
	}
}

/* False: other threads have filled it again. */
static bool append(const struct waiting *waiting)
{
	bool fits;

	pthread_mutex_lock(&quarantine.lock);
	fits = quarantine.count < QUARANTINE_OBJECTS;
	if (fits) {
		quarantine.ring[(quarantine.first + quarantine.count++) % QUARANTINE_OBJECTS] =
			*waiting;
		quarantine.bytes += waiting->size;
	}
	pthread_mutex_unlock(&quarantine.lock);
	return fits;
}

void quarantine_free_as(void *object, size_t size, const void *known)
{
	const struct waiting waiting = {object, size, known};

	if (!quarantine.ring || !object) {
		free(object);
		return;
	}
	do
		make_room(size);
	while (!append(&waiting));
}

void quarantine_free(void *object, size_t size)
{
	quarantine_free_as(object, size, object);
}

void quarantine_before_fork(void)
{
	pthread_mutex_lock(&quarantine.lock);
}

void quarantine_after_fork(void)
{
	pthread_mutex_unlock(&quarantine.lock);
}
