/* SPDX-License-Identifier: BSD-2-Clause */
#include "causes.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "emu/objects/mw.h"
#include "net/guard.h"
#include "net/log.h"
#include "tests/said.h"

#define MADE 8
#define PAGE 4096

struct pair p;
struct peer peer;

static struct {
	bool pair, peer;
	struct pd *pds[MADE];
	struct mr *mrs[MADE];
	struct mw *mws[MADE];
	struct qp *qps[MADE];
	unsigned int pd_count, mr_count, mw_count, qp_count;
	uint8_t *gone;
} made;

/* --- what scenarios are made of ---------------------------------------------------------- */

void causes_pair(enum ibv_qp_type type, const struct connection *c)
{
	made.pair = true;
	pair_create(&p, type, NULL, 1, c);
}

void causes_peer(enum ibv_qp_type type, const struct connection *c)
{
	made.peer = true;
	peer_create_srq(&peer, type, c ? c : &world_connection, type == IBV_QPT_XRC_RECV ? 4 : 0);
}

struct pd *causes_pd(struct node *node)
{
	must(made.pd_count < MADE);
	ck_assert_int_eq(pd_alloc(node->hca, &made.pds[made.pd_count]), 0);
	return made.pds[made.pd_count++];
}

struct mr *causes_mr(struct pd *pd, void *memory, size_t length, int access)
{
	must(made.mr_count < MADE);
	ck_assert_int_eq(mr_register(pd, memory, length, (uintptr_t)memory, access,
				     &made.mrs[made.mr_count]),
			 0);
	return made.mrs[made.mr_count++];
}

struct mr *causes_null_mr(struct node *node)
{
	must(made.mr_count < MADE);
	ck_assert_int_eq(mr_alloc_null(node->pd, &made.mrs[made.mr_count]), 0);
	return made.mrs[made.mr_count++];
}

struct mw *causes_mw(struct pd *pd, enum ibv_mw_type type)
{
	must(made.mw_count < MADE);
	ck_assert_int_eq(mw_alloc(pd, type, &made.mws[made.mw_count]), 0);
	return made.mws[made.mw_count++];
}

struct qp *causes_qp(struct node *node)
{
	struct qp_options options = {
		.type = IBV_QPT_RC,
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1}};

	must(made.qp_count < MADE);
	made.qps[made.qp_count] = world_qp(node, &options);
	return made.qps[made.qp_count++];
}

static bool returns;

static void on_signal(int number, siginfo_t *info, void *context)
{
	if (returns)
		mmap(made.gone, PAGE, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	if (!guard_catch(number, info, context))
		abort();
}

/* libc's own: a handler that TSan has in its hands mustn't jump. */
int __sigaction(int number, const struct sigaction *action, struct sigaction *old);

struct mr *causes_gone(struct pd *pd, int access, bool comes_back)
{
	struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO};
	struct mr *mr;

	sigemptyset(&action.sa_mask);
	ck_assert_int_eq(__sigaction(SIGSEGV, &action, NULL), 0);
	returns = comes_back;
	made.gone = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(made.gone, MAP_FAILED);
	mr = causes_mr(pd, made.gone, PAGE, access);
	ck_assert_int_eq(munmap(made.gone, PAGE), 0);
	return mr;
}

static void destroy(void)
{
	for (unsigned int i = 0; i < made.qp_count; i++)
		ck_assert_int_eq(qp_destroy(made.qps[i]), 0);
	for (unsigned int i = 0; i < made.mw_count; i++)
		mw_dealloc(made.mws[i]);
	for (unsigned int i = 0; i < made.mr_count; i++)
		ck_assert_int_eq(mr_deregister(made.mrs[i]), 0);
	for (unsigned int i = 0; i < made.pd_count; i++)
		ck_assert_int_eq(pd_dealloc(made.pds[i]), 0);
	if (made.pair)
		pair_destroy(&p);
	if (made.peer)
		peer_destroy(&peer);
	memset(&made, 0, sizeof(made));
}

void causes_post(struct qp *qp, enum ibv_wr_opcode opcode, uint64_t addr, uint32_t length,
		 uint32_t lkey)
{
	struct ibv_sge sge = {addr, length, lkey};
	struct ibv_send_wr wr = {
		.wr_id = 7,
		.opcode = opcode,
		.sg_list = &sge,
		.num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = {(uintptr_t)p.mb, p.rb->ibv.rkey},
	};

	ck_assert_int_eq(world_post_send(qp, &wr), 0);
}

void causes_reach(enum ibv_wr_opcode opcode, uint64_t va, uint32_t length, uint32_t rkey)
{
	struct pair_wr request;

	pair_wr(&p, &request, opcode, length, 7);
	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		request.wr.wr.atomic.remote_addr = va;
		request.wr.wr.atomic.rkey = rkey;
	} else {
		request.wr.wr.rdma.remote_addr = va;
		request.wr.wr.rdma.rkey = rkey;
	}
	ck_assert_int_eq(world_post_send(p.qa, &request.wr), 0);
}

void causes_request(const struct peer_packet *packet)
{
	struct peer_packet complete = *packet;

	complete.psn = peer.psn;
	complete.va += (uintptr_t)peer.memory;
	if (!complete.rkey)
		complete.rkey = peer.mr->ibv.rkey;
	peer_send(&peer, &complete);
	world_run(&peer.world, 10000);
	peer.psn = psn_add(peer.psn, 1);
}

/* --- looking at it ------------------------------------------------------------------------- */

static struct said said;

static void look_at(struct node *node, const struct outcome *outcome)
{
	struct ibv_wc wc;

	if (!outcome->status)
		return;
	do {
		wc = world_completion(node, 1000 * SECOND);
	} while (wc.status == IBV_WC_SUCCESS);
	must_msg(wc.status == outcome->status && wc.vendor_err == outcome->cause,
		 "status %d with cause 0x%04x, not %d with 0x%04x", wc.status, wc.vendor_err,
		 outcome->status, outcome->cause);
}

static void play(const struct cause_row *row)
{
	row->provoke();
	if (made.peer) {
		look_at(peer.node, &row->a);
		world_run(&peer.world, MS);
	}
	if (made.pair) {
		look_at(p.a, &row->a);
		look_at(p.b, &row->b);
		world_run(&p.world, MS);
	}
}

/* A paragraph: an error, or what an application waits for (cause_warn_text()). */
static bool is_explained(const struct cause_entry *entry)
{
	return entry->kind == CAUSE_ERROR || entry->cause == CAUSE_PEER_NOT_READING;
}

/* Once, as a paragraph or as a line, with what was found. */
static void check_report(enum cause cause, const char *found)
{
	const struct cause_entry *entry = cause_find(cause);
	const char *report, *end;
	char title[256], part[2048];

	ck_assert_ptr_nonnull(entry);
	snprintf(title, sizeof(title),
		 is_explained(entry) ? "] 0x%04x %s\n" : ": 0x%04x %s: ", cause, entry->title);
	report = strstr(said.text, title);
	must_msg(report, "no report of 0x%04x %s in:\n%s", cause, entry->name, said.text);
	if (entry->kind == CAUSE_ERROR)
		must_msg(said_count(&said, cause) == 1, "0x%04x twice in:\n%s", cause, said.text);
	end = strstr(report, "\nurxe[");
	snprintf(part, sizeof(part), "%.*s", end ? (int)(end - report) : (int)strlen(report),
		 report);
	must_msg(!found || strstr(part, found), "no \"%s\" in:\n%s", found, part);
	must_msg(entry->kind != CAUSE_ERROR || strstr(part, "(urxe explain 0x"), "%s", part);
}

/* What @outcome's completion says is reported, too, unless it is flushed. */
static void check_other(const struct cause_row *row, const struct outcome *outcome)
{
	if (outcome->status && outcome->cause != row->cause)
		check_report(outcome->cause, NULL);
}

static void check_row(const struct cause_row *row)
{
	log_set_level(LOG_INFO);
	cause_configure(true);
	said_begin(&said);
	play(row);
	said_end(&said);
	check_report(row->cause, row->found);
	check_other(row, &row->a);
	check_other(row, &row->b);
	destroy();
}

static const struct cause_table *table; /* of this program */

START_TEST(cause)
{
	check_row(&table->rows[_i]);
}
END_TEST

static bool has_row(enum cause cause)
{
	for (unsigned int i = 0; i < table->count; i++) {
		if (table->rows[i].cause == cause)
			return true;
	}
	return false;
}

static bool is_elsewhere(enum cause cause)
{
	for (const enum cause *other = table->elsewhere; other && *other; other++) {
		if (*other == cause)
			return true;
	}
	return false;
}

START_TEST(every_cause_has_a_test)
{
	const struct cause_entry *entry;

	for (unsigned int i = 0; (entry = cause_at(i)); i++) {
		if ((uint32_t)entry->cause < table->first || (uint32_t)entry->cause > table->last)
			continue;
		must_msg(has_row(entry->cause) != is_elsewhere(entry->cause),
			 "0x%04x %s has no test, or two", entry->cause, entry->name);
	}
}
END_TEST

int causes_main(const struct cause_table *rows)
{
	TCase *tcase = tcase_create(rows->name);

	table = rows;
	tcase_add_loop_test(tcase, cause, 0, table->count);
	tcase_add_test(tcase, every_cause_has_a_test);
	return world_main(table->name, (TCase *const[]){tcase, NULL});
}
