/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sending. Consecutive packets of one path and one length (the last may be
 * shorter) go to the kernel as one super-packet, which it segments as late as
 * it can: on loopback never, so that the receiver gets it whole. That is five
 * times as fast as a call a packet, and fifty for small ones; sendmmsg() alone
 * gains nothing.
 *
 * The kernel numbers the segments: the k-th has the identification k beyond the first, which has 0
 * where the socket isn't connected (udp_socket.c), and the next number of its connection where it
 * is; the ICRC is computed accordingly.
 *
 * Called by several threads at once; all state is in the caller's batch, and in the connection that
 * it has locked.
 */
#include <errno.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>
#include <netinet/udp.h>
#include <sys/socket.h>

#include "net/cause/cause.h"
#include "net/clock.h"
#include "net/log.h"
#include "net/syscalls.h"
#include "net/udp/udp_batch.h"

#define REFUSED_AGAIN (10 * NS_PER_S) /* until the same refusal is worth another report */

/* The kernel gives a super-packet to the process that its first packet is for. */
static bool same_owner(const struct link_packet *a, const struct link_packet *b)
{
	const struct bth *first = (const struct bth *)a->headers;
	const struct bth *second = (const struct bth *)b->headers;

	return udp_share_same_owner(first->dest_qp, second->dest_qp);
}

static bool same_ends(const struct path *a, const struct path *b)
{
	return gid_equal(&a->source, &b->source) && gid_equal(&a->destination, &b->destination);
}

static bool same_path(const struct path *a, const struct path *b)
{
	return a == b || (same_ends(a, b) && a->traffic_class == b->traffic_class &&
			  a->hop_limit == b->hop_limit);
}

/* Returns whether it is another one than the last. */
static bool note_refusal(struct batch *batch, const union ibv_gid *destination, int error)
{
	struct udp_link *link = batch->link;
	bool another;

	pthread_mutex_lock(&link->peers_lock);
	another = link->refusal.error != error ||
		  !gid_equal(&link->refusal.destination, destination) ||
		  batch->now - link->refusal.at > REFUSED_AGAIN;
	link->refusal.destination = *destination;
	link->refusal.error = error;
	link->refusal.at = batch->now;
	pthread_mutex_unlock(&link->peers_lock);
	return another;
}

/*
 * Of a queue that is full, of the application's memory, or of descriptors that it has closed, which
 * is found out soon (udp_verify()): it says nothing of the way.
 */
static bool is_passing(int error)
{
	return error == EAGAIN || error == ENOBUFS || error == ENOMEM || error == EFAULT ||
	       error == EBADF || error == ENOTSOCK;
}

/* With its IP header, as MTUs count. */
static uint32_t ip_length(const struct link_packet *packet)
{
	return link_packet_length(packet) + sizeof(struct udphdr) +
	       (gid_is_ipv4(&packet->path->destination) ? sizeof(struct iphdr)
							: sizeof(struct ip6_hdr));
}

/* Here, as the peer may be the one whose request fails: what it asked for has no answer. */
static void report_refusal(const struct link_packet *packet, int error)
{
	char from[INET6_ADDRSTRLEN], to[INET6_ADDRSTRLEN];

	cause_report(CAUSE_SEND_REFUSED, "IP packets of %u bytes from %s to %s: %s",
		     ip_length(packet), gid_to_text(&packet->path->source, from),
		     gid_to_text(&packet->path->destination, to), strerror(error));
}

static void drop(struct batch *batch, const struct link_packet *packet, unsigned int count,
		 int error)
{
	char text[INET6_ADDRSTRLEN];

	batch->refused += count;
	if (note_refusal(batch, &packet->path->destination, error) && !is_passing(error))
		report_refusal(packet, error);
	log_debug("%u packets to %s not sent: %s", count,
		  gid_to_text(&packet->path->destination, text), strerror(error));
}

/* How many of @count packets make one datagram. */
static unsigned int segments_of(const struct batch *batch, const struct link_packet *packets,
				unsigned int count)
{
	uint32_t length = link_packet_length(&packets[0]);
	unsigned int most = link_train_packets(length);
	unsigned int segments = 1;

	if (!atomic_load_explicit(&batch->address->segmentation, memory_order_relaxed))
		return 1;
	if (most > count)
		most = count;
	while (segments < most) {
		const struct link_packet *next = &packets[segments];
		uint32_t next_length = link_packet_length(next);

		if (next_length > length || !same_path(packets[0].path, next->path) ||
		    !same_owner(&packets[0], next))
			break;
		segments++;
		if (next_length < length)
			break;
	}
	return segments;
}

/* --- Sending --------------------------------------------------------------------- */

static bool refuses_segmentation(int error)
{
	return error == EIO || error == EINVAL || error == EOPNOTSUPP || error == ENOPROTOOPT;
}

/* Returns 0 or an errno. */
static int send_part(struct batch *batch, struct datagram *datagram, unsigned int first,
		     unsigned int count, struct msghdr *message)
{
	batch_part(batch, datagram, first, count, message);
	return sys_sendmsg(descriptor_number(&batch->address->send_fd), message,
			   MSG_DONTWAIT | MSG_NOSIGNAL) < 0
		       ? errno
		       : 0;
}

static void give_up_segmentation(struct udp_address *address)
{
	char text[INET6_ADDRSTRLEN];

	if (atomic_exchange(&address->segmentation, false))
		log_info("the kernel refuses UDP_SEGMENT from %s: sending packets one by one",
			 gid_to_text(&address->gid, text));
}

/*
 * The kernel didn't take a super-packet: perhaps the route's device can't checksum what it would
 * segment, perhaps the packets exceed its MTU (EINVAL of older kernels): then the first, as long as
 * any, doesn't leave alone either. Or there was no way (EINVAL of a blackhole), and if the first
 * leaves there is one now: the others say which of these it was. Sent one by one, all have the
 * identification 0.
 */
static void send_singly(struct batch *batch, struct datagram *datagram, struct msghdr *message)
{
	unsigned int count = datagram->count;
	int error = send_part(batch, datagram, 0, 1, message);

	if (error)
		drop(batch, &datagram->packets[0], 1, error);
	else if (count > 2 && !(error = send_part(batch, datagram, 1, count - 1, message)))
		return;
	else if (refuses_segmentation(error))
		give_up_segmentation(batch->address);
	for (unsigned int i = 1; i < count; i++) {
		error = send_part(batch, datagram, i, 1, message);
		if (error)
			drop(batch, &datagram->packets[i], 1, error);
	}
}

static void capture_batch(const struct batch *batch)
{
	for (unsigned int i = 0; i < batch->datagrams; i++) {
		for (unsigned int k = 0; k < batch->datagram[i].count; k++)
			capture_sent(batch->link->link.capture, &batch->datagram[i].packets[k],
				     batch->address->source_port, batch->datagram[i].ip_id + k);
	}
	capture_flush(batch->link->link.capture);
}

/* By send() where the socket knows all else: sendmsg() takes the kernel longer. */
static ssize_t send_one(int fd, const struct msghdr *message, int flags)
{
	if (message->msg_name || message->msg_controllen)
		return sys_sendmsg(fd, message, flags);
	return sys_send(fd, message->msg_iov->iov_base, message->msg_iov->iov_len, flags);
}

/* As a seccomp filter answers, which may allow sendmsg(). */
static bool refuses_call(int error)
{
	return error == ENOSYS || error == EPERM;
}

static int send_batch(int fd, struct mmsghdr *messages, unsigned int count)
{
	const int flags = MSG_DONTWAIT | MSG_NOSIGNAL;

	if (count > 1) {
		int sent = sys_sendmmsg(fd, messages, count, flags);

		if (sent > 0 || !refuses_call(errno))
			return sent;
	}
	return send_one(fd, &messages->msg_hdr, flags) < 0 ? -1 : 1;
}

/* Remembered of the peer, but for ECONNREFUSED: sock_diag shows where there is no socket. */
static void note_earlier(struct batch *batch, int error)
{
	if (error != ECONNREFUSED)
		note_refusal(batch, &batch->connection->destination, error);
}

/* Up to one that is spliced. @earlier: see udp_is_icmp_error(). */
static int send_copied(struct batch *batch, unsigned int from, int *earlier)
{
	const int *fd = batch->connection ? &batch->connection->fd : &batch->address->send_fd;
	struct mmsghdr *messages = &batch->messages[from];
	unsigned int count = 1;
	int sent;

	while (from + count < batch->datagrams && !batch->datagram[from + count].spliced)
		count++;
	sent = send_batch(descriptor_number(fd), messages, count);
	if (sent >= 0 || !batch->connection || !udp_is_icmp_error(errno))
		return sent;
	*earlier = errno;
	return send_batch(descriptor_number(fd), messages, count);
}

static int send_spliced(struct batch *batch, const struct datagram *datagram, int *earlier)
{
	uint16_t segment_length = link_packet_length(&datagram->packets[0]);

	return udp_splice_send(batch->connection, datagram->bytes, datagram->vector.iov_len,
			       segment_length, earlier);
}

/* Returns how many datagrams were sent, or -1. */
static int send_some(struct batch *batch, unsigned int from)
{
	const struct datagram *datagram = &batch->datagram[from];
	int earlier = 0;
	int sent = datagram->spliced ? send_spliced(batch, datagram, &earlier)
				     : send_copied(batch, from, &earlier);

	/* Else it may have been this one's, and is reported as what refuses it. */
	if (earlier && sent > 0)
		note_earlier(batch, earlier);
	return sent;
}

/* The kernel didn't take a datagram; those behind it may still be sent. */
static void datagram_refused(struct batch *batch, struct datagram *datagram, struct msghdr *message,
			     int error)
{
	if (datagram->count > 1 && !batch->connection && refuses_segmentation(error))
		send_singly(batch, datagram, message);
	else
		drop(batch, datagram->packets, datagram->count, error);
	if (batch->connection)
		udp_connection_renumber(batch->connection);
}

static void flush(struct batch *batch)
{
	unsigned int done = 0;

	if (batch->link->link.capture)
		capture_batch(batch);
	while (done < batch->datagrams) {
		int sent = send_some(batch, done);

		if (sent > 0) {
			done += sent;
			continue;
		}
		datagram_refused(batch, &batch->datagram[done], &batch->messages[done].msg_hdr,
				 errno);
		done++;
	}
	batch_clear(batch);
}

static void batch_init(struct batch *batch, struct udp_link *link, uint64_t now)
{
	batch->link = link;
	batch->now = now;
	batch->path = NULL;
	batch->address = NULL;
	batch->connection = NULL;
	batch->refused = 0;
	batch_clear(batch);
}

static void leave_connection(struct batch *batch)
{
	flush(batch);
	if (batch->connection)
		udp_connection_put(batch->connection);
	batch->connection = NULL;
}

/*
 * The next packet takes @path. Where that leads through another socket than what is in the batch,
 * the batch is sent first.
 */
static void set_path(struct batch *batch, const struct path *path)
{
	const struct path *before = batch->path;
	struct udp_connection *connection;

	if (before == path)
		return;
	batch->path = path;
	if (before && same_ends(before, path))
		return;
	if (batch->connection)
		leave_connection(batch);
	if (!before || !gid_equal(&before->source, &path->source)) {
		flush(batch);
		batch->address = udp_address_find(batch->link, &path->source);
	}
	if (!batch->address)
		return;
	connection = udp_connection_take(batch->link, batch->address, &path->destination);
	if (connection)
		flush(batch);
	batch->connection = connection;
}

/* The datagram that @packets begin with, or a packet that can't be sent. Returns how many. */
static unsigned int send_next(struct batch *batch, struct link_packet *packets, unsigned int count)
{
	unsigned int taken;

	set_path(batch, packets[0].path);
	if (!batch->address || link_packet_length(&packets[0]) > LINK_TRAIN_BYTES) {
		drop(batch, &packets[0], 1, batch->address ? EMSGSIZE : EADDRNOTAVAIL);
		return 1;
	}
	taken = segments_of(batch, &packets[0], count);
	if (!batch_has_space(batch, packets, taken))
		flush(batch);
	if (!batch_append(batch, packets, taken))
		drop(batch, packets, taken, EFAULT);
	/* It has its own calls in any case, and the receiver can read it while others are made. */
	else if (batch->datagram[batch->datagrams - 1].spliced)
		flush(batch);
	return taken;
}

unsigned int udp_send(struct link *base, struct link_packet *packets, unsigned int count,
		      uint64_t now)
{
	struct udp_link *link = (struct udp_link *)base;
	unsigned int refused;
	struct batch *batch;

	if (!count)
		return 0;
	if (!udp_is_intact(link, now))
		return count;
	batch = pool_get(&link->batches, sizeof(*batch));
	if (!batch)
		return count; /* no memory: lost, as on a wire */
	batch_init(batch, link, now);
	for (unsigned int i = 0; i < count;)
		i += send_next(batch, packets + i, count - i);
	leave_connection(batch);
	refused = batch->refused;
	if (refused)
		atomic_fetch_add_explicit(&link->refused, refused, memory_order_relaxed);
	pool_put(&link->batches, batch);
	return refused;
}

void udp_capture(struct link *base, struct link_packet *packet)
{
	struct udp_link *link = (struct udp_link *)base;
	const struct udp_address *address = udp_address_find(link, &packet->path->source);

	if (!address || !icrc_seal(packet, address->source_port, 0))
		return;
	capture_sent(base->capture, packet, address->source_port, 0);
	capture_flush(base->capture);
}
