/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The whole wire format of RoCEv2: every header, opcode and constant, with the
 * clause of the InfiniBand Architecture specification (IBA, volume 1) that
 * defines it. Byte order is in the types; structs are packed because a frame may
 * start anywhere. All three layers include this; it includes nothing of ours.
 *
 *   Ethernet | IPv4 or IPv6 | UDP :4791 | BTH | extension headers | payload | pad | ICRC
 */
#ifndef URXE_NET_WIRE_H
#define URXE_NET_WIRE_H

#include <endian.h>
#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define ROCE_V2_UDP_PORT 4791 /* Annex A17.3.1 */

/* RoCE NICs spread flows over this range of source ports, Annex A17.3.1. */
#define ROCE_V2_SOURCE_PORT_MIN 0xc000
#define ROCE_V2_SOURCE_PORT_MAX 0xffff

/* --- Explicit congestion notification, RFC 3168, Annex A17.9 -------------- */

/* Two bits of the IPv4 TOS or IPv6 traffic class; the rest is the DSCP. */

enum {
	ECN_MASK = 3,
	ECN_NOT_ECT = 0,
	ECN_ECT0 = 2, /* the sender reacts to marks */
	ECN_CE = 3,   /* marked: a queue on the way was getting long */
};

static inline bool ecn_is_marked(uint8_t traffic_class)
{
	return (traffic_class & ECN_MASK) == ECN_CE;
}

/* What a router does whose queue is long. What isn't capable of ECN stays as it is. */
static inline uint8_t ecn_mark(uint8_t traffic_class)
{
	return (traffic_class & ECN_MASK) == ECN_NOT_ECT ? traffic_class : traffic_class | ECN_CE;
}

/* DSCP 48 and ECT(0), as ConnectX sends its congestion notification packets. */
#define CNP_TRAFFIC_CLASS (48 << 2 | ECN_ECT0)
#define CNP_RESERVED_LENGTH 16 /* zeros behind the BTH, Annex A17.9.3 */

/* --- Base transport header, IBA 9.2 ------------------------------------- */

struct bth {
	__u8 opcode;
	__u8 flags;
	__be16 pkey;
	__be32 dest_qp; /* FECN, BECN and six reserved bits, then 24 bits of QP number */
	__be32 psn;	/* AckReq and seven reserved bits, then 24 bits of PSN */
} __attribute__((packed));

#define BTH_SOLICITED 0x80
#define BTH_MIGREQ 0x40
#define BTH_PAD_MASK 0x30
#define BTH_PAD_SHIFT 4
#define BTH_TVER_MASK 0x0f
#define BTH_BECN 0x40000000u
#define BTH_ACK_REQUEST 0x80000000u

#define PSN_BITS 24
#define PSN_MASK 0xffffffu
#define QPN_MASK 0xffffffu
#define QPN_MULTICAST 0xffffffu
#define QPN_GSI 1u
#define PKEY_DEFAULT 0xffff
#define QKEY_CONTROLLED 0x80000000u /* IBA 10.2.5: the high bit marks a privileged Q_Key */
#define QKEY_GSI 0x80010000u

/* @psn: with BTH_ACK_REQUEST where it is asked for. */
static inline void bth_fill(struct bth *bth, uint8_t opcode, uint8_t flags, uint32_t dest_qp,
			    uint32_t psn)
{
	*bth = (struct bth){
		.opcode = opcode,
		.flags = flags,
		.pkey = htobe16(PKEY_DEFAULT),
		.dest_qp = htobe32(dest_qp & QPN_MASK),
		.psn = htobe32(psn),
	};
}

/* --- Extension headers, IBA 9.3 ------------------------------------------ */

struct deth {
	__be32 qkey;
	__be32 source_qp;
} __attribute__((packed));

struct xrceth {
	__be32 srq; /* eight reserved bits, then 24 bits of XRC SRQ number */
} __attribute__((packed));

struct reth {
	__be64 va;
	__be32 rkey;
	__be32 length;
} __attribute__((packed));

struct atomiceth {
	__be64 va;
	__be32 rkey;
	__be64 swap_or_add;
	__be64 compare;
} __attribute__((packed));

struct feth {
	__be32 selectivity_placement;
} __attribute__((packed));

/* What a FLUSH is about, and what must be true of it then, Annex A19. */
#define FETH_PLACEMENT_MASK 0x0fu
#define FETH_PLACEMENT_GLOBAL 0x01u	/* every reader of the node sees it */
#define FETH_PLACEMENT_PERSISTENT 0x02u /* it survives a loss of power */
#define FETH_SELECTIVITY_SHIFT 4
#define FETH_SELECTIVITY_MASK 0x30u
#define FETH_SELECTIVITY_RANGE 0u
#define FETH_SELECTIVITY_MR 1u

struct aeth {
	__be32 syndrome_msn;
} __attribute__((packed));

struct atomicacketh {
	__be64 original;
} __attribute__((packed));

struct immdt {
	__be32 data; /* the application's own byte order, passed through */
} __attribute__((packed));

struct ieth {
	__be32 rkey;
} __attribute__((packed));

_Static_assert(sizeof(struct bth) == 12, "IBA 9.2");
_Static_assert(sizeof(struct reth) == 16, "IBA 9.3.3");
_Static_assert(sizeof(struct atomiceth) == 28, "IBA 9.3.4");

#define ICRC_LENGTH 4
#define GRH_LENGTH 40	    /* what a UD receive finds before its payload */
#define WIRE_HEADERS_MAX 48 /* BTH and the longest chain: AtomicETH behind XRCETH, 44 bytes */
#define WIRE_PATH_MTU_MAX 4096
#define WIRE_PACKET_MAX (WIRE_HEADERS_MAX + WIRE_PATH_MTU_MAX + 3 + ICRC_LENGTH)
#define WIRE_MESSAGE_MAX 0x80000000u /* IBA 9.7.7: 2^31 bytes */
#define ATOMIC_LENGTH 8		     /* IBA 9.4.5, and of an ATOMIC WRITE, Annex A19 */

/* --- AETH syndrome, IBA 9.7.5.2.1 (tables 43 to 46) ----------------------- */

enum aeth_syndrome {
	AETH_TYPE_MASK = 0xe0,
	AETH_VALUE_MASK = 0x1f,

	AETH_ACK = 0x00,
	AETH_RNR_NAK = 0x20,
	AETH_NAK = 0x60,

	AETH_ACK_UNLIMITED = 0x1f, /* no end-to-end credits in use */
	AETH_NAK_PSN_SEQUENCE = 0x60,
	AETH_NAK_INVALID_REQUEST = 0x61,
	AETH_NAK_REMOTE_ACCESS = 0x62,
	AETH_NAK_REMOTE_OPERATION = 0x63,
	AETH_NAK_INVALID_RD_REQUEST = 0x64,
};

static inline bool aeth_is_ack(uint8_t syndrome)
{
	return (syndrome & AETH_TYPE_MASK) == AETH_ACK;
}

/* IBA 9.7.5.2: the request fails. The responder is in ERR, and sends nothing behind it. */
static inline bool aeth_is_refusal(uint8_t syndrome)
{
	return syndrome >= AETH_NAK_INVALID_REQUEST && syndrome <= AETH_NAK_REMOTE_OPERATION;
}

/* For how long an RNR NAK, whose low bits are a timer code, forbids to send again, in ns. */
uint64_t aeth_rnr_delay(uint8_t syndrome);

/* --- Opcodes, IBA 9.2.1 (table 38) ----------------------------------------- */

enum wire_transport {
	WIRE_RC = 0x00,
	WIRE_UC = 0x20,
	WIRE_RD = 0x40,
	WIRE_UD = 0x60,
	WIRE_CNP = 0x80,
	WIRE_XRC = 0xa0,
	WIRE_TRANSPORT_MASK = 0xe0,
};

/* The low five bits; add the transport. */
enum wire_operation {
	WIRE_SEND_FIRST = 0x00,
	WIRE_SEND_MIDDLE = 0x01,
	WIRE_SEND_LAST = 0x02,
	WIRE_SEND_LAST_IMM = 0x03,
	WIRE_SEND_ONLY = 0x04,
	WIRE_SEND_ONLY_IMM = 0x05,
	WIRE_WRITE_FIRST = 0x06,
	WIRE_WRITE_MIDDLE = 0x07,
	WIRE_WRITE_LAST = 0x08,
	WIRE_WRITE_LAST_IMM = 0x09,
	WIRE_WRITE_ONLY = 0x0a,
	WIRE_WRITE_ONLY_IMM = 0x0b,
	WIRE_READ_REQUEST = 0x0c,
	WIRE_READ_RESPONSE_FIRST = 0x0d,
	WIRE_READ_RESPONSE_MIDDLE = 0x0e,
	WIRE_READ_RESPONSE_LAST = 0x0f,
	WIRE_READ_RESPONSE_ONLY = 0x10,
	WIRE_ACKNOWLEDGE = 0x11,
	WIRE_ATOMIC_ACKNOWLEDGE = 0x12,
	WIRE_COMPARE_SWAP = 0x13,
	WIRE_FETCH_ADD = 0x14,
	WIRE_SEND_LAST_INVALIDATE = 0x16,
	WIRE_SEND_ONLY_INVALIDATE = 0x17,
	WIRE_FLUSH = 0x1c,
	WIRE_ATOMIC_WRITE = 0x1d,
	WIRE_OPERATION_MASK = 0x1f,

	WIRE_OPCODE_CNP = 0x81, /* Annex A17.9.3 */
};

enum opcode_flags {
	OPCODE_FIRST = 1 << 0, /* first packet of its message; with LAST: ONLY */
	OPCODE_LAST = 1 << 1,  /* neither FIRST nor LAST: MIDDLE */
	OPCODE_REQUEST = 1 << 2,
	OPCODE_RESPONSE = 1 << 3,
	OPCODE_SEND = 1 << 4,
	OPCODE_WRITE = 1 << 5,
	OPCODE_READ = 1 << 6,	/* the request, or a response to it */
	OPCODE_ATOMIC = 1 << 7, /* the request, or the response to it */
	OPCODE_IMMEDIATE = 1 << 8,
	OPCODE_INVALIDATE = 1 << 9,
	OPCODE_ACK = 1 << 10,	   /* a bare acknowledge: ACK, NAK or RNR NAK */
	OPCODE_RESERVED = 1 << 11, /* of RC or XRC, without a meaning: not in the table */
	OPCODE_FLUSH = 1 << 12,
	OPCODE_ATOMIC_WRITE = 1 << 13,
};

/* How long the payload must be, IBA 9.7.4.1.6. */
enum payload_rule {
	PAYLOAD_NONE,	/* nothing */
	PAYLOAD_FULL,	/* exactly the path MTU */
	PAYLOAD_SOME,	/* 1 byte to the path MTU */
	PAYLOAD_UPTO,	/* 0 bytes to the path MTU */
	PAYLOAD_ATOMIC, /* exactly ATOMIC_LENGTH */
};

/*
 * One row of the opcode table. Offsets count from the BTH; 0 says that the
 * header is absent.
 */
struct opcode {
	const char *name;
	uint16_t flags;
	uint8_t payload;	/* enum payload_rule */
	uint8_t headers_length; /* BTH and everything before the payload */
	uint8_t deth, xrceth, feth, reth, atomiceth, aeth, atomicacketh, immdt, ieth;
};

/* The row for @opcode, or NULL for an opcode that urxe doesn't speak. net/wire/packet.c */
const struct opcode *opcode_find(uint8_t opcode);

/*
 * A received packet, validated by packet_parse(): every header that @op names
 * is there, and @payload is what lies between the headers and the pad.
 */
struct packet {
	const struct opcode *op;
	const uint8_t *headers;
	const uint8_t *payload;
	uint32_t payload_length;
	uint32_t dest_qp;
	uint32_t psn;
	uint16_t pkey;
	uint8_t opcode;
	uint8_t pad;
	bool solicited;
	bool ack_request;
	bool placed; /* the payload is where it belongs already, and no longer here */
	uint8_t kept[WIRE_HEADERS_MAX]; /* packet_keep_headers() */
};

/*
 * The one place where bytes of the network become a packet.
 * @data, @length: the UDP payload, ICRC included.
 * Returns 0, or -1 for what must be dropped silently: too short for its
 * headers, unknown opcode (but for RC and XRC: there it is a request), other transport version
 * (IBA 9.6.1.1), QP 0.
 */
int packet_parse(struct packet *packet, const uint8_t *data, size_t length);

/*
 * Have @packet's headers in itself: those in @data may be written to by another process meanwhile.
 */
void packet_keep_headers(struct packet *packet);

/* IBA 9.2: MigReq. */
static inline bool packet_requests_migration(const struct packet *p)
{
	return ((const struct bth *)p->headers)->flags & BTH_MIGREQ;
}

static inline const struct deth *packet_deth(const struct packet *p)
{
	return (const struct deth *)(p->headers + p->op->deth);
}

static inline uint32_t packet_xrc_srq(const struct packet *p)
{
	return be32toh(((const struct xrceth *)(p->headers + p->op->xrceth))->srq) & QPN_MASK;
}

static inline const struct reth *packet_reth(const struct packet *p)
{
	return (const struct reth *)(p->headers + p->op->reth);
}

static inline uint32_t packet_flush_placement(const struct packet *p)
{
	const struct feth *feth = (const struct feth *)(p->headers + p->op->feth);

	return be32toh(feth->selectivity_placement) & FETH_PLACEMENT_MASK;
}

static inline uint32_t packet_flush_selectivity(const struct packet *p)
{
	const struct feth *feth = (const struct feth *)(p->headers + p->op->feth);

	return (be32toh(feth->selectivity_placement) & FETH_SELECTIVITY_MASK) >>
	       FETH_SELECTIVITY_SHIFT;
}

static inline const struct atomiceth *packet_atomiceth(const struct packet *p)
{
	return (const struct atomiceth *)(p->headers + p->op->atomiceth);
}

static inline const struct atomicacketh *packet_atomicacketh(const struct packet *p)
{
	return (const struct atomicacketh *)(p->headers + p->op->atomicacketh);
}

static inline __be32 packet_immediate(const struct packet *p)
{
	return ((const struct immdt *)(p->headers + p->op->immdt))->data;
}

static inline uint32_t packet_invalidate_rkey(const struct packet *p)
{
	return be32toh(((const struct ieth *)(p->headers + p->op->ieth))->rkey);
}

static inline uint8_t packet_syndrome(const struct packet *p)
{
	return p->headers[p->op->aeth];
}

static inline uint32_t packet_msn(const struct packet *p)
{
	return be32toh(((const struct aeth *)(p->headers + p->op->aeth))->syndrome_msn) & PSN_MASK;
}

/* --- PSN arithmetic, IBA 9.7.1: modulo 2^24, compared as a signed distance -- */

static inline int32_t psn_distance(uint32_t a, uint32_t b)
{
	return (int32_t)((a - b) << 8) >> 8;
}

static inline uint32_t psn_add(uint32_t psn, uint32_t n)
{
	return (psn + n) & PSN_MASK;
}

/* --- path MTU: what a full packet carries, by its code (enum ibv_mtu), bytes --- */

static inline uint32_t mtu_bytes(unsigned int mtu)
{
	return 128u << mtu;
}

/* --- P_Key match, IBA 10.9.3: same key, at least one full member ---------- */

static inline bool pkey_match(uint16_t a, uint16_t b)
{
	return ((a ^ b) & 0x7fff) == 0 && (a & 0x7fff) != 0 && ((a | b) & 0x8000) != 0;
}

/* How many packets a message of @length bytes has: one, if there is nothing in it. */
static inline uint32_t message_packets(uint32_t length, uint32_t mtu)
{
	return length == 0 ? 1 : (length + (uint64_t)mtu - 1) / mtu;
}

/* The payload of the one that begins with byte @offset. */
static inline uint32_t message_part(uint32_t length, uint64_t offset, uint32_t mtu)
{
	uint64_t rest = length - offset;

	return rest < mtu ? rest : mtu;
}

/* Bytes that bring @length to a multiple of four, IBA 9.2.2. */
static inline uint32_t pad_length(uint32_t length)
{
	return -length & 3;
}

#endif
