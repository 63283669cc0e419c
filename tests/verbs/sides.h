/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The two sides of connections within this process, for test_connections.c and test_requests.c: a
 * listener and a client, with a channel each, so that the events of either have an order.
 */
#ifndef URXE_TESTS_VERBS_SIDES_H
#define URXE_TESTS_VERBS_SIDES_H

#include <stdbool.h>

#include "tests/run_suite.h"
#include "tests/verbs/fixture.h"
#include "tests/verbs/manager.h"

#define PORT 7471

extern struct rdma_event_channel *server, *client;
extern struct rdma_cm_id *listener; /* of @server; NULL: the test has destroyed it */
extern int context;		    /* the listener's */

/* Before a test and behind it. */
void setup(void);
void setup_datagrams(void);
void teardown(void);
/* Add tests of a list to a test case: ADD(tests, one, another). */
void add_tests(TCase *tests, const TTest *const *all, unsigned int count);

#define ADD(tests, ...)                                                                            \
	do {                                                                                       \
		const TTest *const all[] = {__VA_ARGS__};                                          \
		add_tests(tests, all, sizeof(all) / sizeof(all[0]));                               \
	} while (0)

/* An id of the client's with a route to the listener, and a QP if @qp. */
struct rdma_cm_id *open_client(bool qp);
struct rdma_conn_param parameters(const char *data);
/* @data, and zeros up to @length, where malloc() could have put it. */
void check_data(const void *found, uint8_t found_length, const char *data, uint8_t length);
/* The id of the next request, whose event is acked. */
struct rdma_cm_id *next_request(void);
/* The other side of @active's connection, which is made. */
struct rdma_cm_id *connect_client(struct rdma_cm_id *active);
/* A connection with QPs. */
void connect_pair(struct rdma_cm_id **active, struct rdma_cm_id **passive);
/* What was sent to @client until now has come when another request of it is refused. */
void wait_for_client(void);

#endif
