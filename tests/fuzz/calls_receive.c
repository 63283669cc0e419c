/* SPDX-License-Identifier: BSD-2-Clause */
/* Receives, of queue pairs and of shared queues. */
#include <errno.h>

#include "calls.h"

struct staged_receive {
	struct ibv_recv_wr wr;
	struct ibv_sge sges[SGES_MAX];
	uint32_t index;
};

static void stage_receive(struct world *world, struct staged_receive *staged,
			  const struct fuzz_qp *qp, const struct fuzz_srq *srq)
{
	uint8_t choice = input_u8(&world->input);
	unsigned int count = choice >> 4 & 1 ? 2 : 1;
	/* Zeros choose what takes most. */
	uint32_t length = lengths[LENGTHS - 1 - (choice & 15) % LENGTHS];
	struct naming naming;
	struct work *work;
	uint64_t place;
	uint32_t lkey;

	if ((choice & 0xe0) == 0xe0)
		count = choice & 1 ? SGES_MAX : 0;
	*staged = (struct staged_receive){.index = world->work_count};
	work = new_work(world, qp, srq);
	lkey = pick_lkey(world, &naming);
	place = place_of(staged->index, naming, &length);
	work->length = count ? length : 0;
	cut(staged->sges, count, place, length, lkey);
	staged->wr = (struct ibv_recv_wr){
		.wr_id = staged->index, .sg_list = staged->sges, .num_sge = count};
}

/*
 * @max_sge: negative if none is accepted. @space: so many at least, more if some of those
 * that are outstanding have been taken by messages.
 */
static void check_receives(struct world *world, struct staged_receive *list, unsigned int count,
			   int max_sge, unsigned int space, int error, struct ibv_recv_wr *bad)
{
	unsigned int accepted = 0;

	while (accepted < count && (!error || bad != &list[accepted].wr)) {
		must(list[accepted].wr.num_sge <= max_sge);
		world->works[list[accepted++].index].state = WORK_OUT;
	}
	must(error == 0 || accepted < count);
	if (error)
		must(list[accepted].wr.num_sge > max_sge || (accepted >= space && error == ENOMEM));
	note_overruns(world);
}

static struct ibv_recv_wr *stage_receives(struct world *world, struct staged_receive *list,
					  unsigned int count, const struct fuzz_qp *qp,
					  const struct fuzz_srq *srq)
{
	for (unsigned int i = 0; i < count; i++) {
		stage_receive(world, &list[i], qp, srq);
		if (i)
			list[i - 1].wr.next = &list[i].wr;
	}
	return &list[0].wr;
}

void call_post_recv(struct world *world)
{
	struct fuzz_qp *qp = PICK(world, qps);
	unsigned int count = 1 + input_u8(&world->input) % LIST_MAX, space;
	struct staged_receive list[LIST_MAX];
	struct ibv_recv_wr *bad = NULL, *wr;
	bool refuses;
	int error;

	if (!qp || !has_space(world))
		return;
	refuses = !qp->recv_cq || qp->srq || qp->state == IBV_QPS_RESET;
	space = qp->cap.max_recv_wr - count_out(world, qp, false);
	wr = stage_receives(world, list, count, qp, NULL);
	error = ibv_post_recv(qp->ibv, wr, &bad);
	check_receives(world, list, count, refuses ? -1 : (int)qp->cap.max_recv_sge,
		       (int)space < 0 ? 0 : space, error, bad);
}

void call_post_srq_recv(struct world *world)
{
	struct fuzz_srq *srq = PICK(world, srqs);
	unsigned int count = 1 + input_u8(&world->input) % LIST_MAX, out;
	struct staged_receive list[LIST_MAX];
	struct ibv_recv_wr *bad = NULL, *wr;
	int error;

	if (!srq || !has_space(world))
		return;
	out = count_out_srq(world, srq);
	wr = stage_receives(world, list, count, NULL, srq);
	error = ibv_post_srq_recv(srq->ibv, wr, &bad);
	check_receives(world, list, count, srq->max_sge, out < srq->max_wr ? srq->max_wr - out : 0,
		       error, bad);
}
