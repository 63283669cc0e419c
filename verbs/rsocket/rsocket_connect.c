/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An rsocket on its way to a connection: rdma_cm's calls and events. A connection is made in steps,
 * each of which an event begins; whichever call comes next takes the events, so that a non-blocking
 * rsocket that is never polled doesn't connect, as in librdmacm.
 */
#include <errno.h>
#include <string.h>

#include "net/clock.h"
#include "verbs/rsocket/rsocket.h"
#include "verbs/rsocket/rsocket_calls.h"
#include "verbs/rsocket/rsocket_datagram.h"

/* --- events ---------------------------------------------------------------------------------- */

bool rsocket_is_opening(const struct rsocket *rs)
{
	return rs->state >= RSOCKET_RESOLVING_ADDRESS && rs->state <= RSOCKET_ACCEPTING;
}

static void fail(struct rsocket *rs, int error)
{
	rs->state = RSOCKET_FAILED;
	rs->error = error;
}

static struct rdma_conn_param parameters(const struct rsocket_hello *hello)
{
	return (struct rdma_conn_param){
		.private_data = hello,
		.private_data_len = sizeof(*hello),
		.flow_control = 1,
		.retry_count = 7,
		.rnr_retry_count = 7,
	};
}

/* The device is known: the queue pair can be made, and the peer told of its buffers. */
static int resolved(struct rsocket *rs)
{
	struct rdma_conn_param param;
	struct rsocket_hello hello;
	int error = rsocket_stream_create(rs);

	if (error)
		return error;
	rsocket_stream_hello(rs, &hello);
	param = parameters(&hello);
	return rdma_connect(rs->id, &param) < 0 ? errno : 0;
}

static int address_resolved(struct rsocket *rs, const struct rdma_cm_event *event)
{
	rs->state = RSOCKET_RESOLVING_ROUTE;
	return rsocket_route_resolve(rs);
}

static int route_resolved(struct rsocket *rs, const struct rdma_cm_event *event)
{
	rs->state = RSOCKET_CONNECTING;
	return resolved(rs);
}

static int established(struct rsocket *rs, const struct rdma_cm_event *event)
{
	int error = 0;

	if (rs->state == RSOCKET_CONNECTING)
		error = rsocket_stream_greet(rs, event->param.conn.private_data,
					     event->param.conn.private_data_len);
	if (!error && rsocket_is_opening(rs))
		rsocket_stream_begin(rs);
	return error;
}

/*
 * Only the answer to a request refuses it. One that accepts hears of a peer that has gone before it
 * was connected; one that is connected, of a peer that is closed before it hears so.
 */
static int rejected(struct rsocket *rs, const struct rdma_cm_event *event)
{
	return rs->state == RSOCKET_CONNECTING ? ECONNREFUSED : ECONNRESET;
}

static int unreachable(struct rsocket *rs, const struct rdma_cm_event *event)
{
	return event->status == -ETIMEDOUT || event->event == RDMA_CM_EVENT_UNREACHABLE
		       ? ETIMEDOUT
		       : EHOSTUNREACH;
}

static int broken(struct rsocket *rs, const struct rdma_cm_event *event)
{
	return ECONNRESET;
}

/*
 * The peer's process has ended, perhaps without rshutdown(); what it had sent is in the CQ before.
 */
static int disconnected(struct rsocket *rs, const struct rdma_cm_event *event)
{
	rsocket_stream_progress(rs);
	rs->peer_left = true;
	if (rs->state == RSOCKET_CONNECTED) {
		rs->state = RSOCKET_DISCONNECTED;
		rs->sends = rs->receives = false;
	}
	return rsocket_is_opening(rs) ? ECONNRESET : 0;
}

static int (*const on_event[])(struct rsocket *, const struct rdma_cm_event *) = {
	[RDMA_CM_EVENT_ADDR_RESOLVED] = address_resolved,
	[RDMA_CM_EVENT_ADDR_ERROR] = unreachable,
	[RDMA_CM_EVENT_ROUTE_RESOLVED] = route_resolved,
	[RDMA_CM_EVENT_ROUTE_ERROR] = unreachable,
	[RDMA_CM_EVENT_CONNECT_ERROR] = broken,
	[RDMA_CM_EVENT_UNREACHABLE] = unreachable,
	[RDMA_CM_EVENT_REJECTED] = rejected,
	[RDMA_CM_EVENT_ESTABLISHED] = established,
	[RDMA_CM_EVENT_DISCONNECTED] = disconnected,
	[RDMA_CM_EVENT_DEVICE_REMOVAL] = broken,
};

static void take_event(struct rsocket *rs, const struct rdma_cm_event *event)
{
	int error = 0;

	if (event->event < sizeof(on_event) / sizeof(*on_event) && on_event[event->event])
		error = on_event[event->event](rs, event);
	if (!error)
		return;
	if (rsocket_is_opening(rs)) {
		fail(rs, error);
	} else if (rs->state == RSOCKET_CONNECTED) {
		rs->state = RSOCKET_DISCONNECTED;
		rs->sends = rs->receives = false;
		rs->error = error;
	}
}

/* Of a listener they are requests, and raccept()'s. */
void rsocket_manager_events(struct rsocket *rs)
{
	struct rdma_cm_event *event;

	while (rs->state != RSOCKET_LISTENING && rs->channel &&
	       rdma_get_cm_event(rs->channel, &event) == 0) {
		take_event(rs, event);
		rdma_ack_cm_event(event);
	}
}

/* --- bind, listen ---------------------------------------------------------------------------- */

static int bind_id(struct rsocket *rs, const struct sockaddr *address)
{
	int on = 1;

	if (rs->options.reuse_address)
		rdma_set_option(rs->id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &on, sizeof(on));
	if (rs->options.ipv6_only)
		rdma_set_option(rs->id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &on, sizeof(on));
	if (rdma_bind_addr(rs->id, (struct sockaddr *)address) < 0)
		return errno;
	rs->state = RSOCKET_BOUND;
	return 0;
}

/*
 * With a new id, as rdma_cm has it. A socket keeps the address of rbind(); a port that wasn't asked
 * for is given back with the id, as Linux has it.
 */
int rsocket_renew(struct rsocket *rs)
{
	struct rdma_cm_id *id;

	if (rdma_create_id(rs->channel, &id, rs, RDMA_PS_TCP) != 0)
		return errno;
	rsocket_stream_destroy(rs);
	rdma_destroy_id(rs->id);
	rs->id = id;
	rs->state = RSOCKET_NEW;
	return rs->bound_to_port ? bind_id(rs, (struct sockaddr *)&rs->bound) : 0;
}

/* After a connection that wasn't made, and whose error was told. 0 or an errno. */
static int renew_failed(struct rsocket *rs)
{
	return rs->state == RSOCKET_FAILED && !rs->error ? rsocket_renew(rs) : 0;
}

static int bind_locked(struct rsocket *rs, const struct sockaddr *address)
{
	int error = renew_failed(rs);

	if (error)
		return error;
	if (rs->state != RSOCKET_NEW)
		return EINVAL;
	if (address->sa_family != rs->domain)
		return EAFNOSUPPORT;
	error = bind_id(rs, address);
	if (error)
		return error;
	memcpy(&rs->bound, address, rsocket_address_size(rs->domain));
	rs->bound_to_port =
		memcmp(address, rdma_get_local_addr(rs->id), rsocket_address_size(rs->domain)) == 0;
	return 0;
}

/* The address of a call: of the family's length at least. */
static int check_address(const struct rsocket *rs, const struct sockaddr *address, socklen_t length)
{
	if (!address)
		return EFAULT;
	return length < rsocket_address_size(rs->domain) ? EINVAL : 0;
}

int urxe_rbind(int socket, const struct sockaddr *address, socklen_t length)
{
	struct rsocket *rs = rsocket_get(socket);
	int error;

	if (!rs)
		return -1;
	error = check_address(rs, address, length);
	if (!error && rs->datagram)
		error = rsocket_datagram_bind(rs, address, length);
	else if (!error) {
		pthread_mutex_lock(&rs->lock);
		error = bind_locked(rs, address);
		pthread_mutex_unlock(&rs->lock);
	}
	rsocket_put(rs);
	return rsocket_return(error);
}

/* As bind(2) does it for a socket that is connected or listens without an address. */
static int bind_anywhere(struct rsocket *rs)
{
	struct sockaddr_storage any = rs->bound;

	any.ss_family = rs->domain;
	return rs->state == RSOCKET_NEW ? bind_locked(rs, (struct sockaddr *)&any) : 0;
}

static int listen_locked(struct rsocket *rs, int backlog)
{
	int error;

	if (rs->state == RSOCKET_LISTENING)
		return 0;
	error = renew_failed(rs);
	if (error)
		return error;
	if (rs->state > RSOCKET_BOUND)
		return EINVAL;
	error = bind_anywhere(rs);
	if (!error && rdma_listen(rs->id, backlog) < 0)
		error = errno;
	if (!error)
		rs->state = RSOCKET_LISTENING;
	rsocket_wake_clear(&rs->wake); /* of one that has listened before */
	return error;
}

int urxe_rlisten(int socket, int backlog)
{
	struct rsocket *rs = rsocket_get(socket);
	int error;

	if (!rs)
		return -1;
	if (rs->datagram) {
		rsocket_put(rs);
		return rsocket_return(EOPNOTSUPP);
	}
	pthread_mutex_lock(&rs->lock);
	error = listen_locked(rs, backlog);
	pthread_mutex_unlock(&rs->lock);
	rsocket_put(rs);
	return rsocket_return(error);
}

/* --- accept ---------------------------------------------------------------------------------- */

static int answer(struct rsocket *rs, const struct rdma_cm_event *event)
{
	struct rdma_conn_param param;
	struct rsocket_hello hello;
	int error = rsocket_open_channel(rs);

	if (!error && rdma_migrate_id(rs->id, rs->channel) != 0)
		error = errno;
	if (!error)
		error = rsocket_stream_create(rs);
	if (!error)
		error = rsocket_stream_greet(rs, event->param.conn.private_data,
					     event->param.conn.private_data_len);
	if (error)
		return error;
	rs->state = RSOCKET_ACCEPTING;
	rsocket_stream_hello(rs, &hello);
	param = parameters(&hello);
	return rdma_accept(rs->id, &param) < 0 ? errno : 0;
}

/* The option is the listener's, as with sockets. */
static void keep_accepted_alive(struct rsocket *rs)
{
	pthread_mutex_lock(&rs->lock);
	if (rs->options.keepalive)
		rsocket_keepalive_start(rs);
	pthread_mutex_unlock(&rs->lock);
}

/* The rsocket of a request. NULL: it can't be accepted, *@error says why. */
static struct rsocket *accept_request(const struct rsocket *listener, struct rdma_cm_event *event,
				      int *error)
{
	struct rsocket *rs = rsocket_allocate(listener->domain, listener->type);
	struct rsocket_hello hello;
	struct rdma_cm_event copy = *event;

	if (!rs) {
		rdma_reject(copy.id, NULL, 0);
		rdma_ack_cm_event(event);
		rdma_destroy_id(copy.id);
		*error = ENOMEM;
		return NULL;
	}
	/* Acked before the id moves to another channel: what it says goes with it. */
	memset(&hello, 0, sizeof(hello));
	if (copy.param.conn.private_data_len > sizeof(hello))
		copy.param.conn.private_data_len = sizeof(hello);
	if (copy.param.conn.private_data)
		memcpy(&hello, copy.param.conn.private_data, copy.param.conn.private_data_len);
	copy.param.conn.private_data = &hello;
	rs->id = event->id;
	rs->options = listener->options;
	rdma_ack_cm_event(event);
	*error = answer(rs, &copy);
	if (!*error)
		*error = rsocket_enter(rs);
	if (!*error) {
		keep_accepted_alive(rs);
		return rs;
	}
	rdma_reject(rs->id, NULL, 0);
	rsocket_free(rs);
	return NULL;
}

/* The next request that can be accepted; what can't is refused, and the next one taken. */
static int next_request(struct rsocket *listener, struct rsocket **accepted)
{
	struct rdma_cm_event *event;
	int error;

	for (;;) {
		if (rdma_get_cm_event(listener->channel, &event) != 0)
			return errno;
		if (event->event != RDMA_CM_EVENT_CONNECT_REQUEST) {
			rdma_ack_cm_event(event);
			continue;
		}
		*accepted = accept_request(listener, event, &error);
		if (*accepted)
			return 0;
		if (error != EPROTO && error != EINVAL)
			return error;
	}
}

/*
 * Until there may be one. What wakes the threads here stays readable: the listener is closed, or
 * shut down.
 */
static int sleep_for_request(struct rsocket *listener)
{
	struct pollfd fds[] = {{.fd = listener->channel->fd, .events = POLLIN}, {.events = POLLIN}};
	bool woken;
	int error;

	pthread_mutex_lock(&listener->lock);
	error = listener->closed ? EBADF : listener->state != RSOCKET_LISTENING ? EINVAL : 0;
	woken = rsocket_wake_open(&listener->wake);
	fds[1].fd = listener->wake.fd;
	pthread_mutex_unlock(&listener->lock);
	if (error)
		return error;
	if (poll(fds, 2, woken ? -1 : rsocket_sleep_time(TIME_NEVER, false)) < 0)
		return rsocket_sleep_error(errno);
	return 0;
}

/* What waits behind it is told of by EPOLLET, too: nothing says whether it came since. */
static int take_request(struct rsocket *listener, struct rsocket **accepted)
{
	int error = next_request(listener, accepted);

	pthread_mutex_lock(&listener->lock);
	rsocket_note_accepted(listener);
	pthread_mutex_unlock(&listener->lock);
	return error;
}

static int wait_for_request(struct rsocket *listener, struct rsocket **accepted)
{
	int error;

	for (;;) {
		error = take_request(listener, accepted);
		if (error != EAGAIN || listener->nonblocking)
			return error;
		error = sleep_for_request(listener);
		if (error)
			return error;
	}
}

int urxe_raccept(int socket, struct sockaddr *address, socklen_t *length)
{
	struct rsocket *listener = rsocket_get(socket), *rs = NULL;
	int error, fd = -1;

	if (!listener)
		return -1;
	pthread_cleanup_push(rsocket_cleanup_put, listener);
	error = listener->datagram		       ? EOPNOTSUPP
		: listener->state != RSOCKET_LISTENING ? EINVAL
						       : wait_for_request(listener, &rs);
	pthread_cleanup_pop(1);
	if (error)
		return rsocket_return(error);
	fd = rs->fd;
	if (address && length)
		urxe_rgetpeername(fd, address, length);
	return fd;
}

/* --- connect --------------------------------------------------------------------------------- */

static int begin_connecting(struct rsocket *rs, const struct sockaddr *address)
{
	struct sockaddr *source = NULL;

	if (address->sa_family != rs->domain)
		return EAFNOSUPPORT;
	/* It was bound, and isn't any more (renew_failed()). */
	if (rs->state == RSOCKET_NEW && rs->bound.ss_family)
		source = (struct sockaddr *)&rs->bound;
	rs->state = RSOCKET_RESOLVING_ADDRESS;
	rs->untold = true;
	if (rdma_resolve_addr(rs->id, source, (struct sockaddr *)address, RSOCKET_RESOLVE_TIMEOUT) <
	    0) {
		fail(rs, 0); /* this call tells it */
		return errno;
	}
	return 0;
}

/* What a call says of a connection that is being made: 0, EINPROGRESS or why it failed. */
static int connect_status(struct rsocket *rs)
{
	int error = rs->error;

	if (rsocket_is_opening(rs))
		return EINPROGRESS;
	if (rs->state == RSOCKET_CONNECTED || rs->state == RSOCKET_DISCONNECTED) {
		rs->untold = false;
		return 0;
	}
	if (rs->state != RSOCKET_FAILED) /* by rshutdown() of another thread */
		return ECONNABORTED;
	rs->error = 0;
	return error ? error : ECONNREFUSED;
}

static int connect_locked(struct rsocket *rs, const struct sockaddr *address)
{
	int error;

	rsocket_progress(rs);
	error = renew_failed(rs);
	if (error)
		return error;
	switch (rs->state) {
	case RSOCKET_NEW:
	case RSOCKET_BOUND:
		error = begin_connecting(rs, address);
		break;
	case RSOCKET_LISTENING: /* as Linux has it; POSIX has EOPNOTSUPP */
	case RSOCKET_ACCEPTING: /* by raccept(), whenever the peer hears of it */
		return EISCONN;
	case RSOCKET_CONNECTED:
	case RSOCKET_DISCONNECTED:
		/* Programs ask so what became of EINPROGRESS: Linux says once that it succeeded. */
		return rs->untold ? connect_status(rs) : EISCONN;
	case RSOCKET_FAILED:
		return connect_status(rs);
	default:
		if (rs->nonblocking)
			return EALREADY;
	}
	if (error)
		return error;
	while (rsocket_is_opening(rs) && !rs->nonblocking && !error)
		error = rsocket_wait(rs, TIME_NEVER);
	return error ? error : connect_status(rs);
}

/* AF_UNSPEC, by which datagrams have no peer any more. It needs no more than the family. */
static bool is_no_address(const struct sockaddr *address, socklen_t length)
{
	return address && length >= sizeof(address->sa_family) && address->sa_family == AF_UNSPEC;
}

static int connect_to(struct rsocket *rs, const struct sockaddr *address, socklen_t length)
{
	int error = rs->datagram && is_no_address(address, length)
			    ? 0
			    : check_address(rs, address, length);

	if (error)
		return error;
	if (rs->datagram)
		return rsocket_datagram_connect(rs, address, length);
	pthread_mutex_lock(&rs->lock);
	error = connect_locked(rs, address);
	pthread_mutex_unlock(&rs->lock);
	return error;
}

int urxe_rconnect(int socket, const struct sockaddr *address, socklen_t length)
{
	struct rsocket *rs = rsocket_get(socket);
	int error;

	if (!rs)
		return -1;
	pthread_cleanup_push(rsocket_cleanup_put, rs);
	error = connect_to(rs, address, length);
	pthread_cleanup_pop(1);
	return rsocket_return(error);
}
