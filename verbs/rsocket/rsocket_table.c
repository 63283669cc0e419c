/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which descriptors are rsockets. Called by every call with a descriptor. A lock of its own, held
 * for a look: the array grows under it. A fork takes keepalive.lock before it.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "net/cause/cause.h"
#include "verbs/registry.h"
#include "verbs/rsocket/rsocket.h"

static struct {
	pthread_mutex_t lock;
	struct rsocket **entries;
	int size;
} table = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* With table.lock. */
static bool reserve(int fd)
{
	int size = table.size ? table.size : 64;
	struct rsocket **entries;

	while (size <= fd)
		size *= 2;
	if (size == table.size)
		return true;
	entries = realloc(table.entries, size * sizeof(*entries));
	if (!entries)
		return false;
	memset(entries + table.size, 0, (size - table.size) * sizeof(*entries));
	table.entries = entries;
	table.size = size;
	return true;
}

/* --- forks ----------------------------------------------------------------------------------- */

static void before_fork(void)
{
	rsocket_keepalive_before_fork();
	pthread_mutex_lock(&table.lock);
}

static void after_fork_in_parent(void)
{
	pthread_mutex_unlock(&table.lock);
	rsocket_keepalive_after_fork(false);
}

/* What the child finds are its parent's, whose threads may have held their locks. */
static void after_fork_in_child(void)
{
	for (int fd = 0; fd < table.size; fd++) {
		struct rsocket *rs = table.entries[fd];

		if (!rs || rs->inherited)
			continue;
		rs->inherited = true;
		rs->identity = descriptor_identify(fd);
	}
	pthread_mutex_unlock(&table.lock);
	rsocket_keepalive_after_fork(true);
}

static struct registry_hooks hooks = {
	.order = FORK_LEAF,
	.before_fork = before_fork,
	.after_fork_in_parent = after_fork_in_parent,
	.after_fork_in_child = after_fork_in_child,
};

/* --- entries --------------------------------------------------------------------------------- */

int rsocket_enter(struct rsocket *rs)
{
	bool reserved;

	registry_add_hooks(&hooks);
	pthread_mutex_lock(&table.lock);
	reserved = reserve(rs->fd);
	if (reserved) {
		atomic_store(&rs->users, 1);
		table.entries[rs->fd] = rs;
	}
	pthread_mutex_unlock(&table.lock);
	return reserved ? 0 : refuse(ENOMEM, CAUSE_OUT_OF_MEMORY, "for rsocket %d", rs->fd);
}

/* With table.lock. */
static struct rsocket *entry_at(int fd)
{
	return fd >= 0 && fd < table.size ? table.entries[fd] : NULL;
}

static struct rsocket *find_rsocket(int fd, bool take)
{
	struct rsocket *rs;

	pthread_mutex_lock(&table.lock);
	rs = entry_at(fd);
	if (rs && rs->inherited && !take)
		rs = NULL;
	if (rs)
		atomic_fetch_add(&rs->users, 1);
	if (rs && take) {
		table.entries[fd] = NULL;
		atomic_fetch_sub(&rs->users, 1); /* the table's */
	}
	pthread_mutex_unlock(&table.lock);
	if (!rs)
		errno = EBADF;
	return rs;
}

struct rsocket *rsocket_get(int fd)
{
	return find_rsocket(fd, false);
}

struct rsocket *rsocket_take(int fd)
{
	return find_rsocket(fd, true);
}

/* The application may have closed it by its number, which is another file's then. */
bool rsocket_is_inherited(int fd)
{
	const struct rsocket *rs;
	bool is_so;

	pthread_mutex_lock(&table.lock);
	rs = entry_at(fd);
	is_so = rs && rs->inherited && descriptor_is(fd, &rs->identity);
	pthread_mutex_unlock(&table.lock);
	return is_so;
}

void rsocket_put(struct rsocket *rs)
{
	int error = errno;

	if (atomic_fetch_sub(&rs->users, 1) == 1)
		rsocket_free(rs);
	errno = error;
}

void rsocket_cleanup_put(void *rs)
{
	rsocket_put(rs);
}

void rsocket_cleanup_unlock(void *mutex)
{
	pthread_mutex_unlock(mutex);
}

int rsocket_return(int error)
{
	if (!error)
		return 0;
	errno = error;
	return -1;
}
