/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Locks on bytes of the roster's file. They belong to the open file: each link opens its own,
 * and a forked child shares them until roster_after_fork_child() closes it.
 *
 * Bytes 1 to ROSTER_MEMBERS are the members', those behind are by turns the lock of the whole
 * roster. It is held for less than a millisecond, but a process may be stopped in that time,
 * by a debugger or SIGSTOP, for as long as its user likes. Then the next byte in turn becomes
 * the lock, and the stopped process no longer keeps the other members from theirs. When it goes on,
 * it finishes what it was about to store; then it finds that it was passed over, and has what
 * it stored checked.
 *
 * State in the file is read and written by system calls: at first the file isn't mapped.
 */
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "net/clock.h"
#include "net/log.h"
#include "net/share/roster_internal.h"
#include "net/syscalls.h"

#define LOCK_PATIENCE UINT64_C(5000000000) /* ns */
#define LOCK_LOOK UINT64_C(500000000)	   /* when it is found out whether the holder is stopped */

static struct flock byte_lock(off_t byte, short type)
{
	return (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
}

bool roster_lock_byte(int fd, off_t byte)
{
	struct flock lock = byte_lock(byte, F_WRLCK);

	return fcntl(fd, F_OFD_SETLK, &lock) == 0;
}

static void unlock_byte(int fd, off_t byte)
{
	struct flock lock = byte_lock(byte, F_UNLCK);

	fcntl(fd, F_OFD_SETLK, &lock);
}

bool roster_is_locked(int fd, uint32_t first, uint32_t last)
{
	struct flock lock = byte_lock(first, F_WRLCK);

	lock.l_len = last + 1 - first;
	return fcntl(fd, F_OFD_GETLK, &lock) < 0 || lock.l_type != F_UNLCK;
}

/* --- the lock of the whole roster --------------------------------------------------------- */

static off_t epoch_byte(uint32_t epoch)
{
	return ROSTER_MEMBERS + 1 + epoch % LOCK_TURNS;
}

/* What the file is too short for is zero. */
static uint32_t read_word(int fd, size_t offset)
{
	uint32_t word = 0;

	return sys_pread(fd, &word, sizeof(word), offset) == sizeof(word) ? word : 0;
}

static void write_word(int fd, size_t offset, uint32_t word)
{
	if (sys_pwrite(fd, &word, sizeof(word), offset) != sizeof(word))
		log_debug("the roster's file can't be written");
}

static uint32_t read_epoch(int fd)
{
	return read_word(fd, offsetof(struct roster_file, turns.epoch));
}

/* Each turn has a holder of its own, so that one that was passed over doesn't store there. */
static size_t holder_offset(uint32_t epoch)
{
	return offsetof(struct roster_file, turns.holders) + epoch % LOCK_TURNS * sizeof(uint32_t);
}

/* The holder has it until it lets go, or until the epoch is another one. */
bool roster_trylock_file(int fd, uint32_t *turn)
{
	uint32_t epoch = read_epoch(fd);

	if (!roster_lock_byte(fd, epoch_byte(epoch)))
		return false;
	if (read_epoch(fd) != epoch) {
		unlock_byte(fd, epoch_byte(epoch));
		return false;
	}
	write_word(fd, holder_offset(epoch), gettid());
	*turn = epoch;
	return true;
}

bool roster_unlock_file(int fd, uint32_t turn)
{
	bool ours = read_epoch(fd) == turn;

	/* Or the next holder would be passed over when we are stopped. */
	write_word(fd, holder_offset(turn), 0);
	unlock_byte(fd, epoch_byte(turn));
	return ours;
}

/* Of another PID namespace we can't know it. */
static bool thread_is_stopped(uint32_t thread)
{
	char path[32], text[128] = "", *state;
	int fd;

	snprintf(path, sizeof(path), "/proc/%u/stat", (unsigned int)thread);
	fd = sys_open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	if (sys_read(fd, text, sizeof(text) - 1) < 0)
		text[0] = '\0';
	sys_close(fd);
	/* "PID (NAME) STATE ...", and a name may have parentheses. */
	state = strrchr(text, ')');
	return state && (strncmp(state, ") T", 3) == 0 || strncmp(state, ") t", 3) == 0);
}

/* One of those that wait moves the lock on: the one that gets the byte of the next turn. */
static void pass_over_stopped(int fd)
{
	uint32_t epoch = read_epoch(fd), next = epoch + 1;
	uint32_t holder = read_word(fd, holder_offset(epoch));

	if (!holder || !thread_is_stopped(holder) || !roster_lock_byte(fd, epoch_byte(next)))
		return;
	/* Another one may have been faster, and the holder may have gone on. */
	if (read_epoch(fd) == epoch && read_word(fd, holder_offset(epoch)) == holder)
		write_word(fd, offsetof(struct roster_file, turns.epoch), next);
	unlock_byte(fd, epoch_byte(next));
}

/* The kernel has no wait with a time limit for such a lock, so we poll. */
bool roster_lock_file(int fd, uint32_t *turn)
{
	static const struct timespec moment = {.tv_nsec = 200000};

	uint64_t begin = clock_now(), look = begin + LOCK_LOOK, now = begin;

	while (!roster_trylock_file(fd, turn)) {
		if (now > begin + LOCK_PATIENCE)
			return false;
		if (now > look) {
			pass_over_stopped(fd);
			look = now + LOCK_LOOK;
		}
		sys_nanosleep(&moment);
		now = clock_now();
	}
	return true;
}
