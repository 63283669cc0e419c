/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Events of a connection manager for tests that answer them at once: its sink is
 * called with cm.lock held, and mustn't. Here they wait until cm_queue_deliver(),
 * which handles them with no lock held, one thread at a time, in their order. The
 * handler may call everything of emu/cm/cm.h.
 */
#ifndef URXE_TESTS_CM_QUEUE_H
#define URXE_TESTS_CM_QUEUE_H

#include "emu/cm/cm.h"

struct cm_queue {
	void (*handle)(void *context, struct cm_event *event);
	void *context;
	pthread_mutex_t lock; /* protects what follows; taken under cm.lock */
	pthread_cond_t delivered;
	struct cm_queued *events;
	struct cm_queued *delivering;
	pthread_t deliverer;
	struct cm_departing *departing; /* ids that are being destroyed */
};

void cm_queue_init(struct cm_queue *queue, void (*handle)(void *context, struct cm_event *event),
		   void *context);
void cm_queue_destroy(struct cm_queue *queue);
struct cm_sink cm_queue_sink(struct cm_queue *queue);
void cm_queue_deliver(struct cm_queue *queue);

/*
 * cm_id_destroy() for an id that may have events here. They are dropped, requests
 * to it are refused; waits for the one being handled, unless called from it.
 */
void cm_queue_destroy_id(struct cm_queue *queue, struct cm_id *id, uint64_t now);

#endif
