/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/fault/injector.h"

#include <stdio.h>

#include "net/fault/fault_rules.h"

static struct fault_clause *clauses_end(const struct fault_clauses *clauses)
{
	/* Without any there is no list, and C has no NULL + 0. */
	return clauses->list ? clauses->list + clauses->count : NULL;
}

/* --- The specification ------------------------------------------------------------------ */

void injector_init(struct injector *injector)
{
	*injector = (struct injector)INJECTOR_INITIALIZER;
}

void injector_destroy(struct injector *injector)
{
	fault_clauses_destroy(&injector->clauses);
	pthread_mutex_destroy(&injector->lock);
}

static void set_deadline(struct injector *injector, uint64_t deadline)
{
	atomic_store_explicit(&injector->deadline, deadline, memory_order_relaxed);
}

static uint64_t clause_time(const struct injector *injector, const struct fault_clause *clause)
{
	if (clause->pending)
		return 0;
	if (clause->when != WHEN_TIME || clause->hits)
		return TIME_NEVER;
	return injector->start == TIME_NEVER ? 0 : injector->start + clause->number;
}

static void find_deadline(struct injector *injector)
{
	uint64_t deadline = TIME_NEVER;

	for (struct fault_clause *clause = injector->clauses.list;
	     clause < clauses_end(&injector->clauses); clause++)
		deadline = earlier(deadline, clause_time(injector, clause));
	set_deadline(injector, deadline);
}

static void show_all(const struct fault_clauses *clauses,
		     void (*show)(void *context, const struct fault_clause *clause), void *context)
{
	for (struct fault_clause *clause = clauses->list; clause < clauses_end(clauses); clause++) {
		if (fault_clause_subject(clause) != SUBJECT_PACKET)
			show(context, clause);
	}
}

static void report_clause(void *context, const struct fault_clause *clause)
{
	fault_clause_report(clause);
}

int injector_set(struct injector *injector, const char *specification, struct fault_error *error)
{
	struct fault_clauses clauses, before;
	uint32_t actions = 0;
	int status = fault_clauses_read(&clauses, specification, error);

	if (status)
		return status;
	for (unsigned int i = 0; i < clauses.count; i++)
		actions |= 1u << clauses.list[i].action;
	pthread_mutex_lock(&injector->lock);
	before = injector->clauses;
	injector->clauses = clauses;
	injector->start = TIME_NEVER;
	find_deadline(injector);
	atomic_store_explicit(&injector->actions, actions, memory_order_relaxed);
	atomic_fetch_add_explicit(&injector->generation, 1, memory_order_relaxed);
	pthread_mutex_unlock(&injector->lock);
	show_all(&before, report_clause, NULL);
	fault_clauses_destroy(&before);
	return 0;
}

int injector_read_rules(struct injector *injector, struct fault_rules *rules, uint32_t *generation)
{
	const char *specification;
	int status;

	pthread_mutex_lock(&injector->lock);
	specification = injector->clauses.specification;
	status = fault_rules_read(rules, specification ? specification : "", NULL);
	*generation = atomic_load_explicit(&injector->generation, memory_order_relaxed);
	pthread_mutex_unlock(&injector->lock);
	return status;
}

void injector_for_each(struct injector *injector,
		       void (*show)(void *context, const struct fault_clause *clause),
		       void *context)
{
	pthread_mutex_lock(&injector->lock);
	show_all(&injector->clauses, show, context);
	pthread_mutex_unlock(&injector->lock);
}

/* A thread that had the lock may be gone. */
void injector_report(struct injector *injector)
{
	if (pthread_mutex_trylock(&injector->lock) != 0)
		return;
	show_all(&injector->clauses, report_clause, NULL);
	pthread_mutex_unlock(&injector->lock);
}

/* --- Questions ---------------------------------------------------------------------------- */

static bool clause_matches(const struct fault_clause *clause, unsigned int name, uint32_t qpn)
{
	return (clause->any_name || fault_set_has(&clause->names, name)) &&
	       (clause->any_qp || clause->qpn == qpn);
}

static void describe_hit(const struct fault_clause *clause, uint64_t count, uint32_t qpn,
			 struct fault_hit *hit)
{
	hit->action = clause->action;
	hit->argument = clause->argument;
	hit->qpn = qpn;
	hit->count = count;
	snprintf(hit->clause, sizeof(hit->clause), "%.*s", clause->text_length, clause->text);
}

/* All clauses count what they match; the first one that hits says what happens. */
bool injector_ask(struct injector *injector, enum fault_action action, unsigned int name,
		  uint32_t qpn, struct fault_hit *hit)
{
	bool found = false;

	pthread_mutex_lock(&injector->lock);
	for (struct fault_clause *clause = injector->clauses.list;
	     clause < clauses_end(&injector->clauses); clause++) {
		if (clause->action != action || !clause_matches(clause, name, qpn) ||
		    !fault_clause_hits(clause) || found)
			continue;
		describe_hit(clause, clause->matches, qpn, hit);
		found = true;
	}
	pthread_mutex_unlock(&injector->lock);
	return found;
}

bool injector_count_message(struct injector *injector, const void *hca, unsigned int work,
			    uint32_t qpn)
{
	bool due = false;

	pthread_mutex_lock(&injector->lock);
	for (struct fault_clause *clause = injector->clauses.list;
	     clause < clauses_end(&injector->clauses); clause++) {
		if (fault_clause_subject(clause) != SUBJECT_MESSAGE || clause->when == WHEN_TIME ||
		    !clause_matches(clause, work, qpn) || !fault_clause_hits(clause))
			continue;
		clause->pending++;
		clause->due_number = clause->matches;
		clause->due_hca = hca;
		clause->due_qpn = qpn;
		due = true;
	}
	if (due)
		set_deadline(injector, 0);
	pthread_mutex_unlock(&injector->lock);
	return due;
}

static bool take_due(struct injector *injector, struct fault_clause *clause, const void *hca,
		     uint64_t now, struct fault_hit *hit)
{
	if (clause_time(injector, clause) > now || (clause->pending && clause->due_hca != hca))
		return false;
	if (clause->pending) {
		describe_hit(clause, clause->due_number, clause->due_qpn, hit);
		clause->pending--;
	} else {
		describe_hit(clause, 0, clause->any_qp ? 0 : clause->qpn, hit);
		clause->matches = clause->hits = 1;
	}
	return true;
}

bool injector_find_due(struct injector *injector, const void *hca, uint64_t now,
		       struct fault_hit *hit)
{
	bool found = false;

	pthread_mutex_lock(&injector->lock);
	if (injector->start == TIME_NEVER)
		injector->start = now;
	for (struct fault_clause *clause = injector->clauses.list;
	     clause < clauses_end(&injector->clauses) && !found; clause++)
		found = take_due(injector, clause, hca, now, hit);
	find_deadline(injector);
	pthread_mutex_unlock(&injector->lock);
	return found;
}

void injector_forget(struct injector *injector, const void *hca)
{
	pthread_mutex_lock(&injector->lock);
	for (struct fault_clause *clause = injector->clauses.list;
	     clause < clauses_end(&injector->clauses); clause++) {
		if (clause->due_hca == hca)
			clause->pending = 0;
	}
	find_deadline(injector);
	pthread_mutex_unlock(&injector->lock);
}
