/* SPDX-License-Identifier: BSD-2-Clause */
#include "emu/explain/responder.h"

#include <limits.h>

#include "emu/explain/denial.h"
#include "emu/explain/text.h"
#include "emu/objects/pd.h"
#include "emu/objects/qp.h"
#include "emu/objects/srq.h"
#include "emu/objects/xrcd.h"
#include "net/newer_verbs.h"
#include "net/qp_text.h"

/* --- the packet and the QP --------------------------------------------------------------- */

static void find_sequence(struct qp *qp, const struct packet *packet, struct finding *finding)
{
	const struct message *message = &qp->responder.message;

	if (packet->op->flags & OPCODE_RESERVED)
		finding_set(finding, CAUSE_OPCODE_RESERVED, "opcode 0x%02x", packet->opcode);
	else if (message->kind == MESSAGE_NONE)
		finding_set(finding, CAUSE_OPCODE_SEQUENCE, "no message is in progress");
	else if (!message_continues(message, packet))
		finding_set(finding, CAUSE_OPCODE_SEQUENCE,
			    "a %s is in progress, of which %llu bytes have come",
			    message->kind == MESSAGE_SEND ? "SEND" : "WRITE",
			    (unsigned long long)message->received);
	else
		finding_set(finding, CAUSE_XRC_OTHER_SRQ, "the message in progress is for SRQ 0x%x",
			    message->srq_number);
}

static void find_qp_access(struct qp *qp, const struct packet *packet, struct finding *finding)
{
	unsigned int needed = responder_needs(packet);
	struct text text = TEXT_OF(finding);

	if (needed == UINT_MAX) {
		finding_set(finding, CAUSE_FLUSH_TYPE, "placement type 0x%x, selectivity %u",
			    packet_flush_placement(packet), packet_flush_selectivity(packet));
		return;
	}
	if (needed == IBV_ACCESS_REMOTE_ATOMIC &&
	    qp->hca->limits.device.atomic_cap == IBV_ATOMIC_NONE) {
		finding_set(finding, CAUSE_QP_ACCESS, "the device has no atomics (atomic_cap)");
		return;
	}
	finding->cause =
		needed & ACCESS_FLUSH_PERSISTENT ? CAUSE_FLUSH_PERSISTENT : CAUSE_QP_ACCESS;
	text_add(&text, "it needs ");
	text_add_access(&text, needed);
	text_add(&text, "; qp_access_flags has ");
	text_add_access(&text, qp->attr.qp_access_flags);
}

static void find_srq(struct qp *qp, const struct packet *packet, struct finding *finding)
{
	uint32_t number = packet_xrc_srq(packet);
	bool known = table_get(&qp->hca->srqs, number);

	if (known)
		table_put(&qp->hca->srqs, number);
	if (known)
		finding_set(finding, CAUSE_XRC_OTHER_DOMAIN,
			    "SRQ 0x%x is of another domain than the QP", number);
	else
		finding_set(finding, CAUSE_XRC_NO_SRQ, "no XRC SRQ has the number 0x%x", number);
}

static void find_resources(struct qp *qp, const struct packet *packet, struct finding *finding)
{
	uint32_t capacity = qp->responder.response.capacity;

	finding_set(finding, capacity ? CAUSE_TOO_MANY_RD_ATOMIC : CAUSE_NO_RD_RESOURCES,
		    "max_dest_rd_atomic is %u", capacity);
}

/* Whether that the payload has the wrong length is due to the path MTU. */
static bool differs_from_mtu(const struct qp *qp, const struct packet *packet)
{
	switch (packet->op->payload) {
	case PAYLOAD_FULL:
		return packet->payload_length != qp->mtu;
	case PAYLOAD_SOME:
	case PAYLOAD_UPTO:
		return packet->payload_length > qp->mtu;
	default:
		return false;
	}
}

static void find_length(struct qp *qp, const struct packet *packet, struct finding *finding)
{
	const struct message *message = &qp->responder.message;
	uint32_t length = packet->payload_length;
	uint64_t named = packet->op->reth ? be32toh(packet_reth(packet)->length) : message->length;

	if (!responder_payload_fits(qp, packet))
		finding_set(finding,
			    differs_from_mtu(qp, packet) ? CAUSE_PATH_MTU_DIFFERS
							 : CAUSE_PAYLOAD_LENGTH,
			    "a payload of %u bytes and %u of padding; the path MTU here is %u",
			    length, packet->pad, qp->mtu);
	else if (named > WIRE_MESSAGE_MAX)
		finding_set(finding, CAUSE_REQUEST_TOO_LONG, "%llu bytes",
			    (unsigned long long)named);
	else
		finding_set(finding, CAUSE_LENGTH_DIFFERS,
			    "its RETH says %llu bytes, and there are %llu with this packet",
			    (unsigned long long)named,
			    (unsigned long long)message->received + length);
}

/* --- memory that the peer names ------------------------------------------------------------ */

struct range {
	uint32_t key;
	uint64_t va, length;
	uint64_t offset, part; /* of it, what this packet is about */
};

static struct range range_of(const struct qp *qp, const struct packet *packet)
{
	const struct message *message = &qp->responder.message;
	struct range range = {};

	if (packet->op->flags & OPCODE_WRITE)
		return (struct range){message->rkey, message->va, message->length,
				      message->received, packet->payload_length};
	if (packet->op->atomiceth) {
		const struct atomiceth *eth = packet_atomiceth(packet);

		range = (struct range){be32toh(eth->rkey), be64toh(eth->va), ATOMIC_LENGTH};
	} else if (packet->op->reth) {
		const struct reth *reth = packet_reth(packet);

		range = (struct range){be32toh(reth->rkey), be64toh(reth->va),
				       be32toh(reth->length)};
	}
	range.part = range.length;
	return range;
}

static void find_memory(struct qp *qp, const struct packet *packet, struct finding *finding)
{
	const struct key_use use = {
		.hca = qp->hca,
		.pd_handle = pd_handle(message_pd(&qp->responder.message, qp)),
		.qp = qp,
		.side = KEY_OF_PEER,
		.access = responder_needs(packet),
		.whole =
			packet->op->feth && packet_flush_selectivity(packet) == FETH_SELECTIVITY_MR,
	};
	struct range range = range_of(qp, packet);

	if (!denial_of_key(&use, range.key, range.va, range.length, finding) &&
	    !denial_of_memory(&use, range.key, range.va + range.offset, range.part, finding))
		denial_is_over(&use, finding);
}

static void find_alignment(struct qp *qp, const struct packet *packet, struct finding *finding)
{
	struct range range = range_of(qp, packet);

	if (range.va % ATOMIC_LENGTH)
		finding_set(finding, CAUSE_ATOMIC_UNALIGNED, "0x%llx is %llu bytes beyond one",
			    (unsigned long long)range.va,
			    (unsigned long long)range.va % ATOMIC_LENGTH);
	else
		finding_set(finding, CAUSE_ATOMIC_MEMORY_UNALIGNED,
			    "the memory that rkey 0x%x has at 0x%llx", range.key,
			    (unsigned long long)range.va);
}

/* --- the receive ----------------------------------------------------------------------------- */

static void find_receive_length(struct qp *qp, const struct packet *packet, struct finding *finding)
{
	const struct message *message = &qp->responder.message;

	if (qp->type->connected)
		finding_set(finding, CAUSE_RECEIVE_TOO_SHORT,
			    "the receive has %u bytes, the message at least %llu",
			    message->wqe.length,
			    (unsigned long long)message->received + packet->payload_length);
	else
		finding_set(finding, CAUSE_RECEIVE_TOO_SHORT_FOR_GRH,
			    "the receive has %u bytes, the message %u and %d of GRH",
			    message->wqe.length, packet->payload_length, GRH_LENGTH);
}

static void find_receive_memory(struct qp *qp, const struct packet *packet, struct finding *finding)
{
	const struct message *message = &qp->responder.message;
	const struct key_use use = {
		.hca = qp->hca,
		.pd_handle = pd_handle(message_receive_pd(message, qp)),
		.side = KEY_OF_RECEIVE,
		.access = IBV_ACCESS_LOCAL_WRITE,
	};
	uint64_t offset = message->received, length = packet->payload_length;

	if (!qp->type->connected) {
		offset = 0;
		length += GRH_LENGTH;
	}
	if (!denial_of_sges(&use, message->wqe.sge, message->wqe.num_sge, offset, length, true,
			    finding))
		denial_is_over(&use, finding);
}

/* --------------------------------------------------------------------------------------------- */

/* XRC: another process has looked at the packet, and said no more than the fault. */
static bool is_from_elsewhere(const struct qp *qp, const struct packet *packet)
{
	return qp->xrc_domain && qp->xrc.answered && qp->xrc.psn == packet->psn;
}

static void find_invalidation(struct qp *qp, const struct packet *packet, struct finding *finding)
{
	denial_of_invalidation(qp, packet_invalidate_rkey(packet), KEY_OF_PEER, finding);
}

static void find_lost_memory(struct qp *qp, const struct packet *packet, struct finding *finding)
{
	if (qp->xrc_domain && !qp->responder.message.srq)
		finding_set(finding, CAUSE_XRC_DATA_ELSEWHERE, "SRQ 0x%x", packet_xrc_srq(packet));
	else
		find_memory(qp, packet, finding);
}

typedef void (*finder)(struct qp *qp, const struct packet *packet, struct finding *finding);

/* Of the others it is find_memory(). */
static const finder finders[RESPONDER_FAULT_COUNT] = {
	[RESPONDER_FAULT_SEQUENCE] = find_sequence,
	[RESPONDER_FAULT_QP_ACCESS] = find_qp_access,
	[RESPONDER_FAULT_XRC] = find_srq,
	[RESPONDER_FAULT_RESOURCES] = find_resources,
	[RESPONDER_FAULT_LENGTH] = find_length,
	[RESPONDER_FAULT_ALIGNMENT] = find_alignment,
	[RESPONDER_FAULT_RECEIVE_LENGTH] = find_receive_length,
	[RESPONDER_FAULT_RECEIVE_KEY] = find_receive_memory,
	[RESPONDER_FAULT_MEMORY] = find_lost_memory,
	[RESPONDER_FAULT_INVALIDATE] = find_invalidation,
};

static void find_cause(struct qp *qp, const struct packet *packet, enum responder_fault fault,
		       struct finding *finding)
{
	if (is_from_elsewhere(qp, packet))
		finding_set(finding, CAUSE_XRC_REFUSED_ELSEWHERE, "SRQ 0x%x",
			    packet_xrc_srq(packet));
	else if (finders[fault])
		finders[fault](qp, packet, finding);
	else
		find_memory(qp, packet, finding);
}

/* Behind what was found: lines of "refused PACKET, receive wr_id N" and of the QP. */
static void add_place(struct finding *finding, const struct qp *qp, const struct packet *packet,
		      const char *verb)
{
	const struct message *message = &qp->responder.message;
	struct text text = TEXT_OF(finding);

	text_add(&text, CAUSE_LINE "%s ", verb);
	text_add_packet(&text, packet);
	if (message->has_receive)
		text_add(&text, ", receive wr_id %llu of %u bytes",
			 (unsigned long long)message->wqe.wr_id, message->wqe.length);
	text_add(&text, CAUSE_LINE);
	text_add_qp(&text, qp);
}

enum cause explain_fault(struct qp *qp, const struct packet *packet, enum responder_fault fault)
{
	struct finding finding = {};

	if (fault == RESPONDER_FAULT_INJECTED)
		return CAUSE_INJECTED_RECEIVE; /* reported when the receive was taken */
	find_cause(qp, packet, fault, &finding);
	if (!cause_wanted(finding.cause))
		return finding.cause;
	add_place(&finding, qp, packet, "refused");
	cause_report_text(finding.cause, finding.text);
	return finding.cause;
}

void explain_answer(struct qp *qp, const struct responder_resource *resource)
{
	const struct key_use use = {
		.hca = qp->hca,
		.pd_handle = resource->pd_handle,
		.qp = qp,
		.side = KEY_OF_PEER,
		.access = IBV_ACCESS_REMOTE_READ,
	};
	uint64_t offset = (uint64_t)resource->ranges[0].next * qp->mtu;
	uint32_t length = message_part(resource->length, offset, qp->mtu);
	uint64_t va = resource->va + offset;
	struct finding finding = {};
	struct text text;

	if (!denial_of_key(&use, resource->rkey, va, length, &finding) &&
	    !denial_of_memory(&use, resource->rkey, va, length, &finding))
		denial_is_over(&use, &finding);
	if (!cause_wanted(finding.cause))
		return;
	text = TEXT_OF(&finding);
	text_add(&text,
		 CAUSE_LINE
		 "while a READ of %u bytes at 0x%llx, PSN %u, was answered, packet %u" CAUSE_LINE,
		 resource->length, (unsigned long long)resource->va, resource->first_psn,
		 resource->ranges[0].next + 1);
	text_add_qp(&text, qp);
	cause_report_text(finding.cause, finding.text);
}

void explain_receive_flush(const struct qp *qp, unsigned int count)
{
	struct finding finding = {};
	struct text text = TEXT_OF(&finding);

	if (!count || !cause_wanted(CAUSE_RECEIVE_FLUSHED))
		return;
	text_add_qp(&text, qp);
	text_add(&text, ": %u receives", count);
	cause_report_text(CAUSE_RECEIVE_FLUSHED, finding.text);
}

/* --- what no application hears of ------------------------------------------------------- */

void explain_no_receive(struct qp *qp, const struct packet *packet)
{
	enum cause cause = qp->type->reliable ? CAUSE_NO_RECEIVE : CAUSE_UNRELIABLE_NO_RECEIVE;
	struct finding finding = {};

	if (!cause_wanted(cause))
		return;
	finding_set(&finding, cause, "the %s is empty",
		    qp->srq || qp->xrc_domain ? "SRQ" : "receive queue");
	add_place(&finding, qp, packet, qp->type->reliable ? "put off" : "dropped");
	cause_report_text(cause, finding.text);
}

void explain_drop(struct qp *qp, const struct packet *packet, enum responder_fault fault)
{
	struct finding finding = {};
	enum cause cause;

	if (fault == RESPONDER_FAULT_NO_RECEIVE) {
		explain_no_receive(qp, packet);
		return;
	}
	if (!cause_wanted(CAUSE_UNRELIABLE_DROPPED))
		return;
	find_cause(qp, packet, fault, &finding);
	cause = finding.cause;
	finding_set(&finding, CAUSE_UNRELIABLE_DROPPED, " (0x%04x %s)", cause,
		    cause_find(cause)->title);
	add_place(&finding, qp, packet, "dropped");
	cause_report_text(CAUSE_UNRELIABLE_DROPPED, finding.text);
}

void explain_bad_qkey(struct qp *qp, const struct packet *packet)
{
	struct finding finding = {};

	if (!cause_wanted(CAUSE_DATAGRAM_QKEY))
		return;
	finding_set(&finding, CAUSE_DATAGRAM_QKEY, "its Q_Key is 0x%x, the queue pair's 0x%x",
		    be32toh(packet_deth(packet)->qkey), qp->attr.qkey);
	add_place(&finding, qp, packet, "dropped");
	cause_report_text(CAUSE_DATAGRAM_QKEY, finding.text);
}

void explain_ignored(const struct qp *qp, enum cause cause, const struct packet *packet,
		     const struct link_frame *frame)
{
	struct finding finding = {};
	struct text text = TEXT_OF(&finding);

	if (!cause_wanted(cause))
		return;
	if (qp) {
		text_add_qp(&text, qp);
		text_add(&text, " in %s: ", qp_state_text(qp->state));
	}
	text_add_packet(&text, packet);
	text_add(&text, " for QP 0x%x, P_Key 0x%04x, from ", packet->dest_qp, packet->pkey);
	text_add_gid(&text, &frame->source);
	text_add(&text, " to ");
	text_add_gid(&text, &frame->destination);
	cause_report_text(cause, finding.text);
}
