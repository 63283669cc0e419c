/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/udp/backlog.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "net/tuning.h"
#include "net/udp/sock_diag.h"
#include "net/wire/wire.h"

/*
 * Among sockets that share a port the kernel looks one up by a hash of the remote
 * address and port: one port or another leads to the socket in question, and does so
 * until one comes or goes.
 */
#define CACHE 64
#define TRIES 256

struct cached {
	uint64_t cookie;
	uint16_t port;
	uint32_t unread; /* when it was asked for last */
	uint64_t read;	 /* that became less by; of other sockets, too, that had this place */
};

struct backlog {
	pthread_mutex_t lock; /* cache */
	struct sock_diag *diag;
	struct cached cache[CACHE];
};

struct backlog *backlog_create(struct sock_diag *diag)
{
	struct backlog *backlog = calloc(1, sizeof(*backlog));

	if (!backlog)
		return NULL;
	backlog->diag = diag;
	pthread_mutex_init(&backlog->lock, NULL);
	return backlog;
}

void backlog_destroy(struct backlog *backlog)
{
	if (!backlog)
		return;
	pthread_mutex_destroy(&backlog->lock);
	free(backlog);
}

/* A wildcard socket isn't one of urxe. */
static bool ask(struct backlog *backlog, const struct backlog_socket *socket, uint16_t port,
		struct sock_diag_socket *found)
{
	return sock_diag_find(backlog->diag, socket->gid, ROCE_V2_UDP_PORT, NULL, port,
			      socket->interface, found) == 0 &&
	       !found->wildcard && found->receive_buffer;
}

/* With the lock. */
static struct cached *cached_get(struct backlog *backlog, uint64_t cookie)
{
	struct cached *cached = &backlog->cache[cookie % CACHE];

	if (cached->cookie != cookie)
		*cached = (struct cached){.cookie = cookie, .read = cached->read};
	return cached;
}

/* The one with its cookie, if the kernel can be made to show it. */
static bool search(struct backlog *backlog, const struct backlog_socket *socket,
		   struct sock_diag_socket *found)
{
	struct cached *cached = cached_get(backlog, socket->cookie);

	for (int i = 0; i < TRIES; i++) {
		if (!ask(backlog, socket, cached->port, found))
			return false;
		if (found->cookie == socket->cookie)
			return true;
		cached->port++;
	}
	return false;
}

static uint32_t space_of(const struct sock_diag_socket *found)
{
	uint32_t size = found->receive_buffer < BACKLOG_MAX ? found->receive_buffer : BACKLOG_MAX;

	return found->received < size ? size - found->received : 0;
}

static bool find_locked(struct backlog *backlog, const struct backlog_socket *socket,
			struct sock_diag_socket *found)
{
	return socket->cookie ? search(backlog, socket, found) : ask(backlog, socket, 0, found);
}

static bool find_socket(struct backlog *backlog, const struct backlog_socket *socket,
			struct sock_diag_socket *found)
{
	bool known;

	pthread_mutex_lock(&backlog->lock);
	known = find_locked(backlog, socket, found);
	pthread_mutex_unlock(&backlog->lock);
	return known;
}

uint32_t backlog_rcvbuf_space(struct backlog *backlog, const struct backlog_socket *socket)
{
	struct sock_diag_socket found;

	return find_socket(backlog, socket, &found) ? space_of(&found) / BACKLOG_CHARGE
						    : BACKLOG_UNKNOWN;
}

static void note_unread(struct cached *cached, uint32_t unread)
{
	if (unread < cached->unread)
		cached->read += cached->unread - unread;
	cached->unread = unread;
}

uint32_t backlog_unread(struct backlog *backlog, const struct backlog_socket *socket,
			uint64_t *read)
{
	struct sock_diag_socket found;
	struct cached *cached;
	uint32_t unread = 0;

	*read = 0;
	pthread_mutex_lock(&backlog->lock);
	if (find_locked(backlog, socket, &found)) {
		unread = found.received;
		cached = cached_get(backlog, found.cookie);
		note_unread(cached, unread);
		*read = cached->read;
	}
	pthread_mutex_unlock(&backlog->lock);
	return unread;
}

bool backlog_received(struct backlog *backlog, const struct backlog_socket *socket,
		      uint32_t *unread)
{
	struct sock_diag_socket found;

	if (!find_socket(backlog, socket, &found))
		return false;
	*unread = found.received;
	return true;
}
