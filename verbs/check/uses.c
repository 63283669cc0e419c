/* SPDX-License-Identifier: BSD-2-Clause */
/* The objects that calls are given: destroyed ones, of another context, still in use. */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "verbs/check/check.h"
#include "verbs/check/report.h"
#include "verbs/context.h"

/* --- uses -------------------------------------------------------------------------- */

/* What a call is given, as it is known: references. */
struct given {
	struct object *object; /* NULL: unknown */
	struct object *closed; /* its context, if that is closed */
	enum object_state state;
	bool told;
};

/* With objects.lock. */
static struct object *closed_context(const struct object *object)
{
	struct object *context = object->owners[0];

	return context && context->kind == OBJECT_CONTEXT && context->state == OBJECT_DESTROYED
		       ? context
		       : NULL;
}

static struct given look_up(const void *pointer)
{
	struct given given = {};

	objects_enter();
	given.object = object_find(pointer);
	if (given.object) {
		given.state = object_reference(given.object)->state;
		given.told = given.object->told;
		given.closed = closed_context(given.object);
	}
	if (given.closed)
		object_reference(given.closed);
	objects_leave();
	return given;
}

static void put(const struct given *given)
{
	object_put(given->closed);
	object_put(given->object);
}

static bool check_state(const char *call, const struct given *given, enum cause destroyed)
{
	const struct object *object = given->object;

	switch (given->state) {
	case OBJECT_DESTROYED:
		/* The checker has acknowledged it before. */
		if (object->kind == OBJECT_CM_EVENT && given->told)
			return false;
		check_report(destroyed,
			     CHECK_PLACES({"destroyed", object->destroyed}, {"made", object->made}),
			     "%s: %s", call, object->name);
		return false;
	case OBJECT_INHERITED:
		check_report(CAUSE_OBJECT_OF_PARENT, CHECK_PLACES({"made", object->made}),
			     "%s: %s, in process %d", call, object->name, (int)getpid());
		return true;
	default:
		return true;
	}
}

static bool check_kind(const char *call, const struct object *object, enum object_kind kind)
{
	if (object->kind == kind)
		return true;
	check_report(CAUSE_OBJECT_OF_OTHER_KIND, CHECK_PLACES({"made", object->made}),
		     "%s: %s, where a %s should be", call, object->name, object_kind_text(kind, 1));
	return false;
}

/* It works here: the memory of the context stays for its objects. */
static void check_closed(const char *call, const struct given *given)
{
	const struct object *context = given->closed;

	if (context)
		check_report(
			CAUSE_OBJECT_OF_CLOSED_DEVICE,
			CHECK_PLACES({"closed", context->destroyed}, {"made", given->object->made}),
			"%s: %s, of %s", call, given->object->name, context->name);
}

/* @destroyed: what it is if it is destroyed. */
static bool check_given(const char *call, const struct given *given, enum object_kind kind,
			enum cause destroyed)
{
	if (!check_state(call, given, destroyed) || !check_kind(call, given->object, kind))
		return false;
	check_closed(call, given);
	return true;
}

static bool check_use(const char *call, const struct object_use *use)
{
	struct given given = look_up(use->pointer);
	bool good =
		!given.object || check_given(call, &given, use->kind, CAUSE_OBJECT_USED_DESTROYED);

	put(&given);
	return good;
}

/* The first that has one says which context it is. */
static void check_contexts(const char *call, const struct object_use *uses)
{
	const struct object_use *first = NULL;
	const struct ibv_context *context = NULL;

	for (const struct object_use *use = uses; use->kind; use++) {
		const struct ibv_context *other = NULL;
		char one[OBJECT_NAME], another[OBJECT_NAME];

		if (use->pointer)
			other = use->kind == OBJECT_CONTEXT
					? use->pointer
					: object_context(use->kind, use->pointer);
		if (!other || other == context)
			continue;
		if (!context) {
			context = other;
			first = use;
			continue;
		}
		if (!context_is_ours(context) || !context_is_ours(other) ||
		    context_shares_file(context, other))
			continue;
		object_describe(first->kind, first->pointer, one);
		object_describe(use->kind, use->pointer, another);
		check_report(CAUSE_OBJECT_OF_OTHER_CONTEXT, CHECK_NO_PLACES,
			     "%s: %s is of another context than %s", call, another, one);
	}
}

bool check_uses(const char *call, const struct object_use *uses)
{
	for (const struct object_use *use = uses; use->kind; use++) {
		if (use->pointer && !check_use(call, use))
			return false;
	}
	check_contexts(call, uses);
	return true;
}

/* --- destruction ------------------------------------------------------------------- */

bool check_destroy_as(const char *call, enum object_kind kind, const void *pointer,
		      enum cause twice)
{
	struct given given = look_up(pointer);
	bool good = !given.object || check_given(call, &given, kind, twice);

	if (given.object && good)
		check_events_acknowledged(call, given.object);
	put(&given);
	return good;
}

bool check_destroy(const char *call, enum object_kind kind, const void *pointer)
{
	return check_destroy_as(call, kind, pointer, CAUSE_OBJECT_DESTROYED_TWICE);
}

void check_destroy_done(enum object_kind kind, void *pointer, int error)
{
	if (error == 0) {
		check_exchange_functions(kind, pointer);
		object_destroyed(pointer);
	} else if (error == EBUSY) {
		object_refused(pointer);
	}
}

/* --- what is still in use ------------------------------------------------------------ */

struct belongings {
	const struct object *owner;
	unsigned int count;
	struct object *first;
};

bool check_belongs(const struct object *object, const struct object *owner)
{
	for (unsigned int i = 0; i < OBJECT_OWNERS && object->owners[i]; i++) {
		if (object->owners[i] == owner)
			return true;
	}
	return false;
}

static void count_user(void *argument, struct object *object)
{
	struct belongings *found = argument;

	if (object->kind == OBJECT_CM_EVENT || !check_belongs(object, found->owner))
		return;
	found->count++;
	if (!found->first)
		found->first = object_reference(object);
}

static struct belongings find_users(const struct object *object)
{
	struct belongings found = {.owner = object};

	/* Mostly there is none, and very many objects are known. */
	if (object_users(object))
		objects_visit(count_user, &found);
	return found;
}

bool check_has_users(const struct object *object)
{
	struct belongings found = find_users(object);

	object_put(found.first);
	return found.count;
}

static void tell_user(void *owner, struct object *object)
{
	object->told = object->told || check_belongs(object, owner);
}

void check_unused(const char *call, const void *pointer)
{
	struct object *object = object_get(pointer);
	struct belongings found;
	char others[32] = "";

	if (!object)
		return;
	found = find_users(object);
	if (found.count > 1)
		snprintf(others, sizeof(others), " and %u more", found.count - 1);
	if (found.count) {
		check_report(
			CAUSE_OBJECT_DESTROYED_IN_USE,
			CHECK_PLACES({"made", object->made}, {"its user made", found.first->made}),
			"%s: %s is in use by %s%s", call, object->name, found.first->name, others);
		objects_visit(tell_user, object);
	}
	object_put(found.first);
	object_put(object);
}
