/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/control.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/cause/cause.h"
#include "net/clock.h"
#include "net/control.h"
#include "net/descriptor.h"
#include "net/fault/fault.h"
#include "net/fault/injector.h"
#include "net/log.h"
#include "verbs/devices.h"
#include "verbs/hooks.h"
#include "verbs/registry.h"

#define CLAUSE_TEXT 256

/*
 * A socket that the application closes keeps its name until that thread leaves the kernel, and has
 * lost its number before. Till the next attempt to have the name again, ns.
 */
#define RETRY (10 * NS_PER_MS)

struct control {
	int fd; /* -1: there is none */
	struct descriptor_identity identity;
	uint64_t open_at; /* when to open the socket again; mostly TIME_NEVER */
	struct progress_client *_Atomic client;
	struct control_question question;
	char answer[CONTROL_ANSWER];
};

/* --- commands ------------------------------------------------------------------------ */

/* Each gets what follows its name, or NULL, and an answer of "". Returns whether it was done. */

static bool set_log(struct control *control, const char *argument)
{
	enum log_level level;

	if (!argument || log_parse_level(argument, &level) != 0) {
		snprintf(control->answer, CONTROL_ANSWER,
			 "log needs a level: error, warn, info or debug");
		return false;
	}
	log_set_level(level);
	return true;
}

static bool set_explain(struct control *control, const char *argument)
{
	bool on = argument && strcmp(argument, "on") == 0;

	if (!on && (!argument || strcmp(argument, "off") != 0)) {
		snprintf(control->answer, CONTROL_ANSWER, "explain needs \"on\" or \"off\"");
		return false;
	}
	cause_configure(on);
	return true;
}

/* --- faults -------------------------------------------------------------------------- */

/* A line of the answer; @device NULL: of the whole process. */
static void append_clause(struct control *control, const struct fault_clause *clause,
			  const char *device)
{
	size_t length = strlen(control->answer);
	char text[CLAUSE_TEXT];

	fault_clause_describe(clause, text, sizeof(text));
	snprintf(control->answer + length, CONTROL_ANSWER - length, "%s%s%s\n", text,
		 device ? " of " : "", device ?: "");
}

static void show_clause(void *context, const struct fault_clause *clause)
{
	append_clause(context, clause, NULL);
}

struct device_clauses {
	struct control *control;
	const struct device *device;
};

static void show_packet_clause(void *context, const struct fault_clause *clause)
{
	const struct device_clauses *clauses = context;

	append_clause(clauses->control, clause, clauses->device->ibv.name);
}

/* Packets are counted by device. */
static bool show_faults(struct control *control)
{
	struct device *devices;
	unsigned int count = devices_all(&devices);

	injector_for_each(registry_injector(), show_clause, control);
	for (unsigned int i = 0; i < count; i++) {
		struct device_clauses clauses = {control, &devices[i]};

		if (!device_try_lock(&devices[i]))
			continue;
		fault_link_for_each(devices[i].link, show_packet_clause, &clauses);
		device_unlock(&devices[i]);
	}
	return true;
}

/* What is due at a time has its time now. */
static void wake_devices(void)
{
	struct device *devices;
	unsigned int count = devices_all(&devices);

	for (unsigned int i = 0; i < count; i++) {
		if (!device_try_lock(&devices[i]))
			continue;
		progress_deadline(devices[i].client, 0);
		device_unlock(&devices[i]);
	}
}

static bool set_faults(struct control *control, const char *argument)
{
	struct injector *injector = registry_injector();
	struct fault_error error;
	char *text;
	int status;

	if (!argument)
		return show_faults(control);
	status = injector_set(injector, strcmp(argument, "none") == 0 ? "" : argument, &error);
	if (status) {
		text = status == EINVAL ? fault_error_text(&error, "the specification") : NULL;
		snprintf(control->answer, CONTROL_ANSWER, "%s", text ?: strerror(status));
		free(text);
		return false;
	}
	if (injector_has(injector, ACTION_FAIL))
		hooks_enable();
	wake_devices();
	return true;
}

static const struct {
	const char *name;
	bool (*call)(struct control *control, const char *argument);
} commands[] = {
	{"faults", set_faults},
	{"log", set_log},
	{"explain", set_explain},
};

static bool refuse_command(struct control *control, const char *name)
{
	int length = snprintf(control->answer, CONTROL_ANSWER,
			      "this version of liburxe has no command %s, but", name);

	for (unsigned int i = 0; i < sizeof(commands) / sizeof(*commands); i++)
		length += snprintf(control->answer + length, CONTROL_ANSWER - length, "%s %s",
				   i ? "," : "", commands[i].name);
	return false;
}

static bool obey(struct control *control)
{
	char *name = control->question.text, *argument = strchr(name, ' ');

	*control->answer = '\0';
	if (argument)
		*argument++ = '\0';
	for (unsigned int i = 0; i < sizeof(commands) / sizeof(*commands); i++) {
		if (strcmp(name, commands[i].name) == 0)
			return commands[i].call(control, argument);
	}
	return refuse_command(control, name);
}

/* --- the socket ---------------------------------------------------------------------- */

/* Returns whether it is open, or will be. */
static bool open_socket(struct control *control, uint64_t now)
{
	int fd = control_listen();

	control->open_at = TIME_NEVER;
	if (fd >= 0)
		control->identity = descriptor_identify(fd);
	else if (errno == EADDRINUSE)
		control->open_at = now + RETRY;
	else
		log_info("urxe ctl won't reach this process: %s", strerror(errno));
	__atomic_store_n(&control->fd, fd, __ATOMIC_RELEASE);
	return fd >= 0 || control->open_at != TIME_NEVER;
}

static bool progress(void *context, uint64_t now)
{
	struct control *control = context;
	struct progress_client *client = atomic_load(&control->client);
	bool any = false;

	if (!descriptor_verify(&control->fd, &control->identity))
		control->open_at = now;
	if (control->open_at <= now && client) {
		open_socket(control, now);
		progress_refresh(client);
	}
	while (control->fd >= 0 && control_receive(control->fd, &control->question)) {
		bool done = obey(control);

		control_answer(control->fd, &control->question, done, control->answer);
		any = true;
	}
	return any;
}

static uint64_t deadline(void *context)
{
	return ((const struct control *)context)->open_at;
}

static unsigned int descriptors(void *context, int *fds, unsigned int max)
{
	return progress_one_descriptor(((const struct control *)context)->fd, fds);
}

/* --- its life ------------------------------------------------------------------------ */

struct control *control_create(struct progress *progress_thread)
{
	static const struct progress_ops ops = {
		.progress = progress, .deadline = deadline, .descriptors = descriptors};
	struct control *control = calloc(1, sizeof(*control));
	struct progress_client *client;

	if (!control)
		return NULL;
	if (open_socket(control, clock_now()) &&
	    progress_attach(progress_thread, &ops, control, &client) == 0) {
		atomic_store(&control->client, client);
		return control;
	}
	descriptor_close(control->fd, &control->identity);
	free(control);
	return NULL;
}

void control_destroy(struct control *control)
{
	if (!control)
		return;
	progress_detach(control->client);
	descriptor_close(control->fd, &control->identity);
	free(control);
}

void control_after_fork_child(struct control *control)
{
	descriptor_close(control->fd, &control->identity);
}
