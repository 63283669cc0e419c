/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Events on their way out of the core. They are raised under the locks of QPs,
 * SRQs and CQs, wait here, and are delivered to the sink (the verbs layer's
 * file descriptors, or a test) with none of the core's locks held.
 *
 * event_queue.lock is a leaf. One thread delivers at a time, in order; a thread
 * that finds another one delivering leaves its events to it. While packets that
 * came together are being looked at, events are corked (event_cork).
 */
#ifndef URXE_EMU_EVENT_H
#define URXE_EMU_EVENT_H

#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

struct cq;

enum { EVENT_COMPLETION = -1 }; /* otherwise: enum ibv_event_type */

/* What an event is about: ibv_async_event.element, or the CQ of a completion event. */
struct event {
	struct event *prev, *next; /* utlist */
	int type;
	void *element; /* struct cq *, struct qp *, struct srq *, or the port number */
	bool embedded; /* part of its CQ, or of the reserve, rather than allocated */
	bool queued;
};

struct event_sink {
	void (*completion)(void *context, struct cq *cq);
	void (*async)(void *context, enum ibv_event_type type, void *element);
	void *context;
};

#define EVENT_RESERVE 16 /* more than are commonly queued between two deliveries */

struct event_queue {
	pthread_mutex_t lock;
	pthread_cond_t delivered;
	struct event *head;
	struct event reserve[EVENT_RESERVE]; /* for when there is no memory */
	struct event *delivering;
	struct event_sink sink;
	_Atomic bool pending; /* spares event_deliver() the lock when there is nothing */
	_Atomic bool corked;
};

void event_queue_init(struct event_queue *queue, const struct event_sink *sink);
void event_queue_destroy(struct event_queue *queue);

/* Raise an async event. It is lost only when there is no memory and the reserve is used up. */
void event_raise(struct event_queue *queue, enum ibv_event_type type, void *element);
/* Raise the completion event of a CQ; @event lives in it. */
void event_raise_completion(struct event_queue *queue, struct event *event);

/* Deliver all that is queued, unless it is corked. No lock may be held. */
void event_deliver(struct event_queue *queue);

/*
 * Nothing is delivered until the same thread calls event_uncork() and then
 * event_deliver(). An answer and the ACK that is piggybacked on it are one event to
 * their receiver: applications know that their send completes before the answer comes
 * (perftest's -e, with one channel for both), and mustn't be woken between the two.
 */
void event_cork(struct event_queue *queue);
void event_uncork(struct event_queue *queue);

/* Forget the events about @element and wait for the one being delivered. For destroy. */
void event_drop(struct event_queue *queue, const void *element);

#endif
