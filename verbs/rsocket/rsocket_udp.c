/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Datagrams by UDP: the first ones to an address, until its queue pair is known, with a header that
 * tells the number of the sender's. Data waits here until the application takes it.
 */
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "net/syscalls.h"
#include "verbs/rsocket/rsocket_datagram_internal.h"

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

/* More than that are gathered, in the buffer for reading. */
#define VECTORS 16

ssize_t rsocket_udp_send(struct rsocket *rs, const struct destination_address *destination,
			 const struct iovec *vectors, size_t count, enum rsocket_udp_kind kind)
{
	struct rsocket_udp_header header;
	struct iovec all[VECTORS + 1] = {{&header, fill_udp_header(&header, destination, kind)}};
	struct msghdr message = {.msg_name = (void *)&destination->address,
				 .msg_namelen = datagram_address_size(&destination->address),
				 .msg_iov = all};
	struct iovec gathered = {.iov_base = rs->datagram->buffer};
	ssize_t sent;

	if (count > VECTORS) {
		sent = endpoint_gather(gathered.iov_base, RSOCKET_UDP_MOST, vectors, count);
		if (sent < 0)
			return sent;
		gathered.iov_len = sent;
		vectors = &gathered;
		count = 1;
	}
	if (count)
		memcpy(all + 1, vectors, count * sizeof(*vectors));
	message.msg_iovlen = count + 1;
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
static void keep_waiting(struct rsocket *rs, const struct sockaddr_storage *source,
			 const uint8_t *data, size_t length)
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

void rsocket_udp_remove(struct rsocket_datagram *datagram, struct waiting *waiting)
{
	LL_DELETE(datagram->waiting, waiting);
	datagram->waiting_bytes -= sizeof(*waiting) + waiting->length;
	free(waiting);
}

/*
 * The sender's queue pair is known: it is sent to from now on. @answer: it doesn't know ours yet,
 * since it sent data by UDP, and is told it.
 */
static void learn_qpn(struct rsocket *rs, const struct sockaddr_storage *source, uint32_t qpn,
		      bool answer)
{
	struct destination_address *destination;

	if (rsocket_destination_add(rs, source, &destination) != 0 || !destination->endpoint ||
	    !qpn)
		return;
	if (destination->qpn != qpn && destination->ah) {
		ibv_destroy_ah(destination->ah);
		destination->ah = NULL;
	}
	destination->qpn = qpn;
	if (answer)
		rsocket_udp_send(rs, destination, NULL, 0, RSOCKET_UDP_CONTROL);
}

bool rsocket_udp_receive(struct rsocket *rs)
{
	struct rsocket_datagram *datagram = rs->datagram;
	const struct rsocket_udp_header *header = (void *)datagram->buffer;
	struct sockaddr_storage source;
	socklen_t source_length = sizeof(source);
	ssize_t length = sys_recvfrom(rs->fd, datagram->buffer, RSOCKET_UDP_MOST, MSG_DONTWAIT,
				      &source, &source_length);

	if (length < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (length < 0) { /* only ICMP tells that the connected peer isn't there */
		rs->error = errno;
		return true;
	}
	if (!is_header(header, length))
		return true; /* not of an rsocket: dropped */
	learn_qpn(rs, &source, be32toh(header->qpn) & RSOCKET_UDP_QPN_MASK,
		  header->kind == RSOCKET_UDP_DATA);
	if (header->kind == RSOCKET_UDP_DATA)
		keep_waiting(rs, &source, datagram->buffer + header->length,
			     length - header->length);
	return true;
}
