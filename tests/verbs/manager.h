/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ids and event channels of librdmacm, for the tests of them. What fails here
 * ends the test.
 */
#ifndef URXE_TESTS_MANAGER_H
#define URXE_TESTS_MANAGER_H

#include <arpa/inet.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>

#include "tests/verbs/fails.h"

/* A socket address of either family; NULL: this node's. Good until the thread's next but three. */
struct sockaddr *socket_address(const char *text, uint16_t port);

struct rdma_event_channel *open_channel(void);
struct rdma_cm_id *open_id(struct rdma_event_channel *channel, enum rdma_port_space ps);
/* The same, bound to any port of this node. */
struct rdma_cm_id *open_bound_id(struct rdma_event_channel *channel, enum rdma_port_space ps);
/* The id, and its QP if it has one. */
void destroy(struct rdma_cm_id *id);

bool is_readable(const struct rdma_event_channel *channel);

/* The next event, which has to be of @type and @status; not acked. */
struct rdma_cm_event *next_event(struct rdma_event_channel *channel, enum rdma_cm_event_type type,
				 int status);
/* The same, acked; @id: whose it has to be. */
void expect(struct rdma_event_channel *channel, const struct rdma_cm_id *id,
	    enum rdma_cm_event_type type, int status);

/* Another thread acks @event, but not at once: what waits for that ends after it. */
struct late_ack {
	struct rdma_cm_event *event;
	_Atomic bool done;
	pthread_t thread;
};
void late_ack_begin(struct late_ack *ack, struct rdma_cm_event *event);
void late_ack_must_be_done(struct late_ack *ack);

/* Address and route, up to being able to connect to @port of this node. */
void resolve(struct rdma_cm_id *id, uint16_t port);

/* Bound to @port of this node (0: any) and listening. Returns the port. */
uint16_t start_listening(struct rdma_cm_id *id, uint16_t port);

/* A QP with queues of its own. */
void create_qp(struct rdma_cm_id *id);
bool try_create_qp(struct rdma_cm_id *id);

/* One message from one connected id to another, whose completions come by their own queues. */
void send_one(struct rdma_cm_id *from, struct rdma_cm_id *to);

#endif
