/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/cause/origin.h"

#include <errno.h>
#include <execinfo.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/cause/place.h"

/* From the call of a library of an MPI's up to the application's function it may be far. */
#define FRAMES_MAX 32

struct origin {
	unsigned int count;
	uintptr_t frames[]; /* return addresses, the innermost first */
};

static _Atomic bool capturing; /* once on, it stays so */

void origin_prepare(void)
{
	void *frame;

	capturing = true;
	places_prepare();
	/* The first call loads the compiler's library. */
	backtrace(&frame, 1);
}

__attribute__((noinline)) struct origin *origin_capture(void)
{
	const void *caller = __builtin_return_address(0);
	void *frames[FRAMES_MAX];
	struct origin *origin = NULL;
	int error = errno, count, first = 0;

	if (!capturing)
		return NULL;
	count = backtrace(frames, FRAMES_MAX);
	/* Without this function, and a sanitizer's backtrace() above it. */
	while (first < count && frames[first] != caller)
		first++;
	if (first < count)
		origin = malloc(sizeof(*origin) + (count - first) * sizeof(origin->frames[0]));
	if (origin) {
		origin->count = count - first;
		for (unsigned int i = 0; i < origin->count; i++)
			origin->frames[i] = (uintptr_t)frames[first + i];
	}
	errno = error;
	return origin;
}

void origin_free(struct origin *origin)
{
	free(origin);
}

struct origin *origin_copy(const struct origin *origin)
{
	size_t size = origin ? sizeof(*origin) + origin->count * sizeof(origin->frames[0]) : 0;
	struct origin *copy = size ? malloc(size) : NULL;

	if (copy)
		memcpy(copy, origin, size);
	return copy;
}

/* --- descriptions ------------------------------------------------------------------- */

/* What passes calls on to us, and what begins threads and programs. */
static bool is_the_applications(const struct place *place)
{
	static const char *const others[] = {"libibverbs.so", "librdmacm.so", "libc.so",
					     "libasan.so",    "libtsan.so",   "ld-linux"};

	if (place->is_ours || (place->function && strcmp(place->function, "_start") == 0))
		return false;
	for (unsigned int i = 0; i < sizeof(others) / sizeof(*others); i++) {
		if (strncmp(place->object, others[i], strlen(others[i])) == 0)
			return false;
	}
	return true;
}

/*
 * Call @visit for the frames that may be the application's. The others are left out before: libc's
 * debug information, where it is installed, takes long to read.
 */
static void visit_frames(const struct origin *origin, place_visit visit, void *argument)
{
	uintptr_t frames[FRAMES_MAX];
	unsigned int count = 0;

	for (unsigned int i = 0; origin && i < origin->count; i++) {
		struct place place = place_find(origin->frames[i]);

		if (is_the_applications(&place))
			frames[count++] = origin->frames[i];
	}
	if (count)
		places_visit(frames, count, visit, argument);
}

static void write_place(const struct place *place, char *buffer, size_t size)
{
	if (place->file && place->function)
		snprintf(buffer, size, "%s:%d (%s)", place->file, place->line, place->function);
	else if (place->file)
		snprintf(buffer, size, "%s:%d", place->file, place->line);
	else if (place->function)
		snprintf(buffer, size, "%s (%s)", place->function, place->object);
	else
		snprintf(buffer, size, "%s+0x%zx", place->object, (size_t)place->offset);
}

struct description {
	char *buffer;
	size_t size;
};

/* Goes on until there is a line of the source. */
static bool describe_place(void *argument, const struct place *place)
{
	struct description *description = argument;
	size_t length = strlen(description->buffer);

	if (!is_the_applications(place) || (length && !place->file))
		return true;
	if (length) {
		snprintf(description->buffer + length, description->size - length, ", from ");
		length += strlen(description->buffer + length);
	}
	write_place(place, description->buffer + length, description->size - length);
	return !place->file;
}

bool origin_describe(const struct origin *origin, char *buffer, size_t size)
{
	struct description description = {buffer, size};

	buffer[0] = '\0';
	visit_frames(origin, describe_place, &description);
	return buffer[0];
}

const char *origin_phrase(const struct origin *origin, const char *before, char buffer[ORIGIN_TEXT])
{
	size_t length = strlen(before);

	if (!origin_describe(origin, buffer + length, ORIGIN_TEXT - length))
		buffer[0] = '\0';
	else
		memcpy(buffer, before, length);
	return buffer;
}

uintptr_t origin_place(const struct origin *origin)
{
	for (unsigned int i = 0; origin && i < origin->count; i++) {
		struct place place = place_find(origin->frames[i]);

		if (is_the_applications(&place) && !place_is_inline(origin->frames[i]))
			return origin->frames[i];
	}
	return 0;
}

struct visiting {
	place_visit visit;
	void *argument;
};

static bool visit_place(void *argument, const struct place *place)
{
	const struct visiting *visiting = argument;

	return !is_the_applications(place) || visiting->visit(visiting->argument, place);
}

void origin_visit(const struct origin *origin, place_visit visit, void *argument)
{
	struct visiting visiting = {visit, argument};

	visit_frames(origin, visit_place, &visiting);
}

struct showing {
	bool (*show)(void *argument, const char *text);
	void *argument;
};

static bool show_place(void *argument, const struct place *place)
{
	const struct showing *showing = argument;
	char text[ORIGIN_TEXT];

	write_place(place, text, sizeof(text));
	return showing->show(showing->argument, text);
}

void origin_describe_all(const struct origin *origin,
			 bool (*show)(void *argument, const char *text), void *argument)
{
	struct showing showing = {show, argument};

	origin_visit(origin, show_place, &showing);
}
