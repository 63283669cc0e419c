/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ids before they connect: channels, addresses, options, and the errors of what is called too
 * early.
 */
#include <fcntl.h>
#include <infiniband/sa.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/run_suite.h"
#include "tests/sanitizers.h"
#include "tests/verbs/fixture.h"
#include "tests/verbs/manager.h"

#define PORT 7471
#define ELSEWHERE "192.0.2.1" /* RFC 5737: no host has it */

static struct rdma_event_channel *channel;

static void setup(void)
{
	channel = open_channel();
}

static void teardown(void)
{
	rdma_destroy_event_channel(channel);
}

static struct rdma_cm_id *new_id(void)
{
	return open_id(channel, RDMA_PS_TCP);
}

/* --- channels ---------------------------------------------------------------- */

START_TEST(channel_is_readable_while_events_wait)
{
	struct rdma_cm_id *id = new_id();

	ck_assert(!is_readable(channel));
	ck_assert_int_eq(rdma_resolve_addr(id, NULL, socket_address(NULL, PORT), 1000), 0);
	ck_assert(is_readable(channel));
	ck_assert_int_eq(rdma_resolve_route(id, 1000), 0);
	expect(channel, id, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	ck_assert(is_readable(channel));
	expect(channel, id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	ck_assert(!is_readable(channel));
	destroy(id);
}
END_TEST

START_TEST(channel_may_be_non_blocking)
{
	struct rdma_cm_event *event;

	ck_assert_int_eq(fcntl(channel->fd, F_SETFL, O_NONBLOCK), 0);
	ck_fails(rdma_get_cm_event(channel, &event), EAGAIN);
	ck_fails(rdma_get_cm_event(channel, NULL), EINVAL);
	ck_fails(rdma_ack_cm_event(NULL), EINVAL);
}
END_TEST

/* rping ends like that, with a thread that goes on to wait. */
START_TEST(channel_goes_before_who_waits)
{
	struct rdma_event_channel *doomed = open_channel();
	struct rdma_cm_id *id = open_id(doomed, RDMA_PS_TCP);
	struct rdma_cm_event *event;

	ck_assert_int_eq(rdma_resolve_addr(id, NULL, socket_address(NULL, PORT), 1000), 0);
	rdma_destroy_event_channel(doomed);
	ck_fails(rdma_get_cm_event(doomed, &event), EBADF);
	ck_assert_int_eq(rdma_resolve_route(id, 1000), 0); /* and no event tells of it */
	destroy(id);
}
END_TEST

START_TEST(destroying_an_id_drops_its_events)
{
	struct rdma_cm_id *id = new_id(), *other = new_id();

	ck_assert_int_eq(rdma_resolve_addr(id, NULL, socket_address(NULL, PORT), 1000), 0);
	ck_assert_int_eq(rdma_resolve_addr(other, NULL, socket_address(NULL, PORT), 1000), 0);
	destroy(id);
	expect(channel, other, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	ck_assert(!is_readable(channel));
	destroy(other);
}
END_TEST

START_TEST(destroying_an_id_waits_for_acks)
{
	struct rdma_cm_id *id = new_id();
	struct late_ack ack;

	ck_assert_int_eq(rdma_resolve_addr(id, NULL, socket_address(NULL, PORT), 1000), 0);
	late_ack_begin(&ack, next_event(channel, RDMA_CM_EVENT_ADDR_RESOLVED, 0));
	destroy(id);
	late_ack_must_be_done(&ack);
}
END_TEST

START_TEST(migration_moves_events)
{
	struct rdma_event_channel *other = open_channel();
	struct rdma_cm_id *id = new_id(), *stays = new_id();

	ck_assert_int_eq(rdma_resolve_addr(stays, NULL, socket_address(NULL, PORT), 1000), 0);
	ck_assert_int_eq(rdma_resolve_addr(id, NULL, socket_address(NULL, PORT), 1000), 0);
	ck_assert_int_eq(rdma_migrate_id(id, other), 0);
	ck_assert_ptr_eq(id->channel, other);
	expect(channel, stays, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	ck_assert(!is_readable(channel));
	ck_assert_int_eq(rdma_resolve_route(id, 1000), 0);
	expect(other, id, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	expect(other, id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	destroy(id);
	destroy(stays);
	rdma_destroy_event_channel(other);
}
END_TEST

struct late_event {
	pthread_t thread;
	struct rdma_event_channel *from;
	struct rdma_cm_event *taken, *acked;
};

static void *take_then_acknowledge(void *argument)
{
	struct late_event *late = argument;

	ck_assert_int_eq(rdma_get_cm_event(late->from, &late->taken), 0);
	ck_assert_int_eq(rdma_ack_cm_event(late->acked), 0);
	return NULL;
}

START_TEST(migration_waits_for_acks)
{
	struct rdma_event_channel *other = open_channel();
	struct rdma_cm_id *id = new_id();
	struct late_ack ack;

	ck_assert_int_eq(rdma_resolve_addr(id, NULL, socket_address(NULL, PORT), 1000), 0);
	late_ack_begin(&ack, next_event(channel, RDMA_CM_EVENT_ADDR_RESOLVED, 0));
	ck_assert_int_eq(rdma_migrate_id(id, other), 0);
	late_ack_must_be_done(&ack);
	destroy(id);
	rdma_destroy_event_channel(other);
}
END_TEST

/* What another thread has got from the new channel may be acked when the call has returned. */
START_TEST(migration_waits_for_no_others)
{
	struct rdma_event_channel *other = open_channel();
	struct rdma_cm_id *id = new_id();
	struct late_event late = {.from = other};
	struct rdma_cm_event *event;

	ck_assert_int_eq(rdma_resolve_addr(id, NULL, socket_address(NULL, PORT), 1000), 0);
	late.acked = next_event(channel, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	ck_assert_int_eq(rdma_resolve_route(id, 1000), 0);
	ck_assert_int_eq(pthread_create(&late.thread, NULL, take_then_acknowledge, &late), 0);
	ck_assert_int_eq(rdma_migrate_id(id, other), 0);
	ck_assert_int_eq(pthread_join(late.thread, NULL), 0);
	event = late.taken;
	ck_assert_int_eq(event->event, RDMA_CM_EVENT_ROUTE_RESOLVED);
	ck_assert_int_eq(rdma_ack_cm_event(event), 0);
	destroy(id);
	rdma_destroy_event_channel(other);
}
END_TEST

START_TEST(migration_to_no_channel_makes_synchronous)
{
	struct rdma_cm_id *id = new_id();
	int own;

	ck_assert_int_eq(rdma_migrate_id(id, NULL), 0);
	own = id->channel->fd;
	ck_fails(rdma_migrate_id(id, NULL), EINVAL);
	ck_assert_ptr_ne(id->channel, channel);
	ck_assert_int_eq(rdma_resolve_addr(id, NULL, socket_address(NULL, PORT), 1000), 0);
	ck_assert_ptr_nonnull(id->event);
	ck_assert_int_eq(id->event->event, RDMA_CM_EVENT_ADDR_RESOLVED);
	ck_assert_int_eq(rdma_migrate_id(id, channel), 0);
	ck_fails(fcntl(own, F_GETFD), EBADF);
	ck_assert_ptr_null(id->event);
	ck_assert_int_eq(rdma_resolve_route(id, 1000), 0);
	expect(channel, id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	destroy(id);
}
END_TEST

START_TEST(synchronous_ids_wait_themselves)
{
	struct rdma_cm_id *id = open_id(NULL, RDMA_PS_TCP);

	ck_assert_ptr_nonnull(id->channel);
	ck_assert_int_eq(rdma_resolve_addr(id, NULL, socket_address(NULL, PORT), 1000), 0);
	ck_assert_int_eq(id->event->event, RDMA_CM_EVENT_ADDR_RESOLVED);
	ck_assert_int_eq(rdma_resolve_route(id, 1000), 0);
	ck_assert_int_eq(id->event->event, RDMA_CM_EVENT_ROUTE_RESOLVED);
	destroy(id);

	id = open_id(NULL, RDMA_PS_TCP);
	ck_fails(rdma_resolve_addr(id, NULL, socket_address("::1", PORT), 1000), ENODEV);
	ck_assert_int_eq(id->event->event, RDMA_CM_EVENT_ADDR_ERROR);
	destroy(id);
}
END_TEST

/* --- states ------------------------------------------------------------------ */

START_TEST(calls_out_of_order)
{
	static const char data[57];
	struct rdma_conn_param param = {.retry_count = 7};
	struct rdma_cm_id *id = new_id(), *none;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT};
	int mask;

	ck_fails(rdma_create_id(channel, &none, NULL, 0x7777), EINVAL);
	ck_fails(rdma_resolve_route(id, 1000), EINVAL);
	ck_fails(rdma_connect(id, &param), EINVAL);
	ck_fails(rdma_accept(id, &param), EINVAL);
	ck_fails(rdma_accept(id, NULL), EINVAL);
	ck_fails(rdma_reject(id, NULL, 0), EINVAL);
	ck_fails(rdma_reject_ece(id, NULL, 0), EINVAL);
	ck_fails(rdma_establish(id), EINVAL);
	ck_fails(rdma_notify(id, IBV_EVENT_COMM_EST), EINVAL);
	ck_fails(rdma_disconnect(id), EINVAL);
	ck_fails(rdma_init_qp_attr(id, &attr, &mask), EINVAL);

	ck_assert_int_eq(rdma_bind_addr(id, socket_address(NULL, 0)), 0);
	ck_fails(rdma_bind_addr(id, socket_address(NULL, 0)), EINVAL);
	ck_fails(rdma_resolve_route(id, 1000), EINVAL);
	ck_assert_int_eq(rdma_listen(id, 1), 0);
	ck_fails(rdma_listen(id, 1), EINVAL);
	ck_fails(rdma_resolve_addr(id, NULL, socket_address(NULL, PORT), 1000), EINVAL);
	ck_fails(rdma_connect(id, &param), EINVAL);
	/* Linux's listener is a communication id, without a connection. */
	ck_assert_int_eq(rdma_disconnect(id), 0);
	ck_fails(rdma_init_qp_attr(id, &attr, &mask), EINVAL);
	destroy(id);

	/* Of any address: there is no device. */
	id = new_id();
	ck_assert_int_eq(rdma_listen(id, 1), 0);
	ck_fails(rdma_disconnect(id), EINVAL);
	destroy(id);

	id = new_id();
	resolve(id, PORT);
	ck_fails(rdma_disconnect(id), EINVAL);
	ck_fails(rdma_resolve_addr(id, NULL, socket_address(NULL, PORT), 1000), EINVAL);
	ck_fails(rdma_resolve_route(id, 1000), EINVAL);
	ck_fails(rdma_listen(id, 1), EINVAL);
	ck_fails(rdma_connect(id, NULL), EINVAL); /* which QP? */
	param.responder_resources = 200;
	ck_fails(rdma_connect(id, &param), EINVAL);
	param.responder_resources = 1;
	param.private_data = data;
	param.private_data_len = sizeof(data);
	ck_fails(rdma_connect(id, &param), EINVAL);
	/* All is still possible. */
	param.private_data_len = 56;
	ck_assert_int_eq(rdma_connect(id, &param), 0);
	expect(channel, id, RDMA_CM_EVENT_REJECTED, 8);
	destroy(id);
}
END_TEST

START_TEST(no_addresses)
{
	struct rdma_cm_id *id = new_id();

	ck_fails(rdma_bind_addr(id, NULL), EINVAL);
	ck_fails(rdma_resolve_addr(id, NULL, NULL, 1000), EINVAL);
	ck_fails(rdma_join_multicast(id, NULL, NULL), EINVAL);
	ck_fails(rdma_leave_multicast(id, NULL), EINVAL);
	ck_assert(!is_readable(channel));
	destroy(id);
}
END_TEST

START_TEST(extensions)
{
	struct ibv_ece ece = {.vendor_id = 1};
	struct rdma_cm_id *id = new_id();

	ck_assert_int_eq(rdma_set_local_ece(id, &ece), 0);
	ck_assert_int_eq(rdma_get_remote_ece(id, &ece), 0);
	ck_assert_int_eq(ece.vendor_id, 0);
	ck_fails(rdma_set_local_ece(id, &ece), EINVAL);
	ck_fails(rdma_set_local_ece(id, NULL), EINVAL);
	ck_fails(rdma_get_remote_ece(id, NULL), EINVAL);
	destroy(id);

	/* A queue pair of the library's has its own (rdma_set_local_ece(3)). */
	id = open_bound_id(channel, RDMA_PS_TCP);
	create_qp(id);
	ece.vendor_id = 1;
	ck_fails(rdma_set_local_ece(id, &ece), EINVAL);
	ck_fails(rdma_get_remote_ece(id, &ece), EINVAL);
	destroy(id);
}
END_TEST

/* --- addresses --------------------------------------------------------------- */

START_TEST(bind_to_addresses)
{
	struct rdma_cm_id *id = new_id(), *other = new_id();
	struct sockaddr odd = {.sa_family = AF_UNIX};

	ck_fails(rdma_bind_addr(id, socket_address(ELSEWHERE, 0)), EADDRNOTAVAIL);
	ck_fails(rdma_bind_addr(id, socket_address("fe80::1", 0)), EINVAL);
	ck_fails(rdma_bind_addr(id, &odd), EINVAL);
	/* Those of all hosts aren't this node's, though a socket may be bound to them. */
	ck_fails(rdma_bind_addr(id, socket_address("255.255.255.255", 0)), EADDRNOTAVAIL);
	ck_fails(rdma_bind_addr(id, socket_address("127.255.255.255", 0)), EADDRNOTAVAIL);
	ck_assert_ptr_null(id->verbs);
	ck_assert_int_eq(rdma_get_src_port(id), 0);

	ck_assert_int_eq(rdma_bind_addr(id, socket_address(NULL, 0)), 0);
	ck_assert_ptr_nonnull(id->verbs);
	ck_assert_ptr_nonnull(id->pd);
	ck_assert_int_eq(id->port_num, 1);
	ck_assert_int_eq(rdma_get_local_addr(id)->sa_family, AF_INET);
	ck_assert_int_eq(rdma_get_peer_addr(id)->sa_family, AF_INET);

	/* One context for all ids, none for any address. */
	ck_assert_int_eq(rdma_bind_addr(other, socket_address(NULL, 0)), 0);
	ck_assert_ptr_eq(other->verbs, id->verbs);
	ck_assert_ptr_eq(other->pd, id->pd);
	destroy(other);
	other = new_id();
	ck_assert_int_eq(rdma_bind_addr(other, socket_address("0.0.0.0", 0)), 0);
	ck_assert_ptr_null(other->verbs);
	ck_assert_int_ne(rdma_get_src_port(other), 0);
	destroy(other);
	destroy(id);
}
END_TEST

START_TEST(bind_adds_local_addresses)
{
	struct rdma_cm_id *id = new_id();
	struct ibv_gid_entry table[8];
	char text[32];
	int count;

	/* The next of this process's own: see fixture_environment(). */
	snprintf(text, sizeof(text), "127.87.%u.%u", getpid() >> 8 & 0xff, getpid() & 0xff);
	ck_assert_int_eq(rdma_bind_addr(id, socket_address(text, 0)), 0);
	count = ibv_query_gid_table(id->verbs, table, 8, 0);
	ck_assert_int_eq(count, 2);
	ck_assert_mem_eq(table[1].gid.raw + 12,
			 &((struct sockaddr_in *)socket_address(text, 0))->sin_addr, 4);
	destroy(id);
}
END_TEST

START_TEST(resolve_addresses)
{
	struct rdma_cm_id *id = new_id();
	struct sockaddr_in *own = (struct sockaddr_in *)socket_address(NULL, 0);

	ck_assert_int_eq(rdma_resolve_addr(id, NULL, socket_address("127.0.0.1", PORT), 1000), 0);
	expect(channel, id, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	ck_assert_int_eq(id->route.addr.src_sin.sin_addr.s_addr, own->sin_addr.s_addr);
	ck_assert_int_ne(rdma_get_src_port(id), 0);
	ck_assert_int_eq(ntohs(rdma_get_dst_port(id)), PORT);
	ck_assert_int_eq(id->route.addr.addr.ibaddr.pkey, htons(0xffff));
	ck_assert_ptr_nonnull(id->verbs);
	ck_assert_ptr_null(id->route.path_rec);
	ck_assert_int_eq(rdma_resolve_route(id, 1000), 0);
	expect(channel, id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	ck_assert_int_eq(id->route.num_paths, 1);
	ck_assert_mem_eq(id->route.path_rec->sgid.raw + 12, &own->sin_addr, 4);
	ck_assert_int_eq(id->route.path_rec->hop_limit, 64);
	ck_assert_int_eq(ntohl(id->route.path_rec->flow_label),
			 (ntohs(rdma_get_src_port(id)) * 31 + PORT) & 0xfffff);
	destroy(id);

	/* No address: to ourselves. */
	id = new_id();
	ck_assert_int_eq(rdma_resolve_addr(id, NULL, socket_address("0.0.0.0", PORT), 1000), 0);
	expect(channel, id, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	ck_assert_int_eq(id->route.addr.dst_sin.sin_addr.s_addr, own->sin_addr.s_addr);
	ck_assert_int_eq(ntohs(rdma_get_dst_port(id)), PORT);
	destroy(id);

	/* One of IPv4 as IPv6 has it: IPv6's routes don't lead there. */
	id = new_id();
	ck_assert_int_eq(
		rdma_resolve_addr(id, NULL, socket_address("::ffff:127.0.0.1", PORT), 1000), 0);
	expect(channel, id, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	ck_assert_int_eq(id->route.addr.src_sin.sin_addr.s_addr, own->sin_addr.s_addr);
	ck_assert_int_eq(rdma_resolve_route(id, 1000), 0);
	expect(channel, id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	destroy(id);

	/* From an address and a port. */
	id = new_id();
	ck_assert_int_eq(rdma_resolve_addr(id, socket_address(NULL, PORT),
					   socket_address("127.0.0.1", PORT + 1), 1000),
			 0);
	expect(channel, id, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	ck_assert_int_eq(ntohs(rdma_get_src_port(id)), PORT);
	destroy(id);
}
END_TEST

START_TEST(addresses_that_cannot_be_resolved)
{
	struct rdma_cm_id *id = new_id();

	/* Nothing of ours has IPv6. The id may try again. */
	ck_assert_int_eq(rdma_resolve_addr(id, NULL, socket_address("::1", PORT), 1000), 0);
	expect(channel, id, RDMA_CM_EVENT_ADDR_ERROR, -ENODEV);
	ck_assert_int_eq(rdma_resolve_addr(id, NULL, socket_address("::1", PORT), 1000), 0);
	expect(channel, id, RDMA_CM_EVENT_ADDR_ERROR, -ENODEV);
	ck_fails(rdma_resolve_addr(id, NULL, socket_address(NULL, PORT), 1000), EINVAL);
	destroy(id);

	id = new_id();
	ck_fails(rdma_resolve_addr(id, socket_address(ELSEWHERE, 0), socket_address(NULL, PORT),
				   1000),
		 EADDRNOTAVAIL);
	ck_fails(rdma_resolve_addr(id, NULL, socket_address("fe80::1", PORT), 1000), EINVAL);
	ck_fails(rdma_resolve_addr(id, socket_address("fe80::1", 0), socket_address("::1", PORT),
				   1000),
		 EINVAL);
	ck_assert_int_eq(rdma_get_dst_port(id), 0); /* nothing stays of it */
	resolve(id, PORT);			    /* and all is still possible */
	destroy(id);
}
END_TEST

/* What there is without a connection, whatever is asked for. */
START_TEST(attributes_of_the_unconnected)
{
	static const enum ibv_qp_state states[] = {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS};
	struct rdma_cm_id *id = open_bound_id(channel, RDMA_PS_TCP);

	for (size_t i = 0; i < sizeof(states) / sizeof(*states); i++) {
		struct ibv_qp_attr attr = {.qp_state = states[i], .qp_access_flags = 7};
		int mask = 0;

		ck_assert_int_eq(rdma_init_qp_attr(id, &attr, &mask), 0);
		ck_assert_int_eq(mask, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
					       IBV_QP_ACCESS_FLAGS);
		ck_assert_int_eq(attr.qp_state, states[i]);
		ck_assert_int_eq(attr.port_num, 1);
		ck_assert_int_eq(attr.qp_access_flags, 0);
	}
	destroy(id);
}
END_TEST

/* A source has to have a family, even where it isn't needed. */
START_TEST(sources_of_no_family)
{
	static const sa_family_t families[] = {AF_UNSPEC, AF_UNIX};
	struct rdma_cm_id *id = new_id(), *bound = open_bound_id(channel, RDMA_PS_TCP);

	for (size_t i = 0; i < sizeof(families) / sizeof(*families); i++) {
		struct sockaddr source = {.sa_family = families[i]};

		ck_fails(rdma_resolve_addr(id, &source, socket_address(NULL, PORT), 1000), EINVAL);
		ck_fails(rdma_resolve_addr(bound, &source, socket_address(NULL, PORT), 1000),
			 EINVAL);
	}
	ck_assert(!is_readable(channel));
	destroy(id);
	destroy(bound);
}
END_TEST

/* --- options ----------------------------------------------------------------- */

START_TEST(options)
{
	struct rdma_cm_id *id = new_id(), *datagram = open_id(channel, RDMA_PS_UDP);
	uint8_t byte = 14, most = 255;
	int number = 1;
	struct ibv_path_data path = {};

#define SET(id, level, name, value) rdma_set_option(id, level, name, &(value), sizeof(value))
	ck_fails(SET(id, 7, 0, byte), ENOSYS);
	ck_fails(SET(id, RDMA_OPTION_ID, 9, byte), ENOSYS);
	ck_fails(SET(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, number), EINVAL);
	ck_fails(SET(id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, byte), EINVAL);
	ck_fails(SET(id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, byte), EINVAL);
	ck_fails(SET(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, number), EINVAL);
	ck_fails(SET(datagram, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, byte), EINVAL);
	ck_fails(SET(id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, byte), EINVAL);
	ck_fails(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, NULL, 1), EFAULT);
	ck_fails(SET(id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, path), EINVAL); /* no address yet */
	ck_assert_int_eq(SET(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, most), 0);
	ck_assert_int_eq(SET(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, byte), 0);
	ck_assert_int_eq(SET(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, byte), 0);

	ck_assert_int_eq(rdma_bind_addr(id, socket_address(NULL, 0)), 0);
	ck_assert_int_eq(SET(id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, number), 0);
	ck_assert_int_eq(rdma_resolve_addr(id, NULL, socket_address(NULL, PORT), 1000), 0);
	expect(channel, id, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	ck_fails(SET(id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, number), EINVAL);
	ck_fails(SET(id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, path), EINVAL); /* which path? */
	path.flags = IBV_PATH_FLAG_GMP | IBV_PATH_FLAG_PRIMARY | IBV_PATH_FLAG_BIDIRECTIONAL;
	ck_assert_int_eq(SET(id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, path), 0);
	expect(channel, id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	ck_assert_int_eq(id->route.path_rec->traffic_class, byte);
#undef SET
	destroy(id);
	destroy(datagram);
}
END_TEST

/* --- devices, forks ------------------------------------------------------------ */

START_TEST(devices)
{
	int count;
	struct ibv_context **list = rdma_get_devices(&count), **again = rdma_get_devices(NULL);
	struct rdma_cm_id *id = new_id();

	ck_assert_ptr_nonnull(list);
	ck_assert_int_eq(count, 1);
	ck_assert_ptr_null(list[1]);
	ck_assert_ptr_eq(list[0], again[0]);
	ck_assert_int_eq(rdma_bind_addr(id, socket_address(NULL, 0)), 0);
	ck_assert_ptr_eq(id->verbs, list[0]);
	destroy(id);
	rdma_free_devices(list);
	rdma_free_devices(again);
}
END_TEST

/* What the child of a fork finds: the parent's ids may be destroyed, and all is as at the start. */
static int child(struct rdma_cm_id *inherited)
{
	struct rdma_event_channel *own = rdma_create_event_channel();
	struct rdma_cm_id *id;

	if (rdma_listen(inherited, 1) == 0 || errno != EINVAL || rdma_destroy_id(inherited) != 0)
		return 1;
	if (!own || rdma_create_id(own, &id, NULL, RDMA_PS_TCP) != 0)
		return 2;
	/* The port is still the parent's. */
	if (rdma_bind_addr(id, socket_address(NULL, PORT)) == 0 || errno != EADDRINUSE)
		return 3;
	if (rdma_bind_addr(id, socket_address(NULL, PORT + 1)) != 0)
		return 4;
	return rdma_destroy_id(id) ? 5 : 0;
}

START_TEST(forks)
{
	struct rdma_cm_id *id = new_id();
	pid_t pid;

	ck_assert_int_eq(rdma_bind_addr(id, socket_address(NULL, PORT)), 0);
	pid = fork();
	if (pid == 0)
		_exit(child(id));
	ck_assert_int_eq(exit_status(pid), 0);
	ck_assert_int_eq(rdma_listen(id, 1), 0);
	destroy(id);
}
END_TEST

/*
 * What the parent has got of an id it acks there: a child that destroys the id doesn't wait for it.
 * The child may ack it, or not.
 */
START_TEST(forks_with_an_event)
{
	const bool acks = _i;
	struct rdma_cm_id *id = new_id();
	struct rdma_cm_event *event;
	pid_t pid;

	ck_assert_int_eq(rdma_resolve_addr(id, NULL, socket_address(NULL, PORT), 1000), 0);
	event = next_event(channel, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	pid = fork();
	if (pid == 0)
		_exit((acks && rdma_ack_cm_event(event) != 0) || rdma_destroy_id(id) != 0);
	ck_assert_int_eq(exit_status(pid), 0);
	ck_assert_int_eq(rdma_ack_cm_event(event), 0);
	destroy(id);
}
END_TEST

/* Destroying acks what the last call has left. */
START_TEST(forks_of_synchronous_ids)
{
	struct rdma_cm_id *id = open_id(NULL, RDMA_PS_TCP);
	pid_t pid;

	ck_assert_int_eq(rdma_resolve_addr(id, NULL, socket_address(NULL, PORT), 1000), 0);
	ck_assert_ptr_nonnull(id->event);
	pid = fork();
	if (pid == 0)
		_exit(rdma_destroy_id(id) != 0);
	ck_assert_int_eq(exit_status(pid), 0);
	destroy(id);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("ids");
	TCase *tests = tcase_create("ids");

	fixture_environment();
	tcase_set_timeout(tests, 60);
	tcase_add_checked_fixture(tests, setup, teardown);
	tcase_add_test(tests, channel_is_readable_while_events_wait);
	tcase_add_test(tests, channel_may_be_non_blocking);
	tcase_add_test(tests, channel_goes_before_who_waits);
	tcase_add_test(tests, destroying_an_id_drops_its_events);
	tcase_add_test(tests, destroying_an_id_waits_for_acks);
	tcase_add_test(tests, migration_moves_events);
	tcase_add_test(tests, migration_waits_for_acks);
	tcase_add_test(tests, migration_waits_for_no_others);
	tcase_add_test(tests, migration_to_no_channel_makes_synchronous);
	tcase_add_test(tests, synchronous_ids_wait_themselves);
	tcase_add_test(tests, calls_out_of_order);
	tcase_add_test(tests, no_addresses);
	tcase_add_test(tests, extensions);
	tcase_add_test(tests, bind_to_addresses);
	tcase_add_test(tests, bind_adds_local_addresses);
	tcase_add_test(tests, resolve_addresses);
	tcase_add_test(tests, addresses_that_cannot_be_resolved);
	tcase_add_test(tests, attributes_of_the_unconnected);
	tcase_add_test(tests, sources_of_no_family);
	tcase_add_test(tests, options);
	tcase_add_test(tests, devices);
	if (CHILD_ALLOCATES) {
		tcase_add_test(tests, forks);
		tcase_add_loop_test(tests, forks_with_an_event, 0, 2);
		tcase_add_test(tests, forks_of_synchronous_ids);
	}
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
