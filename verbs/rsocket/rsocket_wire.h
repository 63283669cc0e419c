/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What rsockets say to each other, as librdmacm's docs/rsocket and captures of it have it.
 *
 * Streams: each side has a receive buffer, and grants halves of it to its peer by RDMA-writing
 * their addresses into the peer's target list. Data is RDMA-written into what was granted. Every
 * message is an RDMA WRITE with immediate data, without data of its own perhaps: the upper three
 * bits of the immediate data are the kind of message.
 *
 * Datagrams: a UDP socket for the first ones, whose header tells the QP number, then a UD QP.
 */
#ifndef URXE_VERBS_RSOCKET_WIRE_H
#define URXE_VERBS_RSOCKET_WIRE_H

#include <byteswap.h>
#include <endian.h>
#include <linux/types.h>
#include <stdint.h>

#define RSOCKET_VERSION 1

/* Flags of a hello. */
#define RSOCKET_BIG_ENDIAN 1 /* the byte order that is written to the sender's memory */
#define RSOCKET_IOMAP 2	     /* behind the target list is a table of mappings */

/* A place in memory. In a hello in network byte order, in a target list in its owner's. */
struct rsocket_place {
	uint64_t addr;
	uint32_t key, length;
} __attribute__((packed));

/* For an owner that has the other byte order. */
static inline struct rsocket_place rsocket_place_swap(const struct rsocket_place *place)
{
	return (struct rsocket_place){.addr = bswap_64(place->addr),
				      .key = bswap_32(place->key),
				      .length = bswap_32(place->length)};
}

/* The private data of both sides when they connect. */
struct rsocket_hello {
	uint8_t version, flags;
	__be16 credits; /* data messages that the sender of the hello has receives for */
	uint8_t reserved[3];
	uint8_t iomap_size;	     /* of the sender's table of mappings: rsocket_iomap_scale() */
	struct rsocket_place target; /* the sender's target list; length: entries */
	struct rsocket_place buffer; /* the first part of its receive buffer */
} __attribute__((packed));

_Static_assert(sizeof(struct rsocket_hello) == 40, "a hello");

/* An entry of a table of mappings, in the byte order of its owner. */
struct rsocket_mapping {
	uint64_t offset;
	struct rsocket_place place;
} __attribute__((packed));

_Static_assert(sizeof(struct rsocket_mapping) == 24, "a mapping");

/*
 * How many entries a table of mappings has, in a byte: up to 128 the number, above that in units of
 * 256, rounded down.
 */
#define RSOCKET_IOMAP_COUNTED 128
#define RSOCKET_IOMAP_UNIT 256
#define RSOCKET_IOMAP_MOST (127 * RSOCKET_IOMAP_UNIT)

static inline uint8_t rsocket_iomap_scale(uint32_t entries)
{
	if (entries <= RSOCKET_IOMAP_COUNTED)
		return entries;
	return RSOCKET_IOMAP_COUNTED + entries / RSOCKET_IOMAP_UNIT;
}

static inline uint32_t rsocket_iomap_entries(uint8_t scaled)
{
	if (scaled <= RSOCKET_IOMAP_COUNTED)
		return scaled;
	return (scaled - RSOCKET_IOMAP_COUNTED) * RSOCKET_IOMAP_UNIT;
}

#define RSOCKET_TARGETS 2 /* entries of a target list */

enum rsocket_message {
	RSOCKET_DATA = 0,   /* so many bytes have been written to the receive buffer */
	RSOCKET_CREDIT = 4, /* the first data message that may not be sent, modulo 2^16; and the
			       target list may have a new entry */
	RSOCKET_MAPPED = 6, /* so-and-so entry of the table of mappings was written */
	RSOCKET_CONTROL = 7,
};

enum rsocket_control {
	RSOCKET_DISCONNECT = 0, /* no more is sent or received */
	RSOCKET_KEEPALIVE = 1,
	RSOCKET_SHUTDOWN = 2, /* no more is sent */
};

#define RSOCKET_MESSAGE_BITS 29
#define RSOCKET_MESSAGE_MASK ((1u << RSOCKET_MESSAGE_BITS) - 1)

static inline __be32 rsocket_message(enum rsocket_message kind, uint32_t value)
{
	return htobe32((uint32_t)kind << RSOCKET_MESSAGE_BITS | value);
}

/* --- datagrams ------------------------------------------------------------------------------- */

#define RSOCKET_UDP_TAG 0x55555555u

enum rsocket_udp_kind {
	RSOCKET_UDP_DATA = 0,	 /* the user's datagram follows */
	RSOCKET_UDP_CONTROL = 7, /* only tells the QP number */
};

/* Of a datagram over UDP; the address is the sender's. */
struct rsocket_udp_header {
	__be32 tag;
	uint8_t version; /* 4 or 6, of the address */
	uint8_t kind;
	uint8_t length; /* of this header */
	uint8_t reserved;
	__be32 qpn; /* of the sender, in the lower 24 bits; the others are reserved */
	union {
		__be32 ipv4;
		uint8_t ipv6[16];
	} address;
} __attribute__((packed));

#define RSOCKET_UDP_QPN_MASK 0xffffffu
#define RSOCKET_UDP_IPV4_LENGTH 16
#define RSOCKET_UDP_IPV6_LENGTH 28

/* Of a datagram over a UD QP: from which address and port it comes. */
struct rsocket_ud_header {
	uint8_t version;
	uint8_t length;
	__be16 port;
	union {
		__be32 ipv4;
		struct {
			__be32 flowinfo;
			uint8_t address[16];
		} ipv6;
	} address;
} __attribute__((packed));

#define RSOCKET_UD_IPV4_LENGTH 8
#define RSOCKET_UD_IPV6_LENGTH 24

#endif
