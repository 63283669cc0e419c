/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/check/objects.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "verbs/check/check.h"

static struct {
	pthread_mutex_t lock;
	struct object *table;
} objects = {.lock = PTHREAD_MUTEX_INITIALIZER};

void objects_enter(void)
{
	pthread_mutex_lock(&objects.lock);
}

void objects_leave(void)
{
	pthread_mutex_unlock(&objects.lock);
}

bool objects_can_enter(void)
{
	return check_can_take(&objects.lock);
}

struct object *object_find(const void *pointer)
{
	struct object *object = NULL;

	if (pointer)
		HASH_FIND_PTR(objects.table, &pointer, object);
	return object;
}

/* --- references -------------------------------------------------------------------- */

struct object *object_reference(struct object *object)
{
	atomic_fetch_add_explicit(&object->references, 1, memory_order_relaxed);
	return object;
}

struct object *object_get(const void *pointer)
{
	struct object *object;

	objects_enter();
	object = object_find(pointer);
	if (object)
		object_reference(object);
	objects_leave();
	return object;
}

static void object_free(struct object *object)
{
	for (unsigned int i = 0; i < OBJECT_OWNERS && object->owners[i]; i++)
		object_put(object->owners[i]);
	origin_free(object->made);
	origin_free(object->destroyed);
	origin_free(object->refused);
	origin_free(object->completion_events.got);
	origin_free(object->async_events.got);
	free(object);
}

void object_put(struct object *object)
{
	if (object && atomic_fetch_sub(&object->references, 1) == 1)
		object_free(object);
}

/* --- lives ------------------------------------------------------------------------- */

/* With the lock. @n: 1 or -1. */
static void count_in_owner(const struct object *object, struct object *owner, int n)
{
	if (object->state != OBJECT_ALIVE)
		return;
	if (object->kind == OBJECT_CM_EVENT)
		owner->events += n;
	else
		owner->users += n;
}

/* With the lock. */
static void leave_owners(const struct object *object)
{
	for (unsigned int i = 0; i < OBJECT_OWNERS && object->owners[i]; i++)
		count_in_owner(object, object->owners[i], -1);
}

/* With the lock: from now on it isn't alive. */
static void end_life(struct object *object, enum object_state state)
{
	leave_owners(object);
	object->state = state;
}

/* With the lock. The caller puts the table's reference, without it. */
static struct object *take_off(struct object *object)
{
	if (!object)
		return NULL;
	HASH_DEL(objects.table, object);
	leave_owners(object);
	return object;
}

/* With the lock. */
static void add_owner(struct object *object, struct object *owner)
{
	unsigned int i = 0;

	while (i < OBJECT_OWNERS && object->owners[i] && object->owners[i] != owner)
		i++;
	if (owner && owner != object && i < OBJECT_OWNERS && !object->owners[i]) {
		object->owners[i] = object_reference(owner);
		count_in_owner(object, owner, 1);
	}
}

/* @object, new, into the table, for what had its address before. */
static struct object *replace(struct object *object, const struct object_use *owners)
{
	struct object *before;

	objects_enter();
	before = take_off(object_find(object->pointer));
	HASH_ADD_PTR(objects.table, pointer, object);
	add_owner(object, object_find(object_context(object->kind, object->pointer)));
	for (const struct object_use *owner = owners; owner && owner->kind; owner++)
		add_owner(object, object_find(owner->pointer));
	/* Without memory it isn't in the table: nothing is known of it. */
	if (!object->hh.tbl) {
		leave_owners(object);
		object_put(object);
	}
	objects_leave();
	return before;
}

void *object_made(enum object_kind kind, void *pointer, const struct object_use *owners)
{
	struct object *object = pointer ? calloc(1, sizeof(*object)) : NULL;

	if (!object)
		return pointer;
	object->pointer = pointer;
	object->kind = kind;
	object->references = 1;
	object->made = origin_capture();
	object_describe(kind, pointer, object->name);
	object_put(replace(object, owners));
	return pointer;
}

void object_join(const void *pointer, const void *owner, bool implicit)
{
	struct object *object;

	objects_enter();
	object = object_find(pointer);
	if (object) {
		object->implicit = object->implicit || implicit;
		add_owner(object, object_find(owner));
	}
	objects_leave();
}

/* With the lock. Whether it was one. */
static bool remove_owner(struct object *object, struct object *owner)
{
	unsigned int i = 0, last = 0;

	while (last < OBJECT_OWNERS && object->owners[last])
		last++;
	while (i < last && object->owners[i] != owner)
		i++;
	if (i == last)
		return false;
	count_in_owner(object, owner, -1);
	object->owners[i] = object->owners[last - 1];
	object->owners[last - 1] = NULL;
	return true;
}

void object_move(const void *pointer, const void *before, const void *now)
{
	struct object *object, *left;
	bool removed = false;

	objects_enter();
	object = object_find(pointer);
	left = object_find(before);
	if (object && left)
		removed = remove_owner(object, left);
	if (object)
		add_owner(object, object_find(now));
	objects_leave();
	if (removed)
		object_put(left);
}

void object_destroyed(const void *pointer)
{
	struct origin *origin = origin_capture();
	struct object *object;

	objects_enter();
	object = object_find(pointer);
	if (object && object->state == OBJECT_ALIVE) {
		end_life(object, OBJECT_DESTROYED);
		object->destroyed = origin;
		origin = NULL;
	}
	objects_leave();
	origin_free(origin);
}

void object_refused(const void *pointer)
{
	struct origin *origin = origin_capture();
	struct object *object;

	objects_enter();
	object = object_find(pointer);
	if (object && !object->refused) {
		object->refused = origin;
		origin = NULL;
	}
	objects_leave();
	origin_free(origin);
}

void object_tell(struct object *object)
{
	objects_enter();
	object->told = true;
	objects_leave();
}

void object_forget(const void *pointer)
{
	struct object *object;

	objects_enter();
	object = take_off(object_find(pointer));
	objects_leave();
	object_put(object);
}

void objects_visit(void (*visit)(void *argument, struct object *object), void *argument)
{
	struct object *object, *next;

	objects_enter();
	HASH_ITER (hh, objects.table, object, next) {
		if (object->state == OBJECT_ALIVE)
			visit(argument, object);
	}
	objects_leave();
}

static unsigned int read_count(const unsigned int *count)
{
	unsigned int now;

	objects_enter();
	now = *count;
	objects_leave();
	return now;
}

unsigned int object_users(const struct object *object)
{
	return read_count(&object->users);
}

unsigned int object_cm_events(const struct object *object)
{
	return read_count(&object->events);
}

void objects_inherit(void)
{
	struct object *object, *next;

	HASH_ITER (hh, objects.table, object, next) {
		if (object->state == OBJECT_ALIVE)
			end_life(object, OBJECT_INHERITED);
	}
}
