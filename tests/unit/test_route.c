/* SPDX-License-Identifier: BSD-2-Clause */
/* What the kernel says of routes, in a network namespace of its own. */
#include <errno.h>

#include "gid_of.h"
#include "net/route.h"
#include "net/wire/gid.h"
#include "tests/run_suite.h"
#include "tests/verbs/namespace.h"

#define NONE "0.0.0.0"

/* Returns what route_ask() does; the source becomes @expected. */
static int ask(const char *to, const char *from, const char *expected, uint32_t *mtu)
{
	const union ibv_gid destination = gid_of(to), source = gid_of(from),
			    wanted = gid_of(expected);
	struct sockaddr_storage name, chosen;
	union ibv_gid gid;
	int error;

	gid_to_sockaddr(&destination, 0, &name);
	gid_to_sockaddr(&source, 0, &chosen);
	error = route_ask((const struct sockaddr *)&name, &chosen, mtu);
	gid_from_sockaddr(&gid, (const struct sockaddr *)&chosen);
	ck_assert(gid_equal(&gid, &wanted));
	return error;
}

START_TEST(sources_and_mtus)
{
	uint32_t mtu = 0;

	if (!namespace_enter())
		return;
	ip("link set lo up mtu 4321");
	make_veth("urxe0", "urxe1");
	ip("link set urxe0 mtu 2500");
	ip("address add 10.1.0.1/24 dev urxe0");
	ip("address add 10.1.0.2/24 dev urxe0");
	ip("address add fd00::1/64 dev urxe0 nodad");
	ck_assert_int_eq(ask("127.0.0.1", NONE, "127.0.0.1", &mtu), 0);
	ck_assert_uint_eq(mtu, 4321);
	ck_assert_int_eq(ask("10.1.0.9", NONE, "10.1.0.1", &mtu), 0);
	ck_assert_uint_eq(mtu, 2500);
	ck_assert_int_eq(ask("10.1.0.9", "10.1.0.2", "10.1.0.2", NULL), 0);
	ck_assert_int_eq(ask("fd00::9", "::", "fd00::1", &mtu), 0);
	ck_assert_uint_eq(mtu, 2500);
}
END_TEST

/* Then the source stays as it is. */
START_TEST(there_is_none)
{
	if (!namespace_enter())
		return;
	ip("link set lo up");
	ck_assert_int_eq(ask("10.1.0.9", NONE, NONE, NULL), ENETUNREACH);
	ck_assert_int_eq(ask("fd00::9", "::", "::", NULL), ENETUNREACH);
	ck_assert_int_eq(ask("127.0.0.1", "10.9.9.9", "10.9.9.9", NULL), EADDRNOTAVAIL);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("route");
	TCase *tests = tcase_create("route");

	tcase_add_test(tests, sources_and_mtus);
	tcase_add_test(tests, there_is_none);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
