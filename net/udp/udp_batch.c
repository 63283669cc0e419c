/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/udp/udp_batch.h"

#include <netinet/in.h>
#include <netinet/udp.h>

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

unsigned int batch_vectors(const struct link_packet *packets, unsigned int count)
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
 * Copy a packet behind the one before it; both are one vector then.
 * @to: where it is, to be sealed there, or NULL when it is too large or there is no space left.
 * False when its memory can't be read.
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

static bool has_socket_hop_limit(const struct path *path)
{
	return !path->hop_limit || path->hop_limit == HOP_LIMIT_DEFAULT;
}

static bool has_socket_settings(const struct path *path)
{
	return path->traffic_class == UDP_TRAFFIC_CLASS && has_socket_hop_limit(path);
}

/*
 * What differs from the socket's own settings (net/udp/udp.c). A connection may have a segment
 * length (net/udp/udp_splice.c), but none that a short packet is longer than.
 */
static void put_controls(const struct batch *batch, struct msghdr *message,
			 const struct link_packet *packets, unsigned int count)
{
	const struct path *path = packets[0].path;
	bool ipv4 = gid_is_ipv4(&path->source);
	uint32_t length = link_packet_length(&packets[0]);
	uint16_t segment_length = count > 1 ? length : 0;
	int traffic_class = path->traffic_class;
	int hop_limit = path->hop_limit;

	message->msg_controllen = 0;
	if (count > 1 || (batch->connection && length > UDP_SPLICE_SEGMENT_LEAST))
		put_control(message, IPPROTO_UDP, UDP_SEGMENT, &segment_length,
			    sizeof(segment_length));
	if (traffic_class != UDP_TRAFFIC_CLASS)
		put_control(message, ipv4 ? IPPROTO_IP : IPPROTO_IPV6, ipv4 ? IP_TOS : IPV6_TCLASS,
			    &traffic_class, sizeof(traffic_class));
	if (!has_socket_hop_limit(path))
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

/* The memory is in the receiver's caches: it is asked for while something is computed. */
static void prefetch_for_writing(uint8_t *memory, uint32_t length)
{
	for (uint32_t i = 0; i < length; i += 64)
		__builtin_prefetch(memory + i, 1);
}

/*
 * The same as build(), in @pages: each packet is sealed when the next one has been copied. Returns
 * false when memory can't be read.
 */
static bool build_pages(struct batch *batch, struct link_packet *packets, unsigned int count,
			uint16_t ip_id, uint8_t *pages)
{
	const struct path *path = packets[0].path;
	uint32_t length = link_packet_length(&packets[0]);
	const struct icrc_flow *flow;

	for (unsigned int i = 0; i <= count; i++) {
		if (i < count) {
			if (!link_packet_copy(&packets[i], pages + i * length))
				return false;
			if (i + 1 < count)
				prefetch_for_writing(pages + (i + 1) * length, length);
		}
		if (i > 0) {
			flow = icrc_flow(&batch->flows, &path->source, &path->destination,
					 batch->address->source_port,
					 link_packet_length(&packets[i - 1]));
			icrc_seal_copy(&packets[i - 1], flow, ip_id + i - 1,
				       pages + (i - 1) * length);
		}
	}
	return true;
}

/*
 * Make @count packets the vectors from @first on, sealed. All are copied before the first is
 * sealed: the CRC of bytes that were written a moment ago, in other places, would wait until
 * the stores have reached the cache. Returns the end of the vectors, or NULL when memory can't
 * be read.
 */
static struct iovec *build(struct batch *batch, struct link_packet *packets, unsigned int count,
			   uint16_t ip_id, struct iovec *first)
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
		if (!seal(&packets[i], &places[i], flow, ip_id + i))
			return NULL;
	}
	return end;
}

static uint32_t total_length(const struct link_packet *packets, unsigned int count)
{
	return (count - 1) * link_packet_length(&packets[0]) +
	       link_packet_length(&packets[count - 1]);
}

/* Where to make them in pages, or NULL: they aren't to be spliced. */
static uint8_t *splice_place(struct batch *batch, const struct link_packet *packets,
			     unsigned int count)
{
	const struct bth *bth = (const struct bth *)packets[0].headers;

	if (!batch->connection || count == 1 || !has_socket_settings(packets[0].path))
		return NULL;
	for (unsigned int i = 0; i < count; i++) {
		if (packets[i].corrupt_bit)
			return NULL;
	}
	return udp_splice_place(batch->link, batch->address, batch->connection,
				total_length(packets, count), be32toh(bth->dest_qp) & QPN_MASK);
}

bool batch_append(struct batch *batch, struct link_packet *packets, unsigned int count)
{
	struct datagram *datagram = &batch->datagram[batch->datagrams];
	struct msghdr *message = &batch->messages[batch->datagrams].msg_hdr;
	const struct path *path = packets[0].path;
	struct iovec *first = &batch->vectors[batch->vectors_used];
	struct batch_used used = batch->used;
	uint16_t ip_id = batch->connection ? batch->connection->next_id : 0;
	uint8_t *pages = splice_place(batch, packets, count);
	struct iovec *end = first;

	if (!pages)
		end = build(batch, packets, count, ip_id, first);
	else if (!build_pages(batch, packets, count, ip_id, pages))
		end = NULL;
	if (!end) {
		batch->used = used;
		return false;
	}
	batch->datagrams++;
	batch->vectors_used += end - first;

	datagram->packets = packets;
	datagram->count = count;
	datagram->ip_id = ip_id;
	datagram->pages = pages;
	datagram->length = total_length(packets, count);
	*message = (struct msghdr){
		.msg_iov = first,
		.msg_iovlen = end - first,
		.msg_control = datagram->control,
	};
	if (pages)
		udp_splice_keep(&batch->connection->splice, datagram->length);
	if (batch->connection) {
		batch->connection->next_id++; /* one a datagram, however many packets it becomes */
	} else {
		message->msg_name = &datagram->destination;
		message->msg_namelen = gid_to_sockaddr(&path->destination, ROCE_V2_UDP_PORT,
						       &datagram->destination);
	}
	put_controls(batch, message, packets, count);
	return true;
}

bool batch_has_space(const struct batch *batch, const struct link_packet *packets,
		     unsigned int count)
{
	return batch->datagrams < BATCH_DATAGRAMS &&
	       batch->vectors_used + batch_vectors(packets, count) <= BATCH_VECTORS &&
	       batch->used.linear + copied_bytes(packets, count) <= BATCH_LINEAR;
}

bool batch_single(struct batch *batch, struct link_packet *packet, struct msghdr *message)
{
	struct batch_used used = batch->used;
	struct iovec *end = build(batch, packet, 1, 0, batch->singly);

	batch->used = used;
	message->msg_iov = batch->singly; /* the message's own may be fewer than it needs */
	message->msg_iovlen = end ? end - batch->singly : 0;
	put_controls(batch, message, packet, 1);
	return end;
}

void batch_clear(struct batch *batch)
{
	batch->datagrams = 0;
	batch->vectors_used = 0;
	batch->used = (struct batch_used){0};
}
