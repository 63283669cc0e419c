/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which file is the roster: of those that have its name the first that is safely ours, or a
 * new one; or the one that living members have, though its name was removed. And which files
 * are needed no longer.
 *
 * A file of which a process has locked any byte keeps its name: to remove it is to lock all of it.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "net/log.h"
#include "net/process.h"
#include "net/share/roster_internal.h"
#include "net/shared_file.h"

#define DESERTED_MAX 3600 /* seconds */

#define FILE_NAME "urxe-%d-%u-%llu" /* its version, the user, the network namespace */
#define COOKIE "-%llu"		    /* the namespace's, since version 7 */

/* Another user may have a file of the name, which we can't remove: then ".1" is appended, ... */
#define NAMES 4
#define PATH_SIZE 256

/*
 * The number alone is the next namespace's as soon as this one is gone, whose members would take
 * its connections for those of their own dead. Before Linux 5.14 it has to do: 0.
 */
static int namespace_cookie(uint64_t *cookie)
{
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	socklen_t size = sizeof(*cookie);

	if (fd < 0)
		return errno;
	if (getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, cookie, &size) < 0)
		*cookie = 0;
	close(fd);
	return 0;
}

int roster_usual_path(char path[ROSTER_PATH_SIZE])
{
	uint64_t cookie, net;
	int error = namespace_cookie(&cookie);

	if (error)
		return error;
	net = process_namespace("net");
	if (!net) {
		strcpy(path, "/proc/thread-self/ns/net");
		return errno;
	}
	snprintf(path, ROSTER_PATH_SIZE, "/dev/shm/" FILE_NAME COOKIE, ROSTER_VERSION,
		 (unsigned int)geteuid(), (unsigned long long)net, (unsigned long long)cookie);
	return 0;
}

/* --- names --------------------------------------------------------------------------- */

static bool name_path(char result[PATH_SIZE], const char *path, unsigned int number)
{
	int length = number ? snprintf(result, PATH_SIZE, "%s.%u", path, number)
			    : snprintf(result, PATH_SIZE, "%s", path);

	return length < PATH_SIZE;
}

/* @folder becomes that of @path. Returns the name in it. */
static const char *split_path(const char *path, char folder[PATH_SIZE])
{
	const char *slash = strrchr(path, '/');

	snprintf(folder, PATH_SIZE, "%.*s", slash ? (int)(slash - path) + 1 : 2,
		 slash ? path : "./");
	return slash ? slash + 1 : path;
}

/*
 * A file that is there goes before one that would be new: other members may have it. Returns a
 * descriptor, or -1 with errno: ENOENT, if a file is to be made at @result.
 */
static int open_any(const char *path, char result[PATH_SIZE])
{
	int free_name = -1, error = 0, fd;

	for (int i = 0; i < NAMES; i++) {
		if (!name_path(result, path, i))
			break;
		fd = shared_file_open(AT_FDCWD, result, O_RDWR);
		if (fd >= 0 || descriptor_is_exhaustion(errno))
			return fd;
		if (errno == ENOENT && free_name < 0)
			free_name = i;
		else if (errno != ENOENT && !error)
			error = errno;
	}
	if (free_name < 0) {
		errno = error ? error : ENAMETOOLONG;
		return -1;
	}
	if (error)
		log_info("%s: %s; processes share addresses by another file", path,
			 roster_error_text(error));
	name_path(result, path, free_name);
	errno = ENOENT;
	return -1;
}

/* --- all of a file ------------------------------------------------------------------------ */

/* All bytes that a member might have locked, at once: then there is no member, nor comes one. */
static bool lock_all(int fd, short type)
{
	struct flock lock = {.l_type = type, .l_whence = SEEK_SET};

	return fcntl(fd, F_OFD_SETLK, &lock) == 0;
}

/* Whether another process has done so. */
static bool is_all_locked(int fd)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

	return fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type == F_WRLCK && !lock.l_start &&
	       !lock.l_len;
}

static bool has_members(int fd)
{
	return roster_is_locked(fd, 1, ROSTER_MEMBERS) && !is_all_locked(fd);
}

/* --- a file without a name ------------------------------------------------------------- */

/*
 * A roster that was removed while it had members (systemd's RemoveIPC does that when a user's
 * last session ends) is still the one by which they share their addresses. Processes of the
 * same user can open it by the members' descriptors. Looked for when a file is created, which
 * is rare.
 */

/*
 * Of the descriptors in @folder, a process's in /proc, the roster with members that the kernel
 * names @wanted: opened, or -1.
 */
static int find_descriptor(const char *folder, const char *wanted)
{
	DIR *directory = opendir(folder);
	char target[PATH_SIZE];
	struct dirent *entry;
	int found = -1;

	while (directory && found < 0 && (entry = readdir(directory))) {
		ssize_t length =
			readlinkat(dirfd(directory), entry->d_name, target, sizeof(target) - 1);

		target[length < 0 ? 0 : length] = '\0';
		if (strcmp(target, wanted) != 0)
			continue;
		found = descriptor_above_standard(
			openat(dirfd(directory), entry->d_name, O_RDWR | O_CLOEXEC));
		if (found >= 0 && (!shared_file_is_safe(found) || !has_members(found))) {
			close(found);
			found = -1;
		}
	}
	if (directory)
		closedir(directory);
	return found;
}

static bool kernel_path(int fd, char result[PATH_SIZE])
{
	char self[32];
	ssize_t length;

	snprintf(self, sizeof(self), "/proc/thread-self/fd/%d", fd);
	length = readlink(self, result, PATH_SIZE);
	if (length < 0 || length == PATH_SIZE)
		return false;
	result[length] = '\0';
	return true;
}

/* As the kernel names it: the file at @path, had it been removed. */
static bool removed_name(const char *path, char result[2 * PATH_SIZE])
{
	char folder[PATH_SIZE], kernel[PATH_SIZE];
	const char *name = split_path(path, folder);
	int fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
	bool known = fd >= 0 && kernel_path(fd, kernel);

	if (fd >= 0)
		close(fd);
	return known && snprintf(result, 2 * PATH_SIZE, "%s/%s (deleted)", kernel, name) > 0;
}

static int find_removed(const char *path)
{
	char wanted[2 * PATH_SIZE], folder[PATH_SIZE + 16];
	struct dirent *entry;
	DIR *processes;
	int found = -1;

	if (!removed_name(path, wanted))
		return -1;
	processes = opendir("/proc");
	while (processes && found < 0 && (entry = readdir(processes))) {
		if (entry->d_name[0] < '1' || entry->d_name[0] > '9')
			continue;
		snprintf(folder, sizeof(folder), "/proc/%s/fd", entry->d_name);
		found = find_descriptor(folder, wanted);
	}
	if (processes)
		closedir(processes);
	return found;
}

/* --- sweeping --------------------------------------------------------------------------- */

/*
 * Removes the files of network namespaces that are gone, when a file is created. A namespace
 * is known to be when ours has its number; of others there is no telling. But in a file that had
 * no member for an hour, no more is lost than where to lease next, and packets and retries don't
 * take an hour.
 *
 * A member that is killed leaves no time of death. So a file's mtime is when it was opened
 * last, and its atime, if that is later, since when a sweep has known it deserted.
 */

struct roster_name {
	unsigned int user;
	int version;
	unsigned long long net, cookie; /* 0: it has none */
};

static bool parse_name(const char *text, struct roster_name *name)
{
	int end = 0, more = 0;

	*name = (struct roster_name){0};
	if (sscanf(text, FILE_NAME "%n", &name->version, &name->user, &name->net, &end) != 3)
		return false;
	text += end;
	if (sscanf(text, COOKIE "%n", &name->cookie, &more) == 1)
		text += more;
	return !text[0] || (text[0] == '.' && text[1] >= '1' && text[1] < '0' + NAMES && !text[2]);
}

/* Of our user, and not of a newer version, whose members may lock otherwise. */
static bool is_ours(const struct roster_name *name)
{
	return name->version <= ROSTER_VERSION && name->user == geteuid();
}

/* Another namespace had the number before ours. */
static bool is_former(const struct roster_name *name, const struct roster_name *own)
{
	return name->net == own->net && name->cookie && own->cookie && name->cookie != own->cookie;
}

static bool is_later(struct timespec a, struct timespec b)
{
	return a.tv_sec > b.tv_sec || (a.tv_sec == b.tv_sec && a.tv_nsec > b.tv_nsec);
}

/* With all of it locked. */
static void remove_or_mark(int directory, const char *name, int fd, bool gone)
{
	struct timespec times[2] = {{0}, {.tv_nsec = UTIME_OMIT}};
	struct stat file;

	/* Without links, the name is another file's by now. */
	if (fstat(fd, &file) < 0 || file.st_nlink == 0)
		return;
	clock_gettime(CLOCK_REALTIME, &times[0]);
	if (!gone && !is_later(file.st_atim, file.st_mtim))
		futimens(fd, times);
	else if (gone || times[0].tv_sec - file.st_atim.tv_sec > DESERTED_MAX)
		unlinkat(directory, name, 0);
}

static void sweep_file(int directory, const char *name, bool gone)
{
	int fd = shared_file_open(directory, name, O_RDWR);

	if (fd < 0)
		return;
	if (lock_all(fd, F_WRLCK)) {
		remove_or_mark(directory, name, fd, gone);
		lock_all(fd, F_UNLCK); /* a child that was forked just now has it open too */
	}
	close(fd);
}

static void sweep(const char *path)
{
	char folder[PATH_SIZE];
	const char *own_name = split_path(path, folder);
	DIR *directory = opendir(folder);
	struct roster_name own, name;
	struct dirent *entry;

	parse_name(own_name, &own);
	while (directory && (entry = readdir(directory))) {
		if (parse_name(entry->d_name, &name) && is_ours(&name))
			sweep_file(dirfd(directory), entry->d_name, is_former(&name, &own));
	}
	if (directory)
		closedir(directory);
}

/* It has no members, and gets none any more: then the next one to open the name makes a new one. */
int roster_discard_file(int fd)
{
	char path[PATH_SIZE];

	if (!lock_all(fd, F_WRLCK))
		return roster_is_locked(fd, 1, ROSTER_MEMBERS) ? EBADMSG : EBUSY;
	if (kernel_path(fd, path))
		unlink(path);
	lock_all(fd, F_UNLCK); /* a child that was forked just now has it open too */
	return ESTALE;
}

/* --- creating --------------------------------------------------------------------------- */

/* Take the memory now, as a member that opens it does. */
static int fill_file(int fd)
{
	int error = shared_file_reserve(fd, 0, sizeof(struct roster_file));
	void *table;

	if (error)
		return error;
	table = mmap(NULL, sizeof(struct roster_file), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (table == MAP_FAILED)
		return errno;
	error = roster_set_up(table);
	munmap(table, sizeof(struct roster_file));
	return error;
}

/*
 * It gets its name when it is set up: a process that finds it can use it, and one that is stopped
 * before that keeps none waiting. Returns 0, also if another process was faster, or an errno.
 */
static int create_file(const char *path)
{
	char folder[PATH_SIZE];
	int fd, error;

	split_path(path, folder);
	fd = shared_file_create(folder);
	if (fd < 0)
		return errno;
	error = fill_file(fd);
	if (!error && !shared_file_name(fd, path) && errno != EEXIST)
		error = errno;
	close(fd);
	return error;
}

/* --- opening ---------------------------------------------------------------------------- */

/* There is no file at @path. */
static int open_missing(const char *path, int *fd, struct roster_locker *locker)
{
	int removed = find_removed(path), error;

	if (removed >= 0) {
		log_info("%s was removed; its processes go on sharing it", path);
		*fd = removed;
		if (roster_lock_file(removed, locker))
			return 0;
		close(removed);
		return EBUSY;
	}
	/* Files are created where namespaces come and go: some are likely to be gone. */
	sweep(path);
	error = create_file(path);
	return error ? error : ESTALE;
}

/*
 * The lock isn't to be had. If one process has locked all of the file, to remove it, and is stopped
 * there, its name is removed in that one's place. ESTALE, or EBUSY for any other lock.
 */
static int remove_in_place(int fd, const char *path)
{
	struct stat file, named;

	if (!is_all_locked(fd))
		return EBUSY;
	/* Another one may have done so, and the name be that of a file with members. */
	if (fstat(fd, &file) == 0 && lstat(path, &named) == 0 && file.st_ino == named.st_ino &&
	    unlink(path) < 0)
		return EBUSY;
	return ESTALE;
}

int roster_open_file(const char *wanted, int *result, struct roster_locker *locker)
{
	char path[PATH_SIZE];
	struct stat file;
	int fd = open_any(wanted, path), error;

	if (fd < 0)
		return errno == ENOENT ? open_missing(path, result, locker) : errno;
	error = roster_lock_file(fd, locker) ? 0 : remove_in_place(fd, path);
	if (!error && fstat(fd, &file) < 0)
		error = errno;
	/* It was swept before it was locked. */
	if (!error && file.st_nlink == 0)
		error = ESTALE;
	if (error)
		close(fd);
	*result = fd;
	return error;
}
