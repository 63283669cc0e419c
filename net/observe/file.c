/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/observe/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "net/clock.h"
#include "net/file_limit.h"
#include "net/observe/observe.h"
#include "net/shared_file.h"

#define NAME "urxe-process-%d-%u-%u-%llu"

bool observe_name(char name[OBSERVE_PATH])
{
	int length = snprintf(name, OBSERVE_PATH, NAME, OBSERVE_VERSION, (unsigned int)geteuid(),
			      (unsigned int)getpid(), (unsigned long long)clock_now());

	return length < OBSERVE_PATH;
}

bool observe_is_name(const char *name, int *version)
{
	unsigned long long time;
	unsigned int user, pid;
	int end = 0;

	return sscanf(name, NAME "%n", version, &user, &pid, &time, &end) == 4 && !name[end] &&
	       user == geteuid();
}

uint64_t observe_wall_clock(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
}

/* --- sweeping ------------------------------------------------------------------------------ */

/* Of a process that has ended. */
static void mark_or_remove(int directory, const char *name, int fd)
{
	uint64_t ended = 0, now = observe_wall_clock();
	off_t place = offsetof(struct observe_header, ended);

	if (pread(fd, &ended, sizeof(ended), place) != sizeof(ended) || ended > now)
		ended = 0;
	if (ended && now - ended > OBSERVE_KEPT * NS_PER_S)
		unlinkat(directory, name, 0);
	/*
	 * One that has no space for the mark would never be removed. Where it is this process that
	 * may not write so far (RLIMIT_FSIZE), another one marks it.
	 */
	else if (!ended && file_limit_pwrite(fd, &now, sizeof(now), place) < 0 && errno != EFBIG)
		unlinkat(directory, name, 0);
}

static void sweep_file(int directory, const char *name)
{
	int fd = shared_file_open(directory, name, O_RDWR);

	if (fd < 0)
		return;
	/* Locked by us it would look alive to `urxe ps`; and no process locks it any more. */
	if (!shared_file_is_locked(fd))
		mark_or_remove(directory, name, fd);
	close(fd);
}

/* Those of newer versions are theirs to remove. */
void observe_sweep(const char *directory)
{
	DIR *files = opendir(directory);
	struct dirent *entry;
	int version;

	while (files && (entry = readdir(files))) {
		if (observe_is_name(entry->d_name, &version) && version <= OBSERVE_VERSION)
			sweep_file(dirfd(files), entry->d_name);
	}
	if (files)
		closedir(files);
}

/* --- layout -------------------------------------------------------------------------------- */

size_t observe_record_size(unsigned int kind)
{
	static const size_t sizes[OBSERVE_KINDS] = {
		[OBSERVE_DEVICE] = OBSERVE_SIZE(observe_device),
		[OBSERVE_QP] = OBSERVE_SIZE(observe_qp),
		[OBSERVE_CQ] = OBSERVE_SIZE(observe_cq),
		[OBSERVE_SRQ] = OBSERVE_SIZE(observe_srq),
		[OBSERVE_REGION] = OBSERVE_SIZE(observe_region),
		[OBSERVE_CONNECTION] = OBSERVE_SIZE(observe_connection),
	};

	return kind < OBSERVE_KINDS ? sizes[kind] : 0;
}

unsigned int observe_block_records(unsigned int kind)
{
	size_t size = observe_record_size(kind);

	return size ? OBSERVE_BLOCK / size : 0;
}
