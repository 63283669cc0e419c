/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Files of device profiles, as text: their names, and lines "key = value   # source"
 * (urxe-profiles(7)). What keys mean is verbs/profile.h's. Called by that reader and by urxe
 * profiles; no state.
 */
#ifndef URXE_NET_PROFILE_FILE_H
#define URXE_NET_PROFILE_FILE_H

#include <dirent.h>
#include <stdbool.h>
#include <string.h>

#define PROFILE_SUFFIX ".profile"

/* Whether URXE_PROFILE names a file by @name, and not one of the profiles that are installed. */
static inline bool profile_is_path(const char *name)
{
	return strchr(name, '/');
}

/* The length of the profile's name in that of its file; 0: it is no profile. */
int profile_name_length(const char *file);
/* For scandir(3). */
int profile_is_file(const struct dirent *entry);

/*
 * What @line says, cut up in place, without comment and the spaces around. *@value is NULL when it
 * says nothing. False: something else than a key with a value, which *@key is then.
 */
bool profile_split_line(char *line, char **key, char **value);

#endif
