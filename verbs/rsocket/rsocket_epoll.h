/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * epoll(7) of rsockets. What repoll_create() returns is a descriptor of the kernel's epoll, which
 * has the ordinary descriptors: to close it, and to poll those, needs nothing of us. What is asked
 * of rsockets is in an instance of ours, found by that number.
 *
 *   rsocket_interest  instances, and their lists of interests: repoll_ctl()
 *   rsocket_epoll     repoll_create(), repoll_wait()
 *
 * Locks, outermost first: control (rsocket_interest.c) for changes of any list, an instance's for
 * what it has, an rsocket's.
 */
#ifndef URXE_VERBS_RSOCKET_EPOLL_H
#define URXE_VERBS_RSOCKET_EPOLL_H

#include <sys/epoll.h>

#include "verbs/rsocket/rsocket.h"

/* What one instance is asked of one rsocket. Protected by the instance's lock. */
struct rsocket_interest {
	struct rsocket_epoll *epoll;
	struct rsocket *rs;
	struct epoll_event event;
	bool spent; /* of EPOLLONESHOT: told, and not asked for again */
	/* Of EPOLLET: what was ready, and the rsocket's counts, when it was told last. */
	uint32_t told, news_in, news_out;
	struct rsocket_interest *prev, *next; /* utlist, the instance's */
	struct rsocket_interest *other;	      /* utlist, the rsocket's, under control */
};

struct rsocket_epoll {
	int fd;
	_Atomic int users; /* calls, and the list of instances */
	pthread_mutex_t lock;
	bool closed;	  /* its number is another file's by now, or none's */
	uint64_t version; /* counts changes of interests, from 1 */
	struct rsocket_interest *interests;
	nfds_t count;
	nfds_t turn;			/* which of them is looked at first */
	bool kernel_first;		/* or the kernel's epoll is: they take turns */
	struct rsocket_poller *waiters; /* woken when it changes */
	struct rsocket_epoll *prev, *next;
};

/*
 * The instance of @fd, which is made for any epoll descriptor; until rsocket_epoll_put(). NULL with
 * errno, as epoll_ctl(2) has it.
 */
struct rsocket_epoll *rsocket_epoll_get(int fd);
void rsocket_epoll_put(struct rsocket_epoll *epoll);
/* rclose() of an epoll descriptor. 0, or EBADF: it is none, or has no instance. */
int rsocket_epoll_close(int fd);
/* Forget the instances whose descriptors were closed by close(2). */
void rsocket_epoll_forget_closed(void);

#endif
