/* SPDX-License-Identifier: BSD-2-Clause */
/* The roster's file: its permissions, its locks, its members, and when it is removed. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "net/share/roster_internal.h"
#include "net/syscalls.h"

#define DESERTED_MAX 3600 /* seconds */

#define FILE_NAME "urxe-%d-%u-%llu" /* its version, the user, the network namespace */

/* --- locks -------------------------------------------------------------------------- */

bool roster_is_alive(const struct roster *roster, uint32_t member)
{
	return member == roster->self || roster_byte_is_locked(roster->fd, member);
}

int roster_lock(struct roster *roster)
{
	pthread_mutex_lock(&roster->mutex);
	roster->locked = roster_lock_file(roster->fd, roster->table);
	if (roster->locked)
		return 0;
	pthread_mutex_unlock(&roster->mutex);
	return EBUSY;
}

bool roster_trylock(struct roster *roster)
{
	if (pthread_mutex_trylock(&roster->mutex) != 0)
		return false;
	roster->locked = roster_trylock_file(roster->fd, roster->table);
	if (roster->locked)
		return true;
	pthread_mutex_unlock(&roster->mutex);
	return false;
}

void roster_unlock(struct roster *roster)
{
	roster_unlock_byte(roster->fd, roster->locked);
	pthread_mutex_unlock(&roster->mutex);
}

/* --- members --------------------------------------------------------------------------------- */

unsigned int roster_reap(struct roster *roster)
{
	bool *gone = roster->gone;
	unsigned int deaths = 0;

	for (uint32_t member = 1; member <= ROSTER_MEMBERS; member++) {
		gone[member] = member_of(roster, member)->here && !roster_is_alive(roster, member);
		deaths += gone[member];
	}
	if (!deaths)
		return 0;
	return roster_remove(roster);
}

/* Take a free member number. Its byte in the file is locked from then on. */
static int join(struct roster *roster)
{
	roster_reap(roster);
	for (uint32_t number = 1; number <= ROSTER_MEMBERS; number++) {
		struct member *member = member_of(roster, number);

		if (member->here || !roster_lock_byte(roster->fd, number))
			continue;
		member->primary_slot = member->slots = member->control_port = 0;
		roster->self = number;
		member->here = 1;
		return 0;
	}
	return ENOSPC;
}

static void resign(struct roster *roster)
{
	memset(roster->gone, 0, sizeof(roster->gone));
	roster->gone[roster->self] = true;
	roster_remove(roster);
}

const char *roster_error_text(int error)
{
	switch (error) {
	case EPERM:
		return "it belongs to another user, or others may use it";
	case EBADMSG:
		return "its contents are damaged; remove it when no program uses it";
	case EBUSY:
		return "a process that is stopped has it locked";
	default:
		return strerror(error);
	}
}

uint32_t roster_self(const struct roster *roster)
{
	return roster->self;
}

uint64_t roster_secret(const struct roster *roster)
{
	return roster->table->secret;
}

/* --- control ports -------------------------------------------------------------------------- */

void roster_set_control_port(struct roster *roster, uint16_t port)
{
	member_of(roster, roster->self)->control_port = port;
}

uint16_t roster_control_port(const struct roster *roster, uint32_t member)
{
	return member_of(roster, member)->control_port;
}

void roster_notify(struct roster *roster, uint32_t member)
{
	atomic_fetch_add(&member_of(roster, member)->notifications, 1);
}

uint32_t roster_notifications(const struct roster *roster)
{
	return atomic_load_explicit(&member_of(roster, roster->self)->notifications,
				    memory_order_relaxed);
}

void roster_set_repaired(struct roster *roster, uint64_t time)
{
	roster->table->repaired = time;
}

uint64_t roster_repaired(const struct roster *roster)
{
	return roster->table->repaired;
}

/* --- the file ----------------------------------------------------------------------------------
 */

int roster_usual_path(char *path, size_t size)
{
	struct stat net;

	if (stat("/proc/thread-self/ns/net", &net) < 0)
		return errno;
	snprintf(path, size, "/dev/shm/" FILE_NAME, ROSTER_VERSION, (unsigned int)geteuid(),
		 (unsigned long long)net.st_ino);
	return 0;
}

/* Any user can create files in /dev/shm: one with our name isn't trusted for its name. */
static bool file_is_safe(int fd)
{
	struct stat file;

	return fstat(fd, &file) == 0 && S_ISREG(file.st_mode) && file.st_uid == geteuid() &&
	       (file.st_mode & 077) == 0;
}

/* Take the memory now: a page that isn't to be had when it is touched would be a SIGBUS. */
static int map_table(struct roster *roster)
{
	int error = posix_fallocate(roster->fd, 0, sizeof(struct roster_file));
	void *memory;

	if (error)
		return error;
	memory = mmap(NULL, sizeof(struct roster_file), PROT_READ | PROT_WRITE, MAP_SHARED,
		      roster->fd, 0);
	if (memory == MAP_FAILED)
		return errno;
	roster->table = memory;
	return 0;
}

/* Every number in it is one that a member may have written. With the lock, under which they are. */
static bool is_sound(const struct roster_file *table)
{
	bool sound = table->version == ROSTER_VERSION && table->size == sizeof(*table) &&
		     table->cursor >= 1 && table->cursor < SLOTS - 1 &&
		     table->sockets_used <= SOCKETS && table->claims_used <= CLAIMS;

	for (uint32_t slot = 0; slot < SLOTS && sound; slot++)
		sound = table->owners[slot] <= ROSTER_MEMBERS && table->next[slot] < SLOT_QPNS;
	for (uint32_t i = 0; i < ROSTER_MEMBERS && sound; i++)
		sound = table->members[i].here <= 1 && table->members[i].primary_slot < SLOTS &&
			table->members[i].slots < SLOTS &&
			table->members[i].control_port <= UINT16_MAX;
	for (uint32_t i = 0; i < SOCKETS && sound; i++)
		sound = table->sockets[i].member <= ROSTER_MEMBERS &&
			table->sockets[i].index < SOCKETS;
	for (uint32_t i = 0; i < CLAIMS && sound; i++)
		sound = table->claims[i].member <= ROSTER_MEMBERS;
	return sound;
}

static int set_up(struct roster_file *table)
{
	uint64_t random[2];

	if (table->secret)
		return is_sound(table) ? 0 : EBADMSG;
	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		return EIO;
	table->version = ROSTER_VERSION;
	table->size = sizeof(*table);
	table->cursor = 1 + random[1] % (SLOTS - 2);
	for (uint32_t slot = 0; slot < SLOTS; slot++)
		table->next[slot] = (random[1] >> 32) * (slot + 1) % SLOT_QPNS;
	table->secret = random[0] | 1;
	return 0;
}

/* Open and lock it. If it was swept in between, another file has the name, or none has. */
static int open_file(const char *path, int *result, off_t *locked)
{
	struct stat file;

	for (;;) {
		int fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600), error = 0;

		if (fd < 0)
			return errno;
		if (!file_is_safe(fd))
			error = EPERM;
		else if ((*locked = roster_lock_file(fd, NULL)) == 0)
			error = EBUSY;
		else if (fstat(fd, &file) < 0)
			error = errno;
		if (!error && file.st_nlink > 0) {
			*result = fd;
			return 0;
		}
		close(fd);
		if (error)
			return error;
	}
}

/* --- sweeping --------------------------------------------------------------------------- */

/*
 * Removes the files of network namespaces that are gone, when a file is created. There
 * is no telling that a namespace is gone; but in a file that had no member for an hour, no
 * more is lost than where to lease next, and packets and retries don't take an hour.
 *
 * A member that is killed leaves no time of death. So a file's mtime is when it was opened
 * last, and its atime, if that is later, since when a sweep has known it deserted.
 */

/* Of our user, and not of a newer version, whose members may lock otherwise. */
static bool is_named_as_ours(const char *name)
{
	unsigned long long net;
	unsigned int user;
	int version, end = 0;

	return sscanf(name, FILE_NAME "%n", &version, &user, &net, &end) == 3 && !name[end] &&
	       version <= ROSTER_VERSION && user == geteuid();
}

/* All bytes that a member might have locked, at once: then there is no member, nor comes one. */
static bool lock_all(int fd, short type)
{
	struct flock lock = {.l_type = type, .l_whence = SEEK_SET};

	return fcntl(fd, F_OFD_SETLK, &lock) == 0;
}

static bool is_later(struct timespec a, struct timespec b)
{
	return a.tv_sec > b.tv_sec || (a.tv_sec == b.tv_sec && a.tv_nsec > b.tv_nsec);
}

/* With all of it locked. */
static void remove_or_mark(int directory, const char *name, int fd)
{
	struct timespec times[2] = {{0}, {.tv_nsec = UTIME_OMIT}};
	struct stat file;

	/* Without links, the name is another file's by now. */
	if (fstat(fd, &file) < 0 || file.st_nlink == 0)
		return;
	clock_gettime(CLOCK_REALTIME, &times[0]);
	if (!is_later(file.st_atim, file.st_mtim))
		futimens(fd, times);
	else if (times[0].tv_sec - file.st_atim.tv_sec > DESERTED_MAX)
		unlinkat(directory, name, 0);
}

static void sweep_file(int directory, const char *name)
{
	int fd = openat(directory, name, O_RDWR | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		return;
	if (file_is_safe(fd) && lock_all(fd, F_WRLCK)) {
		remove_or_mark(directory, name, fd);
		lock_all(fd, F_UNLCK); /* a child that was forked just now has it open too */
	}
	close(fd);
}

static void sweep(const char *path)
{
	const char *slash = strrchr(path, '/');
	char *parent = slash ? strndup(path, slash - path + 1) : NULL;
	DIR *directory = parent ? opendir(parent) : NULL;
	struct dirent *entry;

	while (directory && (entry = readdir(directory))) {
		if (is_named_as_ours(entry->d_name))
			sweep_file(dirfd(directory), entry->d_name);
	}
	if (directory)
		closedir(directory);
	free(parent);
}

/* --- opening and closing --------------------------------------------------------------- */

/* With the file locked, which is why a sweep leaves it alone. */
static int roster_enter(struct roster *roster, const char *path)
{
	struct stat file;
	int error;

	/* Files are created where namespaces come and go, so then some can be expected to be gone.
	 */
	if (fstat(roster->fd, &file) == 0 && file.st_size == 0)
		sweep(path);
	error = map_table(roster);
	if (!error)
		error = set_up(roster->table);
	if (!error)
		roster->table->lock_holder = syscall(SYS_gettid);
	if (!error)
		error = join(roster);
	/* After fallocate and mmap, which may change one of the times. */
	futimens(roster->fd, NULL);
	return error;
}

/* Closing the file lets go of all locks, and the number with it. */
static void roster_free(struct roster *roster)
{
	if (roster->table)
		munmap(roster->table, sizeof(*roster->table));
	close(roster->fd);
	pthread_mutex_destroy(&roster->mutex);
	free(roster);
}

int roster_open(const char *path, struct roster **result)
{
	struct roster *roster;
	char usual[64];
	int error = path ? 0 : roster_usual_path(usual, sizeof(usual));

	if (error)
		return error;
	if (!path)
		path = usual;
	roster = calloc(1, sizeof(*roster));
	if (!roster)
		return ENOMEM;
	error = open_file(path, &roster->fd, &roster->locked);
	if (error) {
		free(roster);
		return error;
	}
	pthread_mutex_init(&roster->mutex, NULL);
	error = roster_enter(roster, path);
	roster_unlock_byte(roster->fd, roster->locked);
	if (error) {
		roster_free(roster);
		return error;
	}
	*result = roster;
	return 0;
}

void roster_close(struct roster *roster)
{
	/* Without the lock we leave our entries; other members will find us dead. */
	if (roster_lock(roster) == 0) {
		resign(roster);
		roster_unlock(roster);
	}
	roster_free(roster);
}

void roster_after_fork_child(struct roster *roster)
{
	munmap(roster->table, sizeof(*roster->table));
	close(roster->fd);
	roster->fd = -1;
	roster->table = NULL;
}
