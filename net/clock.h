/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Times: nanoseconds of the monotonic clock, which real links and the verbs layer hand to the core.
 * That has no clock of its own.
 *
 * A call that seldom needs the time, and costs hardly more than to ask for it, is handed a struct
 * lazy_time: the clock itself, or a time that is known already (simulations, tests).
 */
#ifndef URXE_NET_CLOCK_H
#define URXE_NET_CLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#define NS_PER_US INT64_C(1000)
#define NS_PER_MS INT64_C(1000000)
#define NS_PER_S INT64_C(1000000000)

#define TIME_NEVER UINT64_MAX

/* Of two times, or of two durations the shorter one and the longer one. */
static inline uint64_t earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static inline uint64_t later(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/*
 * How long ago @since was. Threads are given the time that it was when they began, and one that
 * waited for a lock meanwhile finds what another one has done since.
 */
static inline uint64_t elapsed(uint64_t since, uint64_t now)
{
	return now > since ? now - since : 0;
}

static inline struct timespec clock_timespec(uint64_t ns)
{
	return (struct timespec){.tv_sec = ns / NS_PER_S, .tv_nsec = ns % NS_PER_S};
}

static inline uint64_t clock_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
}

/* Of one call, in one thread. */
struct lazy_time {
	uint64_t (*clock)(void); /* NULL: @now is the time */
	uint64_t now;
};

/* One that is known, for as long as the enclosing block lasts. */
#define LAZY_TIME(known) (&(struct lazy_time){.now = (known)})

/* The same time whenever it is asked for. */
static inline uint64_t lazy_now(struct lazy_time *time)
{
	if (time->clock) {
		time->now = time->clock();
		time->clock = NULL;
	}
	return time->now;
}

/* Whether the call has needed the time. */
static inline bool lazy_time_known(const struct lazy_time *time)
{
	return !time->clock;
}

#endif
