/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/choice.h"

#include "net/clock.h"

void choice_init(struct choice *choice, const struct choice_rule *rule)
{
	*choice = (struct choice){.rule = rule, .moved = rule->round - rule->first};
}

/* How much is moved the other way, after each round. */
static uint64_t trial(const struct choice *choice)
{
	return choice->rule->settling[!choice->special] + choice->rule->trial;
}

struct choice_block choice_begin(const struct choice *choice)
{
	uint64_t end = choice->rule->round + trial(choice);
	bool other = choice->moved >= choice->rule->round;
	bool timed = choice->moved >= (other ? end : choice->rule->round) - choice->rule->trial;

	return (struct choice_block){
		.special = choice->special != other,
		.begun = timed ? clock_now() : 0,
	};
}

static void note(uint64_t *least, uint64_t time)
{
	if (!*least || time < *least)
		*least = time;
}

static void decide(struct choice *choice)
{
	choice->special = choice->rule->percent * choice->least[true] < 100 * choice->least[false];
	choice->least[false] = choice->least[true] = 0;
	choice->moved = 0;
}

void choice_end_after(struct choice *choice, const struct choice_block *block, uint32_t length,
		      uint64_t time)
{
	if (block->begun)
		note(&choice->least[block->special], (time << 20) / length);
	choice->moved += length;
	if (choice->moved >= choice->rule->round + trial(choice))
		decide(choice);
}

void choice_end(struct choice *choice, const struct choice_block *block, uint32_t length)
{
	choice_end_after(choice, block, length,
			 block->begun ? elapsed(block->begun, clock_now()) : 0);
}
