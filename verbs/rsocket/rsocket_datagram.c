/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Datagrams. The first ones to an address go by UDP, with a header that tells the number of the
 * queue pair that belongs to the sender's address; when the peer's number has come, by that way or
 * in an answer without data, datagrams go from queue pair to queue pair, with a header that tells
 * the sender's address. Both are read by whichever thread makes a call.
 */
#include "verbs/rsocket/rsocket_datagram.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "net/cause/cause.h"
#include "net/syscalls.h"
#include "verbs/rsocket/rsocket_datagram_internal.h"

/* Read by UDP with one call: a peer may send faster than they are read. */
#define UDP_READS_MOST 64

/* --- made and freed -------------------------------------------------------------------------- */

int rsocket_datagram_open(struct rsocket *rs)
{
	rs->datagram = calloc(1, sizeof(*rs->datagram));
	if (rs->datagram)
		rs->datagram->buffer = malloc(RSOCKET_UDP_MOST);
	if (!rs->datagram || !rs->datagram->buffer)
		return refuse(ENOMEM, CAUSE_OUT_OF_MEMORY, "for an rsocket");
	rs->fd = sys_socket(rs->domain, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_UDP);
	return rs->fd < 0 ? errno : 0;
}

void rsocket_datagram_destroy(struct rsocket *rs)
{
	struct rsocket_datagram *datagram = rs->datagram;
	struct waiting *waiting, *after;

	while (datagram->destinations)
		rsocket_destination_forget(datagram, datagram->destinations);
	LL_FOREACH_SAFE (datagram->waiting, waiting, after)
		free(waiting);
	for (unsigned int i = 0; i < datagram->count; i++)
		endpoint_destroy(datagram->endpoints[i]);
	free(datagram->buffer);
	free(datagram);
	if (rs->fd >= 0)
		sys_close(rs->fd);
}

/* --- progress -------------------------------------------------------------------------------- */

/* Of a connected socket only what its peer sends. */
static bool is_wanted(const struct rsocket *rs, const struct sockaddr_storage *source)
{
	const struct destination_address *peer = rs->datagram->connected;

	return !peer || rsocket_destination_is(peer, source);
}

/*
 * Drop what comes from another than the connected peer. What each endpoint has first is wanted
 * then, so that a socket which has anything at all can be read from.
 */
static void drop_unwanted(struct rsocket *rs)
{
	struct rsocket_datagram *datagram = rs->datagram;
	struct waiting *waiting, *next;
	struct endpoint_message arrived;

	LL_FOREACH_SAFE (datagram->waiting, waiting, next) {
		if (!is_wanted(rs, &waiting->source))
			rsocket_udp_remove(datagram, waiting);
	}
	for (unsigned int i = 0; i < datagram->count; i++) {
		while (endpoint_first(datagram->endpoints[i], &arrived) &&
		       !is_wanted(rs, &arrived.source))
			endpoint_release(datagram->endpoints[i]);
	}
}

bool rsocket_datagram_progress(struct rsocket *rs)
{
	struct rsocket_datagram *datagram = rs->datagram;
	bool any = false;

	for (int i = 0; i < UDP_READS_MOST && rsocket_udp_receive(rs); i++)
		any = true;
	for (unsigned int i = 0; i < datagram->count; i++)
		any |= endpoint_progress(datagram->endpoints[i]);
	rs->news_in += any;
	drop_unwanted(rs);
	return any;
}

/* --- waiting in calls ------------------------------------------------------------------------ */

/* By the socket's @option, SO_RCVTIMEO or SO_SNDTIMEO, which 0 isn't. */
static uint64_t deadline_of(const struct rsocket *rs, int option)
{
	struct timeval timeout = {};
	socklen_t length = sizeof(timeout);
	bool limited = getsockopt(rs->fd, SOL_SOCKET, option, &timeout, &length) == 0 &&
		       (timeout.tv_sec || timeout.tv_usec);

	return rsocket_deadline(limited ? &timeout : NULL);
}

/* With rs->lock. 0 or an errno, as the call has it that waits. *@deadline: 0 the first time. */
static int wait_in_call(struct rsocket *rs, int flags, int option, uint64_t *deadline)
{
	int error;

	if (!rsocket_waits(rs, flags))
		return EAGAIN;
	if (!*deadline)
		*deadline = deadline_of(rs, option);
	error = rsocket_wait(rs, *deadline);
	return error == ETIMEDOUT ? EAGAIN : error;
}

/* With rs->lock. What reading by UDP has failed with, once. */
static int take_error(struct rsocket *rs)
{
	int error = rs->error;

	rs->error = 0;
	return error;
}

/* --- sending --------------------------------------------------------------------------------- */

static int check_name(const struct rsocket *rs, const struct msghdr *message)
{
	const struct sockaddr_storage *name = message->msg_name;

	if (!name)
		return rs->datagram->connected ? 0 : EDESTADDRREQ;
	if (message->msg_namelen < sizeof(struct sockaddr_in))
		return EINVAL;
	if (name->ss_family != rs->domain)
		return EAFNOSUPPORT;
	return message->msg_namelen < datagram_address_size(name) ? EINVAL : 0;
}

/*
 * Its name changes when it is bound, connected or connected no more, by which it loses a port and
 * an address that it hadn't chosen. What was found out about destinations with another name is
 * forgotten.
 */
static void update_name(struct rsocket *rs)
{
	struct rsocket_datagram *datagram = rs->datagram;
	struct destination_address *destination, *next;
	struct sockaddr_storage name = {};
	socklen_t length = sizeof(name);

	if (getsockname(rs->fd, (struct sockaddr *)&name, &length) < 0 ||
	    memcmp(&name, &datagram->name, sizeof(name)) == 0)
		return;
	datagram->name = name;
	for (unsigned int i = 0; i < datagram->count; i++)
		endpoint_set_port(datagram->endpoints[i], datagram_port(&name));
	DL_FOREACH_SAFE (datagram->destinations, destination, next) {
		if (!destination->users)
			rsocket_destination_forget(datagram, destination);
	}
}

/* It has no port before it is bound or sends. */
static int bind_somewhere(struct rsocket *rs)
{
	struct sockaddr_storage bound;
	socklen_t length = sizeof(bound);

	if (getsockname(rs->fd, (struct sockaddr *)&bound, &length) < 0)
		return errno;
	if (datagram_port(&bound))
		return 0;
	/* One that isn't connected any more may have kept an address without a port. */
	if (bind(rs->fd, (struct sockaddr *)&bound, length) < 0)
		return errno;
	update_name(rs);
	return 0;
}

static int destination_of(struct rsocket *rs, const struct msghdr *message,
			  struct destination_address **destination)
{
	struct sockaddr_storage address = {};

	*destination = rs->datagram->connected;
	if (!message->msg_name)
		return 0;
	memcpy(&address, message->msg_name,
	       message->msg_namelen < sizeof(address) ? message->msg_namelen : sizeof(address));
	return rsocket_destination_add(rs, &address, destination);
}

/*
 * Whether there is a way from queue pair to queue pair. It is looked for without rs->lock, for that
 * may take as long as a host has to answer; @destination has a user.
 */
static bool has_way(struct rsocket *rs, struct destination_address *destination)
{
	struct ibv_ah *ah;

	if (destination->ah || !destination->qpn)
		return destination->ah;
	pthread_mutex_unlock(&rs->lock);
	ah = endpoint_create_ah(destination->endpoint, &destination->local, &destination->address);
	pthread_mutex_lock(&rs->lock);
	if (!ah)
		destination->qpn = 0; /* until the peer tells it again */
	else if (destination->ah)
		ibv_destroy_ah(ah); /* another thread was first */
	else
		destination->ah = ah;
	return destination->ah;
}

static size_t length_of(const struct msghdr *message)
{
	size_t length = 0;

	for (size_t i = 0; i < message->msg_iovlen; i++)
		length += message->msg_iov[i].iov_len;
	return length;
}

static ssize_t send_to(struct rsocket *rs, struct destination_address *destination,
		       const struct msghdr *message, int flags)
{
	const size_t length = length_of(message);
	uint64_t deadline = 0;
	ssize_t sent;
	int error;

	for (;;) {
		if (!destination->qpn || rs->datagram->waiting)
			rsocket_datagram_progress(rs);
		error = take_error(rs);
		if (error)
			return rsocket_return(error);
		if (!has_way(rs, destination) ||
		    endpoint_mtu_exceeded(destination->endpoint, length))
			return rsocket_udp_send(rs, destination, message->msg_iov,
						message->msg_iovlen, RSOCKET_UDP_DATA);
		sent = endpoint_send(destination->endpoint, destination->ah, destination->qpn,
				     message->msg_iov, message->msg_iovlen);
		if (sent >= 0 || errno != EAGAIN)
			return sent;
		error = wait_in_call(rs, flags, SO_SNDTIMEO, &deadline);
		if (error)
			return rsocket_return(error);
	}
}

struct sender {
	struct rsocket *rs;
	struct destination_address *destination;
};

/* The lock has been released. */
static void send_cancelled(void *argument)
{
	const struct sender *sender = argument;

	pthread_mutex_lock(&sender->rs->lock);
	sender->destination->users--;
	pthread_mutex_unlock(&sender->rs->lock);
}

static ssize_t send_locked(struct rsocket *rs, const struct msghdr *message, int flags)
{
	struct sender sender = {.rs = rs};
	int error = check_name(rs, message);
	ssize_t sent;

	if (!error)
		error = bind_somewhere(rs);
	if (!error)
		error = destination_of(rs, message, &sender.destination);
	if (error)
		return rsocket_return(error);
	sender.destination->users++;
	pthread_cleanup_push(send_cancelled, &sender);
	sent = send_to(rs, sender.destination, message, flags);
	pthread_cleanup_pop(0);
	sender.destination->users--;
	return sent;
}

ssize_t rsocket_datagram_send(struct rsocket *rs, const struct msghdr *message, int flags)
{
	ssize_t sent;

	if (flags & MSG_OOB)
		return rsocket_return(EOPNOTSUPP);
	pthread_mutex_lock(&rs->lock);
	sent = rs->datagram->closed ? rsocket_return(EPIPE) : send_locked(rs, message, flags);
	if (sent < 0 && errno == EAGAIN)
		rs->news_out++;
	pthread_mutex_unlock(&rs->lock);
	return sent;
}

/* --- receiving ------------------------------------------------------------------------------- */

static ssize_t deliver(struct msghdr *message, const struct sockaddr_storage *source,
		       const uint8_t *data, size_t length)
{
	size_t left = length, done = 0;

	for (size_t i = 0; i < message->msg_iovlen && left; i++) {
		const struct iovec *vector = &message->msg_iov[i];
		size_t part = vector->iov_len < left ? vector->iov_len : left;

		if (part) /* else it may be NULL */
			memcpy(vector->iov_base, data + done, part);
		done += part;
		left -= part;
	}
	if (message->msg_name) {
		socklen_t size = datagram_address_size(source);

		memcpy(message->msg_name, source,
		       message->msg_namelen < size ? message->msg_namelen : size);
		message->msg_namelen = size;
	}
	message->msg_controllen = 0;
	message->msg_flags = left ? MSG_TRUNC : 0;
	return done;
}

/*
 * The next one, first those by UDP, which were sent before. *@endpoint: by which it came; NULL: by
 * UDP. False: there is none.
 */
static bool find_next(const struct rsocket_datagram *datagram, struct endpoint_message *next,
		      struct endpoint **endpoint)
{
	const struct waiting *waiting = datagram->waiting;

	*endpoint = NULL;
	if (waiting) {
		*next = (struct endpoint_message){waiting->source, waiting->data, waiting->length};
		return true;
	}
	for (unsigned int i = 0; i < datagram->count; i++) {
		*endpoint = datagram->endpoints[i];
		if (endpoint_first(*endpoint, next))
			return true;
	}
	return false;
}

/* How long it was, for MSG_TRUNC, or what there was room for. -1: there is none. */
static ssize_t take(struct rsocket *rs, struct msghdr *message, int flags)
{
	struct rsocket_datagram *datagram = rs->datagram;
	struct endpoint_message next;
	struct endpoint *endpoint;
	ssize_t length;

	if (!find_next(datagram, &next, &endpoint))
		return -1;
	length = deliver(message, &next.source, next.data, next.length);
	if (flags & MSG_TRUNC)
		length = next.length;
	if (flags & MSG_PEEK)
		return length;
	if (endpoint)
		endpoint_release(endpoint);
	else
		rsocket_udp_remove(datagram, datagram->waiting);
	return length;
}

/* Nothing more comes: no bytes, of nobody. */
static ssize_t take_end(struct msghdr *message)
{
	message->msg_namelen = 0;
	message->msg_controllen = 0;
	message->msg_flags = 0;
	return 0;
}

static ssize_t receive_locked(struct rsocket *rs, struct msghdr *message, int flags)
{
	uint64_t deadline = 0;
	ssize_t received;
	int error = 0;

	rsocket_datagram_progress(rs);
	for (;;) {
		drop_unwanted(rs);
		if (rs->error)
			return rsocket_return(take_error(rs));
		received = take(rs, message, flags);
		if (received >= 0)
			return received;
		if (rs->datagram->ended)
			return take_end(message);
		if (error)
			return rsocket_return(error);
		error = wait_in_call(rs, flags, SO_RCVTIMEO, &deadline);
	}
}

ssize_t rsocket_datagram_receive(struct rsocket *rs, struct msghdr *message, int flags)
{
	ssize_t received;

	pthread_mutex_lock(&rs->lock);
	received = receive_locked(rs, message, flags);
	pthread_mutex_unlock(&rs->lock);
	return received;
}

/* --- binding and connecting ------------------------------------------------------------------ */

/* Its queue pair is made with the first datagram: before that nothing tells a peer its number. */
int rsocket_datagram_bind(struct rsocket *rs, const struct sockaddr *address, socklen_t length)
{
	int error;

	pthread_mutex_lock(&rs->lock);
	error = bind(rs->fd, address, length) < 0 ? errno : 0;
	if (!error)
		update_name(rs);
	pthread_mutex_unlock(&rs->lock);
	return error;
}

static void set_connected(struct rsocket_datagram *datagram, struct destination_address *peer)
{
	if (peer)
		peer->users++;
	if (datagram->connected)
		datagram->connected->users--;
	datagram->connected = peer;
}

int rsocket_datagram_connect(struct rsocket *rs, const struct sockaddr *address, socklen_t length)
{
	struct destination_address *peer = NULL;
	struct sockaddr_storage remote = {};
	int error;

	memcpy(&remote, address, length < sizeof(remote) ? length : sizeof(remote));
	pthread_mutex_lock(&rs->lock);
	error = bind_somewhere(rs);
	if (!error && sys_connect(rs->fd, address, length) < 0)
		error = errno; /* and nothing has changed */
	if (!error) {
		set_connected(rs->datagram, NULL);
		update_name(rs);
	}
	if (!error && remote.ss_family != AF_UNSPEC)
		error = rsocket_destination_add(rs, &remote, &peer);
	if (!error)
		set_connected(rs->datagram, peer);
	pthread_mutex_unlock(&rs->lock);
	return error;
}

/* One that isn't connected is told so, and is shut down all the same, as Linux has it. */
int rsocket_datagram_shutdown(struct rsocket *rs, int how)
{
	int error = shutdown(rs->fd, how) < 0 ? errno : 0;

	pthread_mutex_lock(&rs->lock);
	if (how == SHUT_RD || how == SHUT_RDWR)
		rs->datagram->ended = true;
	if (how == SHUT_WR || how == SHUT_RDWR)
		rs->datagram->closed = true;
	rsocket_interrupt(rs);
	pthread_mutex_unlock(&rs->lock);
	return error;
}

/* --- waiting --------------------------------------------------------------------------------- */

void rsocket_datagram_arm(struct rsocket *rs)
{
	for (unsigned int i = 0; i < rs->datagram->count; i++)
		ibv_req_notify_cq(rs->datagram->endpoints[i]->cq, 0);
}

void rsocket_datagram_drain_events(struct rsocket *rs)
{
	for (unsigned int i = 0; i < rs->datagram->count; i++)
		rsocket_take_events(rs->datagram->endpoints[i]->completions,
				    rs->datagram->endpoints[i]->cq);
}

unsigned int rsocket_datagram_descriptors(const struct rsocket *rs, struct pollfd *fds)
{
	unsigned int count = 0;

	/* At its end it would always be readable. */
	fds[count++] = (struct pollfd){.fd = rs->datagram->ended ? -1 : rs->fd, .events = POLLIN};
	for (unsigned int i = 0; i < rs->datagram->count; i++)
		fds[count++] = (struct pollfd){.fd = rs->datagram->endpoints[i]->completions->fd,
					       .events = POLLIN};
	return count;
}

short rsocket_datagram_events(const struct rsocket *rs, short events)
{
	short ready = POLLOUT | POLLWRNORM;

	if (rs->datagram->waiting || rs->datagram->ended)
		ready |= POLLIN | POLLRDNORM;
	for (unsigned int i = 0; i < rs->datagram->count; i++) {
		if (endpoint_has_any(rs->datagram->endpoints[i]))
			ready |= POLLIN | POLLRDNORM;
	}
	ready &= events;
	return rs->error ? ready | POLLERR : ready;
}
