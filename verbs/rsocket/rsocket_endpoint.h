/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A UD queue pair at one local address, for datagram rsockets: what is sent is a header with that
 * address and the user's bytes, what arrives likewise. Called by rsocket_datagram.c,
 * rsocket_destination.c and rsocket_udp.c, with rs->lock where nothing else is said.
 */
#ifndef URXE_VERBS_RSOCKET_ENDPOINT_H
#define URXE_VERBS_RSOCKET_ENDPOINT_H

#include "verbs/rsocket/rsocket.h"
#include "verbs/rsocket/rsocket_wire.h"

struct endpoint {
	struct sockaddr_storage local;
	struct rsocket_ud_header header; /* that tells it, of what is sent */
	struct rdma_cm_id *id;
	struct ibv_comp_channel *completions;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	uint8_t *buffer;   /* slots for receives, then slots for sends */
	uint32_t slots;	   /* of each */
	uint32_t *arrived; /* slots of what arrived, a ring; and their lengths */
	uint32_t *lengths;
	uint32_t first, count;
	uint32_t next_send, sends_free;
	uint32_t mtu; /* of the device's port: bytes of a datagram, header and all */
};

struct endpoint_message {
	struct sockaddr_storage source;
	const uint8_t *data;
	size_t length;
};

/* NULL: no device has @local, whose port is the socket's; or no memory. */
struct endpoint *endpoint_create(const struct rsocket_options *options,
				 const struct sockaddr_storage *local);
void endpoint_destroy(struct endpoint *endpoint);
/* The socket's port is another one now. */
void endpoint_set_port(struct endpoint *endpoint, __be16 port);
bool endpoint_is_any(const struct sockaddr_storage *address);

/*
 * How @remote is reached from @local, the endpoint's address; or NULL. Without rs->lock: this waits
 * until the host has answered, and a thread may be cancelled meanwhile.
 */
struct ibv_ah *endpoint_create_ah(const struct endpoint *endpoint,
				  const struct sockaddr_storage *local,
				  const struct sockaddr_storage *remote);

/* Whether @length bytes, which could be received, are more than a packet of the device's has. */
bool endpoint_mtu_exceeded(const struct endpoint *endpoint, size_t length);

/* Copy @vectors to @to, which has space for @most bytes. Bytes, or -1: EMSGSIZE. */
ssize_t endpoint_gather(uint8_t *to, size_t most, const struct iovec *vectors, size_t count);
/* Bytes, or -1: EAGAIN when all slots are under way, EMSGSIZE. */
ssize_t endpoint_send(struct endpoint *endpoint, struct ibv_ah *ah, uint32_t qpn,
		      const struct iovec *vectors, size_t count);

/* Take completions. Returns whether there were any. */
bool endpoint_progress(struct endpoint *endpoint);
bool endpoint_has_any(const struct endpoint *endpoint);
/* What arrived first and is well-formed; it stays until it is released. */
bool endpoint_first(struct endpoint *endpoint, struct endpoint_message *message);
void endpoint_release(struct endpoint *endpoint);

#endif
