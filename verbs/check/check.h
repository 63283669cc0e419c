/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The checker (URXE_CHECK): a sanitizer for verbs. It looks at the application's calls
 * (verbs/check/checked.h), keeps what it has to know of objects (verbs/check/objects.h), and
 * reports misuse (verbs/check/report.h). This is what its checks share, and its beginning and end.
 *
 * A call is refused only where making it would touch what isn't there any more; otherwise it is
 * made, and fails or not as without the checker.
 */
#ifndef URXE_VERBS_CHECK_H
#define URXE_VERBS_CHECK_H

#include <pthread.h>
#include <stdbool.h>

#include "net/cause/cause.h"
#include "verbs/check/objects.h"
#include "verbs/check/options.h"

/*
 * Start the checker, if URXE_CHECK asks for it. Called before anything that it has to see; after
 * the first time it does nothing.
 */
void check_start(void);

/* Decided by check_start(), before there is any object, and never changed. */
bool check_is_on(void);

/* --- objects that a call is given ---------------------------------------------------- */

/*
 * Whether @call can be made with the objects of @uses, a list; else it is refused, and reported.
 * They should be of one context.
 */
bool check_uses(const char *call, const struct object_use *uses);
#define CHECK_USES(call, ...) check_uses(call, (const struct object_use[]){__VA_ARGS__, {0}})

/*
 * Whether @call, which destroys @pointer, can be made. If so, no event of @pointer is left that the
 * call would wait for (check_events_acknowledged()). @twice: the cause that is reported where
 * @pointer is destroyed already.
 */
bool check_destroy_as(const char *call, enum object_kind kind, const void *pointer,
		      enum cause twice);
bool check_destroy(const char *call, enum object_kind kind, const void *pointer);
/* What came of it: 0 or an errno. */
void check_destroy_done(enum object_kind kind, void *pointer, int error);
/* Of a destroyed object, which is in quarantine. */
void check_exchange_functions(enum object_kind kind, void *pointer);
/* Before a call that destroys @pointer though it may be in use: its users are reported. */
void check_unused(const char *call, const void *pointer);
/* Whether any object belongs to it, but events. */
bool check_has_users(const struct object *object);
/* Whether @object belongs to @owner. objects.lock is held, or @object kept. */
bool check_belongs(const struct object *object, const struct object *owner);

/* --- events -------------------------------------------------------------------------- */

/* The application got one of @pointer's; NULL: of none's that counts. */
void check_event_taken(const void *pointer, bool is_completion);
/* It acknowledges @count: returns how many of them it may. */
unsigned int check_event_acked(const char *call, const void *pointer, bool is_completion,
			       unsigned int count);
/*
 * Before @call destroys @object, which waits until all that were taken are acknowledged. If they
 * aren't for a second, that is reported, and the checker does it, so that the process goes on.
 */
void check_events_acknowledged(const char *call, const struct object *object);

/* --- forks and the end ---------------------------------------------------------------- */

/* In a forked child: @call is about an object of the parent's. */
void check_inherited(const char *call);
/* ibv_fork_init() and ibv_is_fork_initialized(). */
void check_fork_init(void);
void check_fork_asked(void);
/* This process forks. */
void check_forks(void);

/* Report what is left. */
void check_leaks(void);
/*
 * Whether this thread can take @lock, at exit: not if it holds it, for the handler of a signal that
 * came in the middle of a call may exit the process. Another thread gives it back in time.
 */
bool check_can_take(pthread_mutex_t *lock);

#endif
