/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Members die in every way and are born again under traffic: multi_process_traffic.c
 * says what has to hold then.
 */
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "multi_process.h"

enum event {
	EVENT_KILL,
	EVENT_KILL_TWO,
	EVENT_STOP,
	EVENT_EXIT,
	EVENT_LEAVE,
	EVENT_KILL_NEWBORN,
	EVENTS,
};

static const char *const event_names[] = {
	[EVENT_KILL] = "kill", [EVENT_KILL_TWO] = "kill two", [EVENT_STOP] = "stop",
	[EVENT_EXIT] = "exit", [EVENT_LEAVE] = "leave",	      [EVENT_KILL_NEWBORN] = "kill newborn",
};

/* How often each happens, of 16. */
static const enum event odds[16] = {
	EVENT_KILL, EVENT_KILL,	    EVENT_KILL,	    EVENT_KILL,		EVENT_KILL,  EVENT_KILL,
	EVENT_STOP, EVENT_STOP,	    EVENT_EXIT,	    EVENT_EXIT,		EVENT_LEAVE, EVENT_LEAVE,
	EVENT_KILL, EVENT_KILL_TWO, EVENT_KILL_TWO, EVENT_KILL_NEWBORN,
};

struct chaos {
	struct multi_process *processes;
	uint64_t random;
	uint32_t incarnations[MULTI_PROCESS_MAX];
	unsigned int counts[EVENTS], deaths;
};

static void pause_for(struct chaos *chaos, uint32_t milliseconds)
{
	usleep(choose(&chaos->random, milliseconds) * 1000);
}

/* From now on, connections to it may fail. */
static void doom(struct chaos *chaos, unsigned int id)
{
	atomic_store(&chaos->processes->board->members[id].doomed, chaos->incarnations[id]);
	chaos->deaths++;
}

static void revive(struct chaos *chaos, unsigned int id)
{
	multi_process_start(chaos->processes, id, ++chaos->incarnations[id]);
}

static void kill_one(struct chaos *chaos, unsigned int id)
{
	doom(chaos, id);
	kill(chaos->processes->pids[id], SIGKILL);
}

/* At once, or after a while in which no process has the member's place. */
static void kill_and_restart(struct chaos *chaos, unsigned int id, int signal)
{
	multi_process_reap(chaos->processes, id, signal);
	if (choose(&chaos->random, 2))
		pause_for(chaos, 100);
	revive(chaos, id);
}

static void end_in_order(struct chaos *chaos, unsigned int id, enum order order)
{
	doom(chaos, id);
	atomic_store(&chaos->processes->board->members[id].order, order);
	kill_and_restart(chaos, id, 0);
}

/* Less than the retries of a connection take. */
static void stop_for_a_moment(struct chaos *chaos, unsigned int id)
{
	kill(chaos->processes->pids[id], SIGSTOP);
	pause_for(chaos, 300);
	kill(chaos->processes->pids[id], SIGCONT);
}

static void happen(struct chaos *chaos, enum event event, unsigned int one, unsigned int other)
{
	switch (event) {
	case EVENT_KILL_TWO:
		kill_one(chaos, one);
		kill_one(chaos, other);
		kill_and_restart(chaos, other, SIGKILL);
		kill_and_restart(chaos, one, SIGKILL);
		break;
	case EVENT_STOP:
		stop_for_a_moment(chaos, one);
		break;
	case EVENT_EXIT:
		end_in_order(chaos, one, ORDER_EXIT);
		break;
	case EVENT_LEAVE:
		end_in_order(chaos, one, ORDER_LEAVE);
		break;
	case EVENT_KILL_NEWBORN:
		/* While it opens the device, as like as not. */
		kill_one(chaos, one);
		kill_and_restart(chaos, one, SIGKILL);
		usleep(choose(&chaos->random, 8000));
		kill_one(chaos, one);
		kill_and_restart(chaos, one, SIGKILL);
		break;
	default:
		kill_one(chaos, one);
		kill_and_restart(chaos, one, SIGKILL);
		break;
	}
}

static void one_round(struct chaos *chaos, unsigned int round)
{
	unsigned int count = chaos->processes->board->count;
	enum event event = odds[choose(&chaos->random, 16)];
	unsigned int one = choose(&chaos->random, count);
	unsigned int other = (one + 1 + choose(&chaos->random, count - 1)) % count;

	if (chaos->processes->verbose)
		printf("round %u: %s %u (%u)\n", round, event_names[event], one, other);
	chaos->counts[event]++;
	happen(chaos, event, one, other);
	/* Mostly on top of what isn't over yet; sometimes all is well in between. */
	if (choose(&chaos->random, 6) == 0)
		multi_process_heal(chaos->processes);
	else
		pause_for(chaos, 200);
	multi_process_watch(chaos->processes);
}

static void chaos_lead(struct multi_process *processes)
{
	struct chaos chaos = {.processes = processes, .random = processes->seed};

	for (unsigned int i = 0; i < processes->board->count; i++)
		revive(&chaos, i);
	multi_process_heal(processes);
	for (unsigned int i = 0; i < processes->board->rounds; i++)
		one_round(&chaos, i);
	multi_process_heal(processes);
	multi_process_quiet(processes);
	multi_process_newcomer(processes);
	printf("seed %llu: %u members, %u rounds, %u deaths, %u failures, %llu turns;",
	       (unsigned long long)processes->seed, processes->board->count,
	       processes->board->rounds, chaos.deaths, atomic_load(&processes->board->failures),
	       (unsigned long long)atomic_load(&processes->board->total));
	for (unsigned int i = 0; i < EVENTS; i++)
		printf(" %s %u%s", event_names[i], chaos.counts[i], i + 1 < EVENTS ? "," : "\n");
}

const struct multi_process_kind multi_process_chaos = {"chaos", multi_process_traffic, chaos_lead};
