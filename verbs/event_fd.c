/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/event_fd.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utlist.h>

#include "net/log.h"

#define CLOSED (-1) /* event_fd.fd */

/* --- the descriptor -------------------------------------------------------------- */

int readable_open(void)
{
	return eventfd(0, EFD_CLOEXEC);
}

/*
 * Not the C library's functions, which are cancellation points: a thread that is
 * cancelled in one would end holding the lock of the queue.
 */
void readable_set(int fd)
{
	uint64_t one = 1;

	if (syscall(SYS_write, fd, &one, sizeof(one)) != sizeof(one))
		log_error("an event could not be signalled: errno %d", errno);
}

void readable_clear(int fd)
{
	uint64_t count;

	/* Only the queue reads the descriptor and it is known to be set: this doesn't wait. */
	if (syscall(SYS_read, fd, &count, sizeof(count)) != sizeof(count))
		log_debug("the application has read the event descriptor");
}

int readable_wait(int fd)
{
	struct pollfd readable = {.fd = fd, .events = POLLIN};
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0)
		return -1;
	if (flags & O_NONBLOCK) {
		errno = EAGAIN;
		return -1;
	}
	return poll(&readable, 1, -1) < 0 ? -1 : 0;
}

/* --- the queue ------------------------------------------------------------------- */

int event_fd_open(struct event_fd *events)
{
	events->fd = readable_open();
	if (events->fd < 0)
		return errno;
	events->head = NULL;
	pthread_mutex_init(&events->lock, NULL);
	return 0;
}

void event_fd_close(struct event_fd *events)
{
	struct event_record *record, *next;
	int fd = events->fd;

	pthread_mutex_lock(&events->lock);
	DL_FOREACH_SAFE (events->head, record, next)
		free(record);
	events->head = NULL;
	events->fd = CLOSED;
	pthread_mutex_unlock(&events->lock);
	close(fd);
}

void event_fd_destroy(struct event_fd *events)
{
	pthread_mutex_destroy(&events->lock);
}

/* Returns whether the queue took @record: it doesn't when it is closed. */
static bool event_fd_append(struct event_fd *events, struct event_record *record)
{
	bool open, first;

	pthread_mutex_lock(&events->lock);
	open = events->fd != CLOSED;
	if (open) {
		first = !events->head;
		DL_APPEND(events->head, record);
		if (first)
			readable_set(events->fd);
	}
	pthread_mutex_unlock(&events->lock);
	return open;
}

void event_fd_push(struct event_fd *events, void *element, int type)
{
	struct event_record *record = malloc(sizeof(*record));

	if (!record) {
		log_error("out of memory: an event is lost");
		return;
	}
	record->element = element;
	record->type = type;
	if (!event_fd_append(events, record))
		free(record);
}

static bool event_fd_take_one(struct event_fd *events,
			      void (*taken)(const struct event_record *record),
			      struct event_record *record)
{
	struct event_record *oldest;

	pthread_mutex_lock(&events->lock);
	oldest = events->head;
	if (oldest) {
		DL_DELETE(events->head, oldest);
		if (!events->head)
			readable_clear(events->fd);
		*record = *oldest;
		taken(record);
	}
	pthread_mutex_unlock(&events->lock);
	free(oldest);
	return oldest;
}

int event_fd_pop(struct event_fd *events, void (*taken)(const struct event_record *record),
		 struct event_record *record)
{
	while (!event_fd_take_one(events, taken, record)) {
		if (readable_wait(events->fd) < 0)
			return -1;
	}
	return 0;
}

void event_fd_drop(struct event_fd *events, const void *element)
{
	struct event_record *record, *next;
	bool held;

	pthread_mutex_lock(&events->lock);
	held = events->head;
	DL_FOREACH_SAFE (events->head, record, next) {
		if (record->element != element)
			continue;
		DL_DELETE(events->head, record);
		free(record);
	}
	if (held && !events->head)
		readable_clear(events->fd);
	pthread_mutex_unlock(&events->lock);
}
