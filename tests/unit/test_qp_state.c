/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The state table against the lines below, which are Linux's qp_state_table as
 * text (types that the core lacks left in), with every attribute bit tried on
 * every pair of states.
 */
#include <errno.h>
#include <stdio.h>

#include "core.h"
#include "emu/objects/qp_state.h"

static const char *const lines[] = {
	"RESET RESET |RC UC UD XRC_SEND XRC_RECV||",
	"RESET INIT |RC UC XRC_SEND XRC_RECV|PKEY,PORT,ACC|",
	"RESET INIT |UD|PKEY,PORT,QKEY|",
	"INIT RESET |RC UC UD XRC_SEND XRC_RECV||",
	"INIT ERR |RC UC UD XRC_SEND XRC_RECV||",
	"INIT INIT |RC UC XRC_SEND XRC_RECV||PKEY,PORT,ACC",
	"INIT INIT |UD||PKEY,PORT,QKEY",
	"INIT RTR |RC XRC_RECV|AV,MTU,DQPN,RQPSN,DRA,RNRT|ALT,ACC,PKEY",
	"INIT RTR |UC XRC_SEND|AV,MTU,DQPN,RQPSN|ALT,ACC,PKEY",
	"INIT RTR |UD||PKEY,QKEY",
	"RTR RESET |RC UC UD XRC_SEND XRC_RECV||",
	"RTR ERR |RC UC UD XRC_SEND XRC_RECV||",
	"RTR RTS |RC|TMO,RETRY,RNR,SQPSN,RA|CUR,ALT,ACC,RNRT,MIG",
	"RTR RTS |UC|SQPSN|CUR,ALT,ACC,MIG",
	"RTR RTS |UD|SQPSN|CUR,QKEY",
	"RTR RTS |XRC_SEND|TMO,RETRY,RNR,SQPSN,RA|CUR,ALT,ACC,MIG",
	"RTR RTS |XRC_RECV|TMO,SQPSN|CUR,ALT,ACC,RNRT,MIG",
	"RTS RESET |RC UC UD XRC_SEND XRC_RECV||",
	"RTS ERR |RC UC UD XRC_SEND XRC_RECV||",
	"RTS RTS |RC XRC_RECV||CUR,ACC,ALT,MIG,RNRT",
	"RTS RTS |UC XRC_SEND||CUR,ACC,ALT,MIG",
	"RTS RTS |UD||CUR,QKEY",
	"RTS SQD |RC UC UD XRC_SEND XRC_RECV||SQDN",
	"SQD RESET |RC UC UD XRC_SEND XRC_RECV||",
	"SQD ERR |RC UC UD XRC_SEND XRC_RECV||",
	"SQD RTS |RC XRC_RECV||CUR,ALT,ACC,RNRT,MIG",
	"SQD RTS |UC XRC_SEND||CUR,ALT,ACC,MIG",
	"SQD RTS |UD||CUR,QKEY",
	"SQD SQD |RC||PORT,AV,TMO,RETRY,RNR,RA,DRA,ALT,ACC,PKEY,RNRT,MIG",
	"SQD SQD |UC||AV,ALT,ACC,PKEY,MIG",
	"SQD SQD |UD||PKEY,QKEY",
	"SQD SQD |XRC_SEND||PORT,AV,TMO,RETRY,RNR,RA,ALT,ACC,PKEY,MIG",
	"SQD SQD |XRC_RECV||PORT,AV,TMO,DRA,ALT,ACC,PKEY,RNRT,MIG",
	"SQE RESET |RC UC UD XRC_SEND XRC_RECV||",
	"SQE ERR |RC UC UD XRC_SEND XRC_RECV||",
	"SQE RTS |RC XRC_SEND XRC_RECV RAW||",
	"SQE RTS |UC||CUR,ACC",
	"SQE RTS |UD||CUR,QKEY",
	"ERR RESET |RC UC UD XRC_SEND XRC_RECV||",
	"ERR ERR |RC UC UD XRC_SEND XRC_RECV||",
};

/* By bit number. */
static const char *const bits[] = {"STATE", "CUR",  "SQDN",  "ACC",   "PKEY", "PORT",  "QKEY",
				   "AV",    "MTU",  "TMO",   "RETRY", "RNR",  "RQPSN", "RA",
				   "ALT",   "RNRT", "SQPSN", "DRA",   "MIG",  "CAP",   "DQPN"};
static const char *const states[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR", "?"};

#define BITS 21
#define RATE_LIMIT_BIT 25
#define NOT_THERE (-1)

/* Whether @word is an element of @list (a word, separated by spaces or commas). */
static bool listed(const char *list, const char *word)
{
	size_t length = strlen(word);

	for (const char *at = list; (at = strstr(at, word)); at++) {
		bool begins = at == list || at[-1] == ' ' || at[-1] == ',';

		if (begins && strchr(" ,", at[length]))
			return true;
	}
	return false;
}

static int mask_of(const char *list)
{
	int mask = 0;

	for (int i = 0; i < BITS; i++)
		mask |= listed(list, bits[i]) << i;
	return mask;
}

/* The masks for a transition; required is NOT_THERE when there is no such one. */
static void expectation(const char *type, int from, int to, int *required, int *optional)
{
	char pair[32];

	*required = NOT_THERE;
	*optional = 0;
	snprintf(pair, sizeof(pair), "%s %s ", states[from], states[to]);
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		char line[200], *rest = line;
		const char *which, *types, *needs, *allows;

		strcpy(line, lines[i]);
		which = strsep(&rest, "|");
		types = strsep(&rest, "|");
		needs = strsep(&rest, "|");
		allows = rest;
		if (strcmp(which, pair) || !listed(types, type))
			continue;
		ck_assert_int_eq(*required, NOT_THERE);
		*required = mask_of(needs);
		*optional = mask_of(allows);
	}
}

static int bit_expectation(int bit, int allowed)
{
	if (bit >= BITS)
		return bit == RATE_LIMIT_BIT ? EINVAL : EOPNOTSUPP;
	return (allowed | IBV_QP_STATE) >> bit & 1 ? 0 : EINVAL;
}

static void check_pair(enum ibv_qp_type type, const char *name, int from, int to)
{
	int required, optional;

	expectation(name, from, to, &required, &optional);
	if (required == NOT_THERE) {
		ck_assert_int_eq(qp_state_check(type, from, to, IBV_QP_STATE), EINVAL);
		return;
	}
	ck_assert_int_eq(qp_state_check(type, from, to, required), 0);
	ck_assert_int_eq(qp_state_check(type, from, to, required | optional | IBV_QP_STATE), 0);
	for (int bit = 0; bit < 32; bit++) {
		int with = required | (int)(1u << bit), without = required & ~(int)(1u << bit);

		ck_assert_msg(qp_state_check(type, from, to, with) ==
				      bit_expectation(bit, required | optional),
			      "%s %s->%s with bit %d", name, states[from], states[to], bit);
		if (without != required)
			ck_assert_int_eq(qp_state_check(type, from, to, without), EINVAL);
	}
}

START_TEST(every_transition_with_every_attribute)
{
	for (int from = 0; from <= IBV_QPS_UNKNOWN; from++) {
		for (int to = 0; to <= IBV_QPS_UNKNOWN; to++) {
			check_pair(IBV_QPT_RC, "RC", from, to);
			check_pair(IBV_QPT_UC, "UC", from, to);
			check_pair(IBV_QPT_UD, "UD", from, to);
			check_pair(IBV_QPT_XRC_SEND, "XRC_SEND", from, to);
			check_pair(IBV_QPT_XRC_RECV, "XRC_RECV", from, to);
		}
	}
}
END_TEST

START_TEST(other_types_and_states_have_no_transitions)
{
	const int types[] = {0, 1, IBV_QPT_RAW_PACKET, IBV_QPT_DRIVER, -1};

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		ck_assert_int_eq(qp_state_check(types[i], IBV_QPS_RESET, IBV_QPS_RESET, 0), EINVAL);
	ck_assert_int_eq(qp_state_check(IBV_QPT_RC, -1, IBV_QPS_RESET, 0), EINVAL);
	ck_assert_int_eq(qp_state_check(IBV_QPT_RC, IBV_QPS_RESET, 256, 0), EINVAL);
}
END_TEST

START_TEST(abilities_by_state)
{
	/* Rows of the table in IBA 10.3.1, as letters. */
	static const char *const expected[] = {"", "r", "rR", "srSFR", "srFR", "srRf", "srfg", ""};
	static const char letters[] = "srSFRfg";

	for (int state = 0; state <= IBV_QPS_UNKNOWN; state++) {
		unsigned int abilities = qp_state_abilities(state);

		ck_assert_uint_lt(abilities, 1u << 7);
		for (int i = 0; i < 7; i++)
			ck_assert_msg((abilities >> i & 1) == !!strchr(expected[state], letters[i]),
				      "%s, '%c'", states[state], letters[i]);
	}
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {every_transition_with_every_attribute,
				      other_types_and_states_have_no_transitions,
				      abilities_by_state, NULL};

	return core_run("qp_state", tests);
}
