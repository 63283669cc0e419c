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

#define LOCK_LOOK UINT64_C(500000000) /* ns: how often it is found out what the holder does */
/*
 * Looks that find it asleep. In the kernel's mutexes (for its code, when sockets are opened) each
 * of a hundred processes waits until those before it had a CPU; a frozen cgroup may look the same.
 */
#define LOCK_PATIENCE 10
#define LOCK_PATIENCE_KERNEL 60
#define LOCK_PAUSE_MIN 200000
#define LOCK_PAUSE_MAX 3200000

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

static uint32_t read_epoch(int fd)
{
	uint32_t epoch = 0; /* as in a file that is still too short */

	if (sys_pread(fd, &epoch, sizeof(epoch), offsetof(struct roster_file, turns.epoch)) < 0)
		log_debug("the roster's file can't be read");
	return epoch;
}

static void write_turn(int fd, const void *data, size_t size, size_t offset)
{
	if (sys_pwrite(fd, data, size, offsetof(struct roster_file, turns) + offset) !=
	    (ssize_t)size)
		log_debug("the roster's file can't be written");
}

/* Each turn has a holder of its own, so that one that was passed over doesn't store there. */
static size_t holder_offset(uint32_t epoch)
{
	return offsetof(struct roster_turns, holders) +
	       epoch % LOCK_TURNS * sizeof(struct roster_holder);
}

static struct roster_holder read_holder(int fd, uint32_t epoch)
{
	struct roster_holder holder = {0};

	if (sys_pread(fd, &holder, sizeof(holder),
		      offsetof(struct roster_file, turns) + holder_offset(epoch)) < 0)
		log_debug("the roster's file can't be read");
	return holder;
}

static bool holder_equal(struct roster_holder a, struct roster_holder b)
{
	return a.thread == b.thread && a.since == b.since;
}

/* The holder has it until it lets go, or until the epoch is another one. */
bool roster_trylock_file(int fd, uint32_t *turn)
{
	struct roster_holder holder = {gettid(), clock_now() / 1000};
	uint32_t epoch = read_epoch(fd);

	if (!roster_lock_byte(fd, epoch_byte(epoch)))
		return false;
	if (read_epoch(fd) != epoch) {
		unlock_byte(fd, epoch_byte(epoch));
		return false;
	}
	write_turn(fd, &holder, sizeof(holder), holder_offset(epoch));
	*turn = epoch;
	return true;
}

bool roster_unlock_file(int fd, uint32_t turn)
{
	/* A new time: processes that wait see that the lock goes from one to the next. */
	const struct roster_holder released = {0, clock_now() / 1000};
	bool ours = read_epoch(fd) == turn;

	/* Or the next holder would be passed over when we are stopped. */
	write_turn(fd, &released, sizeof(released), holder_offset(turn));
	unlock_byte(fd, epoch_byte(turn));
	return ours;
}

/* The letter of proc(5); 0 where it can't be known: of another PID namespace. */
static char thread_state(uint32_t thread)
{
	char path[32], text[128] = "", *end;
	int fd;

	snprintf(path, sizeof(path), "/proc/%u/stat", (unsigned int)thread);
	fd = sys_open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	if (sys_read(fd, text, sizeof(text) - 1) < 0)
		text[0] = '\0';
	sys_close(fd);
	/* "PID (NAME) STATE ...", and a name may have parentheses. */
	end = strrchr(text, ')');
	return end && end[1] ? end[2] : 0;
}

/* One of those that wait moves the lock on: the one that gets the byte of the next turn. */
static void pass_over(int fd, uint32_t epoch, struct roster_holder holder)
{
	uint32_t next = epoch + 1;

	if (!roster_lock_byte(fd, epoch_byte(next)))
		return;
	/* Another one may have been faster, and the holder may have gone on. */
	if (read_epoch(fd) == epoch && holder_equal(read_holder(fd, epoch), holder))
		write_turn(fd, &next, sizeof(next), offsetof(struct roster_turns, epoch));
	unlock_byte(fd, epoch_byte(next));
}

/* How long a holder has been asleep. */
struct patience {
	struct roster_holder holder;
	unsigned int looks;
};

/* Passes over one that is stopped. Returns false if there is no patience left with the holder. */
static bool look_at_holder(struct patience *patience, int fd)
{
	uint32_t epoch = read_epoch(fd);
	struct roster_holder holder = read_holder(fd, epoch);
	char state = thread_state(holder.thread);
	bool waits = holder_equal(holder, patience->holder) && state != 'R';

	if (state == 'T' || state == 't')
		pass_over(fd, epoch, holder);
	patience->holder = holder;
	patience->looks = waits ? patience->looks + 1 : 0;
	if (patience->looks < (state == 'D' ? LOCK_PATIENCE_KERNEL : LOCK_PATIENCE))
		return true;
	log_warn("the roster is locked by thread %u, which is in state %c and doesn't go on",
		 holder.thread, state ? state : '?');
	return false;
}

/*
 * The kernel has no wait with a time limit for such a lock, so we poll: less and less often, as
 * a hundred processes that wait would otherwise keep the CPU from the one that has the lock.
 * Patience is with one holder that sleeps: as long as the lock goes from one to the next, or its
 * holder waits for a CPU, we wait. It is measured in looks at the holder, not in time, which also
 * passes while this process, or the machine, stands still.
 */
bool roster_lock_file(int fd, uint32_t *turn)
{
	uint64_t now = clock_now(), look = now + LOCK_LOOK;
	struct timespec pause = {.tv_nsec = LOCK_PAUSE_MIN};
	struct patience patience = {0};

	while (!roster_trylock_file(fd, turn)) {
		if (now > look) {
			if (!look_at_holder(&patience, fd))
				return false;
			look = now + LOCK_LOOK;
		}
		sys_nanosleep(&pause);
		if (pause.tv_nsec < LOCK_PAUSE_MAX)
			pause.tv_nsec *= 2;
		now = clock_now();
	}
	return true;
}
