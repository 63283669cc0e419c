/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Judges packets by the clauses that are about packets. Each draws from its own random stream, so
 * what it does depends on the packets that it sees and on nothing else. No locks; net/fault/fault
 * holds its own.
 */
#include "net/fault/fault_rules.h"

#include <stdio.h>

#include "net/random.h"
#include "net/wire/gid.h"
#include "net/wire/mad.h"

static bool is_rule(const struct fault_clause *clause)
{
	return fault_clause_subject(clause) == SUBJECT_PACKET;
}

static bool names_message(const struct fault_clause *clause)
{
	for (unsigned int attribute = CM_REQ; attribute <= CM_APR; attribute++) {
		if (fault_set_has(&clause->names, FAULT_PACKET_CM(attribute)))
			return true;
	}
	return false;
}

int fault_rules_read(struct fault_rules *rules, const char *specification,
		     struct fault_error *error)
{
	int status;

	*rules = (struct fault_rules){};
	status = fault_clauses_read(&rules->clauses, specification, error);
	for (unsigned int i = 0; i < rules->clauses.count; i++) {
		const struct fault_clause *clause = &rules->clauses.list[i];

		rules->any[clause->direction] |= is_rule(clause);
		rules->by_message |= is_rule(clause) && names_message(clause);
	}
	return status;
}

void fault_rules_destroy(struct fault_rules *rules)
{
	fault_clauses_destroy(&rules->clauses);
}

static bool rule_matches(const struct fault_clause *rule, enum direction direction,
			 const struct flow *flow)
{
	if (!is_rule(rule) || rule->direction != direction)
		return false;
	if (!rule->any_address && !gid_equal(&rule->address, &flow->source) &&
	    !gid_equal(&rule->address, &flow->destination))
		return false;
	if (flow->opcode == OPCODE_UNKNOWN)
		return rule->any_name && rule->any_qp;
	return (rule->any_name || fault_set_has(&rule->names, flow->opcode) ||
		(flow->message && fault_set_has(&rule->names, FAULT_PACKET_CM(flow->message)))) &&
	       (rule->any_qp || rule->qpn == flow->qpn);
}

static void note_hit(struct verdict *verdict, const struct fault_clause *rule, size_t index)
{
	uint64_t *mask = rule->action == ACTION_DUPLICATE ? &verdict->duplicates : &verdict->hits;

	if (index < 64)
		*mask |= 1ull << index;
}

struct verdict fault_rules_judge(struct fault_rules *rules, enum direction direction,
				 const struct flow *flow)
{
	struct fault_clause *list = rules->clauses.list, *rule;
	struct verdict verdict = {0};

	for (rule = list; rule < list + rules->clauses.count; rule++) {
		if (!rule_matches(rule, direction, flow) || !fault_clause_hits(rule))
			continue;
		verdict.drop |= rule->action == ACTION_DROP;
		verdict.duplicate |= rule->action == ACTION_DUPLICATE;
		verdict.reorder |= rule->action == ACTION_REORDER;
		verdict.mark |= rule->action == ACTION_MARK;
		verdict.delay += rule->action == ACTION_DELAY ? rule->argument : 0;
		note_hit(&verdict, rule, rule - list);
		if (rule->action == ACTION_CORRUPT) {
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
		[ACTION_DROP] = "dropped",	[ACTION_DUPLICATE] = "duplicated",
		[ACTION_REORDER] = "held back", [ACTION_CORRUPT] = "corrupted",
		[ACTION_MARK] = "marked",	[ACTION_DELAY] = "delayed",
	};
	const struct fault_clause *rule;
	bool dropped = false;
	size_t at = 0;

	for (size_t i = 0; i < rules->clauses.count; i++)
		dropped |= is_hit(hits, i) && rules->clauses.list[i].action == ACTION_DROP;
	for (size_t i = 0; i < rules->clauses.count; i++) {
		rule = &rules->clauses.list[i];
		if (!is_hit(hits, i) || (dropped && rule->action != ACTION_DROP))
			continue; /* whatever else was to become of it */
		at += snprintf(text + (at < size ? at : size), at < size ? size - at : 0,
			       "%s%s by %.*s", at ? ", " : "", did[rule->action], rule->text_length,
			       rule->text);
	}
	return at;
}

void fault_rules_report(const struct fault_rules *rules)
{
	for (size_t i = 0; i < rules->clauses.count; i++) {
		if (is_rule(&rules->clauses.list[i]))
			fault_clause_report(&rules->clauses.list[i]);
	}
}
