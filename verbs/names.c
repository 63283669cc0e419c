/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Names and rates, in the words of the real library. No objects, no state: these
 * work on hosts that have no rdma-core.
 */
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include "net/newer_verbs.h"
#include "net/verbs_text.h"
#include "verbs/preload/export.h"
#include "verbs/rdma/rdma.h"

#define COUNT(array) (int)(sizeof(array) / sizeof(*(array)))
#define NAME(names, index, unknown)                                                                \
	((int)(index) >= 0 && (int)(index) < COUNT(names) && (names)[index] ? (names)[index]       \
									    : (unknown))

EXPORT const char *ibv_node_type_str(enum ibv_node_type node_type)
{
	static const char *const names[] = {
		[IBV_NODE_CA] = "InfiniBand channel adapter",
		[IBV_NODE_SWITCH] = "InfiniBand switch",
		[IBV_NODE_ROUTER] = "InfiniBand router",
		[IBV_NODE_RNIC] = "iWARP NIC",
		[IBV_NODE_USNIC] = "usNIC",
		[IBV_NODE_USNIC_UDP] = "usNIC UDP",
		[IBV_NODE_UNSPECIFIED] = "unspecified",
	};

	return NAME(names, node_type, "unknown");
}

EXPORT const char *ibv_port_state_str(enum ibv_port_state port_state)
{
	static const char *const names[] = {
		[IBV_PORT_NOP] = "no state change (NOP)",
		[IBV_PORT_DOWN] = "down",
		[IBV_PORT_INIT] = "init",
		[IBV_PORT_ARMED] = "armed",
		[IBV_PORT_ACTIVE] = "active",
		[IBV_PORT_ACTIVE_DEFER] = "active defer",
	};

	return NAME(names, port_state, "unknown");
}

EXPORT const char *ibv_event_type_str(enum ibv_event_type event)
{
	const struct verbs_text *text = event_type_text(event);

	return text ? text->text : "unknown";
}

EXPORT const char *ibv_wc_status_str(enum ibv_wc_status status)
{
	const struct verbs_text *text = wc_status_text(status);

	return text ? text->text : "unknown";
}

/* Newer headers declare it, though it has no version that stays. */
EXPORT const char *ibv_wr_opcode_str(enum ibv_wr_opcode opcode);
EXPORT const char *ibv_wr_opcode_str(enum ibv_wr_opcode opcode)
{
	static const char *const names[] = {
		[IBV_WR_RDMA_WRITE] = "rdma-write",
		[IBV_WR_RDMA_WRITE_WITH_IMM] = "rdma-write-with-imm",
		[IBV_WR_SEND] = "send",
		[IBV_WR_SEND_WITH_IMM] = "send-with-imm",
		[IBV_WR_RDMA_READ] = "rdma-read",
		[IBV_WR_ATOMIC_CMP_AND_SWP] = "atomic-cmp-and-swp",
		[IBV_WR_ATOMIC_FETCH_AND_ADD] = "atomic-fetch-and-add",
		[IBV_WR_LOCAL_INV] = "local-inv",
		[IBV_WR_BIND_MW] = "bind-mw",
		[IBV_WR_SEND_WITH_INV] = "send-with-inv",
		[IBV_WR_TSO] = "tso",
		[IBV_WR_DRIVER1] = "driver1",
		[WR_FLUSH] = "flush",
		[IBV_WR_ATOMIC_WRITE] = "atomic-write",
	};

	return NAME(names, opcode, "unknown");
}

EXPORT const char *rdma_event_str(enum rdma_cm_event_type event)
{
	static const char *const names[] = {
#define EVENT(name) [RDMA_CM_EVENT_##name] = "RDMA_CM_EVENT_" #name
		EVENT(ADDR_RESOLVED),
		EVENT(ADDR_ERROR),
		EVENT(ROUTE_RESOLVED),
		EVENT(ROUTE_ERROR),
		EVENT(CONNECT_REQUEST),
		EVENT(CONNECT_RESPONSE),
		EVENT(CONNECT_ERROR),
		EVENT(UNREACHABLE),
		EVENT(REJECTED),
		EVENT(ESTABLISHED),
		EVENT(DISCONNECTED),
		EVENT(DEVICE_REMOVAL),
		EVENT(MULTICAST_JOIN),
		EVENT(MULTICAST_ERROR),
		EVENT(ADDR_CHANGE),
		EVENT(TIMEWAIT_EXIT),
#undef EVENT
		[RDMA_EVENT_ADDRINFO_RESOLVED] = "RDMA_CM_EVENT_ADDRINFO_RESOLVED",
		[RDMA_EVENT_ADDRINFO_ERROR] = "RDMA_CM_EVENT_ADDRINFO_ERROR",
		[RDMA_EVENT_USER] = "RDMA_CM_EVENT_USER",
	};

	return NAME(names, event, "UNKNOWN EVENT");
}

/* --- rates --------------------------------------------------------------------- */

/* mult: of 2.5 Gbit/s, or -1 where the rate is none of its multiples. */
static const struct rate {
	enum ibv_rate rate;
	int mult, mbps;
} rates[] = {
	{IBV_RATE_2_5_GBPS, 1, 2500},	    {IBV_RATE_5_GBPS, 2, 5000},
	{IBV_RATE_10_GBPS, 4, 10000},	    {IBV_RATE_20_GBPS, 8, 20000},
	{IBV_RATE_30_GBPS, 12, 30000},	    {IBV_RATE_40_GBPS, 16, 40000},
	{IBV_RATE_60_GBPS, 24, 60000},	    {IBV_RATE_80_GBPS, 32, 80000},
	{IBV_RATE_120_GBPS, 48, 120000},    {IBV_RATE_14_GBPS, -1, 14062},
	{IBV_RATE_56_GBPS, -1, 56250},	    {IBV_RATE_112_GBPS, -1, 112500},
	{IBV_RATE_168_GBPS, -1, 168750},    {IBV_RATE_25_GBPS, -1, 25781},
	{IBV_RATE_100_GBPS, -1, 103125},    {IBV_RATE_200_GBPS, -1, 206250},
	{IBV_RATE_300_GBPS, -1, 309375},    {IBV_RATE_28_GBPS, 11, 28125},
	{IBV_RATE_50_GBPS, 20, 53125},	    {IBV_RATE_400_GBPS, 160, 425000},
	{IBV_RATE_600_GBPS, 240, 637500},   {IBV_RATE_800_GBPS, 320, 850000},
	{IBV_RATE_1200_GBPS, 480, 1275000},
};

EXPORT int ibv_rate_to_mult(enum ibv_rate rate)
{
	for (int i = 0; i < COUNT(rates); i++) {
		if (rates[i].rate == rate)
			return rates[i].mult;
	}
	return -1;
}

EXPORT enum ibv_rate mult_to_ibv_rate(int mult)
{
	for (int i = 0; i < COUNT(rates); i++) {
		if (rates[i].mult == mult && mult > 0)
			return rates[i].rate;
	}
	return IBV_RATE_MAX;
}

EXPORT int ibv_rate_to_mbps(enum ibv_rate rate)
{
	for (int i = 0; i < COUNT(rates); i++) {
		if (rates[i].rate == rate)
			return rates[i].mbps;
	}
	return -1;
}

EXPORT enum ibv_rate mbps_to_ibv_rate(int mbps)
{
	for (int i = 0; i < COUNT(rates); i++) {
		if (rates[i].mbps == mbps)
			return rates[i].rate;
	}
	return IBV_RATE_MAX;
}
