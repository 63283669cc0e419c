/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/event_fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <utlist.h>

#include "net/log.h"
#include "net/syscalls.h"

#define CLOSED (-1) /* readable.fd */

/* --- the descriptor -------------------------------------------------------------- */

int readable_open(struct readable *readable)
{
	readable->fd = descriptor_above_standard(eventfd(0, EFD_CLOEXEC));
	if (readable->fd < 0)
		return errno;
	readable->identity = descriptor_identify(readable->fd);
	atomic_init(&readable->any, false);
	readable->set = false;
	readable->lookers = 0;
	sem_init(&readable->look, 0, 0);
	atomic_init(&readable->waiting, 0);
	readable->wait = NULL;
	return 0;
}

void readable_close(struct readable *readable)
{
	int fd = readable->fd;

	readable->fd = CLOSED;
	descriptor_close(fd, &readable->identity);
}

void readable_destroy(struct readable *readable)
{
	sem_destroy(&readable->look);
}

/* The application may have closed it, and the number may be a file's of its own. */
static bool readable_is_ours(const struct readable *readable)
{
	return descriptor_is(readable->fd, &readable->identity);
}

static void readable_set(const struct readable *readable)
{
	uint64_t one = 1;

	if (!readable_is_ours(readable))
		log_debug("the application has closed the descriptor of its events");
	else if (sys_write(readable->fd, &one, sizeof(one)) != sizeof(one))
		log_error("an event could not be signalled: errno %d", errno);
}

static void readable_clear(const struct readable *readable)
{
	uint64_t count;

	/* Only the queue reads the descriptor and it is known to be set: this doesn't wait. */
	if (!readable_is_ours(readable) ||
	    sys_read(readable->fd, &count, sizeof(count)) != sizeof(count))
		log_debug("the application has read the event descriptor");
}

void readable_inherit(struct readable *readable)
{
	int fd = eventfd(1, EFD_CLOEXEC);

	if (fd >= 0 && readable_is_ours(readable))
		dup3(fd, readable->fd, O_CLOEXEC);
	if (fd >= 0)
		sys_close(fd);
}

static void wake_one(struct readable *readable)
{
	int value;

	if (sem_getvalue(&readable->look, &value) == 0 && value == 0)
		sem_post(&readable->look);
}

static void update_descriptor(struct readable *readable)
{
	bool wanted = readable->any && !readable->lookers;

	if (wanted && !readable->set)
		readable_set(readable);
	else if (!wanted && readable->set)
		readable_clear(readable);
	readable->set = wanted;
}

/* As at the kernel's descriptors, a thread that waits for edges (EPOLLET) gets one per event. */
void readable_added(struct readable *readable)
{
	bool told = readable->set;

	readable->any = true;
	update_descriptor(readable);
	if (told)
		readable_set(readable);
	wake_one(readable);
}

/* What is left is for another thread, which the value 1 may not have woken. */
void readable_removed(struct readable *readable, bool last)
{
	readable->any = !last;
	update_descriptor(readable);
	if (!last)
		wake_one(readable);
}

static void stop_waiting(void *readable)
{
	atomic_fetch_sub(&((struct readable *)readable)->waiting, 1);
}

int readable_wait(struct readable *readable)
{
	int flags = readable_is_ours(readable) ? fcntl(readable->fd, F_GETFL) : -1, result;

	if (flags < 0) {
		errno = EBADF;
		return -1;
	}
	if (flags & O_NONBLOCK) {
		errno = EAGAIN;
		return -1;
	}
	atomic_fetch_add(&readable->waiting, 1);
	pthread_cleanup_push(stop_waiting, readable);
	result = readable->wait ? readable->wait(readable) : sem_wait(&readable->look);
	pthread_cleanup_pop(1);
	return result;
}

/* --- the queue ------------------------------------------------------------------- */

int event_fd_open(struct event_fd *events)
{
	int error = readable_open(&events->readable);

	if (error)
		return error;
	events->head = NULL;
	events->ended = false;
	for (unsigned int i = 0; i < EVENT_FD_RESERVE; i++)
		events->reserve[i] = (struct event_record){.embedded = true};
	pthread_mutex_init(&events->lock, NULL);
	return 0;
}

static void record_dispose(struct event_record *record)
{
	record->count = 0;
	if (!record->embedded)
		free(record);
}

void event_fd_end(struct event_fd *events)
{
	pthread_mutex_lock(&events->lock);
	if (events->readable.fd != CLOSED) {
		events->ended = true;
		readable_added(&events->readable);
	}
	pthread_mutex_unlock(&events->lock);
}

void event_fd_close(struct event_fd *events)
{
	struct event_record *record, *next;

	pthread_mutex_lock(&events->lock);
	DL_FOREACH_SAFE (events->head, record, next)
		record_dispose(record);
	events->head = NULL;
	readable_close(&events->readable);
	pthread_mutex_unlock(&events->lock);
}

bool event_fd_destroy(struct event_fd *events)
{
	static _Atomic(struct event_fd *) kept; /* so that it is no leak */

	if (atomic_load(&events->readable.waiting)) {
		events->kept = atomic_exchange(&kept, events);
		return false;
	}
	readable_destroy(&events->readable);
	pthread_mutex_destroy(&events->lock);
	return true;
}

/* With the lock. */
static void event_fd_append(struct event_fd *events, struct event_record *record)
{
	if (record->count++ == 0)
		DL_APPEND(events->head, record);
	readable_added(&events->readable);
}

static struct event_record *record_of_reserve(struct event_fd *events)
{
	for (unsigned int i = 0; i < EVENT_FD_RESERVE; i++) {
		if (!events->reserve[i].count)
			return &events->reserve[i];
	}
	log_error("out of memory: an event is lost");
	return NULL;
}

void event_fd_push(struct event_fd *events, void *element, int type)
{
	struct event_record *record = calloc(1, sizeof(*record)), *unused = record;

	pthread_mutex_lock(&events->lock);
	if (events->readable.fd != CLOSED) {
		unused = NULL;
		if (!record)
			record = record_of_reserve(events);
		if (record) {
			record->element = element;
			record->type = type;
			event_fd_append(events, record);
		}
	}
	pthread_mutex_unlock(&events->lock);
	free(unused);
}

void event_fd_push_embedded(struct event_fd *events, struct event_record *record)
{
	pthread_mutex_lock(&events->lock);
	if (events->readable.fd != CLOSED)
		event_fd_append(events, record);
	pthread_mutex_unlock(&events->lock);
}

/* One is gone, the last one or not: that there will be no other has to be told to all. */
static void event_fd_removed(struct event_fd *events)
{
	readable_removed(&events->readable, !events->head && !events->ended);
}

/* The oldest event is taken; what its object has raised since comes after the others. */
static void event_fd_take_off(struct event_fd *events, struct event_record *record)
{
	DL_DELETE(events->head, record);
	if (--record->count > 0)
		DL_APPEND(events->head, record);
	event_fd_removed(events);
}

bool event_fd_take(struct event_fd *events, void (*taken)(const struct event_record *record),
		   struct event_record *record)
{
	struct event_record *oldest, *allocated = NULL;

	pthread_mutex_lock(&events->lock);
	oldest = events->head;
	if (oldest) {
		event_fd_take_off(events, oldest);
		*record = *oldest;
		taken(record);
		if (!oldest->embedded)
			allocated = oldest;
	}
	pthread_mutex_unlock(&events->lock);
	free(allocated);
	return oldest;
}

/* Of the threads that wait each wakes the next one. */
bool event_fd_has_ended(struct event_fd *events)
{
	bool ended;

	pthread_mutex_lock(&events->lock);
	ended = events->ended && !events->head && events->readable.fd != CLOSED;
	if (ended)
		event_fd_removed(events);
	pthread_mutex_unlock(&events->lock);
	if (ended)
		errno = EIO;
	return ended;
}

int event_fd_pop(struct event_fd *events, void (*taken)(const struct event_record *record),
		 struct event_record *record)
{
	while (!event_fd_take(events, taken, record)) {
		if (event_fd_has_ended(events))
			return -1;
		if (readable_wait(&events->readable) < 0)
			return -1;
	}
	return 0;
}

void event_fd_look(struct event_fd *events, bool begins)
{
	pthread_mutex_lock(&events->lock);
	events->readable.lookers += begins ? 1 : -1;
	update_descriptor(&events->readable);
	pthread_mutex_unlock(&events->lock);
}

void event_fd_drop(struct event_fd *events, const void *element)
{
	struct event_record *record, *next;

	pthread_mutex_lock(&events->lock);
	DL_FOREACH_SAFE (events->head, record, next) {
		if (record->element != element)
			continue;
		DL_DELETE(events->head, record);
		event_fd_removed(events);
		record_dispose(record);
	}
	pthread_mutex_unlock(&events->lock);
}
