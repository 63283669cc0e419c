/* SPDX-License-Identifier: BSD-2-Clause */
/* Every cause of a packet that a queue pair doesn't take (net/cause/responder.def, 0x27xx). */
#include "causes.h"

static void come(struct peer_packet packet)
{
	causes_peer(IBV_QPT_RC, NULL);
	causes_request(&packet);
	ck_assert_int_eq(peer.qp->state, IBV_QPS_RTS);
	ck_assert_uint_eq(peer.node->hca->counters->dropped_packets, 1);
}

static void no_qp(void)
{
	come((struct peer_packet){RC(WIRE_SEND_ONLY), .length = 4, .qpn = 0xfffff0});
}

static void another_transport(void)
{
	come((struct peer_packet){.opcode = WIRE_UC | WIRE_SEND_ONLY, .length = 4});
}

static void state(void)
{
	const struct peer_packet packet = {RC(WIRE_SEND_ONLY), .length = 4};

	causes_peer(IBV_QPT_RC, NULL);
	world_modify_state(peer.qp, IBV_QPS_ERR);
	causes_request(&packet);
}

static void another_path(void)
{
	struct peer_packet packet = {RC(WIRE_SEND_ONLY), .length = 4};
	struct path path;

	causes_peer(IBV_QPT_RC, NULL);
	path = peer.path;
	path.source.raw[15]++;
	packet.path = &path;
	causes_request(&packet);
}

static void pkey(void)
{
	come((struct peer_packet){RC(WIRE_SEND_ONLY), .length = 4, .pkey = 0x8001});
}

static void icrc(void)
{
	const struct peer_packet packet = {RC(WIRE_SEND_ONLY), .length = 4, .bad_icrc = true};

	causes_peer(IBV_QPT_RC, NULL);
	causes_request(&packet);
}

/* clang-format off */
static const struct cause_row rows[] = {
	{CAUSE_DROPPED_NO_QP, no_qp, "RC_SEND_ONLY, PSN 16777200, payload of 4 bytes for QP 0xfffff0"},
	{CAUSE_DROPPED_TRANSPORT, another_transport, "UC_SEND_ONLY"},
	{CAUSE_DROPPED_STATE, state, " in ERR: RC_SEND_ONLY"},
	{CAUSE_DROPPED_PATH, another_path, "from 10.0.255.2 to 10.0.0.1"},
	{CAUSE_DROPPED_PKEY, pkey, "P_Key 0x8001"},
	{CAUSE_DROPPED_ICRC, icrc, "P_Key 0xffff, from 10.0.255.1 to 10.0.0.1"},
};
/* clang-format on */

static const struct cause_table table = {
	.name = "causes_drop",
	.first = 0x2700,
	.last = 0x2fff,
	.rows = rows,
	.count = sizeof(rows) / sizeof(rows[0]),
};

int main(void)
{
	return causes_main(&table);
}
