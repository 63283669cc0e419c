/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Address information: what hints make of names and numbers, and the same asynchronously.
 */
#include <netdb.h>
#include <string.h>

#include "tests/run_suite.h"
#include "tests/verbs/fixture.h"
#include "tests/verbs/manager.h"
#include "tests/verbs/newer_manager.h"

#define PORT 7472

/* What hints make of "7472" on this node. */
static const struct answer {
	struct rdma_addrinfo hints;
	int error, port_space, qp_type;
} answers[] = {
	{{}, 0, RDMA_PS_TCP, IBV_QPT_RC},
	{{.ai_flags = RAI_PASSIVE}, 0, RDMA_PS_TCP, IBV_QPT_RC},
	{{.ai_flags = RAI_NUMERICHOST | RAI_FAMILY, .ai_family = AF_INET},
	 0,
	 RDMA_PS_TCP,
	 IBV_QPT_RC},
	{{.ai_qp_type = IBV_QPT_UD}, 0, RDMA_PS_UDP, IBV_QPT_UD},
	{{.ai_port_space = RDMA_PS_UDP}, 0, RDMA_PS_UDP, IBV_QPT_UD},
	{{.ai_port_space = RDMA_PS_IPOIB}, 0, RDMA_PS_IPOIB, IBV_QPT_UD},
	{{.ai_port_space = RDMA_PS_IB, .ai_qp_type = IBV_QPT_UC}, 0, RDMA_PS_IB, IBV_QPT_UC},
	{{.ai_port_space = RDMA_PS_TCP, .ai_qp_type = IBV_QPT_UD}, EAI_SOCKTYPE, 0, 0},
	{{.ai_flags = 0x40000000}, EAI_BADFLAGS, 0, 0},
	{{.ai_flags = RAI_FAMILY, .ai_family = AF_INET6}, EAI_ADDRFAMILY, 0, 0},
	/* The flag isn't needed. */
	{{.ai_family = AF_INET6}, EAI_ADDRFAMILY, 0, 0},
	{{.ai_flags = RAI_PASSIVE, .ai_family = AF_INET6}, EAI_ADDRFAMILY, 0, 0},
	{{.ai_family = AF_INET}, 0, RDMA_PS_TCP, IBV_QPT_RC},
	/* The length of an address that isn't there. */
	{{.ai_family = AF_INET, .ai_src_len = sizeof(struct sockaddr_in)},
	 0,
	 RDMA_PS_TCP,
	 IBV_QPT_RC},
};

START_TEST(hints_are_taken)
{
	const struct answer *answer = &answers[_i];
	struct rdma_addrinfo *info = NULL;
	const struct sockaddr *address;
	int error = rdma_getaddrinfo((char *)fixture_address(), "7472", &answer->hints, &info);

	ck_assert_int_eq(error, answer->error);
	if (error)
		return;
	ck_assert_int_eq(info->ai_port_space, answer->port_space);
	ck_assert_int_eq(info->ai_qp_type, answer->qp_type);
	ck_assert_int_eq(info->ai_family, AF_INET);
	address = answer->hints.ai_flags & RAI_PASSIVE ? info->ai_src_addr : info->ai_dst_addr;
	ck_assert_mem_eq(address, socket_address(NULL, PORT), sizeof(struct sockaddr_in));
	ck_assert_ptr_null(answer->hints.ai_flags & RAI_PASSIVE ? info->ai_dst_addr
								: info->ai_src_addr);
	rdma_freeaddrinfo(info);
}
END_TEST

START_TEST(names_that_are_none)
{
	struct rdma_addrinfo hints = {.ai_flags = RAI_NUMERICHOST}, *info;

	ck_fails(rdma_getaddrinfo(NULL, NULL, NULL, &info), EINVAL);
	ck_assert_int_eq(rdma_getaddrinfo("no number", "7472", &hints, &info), EAI_NONAME);
	ck_assert_int_eq(
		rdma_getaddrinfo((char *)fixture_address(), "no-such-service", NULL, &info),
		EAI_SERVICE);
}
END_TEST

/* EAI_BADFLAGS is -1, which programs take for a call that has set errno. */
START_TEST(flags_that_are_none)
{
	const struct rdma_addrinfo hints = {.ai_flags = RAI_NUMERICHOST | 0x40000000};
	struct rdma_addrinfo *info;

	ck_fails(rdma_getaddrinfo((char *)fixture_address(), "7472", &hints, &info), EINVAL);
	ck_fails(rdma_getaddrinfo(NULL, NULL, &hints, &info), EINVAL);
}
END_TEST

/* Without a name, the hints' own addresses. */
START_TEST(addresses_of_hints)
{
	struct rdma_addrinfo hints = {
		.ai_src_addr = socket_address(NULL, 0),
		.ai_src_len = sizeof(struct sockaddr_in),
		.ai_dst_addr = socket_address(NULL, PORT),
		.ai_dst_len = sizeof(struct sockaddr_in),
	};
	struct rdma_addrinfo *info;

	ck_assert_int_eq(rdma_getaddrinfo(NULL, NULL, &hints, &info), 0);
	ck_assert_mem_eq(info->ai_src_addr, hints.ai_src_addr, hints.ai_src_len);
	ck_assert_mem_eq(info->ai_dst_addr, hints.ai_dst_addr, hints.ai_dst_len);
	rdma_freeaddrinfo(info);
	rdma_freeaddrinfo(NULL);
}
END_TEST

/* --- asynchronously ------------------------------------------------------------ */

static char *address(void)
{
	return (char *)fixture_address();
}

START_TEST(resolved_by_a_thread)
{
	const struct rdma_addrinfo hints = {.ai_flags = RAI_NUMERICHOST | RAI_DNS,
					    .ai_qp_type = IBV_QPT_UD};
	struct rdma_event_channel *channel = open_channel();
	struct rdma_cm_id *id = open_id(channel, RDMA_PS_UDP);
	struct rdma_addrinfo *info, *again;

	ck_fails(newer_query_addrinfo(id, &info), EINVAL);
	ck_assert_int_eq(newer_resolve_addrinfo(id, address(), "7472", &hints), 0);
	expect(channel, id, NEWER_EVENT_ADDRINFO_RESOLVED, 0);
	ck_assert_int_eq(newer_query_addrinfo(id, &info), 0);
	ck_assert_int_eq(newer_query_addrinfo(id, &again), 0);
	ck_assert_ptr_ne(info, again);
	rdma_freeaddrinfo(again);
	ck_assert_int_eq(info->ai_family, AF_INET);
	ck_assert_int_eq(info->ai_qp_type, IBV_QPT_UD);
	ck_assert_int_eq(info->ai_port_space, RDMA_PS_UDP);
	ck_assert_uint_eq(info->ai_dst_len, sizeof(struct sockaddr_in));
	ck_assert_mem_eq(info->ai_dst_addr, socket_address(NULL, PORT), info->ai_dst_len);
	ck_assert_ptr_null(info->ai_next);
	/* It is what the id can be resolved by, and outlives it. */
	ck_assert_int_eq(rdma_resolve_addr(id, info->ai_src_addr, info->ai_dst_addr, 1000), 0);
	expect(channel, id, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	destroy(id);
	rdma_freeaddrinfo(info);
	rdma_destroy_event_channel(channel);
}
END_TEST

START_TEST(not_resolved)
{
	const struct rdma_addrinfo numeric = {.ai_flags = RAI_NUMERICHOST};
	const struct rdma_addrinfo unknown = {.ai_flags = 0x40000000};
	const struct rdma_addrinfo mixed = {.ai_qp_type = IBV_QPT_UD, .ai_port_space = RDMA_PS_TCP};
	const struct rdma_addrinfo ipv6 = {.ai_flags = RAI_FAMILY, .ai_family = AF_INET6};
	struct rdma_event_channel *channel = open_channel();
	struct rdma_cm_id *id = open_id(channel, RDMA_PS_TCP);
	struct rdma_addrinfo *info;

	ck_assert_int_eq(newer_resolve_addrinfo(id, address(), "7472", NULL), 0);
	expect(channel, id, NEWER_EVENT_ADDRINFO_RESOLVED, 0);
	ck_assert_int_eq(newer_resolve_addrinfo(id, "no number", "7472", &numeric), 0);
	expect(channel, id, NEWER_EVENT_ADDRINFO_ERROR, -ENOENT);
	ck_fails(newer_query_addrinfo(id, &info), EINVAL); /* what was found before is gone */
	ck_assert_int_eq(newer_resolve_addrinfo(id, address(), "no-such-service", NULL), 0);
	expect(channel, id, NEWER_EVENT_ADDRINFO_ERROR, -ENOENT);
	ck_assert_int_eq(newer_resolve_addrinfo(id, address(), "7472", &unknown), 0);
	expect(channel, id, NEWER_EVENT_ADDRINFO_ERROR, -EINVAL);
	ck_assert_int_eq(newer_resolve_addrinfo(id, address(), "7472", &mixed), 0);
	expect(channel, id, NEWER_EVENT_ADDRINFO_ERROR, -EINVAL);
	ck_assert_int_eq(newer_resolve_addrinfo(id, address(), "7472", &ipv6), 0);
	expect(channel, id, NEWER_EVENT_ADDRINFO_ERROR, -EAFNOSUPPORT);
	destroy(id);
	rdma_destroy_event_channel(channel);
}
END_TEST

/* What is refused at once makes no event. */
START_TEST(resolving_refused)
{
	const struct rdma_addrinfo both = {.ai_flags = RAI_SA | RAI_DNS};
	const struct rdma_addrinfo administrator = {.ai_flags = RAI_SA};
	struct rdma_event_channel *channel = open_channel();
	struct rdma_cm_id *id = open_id(channel, RDMA_PS_TCP);

	ck_fails(newer_resolve_addrinfo(id, NULL, NULL, NULL), EINVAL);
	ck_fails(newer_resolve_addrinfo(id, address(), "7472", &both), EINVAL);
	ck_fails(newer_resolve_addrinfo(id, NULL, "7472", &administrator), EINVAL); /* unbound */
	ck_assert_int_eq(rdma_bind_addr(id, socket_address(NULL, 0)), 0);
	ck_fails(newer_resolve_addrinfo(id, NULL, "7472", &both), EINVAL);
	ck_fails(newer_resolve_addrinfo(id, address(), "7472", &administrator), EINVAL);
	ck_fails(newer_resolve_addrinfo(id, NULL, "7472", &administrator), EOPNOTSUPP);
	ck_assert(!is_readable(channel));
	destroy(id);
	rdma_destroy_event_channel(channel);
}
END_TEST

START_TEST(synchronous_ids_wait)
{
	const struct rdma_addrinfo hints = {.ai_flags = RAI_NUMERICHOST};
	struct rdma_cm_id *id = open_id(NULL, RDMA_PS_TCP);
	struct rdma_addrinfo *info;

	ck_assert_int_eq(newer_resolve_addrinfo(id, address(), "7472", &hints), 0);
	ck_assert_int_eq(id->event->event, NEWER_EVENT_ADDRINFO_RESOLVED);
	ck_assert_int_eq(newer_query_addrinfo(id, &info), 0);
	rdma_freeaddrinfo(info);
	ck_fails(newer_resolve_addrinfo(id, "no number", "7472", &hints), ENOENT);
	ck_assert_int_eq(id->event->event, NEWER_EVENT_ADDRINFO_ERROR);
	ck_fails(newer_query_addrinfo(id, &info), EINVAL); /* the last one found nothing */
	destroy(id);
}
END_TEST

/* Ids go while their look-ups are under way: nothing is told of them, and nothing waits. */
START_TEST(destroyed_while_resolving)
{
	struct rdma_event_channel *channel = open_channel();
	struct rdma_cm_id *last;

	for (unsigned int i = 0; i < 20; i++) {
		struct rdma_cm_id *id = open_id(channel, RDMA_PS_TCP);

		ck_assert_int_eq(newer_resolve_addrinfo(id, address(), "7472", NULL), 0);
		destroy(id);
	}
	last = open_id(channel, RDMA_PS_TCP);
	ck_assert_int_eq(newer_resolve_addrinfo(last, address(), "7472", NULL), 0);
	expect(channel, last, NEWER_EVENT_ADDRINFO_RESOLVED, 0);
	ck_assert(!is_readable(channel));
	destroy(last);
	rdma_destroy_event_channel(channel);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("addrinfo");
	TCase *tests = tcase_create("addrinfo");

	fixture_environment();
	tcase_set_timeout(tests, 60);
	tcase_add_loop_test(tests, hints_are_taken, 0, sizeof(answers) / sizeof(answers[0]));
	tcase_add_test(tests, names_that_are_none);
	tcase_add_test(tests, flags_that_are_none);
	tcase_add_test(tests, addresses_of_hints);
	tcase_add_test(tests, resolved_by_a_thread);
	tcase_add_test(tests, not_resolved);
	tcase_add_test(tests, resolving_refused);
	tcase_add_test(tests, synchronous_ids_wait);
	tcase_add_test(tests, destroyed_while_resolving);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
