/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sending. Consecutive packets of one path and one length (the last may be
 * shorter) go to the kernel as one super-packet, which it segments as late as
 * it can: on loopback never, so that the receiver gets it whole. That is five
 * times as fast as a call a packet, and fifty for small ones; sendmmsg() alone
 * gains nothing. Payload is gathered from where it is, the application's memory; between
 * two payloads the trailer of one packet and the headers of the next are one vector.
 *
 * The kernel numbers the segments: the k-th has the identification k, for the
 * sending socket begins at 0 (udp.c), and the ICRC is computed accordingly.
 *
 * Called by several threads at once; all state is in the caller's batch.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/log.h"
#include "net/syscalls.h"
#include "net/tuning.h"
#include "net/udp/udp_link.h"
#include "net/wire/icrc.h"

#define BATCH_DATAGRAMS 16
#define BATCH_VECTORS 512
#define BATCH_LINEAR (LINK_TRAIN_PACKETS * SEND_BOUNCE_MAX)
#define FRAME_MAX (WIRE_HEADERS_MAX + sizeof(((struct link_packet *)NULL)->trailer))
/* Two vectors a gathered packet at the least, and one that is sent on its own after all. */
#define BATCH_FRAMES ((BATCH_VECTORS / 2 + 1) * FRAME_MAX)
_Static_assert(BATCH_LINEAR >= LINK_TRAIN_BYTES, "copied packets, whatever their length");

/* A datagram: one packet, or a super-packet of several. */
struct datagram {
	struct link_packet *packets;
	unsigned int count;
	struct sockaddr_storage destination;
	uint8_t control[3 * CMSG_SPACE(sizeof(int))]
		__attribute__((aligned(__alignof__(struct cmsghdr))));
};

/* Bytes of a batch's memory that are taken. */
struct batch_used {
	uint32_t linear, frames;
};

/*
 * Datagrams that leave through one socket with one system call. Too much for the
 * stack: a sending thread has one from the link's pool.
 */
struct batch {
	struct icrc_flows flows; /* of the batches before, too */
	struct udp_link *link;
	struct udp_address *address;
	unsigned int datagrams;
	unsigned int vectors_used;
	unsigned int refused; /* packets, of all that the caller of udp_send() passed */
	uint64_t now;
	struct mmsghdr messages[BATCH_DATAGRAMS];
	struct datagram datagram[BATCH_DATAGRAMS];
	struct iovec vectors[BATCH_VECTORS];
	struct iovec singly[BATCH_VECTORS]; /* of a packet that is sent on its own */
	/*
	 * The bounce buffer: packets up to @linear_max, copied, which is cheaper than two vectors
	 * each for the kernel to follow; and those that are to be copied at any length. Memory
	 * beyond @used.linear isn't touched.
	 */
	struct batch_used used;
	uint32_t linear_max;
	uint8_t linear[BATCH_LINEAR];
	/* Headers and trailers of packets whose payload is gathered, one after the other. */
	uint8_t frames[BATCH_FRAMES];
};
_Static_assert(offsetof(struct batch, flows) + sizeof(struct icrc_flows) <= POOL_ZEROS,
	       "what stays from one call to the next");

/* The kernel gives a super-packet to the process that its first packet is for. */
static bool same_owner(const struct link_packet *a, const struct link_packet *b)
{
	const struct bth *first = (const struct bth *)a->headers;
	const struct bth *second = (const struct bth *)b->headers;

	return udp_share_same_owner(first->dest_qp, second->dest_qp);
}

static bool same_path(const struct path *a, const struct path *b)
{
	return a == b ||
	       (gid_equal(&a->source, &b->source) && gid_equal(&a->destination, &b->destination) &&
		a->traffic_class == b->traffic_class && a->hop_limit == b->hop_limit);
}

static void drop(struct batch *batch, const struct link_packet *packet, unsigned int count,
		 int error)
{
	struct udp_link *link = batch->link;
	char text[INET6_ADDRSTRLEN];

	batch->refused += count;
	pthread_mutex_lock(&link->lock);
	link->refusal.destination = packet->path->destination;
	link->refusal.error = error;
	link->refusal.at = batch->now;
	pthread_mutex_unlock(&link->lock);
	log_debug("%u packets to %s not sent: %s", count,
		  gid_to_text(&packet->path->destination, text), strerror(error));
}

/* --- Building -------------------------------------------------------------------- */

/* How many of @count packets make one datagram. */
static unsigned int segments_of(const struct batch *batch, const struct link_packet *packets,
				unsigned int count)
{
	uint32_t length = link_packet_length(&packets[0]);
	unsigned int most = link_train_packets(length);
	unsigned int vectors = 2 + packets[0].payload_count;
	unsigned int segments = 1;

	if (!__atomic_load_n(&batch->address->segmentation, __ATOMIC_RELAXED))
		return 1;
	if (most > count)
		most = count;
	while (segments < most) {
		const struct link_packet *next = &packets[segments];
		uint32_t next_length = link_packet_length(next);

		vectors += 2 + next->payload_count;
		if (next_length > length || vectors > BATCH_VECTORS ||
		    !same_path(packets[0].path, next->path) || !same_owner(&packets[0], next))
			break;
		segments++;
		if (next_length < length)
			break;
	}
	return segments;
}

/* Space in the bounce buffer for those that are to be copied whatever their length. */
static uint32_t copied_bytes(const struct link_packet *packets, unsigned int count)
{
	uint32_t bytes = 0;

	for (unsigned int i = 0; i < count; i++) {
		if (packets[i].copied)
			bytes += link_packet_length(&packets[i]);
	}
	return bytes;
}

static unsigned int vectors_of(const struct link_packet *packets, unsigned int count)
{
	unsigned int vectors = 2 * count;

	for (unsigned int i = 0; i < count; i++)
		vectors += packets[i].payload_count;
	return vectors;
}

/* A small packet; and one whose payload mustn't change behind its seal. */
static bool wants_copy(const struct batch *batch, const struct link_packet *packet)
{
	return (packet->copied || link_packet_length(packet) <= batch->linear_max) &&
	       !packet->corrupt_bit;
}

/*
 * Copy a packet behind the one before it; both are one vector then. @to: where it is, to be
 * sealed there, or NULL when it is too large or there is no space left. False when its
 * memory can't be read.
 */
static bool linearize(struct batch *batch, const struct link_packet *packet, uint8_t **to)
{
	uint32_t length = link_packet_length(packet);

	*to = NULL;
	if (!wants_copy(batch, packet) || batch->used.linear + length > BATCH_LINEAR)
		return true;
	*to = batch->linear + batch->used.linear;
	batch->used.linear += length;
	return link_packet_copy(packet, *to);
}

/* Returns the end of the vectors from @first to @vector with @length bytes at @data behind them. */
static struct iovec *extend(const struct iovec *first, struct iovec *vector, uint8_t *data,
			    uint32_t length)
{
	if (vector != first && (uint8_t *)vector[-1].iov_base + vector[-1].iov_len == data) {
		vector[-1].iov_len += length;
		return vector;
	}
	*vector++ = (struct iovec){data, length};
	return vector;
}

/*
 * The payload of a packet between its headers and its trailer, which will be at @frame. Returns the
 * end of the vectors from @first to @vector with these.
 */
static struct iovec *gather(const struct iovec *first, struct iovec *vector,
			    const struct link_packet *packet, uint8_t *frame)
{
	uint32_t left = packet->payload_length;

	vector = extend(first, vector, frame, packet->headers_length);
	for (unsigned int i = 0; i < packet->payload_count && left; i++) {
		size_t part = packet->payload[i].iov_len < left ? packet->payload[i].iov_len : left;

		*vector++ = (struct iovec){packet->payload[i].iov_base, part};
		left -= part;
	}
	return extend(first, vector, frame + packet->headers_length, packet->trailer_length);
}

static uint8_t *take_frame(struct batch *batch, const struct link_packet *packet)
{
	uint8_t *frame = batch->frames + batch->used.frames;

	batch->used.frames += packet->headers_length + packet->trailer_length;
	return frame;
}

static void put_control(struct msghdr *message, int level, int type, const void *value,
			size_t length)
{
	struct cmsghdr *control =
		(struct cmsghdr *)((uint8_t *)message->msg_control + message->msg_controllen);

	*control = (struct cmsghdr){
		.cmsg_level = level, .cmsg_type = type, .cmsg_len = CMSG_LEN(length)};
	memcpy(CMSG_DATA(control), value, length);
	message->msg_controllen += CMSG_SPACE(length);
}

/* What differs from the socket's own settings (net/udp/udp.c). */
static void put_controls(struct msghdr *message, const struct path *path, unsigned int count,
			 uint16_t segment_length)
{
	bool ipv4 = gid_is_ipv4(&path->source);
	int traffic_class = path->traffic_class;
	int hop_limit = path->hop_limit;

	message->msg_controllen = 0;
	if (count > 1)
		put_control(message, IPPROTO_UDP, UDP_SEGMENT, &segment_length,
			    sizeof(segment_length));
	if (traffic_class != UDP_TRAFFIC_CLASS)
		put_control(message, ipv4 ? IPPROTO_IP : IPPROTO_IPV6, ipv4 ? IP_TOS : IPV6_TCLASS,
			    &traffic_class, sizeof(traffic_class));
	if (hop_limit && hop_limit != HOP_LIMIT_DEFAULT)
		put_control(message, ipv4 ? IPPROTO_IP : IPPROTO_IPV6,
			    ipv4 ? IP_TTL : IPV6_HOPLIMIT, &hop_limit, sizeof(hop_limit));
}

/* Where a packet is: all of it, or its headers and trailer. */
struct place {
	uint8_t *linear; /* or NULL */
	uint8_t *frame;
};

/*
 * Linear where it was copied; then the capture wants the ICRC in the trailer, too. False when
 * its memory can't be read.
 */
static bool seal(struct link_packet *packet, const struct place *place,
		 const struct icrc_flow *flow, uint16_t ip_id)
{
	if (place->linear) {
		icrc_seal_copy(packet, flow, ip_id, place->linear);
		return true;
	}
	if (!icrc_seal_flow(packet, flow, ip_id))
		return false;
	memcpy(mempcpy(place->frame, packet->headers, packet->headers_length), packet->trailer,
	       packet->trailer_length);
	return true;
}

/*
 * Make @count packets the vectors from @first on, sealed. All are copied before the first is
 * sealed: the CRC of bytes that were written a moment ago, in other places, would wait until
 * the stores have reached the cache. Returns the end of the vectors, or NULL when memory can't
 * be read.
 */
static struct iovec *build(struct batch *batch, struct link_packet *packets, unsigned int count,
			   struct iovec *first)
{
	const struct path *path = packets[0].path;
	struct iovec *end = first;
	const struct icrc_flow *flow = NULL;
	struct place places[LINK_TRAIN_PACKETS];

	for (unsigned int i = 0; i < count; i++) {
		struct place *place = &places[i];

		if (!linearize(batch, &packets[i], &place->linear))
			return NULL;
		if (place->linear) {
			end = extend(first, end, place->linear, link_packet_length(&packets[i]));
			continue;
		}
		place->frame = take_frame(batch, &packets[i]);
		end = gather(first, end, &packets[i], place->frame);
	}
	for (unsigned int i = 0; i < count; i++) {
		if (!flow || link_packet_length(&packets[i]) != flow->length)
			flow = icrc_flow(&batch->flows, &path->source, &path->destination,
					 batch->address->source_port,
					 link_packet_length(&packets[i]));
		if (!seal(&packets[i], &places[i], flow, i))
			return NULL;
	}
	return end;
}

static void batch_append(struct batch *batch, struct link_packet *packets, unsigned int count)
{
	struct datagram *datagram = &batch->datagram[batch->datagrams];
	struct msghdr *message = &batch->messages[batch->datagrams].msg_hdr;
	const struct path *path = packets[0].path;
	struct iovec *first = &batch->vectors[batch->vectors_used];
	struct batch_used used = batch->used;
	struct iovec *end = build(batch, packets, count, first);

	if (!end) {
		batch->used = used;
		drop(batch, packets, count, EFAULT);
		return;
	}
	batch->datagrams++;
	batch->vectors_used += end - first;

	datagram->packets = packets;
	datagram->count = count;
	*message = (struct msghdr){
		.msg_name = &datagram->destination,
		.msg_namelen = gid_to_sockaddr(&path->destination, ROCE_V2_UDP_PORT,
					       &datagram->destination),
		.msg_iov = first,
		.msg_iovlen = end - first,
		.msg_control = datagram->control,
	};
	put_controls(message, path, count, link_packet_length(&packets[0]));
}

/* --- Sending --------------------------------------------------------------------- */

/*
 * The kernel didn't take a super-packet: perhaps the route's device can't
 * checksum what it would segment, perhaps the packets exceed its MTU. Sent one
 * by one, all have the identification 0.
 */
static void send_singly(struct batch *batch, struct datagram *datagram, struct msghdr *message)
{
	struct link_packet *packets = datagram->packets;
	struct iovec *vectors = batch->singly; /* the message's own may be fewer than it needs */
	struct batch_used used = batch->used;
	unsigned int sent = 0;
	char text[INET6_ADDRSTRLEN];

	message->msg_iov = vectors;
	put_controls(message, packets[0].path, 1, 0);
	for (unsigned int i = 0; i < datagram->count; i++) {
		struct iovec *end = build(batch, &packets[i], 1, vectors);

		batch->used = used;
		message->msg_iovlen = end ? end - vectors : 0;
		if (!end)
			drop(batch, &packets[i], 1, EFAULT);
		else if (sys_sendmsg(descriptor_number(&batch->address->send_fd), message,
				     MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
			drop(batch, &packets[i], 1, errno);
		else
			sent++;
	}
	if (sent && __atomic_exchange_n(&batch->address->segmentation, false, __ATOMIC_RELAXED))
		log_info("the kernel refuses UDP_SEGMENT from %s: sending packets one by one",
			 gid_to_text(&batch->address->gid, text));
}

static bool refuses_segmentation(int error)
{
	return error == EIO || error == EINVAL || error == EOPNOTSUPP || error == ENOPROTOOPT;
}

static void capture_batch(const struct batch *batch)
{
	for (unsigned int i = 0; i < batch->datagrams; i++) {
		for (unsigned int k = 0; k < batch->datagram[i].count; k++)
			capture_sent(batch->link->link.capture, &batch->datagram[i].packets[k],
				     batch->address->source_port, k);
	}
}

static int send_batch(int fd, struct mmsghdr *messages, unsigned int count)
{
	const int flags = MSG_DONTWAIT | MSG_NOSIGNAL;

	if (count == 1)
		return sys_sendmsg(fd, &messages->msg_hdr, flags) < 0 ? -1 : 1;
	return sys_sendmmsg(fd, messages, count, flags);
}

static void flush(struct batch *batch)
{
	unsigned int done = 0;

	if (batch->link->link.capture)
		capture_batch(batch);
	while (done < batch->datagrams) {
		struct datagram *datagram = &batch->datagram[done];
		int sent = send_batch(descriptor_number(&batch->address->send_fd),
				      &batch->messages[done], batch->datagrams - done);

		if (sent > 0) {
			done += sent;
			continue;
		}
		/* The first datagram failed; those behind it may still be sent. */
		if (datagram->count > 1 && refuses_segmentation(errno))
			send_singly(batch, datagram, &batch->messages[done].msg_hdr);
		else
			drop(batch, datagram->packets, datagram->count, errno);
		done++;
	}
	batch->datagrams = 0;
	batch->vectors_used = 0;
	batch->used = (struct batch_used){0};
}

/* Whether many packets are of middling length: by one in the middle, FIRST and LAST may differ. */
static bool wants_bounce(const struct link_packet *packets, unsigned int count)
{
	uint32_t length = link_packet_length(&packets[count / 2]);

	return count >= SEND_BOUNCE_PACKETS && length > SEND_LINEAR_MAX &&
	       length <= SEND_BOUNCE_MAX;
}

static void batch_init(struct batch *batch, struct udp_link *link, uint32_t linear_max,
		       uint64_t now)
{
	batch->link = link;
	batch->now = now;
	batch->address = NULL;
	batch->datagrams = 0;
	batch->vectors_used = 0;
	batch->refused = 0;
	batch->used = (struct batch_used){0};
	batch->linear_max = linear_max;
}

/* The datagram that @packets begin with, or a packet that can't be sent. Returns how many. */
static unsigned int send_next(struct batch *batch, struct link_packet *packets, unsigned int count)
{
	const struct path *path = packets[0].path;
	unsigned int taken;

	if (!batch->address || !gid_equal(&batch->address->gid, &path->source)) {
		flush(batch);
		batch->address = udp_address_find(batch->link, &path->source);
	}
	if (!batch->address || link_packet_length(&packets[0]) > LINK_TRAIN_BYTES ||
	    vectors_of(&packets[0], 1) > BATCH_VECTORS) {
		drop(batch, &packets[0], 1, batch->address ? EMSGSIZE : EADDRNOTAVAIL);
		return 1;
	}
	taken = segments_of(batch, &packets[0], count);
	if (batch->datagrams == BATCH_DATAGRAMS ||
	    batch->vectors_used + vectors_of(&packets[0], taken) > BATCH_VECTORS ||
	    batch->used.linear + copied_bytes(&packets[0], taken) > BATCH_LINEAR)
		flush(batch);
	batch_append(batch, &packets[0], taken);
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
	batch_init(batch, link, wants_bounce(packets, count) ? SEND_BOUNCE_MAX : SEND_LINEAR_MAX,
		   now);
	for (unsigned int i = 0; i < count;)
		i += send_next(batch, packets + i, count - i);
	flush(batch);
	refused = batch->refused;
	if (refused)
		__atomic_fetch_add(&link->refused, refused, __ATOMIC_RELAXED);
	pool_put(&link->batches, batch);
	return refused;
}

void udp_capture(struct link *base, struct link_packet *packet)
{
	struct udp_link *link = (struct udp_link *)base;
	const struct udp_address *address = udp_address_find(link, &packet->path->source);

	if (address && icrc_seal(packet, address->source_port, 0))
		capture_sent(base->capture, packet, address->source_port, 0);
}
