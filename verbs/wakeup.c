/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/wakeup.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <unistd.h>

#include "net/syscalls.h"

static int open_pipe(int ends[2])
{
	int error;

	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
		return errno;
	ends[0] = descriptor_above_standard(ends[0]);
	ends[1] = descriptor_above_standard(ends[1]);
	if (ends[0] >= 0 && ends[1] >= 0)
		return 0;
	error = errno;
	for (int i = 0; i < 2; i++) {
		if (ends[i] >= 0)
			sys_close(ends[i]);
	}
	return error;
}

static void use_pipe(struct wakeup *wakeup, const int ends[2])
{
	wakeup->identity = descriptor_identify(ends[0]);
	wakeup->reader = ends[0];
	wakeup->writer = ends[1];
}

int wakeup_open(struct wakeup *wakeup)
{
	int ends[2], error = open_pipe(ends);

	*wakeup = (struct wakeup){.reader = -1, .writer = -1};
	if (!error)
		use_pipe(wakeup, ends);
	return error;
}

void wakeup_close(struct wakeup *wakeup)
{
	descriptor_close(wakeup->writer, &wakeup->identity);
	descriptor_close(wakeup->reader, &wakeup->identity);
	wakeup->reader = wakeup->writer = -1;
}

void wakeup_wake(struct wakeup *wakeup)
{
	const char byte = 0;
	ssize_t written;

	/* In this order, and wakeup_begin_sleep() the other way round: one sees the other's. */
	atomic_store(&wakeup->wanted, true);
	if (!atomic_load(&wakeup->asleep))
		return;
	atomic_fetch_add(&wakeup->writing, 1);
	if (atomic_exchange(&wakeup->asleep, false) &&
	    descriptor_is(wakeup->writer, &wakeup->identity)) {
		written = sys_write(wakeup->writer, &byte, sizeof(byte));
		(void)written; /* a pipe that is full wakes as well */
	}
	atomic_fetch_sub(&wakeup->writing, 1);
}

void wakeup_begin_round(struct wakeup *wakeup)
{
	atomic_store(&wakeup->wanted, false);
}

bool wakeup_begin_sleep(struct wakeup *wakeup)
{
	atomic_store(&wakeup->asleep, true);
	if (!atomic_load(&wakeup->wanted))
		return true;
	atomic_store(&wakeup->asleep, false);
	return false;
}

bool wakeup_end_sleep(struct wakeup *wakeup, short events)
{
	char bytes[16];

	atomic_store(&wakeup->asleep, false);
	if (events == 0)
		return true;
	if (events != POLLIN || !descriptor_is(wakeup->reader, &wakeup->identity))
		return false;
	while (sys_read(wakeup->reader, bytes, sizeof(bytes)) == sizeof(bytes))
		;
	return true;
}

int wakeup_reopen(struct wakeup *wakeup)
{
	int ends[2], error = open_pipe(ends);

	if (error)
		return error;
	while (atomic_load(&wakeup->writing))
		sched_yield();
	wakeup_close(wakeup);
	use_pipe(wakeup, ends);
	return 0;
}
