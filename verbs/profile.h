/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Device profiles: what a card answers, limits and does differently, as data. A profile is a file
 * of lines "key = value", profiles/NAME.profile; urxe-profiles(7) has the format, and every key is
 * a row of the table in verbs/profile_keys.c.
 *
 * The configuration reads the one that URXE_PROFILE names (verbs/configuration.h), and devices are
 * made of it. A profile takes away from what the core can do, or changes it, and never adds to it:
 * a greater number is lowered to the core's, and bits that mean nothing to it are left out.
 * Immutable once read; reading has no state.
 */
#ifndef URXE_VERBS_PROFILE_H
#define URXE_VERBS_PROFILE_H

#include <stdbool.h>
#include <stdint.h>

#include "emu/behaviour.h"
#include "emu/hca.h"

#define PROFILE_KEYS_MAX 128

/* What a port says of itself instead of its network device. */
struct profile_port {
	uint8_t active_width, active_speed; /* 0: the network device's */
	uint8_t max_vl_num, subnet_timeout;
	uint16_t lid;
	uint32_t port_cap_flags;
	uint32_t gid_tbl_len;
};

struct profile {
	char name[64]; /* of the file; "": none */
	char description[96];
	char fw_ver[64];
	uint32_t num_comp_vectors; /* 0: one per CPU */
	uint32_t create_flags;	   /* IBV_QP_CREATE_* that are taken */
	struct hca_limits limits;
	struct hca_behaviour behaviour;
	struct profile_port port;

	bool given[PROFILE_KEYS_MAX]; /* by the file: of each row of profile_keys */
	char *lowered;		      /* "max_mr: 16777216 -> 1048575, ..."; NULL: nothing was */
};

/* Without a profile: what urxe does by itself. */
void profile_default(struct profile *profile);

/*
 * Read the profile @name: one of those that are installed, or a file if there is a '/' in it.
 * Returns whether it could be; then the caller destroys it. Otherwise *@error says why, with file
 * and line, or which profiles there are; the caller frees it; NULL: out of memory.
 */
bool profile_read(struct profile *profile, const char *name, char **error);
void profile_destroy(struct profile *profile);
/* Those that are installed: "cx3, cx4, ...", which the caller frees; NULL: there are none. */
char *profile_names(void);

/* --- the table --------------------------------------------------------------------- */

enum profile_kind {
	PROFILE_NUMBER,
	PROFILE_HUNDREDTHS, /* a decimal fraction */
	PROFILE_BITS,
	PROFILE_WORD,
	PROFILE_TEXT
};

/* What makes a value one that less can be relied on: scripts of many cards take that one. */
enum profile_strict {
	STRICT_DEFAULT, /* neither: it stays urxe's own. Of bits, those that all have */
	STRICT_LEAST,
	STRICT_LEAST_SET, /* 0 is without limit */
	STRICT_MOST,	  /* of words the last */
};

struct profile_word {
	const char *text;
	uint8_t value;
};

struct profile_key {
	const char *name;
	enum profile_kind kind;
	uint16_t offset, size; /* in struct profile */
	uint64_t most; /* that the core can do, or all bits that it has; 0: what the default has */
	const struct profile_word *words; /* from the one that most can be relied on; up to NULL */
	enum profile_strict strict;
};

extern const struct profile_key profile_keys[];
extern const unsigned int profile_key_count;

/* The number of a key that isn't text; hundredths, bits, a word's value. */
uint64_t profile_number(const struct profile *profile, const struct profile_key *key);

#endif
