/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/udp/udp_batch.h"

#include <netinet/in.h>
#include <netinet/udp.h>

#include "net/stores.h"

/* With the bytes behind a short value: the kernel copies them, and valgrind looks at all of it. */
static void put_control(struct msghdr *message, int level, int type, const void *value,
			size_t length)
{
	struct cmsghdr *control =
		(struct cmsghdr *)((uint8_t *)message->msg_control + message->msg_controllen);

	memset(control, 0, CMSG_SPACE(length));
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

/* Those before it in the batch have yet to be sent as their socket is now. */
static bool socket_segments_by(const struct batch *batch, uint16_t segment_length)
{
	if (!batch->connection)
		return segment_length == 0;
	if (batch->datagrams > 1)
		return segment_length == batch->connection->segment.length;
	return udp_connection_segments_by(batch->connection, segment_length);
}

/* What differs from the socket's own settings (net/udp/udp_socket.c). */
static void put_controls(const struct batch *batch, struct msghdr *message,
			 const struct link_packet *packets, unsigned int count)
{
	const struct path *path = packets[0].path;
	bool ipv4 = gid_is_ipv4(&path->source);
	uint16_t segment_length = count > 1 ? link_packet_length(&packets[0]) : 0;
	int traffic_class = path->traffic_class;
	int hop_limit = path->hop_limit;

	message->msg_controllen = 0;
	if (!socket_segments_by(batch, segment_length))
		put_control(message, IPPROTO_UDP, UDP_SEGMENT, &segment_length,
			    sizeof(segment_length));
	if (traffic_class != UDP_TRAFFIC_CLASS)
		put_control(message, ipv4 ? IPPROTO_IP : IPPROTO_IPV6, ipv4 ? IP_TOS : IPV6_TCLASS,
			    &traffic_class, sizeof(traffic_class));
	if (!has_socket_hop_limit(path))
		put_control(message, ipv4 ? IPPROTO_IP : IPPROTO_IPV6,
			    ipv4 ? IP_TTL : IPV6_HOPLIMIT, &hop_limit, sizeof(hop_limit));
}

/* The memory is in the receiver's caches: it is asked for while something is computed. */
static void prefetch_for_writing(uint8_t *memory, uint32_t length)
{
	for (uint32_t i = 0; i < length; i += CACHE_LINE)
		__builtin_prefetch(memory + i, 1);
}

static const struct icrc_flow *flow_of(struct batch *batch, const struct link_packet *packet)
{
	const struct path *path = packet->path;

	return icrc_flow(&batch->flows, &path->source, &path->destination,
			 batch->address->source_port, link_packet_length(packet));
}

/*
 * Write the packets of @datagram to @to, each of which is sealed when the next one has been copied:
 * the CRC of bytes that were written a moment ago, in other places, would wait until the stores
 * have reached the cache. Returns false when memory can't be read.
 */
static bool build(struct batch *batch, const struct datagram *datagram, uint8_t *to,
		  bool receiver_reads)
{
	struct link_packet *packets = datagram->packets;
	uint32_t length = link_packet_length(&packets[0]);
	const struct icrc_flow *flow = NULL;

	for (unsigned int i = 0; i <= datagram->count; i++, to += length) {
		if (i < datagram->count && !link_packet_copy(&packets[i], to))
			return false;
		if (receiver_reads && i + 1 < datagram->count)
			prefetch_for_writing(to + length, length);
		if (i == 0)
			continue;
		if (!flow || flow->length != link_packet_length(&packets[i - 1]))
			flow = flow_of(batch, &packets[i - 1]);
		icrc_seal_copy(&packets[i - 1], flow, datagram->ip_id + i - 1, to - length);
	}
	return true;
}

/*
 * The same in its pages; where they aren't to go through the caches, beside the other datagrams
 * first.
 */
static bool build_spliced(struct batch *batch, const struct datagram *datagram)
{
	struct choice *stores = &batch->connection->splice.stores;
	struct choice_block block = choice_begin(stores);
	uint8_t *aside = batch->bytes + batch->used;

	if (!build(batch, datagram, block.special ? aside : datagram->bytes, !block.special))
		return false;
	if (block.special)
		stores_copy_nontemporal(datagram->bytes, aside, datagram->vector.iov_len);
	choice_end(stores, &block, datagram->vector.iov_len);
	return true;
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
	return udp_splice_place(batch->link, batch->address, batch->connection,
				total_length(packets, count), be32toh(bth->dest_qp) & QPN_MASK);
}

bool batch_append(struct batch *batch, struct link_packet *packets, unsigned int count)
{
	struct datagram *datagram = &batch->datagram[batch->datagrams];
	struct msghdr *message = &batch->messages[batch->datagrams].msg_hdr;
	const struct path *path = packets[0].path;
	uint8_t *pages = splice_place(batch, packets, count);
	uint32_t length = total_length(packets, count);

	datagram->packets = packets;
	datagram->count = count;
	datagram->ip_id = batch->connection ? batch->connection->next_id : 0;
	datagram->spliced = pages;
	datagram->bytes = pages ? pages : batch->bytes + batch->used;
	datagram->vector = (struct iovec){datagram->bytes, length};
	if (!(pages ? build_spliced(batch, datagram)
		    : build(batch, datagram, datagram->bytes, false)))
		return false;
	batch->datagrams++;
	if (!pages)
		batch->used += cache_line_end(length);

	*message = (struct msghdr){
		.msg_iov = &datagram->vector,
		.msg_iovlen = 1,
		.msg_control = datagram->control,
	};
	if (batch->connection) {
		batch->connection->next_id++; /* one a datagram, however many packets it becomes */
	} else {
		message->msg_name = &datagram->destination;
		/* A link-local one is on the link of the source, be that of another scope. */
		message->msg_namelen = gid_to_scoped_sockaddr(
			&path->destination, ROCE_V2_UDP_PORT,
			__atomic_load_n(&batch->address->netdev, __ATOMIC_RELAXED),
			&datagram->destination);
	}
	if (!pages)
		put_controls(batch, message, packets, count);
	return true;
}

bool batch_has_space(const struct batch *batch, const struct link_packet *packets,
		     unsigned int count)
{
	return batch->datagrams < BATCH_DATAGRAMS &&
	       batch->used + total_length(packets, count) <= SEND_BYTES;
}

void batch_part(struct batch *batch, struct datagram *datagram, unsigned int first,
		unsigned int count, struct msghdr *message)
{
	struct link_packet *packets = &datagram->packets[first];
	uint32_t length = link_packet_length(&datagram->packets[0]);
	uint8_t *bytes = datagram->bytes + first * length;

	for (unsigned int i = 0; i < count; i++)
		icrc_seal_copy(&packets[i], flow_of(batch, &packets[i]), i, bytes + i * length);
	datagram->vector = (struct iovec){bytes, total_length(packets, count)};
	put_controls(batch, message, packets, count);
}

void batch_clear(struct batch *batch)
{
	batch->datagrams = 0;
	batch->used = 0;
}
