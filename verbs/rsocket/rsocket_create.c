/* SPDX-License-Identifier: BSD-2-Clause */
/* An rsocket is made, by rsocket() or for a connection that is accepted, and freed. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "net/cause/cause.h"
#include "verbs/registry.h"
#include "verbs/rsocket/rsocket.h"
#include "verbs/rsocket/rsocket_calls.h"
#include "verbs/rsocket/rsocket_datagram.h"

struct rsocket *rsocket_allocate(int domain, int type)
{
	struct rsocket *rs = calloc(1, sizeof(*rs));
	pthread_condattr_t clock;

	if (!rs) {
		refuse(ENOMEM, CAUSE_OUT_OF_MEMORY, "for an rsocket");
		return NULL;
	}
	rs->fd = rs->wake.fd = -1;
	rs->domain = domain;
	rs->type = type;
	pthread_mutex_init(&rs->send_lock, NULL);
	pthread_mutex_init(&rs->receive_lock, NULL);
	pthread_mutex_init(&rs->lock, NULL);
	pthread_condattr_init(&clock);
	pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
	pthread_cond_init(&rs->changed, &clock);
	pthread_condattr_destroy(&clock);
	rsocket_default_options(&rs->options);
	return rs;
}

void rsocket_free(struct rsocket *rs)
{
	if (rs->datagram)
		rsocket_datagram_destroy(rs);
	rsocket_stream_destroy(rs);
	if (rs->id)
		rdma_destroy_id(rs->id);
	if (rs->channel)
		rdma_destroy_event_channel(rs->channel);
	rsocket_wake_close(&rs->wake);
	pthread_cond_destroy(&rs->changed);
	pthread_mutex_destroy(&rs->lock);
	pthread_mutex_destroy(&rs->receive_lock);
	pthread_mutex_destroy(&rs->send_lock);
	free(rs->route);
	free(rs);
}

int rsocket_open_channel(struct rsocket *rs)
{
	rs->channel = rdma_create_event_channel();
	if (!rs->channel)
		return errno;
	rs->fd = rs->channel->fd;
	return fcntl(rs->fd, F_SETFL, O_NONBLOCK) < 0 ? errno : 0;
}

static int open_stream(struct rsocket *rs)
{
	int error = rsocket_open_channel(rs);

	if (!error && rdma_create_id(rs->channel, &rs->id, rs, RDMA_PS_TCP) != 0)
		error = errno;
	return error;
}

static int check_kind(int domain, int type, int protocol)
{
	int kind = type & ~(SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (!rsocket_address_size(domain) || (domain == AF_IB && kind == SOCK_DGRAM))
		return EAFNOSUPPORT;
	if (kind != SOCK_STREAM && kind != SOCK_DGRAM)
		return EPROTONOSUPPORT;
	/*
	 * With RDMAV_FORK_SAFE=1 librspreload makes a TCP socket, which becomes an rsocket in the
	 * child, of a type without flags only. One with flags has to stay TCP's, as it does with
	 * librdmacm, which refuses flags: the child would find an rsocket of its parent closed.
	 */
	if (kind != type && registry_configuration()->forks_rsockets)
		return EPROTONOSUPPORT;
	if (protocol && protocol != (kind == SOCK_STREAM ? IPPROTO_TCP : IPPROTO_UDP))
		return EPROTONOSUPPORT;
	return 0;
}

int urxe_rsocket(int domain, int type, int protocol)
{
	int error = check_kind(domain, type, protocol);
	struct rsocket *rs;

	if (error)
		return rsocket_return(error);
	rs = rsocket_allocate(domain, type & ~(SOCK_NONBLOCK | SOCK_CLOEXEC));
	if (!rs)
		return rsocket_return(ENOMEM);
	rs->nonblocking = type & SOCK_NONBLOCK;
	error = rs->type == SOCK_STREAM ? open_stream(rs) : rsocket_datagram_open(rs);
	if (!error)
		error = rsocket_enter(rs);
	if (error) {
		rsocket_free(rs);
		return rsocket_return(error);
	}
	return rs->fd;
}
