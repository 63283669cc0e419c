/* SPDX-License-Identifier: BSD-2-Clause */
#include "emu/transport/responder_datagram.h"

#include <arpa/inet.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>

#include "emu/objects/qp.h"
#include "emu/transport/message.h"
#include "emu/transport/sge.h"

/* --- UC --------------------------------------------------------------------- */

/*
 * IBA 9.8.2.2.1: a gap ends the message in progress, and nothing counts until
 * the next message begins. Returns whether @packet is to be taken.
 */
static bool in_sequence(struct qp *qp, const struct packet *packet)
{
	struct responder *resp = &qp->responder;
	bool expected = packet->psn == resp->expected_psn &&
			message_check_sequence(qp, packet) == FAULT_NONE;

	if (!expected) {
		message_end(qp);
		if (!(packet->op->flags & OPCODE_FIRST))
			return false;
	}
	resp->expected_psn = psn_add(packet->psn, 1);
	return true;
}

static enum fault execute_unreliable(struct qp *qp, const struct packet *packet)
{
	uint16_t flags = packet->op->flags;
	bool receives = (flags & OPCODE_SEND) || (flags & OPCODE_IMMEDIATE);
	enum fault fault;

	if ((flags & OPCODE_WRITE) && !(qp->attr.qp_access_flags & IBV_ACCESS_REMOTE_WRITE))
		return FAULT_QP_ACCESS;
	if (receives && (fault = message_take_receive(qp)) != FAULT_NONE)
		return fault;
	if ((fault = message_check_length(qp, packet)) != FAULT_NONE)
		return fault;
	return message_place(qp, packet);
}

void responder_receive_unreliable(struct qp *qp, const struct packet *packet)
{
	enum fault fault;

	if (!in_sequence(qp, packet))
		return;
	fault = execute_unreliable(qp, packet);
	switch (fault) {
	case FAULT_NONE:
		if (!(packet->op->flags & OPCODE_LAST))
			break;
		if (qp->responder.wqe_taken &&
		    (packet->op->flags & (OPCODE_SEND | OPCODE_IMMEDIATE)))
			message_complete(qp, packet);
		else
			message_end(qp);
		break;
	/* Faults of our own receive are ours to report, IBA 9.8.2.2.1 (class E). */
	case FAULT_RECEIVE_LENGTH:
		message_fail(qp, IBV_WC_LOC_LEN_ERR);
		qp_enter_error(qp);
		break;
	case FAULT_RECEIVE_KEY:
		message_fail(qp, IBV_WC_LOC_PROT_ERR);
		qp_enter_error(qp);
		break;
	default:
		COUNT(qp->hca, dropped_packets, 1);
		message_end(qp);
	}
}

/* --- UD --------------------------------------------------------------------- */

static uint16_t ipv4_checksum(const struct iphdr *header)
{
	const uint16_t *word = (const uint16_t *)header;
	uint32_t sum = 0;

	for (size_t i = 0; i < sizeof(*header) / 2; i++)
		sum += word[i];
	sum = (sum & 0xffff) + (sum >> 16);
	return ~(sum + (sum >> 16));
}

/*
 * The network header as a receive shows it (Annex A17.4.3): IPv6 in all 40
 * bytes, IPv4 in the last 20 with zeros before. Remade from what a UDP socket
 * tells of it.
 */
static void make_grh(uint8_t grh[GRH_LENGTH], const struct link_frame *frame)
{
	memset(grh, 0, GRH_LENGTH);
	if (gid_is_ipv4(&frame->source)) {
		struct iphdr header = {
			.version = 4,
			.ihl = 5,
			.tos = frame->traffic_class,
			.tot_len = htons(sizeof(header) + 8 + frame->length),
			.id = htons(frame->ip_id == IP_ID_UNKNOWN ? 0 : frame->ip_id),
			.frag_off = htons(0x4000),
			.ttl = frame->hop_limit,
			.protocol = IPPROTO_UDP,
		};

		memcpy(&header.saddr, frame->source.raw + 12, 4);
		memcpy(&header.daddr, frame->destination.raw + 12, 4);
		header.check = ipv4_checksum(&header);
		memcpy(grh + 20, &header, sizeof(header));
	} else {
		struct ip6_hdr header = {0};

		header.ip6_flow = htonl(6u << 28 | (uint32_t)frame->traffic_class << 20);
		header.ip6_plen = htons(8 + frame->length);
		header.ip6_nxt = IPPROTO_UDP;
		header.ip6_hlim = frame->hop_limit;
		memcpy(&header.ip6_src, frame->source.raw, 16);
		memcpy(&header.ip6_dst, frame->destination.raw, 16);
		memcpy(grh, &header, sizeof(header));
	}
}

/*
 * RoCE has no service levels. In their place ConnectX says what kind of header the
 * GRH is, and UCX looks there to tell IPv4 from IPv6: without it none of its
 * datagrams arrives, hence no MPI.
 */
enum { KIND_IPV6 = 1, KIND_IPV4 = 2 };

void responder_receive_datagram(struct qp *qp, const struct packet *packet,
				const struct link_frame *frame)
{
	struct responder *resp = &qp->responder;
	uint8_t grh[GRH_LENGTH];

	/* IBA 9.6.1.4: the Q_Key is the last thing checked before the payload. */
	if (be32toh(packet_deth(packet)->qkey) != qp->attr.qkey) {
		COUNT(qp->hca, bad_qkey, 1);
		return;
	}
	if (message_check_length(qp, packet) != FAULT_NONE ||
	    message_take_receive(qp) != FAULT_NONE) {
		COUNT(qp->hca, dropped_packets, 1);
		return;
	}
	/* As NICs do: a receive without room for header and payload is an error (transport.md 8).
	 */
	if (packet->payload_length + GRH_LENGTH > resp->wqe.length) {
		message_fail(qp, IBV_WC_LOC_LEN_ERR);
		qp_enter_error(qp);
		return;
	}
	make_grh(grh, frame);
	if (sge_scatter(qp->hca, message_receive_pd(qp), resp->wqe.sge, resp->wqe.num_sge, 0, grh,
			GRH_LENGTH) != 0 ||
	    sge_scatter(qp->hca, message_receive_pd(qp), resp->wqe.sge, resp->wqe.num_sge,
			GRH_LENGTH, packet->payload, packet->payload_length) != 0) {
		message_fail(qp, IBV_WC_LOC_PROT_ERR);
		qp_enter_error(qp);
		return;
	}
	resp->received = packet->payload_length + GRH_LENGTH;
	resp->received_kind = gid_is_ipv4(&frame->source) ? KIND_IPV4 : KIND_IPV6;
	message_complete(qp, packet);
}
