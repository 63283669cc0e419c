/* SPDX-License-Identifier: BSD-2-Clause */
/* Which work requests are outstanding, and what sends and receives pick alike. */
#include <errno.h>

#include "calls.h"

struct work *new_work(struct world *world, const struct fuzz_qp *qp, const struct fuzz_srq *srq)
{
	struct work *work = &world->works[world->work_count];

	must(world->work_count < WORKS_MAX);
	*work = (struct work){.qp = qp, .srq = srq};
	memset(arena.places[world->work_count], 0, PLACE_SIZE);
	memset(arena.slots[world->work_count++], 0, SLOT_SIZE);
	return work;
}

bool has_space(const struct world *world)
{
	return world->work_count + 2 * LIST_MAX <= WORKS_MAX;
}

unsigned int count_out(const struct world *world, const struct fuzz_qp *qp, bool sends)
{
	unsigned int count = 0;

	for (uint32_t i = 0; i < world->work_count; i++)
		count += world->works[i].state == WORK_OUT && world->works[i].qp == qp &&
			 world->works[i].is_send == sends;
	return count;
}

unsigned int count_signaled(const struct world *world, const struct fuzz_qp *qp)
{
	unsigned int count = 0;

	for (uint32_t i = 0; i < world->work_count; i++)
		count += world->works[i].state == WORK_OUT && world->works[i].qp == qp &&
			 world->works[i].is_send && world->works[i].signaled;
	return count;
}

unsigned int count_out_srq(const struct world *world, const struct fuzz_srq *srq)
{
	unsigned int count = 0;

	for (uint32_t i = 0; i < world->work_count; i++)
		count += world->works[i].state == WORK_OUT && world->works[i].srq == srq;
	return count;
}

void forget_works(struct world *world, const struct fuzz_qp *qp, const struct fuzz_srq *srq)
{
	for (uint32_t i = 0; i < world->work_count; i++) {
		struct work *work = &world->works[i];

		if (work->state != WORK_OUT || work->qp != qp || work->srq != srq)
			continue;
		work->state = srq && srq->cq ? WORK_ORPHAN : WORK_GONE;
		work->cq = srq ? srq->cq : NULL;
	}
}

/* --- memory ---------------------------------------------------------------------------- */

const uint32_t lengths[LENGTHS] = {8, 0, 1, 100, 256, 300, 1024, 2000, 4096, SLOT_SIZE};

uint32_t pick_lkey(struct world *world, struct naming *naming)
{
	uint8_t choice = input_u8(&world->input);
	struct fuzz_mr *mr = &world->mrs[choice % MRS];
	const bool is_there = choice < 0xf0 && mr->ibv;

	*naming = is_there ? mr->naming : (struct naming){};
	return is_there ? mr->ibv->lkey : choice;
}

uint64_t place_of(uint32_t index, struct naming naming, uint32_t *length)
{
	if (!naming.is_dm)
		return address_of(arena.slots[index], naming);
	if (*length > PLACE_SIZE)
		*length = PLACE_SIZE;
	return address_of(arena.places[index], naming);
}

/* One range in @count pieces, one behind the other. */
void cut(struct ibv_sge *sges, unsigned int count, uint64_t addr, uint32_t length, uint32_t lkey)
{
	for (unsigned int i = 0; i < count; i++) {
		uint32_t piece = i + 1 < count ? length / 3 : length;

		sges[i] = (struct ibv_sge){.addr = addr, .length = piece, .lkey = lkey};
		addr += piece;
		length -= piece;
	}
}

/* --- queues that are empty ------------------------------------------------------------------ */

static void refill_sends(struct world *world, struct fuzz_qp *qp)
{
	uint32_t space = qp->cap.max_send_wr - count_out(world, qp, true);
	struct ibv_send_wr *bad;

	for (uint32_t i = 0; i <= space; i++) {
		struct ibv_send_wr wr = {.wr_id = world->work_count, .opcode = IBV_WR_SEND};
		struct work *work = new_work(world, qp, NULL);
		int error = ibv_post_send(qp->ibv, &wr, &bad);

		must(error == (i < space ? 0 : ENOMEM));
		work->is_send = work->signaled = true; /* in ERR all complete */
		work->opcode = IBV_WR_SEND;
		work->state = error ? WORK_NONE : WORK_OUT;
	}
}

static void refill_receives(struct world *world, struct fuzz_qp *qp)
{
	struct ibv_recv_wr *bad;

	for (uint32_t i = 0; i < qp->cap.max_recv_wr; i++) {
		struct ibv_recv_wr wr = {.wr_id = world->work_count};

		new_work(world, qp, NULL)->state = WORK_OUT;
		must(ibv_post_recv(qp->ibv, &wr, &bad) == 0);
	}
}

void refill(struct world *world, struct fuzz_qp *qp)
{
	if (world->work_count + qp->cap.max_send_wr + 1 + qp->cap.max_recv_wr > WORKS_MAX)
		return;
	if (qp->send_cq && qp->type != IBV_QPT_UD)
		refill_sends(world, qp);
	if (qp->recv_cq && !qp->srq)
		refill_receives(world, qp);
	note_overruns(world);
}
