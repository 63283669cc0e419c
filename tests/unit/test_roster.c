/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The roster, by members of this process and by processes that are killed: what dead
 * members had is free again, and a number comes back only after all other numbers. Files
 * without members are removed.
 */
#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "faults.h"
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

/* --- locks and files ------------------------------------------------------------------- */

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

static bool exists(const char *file)
{
	struct stat status;

	return lstat(file, &status) == 0;
}

static void expect_at(const char *file)
{
	struct roster *a = join(), *b = join();
	struct stat status;

	ck_assert_uint_eq(roster_secret(a), roster_secret(b));
	ck_assert_int_eq(lstat(file, &status), 0);
	ck_assert_int_eq(status.st_size, sizeof(struct roster_file));
	roster_close(a);
	roster_close(b);
}

/* They are left alone, and sharing goes on in another file; if there may be one. */
START_TEST(unsafe_files_are_passed_over)
{
	char target[100], names[4][100];
	struct roster *roster;
	struct stat status;

	for (int i = 0; i < 4; i++)
		snprintf(names[i], sizeof(names[i]), i ? "%s.%d" : "%s", path, i);
	snprintf(target, sizeof(target), "%s-target", path);
	ck_assert_int_eq(symlink(target, names[0]), 0);
	expect_at(names[1]);
	ck_assert_int_eq(lstat(target, &status), -1);
	ck_assert_int_eq(unlink(names[1]), 0);
	close(open(names[1], O_CREAT | O_WRONLY, 0600));
	ck_assert_int_eq(chmod(names[1], 0644), 0);
	expect_at(names[2]);
	if (getuid() == 0) {
		ck_assert_int_eq(truncate(names[2], 0), 0);
		ck_assert_int_eq(chown(names[2], 65534, 65534), 0);
		expect_at(names[3]);
	}
	/* One that is in use is used, though there is a name before it by now. */
	unlink(names[0]);
	expect_at(names[getuid() == 0 ? 3 : 2]);

	for (int i = 0; i < 4; i++) {
		unlink(names[i]);
		ck_assert_int_eq(symlink(target, names[i]), 0);
	}
	ck_assert_int_eq(roster_open(path, &roster), ELOOP);
	unlink(names[2]);
	ck_assert_int_eq(mkdir(names[2], 0700), 0);
	ck_assert_int_eq(roster_open(path, &roster), ELOOP);
	ck_assert_int_eq(rmdir(names[2]), 0);
	expect_at(names[2]);
}
END_TEST

/* The members that there are keep it, and new ones join them; a later one begins anew. */
START_TEST(a_file_removed_under_members_is_shared_on)
{
	union ibv_gid gid = gid_of("10.0.0.1");
	pid_t member = member_process(&gid, 2);
	struct roster *a, *b, *c;
	uint64_t secret;

	ck_assert_int_eq(unlink(path), 0);
	a = join();
	b = join();
	secret = roster_secret(a);
	ck_assert_uint_eq(roster_secret(b), secret);
	ck_assert_uint_ne(roster_self(a), roster_self(b));
	ck_assert_uint_eq(roster_sockets(a, &gid), 1);
	lease(a, 1);
	ck_assert(!exists(path));
	kill_and_wait(member);
	ck_assert_uint_eq(reap(b), 1);
	c = join();
	ck_assert_uint_eq(roster_secret(c), secret);
	roster_close(a);
	roster_close(b);
	roster_close(c);
	c = join();
	ck_assert_uint_ne(roster_secret(c), secret);
	ck_assert(exists(path));
	roster_close(c);
}
END_TEST

/* --- hostile contents ------------------------------------------------------------------ */

static void overwrite(size_t offset, size_t length, unsigned int seed)
{
	uint8_t *bytes = malloc(length);
	int fd = open(path, O_WRONLY);

	srandom(seed);
	for (size_t i = 0; i < length; i++)
		bytes[i] = seed ? random() : 0xff;
	ck_assert_int_eq(pwrite(fd, bytes, length, offset), length);
	close(fd);
	free(bytes);
}

/*
 * Random bytes for all of the file, or for all but what tells its version. As long as it has a
 * member it isn't touched; then it is begun anew.
 */
START_TEST(files_with_random_contents_are_refused)
{
	size_t from = _i % 2 ? offsetof(struct roster_file, repaired) : 0;
	struct roster *member = join(), *roster;

	overwrite(from, sizeof(struct roster_file) - from, _i / 2);
	ck_assert_int_eq(roster_open(path, &roster), EBADMSG);
	roster_close(member);
	roster = join();
	lease(roster, 1);
	ck_assert_uint_eq(roster_sockets(roster, &(union ibv_gid){{0}}), 0);
	roster_close(roster);
}
END_TEST

/* What is missing of it is as in a new one, unless it has members. */
START_TEST(truncated_files_are_made_whole)
{
	static const size_t sizes[] = {0, 1, 16, 4096, sizeof(struct roster_file) - 1};
	struct roster *member, *roster;

	for (unsigned int i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		roster = join();
		lease(roster, 1);
		roster_close(roster);
		ck_assert_int_eq(truncate(path, sizes[i]), 0);
		roster = join();
		lease(roster, 1);
		roster_close(roster);
	}
	catch_faults();
	member = join();
	ck_assert_int_eq(truncate(path, 0), 0);
	ck_assert_int_eq(roster_open(path, &roster), EBADMSG);
	roster_close(member);
	roster_close(join());
}
END_TEST

static void use_everything(struct roster *roster, const union ibv_gid *gid)
{
	static struct steer_plan plan;
	struct lease lease;

	if (roster_lock(roster))
		return;
	roster_join_group(roster, gid, 1);
	roster_set_index(roster, gid, 3);
	roster_lease(roster, &lease);
	roster_claim(roster, gid, 7);
	roster_plan(roster, gid, &plan);
	roster_leave_group(roster, gid);
	roster_release(roster, gid, 7);
	roster_reap(roster);
	roster_unlock(roster);
	for (uint32_t slot = 0; slot < SLOTS; slot++)
		ck_assert_uint_le(roster_owner(roster, slot), ROSTER_MEMBERS);
	ck_assert_uint_le(roster_sockets(roster, gid), SOCKETS);
	ck_assert_uint_le(roster_neighbour(roster, gid), ROSTER_MEMBERS);
	ck_assert_uint_le(roster_claimant(roster, gid, 7), ROSTER_MEMBERS);
	ck_assert_uint_lt(roster_primary_slot(roster, roster_self(roster)), SLOTS);
}

/* The contents change under a member: it may be wrong, but it neither crashes nor hangs. */
START_TEST(contents_that_change_are_survived)
{
	union ibv_gid gid = gid_of("10.0.0.1");
	struct roster *roster = join();

	use_everything(roster, &gid);
	for (unsigned int seed = 0; seed < 4; seed++) {
		overwrite(0, sizeof(struct roster_file), seed);
		use_everything(roster, &gid);
	}
	roster_close(roster);
}
END_TEST

/* Or the file is truncated: then the member is alone. */
START_TEST(a_file_truncated_under_a_member_is_survived)
{
	union ibv_gid gid = gid_of("10.0.0.1");
	struct roster *roster = join();

	catch_faults();
	use_everything(roster, &gid);
	ck_assert_int_eq(truncate(path, _i * 4096), 0);
	use_everything(roster, &gid);
	ck_assert_uint_eq(roster_secret(roster), 0);
	roster_close(roster);
	roster = join();
	use_everything(roster, &gid);
	roster_close(roster);
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

/* A member at the dead one's address tells each peer three times, whether the dead one is removed
 * before or not. */
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

/* --- sweeping ---------------------------------------------------------------------------- */

#define NOT_LONG 1800
#define LONG 7200

static void set_age(const char *file, time_t opened, time_t deserted)
{
	time_t now = time(NULL);
	struct timespec times[] = {{.tv_sec = now - deserted}, {.tv_sec = now - opened}};

	ck_assert_int_eq(utimensat(AT_FDCWD, file, times, AT_SYMLINK_NOFOLLOW), 0);
}

/* Since when a sweep has known @file deserted, or 0. */
static time_t deserted(const char *file)
{
	struct stat status;

	ck_assert_int_eq(lstat(file, &status), 0);
	return status.st_atim.tv_sec > status.st_mtim.tv_sec ||
			       (status.st_atim.tv_sec == status.st_mtim.tv_sec &&
				status.st_atim.tv_nsec > status.st_mtim.tv_nsec)
		       ? status.st_atim.tv_sec
		       : 0;
}

/* As a process in a new namespace does. */
static void sweep(void)
{
	char file[sizeof(path)];

	name_path(file, ROSTER_VERSION, geteuid(), "99");
	roster_close(join_at(file));
	ck_assert_int_eq(unlink(file), 0);
}

static const struct {
	int newer;
	unsigned int user;
	const char *net;
	mode_t mode;
	time_t opened, deserted;
	bool goes;
} files[] = {
	{0, 0, "5", 0600, LONG + 1, LONG, true},    {-1, 0, "5", 0600, LONG + 1, LONG, true},
	{1, 0, "5", 0600, LONG + 1, LONG, false},   {0, 1, "5", 0600, LONG + 1, LONG, false},
	{0, 0, "5-5", 0600, LONG + 1, LONG, true},  {0, 0, "x", 0600, LONG + 1, LONG, false},
	{0, 0, "5-x", 0600, LONG + 1, LONG, false}, {0, 0, "5-5-5", 0600, LONG + 1, LONG, false},
	{0, 0, "5", 0640, LONG + 1, LONG, false},   {0, 0, "5", 0600, LONG, LONG, false},
	{0, 0, "5", 0600, LONG, LONG + 1, false},   {0, 0, "5", 0600, LONG, NOT_LONG, false},
};

START_TEST(what_was_deserted_for_long_is_swept)
{
	char file[sizeof(path)];

	name_path(file, ROSTER_VERSION + files[_i].newer, geteuid() + files[_i].user,
		  files[_i].net);
	roster_close(join_at(file));
	ck_assert_int_eq(chmod(file, files[_i].mode), 0);
	set_age(file, files[_i].opened, files[_i].deserted);
	sweep();
	ck_assert_int_eq(exists(file), !files[_i].goes);
}
END_TEST

/* However young they are; but not of a namespace with members, nor without a cookie. */
START_TEST(a_former_namespace_s_file_is_swept)
{
	static const char *const nets[] = {"5", "5-1", "5-2", "5-3", "6-1"};
	char file[sizeof(path)];
	struct roster *member = NULL;

	for (unsigned int i = 0; i < 5; i++) {
		name_path(file, ROSTER_VERSION, geteuid(), nets[i]);
		if (i == 2)
			member = join_at(file);
		else
			roster_close(join_at(file));
	}
	name_path(file, ROSTER_VERSION, geteuid(), "5-4");
	roster_close(join_at(file));
	ck_assert(exists(file));
	for (unsigned int i = 0; i < 5; i++) {
		name_path(file, ROSTER_VERSION, geteuid(), nets[i]);
		ck_assert_int_eq(exists(file), i != 1 && i != 3);
	}
	roster_close(member);
}
END_TEST

START_TEST(links_are_not_swept)
{
	char target[sizeof(path)];

	name_path(target, ROSTER_VERSION + 1, geteuid(), "5");
	roster_close(join_at(target));
	set_age(target, LONG + 1, LONG);
	ck_assert_int_eq(symlink(target, path), 0);
	set_age(path, LONG + 1, LONG);
	sweep();
	ck_assert(exists(path));
	ck_assert(exists(target));
}
END_TEST

/* The hour begins when a sweep finds the file without members, and never while it has one. */
START_TEST(a_file_with_a_member_is_not_swept)
{
	union ibv_gid gid = gid_of("10.0.0.1");
	pid_t member = member_process(&gid, 1);
	time_t before = time(NULL);

	ck_assert_int_eq(deserted(path), 0);
	set_age(path, LONG + 1, LONG);
	sweep();
	ck_assert(exists(path));
	set_age(path, LONG, LONG);
	sweep();
	ck_assert_int_eq(deserted(path), 0);
	kill_and_wait(member);
	sweep();
	ck_assert_int_ge(deserted(path), before);
	sweep();
	ck_assert(exists(path));
	set_age(path, LONG + 1, LONG);
	roster_close(join());
	ck_assert_int_eq(deserted(path), 0);
	set_age(path, 1 - LONG, -LONG); /* the clock was put back */
	roster_close(join());
	ck_assert_int_eq(deserted(path), 0);
	sweep();
	ck_assert(exists(path));
	set_age(path, LONG + 1, LONG);
	sweep();
	ck_assert(!exists(path));
}
END_TEST

/* The file exists but is empty: the process that sets it up sweeps, with the file locked. */
START_TEST(a_sweep_leaves_its_own_file)
{
	struct roster *a, *b;

	close(open(path, O_CREAT | O_WRONLY, 0600));
	set_age(path, LONG + 1, LONG);
	a = join();
	ck_assert(exists(path));
	b = join();
	ck_assert_uint_eq(roster_secret(a), roster_secret(b));
	roster_close(a);
	roster_close(b);
}
END_TEST

START_TEST(opening_an_old_file_sweeps_nothing)
{
	char file[sizeof(path)];

	roster_close(join());
	name_path(file, ROSTER_VERSION, geteuid(), "5");
	roster_close(join_at(file));
	set_age(file, LONG + 1, LONG);
	roster_close(join());
	ck_assert(exists(file));
}
END_TEST

static bool has_open(pid_t pid, const char *file)
{
	char folder[32], target[PATH_MAX];
	struct dirent *entry;
	bool found = false;
	DIR *fds;

	snprintf(folder, sizeof(folder), "/proc/%d/fd", pid);
	fds = opendir(folder);
	ck_assert_ptr_nonnull(fds);
	while (!found && (entry = readdir(fds))) {
		ssize_t length = readlinkat(dirfd(fds), entry->d_name, target, sizeof(target) - 1);

		if (length < 0)
			continue;
		target[length] = 0;
		found = strcmp(target, file) == 0;
	}
	closedir(fds);
	return found;
}

/* The child waits for the lock of a file that is removed then: both must meet in another file. */
START_TEST(a_file_swept_while_it_is_opened_is_opened_anew)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	struct roster *a;
	int fd, go[2], ready[2];
	uint64_t secret;
	char byte;
	pid_t pid;

	roster_close(join());
	ck_assert_int_eq(pipe(go), 0);
	ck_assert_int_eq(pipe(ready), 0);
	pid = fork();
	if (pid == 0) {
		if (read(go[0], &byte, 1) != 1)
			_exit(1);
		secret = roster_secret(join());
		if (write(ready[1], &secret, sizeof(secret)) != sizeof(secret))
			_exit(1);
		for (;;)
			pause();
	}
	fd = open(path, O_RDWR | O_CLOEXEC);
	ck_assert_int_eq(fcntl(fd, F_OFD_SETLK, &lock), 0);
	ck_assert_int_eq(write(go[1], "g", 1), 1);
	while (!has_open(pid, path))
		usleep(1000);
	ck_assert_int_eq(unlink(path), 0);
	close(fd);
	ck_assert_int_eq(read(ready[0], &secret, sizeof(secret)), sizeof(secret));
	ck_assert(exists(path));
	a = join();
	ck_assert_uint_eq(roster_secret(a), secret);
	ck_assert_uint_ne(roster_self(a), 1);
	kill_and_wait(pid);
	roster_close(a);
}
END_TEST

struct network {
	uint64_t number;	     /* of a network namespace, in /proc */
	char path[ROSTER_PATH_SIZE]; /* of its roster */
};

/* Of a namespace that is gone when it returns, or soon after. False if it isn't permitted. */
static bool enter_network(struct network *network)
{
	int result[2], status;
	struct stat file;
	ssize_t length;
	pid_t pid;

	ck_assert_int_eq(pipe(result), 0);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		if (unshare(CLONE_NEWNET) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0)
			_exit(0);
		if (stat("/proc/thread-self/ns/net", &file) != 0 ||
		    roster_usual_path(network->path) != 0)
			_exit(1);
		network->number = file.st_ino;
		_exit(write(result[1], network, sizeof(*network)) != sizeof(*network));
	}
	close(result[1]);
	length = read(result[0], network, sizeof(*network));
	close(result[0]);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	return length == sizeof(*network);
}

static bool namespaces_have_cookies(void)
{
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	uint64_t cookie;
	socklen_t size = sizeof(cookie);
	bool have = getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &size) == 0;

	close(fd);
	return have;
}

/* Their connections would be ended by the members of another network, for the dead. */
START_TEST(a_later_namespace_has_another_file)
{
	struct network first, later;

	if (!namespaces_have_cookies() || !enter_network(&first)) {
		puts("no network namespaces that have cookies");
		return;
	}
	do
		ck_assert(enter_network(&later));
	while (later.number != first.number);
	ck_assert_str_ne(later.path, first.path);
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
	tcase_add_test(tests, numbers_differ_from_lap_to_lap);
	tcase_add_test(tests, the_dead_leave_nothing);
	tcase_add_test(tests, indexes_move_as_sockets_do);
	tcase_add_test(tests, neighbouring_slots_make_one_range);
	tcase_add_test(tests, services_have_one_owner_an_address);
	tcase_add_test(tests, one_at_a_time);
	tcase_add_test(tests, children_let_go);
	tcase_add_test(tests, unsafe_files_are_passed_over);
	tcase_add_test(tests, a_file_removed_under_members_is_shared_on);
	tcase_add_loop_test(tests, files_with_random_contents_are_refused, 0, 8);
	tcase_add_test(tests, truncated_files_are_made_whole);
	tcase_add_test(tests, contents_that_change_are_survived);
	tcase_add_loop_test(tests, a_file_truncated_under_a_member_is_survived, 0, 4);
	tcase_add_loop_test(tests, connections_of_the_dead_are_ended, 0, 4);
	tcase_add_test(tests, connections_that_end_are_forgotten);
	tcase_add_test(tests, orphans_make_room);
	tcase_add_test(tests, control_ports_and_notifications);
	tcase_add_test(tests, a_token_ends_with_its_member);
	tcase_add_loop_test(tests, what_was_deserted_for_long_is_swept, 0,
			    sizeof(files) / sizeof(files[0]));
	tcase_add_test(tests, a_former_namespace_s_file_is_swept);
	tcase_add_test(tests, links_are_not_swept);
	tcase_add_test(tests, a_file_with_a_member_is_not_swept);
	tcase_add_test(tests, a_sweep_leaves_its_own_file);
	tcase_add_test(tests, opening_an_old_file_sweeps_nothing);
	tcase_add_test(tests, a_file_swept_while_it_is_opened_is_opened_anew);
	tcase_add_test(tests, a_later_namespace_has_another_file);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
