/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * libev, loaded privately. Beside its own functions it defines some of libevent's
 * (event_add() and others), to be used in its place. A library that is preloaded and
 * depends on it would put those before libevent's own in every program, and crash
 * the ones that use libevent, as Open MPI does. So only liburxe gets to see it.
 *
 * Called by verbs/progress.c. The table is filled once and never changes.
 */
#ifndef URXE_VERBS_LIBEV_H
#define URXE_VERBS_LIBEV_H

#include <ev.h>

#define LIBEV_FUNCTIONS(X)                                                                         \
	X(ev_async_send)                                                                           \
	X(ev_async_start)                                                                          \
	X(ev_break)                                                                                \
	X(ev_io_start)                                                                             \
	X(ev_io_stop)                                                                              \
	X(ev_loop_destroy)                                                                         \
	X(ev_loop_new)                                                                             \
	X(ev_prepare_start)                                                                        \
	X(ev_run)                                                                                  \
	X(ev_set_loop_release_cb)                                                                  \
	X(ev_set_userdata)                                                                         \
	X(ev_userdata)

struct libev {
#define X(name) __typeof__(name) *name;
	LIBEV_FUNCTIONS(X)
#undef X
};

/* NULL, and a line in the log, when there is no libev. */
const struct libev *libev(void);

#endif
