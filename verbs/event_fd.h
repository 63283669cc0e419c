/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A queue of events behind a descriptor: completion channels and the async
 * descriptor of a context. The descriptor is an eventfd which is readable
 * exactly while the queue holds something, and has an edge for each event, so that
 * applications may poll it, and may set O_NONBLOCK on it. Events stay in memory
 * rather than in the descriptor because ibv_destroy_cq() has to take back those of its CQ.
 *
 * event_fd.lock is a leaf: under it only the callers' functions are called that count what is
 * taken.
 */
#ifndef URXE_VERBS_EVENT_FD_H
#define URXE_VERBS_EVENT_FD_H

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "net/descriptor.h"

/*
 * The descriptor's part alone, for a queue that another module keeps, too: rdma event
 * channels. What is changed of it is changed under the lock of that queue.
 *
 * Calls that wait do so on the semaphore: unlike poll(), sem_wait() is restarted after a
 * signal handler with SA_RESTART, as the read() of the real libraries is, and like that
 * read() it is a cancellation point. Its value is 0, or 1 when a thread that waits ought to
 * look: it may find that another thread has taken the event.
 */
struct readable {
	_Atomic int fd; /* -1: closed, perhaps while a thread waits */
	struct descriptor_identity identity;
	_Atomic bool any;     /* the queue has something; read without the lock */
	bool set;	      /* the descriptor says so */
	unsigned int lookers; /* threads that need no descriptor, and will take what there is */
	sem_t look;
	_Atomic unsigned int waiting;		/* threads, on @look */
	int (*wait)(struct readable *readable); /* on @look, as sem_wait() does; NULL: that */
};

/* Returns 0 or an errno. */
int readable_open(struct readable *readable);
/* The descriptor alone: threads may be waiting. */
void readable_close(struct readable *readable);
void readable_destroy(struct readable *readable);
/* In a forked child: it can be read for ever, for getting an event says that there are none. */
void readable_inherit(struct readable *readable);

/* The queue got an event. */
void readable_added(struct readable *readable);
/* An event was taken off it, its last one or not. */
void readable_removed(struct readable *readable, bool last);

/*
 * Until there may be an event. No lock may be held. -1 with errno EAGAIN if the application
 * made the descriptor non-blocking; EINTR, EBADF.
 */
int readable_wait(struct readable *readable);

struct event_record {
	struct event_record *prev, *next; /* utlist */
	void *element;			  /* the object, or the port number */
	int type;
	bool embedded;	    /* in its object or the reserve, rather than allocated */
	unsigned int count; /* how often it is queued: an object's own perhaps more than once */
};

#define EVENT_FD_RESERVE 16

struct event_fd {
	pthread_mutex_t lock;
	struct event_record *head;
	struct event_record reserve[EVENT_FD_RESERVE]; /* for when there is no memory */
	struct readable readable;
	bool ended;	       /* no more are to come */
	struct event_fd *kept; /* the one before that has to stay in memory */
};

/* Returns 0 or an errno. */
int event_fd_open(struct event_fd *events);
/* What is in it can be taken, and to wait for more fails with EIO, which the descriptor tells. */
void event_fd_end(struct event_fd *events);
/* Nothing is left in it, and nothing comes: errno is EIO then. */
bool event_fd_has_ended(struct event_fd *events);
/* Without a descriptor: the events in it are dropped, and so is what is pushed from now on. */
void event_fd_close(struct event_fd *events);
/*
 * Once it is closed. False: threads wait for an event that will not come, as they would with a
 * descriptor that is closed, and may be cancelled later. Its memory has to stay.
 */
bool event_fd_destroy(struct event_fd *events);

/* Add an event. It is lost when there is neither memory nor reserve, or the queue is closed. */
void event_fd_push(struct event_fd *events, void *element, int type);
/* Add the event of an object, in which @record lies: it is @embedded, and may be queued already. */
void event_fd_push_embedded(struct event_fd *events, struct event_record *record);

/* Take the oldest event, if there is one, and call @taken with it under the lock. */
bool event_fd_take(struct event_fd *events, void (*taken)(const struct event_record *record),
		   struct event_record *record);
/*
 * The same, but waits for one unless the application made the descriptor
 * non-blocking. Returns 0, or -1 with errno EAGAIN, EINTR (a signal handler
 * without SA_RESTART ran), EIO (it has ended), or EBADF.
 */
int event_fd_pop(struct event_fd *events, void (*taken)(const struct event_record *record),
		 struct event_record *record);

/*
 * @begins: a thread looks at the queue all the time from now on, until it takes an event or gives
 * up. So long nothing is written to the descriptor, nor read from it, which would be two system
 * calls for each event. Else it no longer does: then the descriptor tells what is left.
 */
void event_fd_look(struct event_fd *events, bool begins);
static inline bool event_fd_any(const struct event_fd *events)
{
	return atomic_load_explicit(&events->readable.any, memory_order_relaxed);
}

/* Drop the events about @element that haven't been taken. */
void event_fd_drop(struct event_fd *events, const void *element);

#endif
