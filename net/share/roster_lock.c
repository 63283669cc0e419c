/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Locks on bytes of the roster's file. They belong to the open file: each link opens its own,
 * and a forked child shares them until roster_after_fork_child() closes it.
 *
 * Bytes 1 to ROSTER_MEMBERS are the members', those behind are by turns the lock of the whole
 * roster. It is held for less than a millisecond, but a process may be stopped in that time,
 * by a debugger or SIGSTOP, for as long as its user likes. Then the next byte in turn becomes
 * the lock, and the stopped process no longer keeps the other members from theirs. When it goes on,
 * it finishes what it was about to store: what comes of that is no worse than what the contents of
 * the file are checked for anyway, and no slot is leased twice (roster_lease()).
 */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "net/log.h"
#include "net/share/roster_internal.h"

#define LOCK_TURNS 16
#define LOCK_TRIES 5000	      /* of 200 us each, at least: a second */
#define LOCK_TRIES_A_LOOK 250 /* until it is found out whether the holder is stopped */

static struct flock byte_lock(off_t byte, short type)
{
	return (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
}

bool roster_lock_byte(int fd, off_t byte)
{
	struct flock lock = byte_lock(byte, F_WRLCK);

	return fcntl(fd, F_OFD_SETLK, &lock) == 0;
}

void roster_unlock_byte(int fd, off_t byte)
{
	struct flock lock = byte_lock(byte, F_UNLCK);

	fcntl(fd, F_OFD_SETLK, &lock);
}

bool roster_byte_is_locked(int fd, off_t byte)
{
	struct flock lock = byte_lock(byte, F_WRLCK);

	return fcntl(fd, F_OFD_GETLK, &lock) < 0 || lock.l_type != F_UNLCK;
}

/* @table: the file, or NULL when it isn't mapped yet. What is missing of it is zero. */
static uint32_t read_epoch(int fd, const struct roster_file *table)
{
	uint32_t epoch = 0;

	if (table)
		return table->lock_epoch;
	return pread(fd, &epoch, sizeof(epoch), offsetof(struct roster_file, lock_epoch)) ==
			       sizeof(epoch)
		       ? epoch
		       : 0;
}

static uint32_t read_holder(int fd, const struct roster_file *table)
{
	uint32_t holder = 0;

	if (table)
		return table->lock_holder;
	return pread(fd, &holder, sizeof(holder), offsetof(struct roster_file, lock_holder)) ==
			       sizeof(holder)
		       ? holder
		       : 0;
}

static off_t epoch_byte(uint32_t epoch)
{
	return ROSTER_MEMBERS + 1 + epoch % LOCK_TURNS;
}

/* The holder has it until it lets go, or until the epoch is another one. */
off_t roster_trylock_file(int fd, struct roster_file *table)
{
	uint32_t epoch = read_epoch(fd, table);
	off_t byte = epoch_byte(epoch);

	if (!roster_lock_byte(fd, byte))
		return 0;
	if (read_epoch(fd, table) != epoch) {
		roster_unlock_byte(fd, byte);
		return 0;
	}
	if (table)
		table->lock_holder = syscall(SYS_gettid);
	return byte;
}

/* Of another PID namespace we can't know it. */
static bool thread_is_stopped(uint32_t thread)
{
	char path[32], text[128] = "", *state;
	int fd;

	snprintf(path, sizeof(path), "/proc/%u/stat", (unsigned int)thread);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	if (read(fd, text, sizeof(text) - 1) < 0)
		text[0] = '\0';
	close(fd);
	/* "PID (NAME) STATE ...", and a name may have parentheses. */
	state = strrchr(text, ')');
	return state && (strncmp(state, ") T", 3) == 0 || strncmp(state, ") t", 3) == 0);
}

/* One of those that wait moves the lock on: the one that gets the byte of the next turn. */
static void pass_over_stopped(int fd, struct roster_file *table)
{
	uint32_t epoch = read_epoch(fd, table), next = epoch + 1;

	if (!thread_is_stopped(read_holder(fd, table)) || !roster_lock_byte(fd, epoch_byte(next)))
		return;
	if (read_epoch(fd, table) != epoch)
		; /* another one was faster */
	else if (table)
		table->lock_epoch = next;
	else if (pwrite(fd, &next, sizeof(next), offsetof(struct roster_file, lock_epoch)) < 0)
		log_debug("roster: %s", strerror(errno));
	roster_unlock_byte(fd, epoch_byte(next));
}

/*
 * The kernel has no wait with a time limit for such a lock, so we poll. System calls by
 * number aren't cancellation points: the caller may hold locks.
 */
off_t roster_lock_file(int fd, struct roster_file *table)
{
	static const struct timespec moment = {.tv_nsec = 200000};

	for (unsigned int i = 1; i <= LOCK_TRIES; i++) {
		off_t byte = roster_trylock_file(fd, table);

		if (byte)
			return byte;
		if (i % LOCK_TRIES_A_LOOK == 0)
			pass_over_stopped(fd, table);
		syscall(SYS_nanosleep, &moment, NULL);
	}
	return 0;
}
