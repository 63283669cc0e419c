/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * urxe top: what the processes with open devices are doing now, a line each, refreshed in place.
 * Rates are differences of two readings; where there is no terminal, or for JSON, each reading is
 * printed behind the one before.
 */
#include <argp.h>
#include <errno.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>
#include <utlist.h>
#include <wchar.h>

#include "net/clock.h"
#include "net/qp_text.h"
#include "urxe/command.h"
#include "urxe/json.h"
#include "urxe/options.h"
#include "urxe/processes.h"

struct request {
	struct observed_options options;
	double interval;     /* seconds */
	unsigned long count; /* 0: until it is ended */
	bool json;
};

/* --- rates ------------------------------------------------------------------------- */

/* A process, or one of its queue pairs, since the reading before. */
struct row {
	const struct observed *process;
	const struct observe_qp *qp; /* NULL: all of them */
	double sent_messages, sent_bytes, received_messages, received_bytes, resent; /* a second */
	double bytes; /* both ways: the order of rows */
	unsigned int qps;
	uint64_t outstanding, errors;
};

struct reading {
	uint64_t time; /* CLOCK_MONOTONIC, ns */
	struct observed *processes;
};

static const struct observed *same_process(const struct reading *reading,
					   const struct observed *process)
{
	const struct observed *other;

	LL_FOREACH (reading->processes, other) {
		if (strcmp(other->path, process->path) == 0)
			return other;
	}
	return NULL;
}

/* It has its place in the file for as long as it lives. */
static const struct observe_qp *same_qp(const struct observed *before,
					const struct observed *process, const struct observe_qp *qp)
{
	size_t offset = (const uint8_t *)qp - process->blocks;
	size_t block = offset / OBSERVE_BLOCK;
	const struct observe_qp *other;

	if (!before || block >= before->block_count || before->header.kind[block] != OBSERVE_QP)
		return NULL;
	other = (const void *)(before->blocks + offset);
	return other->head.id == qp->head.id ? other : NULL;
}

static double rate(uint64_t before, uint64_t now, double seconds)
{
	return now > before ? (now - before) / seconds : 0;
}

static void set_rates(struct row *row, const struct observe_totals *before,
		      const struct observe_totals *now, double seconds)
{
	const struct observe_traffic *from = &before->traffic, *to = &now->traffic;

	row->sent_messages = rate(from->sent_messages, to->sent_messages, seconds);
	row->sent_bytes = rate(from->sent_bytes, to->sent_bytes, seconds);
	row->received_messages = rate(from->received_messages, to->received_messages, seconds);
	row->received_bytes = rate(from->received_bytes, to->received_bytes, seconds);
	row->resent = rate(before->losses.resent, now->losses.resent, seconds);
	row->bytes = row->sent_bytes + row->received_bytes;
}

static void add_qps(struct row *row)
{
	const struct observe_qp *qp = NULL;

	while ((qp = observed_next(row->process, OBSERVE_QP, qp))) {
		row->qps++;
		row->outstanding += qp_outstanding(qp);
		row->errors += qp->errors;
	}
}

/* Without an earlier reading, what was done before isn't known to be of this time. */
static struct row process_row(const struct reading *before, const struct observed *process,
			      double seconds)
{
	const struct observed *earlier = same_process(before, process);
	struct observe_totals now = process_totals(process);
	struct observe_totals then = earlier ? process_totals(earlier) : now;
	struct row row = {.process = process};

	set_rates(&row, &then, &now, seconds);
	add_qps(&row);
	return row;
}

static struct row qp_row(const struct reading *before, const struct observed *process,
			 const struct observe_qp *qp, double seconds)
{
	const struct observe_qp *earlier = same_qp(same_process(before, process), process, qp);
	struct row row = {.process = process,
			  .qp = qp,
			  .qps = 1,
			  .outstanding = qp_outstanding(qp),
			  .errors = qp->errors};

	set_rates(&row, earlier ? &earlier->done : &qp->done, &qp->done, seconds);
	return row;
}

/* The busiest first; of those that do the same the process that began first. */
static int compare_rows(const void *a, const void *b)
{
	const struct row *x = a, *y = b;
	double x_messages = x->sent_messages + x->received_messages;
	double y_messages = y->sent_messages + y->received_messages;

	if (x->bytes != y->bytes)
		return x->bytes < y->bytes ? 1 : -1;
	if (x_messages != y_messages)
		return x_messages < y_messages ? 1 : -1;
	if (x->process->header.pid != y->process->header.pid)
		return x->process->header.pid < y->process->header.pid ? -1 : 1;
	return (x->qp ? x->qp->number : 0) < (y->qp ? y->qp->number : 0) ? -1 : 1;
}

struct table {
	struct row *rows;
	unsigned int count, capacity;
};

static void add_row(struct table *table, struct row row)
{
	if (table->count == table->capacity) {
		table->capacity = table->capacity ? 2 * table->capacity : 64;
		table->rows = realloc(table->rows, table->capacity * sizeof(*table->rows));
		if (!table->rows)
			die("out of memory");
	}
	table->rows[table->count++] = row;
}

static struct table make_table(const struct reading *before, const struct reading *now, bool qps)
{
	double seconds = before->time < now->time ? (now->time - before->time) / 1e9 : 1;
	const struct observed *process;
	const struct observe_qp *qp;
	struct table table = {};

	LL_FOREACH (now->processes, process) {
		if (!qps)
			add_row(&table, process_row(before, process, seconds));
		for (qp = NULL; qps && (qp = observed_next(process, OBSERVE_QP, qp));)
			add_row(&table, qp_row(before, process, qp, seconds));
	}
	if (table.count)
		qsort(table.rows, table.count, sizeof(*table.rows), compare_rows);
	return table;
}

/* --- text -------------------------------------------------------------------------- */

struct screen {
	unsigned int rows, columns;  /* 0: without end */
	const char *before, *behind; /* a line */
};

/* Of the character that @text begins with; what is none takes a column. Returns its bytes. */
static int measure(const char *text, unsigned int *columns)
{
	wchar_t character;
	int length = mbtowc(&character, text, MB_CUR_MAX);
	int width = length > 0 ? wcwidth(character) : 1;

	*columns = width >= 0 ? width : 1;
	return length > 0 ? length : 1;
}

/* Bytes of what fits of @line, in whole characters. */
static int fitting(const struct screen *screen, const char *line)
{
	unsigned int used = 0, columns;
	const char *end = line;

	while (*end) {
		int length = measure(end, &columns);

		used += columns;
		if (screen->columns && used > screen->columns)
			break;
		end += length;
	}
	return end - line;
}

static void print_line(const struct screen *screen, const char *line)
{
	printf("%s%.*s%s", screen->before, fitting(screen, line), line, screen->behind);
}

static void print_row(const struct screen *screen, const struct row *row)
{
	char sent[AMOUNT_TEXT], sent_bytes[AMOUNT_TEXT], received[AMOUNT_TEXT];
	char received_bytes[AMOUNT_TEXT], resent[AMOUNT_TEXT], outstanding[AMOUNT_TEXT];
	char errors[AMOUNT_TEXT], which[16], line[512];

	if (row->qp)
		snprintf(which, sizeof(which), "%06x %-5s", row->qp->number,
			 qp_state_text(row->qp->progress.state));
	else
		snprintf(which, sizeof(which), "%12u", row->qps);
	snprintf(line, sizeof(line), "%8u %12s %7s %7s %7s %7s %7s %6s %6s %s%s",
		 row->process->header.pid, which, amount_text(row->sent_messages, sent),
		 amount_text(row->sent_bytes, sent_bytes),
		 amount_text(row->received_messages, received),
		 amount_text(row->received_bytes, received_bytes),
		 amount_text(row->outstanding, outstanding), amount_text(row->resent, resent),
		 amount_text(row->errors, errors),
		 row->process->state == OBSERVED_STOPPED ? "(stopped) " : "",
		 row->process->header.command);
	print_line(screen, line);
}

static void print_summary(const struct screen *screen, const struct reading *now,
			  const struct table *table)
{
	double sent = 0, received = 0;
	char sent_text[AMOUNT_TEXT], received_text[AMOUNT_TEXT], line[256];
	const struct observed *process;
	unsigned int processes = 0;

	LL_COUNT(now->processes, process, processes);
	for (unsigned int i = 0; i < table->count; i++) {
		sent += table->rows[i].sent_bytes;
		received += table->rows[i].received_bytes;
	}
	snprintf(line, sizeof(line), "%u process%s, sent %sB/s, received %sB/s", processes,
		 processes == 1 ? "" : "es", amount_text(sent, sent_text),
		 amount_text(received, received_text));
	print_line(screen, line);
}

static void print_table(const struct screen *screen, const struct reading *now,
			const struct table *table, bool qps)
{
	char line[128];
	/* Beside two lines above them and one below; the last line stays empty. */
	unsigned int fits = screen->rows > 4 ? screen->rows - 4 : screen->rows ? 0 : table->count;

	print_summary(screen, now, table);
	snprintf(line, sizeof(line), "%8s %12s %7s %7s %7s %7s %7s %6s %6s %s", "PID",
		 qps ? "QP STATE" : "QPs", "OUT/s", "B/s", "IN/s", "B/s", "QUEUED", "AGAIN/s",
		 "ERRORS", "COMMAND");
	print_line(screen, line);
	for (unsigned int i = 0; i < table->count && i < fits; i++)
		print_row(screen, &table->rows[i]);
	if (fits < table->count) {
		snprintf(line, sizeof(line), "and %u more", table->count - fits);
		print_line(screen, line);
	}
}

/* --- JSON: an object a line ---------------------------------------------------------- */

static json_t *row_json(const struct row *row)
{
	json_t *json = process_json(row->process);

	json_object_set_new(json, "rates",
			    json_pack("{s:f, s:f, s:f, s:f, s:f}", "sent_messages",
				      row->sent_messages, "sent_bytes", row->sent_bytes,
				      "received_messages", row->received_messages, "received_bytes",
				      row->received_bytes, "resent", row->resent));
	return json;
}

static void print_json(const struct reading *before, const struct reading *now,
		       const struct table *table)
{
	json_t *list = json_array();

	for (unsigned int i = 0; i < table->count; i++)
		json_array_append_new(list, row_json(&table->rows[i]));
	json_print(stdout,
		   json_pack("{s:f, s:o}", "seconds", (now->time - before->time) / 1e9, "processes",
			     list),
		   JSON_COMPACT);
}

/* --- the terminal ------------------------------------------------------------------ */

static struct termios usual;
static volatile sig_atomic_t ended;

static void end(int signal)
{
	ended = true;
}

static void wake(int signal)
{
}

static void handle(int number, void (*handler)(int))
{
	struct sigaction action = {.sa_handler = handler}; /* poll() ends with EINTR */

	sigaction(number, &action, NULL);
}

/* As poll(2), for so many ns; a signal that came just before ends it, too. */
static int wait_or_end(struct pollfd *descriptors, nfds_t count, uint64_t ns)
{
	const struct timespec time = clock_timespec(ns);
	sigset_t all, before;
	int ready = -1;

	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &before);
	if (!ended)
		ready = ppoll(descriptors, count, &time, &before);
	sigprocmask(SIG_SETMASK, &before, NULL);
	return ready;
}

static void leave_terminal(void)
{
	die_first = NULL;
	fputs("\033[?25h\033[?1049l", stdout);
	fflush(stdout);
	tcsetattr(STDIN_FILENO, TCSANOW, &usual);
}

/* Another screen, keys without RETURN, and no cursor: until leave_terminal(). */
static void enter_terminal(void)
{
	struct termios keys = usual;

	die_first = leave_terminal;
	keys.c_lflag &= ~(ICANON | ECHO);
	keys.c_cc[VSUSP] = _POSIX_VDISABLE; /* the shell would find the terminal like this */
	tcsetattr(STDIN_FILENO, TCSANOW, &keys);
	fputs("\033[?1049h\033[?25l", stdout);
	handle(SIGWINCH, wake);
}

/* One that obeys control sequences: that of an editor, or of a script, may say that it doesn't. */
static bool has_terminal(void)
{
	const char *kind = getenv("TERM");

	return kind && *kind && strcmp(kind, "dumb") != 0 && isatty(STDOUT_FILENO) &&
	       tcgetattr(STDIN_FILENO, &usual) == 0;
}

static struct screen terminal_screen(void)
{
	/* What is erased behind a line that ends with the last column is its last character. */
	struct screen screen = {.rows = 24, .columns = 80, .before = "\033[K", .behind = "\r\n"};
	struct winsize size;

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row && size.ws_col) {
		screen.rows = size.ws_row;
		screen.columns = size.ws_col;
	}
	return screen;
}

static void draw(const struct reading *before, const struct reading *now, bool qps)
{
	struct screen screen = terminal_screen();
	struct table table = make_table(before, now, qps);

	fputs("\033[H", stdout);
	print_table(&screen, now, &table, qps);
	printf("\033[J");
	fflush(stdout);
	free(table.rows);
}

/* Returns whether the time is up; false: a key was pressed, or the window has another size. */
static bool wait_for_key(uint64_t until, int *key)
{
	struct pollfd keys = {.fd = STDIN_FILENO, .events = POLLIN};
	uint64_t now = clock_now();
	char byte;

	*key = 0;
	if (now >= until || wait_or_end(&keys, 1, until - now) == 0)
		return true;
	if (keys.revents & POLLIN && read(STDIN_FILENO, &byte, 1) == 1)
		*key = byte;
	else if (keys.revents)
		*key = 'q'; /* the terminal is gone */
	return false;
}

/* --- readings ---------------------------------------------------------------------- */

static struct reading read_now(const struct request *request)
{
	struct reading reading = {.processes = processes_read(&request->options)};

	reading.time = clock_now();
	return reading;
}

static void replace(struct reading *before, struct reading *now, const struct request *request)
{
	observed_free(before->processes);
	*before = *now;
	*now = read_now(request);
}

static void show_on_terminal(const struct request *request)
{
	struct reading before = read_now(request), now = read_now(request);
	uint64_t interval = request->interval * 1e9, next = clock_now() + interval;
	unsigned long shown = 0;
	bool qps = false;
	int key = 0;

	enter_terminal();
	while (!ended && key != 'q') {
		draw(&before, &now, qps);
		if (wait_for_key(next, &key)) {
			if (++shown == request->count)
				break;
			replace(&before, &now, request);
			next = clock_now() + interval;
		}
		qps ^= key == 'p';
	}
	leave_terminal();
	observed_free(before.processes);
	observed_free(now.processes);
}

static void show_as_list(const struct request *request)
{
	const struct screen screen = {.before = "", .behind = "\n"};
	struct reading before = {}, now = read_now(request);
	struct table table;

	for (unsigned long shown = 0; !ended && (!request->count || shown < request->count);
	     shown++) {
		wait_or_end(NULL, 0, request->interval * 1e9);
		if (ended)
			break;
		replace(&before, &now, request);
		table = make_table(&before, &now, false);
		if (request->json)
			print_json(&before, &now, &table);
		else
			print_table(&screen, &now, &table, false);
		fflush(stdout);
		free(table.rows);
		if (ferror(stdout))
			break;
	}
	observed_free(before.processes);
	observed_free(now.processes);
}

/* --- options ----------------------------------------------------------------------- */

enum { JSON = 0x100 };

static const struct argp_option options[] = {
	{"all", 'a', NULL, 0, "Processes of other network namespaces, too"},
	{"count", 'n', "NUMBER", 0, "End after so many readings"},
	{"interval", 'i', "SECONDS", 0, "From one reading to the next; 1"},
	{"json", JSON, NULL, 0, "Print JSON, an object a line for each reading"},
	{0},
};

#define LEAST_INTERVAL 0.01 /* seconds */
#define MOST 1000000	    /* seconds, readings */

static error_t parse(int key, char *argument, struct argp_state *state)
{
	struct request *request = state->input;

	switch (key) {
	case 'a':
		request->options.all_namespaces = true;
		return 0;
	case 'i':
		request->interval = option_decimal("--interval", argument, LEAST_INTERVAL, MOST);
		return 0;
	case 'n':
		request->count = option_number("--count", argument, 1, MOST);
		return 0;
	case JSON:
		request->json = true;
		return 0;
	case ARGP_KEY_ARG:
		die("top takes no argument: %s", given(argument));
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

int command_top(int argc, char **argv)
{
	static const struct argp argp = {
		.options = options,
		.parser = parse,
		.children = plain_options,
		.doc = "Show what the processes of this user do with emulated devices, the busiest "
		       "first, refreshed in place.\vKeys: p processes or queue pairs, q end. "
		       "Without a terminal each reading is printed.",
	};
	struct request request = {.interval = 1};

	if (argp_parse(&argp, argc, argv, 0, NULL, &request))
		return EXIT_REFUSED;
	setlocale(LC_CTYPE, "C.UTF-8");
	handle(SIGINT, end);
	handle(SIGQUIT, end);
	handle(SIGTERM, end);
	handle(SIGHUP, end);
	if (!request.json && has_terminal())
		show_on_terminal(&request);
	else
		show_as_list(&request);
	return EXIT_SUCCESS;
}
