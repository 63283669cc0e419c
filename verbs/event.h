/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * From the core's event queue to the application's descriptors, and what
 * destroying an object has to do about its events. deliver_completion() and
 * deliver_async() are the sink of the HCA, with its device as context: called with
 * none of the core's locks held.
 */
#ifndef URXE_VERBS_EVENT_H
#define URXE_VERBS_EVENT_H

#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdint.h>

struct cq;
struct context;
struct device;

/*
 * What the element of an asynchronous event is (ibv_get_async_event(3)): a port's number, or an
 * object.
 */
enum event_subject { EVENT_OF_PORT, EVENT_OF_CQ, EVENT_OF_SRQ, EVENT_OF_WQ, EVENT_OF_QP };
enum event_subject event_subject(enum ibv_event_type type);

void deliver_completion(void *context, struct cq *cq);
void deliver_async(void *context, enum ibv_event_type type, void *element);
/*
 * Contexts of @device and their completion channels get no more events than they have: to wait for
 * one fails with EIO.
 */
void deliver_no_more(struct device *device);

/*
 * No more events about @element: those that the application hasn't taken are dropped,
 * and those that it has are waited for until *@completed acknowledgements equal
 * *@taken (ibv_ack_async_event(3)).
 */
void event_drain(struct context *context, void *element, pthread_mutex_t *mutex,
		 pthread_cond_t *cond, const uint32_t *taken, const uint32_t *completed);

/*
 * Wait until *@completed, under @mutex, equals *@taken. @from: the call that returned the events;
 * an application that doesn't acknowledge them waits for ever, and is told why.
 */
void event_wait_acknowledged(pthread_mutex_t *mutex, pthread_cond_t *cond, const uint32_t *taken,
			     const uint32_t *completed, const char *from);

/* The same, of the events that the core has delivered already. */
void event_withdraw(struct context *context, void *element, pthread_mutex_t *mutex,
		    pthread_cond_t *cond, const uint32_t *taken, const uint32_t *completed);

#endif
