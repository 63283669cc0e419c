/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the process has one of, whatever its devices are: the configuration, the
 * progress thread, the capture file, what it shows to other processes and hears from `urxe ctl`,
 * the faults that are injected into it, and what the modules of the verbs layer do when the process
 * forks or exits. It knows none of these modules; they call it.
 *
 * The configuration is immutable once read. registry.lock protects the shared
 * things, registry.hooks_lock the list of hooks.
 */
#ifndef URXE_VERBS_REGISTRY_H
#define URXE_VERBS_REGISTRY_H

#include <stdbool.h>

#include "net/capture.h"
#include "net/fault/injector.h"
#include "verbs/configuration.h"
#include "verbs/progress.h"

/* Reads the environment when first called. */
const struct configuration *registry_configuration(void);

static inline enum mode registry_mode(void)
{
	return registry_configuration()->mode;
}

/*
 * What injects faults. It has the specification of the configuration once that is read, and none
 * if it is in error.
 */
struct injector *registry_injector(void);

/* The progress thread and the capture file, shared by the open devices. 0 or an errno. */
int registry_acquire(struct progress **progress, struct capture **capture);
void registry_release(void);
/* Have the progress thread serve @context by @ops while the process lives. 0 or an errno. */
int registry_attach(const struct progress_ops *ops, void *context, struct progress_client **client);
/* While it is acquired: where the process shows what it has. */
struct observe *registry_observe(void);

/* The order in which a fork takes locks: a module that calls another comes before it. */
enum fork_order { FORK_OUTERMOST, FORK_DEVICES, FORK_LEAF };

/*
 * What a module does when the process forks or exits; NULL: nothing. Before a fork all
 * modules take their locks, so that the child finds nothing half done; in parent and
 * child they give them back, in the reverse order. The sockets, the QPs and the progress
 * thread are the parent's: the child's part forgets them.
 */
struct registry_hooks {
	enum fork_order order;
	void (*before_fork)(void);
	void (*after_fork_in_parent)(void);
	void (*after_fork_in_child)(void);
	void (*at_exit)(void);
	void (*at_immediate_exit)(void); /* _exit(2), quick_exit(3); in a signal handler, perhaps */
	struct registry_hooks *prev, *next; /* utlist, the registry's */
};

/* In at_exit: the status of the process becomes @status. */
void registry_exit_with(int status);

/*
 * Whether another process has opened the devices: this one is its child, or a copy of it that no
 * handler of pthread_atfork() has seen, by vfork(2) or clone(2).
 */
bool registry_is_copied(void);

/* The process ends at once, without exit(). */
void registry_exit_immediately(void);

/*
 * Called by a module before it first takes a lock that its hooks take; @hooks is the
 * module's, and static. Called again it does nothing.
 */
void registry_add_hooks(struct registry_hooks *hooks);

#endif
