/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The packets that one round of work produces, on their way to the link as a
 * batch. The thread that does the work has an outbox from the HCA's pool meanwhile,
 * since it is larger than the stack that applications may give to their threads. It
 * is filled by the requester and the responder of one QP after another, and is
 * flushed before the lock of the QP that filled it is released: so packets of a QP
 * leave in order, and memory regions are pinned no longer than that.
 */
#ifndef URXE_EMU_OUTBOX_H
#define URXE_EMU_OUTBOX_H

#include "emu/objects/mr.h"
#include "net/link.h"

#define OUTBOX_PACKETS (4 * LINK_TRAIN_PACKETS)
#define OUTBOX_IOVS 320 /* iovecs and region pins; more than the SGEs of one packet */

#define OUTBOX_NO_PAGE UINTPTR_MAX /* no page has this number */

struct outbox {
	struct hca *hca;
	uint64_t now; /* the time of this round */
	unsigned int packets, iovs;
	bool sends_much; /* in hca.senders: it was full, and the round went on */
	struct outbox_train {
		unsigned int counted; /* of the packets: the last one isn't complete yet */
		uint32_t bytes;	      /* of those */
		unsigned int left;    /* so many more packets may join the last ones */
		uint32_t length;      /* of the first of those: no other may be longer */
	} train;
	struct link_packet packet[OUTBOX_PACKETS];
	struct iovec iov[OUTBOX_IOVS];
	/*
	 * pin[i] is to be undone with iov[i], if it has an address. One pin is enough
	 * for all neighbours in a region; @pinned, the latest, is tried first.
	 */
	struct mr_pin pin[OUTBOX_IOVS];
	const struct mr_pin *pinned; /* or NULL */
	uintptr_t probed;	     /* the number of the page that was found to be there last,
					or OUTBOX_NO_PAGE */
};

void outbox_init(struct outbox *outbox, struct hca *hca, uint64_t now);

/* An empty outbox, or NULL when there is no memory. It is empty again when it is put. */
struct outbox *outbox_get(struct hca *hca, uint64_t now);
void outbox_put(struct outbox *outbox);

/* Send everything and unpin the regions. */
void outbox_flush(struct outbox *outbox);

/*
 * A new packet with nothing in it. Flushes when the outbox is full, and before that where a
 * GSO train is complete and one call may not take another (SEND_BYTES): so that no train is cut in
 * two, and the receiver has something to do meanwhile.
 */
struct link_packet *outbox_packet(struct outbox *outbox, const struct path *path);

/* Whether the next packet begins a GSO train, however long it is. */
bool outbox_is_between_trains(struct outbox *outbox);

/* How many packets of @length it takes to complete a GSO train: the last one, or a new one. */
unsigned int outbox_train_left(struct outbox *outbox, uint32_t length);

/*
 * Make @length bytes at @offset of an SGE list the payload of @packet (the one
 * that outbox_packet() gave last). 0, EACCES, or EFAULT when the memory is gone (mr_probe()):
 * the packet is then withdrawn. Headers come first: this adds the pad count to the BTH.
 */
int outbox_gather(struct outbox *outbox, struct link_packet *packet, const struct pd *pd,
		  const struct ibv_sge *sge, uint32_t count, uint64_t offset, uint32_t length);

/*
 * The same with memory of @pd that @qp's peer asked for (READ), at least one byte. 0, or
 * EACCES or EFAULT: the packet is then withdrawn.
 */
int outbox_remote(struct outbox *outbox, struct link_packet *packet, const struct pd *pd,
		  const struct qp *qp, uint32_t rkey, uint64_t va, uint32_t length);

/* Make plain memory, such as inline data, the payload. */
void outbox_payload(struct outbox *outbox, struct link_packet *packet, const void *data,
		    uint32_t length);

/* Take back the packet that outbox_packet() gave last. */
void outbox_withdraw(struct outbox *outbox);

#endif
