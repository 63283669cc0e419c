/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The end of a connection: rshutdown() and rclose(), which wait until the peer has all bytes. A
 * thread can't be cancelled meanwhile: a connection isn't left half ended.
 */
#include <errno.h>

#include "net/clock.h"
#include "net/syscalls.h"
#include "verbs/rsocket/rsocket.h"
#include "verbs/rsocket/rsocket_calls.h"
#include "verbs/rsocket/rsocket_datagram.h"
#include "verbs/rsocket/rsocket_epoll.h"

/* All that was sent has arrived, or never will; or the time to linger is over. */
static void finish_sending(struct rsocket *rs, uint64_t deadline)
{
	while ((rs->out.data_under_way || rs->out.control_under_way) && !rs->peer_left &&
	       rsocket_wait(rs, deadline) != ETIMEDOUT)
		;
}

/*
 * The peer knows of no connection, and so of no end of it, before it has our answer: its
 * application has to ask for it, which may take long. When the time to linger is over it hears of
 * no connection at all.
 */
static void await_acceptance(struct rsocket *rs, uint64_t deadline)
{
	while (rs->state == RSOCKET_ACCEPTING && rsocket_wait(rs, deadline) != ETIMEDOUT)
		;
}

/* Of a socket that has no connection yet: it listens no more, or gives up. */
static int shutdown_early(struct rsocket *rs, int how)
{
	int error = how == SHUT_WR && rs->state == RSOCKET_LISTENING ? 0 : rsocket_renew(rs);

	rsocket_interrupt(rs);
	return error;
}

static int shutdown_locked(struct rsocket *rs, int how)
{
	if (how != SHUT_RD && how != SHUT_WR && how != SHUT_RDWR)
		return EINVAL;
	rsocket_progress(rs);
	if (rs->state >= RSOCKET_LISTENING && rs->state < RSOCKET_ACCEPTING)
		return shutdown_early(rs, how);
	await_acceptance(rs, TIME_NEVER);
	if (rs->state != RSOCKET_CONNECTED && rs->state != RSOCKET_DISCONNECTED)
		return ENOTCONN;
	rsocket_stream_end(rs, how != SHUT_RD, how != SHUT_WR, TIME_NEVER);
	if (rs->state == RSOCKET_DISCONNECTED)
		finish_sending(rs, TIME_NEVER);
	rsocket_interrupt(rs);
	return 0;
}

int urxe_rshutdown(int socket, int how)
{
	struct rsocket *rs = rsocket_get(socket);
	int error, state;

	if (!rs)
		return -1;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	if (rs->datagram) {
		error = rsocket_datagram_shutdown(rs, how);
	} else {
		pthread_mutex_lock(&rs->lock);
		error = shutdown_locked(rs, how);
		pthread_mutex_unlock(&rs->lock);
	}
	rsocket_put(rs);
	pthread_setcancelstate(state, NULL);
	return rsocket_return(error);
}

static void disconnect(struct rsocket *rs)
{
	const struct linger *linger = &rs->options.linger;
	uint64_t deadline = TIME_NEVER;

	if (linger->l_onoff)
		deadline = clock_now() + (uint64_t)(unsigned int)linger->l_linger * NS_PER_S;
	await_acceptance(rs, deadline);
	if (rs->state != RSOCKET_CONNECTED && rs->state != RSOCKET_DISCONNECTED)
		return;
	rsocket_take_all(rs); /* if the peer has left, it answers no message any more */
	rsocket_stream_end(rs, true, true, deadline);
	finish_sending(rs, deadline);
	rdma_disconnect(rs->id);
}

/*
 * Calls of other threads that wait are woken, and the socket goes with the last of them. Of a
 * socket that was inherited from the parent only the descriptor is closed. An epoll descriptor may
 * be closed by it, too.
 */
int urxe_rclose(int socket)
{
	struct rsocket *rs = rsocket_take(socket);
	int state;

	if (!rs)
		return rsocket_return(rsocket_epoll_close(socket));
	if (rs->inherited)
		return sys_close(rs->fd);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	rsocket_leave_epolls(rs);
	pthread_mutex_lock(&rs->lock);
	rs->closed = true;
	rsocket_keepalive_stop(rs);
	if (!rs->datagram)
		disconnect(rs);
	rsocket_interrupt(rs);
	pthread_mutex_unlock(&rs->lock);
	rsocket_put(rs);
	pthread_setcancelstate(state, NULL);
	return 0;
}
