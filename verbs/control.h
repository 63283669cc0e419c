/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What `urxe ctl` tells this process while it has devices open (net/control.h): log lines,
 * explanations and faults as the environment sets them at the start.
 *
 * Made by the registry with the progress thread, which alone reads and answers. Commands take no
 * lock of the registry's, which registry_release() holds while it waits for that thread to end.
 * Where there is no socket the process goes on without.
 */
#ifndef URXE_VERBS_CONTROL_H
#define URXE_VERBS_CONTROL_H

#include "verbs/progress.h"

struct control;

/* NULL: there is none. */
struct control *control_create(struct progress *progress);
/* NULL is ignored. */
void control_destroy(struct control *control);
/* In a forked child: the socket is the parent's. */
void control_after_fork_child(struct control *control);

#endif
