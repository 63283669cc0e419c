/* SPDX-License-Identifier: BSD-2-Clause */
#include "emu/objects/qp_show.h"

#include <errno.h>
#include <string.h>

#include "emu/objects/cq.h"
#include "emu/objects/srq.h"
#include "net/cause/cause.h"
#include "net/observe/observe.h"

/* Readers know the states of the core by their numbers alone, as net/observe/record.h has them. */
#define X(name, word) SHOWN_##name,
enum { OBSERVE_RECOVERY(X) SHOWN_RECOVERY_STATES };
enum { OBSERVE_ARMED(X) };
#undef X
#define X(name, word) _Static_assert((int)SHOWN_##name == (int)name, "in the core's order");
OBSERVE_RECOVERY(X)
OBSERVE_ARMED(X)
#undef X
_Static_assert((int)SHOWN_RECOVERY_STATES == (int)RECOVERY_STATES, "all of them");

int qp_show_create(struct qp *qp)
{
	struct hca *hca = qp->hca;

	qp->observed = observe_claim(hca->observe, OBSERVE_QP, hca->observed->head.id);
	if (!qp->observed)
		return refuse(ENOMEM, CAUSE_OUT_OF_MEMORY, "for a queue pair");
	qp->observed->number = qp->number;
	qp->observed->type = qp->type->ibv;
	qp->observed->max_send_wr = qp->cap.max_send_wr;
	qp->observed->max_recv_wr = qp->cap.max_recv_wr;
	qp->observed->send_cq = qp->send_cq ? qp->send_cq->handle : 0;
	qp->observed->recv_cq = qp->recv_cq ? qp->recv_cq->handle : 0;
	qp->observed->srq = qp->srq ? qp->srq->handle : 0;
	qp_show_attributes(qp);
	qp_show_progress(qp);
	observe_show(hca->observe, qp->observed);
	return 0;
}

/* Other queue pairs of the device may be destroyed at the same time. */
static void add_to_sum(uint64_t *sum, uint64_t more)
{
	__atomic_fetch_add(sum, more, __ATOMIC_RELAXED);
}

/* What it has done is the device's from now on. */
void qp_show_destroy(struct qp *qp)
{
	const struct observe_totals *done = &qp->observed->done;
	struct observe_totals *sum = &qp->hca->observed->destroyed;

	add_to_sum(&sum->traffic.sent_messages, done->traffic.sent_messages);
	add_to_sum(&sum->traffic.sent_bytes, done->traffic.sent_bytes);
	add_to_sum(&sum->traffic.received_messages, done->traffic.received_messages);
	add_to_sum(&sum->traffic.received_bytes, done->traffic.received_bytes);
#define X(name) add_to_sum(&sum->losses.name, done->losses.name);
	OBSERVE_LOSSES(X)
#undef X
	observe_free(qp->hca->observe, OBSERVE_QP, qp->observed);
	qp->observed = NULL;
}

void qp_show_attributes(struct qp *qp)
{
	struct observe_qp *observed = qp->observed;

	observed->port = qp->attr.port_num;
	observed->mtu = qp->mtu;
	observed->timeout = qp->attr.timeout;
	observed->retry_count = qp->attr.retry_cnt;
	observed->rnr_retry = qp->attr.rnr_retry;
	observed->min_rnr_timer = qp->attr.min_rnr_timer;
	if (!qp->type->connected)
		return;
	observed->peer_qpn = qp->attr.dest_qp_num;
	memcpy(observed->local, qp->path.source.raw, sizeof(observed->local));
	memcpy(observed->peer, qp->path.destination.raw, sizeof(observed->peer));
}

void qp_show_error(struct qp *qp, const struct ibv_wc *wc)
{
	qp->observed->error_status = wc->status;
	qp->observed->error_cause = wc->vendor_err;
	qp->observed->error_at = qp->now;
	qp->observed->errors++;
}

/* --- what was done ---------------------------------------------------------------------- */

static enum observe_class class_of(const struct request_kind *kind)
{
	switch (kind->completion) {
	case IBV_WC_SEND:
		return OBSERVE_SEND;
	case IBV_WC_RDMA_WRITE:
		return OBSERVE_WRITE;
	case IBV_WC_RDMA_READ:
		return OBSERVE_READ;
	case IBV_WC_COMP_SWAP:
	case IBV_WC_FETCH_ADD:
		return OBSERVE_ATOMIC;
	default:
		return OBSERVE_OTHER;
	}
}

static void measure(struct qp *qp, const struct send_wqe *wqe)
{
	struct observe_latency *latency = &qp->hca->observed->latency[class_of(wqe->kind)];
	uint64_t time = qp->now - wqe->posted_at, longest = atomic_load(&latency->longest);
	unsigned int bucket = time ? 63 - __builtin_clzll(time) : 0;

	if (bucket >= OBSERVE_BUCKETS)
		bucket = OBSERVE_BUCKETS - 1;
	atomic_fetch_add(&latency->bytes, wqe->length);
	atomic_fetch_add(&latency->total, time);
	atomic_fetch_add(&latency->bucket[bucket], 1);
	while (time > longest && !atomic_compare_exchange_weak(&latency->longest, &longest, time))
		;
}

void qp_show_request(struct qp *qp, const struct send_wqe *wqe)
{
	struct observe_traffic *traffic = &qp->observed->done.traffic;
	bool reads = wqe->kind->data == DATA_READ || wqe->kind->data == DATA_ORIGINAL;

	if (qp->hca->measures)
		measure(qp, wqe);
	if (wqe->kind->flags & REQUEST_LOCAL)
		return;
	*(reads ? &traffic->received_messages : &traffic->sent_messages) += 1;
	*(reads ? &traffic->received_bytes : &traffic->sent_bytes) += wqe->length;
}
