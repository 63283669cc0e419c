/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * InfiniBand's socket addresses: a GID, which is an IP address on RoCE, and a service id.
 */
#include <endian.h>
#include <infiniband/ib.h>
#include <net/if.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>

#include "tests/run_suite.h"
#include "tests/verbs/fixture.h"
#include "tests/verbs/manager.h"

#define PORT 7476
#define WHOLE UINT64_MAX
#define ANY NULL

static struct rdma_event_channel *server, *client;

static void setup(void)
{
	server = open_channel();
	client = open_channel();
}

static void teardown(void)
{
	rdma_destroy_event_channel(server);
	rdma_destroy_event_channel(client);
}

/* The GID of @ip (IPv4; ANY: none). Good until the thread's next but three. */
static struct sockaddr *ib_address(const char *ip, uint64_t service, uint64_t mask)
{
	static _Thread_local struct sockaddr_ib ring[4];
	static _Thread_local unsigned int next;
	struct sockaddr_ib *ib = &ring[next++ % 4];
	char text[INET6_ADDRSTRLEN];

	*ib = (struct sockaddr_ib){.sib_family = AF_IB,
				   .sib_pkey = htons(0xffff),
				   .sib_sid = htobe64(service),
				   .sib_sid_mask = htobe64(mask)};
	if (!ip)
		return (struct sockaddr *)ib;
	snprintf(text, sizeof(text), "::ffff:%s", ip);
	ck_assert_int_eq(inet_pton(AF_INET6, text, &ib->sib_addr), 1);
	return (struct sockaddr *)ib;
}

static struct sockaddr *here(uint64_t service, uint64_t mask)
{
	return ib_address(fixture_address(), service, mask);
}

static const struct sockaddr_ib *local(const struct rdma_cm_id *id)
{
	return (struct sockaddr_ib *)rdma_get_local_addr((struct rdma_cm_id *)id);
}

static const struct sockaddr_ib *peer(const struct rdma_cm_id *id)
{
	return (struct sockaddr_ib *)rdma_get_peer_addr((struct rdma_cm_id *)id);
}

/* --- binding ---------------------------------------------------------------------- */

/* What an id of a port space may be bound to, and the service that it then has. */
static const struct {
	enum rdma_port_space ps;
	uint64_t service, mask;
	int error;
	uint64_t bound; /* without the port, if that was 0 */
} services[] = {
	{RDMA_PS_TCP, RDMA_IB_IP_PS_TCP + PORT, WHOLE, 0, RDMA_IB_IP_PS_TCP + PORT},
	{RDMA_PS_TCP, RDMA_IB_IP_PS_TCP, RDMA_IB_IP_PS_MASK, 0, RDMA_IB_IP_PS_TCP},
	{RDMA_PS_TCP, PORT, RDMA_IB_IP_PORT_MASK, 0, RDMA_IB_IP_PS_TCP + PORT},
	{RDMA_PS_TCP, 0, 0, 0, RDMA_IB_IP_PS_TCP},
	{RDMA_PS_UDP, 0, 0, 0, RDMA_IB_IP_PS_UDP},
	{RDMA_PS_IB, 0, 0, 0, RDMA_IB_PS_IB},
	{RDMA_PS_IB, RDMA_IB_PS_IB + PORT, WHOLE, 0, RDMA_IB_PS_IB + PORT},
	{RDMA_PS_IB, RDMA_IB_IP_PS_TCP + PORT, WHOLE, 0, RDMA_IB_IP_PS_TCP + PORT},
	{RDMA_PS_IB, RDMA_IB_IP_PS_UDP + PORT, WHOLE, 0, RDMA_IB_IP_PS_UDP + PORT},
	{RDMA_PS_TCP, RDMA_IB_IP_PS_UDP + PORT, WHOLE, EPROTONOSUPPORT, 0},
	{RDMA_PS_UDP, RDMA_IB_IP_PS_TCP + PORT, WHOLE, EPROTONOSUPPORT, 0},
	{RDMA_PS_IB, 0x1000000000000001, WHOLE, EPROTONOSUPPORT, 0},
	{RDMA_PS_IPOIB, 0, 0, EPROTONOSUPPORT, 0},
};

START_TEST(services_of_port_spaces)
{
	struct rdma_cm_id *id = open_id(server, services[_i].ps);
	struct sockaddr *address = here(services[_i].service, services[_i].mask);
	uint64_t bound;

	if (services[_i].error) {
		ck_fails(rdma_bind_addr(id, address), services[_i].error);
		ck_assert_ptr_null(id->verbs);
		destroy(id);
		return;
	}
	ck_assert_int_eq(rdma_bind_addr(id, address), 0);
	ck_assert_ptr_nonnull(id->verbs);
	ck_assert_int_eq(local(id)->sib_family, AF_IB);
	ck_assert_mem_eq(&local(id)->sib_addr, &((struct sockaddr_ib *)address)->sib_addr, 16);
	ck_assert_mem_eq(&id->route.addr.addr.ibaddr.sgid, &local(id)->sib_addr, 16);
	ck_assert(local(id)->sib_sid_mask == WHOLE);
	bound = be64toh(local(id)->sib_sid);
	ck_assert_int_eq(ntohs(rdma_get_src_port(id)), bound & 0xffff);
	ck_assert_int_ne(bound & 0xffff, 0);
	if (!(services[_i].bound & 0xffff))
		bound &= RDMA_IB_IP_PS_MASK;
	ck_assert_uint_eq(bound, services[_i].bound);
	destroy(id);
}
END_TEST

START_TEST(bind_to_gids)
{
	struct rdma_cm_id *id = open_id(server, RDMA_PS_TCP);

	ck_fails(rdma_bind_addr(id, ib_address("203.0.113.1", 0, 0)), EADDRNOTAVAIL);
	/* As librdmacm tries whether the kernel knows AF_IB. */
	ck_assert_int_eq(rdma_bind_addr(id, ib_address(ANY, RDMA_IB_IP_PS_TCP, RDMA_IB_IP_PS_MASK)),
			 0);
	ck_assert_ptr_null(id->verbs);
	ck_fails(rdma_bind_addr(id, here(0, 0)), EINVAL);
	destroy(id);
}
END_TEST

/* There is one space of services, however they are named. */
START_TEST(services_are_shared_with_ports)
{
	struct rdma_cm_id *ip = open_id(server, RDMA_PS_TCP), *ib = open_id(server, RDMA_PS_IB);
	struct rdma_cm_id *datagram = open_id(server, RDMA_PS_UDP);

	ck_assert_int_eq(rdma_bind_addr(ip, socket_address(NULL, PORT)), 0);
	ck_fails(rdma_bind_addr(ib, here(RDMA_IB_IP_PS_TCP + PORT, WHOLE)), EADDRINUSE);
	ck_fails(rdma_bind_addr(ib, ib_address(ANY, RDMA_IB_IP_PS_TCP + PORT, WHOLE)),
		 EADDRNOTAVAIL);
	ck_assert_int_eq(rdma_bind_addr(ib, here(RDMA_IB_PS_IB + PORT, WHOLE)), 0);
	ck_assert_int_eq(rdma_bind_addr(datagram, here(PORT, RDMA_IB_IP_PORT_MASK)), 0);
	destroy(ip);
	destroy(ib);
	destroy(datagram);
}
END_TEST

/* --- resolving -------------------------------------------------------------------- */

START_TEST(resolve_gids)
{
	struct rdma_cm_id *id = open_id(client, RDMA_PS_TCP);

	ck_assert_int_eq(rdma_resolve_addr(id, NULL, here(RDMA_IB_IP_PS_TCP + PORT, WHOLE), 1000),
			 0);
	expect(client, id, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	ck_assert_ptr_nonnull(id->verbs);
	ck_assert_int_eq(local(id)->sib_family, AF_IB);
	ck_assert_mem_eq(&local(id)->sib_addr, &peer(id)->sib_addr, 16);
	ck_assert_uint_eq(be64toh(local(id)->sib_sid) & RDMA_IB_IP_PS_MASK, RDMA_IB_IP_PS_TCP);
	ck_assert_int_eq(ntohs(rdma_get_dst_port(id)), PORT);
	ck_assert_int_eq(rdma_resolve_route(id, 1000), 0);
	expect(client, id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	ck_assert_mem_eq(&id->route.path_rec->dgid, &peer(id)->sib_addr, 16);
	ck_assert_mem_eq(&id->route.path_rec->sgid, &local(id)->sib_addr, 16);
	destroy(id);
}
END_TEST

/* The flow label that the address says is the path's. */
START_TEST(flow_of_an_address)
{
	struct rdma_cm_id *id = open_id(client, RDMA_PS_TCP);
	struct sockaddr *to = here(RDMA_IB_IP_PS_TCP + PORT, WHOLE);

	((struct sockaddr_ib *)to)->sib_flowinfo = htonl(0x12345);
	ck_assert_int_eq(rdma_resolve_addr(id, NULL, to, 1000), 0);
	expect(client, id, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	ck_assert_int_eq(rdma_resolve_route(id, 1000), 0);
	expect(client, id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	ck_assert_uint_eq(ntohl(id->route.path_rec->flow_label), 0x12345);
	destroy(id);
}
END_TEST

/* No GID is our own one, as no address is. */
START_TEST(no_gid)
{
	struct rdma_cm_id *id = open_id(client, RDMA_PS_TCP);

	ck_assert_int_eq(
		rdma_resolve_addr(id, NULL, ib_address(ANY, RDMA_IB_IP_PS_TCP + PORT, WHOLE), 1000),
		0);
	expect(client, id, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	ck_assert_mem_eq(&local(id)->sib_addr, &peer(id)->sib_addr, 16);
	ck_assert_uint_eq(be64toh(peer(id)->sib_sid), RDMA_IB_IP_PS_TCP + PORT);
	destroy(id);
}
END_TEST

START_TEST(families_do_not_mix)
{
	struct rdma_cm_id *id = open_id(client, RDMA_PS_TCP);

	ck_fails(rdma_resolve_addr(id, here(0, 0), socket_address(NULL, PORT), 1000), EINVAL);
	destroy(id);
	id = open_bound_id(client, RDMA_PS_TCP);
	ck_fails(rdma_resolve_addr(id, NULL, here(RDMA_IB_IP_PS_TCP + PORT, WHOLE), 1000), EINVAL);
	destroy(id);
}
END_TEST

/* --- connections ------------------------------------------------------------------- */

static struct rdma_cm_id *listen_at(struct sockaddr *address, enum rdma_port_space ps)
{
	struct rdma_cm_id *listener = open_id(server, ps);

	ck_assert_int_eq(rdma_bind_addr(listener, address), 0);
	ck_assert_int_eq(rdma_listen(listener, 0), 0);
	return listener;
}

static struct rdma_cm_id *open_client(struct sockaddr *to, enum rdma_port_space ps)
{
	struct rdma_cm_id *id = open_id(client, ps);

	ck_assert_int_eq(rdma_resolve_addr(id, NULL, to, 1000), 0);
	expect(client, id, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	ck_assert_int_eq(rdma_resolve_route(id, 1000), 0);
	expect(client, id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	create_qp(id);
	return id;
}

/* All of a REQ's private data is the application's: there is no header with addresses. */
static struct rdma_cm_id *check_request(struct rdma_cm_id *listener, const struct rdma_cm_id *from,
					const uint8_t *data, uint8_t length, uint64_t service)
{
	struct rdma_cm_event *event = next_event(server, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	struct rdma_cm_id *id = event->id;

	ck_assert_ptr_eq(event->listen_id, listener);
	if (id->qp_type == IBV_QPT_UD) {
		ck_assert_uint_eq(event->param.ud.private_data_len, length);
		ck_assert_mem_eq(event->param.ud.private_data, data, length);
	} else {
		ck_assert_uint_eq(event->param.conn.private_data_len, length);
		ck_assert_mem_eq(event->param.conn.private_data, data, length);
	}
	ck_assert_int_eq(local(id)->sib_family, AF_IB);
	ck_assert_int_eq(peer(id)->sib_family, AF_IB);
	ck_assert_mem_eq(&local(id)->sib_addr, &peer(from)->sib_addr, 16);
	ck_assert_mem_eq(&peer(id)->sib_addr, &local(from)->sib_addr, 16);
	ck_assert_uint_eq(be64toh(local(id)->sib_sid), service);
	ck_assert_uint_eq(be64toh(local(id)->sib_sid_mask), WHOLE);
	ck_assert_int_eq(rdma_ack_cm_event(event), 0);
	create_qp(id);
	return id;
}

static void fill(uint8_t *data, size_t length)
{
	for (size_t i = 0; i < length; i++)
		data[i] = i + 1;
}

/* @_i: listening at any GID, too. */
START_TEST(connections)
{
	const uint64_t service = RDMA_IB_PS_IB + PORT;
	struct rdma_cm_id *listener =
		listen_at(_i ? ib_address(ANY, service, WHOLE) : here(service, WHOLE), RDMA_PS_IB);
	struct rdma_cm_id *active = open_client(here(service, WHOLE), RDMA_PS_IB), *passive;
	uint8_t data[93];
	struct rdma_conn_param param = {.private_data = data, .private_data_len = sizeof(data)};

	fill(data, sizeof(data));
	ck_fails(rdma_connect(active, &param), EINVAL);
	param.private_data_len = 92;
	ck_assert_int_eq(rdma_connect(active, &param), 0);
	passive = check_request(listener, active, data, 92, service);
	ck_assert_int_eq(rdma_accept(passive, NULL), 0);
	expect(client, active, RDMA_CM_EVENT_ESTABLISHED, 0);
	expect(server, passive, RDMA_CM_EVENT_ESTABLISHED, 0);
	send_one(active, passive);
	send_one(passive, active);
	ck_assert_int_eq(rdma_disconnect(active), 0);
	expect(server, passive, RDMA_CM_EVENT_DISCONNECTED, 0);
	ck_assert_int_eq(rdma_disconnect(passive), 0);
	expect(client, active, RDMA_CM_EVENT_DISCONNECTED, 0);
	destroy(active);
	destroy(passive);
	destroy(listener);
}
END_TEST

START_TEST(datagrams)
{
	const uint64_t service = RDMA_IB_IP_PS_UDP + PORT;
	struct rdma_cm_id *listener = listen_at(here(service, WHOLE), RDMA_PS_UDP), *passive;
	struct rdma_cm_id *active = open_client(here(service, WHOLE), RDMA_PS_UDP);
	uint8_t data[217];
	struct rdma_conn_param param = {.private_data = data, .private_data_len = sizeof(data)};

	fill(data, sizeof(data));
	ck_fails(rdma_connect(active, &param), EINVAL);
	param.private_data_len = 216;
	ck_assert_int_eq(rdma_connect(active, &param), 0);
	passive = check_request(listener, active, data, 216, service);
	ck_assert_int_eq(rdma_accept(passive, NULL), 0);
	expect(client, active, RDMA_CM_EVENT_ESTABLISHED, 0);
	destroy(active);
	destroy(passive);
	destroy(listener);
}
END_TEST

/* What IP addresses are in private data (Annex A11), IPv4's at the end of their fields. */
#define HEADER 36

static void set_header(uint8_t header[HEADER], const struct sockaddr_in *from,
		       const struct sockaddr_in *to)
{
	memset(header, 0, HEADER);
	header[1] = 4 << 4;
	memcpy(header + 2, &from->sin_port, 2);
	memcpy(header + 4 + 12, &from->sin_addr, 4);
	memcpy(header + 20 + 12, &to->sin_addr, 4);
}

static struct sockaddr_in *address(void)
{
	return (struct sockaddr_in *)socket_address(NULL, PORT);
}

/* A listener of IP addresses looks for them there. */
START_TEST(listeners_of_another_family)
{
	struct rdma_cm_id *listener = listen_at((struct sockaddr *)address(), RDMA_PS_TCP);
	uint8_t data[92], version[HEADER], none[HEADER];
	struct rdma_conn_param params[] = {
		{.private_data = data, .private_data_len = sizeof(data)},
		{.private_data = version, .private_data_len = sizeof(version)},
		{.private_data = none, .private_data_len = sizeof(none)},
	};

	fill(data, sizeof(data));
	set_header(version, address(), address());
	version[0] = 1 << 4;
	set_header(none, address(), address());
	none[1] = 5 << 4;
	for (size_t i = 0; i < sizeof(params) / sizeof(*params); i++) {
		struct rdma_cm_id *active =
			open_client(here(RDMA_IB_IP_PS_TCP + PORT, WHOLE), RDMA_PS_TCP);

		ck_assert_int_eq(rdma_connect(active, &params[i]), 0);
		rdma_ack_cm_event(next_event(client, RDMA_CM_EVENT_REJECTED, 28));
		ck_assert(!is_readable(server));
		destroy(active);
	}
	destroy(listener);
}
END_TEST

/* And one of GIDs sees all that the request of an IP address says. */
START_TEST(requests_of_another_family)
{
	struct rdma_cm_id *listener = listen_at(here(RDMA_IB_IP_PS_TCP + PORT, WHOLE), RDMA_PS_TCP);
	struct rdma_cm_id *active = open_client((struct sockaddr *)address(), RDMA_PS_TCP);
	struct rdma_conn_param param = {.private_data = "words", .private_data_len = 5};
	struct rdma_cm_event *event;
	struct rdma_cm_id *passive;
	uint8_t header[HEADER];

	set_header(header, &active->route.addr.src_sin, address());
	ck_assert_int_eq(rdma_connect(active, &param), 0);
	event = next_event(server, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	passive = event->id;
	ck_assert_uint_eq(event->param.conn.private_data_len, 92);
	ck_assert_mem_eq(event->param.conn.private_data, header, HEADER);
	ck_assert_mem_eq((const char *)event->param.conn.private_data + HEADER, "words", 6);
	rdma_ack_cm_event(event);
	destroy(passive);
	rdma_ack_cm_event(next_event(client, RDMA_CM_EVENT_REJECTED, 28));
	destroy(active);
	destroy(listener);
}
END_TEST

/* --- address information ------------------------------------------------------------ */

START_TEST(looked_up)
{
	const bool passive = _i;
	struct rdma_addrinfo hints = {
		.ai_flags = RAI_NUMERICHOST | RAI_FAMILY | (passive ? RAI_PASSIVE : 0),
		.ai_family = AF_IB,
		.ai_port_space = RDMA_PS_TCP,
	};
	const struct sockaddr_ib *found;
	struct rdma_addrinfo *info;
	char text[INET6_ADDRSTRLEN];

	snprintf(text, sizeof(text), "::ffff:%s", fixture_address());
	ck_assert_int_eq(rdma_getaddrinfo(text, "7476", &hints, &info), 0);
	ck_assert_int_eq(info->ai_family, AF_IB);
	ck_assert_int_eq(info->ai_qp_type, IBV_QPT_RC);
	ck_assert_uint_eq(passive ? info->ai_src_len : info->ai_dst_len,
			  sizeof(struct sockaddr_ib));
	ck_assert_ptr_null(passive ? info->ai_dst_addr : info->ai_src_addr);
	found = (struct sockaddr_ib *)(passive ? info->ai_src_addr : info->ai_dst_addr);
	ck_assert_mem_eq(found, here(RDMA_IB_IP_PS_TCP + PORT, WHOLE), sizeof(*found));
	rdma_freeaddrinfo(info);
}
END_TEST

/* Without a name it is any GID, without a service any port; IPv4 addresses are mapped. */
START_TEST(looked_up_partly)
{
	struct rdma_addrinfo hints = {
		.ai_flags = RAI_NUMERICHOST | RAI_FAMILY | RAI_PASSIVE,
		.ai_family = AF_IB,
		.ai_port_space = RDMA_PS_TCP,
	};
	struct rdma_addrinfo *info;

	ck_assert_int_eq(rdma_getaddrinfo(NULL, "7476", &hints, &info), 0);
	ck_assert_mem_eq(info->ai_src_addr, ib_address(ANY, RDMA_IB_IP_PS_TCP + PORT, WHOLE),
			 sizeof(struct sockaddr_ib));
	rdma_freeaddrinfo(info);
	/* Of IP unless the flag says that the family counts (rdma_getaddrinfo(3)). */
	hints.ai_flags &= ~RAI_FAMILY;
	ck_assert_int_eq(rdma_getaddrinfo((char *)fixture_address(), NULL, &hints, &info), 0);
	ck_assert_int_eq(info->ai_family, AF_INET);
	ck_assert_int_eq(info->ai_src_addr->sa_family, AF_INET);
	rdma_freeaddrinfo(info);
	hints.ai_flags |= RAI_FAMILY;
	ck_assert_int_eq(rdma_getaddrinfo((char *)fixture_address(), NULL, &hints, &info), 0);
	ck_assert_mem_eq(info->ai_src_addr, here(RDMA_IB_IP_PS_TCP, RDMA_IB_IP_PS_MASK),
			 sizeof(struct sockaddr_ib));
	rdma_freeaddrinfo(info);
}
END_TEST

/* An address of a link says nothing without its interface. */
START_TEST(looked_up_on_a_link)
{
	struct rdma_addrinfo hints = {
		.ai_flags = RAI_NUMERICHOST | RAI_FAMILY,
		.ai_family = AF_IB,
		.ai_port_space = RDMA_PS_TCP,
	};
	const struct sockaddr_ib *found;
	struct rdma_addrinfo *info;

	ck_assert_int_eq(rdma_getaddrinfo("fe80::1%lo", "7476", &hints, &info), 0);
	found = (struct sockaddr_ib *)info->ai_dst_addr;
	ck_assert_uint_eq(found->sib_scope_id, if_nametoindex("lo"));
	rdma_freeaddrinfo(info);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("af_ib");
	TCase *tests = tcase_create("af_ib");

	fixture_environment();
	tcase_set_timeout(tests, 60);
	tcase_add_checked_fixture(tests, setup, teardown);
	tcase_add_loop_test(tests, services_of_port_spaces, 0,
			    sizeof(services) / sizeof(services[0]));
	tcase_add_test(tests, bind_to_gids);
	tcase_add_test(tests, services_are_shared_with_ports);
	tcase_add_test(tests, resolve_gids);
	tcase_add_test(tests, flow_of_an_address);
	tcase_add_test(tests, no_gid);
	tcase_add_test(tests, families_do_not_mix);
	tcase_add_loop_test(tests, connections, 0, 2);
	tcase_add_test(tests, datagrams);
	tcase_add_test(tests, listeners_of_another_family);
	tcase_add_test(tests, requests_of_another_family);
	tcase_add_loop_test(tests, looked_up, 0, 2);
	tcase_add_test(tests, looked_up_partly);
	tcase_add_test(tests, looked_up_on_a_link);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
