/* SPDX-License-Identifier: BSD-2-Clause */
/* GIDs and addresses; the table against what the machine's loopback gives anywhere. */
#include <check.h>
#include <errno.h>
#include <ifaddrs.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "gid_of.h"
#include "kernel_calls.h"
#include "net/wire/gid_table.h"
#include "tests/run_suite.h"

START_TEST(conversions)
{
	static const uint8_t mapped[16] = {[10] = 0xff, 0xff, 127, 1, 2, 3};
	const char *const texts[] = {"127.1.2.3", "fe80::1", "fd00::2", "::1"};
	const union ibv_gid ipv4 = gid_of("127.1.2.3");
	struct sockaddr_storage address;
	char text[INET6_ADDRSTRLEN];

	for (unsigned int i = 0; i < 4; i++) {
		union ibv_gid gid = gid_of(texts[i]), back;
		socklen_t length = gid_to_sockaddr(&gid, 4791, &address);

		ck_assert_int_eq(gid_is_ipv4(&gid), i == 0);
		ck_assert_int_eq(address.ss_family, i ? AF_INET6 : AF_INET);
		ck_assert_uint_eq(length,
				  i ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in));
		ck_assert_uint_eq(ntohs(((struct sockaddr_in *)&address)->sin_port), 4791);
		gid_from_sockaddr(&back, (struct sockaddr *)&address);
		ck_assert(gid_equal(&gid, &back));
		ck_assert_str_eq(gid_to_text(&gid, text), texts[i]);
	}
	ck_assert_mem_eq(ipv4.raw, mapped, 16);
}
END_TEST

START_TEST(multicast)
{
	const char *const yes[] = {"224.0.0.1", "239.255.255.255", "ff0e::1"};
	const char *const no[] = {"223.255.255.255", "240.0.0.1", "fe80::1", "e000::1"};

	for (unsigned int i = 0; i < 3; i++) {
		union ibv_gid gid = gid_of(yes[i]);

		ck_assert(gid_is_multicast(&gid));
	}
	for (unsigned int i = 0; i < 4; i++) {
		union ibv_gid gid = gid_of(no[i]);

		ck_assert(!gid_is_multicast(&gid));
	}
}
END_TEST

static int taken(void *context, const struct gid_entry *entry)
{
	(void)context;
	(void)entry;
	return 0;
}

static int refused(void *context, const struct gid_entry *entry)
{
	(void)context;
	(void)entry;
	return EPERM;
}

START_TEST(list_of_loopback_addresses)
{
	union ibv_gid gids[] = {gid_of("127.0.0.2"), gid_of("127.9.8.7"), gid_of("127.0.0.3")};
	struct gid_table table;
	struct gid_entry entry;

	ck_assert_int_eq(gid_table_init(&table, "127.0.0.2, 127.9.8.7 ,127.0.0.2"), 0);
	ck_assert_uint_eq(table.count, 2);
	for (unsigned int i = 0; i < 2; i++) {
		ck_assert_int_eq(gid_table_get(&table, i, &entry), 0);
		ck_assert(gid_equal(&entry.gid, &gids[i]));
		ck_assert_uint_eq(entry.ifindex, if_nametoindex(entry.netdev));
		ck_assert_uint_ne(entry.ifindex, 0);
		ck_assert_uint_ge(entry.mtu, 1280);
		ck_assert_int_eq(gid_table_find(&table, &gids[i]), i);
	}
	ck_assert_int_eq(gid_table_get(&table, 2, &entry), ENODATA);
	ck_assert_int_eq(gid_table_get(&table, GID_TABLE_LENGTH - 1, &entry), ENODATA);
	ck_assert_int_eq(gid_table_get(&table, GID_TABLE_LENGTH, &entry), EINVAL);

	ck_assert_int_eq(gid_table_find(&table, &gids[2]), -1);
	ck_assert_int_eq(gid_table_add(&table, &gids[2], refused, NULL), EPERM);
	ck_assert_int_eq(gid_table_find(&table, &gids[2]), -1);
	ck_assert_int_eq(gid_table_add(&table, &gids[2], taken, NULL), 0);
	ck_assert_int_eq(gid_table_add(&table, &gids[2], refused, NULL), 0);
	ck_assert_int_eq(gid_table_find(&table, &gids[2]), 2);
	gid_table_destroy(&table);
}
END_TEST

START_TEST(names_instead_of_addresses)
{
	union ibv_gid loopback = gid_of("127.0.0.1"), second = gid_of("127.0.0.2");
	struct gid_table table;
	struct gid_entry entry;

	ck_assert_int_eq(gid_table_init(&table, "localhost,127.0.0.2,localhost"), 0);
	ck_assert_uint_eq(table.count, 2);
	ck_assert_int_eq(gid_table_find(&table, &loopback), 0);
	ck_assert_int_eq(gid_table_find(&table, &second), 1);
	gid_table_destroy(&table);

	/* All of its addresses, IPv4 first. */
	ck_assert_int_eq(gid_table_init(&table, "lo"), 0);
	ck_assert_int_eq(gid_table_find(&table, &loopback), 0);
	for (unsigned int i = 0; i < table.count; i++) {
		ck_assert_int_eq(gid_table_get(&table, i, &entry), 0);
		ck_assert_str_eq(entry.netdev, "lo");
	}
	gid_table_destroy(&table);

	/* All of which are in the table already, the second time. */
	ck_assert_int_eq(gid_table_init(&table, "lo,lo"), 0);
	ck_assert_int_eq(gid_table_find(&table, &loopback), 0);
	gid_table_destroy(&table);
}
END_TEST

/* A link-local address is that of one interface. */
START_TEST(scoped_addresses)
{
	struct gid_table table;

	ck_assert_int_eq(gid_table_init(&table, "::1%lo"), 0);
	ck_assert_uint_eq(table.count, 1);
	ck_assert_str_eq(table.entries[0].netdev, "lo");
	gid_table_destroy(&table);
	ck_assert_int_eq(gid_table_init(&table, "fe80::1%nosuch0"), EADDRNOTAVAIL);
	ck_assert_int_eq(gid_table_init(&table, "fe80::77%lo"), EADDRNOTAVAIL);
	ck_assert_int_eq(gid_table_init(&table, "127.0.0.1%lo"), EINVAL);
	ck_assert_int_eq(gid_table_init(&table, "::1%"), EADDRNOTAVAIL);
}
END_TEST

START_TEST(bad_lists)
{
	static const struct {
		const char *node;
		int error;
	} bad[] = {
		{"", EINVAL},
		{"127.0.0.2,", EINVAL},
		{"no-such-host", EINVAL},
		{"127.0.0.2 127.0.0.3", EINVAL},
		{"127.0.0.2/8", EINVAL},
		/* TEST-NET-3, documentation and multicast: never addresses of a host */
		{"127.0.0.2,203.0.113.77", EADDRNOTAVAIL},
		{"2001:db8:dead::77", EADDRNOTAVAIL},
		{"fe80::dead:beef:77", EADDRNOTAVAIL},
		{"0.0.0.0", EADDRNOTAVAIL},
		{"::", EADDRNOTAVAIL},
		{"224.0.0.1", EADDRNOTAVAIL},
	};
	struct gid_table table;

	for (unsigned int i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		ck_assert_msg(gid_table_init(&table, bad[i].node) == bad[i].error, "\"%s\"",
			      bad[i].node);
}
END_TEST

/* Each address of an interface that is up, once; loopback last. */
START_TEST(all_interfaces)
{
	struct ifaddrs *interfaces;
	struct gid_table table;
	unsigned int loopback_from = 0;

	ck_assert_int_eq(gid_table_init(&table, NULL), 0);
	ck_assert_int_eq(getifaddrs(&interfaces), 0);
	for (struct ifaddrs *i = interfaces; i; i = i->ifa_next) {
		union ibv_gid gid;

		if (!i->ifa_addr ||
		    (i->ifa_addr->sa_family != AF_INET && i->ifa_addr->sa_family != AF_INET6))
			continue;
		gid_from_sockaddr(&gid, i->ifa_addr);
		ck_assert_int_eq(gid_table_find(&table, &gid) >= 0, (i->ifa_flags & IFF_UP) != 0);
		if ((i->ifa_flags & IFF_UP) && !(i->ifa_flags & IFF_LOOPBACK))
			loopback_from++;
	}
	freeifaddrs(interfaces);
	for (unsigned int i = 0; i < table.count; i++) {
		const union ibv_gid *gid = &table.entries[i].gid;

		if (gid_is_ipv4(gid) && gid->raw[12] == 127)
			ck_assert_uint_ge(i, loopback_from);
	}
	gid_table_destroy(&table);
}
END_TEST

START_TEST(table_is_bounded)
{
	struct gid_table table;
	union ibv_gid gid = gid_of("127.7.0.0");

	ck_assert_int_eq(gid_table_init(&table, "127.0.0.1"), 0);
	for (int i = 1; i < GID_TABLE_ADDRESSES; i++) {
		gid.raw[15] = i;
		ck_assert_int_eq(gid_table_add(&table, &gid, taken, NULL), 0);
		ck_assert_int_eq(gid_table_find(&table, &gid), i);
	}
	gid.raw[13] = 8;
	ck_assert_int_eq(gid_table_add(&table, &gid, taken, NULL), ENOSPC);
	gid_table_destroy(&table);
}
END_TEST

static unsigned int sockets; /* until one can't be had; 0: all can */

static long answer_call(long number, const long arguments[6])
{
	if (number == SYS_socket && sockets && --sockets == 0) {
		errno = EMFILE;
		return -1;
	}
	return kernel_call(number, arguments);
}

static uint32_t mtu_of_first(struct gid_table *table)
{
	struct gid_entry entry;

	ck_assert_int_eq(gid_table_get(table, 0, &entry), 0);
	return entry.mtu;
}

/* An MTU is never guessed for that: not in a new table, and what is known stays. */
START_TEST(no_descriptor_for_the_mtu)
{
	static const char *const nodes[] = {"127.0.0.1", "lo", NULL};
	struct gid_table table;
	unsigned int needed = 0;
	bool changed;
	uint32_t mtu;
	int error;

	do {
		sockets = ++needed;
		error = gid_table_init(&table, nodes[_i]);
		ck_assert(error == 0 || error == EMFILE);
	} while (error);
	ck_assert_uint_gt(needed, 2); /* one for the index, one for the MTU */
	mtu = mtu_of_first(&table);
	for (unsigned int lacks = 1; lacks < needed; lacks++) {
		sockets = lacks;
		ck_assert_int_eq(gid_table_refresh(&table, nodes[_i], taken, NULL, &changed),
				 EMFILE);
		ck_assert(!changed);
		ck_assert_uint_eq(mtu_of_first(&table), mtu);
	}
	gid_table_destroy(&table);
}
END_TEST

/* What has a name isn't taken for an address that is none. */
START_TEST(no_descriptor_for_a_name)
{
	static const char *const nodes[] = {"127.0.0.1", "lo", NULL};
	struct gid_table table;
	struct rlimit before, none;
	int error;

	getrlimit(RLIMIT_NOFILE, &before);
	none = before;
	none.rlim_cur = 0;
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
	error = gid_table_init(&table, nodes[_i]);
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
	ck_assert_int_eq(error, EMFILE);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("gid");
	TCase *tests = tcase_create("gid");

	tcase_add_test(tests, conversions);
	tcase_add_test(tests, multicast);
	tcase_add_test(tests, list_of_loopback_addresses);
	tcase_add_test(tests, names_instead_of_addresses);
	tcase_add_test(tests, scoped_addresses);
	tcase_add_test(tests, bad_lists);
	tcase_add_test(tests, all_interfaces);
	tcase_add_test(tests, table_is_bounded);
	tcase_add_loop_test(tests, no_descriptor_for_the_mtu, 0, 3);
	tcase_add_loop_test(tests, no_descriptor_for_a_name, 0, 3);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
