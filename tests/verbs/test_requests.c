/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests within this process: why they are refused, what becomes of those that wait, and the
 * requests of datagram services.
 */
#include "tests/verbs/sides.h"

/* --- refusals -------------------------------------------------------------------- */

START_TEST(rejection_tells_why)
{
	struct rdma_conn_param param = parameters("please");
	struct rdma_cm_id *active = open_client(true), *passive;
	struct rdma_cm_event *event;

	ck_assert_int_eq(rdma_connect(active, &param), 0);
	passive = next_request();
	ck_assert_int_eq(rdma_reject(passive, "no", 2), 0);
	event = next_event(client, RDMA_CM_EVENT_REJECTED, 28);
	check_data(event->param.conn.private_data, event->param.conn.private_data_len, "no", 148);
	ck_assert_int_eq(active->qp->state, IBV_QPS_ERR);
	rdma_ack_cm_event(event);
	ck_fails(rdma_accept(passive, &param), EINVAL);
	destroy(passive);
	destroy(active);
}
END_TEST

/* With @length bytes of private data, more than a reply takes (rdma_accept(3)). Returns its id. */
static struct rdma_cm_id *fail_to_accept(struct rdma_cm_id *active, uint8_t length)
{
	static const char data[UINT8_MAX];
	struct rdma_conn_param param = parameters("");
	struct rdma_cm_id *passive;

	ck_assert_int_eq(rdma_connect(active, &param), 0);
	passive = next_request();
	create_qp(passive);
	param.private_data = data;
	param.private_data_len = length;
	ck_fails(rdma_accept(passive, &param), EINVAL);
	return passive;
}

/* The peer is told, as by Linux. */
START_TEST(accepting_fails)
{
	struct rdma_cm_id *active = open_client(true), *passive = fail_to_accept(active, 197);

	ck_assert_int_eq(passive->qp->state, IBV_QPS_ERR);
	expect(client, active, RDMA_CM_EVENT_REJECTED, 28);
	ck_fails(rdma_reject(passive, NULL, 0), EINVAL);
	destroy(passive);
	destroy(active);
}
END_TEST

/* The server isn't told, and finds out when it answers. */
START_TEST(client_gives_up)
{
	struct rdma_conn_param param = parameters("");
	struct rdma_cm_id *active = open_client(true), *passive, *next;

	ck_assert_int_eq(rdma_connect(active, &param), 0);
	passive = next_request();
	destroy(active);
	active = open_client(true);
	ck_assert_int_eq(rdma_connect(active, &param), 0);
	next = next_request();
	ck_fails(rdma_accept(passive, &param), EINVAL);
	ck_fails(rdma_reject(passive, NULL, 0), EINVAL);
	create_qp(next);
	ck_assert_int_eq(rdma_accept(next, &param), 0);
	expect(client, active, RDMA_CM_EVENT_ESTABLISHED, 0);
	expect(server, next, RDMA_CM_EVENT_ESTABLISHED, 0);
	destroy(passive);
	destroy(next);
	destroy(active);
}
END_TEST

START_TEST(nobody_listens)
{
	struct rdma_conn_param param = parameters("");
	struct rdma_cm_id *active = open_client(true);

	destroy(listener);
	listener = NULL;
	ck_assert_int_eq(rdma_connect(active, &param), 0);
	expect(client, active, RDMA_CM_EVENT_REJECTED, 8);
	destroy(active);
}
END_TEST

/* Requests beyond the backlog aren't refused: their senders try again. */
START_TEST(backlog_is_full)
{
	struct rdma_conn_param param = parameters("");
	struct rdma_cm_id *first = open_client(true), *second = open_client(true);
	struct rdma_cm_id *other = open_id(client, RDMA_PS_TCP), *passive;

	destroy(listener);
	listener = open_id(server, RDMA_PS_TCP);
	ck_assert_int_eq(rdma_bind_addr(listener, socket_address(NULL, PORT)), 0);
	ck_assert_int_eq(rdma_listen(listener, 1), 0);
	ck_assert_int_eq(rdma_connect(first, &param), 0);
	ck_assert_int_eq(rdma_connect(second, &param), 0);
	/* By when this one is refused, the second would have been. */
	resolve(other, PORT + 1);
	create_qp(other);
	ck_assert_int_eq(rdma_connect(other, &param), 0);
	expect(client, other, RDMA_CM_EVENT_REJECTED, 8);
	passive = next_request();
	ck_assert_int_eq(passive->route.addr.dst_sin.sin_port, rdma_get_src_port(first));
	ck_assert(!is_readable(server));
	destroy(passive);
	expect(client, first, RDMA_CM_EVENT_REJECTED, 28);
	ck_assert(!is_readable(client));
	destroy(first);
	destroy(second);
	destroy(other);
}
END_TEST

START_TEST(listener_takes_its_requests_along)
{
	struct rdma_conn_param param = parameters("");
	struct rdma_cm_id *active = open_client(true);

	ck_assert_int_eq(rdma_connect(active, &param), 0);
	while (!is_readable(server))
		;
	destroy(listener);
	listener = NULL;
	ck_assert(!is_readable(server));
	expect(client, active, RDMA_CM_EVENT_REJECTED, 28);
	destroy(active);
}
END_TEST

/* Nobody can get them any more. */
START_TEST(channel_takes_its_requests_along)
{
	struct rdma_conn_param param = parameters("");
	struct rdma_cm_id *active = open_client(true);

	ck_assert_int_eq(rdma_connect(active, &param), 0);
	while (!is_readable(server))
		;
	rdma_destroy_event_channel(server);
	expect(client, active, RDMA_CM_EVENT_REJECTED, 28);
	server = open_channel();
	destroy(active);
}
END_TEST

START_TEST(wildcard_listeners_hear)
{
	struct rdma_conn_param param = parameters("");
	struct rdma_cm_id *active, *passive;

	destroy(listener);
	listener = open_id(server, RDMA_PS_TCP);
	ck_assert_int_eq(rdma_bind_addr(listener, socket_address("::", PORT)), 0);
	ck_assert_int_eq(rdma_listen(listener, 0), 0);
	ck_assert_ptr_null(listener->verbs);
	active = open_client(true);
	ck_assert_int_eq(rdma_connect(active, &param), 0);
	passive = next_request();
	ck_assert_ptr_eq(passive->verbs, active->verbs);
	ck_assert_int_eq(passive->route.addr.src_addr.sa_family, AF_INET);
	destroy(passive);
	expect(client, active, RDMA_CM_EVENT_REJECTED, 28);
	destroy(active);
}
END_TEST

/* AFONLY (rdma_set_option(3)). */
START_TEST(wildcard_listeners_of_ipv6_alone)
{
	struct rdma_conn_param param = parameters("");
	struct rdma_cm_id *active;
	int on = 1;

	destroy(listener);
	listener = open_id(server, RDMA_PS_TCP);
	ck_assert_int_eq(
		rdma_set_option(listener, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &on, sizeof(on)),
		0);
	ck_assert_int_eq(rdma_bind_addr(listener, socket_address("::", PORT)), 0);
	ck_assert_int_eq(rdma_listen(listener, 0), 0);
	active = open_client(true);
	ck_assert_int_eq(rdma_connect(active, &param), 0);
	expect(client, active, RDMA_CM_EVENT_REJECTED, 8);
	destroy(active);
}
END_TEST

/* Any address of IPv4 is none of IPv6. */
START_TEST(wildcard_listeners_hear_their_family)
{
	struct rdma_conn_param param = parameters("");
	struct rdma_cm_id *active;

	if (!fixture_environment_both())
		return;
	setup();
	active = open_id(client, RDMA_PS_TCP);
	destroy(listener);
	listener = open_id(server, RDMA_PS_TCP);
	ck_assert_int_eq(rdma_bind_addr(listener, socket_address("0.0.0.0", PORT)), 0);
	ck_assert_int_eq(rdma_listen(listener, 0), 0);
	ck_assert_int_eq(rdma_resolve_addr(active, NULL, socket_address("::1", PORT), 1000), 0);
	expect(client, active, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	ck_assert_int_eq(rdma_resolve_route(active, 1000), 0);
	expect(client, active, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	create_qp(active);
	ck_assert_int_eq(rdma_connect(active, &param), 0);
	expect(client, active, RDMA_CM_EVENT_REJECTED, 8);
	destroy(active);
	teardown();
}
END_TEST

START_TEST(requests_migrate_with_their_listener)
{
	struct rdma_conn_param param = parameters("");
	struct rdma_event_channel *other = open_channel(), *left = server;
	struct rdma_cm_id *active = open_client(true), *passive;

	ck_assert_int_eq(rdma_connect(active, &param), 0);
	while (!is_readable(server))
		;
	ck_assert_int_eq(rdma_migrate_id(listener, other), 0);
	server = other;
	rdma_destroy_event_channel(left);
	passive = next_request();
	ck_assert_ptr_eq(passive->channel, other);
	create_qp(passive);
	ck_assert_int_eq(rdma_accept(passive, &param), 0);
	expect(client, active, RDMA_CM_EVENT_ESTABLISHED, 0);
	expect(other, passive, RDMA_CM_EVENT_ESTABLISHED, 0);
	destroy(active);
	expect(other, passive, RDMA_CM_EVENT_DISCONNECTED, 0);
	destroy(passive);
}
END_TEST

START_TEST(events_of_the_dead_are_forgotten)
{
	struct rdma_cm_id *active, *passive;

	connect_pair(&active, &passive);
	ck_assert_int_eq(rdma_disconnect(active), 0);
	while (!is_readable(server))
		;
	destroy(passive);
	ck_assert(!is_readable(server));
	expect(client, active, RDMA_CM_EVENT_DISCONNECTED, 0);
	destroy(active);
}
END_TEST

/* --- datagrams ----------------------------------------------------------------------- */

START_TEST(datagram_services_are_found)
{
	struct rdma_conn_param param = parameters("please");
	struct rdma_cm_id *active = open_client(true), *passive;
	struct rdma_cm_event *event;

	ck_assert_int_eq(rdma_connect(active, &param), 0);
	event = next_event(server, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	passive = event->id;
	check_data(event->param.ud.private_data, event->param.ud.private_data_len, "please", 180);
	ck_assert_int_eq(passive->route.num_paths, 0); /* nothing was said of one */
	ck_assert_ptr_null(passive->route.path_rec);
	ck_assert_mem_eq(&passive->route.addr.addr.ibaddr.dgid, &active->route.path_rec->sgid, 16);
	rdma_ack_cm_event(event);
	create_qp(passive);
	ck_assert_int_eq(passive->qp->state, IBV_QPS_RTS);
	param = parameters("here you are");
	ck_assert_int_eq(rdma_accept(passive, &param), 0);
	event = next_event(client, RDMA_CM_EVENT_ESTABLISHED, 0);
	check_data(event->param.ud.private_data, event->param.ud.private_data_len, "here you are",
		   136);
	ck_assert_int_eq(event->param.ud.qp_num, passive->qp->qp_num);
	ck_assert_int_eq(event->param.ud.qkey, RDMA_UDP_QKEY);
	ck_assert_int_eq(event->param.ud.ah_attr.is_global, 1);
	ck_assert_int_eq(event->param.ud.ah_attr.port_num, 1);
	ck_assert_mem_eq(&event->param.ud.ah_attr.grh.dgid, &active->route.path_rec->dgid, 16);
	rdma_ack_cm_event(event);
	destroy(passive);
	destroy(active);
}
END_TEST

START_TEST(datagram_services_refuse)
{
	struct rdma_conn_param param = parameters("");
	struct rdma_cm_id *active = open_client(true), *passive;
	struct rdma_cm_event *event;

	ck_assert_int_eq(rdma_connect(active, &param), 0);
	passive = next_request();
	ck_assert_int_eq(rdma_reject(passive, "no", 2), 0);
	event = next_event(client, RDMA_CM_EVENT_UNREACHABLE, 2);
	check_data(event->param.ud.private_data, event->param.ud.private_data_len, "no", 136);
	rdma_ack_cm_event(event);
	destroy(passive);
	destroy(active);

	destroy(listener);
	listener = NULL;
	active = open_id(client, RDMA_PS_UDP);
	resolve(active, PORT);
	ck_assert_int_eq(rdma_connect(active, &param), 0);
	expect(client, active, RDMA_CM_EVENT_UNREACHABLE, 1);
	destroy(active);
}
END_TEST

START_TEST(accepting_a_datagram_fails)
{
	struct rdma_cm_id *active = open_client(true), *passive = fail_to_accept(active, 137);

	expect(client, active, RDMA_CM_EVENT_UNREACHABLE, 2);
	destroy(passive);
	destroy(active);
}
END_TEST

/* The same port in another space. */
START_TEST(other_spaces_are_other_services)
{
	struct rdma_conn_param param = parameters("");
	struct rdma_cm_id *active = open_id(client, RDMA_PS_TCP);

	resolve(active, PORT);
	create_qp(active);
	ck_assert_int_eq(rdma_connect(active, &param), 0);
	expect(client, active, RDMA_CM_EVENT_REJECTED, 8);
	destroy(active);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("requests");
	TCase *requests = tcase_create("requests"), *datagrams = tcase_create("datagrams");
	TCase *families = tcase_create("families"); /* of addresses */

	fixture_environment();
	tcase_set_timeout(requests, 60);
	tcase_set_timeout(datagrams, 60);
	tcase_set_timeout(families, 60);
	tcase_add_checked_fixture(requests, setup, teardown);
	tcase_add_checked_fixture(datagrams, setup_datagrams, teardown);
	ADD(requests, rejection_tells_why, accepting_fails, client_gives_up, nobody_listens,
	    backlog_is_full, listener_takes_its_requests_along, channel_takes_its_requests_along,
	    wildcard_listeners_hear, wildcard_listeners_of_ipv6_alone,
	    requests_migrate_with_their_listener, events_of_the_dead_are_forgotten);
	ADD(datagrams, datagram_services_are_found, datagram_services_refuse,
	    accepting_a_datagram_fails, other_spaces_are_other_services);
	ADD(families, wildcard_listeners_hear_their_family);
	suite_add_tcase(suite, requests);
	suite_add_tcase(suite, datagrams);
	suite_add_tcase(suite, families);
	return run_suite(suite);
}
