/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reads fault specifications and judges packets by them. Each rule draws from
 * its own random stream, so what it does depends on the packets that it sees
 * and on nothing else. No locks; net/fault/fault holds its own.
 */
#include "net/fault/fault_rules.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "net/log.h"
#include "net/random.h"
#include "net/wire/gid.h"

enum action { DROP, DUPLICATE, REORDER, CORRUPT, MARK, DELAY };

struct rule {
	enum action action;
	enum direction direction;
	double rate;
	uint64_t nth; /* hits at this match; 0: by rate */
	bool onward;  /* and at all after it */
	uint64_t delay;
	bool any_opcode, any_qp, any_address;
	bool opcodes[256];
	uint32_t qpn;
	union ibv_gid address;
	uint64_t random; /* the state of its stream */
	uint64_t matches, hits;
	const char *text; /* in our copy of the specification */
	int text_length;
};

/* --- Reading the specification ---------------------------------------------------- */

static bool parse_word(const char **at, const char *word)
{
	size_t length = strlen(word);

	if (strncmp(*at, word, length) != 0)
		return false;
	*at += length;
	return true;
}

static bool parse_number(const char **at, uint64_t max, uint64_t *number)
{
	const char *p = *at;
	unsigned long long value;
	char *end;
	int base = p[0] == '0' && (p[1] | 0x20) == 'x' ? 16 : 10;

	if (!isdigit((unsigned char)*p))
		return false;
	errno = 0;
	value = strtoull(p, &end, base);
	if (errno || value > max)
		return false;
	*number = value;
	*at = end;
	return true;
}

/* Not strtod(): the application's locale may want a comma. */
static bool parse_rate(const char **at, double *rate)
{
	const char *p = *at;
	double value = 0, unit = 1;
	bool percent;

	if (!isdigit((unsigned char)*p))
		return false;
	for (; isdigit((unsigned char)*p); p++)
		value = value * 10 + (*p - '0');
	if (*p == '.')
		for (p++; isdigit((unsigned char)*p); p++)
			value += (*p - '0') * (unit /= 10);
	percent = parse_word(&p, "%");
	if (percent)
		value /= 100;
	/* Whether "1" is all of them or 1% isn't for us to guess. */
	if (percent ? value > 1 : value >= 1)
		return false;
	*rate = value;
	*at = p;
	return true;
}

static bool parse_time(const char **at, uint64_t *time)
{
	static const struct {
		const char *name;
		uint64_t ns;
	} units[] = {{"ns", 1}, {"us", 1000}, {"ms", 1000000}, {"s", 1000000000}};
	uint64_t number;
	unsigned int i;

	if (!parse_number(at, 1000000000, &number))
		return false;
	for (i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (parse_word(at, units[i].name)) {
			*time = number * units[i].ns;
			return true;
		}
	}
	return false;
}

static bool parse_opcode(const char **at, struct rule *rule)
{
	const char *end = *at;
	bool found = false;
	unsigned int i;

	while (isalnum((unsigned char)*end) || *end == '_')
		end++;
	if (end == *at)
		return false;
	for (i = 0; i < 256; i++) {
		const struct opcode *op = opcode_find(i);

		rule->opcodes[i] = op && strncmp(op->name, *at, end - *at) == 0;
		found |= rule->opcodes[i];
	}
	if (!found)
		return false;
	rule->any_opcode = false;
	*at = end;
	return true;
}

static bool parse_address(const char **at, struct rule *rule)
{
	char text[INET6_ADDRSTRLEN];
	size_t length = strcspn(*at, "]");

	if ((*at)[length] != ']' || length >= sizeof(text))
		return false;
	memcpy(text, *at, length);
	text[length] = '\0';
	if (gid_from_text(&rule->address, text) != 0)
		return false;
	rule->any_address = false;
	*at += length + 1;
	return true;
}

static bool parse_matches(const char **at, struct rule *rule)
{
	uint64_t number;

	for (;;) {
		if (parse_word(at, "@tx")) {
			rule->direction = SENT;
		} else if (parse_word(at, "@rx")) {
			rule->direction = RECEIVED;
		} else if (parse_word(at, "/")) {
			if (!parse_opcode(at, rule))
				return false;
		} else if (parse_word(at, ">")) {
			if (!parse_number(at, QPN_MASK, &number))
				return false;
			rule->qpn = number;
			rule->any_qp = false;
		} else if (parse_word(at, "[")) {
			if (!parse_address(at, rule))
				return false;
		} else {
			return true;
		}
	}
}

static bool parse_action(const char **at, struct rule *rule)
{
	static const struct {
		const char *name;
		enum action action;
	} actions[] = {{"drop", DROP},	     {"dup", DUPLICATE}, {"reorder", REORDER},
		       {"corrupt", CORRUPT}, {"mark", MARK},	 {"delay(", DELAY}};
	unsigned int i;

	for (i = 0; i < sizeof(actions) / sizeof(actions[0]); i++) {
		if (!parse_word(at, actions[i].name))
			continue;
		rule->action = actions[i].action;
		return rule->action != DELAY ||
		       (parse_time(at, &rule->delay) && parse_word(at, ")"));
	}
	return false;
}

static bool parse_rule(const char **at, struct rule *rule)
{
	*rule = (struct rule){.any_opcode = true, .any_qp = true, .any_address = true, .text = *at};

	if (!parse_action(at, rule))
		return false;
	if (parse_word(at, "=")) {
		if (!parse_rate(at, &rule->rate))
			return false;
	} else if (parse_word(at, "#")) {
		const char *number = *at;

		if (!parse_number(at, UINT64_MAX, &rule->nth))
			return false;
		if (rule->nth == 0) {
			*at = number;
			return false;
		}
		rule->onward = parse_word(at, "+");
	} else {
		return false;
	}
	if (!parse_matches(at, rule))
		return false;
	rule->text_length = *at - rule->text;
	return true;
}

static bool clause_ends(const char *at)
{
	return *at == '\0' || *at == ';' || *at == ',';
}

/* Returns 0 or an errno; on EINVAL *at is where reading stopped. */
static int parse(struct fault_rules *rules, const char **at)
{
	uint64_t seed = 1;
	unsigned int i;

	while (**at) {
		if (isspace((unsigned char)**at) || clause_ends(*at)) {
			++*at;
			continue;
		}
		if (parse_word(at, "seed=")) {
			if (!parse_number(at, UINT64_MAX, &seed))
				return EINVAL;
		} else if (!parse_rule(at, &rules->rules[rules->count++])) {
			return EINVAL;
		}
		while (isspace((unsigned char)**at))
			++*at;
		if (!clause_ends(*at))
			return EINVAL;
	}
	for (i = 0; i < rules->count; i++)
		rules->rules[i].random = random_next(&seed);
	return 0;
}

int fault_rules_read(struct fault_rules *rules, const char *specification, const char **error)
{
	const char *at;
	int status;

	rules->count = 0;
	rules->specification = strdup(specification);
	/* A rule takes more than one character. */
	rules->rules = calloc(strlen(specification) / 2 + 1, sizeof(*rules->rules));
	if (!rules->specification || !rules->rules) {
		fault_rules_destroy(rules);
		return ENOMEM;
	}
	at = rules->specification;
	status = parse(rules, &at);
	if (status) {
		if (error)
			*error = specification + (at - rules->specification);
		fault_rules_destroy(rules);
	}
	return status;
}

void fault_rules_destroy(struct fault_rules *rules)
{
	free(rules->specification);
	free(rules->rules);
}

/* --- Judging ------------------------------------------------------------------------ */

static bool rule_matches(const struct rule *rule, enum direction direction, const struct flow *flow)
{
	if (rule->direction != direction)
		return false;
	if (!rule->any_address && !gid_equal(&rule->address, &flow->source) &&
	    !gid_equal(&rule->address, &flow->destination))
		return false;
	if (flow->opcode == OPCODE_UNKNOWN)
		return rule->any_opcode && rule->any_qp;
	return (rule->any_opcode || rule->opcodes[flow->opcode]) &&
	       (rule->any_qp || rule->qpn == flow->qpn);
}

static bool rule_hits(struct rule *rule)
{
	bool hit;

	rule->matches++;
	if (rule->nth)
		hit = rule->onward ? rule->matches >= rule->nth : rule->matches == rule->nth;
	else
		hit = random_hit(&rule->random, rule->rate);
	rule->hits += hit;
	return hit;
}

static void note_hit(struct verdict *verdict, const struct rule *rule, size_t index)
{
	uint64_t *mask = rule->action == DUPLICATE ? &verdict->duplicates : &verdict->hits;

	if (index < 64)
		*mask |= 1ull << index;
}

struct verdict fault_rules_judge(struct fault_rules *rules, enum direction direction,
				 const struct flow *flow)
{
	struct verdict verdict = {0};
	struct rule *rule;

	for (rule = rules->rules; rule < rules->rules + rules->count; rule++) {
		if (!rule_matches(rule, direction, flow) || !rule_hits(rule))
			continue;
		verdict.drop |= rule->action == DROP;
		verdict.duplicate |= rule->action == DUPLICATE;
		verdict.reorder |= rule->action == REORDER;
		verdict.mark |= rule->action == MARK;
		verdict.delay += rule->delay;
		note_hit(&verdict, rule, rule - rules->rules);
		if (rule->action == CORRUPT) {
			verdict.corrupt = true;
			verdict.random = random_next(&rule->random);
		}
	}
	return verdict;
}

static bool is_hit(uint64_t hits, size_t index)
{
	return index < 64 && (hits & 1ull << index);
}

int fault_rules_describe(const struct fault_rules *rules, uint64_t hits, char *text, size_t size)
{
	static const char *const did[] = {
		[DROP] = "dropped",	 [DUPLICATE] = "duplicated", [REORDER] = "held back",
		[CORRUPT] = "corrupted", [MARK] = "marked",	     [DELAY] = "delayed",
	};
	const struct rule *rule;
	bool dropped = false;
	size_t at = 0;

	for (size_t i = 0; i < rules->count; i++)
		dropped |= is_hit(hits, i) && rules->rules[i].action == DROP;
	for (size_t i = 0; i < rules->count; i++) {
		rule = &rules->rules[i];
		if (!is_hit(hits, i) || (dropped && rule->action != DROP))
			continue; /* whatever else was to become of it */
		at += snprintf(text + (at < size ? at : size), at < size ? size - at : 0,
			       "%s%s by %.*s", at ? ", " : "", did[rule->action], rule->text_length,
			       rule->text);
	}
	return at;
}

void fault_rules_report(const struct fault_rules *rules)
{
	const struct rule *rule;

	for (rule = rules->rules; rule < rules->rules + rules->count; rule++)
		log_info("fault %.*s: %llu of %llu packets", rule->text_length, rule->text,
			 (unsigned long long)rule->hits, (unsigned long long)rule->matches);
}
