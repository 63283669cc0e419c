/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Locks on bytes of the roster's file. They belong to the open file: each link opens its own,
 * and a forked child shares them until roster_after_fork_child() closes it.
 *
 * Bytes 1 to ROSTER_MEMBERS are the members', the LOCK_BYTES behind are one after the other
 * the lock of the whole roster: which of them it is follows from the epoch. It is held for less
 * than a millisecond, but a process may be stopped in that time, by a debugger, SIGSTOP or a frozen
 * cgroup, for as long as its user likes. Then a process that waits raises the epoch, the next byte
 * that no stopped process has becomes the lock, and the stopped process is passed over: it no
 * longer keeps the other members from the roster. When it goes on, it finishes what it was about to
 * store, which does no harm (roster_internal.h), and roster_unlock_file() tells it that it was
 * passed over.
 *
 * State in the file is read and written by system calls: at first the file isn't mapped.
 */
#include <fcntl.h>
#include <stddef.h>
#include <time.h>

#include "net/clock.h"
#include "net/file_limit.h"
#include "net/log.h"
#include "net/process.h"
#include "net/share/roster_internal.h"
#include "net/syscalls.h"

/* How often a process that waits looks what the holder does, ns. */
#define LOCK_LOOK_INTERVAL UINT64_C(500000000)
/*
 * Looks that find it asleep, before it is passed over like one that is stopped: it may be of a
 * frozen cgroup, or of another PID namespace, where it can't be known. In the kernel's mutexes (for
 * its code, when sockets are opened) each of a hundred processes waits until those before it had a
 * CPU.
 */
#define LOCK_LOOKS 6
#define LOCK_LOOKS_KERNEL 60
#define LOCK_TRIES 4	      /* to pass it over */
#define LOCK_PAUSE_MIN 200000 /* ns, between two tries to take the lock */
#define LOCK_PAUSE_MAX 3200000

static struct flock byte_lock(off_t byte, short type)
{
	return (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
}

static bool set_lock(int fd, off_t byte, short type)
{
	struct flock lock = byte_lock(byte, type);

	return fcntl(fd, F_OFD_SETLK, &lock) == 0;
}

bool roster_lock_byte(int fd, off_t byte)
{
	return set_lock(fd, byte, F_WRLCK);
}

bool roster_share_byte(int fd, off_t byte)
{
	return set_lock(fd, byte, F_RDLCK);
}

void roster_unlock_byte(int fd, off_t byte)
{
	set_lock(fd, byte, F_UNLCK);
}

bool roster_is_locked(int fd, uint32_t first, uint32_t last)
{
	/* Those that share a dead member's byte don't keep us from sharing it, too. */
	struct flock lock = byte_lock(first, F_RDLCK);

	lock.l_len = last + 1 - first;
	return fcntl(fd, F_OFD_GETLK, &lock) < 0 || lock.l_type != F_UNLCK;
}

/* --- the lock of the whole roster --------------------------------------------------------- */

static off_t epoch_byte(uint32_t epoch)
{
	return ROSTER_MEMBERS + 1 + epoch % LOCK_BYTES;
}

static uint32_t read_epoch(int fd)
{
	uint32_t epoch = 0; /* as in a file that is still too short */

	if (sys_pread(fd, &epoch, sizeof(epoch), offsetof(struct roster_file, lock.epoch)) < 0)
		log_debug("the roster's file can't be read");
	return epoch;
}

static void write_state(int fd, const void *data, size_t size, size_t offset)
{
	if (file_limit_pwrite(fd, data, size, offsetof(struct roster_file, lock) + offset) !=
	    (ssize_t)size)
		log_debug("the roster's file can't be written");
}

/* Each byte has a holder of its own, so that one that was passed over doesn't store in ours. */
static size_t holder_offset(uint32_t epoch)
{
	return offsetof(struct roster_lock_state, holders) +
	       epoch % LOCK_BYTES * sizeof(struct roster_holder);
}

static struct roster_holder read_holder(int fd, uint32_t epoch)
{
	struct roster_holder holder = {0};

	if (sys_pread(fd, &holder, sizeof(holder),
		      offsetof(struct roster_file, lock) + holder_offset(epoch)) < 0)
		log_debug("the roster's file can't be read");
	return holder;
}

static bool holder_equal(struct roster_holder a, struct roster_holder b)
{
	return a.thread == b.thread && a.since == b.since && a.pid_namespace == b.pid_namespace;
}

/* The holder has it until it lets go, or until the epoch is another one. */
static bool try_lock(int fd, struct roster_locker *locker)
{
	uint32_t epoch = read_epoch(fd);
	struct roster_holder holder;

	if (!roster_lock_byte(fd, epoch_byte(epoch)))
		return false;
	if (read_epoch(fd) != epoch) {
		roster_unlock_byte(fd, epoch_byte(epoch));
		return false;
	}
	if (!locker->pid_namespace)
		locker->pid_namespace = process_namespace("pid");
	holder = (struct roster_holder){gettid(), clock_now() / 1000, locker->pid_namespace};
	write_state(fd, &holder, sizeof(holder), holder_offset(epoch));
	locker->epoch = epoch;
	return true;
}

bool roster_unlock_file(int fd, const struct roster_locker *locker)
{
	/* A new time: processes that wait see that the lock goes from one to the next. */
	const struct roster_holder released = {.since = clock_now() / 1000};
	bool ours = read_epoch(fd) == locker->epoch;

	/* Or the next holder would be passed over when we are stopped. */
	write_state(fd, &released, sizeof(released), holder_offset(locker->epoch));
	roster_unlock_byte(fd, epoch_byte(locker->epoch));
	return ours;
}

/*
 * One of those that wait raises the epoch: the one that gets the byte of the next one. Returns
 * false if another process has that.
 */
static bool raise_epoch(int fd, uint32_t epoch, uint32_t next, struct roster_holder holder)
{
	if (!roster_lock_byte(fd, epoch_byte(next)))
		return false;
	/* Another one may have been faster, and the holder may have gone on. */
	if (read_epoch(fd) == epoch && holder_equal(read_holder(fd, epoch), holder))
		write_state(fd, &next, sizeof(next), offsetof(struct roster_lock_state, epoch));
	roster_unlock_byte(fd, epoch_byte(next));
	return true;
}

/*
 * A byte that isn't to be had is mostly that of another one that does the same just now. If it
 * still isn't at the next look, a process is stopped that has it, since it was passed over or was
 * about to pass over: then the epoch is the next one whose byte is to be had. Two that raise it by
 * different bytes at once pass over, too, what got the lock between them: that one is told, as any.
 */
static void pass_over(struct roster_wait *wait, int fd, uint32_t epoch, struct roster_holder holder)
{
	uint32_t most = wait->passes++ ? LOCK_BYTES - 1 : 1;

	for (uint32_t i = 1; i <= most && !raise_epoch(fd, epoch, epoch + i, holder); i++)
		;
}

/*
 * Passes over one that is stopped, or was found asleep too often. Returns false if that can't be
 * done either: all other bytes are locked.
 */
static bool look_at_holder(struct roster_wait *wait, int fd)
{
	uint32_t epoch = read_epoch(fd);
	struct roster_holder holder = read_holder(fd, epoch);
	char state = process_state(holder.thread, holder.pid_namespace);
	bool asleep = holder_equal(holder, wait->holder) && state != 'R';
	unsigned int limit = state == 'D' ? LOCK_LOOKS_KERNEL : LOCK_LOOKS;

	wait->holder = holder;
	wait->looks = asleep ? wait->looks + 1 : 0;
	wait->passes = asleep ? wait->passes : 0;
	if (process_is_stopped(state) || wait->looks >= limit)
		pass_over(wait, fd, epoch, holder);
	return wait->looks < limit + LOCK_TRIES;
}

/* After each try that failed. Returns false when there is no more to be done. */
static bool keep_waiting(struct roster_wait *wait, int fd)
{
	uint64_t now = clock_now();

	if (!wait->look)
		wait->look = now + LOCK_LOOK_INTERVAL;
	if (now < wait->look)
		return true;
	wait->look = now + LOCK_LOOK_INTERVAL;
	return look_at_holder(wait, fd);
}

bool roster_trylock_file(int fd, struct roster_locker *locker, struct roster_wait *wait)
{
	if (!try_lock(fd, locker)) {
		keep_waiting(wait, fd);
		return false;
	}
	*wait = (struct roster_wait){0};
	return true;
}

/*
 * The kernel has no wait with a time limit for such a lock, so we poll: less and less often, as
 * a hundred processes that wait would otherwise keep the CPU from the one that has the lock.
 * We wait as long as the lock goes from one to the next, or its holder waits for a CPU; for one
 * holder that sleeps only so many looks at it, not so much time, which also passes while this
 * process, or the machine, stands still.
 */
bool roster_lock_file(int fd, struct roster_locker *locker)
{
	struct timespec pause = {.tv_nsec = LOCK_PAUSE_MIN};
	struct roster_wait wait = {0};

	while (!try_lock(fd, locker)) {
		if (!keep_waiting(&wait, fd)) {
			log_warn("the roster is locked by thread %u (0: it isn't known), which "
				 "doesn't go on",
				 wait.holder.thread);
			return false;
		}
		sys_nanosleep(&pause);
		if (pause.tv_nsec < LOCK_PAUSE_MAX)
			pause.tv_nsec *= 2;
	}
	return true;
}
