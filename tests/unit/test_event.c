/* SPDX-License-Identifier: BSD-2-Clause */
/* Events: order, merging, dropping, and all of it from several threads. */
#include "core.h"
#include "tests/must.h"

static void raise_from_callback(void *context, struct cq *cq)
{
	struct event_queue *queue = &core.events;

	/* What a callback raises is delivered too, but not inside the callback. */
	if (told.completions++ == 0) {
		event_raise(queue, IBV_EVENT_CQ_ERR, cq);
		event_deliver(queue);
		ck_assert_uint_eq(told.async, 0);
	}
}

START_TEST(events_are_delivered_in_order_and_once)
{
	int element;
	struct event event = {.type = EVENT_COMPLETION, .element = &element, .embedded = true};

	event_deliver(&core.events);
	event_raise_completion(&core.events, &event);
	event_raise_completion(&core.events, &event);
	event_raise(&core.events, IBV_EVENT_COMM_EST, &element);
	event_raise(&core.events, IBV_EVENT_SQ_DRAINED, &element);
	event_deliver(&core.events);
	ck_assert_uint_eq(told.completions, 1);
	ck_assert_uint_eq(told.async, 2);
	ck_assert_int_eq(told.type, IBV_EVENT_SQ_DRAINED);
	ck_assert(!event.queued);

	event_raise_completion(&core.events, &event);
	event_deliver(&core.events);
	event_deliver(&core.events);
	ck_assert_uint_eq(told.completions, 2);
}
END_TEST

START_TEST(a_callback_may_raise_events)
{
	int element;
	struct event event = {.type = EVENT_COMPLETION, .element = &element, .embedded = true};

	core.events.sink.completion = raise_from_callback;
	event_raise_completion(&core.events, &event);
	event_deliver(&core.events);
	ck_assert_uint_eq(told.completions, 1);
	ck_assert_uint_eq(told.async, 1);
}
END_TEST

START_TEST(corked_events_wait)
{
	int element;
	struct event event = {.type = EVENT_COMPLETION, .element = &element, .embedded = true};

	event_cork(&core.events);
	event_raise_completion(&core.events, &event);
	event_raise(&core.events, IBV_EVENT_COMM_EST, &element);
	event_deliver(&core.events);
	ck_assert_uint_eq(told.completions, 0);
	event_uncork(&core.events);
	ck_assert_uint_eq(told.completions, 0);
	event_deliver(&core.events);
	ck_assert_uint_eq(told.completions, 1);
	ck_assert_uint_eq(told.async, 1);
}
END_TEST

/* As when packets arrive while another thread delivers. */
static void cork_from_callback(void *context, struct cq *cq)
{
	told.completions++;
	event_cork(&core.events);
	event_raise(&core.events, IBV_EVENT_CQ_ERR, cq);
}

START_TEST(corking_stops_who_delivers)
{
	int element;
	struct event event = {.type = EVENT_COMPLETION, .element = &element, .embedded = true};

	core.events.sink.completion = cork_from_callback;
	event_raise_completion(&core.events, &event);
	event_deliver(&core.events);
	ck_assert_uint_eq(told.completions, 1);
	ck_assert_uint_eq(told.async, 0);
	event_uncork(&core.events);
	event_deliver(&core.events);
	ck_assert_uint_eq(told.async, 1);
}
END_TEST

START_TEST(forgotten_events_are_not_delivered)
{
	int gone, kept;
	struct event event = {.type = EVENT_COMPLETION, .element = &gone, .embedded = true};

	event_raise(&core.events, IBV_EVENT_COMM_EST, &gone);
	event_raise_completion(&core.events, &event);
	event_raise(&core.events, IBV_EVENT_QP_FATAL, &kept);
	event_raise(&core.events, IBV_EVENT_COMM_EST, &gone);
	event_drop(&core.events, &gone);
	ck_assert(!event.queued);
	event_deliver(&core.events);
	ck_assert_uint_eq(told.async, 1);
	ck_assert_uint_eq(told.completions, 0);
	ck_assert_ptr_eq(told.element, &kept);
	/* What is never delivered is freed with the queue. */
	event_raise(&core.events, IBV_EVENT_COMM_EST, &kept);
}
END_TEST

#define STRESS_ROUNDS 3000

/* Stands for a CQ: freed as soon as its events are forgotten. */
struct element {
	struct event event;
	_Atomic unsigned int delivered;
};

static _Atomic unsigned int delivered;

static void stress_completion(void *context, struct cq *cq)
{
	struct element *element = (struct element *)cq;

	element->delivered++;
	delivered++;
}

static void stress_async(void *context, enum ibv_event_type type, void *element)
{
	stress_completion(context, element);
}

static void *stress(void *unused)
{
	for (int i = 0; i < STRESS_ROUNDS; i++) {
		struct element *element = calloc(1, sizeof(*element));

		element->event = (struct event){
			.type = EVENT_COMPLETION, .element = element, .embedded = true};
		event_raise_completion(&core.events, &element->event);
		event_raise(&core.events, IBV_EVENT_CQ_ERR, element);
		if (i % 2)
			event_deliver(&core.events);
		event_raise_completion(&core.events, &element->event);
		event_drop(&core.events, element);
		ck_assert_uint_le(element->delivered, 3);
		memset(element, 0xff, sizeof(*element));
		free(element);
	}
	return NULL;
}

START_TEST(no_event_outlives_its_element)
{
	pthread_t threads[4];

	core.events.sink.completion = stress_completion;
	core.events.sink.async = stress_async;
	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, stress, NULL);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	ck_assert_uint_gt(delivered, 0);
	ck_assert_ptr_null(core.events.head);
}
END_TEST

static _Atomic enum { RAISED, DELIVERING, DROPPING, DROPPED } stage;

static void deliver_while_dropped(void *context, enum ibv_event_type type, void *element)
{
	stage = DELIVERING;
	while (stage == DELIVERING)
		sched_yield();
	for (int i = 0; i < 1000; i++)
		sched_yield();
	must(stage == DROPPING);
}

static void *drop(void *element)
{
	while (stage == RAISED)
		sched_yield();
	stage = DROPPING;
	event_drop(&core.events, element);
	stage = DROPPED;
	return NULL;
}

/* A callback still has the element: dropping its events waits for that one to return. */
START_TEST(dropping_waits_for_delivery)
{
	struct element element = {0};
	pthread_t thread;

	core.events.sink.async = deliver_while_dropped;
	event_raise(&core.events, IBV_EVENT_CQ_ERR, &element);
	ck_assert_int_eq(pthread_create(&thread, NULL, drop, &element), 0);
	event_deliver(&core.events);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	ck_assert_int_eq(stage, DROPPED);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {events_are_delivered_in_order_and_once,
				      a_callback_may_raise_events,
				      corked_events_wait,
				      corking_stops_who_delivers,
				      forgotten_events_are_not_delivered,
				      no_event_outlives_its_element,
				      dropping_waits_for_delivery,
				      NULL};

	return core_run("event", tests);
}
