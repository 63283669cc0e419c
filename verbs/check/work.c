/* SPDX-License-Identifier: BSD-2-Clause */
/* Records of posted work: verbs/check/work.h. */
#include "verbs/check/work.h"

#include <pthread.h>
#include <stdlib.h>
#include <utlist.h>

#include "emu/hca.h"
#include "emu/objects/cq.h"
#include "emu/objects/qp.h"
#include "emu/objects/srq.h"
#include "emu/transport/request_kind.h"
#include "net/cause/origin.h"
#include "verbs/check/check.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
struct work_lists work_lists;

void work_lock(void)
{
	pthread_mutex_lock(&lock);
}

void work_unlock(void)
{
	pthread_mutex_unlock(&lock);
}

/* Whether this thread is in malloc() or free(), whose locks it may hold: for each work request. */
static _Thread_local volatile bool allocates __attribute__((tls_model("initial-exec")));

bool work_can_lock(void)
{
	return !allocates && check_can_take(&lock);
}

/* --- records ------------------------------------------------------------------------------ */

/* Of an SGE list; NULL without memory: that request isn't watched. */
static struct work *work_make(struct hca *hca, const struct pd *pd, const struct ibv_sge *sges,
			      int count)
{
	struct work *work;
	struct origin *posted;

	allocates = true;
	work = calloc(1, sizeof(*work) + count * sizeof(*work->parts));
	posted = work ? origin_capture() : NULL;
	allocates = false;
	if (!work)
		return NULL;
	work->hca = hca;
	work->pd = pd;
	work->posted = posted;
	for (int i = 0; i < count; i++)
		work->parts[work->num_parts++].sge = sges[i];
	return work;
}

static void work_free(struct work *work)
{
	allocates = true;
	origin_free(work->posted);
	free(work);
	allocates = false;
}

static void free_list(struct work *list)
{
	struct work *work, *next;

	DL_FOREACH_SAFE (list, work, next)
		work_free(work);
}

/* --- the completion queue that it would complete to ---------------------------------------- */

/* With work.lock. @n: 1 or -1. */
static void count_work(const struct work *work, int n)
{
	const struct qp *qp = work->qp;
	struct cq *cq = !qp ? NULL : work->receive ? qp->recv_cq : qp->send_cq;
	struct work_cq *of = cq ? cq->watched : NULL;

	if (!of)
		return;
	if (work->receive)
		of->receives += n;
	else
		of->sends += n;
	if (!work->receive && !work->signaled)
		of->unsignaled += n;
}

static void append(struct work **list, struct work *work)
{
	DL_APPEND(*list, work);
	count_work(work, 1);
}

/* It takes no entry of a completion queue any more, though the application can't know yet. */
static bool ended_unsignaled(const struct work *work)
{
	return work->done && !work->signaled && !work->receive;
}

/* It leaves its list. */
static void uncount_work(const struct work *work)
{
	if (!ended_unsignaled(work))
		count_work(work, -1);
}

static struct work *take_oldest(struct work **list)
{
	struct work *work = *list;

	if (!work)
		return NULL;
	DL_DELETE(*list, work);
	uncount_work(work);
	return work;
}

/* --- posted ------------------------------------------------------------------------------- */

static struct work *make_send(struct qp *qp, const struct ibv_send_wr *wr)
{
	const struct request_kind *kind = request_kind_find(wr->opcode);
	bool copied = wr->send_flags & IBV_SEND_INLINE || kind->data == DATA_NONE;
	struct work *work = work_make(qp->hca, qp->pd, wr->sg_list, copied ? 0 : wr->num_sge);

	if (!work)
		return NULL;
	work->qp = qp;
	work->wr_id = wr->wr_id;
	work->operation = kind->name;
	work->signaled = qp->signal_all || wr->send_flags & IBV_SEND_SIGNALED;
	/* What a READ fills isn't compared. */
	if (kind->data == DATA_SENT)
		work_sum(work);
	return work;
}

static void sends_posted(struct qp *qp, const struct ibv_send_wr *wr, const struct ibv_send_wr *end)
{
	struct work_qp *of = qp->watched;
	bool any = wr != end;

	for (; of && wr != end; wr = wr->next) {
		struct work *work = make_send(qp, wr);

		if (!work)
			continue;
		work_lock();
		append(&of->sends, work);
		if (!of->undone)
			of->undone = work;
		of->unsignaled = work->signaled ? 0 : of->unsignaled + 1;
		work_unlock();
	}
	if (of && any)
		work_check_posted(qp, false);
}

static struct work *make_receive(struct hca *hca, const struct pd *pd, const struct ibv_recv_wr *wr)
{
	struct work *work = work_make(hca, pd, wr->sg_list, wr->num_sge);

	if (!work)
		return NULL;
	work->wr_id = wr->wr_id;
	work->operation = "receive";
	work->receive = true;
	work_sum(work);
	return work;
}

static void receives_posted(struct qp *qp, const struct ibv_recv_wr *wr,
			    const struct ibv_recv_wr *end)
{
	struct work_qp *of = qp->watched;
	bool any = wr != end;

	for (; of && wr != end; wr = wr->next) {
		struct work *work = make_receive(qp->hca, qp->pd, wr);

		if (!work)
			continue;
		work->qp = qp;
		work_lock();
		append(&of->receives, work);
		work_unlock();
	}
	if (of && any)
		work_check_posted(qp, true);
}

/* The first post makes it; NULL without memory. */
static struct work_srq *srq_of(struct srq *srq)
{
	struct work_srq *of = srq->watched;

	if (of)
		return of;
	of = calloc(1, sizeof(*of));
	if (!of)
		return NULL;
	of->srq = srq;
	work_lock();
	DL_APPEND(work_lists.srqs, of);
	work_unlock();
	srq->watched = of;
	return of;
}

static void srq_receives_posted(struct srq *srq, const struct ibv_recv_wr *wr,
				const struct ibv_recv_wr *end)
{
	struct work_srq *of = srq_of(srq);

	for (; of && wr != end; wr = wr->next) {
		struct work *work = make_receive(srq->hca, srq->pd, wr);

		if (!work)
			continue;
		work->srq = srq;
		work_lock();
		append(&of->receives, work);
		work_unlock();
	}
}

/* --- on its way ----------------------------------------------------------------------------- */

/*
 * What it holds is looked at before the message comes. A QP of another process isn't ours to watch.
 */
static void receive_taken(struct qp *qp, struct srq *srq)
{
	struct work_qp *of = qp->watched;
	struct work_srq *of_srq = srq ? srq->watched : NULL;
	struct work **list = of_srq ? &of_srq->receives : of && !srq ? &of->receives : NULL;
	struct work *work;

	if (!list)
		return;
	work_lock();
	work = *list;
	if (work)
		DL_DELETE(*list, work);
	work_unlock();
	if (!work)
		return;
	work_compare(work);
	if (!of) {
		work_free(work);
		return;
	}
	work_lock();
	DL_APPEND(of->taken, work);
	work_unlock();
}

static void send_done(struct qp *qp)
{
	struct work_qp *of = qp->watched;
	struct work *work;

	if (!of)
		return;
	work_lock();
	work = of->undone;
	if (work) {
		work->done = true;
		of->undone = work->next;
		if (ended_unsignaled(work))
			count_work(work, -1);
	}
	work_unlock();
}

/* A queue pair fills one receive at a time. */
static struct work *newest(struct work *list)
{
	return list ? list->prev : NULL; /* utlist */
}

/* A completion of XRC names no queue pair: its record ends here. */
static void receive_done(struct qp *qp)
{
	struct work_qp *of = qp->watched;
	struct work *work;

	if (!of)
		return;
	work_lock();
	work = newest(of->taken);
	if (work)
		work->done = true;
	if (work && qp->xrc_domain)
		DL_DELETE(of->taken, work);
	work_unlock();
	if (work && qp->xrc_domain)
		work_free(work);
}

/* --- completed, and known to the application ------------------------------------------------- */

static void polling(struct cq *cq)
{
	struct work_cq *of = cq->watched;

	if (!of)
		return;
	work_lock();
	of->polls++;
	work_unlock();
}

static void arming(struct cq *cq)
{
	struct work_cq *of = cq->watched;

	if (!of)
		return;
	work_lock();
	of->arms++;
	of->taker = 0;
	work_unlock();
}

static void end_sends(struct work_qp *of, uint32_t count)
{
	for (; count; count--) {
		struct work *work;

		work_lock();
		work = take_oldest(&of->sends);
		/* There was no memory for a record of an earlier one. */
		if (work && work == of->undone)
			of->undone = work->next;
		work_unlock();
		if (!work)
			return;
		work_compare(work);
		work_free(work);
	}
}

static void end_receive(struct work_qp *of)
{
	struct work *work;

	work_lock();
	work = take_oldest(&of->taken);
	work_unlock();
	if (work)
		work_free(work);
}

static void polled(struct cq *cq, const struct completion *completion)
{
	struct work_qp *of = completion->qp ? completion->qp->watched : NULL;

	if (!of)
		return;
	if (completion->send_slots)
		end_sends(of, completion->send_slots);
	else
		end_receive(of);
	work_check_polled(cq, completion);
}

/* --- objects ------------------------------------------------------------------------------- */

static void qp_created(struct qp *qp)
{
	struct work_qp *of = calloc(1, sizeof(*of));

	if (!of)
		return;
	of->qp = qp;
	work_lock();
	DL_APPEND(work_lists.qps, of);
	work_unlock();
	qp->watched = of;
}

static void discard(struct work **list)
{
	struct work *work;

	DL_FOREACH (*list, work)
		uncount_work(work);
	free_list(*list);
	*list = NULL;
}

static void forget_error(struct work_qp *of)
{
	origin_free(of->error.polled);
	of->error = (struct work_error){};
}

static void qp_reset_work(struct qp *qp)
{
	struct work_qp *of = qp->watched;

	if (!of)
		return;
	work_lock();
	discard(&of->sends);
	discard(&of->receives);
	discard(&of->taken);
	of->undone = NULL;
	of->unsignaled = 0;
	forget_error(of);
	work_unlock();
}

static void qp_modified(struct qp *qp)
{
	struct work_qp *of = qp->watched;

	if (!of)
		return;
	work_lock();
	forget_error(of);
	work_unlock();
}

static void qp_destroyed(struct qp *qp)
{
	struct work_qp *of = qp->watched;

	if (!of)
		return;
	work_lock();
	DL_DELETE(work_lists.qps, of);
	work_unlock();
	work_tell_missing(of);
	qp->watched = NULL;
	free(of);
}

static void receive_missing(struct qp *qp)
{
	struct work_qp *of = qp->watched;

	if (!of)
		return;
	work_lock();
	of->missing++;
	work_unlock();
}

static void srq_destroyed(struct srq *srq)
{
	struct work_srq *of = srq->watched;

	if (!of)
		return;
	work_lock();
	DL_DELETE(work_lists.srqs, of);
	free_list(of->receives);
	work_unlock();
	srq->watched = NULL;
	free(of);
}

static const struct work_watch watch = {
	.qp_created = qp_created,
	.qp_destroyed = qp_destroyed,
	.cq_created = work_cq_created,
	.cq_destroyed = work_cq_destroyed,
	.srq_destroyed = srq_destroyed,
	.qp_modified = qp_modified,
	.qp_reset = qp_reset_work,
	.receive_missing = receive_missing,
	.sends_posted = sends_posted,
	.receives_posted = receives_posted,
	.srq_receives_posted = srq_receives_posted,
	.send_refused = work_send_refused,
	.receive_refused = work_receive_refused,
	.receive_taken = receive_taken,
	.send_done = send_done,
	.receive_done = receive_done,
	.polling = polling,
	.arming = arming,
	.polled = polled,
	.written = work_written,
	.key_ends = work_key_ends,
};

const struct work_watch *work_watch(void)
{
	return check_is_on() ? &watch : NULL;
}

/* --- forks and the end ------------------------------------------------------------------------ */

void work_before_fork(void)
{
	work_events_before_fork();
	work_lock();
}

void work_after_fork(void)
{
	work_unlock();
	work_events_after_fork();
}

void work_after_fork_child(void)
{
	work_lists = (struct work_lists){};
	work_unlock();
	work_events_after_fork_child();
}

void work_at_exit(void)
{
	struct work_qp *of;

	work_lock();
	DL_FOREACH (work_lists.qps, of)
		work_tell_missing(of);
	work_unlock();
}
