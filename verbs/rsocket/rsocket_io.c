/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reading and writing: rsend(), rrecv() and their like. What they have in common is sendmsg(2) and
 * recvmsg(2); datagrams go to rsocket_datagram. A call's own lock is held over all of its bytes,
 * rs->lock only while there is something to look at or to post.
 */
#include <errno.h>
#include <string.h>

#include "net/clock.h"
#include "verbs/rsocket/rsocket.h"
#include "verbs/rsocket/rsocket_calls.h"
#include "verbs/rsocket/rsocket_datagram.h"

/*
 * Sent in pieces: each costs a message, and as many packets as this takes leave in one system call;
 * the first is under way while the next is copied.
 */
#define PIECE (64u << 10)

/* A thread that sends without a pause polls this often at least, ns. */
#define SENDER_POLLS_EVERY 200000

/* Where a call has got to in its buffers. */
struct cursor {
	const struct iovec *vector;
	size_t count;  /* of vectors that are left, @vector the first */
	size_t offset; /* into it */
	size_t left;   /* bytes in all */
};

static struct cursor cursor_of(const struct iovec *vectors, size_t count)
{
	struct cursor cursor = {.vector = vectors, .count = count};

	for (size_t i = 0; i < count; i++)
		cursor.left += vectors[i].iov_len;
	return cursor;
}

/* The bytes that lie in a row, @length of them at most: *@memory. Returns how many. */
static size_t straight(struct cursor *cursor, size_t length, uint8_t **memory)
{
	size_t rest;

	while (cursor->offset == cursor->vector->iov_len) {
		cursor->vector++;
		cursor->count--;
		cursor->offset = 0;
	}
	rest = cursor->vector->iov_len - cursor->offset;
	*memory = (uint8_t *)cursor->vector->iov_base + cursor->offset;
	return rest < length ? rest : length;
}

static void advance(struct cursor *cursor, size_t length)
{
	cursor->offset += length;
	cursor->left -= length;
}

static void gather(struct cursor *cursor, uint8_t *to, size_t length)
{
	while (length) {
		uint8_t *memory;
		size_t part = straight(cursor, length, &memory);

		to = mempcpy(to, memory, part);
		advance(cursor, part);
		length -= part;
	}
}

/* @copies: else the buffers, which may be none, stay as they are. */
static void scatter(struct cursor *cursor, const uint8_t *from, size_t length, bool copies)
{
	while (length) {
		uint8_t *memory;
		size_t part = straight(cursor, length, &memory);

		if (copies)
			memcpy(memory, from, part);
		advance(cursor, part);
		from += part;
		length -= part;
	}
}

/* --- waiting --------------------------------------------------------------------------------- */

/* With rs->lock. Until @ready, which has to say true once the connection is over. 0 or an errno. */
static int wait_until(struct rsocket *rs, bool (*ready)(const struct rsocket *), int flags)
{
	int error = 0;

	if (!ready(rs))
		rsocket_progress(rs);
	while (!ready(rs) && !error)
		error = rsocket_waits(rs, flags) ? rsocket_wait(rs, TIME_NEVER) : EAGAIN;
	return error;
}

int rsocket_fail(struct rsocket *rs, int error)
{
	pthread_mutex_lock(&rs->lock);
	if (rs->error == error)
		rs->error = 0;
	pthread_mutex_unlock(&rs->lock);
	return rsocket_return(error);
}

/* --- sending --------------------------------------------------------------------------------- */

static bool send_ready(const struct rsocket *rs)
{
	return rsocket_is_opening(rs) ? false : rs->sends ? rsocket_can_send(rs) : true;
}

int rsocket_why_ended(const struct rsocket *rs)
{
	if (rs->sends)
		return 0;
	if (rs->error)
		return rs->error;
	return rs->state == RSOCKET_CONNECTED || rs->state == RSOCKET_DISCONNECTED ? EPIPE
										   : ENOTCONN;
}

/* With rs->lock. How much may be sent now; 0 with *@error. */
static uint32_t await_room(struct rsocket *rs, int flags, int *error)
{
	*error = wait_until(rs, send_ready, flags);
	if (!*error && rs->sends && !rsocket_iomap_tell(rs))
		*error = EAGAIN; /* until some of the messages that are under way are answered */
	if (*error == EAGAIN)
		rs->news_out++;
	if (*error)
		return 0;
	*error = rsocket_why_ended(rs);
	return *error ? 0 : rsocket_post_room(rs);
}

/* No bytes at all: nothing is sent, and yet Linux says that nothing could be. */
static int send_nothing(struct rsocket *rs)
{
	int error;

	pthread_mutex_lock(&rs->lock);
	rsocket_progress(rs);
	error = rsocket_is_opening(rs) ? 0 : rsocket_why_ended(rs);
	pthread_mutex_unlock(&rs->lock);
	return error;
}

/*
 * With rs->lock. A thread that only sends polls, too: else the library's own thread takes the ACKs,
 * what failed isn't noticed, and messages of mappings that are in the way never complete. But not
 * at each piece: a poll costs more than posting a short one, and while much is under way short ones
 * are sent together.
 */
static void poll_for_sender(struct rsocket *rs)
{
	const struct rsocket_out *out = &rs->out;
	uint64_t now;

	if (!out->data_under_way && !out->control_under_way)
		return;
	now = clock_now();
	if (!out->control_under_way && out->free > out->size / 2 &&
	    now - rs->sender_polled_at < SENDER_POLLS_EVERY)
		return;
	rs->sender_polled_at = now;
	rsocket_progress(rs);
}

/* The next piece. Short ones go inline from where they are, others by way of the send buffer. */
static int send_piece(struct rsocket *rs, struct cursor *cursor, int flags)
{
	struct cursor before = *cursor;
	uint8_t *memory;
	uint32_t room;
	size_t length;
	int error;

	pthread_mutex_lock(&rs->lock);
	poll_for_sender(rs);
	room = await_room(rs, flags, &error);
	pthread_mutex_unlock(&rs->lock);
	if (error)
		return error;
	length = cursor->left < PIECE ? cursor->left : PIECE;
	if (length > room)
		length = room;
	if (straight(cursor, length, &memory) == length && length <= rs->options.inline_size) {
		pthread_mutex_lock(&rs->lock);
		error = rsocket_post_data(rs, memory, length);
		pthread_mutex_unlock(&rs->lock);
		if (!error)
			advance(cursor, length);
		return error;
	}
	gather(cursor, rs->out.buffer + rs->out.offset, length);
	pthread_mutex_lock(&rs->lock);
	error = rsocket_post_data(rs, NULL, length);
	pthread_mutex_unlock(&rs->lock);
	if (error)
		*cursor = before;
	return error;
}

static int send_pieces(struct rsocket *rs, struct cursor *cursor, int flags)
{
	int error = cursor->left ? 0 : send_nothing(rs);

	while (cursor->left && !error) {
		error = send_piece(rs, cursor, flags);
		/* Messages of mappings were in the way, which a blocking call waits for. */
		if (error == EAGAIN && rsocket_waits(rs, flags))
			error = 0;
	}
	return error;
}

static ssize_t send_stream(struct rsocket *rs, const struct msghdr *message, int flags)
{
	struct cursor cursor = cursor_of(message->msg_iov, message->msg_iovlen);
	const size_t length = cursor.left;
	int error;

	if (flags & MSG_OOB)
		return rsocket_fail(rs, EOPNOTSUPP);
	pthread_mutex_lock(&rs->send_lock);
	pthread_cleanup_push(rsocket_cleanup_unlock, &rs->send_lock);
	error = send_pieces(rs, &cursor, flags);
	pthread_cleanup_pop(1);
	if (error && cursor.left == length)
		return rsocket_fail(rs, error);
	return length - cursor.left;
}

static ssize_t send_message(struct rsocket *rs, const struct msghdr *message, int flags)
{
	const int before = errno;
	ssize_t sent;

	if (message->msg_control && message->msg_controllen)
		return rsocket_return(ENOTSUP);
	sent = rs->datagram ? rsocket_datagram_send(rs, message, flags)
			    : send_stream(rs, message, flags);
	/* What the first packet opens may have been refused buffers that only root may have. */
	if (sent >= 0)
		errno = before;
	return sent;
}

ssize_t urxe_rsendmsg(int socket, const struct msghdr *message, int flags)
{
	struct rsocket *rs = rsocket_get(socket);
	ssize_t sent;

	if (!rs)
		return -1;
	pthread_cleanup_push(rsocket_cleanup_put, rs);
	sent = send_message(rs, message, flags);
	pthread_cleanup_pop(1);
	return sent;
}

ssize_t urxe_rsendto(int socket, const void *buffer, size_t length, int flags,
		     const struct sockaddr *destination, socklen_t destination_length)
{
	struct iovec vector = {(void *)buffer, length};
	struct msghdr message = {.msg_name = (void *)destination,
				 .msg_namelen = destination ? destination_length : 0,
				 .msg_iov = &vector,
				 .msg_iovlen = 1};

	return urxe_rsendmsg(socket, &message, flags);
}

ssize_t urxe_rsend(int socket, const void *buffer, size_t length, int flags)
{
	return urxe_rsendto(socket, buffer, length, flags, NULL, 0);
}

ssize_t urxe_rwrite(int socket, const void *buffer, size_t length)
{
	return urxe_rsend(socket, buffer, length, 0);
}

ssize_t urxe_rwritev(int socket, const struct iovec *vectors, int count)
{
	struct msghdr message = {.msg_iov = (struct iovec *)vectors, .msg_iovlen = count};

	return count < 0 ? rsocket_return(EINVAL) : urxe_rsendmsg(socket, &message, 0);
}

/* --- receiving ------------------------------------------------------------------------------- */

static bool receive_ready(const struct rsocket *rs)
{
	return rsocket_can_receive(rs) || (!rsocket_is_opening(rs) && !rs->receives);
}

/* What has arrived, without taking it. Of streams MSG_TRUNC has bytes passed over (tcp(7)). */
static size_t peek(struct rsocket *rs, struct cursor *cursor, uint32_t available, int flags)
{
	size_t length = cursor->left < available ? cursor->left : available;
	uint32_t straight = rs->in.size - rs->in.offset;
	bool copies = !(flags & MSG_TRUNC);

	if (straight > length)
		straight = length;
	scatter(cursor, rs->in.buffer + rs->in.offset, straight, copies);
	scatter(cursor, rs->in.buffer, length - straight, copies);
	return length;
}

/* Of what has arrived as much as is asked for. 0 bytes: the end, or *@error. */
static size_t receive_piece(struct rsocket *rs, struct cursor *cursor, int flags, int *error)
{
	uint32_t available;
	size_t length;

	pthread_mutex_lock(&rs->lock);
	if (rs->in.available < cursor->left)
		rsocket_progress(rs);
	*error = wait_until(rs, receive_ready, flags);
	available = rs->in.available;
	if (!*error && !available) {
		*error = rs->error;
		if (!*error && rs->state != RSOCKET_CONNECTED && rs->state != RSOCKET_DISCONNECTED)
			*error = ENOTCONN;
	}
	pthread_mutex_unlock(&rs->lock);
	if (*error || !available)
		return 0;
	length = peek(rs, cursor, available, flags);
	if (flags & MSG_PEEK)
		return length;
	pthread_mutex_lock(&rs->lock);
	rsocket_stream_consume(rs, length);
	pthread_mutex_unlock(&rs->lock);
	return length;
}

static int receive_pieces(struct rsocket *rs, struct cursor *cursor, int flags)
{
	bool all = (flags & MSG_WAITALL) && !(flags & MSG_PEEK);
	size_t part = 1;
	int error = 0;

	while (cursor->left && part && !error) {
		part = receive_piece(rs, cursor, flags, &error);
		if (!all)
			break;
	}
	return error;
}

static ssize_t receive_stream(struct rsocket *rs, struct msghdr *message, int flags)
{
	struct cursor cursor = cursor_of(message->msg_iov, message->msg_iovlen);
	const size_t length = cursor.left;
	int error;

	message->msg_namelen = 0;
	message->msg_controllen = 0;
	message->msg_flags = 0;
	if (flags & MSG_OOB)
		return rsocket_fail(rs, EINVAL);
	pthread_mutex_lock(&rs->receive_lock);
	pthread_cleanup_push(rsocket_cleanup_unlock, &rs->receive_lock);
	error = receive_pieces(rs, &cursor, flags);
	pthread_cleanup_pop(1);
	if (error && cursor.left == length)
		return rsocket_fail(rs, error);
	return length - cursor.left;
}

/*
 * The peer's process has ended without rshutdown(). As with librdmacm that is the end of the
 * stream.
 */
static bool broke_off(struct rsocket *rs)
{
	bool is_so;

	pthread_mutex_lock(&rs->lock);
	is_so = rs->peer_left && !rs->ended;
	pthread_mutex_unlock(&rs->lock);
	return is_so;
}

static ssize_t receive_message(struct rsocket *rs, struct msghdr *message, int flags)
{
	const int before = errno;
	ssize_t received = rs->datagram ? rsocket_datagram_receive(rs, message, flags)
					: receive_stream(rs, message, flags);

	/* At the end of a stream rstream takes EAGAIN for the call's, even of an earlier call. */
	if (received >= 0)
		errno = received == 0 && broke_off(rs) ? ECONNRESET : before;
	return received;
}

ssize_t urxe_rrecvmsg(int socket, struct msghdr *message, int flags)
{
	struct rsocket *rs = rsocket_get(socket);
	ssize_t received;

	if (!rs)
		return -1;
	pthread_cleanup_push(rsocket_cleanup_put, rs);
	received = receive_message(rs, message, flags);
	pthread_cleanup_pop(1);
	return received;
}

/* Who sent it, where no message says so: a stream's peer, or nobody, at the end of datagrams. */
static void put_peer(int socket, struct sockaddr *source, socklen_t *length)
{
	const int before = errno;
	struct rsocket *rs = rsocket_get(socket);
	const bool stream = rs && !rs->datagram;

	if (rs)
		rsocket_put(rs);
	if (!stream || urxe_rgetpeername(socket, source, length) < 0)
		*length = 0;
	errno = before;
}

ssize_t urxe_rrecvfrom(int socket, void *buffer, size_t length, int flags, struct sockaddr *source,
		       socklen_t *source_length)
{
	struct iovec vector = {buffer, length};
	struct msghdr message = {.msg_name = source,
				 .msg_namelen = source && source_length ? *source_length : 0,
				 .msg_iov = &vector,
				 .msg_iovlen = 1};
	ssize_t received = urxe_rrecvmsg(socket, &message, flags);

	if (received >= 0 && source && source_length && message.msg_namelen)
		*source_length = message.msg_namelen;
	else if (received >= 0 && source && source_length)
		put_peer(socket, source, source_length);
	return received;
}

ssize_t urxe_rrecv(int socket, void *buffer, size_t length, int flags)
{
	return urxe_rrecvfrom(socket, buffer, length, flags, NULL, NULL);
}

ssize_t urxe_rread(int socket, void *buffer, size_t length)
{
	return urxe_rrecv(socket, buffer, length, 0);
}

ssize_t urxe_rreadv(int socket, const struct iovec *vectors, int count)
{
	struct msghdr message = {.msg_iov = (struct iovec *)vectors, .msg_iovlen = count};

	return count < 0 ? rsocket_return(EINVAL) : urxe_rrecvmsg(socket, &message, 0);
}
