/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The receive context of a QP: the inbound SEND or RDMA WRITE in progress, the receive
 * that it fills, the memory it goes to and how much of it is in place. The responder
 * (emu/transport/responder.c) checks a packet, has its payload placed here, and completes
 * what is taken from here; nothing here calls back. Under qp.lock.
 *
 * One region or window stays pinned from packet to packet, as neighbours tend to
 * go to the same one; until the QP's lock is released and no longer, so that
 * deregistering memory needn't wait for the network.
 */
#ifndef URXE_EMU_MESSAGE_H
#define URXE_EMU_MESSAGE_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "emu/objects/mr.h"
#include "emu/transport/receive_queue.h"
#include "net/wire/wire.h"

struct packet;
struct qp;

/*
 * How a request fails at the responder, in the order in which the specification checks (IBA 9.7.4);
 * what becomes of each is a line of responder.c (IBA 9.9.3). Faults that are injected are
 * net/fault's.
 */
enum responder_fault {
	RESPONDER_FAULT_NONE,
	RESPONDER_FAULT_SEQUENCE,	/* an opcode that can't follow the one before */
	RESPONDER_FAULT_QP_ACCESS,	/* the QP doesn't allow this kind of access */
	RESPONDER_FAULT_XRC,		/* an XRCETH that names no SRQ of the QP's domain */
	RESPONDER_FAULT_RESOURCES,	/* more READs and atomics than max_dest_rd_atomic */
	RESPONDER_FAULT_BUSY,		/* so many FLUSHes: no error, but it has to come again */
	RESPONDER_FAULT_NO_RECEIVE,	/* no receive is posted: RNR */
	RESPONDER_FAULT_LENGTH,		/* payload against opcode, pad, or RETH length */
	RESPONDER_FAULT_KEY,		/* R_Key, bounds or access of remote memory */
	RESPONDER_FAULT_ALIGNMENT,	/* atomics: 8-byte alignment */
	RESPONDER_FAULT_RECEIVE_LENGTH, /* a SEND longer than its receive */
	/* L_Key, bounds or access of the receive's SGEs, or their memory is gone */
	RESPONDER_FAULT_RECEIVE_KEY,
	/* remote memory that is gone: mr_write(); or another process's CQ is full */
	RESPONDER_FAULT_MEMORY,
	RESPONDER_FAULT_INVALIDATE, /* SEND with invalidate of what can't be invalidated */
	RESPONDER_FAULT_INJECTED,   /* a receive that is to fail: emu/inject/request.h */
	/* No faults: an SRQ that isn't ours, but may be another process's; which is being asked. */
	RESPONDER_FAULT_ELSEWHERE,
	RESPONDER_FAULT_WAIT,
	RESPONDER_FAULT_COUNT
};

/* What an error of mr_write() or its like is. */
static inline enum responder_fault memory_fault(int error)
{
	return error == EFAULT ? RESPONDER_FAULT_MEMORY : RESPONDER_FAULT_KEY;
}

enum message_kind { MESSAGE_NONE, MESSAGE_SEND, MESSAGE_WRITE };

struct message {
	enum message_kind kind; /* MESSAGE_NONE: between two messages */
	uint64_t received;	/* bytes in place */

	bool has_receive; /* wqe is the receive that the message fills */
	struct receive_wqe wqe;
	struct ibv_sge *sges;
	enum ibv_wc_status injected; /* RESPONDER_FAULT_INJECTED: how it is to fail */
	uint64_t late;		     /* by how much its completion is; ns */

	uint64_t va; /* RDMA WRITE: what its RETH says */
	uint32_t rkey, length;

	struct mr_pin pin; /* of what was accessed last; mr_repin() */

	struct srq *srq;     /* XRC: referenced while packets are received (emu/transport/xrc.h) */
	uint32_t srq_number; /* likewise, and kept */
};

/* Memory for @max_sge receive SGEs. Returns 0 or ENOMEM. */
int message_init(struct message *message, uint32_t max_sge);
void message_destroy(struct message *message);
void message_reset(struct message *message);

/* Whether the opcode of @packet may come now, IBA 9.7.4.1.2. */
bool message_continues(const struct message *message, const struct packet *packet);

/* The protection domain of the memory that the peer of @qp names, and of that of its receives. */
const struct pd *message_pd(const struct message *message, const struct qp *qp);
const struct pd *message_receive_pd(const struct message *message, const struct qp *qp);

/* Take a receive of @qp or its SRQ for the message, which has none. False: none is posted. */
bool message_take_receive(struct message *message, struct qp *qp);

/*
 * The payload of a SEND or RDMA WRITE packet goes where the message has got to, if
 * there it may. A FIRST packet begins the message.
 */
enum responder_fault message_place(struct message *message, const struct qp *qp,
				   const struct packet *packet);

/*
 * Place the payload of a MIDDLE packet of the SEND or RDMA WRITE in progress that arrived @ahead
 * packets early, if nothing speaks against it. Not that of a LAST one: programs wait for the last
 * byte of a message to change. Returns whether it was placed; else that is left until those before
 * it have come.
 */
bool message_place_early(struct message *message, const struct qp *qp, const struct packet *packet,
			 uint32_t ahead);

/*
 * A UD message: header and payload go to the receive, but for the first @skipped bytes of the
 * header. RESPONDER_FAULT_RECEIVE_LENGTH if the two are longer.
 */
enum responder_fault message_place_datagram(struct message *message, const struct qp *qp,
					    const uint8_t grh[GRH_LENGTH], uint32_t skipped,
					    const struct packet *packet);

/*
 * Memory that the peer of @qp names by an R_Key: its address, or NULL. It stays pinned as
 * the message's own does.
 */
uint8_t *message_remote_memory(struct message *message, const struct qp *qp, uint32_t rkey,
			       uint64_t va, uint64_t length, int access);

/* Whether the peer of @qp has @access to all that an R_Key names. */
bool message_remote_allowed(const struct qp *qp, uint32_t rkey, int access);
/* Likewise for a request that transfers nothing: as the card has it. */
bool message_nothing_allowed(const struct qp *qp, uint32_t rkey, int access);

/* Unpin what is pinned. */
void message_unpin(struct message *message, struct hca *hca);

/*
 * The message is over, complete or given up. A receive that it had taken and that
 * wasn't completed stays, for the next message to fill from its start (UC, IBA 9.8.2.2.1).
 */
void message_end(struct message *message);

#endif
