/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The instances of epoll, and what they are asked of rsockets.
 *
 * The application may close an epoll descriptor by close(2), and the kernel give its number to
 * another: all epolls have the same inode, by which nothing can be told. So the kernel's epoll of
 * each instance has a descriptor of ours in it, the marker, of which it is asked nothing. That is a
 * socket: the application may close it, too, and no other file has its inode (net/descriptor.h).
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <utlist.h>

#include "net/cause/cause.h"
#include "net/syscalls.h"
#include "verbs/registry.h"
#include "verbs/rsocket/rsocket_calls.h"
#include "verbs/rsocket/rsocket_epoll.h"

static pthread_mutex_t control = PTHREAD_MUTEX_INITIALIZER;

struct marker {
	int fd; /* -1: there was none yet */
	struct descriptor_identity identity;
};

/* Under a lock of its own, a leaf, which a fork takes. */
static struct {
	pthread_mutex_t lock;
	struct rsocket_epoll *list;
	struct marker marker;
} instances = {.lock = PTHREAD_MUTEX_INITIALIZER, .marker = {.fd = -1}};

/* --- forks ----------------------------------------------------------------------------------- */

static void before_fork(void)
{
	pthread_mutex_lock(&instances.lock);
}

static void after_fork_in_parent(void)
{
	pthread_mutex_unlock(&instances.lock);
}

/*
 * The child finds no rsocket of its parent's in them, and ordinary descriptors as ever. The
 * parent's threads may have been in the middle of changing the lists.
 */
static void after_fork_in_child(void)
{
	struct rsocket_epoll *epoll;

	DL_FOREACH (instances.list, epoll) {
		pthread_mutex_init(&epoll->lock, NULL);
		epoll->interests = NULL;
		epoll->waiters = NULL;
		epoll->count = 0;
		epoll->version++;
	}
	pthread_mutex_init(&control, NULL);
	pthread_mutex_unlock(&instances.lock);
}

static struct registry_hooks hooks = {
	.order = FORK_LEAF,
	.before_fork = before_fork,
	.after_fork_in_parent = after_fork_in_parent,
	.after_fork_in_child = after_fork_in_child,
};

/* A child finds it free, whichever thread had it. */
static void lock_control(void)
{
	registry_add_hooks(&hooks);
	pthread_mutex_lock(&control);
}

/* --- interests, all with control and the instance's lock ------------------------------------- */

/* Have the threads that wait look again. */
static void note_change(struct rsocket_epoll *epoll)
{
	struct rsocket_poller *waiter;

	epoll->version++;
	DL_FOREACH (epoll->waiters, waiter)
		rsocket_wake_up(waiter->wake);
}

static void remove_interest(struct rsocket_interest *interest)
{
	struct rsocket_epoll *epoll = interest->epoll;

	DL_DELETE(epoll->interests, interest);
	epoll->count--;
	LL_DELETE2(interest->rs->interests, interest, other);
	free(interest);
	note_change(epoll);
}

/* --- instances ------------------------------------------------------------------------------- */

/* With a reference, or NULL; and the *@marker. */
static struct rsocket_epoll *find(int fd, struct marker *marker)
{
	struct rsocket_epoll *epoll;

	pthread_mutex_lock(&instances.lock);
	DL_SEARCH_SCALAR(instances.list, epoll, fd, fd);
	if (epoll)
		atomic_fetch_add(&epoll->users, 1);
	*marker = instances.marker;
	pthread_mutex_unlock(&instances.lock);
	return epoll;
}

/* Of another file by its number the application would be told nothing any more. */
static bool has_marker(int fd, const struct marker *marker)
{
	struct epoll_event nothing = {};

	return descriptor_is(marker->fd, &marker->identity) &&
	       sys_epoll_ctl(fd, EPOLL_CTL_MOD, marker->fd, &nothing) == 0;
}

/* With instances.lock. Its descriptor, or -1 with errno. */
static int open_marker(void)
{
	struct marker *marker = &instances.marker;

	descriptor_verify(&marker->fd, &marker->identity);
	if (marker->fd >= 0)
		return marker->fd;
	marker->fd = sys_socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (marker->fd >= 0)
		marker->identity = descriptor_identify(marker->fd);
	return marker->fd;
}

/* *@had: it had it already. 0 or an errno. */
static int add_marker(int fd, bool *had)
{
	struct epoll_event nothing = {};
	int marker;

	*had = false;
	pthread_mutex_lock(&instances.lock);
	marker = open_marker();
	pthread_mutex_unlock(&instances.lock);
	if (marker < 0)
		return errno;
	if (sys_epoll_ctl(fd, EPOLL_CTL_ADD, marker, &nothing) == 0)
		return 0;
	*had = errno == EEXIST;
	return *had ? 0 : errno;
}

/* With control. */
static struct rsocket_epoll *create(int fd)
{
	struct rsocket_epoll *epoll = calloc(1, sizeof(*epoll));

	if (!epoll) {
		errno = refuse(ENOMEM, CAUSE_OUT_OF_MEMORY, "for epoll descriptor %d", fd);
		return NULL;
	}
	epoll->fd = fd;
	epoll->version = 1;
	pthread_mutex_init(&epoll->lock, NULL);
	atomic_store(&epoll->users, 2);
	pthread_mutex_lock(&instances.lock);
	DL_APPEND(instances.list, epoll);
	pthread_mutex_unlock(&instances.lock);
	return epoll;
}

/* With control. Calls of other threads that have it find it closed. */
static void forget(struct rsocket_epoll *epoll)
{
	pthread_mutex_lock(&instances.lock);
	DL_DELETE(instances.list, epoll);
	pthread_mutex_unlock(&instances.lock);
	pthread_mutex_lock(&epoll->lock);
	epoll->closed = true;
	while (epoll->interests)
		remove_interest(epoll->interests);
	note_change(epoll);
	pthread_mutex_unlock(&epoll->lock);
	rsocket_epoll_put(epoll);
}

/* With control. */
static struct rsocket_epoll *get_marked(int fd)
{
	struct rsocket_epoll *epoll;
	struct marker marker;
	bool had;
	int error;

	error = add_marker(fd, &had);
	epoll = find(fd, &marker);
	if (epoll && !had) { /* the number is another file's by now */
		forget(epoll);
		rsocket_epoll_put(epoll);
		epoll = NULL;
	}
	if (error)
		errno = error;
	else if (!epoll)
		epoll = create(fd);
	return epoll;
}

struct rsocket_epoll *rsocket_epoll_get(int fd)
{
	struct marker marker;
	struct rsocket_epoll *epoll = find(fd, &marker);

	if (epoll && has_marker(fd, &marker))
		return epoll;
	if (epoll)
		rsocket_epoll_put(epoll);
	lock_control();
	epoll = get_marked(fd);
	pthread_mutex_unlock(&control);
	return epoll;
}

void rsocket_epoll_put(struct rsocket_epoll *epoll)
{
	if (atomic_fetch_sub(&epoll->users, 1) != 1)
		return;
	pthread_mutex_destroy(&epoll->lock);
	free(epoll);
}

void rsocket_epoll_forget_closed(void)
{
	struct rsocket_epoll *epoll, *next;

	lock_control();
	/* Nothing is added or removed but with control. */
	DL_FOREACH_SAFE (instances.list, epoll, next) {
		if (!has_marker(epoll->fd, &instances.marker))
			forget(epoll);
	}
	pthread_mutex_unlock(&control);
}

int rsocket_epoll_close(int fd)
{
	struct rsocket_epoll *epoll;
	struct marker marker;
	bool open;

	lock_control();
	epoll = find(fd, &marker);
	open = epoll && has_marker(fd, &marker);
	if (epoll) {
		forget(epoll);
		rsocket_epoll_put(epoll);
	}
	pthread_mutex_unlock(&control);
	if (!open)
		return EBADF;
	return sys_close(fd) < 0 ? errno : 0;
}

/* --- repoll_ctl(), with control -------------------------------------------------------------- */

static struct rsocket_interest *find_interest(const struct rsocket_epoll *epoll,
					      const struct rsocket *rs)
{
	struct rsocket_interest *interest;

	LL_SEARCH_SCALAR2(rs->interests, interest, epoll, epoll, other);
	return interest;
}

static int add(struct rsocket_epoll *epoll, struct rsocket *rs, const struct epoll_event *event)
{
	struct rsocket_interest *interest;

	if (rs->left_epolls)
		return EBADF;
	interest = calloc(1, sizeof(*interest));
	if (!interest)
		return refuse(ENOMEM, CAUSE_OUT_OF_MEMORY, "for epoll descriptor %d", epoll->fd);
	interest->epoll = epoll;
	interest->rs = rs;
	interest->event = *event;
	LL_PREPEND2(rs->interests, interest, other);
	pthread_mutex_lock(&epoll->lock);
	DL_APPEND(epoll->interests, interest);
	epoll->count++;
	note_change(epoll);
	pthread_mutex_unlock(&epoll->lock);
	return 0;
}

/* It is told anew, as if it hadn't been. */
static int modify(struct rsocket_interest *interest, const struct epoll_event *event)
{
	struct rsocket_epoll *epoll = interest->epoll;

	if (interest->event.events & EPOLLEXCLUSIVE)
		return EINVAL;
	pthread_mutex_lock(&epoll->lock);
	interest->event = *event;
	interest->spent = false;
	interest->told = 0;
	note_change(epoll);
	pthread_mutex_unlock(&epoll->lock);
	return 0;
}

static int drop(struct rsocket_interest *interest)
{
	struct rsocket_epoll *epoll = interest->epoll;

	pthread_mutex_lock(&epoll->lock);
	remove_interest(interest);
	pthread_mutex_unlock(&epoll->lock);
	return 0;
}

#define WITH_EXCLUSIVE                                                                             \
	(EPOLLIN | EPOLLOUT | EPOLLERR | EPOLLHUP | EPOLLWAKEUP | EPOLLET | EPOLLEXCLUSIVE)

/* In the kernel's order. */
static int change(struct rsocket_epoll *epoll, int operation, struct rsocket *rs,
		  const struct epoll_event *event)
{
	struct rsocket_interest *interest = find_interest(epoll, rs);

	if (operation != EPOLL_CTL_DEL && event->events & EPOLLEXCLUSIVE &&
	    (operation != EPOLL_CTL_ADD || event->events & ~WITH_EXCLUSIVE))
		return EINVAL;
	if (epoll->closed)
		return EBADF;
	switch (operation) {
	case EPOLL_CTL_ADD:
		return interest ? EEXIST : add(epoll, rs, event);
	case EPOLL_CTL_MOD:
		return interest ? modify(interest, event) : ENOENT;
	case EPOLL_CTL_DEL:
		return interest ? drop(interest) : ENOENT;
	default:
		return EINVAL;
	}
}

static int change_interest(int epfd, int operation, struct rsocket *rs,
			   const struct epoll_event *event)
{
	struct rsocket_epoll *epoll = rsocket_epoll_get(epfd);
	int error;

	if (!epoll)
		return errno;
	lock_control();
	error = change(epoll, operation, rs, event);
	pthread_mutex_unlock(&control);
	rsocket_epoll_put(epoll);
	return error;
}

int urxe_repoll_ctl(int epfd, int operation, int fd, struct epoll_event *event)
{
	const int before = errno;
	struct rsocket *rs;
	int error;

	if (operation != EPOLL_CTL_DEL && !event)
		return rsocket_return(EFAULT);
	rs = rsocket_get(fd);
	errno = before;
	if (!rs)
		return rsocket_is_inherited(fd) ? rsocket_return(EBADF)
						: sys_epoll_ctl(epfd, operation, fd, event);
	error = change_interest(epfd, operation, rs, event);
	rsocket_put(rs);
	errno = before;
	return rsocket_return(error);
}

void rsocket_leave_epolls(struct rsocket *rs)
{
	lock_control();
	rs->left_epolls = true;
	while (rs->interests)
		drop(rs->interests);
	pthread_mutex_unlock(&control);
}
