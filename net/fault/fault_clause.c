/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reading is driven by one table of actions: which argument each takes, what it counts, when it
 * may happen and what it can be restricted to.
 */
#include "net/fault/fault_clause.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "net/clock.h"
#include "net/log.h"
#include "net/random.h"
#include "net/wire/gid.h"
#include "net/wire/mad.h"
#include "net/wire/wire.h"

#define CLAUSE_TEXT 256

/* --- The table ------------------------------------------------------------------------- */

enum argument { NONE, TIME, COUNT, ERRNO, STATUS, EVENT, CM_EVENT, REASON };

#define BIT(name) (1u << (name))
#define COUNTED (BIT(WHEN_RATE) | BIT(WHEN_NTH) | BIT(WHEN_ONWARD) | BIT(WHEN_EVERY))
#define TIMED (COUNTED | BIT(WHEN_TIME))

static const struct action {
	const char *name;
	enum fault_subject subject;
	enum argument argument;
	bool optional; /* the argument */
	uint64_t otherwise;
	unsigned int whens;
} actions[ACTIONS] = {
	[ACTION_DROP] = {"drop", SUBJECT_PACKET, NONE, .whens = COUNTED},
	[ACTION_DUPLICATE] = {"dup", SUBJECT_PACKET, NONE, .whens = COUNTED},
	[ACTION_REORDER] = {"reorder", SUBJECT_PACKET, NONE, .whens = COUNTED},
	[ACTION_CORRUPT] = {"corrupt", SUBJECT_PACKET, NONE, .whens = COUNTED},
	[ACTION_MARK] = {"mark", SUBJECT_PACKET, NONE, .whens = COUNTED},
	[ACTION_DELAY] = {"delay", SUBJECT_PACKET, TIME, .whens = COUNTED},
	[ACTION_FAIL] = {"fail", SUBJECT_CALL, ERRNO, true, .whens = COUNTED},
	[ACTION_COMPLETE] = {"complete", SUBJECT_WORK, STATUS, .whens = COUNTED},
	[ACTION_LATE] = {"late", SUBJECT_WORK, TIME, .whens = COUNTED},
	[ACTION_EVENT] = {"event", SUBJECT_MESSAGE, EVENT, .whens = TIMED},
	[ACTION_DOWN] = {"down", SUBJECT_MESSAGE, TIME, .whens = TIMED},
	[ACTION_REMOVE] = {"remove", SUBJECT_MESSAGE, NONE, .whens = TIMED},
	[ACTION_REJECT] = {"reject", SUBJECT_REQUEST, REASON, true, CM_REJECT_CONSUMER, COUNTED},
	[ACTION_CM_EVENT] = {"connection", SUBJECT_STEP, CM_EVENT, .whens = COUNTED},
	[ACTION_COALESCE] = {"coalesce", SUBJECT_CQ, COUNT, .whens = COUNTED | BIT(WHEN_ALWAYS)},
	[ACTION_SPURIOUS] = {"spurious", SUBJECT_CQ, NONE, .whens = COUNTED},
};

/* What a clause can be restricted to. */
enum { BY_DIRECTION = 1, BY_NAME = 2, BY_QPN = 4, BY_ADDRESS = 8 };

static const struct subject {
	const char *plural;
	const struct fault_words *names;
	const char *name; /* what one of them is called */
	unsigned int matches;
	const char *expected; /* behind WHEN */
} subjects[] = {
	[SUBJECT_PACKET] = {"packets", &fault_packets, "an opcode, such as RC_SEND, or CM_REQ",
			    BY_DIRECTION | BY_NAME | BY_QPN | BY_ADDRESS,
			    "/OPCODE, once each @tx or @rx, >QPN, [ADDRESS], or the next clause"},
	[SUBJECT_CALL] = {"calls", &fault_call_names, "a call, such as ibv_reg_mr", BY_NAME,
			  "/CALL or the next clause"},
	[SUBJECT_WORK] = {"work requests", &fault_works, "a work request, such as RDMA_WRITE",
			  BY_NAME | BY_QPN, "/WORK_REQUEST, once >QPN, or the next clause"},
	[SUBJECT_MESSAGE] = {"messages", &fault_works, "a work request, such as RDMA_WRITE",
			     BY_NAME | BY_QPN, "/WORK_REQUEST, once >QPN, or the next clause"},
	[SUBJECT_REQUEST] = {"requests", &fault_requests, "CM_REQ or CM_REP", BY_NAME,
			     "/CM_REQ, /CM_REP or the next clause"},
	[SUBJECT_STEP] = {"connection events", NULL, NULL, 0, "the next clause"},
	[SUBJECT_CQ] = {"completion events", NULL, NULL, 0, "the next clause"},
};

static const struct {
	const struct fault_words *words; /* NULL: a number alone */
	uint64_t max;			 /* of a number that stands for itself; 0: none may */
	const char *expected;
} arguments[] = {
	[COUNT] = {NULL, UINT16_MAX, "a number of completions"},
	[ERRNO] = {&fault_errnos, 4095, "an errno, such as ENOMEM"},
	[STATUS] = {&fault_statuses, 0, "a status other than SUCCESS, such as RETRY_EXC_ERR"},
	[EVENT] = {&fault_events, 0, "an asynchronous event, such as PORT_ERR"},
	[CM_EVENT] = {&fault_cm_events, 0, "an event of librdmacm, such as ADDR_ERROR"},
	[REASON] = {&fault_reasons, UINT16_MAX, "a reason, such as CONSUMER or 28"},
};

#define EXPECTED_ACTION "a fault, such as drop, fail or event"
#define EXPECTED_TIME "a time, such as 500us or 2s"
#define EXPECTED_NUMBER "a number, counted from 1"
#define EXPECTED_RATE "a rate, such as 1% or 0.01 (100% is all)"
#define EXPECTED_COUNTED "=RATE, #N, #N+ or #N*"
#define EXPECTED_TIMED "=RATE, #N, #N+, #N* or @TIME"
#define EXPECTED_END "';', ',' or the end"

/* --- Words and numbers ------------------------------------------------------------------ */

struct reader {
	const char *at;
	const char *expected; /* when something can't be read: there */
};

static bool missing(struct reader *reader, const char *expected)
{
	reader->expected = expected;
	return false;
}

static bool read_text(struct reader *reader, const char *text)
{
	size_t length = strlen(text);

	if (strncmp(reader->at, text, length) != 0)
		return false;
	reader->at += length;
	return true;
}

static size_t word_length(const char *text)
{
	size_t length = 0;

	while (isalnum((unsigned char)text[length]) || text[length] == '_')
		length++;
	return length;
}

static bool read_number(struct reader *reader, uint64_t max, uint64_t *number)
{
	const char *p = reader->at;
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
	reader->at = end;
	return true;
}

/* 1 to @max. */
static bool read_count(struct reader *reader, uint64_t max, uint64_t *number)
{
	const char *start = reader->at;

	if (read_number(reader, max, number) && *number > 0)
		return true;
	reader->at = start;
	return false;
}

/* Not strtod(): the application's locale may want a comma. */
static bool read_rate(struct reader *reader, double *rate)
{
	struct reader ahead = *reader;
	double value = 0, unit = 1;
	bool percent;

	if (!isdigit((unsigned char)*ahead.at))
		return missing(reader, EXPECTED_RATE);
	for (; isdigit((unsigned char)*ahead.at); ahead.at++)
		value = value * 10 + (*ahead.at - '0');
	if (*ahead.at == '.')
		for (ahead.at++; isdigit((unsigned char)*ahead.at); ahead.at++)
			value += (*ahead.at - '0') * (unit /= 10);
	percent = read_text(&ahead, "%");
	if (percent)
		value /= 100;
	/* Whether "1" is all of them or 1% isn't for us to guess. */
	if (percent ? value > 1 : value >= 1)
		return missing(reader, EXPECTED_RATE);
	*rate = value;
	reader->at = ahead.at;
	return true;
}

static bool read_time(struct reader *reader, uint64_t *time)
{
	static const struct {
		const char *name;
		uint64_t ns;
	} units[] = {{"ns", 1}, {"us", NS_PER_US}, {"ms", NS_PER_MS}, {"s", NS_PER_S}};
	uint64_t number;

	if (!read_number(reader, 1000000000, &number))
		return missing(reader, EXPECTED_TIME);
	for (unsigned int i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (read_text(reader, units[i].name)) {
			*time = number * units[i].ns;
			return true;
		}
	}
	return missing(reader, "a unit: ns, us, ms or s");
}

/* --- ACTION -------------------------------------------------------------------------------- */

static bool read_value(struct reader *reader, enum argument argument, uint64_t *value)
{
	const struct fault_words *words = arguments[argument].words;
	size_t length = word_length(reader->at);
	unsigned int number;

	if (words && fault_words_find(words, reader->at, length, &number)) {
		*value = number;
		reader->at += length;
		return true;
	}
	return read_count(reader, arguments[argument].max, value) ||
	       missing(reader, arguments[argument].expected);
}

static bool read_argument(struct reader *reader, const struct action *action, uint64_t *value)
{
	if (action->argument == TIME ? !read_time(reader, value)
				     : !read_value(reader, action->argument, value))
		return false;
	return read_text(reader, ")") || missing(reader, "')'");
}

/* What is to happen says what it is about. */
static bool set_step(struct fault_clause *clause)
{
	if (clause->action == ACTION_CM_EVENT) {
		clause->any_name = false;
		clause->names.bits[0] = UINT64_C(1) << clause->argument;
	}
	return true;
}

static bool read_action(struct reader *reader, struct fault_clause *clause)
{
	const char *start = reader->at;
	size_t length = word_length(start);
	unsigned int i = 0;

	while (i < ACTIONS &&
	       (strlen(actions[i].name) != length || memcmp(actions[i].name, start, length) != 0))
		i++;
	if (i == ACTIONS)
		return missing(reader, EXPECTED_ACTION);
	clause->action = i;
	clause->argument = actions[i].otherwise;
	reader->at += length;
	if (actions[i].argument != NONE && read_text(reader, "("))
		return read_argument(reader, &actions[i], &clause->argument) && set_step(clause);
	if (actions[i].argument == NONE || actions[i].optional)
		return true;
	reader->at = start;
	return missing(reader, actions[i].argument == TIME ? "a time behind it: (TIME)"
							   : "an argument behind it");
}

/* --- WHEN ---------------------------------------------------------------------------------- */

static bool read_nth(struct reader *reader, struct fault_clause *clause)
{
	if (!read_count(reader, UINT64_MAX, &clause->number))
		return missing(reader, EXPECTED_NUMBER);
	clause->when = read_text(reader, "+")	? WHEN_ONWARD
		       : read_text(reader, "*") ? WHEN_EVERY
						: WHEN_NTH;
	return true;
}

static bool read_when(struct reader *reader, struct fault_clause *clause)
{
	unsigned int whens = actions[clause->action].whens;

	if (read_text(reader, "=")) {
		clause->when = WHEN_RATE;
		return read_rate(reader, &clause->rate);
	}
	if (read_text(reader, "#"))
		return read_nth(reader, clause);
	if (whens & BIT(WHEN_TIME) && read_text(reader, "@")) {
		clause->when = WHEN_TIME;
		return read_time(reader, &clause->number);
	}
	clause->when = WHEN_ALWAYS;
	return whens & BIT(WHEN_ALWAYS) ||
	       missing(reader, whens & BIT(WHEN_TIME) ? EXPECTED_TIMED : EXPECTED_COUNTED);
}

/* --- MATCH --------------------------------------------------------------------------------- */

static bool read_name(struct reader *reader, const struct subject *subject,
		      struct fault_clause *clause)
{
	size_t length = word_length(reader->at);

	if (!length || !fault_words_match(subject->names, reader->at, length, &clause->names))
		return missing(reader, subject->name);
	clause->any_name = false;
	reader->at += length;
	return true;
}

static bool read_qpn(struct reader *reader, struct fault_clause *clause)
{
	uint64_t number;

	if (!read_number(reader, QPN_MASK, &number))
		return missing(reader, "a queue pair number");
	clause->qpn = number;
	clause->any_qp = false;
	return true;
}

static bool read_address(struct reader *reader, struct fault_clause *clause)
{
	char text[INET6_ADDRSTRLEN];
	size_t length = strcspn(reader->at, "]");

	if (reader->at[length] != ']' || length >= sizeof(text))
		return missing(reader, "an IP address and ']'");
	memcpy(text, reader->at, length);
	text[length] = '\0';
	if (gid_from_text(&clause->address, text) != 0)
		return missing(reader, "an IP address");
	clause->any_address = false;
	reader->at += length + 1;
	return true;
}

/* Whether @text comes where it may. Names may come again, for any one of them may match. */
static bool begins_match(struct reader *reader, const char *text, unsigned int by,
			 unsigned int *left)
{
	if (!(*left & by) || !read_text(reader, text))
		return false;
	if (by != BY_NAME)
		*left &= ~by;
	return true;
}

/* All that there are. */
static bool read_matches(struct reader *reader, struct fault_clause *clause)
{
	const struct subject *subject = &subjects[fault_clause_subject(clause)];
	unsigned int left = subject->matches;
	bool good = true;

	while (good) {
		if (begins_match(reader, "@tx", BY_DIRECTION, &left))
			clause->direction = SENT;
		else if (begins_match(reader, "@rx", BY_DIRECTION, &left))
			clause->direction = RECEIVED;
		else if (begins_match(reader, "/", BY_NAME, &left))
			good = read_name(reader, subject, clause);
		else if (begins_match(reader, ">", BY_QPN, &left))
			good = read_qpn(reader, clause);
		else if (begins_match(reader, "[", BY_ADDRESS, &left))
			good = read_address(reader, clause);
		else
			return true;
	}
	return false;
}

/* --- Clauses ------------------------------------------------------------------------------- */

static bool read_clause(struct reader *reader, struct fault_clause *clause)
{
	*clause = (struct fault_clause){
		.any_name = true, .any_qp = true, .any_address = true, .text = reader->at};
	if (!read_action(reader, clause) || !read_when(reader, clause) ||
	    !read_matches(reader, clause))
		return false;
	clause->text_length = reader->at - clause->text;
	reader->expected = subjects[fault_clause_subject(clause)].expected;
	return true;
}

static bool read_seed(struct reader *reader, uint64_t *seed, bool *seeded)
{
	if (*seeded)
		return missing(reader, "one seed alone");
	*seeded = true;
	reader->expected = EXPECTED_END;
	return read_number(reader, UINT64_MAX, seed) || missing(reader, "a number");
}

static bool clause_ends(const char *at)
{
	return *at == '\0' || *at == ';' || *at == ',';
}

static bool read_clauses(struct reader *reader, struct fault_clauses *clauses)
{
	uint64_t seed = 1;
	bool seeded = false;

	while (*reader->at) {
		if (isspace((unsigned char)*reader->at) || clause_ends(reader->at)) {
			reader->at++;
			continue;
		}
		if (read_text(reader, "seed=")
			    ? !read_seed(reader, &seed, &seeded)
			    : !read_clause(reader, &clauses->list[clauses->count++]))
			return false;
		while (isspace((unsigned char)*reader->at))
			reader->at++;
		if (!clause_ends(reader->at))
			return false;
	}
	for (unsigned int i = 0; i < clauses->count; i++)
		clauses->list[i].random = random_next(&seed);
	return true;
}

int fault_clauses_read(struct fault_clauses *clauses, const char *specification,
		       struct fault_error *error)
{
	struct reader reader;

	clauses->count = 0;
	clauses->specification = strdup(specification);
	/* A clause takes more than one character. */
	clauses->list = calloc(strlen(specification) / 2 + 1, sizeof(*clauses->list));
	if (!clauses->specification || !clauses->list) {
		fault_clauses_destroy(clauses);
		return ENOMEM;
	}
	reader = (struct reader){.at = clauses->specification};
	if (read_clauses(&reader, clauses))
		return 0;
	if (error) {
		error->place = specification + (reader.at - clauses->specification);
		error->expected = reader.expected;
	}
	fault_clauses_destroy(clauses);
	return EINVAL;
}

char *fault_error_text(const struct fault_error *error, const char *name)
{
	const char *quote = *error->place ? "\"" : "";
	char *text;

	if (asprintf(&text, "%s can't be read at %s%s%s: expected %s", name, quote,
		     *error->place ? error->place : "its end", quote, error->expected) < 0)
		return NULL;
	return text;
}

void fault_clauses_destroy(struct fault_clauses *clauses)
{
	free(clauses->specification);
	free(clauses->list);
	*clauses = (struct fault_clauses){};
}

enum fault_subject fault_clause_subject(const struct fault_clause *clause)
{
	return actions[clause->action].subject;
}

bool fault_clause_hits(struct fault_clause *clause)
{
	bool hit = false;

	clause->matches++;
	switch (clause->when) {
	case WHEN_RATE:
		hit = random_hit(&clause->random, clause->rate);
		break;
	case WHEN_NTH:
		hit = clause->matches == clause->number;
		break;
	case WHEN_ONWARD:
		hit = clause->matches >= clause->number;
		break;
	case WHEN_EVERY:
		hit = clause->matches % clause->number == 0;
		break;
	case WHEN_ALWAYS:
		hit = true;
		break;
	case WHEN_TIME:
		break;
	}
	clause->hits += hit;
	return hit;
}

int fault_clause_describe(const struct fault_clause *clause, char *text, size_t size)
{
	if (clause->when == WHEN_TIME)
		return snprintf(text, size, "%.*s: %s", clause->text_length, clause->text,
				clause->hits ? "happened" : "did not happen");
	return snprintf(text, size, "%.*s: %llu of %llu %s", clause->text_length, clause->text,
			(unsigned long long)clause->hits, (unsigned long long)clause->matches,
			subjects[fault_clause_subject(clause)].plural);
}

void fault_clause_report(const struct fault_clause *clause)
{
	char text[CLAUSE_TEXT];

	fault_clause_describe(clause, text, sizeof(text));
	log_info("fault %s", text);
}
