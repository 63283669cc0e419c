/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/registry.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <utlist.h>

#include "net/cause/cause.h"
#include "net/log.h"
#include "net/observe/observe.h"
#include "verbs/control.h"
#include "verbs/preload/signals.h"

static struct registry {
	pthread_once_t configuration_once;
	struct configuration configuration;
	struct injector injector;

	pthread_mutex_t lock;
	unsigned int users; /* of progress, observe and control */
	struct progress *progress;
	struct capture *capture; /* as long as the process lives, which may open a device again */
	struct observe *observe;
	struct control *control; /* NULL: there is none */

	pthread_once_t process_once;
	pthread_mutex_t hooks_lock;
	struct registry_hooks *hooks; /* by their order */
	int exit_status;	      /* 0: the application's */
	_Atomic pid_t pid;	      /* of the process that has devices open, or had */
} registry = {
	.configuration_once = PTHREAD_ONCE_INIT,
	.injector = INJECTOR_INITIALIZER,
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.process_once = PTHREAD_ONCE_INIT,
	.hooks_lock = PTHREAD_MUTEX_INITIALIZER,
};

/* --- configuration ---------------------------------------------------------- */

static void registry_inject(const char *specification)
{
	if (injector_set(&registry.injector, specification, NULL) == ENOMEM)
		registry.configuration.error = "out of memory";
}

static void registry_read_configuration(void)
{
	int state;

	/* Reading a profile is a cancellation point, and this is done once. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	configuration_read(&registry.configuration);
	log_set_level(registry.configuration.log_level);
	cause_configure(registry.configuration.explain);
	if (registry.configuration.faults && !registry.configuration.error)
		registry_inject(registry.configuration.faults);
	pthread_setcancelstate(state, NULL);
}

const struct configuration *registry_configuration(void)
{
	pthread_once(&registry.configuration_once, registry_read_configuration);
	return &registry.configuration;
}

struct injector *registry_injector(void)
{
	return &registry.injector;
}

/* --- what open devices share ------------------------------------------------ */

static void registry_stop_capture(void)
{
	capture_close(registry.capture);
	registry.capture = NULL;
}

static int registry_start_capture(void)
{
	const char *pcap = registry.configuration.pcap;
	int error;

	if (registry.capture && capture_is_open(registry.capture))
		return 0;
	if (registry.capture)
		registry_stop_capture();
	registry.capture = capture_open(pcap);
	if (!registry.capture) {
		error = errno ? errno : EIO;
		cause_error(CAUSE_CAPTURE_FILE, "URXE_PCAP=%s: %s", pcap, strerror(error));
		return error;
	}
	error = registry.configuration.faults ? capture_open_faults(registry.capture) : 0;
	if (error) {
		cause_error(CAUSE_CAPTURE_FILE, "URXE_PCAP=%s: its file for faults: %s", pcap,
			    strerror(error));
		registry_stop_capture();
	}
	return error;
}

static void registry_stop_observing(void)
{
	if (registry.observe)
		observe_close(registry.observe);
	registry.observe = NULL;
}

static int registry_start_shared(void)
{
	int error = registry.configuration.pcap ? registry_start_capture() : 0;

	if (error)
		return error;
	atomic_store(&registry.pid, getpid());
	signals_install();
	registry.observe = observe_open(OBSERVE_DIRECTORY, registry.configuration.stat);
	error = registry.observe ? progress_create(&registry.progress) : ENOMEM;
	if (error)
		registry_stop_observing();
	else
		registry.control = control_create(registry.progress);
	return error;
}

struct observe *registry_observe(void)
{
	return registry.observe;
}

int registry_acquire(struct progress **progress, struct capture **capture)
{
	int error = 0;

	pthread_mutex_lock(&registry.lock);
	if (registry.users == 0)
		error = registry_start_shared();
	if (!error) {
		registry.users++;
		*progress = registry.progress;
		*capture = registry.capture;
	}
	pthread_mutex_unlock(&registry.lock);
	return error;
}

void registry_release(void)
{
	pthread_mutex_lock(&registry.lock);
	if (--registry.users == 0) {
		control_destroy(registry.control);
		registry.control = NULL;
		progress_destroy(registry.progress);
		registry.progress = NULL;
		registry_stop_observing();
	}
	pthread_mutex_unlock(&registry.lock);
}

int registry_attach(const struct progress_ops *ops, void *context, struct progress_client **client)
{
	struct progress *progress;
	struct capture *capture;
	int error = registry_acquire(&progress, &capture);

	if (error)
		return error;
	error = progress_attach(progress, ops, context, client);
	if (error)
		registry_release();
	return error;
}

/* --- fork and exit ----------------------------------------------------------- */

static void registry_before_fork(void)
{
	struct registry_hooks *hooks;

	pthread_mutex_lock(&registry.hooks_lock);
	DL_FOREACH (registry.hooks, hooks) {
		if (hooks->before_fork)
			hooks->before_fork();
	}
	pthread_mutex_lock(&registry.lock);
	pthread_mutex_lock(&registry.injector.lock);
}

static struct registry_hooks *last_hooks(void)
{
	return registry.hooks ? registry.hooks->prev : NULL;
}

static struct registry_hooks *hooks_before(const struct registry_hooks *hooks)
{
	return hooks == registry.hooks ? NULL : hooks->prev;
}

static void registry_after_fork_in_parent(void)
{
	pthread_mutex_unlock(&registry.injector.lock);
	pthread_mutex_unlock(&registry.lock);
	for (struct registry_hooks *hooks = last_hooks(); hooks; hooks = hooks_before(hooks)) {
		if (hooks->after_fork_in_parent)
			hooks->after_fork_in_parent();
	}
	pthread_mutex_unlock(&registry.hooks_lock);
}

static void registry_after_fork_in_child(void)
{
	signals_after_fork_child();
	pthread_mutex_unlock(&registry.injector.lock);
	if (registry.progress)
		progress_after_fork_child(registry.progress);
	if (registry.control)
		control_after_fork_child(registry.control);
	registry.users = 0;
	registry.progress = NULL;
	registry.control = NULL;
	if (registry.capture)
		capture_after_fork_child(registry.capture);
	registry.capture = NULL;
	if (registry.observe)
		observe_after_fork_child(registry.observe);
	registry.observe = NULL;
	pthread_mutex_unlock(&registry.lock);
	for (struct registry_hooks *hooks = last_hooks(); hooks; hooks = hooks_before(hooks)) {
		if (hooks->after_fork_in_child)
			hooks->after_fork_in_child();
	}
	pthread_mutex_unlock(&registry.hooks_lock);
}

/* What others see of this process goes with it. */
static void forget_shown(void)
{
	if (pthread_mutex_trylock(&registry.lock) != 0)
		return;
	if (registry.observe)
		observe_at_exit(registry.observe);
	pthread_mutex_unlock(&registry.lock);
}

bool registry_is_copied(void)
{
	return atomic_load(&registry.pid) != getpid();
}

/* Not in a copy of the process: that ends alone. */
void registry_exit_immediately(void)
{
	struct registry_hooks *hooks;

	if (registry_is_copied())
		return;
	/* There are cancellation points: the thread would end with locks, and the process not. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &(int){0});
	/* Without the lock: a signal handler may have interrupted the thread that has it. */
	DL_FOREACH (registry.hooks, hooks) {
		if (hooks->at_immediate_exit)
			hooks->at_immediate_exit();
	}
	forget_shown();
}

static void follow_process(void)
{
	pthread_atfork(registry_before_fork, registry_after_fork_in_parent,
		       registry_after_fork_in_child);
	at_quick_exit(registry_exit_immediately);
}

static int compare_order(const struct registry_hooks *a, const struct registry_hooks *b)
{
	return (int)a->order - (int)b->order;
}

void registry_add_hooks(struct registry_hooks *hooks)
{
	const struct registry_hooks *known;

	pthread_once(&registry.process_once, follow_process);
	pthread_mutex_lock(&registry.hooks_lock);
	DL_FOREACH (registry.hooks, known) {
		if (known == hooks)
			break;
	}
	if (!known)
		DL_INSERT_INORDER(registry.hooks, hooks, compare_order);
	pthread_mutex_unlock(&registry.hooks_lock);
}

void registry_exit_with(int status)
{
	registry.exit_status = status;
}

/*
 * Without the lock: no thread is waited for at the end of the process. Nor is there cancelling, as
 * in registry_exit_immediately().
 */
static void run_exit_hooks(void *unused)
{
	struct registry_hooks *hooks;
	int state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	DL_FOREACH (registry.hooks, hooks) {
		if (hooks->at_exit)
			hooks->at_exit();
	}
	injector_report(&registry.injector);
	forget_shown();
	pthread_setcancelstate(state, NULL);
	/* glibc goes on with the handlers that are left, and then with what stdio has buffered. */
	if (registry.exit_status)
		exit(registry.exit_status);
}

/*
 * Destructors of other libraries post and poll, too, and of a preloaded library the destructor
 * runs before theirs. What is registered while exit() runs the destructors it calls after them;
 * for no shared object, or it would be called with the destructors of ours.
 */
extern int __cxa_atexit(void (*function)(void *), void *argument, void *object);

static __attribute__((destructor)) void run_exit_hooks_last(void)
{
	if (__cxa_atexit(run_exit_hooks, NULL, NULL) != 0)
		run_exit_hooks(NULL);
}
