/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * urxe explain: pages of the catalogue of causes (net/cause), by number, by name, or by what
 * applications see: a status of a completion, an event, an errno, or the text for one.
 */
#include "urxe/explain.h"

#include <argp.h>
#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "net/cause/cause.h"
#include "net/fault/fault_words.h"
#include "net/verbs_text.h"
#include "urxe/command.h"
#include "urxe/options.h"

#define WIDTH 78

/* What is below is a status or an errno, and no cause. */
#define FIRST_CAUSE 0x1000

/* --- a page ------------------------------------------------------------------------ */

/* @text, its lines broken between words; @first stands before each line of the text itself. */
static void print_wrapped(const char *first, const char *text)
{
	int indent = strlen(first), column = 0;

	while (*text) {
		int word = strcspn(text, " \n");

		if (column == 0)
			column = printf("%s", first);
		else if (column + 1 + word > WIDTH)
			column = printf("\n%*s", indent, "") - 1;
		else
			column += printf(" ");
		column += printf("%.*s", word, text);
		text += word;
		if (*text == '\n') {
			putchar('\n');
			column = 0;
		}
		text += *text != '\0';
	}
	putchar('\n');
}

static void print_page(const struct cause_entry *entry)
{
	printf("0x%04x  %s%s\n\n", entry->cause, entry->name,
	       entry->kind == CAUSE_NOTICE   ? "  (not an error by itself)"
	       : entry->kind == CAUSE_MISUSE ? "  (reported by the checker)"
					     : "");
	print_wrapped("", entry->title);
	printf("\nWhat the application sees\n");
	print_wrapped("    ", entry->shows);
	printf("\nWhat it means\n");
	print_wrapped("    ", entry->meaning);
	printf("\nUsual reasons\n");
	print_wrapped("  - ", entry->reasons);
	printf("\nWhat to look at\n");
	print_wrapped("  - ", entry->advice);
}

static void print_list(void)
{
	const struct cause_entry *entry;

	for (unsigned int i = 0; (entry = cause_at(i)); i++)
		printf("0x%04x  %-28s  %s\n", entry->cause, entry->name, entry->title);
}

/* --- by what applications see --------------------------------------------------------- */

static bool in_name(char character)
{
	return isalnum((unsigned char)character) || character == '_';
}

/* Where in @text the whole @word is; NULL: it isn't there. */
static const char *find_word(const char *text, const char *word)
{
	size_t length = strlen(word);

	for (const char *at = text; (at = strcasestr(at, word)); at += length) {
		if ((at == text || !in_name(at[-1])) && !in_name(at[length]))
			return at;
	}
	return NULL;
}

static void print_brief(const struct cause_entry *entry)
{
	printf("\n0x%04x  %s\n", entry->cause, entry->name);
	print_wrapped("        ", entry->title);
	print_wrapped("        ", entry->shows);
}

/* Name the causes that show as @status; returns whether there are any. */
static bool list_causes(const char *status)
{
	const struct cause_entry *entry;
	const char *word;
	bool found = false;

	for (unsigned int i = 0; (entry = cause_at(i)); i++) {
		word = find_word(entry->shows, status);
		if (!word)
			continue;
		if (!found)
			printf("%.*s can have these causes; urxe explain NUMBER tells more of "
			       "one.\n",
			       (int)strlen(status), word);
		found = true;
		print_brief(entry);
	}
	return found;
}

/* A status or an event of other devices, as those of NICs that fail: here a fault can give it. */
static bool list_faults(const char *status)
{
	static const struct {
		const char *prefix;
		const struct fault_words *names;
		unsigned int cause;
	} kinds[] = {
		{WC_STATUS_PREFIX, &fault_statuses, CAUSE_INJECTED_COMPLETION},
		{EVENT_TYPE_PREFIX, &fault_events, CAUSE_INJECTED_EVENT},
	};

	for (unsigned int i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		size_t prefix = strlen(kinds[i].prefix);
		unsigned int number;

		if (strncmp(status, kinds[i].prefix, prefix) != 0 ||
		    !fault_words_find(kinds[i].names, status + prefix, strlen(status + prefix),
				      &number))
			continue;
		printf("%s comes of faults alone here (urxe-faults(7)).\n", status);
		print_brief(cause_find(kinds[i].cause));
		return true;
	}
	return false;
}

static bool explain_constant(const char *status)
{
	return list_causes(status) || list_faults(status);
}

static bool is_name(const char *text)
{
	const char *end = text;

	while (in_name(*end))
		end++;
	return end > text && !*end;
}

/* @name in capitals, behind @prefix. */
static void put_constant(char constant[64], const char *prefix, const char *name)
{
	snprintf(constant, 64, "%s%s", prefix, name);
	for (char *letter = constant; *letter; letter++)
		*letter = toupper((unsigned char)*letter);
}

/* 0 for what names no errno. Two have a name besides the one that strerrorname_np() gives. */
static unsigned int errno_number(const char *constant)
{
	static const struct {
		const char *name;
		unsigned int number;
	} others[] = {{"ENOTSUP", ENOTSUP}, {"EWOULDBLOCK", EWOULDBLOCK}};
	unsigned int number = 0;

	for (unsigned int i = 0; i < sizeof(others) / sizeof(*others); i++) {
		if (strcmp(constant, others[i].name) == 0)
			return others[i].number;
	}
	fault_words_find(&fault_errnos, constant, strlen(constant), &number);
	return number;
}

/*
 * A status without the prefix that all of its kind have is good enough. What shows is text, too:
 * a word of it that isn't a name is no subject.
 */
static bool explain_status(const char *name)
{
	static const char *const prefixes[] = {WC_STATUS_PREFIX, EVENT_TYPE_PREFIX,
					       "RDMA_CM_EVENT_", ""};
	char constant[64];
	unsigned int error;
	bool found = false;

	if (!is_name(name))
		return false;
	put_constant(constant, "", name);
	error = errno_number(constant);
	if (error)
		return list_causes(strerrorname_np(error));
	for (unsigned int i = 0; !found && i < sizeof(prefixes) / sizeof(*prefixes); i++) {
		if (!*prefixes[i] && !strchr(name, '_'))
			break;
		put_constant(constant, prefixes[i], name);
		found = explain_constant(constant);
	}
	return found;
}

/* Many programs print what ibv_wc_status_str() says, or ibv_event_type_str(). */
static bool explain_text(const char *words)
{
	const struct verbs_text *text;
	bool found = false;

	for (unsigned int i = 0; !found && i < VERBS_TEXTS; i++) {
		if (((text = wc_status_text(i)) && strcasecmp(text->text, words) == 0) ||
		    ((text = event_type_text(i)) && strcasecmp(text->text, words) == 0))
			found = explain_constant(text->constant);
	}
	return found;
}

/* A small number may be either. */
static bool explain_status_number(unsigned long number)
{
	const char *error = number ? strerrorname_np(number) : NULL; /* "0" is no errno */
	const struct verbs_text *status = wc_status_text(number);
	bool found = status && explain_constant(status->constant);

	if (error) {
		if (found)
			putchar('\n');
		found |= list_causes(error);
	}
	return found;
}

/* --- by number or name ---------------------------------------------------------------- */

static const struct cause_entry *find_name(const char *name)
{
	const struct cause_entry *entry;

	if (strncasecmp(name, "CAUSE_", 6) == 0)
		name += 6;
	for (unsigned int i = 0; (entry = cause_at(i)); i++) {
		if (strcasecmp(entry->name, name) == 0)
			return entry;
	}
	return NULL;
}

/* Applications print vendor_err in hexadecimal, too, and not all with 0x. */
static const struct cause_entry *find_number(const char *text)
{
	static const int bases[] = {0, 16};
	const struct cause_entry *entry = NULL;

	for (unsigned int i = 0; !entry && i < sizeof(bases) / sizeof(*bases); i++) {
		char *end;
		unsigned long number = strtoul(text, &end, bases[i]);

		if (!*end && number <= UINT32_MAX)
			entry = cause_find(number);
	}
	return entry;
}

static bool explain(const char *subject)
{
	const struct cause_entry *entry = find_number(subject);
	char *end;
	unsigned long number;

	if (entry || (entry = find_name(subject))) {
		print_page(entry);
		return true;
	}
	number = strtoul(subject, &end, 0);
	if (end == subject || *end)
		return explain_status(subject) || explain_text(subject);
	return number < FIRST_CAUSE && explain_status_number(number);
}

/* --- the command ------------------------------------------------------------------------ */

enum { LIST = 0x100, MARKDOWN };

struct request {
	void (*print_all)(void); /* or NULL: what is named */
	int status;
};

static error_t parse(int key, char *argument, struct argp_state *state)
{
	struct request *request = state->input;

	switch (key) {
	case LIST:
		request->print_all = print_list;
		return 0;
	case MARKDOWN:
		request->print_all = explain_markdown;
		return 0;
	case ARGP_KEY_ARG:
		if (request->print_all)
			die("--list and --markdown have all causes, and take no argument: %s",
			    given(argument));
		if (state->arg_num > 0)
			printf("\n\n");
		if (!explain(argument)) {
			fprintf(stderr, "urxe: nothing is known of %s; see urxe explain --list\n",
				given(argument));
			request->status = EXIT_FAILURE;
		}
		return 0;
	case ARGP_KEY_NO_ARGS:
		if (request->print_all)
			request->print_all();
		else
			argp_usage(state);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

int command_explain(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{"list", LIST, NULL, 0, "List all causes"},
		{"markdown", MARKDOWN, NULL, 0, "Write all of them, as docs/errors.md has them"},
		{0},
	};
	static const struct argp argp = {
		.options = options,
		.parser = parse,
		.args_doc = "NUMBER|NAME...",
		.children = plain_options,
		.doc = "Explain why an operation or a call failed.\v"
		       "NUMBER is that of a cause, as in vendor_err of a completion and in "
		       "messages of the library. For the name or the number of a completion's "
		       "status, for an event or an errno, the causes are named that show as it; so "
		       "they are for the text of a status or an event, in quotes.",
	};
	struct request request = {.status = EXIT_SUCCESS};

	if (argp_parse(&argp, argc, argv, 0, NULL, &request))
		return EXIT_REFUSED;
	return request.status;
}
