/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/configuration.h"

#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "net/capture.h"
#include "net/fault/fault_clause.h"
#include "verbs/profile.h"

/*
 * What they name is read or written. A program that has privileges which its user hasn't (setuid,
 * linked with the library) would do that with them.
 */
static const char *const unprivileged[] = {"URXE_PCAP",	 "URXE_PROFILE", "URXE_CHECK",
					   "URXE_CALLS", "URXE_STAT",	 "XDG_RUNTIME_DIR",
					   "TMPDIR"};

static bool is_withheld(const char *name)
{
	if (!getauxval(AT_SECURE))
		return false;
	for (unsigned int i = 0; i < sizeof(unprivileged) / sizeof(*unprivileged); i++) {
		if (strcmp(name, unprivileged[i]) == 0)
			return true;
	}
	return false;
}

static const char *variable(const char *name)
{
	const char *value = is_withheld(name) ? NULL : getenv(name);

	return value && *value ? value : NULL;
}

static const char out_of_memory[] = "out of memory";

/* The application may change its environment later. Sets *@error without memory for a copy. */
static char *copy(const char *name, const char **error)
{
	const char *value = variable(name);
	char *copied = value ? strdup(value) : NULL;

	if (value && !copied)
		*error = out_of_memory;
	return copied;
}

static const char *copy_path(const char *name, const char **error)
{
	char *path = copy(name, error);

	for (size_t end = path ? strlen(path) : 0; end && path[end - 1] == '/'; end--)
		path[end - 1] = '\0';
	return path;
}

/* --- values ---------------------------------------------------------------- */

/* Each returns whether @value, which may be NULL, can be read. */

static bool read_mode(const char *value, struct configuration *configuration)
{
	static const char *const names[] = {
		[MODE_EMU] = "emu", [MODE_HW] = "hw", [MODE_BOTH] = "both"};

	if (!value)
		return true;
	for (unsigned int i = 0; i < sizeof(names) / sizeof(*names); i++) {
		if (strcmp(value, names[i]) == 0) {
			configuration->mode = i;
			return true;
		}
	}
	return false;
}

static bool read_log_level(const char *value, struct configuration *configuration)
{
	return !value || log_parse_level(value, &configuration->log_level) == 0;
}

static bool read_receive_buffer(const char *value, struct configuration *configuration)
{
	char *end;
	unsigned long long number, unit;

	if (!value)
		return true;
	errno = 0;
	number = strtoull(value, &end, 10);
	unit = *end == 'K' || *end == 'k' ? 1 << 10 : *end == 'M' || *end == 'm' ? 1 << 20 : 1;
	end += unit > 1;
	if (!isdigit((unsigned char)*value) || errno || *end || number == 0 ||
	    number > INT32_MAX / unit)
		return false;
	configuration->receive_buffer = number * unit;
	return true;
}

static bool read_switch(const char *value, bool *on)
{
	*on = value && strcmp(value, "1") == 0;
	return !value || *on || strcmp(value, "0") == 0;
}

static bool read_segmentation(const char *value, struct configuration *configuration)
{
	bool off;
	bool readable = read_switch(value, &off);

	configuration->segmentation = !off;
	return readable;
}

static bool read_link(const char *value, struct configuration *configuration)
{
	configuration->shared_memory = value && strcmp(value, "shm") == 0;
	return !value || configuration->shared_memory || strcmp(value, "udp") == 0;
}

static bool read_icrc(const char *value, struct configuration *configuration)
{
	configuration->icrc = value;
	return !value || strcmp(value, "always") == 0;
}

static bool read_explain(const char *value, struct configuration *configuration)
{
	return read_switch(value, &configuration->explain);
}

/* Copied as it is; what is wrong with it is found when it is used. */
static bool read_text(const char *value, struct configuration *configuration)
{
	return true;
}

/* Without node only, which is read before. */
static bool read_devices(const char *value, struct configuration *configuration)
{
	return !value || !configuration->node;
}

static const struct {
	const char *name;
	bool (*read)(const char *value, struct configuration *configuration);
	const char *expected;
} values[] = {
	{"URXE_LOG", read_log_level, "error, warn, info or debug"},
	{"URXE_EXPLAIN", read_explain, "0 or 1"},
	{"URXE_MODE", read_mode, "emu, hw or both"},
	{"URXE_LINK", read_link, "udp or shm"},
	{"URXE_ICRC", read_icrc, "always"},
	{"URXE_RCVBUF", read_receive_buffer, "a number of bytes, such as 4M"},
	{"URXE_NO_GSO", read_segmentation, "0 or 1"},
	{"URXE_DEVICES", read_devices, "possible together with URXE_NODE"},
	{"URXE_NODE", read_text, NULL},
	{"URXE_PCAP", read_text, NULL},
	{"URXE_FAULTS", read_text, NULL},
	{"URXE_STAT", read_text, NULL},
	{"URXE_PROFILE", read_text, NULL},
	{"URXE_CHECK", read_text, NULL},
	{"URXE_CALLS", read_text, NULL},
};

/* --- unknown variables ------------------------------------------------------ */

#define PREFIX "URXE_"

static bool is_known(const char *name, size_t length)
{
	for (unsigned int i = 0; i < sizeof(values) / sizeof(*values); i++) {
		if (strlen(values[i].name) == length && memcmp(values[i].name, name, length) == 0)
			return true;
	}
	return false;
}

/* "URXE_NOED, URXE_X", or NULL. Without memory they aren't named. */
static const char *list_unknown(void)
{
	char *list = NULL;

	for (char **variable = environ; variable && *variable; variable++) {
		size_t length = strcspn(*variable, "=");
		char *longer;

		if (strncmp(*variable, PREFIX, strlen(PREFIX)) != 0 || is_known(*variable, length))
			continue;
		if (asprintf(&longer, "%s%s%.*s", list ? list : "", list ? ", " : "", (int)length,
			     *variable) < 0)
			break;
		free(list);
		list = longer;
	}
	return list;
}

/* --- errors ---------------------------------------------------------------- */

static const char *describe_error(const char *name, const char *value, const char *expected)
{
	char *error;

	if (asprintf(&error, "%s=%s is not %s", name, value, expected) < 0)
		return out_of_memory;
	return error;
}

static const char *check_privileges(void)
{
	const char *value;
	char *error;

	if (!getauxval(AT_SECURE))
		return NULL;
	for (unsigned int i = 0; i < sizeof(unprivileged) / sizeof(*unprivileged); i++) {
		value = getenv(unprivileged[i]);
		if (!value || !*value || strncmp(unprivileged[i], PREFIX, strlen(PREFIX)) != 0)
			continue;
		if (asprintf(&error,
			     "%s isn't obeyed in a program with privileges that its user hasn't",
			     unprivileged[i]) < 0)
			return out_of_memory;
		return error;
	}
	return NULL;
}

/* No device is open yet, but a specification that can't be read is found now. */
static const char *check_faults(const char *specification)
{
	struct fault_clauses clauses;
	struct fault_error error;
	int status = fault_clauses_read(&clauses, specification, &error);

	if (status == 0) {
		fault_clauses_destroy(&clauses);
		return NULL;
	}
	return (status == EINVAL ? fault_error_text(&error, "URXE_FAULTS") : NULL) ?: out_of_memory;
}

/* Nor is a capture begun, but what it needs is looked for. */
static const char *check_capture(void)
{
	char *error;

	if (capture_is_possible())
		return NULL;
	if (asprintf(&error, "URXE_PCAP needs libpcap (Debian's package libpcap0.8): %s",
		     dlerror()) < 0)
		return out_of_memory;
	return error;
}

/* Sets *@profile; returns what is wrong with the one that is named, or NULL. */
static const char *read_profile(const struct profile **result)
{
	struct profile *profile = malloc(sizeof(*profile));
	const char *name = variable("URXE_PROFILE");
	char *error = NULL, *text;

	*result = profile;
	if (!profile)
		return out_of_memory;
	profile_default(profile);
	if (!name || profile_read(profile, name, &error))
		return NULL;
	if (!error || asprintf(&text, "URXE_PROFILE=%s: %s", name, error) < 0)
		return out_of_memory;
	free(error);
	return text;
}

void configuration_read(struct configuration *configuration)
{
	const char *error = NULL;

	*configuration = (struct configuration){
		.mode = MODE_EMU,
		.log_level = LOG_WARN,
		.node = copy("URXE_NODE", &error),
		.devices = copy("URXE_DEVICES", &error),
		.pcap = copy("URXE_PCAP", &error),
		.faults = copy("URXE_FAULTS", &error),
		.stat = copy("URXE_STAT", &error),
		.fork_safe = variable("RDMAV_FORK_SAFE") || variable("IBV_FORK_SAFE"),
		.forks_rsockets = atoi(variable("RDMAV_FORK_SAFE") ?: "0"),
		.calls = copy("URXE_CALLS", &error),
		.sysfs_path = copy_path("SYSFS_PATH", &error),
		.runtime_directory = copy("XDG_RUNTIME_DIR", &error),
		.temporary_directory = copy("TMPDIR", &error),
		.unknown = list_unknown(),
	};
	configuration->error = error;
	if (!configuration->error)
		configuration->error = check_privileges();
	if (!configuration->error)
		configuration->error =
			check_options_read(variable("URXE_CHECK"), &configuration->check);
	for (unsigned int i = 0; i < sizeof(values) / sizeof(*values); i++) {
		const char *value = variable(values[i].name);

		if (!values[i].read(value, configuration) && !configuration->error)
			configuration->error =
				describe_error(values[i].name, value, values[i].expected);
	}
	error = read_profile(&configuration->profile);
	if (error && !configuration->error)
		configuration->error = error;
	if (configuration->faults && !configuration->error)
		configuration->error = check_faults(configuration->faults);
	if (configuration->pcap && !configuration->error)
		configuration->error = check_capture();
}
