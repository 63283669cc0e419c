/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/profile.h"

#include <ctype.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/profile_file.h"
#include "net/sized.h"

/* --- values ---------------------------------------------------------------------------- */

static void *field(struct profile *profile, const struct profile_key *key)
{
	return (char *)profile + key->offset;
}

static void store(struct profile *profile, const struct profile_key *key, uint64_t value)
{
	sized_put(field(profile, key), key->size, value);
}

uint64_t profile_number(const struct profile *profile, const struct profile_key *key)
{
	if (key->kind == PROFILE_TEXT)
		return 0;
	return sized_get((const char *)profile + key->offset, key->size);
}

void profile_default(struct profile *profile)
{
	*profile = (struct profile){
		.fw_ver = URXE_VERSION,
		.create_flags = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB,
		.limits = hca_limits_core,
		.port =
			{
				.max_vl_num = 1,
				.port_cap_flags = IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS,
				.gid_tbl_len = GID_TABLE_LENGTH,
			},
	};
}

void profile_destroy(struct profile *profile)
{
	free(profile->lowered);
	profile->lowered = NULL;
}

/* --- reading --------------------------------------------------------------------------- */

struct reader {
	struct profile *profile;
	const char *path;
	unsigned int line;
	char **error; /* set once */
};

/* False, with file and line in front of what is wrong. */
static __attribute__((format(printf, 2, 3))) bool objects(struct reader *reader, const char *format,
							  ...)
{
	char *text = NULL;
	va_list arguments;

	va_start(arguments, format);
	if (vasprintf(&text, format, arguments) < 0)
		text = NULL;
	va_end(arguments);
	if (!text || asprintf(reader->error, "%s:%u: %s", reader->path, reader->line, text) < 0)
		*reader->error = NULL;
	free(text);
	return false;
}

/* "max_mr: 16777216 -> 16777215": why the device doesn't say what the file says. */
static void tell_lowered(struct profile *profile, const struct profile_key *key, uint64_t from,
			 uint64_t to)
{
	const char *format = key->kind == PROFILE_BITS ? "%s%s%s: 0x%" PRIx64 " -> 0x%" PRIx64
						       : "%s%s%s: %" PRIu64 " -> %" PRIu64;
	char *longer;

	if (asprintf(&longer, format, profile->lowered ? profile->lowered : "",
		     profile->lowered ? ", " : "", key->name, from, to) < 0)
		return;
	free(profile->lowered);
	profile->lowered = longer;
}

static void limit(struct profile *profile, const struct profile_key *key, uint64_t value)
{
	uint64_t most = key->most ? key->most : profile_number(profile, key);
	uint64_t possible = key->kind == PROFILE_BITS ? value & most : value < most ? value : most;

	if (possible != value)
		tell_lowered(profile, key, value, possible);
	store(profile, key, possible);
}

/* Decimal, or hexadecimal behind 0x. */
static bool read_number(struct reader *reader, const struct profile_key *key, const char *text)
{
	unsigned long long value;
	char *end;

	errno = 0;
	value = strtoull(text, &end, strncmp(text, "0x", 2) == 0 ? 16 : 10);
	if (!isdigit((unsigned char)*text) || *end || errno)
		return objects(reader, "%s is \"%s\", which is no number", key->name, text);
	limit(reader->profile, key, value);
	return true;
}

static bool read_hundredths(struct reader *reader, const struct profile_key *key, const char *text)
{
	unsigned int whole, fraction = 0;
	int length = 0;

	if (sscanf(text, "%4u%n", &whole, &length) == 1 && text[length] == '.' &&
	    isdigit((unsigned char)text[length + 1])) {
		const char *digits = text + length + 1;

		fraction = (digits[0] - '0') * 10;
		length += 2;
		if (isdigit((unsigned char)digits[1])) {
			fraction += digits[1] - '0';
			length++;
		}
	}
	if (!isdigit((unsigned char)*text) || !length || text[length])
		return objects(reader,
			       "%s is \"%s\", which is no number such as 7 or 1.75, with two "
			       "decimals at most",
			       key->name, text);
	limit(reader->profile, key, whole * UINT64_C(100) + fraction);
	return true;
}

static bool read_word(struct reader *reader, const struct profile_key *key, const char *text)
{
	const struct profile_word *word = key->words;
	char choice[160] = "";

	for (; word->text; word++) {
		if (strcmp(word->text, text) == 0) {
			store(reader->profile, key, word->value);
			return true;
		}
		strcat(choice, word == key->words ? "" : word[1].text ? ", " : " or ");
		strcat(choice, word->text);
	}
	return objects(reader, "%s is \"%s\", which isn't %s", key->name, text, choice);
}

static bool read_text(struct reader *reader, const struct profile_key *key, const char *text)
{
	if (strlen(text) >= key->size)
		return objects(reader, "%s has %zu characters, of at most %u", key->name,
			       strlen(text), key->size - 1u);
	strcpy(field(reader->profile, key), text);
	return true;
}

static bool read_value(struct reader *reader, unsigned int index, const char *text)
{
	static bool (*const read[])(struct reader *, const struct profile_key *, const char *) = {
		[PROFILE_NUMBER] = read_number, [PROFILE_HUNDREDTHS] = read_hundredths,
		[PROFILE_BITS] = read_number,	[PROFILE_WORD] = read_word,
		[PROFILE_TEXT] = read_text,
	};
	const struct profile_key *key = &profile_keys[index];

	if (!*text)
		return objects(reader, "%s has no value", key->name);
	if (reader->profile->given[index])
		return objects(reader, "%s is given a second time", key->name);
	reader->profile->given[index] = true;
	return read[key->kind](reader, key, text);
}

static bool read_line(struct reader *reader, char *line)
{
	char *name, *value;

	if (!profile_split_line(line, &name, &value))
		return objects(reader, "\"%s\" isn't of the form key = value", name);
	if (!value)
		return true;
	for (unsigned int i = 0; i < profile_key_count; i++) {
		if (strcmp(profile_keys[i].name, name) == 0)
			return read_value(reader, i, value);
	}
	return objects(reader, "there is no key \"%s\"", name);
}

static bool read_lines(struct reader *reader, FILE *file)
{
	char *line = NULL;
	bool good = true;
	size_t size = 0;

	while (good && getline(&line, &size, file) >= 0) {
		reader->line++;
		good = read_line(reader, line);
	}
	if (good && ferror(file))
		good = objects(reader, "%s", strerror(errno));
	free(line);
	return good;
}

/* "cx5" of ".../cx5.profile". */
static void take_name(struct profile *profile, const char *path)
{
	const char *base = strrchr(path, '/') + 1;
	int length = profile_name_length(base);

	snprintf(profile->name, sizeof(profile->name), "%.*s", length ?: (int)strlen(base), base);
}

static bool read_file(struct profile *profile, const char *path, char **error)
{
	struct reader reader = {profile, path, 0, error};
	FILE *file = fopen(path, "re");
	bool good;

	if (!file) {
		if (asprintf(error, "%s: %s", path, strerror(errno)) < 0)
			*error = NULL;
		return false;
	}
	profile_default(profile);
	take_name(profile, path);
	good = read_lines(&reader, file);
	fclose(file);
	if (!good)
		profile_destroy(profile);
	return good;
}

/* --- finding --------------------------------------------------------------------------- */

/*
 * In the build tree, and where they are installed, as seen from the library's folder; that may have
 * been moved as a whole. Where it is said to be at last.
 */
static const char *const places[] = {"../profiles", "../share/urxe/profiles",
				     "../../share/urxe/profiles", URXE_DATADIR "/urxe/profiles"};

#define PLACES (sizeof(places) / sizeof(*places))

/* The folder @place, or NULL. The caller frees it. */
static char *folder(const char *place)
{
	Dl_info library = {};
	const char *end = NULL;
	char *joined, *path;

	if (dladdr(profile_keys, &library) && library.dli_fname)
		end = strrchr(library.dli_fname, '/');
	if (*place == '/')
		return realpath(place, NULL);
	if (!end || asprintf(&joined, "%.*s/%s", (int)(end - library.dli_fname), library.dli_fname,
			     place) < 0)
		return NULL;
	path = realpath(joined, NULL);
	free(joined);
	return path;
}

/* "cx3, cx4": those in @place, behind those of *@names. */
static void add_names(const char *place, char **names)
{
	struct dirent **entries = NULL;
	int count = scandir(place, &entries, profile_is_file, alphasort);
	char *longer;

	for (int i = 0; i < count; i++) {
		int length = profile_name_length(entries[i]->d_name);

		if (asprintf(&longer, "%s%s%.*s", *names ? *names : "", *names ? ", " : "", length,
			     entries[i]->d_name) >= 0) {
			free(*names);
			*names = longer;
		}
		free(entries[i]);
	}
	free(entries);
}

char *profile_names(void)
{
	char *names = NULL, *place;

	for (unsigned int i = 0; i < PLACES && !names; i++) {
		place = folder(places[i]);
		if (place)
			add_names(place, &names);
		free(place);
	}
	return names;
}

static bool not_found(const char *name, char **error)
{
	char *names = profile_names();

	if (asprintf(error, "there is no profile \"%s\"; there are %s%s", name,
		     names ? names : "none (Debian's package urxe has them)",
		     names ? "; a file has a / in its name" : "") < 0)
		*error = NULL;
	free(names);
	return false;
}

/* The file of the installed profile @name, or NULL. The caller frees it. */
static char *find_profile(const char *name)
{
	char *found = NULL, *path, *place;

	for (unsigned int i = 0; i < PLACES && !found; i++) {
		place = folder(places[i]);
		if (place && asprintf(&path, "%s/%s" PROFILE_SUFFIX, place, name) >= 0) {
			found = realpath(path, NULL);
			free(path);
		}
		free(place);
	}
	return found;
}

bool profile_read(struct profile *profile, const char *name, char **error)
{
	char *path;
	bool good;

	if (profile_is_path(name))
		return read_file(profile, name, error);
	path = find_profile(name);
	if (!path)
		return not_found(name, error);
	good = read_file(profile, path, error);
	free(path);
	return good;
}
