/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sockets that are connected, to destinations on this machine: the kernel then looks for no route,
 * which is an eighth of what it takes to send a small message. Sent through one of these, IPv4
 * packets have identifications that count from a random number, and the ICRC covers them: it is
 * learned from a datagram without content, which the kernel gives back with its headers when it is
 * asked for the time that it was sent (SO_TIMESTAMPING).
 *
 * A connection has the source port of its address's own socket, so that the peer sees no
 * difference. Other destinations, and threads that find a connection taken, use that socket.
 *
 * Called by net/udp/udp_send.c, and by net/udp/udp.c to close them. Connections are added under
 * udp_link.lock and stay as long as their address; the array is published by its count. The lock of
 * a connection covers the rest of it, from the sealing of a batch until it was sent.
 */
#ifndef URXE_NET_UDP_CONNECTION_H
#define URXE_NET_UDP_CONNECTION_H

#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "net/descriptor.h"
#include "net/udp/udp_splice.h"

struct udp_link;
struct udp_address;

/* Of an address; what goes to more destinations leaves through its own socket. */
#define UDP_CONNECTIONS 16

enum udp_connection_state {
	UDP_NOT_YET, /* too little was sent */
	UDP_CONNECTED,
	/*
	 * The destination wasn't on this machine, or the kernel lacked something. That may be over:
	 * it is tried again, more and more rarely.
	 */
	UDP_REFUSED,
};

struct udp_connection {
	union ibv_gid destination;
	pthread_spinlock_t lock;
	enum udp_connection_state state;
	unsigned int batches; /* that went there since it was last tried */
	unsigned int backoff; /* so many until it is tried again */
	int fd;
	struct descriptor_identity identity;
	uint16_t next_id; /* the identification of the next datagram */
	struct {
		uint16_t length;    /* the socket's option UDP_SEGMENT; 0: none */
		uint16_t latest;    /* what the latest datagrams had to have instead, */
		uint32_t differing; /* so many, one after the other */
	} segment;
	struct udp_splice splice;
};

/*
 * The connection from @address to @destination, locked; NULL: there is none, or another thread
 * has it. Any thread may call.
 */
struct udp_connection *udp_connection_take(struct udp_link *link, struct udp_address *address,
					   const union ibv_gid *destination);
void udp_connection_put(struct udp_connection *connection);

/* Have the socket segment what it sends into packets of @length bytes; 0: not. With the lock. */
bool udp_connection_set_segment(struct udp_connection *connection, uint16_t length);

/*
 * Whether it does so without being told, or is to from now on, as the latest datagrams had to:
 * nothing else waits to be sent. False: the datagram has to say it. With the lock.
 */
bool udp_connection_segments_by(struct udp_connection *connection, uint16_t length);

/*
 * Whether ICMP has brought @error: it is an earlier datagram's, which no socket took or a firewall
 * refused, and a connected socket returns it once, from a call that then sends nothing.
 */
bool udp_is_icmp_error(int error);

/*
 * The kernel has refused a datagram, and may have numbered it. With the lock. What was sealed
 * already is lost. Where the number can't be learned udp_connection_put() ends the connection:
 * until then the kernel says of each datagram why it refuses it.
 */
void udp_connection_renumber(struct udp_connection *connection);

/* Of all of an address: see net/descriptor.h. */
bool udp_connections_verify(struct udp_address *address);
void udp_connections_close(struct udp_address *address);
void udp_connections_after_fork_child(struct udp_address *address);

#endif
