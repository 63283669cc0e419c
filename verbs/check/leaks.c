/* SPDX-License-Identifier: BSD-2-Clause */
/* What is left when the process exits, by the places where it was made. */
#include <stdio.h>
#include <stdlib.h>

#include "verbs/check/check.h"
#include "verbs/check/report.h"

#define GROUP_TEXT (OBJECT_NAME + 64)

/* What is left of an object: the object itself, or its events. */
struct leak {
	enum cause cause;
	struct object *object; /* referenced */
	struct check_place place;
	uintptr_t key;		/* of the place */
	unsigned int count;	/* of events, or 1 */
	char name[OBJECT_NAME]; /* as it is now: keys and sizes change */
};

struct leaks {
	struct leak *array;
	unsigned int count, capacity;
};

static void add_leak(struct leaks *leaks, const struct leak *leak)
{
	struct leak *added;

	if (leaks->count == leaks->capacity) {
		unsigned int capacity = leaks->capacity ? 2 * leaks->capacity : 64;
		struct leak *larger = realloc(leaks->array, capacity * sizeof(*larger));

		if (!larger)
			return;
		leaks->array = larger;
		leaks->capacity = capacity;
	}
	added = &leaks->array[leaks->count++];
	*added = *leak;
	added->key = origin_place(leak->place.origin);
	object_describe(leak->object->kind, leak->object->pointer, added->name);
	object_reference(leak->object);
}

static void add_events(struct leaks *leaks, struct object *object,
		       const struct object_events *events)
{
	const struct leak leak = {
		CAUSE_EVENTS_LEFT, object, {"got", events->got}, 0, events->taken - events->acked};

	if (leak.count)
		add_leak(leaks, &leak);
}

static void add_object(void *argument, struct object *object)
{
	struct leak leak = {CAUSE_OBJECT_LEAKED, object, {"made", object->made}, 0, 1};

	add_events(argument, object, &object->completion_events);
	add_events(argument, object, &object->async_events);
	if (object->implicit || object->told)
		return;
	if (object->kind == OBJECT_CM_EVENT)
		leak = (struct leak){CAUSE_EVENTS_LEFT, object, {"got", object->made}, 0, 1};
	else if (object->refused)
		leak = (struct leak){
			CAUSE_OBJECT_BUSY_IGNORED, object, {"refused", object->refused}, 0, 1};
	add_leak(argument, &leak);
}

static int compare(const void *a, const void *b)
{
	const struct leak *one = a, *other = b;

	if (one->cause != other->cause)
		return one->cause < other->cause ? -1 : 1;
	if (one->object->kind != other->object->kind)
		return one->object->kind < other->object->kind ? -1 : 1;
	return (one->key > other->key) - (one->key < other->key);
}

/* "QP 0x1f01 (RC)", or "12 queue pairs, such as QP 0x1f01 (RC)". */
static void describe_group(const struct leak *leak, unsigned int count, char text[GROUP_TEXT])
{
	if (count == 1)
		snprintf(text, GROUP_TEXT, "%s", leak->name);
	else
		snprintf(text, GROUP_TEXT, "%u %s, such as %s", count,
			 object_kind_text(leak->object->kind, count), leak->name);
}

/* @count: events or objects of the group that begins with @leak. */
static void report_leak(const struct leak *leak, unsigned int count)
{
	const struct object *object = leak->object;
	char text[GROUP_TEXT];

	describe_group(leak, count, text);
	if (leak->cause == CAUSE_OBJECT_BUSY_IGNORED)
		check_report_places(leak->cause, CHECK_PLACES(leak->place, {"made", object->made}),
				    count, "%s: EBUSY for %s", object_destroyer(object->kind),
				    text);
	else if (leak->cause == CAUSE_EVENTS_LEFT && object->kind != OBJECT_CM_EVENT)
		check_report_places(leak->cause, CHECK_PLACES(leak->place), count,
				    "%u event%s of %s", count, count == 1 ? "" : "s", leak->name);
	else
		check_report_places(leak->cause, CHECK_PLACES(leak->place), count, "%s; without %s",
				    text, object_destroyer(object->kind));
}

void check_leaks(void)
{
	struct leaks leaks = {};

	objects_visit(add_object, &leaks);
	if (leaks.count)
		qsort(leaks.array, leaks.count, sizeof(*leaks.array), compare);
	for (unsigned int first = 0, next; first < leaks.count; first = next) {
		unsigned int count = 0;

		for (next = first;
		     next < leaks.count && compare(&leaks.array[first], &leaks.array[next]) == 0;
		     next++)
			count += leaks.array[next].count;
		report_leak(&leaks.array[first], count);
	}
	for (unsigned int i = 0; i < leaks.count; i++)
		object_put(leaks.array[i].object);
	free(leaks.array);
}
