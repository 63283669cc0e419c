/* SPDX-License-Identifier: BSD-2-Clause */
#include "emu/transport/read_cut.h"

#include "emu/objects/qp.h"
#include "emu/transport/destination.h"
#include "net/tuning.h"

/*
 * How many packets to ask for at once. The FIRST and LAST of the responses are longer than the
 * others. So the LAST of one request, the FIRST and a MIDDLE of the next are one GSO train for the
 * link, and then come whole GSO trains: as many as let the window have space for several such
 * requests. Where max_rd_atomic allows few requests at once, as many packets as it takes to fill
 * the window with them.
 */
static uint32_t cut_size(const struct qp *qp, uint64_t packet_cost)
{
	uint32_t train = link_train_packets(sizeof(struct bth) + qp->mtu + ICRC_LENGTH);
	uint64_t window = destination_limit(qp->recovery.destination) / packet_cost;
	uint64_t size = window / READ_CHUNKS, share = window / qp->attr.max_rd_atomic;

	if (size > 3 + READ_CHUNK_TRAINS * train)
		size = 3 + READ_CHUNK_TRAINS * train;
	if (size > 3 + train)
		size -= (size - 3) % train;
	if (size < share)
		size = share;
	return size > READ_CHUNK_LEAST ? size : READ_CHUNK_LEAST;
}

void read_cut_begin(const struct qp *qp, struct send_wqe *wqe)
{
	wqe->cuts[1] = (struct read_cut){.size = cut_size(qp, wqe->packet_cost)};
	wqe->read_in_parts = false;
}

void read_cut_anew(const struct qp *qp, struct send_wqe *wqe)
{
	const struct requester *req = &qp->requester;
	struct read_cut *cuts = wqe->cuts;
	uint32_t index = psn_distance(req->psn, wqe->first_psn);
	uint32_t size;

	if (!wqe->started || req->psn != req->highest)
		return;
	if (index > cuts[1].from &&
	    psn_distance(req->unacked, psn_add(wqe->first_psn, cuts[1].from)) < 0)
		return;
	size = cut_size(qp, wqe->packet_cost);
	if (size == cuts[1].size)
		return;
	if (index > cuts[1].from)
		cuts[0] = cuts[1];
	cuts[1] = (struct read_cut){.from = index, .size = size};
}
