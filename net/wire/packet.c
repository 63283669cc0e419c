/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * From bytes of the network to a packet: the opcode table, and the parsing that
 * it drives. The core calls packet_parse() for every frame that arrives, and
 * everything behind it may rely on the headers being there.
 *
 * The table is constant data, IBA 9.2.1 (table 38): which headers follow the BTH,
 * in which order, and how long the payload must be. Absent on purpose: RD (no
 * RoCE device has it).
 */
#include "net/wire/wire.h"

#include <string.h>

/* --- opcodes ----------------------------------------------------------------- */

#define ONLY (OPCODE_FIRST | OPCODE_LAST)

/*
 * Header chains: each names, in wire order (IBA 9.3), what follows the BTH, or in the
 * requests of XRC the XRCETH, which ends at @start.
 */
enum {
	BTH_END = sizeof(struct bth),
	RC_START = BTH_END,
	UC_START = BTH_END,
	UD_START = BTH_END,
	XRC_START = BTH_END + sizeof(struct xrceth),
};

/* Where the XRCETH begins. */
enum { RC_XRCETH = 0, UC_XRCETH = 0, UD_XRCETH = 0, XRC_XRCETH = BTH_END };

#define END(start, header) ((start) + sizeof(struct header))

#define NONE(start) .headers_length = (start)
#define IMMDT(start) .immdt = (start), .headers_length = END(start, immdt)
#define IETH(start) .ieth = (start), .headers_length = END(start, ieth)
#define RETH(start) .reth = (start), .headers_length = END(start, reth)
#define RETH_IMMDT(start) .reth = (start), IMMDT(END(start, reth))
#define FETH_RETH(start) .feth = (start), RETH(END(start, feth))
#define ATOMICETH(start) .atomiceth = (start), .headers_length = END(start, atomiceth)
#define AETH(start) .aeth = (start), .headers_length = END(start, aeth)
#define AETH_ATOMICACKETH(start)                                                                   \
	.aeth = (start), .atomicacketh = END(start, aeth),                                         \
	.headers_length = END(END(start, aeth), atomicacketh)
#define DETH(start) .deth = (start), .headers_length = END(start, deth)
#define DETH_IMMDT(start) .deth = (start), IMMDT(END(start, deth))

#define ROW(transport, operation, label, payload_rule, chain, bits)                                \
	[WIRE_##transport | (operation)] = {                                                       \
		.name = #transport "_" label, .flags = (bits), .payload = (payload_rule), chain}
#define REQUEST(transport, operation, label, payload_rule, chain, bits)                            \
	[WIRE_##transport | (operation)] = {.name = #transport "_" label,                          \
					    .flags = OPCODE_REQUEST | (bits),                      \
					    .payload = (payload_rule),                             \
					    .xrceth = transport##_XRCETH,                          \
					    chain(transport##_START)}
#define RESPONSE(transport, operation, label, payload_rule, chain, bits)                           \
	ROW(transport, operation, label, payload_rule, chain(BTH_END), OPCODE_RESPONSE | (bits))

#define SEND OPCODE_SEND
#define SEND_IMM (SEND | OPCODE_IMMEDIATE)
#define SEND_INV (SEND | OPCODE_INVALIDATE)
#define WRITE OPCODE_WRITE
#define WRITE_IMM (WRITE | OPCODE_IMMEDIATE)

/* clang-format off */
/* What RC, UC and XRC have in common. */
#define SENDS_AND_WRITES(transport)                                                                                                 \
	REQUEST(transport, WIRE_SEND_FIRST,     "SEND_FIRST",          PAYLOAD_FULL, NONE,       SEND | OPCODE_FIRST),              \
	REQUEST(transport, WIRE_SEND_MIDDLE,    "SEND_MIDDLE",         PAYLOAD_FULL, NONE,       SEND),                             \
	REQUEST(transport, WIRE_SEND_LAST,      "SEND_LAST",           PAYLOAD_SOME, NONE,       SEND | OPCODE_LAST),               \
	REQUEST(transport, WIRE_SEND_LAST_IMM,  "SEND_LAST_IMM",       PAYLOAD_SOME, IMMDT,      SEND_IMM | OPCODE_LAST),           \
	REQUEST(transport, WIRE_SEND_ONLY,      "SEND_ONLY",           PAYLOAD_UPTO, NONE,       SEND | ONLY),                      \
	REQUEST(transport, WIRE_SEND_ONLY_IMM,  "SEND_ONLY_IMM",       PAYLOAD_UPTO, IMMDT,      SEND_IMM | ONLY),                  \
	REQUEST(transport, WIRE_WRITE_FIRST,    "RDMA_WRITE_FIRST",    PAYLOAD_FULL, RETH,       WRITE | OPCODE_FIRST),             \
	REQUEST(transport, WIRE_WRITE_MIDDLE,   "RDMA_WRITE_MIDDLE",   PAYLOAD_FULL, NONE,       WRITE),                            \
	REQUEST(transport, WIRE_WRITE_LAST,     "RDMA_WRITE_LAST",     PAYLOAD_SOME, NONE,       WRITE | OPCODE_LAST),              \
	REQUEST(transport, WIRE_WRITE_LAST_IMM, "RDMA_WRITE_LAST_IMM", PAYLOAD_SOME, IMMDT,      WRITE_IMM | OPCODE_LAST),          \
	REQUEST(transport, WIRE_WRITE_ONLY,     "RDMA_WRITE_ONLY",     PAYLOAD_UPTO, RETH,       WRITE | ONLY),                     \
	REQUEST(transport, WIRE_WRITE_ONLY_IMM, "RDMA_WRITE_ONLY_IMM", PAYLOAD_UPTO, RETH_IMMDT, WRITE_IMM | ONLY)

/* What only RC and XRC have: their responses are without an XRCETH. */
#define RELIABLE(transport)                                                                                                                           \
	SENDS_AND_WRITES(transport),                                                                                                                  \
	REQUEST(transport, WIRE_READ_REQUEST,          "RDMA_READ_REQUEST",         PAYLOAD_NONE, RETH,              OPCODE_READ | ONLY),             \
	RESPONSE(transport, WIRE_READ_RESPONSE_FIRST,  "RDMA_READ_RESPONSE_FIRST",  PAYLOAD_FULL, AETH,              OPCODE_READ | OPCODE_FIRST),     \
	RESPONSE(transport, WIRE_READ_RESPONSE_MIDDLE, "RDMA_READ_RESPONSE_MIDDLE", PAYLOAD_FULL, NONE,              OPCODE_READ),                    \
	RESPONSE(transport, WIRE_READ_RESPONSE_LAST,   "RDMA_READ_RESPONSE_LAST",   PAYLOAD_SOME, AETH,              OPCODE_READ | OPCODE_LAST),      \
	RESPONSE(transport, WIRE_READ_RESPONSE_ONLY,   "RDMA_READ_RESPONSE_ONLY",   PAYLOAD_UPTO, AETH,              OPCODE_READ | ONLY),             \
	RESPONSE(transport, WIRE_ACKNOWLEDGE,          "ACKNOWLEDGE",               PAYLOAD_NONE, AETH,              OPCODE_ACK | ONLY),              \
	RESPONSE(transport, WIRE_ATOMIC_ACKNOWLEDGE,   "ATOMIC_ACKNOWLEDGE",        PAYLOAD_NONE, AETH_ATOMICACKETH, OPCODE_ATOMIC | ONLY),           \
	REQUEST(transport, WIRE_COMPARE_SWAP,          "COMPARE_SWAP",              PAYLOAD_NONE, ATOMICETH,         OPCODE_ATOMIC | ONLY),           \
	REQUEST(transport, WIRE_FETCH_ADD,             "FETCH_ADD",                 PAYLOAD_NONE, ATOMICETH,         OPCODE_ATOMIC | ONLY),           \
	REQUEST(transport, WIRE_SEND_LAST_INVALIDATE,  "SEND_LAST_INVALIDATE",      PAYLOAD_SOME, IETH,              SEND_INV | OPCODE_LAST),         \
	REQUEST(transport, WIRE_SEND_ONLY_INVALIDATE,  "SEND_ONLY_INVALIDATE",      PAYLOAD_UPTO, IETH,              SEND_INV | ONLY),                \
	/* Annex A19. */                                                                                                                              \
	REQUEST(transport, WIRE_FLUSH,                 "FLUSH",                     PAYLOAD_NONE, FETH_RETH,         OPCODE_FLUSH | ONLY),            \
	REQUEST(transport, WIRE_ATOMIC_WRITE,          "ATOMIC_WRITE",              PAYLOAD_ATOMIC, RETH,            OPCODE_ATOMIC_WRITE | ONLY)

static const struct opcode opcodes[256] = {
	RELIABLE(RC),
	SENDS_AND_WRITES(UC),
	RELIABLE(XRC),

	REQUEST(UD, WIRE_SEND_ONLY,     "SEND_ONLY",     PAYLOAD_UPTO, DETH,       SEND | ONLY),
	REQUEST(UD, WIRE_SEND_ONLY_IMM, "SEND_ONLY_IMM", PAYLOAD_UPTO, DETH_IMMDT, SEND_IMM | ONLY),

	/* Congestion notification, Annex A17.9.3. */
	[WIRE_OPCODE_CNP] = {.name = "CNP", .flags = ONLY, .payload = PAYLOAD_NONE,
			     .headers_length = BTH_END + CNP_RESERVED_LENGTH},
};
/* clang-format on */

/* The responder answers it (IBA 9.7.4.1.2), where there are answers: UC and UD drop it. */
static const struct opcode reserved_opcode = {.name = "RESERVED",
					      .flags = OPCODE_REQUEST | OPCODE_RESERVED,
					      .payload = PAYLOAD_UPTO,
					      NONE(BTH_END)};

static bool is_answered(uint8_t opcode)
{
	uint8_t transport = opcode & WIRE_TRANSPORT_MASK;

	return transport == WIRE_RC || transport == WIRE_XRC;
}

const struct opcode *opcode_find(uint8_t opcode)
{
	const struct opcode *op = &opcodes[opcode];

	return op->name ? op : NULL;
}

/* --- packets ----------------------------------------------------------------- */

int packet_parse(struct packet *packet, const uint8_t *data, size_t length)
{
	const struct opcode *op;
	struct bth bth;
	uint32_t dest, psn;
	uint8_t pad;

	if (length < sizeof(bth) + ICRC_LENGTH)
		return -1;
	memcpy(&bth, data, sizeof(bth)); /* as it is now */
	if (bth.flags & BTH_TVER_MASK)	 /* IBA 9.6.1.1 */
		return -1;

	op = opcode_find(bth.opcode);
	if (!op && is_answered(bth.opcode))
		op = &reserved_opcode;
	if (!op)
		return -1;

	pad = (bth.flags & BTH_PAD_MASK) >> BTH_PAD_SHIFT;
	if (length < (size_t)op->headers_length + pad + ICRC_LENGTH)
		return -1;

	dest = be32toh(bth.dest_qp);
	if ((dest & QPN_MASK) == 0) /* QP 0 is the subnet manager's; RoCE has none */
		return -1;

	psn = be32toh(bth.psn);
	packet->op = op;
	packet->headers = data;
	packet->payload = data + op->headers_length;
	packet->payload_length = length - op->headers_length - pad - ICRC_LENGTH;
	packet->dest_qp = dest & QPN_MASK;
	packet->psn = psn & PSN_MASK;
	packet->pkey = be16toh(bth.pkey);
	packet->opcode = bth.opcode;
	packet->pad = pad;
	packet->solicited = bth.flags & BTH_SOLICITED;
	packet->ack_request = psn & BTH_ACK_REQUEST;
	packet->placed = false;
	return 0;
}

void packet_keep_headers(struct packet *packet)
{
	/*
	 * A dozen bytes mostly, in words. For a memcpy() of unknown length the compiler takes an
	 * instruction that costs as much as the rest of packet_parse().
	 */
	for (uint32_t i = 0; i < packet->op->headers_length; i += sizeof(uint32_t))
		memcpy(packet->kept + i, packet->headers + i, sizeof(uint32_t));
	packet->headers = packet->kept;
}
