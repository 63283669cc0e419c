/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/verbs/sides.h"

#include <stddef.h>
#include <string.h>

struct rdma_event_channel *server, *client;
struct rdma_cm_id *listener;
int context;

static void open_sides(enum rdma_port_space ps)
{
	server = open_channel();
	client = open_channel();
	ck_assert_int_eq(rdma_create_id(server, &listener, &context, ps), 0);
	start_listening(listener, PORT);
}

void setup(void)
{
	open_sides(RDMA_PS_TCP);
}

void setup_datagrams(void)
{
	open_sides(RDMA_PS_UDP);
}

void teardown(void)
{
	if (listener)
		destroy(listener);
	rdma_destroy_event_channel(server);
	rdma_destroy_event_channel(client);
}

struct rdma_cm_id *open_client(bool qp)
{
	struct rdma_cm_id *id = open_id(client, listener->ps);

	resolve(id, PORT);
	if (qp)
		create_qp(id);
	return id;
}

struct rdma_conn_param parameters(const char *data)
{
	return (struct rdma_conn_param){
		.private_data = data,
		.private_data_len = strlen(data),
		.responder_resources = 3,
		.initiator_depth = 5,
		.retry_count = 6,
		.rnr_retry_count = 2,
	};
}

void check_data(const void *found, uint8_t found_length, const char *data, uint8_t length)
{
	char expected[256] = {0};

	strcpy(expected, data);
	ck_assert_int_eq(found_length, length);
	ck_assert_uint_eq((uintptr_t)found % _Alignof(max_align_t), 0);
	ck_assert_mem_eq(found, expected, length);
}

struct rdma_cm_id *next_request(void)
{
	struct rdma_cm_event *event = next_event(server, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	struct rdma_cm_id *id = event->id;

	ck_assert_ptr_eq(event->listen_id, listener);
	rdma_ack_cm_event(event);
	return id;
}

struct rdma_cm_id *connect_client(struct rdma_cm_id *active)
{
	struct rdma_conn_param param = parameters("");
	struct rdma_cm_id *passive;

	ck_assert_int_eq(rdma_connect(active, &param), 0);
	passive = next_request();
	create_qp(passive);
	ck_assert_int_eq(rdma_accept(passive, &param), 0);
	expect(client, active, RDMA_CM_EVENT_ESTABLISHED, 0);
	expect(server, passive, RDMA_CM_EVENT_ESTABLISHED, 0);
	return passive;
}

void connect_pair(struct rdma_cm_id **active, struct rdma_cm_id **passive)
{
	*active = open_client(true);
	*passive = connect_client(*active);
}

void wait_for_client(void)
{
	struct rdma_event_channel *channel = open_channel();
	struct rdma_cm_id *other = open_id(channel, RDMA_PS_TCP);
	struct rdma_conn_param param = parameters("");

	resolve(other, PORT + 1);
	create_qp(other);
	ck_assert_int_eq(rdma_connect(other, &param), 0);
	expect(channel, other, RDMA_CM_EVENT_REJECTED, 8);
	destroy(other);
	rdma_destroy_event_channel(channel);
}

void add_tests(TCase *tests, const TTest *const *all, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		tcase_add_test(tests, all[i]);
}
