/* SPDX-License-Identifier: BSD-2-Clause */
#include "emu/transport/rd_atomic.h"

#include <limits.h>

#include "emu/objects/pd.h"
#include "emu/objects/qp_show.h"
#include "emu/transport/placement.h"
#include "net/fence.h"
#include "net/guard.h"
#include "net/newer_verbs.h"

/* IBA 9.7.5.1.6 (C9-148): a READ or atomic is counted when it is accepted. */
static void accept_request(struct qp *qp, const struct packet *packet,
			   struct responder_resource *resource, uint32_t psn_count)
{
	struct responder *resp = &qp->responder;

	resource->opcode = packet->opcode & WIRE_OPERATION_MASK;
	resource->first_psn = packet->psn;
	resource->psn_count = psn_count;
	resp->msn = psn_add(resp->msn, 1);
	resource->msn = resp->msn;
	resp->expected_psn = psn_add(packet->psn, psn_count);
	response_answer(qp, resource);
}

static enum responder_fault execute_read(struct qp *qp, const struct packet *packet)
{
	struct responder *resp = &qp->responder;
	const struct reth *reth = packet_reth(packet);
	uint32_t length = be32toh(reth->length), rkey = be32toh(reth->rkey);
	uint64_t va = be64toh(reth->va);
	struct responder_resource *resource;

	if (length > WIRE_MESSAGE_MAX)
		return RESPONDER_FAULT_LENGTH; /* IBA 9.7.4.1.6 */
	if (length > 0 &&
	    !message_remote_memory(&resp->message, qp, rkey, va, length, IBV_ACCESS_REMOTE_READ))
		return RESPONDER_FAULT_KEY; /* IBA 9.7.4.1.5 */
	if (length == 0 && !message_nothing_allowed(qp, rkey, IBV_ACCESS_REMOTE_READ))
		return RESPONDER_FAULT_KEY;
	resource = response_new_resource(&resp->response);
	if (!resource)
		return RESPONDER_FAULT_RESOURCES;
	resource->pd = message_pd(&resp->message, qp);
	resource->pd_handle = pd_handle(resource->pd);
	resource->va = va;
	resource->rkey = rkey;
	resource->length = length;
	qp_show_answered(qp, length);
	accept_request(qp, packet, resource, message_packets(length, qp->mtu));
	return RESPONDER_FAULT_NONE;
}

/* --- atomics ----------------------------------------------------------------------------- */

/* The eight bytes that a request names, about to be written, and what its answer is kept in. */
static enum responder_fault get_target(struct qp *qp, uint64_t va, uint32_t rkey, int access,
				       uint64_t **target, struct responder_resource **resource)
{
	struct responder *resp = &qp->responder;

	if (va % ATOMIC_LENGTH != 0)
		return RESPONDER_FAULT_ALIGNMENT; /* IBA 9.4.5 */
	*target = (uint64_t *)message_remote_memory(&resp->message, qp, rkey, va, ATOMIC_LENGTH,
						    access);
	if (!*target)
		return RESPONDER_FAULT_KEY; /* IBA 9.7.4.1.5 */
	if ((uintptr_t)*target % ATOMIC_LENGTH != 0)
		return RESPONDER_FAULT_ALIGNMENT; /* the iova is aligned, the memory isn't */
	*resource = response_new_resource(&resp->response);
	if (!*resource)
		return RESPONDER_FAULT_RESOURCES;
	return RESPONDER_FAULT_NONE;
}

/* 0, or what mr_fault() returns. */
static int change_target(struct qp *qp, uint64_t *target, void (*apply)(void *context),
			 void *context)
{
	const struct iovec memory = {target, sizeof(*target)};
	bool changed;

	WATCH(qp->hca, written, target, ATOMIC_LENGTH);
	changed = guard_run(&memory, 1, apply, context, NULL);
	WATCH(qp->hca, written, target, ATOMIC_LENGTH);
	return changed ? 0 : mr_fault(&qp->responder.message.pin);
}

struct atomic {
	uint64_t *target;
	uint64_t operand, compare;
	bool add;
	uint64_t original; /* what was there before */
};

static void apply_atomic(void *context)
{
	struct atomic *atomic = context;

	if (atomic->add) {
		atomic->original =
			__atomic_fetch_add(atomic->target, atomic->operand, __ATOMIC_SEQ_CST);
		return;
	}
	atomic->original = atomic->compare;
	__atomic_compare_exchange_n(atomic->target, &atomic->original, atomic->operand, false,
				    __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

/* 0, or what mr_fault() returns. */
static int try_atomic(struct qp *qp, uint64_t *target, const struct packet *packet,
		      uint64_t *original)
{
	const struct atomiceth *eth = packet_atomiceth(packet);
	struct atomic atomic = {
		.target = target,
		.operand = be64toh(eth->swap_or_add),
		.compare = be64toh(eth->compare),
		.add = (packet->opcode & WIRE_OPERATION_MASK) == WIRE_FETCH_ADD,
	};
	int error = change_target(qp, target, apply_atomic, &atomic);

	if (!error)
		*original = atomic.original;
	return error;
}

static enum responder_fault execute_atomic(struct qp *qp, const struct packet *packet)
{
	const struct atomiceth *eth = packet_atomiceth(packet);
	struct responder_resource *resource;
	enum responder_fault fault;
	uint64_t *target;
	int error;

	if (qp->hca->limits.device.atomic_cap == IBV_ATOMIC_NONE)
		return RESPONDER_FAULT_QP_ACCESS;
	fault = get_target(qp, be64toh(eth->va), be32toh(eth->rkey), IBV_ACCESS_REMOTE_ATOMIC,
			   &target, &resource);
	if (fault != RESPONDER_FAULT_NONE)
		return fault;
	error = try_atomic(qp, target, packet, &resource->original);
	if (error)
		return memory_fault(error);
	qp_show_answered(qp, ATOMIC_LENGTH);
	accept_request(qp, packet, resource, 1);
	return RESPONDER_FAULT_NONE;
}

/* --- Annex A19 ----------------------------------------------------------------------- */

struct atomic_write {
	uint64_t *target;
	uint64_t value;
};

/* A reader sees all of the eight bytes or none. */
static void apply_atomic_write(void *context)
{
	struct atomic_write *write = context;

	__atomic_store_n(write->target, write->value, __ATOMIC_SEQ_CST);
}

/* 0, or what mr_fault() returns. */
static int try_atomic_write(struct qp *qp, uint64_t *target, const struct packet *packet)
{
	struct atomic_write write = {.target = target};

	memcpy(&write.value, packet->payload, sizeof(write.value));
	return change_target(qp, target, apply_atomic_write, &write);
}

/* Unlike an RDMA WRITE it names memory that is aligned, and is written at once. */
static enum responder_fault execute_atomic_write(struct qp *qp, const struct packet *packet)
{
	const struct reth *reth = packet_reth(packet);
	struct responder_resource *resource;
	enum responder_fault fault;
	uint64_t *target;
	int error;

	if (be32toh(reth->length) != ATOMIC_LENGTH)
		return RESPONDER_FAULT_LENGTH;
	fault = get_target(qp, be64toh(reth->va), be32toh(reth->rkey), IBV_ACCESS_REMOTE_WRITE,
			   &target, &resource);
	if (fault != RESPONDER_FAULT_NONE)
		return fault;
	error = try_atomic_write(qp, target, packet);
	if (error)
		return memory_fault(error);
	qp_show_received(qp, ATOMIC_LENGTH);
	accept_request(qp, packet, resource, 1);
	return RESPONDER_FAULT_NONE;
}

unsigned int flush_access(const struct packet *packet)
{
	/* By placement type; the others are reserved, and one there must be. */
	static const unsigned int access[FETH_PLACEMENT_MASK + 1] = {
		[FETH_PLACEMENT_GLOBAL] = ACCESS_FLUSH_GLOBAL,
		[FETH_PLACEMENT_PERSISTENT] = ACCESS_FLUSH_PERSISTENT,
		[FETH_PLACEMENT_GLOBAL | FETH_PLACEMENT_PERSISTENT] =
			ACCESS_FLUSH_GLOBAL | ACCESS_FLUSH_PERSISTENT,
	};
	unsigned int needed = access[packet_flush_placement(packet)];
	bool reserved = packet_flush_selectivity(packet) > FETH_SELECTIVITY_MR;

	return !needed || reserved ? UINT_MAX : needed;
}

/*
 * All data of earlier requests is in memory, since each is placed when its packet is executed.
 * What is left is that every processor sees it. Of FLUSHes alone Linux rxe has more under way
 * than max_dest_rd_atomic: the first one too many, which hasn't been executed, has to come again.
 */
static enum responder_fault execute_flush(struct qp *qp, const struct packet *packet)
{
	struct responder *resp = &qp->responder;
	const struct reth *reth = packet_reth(packet);
	uint32_t length = be32toh(reth->length), rkey = be32toh(reth->rkey);
	unsigned int access = flush_access(packet);
	struct responder_resource *resource;

	if (packet_flush_selectivity(packet) == FETH_SELECTIVITY_MR) {
		if (!message_remote_allowed(qp, rkey, access))
			return RESPONDER_FAULT_KEY;
	} else {
		if (length > WIRE_MESSAGE_MAX)
			return RESPONDER_FAULT_LENGTH; /* IBA 9.7.4.1.6 */
		if (!message_remote_memory(&resp->message, qp, rkey, be64toh(reth->va), length,
					   access))
			return RESPONDER_FAULT_KEY;
	}
	resource = response_new_resource(&resp->response);
	if (!resource)
		return RESPONDER_FAULT_BUSY;
	fence_all();
	qp_show_received(qp, 0);
	accept_request(qp, packet, resource, 1);
	return RESPONDER_FAULT_NONE;
}

/* ------------------------------------------------------------------------------------- */

enum responder_fault rd_atomic_execute(struct qp *qp, const struct packet *packet)
{
	placement_finish(qp->hca);
	switch (packet->op->flags & RD_ATOMIC) {
	case OPCODE_READ:
		return execute_read(qp, packet);
	case OPCODE_ATOMIC:
		return execute_atomic(qp, packet);
	case OPCODE_FLUSH:
		return execute_flush(qp, packet);
	default:
		return execute_atomic_write(qp, packet);
	}
}
