/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Datagrams. The first ones to an address go by UDP, with a header that tells the number of the
 * queue pair that belongs to the sender's address; when the peer's number has come, by that way or
 * in an answer without data, datagrams go from queue pair to queue pair, with a header that tells
 * the sender's address. Both are read by whichever thread makes a call.
 */
#include "verbs/rsocket/rsocket_datagram.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <utlist.h>

#include "net/link.h"
#include "net/syscalls.h"
#include "verbs/rsocket/rsocket_endpoint.h"

#define UDP_MOST 65536
/* Read by UDP with one call: a peer may send faster than they are read. */
#define UDP_READS_MOST 64

/*
 * So many addresses are remembered, for any host may send from as many as it likes. Datagrams to
 * one that was forgotten go by UDP again, until its queue pair is known anew.
 */
#define DESTINATIONS_MOST 1024

/* Where datagrams go, or came from. */
struct destination_address {
	struct sockaddr_storage address;
	struct sockaddr_storage local; /* ours that it is sent to from */
	struct endpoint *endpoint;     /* of that; NULL: no device has it */
	struct ibv_ah *ah;	       /* made when it is sent to */
	uint32_t qpn;		       /* 0: by UDP */
	unsigned int users;	       /* calls, the connection: it isn't forgotten */
	struct destination_address *prev, *next;
};

/* One that arrived by UDP. */
struct waiting {
	struct sockaddr_storage source;
	size_t length;
	struct waiting *next;
	uint8_t data[];
};

struct rsocket_datagram {
	struct destination_address *destinations; /* utlist, the one looked for last is first */
	unsigned int destination_count;
	struct destination_address *connected; /* or NULL */
	struct endpoint *endpoints[RSOCKET_ENDPOINTS];
	unsigned int count;
	bool ended, closed;	 /* by rshutdown(): no more is received, and sent */
	struct waiting *waiting; /* utlist */
	size_t waiting_bytes;	 /* of memory that they take */
	uint8_t *buffer;	 /* for one from UDP */
};

/* --- made and freed -------------------------------------------------------------------------- */

int rsocket_datagram_open(struct rsocket *rs)
{
	rs->datagram = calloc(1, sizeof(*rs->datagram));
	if (!rs->datagram)
		return ENOMEM;
	rs->datagram->buffer = malloc(UDP_MOST);
	if (!rs->datagram->buffer)
		return ENOMEM;
	rs->fd = sys_socket(rs->domain, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_UDP);
	return rs->fd < 0 ? errno : 0;
}

static void forget(struct rsocket_datagram *datagram, struct destination_address *destination)
{
	DL_DELETE(datagram->destinations, destination);
	datagram->destination_count--;
	if (destination->ah)
		ibv_destroy_ah(destination->ah);
	free(destination);
}

void rsocket_datagram_destroy(struct rsocket *rs)
{
	struct rsocket_datagram *datagram = rs->datagram;
	struct waiting *waiting, *after;

	while (datagram->destinations)
		forget(datagram, datagram->destinations);
	LL_FOREACH_SAFE (datagram->waiting, waiting, after)
		free(waiting);
	for (unsigned int i = 0; i < datagram->count; i++)
		endpoint_destroy(datagram->endpoints[i]);
	free(datagram->buffer);
	free(datagram);
	if (rs->fd >= 0)
		sys_close(rs->fd);
}

/* --- addresses ------------------------------------------------------------------------------- */

static bool same_host(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
	if (a->ss_family != b->ss_family)
		return false;
	if (a->ss_family == AF_INET)
		return ((const struct sockaddr_in *)a)->sin_addr.s_addr ==
		       ((const struct sockaddr_in *)b)->sin_addr.s_addr;
	return memcmp(&((const struct sockaddr_in6 *)a)->sin6_addr,
		      &((const struct sockaddr_in6 *)b)->sin6_addr, 16) == 0;
}

/* The same offset in both families. */
static __be16 port_of(const struct sockaddr_storage *address)
{
	return ((const struct sockaddr_in *)address)->sin_port;
}

static socklen_t size_of(const struct sockaddr_storage *address)
{
	return address->ss_family == AF_INET ? sizeof(struct sockaddr_in)
					     : sizeof(struct sockaddr_in6);
}

static struct destination_address *find_destination(struct rsocket *rs,
						    const struct sockaddr_storage *address)
{
	struct destination_address *destination;

	DL_FOREACH (rs->datagram->destinations, destination) {
		if (same_host(&destination->address, address) &&
		    port_of(&destination->address) == port_of(address))
			break;
	}
	if (destination) {
		DL_DELETE(rs->datagram->destinations, destination);
		DL_PREPEND(rs->datagram->destinations, destination);
	}
	return destination;
}

/* The one that was looked for longest ago, if there are too many. */
static void forget_oldest(struct rsocket_datagram *datagram)
{
	struct destination_address *oldest = datagram->destinations->prev;

	if (datagram->destination_count <= DESTINATIONS_MOST)
		return;
	while (oldest->users && oldest != datagram->destinations)
		oldest = oldest->prev;
	if (oldest != datagram->destinations)
		forget(datagram, oldest);
}

/* The endpoint of our address @local, whose port is the socket's. NULL: no device has it. */
static struct endpoint *find_endpoint(struct rsocket *rs, const struct sockaddr_storage *local)
{
	struct rsocket_datagram *datagram = rs->datagram;
	struct endpoint *endpoint;

	for (unsigned int i = 0; i < datagram->count; i++) {
		if (same_host(&datagram->endpoints[i]->local, local))
			return datagram->endpoints[i];
	}
	if (datagram->count == RSOCKET_ENDPOINTS)
		return NULL;
	endpoint = endpoint_create(&rs->options, local);
	if (endpoint)
		datagram->endpoints[datagram->count++] = endpoint;
	return endpoint;
}

/* The address that the kernel would send to @remote from: *@local. */
static int find_local(const struct rsocket *rs, const struct sockaddr_storage *remote,
		      struct sockaddr_storage *local)
{
	struct sockaddr_storage bound;
	socklen_t length = sizeof(bound);
	int fd, error = 0;

	if (getsockname(rs->fd, (struct sockaddr *)&bound, &length) < 0)
		return errno;
	fd = sys_socket(rs->domain, SOCK_DGRAM | SOCK_CLOEXEC, IPPROTO_UDP);
	if (fd < 0)
		return errno;
	length = sizeof(*local);
	if (sys_connect(fd, remote, size_of(remote)) < 0 ||
	    getsockname(fd, (struct sockaddr *)local, &length) < 0)
		error = errno;
	sys_close(fd);
	/* It was bound to one, perhaps another than the kernel would choose. */
	if (!error && !endpoint_is_any(&bound))
		*local = bound;
	((struct sockaddr_in *)local)->sin_port = port_of(&bound);
	return error;
}

/* *@result: the entry of @address, perhaps a new one; NULL with the errno that is returned. */
static int add_destination(struct rsocket *rs, const struct sockaddr_storage *address,
			   struct destination_address **result)
{
	struct destination_address *destination = find_destination(rs, address);
	struct sockaddr_storage local;
	int error;

	*result = destination;
	if (destination)
		return 0;
	error = find_local(rs, address, &local);
	if (error)
		return error;
	destination = calloc(1, sizeof(*destination));
	if (!destination)
		return ENOMEM;
	destination->address = *address;
	destination->local = local;
	destination->endpoint = find_endpoint(rs, &local);
	DL_PREPEND(rs->datagram->destinations, destination);
	rs->datagram->destination_count++;
	forget_oldest(rs->datagram);
	*result = destination;
	return 0;
}

/* --- UDP ------------------------------------------------------------------------------------- */

static size_t fill_udp_header(struct rsocket_udp_header *header,
			      const struct destination_address *destination,
			      enum rsocket_udp_kind kind)
{
	const struct sockaddr_storage *local = &destination->local;
	bool ipv4 = local->ss_family == AF_INET;

	*header = (struct rsocket_udp_header){
		.tag = htobe32(RSOCKET_UDP_TAG),
		.version = ipv4 ? 4 : 6,
		.kind = kind,
		.length = ipv4 ? RSOCKET_UDP_IPV4_LENGTH : RSOCKET_UDP_IPV6_LENGTH,
		.qpn = htobe32(destination->endpoint ? destination->endpoint->qp->qp_num : 0),
	};
	if (ipv4)
		header->address.ipv4 = ((const struct sockaddr_in *)local)->sin_addr.s_addr;
	else
		memcpy(header->address.ipv6, &((const struct sockaddr_in6 *)local)->sin6_addr, 16);
	return header->length;
}

#define VECTORS 16

static ssize_t send_by_udp(struct rsocket *rs, const struct destination_address *destination,
			   const struct iovec *vectors, size_t count, enum rsocket_udp_kind kind)
{
	struct rsocket_udp_header header;
	struct iovec all[VECTORS + 1] = {{&header, fill_udp_header(&header, destination, kind)}};
	struct msghdr message = {.msg_name = (void *)&destination->address,
				 .msg_namelen = size_of(&destination->address),
				 .msg_iov = all,
				 .msg_iovlen = count + 1};
	ssize_t sent;

	if (count > VECTORS)
		return rsocket_return(EMSGSIZE);
	if (count)
		memcpy(all + 1, vectors, count * sizeof(*vectors));
	sent = sys_sendmsg(rs->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
	return sent < 0 ? sent : sent - header.length;
}

static bool is_header(const struct rsocket_udp_header *header, size_t length)
{
	size_t least = length >= 5 && header->version == 6 ? RSOCKET_UDP_IPV6_LENGTH
							   : RSOCKET_UDP_IPV4_LENGTH;

	return length >= least && be32toh(header->tag) == RSOCKET_UDP_TAG &&
	       (header->version == 4 || header->version == 6) && header->length >= least &&
	       header->length <= length &&
	       (header->kind == RSOCKET_UDP_DATA || header->kind == RSOCKET_UDP_CONTROL);
}

/* As many wait here as the application lets wait in the socket, and one whatever its length. */
static bool has_space(const struct rsocket *rs, size_t size)
{
	int space;
	socklen_t length = sizeof(space);

	return !rs->datagram->waiting ||
	       (getsockopt(rs->fd, SOL_SOCKET, SO_RCVBUF, &space, &length) == 0 &&
		rs->datagram->waiting_bytes + size <= (size_t)space);
}

/* What there is no space for is lost, as datagrams are. */
static void keep(struct rsocket *rs, const struct sockaddr_storage *source, const uint8_t *data,
		 size_t length)
{
	size_t size = sizeof(struct waiting) + length;
	struct waiting *waiting = has_space(rs, size) ? malloc(size) : NULL;

	if (!waiting)
		return;
	waiting->source = *source;
	waiting->length = length;
	memcpy(waiting->data, data, length);
	LL_APPEND(rs->datagram->waiting, waiting);
	rs->datagram->waiting_bytes += size;
}

static void remove_waiting(struct rsocket_datagram *datagram, struct waiting *waiting)
{
	LL_DELETE(datagram->waiting, waiting);
	datagram->waiting_bytes -= sizeof(*waiting) + waiting->length;
	free(waiting);
}

/* The peer's queue pair is known: it is sent to from now on, and told ours if it asked by data. */
static void learn(struct rsocket *rs, const struct sockaddr_storage *source, uint32_t qpn,
		  bool answer)
{
	struct destination_address *destination;

	if (add_destination(rs, source, &destination) != 0 || !destination->endpoint || !qpn)
		return;
	if (destination->qpn != qpn && destination->ah) {
		ibv_destroy_ah(destination->ah);
		destination->ah = NULL;
	}
	destination->qpn = qpn;
	if (answer)
		send_by_udp(rs, destination, NULL, 0, RSOCKET_UDP_CONTROL);
}

/* Returns whether there was one. */
static bool receive_udp(struct rsocket *rs)
{
	struct rsocket_datagram *datagram = rs->datagram;
	const struct rsocket_udp_header *header = (void *)datagram->buffer;
	struct sockaddr_storage source;
	socklen_t source_length = sizeof(source);
	ssize_t length = sys_recvfrom(rs->fd, datagram->buffer, UDP_MOST, MSG_DONTWAIT, &source,
				      &source_length);

	if (length < 0)
		return false;
	if (!is_header(header, length))
		return true; /* not of an rsocket: dropped */
	learn(rs, &source, be32toh(header->qpn) & RSOCKET_UDP_QPN_MASK,
	      header->kind == RSOCKET_UDP_DATA);
	if (header->kind == RSOCKET_UDP_DATA)
		keep(rs, &source, datagram->buffer + header->length, length - header->length);
	return true;
}

/* Of a connected socket only what its peer sends. */
static bool is_wanted(const struct rsocket *rs, const struct sockaddr_storage *source)
{
	const struct destination_address *peer = rs->datagram->connected;

	return !peer ||
	       (same_host(&peer->address, source) && port_of(&peer->address) == port_of(source));
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
			remove_waiting(datagram, waiting);
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

	for (int i = 0; i < UDP_READS_MOST && receive_udp(rs); i++)
		any = true;
	for (unsigned int i = 0; i < datagram->count; i++)
		any |= endpoint_progress(datagram->endpoints[i]);
	drop_unwanted(rs);
	return any;
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
	return message->msg_namelen < size_of(name) ? EINVAL : 0;
}

/* It has no port before it is bound or sends. */
static int bind_somewhere(struct rsocket *rs)
{
	struct sockaddr_storage any = {.ss_family = rs->domain}, bound;
	socklen_t length = sizeof(bound);

	if (getsockname(rs->fd, (struct sockaddr *)&bound, &length) < 0)
		return errno;
	if (port_of(&bound))
		return 0;
	return bind(rs->fd, (struct sockaddr *)&any, size_of(&any)) < 0 ? errno : 0;
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
	return add_destination(rs, &address, destination);
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
	ah = endpoint_create_ah(destination->endpoint, &destination->address);
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
	ssize_t sent;
	int error;

	for (;;) {
		if (!destination->qpn || rs->datagram->waiting)
			rsocket_datagram_progress(rs);
		if (!has_way(rs, destination) ||
		    endpoint_mtu_exceeded(destination->endpoint, length))
			return send_by_udp(rs, destination, message->msg_iov, message->msg_iovlen,
					   RSOCKET_UDP_DATA);
		sent = endpoint_send(destination->endpoint, destination->ah, destination->qpn,
				     message->msg_iov, message->msg_iovlen);
		if (sent >= 0 || errno != EAGAIN || rs->nonblocking || (flags & MSG_DONTWAIT))
			return sent;
		error = rsocket_wait(rs, TIME_NEVER);
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

	pthread_mutex_lock(&rs->lock);
	sent = rs->datagram->closed ? rsocket_return(EPIPE) : send_locked(rs, message, flags);
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

		memcpy(vector->iov_base, data + done, part);
		done += part;
		left -= part;
	}
	if (message->msg_name) {
		socklen_t size = size_of(source);

		memcpy(message->msg_name, source,
		       message->msg_namelen < size ? message->msg_namelen : size);
		message->msg_namelen = size;
	}
	message->msg_controllen = 0;
	message->msg_flags = left ? MSG_TRUNC : 0;
	return done;
}

/* The next one, first those by UDP, which were sent before. -1: there is none. */
static ssize_t take(struct rsocket *rs, struct msghdr *message, int flags)
{
	struct rsocket_datagram *datagram = rs->datagram;
	struct waiting *waiting = datagram->waiting;
	struct endpoint_message arrived;
	ssize_t length;

	if (waiting) {
		length = deliver(message, &waiting->source, waiting->data, waiting->length);
		if (!(flags & MSG_PEEK))
			remove_waiting(datagram, waiting);
		return length;
	}
	for (unsigned int i = 0; i < datagram->count; i++) {
		struct endpoint *endpoint = datagram->endpoints[i];

		if (!endpoint_first(endpoint, &arrived))
			continue;
		length = deliver(message, &arrived.source, arrived.data, arrived.length);
		if (!(flags & MSG_PEEK))
			endpoint_release(endpoint);
		return length;
	}
	return -1;
}

ssize_t rsocket_datagram_receive(struct rsocket *rs, struct msghdr *message, int flags)
{
	ssize_t received;
	int error = 0;

	pthread_mutex_lock(&rs->lock);
	rsocket_datagram_progress(rs);
	for (;;) {
		drop_unwanted(rs);
		received = take(rs, message, flags);
		if (received >= 0 || rs->datagram->ended || error)
			break;
		error = rs->nonblocking || (flags & MSG_DONTWAIT) ? EAGAIN
								  : rsocket_wait(rs, TIME_NEVER);
	}
	pthread_mutex_unlock(&rs->lock);
	return received < 0 ? rsocket_return(error) : received;
}

/* --- binding and connecting ------------------------------------------------------------------ */

/* Its queue pair is made with the first datagram: before that nothing tells a peer its number. */
int rsocket_datagram_bind(struct rsocket *rs, const struct sockaddr *address, socklen_t length)
{
	return bind(rs->fd, address, length) < 0 ? errno : 0;
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
		error = errno;
	else if (!error && remote.ss_family != AF_UNSPEC)
		error = add_destination(rs, &remote, &peer);
	/* Without a peer it is connected no more; a connect() that failed changes nothing. */
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
	return ready & events;
}
