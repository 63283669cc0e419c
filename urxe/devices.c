/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * urxe devices: what a program would find. The list is read from the files in sysfs that programs
 * see, by a process that has the devices: command_devices() becomes command_list_devices().
 */
#include <argp.h>
#include <dirent.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/wire/gid.h"
#include "urxe/command.h"
#include "urxe/launch.h"
#include "urxe/options.h"

#define DEVICES "/sys/class/infiniband"

static error_t parse(int key, char *argument, struct argp_state *state)
{
	if (key != ARGP_KEY_ARG)
		return ARGP_ERR_UNKNOWN;
	die("devices takes no argument: %s", given(argument));
}

int command_devices(int argc, char **argv)
{
	static const struct argp argp = {
		.parser = parse,
		.doc = "List the devices that a program would find, with their addresses.",
		.children = device_options,
	};

	if (argp_parse(&argp, argc, argv, 0, NULL, NULL))
		return EXIT_REFUSED;
	launch_command("list-devices");
}

#define TEXT 128 /* bytes of a file's line */

/* The line of a file named by @format; false: it isn't there. An entry without a value is empty. */
__attribute__((format(printf, 2, 3))) static bool read_line(char text[TEXT], const char *format,
							    ...)
{
	va_list arguments;
	char *path;
	FILE *file;
	int length;

	va_start(arguments, format);
	length = vasprintf(&path, format, arguments);
	va_end(arguments);
	if (length < 0)
		die("out of memory");
	file = fopen(path, "re");
	free(path);
	if (!file)
		return false;
	if (!fgets(text, TEXT, file))
		*text = '\0';
	text[strcspn(text, "\n")] = '\0';
	fclose(file);
	return true;
}

/* The entries of a real device's table that have no GID are all zeros, and of no type. */
static bool is_entry(const char *gid)
{
	return gid[strspn(gid, "0:")] != '\0';
}

/* The address as --node and ip(8) have it, not as the kernel writes a GID. */
static void make_readable(char gid[TEXT])
{
	union ibv_gid address;

	if (gid_from_text(&address, gid) == 0)
		gid_to_text(&address, gid);
}

/* Of ours the type is the name of the profile, if there is one. */
static bool has_profile(const char *device, char type[TEXT])
{
	char description[TEXT];

	return read_line(description, DEVICES "/%s/node_desc", device) &&
	       strcmp(description, "urxe") == 0 &&
	       read_line(type, DEVICES "/%s/hca_type", device) && strcmp(type, "urxe") != 0;
}

static void list_port(const char *device, const char *port)
{
	char folder[2 * NAME_MAX], state[TEXT] = "", rate[TEXT] = "", card[TEXT];
	char gid[TEXT], type[TEXT], interface[TEXT];
	const char *name;

	snprintf(folder, sizeof(folder), DEVICES "/%s/ports/%s", device, port);
	read_line(state, "%s/state", folder);
	read_line(rate, "%s/rate", folder);
	name = strstr(state, ": "); /* behind its number */
	printf("%s  port %s %s, %s", device, port, name ? name + 2 : state, rate);
	if (has_profile(device, card))
		printf(", profile %s", card);
	putchar('\n');
	for (int i = 0; read_line(gid, "%s/gids/%d", folder, i); i++) {
		if (!is_entry(gid))
			continue;
		make_readable(gid);
		*type = *interface = '\0';
		read_line(type, "%s/gid_attrs/types/%d", folder, i);
		read_line(interface, "%s/gid_attrs/ndevs/%d", folder, i);
		printf("    GID %-3d %s  %s  %s\n", i, gid, type, interface);
	}
}

static int is_visible(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

/* Call @each with the names in a folder; returns how many there are. */
static int for_each_entry(const char *folder, void (*each)(const char *parent, const char *name),
			  const char *parent)
{
	struct dirent **entries;
	int count = scandir(folder, &entries, is_visible, alphasort);

	for (int i = 0; i < count; i++) {
		each(parent, entries[i]->d_name);
		free(entries[i]);
	}
	if (count > 0)
		free(entries);
	return count;
}

static void list_device(const char *parent, const char *name)
{
	char folder[2 * NAME_MAX];

	snprintf(folder, sizeof(folder), "%s/%s/ports", parent, name);
	for_each_entry(folder, list_port, name);
}

int command_list_devices(int argc, char **argv)
{
	if (for_each_entry(DEVICES, list_device, DEVICES) > 0)
		return EXIT_SUCCESS;
	fprintf(stderr, "urxe: no devices%s\n",
		strcmp(getenv("URXE_MODE") ?: "", "hw") == 0
			? ": URXE_MODE=hw, and there is no RDMA hardware"
			: "");
	return EXIT_FAILURE;
}
