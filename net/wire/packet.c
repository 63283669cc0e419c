/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * From bytes of the network to a packet: the opcode table, and the parsing that
 * it drives. The core calls packet_parse() for every frame that arrives, and
 * everything behind it may rely on the headers being there.
 *
 * The table is constant data, IBA 9.2.1 (table 38): which headers follow the BTH,
 * in which order, and how long the payload must be. Absent on purpose: RD (no
 * RoCE device has it) and XRC.
 */
#include "net/wire/wire.h"

/* --- opcodes ----------------------------------------------------------------- */

#define ONLY (OPCODE_FIRST | OPCODE_LAST)

/* Header chains: each names what follows the BTH, in wire order (IBA 9.3). */
enum {
	BTH_END = sizeof(struct bth),
	DETH_END = BTH_END + sizeof(struct deth),
	RETH_END = BTH_END + sizeof(struct reth),
	FETH_END = BTH_END + sizeof(struct feth),
	AETH_END = BTH_END + sizeof(struct aeth),
};

#define NONE .headers_length = BTH_END
#define IMMDT .immdt = BTH_END, .headers_length = BTH_END + sizeof(struct immdt)
#define IETH .ieth = BTH_END, .headers_length = BTH_END + sizeof(struct ieth)
#define RETH .reth = BTH_END, .headers_length = RETH_END
#define RETH_IMMDT                                                                                 \
	.reth = BTH_END, .immdt = RETH_END, .headers_length = RETH_END + sizeof(struct immdt)
#define FETH_RETH                                                                                  \
	.feth = BTH_END, .reth = FETH_END, .headers_length = FETH_END + sizeof(struct reth)
#define ATOMICETH .atomiceth = BTH_END, .headers_length = BTH_END + sizeof(struct atomiceth)
#define AETH .aeth = BTH_END, .headers_length = AETH_END
#define AETH_ATOMICACKETH                                                                          \
	.aeth = BTH_END, .atomicacketh = AETH_END,                                                 \
	.headers_length = AETH_END + sizeof(struct atomicacketh)
#define DETH .deth = BTH_END, .headers_length = DETH_END
#define DETH_IMMDT                                                                                 \
	.deth = BTH_END, .immdt = DETH_END, .headers_length = DETH_END + sizeof(struct immdt)
#define RESERVED .headers_length = BTH_END + CNP_RESERVED_LENGTH

#define ROW(transport, operation, label, payload_rule, chain, bits)                                \
	[WIRE_##transport | (operation)] = {                                                       \
		.name = #transport "_" label, .flags = (bits), .payload = (payload_rule), chain}

#define SEND (OPCODE_REQUEST | OPCODE_SEND)
#define SEND_IMM (SEND | OPCODE_IMMEDIATE)
#define SEND_INV (SEND | OPCODE_INVALIDATE)
#define WRITE (OPCODE_REQUEST | OPCODE_WRITE)
#define WRITE_IMM (WRITE | OPCODE_IMMEDIATE)
#define READ_RESPONSE (OPCODE_RESPONSE | OPCODE_READ)

/* What RC and UC have in common. */
/* clang-format off */
#define SENDS_AND_WRITES(transport)                                                                                             \
	ROW(transport, WIRE_SEND_FIRST,     "SEND_FIRST",          PAYLOAD_FULL, NONE,       SEND | OPCODE_FIRST),              \
	ROW(transport, WIRE_SEND_MIDDLE,    "SEND_MIDDLE",         PAYLOAD_FULL, NONE,       SEND),                             \
	ROW(transport, WIRE_SEND_LAST,      "SEND_LAST",           PAYLOAD_SOME, NONE,       SEND | OPCODE_LAST),               \
	ROW(transport, WIRE_SEND_LAST_IMM,  "SEND_LAST_IMM",       PAYLOAD_SOME, IMMDT,      SEND_IMM | OPCODE_LAST),           \
	ROW(transport, WIRE_SEND_ONLY,      "SEND_ONLY",           PAYLOAD_UPTO, NONE,       SEND | ONLY),                      \
	ROW(transport, WIRE_SEND_ONLY_IMM,  "SEND_ONLY_IMM",       PAYLOAD_UPTO, IMMDT,      SEND_IMM | ONLY),                  \
	ROW(transport, WIRE_WRITE_FIRST,    "RDMA_WRITE_FIRST",    PAYLOAD_FULL, RETH,       WRITE | OPCODE_FIRST),             \
	ROW(transport, WIRE_WRITE_MIDDLE,   "RDMA_WRITE_MIDDLE",   PAYLOAD_FULL, NONE,       WRITE),                            \
	ROW(transport, WIRE_WRITE_LAST,     "RDMA_WRITE_LAST",     PAYLOAD_SOME, NONE,       WRITE | OPCODE_LAST),              \
	ROW(transport, WIRE_WRITE_LAST_IMM, "RDMA_WRITE_LAST_IMM", PAYLOAD_SOME, IMMDT,      WRITE_IMM | OPCODE_LAST),          \
	ROW(transport, WIRE_WRITE_ONLY,     "RDMA_WRITE_ONLY",     PAYLOAD_UPTO, RETH,       WRITE | ONLY),                     \
	ROW(transport, WIRE_WRITE_ONLY_IMM, "RDMA_WRITE_ONLY_IMM", PAYLOAD_UPTO, RETH_IMMDT, WRITE_IMM | ONLY)

static const struct opcode opcodes[256] = {
	SENDS_AND_WRITES(RC),
	ROW(RC, WIRE_READ_REQUEST,         "RDMA_READ_REQUEST",         PAYLOAD_NONE, RETH,              OPCODE_REQUEST | OPCODE_READ | ONLY),
	ROW(RC, WIRE_READ_RESPONSE_FIRST,  "RDMA_READ_RESPONSE_FIRST",  PAYLOAD_FULL, AETH,              READ_RESPONSE | OPCODE_FIRST),
	ROW(RC, WIRE_READ_RESPONSE_MIDDLE, "RDMA_READ_RESPONSE_MIDDLE", PAYLOAD_FULL, NONE,              READ_RESPONSE),
	ROW(RC, WIRE_READ_RESPONSE_LAST,   "RDMA_READ_RESPONSE_LAST",   PAYLOAD_SOME, AETH,              READ_RESPONSE | OPCODE_LAST),
	ROW(RC, WIRE_READ_RESPONSE_ONLY,   "RDMA_READ_RESPONSE_ONLY",   PAYLOAD_UPTO, AETH,              READ_RESPONSE | ONLY),
	ROW(RC, WIRE_ACKNOWLEDGE,          "ACKNOWLEDGE",               PAYLOAD_NONE, AETH,              OPCODE_RESPONSE | OPCODE_ACK | ONLY),
	ROW(RC, WIRE_ATOMIC_ACKNOWLEDGE,   "ATOMIC_ACKNOWLEDGE",        PAYLOAD_NONE, AETH_ATOMICACKETH, OPCODE_RESPONSE | OPCODE_ATOMIC | ONLY),
	ROW(RC, WIRE_COMPARE_SWAP,         "COMPARE_SWAP",              PAYLOAD_NONE, ATOMICETH,         OPCODE_REQUEST | OPCODE_ATOMIC | ONLY),
	ROW(RC, WIRE_FETCH_ADD,            "FETCH_ADD",                 PAYLOAD_NONE, ATOMICETH,         OPCODE_REQUEST | OPCODE_ATOMIC | ONLY),
	ROW(RC, WIRE_SEND_LAST_INVALIDATE, "SEND_LAST_INVALIDATE",      PAYLOAD_SOME, IETH,              SEND_INV | OPCODE_LAST),
	ROW(RC, WIRE_SEND_ONLY_INVALIDATE, "SEND_ONLY_INVALIDATE",      PAYLOAD_UPTO, IETH,              SEND_INV | ONLY),
	/* Annex A19. */
	ROW(RC, WIRE_FLUSH,                "FLUSH",                     PAYLOAD_NONE, FETH_RETH,         OPCODE_REQUEST | OPCODE_FLUSH | ONLY),
	ROW(RC, WIRE_ATOMIC_WRITE,         "ATOMIC_WRITE",              PAYLOAD_ATOMIC, RETH,              OPCODE_REQUEST | OPCODE_ATOMIC_WRITE | ONLY),

	SENDS_AND_WRITES(UC),

	ROW(UD, WIRE_SEND_ONLY,            "SEND_ONLY",                 PAYLOAD_UPTO, DETH,              SEND | ONLY),
	ROW(UD, WIRE_SEND_ONLY_IMM,        "SEND_ONLY_IMM",             PAYLOAD_UPTO, DETH_IMMDT,        SEND_IMM | ONLY),

	/* Congestion notification, Annex A17.9.3. */
	[WIRE_OPCODE_CNP] = {.name = "CNP", .flags = ONLY, .payload = PAYLOAD_NONE, RESERVED},
};
/* clang-format on */

/* The responder answers it (IBA 9.7.4.1.2), on RC alone: UC and UD drop it. */
static const struct opcode reserved_opcode = {.name = "RC_RESERVED",
					      .flags = OPCODE_REQUEST | OPCODE_RESERVED,
					      .payload = PAYLOAD_UPTO,
					      NONE};

const struct opcode *opcode_find(uint8_t opcode)
{
	const struct opcode *op = &opcodes[opcode];

	return op->name ? op : NULL;
}

/* --- packets ----------------------------------------------------------------- */

int packet_parse(struct packet *packet, const uint8_t *data, size_t length)
{
	const struct bth *bth = (const struct bth *)data;
	const struct opcode *op;
	uint32_t dest, psn;
	uint8_t pad;

	if (length < sizeof(*bth) + ICRC_LENGTH)
		return -1;
	if (bth->flags & BTH_TVER_MASK) /* IBA 9.6.1.1 */
		return -1;

	op = opcode_find(bth->opcode);
	if (!op && (bth->opcode & WIRE_TRANSPORT_MASK) == WIRE_RC)
		op = &reserved_opcode;
	if (!op)
		return -1;

	pad = (bth->flags & BTH_PAD_MASK) >> BTH_PAD_SHIFT;
	if (length < (size_t)op->headers_length + pad + ICRC_LENGTH)
		return -1;

	dest = be32toh(bth->dest_qp);
	if ((dest & QPN_MASK) == 0) /* QP 0 is the subnet manager's; RoCE has none */
		return -1;

	psn = be32toh(bth->psn);
	*packet = (struct packet){
		.op = op,
		.headers = data,
		.payload = data + op->headers_length,
		.payload_length = length - op->headers_length - pad - ICRC_LENGTH,
		.dest_qp = dest & QPN_MASK,
		.psn = psn & PSN_MASK,
		.pkey = be16toh(bth->pkey),
		.opcode = bth->opcode,
		.pad = pad,
		.solicited = bth->flags & BTH_SOLICITED,
		.ack_request = psn & BTH_ACK_REQUEST,
	};
	return 0;
}
