/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connections within this process: every event that two well-behaved sides see,
 * with its data, and what destroying things on the way does.
 */
#include <poll.h>
#include <rdma/rdma_verbs.h>

#include "tests/verbs/newer_manager.h"
#include "tests/verbs/sides.h"

/* --- the way of a connection --------------------------------------------------- */

START_TEST(request_tells_all)
{
	struct rdma_conn_param param = parameters("please");
	struct rdma_cm_id *active = open_client(true), *passive;
	struct rdma_cm_event *event;

	ck_assert_int_eq(rdma_connect(active, &param), 0);
	ck_fails(rdma_connect(active, &param), EINVAL);
	event = next_event(server, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	passive = event->id;
	ck_assert_ptr_eq(event->listen_id, listener);
	check_data(event->param.conn.private_data, event->param.conn.private_data_len, "please",
		   56);
	/* Each side's are the other's, the other way round. */
	ck_assert_int_eq(event->param.conn.responder_resources, 5);
	ck_assert_int_eq(event->param.conn.initiator_depth, 3);
	ck_assert_int_eq(event->param.conn.retry_count, 6);
	ck_assert_int_eq(event->param.conn.rnr_retry_count, 2);
	ck_assert_int_eq(event->param.conn.qp_num, active->qp->qp_num);

	ck_assert_ptr_eq(passive->context, &context);
	ck_assert_ptr_eq(passive->channel, server);
	ck_assert_ptr_eq(passive->verbs, active->verbs);
	ck_assert_int_eq(passive->ps, RDMA_PS_TCP);
	ck_assert_int_eq(passive->qp_type, IBV_QPT_RC);
	ck_assert_int_eq(passive->route.num_paths, 1);
	ck_assert_int_eq(passive->route.path_rec->packet_life_time,
			 active->route.path_rec->packet_life_time);
	ck_assert_int_eq(ntohs(rdma_get_src_port(passive)), PORT);
	ck_assert_int_eq(rdma_get_dst_port(passive), rdma_get_src_port(active));
	ck_assert_mem_eq(rdma_get_local_addr(passive), rdma_get_peer_addr(active),
			 sizeof(struct sockaddr_in));
	rdma_ack_cm_event(event);
	destroy(passive);
	expect(client, active, RDMA_CM_EVENT_REJECTED, 28);
	destroy(active);
}
END_TEST

/* Up to what the device has; counters have three bits; private data that isn't there is none. */
START_TEST(parameters_are_checked)
{
	struct rdma_conn_param param = parameters("");
	struct rdma_cm_id *active = open_client(true), *passive;
	struct rdma_cm_event *event;
	struct ibv_device_attr most;

	ck_assert_int_eq(ibv_query_device(active->verbs, &most), 0);
	ck_assert_int_lt(most.max_qp_rd_atom, RDMA_MAX_RESP_RES);
	ck_assert_int_lt(most.max_qp_init_rd_atom, RDMA_MAX_INIT_DEPTH);
	param.responder_resources = most.max_qp_rd_atom + 1;
	ck_fails(rdma_connect(active, &param), EINVAL);
	param.responder_resources = most.max_qp_rd_atom;
	param.initiator_depth = most.max_qp_init_rd_atom + 1;
	ck_fails(rdma_connect(active, &param), EINVAL);
	param.initiator_depth = most.max_qp_init_rd_atom;
	param.retry_count = 8;
	param.rnr_retry_count = 9;
	param.private_data = NULL;
	param.private_data_len = 57;
	ck_assert_int_eq(rdma_connect(active, &param), 0);
	event = next_event(server, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	passive = event->id;
	ck_assert_int_eq(event->param.conn.responder_resources, most.max_qp_init_rd_atom);
	ck_assert_int_eq(event->param.conn.initiator_depth, most.max_qp_rd_atom);
	ck_assert_int_eq(event->param.conn.retry_count, 7);
	ck_assert_int_eq(event->param.conn.rnr_retry_count, 7);
	check_data(event->param.conn.private_data, event->param.conn.private_data_len, "", 56);
	rdma_ack_cm_event(event);
	ck_assert_int_eq(rdma_reject(passive, NULL, 1), 0);
	expect(client, active, RDMA_CM_EVENT_REJECTED, 28);
	destroy(passive);
	destroy(active);
}
END_TEST

static void create_qp_with_srq(struct rdma_cm_id *id)
{
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = 1, .max_sge = 1}};

	ck_assert_int_eq(rdma_create_srq(id, NULL, &attr), 0);
	create_qp(id);
}

/* Whether a queue pair has an SRQ it says itself, whatever the application does. */
START_TEST(shared_receive_queues_are_told)
{
	struct rdma_conn_param param = parameters("");
	struct rdma_cm_id *active = open_client(false), *passive;
	struct rdma_cm_event *event;

	create_qp_with_srq(active);
	param.flow_control = 1;
	ck_assert_int_eq(rdma_connect(active, &param), 0);
	event = next_event(server, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	passive = event->id;
	ck_assert_int_eq(event->param.conn.srq, 1);
	ck_assert_int_eq(event->param.conn.flow_control, 1);
	rdma_ack_cm_event(event);
	create_qp(passive);
	param.srq = 1;
	param.flow_control = 0;
	ck_assert_int_eq(rdma_accept(passive, &param), 0);
	event = next_event(client, RDMA_CM_EVENT_ESTABLISHED, 0);
	ck_assert_int_eq(event->param.conn.srq, 0);
	ck_assert_int_eq(event->param.conn.flow_control, 0);
	rdma_ack_cm_event(event);
	expect(server, passive, RDMA_CM_EVENT_ESTABLISHED, 0);
	rdma_destroy_ep(active);
	expect(server, passive, RDMA_CM_EVENT_DISCONNECTED, 0);
	destroy(passive);
}
END_TEST

START_TEST(reply_tells_all)
{
	struct rdma_conn_param param = parameters("please");
	struct rdma_cm_id *active = open_client(true), *passive;
	struct rdma_cm_event *event;

	ck_assert_int_eq(rdma_connect(active, &param), 0);
	passive = next_request();
	create_qp(passive);
	param = parameters("here you are");
	param.responder_resources = 2;
	param.initiator_depth = 1;
	ck_assert_int_eq(rdma_accept(passive, &param), 0);
	while (!is_readable(client))
		;
	ck_fails(rdma_establish(active),
		 EINVAL); /* an id with a QP: that is to be connected before */
	event = next_event(client, RDMA_CM_EVENT_ESTABLISHED, 0);
	ck_assert_ptr_eq(event->id, active);
	ck_assert_ptr_null(event->listen_id);
	check_data(event->param.conn.private_data, event->param.conn.private_data_len,
		   "here you are", 196);
	ck_assert_int_eq(event->param.conn.responder_resources, 1);
	ck_assert_int_eq(event->param.conn.initiator_depth, 2);
	ck_assert_int_eq(event->param.conn.qp_num, passive->qp->qp_num);
	rdma_ack_cm_event(event);
	expect(server, passive, RDMA_CM_EVENT_ESTABLISHED, 0);
	ck_fails(rdma_notify(passive, IBV_EVENT_COMM_EST), EISCONN);
	destroy(active);
	expect(server, passive, RDMA_CM_EVENT_DISCONNECTED, 0);
	destroy(passive);
}
END_TEST

START_TEST(queue_pairs_follow)
{
	struct rdma_cm_id *active, *passive;
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	int mask = IBV_QP_STATE | IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC |
		   IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_DEST_QPN | IBV_QP_AV;

	connect_pair(&active, &passive);
	ck_assert_int_eq(ibv_query_qp(active->qp, &attr, mask, &init), 0);
	ck_assert_int_eq(attr.qp_state, IBV_QPS_RTS);
	ck_assert_int_eq(attr.dest_qp_num, passive->qp->qp_num);
	/* What the passive side grants: its responder resources are our depth. */
	ck_assert_int_eq(attr.max_rd_atomic, 3);
	ck_assert_int_eq(attr.max_dest_rd_atomic, 5);
	ck_assert_int_eq(attr.retry_cnt, 6);
	ck_assert_int_eq(attr.rnr_retry, 2);
	ck_assert_int_eq(attr.ah_attr.grh.hop_limit, 64);
	ck_assert_int_eq(ibv_query_qp(passive->qp, &attr, mask, &init), 0);
	ck_assert_int_eq(attr.qp_state, IBV_QPS_RTS);
	ck_assert_int_eq(attr.max_rd_atomic, 5);
	ck_assert_int_eq(attr.max_dest_rd_atomic, 3);
	send_one(active, passive);
	send_one(passive, active);

	ck_assert_int_eq(rdma_disconnect(active), 0);
	ck_assert_int_eq(active->qp->state, IBV_QPS_ERR);
	expect(server, passive, RDMA_CM_EVENT_DISCONNECTED, 0);
	ck_assert_int_eq(rdma_disconnect(passive), 0);
	ck_assert_int_eq(passive->qp->state, IBV_QPS_ERR);
	expect(client, active, RDMA_CM_EVENT_DISCONNECTED, 0);
	expect(client, active, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
	expect(server, passive, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
	destroy(active);
	destroy(passive);
}
END_TEST

static void set_ack_timeout(struct rdma_cm_id *id, uint8_t timeout)
{
	ck_assert_int_eq(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout,
					 sizeof(timeout)),
			 0);
}

static uint8_t ack_timeout(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	ck_assert_int_eq(ibv_query_qp(id->qp, &attr, IBV_QP_TIMEOUT, &init), 0);
	return attr.timeout;
}

/* 0 is a value, too: the timer is off. What is accepted has its listener's. */
START_TEST(ack_timeout_as_asked)
{
	static const struct {
		int active, passive; /* -1: not asked for */
	} asked[] = {{0, -1}, {14, -1}, {-1, 0}, {-1, 14}};

	for (size_t i = 0; i < sizeof(asked) / sizeof(*asked); i++) {
		struct rdma_cm_id *active = open_id(client, listener->ps), *passive;

		if (asked[i].active >= 0)
			set_ack_timeout(active, asked[i].active);
		resolve(active, PORT);
		/* The way there and back; a timer that is off says nothing of it. */
		ck_assert_int_eq(active->route.path_rec->packet_life_time,
				 asked[i].active > 0 ? asked[i].active - 1 : 16);
		create_qp(active);
		if (asked[i].passive >= 0)
			set_ack_timeout(listener, asked[i].passive);
		passive = connect_client(active);
		/* What the request says includes the device's delay. */
		ck_assert_int_eq(passive->route.path_rec->packet_life_time,
				 asked[i].active > 0 ? 15 : 16);
		if (asked[i].active >= 0)
			ck_assert_int_eq(ack_timeout(active), asked[i].active);
		else
			ck_assert_int_gt(ack_timeout(active), 14);
		if (asked[i].passive >= 0)
			ck_assert_int_eq(ack_timeout(passive), asked[i].passive);
		else
			ck_assert_int_gt(ack_timeout(passive), 14);
		send_one(active, passive);
		send_one(passive, active);
		destroy(active);
		expect(server, passive, RDMA_CM_EVENT_DISCONNECTED, 0);
		destroy(passive);
	}
}
END_TEST

/* As on Linux it is the queue pair that hasn't so many bits. */
START_TEST(ack_timeout_of_more_bits)
{
	struct rdma_cm_id *active = open_id(client, listener->ps), *passive;
	struct rdma_conn_param param = parameters("");

	set_ack_timeout(active, 255);
	resolve(active, PORT);
	ck_assert_int_eq(active->route.path_rec->packet_life_time, 30);
	create_qp(active);
	ck_assert_int_eq(rdma_connect(active, &param), 0);
	passive = next_request();
	create_qp(passive);
	ck_assert_int_eq(rdma_accept(passive, &param), 0);
	expect(client, active, RDMA_CM_EVENT_CONNECT_ERROR, -EINVAL);
	destroy(active);
	destroy(passive);
}
END_TEST

START_TEST(both_disconnect)
{
	struct rdma_cm_id *active, *passive;

	connect_pair(&active, &passive);
	ck_assert_int_eq(rdma_disconnect(active), 0);
	ck_assert_int_eq(rdma_disconnect(passive), 0);
	expect(client, active, RDMA_CM_EVENT_DISCONNECTED, 0);
	expect(server, passive, RDMA_CM_EVENT_DISCONNECTED, 0);
	/* Each may have heard of the other's before it got an answer, and owes one itself. */
	ck_assert_int_eq(rdma_disconnect(active), 0);
	ck_assert_int_eq(rdma_disconnect(passive), 0);
	expect(client, active, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
	expect(server, passive, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
	destroy(active);
	destroy(passive);
}
END_TEST

START_TEST(defaults_of_accept)
{
	struct rdma_conn_param param = parameters("");
	struct rdma_cm_id *active = open_client(true), *passive;
	struct rdma_cm_event *event;

	ck_assert_int_eq(rdma_connect(active, &param), 0);
	passive = next_request();
	ck_fails(rdma_accept(passive, NULL), EINVAL); /* which QP? */
	create_qp(passive);
	ck_assert_int_eq(rdma_accept(passive, NULL), 0);
	event = next_event(client, RDMA_CM_EVENT_ESTABLISHED, 0);
	ck_assert_int_eq(event->param.conn.responder_resources, 3);
	ck_assert_int_eq(event->param.conn.initiator_depth, 5);
	rdma_ack_cm_event(event);
	expect(server, passive, RDMA_CM_EVENT_ESTABLISHED, 0);
	destroy(passive);
	expect(client, active, RDMA_CM_EVENT_DISCONNECTED, 0);
	destroy(active);
}
END_TEST

/* --- without QPs of the library's ------------------------------------------------ */

START_TEST(queue_pairs_of_the_application)
{
	struct rdma_conn_param param = parameters("");
	struct rdma_cm_id *active = open_client(false), *passive;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR};
	struct rdma_cm_event *event;
	int mask;

	param.qp_num = 0x1234;
	param.srq = 1;
	ck_assert_int_eq(rdma_connect(active, &param), 0);
	ck_fails(rdma_establish(active), EINVAL);
	event = next_event(server, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	ck_assert_int_eq(event->param.conn.qp_num, 0x1234);
	ck_assert_int_eq(event->param.conn.srq, 1);
	passive = event->id;
	rdma_ack_cm_event(event);
	ck_assert_int_eq(rdma_init_qp_attr(passive, &attr, &mask), 0);
	ck_assert_int_eq(attr.dest_qp_num, 0x1234);
	param.qp_num = 0x4321;
	ck_assert_int_eq(rdma_accept(passive, &param), 0);
	event = next_event(client, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
	ck_assert_int_eq(event->param.conn.qp_num, 0x4321);
	rdma_ack_cm_event(event);
	ck_assert_int_eq(rdma_init_qp_attr(active, &attr, &mask), 0);
	ck_assert_int_eq(attr.dest_qp_num, 0x4321);
	ck_assert(mask & IBV_QP_AV);
	ck_assert_int_eq(rdma_establish(active), 0);
	expect(server, passive, RDMA_CM_EVENT_ESTABLISHED, 0);
	ck_fails(rdma_establish(active), EINVAL);
	destroy(active);
	expect(server, passive, RDMA_CM_EVENT_DISCONNECTED, 0);
	destroy(passive);
}
END_TEST

START_TEST(established_by_notification)
{
	struct rdma_conn_param param = parameters("");
	struct rdma_cm_id *active = open_client(false), *passive;

	ck_assert_int_eq(rdma_connect(active, &param), 0);
	passive = next_request();
	ck_fails(rdma_notify(passive, IBV_EVENT_COMM_EST), EINVAL);
	ck_assert_int_eq(rdma_accept(passive, &param), 0);
	expect(client, active, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
	ck_fails(rdma_notify(passive, IBV_EVENT_PATH_MIG), EINVAL);
	ck_assert_int_eq(rdma_notify(passive, IBV_EVENT_COMM_EST), 0);
	expect(server, passive, RDMA_CM_EVENT_ESTABLISHED, 0);
	ck_assert_int_eq(rdma_establish(active), 0);
	destroy(passive);
	expect(client, active, RDMA_CM_EVENT_DISCONNECTED, 0);
	ck_assert(!is_readable(server));
	destroy(active);
}
END_TEST

START_TEST(extensions_travel)
{
	struct ibv_ece ours = {.vendor_id = 0x123456, .options = 0xabcdef01}, found;
	struct rdma_conn_param param = parameters("");
	struct ibv_ece masked = {.vendor_id = 1, .comp_mask = 1};
	struct rdma_cm_id *active = open_client(false), *passive;

	ck_fails(rdma_set_local_ece(active, &masked), EINVAL);
	ck_assert_int_eq(rdma_set_local_ece(active, &ours), 0);
	ck_assert_int_eq(rdma_connect(active, &param), 0);
	passive = next_request();
	ck_assert_int_eq(rdma_get_remote_ece(passive, &found), 0);
	ck_assert_int_eq(found.vendor_id, ours.vendor_id);
	ck_assert_int_eq(found.options, ours.options);
	ck_assert_int_eq(rdma_reject_ece(passive, NULL, 0), 0);
	expect(client, active, RDMA_CM_EVENT_REJECTED, 35);
	destroy(passive);
	destroy(active);
}
END_TEST

START_TEST(extensions_travel_back)
{
	struct ibv_ece theirs = {.vendor_id = 0x654321, .options = 0x10fedcba}, found;
	struct rdma_conn_param param = parameters("");
	struct rdma_cm_id *active = open_client(false), *passive;

	ck_assert_int_eq(rdma_connect(active, &param), 0);
	passive = next_request();
	ck_assert_int_eq(rdma_set_local_ece(passive, &theirs), 0);
	ck_assert_int_eq(rdma_accept(passive, &param), 0);
	expect(client, active, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
	ck_assert_int_eq(rdma_get_remote_ece(active, &found), 0);
	ck_assert_int_eq(found.vendor_id, theirs.vendor_id);
	ck_assert_int_eq(found.options, theirs.options);
	ck_assert_int_eq(found.comp_mask, 0);
	destroy(passive);
	expect(client, active, RDMA_CM_EVENT_REJECTED, 28);
	ck_fails(rdma_establish(active), EINVAL);
	destroy(active);
}
END_TEST
/*
 * The server takes its reply back before the client's application has got it. What else was
 * queued for the id isn't of the connection, and is still told.
 */
START_TEST(reply_is_taken_back)
{
	struct rdma_conn_param param = parameters("");
	struct rdma_cm_id *active = open_client(true), *passive;

	ck_assert_int_eq(rdma_connect(active, &param), 0);
	passive = next_request();
	create_qp(passive);
	ck_assert_int_eq(rdma_accept(passive, &param), 0);
	while (!is_readable(client))
		;
	destroy(passive);
	wait_for_client();
	ck_assert_int_eq(newer_write_cm_event(active, NEWER_EVENT_USER, 0, 0), 0);
	expect(client, active, RDMA_CM_EVENT_CONNECT_ERROR, -EINVAL);
	ck_assert_int_eq(active->qp->state, IBV_QPS_ERR);
	expect(client, active, NEWER_EVENT_USER, 0);
	ck_assert(!is_readable(client));
	destroy(active);
}
END_TEST

/* The QP that was to be connected isn't able to: both sides hear of it. */
START_TEST(queue_pair_fails)
{
	struct rdma_conn_param param = parameters("");
	struct rdma_cm_id *active = open_client(true), *passive;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	ck_assert_int_eq(rdma_connect(active, &param), 0);
	passive = next_request();
	create_qp(passive);
	ck_assert_int_eq(rdma_accept(passive, &param), 0);
	ck_assert_int_eq(ibv_modify_qp(active->qp, &attr, IBV_QP_STATE), 0);
	expect(client, active, RDMA_CM_EVENT_CONNECT_ERROR, -EINVAL);
	expect(server, passive, RDMA_CM_EVENT_REJECTED, 28);
	ck_assert_int_eq(passive->qp->state, IBV_QPS_ERR);
	destroy(passive);
	destroy(active);
	ck_assert(!is_readable(client));
}
END_TEST

#define SLOW_MS 5000 /* longer than until what wasn't answered is sent again: 4096, 4608 ms */

/*
 * Applications that take their time: meanwhile each side tells the other, when that asks again,
 * that it will take longer (MRA). What comes then is told all the same.
 */
START_TEST(slow_applications)
{
	enum { ESTABLISHES, GIVES_UP, IS_NOTIFIED, TAKES_BACK, COUNT };
	struct rdma_conn_param param = parameters("");
	struct rdma_cm_id *active[COUNT], *passive[COUNT], *waits, *asked;

	for (int i = 0; i < COUNT; i++) {
		active[i] = open_client(false);
		param.qp_num++; /* another queue pair each */
		ck_assert_int_eq(rdma_connect(active[i], &param), 0);
		passive[i] = next_request();
		param.qp_num++;
		ck_assert_int_eq(rdma_accept(passive[i], &param), 0);
		expect(client, active[i], RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
	}
	waits = open_client(false);
	param.qp_num++;
	ck_assert_int_eq(rdma_connect(waits, &param), 0);
	asked = next_request();
	poll(NULL, 0, SLOW_MS);

	ck_assert_int_eq(rdma_establish(active[ESTABLISHES]), 0);
	expect(server, passive[ESTABLISHES], RDMA_CM_EVENT_ESTABLISHED, 0);
	destroy(active[ESTABLISHES]);
	expect(server, passive[ESTABLISHES], RDMA_CM_EVENT_DISCONNECTED, 0);
	destroy(active[GIVES_UP]);
	expect(server, passive[GIVES_UP], RDMA_CM_EVENT_REJECTED, 28);
	ck_assert_int_eq(rdma_notify(passive[IS_NOTIFIED], IBV_EVENT_COMM_EST), 0);
	expect(server, passive[IS_NOTIFIED], RDMA_CM_EVENT_ESTABLISHED, 0);
	destroy(passive[TAKES_BACK]);
	expect(client, active[TAKES_BACK], RDMA_CM_EVENT_REJECTED, 28);
	ck_assert_int_eq(rdma_reject(asked, NULL, 0), 0);
	expect(client, waits, RDMA_CM_EVENT_REJECTED, 28);
	ck_assert(!is_readable(server) && !is_readable(client));
	for (int i = 0; i < COUNT; i++) {
		if (i != TAKES_BACK)
			destroy(passive[i]);
		if (i != ESTABLISHES && i != GIVES_UP)
			destroy(active[i]);
	}
	destroy(asked);
	destroy(waits);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("connections");
	TCase *connections = tcase_create("connections");

	fixture_environment();
	tcase_set_timeout(connections, 60);
	tcase_add_checked_fixture(connections, setup, teardown);
	ADD(connections, request_tells_all, parameters_are_checked, shared_receive_queues_are_told,
	    reply_tells_all, queue_pairs_follow, ack_timeout_as_asked, ack_timeout_of_more_bits,
	    both_disconnect, defaults_of_accept, queue_pairs_of_the_application,
	    established_by_notification, extensions_travel, extensions_travel_back,
	    reply_is_taken_back, queue_pair_fails, slow_applications);
	suite_add_tcase(suite, connections);
	return run_suite(suite);
}
