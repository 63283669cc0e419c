/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the files of SOCK_DGRAM rsockets share: rsocket_datagram.c (the calls, and the way from
 * queue pair to queue pair), rsocket_destination.c (the addresses that are known) and rsocket_udp.c
 * (the way by UDP, by which queue pairs get to know each other). All with rs->lock.
 */
#ifndef URXE_VERBS_RSOCKET_DATAGRAM_INTERNAL_H
#define URXE_VERBS_RSOCKET_DATAGRAM_INTERNAL_H

#include "verbs/rsocket/rsocket_datagram.h"
#include "verbs/rsocket/rsocket_endpoint.h"

#define RSOCKET_UDP_MOST 65536 /* bytes of a datagram, with its headers */

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
	struct sockaddr_storage name;		  /* as getsockname() last had it */
	struct destination_address *destinations; /* utlist, the one looked for last is first */
	unsigned int destination_count;
	struct destination_address *connected; /* or NULL */
	struct endpoint *endpoints[RSOCKET_ENDPOINTS];
	unsigned int count;
	bool ended, closed;	 /* by rshutdown(): no more is received, and sent */
	struct waiting *waiting; /* utlist */
	size_t waiting_bytes;	 /* of memory that they take */
	uint8_t *buffer;	 /* for one from UDP, RSOCKET_UDP_MOST bytes */
};

/* The same offset in both families. */
static inline __be16 datagram_port(const struct sockaddr_storage *address)
{
	return ((const struct sockaddr_in *)address)->sin_port;
}

static inline socklen_t datagram_address_size(const struct sockaddr_storage *address)
{
	return address->ss_family == AF_INET ? sizeof(struct sockaddr_in)
					     : sizeof(struct sockaddr_in6);
}

/* --- rsocket_destination.c ------------------------------------------------------------------- */

/* Whether @destination is @address, host and port. */
bool rsocket_destination_is(const struct destination_address *destination,
			    const struct sockaddr_storage *address);

/*
 * *@result: the entry of @address, perhaps a new one; NULL with the errno that is returned. One
 * that has no user may be forgotten when another is added.
 */
int rsocket_destination_add(struct rsocket *rs, const struct sockaddr_storage *address,
			    struct destination_address **result);
void rsocket_destination_forget(struct rsocket_datagram *datagram,
				struct destination_address *destination);

/* --- rsocket_udp.c --------------------------------------------------------------------------- */

/* Send @vectors with our header. Returns the bytes of data that were sent, or -1 with errno. */
ssize_t rsocket_udp_send(struct rsocket *rs, const struct destination_address *destination,
			 const struct iovec *vectors, size_t count, enum rsocket_udp_kind kind);

/*
 * Read a datagram, learn its sender's queue pair, and have its data wait in datagram.waiting.
 * Returns whether there was one, of an rsocket or not, or an error: rs->error.
 */
bool rsocket_udp_receive(struct rsocket *rs);
void rsocket_udp_remove(struct rsocket_datagram *datagram, struct waiting *waiting);

#endif
