/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What rpoll() and repoll_wait() have in common: looking at descriptors, and sleeping until
 * something happens to one of them. Of one call, in its thread.
 */
#ifndef URXE_VERBS_RSOCKET_POLL_H
#define URXE_VERBS_RSOCKET_POLL_H

#include "verbs/rsocket/rsocket.h"

/* What the call knows of one of the application's descriptors. */
struct polled {
	struct rsocket *rs; /* NULL: it isn't an rsocket */
	/* As it was when it was looked at: rs->changes and its like. */
	uint32_t seen, news_in, news_out;
	bool inherited;		  /* it is one, of this process's parent */
	bool leads;		  /* this thread sleeps for others, too (rs->waited_for) */
	nfds_t first;		  /* then: of what is slept on the first that is of it, */
	unsigned int descriptors; /* of so many */
	struct rsocket_poller poller;
};

#define POLLING_FEW 4 /* descriptors that need no memory but the stack */

struct polling {
	struct pollfd *fds; /* the application's */
	nfds_t count;
	struct polled *polled; /* of each of them */
	struct pollfd *sleep;  /* what is slept on */
	nfds_t *owner;	       /* of which of @fds it is */
	struct rsocket_wake wake;
	nfds_t asleep; /* so many of them were made to wake us */
	bool silent;   /* nothing has for a while */
	struct polled few_polled[POLLING_FEW];
	struct pollfd few_sleep[RSOCKET_DESCRIPTORS * POLLING_FEW + 1];
	nfds_t few_owner[POLLING_FEW];
};

/* 0 or ENOMEM. polling_end() is due in any case; it is a cleanup handler. */
int polling_begin(struct polling *polling, struct pollfd *fds, nfds_t count);
void polling_end(void *polling);
/* What is ready of fds[@index], an rsocket. */
short polling_look(struct polling *polling, nfds_t index);
/*
 * Until something may have happened since all were looked at, or @deadline. The thread may be
 * cancelled here. Negative with errno: EINTR, for one.
 */
int polling_sleep(struct polling *polling, uint64_t deadline);

#endif
