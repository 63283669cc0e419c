/* SPDX-License-Identifier: BSD-2-Clause */
/* What tests of the roster have in common: a folder for its file, members, what they have. */
#ifndef URXE_TESTS_UNIT_ROSTER_MEMBERS_H
#define URXE_TESTS_UNIT_ROSTER_MEMBERS_H

#include <check.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gid_of.h"
#include "killable.h"
#include "net/share/roster_internal.h"

static char directory[32], path[80];

static inline void name_path(char *result, int version, unsigned int user, const char *net)
{
	snprintf(result, sizeof(path), "%s/urxe-%d-%u-%s", directory, version, user, net);
}

static inline void setup(void)
{
	strcpy(directory, "/tmp/urxe-roster-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(directory));
	name_path(path, ROSTER_VERSION, geteuid(), "1");
}

static inline void teardown(void)
{
	DIR *files = opendir(directory);
	struct dirent *file;

	while ((file = readdir(files)))
		unlinkat(dirfd(files), file->d_name, 0);
	closedir(files);
	ck_assert_int_eq(rmdir(directory), 0);
}

static inline struct roster *join_at(const char *file)
{
	struct roster *roster;

	ck_assert_int_eq(roster_open(file, &roster), 0);
	return roster;
}

static inline struct roster *join(void)
{
	return join_at(path);
}

static inline uint32_t lease(struct roster *roster, uint32_t expected)
{
	uint32_t first, count;
	struct lease lease;

	ck_assert_int_eq(roster_lock(roster), 0);
	ck_assert_int_eq(roster_lease(roster, &lease), 0);
	roster_unlock(roster);
	ck_assert_uint_eq((lease.first | lease.count) % SLOT_QPNS, 0);
	ck_assert_uint_ge(lease.start, lease.first);
	ck_assert_uint_lt(lease.start, lease.first + lease.count);
	first = slot_of_qpn(lease.first);
	count = lease.count / SLOT_QPNS;
	ck_assert_uint_eq(count, expected);
	ck_assert_uint_ge(first, 1);
	ck_assert_uint_le(first + count, SLOTS - 1);
	for (uint32_t i = 0; i < count; i++)
		ck_assert_uint_eq(roster_owner(roster, first + i), roster_self(roster));
	return first;
}

static inline unsigned int reap(struct roster *roster)
{
	unsigned int sockets;

	ck_assert_int_eq(roster_lock(roster), 0);
	sockets = roster_reap(roster);
	roster_unlock(roster);
	return sockets;
}

static inline void join_group(struct roster *roster, const union ibv_gid *gid)
{
	ck_assert_int_eq(roster_lock(roster), 0);
	ck_assert_int_eq(roster_join_group(roster, gid, roster_self(roster) * 100), 0);
	roster_unlock(roster);
}

struct membership {
	const union ibv_gid *gid;
	unsigned int leases;
};

static inline void become_member(const void *argument)
{
	const struct membership *membership = argument;
	struct roster *roster = join();
	struct lease lease;

	join_group(roster, membership->gid);
	if (roster_lock(roster))
		_exit(1);
	for (unsigned int i = 0; i < membership->leases; i++)
		roster_lease(roster, &lease);
	roster_claim(roster, membership->gid, 7);
	roster_unlock(roster);
}

/* A process that is a member with @leases leases and a socket at @gid, and waits to be killed. */
static inline pid_t member_process(const union ibv_gid *gid, unsigned int leases)
{
	return killable_process(become_member, &(struct membership){gid, leases});
}

static inline int claim(struct roster *roster, const union ibv_gid *gid, uint64_t service_id)
{
	int error;

	ck_assert_int_eq(roster_lock(roster), 0);
	error = roster_claim(roster, gid, service_id);
	roster_unlock(roster);
	return error;
}

static inline struct share_connection connection_at(const char *address, uint32_t id)
{
	return (struct share_connection){
		.local = gid_of(address),
		.remote = gid_of("10.9.9.9"),
		.local_id = id,
		.remote_id = id + 1,
		.remote_qpn = id + 2,
	};
}

static inline unsigned int orphans(struct roster *roster, uint32_t first)
{
	struct share_connection orphan;
	unsigned int count = 0;
	uint32_t number = 0;

	while (roster_next_orphan(roster, &number, &orphan)) {
		union ibv_gid remote = gid_of("10.9.9.9");

		ck_assert_uint_eq(orphan.local_id, first + count++);
		ck_assert_uint_eq(orphan.remote_id, orphan.local_id + 1);
		ck_assert_uint_eq(orphan.remote_qpn, orphan.local_id + 2);
		ck_assert(gid_equal(&orphan.remote, &remote));
	}
	return count;
}

static inline void wait_for_success(pid_t pid)
{
	int status;

	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFEXITED(status));
	ck_assert_int_eq(WEXITSTATUS(status), 0);
}

#endif
