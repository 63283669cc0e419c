/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/verbs/manager.h"

#include <poll.h>
#include <rdma/rdma_verbs.h>
#include <stdatomic.h>
#include <string.h>

#include "tests/verbs/fixture.h"

struct sockaddr *socket_address(const char *text, uint16_t port)
{
	static _Thread_local struct sockaddr_storage ring[4];
	static _Thread_local unsigned int next;
	struct sockaddr_storage *address = &ring[next++ % 4];
	struct sockaddr_in *v4 = (struct sockaddr_in *)address;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)address;

	memset(address, 0, sizeof(*address));
	if (!text)
		text = fixture_address();
	if (strchr(text, ':')) {
		v6->sin6_family = AF_INET6;
		v6->sin6_port = htons(port);
		ck_assert_int_eq(inet_pton(AF_INET6, text, &v6->sin6_addr), 1);
	} else {
		v4->sin_family = AF_INET;
		v4->sin_port = htons(port);
		ck_assert_int_eq(inet_pton(AF_INET, text, &v4->sin_addr), 1);
	}
	return (struct sockaddr *)address;
}

struct rdma_event_channel *open_channel(void)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();

	ck_assert_ptr_nonnull(channel);
	return channel;
}

struct rdma_cm_id *open_id(struct rdma_event_channel *channel, enum rdma_port_space ps)
{
	struct rdma_cm_id *id = NULL;

	ck_assert_int_eq(rdma_create_id(channel, &id, NULL, ps), 0);
	return id;
}

struct rdma_cm_id *open_bound_id(struct rdma_event_channel *channel, enum rdma_port_space ps)
{
	struct rdma_cm_id *id = open_id(channel, ps);

	ck_assert_int_eq(rdma_bind_addr(id, socket_address(NULL, 0)), 0);
	return id;
}

void destroy(struct rdma_cm_id *id)
{
	if (id->qp)
		rdma_destroy_qp(id);
	ck_assert_int_eq(rdma_destroy_id(id), 0);
}

bool is_readable(const struct rdma_event_channel *channel)
{
	struct pollfd fd = {.fd = channel->fd, .events = POLLIN};

	return poll(&fd, 1, 0) == 1;
}

struct rdma_cm_event *next_event(struct rdma_event_channel *channel, enum rdma_cm_event_type type,
				 int status)
{
	struct rdma_cm_event *event;

	ck_assert_int_eq(rdma_get_cm_event(channel, &event), 0);
	ck_assert_str_eq(rdma_event_str(event->event), rdma_event_str(type));
	ck_assert_int_eq(event->status, status);
	return event;
}

void expect(struct rdma_event_channel *channel, const struct rdma_cm_id *id,
	    enum rdma_cm_event_type type, int status)
{
	struct rdma_cm_event *event = next_event(channel, type, status);

	ck_assert_ptr_eq(event->id, id);
	ck_assert_int_eq(rdma_ack_cm_event(event), 0);
}

static void *acknowledge(void *argument)
{
	struct late_ack *ack = argument;

	poll(NULL, 0, 20); /* the other thread waits by then */
	atomic_store(&ack->done, true);
	rdma_ack_cm_event(ack->event);
	return NULL;
}

void late_ack_begin(struct late_ack *ack, struct rdma_cm_event *event)
{
	ack->event = event;
	atomic_store(&ack->done, false);
	ck_assert_int_eq(pthread_create(&ack->thread, NULL, acknowledge, ack), 0);
}

void late_ack_must_be_done(struct late_ack *ack)
{
	ck_assert(atomic_load(&ack->done));
	pthread_join(ack->thread, NULL);
}

void resolve(struct rdma_cm_id *id, uint16_t port)
{
	ck_assert_int_eq(rdma_resolve_addr(id, NULL, socket_address(NULL, port), 1000), 0);
	expect(id->channel, id, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	ck_assert_int_eq(rdma_resolve_route(id, 1000), 0);
	expect(id->channel, id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
}

uint16_t start_listening(struct rdma_cm_id *id, uint16_t port)
{
	ck_assert_int_eq(rdma_bind_addr(id, socket_address(NULL, port)), 0);
	ck_assert_int_eq(rdma_listen(id, 0), 0);
	return ntohs(rdma_get_src_port(id));
}

bool try_create_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = {
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = id->qp_type,
		.sq_sig_all = 1,
	};

	return rdma_create_qp(id, NULL, &attr) == 0;
}

void create_qp(struct rdma_cm_id *id)
{
	ck_assert(try_create_qp(id));
}

void send_one(struct rdma_cm_id *from, struct rdma_cm_id *to)
{
	static char source[64] = "some words", target[64];
	struct ibv_mr *source_mr = rdma_reg_msgs(from, source, sizeof(source));
	struct ibv_mr *target_mr = rdma_reg_msgs(to, target, sizeof(target));
	struct ibv_wc wc;

	memset(target, 0, sizeof(target));
	ck_assert_int_eq(rdma_post_recv(to, NULL, target, sizeof(target), target_mr), 0);
	ck_assert_int_eq(rdma_post_send(from, NULL, source, sizeof(source), source_mr, 0), 0);
	ck_assert_int_eq(rdma_get_send_comp(from, &wc), 1);
	ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
	ck_assert_int_eq(rdma_get_recv_comp(to, &wc), 1);
	ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
	ck_assert_str_eq(target, source);
	rdma_dereg_mr(source_mr);
	rdma_dereg_mr(target_mr);
}
