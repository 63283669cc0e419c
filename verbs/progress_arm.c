/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Descriptors that end the progress thread's sleep from the moment when another thread arms them.
 * Where an application begins to wait without polling, its sockets shall wake the thread. To wake
 * the thread for that, so that it sleeps on them itself, would cost a CPU that the other threads
 * need, and the thread its share of that CPU before a packet comes. So it sleeps on an epoll, too,
 * which has all descriptors, disabled (EPOLLONESHOT), and the application's thread enables its own.
 *
 * There is one only while a client is neglected, for it costs something with each packet. The
 * progress thread alone opens and closes it. All with progress.lock, which other threads only try
 * to take.
 */
#include <utlist.h>

#include "net/syscalls.h"
#include "verbs/progress_internal.h"

static bool control(const struct progress *progress, int operation, int fd, uint32_t events)
{
	struct epoll_event event = {.events = events | EPOLLONESHOT};

	return sys_epoll_ctl(progress->armed_set, operation, fd, &event) == 0;
}

static bool control_all(const struct progress_client *client, int operation, uint32_t events)
{
	for (unsigned int i = 0; i < client->fd_count; i++)
		if (!control(client->progress, operation, client->fds[i], events))
			return false;
	return true;
}

/*
 * The application may have closed it, and what it opened next has the number (net/descriptor.h):
 * that doesn't know the pipe, which is in ours so that this can be told.
 */
static bool is_ours(const struct progress *progress)
{
	return control(progress, EPOLL_CTL_MOD, progress->wakeup.reader, 0);
}

void progress_arming_close(struct progress *progress)
{
	if (progress->armed_set >= 0 && is_ours(progress))
		sys_close(progress->armed_set);
	progress->armed_set = -1;
}

static void open_set(struct progress *progress)
{
	struct progress_client *client;

	progress->armed_set_stale = false;
	progress->armed_set = sys_epoll_create(EPOLL_CLOEXEC);
	if (progress->armed_set < 0)
		return;
	control(progress, EPOLL_CTL_ADD, progress->wakeup.reader, 0);
	DL_FOREACH (progress->clients, client)
		control_all(client, EPOLL_CTL_ADD, 0);
}

int progress_arming_begin(struct progress *progress, bool wanted)
{
	if (!wanted || progress->armed_set_stale)
		progress_arming_close(progress);
	if (wanted && progress->armed_set < 0)
		open_set(progress);
	progress->arming = progress->armed_set >= 0;
	return progress->armed_set;
}

void progress_arming_end(struct progress *progress, short events)
{
	struct epoll_event event;
	struct progress_client *client;
	bool expected = !events;

	progress->arming = false;
	DL_FOREACH (progress->clients, client) {
		if (!client->armed)
			continue;
		client->armed = false;
		client->ready |= events != 0;
		expected = true;
		if (!control_all(client, EPOLL_CTL_MOD, 0))
			progress->armed_set_stale = true;
	}
	/* An error of a socket's, which can't be disabled but by taking it; or it isn't ours. */
	if (!expected && (!is_ours(progress) || sys_epoll_look(progress->armed_set, &event, 1) < 0))
		progress->armed_set = -1;
}

bool progress_arm(struct progress_client *client)
{
	struct progress *progress = client->progress;
	bool armed = false;

	if (pthread_mutex_trylock(&progress->lock) != 0)
		return false;
	if (progress->arming && !client->watched && !client->leaving) {
		client->armed = true; /* even in part it is to be disabled again */
		armed = control_all(client, EPOLL_CTL_MOD, EPOLLIN);
	}
	pthread_mutex_unlock(&progress->lock);
	return armed;
}
