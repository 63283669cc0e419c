/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The roster, by members of this process and by processes that are killed: what dead
 * members had is free again, and a number comes back only after all other numbers.
 */
#include <check.h>
#include <errno.h>
#include <unistd.h>

#include "gid_of.h"
#include "killable.h"
#include "roster_members.h"
#include "tests/run_suite.h"

/* --- slots ------------------------------------------------------------------------- */

START_TEST(leases_double_and_go_around)
{
	struct roster *a = join(), *b = join();
	uint32_t first = lease(a, 1), next;

	ck_assert_uint_eq(roster_secret(a), roster_secret(b));
	ck_assert_uint_ne(roster_self(a), roster_self(b));
	ck_assert_uint_eq(roster_primary_slot(b, roster_self(a)), first);
	lease(a, 1);
	lease(a, 2);
	lease(a, 4);
	ck_assert_uint_eq(roster_primary_slot(b, roster_self(a)), first);
	next = lease(b, 1);
	ck_assert_uint_ne(next, first);
	roster_close(a);
	ck_assert_uint_eq(roster_owner(b, first), 0);

	/* All other slots are leased before the one that is free again. */
	for (uint32_t i = 0; i < SLOTS - 3 - 9; i++) {
		a = join();
		ck_assert_uint_ne(lease(a, 1), first);
		roster_close(a);
	}
	for (uint32_t i = 0; next != first; i++) {
		ck_assert_uint_lt(i, 3);
		a = join();
		next = lease(a, 1);
		roster_close(a);
	}
	roster_close(b);
}
END_TEST

START_TEST(all_slots_can_be_had_at_once)
{
	struct roster *a = join(), *b = join();
	uint32_t total = 0;
	struct lease more;

	ck_assert_int_eq(roster_lock(a), 0);
	while (roster_lease(a, &more) == 0)
		total += more.count / SLOT_QPNS;
	ck_assert_int_eq(roster_lease(a, &more), ENOSPC);
	roster_unlock(a);
	ck_assert_uint_eq(total, SLOTS - 2);
	ck_assert_uint_eq(roster_owner(a, 0), 0);
	ck_assert_uint_eq(roster_owner(a, SLOTS - 1), 0);
	roster_close(a);
	lease(b, 1);
	roster_close(b);
}
END_TEST

static void lease_all(const void *unused)
{
	struct roster *roster = join();
	struct lease lease;

	if (roster_lock(roster))
		_exit(1);
	while (roster_lease(roster, &lease) == 0)
		;
	roster_unlock(roster);
}

/* Without sockets, as one that exits leaves its addresses before it ends. */
START_TEST(slots_of_a_dead_member_can_be_had)
{
	struct roster *a = join();
	pid_t pid = killable_process(lease_all, NULL);
	struct lease none;

	ck_assert_int_eq(roster_lock(a), 0);
	ck_assert_int_eq(roster_lease(a, &none), ENOSPC);
	roster_unlock(a);
	kill_and_wait(pid);
	lease(a, 1);
	roster_close(a);
}
END_TEST

/* Each lease of a slot begins with another number. */
START_TEST(numbers_differ_from_lap_to_lap)
{
	static bool used[SLOTS << SLOT_QPN_BITS];

	for (uint32_t i = 0; i < 3 * SLOTS; i++) {
		struct roster *roster = join();
		struct lease lease;

		ck_assert_int_eq(roster_lock(roster), 0);
		ck_assert_int_eq(roster_lease(roster, &lease), 0);
		roster_unlock(roster);
		ck_assert(!used[lease.start]);
		used[lease.start] = true;
		roster_close(roster);
	}
}
END_TEST

/* As many as there are members and more, each with a slot: nothing leaks. */
START_TEST(the_dead_leave_nothing)
{
	union ibv_gid gid = gid_of("127.0.0.1");
	struct roster *a = join();
	uint32_t last = 0;

	for (int i = 0; i < 300; i++) {
		kill_and_wait(member_process(&gid, 1));
		if (i % 7 == 0)
			ck_assert_uint_eq(reap(a),
					  1); /* the next to enter has removed the earlier dead */
	}
	reap(a);
	ck_assert_uint_eq(roster_sockets(a, &gid), 0);
	for (uint32_t slot = 0; slot < SLOTS; slot++)
		ck_assert_uint_eq(roster_owner(a, slot), 0);
	ck_assert_uint_eq(roster_claimant(a, &gid, 7), 0);
	join_group(a, &gid);
	ck_assert_int_eq(roster_index(a, roster_self(a), &gid), 0);
	last = lease(a, 1);
	kill_and_wait(member_process(&gid, 2));
	ck_assert_uint_ne(roster_owner(a, last % (SLOTS - 2) + 1), 0);
	ck_assert_uint_eq(roster_sockets(a, &gid), 2);
	ck_assert_uint_eq(reap(a), 1);
	ck_assert_uint_eq(roster_sockets(a, &gid), 1);
	roster_close(a);
}
END_TEST

/* --- reuseport indexes ----------------------------------------------------------------- */

START_TEST(indexes_move_as_sockets_do)
{
	union ibv_gid gid = gid_of("10.0.0.1"), other = gid_of("10.0.0.2");
	struct roster *rosters[5];
	static struct steer_plan plan;
	const struct steer_range *ranges = plan.ranges;
	uint32_t slots[5];

	for (int i = 0; i < 5; i++) {
		rosters[i] = join();
		if (i == 2)
			join_group(rosters[i], &other);
		join_group(rosters[i], &gid);
		ck_assert_int_eq(roster_index(rosters[i], roster_self(rosters[i]), &gid), i);
		slots[i] = lease(rosters[i], 1);
	}
	ck_assert_uint_eq(roster_sockets(rosters[0], &gid), 5);
	ck_assert_int_eq(roster_index(rosters[2], roster_self(rosters[2]), &other), 0);
	ck_assert_int_eq(roster_index(rosters[1], roster_self(rosters[1]), &other), -1);
	ck_assert_uint_eq(roster_cookie(rosters[0], roster_self(rosters[3]), &gid),
			  roster_self(rosters[3]) * 100);
	ck_assert_uint_eq(roster_cookie(rosters[0], roster_self(rosters[3]), &other), 0);

	ck_assert_int_eq(roster_lock(rosters[1]), 0);
	roster_leave_group(rosters[1], &gid);
	roster_unlock(rosters[1]);
	ck_assert_int_eq(roster_index(rosters[4], roster_self(rosters[4]), &gid), 1);
	ck_assert_int_eq(roster_index(rosters[3], roster_self(rosters[3]), &gid), 3);
	roster_close(rosters[3]);
	ck_assert_int_eq(roster_index(rosters[4], roster_self(rosters[4]), &gid), 1);
	ck_assert_uint_eq(roster_sockets(rosters[0], &gid), 3);
	ck_assert_uint_ne(roster_neighbour(rosters[0], &gid), 0);
	ck_assert_uint_ne(roster_neighbour(rosters[0], &gid), roster_self(rosters[0]));
	ck_assert_uint_eq(roster_neighbour(rosters[2], &other), 0);

	/* The socket turned out to have another index: the two members change places. */
	roster_set_index(rosters[0], &gid, 2);
	ck_assert_int_eq(roster_index(rosters[0], roster_self(rosters[0]), &gid), 2);
	ck_assert_int_eq(roster_index(rosters[2], roster_self(rosters[2]), &gid), 0);
	ck_assert_int_eq(roster_index(rosters[2], roster_self(rosters[2]), &other), 0);
	/* There is none behind the last one. */
	roster_set_index(rosters[0], &gid, 3);
	ck_assert_int_eq(roster_index(rosters[0], roster_self(rosters[0]), &gid), 2);

	roster_plan(rosters[0], &gid, &plan);
	ck_assert_uint_eq(plan.range_count, 3);
	ck_assert_uint_eq(plan.sockets, 3);
	ck_assert_uint_eq(plan.secret, roster_secret(rosters[4]));
	for (int i = 0; i < 3; i++) {
		int member = ranges[i].first == slots[0] ? 0 : ranges[i].first == slots[2] ? 2 : 4;

		ck_assert_uint_eq(ranges[i].first, slots[member]);
		ck_assert_uint_eq(ranges[i].last, slots[member]);
		ck_assert_int_eq(ranges[i].index,
				 roster_index(rosters[member], roster_self(rosters[member]), &gid));
		if (i)
			ck_assert_uint_gt(ranges[i].first, ranges[i - 1].first);
	}
	roster_plan(rosters[0], &other, &plan);
	ck_assert_uint_eq(plan.range_count, 1);
	ck_assert_uint_eq(ranges[0].first, slots[2]);

	for (int i = 0; i < 5; i++) {
		if (i != 3)
			roster_close(rosters[i]);
	}
}
END_TEST

START_TEST(neighbouring_slots_make_one_range)
{
	union ibv_gid gid = gid_of("10.0.0.1");
	static struct steer_plan plan;
	const struct steer_range *ranges = plan.ranges;
	struct roster *a = join();
	uint32_t slots = 0;

	join_group(a, &gid);
	lease(a, 1);
	lease(a, 1);
	lease(a, 2);
	roster_plan(a, &gid, &plan);
	ck_assert_uint_le(plan.range_count, 2); /* 2: across the end */
	for (unsigned int i = 0; i < plan.range_count; i++)
		slots += ranges[i].last - ranges[i].first + 1;
	ck_assert_uint_eq(slots, 4);
	roster_close(a);
}
END_TEST

/* --- claims -------------------------------------------------------------------------- */

START_TEST(ports_have_one_owner)
{
	struct roster *a = join(), *b = join();

	ck_assert(roster_take_port(a, 40000));
	ck_assert(roster_take_port(a, 40000));
	ck_assert(!roster_take_port(b, 40000));
	ck_assert(roster_take_port(b, UINT16_MAX));
	ck_assert(roster_take_port(b, 0));
	roster_release_port(b, 40000); /* which isn't its own */
	ck_assert(!roster_take_port(b, 40000));
	roster_release_port(a, 40000);
	ck_assert(roster_take_port(b, 40000));
	roster_close(b);
	ck_assert(roster_take_port(a, 40000));
	ck_assert(roster_take_port(a, UINT16_MAX));
	roster_close(a);
}
END_TEST

START_TEST(services_have_one_owner_an_address)
{
	union ibv_gid x = gid_of("10.0.0.1"), y = gid_of("10.0.0.2"), z = gid_of("fd00::1");
	union ibv_gid any4 = gid_of("0.0.0.0"), any6 = gid_of("::");
	static struct steer_plan plan;
	struct roster *a = join(), *b = join();

	join_group(a, &x);
	join_group(a, &z);
	join_group(b, &x);
	join_group(b, &y);
	ck_assert_uint_eq(roster_claimant(a, &x, 1), 0);
	ck_assert_int_eq(claim(a, &any4, 1), 0);
	ck_assert_uint_eq(roster_claimant(b, &x, 1), roster_self(a));
	ck_assert_uint_eq(roster_claimant(b, &y, 1), 0); /* where a isn't */
	ck_assert_uint_eq(roster_claimant(b, &z, 1), 0);
	ck_assert_uint_eq(roster_claimant(b, &x, 2), 0);
	roster_plan(b, &x, &plan);
	ck_assert_uint_eq(plan.service_count, 1);
	ck_assert_uint_eq(plan.services[0].id, 1);
	ck_assert_int_eq(plan.services[0].index, roster_index(a, roster_self(a), &x));
	roster_plan(b, &y, &plan);
	ck_assert_uint_eq(plan.service_count, 0);
	ck_assert_int_eq(claim(b, &x, 1), EADDRNOTAVAIL);
	ck_assert_int_eq(claim(b, &any4, 1), EADDRNOTAVAIL);
	ck_assert_int_eq(claim(b, &any6, 1), 0);
	ck_assert_int_eq(claim(b, &y, 1), 0);
	ck_assert_int_eq(claim(a, &x, 1), 0); /* its own rules are its own business */
	ck_assert_uint_eq(roster_claimant(a, &y, 1), roster_self(b));

	ck_assert_int_eq(roster_lock(a), 0);
	roster_release(a, &any4, 1);
	roster_unlock(a);
	ck_assert_int_eq(claim(b, &x, 1), EADDRINUSE);
	ck_assert_int_eq(roster_lock(a), 0);
	roster_release(a, &x, 1);
	roster_unlock(a);
	ck_assert_int_eq(claim(b, &x, 1), 0);
	ck_assert_int_eq(claim(a, &any4, 1), EADDRNOTAVAIL);
	roster_close(b);
	ck_assert_int_eq(claim(a, &any4, 1), 0);
	roster_close(a);
}
END_TEST

START_TEST(services_of_an_address)
{
	union ibv_gid x = gid_of("10.0.0.1"), y = gid_of("10.0.0.2"), any = gid_of("0.0.0.0");
	struct roster *a = join(), *b = join();
	uint64_t services[4] = {};

	join_group(a, &x);
	join_group(b, &x);
	join_group(b, &y);
	ck_assert_int_eq(claim(a, &any, 1), 0);
	ck_assert_int_eq(claim(b, &y, 2), 0);
	ck_assert_int_eq(claim(b, &x, 3), 0);
	ck_assert_int_eq(claim(a, &x, 4), 0);
	ck_assert_int_eq(roster_lock(a), 0);
	roster_release(a, &x, 4);
	roster_unlock(a);
	ck_assert_uint_eq(roster_services(a, &x, services, 4), 2);
	ck_assert_uint_eq(services[0], 1);
	ck_assert_uint_eq(services[1], 3);
	ck_assert_uint_eq(roster_services(a, &y, services, 4), 1);
	ck_assert_uint_eq(services[0], 2);
	ck_assert_uint_eq(roster_services(a, &x, services, 1), 1);
	ck_assert_uint_eq(services[1], 3);
	roster_close(a);
	roster_close(b);
}
END_TEST

/* --- locks ----------------------------------------------------------------------------- */

START_TEST(one_at_a_time)
{
	struct roster *a = join(), *b = join();

	ck_assert_int_eq(roster_lock(a), 0);
	ck_assert(!roster_trylock(b));
	roster_unlock(a);
	ck_assert(roster_trylock(b));
	ck_assert(!roster_trylock(a));
	ck_assert(!roster_trylock(b)); /* another thread of ours */
	roster_unlock(b);
	ck_assert(roster_is_alive(a, roster_self(a)));
	ck_assert(roster_is_alive(a, roster_self(b)));
	roster_close(b);
	roster_close(a);
}
END_TEST

/* A child that has let go of it doesn't keep its dead parent alive; one that hasn't yet, does. */
START_TEST(children_let_go)
{
	union ibv_gid gid = gid_of("10.0.0.1");
	int go[2], done[2];
	struct roster *a = join();
	uint32_t parent_number;
	pid_t parent;
	char byte;

	ck_assert_int_eq(pipe(go), 0);
	ck_assert_int_eq(pipe(done), 0);
	parent = fork();
	if (parent == 0) {
		struct roster *roster = join();
		uint32_t number = roster_self(roster);

		join_group(roster, &gid);
		if (fork() == 0) {
			while (read(go[0], &byte, 1) == 1 && byte == 'f') {
				roster_after_fork_child(roster);
				if (write(done[1], "f", 1) != 1)
					break;
			}
			_exit(0);
		}
		if (write(done[1], &number, sizeof(number)) != sizeof(number))
			_exit(1);
		for (;;)
			pause();
	}
	ck_assert_int_eq(read(done[0], &parent_number, sizeof(parent_number)),
			 sizeof(parent_number));
	kill_and_wait(parent);
	ck_assert(roster_is_alive(a, parent_number));
	ck_assert_uint_eq(reap(a), 0);
	ck_assert_int_eq(write(go[1], "f", 1), 1);
	ck_assert_int_eq(read(done[0], &byte, 1), 1);
	ck_assert(!roster_is_alive(a, parent_number));
	ck_assert_uint_eq(reap(a), 1);
	ck_assert_int_eq(write(go[1], "x", 1), 1);
	roster_close(a);
}
END_TEST

/* --- connections ------------------------------------------------------------------------ */

static void begin_with_connections(const void *unused)
{
	struct roster *roster = join();
	struct share_connection connection;

	for (uint32_t id = 100; id < 110; id++) {
		connection = connection_at("10.0.0.1", id);
		ck_assert_uint_ne(roster_add_connection(roster, &connection), 0);
	}
	connection = connection_at("10.0.0.2", 1);
	ck_assert_uint_ne(roster_add_connection(roster, &connection), 0);
}

/*
 * A member at the dead one's address tells each peer three times, whether the dead one is removed
 * before or not.
 */
START_TEST(connections_of_the_dead_are_ended)
{
	union ibv_gid gid = gid_of("10.0.0.1");
	struct roster *roster = join(), *stranger = join();
	struct share_connection own = connection_at("10.0.0.1", 7);
	uint32_t number = roster_add_connection(roster, &own);
	pid_t pid = killable_process(begin_with_connections, NULL);

	ck_assert_uint_ne(number, 0);
	ck_assert_int_eq(roster_lock(roster), 0);
	ck_assert_int_eq(roster_join_group(roster, &gid, 1), 0);
	roster_unlock(roster);
	ck_assert_uint_eq(orphans(roster, 100), 0);
	kill_and_wait(pid);
	ck_assert_uint_eq(orphans(stranger, 100), 0);
	for (int told = 0; told < 3; told++) {
		if (told == _i)
			reap(roster);
		ck_assert_uint_eq(orphans(roster, 100), 10);
	}
	ck_assert_uint_eq(orphans(roster, 100), 0);
	roster_remove_connection(roster, number);
	roster_close(stranger);
	roster_close(roster);
}
END_TEST

/* One that is removed isn't ended; one that was made by another member isn't removed. */
START_TEST(connections_that_end_are_forgotten)
{
	struct roster *a = join(), *b = join();
	struct share_connection connection = connection_at("10.0.0.1", 1);
	union ibv_gid gid = connection.local;
	uint32_t numbers[2];

	for (unsigned int i = 0; i < 2; i++) {
		numbers[i] = roster_add_connection(a, &connection);
		connection.local_id = 2, connection.remote_id = 3, connection.remote_qpn = 4;
	}
	roster_remove_connection(a, numbers[0]);
	roster_remove_connection(b, numbers[1]);
	ck_assert_int_eq(roster_lock(b), 0);
	ck_assert_int_eq(roster_join_group(b, &gid, 1), 0);
	roster_unlock(b);
	ck_assert_uint_eq(orphans(b, 2), 0);
	roster_close(a);
	ck_assert_uint_eq(orphans(b, 2), 1);
	roster_close(b);
}
END_TEST

/* When all are in use, those of the dead give way. */
START_TEST(orphans_make_room)
{
	struct roster *a = join(), *b = join();
	struct share_connection connection = connection_at("10.0.0.1", 1);

	for (unsigned int i = 0; i < CONNECTIONS; i++)
		ck_assert_uint_eq(roster_add_connection(a, &connection), i + 1);
	ck_assert_uint_eq(roster_add_connection(b, &connection), 0);
	roster_close(a);
	ck_assert_uint_eq(roster_add_connection(b, &connection), 1);
	roster_close(b);
}
END_TEST

START_TEST(control_ports_and_notifications)
{
	struct roster *a = join(), *b = join();

	roster_set_control_port(a, 4242);
	ck_assert_uint_eq(roster_control_port(b, roster_self(a)), 4242);
	ck_assert_uint_eq(roster_control_port(b, roster_self(b)), 0);
	ck_assert_uint_eq(roster_notifications(a), 0);
	roster_notify(b, roster_self(a));
	ck_assert_uint_eq(roster_notifications(a), 1);
	ck_assert_uint_eq(roster_notifications(b), 0);
	roster_close(a);
	roster_close(b);
}
END_TEST

/* The token that others may still send to its port, any user's by then, is no member's any more. */
START_TEST(a_token_ends_with_its_member)
{
	struct roster *a = join(), *b = join();
	uint32_t self = roster_self(a);
	uint64_t token = roster_own_token(a);
	union ibv_gid gid = gid_of("10.0.0.1");
	pid_t pid;

	ck_assert_uint_eq(roster_token(b, self), token);
	ck_assert_uint_ne(roster_token(b, roster_self(b)), token);
	roster_close(a);
	pid = member_process(&gid, 0); /* has the number now */
	ck_assert_uint_ne(roster_token(b, self), token);
	member_of(b, self)->control_port = 4242;
	kill_and_wait(pid);
	ck_assert_uint_eq(reap(b), 1);
	ck_assert_uint_eq(roster_control_port(b, self), 0);
	roster_close(b);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("roster");
	TCase *tests = tcase_create("roster");

	tcase_set_timeout(tests, 100);
	tcase_add_checked_fixture(tests, setup, teardown);
	tcase_add_test(tests, leases_double_and_go_around);
	tcase_add_test(tests, all_slots_can_be_had_at_once);
	tcase_add_test(tests, slots_of_a_dead_member_can_be_had);
	tcase_add_test(tests, numbers_differ_from_lap_to_lap);
	tcase_add_test(tests, the_dead_leave_nothing);
	tcase_add_test(tests, indexes_move_as_sockets_do);
	tcase_add_test(tests, neighbouring_slots_make_one_range);
	tcase_add_test(tests, ports_have_one_owner);
	tcase_add_test(tests, services_have_one_owner_an_address);
	tcase_add_test(tests, services_of_an_address);
	tcase_add_test(tests, one_at_a_time);
	tcase_add_test(tests, children_let_go);
	tcase_add_loop_test(tests, connections_of_the_dead_are_ended, 0, 4);
	tcase_add_test(tests, connections_that_end_are_forgotten);
	tcase_add_test(tests, orphans_make_room);
	tcase_add_test(tests, control_ports_and_notifications);
	tcase_add_test(tests, a_token_ends_with_its_member);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
