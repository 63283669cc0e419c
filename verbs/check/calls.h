/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tables of checked calls: what is given to a call has to be there. For verbs/check/calls_*.c
 * alone.
 *
 *   CALL(type, name, label, parameters, arguments, failure, uses...)
 *   MAKES(type, name, label, kind, parameters, arguments, uses...)
 *   DESTROYS(name, label, kind, parameters, arguments, pointer)
 *
 * define checked_NAME(); @label names the call in reports, @failure is what a refused one returns,
 * and @uses are the objects that it is given (struct object_use), to which belongs what it makes.
 * Hooks may be on for faults alone: then it is urxe_NAME(). *_COMPARED() are of what isn't portable
 * to all cards (verbs/check/portability.h).
 */
#ifndef URXE_VERBS_CHECK_CALLS_H
#define URXE_VERBS_CHECK_CALLS_H

#include "verbs/check/check.h"
#include "verbs/check/checked.h"
#include "verbs/check/portability.h"
#include "verbs/context.h"

/* What refused calls return. */
#define A_NULL fail(EINVAL)
#define AN_ERRNO EINVAL
#define MINUS_ONE (errno = EINVAL, -1)

#define CALL(type, name, ...) CALLS(urxe_##name, type, name, __VA_ARGS__)
#define CALL_COMPARED(type, name, ...) CALLS(compared_##name, type, name, __VA_ARGS__)
#define CALLS(function, type, name, label, parameters, arguments, failure, ...)                    \
	type checked_##name parameters                                                             \
	{                                                                                          \
		if (check_is_on() && !CHECK_USES(label, __VA_ARGS__))                              \
			return failure;                                                            \
		return function arguments;                                                         \
	}

#define MAKES(type, name, label, kind, ...)                                                        \
	MAKES_OBJECT(urxe_##name, type, name, label, OBJECT_##kind, __VA_ARGS__)
#define MAKES_COMPARED(type, name, label, kind, ...)                                               \
	MAKES_OBJECT(compared_##name, type, name, label, OBJECT_##kind, __VA_ARGS__)
#define MAKES_OBJECT(function, type, name, label, kind, parameters, arguments, ...)                \
	type checked_##name parameters                                                             \
	{                                                                                          \
		const struct object_use uses[] = {__VA_ARGS__, {0}};                               \
                                                                                                   \
		if (!check_is_on())                                                                \
			return function arguments;                                                 \
		if (!check_uses(label, uses))                                                      \
			return fail(EINVAL);                                                       \
		return object_made(kind, function arguments, uses);                                \
	}

#define DESTROYS(name, label, kind, parameters, arguments, pointer)                                \
	int checked_##name parameters                                                              \
	{                                                                                          \
		int error;                                                                         \
                                                                                                   \
		if (!check_is_on())                                                                \
			return urxe_##name arguments;                                              \
		if (!check_destroy(label, OBJECT_##kind, pointer))                                 \
			return EINVAL;                                                             \
		error = urxe_##name arguments;                                                     \
		check_destroy_done(OBJECT_##kind, pointer, error);                                 \
		return error;                                                                      \
	}

/* The same of what can't fail. */
#define ENDS(name, label, kind, parameters, arguments, pointer)                                    \
	void checked_##name parameters                                                             \
	{                                                                                          \
		if (check_is_on() && !check_destroy(label, OBJECT_##kind, pointer))                \
			return;                                                                    \
		urxe_##name arguments;                                                             \
		if (check_is_on())                                                                 \
			check_destroy_done(OBJECT_##kind, pointer, 0);                             \
	}

#endif
